//! Processes that wait in a mount whose store does not answer: in whatever call they wait, none stays for good.

use super::rings::way;
use super::script::Script;
use super::{
    Mount, Mounted, Running, break_off, can_be_others, can_mount, has, nanoseconds, pid, shell, threads,
    unmounted, wait_until,
};
use crate::common::{Place, bytes};
use crate::engines;
use crate::served::Daemon;
use core::time::Duration;
use dolmen_env::{Clock, RealClock};
use nix::sys::signal::{Signal, kill};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Within so long whoever was killed has ended: a second, and what a machine with much else to do takes.
const SOON: Duration = Duration::from_secs(10);

/// Has a file in the mount, and does one thing with it when it is told to.
const USER: &str = "
import mmap, os, sys
what, path = sys.argv[1:]
fd = os.open(path, os.O_RDONLY if what == 'exec' else os.O_RDWR)
if what in ('fault', 'msync', 'unmap', 'exit', 'dirty'):
    memory = mmap.mmap(fd, 0)
if what in ('msync', 'unmap', 'exit', 'dirty'):
    memory[::4096]
if what in ('fsync', 'close'):
    os.pwrite(fd, b'x', 0)
print('ready', flush=True)
sys.stdin.readline()
if what == 'fault': memory[2 << 20]
if what in ('msync', 'unmap', 'exit', 'dirty'):
    # Pages that are not beside each other are stored one by one.
    for at in range(0, len(memory), 8192): memory[at] = 1
if what == 'dirty':
    print('dirty', flush=True)
    sys.stdin.readline()
if what == 'msync': memory.flush()
if what == 'unmap': memory.close()
if what == 'exit': os._exit(0)
if what == 'exec': os.execv(path, [path, '600'])
if what == 'fsync': os.fsync(fd)
if what == 'close': os.close(fd)
if what == 'read': os.pread(fd, 100, 0)
if what == 'write': os.pwrite(fd, b'y', 0)
if what == 'rename': os.rename(path, path + '.new')
if what == 'look': os.path.exists(path + '.none')
print('done', flush=True)
";

/// What waits for the store and hears of a signal.
const CALLS: [&str; 8] = ["close", "exec", "fault", "fsync", "read", "rename", "look", "write"];
/// What waits until changed memory is stored: for that the system hears no signal.
const FLUSHES: [&str; 3] = ["msync", "unmap", "exit"];

/// Those that wait in a mount that remembers so much: where contents are not remembered, the time of a change may be recorded by the
/// time its file is closed or synchronised.
fn waiting_calls(cache: &[&str]) -> Vec<&'static str> {
    let records = |call: &str| ["close", "fsync"].contains(&call);
    CALLS.into_iter().filter(|call| cache == ["data"] || !records(call)).collect()
}

/// Each has a file in a directory of its own, so that none waits for another.
fn users(mounted: &Mounted, calls: &[&'static str]) -> Vec<(&'static str, Script)> {
    let user = |what: &&'static str| {
        let dir = mounted.path(what);
        fs::create_dir(&dir).unwrap();
        let file = dir.join("f");
        // By another process: of what was open to be written here, a child of another test has a copy for a moment.
        let line = match *what {
            "exec" => format!("cp /bin/sleep {0}; chmod 755 {0}", file.display()),
            _ => format!("head -c 4194304 /dev/zero > {}", file.display()),
        };
        shell(mounted, &line);
        (*what, Script::logged(&mounted.place, what, USER, &[*what, file.to_str().unwrap()]))
    };
    let users: Vec<_> = calls.iter().map(user).collect();
    for (what, user) in &users {
        assert_eq!(user.said(), "ready", "{what}");
    }
    users
}

