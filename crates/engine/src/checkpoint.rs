//! Checkpoints: the delta becomes a run, a manifest names it, the superblock names the manifest.
//!
//! Done in bounded steps while writers go on: they fill the next delta. Everything the manifest says is the
//! state at the moment of the freeze, so that replaying the log from there on gives the present.
//!
//! Invariants: a manifest and all that it names are durable before the superblock names it; what a manifest no
//! longer names is removed or reused only after the superblock is durable. What fails before that
//! changes nothing: the run is discarded, the frozen delta stays, and the same checkpoint begins anew.

use crate::aggregate::{Asked, Ended, Merge};
use crate::drops::Drops;
use crate::error::{disk_error, remove_if_there};
use crate::open::{SLOTS, SUPERBLOCK_FILE, manifest_name};
use crate::reclaim::Reclaimed;
use crate::runs::{Run, RunBuild, Step};
use crate::space::RESERVE_LOG_SEGMENTS;
use crate::target::Target;
use dolmen_codec::Progress;
use dolmen_codec::log_frame::{LOG_FRAME_HEADER_BYTES, LogKind};
use dolmen_codec::manifest::{
    BulkSegmentInfo, ClientInfo, ContState, FloorInfo, LogSegmentInfo, LogStart, Manifest, RUN_NUMBER_MAX,
    RunInfo, Unconcluded,
};
use dolmen_codec::superblock::{SUPERBLOCK_SLOT_BYTES, Superblock};
use dolmen_env::FileId;
use dolmen_types::{ContNo, Credentials, Epoch, Error, TxId, crc32c};

/// Entries written by one step of a checkpoint or merge: about a millisecond of work.
pub(crate) const STEP_ENTRIES: usize = 1024;
/// Entries that a writer writes when it has to help: far more than were written since one helped last.
const SHARE_ENTRIES: usize = 256;
/// Records of the log that are brought near before the checkpoint comes to them.
const RECORDS_AHEAD: usize = 16;
/// One write in so many helps.
const SHARE_EVERY: u32 = 8;

/// The delta may take this part of the memory budget, and a quarter of that at least.
const DELTA_PARTS: u64 = 8;
/// The same for blocks of runs.
const BLOCKS_PARTS: u64 = 4;
/// Nodes of a delta that one step gives back.
const STEP_NODES: usize = 4096;
/// With so many intact runs no checkpoint begins before a merge has made them fewer: each is looked into by listings,
/// and has its cursor.
pub(crate) const RUNS_LIMIT: usize = 32;

/// Files of manifests are multiples of this.
const MANIFEST_FILE_BYTES: u64 = 4096;

/// What a manifest says of the state at the start of the log it names.
#[derive(Default, Clone)]
pub(crate) struct Base {
    pub(crate) conts: Vec<ContState>,
    pub(crate) clients: Vec<ClientInfo>,
    pub(crate) floors: Vec<FloorInfo>,
    pub(crate) creds: Vec<(u32, Credentials)>,
    pub(crate) decided: Vec<TxId>,
    pub(crate) unconcluded: Vec<Unconcluded>,
    pub(crate) log_segments: Vec<LogSegmentInfo>,
    pub(crate) bulk_segments: Vec<BulkSegmentInfo>,
    pub(crate) log_start: LogStart,
    pub(crate) splices: Vec<(u64, u32)>,
    /// Its charges go by the gifts of the index after so many freezes.
    pub(crate) freezes: u64,
}

/// The state of checkpoints of a target.
pub(crate) struct State {
    /// Entries that the present step writes.
    pub(crate) step_entries: usize,
    /// Writes since one last helped.
    writes_unshared: u32,
    log_ahead: LogAhead,
    superblock: Superblock,
    /// The superblock that this target was opened by; opening writes the next one before any frame.
    life: u64,
    superblock_file: Option<FileId>,
    /// The checkpoint under way is the last one: if the log behind it is empty, the target is closed.
    closing: bool,
    next_run: u32,
    pub(crate) base: Base,
    work: Option<Work>,
    pub(crate) merge: Option<Merge>,
    pub(crate) asked: Option<Asked>,
    /// Those that other callers have brought to an end, until theirs ask: one a container.
    pub(crate) ended: Vec<Ended>,
    pub(crate) reclaimed: Option<Reclaimed>,
    /// Reclaiming is under way: nothing is written that does not make room.
    pub(crate) is_reclaiming: bool,
    /// Versions put into the index, events of containers and decisions of transactions since the open.
    pub(crate) changes: u64,
    /// Of these, those before the last merge ended.
    pub(crate) changes_merged: u64,
    /// No version has a newer epoch.
    pub(crate) newest_write: Epoch,
    /// The last aggregation found nothing more to do in this container, with so many changes.
    settled: Option<(ContNo, u64)>,
    pub(crate) done: BackgroundDone,
}

/// How much log lies behind the start of the newest checkpoint, complete or under way; counted anew when the log has
/// gone on to another segment or a checkpoint has begun, since every write asks.
#[derive(Clone, Copy, Default)]
struct LogAhead {
    segment: u32,
    start_sequence: u64,
    log_bytes: u64,
}

/// Bulk that the log refers to is read by a recovery, too, and at so many times the rate of replaying frames.
const BULK_OF_LOG: u64 = 4;

