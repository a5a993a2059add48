//! Which runs are merged, and which segments of the log are given up.

use core::ops::Range;

/// Runs of like size, one newer than the other, that are merged at once. An entry is written once for each time
/// that the store grows by this factor; a lookup asks at most this many filters for each.
const MERGE_RUNS: usize = 6;
/// Runs are of like size if the largest has at most so many times the bytes of the smallest.
const LIKE_SIZE: u64 = 4;
/// With so many runs some are merged whatever their sizes.
const RUNS_MAX: usize = 20;

/// The first runs of like size, one older than the other, if there are enough; with too many runs those that
/// cost least. All within one of the intact ranges.
pub(crate) fn due_range(sizes: &[u64], intact: &[Range<usize>]) -> Option<Range<usize>> {
    for range in intact {
        for start in range.clone() {
            let (mut least, mut most) = (u64::MAX, 0);
            let like = |&&size: &&u64| {
                (least, most) = (least.min(size), most.max(size));
                most <= least.saturating_mul(LIKE_SIZE)
            };
            let count = sizes[start..range.end].iter().take_while(like).count();
            if count >= MERGE_RUNS {
                return Some(start..start + count);
            }
        }
    }
    if intact.iter().map(ExactSizeIterator::len).sum::<usize>() < RUNS_MAX {
        return None;
    }
    // Damaged runs may leave no more than a few beside each other.
    let count = intact.iter().map(ExactSizeIterator::len).max()?.min(MERGE_RUNS);
    let starts =
        intact.iter().flat_map(|range| range.start..(range.end + 1).saturating_sub(count).max(range.start));
    let start = starts.min_by_key(|&start| sizes[start..start + count].iter().sum::<u64>())?;
    (count > 1).then_some(start..start + count)
}

/// Which of the segments, of so many bytes each and given with the bytes that are live in them, are given up so that
/// garbage is no more than its part of what is left: the emptiest, as far as there is room for what lives in them.
pub(crate) fn emptiest(
    mut segments: Vec<(u64, u32)>,
    segment_bytes: u64,
    parts: u64,
    mut room: u64,
) -> Vec<u32> {
    segments.sort_unstable();
    let mut total = segments.len() as u64 * segment_bytes;
    let mut garbage: u64 = segments.iter().map(|&(live, _)| segment_bytes.saturating_sub(live)).sum();
    let is_taken = |&&(live, _): &&(u64, u32)| {
        let is_taken = garbage > total / parts && live <= room;
        let gone = segment_bytes.saturating_sub(live);
        (garbage, total) = (garbage.saturating_sub(gone), total.saturating_sub(gone));
        room = room.saturating_sub(live);
        is_taken
    };
    segments.iter().take_while(is_taken).map(|&(_, number)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emptiest_segments_are_given_up_until_garbage_is_its_part() {
        assert_eq!(emptiest(vec![(100, 1), (100, 2)], 100, 5, u64::MAX), [0; 0]);
        assert_eq!(emptiest(vec![(80, 1), (90, 2)], 100, 5, u64::MAX), [0; 0]);
        assert_eq!(emptiest(vec![(10, 7)], 100, 5, u64::MAX), [7]);
        // 230 of 500 are garbage; without the two emptiest 60 of 330 are.
        let segments = vec![(95, 1), (10, 2), (75, 3), (20, 4), (70, 5)];
        assert_eq!(emptiest(segments.clone(), 100, 5, u64::MAX), [2, 4]);
        assert_eq!(emptiest(segments.clone(), 100, 5, 25), [2]);
        assert_eq!(emptiest(segments, 100, 2, u64::MAX), [0; 0]);
    }
}
