//! What the kernel says and hears over the device: requests are read with limits, replies are written. Nothing here asks a
//! store, and no bytes make it panic.
//!
//! Integers are in the machine's own order there, which is little-endian on every machine that this program runs on; see
//! `linux/fuse.h` for the numbers.

pub(crate) mod init;
pub(crate) mod notify;
pub(crate) mod op;
pub mod reply;
pub mod request;

/// The longest write and read of one request.
pub const DATA_BYTES_MAX: u32 = 1 << 20;

/// What one request may take: the longest write and its head, with room for names and an extended attribute.
pub const REQUEST_BYTES_MAX: usize = (1 << 20) + (1 << 17);

/// The root directory's number.
pub(crate) const ROOT: u64 = 1;

/// What somebody else has locked, or cannot be locked yet, is answered with: `EINPROGRESS`, which no program is ever told.
pub(crate) const LATER: i32 = 115;

/// Linux's numbers that the file system's own table does not have.
pub(crate) mod errno {
    pub(crate) const EINTR: i32 = 4;
    pub(crate) const ENFILE: i32 = 23;
    pub(crate) const ENOLCK: i32 = 37;
    pub(crate) const ENOSYS: i32 = 38;
    pub(crate) const EOPNOTSUPP: i32 = 95;
    pub(crate) const ERANGE: i32 = 34;
    pub(crate) const EPROTO: i32 = 71;
}

/// The number of four bytes there, if there are so many.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

/// The number of eight bytes there.
pub(crate) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}
