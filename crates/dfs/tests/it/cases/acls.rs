//! POSIX access control lists: what they allow, and how they come to be.

use super::common::{World, cat, put};
use dolmen_dfs::{
    Cred, Dfs, Error, Follow, MountOptions, New, Obj, OpenOptions, RenameMode, Rights, SetAttrs, SetTime,
    What, XattrCond,
};
use std::sync::Arc;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const OWNER: u16 = 1;
const USER: u16 = 2;
const OWNING_GROUP: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHER: u16 = 32;
const NOBODY: u32 = u32::MAX;

/// A list as the kernel hands it to a file system.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0];
    for (tag, rights, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&rights.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

/// User 7 reads and writes, group 50 reads, the others nothing.
fn team(owner: u16, mask: u16, other: u16) -> Vec<u8> {
    list(&[
        (OWNER, owner, NOBODY),
        (USER, 7, 7),
        (OWNING_GROUP, 4, NOBODY),
        (GROUP, 5, 50),
        (MASK, mask, NOBODY),
        (OTHER, other, NOBODY),
    ])
}

fn mounted(world: &World, shared: bool) -> Dfs {
    Dfs::mount(&world.container, &MountOptions { acls: true, shared, ..world.options() }).unwrap()
}

fn caller(uid: u32, groups: &[u32]) -> Arc<Cred> {
    Arc::new(Cred { uid, gid: uid, groups: groups.to_vec(), umask: 0o077 })
}

fn may(obj: &Obj, cred: &Arc<Cred>, rights: Rights) -> bool {
    match obj.as_user(cred).check_access(rights) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error, Error::NoPermission);
            false
        }
    }
}

/// A file of user 1 and group 1 with this list.
fn listed(fs: &Dfs, name: &str, list: &[u8]) -> Obj {
    put(fs, name, b"data").close().unwrap();
    fs.chown(name, Some(1), Some(1), Follow::Yes).unwrap();
    fs.set_xattr(name, ACCESS, list, XattrCond::Any, Follow::Yes).unwrap();
    fs.lookup(name).unwrap().0
}

#[test]
fn a_list_decides_for_those_whom_it_names_within_its_mask() {
    let world = World::new(1);
    for shared in [false, true] {
        let fs = mounted(&world, shared);
        let file = listed(&fs, "f", &team(6, 6, 0));
        assert_eq!(file.stat().unwrap().permissions, 0o660, "the mask stands for the group");
        let (owner, named, member) = (caller(1, &[]), caller(7, &[]), caller(8, &[50]));
        let (in_group, other, root) = (caller(9, &[1]), caller(10, &[]), caller(0, &[]));
        let both = Rights::READ.and(Rights::WRITE);
        assert!(may(&file, &owner, both));
        assert!(may(&file, &root, both));
        assert!(may(&file, &named, both));
        assert!(!may(&file, &named, Rights::EXECUTE), "masked");
        assert!(may(&file, &member, Rights::READ));
        assert!(!may(&file, &member, Rights::WRITE));
        assert!(may(&file, &in_group, Rights::READ));
        assert!(!may(&file, &in_group, Rights::WRITE), "the mode's digit is the mask, not the group");
        assert!(!may(&file, &other, Rights::READ));
        // All ways to a file ask the list.
        let user = |cred: &Arc<Cred>| fs.as_user((**cred).clone());
        assert!(user(&named).open("f", &OpenOptions::WRITE).is_ok());
        assert_eq!(user(&member).open("f", &OpenOptions::WRITE).unwrap_err(), Error::NoPermission);
        assert!(user(&root).check_access("f", &named, Rights::WRITE).is_ok());
        user(&named).set_mtime("f", SetTime::Now, Follow::Yes).unwrap();
        assert_eq!(user(&member).set_mtime("f", SetTime::Now, Follow::Yes), Err(Error::NoPermission));
        assert_eq!(user(&other).xattr("f", ACCESS, Follow::Yes).unwrap(), team(6, 6, 0), "everybody sees it");
        // A chmod sets owner, mask and others.
        file.as_user(&owner).set_attrs(&SetAttrs { mode: Some(0o604), ..SetAttrs::KEEP }).unwrap();
        assert_eq!(file.xattr(ACCESS).unwrap(), team(6, 0, 4));
        assert!(!may(&file, &named, Rights::READ));
        assert!(may(&file, &other, Rights::READ));
        assert!(!may(&file, &in_group, Rights::READ));
        fs.unlink("f").unwrap();
    }
}

