//! `dolmen fs`.

use crate::common::{Place, bytes, make_tree};
use dolmen_env::{Address, Clock, Listener, RealClock};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

#[test]
fn a_tree_goes_in_and_comes_out_equal_to_the_last_byte() {
    let place = Place::new("trees");
    place.pool_with_files();
    make_tree(&place.path("src"));
    let put = place.json(&["fs", "put", "p", "c", "src", "/some/where/tree"]);
    assert_eq!((&put["files"], &put["symlinks"], &put["links"]), (&33.into(), &1.into(), &1.into()));
    let equal = place.json(&["fs", "verify", "p", "c", "src", "/some/where/tree"]);
    assert_eq!((&equal["differences"], &equal["files"]), (&0.into(), &34.into()));
    place.ok(&["fs", "get", "p", "c", "/some/where/tree", "out"]);
    place.ok(&["fs", "verify", "p", "c", "out", "/some/where/tree"]);
    let sparse = fs::metadata(place.path("out/sparse")).unwrap();
    assert_eq!(sparse.len(), 5 << 20);
    assert!(sparse.blocks() * 512 < 1 << 20, "holes stay holes");
    let again = place.json(&["fs", "put", "p", "c", "src", "/some/where/tree"]);
    assert_eq!((&again["files"], &again["resumed"]), (&0.into(), &33.into()));
    let anew = place.json(&["fs", "put", "p", "c", "src", "/some/where/tree", "--no-resume", "-j", "1"]);
    assert_eq!(anew["files"], 33);
}

#[test]
fn standard_input_becomes_a_file_once_it_has_ended() {
    let place = Place::new("stdin");
    place.pool_with_files();
    let put = |name: &str, path: &str, args: &[&str], parts: &[&[u8]]| {
        let mut command = place.command(&[&["fs", "put", "p", "c", name, path], args].concat());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        for part in parts {
            // Whoever refuses it does not read it.
            let _taken = pipe.write_all(part);
        }
        drop(pipe);
        child.wait_with_output().unwrap()
    };
    let whole = bytes((5 << 20) + 77, 4);
    let parts: Vec<&[u8]> = whole.chunks(70_001).collect();
    for (at, name) in ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].into_iter().enumerate() {
        let done = put(name, &format!("/new/dir/{at}"), &["--json", "--log", "log"], &parts);
        assert!(done.status.success(), "{done:?}");
        let told: Value = serde_json::from_slice(&done.stdout).unwrap();
        let told = &told["response"];
        assert_eq!((&told["files"], &told["bytes"]), (&1.into(), &whole.len().into()), "{told}");
        place.ok(&["fs", "get", "p", "c", &format!("/new/dir/{at}"), "out"]);
        assert!(fs::read(place.path("out")).unwrap() == whole, "{name}");
    }
    place.ok(&["fs", "verify", "p", "c", "--log", "log"]);
    // It takes the place of a file that was there, with its permissions, and of nothing else.
    fs::write(place.path("private"), b"private").unwrap();
    fs::set_permissions(place.path("private"), fs::Permissions::from_mode(0o600)).unwrap();
    place.ok(&["fs", "put", "p", "c", "private", "/new/dir/0"]);
    for (parts, len) in [(&[&b"short"[..]][..], 5), (&[], 0)] {
        assert!(put("-", "/new/dir/0", &[], parts).status.success());
        let rows = place.json(&["fs", "ls", "p", "c", "/new/dir", "-l"]);
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "0").unwrap();
        assert_eq!((&row["size_bytes"], &row["mode"]), (&len.into(), &"0600".into()), "{row}");
    }
    for path in ["/new/dir", "/new/dir/", "/none/"] {
        let refused = put("-", path, &[], &[b"x"]);
        let line = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{line}");
        assert!(line.contains("standard input has no name of its own") && line.contains("NAME"), "{line}");
    }
    // A file of that name is meant by its path.
    fs::write(place.path("-"), b"dash").unwrap();
    place.ok(&["fs", "put", "p", "c", "./-", "/dash"]);
    assert_eq!(place.ok(&["fs", "cat", "p", "c", "/dash"]), "dash");
    assert_eq!(
        place.json(&["fs", "ls", "p", "c", "/new/dir"]).as_array().unwrap().len(),
        4,
        "nothing unfinished is left"
    );
}

