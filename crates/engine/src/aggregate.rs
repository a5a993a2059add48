//! Aggregation: merges runs, and on the way drops what no reader can see.
//!
//! A version is dropped when it is not above the container's horizon and no kept epoch (a snapshot, a state
//! that a rollback returns to, the horizon) sees it. Punches, removals and holes go when, in a merge that
//! includes the oldest run, no kept epoch is older than they are: then everything they hide goes with them.
//!
//! Invariants: a merge never reads values but those it moves; what it drops is reused only after the manifest
//! without it is durable; usage, live bytes and bitmaps of the manifest's base change with the runs.

use crate::conts::View;
use crate::cursor::{IndexCursor, PlaceRef};
use crate::path::Path;
use crate::runs::RunBuild;
use crate::store::{Extent, Store, resolve};
use crate::target::Target;
use crate::tree::key::split_typed;
use dolmen_codec::bytes::Reader;
use dolmen_codec::log_frame::LogKind;
use dolmen_codec::verb::Reply;
use dolmen_codec::version::{ValuePlace, Version, VersionKind};
use dolmen_types::{ContNo, Epoch, Error, Stamp, limits};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Entries looked at by one step: about a millisecond of work.
const STEP_ENTRIES: usize = 1024;
/// Extents of one array that are resolved at once; a larger array is copied as it is.
const GROUP_EXTENTS_MAX: usize = 1 << 16;
/// Runs that may gather before the newest of like size are merged: each is looked into by a lookup that its
/// filter does not turn away.
const RUNS_MAX: usize = 6;

/// A merge under way.
pub(crate) struct Merge {
    runs: Range<usize>,
    is_bottom: bool,
    build: RunBuild,
    /// The key handled last.
    after: Vec<u8>,
    /// Log segments whose values are moved away, so that they become free.
    sparse: BTreeSet<u32>,
    rules: BTreeMap<ContNo, Rule>,
    group: Group,
    dropped: Vec<Dropped>,
    freed: u64,
}

/// What may be dropped of a container.
#[derive(Clone)]
struct Rule {
    horizon: Epoch,
    kept: Vec<Epoch>,
    is_plain: bool,
    is_destroyed: bool,
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

/// What the entries just passed say of those that follow.
#[derive(Default)]
struct Group {
    object: Vec<u8>,
    dkey: Vec<u8>,
    akey: Vec<u8>,
    punches: [Vec<Stamp>; 3],
    /// The single value's key and the epoch of the version just before.
    newer: Option<Epoch>,
    newer_key: Vec<u8>,
    /// Needed versions of the present array; `None` if all are.
    needed: Option<Needed>,
    needed_for: Vec<u8>,
}

/// A version that the merge left out.
struct Dropped {
    cont: ContNo,
    value_bytes: u32,
    place: ValuePlace,
}

impl Target {
    /// One step of the aggregation that a caller asked for.
    pub(crate) fn aggregate_step(&mut self, cont: ContNo, upto: Epoch) -> Result<Reply, Error> {
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        let more = Reply::Aggregated { more: true, freed: 0 };
        if self.checkpoint.is_working() {
            self.checkpoint_step()?;
            return Ok(more);
        }
        if self.checkpoint.merge.is_some() {
            let freed = self.merge_step()?;
            let asked =
                self.checkpoint.asked.as_ref().is_some_and(|asked| asked.cont == cont && asked.merged);
            if self.checkpoint.merge.is_none() && asked {
                self.checkpoint.asked = None;
                return Ok(Reply::Aggregated { more: false, freed: freed.unwrap_or(0) });
            }
            return Ok(more);
        }
        let horizon = self.horizon(upto);
        match &mut self.checkpoint.asked {
            Some(asked) if asked.cont == cont => {
                asked.merged = true;
                let horizon = asked.horizon;
                if self.store.index.runs.is_empty() {
                    self.checkpoint.asked = None;
                    self.raise_aggregated(cont, horizon);
                    return Ok(Reply::Aggregated { more: false, freed: 0 });
                }
                self.raise_aggregated(cont, horizon);
                self.begin_merge(0..self.store.index.runs.len());
                Ok(more)
            }
            _ => {
                self.checkpoint.asked = Some(Asked { cont, horizon, merged: false });
                self.begin_checkpoint()?;
                Ok(more)
            }
        }
    }

