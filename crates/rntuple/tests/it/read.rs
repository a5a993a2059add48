//! What was made is read, in whole and in part, however it was stored.

use crate::made::{How, Type, Value, file, number, value};
use dolmen_rntuple::estimate::usage;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::{Entries, Error, Memory, Ntuple};
use proptest::prelude::*;

const NUMBERS: [ColumnKind; 25] = [
    ColumnKind::Bit,
    ColumnKind::Byte,
    ColumnKind::Char,
    ColumnKind::Int8,
    ColumnKind::UInt8,
    ColumnKind::Int16,
    ColumnKind::UInt16,
    ColumnKind::Int32,
    ColumnKind::UInt32,
    ColumnKind::Int64,
    ColumnKind::UInt64,
    ColumnKind::Real16,
    ColumnKind::Real32,
    ColumnKind::Real64,
    ColumnKind::SplitInt16,
    ColumnKind::SplitUInt16,
    ColumnKind::SplitInt32,
    ColumnKind::SplitUInt32,
    ColumnKind::SplitInt64,
    ColumnKind::SplitUInt64,
    ColumnKind::SplitReal16,
    ColumnKind::SplitReal32,
    ColumnKind::SplitReal64,
    ColumnKind::Real32Trunc,
    ColumnKind::Real32Quant,
];

const OFFSETS: [ColumnKind; 4] =
    [ColumnKind::Index32, ColumnKind::Index64, ColumnKind::SplitIndex32, ColumnKind::SplitIndex64];

const WAYS: [Compression; 5] =
    [Compression::None, Compression::Zlib(1), Compression::Lzma(1), Compression::Lz4, Compression::Zstd(3)];

pub(crate) fn types() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![
        3 => prop::sample::select(&NUMBERS[..]).prop_map(Type::Number),
        1 => prop::sample::select(&OFFSETS[..]).prop_map(Type::Text),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            (prop::sample::select(&OFFSETS[..]), inner.clone())
                .prop_map(|(kind, of)| Type::List(kind, Box::new(of))),
            (1_u64..4, inner.clone()).prop_map(|(count, of)| Type::Repeated(count, Box::new(of))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Type::Record),
            prop::collection::vec(inner, 1..4).prop_map(Type::Variant),
        ]
    })
}

/// Values of a type, from numbers that come one after the other.
pub(crate) fn values_of(of: &Type, count: usize, next: &mut impl FnMut() -> u64) -> Vec<Value> {
    (0..count).map(|_| value_of(of, next)).collect()
}

fn value_of(of: &Type, next: &mut impl FnMut() -> u64) -> Value {
    match of {
        Type::Number(kind) => Value::Number(number(*kind, next())),
        Type::Text(_) => Value::Text((0..next() % 4).map(|_| b'a' + (next() % 26) as u8).collect()),
        Type::List(_, item) => Value::Several((0..next() % 4).map(|_| value_of(item, next)).collect()),
        Type::Repeated(count, item) => Value::Several((0..*count).map(|_| value_of(item, next)).collect()),
        Type::Record(fields) => Value::Several(fields.iter().map(|of| value_of(of, next)).collect()),
        Type::Variant(fields) => {
            let which = (next() % (fields.len() as u64 + 1)) as usize;
            Value::One(fields.get(which).map(|of| (which, Box::new(value_of(of, next)))))
        }
    }
}

pub(crate) fn hows() -> impl Strategy<Value = How> {
    (prop::sample::select(&WAYS[..]), 1_usize..9, 1_usize..7, 1_usize..4, any::<bool>()).prop_map(
        |(compression, elements_of_a_page, entries_of_a_cluster, clusters_of_a_group, has_checksums)| How {
            compression,
            elements_of_a_page,
            entries_of_a_cluster,
            clusters_of_a_group,
            has_checksums,
        },
    )
}

/// Numbers that look random, from a seed.
pub(crate) fn numbers(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_range_of_any_type_is_read_as_it_was_written(
        of in types(), how in hows(), count in 0_usize..40, seed in any::<u64>(), range in (0_usize..41, 0_usize..41),
    ) {
        let values = values_of(&of, count, &mut numbers(seed));
        let (bytes, anchor) = file(&of, &values, how);
        let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
        prop_assert_eq!(ntuple.entry_count(), count as u64);
        let (first, end) = (range.0.min(range.1).min(count), range.0.max(range.1).min(count));
        for (first, end) in [(0, count), (first, end)] {
            let field = ntuple.field("field").unwrap();
            let read = ntuple.read(&[field], Entries { first: first as u64, end: end as u64 }).unwrap();
            prop_assert_eq!(read[0].len(), (end - first) as u64);
            for at in 0..end - first {
                prop_assert_eq!(value(&read[0], at), values[first + at].clone());
            }
        }
    }
}

