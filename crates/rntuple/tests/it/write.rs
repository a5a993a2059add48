//! Arrays that are written to a file of ROOT are read from it as they were, and what does not fit is refused.

use crate::made::{Value, file, value};
use crate::read::{hows, numbers, types, values_of};
use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::{Column, ColumnKind, InMemory, Role, Schema};
use dolmen_rntuple::rootfile::{FileOptions, FileTime, RootFile, RootWriter, VirtualFile, export};
use dolmen_rntuple::sealed::ElementCounts;
use dolmen_rntuple::write::{self, Flat, Given, Narrow, Options, Room};
use dolmen_rntuple::{
    Array, BadName, Entries, Error, Fit, Lists, Memory, Named, Ntuple, Structure, Values, Zone,
};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The file at `path` with one ntuple of that schema and those arrays.
fn write_file(path: &Path, schema: Schema, fields: &[(&str, &Array)], options: &Options) {
    let (name, writer) = ("made".into(), "these tests".into());
    let header = Header { name, description: "".into(), writer, schema, checksum: 0 };
    let known = header.schema.known();
    let how = FileOptions { time: FileTime::of_unix(0), compression: options.compression };
    let mut writer = RootWriter::create(path, header, known, how).unwrap();
    let mut room = Room::default();
    for entries in write::cut(fields, options).unwrap() {
        let schema = writer.header().schema.clone();
        let cluster = write::seal_in(&schema, fields, entries.clone(), options, &mut room).unwrap();
        assert_eq!(cluster, write::seal(&schema, fields, entries, options).unwrap());
        writer.append(&cluster).unwrap();
    }
    writer.finish().unwrap();
}

fn open(path: &Path) -> Ntuple<RootFile> {
    let mut file = RootFile::open(path).unwrap();
    assert_eq!(file.ntuples(), ["made".into()]);
    let anchor = file.anchor("made").unwrap();
    Ntuple::open(file, &anchor).unwrap()
}

/// A folder that is removed when it is dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dolmen-rntuple-{}-folder-{nth}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Ignored: a directory for what is thrown away.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn scratch() -> (Folder, PathBuf) {
    let folder = Folder::new();
    let path = folder.0.join("made.root");
    (folder, path)
}

