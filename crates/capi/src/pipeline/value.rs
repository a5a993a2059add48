//! Values of expressions: what bytes mean by their type, and what is computed of them.

use super::like::is_like;
use crate::error::{Der, Result};
use core::cmp::Ordering;

/// What bytes are taken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    /// All bytes.
    Binary,
    /// Eight bytes of length before them.
    Counted,
    /// Up to a zero.
    Terminated,
    Unsigned(usize),
    Signed(usize),
    Real(usize),
}

/// What an expression is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sort {
    Truth,
    Number,
    Text,
}

//= daos:src/include/daos_pipeline.h DAOS_FILTER_TYPE_*
const TYPES: [(&[u8], Type); 13] = [
    (b"DAOS_FILTER_TYPE_BINARY", Type::Binary),
    (b"DAOS_FILTER_TYPE_STRING", Type::Counted),
    (b"DAOS_FILTER_TYPE_CSTRING", Type::Terminated),
    (b"DAOS_FILTER_TYPE_UINTEGER1", Type::Unsigned(1)),
    (b"DAOS_FILTER_TYPE_UINTEGER2", Type::Unsigned(2)),
    (b"DAOS_FILTER_TYPE_UINTEGER4", Type::Unsigned(4)),
    (b"DAOS_FILTER_TYPE_UINTEGER8", Type::Unsigned(8)),
    (b"DAOS_FILTER_TYPE_INTEGER1", Type::Signed(1)),
    (b"DAOS_FILTER_TYPE_INTEGER2", Type::Signed(2)),
    (b"DAOS_FILTER_TYPE_INTEGER4", Type::Signed(4)),
    (b"DAOS_FILTER_TYPE_INTEGER8", Type::Signed(8)),
    (b"DAOS_FILTER_TYPE_REAL4", Type::Real(4)),
    (b"DAOS_FILTER_TYPE_REAL8", Type::Real(8)),
];

impl Type {
    /// # Errors
    /// `INVAL` for a name of none.
    pub(super) fn named(name: &[u8]) -> Result<Self> {
        TYPES.iter().find(|row| row.0 == name).map(|row| row.1).ok_or(Der::INVAL)
    }

    pub(super) fn sort(self) -> Sort {
        if self.number_bytes().is_some() { Sort::Number } else { Sort::Text }
    }

    /// Bytes of a number; a text has any.
    pub(super) fn number_bytes(self) -> Option<usize> {
        match self {
            Self::Unsigned(bytes) | Self::Signed(bytes) | Self::Real(bytes) => Some(bytes),
            Self::Binary | Self::Counted | Self::Terminated => None,
        }
    }
}

/// A value of an expression.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Value<'a> {
    /// There is none.
    Null,
    Truth(bool),
    /// Wide enough for every sum and product of two stored integers.
    Integer(i128),
    Real(f64),
    Text(&'a [u8]),
}

impl<'a> Value<'a> {
    /// What bytes mean; none if they are too few.
    pub(super) fn read(kind: Type, bytes: &'a [u8]) -> Self {
        match kind {
            Type::Binary => Self::Text(bytes),
            Type::Counted => counted(bytes).map_or(Self::Null, Self::Text),
            Type::Terminated => {
                let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                Self::Text(&bytes[..len])
            }
            Type::Unsigned(len) => bytes.get(..len).map_or(Self::Null, |own| Self::Integer(integer(own, 0))),
            Type::Signed(len) => bytes.get(..len).map_or(Self::Null, |own| {
                let is_negative = own.last().is_some_and(|&byte| byte >= 0x80);
                Self::Integer(integer(own, if is_negative { 0xff } else { 0 }))
            }),
            Type::Real(4) => {
                bytes.first_chunk().map_or(Self::Null, |own| Self::Real(f64::from(f32::from_le_bytes(*own))))
            }
            Type::Real(_) => {
                bytes.first_chunk().map_or(Self::Null, |own| Self::Real(f64::from_le_bytes(*own)))
            }
        }
    }

    pub(super) fn is_true(self) -> bool {
        self == Self::Truth(true)
    }

    /// As a number that is reported; `None` if there is none.
    #[expect(clippy::cast_precision_loss, reason = "results are reported as doubles, whatever they were")]
    pub(super) fn number(self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(number as f64),
            Self::Real(number) => Some(number),
            Self::Null | Self::Truth(_) | Self::Text(_) => None,
        }
    }
}

