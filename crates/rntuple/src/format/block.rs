//! Compression blocks: what envelopes and pages are wrapped in.
//!
//! A block that has as many bytes as it stands for is stored as it is; else it is a row of chunks, each of at most
//! [`CHUNK_BYTES_MAX`] bytes, behind a header of nine bytes.
//!
//! //= root:tree/ntuple/doc/BinaryFormatSpecification.md Compression Block

use super::PAGE_BYTES_MAX;
use crate::error::{Error, Fault, Feature, Result, Structure};
use core::cell::RefCell;
use std::io::{Cursor, Read, Write};
use twox_hash::XxHash64;

/// Bytes that one chunk stands for at most: three bytes count them.
const CHUNK_BYTES_MAX: usize = 0xff_ffff;

/// Bytes before each chunk.
const CHUNK_HEADER_BYTES: usize = 9;

/// Bytes of the checksum before what LZ4 made.
const LZ4_CHECKSUM_BYTES: usize = 8;

/// How to compress: an algorithm and its level, in the numbers that a file keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// As it is.
    None,
    /// zlib, of a level from 1 to 9.
    Zlib(u8),
    /// LZMA, of a level from 1 to 9.
    Lzma(u8),
    /// LZ4; it has one level here.
    Lz4,
    /// zstd, of a level from 1 to 19.
    Zstd(u8),
}

impl Compression {
    /// The number in a page list.
    #[must_use]
    pub fn settings(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Zlib(level) => 100 + u32::from(level),
            Self::Lzma(level) => 200 + u32::from(level),
            Self::Lz4 => 401,
            Self::Zstd(level) => 500 + u32::from(level),
        }
    }

    /// The way of a number in a page list; none if it is none that writes.
    #[must_use]
    pub fn of(settings: u32) -> Option<Self> {
        let level = u8::try_from(settings % 100).ok()?;
        match (settings / 100, level) {
            (_, 0) => Some(Self::None),
            (1, 1..=9) => Some(Self::Zlib(level)),
            (2, 1..=9) => Some(Self::Lzma(level)),
            (4, 1..) => Some(Self::Lz4),
            (5, 1..=19) => Some(Self::Zstd(level)),
            _ => None,
        }
    }
}

thread_local! {
    /// What zstd needs to decompress, 160 KB: made once in each thread.
    static DECOMPRESSOR: RefCell<zstd::bulk::Decompressor<'static>> =
        RefCell::new(zstd::bulk::Decompressor::new().expect("it fails for dictionaries alone"));

    /// What zstd needs to compress, a megabyte and more with the level.
    static COMPRESSOR: RefCell<zstd::bulk::Compressor<'static>> =
        RefCell::new(zstd::bulk::Compressor::new(1).expect("it fails for dictionaries alone"));

    /// Room for what comes out, before it is known how much that is.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What `block` stands for, which has `length_bytes`.
///
/// # Errors
/// [`Error::Corrupt`], [`Error::Unsupported`]; [`Error::TooBig`] beyond [`PAGE_BYTES_MAX`].
///
/// # Panics
/// Where memory has addresses of fewer than 32 bits.
pub fn decompress(structure: Structure, block: &[u8], length_bytes: u64) -> Result<Vec<u8>> {
    if length_bytes > PAGE_BYTES_MAX {
        return Err(Error::TooBig { structure, offset: 0, bytes: length_bytes, bytes_max: PAGE_BYTES_MAX });
    }
    let length = usize::try_from(length_bytes).expect("it was compared with the limit");
    if block.len() == length {
        return Ok(block.to_vec());
    }
    let mut bytes = Vec::new();
    let mut chunks = Chunks { structure, block, at: 0 };
    while bytes.len() < length {
        let chunk = chunks.next(length - bytes.len())?;
        let start = bytes.len();
        bytes.resize(start + chunk.length, 0);
        chunk.decompress_into(structure, &mut bytes[start..])?;
    }
    chunks.is_over().map(|()| bytes)
}

/// As [`decompress`], into memory that the caller has.
///
/// # Errors
/// As [`decompress`].
pub fn decompress_into(structure: Structure, block: &[u8], mut into: &mut [u8]) -> Result<()> {
    if block.len() == into.len() {
        into.copy_from_slice(block);
        return Ok(());
    }
    let mut chunks = Chunks { structure, block, at: 0 };
    while !into.is_empty() {
        let chunk = chunks.next(into.len())?;
        let (part, rest) = into.split_at_mut(chunk.length);
        chunk.decompress_into(structure, part)?;
        into = rest;
    }
    chunks.is_over()
}

struct Chunks<'a> {
    structure: Structure,
    block: &'a [u8],
    at: usize,
}

struct Chunk<'a> {
    algorithm: [u8; 2],
    offset: u64,
    payload: &'a [u8],
    length: usize,
}

