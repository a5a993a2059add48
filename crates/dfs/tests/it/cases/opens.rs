//! Files that are open in one mount while another removes their names, where locks are kept.

use super::common::{World, cat, put, read_all};
use crate::watched::Watched;
use dolmen_codec::Ask;
use dolmen_codec::lock::LockKind;
use dolmen_codec::pool::PoolVerb;
use dolmen_codec::verb::Verb;
use dolmen_dfs::{
    Cred, Dfs, Dir, Error, File, FileKind, Follow, OpenOptions, RenameMode, SetAttrs, XattrCond,
};
use dolmen_env::{Clock, RealClock};
use std::sync::Arc;

/// Two shared mounts of a world that keeps locks, and the objects that there are.
fn two() -> (World, Arc<Watched>, [Dfs; 2], usize) {
    let (world, watched) = World::keeping_locks();
    let mounts = [world.mount_shared(), world.mount_shared()];
    mounts[0].mkdir("/keeps-the-root-there", 0o755).unwrap();
    let objects = world.object_count();
    (world, watched, mounts, objects)
}

/// How a mount removes the last name of `/f`.
type Remove = fn(&Dfs);

const REMOVALS: [(&str, Remove); 4] = [
    ("unlink", |fs| fs.unlink("/f").unwrap()),
    ("remove", |fs| assert_eq!(fs.remove("f").unwrap().0, FileKind::File)),
    ("replace", |fs| {
        put(fs, "/new", b"new").close().unwrap();
        fs.rename("/new", fs, "/f", RenameMode::Replace).unwrap();
        fs.unlink("/f").unwrap();
    }),
    ("two names", |fs| {
        fs.link("/f", fs, "/g").unwrap();
        fs.unlink("/f").unwrap();
        fs.unlink("/g").unwrap();
    }),
];

/// Waits for what another thread does.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let since_ns = RealClock.monotonic_ns();
    while !is_so() {
        assert!(RealClock.monotonic_ns() - since_ns < 60_000_000_000, "{what}");
        dolmen_env::yield_now();
    }
}

/// Does everything with a file that has no name any more.
fn works_on(file: &File, case: &str) {
    let stat = file.stat().unwrap();
    assert_eq!((stat.links, stat.size_bytes), (0, 10_000), "{case}");
    assert_eq!(read_all(file), [7; 10_000], "{case}");
    assert_eq!(file.write_at(9_999, b"more").unwrap(), 9_999, "{case}");
    assert_eq!(file.append(b"end").unwrap(), 10_003, "{case}");
    file.set_len(10_001).unwrap();
    file.punch_hole(0, 5_000).unwrap();
    file.set_xattr("user.a", b"1", XattrCond::Create).unwrap();
    assert_eq!(file.xattr("user.a").unwrap(), b"1", "{case}");
    let mut wanted = vec![0; 5_000];
    wanted.extend_from_slice(&[7; 4_999]);
    wanted.extend_from_slice(b"mo");
    assert_eq!(read_all(file), wanted, "{case}");
}

#[test]
fn a_file_that_is_open_works_on_when_another_mount_removes_or_replaces_it() {
    for (case, remove) in REMOVALS {
        let (world, watched, [one, two], objects) = two();
        put(&one, "/f", &[7; 10_000]).close().unwrap();
        let file = one.open("/f", &OpenOptions::WRITE).unwrap();
        let reader = file.reopen(&OpenOptions::READ).unwrap();
        let (known, _) = one.lookup("f").unwrap();
        let oid = known.oid();
        remove(&two);
        assert_eq!(one.stat("/f").unwrap_err(), Error::NotFound, "{case}");
        assert_eq!(known.open(&OpenOptions::READ).map(drop).unwrap_err(), Error::Stale, "{case}");
        works_on(&file, case);
        let report = two.check(false).unwrap();
        assert!(report.is_clean() && report.orphans == 1, "{case}: {report:?}");
        drop(file);
        assert_eq!(&read_all(&reader)[5_000..9_999], &[7; 4_999], "{case}");
        drop((reader, known));
        wait_until(&format!("{case}: the last handle frees it"), || {
            world.object_count() == objects && watched.holders_of(oid) == 0
        });
        assert_eq!(two.check(false).unwrap().orphans, 0, "{case}");
    }
}

