//! Two mounts that change one container.

use super::common::{World, cat, put};
use crate::watched::IsIt;
use dolmen_codec::Ask;
use dolmen_codec::pool::PoolVerb;
use dolmen_codec::verb::{ReadAt, Verb};
use dolmen_dfs::{
    Allocate, Cred, Dfs, Dir, Error, File, FileKind, Follow, FormatOptions, MountOptions, New, OpenOptions,
    RenameMode, What, XattrCond,
};
use dolmen_types::ObjectClass;
use std::sync::Arc;

/// The look whether a directory was there when something was made in it.
const LOOKS: IsIt =
    |ask| matches!(ask, Ask::Target(_, _, Verb::Fetch(fetch)) if matches!(fetch.at, ReadAt::Epoch(_)));

#[test]
fn a_mount_sees_what_another_one_changes() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    one.mkdir("/a", 0o755).unwrap();
    put(&one, "/a/f", b"1").close().unwrap();
    assert_eq!(cat(&two, "/a/f"), b"1");
    two.rename("/a", &two, "/b", RenameMode::Replace).unwrap();
    assert_eq!(one.stat("/a/f").unwrap_err(), Error::NotFound);
    assert_eq!(cat(&one, "/b/f"), b"1");
    assert_eq!(one.open("/b/f", &OpenOptions::CREATE_NEW).unwrap_err(), Error::Exists);
    two.unlink("/b/f").unwrap();
    assert_eq!(one.stat("/b/f").unwrap_err(), Error::NotFound);
}

#[test]
fn what_is_made_in_a_directory_that_was_made_by_a_clock_that_is_ahead_is_never_taken_back() {
    const BEGINS: IsIt = |ask| matches!(ask, Ask::Pool(PoolVerb::TxBegin));
    let (world, watched) = World::apart(4);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    for n in 0..64 {
        let dir = format!("/{n}");
        one.mkdir(&dir, 0o755).unwrap();
        // To take something back is a transaction, and nothing else here is one.
        watched.before(BEGINS, || panic!("it is taken back"));
        two.mkdir(format!("{dir}/below"), 0o755).unwrap();
        two.open(format!("{dir}/file"), &OpenOptions::CREATE).unwrap();
        assert!(!watched.is_done());
    }
}

#[test]
fn what_is_made_stays_where_the_past_is_aggregated_away_before_it_is_looked_at() {
    let (world, watched) = World::watched();
    let [fs, other] = [(); 2].map(|()| world.mount_shared());
    fs.mkdir("/d", 0o755).unwrap();
    let container = world.container.clone();
    watched.before(LOOKS, move || {
        // Both its epoch and those behind it.
        other.open("/d/later", &OpenOptions::CREATE_NEW).unwrap();
        container.aggregate(dolmen_types::Epoch::ZERO).unwrap();
        put(&other, "/d/new", b"kept").close().unwrap();
        Ok(())
    });
    fs.open("/d/new", &OpenOptions::CREATE).unwrap();
    assert!(watched.is_done());
    assert_eq!(cat(&fs, "/d/new"), b"kept");
}

#[test]
fn what_is_made_stays_where_nobody_can_tell_whether_its_directory_is_there() {
    let (world, watched) = World::watched();
    let [fs, other] = [(); 2].map(|()| world.mount_shared());
    fs.mkdir("/d", 0o755).unwrap();
    let lost = dolmen_types::Error::Unreachable { rank: 7 };
    let answer = lost.clone();
    watched.before(LOOKS, move || {
        put(&other, "/d/new", b"kept").close().unwrap();
        Err(answer)
    });
    let error = fs.open("/d/new", &OpenOptions::CREATE).unwrap_err();
    assert_eq!(error, Error::from(lost));
    assert!(watched.is_done());
    assert_eq!(cat(&fs, "/d/new"), b"kept");
}

