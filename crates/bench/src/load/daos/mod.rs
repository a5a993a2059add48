//! The C interface as a C program uses it: initialise, connect, open, pass handles to other processes, give up.
//!
//! Invariants: what C functions are given lives until they return, or, for an operation under way, until its event was
//! taken off its queue; each handle is given up once.

#![expect(unsafe_code, reason = "the load generator calls the C interface as a C program does")]

mod arrays;
mod ffi;
mod files;
mod objects;

pub(super) use arrays::Array;
pub(super) use files::{File, Files, Mode};
pub(super) use objects::{Kind, Objects, Slots};

use crate::error::{Error, Result};
use core::ffi::c_int;
use ffi::{DfsAttr, Handle, Iov, Props, Text};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};

/// Outcome of a function of the library.
fn done(function: &'static str, on: &str, number: c_int) -> Result<()> {
    if number == 0 {
        return Ok(());
    }
    Err(Error::Call { function: function.to_owned(), on: on.to_owned(), number })
}

/// What a number of the library means: a positive one is the system's, a negative one of DAOS.
pub(crate) fn meaning(number: i32) -> String {
    if number > 0 {
        return std::io::Error::from_raw_os_error(number).to_string();
    }
    // SAFETY: it takes any number.
    let text = unsafe { ffi::d_errstr(number) };
    if text.is_null() {
        return format!("error {number}");
    }
    // SAFETY: the texts of numbers are constants that end with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A name for C.
fn text(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_has_zero| Error::Call {
        function: "a C program".to_owned(),
        on: name.to_owned(),
        number: EINVAL,
    })
}

const EINVAL: i32 = 22;

/// The class of objects that a name means.
///
/// # Errors
/// If there is none.
pub(super) fn class(name: &str) -> Result<u32> {
    let named = text(name)?;
    // SAFETY: the text is lent for the call.
    let number = unsafe { ffi::daos_oclass_name2id(Text::from(&*named)) };
    match u32::try_from(number) {
        Ok(class) if class > 0 => Ok(class),
        _ => done("daos_oclass_name2id", name, EINVAL).map(|()| 0),
    }
}

/// The largest number of a process on Linux. A clock has no room for one of more than 29 bits.
const PID_MAX: c_int = 1 << 22;

/// Processor time that a process has used so far, in nanoseconds; an error if there is no such process.
pub(crate) fn process_cpu_ns(pid: u32) -> Result<u64> {
    let (mut clock, mut time) = (0, [0; 2]);
    let number = c_int::try_from(pid).unwrap_or(c_int::MAX).min(PID_MAX + 1);
    if ffi::clock_getcpuclockid(number, &mut clock) != 0 || ffi::clock_gettime(clock, &mut time) != 0 {
        return Err(Error::Process { pid });
    }
    let [seconds, nanoseconds] = time.map(|part| u64::try_from(part).unwrap_or(0));
    Ok(seconds * 1_000_000_000 + nanoseconds)
}

/// The library, initialised; and a pool and a container of it.
pub(super) struct Connection {
    pool: Handle,
    cont: Handle,
}

/// Handles as bytes, by which another process has the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handles {
    pool: Vec<u8>,
    cont: Vec<u8>,
    files: Option<Vec<u8>>,
}

/// How a container is made.
pub(super) struct NewCont<'a> {
    pub(super) label: &'a str,
    /// Properties as text, empty for none.
    pub(super) props: &'a str,
    /// With a file system.
    pub(super) has_files: bool,
}

/// Begins to use the library.
///
/// # Errors
/// Those of the library.
fn init() -> Result<()> {
    done("daos_init", "", ffi::daos_init())?;
    done("dfs_init", "", ffi::dfs_init())
}

fn connect(system: Option<&str>, pool: &str) -> Result<Handle> {
    let (named, system) = (text(pool)?, system.map(text).transpose()?);
    let mut poh = Handle::default();
    let (poh_at, no_info, no_event) = (&raw mut poh, core::ptr::null_mut(), core::ptr::null_mut());
    let (pool_text, system_text) = (Text::from(&*named), Text::from(system.as_deref()));
    // SAFETY: texts and handle live during the call; information and event may be NULL.
    let number = unsafe {
        ffi::daos_pool_connect2(pool_text, system_text, ffi::POOL_CONNECT_RW, poh_at, no_info, no_event)
    };
    done("daos_pool_connect", pool, number).map(|()| poh)
}

/// Makes a container in a pool.
///
/// # Errors
/// Those of the library.
pub(super) fn make_cont(system: Option<&str>, pool: &str, new: &NewCont<'_>) -> Result<()> {
    init()?;
    let poh = connect(system, pool)?;
    let made = with_props(new.props, |props| create(poh, new, props));
    disconnect(poh, pool)?;
    fini()?;
    made
}

/// Destroys a container, whoever has it open.
///
/// # Errors
/// Those of the library.
pub(super) fn destroy_cont(system: Option<&str>, pool: &str, label: &str) -> Result<()> {
    init()?;
    let poh = connect(system, pool)?;
    let named = text(label)?;
    // SAFETY: the text lives during the call; there is no event.
    let number = unsafe { ffi::daos_cont_destroy2(poh, Text::from(&*named), 1, core::ptr::null_mut()) };
    let destroyed = done("daos_cont_destroy", label, number);
    disconnect(poh, pool)?;
    fini()?;
    destroyed
}

