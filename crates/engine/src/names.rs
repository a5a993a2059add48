//! Which files of a device are a target's, and numbers for new ones.
//!
//! Invariants: a file that has another name than a target gives is neither read nor removed; numbers of segments do not
//! exceed `SEGMENT_NUMBER_MAX`.

use dolmen_codec::manifest::SEGMENT_NUMBER_MAX;

/// The number of a file, if its name is the one that a number up to `most` gives it.
pub(crate) fn number_of(name: &str, file_name: impl Fn(u32) -> String, most: u32) -> Option<u32> {
    let number = u32::from_str_radix(name.rsplit_once('.')?.1, 16).ok()?;
    (number <= most && file_name(number) == name).then_some(number)
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
    fn only_names_that_a_target_gives_have_a_number() {
        let number = |name| number_of(name, crate::log::file_name, SEGMENT_NUMBER_MAX);
        assert_eq!((number("log.00000000"), number("log.00000bad")), (Some(0), Some(0xbad)));
        assert_eq!(number("log.7fffffff"), Some(SEGMENT_NUMBER_MAX));
        let others =
            ["log.bad", "log.0", "log.+0", "log.+0000000", "log.00000BAD", "log.000000000", "log.", "log"];
        for name in
            others.into_iter().chain(["log.80000000", "log.ffffffff", "bulk.00000000", "00000000", ""])
        {
            assert_eq!(number(name), None, "{name}");
        }
    }

    #[test]
    fn a_new_number_is_the_next_or_the_lowest_that_is_free() {
        let unused = |numbers: &[u32]| unused(numbers.last().copied(), numbers.iter().copied());
        assert_eq!((unused(&[]), unused(&[0]), unused(&[3, 7])), (Some(0), Some(1), Some(8)));
        assert_eq!(unused(&[0, SEGMENT_NUMBER_MAX - 1]), Some(SEGMENT_NUMBER_MAX));
        assert_eq!(unused(&[SEGMENT_NUMBER_MAX]), Some(0));
        assert_eq!(unused(&[0, 1, 3, SEGMENT_NUMBER_MAX]), Some(2));
    }
}
