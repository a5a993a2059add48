//! Where lists begin, and which are empty: the levels of repetition and definition that each value of a column has.

use core::ops::Range;

/// Levels of a column, and which values of the array it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Levels {
    /// Lists around a value.
    depth: u8,
    /// Of each value, and of each list that is empty: at which list it goes on, and how many lists are there around it.
    levels: Vec<(u8, u8)>,
    values: Vec<Range<usize>>,
}

impl Levels {
    /// Those of values that are in no list.
    pub(super) fn of(entries: Vec<Range<usize>>) -> Self {
        Self { depth: 0, levels: vec![(0, 0); entries.iter().map(Range::len).sum()], values: entries }
    }

    /// Those of what is in lists that stand where values stood; `start` says where the list of a place begins, which is where the one before
    /// ends.
    pub(super) fn within(&self, start: impl Fn(usize) -> usize) -> Self {
        let mut levels = Vec::new();
        let mut places = self.values.iter().cloned().flatten();
        for &(repeats, defined) in &self.levels {
            if defined < self.depth {
                levels.push((repeats, defined));
                continue;
            }
            let at = places.next().expect("there is a value for each level that is none of an empty list");
            let count = start(at + 1) - start(at);
            match count {
                0 => levels.push((repeats, defined)),
                _ => {
                    levels.push((repeats, self.depth + 1));
                    levels.extend(core::iter::repeat_n((self.depth + 1, self.depth + 1), count - 1));
                }
            }
        }
        let values = self.values.iter().map(|range| start(range.start)..start(range.end)).collect();
        Self { depth: self.depth + 1, levels, values }
    }

    /// Which values of the array are in the column.
    pub(super) fn ranges(&self) -> &[Range<usize>] {
        &self.values
    }

    /// Values, and lists that are empty.
    pub(super) fn count(&self) -> u64 {
        self.levels.len() as u64
    }

    /// As they stand before the values of a page: nothing where there are no lists.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.depth > 0 {
            runs(self.levels.iter().map(|(repeats, _)| *repeats), &mut out);
            runs(self.levels.iter().map(|(_, defined)| *defined), &mut out);
        }
        out
    }
}

/// Levels as runs, behind how many bytes these take.
fn runs(levels: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    let length_at = out.len();
    out.extend([0; 4]);
    let mut levels = levels.peekable();
    while let Some(level) = levels.next() {
        let mut count = 1_u64;
        while levels.next_if_eq(&level).is_some() {
            count += 1;
        }
        super::thrift::varint(count << 1, out);
        out.push(level);
    }
    let length = u32::try_from(out.len() - length_at - 4).unwrap_or(u32::MAX);
    out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_say_where_lists_begin_and_which_are_empty() {
        // [[1, 2], []], [], [[3]]
        let outer = [0, 2, 2, 3];
        let inner = [0, 2, 2, 3];
        #[expect(clippy::single_range_in_vec_init, reason = "ranges of entries, of which there is one")]
        let all = || vec![0..3];
        let levels = Levels::of(all()).within(|at| outer[at]).within(|at| inner[at]);
        assert_eq!(levels.levels, [(0, 2), (2, 2), (1, 1), (0, 0), (0, 2)]);
        assert_eq!((levels.ranges(), levels.count()), (&all()[..], 5));
        let repeats = [2, 0, 2, 2, 2, 1, 4, 0];
        let defined = [4, 2, 2, 1, 2, 0, 2, 2];
        let encoded = [&[8, 0, 0, 0][..], &repeats, &[8, 0, 0, 0], &defined].concat();
        assert_eq!(levels.encoded(), encoded);
        assert_eq!(Levels::of(all()).encoded(), Vec::<u8>::new());
        // The first and the last of them.
        let levels = Levels::of(vec![0..1, 2..3]).within(|at| outer[at]).within(|at| inner[at]);
        assert_eq!(levels.levels, [(0, 2), (2, 2), (1, 1), (0, 2)]);
        assert_eq!((levels.ranges(), levels.count()), (&[0..2, 2..3][..], 4));
    }
}
