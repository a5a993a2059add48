//! Containers mounted as directories, used as programs use them.
//!
//! A mount that answers nobody would hold whoever uses it for ever, and no signal would end him. So each mount here has a guard
//! that kills its process after a while, which ends all that wait for it with an error; and programs that are run on a mount are
//! run by [`limited`]. While a mount's daemon is dead or stands still, no file of that mount is open in this process: whatever any
//! test starts has the files of this process for a moment and closes them, which would wait for that daemon.
//!
//! Where nothing can be mounted that is said, and is an error if mounts are required ([`untested`]).

mod about;
mod bad_input;
mod caching;
mod databases;
mod files;
mod guests;
mod leases;
mod listing;
mod locks;
mod names;
mod opens;
mod orphans;
mod outages;
mod owners;
mod quota;
mod random;
mod rings;
mod script;
mod several;
mod snapshots;
mod speed;
mod stuck;
mod suites;
mod taken;
mod times;
mod trees;
mod unprivileged;

use crate::common::{Place, amount};
use crate::served::Daemon;
use crate::untested::untested;
use core::fmt::Write as _;
use core::time::Duration;
use dolmen_env::{Clock, KernelDevice, MountRequest, RealClock};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};

/// After so long a mount's process is killed, whatever it is used for.
const GUARD: Duration = Duration::from_secs(300);
/// How long to wait for what takes a moment.
const MOMENT: Duration = Duration::from_secs(30);
/// How long to wait for what others may hold up.
const MINUTE: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_millis(5);

/// A container that is mounted in `mnt` beside the directory of its pools, and maybe a daemon that serves these.
pub(super) struct Mounted {
    // In the order in which they go: nothing in the place may be removed while it is mounted.
    mounts: Vec<Mount>,
    pub(super) daemon: Option<Daemon>,
    pub(super) place: Place,
}

/// Whether this machine lets this user mount at all: where it does not, there is nothing to be tested.
pub(super) fn can_mount(name: &str) -> bool {
    let place = Place::new(&format!("mount-probe-{name}"));
    let dir = place.path("mnt");
    fs::create_dir(&dir).unwrap();
    let source = "probe".to_owned();
    let probe =
        KernelDevice::mount(&MountRequest { dir: dir.clone(), source, read_only: true, allow_other: false });
    match probe {
        Ok(device) => {
            drop(device);
            dolmen_env::unmount(&dir, dolmen_env::InUse::Later).unwrap();
            true
        }
        Err(error) => {
            untested("DOLMEN_TEST_MOUNTS", &format!("nothing can be mounted: {error}"));
            false
        }
    }
}

/// Whether a program is there that this test takes; `cargo xtask tools` lists them.
pub(super) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !is_there {
        untested("DOLMEN_TEST_TOOLS", &format!("{program} is not installed"));
    }
    is_there
}

/// Whether this process can act as several users.
pub(super) fn can_be_others() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        untested("DOLMEN_TEST_USERS", "only root can be several users");
    }
    is_root
}

impl Mounted {
    /// A pool in process, mounted with these options; `None` where nothing can be mounted.
    pub(super) fn alone(name: &str, args: &[&str]) -> Option<Self> {
        Self::new(name, false, [&[]; 2], args)
    }

    /// A pool in process, with a container that need not outlive a loss of power.
    pub(super) fn quick(name: &str) -> Option<Self> {
        Self::new(name, false, [&[], &["--durability", "process"]], &[])
    }

    /// A pool behind a daemon.
    pub(super) fn served(name: &str, args: &[&str]) -> Option<Self> {
        Self::new(name, true, [&[]; 2], args)
    }

    /// The same, of a size of its own: what is free in it does not depend on what others do to the disk.
    pub(super) fn sized(name: &str, capacity: &str) -> Option<Self> {
        Self::new(name, true, [&["--capacity", capacity], &[]], &[])
    }

    fn new(
        name: &str,
        is_served: bool,
        [of_pool, of_container]: [&[&str]; 2],
        args: &[&str],
    ) -> Option<Self> {
        can_mount(name).then_some(())?;
        let place = Place::new(&format!("mounted-{name}"));
        fs::create_dir(place.path("sys")).unwrap();
        place.pool(&[&["sys/p", "--targets", "2"], of_pool].concat());
        place.ok(&[&["cont", "create", "sys/p", "c"], of_container].concat());
        let daemon = is_served.then(|| Daemon::start_in(&place, "sys", &[]));
        let mut mounted = Self { mounts: Vec::new(), daemon, place };
        mounted.mount("mnt", args);
        Some(mounted)
    }

    /// Mounts the container in another directory as well.
    pub(super) fn mount(&mut self, dir: &str, args: &[&str]) {
        self.mounts.push(Mount::start(&self.place, dir, args));
    }

