//! Ntuples that are made of others and of trees, wherever they are: in a pool, behind a daemon, in an object store.

#[path = "../../../rntuple/tests/it/tree_made.rs"]
#[expect(dead_code, reason = "tests of what is below it need more of it")]
#[expect(clippy::cast_possible_truncation, reason = "a file of a test is small")]
mod tree_made;

#[path = "../../../remote/tests/it/weed.rs"]
#[expect(dead_code, reason = "tests of what is below it need more of it")]
mod weed;

use crate::common::Place;
use crate::ntuples::{COUNT, make_file, numbers, write_file};
use crate::served::Daemon;
use dolmen_rntuple::bucket::{Bucket, Got};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{Array, Values};
use serde_json::json;
use std::fs;
use tree_made::{Big, Branch, Counter, How, Leaf, branch, leaf};

/// A command on a store.
fn on<'a>(store: &[&'a str], command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["ntuple", command], store, more].concat()
}

/// All that is made of ntuples, in a store that is named by these words; `other` is a store of the same pool or bucket.
fn make_all(place: &Place, store: &[&str], other: &[&str]) {
    make_file(&place.path("in.root"));
    place.ok(&on(store, "import", &["in.root"]));
    let of_store = [store, &["events"]].concat();
    let into = [&["--into"], other, &["some"]].concat();
    let filters = ["--filter", "number >= 1000", "--filter", "number < 2500", "-f", "number", "-f", "hits"];
    let skim = [&["ntuple", "skim"], &of_store[..], &filters, &into].concat();
    let made = place.json(&skim);
    assert_eq!((&made["entries"], &made["made"]), (&json!(1500), &json!("Skimmed")));
    assert!(
        made["clusters_passed"].as_u64() > Some(0) && made["clusters_written"].as_u64() > Some(0),
        "{made}"
    );
    assert!(place.fails(4, &skim).contains("\"some\""));
    let some = [&["ntuple", "read"], other, &["some", "--count", "1"]].concat();
    assert_eq!(place.ok(&some), "{\"number\":1000,\"hits\":[1.5,1.5]}\n");
    let skim = [&["ntuple", "skim"], &of_store[..], &filters, &["--to", "some.root"]].concat();
    assert_eq!(place.json(&skim)["entries"], 1500);
    let file = place.json(&["ntuple", "show", "some.root"]);
    let fields: Vec<_> = file["fields"].as_array().unwrap().iter().map(|field| &field["name"]).collect();
    assert_eq!((&file["entries"], fields), (&json!(1500), vec![&json!("number"), &json!("hits")]));
    assert_eq!(numbers(&place.path("some.root")), (1000..2500).collect::<Vec<_>>());

    // Columns from the same store, and from a file.
    let part = [&["ntuple", "clone"], store, &["events", "part", "-f", "energy"]].concat();
    place.ok(&part);
    let from = [&["--from"], &of_store[..], &["-f", "hits"]].concat();
    let added = place.json(&[&on(store, "add-column", &["part"])[..], &from].concat());
    assert_eq!((&added["fields"], &added["entries"]), (&json!(["hits"]), &json!(COUNT)));
    place.ok(&on(store, "add-column", &["part", "--from", "in.root", "events", "-f", "number"]));
    let read = on(store, "read", &["part", "--first", "2999"]);
    assert_eq!(place.ok(&read), "{\"energy\":1499.5,\"hits\":[1.5,1.5],\"number\":2999}\n");
    let twice = place.fails(4, &on(store, "add-column", &["part", "--from", "in.root", "-f", "number"]));
    assert!(twice.contains("number"), "{twice}");
    let short = place.fails(2, &on(store, "add-column", &["part", "--from", "some.root", "-f", "number"]));
    assert!(short.contains("there are 1500 entries and 3000 are needed"), "{short}");

    let pack =
        on(store, "pack", &["part", "--together", "hits,number=9", "--together", "energy", "--group", "64K"]);
    let packed = place.json(&pack);
    assert_eq!((&packed["columns"].as_array().unwrap().len(), &packed["group_bytes"]), (&4, &json!(65536)));
    let trace = "dolmen ntuple trace 1\n700\tenergy\tgone\n9\thits\tnumber\n";
    std::fs::write(place.path("day.trace"), trace).unwrap();
    let pack =
        on(store, "pack", &["part", "--trace", "day.trace", "--trace", "day.trace", "--together", "number"]);
    let by_trace = place.json(&pack);
    assert_eq!(by_trace["group_bytes"], json!(65536), "as before");
    assert_ne!(by_trace["columns"], packed["columns"]);
    std::fs::write(place.path("none.trace"), "dolmen ntuple trace 1\nx\ty\n").unwrap();
    let none = place.fails(2, &on(store, "pack", &["part", "--trace", "none.trace"]));
    assert!(none.contains("none.trace: line 2 is none of a trace"), "{none}");
    assert!(place.fails(3, &on(store, "pack", &["part", "--trace", "nowhere"])).contains("nowhere"));
    assert!(place.fails(3, &on(store, "pack", &["part", "--together", "none"])).contains("\"none\""));
    assert!(place.fails(2, &on(store, "pack", &["part", "--together", "a,=1"])).contains("as in pt,eta=100"));

    let by_pattern =
        place.json(&on(store, "pack", &["part", "--together", "h*,num*=9", "--together", "energy"]));
    assert_eq!(by_pattern["columns"], packed["columns"]);
    assert!(
        place.fails(3, &on(store, "pack", &["part", "--together", "z*"])).contains("no field fits \"z*\"")
    );

    // What a copy is called is its last word, or an option.
    let copy = [&on(store, "copy", &["part"])[..], other].concat();
    for words in [&["again"][..], &["--name", "once-more"]] {
        assert_eq!(place.json(&[&copy[..], words].concat())["entries"], COUNT);
        let name = words[words.len() - 1];
        assert_eq!(place.json(&on(other, "show", &[name]))["entries"], COUNT, "{name}");
    }
    place.fails(2, &[&copy[..], &["a", "--name", "b"]].concat());

    // Versions go when they were kept for long enough.
    place.ok(&on(store, "keep", &["part", "0"]));
    assert_eq!(place.json(&on(store, "expire", &["part"]))["versions"], 2);
    assert_eq!(place.json(&on(store, "versions", &["part"])).as_array().unwrap().len(), 1);
    assert_eq!(place.json(&on(store, "gc", &[]))["damaged"], json!([]));
    assert_eq!(place.json(&on(store, "scrub", &["part"]))["bad"], json!([]));
}

