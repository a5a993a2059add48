//! Files of Parquet from ntuples, read by Arrow.

use crate::common::Place;
use crate::ntuples::write_file;
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{Array, Lists, Values};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Entries of more than a row group.
const COUNT: usize = 66_000;

/// Prints the schema, and each entry.
const READER: &str = r#"
import json, sys
import pyarrow.parquet as pq
file = pq.ParquetFile(sys.argv[1])
print(json.dumps([[field.name, str(field.type)] for field in file.schema_arrow]))
print(json.dumps([file.num_row_groups, file.metadata.num_rows, file.metadata.created_by[:6]]))
for entry in file.read().to_pylist():
    print(json.dumps(entry))
"#;

/// The Python of the tests: below the target directory, however far above the program that this is.
fn python() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let found =
        own.ancestors().map(|place| place.join("python-tests/bin/python")).find(|program| program.exists());
    found.expect("there is a Python for the tests; `cargo xtask tools` makes it")
}

fn lists(of: Lists, count: impl Fn(usize) -> usize, content: impl Fn(usize) -> Array, len: usize) -> Array {
    let mut offsets = vec![0];
    for at in 0..len {
        offsets.push(offsets[at] + i64::try_from(count(at)).unwrap());
    }
    let all = usize::try_from(offsets[len]).unwrap();
    Array::Lists { of, offsets, content: Box::new(content(all)) }
}

/// Fields of all kinds of values, and of lists in lists.
fn fields() -> Vec<(&'static str, Array)> {
    let numbers = |values: Values| Array::Values(values);
    let small = |at: usize| u8::try_from(at % 251).unwrap();
    let whole = |at: usize| i64::try_from(at).unwrap();
    let floats = |len: usize| numbers(Values::F32((0..len).map(|at| f32::from(small(at)) / 8.0).collect()));
    let texts = |len: usize| {
        let letters = |all: usize| numbers(Values::U8((0..all).map(|at| b'a' + small(at) % 26).collect()));
        lists(Lists::Text, |at| at % 3, letters, len)
    };
    let item = |len: usize| Array::Record {
        len: len as u64,
        fields: vec![("pt".into(), floats(len)), ("name".into(), texts(len))],
    };
    vec![
        ("bool", numbers(Values::Bool((0..COUNT).map(|at| u8::from(at % 3 == 0)).collect()))),
        ("i8", numbers(Values::I8((0..COUNT).map(|at| i8::from_le_bytes([small(at)])).collect()))),
        ("u8", numbers(Values::U8((0..COUNT).map(small).collect()))),
        ("i16", numbers(Values::I16((0..COUNT).map(|at| -i16::from(small(at)) * 100).collect()))),
        ("u16", numbers(Values::U16((0..COUNT).map(|at| u16::from(small(at)) * 256).collect()))),
        ("i32", numbers(Values::I32((0..COUNT).map(|at| -i32::from(small(at)) << 20).collect()))),
        ("u32", numbers(Values::U32((0..COUNT).map(|at| u32::from(small(at)) << 24).collect()))),
        ("i64", numbers(Values::I64((0..COUNT).map(|at| -whole(at) << 40).collect()))),
        ("u64", numbers(Values::U64((0..COUNT).map(|at| u64::MAX - at as u64).collect()))),
        ("f32", floats(COUNT)),
        ("f64", numbers(Values::F64((0..COUNT).map(|at| f64::from(small(at)) * 1e300).collect()))),
        ("text", texts(COUNT)),
        ("list", lists(Lists::Items, |at| at % 4, floats, COUNT)),
        (
            "lists",
            lists(Lists::Items, |at| at % 3, |len| lists(Lists::Items, |at| at % 2, texts, len), COUNT),
        ),
        ("items", lists(Lists::Items, |at| at % 2, item, COUNT)),
        ("pair", Array::Repeated { count: 2, len: COUNT as u64, content: Box::new(floats(2 * COUNT)) }),
        ("one", item(COUNT)),
    ]
}

fn make_file(place: &Place, fields: &[(&str, Array)]) {
    let fields: Vec<(&str, &Array)> = fields.iter().map(|(name, array)| (*name, array)).collect();
    let options = Options { cluster_bytes: 1 << 20, ..Options::default() };
    write_file(&place.path("in.root"), &fields, &options, 1);
}

