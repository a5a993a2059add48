//! `dolmen ntuple` where pages of what is stored are damaged.

use crate::common::Place;
use crate::ntuples::{COUNT, numbers, write_file};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::locator::Locator;
use dolmen_rntuple::rootfile::RootFile;
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{Array, Ntuple, Values};
use std::fs;
use std::path::PathBuf;

/// Changes a bit of a page of field "energy" where the pool in "p" has it on disk; the first entry of its cluster.
fn spoil(place: &Place, file: &str) -> u64 {
    let path = place.path(file);
    let mut root = RootFile::open(&path).unwrap();
    let anchor = root.anchor("events").unwrap();
    let ntuple = Ntuple::open(root, &anchor).unwrap();
    let clusters = ntuple.all_clusters().unwrap();
    let column = &clusters[1].pages.columns[1];
    let page = clusters[1].list.pages[column.pages.start + 1];
    let Locator::File { offset, bytes } = page.locator else { panic!("it is in a file") };
    let start = usize::try_from(offset).unwrap();
    let whole = fs::read(&path).unwrap();
    let sought = &whole[start..start + usize::try_from(bytes).unwrap()];
    let targets = (0..2).map(|target| place.path(&format!("p/t{target}")));
    let files = targets.flat_map(|target| fs::read_dir(target).unwrap()).map(|entry| entry.unwrap().path());
    let bulk: Vec<PathBuf> =
        files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("bulk")).collect();
    for path in bulk {
        let mut there = fs::read(&path).unwrap();
        if let Some(at) = there.windows(sought.len()).position(|window| window == sought) {
            there[at + 5] ^= 0x10;
            fs::write(&path, there).unwrap();
            return clusters[1].pages.first_entry;
        }
    }
    panic!("the page is nowhere")
}

#[test]
fn a_damaged_page_is_told_by_its_field_and_put_right_from_the_file_that_was_imported() {
    let place = Place::new("ntuples-damaged");
    place.pool_with_files();
    let column = |from: i32| Array::Values(Values::F64((from..from + COUNT).map(f64::from).collect()));
    let run = Array::Values(Values::I32((0..COUNT).collect()));
    let fields = [("number", &run), ("energy", &column(0))];
    let options = Options {
        compression: Compression::None,
        page_bytes: 6000,
        cluster_bytes: 20_000,
        ..Options::default()
    };
    write_file(&place.path("in.root"), &fields, &options, 1);
    write_file(&place.path("other.root"), &[("number", &run), ("energy", &column(7))], &options, 1);
    // Each page is a value of its own, with a checksum of its own.
    place.ok(&["ntuple", "import", "p", "c", "in.root", "--group", "4096"]);
    let first = spoil(&place, "in.root");
    assert!(first > 0);
    let named = format!("field \"energy\" cannot be read in entries {first} to ");
    let remedy = "`dolmen ntuple scrub` tells all that is damaged, and with --repair-from FILE puts it right";
    let into = ["ntuple", "copy", "p", "c", "events", "p", "c", "--name", "copied"];
    let reads: [&[&str]; 5] = [
        &["ntuple", "read", "p", "c", "events"],
        &["ntuple", "to-parquet", "p", "c", "events", "--to", "out.parquet"],
        &["ntuple", "export", "p", "c", "events", "--to", "out.root"],
        &["ntuple", "skim", "p", "c", "events", "--to", "out.root"],
        &into,
    ];
    for words in reads {
        let told = place.fails(7, words);
        assert!(
            told.contains(&named)
                && told.contains(
                    "there are damaged bytes in or next to page 1 of their cluster: damaged data on target "
                ),
            "{told}"
        );
        assert!(told.contains(remedy), "{told}");
    }
    // What is not damaged is read.
    assert!(
        place
            .ok(&["ntuple", "read", "p", "c", "events", "--field", "number"])
            .ends_with("{\"number\":2999}\n")
    );
    let scrub = ["ntuple", "scrub", "p", "c", "events"];
    let found = place.run(&scrub);
    assert_eq!(found.code(), 1, "{found:?}");
    let line = format!("\ndamaged: page 1 of field energy (column 1) in entries {first} to ");
    assert!(found.stdout().contains(&line), "{found:?}");
    assert!(found.stdout().contains(": the store has damaged bytes in it or next to it\n"), "{found:?}");
    assert!(found.stdout().contains("\n1 page is damaged; --repair-from FILE puts right what"), "{found:?}");
    let unfit = place.run(&[&scrub[..], &["--repair-from", "other.root"]].concat());
    assert_eq!(unfit.code(), 1, "{unfit:?}");
    assert!(
        unfit.stdout().contains("1 page is damaged; other.root has no such pages: give the file"),
        "{unfit:?}"
    );
    let mended = place.ok(&[&scrub[..], &["--repair-from", "in.root"]].concat());
    assert!(mended.contains("\nput right: page 1 of field energy"), "{mended}");
    let until = "until `dolmen cont aggregate p c` has freed them\n";
    assert!(mended.ends_with(until), "{mended}");
    place.ok(&scrub);
    // The bytes that were replaced are there until they are freed, as was said.
    let audited = place.run(&["check", "p", "--scrub"]);
    assert_eq!(audited.code(), 1, "{audited:?}");
    assert!(audited.stdout().contains("`ntuple scrub --repair-from`"), "{audited:?}");
    place.ok(&["cont", "aggregate", "p", "c"]);
    place.ok(&["check", "p", "--scrub"]);
    place.ok(&["ntuple", "export", "p", "c", "events", "--to", "out.root"]);
    assert_eq!(numbers(&place.path("out.root")), (0..COUNT).collect::<Vec<_>>());
}