#[test]
fn who_may_set_a_list_sets_the_mode_with_it_and_it_goes_along_with_its_file() {
    let world = World::new(1);
    let fs = mounted(&world, false);
    let file = listed(&fs, "f", &team(7, 5, 1));
    let (owner, named) = (caller(1, &[]), caller(7, &[]));
    let set =
        |cred: &Arc<Cred>, name, value: &[u8]| file.as_user(cred).set_xattr(name, value, XattrCond::Any);
    assert_eq!(set(&named, ACCESS, &team(7, 7, 7)), Err(Error::NotPermitted));
    assert_eq!(set(&owner, DEFAULT, &team(7, 7, 7)), Err(Error::NoPermission), "only directories have one");
    assert_eq!(set(&owner, ACCESS, b"no list"), Err(Error::Invalid(What::Acl)));
    let without_mask =
        list(&[(OWNER, 7, NOBODY), (USER, 7, 7), (OWNING_GROUP, 4, NOBODY), (OTHER, 0, NOBODY)]);
    assert_eq!(set(&owner, ACCESS, &without_mask), Err(Error::Invalid(What::Acl)));
    assert_eq!(file.set_xattr(ACCESS, team(7, 5, 1), XattrCond::Create), Err(Error::Exists));
    assert_eq!(file.stat().unwrap().permissions, 0o751);
    // A second name, another place, and no name at all.
    let open = file.open(&OpenOptions::READ).unwrap();
    fs.link_to(&file, "second").unwrap();
    fs.rename("f", &fs, "moved", RenameMode::Replace).unwrap();
    for name in ["second", "moved"] {
        assert_eq!(fs.xattr(name, ACCESS, Follow::Yes).unwrap(), team(7, 5, 1));
        assert!(may(&fs.lookup(name).unwrap().0, &named, Rights::EXECUTE));
        fs.unlink(name).unwrap();
    }
    assert_eq!(file.xattr(ACCESS).unwrap(), team(7, 5, 1));
    assert!(may(&file, &named, Rights::READ));
    // What a mode says needs no list, and without one the digit of the group is the group's.
    set(&owner, ACCESS, &list(&[(OWNER, 6, NOBODY), (OWNING_GROUP, 4, NOBODY), (OTHER, 0, NOBODY)])).unwrap();
    assert_eq!(file.xattr(ACCESS), Err(Error::NoAttribute));
    assert_eq!(file.stat().unwrap().permissions, 0o640);
    set(&owner, ACCESS, &team(6, 6, 0)).unwrap();
    file.as_user(&owner).remove_xattr(ACCESS).unwrap();
    assert_eq!((file.xattr_names().unwrap().len(), file.stat().unwrap().permissions), (0, 0o660));
    assert!(!may(&file, &named, Rights::READ));
    // Who is not in the group of a program does not give it the group's rights.
    file.set_attrs(&SetAttrs { mode: Some(0o2755), gid: Some(50), ..SetAttrs::KEEP }).unwrap();
    set(&owner, ACCESS, &team(7, 5, 5)).unwrap();
    assert_eq!(file.stat().unwrap().permissions, 0o755);
    fs.symlink("moved", "link").unwrap();
    drop(open);
    let of_link = fs.set_xattr("link", ACCESS, team(7, 7, 7), XattrCond::Any, Follow::No);
    assert_eq!(of_link, Err(Error::Invalid(What::Kind)));
}

#[test]
fn a_list_by_default_is_handed_down_and_the_umask_has_no_say() {
    let world = World::new(1);
    for shared in [false, true] {
        let fs = mounted(&world, shared);
        fs.mkdir("d", 0o777).unwrap();
        fs.set_xattr("d", DEFAULT, team(7, 7, 5), XattrCond::Any, Follow::Yes).unwrap();
        assert_eq!(fs.stat("d").unwrap().permissions, 0o777, "it says nothing of the directory");
        let dir = fs.open_dir("d").unwrap();
        let his = dir.as_user(&caller(9, &[]));
        let (file, made) = his.create("f", &OpenOptions { mode: 0o666, ..OpenOptions::CREATE }).unwrap();
        assert_eq!(made.permissions, 0o664);
        assert_eq!(file.stat().unwrap(), made);
        assert_eq!(file.xattr(ACCESS).unwrap(), team(6, 6, 4));
        assert!(may(&file, &caller(7, &[]), Rights::WRITE));
        assert_eq!(file.xattr_names().unwrap(), [ACCESS.as_bytes()]);
        let (sub, stat) = his.make("sub", New::Directory, 0o700).unwrap();
        assert_eq!(stat.permissions, 0o700);
        assert_eq!((sub.xattr(ACCESS).unwrap(), sub.xattr(DEFAULT).unwrap()), (team(7, 0, 0), team(7, 7, 5)));
        let (pipe, stat) = his.make("pipe", New::Pipe, 0o660).unwrap();
        assert_eq!((stat.permissions, pipe.xattr(ACCESS).unwrap()), (0o660, team(6, 6, 0)));
        let (link, _) = his.make("link", New::Symlink(b"f"), 0o777).unwrap();
        assert!(link.xattr_names().unwrap().is_empty());
        fs.mkdir("d/path", 0o755).unwrap();
        assert_eq!(fs.xattr("d/path", DEFAULT, Follow::Yes).unwrap(), team(7, 7, 5));
        fs.put_whole("d/whole", b"data", &SetAttrs::KEEP).unwrap();
        assert_eq!(fs.xattr("d/whole", ACCESS, Follow::Yes).unwrap(), team(6, 4, 4));
        assert_eq!(cat(&fs, "d/whole"), b"data");
        let (nameless, stat) = his.tmpfile(&OpenOptions { mode: 0o600, ..OpenOptions::WRITE }).unwrap();
        assert_eq!((stat.permissions, nameless.xattr(ACCESS).unwrap()), (0o600, team(6, 0, 0)));
        his.link_to(&nameless, "named").unwrap();
        assert_eq!(fs.xattr("d/named", ACCESS, Follow::Yes).unwrap(), team(6, 0, 0));
        // Without the list the umask counts again.
        fs.remove_xattr("d", DEFAULT, Follow::Yes).unwrap();
        assert_eq!(his.make("plain", New::File, 0o666).unwrap().1.permissions, 0o600);
        assert!(fs.xattr_names("d/plain", Follow::Yes).unwrap().is_empty());
        assert!(fs.check(false).unwrap().is_clean());
        dolmen_dfs::tree::remove(&fs, "d", &dolmen_dfs::tree::Options::default()).unwrap();
    }
}

