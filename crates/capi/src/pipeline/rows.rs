//! What a pipeline reads of a dkey: the bytes that its expressions look at, and the records that come back.

use super::program::{Field, Program, Source};
use crate::buffer;
use crate::error::{Der, Result};
use crate::io::{ARRAY, CIod, SINGLE, bytes_of, extents};
use crate::tx::When;
use dolmen_client::{
    Anchor, Cond, FetchIod, FetchedIod, IoBuf, Key, Object, QueryFlags, Recx, Want, Way, limits,
};
use smallvec::smallvec;

/// Bytes of one value that an expression looks at, and of the records of one dkey: as many as one request carries.
const VALUE_BYTES_MAX: usize = limits::SINGLE_BYTES_MAX;

/// What is looked at: a dkey, and one akey of it if that is asked for.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) way: Way,
    pub(super) object: &'a Object,
    pub(super) when: &'a When,
    pub(super) dkey: &'a [u8],
    pub(super) akey: Option<&'a [u8]>,
}

/// What each field of a program holds at a place; `None` where there is nothing.
///
/// # Errors
/// `REC2BIG` for a value of which more than a request carries is looked at; those of the client.
pub(super) async fn fields(program: &Program, place: Place<'_>) -> Result<Vec<Option<Vec<u8>>>> {
    let mut fields = Vec::with_capacity(program.fields.len());
    for field in &program.fields {
        fields.push(read(field, place).await?);
    }
    Ok(fields)
}

async fn read(field: &Field, place: Place<'_>) -> Result<Option<Vec<u8>>> {
    match &field.source {
        Source::Oid => {
            let oid = place.object.oid();
            //= daos:src/include/daos_obj.h daos_obj_id_t lo before hi
            Ok(slice([oid.lo.to_le_bytes(), oid.hi.to_le_bytes()].as_flattened(), field))
        }
        Source::Dkey => Ok(slice(place.dkey, field)),
        Source::Akey(name) => match name.as_deref().or(place.akey) {
            Some(akey) => stored(field, place, akey).await,
            None => Ok(None),
        },
    }
}

/// The part of a value that a field means; `None` behind its end.
fn slice(bytes: &[u8], field: &Field) -> Option<Vec<u8>> {
    let rest = bytes.get(usize::try_from(field.offset).ok()?..)?;
    let len = match field.len {
        0 => rest.len(),
        len => usize::try_from(len).map_or(rest.len(), |len| len.min(rest.len())),
    };
    (len > 0).then(|| rest[..len].to_vec())
}

/// A single value, or records of an array value: whichever the akey holds.
async fn stored(field: &Field, place: Place<'_>, akey: &[u8]) -> Result<Option<Vec<u8>>> {
    let (object, at, dkey) = (place.object, place.when.at(), place.dkey);
    let listed = object.list_extents_by(place.way, at, dkey, akey, &mut Anchor::default(), 1).await?;
    let Some(first) = listed.first() else { return Ok(None) };
    if first.single {
        let mut buf = IoBuf::default();
        let len = object.get_by(place.way, at, dkey, akey, &mut buf).await?;
        return Ok(len.and_then(|len| slice(&buf[..len], field)));
    }
    let record_bytes = first.record_bytes.max(1);
    let needed = field.kind.number_bytes().map(|bytes| (bytes as u64).div_ceil(record_bytes));
    let count = match (needed, field.len) {
        (Some(needed), 0) => needed,
        (Some(needed), len) => needed.min(len),
        (None, 0) => records_behind(place, akey, field.offset).await?,
        (None, len) => len,
    };
    if count == 0 {
        return Ok(None);
    }
    let len = count.checked_mul(record_bytes).and_then(|len| usize::try_from(len).ok());
    let len = len.filter(|&len| len <= VALUE_BYTES_MAX).ok_or(Der::REC2BIG)?;
    let (mut buf, wanted) = (IoBuf::zeroed(len), Recx::new(field.offset, count));
    let want = Want::Array { record_bytes, extents: smallvec![wanted] };
    let found = ask(place, Cond::NONE, akey, want, &mut buf).await?;
    let end = end_of(&found, &[wanted], len / usize::try_from(count).unwrap_or(1));
    Ok((end > 0).then(|| buf[..end].to_vec()))
}

