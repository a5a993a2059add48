//! Pages: how elements of a column lie in one, and in memory.
//!
//! Encoded is each page for itself: bytes of a kind together (split), differences (index columns), signs at the end (zigzag),
//! single bits. In memory elements are what [`InMemory`] says.
//!
//! //= root:tree/ntuple/doc/BinaryFormatSpecification.md Column Description

use super::column::{Column, ColumnKind};
use super::planes::{self, BLOCK};
use crate::Error;
use crate::error::{Fault, Result, Structure};

/// Whether a decompressed page is byte for byte what is in memory.
#[must_use]
pub fn is_plain(kind: ColumnKind) -> bool {
    use ColumnKind as K;
    let is_small = matches!(kind, K::Byte | K::Char | K::Int8 | K::UInt8 | K::Int16 | K::UInt16);
    let is_four = matches!(kind, K::Int32 | K::UInt32 | K::Real32);
    is_small || is_four || matches!(kind, K::Int64 | K::UInt64 | K::Real64 | K::Index64 | K::Switch)
}

/// Whether what is in memory is rounded when it is written.
#[must_use]
pub fn is_rounded(kind: ColumnKind) -> bool {
    use ColumnKind as K;
    matches!(kind, K::Real16 | K::SplitReal16 | K::Real32Trunc | K::Real32Quant)
}

/// Decodes a decompressed page of `column` into `into`, which has room for just its elements in memory.
///
/// # Errors
/// [`Error::Unsupported`] of a column of an unknown kind; [`Error::Corrupt`] if offsets fall or a page has other bytes
/// than its elements need.
///
/// # Panics
/// If a quantised column has no range, which none has that was read.
pub fn decode(number: u32, column: &Column, page: &[u8], into: &mut [u8]) -> Result<()> {
    use ColumnKind as K;
    let structure = Structure::Page { column: number };
    let Some(in_memory) = column.kind.in_memory() else {
        let feature = crate::error::Feature::Column(column.kind.number());
        return Err(Error::Unsupported { structure, offset: 0, feature });
    };
    let count = into.len() / in_memory.bytes();
    if column.page_bytes(count as u64) != Some(page.len() as u64) {
        return Err(Error::Corrupt { structure, offset: 0, fault: Fault::Length });
    }
    match column.kind {
        kind if is_plain(kind) => into.copy_from_slice(page),
        K::Bit => bits(page, into),
        K::SplitInt16 => joined::<2>(page, into, |b| unzigzag(u64::from(u16::from_le_bytes(b))).to_le()),
        K::SplitInt32 => joined::<4>(page, into, |b| unzigzag(u64::from(u32::from_le_bytes(b))).to_le()),
        K::SplitInt64 => joined::<8>(page, into, |b| unzigzag(u64::from_le_bytes(b)).to_le()),
        K::SplitUInt16 => joined::<2>(page, into, |b| u64::from(u16::from_le_bytes(b))),
        K::SplitUInt32 | K::SplitReal32 => joined::<4>(page, into, |b| u64::from(u32::from_le_bytes(b))),
        K::SplitUInt64 | K::SplitReal64 => joined::<8>(page, into, u64::from_le_bytes),
        K::Real16 => halves(page.as_chunks().0.iter().copied(), into),
        K::SplitReal16 => {
            let (low, high) = page.split_at(count);
            halves(low.iter().zip(high).map(|(&low, &high)| [low, high]), into);
        }
        K::Index32 => {
            for (to, from) in into.as_chunks_mut::<8>().0.iter_mut().zip(page.as_chunks::<4>().0) {
                *to = u64::from(u32::from_le_bytes(*from)).to_le_bytes();
            }
        }
        K::SplitIndex32 => summed::<4>(page, into),
        K::SplitIndex64 => summed::<8>(page, into),
        K::Real32Trunc => {
            let shift = 32 - u32::from(column.bits);
            packed(page, column.bits, into, |word| f32::from_bits(word << shift));
        }
        K::Real32Quant => {
            let (low, high) =
                column.range.expect("a quantised column without one is refused where it is read");
            let step = (high - low) / (2_f64.powi(i32::from(column.bits)) - 1.0);
            #[expect(clippy::cast_possible_truncation, reason = "a quantised float has 32 bits in memory")]
            packed(page, column.bits, into, |word| (low + f64::from(word) * step) as f32);
        }
        _ => unreachable!("what is plain was copied, what is unknown refused"),
    }
    if in_memory == super::column::InMemory::Offset {
        return rising(structure, into);
    }
    Ok(())
}

