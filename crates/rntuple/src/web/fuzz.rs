//! A door for whoever feeds bytes to what understands requests.

use super::HEAD_BYTES_MAX;
use super::request::{Asked, asked, parse};

/// A request that has come, for a file whose length the first two bytes say.
///
/// # Panics
/// If what is asked for is not in the file, or is more than it has: that is the find.
pub fn request(bytes: &[u8]) {
    let Some((length, received)) = bytes.split_first_chunk::<2>() else { return };
    let length_bytes = u64::from(u16::from_le_bytes(*length));
    let Ok(Some((head_bytes, ask))) = parse(received, HEAD_BYTES_MAX) else { return };
    assert!(head_bytes <= received.len());
    let parts = match asked(&ask, "\"0\"", length_bytes) {
        Asked::Whole | Asked::Unsatisfiable | Asked::OfAnother | Asked::Nothing => return,
        Asked::One(part) => vec![part],
        Asked::Several(parts) => parts,
    };
    assert!(!parts.is_empty());
    for part in &parts {
        assert!(part.first < part.end);
        assert!(part.end <= length_bytes);
    }
    assert!(parts.iter().map(|part| part.end - part.first).sum::<u64>() <= length_bytes);
}
