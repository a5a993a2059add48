//! What a fuzzer feeds with bytes: every record that is read from a device, frames from a peer, and the stream of
//! operations.
//!
//! A function returns whatever the bytes are, or panics: that is the find. Records with checksums are read
//! twice, as they come and with the right checksum put in, since no fuzzer guesses one. What can be read is
//! written again and read again: both must be the same.

#![expect(clippy::missing_panics_doc, reason = "the module says it for all of them: a panic is the find")]

mod wire;

pub use wire::{wire_reply, wire_request};

use crate::Subject;
use crate::compare::side_by_side_of;
use dolmen_codec::bytes::Reader;
use dolmen_codec::log_body::{
    ClientIntro, ContEvent, PrepareHead, WriteHead, decode_cred, decode_tx, decode_version, encode_cred,
    encode_tx,
};
use dolmen_codec::log_frame::{LOG_FRAME_HEADER_BYTES, LogFrame, LogKind};
use dolmen_codec::log_segment::{LOG_SEGMENT_HEADER_BYTES, LogSegmentHeader};
use dolmen_codec::manifest::Manifest;
use dolmen_codec::order::{HashKey, check_key, key_number, push_key};
use dolmen_codec::run_block::{RUN_PAGE_BYTES, RunBlock, RunBlockKind, decode_filter_block};
use dolmen_codec::run_footer::RunFooter;
use dolmen_codec::superblock::{SUPERBLOCK_SLOT_BYTES, Superblock};
use dolmen_codec::version::{ValuePlace, Version};
use dolmen_types::{Anchor, KeyKind, Oid, crc32c};

/// Bytes of a superblock before its padding, and of the checksum at their end.
const SUPERBLOCK_BODY_BYTES: usize = 64;
const SUM_BYTES: usize = 4;

/// Reads one kind of record from any bytes.
pub type Target = fn(&[u8]);

/// Every record, by the name of its target and of the folder with its corpus.
pub const RECORDS: [(&str, Target); 12] = [
    ("log_body", log_body),
    ("log_frame", log_frame),
    ("log_segment", log_segment),
    ("manifest", manifest),
    ("order", order),
    ("run_block", run_block),
    ("run_filter", run_filter),
    ("run_footer", run_footer),
    ("superblock", superblock),
    ("version", version),
    ("wire_reply", wire_reply),
    ("wire_request", wire_request),
];

/// Runs the operations that the bytes choose on an empty subject and on the model.
pub fn operations(bytes: &[u8], subject: &mut dyn Subject) {
    if let Err(divergence) = side_by_side_of(bytes, subject) {
        panic!("{divergence:?}");
    }
}

/// Bodies of log frames. The first byte says of which kind.
pub fn log_body(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else { return };
    let mut body = body.to_vec();
    match kind % 7 {
        0 => reseal_versions(LogKind::Write, &mut body),
        6 => reseal_from(&mut body, 0),
        _ => {}
    }
    let mut r = Reader::new(&body);
    let mut again = Vec::new();
    match kind % 7 {
        0 => {
            let Some(head) = WriteHead::decode(&mut r) else { return };
            head.encode(&mut again);
            assert_eq!(WriteHead::decode(&mut Reader::new(&again)), Some(head));
            while decode_version(&mut r).is_some() {}
        }
        1 => {
            let Some(head) = PrepareHead::decode(&mut r) else { return };
            head.encode(&mut again);
            assert_eq!(PrepareHead::decode(&mut Reader::new(&again)), Some(head));
        }
        2 => {
            let Some(tx) = decode_tx(&mut r) else { return };
            encode_tx(tx, &mut again);
            assert_eq!(decode_tx(&mut Reader::new(&again)), Some(tx));
        }
        3 => {
            let Some((cont, event)) = ContEvent::decode(&mut r) else { return };
            event.encode(cont, &mut again);
            assert_eq!(ContEvent::decode(&mut Reader::new(&again)), Some((cont, event)));
        }
        4 => {
            let Some(intro) = ClientIntro::decode(&mut r) else { return };
            intro.encode(&mut again);
            assert_eq!(ClientIntro::decode(&mut Reader::new(&again)), Some(intro));
        }
        5 => {
            let Some((number, cred)) = decode_cred(&mut r) else { return };
            encode_cred(number, cred, &mut again);
            assert_eq!(decode_cred(&mut Reader::new(&again)), Some((number, cred)));
        }
        _ => while decode_version(&mut r).is_some() {},
    }
}

