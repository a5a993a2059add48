//! The same entries in other clusters and pages, and the same pages in another ntuple.

use crate::late::added_before;
use crate::made::{How, Type, file};
use crate::read::{hows, numbers, types, values_of};
use crate::store_append::{cluster, two_columns};
use crate::store_world::{KINDS, LEASE_NS, World, add, all_ints, ints, sealed};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::{Alias, ColumnKind, Field};
use dolmen_rntuple::store::{Collected, CreateOptions, Made, Stored, When};
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{Entries, Error, Memory, Ntuple};
use proptest::prelude::*;
use std::sync::Barrier;

pub(crate) fn options(page_bytes: u32, cluster_bytes: u64) -> Options {
    Options { compression: Compression::Zstd(3), page_bytes, cluster_bytes, ..Options::default() }
}

/// Reshapes all, step by step; how many steps it took.
fn reshape_all(stored: &Stored, bytes_max: u64, options: &Options) -> usize {
    let (mut first, mut steps) = (0, 0);
    while let Some(done) = stored.reshape(first, bytes_max, options).unwrap() {
        assert_eq!((done.entries.first, done.version.made), (first, Made::Reshaped));
        first = done.entries.end;
        steps += 1;
    }
    assert_eq!(first, stored.version(When::Now).unwrap().entry_count);
    steps
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_reshaped_is_read_as_it_was(
        of in types(), how in hows(), seed in any::<u64>(), bytes_max in 1_u64..2000, page_bytes in 1_u32..100, cluster_bytes in 1_u64..500,
    ) {
        let values = values_of(&of, 30, &mut numbers(seed));
        let (bytes, anchor) = file(&of, &values, how);
        let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
        let world = World::any();
        world.store().import("events", &ntuple, &CreateOptions::default()).unwrap();
        let stored = world.store().ntuple("events").unwrap();
        let all = Entries { first: 0, end: 30 };
        let wanted = ntuple.read(&[0], all).unwrap();
        let before = stored.open(When::Now).unwrap();
        let steps = reshape_all(&stored, bytes_max, &options(page_bytes, cluster_bytes));
        let after = stored.open(When::Now).unwrap();
        prop_assert_eq!(&after.read(&[0], all).unwrap(), &wanted);
        prop_assert_eq!(&before.read(&[0], all).unwrap(), &wanted);
        prop_assert_eq!(stored.versions().unwrap().len(), 1 + steps);
        let firsts = |ntuple: &Ntuple<_>| -> Vec<Option<u64>> {
            let clusters = ntuple.all_clusters().unwrap();
            clusters.first().unwrap().pages.columns.iter().map(|column| column.first_element).collect()
        };
        prop_assert_eq!(firsts(&after), firsts(&before));
        prop_assert!(stored.scrub(When::Now, |_| ()).unwrap().bad.is_empty());
        // What was before goes with its versions.
        stored.keep(0).unwrap();
        world.clock.advance(1);
        let collected = world.store().collect().unwrap();
        prop_assert_eq!(collected.versions, steps as u64);
        prop_assert_eq!(&stored.open(When::Now).unwrap().read(&[0], all).unwrap(), &wanted);
        world.store().destroy("events").unwrap();
        prop_assert_eq!(world.object_count(), 0);
    }
}

