//! Changes of what the service knows: record first, then the targets, then the record of completion.

use super::record::{
    Answer, AnswerRecord, ContRecord, Intent, PoolRecord, Times, decode_attr, decode_origin,
    decode_pool_props, decode_snapshot, encode_attr, encode_origin, encode_pool_props, encode_snapshot,
};
use super::repeats::{Asked, Noted};
use super::store::{
    self, ANSWER_PREFIX, ATTR_PREFIX, Change, GONE_PREFIX, INTENT, META, ORIGIN_PREFIX, PROPS,
    SNAPSHOT_PREFIX, TIMES,
};
use super::{
    ATTR_NAME_BYTES_MAX, ATTR_VALUE_BYTES_MAX, ATTRS_MAX, CONTS_RESERVED, Changing, Cont, OIDS_RESERVED,
    SNAPSHOT_ATTEMPTS, SNAPSHOTS_MAX, State, props,
};
use crate::dispatch::{Targets, plain};
use crate::owned::EIO;
use dolmen_codec::TargetStore;
use dolmen_codec::evictions::Evictions;
use dolmen_codec::order::HashKey;
use dolmen_codec::pool::{ContHandle, ContName, PoolReply};
use dolmen_codec::verb::{ContVerb, Verb};
use dolmen_env::Secrets;
use dolmen_types::{
    ContNo, Epoch, Error, Head, Invalid, Key, Label, PropId, PropValue, Props, RequestId, Result, TargetNo,
    Uuid, limits,
};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Reads everything that is on record.
pub(super) fn load<T: TargetStore>(targets: &Targets<T>, secrets: Secrets) -> Result<State> {
    let mut state = State {
        conts: BTreeMap::new(),
        by_label: BTreeMap::new(),
        by_uuid: BTreeMap::new(),
        pool_attrs: BTreeSet::new(),
        pool_props: Props::new(),
        next_cont: 1,
        reserved_cont: 1,
        secrets,
        repeats: Box::default(),
        now: Epoch::ZERO,
    };
    let mut is_numbered = false;
    for no in store::containers(targets)? {
        if no == ContNo::SYSTEM {
            // Properties and attributes of a pool may be there before its first container, with which this comes.
            if let Some(bytes) = store::record(targets, no, META)? {
                let record = PoolRecord::decode(&bytes).ok_or_else(|| store::damaged(no, META))?;
                (state.next_cont, state.reserved_cont) = (record.next_cont, record.next_cont);
                is_numbered = true;
            }
            for name in store::names(targets, no)? {
                state.pool_attrs.extend(attr_name(&name));
                if name.as_slice() == PROPS {
                    state.pool_props = needed(targets, no, PROPS, decode_pool_props)?;
                }
                load_answer(targets, &mut state, no, &name)?;
            }
            continue;
        }
        let mut cont = Cont::new(needed(targets, no, META, ContRecord::decode)?);
        for name in store::names(targets, no)? {
            cont.attrs.extend(attr_name(&name));
            if name.as_slice() == INTENT {
                cont.unfinished = Some(needed(targets, no, INTENT, Intent::decode)?);
            }
            if name.as_slice() == TIMES {
                cont.times = needed(targets, no, TIMES, Times::decode)?;
            }
            let epoch_in = |bytes: &[u8]| {
                let epoch = bytes.try_into().ok().map(u64::from_le_bytes).map(Epoch);
                epoch.ok_or_else(|| store::damaged(no, &name))
            };
            if let Some(epoch) = name.strip_prefix(ORIGIN_PREFIX) {
                cont.origins.insert(epoch_in(epoch)?, needed(targets, no, &name, decode_origin)?);
            }
            if let Some(epoch) = name.strip_prefix(GONE_PREFIX) {
                cont.gone.insert(epoch_in(epoch)?);
            }
            if let Some(epoch) = name.strip_prefix(SNAPSHOT_PREFIX) {
                let epoch = epoch_in(epoch)?;
                cont.snapshots.insert(epoch, needed(targets, no, &name, decode_snapshot)?);
            }
            load_answer(targets, &mut state, no, &name)?;
        }
        state.insert(no, cont);
    }
    if !is_numbered && !state.conts.is_empty() {
        return Err(store::damaged(ContNo::SYSTEM, META));
    }
    Ok(state)
}

