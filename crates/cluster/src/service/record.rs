//! The pool service's records, each one single value in the system container.
//!
//! Invariants: every record starts with magic, kind and version and ends with the crc32c of what precedes;
//! one that does not is never used; kinds and intents are persistent numbers.

use dolmen_codec::bytes::{Reader, put_len};
use dolmen_codec::order::HashKey;
use dolmen_types::{ContNo, Epoch, Label, PropId, PropValue, Props, RequestId, Uuid, crc32c};

const MAGIC: u32 = 0x5350_4c44;
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 6;
const SUM_BYTES: usize = 4;

/// Kinds of records. Persistent: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Pool = 1,
    Cont = 2,
    Intent = 3,
    Snapshot = 4,
    Attr = 5,
    Origin = 6,
    PoolProps = 7,
    Answer = 8,
    Times = 9,
}

/// What the service knows of the pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PoolRecord {
    /// No container below this number will be made again.
    pub(crate) next_cont: u32,
}

/// What the service knows of a container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ContRecord {
    pub(crate) uuid: Uuid,
    pub(crate) label: Option<Label>,
    pub(crate) hash_key: HashKey,
    /// Object numbers below this may have been given out.
    pub(crate) oid_limit: u64,
    /// Properties that were set.
    pub(crate) props: Props,
}

/// When a container was used and changed last, in the same step as a change of its records. The times of whoever has opened
/// and closed it since are with the service alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Times {
    /// It was opened.
    pub(crate) opened: Epoch,
    /// Something on record was changed, or a handle closed.
    pub(crate) changed: Epoch,
}

/// A change of several targets that has begun: completed or undone when the pool is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Intent {
    /// Persistent number 1.
    Create,
    /// Persistent number 2.
    Destroy,
    /// Persistent number 3.
    AddSnapshot(Epoch),
    /// Persistent number 4.
    RemoveSnapshot(Epoch),
    /// Persistent number 5.
    Rollback { to: Epoch, at: Epoch },
}

/// What a change was answered with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// Persistent number 1.
    Done,
    /// Persistent number 2.
    Epoch(Epoch),
    /// Persistent number 3: the first of a range of object numbers.
    Oids(u64),
    /// Persistent number 4: a container, and of its record as it was then what its answer is made of: some hundred bytes.
    Cont(ContNo, Box<ContRecord>),
}

impl Answer {
    /// What is answered of a container. The access control list is left out, as it may be long: who asks again is told the one
    /// that holds then. So are limits, which are not told. Evictions are all there: whoever has the connections takes handles by them, and leaves out what is not
    /// for who has asked.
    pub(crate) fn cont(no: ContNo, mut record: ContRecord) -> Self {
        record.props.remove(&PropId::CO_ACL);
        record.props.remove(&PropId::CO_QUOTA);
        Self::Cont(no, Box::new(record))
    }
}

/// An answer, in the same step as the change that it is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AnswerRecord {
    /// The request.
    pub(crate) id: RequestId,
    /// Whose it was: nobody else is told.
    pub(crate) uid: u32,
    /// Answers of one pool are numbered in the order in which they were given.
    pub(crate) number: u64,
    pub(crate) answer: Answer,
}

impl PoolRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        framed(Kind::Pool, |out| out.extend_from_slice(&self.next_cont.to_le_bytes()))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        whole(bytes, Kind::Pool, |r| Some(Self { next_cont: r.u32()? }))
    }
}

impl ContRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        framed(Kind::Cont, |out| {
            out.extend_from_slice(self.uuid.as_bytes());
            out.extend_from_slice(&self.hash_key.0);
            out.extend_from_slice(&self.oid_limit.to_le_bytes());
            put_bytes(out, self.label.as_ref().map_or("", Label::as_str).as_bytes());
            put_props(out, &self.props);
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        whole(bytes, Kind::Cont, |r| {
            let uuid = r.uuid()?;
            let hash_key = HashKey(r.u128()?.to_le_bytes());
            let oid_limit = r.u64()?;
            let label = match text(r)? {
                empty if empty.is_empty() => None,
                text => Some(Label::new(&text).ok()?),
            };
            Some(Self { uuid, label, hash_key, oid_limit, props: props(r)? })
        })
    }
}

