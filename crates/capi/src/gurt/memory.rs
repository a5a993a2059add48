//! Memory, as the macros of DAOS's own headers ask for it, and rank lists.

use crate::raw::{self, Out, Text};
use crate::types::RankList;
use core::ffi::{c_char, c_void};

/// Zeroed memory for so many things; NULL if there is none.
#[unsafe(no_mangle)]
extern "C" fn d_calloc(count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: it takes any sizes.
    unsafe { libc::calloc(count, bytes) }
}

/// Memory; NULL if there is none.
#[unsafe(no_mangle)]
extern "C" fn d_malloc(bytes: usize) -> *mut c_void {
    // SAFETY: it takes any size.
    unsafe { libc::malloc(bytes) }
}

/// Memory of another size with the same bytes; NULL, and the old memory stays, if there is none.
#[unsafe(no_mangle)]
extern "C" fn d_realloc(memory: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: that it was allocated, or is NULL, is the C caller's promise, as of `realloc` itself.
    unsafe { libc::realloc(memory, bytes) }
}

/// Gives memory back.
#[unsafe(no_mangle)]
extern "C" fn d_free(memory: *mut c_void) {
    raw::release(memory);
}

/// A copy of at most so many bytes of a text, which need not end where more are not wanted.
#[unsafe(no_mangle)]
extern "C" fn d_strndup(text: Text, bytes: usize) -> *mut c_char {
    if text.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: that there is a text, or so many bytes, is the C caller's promise, as of `strndup` itself.
    unsafe { libc::strndup(text.as_ptr(), bytes) }
}

/// Gives a rank list back.
#[unsafe(no_mangle)]
extern "C" fn d_rank_list_free(list: Out<RankList>) {
    if let Ok(ranks) = list.get() {
        raw::release(ranks.ranks);
        raw::release(list.as_ptr());
    }
}
