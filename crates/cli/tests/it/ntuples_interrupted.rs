//! A signal while ntuples are written: the command says so, and nothing half made is left.

use crate::common::{Place, Ran};
use crate::interrupted::{interrupt, start};
use crate::ntuples::write_file;
use crate::served::Daemon;
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{Array, Values};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;

/// Clusters of a file that takes seconds to be imported or exported.
const CLUSTERS: usize = 40_000;

fn make_long_file(place: &Place, clusters: usize) {
    let numbers = Array::Values(Values::I64((0..100).collect()));
    let fields = [("number", &numbers)];
    write_file(&place.path("in.root"), &fields, &Options::default(), clusters);
}

/// Starts a command, and sends it a signal as soon as something is so.
fn signalled(place: &Place, args: &[&str], is_so: impl Fn(&Child) -> bool) -> Ran {
    let mut child = start(place.command(args));
    while !is_so(&child) {
        assert!(child.try_wait().unwrap().is_none(), "{args:?} ends by itself");
        std::thread::yield_now();
    }
    interrupt(child, Signal::INT)
}

/// Starts a command, and interrupts it as soon as something is so.
fn interrupted(place: &Place, args: &[&str], is_so: impl Fn(&Child) -> bool) -> Ran {
    let ran = signalled(place, args, is_so);
    assert_eq!(ran.output.status.signal(), Some(2), "{ran:?}");
    let line = ran.stderr();
    assert!(line.ends_with(": interrupted by SIGINT; run the command again\n"), "{ran:?}");
    assert_eq!(
        (line.lines().count(), ran.stdout()),
        (1, String::new()),
        "no progress where no terminal is: {ran:?}"
    );
    ran
}

/// Names of a directory that are no pool's.
fn names(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_interrupted_leaves_nothing_half_made() {
    let place = Place::new("ntuples-interrupted");
    place.pool_with_files();
    make_long_file(&place, CLUSTERS);
    let before = names(&place);
    let has_part = |_: &Child| {
        fs::read_dir(place.path("."))
            .unwrap()
            .any(|entry| entry.unwrap().path().extension().is_some_and(|end| end == "part"))
    };
    interrupted(&place, &["ntuple", "export", "in.root", "--to", "out.root"], has_part);
    assert_eq!(names(&place), before);
    let skim = ["ntuple", "skim", "in.root", "--filter", "number > 50", "--to", "out.root"];
    interrupted(&place, &skim, has_part);
    assert_eq!(names(&place), before);

    interrupted_writing(&place, &["ntuple", "import", "p", "c", "in.root"]);
    assert_eq!(place.ok(&["ntuple", "list", "p", "c"]), "no ntuples\n");
    let checked = place.json(&["check", "p"]);
    assert_eq!(checked["clean"], true, "{checked}");
    assert!(
        checked["targets"].as_array().unwrap().iter().all(|target| target["closed"] == true),
        "{checked}"
    );
    // What it had written is nobody's, and freed.
    place.ok(&["ntuple", "gc", "p", "c"]);
    assert_eq!(place.json(&["ntuple", "gc", "p", "c"])["clusters"], 0);
}

/// Who writes has a thread for the upkeep of the pool, from when it is open.
fn has_upkeep(child: &Child) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    let mut names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    names.any(|name| name.trim_end() == "dolmen-upkeep")
}

/// Interrupts a command on ntuples while it writes to the pool, and not before: then it is told without what was to be done.
fn interrupted_writing(place: &Place, args: &[&str]) -> Ran {
    let tries = core::iter::repeat_with(|| interrupted(place, args, has_upkeep)).take(20);
    let mut begun = tries.filter(|ran| ran.stderr().starts_with("dolmen: cannot "));
    begun.next().expect("the pool is open for a moment only before the command hears signals")
}

#[test]
fn an_append_or_a_copy_that_is_interrupted_leaves_ntuples_as_they_were() {
    let place = Place::new("ntuples-append-interrupted");
    place.pool_with_files();
    place.ok(&["cont", "create", "p", "d"]);
    make_long_file(&place, CLUSTERS / 4);
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    let of_events = || {
        let versions = place.json(&["ntuple", "versions", "p", "c", "events"]);
        (versions, place.json(&["ntuple", "show", "p", "c", "events"]))
    };
    let before = of_events();
    let ran = interrupted_writing(&place, &["ntuple", "append", "p", "c", "events", "in.root"]);
    assert!(ran.stderr().contains("cannot append in.root to ntuple events of container c: "), "{ran:?}");
    assert_eq!(of_events(), before);
    let ran = interrupted_writing(&place, &["ntuple", "copy", "p", "c", "events", "p", "d"]);
    assert!(ran.stderr().contains("cannot copy ntuple events of container c to events in"), "{ran:?}");
    assert_eq!(place.ok(&["ntuple", "list", "p", "d"]), "no ntuples\n");
    assert_eq!(of_events(), before);
    for cont in ["c", "d"] {
        place.ok(&["ntuple", "gc", "p", cont]);
        assert_eq!(place.json(&["ntuple", "gc", "p", cont])["clusters"], 0, "what was written is nobody's");
    }
    // What was to be run again is wholly there when it is.
    let twice = 2 * before.1["entries"].as_u64().unwrap();
    assert_eq!(place.json(&["ntuple", "append", "p", "c", "events", "in.root"])["entries"], twice);
    assert_eq!(place.json(&["check", "p"])["clean"], true);
}