/// Reads an answer, if that is what the record is.
fn load_answer<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    no: ContNo,
    name: &Key,
) -> Result<()> {
    let Some(slot) = name.strip_prefix(ANSWER_PREFIX) else { return Ok(()) };
    let slot =
        slot.try_into().map(u16::from_le_bytes).map_err(|_of_another_length| store::damaged(no, name))?;
    let record = needed(targets, no, name, AnswerRecord::decode)?;
    if state.repeats.load(no, slot, record) { Ok(()) } else { Err(store::damaged(no, name)) }
}

/// The container of what this very request has begun, which is to be carried out before it is answered.
pub(super) fn begun(state: &mut State, asked: Asked) -> Result<Option<ContNo>> {
    let Some(kept) = state.repeats.answered(asked)? else { return Ok(None) };
    let no = kept.place.cont;
    let is_begun = match state.conts.get(&no).and_then(|cont| cont.unfinished) {
        Some(Intent::Create) => true,
        Some(Intent::Rollback { at, .. }) => kept.answer == Answer::Epoch(at),
        _ => false,
    };
    Ok(is_begun.then_some(no))
}

/// The answer to this very request, if it was carried out.
///
/// REQUIRES: nothing is begun for it.
pub(super) fn answered(state: &mut State, asked: Asked) -> Result<Option<PoolReply>> {
    Ok(state.repeats.answered(asked)?.map(|kept| match &kept.answer {
        Answer::Done => PoolReply::Done,
        Answer::Epoch(epoch) => PoolReply::Epoch(*epoch),
        Answer::Oids(first) => PoolReply::Oids(*first),
        Answer::Cont(no, record) => {
            let mut record = (**record).clone();
            let list = state.conts.get(no).and_then(|cont| cont.record.props.get(&PropId::CO_ACL));
            record.props.extend(list.map(|list| (PropId::CO_ACL, list.clone())));
            PoolReply::Cont(Cont::new(record).handle(*no))
        }
    }))
}

/// The same; what the request has begun is carried out first. One that had to be undone is done anew.
pub(super) fn finished_answer<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut Changing<'_>,
    asked: Asked,
) -> Result<Option<PoolReply>> {
    if let Some(no) = begun(state, asked)? {
        finish(targets, state, no)?;
    }
    answered(state, asked)
}

fn with_answer<'a>(changes: &[Change<'a>], noted: Option<&'a Noted>) -> SmallVec<[Change<'a>; 4]> {
    changes.iter().copied().chain(noted.map(Noted::change)).collect()
}