#[test]
fn a_file_that_is_open_works_on_when_another_mount_gives_it_a_name_and_takes_the_first() {
    let (_world, _, [one, two], _) = two();
    let file = put(&one, "/f", b"data");
    two.link("/f", &two, "/g").unwrap();
    two.unlink("/f").unwrap();
    file.write_at(4, b" more").unwrap();
    let stat = file.stat().unwrap();
    assert_eq!((stat.links, stat.size_bytes), (1, 9));
    two.unlink("/g").unwrap();
    file.write_at(9, b" and more").unwrap();
    let stat = file.stat().unwrap();
    assert_eq!((stat.links, stat.size_bytes), (0, 18));
}

/// How a mount moves `/f` to `/d/g`.
const MOVES: [(&str, Remove); 4] = [
    ("rename", |fs| fs.rename("/f", fs, "/d/g", RenameMode::Replace).unwrap()),
    ("replace", |fs| {
        put(fs, "/d/g", b"old").close().unwrap();
        fs.rename("/f", fs, "/d/g", RenameMode::Replace).unwrap();
    }),
    ("exchange", |fs| {
        put(fs, "/d/g", b"other").close().unwrap();
        fs.rename("/f", fs, "/d/g", RenameMode::Exchange).unwrap();
        fs.unlink("/f").unwrap();
    }),
    ("exchanged", |fs| {
        put(fs, "/d/g", b"other").close().unwrap();
        fs.rename("/d/g", fs, "/f", RenameMode::Exchange).unwrap();
        fs.unlink("/f").unwrap();
    }),
];

#[test]
fn a_file_that_is_open_works_on_when_another_mount_moves_it() {
    for (case, move_it) in MOVES {
        for is_open_there in [false, true] {
            let (world, _, [one, two], objects) = two();
            let three = world.mount_shared();
            one.mkdir("/d", 0o750).unwrap();
            let file = put(&one, "/f", b"data");
            file.set_xattr("user.a", b"1", XattrCond::Any).unwrap();
            let own = is_open_there.then(|| two.open("/f", &OpenOptions::WRITE).unwrap());
            move_it(&two);
            let stat = file.stat().unwrap();
            assert_eq!((stat.links, stat.size_bytes), (1, 4), "{case}");
            assert_eq!(file.append(b" more").unwrap(), 4, "{case}");
            file.write_at(0, b"D").unwrap();
            file.set_attrs(&SetAttrs { mode: Some(0o640), ..SetAttrs::KEEP }).unwrap();
            assert_eq!(file.xattr("user.a").unwrap(), b"1", "{case}");
            if let Some(own) = &own {
                own.append(b"!").unwrap();
            }
            file.sync().unwrap();
            let stat = three.stat("/d/g").unwrap();
            let len = 9 + u64::from(is_open_there);
            assert_eq!((stat.permissions, stat.links, stat.size_bytes), (0o640, 1, len), "{case}");
            assert_eq!(cat(&three, "/d/g")[..9], *b"Data more", "{case}");
            assert_eq!(three.xattr("/d/g", "user.a", Follow::Yes).unwrap(), b"1", "{case}");
            // And on, to where it was, and without a name.
            three.rename("/d/g", &three, "/f", RenameMode::Replace).unwrap();
            file.append(b"?").unwrap();
            assert!(three.check(false).unwrap().is_clean(), "{case}");
            two.unlink("/f").unwrap();
            assert_eq!(file.append(b"end").unwrap(), len + 1, "{case}");
            assert_eq!(file.stat().unwrap().links, 0, "{case}");
            drop((file, own));
            one.rmdir("/d").unwrap();
            wait_until("it is freed", || world.object_count() == objects);
            assert!(one.check(false).unwrap().is_clean(), "{case}");
        }
    }
}