/// Background work that a target has completed since it was made or opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundDone {
    /// Checkpoints, those that aggregations begin with included.
    pub checkpoints: u64,
    /// Merges of runs.
    pub merges: u64,
}

/// A checkpoint under way.
struct Work {
    base: Base,
    build: RunBuild,
    /// The last key written; the next step goes on behind it.
    after: Vec<u8>,
    has_all_entries: bool,
    /// Frames below this sequence are what the run refers to, and prepared transactions carried on.
    flush_until: u64,
    /// It has failed; merges go first, since they may free some space.
    stalled: Option<Stall>,
}

/// Why a checkpoint has failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stall {
    /// For want of space, as a rule.
    NoRoom,
    /// For damage, or by a device.
    Other,
}

impl Default for State {
    fn default() -> Self {
        Self {
            step_entries: STEP_ENTRIES,
            writes_unshared: 0,
            log_ahead: LogAhead::default(),
            superblock: Superblock::default(),
            superblock_file: None,
            closing: false,
            next_run: 0,
            base: Base::default(),
            work: None,
            merge: None,
            asked: None,
            ended: Vec::new(),
            is_reclaiming: false,
            changes: 0,
            changes_merged: 0,
            newest_write: Epoch::ZERO,
            settled: None,
            reclaimed: None,
            done: BackgroundDone::default(),
            life: 0,
        }
    }
}

impl State {
    /// Continues where an opened target's superblock and manifest stand.
    pub(crate) fn adopt(&mut self, superblock: &Superblock, manifest: &Manifest) {
        self.superblock = *superblock;
        self.life = superblock.sequence;
        self.next_run = manifest.next_run;
        self.base = Base {
            conts: manifest.conts.clone(),
            clients: manifest.clients.clone(),
            floors: manifest.floors.clone(),
            creds: manifest.creds.clone(),
            decided: manifest.decided.clone(),
            unconcluded: manifest.unconcluded.clone(),
            log_segments: manifest.log_segments.clone(),
            bulk_segments: manifest.bulk_segments.clone(),
            log_start: manifest.log_start,
            splices: manifest.splices.clone(),
            freezes: 0,
        };
    }

    /// Differs between any two openings of the target that wrote to its log.
    pub(crate) fn life(&self) -> u64 {
        self.life
    }

    /// As it was written last.
    pub(crate) fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The number of the present manifest.
    pub(crate) fn manifest(&self) -> u32 {
        self.superblock.manifest
    }

    /// A number for a new run that is none of those there are. After the highest the numbers begin anew.
    fn take_run_number(&mut self, runs: &[Run]) -> u32 {
        let work = self.work.as_ref().map(|work| work.build.number());
        let merge = self.merge.as_mut().map(|merge| merge.build_mut().number());
        loop {
            let number = self.next_run;
            self.next_run = if number < RUN_NUMBER_MAX { number + 1 } else { 0 };
            if ![work, merge].contains(&Some(number)) && runs.iter().all(|run| run.number() != number) {
                return number;
            }
        }
    }

    /// Whether a checkpoint is under way.
    pub(crate) fn is_working(&self) -> bool {
        self.work.is_some()
    }

    /// Whether a checkpoint is under way that failed and has not been tried again.
    pub(crate) fn is_stalled(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.stalled.is_some())
    }

    /// Whether it failed for want of space.
    pub(crate) fn lacks_room(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.stalled == Some(Stall::NoRoom))
    }

    /// Memory of what is being written, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let work = self.work.as_ref().map_or(0, |work| work.build.resident_bytes());
        work + self.merge.as_ref().map_or(0, Merge::resident_bytes)
    }

    /// A merge is complete: what it left out is in no base any more.
    pub(crate) fn merged(&mut self, drops: &Drops, forgotten: &[ContNo], freed: u64, leaves_more: bool) {
        if let Some(work) = &mut self.work {
            work.base.apply(drops);
            work.base.conts.retain(|cont| !forgotten.contains(&cont.no));
            work.stalled = None;
        }
        self.changes_merged = self.changes;
        if let Some(asked) = &mut self.asked {
            asked.merged(freed, leaves_more);
        }
    }

    /// A merge of everything of this container found nothing to drop, move or join; before it there were so many
    /// changes.
    pub(crate) fn settle(&mut self, cont: ContNo, changes: u64) {
        self.settled = Some((cont, changes));
    }

    /// Whether an aggregation would find nothing to do, since nothing has changed after one that found nothing.
    pub(crate) fn is_settled(&self, cont: ContNo) -> bool {
        self.settled == Some((cont, self.changes))
    }

    /// No manifest from now on says less of what was aggregated, nor that of a checkpoint under way.
    pub(crate) fn raise_aggregated(&mut self, cont: ContNo, horizon: Epoch) {
        let work = self.work.as_mut().map(|work| &mut work.base);
        for base in work.into_iter().chain([&mut self.base]) {
            if let Some(state) = base.conts.iter_mut().find(|state| state.no == cont) {
                state.aggregated = state.aggregated.max(horizon);
            }
        }
    }

    /// An operation on a run being written has completed; `false` if it is of none.
    pub(crate) fn completed(&mut self, token: u64, error: Option<Error>) -> bool {
        let work = self.work.as_mut().map(|work| &mut work.build);
        let merge = self.merge.as_mut().map(Merge::build_mut);
        let Some(build) = work.into_iter().chain(merge).find(|build| build.token() == token) else {
            return false;
        };
        build.completed(error);
        true
    }
}