#[test]
fn a_directory_in_one_that_has_gone_is_left_if_somebody_has_put_something_into_it() {
    const INSERTS: IsIt = |ask| matches!(ask, Ask::Target(_, _, Verb::Update(_)));
    let (world, watched) = World::watched();
    let [fs, quick, remover] = [(); 3].map(|()| world.mount_shared());
    fs.mkdir("/d", 0o755).unwrap();
    let in_use = quick.open_dir("/d").unwrap();
    let (then, writer) = (Arc::clone(&watched), in_use.clone());
    watched.before(INSERTS, move || {
        remover.rmdir("/d").unwrap();
        then.before(LOOKS, move || {
            let file = writer.open("new/file", &OpenOptions::CREATE_NEW).unwrap();
            file.write_at(0, b"kept").unwrap();
            file.close().unwrap();
            Ok(())
        });
        Ok(())
    });
    assert_eq!(fs.mkdir("/d/new", 0o755).unwrap_err(), Error::NotFound);
    assert!(watched.is_done());
    assert_eq!(in_use.stat("new/file").unwrap().size_bytes, 4);
    // Nobody comes to it by a path any more, but it is not lost.
    fs.mkdir("/found", 0o755).unwrap();
    let found = fs.open_dir("/found").unwrap();
    found.adopt(&fs.check(false).unwrap().leaked).unwrap();
    assert_eq!(cat(&fs, &format!("/found/{}/new/file", in_use.oid())), b"kept");
}

#[test]
fn what_a_caller_changes_loses_the_rights_of_its_owner_whoever_has_set_them() {
    let world = World::new(2);
    let other = Cred { uid: 7, gid: 7, groups: Vec::new(), umask: 0 };
    let (alone, changes) = (world.mount(), Allocate::PunchHole);
    let change: [&dyn Fn(&File); 4] = [
        &|file| assert_eq!(file.write_at(1, b"x"), Ok(1)),
        &|file| assert!(file.append(b"x").is_ok()),
        &|file| file.set_len(3).unwrap(),
        &|file| file.allocate(changes, true, 0, 1).unwrap(),
    ];
    put(&alone, "f", b"data").close().unwrap();
    let set = |fs: &Dfs, mode| fs.chmod("f", mode).unwrap();
    let mode = |fs: &Dfs| fs.stat("f").unwrap().permissions;
    let tried = |setter: &Dfs, fs: &Dfs| {
        set(setter, 0o777);
        let file = fs.as_user(other.clone()).open("f", &OpenOptions::WRITE).unwrap();
        let by_owner = fs.open("f", &OpenOptions::WRITE).unwrap();
        for change in change {
            for (is_set, left) in [(0o6777, 0o777), (0o6767, 0o2767), (0o1777, 0o1777)] {
                set(setter, is_set);
                change(&by_owner);
                assert_eq!(mode(setter), is_set, "nobody is asked who he is");
                change(&file);
                assert_eq!((mode(setter), mode(fs)), (left, left), "{is_set:o}");
            }
        }
    };
    tried(&alone, &alone);
    drop(alone);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    tried(&one, &two);
    // Its record is beside its names then, and whoever has it open does not know.
    let file = two.as_user(other.clone()).open("f", &OpenOptions::WRITE).unwrap();
    one.link("f", &one, "g").unwrap();
    set(&one, 0o4777);
    file.write_at(0, b"y").unwrap();
    assert_eq!((mode(&one), one.stat("g").unwrap().permissions), (0o777, 0o777));
    assert_eq!((one.stat("g").unwrap().links, cat(&one, "g")[0]), (2, b'y'));
}

#[test]
fn nothing_is_added_to_a_directory_that_another_mount_removed() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    one.mkdir("/d", 0o755).unwrap();
    let dir = one.open_dir("/d").unwrap();
    two.rmdir("/d").unwrap();
    let objects = world.object_count();
    assert_eq!(dir.mkdir("x", 0o755).unwrap_err(), Error::Stale);
    assert_eq!(dir.open("x", &OpenOptions::CREATE).unwrap_err(), Error::Stale);
    assert_eq!(one.mkdir("/d/x", 0o755).unwrap_err(), Error::NotFound);
    assert_eq!(world.object_count(), objects);
}

/// Does with a directory what needs to know that it is there.
fn works_in(dir: &Dir, round: usize) {
    let name = |what: &str| format!("{what}{round}");
    dir.mkdir(name("d"), 0o755).unwrap();
    dir.open(name("f"), &OpenOptions::CREATE_NEW).unwrap().write_at(0, b"data").unwrap();
    dir.make(name("p"), New::Pipe, 0o644).unwrap();
    dir.link(name("f"), dir, name("l")).unwrap();
    let (obj, _) = dir.lookup(name("f")).unwrap();
    assert_eq!(dir.link_to(&obj, name("m")).unwrap().links, 3);
    dir.rename(name("d"), dir, name("e"), RenameMode::Replace).unwrap();
    dir.symlink("somewhere", name("s")).unwrap();
    dir.unlink(name("s")).unwrap();
}

