//! Some entries of some fields as another ntuple; columns packed by what is read together.

use crate::made::{Value, file, value};
use crate::read::{hows, numbers, types, values_of};
use crate::store_append::{cluster, two_columns};
use crate::store_world::{World, add, all_ints, header, ints, sealed, values};
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::store::{Access, CreateOptions, Made, When, order_of};
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{Entries, Error, Memory, Ntuple, Trace, Values};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_skim_has_the_entries_of_its_ranges(
        of in types(), how in hows(), seed in any::<u64>(), wanted in prop::collection::vec(any::<bool>(), 30), cluster_bytes in 1_u64..500,
    ) {
        let values = values_of(&of, 30, &mut numbers(seed));
        let (bytes, anchor) = file(&of, &values, how);
        let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
        let mut ranges: Vec<Entries> = Vec::new();
        for first in (0..30).filter(|&entry| wanted[usize::try_from(entry).unwrap()]) {
            match ranges.last_mut().filter(|range| range.end == first) {
                Some(range) => range.end += 1,
                None => ranges.push(Entries { first, end: first + 1 }),
            }
        }
        let world = World::any();
        let options = Options { cluster_bytes, page_bytes: 64, ..Options::default() };
        let skimmed =
            world.store().skim(&ntuple, &[], &ranges, "skim", &CreateOptions::default(), &options).unwrap();
        let expected: Vec<&Value> =
            ranges.iter().flat_map(|range| &values[usize::try_from(range.first).unwrap()..usize::try_from(range.end).unwrap()]).collect();
        prop_assert_eq!((skimmed.version.entry_count, skimmed.version.made), (expected.len() as u64, Made::Skimmed));
        prop_assert_eq!(skimmed.version.cluster_count, skimmed.passed + skimmed.written);
        let stored = world.store().open("skim", When::Now).unwrap();
        let found = stored.read(&[0], Entries { first: 0, end: expected.len() as u64 }).unwrap();
        for (at, expected) in expected.into_iter().enumerate() {
            prop_assert_eq!(&value(&found[0], at), expected);
        }
    }
}

#[test]
fn clusters_of_which_all_is_wanted_are_as_they_were_and_zeros_are_written() {
    World::each(|world| {
        let stored = two_columns(&world);
        let mut appender = stored.append().unwrap();
        for at in 0..4 {
            appender.push(&cluster(&stored, at * 5)).unwrap();
        }
        appender.commit().unwrap();
        // A column that was added behind the second cluster: entries before are zero.
        let mut wide = header("late", &[("a", ColumnKind::SplitInt32), ("b", ColumnKind::Int32)]);
        add(&mut wide.schema, &[("late", ColumnKind::Int32)]);
        wide.schema.columns[2].first_element = 10;
        let late = world.store().create(&wide, &CreateOptions::default()).unwrap();
        let mut appender = late.append().unwrap();
        for first in [0, 5, 10, 15] {
            let columns = [ints(first..first + 5), ints(first..first + 5), ints(first..first + 5)];
            let count = if first < 10 { 2 } else { 3 };
            let mut cluster = sealed(&wide.schema, 0, 5, &columns[..count], 2);
            cluster.columns.resize(3, None);
            appender.push(&cluster).unwrap();
        }
        appender.commit().unwrap();
        let listed = |name: &str| -> Vec<usize> {
            let ntuple = world.store().open(name, When::Now).unwrap();
            ntuple.all_clusters().unwrap().iter().map(|cluster| cluster.pages.columns.len()).collect()
        };
        assert_eq!(listed("late"), [2, 2, 3, 3], "a column is not said to be where it is not yet");
        late.reshape(0, 1, &Options::default()).unwrap().unwrap();
        let now = late.open(When::Now).unwrap();
        world.store().import("late_again", &now, &CreateOptions::default()).unwrap();
        assert_eq!((listed("late"), listed("late_again")), (vec![2, 2, 3, 3], vec![2, 2, 3, 3]));
        let ranges = [Entries { first: 0, end: 5 }, Entries { first: 8, end: 20 }];
        let skim = |from: &str, name: &str| {
            let from = world.store().open(from, When::Now).unwrap();
            let fields: &[&str] = if name == "slim" { &["b"] } else { &[] };
            world
                .store()
                .skim(&from, fields, &ranges, name, &CreateOptions::default(), &Options::default())
                .unwrap()
        };
        let skimmed = skim("events", "slim");
        assert_eq!((skimmed.passed, skimmed.written), (3, 1));
        let slim = world.store().open("slim", When::Now).unwrap();
        assert_eq!(all_ints(&slim, "b"), (0..5).chain(8..20).map(|at| -at).collect::<Vec<_>>());
        assert!(slim.field("a").is_err());
        let skimmed = skim("late", "whole");
        // The first is written for its zeros, with the end of the second; the third has all of the column, which begins with it.
        assert_eq!((skimmed.passed, skimmed.written), (2, 1));
        let whole = world.store().open("whole", When::Now).unwrap();
        let wanted: Vec<i32> = [0; 5 + 2].into_iter().chain(10..20).collect();
        assert_eq!(values(&whole, "late"), Values::I32(wanted));
        assert_eq!(all_ints(&whole, "a"), (0..5).chain(8..20).collect::<Vec<_>>());
        for wrong in [[(3, 2), (4, 5)], [(0, 4), (3, 5)], [(0, 1), (2, 21)]] {
            let ranges = wrong.map(|(first, end)| Entries { first, end });
            let from = stored.open(When::Now).unwrap();
            let found =
                world.store().skim(&from, &[], &ranges, "no", &CreateOptions::default(), &Options::default());
            assert!(matches!(found, Err(Error::NoEntries { .. })), "{found:?}");
        }
    });
}

