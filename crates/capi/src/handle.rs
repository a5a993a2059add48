//! Everything that a C program holds a cookie of.
//!
//! A cookie is: the kind in its low 4 bits, the place in the table in the next 28, the age of that place in the upper 32. A
//! cookie of what was closed is refused, also after its place was given to something else.
//!
//! Invariants: cookie 0 is never given out; what a cookie leads to is of the kind that the cookie says; the locks here are
//! held for a look or a change, never while something is closed.

use crate::cont::{self, ContHandle};
use crate::error::{Der, Result};
use crate::event::{self, Queue};
use crate::object::{ArrayHandle, KvHandle, ObjectHandle};
use crate::oit::OitHandle;
use crate::place::PoolHandle;
use crate::tx::TxHandle;
use crate::types::Handle;
use crate::{life, object, place};
use dolmen_client::ContName;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

/// Threads that use different handles seldom meet in one of so many parts.
const SHARDS: usize = 16;
/// Places of one part: 28 bits for all parts together.
const PLACES_MAX: usize = 1 << 24;

/// What a cookie leads to.
#[derive(Clone)]
pub(crate) enum Entry {
    Queue(Arc<Queue>),
    Pool(Arc<PoolHandle>),
    Cont(Arc<ContHandle>),
    Object(Arc<ObjectHandle>),
    Oit(Arc<OitHandle>),
    Array(Arc<ArrayHandle>),
    Tx(Arc<TxHandle>),
    Kv(Arc<KvHandle>),
}

impl Entry {
    /// The kind, as the low bits of its cookie.
    //= daos:src/client/api hdl types: EQ 1, POOL 3, CO 5, OBJ 7, ARRAY 9, TX 11, KV 13
    fn tag(&self) -> u64 {
        match self {
            Self::Queue(_) => 1,
            Self::Pool(_) => 3,
            Self::Cont(_) => 5,
            Self::Object(_) | Self::Oit(_) => 7,
            Self::Array(_) => 9,
            Self::Tx(_) => 11,
            Self::Kv(_) => 13,
        }
    }

    /// What depends on others is given up before these.
    fn order(&self) -> u8 {
        match self {
            Self::Queue(_) => 0,
            Self::Tx(_) => 1,
            Self::Object(_) | Self::Oit(_) | Self::Array(_) | Self::Kv(_) => 2,
            Self::Cont(_) => 3,
            Self::Pool(_) => 4,
        }
    }

    /// The open container that it is, or is open in.
    fn cont(&self) -> Option<&ContHandle> {
        match self {
            Self::Cont(cont) => Some(cont),
            Self::Object(object) => Some(&object.cont),
            Self::Array(array) => Some(&array.object.cont),
            Self::Kv(kv) => Some(&kv.object.cont),
            Self::Oit(oit) => Some(oit.cont()),
            Self::Tx(tx) => Some(tx.cont()),
            Self::Queue(_) | Self::Pool(_) => None,
        }
    }
}

#[derive(Default)]
pub(crate) struct Part {
    places: Vec<Place>,
    free: Vec<u32>,
}

struct Place {
    age: u32,
    entry: Option<Entry>,
}

// Guards: one part of the table each; taken alone.
static TABLE: [RwLock<Part>; SHARDS] =
    [const { RwLock::new(Part { places: Vec::new(), free: Vec::new() }) }; SHARDS];

/// Gives something a cookie.
///
/// # Errors
/// `NOMEM` if all places are taken.
pub(crate) fn insert(entry: Entry) -> Result<Handle> {
    let tag = entry.tag();
    let shard = life::spread() % SHARDS;
    let mut part = TABLE[shard].write().unwrap_or_else(PoisonError::into_inner);
    let index = match part.free.pop() {
        Some(index) => index,
        None if part.places.len() >= PLACES_MAX => return Err(Der::NOMEM),
        None => {
            part.places.push(Place { age: 1, entry: None });
            u32::try_from(part.places.len() - 1).map_err(|_wide| Der::NOMEM)?
        }
    };
    let place = &mut part.places[index as usize];
    place.entry = Some(entry);
    let number = u64::from(index) * SHARDS as u64 + shard as u64;
    Ok(Handle { cookie: u64::from(place.age) << 32 | number << 4 | tag })
}

/// Where a cookie leads, if it is one: part, place and age.
fn locate(handle: Handle) -> (usize, usize, u32) {
    let [_, _, _, _, a, b, c, d] = handle.cookie.to_le_bytes();
    let number = (handle.cookie >> 4) & 0x0fff_ffff;
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    (number % SHARDS, number / SHARDS, u32::from_le_bytes([a, b, c, d]))
}

