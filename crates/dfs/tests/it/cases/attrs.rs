//! Modes, owners, times, extended attributes, statfs.

use super::common::{START_NS, World, put};
use dolmen_dfs::{Error, Follow, OpenOptions, RenameMode, SetAttrs, SetTime, Time, What, XattrCond, layout};

#[test]
fn modes_owners_and_times_are_kept() {
    let world = World::new(2);
    let fs = world.mount();
    put(&fs, "/f", b"12345").close().unwrap();
    fs.symlink("f", "/l").unwrap();
    fs.chmod("/l", 0o4711).unwrap();
    fs.chown("/f", Some(7), None, Follow::Yes).unwrap();
    fs.chown("/f", None, Some(8), Follow::Yes).unwrap();
    fs.chown("/l", Some(9), Some(9), Follow::No).unwrap();
    let time = Time { s: -5, ns: 123_456_789 };
    fs.set_mtime("/f", SetTime::To(time), Follow::Yes).unwrap();
    let stat = fs.stat("/f").unwrap();
    assert_eq!((stat.permissions, stat.uid, stat.gid, stat.mtime), (0o4711, 7, 8, time));
    assert_eq!(stat.ctime, world.now());
    assert_eq!((stat.size_bytes, stat.blocks, stat.links), (5, 1, 1));
    assert_eq!(fs.lstat("/l").unwrap().uid, 9);
    assert_eq!(
        fs.set_mtime("/f", SetTime::To(Time { s: 0, ns: 1_000_000_000 }), Follow::Yes),
        Err(What::Time.into())
    );
    assert_eq!(fs.chmod("/f", 0o10_000), Err(What::Mode.into()));
    fs.chmod("/", 0o700).unwrap();
    assert_eq!(fs.stat("/").unwrap().permissions, 0o700);
}

#[test]
fn writes_change_the_time_and_other_mounts_see_it_after_close() {
    let world = World::new(1);
    let fs = world.mount();
    let file = put(&fs, "/f", b"1");
    world.clock.advance(5_000_000_000);
    file.write_at(0, b"2").unwrap();
    assert_eq!(fs.stat("/f").unwrap().mtime, world.now());
    assert_eq!(file.stat().unwrap().ctime, world.now());
    world.clock.advance(500_000_000);
    file.write_at(0, b"3").unwrap();
    let written = world.now();
    assert_eq!(fs.stat("/f").unwrap().mtime, written);
    assert!(world.mount_shared().stat("/f").unwrap().mtime < written, "at most a second late");
    file.close().unwrap();
    assert_eq!(world.mount_shared().stat("/f").unwrap().mtime, written);
}

#[test]
fn an_explicit_time_replaces_one_that_waits() {
    let world = World::new(1);
    let fs = world.mount();
    let file = put(&fs, "/f", b"1");
    world.clock.advance(100_000_000);
    file.write_at(0, b"2").unwrap();
    // Also if it is the one in the record.
    let recorded = world.mount_shared().stat("/f").unwrap().mtime;
    file.set_attrs(&SetAttrs { mtime: SetTime::To(recorded), ..SetAttrs::KEEP }).unwrap();
    assert_eq!(fs.stat("/f").unwrap().mtime, recorded);
    file.write_at(0, b"3").unwrap();
    let time = Time { s: 77, ns: 7 };
    file.set_attrs(&SetAttrs { mtime: SetTime::To(time), ..SetAttrs::KEEP }).unwrap();
    assert_eq!(fs.stat("/f").unwrap().mtime, time);
    file.close().unwrap();
    assert_eq!(fs.stat("/f").unwrap().mtime, time);
}

#[test]
fn changes_of_entries_change_the_directory_time() {
    let world = World::new(1);
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    let made = fs.stat("/d").unwrap().mtime;
    assert_eq!(made.unix_ns(), START_NS);
    for change in [0, 1, 2] {
        world.clock.advance(2_000_000_000);
        match change {
            0 => drop(fs.open("/d/f", &OpenOptions::CREATE).unwrap()),
            1 => fs.rename("/d/f", &fs, "/d/g", dolmen_dfs::RenameMode::Replace).unwrap(),
            _ => fs.unlink("/d/g").unwrap(),
        }
        assert_eq!(fs.stat("/d").unwrap().mtime, world.now());
    }
    world.clock.advance(10_000_000);
    fs.mkdir("/d/e", 0o755).unwrap();
    fs.sync().unwrap();
    assert_eq!(world.mount_shared().stat("/d").unwrap().mtime, world.now());
}

