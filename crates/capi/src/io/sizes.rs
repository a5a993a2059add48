//! Sizes that a program does not know: of a single value, or of the records of an array, whichever it asks for.
//!
//! One akey may hold both. The store's own question for a size answers with either, so the question here is a read without
//! room: it fails with the size, and only with that of the kind that was meant.

use super::{ARRAY, CIod, Lists, SINGLE};
use crate::buffer;
use crate::error::{Der, Result};
use crate::event::Ending;
use crate::object::ObjectHandle;
use crate::tx::When;
use dolmen_client::{Cond, Error, Event, FetchIod, Fetched, FetchedIod, IoBuf, Key, Output, Recx, Want, Way};
use smallvec::{SmallVec, smallvec};

/// The question for the size of one descriptor.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) index: usize,
    is_array: bool,
    akey: Key,
    cond: Cond,
}

pub(super) type Questions = SmallVec<[Question; 1]>;

/// What has to be asked before the values, or instead of them.
///
/// # Errors
/// `INVAL` for a descriptor that is none.
pub(super) fn unknown(lists: &Lists, cond: Cond) -> Result<Questions> {
    let mut questions = Questions::new();
    for (index, iod) in lists.iods()?.iter().enumerate() {
        if is_unknown(lists, index, iod)? {
            questions.push(Question::of(index, iod, cond)?);
        }
    }
    Ok(questions)
}

/// Questions for all sizes, which a program is told when a buffer was too small.
///
/// # Errors
/// As [`unknown`].
pub(super) fn all(lists: &Lists) -> Result<Questions> {
    lists.iods()?.iter().enumerate().map(|(index, iod)| Question::of(index, iod, Cond::NONE)).collect()
}

fn is_unknown(lists: &Lists, index: usize, iod: &CIod) -> Result<bool> {
    let has_memory = lists.pieces(index)?.is_some();
    match iod.kind {
        SINGLE if iod.nr != 1 => Err(Der::INVAL),
        SINGLE => Ok(!has_memory),
        ARRAY if iod.size == 0 => Ok(true),
        ARRAY => Ok(!has_memory && lists.iom(index).is_null()),
        _ => Err(Der::INVAL),
    }
}

impl Question {
    fn of(index: usize, iod: &CIod, cond: Cond) -> Result<Self> {
        let is_needed = cond.has(Cond::PER_AKEY) && Cond(iod.flags).has(Cond::AKEY_FETCH);
        let own = if is_needed { Cond::AKEY_FETCH.0 } else { 0 };
        let cond = Cond(cond.0 & !Cond::PER_AKEY.0 | own);
        Ok(Self { index, is_array: iod.kind == ARRAY, akey: Key::from_slice(iod.name.key()?), cond })
    }

    /// The read, and the bytes of its buffer.
    fn iod(&self) -> (FetchIod, usize) {
        let (want, room_bytes) = if self.is_array {
            (Want::Array { record_bytes: 1, extents: smallvec![Recx::new(0, 1)] }, 1)
        } else {
            (Want::Single { room_bytes: 0 }, 0)
        };
        (FetchIod { akey: self.akey.clone(), want }, room_bytes)
    }

    /// # Errors
    /// What is wrong before anything is asked.
    pub(super) fn start(
        &self,
        object: &ObjectHandle,
        when: &When,
        dkey: &[u8],
        event: &mut Event,
    ) -> Result<()> {
        let (iod, room_bytes) = self.iod();
        let buf = buffer::take(room_bytes)?;
        Ok(object.client.fetch_on(event, when.at(), dkey, self.cond, &[iod], buf)?)
    }

    /// # Errors
    /// Those of the store.
    pub(super) fn answer(&self, ending: Ending) -> Result<u64> {
        match ending.result {
            Ok(Output::Fetched(fetched)) => self.size(Ok(fetched)),
            Ok(_) => Err(Der::MISC),
            Err(error) => self.size(Err(error)),
        }
    }

    fn size(&self, answer: dolmen_client::Result<Fetched>) -> Result<u64> {
        match answer {
            Ok(fetched) => fetched.first().map(|iod| iod.size_bytes).ok_or(Der::MISC),
            Err(Error::RecTooBig { needed_bytes }) if !self.is_array => Ok(needed_bytes),
            Err(Error::RecordSize { stored_bytes }) if self.is_array => Ok(stored_bytes),
            Err(other) => Err(other.into()),
        }
    }

    /// # Errors
    /// Those of the store.
    pub(super) async fn ask(&self, object: &ObjectHandle, when: &When, dkey: &[u8], way: Way) -> Result<u64> {
        let (iod, room_bytes) = self.iod();
        let mut buf = IoBuf::zeroed(room_bytes);
        self.size(object.client.fetch_by(way, when.at(), dkey, self.cond, &[iod], &mut buf).await)
    }

    /// Puts a size into the program's descriptor, which is as it says then.
    ///
    /// # Errors
    /// `INVAL` for memory that is none.
    pub(super) fn set_size(&self, lists: &Lists, size: u64) -> Result<CIod> {
        let at = lists.iods.at(self.index);
        let iod = CIod { size, ..at.get()? };
        at.set(iod)?;
        Ok(iod)
    }

    /// Tells the program a size. Where nothing is read for it, nothing is in its buffers either; whether something is read.
    ///
    /// # Errors
    /// `INVAL` for memory that is none.
    pub(super) fn tell(&self, lists: &Lists, size: u64) -> Result<bool> {
        let iod = self.set_size(lists, size)?;
        let pieces = lists.pieces(self.index)?;
        if size > 0 && pieces.is_some() {
            return Ok(true);
        }
        if let Some(pieces) = pieces {
            pieces.set_filled(0)?;
        }
        let nothing = FetchedIod { size_bytes: size, filled: SmallVec::new(), is_end: false };
        super::map(lists.iom(self.index), iod.kind, &nothing)?;
        Ok(false)
    }
}
