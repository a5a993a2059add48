//! Names that another mount replaces while this one is on its way from the entry to what it leads to.

use super::common::{World, cat, put, read_all};
use crate::watched::{IsIt, Watched};
use dolmen_codec::Ask;
use dolmen_codec::verb::Verb;
use dolmen_dfs::{
    Cookie, Cred, DeviceNo, Dfs, Error, FileKind, Follow, New, OpenOptions, Opened, RenameMode, Result,
    Rights, XattrCond, layout,
};
use dolmen_types::Cond;

fn asks_for(ask: &Ask<'_>, akey: &[u8]) -> bool {
    matches!(ask, Ask::Target(_, _, Verb::Fetch(fetch)) if fetch.iods.iter().any(|iod| iod.akey[..] == *akey))
}

fn is_of_a_companion(ask: &Ask<'_>) -> bool {
    matches!(ask, Ask::Target(_, _, Verb::Fetch(fetch)) if layout::is_companion(fetch.oid))
}

fn is_of_an_inode(ask: &Ask<'_>) -> bool {
    asks_for(ask, layout::AKEY_INODE)
}

fn is_of_links(ask: &Ask<'_>) -> bool {
    asks_for(ask, layout::AKEY_LINKS)
}

fn is_of_a_target(ask: &Ask<'_>) -> bool {
    asks_for(ask, layout::AKEY_SLINK)
}

fn is_of_a_device(ask: &Ask<'_>) -> bool {
    asks_for(ask, layout::AKEY_RDEV)
}

/// Has the other mount give the name `/f` to what it has made as `/new` before the next such request.
fn replace_before(watched: &Watched, is_it: IsIt, other: &Dfs) {
    let other = other.clone();
    watched.before(is_it, move || {
        other.rename("/new", &other, "/f", RenameMode::Replace).unwrap();
        Ok(())
    });
}

fn remove_if_there(fs: &Dfs, path: &str) {
    match fs.unlink(path) {
        Ok(()) | Err(Error::NotFound) => {}
        Err(other) => panic!("{path}: {other}"),
    }
}

/// What is done with a file by its name `/f`.
type Operation = fn(&Dfs) -> Result<()>;

const OPERATIONS: [(&str, Operation); 14] = [
    ("open", |fs| fs.open("/f", &OpenOptions::READ).map(|file| assert_eq!(read_all(&file), b"new"))),
    ("create", |fs| fs.open("/f", &OpenOptions::CREATE).map(|file| assert_eq!(read_all(&file), b"new"))),
    ("stat", |fs| fs.stat("/f").map(|stat| assert_eq!((stat.size_bytes, stat.links), (3, 1)))),
    ("lookup", |fs| fs.lookup("f").map(|(_, stat)| assert_eq!(stat.size_bytes, 3))),
    ("lookup of many", |fs| {
        let (found, _) = fs.lookup_all(&[b"f"], false).pop().unwrap();
        found.map(|(_, stat)| assert_eq!(stat.size_bytes, 3))
    }),
    ("locate", |fs| {
        let located = fs.locate("/f", &OpenOptions::READ, Follow::No)?;
        assert_eq!(located.stat()?.size_bytes, 3);
        Ok(())
    }),
    ("list", |fs| {
        let entries = fs.list_plus(&mut Cookie::default(), 100)?;
        let entry = entries.into_iter().find(|entry| &*entry.name == b"f").unwrap();
        entry.stat.map(|stat| assert_eq!(stat.size_bytes, 3))
    }),
    ("access", |fs| {
        fs.check_access("/f", &Cred { uid: 0, gid: 0, groups: Vec::new(), umask: 0 }, Rights::READ)
    }),
    ("names of attributes", |fs| fs.xattr_names("/f", Follow::Yes).map(|names| assert!(names.is_empty()))),
    ("chmod", |fs| {
        fs.chmod("/f", 0o640)?;
        assert_eq!(fs.stat("/f")?.permissions, 0o640);
        Ok(())
    }),
    ("link", |fs| fs.link("/f", fs, "/moved")),
    ("rename", |fs| {
        fs.rename("/f", fs, "/moved", RenameMode::Replace)?;
        assert_eq!(cat(fs, "/moved"), b"new");
        Ok(())
    }),
    ("rename over it", |fs| {
        put(fs, "/other", b"other");
        fs.rename("/other", fs, "/f", RenameMode::Replace)?;
        assert_eq!(cat(fs, "/f"), b"other");
        Ok(())
    }),
    ("unlink", |fs| {
        fs.unlink("/f")?;
        assert_eq!(fs.stat("/f").unwrap_err(), Error::NotFound);
        Ok(())
    }),
];

