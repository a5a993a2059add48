//! Locks of processes on files, as `fcntl` and `flock` have them, also across mounts.

use super::script::Script;
use super::{Mounted, shell, wait_until};
use crate::served::Daemon;
use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;

/// Opens the file that it is given, and does what each line says: an operation, a kind, first byte and count.
const PROGRAM: &str = r#"
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDWR)
kinds = {"r": fcntl.LOCK_SH, "w": fcntl.LOCK_EX, "-": fcntl.LOCK_UN}
print("there", flush=True)
for line in sys.stdin:
    how, kind, first, count = line.split()
    wait = 0 if how == "wait" or kind == "-" else fcntl.LOCK_NB
    try:
        if how == "whole":
            fcntl.flock(fd, kinds[kind] | wait)
        elif how == "test":
            asked = struct.pack("hhqqi4x", fcntl.F_RDLCK if kind == "r" else fcntl.F_WRLCK, 0, int(first), int(count), 0)
            told = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, asked))
            print({fcntl.F_RDLCK: "read", fcntl.F_WRLCK: "write", fcntl.F_UNLCK: "free"}[told[0]], flush=True)
            continue
        elif how == "reopen":
            os.close(os.open(sys.argv[1], os.O_RDWR))
        else:
            fcntl.lockf(fd, kinds[kind] | wait, int(count), int(first))
        print("done", flush=True)
    except OSError as error:
        print(os.strerror(error.errno), flush=True)
"#;

const HELD: &str = "Resource temporarily unavailable";

/// A process that locks one file.
fn locker_on(file: &Path) -> Script {
    Script::on(file, PROGRAM)
}

fn two_mounts(name: &str, args: &[&str]) -> Option<Mounted> {
    let mut mounted = Mounted::served(name, args)?;
    mounted.mount("mnt2", args);
    fs::write(mounted.path("f"), b"stone").unwrap();
    Some(mounted)
}

impl Mounted {
    fn lockers(&self) -> [Script; 2] {
        [self.path("f"), self.place.path("mnt2").join("f")].map(|file| locker_on(&file))
    }
}

#[test]
fn locks_are_seen_through_every_mount_and_end_with_their_process() {
    let Some(mounted) = two_mounts("locks", &[]) else { return };
    let [mut one, mut two] = mounted.lockers();
    assert_eq!(one.does("set w 0 10"), "done");
    assert_eq!(two.does("set r 5 1"), HELD);
    assert_eq!(two.does("set w 10 10"), "done");
    assert_eq!(one.does("set r 0 12"), HELD, "a part is another's");
    assert_eq!(one.does("set - 0 5"), "done");
    assert_eq!(two.does("set w 0 5"), "done");
    assert_eq!(two.does("set w 5 1"), HELD, "the rest is locked still");
    // Whoever closes one of his descriptors of a file has no ranges of it locked any more.
    assert_eq!(one.does("reopen - 0 0"), "done");
    assert_eq!(two.does("set w 0 100"), "done");
    // Locks on the whole file are another matter, and the open file's.
    assert_eq!(one.does("whole w 0 0"), "done");
    assert_eq!(two.does("whole r 0 0"), HELD);
    assert_eq!(one.does("whole r 0 0"), "done");
    assert_eq!(two.does("whole r 0 0"), "done");
    assert_eq!(two.does("whole w 0 0"), HELD);
    one.running.kill();
    wait_until("the lock of the killed process is free", || two.does("whole w 0 0") == "done");
    two.running.kill();
    let mut three = locker_on(&mounted.path("f"));
    wait_until("ranges of the killed process are free", || three.does("set w 0 100") == "done");
    drop(three);
    mounted.finish();
}

#[test]
fn who_waits_for_a_lock_gets_it_or_is_killed_and_holds_up_nobody() {
    let Some(mounted) = two_mounts("locks-wait", &["--threads", "2"]) else { return };
    let [mut one, mut two] = mounted.lockers();
    assert_eq!(one.does("set w 0 10"), "done");
    // More than there are threads.
    let mut waiting: Vec<Script> = (0..6).map(|_| locker_on(&mounted.path("f"))).collect();
    waiting.push(locker_on(&mounted.place.path("mnt2").join("f")));
    waiting.iter_mut().for_each(|locker| locker.ask("wait w 0 10"));
    two.ask("wait w 0 10");
    assert_eq!(shell(&mounted, "cat f; echo -n more >> f; cat f"), "stonestonemore");
    assert!(waiting.iter().chain([&two]).all(Script::has_said_nothing));
    waiting[0].running.kill();
    waiting[6].running.kill();
    assert_eq!(one.does("set - 0 10"), "done");
    // One after the other gets it: each ends when it has it.
    let mut left: Vec<Script> = waiting.into_iter().skip(1).take(5).chain([two]).collect();
    while !left.is_empty() {
        let mut next = None;
        wait_until("somebody gets the lock", || {
            next = left.iter().position(|locker| match locker.says.try_recv() {
                Ok(said) => said == "done",
                Err(_) => false,
            });
            next.is_some()
        });
        let mut next = left.remove(next.unwrap());
        assert!(left.iter().all(Script::has_said_nothing), "only one has it");
        next.running.kill();
    }
    drop(one);
    mounted.finish();
}

#[test]
fn locks_outlive_the_daemon() {
    let Some(mut mounted) = two_mounts("locks-restart", &["--deadline", "60"]) else { return };
    let [mut one, mut two] = mounted.lockers();
    assert_eq!(one.does("set w 0 10"), "done");
    assert_eq!(one.does("whole w 0 0"), "done");
    // It is killed.
    drop(mounted.daemon.take());
    mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[]));
    assert_eq!(two.does("test w 5 1"), "write", "who asks is told when it is known");
    assert_eq!(two.does("set w 5 1"), HELD, "nobody gets it before those who had locks");
    assert_eq!(two.does("whole r 0 0"), HELD);
    assert_eq!(two.does("set w 10 1"), "done");
    assert_eq!(one.does("set - 0 10"), "done");
    assert_eq!(two.does("set w 5 1"), "done");
    // Who has nothing himself waits until nobody can come any more, and is told so.
    assert_eq!(one.does("whole - 0 0"), "done");
    drop(mounted.daemon.take());
    mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[]));
    assert_eq!(one.does("test w 20 1"), "free");
    assert_eq!(one.does("test w 5 1"), "write");
    drop((one, two));
    mounted.finish();
}

#[test]
fn locks_of_a_mount_that_was_killed_are_free_after_a_while() {
    let Some(mut mounted) = two_mounts("locks-killed", &[]) else { return };
    let [mut one, mut two] = mounted.lockers();
    assert_eq!(one.does("set w 0 10"), "done");
    mounted.first().signal(Signal::SIGKILL);
    mounted.first().ends();
    assert_eq!(two.does("wait w 0 10"), "done");
    drop((one, two));
    // The first one is there without its process.
    drop(mounted.mounts.remove(0));
    mounted.finish();
}

#[test]
fn the_kernel_keeps_locks_of_a_mount_that_is_alone() {
    let Some(mounted) = Mounted::alone("locks-alone", &[]) else { return };
    fs::write(mounted.path("f"), b"stone").unwrap();
    let [mut one, mut two] = [0, 1].map(|_| locker_on(&mounted.path("f")));
    assert_eq!(one.does("set w 0 10"), "done");
    assert_eq!(two.does("set r 5 1"), HELD);
    assert_eq!(two.does("whole w 0 0"), "done");
    assert_eq!(one.does("whole r 0 0"), HELD);
    assert_eq!(two.says.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
    drop((one, two));
    mounted.finish();
}
