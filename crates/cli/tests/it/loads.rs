//! `bench object`, `ior` and `mdtest`: every phase through a daemon with small sizes, and that what is compared is compared.

use crate::common::{Place, hearing};
use crate::served::Daemon;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

/// Figures of a load through a daemon of its own.
fn figures(place: &Place, words: &str) -> Value {
    let own = ["--dir", place.path("").to_str().unwrap(), "--capacity", "256M"].map(str::to_owned);
    let words: Vec<&str> = words.split(' ').chain(own.iter().map(String::as_str)).collect();
    place.json(&[&["bench"], &words[..]].concat())
}

/// Asserts that these phases, and no others, were measured, and what of each.
fn assert_phases(figures: &Value, expected: &[(&str, u64, u64)], processes: usize, rounds: usize) {
    let phases = figures["phases"].as_array().unwrap();
    let told: Vec<(&str, u64, u64)> = phases
        .iter()
        .map(|phase| {
            let first = &phase["rounds"][0];
            let counts = [&first["op_count"], &first["byte_count"]].map(|count| count.as_u64().unwrap());
            (phase["phase"].as_str().unwrap(), counts[0], counts[1])
        })
        .collect();
    assert_eq!(told, expected);
    for phase in phases {
        assert_eq!(phase["rounds"].as_array().unwrap().len(), rounds, "{phase}");
        assert_eq!(phase["process_cpu_s"].as_array().unwrap().len(), processes, "{phase}");
        for figure in ["ops_per_s", "ops_per_s_least", "ops_per_s_most", "p50_us", "p99_us", "wall_s"] {
            assert!(phase[figure].as_f64().unwrap() > 0.0, "{figure} of {phase}");
        }
        assert!(phase["daemon_cpu_s"].as_f64().is_some(), "{phase}");
    }
    assert_eq!(figures["conditions"]["own_daemon"], true);
    assert_eq!(figures["conditions"]["processes"], processes);
}

