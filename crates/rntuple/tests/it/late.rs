//! Columns that are not the same in all clusters: added later, in another representation, or shown by another field.

use crate::made::{How, field, put_column, put_envelope};
use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::footer::{ClusterGroup, Footer};
use dolmen_rntuple::format::page_list::{ClusterPages, ColumnPages, PageList};
use dolmen_rntuple::format::schema::{Alias, Column, ColumnKind, Field, Known, Role, Schema};
use dolmen_rntuple::rootfile::Anchor;
use dolmen_rntuple::{Array, Entries, Error, Fault, Memory, Ntuple, Values};

const HOW: How = How {
    compression: Compression::None,
    elements_of_a_page: 2,
    entries_of_a_cluster: 4,
    clusters_of_a_group: 2,
    has_checksums: true,
};

/// The first element of a column in a cluster, and its elements; none where the column is suppressed.
type Elements = Option<(u64, Vec<u8>)>;

fn column(kind: ColumnKind, field: u32) -> Column {
    let bits = kind.bits().unwrap().0;
    Column { kind, bits, field, representation: 0, first_element: 0, range: None }
}

/// An ntuple whose schema goes beyond the header's `known`, with two clusters of four entries, each of the columns that are given: their
/// first element and elements, or none where the column is suppressed.
fn ntuple(schema: Schema, known: Known, clusters: [&[Elements]; 2]) -> Ntuple<Memory> {
    ntuple_of(schema, known, clusters, 4, HOW)
}

fn ntuple_of(
    schema: Schema,
    known: Known,
    clusters: [&[Elements]; 2],
    entry_count: u64,
    how: How,
) -> Ntuple<Memory> {
    let mut bytes = vec![0; 10];
    let at_first = Schema {
        fields: schema.fields[..known.fields].to_vec(),
        columns: schema.columns[..known.columns].to_vec(),
        ..Schema::default()
    };
    let (name, writer) = ("late".into(), "these tests".into());
    let (envelope, sum) =
        Header { name, description: "".into(), writer, schema: at_first, checksum: 0 }.write();
    let header = put_envelope(&mut bytes, &envelope, how);
    let mut list = PageList::default();
    for (first_entry, elements) in [0, entry_count].into_iter().zip(clusters) {
        let mut columns = Vec::new();
        for (column, elements) in schema.columns.iter().zip(elements) {
            columns.push(match elements {
                Some((first, elements)) => {
                    put_column(&mut bytes, &mut list, column, elements, &mut first.clone(), how)
                }
                None => ColumnPages { first_element: None, compression: 0, pages: 0..0 },
            });
        }
        list.clusters.push(ClusterPages { first_entry, entry_count, columns });
    }
    let page_list = put_envelope(&mut bytes, &list.write(sum), how);
    let groups =
        vec![ClusterGroup { first_entry: 0, entry_span: 2 * entry_count, cluster_count: 2, page_list }];
    let footer = put_envelope(&mut bytes, &Footer { groups }.write(sum, &schema, &known), how);
    let anchor = Anchor { version: [1, 0, 1, 0], header, footer, key_bytes_max: None };
    Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap()
}

fn ints(range: core::ops::Range<i32>) -> Vec<u8> {
    range.flat_map(i32::to_le_bytes).collect()
}

fn all(ntuple: &Ntuple<Memory>, name: &str, first: u64, end: u64) -> Array {
    let field = ntuple.field(name).unwrap();
    ntuple.read(&[field], Entries { first, end }).unwrap().remove(0)
}

/// An ntuple of eight entries in two clusters, to which a number and a list of numbers were added before an entry.
pub(crate) fn added_before(entry: i32) -> Ntuple<Memory> {
    let mut schema = Schema::default();
    let fields = [
        ("old", Role::Plain, 0),
        ("new", Role::Plain, 1),
        ("lists", Role::Collection, 2),
        ("_0", Role::Plain, 2),
    ];
    for (number, (name, role, parent)) in (0_u32..).zip(fields) {
        schema.fields.push(Field { parent, ..field(number, role, name) });
        let kind = if role == Role::Plain { ColumnKind::Int32 } else { ColumnKind::Index64 };
        schema.columns.push(column(kind, number));
    }
    schema.columns[1].first_element = entry.into();
    schema.columns[2].first_element = entry.into();
    let at = |entry: i32| u64::try_from(entry).unwrap();
    let cluster = |first: i32| -> Vec<Elements> {
        let begin = first.max(entry);
        let mut columns = vec![Some((at(first), ints(first..first + 4)))];
        if begin < first + 4 {
            let ends = (1..=i64::from(first + 4 - begin)).flat_map(i64::to_le_bytes).collect();
            columns.push(Some((at(begin), ints(begin + 100..first + 104))));
            columns.push(Some((at(begin), ends)));
            columns.push(Some((at(begin - entry), ints(begin + 200..first + 204))));
        }
        columns
    };
    let known = Known { fields: 1, columns: 1, ..Known::default() };
    ntuple(schema, known, [&cluster(0), &cluster(4)])
}

