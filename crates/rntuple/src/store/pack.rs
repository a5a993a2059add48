//! Which pages of a cluster go into one column group.
//!
//! Invariants: each page is in one group, behind those before it; a group has one page at least; of all groups but the last, and those
//! that a page of the size of one follows, each has [`FILLED_MIN`] of what it may have.

/// Of 1024 parts, how many of a group are filled at least before a column that does not fit begins the next one: so a cluster is read
/// in at most 1.25 times as many requests as it has groups' bytes.
const FILLED_MIN: u64 = 832;

/// A page, by the numbers of its column and in its column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PageNo {
    /// Number of the column.
    pub(super) column: usize,
    /// Number of the page.
    pub(super) page: usize,
}

/// Pages of a column group, one behind the other.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Group {
    /// The pages, and where each begins.
    pub(super) pages: Vec<(PageNo, u64)>,
    /// Bytes of all.
    pub(super) bytes: u64,
}

/// Packs pages, given by column as the bytes that they take, into groups of about `group_bytes`; columns in `order`, then those that it
/// does not name in theirs.
pub(super) fn pack(columns: &[Vec<u64>], order: &[u32], group_bytes: u64) -> Vec<Group> {
    let mut is_named = vec![false; columns.len()];
    let mut ordered = Vec::with_capacity(columns.len());
    let named = order.iter().map(|&column| column as usize).filter(|&column| column < columns.len());
    for column in named.chain(0..columns.len()) {
        if !is_named[column] {
            is_named[column] = true;
            ordered.push(column);
        }
    }
    let is_filled = |group: &Group| {
        !group.pages.is_empty() && group.bytes >= group_bytes.saturating_mul(FILLED_MIN) / 1024
    };
    let (mut groups, mut group) = (Vec::new(), Group::default());
    for column in ordered {
        let pages = &columns[column];
        let all: u64 = pages.iter().sum();
        if group.bytes + all > group_bytes && is_filled(&group) {
            groups.push(core::mem::take(&mut group));
        }
        for (page, &bytes) in pages.iter().enumerate() {
            if group.bytes + bytes > group_bytes && is_filled(&group) {
                groups.push(core::mem::take(&mut group));
            }
            group.pages.push((PageNo { column, page }, group.bytes));
            group.bytes += bytes;
        }
    }
    if !group.pages.is_empty() {
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::{PageNo, pack};

    const GROUP: u64 = 1 << 20;

    #[test]
    fn columns_in_order_share_a_group_until_it_is_full() {
        let columns = vec![vec![400 << 10; 1]; 5];
        let groups = pack(&columns, &[], GROUP);
        let counts: Vec<_> = groups.iter().map(|group| group.pages.len()).collect();
        assert_eq!(counts, [3, 2], "800 KiB are too few to begin another");
        assert_eq!(groups[0].pages[2], (PageNo { column: 2, page: 0 }, 800 << 10));
        let named = pack(&columns, &[4, 0, 9, 4], GROUP);
        let first: Vec<_> = named[0].pages.iter().map(|(page, _)| page.column).collect();
        assert_eq!(first, [4, 0, 1], "what is named comes first, and once");
    }

    #[test]
    fn a_cluster_of_128_mib_has_few_groups_whatever_its_pages() {
        for page in [1 << 10, 65 << 10, 300 << 10, 520 << 10, 900 << 10, 1 << 20] {
            for pages_of_a_column in [1_usize, 3, 7] {
                let column_count = usize::try_from((128 << 20) / page).unwrap() / pages_of_a_column;
                let columns = vec![vec![page; pages_of_a_column]; column_count];
                let groups = pack(&columns, &[], GROUP);
                assert!(groups.len() <= 160, "{page} x {pages_of_a_column}: {}", groups.len());
                let all: usize = groups.iter().map(|group| group.pages.len()).sum();
                assert_eq!(all, column_count * pages_of_a_column);
            }
        }
    }
}
