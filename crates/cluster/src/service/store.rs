//! The system container: where the service keeps its records, on target 0, through the verbs of every target.
//!
//! One object; its integer dkeys are container numbers (0 is the pool itself), its akeys name the records.
//! One change is one update of one dkey, so it is there after a crash entirely or not at all.

use crate::dispatch::{Targets, plain};
use dolmen_codec::verb::{
    ContVerb, Fetch, FetchIod, List, ListWhat, Listed, NewValue, Payload, Punch, PunchScope, ReadAt, Reply,
    Update, UpdateIod, Verb, Want,
};
use dolmen_codec::{Op, TargetStore};
use dolmen_types::{
    Anchor, Cond, ContNo, Epoch, Error, IoBuf, Key, ObjectClass, ObjectType, Oid, Place, Result, TargetNo,
};
use smallvec::{SmallVec, smallvec};

/// Where the records are.
pub(crate) const HOME: TargetNo = TargetNo(0);

pub(crate) const META: &[u8] = b"meta";
/// Of the pool itself: whose it is, and who may do what.
pub(crate) const PROPS: &[u8] = b"props";
pub(crate) const INTENT: &[u8] = dolmen_codec::verb::INTENT_AKEY;
pub(crate) const SNAPSHOT_PREFIX: &[u8] = b"snap:";
/// Before the epoch of a snapshot that was destroyed, and that some target may still keep. It begins as `INTENT` does.
pub(crate) const GONE_PREFIX: &[u8] = b"intent:";
/// Before the number of a slot that holds an answer. It begins as `INTENT` does: what removes is answered on a full target, too.
pub(crate) const ANSWER_PREFIX: &[u8] = b"intent-done:";
/// When the container was used and changed last. It begins as `INTENT` does, as answers do.
pub(crate) const TIMES: &[u8] = b"intent-times";
pub(crate) const ATTR_PREFIX: &[u8] = b"attr:";
/// Before the epoch of a snapshot, or before zero for the container itself.
pub(crate) const ORIGIN_PREFIX: &[u8] = b"from:";

/// Room for a record at the first attempt; larger ones say how much they need.
const ROOM_BYTES: usize = 4096;
const LIST_ITEMS_MAX: u32 = 4096;
const LIST_BYTES_MAX: u32 = 1 << 20;

/// A record to be written, or removed.
pub(crate) type Change<'a> = (&'a [u8], Option<&'a [u8]>);

fn records() -> Oid {
    Oid::new(ObjectType::DkeyUint64, ObjectClass::S1, 0, 1)
}

fn dkey(no: ContNo) -> Key {
    Key::from_slice(&u64::from(no.0).to_le_bytes())
}

