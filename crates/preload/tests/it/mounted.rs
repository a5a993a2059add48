//! A container behind a daemon, mounted for a test.

use crate::untested::untested;
use core::time::Duration;
use dolmen_env::{Clock, KernelDevice, MountRequest, RealClock};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};

/// After so long a mount's process is killed, whatever it is used for.
const GUARD: Duration = Duration::from_secs(150);
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(90);
/// How long to wait for what takes a moment.
const MOMENT: Duration = Duration::from_secs(30);
const REST: Duration = Duration::from_millis(5);

/// A container that is mounted in `mnt` beside the directory of its pools, which a daemon serves. The mount goes first.
pub(crate) struct Mounted {
    mount: Server,
    second: Option<Server>,
    daemon: Server,
    place: Scratch,
    guard: Option<SyncSender<()>>,
}

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A process that serves something.
struct Server {
    child: Child,
    /// What is mounted, if it is a mount's.
    dir: Option<PathBuf>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The number of one that has ended may be another's.
        if let Ok(None) = self.child.try_wait() {
            break_off(self.child.id(), self.dir.as_deref());
            drop(self.child.wait());
        }
    }
}

/// The program, which is built with the tests of the whole workspace.
pub(crate) fn dolmen() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let found = own.parent().unwrap().parent().unwrap().join("dolmen");
    assert!(found.exists(), "{} is not there: build it with `cargo build -p dolmen-cli`", found.display());
    found
}

fn library() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().join("libdolmen_preload.so")
}

fn can_mount(place: &Path) -> bool {
    let dir = place.join("probe");
    fs::create_dir(&dir).unwrap();
    let source = "probe".to_owned();
    let request = MountRequest { dir: dir.clone(), source, read_only: true, allow_other: false };
    match KernelDevice::mount(&request) {
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

impl Mounted {
    /// `None` where nothing can be mounted.
    pub(crate) fn new(name: &str) -> Option<Self> {
        Self::with(name, &[], &[])
    }

    /// One that other users may use, and whose daemon lets them in; `None` where a process cannot be one of them.
    pub(crate) fn for_others(name: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            untested("DOLMEN_TEST_MOUNTS", "nobody else than root becomes other users");
            return None;
        }
        let mounted = Self::with(name, &["--socket-mode", "0666"], &["--allow-other"])?;
        let entry = ["update-acl", "--entry", "A::EVERYONE@:rw"];
        for (tool, what, names) in [("dmg", "pool", &["p"][..]), ("daos", "cont", &["p", "c"])] {
            let words = [&[tool, "-G", "unix:sys/dolmen.sock", what], &entry[..], names].concat();
            ran(&mounted.place.0, &words);
        }
        Some(mounted)
    }

    /// With words more for the daemon, and for the mount.
    pub(crate) fn with(name: &str, of_daemon: &[&str], of_mount: &[&str]) -> Option<Self> {
        let dir =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("preload-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&dir));
        fs::create_dir_all(dir.join("sys")).unwrap();
        fs::create_dir(dir.join("mnt")).unwrap();
        let place = Scratch(dir);
        can_mount(&place.0).then_some(())?;
        ran(&place.0, &["pool", "create", "sys/p", "--targets", "2"]);
        ran(&place.0, &["cont", "create", "sys/p", "c"]);
        let daemon = started(&place.0, &[&["serve", "sys"], of_daemon].concat(), "serving at", None);
        let mnt = place.0.join("mnt");
        let words = [&["mount", "sys/p", "c", "mnt", "--foreground"], of_mount].concat();
        let mount = started(&place.0, &words, "shows the files", Some(mnt.clone()));
        let guard = Some(guard(mount.child.id(), mnt));
        Some(Self { mount, second: None, daemon, place, guard })
    }

    /// Mounts the same once more, where others may use it; the path of `name` there.
    pub(crate) fn mount_again(&mut self, name: &str) -> PathBuf {
        let dir = self.place.0.join("again");
        fs::create_dir(&dir).unwrap();
        let words = ["mount", "sys/p", "c", "again", "--foreground", "--allow-other"];
        self.second = Some(started(&self.place.0, &words, "shows the files", Some(dir.clone())));
        dir.join(name)
    }

    /// A path in the mount.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.0.join("mnt").join(name)
    }

    /// A path beside the mount.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.place.0.join(name)
    }

    /// A program, with the library or without.
    pub(crate) fn command(&self, program: &Path, is_taken: bool) -> Command {
        let mut command = Command::new(program);
        if is_taken {
            command.env("LD_PRELOAD", library());
            command.env("DOLMEN_PRELOAD_REPORT", "1").env("DOLMEN_PRELOAD_AFTER", "0");
        }
        command
    }

    /// Runs a program that uses the mount, for a limited time.
    pub(crate) fn limited(&self, command: &mut Command) -> Output {
        let child = self.begun(command.stdin(Stdio::null()));
        self.ended(child, &format!("{command:?}"))
    }

    /// The same, and does something to the mount when the program has printed a line that begins with `word`; then the program is
    /// sent one.
    pub(crate) fn limited_between(
        &mut self,
        command: &mut Command,
        word: &str,
        between: impl FnOnce(&mut Self),
    ) -> (Output, String) {
        let mut child = self.begun(command.stdin(Stdio::piped()));
        let out = self.place.0.join("limited-out");
        let said = || fs::read_to_string(&out).unwrap_or_default();
        let end_ns = RealClock.monotonic_ns() + nanoseconds(MOMENT);
        while !said().contains(word)
            && RealClock.monotonic_ns() < end_ns
            && child.try_wait().unwrap().is_none()
        {
            std::thread::park_timeout(REST);
        }
        let before = said();
        between(self);
        // A program that has ended already takes nothing.
        drop(child.stdin.take().map(|mut stdin| stdin.write_all(b"go on\n")));
        (self.ended(child, &format!("{command:?}")), before)
    }

    fn begun(&self, command: &mut Command) -> Child {
        let [out, err] =
            ["limited-out", "limited-err"].map(|name| fs::File::create(self.place.0.join(name)).unwrap());
        command.stdout(out).stderr(err).process_group(0).spawn().unwrap()
    }

    fn ended(&self, mut child: Child, words: &str) -> Output {
        let group = pid(child.id());
        let end_ns = RealClock.monotonic_ns() + nanoseconds(LIMIT);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if RealClock.monotonic_ns() > end_ns {
                break_off(self.mount.child.id(), self.mount.dir.as_deref());
                killpg(group, Signal::SIGKILL).unwrap_or_default();
                drop(child.wait());
                break None;
            }
            std::thread::park_timeout(REST);
        };
        // What it has left behind.
        killpg(group, Signal::SIGKILL).unwrap_or_default();
        let [stdout, stderr] =
            ["limited-out", "limited-err"].map(|name| fs::read(self.place.0.join(name)).unwrap());
        let Some(status) = status else {
            panic!("{words} has not ended after {LIMIT:?}\n{}", String::from_utf8_lossy(&stderr))
        };
        Output { status, stdout, stderr }
    }

    /// Kills the daemon, and starts another.
    pub(crate) fn kill_and_start_daemon(&mut self) {
        kill(pid(self.daemon.child.id()), Signal::SIGKILL).unwrap();
        drop(self.daemon.child.wait());
        self.daemon = started(&self.place.0, &["serve", "sys"], "serving at", None);
    }

    /// Sends the daemon a signal.
    pub(crate) fn signal_daemon(&self, signal: Signal) {
        kill(pid(self.daemon.child.id()), signal).unwrap();
    }

    /// Takes the mount away, ends the daemon, and has the pool audited.
    pub(crate) fn finish(self) {
        let Self { mount, second, mut daemon, place, guard } = self;
        let end_ns = RealClock.monotonic_ns() + nanoseconds(MOMENT);
        let again = second.map(|second| ("again", second));
        for (dir, mut mount) in [("mnt", mount)].into_iter().chain(again) {
            // Another test's child has the files of this process for a moment before it begins.
            while !command(&place.0, &["unmount", dir]).status().unwrap().success() {
                assert!(RealClock.monotonic_ns() < end_ns, "the mount stays in use");
                std::thread::park_timeout(REST);
            }
            ends(&mut mount.child);
        }
        kill(pid(daemon.child.id()), Signal::SIGTERM).unwrap();
        ends(&mut daemon.child);
        drop(guard);
        let said = ran(&place.0, &["check", "sys/p"]);
        assert!(said.contains("clean"), "{said}");
    }
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(dolmen());
    command.current_dir(dir).args(args).stdin(Stdio::null());
    command
}