#[test]
fn ntuples_are_made_of_others_in_a_pool() {
    let place = Place::new("ntuples-made-pool");
    place.pool_with_files();
    place.ok(&["cont", "create", "p", "d"]);
    make_all(&place, &["p", "c"], &["p", "d"]);
    let checked = place.json(&["check", "p"]);
    assert!(
        checked["targets"].as_array().unwrap().iter().all(|target| target["closed"] == true),
        "{checked}"
    );
}

#[test]
fn ntuples_are_made_of_others_behind_a_daemon() {
    let place = Place::new("ntuples-made-served");
    place.pool_with_files();
    place.ok(&["cont", "create", "p", "d"]);
    let daemon = Daemon::start(&place, &[]);
    let pool = format!("unix:{}/p", place.path("dolmen.sock").display());
    make_all(&place, &[&pool, "c"], &["p", "d"]);
    assert!(daemon.end().success());
}

/// A place whose commands reach an endpoint with a bucket.
fn with_bucket(name: &str) -> Place {
    let (mut place, weed) = (Place::new(name), weed::weed());
    place.set("AWS_ENDPOINT_URL", &weed.endpoint());
    place.set("AWS_ACCESS_KEY_ID", weed::OWNER.0);
    place.set("AWS_SECRET_ACCESS_KEY", weed::OWNER.1);
    place
}

