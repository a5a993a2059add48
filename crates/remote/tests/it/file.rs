//! Files of ROOT in a bucket.

use crate::bucket::pattern;
use crate::weed::{BUCKET, OWNER, READER, weed};
use core::mem::ManuallyDrop;
use dolmen_remote::{Error, Remote, RemoteFile, RemoteOutput};
use dolmen_rntuple::bucket::{Bucket, Failure, Got, Put, Upload};
use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::locator::Locator;
use dolmen_rntuple::format::schema::Schema;
use dolmen_rntuple::rootfile::{FileOptions, FileTime, Output, RootFile, RootWriter, VirtualFile, export_on};
use dolmen_rntuple::write::{self, Options};
use dolmen_rntuple::{Array, Entries, Fault, Memory, Ntuple, Source, Values, Want};
use dolmen_types::IoBuf;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::Arc;

/// Entries of the ntuple: with two columns of four bytes more than two parts.
const ENTRIES: i32 = 3_000_000;

pub(crate) fn how() -> FileOptions {
    FileOptions { time: FileTime::of_unix(0), compression: Compression::None }
}

pub(crate) fn columns(count: i32) -> [Array; 2] {
    [
        Array::Values(Values::I32((0..count).collect())),
        Array::Values(Values::I32((0..count).map(|nth| nth.wrapping_mul(7919)).collect())),
    ]
}

/// Writes an ntuple to an object, and gives it back unfinished.
pub(crate) fn write_to(remote: &Arc<Remote>, key: &str, count: i32) -> RootWriter {
    let [a, b] = columns(count);
    let fields = [("a", &a), ("b", &b)];
    let mut schema = Schema::default();
    write::schema(&mut schema, &fields, Compression::None).unwrap();
    let (name, writer) = ("made".into(), "these tests".into());
    let header = Header { name, description: "".into(), writer, schema, checksum: 0 };
    let known = header.schema.known();
    let output = RemoteOutput::create(remote, key).unwrap();
    let mut writer = RootWriter::create_on(Box::new(output), "made.root", header, known, how()).unwrap();
    let options = Options { compression: Compression::None, ..Options::default() };
    for entries in write::cut(&fields, &options).unwrap() {
        let schema = writer.header().schema.clone();
        writer.append(&write::seal(&schema, &fields, entries, &options).unwrap()).unwrap();
    }
    writer
}

fn ntuple(mut file: RootFile) -> Ntuple<RootFile> {
    assert_eq!(file.ntuples(), ["made".into()]);
    let anchor = file.anchor("made").unwrap();
    Ntuple::open(file, &anchor).unwrap()
}

fn whole(remote: &Remote, key: &str) -> Vec<u8> {
    let Got::Bytes(bytes, _) = remote.get(key, None).unwrap() else { panic!("{key} is there") };
    bytes
}

fn keys(remote: &Remote) -> Vec<String> {
    remote.list("").unwrap().into_iter().map(|object| object.key).collect()
}

fn bytes_at(file: &RemoteFile, offset: u64, bytes: usize) -> dolmen_rntuple::Result<Vec<u8>> {
    let mut into = vec![0; bytes];
    let locator = Locator::File { offset, bytes: bytes as u64 };
    file.fetch(&mut [Want { locator, into: &mut into }]).map(|()| into)
}

#[test]
fn a_file_of_root_is_written_in_parts_and_read_where_it_is() {
    let remote = Arc::new(weed().open("files"));
    let writer = write_to(&remote, "made.root", ENTRIES);
    assert_eq!(keys(&remote), [""; 0], "it is not there before it is complete");
    writer.finish().unwrap();
    assert_eq!(keys(&remote), ["made.root"]);
    let address = format!("s3://{BUCKET}/files/made.root");
    let file = RemoteFile::open(&address, &weed().options(OWNER)).unwrap();
    assert!(file.length_bytes() > 20 << 20);
    let stored = ntuple(file.into_root().unwrap());
    let count = stored.entry_count();
    let read = stored.read(&[0, 1], Entries { first: 0, end: count }).unwrap();
    assert!(read == columns(ENTRIES), "{count} entries are as they were written");
    // The bytes are those that whoever writes the same elsewhere has.
    let made = VirtualFile::new(stored, "made.root", how()).unwrap();
    let mut bytes = vec![0; usize::try_from(made.length_bytes()).unwrap()];
    assert_eq!(made.read_at(0, &mut bytes).unwrap(), bytes.len());
    assert!(whole(&remote, "made.root") == bytes);
}

