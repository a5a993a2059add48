//! Clusters appended by one and by several.

use crate::made::{How, Type, file};
use crate::read::{numbers, values_of};
use crate::store_world::{LEASE_NS, TICK_NS, World, add, all_ints, header, ints, sealed};
use dolmen_env::{Clock, SimClock};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::sealed::SealedCluster;
use dolmen_rntuple::store::{CreateOptions, Made, Stored, When};
use dolmen_rntuple::{Entries, Error, Fault, Memory, Ntuple};
use std::borrow::Cow;
use std::sync::Barrier;

/// An ntuple of two columns of integers.
pub(crate) fn two_columns(world: &World) -> Stored {
    let header = header("events", &[("a", ColumnKind::SplitInt32), ("b", ColumnKind::Int32)]);
    world.store().create(&header, &CreateOptions::default()).unwrap()
}

/// Five entries, which begin with a number.
pub(crate) fn cluster(stored: &Stored, first: i32) -> SealedCluster<'static> {
    let ntuple = stored.open(When::Now).unwrap();
    let columns = [ints(first..first + 5), ints((first..first + 5).map(|at| -at))];
    sealed(&ntuple.header().schema, 0, 5, &columns, 2)
}

#[test]
fn what_is_appended_is_seen_with_its_commit_and_behind_what_was_there() {
    World::each(|world| {
        let stored = two_columns(&world);
        assert_eq!(stored.open(When::Now).unwrap().entry_count(), 0);
        let mut appender = stored.append().unwrap();
        for first in [0, 5] {
            appender.push(&cluster(&stored, first)).unwrap();
        }
        assert_eq!(stored.open(When::Now).unwrap().entry_count(), 0);
        let version = appender.commit().unwrap();
        assert_eq!(
            (version.number, version.entry_count, version.cluster_count, version.made),
            (2, 10, 2, Made::Appended)
        );
        let before = stored.open(When::Now).unwrap();
        appender.push(&cluster(&stored, 10)).unwrap();
        appender.commit().unwrap();
        assert_eq!(all_ints(&before, "a"), (0..10).collect::<Vec<_>>());
        let after = world.another().open("events", When::Now).unwrap();
        assert_eq!(all_ints(&after, "a"), (0..15).collect::<Vec<_>>());
        assert_eq!(all_ints(&after, "b"), (0..15).map(|at| -at).collect::<Vec<_>>());
        let first_elements: Vec<_> = after
            .clusters(Entries { first: 0, end: 15 })
            .unwrap()
            .iter()
            .map(|cluster| cluster.pages.columns[1].first_element)
            .collect();
        assert_eq!(first_elements, [Some(0), Some(5), Some(10)]);
    });
}

#[test]
fn many_appends_make_lists_of_64_clusters_each() {
    World::each(|world| {
        let stored = two_columns(&world);
        let mut appender = stored.append().unwrap();
        let cluster = cluster(&stored, 0);
        for _ in 0..130 {
            appender.push(&cluster).unwrap();
            appender.commit().unwrap();
        }
        let ntuple = stored.open(When::Now).unwrap();
        let found = all_ints(&ntuple, "a");
        assert_eq!(found, (0..130).flat_map(|_| 0..5).collect::<Vec<_>>());
        let clusters = ntuple.clusters(Entries { first: 0, end: 650 }).unwrap();
        let sizes: Vec<_> = [0, 64, 128].iter().map(|&at| clusters[at].list.clusters.len()).collect();
        assert_eq!(sizes, [64, 64, 2]);
    });
}

#[test]
fn of_several_writers_each_puts_its_clusters_whole_and_none_is_lost() {
    const WRITERS: i32 = 4;
    const COMMITS: i32 = 6;
    World::each(|world| {
        let stored = two_columns(&world);
        let begin = Barrier::new(usize::try_from(WRITERS).unwrap());
        dolmen_env::scope(|scope| {
            for writer in 0..WRITERS {
                let (stored, begin) = (world.another().ntuple("events").unwrap(), &begin);
                scope.spawn(move || {
                    let mut appender = stored.append().unwrap();
                    begin.wait();
                    for commit in 0..COMMITS {
                        for half in 0..2 {
                            appender.push(&cluster(&stored, writer * 1000 + commit * 10 + half * 5)).unwrap();
                        }
                        appender.commit().unwrap();
                    }
                });
            }
        });
        let version = stored.version(When::Now).unwrap();
        assert_eq!(version.number, 1 + u64::try_from(WRITERS * COMMITS).unwrap());
        let ntuple = stored.open(When::Now).unwrap();
        let found = all_ints(&ntuple, "a");
        assert_eq!(all_ints(&ntuple, "b"), found.iter().map(|at| -at).collect::<Vec<_>>());
        for writer in 0..WRITERS {
            let of_writer: Vec<_> = found.iter().copied().filter(|at| at / 1000 == writer).collect();
            let wanted: Vec<_> = (writer * 1000..writer * 1000 + COMMITS * 10).collect();
            assert_eq!(of_writer, wanted, "each writer's clusters are in its order");
        }
        for ten in found.chunks(10) {
            assert_eq!(ten.to_vec(), (ten[0]..ten[0] + 10).collect::<Vec<_>>(), "a commit is whole");
        }
    });
}

