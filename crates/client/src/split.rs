//! Updates cut into what one request may carry.
//!
//! Invariants: the pieces of an update, applied in order, write the same records with the same bytes; each
//! extent of data lies in one window of `limits::WINDOW_RECORDS`.

use dolmen_codec::verb::{NewValue, Payload, UpdateIod};
use dolmen_types::limits::{EXTENTS_MAX, PAYLOAD_BYTES_MAX, WINDOW_RECORDS};
use dolmen_types::{Cond, Invalid, Recx};
use smallvec::SmallVec;

/// Whether an iod cannot travel as it is. What is malformed travels: the target says what is wrong with it.
#[inline]
pub(crate) fn is_needed(iod: &UpdateIod<'_>) -> bool {
    match &iod.value {
        NewValue::Single(_) | NewValue::NoSingle => false,
        NewValue::Array { extents, data, .. } => {
            data.bytes().len() > PAYLOAD_BYTES_MAX
                || extents.len() > EXTENTS_MAX
                || extents.iter().any(|recx| crosses_window(*recx))
        }
        NewValue::Hole { extents } => extents.len() > EXTENTS_MAX,
    }
}

#[inline]
fn crosses_window(recx: Recx) -> bool {
    recx.count > 0 && recx.end().is_some_and(|end| recx.index / WINDOW_RECORDS != (end - 1) / WINDOW_RECORDS)
}

/// Cuts an update into updates that each travel in one request, to be applied in order. What needs no cutting
/// is in the first.
///
/// # Errors
/// `Invalid::RecordSize`, `Invalid::Extent`, `Invalid::Payload` for what cannot be cut because it is malformed.
pub(crate) fn pieces<'a>(iods: &'a [UpdateIod<'_>]) -> Result<Vec<Vec<UpdateIod<'a>>>, Invalid> {
    let mut requests: Vec<Vec<UpdateIod<'a>>> = Vec::new();
    for iod in iods {
        let values = match &iod.value {
            NewValue::Array { record_bytes, extents, data } => {
                cut_array(*record_bytes, extents, data.bytes())?
            }
            NewValue::Hole { extents } => extents
                .chunks(EXTENTS_MAX)
                .map(|part| NewValue::Hole { extents: SmallVec::from_slice(part) })
                .collect(),
            NewValue::Single(payload) => vec![NewValue::Single(Payload::Ref(payload.bytes()))],
            NewValue::NoSingle => vec![NewValue::NoSingle],
        };
        for (number, value) in values.into_iter().enumerate() {
            if requests.len() <= number {
                requests.push(Vec::new());
            }
            let cond = if number == 0 { iod.cond } else { Cond::NONE };
            requests[number].push(UpdateIod { akey: iod.akey.clone(), cond, value });
        }
    }
    Ok(requests)
}

/// The iod with its own copy of borrowed bytes.
pub(crate) fn owned(iod: UpdateIod<'_>) -> UpdateIod<'static> {
    let value = match iod.value {
        NewValue::Single(payload) => NewValue::Single(payload.into_owned()),
        NewValue::NoSingle => NewValue::NoSingle,
        NewValue::Array { record_bytes, extents, data } => {
            NewValue::Array { record_bytes, extents, data: data.into_owned() }
        }
        NewValue::Hole { extents } => NewValue::Hole { extents },
    };
    UpdateIod { akey: iod.akey, cond: iod.cond, value }
}

fn cut_array<'a>(record_bytes: u64, extents: &[Recx], data: &'a [u8]) -> Result<Vec<NewValue<'a>>, Invalid> {
    let record_len = usize::try_from(record_bytes).ok().filter(|&len| (1..=PAYLOAD_BYTES_MAX).contains(&len));
    let record_len = record_len.ok_or(Invalid::RecordSize)?;
    let mut values = Vec::new();
    let mut part: SmallVec<[Recx; 1]> = SmallVec::new();
    let (mut part_start, mut at) = (0, 0);
    let records_max = u64::try_from(PAYLOAD_BYTES_MAX / record_len).expect("a limit fits 64 bits");
    let mut part_records = 0;
    for extent in extents {
        let mut rest = *extent;
        let end = rest.end().filter(|_| rest.count > 0).ok_or(Invalid::Extent)?;
        while rest.count > 0 {
            if part_records == records_max || part.len() == EXTENTS_MAX {
                values.push(array_value(record_bytes, core::mem::take(&mut part), data, part_start..at)?);
                (part_start, part_records) = (at, 0);
            }
            let to_window = WINDOW_RECORDS - rest.index % WINDOW_RECORDS;
            let count = rest.count.min(to_window).min(records_max - part_records);
            part.push(Recx::new(rest.index, count));
            part_records += count;
            at += usize::try_from(count).map_err(|_wide| Invalid::Extent)? * record_len;
            rest = Recx::new(rest.index + count, end - rest.index - count);
        }
    }
    values.push(array_value(record_bytes, part, data, part_start..at)?);
    if at == data.len() { Ok(values) } else { Err(Invalid::Payload) }
}

