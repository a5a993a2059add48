//! One order over many sources, and the merge of runs into one.
//!
//! Invariants: `order` has each source that is not at its end, by key, then newest (lowest number) first.

use super::reader::{BlockSource, Run, RunCursor, RunError};
use super::writer::{RunTail, RunWriter};
use crate::tree::{Cursor, Delta, Pos};
use dolmen_types::IoBuf;

/// Where a merge reads from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    /// A resident map.
    Delta(&'a Delta),
    /// A run.
    Run(&'a Run),
}

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value<'a> {
    /// In a delta: where its record is.
    Pos(Pos),
    /// In a run: its payload.
    Payload(&'a [u8]),
}

/// An entry of a merge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found<'a> {
    /// Flat key.
    pub(crate) key: &'a [u8],
    /// Number of the source.
    pub(crate) source: usize,
    /// What it says there.
    pub(crate) value: Value<'a>,
}

#[derive(Debug)]
enum Place {
    Delta(Cursor),
    Run(RunCursor),
}

impl Place {
    fn of(source: &Source<'_>) -> Self {
        match source {
            Source::Delta(_) => Self::Delta(Cursor::default()),
            Source::Run(_) => Self::Run(RunCursor::default()),
        }
    }

    fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Delta(cursor) => cursor.entry().map(|(key, _)| key),
            Self::Run(cursor) => cursor.entry().map(|(key, _)| key),
        }
    }

    fn seek(
        &mut self,
        source: &Source<'_>,
        key: &[u8],
        blocks: &mut dyn BlockSource,
    ) -> Result<(), RunError> {
        match (self, source) {
            (Self::Delta(cursor), Source::Delta(delta)) => {
                delta.seek(cursor, key);
                Ok(())
            }
            (Self::Run(cursor), Source::Run(run)) => cursor.seek(run, key, blocks),
            _ => unreachable!("sources keep their numbers while a cursor walks them"),
        }
    }

    fn advance(&mut self, source: &Source<'_>, blocks: &mut dyn BlockSource) -> Result<(), RunError> {
        match (self, source) {
            (Self::Delta(cursor), Source::Delta(delta)) => {
                delta.advance(cursor);
                Ok(())
            }
            (Self::Run(cursor), Source::Run(run)) => cursor.advance(run, blocks),
            _ => unreachable!("sources keep their numbers while a cursor walks them"),
        }
    }
}

/// A place in the common order of sources. It borrows none of them: each step is given the same list again.
#[derive(Debug, Default)]
pub(crate) struct MergeCursor {
    places: Vec<Place>,
    order: Vec<usize>,
    /// The key of a seek that stalled, and how many sources were placed by then: these hold their blocks and do not
    /// need others again, so that repeated seeks end however small the cache is.
    sought: Vec<u8>,
    placed: usize,
}

impl MergeCursor {
    /// Goes to the first entry at or after `key`, which may be any bytes.
    ///
    /// # Errors
    /// Those of the blocks; then the seek must be repeated.
    pub(crate) fn seek(
        &mut self,
        sources: &[Source<'_>],
        key: &[u8],
        blocks: &mut dyn BlockSource,
    ) -> Result<(), RunError> {
        self.order.clear();
        if self.places.is_empty() {
            self.places.extend(sources.iter().map(Place::of));
        }
        assert!(self.places.len() == sources.len());
        if self.sought != key {
            self.placed = 0;
            self.sought.clear();
            self.sought.extend_from_slice(key);
        }
        for (number, (place, source)) in self.places.iter_mut().zip(sources).enumerate() {
            if number >= self.placed || matches!(source, Source::Delta(_)) {
                place.seek(source, key, blocks)?;
                self.placed = self.placed.max(number + 1);
            }
        }
        self.placed = 0;
        let places = &self.places;
        self.order.extend((0..places.len()).filter(|&number| places[number].key().is_some()));
        self.order.sort_by(|&a, &b| places[a].key().cmp(&places[b].key()).then(a.cmp(&b)));
        Ok(())
    }

    /// The entry here; on equal keys that of the newest source first. `None` at the end.
    pub(crate) fn entry(&self) -> Option<Found<'_>> {
        let &source = self.order.first()?;
        let (key, value) = match &self.places[source] {
            Place::Delta(cursor) => cursor.entry().map(|(key, pos)| (key, Value::Pos(pos))),
            Place::Run(cursor) => cursor.entry().map(|(key, payload)| (key, Value::Payload(payload))),
        }?;
        Some(Found { key, source, value })
    }

