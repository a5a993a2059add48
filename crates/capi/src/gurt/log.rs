//! Messages and faults, as programs see them that were compiled with DAOS's own headers: what their macros look at before they
//! call anything.
//!
//! Nobody has opened a log, no fault is to be made and no assertion is handled in another way: everything is zero, which
//! in these macros means just that. What a program hands over all the same goes to the standard error stream.

use crate::error::silent;
use crate::raw::{self, Out, Text};
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

/// Number and levels of the facilities that programs of DAOS log for.
macro_rules! facilities {
    ($($module:ident: $name:literal,)+) => {
        $(mod $module {
            use super::{AtomicI32, LEVELS};

            #[unsafe(export_name = concat!("daos_", $name, "_logfac"))]
            static FACILITY: AtomicI32 = AtomicI32::new(0);

            #[unsafe(export_name = concat!("daos_", $name, "_logfac_cache"))]
            static LEVELS_OF_FACILITY: [AtomicI32; LEVELS] = [const { AtomicI32::new(0) }; LEVELS];
        })+
    };
}
//= daos:src/include/daos/debug.h DAOS_FOREACH_LOG_FAC
facilities! {
    bio: "bio",
    chk: "chk",
    client: "client",
    common: "common",
    container: "container",
    csum: "csum",
    dfs: "dfs",
    dfuse: "dfuse",
    drpc: "drpc",
    dtx: "dtx",
    duns: "duns",
    il: "il",
    mgmt: "mgmt",
    object: "object",
    pipeline: "pipeline",
    placement: "placement",
    pool: "pool",
    rdb: "rdb",
    rebuild: "rebuild",
    rsvc: "rsvc",
    security: "security",
    server: "server",
    stack: "stack",
    tests: "tests",
    tree: "tree",
    vos: "vos",
}

unsafe extern "C" {
    fn vsnprintf(to: *mut c_char, room: usize, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn vasprintf(to: *mut *mut c_char, format: *const c_char, arguments: *mut c_void) -> c_int;
}

/// Has what a program has said so far written out: messages of macros go by the streams of C.
#[unsafe(no_mangle)]
extern "C" fn d_log_sync() {
    // SAFETY: NULL stands for all streams.
    // Ignored: who cannot say something cannot say that either.
    let _flushed = unsafe { libc::fflush(core::ptr::null_mut()) };
}

/// Whether a fault is to be made here: nobody has asked for any. Macros ask only after a program has set `d_fault_inject`.
#[unsafe(no_mangle)]
extern "C" fn d_should_fail(_attr: *mut c_void) -> bool {
    false
}

/// A text made as by `printf`, in memory of its own, with its length, or NULL with -1. Rust has no functions with any number of
/// arguments: this one puts those in registers where a list of C finds them (System V ABI for AMD64, 3.5.7: register save area
/// and `va_list`), and hands the list on.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn d_asprintf2() {
    core::arch::naked_asm!(
        // 24 bytes of list, 8 of nothing, 48 of integers and 128 of numbers; aligned to 16 with the return address.
        "sub rsp, 216",
        "mov [rsp + 48], rdx",
        "mov [rsp + 56], rcx",
        "mov [rsp + 64], r8",
        "mov [rsp + 72], r9",
        "test al, al",
        "je 2f",
        "movaps [rsp + 80], xmm0",
        "movaps [rsp + 96], xmm1",
        "movaps [rsp + 112], xmm2",
        "movaps [rsp + 128], xmm3",
        "movaps [rsp + 144], xmm4",
        "movaps [rsp + 160], xmm5",
        "movaps [rsp + 176], xmm6",
        "movaps [rsp + 192], xmm7",
        "2:",
        "mov dword ptr [rsp], 16",
        "mov dword ptr [rsp + 4], 48",
        "lea rax, [rsp + 224]",
        "mov [rsp + 8], rax",
        "lea rax, [rsp + 32]",
        "mov [rsp + 16], rax",
        "mov rdx, rsp",
        "call {made}",
        "add rsp, 216",
        "ret",
        made = sym made,
    )
}

/// What `d_asprintf2` gives; `arguments` is a list of C.
extern "C" fn made(length: Out<c_int>, format: Text, arguments: *mut c_void) -> *mut c_char {
    let mut text = core::ptr::null_mut();
    let mut len = -1;
    if !format.is_null() {
        // SAFETY: that format and arguments belong together is the C caller's promise, as of `vasprintf` itself.
        len = unsafe { vasprintf(&raw mut text, format.as_ptr(), arguments) };
    }
    if !length.is_null() && length.set(len).is_err() {
        raw::release(text);
        return core::ptr::null_mut();
    }
    // After a failure the text is anything.
    if len < 0 { core::ptr::null_mut() } else { text }
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
        dolmen_env::say_as_is(String::from_utf8_lossy(&message[..len]).as_bytes());
    });
}
