//! The bodies of log records, one type each.

use crate::bytes::{Reader, put_len};
use crate::log_frame::LOG_FRAME_ALIGN;
use crate::order::HashKey;
use crate::verb::ContSpec;
use crate::version::{Version, VersionKind, chunk_bytes};
use dolmen_types::{ContNo, Credentials, Durability, Epoch, Oid, TargetNo, TxId};
use smallvec::SmallVec;

/// Head of a `Write` body; the versions follow. A number takes the bytes that it needs, of two or three widths; zeros
/// fill the head up to a multiple of [`LOG_FRAME_ALIGN`], so that its first version is aligned, too. Its last byte is
/// its first one again: from the version, the head is found backwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteHead {
    /// Commit epoch.
    pub epoch: Epoch,
    /// The client's number; with `sequence` the request's id.
    pub client: u32,
    /// The request's sequence number; 0 if its result need not be retained.
    pub sequence: u64,
    /// Container.
    pub cont: ContNo,
    /// Object.
    pub oid: Oid,
}

/// What a head holds besides the epoch, in its first byte and once more in its last.
#[derive(Clone, Copy)]
struct HeadForm(u8);

impl HeadForm {
    /// Always set.
    const MARK: u8 = 0x80;

    fn of(head: &WriteHead) -> Self {
        let client = match head.client {
            WriteHead::NOBODY => 0,
            0..=0xff => 1,
            _ => 2,
        };
        let sequence = match head.sequence {
            0 => 0,
            1..=0xffff_ffff => 1,
            _ => 2,
        };
        let is_long = |number: u64, bits: u32| u8::from(number >> bits > 0);
        let cont = is_long(u64::from(head.cont.0), 8);
        let hi = is_long(head.oid.hi << 32, 0);
        let lo = is_long(head.oid.lo, 32);
        Self(Self::MARK | client | sequence << 2 | cont << 4 | hi << 5 | lo << 6)
    }

    /// `None` if no head has this byte.
    #[inline]
    fn known(byte: u8) -> Option<Self> {
        (byte & Self::MARK != 0 && byte & 3 < 3 && byte >> 2 & 3 < 3).then_some(Self(byte))
    }

    #[inline]
    fn client_bytes(self) -> usize {
        [0, 1, 4, 0][usize::from(self.0 & 3)]
    }

    #[inline]
    fn sequence_bytes(self) -> usize {
        [0, 4, 8, 0][usize::from(self.0 >> 2 & 3)]
    }

    #[inline]
    fn cont_bytes(self) -> usize {
        if self.0 >> 4 & 1 > 0 { 4 } else { 1 }
    }

    #[inline]
    fn oid_low_half_bytes(self) -> usize {
        if self.0 >> 5 & 1 > 0 { 4 } else { 0 }
    }

    #[inline]
    fn oid_lo_bytes(self) -> usize {
        if self.0 >> 6 & 1 > 0 { 8 } else { 4 }
    }

    /// Bytes of the whole head.
    #[inline]
    fn head_bytes(self) -> usize {
        let numbers = self.client_bytes() + self.sequence_bytes() + self.cont_bytes();
        let oid = 4 + self.oid_low_half_bytes() + self.oid_lo_bytes();
        (1 + 8 + numbers + oid + 1).next_multiple_of(LOG_FRAME_ALIGN)
    }
}

impl WriteHead {
    /// Bytes of the shortest encoding.
    pub const BYTES_MIN: usize = 24;
    /// Bytes of the longest encoding.
    pub const BYTES_MAX: usize = 48;
    /// Stands for no client.
    const NOBODY: u32 = u32::MAX;

    /// The head of a write that no client asked for, so that no result is retained.
    #[must_use]
    pub fn of_nobody(epoch: Epoch, cont: ContNo, oid: Oid) -> Self {
        Self { epoch, client: Self::NOBODY, sequence: 0, cont, oid }
    }

    /// Bytes of the encoding, a multiple of [`LOG_FRAME_ALIGN`].
    #[must_use]
    #[inline]
    pub fn encoded_bytes(&self) -> usize {
        HeadForm::of(self).head_bytes()
    }