/// Nothing that a load has made for itself is left.
fn assert_cleared(place: &Place) {
    let mut left: Vec<String> = std::fs::read_dir(place.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.retain(|name| name.starts_with("dolmen-bench"));
    assert_eq!(left, [""; 0]);
}

#[test]
fn values_of_objects_are_updated_fetched_and_compared() {
    let place = Place::new("loads-object");
    for (words, processes) in [
        ("object -n 300 -s 4096 -R -i 2", 1),
        ("object -n 300 -s 100 -R -q 16 -N 2 -i 2", 2),
        ("object -n 100 -s 5000 -R -q 4 --kind array --oclass SX --targets 2 -N 2 -i 2 --tcp", 2),
    ] {
        let told = figures(&place, words);
        let load = &told["load"]["object"];
        let ops = load["count"].as_u64().unwrap() * processes as u64;
        let bytes = ops * load["value_bytes"].as_u64().unwrap();
        assert_phases(&told, &[("update", ops, bytes), ("fetch", ops, bytes)], processes, 2);
        let is_tcp = told["conditions"]["system"].as_str().unwrap().starts_with("tcp://");
        assert_eq!(is_tcp, words.contains("--tcp"));
    }
    assert_cleared(&place);
}

#[test]
fn large_files_are_written_read_and_compared() {
    let place = Place::new("loads-ior");
    for (words, ops, bytes, processes) in [
        ("ior -b 2M -t 256K -W -R -i 1", 8, 2 << 20, 1),
        ("ior -b 1M -t 128K -s 3 -F -C -z -W -R -N 2 -i 1", 48, 6 << 20, 2),
        ("ior -a array -b 1M -t 64K -s 2 -C -W -R -N 2 -i 1", 64, 4 << 20, 2),
        ("ior --hard -s 40 -W -R -N 2 -i 1 --tcp", 80, 80 * 47_008, 2),
    ] {
        let told = figures(&place, words);
        let phases = ["write", "write check", "read"].map(|phase| (phase, ops, bytes));
        assert_phases(&told, &phases, processes, 1);
        assert!(told["phases"][0]["mib_per_s"].as_f64().unwrap() > 0.0);
    }
    assert_cleared(&place);
}

#[test]
fn many_files_and_directories_are_made_looked_at_and_removed() {
    let place = Place::new("loads-mdtest");
    let told = figures(&place, "mdtest -n 40 -u -w 100 -e 50 -x -N 2 --stride 1 -i 1");
    let each = |phase, bytes| (phase, 80, bytes);
    let all = [
        ("tree creation", 2, 0),
        each("directory creation", 0),
        each("directory stat", 0),
        each("directory removal", 0),
        each("file creation", 8000),
        each("file stat", 0),
        each("file read", 4000),
        each("file removal", 0),
        ("tree removal", 2, 0),
    ];
    assert_phases(&told, &all, 2, 1);
    for (words, bytes) in [("mdtest --hard -n 40 -x -X -i 2", 40 * 3901), ("mdtest --easy -n 40 -i 2", 0)] {
        let told = figures(&place, words);
        let each = |phase, bytes| (phase, 40, bytes);
        let all = [
            ("tree creation", 1, 0),
            each("file creation", bytes),
            each("file stat", 0),
            each("file read", bytes),
            each("file removal", 0),
            ("tree removal", 1, 0),
        ];
        assert_phases(&told, &all, 1, 2);
    }
    assert_cleared(&place);
}

/// A daemon with a pool `p` and a container of files, and the words that name them.
fn served(place: &Place) -> (Daemon, Vec<String>) {
    place.pool_with_files();
    let label = place.json(&["pool", "query", "p"])["uuid"].as_str().unwrap().to_owned();
    let daemon = Daemon::start(place, &[]);
    let system = format!("unix:{}", place.path("dolmen.sock").display());
    let words = ["--system", &system, "--pool", &label, "--cont", "c"].map(str::to_owned);
    (daemon, words.to_vec())
}

fn at<'a>(words: &'a str, named: &'a [String]) -> Vec<&'a str> {
    ["bench"].into_iter().chain(words.split(' ')).chain(named.iter().map(String::as_str)).collect()
}

#[test]
fn data_that_differ_are_found_where_they_are() {
    let place = Place::new("loads-differ");
    let (daemon, named) = served(&place);
    let ior = "-b 512K -t 64K -G 1 -N 2";
    place.ok(&at(&format!("ior -w -k {ior}"), &named));
    place.ok(&at(&format!("ior -r -R -k {ior}"), &named));
    let line = place.fails(7, &at("ior -r -R -k -b 512K -t 64K -G 2 -N 2", &named));
    assert!(line.contains("file /ior differs at byte 0: expected "), "{line}");

    place.ok(&["fs", "get", "p", "c", "/ior", "copy"]);
    let mut bytes = std::fs::read(place.path("copy")).unwrap();
    assert_eq!(bytes.len(), 1 << 20);
    bytes[700_000] ^= 1;
    std::fs::write(place.path("copy"), &bytes).unwrap();
    place.ok(&["fs", "rm", "p", "c", "/ior"]);
    place.ok(&["fs", "put", "p", "c", "copy", "/ior"]);
    let line = place.fails(7, &at(&format!("ior -r -R -k {ior}"), &named));
    assert!(line.contains("file /ior differs at byte 700000: expected "), "{line}");
    place.ok(&at(&format!("ior -r -k {ior}"), &named));

    let arrays = "-a ARRAY -F -b 512K -t 64K -N 2";
    place.ok(&at(&format!("ior -w -k {arrays} -G 1"), &named));
    place.ok(&at(&format!("ior -r -R -k {arrays} -G 1"), &named));
    let line = place.fails(7, &at(&format!("ior -r -R -k {arrays} -G 2"), &named));
    assert!(line.contains("array /ior.0000000"), "{line}");

    place.ok(&at("object -w -k -n 20 -q 4 -G 1", &named));
    place.ok(&at("object -r -R -k -n 20 -q 4 -G 1", &named));
    let line = place.fails(7, &at("object -r -R -k -n 20 -G 2", &named));
    assert!(line.contains("the value of process 0 under dkey 0 differs at byte 0"), "{line}");
    let line = place.fails(7, &at("object -r -k -n 21 -G 1", &named));
    assert!(line.contains("under dkey 20 (0 bytes instead of 4096) is wrong"), "{line}");

    place.ok(&at("mdtest -C -F -n 5 -w 100 -G 1", &named));
    place.ok(&at("mdtest -E -F -n 5 -e 100 -X -G 1", &named));
    let line = place.fails(7, &at("mdtest -E -F -n 5 -e 100 -X -G 2", &named));
    assert!(line.contains("file /mdtest/tree/file.mdtest.0.0 differs at byte 0"), "{line}");
    let line = place.fails(7, &at("mdtest -E -F -n 5 -e 101 -G 1", &named));
    assert!(line.contains("file.mdtest.0.0 (100 bytes instead of 101) is wrong"), "{line}");
    place.ok(&at("mdtest -r -F -n 5", &named));
    let line = place.fails(3, &at("mdtest -E -F -n 5", &named));
    assert!(line.contains("dfs_open of mdtest"), "{line}");
    daemon.end();
    assert!(place.ok(&["check", "p"]).contains("clean"));
}

#[test]
fn a_pool_and_a_container_that_were_made_are_removed() {
    let place = Place::new("loads-made");
    let (daemon, named) = served(&place);
    let pid = daemon.child.id().to_string();
    let system: Vec<String> = named.iter().take(2).cloned().collect();
    let told = place.json(&at(&format!("mdtest -n 5 -i 1 --capacity 256M --daemon-pid {pid}"), &system));
    assert_eq!(told["conditions"]["own_daemon"], false);
    assert!(told["phases"][0]["daemon_cpu_s"].as_f64().is_some());
    let pools = place.json(&["dmg", "-G", &named[1], "pool", "list"]);
    assert_eq!(pools["pools"].as_array().unwrap().len(), 1, "{pools}");
    let pool: Vec<String> = named.iter().take(4).cloned().collect();
    let told = place.json(&at("object -n 5 -i 1", &pool));
    assert!(told["phases"][0]["daemon_cpu_s"].is_null(), "nobody has said which process it is");
    assert_eq!(place.json(&["cont", "list", "p"]).as_array().unwrap().len(), 1);
    daemon.end();
}

#[test]
fn wrong_arguments_of_a_load_are_told() {
    let place = Place::new("loads-wrong");
    for (words, why) in [
        ("ior -t 1001", "no multiple of 8"),
        ("ior -b 100 -t 64", "no multiple of a transfer"),
        ("ior -b 1T -s 4000000000 -N 2", "too much"),
        ("object -s 1G -q 100", "too much memory"),
        ("ior -r", "a --cont is needed"),
        ("object -r", "a --cont is needed"),
        ("mdtest -C", "a --cont is needed"),
        ("mdtest -e 10", "cannot be read of files of 0"),
        ("object --pool p", "needs the --system"),
    ] {
        let line = place.fails(2, &at(words, &[]));
        assert!(line.contains(why), "{words}: {line}");
    }
    for words in ["ior -N 0", "object -q 0", "ior -k", "mdtest --easy --hard", "ior -o a/b"] {
        assert_eq!(place.run(&at(words, &[])).code(), 2, "{words}");
    }
    let ran = place.run(&at("object -i 1 --oclass NOTHING --capacity 256M --dir .", &[]));
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr().contains("daos_oclass_name2id of NOTHING"), "{ran:?}");
    let nowhere = format!("unix:{}", place.path("nowhere").display());
    let ran = place.run(&at("object --pool p --cont c", &["--system".to_owned(), nowhere]));
    assert_eq!(ran.code(), 5, "as of every daemon that does not answer: {ran:?}");
    assert!(ran.stderr().contains("daos_pool_connect of p: DER_UNREACH"), "{ran:?}");
    assert_cleared(&place);
}

