//! Mutations: what they require, and what versions they add.

use super::data::{Cont, ExtentVersion, Gift, Origin, SingleVersion};
use super::read::{AkeyTerms, Question};
use dolmen_codec::order;
use dolmen_codec::verb::{Mutation, NewValue, Punch, PunchScope, Update, UpdateIod};
use dolmen_types::{Cond, ContNo, Error, Invalid, Key, Oid, Recx, Stamp, crc32c, limits};
use std::collections::BTreeSet;

/// Every condition that a mutation may carry.
const CONDS: u64 = 0xff;

/// What is wrong with a mutation of at most `iods_max` akeys, whatever the data are.
pub(super) fn check(mutation: &Mutation<'_>, iods_max: usize) -> Result<(), Error> {
    match mutation {
        Mutation::Update(update) => check_update(update, iods_max),
        Mutation::Punch(punch) => check_punch(punch),
    }
}

/// The object that a mutation changes.
pub(super) fn oid(mutation: &Mutation<'_>) -> Oid {
    match mutation {
        Mutation::Update(update) => update.oid,
        Mutation::Punch(punch) => punch.oid,
    }
}

/// What is asked, but for its conditions, in 32 bits.
pub(super) fn what(cont: ContNo, mutation: &Mutation<'_>) -> u32 {
    let said = match mutation {
        Mutation::Punch(Punch { oid, scope, .. }) => format!("{cont:?} {oid:?} {scope:?}"),
        Mutation::Update(Update { oid, dkey, iods, .. }) => {
            let iods: Vec<_> = iods.iter().map(|iod| (&iod.akey, value(&iod.value))).collect();
            format!("{cont:?} {oid:?} {dkey:?} {iods:?}")
        }
    };
    crc32c(said.as_bytes())
}

/// What a value is, its bytes as a checksum.
fn value(value: &NewValue<'_>) -> String {
    match value {
        NewValue::Single(payload) => format!("{} {}", payload.bytes().len(), crc32c(payload.bytes())),
        NewValue::Array { record_bytes, extents, data } => {
            format!("{record_bytes} {extents:?} {}", crc32c(data.bytes()))
        }
        bare => format!("{bare:?}"),
    }
}

/// Dkey and akeys that a mutation names.
pub(super) fn akeys<'a>(mutation: &'a Mutation<'_>) -> Option<(&'a Key, Vec<&'a Key>)> {
    match mutation {
        Mutation::Update(update) => Some((&update.dkey, update.iods.iter().map(|iod| &iod.akey).collect())),
        Mutation::Punch(Punch { scope: PunchScope::Akeys(dkey, akeys), .. }) => {
            Some((dkey, akeys.iter().collect()))
        }
        Mutation::Punch(_) => None,
    }
}

/// What a mutation must know of the data before it; `None` if it writes blindly.
pub(super) fn question(mutation: &Mutation<'_>) -> Option<Question> {
    match mutation {
        Mutation::Update(update) => {
            let akeys: Vec<AkeyTerms> = update.iods.iter().map(terms).collect();
            let blind = update.cond.is_none() && akeys.iter().all(|terms| terms.record_bytes == 0);
            let (oid, dkey, cond) = (update.oid, update.dkey.clone(), update.cond);
            (!blind).then_some(Question::Update { oid, dkey, cond, akeys })
        }
        Mutation::Punch(punch) => {
            let question = match &punch.scope {
                PunchScope::Object => Question::PunchObject(punch.oid),
                PunchScope::Dkey(dkey) => Question::PunchDkey(punch.oid, dkey.clone()),
                PunchScope::Akeys(dkey, akeys) => {
                    Question::PunchAkeys(punch.oid, dkey.clone(), akeys.to_vec())
                }
            };
            punch.cond.has(Cond::PUNCH).then_some(question)
        }
    }
}

fn terms(iod: &UpdateIod<'_>) -> AkeyTerms {
    let record_bytes = match iod.value {
        NewValue::Array { record_bytes, .. } => record_bytes,
        NewValue::Single(_) | NewValue::NoSingle | NewValue::Hole { .. } => 0,
    };
    AkeyTerms { akey: iod.akey.clone(), cond: iod.cond, record_bytes }
}

pub(super) fn check_gift(gift: &Update<'_>) -> Result<(), Error> {
    gift.oid.object_type().ok_or(Invalid::ObjectId)?;
    if gift.dkey.is_empty() && gift.cond.is_none() { Ok(()) } else { Err(Invalid::Count.into()) }
}

fn check_update(update: &Update<'_>, iods_max: usize) -> Result<(), Error> {
    let object_type = update.oid.object_type().ok_or(Invalid::ObjectId)?;
    order::check_key(object_type.dkey_kind(), &update.dkey)?;
    check_cond(update.cond)?;
    if update.iods.is_empty() || update.iods.len() > iods_max {
        return Err(Invalid::Count.into());
    }
    let mut akeys = BTreeSet::new();
    for iod in &update.iods {
        order::check_key(object_type.akey_kind(), &iod.akey)?;
        check_cond(iod.cond)?;
        if !akeys.insert(&iod.akey) {
            return Err(Invalid::Count.into());
        }
        check_value(&iod.value)?;
    }
    Ok(())
}

fn check_cond(cond: Cond) -> Result<(), Error> {
    let both = |a, b| cond.has(a) && cond.has(b);
    let clash = both(Cond::DKEY_INSERT, Cond::DKEY_UPDATE) || both(Cond::AKEY_INSERT, Cond::AKEY_UPDATE);
    if clash || cond.0 & !CONDS != 0 { Err(Invalid::Flags.into()) } else { Ok(()) }
}