#[test]
fn columns_that_begin_later_begin_there_in_whatever_clusters() {
    for entry in 1..8 {
        let ntuple = added_before(entry);
        let all = Entries { first: 0, end: 8 };
        let fields: Vec<_> = ntuple.top_fields().collect();
        let wanted = ntuple.read(&fields, all).unwrap();
        for (bytes_max, cluster_bytes) in
            [(u64::MAX, 1000), (u64::MAX, 60), (u64::MAX, 1), (1, 1000), (1, 40)]
        {
            let world = World::any();
            world.store().import("events", &ntuple, &CreateOptions::default()).unwrap();
            let stored = world.store().ntuple("events").unwrap();
            let before = stored.open(When::Now).unwrap().all_clusters().unwrap().len();
            reshape_all(&stored, bytes_max, &options(8, cluster_bytes));
            let after = stored.open(When::Now).unwrap();
            assert_eq!(after.read(&fields, all).unwrap(), wanted, "{entry} {cluster_bytes}");
            let clusters = after.all_clusters().unwrap();
            assert_ne!((clusters.len(), cluster_bytes), (before, 60));
            let first = |number: usize| {
                let columns = clusters.iter().filter_map(|cluster| {
                    let column = cluster.pages.columns.get(number)?;
                    (!column.pages.is_empty()).then_some(column.first_element)
                });
                columns.flatten().next()
            };
            let begin = Some(u64::try_from(entry).unwrap());
            assert_eq!([first(0), first(1), first(2), first(3)], [Some(0), begin, begin, Some(0)]);
            // What is before its beginning is not stored: it ends with the entries of its cluster.
            for cluster in &clusters {
                let end = cluster.pages.first_entry + cluster.pages.entry_count;
                for column in cluster.pages.columns.iter().take(3) {
                    let pages = &cluster.list.pages[column.pages.clone()];
                    let count: u64 = pages.iter().map(|page| u64::from(page.element_count)).sum();
                    assert!(column.first_element.is_none_or(|first| first + count == end), "{entry} {end}");
                }
            }
            assert!(stored.scrub(When::Now, |_| ()).unwrap().bad.is_empty());
        }
    }
}

#[test]
fn one_large_cluster_is_made_of_small_ones_also_of_several_families() {
    World::each(|world| {
        let stored = two_columns(&world);
        let mut appender = stored.append().unwrap();
        for at in 0..100 {
            appender.push(&cluster(&stored, at * 5)).unwrap();
        }
        appender.commit().unwrap();
        let mut schema = stored.open(When::Now).unwrap().header().schema.clone();
        add(&mut schema, &[("c", ColumnKind::Int32)]);
        let mut adder = stored.add_columns(&schema).unwrap();
        for at in 0..100 {
            adder.push(&sealed(&schema, 2, 5, &[ints(at * 5..at * 5 + 5)], 5)).unwrap();
        }
        adder.commit().unwrap();
        // From the middle of the first list into the second.
        let done = stored.reshape(100, 3000, &options(1 << 20, 1 << 20)).unwrap().unwrap();
        assert_eq!((done.entries.first, done.clusters_before, done.clusters_after), (100, 50, 1));
        assert_eq!(done.version.cluster_count, 51);
        let ntuple = stored.open(When::Now).unwrap();
        for name in ["a", "c"] {
            assert_eq!(all_ints(&ntuple, name), (0..500).collect::<Vec<_>>());
        }
        let elements: Vec<_> = ntuple
            .all_clusters()
            .unwrap()
            .iter()
            .map(|cluster| cluster.pages.columns[2].first_element)
            .collect();
        assert_eq!(elements[19..22], [Some(95), Some(100), Some(350)]);
        reshape_all(&stored, u64::MAX, &options(100, 1 << 20));
        assert_eq!(stored.version(When::Now).unwrap().cluster_count, 1);
        let mut appender = stored.append().unwrap();
        let columns = [ints(500..505), ints(0..5), ints(500..505)];
        appender.push(&sealed(&schema, 0, 5, &columns, 5)).unwrap();
        appender.commit().unwrap();
        let ntuple = stored.open(When::Now).unwrap();
        for name in ["a", "c"] {
            assert_eq!(all_ints(&ntuple, name), (0..505).collect::<Vec<_>>());
        }
        assert_eq!(ntuple.all_clusters().unwrap()[1].pages.columns[2].first_element, Some(500));
    });
}

