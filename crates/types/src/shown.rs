//! Names and keys on a terminal.

use core::fmt::Write as _;

/// Bytes as text on one line: what is no text, controls a terminal, or turns its direction, is written as in a
/// string literal (`\n`, `\x1b`, `\xff`, `\u{202e}`), and a backslash as two.
#[must_use]
pub fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                _ if letter.is_ascii_control() => push_byte(&mut text, u32::from(letter)),
                _ if is_hidden(letter) => text.extend(letter.escape_unicode()),
                _ => text.push(letter),
            }
        }
        chunk.invalid().iter().for_each(|&byte| push_byte(&mut text, u32::from(byte)));
    }
    text
}

fn push_byte(text: &mut String, byte: u32) {
    write!(text, "\\x{byte:02x}").expect("a String takes everything");
}

/// Controls, and marks that change the direction or the lines of the text around them.
pub(crate) fn is_hidden(letter: char) -> bool {
    let marks = ['\u{200e}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    letter.is_control() || marks.iter().any(|range| range.contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(shown("größe 1".as_bytes()), "größe 1");
        assert_eq!(shown(b"a\nb\x1b[31m\x7f\\\t"), "a\\nb\\x1b[31m\\x7f\\\\\\t");
        assert_eq!(shown(b"\xff\xc3"), "\\xff\\xc3");
        assert_eq!(shown("a\u{202e}b\u{85}".as_bytes()), "a\\u{202e}b\\u{85}");
    }
}