/// Runs a command of the program that must succeed; what it prints.
fn ran(dir: &Path, args: &[&str]) -> String {
    let output = command(dir, args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Starts a process, and waits for its first line, which must have these words in it.
fn started(place: &Path, args: &[&str], words: &str, dir: Option<PathBuf>) -> Server {
    let log = place.join(format!("{}.log", args[0]));
    let mut command = command(place, args);
    command.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let mut server = Server { child: command.spawn().unwrap(), dir };
    let said = server.child.stdout.take().unwrap();
    let (told, line) = sync_channel(1);
    let reader = dolmen_env::spawn("reader", move || {
        let mut line = String::new();
        drop(BufReader::new(said).read_line(&mut line));
        drop(told.send(line));
    });
    let line = line.recv_timeout(MOMENT).unwrap_or_default();
    assert!(line.contains(words), "{line}{}", fs::read_to_string(&log).unwrap_or_default());
    reader.unwrap().join().unwrap();
    server
}

fn ends(child: &mut Child) {
    let end_ns = RealClock.monotonic_ns() + nanoseconds(MOMENT);
    while child.try_wait().unwrap().is_none() {
        assert!(RealClock.monotonic_ns() < end_ns, "process {} does not end", child.id());
        std::thread::park_timeout(REST);
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}

/// Ends a server, and whoever waits for the mount: its connection, its process, its name.
fn break_off(server: u32, dir: Option<&Path>) {
    let mounted = || dir.and_then(|dir| dolmen_env::mounted_at(dir).ok()?);
    if let Some(mounted) = mounted() {
        // Only where the file system of connections is mounted.
        drop(fs::write(format!("/sys/fs/fuse/connections/{}/abort", mounted.minor), b"1"));
    }
    kill(pid(server), Signal::SIGKILL).unwrap_or_default();
    if let Some(mounted) = mounted() {
        drop(dolmen_env::unmount(&mounted.dir, dolmen_env::InUse::Later));
    }
}

/// Breaks a mount off that is still there after [`GUARD`].
fn guard(server: u32, dir: PathBuf) -> SyncSender<()> {
    let (done, waits) = sync_channel(1);
    let watch = move || {
        if waits.recv_timeout(GUARD) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("a mount is broken off after {GUARD:?}");
            break_off(server, Some(&dir));
        }
    };
    drop(dolmen_env::spawn("guard", watch).unwrap());
    done
}

/// Compiles a program of `tests/c`.
pub(crate) fn program(mounted: &Mounted, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(format!("{name}.c"));
    let built = mounted.place.0.join(name);
    let output = Command::new("cc").args(["-O1", "-w", "-o"]).arg(&built).arg(source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    built
}