#[test]
fn what_is_freed_and_what_is_kept_is_told() {
    let place = Place::new("ntuples-freed");
    place.pool_with_files();
    crate::ntuples::make_file(&place.path("in.root"));
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    let clusters = place.json(&["ntuple", "show", "p", "c", "events"])["clusters"].as_u64().unwrap();
    let keep = ["ntuple", "keep", "p", "c", "events"];
    let day = "versions are kept for 86400 seconds after they were replaced, and while a tag keeps them\n";
    assert_eq!(place.ok(&keep), day);
    assert!(place.ok(&["ntuple", "versions", "p", "c", "events"]).ends_with(day));
    place.ok(&["ntuple", "reshape", "p", "c", "events", "--compression", "none"]);
    let gc = place.ok(&["ntuple", "gc", "p", "c"]);
    let told = "freed 0 clusters\n1 replaced version is kept still, by tags or for as long as `dolmen ntuple keep` says\n";
    assert_eq!(gc, told);
    assert_eq!(place.json(&["ntuple", "gc", "p", "c"])["kept"], 1);
    place.ok(&["ntuple", "tag", "p", "c", "events", "first", "1"]);
    assert_eq!(place.json(&[&keep[..], &["0"]].concat())["seconds"], 0);
    assert_eq!(place.json(&keep)["seconds"], 0);
    assert!(place.ok(&["ntuple", "gc", "p", "c"]).contains("1 replaced version is kept still"));
    place.ok(&["ntuple", "untag", "p", "c", "events", "first"]);
    let gc = place.ok(&["ntuple", "gc", "p", "c"]);
    let space = "; `dolmen cont aggregate p c` gives their space back to the pool at once\n";
    assert_eq!(gc, format!("freed {clusters} clusters, 1 replaced version{space}"));
    let destroyed = place.ok(&["ntuple", "destroy", "p", "c", "events"]);
    assert_eq!(destroyed, format!("destroyed events; freed 1 cluster{space}"));
}

#[test]
fn what_shares_a_checksum_with_damaged_bytes_is_put_right_with_them_and_the_pool_is_clean_then() {
    let place = Place::new("ntuples-damaged-packed");
    place.pool_with_files();
    let number = Array::Values(Values::I32((0..COUNT).collect()));
    let energy = Array::Values(Values::F64((0..COUNT).map(f64::from).collect()));
    let options = Options {
        compression: Compression::None,
        page_bytes: 2000,
        cluster_bytes: 20_000,
        ..Options::default()
    };
    write_file(&place.path("in.root"), &[("number", &number), ("energy", &energy)], &options, 1);
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    spoil(&place, "in.root");
    let scrub = ["ntuple", "scrub", "p", "c", "events"];
    let found = place.run(&[&scrub[..], &["--json"]].concat());
    assert_eq!(found.code(), 1, "{found:?}");
    let found: serde_json::Value = serde_json::from_str(&found.stdout()).unwrap();
    let bad = found["response"]["bad"].as_array().unwrap();
    assert!(bad.len() > 1 && bad.iter().all(|page| page["damage"] == "Store"), "{found}");
    // Another cluster is another value.
    let read = ["ntuple", "read", "p", "c", "events", "--first", "0", "--count", "1000"];
    assert_eq!(place.ok(&read).lines().count(), 1000);
    place.ok(&[&scrub[..], &["--repair-from", "in.root"]].concat());
    place.ok(&["cont", "aggregate", "p", "c"]);
    place.ok(&["check", "p", "--scrub"]);
    place.ok(&["ntuple", "export", "p", "c", "events", "--to", "out.root"]);
    assert_eq!(numbers(&place.path("out.root")), (0..COUNT).collect::<Vec<_>>());
}
