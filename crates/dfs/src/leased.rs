//! Leases on what a look at the store has read, for who remembers what it found.
//!
//! Invariants: what a thread reads while it looks is gathered, and nothing that another thread reads; what outlives the look
//! gathers nothing.

use core::cell::RefCell;
use core::future::poll_fn;
use core::pin::pin;
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
        // Ignored: a thread that ends gathers nothing any more.
        _ = put(self.0.take());
    }
}

/// Has this thread gather there, and where it has so far; nowhere in a thread that ends, whose variables are gone.
fn put(into: Option<Arc<Gathered>>) -> Option<Arc<Gathered>> {
    INTO.try_with(|own| own.replace(into)).ok().flatten()
}

/// What `look` finds, with the leases on all that it has read in this thread: as long as they hold nobody else has changed any of
/// it. Whoever takes some has to listen on the transport's connections, else others wait for him.
///
/// REQUIRES: it opens no file, whose reads would be gathered for ever.
pub fn leased<T>(look: impl FnOnce() -> T) -> (T, Leased) {
    let gathered = Arc::new(Gathered::default());
    let restores = Restores(put(Some(Arc::clone(&gathered))));
    let found = look();
    drop(restores);
    (found, gathered.take())
}

/// The same of an operation that others go on beside in one thread: what is gathered is its own.
pub(crate) async fn leased_by<T>(look: impl Future<Output = T>) -> (T, Leased) {
    let gathered = Arc::new(Gathered::default());
    let found = into(Some(&gathered), look).await;
    (found, gathered.take())
}

/// What `look` finds, which depends on nothing but what is gathered already.
pub(crate) async fn without_leases<T>(look: impl Future<Output = T>) -> T {
    into(None, look).await
}

/// Has an operation gather there, however often it gives way.
async fn into<T>(gathered: Option<&Arc<Gathered>>, look: impl Future<Output = T>) -> T {
    let mut look = pin!(look);
    poll_fn(|context| {
        let _restores = Restores(put(gathered.cloned()));
        look.as_mut().poll(context)
    })
    .await
}

/// The object as the look of this thread reads it.
pub(crate) fn gathering(object: Object) -> Object {
    let into = INTO.try_with(|into| into.borrow().clone()).ok().flatten();
    match into {
        None => object,
        Some(into) => object.gathering(&into),
    }
}
