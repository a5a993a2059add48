//! The read path: resolve what is visible, then read and verify exactly that.

use crate::conts::View;
use crate::marks::Scope;
use crate::path::{Depth, Path};
use crate::store::{Extent, HotHit, Piece, Store, resolve};
use crate::target::Target;
use crate::value::Stored;
use dolmen_codec::verb::{Fetch, FetchIod, FetchedIod, ReadAt, Want};
use dolmen_codec::version::VersionKind;
use dolmen_types::{Cond, ContNo, Epoch, Error, Invalid, KeyKind, Recx, Stamp, limits};
use smallvec::SmallVec;

/// Lists that a fetch fills and the next one reuses.
#[derive(Default)]
pub(crate) struct FetchScratch {
    extents: Vec<Extent>,
    pieces: Vec<Piece>,
}

/// Where one akey's part of the buffer is.
struct Part {
    start: usize,
    len: usize,
}

impl Target {
    /// The view of a read, noted so that later transactions respect it.
    #[inline]
    pub(crate) fn read_view(&mut self, cont: ContNo, at: ReadAt) -> Result<View, Error> {
        let known = self.conts.find(cont)?;
        self.reads.await_frame(known.changed);
        let (ReadAt::Epoch(epoch) | ReadAt::Tx(epoch)) = at else {
            return Ok(known.view(self.epochs.latest()));
        };
        if epoch == Epoch::ZERO {
            return Err(Invalid::Epoch.into());
        }
        let is_tx = matches!(at, ReadAt::Tx(_));
        if !known.keeps(epoch) {
            let oldest = known.state.aggregated;
            return Err(if is_tx { Error::TxRestart { after: oldest } } else { Error::EpochGone { oldest } });
        }
        let (view, durability) = (known.view(epoch), known.state.spec.durability);
        self.observe(epoch)?;
        if is_tx {
            self.note_reader(epoch);
            if self.is_awaited(durability) {
                // A restart must know a ceiling above: a write below what was read is refused.
                self.reads.await_frame(self.ceiling_frame);
            }
        }
        Ok(view)
    }

    /// Reads values under one dkey into the fetch's buffer.
    #[inline]
    pub(crate) fn fetch(
        &mut self,
        cont: ContNo,
        fetch: &mut Fetch,
    ) -> Result<SmallVec<[FetchedIod; 1]>, Error> {
        let count = fetch.iods.len();
        if count == 0 || count > limits::IODS_MAX {
            return Err(Invalid::Count.into());
        }
        let view = self.read_view(cont, fetch.at)?;
        let secret = self.conts.find(cont)?.state.spec.hash_key;
        let mut path = self.store.take_path();
        path.object(cont, secret, fetch.oid)?;
        path.dkey(&fetch.dkey)?;
        let cover = self.store.cover(&mut path, Depth::Dkey, &view)?;
        self.reads.raise(Scope::ObjectTree, path.object_hash, view.at);
        self.reads.raise(Scope::DkeyTree, path.dkey_hash, view.at);
        let must_exist = fetch.cond.has(Cond::DKEY_FETCH);
        if must_exist {
            self.txs.refuse_undecided_read(cont, fetch.oid, Some(&fetch.dkey), None, view.at)?;
            self.reads.raise(Scope::AkeyList, path.dkey_hash, view.at);
        }
        let mut found = self.fetch_iods(cont, fetch, &mut path, &view, cover);
        // What was found says that its dkey exists; only without it there is a question, which comes before all errors.
        let is_found = found.as_ref().is_ok_and(|found| found.iter().any(|iod| iod.size_bytes > 0));
        if must_exist && !is_found {
            path.up(Depth::Dkey);
            if !self.store.exists(&path, Depth::Dkey, &view, cover)? {
                return Err(Error::NotFound);
            }
        }
        let is_end = found.as_ref().is_ok_and(|found| found.iter().any(|iod| iod.is_end));
        if is_end && !self.knows_end(cont, fetch, &path, &view) {
            found.iter_mut().flatten().for_each(|iod| iod.is_end = false);
        }
        self.store.put_path(path);
        found
    }

    /// Whether the end of an object may be told with what was fetched. If so, all of the object counts as read, as by a
    /// query for its last record.
    fn knows_end(&mut self, cont: ContNo, fetch: &Fetch, path: &Path, view: &View) -> bool {
        // A transaction asks for no more than it must, since others are held against it.
        let is_known = fetch.at == ReadAt::Latest
            && self.txs.refuse_undecided_read(cont, fetch.oid, None, None, view.at).is_ok();
        if is_known {
            self.reads.raise(Scope::ObjectScan, path.object_hash, view.at);
        }
        is_known
    }