/// The bytes behind their length.
fn counted(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.get(..usize::try_from(u64::from_le_bytes(*len)).ok()?)
}

/// The number of up to eight bytes, the lowest first, with this byte above them.
fn integer(bytes: &[u8], above: u8) -> i128 {
    let mut wide = [above; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

/// What an operator computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    GreaterOrEqual,
    Greater,
    In,
    Like,
    IsNull,
    IsNotNull,
    Not,
    And,
    Or,
    Add,
    Subtract,
    Multiply,
    Divide,
    BitAnd,
}

impl Operator {
    /// What it gives for operands of these sorts.
    ///
    /// # Errors
    /// `INVAL` for operands that it does not take.
    pub(super) fn sort(self, operands: &[Sort]) -> Result<Sort> {
        let all = |sort: Sort| operands.iter().all(|&own| own == sort);
        let (fits, gives) = match self {
            Self::Equal
            | Self::Unequal
            | Self::Less
            | Self::LessOrEqual
            | Self::GreaterOrEqual
            | Self::Greater
            | Self::In => (all(Sort::Number) || all(Sort::Text), Sort::Truth),
            Self::Like => (all(Sort::Text), Sort::Truth),
            Self::IsNull | Self::IsNotNull => (!operands.contains(&Sort::Truth), Sort::Truth),
            Self::Not | Self::And | Self::Or => (all(Sort::Truth), Sort::Truth),
            Self::Add | Self::Subtract | Self::Multiply | Self::Divide | Self::BitAnd => {
                (all(Sort::Number), Sort::Number)
            }
        };
        if fits { Ok(gives) } else { Err(Der::INVAL) }
    }

    /// What it computes. A comparison with nothing is false, and a number computed of nothing is nothing.
    ///
    /// REQUIRES: as many operands as it takes, of sorts that it takes.
    ///
    /// # Errors
    /// `DIV_BY_ZERO`; `OVERFLOW` for an integer beyond 128 bits; `INVAL` for the bits of what is no integer.
    pub(super) fn apply<'a>(self, operands: &[Value<'a>]) -> Result<Value<'a>> {
        let first = operands.first().copied().unwrap_or(Value::Null);
        let second = operands.get(1).copied().unwrap_or(Value::Null);
        let is = |wanted: fn(Ordering) -> bool| compare(first, second).is_some_and(wanted);
        let truth = match self {
            Self::Equal => is(Ordering::is_eq),
            Self::Unequal => is(Ordering::is_ne),
            Self::Less => is(Ordering::is_lt),
            Self::LessOrEqual => is(Ordering::is_le),
            Self::GreaterOrEqual => is(Ordering::is_ge),
            Self::Greater => is(Ordering::is_gt),
            Self::In => operands[1..].iter().any(|&one| compare(first, one).is_some_and(Ordering::is_eq)),
            Self::Like => match (first, second) {
                (Value::Text(text), Value::Text(pattern)) => is_like(pattern, text),
                _ => false,
            },
            Self::IsNull => first == Value::Null,
            Self::IsNotNull => first != Value::Null,
            Self::Not => !first.is_true(),
            Self::And => operands.iter().all(|one| one.is_true()),
            Self::Or => operands.iter().any(|one| one.is_true()),
            Self::Add | Self::Subtract | Self::Multiply | Self::Divide | Self::BitAnd => {
                return self.calculate(first, second);
            }
        };
        Ok(Value::Truth(truth))
    }

    fn calculate<'a>(self, first: Value<'a>, second: Value<'a>) -> Result<Value<'a>> {
        if let (Value::Integer(a), Value::Integer(b)) = (first, second) {
            let exact = match self {
                Self::Add => a.checked_add(b),
                Self::Subtract => a.checked_sub(b),
                Self::Multiply => a.checked_mul(b),
                Self::Divide if b == 0 => return Err(Der::DIV_BY_ZERO),
                Self::Divide => a.checked_div(b),
                _ => Some(a & b),
            };
            return exact.map(Value::Integer).ok_or(Der::OVERFLOW);
        }
        let (Some(a), Some(b)) = (first.number(), second.number()) else { return Ok(Value::Null) };
        match self {
            Self::Add => Ok(Value::Real(a + b)),
            Self::Subtract => Ok(Value::Real(a - b)),
            Self::Multiply => Ok(Value::Real(a * b)),
            Self::Divide if b == 0.0 => Err(Der::DIV_BY_ZERO),
            Self::Divide => Ok(Value::Real(a / b)),
            _ => Err(Der::INVAL),
        }
    }
}

