//! Permissions of handles that carry credentials.

use super::common::{World, put, read_all};
use dolmen_codec::Ask;
use dolmen_codec::verb::Verb;
use dolmen_dfs::{Cookie, Cred, Dfs, Error, Follow, New, OpenOptions, RenameMode, Rights, SetTime, errno};
use dolmen_types::Error as StoreError;
use std::sync::{Arc, Mutex};

fn user(fs: &Dfs, uid: u32, groups: &[u32]) -> Dfs {
    fs.as_user(Cred { uid, gid: uid, groups: groups.to_vec(), umask: 0 })
}

/// `/home` open to all, `/home/a` of user 1, private, with a file; `/tmp` sticky.
fn homes(world: &World) -> Dfs {
    let fs = world.mount();
    for (path, mode, uid) in [("/home", 0o755, 0), ("/home/a", 0o750, 1), ("/tmp", 0o1777, 0)] {
        fs.mkdir(path, mode).unwrap();
        fs.chown(path, Some(uid), Some(uid), Follow::Yes).unwrap();
    }
    put(&fs, "/home/a/f", b"data");
    fs.chown("/home/a/f", Some(1), Some(1), Follow::Yes).unwrap();
    fs.chmod("/home/a/f", 0o640).unwrap();
    fs
}

#[test]
fn every_directory_on_the_way_must_be_passable() {
    let world = World::new(1);
    let fs = homes(&world);
    let (owner, member, other) = (user(&fs, 1, &[]), user(&fs, 2, &[1]), user(&fs, 3, &[]));
    assert!(owner.stat("/home/a/f").is_ok());
    assert!(member.stat("/home/a/f").is_ok());
    assert_eq!(other.stat("/home/a/f").unwrap_err(), Error::NoPermission);
    assert_eq!(other.open_dir("/home/a").unwrap().names().unwrap_err(), Error::NoPermission);
    assert_eq!(other.stat("/home/a/../a").unwrap_err(), Error::NoPermission);
    assert!(other.stat("/home/a").is_ok());
}

#[test]
fn files_open_by_their_bits_and_directories_change_by_theirs() {
    let world = World::new(1);
    let fs = homes(&world);
    let (owner, member) = (user(&fs, 1, &[]), user(&fs, 2, &[1]));
    assert!(owner.open("/home/a/f", &OpenOptions::WRITE).is_ok());
    assert!(member.open("/home/a/f", &OpenOptions::READ).is_ok());
    assert_eq!(member.open("/home/a/f", &OpenOptions::WRITE).unwrap_err(), Error::NoPermission);
    assert_eq!(member.open("/home/a/g", &OpenOptions::CREATE).unwrap_err(), Error::NoPermission);
    assert_eq!(member.open("/home/a/f", &OpenOptions::CREATE_NEW).unwrap_err(), Error::Exists);
    assert_eq!(member.mkdir("/home/x", 0o755).unwrap_err(), Error::NoPermission);
    assert_eq!(member.unlink("/home/a/f").unwrap_err(), Error::NoPermission);
    assert_eq!(
        member.rename("/home/a/f", &member, "/tmp/f", RenameMode::Replace).unwrap_err(),
        Error::NoPermission
    );
    owner.mkdir("/home/a/d", 0o777).unwrap();
    let stat = fs.stat("/home/a/d").unwrap();
    assert_eq!((stat.uid, stat.gid), (1, 1));
    assert_eq!(member.list(&mut Cookie::default(), 10).map(|names| names.len()), Ok(2));
}

#[test]
fn in_a_sticky_directory_only_owners_remove() {
    let world = World::new(1);
    let fs = homes(&world);
    let (one, two) = (user(&fs, 1, &[]), user(&fs, 2, &[]));
    one.open("/tmp/f", &OpenOptions { mode: 0o666, ..OpenOptions::CREATE }).unwrap();
    assert_eq!(two.unlink("/tmp/f").unwrap_err(), Error::NotPermitted);
    assert_eq!(two.rename("/tmp/f", &two, "/tmp/g", RenameMode::Replace).unwrap_err(), Error::NotPermitted);
    assert!(two.open("/tmp/f", &OpenOptions::WRITE).is_ok());
    one.unlink("/tmp/f").unwrap();
}

