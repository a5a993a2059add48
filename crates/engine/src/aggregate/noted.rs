//! Gifts that come while a merge is under way that has passed their objects.
//!
//! What a merge leaves out is known to it by whom it was charged to when it passed, summed up over all objects. So of an object
//! that is given afterwards it notes by which gifts it went, and which came. What it has left out of that is what the old runs
//! have and the new one has not: it looks that up once the new run is there, in steps as its others.
//!
//! Invariants: what a merge has left out of an object all goes by the gifts of one moment, of which the note tells; the merge
//! ends with no note left.

use super::Merge;
use crate::gifts::Gifts;
use crate::runs::{Run, RunCursor, Step};
use crate::store::Store;
use crate::target::Target;
use crate::tree::key::{FlatKey, OBJECT_PREFIX_BYTES, split_typed};
use dolmen_codec::bytes::Reader;
use dolmen_codec::version::Version;
use dolmen_types::{ContNo, Error, Oid, Stamp};
use std::collections::BTreeMap;
use std::ops::Range;

/// What a note takes, with its place in a tree that is half full.
const NOTE_BYTES: u64 = 2 * size_of::<((ContNo, Oid), Note)>() as u64;
/// Notes take at most this part of the memory budget: some 200,000 of them for a GiB.
const NOTES_PARTS: u64 = 16;

/// The gifts of an object by which a merge went when it passed that, and those with what came since.
struct Note {
    before: Gifts,
    now: Gifts,
    is_given: bool,
}

/// What a merge has noted and not yet looked up.
#[derive(Default)]
pub(super) struct Notes(BTreeMap<(ContNo, Oid), Note>);

impl Notes {
    /// Memory, in bytes.
    pub(super) fn resident_bytes(&self) -> u64 {
        self.0.len() as u64 * NOTE_BYTES
    }
}

impl Merge {
    /// Whether it has judged entries of the object with this prefix.
    fn has_passed(&self, object_prefix: &[u8]) -> bool {
        !self.group.key.is_empty() && object_prefix <= &self.group.key[..]
    }

    /// An object that it has passed may be given soon; these are its gifts until then.
    fn note(&mut self, of: (ContNo, Oid), object_prefix: &[u8], before: Gifts) {
        if self.group.key.starts_with(object_prefix) {
            // It is in the midst of it, and the rest is to go by the same.
            self.group.gifts = Some(before.clone());
        }
        self.noted.0.insert(of, Note { now: before.clone(), before, is_given: false });
    }

    /// An object was given, which bases of so many freezes or more have.
    ///
    /// REQUIRES: `note_gifts` was told before.
    pub(crate) fn note_given(
        &mut self,
        of: (ContNo, Oid),
        object_prefix: &[u8],
        (since, stamp, cred): (u64, Stamp, u32),
    ) {
        match self.noted.0.get_mut(&of) {
            Some(note) => {
                note.now.push(since, stamp, cred);
                note.is_given = true;
            }
            None => assert!(!self.has_passed(object_prefix), "a gift is noted before it is logged"),
        }
    }
}

impl Target {
    /// Has a merge under way note which gifts it went by of objects that it has passed and that are about to be given. If that is
    /// not known, or it has noted as many as it may, it is brought to its end first; one that fails is given up, which is as good.
    pub(crate) fn note_gifts(&mut self, cont: ContNo, gifts: impl IntoIterator<Item = Oid>) {
        let bytes_max = self.config.memory_budget_bytes / NOTES_PARTS;
        let mut key = FlatKey::default();
        for oid in gifts {
            let prefix = key.object(cont, oid).as_bytes();
            let Some(merge) = &mut self.checkpoint.merge else { return };
            if !merge.has_passed(prefix) || merge.noted.0.contains_key(&(cont, oid)) {
                continue;
            }
            let has_room = merge.noted.resident_bytes() + NOTE_BYTES <= bytes_max;
            match self.store.gifts(cont, oid) {
                Ok(before) if has_room => merge.note((cont, oid), prefix, before),
                _ => {
                    // Ignored: whoever needs the merge begins it anew, and is told.
                    let _ended = self.run_to_end(Self::merge_step);
                }
            }
        }
    }

    /// A bounded part of what is to be looked up of gifts that a merge has noted, once its run is written; done if there are none.
    pub(super) fn settle_notes(&mut self, merge: &mut Merge) -> Result<Step, Error> {
        let mut walked = 0;
        while walked < self.checkpoint.step_entries
            && let Some(((cont, oid), note)) = merge.noted.0.pop_first()
        {
            if !note.is_given {
                continue;
            }
            merge.finish_run()?;
            let (runs, merged, drops) = (merge.runs.clone(), merge.merged.as_ref(), &mut merge.drops);
            walked += self.store.each_left_out((runs, merged), (cont, oid), |stamp, version| {
                let (before, now) = (&note.before, &note.now);
                let payers = (before.payers(stamp, version.cred), now.payers(stamp, version.cred));
                drops.give(cont, payers, version.charge());
            })?;
        }
        Ok(if merge.noted.0.is_empty() { Step::Done } else { Step::More })
    }
}

impl Store {
    /// Does something with each version of an object that these runs have and the one merged of them has not; returns how many
    /// entries it has seen.
    fn each_left_out(
        &mut self,
        (runs, merged): (Range<usize>, Option<&Run>),
        (cont, oid): (ContNo, Oid),
        mut act: impl FnMut(Stamp, &Version<'_>),
    ) -> Result<usize, Error> {
        let mut key = FlatKey::default();
        let prefix = key.object(cont, oid).as_bytes();
        debug_assert_eq!(prefix.len(), OBJECT_PREFIX_BYTES);
        let blocks = &mut self.blocks.source(&mut *self.disks.meta);
        let runs = &self.index.runs[runs];
        let mut old = Vec::with_capacity(runs.len());
        for run in runs {
            let mut cursor = RunCursor::default();
            cursor.seek(run, prefix, blocks)?;
            old.push(cursor);
        }
        let mut new = RunCursor::default();
        merged.map_or(Ok(()), |run| new.seek(run, prefix, blocks))?;
        let (mut seen, mut key) = (0, Vec::new());
        while let Some((first, payload)) = old.iter().filter_map(RunCursor::entry).min_by_key(|entry| entry.0)
            && first.starts_with(prefix)
        {
            first.clone_into(&mut key);
            if new.entry().is_some_and(|kept| kept.0 == first) {
                merged.map_or(Ok(()), |run| new.advance(run, blocks))?;
            } else {
                let parts = split_typed(first).zip(Version::decode(&mut Reader::new(payload)));
                let (parts, version) = parts.expect("it was one when it passed");
                act(parts.stamp, &version);
            }
            for (cursor, run) in old.iter_mut().zip(runs) {
                if cursor.entry().is_some_and(|entry| entry.0 == key) {
                    cursor.advance(run, blocks)?;
                }
            }
            seen += 1;
        }
        Ok(seen)
    }
}
