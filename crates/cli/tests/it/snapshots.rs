//! `dolmen cont snapshot`, and reading at one.

use crate::common::{Place, make_tree};
use crate::served::Daemon;
use std::fs;

#[test]
fn a_name_that_mounts_cannot_show_is_refused_for_files_and_told_to_scripts() {
    let place = Place::new("snapshot-hidden");
    place.pool_with_files();
    place.ok(&["cont", "create", "p", "o", "--type", "none"]);
    for name in ["daily/1", ".", "..", "/"] {
        let line = place.fails(2, &["cont", "snapshot", "create", "p", "c", name]);
        assert!(line.contains("`.snapshots` of a mount could not show it; choose a name"), "{line}");
        // Objects are in no mount.
        place.ok(&["cont", "snapshot", "create", "p", "o", name]);
    }
    assert_eq!(place.ok(&["cont", "snapshot", "list", "p", "c"]), "no snapshots\n");
    let daemon = Daemon::start(&place, &[]);
    let system = format!("unix:{}", place.path("dolmen.sock").display());
    let ran = place.run(&["daos", "-G", &system, "cont", "create-snap", "p", "c", "--snap", "daily/1"]);
    assert_eq!((ran.code(), ran.stderr().lines().count()), (0, 1), "{ran:?}");
    assert!(ran.stderr().contains("`.snapshots` of a mount does not show daily/1"), "{ran:?}");
    let ran = place.run(&["daos", "-G", &system, "cont", "create-snap", "p", "c", "--snap", "daily"]);
    assert_eq!((ran.code(), &*ran.stderr()), (0, ""), "{ran:?}");
    daemon.end();
}

#[test]
fn a_snapshot_is_read_compared_rolled_back_to_and_destroyed() {
    let place = Place::new("snaps");
    place.pool_with_files();
    let src = place.path("src");
    make_tree(&src);
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let made = place.json(&["cont", "snapshot", "create", "p", "c", "before"]);
    let epoch = made["epoch"].as_str().unwrap();
    assert!(place.fails(4, &["cont", "snapshot", "create", "p", "c", "before"]).contains("snapshot"));

    fs::write(place.path("changed"), b"changed").unwrap();
    place.ok(&["fs", "put", "p", "c", "changed", "/t/sub/f5"]);
    place.ok(&["fs", "put", "p", "c", "changed", "/t/new"]);
    place.ok(&["fs", "rm", "p", "c", "/t/large"]);
    place.ok(&["fs", "mv", "p", "c", "/t/sub/deep", "/t/deeper"]);
    place.ok(&["cont", "snapshot", "create", "p", "c", "after"]);

    let expected = "R /t/sub/deep -> /t/deeper\nD /t/large\nA /t/new\nM /t/sub/f5\n";
    for to in [&["after"][..], &[]] {
        let text = place.ok(&[&["cont", "snapshot", "diff", "p", "c", "before"], to].concat());
        assert_eq!(text, format!("{expected}1 added, 1 removed, 1 modified, 1 renamed\n"));
    }
    let objects = place.json(&["cont", "snapshot", "diff", "p", "c", epoch, "after", "--objects"]);
    assert!(objects["changes"].as_array().unwrap().len() > 4, "{objects}");
    assert_eq!(
        place.json(&["cont", "snapshot", "diff", "p", "c", "after"])["changes"].as_array().unwrap().len(),
        0
    );

    for snapshot in ["before", epoch] {
        place.ok(&["fs", "verify", "p", "c", "src", "/t", "--snapshot", snapshot]);
    }
    place.ok(&["fs", "get", "p", "c", "/t", "old", "--snapshot", "before"]);
    assert!(place.path("old/large").exists());
    assert_eq!(place.ok(&["fs", "cat", "p", "c", "/t/sub/f5"]), "changed");
    assert!(place.ok(&["fs", "du", "p", "c", "/t", "--snapshot", "before"]).contains("files"));
    assert!(!place.ok(&["obj", "list", "p", "c", "--snapshot", "before"]).is_empty());

    place.ok(&["cont", "snapshot", "rollback", "p", "c", "before"]);
    place.ok(&["fs", "verify", "p", "c", "src", "/t"]);
    assert_eq!(place.json(&["cont", "snapshot", "list", "p", "c"]).as_array().unwrap().len(), 2);
    place.ok(&["cont", "snapshot", "destroy", "p", "c", "after"]);
    assert!(place.ok(&["cont", "snap", "list", "p", "c"]).contains("before"));
    assert!(place.fails(3, &["cont", "snapshot", "destroy", "p", "c", "after"]).contains("after"));
    place.ok(&["check", "p", "--scrub"]);
}

