//! A file system with limits: who does not fit is told EDQUOT, and all but growth works.

use super::common::{START_NS, World, cat, container_in, put, small_chunks};
use dolmen_client::quota::{Charge, Limits};
use dolmen_client::{ContName, Pool};
use dolmen_dfs::{
    Cred, Dfs, Error, Follow, FormatOptions, MountOptions, OpenOptions, RenameMode, SetTime, Time, XattrCond,
    errno, layout,
};
use dolmen_env::{Clock, SimClock};
use dolmen_types::{Credentials, Epoch, Label};
use std::sync::Arc;

/// A mount of each kind, on containers with such limits.
fn each_mount(bytes: u64, files: u64, test: impl Fn(&World, &Dfs)) {
    for shared in [false, true] {
        let world = World::with(2, &small_chunks());
        world.container.set_quota(None, Limits { bytes, files }).unwrap();
        let fs = if shared { world.mount_shared() } else { world.mount() };
        println!("shared: {shared}");
        test(&world, &fs);
    }
}

fn is_limit<T: core::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert_eq!(error.errno(), errno::EDQUOT, "{error:?}");
}

fn used(world: &World) -> Charge {
    world.container.aggregate(Epoch::ZERO).unwrap();
    world.container.quota().unwrap().used
}

#[test]
fn names_of_the_layout_are_those_that_limits_know() {
    use dolmen_client::quota::{COMPANION_DKEY, INODE_AKEY, RECORD_BYTES_MAX, RECORD_PREFIXES};
    assert_eq!((layout::AKEY_INODE, layout::DKEY_COMPANION), (INODE_AKEY, COMPANION_DKEY));
    for akey in [layout::AKEY_LINKS, layout::AKEY_ATIME, layout::AKEY_RDEV, layout::AKEY_HOLDER] {
        assert!(RECORD_PREFIXES.iter().any(|prefix| akey.starts_with(prefix)));
    }
    const { assert!(RECORD_BYTES_MAX > 88) };
}

#[test]
fn a_file_that_does_not_fit_is_refused_and_one_that_is_removed_makes_room_at_once() {
    each_mount(100_000, 0, |world, fs| {
        for round in 0..4 {
            let file = put(fs, "/a", &[1; 60_000]);
            put(fs, "/b", &[2; 40_000]);
            is_limit(file.write_at(60_000, &[3; 1]));
            is_limit(fs.set_xattr("/a", "user.note", [1; 10], XattrCond::Any, Follow::No));
            put(fs, "/empty", b"");
            assert_eq!(cat(fs, "/b"), [2; 40_000]);
            file.close().unwrap();
            match round {
                0 => fs.unlink("/a").unwrap(),
                1 => drop(fs.open("/a", &OpenOptions { truncate: true, ..OpenOptions::WRITE }).unwrap()),
                2 => fs.rename("/empty", fs, "/a", RenameMode::Replace).unwrap(),
                _ => fs.open("/a", &OpenOptions::WRITE).unwrap().punch_hole(0, 14 * 4096).unwrap(),
            }
            // Of chunks that end behind a hole all is kept.
            put(fs, "/c", &vec![4; if round == 3 { 14 * 4096 } else { 60_000 }]);
            is_limit(fs.open("/c", &OpenOptions::WRITE).unwrap().append(&[1; 100]));
            for path in ["/a", "/b", "/c", "/empty"] {
                // Some are gone.
                let _removed = fs.unlink(path);
            }
            assert_eq!(used(world), Charge { bytes: 0, files: 1 }, "the root, round {round}");
        }
    });
}

#[test]
fn of_a_write_that_fits_in_part_the_chunks_that_fit_are_told_and_who_goes_on_hears_why() {
    each_mount(400_000, 0, |_, fs| {
        let file = put(fs, "/a", &[1; 60_000]);
        let rest = [2; 400_000];
        let count = file.write_some_at(60_000, &rest).unwrap();
        assert!((1..rest.len()).contains(&count), "{count}");
        assert_eq!(cat(fs, "/a"), [&[1; 60_000][..], &rest[..count]].concat());
        is_limit(file.write_some_at(60_000 + count as u64, &rest[count..]));
        assert_eq!(cat(fs, "/a").len(), 60_000 + count, "what is refused as a whole adds nothing");
    });
}