impl<'a> Chunks<'a> {
    /// The next chunk, which may stand for `length_max` bytes.
    fn next(&mut self, length_max: usize) -> Result<Chunk<'a>> {
        let (structure, offset) = (self.structure, self.at as u64);
        let rest = &self.block[self.at..];
        let Some((&[a, b, _, c0, c1, c2, l0, l1, l2], behind)) =
            rest.split_first_chunk::<CHUNK_HEADER_BYTES>()
        else {
            let fault =
                Fault::Short { wanted_bytes: CHUNK_HEADER_BYTES as u64, left_bytes: rest.len() as u64 };
            return Err(Error::Corrupt { structure, offset, fault });
        };
        let three = |low, middle, high| u32::from_le_bytes([low, middle, high, 0]) as usize;
        let (stored, length) = (three(c0, c1, c2), three(l0, l1, l2));
        if length == 0 || length > length_max {
            return Err(Error::Corrupt { structure, offset, fault: Fault::Length });
        }
        let Some(payload) = behind.get(..stored) else {
            let fault = Fault::Short { wanted_bytes: stored as u64, left_bytes: behind.len() as u64 };
            return Err(Error::Corrupt { structure, offset, fault });
        };
        self.at += CHUNK_HEADER_BYTES + stored;
        Ok(Chunk { algorithm: [a, b], offset, payload, length })
    }

    /// There is nothing behind the last chunk.
    fn is_over(&self) -> Result<()> {
        if self.at == self.block.len() {
            return Ok(());
        }
        Err(Error::Corrupt { structure: self.structure, offset: self.at as u64, fault: Fault::Length })
    }
}

impl Chunk<'_> {
    fn decompress_into(&self, structure: Structure, into: &mut [u8]) -> Result<()> {
        let is_right = match &self.algorithm {
            b"ZS" => unzstd(self.payload, into),
            b"ZL" => filled(flate2::read::ZlibDecoder::new(self.payload), into),
            b"XZ" => filled(lzma_rust2::XzReader::new(self.payload, false), into),
            b"L4" => unlz4(self.payload, into),
            other => {
                let feature = Feature::Compression(*other);
                return Err(Error::Unsupported { structure, offset: self.offset, feature });
            }
        };
        if is_right {
            return Ok(());
        }
        Err(Error::Corrupt { structure, offset: self.offset, fault: Fault::Compression })
    }
}

fn unzstd(payload: &[u8], into: &mut [u8]) -> bool {
    DECOMPRESSOR.with_borrow_mut(|zstd| {
        zstd.decompress_to_buffer(payload, into).is_ok_and(|count| count == into.len())
    })
}

/// Whether `from` gives as many bytes as `into` has, and no more.
fn filled(mut from: impl Read, into: &mut [u8]) -> bool {
    from.read_exact(into).is_ok() && from.read(&mut [0]).is_ok_and(|more| more == 0)
}

/// The checksum is one of ROOT's own, which its description of the format leaves out: XXH64 of what follows, big-endian.
fn unlz4(payload: &[u8], into: &mut [u8]) -> bool {
    let Some((said, compressed)) = payload.split_first_chunk::<LZ4_CHECKSUM_BYTES>() else { return false };
    if reversed(*said) != XxHash64::oneshot(0, compressed) {
        return false;
    }
    lz4_flex::block::decompress_into(compressed, into).is_ok_and(|count| count == into.len())
}

/// The number that eight bytes are, the highest first.
fn reversed(mut bytes: [u8; 8]) -> u64 {
    bytes.reverse();
    u64::from_le_bytes(bytes)
}

/// A block of `bytes`, compressed that way, or as they are where that is no smaller.
///
/// # Errors
/// [`Error::Io`] if the compressor has no memory.
///
/// # Panics
/// Never: a chunk is shorter than its count of bytes can say.
pub fn compress(compression: Compression, bytes: &[u8]) -> Result<Vec<u8>> {
    if compression == Compression::None {
        return Ok(bytes.to_vec());
    }
    ROOM.with_borrow_mut(|room| {
        let needed = room_bytes(bytes.len());
        if room.len() < needed {
            room.resize(needed, 0);
        }
        let count = compress_into(compression, bytes, room)?;
        Ok(count.map_or(bytes, |count| &room[..count]).to_vec())
    })
}

/// Room that [`compress_into`] needs for so many bytes: what they are compressed may be more before it is known that it is.
pub(crate) fn room_bytes(bytes: usize) -> usize {
    zstd::zstd_safe::compress_bound(bytes) + (bytes / CHUNK_BYTES_MAX + 1) * 128
}

