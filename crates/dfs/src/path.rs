//! Paths as bytes: checks of names, and the walk that follows symbolic links.
//!
//! Invariants: a [`Walk`] yields at most `PATH_BYTES_MAX` bytes of components a path and expands at most
//! `SYMLINKS_MAX` symbolic links, so every resolution ends.

use crate::error::{Error, Result, What};
use crate::layout::{NAME_BYTES_MAX, PATH_BYTES_MAX};
use smallvec::SmallVec;

/// Symbolic links followed in one resolution: as Linux.
pub(crate) const SYMLINKS_MAX: u32 = 40;

/// Checks that `name` can be the name of an entry.
///
/// # Errors
/// `NameTooLong`, or `Invalid(Name)` if it is empty, `.`, `..`, or holds a slash or zero byte.
pub fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    if name.is_empty() || name == b"." || name == b".." || name.iter().any(|&b| b == b'/' || b == 0) {
        return Err(What::Name.into());
    }
    Ok(())
}

/// One step of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step<'a> {
    /// Go down to this entry.
    Down(&'a [u8]),
    /// Go up.
    Up,
    /// Begin again at the root.
    Root,
    /// Arrived.
    Done,
}

/// A path being resolved: what is left of it, also after symbolic links were put in its place.
#[derive(Debug)]
pub(crate) struct Walk {
    rest: SmallVec<[u8; 256]>,
    at: usize,
    links: u32,
    from_root: bool,
}

impl Walk {
    /// A walk along `path`.
    ///
    /// # Errors
    /// `NotFound` for an empty path, `NameTooLong` above `PATH_BYTES_MAX`, `Invalid(Name)` for a zero byte.
    pub(crate) fn new(path: &[u8]) -> Result<Self> {
        check_path(path)?;
        Ok(Self { rest: SmallVec::from_slice(path), at: 0, links: 0, from_root: path[0] == b'/' })
    }

    /// The next step.
    ///
    /// # Errors
    /// `NameTooLong` for a component of more than 255 bytes.
    pub(crate) fn step(&mut self) -> Result<Step<'_>> {
        if core::mem::take(&mut self.from_root) {
            return Ok(Step::Root);
        }
        loop {
            let start = self.at + self.rest[self.at..].iter().take_while(|&&b| b == b'/').count();
            let len = self.rest[start..].iter().take_while(|&&b| b != b'/').count();
            self.at = start + len;
            match &self.rest[start..self.at] {
                b"" => return Ok(Step::Done),
                b"." => {}
                b".." => return Ok(Step::Up),
                name if name.len() > NAME_BYTES_MAX => return Err(Error::NameTooLong),
                _ => return Ok(Step::Down(&self.rest[start..start + len])),
            }
        }
    }

    /// Whether only slashes (and `.`) are left, which make the last component a directory if there are any.
    #[must_use]
    pub(crate) fn is_last(&self) -> bool {
        self.rest[self.at..].split(|&b| b == b'/').all(|part| part.is_empty() || part == b".")
    }

    /// Whether the component just yielded must be a directory because a slash follows it.
    #[must_use]
    pub(crate) fn needs_dir(&self) -> bool {
        self.at < self.rest.len()
    }

    /// Puts a symbolic link's target in the place of the component just yielded.
    ///
    /// # Errors
    /// `SymlinkLoop` after 40 of them, `NameTooLong` if what is then left exceeds a path.
    pub(crate) fn follow(&mut self, target: &[u8]) -> Result<()> {
        self.links += 1;
        if self.links > SYMLINKS_MAX {
            return Err(Error::SymlinkLoop);
        }
        check_path(target)?;
        if target.len() + self.rest.len() - self.at > PATH_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        self.rest.drain(..self.at);
        self.rest.insert_many(0, target.iter().copied());
        self.at = 0;
        self.from_root = target[0] == b'/';
        Ok(())
    }
}