#[test]
fn a_small_file_of_root_is_one_request_and_exported_as_it_is() {
    let remote = Arc::new(weed().open("small files"));
    write_to(&remote, "made.root", 1000).finish().unwrap();
    let stored = ntuple(RemoteFile::of(&remote, "made.root").unwrap().into_root().unwrap());
    let output = RemoteOutput::create(&remote, "copy.root").unwrap();
    export_on(&stored, Box::new(output), "made.root", how(), |_| ()).unwrap();
    let bytes = whole(&remote, "copy.root");
    assert!(bytes == whole(&remote, "made.root"));
    let mut file =
        RootFile::open_on(Box::new(Memory::new(bytes.clone().into())), bytes.len() as u64).unwrap();
    assert!(file.anchor("made").is_ok());
}

#[test]
fn a_file_that_is_not_completed_is_never_there() {
    let remote = Arc::new(weed().open("dropped"));
    drop(write_to(&remote, "small.root", 1000));
    drop(write_to(&remote, "large.root", ENTRIES));
    assert_eq!(keys(&remote), [""; 0]);
}

#[test]
fn a_file_of_any_length_is_what_was_put_to_it() {
    let remote = Arc::new(weed().open("lengths"));
    let bytes = pattern((24 << 20) + 1);
    for length in [17, 8 << 20, (8 << 20) + 1, 16 << 20, 24 << 20, (24 << 20) + 1] {
        let mut output = Box::new(RemoteOutput::create(&remote, "a").unwrap());
        let (first, rest) = bytes[..length].split_at(16);
        for (nth, part) in rest.chunks(1 << 20).enumerate() {
            let (some, more) = part.split_at(part.len() / 2);
            let offset = 16 + ((nth as u64) << 20);
            output.put_at(offset, &[IoSlice::new(some), IoSlice::new(more)]).unwrap();
        }
        output.put_at(0, &[IoSlice::new(first)]).unwrap();
        output.finish().unwrap();
        assert!(whole(&remote, "a") == bytes[..length], "{length}");
    }
}

#[test]
fn any_bytes_of_a_file_are_fetched_together_and_none_that_it_has_not() {
    let remote = Arc::new(weed().open("bytes of files"));
    let bytes = pattern(20 << 20);
    remote.put(vec![Put { key: "a".into(), bytes: IoBuf::copy_of(&bytes) }]).unwrap();
    let file = RemoteFile::of(&remote, "a").unwrap();
    // At both ends and across what is known of them; next to each other, apart, overlapping, in no order; and more than one request has.
    let wanted: [(usize, usize); 11] = [
        (0, 10),
        ((64 << 10) - 5, 10),
        ((20 << 20) - 10, 10),
        ((20 << 20) - (256 << 10) - 5, 10),
        (5_000_000, 1000),
        (5_001_000, 1000),
        (5_000_500, 5000),
        (4_900_000, 7),
        (15_000_000, 1),
        (1_000_000, 10 << 20),
        (20 << 20, 0),
    ];
    let mut memory: Vec<Vec<u8>> = wanted.iter().map(|(_, bytes)| vec![0; *bytes]).collect();
    let mut wants: Vec<Want<'_>> = wanted
        .iter()
        .zip(&mut memory)
        .map(|((offset, bytes), into)| Want {
            locator: Locator::File { offset: *offset as u64, bytes: *bytes as u64 },
            into,
        })
        .collect();
    file.fetch(&mut wants).unwrap();
    for ((offset, count), read) in wanted.iter().zip(&memory) {
        assert!(read == &bytes[*offset..offset + count], "{offset}");
    }
    for (offset, count) in [((20 << 20) - 9, 10), (20 << 20, 1), (u64::MAX - 3, 8)] {
        let error = bytes_at(&file, offset, count).unwrap_err();
        let is_short = matches!(
            error,
            dolmen_rntuple::Error::Corrupt { offset: at, fault: Fault::Short { .. }, .. } if at == offset
        );
        assert!(is_short, "{error:?}");
        assert!(file.holds(Locator::File { offset, bytes: 0 }, count as u64).is_err());
    }
    assert!(file.holds(Locator::File { offset: 0, bytes: 0 }, 20 << 20).is_ok());
}

