//! Aggregation: merges runs, and on the way drops what no reader can see.
//!
//! A version is dropped when it is not above the container's horizon and no kept epoch (a snapshot, the horizon, a state
//! that a rollback above it returns to) sees it. Rollbacks below it are forgotten with the last of what they hide.
//! Punches, removals and holes go when, in a merge of all that there is at or below the horizon, no kept epoch is older
//! than they are: then everything they hide goes with them.
//! What a delta or a run beside the merge holds may be older than they are, by a transaction that was decided late.
//!
//! Invariants: a merge never reads values but those it moves; what it drops is reused only after the manifest
//! without it is durable; usage, live bytes and bitmaps of the manifest's base change with the runs. A merge that
//! fails changes nothing. A run with a damaged block stays as it is, and merges go on without it: nothing is dropped
//! that an older run could show again, since only a merge with the oldest run that has something of a container
//! drops what hides there.

use crate::checkpoint::RUNS_LIMIT;
use crate::choice::{due_range, emptiest};
use crate::conts::{Cont, View};
use crate::drops::Drops;
use crate::gifts::{Gifts, Payers};
use crate::join::JoinRule;
use crate::log::LogPlace;
use crate::numbered::Numbered;
use crate::path::Path;
use crate::runs::{MergedRuns, Run, RunBuild, Step};
use crate::store::{Extent, Store, record_of, resolve};
use crate::target::Target;
use crate::tree::key::{
    KeyParts, OBJECT_PREFIX_BYTES, STAMP_BYTES, TAIL_BYTES, common_prefix_len, split_typed,
};
use core::cmp::Ordering;
use dolmen_codec::bytes::Reader;
use dolmen_codec::log_body::{WriteHead, logged_bytes_of};
use dolmen_codec::log_frame::{LOG_FRAME_ALIGN, LOG_FRAME_HEADER_BYTES, LogKind};
use dolmen_codec::verb::Reply;
use dolmen_codec::version::{ValuePlace, Version, VersionKind};
use dolmen_types::{ContNo, Epoch, Error, Stamp};
use std::collections::BTreeSet;
use std::ops::Range;

mod asked;
mod noted;

pub(crate) use asked::{Asked, Ended};

/// Extents of one array that are resolved at once, at most and at least; a larger array is copied as it is.
const GROUP_EXTENTS_MAX: u64 = 1 << 16;
const GROUP_EXTENTS_MIN: u64 = 1 << 10;
/// What an extent takes while its array is resolved, with a sixteenth of the memory budget for all.
const GROUP_EXTENT_BYTES: u64 = 16 * 256;
/// What nobody refers to may be such a part of the segments outside the log.
const GARBAGE_PARTS: u64 = 5;
/// The same while writers write and there is room for it: what they overwrite empties most segments by itself, and to
/// move the rest of a segment costs as much as to write it.
const GARBAGE_PARTS_LOADED: u64 = 2;
/// Values that are brought near before they are moved.
const VALUES_AHEAD: usize = 16;
/// Values are moved in frames of about this size: what one step moves shares a header.
const MOVE_BYTES: usize = 64 << 10;

/// A merge under way.
pub(crate) struct Merge {
    runs: Range<usize>,
    is_bottom: bool,
    /// The runs hold everything that was logged before this sequence number; 0 if there are others.
    holds_before: u64,
    /// Of this container alone; of all if none is named.
    holds_of: Option<ContNo>,
    build: RunBuild,
    /// What was built, once somebody has looked into it.
    merged: Option<Run>,
    /// Gifts of objects that it has passed.
    noted: noted::Notes,
    /// Where it stands in the runs, once it has begun.
    entries: Option<MergedRuns>,
    has_all_entries: bool,
    /// Log segments whose values are moved away, so that they become free.
    sparse: Numbered<()>,
    /// More garbage stays than would if no writers wrote.
    is_loose: bool,
    /// Values on their way to the log: the frame that will follow its last one, with room for its header in front.
    moving: Vec<u8>,
    /// What is counted of them.
    moving_bytes: u64,
    /// Where the short ways to them are going to lead: hash, from, to.
    moving_hot: Vec<(u64, LogPlace, LogPlace)>,
    /// Frames with moved values, and with what may hide what is dropped, have smaller sequence numbers.
    durable_until: u64,
    /// Of the container whose entries are passing: they come one container after the other.
    rule: Option<(ContNo, Box<Rule>)>,
    /// Containers of which nothing is left that rollbacks up to an epoch hide: then these are forgotten.
    outlived: Vec<(ContNo, Epoch)>,
    group: Group,
    drops: Drops,
    freed: u64,
    /// Extents were joined: what they hide now is for the next merge.
    has_joined: bool,
    /// What the target had seen of changes when it began.
    changes: u64,
}

/// What may be dropped of a container.
struct Rule {
    horizon: Epoch,
    kept: Vec<Epoch>,
    /// What each of them sees, if the container was rolled back.
    views: Vec<View>,
    is_plain: bool,
    is_destroyed: bool,
    /// Whether the merge has everything at or below the horizon, so that what hides may go with what it hides.
    is_whole: bool,
    /// Up to which epoch rollbacks may be forgotten with what the merge drops.
    outlived: Option<Epoch>,
}

impl Rule {
    /// Whether a kept epoch sees what was written at `epoch` and is hidden from `until` on.
    fn sees(&self, epoch: Epoch, until: Option<Epoch>) -> bool {
        let first = self.kept.partition_point(|&kept| kept < epoch);
        self.kept.get(first).is_some_and(|&kept| until.is_none_or(|until| kept < until))
    }
}

/// Versions that some kept epoch sees: kind, first record, stamp.
type Needed = BTreeSet<(u8, u64, Stamp)>;

/// What a merge learns of an array as a whole; nothing if there is too much to tell.
#[derive(Default)]
struct Resolved {
    needed: Option<Needed>,
    joinable: Vec<Vec<Extent>>,
}

/// An entry that passes: what a run has of it, and what that means.
struct Passing<'a> {
    key: &'a [u8],
    parts: KeyParts<'a>,
    payload: &'a [u8],
    version: Version<'a>,
}

impl<'a> Passing<'a> {
    /// `None` if it is not what a run holds.
    fn of(key: &'a [u8], payload: &'a [u8]) -> Option<Self> {
        let parts = split_typed(key)?;
        let version = Version::decode(&mut Reader::new(payload))?;
        // Only a punch belongs to an object or a dkey itself, and a gift to an object.
        let is_gift = version.is_gift() && parts.dkey.is_none();
        let has_its_keys = version.kind == VersionKind::Punch || parts.akey.is_some() || is_gift;
        has_its_keys.then_some(Self { key, parts, payload, version })
    }

