//! Tables of cache lines, for what is looked into at random: a look touches one line, and as few pages as there are.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const WORDS: usize = 8;

/// One line of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u64; WORDS]);

/// So many lines of zeros, on huge pages if the system has any.
pub(crate) fn zeroed(count: usize) -> Vec<Line> {
    let mut lines = Vec::with_capacity(count);
    dolmen_env::prefer_huge_pages(lines.spare_capacity_mut());
    lines.resize(count, Line::default());
    lines
}

/// The words of lines.
pub(crate) fn words(lines: &[Line]) -> &[[u64; WORDS]] {
    <[[u64; WORDS]]>::ref_from_bytes(lines.as_bytes()).expect("lines are made of words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_lies_in_one_line_of_the_cache() {
        let mut lines = zeroed(100_000);
        assert!(
            lines.iter().all(|line| line.0 == [0; WORDS] && (&raw const *line).addr().is_multiple_of(64))
        );
        lines[99_999].0[7] = 1;
        assert_eq!(words(&lines)[99_999], [0, 0, 0, 0, 0, 0, 0, 1]);
        assert!(words(&zeroed(0)).is_empty());
    }
}