    fn raise_aggregated(&mut self, cont: ContNo, horizon: Epoch) {
        if let Ok(known) = self.conts.find_mut(cont) {
            known.state.aggregated = known.state.aggregated.max(horizon);
        }
        if let Some(base) = self.checkpoint.base.conts.iter_mut().find(|c| c.no == cont) {
            base.aggregated = base.aggregated.max(horizon);
        }
    }

    /// The newest runs of like size, if too many have gathered or a destroyed container waits to be freed.
    pub(crate) fn due_merge(&self) -> Option<Range<usize>> {
        let runs = &self.store.index.runs;
        let destroyed = self.checkpoint.base.conts.iter().any(|cont| cont.destroyed);
        if destroyed && !runs.is_empty() {
            return Some(0..runs.len());
        }
        if runs.len() <= RUNS_MAX {
            return None;
        }
        let mut sum = runs[0].file_bytes();
        let mut end = 1;
        while end < runs.len() && (end < 2 || runs[end].file_bytes() <= 2 * sum) {
            sum += runs[end].file_bytes();
            end += 1;
        }
        Some(0..end)
    }

    pub(crate) fn begin_merge(&mut self, runs: Range<usize>) {
        let is_bottom = runs.end == self.store.index.runs.len();
        let number = self.checkpoint.take_run_number();
        let entries = self.store.index.runs[runs.clone()].iter().map(|run| run.footer().entries).sum();
        let build = RunBuild::new(self.config.target, number, entries);
        let sparse = if is_bottom { self.sparse_segments() } else { BTreeSet::new() };
        self.checkpoint.merge = Some(Merge {
            runs,
            is_bottom,
            build,
            after: Vec::new(),
            sparse,
            rules: BTreeMap::new(),
            group: Group::default(),
            dropped: Vec::new(),
            freed: 0,
        });
    }

    /// Segments outside the log of which less than half is referred to.
    fn sparse_segments(&self) -> BTreeSet<u32> {
        let start = self.checkpoint.base.log_start;
        let half = self.store.log.segment_bytes() / 2;
        let segments = self.store.log.segments.iter();
        let sparse = segments.filter(|(number, segment)| {
            **number != start.segment
                && segment.first_sequence < start.sequence
                && segment.live_bytes > 0
                && segment.live_bytes < half
        });
        sparse.map(|(&number, _)| number).collect()
    }

    /// One step of a merge; how many versions it freed when it is complete.
    pub(crate) fn merge_step(&mut self) -> Result<Option<u64>, Error> {
        let Some(mut merge) = self.checkpoint.merge.take() else {
            return Ok(Some(0));
        };
        match self.merge_entries(&mut merge) {
            Ok(false) => {
                self.checkpoint.merge = Some(merge);
                Ok(None)
            }
            Ok(true) => self.finish_merge(merge).map(Some),
            Err(error) => Err(error),
        }
    }

    fn merge_entries(&mut self, merge: &mut Merge) -> Result<bool, Error> {
        let mut cursor = IndexCursor::over_runs(merge.runs.clone());
        self.store.reseek(&mut cursor, &merge.after)?;
        for _ in 0..STEP_ENTRIES {
            let Some(key) = cursor.key() else {
                return Ok(true);
            };
            if key != &merge.after[..] {
                merge.after.clear();
                merge.after.extend_from_slice(key);
                self.merge_entry(merge, &cursor)?;
            }
            self.store.advance(&mut cursor)?;
        }
        Ok(cursor.key().is_none())
    }