fn check_path(path: &[u8]) -> Result<()> {
    if path.is_empty() {
        return Err(Error::NotFound);
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    if path.contains(&0) {
        return Err(What::Name.into());
    }
    Ok(())
}

/// Splits a path into its parent and its last name, as calls that make or remove an entry need it.
///
/// Trailing slashes are cut off; `true` says that there were some. The last name may be `.` or `..`, or empty
/// for the root: the caller's `check_name` refuses them.
///
/// # Errors
/// As `Walk::new`.
pub(crate) fn split(path: &[u8]) -> Result<(&[u8], &[u8], bool)> {
    check_path(path)?;
    let end = path.len() - path.iter().rev().take_while(|&&b| b == b'/').count();
    let name_at = path[..end].iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    Ok((&path[..name_at], &path[name_at..end], end < path.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(path: &str) -> Vec<String> {
        let mut walk = Walk::new(path.as_bytes()).unwrap();
        let mut out = Vec::new();
        loop {
            match walk.step().unwrap() {
                Step::Down(name) => out.push(String::from_utf8(name.to_vec()).unwrap()),
                Step::Up => out.push("^".into()),
                Step::Root => out.push("/".into()),
                Step::Done => return out,
            }
        }
    }

    #[test]
    fn walk_yields_components_ups_and_the_root() {
        assert_eq!(steps("/a//b/./c/../d/"), ["/", "a", "b", "c", "^", "d"]);
        assert_eq!(steps("x"), ["x"]);
        assert_eq!(steps("///"), ["/"]);
        assert_eq!(Walk::new(b"").unwrap_err(), Error::NotFound);
        assert_eq!(Walk::new(&[b'a'; 4096]).unwrap_err(), Error::NameTooLong);
        assert_eq!(Walk::new(b"a\0b").unwrap_err(), Error::Invalid(What::Name));
        assert_eq!(Walk::new(&[b'a'; 256]).unwrap().step().unwrap_err(), Error::NameTooLong);
    }

    #[test]
    fn symbolic_link_takes_the_place_of_its_component() {
        let mut walk = Walk::new(b"a/link/b").unwrap();
        assert_eq!(walk.step(), Ok(Step::Down(b"a")));
        assert_eq!(walk.step(), Ok(Step::Down(b"link")));
        assert!(!walk.is_last());
        walk.follow(b"/x/y").unwrap();
        assert_eq!(walk.step(), Ok(Step::Root));
        assert_eq!(walk.step(), Ok(Step::Down(b"x")));
        assert_eq!(walk.step(), Ok(Step::Down(b"y")));
        assert_eq!(walk.step(), Ok(Step::Down(b"b")));
        assert!(walk.is_last());
        assert_eq!(walk.step(), Ok(Step::Done));
    }

    #[test]
    fn walk_gives_up_after_40_symbolic_links_and_on_paths_that_grow() {
        let mut walk = Walk::new(b"l").unwrap();
        for _ in 0..SYMLINKS_MAX {
            walk.step().unwrap();
            walk.follow(b"l").unwrap();
        }
        walk.step().unwrap();
        assert_eq!(walk.follow(b"l"), Err(Error::SymlinkLoop));
        let mut long = Walk::new(format!("l/{}", "y/".repeat(1500)).as_bytes()).unwrap();
        long.step().unwrap();
        assert_eq!(long.follow("z/".repeat(1500).as_bytes()), Err(Error::NameTooLong));
    }

    #[test]
    fn split_gives_parent_name_and_trailing_slash() {
        assert_eq!(split(b"/a/b"), Ok((&b"/a/"[..], &b"b"[..], false)));
        assert_eq!(split(b"b//"), Ok((&b""[..], &b"b"[..], true)));
        assert_eq!(split(b"/"), Ok((&b""[..], &b""[..], true)));
        assert_eq!(check_name(b""), Err(Error::Invalid(What::Name)));
        assert_eq!(check_name(&[b'n'; 255]), Ok(()));
        assert_eq!(check_name(&[b'n'; 256]), Err(Error::NameTooLong));
    }
}
