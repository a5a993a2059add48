//! One ntuple that cannot be read does not keep a store from anything else; a version that was freed is none that is damaged.

use crate::store_append::{cluster, two_columns};
use crate::store_reshape::options;
use crate::store_world::{Kind, LEASE_NS, TICK_NS, World, all_ints, header};
use dolmen_client::{At, ObjectClass, ObjectType, Oid};
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::store::{Collected, CreateOptions, Stored, When};
use dolmen_rntuple::{Error, Fault};

/// Changes a record of a container past all that looks.
fn spoil(world: &World, kind: ObjectType, number: u64, dkey: &str, akey: &str) {
    let object = world.cont().object(Oid::new(kind, ObjectClass::S1, 0x4e54_504c, number)).unwrap();
    object.put(At::Latest, dkey.as_bytes(), akey.as_bytes(), b"spoilt").unwrap();
}

/// Has the versions of an ntuple, or a page list of one, be such as cannot be read.
fn damage(world: &World, stored: &Stored, akey: &str) {
    let listed = world.store().list().unwrap();
    let number = listed.iter().find(|listed| &*listed.name == stored.name()).unwrap().number;
    if !world.is_bucket() {
        return spoil(world, ObjectType::DkeyLexical, number, "v/0000000000000002", akey);
    }
    // All records of it are in what its last transaction wrote.
    let before: Vec<String> = world.bucket().objects.lock().unwrap().keys().cloned().collect();
    stored.tag("last", When::Now, true).unwrap();
    let mut objects = world.bucket().objects.lock().unwrap();
    let node = objects.iter_mut().find(|(key, _)| key.starts_with("m/") && !before.contains(key)).unwrap();
    let middle = node.1.0.len() / 2;
    node.1.0[middle] ^= 1;
}

fn append(stored: &Stored, firsts: impl IntoIterator<Item = i32>) {
    let mut appender = stored.append().unwrap();
    for first in firsts {
        appender.push(&cluster(stored, first)).unwrap();
        appender.commit().unwrap();
    }
}

#[test]
fn a_damaged_ntuple_keeps_nothing_of_others_from_being_freed_but_what_might_be_its_own() {
    for akey in ["anchor", "list/0"] {
        World::each(|world| {
            let events = two_columns(&world);
            events.keep(0).unwrap();
            let schema = header("other", &[("a", ColumnKind::SplitInt32), ("b", ColumnKind::Int32)]);
            for name in ["other", "third"] {
                let header = dolmen_rntuple::format::Header { name: name.into(), ..schema.clone() };
                let stored = world.store().create(&header, &CreateOptions::default()).unwrap();
                append(&stored, [0]);
            }
            append(&events, [0, 5]);
            let other = world.another().ntuple("other").unwrap();
            damage(&world, &other, akey);
            let mut dead = events.append().unwrap();
            dead.push(&cluster(&events, 90)).unwrap();
            world.clock.advance(LEASE_NS + TICK_NS);
            append(&events, [10]);
            let store = world.another();
            let destroyed = store.destroy("third").unwrap();
            let named: Vec<_> = destroyed.damaged.iter().map(|one| &*one.name).collect();
            assert_eq!(named, ["other"], "{destroyed:?}");
            assert!(!destroyed.damaged[0].why.is_empty());
            assert_eq!(
                (destroyed.versions, destroyed.writers, destroyed.ntuples),
                (3, 1, 1),
                "{destroyed:?}"
            );
            // Only what the dead writer has put is known to be nobody's; a bucket had not got it yet.
            assert_eq!(destroyed.clusters, u64::from(!world.is_bucket()));
            assert!(matches!(dead.commit(), Err(Error::Expired)));
            append(&events, [15]);
            let events = world.another().ntuple("events").unwrap();
            assert_eq!(all_ints(&events.open(When::Now).unwrap(), "a"), (0..20).collect::<Vec<_>>());
            let again = world.another().collect().unwrap();
            assert_eq!((again.versions, again.clusters, again.ntuples), (1, 0, 0), "{again:?}");
            // When it is destroyed nothing is left that might be its own.
            let left = u64::from(world.is_bucket());
            let wanted = Collected { clusters: 2 + left, ntuples: 1, ..Collected::default() };
            assert_eq!(world.another().destroy("other").unwrap(), wanted);
            assert_eq!(all_ints(&events.open(When::Now).unwrap(), "a"), (0..20).collect::<Vec<_>>());
            world.another().destroy("events").unwrap();
            assert_eq!(world.object_count(), 0);
        });
    }
}