#[test]
fn entries_before_a_column_was_added_are_zero_also_in_memory_that_was_used_before() {
    let mut schema = Schema::default();
    for (number, name) in [(0, "old"), (1, "new")] {
        schema.fields.push(field(number, Role::Plain, name));
        schema.columns.push(column(ColumnKind::Int32, number));
    }
    let known = Known { fields: 1, columns: 1, ..Known::default() };
    let count = 1_000_000;
    schema.columns[1].first_element = i64::from(count);
    let clusters: [&[_]; 2] = [
        &[Some((0, ints(0..count)))],
        &[Some((1_000_000, ints(count..2 * count))), Some((1_000_000, ints(0..count)))],
    ];
    let how = How { elements_of_a_page: 300_000, ..HOW };
    let ntuple = ntuple_of(schema, known, clusters, 1_000_000, how);
    for _ in 0..3 {
        Values::I32(vec![-1; 2_000_000]).spare();
        let Array::Values(Values::I32(values)) = all(&ntuple, "new", 0, 2_000_000) else { panic!() };
        assert_eq!(values.len(), 2_000_000);
        assert!(values[..1_000_000].iter().all(|&value| value == 0));
        assert!(values[1_000_000..].iter().copied().eq(0..count));
    }
}

#[test]
fn entries_before_a_column_was_added_are_zero() {
    let mut schema = Schema::default();
    for (number, name) in [(0, "old"), (1, "new")] {
        schema.fields.push(field(number, Role::Plain, name));
        schema.columns.push(column(ColumnKind::Int32, number));
    }
    let known = Known { fields: 1, columns: 1, ..Known::default() };
    schema.columns[1].first_element = 5;
    let clusters: [&[_]; 2] = [&[Some((0, ints(0..4)))], &[Some((4, ints(4..8))), Some((5, ints(105..108)))]];
    let ntuple = ntuple(schema, known, clusters);
    assert_eq!(all(&ntuple, "old", 0, 8), Array::Values(Values::I32((0..8).collect())));
    let new = [0, 0, 0, 0, 0, 105, 106, 107];
    for (first, end) in [(0, 8), (3, 6), (5, 7), (1, 4), (4, 5)] {
        let found = all(&ntuple, "new", first as u64, end as u64);
        assert_eq!(found, Array::Values(Values::I32(new[first..end].to_vec())), "{first}..{end}");
    }
}

#[test]
fn a_column_without_pages_for_its_entries_is_damage_unless_it_was_added_later() {
    let mut schema = Schema::default();
    schema.fields.push(field(0, Role::Plain, "short"));
    schema.columns.push(column(ColumnKind::Int32, 0));
    let known = schema.known();
    let ntuple = ntuple(schema, known, [&[Some((0, ints(0..3)))], &[Some((4, ints(4..8)))]]);
    let found = ntuple.read(&[0], Entries { first: 0, end: 8 });
    assert!(matches!(found, Err(Error::Corrupt { fault: Fault::Length, .. })), "{found:?}");
    assert_eq!(all(&ntuple, "short", 4, 8), Array::Values(Values::I32((4..8).collect())));
}

