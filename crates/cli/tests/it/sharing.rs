//! One process at a time.

use crate::common::{Place, bytes};
use std::io::Read;
use std::process::Stdio;

#[test]
fn a_second_process_is_told_the_pid_of_the_first() {
    let place = Place::new("second");
    place.pool_with_files();
    std::fs::write(place.path("big"), bytes(4 << 20, 1)).unwrap();
    place.ok(&["fs", "put", "p", "c", "big", "/big"]);
    // Larger than a pipe: the first process waits for its reader, and owns the pool meanwhile.
    let mut first = place.command(&["fs", "cat", "p", "c", "/big"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = first.stdout.take().unwrap();
    let mut head = [0; 1];
    out.read_exact(&mut head).unwrap();
    for args in [
        &["pool", "query", "p"][..],
        &["fs", "ls", "p", "c"],
        &["check", "p"],
        &["pool", "destroy", "p", "-f"],
    ] {
        let line = place.fails(5, args);
        assert!(line.contains(&first.id().to_string()) && line.contains("--wait"), "{line}");
        let answer = place.run(&[args, &["--json"]].concat()).stdout();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["detail"]["place"]["pid"], first.id());
    }
    // Who waits gets it when it is free; who waits too short a time is told as before.
    place.fails(5, &["fs", "ls", "p", "c", "--wait", "1"]);
    let waits = |args: &[&str]| place.command(args).stdout(Stdio::piped()).spawn().unwrap();
    let second = waits(&["fs", "ls", "p", "c", "--wait", "600"]);
    // What needs no ownership still works.
    assert!(place.ok(&["pool", "list"]).contains('p'));
    place.run(&["inspect", "p"]);
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len() + 1, 4 << 20);
    assert!(first.wait().unwrap().success());
    let listed = second.wait_with_output().unwrap();
    assert!(listed.status.success());
    assert_eq!(listed.stdout, b"big\n");
    place.ok(&["pool", "query", "p"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new("pipe");
    place.pool_with_files();
    std::fs::write(place.path("big"), bytes(4 << 20, 1)).unwrap();
    place.ok(&["fs", "put", "p", "c", "big", "/big"]);
    let mut first = place.command(&["fs", "cat", "p", "c", "/big"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(first.stdout.take());
    assert!(first.wait().unwrap().success());
    place.ok(&["check", "p"]);
}
