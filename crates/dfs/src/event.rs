//! Reads and writes that complete on an event: those of one piece, which are one request.

use crate::chunks::{AKEY_DATA, Piece, pieces};
use crate::error::{Error, Result};
use crate::file::File;
use crate::store::data_iod;
use dolmen_client::{At, Event, FetchIod, Fetched, Want};
use dolmen_types::{Cond, IoBuf, Key};
use smallvec::smallvec;

impl File {
    /// Launches [`File::write_at`], if that is one request without a look before it: of a range in one chunk, in a
    /// relaxed mount. The event gives `Output::Written`. `false` says that the caller has to write itself.
    ///
    /// Whoever appends to the file or sets its length in this mount does not wait for a write under way.
    ///
    /// # Errors
    /// As `write_at`, and those of launching; what the store answers is the event's.
    pub fn write_on(&self, event: &mut Event, offset: u64, data: &'static [u8]) -> Result<bool> {
        if !self.is_blind() {
            return Ok(false);
        }
        self.check_write(offset, data.len())?;
        let Some(piece) = self.sole_piece(offset, data.len()) else { return Ok(false) };
        let dkey = piece.dkey.to_le_bytes();
        let iods = vec![data_iod(&piece, data)];
        self.object.update_on(event, At::Latest, &dkey, Cond::NONE, iods)?;
        self.node.mount.touch(&self.node);
        Ok(true)
    }

    /// Launches a read of a range in one chunk into `buf`, which comes back through `Event::take_buf`. What it gives is
    /// the whole of what was asked for, if [`File::is_whole`] says so; else the end of the file or a hole is in it, and
    /// [`File::read_at`] tells which. `false` says that the caller has to read itself.
    ///
    /// # Errors
    /// As `read_at`, and those of launching; what the store answers is the event's.
    pub fn read_on(&self, event: &mut Event, offset: u64, len: usize, buf: IoBuf) -> Result<bool> {
        if !self.reads {
            return Err(Error::BadHandle);
        }
        let Some(piece) = self.sole_piece(offset, len) else { return Ok(false) };
        let want = Want::Array { record_bytes: 1, extents: smallvec![piece.recx] };
        let iod = FetchIod { akey: Key::from_slice(AKEY_DATA), want };
        self.object.fetch_on(event, At::Latest, &piece.dkey.to_le_bytes(), Cond::NONE, &[iod], buf)?;
        Ok(true)
    }

    /// Whether the answer to a read of `len` bytes is data from its first to its last byte.
    #[must_use]
    pub fn is_whole(fetched: &Fetched, len: usize) -> bool {
        match &fetched[..] {
            [found] => found.filled.iter().map(|recx| recx.count).sum::<u64>() == len as u64,
            _ => false,
        }
    }

    /// The range as one piece, if it is one.
    fn sole_piece(&self, offset: u64, len: usize) -> Option<Piece> {
        offset.checked_add(len as u64)?;
        let mut pieces = pieces(self.node.chunk_bytes, offset, len);
        let first = pieces.next()?;
        pieces.next().is_none().then_some(first)
    }
}
