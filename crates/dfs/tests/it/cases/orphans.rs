//! Files that are unlinked or replaced while open.

use super::common::{World, cat, put, put_entry, read_all, small_chunks};
use dolmen_dfs::{
    CheckReport, Cred, Dfs, Error, Follow, FormatOptions, OpenOptions, RenameMode, SetAttrs, What, XattrCond,
    layout,
};
use dolmen_types::ObjectClass;
use std::sync::Arc;

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

/// What becomes of a file that a door knows and has open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Remove,
    Close,
    Forget,
}

const ORDERS: [[Event; 3]; 6] = {
    use Event::{Close, Forget, Remove};
    [
        [Remove, Close, Forget],
        [Remove, Forget, Close],
        [Close, Remove, Forget],
        [Close, Forget, Remove],
        [Forget, Remove, Close],
        [Forget, Close, Remove],
    ]
};

/// How a file loses its last name.
type Remove = fn(&Dfs);

const REMOVALS: [(&str, Remove); 3] = [
    ("an unlink", |fs| fs.unlink("/f").unwrap()),
    ("a rename over it", |fs| {
        put(fs, "/new", b"").close().unwrap();
        fs.rename("/new", fs, "/f", RenameMode::Replace).unwrap();
        fs.unlink("/f").unwrap();
    }),
    ("an unlink of each of two names", |fs| {
        fs.link("/f", fs, "/g").unwrap();
        fs.unlink("/f").unwrap();
        fs.unlink("/g").unwrap();
    }),
];

#[test]
fn space_comes_back_in_every_order_of_unlink_close_forget_and_crash() {
    for shared in [false, true] {
        for (how, remove) in REMOVALS {
            for order in ORDERS {
                for steps in 0..=order.len() {
                    let case = format!("shared: {shared}, {how}, {:?}", &order[..steps]);
                    comes_back(shared, remove, &order[..steps], &case);
                }
            }
        }
    }
}

/// Does these steps, lets the process die if there are others, and has the next mount look at what is left.
fn comes_back(shared: bool, remove: Remove, steps: &[Event], case: &str) {
    let world = World::new(2);
    world.mount().mkdir("/keeps-the-root-there", 0o755).unwrap();
    let objects = world.object_count();
    let fs = if shared { world.mount_shared() } else { world.mount() };
    let mut file = Some(put(&fs, "/f", &[7; 10_000]));
    let mut known = Some(fs.lookup("f").unwrap().0);
    for step in steps {
        match step {
            Event::Remove => remove(&fs),
            Event::Close => file = None,
            Event::Forget => known = None,
        }
        file.iter().for_each(|file| assert_eq!(read_all(file), [7; 10_000], "{case}"));
    }
    let is_removed = steps.contains(&Event::Remove);
    if is_removed && file.is_none() {
        assert_eq!(fs.check(false).unwrap().orphans, 0, "{case}");
        assert_eq!(world.object_count(), objects, "{case}");
    }
    core::mem::forget((file, known, fs));
    let next = world.mount();
    if !is_removed {
        assert_eq!(cat(&next, "/f"), [7; 10_000], "{case}");
        next.unlink("/f").unwrap();
    }
    let report = next.check(false).unwrap();
    assert!(report.is_clean() && report.orphans == 0, "{case}: {report:?}");
    assert_eq!(world.object_count(), objects, "{case}");
}

#[test]
fn an_unlink_of_what_is_known_and_not_open_is_one_transaction_and_forgetting_it_costs_nothing() {
    let (world, watched) = World::watched();
    let (alone, shared) = (world.mount(), world.mount_shared());
    for fs in [&shared, &alone] {
        let cost = |asked: &mut dyn FnMut()| {
            let before = watched.requests();
            asked();
            watched.requests() - before
        };
        // The first have no data, which is asked for.
        for n in 0..8 {
            put(fs, "/warm", &[n]).close().unwrap();
            fs.unlink("warm").unwrap();
        }
        put(fs, "/f", b"data").close().unwrap();
        let unknown = cost(&mut || fs.unlink("f").unwrap());
        put(fs, "/f", b"data").close().unwrap();
        let mut known = Some(fs.lookup("f").unwrap().0);
        let of_known = cost(&mut || fs.unlink("f").unwrap());
        assert_eq!((of_known, unknown), (3, 3), "a look, an epoch and the commit");
        assert_eq!(cost(&mut || known = None), 0);
    }
}

