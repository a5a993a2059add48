//! Commands beside a daemon: they go through it, and say so when they cannot.

use crate::common::{Place, hearing};
use dolmen_env::DirLock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};

/// A daemon in the place's directory.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    pub(crate) line: String,
}

impl Daemon {
    pub(crate) fn start(place: &Place, args: &[&str]) -> Self {
        Self::start_in(place, ".", args)
    }

    /// A daemon in a directory of the place.
    pub(crate) fn start_in(place: &Place, dir: &str, args: &[&str]) -> Self {
        Self::start_with(place, dir, args, &[])
    }

    /// The same, with variables of its own.
    pub(crate) fn start_with(place: &Place, dir: &str, args: &[&str], envs: &[(&str, &Path)]) -> Self {
        let mut command = place.command(&[&["serve", dir], args].concat());
        command.envs(envs.iter().copied());
        let mut child = hearing(&command).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("serving at unix:"), "{line}");
        Self { child, line }
    }

    pub(crate) fn end(mut self) -> ExitStatus {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn commands_on_a_served_pool_go_through_its_daemon() {
    let place = Place::new("served");
    place.pool_with_files();
    let daemon = Daemon::start(&place, &[]);
    std::fs::write(place.path("menhir"), b"stone").unwrap();
    place.ok(&["fs", "put", "p", "c", "menhir", "/menhir"]);
    assert_eq!(place.ok(&["fs", "cat", "p", "c", "/menhir"]), "stone");
    let sock = format!("unix:{}/p", place.path("dolmen.sock").display());
    assert!(place.ok(&["fs", "ls", &sock, "c"]).contains("menhir"));
    place.ok(&["cont", "create", "p", "d"]);
    assert!(place.ok(&["cont", "list", "p"]).contains('d'));
    place.ok(&["cont", "destroy", "p", "d"]);
    let line = place.fails(5, &["check", "p"]);
    assert!(line.contains("a daemon has the pool p; end it with `dolmen stop .` first"), "{line}");
    let line = place.fails(5, &["serve", "."]);
    assert!(line.contains(&daemon.child.id().to_string()), "the owner is named: {line}");
    daemon.end();
    assert!(place.ok(&["check", "p"]).contains("clean"));
    assert_eq!(place.ok(&["fs", "cat", "p", "c", "/menhir"]), "stone");
}

#[test]
fn the_directory_of_a_pool_is_not_served_and_a_system_is_no_pool() {
    let place = Place::new("served-pool");
    std::fs::create_dir(place.path("my sys")).unwrap();
    place.pool(&["my sys/p", "--targets", "1"]);
    for more in [&[][..], &["--detach"]] {
        let line = place.fails(2, &[&["serve", "my sys/p"], more].concat());
        assert!(
            line.contains("it is the directory of one pool") && line.contains("name 'my sys' in its"),
            "{line}"
        );
    }
    assert!(!place.path("my sys/p/dolmen.log").exists(), "nothing is left in it");
    place.pool(&["q", "--targets", "1"]);
    let line = place.fails(2, &["serve", "q"]);
    assert!(line.contains("name . in its place"), "{line}");
    let line = place.fails(3, &["cont", "list", "my sys"]);
    assert!(line.contains("is not a pool; it holds one: name that, 'my sys/p'"), "{line}");
    place.pool(&["my sys/q", "--targets", "1"]);
    std::fs::create_dir(place.path("mnt")).unwrap();
    let mount = ["mount", "my sys", "c", "mnt", "--log", "log"];
    let line = place.fails(3, &mount);
    assert!(
        line.contains("it holds several: name one") && line.contains("`dolmen pool list 'my sys'`"),
        "{line}"
    );
    std::fs::create_dir(place.path("my sys/none")).unwrap();
    let line = place.fails(3, &["cont", "list", "my sys/none"]);
    assert!(line.contains("or see `dolmen pool list 'my sys'`"), "{line}");
    assert!(place.ok(&["pool", "list", "my sys"]).contains('q'));
    // Who serves the system has its directory, which keeps nobody from anything.
    let daemon = Daemon::start_in(&place, "my sys", &[]);
    for asks in [&["cont", "list", "my sys"][..], &mount] {
        let line = place.fails(3, asks);
        assert!(line.contains("my sys is not a pool; it holds several: name one"), "{line}");
    }
    daemon.end();
}

#[test]
fn who_has_a_pool_by_himself_is_told_to_whoever_asks_a_daemon_for_it() {
    let place = Place::new("served-held");
    place.pool_with_files();
    let mut put = place.command(&["fs", "put", "p", "c", "-", "/f"]);
    let mut put = put.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = put.stdin.take().unwrap();
    // It reads, so that it has the pool.
    std::io::Write::write_all(&mut input, &crate::common::bytes(4 << 20, 1)).unwrap();
    let pid = put.id();
    let told = place.run(&["serve", ".", "--detach"]);
    assert_eq!(told.code(), 0, "{told:?}");
    let note = format!("while process {pid} uses it without this daemon; `ps -p {pid}` shows what it is");
    assert!(told.stderr().contains(&note), "{told:?}");
    assert!(std::fs::read_to_string(place.path("dolmen.log")).unwrap().contains(&note));
    let system = format!("unix:{}", place.path("dolmen.sock").display());
    for asks in [
        &["fs", "ls", "p", "c"][..],
        &["fs", "ls", &format!("{system}/p"), "c"],
        &["dmg", "-G", &system, "pool", "query", "p"],
        &["daos", "-G", &system, "cont", "list", "p"],
    ] {
        let line = place.fails(5, asks);
        let why = format!("process {pid} uses ");
        let remedy = format!("; `ps -p {pid}` shows what it is: end it, or run the command again");
        let is_clear = line.contains("without the daemon, which cannot open it meanwhile");
        assert!(line.contains(&why) && is_clear && line.contains(&remedy), "{line}");
    }
    drop(input);
    assert!(put.wait().unwrap().success());
    assert!(place.ok(&["fs", "ls", "p", "c"]).contains('f'));
    place.ok(&["stop", "."]);
}

#[test]
fn a_copy_beside_its_pool_is_told_and_is_not_taken_for_it() {
    let place = Place::new("served-copy");
    place.pool_with_files();
    let copied = std::process::Command::new("cp").args(["-r", "p", "q"]).current_dir(place.path("")).status();
    assert!(copied.unwrap().success());
    assert_eq!(place.ok(&["pool", "list"]).matches("COPY: another has its UUID").count(), 2);
    let daemon = Daemon::start(&place, &[]);
    for (pool, other) in [("p", "/q:"), ("q", "/p:")] {
        let line = place.fails(4, &["cont", "list", pool]);
        assert!(line.contains("one is a copy of the other") && line.contains(other), "{line}");
    }
    let system = format!("unix:{}", place.path("dolmen.sock").display());
    let uuid = place.json(&["pool", "list"])[0]["uuid"].as_str().unwrap().to_owned();
    let line = place.fails(4, &["dmg", "-G", &system, "pool", "query", &uuid]);
    assert!(line.contains("copy of the other") && line.contains("move one elsewhere"), "{line}");
    std::fs::rename(place.path("q"), place.path("q.away")).unwrap();
    std::fs::create_dir(place.path("away")).unwrap();
    std::fs::rename(place.path("q.away"), place.path("away/q")).unwrap();
    assert!(place.ok(&["cont", "list", "p"]).contains('c'));
    daemon.end();
}

#[test]
fn a_served_pool_is_removed_by_what_the_refusal_says() {
    let place = Place::new("served-destroy");
    place.pool_with_files();
    let daemon = Daemon::start(&place, &[]);
    assert!(place.ok(&["cont", "list", "p"]).contains('c'), "the daemon has opened it");
    let line = place.fails(5, &["pool", "destroy", "p", "--recursive"]);
    let remedy = line.split('`').nth(1).unwrap().to_owned();
    let words: Vec<&str> = remedy.split(' ').collect();
    place.ok(&words);
    assert!(place.ok(&["pool", "list"]).contains("no pools"), "{remedy}");
    daemon.end();
}

/// A child that is ended with the test, however that ends.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_command_that_lasts_keeps_no_served_pool_from_others() {
    let place = Place::new("served-lasting");
    place.pool_with_files();
    std::fs::write(place.path("big"), crate::common::bytes(4 << 20, 1)).unwrap();
    place.ok(&["fs", "put", "p", "c", "big", "/big"]);
    // One that nobody has asked for yet; what is larger than a pipe waits for its reader.
    let daemon = Daemon::start(&place, &[]);
    let mut cat = std::process::Command::new("timeout");
    cat.args(["--kill-after=5", "120", env!("CARGO_BIN_EXE_dolmen"), "fs", "cat", "p", "c", "/big"]);
    cat.current_dir(place.path("")).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut first = Reaped(cat.spawn().unwrap());
    let mut out = first.0.stdout.take().unwrap();
    std::io::Read::read_exact(&mut out, &mut [0]).unwrap();
    let listed = || {
        let ran = place.run_for(&["fs", "ls", "p", "c"], std::time::Duration::from_secs(60));
        (ran.code(), ran.stdout())
    };
    assert_eq!(listed(), (0, "big\n".to_owned()));
    let system = format!("unix:{}", place.path("dolmen.sock").display());
    place.ok(&["dmg", "-G", &system, "pool", "query", "p"]);
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut out, &mut rest).unwrap();
    assert_eq!(rest.len() + 1, 4 << 20);
    assert!(first.0.wait().unwrap().success());
    daemon.end();
    // The name of a socket that nobody listens at is no obstacle.
    let mut killed = Daemon::start(&place, &[]);
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert!(place.path("dolmen.sock").symlink_metadata().is_ok());
    assert_eq!(listed(), (0, "big\n".to_owned()));
}

