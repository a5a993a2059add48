//! What is told to whoever runs the program, beside what it answers.

use std::io::Write;

/// Writes a line to standard error, whole, if that is possible: those of programs side by side do not mix. Nobody depends on its being read: where it cannot be written, on a
/// full device or to a reader that has gone, it is lost, and nothing else.
pub fn say(line: &str) {
    say_as_is(format!("{line}\n").as_bytes());
}

/// As [`say`], without an end of a line.
pub fn say_as_is(text: &[u8]) {
    // Ignored: as above.
    let _lost = std::io::stderr().write_all(text);
}
