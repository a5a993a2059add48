//! A pipeline of a C program, checked and made our own: expressions to be evaluated for each dkey.
//!
//! An expression is kept with its last operand first: whoever goes through it keeps the values on a stack, and finds on top
//! of it the operands of an operator, the first one uppermost.
//!
//! Invariants: every operator finds its operands, of sorts that it takes; a condition is a truth, an aggregation of a
//! number.

use super::value::{Operator, Sort, Type, Value};
use super::{Filter, Part, Pipeline, VERSION, word};
use crate::error::{Der, Result};
use crate::raw::Out;
use crate::types::Iov;

const CONDITION: &[u8] = b"DAOS_FILTER_CONDITION";
const AGGREGATION: &[u8] = b"DAOS_FILTER_AGGREGATION";
/// Expressions have a few dozen nodes.
pub(super) const PARTS_MAX: u32 = 4096;
/// Constants of one node, of which only lists to look in have many.
const CONSTANTS_MAX: usize = 1 << 16;
/// A constant is compared with values of a few bytes.
const CONSTANT_BYTES_MAX: usize = 1 << 20;
/// Steps, constants and names of a whole program: of constants as long as they may be a list of some dozens, and far more
/// than a program of people has. A caller may name the same memory again and again, so what it has is no limit.
const PROGRAM_BYTES_MAX: usize = 64 << 20;

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Oid,
    Dkey,
    /// One akey of the dkey; without a name, the one that is looked at.
    Akey(Option<Vec<u8>>),
}

/// What is read for each dkey.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Field {
    pub(super) source: Source,
    pub(super) kind: Type,
    /// In bytes; of an array, in records.
    pub(super) offset: u64,
    /// As above; 0 for all that is there.
    pub(super) len: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Field(usize),
    Constant(Type, Vec<u8>),
    Call(Operator, usize),
}

/// An expression.
#[derive(Debug)]
struct Expression(Vec<Step>);

/// What is computed of all values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fold {
    Sum,
    Min,
    Max,
    Average,
    Count,
}

/// A pipeline that can be run.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) fields: Vec<Field>,
    conditions: Vec<Expression>,
    folds: Vec<(Fold, Expression)>,
    /// Of steps, constants and names, at most [`PROGRAM_BYTES_MAX`].
    bytes: usize,
}

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    Oid,
    Dkey,
    Akey,
    Constant,
    Call(Operator),
    Fold(Fold),
}

const ANY: u32 = u32::MAX;

/// Nodes with the least and the most operands that they take.
//= daos:src/include/daos_pipeline.h DAOS_FILTER_*
const NODES: [(&[u8], Node, u32, u32); 27] = [
    (b"DAOS_FILTER_OID", Node::Oid, 0, ANY),
    (b"DAOS_FILTER_DKEY", Node::Dkey, 0, ANY),
    (b"DAOS_FILTER_AKEY", Node::Akey, 0, ANY),
    (b"DAOS_FILTER_CONST", Node::Constant, 0, ANY),
    (b"DAOS_FILTER_FUNC_EQ", Node::Call(Operator::Equal), 2, 2),
    (b"DAOS_FILTER_FUNC_NE", Node::Call(Operator::Unequal), 2, 2),
    (b"DAOS_FILTER_FUNC_LT", Node::Call(Operator::Less), 2, 2),
    (b"DAOS_FILTER_FUNC_LE", Node::Call(Operator::LessOrEqual), 2, 2),
    (b"DAOS_FILTER_FUNC_GE", Node::Call(Operator::GreaterOrEqual), 2, 2),
    (b"DAOS_FILTER_FUNC_GT", Node::Call(Operator::Greater), 2, 2),
    (b"DAOS_FILTER_FUNC_IN", Node::Call(Operator::In), 2, ANY),
    (b"DAOS_FILTER_FUNC_LIKE", Node::Call(Operator::Like), 2, 2),
    (b"DAOS_FILTER_FUNC_ISNULL", Node::Call(Operator::IsNull), 1, 1),
    (b"DAOS_FILTER_FUNC_ISNOTNULL", Node::Call(Operator::IsNotNull), 1, 1),
    (b"DAOS_FILTER_FUNC_NOT", Node::Call(Operator::Not), 1, 1),
    (b"DAOS_FILTER_FUNC_AND", Node::Call(Operator::And), 2, ANY),
    (b"DAOS_FILTER_FUNC_OR", Node::Call(Operator::Or), 2, ANY),
    (b"DAOS_FILTER_FUNC_ADD", Node::Call(Operator::Add), 2, 2),
    (b"DAOS_FILTER_FUNC_SUB", Node::Call(Operator::Subtract), 2, 2),
    (b"DAOS_FILTER_FUNC_MUL", Node::Call(Operator::Multiply), 2, 2),
    (b"DAOS_FILTER_FUNC_DIV", Node::Call(Operator::Divide), 2, 2),
    (b"DAOS_FILTER_FUNC_BITAND", Node::Call(Operator::BitAnd), 2, 2),
    (b"DAOS_FILTER_FUNC_SUM", Node::Fold(Fold::Sum), 1, 1),
    (b"DAOS_FILTER_FUNC_MIN", Node::Fold(Fold::Min), 1, 1),
    (b"DAOS_FILTER_FUNC_MAX", Node::Fold(Fold::Max), 1, 1),
    (b"DAOS_FILTER_FUNC_AVG", Node::Fold(Fold::Average), 1, 1),
    (b"DAOS_FILTER_FUNC_COUNT", Node::Fold(Fold::Count), 1, 1),
];