/// All fields below one, by the ways that lead there.
fn ways(of: &Type, way: &[usize], all: &mut Vec<Vec<usize>>) {
    all.push(way.to_vec());
    let below: &[Type] = match of {
        Type::Number(_) | Type::Text(_) => &[],
        Type::List(_, item) | Type::Repeated(_, item) => core::slice::from_ref(&**item),
        Type::Record(fields) | Type::Variant(fields) => fields,
    };
    for (at, of) in below.iter().enumerate() {
        ways(of, &[way, &[at]].concat(), all);
    }
}

/// What a value has of a field below it; none if that is one of several that it may be.
fn part(of: &Type, value: &Value, way: &[usize]) -> Option<Value> {
    let Some((&at, way)) = way.split_first() else { return Some(value.clone()) };
    match (of, value) {
        (Type::List(_, item) | Type::Repeated(_, item), Value::Several(items)) => {
            items.iter().map(|value| part(item, value, way)).collect::<Option<_>>().map(Value::Several)
        }
        (Type::Record(fields), Value::Several(values)) => part(&fields[at], &values[at], way),
        _ => None,
    }
}

/// Whether an alternative of a variant is on the way.
fn is_of_several(of: &Type, way: &[usize]) -> bool {
    let Some((&at, way)) = way.split_first() else { return false };
    match of {
        Type::Number(_) | Type::Text(_) => unreachable!("nothing is below it"),
        Type::List(_, item) | Type::Repeated(_, item) => is_of_several(item, way),
        Type::Record(fields) => is_of_several(&fields[at], way),
        Type::Variant(_) => true,
    }
}

proptest! {
    #[test]
    fn each_field_within_others_is_read_alone_as_what_entries_have_of_it(
        of in types(), how in hows(), count in 0_usize..40, seed in any::<u64>(), range in (0_usize..41, 0_usize..41),
    ) {
        let values = values_of(&of, count, &mut numbers(seed));
        let (bytes, anchor) = file(&of, &values, how);
        let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
        let (first, end) = (range.0.min(range.1).min(count), range.0.max(range.1).min(count));
        let mut all = Vec::new();
        ways(&of, &[], &mut all);
        for way in all {
            let name = way.iter().fold("field".to_owned(), |name, at| format!("{name}._{at}"));
            let field = ntuple.field(&name).unwrap();
            let read = ntuple.read(&[field], Entries { first: first as u64, end: end as u64 });
            if is_of_several(&of, &way) {
                prop_assert!(matches!(&read, Err(Error::NotFlat { name: told }) if **told == *name), "{:?}", read);
                continue;
            }
            let read = read.unwrap();
            prop_assert_eq!(read[0].len(), (end - first) as u64);
            for at in 0..end - first {
                prop_assert_eq!(Some(value(&read[0], at)), part(&of, &values[first + at], &way), "{}", name);
            }
        }
    }
}

#[test]
fn items_need_not_be_named_where_what_they_have_is_asked_for() {
    let jets = Type::List(
        ColumnKind::Index64,
        Box::new(Type::Record(vec![
            Type::Number(ColumnKind::Int32),
            Type::Repeated(2, Box::new(Type::Record(vec![Type::Number(ColumnKind::Real64)]))),
        ])),
    );
    let how = How {
        compression: Compression::None,
        elements_of_a_page: 4,
        entries_of_a_cluster: 4,
        clusters_of_a_group: 2,
        has_checksums: true,
    };
    let (bytes, anchor) = file(&jets, &values_of(&jets, 10, &mut numbers(1)), how);
    let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
    for (name, number) in
        [("field", 0), ("field._0", 1), ("field._0._1", 3), ("field._1", 3), ("field._1._0._0", 5)]
    {
        assert_eq!(ntuple.field(name).unwrap(), number, "{name}");
    }
    // Where items begin is read with what they have.
    let all = Entries { first: 0, end: 10 };
    let of_numbers = usage(&ntuple, &[ntuple.field("field._1").unwrap()], all).unwrap();
    assert_eq!(of_numbers.columns.iter().map(|column| column.column).collect::<Vec<_>>(), [0, 2]);
    for name in ["field._2", "field._1._1", "field._0._0._0"] {
        assert!(matches!(ntuple.field(name), Err(Error::NoField { .. })), "{name}");
    }
}

#[test]
fn entries_and_fields_that_are_not_there_are_refused_by_name() {
    let of = Type::Record(vec![Type::Number(ColumnKind::Int32)]);
    let how = How {
        compression: Compression::None,
        elements_of_a_page: 4,
        entries_of_a_cluster: 4,
        clusters_of_a_group: 2,
        has_checksums: true,
    };
    let (bytes, anchor) = file(&of, &values_of(&of, 10, &mut numbers(1)), how);
    let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
    assert_eq!(ntuple.field("field._0").unwrap(), 1);
    for name in ["", "fields", "field.", "field._1", "field._0._0"] {
        assert!(matches!(ntuple.field(name), Err(Error::NoField { .. })), "{name}");
    }
    for (first, end) in [(0, 11), (5, 4), (11, 11)] {
        let found = ntuple.read(&[0], Entries { first, end });
        assert!(matches!(found, Err(Error::NoEntries { count: 10, .. })), "{first}..{end}");
    }
}
