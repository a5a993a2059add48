//! What cannot be mounted or unmounted, and how that is told.

use super::{Mounted, can_mount, unmounted};
use crate::common::{Place, Ran};
use std::fs;
use std::process::Stdio;

#[test]
fn what_cannot_be_mounted_is_told_with_a_remedy() {
    if !can_mount("refused") {
        return;
    }
    let place = Place::new("mount-refused");
    fs::create_dir_all(place.path("sys")).unwrap();
    fs::create_dir_all(place.path("mnt")).unwrap();
    fs::write(place.path("file"), b"").unwrap();
    fs::create_dir_all(place.path("full")).unwrap();
    fs::write(place.path("full/stone"), b"").unwrap();
    place.pool(&["sys/p", "--targets", "1"]);
    place.ok(&["cont", "create", "sys/p", "c"]);
    place.ok(&["cont", "create", "sys/p", "raw", "--type", "none"]);
    let log = place.path("log").display().to_string();
    for (code, pool, cont, dir, says) in [
        (3, "sys/p", "c", "nowhere", "make it first"),
        (2, "sys/p", "c", "file", "no directory"),
        (3, "sys/p", "none", "mnt", "there is none of this name"),
        (3, "sys/q", "c", "mnt", "sys/q"),
        // The directory around a socket is not that of the pools because of it.
        (11, "unix:nobody.sock/p", "c", "mnt", "nobody.sock"),
        (3, "sys/p", "raw", "mnt", "holds no file system"),
        (2, "sys/p", "c", "sys/p", "choose a directory elsewhere"),
        (2, "sys/p", "c", "sys", "choose a directory elsewhere"),
        (2, "sys/p", "c", "/proc", "a directory of the system"),
        (2, "sys/p", "c", "/proc/1", "a directory of the system"),
        (2, "sys/p", "c", "/dev", "a directory of the system"),
        (4, "sys/p", "c", "full", "it has stone; choose an empty one, or add --nonempty"),
    ] {
        for more in [&["--foreground"][..], &["--log", &log]] {
            let line = place.fails(code, &[&["mount", pool, cont, dir], more].concat());
            assert!(line.contains(says), "{line}");
        }
    }
    let mut command = place.command(&["mount", "sys/p", "c", "mnt"]);
    let ran = Ran::of("mount", command.env_remove("HOME").env_remove("XDG_DATA_HOME").output().unwrap());
    assert_eq!(ran.code(), 3, "{ran:?}");
    assert!(ran.stderr().ends_with("; add --log FILE, or --foreground\n"), "{ran:?}");
    let log = place.path("log").display().to_string();
    place.ok(&["mount", "sys/p", "c", "full", "--nonempty", "--log", &log]);
    assert!(!place.path("full/stone").exists(), "it is covered");
    place.ok(&["unmount", "full"]);
    assert!(place.path("full/stone").exists());
    let line = place.fails(3, &["unmount", "mnt"]);
    assert!(line.contains("nothing is mounted there"), "{line}");
    let line = place.fails(3, &["unmount", "nodir"]);
    assert!(line.contains("nodir: no such file or directory; `findmnt"), "{line}");
    let line = place.fails(2, &["unmount", "/proc"]);
    assert!(line.contains("type proc"), "{line}");
    assert!(place.ok(&["check", "sys/p"]).contains("clean"));
}

#[test]
fn of_two_that_mount_in_a_directory_at_once_one_does_and_the_other_is_told() {
    let Some(mut mounted) = Mounted::served("at-once", &[]) else { return };
    mounted.unmount();
    let log = mounted.place.path("log").display().to_string();
    for _ in 0..3 {
        let both = [0, 1].map(|_one| {
            let mut command = mounted.place.command(&["mount", "sys/p", "c", "mnt", "--log", &log]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        let both = both.map(|child| Ran::of("mount", child.wait_with_output().unwrap()));
        let mut codes = both.each_ref().map(Ran::code);
        codes.sort_unstable();
        assert_eq!(codes, [0, 5], "{both:?}");
        assert!(both.iter().any(|ran| ran.stderr().contains("is mounted there already")), "{both:?}");
        unmounted(&mounted.place, "mnt");
    }
    mounted.finish();
}

#[test]
fn a_mount_in_the_background_serves_when_the_command_returns() {
    let Some(mut mounted) = Mounted::served("background", &[]) else { return };
    mounted.unmount();
    let log = mounted.place.path("log").display().to_string();
    let said = mounted.place.json(&["mount", "sys/p", "c", "mnt", "--log", &log]);
    fs::write(mounted.path("f"), b"stone").unwrap();
    let line = mounted.place.fails(5, &["mount", "sys/p", "c", "mnt", "--log", &log]);
    assert!(line.contains("is mounted there already; take it away with `dolmen unmount mnt`"), "{line}");
    let file = fs::File::open(mounted.path("f")).unwrap();
    let line = mounted.place.fails(5, &["unmount", "mnt"]);
    assert!(line.contains("somebody uses it; `fuser -vm mnt` names them"), "{line}");
    drop(file);
    assert!(unmounted(&mounted.place, "mnt").contains(&said["pid"].to_string()));
    assert_eq!(fs::read_to_string(&log).unwrap(), "");
    let line = mounted.place.fails(3, &["mount", "sys/none", "c", "mnt", "--log", &log]);
    assert!(line.contains("the daemon there has no pool none; see `dolmen pool list sys`"), "{line}");
    assert_eq!(mounted.place.ok(&["fs", "cat", "sys/p", "c", "/f"]), "stone");
    mounted.finish();
}
