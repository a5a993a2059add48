//! Second copies of an operation, for those that may have to be repeated or to outlive their caller.
//!
//! Invariants: a copy asks for exactly what the original does; the buffer of a fetch is in one of them only.

use dolmen_codec::Op;
use dolmen_codec::verb::{
    ContVerb, Fetch, List, Mutation, NewValue, Payload, Prepare, Punch, Query, Update, UpdateIod, Verb,
};
use dolmen_types::IoBuf;

/// A copy of `op` that borrows its payload; the buffer of a fetch moves into the copy.
pub(crate) fn borrowed<'s>(op: &'s mut Op<'_>) -> Op<'s> {
    let (token, head, cont) = (op.token, op.head, op.cont);
    Op { token, head, cont, verb: copied(&mut op.verb, &|payload| Payload::Ref(payload.bytes())) }
}

/// A copy of `op` with its own payload, to repeat it with; the buffer of a fetch stays in `op`.
pub(crate) fn spare(op: &mut Op<'_>) -> Op<'static> {
    let (token, head, cont) = (op.token, op.head, op.cont);
    let mut verb = copied(&mut op.verb, &|payload| payload.clone().into_owned());
    let buf = match &mut verb {
        Verb::Fetch(fetch) => Some(core::mem::take(&mut fetch.buf)),
        _ => None,
    };
    give_back(op, buf);
    Op { token, head, cont, verb }
}

/// `op` with its own copy of what it borrows, so that any lifetime fits it; what it owns moves.
pub(crate) fn into_owned<'p>(op: Op<'_>) -> Op<'p> {
    let Op { token, head, cont, verb } = op;
    let verb = match verb {
        Verb::Update(update) => Verb::Update(owned_update(update)),
        Verb::Prepare(Prepare { tx, epoch, leader, participants, mutations }) => {
            let mutations = mutations.into_iter().map(owned_mutation).collect();
            Verb::Prepare(Prepare { tx, epoch, leader, participants, mutations })
        }
        Verb::Punch(punch) => Verb::Punch(punch),
        Verb::Fetch(fetch) => Verb::Fetch(fetch),
        Verb::List(list) => Verb::List(list),
        Verb::Query(query) => Verb::Query(query),
        Verb::Commit(tx) => Verb::Commit(tx),
        Verb::Conclude(tx) => Verb::Conclude(tx),
        Verb::Abort(tx) => Verb::Abort(tx),
        Verb::TxState(tx) => Verb::TxState(tx),
        Verb::InDoubt => Verb::InDoubt,
        Verb::Unconcluded => Verb::Unconcluded,
        Verb::Latest => Verb::Latest,
        Verb::Cont(verb) => Verb::Cont(verb),
        Verb::Space => Verb::Space,
        Verb::Flush => Verb::Flush,
        Verb::Checkpoint => Verb::Checkpoint,
        Verb::Scrub => Verb::Scrub,
        Verb::Check => Verb::Check,
    };
    Op { token, head, cont, verb }
}

