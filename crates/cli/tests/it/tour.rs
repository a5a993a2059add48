//! The tour in README.md, taken from there.

use crate::common::Place;
use std::path::Path;
use std::process::Command;

#[test]
fn the_tour_of_the_readme_runs_as_it_stands() {
    let place = Place::new("tour");
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let blocks = readme.split("```sh tour\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    let tour: String = blocks.collect();
    assert_eq!(tour.matches("dolmen pool create").count(), 2, "of a pool alone, and of one that is served");
    // Where this directory is in memory, the pool has to say so.
    let in_memory = place.run(&["pool", "create", "probe"]).code() == 8;
    let volatile = if in_memory { " --volatile" } else { "" };
    let script = tour.replace("dolmen pool create", &format!("dolmen pool create{volatile}"));
    let program = Path::new(env!("CARGO_BIN_EXE_dolmen")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let ran = Command::new("bash")
        .args(["-euc", &script])
        .current_dir(place.path("."))
        .env("PATH", path)
        .output()
        .unwrap();
    // The daemon of a tour that broke off.
    place.run(&["stop", "data"]);
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    for word in [
        "D /notes/first",
        "R /notes/second -> /notes/2nd",
        "is clean",
        "nothing is damaged",
        "is gone",
        "serves at",
        "has ended",
    ] {
        assert!(out.contains(word), "{word}: {out}");
    }
}
