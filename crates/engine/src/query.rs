//! Key queries: the largest or smallest dkey, akey or record.
//!
//! The index is walked from the end that is asked for, key by key, until one has what is asked below it.

use crate::conts::View;
use crate::marks::Scope;
use crate::path::{Depth, Path};
use crate::store::{HotHit, Store};
use crate::target::Target;
use crate::tree::key::decode_key;
use dolmen_codec::verb::{Found, Query};
use dolmen_types::{ContNo, Error, Invalid, Key, KeyKind, QueryFlags, Recx, Stamp};

impl Target {
    pub(crate) fn query(&mut self, cont: ContNo, query: &Query) -> Result<Option<Found>, Error> {
        let max = query.flags.has(QueryFlags::MAX);
        if max == query.flags.has(QueryFlags::MIN) {
            return Err(Invalid::Flags.into());
        }
        let view = self.read_view(cont, query.at)?;
        self.txs.refuse_undecided_read(cont, query.oid, None, None, view.at)?;
        let secret = self.conts.find(cont)?.state.spec.hash_key;
        let mut path = self.store.take_path();
        path.object(cont, secret, query.oid)?;
        let hashed = |asked: QueryFlags, kind: KeyKind| query.flags.has(asked) && kind == KeyKind::Hashed;
        if hashed(QueryFlags::DKEY, path.dkey_kind) || hashed(QueryFlags::AKEY, path.akey_kind) {
            return Err(Invalid::Query.into());
        }
        if path.dkey_kind == KeyKind::Uint64 {
            self.store.prefetch_sole(&path);
        }
        self.reads.raise(Scope::ObjectTree, path.object_hash, view.at);
        self.reads.raise(Scope::ObjectScan, path.object_hash, view.at);
        let mut search = Search { flags: query.flags, max, view, query };
        let found = match search.sole_extent(&mut self.store, &mut path)? {
            Some(found) => found,
            None => search.dkeys(&mut self.store, &mut path)?,
        };
        self.store.put_path(path);
        Ok(found)
    }
}

struct Search<'q> {
    flags: QueryFlags,
    max: bool,
    view: View,
    query: &'q Query,
}

