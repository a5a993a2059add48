//! Calls of the kernel for the library's own use, past all interception.

use crate::stream::Entry;
use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;

/// The number of the last failure.
fn failed() -> c_int {
    crate::guard::errno()
}

fn checked(returned: libc::c_long) -> Result<c_int, c_int> {
    match c_int::try_from(returned) {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err(failed()),
    }
}

/// A new descriptor of what is at `path`.
pub(crate) fn open_at(dir: c_int, path: &CStr, flags: c_int) -> Result<c_int, c_int> {
    // SAFETY: the path ends with a zero.
    checked(unsafe { libc::syscall(libc::SYS_openat, dir, path.as_ptr(), flags, 0) })
}

/// Gives a descriptor back.
pub(crate) fn close(fd: c_int) {
    // SAFETY: it takes any number.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// Makes `to` another number of what `from` is.
pub(crate) fn duplicate_to(from: c_int, to: c_int, flags: c_int) -> Result<c_int, c_int> {
    // SAFETY: it takes any numbers.
    checked(unsafe { libc::syscall(libc::SYS_dup3, from, to, flags) })
}

/// Whether the kernel lets the caller do this with what is at `path`, as whom he acts.
pub(crate) fn may(dir: c_int, path: &CStr, rights: c_int) -> bool {
    let flags = libc::AT_EACCESS | libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the path ends with a zero.
    checked(unsafe { libc::syscall(libc::SYS_faccessat2, dir, path.as_ptr(), rights, flags) }).is_ok()
}

/// Whether a descriptor is open.
pub(crate) fn is_open(fd: c_int) -> bool {
    // SAFETY: it takes any number.
    checked(unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD, 0) }).is_ok()
}

/// `FD_CLOEXEC` or 0.
pub(crate) fn descriptor_flags(fd: c_int) -> c_int {
    // SAFETY: it takes any number.
    checked(unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD, 0) }).unwrap_or(0)
}

/// Where the next read of the kernel's file begins.
pub(crate) fn seek(fd: c_int, offset: u64) {
    // SAFETY: it takes any numbers.
    unsafe { libc::syscall(libc::SYS_lseek, fd, offset, libc::SEEK_SET) };
}

/// Where that is.
pub(crate) fn place(fd: c_int) -> i64 {
    // SAFETY: it takes any numbers.
    unsafe { libc::syscall(libc::SYS_lseek, fd, 0, libc::SEEK_CUR) }
}

/// Reads of the kernel's file; how much.
pub(crate) fn read_at(fd: c_int, room: &mut [u8], at: u64) -> Result<usize, c_int> {
    // SAFETY: there is so much room.
    let read = unsafe { libc::syscall(libc::SYS_pread64, fd, room.as_mut_ptr(), room.len(), at) };
    usize::try_from(read).map_err(|_failed| failed())
}

/// Writes into the kernel's file; how much.
pub(crate) fn write_at(fd: c_int, bytes: &[u8], at: u64) -> Result<usize, c_int> {
    // SAFETY: there are so many bytes.
    let written = unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes.as_ptr(), bytes.len(), at) };
    usize::try_from(written).map_err(|_failed| failed())
}

/// A file that the kernel has open.
pub(crate) struct Theirs {
    pub(crate) fd: c_int,
    /// With which it was opened.
    pub(crate) flags: c_int,
    /// Of its mode, what it is.
    pub(crate) kind: u32,
    /// The device of its file system.
    pub(crate) dev: (u32, u32),
}

impl Theirs {
    /// # Errors
    /// `EBADF` if it is not open, or only a place.
    pub(crate) fn of(fd: c_int) -> Result<Self, c_int> {
        let flags = status_flags(fd)?;
        if flags & libc::O_PATH != 0 {
            return Err(libc::EBADF);
        }
        let found = statx(fd, c"", libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC, libc::STATX_TYPE)?;
        let kind = u32::from(found.stx_mode) & libc::S_IFMT;
        Ok(Self { fd, flags, kind, dev: (found.stx_dev_major, found.stx_dev_minor) })
    }

    /// Whether a program like the mount's answers for its file system.
    pub(crate) fn is_of_mount(&self) -> bool {
        const FUSE_MAGIC: libc::c_long = 0x6573_5546;
        let mut told = MaybeUninit::<libc::statfs>::zeroed();
        // SAFETY: there is room for the answer.
        let done = unsafe { libc::syscall(libc::SYS_fstatfs, self.fd, told.as_mut_ptr()) };
        // SAFETY: all zeros is one, and the kernel has written over that.
        done == 0 && unsafe { told.assume_init() }.f_type == FUSE_MAGIC
    }
}

/// What the kernel knows of what is at `path`.
pub(crate) fn statx(dir: c_int, path: &CStr, flags: c_int, mask: u32) -> Result<libc::statx, c_int> {
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path ends with a zero, and there is room for the answer.
    let done = unsafe { libc::syscall(libc::SYS_statx, dir, path.as_ptr(), flags, mask, found.as_mut_ptr()) };
    // SAFETY: all zeros is one, and the kernel has written over that.
    checked(done).map(|_| unsafe { found.assume_init() })
}

/// Has the kernel ask the mount for the attributes of an open file, instead of going by what it remembers.
pub(crate) fn refresh(fd: c_int) -> Result<libc::statx, c_int> {
    statx(fd, c"", libc::AT_EMPTY_PATH | libc::AT_STATX_FORCE_SYNC, libc::STATX_BASIC_STATS)
}

/// No entry of a directory.
pub(crate) fn no_entry() -> libc::dirent64 {
    // SAFETY: all zeros is one.
    unsafe { core::mem::zeroed() }
}