#[test]
fn what_is_below_a_field_that_begins_later_begins_with_it() {
    World::each(|world| {
        let mut late = header("late", &[("a", ColumnKind::Int32)]);
        add(&mut late.schema, &[("list", ColumnKind::Index32), ("_0", ColumnKind::Int32)]);
        late.schema.fields[1].role = Some(dolmen_rntuple::format::schema::Role::Collection);
        late.schema.fields[2].parent = 1;
        late.schema.columns[1].first_element = 5;
        let stored = world.store().create(&late, &CreateOptions::default()).unwrap();
        let mut appender = stored.append().unwrap();
        let mut first = sealed(&late.schema, 0, 5, &[ints(0..5)], 2);
        first.columns.resize(3, None);
        appender.push(&first).unwrap();
        let ends = (1..6_i64).flat_map(i64::to_le_bytes).collect();
        let columns = [ints(5..10), ends, ints(50..55)];
        appender.push(&sealed(&late.schema, 0, 5, &columns, 5)).unwrap();
        appender.commit().unwrap();
        let listed = || -> Vec<usize> {
            let clusters = stored.open(When::Now).unwrap();
            clusters.all_clusters().unwrap().iter().map(|cluster| cluster.pages.columns.len()).collect()
        };
        let all = Entries { first: 0, end: 10 };
        let wanted = stored.open(When::Now).unwrap().read(&[0, 1], all).unwrap();
        assert_eq!(wanted[1].len(), 10);
        assert_eq!(listed(), [1, 3]);
        stored.reshape(0, 1, &Options::default()).unwrap().unwrap();
        assert_eq!(listed(), [1, 3]);
        assert_eq!(stored.open(When::Now).unwrap().read(&[0, 1], all).unwrap(), wanted);
        // With a column behind it that is there from the start it is said to be there, without pages, and not to be elsewhere.
        let mut schema = late.schema.clone();
        add(&mut schema, &[("more", ColumnKind::Int32)]);
        let mut adder = stored.add_columns(&schema).unwrap();
        for first in [0, 5] {
            adder.push(&sealed(&schema, 3, 5, &[ints(first..first + 5)], 5)).unwrap();
        }
        adder.commit().unwrap();
        let ntuple = stored.open(When::Now).unwrap();
        assert_eq!(ntuple.read(&[0, 1], all).unwrap(), wanted);
        assert_eq!(all_ints(&ntuple, "more"), (0..10).collect::<Vec<_>>());
        let clusters = ntuple.all_clusters().unwrap();
        let late: Vec<_> = clusters[0].pages.columns[1..3]
            .iter()
            .map(|column| (column.first_element, column.pages.len()))
            .collect();
        assert_eq!(late, [(Some(5), 0), (Some(0), 0)]);
    });
}

#[test]
fn columns_that_are_read_together_are_packed_together() {
    World::each(|world| {
        let names: Vec<_> = (0..40).map(|number| format!("f{number}")).collect();
        let fields: Vec<_> = names.iter().map(|name| (&**name, ColumnKind::Int32)).collect();
        let header = header("events", &fields);
        let options = CreateOptions { group_bytes: Some(2000), ..CreateOptions::default() };
        let stored = world.store().create(&header, &options).unwrap();
        let mix = |at: i32| at.wrapping_mul(-1_640_531_535);
        let columns: Vec<_> = (0..40).map(|column| ints((0..100).map(|at| mix(at + column)))).collect();
        let mut appender = stored.append().unwrap();
        appender.push(&sealed(&header.schema, 0, 100, &columns, 100)).unwrap();
        appender.commit().unwrap();
        let read: Vec<u32> = vec![3, 11, 19, 27, 35];
        let requests = || {
            let ntuple = stored.open(When::Now).unwrap();
            ntuple.read(&read, Entries { first: 0, end: 100 }).unwrap();
            ntuple.source().asked().page_requests
        };
        assert_eq!(requests(), 5);
        let ntuple = stored.open(When::Now).unwrap();
        let all = Entries { first: 0, end: 100 };
        ntuple.read(&[5], all).unwrap();
        assert_eq!(ntuple.recorded(), Trace::default(), "nobody asked for it yet");
        ntuple.record();
        for (fields, count) in [(&[0, 1, 3][..], 1), (&read, 7), (&[9], 2)] {
            (0..count).for_each(|_| drop(ntuple.read(fields, all).unwrap()));
        }
        ntuple.record();
        let trace = Trace::parse(&ntuple.recorded().write()).unwrap();
        let access = |fields: &[u32], count| Access { fields: fields.to_vec(), count };
        let mut accesses = trace.accesses(&ntuple);
        accesses.iter_mut().for_each(|access| access.fields.sort_unstable());
        accesses.sort_by_key(|access| access.count);
        assert_eq!(accesses, [access(&[0, 1, 3], 100), access(&[9], 200), access(&read, 700)]);
        let order = order_of(&ntuple, &accesses);
        assert_eq!(order, [3, 11, 19, 27, 35, 9, 0, 1]);
        assert_eq!(stored.pack(&order, None).unwrap(), 2000, "as it was");
        stored.reshape(0, u64::MAX, &Options::default()).unwrap().unwrap();
        assert_eq!(requests(), 2, "five columns of 409 bytes are in two groups of 2000");
        assert_eq!(
            all_ints(&stored.open(When::Now).unwrap(), "f7"),
            (0..100).map(|at| mix(at + 7)).collect::<Vec<_>>()
        );
    });
}
