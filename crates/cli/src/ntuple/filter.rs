//! Which entries are wanted: filters by fields, in words.

use super::source::{Any, Opened};
use crate::failure::{Exit, Failure, Outcome};
use dolmen_rntuple::store::{Compare, Condition, Number};
use dolmen_rntuple::{Array, Entries, Error, Lists, Values};

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

/// The least whole number of 64 bits.
const LEAST: f64 = -9_223_372_036_854_775_808.0;

/// What has to hold of an entry: of the number that a field has, or of how long a list or a text is.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Filter {
    condition: Condition,
    is_of_length: bool,
}

/// Filters of fields that there are.
pub(super) struct Known<'a> {
    filters: &'a [Filter],
    /// The number of the field of each.
    pub(super) fields: Vec<usize>,
    /// Those that zones of pages can tell of.
    of_zones: Vec<Condition>,
}

/// A filter such as `met > 20` or `len(hits) >= 2`.
pub(super) fn filter(text: &str) -> Result<Filter, String> {
    let wrong = || {
        "give a field, one of < <= == != >= >, and a number, as in 'met > 20', or 'len(hits) >= 2' of a list"
            .to_owned()
    };
    let at = text.find(['<', '>', '=', '!']).ok_or_else(wrong)?;
    let (field, rest) = (text[..at].trim(), &text[at..]);
    let (word, compare) = COMPARES.iter().find(|(word, _)| rest.starts_with(word)).ok_or_else(wrong)?;
    let number = number(rest[word.len()..].trim()).ok_or_else(wrong)?;
    let of_length = field.strip_prefix("len(").and_then(|field| field.strip_suffix(')'));
    let (field, is_of_length) = (of_length.unwrap_or(field).trim(), of_length.is_some());
    if field.is_empty() {
        return Err(wrong());
    }
    Ok(Filter { condition: Condition { field: field.into(), compare: *compare, number }, is_of_length })
}

/// Looks at the fields of filters, of which nothing is read.
pub(super) fn known<'a>(any: &Any, filters: &'a [Filter]) -> Outcome<Known<'a>> {
    let fields = filters.iter().map(|filter| any.field(&filter.condition.field));
    let fields = fields.collect::<dolmen_rntuple::Result<Vec<_>>>()?;
    let none = any.read(&fields, Entries { first: 0, end: 0 })?;
    let mut of_zones = Vec::new();
    for (filter, array) in filters.iter().zip(&none) {
        vet(filter, array)?;
        if has_zones(any, &filter.condition) {
            of_zones.push(filter.condition.clone());
        }
    }
    Ok(Known { filters, fields, of_zones })
}

/// Whether zones can tell of a condition: not of texts, nor of what is within lists. Nothing is read for that.
fn has_zones(any: &Any, condition: &Condition) -> bool {
    let Any::Ntuple(opened) = any else { return false };
    let Opened::Stored(ntuple, _) = &**opened else { return false };
    ntuple.prune(core::slice::from_ref(condition), Entries { first: 0, end: 0 }).is_ok()
}

/// Refuses a filter of what a field does not have.
fn vet(Filter { condition, is_of_length }: &Filter, array: &Array) -> Outcome<()> {
    let field = &condition.field;
    let (why, hint) = match (array, is_of_length) {
        (Array::Values(_), false) | (Array::Lists { of: Lists::Items | Lists::Text, .. }, true) => {
            return Ok(());
        }
        (Array::Lists { of: of @ (Lists::Items | Lists::Text), .. }, false) => {
            let what = if *of == Lists::Text { "texts" } else { "lists" };
            let why = format!("field \"{field}\" has {what}, which are not compared with a number");
            (why, format!("len({field}) is how long each is, as in 'len({field}) > 2'"))
        }
        (Array::Values(_), true) => {
            let why = format!("field \"{field}\" has one number for each entry, and no length");
            (why, format!("compare the number, as in '{field} > 2'"))
        }
        _ => {
            let why = Error::NotFlat { name: field.clone() }.to_string();
            (why, "filters are of numbers, and of how long lists and texts are (len)".to_owned())
        }
    };
    Err(Failure::new(Exit::Usage, why).hint(hint))
}

