//! Fields that were read: a tree of arrays.

use crate::error::Result;
use crate::format::column::InMemory;
use zerocopy::{FromBytes, IntoBytes};

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

impl Values {
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

    /// Appends `count` zeros, for their bytes to be filled.
    pub(crate) fn grow(&mut self, count: usize) -> Result<&mut [u8]> {
        each!(self, vec => grow(vec, count))
    }
}

/// Values of fewer bytes are in memory that others have used, most likely.
const LARGE_BYTES: usize = 4 << 20;

/// Of so many bytes it is asked first whether the system has them: those of fewer it has, or the program is at its end anyhow.
const DOUBTED_BYTES: usize = 1 << 30;

/// Appends `count` zeros; their bytes.
pub(crate) fn grow<T: FromBytes + IntoBytes + Clone>(vec: &mut Vec<T>, count: usize) -> Result<&mut [u8]> {
    let (start, bytes) = (vec.len(), count.saturating_mul(size_of::<T>()));
    let is_there = match start {
        0 if bytes < DOUBTED_BYTES => Ok(()),
        0 => vec.try_reserve_exact(count),
        _ => vec.try_reserve(count),
    };
    if is_there.is_err() {
        let structure = crate::error::Structure::Field { field: 0 };
        let (offset, bytes, bytes_max) = (start as u64, bytes as u64, u64::from(u32::MAX));
        return Err(crate::Error::TooBig { structure, offset, bytes, bytes_max });
    }
    if start == 0 && bytes >= LARGE_BYTES {
        // New memory is zero by itself, and its pages come when they are filled: in large ones, if the system has them.
        drop(core::mem::take(vec));
        *vec = vec![T::new_zeroed(); count];
        dolmen_env::prefer_huge_pages(vec.as_mut_bytes());
    } else {
        vec.resize(start + count, T::new_zeroed());
    }
    Ok(vec[start..].as_mut_bytes())
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