#[test]
fn attributes_are_the_owners() {
    let world = World::new(1);
    let fs = homes(&world);
    let (owner, member) = (user(&fs, 1, &[5]), user(&fs, 2, &[1]));
    assert_eq!(member.chmod("/home/a/f", 0o777).unwrap_err(), Error::NotPermitted);
    assert_eq!(owner.chown("/home/a/f", Some(2), None, Follow::Yes).unwrap_err(), Error::NotPermitted);
    assert_eq!(owner.chown("/home/a/f", None, Some(6), Follow::Yes).unwrap_err(), Error::NotPermitted);
    owner.chmod("/home/a/f", 0o6755).unwrap();
    owner.chown("/home/a/f", None, Some(5), Follow::Yes).unwrap();
    let stat = fs.stat("/home/a/f").unwrap();
    assert_eq!((stat.permissions, stat.gid), (0o755, 5), "set-id bits go with a change of owner");
    // The group does not run it: the bit means something else, for whoever is in the group.
    owner.chmod("/home/a/f", 0o6745).unwrap();
    owner.chown("/home/a/f", None, Some(1), Follow::Yes).unwrap();
    assert_eq!(fs.stat("/home/a/f").unwrap().permissions, 0o2745);
    fs.chown("/home/a/f", None, Some(9), Follow::Yes).unwrap();
    owner.chown("/home/a/f", None, Some(5), Follow::Yes).unwrap();
    assert_eq!(fs.stat("/home/a/f").unwrap().permissions, 0o745, "of a group that he is not in");
    // Root's hand takes them as well, where rights are looked at; from a directory nobody's does.
    let root = user(&fs, 0, &[]);
    for (mode, left) in [(0o6755, 0o755), (0o6745, 0o2745), (0o4700, 0o700), (0o1755, 0o1755)] {
        fs.chmod("/home/a/f", mode).unwrap();
        root.chown("/home/a/f", Some(1), Some(5), Follow::Yes).unwrap();
        assert_eq!(fs.stat("/home/a/f").unwrap().permissions, left, "{mode:o}");
    }
    fs.chmod("/home/a", 0o6750).unwrap();
    root.chown("/home/a", Some(1), Some(1), Follow::Yes).unwrap();
    assert_eq!(fs.stat("/home/a").unwrap().permissions, 0o6750);
    fs.chmod("/home/a/f", 0o6755).unwrap();
    fs.chown("/home/a/f", Some(1), Some(5), Follow::Yes).unwrap();
    assert_eq!(
        fs.stat("/home/a/f").unwrap().permissions,
        0o6755,
        "whoever has no rights says the mode himself"
    );
    assert_eq!(member.set_mtime("/home/a/f", SetTime::Now, Follow::Yes).unwrap_err(), Error::NoPermission);
    owner.set_mtime("/home/a/f", SetTime::Now, Follow::Yes).unwrap();
}

#[test]
fn a_file_gets_another_name_of_its_owner_and_of_who_may_read_and_write_it() {
    let world = World::new(1);
    let fs = homes(&world);
    let (owner, other, root) = (user(&fs, 1, &[]), user(&fs, 3, &[5]), user(&fs, 0, &[]));
    put(&fs, "/tmp/f", b"data");
    let (pipe, _) = fs.open_dir("/tmp").unwrap().make("p", New::Pipe, 0o666).unwrap();
    fs.chown("/tmp/f", Some(1), Some(5), Follow::Yes).unwrap();
    let tmp = |fs: &Dfs| fs.open_dir("/tmp").unwrap();
    for (mode, may) in [
        (0o600, false),
        (0o644, false),
        (0o622, false),
        (0o646, false),
        (0o664, true),
        (0o666, true),
        (0o4666, false),
        (0o2666, true),
        (0o2676, false),
        (0o1666, true),
    ] {
        fs.chmod("/tmp/f", mode).unwrap();
        for (who, may) in [(&owner, true), (&root, true), (&fs, true), (&other, may)] {
            let wanted = if may { Ok(()) } else { Err(Error::NotPermitted) };
            let before = fs.stat("/tmp/f").unwrap().links;
            assert_eq!(who.link("/tmp/f", who, "/tmp/by-path"), wanted, "{mode:o}");
            let (obj, _) = tmp(who).lookup("f").unwrap();
            assert_eq!(tmp(who).link_to(&obj, "by-handle").map(drop), wanted, "{mode:o}");
            let links = fs.stat("/tmp/f").unwrap().links;
            assert_eq!(links, before + if may { 2 } else { 0 }, "{mode:o}");
            for name in ["/tmp/by-path", "/tmp/by-handle"] {
                assert_eq!(fs.unlink(name).is_ok(), may, "{mode:o}");
            }
        }
    }
    // What is no file may be anybody's who has made it.
    assert_eq!(tmp(&other).link_to(&pipe, "q").map(drop), Err(Error::NotPermitted));
    assert_eq!(other.link("/tmp/p", &other, "/tmp/q"), Err(Error::NotPermitted));
    assert_eq!(tmp(&root).link_to(&pipe, "q").map(|stat| stat.links), Ok(2));
}

