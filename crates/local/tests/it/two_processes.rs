//! A second process is told who owns the pool.

use crate::common::{TempDir, small};
use dolmen_local::{OpenOptions, create, destroy, open};
use std::process::Command;

/// Names the pool for the second process; the test below does nothing in the first one.
const DIR_VARIABLE: &str = "DOLMEN_TEST_POOL";

#[test]
fn second_process() {
    let Some(dir) = std::env::var_os(DIR_VARIABLE) else { return };
    let refused = open(dir.as_ref(), &OpenOptions::default()).unwrap_err();
    println!("owner={} message={refused}", refused.owner_pid().unwrap());
}

#[test]
fn a_second_process_is_told_the_first_ones_pid() {
    let temp = TempDir::new("two");
    let dir = temp.join("p");
    create(&dir, &small(1)).unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    let second = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "two_processes::second_process", "--nocapture"])
        .env(DIR_VARIABLE, &dir)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&second.stdout).into_owned();
    let pid = std::process::id();
    assert!(second.status.success(), "{text}");
    assert!(text.contains(&format!("owner={pid} ")), "{text}");
    assert!(text.contains(&format!("process {pid}")), "{text}");

    let here = open(&dir, &OpenOptions::default()).unwrap_err();
    assert_eq!(here.owner_pid(), Some(pid));
    assert_eq!(destroy(&dir).unwrap_err().owner_pid(), Some(pid));
    pool.close().unwrap();
    destroy(&dir).unwrap();
}
