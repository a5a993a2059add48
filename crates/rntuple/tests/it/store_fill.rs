//! Appending what has not all fields, or others: it is told which, or filled.

use crate::store_world::World;
use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::Schema;
use dolmen_rntuple::store::{Appender, CreateOptions, Fill, Number, Stored, When};
use dolmen_rntuple::write::{self, Narrow, Options};
use dolmen_rntuple::{Array, Entries, Error, Fit, Lists, OtherFields, Result, Values};

type Fields = Vec<(&'static str, Array)>;

fn ints(range: core::ops::Range<i32>) -> Array {
    Array::Values(Values::I32(range.collect()))
}

fn floats(range: core::ops::Range<i32>) -> Array {
    Array::Values(Values::F32(range.map(|at| at as f32 / 2.0).collect()))
}

fn lists(count: usize, content: Array) -> Array {
    Array::Lists { of: Lists::Items, offsets: (0..=count as i64).collect(), content: Box::new(content) }
}

/// Two fields of five entries.
fn old(first: i32) -> Fields {
    vec![("a", ints(first..first + 5)), ("b", floats(first..first + 5))]
}

/// A field of each kind, with values, of as many entries.
fn each_kind(count: usize) -> Fields {
    let end = count as i32;
    let text = Array::Lists {
        of: Lists::Text,
        offsets: (0..=count as i64).collect(),
        content: Box::new(Array::Values(Values::U8(vec![b'x'; count]))),
    };
    let record = Array::Record {
        len: count as u64,
        fields: vec![("x".into(), ints(0..end)), ("y".into(), text.clone())],
    };
    let variant = Array::Variant {
        tags: vec![1; count],
        index: (0..count as i64).collect(),
        contents: vec![ints(0..0), floats(0..end)],
    };
    vec![
        ("flag", Array::Values(Values::Bool(vec![1; count]))),
        ("weight", Array::Values(Values::F64(vec![2.5; count]))),
        ("small", Array::Values(Values::U8(vec![7; count]))),
        ("text", text),
        ("pair", Array::Repeated { count: 2, len: count as u64, content: Box::new(ints(0..2 * end)) }),
        ("items", lists(count, record.clone())),
        ("record", record),
        ("either", variant),
    ]
}

/// The same without values.
fn nothing(fields: &Fields) -> Fields {
    let none = each_kind(0);
    fields
        .iter()
        .map(|(name, _)| (*name, none.iter().find(|(other, _)| other == name).unwrap().1.clone()))
        .collect()
}

fn borrowed(fields: &Fields) -> Vec<(&str, &Array)> {
    fields.iter().map(|(name, array)| (*name, array)).collect()
}

fn create(world: &World, name: &str, fields: &Fields) -> Stored {
    create_as(world, name, fields, Compression::Zstd(1), &[])
}

/// As [`create`], with columns as they are for pages that are compressed so, but for the floats that are kept in fewer bits.
fn create_as(
    world: &World,
    name: &str,
    fields: &Fields,
    compression: Compression,
    narrow: &[(&str, Narrow)],
) -> Stored {
    let mut schema = Schema::default();
    write::schema(&mut schema, &borrowed(fields), compression).unwrap();
    for (field, how) in narrow {
        write::narrow(&mut schema, field, *how, compression).unwrap();
    }
    let header = Header { name: name.into(), description: "".into(), writer: "".into(), schema, checksum: 0 };
    let stored = world.store().create(&header, &CreateOptions::default()).unwrap();
    append(&stored, fields).unwrap();
    stored
}

fn append(stored: &Stored, fields: &Fields) -> Result<()> {
    let mut appender = stored.append()?;
    push(&mut appender, fields)?;
    appender.commit().map(drop)
}

fn push(appender: &mut Appender, fields: &Fields) -> Result<()> {
    let cluster = write::seal(appender.schema(), &borrowed(fields), 0..5, &Options::default())?;
    appender.push(&cluster)
}

/// Adds fields for all entries that there are.
fn add(stored: &Stored, types: &Fields, values: impl Fn(Entries) -> Fields) {
    let mut schema = stored.open(When::Now).unwrap().header().schema.clone();
    let before = schema.columns.len();
    write::schema(&mut schema, &borrowed(types), Compression::Zstd(1)).unwrap();
    let mut adder = stored.add_columns(&schema).unwrap();
    while let Some(&entries) = adder.missing().first() {
        let (fields, count) = (values(entries), entries.end - entries.first);
        let mut cluster = write::seal(&schema, &borrowed(&fields), 0..count, &Options::default()).unwrap();
        cluster.columns.drain(..before);
        adder.push(&cluster).unwrap();
    }
    adder.commit().unwrap();
}

fn add_each_kind(stored: &Stored) {
    add(stored, &nothing(&each_kind(1)), |entries| each_kind((entries.end - entries.first) as usize));
}

fn read(stored: &Stored, name: &str, first: u64, end: u64) -> Array {
    let ntuple = stored.open(When::Now).unwrap();
    ntuple.read(&[ntuple.field(name).unwrap()], Entries { first, end }).unwrap().remove(0)
}

fn fills() -> Vec<Fill> {
    let none = each_kind(0).into_iter().map(|(name, _)| Fill { field: name.into(), number: None });
    let mut fills: Vec<Fill> = none.collect();
    fills[1].number = Some(Number::Float(f64::NAN));
    fills[2].number = Some(Number::Signed(255));
    fills
}

fn differs(error: Result<()>) -> OtherFields {
    match error {
        Err(Error::OtherFields(fields)) => *fields,
        other => panic!("{other:?}"),
    }
}

fn names(fields: &[(Box<str>, Box<str>)]) -> Vec<(&str, &str)> {
    fields.iter().map(|(name, of)| (&**name, &**of)).collect()
}

/// What entries have that were filled: 5 of them.
fn assert_filled(stored: &Stored, first: u64) {
    let all = |name| read(stored, name, first, first + 5);
    assert_eq!(all("flag"), Array::Values(Values::Bool(vec![0; 5])));
    let Array::Values(Values::F64(weights)) = all("weight") else { panic!("it is of doubles") };
    assert!(weights.len() == 5 && weights.iter().all(|weight| weight.is_nan()));
    assert_eq!(all("small"), Array::Values(Values::U8(vec![255; 5])));
    let text = Array::Lists {
        of: Lists::Text,
        offsets: vec![0; 6],
        content: Box::new(Array::Values(Values::U8(vec![]))),
    };
    assert_eq!(all("text"), text);
    assert_eq!(
        all("pair"),
        Array::Repeated { count: 2, len: 5, content: Box::new(Array::Values(Values::I32(vec![0; 10]))) }
    );
    let Array::Lists { offsets, content, .. } = all("items") else { panic!("it is of lists") };
    assert_eq!((offsets, content.len()), (vec![0; 6], 0));
    let zeros = Array::Values(Values::I32(vec![0; 5]));
    assert_eq!(
        all("record"),
        Array::Record { len: 5, fields: vec![("x".into(), zeros), ("y".into(), text)] }
    );
    let Array::Variant { tags, .. } = all("either") else { panic!("it is a variant") };
    assert_eq!(tags, [-1; 5]);
}

#[test]
fn data_from_before_a_field_was_added_are_appended_with_what_it_is_filled_with() {
    World::each(|world| {
        let (stored, daily) = (create(&world, "events", &old(0)), create(&world, "daily", &old(100)));
        add_each_kind(&stored);
        let from = daily.open(When::Now).unwrap();
        let mut appender = stored.append().unwrap();
        let differ = differs(appender.push_all(&from));
        assert!(!differ.are_all && differ.more.is_empty() && differ.others.is_empty());
        assert_eq!(differ.missing.len(), 8);
        assert_eq!(names(&differ.missing)[..2], [("flag", "bool"), ("weight", "double")]);
        assert!(differ.to_string().contains("missing: \"flag\" (bool)"), "{differ}");
        assert_eq!(differs(append(&stored, &old(100))).missing.len(), 8);
        appender.fill(fills(), &Options::default());
        appender.push_all(&from).unwrap();
        push(&mut appender, &old(105)).unwrap();
        assert_eq!(appender.commit().unwrap().entry_count, 15);
        assert_eq!(read(&stored, "a", 5, 15), ints(100..110));
        assert_eq!(read(&stored, "b", 5, 10), floats(100..105));
        assert_eq!(read(&stored, "weight", 0, 5), each_kind(5).remove(1).1);
        assert_filled(&stored, 5);
        assert_filled(&stored, 10);
        assert!(stored.scrub(When::Now, |_| ()).unwrap().bad.is_empty());
    });
}

#[test]
fn who_appends_while_fields_are_added_is_told_which_or_has_them_filled() {
    World::each(|world| {
        let stored = create(&world, "events", &old(0));
        let begun = |fields: Vec<Fill>| {
            let mut appender = stored.append().unwrap();
            appender.fill(fields, &Options::default());
            push(&mut appender, &old(50)).unwrap();
            appender
        };
        let (mut without, mut with) = (begun(Vec::new()), begun(fills()));
        add_each_kind(&stored);
        for _ in 0..2 {
            let differ = differs(without.commit().map(drop));
            assert_eq!((differ.missing.len(), differ.are_all), (8, false));
        }
        without.discard().unwrap();
        assert_eq!(with.commit().unwrap().entry_count, 10);
        assert_eq!(read(&stored, "a", 5, 10), ints(50..55));
        assert_filled(&stored, 5);
        // What it puts from then on has all fields.
        let all: Fields = old(60).into_iter().chain(each_kind(5)).collect();
        push(&mut with, &all).unwrap();
        assert_eq!(with.commit().unwrap().entry_count, 15);
        assert_eq!(read(&stored, "items", 10, 15), each_kind(5).remove(5).1);
    });
}

#[test]
fn fields_are_found_by_their_names_and_what_is_different_is_told_with_both_types() {
    World::each(|world| {
        let stored = create(&world, "events", &old(0));
        let turned: Fields = old(20).into_iter().rev().collect();
        let turned = create(&world, "turned", &turned);
        stored.pack(&[1, 0], Some(1 << 20)).unwrap();
        let mut appender = stored.append().unwrap();
        appender.push_all(&turned.open(When::Now).unwrap()).unwrap();
        appender.commit().unwrap();
        assert_eq!((read(&stored, "a", 5, 10), read(&stored, "b", 5, 10)), (ints(20..25), floats(20..25)));
        let other = vec![("a", floats(0..5)), ("c", lists(5, ints(0..5)))];
        let other = create(&world, "other", &other);
        let mut appender = stored.append().unwrap();
        let differ = differs(appender.push_all(&other.open(When::Now).unwrap()));
        assert_eq!(names(&differ.missing), [("b", "float")]);
        assert_eq!(names(&differ.more), [("c", "std::vector<std::int32_t>")]);
        assert_eq!(differ.others, [("a".into(), "std::int32_t".into(), "float".into())]);
        let said = Error::OtherFields(Box::new(differ)).to_string();
        for part in [
            "missing: \"b\" (float)",
            "not in the ntuple: \"c\"",
            "the ntuple has std::int32_t, given is float",
        ] {
            assert!(said.contains(part), "{said}");
        }
    });
}

#[test]
fn a_field_is_filled_with_numbers_that_it_has() {
    let world = World::any();
    let stored = create(&world, "events", &old(0));
    add_each_kind(&stored);
    for (field, number, is_fine) in [
        ("small", Number::Signed(-1), false),
        ("small", Number::Unsigned(256), false),
        ("small", Number::Float(0.5), false),
        ("small", Number::Float(f64::NAN), false),
        ("flag", Number::Unsigned(2), false),
        ("weight", Number::Unsigned((1 << 53) + 1), false),
        ("text", Number::Unsigned(0), false),
        ("items", Number::Unsigned(0), false),
        ("record", Number::Unsigned(0), false),
        ("either", Number::Unsigned(0), false),
        ("pair", Number::Unsigned(0), false),
        ("small", Number::Float(3.0), true),
        ("flag", Number::Unsigned(1), true),
        ("weight", Number::Signed(-3), true),
    ] {
        let mut appender = stored.append().unwrap();
        let mut fills = fills();
        fills.iter_mut().filter(|fill| &*fill.field == field).for_each(|fill| fill.number = Some(number));
        appender.fill(fills, &Options::default());
        match push(&mut appender, &old(5)) {
            Ok(()) => assert!(is_fine, "{field} {number:?}"),
            Err(Error::NoFit { field: of, fit: Fit::Fill }) => {
                assert!(!is_fine && &*of == field, "{field}")
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_number_that_would_be_infinite_in_its_field_is_refused() {
    let world = World::any();
    let stored = create(&world, "events", &old(0));
    let types = vec![("single", floats(0..0)), ("half", floats(0..0))];
    let mut schema = stored.open(When::Now).unwrap().header().schema.clone();
    let before = schema.columns.len();
    write::schema(&mut schema, &borrowed(&types), Compression::Zstd(1)).unwrap();
    write::narrow(&mut schema, "half", Narrow::Half, Compression::Zstd(1)).unwrap();
    let mut adder = stored.add_columns(&schema).unwrap();
    let fields =
        vec![("a", ints(0..5)), ("b", floats(0..5)), ("single", floats(0..5)), ("half", floats(0..5))];
    let mut cluster = write::seal(&schema, &borrowed(&fields), 0..5, &Options::default()).unwrap();
    cluster.columns.drain(..before);
    adder.push(&cluster).unwrap();
    adder.commit().unwrap();
    for (single, half, refused) in [
        (1e40, 0.0, Some("single")),
        (-1e40, 0.0, Some("single")),
        (1.0, 65_520.0, Some("half")),
        (1.0, -1e5, Some("half")),
        (3e38, 65_504.0, None),
        (f64::INFINITY, f64::NEG_INFINITY, None),
    ] {
        let mut appender = stored.append().unwrap();
        let fill = |field: &str, number| Fill { field: field.into(), number: Some(Number::Float(number)) };
        appender.fill(vec![fill("single", single), fill("half", half)], &Options::default());
        match (push(&mut appender, &old(5)), refused) {
            (Ok(()), None) => assert!(appender.commit().is_ok()),
            (Err(Error::NoFit { field, fit: Fit::Fill }), Some(refused)) => assert_eq!(&*field, refused),
            (done, _) => panic!("{single} {half}: {done:?}"),
        }
    }
    let Array::Values(Values::F32(halves)) = read(&stored, "half", 5, 15) else { panic!("it is of floats") };
    assert_eq!((halves[0], halves[5]), (65_504.0, f32::NEG_INFINITY));
}

#[test]
fn what_is_filled_and_no_field_is_refused_with_a_word_on_those_that_there_are() {
    World::each(|world| {
        let (stored, daily) = (create(&world, "events", &old(0)), create(&world, "daily", &old(100)));
        let filling = |names: &[&str]| {
            let mut appender = stored.append().unwrap();
            let fill = |name: &&str| Fill { field: (*name).into(), number: None };
            appender.fill(names.iter().map(fill).collect(), &Options::default());
            appender
        };
        let refused = |done: Result<()>| match done {
            Err(error @ Error::NoFill { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        };
        let told = refused(filling(&["typo"]).check());
        assert!(told.contains("\"typo\", which is no field of the ntuple; its fields are a, b"), "{told}");
        add_each_kind(&stored);
        let all: Vec<&str> = each_kind(0).into_iter().map(|(name, _)| name).collect();
        for (wrong, remedy) in [
            ("wieght", "\"weight\" is one"),
            ("Weight", "\"weight\" is one"),
            ("items.x", "\"items\" is one"),
            ("luminosity", "its fields are a, b, flag, weight, small, text"),
            ("", "its fields are a, b, flag, weight"),
        ] {
            let names = [&all[..], &[wrong]].concat();
            let told = refused(filling(&names).check());
            assert!(told.contains(&format!("\"{wrong}\"")) && told.contains(remedy), "{told}");
            // Also where all that is put has all fields, and of another ntuple.
            let mut appender = filling(&names);
            push(&mut appender, &old(5).into_iter().chain(each_kind(5)).collect()).unwrap();
            appender.push_all(&daily.open(When::Now).unwrap()).unwrap();
            refused(appender.commit().map(drop));
            appender.discard().unwrap();
        }
        assert_eq!(stored.version(When::Now).unwrap().entry_count, 5);
        filling(&all).check().unwrap();
    });
}

#[test]
fn what_was_there_from_the_beginning_is_filled_as_well_and_nothing_is_made_of_fills_alone() {
    World::each(|world| {
        let stored = create(&world, "events", &old(0));
        add_each_kind(&stored);
        let only = create(&world, "only", &vec![("a", ints(100..105))]).open(When::Now).unwrap();
        let mut appender = stored.append().unwrap();
        appender.fill(fills(), &Options::default());
        let differ = differs(appender.push_all(&only));
        assert_eq!(names(&differ.missing), [("b", "float")], "and what is filled is not missing");
        assert!(differ.to_string().ends_with("; missing: \"b\" (float)"), "{differ}");
        let with_b = |number| [fills(), vec![Fill { field: "b".into(), number }]].concat();
        appender.fill(with_b(Some(Number::Float(1e40))), &Options::default());
        let found = appender.check_ntuple(&only.header().schema);
        assert!(matches!(found, Err(Error::NoFit { field, fit: Fit::Fill }) if &*field == "b"));
        appender.fill(with_b(Some(Number::Float(2.5))), &Options::default());
        assert!(appender.check_ntuple(&only.header().schema).unwrap().is_empty());
        appender.push_all(&only).unwrap();
        push(&mut appender, &vec![("a", ints(105..110))]).unwrap();
        assert_eq!(appender.commit().unwrap().entry_count, 15);
        assert_eq!(read(&stored, "a", 5, 15), ints(100..110));
        assert_eq!(read(&stored, "b", 5, 15), Array::Values(Values::F32(vec![2.5; 10])));
        assert_filled(&stored, 5);
        assert_filled(&stored, 10);
        // Of nothing that the ntuple has no entries are made.
        let none = create(&world, "none", &vec![("z", ints(0..5))]).open(When::Now).unwrap();
        let a = Fill { field: "a".into(), number: None };
        appender.fill([with_b(None), vec![a]].concat(), &Options::default());
        appender.leave_out(true);
        for found in [appender.push_all(&none), appender.check_ntuple(&none.header().schema).map(drop)] {
            let differ = differs(found);
            assert_eq!((differ.are_all, differ.missing.len(), differ.more.len()), (true, 10, 0));
            assert!(differ.to_string().contains("not made of what is filled alone"), "{differ}");
        }
        assert!(stored.scrub(When::Now, |_| ()).unwrap().bad.is_empty());
    });
}

#[test]
fn what_the_ntuple_has_not_is_left_out_where_that_is_asked_for_and_its_pages_are_not_stored() {
    World::each(|world| {
        let (stored, plain) = (create(&world, "events", &old(0)), create(&world, "plain", &old(0)));
        let more: Fields = each_kind(5).into_iter().chain(old(20).into_iter().rev()).collect();
        let more = create(&world, "more", &more).open(When::Now).unwrap();
        let mut appender = stored.append().unwrap();
        let differ = differs(appender.push_all(&more));
        assert!(differ.missing.is_empty() && differ.others.is_empty());
        assert_eq!((differ.more.len(), names(&differ.more)[1]), (8, ("weight", "double")));
        assert!(differ.to_string().contains("; not in the ntuple: \"flag\" (bool), "), "{differ}");
        appender.leave_out(true);
        let left: Vec<String> =
            appender.check_ntuple(&more.header().schema).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!((left.len(), &*left[0]), (8, "\"flag\" (bool) is no field of the ntuple"));
        let held = || if world.is_bucket() { world.bucket().cluster_bytes() } else { 0 };
        let before = held();
        appender.push_all(&more).unwrap();
        assert_eq!(appender.commit().unwrap().entry_count, 10);
        let between = held();
        append(&plain, &old(20)).unwrap();
        assert_eq!(between - before, held() - between);
        assert_eq!(
            (read(&stored, "a", 0, 10), read(&stored, "b", 5, 10)),
            (read(&plain, "a", 0, 10), floats(20..25))
        );
        let bytes =
            |stored: &Stored| stored.scrub(When::Now, |_| ()).map(|done| (done.pages, done.bytes)).unwrap();
        assert_eq!(bytes(&stored), bytes(&plain));
        // What is of another type is not left out.
        let other = create(&world, "other", &vec![("a", floats(0..5)), ("b", floats(0..5))]);
        assert_eq!(differs(appender.push_all(&other.open(When::Now).unwrap())).others.len(), 1);
    });
}

/// What the test of ends anywhere begins with: an ntuple with a field more than another has.
pub(crate) fn begun(world: &World) -> (Stored, Stored) {
    let (stored, daily) = (create(world, "events", &old(0)), create(world, "daily", &old(5)));
    add_each_kind(&stored);
    (stored, daily)
}

pub(crate) fn append_filled(stored: &Stored, daily: &Stored) -> Result<()> {
    let mut appender = stored.append()?;
    appender.fill(fills(), &Options::default());
    appender.push_all(&daily.open(When::Now)?)?;
    appender.commit().map(drop)
}

pub(crate) fn assert_appended(stored: &Stored, is_done: bool) {
    let count = stored.version(When::Now).unwrap().entry_count;
    assert!(count == 10 || count == 5 && !is_done, "{count}");
    if count == 10 {
        assert_eq!(read(stored, "a", 5, 10), ints(5..10));
        assert_filled(stored, 5);
    }
}

#[test]
fn what_stores_the_same_fields_otherwise_is_appended_by_value_unless_bits_would_be_lost() {
    World::each(|world| {
        let all = |first: i32| -> Fields { old(first).into_iter().chain(each_kind(5)).collect() };
        let (split, plain) = (Compression::Zstd(1), Compression::None);
        for (own, other) in [(split, plain), (plain, split)] {
            let stored = create_as(&world, "events", &all(0), own, &[]);
            let daily = create_as(&world, "daily", &all(100), other, &[]);
            append(&daily, &all(200)).unwrap();
            let mut appender = stored.append().unwrap();
            let (mut told, daily) = (Vec::new(), daily.open(When::Now).unwrap());
            assert!(appender.check_ntuple(&daily.header().schema).unwrap().is_empty());
            appender.push_all_telling(&daily, |entries| told.push(entries)).unwrap();
            appender.commit().unwrap();
            assert_eq!(told, [5, 10]);
            for (nth, first) in [0, 100, 200].into_iter().enumerate() {
                for (name, values) in all(first) {
                    let first = 5 * nth as u64;
                    assert_eq!(read(&stored, name, first, first + 5), values, "{name}");
                }
            }
            assert!(stored.scrub(When::Now, |_| ()).unwrap().bad.is_empty());
            world.store().destroy("events").unwrap();
            world.store().destroy("daily").unwrap();
        }
        // What is kept in half of the bits is not asked for them.
        let stored = create_as(&world, "events", &old(0), split, &[("b", Narrow::Half)]);
        let daily = create(&world, "daily", &old(100)).open(When::Now).unwrap();
        let mut appender = stored.append().unwrap();
        let other = differs(appender.push_all(&daily));
        assert_eq!(other.others.len(), 1);
        assert!(other.others[0].1.contains("stored as Real16 of 16 bits"), "{other:?}");
        appender.discard().unwrap();
        world.store().destroy("events").unwrap();
        world.store().destroy("daily").unwrap();
    });
}
