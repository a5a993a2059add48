//! Handles of whatever entries name, as a door holds them that acts for many callers.

use super::common::{World, put, read_all};
use dolmen_dfs::{
    Cred, DeviceNo, Dfs, Dir, Error, FileKind, Follow, New, Obj, OpenOptions, RenameMode, Rights, SetAttrs,
    What, XattrCond,
};
use std::sync::Arc;

fn caller(uid: u32, groups: &[u32], umask: u32) -> Arc<Cred> {
    Arc::new(Cred { uid, gid: uid, groups: groups.to_vec(), umask })
}

/// A directory that all may write to.
fn open_to_all(fs: &Dfs, name: &str) -> Dir {
    fs.mkdir(name, 0o777).unwrap();
    fs.open_dir(name).unwrap()
}

const DEVICE: DeviceNo = DeviceNo { major: 8, minor: 300 };

const SPECIAL: [(&str, New<'static>, FileKind); 4] = [
    ("pipe", New::Pipe, FileKind::Pipe),
    ("socket", New::Socket, FileKind::Socket),
    ("char", New::CharDevice(DEVICE), FileKind::CharDevice),
    ("block", New::BlockDevice(DEVICE), FileKind::BlockDevice),
];

#[test]
fn a_lookup_and_a_new_entry_tell_attributes_in_few_requests() {
    let (world, watched) = World::watched();
    let fs = world.mount();
    let cost = |asked: &dyn Fn()| {
        let before = watched.requests();
        asked();
        watched.requests() - before
    };
    fs.create("warm", &OpenOptions::CREATE_NEW).unwrap();
    let mut made = Vec::new();
    let made_by = cost(&|| drop(fs.make("d", New::Directory, 0o755).unwrap()));
    assert_eq!(made_by, 1, "a conditional update");
    assert_eq!(cost(&|| drop(fs.lookup("d").unwrap())), 1, "a fetch");
    assert_eq!(cost(&|| drop(fs.lookup("warm").unwrap())), 2, "a fetch and the size");
    assert_eq!(cost(&|| drop(fs.create("f", &OpenOptions::CREATE_NEW).unwrap())), 1);
    for name in ["d", "warm", "f"] {
        let (obj, stat) = fs.lookup(name).unwrap();
        assert_eq!(Ok(stat), obj.stat());
        assert_eq!(stat, fs.lstat(name).unwrap());
        made.push(obj);
    }
    assert_eq!(fs.lookup("none").unwrap_err(), Error::NotFound);
    assert_eq!(fs.lookup("..").unwrap_err(), Error::Invalid(What::Name));
    assert_eq!(
        made.iter().map(Obj::kind).collect::<Vec<_>>(),
        [FileKind::Directory, FileKind::File, FileKind::File]
    );
}

#[test]
fn what_a_caller_makes_is_his_but_for_his_umask() {
    let world = World::new(1);
    let fs = world.mount();
    let dir = open_to_all(&fs, "d");
    let shared = open_to_all(&fs, "s");
    shared.obj().set_attrs(&SetAttrs { gid: Some(50), ..SetAttrs::KEEP }).unwrap();
    shared.obj().set_attrs(&SetAttrs { mode: Some(0o2777), ..SetAttrs::KEEP }).unwrap();
    let (his, member) = (caller(7, &[], 0o027), caller(8, &[50], 0));
    let (_, file) =
        dir.as_user(&his).create("f", &OpenOptions { mode: 0o666, ..OpenOptions::CREATE }).unwrap();
    assert_eq!((file.uid, file.gid, file.permissions), (7, 7, 0o640));
    let (_, sub) = dir.as_user(&his).make("sub", New::Directory, 0o777).unwrap();
    assert_eq!((sub.uid, sub.gid, sub.permissions), (7, 7, 0o750));
    let (_, link) = dir.as_user(&his).make("l", New::Symlink(b"f"), 0o777).unwrap();
    assert_eq!((link.uid, link.permissions, link.size_bytes), (7, 0o777, 1));
    // In a set-group-id directory the group is the directory's, and programs get its rights from its members only.
    let program = |cred: &Arc<Cred>, name| shared.as_user(cred).make(name, New::File, 0o2775).unwrap().1;
    assert_eq!((program(&his, "a").gid, program(&his, "b").permissions), (50, 0o750));
    assert_eq!(program(&member, "c").permissions, 0o2775);
    let (below, stat) = shared.as_user(&his).make("below", New::Directory, 0o777).unwrap();
    assert_eq!((stat.gid, stat.permissions), (50, 0o2750));
    assert_eq!(below.as_dir().unwrap().make("f", New::File, 0o600).unwrap().1.gid, 50);
    // One handle serves all callers.
    let (mine, _) = dir.lookup("f").unwrap();
    assert_eq!(mine.as_user(&member).open(&OpenOptions::READ).unwrap_err(), Error::NoPermission);
    assert_eq!(mine.as_user(&member).check_access(Rights::READ), Err(Error::NoPermission));
    assert!(mine.as_user(&his).open(&OpenOptions::WRITE).is_ok());
    let chmod = SetAttrs { mode: Some(0o666), ..SetAttrs::KEEP };
    assert_eq!(mine.as_user(&member).set_attrs(&chmod), Err(Error::NotPermitted));
    mine.as_user(&his).set_attrs(&chmod).unwrap();
    assert!(mine.as_user(&member).open(&OpenOptions::WRITE).is_ok());
    let (closed, _) = sub_dir(&dir, "sub").as_user(&his).make("deep", New::File, 0o644).unwrap();
    assert_eq!(sub_dir(&dir, "sub").as_user(&member).lookup("deep").unwrap_err(), Error::NoPermission);
    assert!(closed.as_user(&his).check_access(Rights::READ.and(Rights::WRITE)).is_ok());
}

fn sub_dir(dir: &Dir, name: &str) -> Dir {
    dir.lookup(name).unwrap().0.as_dir().unwrap()
}

#[test]
fn pipes_sockets_and_devices_are_kept_with_their_numbers_and_all_their_names() {
    let world = World::new(2);
    let fs = world.mount();
    let dir = open_to_all(&fs, "d");
    let (objects, user) = (world.object_count(), caller(7, &[], 0o022));
    for (name, new, kind) in SPECIAL {
        let number = if kind.is_device() { DEVICE } else { DeviceNo::default() };
        if kind.is_device() {
            assert_eq!(dir.as_user(&user).make(name, new, 0o666).unwrap_err(), Error::NotPermitted);
        }
        let (obj, made) = dir.make(name, new, 0o666).unwrap();
        assert_eq!((made.kind, made.permissions, made.device, made.links), (kind, 0o666, number, 1));
        assert_eq!(dir.make(name, new, 0o666).unwrap_err(), Error::Exists);
        assert_eq!(obj.open(&OpenOptions::READ).unwrap_err(), Error::Invalid(What::Kind));
        assert_eq!(dir.open(name, &OpenOptions::READ).unwrap_err(), Error::Invalid(What::Kind));
        obj.set_xattr("user.k", "v", XattrCond::Create).unwrap();
        assert_eq!(dir.link_to(&obj, "second").unwrap().links, 2);
        assert_eq!(dir.link_to(&obj, "third").unwrap().links, 3);
        dir.rename(name, &fs, "moved", RenameMode::Replace).unwrap();
        dir.unlink("third").unwrap();
        for again in [obj.stat(), fs.lstat("moved"), dir.lookup("second").map(|(_, stat)| stat)] {
            let again = again.unwrap();
            assert_eq!((again.ino, again.kind, again.device, again.links), (made.ino, kind, number, 2));
        }
        assert!(fs.check(false).unwrap().is_clean());
        dir.unlink("second").unwrap();
        fs.unlink("moved").unwrap();
        let removed = obj.stat().unwrap();
        assert_eq!((removed.links, removed.device, obj.xattr("user.k").unwrap()), (0, number, b"v".to_vec()));
        assert_eq!(dir.link_to(&obj, "back").unwrap_err(), Error::NotFound);
        assert_eq!(fs.check(false).unwrap().orphans, 1);
        drop(obj);
        assert_eq!(fs.check(false).unwrap().orphans, 0);
        assert_eq!(world.object_count(), objects);
    }
}

#[test]
fn what_is_open_works_without_a_name_and_a_mount_frees_what_a_dead_one_left() {
    let world = World::new(1);
    let fs = world.mount();
    let made: Vec<Obj> = [
        ("l", New::Symlink(b"to/where")),
        ("p", New::Pipe),
        ("b", New::BlockDevice(DEVICE)),
        ("f", New::File),
        ("d", New::Directory),
    ]
    .map(|(name, new)| fs.make(name, new, 0o700).unwrap().0)
    .into();
    let file = made[3].open(&OpenOptions::WRITE).unwrap();
    ["l", "p", "b", "f"].iter().for_each(|name| fs.unlink(name).unwrap());
    fs.rmdir("d").unwrap();
    made.iter().for_each(|obj| assert_eq!(obj.stat().unwrap().links, 0));
    assert_eq!(made[0].readlink().unwrap_err(), Error::Stale, "nobody has a link open");
    assert_eq!(made[2].stat().unwrap().device, DEVICE);
    file.write_at(0, b"still here").unwrap();
    assert_eq!(read_all(&made[3].open(&OpenOptions::READ).unwrap()), b"still here");
    assert_eq!(made[4].as_dir().unwrap().make("f", New::File, 0o600).unwrap_err(), Error::NotFound);
    assert_eq!(fs.check(false).unwrap().orphans, 3, "the file, and what the system may have open");
    core::mem::forget((made, file));
    let fs = world.mount();
    let report = fs.check(false).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.orphans, report.files), (0, 0));
}

