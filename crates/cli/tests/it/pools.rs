//! `dolmen pool`.

use crate::common::{Place, make_tree};

#[test]
fn a_pool_is_made_found_and_destroyed() {
    let place = Place::new("pools");
    place.pool(&["one", "--targets", "3", "--label", "tank"]);
    place.pool(&["two", "--targets", "1"]);
    let listed = place.json(&["pool", "list"]);
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|pool| pool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!((&listed[0]["label"], &listed[0]["targets"]), (&"tank".into(), &3.into()));
    assert!(place.ok(&["pool", "list", "."]).contains("tank"));

    let uuid = listed[0]["uuid"].as_str().unwrap().to_owned();
    for name in ["one", "file:one", "tank", &uuid] {
        let pool = place.json(&["pool", "query", name]);
        assert_eq!(pool["uuid"], uuid.as_str(), "{name}");
        assert_eq!(pool["targets"].as_array().unwrap().len(), 3);
    }
    assert!(place.ok(&["pool", "query", "one"]).contains("free"));

    assert!(place.fails(4, &["pool", "create", "one"]).contains("one"));
    assert!(place.fails(2, &["pool", "create", "three", "--label", "two words"]).contains("two words"));
    assert!(!place.path("three").exists());

    place.ok(&["cont", "create", "one", "c"]);
    assert!(place.fails(4, &["pool", "destroy", "one"]).contains("--recursive"));
    place.ok(&["pool", "destroy", "one", "--recursive"]);
    place.ok(&["pool", "destroy", "two"]);
    assert!(!place.path("one").exists());
    assert!(place.ok(&["pool", "list"]).contains("no pools"));
}

#[test]
fn bulk_data_may_be_on_another_device() {
    let place = Place::new("bulkdir");
    place.pool(&["p", "--targets", "2", "--bulk-dir", "disk2"]);
    place.ok(&["cont", "create", "p", "c"]);
    std::fs::write(place.path("big"), crate::common::bytes(200_000, 5)).unwrap();
    place.ok(&["fs", "put", "p", "c", "big", "/big"]);
    place.ok(&["fs", "verify", "p", "c", "big", "/big"]);
    assert!(place.path("disk2").join("t0").exists());
    place.ok(&["inspect", "p"]);
    place.ok(&["pool", "destroy", "p", "-r"]);
    assert!(!place.path("disk2").exists());
}

#[test]
fn a_foreign_target_is_damage_and_an_ambiguous_name_an_error() {
    let place = Place::new("identity");
    place.pool(&["p", "--targets", "2", "--label", "tank"]);
    let [t0, t1, aside] = ["t0", "t1", "aside"].map(|name| place.path("p").join(name));
    for (from, to) in [(&t0, &aside), (&t1, &t0), (&aside, &t1)] {
        std::fs::rename(from, to).unwrap();
    }
    for command in [&["check", "p"][..], &["cont", "list", "p"]] {
        let line = place.fails(7, command);
        assert!(line.contains("p/t0") && line.contains("from one copy"), "{line}");
    }
    let inspected = place.run(&["inspect", "p"]);
    assert_eq!(inspected.code(), 1, "{inspected:?}");
    assert!(inspected.stdout().contains("t1: holds another target"), "{inspected:?}");
    place.ok(&["pool", "destroy", "p", "--force"]);

    place.pool(&["a", "--targets", "1", "--label", "tank"]);
    place.fails(4, &["pool", "create", "b", "--targets", "1", "--label", "tank", "--volatile"]);
    std::fs::create_dir(place.path("b")).unwrap();
    std::fs::copy(place.path("a").join("pool"), place.path("b").join("pool")).unwrap();
    let line = place.fails(2, &["pool", "destroy", "tank"]);
    assert!(line.contains("./a") && line.contains("./b"), "{line}");
    assert!(place.path("a").join("pool").exists());
}

#[test]
fn commands_that_only_read_change_nothing() {
    let place = Place::new("reads");
    place.pool_with_files();
    make_tree(&place.path("src"));
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    place.ok(&["cont", "snapshot", "create", "p", "c", "s"]);
    let state = || {
        let mut files = Vec::new();
        for target in ["p/t0", "p/t1"] {
            for entry in std::fs::read_dir(place.path(target)).unwrap() {
                let path = entry.unwrap().path();
                files.push((
                    path.clone(),
                    path.metadata().unwrap().modified().unwrap(),
                    std::fs::read(path).unwrap(),
                ));
            }
        }
        files.sort();
        files
    };
    let before = state();
    for args in [
        &["pool", "query", "p"][..],
        &["cont", "list", "p"],
        &["cont", "query", "p", "c"],
        &["cont", "get-prop", "p", "c"],
        &["cont", "snapshot", "list", "p", "c"],
        &["fs", "ls", "p", "c", "/t", "-R", "-l"],
        &["fs", "cat", "p", "c", "/t/large"],
        &["fs", "du", "p", "c", "--exact"],
        &["fs", "df", "p", "c"],
        &["fs", "verify", "p", "c", "src", "/t"],
        &["fs", "get", "p", "c", "/t", "out", "--snapshot", "s"],
        &["obj", "list", "p", "c"],
    ] {
        place.ok(args);
        assert!(state() == before, "{args:?}");
    }
}