#[test]
fn another_ntuple_of_the_same_schema_is_appended_as_it_is_and_one_of_another_is_refused() {
    World::each(|world| {
        let how = How {
            compression: Compression::Zstd(1),
            elements_of_a_page: 3,
            entries_of_a_cluster: 7,
            clusters_of_a_group: 2,
            has_checksums: true,
        };
        let of = Type::List(ColumnKind::Index32, Box::new(Type::Number(ColumnKind::Int16)));
        let open = |of: &Type, seed| {
            let values = values_of(of, 20, &mut numbers(seed));
            let (bytes, anchor) = file(of, &values, how);
            Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap()
        };
        let (one, other) = (open(&of, 1), open(&of, 9));
        world.store().import("events", &one, &CreateOptions::default()).unwrap();
        let stored = world.store().ntuple("events").unwrap();
        let mut appender = stored.append().unwrap();
        appender.push_all(&other).unwrap();
        assert_eq!(appender.entry_count(), 20);
        appender.commit().unwrap();
        let ntuple = stored.open(When::Now).unwrap();
        for (from, first) in [(&one, 0), (&other, 20)] {
            let found = ntuple.read(&[0], Entries { first, end: first + 20 }).unwrap();
            assert_eq!(found, from.read(&[0], Entries { first: 0, end: 20 }).unwrap());
        }
        let flat = open(&Type::Number(ColumnKind::Int16), 1);
        let Err(Error::OtherFields(found)) = appender.push_all(&flat) else {
            panic!("it is of another type")
        };
        assert!(
            matches!(&found.others[..], [(name, own, given)] if own != given && !name.is_empty()),
            "{found}"
        );
    });
}

#[test]
fn a_cluster_that_is_not_what_it_says_is_refused() {
    World::each(|world| {
        let stored = two_columns(&world);
        let mut appender = stored.append().unwrap();
        let mut damaged = cluster(&stored, 0);
        let page = &mut damaged.columns[1].as_mut().unwrap().pages[0];
        page.stored = Cow::Owned(page.stored.iter().map(|byte| byte ^ 1).collect());
        let found = appender.push(&damaged);
        assert!(matches!(found, Err(Error::Corrupt { fault: Fault::Checksum, .. })), "{found:?}");
        let mut short = cluster(&stored, 0);
        short.columns[0].as_mut().unwrap().pages.pop();
        let found = appender.push(&short);
        assert!(matches!(found, Err(Error::Corrupt { fault: Fault::Length, .. })), "{found:?}");
        let mut schema = appender.schema().clone();
        add(&mut schema, &[("c", ColumnKind::Int32)]);
        let columns = [ints(0..5), ints(0..5), ints(0..5)];
        let found = appender.push(&sealed(&schema, 0, 5, &columns, 5));
        assert!(matches!(found, Err(Error::OtherSchema)), "{found:?}");
        assert_eq!(appender.commit().unwrap().entry_count, 0);
    });
}

