//! Files that are unlinked or replaced while open.

use super::common::{World, cat, put, put_entry, read_all, small_chunks};
use dolmen_dfs::{Dfs, Error, Follow, FormatOptions, OpenOptions, RenameMode, SetAttrs, XattrCond, layout};
use dolmen_types::ObjectClass;

#[test]
fn an_open_file_works_after_its_name_is_gone_and_is_freed_on_close() {
    let world = World::new(2);
    let fs = world.mount();
    fs.mkdir("/keeps-the-root-there", 0o755).unwrap();
    let objects = world.object_count();
    let file = put(&fs, "/f", b"data");
    let clone = file.clone();
    fs.unlink("/f").unwrap();
    assert_eq!(fs.stat("/f").unwrap_err(), Error::NotFound);
    file.write_at(4, b" more").unwrap();
    file.set_attrs(&SetAttrs { mode: Some(0o600), ..SetAttrs::KEEP }).unwrap();
    let stat = file.stat().unwrap();
    assert_eq!((stat.links, stat.size_bytes, stat.permissions), (0, 9, 0o600));
    put(&fs, "/f", b"another").close().unwrap();
    assert_eq!(read_all(&file), b"data more");
    file.close().unwrap();
    assert_eq!(read_all(&clone), b"data more");
    drop(clone);
    assert_eq!(world.object_count(), objects + 1, "only the new file is left");
}

#[test]
fn an_open_file_that_is_replaced_by_a_rename_works_on() {
    let world = World::new(2);
    let fs = world.mount();
    let old = put(&fs, "/f", b"old");
    put(&fs, "/g", b"new");
    let objects = world.object_count();
    fs.rename("/g", &fs, "/f", RenameMode::Replace).unwrap();
    assert_eq!(read_all(&old), b"old");
    drop(old);
    assert_eq!(world.object_count(), objects - 1);
}

#[test]
fn a_mount_frees_what_a_dead_one_left_open() {
    let world = World::new(2);
    let fs = world.mount();
    let objects = world.object_count();
    let left_open = put(&fs, "/f", &[7; 10_000]);
    fs.unlink("/f").unwrap();
    // As after a crash: the handle never gets to close.
    core::mem::forget(left_open);
    let read_only = dolmen_dfs::MountOptions { read_only: true, ..world.options() };
    dolmen_dfs::Dfs::mount(&world.container, &read_only).unwrap();
    world.mount_shared();
    assert_eq!(world.object_count(), objects + 2, "file and orphan list");
    world.mount();
    assert_eq!(world.object_count(), objects);
}

#[test]
fn what_is_no_file_in_the_orphan_list_is_left_there_and_stops_no_mount() {
    let world = World::new(2);
    let fs = world.mount();
    put(&fs, "/kept", b"kept").close().unwrap();
    let objects = world.object_count();
    let left_open = put(&fs, "/f", &[7; 10_000]);
    fs.unlink("/f").unwrap();
    core::mem::forget(left_open);
    // Of another length, of no class, and the root: to free that would be to lose everything.
    let list = layout::orphans_oid(ObjectClass::S1);
    let root = fs.oid().to_bytes();
    let names = [&b"bad\n"[..], &[0xff; 16], &root];
    names.iter().for_each(|name| put_entry(&world, list, name, &[7; 88]));
    let fs = world.mount();
    assert_eq!(cat(&fs, "/kept"), b"kept");
    put(&fs, "/new", b"new").close().unwrap();
    assert_eq!(world.object_count(), objects + 2, "the new file and the list; what was a file is freed");
    let report = fs.check(true).unwrap();
    assert_eq!((report.orphans, report.leaked.len(), report.repaired), (0, 0, false));
    let mut bad: Vec<_> = report.bad_entries.iter().map(|bad| (bad.dir, &*bad.name)).collect();
    bad.sort_by_key(|(_, name)| names.iter().position(|known| known == name));
    assert_eq!(bad, names.map(|name| (list, name)));
    assert_eq!(world.mount().check(false).unwrap().bad_entries, report.bad_entries, "nothing took them away");
}

