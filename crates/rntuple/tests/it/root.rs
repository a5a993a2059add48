//! Files of ROOT: keys, directories, and ntuples in them.

use crate::made::{How, Type, file, value};
use crate::read::{numbers, values_of};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::checksum;
use dolmen_rntuple::format::locator::Locator;
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::rootfile::{Anchor, RootFile};
use dolmen_rntuple::{Entries, Error, Fault, Ntuple};
use std::path::PathBuf;

const HOW: How = How {
    compression: Compression::Zstd(1),
    elements_of_a_page: 3,
    entries_of_a_cluster: 5,
    clusters_of_a_group: 2,
    has_checksums: true,
};

/// Where a file of ROOT has its first key, by custom.
const FIRST: usize = 100;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("dolmen-rntuple-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn open(&self) -> dolmen_rntuple::Result<RootFile> {
        RootFile::open(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Ignored: a directory for what is thrown away.
        _ = std::fs::remove_file(&self.0);
    }
}

fn big<const N: usize>(mut little: [u8; N]) -> [u8; N] {
    little.reverse();
    little
}

/// A key of 4-byte places, as it stands before an object of `bytes` at `at`.
fn key(class: &str, name: &str, bytes: usize, at: usize, cycle: u16) -> Vec<u8> {
    let key_bytes = 26 + 3 + class.len() + name.len();
    let mut key = Vec::new();
    key.extend(big(u32::try_from(key_bytes + bytes).unwrap().to_le_bytes()));
    key.extend(big(4_u16.to_le_bytes()));
    key.extend(big(u32::try_from(bytes).unwrap().to_le_bytes()));
    key.extend([0; 4]);
    key.extend(big(u16::try_from(key_bytes).unwrap().to_le_bytes()));
    key.extend(big(cycle.to_le_bytes()));
    key.extend(big(u32::try_from(at).unwrap().to_le_bytes()));
    key.extend([0; 4]);
    for text in [class, name, ""] {
        key.push(u8::try_from(text.len()).unwrap());
        key.extend(text.as_bytes());
    }
    key
}

/// What a directory says of itself.
fn directory(keys_at: usize, keys_bytes: usize) -> Vec<u8> {
    let mut bytes = big(5_u16.to_le_bytes()).to_vec();
    bytes.extend([0; 8]);
    bytes.extend(big(u32::try_from(keys_bytes).unwrap().to_le_bytes()));
    bytes.extend([0; 4 + 4 + 4]);
    bytes.extend(big(u32::try_from(keys_at).unwrap().to_le_bytes()));
    bytes
}

fn anchor_object(anchor: &Anchor) -> Vec<u8> {
    let mut fields = Vec::new();
    anchor.version.iter().for_each(|number| fields.extend(big(number.to_le_bytes())));
    for link in [&anchor.header, &anchor.footer] {
        let Locator::File { offset, bytes } = link.locator else { panic!("it is in a file") };
        [offset, bytes, link.length_bytes].iter().for_each(|number| fields.extend(big(number.to_le_bytes())));
    }
    fields.extend(big((1_u64 << 30).to_le_bytes()));
    let mut object = big((0x4000_0000 | u32::try_from(fields.len() + 2).unwrap()).to_le_bytes()).to_vec();
    object.extend(big(2_u16.to_le_bytes()));
    object.extend(&fields);
    object.extend(big(checksum(&fields).to_le_bytes()));
    object
}