#[test]
fn ntuples_are_made_of_others_in_a_bucket() {
    let place = with_bucket("ntuples-made-bucket");
    let bucket = format!("s3://{}", weed::BUCKET);
    make_all(&place, &[&bucket, "one"], &[&bucket, "other"]);
    let [one, missing] = ["one", "missing"].map(|prefix| format!("{bucket}/{prefix}"));
    let listed = place.json(&["ntuple", "list", &one]);
    assert_eq!(listed, place.json(&["ntuple", "list", &bucket, "one"]));
    assert_eq!(listed.as_array().unwrap().len(), 2);
    let part = place.json(&["ntuple", "show", &one, "part"]);
    assert_eq!(part, place.json(&["ntuple", "show", &bucket, "one", "part"]));
    let prefix = place.fails(3, &["ntuple", "show", &bucket, "one"]);
    assert!(
        prefix.ends_with(&format!("if one is a prefix, name the ntuple, too: {bucket} one NTUPLE\n")),
        "{prefix}"
    );
    // The bucket as a whole is a store, too, and has other things beside it.
    let root = format!("{bucket}/");
    place.ok(&["ntuple", "skim", &one, "part", "--into", &root, "whole"]);
    for key in ["root", "c/out.root"] {
        let own = place.fails(2, &["ntuple", "export", "in.root", "--to", &format!("{root}{key}")]);
        assert!(own.contains("root, conditions, c/ and m/ are that store's"), "{own}");
    }
    assert_eq!(place.json(&["ntuple", "show", &bucket, "whole"])["entries"], COUNT);
    place.ok(&["ntuple", "tag", &one, "part", "kept"]);
    place.ok(&["ntuple", "keep", &one, "part", "60"]);
    place.ok(&["ntuple", "expire", &one, "part"]);
    let from = format!("{bucket}/one");
    let column = ["ntuple", "add-column", &one, "part", "--from", &from, "events", "-f", "number"];
    assert!(place.fails(4, &column).contains("there is a field \"number\" already"));
    place.ok(&["ntuple", "copy", &one, "part", &missing, "--name", "again", "--tag", "kept"]);
    assert_eq!(place.json(&["ntuple", "head", &missing, "again"])["entries"].as_array().unwrap().len(), 10);
    let file = format!("{bucket}/files/some.root");
    place.ok(&["ntuple", "skim", &one, "events", "--filter", "number < 10", "--to", &file]);
    assert_eq!(place.json(&["ntuple", "show", &file])["entries"], 10);
    assert!(
        place
            .fails(3, &["ntuple", "list", &format!("{bucket}/nowhere")])
            .contains("neither a file of ROOT nor")
    );
    let nobucket = place.fails(3, &["ntuple", "list", "s3://nobucket", "p"]);
    assert!(
        nobucket.contains("cannot list ntuples of s3://nobucket/p: ") && !nobucket.contains('<'),
        "{nobucket}"
    );
    assert!(place.fails(3, &["ntuple", "show", &one]).contains(&format!("{one} NTUPLE")));
}

