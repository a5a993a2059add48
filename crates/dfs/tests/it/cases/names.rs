//! Names and paths: making, finding, removing.

use super::common::{World, cat, put};
use dolmen_dfs::{Error, FileKind, OpenOptions, What};

#[test]
fn paths_resolve_through_directories_dots_and_symbolic_links() {
    let world = World::new(2);
    let fs = world.mount();
    fs.mkdir("/a", 0o755).unwrap();
    fs.mkdir("/a/b", 0o755).unwrap();
    put(&fs, "/a/b/f", b"deep");
    fs.symlink("b/f", "/a/near").unwrap();
    fs.symlink("/a/b", "/far").unwrap();
    for path in ["/a/b/f", "a/b/f", "/a/./b/../b//f", "/a/near", "/far/f", "/far/../near", "/../a/b/f"] {
        assert_eq!(cat(&fs, path), b"deep", "{path}");
    }
    assert_eq!(fs.readlink("/a/near").unwrap(), b"b/f");
    assert_eq!(fs.lstat("/far").unwrap().kind, FileKind::Symlink);
    assert_eq!(fs.lstat("/far/").unwrap().kind, FileKind::Directory);
    assert_eq!(fs.stat("/a/b/f/").unwrap_err(), Error::NotDirectory);
    assert_eq!(fs.stat("/a/b/f/x").unwrap_err(), Error::NotDirectory);
    assert_eq!(fs.stat("/a/x/f").unwrap_err(), Error::NotFound);
    assert_eq!(fs.readlink("/a/b").unwrap_err(), Error::Invalid(What::Kind));
}

#[test]
fn symbolic_links_in_a_circle_end_in_an_error() {
    let world = World::new(1);
    let fs = world.mount();
    fs.symlink("two", "/one").unwrap();
    fs.symlink("one", "/two").unwrap();
    assert_eq!(fs.stat("/one").unwrap_err(), Error::SymlinkLoop);
    assert_eq!(fs.stat("/one/x").unwrap_err(), Error::SymlinkLoop);
    assert_eq!(fs.open("/one", &OpenOptions::CREATE).unwrap_err(), Error::SymlinkLoop);
    assert_eq!(fs.lstat("/one").unwrap().size_bytes, 3);
}

#[test]
fn names_have_up_to_255_bytes_of_anything_but_slash_and_zero() {
    let world = World::new(2);
    let fs = world.mount();
    let longest = "n".repeat(255);
    put(&fs, &longest, b"x");
    assert_eq!(cat(&fs, &format!("/{longest}")), b"x");
    assert_eq!(fs.mkdir("n".repeat(256), 0o755).unwrap_err(), Error::NameTooLong);
    assert_eq!(fs.stat("n".repeat(256)).unwrap_err(), Error::NameTooLong);
    assert_eq!(fs.stat(format!("/{}", "a/".repeat(2048))).unwrap_err(), Error::NameTooLong);
    assert_eq!(fs.stat("").unwrap_err(), Error::NotFound);
    assert_eq!(fs.stat("a\0b").unwrap_err(), Error::Invalid(What::Name));
    let odd = [b'/', 0xff, 0x01, b'\n', b'*'];
    fs.mkdir(odd, 0o755).unwrap();
    assert_eq!(fs.stat(odd).unwrap().kind, FileKind::Directory);
}

