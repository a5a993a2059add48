//! What is told to whoever runs the program, beside what it answers.

use std::io::Write;
use std::sync::OnceLock;

/// How each line begins.
static BEGINNING: OnceLock<fn() -> String> = OnceLock::new();

/// Has each line of [`say`] begin with this from now on, as in a log that several processes write over days. Once for a process.
pub fn say_after(beginning: fn() -> String) {
    // Ignored: whoever came first has said how they begin.
    let _known = BEGINNING.set(beginning);
}

/// Writes a line to standard error, whole, if that is possible: those of programs side by side do not mix. Nobody depends on its being read: where it cannot be written, on a
/// full device or to a reader that has gone, it is lost, and nothing else.
pub fn say(line: &str) {
    let beginning = BEGINNING.get().map_or_else(String::new, |beginning| beginning());
    say_as_is(format!("{beginning}{line}\n").as_bytes());
}

/// As [`say`], without an end of a line.
pub fn say_as_is(text: &[u8]) {
    // Ignored: as above.
    let _lost = std::io::stderr().write_all(text);
}
