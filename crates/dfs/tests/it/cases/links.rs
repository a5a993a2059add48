//! Hard links: one file with several names.

use super::common::{World, cat, put};
use dolmen_dfs::{Error, Follow, OpenOptions, RenameMode, XattrCond};

#[test]
fn all_names_share_contents_and_attributes() {
    let world = World::new(3);
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    let file = put(&fs, "/f", b"data");
    fs.set_xattr("/f", "user.a", "1", XattrCond::Any, Follow::Yes).unwrap();
    fs.link("/f", &fs, "/d/g").unwrap();
    fs.link("/d/g", &fs, "/h").unwrap();
    fs.chmod("/d/g", 0o600).unwrap();
    fs.set_xattr("/h", "user.b", "2", XattrCond::Create, Follow::Yes).unwrap();
    file.write_at(4, b" more").unwrap();
    let stat = fs.stat("/f").unwrap();
    assert_eq!((stat.links, stat.permissions, stat.size_bytes), (3, 0o600, 9));
    for name in ["/d/g", "/h"] {
        assert_eq!(fs.stat(name).unwrap(), stat);
        assert_eq!(cat(&fs, name), b"data more");
        assert_eq!(fs.xattr_names(name, Follow::Yes).unwrap(), [b"user.a".to_vec(), b"user.b".to_vec()]);
        assert_eq!(fs.xattr(name, "user.a", Follow::Yes).unwrap(), b"1");
    }
    assert_eq!(file.stat().unwrap(), stat);
}

#[test]
fn a_file_goes_with_its_last_name() {
    let world = World::new(2);
    let fs = world.mount();
    let objects = world.object_count();
    put(&fs, "/f", b"data").close().unwrap();
    fs.link("/f", &fs, "/g").unwrap();
    fs.unlink("/f").unwrap();
    assert_eq!((fs.stat("/g").unwrap().links, cat(&fs, "/g")), (1, b"data".to_vec()));
    fs.link("/g", &fs, "/f").unwrap();
    assert_eq!(fs.stat("/g").unwrap().links, 2);
    fs.unlink("/g").unwrap();
    fs.unlink("/f").unwrap();
    assert_eq!(world.object_count(), objects, "data and companion are freed");
}

#[test]
fn what_cannot_be_linked_is_refused() {
    let world = World::new(1);
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    put(&fs, "/f", b"");
    fs.symlink("f", "/l").unwrap();
    assert_eq!(fs.link("/d", &fs, "/e").unwrap_err(), Error::NotPermitted);
    assert_eq!(fs.link("/l", &fs, "/e").unwrap_err(), Error::NotPermitted);
    assert_eq!(fs.link("/f", &fs, "/l").unwrap_err(), Error::Exists);
    assert_eq!(fs.link("/f", &fs, "/f").unwrap_err(), Error::Exists);
    assert_eq!(fs.link("/none", &fs, "/e").unwrap_err(), Error::NotFound);
    assert_eq!(fs.link("/f", &fs, "/none/e").unwrap_err(), Error::NotFound);
    assert_eq!(fs.link("/f", &fs, "/e/").unwrap_err(), Error::NotFound);
}

#[test]
fn renames_keep_links_together() {
    let world = World::new(2);
    let fs = world.mount();
    put(&fs, "/f", b"data");
    put(&fs, "/other", b"gone");
    fs.link("/f", &fs, "/g").unwrap();
    fs.rename("/f", &fs, "/g", RenameMode::Replace).unwrap();
    assert_eq!((fs.stat("/f").unwrap().links, fs.stat("/g").unwrap().links), (2, 2));
    fs.rename("/f", &fs, "/moved", RenameMode::Replace).unwrap();
    assert_eq!(fs.stat("/moved").unwrap().oid, fs.stat("/g").unwrap().oid);
    fs.rename("/other", &fs, "/g", RenameMode::Replace).unwrap();
    assert_eq!((fs.stat("/moved").unwrap().links, cat(&fs, "/moved")), (1, b"data".to_vec()));
    assert_eq!(cat(&fs, "/g"), b"gone");
}

#[test]
fn a_linked_file_that_is_open_outlives_its_names() {
    let world = World::new(1);
    let fs = world.mount();
    let objects = world.object_count();
    let file = put(&fs, "/f", b"data");
    fs.link("/f", &fs, "/g").unwrap();
    let again = fs.open("/g", &OpenOptions::READ).unwrap();
    fs.unlink("/f").unwrap();
    assert_eq!(file.stat().unwrap().links, 1);
    fs.unlink("/g").unwrap();
    assert_eq!(file.stat().unwrap().links, 0);
    drop(file);
    assert_eq!(super::common::read_all(&again), b"data");
    again.close().unwrap();
    assert_eq!(world.object_count(), objects);
}

#[test]
fn ordinary_files_are_untouched_by_the_extension() {
    let world = World::new(1);
    let fs = world.mount();
    put(&fs, "/f", b"data").close().unwrap();
    assert_eq!(world.object_count(), 3, "superblock, root, file");
}

#[test]
fn a_name_that_is_moved_moves_the_change_time_of_all() {
    let world = World::new(2);
    for fs in [world.mount(), world.mount_shared()] {
        put(&fs, "/f", b"stone").close().unwrap();
        fs.link("/f", &fs, "/g").unwrap();
        world.clock.advance(1_000_000_000);
        fs.rename("/f", &fs, "/h", RenameMode::Replace).unwrap();
        for name in ["/g", "/h"] {
            assert_eq!(fs.stat(name).unwrap().ctime, world.now(), "{name}");
        }
        assert!(fs.check(false).unwrap().is_clean());
        ["/g", "/h"].iter().for_each(|name| fs.unlink(name).unwrap());
    }
}