#[test]
fn an_open_that_fails_leaves_nothing_behind() {
    let world = World::new(1);
    let fs = world.mount();
    put(&fs, "/f", b"x").close().unwrap();
    let objects = world.object_count();
    for _ in 0..10 {
        assert_eq!(fs.open("/f", &OpenOptions::CREATE_NEW).unwrap_err(), Error::Exists);
    }
    assert_eq!(world.object_count(), objects);
}

#[test]
fn unlink_leaves_no_object_whatever_the_file_held() {
    type Fill = fn(&Dfs);
    let fills: [(&str, Fill); 7] = [
        ("nothing", |fs| drop(fs.open("/f", &OpenOptions::CREATE_NEW).unwrap())),
        ("data", |fs| drop(put(fs, "/f", &[7; 20_000]))),
        ("data that was cut off", |fs| put(fs, "/f", &[7; 20_000]).set_len(0).unwrap()),
        ("a hole and its last byte", |fs| put(fs, "/f", b"").set_len(3 << 20).unwrap()),
        ("data that became a hole", |fs| put(fs, "/f", &[7; 20_000]).punch_hole(0, 20_000).unwrap()),
        ("data behind a hole", |fs| assert_eq!(put(fs, "/f", b"").write_at(1 << 20, b"x"), Ok(1 << 20))),
        ("a whole file", |fs| fs.put_whole("/f", &[7; 20_000], &SetAttrs::KEEP).unwrap()),
    ];
    for format in [FormatOptions::default(), small_chunks()] {
        let world = World::with(2, &format);
        let fs = world.mount();
        fs.mkdir("/keeps-the-root-there", 0o755).unwrap();
        let objects = world.object_count();
        // Again and again in both orders: each after files that had data and after files that had none.
        for (held, fill) in fills.into_iter().chain(fills.into_iter().rev()) {
            fill(&fs);
            let before = world.container.create_snapshot(None).unwrap();
            let size = fs.stat("/f").unwrap().size_bytes;
            fs.unlink("/f").unwrap();
            assert_eq!(fs.stat("/f").unwrap_err(), Error::NotFound, "{held}");
            assert_eq!(fs.unlink("/f").unwrap_err(), Error::NotFound, "{held}");
            assert_eq!(world.object_count(), objects, "{held}");
            assert_eq!(world.mount_at(before).stat("/f").unwrap().size_bytes, size, "{held}");
        }
    }
}

#[test]
fn an_open_file_keeps_its_extended_attributes_when_its_name_is_gone() {
    let world = World::new(2);
    let fs = world.mount();
    let set = |path: &str, name: String| fs.set_xattr(path, name, b"v", XattrCond::Any, Follow::Yes).unwrap();
    let objects = world.object_count();
    let unlinked = put(&fs, "/unlinked", b"data");
    let replaced = put(&fs, "/replaced", b"data");
    let linked = put(&fs, "/linked", b"data");
    fs.link("/linked", &fs, "/again").unwrap();
    for path in ["/unlinked", "/replaced", "/linked"] {
        set(path, "user.k".into());
    }
    fs.unlink("/unlinked").unwrap();
    put(&fs, "/new", b"new").close().unwrap();
    fs.rename("/new", &fs, "/replaced", RenameMode::Replace).unwrap();
    fs.unlink("/linked").unwrap();
    fs.unlink("/again").unwrap();
    for file in [&unlinked, &replaced, &linked] {
        assert_eq!(file.stat().unwrap().links, 0);
        assert_eq!(file.xattr("user.k").unwrap(), b"v");
        assert_eq!(file.xattr("user.none"), Err(Error::NoAttribute));
    }
    [unlinked, replaced, linked].into_iter().for_each(|file| file.close().unwrap());
    fs.unlink("/replaced").unwrap();
    assert_eq!(world.object_count(), objects, "all of them are freed");
}
