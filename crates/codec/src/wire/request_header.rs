//! The header of a request: 128 bytes before its body.
//!
//! Invariants: the checksum covers everything behind itself, and the version and kind before it.

use super::{AskKind, BadFrame, Version, sum_of};
use dolmen_types::limits::{FRAME_BODY_BYTES_MAX, FRAME_PAYLOAD_BYTES_MAX};
use dolmen_types::{ContNo, Credentials, Epoch, Head, RequestId, TargetNo};
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the encoded header.
pub const REQUEST_HEADER_BYTES: usize = 128;
const MAGIC: u32 = 0x5152_4c44;

/// The answer is to come with a lease. Whether that is agreed on, is for who serves the connection to look at. Persistent: never
/// renumber.
const FLAG_LEASE: u32 = 1;

/// In the place of a target: the pool's service, or the daemon itself.
pub(super) const NO_TARGET: TargetNo = TargetNo(u16::MAX);

/// The number of a pool on one connection; whoever serves it gives it out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PoolSlot(pub u16);

impl PoolSlot {
    /// No pool: what is asked concerns the daemon.
    pub const SYSTEM: Self = Self(0);
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fields {
    magic: U32,
    version: U16,
    kind: U16,
    sum: U32,
    flags: U32,
    token: U64,
    sequence: U64,
    done_below: U64,
    deadline_ns: U64,
    seen: U64,
    map_version: U32,
    cont: U32,
    job: U64,
    tenant: U32,
    uid: U32,
    gid: U32,
    project: U32,
    target: U16,
    pool: U16,
    body_bytes: U32,
    payload_bytes: U32,
    /// In version 1 the upper half of the length of the payload, and 0.
    body_sum: U32,
    client: U128,
    push_acked: U64,
}

const _: () = assert!(size_of::<Fields>() == REQUEST_HEADER_BYTES);

/// What a request says before its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHeader {
    /// The version of the frame.
    pub version: Version,
    /// What is asked, and so what the body is.
    pub kind: AskKind,
    /// Chosen by the client, returned with the reply; not 0.
    pub token: u64,
    /// On whose behalf.
    pub head: Head,
    /// The highest epoch that the client knows; 0 for none.
    pub seen: Epoch,
    /// In which container, if a target is asked.
    pub cont: ContNo,
    /// Which target; 0xffff is the pool's service, or the daemon.
    pub target: TargetNo,
    /// Which pool.
    pub pool: PoolSlot,
    /// Bytes of the body.
    pub body_bytes: u32,
    /// Bytes of the payload behind the body.
    pub payload_bytes: u64,
    /// The checksum of the body; 0 in version 1.
    pub body_sum: u32,
    /// The last push that the client has taken in.
    pub push_acked: u64,
    /// Whether the answer is to come with a lease, if there may be one.
    pub wants_lease: bool,
}

impl RequestHeader {
    /// Encodes the header.
    ///
    /// # Panics
    /// If the payload is longer than any frame's, or version 1 is to have a checksum of the body.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_HEADER_BYTES] {
        assert!(self.version.has_sums() || self.body_sum == 0);
        let payload_bytes = u32::try_from(self.payload_bytes).expect("a payload is limited to 2 GiB");
        let Head { id, oldest, deadline_ns, map_version, job, tenant, cred } = self.head;
        let mut fields = Fields {
            magic: MAGIC.into(),
            version: self.version.number().into(),
            kind: self.kind.number().into(),
            sum: 0.into(),
            flags: (u32::from(self.wants_lease) * FLAG_LEASE).into(),
            token: self.token.into(),
            sequence: id.sequence.into(),
            done_below: oldest.into(),
            deadline_ns: deadline_ns.into(),
            seen: self.seen.0.into(),
            map_version: map_version.into(),
            cont: self.cont.0.into(),
            job: job.into(),
            tenant: tenant.into(),
            uid: cred.uid.into(),
            gid: cred.gid.into(),
            project: cred.project.into(),
            target: self.target.0.into(),
            pool: self.pool.0.into(),
            body_bytes: self.body_bytes.into(),
            payload_bytes: payload_bytes.into(),
            body_sum: self.body_sum.into(),
            client: id.client.into(),
            push_acked: self.push_acked.into(),
        };
        fields.sum = sum_of(fields.as_bytes()).into();
        zerocopy::transmute!(fields)
    }

    /// Decodes a header of a connection that has agreed on `version`.
    ///
    /// # Errors
    /// Whatever is wrong with it, lengths above the limits of a frame included.
    pub fn decode(bytes: &[u8; REQUEST_HEADER_BYTES], version: Version) -> Result<Self, BadFrame> {
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
        let kind = AskKind::from_number(number).filter(|kind| kind.since() <= version);
        let kind = kind.ok_or(BadFrame::Kind { number })?;
        let flags = fields.flags.get();
        if flags & !FLAG_LEASE != 0 || fields.token.get() == 0 {
            return Err(BadFrame::Reserved);
        }
        let (body_bytes, body_sum) = (fields.body_bytes.get(), fields.body_sum.get());
        let mut payload_bytes = u64::from(fields.payload_bytes.get());
        if !version.has_sums() {
            payload_bytes |= u64::from(body_sum) << 32;
        }
        if u64::from(body_bytes) > FRAME_BODY_BYTES_MAX as u64 {
            return Err(BadFrame::TooLong { bytes: u64::from(body_bytes) });
        }
        if payload_bytes > FRAME_PAYLOAD_BYTES_MAX as u64 {
            return Err(BadFrame::TooLong { bytes: payload_bytes });
        }
        Ok(Self {
            version,
            kind,
            token: fields.token.get(),
            head: fields.head(),
            seen: Epoch(fields.seen.get()),
            cont: ContNo(fields.cont.get()),
            target: TargetNo(fields.target.get()),
            pool: PoolSlot(fields.pool.get()),
            body_bytes,
            payload_bytes,
            body_sum,
            push_acked: fields.push_acked.get(),
            wants_lease: flags & FLAG_LEASE != 0,
        })
    }
}

