//! The command lines of DAOS.

use crate::common::Place;
use dolmen_client::ContName;
use dolmen_codec::wire::PoolAccess;
use dolmen_net::client::{Link, LinkOptions, reach};
use dolmen_types::Head;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;

/// A system whose daemon is started by the first command, and ends soon after the last.
pub(crate) struct System {
    place: Place,
    pub(crate) data: PathBuf,
}

impl System {
    pub(crate) fn new(name: &str) -> Self {
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

    fn daemon(&self) -> Option<Pid> {
        let pid = std::fs::read_to_string(self.data.join("dolmen/lab/.owner")).unwrap_or_default();
        pid.trim().trim_matches('\0').parse().ok().map(Pid::from_raw)
    }

    /// Kills the daemon.
    pub(crate) fn kill(&self) {
        kill(self.daemon().unwrap(), Signal::SIGKILL).unwrap();
    }

    /// Ends the daemon, and waits for that.
    fn stop(&self) {
        let Some(pid) = self.daemon() else { return };
        for _ in 0..6000 {
            if kill(pid, Signal::SIGTERM).is_err() {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        // Ignored: it has had half a minute.
        _ = kill(pid, Signal::SIGKILL);
    }

    pub(crate) fn json(&self, called: &str, args: &[&str]) -> Value {
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
        system.json("dmg", &["pool", "create", "tank", "--size", "256MiB", "--targets", "2", "--volatile"]);
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
    assert_eq!(system.json("daos", &["cont", "get-attr", "tank", "home", "who"])["value"], "bWU=");
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
    system.json("dmg", &["pool", "create", "tank", "--size", "256MiB", "--targets", "1", "--volatile"]);
    let (code, text) = system.run("daos", &["pool", "query", "nothing", "-j"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &answer["status"]), (3, &Value::from(-1005)), "{text}");
    let line = system.fails(3, "daos", &["cont", "list", "nothing"]);
    assert!(line.contains("there is no such pool; see `daos pool list`"), "{line}");
    let line = system.fails(3, "dmg", &["pool", "evict", "nothing"]);
    assert!(line.contains("there is no such pool; see `dmg pool list`"), "{line}");
    assert_eq!(system.run("dolmen", &["daos", "version"]).0, 0);
}

#[test]
fn a_pool_with_containers_is_removed_with_them_only_if_that_is_said() {
    let system = System::new("compat-recursive");
    system.json("dmg", &["pool", "create", "tank", "--size", "256MiB", "--targets", "1"]);
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
    let create = ["pool", "create", "tank", "--size", "256MiB", "--targets", "1"];
    let line = system.fails(8, "dmg", &create);
    assert!(line.contains("is in memory, and lost with the power; add --volatile"), "{line}");
    let little = ["pool", "create", "tank", "--size", "64KiB", "--targets", "9", "--volatile"];
    let line = system.fails(2, "dmg", &little);
    assert!(line.contains("choose another --size, or other --targets"), "{line}");
    system.json("dmg", &[&create[..], &["--volatile"]].concat());
    system.json("dmg", &["pool", "destroy", "tank"]);
}

#[test]
fn a_pool_that_cannot_be_opened_is_listed_beside_the_others() {
    let system = System::new("compat-broken");
    for label in ["good", "bad"] {
        system.json("dmg", &["pool", "create", label, "--size", "256MiB", "--targets", "1"]);
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
    let seen = system.json("daos", &["pool", "list"])["pools"].take();
    for pool in seen.as_array().unwrap() {
        let service = if pool["label"] == "good" { serde_json::json!([0]) } else { serde_json::json!([]) };
        assert_eq!(pool["svc_reps"], service, "{seen}");
    }
    assert!(of("bad")["query_error_msg"].as_str().unwrap().starts_with("cannot open pool"), "{listed}");
    let (code, text) = system.run("dmg", &["pool", "list"]);
    assert!(code == 0 && text.contains("Ready") && text.contains("Unknown: cannot open pool"), "{text}");
    let line = system.fails(7, "dmg", &["pool", "query", "bad"]);
    assert!(line.contains("lab/bad/t0: the target is missing; put it back"), "{line}");
    let line = system.fails(7, "dmg", &["pool", "destroy", "bad"]);
    assert!(line.contains("add --recursive to remove it with whatever it holds"), "{line}");
}

#[test]
fn usage_names_the_program_as_it_was_called() {
    let system = System::new("compat-usage");
    let line = system.fails(2, "daos", &["cont", "create"]);
    assert!(line.contains("usage: daos cont") && !line.contains("daos daos"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    let (code, help) = system.run("dmg", &["pool", "--help"]);
    assert!(code == 0 && help.contains("Usage: dmg pool") && !help.contains("dmg dmg"), "{help}");
    for name in ["daos", "dmg"] {
        let (code, said) = system.run(name, &["--version"]);
        assert!(code == 0 && said.starts_with(name), "{said}");
    }
    let line = system.fails(2, "dolmen", &["daos", "cont", "create"]);
    assert!(line.contains("usage: dolmen daos cont"), "{line}");
    let line = system.fails(2, "dmg", &["-G", "file:/x", "pool", "list"]);
    assert!(line.contains("file:/x has no daemon") && line.contains("dolmen serve"), "{line}");
}

#[test]
fn attributes_are_set_shown_and_removed_as_scripts_do_it() {
    let system = System::new("compat-attrs");
    system.json("dmg", &["pool", "create", "tank", "--size", "256MiB", "--targets", "1"]);
    system.json("daos", &["cont", "create", "tank", "home"]);
    for of in [&["pool"][..], &["cont"]] {
        let name: &[&str] = if of == ["pool"] { &["tank"] } else { &["tank", "home"] };
        let words = |verb: &'static str, more: &[&'static str]| {
            [of, &[verb], name, more].concat().into_iter().map(str::to_owned).collect::<Vec<String>>()
        };
        let json = |verb, more: &[&'static str]| {
            let words = words(verb, more);
            system.json("daos", &words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        json("set-attr", &["import_date", "12/01/2021"]);
        json("set-attr", &["one:1,two:2"]);
        assert_eq!(json("list-attrs", &[]), serde_json::json!(["import_date", "one", "two"]));
        assert_eq!(json("list-attrs", &["--verbose"])["one"], "MQ==", "values are bytes, in base 64");
        assert_eq!(json("get-attr", &["import_date"])["value"], "MTIvMDEvMjAyMQ==");
        assert_eq!(json("get-attr", &[]).as_array().unwrap().len(), 3);
        json("del-attr", &["one,two"]);
        assert_eq!(json("list-attr", &[]).as_array().unwrap().len(), 1);
        for verb in ["get-attr", "del-attr"] {
            let words = words(verb, &["one"]);
            let line = system.fails(3, "daos", &words.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(line.contains("there is no attribute \"one\""), "{line}");
        }
    }
    let line = system.fails(3, "daos", &["cont", "destroy-snap", "tank", "home", "--epc", "17"]);
    assert!(line.contains("there is no snapshot"), "{line}");
    let line = system.fails(3, "daos", &["cont", "get-attr", "tank", "none", "one"]);
    assert!(line.contains("there is no such container"), "{line}");
    system.json("daos", &["cont", "create-snap", "tank", "home", "--snap", "then"]);
    system.json("daos", &["cont", "rollback", "tank", "home", "--snap", "then"]);
    let line = system.fails(3, "daos", &["cont", "rollback", "tank", "home", "--snap", "never"]);
    assert!(line.contains("there is no snapshot never"), "{line}");
    system.json("dmg", &["pool", "destroy", "tank", "--recursive"]);
}

#[test]
fn containers_have_properties_owners_and_lists_of_who_may_use_them() {
    let system = System::new("compat-acl");
    system.json("dmg", &["pool", "create", "tank", "--size", "256MiB", "--targets", "1"]);
    let file = system.place.path("acl");
    std::fs::write(&file, "# Entries:\nA::OWNER@:rwdtTaAo\n\nA:G:GROUP@:r\n").unwrap();
    let file = file.to_str().unwrap();
    let create = ["cont", "create", "tank", "home", "--acl-file", file, "--group", "daemon"];
    system.json("daos", &[&create[..], &["--properties", "cksum:crc32,cksum_size:64KiB,rd_fac:0"]].concat());
    let at = |verb, more: &[&str]| system.json("daos", &[&["cont", verb, "tank", "home"], more].concat());
    let found = at("get-acl", &[]);
    assert_eq!(found["entries"], serde_json::json!(["A::OWNER@:rwdtTaAo", "A:G:GROUP@:r"]));
    assert_eq!(found["owner_group"], "daemon@");
    assert!(found["owner_user"].as_str().unwrap().ends_with('@'));
    let found = at("update-acl", &["--entry", "A::bob@:rw"]);
    assert_eq!(found["entries"][1], "A::bob@:rw");
    let found = at("delete-acl", &["--principal", "u:bob@"]);
    assert_eq!(found["entries"].as_array().unwrap().len(), 2);
    let line = system.fails(3, "daos", &["cont", "delete-acl", "tank", "home", "--principal", "u:bob@"]);
    assert!(line.contains("there is no entry for u:bob@"), "{line}");
    let line = system.fails(2, "daos", &["cont", "update-acl", "tank", "home", "--entry", "A::bob:rw"]);
    assert!(line.contains("is no entry of an access control list"), "{line}");
    std::fs::write(file, "A::OWNER@:rw\n").unwrap();
    assert_eq!(at("overwrite-acl", &["--acl-file", file])["entries"], serde_json::json!(["A::OWNER@:rw"]));
    at("set-owner", &["--user", "daemon@"]);
    for (option, who, kind) in [("--user", "nobodyatall@", "user"), ("--group", "nobodyatall", "group")] {
        let line = system.fails(2, "daos", &["cont", "set-owner", "tank", "home", option, who]);
        assert!(line.contains(&format!("there is no {kind} nobodyatall here")), "{line}");
        assert!(line.contains("set-owner --no-check"), "{line}");
    }
    let line = system.fails(2, "daos", &["cont", "create", "tank", "other", "--group", "nobodyatall"]);
    assert!(line.contains("there is no group nobodyatall here"), "{line}");
    system.json("dmg", &["cont", "set-owner", "tank", "home", "--group", "4711"]);
    let found = at("get-acl", &["--outfile", "out"]);
    assert_eq!((&found["owner_user"], &found["owner_group"]), (&"daemon@".into(), &"4711@".into()));
    let text = std::fs::read_to_string(system.place.path("out")).unwrap();
    assert_eq!(text, "# Owner: daemon@\n# Owner Group: 4711@\n# Entries:\nA::OWNER@:rw\n");

    let props = at("get-prop", &[]);
    let of = |props: &Value, name: &str| {
        let all = props.as_array().unwrap();
        all.iter().find(|prop| prop["name"] == name).unwrap_or_else(|| panic!("{props}"))["value"].clone()
    };
    assert_eq!((of(&props, "cksum"), of(&props, "cksum_size")), ("crc32".into(), 65536.into()));
    assert_eq!((of(&props, "rd_fac"), of(&props, "status")), ("rd_fac0".into(), "HEALTHY".into()));
    at("set-prop", &["--properties", "label:moved"]);
    let props = system.json("daos", &["cont", "get-prop", "tank", "moved", "label"]);
    assert_eq!(props.as_array().unwrap().len(), 1);
    assert_eq!(of(&props, "label"), "moved");
    let line = system.fails(2, "daos", &["cont", "set-prop", "tank", "moved", "rd_fac:1"]);
    assert!(line.contains("rd_fac is not available yet"), "{line}");
    let line = system.fails(2, "daos", &["cont", "get-prop", "tank", "moved", "nonsense"]);
    assert!(line.contains("there is no property nonsense"), "{line}");
    assert_eq!(system.json("dmg", &["pool", "get-prop", "tank", "label"])[0]["value"], "tank");
    system.json("dmg", &["pool", "destroy", "tank", "-r"]);
}

#[test]
fn objects_and_directories_say_where_they_lie() {
    let system = System::new("compat-objects");
    system.json("dmg", &["pool", "create", "tank", "--size", "512MiB", "--targets", "2"]);
    system.json("daos", &["cont", "create", "tank", "home", "--type", "POSIX", "--oclass", "SX"]);
    let oids = system.json("daos", &["cont", "list-objects", "tank", "home"]);
    let oid = oids[0].as_str().unwrap();
    let found = system.json("daos", &["obj", "query", "tank", "home", oid]);
    assert_eq!((&found["oid"], &found["groups"][0]["shards"][0]["rank"]), (&oid.into(), &0.into()));
    let keys = system.json("daos", &["obj", "list-keys", "tank", "home", oid]);
    assert!(!keys[0]["akeys"].as_array().unwrap().is_empty(), "{keys}");

    let attr =
        |verb: &str, more: &[&str]| system.json("daos", &[&["fs", verb, "tank", "home"], more].concat());
    attr("set-attr", &["--oclass", "S2", "--chunk-size", "2MiB"]);
    let found = attr("get-attr", &["--dfs-path", "/"]);
    let dir = &found["directory"];
    assert_eq!((&dir["file_oclass"], &dir["chunk_size"]), (&"S2".into(), &(2 << 20).into()));
    attr("reset-chunk-size", &[]);
    assert_ne!(attr("get-attr", &[])["directory"]["chunk_size"], 2 << 20);
    attr("reset-oclass", &[]);
    assert_ne!(attr("get-attr", &[])["directory"]["file_oclass"], "S2");
    attr("set-attr", &["--oclass", "S2", "--chunk-size", "2MiB"]);
    attr("reset-attr", &[]);
    let reset = attr("get-attr", &[]);
    assert_ne!(reset["directory"]["file_oclass"], "S2");
    assert_ne!(reset["directory"]["chunk_size"], 2 << 20);
    assert_eq!(attr("check", &["--flags", "print"])["leaked"], serde_json::json!([]));
    assert_eq!(system.json("daos", &["cont", "check", "tank", "home"])["findings"], 0);
    system.fails(2, "daos", &["fs", "set-attr", "tank", "home"]);

    let told = system.json("daos", &["pool", "query-targets", "tank", "--rank", "0", "--target-idx", "1"]);
    assert_eq!(told["infos"][0]["target_state"], "up_in");
    system.fails(3, "dmg", &["pool", "query-targets", "tank", "--rank", "3"]);
    let (_, text) = system.run("dmg", &["pool", "list", "--verbose"]);
    assert!(text.contains("0/2"), "{text}");
    system.json("dmg", &["pool", "destroy", "tank", "-r"]);
}

#[test]
fn a_check_that_is_to_verify_reads_all_data() {
    let system = System::new("compat-verify");
    system.json("dmg", &["pool", "create", "tank", "--size", "256MiB", "--targets", "1"]);
    system.json("daos", &["cont", "create", "tank", "home", "--type", "POSIX"]);
    let rotten = crate::common::bytes(300_000, 91);
    std::fs::create_dir(system.place.path("src")).unwrap();
    std::fs::write(system.place.path("src/rotten"), &rotten).unwrap();
    std::fs::write(system.place.path("src/whole"), crate::common::bytes(300_000, 92)).unwrap();
    let tank = system.data.join("dolmen/lab/tank");
    system.place.ok(&["fs", "put", tank.to_str().unwrap(), "home", "src", "/t"]);
    let check = |flags: &str| {
        let (code, text) = system.run("daos", &["fs", "check", "tank", "home", "--flags", flags, "-j"]);
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        (code, answer["response"].take())
    };
    let (code, told) = check("verify");
    assert_eq!((code, &told["verified"], &told["unreadable"]), (0, &2.into(), &serde_json::json!([])));
    system.stop();
    let files = std::fs::read_dir(tank.join("t0")).unwrap().map(|entry| entry.unwrap().path());
    let mut flipped = 0;
    for path in files.filter(|path| path.is_file()) {
        let mut stored = std::fs::read(&path).unwrap();
        if let Some(at) = stored.windows(64).position(|window| *window == rotten[1000..1064]) {
            stored[at] ^= 1;
            std::fs::write(&path, stored).unwrap();
            flipped += 1;
        }
    }
    assert_eq!(flipped, 1);
    let (code, told) = check("print");
    assert_eq!((code, &told["verified"], &told["files"]), (0, &Value::Null, &2.into()), "{told}");
    let (code, told) = check("print,verify");
    assert_eq!((code, &told["verified"]), (1, &1.into()), "{told}");
    assert_eq!(told["unreadable"].as_array().unwrap().len(), 1, "{told}");
    assert!(told["unreadable"][0].as_str().unwrap().contains("/t/rotten"), "{told}");
    let (code, text) = system.run("daos", &["fs", "check", "tank", "home", "--flags", "verify"]);
    assert!(code == 1 && text.contains("/t/rotten"), "{text}");
}

/// The verbs of DAOS's tools, by their groups.
const VERBS: [(&str, &str, &str); 20] = [
    (
        "daos",
        "pool",
        "list query query-targets list-containers get-attr set-attr del-attr list-attrs autotest get-prop",
    ),
    (
        "daos",
        "container",
        "create destroy list list-objects query stat clone check evict get-prop set-prop get-acl",
    ),
    (
        "daos",
        "cont",
        "overwrite-acl update-acl delete-acl set-owner get-attr set-attr del-attr list-attrs create-snap",
    ),
    ("daos", "cont", "list-snap list-snaps destroy-snap rollback link"),
    (
        "daos",
        "filesystem",
        "copy get-attr set-attr reset-attr reset-chunk-size reset-oclass check fix-sb fix-root",
    ),
    ("daos", "fs", "fix-entry chmod scan query evict"),
    ("daos", "object", "query list-keys dump"),
    ("daos", "system", "query"),
    ("daos", "health", "check net-test"),
    ("dmg", "pool", "create destroy evict list extend exclude drain reintegrate query query-targets get-acl"),
    ("dmg", "pool", "overwrite-acl update-acl delete-acl set-prop get-prop upgrade rebuild"),
    (
        "dmg",
        "system",
        "leader-query query stop start exclude clear-exclude drain reintegrate erase list-pools cleanup",
    ),
    ("dmg", "system", "set-attr get-attr del-attr set-prop get-prop rebuild self-heal"),
    ("dmg", "container", "set-owner"),
    ("dmg", "storage", "scan format query nvme-rebind nvme-add-device set replace led"),
    ("dmg", "check", "enable disable start stop query set-policy get-policy repair"),
    ("dmg", "telemetry", "config metrics"),
    ("dmg", "network", "scan"),
    ("dmg", "server", "set-logmasks"),
    ("dmg", "config", "generate"),
];

#[test]
fn every_verb_of_daos_is_known() {
    let place = Place::new("compat-verbs");
    let known = |called: &str, words: &[&str]| {
        let ran = place.run(&[&[called], words, &["--help"]].concat());
        // It says what it takes, or that it is not available.
        assert!([0, 10].contains(&ran.code()), "{ran:?}");
    };
    for (called, group, verbs) in VERBS {
        verbs.split(' ').for_each(|verb| known(called, &[group, verb]));
    }
    for (called, verb) in
        [("daos", "version"), ("dmg", "version"), ("dmg", "server-version"), ("dmg", "support")]
    {
        known(called, &[verb]);
    }
    // What is none is refused as a mistake in the words.
    let ran = place.run(&["daos", "pool", "no-such-verb"]);
    assert_eq!(ran.code(), 2, "{ran:?}");
}

#[test]
fn a_verb_that_means_nothing_here_says_so_and_what_to_do() {
    let system = System::new("compat-absent");
    system.json("dmg", &["pool", "create", "tank", "--size", "256MiB", "--targets", "1", "--volatile"]);
    for (called, words) in [
        ("daos", "cont clone --src /a/b --dst /c"),
        ("dmg", "storage scan --verbose"),
        ("dmg", "system exclude --ranks 1"),
        ("daos", "pool autotest tank"),
        ("daos", "fs copy --src /a --dst daos://b"),
        ("dmg", "pool set-prop tank label:neo"),
        ("dmg", "pool drain tank --ranks=1"),
        ("dmg", "pool extend tank --ranks 2"),
        ("daos", "health net-test --tag 1"),
        ("daos", "health check"),
        ("dmg", "server-version"),
        ("dmg", "check start"),
        ("dmg", "telemetry metrics query"),
        ("dmg", "network scan"),
        ("dmg", "server set-logmasks"),
        ("dmg", "config generate"),
        ("dmg", "support collect-log"),
        ("daos", "obj dump tank home -i 1.2"),
        ("daos", "cont stat tank home"),
        ("daos", "fs query /mnt"),
        ("daos", "fs evict /mnt"),
    ] {
        let words: Vec<&str> = words.split(' ').chain(["-j"]).collect();
        let (code, text) = system.run(called, &words);
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &answer["status"]), (10, &Value::from(-1010)), "{words:?}: {text}");
        assert!(answer["error"].as_str().unwrap().contains(" is not available; "), "{text}");
    }
    // Ends the daemon; the next command starts it again.
    let told = system.json("dmg", &["system", "start"]);
    assert_eq!(
        (&told["results"][0]["state"], &told["results"][0]["errored"]),
        (&"joined".into(), &false.into())
    );
    let told = system.json("dmg", &["system", "stop"]);
    assert_eq!(
        (&told["results"][0]["action"], &told["results"][0]["state"]),
        (&"stop".into(), &"stopped".into())
    );
    system.fails(3, "dmg", &["system", "stop", "--ranks", "7"]);
}

#[test]
fn pools_are_made_as_large_and_where_scripts_say() {
    let system = System::new("compat-create");
    let create = |words: &str| {
        let words: Vec<&str> = ["pool", "create"].into_iter().chain(words.split(' ')).collect();
        system.json("dmg", &words)["tier_bytes"][0].as_u64().unwrap()
    };
    let left = || {
        let space = rustix::fs::statvfs(&system.data).unwrap();
        space.f_bavail * space.f_frsize
    };
    std::fs::create_dir_all(&system.data).unwrap();
    let (before, size, after) = (left(), create("part --size 20% --targets 1"), left());
    assert!((before.min(after) / 6..before.max(after) / 4).contains(&size), "{before} {size} {after}");
    system.json("dmg", &["pool", "destroy", "part"]);
    let size = create(
        "--properties label:both,reclaim:lazy,rd_fac:0 -s 512MiB -n 1GiB --nsvc=1 --nranks 1 --targets 1",
    );
    assert_eq!(size, 3 << 29);
    let size = create("ratio --size 1.5GiB --tier-ratio 6,94 --ranks=0 --targets 1");
    assert_eq!(size, 3 << 29);
    let listed = system.json("dmg", &["pool", "list"])["pools"].take();
    let mut labels: Vec<&str> =
        listed.as_array().unwrap().iter().map(|pool| pool["label"].as_str().unwrap()).collect();
    labels.sort_unstable();
    assert_eq!(labels, ["both", "ratio"]);
    let (_, text) = system.run("dmg", &["pool", "create", "one", "-s", "1GiB", "--targets", "1"]);
    assert!(text.contains("there is one kind of storage: 1.0 GiB at each of 1 engine"), "{text}");
    for (code, words, told) in [
        (2, "more --size 1G --nsvc 3", "the service of a pool has 1 replica, not 3; leave out --nsvc"),
        (2, "more --size 1G --nranks 2", "a pool has targets at all engines, here 1, not at 2"),
        (3, "more --size 1G --ranks 0,4", "there is no engine 4"),
        (2, "more --size 1G --properties reclaim:disabled", "reclaim is lazy for every pool"),
        (2, "more --size 1G --properties label:less", "contradict each other"),
        (2, "--size 1G", "the pool has no label; give a LABEL"),
        (2, "more --size 200%", "give a whole percentage from 1% to 100%"),
        (2, "more --nvme-size 1G", "--scm-size"),
    ] {
        let line = system.fails(
            code,
            "dmg",
            &["pool", "create"].into_iter().chain(words.split(' ')).collect::<Vec<_>>(),
        );
        assert!(line.contains(told), "{words}: {line}");
    }
    let props = system.json("dmg", &["pool", "get-prop", "both"]);
    assert_eq!(props.as_array().unwrap().len(), 27, "{props}");
    for label in ["both", "ratio", "one"] {
        system.json("dmg", &["pool", "destroy", label]);
    }
}

#[test]
fn who_has_something_open_is_asked_or_loses_it() {
    let system = System::new("compat-open");
    system.json("dmg", &["pool", "create", "tank", "--size", "256MiB", "--targets", "1"]);
    system.json("daos", &["cont", "create", "tank", "home", "--type", "POSIX"]);
    let (_, text) = system.run("dmg", &["pool", "evict", "tank"]);
    assert_eq!(text, "nobody has tank open\n");
    let socket = dolmen_env::Address::Unix(system.data.join("dolmen/lab/dolmen.sock"));
    let link = Link::connect(&socket, &LinkOptions::default()).unwrap();
    let name = reach::pool_name("tank").unwrap();
    let remote = reach::pool(&link, &Head::default(), name, PoolAccess::ReadWrite).unwrap();
    let pool = dolmen_client::Pool::connect(Arc::new(remote), dolmen_client::Credentials::default()).unwrap();
    let home = ContName::Label(dolmen_types::Label::new("home").unwrap());
    let cont = pool.open_container(&home).unwrap();
    let told = "ask whoever uses it to end, or add --force";
    let line = system.fails(5, "daos", &["cont", "destroy", "tank", "home"]);
    assert!(line.contains("somebody has it open") && line.contains(told), "{line}");
    let line = system.fails(5, "dmg", &["pool", "destroy", "tank", "-r"]);
    assert!(line.contains("somebody has it open") && line.contains(told), "{line}");
    cont.query().unwrap();
    let check = |flags| ["fs", "check", "tank", "home", "--flags", flags];
    let line = system.fails(5, "daos", &check("remove"));
    assert!(
        line.contains("others have the container open") && line.contains("daos cont evict --all"),
        "{line}"
    );
    system.json("daos", &check("print"));
    let (_, text) = system.run("daos", &["cont", "evict", "tank", "home", "--all"]);
    assert_eq!(text, "home was taken from everybody who had it open\n");
    assert!(cont.query().is_err());
    let alone = pool.open_container_for(&home, dolmen_client::OpenFor::Alone(7)).unwrap();
    for flags in ["remove", "print"] {
        let line = system.fails(5, "daos", &check(flags));
        assert!(line.contains("others have the container open"), "{line}");
    }
    system.run("daos", &["cont", "evict", "tank", "home", "--all"]);
    assert!(alone.query().is_err());
    assert_eq!(system.json("daos", &check("remove"))["repaired"], true);
    // Nobody has it: nobody is said to have lost it.
    let (_, text) = system.run("daos", &["cont", "evict", "tank", "home"]);
    assert_eq!(text, "home was taken from whichever of your other processes had it open\n");
    let (_, text) = system.run("dmg", &["pool", "evict", "tank"]);
    assert_eq!(text, "tank was taken from all who had it open\n");
    system.json("dmg", &["pool", "destroy", "tank", "-r"]);
}

#[test]
fn of_two_pools_of_one_name_that_are_made_at_once_one_exists() {
    let system = System::new("compat-twice");
    for round in 0..5 {
        let label = format!("tank{round}");
        let start = || {
            let mut command =
                system.place.command(&["pool", "create", &label, "--size", "256MiB", "--targets", "1"]);
            command.arg0("dmg").env("XDG_DATA_HOME", &system.data).env("DOLMEN_SYSTEM", "lab");
            command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn().unwrap()
        };
        let both = [start(), start()].map(|child| child.wait_with_output().unwrap());
        let mut codes = both.each_ref().map(|output| output.status.code().unwrap());
        codes.sort_unstable();
        assert_eq!(codes, [0, 4], "{both:?}");
        system.json("dmg", &["pool", "destroy", &label]);
    }
}

#[test]
fn containers_and_their_states_are_named_as_scripts_name_them() {
    let system = System::new("compat-conts");
    system.json("dmg", &["pool", "create", "tank", "--size", "1G", "--targets", "2"]);
    let words = "cont create tank home --type=POSIX --oclass=S2 --chunk-size=2m --properties cksum:crc64,srv_cksum:on";
    system.json("daos", &words.split(' ').collect::<Vec<_>>());
    let words = "cont create tank apart --type POSIX --file-oclass S1 --dir-oclass S2 --chunk-size 128k";
    system.json("daos", &words.split(' ').collect::<Vec<_>>());
    let at = |verb, more: &[&str]| system.json("daos", &[&["fs", verb, "tank", "home"], more].concat());
    assert_eq!(at("get-attr", &["--dfs-path", "/"])["object"]["oclass"], "S2");
    at("set-attr", &["-H", "/", "--oclass", "S1"]);
    assert_eq!(at("get-attr", &["--dfs-path=/"])["directory"]["file_oclass"], "S1");
    for (words, told) in [
        ("raw --oclass SX", "--oclass is for files, and a container without --type POSIX has none"),
        ("raw --type POSIX --oclass S3", "no such class; there are S1"),
        ("raw --type POSIX --chunk-size 7q", "give bytes, or a number with a unit such as GB"),
        ("raw --type HDF5", "containers of type HDF5 cannot be made here"),
    ] {
        let words: Vec<&str> = ["cont", "create", "tank"].into_iter().chain(words.split(' ')).collect();
        let line = system.fails(2, "daos", &words);
        assert!(line.contains(told) && !line.contains("\\n"), "{words:?}: {line}");
    }
    let (_, text) = system.run("daos", &["cont", "get-acl", "tank", "home", "-v"]);
    assert!(text.contains("# Allow::OWNER@:Read/Write/"), "{text}");

    let snap = |name: &str| {
        let made = system.json("daos", &["cont", "create-snap", "tank", "home", "--snap", name]);
        made["epoch"].as_u64().unwrap()
    };
    let epochs = ["a", "b", "c", "d"].map(snap);
    let destroy =
        |more: &[&str]| system.json("daos", &[&["cont", "destroy-snap", "tank", "home"], more].concat());
    assert_eq!(destroy(&["--snap", "a"]), serde_json::json!([epochs[0]]));
    let range = format!("{}-{}", epochs[1], epochs[2]);
    assert_eq!(destroy(&["--epcrange", &range]), serde_json::json!(epochs[1..3]));
    let left = system.json("daos", &["cont", "list-snaps", "tank", "home"]);
    assert_eq!((left.as_array().unwrap().len(), &left[0]["name"]), (1, &"d".into()));
    for (code, more) in [(3, ["--snap", "a"]), (3, ["-r", &range]), (2, ["-r", "9-3"]), (2, ["-r", "x"])] {
        system.fails(code, "daos", &[&["cont", "destroy-snap", "tank", "home"], &more[..]].concat());
    }
    system.json("dmg", &["pool", "destroy", "tank", "-r"]);
}

#[test]
fn a_number_of_who_has_a_name_here_stands_for_the_name_and_a_path_for_no_pool() {
    let system = System::new("compat-numbers");
    system.json("dmg", &["pool", "create", "tank", "--size", "256MiB", "--targets", "1"]);
    let at = |verb, more: &[&str]| system.json("dmg", &[&["pool", verb, "tank"], more].concat());
    let entries = |found: &Value| found["entries"].as_array().unwrap().clone();
    // A daemon knows who calls by his name, if there is one.
    let before = entries(&at("get-acl", &[]));
    at("update-acl", &["-e", "A::0@:r"]);
    let found = entries(&at("update-acl", &["-e", "A:G:0@:r"]));
    assert!(found.contains(&"A::root@:r".into()) && found.contains(&"A:G:root@:r".into()), "{found:?}");
    assert!(entries(&at("update-acl", &["-e", "A::4200042@:r"])).contains(&"A::4200042@:r".into()));
    for principal in ["u:0@", "g:root@", "u:4200042@"] {
        at("delete-acl", &["-p", principal]);
    }
    assert_eq!(entries(&at("get-acl", &[])), before);
    let ran = system.output("dmg", &["pool", "set-owner", "tank", "-u", "0", "-g", "0@"]);
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success() && said.contains("0 is root@ on this machine"), "{said}");
    let found = at("get-acl", &[]);
    assert_eq!((&found["owner_user"], &found["owner_group"]), (&"root@".into(), &"root@".into()));
    let line = system.fails(2, "dmg", &["pool", "query", "usr/tank"]);
    assert!(
        line.contains("the label or UUID of a pool is wanted") && line.contains("that: tank; -G names"),
        "{line}"
    );
}

#[test]
fn pools_have_owners_and_lists_of_who_may_use_them() {
    let system = System::new("compat-pool-acl");
    let file = system.place.path("acl");
    std::fs::write(&file, "A::OWNER@:rw\nA::ann@:r\n").unwrap();
    let file = file.to_str().unwrap();
    let create = "pool create tank --size 256MiB --targets 1 --user daemon@ --group daemon -a";
    system.json("dmg", &create.split(' ').chain([file]).collect::<Vec<_>>());
    let at = |verb, more: &[&str]| system.json("dmg", &[&["pool", verb, "tank"], more].concat());
    let found = at("get-acl", &[]);
    assert_eq!(found["entries"], serde_json::json!(["A::OWNER@:rw", "A::ann@:r"]));
    assert_eq!((&found["owner_user"], &found["owner_group"]), (&"daemon@".into(), &"daemon@".into()));
    let props = at("get-prop", &["owner,acl"]);
    assert_eq!((&props[0]["name"], &props[0]["value"]), (&"acl".into(), &found["entries"]));
    assert_eq!((&props[1]["name"], &props[1]["value"]), (&"owner".into(), &"daemon@".into()));
    let found = at("update-acl", &["-e", "A:G:GROUP@:rw"]);
    assert_eq!(found["entries"].as_array().unwrap().len(), 3);
    let found = at("delete-acl", &["-p", "u:ann@"]);
    assert_eq!(found["entries"], serde_json::json!(["A::OWNER@:rw", "A:G:GROUP@:rw"]));
    std::fs::write(file, "A::EVERYONE@:r\n").unwrap();
    assert_eq!(at("overwrite-acl", &["-a", file])["entries"], serde_json::json!(["A::EVERYONE@:r"]));
    // Whom a certificate alone names is known to no machine, and is taken as in a list.
    let ran =
        system.output("dmg", &["pool", "set-owner", "tank", "-u", "annaofnowhere@", "-g", "nobodyatall"]);
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success() && said.lines().count() == 2, "{said}");
    assert!(said.contains("there is no user annaofnowhere here") && said.contains("certificate"), "{said}");
    let found = at("get-acl", &[]);
    let owners = (&found["owner_user"], &found["owner_group"]);
    assert_eq!(owners, (&"annaofnowhere@".into(), &"nobodyatall@".into()));
    let create = "pool create hers --size 256MiB --targets 1 --user annaofnowhere";
    system.json("dmg", &create.split(' ').collect::<Vec<_>>());
    assert_eq!(system.json("dmg", &["pool", "get-acl", "hers"])["owner_user"], "annaofnowhere@");
    at("set-owner", &["-u", "4711@", "-g", "4712"]);
    let (_, text) = system.run("dmg", &["pool", "get-acl", "tank", "-o", "out"]);
    assert_eq!(text, "# Owner: 4711@\n# Owner Group: 4712@\n# Entries:\nA::EVERYONE@:r\n");
    assert_eq!(std::fs::read_to_string(system.place.path("out")).unwrap(), text);
    let line = system.fails(2, "dmg", &["pool", "set-owner", "tank"]);
    assert!(line.contains("nobody is named; give --user or --group"), "{line}");

    // A pool that was made without `dmg` is its directory's owner's.
    system.stop();
    let own = system.data.join("dolmen/lab/own");
    system.place.make_pool(&[own.to_str().unwrap(), "--targets", "1", "--capacity", "256M"]);
    let found = system.json("dmg", &["pool", "get-acl", "own"]);
    let user = dolmen_env::user_principal(dolmen_env::user_id());
    assert_eq!(found["owner_user"], user);
    assert_eq!(found["entries"], serde_json::json!(["A::OWNER@:rw", "A:G:GROUP@:rw"]));
}

#[test]
fn options_are_those_of_daos() {
    let system = System::new("compat-options");
    std::fs::write(system.place.path("control.yml"), "name: lab\nhostlist: ['localhost']\n").unwrap();
    let json = |called: &str, words: &str| system.json(called, &words.split(' ').collect::<Vec<_>>());
    json("dmg", "-i -l localhost pool create tank --size 1GB --targets 2");
    assert_eq!(json("dmg", "-i -o control.yml pool ls")["pools"][0]["label"], "tank");
    let made = json("daos", "cont create tank home -t POSIX -d S2 -f SX -z 1MiB -a who:me,why:so");
    assert_eq!(made["container_label"], "home");
    assert_eq!(json("daos", "cont getattr tank home who")["value"], "bWU=");
    assert_eq!(json("daos", "cont lsattr tank home").as_array().unwrap().len(), 2);
    let found = json("daos", "fs get-attr tank home");
    assert_eq!(
        (&found["object"]["oclass"], &found["directory"]["file_oclass"]),
        (&"S2".into(), &"SX".into())
    );
    json("daos", "cont create tank hinted -t POSIX -H file:single,dir:max -M balanced -f S2");
    let found = json("daos", "cont query tank hinted");
    assert_eq!((&found["dir_object_class"], &found["file_object_class"]), (&"SX".into(), &"S2".into()));
    assert_eq!(found["cons_mode"], 4);
    json("daos", "fs chmod tank hinted --mode 1777");
    json("daos", "cont set-owner tank hinted --user nobodyatall --no-check");
    json("daos", "cont set-attr tank home --attr=who --value=you");
    assert_eq!(json("daos", "cont get-attr tank home -a who")["value"], "eW91");
    json("dmg", "--log-file log pool query -e tank");
    assert_eq!(json("daos", "pool ls --no-query")["pools"][0]["tier_stats"], Value::Null);
    assert_eq!(json("daos", "cont ls tank")[0]["label"], "home");
    json("daos", "cont snap tank home");
    let line = system.fails(11, "dmg", &["-l", "127.0.0.1:1", "pool", "list"]);
    assert!(line.contains("cannot reach system tcp://127.0.0.1:1"), "{line}");
    system.json("dmg", &["pool", "destroy", "tank", "-r"]);
}

#[test]
fn a_name_leads_to_the_daemon_that_serves_under_it_wherever_that_is() {
    let system = System::new("compat-named");
    std::fs::create_dir(system.place.path("srv")).unwrap();
    system.place.make_pool(&["srv/tank", "--targets", "1", "--capacity", "256M"]);
    let serve =
        ["serve", "srv", "--name", "lab", "--socket", "elsewhere.sock", "--detach", "--idle-end", "60"];
    let served = system.output("dolmen", &serve);
    assert!(served.status.success(), "{served:?}");
    let uuid = system.json("daos", &["pool", "query", "tank"])["uuid"].as_str().unwrap().to_owned();
    // Where the device has room is seen also if the socket is not in the directory.
    system.json("dmg", &["pool", "create", "part", "--size", "1%", "--targets", "1"]);
    // The same by the settings of the user.
    let config = system.place.path("config/dolmen");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("client.toml"), "system = \"lab\"\n").unwrap();
    let mut command = system.place.command(&["daos", "pool", "list"]);
    command.env("XDG_DATA_HOME", &system.data).env("XDG_CONFIG_HOME", system.place.path("config"));
    let listed = command.env_remove("DOLMEN_SYSTEM").output().unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains(&uuid), "{listed:?}");

    // Settings that cannot be read lead nowhere else.
    std::fs::write(config.join("client.toml"), "system = \"lab\n").unwrap();
    let mut command = system.place.command(&["daos", "pool", "list"]);
    command.env("XDG_DATA_HOME", &system.data).env("XDG_CONFIG_HOME", system.place.path("config"));
    let refused = command.env_remove("DOLMEN_SYSTEM").output().unwrap();
    let line = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && line.contains("line 1 of ") && line.contains("has to be system = "),
        "{line}"
    );

    system.place.ok(&["stop", "srv"]);
    let line = system.fails(11, "daos", &["pool", "list"]);
    assert!(line.contains("system lab is served from ") && line.contains("nobody is there"), "{line}");
    assert!(!system.data.join("dolmen/lab/.owner").exists(), "no new system was made");
    let line = system.fails(11, "daos", &["-G", "unix:nowhere.sock", "pool", "list"]);
    assert!(line.contains("see that `dolmen serve` runs there"), "{line}");
}

#[test]
fn nobody_starts_a_daemon_for_others_under_a_limit_that_would_end_it() {
    let system = System::new("compat-limited");
    let listed = |limit: &str| {
        let script = format!("ulimit {limit}; exec \"$0\" daos -G default pool list");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_dolmen")]).current_dir(system.place.path(""));
        command.env("XDG_DATA_HOME", system.place.path("own")).env_remove("DOLMEN_SYSTEM").output().unwrap()
    };
    for (limit, named) in
        [("-t 600", "processor time (ulimit -Ht)"), ("-f 1000000", "the size of files (ulimit -Hf)")]
    {
        let refused = listed(limit);
        let line = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && line.contains(named), "{line}");
        assert!(line.contains("start that elsewhere with `dolmen serve SYSTEM --detach`"), "{line}");
    }
    // With one that it may raise, and under any once somebody serves.
    for limit in ["-S -t 600", "-t 600"] {
        let ran = listed(limit);
        assert!(ran.status.success(), "{ran:?}");
    }
    system.place.ok(&["stop", system.place.path("own/dolmen/default").to_str().unwrap()]);
}

#[test]
fn a_name_that_nobody_knows_begins_no_system_until_a_pool_is_made() {
    let system = System::new("compat-unknown");
    let line = system.fails(11, "daos", &["pool", "list"]);
    assert!(line.contains("has a system lab") && line.contains("dmg -G lab pool create"), "{line}");
    system.fails(11, "daos", &["pool", "query", "tank"]);
    system.fails(11, "dmg", &["system", "query"]);
    assert!(!system.data.exists(), "nothing was made");
    system.json("dmg", &["pool", "create", "tank", "--size", "256MiB", "--targets", "1", "--volatile"]);
    assert_eq!(system.json("daos", &["pool", "list"])["pools"][0]["label"], "tank");
    // The system of the user alone is there without being asked for.
    let data = system.place.path("own");
    let mut command = system.place.command(&["daos", "-G", "default", "pool", "list"]);
    let listed = command.env("XDG_DATA_HOME", &data).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    system.place.ok(&["stop", data.join("dolmen/default").to_str().unwrap()]);
    // Without a place for the user's data.
    let mut command = system.place.command(&["daos", "-G", "lab", "pool", "list"]);
    let ran = command.env_remove("XDG_DATA_HOME").env("HOME", "relative").output().unwrap();
    let line = String::from_utf8(ran.stderr).unwrap();
    assert!(line.contains("neither XDG_DATA_HOME nor HOME is set to a whole path"), "{line}");
}

#[test]
fn a_private_system_without_pools_hides_none_of_the_machine() {
    let system = System::new("compat-hidden");
    let own = system.data.join("dolmen/lab");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join(".owner"), "").unwrap();
    std::fs::create_dir(system.place.path("srv")).unwrap();
    system.place.make_pool(&["srv/shared", "--targets", "1", "--capacity", "256M"]);
    let run = system.place.path("run");
    std::fs::create_dir(&run).unwrap();
    let socket = run.join("lab.sock").display().to_string();
    let serve = ["serve", "srv", "--name", "lab", "--socket", &socket, "--detach", "--idle-end", "60"];
    let mut command = system.place.command(&serve);
    command.env("DOLMEN_RUN", &run).env("XDG_DATA_HOME", system.place.path("service"));
    assert!(command.output().unwrap().status.success());
    let mut command = system.place.command(&["daos", "-G", "lab", "pool", "list"]);
    let listed = command.env("DOLMEN_RUN", &run).env("XDG_DATA_HOME", &system.data).output().unwrap();
    let uuid = system.place.json(&["pool", "list", "srv"])[0]["uuid"].as_str().unwrap().to_owned();
    assert!(String::from_utf8_lossy(&listed.stdout).contains(&uuid), "{listed:?}");
    system.place.ok(&["stop", "srv"]);
}

