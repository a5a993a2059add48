//! Checking a file system.

use super::common::{World, put, small_chunks};
use dolmen_client::At;
use dolmen_dfs::{Error, layout};
use dolmen_types::{ObjectClass, ObjectType, Recx};

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
    let root = world.container.object(fs.oid()).unwrap();
    root.write(At::Latest, b"bad", b"DFS_INODE", 1, Recx::new(0, 4), &[0; 4]).unwrap();
    let companion = world.container.object(layout::companion_oid(file.oid())).unwrap();
    companion.put(At::Latest, layout::DKEY_COMPANION, layout::AKEY_LINKS, &9_u64.to_le_bytes()).unwrap();
    let report = fs.check(true).unwrap();
    assert_eq!(report.bad_entries.len(), 1);
    assert_eq!(&*report.bad_entries[0].name, b"bad");
    assert_eq!((report.bad_links[0].found, report.bad_links[0].stored), (2, Some(9)));
    assert_eq!(fs.stat("/f").unwrap().links, 2);
    assert_eq!(fs.check(false).unwrap().bad_links, []);
    let read_only = dolmen_dfs::MountOptions { read_only: true, ..world.options() };
    let fs = dolmen_dfs::Dfs::mount(&world.container, &read_only).unwrap();
    assert_eq!(fs.check(true).unwrap_err(), Error::ReadOnly);
    assert!(!fs.check(false).unwrap().is_clean());
}