#[test]
fn a_directory_that_another_mount_moves_is_worked_in_where_it_is_now() {
    let (world, watched) = World::watched();
    let (one, two) = (world.mount_shared(), world.mount_shared());
    for path in ["/a", "/b", "/elsewhere", "/a/d", "/a/d/below"] {
        two.mkdir(path, 0o755).unwrap();
    }
    let [dir, below, _a, _b] = ["/a/d", "/a/d/below", "/a", "/b"].map(|path| one.open_dir(path).unwrap());
    // Under another name, and in another directory that is in use here; the last is not.
    for (round, (from, to)) in
        [("/a/d", "/a/moved"), ("/a/moved", "/b/d"), ("/b/d", "/a/d")].into_iter().enumerate()
    {
        two.rename(from, &two, to, RenameMode::Replace).unwrap();
        match round {
            0 => works_in(&dir, round),
            1 => two.chmod(to, 0o700).unwrap(),
            _ => {}
        }
        assert_eq!(dir.obj().stat().unwrap().permissions, if round == 0 { 0o755 } else { 0o700 });
        if round > 0 {
            works_in(&dir, round);
        }
        works_in(&below, round);
        assert_eq!(two.open_dir(to).unwrap().names().unwrap().len(), 1 + 5 * (round + 1), "{to}");
    }
    two.rename("/a/d", &two, "/elsewhere/d", RenameMode::Replace).unwrap();
    let [first, second] = [(); 2].map(|()| {
        let before = watched.requests();
        assert_eq!(dir.mkdir("new", 0o755).unwrap_err(), Error::Stale);
        watched.requests() - before
    });
    assert!(second < first, "{second} as {first}: it is not looked for again");
    // A path leads to it.
    one.stat("/elsewhere/d/below").unwrap();
    works_in(&dir, 9);
    assert!(two.check(false).unwrap().is_clean());
}

#[test]
fn two_mounts_cannot_make_a_circle_of_directories() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    one.mkdir("/a", 0o755).unwrap();
    one.mkdir("/b", 0o755).unwrap();
    assert_eq!(one.rename("/a", &two, "/c", RenameMode::Replace).unwrap_err(), Error::CrossMount);
    let (in_a, in_b) = (one.open_dir("/a").unwrap(), two.open_dir("/b").unwrap());
    one.rename("/a", &one, "/b/a", RenameMode::Replace).unwrap();
    let circle = two.rename("/b", &two, "/a/b", RenameMode::Replace);
    assert_eq!(circle.unwrap_err(), Error::NotFound);
    let circle = one.rename("/b", &in_a, "b", RenameMode::Replace);
    assert_eq!(circle.unwrap_err(), Error::Invalid(dolmen_dfs::What::Cycle));
    assert!(in_b.stat("a").is_ok());
}

#[test]
fn appends_of_two_mounts_do_not_overwrite_each_other() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    let (a, b) =
        (one.open("/log", &OpenOptions::APPEND).unwrap(), two.open("/log", &OpenOptions::APPEND).unwrap());
    let mut ends = Vec::new();
    for n in 0..20_u8 {
        ends.push(if n % 2 == 0 { &a } else { &b }.append(&[n; 10]).unwrap());
    }
    assert_eq!(ends, (0..20).map(|n| n * 10).collect::<Vec<u64>>());
    assert!(
        cat(&one, "/log").chunks(10).enumerate().all(|(n, part)| part.iter().all(|&b| usize::from(b) == n))
    );
}

