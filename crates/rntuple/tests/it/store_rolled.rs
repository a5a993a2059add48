//! Containers that go back to a snapshot while somebody writes to their ntuples, or frees what nobody needs.

use crate::store_append::{cluster, two_columns};
use crate::store_columns::{more, push_missing, wider};
use crate::store_world::{Kind, World, add, all_ints, doubles, ints, sealed};
use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::store::{CreateOptions, Stored, Version, When};
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{Error, Result, stop};
use std::sync::Arc;

fn append(stored: &Stored, firsts: impl IntoIterator<Item = i32>) {
    let mut appender = stored.append().unwrap();
    for first in firsts {
        appender.push(&cluster(stored, first)).unwrap();
        appender.commit().unwrap();
    }
}

/// The container has this in the first column, and nothing is damaged.
fn check(stored: &Stored, end: i32) {
    assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), (0..end).collect::<Vec<_>>());
    assert_eq!(stored.scrub(When::Now, |_| ()).unwrap().bad.len(), 0);
}

#[test]
fn what_a_snapshot_that_was_gone_back_to_hides_of_a_writer_becomes_part_of_nothing() {
    // Clusters that are put before the snapshot.
    for before in [0, 1] {
        let world = World::of(Kind::Container);
        let stored = two_columns(&world);
        append(&stored, [0, 5, 10]);
        let schema = wider(&stored);
        let (mut appender, mut adder) = (stored.append().unwrap(), stored.add_columns(&schema).unwrap());
        for first in 0..before {
            appender.push(&cluster(&stored, 15 + first)).unwrap();
            let entries = adder.missing()[0];
            adder.push(&more(&schema, entries)).unwrap();
        }
        let snapshot = world.cont().create_snapshot(None).unwrap();
        appender.push(&cluster(&stored, 50)).unwrap();
        push_missing(&mut adder, &schema).unwrap();
        world.cont().rollback(snapshot).unwrap();
        let check_told = |told: Result<Version>| {
            // Of who had put nothing at the snapshot there is no record.
            let wanted = matches!((before, &told), (0, Err(Error::Expired)) | (1, Err(Error::WentBack)));
            assert!(wanted, "{before}: {told:?}");
        };
        for _ in 0..2 {
            check_told(appender.commit());
            check_told(adder.commit());
            check(&stored, 15);
        }
        // Others go on, and so does he with all that he has put again.
        let later = world.another().ntuple("events").unwrap();
        append(&later, [15]);
        appender.discard().unwrap();
        adder.discard().unwrap();
        let mut again = stored.append().unwrap();
        again.push(&cluster(&stored, 20)).unwrap();
        again.commit().unwrap();
        check(&stored, 25);
        world.another().collect_alone().unwrap();
        check(&stored, 25);
    }
}

#[test]
fn what_is_put_of_columns_that_a_snapshot_has_not_is_refused_whatever_columns_there_are_now() {
    for adds in [false, true] {
        let world = World::of(Kind::Container);
        let stored = two_columns(&world);
        append(&stored, [0]);
        let snapshot = world.cont().create_snapshot(None).unwrap();
        let mut schema = stored.open(When::Now).unwrap().header().schema.clone();
        let narrow = schema.clone();
        add(&mut schema, &[("x", ColumnKind::SplitReal64)]);
        let mut adder = stored.add_columns(&schema).unwrap();
        adder.push(&sealed(&schema, 2, 5, &[doubles((0..5).map(f64::from))], 3)).unwrap();
        adder.commit().unwrap();
        let (mut put, mut unput) = (stored.append().unwrap(), stored.append().unwrap());
        let columns = [ints(5..10), ints((5..10).map(|at| -at)), doubles((5..10).map(f64::from))];
        let wide = sealed(&schema, 0, 5, &columns, 3);
        put.push(&wide).unwrap();
        world.cont().rollback(snapshot).unwrap();
        if adds {
            // As many columns as before, of another type.
            world.clock.advance(1);
            let mut other = narrow.clone();
            add(&mut other, &[("y", ColumnKind::Int64)]);
            let stored = world.another().ntuple("events").unwrap();
            let mut adder = stored.add_columns(&other).unwrap();
            let numbers: Vec<u8> = (0..5_i64).flat_map(i64::to_le_bytes).collect();
            adder.push(&sealed(&other, 2, 5, &[numbers], 3)).unwrap();
            adder.commit().unwrap();
        }
        let told = put.commit();
        assert!(matches!(told, Err(Error::OtherSchema | Error::Expired)), "{told:?}");
        unput.push(&wide).unwrap();
        let told = unput.commit();
        assert!(matches!(told, Err(Error::OtherSchema)), "{told:?}");
        check(&stored, 5);
    }
}