#[test]
fn a_file_that_nobody_has_open_is_moved_as_ever() {
    let (world, watched, [one, two], objects) = two();
    put(&one, "/f", b"data").close().unwrap();
    let before = world.object_count();
    two.rename("/f", &two, "/g", RenameMode::Replace).unwrap();
    assert_eq!(world.object_count(), before, "its record is in its entry");
    let file = two.open("/g", &OpenOptions::READ).unwrap();
    two.rename("/g", &two, "/f", RenameMode::Replace).unwrap();
    assert_eq!(world.object_count(), before, "it is open in the mount that moves it");
    assert_eq!(watched.holders_of(file.oid()), 1, "which others know still");
    drop(file);
    one.unlink("/f").unwrap();
    assert_eq!(world.object_count(), objects);
}

#[test]
fn a_file_that_is_closed_before_its_holder_has_noticed_is_freed_by_who_removed_it() {
    let (world, _, [one, two], objects) = two();
    let file = put(&one, "/f", b"data");
    two.unlink("/f").unwrap();
    assert_eq!(read_all(&file), b"data");
    let before = world.object_count();
    drop(file);
    assert!(before > objects);
    wait_until("it is freed", || world.object_count() == objects);
    assert!(one.check(false).unwrap().is_clean());
}

#[test]
fn a_file_goes_when_all_mounts_have_closed_it_and_not_before() {
    let (world, _, [one, two], objects) = two();
    let three = world.mount_shared();
    let first = put(&one, "/f", &[7; 10_000]);
    let [second, own] = [&three, &two].map(|fs| fs.open("/f", &OpenOptions::READ).unwrap());
    two.unlink("/f").unwrap();
    drop(own);
    first.write_at(0, &[7]).unwrap();
    drop(first);
    assert_eq!(read_all(&second), [7; 10_000]);
    // Nor does who comes next, or goes on, take it for a dead one's.
    let next = world.mount_shared();
    drop(two);
    let another = world.mount_shared();
    assert_eq!(read_all(&second), [7; 10_000]);
    drop(second);
    drop((next, another, three));
    drop(world.mount_shared());
    assert_eq!(world.object_count(), objects);
    assert!(one.check(false).unwrap().is_clean());
}

#[test]
fn what_a_dead_holder_had_open_is_freed_by_who_removed_it_or_comes_next() {
    for is_remover_dead in [false, true] {
        let (world, watched, [one, two], objects) = two();
        let file = put(&one, "/f", b"data");
        let oid = file.oid();
        two.unlink("/f").unwrap();
        assert_eq!(read_all(&file), b"data");
        core::mem::forget((file, one));
        let removed_by = if is_remover_dead {
            drop(two);
            drop(world.mount_shared());
            assert!(world.object_count() > objects, "the living are spared");
            None
        } else {
            Some(two)
        };
        watched.lose_holders_of(oid);
        if is_remover_dead {
            drop(world.mount_shared());
        }
        wait_until("it is freed", || world.object_count() == objects);
        drop(removed_by);
        assert!(world.mount_shared().check(false).unwrap().is_clean());
    }
}

#[test]
fn what_is_open_is_known_again_after_the_keeper_of_locks_was_started_anew() {
    let (world, watched, [one, two], objects) = two();
    let file = put(&one, "/f", b"data");
    let other = put(&one, "/g", b"data");
    watched.forget_locks(true);
    // Until those who had some have come nobody knows what is open.
    two.unlink("/f").unwrap();
    // With the next file that it opens, or when its thread looks, it tells of all.
    let third = put(&one, "/h", b"data");
    assert_eq!(watched.holders_of(other.oid()), 1);
    watched.forget_locks(false);
    two.unlink("/g").unwrap();
    two.unlink("/h").unwrap();
    for file in [file, other, third] {
        file.write_at(4, b" more").unwrap();
        assert_eq!(file.stat().unwrap().size_bytes, 9);
    }
    wait_until("all are freed", || world.object_count() == objects);
}

