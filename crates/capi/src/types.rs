//! The structs of the interface, field by field as in the headers.
//!
//! Invariants: sizes are those of DAOS, asserted here and, field by field, by the C test `layout`.

use crate::error::{Der, Result};
use crate::raw::{In, Out};
use core::ffi::c_char;
use dolmen_types::{Anchor, AnchorState, Oid, Uuid};

/// A handle: a number that this library gave out.
//= daos:src/include/daos_types.h daos_handle_t
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(crate) struct Handle {
    pub(crate) cookie: u64,
}

/// An object id.
//= daos:src/include/daos_types.h daos_obj_id_t
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(crate) struct ObjId {
    pub(crate) lo: u64,
    pub(crate) hi: u64,
}

impl ObjId {
    pub(crate) fn oid(self) -> Oid {
        Oid { hi: self.hi, lo: self.lo }
    }
}

impl From<Oid> for ObjId {
    fn from(oid: Oid) -> Self {
        Self { lo: oid.lo, hi: oid.hi }
    }
}

/// A buffer: room and filled part; also a key.
//= daos:src/gurt/types.h d_iov_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Iov {
    pub(crate) buf: Out<u8>,
    pub(crate) buf_len: usize,
    pub(crate) len: usize,
}

impl Iov {
    /// The filled part.
    ///
    /// # Errors
    /// `INVAL` for NULL with a length.
    pub(crate) fn bytes<'a>(self) -> Result<&'a [u8]> {
        self.buf.list(self.len)
    }

    /// The filled part, as a key, which is not empty.
    ///
    /// # Errors
    /// `INVAL`.
    pub(crate) fn key<'a>(self) -> Result<&'a [u8]> {
        let bytes = self.bytes()?;
        if bytes.is_empty() { Err(Der::INVAL) } else { Ok(bytes) }
    }
}

/// Several buffers.
//= daos:src/gurt/types.h d_sg_list_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct SgList {
    pub(crate) nr: u32,
    pub(crate) nr_out: u32,
    pub(crate) iovs: Out<Iov>,
}

/// A position in an enumeration.
//= daos:src/include/daos_types.h daos_anchor_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CAnchor {
    kind: u16,
    pub(crate) shard: u16,
    flags: u32,
    /// For a part of a listing that was split: the shard to stop before; 0 for the last part, and for all.
    pub(crate) end_shard: u64,
    buf: [u8; 104],
}

const ANCHOR_EOF: u16 = 3;
const ANCHOR_AFTER: u16 = 2;

impl CAnchor {
    /// The position that it stands for.
    ///
    /// # Errors
    /// `INVAL` for a type or length that no anchor has.
    pub(crate) fn anchor(&self) -> Result<Anchor> {
        let mut anchor = match self.kind {
            0 => Anchor::default(),
            ANCHOR_EOF => Anchor::eof(),
            ANCHOR_AFTER => {
                let len = usize::try_from(self.flags).ok();
                let position = len.and_then(|len| self.buf.get(..len)).ok_or(Der::INVAL)?;
                Anchor::after(position).ok_or(Der::INVAL)?
            }
            _ => return Err(Der::INVAL),
        };
        anchor.shard = self.shard;
        Ok(anchor)
    }

    /// The same part of a listing at another position.
    pub(crate) fn moved_to(&self, anchor: &Anchor) -> Self {
        let kind = match anchor.state() {
            AnchorState::Start => 0,
            AnchorState::After => ANCHOR_AFTER,
            AnchorState::Eof => ANCHOR_EOF,
        };
        let mut moved =
            Self { kind, shard: anchor.shard, flags: 0, end_shard: self.end_shard, buf: [0; 104] };
        let position = anchor.position();
        moved.buf[..position.len()].copy_from_slice(position);
        moved.flags = u32::try_from(position.len()).unwrap_or(0);
        moved
    }