#[test]
fn a_clone_is_of_the_version_that_it_was_made_of_or_none() {
    let world = World::of(Kind::Container);
    let stored = two_columns(&world);
    append(&stored, [0]);
    for at in 0.. {
        let snapshot = world.cont().create_snapshot(None).unwrap();
        append(&stored, [5]);
        let (cont, clock, later) = (world.cont().clone(), world.clock.clone(), world.another());
        let goes_back = move || {
            cont.rollback(snapshot).unwrap();
            clock.advance(1);
            append(&later.ntuple("events").unwrap(), [5]);
        };
        let (asked, made) = beside(at, goes_back, || {
            world.store().clone_fields(&stored, When::Now, &["a"], "clone").map(drop)
        });
        if asked <= at {
            assert!(at > 0);
            world.cont().rollback(snapshot).unwrap();
            break;
        }
        assert_eq!(world.store().list().unwrap().len(), 1 + usize::from(made.is_ok()), "{made:?}");
        if made.is_ok() {
            check(&world.store().ntuple("clone").unwrap(), 10);
            world.store().destroy("clone").unwrap();
        }
        check(&stored, 10);
        world.cont().rollback(snapshot).unwrap();
    }
    // Of a snapshot it is what that shows, as long as that is there.
    let snapshot = world.cont().create_snapshot(None).unwrap();
    append(&stored, [5]);
    let shown = world.store_at(snapshot);
    let seen = shown.ntuple("events").unwrap();
    world.store().clone_fields(&seen, When::Now, &[], "clone").unwrap();
    check(&world.store().ntuple("clone").unwrap(), 5);
    world.store().destroy("events").unwrap();
    let told = world.store().clone_fields(&seen, When::Now, &[], "again");
    assert!(matches!(told, Err(Error::NoNtuple { .. })), "{told:?}");
}

/// Runs something, and `act` where it asks for the time of that number whether it is to go on; how often it asked.
fn beside(
    at: u64,
    act: impl Fn() + Send + Sync + 'static,
    run: impl FnOnce() -> Result<()>,
) -> (u64, Result<()>) {
    let count = Arc::new(AtomicU64::new(0));
    let same = Arc::clone(&count);
    let asked: stop::Asked = Arc::new(move || {
        if same.fetch_add(1, Ordering::Relaxed) == at {
            act();
        }
        false
    });
    let done = stop::asking(Some(asked), run);
    (count.load(Ordering::Relaxed), done)
}

#[test]
fn what_is_needed_at_a_snapshot_that_is_gone_back_to_meanwhile_is_not_freed() {
    // Whenever the snapshot is made, and whenever it is gone back to.
    let mut steps = 0;
    for at in 0.. {
        let world = World::of(Kind::Container);
        let stored = two_columns(&world);
        append(&stored, [0, 5]);
        let one = stored.open(When::Now).unwrap();
        world.store().import("other", &one, &CreateOptions::default()).unwrap();
        let snapshot = world.cont().create_snapshot(None).unwrap();
        stored.reshape(0, u64::MAX, &Options::default()).unwrap();
        stored.keep(0).unwrap();
        let cont = world.cont().clone();
        let goes_back = move || {
            cont.rollback(snapshot).unwrap();
        };
        let (asked, done) = beside(at, goes_back, || world.store().destroy("other").map(drop));
        done.unwrap();
        if asked <= at {
            break;
        }
        steps = asked;
        for name in ["events", "other"] {
            check(&world.another().ntuple(name).unwrap(), 10);
        }
        world.another().collect_alone().unwrap();
        for name in ["events", "other"] {
            check(&world.another().ntuple(name).unwrap(), 10);
        }
    }
    assert!(steps > 3, "{steps}");
}