/// Changes records of one container, and says in the same step what whoever asked for it is answered.
fn change<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    no: ContNo,
    changes: &[Change<'_>],
    (asked, answer): (Asked, Answer),
) -> Result<()> {
    // Object numbers are of what is stored: who takes some changes nothing that the container is said to be.
    let is_dated = !changes.is_empty() && !matches!(answer, Answer::Oids(_));
    let noted = state.repeats.note(no, asked, answer);
    if noted.is_none() && changes.is_empty() {
        return Ok(());
    }
    let now = state.now;
    let times = state.conts.get(&no).filter(|_| is_dated).map(|cont| Times { changed: now, ..cont.times });
    let dated = times.map(Times::encode);
    let stale = state.repeats.removable(no, changes.len());
    let names: Vec<Vec<u8>> = stale.iter().map(|place| place.key()).collect();
    let mut all = with_answer(changes, noted.as_ref());
    all.extend(dated.iter().map(|times| -> Change<'_> { (TIMES, Some(times)) }));
    all.extend(names.iter().map(|name| -> Change<'_> { (name, None) }));
    let result = store::change(targets, no, &all);
    drop(all);
    state.repeats.settle(noted, result.is_ok());
    if result.is_ok() {
        if let (Some(cont), Some(times)) = (state.conts.get_mut(&no), times) {
            cont.times = times;
        }
        state.repeats.removed(&stale);
        sweep(targets, state);
    }
    result
}

/// Removes records of forgotten answers where too many lie about, so that whoever opens the pool next need not read them.
fn sweep<T: TargetStore>(targets: &Targets<T>, state: &mut State) {
    let crowd = state.repeats.crowd();
    let Some(no) = crowd.first().map(|place| place.cont) else { return };
    let names: Vec<Vec<u8>> = crowd.iter().map(|place| place.key()).collect();
    let changes: Vec<Change<'_>> = names.iter().map(|name| -> Change<'_> { (name, None) }).collect();
    // Should this be lost, opening reads them once more.
    store::change_later(targets, no, &changes);
    state.repeats.removed(&crowd);
}

/// Completes or undoes what is unfinished. What a target refuses now is tried again before the next change.
pub(super) fn finish_all<T: TargetStore>(targets: &Targets<T>, state: &mut Changing<'_>) {
    let is_unfinished = |cont: &Cont| cont.unfinished.is_some() || !cont.gone.is_empty();
    let unfinished: Vec<_> =
        state.conts.iter().filter(|(_, cont)| is_unfinished(cont)).map(|(&no, _)| no).collect();
    for no in unfinished {
        // Ignored: it stays on record, and every later change of the container that depends on it reports the failure.
        let _tried_again_later = finish(targets, state, no).and_then(|()| let_go(targets, state, no));
    }
}

/// Containers whose rollback not all targets may have carried out.
pub(super) fn rolling_back(state: &State) -> impl Iterator<Item = ContNo> + '_ {
    let is_one = |cont: &Cont| matches!(cont.unfinished, Some(Intent::Rollback { .. }));
    state.conts.iter().filter(move |(_, cont)| is_one(cont)).map(|(&no, _)| no)
}

/// A container that is to be made.
pub(super) struct Wanted {
    pub(super) uuid: Uuid,
    pub(super) label: Option<Label>,
    pub(super) props: Props,
}

/// The container that this very request has made before a restart.
fn made_by(state: &State, uuid: Uuid, id: RequestId) -> Option<ContHandle> {
    let no = *state.by_uuid.get(&uuid)?;
    let cont = state.live(no).ok()?;
    (id.sequence != 0 && cont.origins.get(&Epoch::ZERO) == Some(&id)).then(|| cont.handle(no))
}

pub(super) fn create<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut Changing<'_>,
    wanted: Wanted,
    head: &Head,
) -> Result<ContHandle> {
    let Wanted { uuid, label, props: wanted } = wanted;
    if !state.repeats.is_anothers(Asked::by(head))
        && let Some(handle) = made_by(state, uuid, head.id)
    {
        return Ok(handle);
    }
    let label = match (label, wanted.get(&PropId::CO_LABEL)) {
        (None, Some(PropValue::Text(text))) => Some(Label::new(text)?),
        (label, _) => label,
    };
    let mut kept = props::checked(wanted, props::When::Create)?;
    if uuid.is_nil() {
        return Err(Invalid::Argument.into());
    }
    if state.by_uuid.contains_key(&uuid) || label.as_ref().is_some_and(|l| state.by_label.contains_key(l)) {
        return Err(Error::Exists);
    }
    // A principal is a name and an @; a number stands for itself where nobody has looked up the name.
    let principal = |id: u32| PropValue::Text(format!("{id}@"));
    kept.entry(PropId::CO_OWNER).or_insert_with(|| principal(head.cred.uid));
    kept.entry(PropId::CO_OWNER_GROUP).or_insert_with(|| principal(head.cred.gid));
    let (no, reserved) = take_number(state)?;
    let hash_key = drawn(&mut state.secrets)?;
    let record = ContRecord { uuid, label, hash_key, oid_limit: 1, props: kept };
    let mut cont = Cont::new(record);
    cont.unfinished = Some(Intent::Create);
    cont.origins.insert(Epoch::ZERO, head.id);
    cont.times.changed = state.now;
    let (spec, asked) = (cont.spec(), Asked::by(head));
    put_on_record(targets, state, (no, &cont), reserved, asked)?;
    state.insert(no, cont);
    if let Err(error) = state.apart(|| on_all(targets, no, &ContVerb::Create(spec))) {
        // Its names are free at once: whatever becomes of it, it is not completed, nor was it ever answered.
        let answer_at = state.repeats.take_back(asked);
        let taken_back: SmallVec<[Change<'_>; 1]> =
            answer_at.iter().map(|name| (name.as_slice(), None)).collect();
        if intend(targets, state, no, Intent::Destroy, &taken_back).is_ok() {
            state.hide(no);
        }
        // Ignored: what cannot be undone now is undone when all engines are there; nobody sees it until then.
        let _undone_later = undo(targets, state, no);
        return Err(error);
    }
    // Should this be lost, opening finds the container on all targets and completes it.
    store::change_later(targets, no, &[(INTENT, None)]);
    let cont = state.conts.get_mut(&no).expect("inserted above");
    cont.unfinished = None;
    Ok(cont.handle(no))
}

/// A hash key from which no other follows: whoever opens a container is told its own.
fn drawn(secrets: &mut Secrets) -> Result<HashKey> {
    let no_entropy = |_entropy| Error::Io { target: TargetNo(0), errno: EIO };
    Ok(HashKey(secrets.next_u128().map_err(no_entropy)?.to_le_bytes()))
}

/// Puts a container on record that is about to be made, with what its creator is told then.
fn put_on_record<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    (no, cont): (ContNo, &Cont),
    reserved: u32,
    asked: Asked,
) -> Result<()> {
    let noted = state.repeats.note(no, asked, Answer::cont(no, cont.record.clone()));
    let (encoded, intent, times) = (cont.record.encode(), Intent::Create.encode(), cont.times.encode());
    let (origin_at, origin) = (origin_key(Epoch::ZERO), encode_origin(asked.id));
    let all: [Change<'_>; 3] = [(META, Some(&encoded)), (INTENT, Some(&intent)), (&origin_at, Some(&origin))];
    let mut changes = with_answer(told_by(asked.id, &all), noted.as_ref());
    changes.push((TIMES, Some(&times)));
    let result = if reserved == state.reserved_cont {
        store::change(targets, no, &changes)
    } else {
        let pool = PoolRecord { next_cont: reserved }.encode();
        store::change_each(targets, &[(ContNo::SYSTEM, &[(META, Some(&pool))]), (no, &changes)])
    };
    drop(changes);
    state.repeats.settle(noted, result.is_ok());
    result?;
    state.reserved_cont = reserved;
    sweep(targets, state);
    Ok(())
}

pub(super) fn destroy<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut Changing<'_>,
    name: &ContName,
    force: bool,
    asked: Asked,
) -> Result<()> {
    let no = state.find(name)?;
    if state.live(no)?.handles > 0 && !force {
        return Err(Error::Busy);
    }
    intend_and_tell(targets, state, no, Intent::Destroy, (asked, Answer::Done))?;
    state.hide(no);
    targets.accounts().forget(no);
    targets.parts().forget_limited(no);
    or_later(finish(targets, state, no))
}

/// What is on record is carried out when an engine that is gone is back: whoever has asked for it need not ask again.
fn or_later(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::Unreachable { .. }) => Ok(()),
        other => other,
    }
}

