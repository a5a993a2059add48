//! Columns: what a value is in a page, and in memory.

use super::{Builder, Cursor};
use crate::error::{Fault, Result};

/// Kinds of columns, by the number that a file has. Persistent: never renumber.
///
/// //= root:tree/ntuple/doc/BinaryFormatSpecification.md Column Description
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names of the format say it")]
pub enum ColumnKind {
    Bit,
    Byte,
    Char,
    Int8,
    UInt8,
    Int16,
    UInt16,
    Int32,
    UInt32,
    Int64,
    UInt64,
    Real16,
    Real32,
    Real64,
    Index32,
    Index64,
    Switch,
    SplitInt16,
    SplitUInt16,
    SplitInt32,
    SplitUInt32,
    SplitInt64,
    SplitUInt64,
    SplitReal16,
    SplitReal32,
    SplitReal64,
    SplitIndex32,
    SplitIndex64,
    Real32Trunc,
    Real32Quant,
    /// One of a later version of the format.
    Unknown(u16),
}

/// What values of a column are in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InMemory {
    /// A byte of 0 or 1.
    Bool,
    /// A signed byte.
    I8,
    /// A byte.
    U8,
    /// 16 bits with sign.
    I16,
    /// 16 bits.
    U16,
    /// 32 bits with sign.
    I32,
    /// 32 bits.
    U32,
    /// 64 bits with sign.
    I64,
    /// 64 bits.
    U64,
    /// A float of 32 bits.
    F32,
    /// A float of 64 bits.
    F64,
    /// Where collections end in their cluster, as 64 bits with sign.
    Offset,
    /// An index of 64 bits and a tag of 32, in 12 bytes, as they are stored.
    Switch,
}

impl InMemory {
    /// Bytes of one value.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::Offset => 8,
            Self::Switch => 12,
        }
    }
}

/// Each kind but `Unknown`, at the place of its number.
const KINDS: [ColumnKind; 30] = {
    use ColumnKind as K;
    [
        K::Bit,
        K::Byte,
        K::Char,
        K::Int8,
        K::UInt8,
        K::Int16,
        K::UInt16,
        K::Int32,
        K::UInt32,
        K::Int64,
        K::UInt64,
        K::Real16,
        K::Real32,
        K::Real64,
        K::Index32,
        K::Index64,
        K::Switch,
        K::SplitInt16,
        K::SplitUInt16,
        K::SplitInt32,
        K::SplitUInt32,
        K::SplitInt64,
        K::SplitUInt64,
        K::SplitReal16,
        K::SplitReal32,
        K::SplitReal64,
        K::SplitIndex32,
        K::SplitIndex64,
        K::Real32Trunc,
        K::Real32Quant,
    ]
};

impl ColumnKind {
    /// The kind of a number.
    #[must_use]
    pub fn of(number: u16) -> Self {
        KINDS.get(usize::from(number)).copied().unwrap_or(Self::Unknown(number))
    }