#[test]
fn what_is_written_to_a_bucket_spares_the_stores_in_it_which_are_listed() {
    let place = with_bucket("ntuples-bucket-spared");
    let bucket = format!("s3://{}/spared", weed::BUCKET);
    let at = |key: &str| format!("{bucket}/{key}");
    make_file(&place.path("in.root"));
    let none = place.fails(3, &["ntuple", "list", &bucket]);
    assert!(none.ends_with("nor a store below it\n"), "{none}");
    let (near, far) = (at("near"), at("a/b/far"));
    for store in [&near, &far] {
        place.ok(&["ntuple", "import", store, "in.root"]);
    }
    let before = place.json(&["ntuple", "list", &near]);
    for key in ["near/root", "near/conditions", "near/other.root", "near/c/1/2.root", "a/b/far/root"] {
        let (to, store) = (at(key), if key.starts_with("near") { &near } else { &far });
        let told = format!(
            ": {to} lies within the store of ntuples {store}, which would be damaged; \
                            write it to another prefix, outside of {store}/\n"
        );
        for command in ["export", "skim", "to-parquet"] {
            let refused = place.fails(2, &["ntuple", command, "in.root", "--to", &to]);
            assert!(refused.ends_with(&told), "{refused}");
        }
    }
    // Neither would be found by an address that both have.
    let told = format!(
        ": {near} is a store of ntuples, which would not be found there any more; write it to another address\n"
    );
    for command in ["export", "skim", "to-parquet"] {
        let refused = place.fails(2, &["ntuple", command, "in.root", "--to", &near]);
        assert!(refused.ends_with(&told), "{refused}");
    }
    // No store is made within another one.
    for key in ["near/c", "near/m/1", "near/root", "near/other"] {
        let refused = place.fails(2, &["ntuple", "import", &at(key), "in.root"]);
        assert!(
            refused.contains(&format!("{} lies within the store of ntuples {near}", at(key))),
            "{refused}"
        );
    }
    assert_eq!(place.json(&["ntuple", "list", &near]), before);
    // Beside them all can be written, and whatever is called as a root is.
    for key in ["other/root", "root/near.root", "a/b/root", "nearer/root"] {
        place.ok(&["ntuple", "export", "in.root", "--to", &at(key)]);
        assert_eq!(place.json(&["ntuple", "show", &at(key)])["entries"], COUNT, "{key}");
    }
    let listed = place.json(&["ntuple", "list", &format!("{bucket}/")]);
    assert_eq!(listed, json!([{ "name": near, "kind": "store" }, { "name": far, "kind": "store" }]));
    assert_eq!(place.ok(&["ntuple", "list", &bucket]), format!("{near}\n{far}\n"));
    assert_eq!(place.ok(&["ntuple", "list", &at("a")]), format!("{far}\n"));
    // One of which all is gone is a store still, and no other is looked for.
    place.ok(&["ntuple", "destroy", &far, "events"]);
    assert_eq!(place.ok(&["ntuple", "list", &far]), "no ntuples\n");
    // What a copy is called can be said as elsewhere.
    place.ok(&["ntuple", "copy", &near, "events", &far, "again"]);
    assert_eq!(place.json(&["ntuple", "show", &far, "again"])["entries"], COUNT);
    place.ok(&["ntuple", "copy", &near, "events", &far]);
    assert_eq!(place.json(&["ntuple", "list", &far]).as_array().unwrap().len(), 2);
}

/// A file with a tree of two branches that are read, and one that is not.
fn make_tree_file(path: &std::path::Path) {
    let numbers = |times: u32| (0..100).map(|at| Big::of(|big| big.u32(at * times))).collect();
    let branches = [
        branch("number", vec![leaf("TLeafI", "i")], numbers(1)),
        branch("other.", vec![leaf("TLeafI", "i")], numbers(3)),
        branch("unknown", vec![leaf("TLeafQ", "q")], vec![vec![0]; 100]),
    ];
    let how = How { compression: Compression::None, entries_of_a_basket: 30, is_last_embedded: false };
    fs::write(path, tree_made::file(&branches, &[], how)).unwrap();
}