pub(super) fn set_props<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    no: ContNo,
    wanted: Props,
    asked: Asked,
) -> Result<()> {
    let label = match wanted.get(&PropId::CO_LABEL) {
        Some(PropValue::Text(text)) => Some(Label::new(text)?),
        _ => None,
    };
    let kept = props::checked(wanted, props::When::Later)?;
    let mut record = state.live(no)?.record.clone();
    record.props.extend(kept);
    if let Some(label) = label {
        if state.by_label.get(&label).is_some_and(|&taken| taken != no) {
            return Err(Error::Exists);
        }
        record.label = Some(label);
    }
    change(targets, state, no, &[(META, Some(&record.encode()))], (asked, Answer::Done))?;
    state.by_label.retain(|_, found| *found != no);
    if let Some(label) = &record.label {
        state.by_label.insert(label.clone(), no);
    }
    if let Some(cont) = state.conts.get_mut(&no) {
        cont.record = record;
    }
    Ok(())
}

/// Puts the record of a container in the place of that which it has.
pub(super) fn put_record<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    no: ContNo,
    record: ContRecord,
    told: (Asked, Answer),
) -> Result<()> {
    change(targets, state, no, &[(META, Some(&record.encode()))], told)?;
    state.conts.get_mut(&no).ok_or(Error::NoContainer)?.record = record;
    Ok(())
}

/// Sets whose the pool is, and who may do what.
pub(super) fn set_pool_props<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    wanted: Props,
    asked: Asked,
) -> Result<()> {
    let mut props = state.pool_props.clone();
    props.extend(props::checked_of_pool(wanted)?);
    let records: [Change<'_>; 1] = [(PROPS, Some(&encode_pool_props(&props)))];
    change(targets, state, ContNo::SYSTEM, &records, (asked, Answer::Done))?;
    state.pool_props = props;
    Ok(())
}

/// Puts on record that the handles of a user, or of all, have ended. Which those are, whoever has the connections knows; this
/// tells those who connect again.
pub(super) fn evict<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    no: ContNo,
    uid: Option<u32>,
    asked: Asked,
) -> Result<ContHandle> {
    let mut record = state.live(no)?.record.clone();
    let mut evictions = Evictions::of(&record.props);
    evictions.add(uid);
    record.props.insert(PropId::CO_EVICTIONS, PropValue::Bytes(evictions.encode()));
    let answer = Answer::cont(no, record.clone());
    change(targets, state, no, &[(META, Some(&record.encode()))], (asked, answer))?;
    let cont = state.conts.get_mut(&no).ok_or(Error::NoContainer)?;
    cont.record = record;
    Ok(cont.handle(no))
}

