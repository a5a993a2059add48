//! Empty files that say something to the next process: they stay when the one that made them dies.

use crate::error::{Error, Op, Result};
use rustix::fs::{Mode, OFlags, fsync, open, unlink};
use rustix::io::Errno;
use std::path::Path;

/// Makes a mark, durable; one that is there is left as it is.
///
/// # Errors
/// [`Error::Io`], also if something other than a file has the name.
pub fn put_mark(path: &Path) -> Result<()> {
    let name = path.display().to_string();
    let failed = |errno| Error::from_errno(Op::Create, &name, 0, errno);
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mark = open(path, flags, Mode::from_raw_mode(0o600)).map_err(failed)?;
    fsync(&mark).map_err(failed)?;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let above = open(above, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    above.and_then(fsync).map_err(failed)
}

/// Takes a mark away; none is no error.
///
/// # Errors
/// [`Error::Io`].
pub fn remove_mark(path: &Path) -> Result<()> {
    let name = path.display().to_string();
    match unlink(path) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(Error::from_errno(Op::Remove, &name, 0, errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_there_until_it_is_taken_away() {
        let path = std::env::temp_dir().join(format!("dolmen-mark-{}", std::process::id()));
        for _ in 0..2 {
            put_mark(&path).unwrap();
            assert!(path.is_file());
        }
        for _ in 0..2 {
            remove_mark(&path).unwrap();
            assert!(!path.exists());
        }
        let nowhere = path.join("below");
        assert!(put_mark(&nowhere).is_err(), "its directory is not there");
    }
}