    /// Goes to the next entry.
    ///
    /// # Errors
    /// Those of the blocks; then it stands where it was, and the step can be repeated.
    pub(crate) fn advance(
        &mut self,
        sources: &[Source<'_>],
        blocks: &mut dyn BlockSource,
    ) -> Result<(), RunError> {
        let Some(&top) = self.order.first() else {
            return Ok(());
        };
        self.places[top].advance(&sources[top], blocks)?;
        let Some(key) = self.places[top].key() else {
            self.order.remove(0);
            return Ok(());
        };
        let places = &self.places;
        let before = |&other: &usize| (places[other].key(), other) < (Some(key), top);
        let to = self.order[1..].partition_point(before);
        self.order[..=to].rotate_left(1);
        Ok(())
    }
}

/// Decides about key and payload of an entry, and puts the hashes of its lookups into the list it is given.
pub(crate) type Judge<'a> = dyn FnMut(&[u8], &[u8], &mut Vec<u64>) -> Verdict + 'a;

/// What becomes of an entry in a merge of runs.
pub(crate) enum Verdict {
    /// It is in no output.
    Drop,
    /// It is copied as it is.
    Keep,
}

/// Merges runs into one, a bounded number of entries at a time.
#[derive(Debug)]
pub(crate) struct RunMerge {
    cursor: MergeCursor,
    is_placed: bool,
    state: State,
    hashes: Vec<u64>,
    /// The key handled last: the same in an older run is not looked at.
    last_key: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Entries(RunWriter),
    Tail(RunTail),
    Done,
}

impl RunMerge {
    /// A merge of `runs` into run `number`.
    pub(crate) fn new(number: u32, runs: &[&Run]) -> Self {
        let hashes = runs.iter().map(|run| run.hash_count()).sum();
        Self {
            cursor: MergeCursor::default(),
            is_placed: false,
            state: State::Entries(RunWriter::new(number, hashes)),
            hashes: Vec::new(),
            last_key: Vec::new(),
        }
    }

    /// Handles up to `entries` entries, or that many of the blocks that end a run; `true` when all is written.
    ///
    /// Blocks go to `out` in the order of the file; none at all means that nothing survived. `judge` sees each entry
    /// of the common order once, the newest source first among equal keys.
    ///
    /// REQUIRES: `runs` are those of `new`, newest first.
    ///
    /// # Errors
    /// Those of the blocks; then the step can be repeated.
    pub(crate) fn step(
        &mut self,
        runs: &[&Run],
        blocks: &mut dyn BlockSource,
        entries: usize,
        judge: &mut Judge<'_>,
        out: &mut dyn FnMut(IoBuf),
    ) -> Result<bool, RunError> {
        let sources: Vec<_> = runs.iter().map(|run| Source::Run(run)).collect();
        if !self.is_placed {
            self.cursor.seek(&sources, &[], blocks)?;
            self.is_placed = true;
        }
        for _ in 0..entries {
            match &mut self.state {
                State::Entries(writer) => {
                    if let Some(found) = self.cursor.entry() {
                        // A step that stalled below, and an older run, show the same key again.
                        if found.key != self.last_key {
                            take_entry(writer, &found, &mut self.hashes, judge, out);
                            self.last_key.clear();
                            self.last_key.extend_from_slice(found.key);
                        }
                        self.cursor.advance(&sources, blocks)?;
                    } else if let State::Entries(writer) = core::mem::replace(&mut self.state, State::Done) {
                        self.state = writer.finish().map_or(State::Done, State::Tail);
                    }
                }
                State::Tail(tail) => match tail.next() {
                    Some(block) => out(block),
                    None => self.state = State::Done,
                },
                State::Done => break,
            }
        }
        Ok(matches!(self.state, State::Done))
    }
}

fn take_entry(
    writer: &mut RunWriter,
    found: &Found<'_>,
    hashes: &mut Vec<u64>,
    judge: &mut Judge<'_>,
    out: &mut dyn FnMut(IoBuf),
) {
    let Value::Payload(payload) = found.value else {
        unreachable!("all sources are runs");
    };
    hashes.clear();
    match judge(found.key, payload, hashes) {
        Verdict::Drop => {}
        Verdict::Keep => {
            if let Some(block) = writer.push(found.key, payload, hashes) {
                out(block);
            }
        }
    }
}
