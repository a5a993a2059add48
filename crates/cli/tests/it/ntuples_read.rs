//! Entries of ntuples and of trees, printed.

use crate::common::Place;
use crate::ntuples::{COUNT, make_file, write_file};
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{Array, Lists, Values};
use serde_json::{Value, json};
use std::fs;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn entries_are_printed_wherever_they_are() {
    let place = Place::new("ntuples-read");
    place.pool_with_files();
    make_file(&place.path("in.root"));
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    for source in [&["in.root"][..], &["in.root", "events"], &["p", "c", "events"]] {
        let read = |command: &str, more: &[&str]| place.ok(&[&["ntuple", command], source, more].concat());
        let first = lines(&read("head", &[]));
        assert_eq!(first.len(), 10);
        assert_eq!(first[3], json!({ "number": 3, "energy": 1.5, "hits": [1.5, 1.5] }));
        assert_eq!(
            read("read", &["--format", "csv", "--first", "2998", "-f", "energy", "-f", "hits"]),
            "energy,hits\n1499.0,\"[1.5,1.5]\"\n1499.5,\"[1.5,1.5]\"\n"
        );
        assert_eq!(lines(&read("read", &[])).len(), usize::try_from(COUNT).unwrap());
        let some = ["--first", "1000", "--count", "3", "-f", "number"];
        let [one, two, three] = [1000, 1001, 1002].map(|number| json!({ "number": number }));
        assert_eq!(lines(&read("read", &some)), [one, two, three]);
        let conditions =
            ["--filter", "number >= 500", "--filter", "energy<251", "--filter", "len(hits) == 2"];
        let two = [json!({ "number": 500 }), json!({ "number": 501 })];
        assert_eq!(lines(&read("read", &[&conditions[..], &["-f", "number"]].concat())), two);
        assert_eq!(read("read", &["--filter", "len(hits) > 2"]), "");
        assert_eq!(
            read("read", &["--filter", "len(hits) > 2", "--format", "csv", "-f", "number"]),
            "number\n"
        );
        let answer = place.json(&[&["ntuple", "head"], source, &["-n", "1", "-f", "hits"]].concat());
        assert_eq!(answer, json!({ "first": 0, "end": 1, "entries": [{ "hits": [1.5, 1.5] }] }));
        assert_eq!(read("head", &["-n", "0"]), "");
    }
    place.ok(&["ntuple", "tag", "p", "c", "events", "first"]);
    place.ok(&["ntuple", "append", "p", "c", "events", "in.root"]);
    let all = ["ntuple", "read", "p", "c", "events", "-f", "number"];
    assert_eq!(lines(&place.ok(&all)).len(), 6000);
    assert_eq!(lines(&place.ok(&[&all[..], &["--tag", "first"]].concat())).len(), 3000);
    let fails = |code, more: &[&str]| place.fails(code, &[&["ntuple", "read", "in.root"], more].concat());
    assert!(fails(3, &["-f", "none"]).contains("cannot read in.root: there is no field \"none\""));
    assert!(fails(2, &["--first", "3001"]).contains("there are 3000 entries"));
    assert!(fails(2, &["--filter", "number"]).contains("as in 'met > 20'"));
    assert!(fails(3, &["--filter", "none > 1"]).contains("\"none\""));
}

/// Numbers, texts, lists of the same name, and a record's members.
fn make_named_file(place: &Place) {
    let numbers = Array::Values(Values::I32((0..100).collect()));
    let lists = |of, bytes: Values| {
        let offsets = (0..=100).map(|at| at * (at - 1) / 2).collect();
        Array::Lists { of, offsets, content: Box::new(Array::Values(bytes)) }
    };
    let texts = lists(Lists::Text, Values::U8(vec![b'a'; 4950]));
    let items = lists(Lists::Items, Values::F32(vec![0.5; 4950]));
    let record = Array::Record {
        len: 100,
        fields: vec![
            ("pt".into(), numbers.clone()),
            ("phi".into(), numbers.clone()),
            ("id".into(), numbers.clone()),
        ],
    };
    let fields = [("n", &numbers), ("Muon_pt", &items), ("Muon_name", &texts), ("muon", &record)];
    write_file(&place.path("named.root"), &fields, &Options::default(), 1);
}

