//! Names of files, directories, links and special files in a mount.

use super::{Mounted, shell};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};

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
    let own = format!("/proc/self/fd/{}", unnamed.as_raw_fd());
    linkat(CWD, own.as_str(), CWD, mounted.path("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
    drop(unnamed);
    let named = fs::metadata(mounted.path("named")).unwrap();
    assert_eq!((named.nlink(), named.len()), (1, 5));
    assert_eq!(fs::read(mounted.path("named")).unwrap(), b"stone");
    drop(open(mounted.path(""), flags, Mode::from_raw_mode(0o600)).unwrap());
    mounted.finish();
}

#[test]
fn a_file_that_is_replaced_while_it_is_open_works_on() {
    let Some(mounted) = Mounted::served("replaced", &[]) else { return };
    let (old, new) = (mounted.path("old"), mounted.path("new"));
    fs::write(&old, b"old stone").unwrap();
    fs::write(&new, b"new stone").unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(&old).unwrap();
    fs::rename(&new, &old).unwrap();
    assert_eq!(fs::read(&old).unwrap(), b"new stone");
    file.write_all_at(b"OLD", 0).unwrap();
    let mut read = [0; 9];
    file.read_exact_at(&mut read, 0).unwrap();
    assert_eq!((&read, file.metadata().unwrap().nlink()), (b"OLD stone", 0));
    drop(file);
    mounted.finish();
}

#[test]
fn of_what_is_known_and_not_open_no_more_than_attributes_are_left_without_a_name() {
    let Some(mounted) = Mounted::served("known", &[]) else { return };
    fs::write(mounted.path("f"), b"stone").unwrap();
    // A descriptor by which nothing is open.
    let known = fs::OpenOptions::new().read(true).custom_flags(0o10_000_000).open(mounted.path("f")).unwrap();
    let number = known.metadata().unwrap().ino();
    fs::remove_file(mounted.path("f")).unwrap();
    let left = known.metadata().unwrap();
    assert_eq!((left.ino(), left.nlink()), (number, 0));
    let by_number = format!("/proc/self/fd/{}", known.as_raw_fd());
    assert!(matches!(fs::File::open(by_number).unwrap_err().kind(), ErrorKind::StaleNetworkFileHandle));
    drop(known);
    mounted.finish();
}

#[test]
fn sockets_are_bound_and_devices_have_their_numbers() {
    let Some(mounted) = Mounted::served("sockets", &[]) else { return };
    // A name that is short enough for an address.
    let dir = fs::File::open(mounted.path("")).unwrap();
    let address = format!("/proc/self/fd/{}/s", dir.as_raw_fd());
    let listener = UnixListener::bind(&address).unwrap();
    assert!(fs::symlink_metadata(mounted.path("s")).unwrap().file_type().is_socket());
    let mut caller = UnixStream::connect(&address).unwrap();
    let (mut called, _) = listener.accept().unwrap();
    fs::remove_file(mounted.path("s")).unwrap();
    caller.write_all(b"stone").unwrap();
    drop(caller);
    let mut said = String::new();
    called.read_to_string(&mut said).unwrap();
    assert_eq!(said, "stone");
    assert_eq!(UnixStream::connect(&address).unwrap_err().kind(), ErrorKind::NotFound);
    drop((called, listener, dir));
    // A pipe is open where nobody tells the mount.
    let said = shell(
        &mounted,
        "mkfifo p; exec 3<>p; rm p; echo stone >&3; read line <&3; stat -L -c %h /dev/fd/3; echo $line",
    );
    assert_eq!(said, "0\nstone\n");
    if rustix::process::geteuid().is_root() {
        shell(&mounted, "mknod zero c 1 5; mknod disk b 7 300");
        for (name, is_char, major, minor) in [("zero", true, 1, 5), ("disk", false, 7, 300)] {
            let found = fs::symlink_metadata(mounted.path(name)).unwrap();
            assert_eq!(found.file_type().is_char_device(), is_char, "{name}");
            let number = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
            assert_eq!(number, (major, minor), "{name}");
        }
        let error = fs::File::open(mounted.path("zero")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "devices mean nothing in a mount");
    }
    mounted.finish();
}
