//! `dolmen pool`.

use crate::common::{Place, make_tree};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

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

    let line = place.fails(4, &["pool", "create", "one"]);
    assert!(line.contains("one is a pool already") && line.contains("`dolmen pool destroy`"), "{line}");
    std::fs::create_dir_all(place.path("full/of")).unwrap();
    assert!(place.fails(4, &["pool", "create", "full"]).contains("or empty this one"));
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
    let nowhere = ["pool", "create", "p", "--bulk-dir", "nowhere/disk2"];
    assert!(place.fails(3, &nowhere).contains("nowhere"));
    assert!(!place.path("p").exists() && !place.path("nowhere").exists());
    place.pool(&["p", "--targets", "2", "--bulk-dir", "disk2"]);
    let disk2 = place.path("disk2");
    assert_eq!(place.json(&["pool", "query", "p"])["bulk_dir"], disk2.to_str().unwrap());
    assert_eq!(place.json(&["pool", "list"])[0]["bulk_dir"], disk2.to_str().unwrap());
    assert!(place.ok(&["pool", "query", "p"]).contains("bulk data   /"));
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

#[test]
fn a_pool_of_any_name_is_listed_and_has_its_label_and_uuid_alone() {
    let place = Place::new("odd-pools");
    let odd = OsStr::from_bytes(b"\x1b[31m\xffred");
    let mut create = place.command(&["pool", "create", "--targets", "1", "--label", "tank", "--volatile"]);
    assert!(create.arg(odd).status().unwrap().success());
    assert!(place.ok(&["pool", "list"]).contains("\\x1b[31m\\xffred  tank"));
    let listed = place.json(&["pool", "list"]);
    assert_eq!((&listed[0]["label"], &listed[0]["name_hex"]), (&"tank".into(), &"1b5b33316dff726564".into()));
    assert!(listed[0]["directory_hex"].as_str().unwrap().ends_with("1b5b33316dff726564"));
    let uuid = listed[0]["uuid"].as_str().unwrap();
    assert_eq!(place.json(&["pool", "query", "tank"])["uuid"], uuid);
    let line = place.fails(4, &["pool", "create", "b", "--label", "tank", "--volatile"]);
    assert!(line.contains("has this label"), "{line}");
    let line = place.fails(4, &["pool", "create", "b", "--uuid", uuid, "--volatile"]);
    assert!(line.contains("has this UUID"), "{line}");
    let cont = place.json(&["cont", "create", "tank", "c"]);
    let line = place.fails(4, &["cont", "create", "tank", "d", "--uuid", cont["uuid"].as_str().unwrap()]);
    assert!(line.contains("a container has the UUID"), "{line}");
    let props = place.ok(&["cont", "get-prop", "tank", "c"]);
    assert!(props.contains("every stored byte has a checksum"), "{props}");
}

