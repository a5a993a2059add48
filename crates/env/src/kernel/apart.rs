//! A thread that waits in the kernel for requests which its own process is to answer, and can be killed with it all the same.
//!
//! When a process is killed the kernel gives up its mounts as soon as nobody has their device any more. A thread that waits in the
//! kernel for a page does not end, and with it the descriptors that it shares with the others do not: the page's request would wait
//! for the device, and the device for the thread, for ever. So such a thread has descriptors of its own, and a device of its own
//! for the same mount: that of the others goes when they end, and takes the requests with it which they had to answer.

use super::{DEVICE, KernelDevice};
use crate::error::{Error, Op, Result};
use core::ffi::{c_int, c_uint, c_ulong};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::sync::Arc;

/// `FUSE_DEV_IOC_CLONE`: makes a device that was just opened one of the mount whose device it is given.
const CLONE: c_ulong = 0x8004_e500;

/// Standard input, output and errors stay.
const FIRST_OTHER: c_int = 3;

impl KernelDevice {
    /// A device of its own for this thread, which from then on has no descriptors but it and the standard ones: it must be new, and
    /// have nothing else that it would use or close. It shares nothing that is opened later, either.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses it; then the thread is as it was, or has lost its descriptors as well.
    pub fn set_apart(&self) -> Result<Self> {
        let failed = |errno| Error::from_errno(Op::Open, DEVICE, 0, errno);
        let fd = open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let last_error = || Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
        let ours = self.fd.as_raw_fd();
        // SAFETY: it reads a descriptor's number, and both descriptors are open.
        let cloned = unsafe { libc::ioctl(fd.as_raw_fd(), CLONE as _, &raw const ours) };
        if cloned != 0 {
            return Err(failed(last_error()));
        }
        // SAFETY: the thread gets a copy of the table of descriptors; nobody else's changes.
        let unshared = unsafe { libc::unshare(libc::CLONE_FILES) };
        if unshared != 0 {
            return Err(failed(last_error()));
        }
        close_others(&fd);
        Ok(Self { fd: Arc::new(fd) })
    }
}

/// REQUIRES: the table of descriptors is this thread's alone, and it has none of those as a value that closes it.
fn close_others(kept: &OwnedFd) {
    let kept = kept.as_raw_fd();
    for (first, last) in [(FIRST_OTHER, kept - 1), (kept + 1, c_int::MAX)] {
        let (Ok(first), Ok(last)) = (c_uint::try_from(first), c_uint::try_from(last)) else { continue };
        if first <= last {
            // SAFETY: by what is required. Ignored: an older system knows no such call; then the thread keeps more than it needs.
            let _closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}
