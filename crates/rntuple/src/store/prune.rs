//! Which entries can satisfy conditions, by the zones of pages alone.
//!
//! Invariant: an entry that satisfies all conditions is in one of the ranges; whoever wants only such looks at the values still.

use super::source::StoreSource;
use crate::error::{Error, Result, Structure};
use crate::format::column::InMemory;
use crate::format::page_list::ClusterPages;
use crate::format::schema::Role;
use crate::ntuple::{Cluster, Entries, Ntuple};
use crate::zone::{Bounds, Zone};
use core::cmp::Ordering;

/// How a value is compared with a number. With NaN on either side only `NotEqual` holds, as for floats everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// It is less.
    Less,
    /// It is less or the same.
    LessOrEqual,
    /// It is the same.
    Equal,
    /// It is not the same.
    NotEqual,
    /// It is the same or greater.
    GreaterOrEqual,
    /// It is greater.
    Greater,
}

/// A number; two are compared as what they are, without a loss, whatever their kinds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// With sign.
    Signed(i64),
    /// Without.
    Unsigned(u64),
    /// A float.
    Float(f64),
}

/// What the values of a field have to be.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    /// The field, with dots between it and those above it: one number of each entry, or a collection, whose length is meant.
    pub field: Box<str>,
    /// How its value has to compare.
    pub compare: Compare,
    /// With what.
    pub number: Number,
}

impl Number {
    /// How the two compare; not at all if one is NaN.
    #[must_use]
    pub fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Float(one), Self::Float(other)) => one.partial_cmp(&other),
            (Self::Float(one), other) => ordered(other.whole(), one).map(Ordering::reverse),
            (one, Self::Float(other)) => ordered(one.whole(), other),
            (one, other) => Some(one.whole().cmp(&other.whole())),
        }
    }

    /// # Panics
    /// For a float.
    fn whole(self) -> i128 {
        match self {
            Self::Signed(number) => number.into(),
            Self::Unsigned(number) => number.into(),
            Self::Float(_) => unreachable!("floats are compared as such"),
        }
    }
}

/// How a whole number and a float compare.
fn ordered(whole: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    let truncated = float.trunc();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is too large becomes the largest, which is beyond 64 bits"
    )]
    let of_float = whole.cmp(&(truncated as i128));
    Some(of_float.then_with(|| 0.0.partial_cmp(&(float - truncated)).unwrap_or(Ordering::Equal)))
}

impl Compare {
    /// Whether it holds between two numbers.
    #[must_use]
    pub fn holds(self, value: Number, number: Number) -> bool {
        match (self, value.order(number)) {
            (Self::NotEqual, order) => order != Some(Ordering::Equal),
            (_, None) => false,
            (Self::Less, Some(order)) => order.is_lt(),
            (Self::LessOrEqual, Some(order)) => order.is_le(),
            (Self::Equal, Some(order)) => order.is_eq(),
            (Self::GreaterOrEqual, Some(order)) => order.is_ge(),
            (Self::Greater, Some(order)) => order.is_gt(),
        }
    }

    /// Whether it can hold for a value of the zone.
    fn can_hold(self, zone: &Zone, number: Number) -> bool {
        if self == Self::NotEqual && zone.null_count > 0 {
            return true;
        }
        let (low, high) = match zone.bounds {
            None => return false,
            Some(Bounds::Signed(low, high)) => (Number::Signed(low), Number::Signed(high)),
            Some(Bounds::Unsigned(low, high)) => (Number::Unsigned(low), Number::Unsigned(high)),
            Some(Bounds::Float(low, high)) => (Number::Float(low), Number::Float(high)),
        };
        match self {
            Self::Less | Self::LessOrEqual => self.holds(low, number),
            Self::Greater | Self::GreaterOrEqual => self.holds(high, number),
            Self::Equal => Self::LessOrEqual.holds(low, number) && Self::GreaterOrEqual.holds(high, number),
            Self::NotEqual => self.holds(low, number) || self.holds(high, number),
        }
    }
}

