//! What `make bench-mounts` measures with, in small: the load, and the thinnest file system to hold mounts against.

use super::{Mount, Mounted, can_mount, limited, unmounted, wait_until};
use crate::common::{Place, Ran};
use core::time::Duration;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

const LIMIT: Duration = Duration::from_secs(120);

/// Each phase of the load with the operations and bytes of two processes.
fn assert_measured(figures: &Value) {
    let phases = figures["phases"].as_array().unwrap();
    let told = phases.iter().map(|phase| {
        let counts = ["op_count", "byte_count"].map(|count| phase["rounds"][0][count].as_u64().unwrap());
        (phase["phase"].as_str().unwrap(), counts)
    });
    let expected = [
        ("write", [32, 2 << 20]),
        ("read", [32, 2 << 20]),
        ("random read", [100, 100 << 12]),
        ("create", [80, 0]),
        ("stat, cold", [80, 0]),
        ("stat, warm", [80, 0]),
        ("unlink", [80, 0]),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    for phase in phases {
        assert!(phase["ops_per_s"].as_f64().unwrap() > 0.0, "{phase}");
        assert_eq!(phase["process_cpu_s"].as_array().unwrap().len(), 2, "{phase}");
    }
}

fn words(dir: &Path) -> Vec<String> {
    let words = "bench posix -n 40 -b 1M -t 64K -r 50 -N 2 -i 1 --json";
    words.split(' ').map(str::to_owned).chain([dir.display().to_string()]).collect()
}

fn figures(text: &[u8]) -> Value {
    let mut answer: Value = serde_json::from_slice(text).unwrap();
    answer["response"].take()
}

#[test]
fn the_load_of_mounts_goes_through_all_its_phases_and_leaves_nothing() {
    let Some(mut mounted) = Mounted::served("speed", &[]) else { return };
    for cache in ["data", "off"] {
        mounted.mount(cache, &["--cache", cache]);
    }
    let dirs: Vec<_> = mounted.mounts.iter().map(|mount| mount.dir.clone()).collect();
    assert_eq!(dirs.len(), 3);
    for dir in dirs {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dolmen"));
        command.args(words(&dir));
        let output = limited(&mounted, &command, LIMIT);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
        assert_measured(&figures(&output.stdout));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "{}", dir.display());
    }
    mounted.finish();
}

/// Descriptors that a process has open.
fn descriptors(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

#[test]
fn a_kernel_that_is_told_to_forget_a_mount_knows_nothing_of_it() {
    const FILES: usize = 60;
    if !can_mount("forget") {
        return;
    }
    let place = Place::new("forget");
    let mut mount = shown(&place);
    let server = mount.child.id();
    let before = descriptors(server);
    for index in 0..FILES {
        fs::write(place.path("files").join(index.to_string()), b"").unwrap();
        assert!(place.path("shown").join(index.to_string()).is_file());
    }
    assert!(descriptors(server) >= before + FILES, "it has one of each file that the kernel knows");
    let [shown_file, files] = ["shown/1", "files"].map(|name| place.path(name).canonicalize().unwrap());
    match dolmen_env::forget_mount(&shown_file) {
        Ok(is_forgotten) => {
            assert!(is_forgotten);
            wait_until("the kernel forgets", || descriptors(server) < before + FILES / 2);
        }
        Err(error) => assert!(!rustix::process::geteuid().is_root(), "{error}"),
    }
    assert!(!dolmen_env::forget_mount(&files).unwrap(), "it is in no such mount");
    unmounted(&place, "shown");
    assert_eq!(mount.ends(), 0, "{}", mount.log());
}

/// A directory that is shown in another by the thinnest file system.
fn shown(place: &Place) -> Mount {
    fs::create_dir(place.path("files")).unwrap();
    Mount::serve(place, "shown", &["bench", "passthrough", "files", "shown"])
}

#[test]
fn a_passthrough_shows_a_directory_and_the_load_runs_on_it() {
    if !can_mount("passthrough") {
        return;
    }
    let place = Place::new("passthrough");
    let mut mount = shown(&place);
    let server = mount.child.id().to_string();
    let mut words = words(&place.path("shown"));
    words.extend(["--serving-pid".to_owned(), server]);
    let ran = place.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.code(), 0, "{ran:?}");
    let figures = figures(ran.stdout().as_bytes());
    assert_measured(&figures);
    let of_phase = |phase: &Value| phase["daemon_cpu_s"].as_f64();
    let serving = figures["phases"].as_array().unwrap().iter().filter_map(of_phase).sum::<f64>();
    assert!(serving > 0.0, "{figures}");
    assert_eq!(fs::read_dir(place.path("files")).unwrap().count(), 0);

    let (files, shown) = (place.path("files"), place.path("shown"));
    fs::create_dir(shown.join("d")).unwrap();
    fs::write(shown.join("d/menhir"), b"stone").unwrap();
    assert_eq!(fs::read(files.join("d/menhir")).unwrap(), b"stone");
    fs::rename(shown.join("d/menhir"), shown.join("cairn")).unwrap();
    fs::remove_dir(shown.join("d")).unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(shown.join("cairn")).unwrap();
    file.write_all_at(b"S", 0).unwrap();
    file.set_len(3).unwrap();
    fs::set_permissions(shown.join("cairn"), fs::Permissions::from_mode(0o640)).unwrap();
    drop(file);
    assert_eq!(fs::read(files.join("cairn")).unwrap(), b"Sto");
    let [own, there] = [&files, &shown].map(|dir| fs::metadata(dir.join("cairn")).unwrap());
    assert_eq!((own.mode(), own.len()), (0o100_640, 3));
    assert_eq!((there.mode(), there.len(), there.ino()), (own.mode(), own.len(), own.ino()));
    let names: Vec<_> = fs::read_dir(&shown).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["cairn"]);
    let missing = fs::read(shown.join("d/menhir")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    unmounted(&place, "shown");
    assert_eq!(mount.ends(), 0, "{}", mount.log());
}