#[test]
fn a_file_whose_record_is_beside_its_name_is_always_there_while_another_mount_replaces_it() {
    let (world, watched) = World::watched();
    let (one, two) = (world.mount_shared(), world.mount_shared());
    for (what, operation) in OPERATIONS {
        // Before anything is read of the old file's companion, and after its record.
        for is_it in [is_of_a_companion as IsIt, is_of_links] {
            ["/f", "/moved"].iter().for_each(|path| remove_if_there(&two, path));
            put(&two, "/f", b"former").close().unwrap();
            two.link("/f", &two, "/g").unwrap();
            two.unlink("/g").unwrap();
            put(&two, "/new", b"new").close().unwrap();
            replace_before(&watched, is_it, &two);
            operation(&one).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(watched.is_done(), "{what}");
        }
    }
    ["/f", "/moved"].iter().for_each(|path| remove_if_there(&two, path));
    assert!(one.check(false).unwrap().is_clean());
}

fn is_of_the_attribute(ask: &Ask<'_>) -> bool {
    asks_for(ask, &layout::xattr_akey(b"user.age"))
}

fn is_of_names_beside(ask: &Ask<'_>) -> bool {
    matches!(ask, Ask::Target(_, _, Verb::List(_)))
}

/// A file with an attribute that says the same as its contents; with a companion, or without.
fn put_aged(fs: &Dfs, path: &str, age: &[u8], has_companion: bool) {
    put(fs, path, age).close().unwrap();
    fs.set_xattr(path, "user.age", age, XattrCond::Any, Follow::Yes).unwrap();
    if has_companion {
        fs.link(path, fs, "/g").unwrap();
        fs.unlink("/g").unwrap();
    }
}

#[test]
fn an_attribute_is_that_of_the_file_that_has_it_while_another_mount_replaces_that() {
    let (world, watched) = World::watched();
    let (one, two) = (world.mount_shared(), world.mount_shared());
    let found_before = |is_it, has_companion| {
        remove_if_there(&two, "/f");
        put_aged(&two, "/f", b"former", has_companion);
        put_aged(&two, "/new", b"new", has_companion);
        let (obj, _) = one.lookup("f").unwrap();
        replace_before(&watched, is_it, &two);
        obj
    };
    for has_companion in [false, true] {
        for is_it in [is_of_the_attribute as IsIt, is_of_an_inode] {
            let obj = found_before(is_it, has_companion);
            assert_eq!(one.xattr("/f", "user.age", Follow::Yes).unwrap(), b"new");
            assert!(watched.is_done());
            assert_eq!(obj.xattr("user.age").unwrap_err(), Error::Stale);
        }
        for of_an_object in [is_of_the_attribute as IsIt, is_of_names_beside] {
            let obj = found_before(of_an_object, has_companion);
            let (value, names) = (obj.xattr("user.age"), obj.xattr_names());
            assert!(watched.is_done());
            // The first of the two came before, if it is the other that is watched for.
            assert!(matches!(value.as_deref(), Ok(b"former") | Err(Error::Stale)), "{value:?}");
            assert_eq!(names.unwrap_err(), Error::Stale);
        }
    }
    // What another mount has linked since it was found has its attributes elsewhere.
    remove_if_there(&two, "/f");
    put_aged(&two, "/f", b"former", false);
    let (obj, _) = one.lookup("f").unwrap();
    two.link("/f", &two, "/second").unwrap();
    assert_eq!(obj.xattr("user.age").unwrap(), b"former");
    assert_eq!(obj.xattr_names().unwrap(), [b"user.age"]);
    assert!(one.check(false).unwrap().is_clean());
}