    fn merge_entry(&mut self, merge: &mut Merge, cursor: &IndexCursor) -> Result<(), Error> {
        let PlaceRef::Run(payload) = cursor.place() else {
            unreachable!("the cursor walks runs only");
        };
        let target = self.config.target;
        let damaged = || crate::error::corrupt(target, "run", 0, 0);
        let version = Version::decode(&mut Reader::new(payload)).ok_or_else(damaged)?;
        let key = core::mem::take(&mut merge.after);
        let verdict = self.judge(merge, &key, &version);
        let result = match verdict {
            Ok(true) => self.keep(merge, &key, &version),
            Ok(false) => {
                let parts = split_typed(&key).ok_or_else(damaged)?;
                let cont = parts.cont;
                self.forget_hot(&parts, &version);
                merge.dropped.push(Dropped { cont, value_bytes: version.value_bytes, place: version.place });
                merge.freed += 1;
                Ok(())
            }
            Err(error) => Err(error),
        };
        merge.after = key;
        result
    }

    /// The short way must not lead to a version that is dropped: what hid it may be dropped with it.
    fn forget_hot(&mut self, parts: &crate::tree::key::KeyParts<'_>, version: &Version<'_>) {
        let (Some(dkey), Some(akey)) = (parts.dkey, parts.akey) else {
            return;
        };
        if !matches!(version.kind, VersionKind::Single | VersionKind::Array1) {
            return;
        }
        let mut path = self.store.take_path();
        if path.object(parts.cont, dolmen_codec::order::HashKey::default(), parts.oid).is_ok() {
            path.dkey_encoded(dkey);
            path.akey_encoded(akey);
            self.store.hot.written(path.hot_hash(version.kind, version.recx.index), None);
        }
        self.store.put_path(path);
    }

    fn keep(&mut self, merge: &mut Merge, key: &[u8], version: &Version<'_>) -> Result<(), Error> {
        let ValuePlace::Log { segment, .. } = version.place else {
            return merge.build.push(key, version);
        };
        if !merge.sparse.contains(&segment) {
            return merge.build.push(key, version);
        }
        let mut value = vec![0; version.value_bytes as usize];
        let stored = crate::value::stored(version, version.place);
        if self.store.read_value(&stored, 0, &mut value).is_err() {
            // A damaged value stays where it is: the scrub reports it, nothing hides it.
            return merge.build.push(key, version);
        }
        self.make_room(value.len(), true)?;
        let appended = self.store.log.append(LogKind::Moved, |out| out.extend_from_slice(&value));
        let place = ValuePlace::Log { segment: appended.body.segment, offset: appended.body.offset };
        self.store.log.add_live(appended.body.segment, version.value_bytes);
        self.checkpoint.base_live(appended.body.segment, i64::from(version.value_bytes));
        merge.dropped.push(Dropped { cont: MOVED, value_bytes: version.value_bytes, place: version.place });
        merge.build.push(key, &Version { place, ..*version })
    }

    fn rule(&self, cont: ContNo) -> Rule {
        match self.conts.any(cont) {
            Some(known) if !known.state.destroyed => {
                let horizon = known.state.aggregated;
                Rule {
                    horizon,
                    kept: known.kept_epochs(horizon),
                    is_plain: known.state.rollbacks.is_empty(),
                    is_destroyed: false,
                }
            }
            _ => Rule { horizon: Epoch::MAX, kept: Vec::new(), is_plain: true, is_destroyed: true },
        }
    }