/// What `of` says of those that are there.
fn each<T>(of: impl Fn(&Entry) -> Option<T>) -> Vec<T> {
    let mut found = Vec::new();
    for part in &TABLE {
        let part = part.read().unwrap_or_else(PoisonError::into_inner);
        found.extend(part.places.iter().filter_map(|place| of(place.entry.as_ref()?)));
    }
    found
}

/// The queues that are open.
pub(crate) fn queues() -> Vec<Arc<Queue>> {
    each(|entry| match entry {
        Entry::Queue(queue) => Some(Arc::clone(queue)),
        _ => None,
    })
}

/// The pools that are connected to.
fn pools() -> Vec<Arc<PoolHandle>> {
    each(|entry| match entry {
        Entry::Pool(pool) => Some(Arc::clone(pool)),
        _ => None,
    })
}

/// What a cookie leads to.
///
/// # Errors
/// `NO_HDL` if it was not given out, or closed, or if this process was forked off the one that got it.
pub(crate) fn find(handle: Handle) -> Result<Entry> {
    if !life::is_own() {
        return Err(Der::NO_HDL);
    }
    let (shard, index, age) = locate(handle);
    let part = TABLE[shard].read().unwrap_or_else(PoisonError::into_inner);
    let place = part.places.get(index).filter(|place| place.age == age);
    let entry = place.and_then(|place| place.entry.as_ref()).ok_or(Der::NO_HDL)?;
    if entry.tag() == handle.cookie & 15 { Ok(entry.clone()) } else { Err(Der::NO_HDL) }
}

/// Takes a cookie back if `is_right` says that it may be, and returns what it led to.
///
/// # Errors
/// `NO_HDL` as [`find`], or if it is not the right thing to close.
pub(crate) fn remove(handle: Handle, is_right: impl FnOnce(&Entry) -> bool) -> Result<Entry> {
    if !life::is_own() {
        return Err(Der::NO_HDL);
    }
    let (shard, index, age) = locate(handle);
    let mut part = TABLE[shard].write().unwrap_or_else(PoisonError::into_inner);
    let place = part.places.get_mut(index).filter(|place| place.age == age).ok_or(Der::NO_HDL)?;
    match &place.entry {
        Some(entry) if entry.tag() == handle.cookie & 15 && is_right(entry) => {}
        _ => return Err(Der::NO_HDL),
    }
    let entry = place.entry.take().ok_or(Der::NO_HDL)?;
    place.age = place.age.wrapping_add(1).max(1);
    part.free.push(u32::try_from(index).map_err(|_wide| Der::NO_HDL)?);
    Ok(entry)
}

/// Takes back the cookies of open containers that `is_meant`, and of all that is open in them; what they led to comes in
/// the order of what depends on what.
pub(crate) fn evict(is_meant: impl Fn(&ContHandle) -> bool) -> Vec<Entry> {
    let mut gone = Vec::new();
    for part in &TABLE {
        let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
        let Part { places, free } = &mut *part;
        for (index, place) in places.iter_mut().enumerate() {
            let is_of = |entry: &mut Entry| entry.cont().is_some_and(&is_meant);
            if let (Some(entry), Ok(index)) = (place.entry.take_if(is_of), u32::try_from(index)) {
                place.age = place.age.wrapping_add(1).max(1);
                free.push(index);
                gone.push(entry);
            }
        }
    }
    gone.sort_by_key(Entry::order);
    gone
}

/// Takes all cookies back; what they led to is given up in the order of what depends on what.
pub(crate) fn clear() {
    let mut all = Vec::new();
    for part in &TABLE {
        let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
        let Part { places, free } = &mut *part;
        for (index, place) in places.iter_mut().enumerate() {
            if let (Some(entry), Ok(index)) = (place.entry.take(), u32::try_from(index)) {
                place.age = place.age.wrapping_add(1).max(1);
                free.push(index);
                all.push(entry);
            }
        }
    }
    all.sort_by_key(Entry::order);
}

/// Gives all queues up. If something of that was called off since no answer has come, nobody waits for the engines that
/// have said nothing at all meanwhile: what is closed now is theirs to find out.
pub(crate) fn end_queues() {
    let pools: Vec<_> = pools().into_iter().map(|pool| (pool.heard(), pool)).collect();
    let mut is_silent = event::clear();
    for queue in queues() {
        is_silent |= queue.drain();
    }
    for (heard, pool) in pools.into_iter().filter(|_| is_silent) {
        pool.note_silence(heard);
    }
}

macro_rules! finders {
    ($($name:ident, $kind:ident, $of:ty;)*) => {
        $(/// What a cookie of this kind leads to.
        ///
        /// # Errors
        /// `NO_HDL` for anything else.
        pub(crate) fn $name(handle: Handle) -> Result<Arc<$of>> {
            match find(handle)? {
                Entry::$kind(found) => Ok(found),
                _ => Err(Der::NO_HDL),
            }
        })*
    };
}

