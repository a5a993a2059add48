//! Paths in a container: any bytes but zero, as the shell hands them over.

use dolmen_types::shown as shown_bytes;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The path of an entry of a directory.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !dir.is_empty() && !dir.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// A path for people: nothing in it can steer a terminal.
pub(crate) fn shown(path: &[u8]) -> String {
    shown_bytes(path)
}

/// A path outside for people.
pub(crate) fn shown_outside(path: &Path) -> String {
    shown_bytes(path.as_os_str().as_bytes())
}

/// A path outside as a word of a command that a shell is to read: as it is, or in quotes.
pub(crate) fn word(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./:@%+=,-".contains(byte);
    if !bytes.is_empty() && !bytes.starts_with(b"-") && bytes.iter().all(is_plain) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    // What begins with a dash would be taken for an option.
    let before = if bytes.starts_with(b"-") { "./" } else { "" };
    match core::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => {
            format!("'{before}{}'", text.replace('\'', r"'\''"))
        }
        // Nothing in it can steer a terminal.
        _ => {
            let escaped = |byte: &u8| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                b' '..=b'~' => char::from(*byte).to_string(),
                _ => format!("\\x{byte:02x}"),
            };
            format!("$'{before}{}'", bytes.iter().map(escaped).collect::<String>())
        }
    }
}

/// An argument for people.
pub(crate) fn shown_arg(arg: &OsStr) -> String {
    shown_bytes(arg.as_bytes())
}

/// A path for programs: itself if it is UTF-8, which JSON can say, else as people see it.
pub(crate) fn text(path: &[u8]) -> String {
    core::str::from_utf8(path).map_or_else(|_binary| shown(path), str::to_owned)
}

/// Adds a path to an object for programs: as `key`, and as `key_hex` what JSON cannot say as it is.
pub(crate) fn say(object: &mut Value, key: &str, path: &[u8]) {
    object[key] = json!(text(path));
    if core::str::from_utf8(path).is_err() {
        object[format!("{key}_hex")] = json!(crate::output::hex(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_command_is_one_word_for_a_shell() {
        let cases: [(&[u8], &str); 8] = [
            (b"sys/p", "sys/p"),
            (b"my pool", "'my pool'"),
            (b"it's", r"'it'\''s'"),
            (b"$(reboot)", "'$(reboot)'"),
            ("\u{fc}ber".as_bytes(), "'\u{fc}ber'"),
            (b"a\n\xff'\\", r"$'a\x0a\xff\'\\'"),
            (b"-r", "'./-r'"),
            (b"", "''"),
        ];
        for (path, expected) in cases {
            let path = Path::new(OsStr::from_bytes(path));
            assert_eq!(word(path), expected);
            let line = format!("printf %s {expected}");
            let told = std::process::Command::new("bash").args(["-c", &line]).output().unwrap().stdout;
            let told = told.strip_prefix(b"./").unwrap_or(&told);
            assert_eq!(OsStr::from_bytes(told), path.as_os_str());
        }
    }

    #[test]
    fn paths_have_one_slash_between_names() {
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/a", b"b"), b"/a/b");
        assert_eq!(join(b"", b"b"), b"b");
        assert_eq!(shown(b"/a\n"), "/a\\n");
        let mut said = json!({});
        say(&mut said, "path", b"/a");
        say(&mut said, "other", b"/\xff");
        assert_eq!(said, json!({ "path": "/a", "other": "/\\xff", "other_hex": "2fff" }));
        assert_eq!((text(b"/a\n"), text(b"/\xff")), ("/a\n".to_owned(), "/\\xff".to_owned()));
    }
}