#[test]
fn arrow_reads_from_a_file_of_parquet_what_an_ntuple_has() {
    let place = Place::new("ntuples-parquet");
    make_file(&place, &fields());
    let made = place.json(&["ntuple", "to-parquet", "in.root", "--to", "out.parquet"]);
    assert_eq!(made, json!({ "entries": COUNT, "row_groups": 2, "left_out": [] }));
    let read = Command::new(python()).args(["-c", READER]).arg(place.path("out.parquet")).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let read = String::from_utf8(read.stdout).unwrap();
    let mut lines = read.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let types = [
        ("bool", "bool"),
        ("i8", "int8"),
        ("u8", "uint8"),
        ("i16", "int16"),
        ("u16", "uint16"),
        ("i32", "int32"),
        ("u32", "uint32"),
        ("i64", "int64"),
        ("u64", "uint64"),
        ("f32", "float"),
        ("f64", "double"),
        ("text", "string"),
        ("list", "list<element: float not null>"),
        ("lists", "list<element: list<element: string not null> not null>"),
        ("items", "list<element: struct<pt: float not null, name: string not null> not null>"),
        ("pair", "list<element: float not null>"),
        ("one", "struct<pt: float not null, name: string not null>"),
    ];
    assert_eq!(lines.next(), Some(json!(types)));
    assert_eq!(lines.next(), Some(json!([2, COUNT, "Dolmen"])));
    let entries = place.ok(&["ntuple", "read", "in.root"]);
    let mut entries = entries.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    for nth in 0..COUNT {
        assert_eq!(lines.next(), entries.next(), "entry {nth}");
    }
    assert_eq!((lines.next(), entries.next()), (None, None));

    // Of a part those that pass.
    let some = ["--first", "3", "--count", "65700", "--filter", "len(list) != 1", "--filter", "i32 <= 0"];
    let made =
        place.json(&[&["ntuple", "to-parquet", "in.root", "--to", "some.parquet"], &some[..]].concat());
    assert_eq!(made["row_groups"], 2);
    let read = place.ok(&[&["ntuple", "read", "in.root"], &some[..]].concat());
    let ran = Command::new(python()).args(["-c", READER]).arg(place.path("some.parquet")).output().unwrap();
    let ran = String::from_utf8(ran.stdout).unwrap();
    let [parquet, wanted] =
        [&ran, &read].map(|text| text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    let wanted: Vec<_> = wanted.collect();
    assert_eq!(made["entries"], wanted.len());
    assert!(parquet.skip(2).eq(wanted), "other entries are there");
    fs::remove_file(place.path("some.parquet")).unwrap();

    // It has its name when it is whole.
    let before = fs::read(place.path("out.parquet")).unwrap();
    place.fails(3, &["ntuple", "to-parquet", "in.root", "-f", "none", "--to", "out.parquet"]);
    assert_eq!(fs::read(place.path("out.parquet")).unwrap(), before);
    assert!(
        place
            .fails(3, &["ntuple", "to-parquet", "in.root", "--to", "none/x"])
            .contains("none/x: no such file")
    );
    assert_eq!(fs::read_dir(place.path(".")).unwrap().count(), 2);
}

#[test]
fn fields_that_no_columns_of_parquet_are_as_are_named_and_left_out_if_that_is_wanted() {
    let place = Place::new("ntuples-parquet-left-out");
    let number = Array::Values(Values::I32(vec![7, 8]));
    let empty = Array::Record { len: 2, fields: Vec::new() };
    let names: Vec<String> = (0..14).map(|nth| format!("empty{nth}")).collect();
    let lists = Array::Lists { of: Lists::Items, offsets: vec![0, 1, 2], content: Box::new(empty.clone()) };
    let mut fields = vec![("n", &number)];
    fields.extend(names.iter().skip(1).map(|name| (&**name, &empty)));
    fields.push((&*names[0], &lists));
    write_file(&place.path("in.root"), &fields, &Options::default(), 1);
    let to_parquet =
        |more: &[&'static str]| [&["ntuple", "to-parquet", "in.root", "--to", "out.parquet"], more].concat();
    let all = place.fails(2, &to_parquet(&[]));
    let told = "no columns of Parquet are as fields \"empty1\", ";
    let rest = "\"empty12\", and 2 others are; --leave-out leaves such fields out, and --field names those that are wanted\n";
    assert!(all.contains(told) && all.ends_with(rest), "{all}");
    assert!(!place.path("out.parquet").exists());
    let one = place.fails(2, &to_parquet(&["-f", "n", "-f", "empty0"]));
    assert!(one.contains("as field \"empty0\" is; --leave-out"), "{one}");
    let none = place.fails(2, &to_parquet(&["--leave-out", "-f", "empty1"]));
    assert!(none.ends_with("as field \"empty1\" is; --field names those that are wanted\n"), "{none}");
    let made = place.json(&to_parquet(&["--leave-out"]));
    assert_eq!((&made["entries"], made["left_out"].as_array().unwrap().len()), (&json!(2), 14));
    assert_eq!(made["left_out"][13], "\"empty0\": no columns of Parquet are as it is");
    let read = Command::new(python()).args(["-c", READER]).arg(place.path("out.parquet")).output().unwrap();
    let read = String::from_utf8(read.stdout).unwrap();
    assert_eq!(read.lines().skip(2).collect::<Vec<_>>(), ["{\"n\": 7}", "{\"n\": 8}"]);
}

#[test]
fn texts_that_are_none_are_told_and_no_file_of_parquet_has_them() {
    let place = Place::new("ntuples-parquet-bytes");
    let bytes = Array::Values(Values::U8(b"ab\xff".to_vec()));
    let texts = Array::Lists { of: Lists::Text, offsets: vec![0, 2, 3], content: Box::new(bytes) };
    let lists = Array::Lists { of: Lists::Items, offsets: vec![0, 1, 2], content: Box::new(texts.clone()) };
    let number = Array::Values(Values::I32(vec![7, 8]));
    let fields = [("n", &number), ("s", &texts), ("of", &lists)];
    write_file(&place.path("in.root"), &fields, &Options::default(), 1);
    for name in ["s", "of"] {
        let to = ["ntuple", "to-parquet", "in.root", "--to", "out.parquet", "-f", name];
        let told = place.fails(2, &to);
        let wanted = format!("field \"{name}\" has texts in entries 0 to 2 that are no UTF-8");
        assert!(told.contains(&wanted) && !place.path("out.parquet").exists(), "{told}");
        // Of those that pass.
        let passing =
            ["ntuple", "to-parquet", "in.root", "--to", "out.parquet", "-f", name, "--filter", "n < 8"];
        assert_eq!(place.json(&passing)["entries"], 1);
        std::fs::remove_file(place.path("out.parquet")).unwrap();
    }
}
