//! The command lines of DAOS.

use crate::common::Place;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Output;

/// A system whose daemon is started by the first command, and ends soon after the last.
struct System {
    place: Place,
    data: PathBuf,
}

impl System {
    fn new(name: &str) -> Self {
        let place = Place::new(name);
        let data = place.path("data");
        Self { place, data }
    }

    fn output(&self, called: &str, args: &[&str]) -> Output {
        let mut command = self.place.command(args);
        command.arg0(called).env("XDG_DATA_HOME", &self.data).env("DOLMEN_SYSTEM", "lab");
        command.output().unwrap()
    }

    fn run(&self, called: &str, args: &[&str]) -> (i32, String) {
        let output = self.output(called, args);
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }

    /// What a command that fails with `code` says.
    fn fails(&self, code: i32, called: &str, args: &[&str]) -> String {
        let output = self.output(called, args);
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {line}");
        line
    }

    /// Ends the daemon, and waits for that.
    fn stop(&self) {
        let owner = self.data.join("dolmen/lab/.owner");
        let pid = std::fs::read_to_string(&owner).unwrap_or_default();
        let Ok(pid) = pid.trim().trim_matches('\0').parse() else { return };
        let pid = Pid::from_raw(pid);
        while kill(pid, Signal::SIGTERM).is_ok() {
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
    }

    fn json(&self, called: &str, args: &[&str]) -> Value {
        let (code, text) = self.run(called, &[args, &["-j"]].concat());
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &answer["status"]), (0, &Value::from(0)), "{args:?}: {text}");
        answer["response"].take()
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.stop();
        drop(std::fs::remove_dir_all(&self.data));
    }
}

#[test]
fn scripts_written_for_daos_make_pools_and_containers() {
    let system = System::new("compat");
    let made =
        system.json("dmg", &["pool", "create", "tank", "--size", "256m", "--targets", "2", "--volatile"]);
    let uuid = made["uuid"].as_str().unwrap().to_owned();
    assert_eq!(made["svc_reps"], serde_json::json!([0]));
    let listed = system.json("dmg", &["pool", "list"]);
    assert_eq!(
        (&listed["pools"][0]["label"], &listed["pools"][0]["uuid"]),
        (&"tank".into(), &uuid.clone().into())
    );
    let queried = system.json("daos", &["pool", "query", "tank"]);
    assert_eq!((&queried["total_targets"], &queried["uuid"]), (&2.into(), &uuid.into()));
    assert_eq!(queried["tier_stats"][0]["media_type"], "scm");

    let cont = system.json("daos", &["container", "create", "tank", "home", "--type=POSIX"]);
    assert_eq!((&cont["container_label"], &cont["container_type"]), (&"home".into(), &"POSIX".into()));
    let conts = system.json("daos", &["cont", "list", "tank"]);
    assert_eq!(conts[0]["label"], "home");
    system.json("daos", &["cont", "set-attr", "tank", "home", "who:me"]);
    assert_eq!(system.json("daos", &["cont", "get-attr", "tank", "home", "who"])["value"], "me");
    let snap = system.json("daos", &["cont", "create-snap", "tank", "home", "--snap", "then"]);
    let epoch = snap["epoch"].as_u64().unwrap();
    assert_eq!(system.json("daos", &["cont", "list-snaps", "tank", "home"])[0]["name"], "then");
    system.json("daos", &["cont", "destroy-snap", "tank", "home", "--epc", &epoch.to_string()]);
    assert_eq!(system.json("daos", &["cont", "query", "tank", "home"])["num_snapshots"], 0);
    system.json("daos", &["cont", "destroy", "tank", "home"]);
    system.json("dmg", &["pool", "destroy", "tank"]);
    assert_eq!(system.json("dmg", &["pool", "list"])["pools"], serde_json::json!([]));
    assert_eq!(system.json("dmg", &["system", "query"])["members"][0]["state"], "joined");
}

