//! Room at the last moment: what nobody can see any more is freed before a writer is told that a target is full.
//!
//! Reclaiming is an aggregation of every container up to now, run to its end while the writer waits. It is
//! tried once for each state of what it may free: if nothing was written, removed or decided since it last ended, and no
//! segment of the log was filled, there is nothing.
//!
//! Invariants: it runs before an operation has looked at anything, so that what its waits complete cannot
//! come between an operation's checks and its record.

use crate::space::{Need, SIDE_FRAMES_BYTES};
use crate::target::Target;
use dolmen_types::{ContNo, Epoch, Error};

/// The state that reclaiming left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reclaimed {
    /// `changes` of the checkpoints.
    changes: u64,
    /// With which frame the present segment of the log begins.
    segment_sequence: u64,
    /// What the device had left, if it failed: with more it may end better.
    failed_with_bytes: Option<u64>,
}

impl Target {
    /// Sees to it that an operation finds room for its frame and those of its client, if there can be; if not,
    /// `make_room` tells.
    #[inline]
    pub(crate) fn seek_room(&mut self, body_bytes: usize, need: Need) {
        // A checkpoint that has to come first must find room for what it carries on.
        let carried_bytes = if self.is_reserve_used() { self.txs.carried_bytes() } else { 0 };
        let ahead_bytes = body_bytes + SIDE_FRAMES_BYTES + carried_bytes;
        // There is none for a frame that is too large.
        if self.lacks_room(ahead_bytes, need) && body_bytes <= self.store.log.body_bytes_max() {
            // What comes with a frame does not make it larger than one may be.
            let most = self.store.log.room_bytes_max();
            self.seek_segment(ahead_bytes.min(most), need);
        }
    }

    fn seek_segment(&mut self, body_bytes: usize, need: Need) {
        let found = match need {
            Need::Data => self.make_room(body_bytes, need),
            // A checkpoint now, while one can begin: what this frame is followed by may have to be carried on.
            Need::Removal | Need::Prepare => self.make_room_or_checkpoint(body_bytes),
        };
        if matches!(found, Err(Error::NoSpace { .. })) {
            // If it failed, the operation finds no room and says so.
            self.reclaim();
        }
    }

    /// Room for what frees space: if even the reserve is used up, a checkpoint gives back the log.
    fn make_room_or_checkpoint(&mut self, body_bytes: usize) -> Result<(), Error> {
        match self.make_room(body_bytes, Need::Prepare) {
            Err(Error::NoSpace { .. }) => {
                self.checkpoint_now()?;
                self.make_room(body_bytes, Need::Prepare)
            }
            other => other,
        }
    }

    /// Frees what nobody can see; whether it ran, so that there may be room now.
    pub(crate) fn reclaim(&mut self) -> bool {
        if self.read_only || self.is_reclaimed() {
            return false;
        }
        self.checkpoint.is_reclaiming = true;
        let done = self.reclaim_all();
        self.checkpoint.is_reclaiming = false;
        self.checkpoint.reclaimed = Some(Reclaimed {
            changes: self.checkpoint.changes,
            segment_sequence: self.store.log.segment_sequence(),
            failed_with_bytes: if done.is_ok() { None } else { Some(self.device_left_bytes()) },
        });
        done.is_ok()
    }

    /// Whether nothing has come since reclaiming last ended that it could free, nor room that it lacked.
    fn is_reclaimed(&self) -> bool {
        self.checkpoint.reclaimed.is_some_and(|last| {
            let has_more_room = last.failed_with_bytes.is_some_and(|bytes| {
                self.device_left_bytes() >= bytes.saturating_add(self.store.log.segment_bytes())
            });
            last.changes == self.checkpoint.changes
                && last.segment_sequence == self.store.log.segment_sequence()
                && !has_more_room
        })
    }

    /// What the device of the log has left; nothing if it cannot say.
    fn device_left_bytes(&self) -> u64 {
        self.store.disks.meta.space().map_or(0, |space| space.free_bytes)
    }

    fn reclaim_all(&mut self) -> Result<(), Error> {
        self.finish_checkpoint_if_room()?;
        self.run_to_end(Self::merge_intact_step)?;
        self.begin_checkpoint_unless_stalled()?;
        self.finish_checkpoint_if_room()?;
        let horizon = self.horizon(Epoch::MAX);
        let conts: Vec<ContNo> = self.conts.iter().map(|known| known.state.no).collect();
        for cont in conts {
            self.raise_aggregated(cont, horizon);
        }
        // The oldest first: the places of those before stay the same.
        for runs in self.intact_runs().into_iter().rev() {
            self.begin_merge(runs);
            self.run_to_end(Self::merge_intact_step)?;
        }
        self.reclaim_log()?;
        // Bulk that the merge has dropped is free when the checkpoint after it is durable.
        self.begin_checkpoint_unless_stalled()?;
        self.run_to_end(Self::checkpoint_step)
    }

    /// Moves values out of sparse segments of the log for as long as that makes more room: what a merge can move is
    /// limited by the room that there is.
    fn reclaim_log(&mut self) -> Result<(), Error> {
        let mut room = 0;
        while self.are_runs_intact()
            && !self.store.index.runs.is_empty()
            && self.log_room() > room
            && self.sparse_segments().0.len() > 0
        {
            room = self.log_room();
            self.begin_merge(0..self.store.index.runs.len());
            self.run_to_end(Self::merge_intact_step)?;
        }
        Ok(())
    }

    pub(crate) fn begin_checkpoint_unless_stalled(&mut self) -> Result<(), Error> {
        if self.checkpoint.is_working() { Ok(()) } else { self.begin_checkpoint() }
    }

    /// The runs may be merged without the delta, and then there may be room for it.
    fn finish_checkpoint_if_room(&mut self) -> Result<(), Error> {
        match self.run_to_end(Self::checkpoint_step) {
            Err(Error::NoSpace { .. }) => Ok(()),
            other => other,
        }
    }
}
