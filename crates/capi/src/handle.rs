//! Everything that a C program holds a cookie of.
//!
//! A cookie is a number of a [`Table`].

use crate::cont::{self, ContHandle};
use crate::error::{Der, Result};
use crate::event::{self, Queue};
use crate::object::{ArrayHandle, KvHandle, ObjectHandle};
use crate::oit::OitHandle;
use crate::place::PoolHandle;
use crate::table::{self, Kept, Table};
use crate::tx::TxHandle;
use crate::types::Handle;
use crate::{life, object, place};
use core::cmp::Reverse;
use dolmen_client::ContName;
use std::sync::Arc;

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

impl Kept for Entry {
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
}

impl Entry {
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

static TABLE: Table<Entry> = Table::new();

/// Gives something a cookie.
///
/// # Errors
/// `NOMEM` if all places are taken.
pub(crate) fn insert(entry: Entry) -> Result<Handle> {
    Ok(Handle { cookie: TABLE.insert(entry).ok_or(Der::NOMEM)? })
}

/// The queues that are open.
pub(crate) fn queues() -> Vec<Arc<Queue>> {
    TABLE.each(|_, entry| match entry {
        Entry::Queue(queue) => Some(Arc::clone(queue)),
        _ => None,
    })
}

/// The pools that are connected to.
fn pools() -> Vec<Arc<PoolHandle>> {
    TABLE.each(|_, entry| match entry {
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
    TABLE.find(handle.cookie).ok_or(Der::NO_HDL)
}

/// Takes a cookie back if `is_right` says that it may be, and returns what it led to.
///
/// # Errors
/// `NO_HDL` as [`find`], or if it is not the right thing to close.
pub(crate) fn remove(handle: Handle, is_right: impl FnOnce(&Entry) -> bool) -> Result<Entry> {
    if !life::is_own() {
        return Err(Der::NO_HDL);
    }
    TABLE.remove(handle.cookie, is_right).ok_or(Der::NO_HDL)
}

/// Takes back the cookies of open containers that `is_meant`, and of all that is open in them; what they led to comes in
/// the order of what depends on what.
pub(crate) fn evict(is_meant: impl Fn(&ContHandle) -> bool) -> Vec<Entry> {
    let mut gone = TABLE.take_those(|entry| entry.cont().is_some_and(&is_meant));
    gone.sort_by_key(Entry::order);
    gone
}

/// Takes all cookies back; what they led to is given up in the order of what depends on what.
pub(crate) fn clear() {
    let mut all = TABLE.take_those(|_entry| true);
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

/// The locks of the table.
pub(crate) type Locked = table::Locked<Entry>;

/// Takes them for a fork.
pub(crate) fn hold() -> Locked {
    TABLE.hold()
}

/// Gives up, without closing anything, what belongs to the process that this one was forked off.
pub(crate) fn forget() {
    TABLE.replace_all(Entry::order, |_entry| None);
}

/// As [`forget`], but what can be had anew gets its cookie back: connections to daemons, and what is open through them.
/// Queues begin empty; transactions are not begun anew, since what they have read and written is the parent's.
pub(crate) fn renew() {
    let mut anew = Anew::default();
    TABLE.replace_all(|entry| Reverse(entry.order()), |entry| remake(entry, &mut anew));
}

/// What was made anew for what.
#[derive(Default)]
struct Anew {
    pools: Vec<(*const PoolHandle, Arc<PoolHandle>)>,
    conts: Vec<(*const ContHandle, Arc<ContHandle>)>,
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
