//! The functions of the C interface that cases are said in, as a C program declares them.

#![expect(unsafe_code, reason = "these are functions of C, called as C calls them")]
#![expect(clippy::too_many_arguments, reason = "so many has the interface")]

use core::ffi::{CStr, c_char, c_int, c_uint};
use core::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A handle, as `daos_handle_t`; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Handle(pub(crate) u64);

pub(crate) const NONE: Handle = Handle(0);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(C)]
pub(crate) struct ObjId {
    pub(crate) lo: u64,
    pub(crate) hi: u64,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Iov {
    buf: *mut u8,
    buf_len: usize,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SgList {
    pub(crate) nr: u32,
    pub(crate) nr_out: u32,
    pub(crate) iovs: *mut Iov,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Recx {
    pub(crate) idx: u64,
    pub(crate) nr: u64,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Iod {
    pub(crate) name: Iov,
    pub(crate) kind: c_uint,
    pub(crate) size: u64,
    pub(crate) flags: u64,
    pub(crate) nr: u32,
    pub(crate) recxs: *const Recx,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Iom {
    pub(crate) kind: c_uint,
    pub(crate) nr: u32,
    pub(crate) nr_out: u32,
    pub(crate) flags: u32,
    pub(crate) size: u64,
    pub(crate) lo: Recx,
    pub(crate) hi: Recx,
    pub(crate) recxs: *mut Recx,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct KeyDesc {
    pub(crate) len: u64,
    pub(crate) kind: u32,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct EpochRange {
    pub(crate) lo: u64,
    pub(crate) hi: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(8))]
pub(crate) struct Anchor(pub(crate) [u8; 120]);

/// The type of an anchor behind something.
const AFTER: u8 = 2;
/// The type of an anchor at the end.
const EOF: u8 = 3;

impl Anchor {
    pub(crate) const START: Self = Self([0; 120]);
    pub(crate) const END: Self = {
        let mut end = [0; 120];
        end[0] = EOF;
        Self(end)
    };

    /// One behind a position that no listing has given.
    pub(crate) fn foreign(position: &[u8]) -> Self {
        let mut anchor = [0; 120];
        anchor[0] = AFTER;
        anchor[4..8].copy_from_slice(&u32::try_from(position.len()).unwrap().to_le_bytes());
        anchor[16..16 + position.len()].copy_from_slice(position);
        Self(anchor)
    }

    /// The number that such a position is; 0 at the start.
    pub(crate) fn number(&self) -> u64 {
        self.0[16..24].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    pub(crate) fn is_eof(&self) -> bool {
        self.0[..2] == [EOF, 0]
    }
}

pub(crate) const SINGLE: c_uint = 1;
pub(crate) const ARRAY: c_uint = 2;
/// A map of a fetch lists every extent.
pub(crate) const DETAIL: u32 = 1;
const READ_WRITE: c_uint = 2;
const OBJECT_READ_WRITE: c_uint = 4;
const SNAPSHOT_WITH_TABLE: c_uint = 3;

/// An event as a C program has it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Event {
    error: c_int,
    private: [u64; 20],
    debug: u64,
}

impl Event {
    pub(crate) const NEW: Self = Self { error: 0, private: [0; 20], debug: 0 };

    pub(crate) fn error(&self) -> c_int {
        self.error
    }

    /// What an asynchronous call is given.
    pub(crate) fn address(&mut self) -> *mut u8 {
        core::ptr::from_mut(self).cast()
    }
}

/// The event of a call; NULL if it is to block.
type Ev = *mut u8;

/// What is called when an event completes.
pub(crate) type Callback = extern "C" fn(argument: *mut u8, event: *mut Event, error: c_int) -> c_int;

/// Makes of each function of C one that calls it: what they are given are places of this test that outlive the call.
macro_rules! words {
    ($($name:ident as $own:ident($($argument:ident: $kind:ty),*);)*) => {
        unsafe extern "C" {
            $(fn $name($($argument: $kind),*) -> c_int;)*
        }

        $(pub(crate) fn $own($($argument: $kind),*) -> c_int {
            // SAFETY: the interface checks what it is given, and the addresses are of values that live meanwhile.
            unsafe { $name($($argument),*) }
        })*
    };
}

words! {
    daos_init as init();
    daos_fini as fini();
    daos_pool_connect2 as pool_connect(
        pool: *const c_char, system: *const c_char, flags: c_uint, out: *mut Handle, info: *mut u8, ev: Ev
    );
    daos_pool_disconnect as pool_disconnect(pool: Handle, ev: Ev);
    daos_cont_create_with_label as cont_create(
        pool: Handle, label: *const c_char, props: *mut u8, uuid: *mut u8, ev: Ev
    );
    daos_cont_open2 as cont_open(
        pool: Handle, label: *const c_char, flags: c_uint, out: *mut Handle, info: *mut u8, ev: Ev
    );
    daos_cont_close as cont_close(cont: Handle, ev: Ev);
    daos_cont_query as cont_query(cont: Handle, info: *mut u8, props: *mut u8, ev: Ev);
    daos_cont_destroy2 as cont_destroy(pool: Handle, label: *const c_char, force: c_int, ev: Ev);
    daos_cont_aggregate as cont_aggregate(cont: Handle, epoch: u64, ev: Ev);
    daos_cont_rollback as cont_rollback(cont: Handle, epoch: u64, ev: Ev);
    daos_cont_create_snap_opt as snap_create(
        cont: Handle, epoch: *mut u64, name: *const c_char, options: c_uint, ev: Ev
    );
    daos_cont_destroy_snap as snap_destroy(cont: Handle, range: EpochRange, ev: Ev);
    daos_eq_create as eq_create(out: *mut Handle);
    daos_eq_destroy as eq_destroy(queue: Handle, flags: c_int);
    daos_eq_poll as eq_poll(
        queue: Handle, wait_running: c_int, timeout: i64, nr: c_uint, events: *mut *mut Event
    );
    daos_eq_query as eq_query(queue: Handle, query: c_uint, nr: c_uint, events: *mut *mut Event);
    daos_event_init as event_init(event: *mut Event, queue: Handle, parent: *mut Event);
    daos_event_fini as event_fini(event: *mut Event);
    daos_event_test as event_test(event: *mut Event, timeout: i64, is_done: *mut bool);
    daos_event_next as event_next(parent: *mut Event, child: *mut *mut Event);
    daos_event_parent_barrier as event_barrier(parent: *mut Event);
    daos_event_register_comp_cb as event_register(event: *mut Event, callback: Option<Callback>, argument: *mut u8);
    daos_event_abort as event_abort(event: *mut Event);
    daos_oit_open as oit_open(cont: Handle, epoch: u64, out: *mut Handle, ev: Ev);
    daos_oit_list as oit_list(table: Handle, oids: *mut ObjId, nr: *mut u32, anchor: *mut Anchor, ev: Ev);
    daos_oit_close as oit_close(table: Handle, ev: Ev);
    daos_tx_open as tx_open(cont: Handle, out: *mut Handle, flags: u64, ev: Ev);
    daos_tx_open_snap as tx_open_snap(cont: Handle, epoch: u64, out: *mut Handle, ev: Ev);
    daos_tx_commit as tx_commit(tx: Handle, ev: Ev);
    daos_tx_abort as tx_abort(tx: Handle, ev: Ev);
    daos_tx_close as tx_close(tx: Handle, ev: Ev);
    daos_tx_hdl2epoch as tx_epoch(tx: Handle, epoch: *mut u64);
    daos_obj_open as obj_open(cont: Handle, oid: ObjId, mode: c_uint, out: *mut Handle, ev: Ev);
    daos_obj_close as obj_close(object: Handle, ev: Ev);
    daos_obj_update as obj_update(
        object: Handle, tx: Handle, flags: u64, dkey: *const Iov, nr: c_uint, iods: *mut Iod, sgls: *mut SgList, ev: Ev
    );
    daos_obj_fetch as obj_fetch(
        object: Handle, tx: Handle, flags: u64, dkey: *const Iov, nr: c_uint, iods: *mut Iod, sgls: *mut SgList,
        ioms: *mut Iom, ev: Ev
    );
    daos_obj_punch as obj_punch(object: Handle, tx: Handle, flags: u64, ev: Ev);
    daos_obj_punch_dkeys as obj_punch_dkeys(
        object: Handle, tx: Handle, flags: u64, nr: c_uint, dkeys: *const Iov, ev: Ev
    );
    daos_obj_punch_akeys as obj_punch_akeys(
        object: Handle, tx: Handle, flags: u64, dkey: *const Iov, nr: c_uint, akeys: *const Iov, ev: Ev
    );
    daos_obj_list_dkey as list_dkeys(
        object: Handle, tx: Handle, nr: *mut u32, kds: *mut KeyDesc, sgl: *mut SgList, anchor: *mut Anchor, ev: Ev
    );
    daos_obj_list_akey as list_akeys(
        object: Handle, tx: Handle, dkey: *const Iov, nr: *mut u32, kds: *mut KeyDesc, sgl: *mut SgList,
        anchor: *mut Anchor, ev: Ev
    );
    daos_obj_list_recx as list_recxs(
        object: Handle, tx: Handle, dkey: *const Iov, akey: *const Iov, size: *mut u64, nr: *mut u32,
        recxs: *mut Recx, eprs: *mut EpochRange, anchor: *mut Anchor, ascending: bool, ev: Ev
    );
    daos_obj_query_max_epoch as query_max_epoch(object: Handle, tx: Handle, epoch: *mut u64, ev: Ev);
    daos_obj_query_key as query_key(
        object: Handle, tx: Handle, flags: u64, dkey: *mut Iov, akey: *mut Iov, recx: *mut Recx, ev: Ev
    );
}

impl Iov {
    /// A key, or a value to be written: it is only read.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { buf: bytes.as_ptr().cast_mut(), buf_len: bytes.len(), len: bytes.len() }
    }

    /// Room to be written to.
    pub(crate) fn room(bytes: &mut [u8]) -> Self {
        Self { buf: bytes.as_mut_ptr(), buf_len: bytes.len(), len: 0 }
    }

    pub(crate) fn filled(&self) -> usize {
        self.len
    }
}

impl SgList {
    pub(crate) const NONE: Self = Self { nr: 0, nr_out: 0, iovs: null_mut() };

    pub(crate) fn of(iov: &mut Iov) -> Self {
        Self { nr: 1, nr_out: 0, iovs: iov }
    }
}

// Guards: the library in this process, which ends for all tests at once; held as long as a test uses it.
static LIBRARY: Mutex<()> = Mutex::new(());

/// The library for one test alone.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    LIBRARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pool of a system.
pub(crate) fn connect(system: &CStr) -> Handle {
    let mut pool = NONE;
    assert_eq!(
        pool_connect(c"pool".as_ptr(), system.as_ptr(), READ_WRITE, &mut pool, null_mut(), null_mut()),
        0
    );
    pool
}

pub(crate) fn open_cont(pool: Handle, label: &CStr) -> Result<Handle, c_int> {
    let mut cont = NONE;
    match cont_open(pool, label.as_ptr(), READ_WRITE, &mut cont, null_mut(), null_mut()) {
        0 => Ok(cont),
        error => Err(error),
    }
}

pub(crate) fn open_object(cont: Handle, oid: ObjId) -> Result<Handle, c_int> {
    let mut object = NONE;
    match obj_open(cont, oid, OBJECT_READ_WRITE, &mut object, null_mut()) {
        0 => Ok(object),
        error => Err(error),
    }
}

/// A snapshot whose objects can be listed.
pub(crate) fn snapshot(cont: Handle) -> u64 {
    let mut epoch = 0;
    assert_eq!(snap_create(cont, &mut epoch, null(), SNAPSHOT_WITH_TABLE, null_mut()), 0);
    epoch
}