#[test]
fn a_file_that_another_mount_removed_is_stale_and_is_not_brought_back() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    one.mkdir("/keeps-the-root-there", 0o755).unwrap();
    let objects = world.object_count();
    let file = put(&one, "/f", b"data");
    let replaced = put(&one, "/g", b"old");
    let (known, _) = one.open_dir("/").unwrap().lookup("f").unwrap();
    two.unlink("/f").unwrap();
    put(&two, "/h", b"new").close().unwrap();
    two.rename("/h", &two, "/g", RenameMode::Replace).unwrap();
    for file in [&file, &replaced] {
        assert_eq!(file.read_at(0, &mut [0; 10]).unwrap_err(), Error::Stale);
        assert_eq!(file.write_at(0, b"more").unwrap_err(), Error::Stale);
        assert_eq!(file.append(b"more").unwrap_err(), Error::Stale);
        assert_eq!(file.set_len(9).unwrap_err(), Error::Stale);
        assert_eq!(file.set_len(0).unwrap_err(), Error::Stale);
        assert_eq!(file.punch_hole(0, 9).unwrap_err(), Error::Stale);
        assert_eq!(file.stat().unwrap_err(), Error::Stale);
    }
    for options in [OpenOptions::READ, OpenOptions::WRITE] {
        assert_eq!(known.open(&options).map(drop).unwrap_err(), Error::Stale, "whoever asked looks anew");
    }
    drop((file, replaced, known));
    assert_eq!(cat(&one, "/g"), b"new");
    assert_eq!(world.object_count(), objects + 1, "/g");
    assert!(one.check(false).unwrap().is_clean());
}

#[test]
fn a_file_that_its_own_mount_unlinked_works_on_in_a_shared_one() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    let file = put(&one, "/f", b"data");
    one.unlink("/f").unwrap();
    assert_eq!(two.stat("/f").unwrap_err(), Error::NotFound);
    file.write_at(4, b" more").unwrap();
    file.set_len(7).unwrap();
    let mut data = [0; 10];
    assert_eq!(file.read_at(0, &mut data).unwrap(), 7);
    assert_eq!(&data[..7], b"data mo");
    drop(file);
    assert!(two.check(false).unwrap().is_clean());
}

#[test]
fn a_directory_that_is_filled_while_another_mount_removes_it_stays() {
    let (world, watched) = World::watched();
    let (one, two) = (world.mount_shared(), world.mount_shared());
    one.mkdir("/d", 0o755).unwrap();
    let dir = two.open_dir("/d").unwrap();
    // The directory was empty when the removal looked, and its commit is on its way.
    watched.before(is_commit, move || {
        dir.open("f", &OpenOptions::CREATE_NEW).unwrap();
        Ok(())
    });
    assert_eq!(one.rmdir("/d").unwrap_err(), Error::NotEmpty);
    assert!(watched.is_done());
    assert!(two.stat("/d/f").is_ok());
    assert!(one.check(false).unwrap().is_clean());
}

fn is_commit(ask: &Ask<'_>) -> bool {
    matches!(ask, Ask::Pool(PoolVerb::TxCommit(_)))
}

fn is_of_the_size(ask: &Ask<'_>) -> bool {
    matches!(ask, Ask::Target(_, _, Verb::Query(_)))
}

fn is_of_data(ask: &Ask<'_>) -> bool {
    matches!(ask, Ask::Target(_, _, Verb::Fetch(fetch)) if fetch.iods.iter().any(|iod| iod.akey[..] == *b"0"))
}

#[test]
fn a_read_beside_a_mount_that_cuts_the_file_tells_no_zeros_that_nobody_wrote() {
    let (world, watched) = World::watched();
    let (one, two) = (world.mount_shared(), world.mount_shared());
    let options = MountOptions { read_only: true, shared: true, ..world.options() };
    let others = [one, Dfs::mount(&world.container, &options).unwrap()];
    for (reader, left) in others.iter().flat_map(|one| [0, 3000, 10_000].map(|left| (one, left))) {
        let writer = put(&two, "/f", b"");
        let file = reader.open("/f", &OpenOptions::READ).unwrap();
        let (cutter, again) = (writer.clone(), Arc::clone(&watched));
        // It has found nothing, and finds the file longer; before it looks at what that is, it is cut, and longer again.
        watched.before(is_of_the_size, move || {
            cutter.write_at(0, &[7; 10_000]).unwrap();
            again.before(is_of_data, move || {
                cutter.set_len(0).unwrap();
                cutter.write_at(0, &vec![8; left]).unwrap();
                Ok(())
            });
            Ok(())
        });
        let mut data = vec![0xaa; 20_000];
        let len = file.read_at(0, &mut data).unwrap();
        assert!(watched.is_done());
        assert!(data[..len].iter().all(|&byte| byte == 7 || byte == 8), "{left}: {len}");
        // A hole is one.
        writer.set_len(0).unwrap();
        writer.write_at(0, &[7; 1000]).unwrap();
        writer.set_len(30_000).unwrap();
        assert_eq!(file.read_at(0, &mut data).unwrap(), 20_000);
        assert!(data[..1000] == [7; 1000] && data[1000..] == [0; 19_000]);
        let cost = |file: &File, len: usize, read: usize| {
            let before = watched.requests();
            assert_eq!(file.read_at(0, &mut vec![0; len]).unwrap(), read);
            watched.requests() - before
        };
        writer.set_len(1000).unwrap();
        assert_eq!(cost(&file, 1000, 1000), 1, "what is there");
        assert_eq!(cost(&file, 1001, 1000), 2, "to the end");
    }
}

