//! Life of a pool's directory.

use crate::common::{TempDir, ask, make_cont, open_cont, put, read, small, write};
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::{Ask, Request, Transport};
use dolmen_local::{
    Error, OpenOptions, PoolOptions, RecordFault, Upkeep, create, destroy, destroy_remains, destroy_rest,
    list, list_damaged, named, open,
};
use dolmen_types::{Head, Label};
use std::path::Path;

#[test]
fn what_was_written_is_there_after_reopening() {
    let temp = TempDir::new("reopen");
    let dir = temp.join("tank");
    create(&dir, &small(3)).unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    let cont = make_cont(&pool, "c");
    for dkey in 0..300 {
        write(&pool, u16::try_from(dkey % 3).unwrap(), &cont, dkey, &dkey.to_le_bytes());
    }
    write(&pool, 1, &cont, 1000, &vec![9; 1 << 20]);
    pool.close().unwrap();

    let pool = open(&dir, &OpenOptions { upkeep: Upkeep::Thread, ..OpenOptions::default() }).unwrap();
    assert!(pool.recoveries().iter().all(|recovery| recovery.clean));
    let cont = open_cont(&pool, "c");
    for dkey in 0..300_u64 {
        assert_eq!(read(&pool, u16::try_from(dkey % 3).unwrap(), &cont, dkey), dkey.to_le_bytes());
    }
    assert_eq!(read(&pool, 1, &cont, 1000), vec![9; 1 << 20]);
    drop(pool);
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    assert!(pool.recoveries().iter().all(|recovery| recovery.clean), "dropping closes");
    match ask(&pool, PoolVerb::Check).unwrap() {
        PoolReply::Audits(audits) => {
            assert!(audits.iter().all(|audit| audit.findings.is_empty()), "{audits:?}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn attributes_of_a_pool_without_containers_are_there_after_reopening() {
    let temp = TempDir::new("empty");
    let dir = temp.join("tank");
    create(&dir, &small(2)).unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    let attrs = vec![("site".to_owned(), b"north".to_vec())];
    assert!(matches!(ask(&pool, PoolVerb::SetAttrs(None, attrs)), Ok(PoolReply::Done)));
    pool.close().unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    match ask(&pool, PoolVerb::Attr(None, "site".to_owned())) {
        Ok(PoolReply::Attr(value)) => assert_eq!(value, b"north"),
        other => panic!("{other:?}"),
    }
    make_cont(&pool, "c");
    pool.close().unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    open_cont(&pool, "c");
}

#[test]
fn a_pool_is_found_by_label_and_uuid_and_without_a_label_by_its_directory() {
    let temp = TempDir::new("named");
    let label = Label::new("tank").unwrap();
    create(&temp.join("a"), &PoolOptions { label: Some(label), ..small(1) }).unwrap();
    create(&temp.join("b"), &small(1)).unwrap();
    create(&temp.join("tank"), &small(1)).unwrap();
    let pools = list(temp.path()).unwrap();
    let found = |name: &str| {
        named(&pools, name).iter().map(|pool| pool.name.to_str().unwrap()).collect::<Vec<&str>>()
    };
    assert_eq!(found("tank"), ["a"], "the label goes before the directory");
    assert_eq!((found("b"), found("a"), found("c")), (vec!["b"], vec![], vec![]));
    assert_eq!(found(&pools[1].uuid.to_string()), ["b"]);
}

#[test]
fn a_pool_keeps_label_uuid_and_targets() {
    let temp = TempDir::new("identity");
    let label = Label::new("tank").unwrap();
    let options = PoolOptions { label: Some(label.clone()), ..small(2) };
    create(&temp.join("a"), &options).unwrap();
    create(&temp.join("b"), &small(1)).unwrap();
    std::fs::create_dir(temp.join("c")).unwrap();
    let pools = list(temp.path()).unwrap();
    let seen: Vec<_> = pools.iter().map(|p| (p.name.to_str().unwrap(), p.label.clone(), p.targets)).collect();
    assert_eq!(seen, [("a", Some(label.clone()), 2), ("b", None, 1)]);
    assert_ne!(pools[0].uuid, pools[1].uuid);
    let pool = open(&temp.join("a"), &OpenOptions::default()).unwrap();
    match ask(&pool, PoolVerb::Query).unwrap() {
        PoolReply::Pool(info) => {
            assert_eq!((info.map.pool, info.label), (pools[0].uuid, Some(label)));
            assert_eq!((info.map.targets.len(), info.space.len(), info.cont_count), (2, 2, 0));
            assert!(info.space.iter().all(|space| space.total_bytes == (1 << 30) / 2), "{:?}", info.space);
        }
        other => panic!("{other:?}"),
    }
    let mut in_use = list(temp.path()).unwrap();
    assert_eq!(in_use[0].life, pools[0].life + 1);
    in_use[0].life = pools[0].life;
    assert_eq!(in_use, pools, "a pool in use is listed like any other");
}

#[test]
fn bulk_data_may_live_elsewhere() {
    let temp = TempDir::new("bulk");
    let (dir, bulk) = (temp.join("meta"), temp.join("bulk"));
    let options = PoolOptions { bulk_dir: Some(bulk.clone()), ..small(2) };
    create(&dir, &options).unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    let cont = make_cont(&pool, "c");
    write(&pool, 1, &cont, 5, &vec![3; 300_000]);
    pool.close().unwrap();
    let bulk_files = std::fs::read_dir(bulk.join("t1")).unwrap().count();
    assert!(bulk_files > 0, "the value is in the bulk directory");
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    assert_eq!(read(&pool, 1, &open_cont(&pool, "c"), 5), vec![3; 300_000]);
    drop(pool);
    create(&temp.join("other"), &PoolOptions { bulk_dir: Some(temp.join("bulk2")), ..small(2) }).unwrap();
    std::fs::copy(temp.join("bulk2").join("bulk"), bulk.join("bulk")).unwrap();
    let refused = open(&dir, &OpenOptions::default()).unwrap_err();
    assert!(matches!(refused, Error::Record { fault: RecordFault::Foreign, .. }), "{refused}");
}

#[test]
fn what_a_making_that_was_cut_short_has_left_is_in_nobodys_way() {
    let temp = TempDir::new("cut-short");
    let dir = temp.join("tank");
    create(&dir, &small(2)).unwrap();
    // Killed while the record, which comes last, was written.
    std::fs::rename(dir.join("pool"), dir.join(".pool.new")).unwrap();
    assert!(matches!(create(&dir, &small(2)), Err(Error::Device(dolmen_env::Error::Exists { .. }))));
    destroy_remains(&dir).unwrap();
    create(&dir, &small(2)).unwrap();
    // What is not of a pool stays.
    std::fs::remove_file(dir.join("pool")).unwrap();
    std::fs::write(dir.join(".other.new"), b"kept").unwrap();
    destroy_remains(&dir).unwrap();
    assert!(dir.join(".other.new").exists() && dir.join("t0").exists());
}

#[test]
fn a_pool_is_made_only_where_nothing_is() {
    let temp = TempDir::new("occupied");
    let dir = temp.join("p");
    create(&dir, &small(1)).unwrap();
    assert_eq!(create(&dir, &small(1)), Err(Error::IsPool { dir: dir.clone() }));
    open(&dir, &OpenOptions::default()).unwrap().close().unwrap();
    destroy(&dir).unwrap();
    assert!(!dir.exists());
    assert!(matches!(destroy(&dir), Err(Error::Device(dolmen_env::Error::NotFound { .. }))));
    create(&dir, &small(1)).unwrap();
}

#[test]
fn a_failed_creation_leaves_nothing() {
    let temp = TempDir::new("refused");
    let dir = temp.join("p");
    let options = PoolOptions { log_segment_bytes: 77, ..small(2) };
    assert!(matches!(create(&dir, &options), Err(Error::Option { name: "log_segment_bytes", .. })));
    assert!(!dir.exists());
}

#[test]
fn a_damaged_record_is_refused_and_a_removal_cut_short_goes_on() {
    let temp = TempDir::new("damaged");
    let dir = temp.join("p");
    create(&dir, &small(2)).unwrap();
    let record = std::fs::read(dir.join("pool")).unwrap();
    let mut bad = record.clone();
    bad[20] ^= 1;
    std::fs::write(dir.join("pool"), &bad).unwrap();
    let damaged = open(&dir, &OpenOptions::default()).unwrap_err();
    assert!(matches!(damaged, Error::Record { fault: RecordFault::Damaged, .. }), "{damaged}");
    assert_eq!(list(temp.path()).unwrap(), []);
    assert_eq!(list_damaged(temp.path()).unwrap(), [("p".into(), RecordFault::Damaged)]);
    std::fs::remove_file(dir.join("pool")).unwrap();
    let missing = open(&dir, &OpenOptions::default()).unwrap_err();
    assert!(matches!(missing, Error::Record { fault: RecordFault::Missing, .. }), "{missing}");
    destroy(&dir).unwrap();
    assert!(!dir.exists());
}

#[test]
fn a_pool_with_a_damaged_record_is_removed_and_what_may_be_none_is_not() {
    let temp = TempDir::new("damaged-removed");
    for record in [&b"DOLMPOOL damaged"[..], b"other"] {
        let dir = temp.join("p");
        create(&dir, &small(2)).unwrap();
        std::fs::write(dir.join("pool"), record).unwrap();
        std::fs::write(dir.join("mine"), b"data").unwrap();
        assert!(matches!(destroy(&dir), Err(Error::Foreign { .. })), "what is not the pool's stays");
        std::fs::remove_file(dir.join("mine")).unwrap();
        destroy(&dir).unwrap();
        assert!(!dir.exists());
    }
    let none = temp.join("none");
    std::fs::create_dir_all(none.join("t0")).unwrap();
    for name in ["pool", "t0/super"] {
        std::fs::write(none.join(name), b"of another program").unwrap();
    }
    assert_eq!(list_damaged(temp.path()).unwrap(), []);
    assert!(matches!(destroy(&none), Err(Error::Record { fault: RecordFault::Damaged, .. })));
    assert!(none.join("pool").exists());
}

#[test]
fn a_file_system_in_memory_has_to_be_agreed_to() {
    let shm = std::path::Path::new("/dev/shm");
    if !shm.is_dir() {
        return;
    }
    let dir = shm.join(format!("dolmen-local-test-{}", std::process::id()));
    let refused = create(&dir, &PoolOptions { volatile: false, ..small(1) }).unwrap_err();
    assert!(matches!(refused, Error::Volatile { .. }), "{refused}");
    assert!(!dir.exists());
    create(&dir, &small(1)).unwrap();
    open(&dir, &OpenOptions::default()).unwrap().close().unwrap();
    destroy(&dir).unwrap();
}

/// Copies a directory of files and directories.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let there = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &there);
        } else {
            std::fs::copy(entry.path(), there).unwrap();
        }
    }
}