    fn prefix(&self) -> &'a [u8] {
        &self.key[..self.parts.prefix_bytes()]
    }

    /// How much of the key older versions of the same single value, or of the same record by itself, have in common
    /// with it.
    fn name_len(&self) -> usize {
        if self.version.kind == VersionKind::Array1 {
            self.key.len() - STAMP_BYTES
        } else {
            self.parts.prefix_bytes()
        }
    }
}

/// What the entries just passed say of those that follow.
///
/// Invariants: what is said of a key that an entry begins with is forgotten at the first entry that does not; keys
/// ascend, so none that comes later does.
#[derive(Default)]
struct Group {
    /// The key handled last, and how much of it is that of its dkey and its akey, from the container on; 0 if it has
    /// none.
    key: Vec<u8>,
    dkey_len: usize,
    akey_len: usize,
    punches: [Vec<Stamp>; 3],
    /// The version just before of a single value, or of a record by itself: how much of the key names it, and its
    /// epoch.
    newer: Option<(usize, Epoch)>,
    /// Whether the present array has nothing but records by themselves, if that was asked.
    is_of_ones: Option<bool>,
    /// Its last record that stayed, and how many before it lie side by side and were written one after another.
    last: Option<(u64, Stamp, u32)>,
    /// Needed versions of the present array; `None` if all are.
    needed: Option<Needed>,
    needed_for: Vec<u8>,
    /// The gifts of the present object, once somebody has asked.
    gifts: Option<Gifts>,
    /// The newest gift of the present object, if it is needed only for what stays of that, and nothing did yet: key and payload.
    held: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether a gift of the present object was passed.
    has_gift: bool,
}

impl Target {
    /// One step of the aggregation that a caller asked for, or of that of another container which is under way.
    ///
    /// # Errors
    /// Those of checkpoint and merge; whoever asks again begins anew.
    pub(crate) fn aggregate_step(&mut self, cont: ContNo, upto: Epoch) -> Result<Reply, Error> {
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        let ended = self.checkpoint.ended.iter().position(|ended| ended.cont == cont);
        let ended = ended.map(|at| self.checkpoint.ended.swap_remove(at));
        if let Some(ended) = ended.filter(|ended| ended.upto >= upto) {
            return Ok(Reply::Aggregated { more: false, freed: ended.freed });
        }
        let before = self.checkpoint.asked.as_ref().map(|asked| (asked.cont, asked.upto));
        let Some((other, reach)) = before.filter(|(other, _)| *other != cont) else {
            return self.aggregate_or_give_up(cont, upto);
        };
        // One at a time: callers that took it from each other would begin for ever. Its own caller, who begins anew, is
        // told what is wrong with it.
        if let Ok(Reply::Aggregated { more: false, freed }) = self.aggregate_or_give_up(other, reach) {
            self.checkpoint.ended.push(Ended { cont: other, upto: reach, freed });
        }
        Ok(Reply::Aggregated { more: true, freed: 0 })
    }

    /// REQUIRES: none of another container is under way.
    fn aggregate_or_give_up(&mut self, cont: ContNo, upto: Epoch) -> Result<Reply, Error> {
        let stepped = self.aggregate_part(cont, upto);
        if stepped.is_err() {
            self.checkpoint.asked = None;
        }
        stepped
    }

    fn aggregate_part(&mut self, cont: ContNo, upto: Epoch) -> Result<Reply, Error> {
        let more = Reply::Aggregated { more: true, freed: 0 };
        self.poll_background(false);
        // One that found no room is left for later; one that failed otherwise says so again.
        if self.checkpoint.is_working() && !self.checkpoint.lacks_room() {
            return match self.checkpoint_step() {
                // What the runs have may be freed all the same, and then there may be room for the delta.
                Ok(_) | Err(Error::NoSpace { .. }) => Ok(more),
                Err(error) => Err(error),
            };
        }
        if self.checkpoint.merge.is_some() && self.merge_step()? != Step::Done {
            return Ok(more);
        }
        let changes = self.checkpoint.changes;
        let asks_for_more = self.asks_for_more(cont, upto);
        let asked = self.checkpoint.asked.as_mut();
        if asks_for_more || asked.is_some_and(|asked| asked.begin_round(changes)) {
            self.begin_checkpoint_unless_stalled()?;
            return Ok(more);
        }
        match self.checkpoint.asked {
            Some(Asked { is_complete: true, freed, .. }) => Ok(self.end_asked(freed)),
            Some(_) => {
                if self.begin_owed_checkpoint(cont)? {
                    Ok(more)
                } else {
                    self.merge_asked(cont)
                }
            }
            None => {
                // From now on nothing comes below the horizon that a punch it drops would have hidden.
                self.raise_aggregated(cont, self.horizon(upto));
                self.checkpoint.asked = Some(Asked::new(cont, upto, self.checkpoint.changes));
                self.begin_checkpoint_unless_stalled()?;
                Ok(more)
            }
        }
    }

    /// Whether an aggregation is under way that reaches less far than this caller asks for: it then begins anew, up to
    /// there, and ends for both.
    fn asks_for_more(&mut self, cont: ContNo, upto: Epoch) -> bool {
        let horizon = self.horizon(upto);
        let reached = self.conts.any(cont).map_or(horizon, |known| known.state.aggregated);
        let changes = self.checkpoint.changes;
        let asked = self.checkpoint.asked.as_mut().filter(|asked| asked.upto < upto);
        let Some(asked) = asked else { return false };
        asked.upto = upto;
        let rises = horizon > reached;
        if rises {
            *asked = Asked { freed: asked.freed, ..Asked::new(cont, upto, changes) };
            self.raise_aggregated(cont, horizon);
        }
        rises
    }

    /// Begins the merge of an aggregation of `cont` that a caller asked for.
    fn merge_asked(&mut self, cont: ContNo) -> Result<Reply, Error> {
        let is_settled = self.checkpoint.is_settled(cont);
        let runs = if is_settled { 0..0 } else { self.runs_to_aggregate(cont)? };
        if runs.is_empty() {
            return Ok(self.end_asked(0));
        }
        if let Some(asked) = &mut self.checkpoint.asked {
            asked.is_merging = true;
        }
        self.begin_merge_for(cont, runs);
        Ok(Reply::Aggregated { more: true, freed: 0 })
    }

    /// Ends an aggregation that a caller asked for.
    fn end_asked(&mut self, freed: u64) -> Reply {
        if let Some(asked) = self.checkpoint.asked.take() {
            self.give_back_spares(asked.cont);
        }
        Reply::Aggregated { more: false, freed }
    }

