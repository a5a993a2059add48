//! The functions of the C interface that the load generator calls, declared as the headers declare them.
//!
//! Invariants: sizes of structs are those of the headers, asserted here.

use core::ffi::{c_char, c_int, c_uint};
use core::marker::PhantomData;
use std::ffi::CStr;
// Linked in: its symbols are what is declared here.
use dolmen_capi as _;

/// A handle of a pool, container, object or queue.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Handle {
    cookie: u64,
}

/// A text that lives as long as it is lent; none is NULL.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Text<'a> {
    start: *const c_char,
    lent: PhantomData<&'a CStr>,
}

impl<'a> From<&'a CStr> for Text<'a> {
    fn from(text: &'a CStr) -> Self {
        Self { start: text.as_ptr(), lent: PhantomData }
    }
}

impl<'a> From<Option<&'a CStr>> for Text<'a> {
    fn from(text: Option<&'a CStr>) -> Self {
        Self { start: text.map_or(core::ptr::null(), CStr::as_ptr), lent: PhantomData }
    }
}

/// A buffer: its room and its filled part.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Iov {
    pub(super) buf: *mut u8,
    pub(super) buf_len: usize,
    pub(super) len: usize,
}

impl Iov {
    pub(super) const NONE: Self = Self { buf: core::ptr::null_mut(), buf_len: 0, len: 0 };

    /// Filled with these bytes, which the library only reads.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { buf: bytes.as_ptr().cast_mut(), buf_len: bytes.len(), len: bytes.len() }
    }

    /// To be filled.
    pub(super) fn room(bytes: &mut [u8]) -> Self {
        Self { buf: bytes.as_mut_ptr(), buf_len: bytes.len(), len: bytes.len() }
    }
}

/// Several buffers.
#[repr(C)]
pub(super) struct SgList {
    pub(super) nr: u32,
    pub(super) nr_out: u32,
    pub(super) iovs: *mut Iov,
}

/// An extent, in records.
#[repr(C)]
pub(super) struct Recx {
    pub(super) index: u64,
    pub(super) count: u64,
}

/// What is written or read of one akey.
#[repr(C)]
pub(super) struct Iod {
    pub(super) name: Iov,
    pub(super) kind: c_int,
    pub(super) size: u64,
    pub(super) flags: u64,
    pub(super) nr: u32,
    pub(super) recxs: *mut Recx,
}

/// A range of an array, in records.
#[repr(C)]
pub(super) struct Range {
    pub(super) index: u64,
    pub(super) len: u64,
}

/// What is written or read of an array, and what was not there.
#[repr(C)]
pub(super) struct ArrayIod {
    nr: u64,
    ranges: *mut Range,
    pub(super) short_read: u64,
    read: u64,
}

impl ArrayIod {
    /// One range.
    pub(super) fn of(range: &mut Range) -> Self {
        Self { nr: 1, ranges: range, short_read: 0, read: 0 }
    }
}

/// An asynchronous operation.
#[repr(C)]
pub(super) struct Event {
    pub(super) error: c_int,
    private: [u64; 20],
    debug: u64,
}

impl Event {
    pub(super) const NEW: Self = Self { error: 0, private: [0; 20], debug: 0 };
}

/// An object id.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ObjId {
    pub(super) lo: u64,
    pub(super) hi: u64,
}

/// What a file system is made with.
#[repr(C)]
pub(super) struct DfsAttr {
    pub(super) id: u64,
    pub(super) chunk_bytes: u64,
    pub(super) oclass: u32,
    pub(super) props: *mut Props,
    pub(super) mode: u32,
    pub(super) dir_oclass: u32,
    pub(super) file_oclass: u32,
    pub(super) hints: [c_char; 128],
}

/// What the system tells of a file.
#[repr(C)]
pub(super) struct Stat {
    words: [u64; 18],
}

impl Stat {
    pub(super) const NEW: Self = Self { words: [0; 18] };
    /// Where the size stands, on every Linux of 64 bits.
    const SIZE_WORD: usize = 6;

    pub(super) fn size_bytes(&self) -> u64 {
        self.words[Self::SIZE_WORD]
    }
}

/// A list of properties.
pub(super) enum Props {}
/// A mounted file system.
pub(super) enum Dfs {}
/// Something open in it.
pub(super) enum DfsObj {}

