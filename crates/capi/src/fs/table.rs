//! What the opaque pointers of libdfs lead to.
//!
//! A pointer is a number of a [`Table`].

use super::EINVAL;
use super::filter::Filter;
use super::mount::Mounted;
use super::obj::Obj;
use super::sys::{OpenDir, Sys};
use crate::error::{Errno, PosixResult};
use crate::life;
use crate::table::{self, Kept, Table};
use core::cmp::Reverse;
use core::marker::PhantomData;
use std::collections::BTreeSet;
use std::sync::Arc;

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
pub(crate) enum Any {
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

        impl Kept for Any {
            fn tag(&self) -> u64 {
                match self {
                    $(Self::$kind(_) => $kind::TAG,)*
                }
            }
        }
    };
}

held! {
    Mounted, 1;
    Obj, 2;
    Filter, 3;
    Sys, 4;
    OpenDir, 5;
}

static TABLE: Table<Any> = Table::new();

/// Gives something a pointer.
///
/// # Errors
/// `ENOMEM` if all places are taken.
pub(super) fn insert<T: Held>(this: Arc<T>) -> PosixResult<Ptr<T>> {
    life::check()?;
    let number = TABLE.insert(T::wrap(this)).ok_or(Errno(libc::ENOMEM))?;
    Ok(Ptr { number, of: PhantomData })
}

/// # Errors
/// `EINVAL` for a pointer of another kind, and in a process that was forked off.
fn check<T: Held>(ptr: Ptr<T>) -> PosixResult<()> {
    if ptr.number & 15 == T::TAG && life::is_own() { Ok(()) } else { Err(EINVAL) }
}

/// What a pointer leads to.
///
/// # Errors
/// `EINVAL` for NULL, for what was not given out or is released, and in a process that was forked off.
pub(super) fn find<T: Held>(ptr: Ptr<T>) -> PosixResult<Arc<T>> {
    check(ptr)?;
    TABLE.find(ptr.number).and_then(T::unwrap).ok_or(EINVAL)
}

/// Takes a pointer back and returns what it led to.
///
/// # Errors
/// As [`find`].
pub(super) fn remove<T: Held>(ptr: Ptr<T>) -> PosixResult<Arc<T>> {
    check(ptr)?;
    TABLE.remove(ptr.number, |_held| true).and_then(T::unwrap).ok_or(EINVAL)
}

/// Takes all pointers back: what depends on others is given up before these.
pub(crate) fn clear() {
    let mut all = TABLE.take_those(|_held| true);
    all.sort_by_key(Any::order);
}

/// Takes back the pointers to the mounts that `is_meant`, and to all that is open in them; what depends on others is given
/// up before these, and the mounts come back.
pub(super) fn evict(is_meant: impl Fn(&Mounted) -> bool) -> Vec<Arc<Mounted>> {
    let bases = TABLE.each(|number, held| match held {
        Any::Mounted(mounted) => is_meant(mounted).then_some(number),
        _ => None,
    });
    let bases = BTreeSet::from_iter(bases);
    let mut all = TABLE.take_those(|held| match held {
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

/// The locks of the table.
pub(crate) type Locked = table::Locked<Any>;

/// Takes them for a fork.
pub(crate) fn hold() -> Locked {
    TABLE.hold()
}

/// Gives up, without closing anything, what belongs to the process that this one was forked off.
pub(crate) fn forget() {
    TABLE.replace_all(Any::order, |_held| None);
}

/// As [`forget`], but what can be had anew gets its pointer back: mounts on handles that were made anew, and what is open in
/// them.
pub(crate) fn renew() {
    let mut mounts = Vec::new();
    TABLE.replace_all(|held| Reverse(held.order()), |held| remake(held, &mut mounts));
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