/// Whether a process has this among its words.
fn has_word(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("cmdline"));
    // A process may end meanwhile.
    let mut words = processes.filter_map(|path| std::fs::read(path).ok());
    words.any(|words| words.windows(word.len()).any(|part| part == word.as_bytes()))
}

fn waited_for(mut condition: impl FnMut() -> bool) -> bool {
    for _ in 0..2000 {
        if condition() {
            return true;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    false
}

#[test]
fn an_interrupted_load_leaves_neither_processes_nor_files() {
    let place = Place::new("loads-interrupted");
    let words =
        ["bench", "object", "-n", "1000000000", "-s", "8", "-N", "2", "--dir", ".", "--capacity", "256M"];
    let mut command = hearing(&place.command(&words));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let name = format!("dolmen-bench-{}", child.id());
    let runs = || has_word(&format!("\"cont\":\"{name}\""));
    assert!(waited_for(runs), "the processes of the load run");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
    assert!(waited_for(|| !has_word(&name)), "they have ended");
    assert_cleared(&place);
}

#[test]
fn an_interrupted_load_leaves_nothing_in_a_pool_of_others() {
    let place = Place::new("loads-guests");
    let (daemon, named) = served(&place);
    let (system, pool) = (&named[1], &named[3]);
    for given in [&["--system", system, "--pool", pool][..], &["--system", system, "--capacity", "256M"]] {
        let words = ["bench", "object", "-n", "1000000000", "-s", "8"];
        let words = [&words[..], given].concat();
        let mut command = hearing(&place.command(&words));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let name = format!("dolmen-bench-{}", child.id());
        assert!(waited_for(|| has_word(&format!("\"cont\":\"{name}\""))), "the process of the load runs");
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGINT as i32));
        assert_eq!(place.json(&["cont", "list", "p"]).as_array().unwrap().len(), 1, "that of others");
        let pools = place.json(&["dmg", "-G", system, "pool", "list"]);
        assert_eq!(pools["pools"].as_array().unwrap().len(), 1, "{pools}");
    }
    daemon.end();
}