#[test]
fn creating_knows_exclusive_truncate_and_no_follow() {
    let world = World::new(1);
    let fs = world.mount();
    put(&fs, "/f", b"old");
    assert_eq!(fs.open("/f", &OpenOptions::CREATE_NEW).unwrap_err(), Error::Exists);
    assert_eq!(fs.open("/none", &OpenOptions::WRITE).unwrap_err(), Error::NotFound);
    fs.open("/f", &OpenOptions::CREATE).unwrap();
    assert_eq!(cat(&fs, "/f"), b"old");
    fs.open("/f", &OpenOptions { truncate: true, ..OpenOptions::WRITE }).unwrap();
    assert_eq!(cat(&fs, "/f"), b"");
    fs.symlink("f", "/l").unwrap();
    fs.symlink("made", "/dangling").unwrap();
    assert_eq!(
        fs.open("/l", &OpenOptions { no_follow: true, ..OpenOptions::READ }).unwrap_err(),
        Error::SymlinkLoop
    );
    assert_eq!(fs.open("/dangling", &OpenOptions::CREATE_NEW).unwrap_err(), Error::Exists);
    fs.open("/dangling", &OpenOptions::CREATE).unwrap();
    assert_eq!(fs.lstat("/made").unwrap().kind, FileKind::File);
    fs.mkdir("/d", 0o755).unwrap();
    assert_eq!(fs.open("/d", &OpenOptions::READ).unwrap_err(), Error::IsDirectory);
    assert_eq!(fs.open("/d", &OpenOptions::CREATE).unwrap_err(), Error::IsDirectory);
    assert_eq!(fs.open("/new/", &OpenOptions::CREATE).unwrap_err(), Error::IsDirectory);
    let nothing = OpenOptions { read: false, ..OpenOptions::READ };
    assert_eq!(fs.open("/f", &nothing).unwrap_err(), Error::Invalid(What::Flags));
    let mode = OpenOptions { mode: 0o10_000, ..OpenOptions::CREATE };
    assert_eq!(fs.open("/f", &mode).unwrap_err(), Error::Invalid(What::Mode));
}

#[test]
fn directories_are_made_and_removed_only_when_empty() {
    let world = World::new(2);
    let fs = world.mount();
    fs.mkdir("/d", 0o750).unwrap();
    fs.mkdir("/d/e/", 0o750).unwrap();
    assert_eq!(fs.stat("/d").unwrap().permissions, 0o750);
    assert_eq!(fs.mkdir("/d", 0o755).unwrap_err(), Error::Exists);
    assert_eq!(fs.mkdir("/", 0o755).unwrap_err(), Error::Exists);
    assert_eq!(fs.mkdir("/d/.", 0o755).unwrap_err(), Error::Exists);
    assert_eq!(fs.mkdir("/x/y", 0o755).unwrap_err(), Error::NotFound);
    assert_eq!(fs.rmdir("/d").unwrap_err(), Error::NotEmpty);
    assert_eq!(fs.rmdir("/d/e/..").unwrap_err(), Error::NotEmpty);
    assert_eq!(fs.rmdir("/d/.").unwrap_err(), Error::Invalid(What::Name));
    put(&fs, "/d/f", b"");
    assert_eq!(fs.rmdir("/d/f").unwrap_err(), Error::NotDirectory);
    assert_eq!(fs.unlink("/d/e").unwrap_err(), Error::IsDirectory);
    assert_eq!(fs.unlink("/d/f/").unwrap_err(), Error::NotDirectory);
    fs.unlink("/d/f").unwrap();
    fs.rmdir("/d/e").unwrap();
    fs.rmdir("/d").unwrap();
    assert_eq!(fs.stat("/d").unwrap_err(), Error::NotFound);
    assert_eq!(fs.unlink("/d").unwrap_err(), Error::NotFound);
}

#[test]
fn nothing_is_found_in_or_added_to_a_removed_directory() {
    let world = World::new(1);
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    let dir = fs.open_dir("/d").unwrap();
    fs.rmdir("/d").unwrap();
    assert_eq!(dir.mkdir("x", 0o755).unwrap_err(), Error::NotFound);
    assert_eq!(dir.open("x", &OpenOptions::CREATE).unwrap_err(), Error::NotFound);
    assert_eq!(dir.stat_self().unwrap_err(), Error::NotFound);
    assert_eq!(dir.names().unwrap_err(), Error::NotFound);
    fs.mkdir("/d", 0o755).unwrap();
    assert_eq!(dir.stat("x").unwrap_err(), Error::NotFound);
    assert_eq!(dir.mkdir("x", 0o755).unwrap_err(), Error::NotFound);
}

