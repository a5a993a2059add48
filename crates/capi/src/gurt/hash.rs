//! The hash table of libgurt, whose records belong to the program and are chained through a list link inside of them.
//!
//! Invariants: a chain is a ring of its bucket's head and the links of its records; a link that is in no table leads to
//! itself; the lock of a table is not held while a record is freed.

use super::hashes::string_hash;
use crate::error::{Der, Result, der, silent};
use crate::raw::{In, Out};
use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a table does.
//= daos:src/include/gurt/hash.h enum d_hash_feats
const NO_LOCK: u32 = 1;
const EPHEMERAL: u32 = 1 << 2;
const LRU: u32 = 1 << 3;

/// A table of 2^28 buckets has 4 GiB.
const BITS_MAX: u32 = 28;

/// A link of a list.
//= daos:src/include/gurt/list.h d_list_t
#[repr(C)]
#[derive(Clone, Copy)]
struct CLink {
    next: Link,
    prev: Link,
}

/// The address of a link.
type Link = Out<CLink>;

type Table = Out<CTable>;

type KeyCmp = extern "C" fn(Table, Link, In<u8>, c_uint) -> bool;
type KeyInit = extern "C" fn(Table, Link, *mut c_void);
type KeyHash = extern "C" fn(Table, In<u8>, c_uint) -> u32;
type RecHash = extern "C" fn(Table, Link) -> u32;
type Addref = extern "C" fn(Table, Link);
type Decref = extern "C" fn(Table, Link) -> bool;
type Ndecref = extern "C" fn(Table, Link, c_int) -> c_int;
type Free = extern "C" fn(Table, Link);

/// What a program does with its records.
//= daos:src/include/gurt/hash.h d_hash_table_ops_t
#[repr(C)]
#[derive(Clone, Copy)]
struct COps {
    key_cmp: Option<KeyCmp>,
    key_init: Option<KeyInit>,
    key_hash: Option<KeyHash>,
    rec_hash: Option<RecHash>,
    addref: Option<Addref>,
    decref: Option<Decref>,
    ndecref: Option<Ndecref>,
    free: Option<Free>,
}

const _: () = assert!(size_of::<COps>() == 64);

/// A table, made here or a part of the program's own memory.
//= daos:src/include/gurt/hash.h struct d_hash_table
#[repr(C)]
#[derive(Clone, Copy)]
struct CTable {
    lock: [u64; 7],
    bits: u32,
    feats: u32,
    private: *mut c_void,
    ops: Out<COps>,
    buckets: Link,
    // Guards: the chains of the table; NULL if the program does so.
    locks: *mut Mutex<()>,
}

const _: () = assert!(size_of::<CTable>() == 96);
const _: () = assert!(core::mem::offset_of!(CTable, bits) == 56);

/// A table in use, and what it does.
struct Opened {
    at: Table,
    table: CTable,
    ops: COps,
}

impl Opened {
    fn new(at: Table) -> Result<Self> {
        let table = at.get()?;
        let ops = table.ops.get()?;
        if table.buckets.is_null() {
            return Err(Der::UNINIT);
        }
        Ok(Self { at, table, ops })
    }

    fn has(&self, feature: u32) -> bool {
        self.table.feats & feature != 0
    }

