//! Checking a file system.

use super::common::{World, put, small_chunks};
use super::common::{cat, damage_entry, entry_record, put_entry};
use dolmen_client::At;
use dolmen_codec::Ask;
use dolmen_codec::verb::{ListWhat, Verb};
use dolmen_dfs::{Error, layout};
use dolmen_types::{Cond, ObjectClass, ObjectType, Recx};

#[test]
fn a_healthy_file_system_is_clean_and_counted() {
    let world = World::with(2, &small_chunks());
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    put(&fs, "/d/f", &[1; 9000]);
    fs.link("/d/f", &fs, "/g").unwrap();
    fs.symlink("g", "/l").unwrap();
    let open = put(&fs, "/open", b"x");
    fs.unlink("/open").unwrap();
    let report = fs.check(true).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.dirs, report.files, report.symlinks, report.orphans), (2, 1, 1, 1));
    assert_eq!(super::common::read_all(&open), b"x");
}

#[test]
fn what_is_freed_during_a_check_never_looks_leaked() {
    fn looks_at_names(ask: &Ask<'_>) -> bool {
        matches!(ask, Ask::Target(_, _, Verb::List(list)) if matches!(list.what, ListWhat::Dkeys(_)))
    }
    let (world, watched) = World::watched();
    let (one, two) = (world.mount_shared(), world.mount_shared());
    put(&one, "/f", b"stone");
    let open = put(&one, "/open", b"stone");
    one.unlink("/open").unwrap();
    // The objects were looked at, and the names are next.
    watched.before(looks_at_names, move || {
        one.unlink("/f").unwrap();
        drop(open);
        Ok(())
    });
    let report = two.check(false).unwrap();
    assert!(watched.is_done());
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn objects_of_others_beside_the_files_are_counted_and_left() {
    // As those of ntuples, and of whoever has bits of his own.
    const OTHERS: [u32; 4] = [0x4e54_504c, 0x4e54_5043, 3, (1 << 31) + 1];
    let world = World::new(2);
    let fs = world.mount();
    put(&fs, "/f", b"x").close().unwrap();
    let kinds =
        [ObjectType::MultiHashed, ObjectType::ArrayByte, ObjectType::DkeyLexical, ObjectType::DkeyUint64];
    for (bits, kind) in OTHERS.into_iter().zip(kinds) {
        let oid = world.container.oid(kind, ObjectClass::S1, bits, 77).unwrap();
        let object = world.container.object(oid).unwrap();
        object.write(At::Latest, &1_u64.to_le_bytes(), b"0", 1, Recx::new(0, 4), b"data").unwrap();
    }
    let count = world.object_count();
    for repair in [false, true] {
        let report = fs.check(repair).unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.others, 4);
    }
    assert_eq!(world.object_count(), count);
}

#[test]
fn what_nothing_names_is_found_and_freed() {
    let world = World::new(2);
    let fs = world.mount();
    put(&fs, "/f", b"x").close().unwrap();
    let leaked = world.container.alloc_oid(ObjectType::ArrayByte, ObjectClass::S1).unwrap();
    let object = world.container.object(leaked).unwrap();
    object.write(At::Latest, &1_u64.to_le_bytes(), b"0", 1, Recx::new(0, 4), b"data").unwrap();
    assert_eq!(fs.check(false).unwrap().leaked, [leaked]);
    assert_eq!(fs.check(true).unwrap().leaked, [leaked]);
    assert!(fs.check(false).unwrap().is_clean());
    assert_eq!(world.object_count(), 3);
}

#[test]
fn damaged_entries_and_wrong_link_counts_are_reported() {
    let world = World::new(1);
    let fs = world.mount();
    put(&fs, "/bad", b"").close().unwrap();
    let file = put(&fs, "/f", b"x");
    fs.link("/f", &fs, "/g").unwrap();
    let good = entry_record(&world, fs.oid(), b"bad");
    damage_entry(&world, fs.oid(), b"bad");
    let companion = world.container.object(layout::companion_oid(file.oid())).unwrap();
    companion.put(At::Latest, layout::DKEY_COMPANION, layout::AKEY_LINKS, &9_u64.to_le_bytes()).unwrap();
    let report = fs.check(true).unwrap();
    assert_eq!(report.bad_entries.len(), 1);
    assert_eq!((&*report.bad_entries[0].dir_path, &*report.bad_entries[0].name), (&b"/"[..], &b"bad"[..]));
    assert_eq!((report.bad_links[0].found, report.bad_links[0].stored), (2, Some(9)));
    assert!(!report.repaired);
    assert_eq!(fs.stat("/f").unwrap().links, 9, "the damaged entry may be a name of the file");
    put_entry(&world, fs.oid(), b"bad", &good);
    assert!(fs.check(true).unwrap().repaired);
    assert_eq!(fs.stat("/f").unwrap().links, 2);
    assert_eq!(fs.check(false).unwrap().bad_links, []);
    damage_entry(&world, fs.oid(), b"bad");
    let read_only = dolmen_dfs::MountOptions { read_only: true, ..world.options() };
    let fs = dolmen_dfs::Dfs::mount(&world.container, &read_only).unwrap();
    assert_eq!(fs.check(true).unwrap_err(), Error::ReadOnly);
    assert!(!fs.check(false).unwrap().is_clean());
}

