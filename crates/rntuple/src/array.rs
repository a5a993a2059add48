//! Fields that were read: a tree of arrays.

mod room;

pub use room::Room;
pub(crate) use room::{Growing, grow};

use crate::error::Result;
use crate::format::column::InMemory;
use core::fmt;
use zerocopy::IntoBytes;

/// Values of one kind, one behind the other.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "the kinds say it; `Bool` is a byte of 0 or 1 each")]
pub enum Values {
    Bool(Vec<u8>),
    I8(Vec<i8>),
    U8(Vec<u8>),
    I16(Vec<i16>),
    U16(Vec<u16>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

/// Does the same with the values, of whatever kind.
macro_rules! each {
    ($values:expr, $vec:ident => $do:expr) => {
        match $values {
            Values::Bool($vec) | Values::U8($vec) => $do,
            Values::I8($vec) => $do,
            Values::I16($vec) => $do,
            Values::U16($vec) => $do,
            Values::I32($vec) => $do,
            Values::U32($vec) => $do,
            Values::I64($vec) => $do,
            Values::U64($vec) => $do,
            Values::F32($vec) => $do,
            Values::F64($vec) => $do,
        }
    };
}

/// A value in words.
struct Shown<'v>(&'v Values, usize);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(values, at) = *self;
        match values {
            Values::Bool(values) => write!(f, "{}", values[at] != 0),
            Values::I8(values) => write!(f, "{}", values[at]),
            Values::U8(values) => write!(f, "{}", values[at]),
            Values::I16(values) => write!(f, "{}", values[at]),
            Values::U16(values) => write!(f, "{}", values[at]),
            Values::I32(values) => write!(f, "{}", values[at]),
            Values::U32(values) => write!(f, "{}", values[at]),
            Values::I64(values) => write!(f, "{}", values[at]),
            Values::U64(values) => write!(f, "{}", values[at]),
            Values::F32(values) => write!(f, "{:?}", values[at]),
            Values::F64(values) => write!(f, "{:?}", values[at]),
        }
    }
}

impl Values {
    /// A value in words: floats in as few digits as tell them from all others, `NaN`, `inf`, `true` or `false`.
    ///
    /// # Panics
    /// When it is shown, if there is none there.
    pub fn shown(&self, at: usize) -> impl fmt::Display {
        Shown(self, at)
    }

    /// A value if it is a float.
    ///
    /// # Panics
    /// If there is none there.
    #[must_use]
    pub fn float(&self, at: usize) -> Option<f64> {
        match self {
            Self::F32(values) => Some(values[at].into()),
            Self::F64(values) => Some(values[at]),
            _ => None,
        }
    }

    /// No values; offsets are numbers, and a switch is none of these.
    pub(crate) fn empty(kind: InMemory) -> Self {
        match kind {
            InMemory::Bool => Self::Bool(Vec::new()),
            InMemory::I8 => Self::I8(Vec::new()),
            InMemory::U8 | InMemory::Switch => Self::U8(Vec::new()),
            InMemory::I16 => Self::I16(Vec::new()),
            InMemory::U16 => Self::U16(Vec::new()),
            InMemory::I32 => Self::I32(Vec::new()),
            InMemory::U32 => Self::U32(Vec::new()),
            InMemory::I64 | InMemory::Offset => Self::I64(Vec::new()),
            InMemory::U64 => Self::U64(Vec::new()),
            InMemory::F32 => Self::F32(Vec::new()),
            InMemory::F64 => Self::F64(Vec::new()),
        }
    }

    /// The values of that kind whose bytes in memory these are; none if they have a part of one at their end, or are of no such kind.
    ///
    /// # Errors
    /// [`TooBig`](crate::Error::TooBig) if there is no memory for them.
    pub fn of_bytes(kind: InMemory, bytes: &[u8]) -> Result<Option<Self>> {
        let mut values = Self::empty(kind);
        if !bytes.len().is_multiple_of(kind.bytes()) || values.kind() != kind {
            return Ok(None);
        }
        values.grow(bytes.len() / kind.bytes())?.copy_from_slice(bytes);
        if let Self::Bool(switches) = &mut values {
            switches.iter_mut().for_each(|switch| *switch = u8::from(*switch != 0));
        }
        Ok(Some(values))
    }