    /// Appends the encoding.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let form = HeadForm::of(self);
        let mut head = [0; Self::BYTES_MAX];
        let mut at = 0;
        // The highest bytes of a number that is shorter than its place in `bytes` are zero.
        let mut put = |bytes: [u8; 8], len: usize| {
            head[at..at + 8].copy_from_slice(&bytes);
            at += len;
        };
        put([form.0, 0, 0, 0, 0, 0, 0, 0], 1);
        put(self.epoch.0.to_le_bytes(), 8);
        put(u64::from(self.client).to_le_bytes(), form.client_bytes());
        put(self.sequence.to_le_bytes(), form.sequence_bytes());
        put(u64::from(self.cont.0).to_le_bytes(), form.cont_bytes());
        put((self.oid.hi >> 32).to_le_bytes(), 4);
        put((self.oid.hi & 0xffff_ffff).to_le_bytes(), form.oid_low_half_bytes());
        put(self.oid.lo.to_le_bytes(), form.oid_lo_bytes());
        let len = form.head_bytes();
        head[at..].fill(0);
        head[len - 1] = form.0;
        out.extend_from_slice(&head[..len]);
    }

    /// Reads one.
    #[inline]
    pub fn decode(r: &mut Reader<'_>) -> Option<Self> {
        let began = r.position();
        let form = HeadForm::known(r.u8()?)?;
        let epoch = Epoch(r.u64()?);
        let client = match form.client_bytes() {
            0 => Self::NOBODY,
            1 => u32::from(r.u8()?),
            _ => r.u32()?,
        };
        let sequence = match form.sequence_bytes() {
            0 => 0,
            4 => u64::from(r.u32()?),
            _ => r.u64()?,
        };
        let cont = if form.cont_bytes() == 1 { u32::from(r.u8()?) } else { r.u32()? };
        let top = u64::from(r.u32()?) << 32;
        let hi = if form.oid_low_half_bytes() > 0 { top | u64::from(r.u32()?) } else { top };
        let lo = if form.oid_lo_bytes() == 4 { u64::from(r.u32()?) } else { r.u64()? };
        let rest = r.take(form.head_bytes() - (r.position() - began))?;
        let (&last, padding) = rest.split_last()?;
        let is_whole = last == form.0 && padding.iter().all(|&byte| byte == 0);
        let head = Self { epoch, client, sequence, cont: ContNo(cont), oid: Oid { hi, lo } };
        is_whole.then_some(head)
    }

    /// Of bytes that end where the first version of a record begins, the part that is its head; `None` if it cannot be one.
    #[must_use]
    #[inline]
    pub fn before(bytes: &[u8]) -> Option<&[u8]> {
        let len = HeadForm::known(*bytes.last()?)?.head_bytes();
        bytes.get(bytes.len().checked_sub(len)?..)
    }
}

/// Bytes that a version with its small value takes of the log at least, as what refers to it is counted: with a head of
/// its own, and without the frame. `key_bytes` is the length of both keys.
#[must_use]
pub fn logged_bytes(kind: VersionKind, record_bytes: u32, value_bytes: u32, key_bytes: usize) -> u64 {
    let sums_bytes = (value_bytes as usize).div_ceil(chunk_bytes(record_bytes, value_bytes)) * 4;
    (WriteHead::BYTES_MIN + Version::logged_head_bytes_min(kind) + sums_bytes + key_bytes) as u64
        + u64::from(value_bytes)
}

/// As `logged_bytes`, of a version that is there.
#[must_use]
pub fn logged_bytes_of(version: &Version<'_>) -> u64 {
    let key_bytes = version.dkey.len() + version.akey.len();
    logged_bytes(version.kind, version.record_bytes, version.value_bytes, key_bytes)
}

/// Head of a `Prepare` body. Groups follow, each an object id, a count and that many versions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrepareHead {
    /// The transaction.
    pub tx: TxId,
    /// The epoch of its writes.
    pub epoch: Epoch,
    /// The client's number.
    pub client: u32,
    /// The request's sequence number.
    pub sequence: u64,
    /// Container.
    pub cont: ContNo,
    /// Whose record decides.
    pub leader: TargetNo,
    /// Whether this record is the decision too: the only participant.
    pub committed: bool,
    /// Who takes part.
    pub participants: SmallVec<[TargetNo; 4]>,
    /// How many groups follow.
    pub groups: u32,
}