/// A number as what it is: whole ones are not rounded.
pub(super) fn number(text: &str) -> Option<Number> {
    let whole = || text.parse().ok().map(Number::Unsigned);
    let signed = || text.parse().ok().map(Number::Signed);
    let float = || match text {
        "true" => Some(Number::Unsigned(1)),
        "false" => Some(Number::Unsigned(0)),
        _ => text.parse().ok().map(|float: f64| Number::Float(unmet(text, float))),
    };
    whole().or_else(signed).or_else(float)
}

/// The float of a text that is no whole number of 64 bits: what is below all of these is not rounded to the least of them.
fn unmet(text: &str, float: f64) -> f64 {
    let is_whole =
        text.strip_prefix('-').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if is_whole && float == LEAST { float.next_down() } else { float }
}

/// Entries of a range that pass all filters, as ranges; `progress` is told of entries that were looked at.
pub(super) fn passing(
    any: &Any,
    Known { filters, fields, of_zones }: &Known<'_>,
    entries: Entries,
    step: u64,
    mut progress: impl FnMut(u64) -> dolmen_rntuple::Result<()>,
) -> Outcome<Vec<Entries>> {
    if filters.is_empty() {
        return Ok(vec![entries]);
    }
    let possible = match any {
        Any::Ntuple(opened) => match &**opened {
            Opened::Stored(ntuple, _) => ntuple.prune(of_zones, entries)?,
            Opened::File(_) => vec![entries],
        },
        Any::Tree(_) => vec![entries],
    };
    let mut found: Vec<Entries> = Vec::new();
    for part in possible.into_iter().flat_map(|range| steps(range, step)) {
        let arrays = any.read_numbers(fields, part)?;
        for (nth, entry) in (part.first..part.end).enumerate() {
            let mut holds = true;
            for (Filter { condition, .. }, array) in filters.iter().zip(&arrays) {
                holds = holds && condition.compare.holds(value(array, nth), condition.number);
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

/// The number that a filter is of: a value, or how many there are.
///
/// # Panics
/// Of an array that has neither.
fn value(array: &Array, at: usize) -> Number {
    match array {
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
        _ => unreachable!("it was looked at before"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_field_or_its_length_a_comparison_and_a_number() {
        let is = |field: &str, is_of_length, compare, number| {
            let condition = Condition { field: field.into(), compare, number };
            Ok(Filter { condition, is_of_length })
        };
        assert_eq!(filter("met > 20"), is("met", false, Compare::Greater, Number::Unsigned(20)));
        assert_eq!(filter("a.b<=-3"), is("a.b", false, Compare::LessOrEqual, Number::Signed(-3)));
        assert_eq!(filter("x=1.5"), is("x", false, Compare::Equal, Number::Float(1.5)));
        assert_eq!(filter(" x == true "), is("x", false, Compare::Equal, Number::Unsigned(1)));
        assert_eq!(filter("len( a.b )>2"), is("a.b", true, Compare::Greater, Number::Unsigned(2)));
        let largest = Number::Unsigned(u64::MAX);
        assert_eq!(filter("x!=18446744073709551615"), is("x", false, Compare::NotEqual, largest));
        let Ok(below) = filter("x == -9223372036854775809") else { panic!("it is a number") };
        let least = Number::Signed(i64::MIN);
        assert_eq!(filter("x > -9223372036854775808"), is("x", false, Compare::Greater, least));
        assert_eq!(below.condition.number, Number::Float(LEAST.next_down()));
        for wrong in ["", "x", "> 3", "x >", "x ! 3", "x > y", "x => 3", "x << 3", "len() > 3"] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn parts_of_a_range_are_all_of_it() {
        let part = |first, end| Entries { first, end };
        assert_eq!(steps(part(3, 10), 3).collect::<Vec<_>>(), [part(3, 6), part(6, 9), part(9, 10)]);
        assert_eq!(steps(part(3, 3), 3).count(), 0);
    }
}
