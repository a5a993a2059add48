//! A daemon and clients of it, in processes of their own that can be killed.

use crate::kit;
use dolmen_client::{Credentials, Pool};
use dolmen_codec::wire::PoolAccess;
use dolmen_daemon::{Daemon, Settings};
use dolmen_env::Address;
use dolmen_net::client::{LinkOptions, reach};
use dolmen_types::Head;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// The test that is a daemon in a child.
const NAME: &str = "killed::process::a_daemon_of_its_own_serves_until_it_is_killed";
/// Set for the child: what it serves, and where on the network.
const DIRECTORY: &str = "LOAD_DIRECTORY";
const ADDRESS: &str = "LOAD_ADDRESS";

/// A daemon; killed when it is dropped.
pub(crate) struct Served {
    dir: PathBuf,
    child: Child,
    tcp: SocketAddr,
}

impl Served {
    pub(crate) fn start(dir: &Path) -> Self {
        let (child, tcp) = spawn(dir, "127.0.0.1:0".parse().unwrap());
        Self { dir: dir.to_owned(), child, tcp: tcp.expect("it says where") }
    }

    /// Kills it, and waits until it is dead.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again at the same addresses.
    pub(crate) fn start_again(&mut self) {
        let (child, tcp) = spawn(&self.dir, self.tcp);
        self.child = child;
        assert_eq!(tcp, Some(self.tcp));
    }

    /// Starts it again and kills it a moment later, wherever it is by then.
    pub(super) fn start_and_kill(&mut self, after: Duration) {
        self.child = command(&self.dir, self.tcp).spawn().unwrap();
        dolmen_env::wait(after);
        self.kill();
    }

    /// What a client calls the system: by its socket, or by the network.
    pub(crate) fn system(&self, by_network: bool) -> String {
        if by_network { format!("tcp://{}", self.tcp) } else { format!("unix:{}", self.socket().display()) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A connection to one of its pools.
    pub(crate) fn connected(&self, pool: &str) -> Pool {
        let link = reach::link(&Address::Unix(self.socket()), &LinkOptions::default()).unwrap();
        let name = reach::pool_name(pool).unwrap();
        let remote = reach::pool(&link, &Head::default(), name, PoolAccess::ReadWrite).unwrap();
        Pool::connect(Arc::new(remote), Credentials::default()).unwrap()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join(Settings::SOCKET_NAME)
    }

    fn of_process(&self, what: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{what}", self.child.id()))
    }

    /// Mapped memory that it shares with clients.
    pub(super) fn shared_count(&self) -> usize {
        let maps = std::fs::read_to_string(self.of_process("maps")).unwrap();
        maps.lines().filter(|line| line.contains("dolmen-rings")).count()
    }

    /// Descriptors of connections, files apart.
    pub(super) fn descriptor_count(&self) -> usize {
        let all = std::fs::read_dir(self.of_process("fd")).unwrap();
        let targets = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let of_connection = |target: &str| {
            ["socket:", "anon_inode:[pidfd]", "/memfd:"].iter().any(|kind| target.starts_with(kind))
        };
        targets.filter(|target| of_connection(&target.to_string_lossy())).count()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have been killed before.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn command(dir: &Path, tcp: SocketAddr) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([NAME, "--exact", "--nocapture"]).env(DIRECTORY, dir).env(ADDRESS, tcp.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts a daemon and waits until it serves; where on the network it then says.
fn spawn(dir: &Path, tcp: SocketAddr) -> (Child, Option<SocketAddr>) {
    let mut child = command(dir, tcp).stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut last = Vec::new();
    for line in said {
        if let Some(at) = line.strip_prefix("serves at ") {
            return (child, at.parse().ok());
        }
        last.push(line);
    }
    // Ignored: what it said last tells more.
    let _ended = child.wait();
    panic!("no daemon: {last:?}");
}

#[test]
fn a_daemon_of_its_own_serves_until_it_is_killed() {
    if let (Some(dir), Ok(tcp)) = (std::env::var_os(DIRECTORY), std::env::var(ADDRESS)) {
        let mut settings = Settings::new(PathBuf::from(dir));
        settings.addresses.push(Address::Tcp(tcp.parse().unwrap()));
        // Should whoever has started it be gone.
        settings.idle_end = Some(Duration::from_secs(60));
        // Ignored: nobody may listen to its notes any more.
        let daemon = Daemon::start(&settings, |note| _ = writeln!(std::io::stderr(), "{note}")).unwrap();
        let Address::Tcp(at) = &daemon.addresses()[1] else { panic!("the second address is of the network") };
        eprintln!("serves at {at}");
        daemon.wait(|| false);
        return daemon.stop().unwrap();
    }
    let dir = kit::system("daemon-of-its-own");
    let mut served = Served::start(&dir);
    served.kill();
    served.start_again();
    assert!(served.descriptor_count() > 0);
}

/// A client under load: a process of a program in `tests/c`.
pub(super) struct Client {
    child: Child,
    orders: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Client {
    pub(super) fn start(served: &Served, kind: &str, rank: usize, ranks: usize) -> Self {
        Self::with(served, "load", &[kind, &rank.to_string(), &ranks.to_string()], rank % 2 == 1)
    }

    /// A process of a program with these arguments, whose system is reached by its socket or by the network.
    pub(super) fn with(served: &Served, program: &str, arguments: &[&str], by_network: bool) -> Self {
        let mut command = Command::new(kit::program(program));
        command.args(arguments).env("DOLMEN_SYSTEM", served.system(by_network));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = child.stdin.take().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, orders, said }
    }

    pub(super) fn go(&mut self, first: u64, count: u64) {
        writeln!(self.orders, "go {first} {count}").unwrap();
    }

    /// What it says until it is idle, or dead; each line is told to `heard`.
    pub(super) fn listen(&mut self, heard: impl Fn(&str)) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let len = self.said.read_line(&mut line).unwrap();
            // The kill may have cut a line off.
            if len == 0 || !line.ends_with('\n') || line == "idle\n" {
                return lines;
            }
            heard(&line);
            lines.push(line);
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, and waits until it is dead.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it has ended, by being killed.
    pub(super) fn was_killed(&mut self) -> bool {
        self.child.wait().unwrap().signal() == Some(libc::SIGKILL)
    }

    /// That it has not ended by itself.
    pub(super) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have been killed before.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