#[test]
fn a_file_that_is_replaced_under_who_reads_it_is_an_error() {
    let remote = Arc::new(weed().open("replaced files"));
    let mut bytes = pattern(1 << 20);
    let put = |bytes: &[u8]| remote.put(vec![Put { key: "a".into(), bytes: IoBuf::copy_of(bytes) }]).unwrap();
    put(&bytes);
    let file = RemoteFile::of(&remote, "a").unwrap();
    assert!(bytes_at(&file, 500_000, 100).unwrap() == bytes[500_000..500_100]);
    bytes[500_000] ^= 1;
    put(&bytes);
    let error = bytes_at(&file, 500_000, 100).unwrap_err();
    assert!(matches!(error, dolmen_rntuple::Error::Bucket { .. }), "{error:?}");
    let anew = RemoteFile::of(&remote, "a").unwrap();
    assert!(bytes_at(&anew, 500_000, 100).unwrap() == bytes[500_000..500_100]);
}

#[test]
fn what_is_no_file_of_root_and_what_is_not_there_is_said() {
    let remote = Arc::new(weed().open("no files"));
    let found = RemoteFile::of(&remote, "none");
    assert!(
        matches!(&found, Err(Error::NoObject { address }) if &**address == "s3://events/no files/none"),
        "{found:?}"
    );
    for bytes in [&b""[..], b"root"] {
        remote.put(vec![Put { key: "a".into(), bytes: IoBuf::copy_of(bytes) }]).unwrap();
        let file = RemoteFile::of(&remote, "a").unwrap();
        assert_eq!(file.length_bytes(), bytes.len() as u64);
        let opened = file.into_root();
        assert!(matches!(opened, Err(dolmen_rntuple::Error::Corrupt { .. })), "{opened:?}");
    }
}

#[test]
fn what_was_never_completed_is_listed_and_ended() {
    let remote = Arc::new(weed().open("never completed/a b"));
    for key in ["c/1", "c/2"] {
        // As of a process that was killed.
        let _never_dropped = ManuallyDrop::new(write_to(&remote, key, ENTRIES));
    }
    let keys = |found: Vec<Upload>| found.into_iter().map(|upload| upload.key).collect::<BTreeSet<_>>();
    let of = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect::<BTreeSet<_>>();
    let uploads = remote.uploads("c/").unwrap();
    let now_ns = remote.now_ns().unwrap();
    assert!(uploads.iter().all(|upload| now_ns.abs_diff(upload.begun_ns) < 3_600_000_000_000), "{uploads:?}");
    assert_eq!(keys(uploads), of(&["c/1", "c/2"]));
    assert_eq!(keys(remote.uploads("c/2").unwrap()), of(&["c/2"]));
    assert_eq!(keys(remote.uploads("m/").unwrap()), of(&[]));
    let above = weed().open("never completed").uploads("").unwrap();
    assert_eq!(keys(above), of(&["a b/c/1", "a b/c/2"]));
    let gone = remote.uploads("c/1").unwrap().remove(0);
    // A part that was on its way may come after the others are gone.
    while !remote.uploads("c/1").unwrap().is_empty() {
        remote.abandon(&gone).unwrap();
    }
    remote.abandon(&gone).unwrap();
    assert_eq!(keys(remote.uploads("").unwrap()), of(&["c/2"]));
    let reader = Remote::open("s3://events/never completed", &weed().options(READER)).unwrap();
    assert_eq!(reader.abandon(&gone).unwrap_err().failure, Failure::Denied);
}