    /// Whether an entry stays.
    fn judge(&mut self, merge: &mut Merge, key: &[u8], version: &Version<'_>) -> Result<bool, Error> {
        let target = self.config.target;
        let parts = split_typed(key).ok_or_else(|| crate::error::corrupt(target, "run", 0, 0))?;
        let rule = merge.rules.entry(parts.cont).or_insert_with(|| self.rule(parts.cont)).clone();
        let prefix = &key[..parts.prefix_bytes()];
        let depth = usize::from(parts.dkey.is_some()) + usize::from(parts.akey.is_some());
        merge.group.enter(key, &parts, depth);
        if rule.is_destroyed {
            return Ok(false);
        }
        let epoch = parts.stamp.epoch;
        let hides = version.kind == VersionKind::Punch || !version.is_data();
        if version.kind == VersionKind::Punch {
            merge.group.punches[depth].push(parts.stamp);
        }
        if epoch > rule.horizon {
            merge.group.pass(prefix, version.kind, epoch);
            return Ok(true);
        }
        if hides && version.kind.is_array() && merge.is_bottom && rule.is_plain {
            return self.judge_group(merge, key, version, parts.stamp, &rule);
        }
        if hides {
            let older_reader = rule.kept.first().is_none_or(|&oldest| oldest < epoch);
            merge.group.pass(prefix, version.kind, epoch);
            return Ok(!merge.is_bottom || older_reader || !rule.is_plain);
        }
        if version.kind == VersionKind::Single && rule.is_plain {
            let until = merge.group.hidden_from(prefix, parts.stamp);
            merge.group.pass(prefix, version.kind, epoch);
            return Ok(rule.sees(epoch, until));
        }
        if rule.is_plain && version.kind.is_array() {
            let until = merge.group.punched_from(parts.stamp);
            if !rule.sees(epoch, until) {
                return Ok(false);
            }
        }
        self.judge_group(merge, key, version, parts.stamp, &rule)
    }

    /// Arrays, and everything in a container that was rolled back: what each kept epoch sees decides.
    fn judge_group(
        &mut self,
        merge: &mut Merge,
        key: &[u8],
        version: &Version<'_>,
        stamp: Stamp,
        rule: &Rule,
    ) -> Result<bool, Error> {
        let parts = split_typed(key).expect("split by the caller");
        let prefix = key[..parts.prefix_bytes()].to_vec();
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
            merge.group.needed = self.store.needed_versions(&mut path, &views)?;
            merge.group.needed_for = prefix;
        }
        let offset = version.recx.index;
        let named = (version.kind as u8, offset, stamp);
        Ok(merge.group.needed.as_ref().is_none_or(|needed| needed.contains(&named)))
    }

    fn finish_merge(&mut self, merge: Merge) -> Result<u64, Error> {
        let Merge { runs, is_bottom, build, dropped, freed, .. } = merge;
        let merged = build.finish(&mut *self.store.disks.meta)?;
        self.checkpoint.fresh_runs.extend(merged.as_ref().map(|run| run.file));
        for gone in &dropped {
            self.checkpoint.base_drop(gone.cont, gone.value_bytes, gone.place, gone.is_move());
        }
        if is_bottom {
            self.forget_destroyed();
        }
        let old: Vec<_> = self.store.index.runs.splice(runs, merged).collect();
        self.write_manifest(false)?;
        self.checkpoint.done.merges += 1;
        for gone in &dropped {
            self.release_dropped(gone);
        }
        for run in old {
            self.store.remove_run(run)?;
        }
        let start = self.checkpoint.base.log_start;
        self.store.log.release_before(&mut *self.store.disks.meta, start)?;
        Ok(freed)
    }

    fn release_dropped(&mut self, gone: &Dropped) {
        if !gone.is_move()
            && gone.value_bytes > 0
            && let Some(known) = self.conts.any_mut(gone.cont)
        {
            subtract(&mut known.state.usage, gone.value_bytes, gone.place);
        }
        match gone.place {
            ValuePlace::Log { segment, .. } => self.store.log.remove_live(segment, gone.value_bytes),
            ValuePlace::Bulk { segment, unit } => {
                let count = crate::bulk::units(u64::from(gone.value_bytes));
                self.store.bulk.release(crate::bulk::BulkPlace { segment, unit }, count);
            }
            ValuePlace::None | ValuePlace::Inline => {}
        }
    }

