//! Several threads on one mount, and on several.

use super::common::{World, cat, put, read_all, small_chunks};
use dolmen_dfs::{Dfs, Error, FormatOptions, OpenOptions, RenameMode};
use std::collections::BTreeSet;

const THREADS: u8 = 4;

fn in_threads(work: impl Fn(u8) + Sync) {
    dolmen_env::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}

/// Every record whole, none lost.
fn check_log(data: &[u8], records: usize) {
    assert_eq!(data.len(), records * 100);
    let mut seen = BTreeSet::new();
    for record in data.chunks(100) {
        assert!(record[2..].iter().all(|&byte| byte == record[0]), "torn");
        assert!(seen.insert((record[0], record[1])), "twice");
    }
}

fn append_all(fs: &Dfs, thread: u8) {
    let log = fs.open("/log", &OpenOptions::APPEND).unwrap();
    for n in 0..50 {
        let mut record = [thread; 100];
        record[1] = n;
        log.append(&record).unwrap();
    }
}

#[test]
fn appends_of_many_threads_are_all_there_and_whole() {
    // On a busy machine the threads of one round may run one after the other.
    for _ in 0..20 {
        let world = World::with(2, &small_chunks());
        let fs = world.mount();
        in_threads(|thread| append_all(&fs, thread));
        check_log(&cat(&fs, "/log"), 200);
    }
}

#[test]
fn appends_of_many_mounts_are_all_there_and_whole() {
    let world = World::with(2, &small_chunks());
    in_threads(|thread| append_all(&world.mount_shared(), thread));
    check_log(&cat(&world.mount(), "/log"), 200);
}