#[test]
fn a_writer_that_is_silent_for_longer_than_its_lease_loses_what_it_wrote_and_is_told() {
    World::each(|world| {
        let stored = two_columns(&world);
        let before = world.object_count();
        let [mut alive, mut silent, mut late] = [0; 3].map(|_| stored.append().unwrap());
        silent.push(&cluster(&stored, 0)).unwrap();
        late.push(&cluster(&stored, 0)).unwrap();
        world.clock.advance(LEASE_NS / 2 + TICK_NS);
        alive.push(&cluster(&stored, 5)).unwrap();
        world.clock.advance(LEASE_NS / 2 + TICK_NS);
        alive.push(&cluster(&stored, 10)).unwrap();
        // A bucket gets groups together, when there are enough of them or all are to be there.
        let (there, lost) = if world.is_bucket() { (0, 0) } else { (4, 2) };
        assert_eq!(world.object_count(), before + there + 1, "clusters, and the object with the writers");
        let collected = world.another().collect().unwrap();
        assert_eq!((collected.writers, collected.clusters), (2, lost));
        assert!(matches!(silent.commit(), Err(Error::Expired)));
        assert!(matches!(late.push(&cluster(&stored, 0)), Err(Error::Expired)));
        assert!(matches!(late.commit(), Err(Error::Expired)));
        assert_eq!(alive.commit().unwrap().entry_count, 10);
        assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), (5..15).collect::<Vec<_>>());
        // Whoever has nothing to lose may be silent.
        let mut late = stored.append().unwrap();
        late.push(&cluster(&stored, 15)).unwrap();
        world.clock.advance(LEASE_NS * 3);
        assert_eq!(late.commit().unwrap().entry_count, 15, "nobody has looked meanwhile");
        let mut given_up = stored.append().unwrap();
        given_up.push(&cluster(&stored, 20)).unwrap();
        given_up.discard().unwrap();
        // Of what was put after its number was given up, and of what was given up itself, unless it was not on its way yet.
        assert_eq!(world.store().collect().unwrap().clusters, if world.is_bucket() { 2 } else { 1 });
        assert_eq!(world.store().collect().unwrap().clusters, 0);
    });
}

#[test]
fn where_nobody_writes_nobody_is_waited_for_and_who_does_is_told() {
    World::each(|world| {
        let stored = two_columns(&world);
        let before = world.object_count();
        let mut dead = stored.append().unwrap();
        dead.push(&cluster(&stored, 0)).unwrap();
        let mut alive = stored.append().unwrap();
        alive.push(&cluster(&stored, 5)).unwrap();
        assert_eq!(world.store().collect().unwrap().writers, 0, "their leases are not over");
        let collected = world.store().collect_alone().unwrap();
        assert_eq!((collected.writers, collected.clusters), (2, if world.is_bucket() { 0 } else { 2 }));
        assert!(matches!(alive.commit(), Err(Error::Expired)));
        drop((dead, alive));
        let mut next = stored.append().unwrap();
        next.push(&cluster(&stored, 10)).unwrap();
        assert_eq!(next.commit().unwrap().entry_count, 5);
        world.store().collect_alone().unwrap();
        assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), (10..15).collect::<Vec<_>>());
        assert_eq!(world.object_count(), before + 1, "the cluster");
    });
}

#[test]
fn how_long_a_writer_was_silent_says_the_clock_of_the_store_and_not_his_or_of_who_collects() {
    const YEAR_NS: i64 = 31_536_000_000_000_000;
    for off_ns in [-YEAR_NS, YEAR_NS] {
        World::each(|world| {
            let stored = two_columns(&world);
            let off = SimClock::new(world.clock.now_ns().checked_add_signed(off_ns).unwrap());
            let advance = |ns| {
                world.clock.advance(ns);
                off.advance(ns);
            };
            let his = world.store_by(&off).ntuple("events").unwrap();
            let [mut alive, mut silent] = [0; 2].map(|_| his.append().unwrap());
            silent.push(&cluster(&stored, 0)).unwrap();
            alive.push(&cluster(&stored, 0)).unwrap();
            advance(LEASE_NS / 2 + TICK_NS);
            alive.push(&cluster(&stored, 5)).unwrap();
            for store in [world.store(), world.store_by(&off)] {
                assert_eq!(store.collect().unwrap().writers, 0, "nobody was silent for long");
            }
            advance(LEASE_NS / 2 + TICK_NS);
            let collector = if off_ns > 0 { world.store() } else { world.store_by(&off) };
            assert_eq!(collector.collect().unwrap().writers, 1);
            assert!(matches!(silent.commit(), Err(Error::Expired)));
            assert_eq!(alive.commit().unwrap().entry_count, 10);
        });
    }
}

#[test]
fn a_record_of_a_writer_who_could_never_be_silent_for_so_long_keeps_nothing() {
    World::each(|world| {
        let stored = two_columns(&world);
        // The clock of the store was wrong when he began.
        world.clock.step_to(world.clock.now_ns() + 10 * 86_400_000_000_000);
        let mut writer = world.another().ntuple("events").unwrap().append().unwrap();
        writer.push(&cluster(&stored, 0)).unwrap();
        world.clock.step_to(crate::store_world::START_NS);
        let wanted = u64::from(world.is_bucket());
        assert_eq!(world.another().collect().unwrap().writers, wanted, "the clock of a pool never goes back");
        if world.is_bucket() {
            assert!(matches!(writer.commit(), Err(Error::Expired)));
        }
    });
}
