//! The systemd unit: what it says is run as it says, below a directory of the test, and users of the machine come in.

use crate::common::{Place, Ran};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

const UNIT: &str = include_str!("../../../../dist/dolmen@.service");

const ANNA: u32 = 4_200_062;
const BERT: u32 = 4_200_063;

/// Settings of the section that runs something, for the instance `lab`.
fn settings() -> BTreeMap<String, String> {
    let lines = UNIT.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.replace("%i", "lab"))).collect()
}

fn make(dir: &Path, mode: u32) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A service as systemd runs it; killed with the value.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Service {
    /// Starts what the unit says below `root`, and waits until it says that it is ready.
    fn start(root: &Path) -> Self {
        Self::start_with(root, str::to_owned)
    }

    /// The same with another command line.
    fn start_with(root: &Path, change: impl FnOnce(&str) -> String) -> Self {
        let unit = settings();
        let run = root.join("run").join(&unit["RuntimeDirectory"]);
        let state = root.join("var/lib").join(&unit["StateDirectory"]);
        make(&root.join("var/lib/dolmen"), 0o755);
        make(&run, 0o755);
        make(&state, u32::from_str_radix(&unit["StateDirectoryMode"], 8).unwrap());
        let below = |word: &str| match word {
            word if ["/usr/local/", "/var/lib/", "/run/"].iter().any(|dir| word.starts_with(dir)) => {
                format!("{}{word}", root.display())
            }
            word => word.to_owned(),
        };
        let words: Vec<String> = change(&unit["ExecStart"]).split_whitespace().map(below).collect();
        let told = root.join("notify");
        drop(std::fs::remove_file(&told));
        let ears = UnixDatagram::bind(&told).unwrap();
        ears.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "umask 0022; cd /; exec \"$@\"", "sh"]).args(words).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("NOTIFY_SOCKET", &told);
        // Where the sockets of the machine are: in /run/dolmen, but for the test.
        command.env("DOLMEN_RUN", &run);
        let service = Self(command.spawn().unwrap());
        let mut said = [0; 64];
        let len = ears.recv(&mut said);
        assert_eq!(&said[..len.unwrap()], b"READY=1");
        service
    }

    fn end(mut self) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), Signal::SIGTERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

/// Users of a machine whose services are below a directory.
struct Machine {
    root: PathBuf,
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.root));
    }
}

impl Machine {
    /// One below the directory for temporary files, where every user may look into it, wherever the program was built.
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("dolmen-{name}-{}", std::process::id()));
        make(&root, 0o755);
        make(&root.join("usr/local/bin"), 0o755);
        std::fs::copy(env!("CARGO_BIN_EXE_dolmen"), root.join("usr/local/bin/dolmen")).unwrap();
        Self { root }
    }

    /// Runs a command as a user who knows the system by its name alone.
    fn run(&self, uid: u32, args: &[&str]) -> Ran {
        self.run_as(uid, uid, args)
    }

    /// The same as one of a group.
    fn run_as(&self, uid: u32, gid: u32, args: &[&str]) -> Ran {
        let mut command = Command::new(self.root.join("usr/local/bin/dolmen"));
        command.args(args).current_dir(self.home(uid)).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", self.home(uid)).env("DOLMEN_SYSTEM", "lab");
        command.env("DOLMEN_RUN", self.root.join("run/dolmen"));
        if uid != 0 {
            command.uid(uid).gid(gid);
        }
        Ran { args: args.join(" "), output: command.output().unwrap() }
    }

    fn home(&self, uid: u32) -> PathBuf {
        let home = self.root.join(format!("home{uid}"));
        if !home.exists() {
            make(&home, 0o700);
            std::os::unix::fs::chown(&home, Some(uid), Some(uid)).unwrap();
        }
        home
    }
}