#[test]
fn all_but_growth_works_far_over_the_limit() {
    each_mount(0, 0, |world, fs| {
        fs.mkdir("/d", 0o755).unwrap();
        for name in ["a", "b", "c", "e", "f", "g"] {
            put(fs, &format!("/d/{name}"), &[7; 10_000]).close().unwrap();
        }
        fs.set_xattr("/d/a", "user.note", [1; 100], XattrCond::Any, Follow::No).unwrap();
        fs.link("/d/a", fs, "/d/a2").unwrap();
        world.container.create_snapshot(Some("s")).unwrap();
        world.container.set_quota(None, Limits { bytes: 1, files: 1 }).unwrap();
        is_limit(fs.mkdir("/more", 0o755));
        is_limit(fs.symlink("a", "/more"));
        is_limit(fs.open("/more", &OpenOptions::CREATE));
        is_limit(fs.link("/d/b", fs, "/more"));
        is_limit(fs.open("/d/b", &OpenOptions::WRITE).unwrap().write_at(0, &[1; 4096]));
        assert_eq!(cat(fs, "/d/a2"), [7; 10_000]);
        fs.chmod("/d/a", 0o600).unwrap();
        fs.set_mtime("/d/b", SetTime::To(Time { s: 5, ns: 6 }), Follow::No).unwrap();
        fs.remove_xattr("/d/a", "user.note", Follow::No).unwrap();
        fs.rename("/d/b", fs, "/moved", RenameMode::Replace).unwrap();
        fs.rename("/d/c", fs, "/moved", RenameMode::Replace).unwrap();
        fs.rename("/d/e", fs, "/moved", RenameMode::Exchange).unwrap();
        let open = fs.open("/d/f", &OpenOptions { read: true, ..OpenOptions::WRITE }).unwrap();
        fs.unlink("/d/f").unwrap();
        assert_eq!(open.size().unwrap(), 10_000);
        open.set_len(100).unwrap();
        open.close().unwrap();
        fs.open("/d/g", &OpenOptions::WRITE).unwrap().set_len(4096).unwrap();
        fs.open("/d/g", &OpenOptions::WRITE).unwrap().punch_hole(0, 100).unwrap();
        for name in ["a", "a2", "e", "g"] {
            fs.unlink(format!("/d/{name}")).unwrap();
        }
        fs.rmdir("/d").unwrap();
        fs.unlink("/moved").unwrap();
        assert!(used(world).bytes >= 60_000, "the snapshot");
        let snapshot = world.container.snapshots().unwrap().remove(0).epoch;
        world.container.destroy_snapshot(snapshot).unwrap();
        assert_eq!(used(world), Charge { bytes: 0, files: 1 });
    });
}

#[test]
fn files_are_written_over_and_names_move_at_the_limit() {
    each_mount(40_000, 6, |world, fs| {
        for name in ["/a", "/b", "/c", "/d", "/e"] {
            put(fs, name, &[7; 8000]).close().unwrap();
        }
        assert_eq!(used(world), Charge { bytes: 40_000, files: 6 });
        for round in 0..6u8 {
            let file = fs.open("/a", &OpenOptions::WRITE).unwrap();
            file.write_at(0, &[round; 4096]).unwrap();
            file.write_at(4096, &[round; 8000 - 4096]).unwrap();
            is_limit(file.write_at(8000, &[round; 1]));
            fs.chmod("/b", 0o600 + u32::from(round)).unwrap();
            fs.rename("/c", fs, "/x", RenameMode::Replace).unwrap();
            fs.rename("/x", fs, "/c", RenameMode::NoReplace).unwrap();
            is_limit(fs.open("/new", &OpenOptions::CREATE));
            let open = fs.open("/d", &OpenOptions::READ).unwrap();
            fs.unlink("/d").unwrap();
            is_limit(fs.open("/new", &OpenOptions::CREATE));
            open.close().unwrap();
            put(fs, "/d", &[round; 8000]).close().unwrap();
        }
        assert_eq!(used(world), Charge { bytes: 40_000, files: 6 });
    });
}

#[test]
fn a_file_system_tells_what_its_limits_leave() {
    each_mount(1 << 20, 10, |world, fs| {
        put(fs, "/a", &[1; 300_000]);
        let space = fs.statfs().unwrap();
        assert_eq!((space.total_bytes, space.free_bytes), (1 << 20, (1 << 20) - 300_000));
        assert_eq!(space.taken_bytes, 300_000);
        assert_eq!(space.files, Some((10, 8)));
        world.container.set_quota(None, Limits { bytes: 1000, files: 1 }).unwrap();
        let space = fs.statfs().unwrap();
        assert_eq!((space.total_bytes, space.free_bytes, space.files), (1000, 0, Some((1, 0))));
        world.container.set_quota(None, Limits { bytes: 1 << 50, files: 0 }).unwrap();
        let (space, pool) = (fs.statfs().unwrap(), world.container.query_pool().unwrap().space);
        assert_eq!(space.total_bytes, pool.iter().map(|target| target.total_bytes).sum::<u64>());
        assert_eq!(
            (space.free_bytes, space.files),
            (pool.iter().map(|target| target.free_bytes).sum(), None)
        );
    });
}

