//! Snapshots of a mounted container.

use super::{Mounted, shell, wait_until};
use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

#[test]
fn a_snapshot_is_found_by_its_name_and_never_changes() {
    let Some(mut mounted) = Mounted::served("snapshots", &[]) else { return };
    fs::create_dir(mounted.path("d")).unwrap();
    fs::write(mounted.path("d/f"), b"before").unwrap();
    mounted.place.ok(&["cont", "snapshot", "create", "sys/p", "c", "monday"]);
    fs::write(mounted.path("d/f"), b"afterwards").unwrap();
    fs::write(mounted.path("g"), b"new").unwrap();
    let monday = mounted.path(".snapshots/monday");
    assert_eq!(fs::read(monday.join("d/f")).unwrap(), b"before");
    assert_eq!(fs::read(mounted.path("d/f")).unwrap(), b"afterwards");
    assert_eq!(shell(&mounted, "ls -A; ls .snapshots/monday; ls -A .snapshots"), "d\ng\nd\nmonday\n");
    for error in [
        fs::write(monday.join("d/f"), b"x"),
        fs::create_dir(monday.join("e")),
        fs::remove_file(monday.join("d/f")),
    ] {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    }
    assert_eq!(fs::metadata(mounted.path(".snapshots/tuesday")).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(fs::create_dir(mounted.path(".snapshots/tuesday")).is_err());
    // Who opens it anew sees those that there are then; one without a name is not shown.
    mounted.place.ok(&["cont", "snapshot", "create", "sys/p", "c"]);
    mounted.place.ok(&["cont", "snapshot", "create", "sys/p", "c", "friday"]);
    assert_eq!(shell(&mounted, "ls -a .snapshots"), ".\n..\nfriday\nmonday\n");
    assert_eq!(shell(&mounted, "find .snapshots/friday -name g"), ".snapshots/friday/g\n");
    mounted.place.ok(&["cont", "snapshot", "destroy", "sys/p", "c", "friday"]);
    assert_eq!(shell(&mounted, "ls .snapshots"), "monday\n");
    mounted.unmount();
    mounted.mount("mnt", &["--snapshot", "monday"]);
    assert_eq!(fs::read(mounted.path("d/f")).unwrap(), b"before");
    assert_eq!(fs::write(mounted.path("d/f"), b"x").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    mounted.finish();
}

#[test]
fn a_snapshot_that_is_mounted_is_destroyed_by_force_alone_and_stale_then() {
    const ESTALE: i32 = 116;
    let Some(mut mounted) = Mounted::served("snapshot-gone", &[]) else { return };
    fs::write(mounted.path("f"), b"before").unwrap();
    for name in ["monday", "tuesday"] {
        mounted.place.ok(&["cont", "snapshot", "create", "sys/p", "c", name]);
    }
    mounted.unmount();
    mounted.mount("now", &[]);
    mounted.mount("monday", &["--snapshot", "monday", "--cache", "off"]);
    let pid = mounted.mounts[1].child.id();
    let destroy = ["cont", "snapshot", "destroy", "sys/p", "c"];
    let line = mounted.place.fails(5, &[&destroy[..], &["monday"]].concat());
    let dir = mounted.place.path("monday").canonicalize().unwrap();
    let why = format!("cannot destroy snapshot monday: process {pid} shows its files in {}", dir.display());
    assert!(line.contains(&why) && line.contains("first, or add --force"), "{line}");
    let tuesday = fs::File::open(mounted.place.path("now/.snapshots/tuesday")).unwrap();
    let past = PathBuf::from(format!("/proc/self/fd/{}/f", tuesday.as_raw_fd()));
    let shown = mounted.place.path("monday/f");
    assert_eq!([&past, &shown].map(|path| fs::read(path).unwrap()), [b"before"; 2]);
    // What is read in .snapshots nobody knows who is not of that mount.
    mounted.place.ok(&[&destroy[..], &["tuesday"]].concat());
    mounted.place.ok(&[&destroy[..], &["monday", "--force"]].concat());
    let mut round = 0;
    for (path, at) in [(shown, 1), (past, 0)] {
        wait_until("its state is dropped", || {
            round += 1;
            fs::write(mounted.place.path("now/f"), format!("afterwards {round}")).unwrap();
            mounted.place.ok(&["cont", "aggregate", "sys/p", "c"]);
            match fs::read(&path) {
                Ok(text) => {
                    assert_eq!(text, b"before", "never what is there now");
                    false
                }
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(ESTALE), "{}", path.display());
                    true
                }
            }
        });
        let log = mounted.mounts[at].log();
        assert_eq!(log.matches("was destroyed; its files are ESTALE").count(), 1, "{log}");
    }
    drop(tuesday);
    mounted.finish();
}
