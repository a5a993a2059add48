//! Rename: atomic, replacing, exchanging, never a directory below itself.

use super::common::{World, cat, put};
use crate::watched::Watched;
use dolmen_codec::Ask;
use dolmen_codec::pool::PoolVerb;
use dolmen_dfs::{Dfs, Error, Follow, OpenOptions, RenameMode, What, XattrCond};
use std::sync::Arc;

const REPLACE: RenameMode = RenameMode::Replace;

#[test]
fn rename_moves_everything_that_belongs_to_the_entry() {
    let world = World::new(3);
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    put(&fs, "/f", b"data");
    fs.chmod("/f", 0o640).unwrap();
    fs.set_xattr("/f", "user.k", "v", XattrCond::Any, Follow::Yes).unwrap();
    fs.symlink("d/g", "/l").unwrap();
    let before = fs.stat("/f").unwrap();
    fs.rename("/f", &fs, "/d/g", REPLACE).unwrap();
    fs.rename("/l", &fs, "/d/m", REPLACE).unwrap();
    let after = fs.stat("/d/g").unwrap();
    assert_eq!((after.oid, after.permissions, after.mtime), (before.oid, 0o640, before.mtime));
    assert_eq!(cat(&fs, "/d/g"), b"data");
    assert_eq!(fs.xattr("/d/g", "user.k", Follow::Yes).unwrap(), b"v");
    assert_eq!(fs.readlink("/d/m").unwrap(), b"d/g");
    assert_eq!(fs.stat("/f").unwrap_err(), Error::NotFound);
    fs.rename("/d/g", &fs, "/d/g", REPLACE).unwrap();
    assert_eq!(fs.rename("/none", &fs, "/x", REPLACE).unwrap_err(), Error::NotFound);
    assert_eq!(fs.rename("/d/g", &fs, "/none/x", REPLACE).unwrap_err(), Error::NotFound);
}

#[test]
fn rename_replaces_files_by_files_and_empty_directories_by_directories() {
    let world = World::new(2);
    let fs = world.mount();
    put(&fs, "/f", b"new");
    put(&fs, "/g", b"old").set_attrs(&dolmen_dfs::SetAttrs::KEEP).unwrap();
    fs.set_xattr("/g", "user.old", "v", XattrCond::Any, Follow::Yes).unwrap();
    for dir in ["/d", "/full", "/empty"] {
        fs.mkdir(dir, 0o755).unwrap();
    }
    put(&fs, "/full/x", b"");
    let objects = world.object_count();
    fs.rename("/f", &fs, "/g", REPLACE).unwrap();
    assert_eq!(cat(&fs, "/g"), b"new");
    assert_eq!(fs.xattr_names("/g", Follow::Yes).unwrap(), Vec::<Vec<u8>>::new());
    assert_eq!(world.object_count(), objects - 1, "the replaced file is freed");
    assert_eq!(fs.rename("/g", &fs, "/d", REPLACE).unwrap_err(), Error::IsDirectory);
    assert_eq!(fs.rename("/d", &fs, "/g", REPLACE).unwrap_err(), Error::NotDirectory);
    assert_eq!(fs.rename("/d", &fs, "/full", REPLACE).unwrap_err(), Error::NotEmpty);
    let handle = fs.open_dir("/empty").unwrap();
    fs.rename("/full", &fs, "/empty", REPLACE).unwrap();
    assert!(fs.stat("/empty/x").is_ok());
    assert_eq!(handle.open("y", &OpenOptions::CREATE).unwrap_err(), Error::NotFound);
    assert_eq!(fs.rename("/g/", &fs, "/h", REPLACE).unwrap_err(), Error::NotDirectory);
    assert_eq!(fs.rename("/g", &fs, "/h/", REPLACE).unwrap_err(), Error::NotDirectory);
    fs.rename("/d/", &fs, "/h/", REPLACE).unwrap();
    assert!(fs.stat("/h").is_ok());
}

#[test]
fn rename_without_replacing_refuses_an_existing_name() {
    let world = World::new(1);
    let fs = world.mount();
    put(&fs, "/f", b"f");
    put(&fs, "/g", b"g");
    assert_eq!(fs.rename("/f", &fs, "/g", RenameMode::NoReplace).unwrap_err(), Error::Exists);
    fs.rename("/f", &fs, "/h", RenameMode::NoReplace).unwrap();
    assert_eq!((cat(&fs, "/g"), cat(&fs, "/h")), (b"g".to_vec(), b"f".to_vec()));
}