#[test]
fn of_what_is_gone_while_it_is_known_attributes_are_left_and_nothing_else() {
    let world = World::new(1);
    for fs in [world.mount(), world.mount_shared()] {
        put(&fs, "/f", b"data").close().unwrap();
        fs.symlink("to/where", "/l").unwrap();
        let [file, link] = ["f", "l"].map(|name| fs.lookup(name).unwrap().0);
        ["/f", "/l"].iter().for_each(|name| fs.unlink(name).unwrap());
        assert_eq!(fs.check(false).unwrap().orphans, 0);
        for (obj, permissions) in [(&file, 0o644), (&link, 0o777)] {
            let stat = obj.stat().unwrap();
            assert_eq!((stat.links, stat.permissions, stat.kind), (0, permissions, obj.kind()));
            assert_eq!(obj.set_attrs(&SetAttrs { uid: Some(7), ..SetAttrs::KEEP }), Err(Error::Stale));
            assert!(obj.is_removed());
        }
        assert_eq!(file.open(&OpenOptions::READ).unwrap_err(), Error::Stale);
        assert_eq!(link.readlink(), Err(Error::Stale));
        assert_eq!(fs.link_to(&file, "again").unwrap_err(), Error::NotFound);
        // The same name again is another file.
        put(&fs, "/f", b"other").close().unwrap();
        assert_ne!(fs.lookup("f").unwrap().0.oid(), file.oid());
        fs.unlink("/f").unwrap();
    }
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

#[test]
fn a_file_made_without_a_name_gets_one_or_goes_with_its_last_handle() {
    let world = World::new(2);
    let fs = world.mount_atime();
    fs.mkdir("/d", 0o2777).unwrap();
    let dir = fs.open_dir("/d").unwrap();
    let objects = world.object_count();
    let user = Arc::new(Cred { uid: 7, gid: 7, groups: vec![], umask: 0o022 });
    let (file, stat) =
        dir.as_user(&user).tmpfile(&OpenOptions { mode: 0o666, ..OpenOptions::WRITE }).unwrap();
    assert_eq!((stat.links, stat.uid, stat.gid, stat.permissions), (0, 7, 0, 0o644));
    file.write_at(0, b"found later").unwrap();
    file.set_xattr("user.k", "v", XattrCond::Any).unwrap();
    assert!(dir.names().unwrap().is_empty());
    assert_eq!(fs.check(false).unwrap().orphans, 1);
    put(&fs, "/d/taken", b"").close().unwrap();
    assert_eq!(dir.link_to(&file, "taken").unwrap_err(), Error::Exists);
    world.clock.advance(1_000_000_000);
    let named = dir.link_to(&file, "named").unwrap();
    assert_eq!((named.links, named.size_bytes, named.ctime), (1, 11, world.now()));
    assert_eq!(dir.link_to(&file, "again").unwrap().links, 2);
    drop(file);
    assert_eq!(fs.check(false).unwrap(), CheckReport { dirs: 2, files: 2, ..Default::default() });
    assert_eq!(cat(&fs, "/d/again"), b"found later");
    assert_eq!(fs.xattr("/d/named", "user.k", Follow::Yes).unwrap(), b"v");
    ["named", "again", "taken"].iter().for_each(|name| dir.unlink(name).unwrap());
    // One that never gets a name, one that may get none, and one in a directory that is gone.
    let (file, _) = dir.tmpfile(&OpenOptions::WRITE).unwrap();
    file.write_at(0, &[7; 10_000]).unwrap();
    assert_eq!(read_all(&file.open(&OpenOptions::READ).unwrap()), [7; 10_000]);
    let (exclusive, _) =
        dir.tmpfile(&OpenOptions { exclusive: true, create: true, ..OpenOptions::WRITE }).unwrap();
    assert_eq!(dir.link_to(&exclusive, "no").unwrap_err(), Error::NotFound);
    fs.rmdir("/d").unwrap();
    assert_eq!(dir.tmpfile(&OpenOptions::WRITE).unwrap_err(), Error::NotFound);
    assert_eq!(fs.tmpfile(&OpenOptions::READ).unwrap_err(), Error::Invalid(What::Flags));
    drop((file, exclusive));
    assert_eq!(fs.check(false).unwrap().orphans, 0);
    assert!(world.object_count() <= objects);
}

#[test]
fn a_mount_frees_files_that_a_dead_one_has_given_no_name() {
    let world = World::new(1);
    let fs = world.mount();
    let named = fs.tmpfile(&OpenOptions::WRITE).unwrap().0;
    let nameless = fs.tmpfile(&OpenOptions::WRITE).unwrap().0;
    nameless.write_at(0, b"lost").unwrap();
    named.write_at(0, b"kept").unwrap();
    fs.link_to(&named, "kept").unwrap();
    let (lost, kept) = (nameless.oid(), named.oid());
    core::mem::forget((named, nameless));
    let fs = world.mount();
    assert_eq!(cat(&fs, "/kept"), b"kept");
    let report = fs.check(false).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.orphans, report.files), (0, 1));
    let mut walk = world.container.objects(None);
    let objects: Vec<_> =
        core::iter::from_fn(|| Some(walk.next_page().unwrap()).filter(|page| !page.is_empty()))
            .flatten()
            .collect();
    assert!(objects.contains(&kept));
    assert!(!objects.contains(&lost));
}

#[test]
fn a_file_made_without_a_name_in_a_shared_mount_is_named_beside_others() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    one.mkdir("/d", 0o755).unwrap();
    let dir = one.open_dir("/d").unwrap();
    let (file, _) = dir.tmpfile(&OpenOptions::WRITE).unwrap();
    file.write_at(0, b"data").unwrap();
    assert_eq!(file.stat().unwrap().size_bytes, 4);
    put(&two, "/d/f", b"other").close().unwrap();
    assert_eq!(dir.link_to(&file, "f").unwrap_err(), Error::Exists);
    dir.link_to(&file, "g").unwrap();
    assert_eq!(cat(&two, "/d/g"), b"data");
    let (late, _) = dir.tmpfile(&OpenOptions::WRITE).unwrap();
    ["/d/f", "/d/g"].iter().for_each(|path| two.unlink(path).unwrap());
    two.rmdir("/d").unwrap();
    assert_eq!(dir.link_to(&late, "h").unwrap_err(), Error::Stale);
}