#[test]
fn operations_on_a_relaxed_mount_take_few_requests() {
    let (world, watched) = World::watched();
    let fs = world.mount_relaxed();
    fs.mkdir("/d", 0o755).unwrap();
    let dir = fs.open_dir("/d").unwrap();
    dir.open("first", &OpenOptions::CREATE).unwrap();
    let cost = |operation: &mut dyn FnMut()| {
        let before = watched.requests();
        operation();
        watched.requests() - before
    };
    let mut file = None;
    assert_eq!(cost(&mut || file = Some(dir.open("f", &OpenOptions::CREATE).unwrap())), 2, "create");
    let made = file.take().unwrap();
    assert_eq!(cost(&mut || assert_eq!(made.write_at(0, &[7; 3901]).unwrap(), 0)), 1, "write");
    assert_eq!(cost(&mut || assert_eq!(made.read_at(0, &mut [0; 3901]).unwrap(), 3901)), 1, "read");
    assert_eq!(cost(&mut || made.clone().close().unwrap()), 0, "close");
    drop(made);
    assert_eq!(cost(&mut || assert_eq!(dir.lstat("f").unwrap().size_bytes, 3901)), 2, "stat");
    assert_eq!(cost(&mut || file = Some(dir.open("f", &OpenOptions::WRITE).unwrap())), 1, "open");
    assert_eq!(cost(&mut || file = None), 0, "release");
    let mut found = None;
    assert_eq!(cost(&mut || found = Some(dir.locate("f", &OpenOptions::READ, Follow::No).unwrap())), 1);
    drop(found);
    assert_eq!(cost(&mut || dir.unlink("f").unwrap()), 3, "unlink");
    assert_eq!(cost(&mut || dir.mkdir("sub", 0o755).unwrap()), 2, "mkdir");
    let mut removed = None;
    assert_eq!(cost(&mut || removed = Some(dir.remove("sub").unwrap())), 4, "rmdir");
    assert_eq!(removed.unwrap().0, FileKind::Directory);
    assert_eq!(cost(&mut || removed = Some(dir.remove("first").unwrap())), 3, "remove");
    assert_eq!(removed.unwrap().0, FileKind::File);
    assert!(fs.check(false).unwrap().is_clean());
}

#[test]
fn a_relaxed_mount_learns_within_a_second_that_a_file_is_gone() {
    let world = World::new(2);
    let (one, two) = (world.mount_relaxed(), world.mount_relaxed());
    one.mkdir("/keeps-the-root-there", 0o755).unwrap();
    let file = put(&one, "/f", b"data");
    two.unlink("/f").unwrap();
    assert_eq!(file.read_at(0, &mut [0; 10]).unwrap_err(), Error::Stale);
    assert_eq!(file.append(b"more").unwrap_err(), Error::Stale);
    assert_eq!(file.write_at(0, b"blind").unwrap(), 0);
    world.clock.advance(2_000_000_000);
    file.write_at(0, b"blind").unwrap();
    assert_eq!(file.write_at(0, b"seeing").unwrap_err(), Error::Stale);
    drop(file);
    let left = two.check(true).unwrap();
    assert_eq!((left.leaked.len(), left.repaired), (1, true));
    assert!(two.check(false).unwrap().is_clean());
}

#[test]
fn a_relaxed_mount_of_a_balanced_container_is_balanced() {
    let world = World::with(2, &FormatOptions { balanced: true, ..FormatOptions::default() });
    let (one, two) = (world.mount_relaxed(), world.mount_relaxed());
    assert!(one.superblock().balanced);
    let file = put(&one, "/f", b"data");
    two.unlink("/f").unwrap();
    assert_eq!(file.write_at(0, b"more").unwrap_err(), Error::Stale);
}