pub(super) fn set_attrs<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    no: Option<ContNo>,
    attrs: &[(String, Vec<u8>)],
    asked: Asked,
) -> Result<()> {
    let known = state.attrs(no)?;
    let new: BTreeMap<&str, &[u8]> =
        attrs.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    if new.keys().any(|name| !(1..=ATTR_NAME_BYTES_MAX).contains(&name.len())) {
        return Err(Invalid::Name.into());
    }
    if new.values().any(|value| value.len() > ATTR_VALUE_BYTES_MAX) {
        return Err(Invalid::Argument.into());
    }
    let added = new.keys().filter(|name| !known.contains(**name)).count();
    if new.is_empty() || new.len() > limits::IODS_MAX || known.len() + added > ATTRS_MAX {
        return Err(Invalid::Count.into());
    }
    let records: Vec<_> = new.iter().map(|(name, value)| (attr_key(name), encode_attr(value))).collect();
    let changes: Vec<_> =
        records.iter().map(|(key, value)| (key.as_slice(), Some(value.as_slice()))).collect();
    change(targets, state, no.unwrap_or(ContNo::SYSTEM), &changes, (asked, Answer::Done))?;
    state.attrs_mut(no)?.extend(new.keys().map(|name| (*name).to_owned()));
    Ok(())
}

pub(super) fn attr<T: TargetStore>(
    targets: &Targets<T>,
    state: &State,
    no: Option<ContNo>,
    name: &str,
) -> Result<Vec<u8>> {
    if !state.attrs(no)?.contains(name) {
        return Err(Error::NotFound);
    }
    needed(targets, no.unwrap_or(ContNo::SYSTEM), &attr_key(name), decode_attr)
}

pub(super) fn remove_attrs<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    no: Option<ContNo>,
    names: &[String],
    asked: Asked,
) -> Result<()> {
    let known = state.attrs(no)?;
    let gone: BTreeSet<&String> = names.iter().collect();
    if gone.is_empty() || gone.len() > limits::IODS_MAX {
        return Err(Invalid::Count.into());
    }
    if gone.iter().any(|name| !known.contains(*name)) {
        return Err(Error::NotFound);
    }
    let keys: Vec<_> = gone.iter().map(|name| attr_key(name)).collect();
    let changes: Vec<_> = keys.iter().map(|key| (key.as_slice(), None)).collect();
    change(targets, state, no.unwrap_or(ContNo::SYSTEM), &changes, (asked, Answer::Done))?;
    state.attrs_mut(no)?.retain(|name| !gone.contains(name));
    Ok(())
}

/// The floors are raised before the snapshot is on record, so that what it shows can no longer change; and it is on
/// record when all targets keep it. What a crash or an error leaves half made is taken back.
pub(super) fn add_snapshot<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut Changing<'_>,
    no: ContNo,
    (name, asked): (Option<String>, Asked),
    now: impl Fn() -> Epoch,
) -> Result<Epoch> {
    finish(targets, state, no)?;
    let cont = state.live(no)?;
    let made = cont.origins.iter().find(|(epoch, origin)| **origin == asked.id && **epoch != Epoch::ZERO);
    if let Some((&epoch, _)) = made.filter(|_| asked.id.sequence != 0 && !state.repeats.is_anothers(asked)) {
        return Ok(epoch);
    }
    if cont.snapshots.len() >= SNAPSHOTS_MAX {
        return Err(Invalid::Count.into());
    }
    if let Some(name) = &name {
        if name.is_empty() || name.len() > limits::LABEL_BYTES_MAX || name.contains('\0') {
            return Err(Invalid::Name.into());
        }
        if cont.snapshots.values().flatten().any(|taken| taken == name) {
            return Err(Error::Exists);
        }
    }
    if targets.parts().are_there() {
        // Their clocks may be ahead of ours, and what they have acknowledged belongs to the snapshot.
        state.apart(|| latest(targets))?;
    }
    for _ in 1..SNAPSHOT_ATTEMPTS {
        match try_snapshot(targets, state, no, (name.clone(), asked), now()) {
            // A target that is nearly full has freed what this epoch shows, up to its latest one.
            Err(Error::EpochGone { .. }) => {
                state.apart(|| latest(targets))?;
            }
            done => return done,
        }
    }
    try_snapshot(targets, state, no, (name, asked), now())
}