/// The columns of a condition's field, one for each representation.
struct Columns<'c> {
    numbers: Vec<u32>,
    condition: &'c Condition,
}

impl Ntuple<StoreSource> {
    /// Entries of the range that can satisfy all conditions, as ranges in their order: none that is left out can. What is known of pages is
    /// read with the first question for their list; pages are not.
    ///
    /// # Errors
    /// [`Error::NoField`]; [`Error::NotFlat`] of a field that has not one number or one collection for each entry; [`Error::NoEntries`]; those of
    /// reading page lists.
    pub fn prune(&self, conditions: &[Condition], entries: Entries) -> Result<Vec<Entries>> {
        let mut columns = Vec::with_capacity(conditions.len());
        for condition in conditions {
            columns.push(self.columns_of(condition)?);
        }
        let mut found: Vec<Entries> = Vec::new();
        for at in self.groups_with(entries)? {
            let list = self.page_lists(&[at])?[0];
            let known = self.source().known(&self.list_links(at))?;
            if known.len() != list.pages.len() {
                let fault = crate::error::Fault::Length;
                return Err(Error::Corrupt { structure: Structure::Zones, offset: 0, fault });
            }
            for pages in &list.clusters {
                let cluster = Cluster { pages, list };
                let first = pages.first_entry.max(entries.first);
                let end = (pages.first_entry + pages.entry_count).min(entries.end);
                let mut ranges = vec![(first, end)];
                for column in &columns {
                    let zones = |page: usize| known[page].zone;
                    ranges = both(&ranges, &self.ranges(&cluster, column, zones));
                }
                for (first, end) in ranges.into_iter().filter(|(first, end)| first < end) {
                    match found.last_mut().filter(|last| last.end == first) {
                        Some(last) => last.end = end,
                        None => found.push(Entries { first, end }),
                    }
                }
            }
        }
        Ok(found)
    }

    fn columns_of<'c>(&self, condition: &'c Condition) -> Result<Columns<'c>> {
        let number = self.field(&condition.field)?;
        let not_flat = || Error::NotFlat { name: condition.field.clone() };
        let fields = &self.header().schema.fields;
        let field = &fields[number as usize];
        let (mut above, mut depth) = (number, 0);
        while fields[above as usize].parent != above {
            above = fields[above as usize].parent;
            depth += 1;
            let has_one = matches!(fields[above as usize].role, Some(Role::Record | Role::Plain));
            if !has_one || fields[above as usize].repetition.is_some() || depth > fields.len() {
                return Err(not_flat());
            }
        }
        let is_one = matches!(field.role, Some(Role::Plain | Role::Collection)) && field.repetition.is_none();
        let columns = self.columns(number);
        if !is_one || columns.is_empty() || columns.iter().any(|of_one| of_one.len() != 1) {
            return Err(not_flat());
        }
        let numbers: Vec<u32> = columns.iter().map(|of_one| of_one[0]).collect();
        let kind = |&number: &u32| self.header().schema.columns[number as usize].kind.in_memory();
        if numbers.iter().any(|number| kind(number).is_none_or(|kind| kind == InMemory::Switch)) {
            return Err(not_flat());
        }
        Ok(Columns { numbers, condition })
    }

    /// Entries of the cluster for which the condition can hold.
    fn ranges(
        &self,
        cluster: &Cluster<'_>,
        columns: &Columns<'_>,
        zone: impl Fn(usize) -> Option<Zone>,
    ) -> Vec<(u64, u64)> {
        let Condition { compare, number, .. } = columns.condition;
        let ClusterPages { first_entry, entry_count, columns: of_cluster, .. } = cluster.pages;
        let there = columns.numbers.iter().filter_map(|&number| of_cluster.get(number as usize));
        let pages = there.filter(|column| column.first_element.is_some()).map(|column| column.pages.clone());
        let pages = pages.into_iter().next().unwrap_or(0..0);
        let elements: u64 = pages.clone().map(|page| u64::from(cluster.list.pages[page].element_count)).sum();
        // Entries before a column was added are zero.
        let zeros = entry_count.saturating_sub(elements);
        let zero = Zone { bounds: Some(Bounds::Signed(0, 0)), null_count: 0 };
        let mut at = *first_entry;
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let of_pages = pages.map(|page| (u64::from(cluster.list.pages[page].element_count), zone(page)));
        for (count, zone) in [(zeros, Some(zero))].into_iter().chain(of_pages) {
            // Of a page without a zone nothing is known.
            if zone.is_none_or(|zone| compare.can_hold(&zone, *number)) {
                match ranges.last_mut().filter(|(_, end)| *end == at) {
                    Some((_, end)) => *end = at + count,
                    None => ranges.push((at, at + count)),
                }
            }
            at += count;
        }
        ranges
    }
}

