//! Reading the bytes of versions: verified whole chunks first, then the part that is wanted.

use crate::bulk::BulkPlace;
use crate::index::EntryPlace;
use crate::log::LogPlace;
use crate::store::Store;
use dolmen_codec::version::{ValuePlace, Version, chunk_bytes};
use dolmen_types::{ContNo, Error, Oid, Place, Recx, crc32c, limits};

/// What a version says of its value, copied out so that nothing is borrowed while it is read.
#[derive(PartialEq)]
pub(crate) struct Stored {
    place: ValuePlace,
    value_bytes: usize,
    chunk_bytes: usize,
    sums: smallvec::SmallVec<[u32; 4]>,
}

impl Store {
    /// Where the value of an entry is and what its checksums are.
    #[inline]
    pub(crate) fn stored(&self, place: &EntryPlace) -> Result<Stored, Error> {
        let (version, at) = self.index.version(&self.log, place.as_ref())?;
        Ok(stored(&version, at))
    }

    /// Fills `out` with the bytes of a value from `offset` on, after verifying every chunk they lie in.
    ///
    /// # Errors
    /// `Corrupt` with `Place::Record`; the caller knows the keys and replaces the place by theirs.
    #[inline]
    pub(crate) fn read_value(&mut self, stored: &Stored, offset: usize, out: &mut [u8]) -> Result<(), Error> {
        assert!(offset + out.len() <= stored.value_bytes);
        if let ValuePlace::Log { segment, offset: at } = stored.place
            && stored.sums.len() == 1
            && let Some(bytes) = self.log.mapped(LogPlace { segment, offset: at })
            && let Some(value) = bytes.get(..stored.value_bytes)
        {
            if crc32c(value) != stored.sums[0] {
                return Err(self.damaged(stored, 0));
            }
            out.copy_from_slice(&value[offset..offset + out.len()]);
            return Ok(());
        }
        let mut done = 0;
        let mut temporary = Vec::new();
        while done < out.len() {
            let at = offset + done;
            let number = at / stored.chunk_bytes;
            let start = number * stored.chunk_bytes;
            let len = stored.chunk_bytes.min(stored.value_bytes - start);
            let wanted = (out.len() - done).min(start + len - at);
            let part = &mut out[done..done + wanted];
            if wanted == len {
                self.read_chunk(stored, number, start, part)?;
            } else {
                temporary.resize(len, 0);
                self.read_chunk(stored, number, start, &mut temporary)?;
                part.copy_from_slice(&temporary[at - start..at - start + wanted]);
            }
            done += wanted;
        }
        Ok(())
    }

    /// Reads one whole chunk and verifies it.
    fn read_chunk(
        &mut self,
        stored: &Stored,
        number: usize,
        start: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let sum = match stored.place {
            ValuePlace::None | ValuePlace::Inline => unreachable!("a resolved value has a place"),
            ValuePlace::Log { segment, offset } => {
                let at = offset.saturating_add(u32::try_from(start).expect("a small value"));
                self.log.read(&mut *self.disks.meta, LogPlace { segment, offset: at }, out)?;
                crc32c(out)
            }
            ValuePlace::Bulk { segment, unit } => {
                let at = u64::from(unit) * limits::BULK_UNIT_BYTES + start as u64;
                self.read_bulk(segment, at, out)?
            }
        };
        if sum == stored.sums[number] { Ok(()) } else { Err(self.damaged(stored, start)) }
    }

    fn read_bulk(&mut self, segment: u32, at: u64, out: &mut [u8]) -> Result<u32, Error> {
        let target = self.target;
        let damaged = || crate::error::corrupt(target, "bulk", u64::from(segment), at);
        if at + out.len() as u64 > self.bulk.segment_bytes() {
            return Err(damaged());
        }
        let found = self.bulk.find(segment).ok_or_else(damaged)?;
        if let Some(region) = &found.region {
            return Ok(region.copy_crc(at, out));
        }
        let file = found.file;
        self.disks.bulk().read_at(file, at, out).map_err(|e| crate::error::disk_error(target, &e))?;
        Ok(crc32c(out))
    }

    /// Whether a place lies in a segment that there is, in units that are taken.
    pub(crate) fn is_in_use(&self, place: ValuePlace, value_bytes: u32) -> bool {
        match place {
            ValuePlace::None | ValuePlace::Inline => true,
            ValuePlace::Log { segment, .. } => self.log.segments.contains_key(&segment),
            ValuePlace::Bulk { segment, unit } => {
                let count = crate::bulk::units(u64::from(value_bytes));
                self.bulk.is_used(BulkPlace { segment, unit }, count)
            }
        }
    }

    fn damaged(&self, stored: &Stored, start: usize) -> Error {
        let (file, number, offset) = match stored.place {
            ValuePlace::None | ValuePlace::Inline => ("log", 0, 0),
            ValuePlace::Log { segment, offset } => ("log", segment, u64::from(offset)),
            ValuePlace::Bulk { segment, unit } => {
                ("bulk", segment, u64::from(unit) * limits::BULK_UNIT_BYTES)
            }
        };
        crate::error::corrupt(self.target, file, u64::from(number), offset + start as u64)
    }

    /// Reads a whole value and verifies it.
    pub(crate) fn verify_value(&mut self, stored: &Stored) -> Result<(), Error> {
        let mut chunk = vec![0; stored.chunk_bytes.min(stored.value_bytes)];
        for number in 0..stored.sums.len() {
            let start = number * stored.chunk_bytes;
            let len = stored.chunk_bytes.min(stored.value_bytes - start);
            self.read_chunk(stored, number, start, &mut chunk[..len])?;
        }
        Ok(())
    }
}

/// The parts of a version that reading its value needs.
#[inline]
pub(crate) fn stored(version: &Version<'_>, place: ValuePlace) -> Stored {
    let sums = (0..version.sums.len() / 4).map(|index| version.sum(index)).collect();
    Stored {
        place,
        value_bytes: version.value_bytes as usize,
        chunk_bytes: chunk_bytes(version.record_bytes, version.value_bytes),
        sums,
    }
}

impl Stored {
    /// Bytes of the value.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.value_bytes
    }

    /// Its checksum, if there is one for all of it.
    pub(crate) fn only_sum(&self) -> Option<u32> {
        if let [sum] = self.sums[..] { Some(sum) } else { None }
    }

    /// Its place in bulk, and how many units it takes.
    pub(crate) fn bulk(&self) -> Option<(BulkPlace, u32)> {
        match self.place {
            ValuePlace::Bulk { segment, unit } => {
                Some((BulkPlace { segment, unit }, crate::bulk::units(self.value_bytes as u64)))
            }
            ValuePlace::None | ValuePlace::Inline | ValuePlace::Log { .. } => None,
        }
    }
}

/// The same error with the keys of the damaged value, which is what a caller can act on.
pub(crate) fn with_keys(
    error: Error,
    cont: ContNo,
    oid: Oid,
    dkey: &[u8],
    akey: &[u8],
    extent: Option<Recx>,
) -> Error {
    match error {
        Error::Corrupt { target, place } if matches!(*place, Place::Record { .. }) => {
            let place = Place::Value { cont, oid, dkey: dkey.into(), akey: akey.into(), extent };
            Error::Corrupt { target, place: Box::new(place) }
        }
        other => other,
    }
}
