//! Mounts that are taken away, and who keeps them nevertheless.

use super::{Mounted, Running, can_be_others, unmounted, wait_until};
use dolmen_env::mounts_of_process;
use nix::sys::signal::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn who_takes_a_mount_away_by_force_finds_its_pool_free_afterwards() {
    if !can_be_others() {
        return;
    }
    type New = fn(&str, &[&str]) -> Option<Mounted>;
    for (name, new) in [("alone", Mounted::alone as New), ("served", Mounted::served)] {
        let Some(mut mounted) = new(&format!("taken-{name}"), &[]) else { return };
        let file = fs::File::create(mounted.path("f")).unwrap();
        let mut said = mounted.place.json(&["unmount", "mnt", "--force"]);
        drop(file);
        let child = &mut mounted.first().child;
        assert_eq!(said["pid"].take(), child.id());
        assert!(child.try_wait().unwrap().is_some(), "it has ended when the command returns");
        mounted.mounts.clear();
        mounted.finish();
    }
}

#[test]
fn who_keeps_a_mount_in_a_namespace_of_his_own_is_named_and_the_end_of_its_process_is_clean() {
    if !can_be_others() {
        return;
    }
    let Some(mut mounted) = Mounted::alone("kept", &[]) else { return };
    fs::write(mounted.path("f"), b"stone").unwrap();
    let mut keeper = Command::new("unshare");
    keeper.args(["--mount", "--propagation", "private", "sh", "-c", "echo; exec sleep 600"]);
    let mut keeper = Running::of(keeper.stdout(Stdio::piped()));
    let mut line = String::new();
    BufReader::new(keeper.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    wait_until("it sleeps", || {
        fs::read_to_string(format!("/proc/{}/comm", keeper.0.id())).is_ok_and(|name| name == "sleep\n")
    });
    let pid = mounted.first().child.id();
    // Programs of other tests have its files for a moment.
    let mut ran = mounted.place.run(&["unmount", "mnt", "--wait", "0"]);
    wait_until("it is gone from here", || {
        if ran.stderr().contains("somebody uses it") {
            ran = mounted.place.run(&["unmount", "mnt", "--wait", "0"]);
        }
        !ran.stderr().contains("somebody uses it")
    });
    assert_eq!(ran.code(), 5, "{ran:?}");
    let said = ran.stderr();
    let why = format!(
        "cannot end the mount of mnt everywhere: it is gone from here, but process {pid} keeps its pool"
    );
    assert!(said.contains(&why), "{said}");
    assert!(
        said.contains("in another mount namespace") && said.contains(&format!("`kill {pid}` ends")),
        "{said}"
    );
    // Others of this machine may have been started meanwhile, with copies of their own.
    let copies = mounts_of_process(keeper.0.id(), dolmen_env::MOUNT_TYPE).unwrap();
    assert!(copies.iter().any(|copy| copy.dir.ends_with("mnt")), "{copies:?}");
    assert!(
        said.contains(&format!("process {} (sleep)", keeper.0.id())) || said.contains(" have a copy"),
        "{said}"
    );
    mounted.first().signal(Signal::SIGTERM);
    assert_eq!(mounted.first().ends(), 0, "{}", mounted.first().log());
    assert_eq!(mounted.first().log(), "", "nothing is wrong");
    keeper.kill();
    mounted.mounts.clear();
    assert_eq!(mounted.place.ok(&["fs", "cat", "sys/p", "c", "/f"]), "stone");
    mounted.finish();
}

#[test]
fn the_process_of_a_mount_that_was_replaced_leaves_the_next_one_alone() {
    let Some(mut mounted) = Mounted::served("replaced", &[]) else { return };
    let file = fs::File::create(mounted.path("f")).unwrap();
    mounted.place.ok(&["unmount", "mnt", "--lazy"]);
    mounted.mount("mnt", &[]);
    mounted.first().signal(Signal::SIGTERM);
    drop(file);
    assert_eq!(mounted.first().ends(), 0, "{}", mounted.first().log());
    assert!(mounted.path("f").exists(), "the next mount is there");
    // It would take the name away that is another's now.
    let mut first = mounted.mounts.remove(0);
    first.guard.take();
    core::mem::forget(first);
    mounted.finish();
}

#[test]
fn lines_in_the_log_of_a_mount_say_when_and_by_which_process() {
    let Some(mut mounted) = Mounted::served("stamped", &[]) else { return };
    mounted.unmount();
    let log = mounted.place.path("log");
    let said =
        mounted.place.json(&["mount", "sys/p", "c", "mnt", "--cache", "off", "--log", log.to_str().unwrap()]);
    mounted.place.ok(&["cont", "destroy", "sys/p", "c", "--force"]);
    assert!(fs::read_dir(mounted.path("")).is_err());
    let text = fs::read_to_string(&log).unwrap();
    let (when, rest) = text.split_once(' ').unwrap();
    let form: String = when.chars().map(|one| if one.is_ascii_digit() { '0' } else { one }).collect();
    assert_eq!(form, "0000-00-00T00:00:00Z", "{text}");
    assert!(rest.starts_with(&format!("{}: dolmen mount: ", said["pid"])), "{text}");
    unmounted(&mounted.place, "mnt");
}