#[test]
fn a_snapshot_name_is_one_line_and_no_epoch_and_the_older_one_comes_first() {
    let place = Place::new("snap-names");
    place.pool_with_files();
    for wrong in ["two\nlines", "0x17", "17", ""] {
        let line = place.fails(2, &["cont", "snapshot", "create", "p", "c", wrong]);
        assert!(line.contains("choose another name"), "{line}");
    }
    let line = place.fails(2, &["cont", "snapshot", "create", "p", "c", &"n".repeat(128)]);
    assert!(line.contains("a name has at most 127 bytes; choose another name"), "{line}");
    for name in ["first", "second"] {
        place.ok(&["cont", "snapshot", "create", "p", "c", name]);
    }
    let line = place.fails(2, &["cont", "snapshot", "diff", "p", "c", "second", "first"]);
    assert!(line.contains("name the older one first"), "{line}");
}

#[test]
fn a_difference_shows_changed_extended_attributes() {
    let place = Place::new("snap-xattrs");
    place.pool_with_files();
    fs::create_dir_all(place.path("src/d")).unwrap();
    for name in ["f", "g", "kept", "d/moved"] {
        fs::write(place.path("src").join(name), name).unwrap();
        set_xattr(&place, name, "v");
    }
    fs::hard_link(place.path("src/g"), place.path("src/h")).unwrap();
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    place.ok(&["cont", "snapshot", "create", "p", "c", "before"]);
    for name in ["f", "g", "d"] {
        set_xattr(&place, name, "other");
    }
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    place.ok(&["fs", "mv", "p", "c", "/t/d/moved", "/t/d/to"]);
    let diff = place.ok(&["cont", "snapshot", "diff", "p", "c", "before"]);
    let expected = "M /t/d\nR /t/d/moved -> /t/d/to\nM /t/f\nM /t/g\nM /t/h\n";
    assert_eq!(diff, format!("{expected}0 added, 0 removed, 4 modified, 1 renamed\n"));
}

#[test]
fn links_below_a_renamed_directory_are_no_changes_and_a_renamed_link_is_one() {
    let place = Place::new("snap-links");
    place.pool_with_files();
    fs::create_dir_all(place.path("dd/sub")).unwrap();
    fs::write(place.path("dd/sub/a"), "1").unwrap();
    fs::hard_link(place.path("dd/sub/a"), place.path("dd/sub/h")).unwrap();
    for link in ["dd/sub/l", "dd/m"] {
        std::os::unix::fs::symlink("a", place.path(link)).unwrap();
    }
    place.ok(&["fs", "put", "p", "c", "dd", "/dd"]);
    place.ok(&["cont", "snapshot", "create", "p", "c", "q1"]);
    place.ok(&["fs", "mv", "p", "c", "/dd/sub", "/dd/sub2"]);
    place.ok(&["fs", "mv", "p", "c", "/dd/m", "/dd/n"]);
    let diff = place.ok(&["cont", "snapshot", "diff", "p", "c", "q1"]);
    let expected = "R /dd/m -> /dd/n\nR /dd/sub -> /dd/sub2\n";
    assert_eq!(diff, format!("{expected}0 added, 0 removed, 0 modified, 2 renamed\n"));
}

fn set_xattr(place: &Place, name: &str, value: &str) {
    let path = place.path("src").join(name);
    rustix::fs::setxattr(&path, "user.k", value.as_bytes(), rustix::fs::XattrFlags::empty()).unwrap();
}
