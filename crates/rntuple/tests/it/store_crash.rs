//! A process that ends at any of its requests: readers see whole versions, and what it left is freed.

use crate::made::{How, Type, file};
use crate::read::{numbers, values_of};
use crate::store_append::{cluster, two_columns};
use crate::store_fill::{append_filled, assert_appended, begun};
use crate::store_trees::{COUNT, how, two_branches};
use crate::store_world::{KINDS, Kind, LEASE_NS, World, all_ints, header};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::store::{CreateOptions, Store, When};
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{Array, Entries, Memory, Ntuple, Result, Values};

/// Does something in worlds of which each refuses all changes from one later than the one before, until nothing is refused; looks at what is there
/// after each.
fn at_each_request<T>(
    begin: impl Fn(&World) -> T,
    act: impl Fn(&World, &T) -> Result<()>,
    look: impl Fn(&World, &T, bool),
) -> i64 {
    KINDS.into_iter().map(|kind| at_each_request_of(kind, &begin, &act, &look)).min().unwrap()
}

fn at_each_request_of<T>(
    kind: Kind,
    begin: impl Fn(&World) -> T,
    act: impl Fn(&World, &T) -> Result<()>,
    look: impl Fn(&World, &T, bool),
) -> i64 {
    for count in 0.. {
        let world = World::of(kind);
        let begun = begin(&world);
        world.faults.after(count);
        let done = act(&world, &begun);
        let was_cut = world.faults.heal();
        assert!(was_cut || done.is_ok(), "{:?}", done.err());
        look(&world, &begun, done.is_ok());
        if !was_cut {
            return count;
        }
    }
    unreachable!("each act ends")
}

/// What was to be made is there as it has to be, and if it was done; when the lease is over, and it is destroyed, nothing is left.
fn assert_whole_or_nothing(world: &World, is_done: bool, assert_is_whole: impl Fn(&Store)) {
    let store = world.another();
    let is_there = !store.list().unwrap().is_empty();
    assert!(is_there || !is_done);
    if is_there {
        assert_is_whole(&store);
    }
    world.clock.advance(LEASE_NS * 2);
    store.collect().unwrap();
    if is_there {
        assert_is_whole(&store);
        store.destroy("events").unwrap();
    }
    assert_eq!(world.object_count(), 0);
}

#[test]
fn an_import_that_ends_anywhere_is_there_as_a_whole_or_leaves_nothing() {
    let how = How {
        compression: Compression::None,
        elements_of_a_page: 3,
        entries_of_a_cluster: 7,
        clusters_of_a_group: 2,
        has_checksums: true,
    };
    let of = Type::Record(vec![Type::Number(ColumnKind::Int64), Type::Text(ColumnKind::Index64)]);
    let values = values_of(&of, 20, &mut numbers(3));
    let (bytes, anchor) = file(&of, &values, how);
    let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
    let wanted = ntuple.read(&[0], Entries { first: 0, end: 20 }).unwrap();
    let options = CreateOptions { group_bytes: Some(100), ..CreateOptions::default() };
    let steps = at_each_request(
        |_| (),
        |world, ()| world.store().import("events", &ntuple, &options).map(drop),
        |world, (), is_done| {
            assert_whole_or_nothing(world, is_done, |store| {
                let stored = store.open("events", When::Now).unwrap();
                assert_eq!(stored.read(&[0], Entries { first: 0, end: 20 }).unwrap(), wanted);
            });
        },
    );
    assert!(steps > 9, "{steps}");
}

#[test]
fn an_import_of_a_tree_that_ends_anywhere_is_there_as_a_whole_or_leaves_nothing() {
    let (tree, options) = (two_branches(), CreateOptions::default());
    let steps = at_each_request(
        |_| (),
        |world, ()| world.store().import_tree("events", &tree, &how(), &options, |_| ()).map(drop),
        |world, (), is_done| {
            assert_whole_or_nothing(world, is_done, |store| {
                let stored = store.open("events", When::Now).unwrap();
                assert_eq!(all_ints(&stored, "run_number").len() as u64, COUNT);
            });
        },
    );
    assert!(steps > 9, "{steps}");
}