/// Mutations that borrow the payload of others.
pub(crate) fn borrowed_mutations<'s>(mutations: &'s [Mutation<'_>]) -> Vec<Mutation<'s>> {
    mutations.iter().map(|m| copied_mutation(m, &|payload| Payload::Ref(payload.bytes()))).collect()
}

/// Puts the buffer that came back with a failed attempt into the fetch that is to be repeated.
pub(crate) fn give_back(op: &mut Op<'_>, buf: Option<IoBuf>) {
    if let (Verb::Fetch(fetch), Some(buf)) = (&mut op.verb, buf) {
        fetch.buf = buf;
    }
}

/// The buffer of an operation that is refused before it reaches its target.
pub(crate) fn buffer_of(verb: Verb<'_>) -> Option<IoBuf> {
    match verb {
        Verb::Fetch(fetch) => Some(fetch.buf),
        _ => None,
    }
}

fn copied<'s, 'p>(verb: &'s mut Verb<'_>, copy: &impl Fn(&'s Payload<'_>) -> Payload<'p>) -> Verb<'p> {
    match verb {
        Verb::Update(update) => Verb::Update(copied_update(update, copy)),
        Verb::Punch(punch) => Verb::Punch(Punch::clone(punch)),
        Verb::Fetch(Fetch { oid, dkey, cond, at, iods, buf }) => Verb::Fetch(Fetch {
            oid: *oid,
            dkey: dkey.clone(),
            cond: *cond,
            at: *at,
            iods: iods.clone(),
            buf: core::mem::take(buf),
        }),
        Verb::List(list) => Verb::List(List::clone(list)),
        Verb::Query(query) => Verb::Query(Query::clone(query)),
        Verb::Prepare(Prepare { tx, epoch, leader, participants, mutations }) => Verb::Prepare(Prepare {
            tx: *tx,
            epoch: *epoch,
            leader: *leader,
            participants: participants.clone(),
            mutations: mutations.iter().map(|m| copied_mutation(m, copy)).collect(),
        }),
        Verb::Commit(tx) => Verb::Commit(*tx),
        Verb::Conclude(tx) => Verb::Conclude(*tx),
        Verb::Abort(tx) => Verb::Abort(*tx),
        Verb::TxState(tx) => Verb::TxState(*tx),
        Verb::InDoubt => Verb::InDoubt,
        Verb::Unconcluded => Verb::Unconcluded,
        Verb::Latest => Verb::Latest,
        Verb::Cont(verb) => Verb::Cont(ContVerb::clone(verb)),
        Verb::Space => Verb::Space,
        Verb::Flush => Verb::Flush,
        Verb::Checkpoint => Verb::Checkpoint,
        Verb::Scrub => Verb::Scrub,
        Verb::Check => Verb::Check,
    }
}

fn copied_mutation<'s, 'p>(
    mutation: &'s Mutation<'_>,
    copy: &impl Fn(&'s Payload<'_>) -> Payload<'p>,
) -> Mutation<'p> {
    match mutation {
        Mutation::Update(update) => Mutation::Update(copied_update(update, copy)),
        Mutation::Punch(punch) => Mutation::Punch(punch.clone()),
    }
}

fn copied_update<'s, 'p>(
    update: &'s Update<'_>,
    copy: &impl Fn(&'s Payload<'_>) -> Payload<'p>,
) -> Update<'p> {
    let value = |value: &'s NewValue<'_>| match value {
        NewValue::Single(payload) => NewValue::Single(copy(payload)),
        NewValue::NoSingle => NewValue::NoSingle,
        NewValue::Array { record_bytes, extents, data } => {
            NewValue::Array { record_bytes: *record_bytes, extents: extents.clone(), data: copy(data) }
        }
        NewValue::Hole { extents } => NewValue::Hole { extents: extents.clone() },
    };
    let iods = update
        .iods
        .iter()
        .map(|iod| UpdateIod { akey: iod.akey.clone(), cond: iod.cond, value: value(&iod.value) })
        .collect();
    Update { oid: update.oid, dkey: update.dkey.clone(), cond: update.cond, iods, charged: update.charged }
}

fn owned_mutation<'p>(mutation: Mutation<'_>) -> Mutation<'p> {
    match mutation {
        Mutation::Update(update) => Mutation::Update(owned_update(update)),
        Mutation::Punch(punch) => Mutation::Punch(punch),
    }
}

fn owned_update<'p>(update: Update<'_>) -> Update<'p> {
    let value = |value| match value {
        NewValue::Single(payload) => NewValue::Single(payload.into_owned()),
        NewValue::NoSingle => NewValue::NoSingle,
        NewValue::Array { record_bytes, extents, data } => {
            NewValue::Array { record_bytes, extents, data: data.into_owned() }
        }
        NewValue::Hole { extents } => NewValue::Hole { extents },
    };
    let Update { oid, dkey, cond, iods, charged } = update;
    let iods = iods
        .into_iter()
        .map(|UpdateIod { akey, cond, value: old }| UpdateIod { akey, cond, value: value(old) })
        .collect();
    Update { oid, dkey, cond, iods, charged }
}