#[test]
fn a_file_that_is_open_works_on_when_another_mount_moves_it_before_the_next_keeper_of_locks_knows_of_it() {
    let linked: (&str, Remove) = ("linked", |fs| {
        fs.link("/f", fs, "/d/g").unwrap();
        fs.unlink("/f").unwrap();
    });
    for (case, move_it) in MOVES.into_iter().chain([linked]) {
        let (world, watched, [one, two], objects) = two();
        let three = world.mount_shared();
        one.mkdir("/d", 0o755).unwrap();
        let file = put(&one, "/f", b"data");
        watched.forget_locks(true);
        move_it(&two);
        assert_eq!(file.append(b" more").unwrap(), 4, "{case}");
        let stat = file.stat().unwrap();
        assert_eq!((stat.links, stat.size_bytes), (1, 9), "{case}");
        // A third one moves it on, over the next death, and exchanges it.
        watched.forget_locks(true);
        three.rename("/d/g", &three, "/f", RenameMode::Replace).unwrap();
        put(&three, "/d/g", b"other").close().unwrap();
        watched.forget_locks(true);
        three.rename("/f", &three, "/d/g", RenameMode::Exchange).unwrap();
        assert_eq!(file.append(b"!").unwrap(), 9, "{case}");
        assert_eq!(cat(&two, "/d/g"), b"data more!", "{case}");
        assert!(three.check(false).unwrap().is_clean(), "{case}");
        watched.forget_locks(true);
        put(&two, "/h", b"new").close().unwrap();
        two.rename("/h", &two, "/d/g", RenameMode::Replace).unwrap();
        assert_eq!(file.append(b"!").unwrap(), 10, "{case}");
        assert_eq!((file.stat().unwrap().links, cat(&one, "/d/g").len()), (0, 3), "{case}");
        watched.forget_locks(false);
        drop(file);
        for name in ["/f", "/d/g"] {
            two.unlink(name).unwrap();
        }
        two.rmdir("/d").unwrap();
        wait_until(&format!("{case}: all is freed"), || world.object_count() == objects);
        assert!(three.check(false).unwrap().is_clean(), "{case}");
    }
}

#[test]
fn who_moves_a_file_waits_for_nobody_who_had_it_open_before_the_keeper_of_locks_was_started_anew() {
    for (case, move_it) in MOVES {
        let (world, watched, [one, two], objects) = two();
        one.mkdir("/d", 0o755).unwrap();
        let file = put(&one, "/f", b"data");
        watched.forget_locks(true);
        move_it(&two);
        // Who had it open never comes, and then nobody has it open.
        drop((file, one));
        watched.forget_locks(false);
        assert_eq!(cat(&two, "/d/g"), b"data", "{case}");
        two.unlink("/d/g").unwrap();
        two.rmdir("/d").unwrap();
        wait_until(&format!("{case}: all is freed"), || world.object_count() == objects);
        assert!(two.check(false).unwrap().is_clean(), "{case}");
    }
}

/// Whether it makes the entry of a file.
fn is_made(ask: &Ask<'_>) -> bool {
    matches!(ask, Ask::Target(_, _, Verb::Update(_)) | Ask::Pool(PoolVerb::TxCommit(_)))
}