#[test]
fn handles_follow_what_they_stand_for() {
    let world = World::new(1);
    let fs = world.mount();
    put(&fs, "/f", b"one").close().unwrap();
    put(&fs, "/g", b"two").close().unwrap();
    let ((f, _), (g, _)) = (fs.lookup("f").unwrap(), fs.lookup("g").unwrap());
    fs.rename("f", &fs, "g", RenameMode::Exchange).unwrap();
    assert_eq!(read_all(&f.open(&OpenOptions::READ).unwrap()), b"one");
    fs.rename("f", &fs, "g", RenameMode::Replace).unwrap();
    assert_eq!((f.stat().unwrap().links, g.stat().unwrap().links), (0, 1));
    assert!(f.is_removed());
    assert_eq!(read_all(&g.open(&OpenOptions::READ).unwrap()), b"two");
    let (file, stat) = fs
        .create("g", &OpenOptions { truncate: true, ..OpenOptions::CREATE })
        .unwrap_or_else(|error| panic!("an existing file is opened: {error}"));
    assert_eq!((file.oid(), stat.size_bytes), (g.oid(), 0));
    assert_eq!(fs.create("g", &OpenOptions::CREATE_NEW).unwrap_err(), Error::Exists);
    fs.symlink("g", "link").unwrap();
    assert_eq!(fs.create("link", &OpenOptions::CREATE).unwrap_err(), Error::SymlinkLoop);
    assert_eq!(fs.lookup("link").unwrap().0.readlink().unwrap(), b"g");
    assert_eq!(g.readlink().unwrap_err(), Error::Invalid(What::Kind));
    assert_eq!(g.as_dir().unwrap_err(), Error::NotDirectory);
}

#[test]
fn a_mode_that_another_mount_has_set_counts_for_callers_of_a_shared_one() {
    let world = World::new(1);
    let (here, there) = (world.mount_shared(), world.mount_shared());
    let dir = open_to_all(&here, "d");
    let his = dir.as_user(&caller(7, &[], 0));
    his.make("one", New::File, 0o600).unwrap();
    there.chmod("d", 0o700).unwrap();
    assert_eq!(his.make("two", New::File, 0o600).unwrap_err(), Error::NoPermission);
    assert_eq!(his.lookup("one").unwrap_err(), Error::NoPermission);
    there.chown("d", None, Some(50), Follow::Yes).unwrap();
    there.chmod("d", 0o2777).unwrap();
    assert_eq!(his.make("two", New::File, 0o600).unwrap().1.gid, 50);
    there.unlink("d/two").unwrap();
    assert_eq!(his.lookup("two").unwrap_err(), Error::NotFound);
}
