//! Daemons in processes of their own: what they hold is counted from outside, and they can be killed.

use crate::common::Way;
use dolmen_codec::wire::{SystemReply, SystemVerb};
use dolmen_daemon::{Daemon, Settings};
use dolmen_env::Address;
use dolmen_net::client::{Link, LinkOptions};
use dolmen_types::Head;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

const NAME: &str = "child::a_daemon_in_a_process_of_its_own_ends_when_it_is_told_to";
/// Set for the child: what it serves, how many descriptors it may have, and where it listens.
const DIRECTORY: &str = "DAEMON_DIRECTORY";
const DESCRIPTORS: &str = "DAEMON_DESCRIPTORS";
const ADDRESS: &str = "DAEMON_ADDRESS";

/// In its directory: what it says.
const NOTES: &str = "notes";

/// A daemon that runs as a process; killed when it is dropped.
pub(crate) struct ChildDaemon {
    /// Guards the process; taken alone.
    process: Mutex<Process>,
    dir: PathBuf,
    addresses: [Address; 2],
}

struct Process {
    child: Child,
    /// Read no further, but open: its last words go there.
    _said: Lines<BufReader<ChildStdout>>,
}

impl ChildDaemon {
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_with(dir, 0)
    }

    /// A daemon that may have so many descriptors; 0 for as many as this process.
    pub(crate) fn start_with(dir: &Path, descriptor_count: u64) -> Self {
        let (process, tcp) = spawn(dir, descriptor_count, "127.0.0.1:0".parse().unwrap());
        let unix = Address::Unix(dir.join(Settings::SOCKET_NAME));
        Self { process: Mutex::new(process), dir: dir.to_owned(), addresses: [unix, Address::Tcp(tcp)] }
    }

    /// Starts it again, after it was killed, at the same addresses.
    pub(crate) fn start_again(&self) {
        let Address::Tcp(tcp) = &self.addresses[1] else { panic!("the second address is of the network") };
        let (process, _) = spawn(&self.dir, 0, *tcp);
        *self.process() = process;
    }

    /// Kills it and starts it again before it is dead for sure.
    pub(crate) fn replace(&self) {
        let Address::Tcp(tcp) = &self.addresses[1] else { panic!("the second address is of the network") };
        self.process().child.kill().unwrap();
        let (process, _) = spawn(&self.dir, 0, *tcp);
        let mut former = core::mem::replace(&mut *self.process(), process);
        former.child.wait().unwrap();
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap()
    }

    fn id(&self) -> u32 {
        self.process().child.id()
    }

    pub(crate) fn address(&self, way: Way) -> &Address {
        &self.addresses[usize::from(way == Way::Tcp)]
    }

    pub(crate) fn link(&self, way: Way) -> Link {
        self.link_with(way, Duration::from_secs(20))
    }

    pub(crate) fn link_with(&self, way: Way, patience: Duration) -> Link {
        let ring_bytes = if way == Way::Rings { 1 << 18 } else { 0 };
        let options = LinkOptions { ring_bytes, patience, ..LinkOptions::default() };
        Link::connect(self.address(way), &options).unwrap()
    }

    fn process_directory(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.id()))
    }

    /// Open descriptors of connections: of what they are, files apart.
    pub(crate) fn descriptor_count(&self) -> usize {
        let all = std::fs::read_dir(self.process_directory().join("fd")).unwrap();
        let of_connection = |target: &str| {
            ["socket:", "anon_inode:[pidfd]", "/memfd:"].iter().any(|kind| target.starts_with(kind))
        };
        // One that is closed meanwhile does not count.
        let targets = all.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        targets.filter(|target| of_connection(&target.to_string_lossy())).count()
    }

    /// Mapped memory of rings.
    pub(crate) fn ring_count(&self) -> usize {
        let maps = std::fs::read_to_string(self.process_directory().join("maps")).unwrap();
        maps.lines().filter(|line| line.contains("dolmen-rings")).count()
    }

    /// Resident memory of its own.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(self.process_directory().join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// The same, as it is at this moment: the kernel counts the other one in pieces.
    pub(crate) fn anonymous_bytes(&self) -> u64 {
        let rollup = std::fs::read_to_string(self.process_directory().join("smaps_rollup")).unwrap();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Its threads by id: each one's name, and how often it has slept so far.
    pub(crate) fn threads(&self) -> BTreeMap<u32, (String, u64)> {
        let tasks = std::fs::read_dir(self.process_directory().join("task")).unwrap();
        let thread = |path: PathBuf| {
            let id = path.file_name()?.to_str()?.parse().ok()?;
            // One that ends meanwhile is none.
            let status = std::fs::read_to_string(path.join("status")).ok()?;
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            Some((id, (field("Name:")?.to_owned(), field("voluntary_ctxt_switches:")?.parse().ok()?)))
        };
        tasks.filter_map(|task| thread(task.unwrap().path())).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Lets it stand still, and waits until it does.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let threads = self.process_directory().join("task");
        until("all its threads stand still", || {
            // One that has just ended says nothing; the next look does not find it.
            let states = std::fs::read_dir(&threads)
                .unwrap()
                .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")));
            states.into_iter().all(|status| status.is_ok_and(|status| status.contains("State:\tT")))
        });
    }

    /// Tells it to end, and waits until it has.
    pub(crate) fn end(&self) {
        let stopped = self.link(Way::Socket).ask_system(&Head::default(), &SystemVerb::Stop);
        assert_eq!(stopped, Ok(SystemReply::Done));
        assert!(self.process().child.wait().unwrap().success());
    }

    /// Kills it, and waits until it is dead.
    pub(crate) fn kill(&self) {
        let child = &mut self.process().child;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Whether it has ended, by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.process().child.try_wait().unwrap().is_some()
    }

    /// That it has neither ended nor lost a thread.
    pub(crate) fn assert_sound(&self) {
        let notes = std::fs::read_to_string(self.dir.join(NOTES)).unwrap();
        assert!(!notes.contains("panicked"), "{notes}");
        assert!(self.process().child.try_wait().unwrap().is_none(), "it has ended: {notes}");
    }
}

