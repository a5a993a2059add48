//! The numbers of files.
//!
//! Invariants: those of segments do not exceed `SEGMENT_NUMBER_MAX`; a file with a higher one is neither read nor removed.

use dolmen_codec::manifest::SEGMENT_NUMBER_MAX;

/// The number of a segment's file, behind this beginning of its name.
pub(crate) fn number_of(name: &str, beginning: &str) -> Option<u32> {
    let number = u32::from_str_radix(name.strip_prefix(beginning)?, 16).ok()?;
    (number <= SEGMENT_NUMBER_MAX).then_some(number)
}

/// A number for a new segment beside those with these numbers, which ascend: the next one, and where there is none, as
/// after a file that somebody has put there, the lowest that is free.
pub(crate) fn unused(last: Option<u32>, mut numbers: impl Iterator<Item = u32>) -> Option<u32> {
    match last {
        None => Some(0),
        Some(last) if last < SEGMENT_NUMBER_MAX => Some(last + 1),
        Some(_) => (0..=SEGMENT_NUMBER_MAX).find(|&number| numbers.next() != Some(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_number_is_the_next_or_the_lowest_that_is_free() {
        let unused = |numbers: &[u32]| unused(numbers.last().copied(), numbers.iter().copied());
        assert_eq!((unused(&[]), unused(&[0]), unused(&[3, 7])), (Some(0), Some(1), Some(8)));
        assert_eq!(unused(&[0, SEGMENT_NUMBER_MAX - 1]), Some(SEGMENT_NUMBER_MAX));
        assert_eq!(unused(&[SEGMENT_NUMBER_MAX]), Some(0));
        assert_eq!(unused(&[0, 1, 3, SEGMENT_NUMBER_MAX]), Some(2));
    }
}