#[test]
fn a_load_in_a_directory_that_is_none_or_of_sizes_that_do_not_fit_is_refused() {
    let place = Place::new("posix-refused");
    let line = place.fails(3, &["bench", "posix", "nowhere"]);
    assert!(line.contains("nowhere"), "{line}");
    fs::write(place.path("menhir"), b"stone").unwrap();
    let line = place.fails(2, &["bench", "posix", "menhir"]);
    assert!(line.contains("menhir is no directory"), "{line}");
    let line = place.fails(2, &["bench", "posix", ".", "-b", "1M", "-t", "768K"]);
    assert!(line.contains("no multiple of a call"), "{line}");
    let line = place.fails(2, &["bench", "posix", ".", "-t", "5000"]);
    assert!(line.contains("no multiple of 4096"), "{line}");
    let line = place.fails(2, &["bench", "posix", ".", "-b", "0", "-n", "0"]);
    assert!(line.contains("nothing to be measured"), "{line}");
    let line = place.fails(2, &["bench", "posix", ".", "-b", "1M", "-r", "257"]);
    assert!(line.contains("has 256 blocks"), "{line}");
    // No process has the largest number of all.
    let line = place.fails(2, &["bench", "posix", ".", "-b", "0", "-n", "1", "--serving-pid", "4294967295"]);
    assert!(line.contains("no process has the number 4294967295"), "{line}");
    let line = place.fails(3, &["bench", "passthrough", "nowhere", "."]);
    assert!(line.contains("nowhere"), "{line}");
}

#[test]
fn a_process_of_a_load_whose_parent_is_gone_says_nothing_more() {
    let place = Place::new("orphan");
    let load = json!({ "dir": place.path(""), "file_bytes": 0, "transfer_bytes": 4096, "count": 1, "read_count": 0 });
    let plan = json!({
        "rank": 0, "processes": 2, "rounds": 1, "system": null, "pool": "", "cont": "", "load": { "posix": load },
    });
    let words = plan.to_string();
    let args = ["bench", "child", "load", &words];
    // It waits for a word before the first phase, and hears that nobody is there.
    let ran = Ran::of("of nobody", place.command(&args).output().unwrap());
    assert_eq!((ran.code(), &*ran.stderr()), (0, ""), "{ran:?}");
    assert_eq!(ran.stdout(), "{\"Ready\":[\"begin\",\"No\"]}\n");
    // Nobody hears that it is ready.
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let output = place
        .command(&args)
        .stdout(write)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    let ran = Ran::of("to nobody", output);
    assert_eq!((ran.code(), &*ran.stderr()), (0, ""), "{ran:?}");
}