#[test]
fn a_target_of_another_pool_or_place_is_refused_and_left_as_it_is() {
    let temp = TempDir::new("foreign");
    let (dir, other) = (temp.join("p"), temp.join("other"));
    create(&dir, &small(2)).unwrap();
    create(&other, &small(2)).unwrap();
    let refused = |named: &str| match open(&dir, &OpenOptions::default()).unwrap_err() {
        Error::ForeignTarget { dir: found } => assert_eq!(found, dir.join(named)),
        other => panic!("{other}"),
    };
    let rename = |from: &str, to: &str| std::fs::rename(dir.join(from), dir.join(to)).unwrap();
    let swap = || {
        rename("t0", "aside");
        rename("t1", "t0");
        rename("aside", "t1");
    };
    swap();
    refused("t0");
    swap();
    rename("t1", "kept");
    copy(&other.join("t1"), &dir.join("t1"));
    let before = std::fs::read(dir.join("t1").join("super")).unwrap();
    refused("t1");
    assert_eq!(std::fs::read(dir.join("t1").join("super")).unwrap(), before);
    std::fs::remove_dir_all(dir.join("t1")).unwrap();
    rename("kept", "t1");
    open(&dir, &OpenOptions::default()).unwrap().close().unwrap();
}

#[test]
fn a_target_put_back_from_an_older_copy_is_refused_and_left_as_it_is() {
    let temp = TempDir::new("stale");
    let (dir, kept) = (temp.join("p"), temp.join("kept"));
    create(&dir, &small(2)).unwrap();
    let session = |dkey: u64| {
        let pool = open(&dir, &OpenOptions::default()).unwrap();
        let cont = if dkey == 0 { make_cont(&pool, "c") } else { open_cont(&pool, "c") };
        (0..dkey).for_each(|old| assert_eq!(read(&pool, 1, &cont, old), old.to_le_bytes()));
        write(&pool, 1, &cont, dkey, &dkey.to_le_bytes());
        pool
    };
    session(0).close().unwrap();
    copy(&dir.join("t1"), &kept.join("closed"));
    let pool = session(1);
    copy(&dir.join("t1"), &kept.join("open"));
    pool.close().unwrap();
    session(2).close().unwrap();
    std::fs::rename(dir.join("t1"), kept.join("now")).unwrap();
    for stale in ["closed", "open"] {
        copy(&kept.join(stale), &dir.join("t1"));
        let before = std::fs::read(dir.join("t1").join("super")).unwrap();
        match open(&dir, &OpenOptions::default()).unwrap_err() {
            Error::OtherLife { dir: found, life, pool } => {
                assert!(found.ends_with("t1") && life < pool, "{life} {pool}")
            }
            other => panic!("{other}"),
        }
        assert_eq!(std::fs::read(dir.join("t1").join("super")).unwrap(), before);
        std::fs::remove_dir_all(dir.join("t1")).unwrap();
    }
    std::fs::rename(kept.join("now"), dir.join("t1")).unwrap();
    session(3).close().unwrap();
    // All of it from one copy is the pool as it was.
    copy(&dir, &kept.join("whole"));
    session(4).close().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    copy(&kept.join("whole"), &dir);
    session(4).close().unwrap();
}