impl PrepareHead {
    /// Bytes of the head of a group: object id and count.
    pub const GROUP_BYTES: usize = 16 + 4;

    /// Bytes of the encoding with so many participants.
    #[must_use]
    pub fn encoded_bytes(participants: usize) -> usize {
        60 + 2 * participants
    }

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tx.client.to_le_bytes());
        out.extend_from_slice(&self.tx.begin.0.to_le_bytes());
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.client.to_le_bytes());
        out.extend_from_slice(&self.cont.0.to_le_bytes());
        out.extend_from_slice(&self.leader.0.to_le_bytes());
        out.extend_from_slice(&u16::from(self.committed).to_le_bytes());
        put_len(out, self.participants.len());
        for target in &self.participants {
            out.extend_from_slice(&target.0.to_le_bytes());
        }
        out.extend_from_slice(&self.groups.to_le_bytes());
    }

    /// Reads one.
    pub fn decode(r: &mut Reader<'_>) -> Option<Self> {
        let tx = TxId { client: r.u128()?, begin: Epoch(r.u64()?) };
        let epoch = Epoch(r.u64()?);
        let sequence = r.u64()?;
        let client = r.u32()?;
        let cont = ContNo(r.u32()?);
        let leader = TargetNo(r.u16()?);
        let committed = match r.u16()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let count = r.count(2)?;
        let participants = (0..count).map(|_| r.u16().map(TargetNo)).collect::<Option<_>>()?;
        Some(Self { tx, epoch, client, sequence, cont, leader, committed, participants, groups: r.u32()? })
    }
}

/// Bytes of the body of `Commit`, `Abort` and `Conclude`.
pub const TX_BYTES: usize = 24;

/// A decision: the body of `Commit`, `Abort` and `Conclude`.
pub fn encode_tx(tx: TxId, out: &mut Vec<u8>) {
    out.extend_from_slice(&tx.client.to_le_bytes());
    out.extend_from_slice(&tx.begin.0.to_le_bytes());
}

/// The body of `Commit`, `Abort` and `Conclude`.
pub fn decode_tx(r: &mut Reader<'_>) -> Option<TxId> {
    Some(TxId { client: r.u128()?, begin: Epoch(r.u64()?) })
}

/// What happened to a container. Numbers are persistent: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContEvent {
    /// 1: became known.
    Created(ContSpec),
    /// 2: is to be forgotten with everything in it.
    Destroyed,
    /// 3: no write at or below.
    Floor(Epoch),
    /// 4: a snapshot is kept.
    SnapshotAdded(Epoch),
    /// 5: it is kept no longer.
    SnapshotRemoved(Epoch),
    /// 6: returned to `to` at `at`.
    RolledBack {
        /// The state returned to.
        to: Epoch,
        /// When.
        at: Epoch,
    },
}

impl ContEvent {
    /// Bytes of the longest encoding.
    pub const BYTES_MAX: usize = 25;