/// A file with objects in a directory `deep`, and none above it: class, name, cycle and object of each.
fn root_file(start: &[u8], objects: &[(&str, &str, u16, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = start.to_vec();
    let put = |bytes: &mut Vec<u8>, (class, name, cycle, object): (&str, &str, u16, &[u8])| {
        let key = key(class, name, object.len(), bytes.len(), cycle);
        bytes.extend(&key);
        bytes.extend(object);
        key
    };
    let list = |bytes: &mut Vec<u8>, keys: &[Vec<u8>]| {
        let contents: Vec<u8> =
            [&big(u32::try_from(keys.len()).unwrap().to_le_bytes())[..], &keys.concat()].concat();
        let at = bytes.len();
        put(bytes, ("TDirectory", "", 1, &contents));
        (at, bytes.len() - at)
    };
    let keys: Vec<_> = objects
        .iter()
        .map(|(class, name, cycle, object)| put(&mut bytes, (class, name, *cycle, object)))
        .collect();
    let (at, count) = list(&mut bytes, &keys);
    let deep = put(&mut bytes, ("TDirectory", "deep", 1, &directory(at, count)));
    let (at, count) = list(&mut bytes, &[deep]);
    let top = directory(at, count);
    let mut header = b"root".to_vec();
    for number in [61_400, FIRST] {
        header.extend(big(u32::try_from(number).unwrap().to_le_bytes()));
    }
    header.extend([0; 4 * 4]);
    header.extend([0; 4]);
    bytes[..header.len()].copy_from_slice(&header);
    bytes[FIRST..FIRST + top.len()].copy_from_slice(&top);
    bytes
}

fn made(of: &Type, count: usize, seed: u64) -> (Vec<u8>, Anchor, Vec<crate::made::Value>) {
    let values = values_of(of, count, &mut numbers(seed));
    let (bytes, anchor) = file(of, &values, HOW);
    (bytes, anchor, values)
}

#[test]
fn an_ntuple_in_a_directory_is_found_by_its_path_and_the_last_cycle_is_read() {
    let of = Type::List(ColumnKind::SplitIndex64, Box::new(Type::Number(ColumnKind::SplitReal64)));
    let (bytes, anchor, values) = made(&of, 23, 3);
    let mut damaged = anchor_object(&anchor);
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let objects = [
        ("ROOT::RNTuple", "events", 1, damaged.clone()),
        ("ROOT::RNTuple", "events", 2, anchor_object(&anchor)),
        ("ROOT::RNTuple", "damaged", 1, damaged),
        ("TH1D", "histogram", 1, vec![1, 2, 3]),
    ];
    let scratch = Scratch::new("found", &root_file(&bytes, &objects));
    let mut root = scratch.open().unwrap();
    assert_eq!(root.ntuples(), ["deep/damaged".into(), "deep/events".into()]);
    assert_eq!(root.keys().len(), 5);
    assert!(matches!(root.anchor("deep/damaged"), Err(Error::Corrupt { fault: Fault::Checksum, .. })));
    let Err(Error::NoNtuple { others, .. }) = root.anchor("events") else {
        panic!("there is none at the top")
    };
    assert_eq!(others.len(), 2);
    let anchor = root.anchor("deep/events").unwrap();
    let ntuple = Ntuple::open(root, &anchor).unwrap();
    let read = ntuple.read(&[0], Entries { first: 0, end: 23 }).unwrap();
    for (at, wanted) in values.iter().enumerate() {
        assert_eq!(value(&read[0], at), *wanted);
    }
}

#[test]
fn a_file_of_something_else_and_one_that_is_cut_are_refused() {
    for (name, bytes) in [("empty", &b""[..]), ("short", b"root"), ("other", &[7; 300])] {
        let scratch = Scratch::new(name, bytes);
        assert!(matches!(scratch.open(), Err(Error::Corrupt { .. })), "{name}");
    }
    let of = Type::Number(ColumnKind::Int64);
    let (bytes, anchor, _) = made(&of, 40, 1);
    let all = root_file(&bytes, &[("ROOT::RNTuple", "events", 1, anchor_object(&anchor))]);
    for cut in [50, FIRST + 10, all.len() - 1] {
        let scratch = Scratch::new("cut", &all[..cut]);
        assert!(matches!(scratch.open(), Err(Error::Corrupt { fault: Fault::Short { .. }, .. })), "{cut}");
    }
    assert!(matches!(RootFile::open("/nothing/here".as_ref()), Err(Error::Io { .. })));
}
