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