#[test]
fn a_tree_is_listed_read_imported_and_appended() {
    let place = Place::new("ntuples-trees");
    place.pool_with_files();
    make_tree_file(&place.path("t.root"));
    let listed = place.json(&["ntuple", "list", "t.root"]);
    let name = listed[0]["name"].as_str().unwrap();
    let tree =
        json!([{ "name": name, "kind": "tree", "entries": 100, "branches": 3, "branches_not_read": 1 }]);
    assert_eq!(listed, tree);
    let shown = place.json(&["ntuple", "show", "t.root", name]);
    assert!(shown["branches"][2]["not_read"].as_str().unwrap().contains("unknown"), "{shown}");
    assert!(place.ok(&["ntuple", "show", "t.root"]).contains("100 entries, 3 branches"));
    let rows = place.ok(&["ntuple", "read", "t.root", name]);
    assert_eq!(rows.lines().count(), 100);
    assert_eq!(rows.lines().nth(5), Some("{\"number\":5,\"other.\":15}"));
    assert_eq!(
        place.ok(&["ntuple", "read", "t.root", "--filter", "number = 7", "-f", "other."]),
        "{\"other.\":21}\n"
    );

    let import = ["ntuple", "import", "p", "c", "t.root", "--name", "mine"];
    let refused = place.fails(10, &import);
    assert!(
        refused.contains("\"unknown\"") && refused.contains("--leave-out leaves such branches out"),
        "{refused}"
    );
    let made = place.json(&[&import[..], &["--leave-out", "--tree", name]].concat());
    assert_eq!(made["entries"], 100);
    assert!(made["left_out"][0].as_str().unwrap().contains("unknown"), "{made}");
    // A branch is named as it is, or as its field.
    let other = ["ntuple", "import", "p", "c", "t.root", "--name", "other", "-f"];
    let near = place.fails(3, &[&other[..], &["otter"]].concat());
    assert!(near.ends_with("there is no field \"otter\"; \"other.\" is one\n"), "{near}");
    let made = place.json(&[&other[..], &["other."]].concat());
    assert_eq!((&made["left_out"], &made["renamed"]), (&json!([]), &json!({ "other.": "other" })));
    let text = place.ok(&["ntuple", "import", "p", "c", "t.root", "--name", "again", "-f", "other"]);
    assert_eq!(text, "again, version 1: 100 entries in 1 cluster\nother. is called other\n");
    let skim = ["ntuple", "skim", "t.root", "-f", "other"];
    let text = place.ok(&[&skim[..], &["--into", "p", "c", "some"]].concat());
    assert!(text.ends_with(", 1 written\nother. is called other\n"), "{text}");
    let made = place.json(&[&skim[..], &["--to", "some.root"]].concat());
    assert_eq!(made["renamed"], json!({ "other.": "other" }));
    let tree = place.fails(3, &[&import[..], &["--tree", "evnts"]].concat());
    assert!(tree.contains("evnts"), "{tree}");
    assert_eq!(place.ok(&["ntuple", "head", "p", "c", "other", "-n", "2"]), "{\"other\":0}\n{\"other\":3}\n");
    assert_eq!(made["renamed"], json!({ "other.": "other" }));
    let append = ["ntuple", "append", "p", "c", "mine", "t.root"];
    let unread = place.fails(2, &append);
    assert!(
        unread.contains("not in the ntuple: \"unknown\" (not read)")
            && unread.ends_with("; add --leave-out to append the others\n"),
        "{unread}"
    );
    let appended = place.json(&[&append[..], &["--leave-out"]].concat());
    assert!(
        appended["left_out"][0].as_str().unwrap().starts_with("t.root: branch \"unknown\" cannot be read"),
        "{appended}"
    );
    let twice = rows.replace("other.", "other").repeat(2);
    assert_eq!(place.ok(&["ntuple", "read", "p", "c", "mine"]), twice);
    place.ok(&["ntuple", "add-column", "p", "c", "other", "--from", "t.root", "-f", "number"]);
    assert_eq!(place.ok(&["ntuple", "head", "p", "c", "other", "-n", "1"]), "{\"other\":0,\"number\":0}\n");
}