/// Writes and removes records of one container in one step.
pub(crate) fn change<T: TargetStore>(targets: &Targets<T>, no: ContNo, changes: &[Change<'_>]) -> Result<()> {
    targets.call(HOME, update(no, changes)).result.map(|_| ())
}

/// As `change`, for several containers: a step each, in this order, and one wait for all.
pub(crate) fn change_each<T: TargetStore>(
    targets: &Targets<T>,
    changes: &[(ContNo, &[Change<'_>])],
) -> Result<()> {
    let mut ops = changes.iter().map(|(no, changes)| update(*no, changes)).collect();
    let mut answers = Vec::new();
    targets.call_many(HOME, &mut ops, &mut answers);
    answers.into_iter().try_for_each(|answer| answer.result.map(|_| ()))
}

/// As `change`, without waiting: it is durable with the next flush, and whether it was made is not known before the
/// records are read again.
pub(crate) fn change_later<T: TargetStore>(targets: &Targets<T>, no: ContNo, changes: &[Change<'_>]) {
    drop(targets.start(HOME, update(no, changes)));
}

fn update<'a>(no: ContNo, changes: &[Change<'a>]) -> Op<'a> {
    let iods: SmallVec<[_; 1]> = changes
        .iter()
        .map(|&(akey, bytes)| UpdateIod {
            akey: Key::from_slice(akey),
            cond: Cond::NONE,
            value: bytes.map_or(NewValue::NoSingle, |bytes| NewValue::Single(Payload::Ref(bytes))),
        })
        .collect();
    plain(
        ContNo::SYSTEM,
        Verb::Update(Update { oid: records(), dkey: dkey(no), cond: Cond::NONE, iods, charged: None }),
    )
}

/// Removes all records of a container, after changes of the pool's own that outlive it: a step each, and one wait. What has
/// become of those, and of the removal.
pub(crate) fn remove<T: TargetStore>(
    targets: &Targets<T>,
    no: ContNo,
    before: &[Change<'_>],
) -> (Result<()>, Result<()>) {
    let verb = Verb::Punch(Punch { oid: records(), scope: PunchScope::Dkey(dkey(no)), cond: Cond::NONE });
    let first = (!before.is_empty()).then(|| update(ContNo::SYSTEM, before));
    let mut ops = first.into_iter().chain([plain(ContNo::SYSTEM, verb)]).collect();
    let mut answers = Vec::new();
    targets.call_many(HOME, &mut ops, &mut answers);
    let removed = answers.pop().map_or(Ok(()), |answer| answer.result.map(|_| ()));
    (answers.into_iter().try_for_each(|answer| answer.result.map(|_| ())), removed)
}

/// The numbers of all containers that have records, ascending.
pub(crate) fn containers<T: TargetStore>(targets: &Targets<T>) -> Result<Vec<ContNo>> {
    let mut numbers = Vec::new();
    for key in listed(targets, &ListWhat::Dkeys(records()))? {
        let number =
            key.as_slice().try_into().ok().map(u64::from_le_bytes).and_then(|n| u32::try_from(n).ok());
        numbers.push(ContNo(number.ok_or_else(|| damaged(ContNo::SYSTEM, &key))?));
    }
    numbers.sort();
    Ok(numbers)
}

/// The names of a container's records, sorted.
pub(crate) fn names<T: TargetStore>(targets: &Targets<T>, no: ContNo) -> Result<Vec<Key>> {
    let mut names = listed(targets, &ListWhat::Akeys(records(), dkey(no)))?;
    names.sort();
    Ok(names)
}

/// A record; `None` if it is not there.
pub(crate) fn record<T: TargetStore>(
    targets: &Targets<T>,
    no: ContNo,
    akey: &[u8],
) -> Result<Option<Vec<u8>>> {
    let mut room_bytes = ROOM_BYTES;
    loop {
        let iod = FetchIod { akey: Key::from_slice(akey), want: Want::Single { room_bytes } };
        let fetch = Fetch {
            oid: records(),
            dkey: dkey(no),
            cond: Cond::NONE,
            at: ReadAt::Latest,
            iods: smallvec![iod],
            buf: IoBuf::zeroed(room_bytes),
        };
        let completion = targets.call(HOME, plain(ContNo::SYSTEM, Verb::Fetch(fetch)));
        match (completion.result, completion.buf) {
            (Ok(Reply::Fetched(found)), Some(buf)) => {
                let size = found.first().map_or(0, |iod| iod.size_bytes);
                let bytes = usize::try_from(size).ok().and_then(|size| buf.get(..size));
                let bytes = bytes.ok_or_else(|| damaged(no, akey))?;
                return Ok((size > 0).then(|| bytes.to_vec()));
            }
            (Err(Error::RecTooBig { needed_bytes }), _) if needed_bytes > room_bytes as u64 => {
                room_bytes = usize::try_from(needed_bytes).ok().ok_or_else(|| damaged(no, akey))?;
            }
            (Err(error), _) => return Err(error),
            (Ok(_), _) => return Err(damaged(no, akey)),
        }
    }
}

/// Makes every target go on from the pool's clock: after the wall clock has stepped back, a target that was idle
/// would take the epochs of the others for too far ahead.
pub(crate) fn lift_clocks<T: TargetStore>(targets: &Targets<T>, now: Epoch) -> Result<()> {
    targets.ask_all(|_| plain(ContNo::SYSTEM, Verb::Cont(ContVerb::RaiseFloor(now)))).map(|_| ())
}

/// What a record that cannot be decoded is reported as.
pub(crate) fn damaged(no: ContNo, akey: &[u8]) -> Error {
    let (oid, dkey, akey) = (records(), dkey(no), Key::from_slice(akey));
    Error::Corrupt {
        target: HOME,
        place: Box::new(Place::Value { cont: ContNo::SYSTEM, oid, dkey, akey, extent: None }),
    }
}

fn listed<T: TargetStore>(targets: &Targets<T>, what: &ListWhat) -> Result<Vec<Key>> {
    let mut anchor = Anchor::default();
    let mut keys = Vec::new();
    while !anchor.is_eof() {
        let list = List {
            what: what.clone(),
            anchor,
            items_max: LIST_ITEMS_MAX,
            bytes_max: LIST_BYTES_MAX,
            at: ReadAt::Latest,
        };
        match targets.call(HOME, plain(ContNo::SYSTEM, Verb::List(list))).result? {
            Reply::Listed(Listed::Keys(packed), next) => {
                keys.extend(packed.iter().map(Key::from_slice));
                anchor = next;
            }
            _ => return Err(damaged(ContNo::SYSTEM, b"")),
        }
    }
    Ok(keys)
}
