//! Names of files, directories, links and special files in a mount.

use super::{Mounted, shell};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

#[test]
fn what_is_made_in_a_mount_is_in_the_container_and_the_reverse() {
    let Some(mut mounted) = Mounted::served("names", &[]) else { return };
    fs::write(mounted.place.path("menhir"), b"stone").unwrap();
    mounted.place.ok(&["fs", "put", "sys/p", "c", "menhir", "/menhir"]);
    assert_eq!(fs::read(mounted.path("menhir")).unwrap(), b"stone");
    fs::create_dir_all(mounted.path("a/b/c")).unwrap();
    fs::write(mounted.path("a/b/c/f"), b"field").unwrap();
    fs::rename(mounted.path("a/b"), mounted.path("moved")).unwrap();
    assert_eq!(fs::read(mounted.path("moved/c/f")).unwrap(), b"field");
    assert_eq!(fs::metadata(mounted.path("a/b")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::remove_dir(mounted.path("moved")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    fs::remove_dir(mounted.path("a")).unwrap();
    mounted.unmount();
    assert_eq!(fs::read_dir(mounted.path("")).unwrap().count(), 0, "the directory itself is empty again");
    assert_eq!(mounted.place.ok(&["fs", "cat", "sys/p", "c", "/moved/c/f"]), "field");
    mounted.finish();
}

#[test]
fn links_pipes_times_and_modes_are_there_after_the_next_mount() {
    let Some(mut mounted) = Mounted::alone("kinds", &[]) else { return };
    fs::write(mounted.path("f"), b"field").unwrap();
    fs::hard_link(mounted.path("f"), mounted.path("g")).unwrap();
    symlink("g", mounted.path("link")).unwrap();
    shell(
        &mounted,
        "mkfifo pipe; chmod 4750 f; touch -h -d @981173106.123456789 link; touch -d @1.5 f; mkdir -m 1777 d",
    );
    let seen = |mounted: &Mounted| {
        let f = fs::metadata(mounted.path("g")).unwrap();
        assert_eq!((f.nlink(), f.len(), f.permissions().mode() & 0o7777), (2, 5, 0o4750));
        assert_eq!((f.mtime(), f.mtime_nsec()), (1, 500_000_000));
        assert_eq!(fs::read_link(mounted.path("link")).unwrap().to_str(), Some("g"));
        let link = fs::symlink_metadata(mounted.path("link")).unwrap();
        assert_eq!((link.mtime(), link.mtime_nsec(), link.len()), (981_173_106, 123_456_789, 1));
        assert!(fs::symlink_metadata(mounted.path("pipe")).unwrap().file_type().is_fifo());
        assert_eq!(fs::metadata(mounted.path("d")).unwrap().permissions().mode() & 0o7777, 0o1777);
        [f.ino(), fs::metadata(mounted.path("f")).unwrap().ino()]
    };
    let [f, g] = seen(&mounted);
    assert_eq!(f, g, "two names of one file");
    mounted.unmount();
    mounted.mount("mnt", &["--read-only"]);
    assert_eq!(seen(&mounted), [f, g], "numbers stay");
    for (what, error) in [
        ("write", fs::write(mounted.path("f"), b"x").unwrap_err()),
        ("mkdir", fs::create_dir(mounted.path("e")).unwrap_err()),
        ("remove", fs::remove_file(mounted.path("f")).unwrap_err()),
    ] {
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{what}");
    }
    mounted.finish();
}

#[test]
fn a_rename_refuses_to_replace_exchanges_and_replaces() {
    let Some(mounted) = Mounted::served("renames", &[]) else { return };
    let (a, b) = (mounted.path("a"), mounted.path("b"));
    fs::write(&a, b"first").unwrap();
    fs::write(&b, b"second").unwrap();
    let rename = |flags| renameat_with(CWD, &a, CWD, &b, flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!((fs::read(&a).unwrap(), fs::read(&b).unwrap()), (b"second".to_vec(), b"first".to_vec()));
    assert_eq!(rename(RenameFlags::WHITEOUT), Err(rustix::io::Errno::INVAL));
    fs::rename(&a, &b).unwrap();
    assert_eq!(fs::read(&b).unwrap(), b"second");
    assert!(!a.exists());
    mounted.finish();
}

#[test]
fn a_file_without_a_name_works_until_it_is_closed() {
    let Some(mounted) = Mounted::served("unnamed", &[]) else { return };
    let options = fs::OpenOptions::new().read(true).write(true).create_new(true).clone();
    let mut kept = options.open(mounted.path("f")).unwrap();
    fs::remove_file(mounted.path("f")).unwrap();
    kept.write_all(b"still here").unwrap();
    kept.rewind().unwrap();
    let mut text = String::new();
    kept.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), kept.metadata().unwrap().nlink()), ("still here", 0));
    drop(kept);
    mounted.finish();
}

#[test]
fn a_name_of_255_bytes_is_kept_and_a_longer_one_is_refused() {
    let Some(mounted) = Mounted::alone("long-names", &[]) else { return };
    let name = "n".repeat(255);
    fs::write(mounted.path(&name), b"x").unwrap();
    assert_eq!(fs::read(mounted.path(&name)).unwrap(), b"x");
    let error = fs::write(mounted.path(&"n".repeat(256)), b"x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(36), "ENAMETOOLONG");
    mounted.finish();
}

#[test]
fn a_file_made_without_a_name_gets_one_or_is_gone() {
    use rustix::fs::{AtFlags, Mode, OFlags, linkat, open};
    let Some(mounted) = Mounted::served("tmpfile", &[]) else { return };
    let flags = OFlags::RDWR | OFlags::TMPFILE;
    let unnamed = open(mounted.path(""), flags, Mode::from_raw_mode(0o640)).unwrap();
    rustix::io::write(&unnamed, b"stone").unwrap();
    assert_eq!(fs::read_dir(mounted.path("")).unwrap().count(), 0);
    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&unnamed));
    linkat(CWD, own.as_str(), CWD, mounted.path("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
    drop(unnamed);
    let named = fs::metadata(mounted.path("named")).unwrap();
    assert_eq!((named.nlink(), named.len()), (1, 5));
    assert_eq!(fs::read(mounted.path("named")).unwrap(), b"stone");
    drop(open(mounted.path(""), flags, Mode::from_raw_mode(0o600)).unwrap());
    mounted.finish();
}