#[test]
fn a_daemon_listens_on_the_network_only_if_that_is_asked_for_by_name() {
    let place = Place::new("served-tcp");
    place.pool_with_files();
    let refused = place.run(&["serve", ".", "--tcp", "127.0.0.1:0"]);
    assert_eq!(refused.code(), 2);
    assert!(refused.stderr().contains("--insecure-tcp"), "{refused:?}");
    let daemon = Daemon::start(&place, &["--tcp", "127.0.0.1:0", "--insecure-tcp"]);
    let at = daemon.line.trim().rsplit_once("tcp://").unwrap().1.to_owned();
    let pool = format!("tcp://{at}/p");
    assert!(place.ok(&["cont", "list", &pool]).contains('c'));
    daemon.end();
    let line = place.fails(11, &["cont", "list", &pool]);
    assert!(line.contains("dolmen serve"), "{line}");
}

#[test]
fn a_daemon_in_the_background_can_be_reached_and_ends_when_idle() {
    let place = Place::new("served-detached");
    place.pool_with_files();
    let said = place.json(&["serve", ".", "--detach", "--idle-end", "1"]);
    let pid = i32::try_from(said["pid"].as_i64().unwrap()).unwrap();
    assert!(place.ok(&["cont", "list", "p"]).contains('c'));
    for _ in 0..1000 {
        if kill(Pid::from_raw(pid), None).is_err() {
            break;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    assert!(kill(Pid::from_raw(pid), None).is_err(), "it has ended by itself");
    assert!(!place.path("dolmen.sock").exists(), "and taken its name away");
    assert!(place.ok(&["check", "p"]).contains("clean"));
}

#[test]
fn a_daemon_in_the_background_is_found_by_its_name_once_its_start_has_returned() {
    let place = Place::new("served-recorded");
    std::fs::create_dir(place.path("srv")).unwrap();
    let starting = place.path("data/dolmen/lab/starting");
    std::fs::create_dir_all(&starting).unwrap();
    // Another engine puts itself on record, and takes its time.
    let others = DirLock::acquire(&starting).unwrap();
    let run = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("XDG_DATA_HOME", place.path("data")).stdout(Stdio::null()).spawn().unwrap()
    };
    let mut start = run(&["serve", "srv", "--name", "lab", "--detach"]);
    let socket = place.path("srv/dolmen.sock");
    while UnixStream::connect(&socket).is_err() {
        assert_eq!(start.try_wait().unwrap(), None, "nobody serves yet");
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
    place.ok(&["dmg", "-G", &format!("unix:{}", socket.display()), "pool", "list"]);
    assert_eq!(start.try_wait().unwrap(), None, "it can be asked, and its name does not lead to it");
    drop(others);
    assert!(start.wait().unwrap().success());
    assert!(run(&["daos", "-G", "lab", "pool", "list"]).wait().unwrap().success());
    place.ok(&["stop", "srv"]);
}

#[test]
fn a_directory_that_was_moved_under_its_daemon_is_told_with_what_helps() {
    let place = Place::new("served-moved");
    std::fs::create_dir(place.path("before")).unwrap();
    place.make_pool(&["before/p", "--targets", "1", "--capacity", "256M"]);
    place.ok(&["serve", "before", "--detach"]);
    std::fs::rename(place.path("before"), place.path("after")).unwrap();
    let system = format!("unix:{}", place.path("after/dolmen.sock").display());
    for verb in [&["dmg", "-G", &system, "pool", "list"][..], &["daos", "-G", &system, "cont", "list", "p"]] {
        let line = place.fails(9, verb);
        assert!(line.contains("its directory was moved since its daemon was started"), "{line}");
        assert!(line.contains("dolmen stop SYSTEM") && !line.contains("target"), "{line}");
    }
    let log = std::fs::read_to_string(place.path("after/dolmen.log")).unwrap();
    assert_eq!(log.matches("the directory of the system was moved").count(), 1, "{log}");
    place.ok(&["stop", "after"]);
    place.ok(&["serve", "after", "--detach"]);
    place.ok(&["dmg", "-G", &system, "pool", "list"]);
    place.ok(&["stop", "after"]);
}

#[test]
fn a_daemon_in_the_background_holds_nothing_of_who_started_it() {
    let place = Place::new("served-pipe");
    // The shell reads to the end of what its command holds open; a daemon that held it, too, would keep it for a minute.
    let program = env!("CARGO_BIN_EXE_dolmen");
    let script = format!("x=$({program} serve . --detach --idle-end 3600 9>&1); echo \"$x\"");
    let output =
        std::process::Command::new("sh").args(["-c", &script]).current_dir(place.path("")).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let pid: i32 = said.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(
        kill(Pid::from_raw(pid), Signal::SIGTERM).is_ok(),
        "it runs, and the shell has not waited for it: {said}"
    );
}

#[test]
fn a_program_that_starts_a_daemon_on_demand_leaves_its_lock_to_nobody() {
    let place = Place::new("served-started");
    let starting = place.path("starting");
    for is_refused in [true, false] {
        std::fs::create_dir_all(&starting).unwrap();
        let options = || std::fs::File::options().read(true).write(true).create(true).clone();
        // It stays open here, as in a process that was forked from the one that runs the program.
        let lock = options().open(starting.join(".owner")).unwrap();
        lock.lock().unwrap();
        let bad: &[&str] = if is_refused { &["--socket", "nowhere/x.sock"] } else { &[] };
        let mut command = place.command(&[&["serve", ".", "--detach", "--idle-end", "60"], bad].concat());
        let ran = command.stdin(lock.try_clone().unwrap()).output().unwrap();
        assert_eq!(ran.status.success(), !is_refused, "{ran:?}");
        options().open(starting.join(".owner")).unwrap().try_lock().expect("who comes next starts one");
    }
    place.ok(&["stop", "."]);
}

/// What the kernel says of a process, behind a word at the begin of a line.
fn told_of(pid: &str, file: &str, word: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(word));
    line.unwrap_or_else(|| panic!("no {word} of process {pid}")).trim().to_owned()
}

fn mask_of(pid: &str, word: &str) -> u64 {
    u64::from_str_radix(&told_of(pid, "status", word), 16).unwrap()
}

/// How far a process comes behind others.
fn niceness(pid: &str) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap().parse().unwrap()
}