impl Search<'_> {
    /// The short way to the first or last record of an object that was written at once; `None` if there is no such way.
    fn sole_extent(&self, store: &mut Store, path: &mut Path) -> Result<Option<Option<Found>>, Error> {
        let is_asked = self.flags.has(QueryFlags::DKEY)
            && self.flags.has(QueryFlags::RECX)
            && !self.flags.has(QueryFlags::AKEY)
            && path.dkey_kind == KeyKind::Uint64;
        if !is_asked || !self.view.is_plain() {
            return Ok(None);
        }
        let akey = &self.query.akey;
        let Some((dkey, HotHit { stamp, stored: Some(_), record_bytes, recx })) =
            store.sole_of_object(path, akey)
        else {
            return Ok(None);
        };
        if stamp.epoch > self.view.at {
            return Ok(None);
        }
        let dkey = Key::from_slice(dkey);
        path.dkey(&dkey)?;
        path.akey(akey)?;
        let cover = store.cover(path, Depth::Akey, &self.view)?;
        path.up(Depth::Object);
        if stamp <= cover {
            return Ok(Some(None));
        }
        let record = if self.max { recx.index + recx.count - 1 } else { recx.index };
        Ok(Some(Some(Found {
            dkey,
            akey: akey.clone(),
            recx: Some(Recx::new(record, 1)),
            record_bytes: u64::from(record_bytes),
        })))
    }

    fn dkeys(&mut self, store: &mut Store, path: &mut Path) -> Result<Option<Found>, Error> {
        let is_empty_array = self.flags.has(QueryFlags::DKEY)
            && self.flags.has(QueryFlags::RECX)
            && path.dkey_kind == KeyKind::Uint64
            && !store.may_have_extents(path);
        if is_empty_array {
            return Ok(None);
        }
        let cover = store.cover(path, Depth::Object, &self.view)?;
        if !self.flags.has(QueryFlags::DKEY) {
            path.dkey(&self.query.dkey)?;
            let cover = store.own_cover(path, Depth::Dkey, &self.view, cover)?;
            return self.akeys(store, path, cover, self.query.dkey.clone());
        }
        let kind = path.dkey_kind;
        let mut bound: Option<Key> = None;
        while let Some(encoded) = candidate(store, path, Depth::Dkey, self.max, bound.as_deref())? {
            path.dkey_encoded(&encoded);
            let dkey_cover = store.own_cover(path, Depth::Dkey, &self.view, cover)?;
            let dkey = decode_key(&encoded, kind).ok_or(Invalid::Query)?;
            if let Some(found) = self.akeys(store, path, dkey_cover, dkey)? {
                path.up(Depth::Object);
                return Ok(Some(found));
            }
            path.up(Depth::Object);
            bound = Some(encoded);
        }
        Ok(None)
    }

    fn akeys(
        &mut self,
        store: &mut Store,
        path: &mut Path,
        cover: Stamp,
        dkey: Key,
    ) -> Result<Option<Found>, Error> {
        if !self.flags.has(QueryFlags::AKEY) {
            if !self.flags.has(QueryFlags::RECX) {
                let exists = store.exists(path, Depth::Dkey, &self.view, cover)?;
                return Ok(exists.then(|| Found { dkey, ..Found::default() }));
            }
            path.akey(&self.query.akey)?;
            let cover = store.own_cover(path, Depth::Akey, &self.view, cover)?;
            return self.records(store, path, cover, dkey, self.query.akey.clone());
        }
        let kind = path.akey_kind;
        let mut bound: Option<Key> = None;
        while let Some(encoded) = candidate(store, path, Depth::Akey, self.max, bound.as_deref())? {
            path.akey_encoded(&encoded);
            let akey_cover = store.own_cover(path, Depth::Akey, &self.view, cover)?;
            let akey = decode_key(&encoded, kind).ok_or(Invalid::Query)?;
            let found = if self.flags.has(QueryFlags::RECX) {
                self.records(store, path, akey_cover, dkey.clone(), akey)?
            } else {
                let exists = store.exists(path, Depth::Akey, &self.view, akey_cover)?;
                exists.then(|| Found { dkey: dkey.clone(), akey, ..Found::default() })
            };
            path.up(Depth::Dkey);
            if found.is_some() {
                return Ok(found);
            }
            bound = Some(encoded);
        }
        Ok(None)
    }

    fn records(
        &mut self,
        store: &mut Store,
        path: &mut Path,
        cover: Stamp,
        dkey: Key,
        akey: Key,
    ) -> Result<Option<Found>, Error> {
        let found = if self.max {
            store.last_record(path, &self.view, cover)?
        } else {
            store.first_record(path, 0, &self.view, cover)?
        };
        Ok(found.map(|(record, record_bytes)| Found {
            dkey,
            akey,
            recx: Some(Recx::new(record, 1)),
            record_bytes: u64::from(record_bytes),
        }))
    }
}

