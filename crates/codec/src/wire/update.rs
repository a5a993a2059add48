//! The bodies of updates and punches, which are also the mutations of transactions.

use super::data::{Gather, Input};
use super::field::{Field, Writer};
use crate::bytes::Reader;
use crate::verb::{Mutation, NewValue, Punch, PunchScope, Update, UpdateIod};
use dolmen_types::limits::IODS_MAX;
use dolmen_types::{Cond, Key, Oid};
use smallvec::SmallVec;

/// What becomes of a value. Persistent: never renumber.
const SINGLE: u8 = 0;
const NO_SINGLE: u8 = 1;
const ARRAY: u8 = 2;
const HOLE: u8 = 3;

/// An akey, its conditions, and what becomes of its value.
const UPDATE_IOD_BYTES_MIN: usize = Key::BYTES_MIN + Cond::BYTES_MIN + 1;

pub(super) fn put_update<'p>(w: &mut Gather<'_, 'p>, update: &'p Update<'_>) {
    let Update { oid, dkey, cond, iods, charged: _ } = update;
    w.body.put(oid);
    w.body.put(cond);
    w.body.put(dkey);
    w.body.count(iods.len(), IODS_MAX);
    for UpdateIod { akey, cond, value } in iods {
        w.body.put(akey);
        w.body.put(cond);
        put_value(w, value);
    }
}

#[inline]
fn put_value<'p>(w: &mut Gather<'_, 'p>, value: &'p NewValue<'_>) {
    match value {
        NewValue::Single(data) => {
            w.body.put(&SINGLE);
            w.part(data.bytes());
        }
        NewValue::NoSingle => w.body.put(&NO_SINGLE),
        NewValue::Array { record_bytes, extents, data } => {
            w.body.put(&ARRAY);
            w.body.put(record_bytes);
            w.body.put(extents);
            w.part(data.bytes());
        }
        NewValue::Hole { extents } => {
            w.body.put(&HOLE);
            w.body.put(extents);
        }
    }
}

#[inline]
pub(super) fn read_update<'p>(input: &mut Input<'_, 'p>) -> Option<Update<'p>> {
    let r = &mut input.body;
    let (oid, cond, dkey) = (Oid::read(r)?, Cond::read(r)?, Key::read(r)?);
    let count = r.count(UPDATE_IOD_BYTES_MIN).filter(|&count| count <= IODS_MAX)?;
    let mut iods = SmallVec::with_capacity(count);
    for _ in 0..count {
        let (akey, cond) = (Key::read(&mut input.body)?, Cond::read(&mut input.body)?);
        iods.push(UpdateIod { akey, cond, value: read_value(input)? });
    }
    Some(Update { oid, dkey, cond, iods, charged: None })
}

/// The same behind the user to whom it is charged.
pub(super) fn read_update_for<'p>(input: &mut Input<'_, 'p>) -> Option<Update<'p>> {
    let uid = input.body.u32()?;
    Some(Update { charged: Some(uid), ..read_update(input)? })
}

#[inline]
fn read_value<'p>(input: &mut Input<'_, 'p>) -> Option<NewValue<'p>> {
    let r = &mut input.body;
    Some(match r.u8()? {
        SINGLE => NewValue::Single(input.part()?),
        NO_SINGLE => NewValue::NoSingle,
        ARRAY => {
            let (record_bytes, extents) = (r.u64()?, Field::read(r)?);
            NewValue::Array { record_bytes, extents, data: input.part()? }
        }
        HOLE => NewValue::Hole { extents: Field::read(r)? },
        _ => return None,
    })
}

/// How much a punch removes. Persistent: never renumber.
const OBJECT: u8 = 0;
const DKEY: u8 = 1;
const AKEYS: u8 = 2;

impl Field for Punch {
    const BYTES_MIN: usize = Oid::BYTES_MIN + Cond::BYTES_MIN + 1;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.oid);
        w.put(&self.cond);
        match &self.scope {
            PunchScope::Object => w.put(&OBJECT),
            PunchScope::Dkey(dkey) => {
                w.put(&DKEY);
                w.put(dkey);
            }
            PunchScope::Akeys(dkey, akeys) => {
                w.put(&AKEYS);
                w.put(dkey);
                w.put(akeys);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let (oid, cond) = (Oid::read(r)?, Cond::read(r)?);
        let scope = match r.u8()? {
            OBJECT => PunchScope::Object,
            DKEY => PunchScope::Dkey(Key::read(r)?),
            AKEYS => PunchScope::Akeys(Key::read(r)?, Field::read(r)?),
            _ => return None,
        };
        Some(Self { oid, scope, cond })
    }
}

/// What a mutation is. Persistent: never renumber.
const UPDATE: u8 = 0;
const PUNCH: u8 = 1;
/// An update behind the user to whom it is charged.
const UPDATE_FOR: u8 = 2;

/// A punch of an object is the shortest mutation.
pub(super) const MUTATION_BYTES_MIN: usize = 1 + Punch::BYTES_MIN;

pub(super) fn put_mutation<'p>(w: &mut Gather<'_, 'p>, mutation: &'p Mutation<'_>) {
    match mutation {
        Mutation::Update(update) => {
            match update.charged.filter(|_| w.names_charged) {
                None => w.body.put(&UPDATE),
                Some(uid) => {
                    w.body.put(&UPDATE_FOR);
                    w.body.put(&uid);
                }
            }
            put_update(w, update);
        }
        Mutation::Punch(punch) => {
            w.body.put(&PUNCH);
            w.body.put(punch);
        }
    }
}

pub(super) fn read_mutation<'p>(input: &mut Input<'_, 'p>) -> Option<Mutation<'p>> {
    Some(match input.body.u8()? {
        UPDATE => Mutation::Update(read_update(input)?),
        UPDATE_FOR => Mutation::Update(read_update_for(input)?),
        PUNCH => Mutation::Punch(Punch::read(&mut input.body)?),
        _ => return None,
    })
}