/// Puts the checksums of the versions right that a body of this kind may have, since no forger would get them right by
/// chance.
pub fn reseal_versions(kind: LogKind, body: &mut [u8]) {
    let mut r = Reader::new(body);
    let found = match kind {
        LogKind::Write => WriteHead::decode(&mut r).map(drop),
        LogKind::Prepare => {
            PrepareHead::decode(&mut r).and_then(|_| r.take(PrepareHead::GROUP_BYTES)).map(drop)
        }
        _ => None,
    };
    let at = r.position();
    if found.is_some() {
        reseal_from(body, at);
    }
}

fn reseal_from(body: &mut [u8], mut at: usize) {
    while let Some((end, value_bytes)) = Version::reseal_logged(body, at) {
        at = end + value_bytes;
    }
}

/// A frame of the log: as it comes, and as the body of one that is right.
pub fn log_frame(bytes: &[u8]) {
    let salt = Reader::new(bytes.get(16..).unwrap_or_default()).u32().unwrap_or(0);
    if let Some((frame, body)) = LogFrame::open(bytes, salt) {
        assert_eq!(frame.body_bytes as usize, body.len());
    }
    let Some((&kind, body)) = bytes.split_first() else { return };
    let kind = [LogKind::Write, LogKind::Prepare, LogKind::Ceiling, LogKind::Moved][usize::from(kind % 4)];
    let Ok(body_bytes) = u32::try_from(body.len()) else { return };
    let frame = LogFrame { kind, body_bytes, sequence: 7, salt: 9, unflushed: 1 };
    let mut whole = vec![0; LOG_FRAME_HEADER_BYTES];
    whole.extend_from_slice(body);
    frame.seal(&mut whole);
    assert_eq!(LogFrame::open(&whole, 9), Some((frame, body)));
}

/// The header of a log segment.
pub fn log_segment(bytes: &[u8]) {
    let sealed = sealed_at_end(bytes, LOG_SEGMENT_HEADER_BYTES, LOG_SEGMENT_HEADER_BYTES);
    for bytes in [bytes, &sealed] {
        if let Some(header) = LogSegmentHeader::decode(bytes) {
            assert_eq!(LogSegmentHeader::decode(&header.encode()), Some(header));
        }
    }
}

/// A manifest; its checksum is in the superblock.
pub fn manifest(bytes: &[u8]) {
    if let Some(found) = Manifest::decode(bytes) {
        assert_eq!(Manifest::decode(&found.encode()), Some(found));
    }
}

/// Keys in their order: the first byte says of which kind two keys are, the second where one ends.
pub fn order(bytes: &[u8]) {
    let [kind, cut, keys @ ..] = bytes else { return };
    let kind = [KeyKind::Hashed, KeyKind::Lexical, KeyKind::Uint64][usize::from(kind % 3)];
    let (a, b) = keys.split_at(usize::from(*cut).min(keys.len()));
    if check_key(kind, a).is_err() || check_key(kind, b).is_err() {
        return;
    }
    let encoded = |key: &[u8]| {
        let mut out = Vec::new();
        push_key(&mut out, kind, HashKey([3; 16]), key);
        out
    };
    let ours = encoded(a).cmp(&encoded(b));
    match kind {
        KeyKind::Hashed => assert_eq!(ours.is_eq(), a == b),
        KeyKind::Lexical => assert_eq!(ours, a.cmp(b)),
        KeyKind::Uint64 => assert_eq!(ours, key_number(a).cmp(&key_number(b))),
    }
    if let Some(anchor) = Anchor::after(&encoded(a)) {
        assert_eq!(anchor.position(), encoded(a));
    }
    if let Ok(oid) = <[u8; 16]>::try_from(keys) {
        assert_eq!(Oid::from_bytes(oid).to_bytes(), oid);
    }
}