/// What the file of a manifest takes, a quarter more than it needs: when it has become the spare one, its space is for a
/// manifest that has grown.
fn manifest_file_bytes(bytes: u64) -> u64 {
    (bytes + bytes / 4).next_multiple_of(MANIFEST_FILE_BYTES)
}

impl Base {
    fn change_live(&mut self, number: u32, change: impl Fn(u64) -> Option<u64>) {
        match self.log_segments.iter_mut().find(|segment| segment.number == number) {
            Some(segment) => segment.live_bytes = change(segment.live_bytes).expect("never below zero"),
            None => {
                let live_bytes = change(0).expect("a segment unknown to the base only gains");
                self.log_segments.push(LogSegmentInfo { number, live_bytes });
            }
        }
    }

    /// Values that a merge under way has copied are not referred to before it is complete.
    fn without_moves(&mut self, drops: &Drops) {
        for (&segment, &bytes) in drops.moved.iter() {
            self.change_live(segment, |live| live.checked_sub(bytes));
        }
    }

    /// What a complete merge has left out and moved.
    pub(crate) fn apply(&mut self, drops: &Drops) {
        for (&no, usage) in &drops.usage {
            if let Some(state) = self.conts.iter_mut().find(|state| state.no == no) {
                crate::drops::subtract(&mut state.usage, usage);
            }
        }
        for ((no, cred), charge) in drops.charges_at(self.freezes) {
            if let Some(state) = self.conts.iter_mut().find(|state| state.no == no) {
                state.charges.subtract(cred, charge);
            }
        }
        for (&segment, &bytes) in drops.moved.iter() {
            self.change_live(segment, |live| live.checked_add(bytes));
        }
        for (&segment, &bytes) in drops.log.iter() {
            self.change_live(segment, |live| live.checked_sub(bytes));
        }
        for (&segment, units) in drops.bulk.iter() {
            let info = self.bulk_segments.iter_mut().find(|info| info.number == segment);
            let info = info.expect("runs refer to segments of the base");
            for (word, gone) in info.bitmap.iter_mut().zip(units) {
                *word &= !gone;
            }
        }
    }

    /// Whether all that is to be taken out is there: a forged run may name anything.
    pub(crate) fn covers(&self, drops: &Drops) -> bool {
        let live = |number: u32| {
            let segment = self.log_segments.iter().find(|segment| segment.number == number);
            let moved = drops.moved.get(&number).copied().unwrap_or(0);
            segment.map_or(0, |segment| segment.live_bytes).saturating_add(moved)
        };
        let used = |number: u32, units: &[u64]| {
            let info = self.bulk_segments.iter().find(|info| info.number == number);
            info.is_some_and(|info| {
                units.len() <= info.bitmap.len()
                    && info.bitmap.iter().zip(units).all(|(word, gone)| word & gone == *gone)
            })
        };
        let counted = |no: ContNo, gone: &dolmen_codec::verb::Usage| {
            let state = self.conts.iter().find(|state| state.no == no);
            state.is_none_or(|state| crate::drops::covers(&state.usage, gone))
        };
        drops.log.iter().all(|(&number, &bytes)| bytes <= live(number))
            && drops.bulk.iter().all(|(&number, units)| used(number, units))
            && drops.usage.iter().all(|(&no, gone)| counted(no, gone))
            && drops.charges_at(self.freezes).into_iter().all(|((no, cred), gone)| {
                let state = self.conts.iter().find(|state| state.no == no);
                state.is_none_or(|state| state.charges.covers(cred, gone))
            })
    }
}

impl Target {
    /// The state as a manifest describes it, now.
    fn base_now(&self) -> Base {
        let mut creds: Vec<_> = self.creds.iter().map(|(&cred, &number)| (number, cred)).collect();
        creds.sort_unstable_by_key(|&(number, _)| number);
        let (decided, unconcluded) = self.txs.to_manifest();
        let mut base = Base {
            conts: self.conts.to_manifest(),
            clients: self.repeats.to_manifest(),
            floors: self.repeats.floors(),
            creds,
            decided,
            unconcluded,
            log_segments: self.store.log.to_manifest(),
            bulk_segments: self.store.bulk.to_manifest(),
            log_start: self.store.log.end(),
            splices: Vec::new(),
            freezes: self.store.index.freezes(),
        };
        if let Some(merge) = &self.checkpoint.merge {
            base.without_moves(merge.drops());
        }
        base
    }

    /// Whether enough log has gathered to be worth a checkpoint.
    pub(crate) fn checkpoint_due(&self) -> bool {
        let log = self.store.log.bytes_since(self.checkpoint.base.log_start);
        log >= self.config.checkpoint_log_bytes
            || self.store.bulk.logged_bytes() / BULK_OF_LOG >= self.config.checkpoint_log_bytes
            || (self.is_reserve_used() && log >= self.store.log.segment_bytes())
            || self.store.index.delta.resident_bytes() as u64 >= self.delta_share()
    }

