//! Transactions, and when an operation reads or writes.

use crate::cont::ContHandle;
use crate::error::{Der, Result, der};
use crate::event::{Ev, go, launch, run};
use crate::handle::{self, Entry};
use crate::io::code;
use crate::object::ObjectHandle;
use crate::raw::Out;
use crate::types::Handle;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, Ordering};
use dolmen_client::{At, Epoch, Oid, Tx};
use std::sync::Arc;

/// A transaction that only reads.
//= daos:src/include/daos_api.h DAOS_TF_*
const READ_ONLY: u64 = 1;
const ZERO_COPY: u64 = 2;

/// A transaction's handle.
pub(crate) struct TxHandle {
    cont: Arc<ContHandle>,
    kind: Kind,
    phase: AtomicU8,
}

enum Kind {
    /// Reads and writes.
    Tx { tx: Arc<Tx>, read_only: bool },
    /// Reads at a snapshot.
    Snapshot(Epoch),
}

const OPEN: u8 = 0;
const COMMITTED: u8 = 1;
const ABORTED: u8 = 2;

/// When an operation reads or writes.
#[derive(Clone)]
pub(crate) struct When(Option<Arc<TxHandle>>);

impl When {
    /// What a transaction's handle means for an operation in a container: 0 is now.
    ///
    /// # Errors
    /// `NO_HDL`; `INVAL` for a transaction of another container; `NO_PERM` for one that has ended.
    pub(crate) fn of(th: Handle, cont: &Arc<ContHandle>) -> Result<Self> {
        if th.cookie == 0 {
            return Ok(Self(None));
        }
        let tx = handle::tx(th)?;
        if !Arc::ptr_eq(&tx.cont, cont) {
            return Err(Der::INVAL);
        }
        if tx.phase.load(Ordering::Acquire) != OPEN {
            return Err(Der::NO_PERM);
        }
        Ok(Self(Some(tx)))
    }

    pub(crate) fn at(&self) -> At<'_> {
        match self.0.as_ref().map(|handle| &handle.kind) {
            None => At::Latest,
            Some(Kind::Tx { tx, .. }) => At::Tx(tx),
            Some(Kind::Snapshot(epoch)) => At::Snapshot(*epoch),
        }
    }

    /// As it is, for an operation that only reads the object: with an event, that sees what its transaction has written when it
    /// is called, however it goes on.
    pub(crate) fn seen_by(self, object: &ObjectHandle, ev: Ev) -> Self {
        match &self.0 {
            Some(handle) if !ev.is_null() => Self(Some(handle.as_it_is(object.client.oid()))),
            _ => self,
        }
    }

    /// The latest state.
    pub(crate) fn now() -> Self {
        Self(None)
    }

    /// Whether it is a transaction that reads and writes.
    pub(crate) fn is_tx(&self) -> bool {
        self.0.as_ref().is_some_and(|handle| matches!(handle.kind, Kind::Tx { .. }))
    }

    /// Whether nothing may be written.
    pub(crate) fn is_read_only(&self) -> bool {
        match self.0.as_ref().map(|handle| &handle.kind) {
            None => false,
            Some(Kind::Tx { read_only, .. }) => *read_only,
            Some(Kind::Snapshot(_)) => true,
        }
    }
}

impl TxHandle {
    pub(crate) fn cont(&self) -> &ContHandle {
        &self.cont
    }

    fn as_it_is(self: &Arc<Self>, oid: Oid) -> Arc<Self> {
        let Kind::Tx { tx, .. } = &self.kind else { return Arc::clone(self) };
        let kind = Kind::Tx { tx: Arc::new(tx.as_it_is(oid)), read_only: true };
        Arc::new(Self { cont: Arc::clone(&self.cont), kind, phase: AtomicU8::new(OPEN) })
    }

    fn epoch(&self) -> Epoch {
        match &self.kind {
            Kind::Tx { tx, .. } => tx.epoch(),
            Kind::Snapshot(epoch) => *epoch,
        }
    }

    /// Leaves the open phase, at most once.
    ///
    /// # Errors
    /// `ALREADY` if the transaction has ended so before; `NO_PERM` if otherwise.
    fn end(&self, phase: u8) -> Result<()> {
        match self.phase.compare_exchange(OPEN, phase, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(ended) if ended == phase => Err(Der::ALREADY),
            Err(_) => Err(Der::NO_PERM),
        }
    }
}