fn schema_of(fields: &[(&str, &Array)], compression: Compression) -> Schema {
    let mut schema = Schema::default();
    write::schema(&mut schema, fields, compression).unwrap();
    schema
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_in_any_range_by_a_new_schema_and_by_one_that_was_there(
        of in types(), how in hows(), count in 0_usize..40, seed in any::<u64>(),
        page_bytes in 1_u32..200, cluster_bytes in 1_u64..600, range in (0_usize..41, 0_usize..41),
    ) {
        let values = values_of(&of, count, &mut numbers(seed));
        let (bytes, anchor) = file(&of, &values, how);
        let made = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
        let array = made.read(&[0], Entries { first: 0, end: count as u64 }).unwrap().remove(0);
        let fields = [("field", &array)];
        let (compression, has_checksums) = (how.compression, how.has_checksums);
        let options = Options { compression, page_bytes, cluster_bytes, has_checksums, has_zones: seed % 2 == 0 };
        for schema in [schema_of(&fields, compression), made.header().schema.clone()] {
            let (_folder, path) = scratch();
            write_file(&path, schema, &fields, &options);
            let ntuple = open(&path);
            prop_assert_eq!(ntuple.entry_count(), count as u64);
            let (first, end) = (range.0.min(range.1).min(count), range.0.max(range.1).min(count));
            for (first, end) in [(0, count), (first, end)] {
                let read = ntuple.read(&[0], Entries { first: first as u64, end: end as u64 }).unwrap();
                let found: Vec<Value> = (0..end - first).map(|at| value(&read[0], at)).collect();
                prop_assert_eq!(&found[..], &values[first..end]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_exported_has_the_same_pages_and_a_file_that_is_nowhere_the_same_bytes(
        of in types(), how in hows(), count in 0_usize..40, seed in any::<u64>(), step in 1_usize..3000,
    ) {
        let values = values_of(&of, count, &mut numbers(seed));
        let (bytes, anchor) = file(&of, &values, how);
        let made = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
        let (_folder, path) = scratch();
        let options = FileOptions { time: FileTime::of_unix(1_700_000_000), compression: how.compression };
        let mut told = 0;
        export(&made, &path, options, |entries| told = entries).unwrap();
        prop_assert_eq!(told, count as u64);
        let exported = open(&path);
        for (before, after) in made.all_clusters().unwrap().iter().zip(exported.all_clusters().unwrap()) {
            prop_assert_eq!(made.take(before, |_| true).unwrap(), exported.take(&after, |_| true).unwrap());
        }
        let read = exported.read(&[0], Entries { first: 0, end: count as u64 }).unwrap();
        let found: Vec<Value> = (0..count).map(|at| value(&read[0], at)).collect();
        prop_assert_eq!(found, values);
        let written = std::fs::read(&path).unwrap();
        let virtual_file = VirtualFile::new(made, "made.root", options).unwrap();
        prop_assert_eq!(virtual_file.length_bytes(), written.len() as u64);
        let mut read = Vec::new();
        while read.len() < written.len() {
            let mut part = vec![0; step];
            let count = virtual_file.read_at(read.len() as u64, &mut part).unwrap();
            prop_assert_eq!(count, step.min(written.len() - read.len()));
            read.extend_from_slice(&part[..count]);
        }
        prop_assert!(read == written);
        prop_assert_eq!(virtual_file.read_at(written.len() as u64, &mut [0; 10]).unwrap(), 0);
    }
}

#[test]
fn a_damaged_page_is_not_exported() {
    let array = numbers_of(1000);
    let fields = [("a", &array)];
    let options = Options { compression: Compression::None, ..Options::default() };
    let (folder, path) = scratch();
    write_file(&path, schema_of(&fields, Compression::None), &fields, &options);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(8).position(|eight| eight == [1, 0, 0, 0, 2, 0, 0, 0]).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(&path, bytes).unwrap();
    let other = folder.0.join("other.root");
    let how = FileOptions { time: FileTime::of_unix(0), compression: Compression::None };
    let found = export(&open(&path), &other, how, |_| ());
    assert!(
        matches!(found, Err(Error::Corrupt { structure: Structure::Page { column: 0 }, .. })),
        "{found:?}"
    );
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}

fn numbers_of(count: i32) -> Array {
    Array::Values(Values::I32((0..count).collect()))
}

fn lists(offsets: &[i64], content: Array) -> Array {
    Array::Lists { of: Lists::Items, offsets: offsets.to_vec(), content: Box::new(content) }
}

#[test]
fn an_array_that_does_not_fit_its_field_is_refused_by_the_fields_name() {
    let good = lists(&[0, 2, 3], numbers_of(3));
    let schema = schema_of(&[("hits", &good)], Compression::None);
    let options = Options::default();
    let sealed = |name: &'static str, array: &Array| {
        let count = array.len();
        write::seal(&schema, &[(name, array)], 0..count, &options).map(drop)
    };
    sealed("hits", &good).unwrap();
    let floats = Array::Values(Values::F32(vec![0.0; 3]));
    for (name, array, wanted) in [
        ("hits", numbers_of(2), Fit::Kind),
        ("hits", lists(&[0, 2, 3], floats), Fit::Kind),
        ("hits", lists(&[0, 2, 1], numbers_of(3)), Fit::Order),
        ("hits", lists(&[-1, 2, 3], numbers_of(3)), Fit::Order),
        ("hits", lists(&[0, 2, 4], numbers_of(3)), Fit::Length { wanted: 4, found: 3 }),
        ("hit", good.clone(), Fit::Unknown),
    ] {
        let found = sealed(name, &array);
        let Err(Error::NoFit { field, fit }) = found else { panic!("{array:?} fits {name}") };
        assert_eq!((&*field, fit), (name, wanted), "{array:?}");
    }
    let two = [("hits", &good), ("others", &numbers_of(3))];
    let found = write::entry_count(&two);
    assert!(matches!(found, Err(Error::NoFit { fit: Fit::Length { wanted: 2, found: 3 }, .. })));
    let beyond = write::seal(&schema, &[("hits", &good)], 1..3, &options);
    assert!(matches!(beyond, Err(Error::NoEntries { first: 1, end: 3, count: 2 })));
}

#[test]
fn flat_values_are_sealed_where_they_are_as_arrays_of_them_are() {
    let bytes: Vec<u8> = (0..24_000_u32).map(|at| (at * at / 7 % 251) as u8).collect();
    for compression in [Compression::None, Compression::Zstd(1)] {
        let options = Options { compression, page_bytes: 5000, ..Options::default() };
        for kind in [InMemory::I8, InMemory::U16, InMemory::I32, InMemory::U64, InMemory::F32, InMemory::F64]
        {
            let array = Array::Values(Values::of_bytes(kind, &bytes).unwrap().unwrap());
            let schema = schema_of(&[("a", &array)], compression);
            // Where no number of several bytes may begin.
            let moved = [&[0], &bytes[..]].concat();
            let flat = Flat::new(kind, &moved[1..]).unwrap();
            let fields = [("a", Given::from(flat))];
            assert_eq!(
                write::cut(&fields, &options).unwrap(),
                write::cut(&[("a", &array)], &options).unwrap()
            );
            let entries = 3..array.len() - 5;
            let (mut room, plain) = (Room::default(), compression == Compression::None);
            let cluster = write::seal_in(&schema, &fields, entries.clone(), &options, &mut room).unwrap();
            assert_eq!(cluster, write::seal(&schema, &[("a", &array)], entries, &options).unwrap());
            let page = &cluster.columns[0].as_ref().unwrap().pages[0].stored;
            assert_eq!(moved.as_ptr_range().contains(&page.as_ptr()), plain, "{kind:?}");
            let other = if kind == InMemory::I8 { InMemory::U8 } else { InMemory::I8 };
            let other = Flat::new(other, &bytes).unwrap();
            let found = write::seal(&schema, &[("a", other)], 0..3, &options);
            assert!(matches!(found, Err(Error::NoFit { fit: Fit::Kind, .. })));
        }
    }
    assert!(Flat::new(InMemory::F64, &bytes[..12]).is_none());
    for kind in [InMemory::Bool, InMemory::Offset, InMemory::Switch] {
        assert!(Flat::new(kind, &bytes).is_none());
    }
}

#[test]
fn a_schema_has_no_name_twice_and_none_that_could_not_be_asked_for() {
    let array = numbers_of(1);
    let record =
        Array::Record { len: 1, fields: vec![("a".into(), array.clone()), ("a".into(), array.clone())] };
    for (fields, wanted) in
        [(vec![("a", &array), ("a", &array)], Fit::Twice), (vec![("a", &record)], Fit::Twice)]
    {
        let found = write::schema(&mut Schema::default(), &fields, Compression::None);
        assert!(matches!(found, Err(Error::NoFit { fit, .. }) if fit == wanted), "{wanted:?}");
    }
}

#[test]
fn names_that_root_refuses_are_refused_by_field_and_character() {
    let array = numbers_of(1);
    let within = |name: &str| Array::Record { len: 1, fields: vec![(name.into(), array.clone())] };
    let lists = |content| Array::Lists { of: Lists::Items, offsets: vec![0, 1], content: Box::new(content) };
    for bad in ['.', '/', ' ', '\\', '\0', '\t', '\n', '\u{1f}', '\u{7f}'] {
        let name = format!("a{bad}b");
        for (top, array, path) in [
            (&*name, array.clone(), name.clone()),
            ("top", within(&name), format!("top.{name}")),
            ("top", lists(within(&name)), format!("top._0.{name}")),
        ] {
            let found =
                write::schema(&mut Schema::default(), &[(top, &array)], Compression::None).unwrap_err();
            let Error::BadName { of: Named::Field, name, why } = &found else { panic!("{found:?}") };
            assert_eq!((&**name, *why), (&*path, BadName::Has(bad)));
            let said = found.to_string();
            let wanted = if bad == ' ' { "a space".into() } else { format!("'{}'", bad.escape_debug()) };
            assert!(said.contains(&wanted) && said.contains("write _ instead"), "{said}");
        }
        let header = |name: &str, field: &str| Header {
            name: name.into(),
            description: "".into(),
            writer: "".into(),
            schema: {
                let mut schema = schema_of(&[("a", &array)], Compression::None);
                schema.fields[0].name = field.into();
                schema
            },
            checksum: 0,
        };
        let found = write::check_names(&header(&name, "a"));
        assert!(
            matches!(found, Err(Error::BadName { of: Named::Ntuple, why: BadName::Has(found), .. }) if found == bad)
        );
        assert!(matches!(
            write::check_names(&header("a", &name)),
            Err(Error::BadName { of: Named::Field, .. })
        ));
        assert!(matches!(
            write::check_names(&header("", "a")),
            Err(Error::BadName { why: BadName::Empty, .. })
        ));
    }
    let empty = write::schema(&mut Schema::default(), &[("", &array)], Compression::None);
    assert!(matches!(empty, Err(Error::BadName { why: BadName::Empty, .. })));
    for fine in ["µ", "a:b", "a-b", "a<b>", "1a", "\u{80}"] {
        write::schema(&mut Schema::default(), &[(fine, &array)], Compression::None).unwrap();
    }
}

#[test]
fn a_file_has_its_name_only_when_it_is_finished() {
    let (folder, path) = scratch();
    std::fs::write(&path, b"before").unwrap();
    let array = numbers_of(10);
    let schema = schema_of(&[("a", &array)], Compression::None);
    let header =
        Header { name: "made".into(), description: "".into(), writer: "".into(), schema, checksum: 0 };
    let known = header.schema.known();
    let options = FileOptions { time: FileTime::of_unix(0), compression: Compression::None };
    let schema = header.schema.clone();
    let mut writer = RootWriter::create(&path, header, known, options).unwrap();
    let cluster = write::seal(&schema, &[("a", &array)], 0..10, &Options::default()).unwrap();
    writer.append(&cluster).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
    drop(writer);
    let left: Vec<_> =
        std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["made.root"]);
    assert_eq!(std::fs::read(&path).unwrap(), b"before");
}

#[test]
fn elements_of_all_representations_of_a_field_count_together() {
    let column = |field, representation, first_element| Column {
        kind: ColumnKind::Int32,
        bits: 32,
        field,
        representation,
        first_element,
        range: None,
    };
    let columns = vec![column(0, 0, 0), column(0, 1, 0), column(1, 0, -7)];
    let schema = Schema { columns, ..Schema::default() };
    let mut counts = ElementCounts::new(&schema);
    assert_eq!(counts.next(&[Some(5), None, None]).unwrap(), [Some(0), None, None]);
    assert_eq!(counts.next(&[None, Some(4), Some(3)]).unwrap(), [None, Some(5), Some(7)]);
    assert_eq!(counts.next(&[Some(1), None, Some(1)]).unwrap(), [Some(9), None, Some(10)]);
    assert!(counts.next(&[Some(u64::MAX), None, None]).is_err());
}

/// Arrays with the same floats: of 64 bits, of 32 in lists, and of 32 in records.
fn floats_of(floats: &[f64]) -> [(&'static str, Array); 3] {
    #[expect(clippy::cast_possible_truncation, reason = "some are wanted in fewer bits")]
    let single = || Array::Values(Values::F32(floats.iter().map(|&float| float as f32).collect()));
    let offsets = (0..=i64::try_from(floats.len()).unwrap()).collect();
    [
        ("wide", Array::Values(Values::F64(floats.to_vec()))),
        ("lists", Array::Lists { of: Lists::Items, offsets, content: Box::new(single()) }),
        ("all", Array::Record { len: floats.len() as u64, fields: vec![("one".into(), single())] }),
    ]
}

/// The floats of these arrays.
fn in_them(arrays: &[Array]) -> Vec<Vec<f64>> {
    let flat = |array: &Array| match array {
        Array::Values(Values::F64(floats)) => floats.to_vec(),
        Array::Values(Values::F32(floats)) => floats.iter().map(|&float| f64::from(float)).collect(),
        other => panic!("{other:?} are no floats"),
    };
    let inner = |array: &Array| match array {
        Array::Lists { content, .. } => flat(content),
        Array::Record { fields, .. } => flat(&fields[0].1),
        other => flat(other),
    };
    arrays.iter().map(inner).collect()
}

#[test]
fn floats_are_kept_in_fewer_bits_and_zones_are_of_what_is_kept() {
    let floats: Vec<f64> = (0..3000).map(|at| f64::from(at * 7919 % 3000) / 1000.0 - 1.5 - 1e-5).collect();
    let quantised = Narrow::Quantised { bits: 12, low: -2.0, high: 1.6 };
    for (narrow, error) in [
        (Narrow::Single, 1e-7),
        (Narrow::Half, 1e-3),
        (Narrow::Truncated { bits: 16 }, 1.2e-2),
        (quantised, 4.5e-4),
    ] {
        for compression in [Compression::None, Compression::Zstd(1)] {
            let arrays = floats_of(&floats);
            let fields: Vec<_> = arrays.iter().map(|(name, array)| (*name, array)).collect();
            let mut schema = schema_of(&fields, compression);
            for name in ["wide", "lists", "all.one"] {
                write::narrow(&mut schema, name, narrow, compression).unwrap();
            }
            let options = Options { compression, page_bytes: 500, ..Options::default() };
            let (_folder, path) = scratch();
            write_file(&path, schema.clone(), &fields, &options);
            let ntuple = open(&path);
            let tops: Vec<_> = ntuple.top_fields().collect();
            let read = in_them(&ntuple.read(&tops, Entries { first: 0, end: 3000 }).unwrap());
            for one in &read {
                let worst =
                    one.iter().zip(&floats).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max);
                assert!(worst <= error && worst > 0.0, "{narrow:?}: {worst}");
            }
            let sealed = write::seal(&schema, &fields, 0..3000, &options).unwrap();
            let of_wide = sealed.columns[0].as_ref().unwrap();
            let mut rest = &read[0][..];
            for page in &of_wide.pages {
                let (kept, behind) = rest.split_at(page.element_count as usize);
                rest = behind;
                let bytes: Vec<u8> = kept.iter().flat_map(|float| float.to_le_bytes()).collect();
                assert_eq!(page.zone, Zone::of(InMemory::F64, &bytes, 0), "{narrow:?}");
            }
            assert!(rest.is_empty() && of_wide.pages.len() > 2);
        }
    }
    for refused in [2.0, -2.1, f64::NAN, f64::INFINITY] {
        let arrays = floats_of(&[0.0, refused]);
        let fields = [(arrays[0].0, &arrays[0].1)];
        let mut schema = schema_of(&fields, Compression::None);
        write::narrow(&mut schema, "wide", quantised, Compression::None).unwrap();
        let found = write::seal(&schema, &fields, 0..2, &Options::default());
        let range = Fit::Range { low: -2.0, high: 1.6 };
        assert!(matches!(found, Err(Error::NoFit { fit, .. }) if fit == range), "{refused}");
        assert!(write::seal(&schema, &fields, 0..1, &Options::default()).is_ok());
    }
}

#[test]
fn how_many_items_a_field_shows_is_written_as_where_they_end() {
    let sizes = Array::Values(Values::U64(vec![3, 0, 2, 0, 7]));
    let mut schema = Schema::default();
    schema.fields.push(crate::made::field(0, Role::Plain, "count"));
    schema.columns.push(Column {
        kind: ColumnKind::SplitIndex64,
        bits: 64,
        field: 0,
        representation: 0,
        first_element: 0,
        range: None,
    });
    let others = [
        Values::U32(vec![3, 0, 2, 0, 7]),
        Values::I64(vec![3, 0, 2, 0, 7]),
        Values::I32(vec![3, 0, 2, 0, 7]),
    ];
    for sizes in others.map(Array::Values).into_iter().chain([sizes]) {
        let fields = [("count", &sizes)];
        let (_folder, path) = scratch();
        let options = Options { page_bytes: 16, cluster_bytes: 16, ..Options::default() };
        write_file(&path, schema.clone(), &fields, &options);
        let ntuple = open(&path);
        assert!(ntuple.all_clusters().unwrap().len() > 1);
        let read = ntuple.read(&[0], Entries { first: 0, end: 5 }).unwrap();
        assert_eq!(read, [Array::Values(Values::U64(vec![3, 0, 2, 0, 7]))]);
    }
    for wrong in [Values::U64(vec![u64::MAX, 2]), Values::I64(vec![i64::MAX, 1]), Values::I32(vec![2, -1])] {
        let wrong = Array::Values(wrong);
        let found = write::seal(&schema, &[("count", &wrong)], 0..2, &Options::default());
        assert!(matches!(found, Err(Error::NoFit { fit: Fit::Number, .. })), "{found:?}");
    }
}

#[test]
fn only_floats_are_kept_in_fewer_bits_and_only_in_as_many_as_there_are() {
    let arrays = floats_of(&[1.0]);
    let (integers, fields) = (numbers_of(1), [("wide", &arrays[0].1), ("all", &arrays[2].1)]);
    let mut schema = schema_of(&[&fields[..], &[("integers", &integers)]].concat(), Compression::None);
    let before = schema.clone();
    let mut narrow = |name, narrow| write::narrow(&mut schema, name, narrow, Compression::None);
    let quantised = |bits, low, high| Narrow::Quantised { bits, low, high };
    for (name, how) in [
        ("integers", Narrow::Half),
        ("all", Narrow::Half),
        ("wide", Narrow::Truncated { bits: 9 }),
        ("wide", Narrow::Truncated { bits: 32 }),
        ("wide", quantised(0, 0.0, 1.0)),
        ("wide", quantised(33, 0.0, 1.0)),
        ("wide", quantised(8, 1.0, 1.0)),
        ("wide", quantised(8, f64::NAN, 1.0)),
        ("wide", quantised(8, f64::MIN, f64::MAX)),
        ("wide", quantised(8, 0.0, 1e39)),
        ("wide", quantised(8, 1.0, 1.0 + 1e-9)),
    ] {
        let found = narrow(name, how);
        assert!(matches!(found, Err(Error::NoFit { fit: Fit::Column, .. })), "{name} {how:?}");
    }
    for name in ["none", "wide.x", "all.none", ""] {
        assert!(matches!(narrow(name, Narrow::Half), Err(Error::NoField { .. })), "{name}");
    }
    assert_eq!(schema, before);
}

#[test]
fn a_file_that_is_written_to_a_link_replaces_what_the_link_leads_to() {
    let folder = Folder::new();
    let (there, link) = (folder.0.join("there.bin"), folder.0.join("link.bin"));
    std::fs::write(&there, b"before").unwrap();
    std::os::unix::fs::symlink(&there, &link).unwrap();
    let mut output = dolmen_rntuple::rootfile::local_output(&link).unwrap();
    output.put_at(0, &[std::io::IoSlice::new(b"made")]).unwrap();
    assert_eq!(std::fs::read(&there).unwrap(), b"before");
    output.finish().unwrap();
    assert_eq!(std::fs::read(&there).unwrap(), b"made");
    assert_eq!(std::fs::read_link(&link).unwrap(), there);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2);
}

#[test]
fn what_a_file_went_back_from_is_not_in_it_and_writers_of_one_path_are_not_in_each_others_way() {
    let folder = Folder::new();
    let path = folder.0.join("f.root");
    let array = |first: i64| Array::Values(Values::I64((first..first + 10).collect()));
    let options = Options::default();
    let mut schema = Schema::default();
    write::schema(&mut schema, &[("x", &array(0))], options.compression).unwrap();
    let header =
        Header { name: "made".into(), description: "".into(), writer: "".into(), schema, checksum: 0 };
    let how = FileOptions { time: FileTime::of_unix(0), compression: options.compression };
    let begin = || RootWriter::create(&path, header.clone(), header.schema.known(), how).unwrap();
    let (mut writer, other) = (begin(), begin());
    let append = |writer: &mut RootWriter, first| {
        let values = array(first);
        let cluster = write::seal(&header.schema, &[("x", &values)], 0..10, &options).unwrap();
        writer.append(&cluster).unwrap();
    };
    append(&mut writer, 0);
    let so_far = writer.so_far();
    // More than there are in one page list.
    (0..100).for_each(|_| append(&mut writer, 50));
    writer.go_back(so_far);
    append(&mut writer, 10);
    other.finish().unwrap();
    writer.finish().unwrap();
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
    let ntuple = open(&path);
    let found = ntuple.read(&[0], Entries { first: 0, end: ntuple.entry_count() }).unwrap().remove(0);
    assert_eq!(found, Array::Values(Values::I64((0..20).collect())));
}
