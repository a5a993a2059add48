//! Contents of open files.

use crate::memory;
use crate::next::next;
use crate::open::{Open, returned, with};
use crate::report::Kind;
use core::ffi::{c_int, c_void};
use libc::{iovec, off_t, size_t, ssize_t};

macro_rules! data {
    ($($name:ident($($arg:ident: $of:ty),*) -> $ret:ty: $kind:ident, |$open:ident| $act:expr;)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(fd: c_int $(, $arg: $of)*) -> $ret {
            match with(fd, Kind::$kind, |$open: &Open| $act) {
                Some(done) => returned(done),
                None => next!($name(fd: c_int $(, $arg: $of)*) -> $ret),
            }
        })*
    };
}

data! {
    read(buf: *mut c_void, len: size_t) -> ssize_t: Read, |open| open.read(None, memory::room(buf, len)?);
    pread(buf: *mut c_void, len: size_t, at: off_t) -> ssize_t: Read, |open| open.read(Some(at), memory::room(buf, len)?);
    pread64(buf: *mut c_void, len: size_t, at: off_t) -> ssize_t: Read, |open| open.read(Some(at), memory::room(buf, len)?);
    __read_chk(buf: *mut c_void, len: size_t, room: size_t) -> ssize_t: Read, |open| open.read(None, memory::room(buf, len.min(room))?);
    __pread_chk(buf: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t: Read, |open| open.read(Some(at), memory::room(buf, len.min(room))?);
    __pread64_chk(buf: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t: Read, |open| open.read(Some(at), memory::room(buf, len.min(room))?);
    readv(iov: *const iovec, count: c_int) -> ssize_t: Read, |open| open.read_vector(None, iov, count);
    preadv(iov: *const iovec, count: c_int, at: off_t) -> ssize_t: Read, |open| open.read_vector(Some(at), iov, count);
    preadv64(iov: *const iovec, count: c_int, at: off_t) -> ssize_t: Read, |open| open.read_vector(Some(at), iov, count);
    write(buf: *const c_void, len: size_t) -> ssize_t: Write, |open| open.write(None, memory::bytes(buf, len)?);
    pwrite(buf: *const c_void, len: size_t, at: off_t) -> ssize_t: Write, |open| open.write(Some(at), memory::bytes(buf, len)?);
    pwrite64(buf: *const c_void, len: size_t, at: off_t) -> ssize_t: Write, |open| open.write(Some(at), memory::bytes(buf, len)?);
    writev(iov: *const iovec, count: c_int) -> ssize_t: Write, |open| open.write_vector(None, iov, count);
    pwritev(iov: *const iovec, count: c_int, at: off_t) -> ssize_t: Write, |open| open.write_vector(Some(at), iov, count);
    pwritev64(iov: *const iovec, count: c_int, at: off_t) -> ssize_t: Write, |open| open.write_vector(Some(at), iov, count);
    lseek(by: off_t, whence: c_int) -> off_t: Seek, |open| open.seek(by, whence);
    lseek64(by: off_t, whence: c_int) -> off_t: Seek, |open| open.seek(by, whence);
    ftruncate(len: off_t) -> c_int: Other, |open| open.set_len(len);
    ftruncate64(len: off_t) -> c_int: Other, |open| open.set_len(len);
    fsync() -> c_int: Other, |open| open.sync();
    fdatasync() -> c_int: Other, |open| open.sync();
    isatty() -> c_int: Other, |_open| { crate::guard::set_errno(libc::ENOTTY); Ok(0) };
}

/// It is advice, and there is no page cache to be advised.
#[unsafe(no_mangle)]
extern "C" fn posix_fadvise(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int {
    let told = with(fd, Kind::Other, |_open| Ok((0..=5).contains(&advice) && len >= 0));
    match told {
        Some(Ok(is_advice)) => {
            if is_advice {
                0
            } else {
                libc::EINVAL
            }
        }
        Some(Err(errno)) => errno,
        None => next!(posix_fadvise(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int),
    }
}

#[unsafe(no_mangle)]
extern "C" fn posix_fadvise64(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int {
    posix_fadvise(fd, offset, len, advice)
}