/// What is in both, of ranges in their order.
fn both(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut found, mut of_one, mut of_other) = (Vec::new(), 0, 0);
    while let (Some(a), Some(b)) = (one.get(of_one), other.get(of_other)) {
        let (first, end) = (a.0.max(b.0), a.1.min(b.1));
        if first < end {
            found.push((first, end));
        }
        if a.1 < b.1 {
            of_one += 1;
        } else {
            of_other += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Compare, Number, Ordering, Zone, both};

    #[test]
    fn numbers_of_different_kinds_are_compared_without_a_loss() {
        use Number::{Float, Signed, Unsigned};
        for (one, other, order) in [
            (Signed(-1), Unsigned(u64::MAX), Some(Ordering::Less)),
            (Unsigned(1 << 53), Float(9_007_199_254_740_992.0), Some(Ordering::Equal)),
            (Unsigned((1 << 53) + 1), Float(9_007_199_254_740_992.0), Some(Ordering::Greater)),
            (Float(-0.5), Signed(0), Some(Ordering::Less)),
            (Signed(-1), Float(-0.5), Some(Ordering::Less)),
            (Signed(3), Float(3.5), Some(Ordering::Less)),
            (Unsigned(u64::MAX), Float(18_446_744_073_709_551_616.0), Some(Ordering::Less)),
            (Float(f64::INFINITY), Unsigned(u64::MAX), Some(Ordering::Greater)),
            (Signed(i64::MIN), Float(f64::NEG_INFINITY), Some(Ordering::Greater)),
            (Float(f64::NAN), Signed(0), None),
        ] {
            assert_eq!(one.order(other), order, "{one:?}, {other:?}");
            assert_eq!(other.order(one), order.map(Ordering::reverse), "{other:?}, {one:?}");
        }
    }

    #[test]
    fn only_that_something_is_different_can_hold_for_what_is_nan() {
        let all = Zone { bounds: None, null_count: 3 };
        let some = Zone { bounds: Some(Bounds::Float(1.0, 1.0)), null_count: 1 };
        let none = Zone { null_count: 0, ..some };
        let [one, nan] = [1.0, f64::NAN].map(Number::Float);
        for compare in [Compare::Less, Compare::LessOrEqual, Compare::Equal, Compare::Greater] {
            assert!(!compare.can_hold(&all, one));
            assert!(!compare.can_hold(&some, nan));
        }
        assert!(Compare::NotEqual.can_hold(&all, one));
        assert!(Compare::NotEqual.can_hold(&some, one));
        assert!(!Compare::NotEqual.can_hold(&none, one));
        assert!(Compare::NotEqual.can_hold(&none, nan));
        assert!(Compare::Equal.can_hold(&none, one) && Compare::LessOrEqual.can_hold(&none, one));
        assert!(!Compare::Less.can_hold(&none, one) && !Compare::Greater.can_hold(&none, one));
    }

    #[test]
    fn what_is_in_both_is_cut_at_the_ends_of_each() {
        assert_eq!(
            both(&[(0, 5), (7, 20)], &[(3, 8), (9, 9), (10, 12), (15, 30)]),
            [(3, 5), (7, 8), (10, 12), (15, 20)]
        );
        assert_eq!(both(&[], &[(0, 1)]), []);
    }
}
