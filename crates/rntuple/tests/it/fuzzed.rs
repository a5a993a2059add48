//! What a fuzzer feeds with bytes: all of the format and of ROOT's files. A function returns whatever the bytes are, or panics: that is
//! the find. What has checksums has them put right, since no fuzzer guesses one.

use dolmen_rntuple::format::block::{decompress, decompress_into};
use dolmen_rntuple::format::column::{Column, ColumnKind};
use dolmen_rntuple::format::footer::Footer;
use dolmen_rntuple::format::locator::{Link, Locator};
use dolmen_rntuple::format::page_list::PageList;
use dolmen_rntuple::format::schema::Schema;
use dolmen_rntuple::format::{CHECKSUM_BYTES, EnvelopeKind, Header, checksum, encoding};
use dolmen_rntuple::rootfile::tree::Tree;
use dolmen_rntuple::rootfile::{Anchor, RootFile};
use dolmen_rntuple::{Entries, Memory, Ntuple, Source, Structure};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads one thing from any bytes.
pub(crate) type Target = fn(&[u8]);

/// All of them, by the names of their targets and of the folders with their corpora.
pub(crate) const TARGETS: [(&str, Target); 8] = [
    ("ntuple_block", block),
    ("ntuple_envelope", envelope),
    ("ntuple_file", file),
    ("ntuple_page", page),
    ("ntuple_record", dolmen_rntuple::store::fuzz::record),
    ("ntuple_root", root),
    ("ntuple_tree", tree),
    ("web_request", dolmen_rntuple::web::fuzz::request),
];

/// Entries that are read at most: who reads more than a file of a few kilobytes has asks for the memory himself.
const ENTRIES_MAX: u64 = 1000;

/// The bytes of a number that says where something is, and how long it is.
fn range(start: usize, len: usize, bytes: &[u8]) -> Option<core::ops::Range<usize>> {
    let end = start.checked_add(len)?;
    (end <= bytes.len()).then_some(start..end)
}

/// A compression block: three bytes say how many it stands for.
pub(crate) fn block(bytes: &[u8]) {
    let Some((&[a, b, c], block)) = bytes.split_first_chunk() else { return };
    let length = u32::from_le_bytes([a, b, c & 0x0f, 0]);
    let mut block = block.to_vec();
    let mut at = 0;
    while let Some(&[one, two, _, c0, c1, c2, ..]) = block.get(at..).filter(|rest| rest.len() >= 9) {
        let stored = u32::from_le_bytes([c0, c1, c2, 0]) as usize;
        if [one, two] == *b"L4"
            && stored >= 8
            && let Some(payload) = range(at + 9, stored, &block)
        {
            let sum = twox_hash::XxHash64::oneshot(0, &block[payload.start + 8..payload.end]);
            let mut sum = sum.to_le_bytes();
            sum.reverse();
            block[payload.start..payload.start + 8].copy_from_slice(&sum);
        }
        at += 9 + stored;
    }
    let found = decompress(Structure::Header, &block, u64::from(length));
    let mut into = vec![0; length as usize];
    match decompress_into(Structure::Header, &block, &mut into) {
        Ok(()) => assert!(found.is_ok_and(|found| found == into)),
        Err(error) => {
            assert!(found.is_err());
            assert!(!error.to_string().is_empty());
        }
    }
}

/// The envelope of a kind with these contents.
pub(crate) fn sealed(kind: EnvelopeKind, contents: &[u8]) -> Vec<u8> {
    let length_bytes = (8 + contents.len() + CHECKSUM_BYTES) as u64;
    let mut bytes = (length_bytes << 16 | u64::from(kind as u16)).to_le_bytes().to_vec();
    bytes.extend_from_slice(contents);
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    bytes
}