    /// Appends the encoding of an event of `cont`.
    pub fn encode(&self, cont: ContNo, out: &mut Vec<u8>) {
        out.extend_from_slice(&cont.0.to_le_bytes());
        let (number, a, b) = match *self {
            Self::Created(spec) => {
                out.extend_from_slice(&1u32.to_le_bytes());
                out.extend_from_slice(&spec.hash_key.0);
                out.push(spec.durability as u8);
                return;
            }
            Self::Destroyed => (2u32, 0, 0),
            Self::Floor(epoch) => (3, epoch.0, 0),
            Self::SnapshotAdded(epoch) => (4, epoch.0, 0),
            Self::SnapshotRemoved(epoch) => (5, epoch.0, 0),
            Self::RolledBack { to, at } => (6, to.0, at.0),
        };
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&a.to_le_bytes());
        out.extend_from_slice(&b.to_le_bytes());
    }

    /// Reads an event and its container.
    pub fn decode(r: &mut Reader<'_>) -> Option<(ContNo, Self)> {
        let cont = ContNo(r.u32()?);
        let number = r.u32()?;
        if number == 1 {
            let hash_key = HashKey(r.take(16)?.try_into().ok()?);
            let durability = Durability::from_number(u64::from(r.u8()?))?;
            return Some((cont, Self::Created(ContSpec { hash_key, durability })));
        }
        let (a, b) = (Epoch(r.u64()?), Epoch(r.u64()?));
        let event = match number {
            2 => Self::Destroyed,
            3 => Self::Floor(a),
            4 => Self::SnapshotAdded(a),
            5 => Self::SnapshotRemoved(a),
            6 => Self::RolledBack { to: a, at: b },
            _ => return None,
        };
        Some((cont, event))
    }
}

/// The body of `Client`: from here on a number on this target is this client's, and not whose it may have been.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientIntro {
    /// The number.
    pub number: u32,
    /// Whose client it is.
    pub uid: u32,
    /// Its id.
    pub client: u128,
    /// Requests before this sequence number are not sent again.
    pub oldest: u64,
}

impl ClientIntro {
    /// Bytes of the encoding.
    pub const BYTES: usize = 32;

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.uid.to_le_bytes());
        out.extend_from_slice(&self.client.to_le_bytes());
        out.extend_from_slice(&self.oldest.to_le_bytes());
    }

    /// Reads one.
    pub fn decode(r: &mut Reader<'_>) -> Option<Self> {
        Some(Self { number: r.u32()?, uid: r.u32()?, client: r.u128()?, oldest: r.u64()? })
    }
}

/// Bytes of the body of `Cred`.
pub const CRED_BYTES: usize = 16;

