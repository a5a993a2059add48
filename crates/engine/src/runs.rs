//! Runs as the index uses them.

use dolmen_env::Disk;
use dolmen_types::{Error, TargetNo};

/// Reads blocks of runs.
pub(crate) trait BlockSource {}

pub(crate) struct Blocks {}

pub(crate) struct Source<'a> {
    _disk: &'a mut dyn Disk,
}

impl BlockSource for Source<'_> {}

impl Blocks {
    pub(crate) fn new(_target: TargetNo, _media: dolmen_env::Media, _budget_bytes: u64) -> Self {
        Self {}
    }
    pub(crate) fn source<'a>(&'a mut self, disk: &'a mut dyn Disk) -> Source<'a> {
        Source { _disk: disk }
    }
}

pub(crate) enum Run {}

impl Run {
    pub(crate) fn may_contain(&self, _hash: u64) -> bool {
        match *self {}
    }
    pub(crate) fn resident_bytes(&self) -> usize {
        match *self {}
    }
    pub(crate) fn corrupt(&self, _target: TargetNo) -> Error {
        match *self {}
    }
}

#[derive(Default)]
pub(crate) struct RunCursor {}

impl RunCursor {
    pub(crate) fn seek(
        &mut self,
        run: &Run,
        _key: &[u8],
        _blocks: &mut dyn BlockSource,
    ) -> Result<(), Error> {
        match *run {}
    }
    pub(crate) fn advance(&mut self, run: &Run, _blocks: &mut dyn BlockSource) -> Result<(), Error> {
        match *run {}
    }
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        None
    }
}

pub(crate) struct RunBuild {}

impl RunBuild {
    pub(crate) fn new(_target: TargetNo, _number: u32) -> Self {
        Self {}
    }
    pub(crate) fn push_from_log(
        &mut self,
        _log: &crate::log::Log,
        _key: &[u8],
        _place: crate::log::LogPlace,
    ) -> Result<(), Error> {
        Ok(())
    }
    pub(crate) fn write_blocks(&mut self, _disk: &mut dyn Disk, _all: bool) -> Result<(), Error> {
        Ok(())
    }
    pub(crate) fn finish(self, _disk: &mut dyn Disk, _blocks: &mut Blocks) -> Result<Option<Run>, Error> {
        Err(Error::Busy)
    }
}

impl Run {
    pub(crate) fn info(&self) -> dolmen_codec::manifest::RunInfo {
        match *self {}
    }
}

pub(crate) fn file_name(number: u32) -> String {
    format!("run.{number:08x}")
}

impl crate::store::Store {
    pub(crate) fn open_runs(&mut self, _runs: &[dolmen_codec::manifest::RunInfo]) -> Result<(), Error> {
        Ok(())
    }
}
