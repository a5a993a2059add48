//! SIGKILL in the middle of a put: what was acknowledged is there, nothing is damaged, and the put goes on.

use crate::common::{Place, bytes};
use serde_json::Value;
use std::fs;

/// Files of the tree that is put.
const FILES: usize = 400;
/// The kill comes after these shares of the files, in percent.
const KILLS: [usize; 4] = [5, 30, 60, 85];

const PUT: [&str; 11] = ["fs", "put", "p", "c", "src", "/t", "--no-resume", "--log", "journal", "-j", "3"];

fn journal_records(place: &Place) -> usize {
    fs::read(place.path("journal")).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == 0).count())
}

/// Puts `src` as `/t` and kills that once its journal names `percent` of the files.
fn put_and_kill(place: &Place, percent: usize) {
    drop(fs::remove_file(place.path("journal")));
    let mut child = place.command(&PUT).spawn().unwrap();
    while journal_records(place) < FILES * percent / 100 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_put_loses_nothing_acknowledged_and_is_resumed() {
    for durability in ["power", "process"] {
        let place = Place::new(&format!("kill-{durability}"));
        place.pool(&["p", "--targets", "4"]);
        place.ok(&["cont", "create", "p", "c", "--durability", durability]);
        for n in 0..FILES {
            let dir = place.path(&format!("src/d{}", n % 7));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(format!("f{n}")), bytes((n * 937) % 40_000, n as u64)).unwrap();
        }
        for percent in KILLS {
            put_and_kill(&place, percent);
            let acknowledged = journal_records(&place);
            assert!(acknowledged >= FILES * percent / 100, "{durability}: {acknowledged} at {percent} %");
            let kept = place.json(&["fs", "verify", "p", "c", "--log", "journal"]);
            assert_eq!(kept["differences"], 0, "{durability} {percent} %: {kept}");
            let checked = place.json(&["check", "p", "--scrub"]);
            assert_eq!(checked["clean"], true, "{durability} {percent} %: {checked}");
        }
        place.ok(&["fs", "put", "p", "c", "src", "/t"]);
        place.ok(&["fs", "verify", "p", "c", "src", "/t"]);
    }
}

#[test]
fn a_journal_that_is_none_is_refused() {
    let place = Place::new("journal");
    place.pool_with_files();
    fs::write(place.path("journal"), b"0000002a 7 /gone\0garbage\0").unwrap();
    assert!(place.fails(2, &["fs", "verify", "p", "c", "--log", "journal"]).contains("journal"));
    fs::write(place.path("journal"), b"0000002a 7 /gone\x000000").unwrap();
    let ran = place.run(&["fs", "verify", "p", "c", "--log", "journal"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("/gone: missing"), "{ran:?}");
}

#[test]
fn a_journal_is_a_regular_file() {
    let place = Place::new("journal-kinds");
    place.pool_with_files();
    fs::write(place.path("f"), b"data").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    for log in ["pipe", "/dev/full", "/dev/zero", "/dev/null"] {
        for args in
            [&["fs", "put", "p", "c", "f", "/f", "--log", log][..], &["fs", "verify", "p", "c", "--log", log]]
        {
            let line = place.fails(2, args);
            assert!(line.contains(&format!("{log} is no regular file")), "{line}");
        }
    }
    place.fails(3, &["fs", "cat", "p", "c", "/f"]);
}

#[test]
fn a_journal_is_continued_behind_its_last_whole_record_and_nothing_else_is() {
    let place = Place::new("journal-cut");
    place.pool_with_files();
    for name in ["one", "two"] {
        fs::write(place.path(name), name).unwrap();
    }
    place.ok(&["fs", "put", "p", "c", "one", "/one", "--log", "journal"]);
    place.ok(&["fs", "put", "p", "c", "two", "/two", "--log", "journal"]);
    let whole = fs::read(place.path("journal")).unwrap();
    fs::write(place.path("journal"), &whole[..whole.len() - 5]).unwrap();
    place.ok(&["fs", "put", "p", "c", "two", "/two", "--no-resume", "--log", "journal"]);
    assert_eq!(fs::read(place.path("journal")).unwrap(), whole);
    assert_eq!(place.json(&["fs", "verify", "p", "c", "--log", "journal"])["files"], 2);

    fs::write(place.path("text"), b"no journal\n").unwrap();
    assert!(place.fails(2, &["fs", "verify", "p", "c", "--log", "text"]).contains("no journal of a put"));
    place.fails(2, &["fs", "put", "p", "c", "one", "/one", "--log", "text"]);
    assert_eq!(fs::read(place.path("text")).unwrap(), b"no journal\n");
}

#[test]
fn a_killed_put_leaves_each_file_as_it_was_or_as_it_is_to_be() {
    let place = Place::new("kill-replaces");
    place.pool_with_files();
    fs::create_dir(place.path("src")).unwrap();
    for n in 0..FILES as u64 {
        let len = if n % 40 == 0 { 600_000 } else { 3000 };
        fs::write(place.path(&format!("src/f{n}")), bytes(len, n)).unwrap();
    }
    place.ok(&PUT);
    for percent in KILLS {
        put_and_kill(&place, percent);
        let ran = place.run(&["fs", "verify", "p", "c", "src", "/t", "--json"]);
        let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
        for found in answer["response"]["mismatches"].as_array().unwrap() {
            let (path, difference) = (found["path"].as_str().unwrap(), found["difference"].as_str().unwrap());
            let is_unfinished = difference == "extra" && path.ends_with(".unfinished");
            assert!(is_unfinished || path == "/t" && difference == "time", "{found}");
        }
    }
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    place.ok(&["fs", "verify", "p", "c", "src", "/t"]);
}
