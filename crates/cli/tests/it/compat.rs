//! The command lines of DAOS.

use crate::common::Place;
use serde_json::Value;
use std::os::unix::process::CommandExt;

/// A system whose daemon is started by the first command, and ends soon after the last.
struct System {
    place: Place,
}

impl System {
    fn run(&self, called: &str, args: &[&str]) -> (i32, String) {
        let mut command = self.place.command(args);
        command.arg0(called).env("XDG_DATA_HOME", self.place.path("data")).env("DOLMEN_SYSTEM", "lab");
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
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
        let pid = std::fs::read_to_string(self.place.path("data/dolmen/lab/.owner")).unwrap_or_default();
        if let Ok(pid) = pid.trim().trim_matches('\0').parse() {
            // Ignored: it has ended already.
            let _ended =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
        }
    }
}

#[test]
fn scripts_written_for_daos_make_pools_and_containers() {
    let system = System { place: Place::new("compat") };
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
    let system = System { place: Place::new("compat-missing") };
    let (code, text) = system.run("daos", &["pool", "query", "nothing", "-j"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &answer["status"]), (3, &Value::from(-1005)), "{text}");
    assert_eq!(system.run("dolmen", &["daos", "version"]).0, 0);
}