/// How many versions the ntuple of this name has.
fn versions(place: &Place, pool: &str, name: &str) -> usize {
    place.json(&["ntuple", "versions", pool, "c", name]).as_array().unwrap().len()
}

#[test]
fn a_reshaping_that_is_interrupted_says_what_is_done_and_goes_on_there() {
    let place = Place::new("ntuples-reshape-interrupted");
    place.pool_with_files();
    make_long_file(&place, CLUSTERS / 10);
    let daemon = Daemon::start(&place, &[]);
    let pool = format!("unix:{}/p", place.path("dolmen.sock").display());
    let all = CLUSTERS as u64 * 10;
    for name in ["events", "other", "last"] {
        place.ok(&["ntuple", "import", &pool, "c", "in.root", "--name", name]);
    }
    let reshape = |name| ["ntuple", "reshape", &pool, "c", name, "--cluster", "64K", "--step", "64K"];
    let is_begun = |_: &Child| versions(&place, &pool, "events") > 1;
    let ran = signalled(&place, &reshape("events"), is_begun);
    assert_eq!(ran.output.status.signal(), Some(2), "{ran:?}");
    let line = ran.stderr();
    let first = line.trim_end().strip_suffix(" to go on").and_then(|line| line.rsplit(' ').next()).unwrap();
    let done: u64 = first.parse().unwrap();
    let told = format!(
        "cannot reshape ntuple events of container c: interrupted by SIGINT; entries 0 to {} of {all} are \
         written anew and stay so, those from {done} on are as they were; run the command again with --first \
         {done} to go on\n",
        done - 1
    );
    assert!(line.ends_with(&told) && done > 0 && done < all, "{line}");
    let begun = versions(&place, &pool, "events");
    assert!(begun > 1, "each step is a version");

    // Going on there does the rest, and nothing twice.
    place.ok(&[&reshape("events")[..], &["--first", first]].concat());
    place.ok(&reshape("other"));
    assert_eq!(versions(&place, &pool, "events"), versions(&place, &pool, "other"));
    let read = |name| place.ok(&["ntuple", "read", &pool, "c", name]);
    assert_eq!(read("events"), read("last"));
    let shown = |name| place.json(&["ntuple", "show", &pool, "c", name])["clusters"].clone();
    assert_eq!(shown("events"), shown("other"));
    let behind = [&reshape("events")[..], &["--first", "400001"]].concat();
    assert!(place.fails(2, &behind).contains("it has 400000 entries; --first is one of them"));
    assert!(daemon.end().success());
}

#[test]
fn a_signal_during_the_last_step_of_a_reshaping_is_too_late_and_it_is_said_to_be_done() {
    let place = Place::new("ntuples-reshape-done");
    place.pool_with_files();
    make_long_file(&place, CLUSTERS / 4);
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    let reshape = ["ntuple", "reshape", "p", "c", "events"];
    for _ in 0..20 {
        let ran = signalled(&place, &reshape, has_upkeep);
        if ran.output.status.signal() == Some(2) {
            // It came before the step.
            assert!(ran.stderr().ends_with("interrupted by SIGINT; run the command again\n"), "{ran:?}");
            assert_eq!(versions(&place, "p", "events"), 1);
            continue;
        }
        assert_eq!((ran.code(), ran.stderr()), (0, String::new()), "{ran:?}");
        let told = "entries 0 to 999999 are written anew; version 2: 1000000 entries in 1 cluster";
        assert!(ran.stdout().starts_with(told), "{ran:?}");
        assert_eq!(versions(&place, "p", "events"), 2);
        return;
    }
    panic!("the pool is open for a moment only before the step");
}

#[test]
fn a_picture_has_its_name_when_it_is_whole() {
    let place = Place::new("ntuples-drawn");
    crate::ntuples::make_file(&place.path("in.root"));
    place.ok(&["ntuple", "plot", "in.root", "--to", "fields"]);
    assert!(fs::read(place.path("fields")).unwrap().starts_with(b"\x89PNG\r\n"));
    fs::create_dir(place.path("dir")).unwrap();
    let before = names(&place);
    let into = place.fails(2, &["ntuple", "plot", "in.root", "--to", "dir"]);
    assert!(into.contains("cannot draw dir: dir: is a directory"), "{into}");
    let missing = place.fails(3, &["ntuple", "plot", "in.root", "--to", "none/x.png"]);
    assert!(missing.contains("none/x.png: no such file or directory"), "{missing}");
    assert_eq!(names(&place), before);
}

#[test]
fn what_serves_until_it_is_interrupted_ends_without_a_word() {
    let place = Place::new("ntuples-serve-interrupted");
    crate::ntuples::make_file(&place.path("in.root"));
    for more in [&[][..], &["--json"]] {
        let serve = [&["ntuple", "serve", "in.root", "--listen", "localhost:0"], more].concat();
        let mut child = start(place.command(&serve));
        let mut told = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        assert!(line.contains("http://127.0.0.1:"), "{line}");
        let ran = interrupt(child, Signal::INT);
        assert_eq!((ran.output.status.signal(), ran.stderr()), (Some(2), String::new()), "{ran:?}");
        line.clear();
        told.read_line(&mut line).unwrap();
        assert_eq!(line, "", "nothing is told at the end");
    }
}