#[test]
fn what_a_tree_lacks_of_fields_is_filled_and_what_it_has_beside_is_left_out() {
    let place = Place::new("ntuples-trees-appended");
    place.pool_with_files();
    make_tree_file(&place.path("t.root"));
    place.ok(&["ntuple", "import", "p", "c", "t.root", "--name", "other", "-f", "other.", "-f", "number"]);
    let weights = Array::Values(Values::F64(vec![2.0; 100]));
    write_file(&place.path("weights.root"), &[("weight", &weights)], &Options::default(), 1);
    place.ok(&["ntuple", "add-column", "p", "c", "other", "--from", "weights.root"]);
    let append = ["ntuple", "append", "p", "c", "other", "t.root"];
    let lacks = place.fails(2, &append);
    assert!(
        lacks.ends_with("; add --fill weight=VALUE, with the value of each, and --leave-out\n"),
        "{lacks}"
    );
    let append = [&append[..], &["--leave-out"]].concat();
    let lacks = place.fails(2, &append);
    assert!(lacks.ends_with("; add --fill weight=VALUE, with the value of each\n"), "{lacks}");
    place.ok(&[&append[..], &["--fill", "weight=-1"]].concat());
    let rows = place.ok(&["ntuple", "read", "p", "c", "other", "--first", "99", "--count", "2"]);
    let last_and_first =
        "{\"other\":297,\"number\":99,\"weight\":2.0}\n{\"other\":0,\"number\":0,\"weight\":-1.0}\n";
    assert_eq!(rows, last_and_first);
    place.ok(&["ntuple", "import", "p", "c", "weights.root", "--name", "weights"]);
    let nothing = ["ntuple", "append", "p", "c", "weights", "t.root", "--fill", "weight=1", "--leave-out"];
    let lacks = place.fails(2, &nothing);
    assert!(lacks.contains("missing: \"weight\" (double)"), "no entries are made up: {lacks}");
    assert!(lacks.ends_with("not made of what is filled alone\n"), "{lacks}");
    // All that a tree lacks is told.
    place.ok(&["ntuple", "clone", "p", "c", "weights", "more"]);
    let other = Array::Values(Values::I32((0..100).collect()));
    write_file(&place.path("other.root"), &[("far", &other), ("near", &other)], &Options::default(), 1);
    place.ok(&["ntuple", "add-column", "p", "c", "more", "--from", "other.root"]);
    place.ok(&["ntuple", "add-column", "p", "c", "more", "--from", "t.root", "-f", "number"]);
    let lacks = place.fails(2, &["ntuple", "append", "p", "c", "more", "t.root", "--fill", "far=1"]);
    let missing = "missing: \"weight\" (double), \"near\" (std::int32_t); not in the ntuple: \"other.\" (std::int32_t), \"unknown\" \
                   (not read)";
    assert!(lacks.contains(missing), "{lacks}");
}