fn try_snapshot<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut Changing<'_>,
    no: ContNo,
    (name, asked): (Option<String>, Asked),
    epoch: Epoch,
) -> Result<Epoch> {
    intend(targets, state, no, Intent::AddSnapshot(epoch), &[])?;
    let kept = state.apart(|| {
        on_all(targets, no, &ContVerb::RaiseFloor(epoch))
            .and_then(|()| on_all(targets, no, &ContVerb::AddSnapshot(epoch)))
    });
    if let Err(error) = kept {
        // Ignored: what cannot be taken back now is taken back before the container's next change.
        let _taken_back_later = finish(targets, state, no);
        return Err(error);
    }
    let (record, origin) = (encode_snapshot(name.as_deref()), encode_origin(asked.id));
    let (at, origin_at) = (snapshot_key(epoch), origin_key(epoch));
    let all: [Change<'_>; 3] = [(&at, Some(&record)), (INTENT, None), (&origin_at, Some(&origin))];
    change(targets, state, no, told_by(asked.id, &all), (asked, Answer::Epoch(epoch)))?;
    let cont = state.conts.get_mut(&no).ok_or(Error::NoContainer)?;
    cont.snapshots.insert(epoch, name);
    cont.origins.insert(epoch, asked.id);
    cont.unfinished = None;
    Ok(epoch)
}

/// Puts an intent on record, with other changes of the same step.
fn intend<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    no: ContNo,
    intent: Intent,
    others: &[Change<'_>],
) -> Result<()> {
    let intent_bytes = intent.encode();
    let changes: SmallVec<[Change<'_>; 2]> =
        others.iter().copied().chain([(INTENT, Some(intent_bytes.as_slice()))]).collect();
    store::change(targets, no, &changes)?;
    state.conts.get_mut(&no).ok_or(Error::NoContainer)?.unfinished = Some(intent);
    Ok(())
}

/// Puts an intent on record that is carried out whatever happens, and with it what its request is answered.
fn intend_and_tell<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    no: ContNo,
    intent: Intent,
    told: (Asked, Answer),
) -> Result<()> {
    change(targets, state, no, &[(INTENT, Some(&intent.encode()))], told)?;
    state.conts.get_mut(&no).ok_or(Error::NoContainer)?.unfinished = Some(intent);
    Ok(())
}

pub(super) fn remove_snapshot<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut Changing<'_>,
    no: ContNo,
    epoch: Epoch,
    asked: Asked,
) -> Result<()> {
    let cont = state.live(no)?;
    if !cont.snapshots.contains_key(&epoch) {
        return Err(Error::NotFound);
    }
    // It may be the one that it goes back to.
    if matches!(cont.unfinished, Some(Intent::Rollback { .. })) {
        finish(targets, state, no)?;
    }
    let (at, gone_at, origin_at) = (snapshot_key(epoch), gone_key(epoch), origin_key(epoch));
    let record = encode_snapshot(None);
    let origin = state.live(no)?.origins.get(&epoch).copied().unwrap_or_default();
    let all: [Change<'_>; 3] = [(&at, None), (&gone_at, Some(&record)), (&origin_at, None)];
    change(targets, state, no, told_by(origin, &all), (asked, Answer::Done))?;
    let cont = state.conts.get_mut(&no).ok_or(Error::NoContainer)?;
    cont.snapshots.remove(&epoch);
    cont.origins.remove(&epoch);
    cont.gone.insert(epoch);
    or_later(let_go(targets, state, no))
}

/// Lets all targets go of the snapshots of a container that are destroyed: a record each, so that none waits for another.
fn let_go<T: TargetStore>(targets: &Targets<T>, state: &mut Changing<'_>, no: ContNo) -> Result<()> {
    let Some(gone) = state.conts.get(&no).map(|cont| cont.gone.clone()) else { return Ok(()) };
    for epoch in gone {
        state.apart(|| on_all(targets, no, &ContVerb::RemoveSnapshot(epoch)))?;
        store::change(targets, no, &[(&gone_key(epoch), None)])?;
        state.conts.get_mut(&no).ok_or(Error::NoContainer)?.gone.remove(&epoch);
    }
    Ok(())
}

pub(super) fn roll_back<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut Changing<'_>,
    no: ContNo,
    to: Epoch,
    asked: Asked,
    now: impl Fn() -> Epoch,
) -> Result<Epoch> {
    finish(targets, state, no)?;
    if !state.live(no)?.snapshots.contains_key(&to) {
        return Err(Error::NotFound);
    }
    // Above all that was read or written in the container, which nobody does any more.
    let closed = state.apart(|| targets.close_cont(no).and_then(|()| latest(targets)));
    let begun = closed.and_then(|()| {
        let at = now();
        let told = (asked, Answer::Epoch(at));
        intend_and_tell(targets, state, no, Intent::Rollback { to, at }, told).map(|()| at)
    });
    if begun.is_err() {
        state.apart(|| targets.numbers().for_each(|target| targets.open_cont(target, no)));
    }
    let at = begun?;
    finish(targets, state, no)?;
    Ok(at)
}