fn with_props(words: &str, work: impl FnOnce(*mut Props) -> Result<()>) -> Result<()> {
    if words.is_empty() {
        return work(core::ptr::null_mut());
    }
    let mut props = core::ptr::null_mut();
    let (start, len) = (words.as_ptr().cast(), words.len() as u64);
    // SAFETY: so many bytes are there, and a place for the list.
    let number = unsafe { ffi::daos_prop_from_str(start, len, &raw mut props) };
    done("daos_prop_from_str", words, number)?;
    let worked = work(props);
    // SAFETY: the list was made above and is not used again.
    unsafe { ffi::daos_prop_free(props) };
    worked
}

fn create(poh: Handle, new: &NewCont<'_>, props: *mut Props) -> Result<()> {
    let named = text(new.label)?;
    let label = Text::from(&*named);
    let (no_uuid, no_event) = (core::ptr::null_mut(), core::ptr::null_mut());
    if !new.has_files {
        // SAFETY: label and list live during the call; UUID and event may be NULL.
        let number = unsafe { ffi::daos_cont_create_with_label(poh, label, props, no_uuid, no_event) };
        return done("daos_cont_create_with_label", new.label, number);
    }
    let mut attr = DfsAttr {
        id: 0,
        chunk_bytes: 0,
        oclass: 0,
        props,
        mode: 0,
        dir_oclass: 0,
        file_oclass: 0,
        hints: [0; 128],
    };
    let attr_at = &raw mut attr;
    let (no_handle, no_mount) = (core::ptr::null_mut(), core::ptr::null_mut());
    // SAFETY: label and attributes live during the call; the rest may be NULL.
    let number =
        unsafe { ffi::dfs_cont_create_with_label(poh, label, attr_at, no_uuid, no_handle, no_mount) };
    done("dfs_cont_create_with_label", new.label, number)
}

fn disconnect(poh: Handle, pool: &str) -> Result<()> {
    // SAFETY: the library checks the handle; there is no event.
    let number = unsafe { ffi::daos_pool_disconnect(poh, core::ptr::null_mut()) };
    done("daos_pool_disconnect", pool, number)
}

fn fini() -> Result<()> {
    done("dfs_fini", "", ffi::dfs_fini())?;
    done("daos_fini", "", ffi::daos_fini())
}

impl Connection {
    /// Connects to a pool and opens a container of it, as the first of several processes.
    ///
    /// # Errors
    /// Those of the library.
    pub(super) fn open(system: Option<&str>, pool: &str, cont: &str) -> Result<Self> {
        init()?;
        let poh = connect(system, pool)?;
        let (named, mut coh) = (text(cont)?, Handle::default());
        let (label, coh_at) = (Text::from(&*named), &raw mut coh);
        let (no_info, no_event) = (core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: label and handle live during the call; information and event may be NULL.
        let number =
            unsafe { ffi::daos_cont_open2(poh, label, ffi::CONT_OPEN_RW, coh_at, no_info, no_event) };
        done("daos_cont_open", cont, number)?;
        Ok(Self { pool: poh, cont: coh })
    }

    /// Has what another process has opened.
    ///
    /// # Errors
    /// Those of the library.
    pub(super) fn of(handles: &Handles) -> Result<Self> {
        init()?;
        let (mut pool, mut cont) = (Handle::default(), Handle::default());
        // SAFETY: the bytes and the place for the handle live during the call.
        let number = unsafe { ffi::daos_pool_global2local(Iov::of(&handles.pool), &raw mut pool) };
        done("daos_pool_global2local", "", number)?;
        // SAFETY: as above.
        let number = unsafe { ffi::daos_cont_global2local(pool, Iov::of(&handles.cont), &raw mut cont) };
        done("daos_cont_global2local", "", number)?;
        Ok(Self { pool, cont })
    }

    /// What other processes need to have the same.
    ///
    /// # Errors
    /// Those of the library.
    pub(super) fn handles(&self, files: Option<&Files>) -> Result<Handles> {
        // SAFETY: the buffer is one of the call.
        let pool =
            global("daos_pool_local2global", |glob| unsafe { ffi::daos_pool_local2global(self.pool, glob) })?;
        // SAFETY: as above.
        let cont =
            global("daos_cont_local2global", |glob| unsafe { ffi::daos_cont_local2global(self.cont, glob) })?;
        Ok(Handles { pool, cont, files: files.map(Files::global).transpose()? })
    }

    /// Gives everything up.
    ///
    /// # Errors
    /// Those of the library.
    pub(super) fn close(self) -> Result<()> {
        // SAFETY: the library checks the handle; there is no event.
        let number = unsafe { ffi::daos_cont_close(self.cont, core::ptr::null_mut()) };
        done("daos_cont_close", "", number)?;
        disconnect(self.pool, "")?;
        fini()
    }
}

/// Asks how many bytes a handle takes, then for these.
fn global(function: &'static str, give: impl Fn(*mut Iov) -> c_int) -> Result<Vec<u8>> {
    let mut glob = Iov::NONE;
    done(function, "", give(&raw mut glob))?;
    let mut bytes = vec![0; glob.buf_len.max(glob.len)];
    let mut glob = Iov::room(&mut bytes);
    done(function, "", give(&raw mut glob))?;
    bytes.truncate(glob.len);
    Ok(bytes)
}