/// Whether a filter is a condition, or else an aggregation.
///
/// # Errors
/// `INVAL` for a type that is neither.
pub(super) fn is_condition(filter: &Filter) -> Result<bool> {
    match word(filter.filter_type)? {
        CONDITION => Ok(true),
        AGGREGATION => Ok(false),
        _ => Err(Der::INVAL),
    }
}

/// Whether a node has operands.
///
/// # Errors
/// `NOSYS` for a node of a name that does not exist; `INVAL` for a number of operands that it does not take.
fn node_of(part: &Part) -> Result<Node> {
    let name = word(part.part_type)?;
    let (_, node, least, most) = NODES.iter().find(|row| row.0 == name).ok_or(Der::NOSYS)?;
    if (*least..=*most).contains(&part.num_operands) { Ok(*node) } else { Err(Der::INVAL) }
}

impl Program {
    /// Checks a pipeline and copies it.
    ///
    /// # Errors
    /// `NOSYS` for a node that does not exist; `OVERFLOW` for one with too long constants in all; `NOMEM`; `INVAL` for
    /// everything else that is no pipeline.
    pub(super) fn of(pipeline: Out<Pipeline>) -> Result<Self> {
        let own = pipeline.get()?;
        if own.version != VERSION || own.num_filters > PARTS_MAX || own.num_aggr_filters > PARTS_MAX {
            return Err(Der::INVAL);
        }
        let mut program = Self::default();
        for filter in own.filters.list(own.num_filters as usize)? {
            let parts = parts_of(*filter, true)?;
            let (expression, sort) = program.expression(&parts)?;
            if sort != Sort::Truth {
                return Err(Der::INVAL);
            }
            program.conditions.push(expression);
        }
        for filter in own.aggr_filters.list(own.num_aggr_filters as usize)? {
            let parts = parts_of(*filter, false)?;
            let Some(((_, Node::Fold(fold)), operand)) = parts.split_first() else { return Err(Der::INVAL) };
            let (expression, sort) = program.expression(operand)?;
            if sort == Sort::Truth || (sort == Sort::Text && *fold != Fold::Count) {
                return Err(Der::INVAL);
            }
            program.folds.push((*fold, expression));
        }
        Ok(program)
    }

