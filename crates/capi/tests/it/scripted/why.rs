//! What is wrong with a request that C refuses: it has one number for everything that is invalid.
//!
//! The same is asked again with one part replaced by what is known to be right; nothing is written for it. If it is not
//! refused then, that part was wrong.

use super::words::{self, ARRAY, Handle, Iod, Iov, Recx, SgList};
use core::ptr::null_mut;
use dolmen_client::{IoBuf, Key, NewValue, Payload, Recx as Extent};
use dolmen_codec::verb::Update;
use dolmen_types::{Error, Invalid, Result};
use smallvec::smallvec;

/// A key of every kind.
pub(super) const RIGHT: &[u8] = b"8 bytes.";

/// Whether the sizes of these values can be asked for.
fn is_readable(object: Handle, tx: Handle, dkey: &[u8], akeys: &[&[u8]]) -> bool {
    let recx = Recx { idx: 0, nr: 1 };
    let iod = |akey: &&[u8]| Iod { name: Iov::of(akey), kind: ARRAY, size: 0, flags: 0, nr: 1, recxs: &recx };
    let mut iods: Vec<Iod> = akeys.iter().map(iod).collect();
    let mut sgls = vec![SgList::NONE; iods.len()];
    let (dkey, nr) = (Iov::of(dkey), u32::try_from(iods.len()).unwrap());
    let lists = (iods.as_mut_ptr(), sgls.as_mut_ptr());
    words::obj_fetch(object, tx, 0, &dkey, nr, lists.0, lists.1, null_mut(), null_mut()) == 0
}

/// The error of a request with these keys: which of them is wrong, or whether they are too many or too few.
pub(super) fn keys<T>(
    object: Handle,
    tx: Handle,
    dkey: &[u8],
    akeys: &[&[u8]],
    refused: Result<T>,
) -> Result<T> {
    match refused {
        Err(Error::KeyTooBig { .. }) => {
            let longest = akeys.iter().map(|akey| akey.len()).max().unwrap_or(0).max(dkey.len());
            Err(Error::KeyTooBig { needed_bytes: longest as u64 })
        }
        Err(Error::Invalid(other)) => {
            let is_right = |dkey: &[u8], akeys: &[&[u8]]| is_readable(object, tx, dkey, akeys);
            let are_right = is_right(dkey, &[RIGHT]) && akeys.iter().all(|akey| is_right(RIGHT, &[akey]));
            Err(match (are_right, is_right(dkey, akeys)) {
                (false, _) => Invalid::Key,
                (true, false) => Invalid::Count,
                (true, true) => other,
            }
            .into())
        }
        other => other,
    }
}

/// The error of what is refused as it is: that of the first part which, replaced, makes it right.
pub(super) fn parts<T>(
    refused: Result<T>,
    mut replaced: impl FnMut(Invalid) -> bool,
    of: &[Invalid],
) -> Result<T> {
    match refused {
        Err(Error::Invalid(other)) => {
            Err(of.iter().copied().find(|part| replaced(*part)).unwrap_or(other).into())
        }
        other => other,
    }
}

/// An update with one part of it replaced by what is known to be right.
pub(super) fn replaced<'u>(update: &Update<'u>, part: Invalid) -> Update<'u> {
    let mut right = update.clone();
    for (number, iod) in (0_u64..).zip(&mut right.iods) {
        match (part, &mut iod.value) {
            (Invalid::Count, _) => iod.akey = Key::from_slice(&number.to_le_bytes()),
            (Invalid::Extent, NewValue::Array { record_bytes, extents, data }) => {
                let records = data.bytes().len() as u64 / *record_bytes;
                (*extents, *data) = if records == 0 {
                    let record = IoBuf::zeroed(usize::try_from(*record_bytes).unwrap());
                    (smallvec![Extent::new(0, 1)], Payload::Owned(record))
                } else {
                    (smallvec![Extent::new(0, records)], data.clone())
                };
            }
            (Invalid::Extent, NewValue::Hole { extents }) => *extents = smallvec![Extent::new(0, 1)],
            _ => {}
        }
    }
    right
}
