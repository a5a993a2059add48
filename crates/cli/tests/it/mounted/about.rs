//! What a mount says of itself.

use super::{Mount, Mounted, can_mount, wait_until};
use crate::common::Place;
use crate::served::Daemon;
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};

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
    let remedy = format!("`dolmen unmount {}` ends it, and the daemon opens the pool then", dir.display());
    for asks in [&["fs", "ls", "sys/p", "c"][..], &["mount", "sys/p", "c", "other"]] {
        fs::create_dir_all(mounted.place.path("other")).unwrap();
        let line = mounted.place.fails(5, asks);
        let pid = mounted.mounts[0].child.id();
        assert!(line.contains(&format!("process {pid} uses ")) && line.contains(&remedy), "{line}");
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

/// Whether a thread waits for others without an end by the clock: the kernel tells the call that it is in by its number and arguments.
fn waits_without_end(thread: &Path) -> bool {
    const FUTEX: &str = if cfg!(target_arch = "x86_64") { "202" } else { "98" };
    let call = fs::read_to_string(thread.join("syscall")).unwrap_or_default();
    let words: Vec<&str> = call.split_whitespace().collect();
    words.first() == Some(&FUTEX) && words.get(4) == Some(&"0x0")
}

#[test]
fn a_mount_at_rest_is_called_when_it_ends_and_looks_for_nothing_before() {
    type New = fn(&str, &[&str]) -> Option<Mounted>;
    for (name, new) in [("alone", Mounted::alone as New), ("served", Mounted::served)] {
        for is_told in [false, true] {
            let Some(mut mounted) = new(&format!("rest-{name}-{is_told}"), &[]) else { return };
            let pid = mounted.first().child.id();
            let thread = PathBuf::from(format!("/proc/{pid}/task/{pid}"));
            wait_until("it waits to be called", || waits_without_end(&thread));
            fs::write(mounted.path("f"), "text").unwrap();
            wait_until("it does so again", || waits_without_end(&thread));
            if is_told {
                mounted.first().signal(Signal::SIGTERM);
                let status = mounted.first().ends();
                assert_eq!(status, 0, "{}", mounted.first().log());
                mounted.mounts.clear();
            }
            mounted.finish();
        }
    }
}
