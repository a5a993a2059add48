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
        assert_eq!((ran.stderr().lines().count(), ran.stdout().len()), (1, 0), "{ran:?}");
        assert!(ran.stderr().starts_with("dolmen: "), "{ran:?}");
        let ran = place.run(&[args, &["--json"]].concat());
        let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
        assert_eq!(answer["detail"]["exit"], 2, "{ran:?}");
    }
    assert!(!place.path("p").exists());
}

#[test]
fn numbers_outside_their_range_are_refused_with_option_value_and_range() {
    let place = Place::new("ranges");
    for (args, words) in [
        (&["pool", "create", "p", "--targets", "0"][..], ["--targets", "0", "from 1 to 1024"]),
        (&["pool", "create", "p", "--capacity", "7"], ["--capacity", "7 bytes", "from 64K to 1024T"]),
        (&["pool", "create", "p", "--memory", "1"], ["--memory", "1 bytes", "from 4M to 16T"]),
        (&["pool", "create", "p", "--memory", "17T"], ["--memory", "17T", "from 4M to 16T"]),
        (&["pool", "query", "p", "--memory", "0"], ["--memory", "0 bytes", "from 4M to 16T"]),
        (&["pool", "create", "p", "--log-segment", "5000"], ["--log-segment", "5000", "16K"]),
        (
            &["pool", "create", "p", "--log-segment", "17000"],
            ["--log-segment", "17000", "whole number of 4K"],
        ),
        (&["pool", "create", "p", "--bulk-segment", "2G"], ["--bulk-segment", "2G", "from 256K to 1G"]),
        (&["pool", "create", "p", "--small-values", "1G"], ["--small-values", "1G", "256M"]),
        (&["cont", "create", "p", "c", "--chunk-size", "1"], ["--chunk-size", "1 bytes", "from 4K to 1G"]),
        (&["cont", "create", "p", "c", "--chunk-size", "1025M"], ["--chunk-size", "1025M", "from 4K to 1G"]),
        (&["fs", "put", "p", "c", "a", "/a", "-j", "1025"], ["--jobs", "1025", "from 1 to 1024"]),
        (&["bench", "dfs", "--seconds=-1"], ["--seconds", "-1", "from 0.01 to 86400"]),
        (&["inspect", "p", "--target", "70000"], ["--target", "70000", "from 0 to 65535"]),
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code(), 2, "{ran:?}");
        words.iter().for_each(|word| assert!(ran.stderr().contains(word), "{word}: {ran:?}"));
    }
    for (segment, capacity, least) in [("1M", "1M", "4M"), ("256K", "64K", "1M")] {
        let given =
            ["pool", "create", "p", "--targets", "1", "--log-segment", segment, "--capacity", capacity];
        let line = place.fails(2, &given);
        assert!(
            line.contains(&format!("--capacity is {capacity}, and has to be from {least} to 1024T")),
            "{line}"
        );
    }
    let ran = place.run(&["pool", "create", "p", "--targets", "-1"]);
    assert!(
        ran.code() == 2
            && ran.stderr().contains("give a whole number from 1 to 1024; see `dolmen pool create --help`"),
        "{ran:?}"
    );
    let ran = place.run(&["--json", "pool"]);
    let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!(answer["error"], "a command is missing; see `dolmen pool --help`");
    assert!(!place.path("p").exists());
    place.pool(&["p", "--targets", "1"]);
    let line = place.fails(2, &["cont", "create", "p", "c", "--properties", "ec_pda:4294967296"]);
    assert!(line.contains("ec_pda is from 0 to 4294967295, not 4294967296"), "{line}");
    let line = place.fails(2, &["cont", "create", "p", "c", "--properties", "ec_pda:many"]);
    assert!(line.contains("ec_pda is a number"), "{line}");
}

#[test]
fn a_scenario_that_there_is_none_of_is_refused_before_memory_is_touched() {
    let place = Place::new("no-scenario");
    for (suite, known) in [("engine", "machine, bare, points-single-64"), ("dfs", "dfs, native-tmpfs")] {
        // What is there first is a row of the memory that was touched, or the heading of the rows.
        let line = place.fails(2, &["bench", suite, "--only", "NONSENSE", "--out", "rows"]);
        assert!(line.contains("no scenario is called NONSENSE") && line.contains(known), "{line}");
    }
    assert!(!place.path("rows").exists());
}

