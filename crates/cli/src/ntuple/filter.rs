//! Which entries are wanted: conditions on fields, in words.

use super::source::{Any, Opened};
use crate::failure::{Exit, Failure, Outcome};
use dolmen_rntuple::store::{Compare, Condition, Number};
use dolmen_rntuple::{Array, Entries, Error, Values};

/// How values are compared, in words; longer ones first.
const COMPARES: [(&str, Compare); 7] = [
    ("<=", Compare::LessOrEqual),
    (">=", Compare::GreaterOrEqual),
    ("==", Compare::Equal),
    ("!=", Compare::NotEqual),
    ("<", Compare::Less),
    (">", Compare::Greater),
    ("=", Compare::Equal),
];

/// A condition such as `met > 20`.
pub(super) fn condition(text: &str) -> Result<Condition, String> {
    let wrong = || "give a field, one of < <= == != >= >, and a number, as in 'met > 20'".to_owned();
    let at = text.find(['<', '>', '=', '!']).ok_or_else(wrong)?;
    let (field, rest) = (text[..at].trim(), &text[at..]);
    let (word, compare) = COMPARES.iter().find(|(word, _)| rest.starts_with(word)).ok_or_else(wrong)?;
    let number = number(rest[word.len()..].trim()).ok_or_else(wrong)?;
    if field.is_empty() {
        return Err(wrong());
    }
    Ok(Condition { field: field.into(), compare: *compare, number })
}

/// A number as what it is: whole ones are not rounded.
pub(super) fn number(text: &str) -> Option<Number> {
    let whole = || text.parse().ok().map(Number::Unsigned);
    let signed = || text.parse().ok().map(Number::Signed);
    let float = || match text {
        "true" => Some(Number::Unsigned(1)),
        "false" => Some(Number::Unsigned(0)),
        _ => text.parse().ok().map(Number::Float),
    };
    whole().or_else(signed).or_else(float)
}

/// Entries of a range that satisfy all conditions, as ranges; `progress` is told of entries that were looked at.
pub(super) fn passing(
    any: &Any,
    conditions: &[Condition],
    entries: Entries,
    step: u64,
    mut progress: impl FnMut(u64) -> dolmen_rntuple::Result<()>,
) -> Outcome<Vec<Entries>> {
    if conditions.is_empty() {
        return Ok(vec![entries]);
    }
    let fields = conditions.iter().map(|condition| any.field(&condition.field));
    let fields = fields.collect::<dolmen_rntuple::Result<Vec<_>>>()?;
    let possible = match any {
        Any::Ntuple(opened) => match &**opened {
            Opened::Stored(ntuple, _) => ntuple.prune(conditions, entries)?,
            Opened::File(_) => vec![entries],
        },
        Any::Tree(_) => vec![entries],
    };
    let mut found: Vec<Entries> = Vec::new();
    for part in possible.into_iter().flat_map(|range| steps(range, step)) {
        let arrays = any.read_numbers(&fields, part)?;
        for (nth, entry) in (part.first..part.end).enumerate() {
            let mut holds = true;
            for (condition, array) in conditions.iter().zip(&arrays) {
                holds = holds && condition.compare.holds(value(condition, array, nth)?, condition.number);
            }
            match found.last_mut().filter(|last| last.end == entry) {
                _ if !holds => {}
                Some(last) => last.end += 1,
                None => found.push(Entries { first: entry, end: entry + 1 }),
            }
        }
        progress(part.end)?;
    }
    Ok(found)
}

/// A range in parts of so many entries at most.
pub(super) fn steps(range: Entries, step: u64) -> impl Iterator<Item = Entries> {
    let mut first = range.first;
    core::iter::from_fn(move || {
        let part = Entries { first, end: range.end.min(first.saturating_add(step)) };
        first = part.end;
        (part.first < part.end).then_some(part)
    })
}

/// The number that a condition is of: a value, or how many there are.
fn value(condition: &Condition, array: &Array, at: usize) -> Outcome<Number> {
    Ok(match array {
        Array::Values(Values::Bool(values) | Values::U8(values)) => Number::Unsigned(values[at].into()),
        Array::Values(Values::U16(values)) => Number::Unsigned(values[at].into()),
        Array::Values(Values::U32(values)) => Number::Unsigned(values[at].into()),
        Array::Values(Values::U64(values)) => Number::Unsigned(values[at]),
        Array::Values(Values::I8(values)) => Number::Signed(values[at].into()),
        Array::Values(Values::I16(values)) => Number::Signed(values[at].into()),
        Array::Values(Values::I32(values)) => Number::Signed(values[at].into()),
        Array::Values(Values::I64(values)) => Number::Signed(values[at]),
        Array::Values(Values::F32(values)) => Number::Float(values[at].into()),
        Array::Values(Values::F64(values)) => Number::Float(values[at]),
        Array::Lists { offsets, .. } => Number::Signed(offsets[at + 1] - offsets[at]),
        _ => {
            let why = Error::NotFlat { name: condition.field.clone() }.to_string();
            return Err(
                Failure::new(Exit::Usage, why).hint("conditions are on numbers, or on how long a list is")
            );
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_a_field_a_comparison_and_a_number() {
        let of = |field: &str, compare, number| Ok(Condition { field: field.into(), compare, number });
        assert_eq!(condition("met > 20"), of("met", Compare::Greater, Number::Unsigned(20)));
        assert_eq!(condition("a.b<=-3"), of("a.b", Compare::LessOrEqual, Number::Signed(-3)));
        assert_eq!(condition("x=1.5"), of("x", Compare::Equal, Number::Float(1.5)));
        assert_eq!(condition(" x == true "), of("x", Compare::Equal, Number::Unsigned(1)));
        let largest = Number::Unsigned(u64::MAX);
        assert_eq!(condition("x!=18446744073709551615"), of("x", Compare::NotEqual, largest));
        for wrong in ["", "x", "> 3", "x >", "x ! 3", "x > y", "x => 3", "x << 3"] {
            assert!(condition(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn parts_of_a_range_are_all_of_it() {
        let part = |first, end| Entries { first, end };
        assert_eq!(steps(part(3, 10), 3).collect::<Vec<_>>(), [part(3, 6), part(6, 9), part(9, 10)]);
        assert_eq!(steps(part(3, 3), 3).count(), 0);
    }
}