    /// A part of a listing at its beginning.
    pub(crate) fn part(shard: u16, end_shard: u16) -> Self {
        Self { kind: 0, shard, flags: 0, end_shard: u64::from(end_shard), buf: [0; 104] }
    }
}

/// A UUID: sixteen bytes in the order of its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub(crate) struct CUuid(pub(crate) [u8; 16]);

impl From<Uuid> for CUuid {
    fn from(uuid: Uuid) -> Self {
        Self(uuid.into_bytes())
    }
}

/// A rank list; made here for a C program, which frees it.
//= daos:src/gurt/types.h d_rank_list_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RankList {
    pub(crate) ranks: *mut u32,
    pub(crate) nr: u32,
}

/// An epoch range, both ends included.
//= daos:src/include/daos_types.h daos_epoch_range_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct EpochRange {
    pub(crate) lo: u64,
    pub(crate) hi: u64,
}

/// What `daos_cont_query` tells.
//= daos:src/include/daos_types.h daos_cont_info_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CContInfo {
    pub(crate) uuid: CUuid,
    pub(crate) last_snapshot: u64,
    pub(crate) handles: u32,
    pub(crate) snapshots: u32,
    pub(crate) md_otime: u64,
    pub(crate) md_mtime: u64,
}

/// Total and free bytes, by media.
//= daos:src/include/daos_pool.h struct daos_space
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct CSpace {
    pub(crate) total: [u64; 2],
    pub(crate) free: [u64; 2],
}

/// Space of a pool.
//= daos:src/include/daos_pool.h struct daos_pool_space
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct CPoolSpace {
    pub(crate) space: CSpace,
    pub(crate) free_min: [u64; 2],
    pub(crate) free_max: [u64; 2],
    pub(crate) free_mean: [u64; 2],
    pub(crate) ntargets: u32,
    pub(crate) padding: u32,
}

/// What a rebuild has done.
//= daos:src/include/daos_pool.h struct daos_rebuild_status
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct CRebuild {
    pub(crate) version: u32,
    pub(crate) seconds: u32,
    pub(crate) errno: i32,
    pub(crate) state: i32,
    pub(crate) max_layout: u16,
    pub(crate) flags: u8,
    pub(crate) reserved: u8,
    pub(crate) fail_rank: i32,
    pub(crate) toberb_objs: u64,
    pub(crate) objs: u64,
    pub(crate) recs: u64,
    pub(crate) bytes: u64,
}

/// What `daos_pool_query` tells.
//= daos:src/include/daos_pool.h daos_pool_info_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CPoolInfo {
    pub(crate) uuid: CUuid,
    pub(crate) ntargets: u32,
    pub(crate) nnodes: u32,
    pub(crate) ndisabled: u32,
    pub(crate) map_ver: u32,
    pub(crate) leader: u32,
    pub(crate) bits: u64,
    pub(crate) space: CPoolSpace,
    pub(crate) rebuild: CRebuild,
}

/// A container of a pool.
//= daos:src/include/daos_pool.h struct daos_pool_cont_info
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CPoolCont {
    pub(crate) uuid: CUuid,
    pub(crate) label: [c_char; 128],
}

/// A list of names that a C program keeps.
pub(crate) type Names = In<crate::raw::Text>;

const _: () = assert!(size_of::<Iov>() == 24);
const _: () = assert!(size_of::<SgList>() == 16);
const _: () = assert!(size_of::<CAnchor>() == 120);
const _: () = assert!(size_of::<CContInfo>() == 48);
const _: () = assert!(size_of::<CPoolSpace>() == 88);
const _: () = assert!(size_of::<CRebuild>() == 56);
const _: () = assert!(core::mem::offset_of!(CRebuild, toberb_objs) == 24);
const _: () = assert!(size_of::<CPoolInfo>() == 192);
const _: () = assert!(size_of::<CPoolCont>() == 144);

/// A text in a fixed array, cut so that it ends with a zero.
pub(crate) fn fixed<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (to, byte) in array.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = byte as c_char;
    }
    array
}
