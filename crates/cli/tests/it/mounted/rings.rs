//! Requests over `io_uring`, where the kernel offers it to mounts: what holds over the device holds there.

use super::about::said_of_itself;
use super::script::Script;
use super::stuck;
use super::{Mounted, Running, has, random, shell, wait_until};
use crate::common::bytes;
use crate::served::Daemon;
use crate::untested::untested;
use core::time::Duration;
use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Says whether the kernel offers it to mounts that begin now.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Guards: how many tests need the switch, and what it was before; taken alone.
static USERS: Mutex<(usize, Option<String>)> = Mutex::new((0, None));

/// The kernel offers it, as long as this lives.
struct Offered;

impl Offered {
    /// `None` where it does not: an old kernel, or one whose administrator does not want it.
    fn new() -> Option<Self> {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match fs::read_to_string(SWITCH) {
            Ok(before) => before.trim().to_owned(),
            Err(error) => {
                untested("DOLMEN_TEST_RINGS", &format!("{SWITCH}: {error}"));
                return None;
            }
        };
        if before != "Y"
            && let Err(error) = fs::write(SWITCH, "Y")
        {
            untested("DOLMEN_TEST_RINGS", &format!("{SWITCH} is {before}: {error}"));
            return None;
        }
        if users.0 == 0 {
            users.1 = Some(before);
        }
        users.0 += 1;
        Some(Self)
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        users.0 -= 1;
        if users.0 == 0
            && let Some(before) = users.1.take()
        {
            drop(fs::write(SWITCH, before));
        }
    }
}

/// How the kernel's requests come, as the mount tells.
pub(super) fn way(mounted: &Mounted, dir: &str) -> String {
    said_of_itself(&mounted.place, dir, "requests ").unwrap_or_default()
}