    /// A path in the first mount.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.place.path("mnt").join(name)
    }

    pub(super) fn first(&mut self) -> &mut Mount {
        &mut self.mounts[0]
    }

    /// Kills the daemon that serves the pool, and starts the next one. No file of a mount may be open in this process.
    pub(super) fn next_daemon(&mut self) {
        drop(self.daemon.take());
        self.daemon = Some(Daemon::start_in(&self.place, "sys", &[]));
    }

    /// Kills the process of the first mount, and mounts anew in its place.
    pub(super) fn next_first(&mut self, args: &[&str]) {
        self.first().signal(Signal::SIGKILL);
        self.first().ends();
        self.first_again(args);
    }

    /// Mounts anew in place of the first mount, whose process has ended.
    pub(super) fn first_again(&mut self, args: &[&str]) {
        unmounted(&self.place, "mnt");
        drop(self.mounts.remove(0));
        self.mounts.insert(0, Mount::start(&self.place, "mnt", args));
    }

    /// Takes all mounts away, as a user does.
    pub(super) fn unmount(&mut self) {
        for mut mount in self.mounts.drain(..) {
            unmounted(&self.place, mount.dir.to_str().unwrap());
            mount.ends();
        }
    }

    /// Takes the mounts away and has the pool audited.
    pub(super) fn finish(mut self) {
        self.unmount();
        if let Some(daemon) = self.daemon.take() {
            daemon.end();
        }
        let said = self.place.ok(&["check", "sys/p"]);
        assert!(said.contains("clean"), "{said}");
    }
}

/// One mount and the process that serves it.
pub(super) struct Mount {
    pub(super) dir: PathBuf,
    pub(super) child: Child,
    log: PathBuf,
    guard: Option<SyncSender<()>>,
}

impl Mount {
    fn start(place: &Place, dir: &str, args: &[&str]) -> Self {
        Self::of_pool(place, "sys/p", dir, args)
    }

    /// The container `c` of any pool.
    pub(super) fn of_pool(place: &Place, pool: &str, dir: &str, args: &[&str]) -> Self {
        Self::serve(place, dir, &[&["mount", pool, "c", dir, "--foreground"], args].concat())
    }

    /// A command that stays while something is mounted in `dir`, and says so in its first line.
    fn serve(place: &Place, dir: &str, words: &[&str]) -> Self {
        let path = place.path(dir);
        fs::create_dir_all(&path).unwrap();
        let log = place.path(&format!("{dir}.log"));
        let mut command = place.command(words);
        command.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let said = child.stdout.take().unwrap();
        let (told, line) = sync_channel(1);
        let reader = dolmen_env::spawn("reader", move || {
            let mut line = String::new();
            drop(BufReader::new(said).read_line(&mut line));
            drop(told.send(line));
        });
        let line = line.recv_timeout(MOMENT).unwrap_or_default();
        let mut mount = Self { dir: path, child, log, guard: None };
        assert!(line.contains(" shows "), "{line}{}", mount.log());
        reader.unwrap().join().unwrap();
        mount.guard = Some(guard(mount.child.id(), mount.dir.clone()));
        mount
    }

    /// What its process has said.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for its process to end.
    pub(super) fn ends(&mut self) -> i32 {
        let end_ns = RealClock.monotonic_ns() + nanoseconds(MOMENT);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(
                RealClock.monotonic_ns() < end_ns,
                "the mount's process does not end\n{}",
                stacks(self.child.id())
            );
            std::thread::park_timeout(REST);
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(pid(self.child.id()), signal).unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(self.guard.take());
        break_off(self.child.id(), &self.dir);
        drop(self.child.wait());
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}

/// Takes a mount away, and tells what the command says. Of another test's programs, each has the files of this process for a
/// moment before it begins, so that the mount may be in use until then.
pub(super) fn unmounted(place: &Place, dir: &str) -> String {
    let mut said = None;
    wait_until("nobody uses the mount", || {
        let ran = place.run(&["unmount", dir, "--json"]);
        assert!(matches!(ran.code(), 0 | 5), "{ran:?}");
        said = (ran.code() == 0).then(|| ran.stdout());
        said.is_some()
    });
    said.unwrap()
}

/// What is said of a mount whose process has just been killed: by some ways at once what is said later, too.
pub(super) fn is_gone(error: &std::io::Error) -> bool {
    const ENOTCONN: i32 = 107;
    const ECONNABORTED: i32 = 103;
    matches!(error.raw_os_error(), Some(ENOTCONN | ECONNABORTED))
}

/// Ends whoever waits for the mount: its connection, its process, its name.
fn break_off(server: u32, dir: &Path) {
    if let Ok(Some(mounted)) = dolmen_env::mounted_at(dir) {
        // Only where the file system of connections is mounted.
        drop(fs::write(format!("/sys/fs/fuse/connections/{}/abort", mounted.minor), b"1"));
    }
    kill(pid(server), Signal::SIGKILL).unwrap_or_default();
    if let Ok(Some(_)) = dolmen_env::mounted_at(dir) {
        drop(dolmen_env::unmount(dir, dolmen_env::InUse::Later));
    }
}

/// Breaks a mount off that is still there after [`GUARD`].
fn guard(server: u32, dir: PathBuf) -> SyncSender<()> {
    let (done, waits) = sync_channel(1);
    let watch = move || {
        // Long runs make a directory of so many entries.
        let limit = GUARD + Duration::from_millis(amount("MOUNT_ENTRIES", 0));
        if waits.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a mount is broken off after {limit:?}\n{}", stacks(server));
            break_off(server, &dir);
        }
    };
    drop(dolmen_env::spawn("guard", watch).unwrap());
    done
}

