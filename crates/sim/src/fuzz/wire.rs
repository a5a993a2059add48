//! Frames from a peer: as they come, and with a header that fits what is behind it.

use dolmen_codec::verb::{FetchedIod, Verb, Want};
use dolmen_codec::wire::{
    Asked, BadFrame, Caller, FetchPlan, HELLO_BYTES, Hello, PoolSlot, Push, REPLY_HEADER_BYTES,
    REQUEST_HEADER_BYTES, ReplyHeader, RequestHeader, Version, WELCOME_BYTES, Welcome, decode_reply,
    decode_request, decode_request_owned, decode_system_reply, decode_system_request, encode_request,
    encode_system_request,
};
use dolmen_codec::{Answer, Ask, verb};
use dolmen_types::{Cond, IoBuf, Key, Oid, Recx, crc32c};

/// Where both headers have version and kind, and their checksum; requests their token and lengths, replies theirs.
const VERSION_AT: usize = 4;
const SUM_AT: usize = 8;
const SUM_END: usize = 12;
const FLAGS_AT: usize = 12;
const TOKEN_AT: usize = 16;
const REQUEST_LENGTHS_AT: usize = 92;
const REPLY_LENGTHS_AT: usize = 56;
const REPLY_BODY_SUM_AT: usize = 44;
/// Where a hello and a welcome have their checksum, right behind which they begin.
const GREETING_SUM_AT: usize = 4;

/// Buffers that a fetch may ask the fuzzer for.
const ROOM_BYTES_MAX: usize = 1 << 20;

/// A request, and the hello before it.
pub fn wire_request(bytes: &[u8]) {
    hello(bytes);
    let Some((header, rest)) = bytes.split_first_chunk() else { return };
    for version in Version::ALL {
        if let Ok(found) = RequestHeader::decode(header, version) {
            assert_eq!(&found.encode(), header);
        }
        request_of(version, *header, rest);
    }
}

fn request_of(version: Version, mut header: [u8; REQUEST_HEADER_BYTES], rest: &[u8]) {
    header[..VERSION_AT].copy_from_slice(b"DLRQ");
    header[VERSION_AT..VERSION_AT + 2].copy_from_slice(&version.number().to_le_bytes());
    header[FLAGS_AT..TOKEN_AT].fill(0);
    header[TOKEN_AT] |= 1;
    let claimed = u32_at(&header, REQUEST_LENGTHS_AT) as usize;
    let (body, payload) = rest.split_at(claimed.min(rest.len()));
    let lengths = &mut header[REQUEST_LENGTHS_AT..REQUEST_LENGTHS_AT + 12];
    lengths[..4].copy_from_slice(&length(body).to_le_bytes());
    lengths[4..8].copy_from_slice(&length(payload).to_le_bytes());
    lengths[8..].copy_from_slice(&sum_of(version, body).to_le_bytes());
    seal(&mut header);
    match RequestHeader::decode(&header, version) {
        Ok(found) => {
            assert_eq!(found.encode(), header);
            refuses_changed(&found, body, payload);
            request_body(&found, body, payload);
        }
        Err(bad) => assert!(matches!(bad, BadFrame::Kind { .. }), "{bad:?}"),
    }
}

/// A body with a bit turned around is none where it has a checksum.
fn refuses_changed(header: &RequestHeader, body: &[u8], payload: &[u8]) {
    let mut changed = body.to_vec();
    let Some(last) = changed.last_mut().filter(|_| header.version.has_sums()) else { return };
    *last ^= 1;
    let refused = if header.pool == PoolSlot::SYSTEM {
        decode_system_request(header, &changed).map(drop)
    } else {
        decode_request(header, &changed, payload).map(drop)
    };
    assert!(matches!(refused, Err(BadFrame::BodySum | BadFrame::Payload { .. })), "{refused:?}");
}

fn request_body(header: &RequestHeader, body: &[u8], payload: &[u8]) {
    let RequestHeader { version, token, head, pool, seen, push_acked, wants_lease, .. } = *header;
    let (names_charged, tells_ends) = (true, true);
    let caller =
        Caller { version, token, head, pool, seen, push_acked, wants_lease, names_charged, tells_ends };
    if pool == PoolSlot::SYSTEM {
        assert!(decode_request(header, body, payload).is_err());
        let Ok(verb) = decode_system_request(header, body) else { return };
        let mut again = Vec::new();
        encode_system_request(&mut again, &caller, &verb).expect("it came in a frame");
        assert_eq!(&again[REQUEST_HEADER_BYTES..], body);
        return;
    }
    let borrowed = decode_request(header, body, payload);
    let owned = decode_request_owned(header, body, IoBuf::copy_of(payload));
    assert_eq!(borrowed.is_ok(), owned.is_ok());
    if let (Ok(borrowed), Ok(owned)) = (borrowed, owned) {
        assert_encodes(borrowed, &caller, body, payload);
        assert_encodes(owned, &caller, body, payload);
    }
}

fn assert_encodes(asked: Asked<'_>, caller: &Caller, body: &[u8], payload: &[u8]) {
    let Some(asked) = with_room(asked) else { return };
    let mut again = Vec::new();
    let parts = encode_request(&mut again, caller, &asked.ask).expect("it came in a frame");
    assert_eq!(&again[REQUEST_HEADER_BYTES..], body);
    assert_eq!(parts.concat(), payload);
}