    /// Keeps other threads out, if the table does so at all.
    // Guards: the chains of this table; taken alone, but for what callbacks of the program take under it.
    fn lock<'a>(&self) -> Option<MutexGuard<'a, ()>> {
        if self.has(NO_LOCK) || self.table.locks.is_null() {
            return None;
        }
        // SAFETY: it was made with the table, and lives as long.
        let lock: &'a Mutex<()> = unsafe { &*self.table.locks };
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn bucket(&self, hash: u32) -> Link {
        let mask = (1u32 << self.table.bits) - 1;
        self.table.buckets.at((hash & mask) as usize)
    }

    fn key_hash(&self, key: In<u8>, len: c_uint) -> Result<u32> {
        match self.ops.key_hash {
            Some(hash) => Ok(hash(self.at, key, len)),
            None => Ok(string_hash(key.list(len as usize)?)),
        }
    }

    fn rec_hash(&self, link: Link) -> Result<u32> {
        Ok(self.ops.rec_hash.ok_or(Der::INVAL)?(self.at, link))
    }

    /// The record of a key in its chain.
    fn find(&self, bucket: Link, key: In<u8>, len: c_uint) -> Result<Option<Link>> {
        let is_it = self.ops.key_cmp.ok_or(Der::INVAL)?;
        let mut at = bucket.get()?.next;
        while at.address() != bucket.address() {
            if is_it(self.at, at, key, len) {
                return Ok(Some(at));
            }
            at = at.get()?.next;
        }
        Ok(None)
    }

    fn addref(&self, link: Link) {
        if let Some(addref) = self.ops.addref {
            addref(self.at, link);
        }
    }

    /// Takes a reference back; whether it was the last.
    fn decref(&self, link: Link) -> bool {
        self.ops.decref.is_some_and(|decref| decref(self.at, link))
    }

    fn free(&self, link: Link) {
        if let Some(free) = self.ops.free {
            free(self.at, link);
        }
    }

    /// Puts a record into the table, which then has a reference to it unless its records are ephemeral.
    fn insert(&self, bucket: Link, link: Link) -> Result<()> {
        link.check()?;
        if !self.has(EPHEMERAL) {
            self.addref(link);
        }
        push_front(bucket, link)
    }

    /// Takes a record out of the table; whether it is to be freed.
    fn take_out(&self, link: Link) -> Result<bool> {
        unlink(link)?;
        Ok(!self.has(EPHEMERAL) && self.decref(link))
    }

    /// After the last reference to a record: it leaves the table if the table has none itself.
    fn bury(&self, link: Link, is_last: bool) -> Result<bool> {
        if is_last && self.has(EPHEMERAL) && !is_unlinked(link)? {
            unlink(link)?;
        }
        Ok(is_last)
    }

    fn first(&self) -> Result<Option<Link>> {
        for index in 0..1usize << self.table.bits {
            let bucket = self.table.buckets.at(index);
            let first = bucket.get()?.next;
            if first.address() != bucket.address() {
                return Ok(Some(first));
            }
        }
        Ok(None)
    }
}

fn set_next(link: Link, next: Link) -> Result<()> {
    link.set(CLink { next, ..link.get()? })
}

fn set_prev(link: Link, prev: Link) -> Result<()> {
    link.set(CLink { prev, ..link.get()? })
}

fn push_front(head: Link, link: Link) -> Result<()> {
    let first = head.get()?.next;
    link.set(CLink { next: first, prev: head })?;
    set_prev(first, link)?;
    set_next(head, link)
}

fn push_back(head: Link, link: Link) -> Result<()> {
    push_front(head.get()?.prev, link)
}

/// Takes a link out of its list; it leads to itself then.
fn unlink(link: Link) -> Result<()> {
    let CLink { next, prev } = link.get()?;
    if next.is_null() || prev.is_null() {
        return Err(Der::INVAL);
    }
    set_next(prev, next)?;
    set_prev(next, prev)?;
    link.set(CLink { next: link, prev: link })
}

fn is_unlinked(link: Link) -> Result<bool> {
    let next = link.get()?.next;
    Ok(next.is_null() || next.address() == link.address())
}

/// Makes a table in memory of the program.
#[unsafe(no_mangle)]
extern "C" fn d_hash_table_create_inplace(
    feats: u32,
    bits: u32,
    private: *mut c_void,
    ops: Out<COps>,
    table: Table,
) -> c_int {
    der(|| {
        table.check()?;
        if bits > BITS_MAX || ops.get()?.key_cmp.is_none() {
            return Err(Der::INVAL);
        }
        let buckets: Link = Out::of(crate::raw::allocate(size_of::<CLink>() << bits)?.cast());
        for index in 0..1usize << bits {
            let head = buckets.at(index);
            head.set(CLink { next: head, prev: head })?;
        }
        let locks =
            if feats & NO_LOCK == 0 { Box::into_raw(Box::new(Mutex::new(()))) } else { ptr::null_mut() };
        table.set(CTable { lock: [0; 7], bits, feats, private, ops, buckets, locks })
    })
}

/// Makes a table.
#[unsafe(no_mangle)]
extern "C" fn d_hash_table_create(
    feats: u32,
    bits: u32,
    private: *mut c_void,
    ops: Out<COps>,
    out: Out<*mut CTable>,
) -> c_int {
    der(|| {
        let out = out.check()?;
        let memory: *mut CTable = crate::raw::allocate(size_of::<CTable>())?.cast();
        match d_hash_table_create_inplace(feats, bits, private, ops, Out::of(memory)) {
            0 => out.set(memory),
            code => {
                crate::raw::release(memory);
                Err(Der::from_code(code))
            }
        }
    })
}

/// Gives the inside of a table up: `BUSY` while it has records, unless `force` takes them out.
#[unsafe(no_mangle)]
extern "C" fn d_hash_table_destroy_inplace(table: Table, force: bool) -> c_int {
    der(|| destroy(table, force))
}

fn destroy(at: Table, force: bool) -> Result<()> {
    let opened = Opened::new(at)?;
    while let Some(link) = opened.first()? {
        if !force {
            return Err(Der::BUSY);
        }
        let is_last = opened.take_out(link)?;
        // Of ephemeral records the table has no reference, and nobody is left who could find them.
        if is_last || (opened.has(EPHEMERAL) && opened.decref(link)) {
            opened.free(link);
        }
    }
    crate::raw::release(opened.table.buckets.as_ptr());
    if !opened.table.locks.is_null() {
        // SAFETY: it was made by a box with the table, and nobody uses a table that is destroyed.
        drop(unsafe { Box::from_raw(opened.table.locks) });
    }
    at.set(CTable { buckets: Out::NULL, locks: ptr::null_mut(), ..opened.table })
}

/// Gives a table up.
#[unsafe(no_mangle)]
extern "C" fn d_hash_table_destroy(table: Table, force: bool) -> c_int {
    der(|| {
        destroy(table, force)?;
        crate::raw::release(table.as_ptr());
        Ok(())
    })
}

type Visit = extern "C" fn(Link, *mut c_void) -> c_int;

/// Calls a function for each record until it returns something else than 0.
#[unsafe(no_mangle)]
extern "C" fn d_hash_table_traverse(table: Table, visit: Option<Visit>, arg: *mut c_void) -> c_int {
    crate::error::number(|| {
        let (opened, visit) = (Opened::new(table)?, visit.ok_or(Der::INVAL)?);
        let lock = opened.lock();
        for index in 0..1usize << opened.table.bits {
            let bucket = opened.table.buckets.at(index);
            let mut at = bucket.get()?.next;
            while at.address() != bucket.address() {
                let next = at.get()?.next;
                let code = visit(at, arg);
                if code != 0 {
                    return Ok(code);
                }
                at = next;
            }
        }
        drop(lock);
        Ok(0)
    })
}

/// Whether a table has no records.
#[unsafe(no_mangle)]
extern "C" fn d_hash_table_is_empty(table: Table) -> bool {
    silent(true, || {
        let Ok(opened) = Opened::new(table) else { return true };
        let lock = opened.lock();
        let is_empty = matches!(opened.first(), Ok(None));
        drop(lock);
        is_empty
    })
}

/// The record of a key, with a reference to it; NULL if there is none.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_find(table: Table, key: In<u8>, len: c_uint) -> Link {
    silent(Out::NULL, || find(table, key, len).unwrap_or(None).unwrap_or(Out::NULL))
}

