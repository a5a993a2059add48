//! What a server says unasked: that something a client may have kept has changed.
//!
//! Invariants: a push has token 0, and the next number of its connection; what has not come in order is made up for by
//! forgetting everything.

use super::field::{Field, Writer, record};
use super::reply_header::REPLY_HEADER_BYTES;
use super::{BadFrame, ReplyHeader, ReplyKind, Version};
use crate::bytes::Reader;
use dolmen_types::{ContNo, Epoch, Oid};

/// A dkey that is about to be written to, by its keyed hash, or 0: the lease says what it is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invalidated {
    /// Container.
    pub cont: ContNo,
    /// Object.
    pub oid: Oid,
    /// Hash of the distribution key under the container's secret.
    pub dkey_hash: u128,
}

record!(Invalidated { cont: ContNo, oid: Oid, dkey_hash: u128 });

/// What has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    /// What is under a dkey.
    Invalidate(Invalidated),
    /// Anything: every lease of this connection is void.
    RevokeAll,
    /// The pool map, to the version in the header.
    MapChanged,
}

/// A push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Push {
    /// What has changed.
    pub what: Pushed,
    /// The lease under which it was kept; 0 for none.
    pub lease: u32,
    /// The epoch of the change.
    pub epoch: Epoch,
    /// Its number: one more than that of the push before.
    pub push_seq: u64,
    /// The version of the pool map.
    pub map_version: u32,
}

impl Push {
    /// Appends the frame to `out`, as `version` has it.
    ///
    /// # Panics
    /// Never: its body has a fixed length.
    pub fn encode(&self, out: &mut Vec<u8>, version: Version) {
        let start = out.len();
        out.extend_from_slice(&[0; REPLY_HEADER_BYTES]);
        let body_start = out.len();
        let kind = match &self.what {
            Pushed::Invalidate(what) => {
                what.put(&mut Writer::new(out));
                ReplyKind::Invalidate
            }
            Pushed::RevokeAll => ReplyKind::RevokeAll,
            Pushed::MapChanged => ReplyKind::MapChanged,
        };
        let header = ReplyHeader {
            version,
            kind,
            status: 0,
            token: 0,
            epoch: self.epoch,
            push_seq: self.push_seq,
            lease: self.lease,
            lease_term_ms: 0,
            map_version: self.map_version,
            body_bytes: u32::try_from(out.len() - body_start).expect("a push is short"),
            payload_bytes: 0,
            body_sum: version.body_sum(&out[body_start..]),
        };
        out[start..body_start].copy_from_slice(&header.encode());
    }

    /// Decodes what is behind the header of a push.
    ///
    /// # Errors
    /// `BadFrame::Body` or `BadFrame::BodySum` unless it is one, `BadFrame::Reserved` if it answers a request, `BadFrame::Payload` if it has one.
    pub fn decode(header: &ReplyHeader, body: &[u8]) -> Result<Self, BadFrame> {
        if header.token != 0 {
            return Err(BadFrame::Reserved);
        }
        if header.payload_bytes > 0 {
            return Err(BadFrame::Payload { bytes: u64::from(header.payload_bytes) });
        }
        header.version.check_body(body, header.body_sum)?;
        let bad_body = BadFrame::Body { kind: header.kind.number() };
        let mut r = Reader::new(body);
        let what = match header.kind {
            ReplyKind::Invalidate => Pushed::Invalidate(Invalidated::read(&mut r).ok_or(bad_body)?),
            ReplyKind::RevokeAll => Pushed::RevokeAll,
            ReplyKind::MapChanged => Pushed::MapChanged,
            _ => return Err(bad_body),
        };
        if r.remaining() > 0 || body.len() as u64 != u64::from(header.body_bytes) {
            return Err(bad_body);
        }
        let ReplyHeader { lease, epoch, push_seq, map_version, .. } = *header;
        Ok(Self { what, lease, epoch, push_seq, map_version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::golden;

    fn frame(what: Pushed, version: Version) -> (Push, Vec<u8>) {
        let push = Push { what, lease: 1, epoch: Epoch(2), push_seq: 3, map_version: 4 };
        let mut out = Vec::new();
        push.encode(&mut out, version);
        (push, out)
    }

    fn decode(frame: &[u8], version: Version) -> Result<Push, BadFrame> {
        let (header, body) = frame.split_first_chunk().unwrap();
        Push::decode(&ReplyHeader::decode(header, version)?, body)
    }

    #[test]
    fn pushes_round_trip() {
        let dkey = Invalidated { cont: ContNo(5), oid: Oid { hi: 6, lo: 7 }, dkey_hash: 8 };
        for (what, version, number) in [
            (Pushed::Invalidate(dkey), Version::One, 0x7919_812f_0ed3_0717),
            (Pushed::RevokeAll, Version::One, 0x9788_9738_ddcd_406f),
            (Pushed::MapChanged, Version::One, 0xd19f_ec21_1e4e_9ee3),
            (Pushed::Invalidate(dkey), Version::Two, 0x5f7b_61cc_b282_3283),
            (Pushed::RevokeAll, Version::Two, 0xaf71_53c7_fefc_5d8b),
            (Pushed::MapChanged, Version::Two, 0x40dc_3656_65a8_a8d7),
        ] {
            let (push, bytes) = frame(what, version);
            assert_eq!(decode(&bytes, version), Ok(push));
            assert_eq!(golden(&bytes), number, "{what:?}");
            for len in REPLY_HEADER_BYTES..bytes.len() {
                assert!(decode(&bytes[..len], version).is_err(), "{what:?} of {len} bytes");
            }
            let mut changed = bytes;
            if let Some(last) = changed[REPLY_HEADER_BYTES..].last_mut() {
                *last ^= 1;
                assert_eq!(decode(&changed, version).is_err(), version.has_sums(), "{what:?}");
            }
        }
    }

    #[test]
    fn what_is_no_push_is_refused() {
        let (_, bytes) = frame(Pushed::RevokeAll, Version::Two);
        let header = ReplyHeader::decode(bytes.first_chunk().unwrap(), Version::Two).unwrap();
        assert_eq!(Push::decode(&ReplyHeader { token: 1, ..header }, b""), Err(BadFrame::Reserved));
        let payload = ReplyHeader { payload_bytes: 1, ..header };
        assert_eq!(Push::decode(&payload, b""), Err(BadFrame::Payload { bytes: 1 }));
        let kind = ReplyKind::Done;
        let bad = BadFrame::Body { kind: kind.number() };
        assert_eq!(Push::decode(&ReplyHeader { kind, ..header }, b""), Err(bad));
    }
}
