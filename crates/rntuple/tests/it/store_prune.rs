//! Pages that cannot have what is asked for are not fetched, and nothing that is asked for is missed.

use crate::made::{How, Type, Value, file};
use crate::store_world::{World, doubles, header, ints, sealed};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::store::{Compare, Condition, CreateOptions, Number, StoreSource, When};
use dolmen_rntuple::{Array, Entries, Error, Memory, Ntuple, Values};
use proptest::prelude::*;

const COMPARES: [Compare; 6] = [
    Compare::Less,
    Compare::LessOrEqual,
    Compare::Equal,
    Compare::NotEqual,
    Compare::GreaterOrEqual,
    Compare::Greater,
];

fn condition(field: &str, compare: Compare, number: Number) -> Condition {
    Condition { field: field.into(), compare, number }
}

/// Entries of the ranges for which all conditions hold, each with its values.
fn filtered(
    ntuple: &Ntuple<StoreSource>,
    conditions: &[Condition],
    ranges: &[Entries],
) -> Vec<(u64, u64, i32)> {
    let fields = ["x", "n"].map(|name| ntuple.field(name).unwrap());
    let mut found = Vec::new();
    for &entries in ranges {
        let arrays = ntuple.read(&fields, entries).unwrap();
        let [Array::Values(Values::F64(x)), Array::Values(Values::I32(n))] = &arrays[..] else { panic!() };
        for (entry, (&x, &n)) in (entries.first..).zip(x.iter().zip(n)) {
            let holds = |condition: &Condition| {
                let value =
                    if &*condition.field == "x" { Number::Float(x) } else { Number::Signed(n.into()) };
                condition.compare.holds(value, condition.number)
            };
            if conditions.iter().all(holds) {
                found.push((entry, x.to_bits(), n));
            }
        }
    }
    found
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (-6_i8..6).prop_map(|number| f64::from(number) / 2.0),
        1 => Just(f64::NAN),
        1 => prop::sample::select(&[f64::INFINITY, f64::NEG_INFINITY, -0.0][..]),
    ]
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        float().prop_map(Number::Float),
        (-6_i64..6).prop_map(Number::Signed),
        (0_u64..6).prop_map(Number::Unsigned)
    ]
}

fn conditions() -> impl Strategy<Value = Vec<Condition>> {
    let one = (prop::sample::select(&["x", "n"][..]), prop::sample::select(&COMPARES[..]), number());
    prop::collection::vec(one.prop_map(|(field, compare, number)| condition(field, compare, number)), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_pruned_has_nothing_that_is_asked_for(
        rows in prop::collection::vec((float(), -3_i32..4), 1..60), of_a_page in 1_usize..6, of_a_cluster in 1_usize..20,
        conditions in conditions(), range in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let world = World::any();
        let header = header("events", &[("x", ColumnKind::SplitReal64), ("n", ColumnKind::Int32)]);
        let stored = world.store().create(&header, &CreateOptions::default()).unwrap();
        let mut appender = stored.append().unwrap();
        for some in rows.chunks(of_a_cluster) {
            let columns = [doubles(some.iter().map(|row| row.0)), ints(some.iter().map(|row| row.1))];
            appender.push(&sealed(&header.schema, 0, some.len(), &columns, of_a_page)).unwrap();
        }
        appender.commit().unwrap();
        let ntuple = stored.open(When::Now).unwrap();
        let (one, other) = (range.0.index(rows.len() + 1) as u64, range.1.index(rows.len() + 1) as u64);
        let entries = Entries { first: one.min(other), end: one.max(other) };
        let ranges = ntuple.prune(&conditions, entries).unwrap();
        prop_assert!(ranges.iter().all(|range| range.first < range.end && range.end <= entries.end));
        prop_assert!(ranges.iter().all(|range| range.first >= entries.first));
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].first));
        prop_assert_eq!(filtered(&ntuple, &conditions, &ranges), filtered(&ntuple, &conditions, &[entries]));
        if of_a_page == 1 && conditions.len() == 1 {
            // A page of one value is known as well as the value.
            let wanted = filtered(&ntuple, &conditions, &[entries]).len() as u64;
            prop_assert_eq!(ranges.iter().map(|range| range.end - range.first).sum::<u64>(), wanted);
        }
    }
}

