//! A pool of several targets that is full, from a shell.

use crate::common::{Place, bytes};
use crate::ntuples::write_file;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{Array, Values};

/// A pool of a few MiB a target.
fn small_pool(place: &Place, targets: &str) {
    let sizes = ["--capacity", "8M", "--log-segment", "128K", "--bulk-segment", "1M"];
    place.make_pool(&[&["p", "--targets", targets], &sizes[..]].concat());
}

/// A directory of small files outside.
fn make_tree(place: &Place, name: &str, files: u32) {
    std::fs::create_dir(place.path(name)).unwrap();
    for number in 0..files {
        std::fs::write(place.path(name).join(number.to_string()), bytes(3000, 1)).unwrap();
    }
}

#[test]
fn a_full_pool_is_put_to_again_and_again_opened_and_emptied_by_one_command() {
    let place = Place::new("full");
    small_pool(&place, "2");
    place.ok(&["cont", "create", "p", "c", "--durability", "process"]);
    make_tree(&place, "tree", 4000);
    for _ in 0..8 {
        // The decisions of transactions go on where there is no room for data.
        let line = place.fails(6, &["fs", "put", "p", "c", "tree", "/tree"]);
        assert!(line.starts_with("dolmen: cannot put") && line.contains("is full"), "{line}");
        place.ok(&["fs", "ls", "p", "c", "/"]);
    }
    let space = place.json(&["pool", "query", "p"])["targets"].take();
    for target in space.as_array().unwrap() {
        let bytes = |name: &str| target[name].as_u64().unwrap();
        assert!(bytes("allocated_bytes") <= bytes("total_bytes"), "{target}");
    }
    place.ok(&["fs", "rm", "p", "c", "-r", "/tree"]);
    place.ok(&["check", "p", "--scrub"]);
    std::fs::remove_dir_all(place.path("tree")).unwrap();
    std::fs::write(place.path("large"), bytes(3 << 20, 1)).unwrap();
    place.ok(&["fs", "put", "p", "c", "large", "/large"]);
}

#[test]
fn a_snapshot_that_keeps_a_pool_full_is_destroyed() {
    let place = Place::new("kept");
    small_pool(&place, "1");
    place.ok(&["cont", "create", "p", "c", "--durability", "process"]);
    make_tree(&place, "tree", 1000);
    make_tree(&place, "more", 3000);
    place.ok(&["fs", "put", "p", "c", "tree", "/tree"]);
    place.ok(&["cont", "snapshot", "create", "p", "c", "kept"]);
    for _ in 0..3 {
        place.fails(6, &["fs", "put", "p", "c", "more", "/more"]);
        // What was there before the snapshot makes no room.
        place.run(&["fs", "rm", "p", "c", "-r", "/tree"]);
        place.ok(&["fs", "ls", "p", "c", "/", "--snapshot", "kept"]);
    }
    place.ok(&["cont", "snapshot", "destroy", "p", "c", "kept"]);
    place.ok(&["fs", "rm", "p", "c", "-r", "/more"]);
    place.ok(&["check", "p", "--scrub"]);
    place.ok(&["fs", "put", "p", "c", "tree", "/tree"]);
}

#[test]
fn a_pool_that_is_full_of_ntuples_says_what_makes_room_and_that_does() {
    let place = Place::new("full-ntuples");
    let sizes = ["--capacity", "24M", "--log-segment", "256K", "--bulk-segment", "1M"];
    place.make_pool(&[&["p", "--targets", "1"], &sizes[..]].concat());
    place.ok(&["cont", "create", "p", "c"]);
    let numbers = Array::Values(Values::F64((0..1_000_000).map(|at| f64::from(at) * 0.1).collect()));
    let options = Options { compression: Compression::None, ..Options::default() };
    write_file(&place.path("in.root"), &[("x", &numbers)], &options, 1);
    let import = |name| ["ntuple", "import", "p", "c", "in.root", "--name", name];
    place.ok(&import("first"));
    place.ok(&import("second"));
    let full = place.fails(6, &import("third"));
    for word in
        ["is full", "`dolmen ntuple destroy` removes an ntuple", "`dolmen cont aggregate POOL CONT` gives"]
    {
        assert!(full.contains(word), "{full}");
    }
    assert_eq!(place.json(&["ntuple", "list", "p", "c"]).as_array().map(Vec::len), Some(2));
    place.ok(&["ntuple", "destroy", "p", "c", "second"]);
    place.ok(&["ntuple", "gc", "p", "c", "--alone"]);
    place.ok(&["cont", "aggregate", "p", "c"]);
    place.ok(&import("third"));
    assert_eq!(place.json(&["ntuple", "scrub", "p", "c", "third"])["bad"], serde_json::json!([]));
    place.ok(&["check", "p", "--scrub"]);
}
