//! What a mount says of itself.

use super::{Mount, Mounted, can_mount};
use crate::common::Place;
use crate::served::Daemon;
use std::fs;

/// What stands behind a word in what a mount says of itself.
pub(super) fn said_of_itself(place: &Place, dir: &str, word: &str) -> Option<String> {
    let mut about = [0; 4096];
    let len = rustix::fs::getxattr(place.path(dir), "user.dolmen.mount", &mut about).unwrap();
    let about = String::from_utf8_lossy(&about[..len]).into_owned();
    about.lines().find_map(|line| line.strip_prefix(word)).map(str::to_owned)
}

#[test]
fn a_daemon_beside_a_mount_in_process_says_how_that_ends() {
    let Some(mounted) = Mounted::alone("beside", &[]) else { return };
    let daemon = Daemon::start_in(&mounted.place, "sys", &[]);
    let dir = mounted.place.path("mnt").canonicalize().unwrap();
    let remedy = format!("`dolmen unmount {}` ends it", dir.display());
    for asks in [&["fs", "ls", "sys/p", "c"][..], &["mount", "sys/p", "c", "other"]] {
        fs::create_dir_all(mounted.place.path("other")).unwrap();
        let line = mounted.place.fails(5, asks);
        let pid = mounted.mounts[0].child.id();
        assert!(line.contains(&format!("process {pid} has ")) && line.contains(&remedy), "{line}");
    }
    super::unmounted(&mounted.place, "mnt");
    assert_eq!(mounted.place.ok(&["fs", "ls", "sys/p", "c"]), "");
    daemon.end();
}

#[test]
fn who_may_not_look_where_a_link_to_the_socket_is_is_led_to_the_socket() {
    if !can_mount("socket-elsewhere") {
        return;
    }
    let place = Place::new("socket-elsewhere");
    fs::create_dir(place.path("sys")).unwrap();
    fs::create_dir(place.path("run")).unwrap();
    place.pool(&["sys/p", "--targets", "1"]);
    place.ok(&["cont", "create", "sys/p", "c"]);
    let daemon = Daemon::start_in(&place, "sys", &["--socket", "run/socket"]);
    assert!(place.path("sys/dolmen.sock").is_symlink());
    let socket = place.path("run/socket").canonicalize().unwrap();
    let told = format!("unix:{}", socket.display());
    for (dir, pool) in [("a", "sys/p"), ("b", "unix:sys/dolmen.sock/p"), ("c", "unix:run/socket/p")] {
        let mut mount = Mount::of_pool(&place, pool, dir, &[]);
        assert_eq!(said_of_itself(&place, dir, "system ").as_deref(), Some(&*told), "{pool}");
        super::unmounted(&place, dir);
        assert_eq!(mount.ends(), 0, "{}", mount.log());
    }
    daemon.end();
}