#[test]
fn a_daemon_that_is_started_on_demand_has_no_limits_of_who_was_the_first() {
    const HINDERED: &str = "trap '' TERM INT USR1; umask 0; ulimit -S -t 600; ulimit -S -f 100000; ulimit -S -v 8000000; \
        ulimit -S -d 4000000; exec nice -n 5 taskset -c \"$1\" env --block-signal=USR2,TERM \"$0\" serve . --detach --idle-end 60";
    let own = told_of("self", "status", "Cpus_allowed_list:");
    let one = own.split([',', '-']).next().unwrap();
    for is_on_demand in [true, false] {
        let place = Place::new(&format!("served-afresh-{is_on_demand}"));
        std::fs::create_dir(place.path("starting")).unwrap();
        // What who starts one gives it in the place of its input.
        let name = if is_on_demand { "starting/.owner" } else { "input" };
        let input = std::fs::File::create_new(place.path(name)).unwrap();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", HINDERED, env!("CARGO_BIN_EXE_dolmen"), one]).current_dir(place.path(""));
        let ran = command.stdin(input).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let pid = std::fs::read_to_string(place.path(".owner")).unwrap().trim().to_owned();
        let limits = ["Max cpu time", "Max file size", "Max address space", "Max data size"];
        for limit in limits {
            let told = told_of(&pid, "limits", limit);
            let mut both = told.split_whitespace();
            assert_eq!(both.next() == both.next(), is_on_demand, "{limit}: {told}");
        }
        let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1];
        let ignored = mask_of(&pid, "SigIgn:");
        let is_ignored = signals.map(|signal| ignored >> (signal as i32 - 1) & 1 == 1);
        assert_eq!(is_ignored, [!is_on_demand; 3]);
        assert_eq!(mask_of(&pid, "SigBlk:") >> (Signal::SIGUSR2 as i32 - 1) & 1 == 0, is_on_demand);
        assert_eq!(told_of(&pid, "status", "Umask:"), if is_on_demand { "0077" } else { "0000" });
        // Who may not come before others stays behind them.
        let may_come_before = mask_of("self", "CapEff:") >> 23 & 1 == 1;
        let is_before = niceness(&pid) == 0;
        assert_eq!(is_before, is_on_demand && may_come_before);
        let allowed = told_of(&pid, "status", "Cpus_allowed_list:");
        assert!(if is_on_demand { allowed.len() >= own.len() } else { allowed == one }, "{allowed}");
        if is_on_demand {
            kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGTERM).unwrap();
            let ended = || !place.path(".owner").exists() || !Path::new(&format!("/proc/{pid}")).exists();
            for _ in 0..1000 {
                if ended() {
                    break;
                }
                std::thread::park_timeout(std::time::Duration::from_millis(20));
            }
            assert!(ended(), "it is ended by SIGTERM");
        } else {
            place.ok(&["stop", "."]);
        }
    }
}