    /// Destroyed containers of which nothing is left in the delta are forgotten.
    fn forget_destroyed(&mut self) {
        let gone: Vec<ContNo> =
            self.checkpoint.base.conts.iter().filter(|cont| cont.destroyed).map(|cont| cont.no).collect();
        for no in gone {
            let mut prefix = self.store.take_path();
            let bytes = prefix.key.container(no).as_bytes().to_vec();
            self.store.put_path(prefix);
            let mut cursor = crate::tree::Cursor::default();
            self.store.index.delta.seek(&mut cursor, &bytes);
            let in_delta = cursor.entry().is_some_and(|(key, _)| key.starts_with(&bytes));
            if !in_delta {
                self.checkpoint.base.conts.retain(|cont| cont.no != no);
                self.conts.forget(no);
            }
        }
    }
}

/// Takes a version out of a container's accounts.
pub(crate) fn subtract(usage: &mut dolmen_codec::verb::Usage, value_bytes: u32, place: ValuePlace) {
    usage.versions -= 1;
    usage.value_bytes -= u64::from(value_bytes);
    match place {
        ValuePlace::Bulk { .. } => {
            usage.bulk_bytes -=
                u64::from(crate::bulk::units(u64::from(value_bytes))) * limits::BULK_UNIT_BYTES;
        }
        ValuePlace::None | ValuePlace::Inline | ValuePlace::Log { .. } => {
            usage.small_bytes -= u64::from(value_bytes)
        }
    }
}

/// An aggregation that a caller asked for, from the checkpoint it begins with to the merge it ends with.
pub(crate) struct Asked {
    cont: ContNo,
    horizon: Epoch,
    merged: bool,
}

/// The container number that marks a value that was moved, not dropped: no container has it.
const MOVED: ContNo = ContNo(u32::MAX);

impl Merge {
    /// A checkpoint has put a newer run in front.
    pub(crate) fn run_inserted(&mut self) {
        self.runs = self.runs.start + 1..self.runs.end + 1;
    }
}

impl Dropped {
    fn is_move(&self) -> bool {
        self.cont == MOVED
    }
}

impl Group {
    /// Enters the object, dkey and akey of a key; punches of what was left no longer count.
    fn enter(&mut self, key: &[u8], parts: &crate::tree::key::KeyParts<'_>, depth: usize) {
        let object = &key[..crate::tree::key::OBJECT_PREFIX_BYTES];
        let dkey = &key[..crate::tree::key::OBJECT_PREFIX_BYTES + parts.dkey.map_or(0, |k| k.len() + 1)];
        let akey = &key[..parts.prefix_bytes()];
        if self.object != object {
            self.object = object.to_vec();
            self.punches[0].clear();
            self.dkey.clear();
        }
        if depth >= 1 && self.dkey != dkey {
            self.dkey = dkey.to_vec();
            self.punches[1].clear();
            self.akey.clear();
        }
        if depth == 2 && self.akey != akey {
            self.akey = akey.to_vec();
            self.punches[2].clear();
        }
    }

    /// From which epoch on something newer hides a single value.
    fn hidden_from(&self, prefix: &[u8], stamp: Stamp) -> Option<Epoch> {
        let newer = self.newer.filter(|_| self.newer_key == prefix);
        let punched =
            self.punches.iter().flatten().filter(|punch| **punch > stamp).map(|punch| punch.epoch).min();
        match (newer, punched) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// From which epoch on a punch hides a version.
    fn punched_from(&self, stamp: Stamp) -> Option<Epoch> {
        self.punches.iter().flatten().filter(|punch| **punch > stamp).map(|punch| punch.epoch).min()
    }

    /// A single value's version was passed: older ones of the same key are hidden from its epoch on.
    fn pass(&mut self, prefix: &[u8], kind: VersionKind, epoch: Epoch) {
        if kind == VersionKind::Single {
            if self.newer_key != prefix {
                self.newer_key = prefix.to_vec();
            }
            self.newer = Some(epoch);
        }
    }
}

impl Store {
    /// The versions of an akey that at least one view sees a part of; `None` if there are too many to tell.
    fn needed_versions(&mut self, path: &mut Path, views: &[View]) -> Result<Option<Needed>, Error> {
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
            if extents.len() > GROUP_EXTENTS_MAX {
                return Ok(None);
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
        Ok(Some(needed))
    }
}