/// The decompressed page of these elements, which are what [`decode`] makes: the same bytes again, but for floats that have fewer bits in a
/// page, which are rounded.
///
/// # Panics
/// If the kind is unknown, or a quantised column has no range.
#[must_use]
pub fn encode(column: &Column, elements: &[u8]) -> Vec<u8> {
    let mut page = Vec::new();
    encode_to(column, elements, &mut page);
    page
}

/// As [`encode`], to memory that may have been used before.
pub(crate) fn encode_to(column: &Column, elements: &[u8], page: &mut Vec<u8>) {
    use ColumnKind as K;
    let in_memory = column.kind.in_memory().expect("an unknown kind is written by nobody");
    let count = elements.len() / in_memory.bytes();
    let page_bytes = column.page_bytes(count as u64).expect("memory has fewer bits");
    page.resize(usize::try_from(page_bytes).expect("a page is no longer than its elements"), 0);
    let page = &mut page[..];
    match column.kind {
        kind if is_plain(kind) => page.copy_from_slice(elements),
        K::Bit => {
            for (byte, eight) in page.iter_mut().zip(elements.chunks(8)) {
                *byte = eight.iter().enumerate().fold(0, |byte, (at, bit)| byte | (bit & 1) << at);
            }
        }
        K::SplitInt16 => taken_apart::<2>(elements, page, |b| zigzag(i64::from(i16::from_le_bytes(b)))),
        K::SplitInt32 => taken_apart::<4>(elements, page, |b| zigzag(i64::from(i32::from_le_bytes(b)))),
        K::SplitInt64 => taken_apart::<8>(elements, page, |b| zigzag(i64::from_le_bytes(b))),
        K::SplitUInt16 => taken_apart::<2>(elements, page, |b| u64::from(u16::from_le_bytes(b))),
        K::SplitUInt32 | K::SplitReal32 => {
            taken_apart::<4>(elements, page, |b| u64::from(u32::from_le_bytes(b)));
        }
        K::SplitUInt64 | K::SplitReal64 => taken_apart::<8>(elements, page, u64::from_le_bytes),
        K::Real16 | K::SplitReal16 => {
            for (at, float) in elements.as_chunks().0.iter().enumerate() {
                let [low, high] = narrowed(f32::from_le_bytes(*float)).to_le_bytes();
                let (first, second) =
                    if column.kind == K::Real16 { (2 * at, 2 * at + 1) } else { (at, count + at) };
                (page[first], page[second]) = (low, high);
            }
        }
        K::Index32 => {
            for (to, from) in page.as_chunks_mut::<4>().0.iter_mut().zip(elements.as_chunks::<8>().0) {
                *to = first_of(u64::from_le_bytes(*from));
            }
        }
        K::SplitIndex32 => differences::<4>(elements, page),
        K::SplitIndex64 => differences::<8>(elements, page),
        K::Real32Trunc => {
            let shift = 32 - u32::from(column.bits);
            pack(elements, column.bits, page, |float| {
                // The first bit of a fraction that is cut off keeps a NaN one.
                let bits = float.to_bits() | (u32::from(float.is_nan()) << 22);
                u64::from(bits >> shift)
            });
        }
        K::Real32Quant => {
            let (low, high) = column.range.expect("a quantised column has one");
            let steps = 2_f64.powi(i32::from(column.bits)) - 1.0;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is between 0 and the steps"
            )]
            pack(elements, column.bits, page, |float| {
                ((f64::from(float).clamp(low, high) - low) / (high - low) * steps).round() as u64
            });
        }
        _ => unreachable!("what is plain was copied, what is unknown refused"),
    }
}