#[test]
fn a_directory_that_is_not_there_is_told_in_the_same_way_in_front_and_in_the_background() {
    let place = Place::new("served-nowhere");
    for more in [&[][..], &["--detach"]] {
        let line = place.fails(3, &[&["serve", "nowhere"], more].concat());
        assert_eq!(line, "dolmen: cannot serve nowhere: there is no directory nowhere; make it first\n");
    }
}

#[test]
fn a_port_that_another_has_is_told_and_nobody_serves() {
    let place = Place::new("served-port");
    let other = Place::new("served-port-other");
    let daemon = Daemon::start(&other, &["--tcp", "127.0.0.1:0", "--insecure-tcp"]);
    let at = daemon.line.trim().rsplit_once("tcp://").unwrap().1.to_owned();
    let serve = ["serve", ".", "--insecure-tcp", "--tcp", &at];
    let line = place.fails(5, &serve);
    assert!(line.contains(&at) && line.contains("ss -ltnp"), "{line}");
    // In the background as well: the same reason, and the same code.
    let line = place.fails(5, &[&serve[..], &["--detach"]].concat());
    assert!(line.contains(&at) && line.contains("ss -ltnp") && line.contains("dolmen.log"), "{line}");
    let line = place.fails(3, &["serve", ".", "--socket", "nowhere/x.sock", "--detach"]);
    assert!(line.contains("make nowhere first"), "{line}");
    let log = std::fs::read_to_string(place.path("dolmen.log")).unwrap();
    assert!(log.contains(&at), "{log}");
    // The directory is free for the next.
    place.pool_with_files();
    daemon.end();
}

