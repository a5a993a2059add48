//! A pool of several targets that is full, from a shell.

use crate::common::{Place, bytes};

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
