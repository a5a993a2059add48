//! Reads and writes that complete on events: a range is as many requests as it has pieces, which may be under way side by side.

use crate::chunks::{AKEY_DATA, LAST_RECORD, Piece, pieces};
use crate::error::{Error, Result, What};
use crate::file::{File, size_of_record};
use crate::layout::AKEY_INODE;
use crate::layout::inode::{self, Inode};
use crate::node::Place;
use crate::resolve::LOOKS_MAX;
use crate::store::data_iod;
use dolmen_client::{At, Event, FetchIod, Fetched, Found, Payload, Tx, Want, Way};
use dolmen_types::{Cond, IoBuf, Key, Recx};
use smallvec::smallvec;
use std::sync::Arc;

impl File {
    /// Bytes of an entry, for the buffer of [`File::name_on`].
    pub const NAME_RECORD_BYTES: usize = inode::BYTES;

    /// The pieces of a range, in their order.
    ///
    /// # Errors
    /// `Invalid(Range)` if it overflows.
    pub fn pieces(&self, offset: u64, len: usize) -> Result<impl Iterator<Item = Piece> + use<>> {
        offset.checked_add(len as u64).ok_or(What::Range)?;
        Ok(pieces(self.node.chunk_bytes, offset, len))
    }

    /// Begins a write of a range by its pieces: whether it is one without a look before it, as in a relaxed mount. `false`
    /// says that the caller has to use [`File::write_piece_by`] or [`File::write_at`].
    ///
    /// Whoever appends to the file or sets its length in this mount does not wait for a write under way.
    ///
    /// # Errors
    /// As `write_at`, before anything is written.
    pub fn begin_write(&self, offset: u64, len: usize) -> Result<bool> {
        if !self.is_blind() {
            return Ok(false);
        }
        self.check_write(offset, len)?;
        self.node.mount.touch(&self.node);
        Ok(true)
    }

    /// Begins a write of a range by [`File::write_piece_by`], where [`File::begin_write`] says that each piece needs a look.
    ///
    /// # Errors
    /// As `write_at`, before anything is written; `Invalid(Flags)` for a file that was opened for appending.
    pub fn begin_looking_write(&self, offset: u64, len: usize) -> Result<()> {
        if self.appends {
            return Err(What::Flags.into());
        }
        self.check_write(offset, len)?;
        let is_lost = self.node.mount.is_relaxed() && !self.node.is_removed() && self.node.is_lost();
        if is_lost { Err(Error::Stale) } else { Ok(()) }
    }

    /// Writes a piece, of which `data` has the bytes, in a transaction that sees that the file is there, on a way of the
    /// caller's. Whoever appends to the file or sets its length in this mount does not wait for it.
    ///
    /// # Errors
    /// As `write_at`.
    pub async fn write_piece_by(&self, way: Way, piece: &Piece, data: &[u8]) -> Result<()> {
        let mount = &self.node.mount;
        for _ in 0..LOOKS_MAX {
            let place = self.node.place();
            let put = |tx: Arc<Tx>| {
                let slot = &place.slot;
                async move {
                    let at = At::Tx(&tx);
                    mount.check_names_by(way, at, slot, self.node.oid).await?;
                    self.charged().write(at, &piece.dkey.to_le_bytes(), AKEY_DATA, 1, piece.recx, data)?;
                    Ok(())
                }
            };
            match mount.container.transact_by(way, put).await {
                Err(Error::Stale) if mount.has_moved(&self.node, &place) => dolmen_env::yield_now(),
                other => {
                    mount.touch(&self.node);
                    return other;
                }
            }
        }
        Err(Error::Contended)
    }

    /// Launches the write of a piece. The event gives `Output::Written`.
    ///
    /// # Errors
    /// Those of launching; what the store answers is the event's.
    pub fn write_piece_on(&self, event: &mut Event, piece: &Piece, data: Payload<'static>) -> Result<()> {
        let dkey = piece.dkey.to_le_bytes();
        Ok(self.charged().update_on(event, At::Latest, &dkey, Cond::NONE, vec![data_iod(piece, data)])?)
    }

    /// Launches the question for a moment of which size and data can be read together, where [`File::may_be_cut`]. The event gives
    /// `Output::Written` with its epoch.
    ///
    /// # Errors
    /// Those of launching.
    pub fn moment_on(&self, event: &mut Event) -> Result<()> {
        Ok(self.node.mount.container.epoch_on(event)?)
    }