/// The names in a JSON object, as one text.
fn keys(value: &Value) -> String {
    let mut keys: Vec<&str> =
        value.as_object().unwrap_or_else(|| panic!("{value}")).keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys.join(" ")
}

/// Each word of `wanted` is among the names in a JSON object.
fn has(value: &Value, wanted: &str) {
    let keys = keys(value);
    for key in wanted.split(' ') {
        assert!(keys.split(' ').any(|found| found == key), "{key} is missing: {value}");
    }
}

#[test]
fn answers_have_the_shapes_of_daos() {
    let system = System::new("compat-shapes");
    let json = |called: &str, words: &str| system.json(called, &words.split(' ').collect::<Vec<_>>());
    let made = json("dmg", "pool create tank --size 256MiB --targets 1");
    assert_eq!(keys(&made), "md_on_ssd_active mem_file_bytes svc_ldr svc_reps tgt_ranks tier_bytes uuid");
    const POOL: &str = "query_mask state uuid label total_targets active_targets total_engines disabled_targets \
                        version svc_ldr svc_reps rebuild tier_stats pool_layout_ver upgrade_layout_ver \
                        mem_file_bytes md_on_ssd_active self_heal_policy usage";
    for (called, words) in [("daos", "pool query tank"), ("dmg", "pool query tank")] {
        let told = json(called, words);
        has(&told, POOL);
        assert_eq!(keys(&told["tier_stats"][1]), "free max mean media_type min total");
        has(&told["rebuild"], "status state objects records total_objects");
    }
    for called in ["daos", "dmg"] {
        let told = json(called, "pool list");
        assert_eq!(told["status"], 0);
        has(&told["pools"][0], POOL);
        assert_eq!(keys(&told["pools"][0]["usage"][0]), "free imbalance size tier_name");
    }
    assert_eq!(json("dmg", "system list-pools"), json("dmg", "pool list"));
    assert_eq!(json("dmg", "pool query -e tank")["enabled_ranks"], "0");
    assert_eq!(json("dmg", "pool query --health-only tank")["tier_stats"], Value::Null);
    assert_eq!(keys(&json("dmg", "pool get-prop tank")[0]), "description name value");
    assert_eq!(keys(&json("dmg", "pool get-acl tank")), "entries owner_group owner_user");
    let told = json("daos", "pool query-targets tank --rank 0");
    has(&told["infos"][0], "target_state space");
    json("daos", "pool set-attr tank one:1");
    assert_eq!(json("daos", "pool list-attrs tank"), serde_json::json!(["one"]));
    assert_eq!(keys(&json("daos", "pool get-attr tank one")), "name value");

    let told = json("dmg", "system query");
    has(&told["members"][0], "addr state fault_domain rank uuid fabric_uri info");
    assert_eq!(keys(&json("dmg", "system leader-query")), "current_leader down_replicas replicas");
    has(
        &json("daos", "system query"),
        "system_name fabric_provider agent_path rank_uris access_point_rank_uris",
    );
    json("dmg", "pool destroy tank -r");
}

