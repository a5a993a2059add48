//! `dolmen obj`.

use crate::common::{Place, make_tree};

#[test]
fn objects_are_listed_and_dumped_as_stored() {
    let place = Place::new("objects");
    place.pool_with_files();
    make_tree(&place.path("src"));
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let listed = place.json(&["obj", "list", "p", "c"]);
    let listed = listed.as_array().unwrap();
    // Superblock, root and four directories, 32 files with data, and what the linked one needs.
    assert!(listed.len() >= 37, "{}", listed.len());
    assert!(place.ok(&["obj", "list", "p", "c"]).contains("ArrayByte"));

    let large = place.json(&["fs", "ls", "p", "c", "/t/large"])[0]["oid"].as_str().unwrap().to_owned();
    let dumped = place.json(&["obj", "dump", "p", "c", &large]);
    assert_eq!(dumped["type"], "ArrayByte");
    let records: u64 = dumped["dkeys"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|dkey| dkey["akeys"][0]["values"].as_array().unwrap())
        .map(|extent| extent["count"].as_u64().unwrap())
        .sum();
    assert_eq!(records, 3_000_001);

    let dir = place.json(&["fs", "ls", "p", "c", "/t"]);
    let sub = dir.as_array().unwrap().iter().find(|entry| entry["name"] == "sub").unwrap();
    let text = place.ok(&["obj", "dump", "p", "c", sub["oid"].as_str().unwrap()]);
    assert!(text.contains("dkey f29"), "{text}");
}

#[test]
fn keys_that_differ_look_different() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new("key-texts");
    place.pool(&["p", "--targets", "1"]);
    place.ok(&["cont", "create", "p", "c"]);
    std::fs::create_dir(place.path("src")).unwrap();
    for name in [&b"zz\xff"[..], b"0x7a7aff", b"\"0x7a7aff\"", b"plain"] {
        std::fs::write(place.path("src").join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let root = place.json(&["fs", "ls", "p", "c", "/"]);
    let oid = root[0]["oid"].as_str().unwrap();
    let text = place.ok(&["obj", "dump", "p", "c", oid]);
    let keys: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("dkey ")).collect();
    for key in ["0x7a7aff", r#""0x7a7aff""#, r#""\"0x7a7aff\"""#, "plain"] {
        assert_eq!(keys.iter().filter(|found| **found == key).count(), 1, "{key}: {text}");
    }
    let dumped = place.json(&["obj", "dump", "p", "c", oid]);
    let binary: Vec<_> =
        dumped["dkeys"].as_array().unwrap().iter().filter(|row| row["dkey_hex"] == "7a7aff").collect();
    assert!(binary.len() == 1 && binary[0]["dkey"] == "0x7a7aff", "{dumped}");
}

#[test]
fn a_key_has_one_spelling() {
    let place = Place::new("keys");
    place.pool(&["p", "--targets", "1"]);
    place.ok(&["cont", "create", "p", "c"]);
    place.ok(&["cont", "snapshot", "create", "p", "c", "before"]);
    let data = crate::common::bytes(300_000, 7);
    std::fs::write(place.path("f"), &data).unwrap();
    place.ok(&["fs", "put", "p", "c", "f", "/f"]);
    let oid = place.json(&["fs", "ls", "p", "c", "/f"])[0]["oid"].as_str().unwrap().to_owned();
    let dkey = place.json(&["obj", "dump", "p", "c", &oid])["dkeys"][0]["dkey"].as_str().unwrap().to_owned();
    assert_eq!(dkey, "1");
    let diff = place.json(&["cont", "snapshot", "diff", "p", "c", "before", "--objects"]);
    let changes = diff["changes"].as_array().unwrap();
    assert!(changes.iter().any(|change| change["oid"] == *oid && change["dkey"] == *dkey), "{diff}");
    for entry in std::fs::read_dir(place.path("p/t0")).unwrap() {
        let path = entry.unwrap().path();
        let mut stored = std::fs::read(&path).unwrap();
        if let Some(at) = stored.windows(64).position(|window| *window == data[1000..1064]) {
            stored[at] ^= 1;
            std::fs::write(&path, stored).unwrap();
        }
    }
    let ran = place.run(&["check", "p", "--scrub"]);
    assert!(ran.stdout().contains(&format!("object {oid}, key {dkey}/")), "{ran:?}");
    let ran = place.run(&["fs", "cat", "p", "c", "/f"]);
    assert!(ran.stderr().contains(&format!("object {oid}, key {dkey}/")), "{ran:?}");
}
