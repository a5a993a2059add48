//! Messages and faults, as programs see them that were compiled with DAOS's own headers: what their macros look at before they
//! call anything.
//!
//! Nobody has opened a log, no fault is to be made and no assertion is handled in another way: everything is zero, which
//! in these macros means just that. What a program hands over all the same goes to the standard error stream.

use crate::error::silent;
use crate::raw::Text;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32};

/// A message is cut to so many bytes.
//= daos:src/include/gurt/dlog.h DLOG_TBSZ
const MESSAGE_BYTES_MAX: usize = 4096;
/// Levels that a program remembers of one facility; there are fewer than 32, and a reader behind the end would be lost.
const LEVELS: usize = 64;

/// The state of the log: without a tag it is not open.
//= daos:src/include/gurt/dlog.h struct d_log_xstate
#[repr(C)]
struct State {
    tag: AtomicPtr<c_char>,
    facilities: AtomicPtr<c_void>,
    node_name: AtomicPtr<c_char>,
    facility_count: AtomicI32,
}

const _: () = assert!(size_of::<State>() == 32);

#[unsafe(export_name = "d_log_xst")]
static STATE: State = State {
    tag: AtomicPtr::new(core::ptr::null_mut()),
    facilities: AtomicPtr::new(core::ptr::null_mut()),
    node_name: AtomicPtr::new(core::ptr::null_mut()),
    facility_count: AtomicI32::new(0),
};

/// The facility of what belongs to none.
#[unsafe(export_name = "d_misc_logfac")]
static FACILITY: AtomicI32 = AtomicI32::new(0);

/// What is logged of that facility, by level: nothing.
#[unsafe(export_name = "d_misc_logfac_cache")]
static LEVELS_OF_FACILITY: [AtomicI32; LEVELS] = [const { AtomicI32::new(0) }; LEVELS];

/// Whether faults are made at all.
#[unsafe(export_name = "d_fault_inject")]
static FAULTS: AtomicU32 = AtomicU32::new(0);

/// The fault of an allocation.
#[unsafe(export_name = "d_fault_attr_mem")]
static FAULT_OF_MEMORY: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// A function that a program has put into the place of `assert`.
#[unsafe(export_name = "d_alt_assert")]
static ASSERT: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

unsafe extern "C" {
    fn vsnprintf(to: *mut c_char, room: usize, format: *const c_char, arguments: *mut c_void) -> c_int;
}

/// Writes a message, which a program has decided to. Its arguments are a list of C, which is passed by its address.
#[unsafe(no_mangle)]
extern "C" fn d_vlog(_flags: c_int, format: Text, arguments: *mut c_void) {
    silent((), || {
        if format.is_null() || arguments.is_null() {
            return;
        }
        let mut message = [0_u8; MESSAGE_BYTES_MAX];
        // SAFETY: there is so much room; that format and arguments belong together is the C caller's promise, as of
        // `vsnprintf` itself.
        let len =
            unsafe { vsnprintf(message.as_mut_ptr().cast(), message.len(), format.as_ptr(), arguments) };
        let len = usize::try_from(len).unwrap_or(0).min(MESSAGE_BYTES_MAX - 1);
        eprint!("{}", String::from_utf8_lossy(&message[..len]));
    });
}
