//! RocksDB through its C interface (`rocksdb/c.h`), the library of the system.

use crate::error::{Error, Result};
use crate::peer::{Durability, Peer, Setup};
use core::ffi::{CStr, c_char, c_double, c_int, c_uchar, c_void};
use core::ptr::null_mut;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

/// Memtables: larger than the default of 64 MiB, so that fewer files are written and merged.
const WRITE_BUFFER_BYTES: usize = 256 << 20;
const BLOOM_BITS_PER_KEY: f64 = 10.0;
const NO_COMPRESSION: c_int = 0;

/// An object of the library that is known by its address.
#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn rocksdb_options_create() -> *mut Opaque;
    fn rocksdb_options_destroy(options: *mut Opaque);
    fn rocksdb_options_set_create_if_missing(options: *mut Opaque, on: c_uchar);
    fn rocksdb_options_set_write_buffer_size(options: *mut Opaque, bytes: usize);
    fn rocksdb_options_set_compression(options: *mut Opaque, kind: c_int);
    fn rocksdb_options_set_max_background_jobs(options: *mut Opaque, jobs: c_int);
    fn rocksdb_options_set_block_based_table_factory(options: *mut Opaque, table: *mut Opaque);
    fn rocksdb_block_based_options_create() -> *mut Opaque;
    fn rocksdb_block_based_options_destroy(table: *mut Opaque);
    fn rocksdb_block_based_options_set_block_cache(table: *mut Opaque, cache: *mut Opaque);
    fn rocksdb_block_based_options_set_filter_policy(table: *mut Opaque, filter: *mut Opaque);
    fn rocksdb_cache_create_lru(bytes: usize) -> *mut Opaque;
    fn rocksdb_cache_destroy(cache: *mut Opaque);
    fn rocksdb_filterpolicy_create_bloom(bits_per_key: c_double) -> *mut Opaque;
    fn rocksdb_open(options: *const Opaque, name: *const c_char, error: *mut *mut c_char) -> *mut Opaque;
    fn rocksdb_close(db: *mut Opaque);
    fn rocksdb_writeoptions_create() -> *mut Opaque;
    fn rocksdb_writeoptions_destroy(options: *mut Opaque);
    fn rocksdb_writeoptions_set_sync(options: *mut Opaque, on: c_uchar);
    fn rocksdb_readoptions_create() -> *mut Opaque;
    fn rocksdb_readoptions_destroy(options: *mut Opaque);
    fn rocksdb_put(
        db: *mut Opaque,
        options: *const Opaque,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_writebatch_create() -> *mut Opaque;
    fn rocksdb_writebatch_destroy(batch: *mut Opaque);
    fn rocksdb_writebatch_clear(batch: *mut Opaque);
    fn rocksdb_writebatch_put(
        batch: *mut Opaque,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
    );
    fn rocksdb_write(db: *mut Opaque, options: *const Opaque, batch: *mut Opaque, error: *mut *mut c_char);
    fn rocksdb_get_pinned(
        db: *mut Opaque,
        options: *const Opaque,
        key: *const c_char,
        key_bytes: usize,
        error: *mut *mut c_char,
    ) -> *mut Opaque;
    fn rocksdb_pinnableslice_value(slice: *const Opaque, bytes: *mut usize) -> *const c_char;
    fn rocksdb_pinnableslice_destroy(slice: *mut Opaque);
    fn rocksdb_multi_get(
        db: *mut Opaque,
        options: *const Opaque,
        count: usize,
        keys: *const *const c_char,
        key_bytes: *const usize,
        values: *mut *mut c_char,
        value_bytes: *mut usize,
        errors: *mut *mut c_char,
    );
    fn rocksdb_free(memory: *mut c_void);
}

/// An open database with what its calls need.
struct Rocks {
    db: *mut Opaque,
    write: *mut Opaque,
    read: *mut Opaque,
    batch: *mut Opaque,
}

/// Opens a database in the directory. Its background threads run where the caller is bound to.
pub fn create<'v>(setup: &Setup<'v>) -> Result<Box<dyn Peer<'v> + 'v>> {
    let name = CString::new(setup.dir.as_os_str().as_bytes())?;
    let memory = usize::try_from(setup.memory_bytes).unwrap_or(usize::MAX);
    // SAFETY: takes nothing.
    let options = unsafe { rocksdb_options_create() };
    // SAFETY: takes nothing.
    let table = unsafe { rocksdb_block_based_options_create() };
    // SAFETY: takes a number.
    let cache = unsafe { rocksdb_cache_create_lru(memory) };
    // SAFETY: takes a number.
    let filter = unsafe { rocksdb_filterpolicy_create_bloom(BLOOM_BITS_PER_KEY) };
    // SAFETY: both are alive; the table shares the cache.
    unsafe { rocksdb_block_based_options_set_block_cache(table, cache) };
    // SAFETY: both are alive; the table owns the filter from here on.
    unsafe { rocksdb_block_based_options_set_filter_policy(table, filter) };
    // SAFETY: both are alive; the options copy the table's.
    unsafe { rocksdb_options_set_block_based_table_factory(options, table) };
    // SAFETY: alive.
    unsafe { rocksdb_options_set_create_if_missing(options, 1) };
    // SAFETY: alive.
    unsafe { rocksdb_options_set_write_buffer_size(options, WRITE_BUFFER_BYTES) };
    // SAFETY: alive; the number is one of the library's.
    unsafe { rocksdb_options_set_compression(options, NO_COMPRESSION) };
    // SAFETY: alive.
    unsafe { rocksdb_options_set_max_background_jobs(options, 2) };
    let mut error = null_mut();
    // SAFETY: the options are alive, the name ends with a zero byte, the error is written at most once.
    let db = unsafe { rocksdb_open(options, name.as_ptr(), &raw mut error) };
    // SAFETY: the database has copied them.
    unsafe { rocksdb_options_destroy(options) };
    // SAFETY: the options had copied it.
    unsafe { rocksdb_block_based_options_destroy(table) };
    // SAFETY: counted; the database holds it.
    unsafe { rocksdb_cache_destroy(cache) };
    check(error)?;
    // SAFETY: takes nothing.
    let write = unsafe { rocksdb_writeoptions_create() };
    // SAFETY: alive.
    unsafe { rocksdb_writeoptions_set_sync(write, u8::from(setup.durability == Durability::Power)) };
    // SAFETY: takes nothing.
    let read = unsafe { rocksdb_readoptions_create() };
    // SAFETY: takes nothing.
    let batch = unsafe { rocksdb_writebatch_create() };
    Ok(Box::new(Rocks { db, write, read, batch }))
}

