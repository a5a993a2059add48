//! Entries of ntuples and of trees, printed.

use crate::common::Place;
use crate::ntuples::{COUNT, make_file};
use serde_json::{Value, json};

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
        let conditions = ["--filter", "number >= 500", "--filter", "energy<251", "--filter", "hits == 2"];
        let two = [json!({ "number": 500 }), json!({ "number": 501 })];
        assert_eq!(lines(&read("read", &[&conditions[..], &["-f", "number"]].concat())), two);
        assert_eq!(read("read", &["--filter", "hits > 2"]), "");
        assert_eq!(read("read", &["--filter", "hits > 2", "--format", "csv", "-f", "number"]), "number\n");
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