    /// What they are.
    #[must_use]
    pub fn kind(&self) -> InMemory {
        match self {
            Self::Bool(_) => InMemory::Bool,
            Self::I8(_) => InMemory::I8,
            Self::U8(_) => InMemory::U8,
            Self::I16(_) => InMemory::I16,
            Self::U16(_) => InMemory::U16,
            Self::I32(_) => InMemory::I32,
            Self::U32(_) => InMemory::U32,
            Self::I64(_) => InMemory::I64,
            Self::U64(_) => InMemory::U64,
            Self::F32(_) => InMemory::F32,
            Self::F64(_) => InMemory::F64,
        }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        each!(self, vec => vec.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of all.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        each!(self, vec => vec.as_bytes())
    }

    /// The same, to be changed; those of a switch have to stay 0 or 1.
    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        each!(self, vec => vec.as_mut_bytes())
    }

    /// Appends `count` values, whatever they are, for their bytes to be filled.
    pub(crate) fn grow(&mut self, count: usize) -> Result<&mut [u8]> {
        each!(self, vec => grow(vec, count))
    }

    /// Leaves out all behind the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        each!(self, vec => vec.truncate(len));
    }

    /// Gives its memory to what is read next, if it is large: fresh memory takes longer to get than to fill.
    pub fn spare(self) {
        each!(self, vec => room::spare(vec));
    }
}

/// What a row of lists is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lists {
    /// Collections.
    Items,
    /// Texts; the contents are their bytes.
    Text,
    /// Bytes that a streamer of ROOT made.
    Streamed,
}

/// A field of all entries that were asked for.
#[derive(Clone, PartialEq, Debug)]
pub enum Array {
    /// One value each.
    Values(Values),
    /// Any number of values each.
    Lists {
        /// What they are.
        of: Lists,
        /// Where each begins in the contents, and at last where the last ends: one more than there are lists.
        offsets: Vec<i64>,
        /// Contents of all.
        content: Box<Array>,
    },
    /// The same number of values each.
    Repeated {
        /// How many values each has.
        count: u64,
        /// How many there are.
        len: u64,
        /// Values of all.
        content: Box<Array>,
    },
    /// Several fields each.
    Record {
        /// How many there are.
        len: u64,
        /// Names and fields.
        fields: Vec<(Box<str>, Array)>,
    },
    /// One of several fields each.
    Variant {
        /// Which: the place in `contents`, or -1 of none.
        tags: Vec<i8>,
        /// Where in that; 0 of none.
        index: Vec<i64>,
        /// The fields.
        contents: Vec<Array>,
    },
}

impl Array {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Values(values) => values.len() as u64,
            Self::Lists { offsets, .. } => (offsets.len() as u64).saturating_sub(1),
            Self::Repeated { len, .. } | Self::Record { len, .. } => *len,
            Self::Variant { tags, .. } => tags.len() as u64,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`Values::spare`], of all that it has.
    pub fn spare(self) {
        match self {
            Self::Values(values) => values.spare(),
            Self::Lists { offsets, content, .. } => {
                Values::I64(offsets).spare();
                content.spare();
            }
            Self::Repeated { content, .. } => content.spare(),
            Self::Record { fields, .. } => fields.into_iter().for_each(|(_, field)| field.spare()),
            Self::Variant { tags, index, contents } => {
                Values::I8(tags).spare();
                Values::I64(index).spare();
                contents.into_iter().for_each(Self::spare);
            }
        }
    }

    /// Bytes of all values and offsets, as they are in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Values(values) => values.as_bytes().len() as u64,
            Self::Lists { offsets, content, .. } => offsets.len() as u64 * 8 + content.bytes(),
            Self::Repeated { content, .. } => content.bytes(),
            Self::Record { fields, .. } => fields.iter().map(|(_, field)| field.bytes()).sum(),
            Self::Variant { tags, contents, .. } => {
                tags.len() as u64 * 12 + contents.iter().map(Self::bytes).sum::<u64>()
            }
        }
    }
}
