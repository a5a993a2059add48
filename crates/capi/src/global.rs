//! Global handles: pools, containers and arrays as bytes that another process makes handles of.
//!
//! A blob is magic, kind, lengths and fields in little-endian order, and a checksum: it has no addresses in it.

use crate::cont::{self, ContHandle};
use crate::error::{Der, Result, der};
use crate::handle::{self, Entry};
use crate::object;
use crate::place;
use crate::pool::CONNECT_RO;
use crate::raw::Out;
use crate::types::{Handle, Iov, ObjId};
use core::ffi::{c_int, c_uint};
use dolmen_client::{Array, At, ContName, ObjectType, Uuid, Way};
use dolmen_codec::now;
use dolmen_types::crc32c;
use std::sync::{Arc, PoisonError};

const MAGIC: &[u8; 8] = b"dolmengh";
const POOL: u8 = 1;
const CONT: u8 = 2;
const ARRAY: u8 = 3;
/// Nothing that is written here is longer.
const BLOB_BYTES_MAX: usize = 16 << 10;

/// Bytes that are written field by field.
struct Writer(Vec<u8>);

impl Writer {
    fn new(kind: u8) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.push(kind);
        Self(bytes)
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(u32::try_from(bytes.len()).unwrap_or(0).to_le_bytes());
        self.0.extend(bytes);
        self
    }

    fn number(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    /// Gives the bytes to a program, or tells how many there are.
    fn give(mut self, glob: Out<Iov>) -> Result<()> {
        let sum = crc32c(&self.0);
        self.0.extend(sum.to_le_bytes());
        let mut iov = glob.get()?;
        let (room, needed) = (iov.buf_len, self.0.len());
        if iov.buf.is_null() {
            iov.buf_len = needed;
            return glob.set(iov);
        }
        if room < needed {
            iov.buf_len = needed;
            glob.set(iov)?;
            return Err(Der::TRUNC);
        }
        iov.buf.copy_from(&self.0)?;
        iov.len = needed;
        glob.set(iov)
    }
}

/// Reads bytes field by field.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// # Errors
    /// `INVAL` for what is no blob of this kind.
    fn new(glob: Iov, kind: u8) -> Result<Self> {
        let bytes = if glob.len > BLOB_BYTES_MAX { return Err(Der::INVAL) } else { glob.bytes()? };
        let (body, sum) = bytes.split_last_chunk::<4>().ok_or(Der::INVAL)?;
        let rest = body.strip_prefix(MAGIC).and_then(|rest| rest.strip_prefix(&[kind])).ok_or(Der::INVAL)?;
        if crc32c(body) == u32::from_le_bytes(*sum) { Ok(Self(rest)) } else { Err(Der::INVAL) }
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk::<4>().ok_or(Der::INVAL)?;
        let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or(Der::INVAL)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.bytes()?.try_into().map_err(|_other| Der::INVAL)?))
    }

    fn flags(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_wide| Der::INVAL)
    }

    fn uuid(&mut self) -> Result<Uuid> {
        Uuid::from_slice(self.bytes()?).map_err(|_other| Der::INVAL)
    }
}

/// A connection as bytes.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_local2global(poh: Handle, glob: Out<Iov>) -> c_int {
    der(|| {
        let pool = handle::pool(poh)?;
        let system = place::text(&pool.place);
        let blob = Writer::new(POOL).bytes(system.as_bytes()).bytes(pool.uuid.as_bytes());
        blob.number(u64::from(pool.flags)).number(pool.word).give(glob)
    })
}

/// A connection of bytes. Of one that has the pool alone it is one more of the same handle: whoever has the bytes is let in.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_global2local(glob: Iov, poh: Out<Handle>) -> c_int {
    der(|| {
        crate::life::check()?;
        let poh = poh.check()?;
        let mut blob = Reader::new(glob, POOL)?;
        let system = core::str::from_utf8(blob.bytes()?).map_err(|_other| Der::INVAL)?;
        let (uuid, flags, word) = (blob.uuid()?, blob.flags()?, blob.number()?);
        let (place, pool, writable) = (place::system(Some(system))?, uuid.to_string(), flags != CONNECT_RO);
        let opened = now(place::share_by(Way::Now, place, &pool, (flags, word), writable))?;
        poh.set(handle::insert(Entry::Pool(Arc::new(opened)))?)
    })
}

/// An open container as bytes.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_local2global(coh: Handle, glob: Out<Iov>) -> c_int {
    der(|| {
        let cont = handle::cont(coh)?;
        let blob = Writer::new(CONT).bytes(cont.pool.uuid.as_bytes()).bytes(cont.client.uuid().as_bytes());
        blob.number(u64::from(cont.flags)).number(cont.word).give(glob)
    })
}

/// An open container of bytes, in the pool that it is of.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_global2local(poh: Handle, glob: Iov, coh: Out<Handle>) -> c_int {
    der(|| {
        let (pool, coh) = (handle::pool(poh)?, coh.check()?);
        let mut blob = Reader::new(glob, CONT)?;
        let (of_pool, uuid, shared) = (blob.uuid()?, blob.uuid()?, (blob.flags()?, blob.number()?));
        if of_pool != pool.uuid {
            return Err(Der::INVAL);
        }
        let opened = pool.client.open_container_for(&ContName::Uuid(uuid), cont::wanted_again(shared))?;
        coh.set(handle::insert(Entry::Cont(Arc::new(ContHandle::new(opened, pool, shared))))?)
    })
}

/// An open array as bytes.
#[unsafe(no_mangle)]
extern "C" fn daos_array_local2global(oh: Handle, glob: Out<Iov>) -> c_int {
    der(|| {
        let handle = handle::array(oh)?;
        let array = handle.client.read().unwrap_or_else(PoisonError::into_inner).clone();
        let cont = handle.object.cont.client.uuid();
        let blob = Writer::new(ARRAY).bytes(cont.as_bytes()).bytes(&array.object().oid().to_bytes());
        blob.number(array.cell_bytes()).number(array.chunk_records()).give(glob)
    })
}

/// An open array of bytes, in the container that it is of.
#[unsafe(no_mangle)]
extern "C" fn daos_array_global2local(coh: Handle, glob: Iov, mode: c_uint, oh: Out<Handle>) -> c_int {
    der(|| {
        let (cont, oh) = (handle::cont(coh)?, oh.check()?);
        let mut blob = Reader::new(glob, ARRAY)?;
        let (of_cont, oid) = (blob.uuid()?, blob.bytes()?.try_into().map_err(|_other| Der::INVAL)?);
        let (cell_bytes, chunk_records) = (blob.number()?, blob.number()?);
        if of_cont != cont.client.uuid() {
            return Err(Der::INVAL);
        }
        let oid = dolmen_client::Oid::from_bytes(oid);
        let mode = if mode == 0 { object::OPEN_RW } else { mode };
        let array = if oid.object_type() == Some(ObjectType::Array) {
            Array::open(&cont.client, At::Latest, oid)?
        } else {
            Array::open_with(&cont.client, oid, cell_bytes, chunk_records)?
        };
        oh.set(crate::array::insert(&cont, ObjId::from(oid), mode, array)?)
    })
}
