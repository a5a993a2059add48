//! Operations on containers that complete on an event; those of transactions are in `tx`.

use super::{Event, Next, Output};
use crate::client::Core;
use crate::container::Container;
use crate::pool::Pool;
use dolmen_codec::Ask;
use dolmen_codec::pool::{ContName, OpenFor, PoolVerb};
use dolmen_types::{RequestId, Result};
use std::sync::Arc;

impl Pool {
    /// Launches [`Pool::open_container`]; gives [`Output::Opened`].
    ///
    /// # Errors
    /// `NoPermission` if the event is not ready. Everything else is the event's.
    pub fn open_container_on(&self, event: &mut Event, name: &ContName) -> Result<()> {
        change(event, self.core(), PoolVerb::ContOpen(name.clone(), OpenFor::Any))
    }
}

impl Container {
    /// Launches [`Container::close`].
    ///
    /// # Errors
    /// As [`Pool::open_container_on`]; the handle is then open still.
    pub fn close_on(&self, event: &mut Event) -> Result<()> {
        if self.is_closed() {
            return event.run(|| Ok(Output::Done));
        }
        let core = self.core();
        change(event, core, PoolVerb::ContClose(self.no()))?;
        self.set_closed();
        Ok(())
    }

    /// Launches [`Container::query`]; gives [`Output::Info`].
    ///
    /// # Errors
    /// As [`Pool::open_container_on`].
    pub fn query_on(&self, event: &mut Event) -> Result<()> {
        launch(event, self.core(), self.core().read_id(), PoolVerb::ContQuery(self.no()))
    }

    /// Launches the question for an epoch that a transaction could begin at; gives [`Output::Written`] with it. Several reads as of
    /// it ([`At::Snapshot`](crate::At::Snapshot)) see one moment, as those of a transaction do, unless what they see is aggregated
    /// meanwhile: `EpochGone`.
    ///
    /// # Errors
    /// As [`Pool::open_container_on`].
    pub fn epoch_on(&self, event: &mut Event) -> Result<()> {
        launch(event, self.core(), self.core().read_id(), PoolVerb::TxBegin)
    }

    /// Launches [`Container::create_snapshot`]; gives [`Output::Written`] with the snapshot's epoch.
    ///
    /// # Errors
    /// As [`Pool::open_container_on`].
    pub fn create_snapshot_on(&self, event: &mut Event, name: Option<&str>) -> Result<()> {
        let verb = PoolVerb::SnapCreate(self.no(), name.map(str::to_owned));
        change(event, self.core(), verb)
    }
}

fn change(event: &mut Event, core: &Arc<Core>, verb: PoolVerb<'static>) -> Result<()> {
    event.launch(core, 1, None)?;
    event.submit_change(core.map().version, Ask::Pool(verb));
    Ok(())
}

fn launch(event: &mut Event, core: &Arc<Core>, id: RequestId, verb: PoolVerb<'static>) -> Result<()> {
    event.launch(core, 1, None)?;
    event.submit(Next { id, map_version: core.map().version, ask: Ask::Pool(verb) });
    Ok(())
}
