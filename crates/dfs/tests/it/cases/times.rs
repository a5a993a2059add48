//! Times that wait for their record, and what nodes know of attributes, while others set them.

use super::common::{World, put};
use crate::watched::IsIt;
use dolmen_codec::Ask;
use dolmen_codec::pool::PoolVerb;
use dolmen_codec::verb::Verb;
use dolmen_dfs::{Cred, Dfs, Error, File, Follow, MountOptions, OpenOptions, SetTime, Time};
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

const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Reads the file a moment later; its access time then.
fn read_after(world: &World, file: &File, ns: u64) -> Time {
    world.clock.advance(ns);
    file.note_read().unwrap();
    file.stat().unwrap().atime
}

#[test]
fn an_access_is_noted_if_the_last_one_is_older_than_the_last_change_or_a_day() {
    let world = World::new(2);
    let fs = world.mount_atime();
    let file = put(&fs, "/f", b"1");
    let made = file.stat().unwrap();
    assert_eq!(made.atime, made.mtime);
    assert_eq!(read_after(&world, &file, 7), world.now());
    let first = world.now();
    assert_eq!(read_after(&world, &file, DAY_NS - 1), first);
    assert_eq!(read_after(&world, &file, 1), world.now(), "it is a day old");
    let second = world.now();
    write_late(&world, &file);
    assert_eq!(file.stat().unwrap().atime, second, "a write is no access");
    assert_eq!(read_after(&world, &file, 9), world.now());
    let third = world.now();
    fs.chmod("/f", 0o600).unwrap();
    assert_eq!(read_after(&world, &file, 9), world.now(), "attributes have changed, too");
    fs.rename("/f", &fs, "/g", dolmen_dfs::RenameMode::Replace).unwrap();
    fs.link("/g", &fs, "/h").unwrap();
    let last = file.stat().unwrap().atime;
    assert!(last > third);
    file.close().unwrap();
    drop(fs);
    for path in ["/g", "/h"] {
        assert_eq!(world.mount_atime().stat(path).unwrap().atime, last, "it is stored at the last close");
    }
    // A mount that keeps none tells the last change, and notes nothing.
    let other = world.mount();
    let stat = other.stat("/g").unwrap();
    assert_eq!(stat.atime, stat.mtime);
    world.clock.advance(DAY_NS);
    other.lookup("g").unwrap().0.note_read().unwrap();
    drop(other);
    assert_eq!(world.mount_atime().stat("/g").unwrap().atime, last);
}

#[test]
fn directories_and_links_have_access_times_and_look_at_them_with_the_record() {
    let (world, watched) = World::watched();
    let fs = world.mount_atime();
    fs.mkdir("/d", 0o755).unwrap();
    fs.symlink("d", "/l").unwrap();
    for name in ["d", "l"] {
        let (obj, stat) = fs.lookup(name).unwrap();
        world.clock.advance(1_000);
        let before = watched.requests();
        fs.lookup(name).unwrap();
        obj.note_read().unwrap();
        assert_eq!(watched.requests() - before, 1, "one look, and the rule needs none");
        assert_eq!(obj.stat().unwrap().atime, world.now());
        assert_eq!(obj.stat().unwrap().mtime, stat.mtime);
        fs.sync().unwrap();
        assert_eq!(world.mount_atime().lstat(name).unwrap().atime, world.now());
    }
}

#[test]
fn times_are_set_to_the_nanosecond_to_now_or_not_at_all() {
    let world = World::new(1);
    let fs = world.mount_atime();
    let file = put(&fs, "/f", b"1");
    file.close().unwrap();
    let (file, other) = (fs.lookup("f").unwrap().0, Time { s: -5, ns: 999_999_999 });
    let set = |atime, mtime| {
        world.clock.advance(1_000_000_000);
        fs.set_times("/f", atime, mtime, Follow::Yes).unwrap();
        let stat = file.stat().unwrap();
        assert_eq!(stat.ctime, world.now());
        assert_eq!(world.mount_atime().stat("/f").unwrap(), stat, "it is stored");
        (stat.atime, stat.mtime)
    };
    assert_eq!(set(SetTime::To(other), SetTime::To(SET)), (other, SET));
    assert_eq!(set(SetTime::Keep, SetTime::Now), (other, world.now()));
    let now = world.now();
    assert_eq!(set(SetTime::Now, SetTime::Keep), (world.now(), now));
    assert_eq!(set(SetTime::To(SET), SetTime::To(other)), (SET, other));
    // An access that waits is replaced by a time that is set, and a write that waits is not lost by an access time.
    file.note_read().unwrap();
    assert_eq!(set(SetTime::To(SET), SetTime::Keep), (SET, other));
    drop(fs.sync());
    assert_eq!(file.stat().unwrap().atime, SET);
    let writes = file.open(&OpenOptions::WRITE).unwrap();
    let written = write_late(&world, &writes);
    fs.set_times("/f", SetTime::To(other), SetTime::Keep, Follow::Yes).unwrap();
    writes.close().unwrap();
    let stat = world.mount_atime().stat("/f").unwrap();
    assert_eq!((stat.atime, stat.mtime), (other, written));
    let bad = SetTime::To(Time { s: 0, ns: 1_000_000_000 });
    assert_eq!(
        fs.set_times("/f", bad, SetTime::Keep, Follow::Yes),
        Err(Error::Invalid(dolmen_dfs::What::Time))
    );
}