#[test]
fn of_many_that_create_one_name_exclusively_one_wins() {
    let world = World::new(2);
    for shared in [false, true] {
        let fs = if shared { world.mount_shared() } else { world.mount() };
        let wins = std::sync::atomic::AtomicU32::new(0);
        in_threads(|_| {
            for n in 0..30 {
                match fs.open(format!("/{shared}-{n}"), &OpenOptions::CREATE_NEW) {
                    Ok(_) => {
                        wins.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                    Err(error) => assert_eq!(error, Error::Exists),
                }
            }
        });
        assert_eq!(wins.into_inner(), 30);
    }
}

#[test]
fn what_is_made_during_a_check_never_looks_leaked() {
    let world = World::new(2);
    let fs = world.mount();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    dolmen_env::scope(|scope| {
        scope.spawn(|| {
            // As many as there is room for, however slow the checks are, each of which looks at all that are there.
            for n in 0..2000 {
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                put(&fs, &format!("/{n}"), b"stone");
            }
        });
        for _ in 0..30 {
            let report = fs.check(false).unwrap();
            assert!(report.is_clean(), "{:?}", report.leaked);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn an_open_beside_the_unlink_has_the_whole_file_or_none() {
    let world = World::new(2);
    for fs in [world.mount(), world.mount_shared()] {
        fs.mkdir(format!("/keeps-the-root-there-{}", fs.is_shared()), 0o755).unwrap();
        let objects = world.object_count();
        for round in 0..100 {
            put(&fs, "/f", &[7; 5000]).close().unwrap();
            let known = fs.lookup("f").unwrap().0;
            dolmen_env::scope(|scope| {
                scope.spawn(|| fs.unlink("/f").unwrap());
                for _ in 0..2 {
                    scope.spawn(|| match known.open(&OpenOptions::READ) {
                        Ok(file) => assert_eq!(read_all(&file), [7; 5000], "round {round}"),
                        Err(error) => assert_eq!(error, Error::Stale),
                    });
                }
            });
            assert_eq!(known.open(&OpenOptions::READ).unwrap_err(), Error::Stale);
            assert_eq!(known.stat().unwrap().links, 0);
            assert_eq!(fs.check(false).unwrap().orphans, 0, "round {round}");
        }
        assert_eq!(world.object_count(), objects);
    }
}

#[test]
fn names_renamed_round_by_many_threads_stay_one_each() {
    let world = World::new(3);
    let fs = world.mount();
    for dir in 0..3 {
        fs.mkdir(format!("/{dir}"), 0o755).unwrap();
    }
    for n in 0..THREADS {
        put(&fs, &format!("/0/{n}"), &[n]);
    }
    in_threads(|thread| {
        for round in 0..30 {
            let (from, to) = (round % 3, (round + 1) % 3);
            fs.rename(format!("/{from}/{thread}"), &fs, format!("/{to}/{thread}"), RenameMode::Replace)
                .unwrap();
        }
    });
    for n in 0..THREADS {
        assert_eq!(cat(&fs, &format!("/0/{n}")), [n]);
    }
    assert!(fs.open_dir("/1").unwrap().names().unwrap().is_empty());
    assert!(fs.open_dir("/2").unwrap().names().unwrap().is_empty());
}

#[test]
fn a_name_replaced_all_the_time_always_exists() {
    let world = World::new(2);
    let fs = world.mount();
    put(&fs, "/target", &[0; 64]).close().unwrap();
    let objects = world.object_count();
    in_threads(|thread| {
        for _ in 0..25 {
            if thread == 0 {
                let data = cat(&fs, "/target");
                assert!(data.len() == 64 && data.iter().all(|&byte| byte == data[0]), "half a file");
            } else {
                let own = format!("/new-{thread}");
                put(&fs, &own, &[thread; 64]).close().unwrap();
                fs.rename(&own, &fs, "/target", RenameMode::Replace).unwrap();
            }
        }
    });
    assert_eq!(world.object_count(), objects, "every replaced file is freed");
}

#[test]
fn create_and_unlink_of_one_name_by_many_threads_leak_nothing() {
    let world = World::new(2);
    let fs = world.mount();
    let objects = world.object_count();
    in_threads(|thread| {
        for n in 0..40 {
            match (thread + n) % 2 {
                0 => drop(put(&fs, "/x", b"data")),
                _ => assert!(matches!(fs.unlink("/x"), Ok(()) | Err(Error::NotFound))),
            }
        }
    });
    let left = fs.unlink("/x").map_or(0, |()| 0);
    assert_eq!(world.object_count(), objects + left);
}

#[test]
fn a_directory_removed_while_others_fill_it_holds_nothing_or_stays() {
    let world = World::new(2);
    for shared in [false, true] {
        let fs = if shared { world.mount_shared() } else { world.mount() };
        for round in 0..20 {
            let dir = format!("/d-{shared}-{round}");
            fs.mkdir(&dir, 0o755).unwrap();
            in_threads(|thread| match thread {
                0 => assert!(matches!(fs.rmdir(&dir), Ok(()) | Err(Error::NotEmpty))),
                _ => match fs.open(format!("{dir}/{thread}"), &OpenOptions::CREATE) {
                    Ok(_) | Err(Error::NotFound) => {}
                    Err(error) => panic!("{error}"),
                },
            });
            match fs.open_dir(&dir) {
                Ok(open) => assert!(!open.names().unwrap().is_empty()),
                Err(error) => assert_eq!(error, Error::NotFound),
            }
        }
    }
}

#[test]
fn directories_moved_into_each_other_by_many_threads_never_get_lost() {
    let world = World::new(2);
    for shared in [false, true] {
        let mounts: Vec<Dfs> = (0..THREADS)
            .map(|_| if shared { world.mount_shared() } else { world.mount() })
            .take(if shared { 4 } else { 1 })
            .collect();
        let name = |n: u8| format!("{shared}-{n}");
        for n in 0..THREADS {
            mounts[0].mkdir(name(n), 0o755).unwrap();
        }
        in_threads(|thread| {
            let fs = &mounts[usize::from(thread) % mounts.len()];
            for n in 0..20_u8 {
                let other = (thread + 1 + n % (THREADS - 1)) % THREADS;
                let into = format!("/{}/{}", name(other), name(thread));
                // Ignored: most of these must fail, with whatever the others' moves make of the paths.
                let _moved = fs.rename(format!("/{}", name(thread)), fs, &into, RenameMode::Replace);
                let _back = fs.rename(&into, fs, format!("/{}", name(thread)), RenameMode::Replace);
            }
        });
        let mut found = BTreeSet::new();
        let mut pending = vec![String::from("/")];
        while let Some(path) = pending.pop() {
            for child in mounts[0].open_dir(&path).unwrap().names().unwrap() {
                let child = String::from_utf8(child).unwrap();
                pending.push(format!("{path}{child}/"));
                assert!(found.insert(child), "twice");
            }
        }
        assert!((0..THREADS).all(|n| found.contains(&name(n))), "lost one: {found:?}");
    }
}

#[test]
fn handles_follow_what_other_threads_rename_all_the_time() {
    for shared in [false, true] {
        let world = World::new(2);
        let fs = if shared { world.mount_shared() } else { world.mount() };
        for dir in ["/a", "/b", "/a/moves"] {
            fs.mkdir(dir, 0o755).unwrap();
        }
        put(&fs, "/a/moves/f", b"x").close().unwrap();
        put(&fs, "/a/file", b"y").close().unwrap();
        let home = |round: u32| if round.is_multiple_of(2) { ("/a", "/b") } else { ("/b", "/a") };
        in_threads(|thread| {
            for round in 0..200 {
                let (from, to) = home(round);
                if thread == 0 {
                    for name in ["moves", "file"] {
                        let to = format!("{to}/{name}");
                        fs.rename(format!("{from}/{name}"), &fs, to, RenameMode::Replace).unwrap();
                    }
                    continue;
                }
                for dir in ["/a", "/b"] {
                    if let Ok(open) = fs.open_dir(format!("{dir}/moves")) {
                        assert!(open.stat("f").is_ok());
                        assert_eq!(open.stat_self().unwrap().oid, open.oid());
                        open.mkdir(format!("{thread}"), 0o755).unwrap();
                        open.rmdir(format!("{thread}")).unwrap();
                    }
                    if let Ok(file) = fs.open(format!("{dir}/file"), &OpenOptions::WRITE) {
                        assert_eq!(file.stat().unwrap().links, 1);
                        file.write_at(u64::from(thread), b"z").unwrap();
                    }
                }
            }
        });
        let (moves, file) =
            (fs.open_dir("/a/moves").unwrap(), fs.open("/a/file", &OpenOptions::READ).unwrap());
        assert_eq!(moves.stat("..").unwrap().oid, fs.stat("/a").unwrap().oid);
        assert_eq!(moves.names().unwrap(), [b"f".to_vec()]);
        assert_eq!(file.stat().unwrap().links, 1);
        assert!(fs.check(false).unwrap().is_clean());
    }
}

#[test]
fn a_reader_beside_a_writer_that_makes_the_file_longer_sees_no_zeros() {
    for format in [FormatOptions::default(), small_chunks()] {
        let world = World::with(2, &format);
        let fs = world.mount();
        let mut wrong = Vec::new();
        for round in 0..60 {
            let path = format!("/f{round}");
            let file = put(&fs, &path, b"\x01");
            let reader = fs.open(&path, &OpenOptions::READ).unwrap();
            dolmen_env::scope(|scope| {
                scope.spawn(|| {
                    for at in (1..20_001).step_by(100) {
                        file.write_at(at, &[1; 100]).unwrap();
                    }
                });
                let (mut buf, mut read) = (vec![0xaa; 20_001], 0);
                while read < buf.len() {
                    read = reader.read_at(0, &mut buf).unwrap();
                    wrong.extend(buf[..read].iter().position(|&byte| byte != 1));
                }
            });
        }
        assert_eq!(wrong, Vec::<usize>::new(), "zeros that nobody wrote");
    }
}
