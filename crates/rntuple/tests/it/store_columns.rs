//! Columns that are added with values to entries that are there.

use crate::store_append::{cluster, two_columns};
use crate::store_world::{KINDS, LEASE_NS, World, add, all_ints, doubles, ints, sealed, values};
use dolmen_rntuple::format::schema::{ColumnKind, Schema};
use dolmen_rntuple::sealed::SealedCluster;
use dolmen_rntuple::store::{ColumnAdder, CreateOptions, Made, Stored, When};
use dolmen_rntuple::{Entries, Error, Result, Values};

/// The schema of the ntuple with a column of floats and one of integers more.
pub(crate) fn wider(stored: &Stored) -> Schema {
    let mut schema = stored.open(When::Now).unwrap().header().schema.clone();
    add(&mut schema, &[("mass", ColumnKind::SplitReal64), ("d", ColumnKind::Int32)]);
    schema
}

/// What is added to these entries.
pub(crate) fn more(schema: &Schema, entries: Entries) -> SealedCluster<'static> {
    let range = i32::try_from(entries.first).unwrap()..i32::try_from(entries.end).unwrap();
    let columns =
        [doubles(range.clone().map(|at| f64::from(at) / 2.0)), ints(range.clone().map(|at| at * 3))];
    sealed(schema, 2, range.len(), &columns, 3)
}

pub(crate) fn push_missing(adder: &mut ColumnAdder, schema: &Schema) -> Result<()> {
    while let Some(&entries) = adder.missing().first() {
        adder.push(&more(schema, entries))?;
    }
    Ok(())
}

fn three_clusters(world: &World) -> Stored {
    let stored = two_columns(world);
    let mut appender = stored.append().unwrap();
    for first in [0, 5, 10] {
        appender.push(&cluster(&stored, first)).unwrap();
    }
    appender.commit().unwrap();
    stored
}