/// Rolls a container back on all targets. It is open again on each that has done so: whoever has seen the state after
/// the rollback on one waits for it on the others. If none has, and all refuse it, it is no rollback: an error.
fn roll_back_on_all<T: TargetStore>(targets: &Targets<T>, no: ContNo, to: Epoch, at: Epoch) -> Result<()> {
    targets.close_cont(no)?;
    let ask = |verb: ContVerb| targets.call_all(|_| plain(no, Verb::Cont(verb.clone())));
    // One above the rollback, so that the latest epoch of a target that writes nothing is after it.
    let floors = ask(ContVerb::RaiseFloor(at.next()));
    let answers = ask(ContVerb::Rollback { to, at });
    let done: Vec<Result<()>> = floors
        .into_iter()
        .zip(answers)
        .map(|(floor, answer)| floor.result.and(answer.result).map(|_| ()))
        .collect();
    let is_refused = |result: &Result<()>| matches!(result, Err(error) if !may_be_done(error));
    let none = done.iter().all(is_refused);
    for (target, _) in targets.numbers().zip(&done).filter(|(_, done)| none || done.is_ok()) {
        targets.open_cont(target, no);
    }
    done.into_iter().collect()
}

/// Whether what was answered so may be in the log all the same, or will be when it is tried again.
fn may_be_done(error: &Error) -> bool {
    matches!(error, Error::Io { .. } | Error::ReadOnly { .. } | Error::NoSpace { .. } | Error::Busy)
}

pub(super) fn alloc_oids<T: TargetStore>(
    targets: &Targets<T>,
    state: &mut State,
    no: ContNo,
    count: u64,
    asked: Asked,
) -> Result<u64> {
    let cont = state.live(no)?;
    let first = cont.next_oid;
    let end = first.checked_add(count).filter(|_| count > 0).ok_or(Invalid::Count)?;
    let told = (asked, Answer::Oids(first));
    if end > cont.record.oid_limit {
        let mut record = cont.record.clone();
        record.oid_limit = first.checked_add(count.max(OIDS_RESERVED)).unwrap_or(end);
        change(targets, state, no, &[(META, Some(&record.encode()))], told)?;
        state.conts.get_mut(&no).ok_or(Error::NoContainer)?.record = record;
    } else {
        change(targets, state, no, &[], told)?;
    }
    state.conts.get_mut(&no).ok_or(Error::NoContainer)?.next_oid = end;
    Ok(first)
}

