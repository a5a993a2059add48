//! Mounts whose process or store dies, stops or is slow.

use super::{MOMENT, Mounted, Running, limited, pid, shell, unmounted, wait_until};
use crate::served::Daemon;
use core::time::Duration;
use nix::sys::signal::{Signal, kill};
use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

#[test]
fn a_signal_takes_the_mount_away_and_closes_the_pool() {
    let Some(mut mounted) = Mounted::alone("signalled", &[]) else { return };
    fs::write(mounted.path("f"), b"stone").unwrap();
    mounted.first().signal(Signal::SIGTERM);
    assert_eq!(mounted.first().ends(), 0);
    assert!(!mounted.path("f").exists());
    assert_eq!(mounted.place.ok(&["fs", "cat", "sys/p", "c", "/f"]), "stone");
}

#[test]
fn a_mount_whose_process_was_killed_fails_and_is_taken_away() {
    let Some(mut mounted) = Mounted::served("killed-server", &[]) else { return };
    fs::write(mounted.path("f"), b"stone").unwrap();
    mounted.first().signal(Signal::SIGKILL);
    mounted.first().ends();
    let error = fs::read(mounted.path("f")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(107), "ENOTCONN: {error}");
    let line = mounted.place.fails(5, &["mount", "sys/p", "c", "mnt"]);
    assert!(line.contains("dolmen unmount"), "{line}");
    unmounted(&mounted.place, "mnt");
    mounted.mount("mnt", &[]);
    assert_eq!(fs::read(mounted.path("f")).unwrap(), b"stone");
    mounted.mounts.remove(0);
}

#[test]
fn operations_wait_for_a_dead_daemon_and_go_on_with_the_next() {
    let Some(mut mounted) = Mounted::served("restarted", &["--cache", "off", "--deadline", "60"]) else {
        return;
    };
    fs::write(mounted.path("f"), b"stone").unwrap();
    drop(mounted.daemon.take());
    let mut cat = Running::of(Command::new("cat").arg(mounted.path("f")).stdout(Stdio::piped()));
    mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[]));
    wait_until("the reader ends", || cat.is_over());
    let mut read = String::new();
    cat.0.stdout.take().unwrap().read_to_string(&mut read).unwrap();
    assert_eq!(read, "stone");
    assert_eq!(shell(&mounted, "cat f"), "stone");
    mounted.finish();
}

#[test]
fn operations_on_a_dead_daemon_fail_after_the_deadline() {
    let Some(mut mounted) = Mounted::served("dead", &["--cache", "off", "--deadline", "6"]) else { return };
    fs::write(mounted.path("f"), b"stone").unwrap();
    drop(mounted.daemon.take());
    let mut cat = Command::new("cat");
    cat.arg(mounted.path("f"));
    let output = limited(&mounted, &cat, MOMENT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Input/output error"), "{said}");
    let dir = mounted.path("").display().to_string();
    mounted.place.ok(&["unmount", "--lazy", &dir]);
    mounted.first().ends();
}

#[test]
fn who_waits_for_a_daemon_that_does_not_answer_can_be_killed() {
    let Some(mounted) = Mounted::served("stopped", &["--cache", "off", "--threads", "4"]) else { return };
    fs::write(mounted.path("f"), b"stone").unwrap();
    let daemon = pid(mounted.daemon.as_ref().unwrap().child.id());
    kill(daemon, Signal::SIGSTOP).unwrap();
    // More than there are threads: the last hears interrupts.
    let mut waiting: Vec<_> = (0..8)
        .map(|n| {
            // Its directory is elsewhere: to go into the mount it would have to wait before it begins.
            let [f, new] = ["f".to_owned(), format!("new-{n}")].map(|name| mounted.path(&name));
            let line = format!("cat {}; echo x > {}", f.display(), new.display());
            Running::of(Command::new("sh").args(["-c", &line]).stdout(Stdio::null()))
        })
        .collect();
    waiting.push(Running::of(Command::new("mkdir").arg(mounted.path("d"))));
    // They wait by now, or will: either way they end.
    dolmen_env::wait(Duration::from_millis(300));
    for child in &mut waiting {
        child.kill();
    }
    kill(daemon, Signal::SIGCONT).unwrap();
    assert_eq!(shell(&mounted, "cat f"), "stone");
    mounted.finish();
}