#[test]
fn who_may_write_sets_times_to_now_and_the_owner_to_any() {
    let world = World::new(1);
    let fs = world.mount_atime();
    put(&fs, "/f", b"1").close().unwrap();
    fs.chmod("/f", 0o666).unwrap();
    fs.chown("/f", Some(5), Some(5), Follow::Yes).unwrap();
    let user = |uid| fs.as_user(Cred { uid, gid: uid, groups: Vec::new(), umask: 0 });
    let set = |uid, time| user(uid).set_times("/f", time, time, Follow::Yes);
    assert_eq!(set(5, SetTime::To(SET)), Ok(()));
    assert_eq!(set(6, SetTime::To(SET)), Err(Error::NotPermitted));
    assert_eq!(set(6, SetTime::Now), Ok(()));
    fs.chmod("/f", 0o644).unwrap();
    assert_eq!(set(6, SetTime::Now), Err(Error::NoPermission));
    assert_eq!(set(5, SetTime::Now), Ok(()));
}

#[test]
fn a_record_with_an_access_time_beside_it_is_the_same_to_other_programs() {
    let world = World::new(1);
    let (plain, with_times) = (world.mount(), world.mount_atime());
    put(&plain, "/a", b"1").close().unwrap();
    put(&with_times, "/b", b"1").close().unwrap();
    let record = |name: &[u8]| super::common::entry_record(&world, plain.oid(), name);
    let (a, b) = (record(b"a"), record(b"b"));
    // All but the number of the object and the time of the record.
    assert_eq!((&a[..4], &a[12..80]), (&b[..4], &b[12..80]));
}

#[test]
fn a_time_that_waits_is_not_told_where_another_mount_has_recorded_a_later_change() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    put(&one, "/f", b"1").close().unwrap();
    let [ours, theirs] = [&one, &two].map(|fs| fs.open("/f", &OpenOptions::WRITE).unwrap());
    let first = write_late(&world, &ours);
    assert_eq!(ours.stat().unwrap().mtime, first);
    let second = write_late(&world, &theirs);
    theirs.sync().unwrap();
    let told = |file: &File| (file.stat().unwrap().mtime, file.stat().unwrap().ctime);
    assert_eq!(told(&ours), (second, second));
    assert_eq!(told(&theirs), (second, second));
    // Nor when it is recorded.
    ours.sync().unwrap();
    assert_eq!(told(&theirs), (second, second));
    assert_eq!(told(&ours), (second, second));
}

#[test]
fn times_that_are_recorded_with_their_changes_are_the_same_in_each_mount() {
    let world = World::new(2);
    let exact = || {
        let options = MountOptions { shared: true, exact_times: true, ..world.options() };
        Dfs::mount(&world.container, &options).unwrap()
    };
    let (one, two) = (exact(), exact());
    one.mkdir("/d", 0o755).unwrap();
    let file = put(&one, "/d/f", b"1");
    for round in 0..6 {
        let written = write_late(&world, &file);
        assert_eq!(two.stat("/d/f").unwrap().mtime, written, "round {round}");
        // A change of names is one of the directory.
        world.clock.advance(100_000_000);
        one.link("/d/f", &one, format!("/d/{round}")).unwrap();
        assert_eq!(two.stat("/d").unwrap().mtime, world.now(), "round {round}");
        assert_eq!(two.stat("/d/f").unwrap().ctime, one.stat("/d/f").unwrap().ctime, "round {round}");
    }
}