#[test]
fn a_tree_is_skimmed_to_a_container_and_not_exported() {
    let place = Place::new("ntuples-trees-skimmed");
    place.pool_with_files();
    make_tree_file(&place.path("t.root"));
    let listed = place.json(&["ntuple", "list", "t.root"]);
    let name = listed[0]["name"].as_str().unwrap();
    let exported = place.fails(3, &["ntuple", "export", "t.root", "--to", "out.root"]);
    assert!(exported.contains("it has no ntuple, but trees"), "{exported}");
    assert!(
        exported.contains("`dolmen ntuple list`, `show`, ")
            && exported.contains("`add-column` and `to-parquet` take trees"),
        "{exported}"
    );
    let neither = place.fails(2, &["ntuple", "skim", "t.root", name]);
    assert!(neither.contains("<--into <POOL> <CONT> [NTUPLE]|--to <FILE>>"), "{neither}");
    let skim = ["ntuple", "skim", "t.root", name, "--filter", "number >= 90", "--into", "p", "c", "few"];
    let refused = place.fails(10, &skim);
    assert!(
        refused.contains("\"unknown\"") && refused.contains("; --leave-out leaves such branches out"),
        "{refused}"
    );
    let few = place.json(&[&skim[..], &["-f", "other.", "-f", "number"]].concat());
    assert_eq!(
        (&few["entries"], &few["made"], &few["clusters_passed"]),
        (&json!(10), &json!("Skimmed"), &json!(0))
    );
    let first = "{\"other\":270,\"number\":90}\n";
    assert_eq!(place.ok(&["ntuple", "head", "p", "c", "few", "-n", "1"]), first);
    let rest =
        ["ntuple", "skim", "t.root", "--filter", "number >= 90", "--leave-out", "--into", "p", "c", "rest"];
    let rest = place.json(&rest);
    assert!(rest["left_out"][0].as_str().unwrap().contains("\"unknown\""), "{rest}");
    let lines = place.ok(&["ntuple", "read", "p", "c", "rest"]);
    assert_eq!((&rest["entries"], lines.lines().next()), (&json!(10), Some("{\"number\":90,\"other\":270}")));
    // Patterns name what is imported and cloned, too.
    place.ok(&["ntuple", "import", "p", "c", "t.root", "--name", "named", "-f", "oth*"]);
    assert_eq!(place.ok(&["ntuple", "head", "p", "c", "named", "-n", "1"]), "{\"other\":0}\n");
    place.ok(&["ntuple", "clone", "p", "c", "rest", "cloned", "-f", "n*"]);
    assert_eq!(place.ok(&["ntuple", "head", "p", "c", "cloned", "-n", "1"]), "{\"number\":90}\n");
    assert!(
        place.fails(3, &["ntuple", "clone", "p", "c", "rest", "none", "-f", "z*"]).contains("no field fits")
    );
    make_file(&place.path("in.root"));
    let whole = place.fails(2, &["ntuple", "import", "p", "c", "in.root", "-f", "number"]);
    assert!(whole.contains("`dolmen ntuple skim` makes one of some fields"), "{whole}");
}

/// Entries of a tree that are read in several steps.
const MANY: u32 = 30_000;

/// A file with a tree of a number, and of as many items as its remainder by 3 says.
fn make_jagged_file(path: &std::path::Path) {
    let items = |at: u32| Big::of(|big| (0..at % 3).for_each(|item| big.u32(at + item)));
    let jagged = Leaf { counter: Counter::Alone, title: "jets[count]", ..leaf("TLeafI", "jets") };
    let branches = [
        branch("number", vec![leaf("TLeafI", "i")], (0..MANY).map(|at| Big::of(|big| big.u32(at))).collect()),
        Branch { has_starts: true, ..branch("jets.", vec![jagged], (0..MANY).map(items).collect()) },
        branch("unknown", vec![leaf("TLeafQ", "q")], vec![vec![0]; MANY as usize]),
    ];
    let how = How { compression: Compression::None, entries_of_a_basket: 700, is_last_embedded: false };
    fs::write(path, tree_made::file(&branches, &[], how)).unwrap();
}

