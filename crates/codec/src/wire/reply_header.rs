//! The header of a reply or a push: 64 bytes before its body.
//!
//! Invariants: the checksum covers everything behind itself, and the version and kind before it; the status is 0 unless
//! the reply is an error.

use super::{BadFrame, ReplyKind, Version, sum_of};
use dolmen_types::Epoch;
use dolmen_types::limits::{FRAME_BODY_BYTES_MAX, FRAME_PAYLOAD_BYTES_MAX};
use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the encoded header.
pub const REPLY_HEADER_BYTES: usize = 64;
const MAGIC: u32 = 0x5052_4c44;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fields {
    magic: U32,
    version: U16,
    kind: U16,
    sum: U32,
    status: I32,
    token: U64,
    epoch: U64,
    push_seq: U64,
    lease: U32,
    /// In version 1 the upper half of the lease, and 0.
    body_sum: U32,
    lease_term_ms: U32,
    map_version: U32,
    body_bytes: U32,
    payload_bytes: U32,
}

const _: () = assert!(size_of::<Fields>() == REPLY_HEADER_BYTES);

/// What a reply or push says before its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyHeader {
    /// The version of the frame.
    pub version: Version,
    /// What the body is.
    pub kind: ReplyKind,
    /// DAOS's number of the error, negative; 0 if it is none.
    pub status: i32,
    /// The request's; 0 for a push.
    pub token: u64,
    /// The epoch that the request got, or to restart above; 0 where there is none.
    pub epoch: Epoch,
    /// The last push that was queued for this client before the reply.
    pub push_seq: u64,
    /// A lease granted with the reply; 0 for none.
    pub lease: u32,
    /// How long it holds, counted by the client from when it sent the request.
    pub lease_term_ms: u32,
    /// The version of the pool map.
    pub map_version: u32,
    /// Bytes of the body.
    pub body_bytes: u32,
    /// Bytes of the payload behind the body.
    pub payload_bytes: u32,
    /// The checksum of the body; 0 in version 1.
    pub body_sum: u32,
}

impl ReplyHeader {
    /// Encodes the header.
    ///
    /// # Panics
    /// If version 1 is to have a checksum of the body.
    #[must_use]
    pub fn encode(&self) -> [u8; REPLY_HEADER_BYTES] {
        assert!(self.version.has_sums() || self.body_sum == 0);
        let mut fields = Fields {
            magic: MAGIC.into(),
            version: self.version.number().into(),
            kind: self.kind.number().into(),
            sum: 0.into(),
            status: self.status.into(),
            token: self.token.into(),
            epoch: self.epoch.0.into(),
            push_seq: self.push_seq.into(),
            lease: self.lease.into(),
            body_sum: self.body_sum.into(),
            lease_term_ms: self.lease_term_ms.into(),
            map_version: self.map_version.into(),
            body_bytes: self.body_bytes.into(),
            payload_bytes: self.payload_bytes.into(),
        };
        fields.sum = sum_of(fields.as_bytes()).into();
        zerocopy::transmute!(fields)
    }

    /// Decodes a header of a connection that has agreed on `version`.
    ///
    /// # Errors
    /// Whatever is wrong with it, lengths above the limits of a frame included.
    pub fn decode(bytes: &[u8; REPLY_HEADER_BYTES], version: Version) -> Result<Self, BadFrame> {
        let fields: &Fields = zerocopy::transmute_ref!(bytes);
        if fields.magic.get() != MAGIC {
            return Err(BadFrame::Magic);
        }
        if fields.version.get() != version.number() {
            return Err(BadFrame::Version { found: fields.version.get() });
        }
        if fields.sum.get() != sum_of(bytes) {
            return Err(BadFrame::Checksum);
        }
        let number = fields.kind.get();
        let kind = ReplyKind::from_number(number).ok_or(BadFrame::Kind { number })?;
        let status = fields.status.get();
        if (kind == ReplyKind::Failed) != (status < 0) || status > 0 {
            return Err(BadFrame::Reserved);
        }
        let body_sum = fields.body_sum.get();
        if !version.has_sums() && body_sum != 0 {
            return Err(BadFrame::Reserved);
        }
        let (body_bytes, payload_bytes) = (fields.body_bytes.get(), fields.payload_bytes.get());
        for (bytes, limit) in [(body_bytes, FRAME_BODY_BYTES_MAX), (payload_bytes, FRAME_PAYLOAD_BYTES_MAX)] {
            if u64::from(bytes) > limit as u64 {
                return Err(BadFrame::TooLong { bytes: u64::from(bytes) });
            }
        }
        Ok(Self {
            version,
            kind,
            status,
            token: fields.token.get(),
            epoch: Epoch(fields.epoch.get()),
            push_seq: fields.push_seq.get(),
            lease: fields.lease.get(),
            lease_term_ms: fields.lease_term_ms.get(),
            map_version: fields.map_version.get(),
            body_bytes,
            payload_bytes,
            body_sum,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::golden;

    fn header(version: Version) -> ReplyHeader {
        let body_sum = if version == Version::One { 0 } else { 19 };
        ReplyHeader {
            version,
            kind: ReplyKind::Failed,
            status: -1005,
            token: 1,
            epoch: Epoch(2),
            push_seq: 3,
            lease: 4,
            lease_term_ms: 5,
            map_version: 6,
            body_bytes: 7,
            payload_bytes: 8,
            body_sum,
        }
    }

    #[test]
    fn a_reply_header_round_trips_and_any_flip_is_seen() {
        for (version, number) in
            [(Version::One, 0xf553_cd62_dce9_fa3b), (Version::Two, 0xafd7_7584_7704_9162)]
        {
            let bytes = header(version).encode();
            assert_eq!(&bytes[..4], b"DLRP");
            assert_eq!(golden(&bytes), number);
            assert_eq!(ReplyHeader::decode(&bytes, version), Ok(header(version)));
            for bit in 0..REPLY_HEADER_BYTES * 8 {
                let mut bad = bytes;
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(ReplyHeader::decode(&bad, version).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_reply_header_says_what_is_wrong_with_it() {
        let refused_as = |version: Version, change: &dyn Fn(&mut Fields)| {
            let mut fields: Fields = zerocopy::transmute!(header(version).encode());
            change(&mut fields);
            fields.sum = sum_of(fields.as_bytes()).into();
            ReplyHeader::decode(&zerocopy::transmute!(fields), version).unwrap_err()
        };
        let refused = |change: &dyn Fn(&mut Fields)| refused_as(Version::Two, change);
        assert_eq!(refused(&|f| f.magic = 1.into()), BadFrame::Magic);
        assert_eq!(refused(&|f| f.version = 0.into()), BadFrame::Version { found: 0 });
        assert_eq!(refused(&|f| f.kind = 1.into()), BadFrame::Kind { number: 1 });
        assert_eq!(refused(&|f| f.status = 0.into()), BadFrame::Reserved);
        assert_eq!(refused(&|f| f.status = 1005.into()), BadFrame::Reserved);
        assert_eq!(refused(&|f| f.kind = ReplyKind::Done.number().into()), BadFrame::Reserved);
        assert_eq!(refused_as(Version::One, &|f| f.body_sum = 1.into()), BadFrame::Reserved);
        let bytes = u64::from(u32::MAX);
        assert_eq!(refused(&|f| f.body_bytes = u32::MAX.into()), BadFrame::TooLong { bytes });
        assert_eq!(refused(&|f| f.payload_bytes = u32::MAX.into()), BadFrame::TooLong { bytes });
    }
}