impl Times {
    pub(crate) fn encode(self) -> Vec<u8> {
        framed(Kind::Times, |out| {
            out.extend_from_slice(&self.opened.0.to_le_bytes());
            out.extend_from_slice(&self.changed.0.to_le_bytes());
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        whole(bytes, Kind::Times, |r| Some(Self { opened: Epoch(r.u64()?), changed: Epoch(r.u64()?) }))
    }
}

impl Intent {
    pub(crate) fn encode(self) -> Vec<u8> {
        let (number, a, b) = match self {
            Self::Create => (1, Epoch::ZERO, Epoch::ZERO),
            Self::Destroy => (2, Epoch::ZERO, Epoch::ZERO),
            Self::AddSnapshot(epoch) => (3, epoch, Epoch::ZERO),
            Self::RemoveSnapshot(epoch) => (4, epoch, Epoch::ZERO),
            Self::Rollback { to, at } => (5, to, at),
        };
        framed(Kind::Intent, |out| {
            out.push(number);
            out.extend_from_slice(&a.0.to_le_bytes());
            out.extend_from_slice(&b.0.to_le_bytes());
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        whole(bytes, Kind::Intent, |r| {
            let (number, a, b) = (r.u8()?, Epoch(r.u64()?), Epoch(r.u64()?));
            Some(match number {
                1 => Self::Create,
                2 => Self::Destroy,
                3 => Self::AddSnapshot(a),
                4 => Self::RemoveSnapshot(a),
                5 => Self::Rollback { to: a, at: b },
                _ => return None,
            })
        })
    }
}

impl AnswerRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        framed(Kind::Answer, |out| {
            put_id(out, self.id);
            out.extend_from_slice(&self.uid.to_le_bytes());
            out.extend_from_slice(&self.number.to_le_bytes());
            match &self.answer {
                Answer::Done => out.push(1),
                Answer::Epoch(epoch) => {
                    out.push(2);
                    out.extend_from_slice(&epoch.0.to_le_bytes());
                }
                Answer::Oids(first) => {
                    out.push(3);
                    out.extend_from_slice(&first.to_le_bytes());
                }
                Answer::Cont(no, record) => {
                    out.push(4);
                    out.extend_from_slice(&no.0.to_le_bytes());
                    put_bytes(out, &record.encode());
                }
            }
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        whole(bytes, Kind::Answer, |r| {
            let (id, uid, number) = (request_id(r)?, r.u32()?, r.u64()?);
            let answer = match r.u8()? {
                1 => Answer::Done,
                2 => Answer::Epoch(Epoch(r.u64()?)),
                3 => Answer::Oids(r.u64()?),
                4 => Answer::Cont(ContNo(r.u32()?), Box::new(ContRecord::decode(part(r)?)?)),
                _ => return None,
            };
            Some(Self { id, uid, number, answer })
        })
    }
}

/// The pool's owner, group and access control list, as far as they were set.
pub(crate) fn encode_pool_props(props: &Props) -> Vec<u8> {
    framed(Kind::PoolProps, |out| put_props(out, props))
}

pub(crate) fn decode_pool_props(bytes: &[u8]) -> Option<Props> {
    whole(bytes, Kind::PoolProps, props)
}

/// A snapshot's record: its name; empty for none.
pub(crate) fn encode_snapshot(name: Option<&str>) -> Vec<u8> {
    framed(Kind::Snapshot, |out| put_bytes(out, name.unwrap_or("").as_bytes()))
}

pub(crate) fn decode_snapshot(bytes: &[u8]) -> Option<Option<String>> {
    whole(bytes, Kind::Snapshot, |r| text(r).map(|name| (!name.is_empty()).then_some(name)))
}

/// A user attribute's record.
pub(crate) fn encode_attr(value: &[u8]) -> Vec<u8> {
    framed(Kind::Attr, |out| put_bytes(out, value))
}

pub(crate) fn decode_attr(bytes: &[u8]) -> Option<Vec<u8>> {
    whole(bytes, Kind::Attr, |r| part(r).map(<[u8]>::to_vec))
}

/// The request that has made a container or a snapshot.
pub(crate) fn encode_origin(id: RequestId) -> Vec<u8> {
    framed(Kind::Origin, |out| put_id(out, id))
}

pub(crate) fn decode_origin(bytes: &[u8]) -> Option<RequestId> {
    whole(bytes, Kind::Origin, request_id)
}

fn put_id(out: &mut Vec<u8>, id: RequestId) {
    out.extend_from_slice(&id.client.to_le_bytes());
    out.extend_from_slice(&id.sequence.to_le_bytes());
}

fn request_id(r: &mut Reader<'_>) -> Option<RequestId> {
    Some(RequestId { client: r.u128()?, sequence: r.u64()? })
}

fn framed(kind: Kind, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.push(kind as u8);
    out.push(VERSION);
    body(&mut out);
    out.extend_from_slice(&crc32c(&out).to_le_bytes());
    out
}

/// Decodes the body of a record whose frame is right; `None` if anything is wrong or left over.
fn whole<'a, R>(bytes: &'a [u8], kind: Kind, body: impl FnOnce(&mut Reader<'a>) -> Option<R>) -> Option<R> {
    let (content, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM_BYTES)?)?;
    if content.len() < HEAD_BYTES || sum != crc32c(content).to_le_bytes() {
        return None;
    }
    let mut r = Reader::new(content);
    if r.u32()? != MAGIC || r.u8()? != kind as u8 || r.u8()? != VERSION {
        return None;
    }
    let decoded = body(&mut r)?;
    (r.remaining() == 0).then_some(decoded)
}

fn put_props(out: &mut Vec<u8>, props: &Props) {
    put_len(out, props.len());
    for (id, value) in props {
        out.extend_from_slice(&id.0.to_le_bytes());
        match value {
            PropValue::Number(number) => {
                out.push(0);
                out.extend_from_slice(&number.to_le_bytes());
            }
            PropValue::Text(text) => {
                out.push(1);
                put_bytes(out, text.as_bytes());
            }
            PropValue::Bytes(bytes) => {
                out.push(2);
                put_bytes(out, bytes);
            }
        }
    }
}

fn props(r: &mut Reader<'_>) -> Option<Props> {
    let mut props = Props::new();
    for _ in 0..r.count(9)? {
        let id = PropId(r.u32()?);
        let value = match r.u8()? {
            0 => PropValue::Number(r.u64()?),
            1 => PropValue::Text(text(r)?),
            2 => PropValue::Bytes(part(r)?.to_vec()),
            _ => return None,
        };
        props.insert(id, value);
    }
    Some(props)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn part<'a>(r: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = r.count(1)?;
    r.take(len)
}

fn text(r: &mut Reader<'_>) -> Option<String> {
    Some(core::str::from_utf8(part(r)?).ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container() -> ContRecord {
        ContRecord {
            uuid: Uuid::from_u128(0x1122_3344),
            label: Some(Label::new("era5").unwrap()),
            hash_key: HashKey([9; 16]),
            oid_limit: 65537,
            props: Props::from([
                (PropId::CO_LAYOUT_TYPE, PropValue::Number(1)),
                (PropId::CO_OWNER, PropValue::Text("user@".to_owned())),
                (PropId::CO_ROOTS, PropValue::Bytes(vec![1, 2, 3])),
            ]),
        }
    }

    #[test]
    fn records_round_trip() {
        assert_eq!(ContRecord::decode(&container().encode()), Some(container()));
        assert_eq!(
            PoolRecord::decode(&PoolRecord { next_cont: 7 }.encode()),
            Some(PoolRecord { next_cont: 7 })
        );
        let rollback = Intent::Rollback { to: Epoch(3), at: Epoch(4) };
        for intent in [Intent::Create, Intent::Destroy, Intent::AddSnapshot(Epoch(8)), rollback] {
            assert_eq!(Intent::decode(&intent.encode()), Some(intent));
        }
        assert_eq!(decode_snapshot(&encode_snapshot(None)), Some(None));
        assert_eq!(decode_snapshot(&encode_snapshot(Some("daily"))), Some(Some("daily".to_owned())));
        assert_eq!(decode_attr(&encode_attr(b"")), Some(Vec::new()));
    }

    #[test]
    fn golden_bytes_of_an_intent() {
        let bytes = Intent::Rollback { to: Epoch(1), at: Epoch(2) }.encode();
        let golden = [0x44, 0x4c, 0x50, 0x53, 3, 1, 5, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes[..golden.len()], golden);
        assert_eq!(bytes[golden.len()..], crc32c(&golden).to_le_bytes());
    }

    #[test]
    fn golden_bytes_of_times() {
        let times = Times { opened: Epoch(1), changed: Epoch(2) };
        let bytes = times.encode();
        let golden = [0x44, 0x4c, 0x50, 0x53, 9, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes[..golden.len()], golden);
        assert_eq!(bytes[golden.len()..], crc32c(&golden).to_le_bytes());
        assert_eq!(Times::decode(&bytes), Some(times));
        assert_eq!(Times::decode(&bytes[1..]), None);
    }

    #[test]
    fn golden_bytes_of_an_origin() {
        let id = RequestId { client: 0x0102, sequence: 3 };
        let bytes = encode_origin(id);
        let mut golden = vec![0x44, 0x4c, 0x50, 0x53, 6, 1, 2, 1];
        golden.extend([[0; 14].as_slice(), &[3, 0, 0, 0, 0, 0, 0, 0]].concat());
        assert_eq!(bytes[..golden.len()], golden);
        assert_eq!(bytes[golden.len()..], crc32c(&golden).to_le_bytes());
        assert_eq!(decode_origin(&bytes), Some(id));
    }

    fn answers() -> [Answer; 4] {
        let cont = Answer::Cont(ContNo(7), Box::new(container()));
        [Answer::Done, Answer::Epoch(Epoch(4)), Answer::Oids(5), cont]
    }

    #[test]
    fn golden_bytes_of_an_answer() {
        let id = RequestId { client: 0x0102, sequence: 3 };
        let head = [
            [0x44, 0x4c, 0x50, 0x53, 8, 1, 2, 1].as_slice(),
            &[0; 14],
            &[3, 0, 0, 0, 0, 0, 0, 0],
            &[0xe8, 3, 0, 0],
            &[9, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        let record = container().encode();
        let bodies = [
            vec![1],
            vec![2, 4, 0, 0, 0, 0, 0, 0, 0],
            vec![3, 5, 0, 0, 0, 0, 0, 0, 0],
            [[4, 7, 0, 0, 0].as_slice(), &u32::try_from(record.len()).unwrap().to_le_bytes(), &record]
                .concat(),
        ];
        for (answer, body) in answers().into_iter().zip(bodies) {
            let record = AnswerRecord { id, uid: 1000, number: 9, answer };
            let golden = [head.as_slice(), &body].concat();
            let bytes = record.encode();
            assert_eq!(bytes[..golden.len()], golden);
            assert_eq!(bytes[golden.len()..], crc32c(&golden).to_le_bytes());
            assert_eq!(AnswerRecord::decode(&bytes), Some(record));
        }
    }

    #[test]
    fn a_damaged_answer_is_never_given() {
        let id = RequestId { client: 1, sequence: 3 };
        for answer in answers() {
            let bytes = AnswerRecord { id, uid: 1000, number: 9, answer }.encode();
            for (at, _) in bytes.iter().enumerate() {
                let mut bad = bytes.clone();
                bad[at] ^= 4;
                assert_eq!(AnswerRecord::decode(&bad), None, "byte {at}");
                assert_eq!(AnswerRecord::decode(&bytes[..at]), None, "cut at {at}");
            }
        }
    }

    #[test]
    fn golden_bytes_of_a_pools_properties() {
        let props = Props::from([(PropId::PO_OWNER, PropValue::Text("ann@".to_owned()))]);
        let bytes = encode_pool_props(&props);
        let golden =
            [[0x44, 0x4c, 0x50, 0x53, 7, 1].as_slice(), &[1, 0, 0, 0, 6, 0, 0, 0, 1, 4, 0, 0, 0], b"ann@"]
                .concat();
        assert_eq!(bytes[..golden.len()], golden);
        assert_eq!(bytes[golden.len()..], crc32c(&golden).to_le_bytes());
        assert_eq!(decode_pool_props(&bytes), Some(props));
        assert_eq!(decode_pool_props(&container().encode()), None);
    }

    #[test]
    fn a_damaged_record_is_never_used() {
        let bytes = container().encode();
        for (at, _) in bytes.iter().enumerate() {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            assert_eq!(ContRecord::decode(&bad), None, "byte {at}");
            assert_eq!(ContRecord::decode(&bytes[..at]), None, "cut at {at}");
        }
        assert_eq!(Intent::decode(&bytes), None);
    }
}
