//! What a target does while nobody asks for anything: it frees what no reader can see any more, and makes room ready for
//! what comes.
//!
//! A round writes down what memory holds of the index, raises the horizon of every container to some time ago, merges
//! all runs, and writes a checkpoint with which what was dropped is free. It goes on where it was when somebody asks for
//! something in between, takes no more than its part of the time, and comes again when something has changed.
//!
//! Invariants: what is newer than the time that a target keeps is not touched, nor what a transaction that has read here
//! and is not too old may ask for, so a reader of the present is never overtaken; a round that fails has changed nothing
//! but horizons.

use crate::checkpoint::BackgroundDone;
use crate::readers::open_since;
use crate::target::Target;
use core::time::Duration;
use dolmen_types::{ContNo, Epoch, Error};

/// Steps that found nothing to do before it counts as rest: who works in turns with short pauses is not disturbed. Upkeep
/// takes one in ten milliseconds then.
const STILL_STEPS: u32 = 4;

/// After a round so many times as long as it took belongs to others: merging all runs writes the whole index.
const PAUSE_ROUNDS: u32 = 50;

/// No step takes longer, whatever the clock says.
const STEP_MAX: Duration = Duration::from_secs(1);

/// After a round that failed it is not tried again for so long: it will find much the same.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(60);

/// How far a target that was opened may be ahead of the newest write that it has: no round is begun for that alone.
const CEILING_NS: u64 = 1_000_000_000;

/// What the last round went over.
#[derive(Default)]
enum Covered {
    /// There was none yet.
    #[default]
    Unknown,
    /// It failed.
    Nothing,
    /// It left what was too new for it, above this horizon, when the checkpoints had counted so many `changes`.
    Part(Epoch, u64),
    /// Everything, when the checkpoints had counted so many `changes`.
    All(u64),
}

/// What is left at rest, and when there is something to do again.
#[derive(Default)]
pub(crate) struct Rest {
    /// Steps since something was asked.
    still: u32,
    round: Option<Round>,
    covered: Covered,
    /// When the last round ended, and how long the next one waits from there.
    ended_ns: u64,
    pause: Duration,
    /// What the steps of the round under way have taken.
    spent: Duration,
}

/// A round under way.
struct Round {
    /// What the target had completed when the present part began.
    before: BackgroundDone,
    changes: u64,
    horizon: Epoch,
    /// Nothing newer than the horizon was there when it began.
    covers_all: bool,
    part: Part,
}

/// What a round is at; each part has ended when the target has nothing else to do.
enum Part {
    Checkpoint,
    Merge,
    Release,
}

impl Rest {
    /// Something is asked of the target.
    #[inline]
    pub(crate) fn disturb(&mut self) {
        self.still = 0;
    }

    pub(crate) fn is_in_round(&self) -> bool {
        self.round.is_some()
    }

    /// A step of the background work, which a round has a part in, took so long.
    pub(crate) fn spent(&mut self, step_ns: u64) {
        self.spent += Duration::from_nanos(step_ns).min(STEP_MAX);
    }
}

impl Target {
    /// One step of what is done at rest; whether there was anything.
    pub(crate) fn step_at_rest(&mut self) -> bool {
        if self.rest.still < STILL_STEPS {
            self.rest.still += 1;
            return false;
        }
        self.shrink_marks();
        self.free_at_rest() || self.make_ready()
    }

    fn free_at_rest(&mut self) -> bool {
        let Some(keep) = self.config.keep_past else { return false };
        let now_ns = self.epochs.now_ns();
        let stepped = match self.rest.round.take() {
            Some(round) => self.go_on_at_rest(round),
            None => self.begin_at_rest(now_ns, keep),
        };
        self.rest.round = match stepped {
            Ok(round) => round,
            // For want of room, or for damage: writers and scrubs meet the same themselves, and are told.
            Err(_) => {
                self.fail_at_rest();
                None
            }
        };
        self.rest.round.is_some()
    }