fn check_value(value: &NewValue<'_>) -> Result<(), Error> {
    match value {
        NewValue::NoSingle => Ok(()),
        NewValue::Single(data) => {
            let fits = (1..=limits::SINGLE_BYTES_MAX).contains(&data.bytes().len());
            if fits { Ok(()) } else { Err(Invalid::Payload.into()) }
        }
        NewValue::Hole { extents } => check_extents(extents),
        NewValue::Array { record_bytes, extents, data } => {
            if *record_bytes == 0 || *record_bytes > limits::RECORD_BYTES_MAX {
                return Err(Invalid::RecordSize.into());
            }
            check_extents(extents)?;
            let window = |index: u64| index / limits::WINDOW_RECORDS;
            if extents.iter().any(|recx| window(recx.index) != window(recx.index + (recx.count - 1))) {
                return Err(Invalid::Extent.into());
            }
            let records: u128 = extents.iter().map(|recx| u128::from(recx.count)).sum();
            let fits = records * u128::from(*record_bytes) == data.bytes().len() as u128;
            if fits { Ok(()) } else { Err(Invalid::Payload.into()) }
        }
    }
}

fn check_extents(extents: &[Recx]) -> Result<(), Error> {
    if extents.is_empty() || extents.len() > limits::EXTENTS_MAX {
        return Err(Invalid::Count.into());
    }
    let mut sorted = extents.to_vec();
    sorted.sort_unstable();
    let malformed = sorted.iter().any(|recx| recx.count == 0 || recx.end().is_none());
    if malformed || sorted.windows(2).any(|pair| pair[0].intersect(pair[1]).is_some()) {
        return Err(Invalid::Extent.into());
    }
    Ok(())
}

fn check_punch(punch: &Punch) -> Result<(), Error> {
    let object_type = punch.oid.object_type().ok_or(Invalid::ObjectId)?;
    check_cond(punch.cond)?;
    match &punch.scope {
        PunchScope::Object => Ok(()),
        PunchScope::Dkey(dkey) => order::check_key(object_type.dkey_kind(), dkey),
        PunchScope::Akeys(dkey, akeys) => {
            order::check_key(object_type.dkey_kind(), dkey)?;
            if akeys.is_empty() || akeys.len() > limits::IODS_MAX {
                return Err(Invalid::Count.into());
            }
            akeys.iter().try_for_each(|akey| order::check_key(object_type.akey_kind(), akey))
        }
    }
}

/// Adds the versions of a mutation for which `asks` asks.
pub(super) fn apply(cont: &mut Cont, asks: u32, mutation: &Mutation<'_>, origin: Origin) {
    match mutation {
        Mutation::Update(gift) if gift.iods.is_empty() => {
            let (stamp, oid) = (origin.stamp, gift.oid);
            let gift = gift.charged.zip(origin.undecided).map(|(uid, tx)| Gift { stamp, tx, oid, uid });
            cont.gifts.extend(gift);
        }
        Mutation::Update(update) => {
            let uid = update.charged.unwrap_or(asks);
            for iod in &update.iods {
                apply_value(cont, (update.oid, &update.dkey, &iod.akey), &iod.value, (origin, uid));
            }
        }
        Mutation::Punch(punch) => match &punch.scope {
            PunchScope::Object => cont.objects.entry(punch.oid).or_default().punches.push(origin),
            PunchScope::Dkey(dkey) => cont.dkey(punch.oid, dkey).punches.push(origin),
            PunchScope::Akeys(dkey, akeys) => {
                for akey in akeys {
                    cont.slot(punch.oid, dkey, akey).punches.push(origin);
                }
            }
        },
    }
}

fn apply_value(
    cont: &mut Cont,
    (oid, dkey, akey): (Oid, &Key, &Key),
    value: &NewValue<'_>,
    (origin, uid): (Origin, u32),
) {
    let slot = cont.slot(oid, dkey, akey);
    let freed = false;
    match value {
        NewValue::Single(data) => {
            slot.singles.push(SingleVersion { origin, bytes: Some(data.bytes().to_vec()), uid, freed });
        }
        NewValue::NoSingle => slot.singles.push(SingleVersion { origin, bytes: None, uid, freed }),
        NewValue::Hole { extents } => {
            for &recx in extents {
                slot.extents.push(ExtentVersion {
                    origin,
                    recx,
                    record_bytes: 0,
                    bytes: Vec::new(),
                    uid,
                    freed,
                });
            }
        }
        NewValue::Array { record_bytes, extents, data } => {
            let mut rest = data.bytes();
            for &recx in extents {
                let len = usize::try_from(recx.count * record_bytes).expect("part of a checked payload");
                let (bytes, behind) = rest.split_at(len);
                rest = behind;
                let (record_bytes, bytes) = (*record_bytes, bytes.to_vec());
                slot.extents.push(ExtentVersion { origin, recx, record_bytes, bytes, uid, freed });
            }
        }
    }
}

/// The newest committed write to an akey that a mutation names.
pub(super) fn newest_write(cont: &Cont, mutation: &Mutation<'_>) -> Option<Stamp> {
    let (dkey, akeys) = akeys(mutation)?;
    let below = cont.objects.get(&oid(mutation))?.dkeys.get(dkey)?;
    let slots = akeys.into_iter().filter_map(|akey| below.akeys.get(akey));
    let origins = slots.flat_map(|slot| {
        let singles = slot.singles.iter().map(|version| version.origin);
        singles.chain(slot.extents.iter().map(|version| version.origin)).chain(slot.punches.iter().copied())
    });
    origins.filter(|origin| origin.undecided.is_none()).map(|origin| origin.stamp).max()
}