/// Has all of them wait.
fn begin(users: &mut [(&'static str, Script)]) {
    for (_, user) in users.iter_mut() {
        user.ask("go");
    }
    // They wait by now, or will: either way none has got on.
    dolmen_env::wait(Duration::from_millis(500));
    for (what, user) in users {
        let said = user.says.try_recv();
        assert!(said.is_err() && !user.running.is_over(), "{what} does not wait: {said:?} {}", user.log());
    }
}

fn kill_all(users: &mut [(&'static str, Script)]) {
    for (_, user) in users {
        user.running.0.kill().unwrap();
    }
}

/// All have ended after so long, whether well or not.
fn all_end<'a>(users: impl Iterator<Item = (&'a str, &'a mut Running)>, limit: Duration) {
    let end_ns = RealClock.monotonic_ns() + nanoseconds(limit);
    for (what, user) in users {
        while !user.is_over() {
            assert!(
                RealClock.monotonic_ns() < end_ns,
                "{what} has not ended after {limit:?}\n{}",
                super::stacks(user.0.id())
            );
            std::thread::park_timeout(super::REST);
        }
    }
}

fn running<'a>(users: &'a mut [(&'static str, Script)]) -> impl Iterator<Item = (&'a str, &'a mut Running)> {
    users.iter_mut().map(|(what, user)| (*what, &mut user.running))
}

/// Contents are remembered, and so are names that are there: who renames something waits for just that. More wait than there are
/// threads.
fn mounted(name: &str, cache: &[&str], deadline: &str) -> Option<Mounted> {
    if !has("python3") {
        return None;
    }
    Mounted::served(
        name,
        &[&["--cache"], cache, &["--cache-timeout", "600", "--threads", "4", "--deadline", deadline]]
            .concat(),
    )
}

pub(super) fn signal_daemon(mounted: &Mounted, signal: Signal) {
    kill(pid(mounted.daemon.as_ref().unwrap().child.id()), signal).unwrap();
}

#[test]
fn who_waits_for_a_silent_daemon_can_be_killed_in_every_call() {
    kill_while_silent("stuck-silent", &["data"]);
}

/// Says how the mount's requests came.
pub(super) fn kill_while_silent(name: &str, cache: &[&str]) -> Option<String> {
    let mounted = mounted(name, cache, "600")?;
    let way = way(&mounted, "mnt");
    let mut users = users(&mounted, &waiting_calls(cache));
    signal_daemon(&mounted, Signal::SIGSTOP);
    begin(&mut users);
    kill_all(&mut users);
    all_end(running(&mut users), SOON);
    signal_daemon(&mounted, Signal::SIGCONT);
    assert_eq!(shell(&mounted, "cat read/f | wc -c"), "4194304\n");
    mounted.finish();
    Some(way)
}

#[test]
fn who_waits_for_a_dead_daemon_can_be_killed_in_every_call() {
    let Some(mut mounted) = mounted("stuck-dead", &["data"], "600") else { return };
    let mut users = users(&mounted, &CALLS);
    drop(mounted.daemon.take());
    begin(&mut users);
    kill_all(&mut users);
    all_end(running(&mut users), SOON);
    mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[]));
    assert_eq!(shell(&mounted, "cat read/f | wc -c"), "4194304\n");
    mounted.finish();
}

/// Of 512 pages that wait each by itself for four threads, the first wait for the deadline, and the others for none of their own.
fn change_memory(
    name: &str,
    cache: &[&str],
    leave: fn(&mut Mounted),
    come_back: fn(&mut Mounted),
) -> Option<String> {
    let mut mounted = mounted(name, cache, "6")?;
    let way = way(&mounted, "mnt");
    let mut users = users(&mounted, &FLUSHES);
    leave(&mut mounted);
    begin(&mut users);
    kill_all(&mut users);
    all_end(running(&mut users), Duration::from_secs(6) + SOON);
    come_back(&mut mounted);
    // What is asked before it has heard of that is told at once that nobody answers.
    wait_until("the mount goes on", || fs::metadata(mounted.path("msync/f")).is_ok());
    assert_eq!(shell(&mounted, "cat msync/f | wc -c"), "4194304\n");
    mounted.finish();
    Some(way)
}

#[test]
fn memory_that_was_changed_holds_nobody_longer_than_the_deadline_while_the_daemon_is_silent() {
    change_memory_while_silent("stuck-memory-silent", &["data"]);
}

pub(super) fn change_memory_while_silent(name: &str, cache: &[&str]) -> Option<String> {
    change_memory(
        name,
        cache,
        |mounted| signal_daemon(mounted, Signal::SIGSTOP),
        |mounted| signal_daemon(mounted, Signal::SIGCONT),
    )
}

#[test]
fn memory_that_was_changed_holds_nobody_longer_than_the_deadline_while_the_daemon_is_dead() {
    change_memory(
        "stuck-memory-dead",
        &["data"],
        |mounted| drop(mounted.daemon.take()),
        |mounted| mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[])),
    );
}

#[test]
fn nobody_waits_for_a_mount_whose_process_is_killed() {
    kill_mount("stuck-killed", &["data"]);
}

/// Whether a mount's process waits in the kernel until that has dropped contents.
fn waits_in_kernel(mount: &Mount) -> bool {
    let waits = |wait: &str| wait.contains("folio") || wait.contains("answer");
    threads(mount.child.id()).iter().any(|(_, name, wait)| name == "dolmen-drops" && waits(wait))
}

/// Breaks a mount off where a test has failed: those who wait for it would be waited for.
struct EndsAnyhow(u32, PathBuf);

impl EndsAnyhow {
    fn of(mount: &Mount) -> Self {
        Self(mount.child.id(), mount.dir.clone())
    }
}

impl Drop for EndsAnyhow {
    fn drop(&mut self) {
        if std::thread::panicking() {
            break_off(self.0, &self.1);
        }
    }
}