finders! {
    queue, Queue, Queue;
    pool, Pool, PoolHandle;
    cont, Cont, ContHandle;
    oit, Oit, OitHandle;
    array, Array, ArrayHandle;
    tx, Tx, TxHandle;
    kv, Kv, KvHandle;
}

/// The object that a cookie leads to: its own, or that in which an array or a key-value store is kept.
///
/// # Errors
/// `NO_HDL` for anything else.
pub(crate) fn object(handle: Handle) -> Result<Arc<ObjectHandle>> {
    match find(handle)? {
        Entry::Object(object) => Ok(object),
        Entry::Array(array) => Ok(Arc::clone(&array.object)),
        Entry::Kv(kv) => Ok(Arc::clone(&kv.object)),
        _ => Err(Der::NO_HDL),
    }
}

/// The locks of all parts of the table.
pub(crate) type Locked = [RwLockWriteGuard<'static, Part>; SHARDS];

/// Takes them for a fork, so that the child finds the table whole.
pub(crate) fn hold() -> Locked {
    TABLE.each_ref().map(|part| part.write().unwrap_or_else(PoisonError::into_inner))
}

/// Gives up, without closing anything, what belongs to the process that this one was forked off.
pub(crate) fn forget() {
    replace_all(|_entry, _anew| None);
}

/// As [`forget`], but what can be had anew gets its cookie back: connections to daemons, and what is open through them.
/// Queues begin empty; transactions are not begun anew, since what they have read and written is the parent's.
pub(crate) fn renew() {
    replace_all(remake);
}

/// What was made anew for what.
#[derive(Default)]
struct Anew {
    pools: Vec<(*const PoolHandle, Arc<PoolHandle>)>,
    conts: Vec<(*const ContHandle, Arc<ContHandle>)>,
}

/// Puts something else, or nothing, into the place of everything. What was there is neither closed nor freed.
fn replace_all(mut other: impl FnMut(&Entry, &mut Anew) -> Option<Entry>) {
    let mut all = Vec::new();
    for (shard, part) in TABLE.iter().enumerate() {
        let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
        let taken =
            part.places.iter_mut().enumerate().filter_map(|(at, place)| Some((at, place.entry.take()?)));
        all.extend(taken.map(|(index, entry)| (shard, index, entry)));
    }
    all.sort_by_key(|(.., entry)| match entry {
        Entry::Pool(_) => 0,
        Entry::Cont(_) => 1,
        _ => 2,
    });
    let mut anew = Anew::default();
    for (shard, index, entry) in all {
        let made = other(&entry, &mut anew);
        core::mem::forget(entry);
        let mut part = TABLE[shard].write().unwrap_or_else(PoisonError::into_inner);
        let Part { places, free } = &mut *part;
        let place = &mut places[index];
        if made.is_none() {
            place.age = place.age.wrapping_add(1).max(1);
            free.extend(u32::try_from(index).ok());
        }
        place.entry = made;
    }
}

/// The same thing of this process, if there can be one.
fn remake(entry: &Entry, anew: &mut Anew) -> Option<Entry> {
    match entry {
        Entry::Pool(pool) => {
            let made = Arc::new(place::reconnect(pool)?);
            anew.pools.push((Arc::as_ptr(pool), Arc::clone(&made)));
            Some(Entry::Pool(made))
        }
        Entry::Cont(cont) => {
            let (_, pool) =
                anew.pools.iter().find(|(old, _)| core::ptr::eq(*old, Arc::as_ptr(&cont.pool)))?;
            let (name, shared) = (ContName::Uuid(cont.client.uuid()), (cont.flags, cont.word));
            let opened = pool.client.open_container_for(&name, cont::wanted_again(shared)).ok()?;
            let made = Arc::new(ContHandle::new(opened, Arc::clone(pool), shared));
            anew.conts.push((Arc::as_ptr(cont), Arc::clone(&made)));
            Some(Entry::Cont(made))
        }
        Entry::Object(object) => reopened(object, anew).map(Entry::Object),
        Entry::Kv(kv) => Some(Entry::Kv(Arc::new(KvHandle { object: reopened(&kv.object, anew)? }))),
        Entry::Array(array) => array.reopened(reopened(&array.object, anew)?).map(Entry::Array),
        Entry::Queue(_) => Some(Entry::Queue(Arc::default())),
        Entry::Tx(_) | Entry::Oit(_) => None,
    }
}

fn reopened(object: &ObjectHandle, anew: &Anew) -> Option<Arc<ObjectHandle>> {
    let (_, cont) = anew.conts.iter().find(|(old, _)| core::ptr::eq(*old, Arc::as_ptr(&object.cont)))?;
    object::open(cont, object.client.oid().into(), object.mode).ok()
}