#[test]
fn bulk_data_of_another_target_is_refused_and_left_as_it_is() {
    let temp = TempDir::new("bulk-identity");
    let (dir, bulk) = (temp.join("p"), temp.join("bulk"));
    create(&dir, &PoolOptions { bulk_dir: Some(bulk.clone()), ..small(2) }).unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    let cont = make_cont(&pool, "c");
    for target in 0..2 {
        write(&pool, target, &cont, 7, &vec![u8::try_from(target).unwrap(); 1 << 20]);
    }
    pool.close().unwrap();
    let swap = || {
        for (from, to) in [("t0", "aside"), ("t1", "t0"), ("aside", "t1")] {
            std::fs::rename(bulk.join(from), bulk.join(to)).unwrap();
        }
    };
    swap();
    match open(&dir, &OpenOptions::default()).unwrap_err() {
        Error::ForeignTarget { dir: found } => assert_eq!(found, bulk.join("t0")),
        other => panic!("{other}"),
    }
    swap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    let cont = open_cont(&pool, "c");
    (0..2).for_each(|target| {
        assert_eq!(read(&pool, target, &cont, 7), vec![u8::try_from(target).unwrap(); 1 << 20]);
    });
}

#[test]
fn an_open_pool_writes_into_its_own_directory_wherever_that_is_moved() {
    let temp = TempDir::new("moved");
    let (dir, moved) = (temp.join("p"), temp.join("moved"));
    create(&dir, &small(2)).unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    let cont = make_cont(&pool, "c");
    std::fs::rename(&dir, &moved).unwrap();
    create(&dir, &small(1)).unwrap();
    let other = files_of(&dir);
    write(&pool, 1, &cont, 7, &vec![7; 1 << 20]);
    pool.close().unwrap();
    assert_eq!(files_of(&dir), other, "the pool that has the name now");
    open(&dir, &OpenOptions::default()).unwrap().close().unwrap();
    let pool = open(&moved, &OpenOptions::default()).unwrap();
    assert_eq!(read(&pool, 1, &open_cont(&pool, "c"), 7), vec![7; 1 << 20]);
    std::fs::remove_dir_all(&dir).unwrap();
    std::fs::rename(&moved, &dir).unwrap();
    pool.close().unwrap();
    open(&dir, &OpenOptions::default()).unwrap().close().unwrap();
}