#[test]
fn a_file_that_is_being_made_while_the_keeper_of_locks_is_started_anew_is_known_to_be_open() {
    for has_others in [false, true] {
        let (_world, watched, [one, two], _) = two();
        put(&one, "/g", b"data").close().unwrap();
        let other = has_others.then(|| put(&one, "/h", b"data"));
        let (beside, keeper) = (one.clone(), Arc::clone(&watched));
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        // The lock is there, and the entry is not, when the engine forgets it and another thread asks it for something.
        watched.before(is_made, move || {
            keeper.forget_locks(true);
            sender.send(beside.open("/g", &OpenOptions::READ).unwrap()).unwrap();
            Ok(())
        });
        let file = put(&one, "/f", b"data");
        let opened = receiver.recv().unwrap();
        assert!(watched.is_done());
        watched.forget_locks(false);
        assert_eq!(watched.holders_of(file.oid()), 1);
        two.unlink("/f").unwrap();
        file.write_at(4, b" more").unwrap();
        assert_eq!(file.stat().unwrap().size_bytes, 9);
        let oid = file.oid();
        drop((file, other, opened));
        wait_until("it is freed", || watched.holders_of(oid) == 0);
        assert_eq!(two.check(false).unwrap().orphans, 0);
    }
}

#[test]
fn what_is_open_is_known_again_to_a_keeper_of_locks_that_was_started_anew_when_other_files_are_closed() {
    let (_world, watched, [one, two], _) = two();
    let file = put(&one, "/f", b"data");
    let others: Vec<File> = (0..9).map(|at| put(&one, &format!("/{at}"), b"data")).collect();
    watched.forget_locks(true);
    drop(others);
    assert_eq!(watched.holders_of(file.oid()), 1);
    watched.forget_locks(false);
    two.unlink("/f").unwrap();
    file.write_at(4, b" more").unwrap();
    assert_eq!(file.stat().unwrap().size_bytes, 9);
}

#[test]
fn what_is_open_is_known_again_when_one_file_is_closed_over_a_connection_that_had_to_be_made_anew() {
    let (_world, watched, [one, two], _) = two();
    let file = put(&one, "/f", b"data");
    let other = put(&one, "/g", b"data");
    watched.forget_locks(true);
    watched.end_connection();
    drop(other);
    assert_eq!(watched.holders_of(file.oid()), 1);
    watched.forget_locks(false);
    two.unlink("/f").unwrap();
    file.write_at(4, b" more").unwrap();
    assert_eq!(file.stat().unwrap().size_bytes, 9);
}

#[test]
fn who_may_have_no_more_locks_frees_what_nobody_has_open_and_nothing_else() {
    for (case, remove) in REMOVALS {
        let (world, watched, [one, two], objects) = two();
        put(&one, "/f", &[7; 10_000]).close().unwrap();
        let file = one.open("/f", &OpenOptions::WRITE).unwrap();
        put(&two, "/closed", b"data").close().unwrap();
        watched.fill_locks(true);
        let before = world.object_count();
        two.unlink("/closed").unwrap();
        assert!(world.object_count() < before, "{case}");
        remove(&two);
        works_on(&file, case);
        watched.fill_locks(false);
        drop(file);
        wait_until(case, || world.object_count() == objects);
    }
}

/// Opens what a name leads to in two steps, as a system does that is told what the name is first, and looks it up once more if that is
/// gone by the second step; how often it had to.
fn open_in_two_steps(fs: &Dfs, mut between: impl FnMut()) -> (dolmen_dfs::Result<File>, usize) {
    let mut open = || {
        let (obj, _) = fs.lookup_to_open("f")?;
        between();
        obj.open(&OpenOptions::READ)
    };
    match open() {
        Err(Error::Stale) => (open(), 1),
        other => (other, 0),
    }
}

fn replace(fs: &Dfs, with: &[u8]) {
    put(fs, "/new", with).close().unwrap();
    fs.rename("/new", fs, "/f", RenameMode::Replace).unwrap();
}