#[test]
fn the_unit_serves_all_users_of_a_machine_by_its_name_and_lists_decide() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("a service of the machine is root's");
    }
    let machine = Machine::new("unit");
    let root = machine.root.clone();
    let service = Service::start(&root);
    let ok = |uid: u32, args: &[&str]| {
        let ran = machine.run(uid, args);
        assert_eq!(ran.code(), 0, "{ran:?}");
        ran.stdout()
    };
    let make_pool = ["dmg", "pool", "create", "tank", "--size", "1GB", "--targets", "1"];
    if machine.run(0, &make_pool).code() != 0 {
        ok(0, &[&make_pool[..], &["--volatile"]].concat());
    }
    // Default deny, and told as that.
    let refused = machine.run(ANNA, &["daos", "cont", "create", "tank", "c"]);
    assert_eq!(refused.code(), 8, "{refused:?}");
    let alone = machine.run(ANNA, &["dmg", "pool", "create", "mine", "--size", "1GB"]);
    assert_eq!(alone.code(), 8, "{alone:?}");
    // Nobody has so large a device.
    for size in [
        &["--size", "900TB"][..],
        &["--scm-size", "1GB", "--nvme-size", "800TB"],
        &["--size", "900TiB", "--tier-ratio", "6,94"],
    ] {
        let ran =
            machine.run(0, &[&["dmg", "pool", "create", "vast", "--volatile", "--json"], size].concat());
        assert!(
            ran.code() == 6 && ran.stdout().contains("-1007") && ran.stdout().contains("smaller --size"),
            "{ran:?}"
        );
    }
    let ran = Place::new("unit-vast").run(&["pool", "create", "vast", "--capacity", "900T", "--volatile"]);
    assert!(ran.code() == 6 && ran.stderr().contains("smaller --capacity"), "{ran:?}");
    ok(0, &["dmg", "pool", "update-acl", "tank", "--entry", &format!("A::{ANNA}@:rw")]);
    ok(ANNA, &["daos", "cont", "create", "tank", "c", "--type", "POSIX"]);
    assert!(ok(ANNA, &["daos", "cont", "list", "tank"]).contains('c'));
    assert_eq!(machine.run(BERT, &["daos", "cont", "list", "tank"]).code(), 8);
    // Files of the pools are for nobody but the service.
    let state = root.join("var/lib/dolmen/lab");
    assert_eq!(std::fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!machine.home(ANNA).join(".local").exists(), "nobody has made a system of her own");
    // Nobody is led to an empty system of his own when it was killed; after a start it is as before.
    drop(service);
    let stopped = machine.run(ANNA, &["daos", "cont", "list", "tank"]);
    assert!(stopped.code() == 11 && stopped.stderr().contains("systemctl start dolmen@lab"), "{stopped:?}");
    // Nor when it was ended: no directory of hers begins a system that would hide the machine's for ever.
    Service::start(&root).end();
    for args in [&["daos", "cont", "list", "tank"][..], &["dmg", "pool", "create", "mine", "--size", "1GB"]] {
        let ended = machine.run(ANNA, args);
        assert!(ended.code() == 11 && ended.stderr().contains("systemctl start dolmen@lab"), "{ended:?}");
    }
    assert!(!machine.home(ANNA).join(".local").exists(), "nobody has made a system of her own");
    let service = Service::start(&root);
    if !ok(0, &["dmg", "pool", "list"]).contains("no pools") {
        assert!(ok(ANNA, &["daos", "cont", "list", "tank"]).contains('c'));
    }
    // Who had one of that name before is told that it hides the machine's.
    let own = machine.home(BERT).join(".local/share/dolmen/lab");
    let bert = |args: &[&str]| {
        let mut command = Command::new(root.join("usr/local/bin/dolmen"));
        command.args(args).current_dir(machine.home(BERT)).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", machine.home(BERT)).env("DOLMEN_RUN", root.join("none"));
        Ran::of(&args.join(" "), command.uid(BERT).gid(BERT).output().unwrap())
    };
    let size = ["--size", "100MB", "--targets", "1", "--volatile"];
    let made = bert(&[&["dmg", "-G", "lab", "pool", "create", "mine"], &size[..]].concat());
    assert_eq!(made.code(), 0, "{made:?}");
    let told = machine.run(BERT, &["daos", "pool", "list"]);
    assert!(told.code() == 0 && told.stdout().contains("mine"), "{told:?}");
    assert_eq!(told.stderr().matches("hides the machine's").count(), 1, "{told:?}");
    let ended = bert(&["stop", own.to_str().unwrap()]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    service.end();
}

#[test]
fn users_of_the_group_connect_to_a_socket_that_is_for_it_and_others_do_not() {
    const GROUP: u32 = 4_200_064;
    assert!(
        nix::unistd::geteuid().is_root(),
        "run this as root: it takes a socket for a group, and other users"
    );
    let machine = Machine::new("unit-group");
    let own = format!("--socket-mode 0660 --socket-group {GROUP}");
    let with_group = |line: &str| {
        assert!(line.contains("--socket-mode 0666"), "{line}");
        line.replace("--socket-mode 0666", &own)
    };
    let service = Service::start_with(&machine.root, with_group);
    let socket = std::fs::metadata(machine.root.join("run/dolmen/lab.sock")).unwrap();
    assert_eq!(
        (socket.permissions().mode() & 0o777, std::os::unix::fs::MetadataExt::gid(&socket)),
        (0o660, GROUP)
    );
    let list = ["daos", "pool", "list"];
    let member = machine.run_as(ANNA, GROUP, &list);
    assert_eq!(member.code(), 0, "{member:?}");
    let other = machine.run(BERT, &list);
    assert!(other.code() == 8 && other.stderr().contains("may not use the daemon's socket"), "{other:?}");
    // Root, who runs it, needs no group.
    assert_eq!(machine.run(0, &list).code(), 0);
    service.end();
    // A group that there is not keeps it from starting.
    let place = Place::new("unit-no-group");
    let line = place.fails(3, &["serve", ".", "--socket-mode", "0660", "--socket-group", "no-such-group"]);
    assert!(line.contains("knows no group"), "{line}");
}

#[test]
fn the_unit_has_nothing_that_systemd_does_not_know() {
    let place = Place::new("unit-verify");
    let unit = UNIT.replace("/usr/local/bin/dolmen", env!("CARGO_BIN_EXE_dolmen"));
    let path = place.path("dolmen@lab.service");
    std::fs::write(&path, unit).unwrap();
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output();
    // Without systemd there is nobody to ask.
    let Ok(verified) = verified else { return eprintln!("there is no systemd-analyze") };
    let said = String::from_utf8_lossy(&verified.stderr);
    let own: Vec<&str> = said.lines().filter(|line| line.contains("dolmen@")).collect();
    assert!(own.is_empty(), "{own:?}");
}