#[test]
fn a_handle_is_told_where_another_mount_has_moved_what_it_stands_for() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    one.mkdir("/a", 0o755).unwrap();
    let (dir, file) = (one.open_dir("/a").unwrap(), put(&one, "/a/f", b"data"));
    two.rename("/a", &two, "/b", RenameMode::Replace).unwrap();
    two.rename("/b/f", &two, "/g", RenameMode::Replace).unwrap();
    assert_eq!(file.write_at(0, b"more").unwrap_err(), Error::Stale);
    assert_eq!(file.found_at(&one, "b").unwrap_err(), Error::Stale);
    file.found_at(&one, "g").unwrap();
    dir.found_at(&one, "b").unwrap();
    assert_eq!(dir.path().unwrap(), b"/b");
    file.write_at(0, b"more").unwrap();
    put(&one, "/b/x", b"").close().unwrap();
    assert_eq!(cat(&two, "/g"), b"more");
}

#[test]
fn the_handle_of_a_file_has_its_extended_attributes() {
    let world = World::new(2);
    let fs = world.mount_shared();
    let file = put(&fs, "/f", b"data");
    file.set_xattr("user.a", b"1", XattrCond::Create).unwrap();
    assert_eq!(file.set_xattr("user.a", b"2", XattrCond::Create).unwrap_err(), Error::Exists);
    assert_eq!(file.set_xattr("user.b", b"2", XattrCond::Replace).unwrap_err(), Error::NoAttribute);
    fs.link("/f", &fs, "/g").unwrap();
    file.set_xattr("user.b", b"2", XattrCond::Any).unwrap();
    assert_eq!(file.xattr_names().unwrap(), [b"user.a", b"user.b"]);
    assert_eq!(fs.xattr("/g", "user.b", Follow::Yes).unwrap(), b"2");
    file.remove_xattr("user.a").unwrap();
    assert_eq!(file.remove_xattr("user.a").unwrap_err(), Error::NoAttribute);
    assert_eq!(file.xattr("user.a").unwrap_err(), Error::NoAttribute);
    fs.unlink("/f").unwrap();
    fs.unlink("/g").unwrap();
    assert_eq!(file.xattr("user.b").unwrap(), b"2");
}

#[test]
fn what_a_directory_says_of_new_files_is_handed_down() {
    let world = World::new(2);
    let fs = world.mount_shared();
    fs.mkdir_as("/d", 0o755, ObjectClass::SX).unwrap();
    let dir = fs.open_dir("/d").unwrap();
    assert_eq!(dir.placement(), (ObjectClass::UNKNOWN, 0));
    assert_eq!(dir.set_placement(None, Some(77)).unwrap_err(), Error::Invalid(What::Placement));
    dir.set_placement(Some(ObjectClass::SX), Some(8192)).unwrap();
    dir.mkdir("sub", 0o755).unwrap();
    let file = dir.open("sub/f", &OpenOptions::CREATE).unwrap();
    assert_eq!((file.chunk_bytes(), file.oid().class().groups()), (8192, 2));
    assert_eq!(world.mount_shared().open_dir("/d").unwrap().placement(), (ObjectClass::SX, 8192));
}

#[test]
fn an_entry_is_removed_whatever_it_is() {
    let world = World::new(2);
    for fs in [world.mount(), world.mount_shared()] {
        fs.mkdir("/d", 0o755).unwrap();
        put(&fs, "/f", b"data").close().unwrap();
        fs.symlink("f", "/l").unwrap();
        let dir = fs.open_dir("/d").unwrap();
        dir.mkdir("sub", 0o755).unwrap();
        assert_eq!(fs.remove("d").unwrap_err(), Error::NotEmpty);
        assert_eq!(fs.remove("d/sub").unwrap_err(), Error::Invalid(What::Name));
        assert_eq!(dir.remove("sub").unwrap().0, FileKind::Directory);
        assert_eq!(fs.remove("d").unwrap(), (FileKind::Directory, dir.oid()));
        assert_eq!(dir.mkdir("sub", 0o755).unwrap_err(), Error::NotFound);
        assert_eq!(fs.remove("f").unwrap().0, FileKind::File);
        assert_eq!(fs.remove("l").unwrap().0, FileKind::Symlink);
        assert_eq!(fs.remove("l").unwrap_err(), Error::NotFound);
    }
    assert!(world.mount().check(false).unwrap().is_clean());
}