#[test]
fn standard_input_that_is_called_off_leaves_what_was_there() {
    let place = Place::new("stdin-called-off");
    place.pool_with_files();
    fs::write(place.path("old"), b"old").unwrap();
    place.ok(&["fs", "put", "p", "c", "old", "/f"]);
    let mut command = place.command(&["fs", "put", "p", "c", "-", "/f"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // More than a pipe holds and what is read ahead: some of it is stored by now, and the program waits for more.
    let piece = bytes(1 << 20, 9);
    (0..8).for_each(|_| pipe.write_all(&piece).unwrap());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = child.wait().unwrap();
    assert_eq!(ended.signal(), Some(15), "it ends while it waits: {ended}");
    drop(pipe);
    assert_eq!(place.ok(&["fs", "cat", "p", "c", "/f"]), "old");
    assert_eq!(
        place.json(&["fs", "ls", "p", "c"]).as_array().unwrap().len(),
        1,
        "nothing unfinished is left"
    );
}

#[test]
fn verify_names_what_differs() {
    let place = Place::new("differs");
    place.pool_with_files();
    make_tree(&place.path("src"));
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let mut changed = bytes(2100, 3);
    changed[2000] ^= 1;
    drop(fs::remove_file(place.path("src/sub/f3")));
    fs::write(place.path("src/sub/f3"), changed).unwrap();
    fs::remove_file(place.path("src/sub/f4")).unwrap();
    fs::write(place.path("src/extra"), b"x").unwrap();
    let ran = place.run(&["fs", "verify", "p", "c", "src", "/t"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    for word in ["/t/sub/f3: content differs from byte 2000", "/t/sub/f4: only in", "/t/extra: missing"] {
        assert!(ran.stdout().contains(word), "{ran:?}");
    }
}

#[test]
fn files_are_listed_printed_renamed_removed_and_counted() {
    let place = Place::new("verbs");
    place.pool_with_files();
    make_tree(&place.path("src"));
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    assert_eq!(place.ok(&["fs", "ls", "p", "c"]), "t\n");
    let long = place.ok(&["fs", "ls", "p", "c", "/t", "-l"]);
    assert!(long.contains("drwx--x--x"), "{long}");
    assert!(long.contains("link -> sub/f1"), "{long}");
    assert_eq!(place.json(&["fs", "ls", "p", "c", "/t", "-R"]).as_array().unwrap().len(), 38);

    let ran = place.run(&["fs", "cat", "p", "c", "/t/large", "/t/sub/f1"]);
    assert_eq!(ran.output.stdout, [bytes(3_000_001, 99), bytes(700, 1)].concat());
    let odd = place.json(&["fs", "cat", "p", "c", "/t/sub/deep/name with space\nand line"]);
    assert_eq!(odd[0]["text"], "odd");

    let used = place.json(&["fs", "du", "p", "c", "/t", "--exact"]);
    assert_eq!((&used["files"], &used["dirs"]), (&33.into(), &4.into()));
    assert!(used["data_bytes"].as_u64() < used["size_bytes"].as_u64());
    assert!(place.ok(&["fs", "du", "p", "c"]).contains("files"));
    assert!(place.json(&["fs", "df", "p", "c"])["used_bytes"].as_u64() > Some(3_000_000));
    assert!(place.ok(&["fs", "df", "p", "c"]).contains("free"));

    place.ok(&["fs", "mv", "p", "c", "/t/large", "/t/empty"]);
    assert_eq!(place.ok(&["fs", "ls", "p", "c", "/t/empty"]), "large\n");
    assert!(place.fails(4, &["fs", "mv", "p", "c", "/t/sub/f1", "/t/sub/f2", "-n"]).contains("/t/sub/f1"));
    place.ok(&["fs", "mv", "p", "c", "/t/sub", "/moved"]);

    place.ok(&["fs", "rm", "p", "c", "/moved/f1", "/moved/f2"]);
    assert!(place.fails(2, &["fs", "rm", "p", "c", "/moved"]).contains("-r"));
    place.ok(&["fs", "rm", "p", "c", "/moved", "/t", "-r"]);
    assert_eq!(place.ok(&["fs", "ls", "p", "c"]), "");
    place.ok(&["check", "p", "--scrub"]);
}

#[test]
fn a_full_pool_says_so_and_can_be_emptied() {
    let place = Place::new("full");
    place.pool(&["p", "--targets", "1", "--capacity", "24M"]);
    place.ok(&["cont", "create", "p", "c"]);
    fs::create_dir(place.path("src")).unwrap();
    for n in 0..40 {
        fs::write(place.path(&format!("src/f{n}")), bytes(1 << 20, n)).unwrap();
    }
    let line = place.fails(6, &["fs", "put", "p", "c", "src", "/t", "--log", "journal"]);
    assert!(line.contains("full") && line.contains("`dolmen cont aggregate POOL CONT`"), "{line}");
    let kept = place.json(&["fs", "verify", "p", "c", "--log", "journal"]);
    assert!(kept["files"].as_u64() > Some(4), "{kept}");
    assert_eq!(place.json(&["check", "p", "--scrub"])["clean"], true);
    place.ok(&["fs", "rm", "p", "c", "-r", "/t"]);
    assert_eq!(place.ok(&["fs", "ls", "p", "c"]), "");
    place.ok(&["cont", "destroy", "p", "c"]);
    place.ok(&["cont", "create", "p", "anew"]);
}

#[test]
fn a_small_pool_chooses_segments_that_fit_it() {
    let place = Place::new("tiny");
    place.ok(&["pool", "create", "p", "--volatile", "--targets", "1", "--capacity", "32M"]);
    place.ok(&["cont", "create", "p", "c"]);
    fs::write(place.path("large"), bytes(8 << 20, 1)).unwrap();
    for name in ["/first", "/second"] {
        place.ok(&["fs", "put", "p", "c", "large", name]);
        assert_eq!(place.json(&["fs", "verify", "p", "c", "large", name])["files"], 1);
    }
}

#[test]
fn a_copy_that_fails_names_the_file_and_what_stands_in_the_way() {
    let place = Place::new("stands");
    place.pool_with_files();
    make_tree(&place.path("src"));
    place.ok(&["fs", "put", "p", "c", "src/large", "/file"]);
    let why = place.fails(4, &["fs", "put", "p", "c", "src/sub", "/file"]);
    let in_the_way = "/file: a file has this name, and a directory does not replace it";
    assert!(why.contains(&format!("cannot put src/sub at /file: {in_the_way}")), "{why}");
    let why = place.fails(2, &["fs", "put", "p", "c", "src/large", "/file/below"]);
    assert!(why.contains("/file: not a directory") || why.contains("/file/below: not a directory"), "{why}");
    let why = place.fails(3, &["fs", "get", "p", "c", "/missing", "out"]);
    assert!(why.contains("cannot get /missing to out: /missing: no such file or directory"), "{why}");
}

#[test]
fn what_was_removed_makes_room_in_a_full_pool() {
    let place = Place::new("reuse");
    place.pool(&["p", "--targets", "1", "--capacity", "24M"]);
    place.ok(&["cont", "create", "p", "c"]);
    fs::write(place.path("large"), bytes(8 << 20, 1)).unwrap();
    for _ in 0..5 {
        place.ok(&["fs", "put", "p", "c", "large", "/again"]);
        assert_eq!(place.json(&["fs", "verify", "p", "c", "large", "/again"])["files"], 1);
        place.ok(&["fs", "rm", "p", "c", "/again"]);
    }
    place.ok(&["fs", "put", "p", "c", "large", "/kept"]);
    place.ok(&["cont", "snapshot", "create", "p", "c", "before"]);
    place.ok(&["fs", "rm", "p", "c", "/kept"]);
    place.ok(&["fs", "put", "p", "c", "large", "/again"]);
    place.fails(6, &["fs", "put", "p", "c", "large", "/third"]);
    place.ok(&["fs", "cat", "p", "c", "/kept", "--snapshot", "before"]);
    assert_eq!(place.json(&["check", "p", "--scrub"])["clean"], true);
}

#[test]
fn an_entry_that_cannot_be_copied_is_named_and_all_others_are_done() {
    let place = Place::new("spared");
    place.pool_with_files();
    make_tree(&place.path("src"));
    let _socket = Listener::bind(&Address::Unix(place.path("src/socket"))).unwrap();
    // A directory has the name of a file, on either side.
    place.ok(&["fs", "put", "p", "c", "src/empty", "/t/sub/f1"]);
    let ran = place.run(&["fs", "put", "p", "c", "src", "/t"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    let why = "/t/sub/f1: a directory has this name, and a file does not replace it";
    for word in [why, "skipped src/socket: a socket", "1 FAILED"] {
        assert!(ran.stdout().contains(word), "{word}: {ran:?}");
    }
    let ran = place.run(&["fs", "put", "p", "c", "src", "/t", "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
    let put = &answer["response"];
    assert_eq!((&put["failed"], &put["skipped"], &put["resumed"]), (&1.into(), &1.into(), &32.into()));
    assert!(put["failures"][0]["why"].as_str().unwrap().contains("/t/sub/f1"), "{put}");
    assert_eq!(put["failures"][0]["path"], "/t/sub/f1");
    assert_eq!(
        (&answer["error"], &answer["detail"]["exit"]),
        (&"1 entry could not be copied".into(), &1.into())
    );
    assert!(answer["status"].as_i64() < Some(0), "{answer}");
    assert_eq!(put["skipped_entries"][0]["why"], "a socket");

    fs::create_dir_all(place.path("out/sub/f2")).unwrap();
    let ran = place.run(&["fs", "get", "p", "c", "/t", "out"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("out/sub/f2: a directory has this name"), "{ran:?}");
    assert_eq!(fs::read(place.path("out/sub/f3")).unwrap(), bytes(2100, 3), "the others are there");
    let ran = place.run(&["fs", "verify", "p", "c", "src", "/t"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("1 difference: 33 files"), "{ran:?}");
}

#[test]
fn names_that_a_terminal_would_obey_are_written_out_and_any_bytes_are_a_name() {
    let place = Place::new("odd-names");
    place.pool_with_files();
    fs::create_dir(place.path("src")).unwrap();
    let wild = OsStr::from_bytes(b"\x1b[31m\xffred");
    fs::write(place.path("src").join(wild), b"odd").unwrap();
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    assert_eq!(place.ok(&["fs", "ls", "p", "c", "/t"]), "\\x1b[31m\\xffred\n");
    assert_eq!(place.json(&["fs", "ls", "p", "c", "/t"])[0]["name_hex"], "1b5b33316dff726564");
    let path = [b"/t/", wild.as_bytes()].concat();
    let path = OsStr::from_bytes(&path);
    let ran = |args: &[&str], last: &[&OsStr]| place.command(args).args(last).output().unwrap();
    assert_eq!(ran(&["fs", "cat", "p", "c"], &[path]).stdout, b"odd");
    place.ok(&["cont", "snapshot", "create", "p", "c", "s"]);
    let json = |args: &[&str], last: &[&OsStr]| -> Value {
        let last = [last, &[OsStr::new("--json")]].concat();
        serde_json::from_slice::<Value>(&ran(args, &last).stdout).unwrap()["response"].take()
    };
    let hex = "2f742f1b5b33316dff726564";
    assert_eq!(json(&["fs", "cat", "p", "c"], &[path])[0]["path_hex"], hex);
    assert_eq!(json(&["fs", "du", "p", "c"], &[path])["path_hex"], hex);
    let moved = json(&["fs", "mv", "p", "c"], &[path, OsStr::new("/t/plain")]);
    assert_eq!((&moved["old_hex"], &moved["new"]), (&hex.into(), &"/t/plain".into()));
    assert_eq!(json(&["fs", "mv", "p", "c", "/t/plain"], &[path])["new_hex"], hex);
    std::os::unix::fs::symlink(wild, place.path("link")).unwrap();
    place.ok(&["fs", "put", "p", "c", "link", "/link"]);
    let listed = json(&["fs", "ls", "-l", "p", "c", "/"], &[]);
    let link = listed.as_array().unwrap().iter().find(|entry| entry["name"] == "link").unwrap();
    assert_eq!(link["target_hex"], hex[6..], "{link}");
    place.ok(&["fs", "rm", "p", "c", "/link"]);
    assert!(ran(&["fs", "mv", "p", "c"], &[path, OsStr::new("/t/plain")]).status.success());
    let diff = place.ok(&["cont", "snapshot", "diff", "p", "c", "s"]);
    assert!(diff.contains("R /t/\\x1b[31m\\xffred -> /t/plain"), "{diff}");
    let diff = place.json(&["cont", "snapshot", "diff", "p", "c", "s"]);
    assert_eq!(diff["changes"][0]["old_path_hex"], "2f742f1b5b33316dff726564", "{diff}");
    assert_eq!(diff["changes"][0]["path"], "/t/plain");
    let gone = ran(&["fs", "rm", "p", "c"], &[path]);
    let line = String::from_utf8(gone.stderr).unwrap();
    assert!(line.contains("/t/\\x1b[31m\\xffred") && !line.contains('\x1b'), "{line:?}");
    let log = place.run(&["fs", "put", "p", "c", "src", "/new", "--log", "journal"]);
    assert_eq!(log.code(), 0, "{log:?}");
    place.ok(&["fs", "verify", "p", "c", "--log", "journal"]);
}

#[test]
fn a_copy_leaves_the_pool_itself_alone() {
    let place = Place::new("itself");
    place.pool_with_files();
    make_tree(&place.path("src"));
    let put = place.json(&["fs", "put", "p", "c", ".", "/all"]);
    assert_eq!(put["skipped"], 1, "{put}");
    assert_eq!(put["skipped_entries"][0]["why"], "the directory of the pool itself");
    assert_eq!(place.ok(&["fs", "ls", "p", "c", "/all"]), "src\n");
    place.ok(&["fs", "verify", "p", "c", ".", "/all"]);
    for args in [
        &["fs", "put", "p", "c", "p", "/x"][..],
        &["fs", "put", "p", "c", "p/t0", "/x"],
        &["fs", "get", "p", "c", "/all", "p"],
        &["fs", "get", "p", "c", "/all", "p/t0/new"],
    ] {
        let line = place.fails(8, args);
        assert!(line.contains("belongs to the pool itself"), "{line}");
    }
    // A tree that has a directory of the pool's name would be written into it.
    place.ok(&["fs", "put", "p", "c", "src/sub", "/all/p"]);
    let ran = place.run(&["fs", "get", "p", "c", "/all", "."]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("belongs to a pool"), "{ran:?}");
    place.ok(&["check", "p", "--scrub"]);
}

#[test]
fn a_copy_does_not_write_into_another_pool() {
    let place = Place::new("other-pools");
    place.pool_with_files();
    fs::create_dir_all(place.path("out/deep")).unwrap();
    place.pool(&["out/deep/q", "--targets", "1", "--bulk-dir", "bulk"]);
    fs::create_dir_all(place.path("src/deep/q")).unwrap();
    for name in ["pool", "deep/q/pool", "deep/fine"] {
        fs::write(place.path("src").join(name), b"no record").unwrap();
    }
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    for args in [
        &["fs", "get", "p", "c", "/t", "out/deep/q"][..],
        &["fs", "get", "p", "c", "/t", "out/deep/q/t0"],
        &["fs", "get", "p", "c", "/t/pool", "out/deep/q"],
        &["fs", "get", "p", "c", "/t/pool", "bulk/t0/new"],
    ] {
        let line = place.fails(8, args);
        assert!(line.contains("it leads into the pool in"), "{line}");
    }
    let ran = place.run(&["fs", "get", "p", "c", "/t", "out"]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.stdout().contains("out/deep/q: belongs to a pool"), "{ran:?}");
    assert!(place.path("out/deep/fine").exists());
    place.ok(&["check", "out/deep/q"]);
}

#[test]
fn contents_are_copied_and_compared_to_their_end_whatever_size_the_system_tells() {
    let place = Place::new("pseudo");
    place.pool_with_files();
    // One says that it is empty, the other that it has a page.
    for source in ["/proc/version", "/sys/kernel/profiling"] {
        let Ok(there) = fs::read(source) else { continue };
        assert_ne!(fs::metadata(source).unwrap().len(), there.len() as u64, "{source}");
        assert!(!there.is_empty());
        let put = place.json(&["fs", "put", "p", "c", source, "/f", "--log", "journal"]);
        assert_eq!(put["bytes"], there.len(), "{put}");
        assert_eq!(place.ok(&["fs", "cat", "p", "c", "/f"]).as_bytes(), there);
        place.ok(&["fs", "verify", "p", "c", "--log", "journal"]);
        let differs = |name: &str| {
            let ran = place.run(&["fs", "verify", "p", "c", source, name]);
            ["other size", "content differs"].iter().any(|word| ran.stdout().contains(word))
        };
        assert!(!differs("/f"), "{source}");
        fs::write(place.path("none"), b"").unwrap();
        fs::write(place.path("more"), [&there[..], b"x"].concat()).unwrap();
        fs::write(place.path("less"), &there[1..]).unwrap();
        fs::write(place.path("other"), vec![b'#'; there.len()]).unwrap();
        for name in ["none", "more", "less", "other"] {
            place.ok(&["fs", "put", "p", "c", name, &format!("/{name}")]);
            assert!(differs(&format!("/{name}")), "{source} {name}");
        }
    }
}

#[test]
fn cat_ends_when_its_reader_has_gone() {
    let place = Place::new("gone");
    place.pool_with_files();
    let sparse = fs::File::create(place.path("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    place.ok(&["fs", "put", "p", "c", "sparse", "/sparse"]);
    let mut cat = place.command(&["fs", "cat", "p", "c", "/sparse", "/sparse"]);
    let mut cat = cat.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut head = [1; 10];
    std::io::Read::read_exact(cat.stdout.as_mut().unwrap(), &mut head).unwrap();
    assert_eq!(head, [0; 10]);
    drop(cat.stdout.take());
    // The whole of it would take minutes.
    let begun_ns = RealClock.monotonic_ns();
    assert_eq!(cat.wait().unwrap().code(), Some(0));
    assert!(RealClock.monotonic_ns() - begun_ns < 30_000_000_000);
}

#[test]
fn a_directory_is_not_moved_into_itself() {
    let place = Place::new("cycle");
    place.pool_with_files();
    make_tree(&place.path("src"));
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    for new in ["/t", "/t/sub/deep"] {
        let line = place.fails(2, &["fs", "mv", "p", "c", "/t", new]);
        assert!(line.contains("a directory cannot be moved into itself"), "{line}");
    }
}

#[test]
fn rm_removes_links_and_never_what_they_lead_to() {
    let place = Place::new("rm-links");
    place.pool_with_files();
    make_tree(&place.path("src"));
    std::os::unix::fs::symlink("sub", place.path("src/lk")).unwrap();
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    for (path, code) in
        [("/t/lk/", 2), ("/t/lk/.", 8), ("/t/sub/..", 8), ("/", 8), ("//", 8), (".", 8), ("", 2)]
    {
        place.fails(code, &["fs", "rm", "-r", "p", "c", path]);
    }
    place.ok(&["fs", "verify", "p", "c", "src", "/t"]);
    place.ok(&["fs", "rm", "-r", "p", "c", "/t/lk"]);
    assert_eq!(place.ok(&["fs", "cat", "p", "c", "/t/sub/deep/name with space\nand line"]), "odd");
    place.ok(&["fs", "rm", "-r", "p", "c", "/t/sub/"]);
    place.fails(3, &["fs", "ls", "p", "c", "/t/sub"]);
}

#[test]
fn rm_removes_all_that_it_can_and_names_the_rest() {
    let place = Place::new("rm-several");
    place.pool_with_files();
    make_tree(&place.path("src"));
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let ran = place.run(&["fs", "rm", "p", "c", "/t/link", "/t/none", "/t/large", "/t/sub"]);
    assert_eq!(ran.code(), 3, "{ran:?}");
    for line in ["/t/none: no such file", "/t/sub: it is a directory", "2 entries removed"] {
        assert!(ran.stdout().contains(line), "{line}: {ran:?}");
    }
    assert_eq!(place.ok(&["fs", "ls", "p", "c", "/t"]), "empty\nsame-as-f7\nsparse\nsub\n");
    let ran = place.run(&["fs", "rm", "p", "c", "/t/none", "/t/sparse", "/t/sub", "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!((ran.code(), &answer["detail"]["exit"]), (3, &3.into()));
    assert_eq!((&answer["status"], &answer["error"]), (&(-1005).into(), &"2 entries not removed".into()));
    let (removed, failures) = (&answer["response"]["removed"], &answer["response"]["failures"]);
    assert_eq!(
        (removed, &failures[0]["path"], &failures[1]["path"]),
        (&1.into(), &"/t/none".into(), &"/t/sub".into())
    );
}

#[test]
fn a_file_whose_target_is_full_goes_to_another_and_the_error_says_what_others_have() {
    let place = Place::new("full-target");
    place.pool(&["p", "--targets", "2", "--capacity", "48M"]);
    place.ok(&["cont", "create", "p", "c"]);
    fs::write(place.path("large"), bytes(8 << 20, 1)).unwrap();
    // Two fit on each target; numbers are drawn in the same order each time, and the fourth one falls on a full target.
    for name in ["/1", "/2", "/3", "/4"] {
        let put = place.json(&["fs", "put", "p", "c", "large", name]);
        assert_eq!((&put["files"], &put["bytes"]), (&1.into(), &(8 << 20).into()));
        place.ok(&["fs", "verify", "p", "c", "large", name]);
    }
    let line = place.fails(6, &["fs", "put", "p", "c", "large", "/5"]);
    assert!(line.contains("none of the others (1) has more than "), "{line}");
    assert!(
        line.contains("a file lies on all targets") && line.contains("up to 256 KiB lies on one"),
        "{line}"
    );
}

#[test]
fn what_is_no_file_is_neither_put_by_name_nor_replaced() {
    let place = Place::new("special");
    place.pool_with_files();
    fs::write(place.path("f"), b"stored").unwrap();
    place.ok(&["fs", "put", "p", "c", "f", "/f"]);
    let _socket = Listener::bind(&Address::Unix(place.path("socket"))).unwrap();
    for args in [["fs", "put", "p", "c", "socket", "/s"], ["fs", "get", "p", "c", "/f", "socket"]] {
        let line = place.fails(8, &args);
        assert!(line.contains("socket: a device, pipe or socket"), "{line}");
    }
    assert!(std::os::unix::fs::FileTypeExt::is_socket(
        &fs::symlink_metadata(place.path("socket")).unwrap().file_type()
    ));
    assert_eq!(place.ok(&["fs", "ls", "p", "c", "/"]), "f\n");
}

#[test]
fn a_link_that_a_file_is_got_onto_stays_and_leads_to_it() {
    let place = Place::new("get-link");
    place.pool_with_files();
    fs::write(place.path("f"), b"stored").unwrap();
    place.ok(&["fs", "put", "p", "c", "f", "/f"]);
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, place.path(name)).unwrap();
    fs::write(place.path("target"), b"old").unwrap();
    link("target", "link");
    place.ok(&["fs", "get", "p", "c", "/f", "link"]);
    assert!(place.path("link").is_symlink());
    assert_eq!(fs::read(place.path("target")).unwrap(), b"stored");
    link("/dev/null", "device");
    let line = place.fails(8, &["fs", "get", "p", "c", "/f", "device"]);
    assert!(line.contains("a symbolic link to a device") && line.contains("fs cat"), "{line}");
    link("nowhere", "dangling");
    let line = place.fails(3, &["fs", "get", "p", "c", "/f", "dangling"]);
    assert!(line.contains("leads nowhere"), "{line}");
    for name in ["device", "dangling"] {
        assert!(place.path(name).is_symlink(), "{name}");
    }
    let line = place.fails(2, &["fs", "get", "p", "c", "/f", "-"]);
    assert!(line.contains("fs cat"), "{line}");
}

#[test]
fn what_is_wrong_with_a_path_is_named_and_has_code_2_or_3() {
    let place = Place::new("paths");
    place.pool_with_files();
    make_tree(&place.path("src"));
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let long = format!("/{}", "n".repeat(300));
    std::os::unix::fs::symlink("round", place.path("round")).unwrap();
    place.ok(&["fs", "put", "p", "c", "round", "/round"]);
    for (code, args, words) in [
        (2, &["fs", "cat", "p", "c", "/t"][..], "it is a directory"),
        (2, &["fs", "ls", "p", "c", &long], "the name is longer than 255 bytes"),
        (2, &["fs", "cat", "p", "c", "/round"], "symbolic links"),
        (2, &["fs", "put", "p", "c", "src", ""], "a path is empty"),
        (2, &["fs", "mv", "p", "c", "", "/x"], "a path is empty"),
        (2, &["fs", "cat", "p", "c", ""], "a path is empty"),
        (3, &["fs", "mv", "p", "c", "/none", "/x"], "/none does not exist"),
        (3, &["fs", "mv", "p", "c", "/t/large", "/none/x"], "the directory of /none/x does not exist"),
        (3, &["fs", "get", "p", "c", "/t/large", "none/x/large"], "there is no directory none/x"),
    ] {
        let line = place.fails(code, args);
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn a_path_that_is_no_directory_or_not_there_is_told_as_that() {
    let place = Place::new("kinds");
    place.pool_with_files();
    make_tree(&place.path("src"));
    fs::write(place.path("file"), b"data").unwrap();
    place.ok(&["fs", "put", "p", "c", "src", "/d"]);
    place.ok(&["fs", "put", "p", "c", "file", "/f"]);
    fs::create_dir_all(place.path("dirs/file")).unwrap();
    place.ok(&["fs", "put", "p", "c", "dirs", "/e"]);
    for (code, args, why) in [
        (3, &["put", "p", "c", "file", "/r3/"][..], "there is no directory /r3/"),
        (3, &["put", "p", "c", "file", "/r3/below/"], "there is no directory /r3/below/"),
        (2, &["put", "p", "c", "file", "/f/"], "not a directory"),
        (4, &["put", "p", "c", "file", "/e/"], "a directory has this name"),
        (2, &["cat", "p", "c", "/f/"], "not a directory"),
        (3, &["cat", "p", "c", "/g/"], "no such file"),
        (4, &["mv", "p", "c", "/d", "/f"], "a directory does not replace /f, which is none"),
        (3, &["verify", "p", "c", "src", "/nope"], "/nope does not exist in the container"),
        (3, &["verify", "p", "c", "src", "/nope/below"], "/nope/below does not exist"),
        (3, &["verify", "p", "c", "nope", "/d"], "nope"),
    ] {
        let line = place.fails(code, &[&["fs"], args].concat());
        assert!(line.contains(why), "{args:?}: {line}");
    }
    place.fails(3, &["fs", "ls", "p", "c", "/r3"]);
    place.ok(&["fs", "put", "p", "c", "src", "/r4/"]);
}

#[test]
fn a_repeated_copy_writes_nothing_where_everything_is_right() {
    let place = Place::new("idle");
    place.pool_with_files();
    make_tree(&place.path("src"));
    place.ok(&["fs", "put", "p", "c", "src", "/a/t"]);
    let versions = || place.json(&["cont", "query", "p", "c"])["usage"]["versions"].as_u64().unwrap();
    let before = versions();
    for more in [&[][..], &["--owner"]] {
        place.ok(&[&["fs", "put", "p", "c", "src", "/a/t"], more].concat());
        assert_eq!(versions(), before);
    }
    // What is not right is made so, and nothing else.
    fs::set_permissions(place.path("src/sub"), fs::Permissions::from_mode(0o700)).unwrap();
    place.ok(&["fs", "put", "p", "c", "src", "/a/t"]);
    assert!((1..4).contains(&(versions() - before)), "{} of {before}", versions());
    place.ok(&["fs", "verify", "p", "c", "src", "/a/t"]);

    place.ok(&["fs", "get", "p", "c", "/a/t", "back"]);
    let names = ["", "sub", "sub/deep", "sub/f3", "link", "large", "empty", "same-as-f7"];
    let ctimes = || {
        names.map(|name| {
            let meta = fs::symlink_metadata(place.path("back").join(name)).unwrap();
            (meta.ctime(), meta.ctime_nsec())
        })
    };
    let before = ctimes();
    for more in [&[][..], &["--owner"]] {
        place.ok(&[&["fs", "get", "p", "c", "/a/t", "back"], more].concat());
        assert_eq!(ctimes(), before);
    }
    fs::set_permissions(place.path("back/sub"), fs::Permissions::from_mode(0o711)).unwrap();
    place.ok(&["fs", "get", "p", "c", "/a/t", "back"]);
    place.ok(&["fs", "verify", "p", "c", "back", "/a/t"]);
}

#[test]
fn one_name_of_a_file_moved_onto_another_is_gone_and_a_name_onto_itself_stays() {
    let place = Place::new("mv-links");
    place.pool_with_files();
    fs::create_dir_all(place.path("src/d")).unwrap();
    fs::write(place.path("src/d/a"), b"one").unwrap();
    for name in ["src/d/b", "src/d/c", "src/e"] {
        fs::hard_link(place.path("src/d/a"), place.path(name)).unwrap();
    }
    std::os::unix::fs::symlink("d", place.path("src/l")).unwrap();
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    for (old, new) in [("/t/d/a", "/t/l/a"), ("/t/d/a", "/t/d"), ("/t/d/a", "/t/d/a")] {
        place.ok(&["fs", "mv", "p", "c", old, new]);
        assert_eq!(place.ok(&["fs", "ls", "p", "c", "/t/d"]), "a\nb\nc\n", "{old} {new}");
    }
    place.fails(4, &["fs", "mv", "-n", "p", "c", "/t/d/a", "/t/d/b"]);
    place.ok(&["fs", "mv", "p", "c", "/t/d/a", "/t/d/b"]);
    assert_eq!(place.ok(&["fs", "ls", "p", "c", "/t/d"]), "b\nc\n");
    place.ok(&["fs", "mv", "p", "c", "/t/l/b", "/t/d/c"]);
    assert_eq!(place.ok(&["fs", "ls", "p", "c", "/t/d"]), "c\n");
    place.ok(&["fs", "mv", "p", "c", "/t/d/c", "/t/e"]);
    assert_eq!(place.ok(&["fs", "ls", "p", "c", "/t/d"]), "");
    assert_eq!(place.json(&["fs", "ls", "p", "c", "/t/e"])[0]["links"], 1);
    assert_eq!(place.json(&["check", "p"])["clean"], true);
}

#[test]
fn cat_prints_what_it_can_and_names_the_rest() {
    let place = Place::new("cat-on");
    place.pool_with_files();
    fs::create_dir(place.path("src")).unwrap();
    ["a", "b"].iter().for_each(|name| fs::write(place.path("src").join(name), name).unwrap());
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let command = ["fs", "cat", "p", "c", "/t/a", "/t/none", "/t", "/t/b"];
    let ran = place.run(&command);
    assert_eq!((ran.code(), ran.stdout()), (3, "ab".to_owned()), "{ran:?}");
    let named: Vec<String> = ran.stderr().lines().map(str::to_owned).collect();
    assert_eq!(named[0], "dolmen: cannot read /t/none: no such file or directory");
    assert_eq!(named[1], "dolmen: cannot read /t: it is a directory; see `dolmen fs ls p c /t`");
    assert_eq!(named.len(), 2);
    let ran = place.run(&[&command[..], &["--json"]].concat());
    let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!((ran.code(), &answer["error"]), (3, &"2 files not read".into()), "{ran:?}");
    assert_eq!((&answer["response"][0]["text"], &answer["response"][3]["text"]), (&"a".into(), &"b".into()));
    assert_eq!(answer["response"][1]["failure"]["path"], "/t/none");
}

#[test]
fn a_file_goes_into_a_directory_under_its_own_name() {
    let place = Place::new("into");
    place.pool_with_files();
    fs::create_dir_all(place.path("src/sub")).unwrap();
    fs::write(place.path("src/one"), b"one").unwrap();
    std::os::unix::fs::symlink("sub", place.path("src/link")).unwrap();
    place.ok(&["fs", "put", "p", "c", "src/sub", "/d"]);
    for (local, dir) in [("src/one", "/d"), ("src/one", "/d/"), ("src/link", "/d/")] {
        place.ok(&["fs", "put", "p", "c", local, dir, "--log", "journal"]);
    }
    assert_eq!(place.ok(&["fs", "ls", "p", "c", "/d"]), "link\none\n");
    place.ok(&["fs", "verify", "p", "c", "--log", "journal"]);
    place.ok(&["fs", "put", "p", "c", "src/one", "/one"]);
    fs::create_dir(place.path("out")).unwrap();
    for (path, local) in [("/one", "out"), ("/d/link", "out/"), ("/d/one", "out/renamed")] {
        place.ok(&["fs", "get", "p", "c", path, local]);
    }
    assert_eq!(fs::read(place.path("out/one")).unwrap(), b"one");
    assert_eq!(fs::read(place.path("out/renamed")).unwrap(), b"one");
    assert_eq!(fs::read_link(place.path("out/link")).unwrap().to_str(), Some("sub"));
    // A tree is merged, as before.
    place.ok(&["fs", "put", "p", "c", "src", "/d"]);
    assert_eq!(place.ok(&["fs", "ls", "p", "c", "/d"]), "link\none\nsub\n");
}

#[test]
fn a_put_says_what_it_has_no_record_of() {
    let place = Place::new("no-record");
    place.pool_with_files();
    fs::create_dir(place.path("src")).unwrap();
    fs::write(place.path("src/one"), b"one").unwrap();
    place.ok(&["fs", "put", "p", "c", "src", "/t"]);
    let text = place.ok(&["fs", "put", "p", "c", "src", "/t", "--log", "journal"]);
    assert!(
        text.ends_with("1 file already there: no record in journal (--no-resume has one of each)\n"),
        "{text}"
    );
    assert_eq!(place.json(&["fs", "put", "p", "c", "src", "/t", "--log", "journal"])["unrecorded"], 1);
    let text = place.ok(&["fs", "verify", "p", "c", "--log", "journal"]);
    assert!(text.starts_with("nothing to verify, the journal has no records: 0 "), "{text}");
    let text = place.ok(&["fs", "put", "p", "c", "src", "/t", "--log", "journal", "--no-resume"]);
    assert!(!text.contains("no record"), "{text}");
    assert!(place.ok(&["fs", "verify", "p", "c", "--log", "journal"]).starts_with("all there: 1 "));
}

#[test]
fn what_is_a_directory_and_what_is_none_have_one_code() {
    let place = Place::new("one-code");
    place.pool_with_files();
    fs::write(place.path("one"), b"one").unwrap();
    place.ok(&["fs", "put", "p", "c", "one", "/one"]);
    for command in [
        &["fs", "cat", "p", "c", "/"][..],
        &["fs", "cat", "p", "c", "/one/x"],
        &["fs", "ls", "p", "c", "/one/x"],
        &["fs", "rm", "p", "c", "/one/"],
        &["fs", "get", "p", "c", "/one", "one/x"],
        &["fs", "verify", "p", "c"],
        &["fs", "verify", "p", "c", "one"],
    ] {
        place.fails(2, command);
    }
    assert!(
        place.fails(2, &["fs", "verify", "p", "c"]).contains("LOCAL and PATH, or --log FILE, are needed")
    );
}