/// A block of entries or of a fence, and searches in it for its own keys and for the bytes.
pub fn run_block(bytes: &[u8]) {
    let page = whole_pages(bytes);
    let (run, number) = (u32_at(&page, 12), u32_at(&page, 16));
    for kind in [RunBlockKind::Entries, RunBlockKind::Fence] {
        let Ok(block) = RunBlock::parse(&page[..], kind, (run, number, 0)) else { continue };
        let (mut key, mut payload) = (Vec::new(), Vec::new());
        for index in 0..block.count() {
            block.key_into(index, &mut key);
            block.payload_into(index, &mut payload);
            assert!(key.len().max(payload.len()) <= 2 * page.len());
            assert!(block.payload_array(index).is_none_or(|page: [u8; 4]| page == payload[..]));
            assert!(block.lower_bound(&key) <= block.upper_bound(&key));
        }
        assert!(block.lower_bound(bytes) <= block.count());
        assert!(block.upper_bound(bytes) <= block.count());
    }
}

/// A block of a run's filter.
pub fn run_filter(bytes: &[u8]) {
    let page = whole_pages(bytes);
    let mut lines = Vec::new();
    let name = (u32_at(&page, 12), u32_at(&page, 16), 0);
    if decode_filter_block(&page, name, &mut lines).is_err() {
        lines.clear();
    }
    assert!(lines.len() * 64 <= page.len());
}

/// The last page of a run.
pub fn run_footer(bytes: &[u8]) {
    let page = whole_pages(bytes);
    let page = &page[..RUN_PAGE_BYTES];
    let run = u32_at(page, 20);
    // The length that it says: the sum of its parts and of itself, which nobody checks before it is read.
    let pages = [36, 40, 44].iter().map(|&at| u64::from(u32_at(page, at))).sum::<u64>() + 1;
    if let Ok(footer) = RunFooter::decode(page, run, pages * RUN_PAGE_BYTES as u64) {
        let again = footer.encode();
        assert_eq!(RunFooter::decode(&again, run, pages * RUN_PAGE_BYTES as u64), Ok(footer));
    }
}

/// A slot of the superblock.
pub fn superblock(bytes: &[u8]) {
    let sealed = sealed_at_end(bytes, SUPERBLOCK_BODY_BYTES, SUPERBLOCK_SLOT_BYTES);
    for bytes in [bytes, &sealed] {
        if let Some(block) = Superblock::decode(bytes) {
            assert_eq!(Superblock::decode(&block.encode()), Some(block));
        }
    }
}

/// A version: a record of the index and of the log.
pub fn version(bytes: &[u8]) {
    let mut r = Reader::new(bytes);
    let Some(version) = Version::decode(&mut r) else { return };
    for index in 0..version.sums.len() / 4 {
        let bytes = [0, 1, 2, 3].map(|at| version.sums[index * 4 + at]);
        assert_eq!(version.sum(index), u32::from_le_bytes(bytes));
    }
    let mut again = Vec::new();
    version.encode(&mut again);
    assert_eq!(Version::decode(&mut Reader::new(&again)), Some(version));
    if matches!(version.place, ValuePlace::Log { .. }) {
        return;
    }
    again.clear();
    version.encode_logged(&mut again, 0);
    assert_eq!(Version::decode_logged(&mut Reader::new(&again)), Some(version));
}

/// The bytes cut or filled up with zeros to `len`, with the checksum that ends a record of `body` bytes.
fn sealed_at_end(bytes: &[u8], body: usize, len: usize) -> Vec<u8> {
    let mut record = bytes.to_vec();
    record.resize(body, 0);
    let sum = crc32c(&record[..body - SUM_BYTES]);
    record[body - SUM_BYTES..].copy_from_slice(&sum.to_le_bytes());
    record.resize(len, 0);
    record
}

/// The bytes filled up to whole pages, with the right checksum in front.
fn whole_pages(bytes: &[u8]) -> Vec<u8> {
    let mut pages = bytes.to_vec();
    pages.resize(bytes.len().max(1).next_multiple_of(RUN_PAGE_BYTES), 0);
    let sum = crc32c(&pages[SUM_BYTES..]);
    pages[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    pages
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    Reader::new(&page[at..]).u32().expect("inside a page")
}