#[test]
fn what_is_made_of_arrays_and_ends_anywhere_is_there_with_all_entries_or_leaves_nothing() {
    let (header, options) = (header("events", &[("a", ColumnKind::Int32)]), CreateOptions::default());
    let array = Array::Values(Values::I32((0..20).collect()));
    let how = Options { cluster_bytes: 28, ..Options::default() };
    let steps = at_each_request(
        |_| (),
        |world, ()| world.store().create_of(&header, &[("a", (&array).into())], &options, &how).map(drop),
        |world, (), is_done| {
            assert_whole_or_nothing(world, is_done, |store| {
                let ntuple = store.open("events", When::Now).unwrap();
                assert_eq!(all_ints(&ntuple, "a"), (0..20).collect::<Vec<_>>());
                assert_eq!(ntuple.all_clusters().unwrap().len(), 3);
                let versions = store.ntuple("events").unwrap().versions().unwrap();
                assert_eq!(versions.len(), 1, "it was never there without entries");
            });
        },
    );
    assert!(steps > 3, "{steps}");
}

#[test]
fn an_append_that_fills_and_ends_anywhere_is_there_as_a_whole_or_leaves_nothing() {
    let steps = at_each_request(
        |world| {
            let (stored, daily) = begun(world);
            (world.object_count(), stored, daily)
        },
        |_, (_, stored, daily)| append_filled(stored, daily),
        |world, (before, stored, _), is_done| {
            assert_appended(stored, is_done);
            world.clock.advance(LEASE_NS * 2);
            world.another().collect().unwrap();
            let more = if stored.version(When::Now).unwrap().entry_count == 10 { 2 } else { 0 };
            assert_eq!(world.object_count(), before + more, "nothing is left over");
            assert_appended(stored, is_done);
        },
    );
    assert!(steps > 3, "{steps}");
}

#[test]
fn an_append_that_ends_anywhere_is_there_as_a_whole_or_leaves_nothing() {
    let steps = at_each_request(
        |world| {
            let stored = two_columns(world);
            let mut appender = stored.append().unwrap();
            appender.push(&cluster(&stored, 0)).unwrap();
            appender.commit().unwrap();
            let clusters = [5, 10, 15].map(|first| cluster(&stored, first));
            (world.object_count(), stored, clusters)
        },
        |_, (_, stored, [one, two, three])| {
            let mut appender = stored.append()?;
            appender.push(one)?;
            appender.push(two)?;
            appender.commit()?;
            appender.push(three)?;
            appender.commit().map(drop)
        },
        |world, (before, stored, _), is_done| {
            let ntuple = world.another().open("events", When::Now).unwrap();
            let found = all_ints(&ntuple, "a");
            assert_eq!(found, (0..).take(found.len()).collect::<Vec<_>>());
            assert!([5, 15, 20].contains(&found.len()) && (found.len() == 20 || !is_done), "{found:?}");
            world.clock.advance(LEASE_NS * 2);
            world.another().collect().unwrap();
            assert_eq!(world.object_count(), before + (found.len() - 5) / 5, "no cluster is left over");
            assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "b").len(), found.len());
            let mut appender = stored.append().unwrap();
            appender.push(&cluster(stored, 100)).unwrap();
            appender.commit().unwrap();
            assert_eq!(
                all_ints(&stored.open(When::Now).unwrap(), "a")[found.len()..],
                [100, 101, 102, 103, 104]
            );
        },
    );
    assert!(steps > 6, "{steps}");
}

#[test]
fn a_collection_that_ends_anywhere_is_done_by_the_next_one() {
    let steps = at_each_request(
        |world| {
            let stored = two_columns(world);
            stored.keep(0).unwrap();
            let mut appender = stored.append().unwrap();
            appender.push(&cluster(&stored, 0)).unwrap();
            appender.commit().unwrap();
            let before = world.object_count();
            let one = stored.open(When::Now).unwrap();
            world.store().import("other", &one, &CreateOptions::default()).unwrap();
            appender.push(&cluster(&stored, 5)).unwrap();
            drop(appender);
            world.clock.advance(LEASE_NS * 2);
            (before, stored)
        },
        |world, _| world.store().destroy("other").map(drop),
        |world, (before, stored), is_done| {
            let is_there = world.store().list().unwrap().len() == 2;
            assert!(!is_there || !is_done);
            if is_there {
                world.store().destroy("other").unwrap();
            }
            // Until then it has a record, as writers have.
            world.clock.advance(LEASE_NS * 2);
            world.another().collect().unwrap();
            assert_eq!(world.object_count(), *before);
            assert_eq!(stored.versions().unwrap().len(), 1);
            assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), (0..5).collect::<Vec<_>>());
        },
    );
    assert!(steps > 4, "{steps}");
}
