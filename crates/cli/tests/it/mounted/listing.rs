//! Listing directories of a mount.

use super::{Mounted, limited};
use crate::common::amount;
use core::time::Duration;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

fn listed(dir: &std::path::Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_long_listing_has_each_entry_once_with_its_number_and_kind() {
    const FILES: usize = 1500;
    let Some(mounted) = Mounted::served("long-listing", &[]) else { return };
    let dir = mounted.path("d");
    fs::create_dir(&dir).unwrap();
    (0..FILES).for_each(|n| fs::write(dir.join(format!("file-{n}")), b"").unwrap());
    fs::create_dir(dir.join("sub")).unwrap();
    let names = listed(&dir);
    assert_eq!(names.len(), FILES + 1);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), FILES + 1);
    for entry in fs::read_dir(&dir).unwrap() {
        use std::os::unix::fs::DirEntryExt;
        let entry = entry.unwrap();
        assert_eq!(entry.file_type().unwrap().is_dir(), entry.file_name() == "sub");
        assert_eq!(entry.ino(), std::os::unix::fs::MetadataExt::ino(&entry.metadata().unwrap()));
    }
    let mut find = Command::new("find");
    find.arg(&dir).args(["-type", "f", "-size", "0"]);
    let found = limited(&mounted, &find, Duration::from_secs(60));
    assert_eq!(String::from_utf8(found.stdout).unwrap().lines().count(), FILES);
    fs::remove_dir_all(&dir).unwrap();
    assert!(!dir.exists());
    mounted.finish();
}

#[test]
fn entries_that_stay_are_listed_once_while_others_come_and_go() {
    let Some(mounted) = Mounted::alone("moving-listing", &[]) else { return };
    let dir = mounted.path("d");
    fs::create_dir(&dir).unwrap();
    (0..600).for_each(|n| fs::write(dir.join(format!("stays-{n}")), b"").unwrap());
    for round in 0..3 {
        let mut seen = BTreeSet::new();
        for (at, entry) in fs::read_dir(&dir).unwrap().enumerate() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if at % 50 == 0 {
                fs::write(dir.join(format!("comes-{round}-{at}")), b"").unwrap();
                drop(fs::remove_file(dir.join(format!("comes-{}-{at}", round - 1))));
            }
            assert!(seen.insert(name.clone()), "{name} is listed twice");
        }
        assert_eq!(seen.iter().filter(|name| name.starts_with("stays")).count(), 600);
    }
    mounted.finish();
}

#[test]
fn a_directory_may_be_large() {
    let Some(mounted) = Mounted::quick("large-directory") else { return };
    fill_and_list(mounted, amount("MOUNT_ENTRIES", 20_000));
}

#[test]
fn a_directory_may_be_large_that_a_daemon_serves() {
    let Some(mounted) = Mounted::served("large-served", &[]) else { return };
    fill_and_list(mounted, amount("MOUNT_ENTRIES", 3000));
}

fn fill_and_list(mounted: Mounted, entries: u64) {
    let dir = mounted.path("d");
    fs::create_dir(&dir).unwrap();
    let name = |n: u64| format!("entry-{n}");
    (0..entries).for_each(|n| drop(fs::File::create_new(dir.join(name(n))).unwrap()));
    let wanted: BTreeSet<String> = (0..entries).map(name).collect();
    let found = listed(&dir);
    assert_eq!(found.len(), wanted.len(), "each is listed once");
    assert!(found.into_iter().collect::<BTreeSet<_>>() == wanted);
    let is_removed = |n: u64| n.is_multiple_of(200);
    (0..entries).filter(|n| is_removed(*n)).for_each(|n| fs::remove_file(dir.join(name(n))).unwrap());
    assert!(fs::File::create_new(dir.join(name(1))).is_err(), "it is there");
    assert!(!dir.join(name(0)).exists());
    let wanted: BTreeSet<String> = (0..entries).filter(|n| !is_removed(*n)).map(name).collect();
    assert!(listed(&dir).into_iter().collect::<BTreeSet<_>>() == wanted);
    assert_eq!(fs::remove_dir(&dir).unwrap_err().kind(), std::io::ErrorKind::DirectoryNotEmpty);
    mounted.finish();
}