#[test]
fn requests_come_over_rings_where_the_kernel_offers_them_and_say_the_same() {
    let Some(_offered) = Offered::new() else { return };
    let Some(mut mounted) = Mounted::served("rings", &["--cache", "off", "--io-uring"]) else { return };
    mounted.mount("mnt2", &["--cache", "off"]);
    mounted.mount("mnt3", &["--cache", "data", "--io-uring"]);
    // Each in directories of its own, made over the one and looked at over both.
    let tree = "
        mkdir d; for n in $(seq 300); do : > d/$(printf %0200d $n); done
        head -c 3000001 /dev/urandom > big; dd if=big of=odd bs=4099 2>/dev/null
        ln -s $(printf %01000d 7) link; ln big hard; mv d e; rm -r e/*1; truncate -s 7 hard
    ";
    shell(&mounted, tree);
    let value = bytes(60_000, 3);
    rustix::fs::setxattr(mounted.path("odd"), "user.long", &value, rustix::fs::XattrFlags::empty()).unwrap();
    let look = "ls -lR --time-style=full-iso; sha256sum odd big; readlink link";
    let over_ring = shell(&mounted, look);
    let over_device = shell(&mounted, &format!("cd ../mnt2; {look}"));
    assert_eq!(over_ring, over_device);
    let ways = ["mnt", "mnt2", "mnt3"].map(|dir| way(&mounted, dir));
    assert_eq!(ways, ["io_uring", "device", "device"], "not where contents are remembered");
    let mut found = vec![0; value.len()];
    let len = rustix::fs::getxattr(mounted.path("odd"), "user.long", &mut found).unwrap();
    assert!(found[..len] == value);
    mounted.finish();
}

#[test]
fn who_waits_for_a_silent_daemon_can_be_killed_in_every_call_over_rings() {
    let Some(_offered) = Offered::new() else { return };
    let way = stuck::kill_while_silent("rings-silent", &["metadata", "--io-uring"]);
    assert!(way.is_none_or(|way| way == "io_uring"));
}

#[test]
fn nobody_waits_for_a_mount_over_rings_whose_process_is_killed() {
    let Some(_offered) = Offered::new() else { return };
    let way = stuck::kill_mount("rings-killed", &["metadata", "--io-uring"]);
    assert!(way.is_none_or(|way| way == "io_uring"));
}

#[test]
fn memory_that_was_changed_holds_nobody_longer_than_the_deadline_over_rings() {
    let Some(_offered) = Offered::new() else { return };
    let way = stuck::change_memory_while_silent("rings-memory", &["metadata", "--io-uring"]);
    assert!(way.is_none_or(|way| way == "io_uring"));
}

#[test]
fn random_operations_and_kills_leave_what_was_acknowledged_over_rings() {
    let Some(_offered) = Offered::new() else { return };
    random::run("rings-random", &["metadata", "--io-uring"], 2);
}

/// Opens a file so often, and locks it with each in a thread; a line for each that has it or is refused. Then it waits for a word,
/// and gives them back.
const MANY: &str = r#"
import fcntl, os, sys, threading
path, count = sys.argv[1:]
def say(line):
    # Whole: others say something at the same time.
    os.write(1, (line + "\n").encode())
say("there")
def lock():
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        say("done")
        os.close(fd)
    except OSError as error:
        say(os.strerror(error.errno))
sys.stdin.readline()
threads = [threading.Thread(target=lock) for _ in range(int(count))]
for thread in threads: thread.start()
for thread in threads: thread.join()
say("end")
"#;

#[test]
fn who_waits_for_locks_over_rings_holds_up_nobody_and_too_many_are_refused() {
    const COUNT: usize = 300;
    /// As many may wait at a time.
    const WAITING: usize = 256;
    let Some(_offered) = Offered::new() else { return };
    if !has("python3") {
        return;
    }
    let Some(mounted) = Mounted::served("rings-locks", &["--threads", "2", "--io-uring"]) else { return };
    fs::write(mounted.path("f"), b"stone").unwrap();
    let mut holder =
        Running::of(Command::new("flock").arg("-o").arg(mounted.path("f")).args(["sleep", "1000"]));
    wait_until("somebody has the lock", || {
        let status = Command::new("flock").arg("-n").arg(mounted.path("f")).arg("true").status().unwrap();
        !status.success()
    });
    let (path, count) = (mounted.path("f"), COUNT.to_string());
    let mut many = Script::logged(&mounted.place, "many", MANY, &[path.to_str().unwrap(), &count]);
    assert_eq!(many.said(), "there");
    many.ask("go");
    for _ in 0..COUNT - WAITING {
        assert_eq!(many.said(), "No locks available");
    }
    assert_eq!(shell(&mounted, "cat f; echo -n more >> f; cat f"), "stonestonemore");
    assert!(many.has_said_nothing());
    holder.kill();
    for _ in 0..WAITING {
        assert_eq!(many.said(), "done");
    }
    assert_eq!(many.said(), "end");
    assert_eq!(way(&mounted, "mnt"), "io_uring");
    mounted.finish();
}

/// Writes a MiB over the beginning of a file, in one call.
const WRITER: &str = "
import os, sys
path, fill = sys.argv[1:]
fd = os.open(path, os.O_WRONLY)
print('ready', flush=True)
sys.stdin.readline()
os.pwrite(fd, fill.encode() * (1 << 20), 0)
print('done', flush=True)
";

#[test]
fn a_write_whose_process_was_killed_stores_nothing_of_what_others_write_after_it() {
    let Some(_offered) = Offered::new() else { return };
    if !has("python3") {
        return;
    }
    let args = ["--cache", "off", "--threads", "2", "--deadline", "600", "--io-uring"];
    let Some(mut mounted) = Mounted::served("rings-write", &args) else { return };
    let begin = |mounted: &Mounted, name: &str, fill: &str| {
        shell(mounted, &format!("head -c 1048576 /dev/zero | tr '\\0' o > {name}"));
        let path = mounted.path(name);
        let writer = Script::logged(&mounted.place, name, WRITER, &[path.to_str().unwrap(), fill]);
        assert_eq!(writer.said(), "ready");
        writer
    };
    let names: Vec<String> = (0..12).map(|n| format!("f{n}")).collect();
    let mut killed: Vec<_> = names.iter().map(|name| begin(&mounted, name, "k")).collect();
    let mut others: Vec<_> = (0..12).map(|n| begin(&mounted, &format!("other{n}"), "n")).collect();
    drop(mounted.daemon.take());
    killed.iter_mut().for_each(|writer| writer.ask("go"));
    dolmen_env::wait(Duration::from_millis(500));
    // What they have written waits in the mount for the next daemon.
    killed.iter_mut().for_each(|writer| writer.running.kill());
    others.iter_mut().for_each(|writer| writer.ask("go"));
    dolmen_env::wait(Duration::from_secs(1));
    mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[]));
    others.iter().for_each(|writer| assert_eq!(writer.said(), "done"));
    for (name, allowed) in
        names.iter().map(|name| (name.clone(), "ok")).chain((0..12).map(|n| (format!("other{n}"), "n")))
    {
        let found = fs::read(mounted.path(&name)).unwrap();
        let is_own = found.iter().all(|byte| allowed.as_bytes().contains(byte));
        assert!(found.len() == 1 << 20 && is_own, "{name} has something of another file");
    }
    mounted.finish();
}
