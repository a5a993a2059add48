//! Checkpoints: the delta becomes a run, a manifest names it, the superblock names the manifest.
//!
//! Done in bounded steps while writers go on: they fill the next delta. Everything the manifest says is the
//! state at the moment of the freeze, so that replaying the log from there on gives the present.
//!
//! Invariants: a manifest and all that it names are durable before the superblock names it; what a manifest no
//! longer names is removed or reused only after the superblock is durable.

use crate::aggregate::{Asked, Merge};
use crate::error::disk_error;
use crate::open::{SUPERBLOCK_FILE, manifest_name};
use crate::runs::{Run, RunBuild};
use crate::target::Target;
use dolmen_codec::log_frame::{LOG_FRAME_HEADER_BYTES, LogKind};
use dolmen_codec::manifest::{
    BulkSegmentInfo, ClientInfo, ContState, LogSegmentInfo, LogStart, Manifest, RunInfo,
};
use dolmen_codec::superblock::{SUPERBLOCK_SLOT_BYTES, Superblock};
use dolmen_codec::version::ValuePlace;
use dolmen_env::FileId;
use dolmen_types::{ContNo, Credentials, Error, TxId, crc32c};

/// Entries written by one step of a checkpoint: about a millisecond of work.
const STEP_ENTRIES: usize = 1024;

/// Less log than this is not worth a run, however full the memory is of what a checkpoint cannot free.
const CHECKPOINT_LOG_BYTES_MIN: u64 = 1 << 20;
/// Nodes of a delta that one step gives back.
const STEP_NODES: usize = 4096;

/// What a manifest says of the state at the start of the log it names.
#[derive(Default, Clone)]
pub(crate) struct Base {
    pub(crate) conts: Vec<ContState>,
    pub(crate) clients: Vec<ClientInfo>,
    pub(crate) creds: Vec<(u32, Credentials)>,
    pub(crate) decided: Vec<TxId>,
    pub(crate) log_segments: Vec<LogSegmentInfo>,
    pub(crate) bulk_segments: Vec<BulkSegmentInfo>,
    pub(crate) log_start: LogStart,
    pub(crate) splices: Vec<(u64, u32)>,
}

/// The state of checkpoints of a target.
#[derive(Default)]
pub(crate) struct State {
    superblock: Superblock,
    superblock_file: Option<FileId>,
    /// Written since the last manifest, and not flushed.
    pub(crate) fresh_runs: Vec<FileId>,
    /// The checkpoint under way is the last one: if the log behind it is empty, the target is closed.
    closing: bool,
    next_run: u32,
    pub(crate) base: Base,
    work: Option<Work>,
    pub(crate) merge: Option<Merge>,
    pub(crate) asked: Option<Asked>,
    pub(crate) done: BackgroundDone,
}

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
}

impl State {
    /// Continues where an opened target's superblock and manifest stand.
    pub(crate) fn adopt(&mut self, superblock: &Superblock, manifest: &Manifest) {
        self.superblock = *superblock;
        self.next_run = manifest.next_run;
        self.base = Base {
            conts: manifest.conts.clone(),
            clients: manifest.clients.clone(),
            creds: manifest.creds.clone(),
            decided: manifest.decided.clone(),
            log_segments: manifest.log_segments.clone(),
            bulk_segments: manifest.bulk_segments.clone(),
            log_start: manifest.log_start,
            splices: manifest.splices.clone(),
        };
    }

    /// The number of the present manifest.
    pub(crate) fn manifest(&self) -> u32 {
        self.superblock.manifest
    }

    /// A number for a new run.
    pub(crate) fn take_run_number(&mut self) -> u32 {
        let number = self.next_run;
        self.next_run += 1;
        number
    }

    pub(crate) fn is_working(&self) -> bool {
        self.work.is_some()
    }

    /// Changes the count of live bytes in a log segment, also in a base that is being written.
    pub(crate) fn base_live(&mut self, number: u32, bytes: i64) {
        for base in self.bases() {
            base.add_live(number, bytes);
        }
    }