fn array_value(
    record_bytes: u64,
    extents: SmallVec<[Recx; 1]>,
    data: &[u8],
    range: core::ops::Range<usize>,
) -> Result<NewValue<'_>, Invalid> {
    let data = data.get(range).ok_or(Invalid::Payload)?;
    Ok(NewValue::Array { record_bytes, extents, data: Payload::Ref(data) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_types::Key;
    use proptest::prelude::*;
    use smallvec::smallvec;

    fn iod(record_bytes: u64, extents: &[Recx], data: &[u8]) -> UpdateIod<'static> {
        let data = Payload::Owned(dolmen_types::IoBuf::copy_of(data));
        let value = NewValue::Array { record_bytes, extents: SmallVec::from_slice(extents), data };
        UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::AKEY_INSERT, value }
    }

    /// Every record with its bytes, in order of writing.
    fn records(iods: &[UpdateIod<'_>]) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        for iod in iods {
            let NewValue::Array { record_bytes, extents, data } = &iod.value else { panic!("not an array") };
            let indexes = extents.iter().flat_map(|r| r.index..r.index + r.count);
            all.extend(
                indexes.zip(data.bytes().chunks(usize::try_from(*record_bytes).unwrap()).map(<[u8]>::to_vec)),
            );
        }
        all
    }

    proptest! {
        #[test]
        fn pieces_write_the_same_records(starts in prop::collection::vec((0_u64..4, -20_i64..20, 1_u64..50), 1..6)) {
            let extents: Vec<Recx> = starts.iter().enumerate().map(|(n, &(window, shift, count))| {
                let base = (4 * u64::try_from(n).unwrap() + window + 1) * WINDOW_RECORDS;
                Recx::new(base.checked_add_signed(shift).unwrap(), count)
            }).collect();
            let len = extents.iter().map(|r| r.count).sum::<u64>() * 3;
            let data: Vec<u8> = (0..len).map(|n| u8::try_from(n % 251).unwrap()).collect();
            let whole = iod(3, &extents, &data);
            let cut = pieces(core::slice::from_ref(&whole)).unwrap();
            prop_assert!(!cut.iter().flatten().any(is_needed));
            prop_assert_eq!(records(&cut.concat()), records(&[whole]));
        }
    }

    #[test]
    fn a_large_payload_takes_several_requests_and_conditions_go_with_the_first() {
        let data = vec![7; 2 * PAYLOAD_BYTES_MAX + 4096];
        let records = data.len() as u64 / 4096;
        let whole = iod(4096, &[Recx::new(5, records)], &data);
        assert!(is_needed(&whole));
        let cut = pieces(core::slice::from_ref(&whole)).unwrap();
        assert_eq!(cut.len(), 3);
        assert_eq!(
            cut.iter().map(|r| r[0].cond).collect::<Vec<_>>(),
            [Cond::AKEY_INSERT, Cond::NONE, Cond::NONE]
        );
        assert!(!cut.iter().flatten().any(is_needed));
    }

    #[test]
    fn long_lists_of_holes_are_cut() {
        let extents: SmallVec<[Recx; 1]> = (0..EXTENTS_MAX as u64 + 1).map(|n| Recx::new(2 * n, 1)).collect();
        let whole =
            UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value: NewValue::Hole { extents } };
        assert!(is_needed(&whole));
        assert_eq!(pieces(&[whole]).unwrap().len(), 2);
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let far = Recx::new(u64::MAX - 1, 9);
        for (bad, why) in [
            (iod(0, &[Recx::new(0, 2 * WINDOW_RECORDS)], b"x"), Invalid::RecordSize),
            (iod(1, &[far], b"x"), Invalid::Extent),
            (iod(1, &[Recx::new(0, 2 * WINDOW_RECORDS)], b"x"), Invalid::Payload),
            (iod(1, &[Recx::new(0, 1)], b"xy"), Invalid::Payload),
        ] {
            assert_eq!(pieces(&[bad]).err(), Some(why));
        }
        let single = NewValue::Single(Payload::Ref(b"v"));
        let iods = [UpdateIod { akey: smallvec![1], cond: Cond::NONE, value: single }];
        assert_eq!(pieces(&iods).unwrap().len(), 1);
    }
}
