//! A mount that becomes shared, and is alone again, while it is in use.

use super::common::{World, cat, put};
use crate::watched::IsIt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use dolmen_codec::Ask;
use dolmen_codec::verb::Verb;
use dolmen_dfs::{Cred, Dfs, Error, OpenOptions, RenameMode};
use dolmen_env::{Clock, RealClock};
use std::sync::{Arc, mpsc};

const UPDATE: IsIt = |ask| matches!(ask, Ask::Target(_, _, Verb::Update(_)));
/// Longer than anything here takes.
const LIMIT_NS: u64 = 60_000_000_000;
const LIMIT: Duration = Duration::from_nanos(LIMIT_NS);
const ATTEMPTS_MAX: u32 = 10_000;
const RECORDS: u64 = 40;
const RECORD_BYTES: usize = 700;

/// Does it again while others are in the way.
fn persistent<T>(mut once: impl FnMut() -> dolmen_dfs::Result<T>) -> T {
    for _ in 0..ATTEMPTS_MAX {
        match once() {
            Err(Error::Contended) => dolmen_env::yield_now(),
            other => return other.unwrap(),
        }
    }
    panic!("still in the way after {ATTEMPTS_MAX} attempts");
}

/// Waits for what another thread does at once.
fn until(is_so: impl Fn() -> bool, what: &str) {
    let end_ns = RealClock.monotonic_ns() + LIMIT_NS;
    while !is_so() {
        assert!(RealClock.monotonic_ns() < end_ns, "not within a minute: {what}");
        dolmen_env::yield_now();
    }
}

/// Appends records and makes and removes entries; each writer has a number.
fn work(fs: &Dfs, number: u8) {
    let log = fs.open("/log", &OpenOptions::APPEND).unwrap();
    for n in 0..RECORDS {
        let path = format!("/d/{number}-{n}");
        persistent(|| log.append(&[number; RECORD_BYTES]));
        persistent(|| fs.mkdir(&path, 0o755));
        if n % 2 == 0 {
            persistent(|| fs.rmdir(&path));
        }
    }
}

#[test]
fn a_mount_becomes_shared_while_it_is_worked_on_and_nothing_is_lost() {
    for _ in 0..5 {
        let world = World::with(2, &super::common::small_chunks());
        let fs = world.mount();
        fs.mkdir("/d", 0o755).unwrap();
        put(&fs, "/log", b"").close().unwrap();
        let begun = AtomicU64::new(0);
        dolmen_env::scope(|scope| {
            for number in 1..=2 {
                let (fs, begun) = (fs.clone(), &begun);
                scope.spawn(move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    work(&fs, number);
                });
            }
            until(|| begun.load(Ordering::SeqCst) > 0, "a thread begins");
            fs.set_shared(true).unwrap();
            assert!(fs.is_shared());
            work(&world.mount_shared(), 3);
        });
        let log = cat(&fs, "/log");
        assert_eq!(log.len() as u64, 3 * RECORDS * RECORD_BYTES as u64);
        assert!(log.chunks(RECORD_BYTES).all(|record| record.iter().all(|&byte| byte == record[0])));
        assert_eq!(fs.open_dir("/d").unwrap().names().unwrap().len() as u64, 3 * RECORDS / 2);
        fs.set_shared(false).unwrap();
        assert!(!fs.is_shared());
        assert!(fs.check(false).unwrap().is_clean());
    }
}

#[test]
fn who_makes_a_mount_shared_waits_for_what_is_under_way() {
    let (world, watched) = World::watched();
    let fs = world.mount();
    let (arrive, arrived) = mpsc::sync_channel(1);
    let (release, released) = mpsc::sync_channel::<()>(1);
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    watched.before(UPDATE, move || {
        arrive.send(()).unwrap();
        released.recv_timeout(LIMIT).unwrap();
        done.store(true, Ordering::SeqCst);
        Ok(())
    });
    dolmen_env::scope(|scope| {
        scope.spawn(|| fs.mkdir("/d", 0o755).unwrap());
        arrived.recv_timeout(LIMIT).unwrap();
        scope.spawn(|| {
            fs.set_shared(true).unwrap();
            assert!(is_done.load(Ordering::SeqCst), "the directory was still being made");
        });
        until(|| fs.is_shared(), "the switch");
        // What begins now is done in the way of shared mounts, and waits for nobody.
        put(&fs, "/f", b"data").close().unwrap();
        release.send(()).unwrap();
    });
    assert_eq!(fs.names().unwrap().len(), 2);
}

#[test]
fn a_mount_that_is_alone_again_has_looked_anew_at_what_others_have_changed() {
    let world = World::new(1);
    let fs = world.mount();
    for path in ["/moved", "/removed", "/closed", "/moved/deep"] {
        fs.mkdir(path, 0o777).unwrap();
    }
    let open = |path: &str| fs.open_dir(path).unwrap();
    let (moved, removed, closed) = (open("/moved"), open("/removed"), open("/closed"));
    assert!(fs.stat("/moved/deep").is_ok());
    fs.set_shared(true).unwrap();
    {
        let other = world.mount_shared();
        other.rename("/moved", &other, "/there", RenameMode::Replace).unwrap();
        other.rmdir("/removed").unwrap();
        other.chmod("/closed", 0o700).unwrap();
        assert_eq!(fs.stat("/moved/deep").unwrap_err(), Error::NotFound, "no path is cached");
        assert!(fs.stat("/there/deep").is_ok());
    }
    fs.set_shared(false).unwrap();
    assert_eq!(fs.stat("/moved/deep").unwrap_err(), Error::NotFound);
    assert!(fs.stat("/there/deep").is_ok());
    assert_eq!(removed.mkdir("new", 0o755).unwrap_err(), Error::Stale);
    let user = Cred { uid: 7, gid: 7, groups: vec![], umask: 0 };
    assert_eq!(closed.as_user(&Arc::new(user)).mkdir("new", 0o755).unwrap_err(), Error::NoPermission);
    // The path leads to it again, and then the handle does, too.
    fs.mkdir("/there/new", 0o755).unwrap();
    moved.mkdir("newer", 0o755).unwrap();
    assert_eq!(open("/there").names().unwrap().len(), 3);
    assert!(fs.check(false).unwrap().is_clean());
}
