//! Ownership of a directory between processes, and its small files.

use crate::places::Place;
use dolmen_env::{DirLock, Disk, Error, RealOptions, RealRoot};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Names the directory that a second process of this test shall own.
const CHILD_DIR: &str = "DOLMEN_ENV_TEST_LOCK_DIR";

/// Starts this test again as a process that owns `dir` until it is killed; returns once it owns it.
fn start_owner(dir: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "root::a_second_process_learns_the_pid_of_the_first", "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("owned")), "the child could not own it");
    child
}

fn own_until_killed(dir: &str) {
    let _lock = DirLock::acquire(Path::new(dir)).unwrap();
    println!("owned");
    // Blocks until the parent kills this process, or dies itself.
    assert_eq!(std::io::stdin().lock().lines().count(), 0);
}

#[test]
fn a_second_process_learns_the_pid_of_the_first() {
    if let Ok(dir) = std::env::var(CHILD_DIR) {
        return own_until_killed(&dir);
    }
    let place = Place::on_block();
    let mut owner = start_owner(place.path());
    let refused = DirLock::acquire(place.path()).unwrap_err();
    assert_eq!(refused, Error::Owned { pid: owner.id() });
    assert!(refused.to_string().contains(&format!("process {}", owner.id())));
    assert_eq!(RealRoot::open(place.path()).unwrap_err(), Error::Owned { pid: owner.id() });
    owner.kill().unwrap();
    owner.wait().unwrap();
    let lock = DirLock::acquire(place.path()).unwrap();
    assert_eq!(DirLock::acquire(place.path()).unwrap_err(), Error::Owned { pid: std::process::id() });
    drop(lock);
    DirLock::acquire(place.path()).unwrap();
}

#[test]
fn a_pool_directory_is_made_used_opened_again_and_removed() {
    let place = Place::on_block();
    let dir = place.path().join("deep/pool");
    let root = RealRoot::create(&dir).unwrap();
    let mut disk = root.create_disk("target-0", RealOptions::default()).unwrap();
    disk.create("log", 4096).unwrap();
    root.write_small("pool.meta", b"first").unwrap();
    root.write_small("pool.meta", b"second").unwrap();
    assert!(matches!(root.create_disk("target-0", RealOptions::default()), Err(Error::Exists { .. })));
    assert!(matches!(root.create_disk("../x", RealOptions::default()), Err(Error::BadName { .. })));
    assert!(matches!(RealRoot::create(&dir), Err(Error::Owned { .. })));
    drop(root);
    assert!(matches!(RealRoot::create(&dir), Err(Error::Exists { .. })));
    let root = RealRoot::open(&dir).unwrap();
    assert_eq!(root.read_small("pool.meta").unwrap(), b"second");
    assert_eq!(root.subdirectories().unwrap(), ["target-0"]);
    assert_eq!(root.open_disk("target-0", RealOptions::default()).unwrap().list().unwrap(), ["log"]);
    assert!(root.read_small("none").unwrap_err().is_not_found());
    std::fs::write(dir.join("large"), vec![0; (1 << 20) + 1]).unwrap();
    assert!(matches!(root.read_small("large"), Err(Error::OutOfRange { .. })));
    root.remove_tree("pool.meta").unwrap();
    assert!(!dir.exists());
    assert!(RealRoot::open(&dir).unwrap_err().is_not_found());
}

#[test]
fn what_an_owner_does_stays_in_the_directory_that_it_has_opened() {
    let place = Place::on_block();
    let (dir, moved) = (place.path().join("pool"), place.path().join("moved"));
    let root = RealRoot::create(&dir).unwrap();
    root.write_small("pool.meta", b"mine").unwrap();
    std::fs::rename(&dir, &moved).unwrap();
    let other = RealRoot::create(&dir).unwrap();
    other.write_small("pool.meta", b"theirs").unwrap();
    assert_ne!(root.id().unwrap(), other.id().unwrap());
    root.create_disk("t0", RealOptions::default()).unwrap().create("log", 4096).unwrap();
    assert_eq!(root.open_disk("t0", RealOptions::default()).unwrap().list().unwrap(), ["log"]);
    assert_eq!(root.entries().unwrap(), ["pool.meta", "t0"]);
    root.write_small("pool.meta", b"mine again").unwrap();
    assert_eq!(root.read_small("pool.meta").unwrap(), b"mine again");
    assert!(root.remove_tree("pool.meta").unwrap_err().is_not_found(), "it has no name here any more");
    assert_eq!(
        (other.entries().unwrap(), other.read_small("pool.meta").unwrap()),
        (vec!["pool.meta".to_owned()], b"theirs".to_vec())
    );
    assert!(moved.join("t0").exists());
}

#[test]
fn the_lock_file_keeps_its_length() {
    let place = Place::on_block();
    let root = RealRoot::open(place.path()).unwrap();
    let owner = || std::fs::read_to_string(place.path().join(".owner")).unwrap();
    let held = owner();
    assert_eq!(held.trim(), std::process::id().to_string());
    drop(root);
    assert_eq!((owner().len(), owner().trim()), (held.len(), ""));
    drop(RealRoot::open(place.path()).unwrap());
    assert_eq!(owner().len(), held.len());
}