#[test]
fn a_directory_is_passed_and_filled_by_whom_its_list_allows_also_if_another_mount_has_set_it() {
    let world = World::new(1);
    let (fs, other) = (mounted(&world, true), mounted(&world, true));
    fs.mkdir("d", 0o700).unwrap();
    let dir = fs.open_dir("d").unwrap();
    dir.make("f", New::File, 0o644).unwrap();
    let (named, member) = (dir.as_user(&caller(7, &[])), dir.as_user(&caller(8, &[50])));
    assert_eq!(named.lookup("f").unwrap_err(), Error::NoPermission);
    other.set_xattr("d", ACCESS, team(7, 7, 0), XattrCond::Any, Follow::Yes).unwrap();
    named.make("g", New::File, 0o644).unwrap();
    assert_eq!(named.names().unwrap().len(), 2);
    assert!(member.lookup("f").is_ok());
    assert_eq!(member.make("h", New::File, 0o644).unwrap_err(), Error::NoPermission);
    other.set_xattr("d", ACCESS, team(7, 5, 0), XattrCond::Any, Follow::Yes).unwrap();
    assert_eq!(named.unlink("g"), Err(Error::NoPermission));
    other.set_xattr("d", DEFAULT, team(7, 5, 0), XattrCond::Any, Follow::Yes).unwrap();
    let (_, made) = dir.as_user(&caller(0, &[])).make("i", New::File, 0o666).unwrap();
    assert_eq!(made.permissions, 0o640);
    // In a mount of its own the same counts at once, and a mount that does not ask for lists goes by modes.
    let alone = mounted(&world, false);
    let mine = alone.open_dir("d").unwrap().as_user(&caller(7, &[]));
    assert!(mine.lookup("f").is_ok());
    alone.set_xattr("d", ACCESS, team(7, 0, 0), XattrCond::Any, Follow::Yes).unwrap();
    assert_eq!(mine.lookup("f").unwrap_err(), Error::NoPermission);
    alone.set_xattr("d", ACCESS, team(7, 4, 1), XattrCond::Any, Follow::Yes).unwrap();
    assert_eq!(mine.lookup("f").unwrap_err(), Error::NoPermission, "the others' right is not his");
    assert!(world.mount().as_user((*caller(7, &[])).clone()).stat("d/f").is_ok());
}

#[test]
fn in_a_shared_mount_a_lookup_asks_once_for_the_rights_to_it_also_if_a_list_has_a_say() {
    let (world, watched) = World::watched();
    let fs = mounted(&world, true);
    fs.mkdir("d", 0o700).unwrap();
    fs.mkdir("d/sub", 0o700).unwrap();
    let named = fs.open_dir("d").unwrap().as_user(&caller(7, &[]));
    let cost_of = |list: &[u8]| {
        fs.set_xattr("d", ACCESS, list, XattrCond::Any, Follow::Yes).unwrap();
        let before = watched.requests();
        named.lookup("sub").unwrap();
        watched.requests() - before
    };
    assert_eq!(cost_of(&team(7, 7, 0)), 2);
    // A long list is asked for by itself.
    let mut long = vec![(OWNER, 7, NOBODY)];
    long.extend((7..107).map(|user| (USER, 7, user)));
    long.extend([(OWNING_GROUP, 0, NOBODY), (MASK, 7, NOBODY), (OTHER, 0, NOBODY)]);
    assert_eq!(cost_of(&list(&long)), 5);
}