/// Bytes and files of users who have any.
fn by_user(world: &World) -> Vec<(u32, u64, u64)> {
    world.container.aggregate(Epoch::ZERO).unwrap();
    let users = world.container.quota().unwrap().users;
    let all = users.iter().map(|user| (user.uid, user.used.bytes, user.used.files));
    all.filter(|user| (user.1, user.2) != (0, 0)).collect()
}

#[test]
fn who_writes_a_file_whose_owner_is_not_known_is_charged() {
    let clock = SimClock::new(START_NS);
    let any: Arc<dyn Clock> = Arc::new(clock.clone());
    let pool = super::pool(1, &any);
    let world = World { clock, container: container_in(Arc::clone(&pool), &any) };
    Dfs::format(&world.container, &FormatOptions { clock: any, ..small_chunks() }).unwrap();
    let fs = world.mount_shared();
    let file = put(&fs, "/a", &[1; 5000]);
    fs.chown("/a", Some(7), None, Follow::No).unwrap();
    let known = file.known();
    let writer = Pool::connect(pool, Credentials { uid: 9, gid: 9, project: 0 }).unwrap();
    let files = writer.open_container(&ContName::Label(Label::new("files").unwrap())).unwrap();
    let options = MountOptions { shared: true, tells_opens: true, ..world.options() };
    let other = Dfs::mount(&files, &options).unwrap();
    let there = other.reopen(&known, &OpenOptions::WRITE).unwrap();
    there.write_at(5000, &[2; 100]).unwrap();
    there.close().unwrap();
    fs.rename("/a", &fs, "/b", RenameMode::Replace).unwrap();
    // One that does not look whether others have moved it meanwhile.
    let elsewhere = Dfs::mount(&files, &world.options()).unwrap();
    let moved = elsewhere.reopen(&known, &OpenOptions::WRITE).unwrap();
    moved.write_at(6000, &[3; 3000]).unwrap();
    assert_eq!(cat(&fs, "/b").len(), 9000);
    let all: Vec<(u32, u64)> = by_user(&world).into_iter().map(|user| (user.0, user.1)).collect();
    assert_eq!(all, [(0, 0), (7, 5100), (9, 3000)]);
}

#[test]
fn whoever_writes_the_owner_of_a_file_is_charged() {
    each_mount(0, 0, |world, fs| {
        let user = |uid| fs.as_user(Cred { uid, gid: 5, groups: vec![], umask: 0 });
        world.container.set_quota(Some(7), Limits { bytes: 20_000, files: 4 }).unwrap();
        fs.chmod("/", 0o777).unwrap();
        let mine = OpenOptions { mode: 0o666, ..OpenOptions::CREATE };
        let file = user(7).open("/seven", &mine).unwrap();
        file.write_at(0, &[1; 10_000]).unwrap();
        // Somebody else, by a handle of his own; and what ends in a hole has a byte.
        user(8).open("/seven", &OpenOptions::WRITE).unwrap().write_at(10_000, &[2; 9000]).unwrap();
        fs.open("/seven", &OpenOptions::WRITE).unwrap().set_len(20_000).unwrap();
        fs.set_xattr("/seven", "user.note", [1; 100], XattrCond::Any, Follow::No).unwrap();
        user(8).open("/eight", &mine).unwrap().append(&[3; 300]).unwrap();
        assert_eq!(by_user(world), [(0, 0, 1), (7, 19_101, 1), (8, 300, 1)]);
        is_limit(file.write_at(20_480, &[1; 1000]));
        is_limit(user(8).open("/seven", &OpenOptions::WRITE).unwrap().write_at(20_480, &[1; 1000]));
        user(8).open("/eight", &OpenOptions::WRITE).unwrap().write_at(0, &[1; 60_000]).unwrap();
        // Names: of directories and links, too, and whoever makes or moves them.
        user(7).mkdir("/dir", 0o777).unwrap();
        user(7).symlink("target", "/sym").unwrap();
        fs.link("/seven", fs, "/dir/again").unwrap();
        is_limit(user(7).mkdir("/more", 0o777));
        is_limit(fs.link("/seven", fs, "/dir/third"));
        fs.rename("/seven", fs, "/dir/moved", RenameMode::Replace).unwrap();
        fs.rename("/eight", fs, "/dir/eight", RenameMode::Replace).unwrap();
        fs.rename("/dir/eight", fs, "/dir/again", RenameMode::Exchange).unwrap();
        assert_eq!(by_user(world), [(0, 0, 1), (7, 19_101, 4), (8, 60_000, 1)]);
        let open = fs.open("/dir/again", &OpenOptions::READ).unwrap();
        fs.unlink("/dir/again").unwrap();
        assert_eq!(by_user(world), [(0, 0, 1), (7, 19_101, 4), (8, 60_000, 1)], "it is open");
        open.close().unwrap();
        assert_eq!(by_user(world), [(0, 0, 1), (7, 19_101, 4)]);
    });
}