    /// Goes through the nodes from the last to the first: each operator finds its operands behind it.
    fn expression(&mut self, parts: &[(Part, Node)]) -> Result<(Expression, Sort)> {
        let mut steps = Vec::with_capacity(parts.len());
        // Each value with how many constants it is: only a list to look in may be more than one.
        let mut stack: Vec<(Sort, usize)> = Vec::new();
        for (part, node) in parts.iter().rev() {
            match node {
                Node::Fold(_) => return Err(Der::INVAL),
                Node::Constant => {
                    let (kind, constants) = self.constants(part)?;
                    steps.try_reserve(constants.len()).map_err(|_full| Der::NOMEM)?;
                    stack.push((kind.sort(), constants.len()));
                    steps.extend(constants.into_iter().rev().map(|bytes| Step::Constant(kind, bytes)));
                }
                Node::Oid | Node::Dkey | Node::Akey => {
                    let field = self.field(part, *node)?;
                    stack.push((field.kind.sort(), 1));
                    steps.push(Step::Field(self.index_of(field)));
                }
                Node::Call(operator) => {
                    self.account(0)?;
                    let left = stack.len().checked_sub(part.num_operands as usize).ok_or(Der::INVAL)?;
                    let operands = stack.split_off(left);
                    let count = operands.iter().map(|operand| operand.1).sum();
                    let is_list = operands.last().is_some_and(|first| first.1 > 1);
                    if is_list || (count > operands.len() && *operator != Operator::In) {
                        return Err(Der::INVAL);
                    }
                    let sorts: Vec<Sort> = operands.iter().map(|operand| operand.0).collect();
                    stack.push((operator.sort(&sorts)?, 1));
                    steps.push(Step::Call(*operator, count));
                }
            }
        }
        match stack[..] {
            [(sort, 1)] => Ok((Expression(steps), sort)),
            _ => Err(Der::INVAL),
        }
    }

    /// Notes one more step, with so many bytes of its own.
    fn account(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(size_of::<Step>()).saturating_add(bytes);
        if self.bytes > PROGRAM_BYTES_MAX { Err(Der::OVERFLOW) } else { Ok(()) }
    }

    /// A copy that the program keeps with one more step.
    fn copied(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        self.account(bytes.len())?;
        let mut own = Vec::new();
        own.try_reserve_exact(bytes.len()).map_err(|_full| Der::NOMEM)?;
        own.extend_from_slice(bytes);
        Ok(own)
    }

    /// The constants of a node, each of its type.
    fn constants(&mut self, part: &Part) -> Result<(Type, Vec<Vec<u8>>)> {
        let kind = Type::named(word(part.data_type)?)?;
        if !(1..=CONSTANTS_MAX).contains(&part.num_constants) {
            return Err(Der::INVAL);
        }
        let own = |iov: &Iov| {
            let bytes = iov.bytes()?;
            let fits =
                bytes.len() <= CONSTANT_BYTES_MAX && kind.number_bytes().is_none_or(|len| bytes.len() == len);
            if !fits || Value::read(kind, bytes) == Value::Null {
                return Err(Der::INVAL);
            }
            self.copied(bytes)
        };
        let constants: Result<Vec<_>> = part.constant.list(part.num_constants)?.iter().map(own).collect();
        Ok((kind, constants?))
    }

    fn field(&mut self, part: &Part, node: Node) -> Result<Field> {
        let kind = Type::named(word(part.data_type)?)?;
        let source = match node {
            Node::Oid | Node::Dkey => {
                self.account(0)?;
                if node == Node::Oid { Source::Oid } else { Source::Dkey }
            }
            _ => {
                let name = self.copied(part.akey.bytes()?)?;
                Source::Akey((!name.is_empty()).then_some(name))
            }
        };
        let (offset, len) = (part.data_offset as u64, part.data_len as u64);
        offset.checked_add(len).ok_or(Der::INVAL)?;
        Ok(Field { source, kind, offset, len })
    }

    /// The place of a field; one that is used several times is read once.
    fn index_of(&mut self, field: Field) -> usize {
        self.fields.iter().position(|known| *known == field).unwrap_or_else(|| {
            self.fields.push(field);
            self.fields.len() - 1
        })
    }

    /// Whether it asks for the akey that is looked at.
    pub(super) fn is_by_akey(&self) -> bool {
        self.fields.iter().any(|field| field.source == Source::Akey(None))
    }

    pub(super) fn fold_count(&self) -> usize {
        self.folds.len()
    }

