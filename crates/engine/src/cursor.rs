//! A cursor over all sources of the index: one order over delta, frozen delta and runs.
//!
//! Invariants: an entry stands in one source only; as long as a cursor goes one way, every source stands on its
//! first entry that is not yet passed, or nowhere if it has none.

use crate::changes::Window;
use crate::index::{EntryPlace, Index, log_place};
use crate::log::LogPlace;
use crate::runs::{BlockSource, Run, RunCursor};
use crate::tree::Cursor;
use dolmen_codec::version::VersionKind;
use dolmen_types::Error;
use smallvec::SmallVec;

/// Where the version of the entry under a cursor is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlaceRef<'a> {
    /// In the log.
    Log(LogPlace),
    /// In the block of a run that the cursor holds.
    Run(&'a [u8]),
}

impl PlaceRef<'_> {
    /// The same, to be kept when the cursor moves on.
    pub(crate) fn to_place(self) -> EntryPlace {
        match self {
            Self::Log(at) => EntryPlace::Log(at),
            Self::Run(payload) => EntryPlace::Run(payload.into()),
        }
    }
}

/// What filters of runs are asked, one hash for each kind: a run that has none of a kind is not asked for it.
pub(crate) type RunHashes = SmallVec<[(VersionKind, u64); 8]>;

/// Which way a cursor goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Way {
    #[default]
    Up,
    Down,
}

/// Walks all entries of all sources in key order, or against it. It may be used again and again: a seek begins
/// anew, whatever the index has become meanwhile.
#[derive(Default)]
pub(crate) struct IndexCursor {
    deltas: [Cursor; 2],
    runs: Vec<RunCursor>,
    /// The source whose entry comes first; `None` at the end.
    at: Option<usize>,
    /// The source whose entry comes second: while the first stays ahead of it, no other is looked at.
    second: Option<usize>,
    way: Way,
    /// Runs are looked into that may have one of these in their filters; all, if there are none.
    within: RunHashes,
    /// Runs are looked into that have entries of this time; all, if there is none.
    during: Option<Window>,
}

impl IndexCursor {
    /// From now on runs are left out that have nothing of what these hashes stand for; without hashes none is.
    pub(crate) fn within(&mut self, hashes: RunHashes) {
        self.within = hashes;
    }

    /// From now on runs are left out that have no entry of this time.
    pub(crate) fn during(&mut self, window: Option<Window>) {
        self.during = window;
    }

    fn is_within(&self, run: &Run) -> bool {
        if self.during.is_some_and(|(from, to)| !run.has_epochs(from, to)) {
            return false;
        }
        self.within.is_empty() || self.within.iter().any(|&(kind, hash)| run.may_hold(kind, hash))
    }

    /// Goes to the first entry at or above `key`, and upwards from there.
    pub(crate) fn seek(
        &mut self,
        index: &Index,
        key: &[u8],
        blocks: &mut dyn BlockSource,
    ) -> Result<(), Error> {
        self.begin(index, Way::Up);
        index.delta.seek(&mut self.deltas[0], key);
        if let Some(frozen) = &index.frozen {
            frozen.seek(&mut self.deltas[1], key);
        }
        for number in 0..index.runs.len() {
            if self.is_within(&index.runs[number]) {
                self.runs[number].seek(&index.runs[number], key, blocks)?;
            }
        }
        self.choose();
        Ok(())
    }

    /// Goes to the last entry below `key`, and downwards from there.
    pub(crate) fn seek_below(
        &mut self,
        index: &Index,
        key: &[u8],
        blocks: &mut dyn BlockSource,
    ) -> Result<(), Error> {
        self.begin(index, Way::Down);
        index.delta.seek_below(&mut self.deltas[0], key);
        if let Some(frozen) = &index.frozen {
            frozen.seek_below(&mut self.deltas[1], key);
        }
        for number in 0..index.runs.len() {
            if self.is_within(&index.runs[number]) {
                self.runs[number].seek_below(&index.runs[number], key, blocks)?;
            }
        }
        self.choose();
        Ok(())
    }

    /// Forgets where it stood.
    fn begin(&mut self, index: &Index, way: Way) {
        self.way = way;
        (self.at, self.second) = (None, None);
        self.deltas.iter_mut().for_each(Cursor::leave);
        self.runs.iter_mut().for_each(RunCursor::leave);
        self.runs.resize_with(index.runs.len(), RunCursor::default);
    }

    /// Goes to the next entry of its way; at the end it stays there.
    #[inline]
    pub(crate) fn advance(&mut self, index: &Index, blocks: &mut dyn BlockSource) -> Result<(), Error> {
        let Some(at) = self.at else {
            return Ok(());
        };
        match (at, self.way) {
            (0, Way::Up) => index.delta.advance(&mut self.deltas[0]),
            (0, Way::Down) => index.delta.retreat(&mut self.deltas[0]),
            (1, way) => {
                let frozen = index.frozen.as_ref().expect("the cursor stands in it");
                match way {
                    Way::Up => frozen.advance(&mut self.deltas[1]),
                    Way::Down => frozen.retreat(&mut self.deltas[1]),
                }
            }
            (run, Way::Up) => self.runs[run - 2].advance(&index.runs[run - 2], blocks)?,
            (run, Way::Down) => self.runs[run - 2].retreat(&index.runs[run - 2], blocks)?,
        }
        let stays = match (self.source_key(at), self.second.and_then(|second| self.source_key(second))) {
            (Some(key), Some(second)) => self.is_ahead(key, second),
            (Some(_), None) => true,
            (None, _) => false,
        };
        if !stays {
            self.choose();
        }
        Ok(())
    }

    #[inline]
    fn is_ahead(&self, key: &[u8], other: &[u8]) -> bool {
        match self.way {
            Way::Up => key < other,
            Way::Down => key > other,
        }
    }

    #[inline]
    fn source_key(&self, source: usize) -> Option<&[u8]> {
        match source {
            0 | 1 => self.deltas[source].entry().map(|(key, _)| key),
            run => self.runs[run - 2].entry().map(|(key, _)| key),
        }
    }

    /// Finds the sources whose entries come first and second.
    fn choose(&mut self) {
        let mut first: Option<(&[u8], usize)> = None;
        let mut second: Option<(&[u8], usize)> = None;
        for source in 0..2 + self.runs.len() {
            let Some(key) = self.source_key(source) else {
                continue;
            };
            if first.is_none_or(|(best, _)| self.is_ahead(key, best)) {
                second = first.replace((key, source));
            } else if second.is_none_or(|(best, _)| self.is_ahead(key, best)) {
                second = Some((key, source));
            }
        }
        (self.at, self.second) = (first.map(|(_, source)| source), second.map(|(_, source)| source));
    }

    /// The key here; `None` at the end.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.source_key(self.at?)
    }

    /// Where the version here is.
    ///
    /// # Panics
    /// At the end.
    #[inline]
    pub(crate) fn place(&self) -> PlaceRef<'_> {
        const CHOSEN: &str = "chosen because it has an entry";
        match self.at.expect("not at the end") {
            source @ (0 | 1) => PlaceRef::Log(log_place(self.deltas[source].entry().expect(CHOSEN).1)),
            run => PlaceRef::Run(self.runs[run - 2].entry().expect(CHOSEN).1),
        }
    }
}
