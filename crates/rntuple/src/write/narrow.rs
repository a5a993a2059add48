//! Floats in fewer bits than they have in memory.

use crate::error::{Error, Fit, Result};
use crate::format::block::Compression;
use crate::format::schema::{ColumnKind, InMemory, Role, Schema};

/// How floats are kept in fewer bits.
///
/// //= root:tree/ntuple/doc/BinaryFormatSpecification.md Column Description
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Narrow {
    /// As 32 bits: what a float of 64 has besides is rounded.
    Single,
    /// As 16 bits: what is beyond 65,504 becomes infinite.
    Half,
    /// The first bits of 32, from 10 to 31: what is behind is cut off.
    Truncated {
        /// How many.
        bits: u16,
    },
    /// The nearest of 2^bits values between two, which are some of them; what is not between these is refused. They are read as floats of 32
    /// bits, as uproot reads them; ROOT reads those of a double field with more.
    Quantised {
        /// From 1 to 32.
        bits: u16,
        /// The least value.
        low: f64,
        /// The largest.
        high: f64,
    },
}

/// The kind of a column, its bits, and what it is quantised between.
type Kept = (ColumnKind, u16, Option<(f64, f64)>);

impl Narrow {
    /// What a text says: `real32`, `real16`, `trunc:BITS` or `quant:BITS:LOW:HIGH`; none if it is none of these.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let kind = parts.next()?;
        let mut next = || parts.next();
        let narrow = match kind {
            "real32" => Self::Single,
            "real16" => Self::Half,
            "trunc" => Self::Truncated { bits: next()?.parse().ok()? },
            "quant" => Self::Quantised {
                bits: next()?.parse().ok()?,
                low: next()?.parse().ok()?,
                high: next()?.parse().ok()?,
            },
            _ => return None,
        };
        parts.next().is_none().then_some(narrow)
    }

    /// The column that keeps what is of that kind in memory.
    fn column(self, of: InMemory, is_split: bool) -> Option<Kept> {
        use ColumnKind as K;
        let is_float = matches!(of, InMemory::F32 | InMemory::F64);
        Some(match self {
            Self::Single if is_float => (if is_split { K::SplitReal32 } else { K::Real32 }, 32, None),
            // ROOT does not read them split.
            Self::Half if is_float => (K::Real16, 16, None),
            Self::Truncated { bits } if is_float && (10..=31).contains(&bits) => (K::Real32Trunc, bits, None),
            Self::Quantised { bits, low, high } => {
                // They are read as floats of 32 bits.
                #[expect(clippy::cast_possible_truncation, reason = "that is what is asked")]
                let is_range = (low as f32) < high as f32 && (high as f32 - low as f32).is_finite();
                let fits = is_float && is_range && (1..=32).contains(&bits);
                fits.then_some((K::Real32Quant, bits, Some((low, high))))?
            }
            _ => return None,
        })
    }
}

/// Has the floats of a field kept in fewer bits, in a schema of which nothing is written yet. The field is told by its name, with dots between field
/// and subfield; of lists and arrays it is what is in them.
///
/// # Errors
/// [`Error::NoField`]; [`Error::NoFit`] if it has no floats, or numbers are out of their ranges.
pub fn narrow(schema: &mut Schema, name: &str, narrow: Narrow, compression: Compression) -> Result<()> {
    let no_field =
        || Error::no_field(name, schema.tops().map(|number| &*schema.fields[number as usize].name));
    let no_fit = || Error::NoFit { field: name.into(), fit: Fit::Column };
    let mut parts = name.split('.');
    let top = parts.next().ok_or_else(no_field)?;
    let named = |number: u32, name: &str| &*schema.fields[number as usize].name == name;
    let children = schema.children();
    let mut number = schema.tops().find(|&number| named(number, top)).ok_or_else(no_field)?;
    for part in parts {
        number = inner(schema, &children, number);
        let found = children[number as usize].iter().find(|&&child| named(child, part));
        number = *found.ok_or_else(no_field)?;
    }
    number = inner(schema, &children, number);
    let mut columns = schema.columns.iter_mut().filter(|column| column.field == number);
    let (Some(column), None) = (columns.next(), columns.next()) else { return Err(no_fit()) };
    let in_memory = column.kind.in_memory().ok_or_else(no_fit)?;
    let is_split = compression != Compression::None;
    (column.kind, column.bits, column.range) = narrow.column(in_memory, is_split).ok_or_else(no_fit)?;
    Ok(())
}

/// What is in the lists, or in the arrays, that a field has; the field itself if it is none of these.
fn inner(schema: &Schema, children: &[Vec<u32>], mut number: u32) -> u32 {
    loop {
        let field = &schema.fields[number as usize];
        let is_around = field.role == Some(Role::Collection) || field.repetition.is_some();
        match (is_around, &children[number as usize][..]) {
            (true, [child]) => number = *child,
            _ => return number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Narrow;

    #[test]
    fn what_is_said_of_floats_is_understood_or_none() {
        assert_eq!(Narrow::parse("real32"), Some(Narrow::Single));
        assert_eq!(Narrow::parse("real16"), Some(Narrow::Half));
        assert_eq!(Narrow::parse("trunc:16"), Some(Narrow::Truncated { bits: 16 }));
        let quantised = Narrow::Quantised { bits: 12, low: -3.5, high: 1e3 };
        assert_eq!(Narrow::parse("quant:12:-3.5:1e3"), Some(quantised));
        for none in [
            "",
            "real64",
            "trunc",
            "trunc:-1",
            "trunc:16:",
            "quant:8:0",
            "quant:8:0:1:2",
            "real16:",
            "Real16",
        ] {
            assert_eq!(Narrow::parse(none), None, "{none}");
        }
    }
}