#[test]
fn access_is_checked_on_demand_and_user_0_may_everything() {
    let world = World::new(1);
    let fs = homes(&world);
    let cred = |uid| Cred { uid, gid: uid, groups: vec![], umask: 0 };
    let both = Rights::READ.and(Rights::WRITE);
    assert_eq!(fs.check_access("/home/a/f", &cred(1), both), Ok(()));
    assert_eq!(fs.check_access("/home/a/f", &cred(1), Rights::EXECUTE), Err(Error::NoPermission));
    assert_eq!(fs.check_access("/home/a/f", &cred(3), Rights::NONE), Err(Error::NoPermission));
    assert_eq!(fs.check_access("/home/a/f", &cred(0), both), Ok(()));
    assert_eq!(fs.check_access("/home/a", &cred(3), Rights::NONE), Ok(()));
    let root = user(&fs, 0, &[]);
    root.open("/home/a/f", &OpenOptions::WRITE).unwrap();
    root.unlink("/home/a/f").unwrap();
}

#[test]
fn new_entries_inherit_the_group_of_a_set_group_id_directory() {
    let world = World::new(1);
    let fs = world.mount();
    fs.mkdir("/shared", 0o2777).unwrap();
    fs.chown("/shared", None, Some(42), Follow::Yes).unwrap();
    fs.chmod("/shared", 0o2777).unwrap();
    let member = user(&fs, 7, &[42]);
    member.mkdir("/shared/d", 0o755).unwrap();
    let stat = fs.stat("/shared/d").unwrap();
    assert_eq!((stat.uid, stat.gid, stat.permissions), (7, 42, 0o2755));
}

#[test]
fn who_is_not_let_in_any_more_is_told_from_who_may_do_less_than_he_could() {
    let refused = Arc::new(Mutex::new(None));
    let refuses = Arc::clone(&refused);
    let (world, watched) = World::refusing(move || refuses.lock().unwrap().clone());
    let fs = world.mount();
    let file = put(&fs, "/f", b"data");
    watched.before(|ask| matches!(ask, Ask::Target(_, _, Verb::Update(_))), || Err(StoreError::NoPermission));
    let less = file.write_at(0, b"more").unwrap_err();
    assert!(watched.is_done() && less.is_of_rights());
    assert_eq!(file.errno_of(&less), errno::EACCES);
    assert_eq!(read_all(&file), b"data");
    *refused.lock().unwrap() = Some(StoreError::NoPermission);
    let taken = file.read_at(0, &mut [0]).unwrap_err();
    assert_eq!([&less, &taken].map(|error| file.errno_of(error)), [errno::ESTALE; 2]);
    *refused.lock().unwrap() = Some(StoreError::NoHandle);
    assert_eq!(file.errno_of(&less), errno::ESTALE);
    let lost = fs.stat("/f").unwrap_err();
    *refused.lock().unwrap() = None;
    assert_eq!([&less, &lost].map(|error| file.errno_of(error)), [errno::EACCES, errno::ESTALE]);
    assert_eq!(file.errno_of(&Error::NoPermission), errno::EACCES);
}