impl Fields {
    fn head(&self) -> Head {
        Head {
            id: RequestId { client: self.client.get(), sequence: self.sequence.get() },
            oldest: self.done_below.get(),
            deadline_ns: self.deadline_ns.get(),
            map_version: self.map_version.get(),
            job: self.job.get(),
            tenant: self.tenant.get(),
            cred: Credentials { uid: self.uid.get(), gid: self.gid.get(), project: self.project.get() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::golden;

    fn header(version: Version) -> RequestHeader {
        let body_sum = if version == Version::One { 0 } else { 19 };
        RequestHeader {
            version,
            kind: AskKind::Fetch,
            token: 1,
            head: Head {
                id: RequestId { client: 2 << 100, sequence: 3 },
                oldest: 4,
                deadline_ns: 5,
                map_version: 6,
                job: 7,
                tenant: 8,
                cred: Credentials { uid: 9, gid: 10, project: 11 },
            },
            seen: Epoch(12),
            cont: ContNo(13),
            target: TargetNo(14),
            pool: PoolSlot(15),
            body_bytes: 16,
            payload_bytes: 17,
            body_sum,
            push_acked: 18,
            wants_lease: false,
        }
    }

    #[test]
    fn a_request_header_round_trips_and_any_flip_is_seen() {
        for (version, number) in
            [(Version::One, 0x19ee_ea97_ba41_56a7), (Version::Two, 0x3677_9b46_2199_0b46)]
        {
            let bytes = header(version).encode();
            assert_eq!(&bytes[..4], b"DLRQ");
            assert_eq!(golden(&bytes), number);
            assert_eq!(RequestHeader::decode(&bytes, version), Ok(header(version)));
            for bit in 0..REQUEST_HEADER_BYTES * 8 {
                let mut bad = bytes;
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(RequestHeader::decode(&bad, version).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_request_for_a_lease_is_another_bit_and_nothing_else() {
        let wanted = RequestHeader { wants_lease: true, ..header(Version::Two) };
        let bytes = wanted.encode();
        assert_eq!(RequestHeader::decode(&bytes, Version::Two), Ok(wanted));
        let differ = bytes.iter().zip(header(Version::Two).encode()).enumerate();
        let mut differ = differ.filter(|(_, (a, b))| **a != *b).map(|(at, _)| at);
        assert!(differ.all(|at| (8..13).contains(&at)), "the checksum, and the flags");
        assert_eq!(bytes[12..16], [1, 0, 0, 0]);
    }

    #[test]
    fn a_request_header_says_what_is_wrong_with_it() {
        let refused_as = |version: Version, change: &dyn Fn(&mut Fields)| {
            let mut fields: Fields = zerocopy::transmute!(header(version).encode());
            change(&mut fields);
            fields.sum = sum_of(fields.as_bytes()).into();
            RequestHeader::decode(&zerocopy::transmute!(fields), version).unwrap_err()
        };
        let refused = |change: &dyn Fn(&mut Fields)| refused_as(Version::Two, change);
        assert_eq!(refused(&|f| f.magic = 1.into()), BadFrame::Magic);
        assert_eq!(refused(&|f| f.version = 3.into()), BadFrame::Version { found: 3 });
        assert_eq!(refused(&|f| f.kind = 0x7fff.into()), BadFrame::Kind { number: 0x7fff });
        for bit in 1..32 {
            assert_eq!(refused(&|f| f.flags = (1 << bit).into()), BadFrame::Reserved);
        }
        assert_eq!(refused(&|f| f.token = 0.into()), BadFrame::Reserved);
        assert_eq!(
            refused(&|f| f.body_bytes = u32::MAX.into()),
            BadFrame::TooLong { bytes: u64::from(u32::MAX) }
        );
        let longer = |f: &mut Fields| f.payload_bytes = u32::MAX.into();
        assert_eq!(refused(&longer), BadFrame::TooLong { bytes: u64::from(u32::MAX) });
        let longer = |f: &mut Fields| (f.payload_bytes, f.body_sum) = (0.into(), 1.into());
        assert_eq!(refused_as(Version::One, &longer), BadFrame::TooLong { bytes: 1 << 32 });
    }
}