#[test]
fn what_is_below_a_damaged_entry_is_not_freed() {
    let world = World::new(2);
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    fs.mkdir("/d/e", 0o755).unwrap();
    for path in ["/d/f", "/d/e/g"] {
        put(&fs, path, b"precious").close().unwrap();
    }
    fs.link("/d/f", &fs, "/again").unwrap();
    let leaked = world.container.alloc_oid(ObjectType::ArrayByte, ObjectClass::S1).unwrap();
    let object = world.container.object(leaked).unwrap();
    object.write(At::Latest, &1_u64.to_le_bytes(), b"0", 1, Recx::new(0, 4), b"data").unwrap();
    let (objects, good) = (world.object_count(), entry_record(&world, fs.oid(), b"d"));
    damage_entry(&world, fs.oid(), b"d");
    for repair in [false, true] {
        let report = world.mount().check(repair).unwrap();
        assert!(!report.is_whole());
        assert!(!report.repaired);
        assert_eq!((report.bad_entries.len(), report.leaked.len(), report.bad_links.len()), (1, 4, 1));
    }
    assert_eq!(world.object_count(), objects);
    put_entry(&world, fs.oid(), b"d", &good);
    let fs = world.mount();
    assert_eq!((cat(&fs, "/d/f"), cat(&fs, "/d/e/g")), (b"precious".to_vec(), b"precious".to_vec()));
    assert_eq!(fs.stat("/again").unwrap().links, 2);
    let report = fs.check(true).unwrap();
    assert_eq!((report.leaked, report.repaired), (vec![leaked], true));
    assert!(fs.check(false).unwrap().is_clean());
}

#[test]
fn names_that_no_entry_can_have_are_found() {
    let world = World::new(1);
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    put(&fs, "/f", b"x").close().unwrap();
    let record = entry_record(&world, fs.oid(), b"f");
    let names = [&b"../f"[..], b"..", b".", b"/f", b"a\0b", &[b'n'; 256]];
    for name in names {
        put_entry(&world, fs.open_dir("/d").unwrap().oid(), name, &record);
    }
    let report = fs.check(false).unwrap();
    assert_eq!(report.bad_entries.len(), names.len());
    assert!(report.bad_entries.iter().all(|bad| &*bad.dir_path == b"/d" && names.contains(&&*bad.name)));
}

#[test]
fn what_nothing_names_is_given_names() {
    let world = World::new(2);
    let fs = world.mount();
    for dir in ["/lost", "/lost/sub", "/found"] {
        fs.mkdir(dir, 0o755).unwrap();
    }
    put(&fs, "/lost/sub/f", b"in a directory").close().unwrap();
    put(&fs, "/g", b"alone").close().unwrap();
    let (lost, alone) = (fs.stat("/lost").unwrap().oid, fs.stat("/g").unwrap().oid);
    let root = world.container.object(fs.oid()).unwrap();
    for name in [&b"lost"[..], b"g"] {
        root.punch_dkey(At::Latest, name, Cond::PUNCH).unwrap();
    }
    let fs = world.mount();
    let leaked = fs.check(false).unwrap().leaked;
    assert_eq!(leaked.len(), 4);
    let found = fs.open_dir("/found").unwrap();
    found.adopt(&leaked).unwrap();
    assert_eq!(found.names().unwrap().len(), 2);
    assert_eq!(cat(&fs, &format!("/found/{lost}/sub/f")), b"in a directory");
    assert_eq!(cat(&fs, &format!("/found/{alone}")), b"alone");
    assert!(fs.check(false).unwrap().is_clean());
}