/// The order of two values; `None` for what cannot be compared.
fn compare(a: Value<'_>, b: Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => Some(a.cmp(&b)),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (a, b) => a.number()?.partial_cmp(&b.number()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_by_their_type() {
        let cases = [
            (Type::Unsigned(1), &[255_u8][..], Value::Integer(255)),
            (Type::Signed(1), &[255], Value::Integer(-1)),
            (Type::Signed(2), &[0xfe, 0xff, 9], Value::Integer(-2)),
            (Type::Unsigned(4), &[1, 0, 0], Value::Null),
            (Type::Unsigned(8), &[255; 8], Value::Integer(i128::from(u64::MAX))),
            (Type::Signed(8), &[0, 0, 0, 0, 0, 0, 0, 128], Value::Integer(i128::from(i64::MIN))),
            (Type::Real(4), &[0, 0, 0x80, 0x3f], Value::Real(1.0)),
            (Type::Real(8), &[0; 7], Value::Null),
            (Type::Binary, b"a\0b", Value::Text(b"a\0b")),
            (Type::Terminated, b"a\0b", Value::Text(b"a")),
            (Type::Terminated, b"ab", Value::Text(b"ab")),
            (Type::Counted, b"\x01\0\0\0\0\0\0\0ab", Value::Text(b"a")),
            (Type::Counted, b"\x03\0\0\0\0\0\0\0ab", Value::Null),
            (Type::Counted, b"\xff\xff\xff\xff\xff\xff\xff\xff", Value::Null),
        ];
        for (kind, bytes, value) in cases {
            assert_eq!(Value::read(kind, bytes), value, "{kind:?} {bytes:?}");
        }
    }

    #[test]
    fn nothing_is_neither_equal_nor_unequal() {
        let pair = [Value::Null, Value::Integer(1)];
        for operator in [Operator::Equal, Operator::Unequal, Operator::Less, Operator::GreaterOrEqual] {
            assert_eq!(operator.apply(&pair), Ok(Value::Truth(false)));
        }
        assert_eq!(Operator::Add.apply(&pair), Ok(Value::Null));
        assert_eq!(Operator::IsNull.apply(&pair[..1]), Ok(Value::Truth(true)));
    }

    #[test]
    fn numbers_are_exact_while_they_are_whole() {
        let wide = Value::Integer(i128::from(u64::MAX));
        assert_eq!(Operator::Greater.apply(&[wide, Value::Integer(-1)]), Ok(Value::Truth(true)));
        assert_eq!(
            Operator::Multiply.apply(&[wide, Value::Integer(2)]),
            Ok(Value::Integer(2 * i128::from(u64::MAX)))
        );
        assert_eq!(
            Operator::Multiply.apply(&[Value::Integer(i128::MAX), Value::Integer(2)]),
            Err(Der::OVERFLOW)
        );
        assert_eq!(Operator::Divide.apply(&[Value::Integer(-7), Value::Integer(2)]), Ok(Value::Integer(-3)));
        assert_eq!(Operator::Divide.apply(&[Value::Real(1.0), Value::Real(4.0)]), Ok(Value::Real(0.25)));
        assert_eq!(Operator::Divide.apply(&[wide, Value::Integer(0)]), Err(Der::DIV_BY_ZERO));
        assert_eq!(Operator::Divide.apply(&[Value::Real(1.0), Value::Integer(0)]), Err(Der::DIV_BY_ZERO));
        assert_eq!(Operator::BitAnd.apply(&[Value::Integer(6), Value::Integer(3)]), Ok(Value::Integer(2)));
        assert_eq!(Operator::BitAnd.apply(&[Value::Real(6.0), Value::Integer(3)]), Err(Der::INVAL));
        assert_eq!(Operator::Less.apply(&[Value::Integer(1), Value::Real(1.5)]), Ok(Value::Truth(true)));
    }
}