#[test]
fn exchange_swaps_two_entries_of_any_kind() {
    let world = World::new(2);
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    put(&fs, "/d/inner", b"i");
    put(&fs, "/f", b"f");
    let open = fs.open("/f", &OpenOptions::WRITE).unwrap();
    fs.rename("/f", &fs, "/d", RenameMode::Exchange).unwrap();
    assert_eq!((cat(&fs, "/d"), cat(&fs, "/f/inner")), (b"f".to_vec(), b"i".to_vec()));
    assert_eq!(open.stat().unwrap().oid, fs.stat("/d").unwrap().oid);
    assert_eq!(fs.rename("/f", &fs, "/none", RenameMode::Exchange).unwrap_err(), Error::NotFound);
    let cycle = fs.rename("/f", &fs, "/f/inner", RenameMode::Exchange);
    assert_eq!(cycle.unwrap_err(), Error::Invalid(What::Cycle));
    let cycle = fs.rename("/f/inner", &fs, "/f", RenameMode::Exchange);
    assert_eq!(cycle.unwrap_err(), Error::Invalid(What::Cycle));
}

#[test]
fn a_directory_cannot_be_moved_below_itself() {
    let world = World::new(2);
    let fs = world.mount();
    for dir in ["/a", "/a/b", "/a/b/c"] {
        fs.mkdir(dir, 0o755).unwrap();
    }
    let cycle = Error::Invalid(What::Cycle);
    assert_eq!(fs.rename("/a", &fs, "/a/x", REPLACE).unwrap_err(), cycle);
    assert_eq!(fs.rename("/a", &fs, "/a/b/c/x", REPLACE).unwrap_err(), cycle);
    fs.symlink("/a/b/c", "/l").unwrap();
    assert_eq!(fs.rename("/a", &fs, "/l/x", REPLACE).unwrap_err(), cycle);
    assert_eq!(fs.rename("/a/b/c", &fs, "/a", REPLACE).unwrap_err(), Error::NotEmpty);
    assert_eq!(fs.rename("/", &fs, "/a/x", REPLACE).unwrap_err(), Error::Invalid(What::Name));
    fs.rename("/a/b/c", &fs, "/c", REPLACE).unwrap();
    fs.rename("/a", &fs, "/c/a", REPLACE).unwrap();
    assert!(fs.stat("/c/a/b").is_ok());
}

#[test]
fn open_files_follow_their_entry_through_a_rename() {
    let world = World::new(1);
    let fs = world.mount();
    let file = put(&fs, "/f", b"f");
    fs.mkdir("/d", 0o755).unwrap();
    fs.rename("/f", &fs, "/d/g", REPLACE).unwrap();
    file.set_attrs(&dolmen_dfs::SetAttrs { mode: Some(0o600), ..dolmen_dfs::SetAttrs::KEEP }).unwrap();
    assert_eq!(fs.stat("/d/g").unwrap().permissions, 0o600);
    assert_eq!(file.stat().unwrap(), fs.stat("/d/g").unwrap());
}

/// Changes the entry `/f` before each of the next commits.
fn spoil(watched: &Arc<Watched>, other: Dfs, times: u32) {
    let again = Arc::clone(watched);
    let is_commit = |ask: &Ask<'_>| matches!(ask, Ask::Pool(PoolVerb::TxCommit(_)));
    watched.before(is_commit, move || {
        other.chmod("/f", 0o600 + times % 2).expect("a change without a transaction");
        if times > 1 {
            spoil(&again, other, times - 1);
        }
        Ok(())
    });
}

#[test]
fn a_rename_goes_on_where_others_spoil_its_transaction_again_and_again() {
    let (world, watched) = World::watched();
    let (fs, other) = (world.mount_shared(), world.mount());
    put(&fs, "/f", b"data").close().unwrap();
    // One transaction gives up after 64 attempts.
    spoil(&watched, other, 300);
    fs.rename("/f", &fs, "/g", REPLACE).unwrap();
    assert!(watched.is_done());
    assert_eq!(cat(&fs, "/g"), b"data");
    assert_eq!(fs.stat("/f").unwrap_err(), Error::NotFound);
}