/// The inverse of [`joined`].
fn taken_apart<const N: usize>(elements: &[u8], page: &mut [u8], value: impl Fn([u8; N]) -> u64) {
    into_planes(elements.as_chunks::<N>().0, page, |element| first_of::<N>(value(*element)));
}

/// The inverse of [`summed`].
fn differences<const N: usize>(elements: &[u8], page: &mut [u8]) {
    let mut before = 0_u64;
    into_planes(elements.as_chunks::<8>().0, page, |offset| {
        let offset = u64::from_le_bytes(*offset);
        first_of::<N>(offset.wrapping_sub(core::mem::replace(&mut before, offset)))
    });
}

/// Puts what `value` makes of each element into the planes of a page.
fn into_planes<const M: usize, const N: usize>(
    elements: &[[u8; M]],
    page: &mut [u8],
    mut value: impl FnMut(&[u8; M]) -> [u8; N],
) {
    let (blocks, rest) = elements.as_chunks::<BLOCK>();
    let mut planes = planes_mut::<N>(page, elements.len());
    for (at, block) in blocks.iter().enumerate() {
        planes::put(&mut planes, at, &core::array::from_fn(|nth| value(&block[nth])));
    }
    for (at, from) in rest.iter().enumerate() {
        for (plane, byte) in planes.iter_mut().zip(value(from)) {
            plane[blocks.len() * BLOCK + at] = byte;
        }
    }
}

/// The planes of a page of `count` elements of N bytes: the first bytes of all, then the second ones, ….
fn planes_mut<const N: usize>(page: &mut [u8], count: usize) -> [&mut [u8]; N] {
    let mut rest = page;
    core::array::from_fn(|_| {
        let (plane, behind) = core::mem::take(&mut rest).split_at_mut(count);
        rest = behind;
        plane
    })
}

