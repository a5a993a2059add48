//! Whether other mounts may change the container under this one, which may be switched while it is in use.
//!
//! Invariants: an operation that counts on being alone holds an [`Alone`] from before its first look to after its last change;
//! who has set a mount shared knows that none is held any more.

use crate::error::{Error, Result};
use crate::layout::inode::FileKind;
use crate::mount::{Dfs, Mount};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How long a switch waits for operations under way: as long as they wait for a store that does not answer.
const PATIENCE_NS: u64 = 30_000_000_000;
/// How often it looks at most, for who has a clock that stands still.
const LOOKS_MAX: u64 = 50_000_000;

/// The two ways to be mounted.
#[derive(Debug)]
pub(crate) struct Sharing {
    shared: AtomicBool,
    /// Operations under way that count on being alone.
    alone: AtomicU64,
}

/// An operation that counts on being alone.
pub(crate) struct Alone<'a>(&'a Sharing);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.alone.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Sharing {
    pub(crate) fn new(shared: bool) -> Self {
        Self { shared: AtomicBool::new(shared), alone: AtomicU64::new(0) }
    }

    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::SeqCst)
    }

    /// Begins an operation; `None` if others may change the container meanwhile.
    #[inline]
    pub(crate) fn alone(&self) -> Option<Alone<'_>> {
        if self.is_shared() {
            return None;
        }
        self.alone.fetch_add(1, Ordering::SeqCst);
        let alone = Alone(self);
        // Who has switched since may not have seen this one.
        (!self.is_shared()).then_some(alone)
    }
}

impl Dfs {
    /// Whether other mounts may change the container.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.mount().is_shared()
    }

    /// Switches between a mount that takes the container for its own and a shared one, while it is in use. When this has
    /// made it shared, no operation is under way that relies on being alone, and another mount may begin. A mount that is
    /// alone again has looked anew at all directories in use: those that others have moved or removed are `Stale`.
    ///
    /// REQUIRES: to be alone again, that no other mount changes the container any more.
    ///
    /// # Errors
    /// `Contended` if operations are under way for 30 s: then it is as it was. Those of the store, from looking anew: then
    /// it stays shared.
    pub fn set_shared(&self, shared: bool) -> Result<()> {
        let mount = self.mount();
        if shared {
            mount.wait_for_others()?;
        } else {
            mount.look_anew()?;
            mount.sharing.shared.store(false, Ordering::SeqCst);
        }
        mount.paths.forget_all();
        Ok(())
    }
}

impl Mount {
    fn wait_for_others(&self) -> Result<()> {
        let Sharing { shared, alone } = &self.sharing;
        if shared.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let end_ns = self.monotonic_ns().saturating_add(PATIENCE_NS);
        let mut looks = 0;
        while alone.load(Ordering::SeqCst) > 0 {
            looks += 1;
            if looks == LOOKS_MAX || self.monotonic_ns() > end_ns {
                shared.store(false, Ordering::SeqCst);
                return Err(Error::Contended);
            }
            dolmen_env::yield_now();
        }
        Ok(())
    }

    /// Looks at the records of all directories in use, of which others may have changed any.
    fn look_anew(&self) -> Result<()> {
        let live = self.nodes.live();
        for dir in live.iter().filter(|node| node.kind == FileKind::Directory && !node.is_removed()) {
            match self.look_at_rights(dir) {
                Err(Error::Stale) => dir.set_lost(),
                other => other?,
            }
        }
        Ok(())
    }
}
