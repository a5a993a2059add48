//! Runs as checkpoints and merges make them, and as an opened target finds them.

use crate::error::{corrupt, disk_error};
use crate::index::{prefix_hash, removal_hash, version_in_log};
use crate::log::{Log, LogPlace};
use crate::run::RunWriter;
use crate::store::Store;
use crate::tree::key::{OBJECT_PREFIX_BYTES, split_typed};
use dolmen_codec::manifest::RunInfo;
use dolmen_codec::version::Version;
use dolmen_env::Disk;
use dolmen_types::{Error, IoBuf, TargetNo};

pub(crate) use crate::run::{BlockSource, Blocks, Run, RunCursor};

pub(crate) fn file_name(number: u32) -> String {
    format!("run.{number:08x}")
}

/// A run being written.
pub(crate) struct RunBuild {
    target: TargetNo,
    number: u32,
    writer: RunWriter,
    blocks: Vec<IoBuf>,
    payload: Vec<u8>,
    hashes: Vec<u64>,
    last_hash: u64,
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
    /// Begins run `number` with room in its filter for about `entries` entries.
    pub(crate) fn new(target: TargetNo, number: u32, entries: u64) -> Self {
        Self {
            target,
            number,
            writer: RunWriter::new(number, entries),
            blocks: Vec::new(),
            payload: Vec::new(),
            hashes: Vec::new(),
            last_hash: 0,
        }
    }

    /// Adds the version that the log has at `place`; a small value stays there and is referred to.
    pub(crate) fn push_from_log(&mut self, log: &Log, key: &[u8], place: LogPlace) -> Result<(), Error> {
        let damaged = || corrupt(self.target, "log", u64::from(place.segment), u64::from(place.offset));
        let (version, at) = version_in_log(log, place).ok_or_else(damaged)?;
        self.push(key, &Version { place: at, ..version })
    }

    /// Adds a version whose value has a place of its own.
    pub(crate) fn push(&mut self, key: &[u8], version: &Version<'_>) -> Result<(), Error> {
        let damaged = || corrupt(self.target, "run", u64::from(self.number), 0);
        let prefix_bytes = split_typed(key).ok_or_else(damaged)?.prefix_bytes();
        self.payload.clear();
        version.encode(&mut self.payload);
        self.hashes.clear();
        push_hashes(&key[..prefix_bytes], version, &mut self.hashes);
        if self.hashes.len() == 1 && self.hashes[0] == self.last_hash {
            self.hashes.clear();
        } else {
            self.last_hash = self.hashes[0];
        }
        self.blocks.extend(self.writer.push(key, &self.payload, &self.hashes));
        Ok(())
    }

    /// Writes the file and opens it; `None` if there was nothing to write. The caller flushes it before a
    /// superblock leads to it.
    pub(crate) fn finish(mut self, disk: &mut dyn Disk) -> Result<Option<Run>, Error> {
        let Some(tail) = self.writer.finish() else {
            return Ok(None);
        };
        self.blocks.extend(tail);
        let io = |e: dolmen_env::Error| disk_error(self.target, &e);
        let bytes: u64 = self.blocks.iter().map(|block| block.len() as u64).sum();
        let name = file_name(self.number);
        match disk.remove(&name) {
            Err(error) if !error.is_not_found() => return Err(io(error)),
            Ok(()) | Err(_) => {}
        }
        let file = disk.create(&name, bytes).map_err(io)?;
        let mut offset = 0;
        for block in &self.blocks {
            disk.write_at(file, offset, block).map_err(io)?;
            offset += block.len() as u64;
        }
        Run::open(disk, self.target, self.number, file, bytes).map(Some)
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
