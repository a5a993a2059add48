//! SIGINT, SIGTERM and SIGHUP: a command that is interrupted says so, as text or as JSON, and leaves a whole pool behind.

use crate::common::{Place, Ran, bytes, hearing};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

const SIGNALS: [(Signal, i32, &str); 3] =
    [(Signal::INT, 130, "SIGINT"), (Signal::TERM, 143, "SIGTERM"), (Signal::HUP, 129, "SIGHUP")];

/// Files of a tree that takes seconds to be copied by one thread.
const FILES: usize = 4000;

pub(crate) fn start(command: Command) -> Child {
    hearing(&command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends a signal, and waits for the end.
pub(crate) fn interrupt(child: Child, signal: Signal) -> Ran {
    kill_process(Pid::from_child(&child), signal).unwrap();
    Ran::of("interrupted", child.wait_with_output().unwrap())
}

/// Waits for a pool that is in use.
fn wait(place: &Place, more: &[&str]) -> Command {
    place.command(&[&["pool", "query", "p", "--wait", "600"], more].concat())
}

/// Uses the pool.
fn hold(place: &Place) -> fs::File {
    let held = fs::File::open(place.path("p/.owner")).unwrap();
    rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
    held
}

/// Returns when the thread that waits for signals is there.
fn until_it_hears(child: &mut Child) {
    let threads = |pid: u32| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    while threads(child.id()) < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it waits for the pool");
        std::thread::yield_now();
    }
}

#[test]
fn a_command_that_is_interrupted_says_so_in_one_line_or_document() {
    let place = Place::new("interrupted");
    place.pool_with_files();
    for (signal, code, name) in SIGNALS {
        let told = format!("interrupted by {name}; run the command again");
        for more in [&[][..], &["--json"]] {
            let held = hold(&place);
            let mut child = start(wait(&place, more));
            until_it_hears(&mut child);
            let ran = interrupt(child, signal);
            drop(held);
            assert_eq!(ran.output.status.signal(), Some(code - 128), "{ran:?}");
            if more.is_empty() {
                assert_eq!((ran.stdout(), ran.stderr()), (String::new(), format!("dolmen: {told}\n")));
                continue;
            }
            let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
            assert_eq!((&answer["response"], &answer["error"]), (&Value::Null, &json!(told)));
            assert_eq!((&answer["status"], &answer["detail"]["exit"]), (&json!(-1018), &json!(code)));
            assert_eq!(ran.stderr(), "");
        }
    }
    assert_eq!(place.json(&["check", "p"])["clean"], true);
}

#[test]
fn a_signal_that_is_ignored_for_a_command_does_not_end_it() {
    let place = Place::new("ignored");
    place.pool_with_files();
    let inner = wait(&place, &[]);
    let mut shell = Command::new("sh");
    shell.current_dir(place.path("")).args(["-c", "trap '' INT; exec \"$@\"", "sh"]);
    shell.arg(inner.get_program()).args(inner.get_args());
    let held = hold(&place);
    let mut child = start(shell);
    until_it_hears(&mut child);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    drop(held);
    let ran = Ran::of("ignored", child.wait_with_output().unwrap());
    assert_eq!(ran.code(), 0, "{ran:?}");
    assert!(ran.stdout().starts_with("directory"), "{ran:?}");
}

#[test]
fn a_copy_that_is_interrupted_closes_the_pool_and_goes_on_when_it_is_repeated() {
    let place = Place::new("called-off");
    place.pool_with_files();
    for n in 0..FILES {
        let dir = place.path(&format!("src/d{}", n % 7));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("f{n}")), bytes(n % 5000, n as u64)).unwrap();
    }
    let put = ["fs", "put", "p", "c", "src", "/t", "-j", "1", "--log", "journal", "--json"];
    for (signal, code, name) in SIGNALS {
        drop(fs::remove_file(place.path("journal")));
        let mut child = start(place.command(&put));
        while fs::metadata(place.path("journal")).map_or(0, |journal| journal.len()) == 0 {
            assert!(child.try_wait().unwrap().is_none(), "it puts at least one file");
            std::thread::yield_now();
        }
        let ran = interrupt(child, signal);
        assert_eq!(ran.output.status.signal(), Some(code - 128), "{ran:?}");
        let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
        let told = format!("cannot put src at /t: interrupted by {name}; run the command again");
        assert_eq!((&answer["response"], &answer["error"]), (&Value::Null, &json!(told)));
        assert_eq!((&answer["status"], &answer["detail"]["exit"]), (&json!(-1018), &json!(code)));
        assert_eq!(ran.stderr(), "");

        let checked = place.json(&["check", "p"]);
        assert_eq!(checked["clean"], true, "{checked}");
        let targets = checked["targets"].as_array().unwrap();
        assert!(targets.iter().all(|target| target["closed"] == true), "{checked}");
        assert_eq!(checked["file_systems"][0]["unnamed_objects"], 0, "{checked}");
        assert_eq!(place.json(&["fs", "verify", "p", "c", "--log", "journal"])["differences"], 0);
    }
    let rest = place.json(&["fs", "put", "p", "c", "src", "/t"]);
    assert!(rest["resumed"].as_u64() > Some(0), "{rest}");
    place.ok(&["fs", "verify", "p", "c", "src", "/t"]);
}

