//! Runs as checkpoints and merges make them, and as an opened target finds them.

use crate::error::{corrupt, disk_error, remove_if_there};
use crate::index::{extents_hash, prefix_hash, removal_hash, version_in_log};
use crate::log::{Log, LogPlace};
use crate::run::{RunTail, RunWriter};
use crate::store::Store;
use crate::tree::key::{KeyParts, OBJECT_PREFIX_BYTES, split_typed};
use dolmen_codec::manifest::RunInfo;
use dolmen_codec::run_block::{RUN_BLOCK_PAGES_MAX, RUN_PAGE_BYTES};
use dolmen_codec::run_footer::RunFooter;
use dolmen_codec::version::Version;
use dolmen_env::{Disk, FileId, Io, IoOp};
use dolmen_types::{Error, IoBuf, KeyKind, TargetNo};

pub(crate) use crate::run::{BlockSource, Blocks, IntactBlocks, MergedRuns, Run, RunCursor};

pub(crate) fn file_name(number: u32) -> String {
    format!("run.{number:08x}")
}

/// Bytes that are written at once, at most and at least. A file grows by as much, so that a run takes what it has
/// and no more.
const CHUNK_BYTES_MAX: usize = 256 << 10;
const CHUNK_BYTES_MIN: usize = 64 << 10;
const _: () = assert!(CHUNK_BYTES_MIN >= RUN_BLOCK_PAGES_MAX * RUN_PAGE_BYTES);
/// A chunk is at most this part of the memory budget.
const CHUNK_SHARE: u64 = 128;
/// Writes of one run that may be under way: what keeps a device busy and bounds the memory.
const IN_FLIGHT_MAX: u32 = 4;
/// Blocks behind the last entry that one step makes: as many bytes as a step of entries.
const STEP_BLOCKS: usize = 64;

/// How far a piece of background work has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// There is more to be done.
    More,
    /// A device has to finish something first.
    Waiting,
    /// It is done.
    Done,
}

/// A run being written, block by block, into a file that grows.
///
/// Nothing here waits: what is handed to the device completes by `completed`.
pub(crate) struct RunBuild {
    target: TargetNo,
    number: u32,
    /// Of its operations on the device.
    token: u64,
    stage: Stage,
    file: Option<FileId>,
    /// What is not yet handed to the device: full chunks, then the one being filled.
    ready: Vec<IoBuf>,
    chunk: IoBuf,
    chunk_bytes: usize,
    file_bytes: u64,
    in_flight: u32,
    error: Option<Error>,
    payload: Vec<u8>,
    hashes: Vec<u64>,
    last_hash: u64,
    /// The object whose extents the filter was told of last.
    last_object: u64,
}

/// What a run being written is at.
enum Stage {
    Entries(Box<RunWriter>),
    /// Fence, filter and footer.
    Tail(Box<RunTail>),
    /// Flushing the file.
    Flush(Box<RunTail>),
    /// There was no entry.
    Empty,
}

/// Appends the hashes by which lookups will ask for an entry.
pub(crate) fn push_hashes(prefix: &[u8], version: &Version<'_>, hashes: &mut Vec<u64>) {
    hashes.push(prefix_hash(prefix, version.kind));
    if version.is_removal() {
        hashes.push(removal_hash(prefix));
        hashes.push(removal_hash(&prefix[..OBJECT_PREFIX_BYTES]));
    }
}