fn find(table: Table, key: In<u8>, len: c_uint) -> Result<Option<Link>> {
    let opened = Opened::new(table)?;
    let bucket = opened.bucket(opened.key_hash(key, len)?);
    let lock = opened.lock();
    let found = opened.find(bucket, key, len)?;
    if let Some(link) = found {
        if opened.has(LRU) {
            unlink(link)?;
            push_front(bucket, link)?;
        }
        opened.addref(link);
    }
    drop(lock);
    Ok(found)
}

/// Adds a record; with `exclusive`, only if there is none of its key.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_insert(
    table: Table,
    key: In<u8>,
    len: c_uint,
    link: Link,
    exclusive: bool,
) -> c_int {
    der(|| {
        let opened = Opened::new(table)?;
        if key.is_null() || len == 0 {
            return Err(Der::INVAL);
        }
        let bucket = opened.bucket(opened.key_hash(key, len)?);
        let _lock = opened.lock();
        if exclusive && opened.find(bucket, key, len)?.is_some() {
            return Err(Der::EXIST);
        }
        opened.insert(bucket, link)
    })
}

/// The record of a key, with a reference to it; the one that is given becomes it if there is none.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_find_insert(table: Table, key: In<u8>, len: c_uint, link: Link) -> Link {
    silent(Out::NULL, || {
        let inserted = (|| {
            let opened = Opened::new(table)?;
            let bucket = opened.bucket(opened.key_hash(key, len)?);
            let _lock = opened.lock();
            if let Some(found) = opened.find(bucket, key, len)? {
                opened.addref(found);
                return Ok(found);
            }
            opened.insert(bucket, link)?;
            Ok::<_, Der>(link)
        })();
        inserted.unwrap_or(Out::NULL)
    })
}