#[test]
fn commands_on_a_directory_find_a_daemon_whose_socket_is_elsewhere() {
    let place = Place::new("served-elsewhere");
    place.pool_with_files();
    let daemon = Daemon::start(&place, &["--socket", "other.sock"]);
    place.ok(&["cont", "create", "p", "d"]);
    assert!(place.ok(&["cont", "list", "p"]).contains('d'));
    daemon.end();
    assert!(!place.path("dolmen.sock").is_symlink());
}

#[test]
fn a_daemon_whose_notes_cannot_be_written_serves_on() {
    let place = Place::new("served-unheard");
    std::fs::create_dir(place.path("sys")).unwrap();
    place.pool(&["sys/p"]);
    place.ok(&["cont", "create", "sys/p", "c"]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = hearing(&place.command(&["serve", "sys"]));
    let mut child = command.stdout(Stdio::piped()).stderr(full).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut daemon = Daemon { child, line };
    // It has something to say of that, and nowhere to say it.
    std::fs::rename(place.path("sys"), place.path("moved")).unwrap();
    let system = format!("unix:{}", place.path("moved/dolmen.sock").display());
    assert_ne!(place.run(&["dmg", "-G", &system, "pool", "list"]).code(), 0);
    std::fs::rename(place.path("moved"), place.path("sys")).unwrap();
    assert!(place.ok(&["cont", "list", "sys/p"]).contains('c'));
    assert_eq!(daemon.child.try_wait().unwrap(), None);
    assert!(daemon.end().success());
}

#[test]
fn a_daemon_that_was_stopped_has_ended() {
    let place = Place::new("served-stopped");
    place.pool_with_files();
    for way in ["stop", "dmg"] {
        let said = place.json(&["serve", ".", "--detach"]);
        let pid = said["pid"].as_i64().unwrap();
        assert!(place.ok(&["cont", "list", "p"]).contains('c'), "the pool is open, and has to be closed");
        let socket = format!("unix:{}", place.path("dolmen.sock").display());
        match way {
            "stop" => assert_eq!(place.json(&["stop"])["pid"], pid),
            _ => assert!(place.ok(&["dmg", "-G", &socket, "system", "stop"]).contains("stopped")),
        }
        // What nobody has waited for yet is no more than a number.
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{way}: {state}");
        assert!(place.ok(&["check", "p"]).contains("clean"), "nobody has the pool");
    }
    // A cleaner has taken its socket away.
    let said = place.json(&["serve", ".", "--detach"]);
    std::fs::remove_file(place.path("dolmen.sock")).unwrap();
    assert_eq!(place.json(&["stop"])["pid"], said["pid"]);
    let line = place.fails(3, &["stop"]);
    assert!(line.contains("nobody serves it"), "{line}");
    let line = place.fails(3, &["stop", "nowhere"]);
    assert!(line.contains("there is no such directory"), "{line}");
}

#[test]
fn a_file_that_keeps_a_pool_from_being_opened_is_named() {
    let place = Place::new("served-missing");
    place.pool_with_files();
    let newest = |dir: &str| {
        let names = std::fs::read_dir(place.path(dir)).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.to_str().unwrap().contains("/manifest.")).max().unwrap()
    };
    let gone = newest("p/t1");
    std::fs::remove_file(&gone).unwrap();
    let name = format!("p/t1/{}: missing", gone.file_name().unwrap().to_str().unwrap());
    let line = place.fails(7, &["cont", "list", "p"]);
    assert!(line.contains(&name), "{line}");
    let daemon = Daemon::start(&place, &[]);
    let line = place.fails(7, &["cont", "list", "p"]);
    assert!(line.contains(&name), "{line}");
    std::fs::remove_dir_all(place.path("p/t1")).unwrap();
    let line = place.fails(7, &["cont", "list", "p"]);
    assert!(line.contains("p/t1 has no target") && !line.contains("target 0"), "{line}");
    let system = format!("unix:{}", place.path("dolmen.sock").display());
    let line = place.fails(7, &["dmg", "-G", &system, "pool", "query", "p"]);
    assert!(line.contains("/p/t1: the target is missing"), "{line}");
    daemon.end();
}

