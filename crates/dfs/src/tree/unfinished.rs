//! Names of entries that a copy has not finished: `.dolmen-OWNER-NUMBER.unfinished`, beside the name that they get.
//!
//! OWNER tells those of a copy that is under way from those of one that died: inside it is when the mount began, outside
//! the process, and there a lock says whether it lives.

use super::{Remote, join};
use crate::dir::Dir;
use crate::error::{Error, Result};
use crate::mount::Mount;
use core::sync::atomic::Ordering;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const BEFORE: &str = ".dolmen-";
const BEHIND: &str = ".unfinished";

pub(super) fn name(owner: u64, number: u64) -> String {
    format!("{BEFORE}{owner}-{number}{BEHIND}")
}

/// Whose it is; `None` for a name of another form.
pub(super) fn owner(name: &[u8]) -> Option<u64> {
    let middle = core::str::from_utf8(name).ok()?.strip_prefix(BEFORE)?.strip_suffix(BEHIND)?;
    let (owner, number) = middle.split_once('-')?;
    let parsed = (owner.parse().ok()?, number.parse().ok()?);
    (self::name(parsed.0, parsed.1).as_bytes() == name).then_some(parsed.0)
}

pub(super) fn is_named(path: &Path) -> bool {
    path.file_name().is_some_and(|name| owner(name.as_bytes()).is_some())
}

/// A new name in the container, in the directory of `remote`.
pub(super) fn beside(mount: &Mount, remote: &[u8]) -> Remote {
    let number = mount.unfinished.fetch_add(1, Ordering::Relaxed);
    join(parent(remote), name(mount.begun_ns, number).as_bytes())
}

/// The directory that a path begins with, its slash included; empty if it has none.
pub(super) fn parent(remote: &[u8]) -> &[u8] {
    let end = remote.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    &remote[..end]
}

/// Removes from a directory of the container what earlier mounts have left there. Where others may be at work, it stays.
pub(super) fn clear(dir: &Dir, remote: &[u8]) -> Result<()> {
    let mount = dir.mount();
    if mount.is_shared() {
        return Ok(());
    }
    let at = if remote.is_empty() { dir.clone() } else { dir.open_dir(remote)? };
    let names = match at.names() {
        // Who may only write has to leave it.
        Err(Error::NoPermission) => return Ok(()),
        other => other?,
    };
    for name in names.iter().filter(|name| owner(name).is_some_and(|owner| owner != mount.begun_ns)) {
        match at.unlink(name) {
            // Gone, or somebody else's.
            Err(Error::NotFound | Error::IsDirectory | Error::NoPermission | Error::NotPermitted) => {}
            other => other?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_form_are_taken_for_unfinished() {
        assert_eq!(owner(name(17, 4).as_bytes()), Some(17));
        for other in
            [".dolmen-1.unfinished", ".dolmen-1-2", "dolmen-1-2.unfinished", ".dolmen-01-2.unfinished", ""]
        {
            assert_eq!(owner(other.as_bytes()), None, "{other}");
        }
        assert_eq!((parent(b"/a/b"), parent(b"/a"), parent(b"a")), (&b"/a/"[..], &b"/"[..], &b""[..]));
    }
}