#[test]
fn a_name_that_is_looked_up_again_is_opened_however_often_others_replace_it() {
    let root = Cred { uid: 0, gid: 0, groups: Vec::new(), umask: 0 };
    for of_user in [false, true] {
        let (world, watched, [one, two], objects) = two();
        let reader = world.mount_shared();
        let asks = if of_user { reader.as_user(root.clone()) } else { reader.clone() };
        replace(&one, b"first");
        let (mut last, mut again) = (b"first".to_vec(), 0);
        for n in 0..40_usize {
            let mut found = Vec::new();
            let (file, repeats) = open_in_two_steps(&asks, || {
                let new = vec![b'x'; 5 + found.len() + n];
                found.push(core::mem::replace(&mut last, new.clone()));
                // Twice, so that it is not where it was moved to either.
                replace(&one, b"in between");
                replace(if n % 2 == 0 { &one } else { &two }, &new);
            });
            again += repeats;
            let file = file.unwrap();
            assert_eq!(Some(read_all(&file)), found.pop(), "it is what the name was when it was looked up");
            assert_eq!(file.stat().unwrap().links, 0);
        }
        assert_eq!(again, 1, "from then on the name is known to be replaced");
        // Whoever only looks has it for a moment.
        let (obj, _) = asks.lookup_to_open("f").unwrap();
        replace(&two, b"last");
        assert_eq!(read_all(&obj.open(&OpenOptions::READ).unwrap()), last);
        world.clock.advance(2_000_000_000);
        assert_eq!(obj.open(&OpenOptions::READ).map(drop).unwrap_err(), Error::Stale);
        world.clock.advance(20_000_000_000);
        let before = watched.requests();
        asks.lookup_to_open("f").unwrap();
        let costs = watched.requests() - before;
        assert!(costs <= 3, "{costs}: it was not replaced for long");
        drop((obj, asks, reader));
        wait_until("what was held is freed", || world.object_count() == objects + 1);
        assert_eq!(two.check(false).unwrap().orphans, 0);
    }
}

#[test]
fn a_file_of_several_names_that_is_replaced_makes_its_own_names_count_and_no_others() {
    let (world, watched, [one, two], _) = two();
    let reader = world.mount_shared();
    put(&one, "/f", b"first").close().unwrap();
    one.mkdir("/d", 0o755).unwrap();
    let dir = reader.open_dir("/d").unwrap();
    one.link("/f", &one, "/d/g").unwrap();
    for other in ["/other", "/d/other"] {
        put(&one, other, b"other").close().unwrap();
    }
    let costs = |dir: &Dir, name: &str| {
        let before = watched.requests();
        dir.lookup_to_open(name).unwrap();
        watched.requests() - before
    };
    let others = || [costs(&reader, "other"), costs(&dir, "other")];
    let at_first = others();
    let (obj, _) = reader.lookup_to_open("f").unwrap();
    dir.lookup_to_open("g").unwrap();
    replace(&two, b"new");
    two.rename("/other", &two, "/d/g", RenameMode::Replace).unwrap();
    put(&one, "/other", b"other").close().unwrap();
    assert_eq!(obj.open(&OpenOptions::READ).map(drop).unwrap_err(), Error::Stale);
    assert_eq!(others(), at_first, "they have nothing to do with it");
    for (dir, name) in [(&*reader, "f"), (&dir, "g")] {
        let (obj, stat) = dir.lookup_to_open(name).unwrap();
        // By either it is opened that was found, whatever becomes of the name.
        replace(&two, b"in between");
        two.rename("/f", &two, "/d/g", RenameMode::Replace).unwrap();
        put(&two, "/f", b"more").close().unwrap();
        let data = read_all(&obj.open(&OpenOptions::READ).unwrap());
        assert_eq!(data.len() as u64, stat.size_bytes, "{name}");
    }
}

fn is_commit(ask: &Ask<'_>) -> bool {
    matches!(ask, Ask::Pool(PoolVerb::TxCommit(_)))
}

