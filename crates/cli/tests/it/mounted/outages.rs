//! Mounts whose process or store dies, stops or is slow.

use super::{MOMENT, Mounted, Running, is_gone, limited, pid, shell, unmounted, wait_until};
use crate::served::Daemon;
use core::time::Duration;
use nix::sys::signal::{Signal, kill};
use std::fs;
use std::io::{Read as _, Write as _};
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
fn who_finds_a_pool_in_use_by_a_mount_is_told_how_to_end_that() {
    let Some(mounted) = Mounted::alone("in use", &[]) else { return };
    let log = mounted.place.path("log").display().to_string();
    // However many others there are, older ones and newer.
    let others: Vec<String> = (0..9).map(|number| format!("other-{number}")).collect();
    for other in &others {
        fs::create_dir(mounted.place.path(&format!("{other}-mnt"))).unwrap();
        mounted.place.pool(&[other, "--targets", "1"]);
        mounted.place.ok(&["cont", "create", other, "c"]);
        mounted.place.ok(&["mount", other, "c", &format!("{other}-mnt"), "--log", &log]);
    }
    let line = mounted.place.fails(5, &["pool", "query", "sys/p"]);
    let last = mounted.place.fails(5, &["pool", "query", "other-8"]);
    assert!(last.contains("other-8-mnt"), "{last}");
    for other in &others {
        unmounted(&mounted.place, &format!("{other}-mnt"));
    }
    let dir = mounted.path("").display().to_string();
    let command = format!("`dolmen unmount '{}'` ends it", dir.trim_end_matches('/'));
    assert!(line.contains("in use by process") && line.contains(&command), "{line}");
}

#[test]
fn a_mount_whose_pool_or_container_is_destroyed_is_stale_and_says_why_once() {
    const ESTALE: i32 = 116;
    let all: [&[&str]; 2] = [
        &["dmg", "-G", "unix:sys/dolmen.sock", "pool", "destroy", "p", "--force", "--recursive"],
        &["cont", "destroy", "sys/p", "c", "--force"],
    ];
    for destroy in all {
        let Some(mut mounted) = Mounted::served("destroyed", &["--cache", "off"]) else { return };
        fs::write(mounted.path("f"), b"stone").unwrap();
        let mut open = fs::File::options().read(true).write(true).open(mounted.path("f")).unwrap();
        mounted.place.ok(destroy);
        let mut text = String::new();
        let tries = [
            fs::read(mounted.path("f")).map(drop),
            fs::write(mounted.path("g"), b"menhir"),
            fs::read_dir(mounted.path("")).map(drop),
            fs::metadata(mounted.path("f")).map(drop),
            open.read_to_string(&mut text).map(drop),
            open.write_all(b"menhir"),
        ];
        for (at, tried) in tries.into_iter().enumerate() {
            assert_eq!(tried.unwrap_err().raw_os_error(), Some(ESTALE), "{destroy:?}, {at}");
        }
        let log = mounted.first().log();
        assert_eq!(log.matches("was destroyed").count(), 1, "{destroy:?}: {log}");
        drop(open);
        unmounted(&mounted.place, "mnt");
        mounted.mounts.remove(0);
    }
}

#[test]
fn a_mount_whose_process_was_killed_fails_and_is_taken_away() {
    let Some(mut mounted) = Mounted::served("killed-server", &[]) else { return };
    fs::write(mounted.path("f"), b"stone").unwrap();
    mounted.first().signal(Signal::SIGKILL);
    mounted.first().ends();
    let error = fs::read(mounted.path("f")).unwrap_err();
    assert!(is_gone(&error), "{error}");
    let line = mounted.place.fails(5, &["mount", "sys/p", "c", "mnt"]);
    assert!(line.contains("dolmen unmount"), "{line}");
    let mut said = String::new();
    wait_until("nobody uses the mount", || {
        let ran = mounted.place.run(&["unmount", "mnt"]);
        said = ran.stdout();
        ran.code() == 0
    });
    assert!(said.contains("mnt is mounted no more; the process that served it had ended before"), "{said}");
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

#[test]
fn a_writer_goes_on_over_deaths_of_the_daemon_and_each_line_is_there_once() {
    const LINES: usize = 150;
    let Some(mut mounted) = Mounted::served("writer", &["--deadline", "120"]) else { return };
    let file = mounted.path("f").display().to_string();
    let line = format!("exec 5>>{file}; for n in $(seq {LINES}); do echo $n >&5 || exit 1; done");
    let mut writer = Running::of(Command::new("sh").args(["-c", &line]));
    for some in [20, 60, 100] {
        wait_until("some lines are written", || {
            writer.is_over() || fs::metadata(&file).is_ok_and(|found| found.len() > some)
        });
        drop(mounted.daemon.take());
        mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[]));
    }
    wait_until("the writer ends", || writer.is_over());
    assert!(writer.0.wait().unwrap().success());
    let wanted: String = (1..=LINES).map(|n| format!("{n}\n")).collect();
    assert_eq!(fs::read_to_string(&file).unwrap(), wanted);
    mounted.finish();
}

#[test]
fn who_waits_for_a_daemon_that_is_dead_can_be_killed() {
    let Some(mut mounted) = Mounted::served("dead-wait", &["--cache", "off", "--deadline", "600"]) else {
        return;
    };
    fs::write(mounted.path("f"), b"stone").unwrap();
    drop(mounted.daemon.take());
    for line in ["cat", "rm", "echo x >"] {
        let line = format!("{line} {}", mounted.path("f").display());
        let mut waiting = Running::of(Command::new("sh").args(["-c", &line]).stdout(Stdio::null()));
        // It waits by now, or will: either way it ends, and has not before.
        dolmen_env::wait(Duration::from_millis(100));
        assert!(!waiting.is_over(), "{line} waits for the daemon");
        waiting.kill();
    }
    mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[]));
    wait_until("the mount goes on", || fs::read_dir(mounted.path("")).is_ok());
    mounted.finish();
}

#[test]
fn a_mount_is_taken_away_when_those_who_use_it_have_died() {
    let Some(mounted) = Mounted::served("busy", &[]) else { return };
    let dir = mounted.path("").display().to_string();
    // One has a file open and mapped to run, one stands in a directory, one writes.
    let lines = [
        "cp /bin/sleep own; ./own 600 & echo >ready-1; wait",
        "mkdir d; cd d; echo >../ready-2; sleep 600",
        "exec 5>open; echo >ready-3; while :; do echo x >&5; done",
    ];
    let mut users = lines.map(|line| {
        let line = format!("cd {dir}; {line}");
        Running::of(Command::new("setsid").args(["sh", "-c", &line]))
    });
    for n in 1..=3 {
        wait_until("all use the mount", || mounted.path(&format!("ready-{n}")).exists());
    }
    let line = mounted.place.fails(5, &["unmount", &dir]);
    assert!(line.contains("somebody uses it"), "{line}");
    for user in &mut users {
        // With what it has started: `setsid` has made it the first of a group.
        nix::sys::signal::killpg(pid(user.0.id()), Signal::SIGKILL).unwrap();
        wait_until("a killed process ends", || user.is_over());
    }
    mounted.finish();
}