#[test]
fn a_pool_that_is_refused_leaves_everything_as_it_was() {
    let place = Place::new("nothing-left");
    let names = |dir: &str| -> Vec<String> {
        let all = std::fs::read_dir(place.path(dir)).unwrap();
        all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    for dir in ["full", "empty", "bulk", "own/p"] {
        std::fs::create_dir_all(place.path(dir)).unwrap();
    }
    std::fs::write(place.path("full/mine"), b"mine").unwrap();
    place.fails(4, &["pool", "create", "full"]);
    assert_eq!(names("full"), ["mine"]);
    // Its bulk data, where something is already; the pool's own directory was made, or was there and empty.
    for dir in ["new", "empty"] {
        place.fails(4, &["pool", "create", dir, "--bulk-dir", "full"]);
        assert_eq!(names("full"), ["mine"], "{dir}");
    }
    assert!(!place.path("new").exists());
    for bulk in ["new-bulk", "bulk"] {
        place.fails(6, &["pool", "create", "empty", "--bulk-dir", bulk, "--capacity", "1000T"]);
    }
    assert!(names("empty").is_empty() && names("bulk").is_empty() && !place.path("new-bulk").exists());
    place.ok(&["pool", "create", "empty", "--targets", "1"]);
}

#[test]
fn a_pool_that_has_not_the_room_for_its_targets_is_refused() {
    let place = Place::new("no-room");
    let device = rustix::fs::statvfs(place.path(".")).unwrap();
    let total = device.f_blocks * device.f_frsize;
    // As many targets as the device, were it empty, has room for at once: four log segments each.
    let segment = (20..40).map(|bits| 1_u64 << bits).find(|segment| total / (4 * segment) <= 1000).unwrap();
    let (targets, needed) = (total / (4 * segment), total / (4 * segment) * 4 * segment);
    let [targets, segment, capacity] =
        [targets.to_string(), format!("{}M", segment >> 20), format!("{}M", needed >> 20)];
    let args = ["--targets", &targets, "--log-segment", &segment, "--capacity", &capacity, "--volatile"];
    let line = place.fails(6, &[&["pool", "create", "p"], &args[..]].concat());
    assert!(line.contains(&format!("{targets} targets take {needed} bytes at once")), "{line}");
    assert!(!place.path("p").exists());
    let line = place.fails(6, &["pool", "create", "p", "--capacity", "1024T", "--volatile"]);
    assert!(line.contains("it is to have 1024T, and its devices have"), "{line}");
    assert!(!place.path("p").exists());
}

#[test]
fn a_pool_whose_bulk_directory_is_gone_is_removed_by_force() {
    for (name, is_empty) in [("bulk-gone", false), ("bulk-empty", true)] {
        let place = Place::new(name);
        place.pool(&["z", "--targets", "1", "--bulk-dir", "bd"]);
        std::fs::remove_dir_all(place.path("bd")).unwrap();
        if is_empty {
            // As a directory is on which nothing is mounted.
            std::fs::create_dir(place.path("bd")).unwrap();
        }
        let line = place.fails(3, &["pool", "destroy", "z", "--recursive"]);
        assert!(line.contains("add --force to remove what is left"), "{line}");
        let told = place.json(&["pool", "destroy", "z", "--force"]);
        assert_eq!(told["missing_bulk_dir"].as_str().map(std::path::Path::new), Some(&*place.path("bd")));
        assert!(!place.path("z").exists());
        assert_eq!(place.path("bd").exists(), is_empty);
    }
    let place = Place::new("bulk-there");
    place.pool(&["z", "--targets", "1", "--bulk-dir", "bd"]);
    assert_eq!(place.ok(&["pool", "destroy", "z", "--force"]), "z is gone\n");
    assert!(!place.path("bd").exists());
}

#[test]
fn a_copy_is_refused_the_bulk_data_of_the_original() {
    let place = Place::new("bulk-copied");
    place.pool(&["p", "--targets", "1", "--bulk-dir", "bd"]);
    place.ok(&["cont", "create", "p", "c"]);
    let copied = std::process::Command::new("cp").args(["-a", "p", "q"]).current_dir(place.path("")).status();
    assert!(copied.unwrap().success());
    let line = place.fails(8, &["cont", "create", "q", "d"]);
    assert!(
        line.contains("belongs to the pool in") && line.contains("q is a copy of that; use that one"),
        "{line}"
    );
    place.ok(&["cont", "list", "q"]);
    assert!(
        place.fails(8, &["pool", "destroy", "q", "-r"]).contains("; add --force to remove the copy alone")
    );
    assert!(
        place.ok(&["pool", "destroy", "q", "--force"]).contains("belongs to the pool that it was a copy of")
    );
    place.ok(&["cont", "create", "p", "d"]);
    std::fs::rename(place.path("p"), place.path("moved")).unwrap();
    place.ok(&["cont", "create", "moved", "e"]);
    place.ok(&["pool", "destroy", "moved", "-r"]);
    assert!(!place.path("bd").exists());
}

#[test]
fn the_bulk_directory_is_not_the_pools_own() {
    let place = Place::new("own-bulk");
    let line = place.fails(2, &["pool", "create", "z", "--targets", "1", "--bulk-dir", "./z"]);
    assert!(line.contains("z is the pool's own directory"), "{line}");
    assert!(!place.path("z").exists());
}

#[test]
fn what_is_no_directory_is_no_pool() {
    let place = Place::new("no-pool");
    std::fs::write(place.path("f"), b"text").unwrap();
    for command in [
        &["pool", "query", "f"][..],
        &["check", "f"],
        &["pool", "destroy", "f", "--force"],
        &["pool", "destroy", "f"],
        &["inspect", "f"],
        &["cont", "list", "f"],
        &["cont", "list", "f/x"],
        &["inspect", "f/x"],
    ] {
        let line = place.fails(3, command);
        assert!(line.contains(" is not a pool; make one with"), "{line}");
    }
    assert!(place.fails(3, &["pool", "list", "f"]).contains("f is no directory"));
    assert_eq!(std::fs::read(place.path("f")).unwrap(), b"text");
}