/// The first eight bytes of what was sealed.
fn number_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// An envelope of the kind that the first byte says: as it comes, and sealed. What can be read is written and read again.
pub(crate) fn envelope(bytes: &[u8]) {
    let Some((kind, contents)) = bytes.split_first() else { return };
    let kind = [EnvelopeKind::Header, EnvelopeKind::Footer, EnvelopeKind::PageList][usize::from(kind % 3)];
    for bytes in [contents, &sealed(kind, contents)] {
        match kind {
            EnvelopeKind::Header => {
                let Ok(header) = Header::read(bytes) else { continue };
                if header.schema.fields.iter().all(|field| field.role.is_some()) {
                    let written = header.write().0;
                    let again = Header::read(&written).expect("what was written is read");
                    assert_eq!(again.write().0, written);
                }
            }
            EnvelopeKind::Footer => {
                let (mut schema, sum) = (Schema::default(), number_at(bytes, 16));
                let Ok(footer) = Footer::read(bytes, sum, &mut schema) else { continue };
                let are_known = footer
                    .groups
                    .iter()
                    .all(|group| !matches!(group.page_list.locator, Locator::Unknown { .. }));
                if are_known && schema.fields.iter().all(|field| field.role.is_some()) {
                    let written = footer.write(sum, &schema, &Schema::default().known());
                    let mut again = Schema::default();
                    let read = Footer::read(&written, sum, &mut again).expect("what was written is read");
                    assert_eq!(read.write(sum, &again, &Schema::default().known()), written);
                }
            }
            EnvelopeKind::PageList => {
                let sum = number_at(bytes, 8);
                let Ok(list) = PageList::read(bytes, sum) else { continue };
                if list.pages.iter().all(|page| !matches!(page.locator, Locator::Unknown { .. })) {
                    let again = PageList::read(&list.write(sum), sum);
                    assert_eq!(again.expect("what was written is read"), list);
                }
            }
        }
    }
}

/// Elements of a page: the first bytes say of which kind, how many bits and how many, and of what range.
pub(crate) fn page(bytes: &[u8]) {
    let Some((&[kind, bits, c0, c1, l0, l1, h0, h1], page)) = bytes.split_first_chunk() else { return };
    let kind = ColumnKind::of(u16::from(kind));
    let (least, most) = kind.bits().unwrap_or((1, 64));
    let low = f64::from(i16::from_le_bytes([l0, l1]));
    let high = low + 1.0 + f64::from(u16::from_le_bytes([h0, h1]));
    let column = Column {
        kind,
        bits: (least + u16::from(bits) % (most - least + 1)).max(1),
        field: 0,
        representation: 0,
        first_element: 0,
        range: Some((low, high)),
    };
    let count = usize::from(u16::from_le_bytes([c0, c1]) % 4096);
    let mut into = vec![0; count * kind.in_memory().map_or(1, |in_memory| in_memory.bytes())];
    let as_it_comes = encoding::decode(0, &column, page, &mut into);
    let whole = usize::try_from(column.page_bytes(count as u64).expect("few elements")).expect("few bytes");
    let mut fitting = page.to_vec();
    fitting.resize(whole, 0);
    assert!(as_it_comes.is_err() || fitting == page);
    if encoding::decode(0, &column, &fitting, &mut into).is_err() {
        return;
    }
    let mut again = into.clone();
    encoding::decode(0, &column, &encoding::encode(&column, &into), &mut again).expect("it was encoded");
    // A float that is none may be another one then, and those that are rounded are.
    let is_rounded = matches!(
        kind,
        ColumnKind::Real16 | ColumnKind::SplitReal16 | ColumnKind::Real32Trunc | ColumnKind::Real32Quant
    );
    assert!(is_rounded || again == into);
}

/// Puts an envelope right that is stored as it is: what it begins with, of which header it is, and its checksum; its bytes.
fn reseal(
    bytes: &mut [u8],
    link: &Link,
    kind: EnvelopeKind,
    header: Option<(usize, u64)>,
) -> Option<Vec<u8>> {
    let Locator::File { offset, bytes: stored } = link.locator else { return None };
    if stored != link.length_bytes || stored < 32 {
        return None;
    }
    let place = range(usize::try_from(offset).ok()?, usize::try_from(stored).ok()?, bytes)?;
    let envelope = &mut bytes[place];
    envelope[..8].copy_from_slice(&(stored << 16 | u64::from(kind as u16)).to_le_bytes());
    if let Some((at, sum)) = header {
        envelope[at..at + 8].copy_from_slice(&sum.to_le_bytes());
    }
    let end = envelope.len() - CHECKSUM_BYTES;
    let sum = checksum(&envelope[..end]).to_le_bytes();
    envelope[end..].copy_from_slice(&sum);
    Some(envelope.to_vec())
}

/// Puts all envelopes and pages of an ntuple right, as far as they are not compressed.
fn reseal_all(bytes: &mut [u8], anchor: &Anchor) -> Option<()> {
    let header = Header::read(&reseal(bytes, &anchor.header, EnvelopeKind::Header, None)?).ok()?;
    let footer = reseal(bytes, &anchor.footer, EnvelopeKind::Footer, Some((16, header.checksum)))?;
    let footer = Footer::read(&footer, header.checksum, &mut header.schema.clone()).ok()?;
    for group in footer.groups.iter().take(16) {
        let of_header = Some((8, header.checksum));
        let list = reseal(bytes, &group.page_list, EnvelopeKind::PageList, of_header)?;
        let list = PageList::read(&list, header.checksum).ok()?;
        for page in list.pages.iter().take(64).filter(|page| page.has_checksum) {
            let Locator::File { offset, bytes: stored } = page.locator else { continue };
            let (at, len) = (usize::try_from(offset).ok()?, usize::try_from(stored).ok()?);
            let Some(place) = range(at, len, bytes) else { continue };
            let sum = checksum(&bytes[place.clone()]).to_le_bytes();
            if let Some(behind) = range(place.end, CHECKSUM_BYTES, bytes) {
                bytes[behind].copy_from_slice(&sum);
            }
        }
    }
    Some(())
}