/// Where the threads of a process stand in the kernel.
fn stacks(process: u32) -> String {
    let mut text = String::new();
    for (task, name, wait) in threads(process) {
        let stack = fs::read_to_string(task.join("stack")).unwrap_or_default();
        writeln!(text, "{} {name}: {wait}\n{stack}", task.display()).unwrap();
    }
    text
}

/// The threads of a process, each with its name and what it waits for in the kernel; of one that has ended just now with neither.
fn threads(process: u32) -> Vec<(PathBuf, String, String)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let paths = tasks.into_iter().flatten().flatten().map(|task| task.path());
    let described = paths.map(|task| {
        let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default().trim().to_owned();
        let (name, wait) = (read("comm"), read("wchan"));
        (task, name, wait)
    });
    described.collect()
}

/// A process that does not outlive the test, however that ends. One that waits for a mount ends when that is broken off.
pub(super) struct Running(pub(super) Child);

impl Running {
    pub(super) fn of(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    pub(super) fn is_over(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Ends it as nobody can refuse to.
    pub(super) fn kill(&mut self) {
        self.0.kill().unwrap();
        wait_until("a killed process ends", || self.is_over());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The same command; whatever it starts ends with it, also what leaves its group, where this user may see to that. It goes to
/// its directory by itself, since nobody can be killed in the moment between a fork and the program.
fn contained(command: &Command) -> Command {
    let words = if rustix::process::geteuid().is_root() {
        &["unshare", "--pid", "--fork", "--kill-child", "sh", "-c"][..]
    } else {
        &["sh", "-c"]
    };
    let mut contained = Command::new(words[0]);
    contained.args(&words[1..]).arg(r#"cd "$0" || exit 126; "$@"; exit $?"#);
    contained.arg(command.get_current_dir().unwrap_or(Path::new("/")));
    contained.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => contained.env(name, value),
            None => contained.env_remove(name),
        };
    }
    contained
}

/// Runs a program that uses a mount, for at most so long; then the mount is broken off, so that nothing of the program can be
/// waiting for it, the program is killed with all that it has started, and the test fails.
pub(super) fn limited(mounted: &Mounted, command: &Command, limit: Duration) -> Output {
    ended(&mounted.place, contained(command), limit, || {
        let mut text = String::new();
        for mount in &mounted.mounts {
            text.push_str(&stacks(mount.child.id()));
            text.push_str(&mount.log());
            break_off(mount.child.id(), &mount.dir);
        }
        text
    })
}

/// Runs a program for at most so long; then `break_off` has to end whatever it may be waiting for, and tells about it.
fn ended(place: &Place, mut command: Command, limit: Duration, break_off: impl FnOnce() -> String) -> Output {
    let [out, err] = ["out", "err"].map(|name| place.path(&format!("limited-{name}")));
    let [stdout, stderr] = [&out, &err].map(|path| fs::File::create(path).unwrap());
    let mut child = Running::of(command.process_group(0).stdout(stdout).stderr(stderr));
    let group = pid(child.0.id());
    let end_ns = RealClock.monotonic_ns() + nanoseconds(limit);
    while !child.is_over() && RealClock.monotonic_ns() < end_ns {
        std::thread::park_timeout(REST);
    }
    let status = child.0.try_wait().unwrap();
    let text = if status.is_none() { break_off() } else { String::new() };
    // Also what it has left behind.
    killpg(group, Signal::SIGKILL).unwrap_or_default();
    drop(child);
    let [stdout, stderr] = [out, err].map(|path| fs::read(path).unwrap());
    match status {
        Some(status) => Output { status, stdout, stderr },
        None => {
            let said = String::from_utf8_lossy(&stderr);
            panic!("{command:?} has not ended after {limit:?}\n{said}\n{text}");
        }
    }
}

/// Runs a line of the shell in the first mount, which must succeed; what it prints.
pub(super) fn shell(mounted: &Mounted, line: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", line]).current_dir(mounted.path(""));
    let output = limited(mounted, &command, Duration::from_secs(60));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{line}: {}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Waits until something is so.
pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end_ns = RealClock.monotonic_ns() + nanoseconds(MOMENT);
    while !is_so() {
        assert!(RealClock.monotonic_ns() < end_ns, "waited in vain: {what}");
        std::thread::park_timeout(REST);
    }
}