#[test]
fn a_copy_of_a_pool_does_not_write_the_bulk_data_of_the_original() {
    let temp = TempDir::new("bulk-copy");
    let (dir, bulk, other) = (temp.join("p"), temp.join("bulk"), temp.join("q"));
    create(&dir, &PoolOptions { bulk_dir: Some(bulk.clone()), ..small(2) }).unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    write(&pool, 1, &make_cont(&pool, "c"), 7, &vec![7; 1 << 20]);
    pool.close().unwrap();
    let usable = |dir: &Path| {
        let pool = open(dir, &OpenOptions::default()).unwrap();
        assert_eq!(read(&pool, 1, &open_cont(&pool, "c"), 7), vec![7; 1 << 20]);
        pool.close().unwrap();
    };
    copy(&dir, &other);
    let stored = files_of(&bulk);
    let refused = |dir: &Path, original: &Path| match open(dir, &OpenOptions::default()).unwrap_err() {
        Error::OtherPlace { dir: found, place, .. } => {
            assert_eq!((&*found, &*place), (dir, &*original.canonicalize().unwrap()));
        }
        other => panic!("{other}"),
    };
    refused(&other, &dir);
    assert!(matches!(destroy(&other), Err(Error::OtherPlace { .. })));
    assert_eq!(files_of(&bulk), stored);
    let to_read = OpenOptions { read_only: true, ..OpenOptions::default() };
    open(&other, &to_read).unwrap().close().unwrap();
    usable(&dir);

    // Moved, where a copy takes the old place, and where it takes none.
    std::fs::remove_dir_all(&other).unwrap();
    let moved = temp.join("moved");
    std::fs::rename(&dir, &moved).unwrap();
    usable(&moved);
    copy(&moved, &dir);
    refused(&dir, &moved);
    assert_eq!(destroy_rest(&dir).unwrap(), Some(bulk.clone()));
    usable(&moved);
    copy(&moved, &dir);
    std::fs::remove_dir_all(&moved).unwrap();
    usable(&dir);
    destroy(&dir).unwrap();
    assert!(!bulk.exists());
}