#[test]
fn who_is_given_a_file_is_charged_for_all_of_it_or_nothing_is_done() {
    each_mount(0, 0, |world, fs| {
        let user = |uid| fs.as_user(Cred { uid, gid: 5, groups: vec![], umask: 0 });
        fs.chmod("/", 0o777).unwrap();
        let mine = OpenOptions { mode: 0o666, ..OpenOptions::CREATE };
        let file = user(7).open("/file", &mine).unwrap();
        // In many chunks, so on all targets.
        file.write_at(0, &[1; 60_000]).unwrap();
        fs.set_xattr("/file", "user.note", [1; 2000], XattrCond::Any, Follow::No).unwrap();
        user(7).open("/other", &mine).unwrap().append(&[2; 500]).unwrap();
        let used = |uid, bytes, files| (uid, bytes, files);
        let before = [used(0, 0, 1), used(7, 62_500, 2)];
        assert_eq!(by_user(world), before);
        for limits in [Limits { bytes: 61_999, files: 0 }, Limits { bytes: 0, files: 1 }] {
            world.container.set_quota(Some(8), limits).unwrap();
            if limits.files > 0 {
                user(8).open("/eight", &mine).unwrap().close().unwrap();
            }
            is_limit(fs.chown("/file", Some(8), Some(8), Follow::No));
            let stat = fs.stat("/file").unwrap();
            assert_eq!((stat.uid, stat.gid), (7, 5), "nothing is done");
            if limits.files > 0 {
                fs.unlink("/eight").unwrap();
            }
            assert_eq!(by_user(world), before);
        }
        let limits = Limits { bytes: 62_000, files: 1 };
        world.container.set_quota(Some(8), limits).unwrap();
        fs.chown("/file", Some(8), None, Follow::No).unwrap();
        let after = [used(0, 0, 1), used(7, 500, 1), used(8, 62_000, 1)];
        assert_eq!(by_user(world), after);
        // Who had it open goes on writing to what is another's now, at that one's limit.
        is_limit(file.write_at(60_000, &[3; 1]));
        file.write_at(0, &[4; 60_000]).unwrap();
        assert_eq!(by_user(world), after);
        // The group alone moves nothing, nor does a directory what lies in it.
        fs.chown("/file", None, Some(9), Follow::No).unwrap();
        user(7).mkdir("/dir", 0o777).unwrap();
        fs.rename("/other", fs, "/dir/other", RenameMode::NoReplace).unwrap();
        world.container.set_quota(Some(8), Limits::default()).unwrap();
        fs.chown("/dir", Some(8), None, Follow::No).unwrap();
        assert_eq!(by_user(world), [used(0, 0, 1), used(7, 500, 1), used(8, 62_000, 2)]);
        // By another name, back to whom it was; and what a snapshot shows goes along.
        fs.link("/file", fs, "/dir/again").unwrap();
        let snapshot = world.container.create_snapshot(None).unwrap();
        file.write_at(0, &[5; 60_000]).unwrap();
        file.close().unwrap();
        fs.chown("/dir/again", Some(7), None, Follow::No).unwrap();
        let bytes = |uid| by_user(world).into_iter().find(|own| own.0 == uid).map_or(0, |own| own.1);
        assert_eq!((bytes(7), bytes(8)), (122_500, 2000), "a snapshot shows the old attribute");
        world.container.destroy_snapshot(snapshot).unwrap();
        assert_eq!((bytes(7), bytes(8)), (62_500, 0));
    });
}
