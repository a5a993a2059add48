//! A signal while ntuples are written: the command says so, and nothing half made is left.

use crate::common::{Place, Ran};
use crate::interrupted::{interrupt, start};
use crate::ntuples::write_file;
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{Array, Values};
use rustix::process::Signal;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;

/// Clusters of a file that takes seconds to be imported or exported.
const CLUSTERS: usize = 40_000;

fn make_long_file(place: &Place) {
    let numbers = Array::Values(Values::I64((0..100).collect()));
    let fields = [("number", &numbers)];
    write_file(&place.path("in.root"), &fields, &Options::default(), CLUSTERS);
}

/// Starts a command, and interrupts it as soon as something is so.
fn interrupted(place: &Place, args: &[&str], is_so: impl Fn(&Child) -> bool) -> Ran {
    let mut child = start(place.command(args));
    while !is_so(&child) {
        assert!(child.try_wait().unwrap().is_none(), "{args:?} ends by itself");
        std::thread::yield_now();
    }
    let ran = interrupt(child, Signal::INT);
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
    make_long_file(&place);
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

    // A file of a target is mapped: the pool is being opened, or is open.
    let is_open = |child: &Child| {
        fs::read_to_string(format!("/proc/{}/maps", child.id())).is_ok_and(|maps| maps.contains("/p/t"))
    };
    interrupted(&place, &["ntuple", "import", "p", "c", "in.root"], is_open);
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
