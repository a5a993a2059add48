//! An array of bytes, written and read as a file is.

use super::ffi::{self, ArrayIod, Handle, Iov, ObjId, Range, SgList};
use super::{Connection, done};
use crate::error::Result;
use core::ptr::null_mut;

/// An open array.
pub(in crate::load) struct Array {
    array: Handle,
}

/// Bytes of a chunk of an array that nobody asked for another.
const CHUNK_BYTES_DEFAULT: u64 = 1 << 20;
const CELL_BYTES: u64 = 1;

impl Array {
    /// Opens an array whose cells and chunks all that open it agree on; nothing is asked.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn open(
        connection: &Connection,
        number: u64,
        class: u32,
        chunk_bytes: u64,
    ) -> Result<Self> {
        let mut oid = ObjId { lo: number, hi: 0 };
        let kind = ffi::TYPE_ARRAY_ATTR;
        let generated = ffi::daos_obj_generate_oid2(connection.cont, &mut oid, kind, class, 0, 0);
        done("daos_obj_generate_oid", "", generated)?;
        let chunk_bytes = if chunk_bytes == 0 { CHUNK_BYTES_DEFAULT } else { chunk_bytes };
        let mut array = Handle::default();
        let (cont, none, mode, at) =
            (connection.cont, Handle::default(), ffi::OBJECT_OPEN_RW, &raw mut array);
        // SAFETY: the library checks the handle; there is a place for the new one, and no event.
        let number = unsafe {
            ffi::daos_array_open_with_attr(cont, oid, none, mode, CELL_BYTES, chunk_bytes, at, null_mut())
        };
        done("daos_array_open_with_attr", "", number).map(|()| Self { array })
    }

    /// Writes bytes at an offset.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let (mut iov, mut range) = (Iov::of(bytes), Range { index: offset, len: bytes.len() as u64 });
        let mut list = SgList { nr: 1, nr_out: 0, iovs: &raw mut iov };
        let mut iod = ArrayIod::of(&mut range);
        let (iod_at, list_at, none) = (&raw mut iod, &raw mut list, Handle::default());
        // SAFETY: range and bytes live during the call, which is over when it returns.
        let number = unsafe { ffi::daos_array_write(self.array, none, iod_at, list_at, null_mut()) };
        done("daos_array_write", "", number)
    }

    /// Reads bytes at an offset; how many there were.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<u64> {
        let len = bytes.len() as u64;
        let (mut iov, mut range) = (Iov::room(bytes), Range { index: offset, len });
        let mut list = SgList { nr: 1, nr_out: 0, iovs: &raw mut iov };
        let mut iod = ArrayIod::of(&mut range);
        let (iod_at, list_at, none) = (&raw mut iod, &raw mut list, Handle::default());
        // SAFETY: as in `write`; the bytes are this call's alone.
        let number = unsafe { ffi::daos_array_read(self.array, none, iod_at, list_at, null_mut()) };
        done("daos_array_read", "", number).map(|()| len.saturating_sub(iod.short_read))
    }

    /// Removes all that it holds.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn destroy(&self) -> Result<()> {
        // SAFETY: the library checks the handle; there is no event.
        let number = unsafe { ffi::daos_array_destroy(self.array, Handle::default(), null_mut()) };
        done("daos_array_destroy", "", number)
    }

    /// Gives it up.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn close(self) -> Result<()> {
        // SAFETY: the library checks the handle; there is no event.
        done("daos_array_close", "", unsafe { ffi::daos_array_close(self.array, null_mut()) })
    }
}