impl RunBuild {
    /// Begins run `number` with room in its filter for about `hashes` hashes.
    pub(crate) fn new(target: TargetNo, number: u32, token: u64, hashes: u64, budget_bytes: u64) -> Self {
        let share = usize::try_from(budget_bytes / CHUNK_SHARE).unwrap_or(usize::MAX);
        let chunk_bytes = share.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX) / RUN_PAGE_BYTES * RUN_PAGE_BYTES;
        Self {
            chunk_bytes,
            target,
            number,
            token,
            stage: Stage::Entries(Box::new(RunWriter::new(number, hashes))),
            file: None,
            ready: Vec::new(),
            chunk: IoBuf::default(),
            file_bytes: 0,
            in_flight: 0,
            error: None,
            payload: Vec::new(),
            hashes: Vec::new(),
            last_hash: 0,
            last_object: 0,
        }
    }

    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Memory of filter, fence and what is on its way to the device, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let index = match &self.stage {
            Stage::Entries(writer) => writer.resident_bytes(),
            Stage::Tail(tail) | Stage::Flush(tail) => tail.resident_bytes(),
            Stage::Empty => 0,
        };
        let chunks = self.ready.len() + self.in_flight as usize;
        (index + chunks * self.chunk_bytes + self.chunk.capacity()) as u64
    }

    /// Adds the version that the log has at `place`; a small value stays there and is referred to.
    pub(crate) fn push_from_log(&mut self, log: &Log, key: &[u8], place: LogPlace) -> Result<(), Error> {
        let damaged = || corrupt(self.target, "log", u64::from(place.segment), u64::from(place.offset));
        let (version, at) = version_in_log(log, place).ok_or_else(damaged)?;
        let parts = split_typed(key).ok_or_else(damaged)?;
        self.push(key, &parts, &Version { place: at, ..version });
        Ok(())
    }

    /// Adds a version whose value has a place of its own.
    ///
    /// REQUIRES: `end_entries` was not called.
    pub(crate) fn push(&mut self, key: &[u8], parts: &KeyParts<'_>, version: &Version<'_>) {
        let mut payload = core::mem::take(&mut self.payload);
        payload.clear();
        version.encode(&mut payload);
        self.push_encoded(key, parts, version, &payload);
        self.payload = payload;
    }

    /// Adds a version of which the encoding is there already.
    ///
    /// REQUIRES: as `push`; `payload` decodes to `version`, and `key` splits into `parts`.
    pub(crate) fn push_encoded(
        &mut self,
        key: &[u8],
        parts: &KeyParts<'_>,
        version: &Version<'_>,
        payload: &[u8],
    ) {
        self.hashes.clear();
        push_hashes(&key[..parts.prefix_bytes()], version, &mut self.hashes);
        if self.hashes.len() == 1 && self.hashes[0] == self.last_hash {
            self.hashes.clear();
        } else {
            self.last_hash = self.hashes[0];
        }
        if version.kind.is_array()
            && parts.oid.object_type().is_some_and(|of| of.dkey_kind() == KeyKind::Uint64)
        {
            let object = extents_hash(&key[..OBJECT_PREFIX_BYTES]);
            if object != self.last_object {
                self.last_object = object;
                self.hashes.push(object);
            }
        }
        let Stage::Entries(writer) = &mut self.stage else {
            unreachable!("entries come before the tail");
        };
        let removals = if version.is_removal() { RunFooter::HOLDS_REMOVALS } else { 0 };
        writer.note_holds(1 << version.kind as u32 | removals);
        if let Some(block) = writer.push(key, payload, &self.hashes) {
            self.add_block(&block);
        }
    }

    /// The last entry is in.
    pub(crate) fn end_entries(&mut self) {
        if let Stage::Entries(writer) = core::mem::replace(&mut self.stage, Stage::Empty)
            && let Some(tail) = writer.finish()
        {
            self.stage = Stage::Tail(Box::new(tail));
        }
    }

    fn add_block(&mut self, block: &IoBuf) {
        let filled = self.chunk.len();
        if filled + block.len() > self.chunk_bytes {
            self.ready.push(core::mem::take(&mut self.chunk));
            return self.add_block(block);
        }
        if filled == 0 {
            self.chunk = IoBuf::zeroed(self.chunk_bytes);
        }
        self.chunk.set_len(filled + block.len());
        self.chunk[filled..].copy_from_slice(block);
    }

    /// Whether as much is gathered or on its way as may be.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight as usize + self.ready.len() >= IN_FLIGHT_MAX as usize
    }

    /// Hands what is gathered to the device; `Waiting` if that has enough to do.
    ///
    /// # Errors
    /// `NoSpace`, and those of earlier writes; the run is to be discarded then.
    pub(crate) fn pump(&mut self, disk: &mut dyn Disk) -> Result<Step, Error> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        while self.in_flight < IN_FLIGHT_MAX && !self.ready.is_empty() {
            let chunk = self.ready.remove(0);
            self.write(disk, chunk)?;
        }
        Ok(if self.is_busy() { Step::Waiting } else { Step::More })
    }

    fn write(&mut self, disk: &mut dyn Disk, chunk: IoBuf) -> Result<(), Error> {
        let io = |e: dolmen_env::Error| disk_error(self.target, &e);
        let file = match self.file {
            Some(file) => file,
            None => {
                let name = file_name(self.number);
                remove_if_there(disk, &name).map_err(io)?;
                *self.file.insert(disk.create(&name, 0).map_err(io)?)
            }
        };
        let len = u32::try_from(chunk.len()).expect("a chunk is far below 4 GiB");
        disk.extend(file, u64::from(len)).map_err(io)?;
        let op = IoOp::Write(chunk, len);
        disk.submit(Io { token: self.token, file, offset: self.file_bytes, op });
        self.file_bytes += u64::from(len);
        self.in_flight += 1;
        Ok(())
    }

    /// An operation of this run has completed.
    pub(crate) fn completed(&mut self, error: Option<Error>) {
        self.in_flight -= 1;
        self.error = self.error.take().or(error);
    }

    /// Does a bounded part of what follows the last entry: the rest of the file, then its flush.
    ///
    /// # Errors
    /// As `pump`.
    pub(crate) fn complete_step(&mut self, disk: &mut dyn Disk) -> Result<Step, Error> {
        if self.pump(disk)? == Step::Waiting {
            return Ok(Step::Waiting);
        }
        match core::mem::replace(&mut self.stage, Stage::Empty) {
            Stage::Entries(_) => unreachable!("the caller has ended the entries"),
            Stage::Empty => return Ok(Step::Done),
            Stage::Flush(tail) => {
                self.stage = Stage::Flush(tail);
                return Ok(if self.in_flight == 0 { Step::Done } else { Step::Waiting });
            }
            Stage::Tail(mut tail) => {
                for block in tail.by_ref().take(STEP_BLOCKS) {
                    self.add_block(&block);
                }
                if !tail.is_done() {
                    self.stage = Stage::Tail(tail);
                    return Ok(Step::More);
                }
                if !self.chunk.is_empty() {
                    self.ready.push(core::mem::take(&mut self.chunk));
                }
                self.stage = Stage::Tail(tail);
            }
        }
        self.pump(disk)?;
        if self.in_flight > 0 || !self.ready.is_empty() {
            return Ok(Step::Waiting);
        }
        // A flush covers what had completed before.
        let Stage::Tail(tail) = core::mem::replace(&mut self.stage, Stage::Empty) else {
            unreachable!("put there above");
        };
        self.stage = Stage::Flush(tail);
        let file = self.file.expect("a tail has blocks");
        disk.submit(Io { token: self.token, file, offset: 0, op: IoOp::Flush });
        self.in_flight += 1;
        Ok(Step::Waiting)
    }

    /// The run, once `complete_step` is done; `None` if it has no entries. Its name is not durable yet.
    pub(crate) fn finish(&mut self) -> Result<Option<Run>, Error> {
        let Stage::Flush(tail) = core::mem::replace(&mut self.stage, Stage::Empty) else {
            return Ok(None);
        };
        let file = self.file.take().expect("a tail has blocks");
        let run = tail.into_run(self.target, file);
        run.map(Some).map_err(|at| corrupt(self.target, "run", u64::from(at.run), at.offset))
    }

    /// Gives the file up. Operations under way complete without anybody caring.
    pub(crate) fn discard(self, disk: &mut dyn Disk) {
        if let Some(file) = self.file {
            disk.close(file);
            // Ignored: a file that nothing names is removed by the next open, and by the next run of its number.
            let _removed = disk.remove(&file_name(self.number));
        }
    }
}

impl Run {
    /// What a manifest says of it.
    pub(crate) fn info(&self) -> RunInfo {
        RunInfo { number: self.number(), bytes: self.file_bytes(), entries: self.footer().entries }
    }
}

impl Store {
    /// Opens the runs that a manifest names.
    pub(crate) fn open_runs(&mut self, infos: &[RunInfo]) -> Result<(), Error> {
        for info in infos {
            let damaged = || corrupt(self.target, "run", u64::from(info.number), 0);
            let disk = &mut *self.disks.meta;
            let file = match disk.open(&file_name(info.number)) {
                Ok(file) => file,
                Err(error) if error.is_not_found() => return Err(damaged()),
                Err(error) => return Err(disk_error(self.target, &error)),
            };
            self.index.runs.push(Run::open(disk, self.target, info.number, file, info.bytes)?);
        }
        Ok(())
    }

    /// Removes the file of a run that no manifest names any more.
    pub(crate) fn remove_run(&mut self, run: Run) -> Result<(), Error> {
        self.blocks.forget(run.number());
        self.disks.meta.close(run.file);
        self.disks.meta.remove(&file_name(run.number())).map_err(|e| disk_error(self.target, &e))
    }
}