#[test]
fn a_column_that_was_added_later_has_all_its_elements_from_its_first_on() {
    let mut schema = Schema::default();
    for (number, name) in [(0, "old"), (1, "new")] {
        schema.fields.push(field(number, Role::Plain, name));
        schema.columns.push(column(ColumnKind::Int32, number));
    }
    schema.columns[1].first_element = 3;
    let known = Known { fields: 1, columns: 1, ..Known::default() };
    let old = |first| Some((first, ints(0..4)));
    let begun = [old(0), Some((3, ints(3..4)))];
    for (second, is_damaged) in [
        (vec![old(4), Some((4, ints(4..8)))], false),
        (vec![old(4), Some((4, ints(5..8)))], true),
        (vec![old(4), Some((4, Vec::new()))], true),
        (vec![old(4), None], true),
        (vec![old(4)], true),
    ] {
        let ntuple = ntuple(schema.clone(), known, [&begun, &second]);
        assert_eq!(all(&ntuple, "new", 0, 4), Array::Values(Values::I32(vec![0, 0, 0, 3])));
        let found = ntuple.read(&[1], Entries { first: 4, end: 8 });
        assert_eq!(
            matches!(found, Err(Error::Corrupt { fault: Fault::Length, .. })),
            is_damaged,
            "{found:?}"
        );
    }
    // The fourth entry has none of it.
    let few = [old(0), Some((3, Vec::new()))];
    let found = ntuple(schema, known, [&few, &[old(4), Some((4, ints(4..8)))]])
        .read(&[1], Entries { first: 0, end: 4 });
    assert!(matches!(found, Err(Error::Corrupt { fault: Fault::Length, .. })), "{found:?}");
}

#[test]
fn each_cluster_has_the_representation_that_it_has_pages_of() {
    let mut schema = Schema::default();
    schema.fields.push(Field { type_name: "double".into(), ..field(0, Role::Plain, "both") });
    schema.columns.push(column(ColumnKind::Real64, 0));
    schema.columns.push(Column { representation: 1, ..column(ColumnKind::SplitReal32, 0) });
    let wide: Vec<u8> = [0.1_f64, 1.5, 2.5, 3.5].into_iter().flat_map(f64::to_le_bytes).collect();
    let narrow: Vec<u8> = [4.5_f32, 5.5, 6.5, 7.5].into_iter().flat_map(f32::to_le_bytes).collect();
    let known = schema.known();
    let ntuple = ntuple(schema, known, [&[Some((0, wide)), None], &[None, Some((4, narrow))]]);
    let values = [0.1, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5];
    for (first, end) in [(0, 8), (1, 7), (5, 6)] {
        let found = all(&ntuple, "both", first as u64, end as u64);
        assert_eq!(found, Array::Values(Values::F64(values[first..end].to_vec())));
    }
}

#[test]
fn a_field_shows_the_sizes_and_the_values_of_another() {
    let mut schema = Schema::default();
    let names =
        [("list", Role::Collection), ("_0", Role::Plain), ("sizes", Role::Plain), ("same", Role::Collection)];
    for (number, (name, role)) in (0..).zip(names) {
        schema.fields.push(field(number, role, name));
    }
    schema.fields[1].parent = 0;
    schema.fields.push(Field { parent: 3, source: Some(1), ..field(4, Role::Plain, "_0") });
    schema.fields[2].source = Some(0);
    schema.fields[3].source = Some(0);
    schema.columns = vec![column(ColumnKind::SplitIndex32, 0), column(ColumnKind::Int32, 1)];
    let known = schema.known();
    // What shows others is told by the footer, since that is where this ntuple has it.
    schema.aliases = [(0, 2), (0, 3), (1, 4)].map(|(column, field)| Alias { column, field }).to_vec();
    let ends = |ends: [i64; 4]| ends.into_iter().flat_map(i64::to_le_bytes).collect::<Vec<u8>>();
    let one = [Some((0, ends([1, 1, 3, 6]))), Some((0, ints(0..6)))];
    let other = [Some((4, ends([0, 2, 2, 2]))), Some((6, ints(6..8)))];
    let ntuple = ntuple(schema, known, [&one, &other]);
    let sizes = [1, 0, 2, 3, 0, 2, 0, 0];
    for (first, end) in [(0, 8), (2, 6), (4, 8), (7, 7)] {
        let found = all(&ntuple, "sizes", first as u64, end as u64);
        assert_eq!(found, Array::Values(Values::U64(sizes[first..end].to_vec())));
        assert_eq!(
            all(&ntuple, "same", first as u64, end as u64),
            all(&ntuple, "list", first as u64, end as u64)
        );
    }
    let Array::Lists { offsets, content, .. } = all(&ntuple, "list", 2, 6) else { panic!("lists were read") };
    assert_eq!((offsets, *content), (vec![0, 2, 5, 5, 7], Array::Values(Values::I32((1..8).collect()))));
}
