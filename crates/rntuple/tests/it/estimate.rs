//! What an estimate says is what a reading asks for.

use crate::made::{How, Type, Value, file};
use crate::read::{hows, numbers, types, values_of};
use crate::store_world::{Kind, World, all_ints, header, ints, sealed};
use dolmen_rntuple::estimate::usage;
use dolmen_rntuple::format::locator::Locator;
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::store::{CreateOptions, When};
use dolmen_rntuple::{Array, Entries, Memory, Ntuple, Result, Source, Values, Want};
use proptest::prelude::*;
use std::sync::Mutex;

/// Counts what it is asked for.
struct Counted {
    memory: Memory,
    /// Where, and how many bytes; guards nothing else.
    asked: Mutex<Vec<(u64, u64)>>,
}

impl Source for Counted {
    fn fetch(&self, wants: &mut [Want<'_>]) -> Result<()> {
        for want in wants.iter() {
            let Locator::File { offset, .. } = want.locator else { panic!("there is one file") };
            self.asked.lock().unwrap().push((offset, want.into.len() as u64));
        }
        self.memory.fetch(wants)
    }

    fn holds(&self, locator: Locator, bytes: u64) -> Result<()> {
        self.memory.holds(locator, bytes)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reading_of_all_asks_for_the_bytes_and_pages_that_were_estimated(
        of in types(), how in hows(), count in 1_usize..40, seed in any::<u64>(),
    ) {
        let values = values_of(&of, count, &mut numbers(seed));
        let (bytes, anchor) = file(&of, &values, How { has_checksums: false, ..how });
        let source = Counted { memory: Memory::new(bytes.into()), asked: Mutex::new(Vec::new()) };
        let ntuple = Ntuple::open(source, &anchor).unwrap();
        let all = Entries { first: 0, end: count as u64 };
        let usage = usage(&ntuple, &[0], all).unwrap();
        ntuple.source().asked.lock().unwrap().clear();
        let read = ntuple.read(&[0], all).unwrap();
        let mut asked = core::mem::take(&mut *ntuple.source().asked.lock().unwrap());
        prop_assert_eq!(asked.iter().map(|(_, bytes)| bytes).sum::<u64>(), usage.stored_bytes);
        asked.sort_unstable();
        asked.dedup();
        prop_assert_eq!(asked.len() as u64, usage.page_count);
        prop_assert_eq!(usage.columns.iter().map(|column| column.page_count).sum::<u64>(), usage.page_count);
        prop_assert_eq!(usage.entry_count, read[0].len());
        prop_assert!(usage.request_count <= usage.page_count);
    }

    #[test]
    fn how_long_lists_and_texts_are_is_read_without_what_they_have(
        item in types(), is_text in any::<bool>(), how in hows(), count in 1_usize..40, seed in any::<u64>(),
    ) {
        let kind = ColumnKind::SplitIndex64;
        let of = if is_text { Type::Text(kind) } else { Type::List(kind, Box::new(item)) };
        let values = values_of(&of, count, &mut numbers(seed));
        let (bytes, anchor) = file(&of, &values, How { has_checksums: false, ..how });
        let source = Counted { memory: Memory::new(bytes.into()), asked: Mutex::new(Vec::new()) };
        let ntuple = Ntuple::open(source, &anchor).unwrap();
        let all = Entries { first: 0, end: count as u64 };
        let usage = usage(&ntuple, &[0], all).unwrap();
        ntuple.source().asked.lock().unwrap().clear();
        let read = ntuple.read_numbers(&[0], all).unwrap();
        let asked: u64 = ntuple.source().asked.lock().unwrap().iter().map(|(_, bytes)| bytes).sum();
        prop_assert_eq!(usage.columns[0].column, 0);
        prop_assert_eq!(asked, usage.columns[0].stored_bytes);
        let lengths = values.iter().map(|value| match value {
            Value::Several(items) => items.len() as u64,
            Value::Text(bytes) => bytes.len() as u64,
            other => panic!("{other:?} has no length"),
        });
        prop_assert_eq!(read, vec![Array::Values(Values::U64(lengths.collect()))]);
    }
}

#[test]
fn a_small_cluster_is_one_object_of_a_bucket_and_one_request() {
    let world = World::of(Kind::Bucket);
    let header = header("events", &[("a", ColumnKind::Int32)]);
    let stored = world.store().create(&header, &CreateOptions::default()).unwrap();
    let mix = |at: i32| at.wrapping_mul(-1_640_531_535);
    let mut appender = stored.append().unwrap();
    for cluster in 0..3 {
        let elements = ints((0..100_000).map(|at| mix(cluster * 100_000 + at)));
        appender.push(&sealed(&header.schema, 0, 100_000, &[elements], 10_000)).unwrap();
    }
    appender.commit().unwrap();
    let store = world.store();
    store.import("copy", &stored.open(When::Now).unwrap(), &CreateOptions::default()).unwrap();
    for name in ["events", "copy"] {
        let ntuple = store.open(name, When::Now).unwrap();
        let usage = usage(&ntuple, &[0], Entries { first: 0, end: 300_000 }).unwrap();
        assert_eq!(all_ints(&ntuple, "a")[299_999], mix(299_999));
        assert_eq!((ntuple.source().asked().page_requests, usage.request_count), (3, 3), "{name}");
        assert_eq!(usage.page_count, 30);
    }
}

#[test]
fn a_store_is_asked_as_often_as_was_estimated_whatever_is_between() {
    World::each(|world| {
        let names = ["a", "b", "c", "d", "e", "f"];
        let fields: Vec<_> = names.iter().map(|name| (*name, ColumnKind::Int32)).collect();
        let header = header("events", &fields);
        let stored = world.store().create(&header, &CreateOptions::default()).unwrap();
        let mix = |at: i32| at.wrapping_mul(-1_640_531_535);
        let columns: Vec<_> =
            (0..6).map(|column| ints((0..40_000).map(|at| mix(column * 40_000 + at)))).collect();
        let mut appender = stored.append().unwrap();
        appender.push(&sealed(&header.schema, 0, 40_000, &columns, 10_000)).unwrap();
        appender.commit().unwrap();
        let ntuple = stored.open(When::Now).unwrap();
        let all = Entries { first: 0, end: 40_000 };
        let mut told = Vec::new();
        for fields in [&[0, 1, 2, 3, 4, 5][..], &[0, 1, 3, 5], &[2], &[0, 5], &[1, 2, 4]] {
            let before = ntuple.source().asked().page_requests;
            ntuple.read(fields, all).unwrap();
            told.push(ntuple.source().asked().page_requests - before);
            assert_eq!(told.last(), Some(&usage(&ntuple, fields, all).unwrap().request_count), "{fields:?}");
        }
        // Of a bucket what is not wanted is left out, of a container a group is one request.
        assert_eq!(told, if world.is_bucket() { [1, 3, 1, 2, 2] } else { [1, 1, 1, 1, 1] });
        // And so of what is in the middle, from the pages that have some of it.
        for (first, end, pages) in [(15_000, 15_010, 1), (9_999, 10_001, 2), (10_000, 20_000, 1)] {
            for fields in [&[0, 1, 2, 3, 4, 5][..], &[0, 1, 3, 5], &[2]] {
                let entries = Entries { first, end };
                let (before, told) = (ntuple.source().asked(), usage(&ntuple, fields, entries).unwrap());
                ntuple.read(fields, entries).unwrap();
                let asked = ntuple.source().asked();
                assert_eq!(told.page_count, pages * fields.len() as u64);
                assert_eq!(asked.page_requests - before.page_requests, told.request_count, "{fields:?}");
            }
        }
    });
}
