//! Snapshots of a mounted container.

use super::{Mounted, shell};
use std::fs;
use std::io::ErrorKind;

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
