//! Ownership of a directory between processes, and its small files.

use crate::places::Place;
use dolmen_env::{DirLock, Disk, Error, HeldDir, RealOptions, RealRoot};
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

/// Names the directory whose lock in it a second process of this test shall take over from its input.
const TAKEN_DIR: &str = "DOLMEN_ENV_TEST_TAKEN_DIR";

/// Starts this test again with that input; what it says.
fn start_taker(dir: &Path, input: impl Into<Stdio>) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "root::a_lock_that_a_program_takes_over_is_its_own", "--nocapture"])
        .env(TAKEN_DIR, dir)
        .stdin(input)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().map_while(Result::ok);
    let said = lines.find(|line| line.starts_with("took "));
    (child, said.expect("it says whether it has it"))
}

#[test]
fn a_lock_that_a_program_takes_over_is_its_own() {
    const SUB: &str = "starting";
    if let Ok(dir) = std::env::var(TAKEN_DIR) {
        let taken = HeldDir::open(Path::new(&dir)).unwrap().take_over(SUB).unwrap();
        println!("\ntook {}", taken.is_some());
        while taken.is_some() {
            // Until it is killed.
            std::thread::park();
        }
        return;
    }
    let place = Place::on_block();
    let held = HeldDir::open(place.path()).unwrap();
    drop(held.lock(SUB).unwrap());
    let below = place.path().join(SUB);
    // It stays open here, as in a process that was forked from the one that starts the program.
    let copy = std::fs::File::options().read(true).write(true).open(below.join(".owner")).unwrap();
    copy.lock().unwrap();
    let (mut taker, said) = start_taker(place.path(), copy.try_clone().unwrap());
    assert_eq!(said, "took true");
    assert_eq!(held.lock(SUB).unwrap_err(), Error::Owned { pid: taker.id() });
    taker.kill().unwrap();
    taker.wait().unwrap();
    drop(held.lock(SUB).unwrap());
    // Another input is nobody's lock, and stays as it is.
    let other = std::fs::File::create(place.path().join("other")).unwrap();
    other.lock().unwrap();
    let (mut taker, said) = start_taker(place.path(), other.try_clone().unwrap());
    assert_eq!(said, "took false");
    assert!(taker.wait().unwrap().success());
    let again = std::fs::File::open(place.path().join("other")).unwrap();
    assert!(again.try_lock().is_err());
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