#[test]
fn who_opens_a_file_while_its_last_name_goes_finds_it_whole_or_not_at_all() {
    for (case, remove) in REMOVALS {
        let (_world, watched, [one, two], _) = two();
        put(&one, "/f", &[7; 10_000]).close().unwrap();
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let opener = one.clone();
        watched.before(is_commit, move || {
            // It waits until the name is gone, which the removal is on its way to.
            let open = move || opener.open("/f", &OpenOptions::READ).map(|file| read_all(&file));
            sender.send(dolmen_env::spawn("opens", open).unwrap()).unwrap();
            Ok(())
        });
        remove(&two);
        match receiver.recv().unwrap().join().unwrap() {
            Ok(data) => assert!(data == [7; 10_000] || data == b"new", "{case}: {} bytes", data.len()),
            Err(error) => assert_eq!(error, Error::NotFound, "{case}"),
        }
        assert!(one.check(false).unwrap().is_clean());
    }
}

fn is_free(ask: &Ask<'_>) -> bool {
    matches!(ask, Ask::Pool(PoolVerb::Lock(_, ask)) if ask.range.kind == LockKind::Free)
}

#[test]
fn what_could_not_be_given_back_is_given_back_with_a_later_file() {
    let (_world, watched, [one, two], _) = two();
    let file = put(&one, "/f", b"data");
    let oid = file.oid();
    watched.before(is_free, || Err(dolmen_types::Error::Busy));
    drop(file);
    assert!(watched.is_done());
    assert_eq!(watched.holders_of(oid), 1);
    // Answers are looked at when there are some, and what has failed is done with the file after that.
    for at in 0..9 {
        put(&one, &format!("/{at}"), b"data").close().unwrap();
    }
    assert_eq!(watched.holders_of(oid), 0);
    // It is taken meanwhile, and not given back then.
    let file = one.open("/f", &OpenOptions::READ).unwrap();
    watched.before(is_free, || Err(dolmen_types::Error::Busy));
    drop(file);
    let file = one.open("/f", &OpenOptions::READ).unwrap();
    for at in 0..9 {
        one.open(format!("/{at}"), &OpenOptions::READ).unwrap().close().unwrap();
    }
    two.unlink("/f").unwrap();
    assert_eq!(read_all(&file), b"data");
}

/// Requests that are waited for to make a file, to open it once more, to close and to open it, to remove it, and to move it.
fn costs(fs: &Dfs, watched: &Watched) -> [i64; 6] {
    let cost = |operation: &mut dyn FnMut()| {
        let before = watched.requests();
        operation();
        i64::try_from(watched.requests() - before).unwrap()
    };
    let mut file = None;
    let made = cost(&mut || file = Some(fs.open("/f", &OpenOptions::CREATE_NEW).unwrap()));
    let again = cost(&mut || drop(fs.open("/f", &OpenOptions::READ).unwrap()));
    let closed = cost(&mut || file = None);
    let opened = cost(&mut || file = Some(fs.open("/f", &OpenOptions::READ).unwrap()));
    file = None;
    let moved = cost(&mut || fs.rename("/f", fs, "/g", RenameMode::Replace).unwrap());
    fs.rename("/g", fs, "/f", RenameMode::Replace).unwrap();
    let removed = cost(&mut || fs.unlink("/f").unwrap());
    drop(file);
    [made, again, closed, opened, removed, moved]
}

#[test]
fn to_know_of_what_is_open_costs_two_requests_for_what_was_there_one_for_a_removal_and_none_for_a_new_file_or_a_close()
 {
    let [with, without] = [World::keeping_locks(), World::watched()].map(|(world, watched)| {
        let fs = world.mount_shared();
        // It is known by now whether anybody keeps locks.
        put(&fs, "/first", b"").close().unwrap();
        costs(&fs, &watched)
    });
    assert_eq!(core::array::from_fn(|at| with[at] - without[at]), [0, 0, 0, 2, 1, 1], "{with:?} {without:?}");
}