#[test]
fn a_file_that_is_gone_is_missing_and_not_damaged() {
    let (world, watched) = World::watched();
    let (one, two) = (world.mount_shared(), world.mount_shared());
    for is_it in [is_of_a_companion as IsIt, is_of_links] {
        put(&two, "/f", b"former").close().unwrap();
        two.link("/f", &two, "/g").unwrap();
        let other = two.clone();
        watched.before(is_it, move || {
            ["/f", "/g"].iter().for_each(|path| other.unlink(path).unwrap());
            Ok(())
        });
        assert_eq!(one.stat("/f").unwrap_err(), Error::NotFound);
        assert!(watched.is_done());
    }
    // Where the entry is as it was, it is damaged.
    put(&two, "/f", b"data").close().unwrap();
    two.link("/f", &two, "/g").unwrap();
    let companion = layout::companion_oid(one.stat("/f").unwrap().oid);
    world.container.object(companion).unwrap().punch(dolmen_client::At::Latest, Cond::NONE).unwrap();
    assert!(one.stat("/f").unwrap_err().is_damage());
    assert!(one.open("/f", &OpenOptions::READ).unwrap_err().is_damage());
}

#[test]
fn a_symbolic_link_or_a_device_is_always_there_while_another_mount_replaces_it() {
    let (world, watched) = World::watched();
    let (one, two) = (world.mount_shared(), world.mount_shared());
    put(&two, "/first", b"former").close().unwrap();
    put(&two, "/the-second", b"new").close().unwrap();
    let of_links: [(&str, Operation); 4] = [
        ("readlink", |fs| fs.readlink("/f").map(|target| assert_eq!(target, b"the-second"))),
        ("open", |fs| fs.open("/f", &OpenOptions::READ).map(|file| assert_eq!(read_all(&file), b"new"))),
        ("stat", |fs| fs.stat("/f").map(|stat| assert_eq!(stat.size_bytes, 3))),
        ("locate", |fs| {
            let located = fs.locate("/f", &OpenOptions::READ, Follow::No)?;
            assert!(matches!(located.opened, Opened::Symlink(target) if target == b"the-second"));
            Ok(())
        }),
    ];
    for (what, operation) in of_links {
        remove_if_there(&two, "/f");
        two.symlink("first", "/f").unwrap();
        two.symlink("the-second", "/new").unwrap();
        replace_before(&watched, is_of_a_target, &two);
        operation(&one).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(watched.is_done(), "{what}");
    }
    let of_devices: [(&str, Operation); 3] = [
        ("stat", |fs| fs.stat("/f").map(|stat| assert_eq!(stat.kind, FileKind::File))),
        ("lookup", |fs| fs.lookup("f").map(|(_, stat)| assert_eq!(stat.kind, FileKind::File))),
        ("list", |fs| {
            let entries = fs.list_plus(&mut Cookie::default(), 100)?;
            let entry = entries.into_iter().find(|entry| &*entry.name == b"f").unwrap();
            entry.stat.map(|stat| assert_eq!(stat.kind, FileKind::File))
        }),
    ];
    for (what, operation) in of_devices {
        for has_two_names in [false, true] {
            remove_if_there(&two, "/f");
            let number = DeviceNo { major: 7, minor: 1 };
            two.make("f", New::BlockDevice(number), 0o600).unwrap();
            if has_two_names {
                two.link("/f", &two, "/g").unwrap();
                two.unlink("/g").unwrap();
            }
            put(&two, "/new", b"new").close().unwrap();
            replace_before(&watched, is_of_a_device, &two);
            operation(&one).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(watched.is_done(), "{what}");
        }
    }
    assert!(one.check(false).unwrap().is_clean());
}