/// How many records an array value has from an index on.
async fn records_behind(place: Place<'_>, akey: &[u8], from: u64) -> Result<u64> {
    let flags = QueryFlags(QueryFlags::MAX.0 | QueryFlags::RECX.0);
    let found = place.object.query_by(place.way, place.when.at(), flags, place.dkey, akey).await?;
    let end = found.and_then(|found| found.recx).and_then(|recx| recx.end());
    Ok(end.unwrap_or(0).saturating_sub(from))
}

/// The end of what was found in a buffer that holds extents one after the other.
fn end_of(found: &FetchedIod, extents: &[Recx], record_len: usize) -> usize {
    let (mut base, mut end) = (0, 0);
    for extent in extents {
        for common in found.filled.iter().filter_map(|filled| filled.intersect(*extent)) {
            end = end.max(base + (common.index - extent.index) + common.count);
        }
        base += extent.count;
    }
    usize::try_from(end).unwrap_or(usize::MAX).saturating_mul(record_len)
}

/// What an iod describes, up to the last record that is there.
pub(super) struct Record {
    pub(super) buf: IoBuf,
    /// The length of a single value, else of a record of the array; 0 if there is nothing.
    pub(super) size: u64,
}

/// Reads what an iod describes, of at most `room` bytes.
///
/// # Errors
/// `REC2BIG` for more; `NONEXIST` where `cond` is not met; `INVAL` for an iod that is none.
pub(super) async fn record(place: Place<'_>, cond: Cond, iod: &CIod, room: usize) -> Result<Record> {
    let room = room.min(VALUE_BYTES_MAX);
    match iod.kind {
        SINGLE if iod.nr != 1 => Err(Der::INVAL),
        SINGLE if room == 0 => match fetch(place, cond, iod, Want::Size, 0).await?.0.size_bytes {
            0 => Ok(Record { buf: IoBuf::default(), size: 0 }),
            _ => Err(Der::REC2BIG),
        },
        SINGLE => {
            let want = Want::Single { room_bytes: room };
            let (found, mut buf) = fetch(place, cond, iod, want, room).await?;
            buf.set_len(usize::try_from(found.size_bytes).map_or(room, |len| len.min(room)));
            Ok(Record { buf, size: found.size_bytes })
        }
        ARRAY => array(place, cond, iod, room).await,
        _ => Err(Der::INVAL),
    }
}

async fn array(place: Place<'_>, cond: Cond, iod: &CIod, room: usize) -> Result<Record> {
    let stored = fetch(place, cond, iod, Want::Size, 0).await?.0.size_bytes;
    let record_bytes = if iod.size == 0 { stored } else { iod.size };
    if stored == 0 {
        return Ok(Record { buf: IoBuf::default(), size: 0 });
    }
    let extents = extents(iod)?;
    let len = bytes_of(&extents, record_bytes).and_then(|len| usize::try_from(len).ok());
    let len = len.filter(|&len| len <= VALUE_BYTES_MAX).ok_or(Der::REC2BIG)?;
    let want = Want::Array { record_bytes, extents: extents.clone() };
    let (found, mut buf) = fetch(place, cond, iod, want, len).await?;
    let record_len = usize::try_from(record_bytes).map_err(|_wide| Der::REC2BIG)?;
    let end = end_of(&found, &extents, record_len).min(len);
    if end > room {
        return Err(Der::REC2BIG);
    }
    buf.set_len(end);
    Ok(Record { buf, size: if end == 0 { 0 } else { record_bytes } })
}

/// Length of the single value that an iod names, else bytes a record of the array; 0 if there is neither.
pub(super) async fn size(place: Place<'_>, iod: &CIod) -> Result<u64> {
    let buf = &mut IoBuf::default();
    Ok(ask(place, Cond::NONE, iod.name.key()?, Want::Size, buf).await?.size_bytes)
}

/// Asks for what an iod names; what is not there is zeros.
async fn fetch(
    place: Place<'_>,
    cond: Cond,
    iod: &CIod,
    want: Want,
    len: usize,
) -> Result<(FetchedIod, IoBuf)> {
    let mut buf = buffer::take(len)?;
    buf.fill(0);
    let found = ask(place, cond, iod.name.key()?, want, &mut buf).await?;
    Ok((found, buf))
}

/// Asks for one akey.
async fn ask(place: Place<'_>, cond: Cond, akey: &[u8], want: Want, buf: &mut IoBuf) -> Result<FetchedIod> {
    let iods = [FetchIod { akey: Key::from_slice(akey), want }];
    let found = place.object.fetch_by(place.way, place.when.at(), place.dkey, cond, &iods, buf).await?;
    found.into_iter().next().ok_or(Der::MISC)
}