#[test]
fn a_label_is_taken_once_beside_each_other() {
    let temp = TempDir::new("labels");
    let labelled = PoolOptions { label: Some(Label::new("tank").unwrap()), ..small(1) };
    create(&temp.join("a"), &labelled).unwrap();
    let refused = create(&temp.join("b"), &labelled).unwrap_err();
    assert!(matches!(&refused, Error::LabelTaken { dir } if dir.ends_with("a")), "{refused}");
    assert!(!temp.join("b").exists());
    // Directories above a pool are not made.
    let elsewhere = temp.join("elsewhere");
    let refused = create(&elsewhere.join("b"), &labelled).unwrap_err();
    assert!(matches!(&refused, Error::NoParent { dir } if dir.ends_with("elsewhere")), "{refused}");
    assert!(!elsewhere.exists());
    std::fs::create_dir(&elsewhere).unwrap();
    create(&elsewhere.join("b"), &labelled).unwrap();
}

#[test]
fn no_pool_is_made_inside_another() {
    let temp = TempDir::new("inside");
    let dir = temp.join("p");
    create(&dir, &small(1)).unwrap();
    for inner in [dir.join("q"), dir.join("t0").join("q"), dir.join("x").join("y")] {
        let refused = create(&inner, &small(1)).unwrap_err();
        assert!(matches!(&refused, Error::Inside { pool, .. } if pool.ends_with("p")), "{refused}");
        let options = PoolOptions { bulk_dir: Some(inner.clone()), ..small(1) };
        assert!(matches!(create(&temp.join("q"), &options), Err(Error::Inside { .. })));
        assert!(!inner.exists());
    }
    let within = PoolOptions { bulk_dir: Some(temp.join("q").join("bulk")), ..small(1) };
    assert!(matches!(create(&temp.join("q"), &within), Err(Error::Inside { .. })));
    create(&dir.join("..").join("q"), &small(1)).unwrap();
}