impl Drop for ChildDaemon {
    fn drop(&mut self) {
        let child = &mut self.process.get_mut().unwrap().child;
        // It may have been killed before.
        drop(child.kill());
        drop(child.wait());
    }
}

fn spawn(dir: &Path, descriptor_count: u64, tcp: SocketAddr) -> (Process, SocketAddr) {
    let log = File::options().create(true).append(true).open(dir.join(NOTES)).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([NAME, "--exact", "--nocapture"]).env(DIRECTORY, dir);
    command.env(DESCRIPTORS, descriptor_count.to_string()).env(ADDRESS, tcp.to_string());
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let tcp = loop {
        let Some(line) = said.next() else {
            panic!("no daemon: {}", std::fs::read_to_string(dir.join(NOTES)).unwrap())
        };
        if let Some(at) = line.unwrap().split("serves at ").nth(1) {
            break at.parse().unwrap();
        }
    };
    (Process { child, _said: said }, tcp)
}

/// Waits until `is_so`; `what` is told if that takes too long.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let pause = Duration::from_millis(5);
    for _ in 0..4000 {
        if is_so() {
            return;
        }
        dolmen_env::wait(pause);
    }
    panic!("not within 20 s: {what}");
}

/// Lets this process have as many descriptors as it may.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    limit.maximum.unwrap_or(u64::MAX)
}

fn serve(dir: PathBuf) {
    let descriptors = std::env::var(DESCRIPTORS).unwrap().parse::<u64>().unwrap();
    if descriptors > 0 {
        let limit = Rlimit { current: Some(descriptors), maximum: Some(descriptors) };
        setrlimit(Resource::Nofile, limit).unwrap();
    } else {
        raise_descriptor_limit();
    }
    let mut settings = Settings::new(dir);
    settings.addresses.push(Address::Tcp(std::env::var(ADDRESS).unwrap().parse().unwrap()));
    // Should whoever has started it be gone.
    settings.idle_end = Some(Duration::from_secs(60));
    let daemon = Daemon::start(&settings, |note| eprintln!("daemon: {note}")).unwrap();
    let Address::Tcp(at) = &daemon.addresses()[1] else { panic!("the second address is of the network") };
    println!("serves at {at}");
    daemon.wait(|| false);
    daemon.stop().unwrap();
}

/// Is a daemon, if this process was started to be one; whether it was.
pub(crate) fn serve_if_told() -> bool {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return false };
    serve(PathBuf::from(dir));
    true
}

#[test]
fn a_daemon_in_a_process_of_its_own_ends_when_it_is_told_to() {
    if serve_if_told() {
        return;
    }
    let dir = crate::common::Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    daemon.end();
    assert!(daemon.process().child.try_wait().unwrap().is_some());
}
