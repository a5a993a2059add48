//! `dolmen ntuple`.

use crate::common::Place;
use dolmen_client::{At, ContName, Credentials, Label, ObjectClass, ObjectType, Oid, Pool};
use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::Schema;
use dolmen_rntuple::rootfile::{FileOptions, FileTime, RootFile, RootWriter};
use dolmen_rntuple::store::{Store, StoreOptions};
use dolmen_rntuple::write::{self, Options};
use dolmen_rntuple::{Array, Entries, Lists, Ntuple, Values};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

pub(crate) const COUNT: i32 = 3000;

/// A file of ROOT with an ntuple "events" of several clusters.
pub(crate) fn make_file(path: &Path) {
    let numbers = Array::Values(Values::I32((0..COUNT).collect()));
    let energies = Array::Values(Values::F64((0..COUNT).map(|at| f64::from(at) * 0.5).collect()));
    let ends = (0..=i64::from(COUNT)).map(|at| at * 2).collect();
    let content = Box::new(Array::Values(Values::F32((0..2 * COUNT).map(|_| 1.5).collect())));
    let hits = Array::Lists { of: Lists::Items, offsets: ends, content };
    let fields = [("number", &numbers), ("energy", &energies), ("hits", &hits)];
    let options = Options { page_bytes: 2000, cluster_bytes: 30_000, ..Options::default() };
    write_file(path, &fields, &options, 1);
}

/// Writes a file of ROOT with an ntuple "events" of these fields, all of their entries so many times.
pub(crate) fn write_file(path: &Path, fields: &[(&str, &Array)], options: &Options, times: usize) {
    let mut schema = Schema::default();
    write::schema(&mut schema, fields, options.compression).unwrap();
    let header = Header {
        name: "events".into(),
        description: "".into(),
        writer: "a test".into(),
        schema: schema.clone(),
        checksum: 0,
    };
    let how = FileOptions { time: FileTime::of_unix(0), compression: Compression::None };
    let mut writer = RootWriter::create(path, header, schema.known(), how).unwrap();
    for entries in write::cut(fields, options).unwrap() {
        let cluster = write::seal(&schema, fields, entries, options).unwrap();
        (0..times).for_each(|_| writer.append(&cluster).unwrap());
    }
    writer.finish().unwrap();
}

/// The first field of a file's ntuple.
pub(crate) fn numbers(path: &Path) -> Vec<i32> {
    let mut file = RootFile::open(path).unwrap();
    let anchor = file.anchor("events").unwrap();
    let ntuple = Ntuple::open(file, &anchor).unwrap();
    let all = Entries { first: 0, end: ntuple.entry_count() };
    let Array::Values(Values::I32(numbers)) = ntuple.read(&[0], all).unwrap().remove(0) else { panic!() };
    numbers
}

#[test]
fn an_ntuple_is_imported_appended_to_kept_and_exported() {
    let place = Place::new("ntuples");
    place.pool_with_files();
    make_file(&place.path("in.root"));
    assert_eq!(place.ok(&["ntuple", "list", "in.root"]), "events\n");
    assert_eq!(place.ok(&["ntuple", "list", "p", "c"]), "no ntuples\n");
    let made = place.json(&["ntuple", "import", "p", "c", "in.root"]);
    assert_eq!(made["entries"], COUNT);
    assert!(place.fails(4, &["ntuple", "import", "p", "c", "in.root"]).contains("events"));
    place.ok(&["ntuple", "tag", "p", "c", "events", "first"]);
    assert_eq!(place.json(&["ntuple", "append", "p", "c", "events", "in.root"])["entries"], 2 * COUNT);
    let versions = place.json(&["ntuple", "versions", "p", "c", "events"]);
    let versions = versions.as_array().unwrap();
    assert_eq!(versions.len(), 2);
    assert_eq!((&versions[0]["tags"][0], &versions[0]["entries"]), (&"first".into(), &COUNT.into()));
    let shown = place.ok(&["ntuple", "show", "p", "c", "events"]);
    assert!(shown.contains("6000 entries") && shown.contains("std::vector<float>"), "{shown}");
    let first = place.json(&["ntuple", "show", "p", "c", "events", "--tag", "first"]);
    assert_eq!(first["entries"], COUNT);
    place.ok(&["ntuple", "export", "p", "c", "events", "--to", "out.root"]);
    let twice: Vec<i32> = (0..COUNT).chain(0..COUNT).collect();
    assert_eq!(numbers(&place.path("out.root")), twice);
    place.ok(&["ntuple", "export", "p", "c", "events", "--tag", "first", "--to", "out.root"]);
    assert_eq!(numbers(&place.path("out.root")), (0..COUNT).collect::<Vec<_>>());
    place.ok(&["ntuple", "untag", "p", "c", "events", "first"]);
    place.fails(3, &["ntuple", "show", "p", "c", "events", "--tag", "first"]);
    place.ok(&["ntuple", "destroy", "p", "c", "events"]);
    place.fails(3, &["ntuple", "show", "p", "c", "events"]);
    place.ok(&["ntuple", "gc", "p", "c"]);
}