    #[inline]
    fn fetch_iods(
        &mut self,
        cont: ContNo,
        fetch: &mut Fetch,
        path: &mut Path,
        view: &View,
        cover: Stamp,
    ) -> Result<SmallVec<[FetchedIod; 1]>, Error> {
        let mut found = SmallVec::new();
        let mut start = 0_usize;
        for iod in &fetch.iods {
            let len = part_bytes(&iod.want)?;
            let end = start.checked_add(len).filter(|&end| end <= fetch.buf.len()).ok_or(Invalid::Payload)?;
            path.akey(&iod.akey)?;
            self.txs.refuse_undecided_read(cont, fetch.oid, Some(&fetch.dkey), Some(&iod.akey), view.at)?;
            self.reads.raise(Scope::Akey, path.akey_hash, view.at);
            let cover = self.store.own_cover(path, Depth::Akey, view, cover)?;
            let part = Part { start, len };
            let one = self.fetch_iod(path, iod, view, cover, &part, &mut fetch.buf);
            let one = one.map_err(|e| path.named(e, None))?;
            if fetch.cond.has(Cond::AKEY_FETCH)
                && one.size_bytes == 0
                && !self.store.exists(path, Depth::Akey, view, cover)?
            {
                return Err(Error::NotFound);
            }
            found.push(one);
            start = end;
        }
        Ok(found)
    }

    #[inline]
    fn fetch_iod(
        &mut self,
        path: &mut Path,
        iod: &FetchIod,
        view: &View,
        cover: Stamp,
        part: &Part,
        buf: &mut [u8],
    ) -> Result<FetchedIod, Error> {
        match &iod.want {
            Want::Single { room_bytes } => {
                let Some(stored) = self.single_stored(path, view, cover)? else {
                    return Ok(FetchedIod::default());
                };
                if stored.len() > *room_bytes {
                    return Err(Error::RecTooBig { needed_bytes: stored.len() as u64 });
                }
                self.store.read_value(&stored, 0, &mut buf[part.start..part.start + stored.len()])?;
                Ok(FetchedIod { size_bytes: stored.len() as u64, filled: SmallVec::new(), is_end: false })
            }
            Want::Size => self.value_size(path, view, cover),
            Want::Array { record_bytes, extents } => {
                let out = &mut buf[part.start..part.start + part.len];
                self.fetch_array(path, *record_bytes, extents, view, cover, out)
            }
        }
    }

    #[inline]
    fn single_stored(&mut self, path: &mut Path, view: &View, cover: Stamp) -> Result<Option<Stored>, Error> {
        let may_note = view.at >= self.epochs.latest() && self.checkpoint.merge.is_none();
        self.store.single_stored(path, view, cover, may_note)
    }

    fn value_size(&mut self, path: &mut Path, view: &View, cover: Stamp) -> Result<FetchedIod, Error> {
        let size_bytes = match self.single_stored(path, view, cover)? {
            Some(stored) => stored.len() as u64,
            None => self.store.first_record(path, 0, view, cover)?.map_or(0, |(_, bytes)| u64::from(bytes)),
        };
        Ok(FetchedIod { size_bytes, filled: SmallVec::new(), is_end: false })
    }