/// Adds a record to which the program gives a key itself.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_insert_anonym(table: Table, link: Link, arg: *mut c_void) -> c_int {
    der(|| {
        let opened = Opened::new(table)?;
        let init = opened.ops.key_init.ok_or(Der::INVAL)?;
        link.check()?;
        let _lock = opened.lock();
        init(opened.at, link, arg);
        opened.insert(opened.bucket(opened.rec_hash(link)?), link)
    })
}

/// Takes the record of a key out of the table; whether there was one.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_delete(table: Table, key: In<u8>, len: c_uint) -> bool {
    silent(false, || {
        let deleted = (|| {
            let opened = Opened::new(table)?;
            let bucket = opened.bucket(opened.key_hash(key, len)?);
            let lock = opened.lock();
            let Some(link) = opened.find(bucket, key, len)? else { return Ok(false) };
            let is_last = opened.take_out(link)?;
            drop(lock);
            if is_last {
                opened.free(link);
            }
            Ok::<_, Der>(true)
        })();
        deleted.unwrap_or(false)
    })
}

/// Takes a record out of the table; whether it was in it.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_delete_at(table: Table, link: Link) -> bool {
    silent(false, || {
        let deleted = (|| {
            let opened = Opened::new(table)?;
            let lock = opened.lock();
            if is_unlinked(link)? {
                return Ok(false);
            }
            let is_last = opened.take_out(link)?;
            drop(lock);
            if is_last {
                opened.free(link);
            }
            Ok::<_, Der>(true)
        })();
        deleted.unwrap_or(false)
    })
}

/// Makes the record of a key the one that was used longest ago; whether there is one.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_evict(table: Table, key: In<u8>, len: c_uint) -> bool {
    silent(false, || {
        let evicted = (|| {
            let opened = Opened::new(table)?;
            let bucket = opened.bucket(opened.key_hash(key, len)?);
            let _lock = opened.lock();
            match opened.find(bucket, key, len)? {
                Some(link) if opened.has(LRU) => {
                    unlink(link)?;
                    push_back(bucket, link)?;
                    Ok::<_, Der>(true)
                }
                _ => Ok(false),
            }
        })();
        evicted.unwrap_or(false)
    })
}

/// Makes a record the one of its chain that was used longest ago; whether it is in the table.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_evict_at(table: Table, link: Link) -> bool {
    silent(false, || {
        let evicted = (|| {
            let opened = Opened::new(table)?;
            let _lock = opened.lock();
            if !opened.has(LRU) || is_unlinked(link)? {
                return Ok(false);
            }
            let bucket = opened.bucket(opened.rec_hash(link)?);
            unlink(link)?;
            push_back(bucket, link)?;
            Ok::<_, Der>(true)
        })();
        evicted.unwrap_or(false)
    })
}

/// Takes a reference to a record.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_addref(table: Table, link: Link) {
    silent((), || {
        if let Ok(opened) = Opened::new(table) {
            let lock = opened.lock();
            opened.addref(link);
            drop(lock);
        }
    });
}

/// Gives a reference to a record back; after the last one the record is freed, and an ephemeral one leaves the table.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_decref(table: Table, link: Link) {
    silent((), || {
        if let Ok(opened) = Opened::new(table) {
            let lock = opened.lock();
            let is_last = opened.decref(link);
            let buried = opened.bury(link, is_last);
            drop(lock);
            if buried == Ok(true) {
                opened.free(link);
            }
        }
    });
}

/// Gives so many references to a record back.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_ndecref(table: Table, count: c_int, link: Link) -> c_int {
    der(|| {
        let opened = Opened::new(table)?;
        let lock = opened.lock();
        let mut is_last = false;
        match opened.ops.ndecref {
            Some(ndecref) => match ndecref(opened.at, link, count) {
                code if code >= 1 => is_last = true,
                0 => {}
                code => return Err(Der::from_code(code)),
            },
            None => {
                for _ in 0..count {
                    if is_last {
                        return Err(Der::INVAL);
                    }
                    is_last = opened.decref(link);
                }
            }
        }
        let buried = opened.bury(link, is_last)?;
        drop(lock);
        if buried {
            opened.free(link);
        }
        Ok(())
    })
}

/// Whether a record is in no table.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_unlinked(link: Link) -> bool {
    silent(true, || is_unlinked(link).unwrap_or(true))
}

/// Any record of a table, without a reference to it; NULL if there is none.
#[unsafe(no_mangle)]
extern "C" fn d_hash_rec_first(table: Table) -> Link {
    silent(Out::NULL, || {
        let Ok(opened) = Opened::new(table) else { return Out::NULL };
        let lock = opened.lock();
        let first = opened.first().unwrap_or(None);
        drop(lock);
        first.unwrap_or(Out::NULL)
    })
}