/// The body of `Cred`: the number of credentials on this target.
pub fn encode_cred(number: u32, cred: Credentials, out: &mut Vec<u8>) {
    for word in [number, cred.uid, cred.gid, cred.project] {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// The body of `Cred`.
pub fn decode_cred(r: &mut Reader<'_>) -> Option<(u32, Credentials)> {
    Some((r.u32()?, Credentials { uid: r.u32()?, gid: r.u32()?, project: r.u32()? }))
}

/// Reads one version and its inline value from a log body; also returns the offset of the version in the body.
pub fn decode_version<'a>(r: &mut Reader<'a>) -> Option<(usize, Version<'a>, &'a [u8])> {
    let at = r.position();
    let version = Version::decode_logged(r)?;
    let inline = r.take(version.inline_bytes())?;
    Some((at, version, inline))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads() -> Vec<WriteHead> {
        let least = WriteHead::of_nobody(Epoch(1), ContNo(4), Oid { hi: 5 << 32, lo: 6 });
        let usual = WriteHead { client: 2, sequence: 3, ..least };
        let most = Oid { hi: u64::MAX, lo: u64::MAX };
        vec![
            least,
            usual,
            WriteHead { client: 0x100, ..usual },
            WriteHead { client: u32::MAX - 1, sequence: 0, ..usual },
            WriteHead { sequence: 1 << 32, ..usual },
            WriteHead { cont: ContNo(0x100), ..usual },
            WriteHead { oid: Oid { hi: 5 << 32 | 1, lo: 6 }, ..usual },
            WriteHead { oid: Oid { hi: 5, lo: 1 << 32 }, ..usual },
            WriteHead {
                epoch: Epoch(u64::MAX),
                client: u32::MAX - 1,
                sequence: u64::MAX,
                cont: ContNo(u32::MAX),
                oid: most,
            },
        ]
    }

    #[test]
    fn heads_round_trip_and_are_found_from_behind() {
        let mut all = Vec::new();
        for head in heads() {
            let before = all.len();
            head.encode(&mut all);
            let bytes = &all[before..];
            assert_eq!(bytes.len(), head.encoded_bytes());
            assert!((WriteHead::BYTES_MIN..=WriteHead::BYTES_MAX).contains(&bytes.len()));
            assert_eq!(bytes.len() % LOG_FRAME_ALIGN, 0);
            assert_eq!(WriteHead::before(&all), Some(bytes), "{head:?}");
            let mut reader = Reader::new(bytes);
            assert_eq!((WriteHead::decode(&mut reader), reader.remaining()), (Some(head), 0));
            assert_eq!(WriteHead::before(&bytes[1..]), None);
        }
        let sizes: Vec<_> = heads().iter().map(WriteHead::encoded_bytes).collect();
        assert_eq!(sizes, [24, 24, 32, 24, 32, 32, 32, 32, 48]);
        assert_eq!(crate::bytes::golden(&all), 0xef11_7b5d_6dfe_7eed);
    }

    #[test]
    fn a_head_that_does_not_end_as_it_begins_is_refused() {
        for head in heads() {
            let mut bytes = Vec::new();
            head.encode(&mut bytes);
            for (at, flip) in [(0, 0x80), (0, 0x10), (bytes.len() - 1, 0x10)] {
                bytes[at] ^= flip;
                assert_eq!(WriteHead::decode(&mut Reader::new(&bytes)), None, "{head:?} {at}");
                bytes[at] ^= flip;
            }
        }
        assert_eq!(WriteHead::before(&[0x83; 48]), None, "no such client");
        assert_eq!(WriteHead::before(&[0x8c; 48]), None, "no such sequence number");
        assert_eq!(WriteHead::before(&[0; 48]), None);
        assert_eq!(WriteHead::before(&[]), None);
    }

    #[test]
    fn bodies_round_trip() {
        let mut out = Vec::new();
        let prepare = PrepareHead {
            tx: TxId { client: 1, begin: Epoch(2) },
            epoch: Epoch(2),
            client: 3,
            sequence: 4,
            cont: ContNo(5),
            leader: TargetNo(1),
            committed: false,
            participants: [TargetNo(1), TargetNo(3)].into_iter().collect(),
            groups: 7,
        };
        prepare.encode(&mut out);
        assert_eq!(crate::bytes::golden(&out), 0x8050_c428_a36b_b268);
        assert_eq!(PrepareHead::decode(&mut Reader::new(&out)), Some(prepare.clone()));
        assert_eq!(out.len(), PrepareHead::encoded_bytes(2));
        let all = (0..1024).map(TargetNo).collect();
        out.clear();
        PrepareHead { participants: all, ..prepare }.encode(&mut out);
        assert_eq!(out.len(), PrepareHead::encoded_bytes(1024));

        out.clear();
        encode_tx(TxId { client: 1, begin: Epoch(2) }, &mut out);
        assert_eq!(out.len(), TX_BYTES);
        out.clear();
        let intro = ClientIntro { number: 1, uid: 2, client: 3, oldest: 4 };
        intro.encode(&mut out);
        assert_eq!(out.len(), ClientIntro::BYTES);
        assert_eq!(crate::bytes::golden(&out), 0x1218_a176_1bd1_9c21);
        assert_eq!(ClientIntro::decode(&mut Reader::new(&out)), Some(intro));
        out.clear();
        encode_cred(1, Credentials::default(), &mut out);
        assert_eq!(out.len(), CRED_BYTES);

        let spec = ContSpec { hash_key: HashKey([9; 16]), durability: Durability::Process };
        let mut events = Vec::new();
        for event in [
            ContEvent::Created(spec),
            ContEvent::Destroyed,
            ContEvent::Floor(Epoch(8)),
            ContEvent::SnapshotAdded(Epoch(8)),
            ContEvent::SnapshotRemoved(Epoch(8)),
            ContEvent::RolledBack { to: Epoch(8), at: Epoch(9) },
        ] {
            out.clear();
            event.encode(ContNo(3), &mut out);
            assert!(out.len() <= ContEvent::BYTES_MAX);
            assert_eq!(ContEvent::decode(&mut Reader::new(&out)), Some((ContNo(3), event)));
            events.extend_from_slice(&out);
        }
        assert_eq!(crate::bytes::golden(&events), 0x4bbd_0dd9_ee8f_2f5e);
    }
}
