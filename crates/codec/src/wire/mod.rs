//! What crosses a process boundary: frames of a header, a body and a payload, one file a record.
//!
//! A stream, whatever carries it, holds one frame after the other: [`RequestHeader`] or [`ReplyHeader`], then the body,
//! then the payload: the values of a mutation, or the filled parts of a fetch's buffer, one after the other in the order
//! of the body. docs/format/wire.md has the rules.
//!
//! Invariants: a body that has a checksum is not decoded before that was verified; any bytes decode to a message or to [`BadFrame`]; what decoding allocates is bounded by a small multiple
//! of the bytes it is given; a request that decodes is encoded to the same bytes.

mod audit;
mod bad_frame;
mod cont;
mod data;
mod error;
mod fetch;
mod field;
mod hello;
mod kind;
mod list;
mod part;
mod pool_reply;
mod pool_verb;
mod push;
mod query;
mod reply;
mod reply_header;
mod request;
mod request_header;
mod share;
mod space;
mod system;
mod system_frame;
mod tx;
mod update;
mod version;
mod welcome;

#[cfg(test)]
mod tests;

pub use bad_frame::BadFrame;
pub use data::PayloadParts;
pub use fetch::{FetchPlan, Parts};
pub use hello::{HELLO_BYTES, Hello};
pub use kind::{AskKind, ReplyKind};
pub use part::{FEATURE_PARTS, FetchedPart, Gathered, decode_part, encode_part};
pub use push::{Invalidated, Push, Pushed};
pub use reply::{ReplyTo, decode_reply, encode_reply};
pub use reply_header::{REPLY_HEADER_BYTES, ReplyHeader};
pub use request::{
    Asked, Caller, decode_request, decode_request_owned, decode_request_shared, encode_request,
};
pub use request_header::{PoolSlot, REQUEST_HEADER_BYTES, RequestHeader};
pub use system::{
    Looked, PartKey, PartSpec, PoolAccess, PoolConnection, PoolEntry, PoolName, PoolSpec, RankInfo,
    SystemInfo, SystemReply, SystemVerb,
};
pub use system_frame::{
    decode_system_reply, decode_system_request, encode_system_reply, encode_system_request,
};
pub use version::Version;
pub use welcome::{
    FEATURE_ALONE, FEATURE_CHANGE, FEATURE_CHARGED, FEATURE_ENDS, FEATURE_FILES, FEATURE_GIFTS,
    FEATURE_LEASES, FEATURE_NOT_FIRST, FEATURE_QUOTA, Refusal, WELCOME_BYTES, Welcome,
};

use dolmen_types::crc32c;

/// The number of the newest version.
pub const VERSION: u16 = Version::NEWEST.number();
/// That of the oldest version that is spoken: the one before.
pub const VERSION_MIN: u16 = VERSION - 1;

/// Bytes of the checksum behind a payload, where there is one: crc32c, little-endian.
pub const PAYLOAD_SUM_BYTES: usize = 4;

/// Where the version and the kind are, and the checksum, in every header.
const KIND_START: usize = 4;
const SUM_START: usize = 8;
const SUM_END: usize = 12;

/// The checksum of a header: crc32c of what is behind it, with version and kind mixed in.
#[inline]
fn sum_of(header: &[u8]) -> u32 {
    let kind = header[KIND_START..SUM_START].try_into().expect("four bytes");
    crc32c(&header[SUM_END..]) ^ u32::from_le_bytes(kind)
}
