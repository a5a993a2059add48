//! A function that does nothing and says that all went well is found out by the test of its row.
//!
//! The function is replaced from outside, by a library that the loader asks first; nothing is built anew.

use crate::kit;
use crate::kit::link::Exported;
use std::process::Command;

/// Rows whose tests look for memory that nobody frees: for functions that free, and for them only.
fn is_about_leaks(function: &Exported) -> bool {
    function.test.contains("valgrind::")
}

/// What answers no and does nothing, whatever it is asked.
const ANSWERS_NO: [&str; 1] = ["d_should_fail"];

/// Whether the test of a function passes although the function does nothing. One that goes round for ever is stopped.
fn is_missed(function: &Exported) -> bool {
    let (program, test) = function.test.split_once("::").unwrap();
    let dir = kit::system(&format!("nothing-{}", function.name));
    let (source, library) = (dir.join("nothing.c"), dir.join("nothing.so"));
    std::fs::write(&source, format!("long {}(void) {{ return 0; }}\n", function.name)).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-w", "-fno-builtin", "-o"]).arg(&library).arg(&source);
    assert!(cc.status().unwrap().success());
    let mut run = Command::new("timeout");
    run.args(["30", "sh", "-c", "ulimit -S -t 2; LD_PRELOAD=\"$0\" exec \"$@\""]);
    let done = kit::output(&dir, run.arg(&library).arg(kit::program(program)).arg(test));
    std::fs::remove_dir_all(&dir).unwrap();
    done.status.success() && String::from_utf8_lossy(&done.stdout).contains(&format!("ok {test}"))
}

/// Shares that the functions are dealt into; a usual run takes one, `NOTHING_SHARES=1` all of them.
const SHARES: usize = 12;

/// Claims that a test sees each of these functions do nothing; two tests share them out.
fn assert_all_are_seen(half: usize) {
    let shares = std::env::var("NOTHING_SHARES").map_or(SHARES, |text| text.parse().unwrap());
    let functions = kit::link::functions(kit::capi()).unwrap();
    let own = functions.iter().step_by(shares).skip(half).step_by(2);
    let missed: Vec<_> = own
        .filter(|function| !is_about_leaks(function) && !ANSWERS_NO.contains(&function.name.as_str()))
        .filter(|function| is_missed(function))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn a_test_sees_each_function_of_the_first_half_do_nothing() {
    assert_all_are_seen(0);
}

#[test]
fn a_test_sees_each_function_of_the_second_half_do_nothing() {
    assert_all_are_seen(1);
}

#[test]
fn only_what_frees_is_proved_by_leaks() {
    let functions = kit::link::functions(kit::capi()).unwrap();
    let frees = ["free", "fini", "put", "disconnect"];
    for function in functions.iter().filter(|function| is_about_leaks(function)) {
        assert!(frees.iter().any(|word| function.name.contains(word)), "{function:?}");
    }
}