const _: () = assert!(size_of::<Iov>() == 24);
const _: () = assert!(size_of::<SgList>() == 16);
const _: () = assert!(size_of::<Iod>() == 64);
const _: () = assert!(size_of::<ArrayIod>() == 32);
const _: () = assert!(size_of::<Event>() == 176);
const _: () = assert!(size_of::<DfsAttr>() == 176);
const _: () = assert!(size_of::<Stat>() == 144);

pub(super) const POOL_CONNECT_RW: c_uint = 1 << 1;
pub(super) const CONT_OPEN_RW: c_uint = 1 << 1;
pub(super) const OBJECT_OPEN_RW: c_uint = 1 << 2;
/// A type of object: an array whose attributes are told by whoever opens it.
pub(super) const TYPE_ARRAY_ATTR: c_int = 12;
pub(super) const KIND_SINGLE: c_int = 1;
pub(super) const KIND_ARRAY: c_int = 2;

// SAFETY: the signatures are those of the headers. What is `safe` takes handles and numbers by value, which the library
// checks, and texts and places to write to by references that are valid during the call.
unsafe extern "C" {
    pub(super) safe fn daos_init() -> c_int;
    pub(super) safe fn daos_fini() -> c_int;
    pub(super) safe fn dfs_init() -> c_int;
    pub(super) safe fn dfs_fini() -> c_int;
    pub(super) fn d_errstr(number: c_int) -> *const c_char;

    pub(super) fn daos_prop_from_str(text: *const c_char, len: u64, props: *mut *mut Props) -> c_int;
    pub(super) fn daos_prop_free(props: *mut Props);

    pub(super) fn daos_pool_connect2(
        pool: Text<'_>,
        system: Text<'_>,
        flags: c_uint,
        poh: *mut Handle,
        info: *mut u8,
        event: *mut Event,
    ) -> c_int;
    pub(super) fn daos_pool_disconnect(poh: Handle, event: *mut Event) -> c_int;
    pub(super) fn daos_pool_local2global(poh: Handle, glob: *mut Iov) -> c_int;
    pub(super) fn daos_pool_global2local(glob: Iov, poh: *mut Handle) -> c_int;

    pub(super) fn daos_cont_create_with_label(
        poh: Handle,
        label: Text<'_>,
        props: *mut Props,
        uuid: *mut u8,
        event: *mut Event,
    ) -> c_int;
    pub(super) fn daos_cont_open2(
        poh: Handle,
        cont: Text<'_>,
        flags: c_uint,
        coh: *mut Handle,
        info: *mut u8,
        event: *mut Event,
    ) -> c_int;
    pub(super) fn daos_cont_close(coh: Handle, event: *mut Event) -> c_int;
    pub(super) fn daos_cont_destroy2(poh: Handle, cont: Text<'_>, force: c_int, event: *mut Event) -> c_int;
    pub(super) fn daos_cont_local2global(coh: Handle, glob: *mut Iov) -> c_int;
    pub(super) fn daos_cont_global2local(poh: Handle, glob: Iov, coh: *mut Handle) -> c_int;

    pub(super) fn daos_oclass_name2id(name: Text<'_>) -> c_int;
    pub(super) safe fn daos_obj_generate_oid2(
        coh: Handle,
        oid: &mut ObjId,
        kind: c_int,
        class: u32,
        hints: u16,
        args: u32,
    ) -> c_int;
    pub(super) fn daos_obj_open(
        coh: Handle,
        oid: ObjId,
        mode: c_uint,
        oh: *mut Handle,
        event: *mut Event,
    ) -> c_int;
    pub(super) fn daos_obj_close(oh: Handle, event: *mut Event) -> c_int;
    pub(super) fn daos_obj_punch(oh: Handle, th: Handle, flags: u64, event: *mut Event) -> c_int;
    pub(super) fn daos_obj_update(
        oh: Handle,
        th: Handle,
        flags: u64,
        dkey: *mut Iov,
        nr: c_uint,
        iods: *mut Iod,
        sgls: *mut SgList,
        event: *mut Event,
    ) -> c_int;
    pub(super) fn daos_obj_fetch(
        oh: Handle,
        th: Handle,
        flags: u64,
        dkey: *mut Iov,
        nr: c_uint,
        iods: *mut Iod,
        sgls: *mut SgList,
        maps: *mut u8,
        event: *mut Event,
    ) -> c_int;

    pub(super) fn daos_array_open_with_attr(
        coh: Handle,
        oid: ObjId,
        th: Handle,
        mode: c_uint,
        cell_bytes: u64,
        chunk_records: u64,
        oh: *mut Handle,
        event: *mut Event,
    ) -> c_int;
    pub(super) fn daos_array_write(
        oh: Handle,
        th: Handle,
        iod: *mut ArrayIod,
        sgl: *mut SgList,
        event: *mut Event,
    ) -> c_int;
    pub(super) fn daos_array_read(
        oh: Handle,
        th: Handle,
        iod: *mut ArrayIod,
        sgl: *mut SgList,
        event: *mut Event,
    ) -> c_int;
    pub(super) fn daos_array_destroy(oh: Handle, th: Handle, event: *mut Event) -> c_int;
    pub(super) fn daos_array_close(oh: Handle, event: *mut Event) -> c_int;

    pub(super) safe fn daos_eq_create(queue: &mut Handle) -> c_int;
    pub(super) safe fn daos_eq_destroy(queue: Handle, flags: c_int) -> c_int;
    pub(super) fn daos_eq_poll(
        queue: Handle,
        wait_running: c_int,
        timeout_us: i64,
        count: c_uint,
        events: *mut *mut Event,
    ) -> c_int;
    pub(super) fn daos_event_init(event: *mut Event, queue: Handle, parent: *mut Event) -> c_int;
    pub(super) fn daos_event_fini(event: *mut Event) -> c_int;

    pub(super) fn dfs_cont_create_with_label(
        poh: Handle,
        label: Text<'_>,
        attr: *mut DfsAttr,
        uuid: *mut u8,
        coh: *mut Handle,
        dfs: *mut *mut Dfs,
    ) -> c_int;
    pub(super) fn dfs_mount(poh: Handle, coh: Handle, flags: c_int, dfs: *mut *mut Dfs) -> c_int;
    pub(super) fn dfs_umount(dfs: *mut Dfs) -> c_int;
    pub(super) fn dfs_local2global(dfs: *mut Dfs, glob: *mut Iov) -> c_int;
    pub(super) fn dfs_global2local(
        poh: Handle,
        coh: Handle,
        flags: c_int,
        glob: Iov,
        dfs: *mut *mut Dfs,
    ) -> c_int;
    pub(super) fn dfs_open(
        dfs: *mut Dfs,
        parent: *mut DfsObj,
        name: Text<'_>,
        mode: c_uint,
        flags: c_int,
        class: u32,
        chunk_bytes: u64,
        value: Text<'_>,
        obj: *mut *mut DfsObj,
    ) -> c_int;
    pub(super) fn dfs_release(obj: *mut DfsObj) -> c_int;
    pub(super) fn dfs_mkdir(
        dfs: *mut Dfs,
        parent: *mut DfsObj,
        name: Text<'_>,
        mode: c_uint,
        class: u32,
    ) -> c_int;
    pub(super) fn dfs_remove(
        dfs: *mut Dfs,
        parent: *mut DfsObj,
        name: Text<'_>,
        force: bool,
        oid: *mut ObjId,
    ) -> c_int;
    pub(super) fn dfs_stat(dfs: *mut Dfs, parent: *mut DfsObj, name: Text<'_>, stat: *mut Stat) -> c_int;
    pub(super) fn dfs_read(
        dfs: *mut Dfs,
        obj: *mut DfsObj,
        sgl: *mut SgList,
        offset: u64,
        read_bytes: *mut u64,
        event: *mut Event,
    ) -> c_int;
    pub(super) fn dfs_write(
        dfs: *mut Dfs,
        obj: *mut DfsObj,
        sgl: *mut SgList,
        offset: u64,
        event: *mut Event,
    ) -> c_int;

    pub(super) safe fn clock_getcpuclockid(pid: c_int, clock: &mut c_int) -> c_int;
    pub(super) safe fn clock_gettime(clock: c_int, time: &mut [i64; 2]) -> c_int;
}