/// The entries of a directory by the kernel, but for `.` and `..`.
pub(crate) fn list(dir: c_int) -> Result<Vec<Entry>, c_int> {
    const INO: usize = 0;
    const LEN: usize = 16;
    const KIND: usize = 18;
    const NAME: usize = 19;
    let fd = open_at(dir, c".", libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC)?;
    let mut room = vec![0_u8; 1 << 15];
    let mut entries = Vec::new();
    let listed = loop {
        // SAFETY: there is so much room.
        let read = checked(unsafe { libc::syscall(libc::SYS_getdents64, fd, room.as_mut_ptr(), room.len()) });
        let len = match read {
            Ok(0) => break Ok(entries),
            Ok(len) => usize::try_from(len).unwrap_or(0),
            Err(errno) => break Err(errno),
        };
        let mut left = room.get(..len).unwrap_or(&[]);
        while let Some((head, _)) = left.split_first_chunk::<NAME>() {
            let ino = u64::from_le_bytes(core::array::from_fn(|at| head[INO + at]));
            let entry_len = usize::from(u16::from_le_bytes([head[LEN], head[LEN + 1]])).max(NAME);
            let name = left.get(NAME..entry_len).unwrap_or(&[]);
            let name = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
            if !matches!(name, b"" | b"." | b"..") {
                entries.push(Entry { ino, kind: head[KIND], name: name.into() });
            }
            left = left.get(entry_len..).unwrap_or(&[]);
        }
    };
    close(fd);
    listed
}

/// Flags of an open file.
pub(crate) fn status_flags(fd: c_int) -> Result<c_int, c_int> {
    // SAFETY: it takes any number.
    checked(unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL, 0) })
}

/// Whether nothing was read of an open file yet.
pub(crate) fn is_at_start(fd: c_int) -> bool {
    // SAFETY: it takes any numbers.
    unsafe { libc::syscall(libc::SYS_lseek, fd, 0, libc::SEEK_CUR) == 0 }
}

/// What a symbolic link holds.
pub(crate) fn read_link(path: &CStr) -> Option<Vec<u8>> {
    let mut room = vec![0_u8; 4097];
    // SAFETY: the path ends with a zero, and there is so much room.
    let len = checked(unsafe {
        libc::syscall(libc::SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), room.as_mut_ptr(), room.len())
    });
    let len = usize::try_from(len.ok()?).ok().filter(|len| *len < room.len())?;
    room.truncate(len);
    Some(room)
}

/// An extended attribute.
pub(crate) fn attribute(path: &CStr, name: &CStr) -> Option<Vec<u8>> {
    let mut room = vec![0_u8; 4096];
    let to = room.as_mut_ptr();
    // SAFETY: both strings end with a zero, and there is so much room.
    let len =
        checked(unsafe { libc::syscall(libc::SYS_getxattr, path.as_ptr(), name.as_ptr(), to, room.len()) });
    room.truncate(usize::try_from(len.ok()?).ok()?);
    Some(room)
}

/// User and group as whom the process acts, and the groups that it is in.
pub(crate) fn identity() -> (u32, u32, Vec<u32>) {
    // SAFETY: it touches no memory.
    let uid = unsafe { libc::geteuid() };
    // SAFETY: as above.
    let gid = unsafe { libc::getegid() };
    let mut groups = vec![0; 65_536];
    // SAFETY: there is room for as many as there can be.
    let count = unsafe { libc::getgroups(65_536, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).unwrap_or(0));
    (uid, gid, groups)
}

/// Whether the process acts as whom it belongs to.
pub(crate) fn is_itself() -> bool {
    // SAFETY: it touches no memory.
    let uid = unsafe { libc::getuid() };
    // SAFETY: as above.
    let gid = unsafe { libc::getgid() };
    // SAFETY: as above.
    let is_user = uid == unsafe { libc::geteuid() };
    // SAFETY: as above.
    is_user && gid == unsafe { libc::getegid() }
}

/// The process's file mode creation mask.
pub(crate) fn umask() -> u32 {
    const USUAL: u32 = 0o022;
    let Ok(text) = std::fs::read_to_string("/proc/self/status") else { return USUAL };
    let told = text.lines().find_map(|line| line.strip_prefix("Umask:"));
    told.and_then(|told| u32::from_str_radix(told.trim(), 8).ok()).unwrap_or(USUAL)
}

/// A file under a number, and which one it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    fd: c_int,
    dev: (u32, u32),
    ino: u64,
}

impl Kept {
    fn of(fd: c_int) -> Option<Self> {
        let found = statx(fd, c"", libc::AT_EMPTY_PATH, libc::STATX_INO).ok()?;
        Some(Self { fd, dev: (found.stx_dev_major, found.stx_dev_minor), ino: found.stx_ino })
    }
}

/// The program's standard error under a number that programs do not count on: many close their own before they end.
pub(crate) fn kept_error() -> Option<Kept> {
    const HIGH: c_int = 100;
    // SAFETY: it takes any number.
    let made = checked(unsafe { libc::syscall(libc::SYS_fcntl, 2, libc::F_DUPFD_CLOEXEC, HIGH) });
    Kept::of(c_int::try_from(made.ok()?).ok()?)
}

/// Writes a line to the program's standard error, as it was when it was `kept` unless something else has its number by now.
pub(crate) fn tell(line: &str, kept: Option<Kept>) {
    let fd = kept.filter(|kept| Kept::of(kept.fd) == Some(*kept)).map_or(2, |kept| kept.fd);
    // SAFETY: the bytes are ours.
    unsafe { libc::syscall(libc::SYS_write, fd, line.as_ptr(), line.len()) };
}