    fn fetch_array(
        &mut self,
        path: &mut Path,
        record_bytes: u64,
        wanted: &[Recx],
        view: &View,
        cover: Stamp,
        out: &mut [u8],
    ) -> Result<FetchedIod, Error> {
        if let [recx] = wanted
            && recx.count == 1
            && let Some(found) = self.fetch_hot_record(path, record_bytes, *recx, view, cover, out)?
        {
            return Ok(found);
        }
        if let [recx] = wanted
            && let Some(found) = self.fetch_sole_extent(path, record_bytes, *recx, view, cover, out)?
        {
            return Ok(found);
        }
        let mut fetched = FetchedIod::default();
        let mut scratch = core::mem::take(&mut self.store.fetch_scratch);
        let mut base = 0usize;
        for &recx in wanted {
            let end = recx.end().ok_or(Invalid::Extent)?;
            self.store.extents(path, (recx.index, end), view, cover, &mut scratch.extents)?;
            resolve(&mut scratch.extents, (recx.index, end), &mut scratch.pieces);
            for piece in &scratch.pieces {
                let extent = &scratch.extents[piece.extent];
                if u64::from(extent.record_bytes) != record_bytes {
                    return Err(Error::RecordSize { stored_bytes: u64::from(extent.record_bytes) });
                }
                let at = base + bytes_of(piece.start - recx.index, record_bytes)?;
                let len = bytes_of(piece.end - piece.start, record_bytes)?;
                let offset = bytes_of(piece.start - extent.recx.index, record_bytes)?;
                let stored = self.store.stored(&extent.place)?;
                self.store
                    .read_value(&stored, offset, &mut out[at..at + len])
                    .map_err(|e| path.named(e, Some(extent.recx)))?;
                push_merged(&mut fetched.filled, Recx::new(piece.start, piece.end - piece.start));
            }
            base += bytes_of(recx.count, record_bytes)?;
        }
        self.store.fetch_scratch = scratch;
        if wanted.len() > 1 {
            merge_filled(&mut fetched.filled);
        }
        if !fetched.filled.is_empty() {
            fetched.size_bytes = record_bytes;
        } else if let Some((_, stored)) = self.store.first_record(path, 0, view, cover)? {
            if u64::from(stored) != record_bytes {
                return Err(Error::RecordSize { stored_bytes: u64::from(stored) });
            }
            fetched.size_bytes = record_bytes;
        }
        Ok(fetched)
    }
}

impl Target {
    /// The short way to one record, of an array that is written record by record.
    #[inline]
    fn fetch_hot_record(
        &mut self,
        path: &mut Path,
        record_bytes: u64,
        recx: Recx,
        view: &View,
        cover: Stamp,
        out: &mut [u8],
    ) -> Result<Option<FetchedIod>, Error> {
        let longer = |kind: &VersionKind| self.store.index.may_have(path.key.as_bytes(), *kind);
        if !view.is_plain() || VersionKind::ARRAYS[1..].iter().any(longer) {
            return Ok(None);
        }
        let Some(hit) = self.store.hot_version(path, VersionKind::Array1, recx.index) else {
            return Ok(None);
        };
        let Some(stored) = hit.stored.filter(|_| hit.stamp.epoch <= view.at && hit.stamp > cover) else {
            return Ok(None);
        };
        if u64::from(hit.record_bytes) != record_bytes {
            return Err(Error::RecordSize { stored_bytes: u64::from(hit.record_bytes) });
        }
        self.store.read_value(&stored, 0, out).map_err(|e| path.named(e, Some(recx)))?;
        Ok(Some(FetchedIod { size_bytes: record_bytes, filled: smallvec::smallvec![recx], is_end: false }))
    }
}

impl Target {
    /// The short way to an array that was written at once.
    #[inline]
    fn fetch_sole_extent(
        &mut self,
        path: &mut Path,
        record_bytes: u64,
        wanted: Recx,
        view: &View,
        cover: Stamp,
        out: &mut [u8],
    ) -> Result<Option<FetchedIod>, Error> {
        if !view.is_plain() {
            return Ok(None);
        }
        let Some(HotHit { stamp, stored: Some(stored), record_bytes: stored_bytes, recx }) =
            self.store.sole_extent(path)
        else {
            return Ok(None);
        };
        if stamp.epoch > view.at || stamp <= cover {
            return Ok(None);
        }
        if u64::from(stored_bytes) != record_bytes {
            return Err(Error::RecordSize { stored_bytes: u64::from(stored_bytes) });
        }
        let mut fetched = FetchedIod { size_bytes: record_bytes, filled: SmallVec::new(), is_end: false };
        let start = wanted.index.max(recx.index);
        let end = (wanted.index + wanted.count).min(recx.index + recx.count);
        if start < end {
            let at = bytes_of(start - wanted.index, record_bytes)?;
            let len = bytes_of(end - start, record_bytes)?;
            let offset = bytes_of(start - recx.index, record_bytes)?;
            self.store
                .read_value(&stored, offset, &mut out[at..at + len])
                .map_err(|e| path.named(e, Some(recx)))?;
            fetched.filled.push(Recx::new(start, end - start));
            fetched.is_end = end < wanted.index + wanted.count && path.dkey_kind == KeyKind::Uint64;
        }
        Ok(Some(fetched))
    }
}