    /// Takes a version of the runs out of the base, also out of one that is being written.
    pub(crate) fn base_drop(&mut self, cont: ContNo, value_bytes: u32, place: ValuePlace, is_move: bool) {
        for base in self.bases() {
            base.drop_version(cont, value_bytes, place, is_move);
        }
    }

    fn bases(&mut self) -> impl Iterator<Item = &mut Base> {
        core::iter::once(&mut self.base).chain(self.work.as_mut().map(|work| &mut work.base))
    }
}

impl Base {
    fn add_live(&mut self, number: u32, bytes: i64) {
        match self.log_segments.iter_mut().find(|segment| segment.number == number) {
            Some(segment) => {
                segment.live_bytes = segment.live_bytes.checked_add_signed(bytes).expect("never below zero");
            }
            None => {
                let live_bytes = u64::try_from(bytes).expect("a segment unknown to the base only gains");
                self.log_segments.push(LogSegmentInfo { number, live_bytes });
            }
        }
    }

    fn drop_version(&mut self, cont: ContNo, value_bytes: u32, place: ValuePlace, is_move: bool) {
        if !is_move
            && value_bytes > 0
            && let Some(state) = self.conts.iter_mut().find(|state| state.no == cont)
        {
            crate::aggregate::subtract(&mut state.usage, value_bytes, place);
        }
        match place {
            ValuePlace::Log { segment, .. } => self.add_live(segment, -i64::from(value_bytes)),
            ValuePlace::Bulk { segment, unit } => {
                let info = self.bulk_segments.iter_mut().find(|info| info.number == segment);
                let info = info.expect("runs refer to segments of the base");
                for unit in unit..unit + crate::bulk::units(u64::from(value_bytes)) {
                    info.bitmap[unit as usize / 64] &= !(1 << (unit % 64));
                }
            }
            ValuePlace::None | ValuePlace::Inline => {}
        }
    }
}

impl Target {
    /// The state as a manifest describes it, now.
    fn base_now(&self) -> Base {
        let mut creds: Vec<_> = self.creds.iter().map(|(&cred, &number)| (number, cred)).collect();
        creds.sort_unstable_by_key(|&(number, _)| number);
        Base {
            conts: self.conts.to_manifest(),
            clients: self.repeats.to_manifest(),
            creds,
            decided: self.txs.to_manifest(),
            log_segments: self.store.log.to_manifest(),
            bulk_segments: self.store.bulk.to_manifest(),
            log_start: self.store.log.end(),
            splices: Vec::new(),
        }
    }

    /// Whether enough log has gathered to be worth a checkpoint.
    pub(crate) fn checkpoint_due(&self) -> bool {
        let log = self.store.log.bytes_since(self.checkpoint.base.log_start);
        log >= self.config.checkpoint_log_bytes
            || (self.store.resident_bytes() > self.config.memory_budget_bytes
                && log >= CHECKPOINT_LOG_BYTES_MIN)
            || self.store.index.delta.resident_bytes() as u64 >= self.config.memory_budget_bytes / 4
    }

