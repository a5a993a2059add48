//! A pool of several targets that is full, from a shell.

use crate::common::{Place, bytes};

#[test]
fn a_full_pool_is_put_to_again_and_again_opened_and_emptied_by_one_command() {
    let place = Place::new("full");
    let sizes = ["--targets", "2", "--capacity", "8M", "--log-segment", "128K", "--bulk-segment", "1M"];
    let made = place.run(&[&["pool", "create", "p"], &sizes[..]].concat());
    if made.code() == 8 {
        place.ok(&[&["pool", "create", "p", "--volatile"], &sizes[..]].concat());
    }
    place.ok(&["cont", "create", "p", "c", "--durability", "process"]);
    std::fs::create_dir(place.path("tree")).unwrap();
    for number in 0..4000 {
        std::fs::write(place.path("tree").join(number.to_string()), bytes(3000, 1)).unwrap();
    }
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