    /// Whether all conditions are met.
    ///
    /// # Errors
    /// Those of [`Operator::apply`].
    pub(super) fn lets_through(&self, row: &[Option<Vec<u8>>]) -> Result<bool> {
        for condition in &self.conditions {
            if !self.value(condition, row)?.is_true() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds what was let through to all that is computed.
    ///
    /// # Errors
    /// Those of [`Operator::apply`].
    pub(super) fn fold(&self, row: &[Option<Vec<u8>>], totals: &mut [Total]) -> Result<()> {
        for ((fold, expression), total) in self.folds.iter().zip(totals) {
            let value = self.value(expression, row)?;
            match (fold, value.number()) {
                (Fold::Count, _) if value != Value::Null => total.count += 1,
                (_, Some(number)) => total.add(number),
                _ => {}
            }
        }
        Ok(())
    }

    /// What was computed, in the order of the filters.
    pub(super) fn results(&self, totals: &[Total]) -> Vec<f64> {
        self.folds.iter().zip(totals).map(|((fold, _), total)| total.result(*fold)).collect()
    }

    fn value<'a>(&'a self, expression: &'a Expression, row: &'a [Option<Vec<u8>>]) -> Result<Value<'a>> {
        let mut stack: Vec<Value<'a>> = Vec::with_capacity(8);
        for step in &expression.0 {
            let value = match step {
                Step::Field(index) => {
                    let bytes = row.get(*index).and_then(Option::as_deref);
                    bytes.map_or(Value::Null, |bytes| Value::read(self.fields[*index].kind, bytes))
                }
                Step::Constant(kind, bytes) => Value::read(*kind, bytes),
                Step::Call(operator, count) => {
                    let left = stack.len().checked_sub(*count).ok_or(Der::MISC)?;
                    stack[left..].reverse();
                    let value = operator.apply(&stack[left..])?;
                    stack.truncate(left);
                    value
                }
            };
            stack.push(value);
        }
        stack.pop().ok_or(Der::MISC)
    }
}

/// The nodes of a filter, which has to be of this type.
fn parts_of(filter: Out<Filter>, wants_condition: bool) -> Result<Vec<(Part, Node)>> {
    let filter = filter.get()?;
    if is_condition(&filter)? != wants_condition || filter.num_parts > PARTS_MAX {
        return Err(Der::INVAL);
    }
    let parts = filter.parts.list(filter.num_parts as usize)?;
    parts
        .iter()
        .map(|part| {
            let part = part.get()?;
            Ok((part, node_of(&part)?))
        })
        .collect()
}

/// What is computed, while it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Total {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Total {
    pub(super) const NONE: Self = Self { count: 0, sum: 0.0, min: f64::NAN, max: f64::NAN };

    fn add(&mut self, number: f64) {
        self.count += 1;
        self.sum += number;
        // What is no number is neither the least nor the most of anything.
        (self.min, self.max) = (self.min.min(number), self.max.max(number));
    }

    /// Of nothing there is neither a least, a most nor a mean: that is no number.
    #[expect(clippy::cast_precision_loss, reason = "results are reported as doubles")]
    fn result(self, fold: Fold) -> f64 {
        match fold {
            Fold::Sum => self.sum,
            Fold::Min => self.min,
            Fold::Max => self.max,
            Fold::Average => self.sum / self.count as f64,
            Fold::Count => self.count as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing_there_is_a_sum_and_a_count_and_no_more() {
        let of = |fold| Total::NONE.result(fold);
        assert_eq!((of(Fold::Sum).to_bits(), of(Fold::Count).to_bits()), (0, 0));
        assert!(of(Fold::Min).is_nan());
        assert!(of(Fold::Max).is_nan());
        assert!(of(Fold::Average).is_nan());
        let mut total = Total::NONE;
        for number in [4.0, -2.0, 1.0] {
            total.add(number);
        }
        let found = [Fold::Sum, Fold::Min, Fold::Max, Fold::Average].map(|fold| total.result(fold).to_bits());
        assert_eq!(found, [3.0_f64, -2.0, 4.0, 1.0].map(f64::to_bits));
    }
}