#[test]
fn a_daemon_in_the_background_that_cannot_serve_writes_into_no_log_of_another() {
    let place = Place::new("served-log");
    place.pool_with_files();
    let said = place.json(&["serve", ".", "--detach", "--idle-end", "3600"]);
    let log = || std::fs::read(place.path("dolmen.log")).unwrap();
    let before = log();
    let line = place.fails(5, &["serve", ".", "--detach"]);
    assert!(line.contains(&format!("process {} serves this directory", said["pid"])), "{line}");
    assert_eq!(log(), before);
    place.ok(&["stop"]);
    let line = place.fails(2, &["serve", ".", "--name", "a b"]);
    assert!(line.contains("a system's name has 1 to 127 of the characters"), "{line}");
}

#[test]
fn a_single_engine_may_have_any_rank() {
    let place = Place::new("served-rank");
    let _daemon = Daemon::start(&place, &["--rank", "7"]);
    let system = format!("unix:{}", place.path("dolmen.sock").display());
    let json = |args: &[&str]| place.json(&[args, &["-G", &system]].concat());
    let made = json(&["dmg", "pool", "create", "tank", "--size", "1G", "--volatile"]);
    assert_eq!((&made["svc_reps"], &made["tgt_ranks"]), (&serde_json::json!([7]), &serde_json::json!([7])));
    json(&["daos", "cont", "create", "tank", "home", "--type", "POSIX"]);
    assert!(place.ok(&["fs", "ls", "tank", "home"]).is_empty());
}

