//! `dolmen inspect` and `check` on whole and on damaged pools.

use crate::common::{Place, Ran, bytes, make_tree};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

fn flip(path: &PathBuf, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

fn first_file(place: &Place, kind: &str) -> PathBuf {
    let mut found: Vec<PathBuf> =
        fs::read_dir(place.path("p/t0")).unwrap().map(|e| e.unwrap().path()).collect();
    found.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with(kind));
    found.sort();
    // The newest: the manifest before is a spare one.
    found.pop().unwrap()
}

#[test]
fn inspect_shows_what_lies_on_disk() {
    let place = Place::new("inspect");
    place.pool_with_files();
    make_tree(&place.path("src"));
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let text = place.ok(&["inspect", "p", "--frames"]);
    for word in
        ["superblock slot", "manifest:", "log:", "runs:", "bulk:", "container 1", "nothing is damaged"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(text.contains("container 1: power, ") && text.contains(", 0 snapshots, "), "{text}");
    let json = place.json(&["inspect", "p", "--target", "1", "--frames"]);
    assert_eq!(json["targets"].as_array().unwrap().len(), 1);
    assert_eq!(json["findings"].as_array().unwrap().len(), 0);
    assert!(json["targets"][0]["runs"][0]["entries"].as_u64() > Some(0), "{json}");
    assert!(place.fails(3, &["inspect", "p", "--target", "9"]).contains("target 9"));
}

#[test]
fn a_target_that_is_gone_is_found_by_inspect_and_named_by_whoever_opens_the_pool() {
    let place = Place::new("gone");
    place.pool_with_files();
    fs::remove_dir_all(place.path("p/t1")).unwrap();
    let ran = place.run(&["inspect", "p"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("t1: the target is missing"), "{ran:?}");
    let ran = place.run(&["check", "p"]);
    assert_eq!(ran.code(), 7, "{ran:?}");
    assert!(ran.stderr().contains("t1 has no target"), "{ran:?}");
}

#[test]
fn damage_is_found_by_inspect_and_never_opens_as_data() {
    for (kind, at) in [("super", 20), ("manifest", 30), ("run", 100)] {
        let place = Place::new(&format!("damage-{kind}"));
        place.pool_with_files();
        make_tree(&place.path("src"));
        place.ok(&["fs", "put", "p", "c", "src", "/t"]);
        let file = first_file(&place, kind);
        flip(&file, at);
        if kind == "super" {
            // Either slot is enough to open the target.
            flip(&file, 4096 + at);
        }
        let ran = place.run(&["inspect", "p"]);
        assert_eq!(ran.code(), 1, "{kind}: {ran:?}");
        assert!(ran.stdout().contains("DAMAGED"), "{kind}: {ran:?}");
        let ran = place.run(&["check", "p", "--scrub"]);
        assert!([1, 7].contains(&ran.code()), "{kind}: {ran:?}");
        let ran = place.run(&["fs", "verify", "p", "c", "src", "/t"]);
        assert_eq!(ran.code(), 7, "{kind}: {ran:?}");
        place.ok(&["pool", "destroy", "p", "--force"]);
    }
}

/// Gives both slots of a target's superblock another format version, and the checksum that goes with it.
fn make_of_another_version(path: &PathBuf) {
    const BODY_BYTES: usize = 96;
    let mut bytes = fs::read(path).unwrap();
    for slot in bytes.chunks_mut(4096).filter(|slot| slot[0] != 0) {
        slot[8] += 1;
        let sum = dolmen_types::crc32c(&slot[..BODY_BYTES - 4]).to_le_bytes();
        slot[BODY_BYTES - 4..BODY_BYTES].copy_from_slice(&sum);
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_target_of_another_version_is_refused_as_such_and_not_as_damaged() {
    let place = Place::new("version");
    place.pool_with_files();
    make_of_another_version(&place.path("p/t1/super"));
    let before = fs::read(place.path("p/t1/super")).unwrap();
    let said = place.fails(10, &["check", "p"]);
    assert!(said.contains("another version of Dolmen") && !said.contains("damage"), "{said}");
    let ran = place.run(&["inspect", "p"]);
    assert!(ran.stdout().contains("superblock slot 0: of another version of Dolmen"), "{ran:?}");
    assert_eq!(fs::read(place.path("p/t1/super")).unwrap(), before);
}

#[test]
fn a_damaged_slot_of_a_superblock_is_damage_and_opening_the_pool_mends_it() {
    let place = Place::new("slot");
    place.pool_with_files();
    for at in [20, 4096 + 20] {
        flip(&place.path("p/t1/super"), at);
        let ran = place.run(&["inspect", "p"]);
        assert_eq!(ran.code(), 1, "{ran:?}");
        let finding = format!("t1/super: superblock slot {} is torn or damaged", at / 4096);
        assert!(ran.stdout().contains(&finding) && ran.stdout().ends_with("\n1 damaged\n"), "{ran:?}");
        let ran = place.run(&["check", "p"]);
        assert_eq!(ran.code(), 1, "{ran:?}");
        assert!(ran.stdout().contains("(superblock-repaired)"), "{ran:?}");
        place.ok(&["check", "p"]);
        place.ok(&["inspect", "p"]);
    }
    let mut slots = fs::read(place.path("p/t1/super")).unwrap();
    slots[..4096].fill(0);
    fs::write(place.path("p/t1/super"), slots).unwrap();
    assert!(place.ok(&["inspect", "p"]).contains("superblock slot 0: empty"), "never written is no damage");
}

#[test]
fn a_damaged_pool_record_is_reported() {
    let place = Place::new("record");
    place.pool_with_files();
    flip(&place.path("p/pool"), 20);
    assert!(place.fails(7, &["pool", "query", "p"]).contains("damaged"));
    let ran = place.run(&["inspect", "p"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("superblock slot"), "{ran:?}");
    assert!(place.ok(&["pool", "list"]).contains("record DAMAGED"));
    assert_eq!(place.json(&["pool", "list"])[0]["fault"], "record DAMAGED");
    assert!(place.fails(7, &["pool", "destroy", "p"]).contains("`dolmen pool destroy --force`"));
    place.ok(&["pool", "destroy", "p", "--force"]);
    assert!(!place.path("p").exists());
}

#[test]
fn a_scrub_names_the_files_whose_data_is_damaged_by_path() {
    let place = Place::new("named");
    place.pool_with_files();
    fs::create_dir_all(place.path("src/sub")).unwrap();
    let data = crate::common::bytes(300_000, 77);
    fs::write(place.path("src/sub/rotten"), &data).unwrap();
    fs::write(place.path("src/whole"), crate::common::bytes(300_000, 78)).unwrap();
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let mut flipped = 0;
    for target in ["p/t0", "p/t1"] {
        for entry in fs::read_dir(place.path(target)).unwrap() {
            let path = entry.unwrap().path();
            let stored = fs::read(&path).unwrap();
            let at = stored.windows(64).position(|window| *window == data[1000..1064]);
            at.into_iter().for_each(|at| flip(&path, at));
            flipped += usize::from(at.is_some());
        }
    }
    assert_eq!(flipped, 1);
    place.ok(&["check", "p"]);
    let ran = place.run(&["check", "p", "--scrub"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("container c: damaged data belongs to /t/sub/rotten (object "), "{ran:?}");
    assert!(!ran.stdout().contains("/t/whole"), "{ran:?}");
    let ran = place.run(&["check", "p", "--scrub", "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!(answer["response"]["file_systems"][0]["damaged"][0]["path"], "/t/sub/rotten");
    assert!(answer["error"].as_str().unwrap().contains("DAMAGED") && answer["status"].as_i64() < Some(0));

    // What mends it, to the end.
    let ran = place.run(&["fs", "verify", "p", "c", "src", "/t"]);
    assert!(ran.code() == 7 && ran.stdout().contains("with `dolmen cont aggregate`"), "{ran:?}");
    place.ok(&["fs", "put", "--no-resume", "p", "c", "src", "/t"]);
    place.ok(&["fs", "verify", "p", "c", "src", "/t"]);
    let ran = place.run(&["check", "p", "--scrub"]);
    assert!(ran.code() == 1 && ran.stdout().contains("`dolmen cont aggregate` frees it"), "{ran:?}");
    place.ok(&["cont", "aggregate", "p", "c"]);
    place.ok(&["check", "p", "--scrub"]);
}

/// Damages the stored record of the file or directory that was put with this time, in seconds, which nothing else has.
fn damage_record(place: &Place, seconds: u64) {
    let mut flipped = 0;
    for target in ["p/t0", "p/t1"] {
        for entry in fs::read_dir(place.path(target)).unwrap() {
            let path = entry.unwrap().path();
            if !path.file_name().unwrap().to_string_lossy().starts_with("log.") {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let found = bytes.windows(8).enumerate().filter(|(_, window)| *window == seconds.to_le_bytes());
            for (at, _) in found {
                flip(&path, at);
                flipped += 1;
            }
        }
    }
    assert!(flipped > 0, "the record is in the log");
}

fn set_time(path: &PathBuf, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_damaged_entry_hides_no_other_and_is_mended_as_the_hint_says() {
    let place = Place::new("entry");
    place.pool_with_files();
    make_tree(&place.path("src"));
    let (of_file, of_dir) = (1_234_567_891, 1_234_567_892);
    set_time(&place.path("src/sub/f5"), of_file);
    set_time(&place.path("src/sub"), of_dir);
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    damage_record(&place, of_file);

    let ran = place.run(&["check", "p"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    for word in ["target", "container c: /t/sub/f5 is damaged (entry f5 of directory", "DAMAGED"] {
        assert!(ran.stdout().contains(word), "{word}: {ran:?}");
    }
    let ran = place.run(&["fs", "ls", "p", "c", "/t/sub"]);
    assert_eq!(ran.code(), 7, "{ran:?}");
    for line in ["f4\n", "f6\n", "FAILED cannot list /t/sub/f5: "] {
        assert!(ran.stdout().contains(line), "{line}: {ran:?}");
    }
    let ran = place.run(&["fs", "get", "p", "c", "/t", "out"]);
    assert_eq!(ran.code(), 7, "{ran:?}");
    assert!(ran.stdout().contains("FAILED /t/sub/f5: "), "{ran:?}");
    assert_eq!(fs::read(place.path("out/sub/f6")).unwrap(), fs::read(place.path("src/sub/f6")).unwrap());
    let ran = place.run(&["fs", "verify", "p", "c", "src", "/t"]);
    assert_eq!(ran.code(), 7, "{ran:?}");
    assert!(ran.stdout().contains("0 differences, 1 NOT COMPARED"), "{ran:?}");
    let line = place.fails(7, &["fs", "cat", "p", "c", "/t/sub/f5"]);
    assert!(line.contains("put a good copy with `fs put --no-resume`"), "{line}");
    place.ok(&["fs", "put", "--no-resume", "p", "c", "src/sub/f5", "/t/sub/f5"]);
    // And the time of the directory.
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    place.ok(&["fs", "verify", "p", "c", "src", "/t"]);
    assert_eq!(place.json(&["check", "p", "--repair"])["file_systems"][0]["unnamed_objects"], 1);

    // Below a damaged directory nothing is freed before it is removed.
    damage_record(&place, of_dir);
    let ran = place.run(&["check", "p", "--repair"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    for word in ["container c: /t/sub is damaged", "container c: nothing was repaired"] {
        assert!(ran.stdout().contains(word), "{word}: {ran:?}");
    }
    let ran = place.run(&["fs", "put", "--no-resume", "p", "c", "src", "/t"]);
    assert_eq!(ran.code(), 7, "{ran:?}");
    let line = place.fails(7, &["fs", "rm", "p", "c", "/t/sub"]);
    assert!(line.contains("it may be a directory: add -r"), "{line}");
    place.ok(&["fs", "rm", "-r", "p", "c", "/t/sub"]);
    place.ok(&["fs", "put", "--no-resume", "p", "c", "src", "/t"]);
    place.ok(&["fs", "verify", "p", "c", "src", "/t"]);
    let repaired = place.json(&["check", "p", "--repair"]);
    assert_eq!(repaired["file_systems"][0]["repaired"], true);
    assert_eq!(place.json(&["check", "p"])["file_systems"][0]["unnamed_objects"], 0);
}

#[test]
fn counts_and_differences_name_what_is_damaged_and_go_on() {
    let place = Place::new("counted");
    place.pool_with_files();
    let src = place.path("src");
    make_tree(&src);
    let (of_both, of_new, of_dir) = (1_234_567_895, 1_234_567_896, 1_234_567_897);
    set_time(&src.join("sub/f5"), of_both);
    set_time(&src.join("empty"), of_dir);
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let whole = place.json(&["fs", "du", "p", "c", "/t"]);
    assert_eq!(whole["failed"], 0);
    place.ok(&["cont", "snapshot", "create", "p", "c", "old"]);
    let files = [("added", "x"), ("sub/f6", "other"), ("sub/f8", "more"), ("empty/below", "y")];
    for (name, data) in files {
        fs::write(src.join(name), data).unwrap();
    }
    set_time(&src.join("sub/f6"), of_new);
    set_time(&src.join("empty"), of_dir + 100);
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    place.ok(&["cont", "snapshot", "create", "p", "c", "new"]);
    // One in both states, one in the new one, a directory in the old one.
    [of_both, of_new, of_dir].into_iter().for_each(|time| damage_record(&place, time));

    let du = ["fs", "du", "p", "c", "/t", "--json"];
    let answer = |ran: &Ran| -> Value { serde_json::from_str(&ran.stdout()).unwrap() };
    let ran = place.run(&du[..5]);
    assert_eq!(ran.code(), 7, "{ran:?}");
    for word in
        ["FAILED cannot count: /t/sub/f5: ", "FAILED cannot count: /t/sub/f6: ", "NOT COUNTED     2\n"]
    {
        assert!(ran.stdout().contains(word), "{word}: {ran:?}");
    }
    let counted = answer(&place.run(&du));
    assert_eq!(counted["error"], "2 entries could not be counted");
    let (counted, failures) = (&counted["response"], &counted["response"]["failures"]);
    assert_eq!((&counted["failed"], &failures[0]["path"]), (&json!(2), &json!("/t/sub/f5")));
    assert_eq!(counted["dirs"], whole["dirs"]);
    assert_eq!(counted["files"].as_u64(), whole["files"].as_u64(), "two more, two damaged");

    let diff = ["cont", "snapshot", "diff", "p", "c", "old", "new", "--json"];
    let ran = place.run(&diff[..7]);
    assert_eq!(ran.code(), 7, "{ran:?}");
    let lines: Vec<String> = ran.stdout().lines().map(str::to_owned).collect();
    assert_eq!(lines[..2], ["A /t/added", "M /t/sub/f8"], "{ran:?}");
    for (line, path) in lines[2..].iter().zip(["/t/empty", "/t/sub/f5", "/t/sub/f6"]) {
        assert!(line.starts_with(&format!("FAILED cannot compare {path}: damaged data")), "{ran:?}");
    }
    assert_eq!(lines[5..], ["1 added, 0 removed, 1 modified, 0 renamed, 3 NOT COMPARED"], "{ran:?}");
    let compared = answer(&place.run(&diff));
    assert_eq!(compared["error"], "3 entries could not be compared");
    assert_eq!(compared["response"]["failed"], 3);
    assert_eq!(compared["response"]["failures"][2]["path"], "/t/sub/f6");
}

#[test]
fn names_without_utf8_are_told_to_programs_byte_by_byte_and_steer_no_terminal() {
    let place = Place::new("bytes");
    place.pool_with_files();
    // Two bytes that are no UTF-8, and one that a terminal obeys.
    let name = OsStr::from_bytes(b"\xff\x1b\xfe");
    let (shown, hex) = (r"\xff\x1b\xfe", "ff1bfe");
    let (src, time) = (place.path("src"), 1_234_567_894);
    fs::create_dir(&src).unwrap();
    fs::write(src.join(name), b"data").unwrap();
    set_time(&src.join(name), time);
    place.ok(&["fs", "put", "p", "c", "src", "/t", "--log", "journal"]);
    damage_record(&place, time);
    let run = |command: &[&str], args: &[&str]| -> (Ran, Value) {
        let text = place.run_on(command, name, args);
        let ran = place.run_on(command, name, &[args, &["--json"]].concat());
        assert!(!text.output.stdout.contains(&0x1b) && !text.output.stdout.contains(&0xff), "{text:?}");
        (text, serde_json::from_str(&ran.stdout()).unwrap())
    };
    fs::rename(place.path("p"), place.path("").join(name)).unwrap();

    let (text, checked) = run(&["check"], &[]);
    assert!(text.stdout().ends_with(&format!("{shown} is DAMAGED\n")), "{text:?}");
    assert_eq!(checked["error"], format!("{shown} is DAMAGED"));
    let checked = &checked["response"];
    let bad = &checked["file_systems"][0]["bad_entries"][0];
    for (object, key, known) in [(checked, "directory", ""), (bad, "name", ""), (bad, "path", "/t/")] {
        let known_hex: String = known.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(object[key], format!("{known}{shown}"));
        assert_eq!(object[format!("{key}_hex")], format!("{known_hex}{hex}"));
    }
    let (_, inspected) = run(&["inspect"], &[]);
    assert_eq!(inspected["response"]["directory_hex"], hex);
    let (text, verified) = run(&["fs", "verify"], &["c", "--log", "journal"]);
    assert!(text.stdout().starts_with(&format!("/t/{shown}: cannot read")), "{text:?}");
    let mismatch = &verified["response"]["mismatches"][0];
    assert_eq!(
        (&mismatch["path"], &mismatch["path_hex"]),
        (&json!(format!("/t/{shown}")), &json!("2f742fff1bfe"))
    );
    assert!(mismatch["difference"].as_str().unwrap().contains("damaged"), "{mismatch}");
    fs::remove_file(place.path("").join(name).join("t1/super")).unwrap();
    let (text, inspected) = run(&["inspect"], &[]);
    let finding = format!("{shown}/t1/super: no valid superblock");
    assert!(text.stdout().contains(&finding), "{text:?}");
    assert_eq!(inspected["response"]["findings"][0], finding);
}

#[test]
fn a_container_that_cannot_be_audited_hides_no_finding() {
    let place = Place::new("unaudited");
    place.pool_with_files();
    place.ok(&["cont", "create", "p", "other"]);
    make_tree(&place.path("src"));
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    place.ok(&["fs", "put", "p", "other", "src", "/t"]);
    let root = 1_234_567_893;
    fs::create_dir(place.path("empty")).unwrap();
    set_time(&place.path("empty"), root);
    // The root's record is what a put of its directory writes.
    place.ok(&["fs", "put", "p", "c", "empty", "/"]);
    damage_record(&place, root);
    let ran = place.run(&["check", "p"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    for word in ["replayed", "container c: NOT CHECKED: ", "container other: 5 directories", "DAMAGED"] {
        assert!(ran.stdout().contains(word), "{word}: {ran:?}");
    }
}

#[test]
fn a_place_that_the_device_does_not_give_is_named_and_the_rest_is_done() {
    let place = Place::new("unreadable");
    place.pool(&["p", "--targets", "1"]);
    place.ok(&["cont", "create", "p", "c"]);
    fs::create_dir(place.path("src")).unwrap();
    let data = |n| crate::common::bytes(600_000, n);
    (0..4).for_each(|n| fs::write(place.path(&format!("src/f{n}")), data(n)).unwrap());
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    // What lay behind its end now cannot be read.
    let lost = data(2);
    let holds = |path: &PathBuf| fs::read(path).unwrap().windows(64).any(|window| *window == lost[..64]);
    let mut segments = fs::read_dir(place.path("p/t0")).unwrap().map(|entry| entry.unwrap().path());
    let file = segments.find(holds).unwrap();
    let len = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(len / 4).unwrap();

    let ran = place.run(&["fs", "get", "p", "c", "/t", "back"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().starts_with("FAILED /t/f2: "), "{ran:?}");
    assert!(ran.stdout().contains("get 3 files") && ran.stdout().contains("1 FAILED"), "{ran:?}");
    [0, 1, 3]
        .into_iter()
        .for_each(|n| assert_eq!(fs::read(place.path(&format!("back/f{n}"))).unwrap(), data(n)));
    assert!(!place.path("back/f2").exists());
    let ran = place.run(&["fs", "verify", "p", "c", "src", "/t", "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!((ran.code(), &answer["response"]["failures"][0]["path"]), (1, &json!("/t/f2")), "{ran:?}");
    assert_eq!(answer["response"]["files"], 3);
    let line = place.fails(9, &["fs", "get", "p", "c", "/t/f2", "alone"]);
    assert!(line.contains("Input/output error"), "{line}");
    let ran = place.run(&["check", "p", "--scrub"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("(unreadable)"), "{ran:?}");
    assert!(ran.stdout().contains("/t/f2"), "{ran:?}");
    assert!(!ran.stdout().contains("/t/f1"), "{ran:?}");
}

#[test]
fn who_cannot_open_a_pool_is_told_what_names_the_file_that_is_missing() {
    for kind in ["bulk", "run"] {
        let place = Place::new(&format!("missing-{kind}"));
        place.pool(&["p", "--targets", "1"]);
        place.ok(&["cont", "create", "p", "c"]);
        fs::write(place.path("f"), crate::common::bytes(300_000, 5)).unwrap();
        place.ok(&["fs", "put", "p", "c", "f", "/f"]);
        let mut files: Vec<PathBuf> =
            fs::read_dir(place.path("p/t0")).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with(kind));
        files.iter().for_each(|path| fs::remove_file(path).unwrap());
        for command in [&["cont", "list", "p"][..], &["check", "p"]] {
            let ran = place.run(command);
            assert!(
                ran.stderr().contains("`dolmen inspect`") && !ran.stderr().contains("dolmen check`"),
                "{ran:?}"
            );
        }
        let ran = place.run(&["inspect", "p"]);
        assert!(ran.stdout().contains("is missing"), "{ran:?}");
    }
}

#[test]
fn a_limit_of_open_files_is_told_as_that() {
    let place = Place::new("few-files");
    place.pool(&["p", "--targets", "4"]);
    let inner = place.command(&["pool", "query", "p"]);
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(place.path("")).args(["-c", "ulimit -n 12; exec \"$@\"", "sh"]);
    shell.arg(inner.get_program()).args(inner.get_args());
    let ran = Ran::of("few files", shell.output().unwrap());
    assert_eq!(ran.code(), 10, "{ran:?}");
    let line = ran.stderr();
    assert!(
        line.contains("too many open files: this process may have 12; raise that with `ulimit -n`"),
        "{line}"
    );
    assert!(!line.contains("device error"), "{line}");
}

#[test]
fn a_pool_that_cannot_be_made_leaves_no_directory() {
    let place = Place::new("not-made");
    let inner = place.command(&["pool", "create", "p", "--targets", "1"]);
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(place.path("")).args(["-c", "ulimit -n 4; exec \"$@\"", "sh"]);
    shell.arg(inner.get_program()).args(inner.get_args());
    let ran = Ran::of("few files", shell.output().unwrap());
    assert!(ran.stderr().contains("too many open files"), "{ran:?}");
    assert!(!place.path("p").exists());
}

#[test]
fn targets_of_another_time_than_the_record_are_found_by_inspect() {
    let place = Place::new("lives");
    place.pool(&["p", "--targets", "2", "--bulk-dir", "bd"]);
    let old = fs::read(place.path("p/pool")).unwrap();
    let old_bulk = fs::read(place.path("bd/t1/super")).unwrap();
    for cont in ["a", "b"] {
        place.ok(&["cont", "create", "p", cont]);
    }
    place.ok(&["inspect", "p"]);
    let new = fs::read(place.path("p/pool")).unwrap();
    let finds = |wrong: &[&str]| {
        place.fails(7, &["cont", "list", "p"]);
        let ran = place.run(&["inspect", "p", "--json"]);
        assert_eq!(ran.code(), 1, "{ran:?}");
        let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
        let findings = answer["response"]["findings"].as_array().unwrap();
        assert_eq!(findings.len(), wrong.len(), "{answer}");
        for (finding, wrong) in findings.iter().zip(wrong) {
            let finding = finding.as_str().unwrap();
            assert!(finding.contains(wrong) && finding.contains("openings and closings"), "{finding}");
        }
    };
    fs::write(place.path("p/pool"), old).unwrap();
    finds(&["p/t0: ", "bd/t0: ", "p/t1: ", "bd/t1: "]);
    fs::write(place.path("p/pool"), new).unwrap();
    let new_bulk = fs::read(place.path("bd/t1/super")).unwrap();
    fs::write(place.path("bd/t1/super"), old_bulk).unwrap();
    finds(&["bd/t1: "]);
    fs::write(place.path("bd/t1/super"), new_bulk).unwrap();
    place.ok(&["inspect", "p"]);
    place.ok(&["cont", "list", "p"]);
}

#[test]
fn a_bulk_segment_that_was_cut_short_is_found_by_a_check() {
    let place = Place::new("short");
    place.pool_with_files();
    std::fs::write(place.path("big"), bytes(300_000, 1)).unwrap();
    place.ok(&["fs", "put", "p", "c", "big", "/big"]);
    place.ok(&["check", "p"]);
    let segment = |target: &str| place.path("p").join(target).join("bulk.00000000");
    let short = ["t0", "t1"].map(segment).into_iter().find(|path| path.exists()).unwrap();
    std::fs::File::options().write(true).open(short).unwrap().set_len(4096).unwrap();
    let ran = place.run(&["check", "p"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("shorter than it was made"), "{ran:?}");
    assert_ne!(place.run(&["fs", "cat", "p", "c", "/big"]).code(), 0);
}
