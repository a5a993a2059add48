//! Times that wait for their record, and what nodes know of attributes, while others set them.

use super::common::{World, put};
use crate::watched::IsIt;
use dolmen_codec::Ask;
use dolmen_codec::pool::PoolVerb;
use dolmen_codec::verb::Verb;
use dolmen_dfs::{Cred, Dfs, Error, File, Follow, SetTime, Time};
use dolmen_types::TargetNo;
use std::sync::mpsc;

const SET: Time = Time { s: 1_000_000_000, ns: 7 };
const BEGIN: IsIt = |ask| matches!(ask, Ask::Pool(PoolVerb::TxBegin));
const COMMIT: IsIt = |ask| matches!(ask, Ask::Pool(PoolVerb::TxCommit(_)));
const FETCH_OF_D: IsIt =
    |ask| matches!(ask, Ask::Target(_, _, Verb::Fetch(fetch)) if fetch.dkey[..] == *b"d");
const UPDATE: IsIt = |ask| matches!(ask, Ask::Target(_, _, Verb::Update(_)));

/// Writes so that the time of the write waits.
fn write_late(world: &World, file: &File) -> Time {
    world.clock.advance(100_000_000);
    file.write_at(0, b"2").unwrap();
    world.now()
}

fn set_time(fs: &Dfs, path: &str) {
    fs.set_mtime(path, SetTime::To(SET), Follow::Yes).unwrap();
}

/// Looks at the file so often that other threads come to where they wait for a lock: nothing else tells. The claim holds
/// however far they get; an error shows if they get there once.
fn let_others_wait(fs: &Dfs, until: impl Fn(Time) -> bool) {
    for _ in 0..2000 {
        if until(fs.stat("/f").unwrap().mtime) {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_time_that_was_set_beside_a_sync_stays() {
    for _ in 0..20 {
        let (world, watched) = World::watched();
        let fs = world.mount();
        let file = put(&fs, "/f", b"1");
        let written = write_late(&world, &file);
        let (arrive, arrived) = mpsc::sync_channel(1);
        let (release, released) = mpsc::sync_channel::<()>(1);
        watched.before(UPDATE, move || {
            arrive.send(()).unwrap();
            released.recv().unwrap();
            Ok(())
        });
        dolmen_env::scope(|scope| {
            // Holds the entry while the others come, one after the other.
            scope.spawn(|| fs.chmod("/f", 0o600).unwrap());
            arrived.recv().unwrap();
            scope.spawn(|| set_time(&fs, "/f"));
            let_others_wait(&fs, |_| false);
            scope.spawn(|| file.sync().unwrap());
            let_others_wait(&fs, |mtime| mtime != written);
            release.send(()).unwrap();
        });
        assert_eq!(fs.stat("/f").unwrap().mtime, SET);
        file.close().unwrap();
        assert_eq!(world.mount().stat("/f").unwrap().mtime, SET);
    }
}

#[test]
fn a_time_that_was_set_by_another_name_beside_a_sync_stays() {
    for step in [BEGIN, COMMIT] {
        let (world, watched) = World::watched();
        let fs = world.mount();
        let file = put(&fs, "/f", b"1");
        fs.link("/f", &fs, "/g").unwrap();
        write_late(&world, &file);
        let other = fs.clone();
        watched.before(step, move || {
            set_time(&other, "/g");
            Ok(())
        });
        file.sync().unwrap();
        assert!(watched.is_done());
        assert_eq!(fs.stat("/f").unwrap().mtime, SET);
        file.close().unwrap();
        assert_eq!(world.mount().stat("/f").unwrap().mtime, SET);
    }
}

#[test]
fn a_time_that_was_set_while_the_last_handle_went_stays() {
    let (world, watched) = World::watched();
    let fs = world.mount();
    let file = put(&fs, "/f", b"1");
    fs.link("/f", &fs, "/g").unwrap();
    write_late(&world, &file);
    let (other, clock) = (fs.clone(), world.clock.clone());
    watched.before(BEGIN, move || {
        clock.advance(1);
        set_time(&other, "/g");
        Ok(())
    });
    drop(file);
    assert!(watched.is_done());
    assert_eq!(fs.stat("/f").unwrap().mtime, SET);
}

#[test]
fn a_time_that_another_mount_has_set_after_a_write_stays() {
    let world = World::new(1);
    let (fs, other) = (world.mount_shared(), world.mount_shared());
    let file = put(&fs, "/f", b"1");
    write_late(&world, &file);
    world.clock.advance(1);
    set_time(&other, "/f");
    file.sync().unwrap();
    assert_eq!(other.stat("/f").unwrap().mtime, SET);
    assert_eq!(fs.stat("/f").unwrap().mtime, SET);
    // The next write is the last change again.
    let written = write_late(&world, &file);
    file.close().unwrap();
    assert_eq!(other.stat("/f").unwrap().mtime, written);
}

#[test]
fn a_time_that_could_not_be_recorded_replaces_no_later_one() {
    let (world, watched) = World::watched();
    let fs = world.mount();
    let file = put(&fs, "/f", b"1");
    write_late(&world, &file);
    let (beside, clock) = (file.clone(), world.clock.clone());
    let full = dolmen_types::Error::NoSpace { target: TargetNo(0), needed_bytes: 1 };
    watched.before(UPDATE, move || {
        clock.advance(100_000_000);
        beside.write_at(0, b"3").unwrap();
        Err(full)
    });
    assert!(matches!(file.sync(), Err(Error::Store(_))));
    assert_eq!(fs.stat("/f").unwrap().mtime, world.now());
    file.close().unwrap();
    assert_eq!(world.mount().stat("/f").unwrap().mtime, world.now());
}

#[test]
fn the_time_of_a_write_is_seen_while_it_is_recorded() {
    let (world, watched) = World::watched();
    let fs = world.mount();
    let file = put(&fs, "/f", b"1");
    let written = write_late(&world, &file);
    let other = fs.clone();
    watched.before(UPDATE, move || {
        assert_eq!(other.stat("/f").unwrap().mtime, written);
        Ok(())
    });
    file.sync().unwrap();
    assert!(watched.is_done());
}

#[test]
fn a_mode_that_was_set_while_a_directory_was_opened_counts() {
    let (world, watched) = World::watched();
    let before = world.mount();
    before.mkdir("/d", 0o755).unwrap();
    put(&before, "/d/f", b"1").close().unwrap();
    drop(before);
    let fs = world.mount();
    let user = fs.as_user(Cred { uid: 5, gid: 5, groups: Vec::new(), umask: 0 });
    watched.after(FETCH_OF_D, move || fs.chmod("/d", 0o700).unwrap());
    let dir = user.open_dir("/d").unwrap();
    assert!(watched.is_done());
    assert_eq!(user.stat("/d/f"), Err(Error::NoPermission));
    assert_eq!(dir.stat("f"), Err(Error::NoPermission));
}
