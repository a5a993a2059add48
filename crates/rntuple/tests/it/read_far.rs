//! Sources that are far: what comes next is fetched while what came is decoded.

use crate::made::{How, Type, file, value};
use crate::read::{hows, numbers, types, values_of};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::locator::Locator;
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::rootfile::Anchor;
use dolmen_rntuple::{Array, Entries, Error, Memory, Ntuple, Result, Source, Want};
use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What happens to one fetch.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Fails(usize),
    Panics(usize),
    Nothing,
}

/// A source of which each page is fetched alone, and that counts that.
#[derive(Debug)]
struct Pagewise {
    memory: Memory,
    is_far: bool,
    fate: Fate,
    fetches: AtomicUsize,
}

impl Source for Pagewise {
    fn fetch(&self, wants: &mut [Want<'_>]) -> Result<()> {
        let nth = self.fetches.fetch_add(1, Ordering::Relaxed);
        match self.fate {
            Fate::Fails(at) if at == nth => {
                Err(Error::Io { offset: at as u64, source: std::io::ErrorKind::BrokenPipe.into() })
            }
            Fate::Panics(at) if at == nth => panic!("as the test wants it"),
            _ => self.memory.fetch(wants),
        }
    }

    fn holds(&self, locator: Locator, bytes: u64) -> Result<()> {
        self.memory.holds(locator, bytes)
    }

    fn fetch_bytes_max(&self) -> u64 {
        1
    }

    fn is_far(&self) -> bool {
        self.is_far
    }
}

fn open(bytes: &[u8], anchor: &Anchor, is_far: bool, fate: Fate) -> Ntuple<Pagewise> {
    let memory = Memory::new(bytes.into());
    Ntuple::open(Pagewise { memory, is_far, fate, fetches: AtomicUsize::new(0) }, anchor).unwrap()
}

fn all(ntuple: &Ntuple<Pagewise>) -> Result<Vec<Array>> {
    ntuple.read(&[0], Entries { first: 0, end: ntuple.entry_count() })
}

const PAGES: usize = 5;

/// Fetches before those of pages: one of header and footer, one of the page list.
const BEFORE: usize = 2;

/// A file with five pages of one column.
fn five_pages() -> (Vec<u8>, Anchor) {
    let how = How {
        compression: Compression::None,
        elements_of_a_page: 4,
        entries_of_a_cluster: 4 * PAGES,
        clusters_of_a_group: 1,
        has_checksums: true,
    };
    let of = Type::Number(ColumnKind::UInt64);
    file(&of, &values_of(&of, 4 * PAGES, &mut numbers(5)), how)
}

/// What a reading ends with, and how many fetches of pages there were.
fn outcome(bytes: &[u8], anchor: &Anchor, is_far: bool, fate: Fate) -> (String, usize) {
    let ntuple = open(bytes, anchor, is_far, fate);
    let found = all(&ntuple);
    (format!("{found:?}"), ntuple.source().fetches.load(Ordering::Relaxed) - BEFORE)
}

/// The file with a damaged page.
fn damaged(page: usize) -> (Vec<u8>, Anchor) {
    let (mut bytes, anchor) = five_pages();
    let ntuple = open(&bytes, &anchor, false, Fate::Nothing);
    let clusters = ntuple.clusters(Entries { first: 0, end: 1 }).unwrap();
    let Locator::File { offset, .. } = clusters[0].list.pages[page].locator else { panic!() };
    bytes[usize::try_from(offset).unwrap()] ^= 1;
    (bytes, anchor)
}

#[test]
fn of_a_far_source_the_next_round_and_no_more_is_fetched_before_one_is_decoded() {
    for page in 0..PAGES {
        let (bytes, anchor) = damaged(page);
        let (near, near_fetches) = outcome(&bytes, &anchor, false, Fate::Nothing);
        let (far, far_fetches) = outcome(&bytes, &anchor, true, Fate::Nothing);
        assert!(near.contains("Checksum"), "{near}");
        assert_eq!(far, near);
        // Decoding fails, so that whatever was fetched behind the page was before.
        assert_eq!((near_fetches, far_fetches), (page + 1, PAGES.min(page + 2)));
    }
}

#[test]
fn what_is_wrong_with_a_fetch_ahead_is_told_as_of_one_in_its_turn() {
    let (bytes, anchor) = five_pages();
    for page in 0..PAGES {
        let fate = Fate::Fails(BEFORE + page);
        let near = outcome(&bytes, &anchor, false, fate);
        assert!(near.0.contains("BrokenPipe"), "{near:?}");
        assert_eq!(outcome(&bytes, &anchor, true, fate), near);
    }
    let (bytes, anchor) = damaged(2);
    let (far, _) = outcome(&bytes, &anchor, true, Fate::Fails(BEFORE + 3));
    assert!(far.contains("Checksum"), "what is before it is told first: {far}");
}

#[test]
fn a_panic_of_a_fetch_ahead_is_one_of_the_reading() {
    let (bytes, anchor) = five_pages();
    let ntuple = open(&bytes, &anchor, true, Fate::Panics(BEFORE + 2));
    let found = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| all(&ntuple)));
    assert_eq!(*found.unwrap_err().downcast::<&str>().unwrap(), "as the test wants it");
    assert!(all(&ntuple).is_ok(), "the next one is not concerned");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_type_is_read_from_far_as_it_was_written(
        of in types(), how in hows(), count in 0_usize..40, seed in any::<u64>(),
    ) {
        let values = values_of(&of, count, &mut numbers(seed));
        let (bytes, anchor) = file(&of, &values, how);
        let read = all(&open(&bytes, &anchor, true, Fate::Nothing)).unwrap();
        for (at, wanted) in values.iter().enumerate() {
            prop_assert_eq!(value(&read[0], at), wanted.clone());
        }
    }
}
