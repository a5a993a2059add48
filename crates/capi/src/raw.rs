//! Addresses that a C program hands over, and the only places where they are followed.
//!
//! Each type is exactly a pointer, so that functions take it as their parameter; none can be made but by a C caller or by
//! the constructors here. That is what makes their methods sound: the caller of an exported function answers for it that a
//! pointer is NULL or leads to what the header says, for as long as the call (or its event) lasts. NULL, wrong alignment
//! and lengths that no memory has are refused here.

use crate::error::{Der, Result};
use core::ffi::{CStr, c_char, c_void};

/// To be read: NULL, or so many values as the function's other parameters say.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

/// To be written, and read where the function says so.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

/// A string that ends with a zero.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

/// A string of this library that a C program reads.
#[repr(transparent)]
pub(crate) struct Name(*const c_char);

/// No string that the interface takes is longer: paths have 4096 bytes, lists of properties less than this.
const TEXT_BYTES_MAX: usize = 1 << 20;

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

// SAFETY: an address can be moved to another thread; that what it leads to is not used by two at a time is the C program's
// promise, as everywhere in this interface.
unsafe impl<T> Send for In<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Out<T> {}
// SAFETY: as above; whoever has a shared one copies the address.
unsafe impl<T> Sync for In<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Out<T> {}
// SAFETY: as above.
unsafe impl Send for Text {}

fn is_usable<T>(address: *const T, count: usize) -> bool {
    let fits = count.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= isize::MAX.unsigned_abs());
    !address.is_null() && address.is_aligned() && fits
}

impl<T: Copy> In<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The value.
    ///
    /// # Errors
    /// `INVAL` for NULL.
    pub(crate) fn get(self) -> Result<T> {
        if !is_usable(self.0, 1) {
            return Err(Der::INVAL);
        }
        // SAFETY: it is not NULL and aligned; that it leads to a `T` is the C caller's promise.
        Ok(unsafe { self.0.read() })
    }

    /// So many values; an empty list may be NULL.
    ///
    /// # Errors
    /// `INVAL` for NULL, or a count that no memory holds.
    pub(crate) fn list<'a>(self, count: usize) -> Result<&'a [T]> {
        if count == 0 {
            return Ok(&[]);
        }
        if !is_usable(self.0, count) {
            return Err(Der::INVAL);
        }
        // SAFETY: it is not NULL, aligned, and no longer than memory; that it leads to so many values which nobody
        // changes during the operation is the C caller's promise.
        Ok(unsafe { core::slice::from_raw_parts(self.0, count) })
    }
}

impl<T: Copy> Out<T> {
    /// Nowhere.
    pub(crate) const NULL: Self = Self(core::ptr::null_mut());

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address, as a number to compare by.
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    /// What is there.
    ///
    /// # Errors
    /// `INVAL` for NULL.
    pub(crate) fn get(self) -> Result<T> {
        In(self.0.cast_const()).get()
    }

    /// So many values that are there.
    ///
    /// # Errors
    /// As [`In::list`].
    pub(crate) fn list<'a>(self, count: usize) -> Result<&'a [T]> {
        In(self.0.cast_const()).list(count)
    }

    /// So many values, to be written over; an empty list may be NULL.
    ///
    /// # Errors
    /// As [`In::list`].
    pub(crate) fn list_mut<'a>(self, count: usize) -> Result<&'a mut [T]> {
        if count == 0 {
            return Ok(&mut []);
        }
        if !is_usable(self.0, count) {
            return Err(Der::INVAL);
        }
        // SAFETY: it is not NULL, aligned, and no longer than memory; that there is room for so many values, which nobody
        // else looks at during the operation, is the C caller's promise.
        Ok(unsafe { core::slice::from_raw_parts_mut(self.0, count) })
    }