#[test]
fn a_filter_of_a_list_or_a_text_says_that_its_length_is_meant() {
    let place = Place::new("ntuples-read-lengths");
    place.pool_with_files();
    make_named_file(&place);
    place.ok(&["ntuple", "import", "p", "c", "named.root"]);
    for source in [&["named.root"][..], &["p", "c", "events"]] {
        let read = |filter| [&["ntuple", "read"], source, &["-f", "n", "--filter", filter]].concat();
        for filter in ["len(Muon_pt) >= 98", "len(Muon_name) >= 98"] {
            assert_eq!(place.ok(&read(filter)), "{\"n\":98}\n{\"n\":99}\n", "{filter}");
        }
        let list = place.fails(2, &read("Muon_pt > 20"));
        let told = "field \"Muon_pt\" has lists, which are not compared with a number; len(Muon_pt) is how long each is, \
                    as in 'len(Muon_pt) > 2'\n";
        assert!(list.ends_with(told), "{list}");
        assert!(place.fails(2, &read("Muon_name == 3")).contains("has texts, which are not compared"));
        assert!(place.fails(2, &read("len(n) > 2")).contains("has one number for each entry, and no length"));
        assert!(place.fails(2, &read("muon > 2")).contains("\"muon\""));
        assert!(place.fails(3, &read("len(none) > 2")).contains("\"none\""));
    }
    let skim = |filter| ["ntuple", "skim", "named.root", "--filter", filter, "--to", "some.root"];
    assert!(place.fails(2, &skim("Muon_pt > 20")).contains("len(Muon_pt)"));
    assert_eq!(place.json(&skim("len(Muon_name) < 7"))["entries"], 7);
}

#[test]
fn patterns_name_the_fields_that_they_fit() {
    let place = Place::new("ntuples-read-patterns");
    place.pool_with_files();
    make_named_file(&place);
    place.ok(&["ntuple", "import", "p", "c", "named.root"]);
    let names = |source: &[&str], fields: &[&str]| {
        let head = [&["ntuple", "head"], source, &["-n", "1", "--format", "csv"], fields].concat();
        place.ok(&head).lines().next().unwrap().to_owned()
    };
    for source in [&["named.root"][..], &["p", "c", "events"]] {
        assert_eq!(names(source, &["-f", "Muon_*"]), "Muon_pt,Muon_name");
        assert_eq!(names(source, &["-f", "*_name", "-f", "Muon_*", "-f", "?"]), "Muon_name,Muon_pt,n");
        assert_eq!(names(source, &["-f", "muon.p*"]), "muon.pt,muon.phi");
        let none = place.fails(3, &[&["ntuple", "head"], source, &["-f", "n", "-f", "Jet_*"]].concat());
        assert!(none.ends_with("no field fits \"Jet_*\"\n"), "{none}");
        let estimate = |field| place.json(&[&["ntuple", "estimate"], source, &["-f", field]].concat());
        assert!(
            estimate("M*").as_object().unwrap()["stored_bytes"].as_u64()
                > estimate("n")["stored_bytes"].as_u64()
        );
        assert!(
            place
                .ok(&[&["ntuple", "estimate"], source, &["-f", "M*"]].concat())
                .contains("fields        2\n")
        );
        let shown = || place.json(&["ntuple", "show", "out.root"])["fields"].as_array().unwrap().len();
        place.ok(&[&["ntuple", "skim"], source, &["-f", "Muon_*", "--to", "out.root"]].concat());
        assert_eq!(shown(), 2);
        // An export of some fields has their pages as they are.
        let exported = place
            .json(&[&["ntuple", "export"], source, &["-f", "M*", "-f", "n", "--to", "out.root"]].concat());
        assert_eq!(exported, json!({ "entries": 100, "fields": ["Muon_pt", "Muon_name", "n"] }));
        assert_eq!(shown(), 3);
        let bytes = |of: &[&str]| {
            let shown = place.json(&[&["ntuple", "show"], of].concat());
            let fields = shown["fields"].as_array().unwrap();
            let of_one = |name: &str| {
                fields.iter().find(|field| field["name"] == name).unwrap()["stored_bytes"].clone()
            };
            ["Muon_pt", "Muon_name", "n"].map(of_one)
        };
        assert_eq!(bytes(&["out.root"]), bytes(source));
        let text = place.ok(&[&["ntuple", "read"], source, &["-f", "Muon_name"]].concat());
        assert_eq!(place.ok(&["ntuple", "read", "out.root", "-f", "Muon_name"]), text);
    }
}