#[test]
fn paths_are_relative_to_a_directory_handle_also_after_it_moved() {
    let world = World::new(2);
    let fs = world.mount();
    fs.mkdir("/a", 0o755).unwrap();
    fs.mkdir("/b", 0o755).unwrap();
    fs.mkdir("/a/sub", 0o755).unwrap();
    let sub = fs.open_dir("/a/sub").unwrap();
    sub.open("f", &OpenOptions::CREATE).unwrap();
    fs.rename("/a/sub", &fs, "/b/moved", dolmen_dfs::RenameMode::Replace).unwrap();
    assert!(sub.stat("f").is_ok());
    assert!(fs.stat("/b/moved/f").is_ok());
    assert_eq!(sub.stat("..").unwrap().oid, fs.stat("/b").unwrap().oid);
    assert_eq!(fs.stat("/a/sub/f").unwrap_err(), Error::NotFound);
    assert_eq!(sub.stat("/b/moved").unwrap().oid, sub.oid());
}

#[test]
fn cached_paths_follow_renamed_directories_and_links() {
    let world = World::new(1);
    let fs = world.mount();
    for dir in ["/one", "/two"] {
        fs.mkdir(dir, 0o755).unwrap();
        fs.mkdir(format!("{dir}/sub"), 0o755).unwrap();
        put(&fs, &format!("{dir}/sub/f"), dir.as_bytes());
    }
    fs.symlink("/one", "/cur").unwrap();
    assert_eq!(cat(&fs, "/cur/sub/f"), b"/one");
    assert_eq!(cat(&fs, "/one/sub/f"), b"/one");
    fs.symlink("/two", "/next").unwrap();
    fs.rename("/next", &fs, "/cur", dolmen_dfs::RenameMode::Replace).unwrap();
    assert_eq!(cat(&fs, "/cur/sub/f"), b"/two");
    fs.rename("/one", &fs, "/two", dolmen_dfs::RenameMode::Exchange).unwrap();
    assert_eq!(cat(&fs, "/cur/sub/f"), b"/one");
    assert_eq!(cat(&fs, "/one/sub/f"), b"/two");
    fs.unlink("/cur").unwrap();
    assert_eq!(fs.stat("/cur/sub/f").unwrap_err(), Error::NotFound);
}

#[test]
fn changes_are_refused_on_a_read_only_mount() {
    let world = World::new(1);
    put(&world.mount(), "/f", b"x").close().unwrap();
    let options = dolmen_dfs::MountOptions { read_only: true, ..world.options() };
    let fs = dolmen_dfs::Dfs::mount(&world.container, &options).unwrap();
    assert_eq!(cat(&fs, "/f"), b"x");
    let refused = [
        fs.mkdir("/d", 0o755).unwrap_err(),
        fs.unlink("/f").unwrap_err(),
        fs.rmdir("/f").unwrap_err(),
        fs.symlink("a", "/l").unwrap_err(),
        fs.link("/f", &fs, "/g").unwrap_err(),
        fs.rename("/f", &fs, "/g", dolmen_dfs::RenameMode::Replace).unwrap_err(),
        fs.chmod("/f", 0o600).unwrap_err(),
        fs.open("/f", &OpenOptions::WRITE).unwrap_err(),
        fs.remove_xattr("/f", "a", dolmen_dfs::Follow::Yes).unwrap_err(),
    ];
    assert!(refused.iter().all(|error| *error == Error::ReadOnly), "{refused:?}");
}

#[test]
fn a_container_without_a_file_system_is_told_apart() {
    let world = World::bare(1);
    assert_eq!(dolmen_dfs::Dfs::mount(&world.container, &world.options()).unwrap_err(), Error::NotFormatted);
    let format = dolmen_dfs::FormatOptions::default();
    dolmen_dfs::Dfs::format(&world.container, &format).unwrap();
    assert_eq!(dolmen_dfs::Dfs::format(&world.container, &format).unwrap_err(), Error::Exists);
    let tiny = dolmen_dfs::FormatOptions { chunk_bytes: 1, ..format };
    assert_eq!(
        dolmen_dfs::Dfs::format(&world.container, &tiny).unwrap_err(),
        Error::Invalid(What::Placement)
    );
}