/// The next key to look at, smallest or largest first, strictly beyond `bound`.
fn candidate(
    store: &mut Store,
    path: &Path,
    of: Depth,
    max: bool,
    bound: Option<&[u8]>,
) -> Result<Option<Key>, Error> {
    if path.kind(of) == KeyKind::Hashed {
        return Err(Invalid::Query.into());
    }
    if max { store.key_before(path, of, bound) } else { store.next_key(path, of, bound) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Devices, TargetConfig};
    use crate::path::Path;
    use dolmen_codec::order::HashKey;
    use dolmen_codec::verb::{
        ContSpec, ContVerb, Fetch, FetchIod, FetchedIod, Mutation, NewValue, Payload, Prepare, Punch,
        PunchScope, ReadAt, Reply, Update, UpdateIod, Verb, Want,
    };
    use dolmen_codec::version::VersionKind;
    use dolmen_codec::{Op, TargetStore};
    use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
    use dolmen_types::{Cond, Durability, Head, IoBuf, ObjectClass, ObjectType, Oid, TargetNo, TxId};
    use smallvec::smallvec;

    const CONT: ContNo = ContNo(1);
    const SECRET: HashKey = HashKey([5; 16]);
    const AKEY: &[u8] = b"a";

    fn target() -> Target {
        let config = SimConfig { media: dolmen_env::Media::Mapped, ..SimConfig::default() };
        let meta = Box::new(SimDisk::new(&SimDrive::new(config)));
        let clock = std::sync::Arc::new(dolmen_env::SimClock::new(1_800_000_000_000_000_000));
        let devices = Devices { meta, bulk: None };
        let mut target = Target::create(devices, clock, 7, &TargetConfig::default()).expect("room");
        let spec = ContSpec { hash_key: SECRET, durability: Durability::Process };
        ask(&mut target, Verb::Cont(ContVerb::Create(spec)));
        target
    }

    fn ask(target: &mut Target, verb: Verb<'_>) -> Reply {
        target.submit(&mut vec![Op { token: 1, head: Head::default(), cont: CONT, verb }]);
        let mut out = Vec::new();
        target.poll(true, &mut out);
        out.pop().expect("one completion").result.expect("nothing is in the way")
    }

    fn oid(number: u64) -> Oid {
        Oid::new(ObjectType::ArrayByte, ObjectClass::S1, 0, number)
    }

    fn key(number: u64) -> Key {
        Key::from_slice(&number.to_le_bytes())
    }

    fn set(target: &mut Target, oid: Oid, dkey: u64, value: NewValue<'_>) {
        let iods = smallvec![UpdateIod { akey: Key::from_slice(AKEY), cond: Cond::NONE, value }];
        ask(target, Verb::Update(Update { oid, dkey: key(dkey), cond: Cond::NONE, iods, charged: None }));
    }

    fn write(target: &mut Target, oid: Oid, dkey: u64, index: u64, data: &[u8]) {
        let extents = smallvec![Recx::new(index, data.len() as u64)];
        set(target, oid, dkey, NewValue::Array { record_bytes: 1, extents, data: Payload::Ref(data) });
    }

    /// Dkey and number of the last record.
    fn last(target: &mut Target, oid: Oid) -> Option<(u64, u64)> {
        let flags = QueryFlags::MAX.and(QueryFlags::DKEY).and(QueryFlags::RECX);
        let query = Query { oid, flags, dkey: Key::new(), akey: Key::from_slice(AKEY), at: ReadAt::Latest };
        let Reply::Found(found) = ask(target, Verb::Query(query)) else { panic!("another reply") };
        found.map(|found| {
            let dkey = u64::from_le_bytes(found.dkey[..].try_into().expect("an integer"));
            (dkey, found.recx.expect("a record").index)
        })
    }

    fn read(target: &mut Target, oid: Oid, dkey: u64, recx: Recx) -> (FetchedIod, Vec<u8>) {
        fetch(target, oid, dkey, Want::Array { record_bytes: 1, extents: [recx].into_iter().collect() }, 64)
    }

    fn fetch(target: &mut Target, oid: Oid, dkey: u64, want: Want, room: usize) -> (FetchedIod, Vec<u8>) {
        let iods = smallvec![FetchIod { akey: Key::from_slice(AKEY), want }];
        let buf = IoBuf::zeroed(room);
        let fetch = Fetch { oid, dkey: key(dkey), cond: Cond::NONE, at: ReadAt::Latest, iods, buf };
        target.submit(&mut vec![Op {
            token: 1,
            head: Head::default(),
            cont: CONT,
            verb: Verb::Fetch(fetch),
        }]);
        let mut out = Vec::new();
        target.poll(true, &mut out);
        let done = out.pop().expect("one completion");
        let Ok(Reply::Fetched(mut fetched)) = done.result else { panic!("another reply") };
        (fetched.pop().expect("one iod"), done.buf.expect("the buffer is back").to_vec())
    }

    fn is_sole(target: &Target, oid: Oid) -> bool {
        let mut path = Path::default();
        path.object(CONT, SECRET, oid).expect("a known type");
        target.store.sole_of_object(&path, AKEY).is_some()
    }

    #[test]
    fn an_array_written_at_once_has_a_short_way_until_there_is_more() {
        let mut target = target();
        let file = oid(1);
        write(&mut target, file, 1, 2, b"0123456789");
        assert!(is_sole(&target, file));
        assert_eq!(last(&mut target, file), Some((1, 11)));
        let (found, bytes) = read(&mut target, file, 1, Recx::new(0, 20));
        assert_eq!((&found.filled[..], &bytes[2..12]), (&[Recx::new(2, 10)][..], &b"0123456789"[..]));
        let (found, bytes) = read(&mut target, file, 1, Recx::new(5, 3));
        assert_eq!((&found.filled[..], &bytes[..3]), (&[Recx::new(5, 3)][..], &b"345"[..]));
        let (found, _) = read(&mut target, file, 1, Recx::new(30, 3));
        assert_eq!((found.filled.len(), found.size_bytes), (0, 1));
        assert_eq!(read(&mut target, file, 2, Recx::new(2, 3)).0, FetchedIod::default());

        write(&mut target, file, 1, 0, b"abcdefghijklmnop");
        assert!(is_sole(&target, file), "all of it was written over");
        assert_eq!(last(&mut target, file), Some((1, 15)));
        write(&mut target, file, 1, 4, b"wxyz");
        assert!(!is_sole(&target, file), "a part was written over");
        assert_eq!(&read(&mut target, file, 1, Recx::new(2, 8)).1[..8], b"cdwxyzij");
        assert_eq!(last(&mut target, file), Some((1, 15)));

        for (number, more) in [(2, 2), (3, 9)] {
            write(&mut target, oid(number), 3, 0, b"three");
            assert!(is_sole(&target, oid(number)));
            write(&mut target, oid(number), more, 0, b"0123456789");
            assert!(!is_sole(&target, oid(number)), "there is another dkey");
            assert_eq!(last(&mut target, oid(number)), Some(if more > 3 { (more, 9) } else { (3, 4) }));
        }
    }

    #[test]
    fn a_read_tells_the_end_of_an_object_only_where_nothing_lies_behind() {
        let mut target = target();
        let is_end = |target: &mut Target, oid, recx| read(target, oid, 1, recx).0.is_end;
        write(&mut target, oid(1), 1, 2, b"0123456789");
        assert!(
            is_end(&mut target, oid(1), Recx::new(0, 20)) && is_end(&mut target, oid(1), Recx::new(11, 2))
        );
        assert!(
            !is_end(&mut target, oid(1), Recx::new(0, 12)),
            "the last record was asked for, and none behind it"
        );
        assert!(!is_end(&mut target, oid(1), Recx::new(12, 3)), "without a record there is nothing to end");
        write(&mut target, oid(1), 2, 0, b"x");
        assert!(!is_end(&mut target, oid(1), Recx::new(0, 20)), "there is another dkey");
        write(&mut target, oid(2), 1, 0, b"01234");
        write(&mut target, oid(2), 1, 10, b"x");
        assert!(!is_end(&mut target, oid(2), Recx::new(0, 8)), "there is another record");
        write(&mut target, oid(3), 1, 0, b"01234");
        let punch = Punch { oid: oid(3), scope: PunchScope::Object, cond: Cond::NONE };
        ask(&mut target, Verb::Punch(punch));
        assert!(!is_end(&mut target, oid(3), Recx::new(0, 8)), "nothing is left");
        write(&mut target, oid(5), 1, 0, b"01234");
        let data = Payload::Ref(b"x");
        let value = NewValue::Array { record_bytes: 1, extents: smallvec![Recx::new(0, 1)], data };
        let iods = smallvec![UpdateIod { akey: Key::from_slice(AKEY), cond: Cond::NONE, value }];
        let update = Update { oid: oid(5), dkey: key(2), cond: Cond::NONE, iods, charged: None };
        let (epoch, leader) = (target.epochs.latest().next(), target.config.target);
        let (tx, mutations) = (TxId { client: 9, begin: epoch }, vec![Mutation::Update(update)]);
        let participants = [leader, TargetNo(1)].into_iter().collect();
        ask(&mut target, Verb::Prepare(Prepare { tx, epoch, leader, participants, mutations }));
        assert!(!is_end(&mut target, oid(5), Recx::new(0, 8)), "what is undecided may lie behind");
        ask(&mut target, Verb::Abort(tx));
        assert!(is_end(&mut target, oid(5), Recx::new(0, 8)));
        let hashed = Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 0, 4);
        write(&mut target, hashed, 1, 0, b"01234");
        assert!(!is_end(&mut target, hashed, Recx::new(0, 8)), "other dkeys are not known");
    }

    #[test]
    fn an_object_without_extents_has_no_last_record_whatever_runs_have() {
        let mut target = target();
        for number in 1..4 {
            set(&mut target, oid(number), 1, NewValue::Single(Payload::Ref(b"a single value")));
            write(&mut target, oid(10 + number), 1, 0, b"0123456789");
            write(&mut target, oid(10 + number), 2, 0, b"0123456789");
            ask(&mut target, Verb::Checkpoint);
        }
        for number in 1..4 {
            assert_eq!(last(&mut target, oid(number)), None);
            assert_eq!(last(&mut target, oid(10 + number)), Some((2, 9)));
        }
        write(&mut target, oid(1), 3, 5, b"x");
        write(&mut target, oid(1), 2, 5, b"x");
        assert_eq!(last(&mut target, oid(1)), Some((3, 5)));
        ask(&mut target, Verb::Checkpoint);
        assert_eq!(last(&mut target, oid(1)), Some((3, 5)));
    }

    #[test]
    fn what_was_removed_has_no_short_way() {
        let mut target = target();
        let punch = |scope| Verb::Punch(Punch { oid: oid(1), scope, cond: Cond::NONE });
        for scope in [
            PunchScope::Object,
            PunchScope::Dkey(key(1)),
            PunchScope::Akeys(key(1), smallvec![Key::from_slice(AKEY)]),
        ] {
            write(&mut target, oid(1), 1, 0, b"0123456789");
            assert_eq!(last(&mut target, oid(1)), Some((1, 9)));
            ask(&mut target, punch(scope));
            assert_eq!(last(&mut target, oid(1)), None);
            assert_eq!(read(&mut target, oid(1), 1, Recx::new(0, 4)).0, FetchedIod::default());
        }
        write(&mut target, oid(2), 1, 0, b"0123456789");
        set(&mut target, oid(2), 1, NewValue::Hole { extents: smallvec![Recx::new(5, 5)] });
        assert_eq!(last(&mut target, oid(2)), Some((1, 4)));
        assert_eq!(&read(&mut target, oid(2), 1, Recx::new(3, 5)).0.filled[..], &[Recx::new(3, 2)]);
    }

    #[test]
    fn values_that_aggregation_moves_keep_their_short_way() {
        let mut target = target();
        let value = |dkey: u64, round: u8| {
            let mut bytes = vec![round; 3000];
            bytes[..8].copy_from_slice(&dkey.to_le_bytes());
            bytes
        };
        for (round, step) in [(0, 1), (1, 2), (2, 3)] {
            for dkey in (0..3000).step_by(step) {
                set(&mut target, oid(1), dkey, NewValue::Single(Payload::Ref(&value(dkey, round))));
            }
        }
        let places = |target: &mut Target| -> Vec<Option<crate::log::LogPlace>> {
            let mut path = Path::default();
            path.object(CONT, SECRET, oid(1)).expect("a known type");
            let place = |dkey: u64| {
                path.dkey(&key(dkey)).and_then(|()| path.akey(AKEY)).expect("a key of its type");
                let hash = path.hot_hash(VersionKind::Single, 0);
                let found = target.store.hot_version(&path, VersionKind::Single, 0);
                let place = found.and_then(|_| target.store.hot.candidates(hash).next());
                path.up(Depth::Object);
                place
            };
            (0..3000).map(place).collect()
        };
        let before = places(&mut target);
        // The second one moves what the first has left in segments that it has emptied.
        for _ in 0..2 {
            let aggregate = || Verb::Cont(ContVerb::Aggregate(dolmen_types::Epoch::MAX));
            while !matches!(ask(&mut target, aggregate()), Reply::Aggregated { more: false, .. }) {}
        }
        let after = places(&mut target);
        let moved = before.iter().zip(&after).filter(|(before, after)| after.is_some() && before != after);
        assert!(moved.count() > 500, "values move");
        // Some make room for others in the table.
        let known = |places: &[Option<crate::log::LogPlace>]| places.iter().flatten().count();
        assert!(known(&before) > 2500 && known(&after) > known(&before) - 100);
        for dkey in 0..3000 {
            let round = if dkey % 3 == 0 { 2 } else { u8::from(dkey % 2 == 0) };
            let (_, bytes) = fetch(&mut target, oid(1), dkey, Want::Single { room_bytes: 3000 }, 3000);
            assert_eq!(bytes, value(dkey, round), "dkey {dkey}");
        }
    }
}