#[test]
fn of_what_a_damaged_node_may_refer_to_nothing_is_swept_away() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let mut appender = stored.append().unwrap();
    for _ in 0..64 {
        appender.push(&cluster(&stored, 0)).unwrap();
    }
    appender.commit().unwrap();
    let before: Vec<String> = world.bucket().objects.lock().unwrap().keys().cloned().collect();
    stored.keep(1).unwrap();
    let is_new = |key: &&String| key.starts_with("m/") && !before.contains(key);
    let node = world.bucket().objects.lock().unwrap().keys().find(is_new).unwrap().clone();
    let change =
        || *world.bucket().objects.lock().unwrap().get_mut(&node).unwrap().0.last_mut().unwrap() ^= 1;
    change();
    world.clock.advance(LEASE_NS * 2);
    let schema = header("other", &[("a", ColumnKind::Int32)]);
    let store = world.another();
    store.create(&schema, &CreateOptions::default()).unwrap();
    assert_eq!(store.collect().unwrap().damaged.len(), 1);
    // Somebody had a copy of what was damaged.
    change();
    assert!(world.another().collect().unwrap().damaged.is_empty());
    let ntuple = world.another().open("events", When::Now).unwrap();
    assert_eq!(all_ints(&ntuple, "a"), (0..64).flat_map(|_| 0..5).collect::<Vec<_>>());
}

#[test]
fn an_entry_of_the_catalogue_that_is_damaged_is_destroyed_by_its_name() {
    let world = World::of(Kind::Container);
    let events = two_columns(&world);
    append(&events, [0]);
    let schema = header("other", &[("a", ColumnKind::Int32)]);
    world.store().create(&schema, &CreateOptions::default()).unwrap();
    spoil(&world, ObjectType::MultiHashed, 0, "events", "id");
    let store = world.another();
    let collected = store.collect().unwrap();
    assert_eq!((collected.clusters, collected.ntuples), (0, 0), "nobody knows which was its own");
    assert_eq!(&*collected.damaged[0].name, "events");
    assert!(matches!(store.destroy("none"), Err(Error::NoNtuple { others, .. }) if others.len() == 2));
    let wanted = Collected { clusters: 1, ntuples: 1, ..Collected::default() };
    assert_eq!(store.destroy("events").unwrap(), wanted);
    let left: Vec<_> = store.list().unwrap().into_iter().map(|listed| listed.name).collect();
    assert_eq!(left, ["other".into()]);
}

#[test]
fn a_record_of_a_writer_that_is_damaged_is_removed_and_the_writer_told() {
    let world = World::of(Kind::Container);
    let events = two_columns(&world);
    let mut writer = events.append().unwrap();
    writer.push(&cluster(&events, 0)).unwrap();
    let object = world.cont().object(Oid::new(ObjectType::DkeyLexical, ObjectClass::S1, 0x4e54_504c, 1));
    let mut anchor = dolmen_types::Anchor::default();
    let dkeys = object.unwrap().list_dkeys(At::Latest, &mut anchor, dolmen_client::Page::default()).unwrap();
    for dkey in dkeys.iter() {
        spoil(&world, ObjectType::DkeyLexical, 1, core::str::from_utf8(dkey).unwrap(), "record");
    }
    let collected = world.another().collect().unwrap();
    assert_eq!((collected.writers, collected.clusters, collected.damaged.len()), (1, 1, 0));
    assert!(matches!(writer.commit(), Err(Error::Expired)));
}

#[test]
fn who_reads_a_version_that_was_freed_is_told_so() {
    World::each(|world| {
        let stored = two_columns(&world);
        stored.keep(0).unwrap();
        append(&stored, [0, 5]);
        stored.tag("kept", When::Version(2), false).unwrap();
        let [old, kept] =
            [When::Now, When::Version(2)].map(|when| world.another().open("events", when).unwrap());
        stored.reshape(0, u64::MAX, &options(16, 80)).unwrap().unwrap();
        world.clock.advance(LEASE_NS * 2);
        stored.keep(0).unwrap();
        let collected = world.another().collect().unwrap();
        assert_eq!((collected.versions, collected.clusters), (2, 1), "{collected:?}");
        let entries = dolmen_rntuple::Entries { first: 0, end: 10 };
        let found = old.read(&[0], entries);
        assert!(matches!(found, Err(Error::Freed { version: 3 })), "{found:?}");
        let said = found.unwrap_err().to_string();
        assert!(said.contains("open the ntuple again") && said.contains("tag"), "{said}");
        assert_eq!(all_ints(&kept, "a"), (0..5).collect::<Vec<_>>());
        let newest = world.another().open("events", When::Now).unwrap();
        world.another().destroy("events").unwrap();
        let found = newest.read(&[0], entries);
        assert!(matches!(found, Err(Error::Freed { version: 4 })), "{found:?}");
    });
}

#[test]
fn what_is_lost_of_a_version_that_is_there_is_damage() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    append(&stored, [0]);
    let ntuple = stored.open(When::Now).unwrap();
    world.bucket().objects.lock().unwrap().retain(|key, _| !key.starts_with("c/"));
    let found = ntuple.read(&[0], dolmen_rntuple::Entries { first: 0, end: 5 });
    let Err(Error::BadPage { field, first: 0, end: 5, page: 0, source }) = found else { panic!("{found:?}") };
    assert_eq!(&*field, "a");
    assert!(matches!(*source, Error::Corrupt { fault: Fault::Short { .. }, .. }), "{source:?}");
}