#[test]
fn extended_attributes_are_set_under_conditions_listed_and_removed() {
    let world = World::new(2);
    let fs = world.mount();
    put(&fs, "/f", b"x");
    fs.symlink("f", "/l").unwrap();
    let set = |path: &str, name: &str, value: &[u8], cond| fs.set_xattr(path, name, value, cond, Follow::Yes);
    assert_eq!(set("/f", "user.a", b"1", XattrCond::Replace), Err(Error::NoAttribute));
    set("/l", "user.a", b"1", XattrCond::Create).unwrap();
    assert_eq!(set("/f", "user.a", b"2", XattrCond::Create), Err(Error::Exists));
    set("/f", "user.a", b"2", XattrCond::Replace).unwrap();
    set("/f", "user.empty", b"", XattrCond::Any).unwrap();
    set("/f", "user.odd", b"\0DLM_EMPTY\0tail", XattrCond::Any).unwrap();
    set("/", "user.root", b"r", XattrCond::Any).unwrap();
    fs.set_xattr("/l", "user.link", "l", XattrCond::Any, Follow::No).unwrap();
    let get = |path: &str, name: &str| fs.xattr(path, name, Follow::Yes);
    assert_eq!(get("/f", "user.a").unwrap(), b"2");
    assert_eq!(get("/f", "user.empty").unwrap(), b"");
    assert_eq!(get("/f", "user.odd").unwrap(), b"\0DLM_EMPTY\0tail");
    assert_eq!(get("/", "user.root").unwrap(), b"r");
    let names = fs.xattr_names("/f", Follow::Yes).unwrap();
    assert_eq!(names, [&b"user.a"[..], b"user.empty", b"user.odd"]);
    assert_eq!(fs.xattr_names("/l", Follow::No).unwrap(), [b"user.link"]);
    fs.remove_xattr("/f", "user.a", Follow::Yes).unwrap();
    assert_eq!(fs.remove_xattr("/f", "user.a", Follow::Yes), Err(Error::NoAttribute));
    assert_eq!(get("/f", "user.a"), Err(Error::NoAttribute));
    assert_eq!(get("/none", "user.a"), Err(Error::NotFound));
}

#[test]
fn extended_attributes_have_the_limits_of_the_layout() {
    let world = World::new(1);
    let fs = world.mount();
    put(&fs, "/f", b"x");
    let longest = "n".repeat(255);
    fs.set_xattr("/f", &longest, vec![7; 65_536], XattrCond::Any, Follow::Yes).unwrap();
    assert_eq!(fs.xattr("/f", &longest, Follow::Yes).unwrap(), vec![7; 65_536]);
    let set = |name: &str, len: usize| fs.set_xattr("/f", name, vec![0; len], XattrCond::Any, Follow::Yes);
    assert_eq!(set("a", 65_537), Err(Error::AttributeTooBig));
    assert_eq!(set(&"n".repeat(256), 1), Err(Error::NameTooLong));
    assert_eq!(set("", 1), Err(What::Name.into()));
}

#[test]
fn statfs_counts_what_is_stored() {
    let world = World::new(2);
    let fs = world.mount();
    let before = fs.statfs().unwrap();
    put(&fs, "/f", &[1; 100_000]);
    let after = fs.statfs().unwrap();
    assert!(after.value_bytes >= before.value_bytes + 100_000);
    assert_eq!((after.block_bytes, after.name_bytes_max), (1 << 20, 255));
    let space = world.container.query_pool().unwrap().space;
    assert_eq!(space.len(), 2);
    assert_eq!(after.total_bytes, space.iter().map(|target| target.total_bytes).sum::<u64>());
    assert_eq!(after.free_bytes, space.iter().map(|target| target.free_bytes).sum::<u64>());
    assert!(after.free_bytes <= after.total_bytes);
    assert!(after.taken_bytes >= before.taken_bytes + 100_000 && after.taken_bytes < after.total_bytes);
}

#[test]
fn an_entry_is_renamed_and_linked_with_all_the_extended_attributes_that_it_can_have() {
    // Many small ones, and a few that fill the room.
    for (value_bytes, count) in [(1, 1100), (4096, 60), (65_536, 3)] {
        let world = World::new(1);
        let fs = world.mount();
        let room = layout::XATTRS_BYTES_MAX;
        let set = |path: &str, n: usize, bytes: usize| {
            fs.set_xattr(path, format!("user.{n}"), vec![7; bytes], XattrCond::Any, Follow::No)
        };
        for path in ["/f", "/g"] {
            put(&fs, path, b"x").close().unwrap();
            (0..count).for_each(|n| set(path, n, value_bytes).unwrap());
            let set_until_full = (count..).map(|n| set(path, n, 2000)).find(Result::is_err).unwrap();
            assert_eq!(set_until_full, Err(Error::AttributesFull));
            // What does not grow fits.
            set(path, 0, value_bytes).unwrap();
            assert_eq!(set(path, 0, room), Err(Error::AttributeTooBig));
        }
        let attrs = |path: &str| {
            let names = fs.xattr_names(path, Follow::No).unwrap();
            names.iter().map(|name| fs.xattr(path, name, Follow::No).unwrap().len()).collect::<Vec<_>>()
        };
        let all = attrs("/f");
        assert!(all.len() > count && all == attrs("/g"), "{}", all.len());
        fs.rename("/f", &fs, "/moved", RenameMode::Replace).unwrap();
        fs.rename("/moved", &fs, "/g", RenameMode::Exchange).unwrap();
        let open = fs.open("/g", &OpenOptions::READ).unwrap();
        fs.rename("/moved", &fs, "/g", RenameMode::Replace).unwrap();
        assert_eq!(open.xattr("user.0").unwrap().len(), value_bytes);
        fs.link("/g", &fs, "/h").unwrap();
        assert_eq!((attrs("/g"), attrs("/h")), (all.clone(), all));
        fs.unlink("/g").unwrap();
        fs.unlink("/h").unwrap();
        drop(open);
        assert!(fs.check(false).unwrap().is_clean());
    }
}
