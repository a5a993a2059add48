//! Leases on what a look at the store has read, for who remembers what it found.
//!
//! Invariants: what a thread reads while it looks is gathered, and nothing that another thread reads; what outlives the look
//! gathers nothing.

use core::cell::RefCell;
use dolmen_client::{Gathered, Leased, Object};
use std::sync::Arc;

thread_local! {
    /// Where the look of this thread gathers.
    static INTO: RefCell<Option<Arc<Gathered>>> = const { RefCell::new(None) };
}

/// Has things gathered where they were before, when it is dropped.
struct Restores(Option<Arc<Gathered>>);

impl Drop for Restores {
    fn drop(&mut self) {
        INTO.set(self.0.take());
    }
}

/// What `look` finds, with the leases on all that it has read in this thread: as long as they hold nobody else has changed any of
/// it. Whoever takes some has to listen on the transport's connections, else others wait for him.
///
/// REQUIRES: it opens no file, whose reads would be gathered for ever.
pub fn leased<T>(look: impl FnOnce() -> T) -> (T, Leased) {
    let gathered = Arc::new(Gathered::default());
    let restores = Restores(INTO.replace(Some(Arc::clone(&gathered))));
    let found = look();
    drop(restores);
    (found, gathered.take())
}

/// What `look` finds, which depends on nothing but what is gathered already.
pub(crate) fn without_leases<T>(look: impl FnOnce() -> T) -> T {
    let _restores = Restores(INTO.take());
    look()
}

/// The object as the look of this thread reads it.
pub(crate) fn gathering(object: Object) -> Object {
    INTO.with_borrow(|into| match into {
        None => object,
        Some(into) => object.gathering(into),
    })
}
