//! Buffers between the store and a C program: lists of pieces of the program's memory, and ours that are used again.

use crate::error::{Der, Result};
use crate::raw::Out;
use crate::types::{Iov, SgList};
use core::cell::RefCell;
use dolmen_client::IoBuf;

/// Buffers that a thread keeps: a queue of a program has so many reads under way.
const KEPT_MAX: usize = 32;
/// Larger ones are given back to the system.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Pieces that one list may have: as many extents as a request may have, and some.
const PIECES_MAX: usize = 1 << 16;

thread_local! {
    static KEPT: RefCell<Vec<IoBuf>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of this length, with anything in it.
///
/// # Errors
/// `NOMEM` for more than the system gives.
pub(crate) fn take(len: usize) -> Result<IoBuf> {
    if len > KEPT_BYTES_MAX {
        // A length that a program made up must not end it: the reservation tells, and is given back for the buffer.
        Vec::<u8>::new().try_reserve_exact(len).map_err(|_too_much| Der::NOMEM)?;
        return Ok(IoBuf::zeroed(len));
    }
    let kept = KEPT.try_with(|kept| kept.borrow_mut().pop()).ok().flatten();
    let mut buf = kept.unwrap_or_else(|| IoBuf::zeroed(len));
    buf.set_len(len);
    Ok(buf)
}

/// A buffer with these bytes.
///
/// # Errors
/// As [`take`].
pub(crate) fn copy_of(bytes: &[u8]) -> Result<IoBuf> {
    let mut buf = take(bytes.len())?;
    buf.copy_from_slice(bytes);
    Ok(buf)
}

/// Gives a buffer back for later use.
pub(crate) fn put_back(buf: IoBuf) {
    if buf.capacity() == 0 || buf.capacity() > KEPT_BYTES_MAX {
        return;
    }
    let keep = |kept: &RefCell<Vec<IoBuf>>| {
        let mut kept = kept.borrow_mut();
        if kept.len() < KEPT_MAX {
            kept.push(buf);
        }
    };
    // Ignored: a thread that ends keeps none.
    let _kept = KEPT.try_with(keep);
}

/// The pieces of a program's memory that hold one value after the other.
#[derive(Clone, Copy)]
pub(crate) struct Pieces {
    list: Out<SgList>,
    iovs: Out<Iov>,
    count: usize,
}

impl Pieces {
    /// The pieces of a list; `None` if there is none, or it says nothing of memory.
    ///
    /// # Errors
    /// `INVAL` for more pieces than any request has.
    pub(crate) fn of(list: Out<SgList>) -> Result<Option<Self>> {
        if list.is_null() {
            return Ok(None);
        }
        let SgList { nr, iovs, .. } = list.get()?;
        let count = nr as usize;
        if count > PIECES_MAX {
            return Err(Der::INVAL);
        }
        if count == 0 || iovs.is_null() {
            return Ok(None);
        }
        Ok(Some(Self { list, iovs, count }))
    }

    fn iovs<'a>(&self) -> Result<&'a [Iov]> {
        self.iovs.list(self.count)
    }

    /// Bytes that fit.
    ///
    /// # Errors
    /// `INVAL` for a sum that no memory has.
    pub(crate) fn room(&self) -> Result<usize> {
        let mut sum = 0_usize;
        for iov in self.iovs()? {
            if iov.buf_len > 0 && iov.buf.is_null() {
                return Err(Der::INVAL);
            }
            sum = sum.checked_add(iov.buf_len).ok_or(Der::INVAL)?;
        }
        Ok(sum)
    }

    /// The first `len` bytes of what is filled, if one piece has them.
    ///
    /// # Errors
    /// `INVAL` if less is filled; as [`take`].
    pub(crate) fn filled<'a>(&self, len: usize) -> Result<Filled<'a>> {
        let iovs = self.iovs()?;
        if let Some(first) = iovs.first().filter(|first| first.len >= len) {
            return Ok(Filled::One(first.buf.list(len)?));
        }
        let mut filled = 0_usize;
        for iov in iovs {
            filled = filled.checked_add(iov.len).ok_or(Der::INVAL)?;
        }
        if filled < len {
            return Err(Der::INVAL);
        }
        let mut all = take(len)?;
        let mut at = 0;
        for iov in iovs {
            let part = iov.len.min(len - at);
            all[at..at + part].copy_from_slice(iov.buf.list(part)?);
            at += part;
        }
        Ok(Filled::Gathered(all))
    }

    /// How many they are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes that fit into one.
    ///
    /// # Errors
    /// `INVAL` for one that is not there.
    pub(crate) fn room_of(&self, index: usize) -> Result<usize> {
        let iov = self.iovs()?.get(index).ok_or(Der::INVAL)?;
        if iov.buf_len > 0 && iov.buf.is_null() { Err(Der::INVAL) } else { Ok(iov.buf_len) }
    }

    /// Fills one.
    ///
    /// # Errors
    /// `REC2BIG` if the bytes do not fit.
    pub(crate) fn fill(&self, index: usize, bytes: &[u8]) -> Result<()> {
        if self.room_of(index)? < bytes.len() {
            return Err(Der::REC2BIG);
        }
        let iov = self.iovs.at(index).get()?;
        iov.buf.copy_from(bytes)?;
        self.iovs.at(index).set(Iov { len: bytes.len(), ..iov })
    }

    /// Says how many pieces hold something.
    ///
    /// # Errors
    /// `INVAL`.
    pub(crate) fn set_used(&self, count: usize) -> Result<()> {
        let used = u32::try_from(count).map_err(|_wide| Der::OVERFLOW)?;
        self.list.set(SgList { nr_out: used, ..self.list.get()? })
    }

    /// A pen at the beginning.
    ///
    /// # Errors
    /// `INVAL`.
    pub(crate) fn pen(&self) -> Result<Pen> {
        Ok(Pen { iovs: self.iovs()?, index: 0, start: 0 })
    }

    /// Says that the first `len` bytes are filled.
    ///
    /// # Errors
    /// `INVAL`.
    pub(crate) fn set_filled(&self, len: usize) -> Result<()> {
        let (mut left, mut used) = (len, 0);
        for index in 0..self.count {
            let mut iov = self.iovs.at(index).get()?;
            iov.len = iov.buf_len.min(left);
            left -= iov.len;
            used += u32::from(iov.len > 0);
            self.iovs.at(index).set(iov)?;
        }
        let mut list = self.list.get()?;
        list.nr_out = used;
        self.list.set(list)
    }
}

/// What a program has filled.
pub(crate) enum Filled<'a> {
    /// In one piece of its memory.
    One(&'a [u8]),
    /// In several, copied together.
    Gathered(IoBuf),
}

impl Filled<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::One(bytes) => bytes,
            Self::Gathered(buf) => buf,
        }
    }
}

/// Writes into pieces, forward only.
pub(crate) struct Pen {
    iovs: &'static [Iov],
    index: usize,
    /// Where the piece begins in all of them.
    start: usize,
}

impl Pen {
    /// Copies bytes to a place at or behind the last one.
    ///
    /// # Errors
    /// `REC2BIG` if they do not fit.
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        let (mut at, mut bytes) = (at, bytes);
        while !bytes.is_empty() {
            let iov = self.iovs.get(self.index).ok_or(Der::REC2BIG)?;
            let inner = at - self.start;
            if inner >= iov.buf_len {
                self.start += iov.buf_len;
                self.index += 1;
                continue;
            }
            let part = bytes.len().min(iov.buf_len - inner);
            iov.buf.at(inner).copy_from(&bytes[..part])?;
            at += part;
            bytes = &bytes[part..];
        }
        Ok(())
    }
}
