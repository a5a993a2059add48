//! Compile-time limits. Each says why it has its value; none is a setting.

use crate::ContNo;

/// A label: DAOS's `DAOS_PROP_LABEL_MAX_LEN`.
pub const LABEL_BYTES_MAX: usize = 127;
/// An anchor's buffer in `daos_anchor_t` is 104 bytes.
pub const ANCHOR_POSITION_BYTES_MAX: usize = 104;
/// A lexical key: DAOS allows 80 bytes. Escaped for ordering (at most twice as long plus two) it does not fit
/// an anchor, so anchors hold the raw bytes.
pub const LEXICAL_KEY_BYTES_MAX: usize = 80;
/// A hashed key: long enough for any name a door makes (xattr names are 255 bytes plus a prefix), short enough
/// that a key and its descriptor fit one 4 KiB block of a run.
pub const KEY_BYTES_MAX: usize = 2048;
/// Extents start and end inside one aligned window of this many records, so that one lookup has a bounded
/// range to search. A client splits longer ones.
pub const WINDOW_RECORDS: u64 = 1 << 20;
/// Payload is checksummed in chunks of this size, aligned down to whole records: DAOS's default chunk.
pub const CSUM_CHUNK_BYTES: usize = 32 * 1024;
/// A record of an array value. Larger records are single values.
pub const RECORD_BYTES_MAX: u64 = 1 << 20;
/// One extent in one request: eight chunks of the usual 1 MiB.
pub const PAYLOAD_BYTES_MAX: usize = 8 << 20;
/// A single value, which is written and read as one: ROOT's DAOS backend makes values of 16 MiB.
pub const SINGLE_BYTES_MAX: usize = 32 << 20;
/// Akeys in one request: DAOS's clients send a few dozen.
pub const IODS_MAX: usize = 1024;

/// Akeys in one update of a container: the records of the pool's service get its answer beside what it was asked for.
#[must_use]
pub const fn iods_max(cont: ContNo) -> usize {
    if cont.0 == ContNo::SYSTEM.0 { IODS_MAX + 2 } else { IODS_MAX }
}

/// Extents under one akey in one request: the list-I/O limit of DAOS's array API.
pub const EXTENTS_MAX: usize = 16384;
/// Mutations in one transaction on one target; a log record holds them all.
pub const TX_MUTATIONS_MAX: usize = 65536;
/// Results remembered per client on a target so that a repeated request returns its first result: those from the
/// oldest request on that the client still waits for.
pub const RETAINED_RESULTS_PER_CLIENT: usize = 4096;
/// Findings that an audit of one target lists; a device that has lost more needs no longer list.
pub const FINDINGS_MAX: usize = 4096;
/// Targets of one pool in one process.
pub const TARGETS_MAX: usize = 1024;
/// The body of a frame: four times that of a log record, so what a target takes on, the wire carries.
pub const FRAME_BODY_BYTES_MAX: usize = 64 << 20;
/// The payload of a frame: what a read may ask for at once.
pub const FRAME_PAYLOAD_BYTES_MAX: usize = 2 << 30;
/// Items of one answer to an enumeration over the wire; even those with two keys fit a frame at their usual lengths.
pub const LIST_ITEMS_MAX: u32 = 1 << 18;
/// Bytes of keys in one answer to an enumeration over the wire: a quarter of a body.
pub const LIST_BYTES_MAX: u32 = 16 << 20;
/// Ways to one engine: a socket of its node and an address in each of a few networks.
pub const RANK_ADDRESSES_MAX: usize = 16;
/// Values up to this size stay in log segments unless a pool says otherwise: DAOS's `data_thresh`.
pub const SMALL_VALUE_BYTES_DEFAULT: usize = 4096;
/// Bulk space is handed out in units of this size: the page and the direct-I/O sector.
pub const BULK_UNIT_BYTES: u64 = 4096;

const _: () = assert!(WINDOW_RECORDS.is_power_of_two());
const _: () = assert!(CSUM_CHUNK_BYTES.is_multiple_of(4096));
const _: () = assert!(FRAME_PAYLOAD_BYTES_MAX as u64 <= u32::MAX as u64);
const _: () = assert!(LIST_BYTES_MAX as usize <= FRAME_BODY_BYTES_MAX / 4);
const _: () = assert!(LEXICAL_KEY_BYTES_MAX <= ANCHOR_POSITION_BYTES_MAX);
