//! SIGKILL in the middle of a put: what was acknowledged is there, nothing is damaged, and the put goes on.

use crate::common::{Place, bytes};
use std::fs;

/// Files of the tree that is put.
const FILES: usize = 400;
/// The kill comes after these shares of the files, in percent.
const KILLS: [usize; 4] = [5, 30, 60, 85];

fn journal_records(place: &Place) -> usize {
    fs::read(place.path("journal")).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == 0).count())
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
            let put = ["fs", "put", "p", "c", "src", "/t", "--no-resume", "--log", "journal", "-j", "3"];
            drop(fs::remove_file(place.path("journal")));
            let mut child = place.command(&put).spawn().unwrap();
            while journal_records(&place) < FILES * percent / 100 && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            child.kill().unwrap();
            child.wait().unwrap();
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
    fs::write(place.path("journal"), b"0000002a 7 /gone\0unfinished").unwrap();
    let ran = place.run(&["fs", "verify", "p", "c", "--log", "journal"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("/gone: missing"), "{ran:?}");
}
