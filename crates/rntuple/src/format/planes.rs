//! Planes: the first bytes of all elements, then the second ones, and so on, which compress better than whole elements.
//!
//! Sixteen elements of N bytes are N rows of sixteen bytes. To zip the first half of the rows with the second, byte by byte, rotates
//! the bits of where a byte is by one: those of its element, then those of its place within it. Four times that has the place first,
//! which is the planes; and as many more times as the place has bits, the elements again.

use dolmen_env::{Lanes, zip_lanes};

/// Elements that are taken apart or put together at once.
pub(super) const BLOCK: usize = 16;

#[inline]
fn rotated<const N: usize>(rows: [Lanes; N], times: u32) -> [Lanes; N] {
    let mut rows = rows;
    for _ in 0..times {
        let mut next = rows;
        for (at, to) in next.as_chunks_mut().0.iter_mut().enumerate() {
            *to = zip_lanes(rows[at], rows[at + N / 2]);
        }
        rows = next;
    }
    rows
}

/// Puts the `at`-th block of elements into planes.
///
/// # Panics
/// If a plane has no room for it.
#[inline]
pub(super) fn put<const N: usize>(planes: &mut [&mut [u8]; N], at: usize, block: &[[u8; N]; BLOCK]) {
    const { assert!(N.is_power_of_two() && N > 1, "rows are halved") }
    let bytes = block.as_flattened().as_chunks::<16>().0;
    let rows: [Lanes; N] = core::array::from_fn(|row| bytes[row]);
    for (plane, row) in planes.iter_mut().zip(rotated(rows, BLOCK.ilog2())) {
        plane.as_chunks_mut::<BLOCK>().0[at] = row;
    }
}

/// The `at`-th block of elements of planes.
///
/// # Panics
/// If a plane has fewer.
#[inline]
pub(super) fn take<const N: usize>(planes: &[&[u8]; N], at: usize) -> [[u8; N]; BLOCK] {
    const { assert!(N.is_power_of_two() && N > 1, "rows are halved") }
    let rows: [Lanes; N] = core::array::from_fn(|plane| planes[plane].as_chunks::<BLOCK>().0[at]);
    let mut block = [[0; N]; BLOCK];
    let bytes = block.as_flattened_mut().as_chunks_mut::<16>().0;
    for (to, row) in bytes.iter_mut().zip(rotated(rows, N.ilog2())) {
        *to = row;
    }
    block
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, put, take};

    fn there_and_back<const N: usize>() {
        let elements: [[[u8; N]; BLOCK]; 3] = core::array::from_fn(|block| {
            core::array::from_fn(|at| {
                core::array::from_fn(|byte| u8::try_from((block * 80 + at * 5 + byte * 7) % 251).unwrap())
            })
        });
        let mut page = vec![0; 3 * BLOCK * N];
        let mut rest = &mut page[..];
        let mut planes: [&mut [u8]; N] = core::array::from_fn(|_| {
            let (plane, behind) = core::mem::take(&mut rest).split_at_mut(3 * BLOCK);
            rest = behind;
            plane
        });
        for (at, block) in elements.iter().enumerate() {
            put(&mut planes, at, block);
        }
        for (at, element) in elements.as_flattened().iter().enumerate() {
            let found: [u8; N] = core::array::from_fn(|plane| page[plane * 3 * BLOCK + at]);
            assert_eq!(found, *element);
        }
        let planes = core::array::from_fn(|plane| &page[plane * 3 * BLOCK..(plane + 1) * 3 * BLOCK]);
        assert_eq!(core::array::from_fn(|at| take(&planes, at)), elements);
    }

    #[test]
    fn blocks_are_taken_apart_to_planes_and_put_together_again() {
        there_and_back::<2>();
        there_and_back::<4>();
        there_and_back::<8>();
    }
}