#[test]
fn answers_about_containers_have_the_shapes_of_daos() {
    let system = System::new("compat-shapes-cont");
    let json = |called: &str, words: &str| system.json(called, &words.split(' ').collect::<Vec<_>>());
    json("dmg", "pool create tank --size 256MiB --targets 1");
    const CONT: &str = "close_modify_time container_type container_uuid health latest_snapshot num_handles num_snapshots \
                        open_time pool_uuid redundancy_factor";
    assert_eq!(keys(&json("daos", "cont create tank")), CONT);
    let posix = json("daos", "cont create tank home --type POSIX");
    has(&posix, CONT);
    has(&posix, "container_label object_class dir_object_class file_object_class chunk_size cons_mode");
    assert_eq!(keys(&posix), keys(&json("daos", "cont query tank home")));
    // When it was opened before, not by who asks.
    let opened = |told: &Value| told["open_time"].as_u64().unwrap();
    let (first, second) = (json("daos", "cont query tank home"), json("daos", "cont query tank home"));
    assert!(opened(&second) > opened(&first), "{first} {second}");
    assert!(second["close_modify_time"].as_u64().unwrap() > opened(&second), "closed since: {second}");
    let listed = json("daos", "pool list-containers tank");
    assert_eq!(listed, json("daos", "cont list tank"));
    assert_eq!(
        (keys(&listed[0]).as_str(), listed[0]["label"].as_str()),
        ("label uuid", Some("container_label_not_set"))
    );
    assert_eq!(keys(&json("daos", "cont get-prop tank home")[0]), "description name value");
    assert_eq!(keys(&json("daos", "cont get-acl tank home")), "entries owner_group owner_user");
    let made = json("daos", "cont create-snap tank home --snap then");
    assert_eq!(keys(&made), "epoch name timestamp");
    assert_eq!(json("daos", "cont list-snaps tank home"), serde_json::json!([made]));
    json("daos", "cont create-snap tank home");
    assert_eq!(keys(&json("daos", "cont list-snaps tank home")[1]), "epoch timestamp");
    json("daos", "cont set-attr tank home one:1,two:2");
    assert_eq!(json("daos", "cont list-attrs tank home"), serde_json::json!(["one", "two"]));
    assert_eq!(keys(&json("daos", "cont get-attr tank home")[0]), "name value");
    let oids = json("daos", "cont list-objects tank home");
    let (_, text) = system.run("daos", &["object", "query", "tank", "home", "-i", oids[0].as_str().unwrap()]);
    assert!(
        text.starts_with(&format!(
            "oid: {} ver 0 grp_nr: 1\ngrp: 0\nreplica 0 0:0\n",
            oids[0].as_str().unwrap()
        )),
        "{text}"
    );
    assert_eq!(keys(&json("daos", "fs get-attr tank home")), "directory object");

    let (code, text) = system.run("daos", &["cont", "query", "tank", "none", "-j"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &answer["response"], &answer["status"]), (3, &Value::Null, &(-1005).into()), "{text}");
    has(&answer, "response error status");
    json("dmg", "pool destroy tank -r");
}

