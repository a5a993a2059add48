//! Wrong command lines, help, and names of things that are not there.

use crate::common::Place;
use serde_json::Value;

#[test]
fn wrong_arguments_are_refused_with_code_2() {
    let place = Place::new("usage");
    for args in [
        &["nonsense"][..],
        &["pool", "create"],
        &["pool", "create", "p", "--targets", "many"],
        &["pool", "create", "p", "--capacity", "1X"],
        &["fs", "put", "p"],
        &["fs", "verify", "p", "c"],
        &["obj", "dump", "p", "c", "7"],
        &["fs", "put", "p", "c", "a", "/a", "--jobs", "0"],
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code(), 2, "{ran:?}");
        assert!(!ran.stderr().is_empty(), "{ran:?}");
        let ran = place.run(&[args, &["--json"]].concat());
        let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
        assert_eq!(answer["detail"]["exit"], 2, "{ran:?}");
    }
    assert!(!place.path("p").exists());
}

#[test]
fn help_documents_exit_codes_and_every_command() {
    let place = Place::new("help");
    let help = place.ok(&["--help"]);
    for word in [
        "Exit codes:",
        "--json",
        "pool",
        "cont",
        "fs",
        "obj",
        "check",
        "inspect",
        "bench",
        "completions",
        "man",
    ] {
        assert!(help.contains(word), "{word}");
    }
    for group in ["pool", "cont", "fs", "obj"] {
        assert!(place.ok(&[group, "--help"]).contains("Usage:"), "{group}");
    }
    assert!(place.ok(&["--version"]).starts_with("dolmen "));
}

#[test]
fn what_is_missing_is_named() {
    let place = Place::new("missing");
    assert!(place.fails(3, &["pool", "query", "nowhere"]).contains("nowhere"));
    std::fs::create_dir(place.path("empty")).unwrap();
    assert!(place.fails(3, &["pool", "query", "empty"]).contains("pool create"));
    assert!(place.fails(3, &["inspect", "empty"]).contains("no targets"));
    assert!(place.fails(3, &["pool", "list", "nowhere"]).contains("nowhere"));
    place.pool_with_files();
    assert!(place.fails(3, &["cont", "query", "p", "other"]).contains("other"));
    assert!(place.fails(3, &["fs", "cat", "p", "c", "/nothing"]).contains("/nothing"));
    assert!(place.fails(3, &["fs", "put", "p", "c", "no-such-file", "/x"]).contains("no-such-file"));
    assert!(place.fails(3, &["fs", "get", "p", "c", "/nothing", "out"]).contains("/nothing"));
    assert!(place.fails(3, &["cont", "snapshot", "rollback", "p", "c", "monday"]).contains("monday"));
    assert!(place.fails(3, &["fs", "ls", "p", "c", "--snapshot", "monday"]).contains("monday"));
    assert!(place.fails(3, &["obj", "dump", "p", "c", "281479271677952.77"]).contains("obj list"));
    assert!(place.fails(2, &["cont", "get-prop", "p", "c", "colour"]).contains("colour"));
}