#[test]
fn what_cannot_match_is_not_fetched() {
    World::each(|world| {
        let header = header("events", &[("x", ColumnKind::Real64), ("n", ColumnKind::Int32)]);
        let options = CreateOptions { group_bytes: Some(4 << 10), ..CreateOptions::default() };
        let stored = world.store().create(&header, &options).unwrap();
        let mut appender = stored.append().unwrap();
        let mix = |at: i32| at.wrapping_mul(-1_640_531_535);
        for cluster in 0..10 {
            let range = cluster * 1000..cluster * 1000 + 1000;
            let columns = [doubles(range.clone().map(f64::from)), ints(range.map(mix))];
            appender.push(&sealed(&header.schema, 0, 1000, &columns, 100)).unwrap();
        }
        appender.commit().unwrap();
        let conditions = [
            condition("x", Compare::GreaterOrEqual, Number::Signed(4250)),
            condition("x", Compare::Less, Number::Float(4350.0)),
        ];
        let all = Entries { first: 0, end: 10_000 };
        let full = stored.open(When::Now).unwrap();
        let wanted = filtered(&full, &conditions, &[all]);
        let pruned = stored.open(When::Now).unwrap();
        let ranges = pruned.prune(&conditions, all).unwrap();
        assert_eq!(ranges, [Entries { first: 4200, end: 4400 }]);
        let before = pruned.source().asked();
        assert_eq!((before.page_requests, before.page_bytes), (0, 0));
        assert_eq!(filtered(&pruned, &conditions, &ranges), wanted);
        assert_eq!(wanted.len(), 100);
        let (of_full, of_pruned) = (full.source().asked(), pruned.source().asked());
        assert!(of_full.page_requests >= 20 && of_pruned.page_requests <= 2, "{of_full:?}, {of_pruned:?}");
        assert!(of_pruned.page_bytes * 15 < of_full.page_bytes, "{of_full:?}, {of_pruned:?}");
        pruned.prune(&conditions, all).unwrap();
        assert_eq!(pruned.source().asked(), of_pruned, "what is known of pages is read once");
        let none = condition("x", Compare::Greater, Number::Unsigned(10_000));
        assert_eq!(pruned.prune(&[none], all).unwrap(), []);
        assert_eq!(pruned.prune(&[], all).unwrap(), [all]);
    });
}

#[test]
fn lengths_of_collections_are_asked_for_and_what_has_not_one_number_is_refused() {
    let of = Type::Record(vec![
        Type::List(ColumnKind::SplitIndex32, Box::new(Type::Number(ColumnKind::Int32))),
        Type::Text(ColumnKind::Index32),
    ]);
    let number = |at: u32| Value::Number(at.to_le_bytes().to_vec());
    let row = |at: u32| {
        let items = (0..at / 4).map(number).collect();
        Value::Several(vec![Value::Several(items), Value::Text(b"text".to_vec())])
    };
    let values: Vec<_> = (0..40).map(row).collect();
    let how = How {
        compression: Compression::None,
        elements_of_a_page: 4,
        entries_of_a_cluster: 10,
        clusters_of_a_group: 2,
        has_checksums: true,
    };
    let (bytes, anchor) = file(&of, &values, how);
    let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
    World::each(|world| {
        world.store().import("events", &ntuple, &CreateOptions::default()).unwrap();
        let stored = world.store().open("events", When::Now).unwrap();
        let all = Entries { first: 0, end: 40 };
        let long = condition("field._0", Compare::GreaterOrEqual, Number::Signed(8));
        assert_eq!(
            stored.prune(core::slice::from_ref(&long), all).unwrap(),
            [Entries { first: 30, end: 40 }]
        );
        let none = condition("field._0", Compare::Equal, Number::Signed(0));
        assert_eq!(stored.prune(&[none], all).unwrap(), [Entries { first: 0, end: 4 }]);
        for name in ["field", "field._0._0", "field._1"] {
            let found = stored.prune(&[condition(name, Compare::Less, Number::Signed(1))], all);
            assert!(matches!(found, Err(Error::NotFlat { name: n }) if &*n == name));
        }
        let found = stored.prune(&[condition("none", Compare::Less, Number::Signed(1))], all);
        assert!(matches!(found, Err(Error::NoField { .. })));
        let blind = CreateOptions { measures: false, ..CreateOptions::default() };
        world.store().import("blind", &ntuple, &blind).unwrap();
        let stored = world.store().open("blind", When::Now).unwrap();
        assert_eq!(stored.prune(&[long], all).unwrap(), [all], "what is not known may match");
    });
}