impl TxHandle {
    /// What a commit has ended with; one that failed leaves the transaction open, to be restarted or aborted.
    fn ended(&self, committed: dolmen_client::Result<()>) -> Result<()> {
        if committed.is_err() {
            self.phase.store(OPEN, Ordering::Release);
        }
        committed.map_err(refusal)
    }
}

/// Why a commit has failed. Who is told that it is under way may do it anew.
fn refusal(error: dolmen_client::Error) -> Der {
    match error {
        dolmen_client::Error::InDoubt { .. } => Der::TX_UNCERTAIN,
        other => other.into(),
    }
}

fn insert(cont: Arc<ContHandle>, kind: Kind) -> Result<Handle> {
    handle::insert(Entry::Tx(Arc::new(TxHandle { cont, kind, phase: AtomicU8::new(OPEN) })))
}

/// Begins a transaction.
#[unsafe(no_mangle)]
extern "C" fn daos_tx_open(coh: Handle, th: Out<Handle>, flags: u64, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        if flags & !(READ_ONLY | ZERO_COPY) != 0 {
            return Err(Der::INVAL);
        }
        let (th, cont) = (th.check()?, handle::cont(coh)?);
        let tx = Arc::new(cont.client.begin_by(way).await?);
        th.set(insert(cont, Kind::Tx { tx, read_only: flags & READ_ONLY != 0 })?)
    })
}

/// Reads at a snapshot.
#[unsafe(no_mangle)]
extern "C" fn daos_tx_open_snap(coh: Handle, epoch: u64, th: Out<Handle>, ev: Ev) -> c_int {
    run(ev, || th.check()?.set(insert(handle::cont(coh)?, Kind::Snapshot(Epoch(epoch)))?))
}

/// Commits a transaction: all of it, or (`TX_RESTART` and other errors) nothing; of `TX_UNCERTAIN` and `UNREACH` it is not known,
/// and committing again asks again.
#[unsafe(no_mangle)]
extern "C" fn daos_tx_commit(th: Handle, ev: Ev) -> c_int {
    der(|| {
        let handle = handle::tx(th)?;
        let Kind::Tx { tx, .. } = &handle.kind else {
            return code(run(ev, || handle.end(COMMITTED)));
        };
        if ev.is_null() {
            handle.end(COMMITTED)?;
            return handle.ended(tx.commit().map(drop));
        }
        let own = Arc::clone(&handle);
        let start = |event: &mut _| {
            handle.end(COMMITTED)?;
            handle.ended(tx.commit_on(event))
        };
        launch(ev, &handle.cont.pool, start, move |ending| der(|| own.ended(ending.result.map(drop))))
    })
}

/// Forgets what a transaction has written.
#[unsafe(no_mangle)]
extern "C" fn daos_tx_abort(th: Handle, ev: Ev) -> c_int {
    run(ev, || {
        let handle = handle::tx(th)?;
        handle.end(ABORTED)?;
        if let Kind::Tx { tx, .. } = &handle.kind {
            tx.abort();
        }
        Ok(())
    })
}

/// Gives a transaction's handle up; one that was not committed is forgotten.
#[unsafe(no_mangle)]
extern "C" fn daos_tx_close(th: Handle, ev: Ev) -> c_int {
    run(ev, || handle::remove(th, |entry| matches!(entry, Entry::Tx(_))).map(drop))
}

/// Begins a transaction anew, at a later epoch and with nothing in it.
#[unsafe(no_mangle)]
extern "C" fn daos_tx_restart(th: Handle, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let handle = handle::tx(th)?;
        match &handle.kind {
            Kind::Tx { tx, .. } if handle.phase.load(Ordering::Acquire) == OPEN => {
                Ok(tx.restart_by(way).await?)
            }
            _ => Err(Der::NO_PERM),
        }
    })
}

/// The epoch at which a transaction reads.
#[unsafe(no_mangle)]
extern "C" fn daos_tx_hdl2epoch(th: Handle, epoch: Out<u64>) -> c_int {
    der(|| epoch.set(handle::tx(th)?.epoch().0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_client::Error;

    #[test]
    fn a_commit_in_doubt_is_not_said_to_be_under_way() {
        let tx = dolmen_types::TxId { client: 1, begin: Epoch(2) };
        assert_eq!(refusal(Error::InDoubt { tx }).code(), Der::TX_UNCERTAIN.code());
        assert_eq!(refusal(Error::TxRestart { after: Epoch(2) }).code(), Der::TX_RESTART.code());
    }
}