/// Appends a filled part, joined to the one before if they touch.
fn push_merged(filled: &mut SmallVec<[Recx; 1]>, recx: Recx) {
    match filled.last_mut() {
        Some(last) if last.index + last.count == recx.index => last.count += recx.count,
        _ => filled.push(recx),
    }
}

/// Sorts filled parts and joins those that touch or overlap.
fn merge_filled(filled: &mut SmallVec<[Recx; 1]>) {
    filled.sort_unstable();
    let mut merged: SmallVec<[Recx; 1]> = SmallVec::new();
    for &recx in filled.iter() {
        match merged.last_mut() {
            Some(last) if recx.index <= last.index + last.count => {
                last.count = last.count.max(recx.index + recx.count - last.index);
            }
            _ => merged.push(recx),
        }
    }
    *filled = merged;
}

fn bytes_of(records: u64, record_bytes: u64) -> Result<usize, Error> {
    let bytes = records.checked_mul(record_bytes).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| Invalid::Payload.into())
}

/// Bytes of the buffer that one akey's answer takes.
#[inline]
fn part_bytes(want: &Want) -> Result<usize, Error> {
    match want {
        Want::Single { room_bytes } => Ok(*room_bytes),
        Want::Size => Ok(0),
        Want::Array { record_bytes, extents } => {
            if *record_bytes == 0 || *record_bytes > limits::RECORD_BYTES_MAX {
                return Err(Invalid::RecordSize.into());
            }
            if extents.is_empty() || extents.len() > limits::EXTENTS_MAX {
                return Err(Invalid::Count.into());
            }
            let mut total = 0usize;
            for recx in extents {
                if recx.count == 0 || recx.end().is_none() {
                    return Err(Invalid::Extent.into());
                }
                total = total.checked_add(bytes_of(recx.count, *record_bytes)?).ok_or(Invalid::Payload)?;
            }
            Ok(total)
        }
    }
}

impl Store {
    /// The record size of an array's visible data, if it has any.
    ///
    /// Versions that are visible together have one record size, so one of them answers, unless something
    /// may hide it; then the visible records are looked for.
    #[inline]
    pub(crate) fn record_bytes(
        &mut self,
        path: &mut Path,
        view: &View,
        cover: Stamp,
    ) -> Result<Option<u32>, Error> {
        let plain =
            cover == Stamp::default() && view.is_plain() && !self.index.may_have_removal(path.key.as_bytes());
        if !plain {
            return Ok(self.first_record(path, 0, view, cover)?.map(|(_, bytes)| bytes));
        }
        self.any_record_bytes(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Devices, TargetConfig};
    use crate::index::EntryPlace;
    use dolmen_codec::order::HashKey;
    use dolmen_codec::verb::{
        ContSpec, ContVerb, Mutation, NewValue, Payload, Prepare, Punch, PunchScope, Reply, Update,
        UpdateIod, Usage, Verb,
    };
    use dolmen_codec::{Completion, Op, TargetStore};
    use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
    use dolmen_types::{
        Credentials, Durability, Head, IoBuf, Key, ObjectClass, ObjectType, Oid, Place, TxId,
    };
    use smallvec::smallvec;

    const CONT: ContNo = ContNo(1);
    const SECRET: HashKey = HashKey([5; 16]);

    fn oid() -> Oid {
        Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 0, 1)
    }

    fn devices(drive: &SimDrive) -> Devices {
        Devices { meta: Box::new(SimDisk::new(drive)), bulk: None }
    }

    fn clock() -> std::sync::Arc<dolmen_env::SimClock> {
        std::sync::Arc::new(dolmen_env::SimClock::new(1_800_000_000_000_000_000))
    }

    fn target() -> Target {
        target_on(&SimDrive::new(SimConfig::default()))
    }

    fn target_on(drive: &SimDrive) -> Target {
        let mut target = Target::create(devices(drive), clock(), 7, &TargetConfig::default()).expect("room");
        let spec = ContSpec { hash_key: SECRET, durability: Durability::Process };
        ask(&mut target, Verb::Cont(ContVerb::Create(spec))).result.expect("a new container");
        target
    }

    fn ask(target: &mut Target, verb: Verb<'_>) -> Completion {
        target.submit(&mut vec![Op { token: 1, head: Head::default(), cont: CONT, verb }]);
        let mut out = Vec::new();
        target.poll(true, &mut out);
        out.pop().expect("one completion")
    }