#[test]
fn a_path_outside_stands_for_a_container() {
    let system = System::new("compat-path");
    let json = |words: &str| system.json("daos", &words.split(' ').collect::<Vec<_>>());
    system.json("dmg", &["pool", "create", "tank", "--size", "256MiB", "--targets", "1"]);
    let at = system.place.path("here");
    let made = json("cont create tank home --type POSIX --path here --attrs who:me");
    assert!(at.is_dir());
    assert_eq!(json("cont query --path=here")["container_uuid"], made["container_uuid"]);
    assert_eq!(json("cont get-attr -p here who")["value"], "bWU=", "what follows the names follows the path");
    std::fs::create_dir(at.join("sub")).unwrap();
    let tank = system.data.join("dolmen/lab/tank");
    system.place.ok(&["fs", "put", tank.to_str().unwrap(), "home", "here/sub", "/sub"]);
    json("fs set-attr --path here/sub --oclass S1");
    assert_eq!(json("fs get-attr tank home --dfs-path /sub")["directory"]["file_oclass"], "S1");
    assert_eq!(json("fs get-attr --path here")["directory"]["file_oclass"], "SX");
    std::fs::remove_dir(at.join("sub")).unwrap();
    let line = system.fails(4, "daos", &["cont", "create", "tank", "other", "--path", "here"]);
    assert!(line.contains("let here stand for a container"), "{line}");
    assert_eq!(json("cont list tank").as_array().unwrap().len(), 1, "nothing is left of it");
    let line = system.fails(3, "daos", &["cont", "query", "--path", "."]);
    assert!(line.contains("stands for a container; give POOL and CONT"), "{line}");
    system.fails(3, "daos", &["cont", "query", "--path", "nowhere"]);

    json("cont create tank raw");
    json("cont link tank raw --path file");
    assert!(system.place.path("file").is_file());
    json("cont destroy --path file");
    json("cont destroy --path here");
    assert!(!at.exists() && !system.place.path("file").exists());
    assert_eq!(json("cont list tank"), serde_json::json!([]));
    system.json("dmg", &["pool", "destroy", "tank"]);
}