#[test]
fn columns_are_added_with_values_and_nothing_that_was_there_is_written_anew() {
    World::each(|world| {
        let stored = three_clusters(&world);
        let before = stored.open(When::Now).unwrap();
        let (schema, objects) = (wider(&stored), world.object_count());
        let mut adder = stored.add_columns(&schema).unwrap();
        let firsts: Vec<_> = adder.missing().iter().map(|entries| entries.first).collect();
        assert_eq!(firsts, [0, 5, 10]);
        push_missing(&mut adder, &schema).unwrap();
        let version = adder.commit().unwrap();
        assert_eq!((version.number, version.entry_count, version.made), (3, 15, Made::ColumnsAdded));
        assert_eq!(world.object_count(), objects + 3, "an object of the new pages of each cluster");
        let after = world.another().open("events", When::Now).unwrap();
        let masses = Values::F64((0..15).map(|at| f64::from(at) / 2.0).collect());
        assert_eq!(values(&after, "mass"), masses);
        assert_eq!(all_ints(&after, "d"), (0..15).map(|at| at * 3).collect::<Vec<_>>());
        assert_eq!(all_ints(&after, "b"), (0..15).map(|at| -at).collect::<Vec<_>>());
        assert!(
            before.field("mass").is_err() && stored.open(When::Version(2)).unwrap().field("mass").is_err()
        );
        // Others go on with all columns, and add more.
        let mut appender = stored.append().unwrap();
        let Err(Error::OtherFields(found)) = appender.push(&cluster(&stored, 15)) else {
            panic!("two are missing")
        };
        assert_eq!(found.missing.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["mass", "d"]);
        let all = |first: i32| {
            let range = first..first + 5;
            let columns = [
                ints(range.clone()),
                ints(range.clone().map(|at| -at)),
                doubles(range.clone().map(|at| f64::from(at) / 2.0)),
                ints(range.map(|at| at * 3)),
            ];
            sealed(&schema, 0, 5, &columns, 2)
        };
        appender.push(&all(15)).unwrap();
        appender.commit().unwrap();
        let mut schema = schema.clone();
        add(&mut schema, &[("third", ColumnKind::Int32)]);
        let mut adder = stored.add_columns(&schema).unwrap();
        for first in [0, 5, 10, 15] {
            let mut cluster = sealed(&schema, 4, 5, &[ints(first..first + 5)], 5);
            if first > 5 {
                cluster.columns.splice(0..0, [None, None, None, None]);
            }
            adder.push(&cluster).unwrap();
        }
        adder.commit().unwrap();
        let ntuple = stored.open(When::Now).unwrap();
        for (name, times) in [("a", 1), ("b", -1), ("d", 3), ("third", 1)] {
            assert_eq!(all_ints(&ntuple, name), (0..20).map(|at| at * times).collect::<Vec<_>>(), "{name}");
        }
        world.store().import("copy", &ntuple, &CreateOptions::default()).unwrap();
        let copy = world.store().open("copy", When::Now).unwrap();
        assert_eq!(values(&copy, "mass"), Values::F64((0..20).map(|at| f64::from(at) / 2.0).collect()));
        assert_eq!(all_ints(&copy, "third"), (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn what_others_append_meanwhile_gets_the_columns_too_or_they_are_not_added() {
    World::each(|world| {
        let stored = three_clusters(&world);
        let schema = wider(&stored);
        let mut adder = stored.add_columns(&schema).unwrap();
        push_missing(&mut adder, &schema).unwrap();
        let mut appender = stored.append().unwrap();
        appender.push(&cluster(&stored, 15)).unwrap();
        appender.commit().unwrap();
        let found = adder.commit();
        assert!(matches!(found, Err(Error::Behind { first: 15, end: 20 })), "{found:?}");
        assert!(stored.open(When::Now).unwrap().field("mass").is_err());
        assert_eq!(adder.missing(), [Entries { first: 15, end: 20 }]);
        push_missing(&mut adder, &schema).unwrap();
        adder.commit().unwrap();
        assert_eq!(
            all_ints(&stored.open(When::Now).unwrap(), "d"),
            (0..20).map(|at| at * 3).collect::<Vec<_>>()
        );
        // Who began before has two columns only.
        appender.push(&cluster(&stored, 20)).unwrap();
        assert!(matches!(appender.commit(), Err(Error::OtherFields(_))));
    });
}

#[test]
fn columns_that_are_no_addition_are_refused() {
    World::each(|world| {
        let stored = three_clusters(&world);
        let schema = wider(&stored);
        let refused = |change: fn(&mut Schema)| {
            let mut other = schema.clone();
            change(&mut other);
            stored.add_columns(&other).err()
        };
        assert!(refused(|_| ()).is_none());
        let others: [fn(&mut Schema); 5] = [
            |schema| schema.columns.truncate(2),
            |schema| schema.columns[0].kind = ColumnKind::Int32,
            |schema| schema.columns[2].field = 0,
            |schema| schema.columns[2].first_element = 3,
            |schema| schema.fields[3].parent = 1,
        ];
        for change in others {
            assert!(matches!(refused(change), Some(Error::OtherSchema)));
        }
        let taken = refused(|schema| schema.fields[3].name = "a".into());
        assert!(matches!(taken, Some(Error::Exists { name }) if &*name == "a"));
        let mut adder = stored.add_columns(&schema).unwrap();
        let found = adder.push(&more(&schema, Entries { first: 0, end: 4 }));
        assert!(matches!(found, Err(Error::OtherSchema)), "{found:?}");
    });
}

#[test]
fn an_addition_that_ends_anywhere_is_there_as_a_whole_or_leaves_nothing() {
    for kind in KINDS {
        for count in 0.. {
            let world = World::of(kind);
            let stored = three_clusters(&world);
            let (schema, before) = (wider(&stored), world.object_count());
            world.faults.after(count);
            let act = || {
                let mut adder = stored.add_columns(&schema)?;
                push_missing(&mut adder, &schema)?;
                adder.commit()
            };
            let is_done = act().is_ok();
            let was_cut = world.faults.heal();
            let ntuple = world.another().open("events", When::Now).unwrap();
            assert_eq!(all_ints(&ntuple, "a"), (0..15).collect::<Vec<_>>());
            let is_there = ntuple.field("d").is_ok();
            assert!(is_there || !is_done);
            if is_there {
                assert_eq!(all_ints(&ntuple, "d"), (0..15).map(|at| at * 3).collect::<Vec<_>>());
            }
            world.clock.advance(LEASE_NS * 2);
            world.another().collect().unwrap();
            assert_eq!(world.object_count(), before + if is_there { 3 } else { 0 });
            if !was_cut {
                assert!(is_done && count > 4, "{count}");
                break;
            }
        }
    }
}
