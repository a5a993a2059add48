//! The same for every target, side by side: most of it is waiting for a device.

use crate::error::{Error, Result};
use core::panic::AssertUnwindSafe;
use dolmen_engine::Target;
use dolmen_env::scope;
use dolmen_types::TargetNo;
use std::panic::catch_unwind;
use std::thread::ScopedJoinHandle;

/// Runs `work` for every part, a thread each, numbered from `first` on; results come in the order of the parts, or the
/// first error once all have ended.
pub(crate) fn on_each<P: Send, R: Send>(
    first: u16,
    parts: Vec<P>,
    work: impl Fn(TargetNo, P) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let guarded = |target: u16, part| {
        catch_unwind(AssertUnwindSafe(|| work(TargetNo(target), part)))
            .unwrap_or(Err(Error::Panicked { target }))
    };
    let guarded = &guarded;
    scope(|scope| {
        let start = |(part, target)| (scope.spawn(move || guarded(target, part)), target);
        let running: Vec<_> = parts.into_iter().zip(first..).map(start).collect();
        let join = |(thread, target): (ScopedJoinHandle<'_, Result<R>>, u16)| {
            thread.join().unwrap_or(Err(Error::Panicked { target }))
        };
        let ended: Vec<_> = running.into_iter().map(join).collect();
        ended.into_iter().collect()
    })
}

/// Closes all targets, also if one fails; with a life of the pool that what is closed takes part in.
/// `clients_live_on` if there may be some that repeat a request when the pool is open again.
pub(crate) fn close_all(
    first: u16,
    stores: Vec<Target>,
    life: Option<u64>,
    clients_live_on: bool,
) -> Result<()> {
    let close = |_, mut store: Target| {
        let begun = life.map_or(Ok(()), |life| store.begin_life(life));
        if !clients_live_on {
            store.forget_results();
        }
        store.close()?;
        Ok(begun?)
    };
    on_each(first, stores, close).map(drop)
}
