//! LMDB through its C interface (`lmdb.h`), the library of the system.

use crate::error::{Error, Result};
use crate::peer::{Durability, Peer, Setup};
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr::{null, null_mut};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

/// Address space of the map; the file grows into it.
const MAP_BYTES: usize = 64 << 30;
const NOSYNC: c_uint = 0x1_0000;
const RDONLY: c_uint = 0x2_0000;
const WRITEMAP: c_uint = 0x8_0000;
const NORDAHEAD: c_uint = 0x80_0000;

/// An object of the library that is known by its address.
#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

/// `MDB_val`.
#[repr(C)]
struct Val {
    bytes: usize,
    data: *mut c_void,
}

unsafe extern "C" {
    fn mdb_strerror(code: c_int) -> *const c_char;
    fn mdb_env_create(env: *mut *mut Opaque) -> c_int;
    fn mdb_env_open(env: *mut Opaque, path: *const c_char, flags: c_uint, mode: c_uint) -> c_int;
    fn mdb_env_close(env: *mut Opaque);
    fn mdb_env_set_mapsize(env: *mut Opaque, bytes: usize) -> c_int;
    fn mdb_txn_begin(env: *mut Opaque, parent: *mut Opaque, flags: c_uint, txn: *mut *mut Opaque) -> c_int;
    fn mdb_txn_commit(txn: *mut Opaque) -> c_int;
    fn mdb_txn_abort(txn: *mut Opaque);
    fn mdb_txn_reset(txn: *mut Opaque);
    fn mdb_txn_renew(txn: *mut Opaque) -> c_int;
    fn mdb_dbi_open(txn: *mut Opaque, name: *const c_char, flags: c_uint, dbi: *mut c_uint) -> c_int;
    fn mdb_get(txn: *mut Opaque, dbi: c_uint, key: *mut Val, data: *mut Val) -> c_int;
    fn mdb_put(txn: *mut Opaque, dbi: c_uint, key: *mut Val, data: *mut Val, flags: c_uint) -> c_int;
}

/// An environment with one database and a read transaction that is renewed.
struct Lmdb {
    env: *mut Opaque,
    dbi: c_uint,
    reader: *mut Opaque,
}

/// Opens an environment in the directory.
///
/// LMDB has no log: with `Durability::Process` it writes its pages into the map and does not flush
/// (`MDB_WRITEMAP | MDB_NOSYNC`), which survives the process and may not survive the system; with
/// `Durability::Power` it flushes with each commit, as it does by default.
pub fn create<'v>(setup: &Setup<'v>) -> Result<Box<dyn Peer<'v> + 'v>> {
    let path = CString::new(setup.dir.as_os_str().as_bytes())?;
    let mut env = null_mut();
    // SAFETY: writes the address of a new environment.
    check(unsafe { mdb_env_create(&raw mut env) })?;
    // SAFETY: alive, not open yet.
    check(unsafe { mdb_env_set_mapsize(env, MAP_BYTES) })?;
    let process = setup.durability == Durability::Process;
    let flags = NORDAHEAD | if process { NOSYNC | WRITEMAP } else { 0 };
    // SAFETY: alive; the path ends with a zero byte.
    check(unsafe { mdb_env_open(env, path.as_ptr(), flags, 0o644) })?;
    let mut txn = null_mut();
    // SAFETY: the environment is open; writes the address of a new transaction.
    check(unsafe { mdb_txn_begin(env, null_mut(), 0, &raw mut txn) })?;
    let mut dbi = 0;
    // SAFETY: the transaction is alive; no name is the main database.
    check(unsafe { mdb_dbi_open(txn, null(), 0, &raw mut dbi) })?;
    // SAFETY: alive; not used after this.
    check(unsafe { mdb_txn_commit(txn) })?;
    let mut reader = null_mut();
    // SAFETY: the environment is open; writes the address of a new transaction.
    check(unsafe { mdb_txn_begin(env, null_mut(), RDONLY, &raw mut reader) })?;
    // SAFETY: alive; renewed before each use.
    unsafe { mdb_txn_reset(reader) };
    Ok(Box::new(Lmdb { env, dbi, reader }))
}

fn refused(said: &str) -> Error {
    Error::Peer { name: "LMDB", said: said.to_owned() }
}

fn check(code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: gives a static text for any code.
    let said = unsafe { mdb_strerror(code) };
    // SAFETY: the text ends with a zero byte.
    Err(refused(&unsafe { CStr::from_ptr(said) }.to_string_lossy()))
}

impl<'v> Peer<'v> for Lmdb {
    fn put(&mut self, key: u64, value: &'v [u8]) -> Result<()> {
        self.put_batch(&[(key, value)])
    }

    fn put_batch(&mut self, items: &[(u64, &'v [u8])]) -> Result<()> {
        let mut txn = null_mut();
        // SAFETY: the environment is open; writes the address of a new transaction.
        check(unsafe { mdb_txn_begin(self.env, null_mut(), 0, &raw mut txn) })?;
        for (key, value) in items {
            let mut bytes = key.to_le_bytes();
            let mut key = Val { bytes: 8, data: bytes.as_mut_ptr().cast() };
            let mut data = Val { bytes: value.len(), data: value.as_ptr().cast_mut().cast() };
            // SAFETY: the transaction is alive; key and value are read during the call and not written.
            check(unsafe { mdb_put(txn, self.dbi, &raw mut key, &raw mut data, 0) })?;
        }
        // SAFETY: alive; not used after this.
        check(unsafe { mdb_txn_commit(txn) })
    }

    fn get(&mut self, key: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        self.get_batch(&[key], each)
    }

    fn get_batch(&mut self, keys: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        // SAFETY: the transaction was reset.
        check(unsafe { mdb_txn_renew(self.reader) })?;
        for &key in keys {
            let mut bytes = key.to_le_bytes();
            let mut name = Val { bytes: 8, data: bytes.as_mut_ptr().cast() };
            let mut data = Val { bytes: 0, data: null_mut() };
            // SAFETY: the transaction is alive; the key is read during the call.
            check(unsafe { mdb_get(self.reader, self.dbi, &raw mut name, &raw mut data) })?;
            // SAFETY: the value is in the map until the transaction is reset.
            each(key, unsafe { core::slice::from_raw_parts(data.data.cast(), data.bytes) });
        }
        // SAFETY: alive; renewed before the next use.
        unsafe { mdb_txn_reset(self.reader) };
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        // SAFETY: alive, and not used after this.
        unsafe { mdb_txn_abort(self.reader) };
        // SAFETY: open, without transactions, and not used after this.
        unsafe { mdb_env_close(self.env) };
    }
}