    /// Begins a round if there may be something to free.
    fn begin_at_rest(&mut self, now_ns: u64, keep: Duration) -> Result<Option<Round>, Error> {
        if self.rest.ended_ns == 0 {
            self.rest.ended_ns = now_ns;
        }
        let keep_ns = u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX);
        let past = Epoch::from_unix_ns(now_ns.saturating_sub(keep_ns));
        let horizon = self.below_readers(self.horizon(past), now_ns);
        let covers_all = self.checkpoint.newest_write <= horizon;
        // What is too new for this round is the next one's: it is not begun for a part without waiting longer.
        let waits = if covers_all { keep } else { keep.saturating_mul(2) };
        // Whichever way the clock was set meanwhile.
        let rested = Duration::from_nanos(now_ns.abs_diff(self.rest.ended_ns));
        if rested < waits.max(self.rest.pause) || !self.has_more_to_free(horizon) {
            return Ok(None);
        }
        self.rest.spent = Duration::ZERO;
        let (before, changes) = (self.checkpoint.done, self.checkpoint.changes);
        self.begin_checkpoint_unless_stalled()?;
        Ok(Some(Round { before, changes, horizon, covers_all, part: Part::Checkpoint }))
    }

    /// Whether something has come since the last round; before the first one, whether something has since whoever had the
    /// target open before went over all of it.
    fn has_more_to_free(&self, horizon: Epoch) -> bool {
        let newest_ns = self.checkpoint.newest_write.unix_ns().saturating_sub(CEILING_NS);
        let reach = horizon.min(Epoch::from_unix_ns(newest_ns));
        match self.rest.covered {
            Covered::All(changes) => changes != self.checkpoint.changes,
            Covered::Nothing => true,
            Covered::Part(before, changes) => horizon > before || changes != self.checkpoint.changes,
            Covered::Unknown => self.conts.iter().any(|cont| cont.state.aggregated < reach),
        }
    }

    /// The horizon, or an earlier one that leaves transactions that have read here what they may ask for.
    fn below_readers(&mut self, horizon: Epoch, now_ns: u64) -> Epoch {
        let oldest = self.readers.oldest(open_since(now_ns));
        self.need_marks();
        // A transaction that began at the horizon itself could not write any more.
        oldest.map_or(horizon, |oldest| horizon.min(Epoch(oldest.0.saturating_sub(1))))
    }

    fn go_on_at_rest(&mut self, mut round: Round) -> Result<Option<Round>, Error> {
        let done = self.checkpoint.done;
        let is_complete = match round.part {
            Part::Merge => done.merges > round.before.merges,
            Part::Checkpoint | Part::Release => done.checkpoints > round.before.checkpoints,
        };
        if !is_complete {
            self.fail_at_rest();
            return Ok(None);
        }
        let part = match round.part {
            Part::Checkpoint if self.are_runs_intact() && !self.store.index.runs.is_empty() => {
                // One that began long ago may have come since the round began.
                let horizon = self.below_readers(round.horizon, self.epochs.now_ns());
                round.covers_all &= horizon == round.horizon;
                round.horizon = horizon;
                let conts: Vec<ContNo> = self.conts.iter().map(|known| known.state.no).collect();
                conts.into_iter().for_each(|cont| self.raise_aggregated(cont, round.horizon));
                self.begin_merge(0..self.store.index.runs.len());
                Part::Merge
            }
            Part::Merge => {
                self.begin_checkpoint_unless_stalled()?;
                Part::Release
            }
            Part::Checkpoint | Part::Release => {
                self.end_at_rest(&round);
                return Ok(None);
            }
        };
        Ok(Some(Round { part, before: done, ..round }))
    }

    fn end_at_rest(&mut self, round: &Round) {
        self.rest.ended_ns = self.epochs.now_ns();
        self.rest.pause = self.rest.spent.saturating_mul(PAUSE_ROUNDS);
        self.rest.covered = if round.covers_all {
            Covered::All(round.changes)
        } else {
            Covered::Part(round.horizon, round.changes)
        };
        self.store.bulk.ready.disturb();
    }

    /// The horizons may have been raised: that nothing has come since does not mean that nothing is left.
    fn fail_at_rest(&mut self) {
        self.rest.ended_ns = self.epochs.now_ns();
        (self.rest.pause, self.rest.covered) = (PAUSE_AFTER_FAILURE, Covered::Nothing);
    }
}
