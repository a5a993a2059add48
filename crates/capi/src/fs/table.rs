//! What the opaque pointers of libdfs lead to.
//!
//! A pointer is: the kind in its low 4 bits, the place in the table in the next 28, the age of that place in the upper 32.
//! Nobody follows it, so a pointer that was never given out, or whose thing was released, is an error like any other.
//!
//! Invariants: NULL is never given out; the locks here are held for a look or a change, never while something is closed.

use super::EINVAL;
use super::filter::Filter;
use super::mount::Mounted;
use super::obj::Obj;
use super::sys::{OpenDir, Sys};
use crate::error::{Errno, PosixResult};
use crate::life;
use core::marker::PhantomData;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

/// Threads that use different things seldom meet in one of so many parts.
const SHARDS: usize = 16;
/// Places of one part: 28 bits for all parts together.
const PLACES_MAX: usize = 1 << 24;

/// An opaque pointer of C: `dfs_t *`, `dfs_obj_t *` and the like.
#[repr(transparent)]
pub(crate) struct Ptr<T> {
    number: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Ptr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ptr<T> {}

impl<T> Ptr<T> {
    pub(super) fn is_null(self) -> bool {
        self.number == 0
    }
}

/// Anything that has opaque pointers.
#[derive(Clone)]
pub(super) enum Any {
    Mounted(Arc<Mounted>),
    Obj(Arc<Obj>),
    Filter(Arc<Filter>),
    Sys(Arc<Sys>),
    OpenDir(Arc<OpenDir>),
}

impl Any {
    /// What depends on others is given up before these.
    fn order(&self) -> u8 {
        match self {
            Self::Obj(_) | Self::Filter(_) | Self::OpenDir(_) => 0,
            Self::Sys(_) => 1,
            Self::Mounted(_) => 2,
        }
    }
}

/// A type that pointers can lead to.
pub(super) trait Held: Sized {
    /// The low bits of its pointers.
    const TAG: u64;
    fn wrap(this: Arc<Self>) -> Any;
    fn unwrap(any: Any) -> Option<Arc<Self>>;
}

macro_rules! held {
    ($($kind:ident, $tag:literal;)*) => {
        $(impl Held for $kind {
            const TAG: u64 = $tag;
            fn wrap(this: Arc<Self>) -> Any {
                Any::$kind(this)
            }
            fn unwrap(any: Any) -> Option<Arc<Self>> {
                match any {
                    Any::$kind(this) => Some(this),
                    _ => None,
                }
            }
        })*
    };
}

held! {
    Mounted, 1;
    Obj, 2;
    Filter, 3;
    Sys, 4;
    OpenDir, 5;
}

pub(crate) struct Part {
    places: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    age: u32,
    held: Option<Any>,
}

// Guards: one part of the table each; taken alone.
static TABLE: [RwLock<Part>; SHARDS] =
    [const { RwLock::new(Part { places: Vec::new(), free: Vec::new() }) }; SHARDS];

/// Gives something a pointer.
///
/// # Errors
/// `ENOMEM` if all places are taken.
pub(super) fn insert<T: Held>(this: Arc<T>) -> PosixResult<Ptr<T>> {
    life::check()?;
    let shard = life::spread() % SHARDS;
    let mut part = TABLE[shard].write().unwrap_or_else(PoisonError::into_inner);
    let index = match part.free.pop() {
        Some(index) => index,
        None if part.places.len() >= PLACES_MAX => return Err(Errno(libc::ENOMEM)),
        None => {
            part.places.push(Slot { age: 1, held: None });
            u32::try_from(part.places.len() - 1).map_err(|_wide| Errno(libc::ENOMEM))?
        }
    };
    let slot = &mut part.places[index as usize];
    slot.held = Some(T::wrap(this));
    Ok(Ptr { number: number(T::TAG, shard, index as usize, slot.age), of: PhantomData })
}

fn number(tag: u64, shard: usize, index: usize, age: u32) -> u64 {
    u64::from(age) << 32 | ((index * SHARDS + shard) as u64) << 4 | tag
}

/// Where a pointer leads, if it is one: part, place and age.
fn locate<T: Held>(ptr: Ptr<T>) -> PosixResult<(usize, usize, u32)> {
    if ptr.number & 15 != T::TAG || !life::is_own() {
        return Err(EINVAL);
    }
    let [_, _, _, _, a, b, c, d] = ptr.number.to_le_bytes();
    let place = super::size((ptr.number >> 4) & 0x0fff_ffff)?;
    Ok((place % SHARDS, place / SHARDS, u32::from_le_bytes([a, b, c, d])))
}

/// What a pointer leads to.
///
/// # Errors
/// `EINVAL` for NULL, for what was not given out or is released, and in a process that was forked off.
pub(super) fn find<T: Held>(ptr: Ptr<T>) -> PosixResult<Arc<T>> {
    let (shard, index, age) = locate(ptr)?;
    let part = TABLE[shard].read().unwrap_or_else(PoisonError::into_inner);
    let slot = part.places.get(index).filter(|slot| slot.age == age);
    let held = slot.and_then(|slot| slot.held.clone());
    held.and_then(T::unwrap).ok_or(EINVAL)
}

/// Takes a pointer back and returns what it led to.
///
/// # Errors
/// As [`find`].
pub(super) fn remove<T: Held>(ptr: Ptr<T>) -> PosixResult<Arc<T>> {
    let (shard, index, age) = locate(ptr)?;
    let mut part = TABLE[shard].write().unwrap_or_else(PoisonError::into_inner);
    let slot = part.places.get_mut(index).filter(|slot| slot.age == age).ok_or(EINVAL)?;
    let this = slot.held.take().and_then(T::unwrap).ok_or(EINVAL)?;
    slot.age = slot.age.wrapping_add(1).max(1);
    part.free.push(u32::try_from(index).map_err(|_wide| EINVAL)?);
    Ok(this)
}

fn take_all() -> Vec<Any> {
    take_those(|_held| true)
}

fn take_those(is_meant: impl Fn(&Any) -> bool) -> Vec<Any> {
    let mut all = Vec::new();
    for part in &TABLE {
        let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
        let Part { places, free } = &mut *part;
        for (index, slot) in places.iter_mut().enumerate() {
            if let (Some(held), Ok(index)) = (slot.held.take_if(|held| is_meant(held)), u32::try_from(index))
            {
                slot.age = slot.age.wrapping_add(1).max(1);
                free.push(index);
                all.push(held);
            }
        }
    }
    all
}

/// Takes all pointers back: what depends on others is given up before these.
pub(crate) fn clear() {
    let mut all = take_all();
    all.sort_by_key(Any::order);
}

/// Takes back the pointers to the mounts that `is_meant`, and to all that is open in them; what depends on others is given
/// up before these, and the mounts come back.
pub(super) fn evict(is_meant: impl Fn(&Mounted) -> bool) -> Vec<Arc<Mounted>> {
    let mut bases = BTreeSet::new();
    for (shard, part) in TABLE.iter().enumerate() {
        let part = part.read().unwrap_or_else(PoisonError::into_inner);
        for (index, slot) in part.places.iter().enumerate() {
            if matches!(&slot.held, Some(Any::Mounted(mounted)) if is_meant(mounted)) {
                bases.insert(number(Mounted::TAG, shard, index, slot.age));
            }
        }
    }
    let mut all = take_those(|held| match held {
        Any::Mounted(mounted) => is_meant(mounted),
        Any::Obj(obj) => is_meant(&obj.mounted),
        Any::Filter(filter) => is_meant(filter.mounted()),
        Any::OpenDir(dir) => is_meant(dir.mounted()),
        Any::Sys(sys) => bases.contains(&sys.base().number),
    });
    all.sort_by_key(Any::order);
    all.into_iter()
        .filter_map(|held| match held {
            Any::Mounted(mounted) => Some(mounted),
            _ => None,
        })
        .collect()
}

/// The locks of all parts of the table.
pub(crate) type Locked = [RwLockWriteGuard<'static, Part>; SHARDS];

/// Takes them for a fork, so that the child finds the table whole.
pub(crate) fn hold() -> Locked {
    TABLE.each_ref().map(|part| part.write().unwrap_or_else(PoisonError::into_inner))
}

/// Gives up, without closing anything, what belongs to the process that this one was forked off.
pub(crate) fn forget() {
    core::mem::forget(take_all());
}

/// As [`forget`], but what can be had anew gets its pointer back: mounts on handles that were made anew, and what is open in
/// them.
pub(crate) fn renew() {
    let mut all = Vec::new();
    for (shard, part) in TABLE.iter().enumerate() {
        let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
        let taken =
            part.places.iter_mut().enumerate().filter_map(|(at, place)| Some((at, place.held.take()?)));
        all.extend(taken.map(|(index, held)| (shard, index, held)));
    }
    all.sort_by_key(|(.., held)| core::cmp::Reverse(held.order()));
    let mut mounts = Vec::new();
    for (shard, index, held) in all {
        let made = remake(&held, &mut mounts);
        // What it holds is the parent's.
        core::mem::forget(held);
        let mut part = TABLE[shard].write().unwrap_or_else(PoisonError::into_inner);
        let Part { places, free } = &mut *part;
        let slot = &mut places[index];
        if made.is_none() {
            slot.age = slot.age.wrapping_add(1).max(1);
            free.extend(u32::try_from(index).ok());
        }
        slot.held = made;
    }
}

/// Mounts of the parent, and what was made anew for them.
type Mounts = Vec<(*const Mounted, Arc<Mounted>)>;

/// The same thing of this process, if there can be one.
fn remake(held: &Any, mounts: &mut Mounts) -> Option<Any> {
    if let Any::Mounted(mounted) = held {
        let made = Arc::new(mounted.remade()?);
        mounts.push((Arc::as_ptr(mounted), Arc::clone(&made)));
        return Some(Any::Mounted(made));
    }
    let anew = |old: &Arc<Mounted>| {
        let found = mounts.iter().find(|(known, _)| core::ptr::eq(*known, Arc::as_ptr(old)));
        found.map(|(_, made)| Arc::clone(made))
    };
    Some(match held {
        Any::Mounted(_) => unreachable!("made above"),
        Any::Sys(sys) => Any::Sys(Arc::new(sys.remade())),
        Any::Obj(obj) => Any::Obj(Arc::new(obj.remade(&anew(&obj.mounted)?)?)),
        Any::Filter(filter) => Any::Filter(Arc::new(filter.remade(anew(filter.mounted())?))),
        Any::OpenDir(dir) => Any::OpenDir(Arc::new(dir.remade(anew(dir.mounted())?)?)),
    })
}