    /// Writes a value.
    ///
    /// # Errors
    /// `INVAL` for NULL.
    pub(crate) fn set(self, value: T) -> Result<()> {
        if !is_usable(self.0, 1) {
            return Err(Der::INVAL);
        }
        // SAFETY: it is not NULL and aligned; that there is room for a `T` is the C caller's promise.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Writes a value, unless the caller does not want it.
    pub(crate) fn set_if_wanted(self, value: T) {
        if is_usable(self.0, 1) {
            // SAFETY: as in `set`.
            unsafe { self.0.write(value) };
        }
    }

    /// Refuses NULL before anything is done.
    ///
    /// # Errors
    /// `INVAL`.
    pub(crate) fn check(self) -> Result<Self> {
        if is_usable(self.0, 1) { Ok(self) } else { Err(Der::INVAL) }
    }

    /// The place of a later value of a list.
    ///
    /// REQUIRES: the list has more than `index` values.
    pub(crate) fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// Writes values one after the other.
    ///
    /// REQUIRES: there is room for all of them.
    ///
    /// # Errors
    /// `INVAL` for NULL, unless there are none.
    pub(crate) fn copy_from(self, values: &[T]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        if !is_usable(self.0, values.len()) {
            return Err(Der::INVAL);
        }
        // SAFETY: both are valid for so many values, ours by its type and the C caller's by its promise; ours is not
        // memory of the caller.
        unsafe { core::ptr::copy_nonoverlapping(values.as_ptr(), self.0, values.len()) };
        Ok(())
    }

    /// The bytes at the same address.
    pub(crate) fn bytes(self) -> Out<u8> {
        Out(self.0.cast())
    }

    /// The same address, to be read only.
    pub(crate) fn as_in(self) -> In<T> {
        In(self.0.cast_const())
    }

    /// The address as C has it.
    pub(crate) fn as_ptr(self) -> *mut T {
        self.0
    }

    /// REQUIRES: `address` came from a C program, or from the allocator for it.
    pub(crate) fn of(address: *mut T) -> Self {
        Self(address)
    }
}

impl Text {
    /// REQUIRES: `address` came from a C program.
    pub(crate) fn of(address: *const c_char) -> Self {
        Self(address)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address as C has it.
    pub(crate) fn as_ptr(self) -> *const c_char {
        self.0
    }

    /// The bytes before the zero.
    ///
    /// # Errors
    /// `INVAL` for NULL, or for more than a mebibyte.
    pub(crate) fn bytes<'a>(self) -> Result<&'a [u8]> {
        if self.0.is_null() {
            return Err(Der::INVAL);
        }
        // SAFETY: it is not NULL; that it leads to a string which nobody changes during the call is the C caller's
        // promise, and no more than the bound is looked at.
        let len = unsafe { libc::strnlen(self.0, TEXT_BYTES_MAX) };
        if len == TEXT_BYTES_MAX {
            return Err(Der::INVAL);
        }
        In(self.0.cast::<u8>()).list(len)
    }

    /// The text.
    ///
    /// # Errors
    /// As [`Text::bytes`]; `INVAL` if it is not UTF-8.
    pub(crate) fn str<'a>(self) -> Result<&'a str> {
        core::str::from_utf8(self.bytes()?).map_err(|_other| Der::INVAL)
    }

    /// The text, if there is one.
    ///
    /// # Errors
    /// As [`Text::str`], but for NULL.
    pub(crate) fn str_if_any<'a>(self) -> Result<Option<&'a str>> {
        if self.is_null() { Ok(None) } else { self.str().map(Some) }
    }
}

impl Name {
    pub(crate) fn of(text: &'static CStr) -> Self {
        Self(text.as_ptr())
    }
}

/// Memory for a C program, which gives it back with `free`: zeroed.
///
/// # Errors
/// `NOMEM`.
pub(crate) fn allocate(bytes: usize) -> Result<*mut c_void> {
    // SAFETY: it takes any sizes.
    let memory = unsafe { libc::calloc(1, bytes.max(1)) };
    if memory.is_null() { Err(Der::NOMEM) } else { Ok(memory) }
}

/// Gives memory back that a C program got from its allocator or from [`allocate`]; nothing for NULL.
pub(crate) fn release<T>(memory: *mut T) {
    // SAFETY: the functions that come here are documented to take what was allocated with `malloc`.
    unsafe { libc::free(memory.cast()) };
}

/// A copy of a text that a C program gives back with `free`.
///
/// # Errors
/// `NOMEM`.
pub(crate) fn duplicate(text: &[u8]) -> Result<*mut c_char> {
    let memory = allocate(text.len() + 1)?;
    Out::of(memory.cast::<u8>()).copy_from(text)?;
    Ok(memory.cast())
}