#[test]
fn who_appends_and_who_reshapes_at_the_same_time_lose_nothing() {
    World::each(|world| {
        let stored = two_columns(&world);
        let mut appender = stored.append().unwrap();
        for at in 0..20 {
            appender.push(&cluster(&stored, at * 5)).unwrap();
        }
        appender.commit().unwrap();
        let begin = Barrier::new(3);
        dolmen_env::scope(|scope| {
            for _ in 0..2 {
                let (stored, begin) = (world.another().ntuple("events").unwrap(), &begin);
                scope.spawn(move || {
                    begin.wait();
                    let mut first = 0;
                    while first < 100 {
                        match stored.reshape(first, 100, &options(16, 80)) {
                            Ok(done) => first = done.unwrap().entries.end,
                            Err(Error::Changed { .. }) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
            let (stored, begin) = (world.another().ntuple("events").unwrap(), &begin);
            scope.spawn(move || {
                let mut appender = stored.append().unwrap();
                begin.wait();
                for at in 20..30 {
                    appender.push(&cluster(&stored, at * 5)).unwrap();
                    appender.commit().unwrap();
                }
            });
        });
        let ntuple = stored.open(When::Now).unwrap();
        assert_eq!(all_ints(&ntuple, "a"), (0..150).collect::<Vec<_>>());
        assert_eq!(all_ints(&ntuple, "b"), (0..150).map(|at| -at).collect::<Vec<_>>());
    });
}

#[test]
fn clusters_that_others_have_replaced_meanwhile_are_not_replaced() {
    World::each(|world| {
        let stored = two_columns(&world);
        let mut appender = stored.append().unwrap();
        for at in 0..4 {
            appender.push(&cluster(&stored, at * 5)).unwrap();
        }
        appender.commit().unwrap();
        let other = world.another().ntuple("events").unwrap();
        world.faults.before_commit(move || {
            other.reshape(5, 1, &options(16, 20)).unwrap().unwrap();
        });
        let found = stored.reshape(0, u64::MAX, &options(40, 80));
        assert!(matches!(found, Err(Error::Changed { first: 0, end: 20 })), "{found:?}");
        let clusters = |stored: &Stored| stored.version(When::Now).unwrap().cluster_count;
        assert_eq!(clusters(&stored), 5, "the second has become two");
        // What is changed behind it is not in its way.
        let other = world.another().ntuple("events").unwrap();
        world.faults.before_commit(move || {
            other.reshape(10, u64::MAX, &options(40, 80)).unwrap().unwrap();
            let mut appender = other.append().unwrap();
            appender.push(&cluster(&other, 20)).unwrap();
            appender.commit().unwrap();
        });
        stored.reshape(0, 80, &options(40, 80)).unwrap().unwrap();
        assert_eq!(clusters(&stored), 3);
        assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), (0..25).collect::<Vec<_>>());
    });
}

#[test]
fn a_reshape_that_ends_anywhere_is_done_or_not_and_leaves_nothing() {
    for kind in KINDS {
        for count in 0.. {
            let world = World::of(kind);
            let stored = two_columns(&world);
            stored.keep(0).unwrap();
            let mut appender = stored.append().unwrap();
            for at in 0..4 {
                appender.push(&cluster(&stored, at * 5)).unwrap();
            }
            appender.commit().unwrap();
            let before = world.object_count();
            world.faults.after(count);
            let is_done = stored.reshape(0, u64::MAX, &options(40, 80)).is_ok();
            let was_cut = world.faults.heal();
            let ntuple = world.another().open("events", When::Now).unwrap();
            assert_eq!(all_ints(&ntuple, "a"), (0..20).collect::<Vec<_>>());
            let clusters = ntuple.all_clusters().unwrap().len();
            assert!(clusters == 4 && !is_done || clusters == 2, "{clusters}, {is_done}");
            world.clock.advance(LEASE_NS * 2);
            world.another().collect().unwrap();
            assert_eq!(world.object_count(), before + clusters - 4);
            assert_eq!(
                all_ints(&stored.open(When::Now).unwrap(), "b"),
                (0..20).map(|at| -at).collect::<Vec<_>>()
            );
            if !was_cut {
                assert!(is_done && count > 3, "{count}");
                break;
            }
        }
    }
}

#[test]
fn a_clone_has_some_fields_and_the_same_pages_which_stay_while_one_needs_them() {
    World::each(|world| {
        let stored = two_columns(&world);
        let mut appender = stored.append().unwrap();
        for at in 0..4 {
            appender.push(&cluster(&stored, at * 5)).unwrap();
        }
        appender.commit().unwrap();
        let before = world.object_count();
        let version = world.store().clone_fields(&stored, When::Now, &["b"], "slim").unwrap();
        assert_eq!((version.made, version.entry_count), (Made::Cloned, 20));
        assert_eq!(world.object_count(), before + 1, "no page is written");
        let slim = world.another().ntuple("slim").unwrap();
        let ntuple = slim.open(When::Now).unwrap();
        assert!(ntuple.field("a").is_err());
        assert!(slim.scrub(When::Now, |_| ()).unwrap().bad.is_empty());
        let mut appender = slim.append().unwrap();
        appender.push(&sealed(&ntuple.header().schema, 0, 3, &[ints([7, 8, 9])], 3)).unwrap();
        appender.commit().unwrap();
        assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a").len(), 20);
        let collected = world.store().destroy("events").unwrap();
        assert_eq!(
            collected,
            Collected { kept: 1, ntuples: 1, ..Collected::default() },
            "the clone needs the clusters"
        );
        let wanted: Vec<_> = (0..20).map(|at| -at).chain([7, 8, 9]).collect();
        assert_eq!(all_ints(&slim.open(When::Now).unwrap(), "b"), wanted);
        let found = world.store().clone_fields(&slim, When::Now, &["a"], "none");
        assert!(matches!(found, Err(Error::NoField { .. })));
        let found = world.store().clone_fields(&slim, When::Now, &[], "slim");
        assert!(matches!(found, Err(Error::Exists { .. })));
        world.store().destroy("slim").unwrap();
        assert_eq!(world.object_count(), 0);
    });
}

#[test]
fn nothing_is_cloned_of_what_is_destroyed_meanwhile() {
    World::each(|world| {
        let stored = two_columns(&world);
        let mut appender = stored.append().unwrap();
        appender.push(&cluster(&stored, 0)).unwrap();
        appender.commit().unwrap();
        let other = world.another();
        // The first commit is that of the clone: when it is sent, its pages have gone.
        world.faults.before_commit(move || {
            assert_eq!(other.destroy("events").unwrap().clusters, 1);
        });
        let found = world.store().clone_fields(&stored, When::Now, &[], "clone");
        assert!(matches!(found, Err(Error::NoNtuple { .. })), "{found:?}");
        world.clock.advance(LEASE_NS * 2);
        world.store().collect().unwrap();
        assert_eq!(world.object_count(), 0);
    });
}

#[test]
fn a_field_that_shows_another_is_cloned_without_it_and_with_it() {
    let of = Type::List(ColumnKind::SplitIndex32, Box::new(Type::Number(ColumnKind::Int32)));
    let how = How {
        compression: Compression::None,
        elements_of_a_page: 3,
        entries_of_a_cluster: 7,
        clusters_of_a_group: 2,
        has_checksums: true,
    };
    let values = values_of(&of, 20, &mut numbers(4));
    let (bytes, anchor) = file(&of, &values, how);
    let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
    World::each(|world| {
        let mut header = ntuple.header().clone();
        header.name = "events".into();
        header.schema.fields.push(Field {
            parent: 2,
            source: Some(0),
            name: "sizes".into(),
            ..header.schema.fields[1].clone()
        });
        header.schema.aliases.push(Alias { column: 0, field: 2 });
        let stored = world.store().create(&header, &CreateOptions::default()).unwrap();
        let mut appender = stored.append().unwrap();
        for cluster in ntuple.all_clusters().unwrap() {
            appender.push(&ntuple.take(&cluster, |_| true).unwrap()).unwrap();
        }
        appender.commit().unwrap();
        let all = Entries { first: 0, end: 20 };
        let wanted = stored.open(When::Now).unwrap().read(&[0, 2], all).unwrap();
        for (name, fields) in [("alone", &["sizes"][..]), ("both", &["sizes", "field"]), ("all", &[])] {
            world.store().clone_fields(&stored, When::Now, fields, name).unwrap();
            let clone = world.store().open(name, When::Now).unwrap();
            let sizes = clone.field("sizes").unwrap();
            assert_eq!(clone.read(&[sizes], all).unwrap()[0], wanted[1], "{name}");
            let is_alone = name == "alone";
            assert_eq!(clone.field("field").is_ok(), !is_alone);
            assert_eq!(clone.header().schema.columns.len(), if is_alone { 1 } else { 2 });
            if !is_alone {
                assert_eq!(clone.read(&[0], all).unwrap()[0], wanted[0], "{name}");
            }
        }
    });
}