/// With the buffer that a fetch needs, unless that is a large one.
fn with_room(mut asked: Asked<'_>) -> Option<Asked<'_>> {
    if asked.room_bytes > ROOM_BYTES_MAX {
        return None;
    }
    if let Ask::Target(_, _, Verb::Fetch(fetch)) = &mut asked.ask {
        fetch.buf = IoBuf::zeroed(asked.room_bytes);
    }
    Some(asked)
}

fn hello(bytes: &[u8]) {
    let Some(record) = bytes.first_chunk::<HELLO_BYTES>() else { return };
    for record in [*record, greeting(*record, *b"DLHI")] {
        if let Ok(hello) = Hello::decode(&record) {
            assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            assert!(hello.agreed().is_none_or(|version| version.number() <= hello.version_max));
        }
    }
}

/// A reply or a push, and the welcome before them.
pub fn wire_reply(bytes: &[u8]) {
    welcome(bytes);
    let Some((header, body)) = bytes.split_first_chunk() else { return };
    for version in Version::ALL {
        if let Ok(found) = ReplyHeader::decode(header, version) {
            assert_eq!(&found.encode(), header);
        }
        reply_of(version, *header, body);
    }
}

fn reply_of(version: Version, mut header: [u8; REPLY_HEADER_BYTES], body: &[u8]) {
    header[..VERSION_AT].copy_from_slice(b"DLRP");
    header[VERSION_AT..VERSION_AT + 2].copy_from_slice(&version.number().to_le_bytes());
    header[REPLY_LENGTHS_AT..REPLY_LENGTHS_AT + 4].copy_from_slice(&length(body).to_le_bytes());
    header[REPLY_LENGTHS_AT + 4..].fill(0);
    header[REPLY_BODY_SUM_AT..REPLY_BODY_SUM_AT + 4].copy_from_slice(&sum_of(version, body).to_le_bytes());
    seal(&mut header);
    let Ok(found) = ReplyHeader::decode(&header, version) else { return };
    assert_eq!(found.encode(), header);
    let answers = decode_reply(&found, body);
    if let Ok(Ok(Answer::Target(verb::Reply::Fetched(fetched)))) = &answers {
        fill(fetched);
    }
    let pushed = Push::decode(&found, body);
    let is_failure = found.status < 0;
    let count = [answers.is_ok(), decode_system_reply(&found, body).is_ok(), pushed.is_ok()];
    assert!(is_failure || count.iter().filter(|&&is_one| is_one).count() <= 1, "{found:?}");
    if let Ok(push) = pushed {
        let mut again = Vec::new();
        push.encode(&mut again, version);
        assert_eq!(&again[REPLY_HEADER_BYTES..], body);
    }
}

/// Lays the answer of a fetch into the buffers of fetches of several kinds.
fn fill(fetched: &[FetchedIod]) {
    let array = |parts: &[(u64, u64)]| {
        let extents = parts.iter().map(|&(index, count)| Recx::new(index, count)).collect();
        Want::Array { record_bytes: 8, extents }
    };
    let wants = [
        Want::Single { room_bytes: 64 },
        Want::Size,
        array(&[(0, 16)]),
        array(&[(100, 16), (0, 16), (4, 16)]),
        array(&[(u64::MAX - 8, 8)]),
    ];
    for first in 0..wants.len() {
        let iods = fetched.iter().zip(wants.iter().cycle().skip(first));
        let iods = iods.map(|(_, want)| verb::FetchIod { akey: Key::new(), want: want.clone() }).collect();
        let buf = IoBuf::zeroed(1 << 14);
        let (oid, at) = (Oid::default(), verb::ReadAt::Latest);
        let mut fetch = verb::Fetch { oid, dkey: Key::new(), cond: Cond::NONE, at, iods, buf };
        let plan = FetchPlan::of(&fetch);
        let Some(filled_bytes) = plan.filled_bytes(fetched) else { continue };
        assert_eq!(plan.scatter(fetched, &vec![1; filled_bytes], &mut fetch.buf), Some(()));
        assert_eq!(plan.scatter(fetched, &vec![1; filled_bytes + 1], &mut fetch.buf), None);
    }
}

fn welcome(bytes: &[u8]) {
    let Some(record) = bytes.first_chunk::<WELCOME_BYTES>() else { return };
    for record in [*record, greeting(*record, *b"DLWE")] {
        match Welcome::decode(&record) {
            Ok(Ok(welcome)) if welcome.system.len() <= 127 => {
                assert_eq!(Welcome::decode(&welcome.encode()), Ok(Ok(welcome)));
            }
            Ok(Err(refusal)) => assert_eq!(Welcome::decode(&refusal.encode()), Ok(Err(refusal))),
            Ok(Ok(_)) | Err(_) => {}
        }
    }
}

fn greeting<const N: usize>(mut record: [u8; N], magic: [u8; 4]) -> [u8; N] {
    record[..GREETING_SUM_AT].copy_from_slice(&magic);
    let sum = crc32c(&record[GREETING_SUM_AT + 4..]);
    record[GREETING_SUM_AT..GREETING_SUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
    record
}

/// The checksum of a body, where it has one.
fn sum_of(version: Version, body: &[u8]) -> u32 {
    if version.has_sums() { crc32c(body) } else { 0 }
}

fn seal(header: &mut [u8]) {
    let sum = crc32c(&header[SUM_END..]) ^ u32_at(header, VERSION_AT);
    header[SUM_AT..SUM_END].copy_from_slice(&sum.to_le_bytes());
}

fn u32_at(header: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(header[at..at + 4].try_into().expect("inside a header"))
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a fuzzer's input is short")
}
