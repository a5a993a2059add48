//! Users and groups of this machine: their names, and whose a process or a directory is.

use crate::error::{Error, Op, Result};
use core::ffi::{CStr, c_char};
use rustix::fd::{AsFd, AsRawFd};
use std::ffi::CString;
use std::path::Path;

/// Room for what the system knows of one user or group.
const ENTRY_BYTES: usize = 64 << 10;

/// Groups that one process may be in: Linux has no more (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 65_536;

/// The name of a user; `None` if the machine knows none.
#[must_use]
pub fn user_name(uid: u32) -> Option<String> {
    let mut room: Vec<c_char> = vec![0; ENTRY_BYTES];
    let mut entry = core::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut found = core::ptr::null_mut();
    let (to, len) = (room.as_mut_ptr(), room.len());
    // SAFETY: entry, room and result are ours for the call, with their true sizes.
    let failed = unsafe { libc::getpwuid_r(uid, entry.as_mut_ptr(), to, len, &raw mut found) };
    if failed != 0 || found.is_null() {
        return None;
    }
    // SAFETY: the call has found an entry, and filled ours.
    name_of(unsafe { (*found).pw_name })
}

/// The name of a group; `None` if the machine knows none.
#[must_use]
pub fn group_name(gid: u32) -> Option<String> {
    let mut room: Vec<c_char> = vec![0; ENTRY_BYTES];
    let mut entry = core::mem::MaybeUninit::<libc::group>::uninit();
    let mut found = core::ptr::null_mut();
    let (to, len) = (room.as_mut_ptr(), room.len());
    // SAFETY: as in `user_name`.
    let failed = unsafe { libc::getgrgid_r(gid, entry.as_mut_ptr(), to, len, &raw mut found) };
    if failed != 0 || found.is_null() {
        return None;
    }
    // SAFETY: as in `user_name`.
    name_of(unsafe { (*found).gr_name })
}

/// A user as access control lists name him: `NAME@`, or his number if the machine has no name for him.
#[must_use]
pub fn user_principal(uid: u32) -> String {
    format!("{}@", user_name(uid).unwrap_or_else(|| uid.to_string()))
}

/// A group, in the same way.
#[must_use]
pub fn group_principal(gid: u32) -> String {
    format!("{}@", group_name(gid).unwrap_or_else(|| gid.to_string()))
}

/// The number of a user, and of his group, by his name; `None` if the machine knows none.
#[must_use]
pub fn user_named(name: &str) -> Option<(u32, u32)> {
    let name = CString::new(name).ok()?;
    let mut room: Vec<c_char> = vec![0; ENTRY_BYTES];
    let mut entry = core::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut found = core::ptr::null_mut();
    let (to, len) = (room.as_mut_ptr(), room.len());
    // SAFETY: as in `user_name`, and the name ends with its zero.
    let failed = unsafe { libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), to, len, &raw mut found) };
    if failed != 0 || found.is_null() {
        return None;
    }
    // SAFETY: the call has found an entry, and filled ours.
    let entry = unsafe { entry.assume_init() };
    Some((entry.pw_uid, entry.pw_gid))
}

/// The number of a group by its name; `None` if the machine knows none.
#[must_use]
pub fn group_named(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let mut room: Vec<c_char> = vec![0; ENTRY_BYTES];
    let mut entry = core::mem::MaybeUninit::<libc::group>::uninit();
    let mut found = core::ptr::null_mut();
    let (to, len) = (room.as_mut_ptr(), room.len());
    // SAFETY: as in `user_named`.
    let failed = unsafe { libc::getgrnam_r(name.as_ptr(), entry.as_mut_ptr(), to, len, &raw mut found) };
    if failed != 0 || found.is_null() {
        return None;
    }
    // SAFETY: as in `user_named`.
    Some(unsafe { entry.assume_init() }.gr_gid)
}

/// Whether others than its owner may read or change a file.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Io`].
pub fn is_open_to_others(path: &Path) -> Result<bool> {
    let failed = |errno| Error::from_errno(Op::Stat, &path.display().to_string(), 0, errno);
    Ok(rustix::fs::stat(path).map_err(failed)?.st_mode & 0o077 != 0)
}

fn name_of(name: *const c_char) -> Option<String> {
    // SAFETY: the system has written a name with its zero into the caller's room, which lives still.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().ok().map(str::to_owned)
}

/// User and group that a directory belongs to.
///
/// # Errors
/// [`Error::Io`].
pub fn owner_of(path: &Path) -> Result<(u32, u32)> {
    let failed = |errno| Error::from_errno(Op::Open, &path.display().to_string(), 0, errno);
    let stat = rustix::fs::stat(path).map_err(failed)?;
    Ok((stat.st_uid, stat.st_gid))
}

/// Supplementary groups of whoever has connected a Unix socket, as they were then; none where the kernel does not say.
pub(crate) fn peer_groups(socket: &impl AsFd) -> Vec<u32> {
    let mut groups = vec![0_u32; GROUPS_MAX];
    let size = size_of_val(groups.as_slice());
    let mut len = libc::socklen_t::try_from(size).expect("256 KiB");
    let fd = socket.as_fd().as_raw_fd();
    let to = groups.as_mut_ptr().cast();
    // SAFETY: the room is ours for the call, and as long as is said.
    let failed = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERGROUPS, to, &raw mut len) };
    groups.truncate(if failed == 0 { len as usize / size_of::<u32>() } else { 0 });
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_numbers_and_back() {
        let (uid, gid) = user_named("root").unwrap();
        assert_eq!((user_name(uid).as_deref(), gid), (Some("root"), 0));
        assert_eq!(group_named(&group_name(0).unwrap()), Some(0));
        for nobody in ["no such name", "a\0b", ""] {
            assert_eq!((user_named(nobody), group_named(nobody)), (None, None), "{nobody:?}");
        }
    }

    #[test]
    fn root_has_a_name_and_nobody_has_that_of_a_number_too_far() {
        assert_eq!(user_name(0).as_deref(), Some("root"));
        assert_eq!(group_name(0).as_deref(), Some("root"));
        assert_eq!((user_name(4_000_000_123), group_name(4_000_000_123)), (None, None));
        let (uid, _) = owner_of(Path::new("/")).unwrap();
        assert_eq!(uid, 0);
        assert!(owner_of(Path::new("/no/such/directory")).is_err());
    }
}
