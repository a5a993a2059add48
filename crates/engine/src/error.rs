//! Errors of the device as errors of the target.

use dolmen_env::Disk;
use dolmen_types::{Error, Place, TargetNo};

/// What a caller of the target sees of a device's error.
pub(crate) fn disk_error(target: TargetNo, error: &dolmen_env::Error) -> Error {
    match error {
        dolmen_env::Error::NoSpace { needed_bytes, .. } => {
            Error::NoSpace { target, needed_bytes: *needed_bytes }
        }
        dolmen_env::Error::Io { errno, .. } => Error::Io { target, errno: errno.raw_os_error() },
        dolmen_env::Error::NotFound { .. }
        | dolmen_env::Error::Exists { .. }
        | dolmen_env::Error::Owned { .. }
        | dolmen_env::Error::BadName { .. }
        | dolmen_env::Error::Setting { .. }
        | dolmen_env::Error::Declined { .. }
        | dolmen_env::Error::NotOpen { .. }
        | dolmen_env::Error::Busy { .. }
        | dolmen_env::Error::OutOfRange { .. }
        | dolmen_env::Error::Crashed => Error::Io { target, errno: EIO },
    }
}

/// The system's number for an input/output error.
const EIO: i32 = 5;
/// The system's number for a sector that holds nothing that can be read.
const ENODATA: i32 = 61;
/// The system's number for bytes that do not match the file system's own checksum.
const EUCLEAN: i32 = 117;
/// The system's number for a full device.
const ENOSPC: i32 = 28;

/// Whether a device does not give what it was asked for: to a walk over everything that place is damaged, and what comes
/// behind it is read all the same.
pub(crate) fn is_unreadable(error: &Error) -> bool {
    matches!(error, Error::Io { errno: EIO | ENODATA | EUCLEAN, .. })
}

/// What a failed flush answers those who waited for it: `NoSpace` would say that nothing of theirs is there.
pub(crate) fn of_flush(error: Error) -> Error {
    match error {
        Error::NoSpace { target, .. } => Error::Io { target, errno: ENOSPC },
        other => other,
    }
}

/// A damaged record of the store itself.
pub(crate) fn corrupt(target: TargetNo, file: &'static str, number: u64, offset: u64) -> Error {
    Error::Corrupt { target, place: Box::new(Place::Record { file, number, offset }) }
}

/// Removes a file that a crash, or what was given up, may have left.
pub(crate) fn remove_if_there(disk: &mut dyn Disk, name: &str) -> dolmen_env::Result<()> {
    match disk.remove(name) {
        Err(error) if !error.is_not_found() => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