#[test]
fn a_mount_does_not_wait_in_the_kernel_for_what_it_is_to_forget_while_nobody_answers() {
    let Some(mut mounted) = mounted("stuck-forgetting", &["data"], "600") else { return };
    let mut users = users(&mounted, &["dirty", "read", "fault", "exec"]);
    signal_daemon(&mounted, Signal::SIGSTOP);
    let (dirty, readers) = users.split_first_mut().unwrap();
    assert_eq!(dirty.1.does("go"), "dirty");
    begin(readers);
    let _otherwise = EndsAnyhow::of(mounted.first());
    // With its connection all that it believes is void.
    drop(mounted.daemon.take());
    for _ in 0..200 {
        let mount = mounted.first();
        assert!(!waits_in_kernel(mount), "{}", super::stacks(mount.child.id()));
        dolmen_env::wait(Duration::from_millis(10));
    }
    mounted.first().signal(Signal::SIGKILL);
    // Nobody has to kill who waits for it; one waits for a word instead.
    mounted.first().ends();
    users[0].1.tell("end");
    all_end(running(&mut users), SOON);
    mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[]));
    mounted.first_again(&[]);
    assert_eq!(shell(&mounted, "cat read/f | wc -c"), "4194304\n");
    mounted.finish();
}

#[test]
fn a_mount_that_is_taken_away_by_force_ends_whoever_waits_for_it() {
    if !can_be_others() {
        return;
    }
    let Some(mut mounted) = mounted("stuck-forced", &["data"], "600") else { return };
    mounted.mount("other", &[]);
    let mut users = users(&mounted, &[&waiting_calls(&["data"])[..], &FLUSHES].concat());
    signal_daemon(&mounted, Signal::SIGSTOP);
    begin(&mut users);
    mounted.place.ok(&["unmount", "mnt", "--force"]);
    all_end(running(&mut users), SOON);
    mounted.place.ok(&["unmount", "other", "--lazy"]);
    signal_daemon(&mounted, Signal::SIGCONT);
    mounted.mounts.drain(..).for_each(|mut mount| assert_eq!(mount.ends(), 0));
    mounted.mount("mnt", &[]);
    assert_eq!(shell(&mounted, "cat read/f | wc -c"), "4194304\n");
    mounted.finish();
}

pub(super) fn kill_mount(name: &str, cache: &[&str]) -> Option<String> {
    let mut mounted = mounted(name, cache, "600")?;
    let way = way(&mounted, "mnt");
    let mut users = users(&mounted, &[&waiting_calls(cache)[..], &FLUSHES].concat());
    signal_daemon(&mounted, Signal::SIGSTOP);
    begin(&mut users);
    mounted.first().signal(Signal::SIGKILL);
    // Nobody has to kill them.
    all_end(running(&mut users), SOON);
    signal_daemon(&mounted, Signal::SIGCONT);
    mounted.next_first(&[]);
    assert_eq!(shell(&mounted, "cat read/f | wc -c"), "4194304\n");
    mounted.finish();
    Some(way)
}

#[test]
fn one_dead_engine_of_two_leaves_nobody_who_cannot_be_killed() {
    const FILES: u8 = 16;
    if !can_mount("stuck-engines") {
        return;
    }
    let place = Place::new("mounted-engines");
    engines::list(&place, 2);
    let (_first, second) = (engines::serve(&place, 0), engines::serve(&place, 1));
    let system = format!("unix:{}", place.path("r0/dolmen.sock").display());
    place.ok(&["dmg", "-G", &system, "pool", "create", "tank", "--size", "4GB"]);
    let pool = format!("{system}/tank");
    place.ok(&["cont", "create", &pool, "c", "--type", "POSIX"]);
    let mut mount = Mount::of_pool(&place, &pool, "mnt", &["--cache", "off", "--deadline", "600"]);
    let file = |n: u8| mount.dir.join(format!("f{n}"));
    for n in 0..FILES {
        fs::write(file(n), bytes(100_000, u64::from(n))).unwrap();
    }
    drop(second);
    let reader = |n: u8| Running::of(Command::new("cat").arg(file(n)).stdout(Stdio::null()));
    let mut readers: Vec<_> = (0..FILES).map(reader).collect();
    dolmen_env::wait(Duration::from_secs(1));
    assert!(readers.iter_mut().any(|reader| !reader.is_over()), "some wait for what the dead engine has");
    for reader in &mut readers {
        reader.0.kill().unwrap();
    }
    all_end(readers.iter_mut().map(|reader| ("cat", reader)), SOON);
    let _again = engines::serve(&place, 1);
    for n in 0..FILES {
        assert!(fs::read(file(n)).unwrap() == bytes(100_000, u64::from(n)), "file {n}");
    }
    unmounted(&place, "mnt");
    mount.ends();
}