/// Reads each field of an ntuple, and all of them together.
fn read_all<S: Source>(ntuple: &Ntuple<S>) {
    let all = Entries { first: 0, end: ntuple.entry_count().min(ENTRIES_MAX) };
    let fields: Vec<u32> = ntuple.top_fields().collect();
    for &field in fields.iter().take(20) {
        match ntuple.read(&[field], all) {
            Ok(arrays) => assert_eq!(arrays[0].len(), all.end - all.first),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    drop(ntuple.read(&fields, Entries { first: all.end / 2, end: all.end }));
}

/// A file with an ntuple: the first bytes say where its header and footer are.
pub(crate) fn file(bytes: &[u8]) {
    let Some((places, bytes)) = bytes.split_first_chunk::<8>() else { return };
    let number = |at: usize| u64::from(u16::from_le_bytes([places[at], places[at + 1]]));
    let link = |at: usize| {
        let bytes = number(at + 2);
        Link { length_bytes: bytes, locator: Locator::File { offset: number(at), bytes } }
    };
    let anchor = Anchor { version: [1, 0, 0, 0], header: link(0), footer: link(4), key_bytes_max: None };
    let mut right = bytes.to_vec();
    reseal_all(&mut right, &anchor);
    for bytes in [bytes, &right] {
        if let Ok(ntuple) = Ntuple::open(Memory::new(bytes.into()), &anchor) {
            read_all(&ntuple);
        }
    }
}

/// A file that is gone when it is not needed any more.
struct Scratch(PathBuf);

impl Scratch {
    fn new(bytes: &[u8]) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dolmen-fuzzed-{}-{number}", std::process::id()));
        std::fs::write(&path, bytes).expect("there is room for what is thrown away");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Ignored: a directory for what is thrown away.
        _ = std::fs::remove_file(&self.0);
    }
}

/// A file of ROOT with ntuples.
pub(crate) fn root(bytes: &[u8]) {
    let mut right = bytes.to_vec();
    if let Ok(mut file) = RootFile::open(&Scratch::new(bytes).0) {
        for key in file.keys().iter().filter(|key| &*key.class == "ROOT::RNTuple") {
            let Ok(at) = usize::try_from(key.offset) else { continue };
            let Some(place) = at.checked_add(6).and_then(|at| range(at, 64, bytes)) else { continue };
            let mut sum = checksum(&bytes[place.clone()]).to_le_bytes();
            sum.reverse();
            if let Some(behind) = range(place.end, CHECKSUM_BYTES, bytes) {
                right[behind].copy_from_slice(&sum);
            }
        }
        for name in file.ntuples() {
            drop(file.anchor(&name));
        }
    }
    let anchors = |bytes: &[u8]| {
        let mut file = RootFile::open(&Scratch::new(bytes).0).ok()?;
        let names = file.ntuples();
        Some(names.iter().take(4).filter_map(|name| file.anchor(name).ok()).collect::<Vec<_>>())
    };
    for anchor in anchors(&right).into_iter().flatten() {
        reseal_all(&mut right, &anchor);
    }
    let scratch = Scratch::new(&right);
    let names = RootFile::open(&scratch.0).map_or(Vec::new(), |file| file.ntuples());
    for name in names.iter().take(4) {
        let Ok(mut file) = RootFile::open(&scratch.0) else { continue };
        let Ok(anchor) = file.anchor(name) else { continue };
        if let Ok(ntuple) = Ntuple::open(file, &anchor) {
            read_all(&ntuple);
        }
    }
}

/// A file of ROOT with trees.
pub(crate) fn tree(bytes: &[u8]) {
    let Ok(file) = RootFile::open(&Scratch::new(bytes).0) else { return };
    let file = Arc::new(file);
    for name in file.trees().iter().take(4) {
        let Ok(tree) = Tree::open(&file, name) else { continue };
        let all = Entries { first: 0, end: tree.entry_count().min(ENTRIES_MAX) };
        for branch in 0..tree.branches().len().min(100) {
            match tree.read(&[branch], all) {
                Ok(arrays) => assert_eq!(arrays[0].len(), all.end),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}