#[test]
fn destroying_removes_nothing_that_is_not_the_pools() {
    let temp = TempDir::new("strangers");
    let dir = temp.join("p");
    create(&dir, &small(2)).unwrap();
    let strangers = [dir.join("notes"), dir.join("t0").join("notes"), dir.join("t7")];
    for (at, path) in strangers.iter().enumerate() {
        if at == 2 {
            std::fs::create_dir(path).unwrap()
        } else {
            std::fs::write(path, b"mine").unwrap()
        }
        let refused = destroy(&dir).unwrap_err();
        assert_eq!(refused, Error::Foreign { entries: vec![path.clone()] });
        open(&dir, &OpenOptions::default()).unwrap().close().unwrap();
        if at == 2 { std::fs::remove_dir(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
    }
    destroy(&dir).unwrap();
    assert!(!dir.exists());
}

#[test]
fn space_that_targets_share_is_counted_once() {
    let temp = TempDir::new("shared-space");
    let dir = temp.join("tank");
    let device = dolmen_env::RealDisk::open(temp.path()).unwrap();
    let whole = dolmen_env::Disk::space(&device).unwrap().total_bytes;
    create(&dir, &PoolOptions { capacity_bytes: whole, ..small(4) }).unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    let left = || dolmen_env::Disk::space(&device).unwrap().free_bytes;
    let before = left();
    let free: u64 = match ask(&pool, PoolVerb::Query).unwrap() {
        PoolReply::Pool(info) => info.space.iter().map(|space| space.free_bytes).sum(),
        other => panic!("{other:?}"),
    };
    // What the targets have allocated already is theirs beside it, and others use the device meanwhile.
    let most = before.max(left()) + (1 << 30);
    assert!(free <= most, "{free} bytes of {most}");
}

#[test]
fn a_pool_that_is_larger_than_its_device_is_refused_and_several_may_be_together() {
    let temp = TempDir::new("too-large");
    let device = dolmen_env::RealDisk::open(temp.path()).unwrap();
    let whole = dolmen_env::Disk::space(&device).unwrap().total_bytes;
    let make =
        |name: &str, capacity_bytes| create(&temp.join(name), &PoolOptions { capacity_bytes, ..small(1) });
    for name in ["one", "other"] {
        assert_eq!(make(name, whole), Ok(()), "pools are thin");
    }
    let refused = make("third", whole + 1);
    assert_eq!(refused, Err(Error::TooLarge { capacity_bytes: whole + 1, device_bytes: whole }));
    assert!(!temp.join("third").exists(), "nothing is left of it");
}

#[test]
fn options_that_do_not_fit_each_other_are_named_with_their_range() {
    let temp = TempDir::new("options");
    let refused = |options: PoolOptions| create(&temp.join("tank"), &options).unwrap_err();
    let low = 4 * (1 << 20) * 2;
    assert_eq!(
        refused(PoolOptions { capacity_bytes: 1 << 20, ..small(2) }),
        Error::Option { name: "capacity_bytes", value: 1 << 20, low, high: 1 << 50 }
    );
    assert_eq!(
        refused(PoolOptions { capacity_bytes: u64::MAX, ..small(1) }),
        Error::Option { name: "capacity_bytes", value: u64::MAX, low: low / 2, high: 1 << 50 }
    );
    let memory = |value| Error::Option { name: "memory_budget_bytes", value, low: 4 << 20, high: 16 << 40 };
    for value in [0, u64::MAX] {
        assert_eq!(refused(PoolOptions { memory_budget_bytes: value, ..small(1) }), memory(value));
    }
    assert_eq!(
        refused(PoolOptions { small_value_bytes_max: 1 << 20, ..small(1) }),
        Error::Option { name: "small_value_bytes_max", value: 1 << 20, low: 0, high: 1 << 18 }
    );
    assert!(!temp.join("tank").exists());
    create(&temp.join("tank"), &small(1)).unwrap();
    let one = OpenOptions { memory_budget_bytes: Some(1), ..OpenOptions::default() };
    assert_eq!(open(&temp.join("tank"), &one).unwrap_err(), memory(1));
}

/// Every file of a pool with its contents and time of change; the lock is not the pool's.
fn files_of(dir: &Path) -> Vec<(std::path::PathBuf, std::time::SystemTime, Vec<u8>)> {
    let mut files = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                pending.push(path);
            } else if path.file_name().unwrap() != ".owner" {
                files.push((path.clone(), meta.modified().unwrap(), std::fs::read(path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn a_pool_that_is_open_for_reading_is_not_changed_closed_or_not() {
    let temp = TempDir::new("reading");
    let dir = temp.join("tank");
    create(&dir, &small(2)).unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    let cont = make_cont(&pool, "c");
    for dkey in 0..100 {
        write(&pool, u16::try_from(dkey % 2).unwrap(), &cont, dkey, &vec![7; 5000]);
    }
    // As a killed process leaves it: a copy of what is there.
    let unclean = temp.join("unclean");
    for (path, _, bytes) in files_of(&dir) {
        let copy = unclean.join(path.strip_prefix(&dir).unwrap());
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::write(copy, bytes).unwrap();
    }
    pool.close().unwrap();
    for dir in [dir, unclean] {
        let before = files_of(&dir);
        let options = OpenOptions { read_only: true, upkeep: Upkeep::Thread, ..OpenOptions::default() };
        for _ in 0..2 {
            let pool = open(&dir, &options).unwrap();
            assert!(open(&dir, &options).unwrap_err().owner_pid().is_some(), "it is owned");
            let cont = open_cont(&pool, "c");
            for dkey in 0..100 {
                assert_eq!(read(&pool, u16::try_from(dkey % 2).unwrap(), &cont, dkey), vec![7; 5000]);
            }
            let ask_write = Ask::Target(dolmen_types::TargetNo(0), cont.no, put(7, b"new"));
            let refused = pool.call(Request { token: 1, head: Head::default(), ask: ask_write });
            assert!(matches!(refused.result, Err(dolmen_types::Error::NoPermission)));
            let refused = ask(&pool, PoolVerb::Checkpoint);
            assert!(matches!(refused, Err(dolmen_types::Error::NoPermission)));
            pool.close().unwrap();
        }
        assert!(files_of(&dir) == before, "{} was changed", dir.display());
        let pool = open(&dir, &OpenOptions::default()).unwrap();
        let cont = open_cont(&pool, "c");
        write(&pool, 0, &cont, 7, b"new");
        assert_eq!(read(&pool, 0, &cont, 7), b"new");
        pool.close().unwrap();
    }
}

#[test]
fn a_target_that_is_not_there_is_named() {
    let temp = TempDir::new("missing");
    let dir = temp.join("p");
    create(&dir, &small(2)).unwrap();
    std::fs::rename(dir.join("t1").join("super"), temp.join("super")).unwrap();
    let refused = || open(&dir, &OpenOptions::default()).unwrap_err();
    assert_eq!(refused(), Error::MissingTarget { dir: dir.join("t1") });
    std::fs::rename(dir.join("t1"), temp.join("t1")).unwrap();
    assert_eq!(refused(), Error::MissingTarget { dir: dir.join("t1") });
    std::fs::rename(temp.join("t1"), dir.join("t1")).unwrap();
    std::fs::rename(temp.join("super"), dir.join("t1").join("super")).unwrap();
    open(&dir, &OpenOptions::default()).unwrap().close().unwrap();
}
