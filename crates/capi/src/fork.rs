//! A fork of a process whose other threads use the library: the child has none of these threads, and none of the locks that
//! they hold would ever be given back to it.
//!
//! Invariants: every lock of the whole library is taken by who forks, and so is held by no other thread when the child is
//! made; the child gives them back as its parent does. What is locked while a daemon is reached, or a directory opened, is
//! [`PerProcess`](dolmen_env::PerProcess) instead: nobody who forks waits for that.

use crate::{event, fs, handle, life};
use core::cell::RefCell;
use std::sync::Once;

/// All locks; none of them is waited for by who holds another, but for the first.
struct Held {
    _life: life::Locked,
    _handles: handle::Locked,
    _files: fs::Locked,
    _events: event::Locked,
}

thread_local! {
    /// What this thread holds while it forks.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Has the system take and give back the locks at each fork of this process, from now on.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    // SAFETY: the functions stay as long as the library, of which the system takes note.
    let watch = || _ = unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    // Without memory for three addresses a child may have to wait for ever, as it may for the allocator's own locks.
    WATCHED.call_once(watch);
}

extern "C" fn before() {
    // In this order: whoever ends the library locks the tables then.
    let life = life::hold();
    let held = Held { _life: life, _handles: handle::hold(), _files: fs::hold(), _events: event::hold() };
    // Ignored: a thread that ends, and forks in a destructor, holds nothing.
    _ = HELD.try_with(|own| own.replace(Some(held)));
}

/// In the parent and in the child.
extern "C" fn after() {
    // Ignored: as above.
    _ = HELD.try_with(|own| drop(own.take()));
}
