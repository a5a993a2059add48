//! libdfs and libduns: files and directories in a container, and paths that name containers.
//!
//! What a C program holds of a mount, an open file, or a filter is a pointer that leads nowhere: a number of
//! [`table`], so that one that was released is refused and not followed.
//!
//! Every function answers 0 or a positive errno.

mod attrs;
mod blob;
mod check;
mod entry;
mod filter;
mod io;
mod list;
mod mount;
mod obj;
mod parts;
mod stat;
mod sys;
mod table;
mod uns;

use crate::error::Errno;
use crate::error::{Der, PosixResult};

pub(crate) use mount::evict;
pub(crate) use table::{Locked, clear, forget, hold, renew};

impl From<dolmen_dfs::Error> for Errno {
    fn from(error: dolmen_dfs::Error) -> Self {
        match error {
            // What may not be changed is refused as what the caller may not do, as by DAOS.
            dolmen_dfs::Error::ReadOnly => Self(libc::EPERM),
            other => Self(other.errno()),
        }
    }
}

impl From<dolmen_types::Error> for Errno {
    fn from(error: dolmen_types::Error) -> Self {
        Der::from(error).into()
    }
}

impl From<dolmen_types::Invalid> for Errno {
    fn from(error: dolmen_types::Invalid) -> Self {
        Der::from(error).into()
    }
}

const EINVAL: Errno = Errno(libc::EINVAL);
const ENOENT: Errno = Errno(libc::ENOENT);
const ENOTDIR: Errno = Errno(libc::ENOTDIR);
const EPERM: Errno = Errno(libc::EPERM);

/// A `usize` as a C program gave it in 64 bits.
fn size(bytes: u64) -> PosixResult<usize> {
    usize::try_from(bytes).map_err(|_wide| EINVAL)
}