/// A command of somebody who may do only what the modes of files say, as everybody but root.
fn plain_command(place: &Place, args: &[&str]) -> std::process::Command {
    let command = place.command(args);
    if !nix::unistd::geteuid().is_root() {
        return command;
    }
    let mut plain = std::process::Command::new("setpriv");
    plain.args(["--inh-caps=-all", "--bounding-set=-all"]).arg(command.get_program()).args(args);
    plain.current_dir(place.path("")).stdin(Stdio::null());
    plain
}

#[test]
fn who_may_not_look_into_the_directory_of_a_served_pool_goes_through_its_daemon() {
    let place = Place::new("served-closed");
    place.pool_with_files();
    std::fs::write(place.path("menhir"), b"stone").unwrap();
    let put = ["fs", "put", "p", "c", "menhir", "/menhir"];
    let daemon = Daemon::start(&place, &[]);
    place.ok(&["cont", "list", "p"]);
    let owner = place.path("p/.owner");
    std::fs::set_permissions(&owner, std::os::unix::fs::PermissionsExt::from_mode(0o0)).unwrap();
    let output = plain_command(&place, &put).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(place.ok(&["fs", "cat", "p", "c", "/menhir"]), "stone");
    // Who may not even see which pool that is has to name it.
    let closed = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(place.path("p"), mode).unwrap();
    };
    closed(0o0);
    let output = plain_command(&place, &put).output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(8) && line.contains("`unix:./dolmen.sock/LABEL`"), "{line}");
    closed(0o700);
    daemon.end();
    let output = plain_command(&place, &put).output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(8) && line.contains("may not be written"),
        "nobody serves it now: {line}"
    );
    std::fs::set_permissions(&owner, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let line = place.fails(3, &["cont", "list", "q"]);
    assert!(line.contains("q does not exist"), "{line}");
}