#[test]
fn what_is_not_there_has_the_numbers_of_daos() {
    let system = System::new("compat-missing");
    let (code, text) = system.run("daos", &["pool", "query", "nothing", "-j"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &answer["status"]), (3, &Value::from(-1005)), "{text}");
    assert_eq!(system.run("dolmen", &["daos", "version"]).0, 0);
}

#[test]
fn a_pool_with_containers_is_removed_with_them_only_if_that_is_said() {
    let system = System::new("compat-recursive");
    system.json("dmg", &["pool", "create", "tank", "--size", "256m", "--targets", "1"]);
    system.json("daos", &["cont", "create", "tank", "home"]);
    for more in [&[][..], &["--force"]] {
        let line = system.fails(4, "dmg", &[&["pool", "destroy", "tank"], more].concat());
        assert!(line.contains("it holds 1 container; add --recursive"), "{line}");
    }
    system.json("dmg", &["pool", "evict", "tank"]);
    assert_eq!(system.json("daos", &["cont", "list", "tank"])[0]["label"], "home");
    system.json("dmg", &["pool", "destroy", "tank", "--recursive"]);
    assert_eq!(system.json("dmg", &["pool", "list"])["pools"], serde_json::json!([]));
}

#[test]
fn a_pool_in_memory_is_made_if_the_one_flag_that_it_needs_is_given() {
    let mut system = System::new("compat-memory");
    system.data = PathBuf::from(format!("/dev/shm/dolmen-cli-{}", std::process::id()));
    std::fs::create_dir_all(&system.data).unwrap();
    let create = ["pool", "create", "tank", "--size", "256m", "--targets", "1"];
    let line = system.fails(8, "dmg", &create);
    assert!(line.contains("is in memory, and lost with the power; add --volatile"), "{line}");
    let little = ["pool", "create", "tank", "--size", "64k", "--targets", "9", "--volatile"];
    let line = system.fails(2, "dmg", &little);
    assert!(line.contains("choose another --size, or other --targets"), "{line}");
    system.json("dmg", &[&create[..], &["--volatile"]].concat());
    system.json("dmg", &["pool", "destroy", "tank"]);
}

#[test]
fn a_pool_that_cannot_be_opened_is_listed_beside_the_others() {
    let system = System::new("compat-broken");
    for label in ["good", "bad"] {
        system.json("dmg", &["pool", "create", label, "--size", "256m", "--targets", "1"]);
    }
    system.stop();
    let dir = system.data.join("dolmen/lab/bad");
    let target =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    std::fs::remove_dir_all(target.unwrap()).unwrap();
    let listed = system.json("dmg", &["pool", "list"])["pools"].take();
    let of = |label: &str| {
        let pools = listed.as_array().unwrap();
        pools.iter().find(|pool| pool["label"] == label).unwrap_or_else(|| panic!("{listed}")).clone()
    };
    assert_eq!((&of("good")["state"], &of("good")["query_error_msg"]), (&"Ready".into(), &"".into()));
    assert_eq!(of("bad")["state"], "Unknown");
    assert!(of("bad")["query_error_msg"].as_str().unwrap().starts_with("cannot open pool"), "{listed}");
    let (code, text) = system.run("dmg", &["pool", "list"]);
    assert!(code == 0 && text.contains("Ready") && text.contains("Unknown: cannot open pool"), "{text}");
    system.fails(9, "dmg", &["pool", "query", "bad"]);
    let line = system.fails(9, "dmg", &["pool", "destroy", "bad"]);
    assert!(line.contains("add --recursive to remove it with whatever it holds"), "{line}");
}

#[test]
fn usage_names_the_program_as_it_was_called() {
    let system = System::new("compat-usage");
    let line = system.fails(2, "daos", &["cont", "create"]);
    assert!(line.contains("Usage: daos cont") && !line.contains("daos daos"), "{line}");
    let (code, help) = system.run("dmg", &["pool", "--help"]);
    assert!(code == 0 && help.contains("Usage: dmg pool") && !help.contains("dmg dmg"), "{help}");
    let line = system.fails(2, "dolmen", &["daos", "cont", "create"]);
    assert!(line.contains("Usage: dolmen daos cont"), "{line}");
}
