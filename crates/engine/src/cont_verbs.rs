//! Container verbs: every change is one log record, applied when it is appended.

use crate::space::Need;
use crate::target::Target;
use dolmen_codec::log_body::ContEvent;
use dolmen_codec::log_frame::LogKind;
use dolmen_codec::verb::{ContVerb, Reply};
use dolmen_types::{ContNo, Durability, Epoch, Error, Invalid};

impl Target {
    pub(crate) fn serve_cont(&mut self, cont: ContNo, verb: ContVerb) -> Result<(Reply, Option<u64>), Error> {
        if verb.needs_container() {
            self.conts.find(cont)?;
        }
        if !self.read_only && !matches!(verb, ContVerb::Usage | ContVerb::Aggregate(_)) {
            self.seek_room(ContEvent::BYTES_MAX, Need::Removal);
        }
        match verb {
            ContVerb::Create(spec) => {
                if self.conts.any(cont).is_some_and(|known| known.state.destroyed) {
                    return Err(Error::Exists);
                }
                if self.conts.find(cont).is_ok() {
                    return Ok((Reply::Done, Some(self.store.log.last_sequence())));
                }
                self.log_event(cont, ContEvent::Created(spec))
            }
            ContVerb::Destroy => {
                if self.conts.find(cont).is_err() {
                    return Ok((Reply::Done, Some(self.store.log.last_sequence())));
                }
                self.log_event(cont, ContEvent::Destroyed)
            }
            ContVerb::Usage => Ok((Reply::ContUsage(self.conts.find(cont)?.state.usage), None)),
            ContVerb::RaiseFloor(epoch) => {
                self.trust(epoch)?;
                self.log_event(cont, ContEvent::Floor(epoch))
            }
            ContVerb::AddSnapshot(epoch) => {
                self.trust(epoch)?;
                let known = self.conts.find(cont)?;
                if !known.keeps(epoch) {
                    return Err(Error::EpochGone { oldest: known.state.aggregated });
                }
                self.log_event(cont, ContEvent::SnapshotAdded(epoch))
            }
            ContVerb::RemoveSnapshot(epoch) => self.log_event(cont, ContEvent::SnapshotRemoved(epoch)),
            ContVerb::Rollback { to, at } => {
                self.trust(at)?;
                let known = self.conts.find(cont)?;
                if to >= at {
                    return Err(Invalid::Epoch.into());
                }
                if !known.keeps(to) {
                    return Err(Error::EpochGone { oldest: known.state.aggregated });
                }
                let done = self.log_event(cont, ContEvent::RolledBack { to, at })?;
                // Reads after the rollback are above it.
                self.epochs.next();
                Ok(done)
            }
            ContVerb::Aggregate(upto) => self.aggregate_step(cont, upto).map(|reply| (reply, None)),
        }
    }

    fn log_event(&mut self, cont: ContNo, event: ContEvent) -> Result<(Reply, Option<u64>), Error> {
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        self.make_room(ContEvent::BYTES_MAX, Need::Removal)?;
        let appended = self.store.log.append(LogKind::Cont, |out| event.encode(cont, out));
        self.apply_event(cont, event);
        self.checkpoint.changes += 1;
        self.note_change(cont);
        let is_awaited = self.is_awaited(self.durability(cont));
        if let Some(known) = self.conts.any_mut(cont)
            && is_awaited
            && matches!(event, ContEvent::RolledBack { .. } | ContEvent::Destroyed)
        {
            known.changed = appended.sequence;
        }
        Ok((Reply::Done, Some(appended.sequence)))
    }

    /// What a logged event changes, now or in a replay.
    pub(crate) fn apply_event(&mut self, cont: ContNo, event: ContEvent) {
        self.conts.apply(cont, event);
        // A rollback may bring back arrays of other record sizes.
        self.store.record_sizes.clear();
    }

    /// What a container asks for; the strictest if it is gone.
    pub(crate) fn durability(&self, cont: ContNo) -> Durability {
        self.conts.any(cont).map_or(Durability::Power, |known| known.state.spec.durability)
    }

    /// The horizon of an aggregation: nothing that a transaction under way may read.
    pub(crate) fn horizon(&self, upto: Epoch) -> Epoch {
        let oldest_prepared = self.txs.prepared.values().map(|p| p.head.epoch).min().unwrap_or(Epoch::MAX);
        upto.min(self.epochs.latest()).min(oldest_prepared)
    }
}