#[test]
fn an_ntuple_is_cloned_reshaped_and_scrubbed() {
    let place = Place::new("ntuples-made");
    place.pool_with_files();
    make_file(&place.path("in.root"));
    for (name, why) in [("x y", "has a space"), ("a/b", "'/'"), ("a.b", "'.'"), ("", "empty")] {
        let refused = place.fails(2, &["ntuple", "import", "p", "c", "in.root", "--name", name]);
        assert!(
            refused.contains(&format!("cannot have the name \"{name}\"")) && refused.contains(why),
            "{refused}"
        );
    }
    place.ok(&["ntuple", "import", "p", "c", "in.root", "--name", "mine"]);
    place.ok(&["ntuple", "clone", "p", "c", "mine", "part", "--field", "energy"]);
    let part = place.json(&["ntuple", "show", "p", "c", "part"]);
    assert_eq!(part["fields"].as_array().unwrap().len(), 1);
    let before = place.json(&["ntuple", "show", "p", "c", "mine"]);
    let reshaped = ["ntuple", "reshape", "p", "c", "mine", "--compression", "none", "--cluster", "1M"];
    assert_eq!(place.json(&reshaped)["made"], "Reshaped");
    let after = place.json(&["ntuple", "show", "p", "c", "mine"]);
    assert!(after["stored_bytes"].as_u64() > before["stored_bytes"].as_u64(), "{before} {after}");
    assert!(after["clusters"].as_u64() < before["clusters"].as_u64(), "{before} {after}");
    place.fails(2, &["ntuple", "reshape", "p", "c", "mine", "--compression", "snappy"]);
    place.fails(2, &["ntuple", "reshape", "p", "c", "mine", "--compression", "zlib:12"]);
    // From the midst of a cluster on: it is told where that begins which was done.
    let one = place.json(&["ntuple", "reshape", "p", "c", "mine", "--cluster", "64K"]);
    assert_eq!((&one["first_entry"], &one["end_entry"]), (&json!(0), &json!(COUNT)));
    assert!(one["clusters"].as_u64() > Some(1), "{one}");
    let from = |first: &str| ["ntuple", "reshape", "p", "c", "mine", "--first", first].map(str::to_owned);
    let words = |first: &str| place.ok(&from(first).each_ref().map(String::as_str));
    let told = words("1");
    let begun = told.strip_prefix("entries ").and_then(|told| told.split(' ').next()).unwrap();
    assert!(begun.parse::<i32>().unwrap() > 1, "{told}");
    assert!(told.contains(&format!(" to {} are written anew; version ", COUNT - 1)), "{told}");
    let told = words("2999");
    assert!(told.starts_with("no cluster begins at entry 2999 or behind it: nothing is written"), "{told}");
    let scrubbed = place.json(&["ntuple", "scrub", "p", "c", "part", "--repair-from", "in.root"]);
    assert_eq!(scrubbed["bad"].as_array().unwrap().len(), 0);
    assert!(scrubbed["pages"].as_u64().unwrap() > 5, "{scrubbed}");
}