/// Carries out the intent that is on record for a container, if any, and takes it off the record.
fn finish<T: TargetStore>(targets: &Targets<T>, state: &mut Changing<'_>, no: ContNo) -> Result<()> {
    let Some(intent) = state.conts.get(&no).and_then(|cont| cont.unfinished) else { return Ok(()) };
    match intent {
        Intent::Create if state.apart(|| is_everywhere(targets, no))? => {}
        Intent::Create | Intent::Destroy => return undo(targets, state, no),
        Intent::AddSnapshot(epoch) | Intent::RemoveSnapshot(epoch) => {
            state.apart(|| on_all(targets, no, &ContVerb::RemoveSnapshot(epoch)))?;
        }
        Intent::Rollback { to, at } => state.apart(|| roll_back_on_all(targets, no, to, at))?,
    }
    let taken_back = match intent {
        Intent::AddSnapshot(epoch) => Some(epoch),
        _ => None,
    };
    let key = taken_back.map(snapshot_key);
    let changes: SmallVec<[Change<'_>; 2]> =
        key.iter().map(|key| (key.as_slice(), None)).chain([(INTENT, None)]).collect();
    store::change(targets, no, &changes)?;
    if let Some(cont) = state.conts.get_mut(&no) {
        cont.snapshots.retain(|&epoch, _| Some(epoch) != taken_back);
        cont.unfinished = None;
    }
    Ok(())
}

/// Destroys a container on all targets, then its records. What it was asked for once is known still, unless it was never
/// there for anybody.
fn undo<T: TargetStore>(targets: &Targets<T>, state: &mut Changing<'_>, no: ContNo) -> Result<()> {
    state.apart(|| on_all(targets, no, &ContVerb::Destroy))?;
    let was_there = state.conts.get(&no).is_some_and(|cont| cont.unfinished == Some(Intent::Destroy));
    let moved = if was_there { state.repeats.moved(no) } else { Vec::new() };
    let changes: Vec<Change<'_>> = moved.iter().map(Noted::change).collect();
    let (told, removed) = store::remove(targets, no, &changes);
    drop(changes);
    for noted in moved {
        state.repeats.settle(Some(noted), told.is_ok());
    }
    // What there is no room for is not known any more; that must not keep a container from being destroyed.
    match told {
        Err(Error::NoSpace { .. } | Error::RecTooBig { .. }) => {}
        told => told?,
    }
    removed?;
    targets.parts().forget_evicted(no);
    state.repeats.leave(no);
    state.hide(no);
    state.conts.remove(&no);
    Ok(())
}

/// Whether all targets know a container: only then its creation may have been acknowledged.
fn is_everywhere<T: TargetStore>(targets: &Targets<T>, no: ContNo) -> Result<bool> {
    match on_all(targets, no, &ContVerb::Usage) {
        Err(Error::NoContainer) => Ok(false),
        answer => answer.map(|()| true),
    }
}

/// Takes note of how far all targets are.
fn latest<T: TargetStore>(targets: &Targets<T>) -> Result<()> {
    targets.ask_all(|_| plain(ContNo::SYSTEM, Verb::Latest)).map(|_| ())
}

/// Asks all targets the same of a container.
fn on_all<T: TargetStore>(targets: &Targets<T>, no: ContNo, verb: &ContVerb) -> Result<()> {
    targets.ask_all(|_| plain(no, Verb::Cont(verb.clone()))).map(|_| ())
}

/// The next container number, and the number below which all must be on record as taken before it is used: so one
/// whose records are gone is not used again. They are put on record in ranges.
fn take_number(state: &mut State) -> Result<(ContNo, u32)> {
    let no = state.next_cont;
    let reserved = if no < state.reserved_cont {
        state.reserved_cont
    } else {
        no.checked_add(CONTS_RESERVED).ok_or(Error::Busy)?
    };
    state.next_cont = no + 1;
    Ok((ContNo(no), reserved))
}

/// A record that must be there.
fn needed<T: TargetStore, R>(
    targets: &Targets<T>,
    no: ContNo,
    akey: &[u8],
    decode: impl FnOnce(&[u8]) -> Option<R>,
) -> Result<R> {
    let bytes = store::record(targets, no, akey)?;
    bytes.and_then(|bytes| decode(&bytes)).ok_or_else(|| store::damaged(no, akey))
}

fn snapshot_key(epoch: Epoch) -> Vec<u8> {
    [SNAPSHOT_PREFIX, &epoch.0.to_le_bytes()].concat()
}

fn gone_key(epoch: Epoch) -> Vec<u8> {
    [GONE_PREFIX, &epoch.0.to_le_bytes()].concat()
}

/// Changes whose last one is the record of who asked for them: there is none of who does not say.
fn told_by<'c, 'b>(id: RequestId, changes: &'c [Change<'b>; 3]) -> &'c [Change<'b>] {
    if id.sequence == 0 { &changes[..2] } else { changes }
}

fn origin_key(epoch: Epoch) -> Vec<u8> {
    [ORIGIN_PREFIX, &epoch.0.to_le_bytes()].concat()
}

fn attr_key(name: &str) -> Vec<u8> {
    [ATTR_PREFIX, name.as_bytes()].concat()
}

fn attr_name(akey: &[u8]) -> Option<String> {
    core::str::from_utf8(akey.strip_prefix(ATTR_PREFIX)?).ok().map(str::to_owned)
}