#[test]
fn a_tree_is_skimmed_to_a_file_as_it_is_to_a_container() {
    let place = Place::new("ntuples-trees-to-file");
    place.pool_with_files();
    make_jagged_file(&place.path("t.root"));
    let filters = ["--filter", "number >= 50", "--filter", "number < 29000", "--filter", "len(jets.) > 0"];
    let skim = [&["ntuple", "skim", "t.root", "--cluster", "64K"], &filters[..]].concat();
    let to_file = ["--to", "few.root"];
    let refused = place.fails(10, &[&skim[..], &to_file].concat());
    assert!(
        refused.contains("\"unknown\"") && refused.contains("; --leave-out leaves such branches out"),
        "{refused}"
    );
    assert!(!place.path("few.root").exists());
    let made = place.json(&[&skim[..], &to_file, &["--leave-out"]].concat());
    assert!(made["left_out"][0].as_str().unwrap().contains("\"unknown\""), "{made}");
    place.ok(&[&skim[..], &["--leave-out", "--into", "p", "c", "few"]].concat());
    let rows = place.ok(&["ntuple", "read", "few.root"]);
    assert!(rows.starts_with("{\"number\":50,\"jets\":[50,51]}\n{\"number\":52,\"jets\":[52]}\n"));
    assert_eq!(rows, place.ok(&["ntuple", "read", "p", "c", "few"]));
    assert_eq!(made["entries"], rows.lines().count());
    let shown = place.json(&["ntuple", "show", "few.root"]);
    assert!(shown["clusters"].as_u64() > Some(3), "{shown}");
    assert_eq!(shown["clusters"], made["clusters_written"]);
    // Some branches, by a pattern, of all entries and of none.
    let some = ["ntuple", "skim", "t.root", "-f", "j*", "--to", "few.root"];
    assert_eq!(place.json(&some)["entries"], MANY);
    assert_eq!(place.ok(&["ntuple", "head", "few.root", "-n", "2"]), "{\"jets\":[]}\n{\"jets\":[1]}\n");
    let none = place.json(&[&some[..], &["--filter", "number > 30000"]].concat());
    assert_eq!((&none["entries"], &none["clusters_written"]), (&json!(0), &json!(0)));
    assert_eq!(place.ok(&["ntuple", "read", "few.root"]), "");
}

#[test]
fn what_is_refused_of_a_bucket_and_what_is_wrong_with_its_store_is_told_without_doubt_about_its_region() {
    let place = with_bucket("ntuples-bucket-wrong");
    let address = format!("s3://{}/wrong", weed::BUCKET);
    make_file(&place.path("in.root"));
    place.ok(&["ntuple", "import", &address, "in.root"]);
    let within = place.fails(2, &["ntuple", "import", &format!("{address}/deep"), "in.root"]);
    let told = format!(": {address}/deep lies within the store of ntuples {address}, ");
    assert!(within.contains(&told) && !within.contains("region"), "{within}");
    let remote = weed::weed().open("wrong");
    let Got::Bytes(bytes, tag) = remote.get("root", None).unwrap() else { panic!("it is there") };
    // Damaged, it is no single ntuple that is.
    let mut damaged = bytes;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    remote.replace("root", Some(&tag), damaged).unwrap().tag().unwrap();
    let destroy = ["ntuple", "destroy", &address, "events", "--force"];
    let told =
        format!("; that is of {address} itself, by which its ntuples are found, and not of one of them: ");
    let forced = place.fails(7, &destroy);
    assert!(forced.contains(&told) && !forced.contains("--force"), "{forced}");
    remote.delete(vec!["root".to_owned()]).unwrap();
    let rootless = place.fails(2, &["ntuple", "list", &format!("s3://{}", weed::BUCKET), "wrong"]);
    let told = format!(": {address}: there are clusters and no root, ");
    assert!(rootless.contains(&told) && !rootless.contains("region"), "{rootless}");
}

#[test]
fn what_is_written_takes_the_place_of_a_file_alone() {
    let place = Place::new("ntuples-no-file");
    make_file(&place.path("in.root"));
    place.pool_with_files();
    for command in ["export", "skim", "to-parquet", "plot"] {
        let to = |to| ["ntuple", command, "in.root", "--to", to];
        let dash = place.fails(2, &to("-"));
        assert!(dash.ends_with("; name a file with --to; one that is called so is ./-\n"), "{dash}");
        assert!(!place.path("-").exists());
        let device = place.fails(2, &to("/dev/null"));
        assert!(device.ends_with(": /dev/null is no regular file; name another with --to\n"), "{device}");
        for within in ["p/x", "p/t0/x"] {
            let told = place.fails(2, &to(within));
            assert!(told.contains(" is within the pool ") && !place.path(within).exists(), "{told}");
        }
        place.ok(&to("./-"));
        fs::remove_file(place.path("-")).unwrap();
    }
}