fn refused(said: &str) -> Error {
    Error::Peer { name: "RocksDB", said: said.to_owned() }
}

/// Turns the library's message into an error.
fn check(error: *mut c_char) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: a message of the library ends with a zero byte and is ours.
    let said = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: ours, and not used after this.
    unsafe { rocksdb_free(error.cast()) };
    Err(refused(&said))
}

impl<'v> Peer<'v> for Rocks {
    fn put(&mut self, key: u64, value: &'v [u8]) -> Result<()> {
        let key = key.to_le_bytes();
        let mut error = null_mut();
        let (at, len) = (value.as_ptr().cast(), value.len());
        // SAFETY: database and options are alive; key and value are read during the call.
        unsafe { rocksdb_put(self.db, self.write, key.as_ptr().cast(), 8, at, len, &raw mut error) };
        check(error)
    }

    fn put_batch(&mut self, items: &[(u64, &'v [u8])]) -> Result<()> {
        // SAFETY: alive.
        unsafe { rocksdb_writebatch_clear(self.batch) };
        for (key, value) in items {
            let key = key.to_le_bytes();
            let (at, len) = (value.as_ptr().cast(), value.len());
            // SAFETY: alive; the batch copies key and value.
            unsafe { rocksdb_writebatch_put(self.batch, key.as_ptr().cast(), 8, at, len) };
        }
        let mut error = null_mut();
        // SAFETY: all three are alive.
        unsafe { rocksdb_write(self.db, self.write, self.batch, &raw mut error) };
        check(error)
    }

    fn get(&mut self, key: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let bytes = key.to_le_bytes();
        let mut error = null_mut();
        // SAFETY: database and options are alive; the key is read during the call.
        let slice =
            unsafe { rocksdb_get_pinned(self.db, self.read, bytes.as_ptr().cast(), 8, &raw mut error) };
        check(error)?;
        if slice.is_null() {
            return Err(Error::Wrong { name: "RocksDB", key });
        }
        let mut len = 0;
        // SAFETY: the slice is alive until it is destroyed below.
        let value = unsafe { rocksdb_pinnableslice_value(slice, &raw mut len) };
        // SAFETY: the library says that so many bytes are there while the slice lives.
        each(key, unsafe { core::slice::from_raw_parts(value.cast(), len) });
        // SAFETY: ours, and not used after this.
        unsafe { rocksdb_pinnableslice_destroy(slice) };
        Ok(())
    }

    fn get_batch(&mut self, keys: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let bytes: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
        let pointers: Vec<*const c_char> = bytes.iter().map(|key| key.as_ptr().cast()).collect();
        let key_bytes = vec![8_usize; keys.len()];
        let mut values = vec![null_mut::<c_char>(); keys.len()];
        let mut value_bytes = vec![0_usize; keys.len()];
        let mut errors = vec![null_mut::<c_char>(); keys.len()];
        // SAFETY: each list has as many elements as the count says.
        unsafe {
            rocksdb_multi_get(
                self.db,
                self.read,
                keys.len(),
                pointers.as_ptr(),
                key_bytes.as_ptr(),
                values.as_mut_ptr(),
                value_bytes.as_mut_ptr(),
                errors.as_mut_ptr(),
            );
        }
        for (at, &key) in keys.iter().enumerate() {
            check(errors[at])?;
            if values[at].is_null() {
                return Err(Error::Wrong { name: "RocksDB", key });
            }
            // SAFETY: the library says that so many bytes are there; they are ours until freed below.
            each(key, unsafe { core::slice::from_raw_parts(values[at].cast(), value_bytes[at]) });
            // SAFETY: ours, and not used after this.
            unsafe { rocksdb_free(values[at].cast()) };
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: ours, and not used after this.
        unsafe { rocksdb_writebatch_destroy(self.batch) };
        // SAFETY: ours, and not used after this.
        unsafe { rocksdb_readoptions_destroy(self.read) };
        // SAFETY: ours, and not used after this.
        unsafe { rocksdb_writeoptions_destroy(self.write) };
        // SAFETY: ours, and not used after this.
        unsafe { rocksdb_close(self.db) };
    }
}
