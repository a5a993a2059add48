//! What cannot be tested on a machine is said, and is an error where it has to be tested: no claim is proved by a test that
//! found nothing to do.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Where `cargo xtask test` collects what was not tested.
const LIST: &str = "DOLMEN_UNTESTED";

/// Says that this test proves nothing on this machine, and why. `variable` stands for what it would take (`DOLMEN_TEST_MOUNTS`,
/// `DOLMEN_TEST_TOOLS`, `DOLMEN_TEST_USERS`): where it is `required`, the test fails.
pub(crate) fn untested(variable: &str, why: &str) {
    let value = std::env::var(variable).unwrap_or_default();
    let line = told(variable, &value, why);
    // Past the harness, which shows nothing that a test says that passes.
    drop(std::io::stderr().write_all(line.as_bytes()));
    let Some(list) = std::env::var_os(LIST) else { return };
    let mut list = OpenOptions::new().create(true).append(true).open(list).unwrap();
    list.write_all(line.as_bytes()).unwrap();
}

/// The line about it; a failed test where the variable has this value.
fn told(variable: &str, value: &str, why: &str) -> String {
    let thread = std::thread::current();
    let (test, why) = (thread.name().unwrap_or("a test"), why.trim().replace('\n', "; "));
    assert!(value != "required", "{variable} is `required`, and {test} could not be run: {why}");
    format!("  not tested here: {test}: {why}\n")
}

#[test]
#[should_panic = "could not be run: no device"]
fn what_cannot_be_tested_is_an_error_where_it_is_required() {
    let told = told("DOLMEN_TEST_MOUNTS", "required", "no device");
    panic!("it is only told: {told}");
}

#[test]
fn what_cannot_be_tested_is_told_in_a_line_with_the_reason() {
    let line = told("DOLMEN_TEST_MOUNTS", "", "no device\nnor a helper\n");
    assert!(line.ends_with(": no device; nor a helper\n") && line.lines().count() == 1, "{line}");
}