    /// Freezes the delta; the steps that follow write it.
    pub(crate) fn begin_checkpoint(&mut self) -> Result<(), Error> {
        assert!(self.checkpoint.work.is_none());
        self.store.bulk.begin_release();
        let base = self.base_now();
        self.carry_prepared()?;
        self.store.index.freeze();
        let number = self.checkpoint.take_run_number();
        let entries = self.store.index.frozen.as_ref().map_or(0, crate::tree::Delta::len) as u64;
        let build = RunBuild::new(self.config.target, number, entries);
        self.checkpoint.work = Some(Work { base, build, after: Vec::new() });
        Ok(())
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
            let bytes =
                self.store.log.mapped(body).and_then(|bytes| bytes.get(..body_bytes)).ok_or_else(damaged)?;
            let mut frame = vec![0; LOG_FRAME_HEADER_BYTES];
            frame.extend_from_slice(bytes);
            self.make_room(body_bytes, true)?;
            let appended = self.store.log.append_frame(LogKind::Prepare, &mut frame);
            self.txs.prepared.get_mut(&tx).expect("listed above").body = appended.body;
        }
        Ok(())
    }

    /// One bounded step of a checkpoint; `true` when it is complete.
    pub(crate) fn checkpoint_step(&mut self) -> Result<bool, Error> {
        let Some(mut work) = self.checkpoint.work.take() else {
            return Ok(true);
        };
        let frozen = self.store.index.frozen.as_ref().expect("frozen when the work began");
        let mut cursor = core::mem::take(&mut self.store.scratch);
        frozen.seek(&mut cursor, &work.after);
        let mut written = 0;
        while let Some((key, pos)) = cursor.entry() {
            if written == STEP_ENTRIES {
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
        }
        let complete = cursor.entry().is_none();
        self.store.scratch = cursor;
        if !complete {
            self.checkpoint.work = Some(work);
            return Ok(false);
        }
        self.finish_checkpoint(work)?;
        Ok(true)
    }

    fn finish_checkpoint(&mut self, work: Work) -> Result<(), Error> {
        let Work { base, build, .. } = work;
        let run = build.finish(&mut *self.store.disks.meta)?;
        self.checkpoint.fresh_runs.extend(run.as_ref().map(|run| run.file));
        let start = base.log_start;
        self.checkpoint.base = base;
        match run {
            Some(run) => {
                self.store.index.thaw(run);
                if let Some(merge) = &mut self.checkpoint.merge {
                    merge.run_inserted();
                }
            }
            None => self.store.index.thaw_empty(),
        }
        self.write_manifest(self.checkpoint.closing && self.log_is_empty())?;
        self.checkpoint.done.checkpoints += 1;
        self.store.bulk.finish_release();
        self.store.log.release_before(&mut *self.store.disks.meta, start)
    }

    /// Whether nothing was logged since the state that the manifest describes.
    fn log_is_empty(&self) -> bool {
        self.store.log.next_sequence() == self.checkpoint.base.log_start.sequence
    }

    /// Flushes a new manifest and what it refers to: runs, and log and bulk, where the values of the runs are.
    fn flush_manifest(&mut self, manifest: FileId) -> Result<(), Error> {
        let io = |e: dolmen_env::Error| disk_error(self.config.target, &e);
        let store = &mut self.store;
        let mut files = core::mem::take(&mut self.checkpoint.fresh_runs);
        files.push(manifest);
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
        store.log.set_durable(store.log.next_sequence());
        Ok(())
    }

    /// Writes a manifest of the base and the present runs, then the superblock that names it.
    pub(crate) fn write_manifest(&mut self, clean: bool) -> Result<(), Error> {
        let result = self.try_write_manifest(clean);
        if let Err(Error::Io { .. }) = &result {
            self.read_only = true;
        }
        result
    }

    fn try_write_manifest(&mut self, clean: bool) -> Result<(), Error> {
        let target = self.config.target;
        let io = |e: dolmen_env::Error| disk_error(target, &e);
        let base = &self.checkpoint.base;
        let manifest = Manifest {
            target_id: self.target_id,
            ceiling: self.epochs.ceiling(),
            log_start: base.log_start,
            splices: base.splices.clone(),
            next_run: self.checkpoint.next_run,
            runs: self.store.index.runs.iter().map(Run::info).collect::<Vec<RunInfo>>(),
            // A segment that nothing refers to may be gone by the next open.
            log_segments: base
                .log_segments
                .iter()
                .copied()
                .filter(|segment| segment.live_bytes > 0)
                .collect(),
            bulk_segments: base.bulk_segments.clone(),
            conts: base.conts.clone(),
            clients: base.clients.clone(),
            creds: base.creds.clone(),
            decided: base.decided.clone(),
        };
        let bytes = manifest.encode();
        let disk = &mut *self.store.disks.meta;
        let number = self.checkpoint.manifest().wrapping_add(1);
        match disk.remove(&manifest_name(number)) {
            Err(error) if !error.is_not_found() => return Err(io(error)),
            Ok(()) | Err(_) => {}
        }
        let file = disk.create(&manifest_name(number), bytes.len() as u64).map_err(io)?;
        disk.write_at(file, 0, &bytes).map_err(io)?;
        self.flush_manifest(file)?;
        self.store.disks.meta.close(file);
        let previous = self.checkpoint.manifest();
        self.write_superblock(Superblock {
            features: 0,
            target_id: self.target_id,
            sequence: 0,
            manifest: number,
            manifest_bytes: u32::try_from(bytes.len()).expect("a manifest is far below 4 GiB"),
            manifest_sum: crc32c(&bytes),
            clean,
        })?;
        match self.store.disks.meta.remove(&manifest_name(previous)) {
            Err(error) if !error.is_not_found() => Err(io(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Says durably whether the target is closed; the manifest stays what it is.
    pub(crate) fn mark_clean(&mut self, clean: bool) -> Result<(), Error> {
        let result = self.write_superblock(Superblock { clean, ..self.checkpoint.superblock });
        self.read_only |= matches!(result, Err(Error::Io { .. }));
        result
    }

    /// Writes the next superblock, into the slot of the one before the last.
    fn write_superblock(&mut self, superblock: Superblock) -> Result<(), Error> {
        let io = |e: dolmen_env::Error| disk_error(self.config.target, &e);
        let superblock = Superblock { sequence: self.checkpoint.superblock.sequence + 1, ..superblock };
        let disk = &mut *self.store.disks.meta;
        let file = match self.checkpoint.superblock_file {
            Some(file) => file,
            None => disk.open(SUPERBLOCK_FILE).map_err(io)?,
        };
        self.checkpoint.superblock_file = Some(file);
        let slot = superblock.sequence % 2 * SUPERBLOCK_SLOT_BYTES as u64;
        disk.write_at(file, slot, &superblock.encode()).map_err(io)?;
        disk.flush(file).map_err(io)?;
        self.checkpoint.superblock = superblock;
        Ok(())
    }

    /// The first manifest of a new target.
    pub(crate) fn write_first_manifest(&mut self) -> Result<(), Error> {
        self.next_segment_now()?;
        self.checkpoint.base = self.base_now();
        self.write_manifest(false)
    }

    /// After a recovery: the log goes on in a segment of its own, and the manifest says so.
    pub(crate) fn splice_log(&mut self, sequence: u64) -> Result<(), Error> {
        self.next_segment_now()?;
        let splice = (sequence, self.store.log.end().segment);
        self.checkpoint.base.splices.push(splice);
        self.write_manifest(false)
    }

    /// A whole checkpoint, now.
    pub(crate) fn checkpoint_now(&mut self) -> Result<(), Error> {
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        while !self.checkpoint_step()? {}
        while self.merge_step()?.is_none() {}
        self.begin_checkpoint()?;
        while !self.checkpoint_step()? {}
        Ok(())
    }

    /// The last checkpoint of a target that is being closed.
    pub(crate) fn close_clean(&mut self) -> Result<(), Error> {
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        if self.log_is_empty() && !self.checkpoint.is_working() {
            return self.mark_clean(true);
        }
        // Prepared transactions are carried in frames behind the checkpoint; then the log is not empty.
        self.checkpoint.closing = true;
        self.checkpoint_now()
    }

    /// The background work completed so far, for whoever measures.
    #[must_use]
    pub fn background_done(&self) -> BackgroundDone {
        self.checkpoint.done
    }

    /// One bounded piece of background work.
    pub(crate) fn background_step(&mut self) -> dolmen_codec::Progress {
        if self.read_only {
            return dolmen_codec::Progress::Idle;
        }
        let worked = if self.store.index.free_retired(STEP_NODES) {
            Ok(true)
        } else if self.checkpoint.is_working() {
            self.checkpoint_step().map(|_| true)
        } else if self.checkpoint_due() {
            self.begin_checkpoint().map(|()| true)
        } else if self.checkpoint.merge.is_some() {
            self.merge_step().map(|_| true)
        } else if let Some(runs) = self.due_merge() {
            self.begin_merge(runs);
            Ok(true)
        } else {
            Ok(false)
        };
        match worked {
            Ok(true) => dolmen_codec::Progress::More,
            // A step that failed for want of space or by a device error leaves the log as it is: nothing is
            // lost, and writers are told when they meet the same condition themselves.
            Ok(false) | Err(_) => dolmen_codec::Progress::Idle,
        }
    }
}