    /// What the delta may take before it is checkpointed. While that is written another one fills, and the last
    /// one is given back: three shares at the worst.
    pub(crate) fn delta_share(&self) -> u64 {
        let budget = self.config.memory_budget_bytes;
        let runs = self.store.index.runs_resident_bytes() + self.checkpoint.resident_bytes();
        let others = runs + self.store.hot.resident_bytes();
        (budget.saturating_sub(others) / DELTA_PARTS).clamp(budget / DELTA_PARTS / 4, budget / DELTA_PARTS)
    }

    /// Memory that is accounted for, in bytes: index, filters, caches, what is being written, retained results, decisions
    /// and credentials.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.store.resident_bytes() + self.checkpoint.resident_bytes() + self.remembered_bytes()
    }

    /// What is remembered of clients and transactions. Bounded by numbers of its own, it takes of what caches may.
    fn remembered_bytes(&self) -> u64 {
        /// An entry of a table that is half full.
        const CRED_RESIDENT_BYTES: usize = 2 * size_of::<(Credentials, u32)>();
        let creds = (self.creds.len() * CRED_RESIDENT_BYTES) as u64;
        creds + self.repeats.resident_bytes() + self.txs.resident_bytes()
    }

    /// Gives blocks of runs what the rest leaves of the budget.
    fn balance_memory(&mut self) {
        let budget = self.config.memory_budget_bytes;
        let rest = self.memory_bytes() - self.store.blocks.resident_bytes() as u64 + self.delta_share();
        let blocks = budget.saturating_sub(rest).clamp(budget / BLOCKS_PARTS / 4, budget / BLOCKS_PARTS);
        self.store.blocks.set_budget(usize::try_from(blocks).unwrap_or(usize::MAX));
    }

    /// Freezes the delta; the steps that follow write it.
    pub(crate) fn begin_checkpoint(&mut self) -> Result<(), Error> {
        assert!(self.checkpoint.work.is_none());
        self.store.bulk.begin_release();
        let mut base = self.base_now();
        base.freezes += 1;
        self.carry_prepared()?;
        self.store.index.freeze();
        let flush_until = self.store.log.next_sequence();
        let number = self.checkpoint.take_run_number(&self.store.index.runs);
        self.begin_work(base, flush_until, number);
        Ok(())
    }

    fn begin_work(&mut self, base: Base, flush_until: u64, number: u32) -> &mut Work {
        let build = self.build_of(number, self.store.index.frozen_hashes());
        let after = Vec::new();
        let work = Work { base, build, after, has_all_entries: false, flush_until, stalled: None };
        self.checkpoint.work.insert(work)
    }

    /// A run to be written, with a number and a token of its own, and room in its filter for so many hashes.
    pub(crate) fn begin_run(&mut self, hashes: u64) -> RunBuild {
        let number = self.checkpoint.take_run_number(&self.store.index.runs);
        self.build_of(number, hashes)
    }

    fn build_of(&mut self, number: u32, hashes: u64) -> RunBuild {
        let token = self.next_io;
        self.next_io += 1;
        RunBuild::new(self.config.target, number, token, hashes, self.config.memory_budget_bytes)
    }

    /// Prepared transactions stay in the log: their frames are written again behind the freeze.
    fn carry_prepared(&mut self) -> Result<(), Error> {
        let txs: Vec<TxId> = self.txs.prepared.keys().copied().collect();
        for tx in txs {
            let prepared = &self.txs.prepared[&tx];
            let (body, body_bytes) = (prepared.body, prepared.body_bytes);
            let damaged = || {
                crate::error::corrupt(
                    self.config.target,
                    "log",
                    u64::from(body.segment),
                    u64::from(body.offset),
                )
            };
            let bytes = self.store.log.body_at(body).filter(|bytes| bytes.len() == body_bytes);
            let mut frame = vec![0; LOG_FRAME_HEADER_BYTES];
            frame.extend_from_slice(bytes.ok_or_else(damaged)?);
            self.make_room_to_go_on(body_bytes)?;
            let appended = self.store.log.append_frame(LogKind::Prepare, &mut frame);
            self.txs.prepared.get_mut(&tx).expect("listed above").body = appended.body;
        }
        Ok(())
    }

    /// One bounded step of a checkpoint.
    ///
    /// # Errors
    /// Those of the device. Nothing is lost: the next step begins the same checkpoint anew.
    pub(crate) fn checkpoint_step(&mut self) -> Result<Step, Error> {
        let Some(mut work) = self.checkpoint.work.take() else {
            return Ok(Step::Done);
        };
        work.stalled = None;
        let result = match self.checkpoint_part(&mut work) {
            Ok(Step::Done) => self.commit_checkpoint(&mut work).map(|()| Step::Done),
            other => other,
        };
        match result {
            Ok(Step::Done) => {}
            Ok(Step::More | Step::Waiting) => self.checkpoint.work = Some(work),
            Err(ref error) => {
                // Nothing names the run: the next attempt has its number, or a device that stays full would use them up.
                let number = work.build.number();
                work.build.discard(&mut *self.store.disks.meta);
                let is_full = matches!(error, Error::NoSpace { .. });
                self.begin_work(work.base, work.flush_until, number).stalled =
                    Some(if is_full { Stall::NoRoom } else { Stall::Other });
            }
        }
        result
    }

    fn checkpoint_part(&mut self, work: &mut Work) -> Result<Step, Error> {
        if !work.has_all_entries {
            if work.build.pump(&mut *self.store.disks.meta)? == Step::Waiting {
                return Ok(Step::Waiting);
            }
            return self.checkpoint_entries(work).map(|()| Step::More);
        }
        match work.build.complete_step(&mut *self.store.disks.meta)? {
            // The values that the run refers to are in log and bulk: they must be as durable as the run.
            Step::Done => self.flush_upto(work.flush_until),
            step => Ok(step),
        }
    }

    fn checkpoint_entries(&mut self, work: &mut Work) -> Result<(), Error> {
        let frozen = self.store.index.frozen.as_ref().expect("frozen when the work began");
        let mut cursor = core::mem::take(&mut self.store.scratch);
        frozen.seek(&mut cursor, &work.after);
        // Entries come in the order of their keys, records stand in that of their writing.
        let mut ahead = crate::tree::Cursor::default();
        frozen.seek(&mut ahead, &work.after);
        for _ in 0..RECORDS_AHEAD {
            self.store.log.prefetch_next(frozen, &mut ahead);
        }
        let mut written = 0;
        while let Some((key, pos)) = cursor.entry() {
            if written == self.checkpoint.step_entries || work.build.is_busy() {
                break;
            }
            if key != &work.after[..] {
                let place = crate::index::log_place(pos);
                work.build.push_from_log(&self.store.log, key, place)?;
                written += 1;
            }
            work.after.clear();
            work.after.extend_from_slice(key);
            frozen.advance(&mut cursor);
            self.store.log.prefetch_next(frozen, &mut ahead);
        }
        if cursor.entry().is_none() {
            work.build.end_entries();
            work.has_all_entries = true;
        }
        self.store.scratch = cursor;
        Ok(())
    }

    /// Names the run in a manifest.
    fn commit_checkpoint(&mut self, work: &mut Work) -> Result<(), Error> {
        let run = work.build.finish()?;
        let runs = run.iter().chain(&self.store.index.runs).map(Run::info).collect();
        let is_last = self.checkpoint.closing && self.log_is_empty_since(&work.base);
        if let Err(error) = self.write_manifest_of(&work.base, runs, is_last) {
            // A superblock that may be there after all may lead to it.
            if let Some(run) = run.filter(|_| !self.read_only) {
                // Ignored: a run that no manifest names is removed by the next open.
                let _removed = self.store.remove_run(run);
            }
            return Err(error);
        }
        let start = work.base.log_start;
        self.checkpoint.base = core::mem::take(&mut work.base);
        match run {
            Some(run) => {
                self.store.index.thaw(run);
                if let Some(merge) = &mut self.checkpoint.merge {
                    merge.run_inserted();
                }
            }
            None => self.store.index.thaw_empty(),
        }
        self.checkpoint.done.checkpoints += 1;
        self.store.bulk.finish_release();
        self.store.bulk.remove_empty(self.store.disks.bulk());
        // Ignored: a segment that cannot be removed is in nobody's way, and the next open finds it free.
        let _released = self.store.log.release_before(&mut *self.store.disks.meta, start);
        Ok(())
    }

    /// Has log and bulk flushed, without waiting; done when every frame below `sequence` is durable.
    pub(crate) fn flush_upto(&mut self, sequence: u64) -> Result<Step, Error> {
        if self.store.log.durable_sequence() >= sequence {
            return Ok(Step::Done);
        }
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        self.want_flush();
        Ok(Step::Waiting)
    }

    /// Whether nothing was logged since this state.
    fn log_is_empty_since(&self, base: &Base) -> bool {
        self.store.log.next_sequence() == base.log_start.sequence
    }

    /// Flushes a new manifest and what it refers to: names, and log and bulk, where the values of the runs are.
    /// A checkpoint has flushed most of this before, without waiting.
    fn flush_manifest(&mut self, manifest: FileId) -> Result<(), Error> {
        let io = |e: dolmen_env::Error| disk_error(self.config.target, &e);
        let store = &mut self.store;
        let mut files = vec![manifest];
        let bulk = core::mem::take(&mut store.bulk.dirty);
        let bulk = bulk.into_iter().map(|no| store.bulk.find(no).expect("dirty segments are open").file);
        if store.disks.has_bulk_device() {
            let bulk: Vec<FileId> = bulk.collect();
            store.disks.bulk().flush_all(&bulk).map_err(io)?;
        } else {
            files.extend(bulk);
        }
        files.extend(store.log.take_dirty());
        store.disks.meta.flush_all(&files).map_err(io)?;
        (store.log.fresh_names, store.bulk.fresh_names) = (false, false);
        // A flush under way has taken segments that this one did not flush.
        if !self.is_flushing() {
            self.store.log.set_durable(self.store.log.next_sequence());
        }
        Ok(())
    }

    /// Writes a manifest of the base and the present runs, then the superblock that names it.
    pub(crate) fn write_manifest(&mut self, clean: bool) -> Result<(), Error> {
        let base = core::mem::take(&mut self.checkpoint.base);
        let runs = self.store.index.runs.iter().map(Run::info).collect();
        let result = self.write_manifest_of(&base, runs, clean);
        self.checkpoint.base = base;
        result
    }

    /// Writes a manifest of this state, then the superblock that names it. An error changes nothing, or makes
    /// the target read-only.
    pub(crate) fn write_manifest_of(
        &mut self,
        base: &Base,
        runs: Vec<RunInfo>,
        clean: bool,
    ) -> Result<(), Error> {
        let result = self.try_write_manifest(base, runs, clean);
        if let Err(Error::Io { .. }) = &result {
            self.read_only = true;
        }
        result
    }

    fn try_write_manifest(&mut self, base: &Base, runs: Vec<RunInfo>, clean: bool) -> Result<(), Error> {
        let target = self.config.target;
        let io = |e: dolmen_env::Error| disk_error(target, &e);
        let manifest = Manifest {
            target_id: self.target_id,
            ceiling: self.epochs.ceiling(),
            log_start: base.log_start,
            splices: base.splices.clone(),
            next_run: self.checkpoint.next_run,
            runs,
            // A segment that nothing refers to may be gone by the next open.
            log_segments: base
                .log_segments
                .iter()
                .copied()
                .filter(|segment| segment.live_bytes > 0)
                .collect(),
            // The same for bulk: what is not named is removed.
            bulk_segments: base
                .bulk_segments
                .iter()
                .filter(|segment| segment.bitmap.iter().any(|&word| word != 0))
                .cloned()
                .collect(),
            conts: base.conts.clone(),
            clients: base.clients.clone(),
            floors: base.floors.clone(),
            creds: base.creds.clone(),
            decided: base.decided.clone(),
            unconcluded: base.unconcluded.clone(),
        };
        let bytes = manifest.encode();
        let previous = self.checkpoint.manifest();
        let previous_bytes = self.checkpoint.superblock.manifest_bytes as usize;
        let number = previous.wrapping_add(1);
        let file = self.create_manifest(number, bytes.len() as u64).map_err(io)?;
        let disk = &mut *self.store.disks.meta;
        if let Err(error) = disk.write_at(file, 0, &bytes) {
            disk.close(file);
            return Err(io(error));
        }
        let flushed = self.flush_manifest(file);
        self.store.disks.meta.close(file);
        let superblock = Superblock {
            features: 0,
            target_id: self.target_id,
            sequence: 0,
            manifest: number,
            manifest_bytes: u32::try_from(bytes.len()).expect("a manifest is far below 4 GiB"),
            manifest_sum: crc32c(&bytes),
            clean,
            boot_id: 0,
            life: self.checkpoint.superblock.life,
        };
        // A flush that failed is not tried again; and a superblock that may or may not be there decides what the
        // next open finds.
        if let Err(error) = flushed.and_then(|()| self.write_superblock(superblock)) {
            self.read_only = true;
            return Err(error);
        }
        self.retire_manifest(previous, previous_bytes);
        Ok(())
    }

    /// What the files of manifests take: of the one that counts, and about as much of the spare one.
    pub(crate) fn manifests_bytes(&self) -> u64 {
        2 * manifest_file_bytes(u64::from(self.checkpoint.superblock().manifest_bytes))
    }

    /// A file for a manifest.
    fn create_manifest(&mut self, number: u32, bytes: u64) -> dolmen_env::Result<FileId> {
        let disk = &mut *self.store.disks.meta;
        let file_bytes = manifest_file_bytes(bytes);
        remove_if_there(disk, &manifest_name(number))?;
        match disk.create(&manifest_name(number), file_bytes) {
            Err(error) if error.is_no_space() => {
                remove_if_there(disk, &manifest_name(number.wrapping_sub(2)))?;
                disk.create(&manifest_name(number), file_bytes)
            }
            created => created,
        }
    }

    /// Makes the manifest that was named before the spare one: it keeps space for the next, so that a target can be
    /// opened, punched and destroyed though others have filled its device. What it says is void: were the superblock
    /// that names it found again, the log behind it would be gone.
    fn retire_manifest(&mut self, number: u32, bytes: usize) {
        let disk = &mut *self.store.disks.meta;
        let name = manifest_name(number);
        let voided = disk.open(&name).and_then(|file| {
            let voided = disk.write_at(file, 0, &vec![0; bytes]);
            disk.close(file);
            voided
        });
        if voided.is_err() {
            // Ignored: a manifest that the superblock does not name is in nobody's way.
            let _removed = disk.remove(&name);
        }
        // Ignored: as above.
        let _removed = disk.remove(&manifest_name(number.wrapping_sub(1)));
    }

    /// Says durably whether the target is closed; the manifest stays what it is.
    pub(crate) fn mark_clean(&mut self, clean: bool) -> Result<(), Error> {
        let result = self.write_superblock(Superblock { clean, ..self.checkpoint.superblock });
        self.read_only |= matches!(result, Err(Error::Io { .. }));
        result
    }

    /// Says durably, on all devices, that the target takes part in a life of its pool. Bulk comes first, so that a
    /// crash leaves it one ahead and never behind.
    ///
    /// # Errors
    /// The device's; the target may then take part in it or not.
    pub fn begin_life(&mut self, life: u64) -> Result<(), Error> {
        self.store.disks.mark_bulk(self.config.target, self.target_id, life)?;
        let result = self.write_superblock(Superblock { life, ..self.checkpoint.superblock });
        self.read_only |= matches!(result, Err(Error::Io { .. }));
        result
    }

    /// Writes the next superblock, into the slot of the one before the last, and once that is durable the same into the
    /// other slot: damage of either leaves one that names the present manifest.
    fn write_superblock(&mut self, superblock: Superblock) -> Result<(), Error> {
        let sequence = self.checkpoint.superblock.sequence + 1;
        let boot_id = self.store.disks.meta.boot_id();
        let superblock = Superblock { sequence, boot_id, ..superblock };
        // The other slot may not be durable yet, and of two that are being written both could be torn.
        self.flush_superblock()?;
        self.put_superblock(&superblock)?;
        self.flush_superblock()?;
        self.checkpoint.superblock = superblock;
        let again = Superblock { sequence: sequence + 1, ..superblock };
        // Flushed before the next one: a crash before that may tear it, and then the first counts.
        self.put_superblock(&again)?;
        self.checkpoint.superblock = again;
        Ok(())
    }

    fn put_superblock(&mut self, superblock: &Superblock) -> Result<(), Error> {
        let file = self.superblock_file()?;
        let slot = superblock.sequence % SLOTS * SUPERBLOCK_SLOT_BYTES as u64;
        let written = self.store.disks.meta.write_at(file, slot, &superblock.encode());
        written.map_err(|e| disk_error(self.config.target, &e))
    }

    fn flush_superblock(&mut self) -> Result<(), Error> {
        let file = self.superblock_file()?;
        self.store.disks.meta.flush(file).map_err(|e| disk_error(self.config.target, &e))
    }

    /// The file of the superblock, open from its first use on.
    pub(crate) fn superblock_file(&mut self) -> Result<FileId, Error> {
        if let Some(file) = self.checkpoint.superblock_file {
            return Ok(file);
        }
        let opened = self.store.disks.meta.open(SUPERBLOCK_FILE);
        let file = opened.map_err(|e| disk_error(self.config.target, &e))?;
        self.checkpoint.superblock_file = Some(file);
        Ok(file)
    }

    /// Writes the superblock again over the damaged slot at this offset: as it was, if it is the current one that is
    /// damaged, so that a torn write takes nothing that was good; else the next one, which is due there.
    pub(crate) fn rewrite_superblock(&mut self, slot_offset: u64) -> Result<(), Error> {
        let current = self.checkpoint.superblock;
        let is_current = slot_offset == current.sequence % SLOTS * SUPERBLOCK_SLOT_BYTES as u64;
        let result = if is_current {
            self.put_superblock(&current).and_then(|()| self.flush_superblock())
        } else {
            self.write_superblock(current)
        };
        self.read_only |= matches!(result, Err(Error::Io { .. }));
        result
    }

    /// Writes the present manifest again, under another number.
    pub(crate) fn rewrite_manifest(&mut self) -> Result<(), Error> {
        self.write_manifest(self.checkpoint.superblock.clean)
    }

    /// The first manifest of a new target.
    pub(crate) fn write_first_manifest(&mut self) -> Result<(), Error> {
        self.reserve_segments(RESERVE_LOG_SEGMENTS + 1)?;
        self.next_segment_now()?;
        self.checkpoint.base = self.base_now();
        self.write_manifest(false)
    }

    /// After a recovery: the log goes on in a segment of its own, and the manifest says so.
    pub(crate) fn splice_log(&mut self, sequence: u64) -> Result<(), Error> {
        self.reserve_segments(1)?;
        self.next_segment_now()?;
        let splice = (sequence, self.store.log.end().segment);
        self.checkpoint.base.splices.push(splice);
        self.write_manifest(false)
    }

    /// A whole checkpoint, now: waits for the device.
    pub(crate) fn checkpoint_now(&mut self) -> Result<(), Error> {
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        self.run_to_end(Self::checkpoint_step)?;
        self.run_to_end(Self::merge_intact_step)?;
        while let Some(runs) = self.due_merge().filter(|_| self.is_crowded()) {
            self.begin_merge(runs);
            self.run_to_end(Self::merge_intact_step)?;
        }
        self.begin_checkpoint()?;
        self.run_to_end(Self::checkpoint_step)
    }

    /// Runs steps of one kind until there are no more; waits for the device.
    pub(crate) fn run_to_end(
        &mut self,
        step: impl Fn(&mut Self) -> Result<Step, Error>,
    ) -> Result<(), Error> {
        loop {
            match step(self)? {
                Step::Done => return Ok(()),
                Step::More => {}
                Step::Waiting => self.poll_background(true),
            }
        }
    }

    /// The last checkpoint of a target that is being closed.
    pub(crate) fn close_clean(&mut self) -> Result<(), Error> {
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        self.store.bulk.stop_making(self.store.disks.bulk());
        if self.log_is_empty_since(&self.checkpoint.base) && !self.checkpoint.is_working() {
            return self.mark_clean(true);
        }
        // Prepared transactions are carried in frames behind the checkpoint; then the log is not empty.
        self.checkpoint.closing = true;
        match self.checkpoint_now() {
            // Everything is in the log. The next open replays it and finds a target that was not closed.
            Err(Error::NoSpace { .. }) => {
                let logged = self.store.log.next_sequence();
                self.run_to_end(|target| target.flush_upto(logged))
            }
            other => other,
        }
    }

    /// The background work completed so far, for whoever measures.
    #[must_use]
    pub fn background_done(&self) -> BackgroundDone {
        self.checkpoint.done
    }

    /// One bounded piece of background work.
    pub(crate) fn background_step(&mut self) -> Progress {
        if self.read_only {
            return Progress::Idle;
        }
        self.poll_background(false);
        self.balance_memory();
        let begun_ns = self.rest.is_in_round().then(|| self.epochs.now_ns());
        let stepped = self.background_part();
        if let Some(begun_ns) = begun_ns {
            self.rest.spent(self.epochs.now_ns().saturating_sub(begun_ns));
        }
        match stepped {
            Ok(Step::More) => Progress::More,
            Ok(Step::Waiting) => Progress::Waiting,
            // A step that failed for want of space or by a device error leaves the log as it is: nothing is
            // lost, and writers are told when they meet the same condition themselves.
            Ok(Step::Done) | Err(_) => Progress::Idle,
        }
    }

    /// Has a writer help with the background work if that falls behind, so that delta, log and runs stay within their
    /// bounds: first a little now and then, at twice the share of delta or log a whole step each, waiting for the
    /// device.
    ///
    /// # Errors
    /// Those of the background work, once the delta can take no more. A log that grows on costs only time, at the next
    /// opening.
    #[inline]
    pub(crate) fn share_work(&mut self) -> Result<(), Error> {
        let delta = self.store.index.delta.resident_bytes() as u64;
        let log = self.log_ahead_bytes();
        // The share depends on what the runs take, which is looked up only when it may matter.
        let may_matter = delta >= self.config.memory_budget_bytes / DELTA_PARTS / 4
            || log >= self.config.checkpoint_log_bytes;
        if may_matter && !self.read_only { self.share_due_work(delta, log) } else { Ok(()) }
    }

    fn share_due_work(&mut self, delta: u64, log: u64) -> Result<(), Error> {
        let (share, log_share) = (self.delta_share(), self.config.checkpoint_log_bytes);
        if delta >= 2 * share {
            self.write_steps()?;
        } else if log >= log_share.saturating_mul(2) && !self.checkpoint.is_stalled() {
            // Ignored: this write needs no room in the delta, and the next one helps again.
            let _helped = self.write_steps();
        } else if delta >= share + share / 4 || log >= log_share.saturating_add(log_share / 4) {
            self.writes_help();
        }
        Ok(())
    }

    /// A whole step of the background work by a writer, who waits for the device.
    fn write_steps(&mut self) -> Result<(), Error> {
        self.poll_background(false);
        if self.background_part()? == Step::Waiting {
            self.poll_background(true);
        }
        Ok(())
    }

    /// Log behind the start of the newest checkpoint, to a segment; or bulk that it refers to, at its rate.
    #[inline]
    fn log_ahead_bytes(&mut self) -> u64 {
        let start =
            self.checkpoint.work.as_ref().map_or(self.checkpoint.base.log_start, |w| w.base.log_start);
        let (segment, seen) = (self.store.log.end().segment, self.checkpoint.log_ahead);
        if (seen.segment, seen.start_sequence) != (segment, start.sequence) {
            let log_bytes = self.store.log.bytes_since(start);
            self.checkpoint.log_ahead = LogAhead { segment, start_sequence: start.sequence, log_bytes };
        }
        self.checkpoint.log_ahead.log_bytes.max(self.store.bulk.logged_bytes() / BULK_OF_LOG)
    }

    fn writes_help(&mut self) {
        self.checkpoint.writes_unshared += 1;
        if self.checkpoint.writes_unshared >= SHARE_EVERY {
            self.checkpoint.writes_unshared = 0;
            self.checkpoint.step_entries = SHARE_ENTRIES;
            self.background_step();
            self.checkpoint.step_entries = STEP_ENTRIES;
        }
    }

    /// What a step does; `Done` if there is nothing to be done.
    fn background_part(&mut self) -> Result<Step, Error> {
        // Without room for it a checkpoint goes on all the same.
        if self.prepare_segment() == Ok(true) || self.store.index.free_retired(STEP_NODES) {
            return Ok(Step::More);
        }
        if self.checkpoint.is_working() && !self.checkpoint.is_stalled() {
            return self.checkpoint_step().map(still_working);
        }
        if !self.checkpoint.is_working() && self.checkpoint_due() && !self.is_crowded() {
            return self.begin_checkpoint().map(|()| Step::More);
        }
        if self.checkpoint.merge.is_some() {
            return self.merge_intact_step().map(still_working);
        }
        if let Some(runs) = self.due_merge() {
            self.begin_merge(runs);
            return Ok(Step::More);
        }
        // The scrub comes before a checkpoint that failed: it would do so for ever where a version's record is damaged.
        let scrubbed = self.scrub_step();
        if scrubbed != Ok(Step::More) && self.checkpoint.is_working() {
            return self.checkpoint_step().map(still_working);
        }
        if scrubbed == Ok(Step::Done) && self.step_at_rest() {
            return Ok(Step::More);
        }
        scrubbed
    }
}

/// The end of one piece of work is not the end of all.
fn still_working(step: Step) -> Step {
    if step == Step::Done { Step::More } else { step }
}