    /// Whether others may cut the file while it is read.
    #[must_use]
    pub fn may_be_cut(&self) -> bool {
        let mount = &self.node.mount;
        mount.is_shared() && mount.container.view_epoch().is_none()
    }

    /// Launches the read of a piece as of `at` into `buf`, which comes back through `Event::take_buf`. What it gives has holes where
    /// there is no data, be it in the file or behind its end: [`Piece::data`] tells where data is.
    ///
    /// # Errors
    /// As `read_at`, and those of launching; what the store answers is the event's.
    pub fn read_piece_on(&self, event: &mut Event, at: At<'_>, piece: &Piece, buf: IoBuf) -> Result<()> {
        if !self.reads {
            return Err(Error::BadHandle);
        }
        let want = Want::Array { record_bytes: 1, extents: smallvec![piece.recx] };
        let iod = FetchIod { akey: Key::from_slice(AKEY_DATA), want };
        Ok(self.object.fetch_on(event, at, &piece.dkey.to_le_bytes(), Cond::NONE, &[iod], buf)?)
    }

    /// Launches the question for the size of the file as of `at`; [`File::size_told`] reads what `Output::Found` says.
    ///
    /// # Errors
    /// As [`File::size`], and those of launching.
    pub fn size_on(&self, event: &mut Event, at: At<'_>) -> Result<()> {
        Ok(self.object.query_on(event, at, LAST_RECORD, &[], AKEY_DATA)?)
    }

    /// The size that the answer means.
    ///
    /// # Errors
    /// Those of a record that is none.
    pub fn size_told(&self, found: Option<&Found>) -> Result<u64> {
        size_of_record(self.object.oid(), self.node.chunk_bytes, found)
    }

    /// Where the file has its name now, as this mount knows it.
    #[must_use]
    pub fn place(&self) -> FilePlace {
        FilePlace { place: self.node.place(), looks: 0 }
    }

    /// Launches the read of the entry that names the file into `buf`, in a mount that is shared: whoever finds nothing in a
    /// file looks whether it is still there. [`File::is_named`] reads what comes.
    ///
    /// # Errors
    /// Those of launching.
    pub fn name_on(&self, event: &mut Event, place: &FilePlace, buf: IoBuf) -> Result<()> {
        let (mount, slot) = (&self.node.mount, &place.place.slot);
        let extents = smallvec![Recx::new(0, inode::BYTES as u64)];
        let iod =
            FetchIod { akey: Key::from_slice(AKEY_INODE), want: Want::Array { record_bytes: 1, extents } };
        Ok(mount.object(slot.oid)?.fetch_on(event, At::Latest, &slot.dkey, Cond::NONE, &[iod], buf)?)
    }

    /// Whether a read finds out more by [`File::name_on`] if it finds nothing.
    #[must_use]
    pub fn may_be_removed(&self) -> bool {
        self.node.mount.is_shared()
    }

    /// Reads what [`File::name_on`] was answered with: `None` if it is this file's entry, else where this mount has moved the
    /// file meanwhile, which is to be looked at then.
    ///
    /// # Errors
    /// `Stale` if another mount has moved or removed the file; `Contended` if this one moves it all the time.
    pub fn is_named(&self, place: &FilePlace, found: &Fetched, buf: &[u8]) -> Result<Option<FilePlace>> {
        let whole = Recx::new(0, inode::BYTES as u64);
        let is_read = found.first().is_some_and(|found| found.filled[..] == [whole]);
        let named = buf.first_chunk().filter(|_| is_read).and_then(Inode::from_bytes);
        if named.is_some_and(|inode| inode.oid == self.node.oid) {
            return Ok(None);
        }
        if !self.node.mount.has_moved(&self.node, &place.place) {
            return Err(Error::Stale);
        }
        let now = FilePlace { place: self.node.place(), looks: place.looks + 1 };
        if now.looks < LOOKS_MAX { Ok(Some(now)) } else { Err(Error::Contended) }
    }
}

/// Where a file has its name, for who looks whether it is there.
#[derive(Clone, Debug)]
pub struct FilePlace {
    place: Place,
    /// How often it was looked for elsewhere before.
    looks: u32,
}