#[test]
fn a_removal_that_is_interrupted_stops_before_its_next_operand_and_closes_the_pool() {
    let place = Place::new("removal");
    place.pool_with_files();
    fs::create_dir_all(place.path("src/dir")).unwrap();
    fs::write(place.path("src/dir/f"), b"f").unwrap();
    let names: Vec<String> = (0..FILES / 2).map(|n| format!("/t/f{n}")).collect();
    (0..FILES / 2).for_each(|n| fs::write(place.path(&format!("src/f{n}")), b"f").unwrap());
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let mut rm = vec!["fs", "rm", "-r", "--json", "p", "c", "/t/dir"];
    rm.extend(names.iter().map(String::as_str));
    for (signal, code, name) in SIGNALS {
        let left = place.json(&["fs", "du", "p", "c", "/t"])["files"].as_u64().unwrap();
        // After the first time the directory is gone, and the files at the front: both are failures, and it goes on.
        let mut child = start(place.command(&rm));
        let pid = child.id();
        // A file of a target is mapped: the pool is being opened, or is open.
        let is_open =
            || fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("/p/t"));
        while !is_open() {
            assert!(child.try_wait().unwrap().is_none(), "it opens the pool");
            std::thread::yield_now();
        }
        let ran = interrupt(child, signal);
        assert_eq!(ran.output.status.signal(), Some(code - 128), "{ran:?}");
        let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
        let told = answer["error"].as_str().unwrap();
        assert!(told.starts_with("cannot remove /t/"), "{told}");
        assert!(told.ends_with(&format!(": interrupted by {name}; run the command again")), "{told}");
        assert_eq!((&answer["status"], &answer["detail"]["exit"]), (&json!(-1018), &json!(code)));

        let checked = place.json(&["check", "p"]);
        assert_eq!(checked["clean"], true, "{checked}");
        let targets = checked["targets"].as_array().unwrap();
        assert!(targets.iter().all(|target| target["closed"] == true), "{checked}");
        let after = place.json(&["fs", "du", "p", "c", "/t"])["files"].as_u64().unwrap();
        assert!(after > 0 && after <= left, "{after} of {left} files are left");
    }
    place.run(&rm);
    assert_eq!(place.json(&["fs", "du", "p", "c", "/t"])["files"], 0);
}

#[test]
fn a_measurement_that_is_interrupted_leaves_nothing_behind() {
    for (signal, code, name) in SIGNALS {
        let place = Place::new(&format!("bench-{code}"));
        ["mem", "disk"].iter().for_each(|dir| fs::create_dir(place.path(dir)).unwrap());
        let only = ["bench", "dfs", "--quick", "--only", "dfs", "--seconds", "20"];
        let mut child = start(place.command(&[&only[..], &["--dir", "mem", "--disk-dir", "disk"]].concat()));
        let is_begun = || {
            let below = fs::read_dir(place.path("mem")).unwrap().next();
            below.is_some_and(|dir| dir.unwrap().path().join("dfs").exists())
        };
        while !is_begun() {
            assert!(child.try_wait().unwrap().is_none(), "it measures");
            std::thread::yield_now();
        }
        let ran = interrupt(child, signal);
        assert_eq!(ran.output.status.signal(), Some(code - 128), "{ran:?}");
        assert!(ran.stderr().contains(&format!("interrupted by {name}")), "{ran:?}");
        assert!(!ran.stderr().contains("Broken pipe"), "{ran:?}");
        for dir in ["mem", "disk"] {
            assert_eq!(fs::read_dir(place.path(dir)).unwrap().count(), 0, "{dir}");
        }
    }
}