    fn update(akey: &[u8], value: NewValue<'static>, cond: Cond) -> Verb<'static> {
        let iods = smallvec![UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }];
        Verb::Update(Update { oid: oid(), dkey: Key::from_slice(b"d"), cond, iods, charged: None })
    }

    fn fetch(akey: &[u8], want: Want) -> Verb<'static> {
        let iods = smallvec![FetchIod { akey: Key::from_slice(akey), want }];
        let (dkey, buf) = (Key::from_slice(b"d"), IoBuf::zeroed(64));
        Verb::Fetch(Fetch { oid: oid(), dkey, cond: Cond::NONE, at: ReadAt::Latest, iods, buf })
    }

    /// Makes every version of akey `b` stand under the hash of `a`, too, as if the two were the same.
    fn collide(target: &mut Target) {
        let mut path = Path::default();
        path.object(CONT, SECRET, oid()).expect("a known type");
        path.down(Depth::Akey, b"d", b"b").expect("good keys");
        let of_b = path.key.as_bytes().to_vec();
        let mut cursor = target.store.take_cursor();
        target.store.reseek(&mut cursor, &of_b).expect("no device is asked");
        let mut found = Vec::new();
        while let Some(key) = cursor.key().filter(|key| key.starts_with(&of_b)) {
            let (kind, offset, stamp) = crate::tree::key::split_tail(key).expect("a whole key");
            let EntryPlace::Log(place) = cursor.place().to_place() else { panic!("no run yet") };
            found.push((kind, offset, stamp, place));
            target.store.advance(&mut cursor).expect("no device is asked");
        }
        assert!(!found.is_empty());
        path.akey(b"a").expect("a good key");
        for (kind, offset, stamp, place) in found {
            let mark = path.key.mark();
            path.key.tail(kind, offset, stamp);
            assert!(target.store.index.insert(&path.key, mark.len(), kind, place));
            path.key.rewind(mark);
        }
    }

    #[test]
    fn keys_with_one_hash_are_refused_not_mixed_up() {
        let single = NewValue::Single(Payload::Ref(b"of b"));
        let records = || NewValue::Array {
            record_bytes: 1,
            extents: smallvec![Recx::new(0, 4)],
            data: Payload::Ref(b"of b"),
        };
        let room = Want::Single { room_bytes: 64 };
        let array = Want::Array { record_bytes: 1, extents: [Recx::new(0, 4)].into_iter().collect() };
        for (value, want) in [(single, room.clone()), (records(), array)] {
            let mut target = target();
            ask(&mut target, update(b"b", value, Cond::NONE)).result.expect("nothing is in the way");
            collide(&mut target);
            assert!(matches!(ask(&mut target, fetch(b"b", want.clone())).result, Ok(Reply::Fetched(_))));
            let refused = ask(&mut target, fetch(b"a", want)).result;
            assert!(matches!(refused, Err(Error::HashCollision)), "{refused:?}");
        }
        let mut target = target();
        ask(&mut target, update(b"b", records(), Cond::NONE)).result.expect("nothing is in the way");
        collide(&mut target);
        let refused = ask(&mut target, update(b"a", records(), Cond::NONE)).result;
        assert!(matches!(refused, Err(Error::HashCollision)), "{refused:?}");
        // A punch of the one would hide the other.
        let mut target = self::target();
        let scope = PunchScope::Akeys(Key::from_slice(b"d"), smallvec![Key::from_slice(b"b")]);
        let punch = Verb::Punch(Punch { oid: oid(), scope, cond: Cond::NONE });
        ask(&mut target, punch).result.expect("nothing is in the way");
        collide(&mut target);
        let refused = ask(&mut target, fetch(b"a", room)).result;
        assert!(matches!(refused, Err(Error::HashCollision)), "{refused:?}");
    }

    #[test]
    fn two_record_sizes_visible_in_one_array_are_found_by_check() {
        let write = |target: &mut Target, index: u64, record_bytes: u32| {
            let data = Payload::Ref(&b"12345678"[..record_bytes as usize]);
            let extents = smallvec![Recx::new(index, 1)];
            let value = NewValue::Array { record_bytes: u64::from(record_bytes), extents, data };
            ask(target, update(b"a", value, Cond::NONE)).result.map(|_| ())
        };
        let check = |target: &mut Target| {
            let Ok(Reply::Audited(audit)) = ask(target, Verb::Check).result else {
                panic!("an audit goes on")
            };
            audit.findings
        };
        let punch = |target: &mut Target| {
            let scope = PunchScope::Akeys(Key::from_slice(b"d"), smallvec![Key::from_slice(b"a")]);
            ask(target, Verb::Punch(Punch { oid: oid(), scope, cond: Cond::NONE })).result.expect("it goes");
        };
        let mut target = target();
        write(&mut target, 0, 8).expect("nothing is in the way");
        punch(&mut target);
        write(&mut target, 5, 1).expect("what was there is hidden");
        assert_eq!(check(&mut target), []);
        // The short way says what is not so.
        let mut path = Path::default();
        path.object(CONT, SECRET, oid()).expect("a known type");
        path.down(Depth::Akey, b"d", b"a").expect("good keys");
        target.store.record_sizes.note(&path, 4);
        write(&mut target, limits::WINDOW_RECORDS * 3, 4).expect("nobody looks again");
        let found = check(&mut target);
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert_eq!(finding.rule, "record-size");
        let Place::Value { extent, akey, .. } = &finding.place else { panic!("{finding:?}") };
        assert_eq!((&akey[..], *extent), (&b"a"[..], Some(Recx::new(limits::WINDOW_RECORDS * 3, 1))));
        punch(&mut target);
        assert_eq!(check(&mut target), []);
    }

    #[test]
    fn an_account_that_is_wrong_in_any_part_is_found_by_check() {
        let mut target = target();
        let single = |bytes: &'static [u8]| NewValue::Single(Payload::Ref(bytes));
        ask(&mut target, update(b"a", single(&[1; 100]), Cond::NONE)).result.expect("nothing is in the way");
        ask(&mut target, update(b"b", single(&[2; 200_000]), Cond::NONE))
            .result
            .expect("nothing is in the way");
        let right = target.conts.find(CONT).expect("made above").state.usage;
        assert!(right.small_bytes == 100 && right.bulk_bytes >= 200_000, "{right:?}");
        let wrong = [
            Usage { versions: right.versions + 1, ..right },
            Usage { value_bytes: right.value_bytes - 1, ..right },
            Usage { bulk_bytes: right.bulk_bytes - limits::BULK_UNIT_BYTES, ..right },
            Usage { small_bytes: right.small_bytes + 1, ..right },
            right,
        ];
        for usage in wrong {
            target.conts.find_mut(CONT).expect("made above").state.usage = usage;
            let Ok(Reply::Audited(audit)) = ask(&mut target, Verb::Check).result else {
                panic!("it goes on")
            };
            let rules: Vec<&str> = audit.findings.iter().map(|finding| finding.rule).collect();
            assert_eq!(rules, if usage == right { &[][..] } else { &["usage"] }, "{usage:?}");
        }
    }

    /// Who wrote the newest version of an akey.
    fn writer_of(target: &mut Target, akey: &[u8]) -> Credentials {
        let mut path = Path::default();
        path.object(CONT, SECRET, oid()).expect("a known type");
        path.down(Depth::Akey, b"d", akey).expect("good keys");
        let view = target.conts.find(CONT).expect("made above").view(Epoch::MAX);
        let entry = target.store.newest(&mut path, VersionKind::Single, &view).expect("it is whole");
        let number = target.store.version(&entry.expect("written").place).expect("it is whole").cred;
        let found = target.creds.iter().find(|(_, of)| **of == number);
        *found.expect("known by number").0
    }

    #[test]
    fn every_version_carries_the_credentials_of_its_writer() {
        let who = |uid: u32| Credentials { uid, gid: uid + 100, project: uid + 1000 };
        let keys: [&[u8]; 5] = [b"k0", b"k1", b"k2", b"k3", b"k4"];
        let drive = SimDrive::new(SimConfig::default());
        let mut target = target_on(&drive);
        let write = |target: &mut Target, akey: &[u8], uid: u32, in_tx: bool| {
            let Verb::Update(update) = update(akey, NewValue::Single(Payload::Ref(b"x")), Cond::NONE) else {
                unreachable!("it is one")
            };
            let verb = if in_tx {
                let epoch = target.epochs.latest().next();
                let tx = TxId { client: 9, begin: epoch };
                let participants = [target.config.target].into_iter().collect();
                let mutations = vec![Mutation::Update(update)];
                let leader = target.config.target;
                Verb::Prepare(Prepare { tx, epoch, leader, participants, mutations })
            } else {
                Verb::Update(update)
            };
            let head = Head { cred: who(uid), ..Head::default() };
            target.submit(&mut vec![Op { token: 1, head, cont: CONT, verb }]);
            let mut out = Vec::new();
            target.poll(true, &mut out);
            out.pop().expect("one completion").result.expect("nothing is in the way");
        };
        // Some of them more than once, so that their numbers are found again.
        for (akey, uid) in keys.iter().zip([7, 8, 7, 9, 8]) {
            write(&mut target, akey, uid, uid == 9);
        }
        let all = |target: &mut Target| keys.map(|akey| writer_of(target, akey));
        assert_eq!(all(&mut target), [7, 8, 7, 9, 8].map(who));
        ask(&mut target, Verb::Checkpoint).result.expect("the device works");
        assert_eq!(all(&mut target), [7, 8, 7, 9, 8].map(who), "in a run");
        write(&mut target, keys[0], 10, false);
        write(&mut target, keys[1], 9, false);
        drop(target);
        let (mut target, _) =
            Target::open(devices(&drive), clock(), &TargetConfig::default()).expect("whole");
        assert_eq!(all(&mut target), [10, 9, 7, 9, 8].map(who), "after a replay");
        write(&mut target, keys[2], 11, true);
        assert_eq!(all(&mut target), [10, 9, 11, 9, 8].map(who));
    }

    /// Whether the short way leads to akey `a`.
    fn is_known(target: &Target) -> bool {
        let mut path = Path::default();
        path.object(CONT, SECRET, oid()).expect("a known type");
        path.down(Depth::Akey, b"d", b"a").expect("good keys");
        target.store.hot_version(&path, VersionKind::Single, 0).is_some()
    }

    fn fetched_bytes(target: &mut Target) -> Vec<u8> {
        let done = ask(target, fetch(b"a", Want::Single { room_bytes: 64 }));
        let Ok(Reply::Fetched(fetched)) = done.result else { panic!("another reply") };
        let len = usize::try_from(fetched[0].size_bytes).expect("short");
        done.buf.expect("the buffer is back")[..len].to_vec()
    }

    #[test]
    fn what_was_found_the_long_way_is_found_the_short_way_from_then_on() {
        let single = |bytes: &'static [u8]| NewValue::Single(Payload::Ref(bytes));
        let aggregate = |target: &mut Target| {
            let verb = || Verb::Cont(ContVerb::Aggregate(Epoch::MAX));
            while !matches!(ask(target, verb()).result, Ok(Reply::Aggregated { more: false, .. })) {}
        };
        let drive = SimDrive::new(SimConfig::default());
        let mut target = target_on(&drive);
        ask(&mut target, update(b"a", single(b"one"), Cond::NONE)).result.expect("nothing is in the way");
        let before = target.epochs.latest();
        target.close().expect("the device works");

        let (mut target, _) =
            Target::open(devices(&drive), clock(), &TargetConfig::default()).expect("whole");
        assert!(!is_known(&target));
        assert_eq!(fetched_bytes(&mut target), b"one");
        assert!(is_known(&target));
        assert_eq!(fetched_bytes(&mut target), b"one");
        // A newer version takes its place; an older one that somebody looks back at does not.
        ask(&mut target, update(b"a", single(b"two"), Cond::NONE)).result.expect("nothing is in the way");
        let mut back = fetch(b"a", Want::Single { room_bytes: 64 });
        if let Verb::Fetch(fetch) = &mut back {
            fetch.at = ReadAt::Epoch(before);
        }
        assert_eq!(&ask(&mut target, back).buf.expect("the buffer is back")[..3], b"one");
        assert_eq!(fetched_bytes(&mut target), b"two");
        target.close().expect("the device works");

        // What is gone with the punch that hid it is not found by the way that was noted before.
        let (mut target, _) =
            Target::open(devices(&drive), clock(), &TargetConfig::default()).expect("whole");
        assert_eq!(fetched_bytes(&mut target), b"two");
        assert!(is_known(&target));
        let scope = PunchScope::Akeys(Key::from_slice(b"d"), smallvec![Key::from_slice(b"a")]);
        let punch = Verb::Punch(Punch { oid: oid(), scope, cond: Cond::NONE });
        ask(&mut target, punch).result.expect("nothing is in the way");
        assert_eq!(fetched_bytes(&mut target), b"");
        aggregate(&mut target);
        aggregate(&mut target);
        assert!(!is_known(&target));
        assert_eq!(fetched_bytes(&mut target), b"");
    }
}