    /// Begins a checkpoint of what the last one left in the delta at or below the horizon; `false` if there is no
    /// need or no room for it.
    fn begin_owed_checkpoint(&mut self, cont: ContNo) -> Result<bool, Error> {
        let before = self.conts.any(cont).map_or(0, |known| known.aggregated_before);
        if self.checkpoint.is_working() || before <= self.checkpoint.base.log_start.sequence {
            return Ok(false);
        }
        match self.begin_checkpoint() {
            Ok(()) => Ok(true),
            Err(Error::NoSpace { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn raise_aggregated(&mut self, cont: ContNo, horizon: Epoch) {
        let index = &self.store.index;
        let is_delta_empty = index.delta.is_empty() && index.frozen.is_none();
        let start = self.checkpoint.base.log_start.sequence;
        let before = if is_delta_empty { start } else { self.store.log.next_sequence() };
        if let Ok(known) = self.conts.find_mut(cont) {
            known.state.aggregated = known.state.aggregated.max(horizon);
            known.aggregated_before = known.aggregated_before.max(before);
        }
        self.checkpoint.raise_aggregated(cont, horizon);
    }

    /// The newest runs of like size, if enough have gathered, or all if a destroyed container waits to be freed;
    /// never a damaged one.
    pub(crate) fn due_merge(&self) -> Option<Range<usize>> {
        let runs = &self.store.index.runs;
        let intact = self.intact_runs();
        let mut conts = self.checkpoint.base.conts.iter();
        let waits = conts.any(|cont| cont.destroyed && !self.txs.is_in_doubt(cont.no));
        let all = 0..runs.len();
        if waits && intact == [all.clone()] {
            return Some(all);
        }
        let sizes: Vec<u64> = runs.iter().map(Run::file_bytes).collect();
        due_range(&sizes, &intact)
    }

    /// The runs between which no block is known to be damaged, newest first.
    pub(crate) fn intact_runs(&self) -> Vec<Range<usize>> {
        let mut intact: Vec<Range<usize>> = Vec::new();
        for (at, run) in self.store.index.runs.iter().enumerate() {
            if self.scrub.is_run_damaged(run.number()) {
                continue;
            }
            match intact.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => intact.push(at..at + 1),
            }
        }
        intact
    }

    pub(crate) fn are_runs_intact(&self) -> bool {
        !self.store.index.runs.iter().any(|run| self.scrub.is_run_damaged(run.number()))
    }

    /// Whether a merge has to make runs fewer before a checkpoint adds one. Damaged runs do not count: no merge
    /// can take them.
    pub(crate) fn is_crowded(&self) -> bool {
        self.store.index.runs.len() >= RUNS_LIMIT
            && self.intact_runs().iter().map(ExactSizeIterator::len).sum::<usize>() >= RUNS_LIMIT
            && self.due_merge().is_some()
    }

    /// Begins a merge of these runs, the newest ones, which have all of a container that runs have.
    fn begin_merge_for(&mut self, cont: ContNo, runs: Range<usize>) {
        self.begin_merge(runs);
        let before = self.checkpoint.base.log_start.sequence;
        if let Some(merge) = self.checkpoint.merge.as_mut().filter(|merge| !merge.is_bottom) {
            (merge.holds_before, merge.holds_of) = (before, Some(cont));
        }
    }

    /// Begins a merge of these runs.
    pub(crate) fn begin_merge(&mut self, runs: Range<usize>) {
        let is_bottom = runs.end == self.store.index.runs.len();
        let are_all = is_bottom && runs.start == 0;
        let holds_before = if are_all { self.checkpoint.base.log_start.sequence } else { 0 };
        let hashes = self.store.index.runs[runs.clone()].iter().map(Run::hashes).sum();
        let build = self.begin_run(hashes);
        let (sparse, is_loose) = if is_bottom { self.sparse_segments() } else { Default::default() };
        self.checkpoint.merge = Some(Merge {
            runs,
            is_bottom,
            holds_before,
            holds_of: None,
            build,
            merged: None,
            noted: noted::Notes::default(),
            entries: None,
            has_all_entries: false,
            sparse,
            is_loose,
            moving: vec![0; LOG_FRAME_HEADER_BYTES],
            moving_bytes: 0,
            moving_hot: Vec::new(),
            // What hides what is dropped must be durable first.
            durable_until: self.store.log.next_sequence(),
            rule: None,
            outlived: Vec::new(),
            group: Group::default(),
            drops: Drops::default(),
            freed: 0,
            has_joined: false,
            changes: self.checkpoint.changes,
        });
    }

    /// Segments outside the log whose values are to move, so that each is freed whole: the emptiest first, until
    /// what nobody refers to is no more than its part of all that is left, and as many as there is room for what is
    /// moved out of them. Whether more garbage stays than would if no writers wrote.
    pub(crate) fn sparse_segments(&self) -> (Numbered<()>, bool) {
        let segments = self.movable_segments();
        let segment_bytes = self.store.log.segment_bytes();
        let room = self.room_to_move();
        let has_room = room >= segments.len() as u64 * segment_bytes / GARBAGE_PARTS_LOADED;
        let is_loose = has_room && self.is_loaded();
        let parts = if is_loose { GARBAGE_PARTS_LOADED } else { GARBAGE_PARTS };
        let mut sparse = Numbered::default();
        for number in emptiest(segments, segment_bytes, parts, room) {
            sparse.insert(number, ());
        }
        (sparse, is_loose)
    }

    /// Whether values would be moved even while writers write.
    pub(crate) fn has_much_garbage(&self) -> bool {
        let segment_bytes = self.store.log.segment_bytes();
        let segments = self.movable_segments();
        !emptiest(segments, segment_bytes, GARBAGE_PARTS_LOADED, self.room_to_move()).is_empty()
    }

    /// Live bytes and numbers of the segments outside the log.
    fn movable_segments(&self) -> Vec<(u64, u32)> {
        let start = self.checkpoint.base.log_start;
        let segments = self.store.log.segments.iter().filter(|(number, segment)| {
            **number != start.segment && segment.first_sequence < start.sequence && segment.live_bytes > 0
        });
        segments.map(|(&number, segment)| (segment.live_bytes, number)).collect()
    }

    /// What values may be moved into: a frame that does not fit the rest of a segment leaves that unused.
    fn room_to_move(&self) -> u64 {
        self.log_room() / 10 * 9
    }

    /// Whether writers write while merges run: something has changed since an aggregation was asked for, or, if none
    /// was, since the last merge ended.
    fn is_loaded(&self) -> bool {
        let asked = self.checkpoint.asked.as_ref().filter(|asked| asked.is_merging);
        let before = asked.map_or(self.checkpoint.changes_merged, |asked| asked.changes);
        before != self.checkpoint.changes && !self.checkpoint.is_reclaiming
    }

    /// One bounded step of a merge.
    ///
    /// # Errors
    /// Those of the device, and `Corrupt`. The merge is given up then, and nothing has changed; what is damaged is
    /// left out of the next one.
    pub(crate) fn merge_step(&mut self) -> Result<Step, Error> {
        let Some(mut merge) = self.checkpoint.merge.take() else {
            return Ok(Step::Done);
        };
        let result = match self.merge_part(&mut merge) {
            Ok(Step::Done) => self.commit_merge(&mut merge).map(|()| Step::Done),
            other => other,
        };
        match result {
            Ok(Step::Done) => {}
            Ok(Step::More | Step::Waiting) => self.checkpoint.merge = Some(merge),
            Err(ref error) => {
                self.note_damaged_runs(&merge.runs, error);
                self.give_up_merge(merge);
            }
        }
        result
    }

    /// As `merge_step`; a merge that met damage is done, since the next one is of other runs.
    pub(crate) fn merge_intact_step(&mut self) -> Result<Step, Error> {
        match self.merge_step() {
            Err(Error::Corrupt { .. }) => Ok(Step::Done),
            other => other,
        }
    }

    /// Remembers which of these runs is damaged: all, if that cannot be told, so that no merge begins anew for
    /// ever.
    fn note_damaged_runs(&mut self, runs: &Range<usize>, error: &Error) {
        if !matches!(error, Error::Corrupt { .. }) {
            return;
        }
        self.scrub.note_block(error);
        let runs = &self.store.index.runs[runs.clone()];
        if !runs.iter().any(|run| self.scrub.is_run_damaged(run.number())) {
            runs.iter().for_each(|run| self.scrub.note_run(run.number()));
        }
    }

    fn give_up_merge(&mut self, merge: Merge) {
        // A superblock that may be there after all may lead to it.
        if let Some(run) = merge.merged.filter(|_| !self.read_only) {
            // Ignored: a run that no manifest names is removed by the next open.
            let _removed = self.store.remove_run(run);
        }
        merge.build.discard(&mut *self.store.disks.meta);
        if merge.drops.moved.len() > 0 {
            // Short ways lead to copies that no run names.
            self.store.hot.clear();
        }
        for (&segment, &bytes) in merge.drops.moved.iter() {
            self.store.log.remove_live(segment, bytes);
        }
        if let Some(asked) = &mut self.checkpoint.asked {
            asked.is_merging = false;
        }
    }

    fn merge_part(&mut self, merge: &mut Merge) -> Result<Step, Error> {
        if !merge.has_all_entries {
            if merge.build.pump(&mut *self.store.disks.meta)? == Step::Waiting {
                return Ok(Step::Waiting);
            }
            self.merge_entries(merge)?;
            self.append_moves(merge);
            return Ok(Step::More);
        }
        match merge.build.complete_step(&mut *self.store.disks.meta)? {
            Step::Done => {}
            step => return Ok(step),
        }
        match self.settle_notes(merge)? {
            Step::Done => self.flush_upto(merge.durable_until),
            step => Ok(step),
        }
    }

    fn merge_entries(&mut self, merge: &mut Merge) -> Result<(), Error> {
        let mut entries = match merge.entries.take() {
            Some(entries) => entries,
            None => self.store.merged(merge.runs.clone())?,
        };
        let mut scratch = Vec::new();
        for _ in 0..self.checkpoint.step_entries {
            let Some((key, payload)) = entries.entry() else {
                break;
            };
            let common = common_prefix_len(key, &merge.group.key);
            match key[common..].first().cmp(&merge.group.key[common..].first()) {
                Ordering::Greater => {
                    if merge.sparse.len() > 0 {
                        let store = &self.store;
                        entries.upcoming(VALUES_AHEAD, &mut scratch, |payload| {
                            store.prefetch_value(&merge.sparse, payload);
                        });
                    }
                    self.merge_entry(merge, (key, common), payload)?;
                }
                // The newer run's comes first and counts.
                Ordering::Equal => {}
                // Only runs that were forged do not ascend.
                Ordering::Less => return Err(crate::error::corrupt(self.config.target, "run", 0, 0)),
            }
            self.store.advance_merged(&mut entries, merge.runs.clone())?;
            if merge.build.is_busy() {
                break;
            }
        }
        if entries.entry().is_none() {
            merge.build.end_entries();
            merge.has_all_entries = true;
        }
        merge.entries = Some(entries);
        Ok(())
    }

    /// Handles an entry of which so much is as in the key before.
    fn merge_entry(
        &mut self,
        merge: &mut Merge,
        (key, common): (&[u8], usize),
        payload: &[u8],
    ) -> Result<(), Error> {
        let target = self.config.target;
        let damaged = || crate::error::corrupt(target, "run", 0, 0);
        let entry = Passing::of(key, payload).ok_or_else(damaged)?;
        let version = &entry.version;
        merge.group.enter((key, common), &entry.parts);
        if version.is_gift() {
            return self.merge_gift(merge, &entry);
        }
        // Asked before the version itself is passed.
        let superseded = merge.group.is_superseded(key, version);
        if self.judge(merge, &entry)? {
            return self.keep(merge, &entry);
        }
        let payers = match self.payers(merge, &entry) {
            // A damaged run beside those that are merged: who knows whose it is.
            Err(Error::Corrupt { .. }) => return self.keep(merge, &entry),
            payers => payers?,
        };
        // Checksums that are right do not make a run ours: what it names must be in use.
        if !self.store.is_in_use(version.place, version.value_bytes) {
            return Err(damaged());
        }
        if !superseded {
            self.forget_hot(&entry.parts, version);
        }
        merge.drops.leave_out(entry.parts.cont, version, payers);
        merge.freed += 1;
        Ok(())
    }

    /// Only the newest gift of an object says anything, and only of what is there.
    fn merge_gift(&mut self, merge: &mut Merge, entry: &Passing<'_>) -> Result<(), Error> {
        let rule = self.take_rule(merge, entry.parts.cont);
        let is_last = rule.is_destroyed || merge.group.has_gift;
        let is_held = rule.is_whole && entry.parts.stamp.epoch <= rule.horizon;
        merge.rule = Some((entry.parts.cont, rule));
        merge.group.has_gift = true;
        if is_last {
            merge.freed += 1;
        } else if is_held {
            merge.group.held = Some((entry.key.to_vec(), entry.payload.to_vec()));
        } else {
            self.keep(merge, entry)?;
        }
        Ok(())
    }

    /// Who is charged for a version that is left out.
    fn payers(&mut self, merge: &mut Merge, entry: &Passing<'_>) -> Result<Payers, Error> {
        let Passing { parts, version, .. } = entry;
        if merge.group.gifts.is_none() {
            merge.group.gifts = Some(self.store.gifts(parts.cont, parts.oid)?);
        }
        Ok(merge.group.gifts.as_ref().expect("just looked up").payers(parts.stamp, version.cred))
    }

    /// The short way must not lead to a version that is dropped: what hid it may be dropped with it.
    fn forget_hot(&mut self, parts: &KeyParts<'_>, version: &Version<'_>) {
        self.each_short_way(parts, version, |store, hash| match record_of(version) {
            Some(place) => store.hot.forget(hash, place),
            None => store.hot.written(hash, None),
        });
    }

    /// Does something with each hash that a short way to a version may have.
    fn each_short_way(
        &mut self,
        parts: &KeyParts<'_>,
        version: &Version<'_>,
        mut act: impl FnMut(&mut Store, u64),
    ) {
        let (Some(dkey), Some(akey)) = (parts.dkey, parts.akey) else {
            return;
        };
        let mut path = self.store.take_path();
        if path.object(parts.cont, dolmen_codec::order::HashKey::default(), parts.oid).is_ok() {
            path.dkey_encoded(dkey);
            path.akey_encoded(akey);
            if matches!(version.kind, VersionKind::Single | VersionKind::Array1) {
                act(&mut self.store, path.hot_hash(version.kind, version.recx.index));
            }
            if version.kind.is_array() {
                act(&mut self.store, path.sole_hash());
            }
        }
        self.store.put_path(path);
    }

    /// Passes an entry on as it is, unless its value moves.
    fn keep(&mut self, merge: &mut Merge, entry: &Passing<'_>) -> Result<(), Error> {
        let Passing { key, parts, payload, version } = entry;
        if let Some((key, payload)) = merge.group.held.take() {
            let held = Passing::of(&key, &payload).expect("it was one when it passed");
            merge.build.push_encoded(&key, &held.parts, &held.version, &payload);
        }
        let moved = match version.place {
            ValuePlace::Log { segment, .. } if merge.sparse.contains_key(&segment) => {
                self.move_value(merge, parts, version, segment)?
            }
            _ => None,
        };
        match moved {
            Some(place) => merge.build.push(key, parts, &Version { place, ..*version }),
            None => merge.build.push_encoded(key, parts, version, payload),
        }
        Ok(())
    }

    /// Takes a value into the frame that `append_moves` will append; its place in the log is known already.
    /// `None` if it stays where it is.
    fn move_value(
        &mut self,
        merge: &mut Merge,
        parts: &KeyParts<'_>,
        version: &Version<'_>,
        from: u32,
    ) -> Result<Option<ValuePlace>, Error> {
        let stored = crate::value::stored(version, version.place);
        let value_bytes = version.value_bytes as usize;
        let Stamp { epoch, minor } = parts.stamp;
        let head = WriteHead::of_nobody(epoch, parts.cont, parts.oid);
        let moved = Version { minor, place: ValuePlace::Inline, ..*version };
        let moved_bytes = head.encoded_bytes() + moved.logged_head_bytes() + value_bytes;
        let start = merge.moving.len().next_multiple_of(LOG_FRAME_ALIGN);
        let body_bytes = start - LOG_FRAME_HEADER_BYTES + moved_bytes;
        if body_bytes > MOVE_BYTES || self.store.log.needs_segment(body_bytes) {
            self.append_moves(merge);
            match self.make_room_to_go_on(moved_bytes) {
                // The rest stays where it is; what this merge frees makes room for the next one.
                Err(Error::NoSpace { .. }) => {
                    merge.sparse = Numbered::default();
                    return Ok(None);
                }
                // No value is that large, whatever a run says.
                Err(Error::RecTooBig { .. }) => return Ok(None),
                other => other?,
            }
        }
        // Anew: what was moving may have been appended.
        let before = merge.moving.len();
        merge.moving.resize(before.next_multiple_of(LOG_FRAME_ALIGN), 0);
        head.encode(&mut merge.moving);
        let record = merge.moving.len();
        moved.encode_logged(&mut merge.moving, head.encoded_bytes());
        let value = merge.moving.len();
        merge.moving.resize(value + value_bytes, 0);
        if self.store.read_value(&stored, 0, &mut merge.moving[value..]).is_err() {
            // A damaged value stays where it is: the scrub reports it, nothing hides it.
            merge.moving.truncate(before);
            return Ok(None);
        }
        let bytes = logged_bytes_of(version);
        *merge.drops.log.entry(from) += bytes;
        merge.moving_bytes += bytes;
        let end = self.store.log.end();
        let place_of = |at: usize| end.offset + u32::try_from(at).expect("limited by the segment");
        let to = LogPlace { segment: end.segment, offset: place_of(record) };
        if let Some(from) = record_of(version) {
            self.each_short_way(parts, version, |_, hash| merge.moving_hot.push((hash, from, to)));
        }
        Ok(Some(ValuePlace::Log { segment: end.segment, offset: place_of(value) }))
    }

    /// Appends the values that are moving. Nothing may be appended to the log since the first was taken.
    fn append_moves(&mut self, merge: &mut Merge) {
        if merge.moving.len() == LOG_FRAME_HEADER_BYTES {
            return;
        }
        let bytes = core::mem::take(&mut merge.moving_bytes);
        let appended = self.store.log.append_frame(LogKind::Moved, &mut merge.moving);
        for (hash, from, to) in merge.moving_hot.drain(..) {
            self.store.hot.moved(hash, from, to);
        }
        self.store.log.add_live(appended.body.segment, bytes);
        *merge.drops.moved.entry(appended.body.segment) += bytes;
        merge.durable_until = self.store.log.next_sequence();
        merge.moving.clear();
        merge.moving.resize(LOG_FRAME_HEADER_BYTES, 0);
    }

    fn rule(&self, cont: ContNo, holds_before: u64) -> Rule {
        match self.conts.any(cont) {
            Some(known) if !known.state.destroyed => {
                let horizon = known.state.aggregated;
                let kept = known.kept_epochs(horizon);
                let is_plain = known.state.rollbacks.is_empty();
                let rolled_back = if is_plain { &[][..] } else { &kept };
                let views = rolled_back.iter().map(|&epoch| known.view(epoch)).collect();
                let is_whole = known.aggregated_before <= holds_before;
                let outlived = if is_whole { known.outlived_rollbacks(&kept, horizon) } else { None };
                Rule { horizon, kept, views, is_plain, is_destroyed: false, is_whole, outlived }
            }
            _ => Rule {
                horizon: Epoch::MAX,
                kept: Vec::new(),
                views: Vec::new(),
                is_plain: true,
                is_destroyed: true,
                is_whole: true,
                outlived: None,
            },
        }
    }

    /// Whether an entry stays.
    fn judge(&mut self, merge: &mut Merge, entry: &Passing<'_>) -> Result<bool, Error> {
        let cont = entry.parts.cont;
        let rule = self.take_rule(merge, cont);
        let verdict = self.judge_by(&rule, merge, entry);
        merge.rule = Some((cont, rule));
        verdict
    }

    /// The rule of a container, which the merge gets back.
    fn take_rule(&self, merge: &mut Merge, cont: ContNo) -> Box<Rule> {
        if let Some((_, rule)) = merge.rule.take().filter(|(of, _)| *of == cont) {
            return rule;
        }
        // What the rule goes by must be durable before what it drops is gone.
        merge.durable_until = self.store.log.next_sequence();
        let has_it = merge.holds_of.is_none_or(|of| of == cont);
        let rule = Box::new(self.rule(cont, if has_it { merge.holds_before } else { 0 }));
        merge.outlived.extend(rule.outlived.map(|upto| (cont, upto)));
        rule
    }

    fn judge_by(&mut self, rule: &Rule, merge: &mut Merge, entry: &Passing<'_>) -> Result<bool, Error> {
        let Passing { parts, version, .. } = entry;
        if rule.is_destroyed {
            return Ok(false);
        }
        let epoch = parts.stamp.epoch;
        let hides = version.kind == VersionKind::Punch || !version.is_data();
        if version.kind == VersionKind::Punch {
            let depth = usize::from(parts.dkey.is_some()) + usize::from(parts.akey.is_some());
            merge.group.punches[depth].push(parts.stamp);
        }
        if epoch > rule.horizon {
            merge.group.pass(entry.name_len(), version.kind, epoch);
            return Ok(true);
        }
        // What rollbacks hide from everybody hides nothing either.
        if !rule.is_plain && !rule.views.iter().any(|view| view.sees(epoch)) {
            return Ok(false);
        }
        if hides && version.kind.is_array() && rule.is_whole && rule.is_plain {
            return self.judge_group(rule, merge, entry);
        }
        if hides {
            let older_reader = rule.kept.first().is_none_or(|&oldest| oldest < epoch);
            merge.group.pass(entry.name_len(), version.kind, epoch);
            return Ok(!rule.is_whole || older_reader || !rule.is_plain);
        }
        if version.kind == VersionKind::Single && rule.is_plain {
            let until = merge.group.hidden_from(entry.name_len(), parts.stamp);
            merge.group.pass(entry.name_len(), version.kind, epoch);
            return Ok(rule.sees(epoch, until));
        }
        if rule.is_plain && self.is_of_ones(merge, entry) {
            let until = merge.group.hidden_from(entry.name_len(), parts.stamp);
            merge.group.pass(entry.name_len(), version.kind, epoch);
            let stays = rule.sees(epoch, until);
            let streak = if stays { merge.group.ascends(version.recx.index, parts.stamp) } else { 0 };
            if streak < self.config.join_extents_min || !self.may_join() {
                return Ok(stays);
            }
            // Written one after another: as a whole they may be joined.
        }
        if rule.is_plain && version.kind.is_array() {
            let until = merge.group.punched_from(parts.stamp);
            if !rule.sees(epoch, until) {
                return Ok(false);
            }
        }
        self.judge_group(rule, merge, entry)
    }

    /// Whether an array has nothing but records that were written one by one, and was not looked at as a whole: then
    /// each of them is like a single value.
    fn is_of_ones(&self, merge: &mut Merge, entry: &Passing<'_>) -> bool {
        let prefix = entry.prefix();
        if entry.version.kind != VersionKind::Array1 || merge.group.needed_for == prefix {
            return false;
        }
        let index = &self.store.index;
        let has_others = || VersionKind::ARRAYS[1..].iter().any(|&kind| index.may_have(prefix, kind));
        *merge.group.is_of_ones.get_or_insert_with(|| !index.may_have_removal(prefix) && !has_others())
    }

    /// Arrays, and everything in a container that was rolled back: what each kept epoch sees decides.
    fn judge_group(&mut self, rule: &Rule, merge: &mut Merge, entry: &Passing<'_>) -> Result<bool, Error> {
        let Passing { parts, version, .. } = entry;
        let prefix = entry.prefix();
        if merge.group.needed_for != prefix {
            let secret = self.conts.find(parts.cont)?.state.spec.hash_key;
            let mut path = Path::default();
            path.object(parts.cont, secret, parts.oid)?;
            path.dkey_encoded(parts.dkey.expect("a value has a dkey"));
            path.akey_encoded(parts.akey.expect("a value has an akey"));
            let views: Vec<View> = {
                let known = self.conts.find(parts.cont)?;
                rule.kept.iter().map(|&kept| known.view(kept)).collect()
            };
            let share = self.config.memory_budget_bytes / GROUP_EXTENT_BYTES;
            let extents_max = share.clamp(GROUP_EXTENTS_MIN, GROUP_EXTENTS_MAX);
            let join = JoinRule::new(self.config.join_extents_min, self.config.log_segment_bytes);
            let kept = if rule.is_plain && self.may_join() { &rule.kept[..] } else { &[] };
            let resolved = match self.store.needed_versions(&mut path, &views, extents_max, (kept, join)) {
                // A damaged run beside those that are merged: who knows what it needs.
                Err(Error::Corrupt { .. }) => Resolved::default(),
                resolved => resolved?,
            };
            merge.group.needed = resolved.needed;
            prefix.clone_into(&mut merge.group.needed_for);
            if !resolved.joinable.is_empty() {
                self.append_moves(merge);
                self.join(parts.cont, parts.oid, &resolved.joinable)?;
                merge.has_joined = true;
            }
        }
        let offset = version.recx.index;
        let named = (version.kind as u8, offset, parts.stamp);
        Ok(merge.group.needed.as_ref().is_none_or(|needed| needed.contains(&named)))
    }

    /// Names the merged run in a manifest.
    fn commit_merge(&mut self, merge: &mut Merge) -> Result<(), Error> {
        merge.finish_run()?;
        let (runs, drops) = (merge.runs.clone(), &merge.drops);
        let gone = if merge.is_bottom && self.are_runs_intact() { self.forgettable() } else { Vec::new() };
        if !self.checkpoint.base.covers(drops) {
            return Err(crate::error::corrupt(self.config.target, "run", 0, 0));
        }
        let mut base = self.checkpoint.base.clone();
        base.apply(drops);
        base.conts.retain(|cont| !gone.contains(&cont.no));
        for &(no, upto) in &merge.outlived {
            base.conts
                .iter_mut()
                .filter(|cont| cont.no == no)
                .for_each(|cont| Cont::forget_rollbacks(cont, upto));
        }
        let present = &self.store.index.runs;
        let (newer, older) = (&present[..runs.start], &present[runs.end..]);
        let infos = newer.iter().chain(&merge.merged).chain(older).map(Run::info).collect();
        self.write_manifest_of(&base, infos, false)?;
        self.checkpoint.base = base;
        self.checkpoint.merged(drops, &gone, merge.freed, merge.leaves_more());
        gone.iter().for_each(|&no| self.conts.forget(no));
        if !merge.outlived.is_empty() {
            // From now on short ways are taken again, also to what the rollbacks have hidden.
            self.store.hot.clear();
        }
        for &(no, upto) in &merge.outlived {
            self.conts.any_mut(no).into_iter().for_each(|cont| Cont::forget_rollbacks(&mut cont.state, upto));
        }
        let old: Vec<_> = self.store.index.runs.splice(runs, merge.merged.take()).collect();
        self.checkpoint.done.merges += 1;
        self.settle_after(merge);
        self.release_dropped(drops);
        let start = self.checkpoint.base.log_start;
        for run in old {
            self.scrub.forget_run(run.number());
            // Ignored: as above.
            let _removed = self.store.remove_run(run);
        }
        // Ignored: a segment that cannot be removed is in nobody's way, and the next open finds it free.
        let _released = self.store.log.release_before(&mut *self.store.disks.meta, start);
        Ok(())
    }

    /// Remembers that a merge of everything found nothing to do in the container that was asked about.
    fn settle_after(&mut self, merge: &Merge) {
        let is_idle =
            !merge.is_loose && merge.freed == 0 && merge.drops.moved.len() == 0 && !merge.leaves_more();
        if let Some(asked) = &self.checkpoint.asked
            && asked.is_merging
            && is_idle
            && let Some(known) = self.conts.any(asked.cont)
            && known.state.aggregated >= self.checkpoint.newest_write
            // One that reaches above a rollback finds what that has hidden.
            && known.state.rollbacks.iter().all(|&(_, at)| at < known.state.aggregated)
        {
            self.checkpoint.settle(asked.cont, merge.changes);
        }
    }

    fn release_dropped(&mut self, drops: &Drops) {
        for (&no, gone) in &drops.usage {
            if let Some(known) = self.conts.any_mut(no) {
                crate::drops::subtract(&mut known.state.usage, gone);
            }
        }
        for ((no, cred), gone) in drops.charges_at(u64::MAX) {
            self.uncharge(no, cred, gone);
        }
        for (&segment, &bytes) in drops.log.iter() {
            self.store.log.remove_live(segment, bytes);
        }
        for (&segment, units) in drops.bulk.iter() {
            self.store.bulk.release_units(segment, units);
        }
        self.store.bulk.remove_empty(self.store.disks.bulk());
    }

    /// Destroyed containers of which nothing is left once all runs are merged and none is damaged: the delta has
    /// nothing of them, and no decision may bring anything.
    fn forgettable(&self) -> Vec<ContNo> {
        let destroyed = self.checkpoint.base.conts.iter().filter(|cont| cont.destroyed).map(|cont| cont.no);
        let index = &self.store.index;
        let in_delta = |no: &ContNo| {
            let mut key = crate::tree::key::FlatKey::default();
            let prefix = key.container(*no).as_bytes();
            let mut cursor = crate::tree::Cursor::default();
            core::iter::once(&index.delta).chain(&index.frozen).any(|delta| {
                delta.seek(&mut cursor, prefix);
                cursor.entry().is_some_and(|(key, _)| key.starts_with(prefix))
            })
        };
        destroyed.filter(|no| !in_delta(no) && !self.txs.is_in_doubt(*no)).collect()
    }
}

impl Merge {
    /// A checkpoint has put a newer run in front.
    pub(crate) fn run_inserted(&mut self) {
        self.runs = self.runs.start + 1..self.runs.end + 1;
    }

    /// The run that was built, to be looked into; nothing if there was none.
    fn finish_run(&mut self) -> Result<(), Error> {
        if self.merged.is_none() {
            self.merged = self.build.finish()?;
        }
        Ok(())
    }

    /// Whether another merge of the same finds more to leave out.
    fn leaves_more(&self) -> bool {
        self.has_joined || !self.outlived.is_empty()
    }

    /// What it leaves out and has moved so far.
    pub(crate) fn drops(&self) -> &Drops {
        &self.drops
    }

    pub(crate) fn build_mut(&mut self) -> &mut RunBuild {
        &mut self.build
    }

    /// Memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let entries = self.entries.as_ref().map_or(0, MergedRuns::resident_bytes);
        let notes = self.noted.resident_bytes() + self.moving.capacity() as u64;
        entries + self.build.resident_bytes() + self.drops.resident_bytes() + notes
    }
}

impl Group {
    /// Enters the object, dkey and akey of a key of which so much is as in the key before; what was said of those that
    /// were left no longer counts.
    fn enter(&mut self, (key, common): (&[u8], usize), parts: &KeyParts<'_>) {
        let dkey_len = parts.dkey.map_or(0, |dkey| OBJECT_PREFIX_BYTES + dkey.len() + 1);
        let akey_len = parts.akey.map_or(0, |_| parts.prefix_bytes());
        if common < OBJECT_PREFIX_BYTES {
            (self.gifts, self.held, self.has_gift) = (None, None, false);
            self.punches[0].clear();
            (self.dkey_len, self.akey_len) = (0, 0);
        }
        if dkey_len > 0 && (self.dkey_len != dkey_len || common < dkey_len) {
            self.dkey_len = dkey_len;
            self.punches[1].clear();
            self.akey_len = 0;
        }
        if akey_len > 0 && (self.akey_len != akey_len || common < akey_len) {
            self.akey_len = akey_len;
            self.punches[2].clear();
            (self.is_of_ones, self.last) = (None, None);
        }
        self.newer = self.newer.filter(|&(name_len, _)| common >= name_len);
        self.key.truncate(common);
        self.key.extend_from_slice(&key[common..]);
    }

    /// From which epoch on something newer hides a version with a name of this length.
    fn hidden_from(&self, name_len: usize, stamp: Stamp) -> Option<Epoch> {
        let newer = self.newer.filter(|newer| newer.0 == name_len).map(|newer| newer.1);
        match (newer, self.punched_from(stamp)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether a newer version of the same single value, or of the same record by itself, was passed: then the short way
    /// leads there, if anywhere.
    fn is_superseded(&self, key: &[u8], version: &Version<'_>) -> bool {
        let behind_name = match version.kind {
            VersionKind::Single => TAIL_BYTES,
            VersionKind::Array1 => STAMP_BYTES,
            _ => return false,
        };
        self.newer.is_some_and(|(name_len, _)| key.len() == name_len + behind_name)
    }

    /// From which epoch on a punch hides a version.
    fn punched_from(&self, stamp: Stamp) -> Option<Epoch> {
        self.punches.iter().flatten().filter(|punch| **punch > stamp).map(|punch| punch.epoch).min()
    }

    /// A version of a single value, or of a record by itself, was passed: older ones of the same name are hidden from
    /// its epoch on.
    fn pass(&mut self, name_len: usize, kind: VersionKind, epoch: Epoch) {
        if matches!(kind, VersionKind::Single | VersionKind::Array1) {
            self.newer = Some((name_len, epoch));
        }
    }

    /// A record stays: how many up to it lie side by side and were written one after another.
    fn ascends(&mut self, index: u64, stamp: Stamp) -> u32 {
        let streak = match self.last {
            Some((last, older, streak)) if last.checked_add(1) == Some(index) && older < stamp => streak + 1,
            _ => 1,
        };
        self.last = Some((index, stamp, streak));
        streak
    }
}

impl Store {
    /// The entries of some runs. What is read is not kept: each block passes once.
    fn merged(&mut self, runs: Range<usize>) -> Result<MergedRuns, Error> {
        MergedRuns::first_of(&self.index.runs[runs], &mut self.blocks.passing(&mut *self.disks.meta))
    }

    fn advance_merged(&mut self, entries: &mut MergedRuns, runs: Range<usize>) -> Result<(), Error> {
        entries.advance(&self.index.runs[runs], &mut self.blocks.passing(&mut *self.disks.meta))
    }

    /// Brings the value of an entry near if it is in one of these segments: values stand in the order of their
    /// writing, so that each is a miss of its own.
    fn prefetch_value(&self, segments: &Numbered<()>, payload: &[u8]) {
        /// The rest of a longer value follows by itself.
        const LINES: usize = 2;
        if let Some(ValuePlace::Log { segment, offset }) = Version::decode_place(payload)
            && segments.contains_key(&segment)
            && let Some(value) = self.log.mapped(LogPlace { segment, offset })
        {
            dolmen_env::prefetch(value, LINES);
        }
    }

    /// The versions of an akey that at least one view sees a part of, and which of them can be joined between the
    /// kept epochs, if there are any.
    fn needed_versions(
        &mut self,
        path: &mut Path,
        views: &[View],
        extents_max: u64,
        (kept, join): (&[Epoch], JoinRule),
    ) -> Result<Resolved, Error> {
        let mut needed = BTreeSet::new();
        let (mut holes, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let (mut extents, mut pieces): (Vec<Extent>, Vec<_>) = (Vec::new(), Vec::new());
        for view in views {
            let cover = self.cover(path, crate::path::Depth::Akey, view)?;
            path.up(crate::path::Depth::Akey);
            if let Some(entry) = self.single(path, view, cover)? {
                needed.insert((VersionKind::Single as u8, 0, entry.stamp));
            }
            self.extents(path, (0, u64::MAX), view, cover, &mut extents)?;
            if extents.len() as u64 > extents_max {
                return Ok(Resolved::default());
            }
            resolve(&mut extents, (0, u64::MAX), &mut pieces);
            for extent in extents.iter().filter(|extent| extent.record_bytes == 0) {
                holes.insert((extent.stamp, extent.recx.index, extent.recx.count));
            }
            for piece in &pieces {
                let extent = &extents[piece.extent];
                seen.insert((extent.recx.index, extent.recx.count, extent.stamp));
                let kind = VersionKind::of_extent(extent.recx.count);
                needed.insert((kind as u8, extent.recx.index, extent.stamp));
            }
        }
        // A hole stays as long as something older that it hides a part of stays.
        for (stamp, index, count) in holes {
            let end = index.saturating_add(count);
            let hides = |&&(start, records, older): &&(u64, u64, Stamp)| {
                older < stamp && start < end && start + records > index
            };
            if seen.iter().any(|version| hides(&version)) {
                needed.insert((VersionKind::of_extent(count) as u8, index, stamp));
            }
        }
        // The pieces are those of the last view, the horizon's.
        let joinable = match kept {
            [] => Vec::new(),
            kept => {
                let gifts = self.gifts(path.cont, path.oid)?;
                self.joinable(&gifts, &extents, &pieces, kept, join)?
            }
        };
        Ok(Resolved { needed: Some(needed), joinable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_version_of_the_same_value_or_record_supersedes() {
        let key = [1; 60];
        let of = |kind| Version {
            kind,
            minor: 0,
            cred: 0,
            dkey: b"d",
            akey: b"a",
            recx: dolmen_types::Recx::new(7, 1),
            record_bytes: 1,
            value_bytes: 1,
            place: ValuePlace::None,
            sums: &[],
        };
        let kinds = [VersionKind::Single, VersionKind::Array1, VersionKind::ARRAYS[1], VersionKind::Punch];
        let superseded = |newer| {
            let group = Group { newer, ..Group::default() };
            kinds.map(|kind| group.is_superseded(&key, &of(kind)))
        };
        assert_eq!(superseded(None), [false; 4]);
        assert_eq!(superseded(Some((key.len() - TAIL_BYTES, Epoch(9)))), [true, false, false, false]);
        // A record has its index in its name.
        assert_eq!(superseded(Some((key.len() - STAMP_BYTES, Epoch(9)))), [false, true, false, false]);
    }

    #[test]
    fn a_forged_value_of_a_dkey_or_an_object_is_not_what_a_run_holds() {
        use dolmen_codec::order::HashKey;
        use dolmen_types::{KeyKind, ObjectClass, ObjectType, Oid};
        let passes = |kind: VersionKind, depth: usize| {
            let mut key = crate::tree::key::FlatKey::default();
            key.object(ContNo(1), Oid::new(ObjectType::MultiLexical, ObjectClass::S1, 0, 1));
            if depth > 0 {
                key.dkey(KeyKind::Lexical, HashKey::default(), b"d");
            }
            if depth > 1 {
                key.akey(KeyKind::Lexical, HashKey::default(), b"a");
            }
            key.tail(kind, 0, Stamp { epoch: Epoch(5), minor: 0 });
            let version = Version {
                kind,
                minor: 0,
                cred: 0,
                dkey: b"d",
                akey: b"a",
                recx: dolmen_types::Recx::default(),
                record_bytes: 0,
                value_bytes: 0,
                place: ValuePlace::None,
                sums: &[],
            };
            let mut payload = Vec::new();
            version.encode(&mut payload);
            Passing::of(key.as_bytes(), &payload).is_some()
        };
        for kind in [VersionKind::Punch, VersionKind::Single, VersionKind::Array1, VersionKind::LongHole] {
            let is_punch = kind == VersionKind::Punch;
            assert_eq!([0, 1, 2].map(|depth| passes(kind, depth)), [is_punch, is_punch, true], "{kind:?}");
        }
    }
}