/// The inverse of [`unzigzag`].
fn zigzag(value: i64) -> u64 {
    (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned()
}

/// The inverse of [`packed`].
fn pack(elements: &[u8], width: u16, page: &mut [u8], word: impl Fn(f32) -> u64) {
    page.fill(0);
    let mut bit = 0;
    for element in elements.as_chunks().0 {
        let word = word(f32::from_le_bytes(*element));
        for at in 0..usize::from(width) {
            page[(bit + at) / 8] |= u8::from(word >> at & 1 == 1) << ((bit + at) % 8);
        }
        bit += usize::from(width);
    }
}

/// The float of 16 bits that is nearest, of two the even one.
fn narrowed(float: f32) -> u16 {
    let bits = float.to_bits();
    let sign = u16::try_from(bits >> 31).expect("it is one bit") << 15;
    let (exponent, fraction) = (bits >> 23 & 0xff, bits & 0x7f_ffff);
    let magnitude = match exponent {
        0xff if fraction != 0 => 0x7e00,
        0..=101 => 0,
        102..=112 => {
            let shift = 126 - exponent;
            rounded(fraction | 0x80_0000, shift)
        }
        113..=142 => rounded((exponent - 112) << 23 | fraction, 13),
        _ => 0x7c00,
    };
    sign | u16::try_from(magnitude).expect("it has fifteen bits")
}

/// `value` without its last bits, rounded to the nearest, of two the even one.
fn rounded(value: u32, shift: u32) -> u32 {
    let (kept, lost, half) = (value >> shift, value & ((1 << shift) - 1), 1 << (shift - 1));
    kept + u32::from(lost > half || lost == half && kept & 1 == 1)
}

/// Offsets of collections start with nothing below 0 and never fall.
fn rising(structure: Structure, offsets: &[u8]) -> Result<()> {
    let mut before = 0_i64;
    let mut is_rising = true;
    for offset in offsets.as_chunks().0 {
        let offset = i64::from_le_bytes(*offset);
        is_rising &= offset >= before;
        before = offset;
    }
    if is_rising { Ok(()) } else { Err(Error::Corrupt { structure, offset: 0, fault: Fault::Order }) }
}

fn bits(page: &[u8], into: &mut [u8]) {
    for (eight, byte) in into.chunks_mut(8).zip(page) {
        for (at, bit) in eight.iter_mut().enumerate() {
            *bit = byte >> at & 1;
        }
    }
}

/// Puts together elements of N bytes, whose first bytes are all first, then all the second ones, …; `value` makes of each
/// a number whose lowest N bytes are what is in memory.
fn joined<const N: usize>(page: &[u8], into: &mut [u8], value: impl Fn([u8; N]) -> u64) {
    from_planes(page, into.as_chunks_mut::<N>().0, |element: [u8; N]| first_of(value(element)));
}

/// Fills `into` with what `value` makes of the elements that are in the planes of a page.
fn from_planes<const M: usize, const N: usize>(
    page: &[u8],
    into: &mut [[u8; M]],
    mut value: impl FnMut([u8; N]) -> [u8; M],
) {
    let planes = planes::<N>(page, into.len());
    let (blocks, rest) = into.as_chunks_mut::<BLOCK>();
    for (at, block) in blocks.iter_mut().enumerate() {
        for (to, from) in block.iter_mut().zip(planes::take(&planes, at)) {
            *to = value(from);
        }
    }
    let start = blocks.len() * BLOCK;
    for (at, to) in rest.iter_mut().enumerate() {
        *to = value(core::array::from_fn(|plane| planes[plane][start + at]));
    }
}

/// As [`planes_mut`].
fn planes<const N: usize>(page: &[u8], count: usize) -> [&[u8]; N] {
    core::array::from_fn(|plane| &page[plane * count..(plane + 1) * count])
}

/// The lowest bytes of a number.
fn first_of<const N: usize>(number: u64) -> [u8; N] {
    *number.to_le_bytes().first_chunk().expect("a number has eight bytes")
}

/// What zigzag made of a number with sign, in the two's complement of 64 bits; its lowest bytes are it in fewer bits.
fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// As [`joined`], for offsets of N bytes, each of which but the first is the difference to the one before.
fn summed<const N: usize>(page: &[u8], into: &mut [u8]) {
    let mut sum = 0_u64;
    from_planes(page, into.as_chunks_mut::<8>().0, |difference: [u8; N]| {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&difference);
        sum = sum.wrapping_add(u64::from_le_bytes(wide));
        sum.to_le_bytes()
    });
}

fn halves(from: impl Iterator<Item = [u8; 2]>, into: &mut [u8]) {
    for (to, half) in into.as_chunks_mut::<4>().0.iter_mut().zip(from) {
        *to = widened(u16::from_le_bytes(half)).to_le_bytes();
    }
}

