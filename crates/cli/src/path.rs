//! Paths in a container.

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

/// A path for people.
pub(crate) fn shown(path: &[u8]) -> String {
    Path::new(OsStr::from_bytes(path)).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_one_slash_between_names() {
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/a", b"b"), b"/a/b");
        assert_eq!(join(b"", b"b"), b"b");
        assert_eq!(shown(b"/a"), "/a");
    }
}
