//! Zones: what the values of a page lie between.
//!
//! Invariant: `low` is not above `high`, and neither is NaN; a page without such a value has no zone, but for its count of NaN.

use crate::format::column::InMemory;

/// The least and the largest value of a page, and how many are none.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Zone {
    /// The values between which all lie that are not NaN; none if all are NaN.
    pub bounds: Option<Bounds>,
    /// How many are NaN.
    pub null_count: u32,
}

/// Two values of a kind, the lower first.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bounds {
    /// Numbers with sign, and the lengths of collections.
    Signed(i64, i64),
    /// Numbers without sign, bytes and bits.
    Unsigned(u64, u64),
    /// Floats.
    Float(f64, f64),
}

impl Zone {
    /// The zone of elements of that kind, in memory as [`decode`](crate::format::encoding::decode) makes them; of offsets it is that of the
    /// lengths, the first of which begins at `before`. None of switches, and of no elements.
    #[must_use]
    pub fn of(kind: InMemory, elements: &[u8], before: i64) -> Option<Self> {
        if elements.is_empty() {
            return None;
        }
        Some(match kind {
            InMemory::Bool | InMemory::U8 => unsigned(elements.iter().copied()),
            InMemory::U16 => unsigned(elements.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b))),
            InMemory::U32 => unsigned(elements.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b))),
            InMemory::U64 => unsigned(elements.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b))),
            InMemory::I8 => signed(elements.iter().map(|&byte| byte.cast_signed())),
            InMemory::I16 => signed(elements.as_chunks().0.iter().map(|b| i16::from_le_bytes(*b))),
            InMemory::I32 => signed(elements.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b))),
            InMemory::I64 => signed(elements.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b))),
            InMemory::F32 => floats(elements.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))),
            InMemory::F64 => doubles(elements.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b))),
            InMemory::Offset => {
                let ends = elements.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b));
                signed(
                    ends.scan(before, |before, end| {
                        Some(end.saturating_sub(core::mem::replace(before, end)))
                    }),
                )
            }
            InMemory::Switch => return None,
        })
    }
}

/// Least and largest of what there is at least one of.
fn both<T: Copy + PartialOrd>(values: impl Iterator<Item = T>, least: T, most: T) -> (T, T) {
    // The values begin with what loses to each of them, so that no branch is in the way of vectors.
    values.fold((most, least), |(low, high), value| {
        (if value < low { value } else { low }, if value > high { value } else { high })
    })
}

fn unsigned<T: Copy + Into<u64> + PartialOrd + Limits>(values: impl Iterator<Item = T>) -> Zone {
    let (low, high) = both(values, T::LEAST, T::MOST);
    Zone { bounds: Some(Bounds::Unsigned(low.into(), high.into())), null_count: 0 }
}

fn signed<T: Copy + Into<i64> + PartialOrd + Limits>(values: impl Iterator<Item = T>) -> Zone {
    let (low, high) = both(values, T::LEAST, T::MOST);
    Zone { bounds: Some(Bounds::Signed(low.into(), high.into())), null_count: 0 }
}

fn floats(values: impl Iterator<Item = f32> + Clone) -> Zone {
    let (low, high) = both(values.clone(), f32::NEG_INFINITY, f32::INFINITY);
    numbers(f64::from(low), f64::from(high), values.map(f32::is_nan))
}

fn doubles(values: impl Iterator<Item = f64> + Clone) -> Zone {
    let (low, high) = both(values.clone(), f64::NEG_INFINITY, f64::INFINITY);
    numbers(low, high, values.map(f64::is_nan))
}

fn numbers(low: f64, high: f64, are_nan: impl Iterator<Item = bool>) -> Zone {
    let (mut count, mut null_count) = (0_u32, 0_u32);
    for is_nan in are_nan {
        count += 1;
        null_count += u32::from(is_nan);
    }
    Zone { bounds: (null_count < count).then_some(Bounds::Float(low, high)), null_count }
}

/// The ends of a type.
trait Limits {
    const LEAST: Self;
    const MOST: Self;
}

macro_rules! limits {
    ($($kind:ty),*) => { $(impl Limits for $kind {
        const LEAST: Self = Self::MIN;
        const MOST: Self = Self::MAX;
    })* };
}

limits!(u8, u16, u32, u64, i8, i16, i32, i64);

#[cfg(test)]
mod tests {
    use super::{Bounds, Zone};
    use crate::format::column::InMemory;
    use zerocopy::IntoBytes;

    fn bounds(kind: InMemory, elements: &[u8]) -> Bounds {
        Zone::of(kind, elements, 0).unwrap().bounds.unwrap()
    }

    #[test]
    fn a_zone_has_the_least_and_the_largest_of_each_kind() {
        assert_eq!(bounds(InMemory::I8, &[0xff, 3]), Bounds::Signed(-1, 3));
        assert_eq!(bounds(InMemory::U8, &[0xff, 3]), Bounds::Unsigned(3, 255));
        assert_eq!(bounds(InMemory::I64, [i64::MIN, 7].as_bytes()), Bounds::Signed(i64::MIN, 7));
        assert_eq!(bounds(InMemory::U64, [u64::MAX, 7].as_bytes()), Bounds::Unsigned(7, u64::MAX));
        assert_eq!(bounds(InMemory::F32, [1.5_f32, -2.0].as_bytes()), Bounds::Float(-2.0, 1.5));
        let infinite = [f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!(
            bounds(InMemory::F64, infinite.as_bytes()),
            Bounds::Float(f64::NEG_INFINITY, f64::INFINITY)
        );
    }

    #[test]
    fn what_is_nan_is_counted_and_not_between_the_bounds() {
        let zone = Zone::of(InMemory::F64, [f64::NAN, 2.0, f64::NAN, 1.0].as_bytes(), 0).unwrap();
        assert_eq!(zone, Zone { bounds: Some(Bounds::Float(1.0, 2.0)), null_count: 2 });
        let none = Zone::of(InMemory::F32, [f32::NAN].as_bytes(), 0).unwrap();
        assert_eq!(none, Zone { bounds: None, null_count: 1 });
        assert_eq!(Zone::of(InMemory::F32, &[], 0), None);
    }

    #[test]
    fn the_zone_of_offsets_is_that_of_the_lengths() {
        let zone = Zone::of(InMemory::Offset, [7_i64, 7, 12].as_bytes(), 5).unwrap();
        assert_eq!(zone.bounds, Some(Bounds::Signed(0, 5)));
    }
}
