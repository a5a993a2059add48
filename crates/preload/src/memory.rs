//! Addresses that a program hands over, and the only places where they are followed.
//!
//! The caller of a function answers for what its declaration says of its pointers, as it does to the C library; NULL is refused
//! here, or leaves the call to the kernel, which says so.

use core::ffi::{CStr, c_char, c_void};

/// The longest read or write of the kernel.
pub(crate) const TRANSFER_BYTES_MAX: usize = 0x7fff_f000;

/// The string at `text`; `None` for NULL.
pub(crate) fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: it is not NULL, and the caller says that it is a string.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Bytes to be written over.
///
/// # Errors
/// `EFAULT` for NULL.
pub(crate) fn room<'a>(buf: *mut c_void, len: usize) -> Result<&'a mut [u8], i32> {
    let len = len.min(TRANSFER_BYTES_MAX);
    match len {
        0 => Ok(&mut []),
        _ if buf.is_null() => Err(libc::EFAULT),
        // SAFETY: it is not NULL, and the caller says that there is so much room, which nobody else uses.
        _ => Ok(unsafe { core::slice::from_raw_parts_mut(buf.cast(), len) }),
    }
}

/// Bytes to be read.
///
/// # Errors
/// `EFAULT` for NULL.
pub(crate) fn bytes<'a>(buf: *const c_void, len: usize) -> Result<&'a [u8], i32> {
    let len = len.min(TRANSFER_BYTES_MAX);
    match len {
        0 => Ok(&[]),
        _ if buf.is_null() => Err(libc::EFAULT),
        // SAFETY: it is not NULL, and the caller says that so much is there.
        _ => Ok(unsafe { core::slice::from_raw_parts(buf.cast(), len) }),
    }
}

/// The buffers of a vector, and how many bytes they are together.
///
/// # Errors
/// `EINVAL` for a count or a length that the kernel refuses, `EFAULT` for NULL.
pub(crate) fn vector<'a>(iov: *const libc::iovec, count: i32) -> Result<(&'a [libc::iovec], usize), i32> {
    const COUNT_MAX: usize = 1024;
    let count = usize::try_from(count).ok().filter(|count| *count <= COUNT_MAX).ok_or(libc::EINVAL)?;
    if count == 0 {
        return Ok((&[], 0));
    }
    if iov.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: it is not NULL, and the caller says that there are so many.
    let parts = unsafe { core::slice::from_raw_parts(iov, count) };
    let mut sum = 0_usize;
    for part in parts {
        if isize::try_from(part.iov_len).is_err() {
            return Err(libc::EINVAL);
        }
        sum = sum.saturating_add(part.iov_len).min(TRANSFER_BYTES_MAX);
    }
    Ok((parts, sum))
}

/// Writes `value` to `to`.
///
/// # Errors
/// `EFAULT` for NULL.
pub(crate) fn put<T>(to: *mut T, value: T) -> Result<(), i32> {
    if to.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: it is not NULL, and the caller says that there is room for one.
    unsafe { to.write(value) };
    Ok(())
}

/// The value at `from`; `None` for NULL.
pub(crate) fn get<T: Copy>(from: *const T) -> Option<T> {
    // SAFETY: it is not NULL, and the caller says that there is one.
    (!from.is_null()).then(|| unsafe { from.read() })
}

/// So many values; none for NULL.
pub(crate) fn list<'a, T: Copy>(from: *const T, count: usize) -> &'a [T] {
    if from.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: it is not NULL, and the caller says that there are so many.
    unsafe { core::slice::from_raw_parts(from, count) }
}