/// The float of 32 bits that is the same as one of 16.
fn widened(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let exponent = u32::from(half >> 10 & 0x1f);
    let fraction = u32::from(half & 0x3ff);
    let magnitude = match (exponent, fraction) {
        (0, _) => f32::from_bits(0x3380_0000) * fraction_of(fraction),
        (0x1f, _) => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    f32::from_bits(magnitude.to_bits() | sign)
}

fn fraction_of(fraction: u32) -> f32 {
    f32::from(u16::try_from(fraction).expect("a fraction has ten bits"))
}

/// Elements of `width` bits each, the lowest first, one behind the other.
fn packed(page: &[u8], width: u16, into: &mut [u8], value: impl Fn(u32) -> f32) {
    let mask = (1_u64 << width) - 1;
    let (mut waiting, mut waiting_bits) = (0_u64, 0);
    let mut bytes = page.iter();
    for to in into.as_chunks_mut::<4>().0 {
        while waiting_bits < width {
            waiting |=
                u64::from(*bytes.next().expect("the page has the bytes of its elements")) << waiting_bits;
            waiting_bits += 8;
        }
        let word = u32::try_from(waiting & mask).expect("an element has at most 32 bits");
        *to = value(word).to_le_bytes();
        waiting >>= width;
        waiting_bits -= width;
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, ColumnKind, decode, encode, narrowed, unzigzag, widened};
    use crate::error::{Error, Fault};

    fn column(kind: ColumnKind) -> Column {
        let bits = kind.bits().unwrap().0;
        Column { kind, bits, field: 0, representation: 0, first_element: 0, range: None }
    }

    #[test]
    fn halves_are_widened_exactly() {
        for (half, wide) in [
            (0x0000, 0.0_f32),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x7c00, f32::INFINITY),
        ] {
            assert_eq!(widened(half).to_bits(), wide.to_bits(), "{half:#x}");
        }
        assert!(widened(0x7e00).is_nan());
        assert_eq!(widened(0x8000).to_bits(), (-0.0_f32).to_bits());
    }

    #[test]
    fn each_half_is_narrowed_to_itself_and_others_to_the_nearest() {
        for half in 0..=u16::MAX {
            let wide = widened(half);
            if wide.is_nan() {
                assert!(widened(narrowed(wide)).is_nan());
                continue;
            }
            assert_eq!(narrowed(wide), half);
            let next = widened(half + 1);
            if half < 0x7bff {
                assert_eq!(narrowed(wide + (next - wide) * 0.25), half, "{half:#x}");
                assert_eq!(narrowed(wide + (next - wide) * 0.5), half + (half & 1), "{half:#x}");
                assert_eq!(narrowed(wide + (next - wide) * 0.75), half + 1, "{half:#x}");
            }
        }
    }

    #[test]
    fn a_nan_stays_one_however_few_of_its_bits_are_kept() {
        for word in [0x7f80_0001_u32, 0xff80_0001, 0x7fc0_0000, 0x7f80_0000, 0xff80_0000] {
            for bits in 10..32 {
                let column = Column { bits, ..column(ColumnKind::Real32Trunc) };
                let page = encode(&column, &word.to_le_bytes());
                let mut kept = [0; 4];
                decode(0, &column, &page, &mut kept).unwrap();
                let (float, kept) = (f32::from_bits(word), f32::from_le_bytes(kept));
                assert_eq!(
                    (kept.is_nan(), kept.is_sign_negative()),
                    (float.is_nan(), float.is_sign_negative()),
                    "{word:#x} in {bits}"
                );
            }
        }
    }

    #[test]
    fn zigzag_has_small_numbers_of_both_signs_first() {
        for (coded, number) in [(0, 0_i64), (1, -1), (2, 1), (3, -2), (u64::MAX, i64::MIN)] {
            assert_eq!(unzigzag(coded), number.cast_unsigned());
        }
    }

    #[test]
    fn split_elements_with_sign_are_put_together() {
        // 1 and -2 in 16 bits are 2 and 3 in zigzag: low bytes 2, 3, then high bytes 0, 0.
        let mut into = [0; 4];
        decode(0, &column(ColumnKind::SplitInt16), &[2, 3, 0, 0], &mut into).unwrap();
        assert_eq!(into, [1, 0, 0xfe, 0xff]);
    }

    #[test]
    fn split_offsets_are_summed_and_must_not_fall() {
        let mut into = [0; 24];
        let page = [1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        decode(0, &column(ColumnKind::SplitIndex32), &page, &mut into).unwrap();
        let offsets: Vec<_> = into.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect();
        assert_eq!(offsets, [1, 1, 3]);
        let found = decode(0, &column(ColumnKind::Index32), &[3, 0, 0, 0, 2, 0, 0, 0], &mut into[..16]);
        assert!(matches!(found, Err(Error::Corrupt { fault: Fault::Order, .. })));
    }

    #[test]
    fn bits_are_bytes_in_memory_the_lowest_first() {
        let mut into = [9; 10];
        decode(0, &column(ColumnKind::Bit), &[0b1000_0001, 0b10], &mut into).unwrap();
        assert_eq!(into, [1, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
    }

    #[test]
    fn a_page_of_other_bytes_than_its_elements_need_is_refused() {
        let mut into = [0; 8];
        for page in [&[0; 7][..], &[0; 9]] {
            let found = decode(3, &column(ColumnKind::UInt64), page, &mut into);
            assert!(matches!(found, Err(Error::Corrupt { fault: Fault::Length, .. })));
        }
    }
}
