//! Checks of a buffered write, so that a bad one fails where it is made and not at the commit.

use crate::object::Object;
use dolmen_codec::order::check_key;
use dolmen_codec::verb::{NewValue, PunchScope, UpdateIod};
use dolmen_types::limits::{IODS_MAX, RECORD_BYTES_MAX, SINGLE_BYTES_MAX};
use dolmen_types::{Invalid, Recx, Result};

pub(crate) fn update(object: &Object, dkey: &[u8], iods: &[UpdateIod<'_>]) -> Result<()> {
    check_key(object.object_type().dkey_kind(), dkey)?;
    if iods.is_empty() || iods.len() > IODS_MAX {
        return Err(Invalid::Count.into());
    }
    for (number, iod) in iods.iter().enumerate() {
        check_key(object.object_type().akey_kind(), &iod.akey)?;
        if iods[..number].iter().any(|earlier| earlier.akey == iod.akey) {
            return Err(Invalid::Count.into());
        }
        value(&iod.value)?;
    }
    Ok(())
}

fn value(value: &NewValue<'_>) -> Result<()> {
    match value {
        NewValue::NoSingle => Ok(()),
        NewValue::Single(payload) => {
            let fits = (1..=SINGLE_BYTES_MAX).contains(&payload.bytes().len());
            if fits { Ok(()) } else { Err(Invalid::Payload.into()) }
        }
        NewValue::Hole { extents: list } => extents(list).map(|_| ()),
        NewValue::Array { record_bytes, extents: list, data } => {
            if !(1..=RECORD_BYTES_MAX).contains(record_bytes) {
                return Err(Invalid::RecordSize.into());
            }
            let records = extents(list)?;
            let len = u64::try_from(data.bytes().len()).map_err(|_wide| Invalid::Payload)?;
            if records.checked_mul(*record_bytes) == Some(len) {
                Ok(())
            } else {
                Err(Invalid::Payload.into())
            }
        }
    }
}

/// The number of records of a list of extents that is not empty, holds no empty one and no overlap.
fn extents(list: &[Recx]) -> Result<u64> {
    if list.is_empty() {
        return Err(Invalid::Count.into());
    }
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    let (mut records, mut free_from) = (0_u64, 0);
    for recx in sorted {
        let end = recx.end().filter(|_| recx.count > 0 && recx.index >= free_from).ok_or(Invalid::Extent)?;
        records = records.checked_add(recx.count).ok_or(Invalid::Extent)?;
        free_from = end;
    }
    Ok(records)
}

pub(crate) fn punch(object: &Object, scope: &PunchScope) -> Result<()> {
    match scope {
        PunchScope::Object => Ok(()),
        PunchScope::Dkey(dkey) => check_key(object.object_type().dkey_kind(), dkey),
        PunchScope::Akeys(dkey, akeys) => {
            check_key(object.object_type().dkey_kind(), dkey)?;
            if akeys.is_empty() || akeys.len() > IODS_MAX {
                return Err(Invalid::Count.into());
            }
            akeys.iter().try_for_each(|akey| check_key(object.object_type().akey_kind(), akey))
        }
    }
}