#[test]
fn a_document_of_many_entries_is_printed_as_they_are_read_and_says_at_its_end_what_failed() {
    let place = Place::new("ntuples-read-document");
    let numbers =
        Array::Values(Values::I32((0..70_000).map(|at: i32| at.wrapping_mul(-1_640_531_535)).collect()));
    let options = Options { page_bytes: 2000, cluster_bytes: 30_000, ..Options::default() };
    write_file(&place.path("in.root"), &[("n", &numbers)], &options, 1);
    let read = ["ntuple", "read", "in.root"];
    let whole = place.json(&read);
    assert_eq!((&whole["first"], &whole["end"]), (&json!(0), &json!(70_000)));
    let lines = lines(&place.ok(&read));
    assert_eq!(whole["entries"], Value::Array(lines.clone()));
    let none = place.json(&["ntuple", "read", "in.root", "--first", "70000"]);
    assert_eq!(none, json!({ "first": 70_000, "end": 70_000, "entries": [] }));
    // A page behind those that are read first is damaged.
    let mut bytes = fs::read(place.path("in.root")).unwrap();
    let at = bytes.len() - 6000;
    bytes[at] ^= 0xff;
    fs::write(place.path("in.root"), bytes).unwrap();
    let ran = place.run(&[&read[..], &["--json"]].concat());
    let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!((ran.code(), &answer["detail"]["exit"]), (7, &json!(7)), "{}", answer["error"]);
    let entries = answer["response"]["entries"].as_array().unwrap();
    assert_eq!((entries.len(), &entries[65_535]), (65_536, &lines[65_535]));
    assert!(answer["error"].as_str().unwrap().starts_with("cannot read in.root: "), "{}", answer["error"]);
    assert!(answer["status"].as_i64().unwrap() < 0, "{}", answer["status"]);
}

#[test]
fn what_is_not_read_where_it_is_is_told_with_how_it_is_fetched() {
    let place = Place::new("ntuples-read-elsewhere");
    make_file(&place.path("in.root"));
    for (address, remedy) in [
        ("https://h/f.root", "fetch it first (curl -LO 'https://h/f.root') and name the file\n"),
        ("root://h//f.root", "fetch it first (xrdcp 'root://h//f.root' .) and name the file\n"),
    ] {
        for command in ["show", "read", "list", "export"] {
            let to: &[&str] = if command == "export" { &["--to", "out.root"] } else { &[] };
            let told = place.fails(2, &[&["ntuple", command, address], to].concat());
            assert!(told.ends_with(remedy) && told.contains(address), "{told}");
        }
        for command in ["export", "to-parquet", "skim"] {
            let told = place.fails(2, &["ntuple", command, "in.root", "--to", address]);
            assert!(told.contains("nothing is read or written"), "{told}");
        }
        let told = place.fails(2, &["ntuple", "plot", "in.root", "--to", "s3://bucket/out.png"]);
        assert!(told.contains("a picture is written to a file of this machine"), "{told}");
    }
}

#[test]
fn what_records_in_lists_have_is_shown_and_read_by_its_name() {
    let place = Place::new("ntuples-subfields");
    place.pool_with_files();
    let values = |from: i32| Array::Values(Values::I32((from..from + 6).collect()));
    let of_jet = vec![("pt".into(), values(0)), ("eta".into(), values(100))];
    let content = Box::new(Array::Record { len: 6, fields: of_jet });
    let jets = Array::Lists { of: Lists::Items, offsets: vec![0, 1, 1, 4, 6], content };
    let run = Array::Values(Values::I32((0..4).collect()));
    let fields = [("run", &run), ("jet", &jets)];
    write_file(&place.path("in.root"), &fields, &Options::default(), 2);
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    for source in [&["in.root"][..], &["p", "c", "events"]] {
        let read = |command: &str, more: &[&str]| place.ok(&[&["ntuple", command], source, more].concat());
        let pts = lines(&read("read", &["-f", "jet.pt", "-f", "run", "--first", "2", "--count", "4"]));
        let wanted = [
            json!({ "jet.pt": [1, 2, 3], "run": 2 }),
            json!({ "jet.pt": [4, 5], "run": 3 }),
            json!({ "jet.pt": [0], "run": 0 }),
            json!({ "jet.pt": [], "run": 1 }),
        ];
        assert_eq!(pts, wanted);
        let long =
            lines(&read("read", &["-f", "run", "--filter", "len(jet.pt) >= 2", "--filter", "run < 3"]));
        assert_eq!(long, [json!({ "run": 2 }), json!({ "run": 2 })]);
        let once = lines(&read("head", &["-n", "1", "-f", "?un", "-f", "run", "-f", "run"]));
        assert_eq!(once, [json!({ "run": 0 })]);
        let all = lines(&read("head", &["-n", "1", "-f", "jet.*"]));
        assert_eq!(all, [json!({ "jet.pt": [0], "jet.eta": [100] })]);
        let shown = read("show", &["--subfields", "--json"]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let fields = shown["response"]["fields"].as_array().unwrap();
        let names: Vec<&str> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["run", "jet", "jet.pt", "jet.eta"]);
        let pages = |at: usize| fields[at]["pages"].as_u64().unwrap();
        assert!(pages(1) > pages(2) + pages(3), "where items begin is of the list: {shown}");
        assert!(!read("show", &[]).contains("jet.pt"));
    }
}