#[test]
fn what_reading_takes_is_told_and_drawn_of_files_and_of_containers() {
    let place = Place::new("ntuples-cost");
    place.pool_with_files();
    make_file(&place.path("in.root"));
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    let of_file = place.json(&["ntuple", "estimate", "in.root", "--field", "energy"]);
    let stored = place.json(&["ntuple", "estimate", "p", "c", "events", "--field", "energy"]);
    assert_eq!(of_file["memory_bytes"], 8 * COUNT);
    for of_both in ["stored_bytes", "pages", "entries", "clusters"] {
        assert_eq!(of_file[of_both], stored[of_both], "{of_both}");
    }
    assert_eq!(stored["requests"], stored["clusters"]);
    let slow = place.json(&["ntuple", "estimate", "in.root", "--latency", "2", "--medium", "hdd"]);
    assert!(slow["seconds"].as_f64().unwrap() >= 2.0, "{slow}");
    assert!(place.ok(&["ntuple", "estimate", "in.root"]).contains("a month"));
    // Prices of one's own are in no money that is known.
    let prices =
        ["--put-price", "5000", "--get-price", "2000", "--storage-price", "1e9", "--traffic-price", "0"];
    for medium in [&["--medium", "ssd"][..], &["--latency", "0.1", "--bandwidth", "1G"]] {
        let estimate = [&["ntuple", "estimate", "p", "c", "events"], medium, &prices].concat();
        let cost = place.json(&estimate);
        let [requests, stored] = ["requests", "stored_bytes"].map(|key| cost[key].as_f64().unwrap());
        assert_eq!(
            (cost["money_reading"].as_f64(), cost["money_month"].as_f64()),
            (Some(requests * 2.0), Some(stored))
        );
        assert_eq!(cost["money_writing"].as_f64().unwrap() % 5.0, 0.0, "{cost}");
        let text = place.ok(&estimate);
        assert!(text.contains(&format!("a month       {stored:.2}\n")) && !text.contains('$'), "{text}");
    }
    assert!(!place.ok(&["ntuple", "estimate", "in.root", "--medium", "ssd"]).contains("a month"));
    place.fails(2, &["ntuple", "estimate", "in.root", "--get-price=-1"]);
    let told = place.ok(&["ntuple", "plot", "p", "c", "events", "--to", "fields.png", "--top", "2"]);
    assert_eq!(told, "2 of 3 fields in fields.png\n");
    let drawn = place.json(&[&["ntuple", "plot", "in.root", "--to", "fields.png"], &prices[..]].concat());
    let reading: f64 = drawn["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field["money_reading"].as_f64().unwrap())
        .sum();
    assert_eq!(reading, 3.0 * 2.0 * of_file["clusters"].as_f64().unwrap(), "{drawn}");
    write_file(
        &place.path("none.root"),
        &[("n", &Array::Values(Values::I32(Vec::new())))],
        &Options::default(),
        1,
    );
    let told = place.ok(&["ntuple", "plot", "none.root", "--to", "none.png"]);
    assert_eq!(told, "0 of 1 field in none.png; no others have bytes of their own\n");
    assert!(place.ok(&["ntuple", "estimate", "none.root"]).contains("fields        1\n"));
    let picture = fs::read(place.path("fields.png")).unwrap();
    assert!(picture.starts_with(b"\x89PNG\r\n") && picture.len() > 500);
    assert!(place.fails(3, &["ntuple", "estimate", "in.root", "--field", "none"]).contains("none"));
    assert!(place.fails(3, &["ntuple", "show", "nowhere.root"]).contains("nowhere.root"));
    assert!(place.fails(7, &["ntuple", "show", "fields.png"]).contains("fields.png"));
    place.fails(2, &["ntuple", "show", "in.root", "--tag", "first"]);
    place.fails(2, &["ntuple", "estimate", "in.root", "--latency=-1"]);
}

#[test]
fn what_a_file_lacks_of_fields_is_filled() {
    let place = Place::new("ntuples-filled");
    place.pool_with_files();
    make_file(&place.path("in.root"));
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    let count = usize::try_from(COUNT).unwrap();
    let weights = Array::Values(Values::F32(vec![2.0; count]));
    let content = Box::new(Array::Values(Values::I64(vec![7; count])));
    let lists = Array::Lists { of: Lists::Items, offsets: (0..=i64::from(COUNT)).collect(), content };
    let added = [("weight", &weights), ("runs", &lists)];
    write_file(&place.path("added.root"), &added, &Options::default(), 1);
    place.ok(&["ntuple", "add-column", "p", "c", "events", "--from", "added.root"]);

    let append = ["ntuple", "append", "p", "c", "events", "in.root"];
    let with = |more: &[&'static str]| [&append[..], more].concat();
    let lacks = place.fails(2, &append);
    assert!(lacks.contains("missing: \"weight\" (float), \"runs\""), "{lacks}");
    assert!(
        lacks.ends_with("; add --fill weight=VALUE --fill runs=VALUE, with the value of each\n"),
        "{lacks}"
    );
    let runs = place.fails(2, &with(&["--fill", "weight=0.5"]));
    assert!(runs.ends_with("; add --fill runs=VALUE, with the value of each\n"), "{runs}");
    let of_list = place.fails(2, &with(&["--fill", "weight=0.5", "--fill", "runs=1"]));
    assert!(of_list.contains("\"runs\""), "{of_list}");
    let twice = place.fails(2, &with(&["--fill", "weight=1", "--fill", "weight=2"]));
    assert!(twice.contains("--fill names field \"weight\" twice"), "{twice}");
    let no_number = place.fails(2, &with(&["--fill", "weight=one"]));
    assert!(no_number.contains("as in weight=1"), "{no_number}");
    let right = ["--fill", "weight=0.5", "--fill", "runs="];
    let typo = place.fails(2, &with(&[&right[..], &["--fill", "wieght=1"]].concat()));
    assert!(typo.contains("\"wieght\", which is no field of the ntuple; \"weight\" is one"), "{typo}");
    let infinite = place.fails(2, &with(&["--fill", "weight=1e40", "--fill", "runs="]));
    assert!(
        infinite.contains("\"weight\" cannot be filled so: give a number that its type has"),
        "{infinite}"
    );
    // Also of what was there from the beginning; but nothing is made of that alone.
    let numbers = Array::Values(Values::I32((0..COUNT).collect()));
    write_file(
        &place.path("some.root"),
        &[("number", &numbers), ("weight", &weights)],
        &Options::default(),
        1,
    );
    let some = ["ntuple", "append", "p", "c", "events", "some.root", "--fill", "runs="];
    let lacks = place.fails(2, &some);
    assert!(lacks.contains("missing: \"energy\" (double), \"hits\""), "{lacks}");
    assert!(
        lacks.ends_with("; add --fill energy=VALUE --fill hits=VALUE, with the value of each\n"),
        "{lacks}"
    );
    write_file(&place.path("none.root"), &[("other", &weights)], &Options::default(), 1);
    let all = ["number=0", "energy=0", "hits=", "weight=0", "runs="].map(|fill| ["--fill", fill]).concat();
    let none = place.fails(
        2,
        &[&["ntuple", "append", "p", "c", "events", "none.root", "--leave-out"], &all[..]].concat(),
    );
    assert!(none.ends_with("entries are not made of what is filled alone\n"), "{none}");
    assert_eq!(place.json(&["ntuple", "show", "p", "c", "events"])["entries"], COUNT, "as before");

    let filled = place.json(&with(&["--fill", "weight=0.5", "--fill", "runs="]));
    assert_eq!(filled["entries"], 2 * COUNT);
    let read = ["ntuple", "read", "p", "c", "events", "-f", "number", "-f", "weight", "-f", "runs"];
    let lines = place.ok(&[&read[..], &["--first", "2999", "--count", "2"]].concat());
    let told = "{\"number\":2999,\"weight\":2.0,\"runs\":[7]}\n{\"number\":0,\"weight\":0.5,\"runs\":[]}\n";
    assert_eq!(lines, told);
    place.ok(&[&some[..], &["--fill", "energy=-1", "--fill", "hits="]].concat());
    let read = ["ntuple", "read", "p", "c", "events", "--first", "8999"];
    assert_eq!(place.ok(&read), "{\"number\":2999,\"energy\":-1.0,\"hits\":[],\"weight\":2.0,\"runs\":[]}\n");
}

/// Files of one experiment: "old" without a trigger, "now" with it, and "odd" with another field beside.
fn make_days(place: &Place) {
    let range = |first: i32| Array::Values(Values::I32((first..first + 100).collect()));
    let trigger = Array::Values(Values::Bool(vec![1; 100]));
    let write =
        |name: &str, fields: &[(&str, &Array)]| write_file(&place.path(name), fields, &Options::default(), 1);
    write("old.root", &[("number", &range(0))]);
    write("now.root", &[("trigger", &trigger), ("number", &range(100))]);
    write("odd.root", &[("number", &range(200)), ("trigger", &trigger), ("odd", &range(0))]);
    write("wrong.root", &[("number", &trigger), ("trigger", &trigger)]);
}

#[test]
fn several_files_are_appended_in_one_version_or_none_of_them() {
    let place = Place::new("ntuples-several");
    place.pool_with_files();
    make_days(&place);
    place.ok(&["ntuple", "import", "p", "c", "now.root"]);
    let append = ["ntuple", "append", "p", "c", "events"];
    let with = |more: &[&'static str]| [&append[..], more].concat();
    // All are looked at before anything is appended, and the file is told.
    for (files, file, why) in [
        (
            &["now.root", "old.root"][..],
            "old.root",
            "missing: \"trigger\" (bool); add --fill trigger=VALUE, with the value of each\n",
        ),
        (
            &["now.root", "odd.root", "old.root"],
            "odd.root",
            "not in the ntuple: \"odd\" (std::int32_t); add --leave-out to append the others\n",
        ),
        (
            &["now.root", "wrong.root"],
            "wrong.root",
            "of another type: \"number\" (the ntuple has std::int32_t, given is bool)\n",
        ),
    ] {
        let told = place.fails(2, &with(files));
        assert!(told.contains(&format!("cannot append {file} to ntuple events of container c: ")), "{told}");
        assert!(told.ends_with(why), "{told}");
    }
    let nowhere = place.fails(3, &with(&["now.root", "nowhere.root"]));
    assert!(nowhere.contains("nowhere.root"), "{nowhere}");
    let bucket = place.fails(2, &with(&["now.root", "s3://b"]));
    assert!(bucket.contains("a bucket, and no file in it"), "{bucket}");
    let versions =
        |place: &Place| place.json(&["ntuple", "versions", "p", "c", "events"]).as_array().unwrap().len();
    assert_eq!(versions(&place), 1);
    let all = with(&["old.root", "now.root", "odd.root", "--fill", "trigger=false", "--leave-out"]);
    let told = place.json(&all);
    let left_out = json!(["odd.root: \"odd\" (std::int32_t) is no field of the ntuple"]);
    assert_eq!((&told["entries"], &told["version"], &told["left_out"]), (&json!(400), &json!(2), &left_out));
    assert_eq!(versions(&place), 2);
    let rows = place.ok(&["ntuple", "read", "p", "c", "events", "--first", "100"]);
    let row = |nth: usize| rows.lines().nth(nth).unwrap();
    assert_eq!((row(0), row(299)), ("{\"trigger\":false,\"number\":0}", "{\"trigger\":true,\"number\":299}"));
    let text = place.ok(&with(&["odd.root", "--leave-out"]));
    assert!(
        text.ends_with("\nleft out: odd.root: \"odd\" (std::int32_t) is no field of the ntuple\n"),
        "{text}"
    );
    // A pattern is of all fields that it fits, but for those that are named.
    let filled = |fills: &[&'static str]| {
        let told = place.json(&with(&[&["old.root", "--fill"], fills].concat()));
        let entries = told["entries"].as_u64().unwrap();
        let last = place.ok(&["ntuple", "read", "p", "c", "events", "--first", &(entries - 1).to_string()]);
        last.contains("\"trigger\":true")
    };
    assert!(filled(&["trig*=1"]) && !filled(&["*="]) && filled(&["*=", "--fill", "trigger=1"]));
    let none = place.fails(3, &with(&["old.root", "--fill", "x*="]));
    assert!(none.contains("no field fits \"x*\" of --fill"), "{none}");
    // More files than stay open.
    let many = [&append[..], &["now.root"; 70]].concat();
    assert_eq!(place.json(&many)["entries"], 7800);
    assert_eq!(place.json(&["ntuple", "scrub", "p", "c", "events"])["bad"], json!([]));
}

#[test]
fn an_ntuple_that_is_stored_is_appended_also_of_the_same_container() {
    let place = Place::new("ntuples-stored");
    place.pool_with_files();
    place.ok(&["cont", "create", "p", "d"]);
    make_days(&place);
    place.ok(&["ntuple", "import", "p", "c", "old.root"]);
    place.ok(&["ntuple", "import", "p", "c", "now.root", "--name", "now"]);
    place.ok(&["ntuple", "copy", "p", "c", "now", "p", "d"]);
    let append = ["ntuple", "append", "p", "c", "events"];
    let from = |words: &[&'static str]| [&append[..], &["--from"], words].concat();
    let refused = place.fails(2, &from(&["p", "d", "now"]));
    assert!(
        refused.contains("cannot append p d now to ntuple events")
            && refused.ends_with("; add --leave-out to append the others\n"),
        "{refused}"
    );
    let told = place.json(&from(&["p", "d", "now", "--leave-out"]));
    let left_out = json!(["p d now: \"trigger\" (bool) is no field of the ntuple"]);
    assert_eq!((&told["entries"], &told["left_out"]), (&json!(200), &left_out));
    assert_eq!(place.json(&from(&["p", "c", "now", "--leave-out"]))["entries"], 300);
    assert_eq!(place.json(&from(&["p", "c", "events", "--version", "1"]))["entries"], 400, "of itself");
    assert_eq!(place.json(&from(&["now.root", "events", "--leave-out"]))["entries"], 500);
    place.ok(&["ntuple", "export", "p", "c", "events", "--to", "out.root"]);
    let wanted = [0, 100, 100, 0, 100].map(|first| first..first + 100);
    assert_eq!(numbers(&place.path("out.root")), wanted.into_iter().flatten().collect::<Vec<_>>());
    for (wrong, why) in [
        (&["now.root", "--version", "1"][..], "--from names"),
        (&["now.root", "--from", "old.root"], "cannot be used with"),
        (&[], "FILE"),
    ] {
        let told = place.fails(2, &[&append[..], wrong].concat());
        assert!(told.contains(why), "{told}");
    }
    let missing = place.fails(3, &from(&["p", "d", "nwo"]));
    assert!(missing.contains("nwo"), "{missing}");
}

#[test]
fn nothing_that_is_written_takes_the_place_of_the_file_that_it_is_made_of() {
    let place = Place::new("ntuples-own");
    make_file(&place.path("in.root"));
    std::os::unix::fs::symlink("in.root", place.path("link.root")).unwrap();
    let before = fs::read(place.path("in.root")).unwrap();
    let whole = place.path("in.root").display().to_string();
    let skim = ["ntuple", "skim", "in.root", "-f", "number", "--to"];
    let (export, parquet) =
        (["ntuple", "export", "in.root", "--to"], ["ntuple", "to-parquet", "in.root", "--to"]);
    let plot = ["ntuple", "plot", "in.root", "--to"];
    for to in ["in.root", "./in.root", &whole, "link.root"] {
        for command in [&skim[..], &export, &parquet, &plot] {
            let line = place.fails(2, &[command, &[to]].concat());
            assert!(
                line.contains("it is read from that file, which would be replaced; name another file"),
                "{line}"
            );
        }
    }
    let stored = ["ntuple", "skim", "s3://bucket/in.root", "events", "--to", "s3://bucket/in.root"];
    assert!(place.fails(2, &stored).contains("would be replaced"));
    assert_eq!(fs::read(place.path("in.root")).unwrap(), before);
    // Nor is it said that the ntuple itself be removed.
    place.pool_with_files();
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    place.ok(&["ntuple", "copy", "p", "c", "events", "p", "c", "--name", "other"]);
    let pool = format!("file:{}", place.path("p").display());
    let into = |name| ["ntuple", "skim", "p", "c", "events", "--into", &pool, "c", name];
    let own = place.fails(4, &into("events"));
    assert!(own.ends_with("; choose another name: that is the ntuple that it is made of\n"), "{own}");
    let other = place.fails(4, &into("other"));
    assert!(other.ends_with("; choose another name, or remove the old one first\n"), "{other}");
    // Another file is replaced.
    fs::write(place.path("out.root"), b"old").unwrap();
    assert_eq!(place.json(&[&skim[..], &["out.root"]].concat())["entries"], COUNT);
}

#[test]
fn an_ntuple_with_tags_is_destroyed_only_by_force() {
    let place = Place::new("ntuples-tagged");
    place.pool_with_files();
    make_file(&place.path("in.root"));
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    let destroy = ["ntuple", "destroy", "p", "c", "events"];
    place.ok(&["ntuple", "tag", "p", "c", "events", "paper"]);
    let one = place.fails(4, &destroy);
    let told = "cannot destroy ntuple events of container c: tag paper keeps version 1 of \"events\"; \
                `dolmen ntuple untag` it first, or add --force\n";
    assert!(one.ends_with(told), "{one}");
    place.ok(&["ntuple", "tag", "p", "c", "events", "draft"]);
    let two = place.fails(4, &destroy);
    assert!(
        two.contains("tags draft, paper keep versions of \"events\"; `dolmen ntuple untag` all of them"),
        "{two}"
    );
    assert_eq!(place.json(&["ntuple", "show", "p", "c", "events", "--tag", "paper"])["entries"], COUNT);
    place.ok(&[&destroy[..], &["--force"]].concat());
    assert!(place.fails(3, &[&destroy[..], &["--force"]].concat()).contains("events"));
    assert_eq!(place.ok(&["ntuple", "list", "p", "c"]), "no ntuples\n");
}

#[test]
fn of_what_is_damaged_nothing_tells_whether_tags_keep_it_and_force_destroys_it() {
    let place = Place::new("ntuples-spoilt");
    place.pool_with_files();
    make_file(&place.path("in.root"));
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    place.ok(&["ntuple", "tag", "p", "c", "events", "paper"]);
    let local = dolmen_local::open(&place.path("p"), &dolmen_local::OpenOptions::default()).unwrap();
    let pool = Pool::connect(Arc::new(local), Credentials::default()).unwrap();
    let cont = pool.open_container(&ContName::Label(Label::new("c").unwrap())).unwrap();
    let number = Store::new(&cont, &StoreOptions::default()).list().unwrap()[0].number;
    let oid = Oid::new(ObjectType::DkeyLexical, ObjectClass::S1, 0x4e54_504c, number);
    cont.object(oid).unwrap().put(At::Latest, b"tag/paper", b"record", b"spoilt").unwrap();
    drop((cont, pool));
    let destroy = ["ntuple", "destroy", "p", "c", "events"];
    let line = place.fails(7, &destroy);
    assert!(line.ends_with("; add --force to destroy it with all that is left of it\n"), "{line}");
    place.ok(&[&destroy[..], &["--force"]].concat());
    assert_eq!(place.ok(&["ntuple", "list", "p", "c"]), "no ntuples\n");
}

#[test]
fn a_bucket_and_a_prefix_are_a_store_and_no_ntuple_is_made_of_the_prefix() {
    let place = Place::new("ntuples-prefix");
    make_file(&place.path("in.root"));
    let line = place.fails(2, &["ntuple", "skim", "in.root", "--into", "s3://bucket", "run1"]);
    let told = "the name of an ntuple is missing: s3://bucket run1 is the store s3://bucket/run1; write --into \
                s3://bucket run1 NTUPLE; s3://bucket/ run1 is ntuple run1 of the bucket as a whole\n";
    assert!(line.ends_with(told), "{line}");
}

#[test]
fn an_ntuple_is_copied_within_one_pool() {
    let place = Place::new("ntuples-copied");
    place.pool_with_files();
    place.ok(&["cont", "create", "p", "d"]);
    make_file(&place.path("in.root"));
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    assert_eq!(place.json(&["ntuple", "copy", "p", "c", "events", "p", "d"])["entries"], COUNT);
    let whole = format!("file:{}", place.path("p").display());
    let renamed = ["ntuple", "copy", "p", "c", "events", &whole, "d", "--name", "again"];
    assert_eq!(place.json(&renamed)["entries"], COUNT);
    place.ok(&["ntuple", "copy", "p", "c", "events", "p", "c", "--name", "beside"]);
    assert!(place.fails(4, &["ntuple", "copy", "p", "c", "events", "p", "c"]).contains("events"));
    place.ok(&["ntuple", "export", "p", "d", "events", "--to", "out.root"]);
    assert_eq!(numbers(&place.path("out.root")), (0..COUNT).collect::<Vec<_>>());
    let checked = place.json(&["check", "p"]);
    assert!(
        checked["targets"].as_array().unwrap().iter().all(|target| target["closed"] == true),
        "{checked}"
    );
}

#[test]
fn who_only_reads_ntuples_waits_for_a_pool_that_another_has() {
    let place = Place::new("ntuples-waiting");
    place.pool_with_files();
    make_file(&place.path("in.root"));
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    let holds = || dolmen_local::open(&place.path("p"), &dolmen_local::OpenOptions::default()).unwrap();
    let events = ["p", "c", "events"];
    let readers = [
        vec!["list", "p", "c"],
        [&["show"], &events[..]].concat(),
        [&["estimate"], &events[..]].concat(),
        [&["export", "--to", "out.root"], &events[..]].concat(),
        [&["plot", "--to", "out.png"], &events[..]].concat(),
    ];
    for reader in readers {
        let command = [&["ntuple"], &reader[..]].concat();
        let held = holds();
        let line = place.fails(5, &command);
        assert!(line.contains("wait for it with --wait SECONDS"), "{line}");
        let mut waiting = place.command(&[&command[..], &["--wait", "600"]].concat());
        let waiting = waiting.stdout(Stdio::piped()).spawn().unwrap();
        drop(held);
        let ran = waiting.wait_with_output().unwrap();
        assert!(ran.status.success(), "{reader:?}: {ran:?}");
    }
    let held = holds();
    assert!(
        place.fails(5, &["ntuple", "copy", "p", "c", "events", "p", "c", "--wait", "0"]).contains("in use")
    );
    drop(held);
}

#[test]
fn the_time_that_a_version_is_printed_with_opens_that_version() {
    let place = Place::new("ntuples-at");
    place.pool_with_files();
    make_file(&place.path("in.root"));
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    let versions = place.json(&["ntuple", "versions", "p", "c", "events"]);
    let printed = place.ok(&["ntuple", "versions", "p", "c", "events"]);
    let entries =
        |at: &str| place.json(&["ntuple", "show", "p", "c", "events", "--at", at])["entries"].clone();
    for (version, line) in versions.as_array().unwrap().iter().zip(printed.lines().skip(1)) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let time_ns = version["time_ns"].as_u64().unwrap();
        let (second, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        for at in [
            format!("{} {}", words[1], words[2]),
            second.to_string(),
            format!("{second}.{:03}", ns / 1_000_000),
            format!("{second}.{ns:09}"),
        ] {
            assert_eq!(entries(&at), version["entries"], "{at}");
        }
    }
}

#[test]
fn what_is_not_there_is_told_with_what_is() {
    let place = Place::new("ntuples-told");
    place.pool_with_files();
    make_file(&place.path("in.root"));
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    let show = ["ntuple", "show", "p", "c", "events"];
    let fails = |more: &[&str]| place.fails(3, &[&show[..], more].concat());
    assert!(fails(&["--tag", "x"]).contains("there is no tag \"x\"; it has no tags"));
    assert!(fails(&["--version", "9"]).ends_with("there is no version 9; its only version is 1\n"));
    place.ok(&["ntuple", "tag", "p", "c", "events", "first"]);
    let twice = place.fails(4, &["ntuple", "tag", "p", "c", "events", "first"]);
    assert!(
        twice.ends_with("a tag \"first\" already, and keeps version 1; --move has it keep this one\n"),
        "{twice}"
    );
    place.ok(&["ntuple", "append", "p", "c", "events", "in.root"]);
    let line = fails(&["--tag", "x"]);
    assert!(line.contains("cannot open p c events: there is no tag \"x\"; its only tag is first"), "{line}");
    assert!(fails(&["--version", "9"]).contains("there is no version 9; its versions are 1, 2"));
    let line = fails(&["--at", "1"]);
    assert!(line.contains("no version that was made by 1970-01-01 00:00:01 (UTC)"), "{line}");
    assert!(line.contains("seconds since 1970; the oldest is 1, made 2"), "{line}");
    let wrong = place.fails(2, &[&show[..], &["--at", "yesterday"]].concat());
    assert!(wrong.contains("as `dolmen ntuple versions` prints it"), "{wrong}");
    let untag = place.fails(3, &["ntuple", "untag", "p", "c", "events", "zz"]);
    assert!(untag.contains("there is no tag \"zz\"; its only tag is first"), "{untag}");
    let tag = place.fails(3, &["ntuple", "tag", "p", "c", "events", "t", "7"]);
    assert!(tag.contains("there is no version 7; its versions are 1, 2"), "{tag}");
    let clone = place.fails(3, &["ntuple", "clone", "p", "c", "events", "new", "--tag", "x"]);
    assert!(clone.contains("its only tag is first"), "{clone}");
    let scrub = place.fails(3, &["ntuple", "scrub", "p", "c", "events", "--version", "8"]);
    assert!(scrub.contains("its versions are 1, 2"), "{scrub}");
    let list = place.fails(2, &["ntuple", "list", "p"]);
    assert!(list.contains("p is no file of ROOT; name a container, too: p CONT"), "{list}");
    let show = place.fails(2, &["ntuple", "show", "p", "c"]);
    assert!(show.contains("p c NTUPLE; `dolmen ntuple list p c` shows"), "{show}");
    let pool = place.fails(2, &["pool", "create", "s3://bucket/p"]);
    assert!(pool.contains("s3://bucket/p is an object store, and no pool can be there"), "{pool}");
    assert!(place.fails(2, &["cont", "list", "s3://bucket"]).contains("s3://BUCKET PREFIX"));
    let fast = place.json(&["ntuple", "estimate", "in.root", "--bandwidth", "1G", "--latency", "0"]);
    let slow = place.json(&["ntuple", "estimate", "in.root", "--bandwidth", "1K", "--latency", "0"]);
    let seconds = |of: &serde_json::Value| of["seconds"].as_f64().unwrap();
    assert!(seconds(&fast) > 0.0 && seconds(&slow) > 100_000.0 * seconds(&fast), "{fast} {slow}");
    place.fails(2, &["ntuple", "estimate", "in.root", "--bandwidth", "0"]);
    let month = place.ok(&["ntuple", "estimate", "in.root", "--field", "number"]);
    let month = month.lines().find(|line| line.starts_with("a month")).unwrap();
    assert!(month.bytes().any(|digit| (b'1'..=b'9').contains(&digit)), "{month}");
}