/// As [`compress`], to `room`: how many bytes the block has; none where `bytes` are stored as they are.
///
/// # Errors
/// As [`compress`].
///
/// # Panics
/// If `room` is less than [`room_bytes`].
pub(crate) fn compress_into(
    compression: Compression,
    bytes: &[u8],
    room: &mut [u8],
) -> Result<Option<usize>> {
    let mark: &[u8; 3] = match compression {
        Compression::None => return Ok(None),
        Compression::Zlib(_) => b"ZL\x08",
        Compression::Lzma(_) => b"XZ\0",
        Compression::Lz4 => b"L4\x01",
        Compression::Zstd(_) => b"ZS\x01",
    };
    let mut at = 0;
    for chunk in bytes.chunks(CHUNK_BYTES_MAX) {
        let (header, behind) =
            room[at..].split_first_chunk_mut::<CHUNK_HEADER_BYTES>().expect("there is room for it");
        let packed = packed(compression, chunk, behind).map_err(|source| Error::Io { offset: 0, source })?;
        let Some(packed) = packed.filter(|&packed| packed < chunk.len()) else { return Ok(None) };
        at += CHUNK_HEADER_BYTES + packed;
        if at >= bytes.len() {
            return Ok(None);
        }
        header[..3].copy_from_slice(mark);
        for (to, length) in header[3..].as_chunks_mut::<3>().0.iter_mut().zip([packed, chunk.len()]) {
            let length = u32::try_from(length).expect("three bytes count it");
            to.copy_from_slice(&length.to_le_bytes()[..3]);
        }
    }
    Ok(Some(at))
}

/// Compresses a chunk; how many bytes that are, none if they are more than there is room for.
fn packed(compression: Compression, chunk: &[u8], room: &mut [u8]) -> std::io::Result<Option<usize>> {
    let compressed = match compression {
        Compression::None => return Ok(None),
        Compression::Zstd(level) => {
            return COMPRESSOR.with_borrow_mut(|compressor| {
                compressor.set_compression_level(i32::from(level))?;
                compressor.compress_to_buffer(chunk, room).map(Some)
            });
        }
        Compression::Zlib(level) => {
            let level = flate2::Compression::new(u32::from(level));
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(chunk)?;
            encoder.finish()?
        }
        Compression::Lzma(level) => {
            let options = lzma_rust2::XzOptions::with_preset(u32::from(level));
            let mut writer = lzma_rust2::XzWriter::new(Cursor::new(Vec::new()), options)?;
            writer.write_all(chunk)?;
            writer.finish()?.into_inner()
        }
        Compression::Lz4 => {
            let compressed = lz4_flex::block::compress(chunk);
            let mut sum = XxHash64::oneshot(0, &compressed).to_le_bytes();
            sum.reverse();
            [&sum[..], &compressed].concat()
        }
    };
    let Some(to) = room.get_mut(..compressed.len()) else { return Ok(None) };
    to.copy_from_slice(&compressed);
    Ok(Some(compressed.len()))
}

#[cfg(test)]
mod tests {
    use super::{Compression, Structure, compress, decompress, decompress_into};
    use crate::error::{Error, Fault};

    const ALL: [Compression; 4] =
        [Compression::Zlib(6), Compression::Lzma(1), Compression::Lz4, Compression::Zstd(1)];

    /// Bytes that compress, more than one chunk holds.
    fn bytes() -> Vec<u8> {
        (0..17_000_000_u32).map(|at| (at / 1000 % 251) as u8).collect()
    }

    #[test]
    fn what_is_compressed_is_decompressed_as_it_was_also_in_several_chunks() {
        let bytes = bytes();
        for way in ALL {
            let block = compress(way, &bytes).unwrap();
            assert!(block.len() < bytes.len() / 10, "{way:?}");
            assert!(decompress(Structure::Header, &block, bytes.len() as u64).unwrap() == bytes, "{way:?}");
            let mut into = vec![0; bytes.len()];
            decompress_into(Structure::Header, &block, &mut into).unwrap();
            assert!(into == bytes, "{way:?}");
        }
    }

    #[test]
    fn what_does_not_become_smaller_is_stored_as_it_is() {
        for way in ALL {
            assert_eq!(compress(way, b"abc").unwrap(), b"abc", "{way:?}");
        }
    }

    #[test]
    fn a_damaged_block_is_an_error_and_no_data() {
        let bytes: Vec<u8> = (0..1000_u32).map(|at| (at % 7) as u8).collect();
        for way in ALL {
            let block = compress(way, &bytes).unwrap();
            for cut in [0, 5, block.len() - 1] {
                assert!(decompress(Structure::Header, &block[..cut], 1000).is_err(), "{way:?}, {cut}");
            }
            let longer = [&block[..], b"x"].concat();
            let found = decompress(Structure::Header, &longer, 1000);
            assert!(matches!(found, Err(Error::Corrupt { fault: Fault::Length, .. })), "{way:?}");
            assert!(decompress(Structure::Header, &block, 1001).is_err(), "{way:?}");
            assert!(decompress(Structure::Header, &block, 999).is_err(), "{way:?}");
        }
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_memory_is_taken() {
        assert!(matches!(decompress(Structure::Footer, b"", u64::MAX), Err(Error::TooBig { .. })));
    }
}