    /// Its number.
    ///
    /// # Panics
    /// Never: each kind has a number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Unknown(number) => number,
            known => {
                let at = KINDS.iter().position(|&kind| kind == known);
                at.and_then(|at| u16::try_from(at).ok()).expect("each kind is in the table")
            }
        }
    }

    /// The bits that a value may have in a page, least and most; none of an unknown kind.
    #[must_use]
    pub fn bits(self) -> Option<(u16, u16)> {
        use ColumnKind as K;
        let fixed = match self {
            K::Bit => 1,
            K::Byte | K::Char | K::Int8 | K::UInt8 => 8,
            K::Int16 | K::UInt16 | K::SplitInt16 | K::SplitUInt16 | K::Real16 | K::SplitReal16 => 16,
            K::Int32 | K::UInt32 | K::SplitInt32 | K::SplitUInt32 | K::Real32 | K::SplitReal32 => 32,
            K::Index32 | K::SplitIndex32 => 32,
            K::Int64 | K::UInt64 | K::SplitInt64 | K::SplitUInt64 | K::Real64 | K::SplitReal64 => 64,
            K::Index64 | K::SplitIndex64 => 64,
            K::Switch => 96,
            K::Real32Trunc => return Some((10, 31)),
            K::Real32Quant => return Some((1, 32)),
            K::Unknown(_) => return None,
        };
        Some((fixed, fixed))
    }

    /// What its values are in memory; none of an unknown kind.
    #[must_use]
    pub fn in_memory(self) -> Option<InMemory> {
        use ColumnKind as K;
        Some(match self {
            K::Bit => InMemory::Bool,
            K::Byte | K::Char | K::UInt8 => InMemory::U8,
            K::Int8 => InMemory::I8,
            K::Int16 | K::SplitInt16 => InMemory::I16,
            K::UInt16 | K::SplitUInt16 => InMemory::U16,
            K::Int32 | K::SplitInt32 => InMemory::I32,
            K::UInt32 | K::SplitUInt32 => InMemory::U32,
            K::Int64 | K::SplitInt64 => InMemory::I64,
            K::UInt64 | K::SplitUInt64 => InMemory::U64,
            K::Real16 | K::SplitReal16 | K::Real32 | K::SplitReal32 | K::Real32Trunc | K::Real32Quant => {
                InMemory::F32
            }
            K::Real64 | K::SplitReal64 => InMemory::F64,
            K::Index32 | K::SplitIndex32 | K::Index64 | K::SplitIndex64 => InMemory::Offset,
            K::Switch => InMemory::Switch,
            K::Unknown(_) => return None,
        })
    }
}

/// The column starts with an element other than the first.
const DEFERRED: u16 = 0x01;

/// The column has a range of values.
const RANGED: u16 = 0x02;

/// Bytes of the shortest record of a column.
pub(super) const COLUMN_BYTES_MIN: usize = 8 + 12;

/// One column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Column {
    /// What its values are.
    pub kind: ColumnKind,
    /// Bits of a value in a page.
    pub bits: u16,
    /// The field that it belongs to.
    pub field: u32,
    /// Which of the field's representations it belongs to.
    pub representation: u16,
    /// Elements before this one are zero and in no page; negative if besides the column is suppressed in their clusters.
    pub first_element: i64,
    /// Least and largest value, of a column that is quantised between them.
    pub range: Option<(f64, f64)>,
}

impl Column {
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let mut record = cursor.record()?;
        let start = record;
        let (kind, bits) = (ColumnKind::of(record.u16()?), record.u16()?);
        let (field, flags, representation) = (record.u32()?, record.u16()?, record.u16()?);
        let first_element = if flags & DEFERRED != 0 { record.i64()? } else { 0 };
        let range = if flags & RANGED != 0 { Some((record.f64()?, record.f64()?)) } else { None };
        if kind.bits().is_some_and(|(least, most)| bits < least || bits > most) || bits == 0 {
            return Err(start.corrupt(Fault::Value));
        }
        if kind == ColumnKind::Real32Quant
            && !range.is_some_and(|(low, high)| low < high && (high - low).is_finite())
        {
            return Err(start.corrupt(Fault::Value));
        }
        Ok(Self { kind, bits, field, representation, first_element, range })
    }

    pub(crate) fn write(&self, builder: &mut Builder) {
        builder.record(|record| {
            record.u16(self.kind.number());
            record.u16(self.bits);
            record.u32(self.field);
            let deferred = if self.first_element == 0 { 0 } else { DEFERRED };
            record.u16(deferred | if self.range.is_some() { RANGED } else { 0 });
            record.u16(self.representation);
            if self.first_element != 0 {
                record.i64(self.first_element);
            }
            if let Some((low, high)) = self.range {
                record.f64(low);
                record.f64(high);
            }
        });
    }

    /// Bytes of a page of `count` elements when it is decompressed; none if that is beyond 64 bits.
    #[must_use]
    pub fn page_bytes(&self, count: u64) -> Option<u64> {
        count.checked_mul(u64::from(self.bits)).map(|bits| bits.div_ceil(8))
    }
}
