//! `dolmen inspect` and `check` on whole and on damaged pools.

use crate::common::{Place, make_tree};
use std::fs;
use std::path::PathBuf;

fn flip(path: &PathBuf, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

fn first_file(place: &Place, kind: &str) -> PathBuf {
    let mut found: Vec<PathBuf> =
        fs::read_dir(place.path("p/t0")).unwrap().map(|e| e.unwrap().path()).collect();
    found.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with(kind));
    found.sort();
    // The newest: the manifest before is a spare one.
    found.pop().unwrap()
}

#[test]
fn inspect_shows_what_lies_on_disk() {
    let place = Place::new("inspect");
    place.pool_with_files();
    make_tree(&place.path("src"));
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let text = place.ok(&["inspect", "p", "--frames"]);
    for word in
        ["superblock slot", "manifest:", "log:", "runs:", "bulk:", "container 1", "nothing is damaged"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    let json = place.json(&["inspect", "p", "--target", "1", "--frames"]);
    assert_eq!(json["targets"].as_array().unwrap().len(), 1);
    assert_eq!(json["findings"].as_array().unwrap().len(), 0);
    assert!(json["targets"][0]["runs"][0]["entries"].as_u64() > Some(0), "{json}");
    assert!(place.fails(3, &["inspect", "p", "--target", "9"]).contains("target 9"));
}

#[test]
fn a_target_that_is_gone_is_found_by_inspect_and_named_by_whoever_opens_the_pool() {
    let place = Place::new("gone");
    place.pool_with_files();
    fs::remove_dir_all(place.path("p/t1")).unwrap();
    let ran = place.run(&["inspect", "p"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("t1: the target is missing"), "{ran:?}");
    let ran = place.run(&["check", "p"]);
    assert_eq!(ran.code(), 7, "{ran:?}");
    assert!(ran.stderr().contains("t1 has no target"), "{ran:?}");
}

#[test]
fn damage_is_found_by_inspect_and_never_opens_as_data() {
    for (kind, at) in [("super", 20), ("manifest", 30), ("run", 100)] {
        let place = Place::new(&format!("damage-{kind}"));
        place.pool_with_files();
        make_tree(&place.path("src"));
        place.ok(&["fs", "put", "p", "c", "src", "/t"]);
        let file = first_file(&place, kind);
        flip(&file, at);
        if kind == "super" {
            // One torn slot is normal; both are not.
            flip(&file, 4096 + at);
        }
        let ran = place.run(&["inspect", "p"]);
        assert_eq!(ran.code(), 1, "{kind}: {ran:?}");
        assert!(ran.stdout().contains("DAMAGED"), "{kind}: {ran:?}");
        let ran = place.run(&["check", "p", "--scrub"]);
        assert!([1, 7].contains(&ran.code()), "{kind}: {ran:?}");
        let ran = place.run(&["fs", "verify", "p", "c", "src", "/t"]);
        assert_eq!(ran.code(), 7, "{kind}: {ran:?}");
        place.ok(&["pool", "destroy", "p", "--force"]);
    }
}

#[test]
fn a_damaged_pool_record_is_reported() {
    let place = Place::new("record");
    place.pool_with_files();
    flip(&place.path("p/pool"), 20);
    assert!(place.fails(7, &["pool", "query", "p"]).contains("damaged"));
    let ran = place.run(&["inspect", "p"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("superblock slot"), "{ran:?}");
}