#[test]
fn help_documents_exit_codes_and_every_command() {
    let place = Place::new("help");
    let help = place.ok(&["--help"]);
    assert!(help.contains("or NAME in the current one"), "{help}");
    let size = ["pool", "create", "p", "--targets", "1", "--log-segment", "256K", "--capacity", "0.5MiB"];
    assert!(place.fails(2, &size).contains("--capacity is 512K"), "a size with a decimal is read");
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
    assert!(place.fails(3, &["pool", "list", "/nowhere"]).contains("/nowhere"));
    assert!(place.fails(3, &["pool", "create", "nowhere/p"]).contains("there is no directory"));
    assert!(
        place.fails(8, &["pool", "create", "/proc/p"]).contains("lets nobody make the directory /proc/p")
    );
    assert!(place.fails(4, &["pool", "create", "/etc/passwd"]).contains("/etc/passwd is no directory"));
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

#[test]
fn what_is_missing_on_the_command_line_is_named_in_json() {
    let place = Place::new("missing-argument");
    let ran = place.run(&["fs", "put", "p", "c", "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("<LOCAL> <PATH>") && !error.contains('\n'), "{error}");
}

#[test]
fn what_is_wrong_with_a_command_line_is_told_in_one_line_with_what_is_meant_and_how_it_is_written() {
    let place = Place::new("usage-line");
    for (args, line) in [
        (
            &["unmount", "--lazi", "mnt"][..],
            "unexpected argument '--lazi' found; a similar argument exists: '--lazy'; usage: dolmen unmount --lazy <DIR>",
        ),
        (
            &["inspect"],
            "the following required arguments were not provided: <POOL>; usage: dolmen inspect <POOL>",
        ),
        (
            &["mount", "p", "c", "mnt", "--cache", "all"],
            "invalid value 'all' for '--cache <WHAT>' [possible values: off, metadata, data]; see `dolmen mount --help`",
        ),
        (
            &["mount", "p", "c", "mnt", "--cache-timeout", "-1"],
            "invalid value '-1' for '--cache-timeout <SECONDS>': give a whole number from 0 to 86400; see `dolmen mount --help`",
        ),
        (
            &["umount", "mnt", "--wait", "soon"],
            "invalid value 'soon' for '--wait <SECONDS>': give a whole number from 0 to 86400; see `dolmen unmount --help`",
        ),
        (
            &["serve", "--rank", "one"],
            "invalid value 'one' for '--rank <RANK>': give a whole number; see `dolmen serve --help`",
        ),
        (
            &["mount", "p", "c", "mnt", "--nosuch"],
            "unexpected argument '--nosuch' found; usage: dolmen mount <POOL> <CONT> <DIR>; see `dolmen mount --help`",
        ),
        (
            &["daos", "pool", "nosuch"],
            "unrecognized subcommand 'nosuch'; usage: dolmen daos pool [OPTIONS] <COMMAND>; see `dolmen daos pool --help`",
        ),
        (
            &["mount", "p", "c", "mnt", "--files", "--snapshot", "s"],
            "the argument '--files' cannot be used with '--snapshot <SNAP>'; usage: dolmen mount --files <POOL> <CONT> <DIR>",
        ),
    ] {
        let ran = place.run(args);
        assert_eq!((ran.code(), ran.stderr()), (2, format!("dolmen: {line}\n")));
        let ran = place.run(&[args, &["--json"]].concat());
        let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
        let error = answer["error"].as_str().unwrap();
        assert_eq!(error.split(';').next(), line.split(';').next());
        assert!(!error.contains('\n'), "{error}");
    }
    // Of a group of commands its help is told.
    let ran = place.run(&["pool"]);
    assert!(ran.code() == 2 && ran.stderr().contains("Usage: dolmen pool"), "{ran:?}");
    let help = place.ok(&["mount", "--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("not with --snapshot") && help.contains("so not with --log"), "{help}");
}

#[test]
fn help_and_version_are_documents_too() {
    let place = Place::new("help-json");
    for (args, word) in [
        (&["--version"][..], "dolmen "),
        (&["--help"], "Exit codes:"),
        (&["help"], "Exit codes:"),
        (&["help", "fs", "put"], "Usage: dolmen fs put"),
        (&["fs", "put", "--help"], "Usage: dolmen fs put"),
    ] {
        let text = place.json(args)["text"].as_str().unwrap().to_owned();
        assert!(text.contains(word), "{args:?}: {text}");
    }
    let ran = place.run(&["help", "nonsense", "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!((ran.code(), &answer["detail"]["exit"]), (2, &2.into()));
}

#[test]
fn paths_and_labels_that_no_pool_can_have_are_told_as_that() {
    let place = Place::new("no-names");
    for label in [".", ".."] {
        let line = place.fails(2, &["pool", "create", "p", "--targets", "1", "--label", label]);
        assert!(line.contains("choose another label"), "{line}");
    }
    let long = "x/".repeat(2100);
    for args in [&["pool", "query", &long][..], &["inspect", &long], &["pool", "list", &long]] {
        let line = place.fails(2, args);
        assert!(line.contains("the path longer than 4095") && !line.contains("at 0"), "{line}");
    }
    assert!(!place.path("p").exists());
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    let place = Place::new("full-output");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = place.command(&["--help"]).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(6));
}

#[test]
fn a_directory_or_a_pool_that_is_not_there_is_told_with_what_helps() {
    let place = Place::new("nowhere");
    place.pool(&["p", "--targets", "1"]);
    place.ok(&["cont", "create", "p", "c"]);
    std::fs::create_dir(place.path("mnt")).unwrap();
    let elsewhere =
        "there is no directory nosuch: name a pool in one that holds some, which `dolmen pool list` shows";
    for (args, says) in [
        (&["mount", "nosuch/sea", "c", "mnt", "--log", "log"][..], elsewhere),
        (&["pool", "query", "nosuch/sea"], elsewhere),
        (&["cont", "list", "nosuch/sea"], elsewhere),
        (
            &["pool", "list", "nosuch"],
            "; name a directory that holds pools: `dolmen pool create DIR/POOL` makes one",
        ),
        (
            &["mount", "p", "c", "mnt", "--log", "nosuch/log"],
            "; make nosuch first, or name another file with --log",
        ),
    ] {
        let line = place.fails(3, args);
        assert!(line.contains(says), "{line}");
    }
}
