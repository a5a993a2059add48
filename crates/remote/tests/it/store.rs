//! A store of ntuples in a bucket of a real server.

use crate::file::{columns, how, write_to};
use crate::weed::weed;
use dolmen_remote::{Remote, RemoteFile, RemoteOutput};
use dolmen_rntuple::bucket::Bucket;
use dolmen_rntuple::rootfile::export_on;
use dolmen_rntuple::store::{CreateOptions, Store, StoreOptions, StoreSource, When};
use dolmen_rntuple::{Array, Entries, Ntuple, Values};
use std::sync::Arc;

/// Entries of what is imported and appended.
const ENTRIES: i32 = 50_000;

fn first_column(ntuple: &Ntuple<StoreSource>) -> Vec<i32> {
    let end = ntuple.entry_count();
    let read = ntuple.read(&[0], Entries { first: 0, end }).unwrap();
    let Array::Values(Values::I32(values)) = &read[0] else { panic!("numbers: {read:?}") };
    values.clone()
}

#[test]
fn ntuples_are_imported_appended_to_by_several_read_and_exported_in_a_bucket() {
    let files = Arc::new(weed().open("files of the store"));
    write_to(&files, "made.root", ENTRIES).finish().unwrap();
    let mut file = RemoteFile::of(&files, "made.root").unwrap().into_root().unwrap();
    let anchor = file.anchor("made").unwrap();
    let from = &Ntuple::open(file, &anchor).unwrap();

    let remote: Arc<Remote> = Arc::new(weed().open("store"));
    let store = &Store::in_bucket(remote.clone(), &StoreOptions::default());
    let first = store.import("made", from, &CreateOptions::default()).unwrap();
    let once: Vec<i32> = (0..ENTRIES).collect();
    assert!(first_column(&store.open("made", When::Now).unwrap()) == once);
    // Each from a store of its own, as other processes have.
    dolmen_env::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let own = Store::in_bucket(Arc::new(weed().open("store")), &StoreOptions::default());
                let mut appender = own.ntuple("made").unwrap().append().unwrap();
                appender.push_all(from).unwrap();
                appender.commit().unwrap();
            });
        }
    });
    let anew = Store::in_bucket(Arc::new(weed().open("store/")), &StoreOptions::default());
    let now = anew.open("made", When::Now).unwrap();
    assert!(first_column(&now) == once.repeat(5), "all of each is there");
    assert!(first_column(&anew.open("made", When::Version(first.number)).unwrap()) == once);

    let output = RemoteOutput::create(&files, "out.root").unwrap();
    export_on(&now, Box::new(output), "out.root", how(), |_| ()).unwrap();
    let mut file = RemoteFile::of(&files, "out.root").unwrap().into_root().unwrap();
    let anchor = file.anchor("made").unwrap();
    let exported = Ntuple::open(file, &anchor).unwrap();
    assert_eq!(exported.entry_count(), 5 * u64::from(ENTRIES.unsigned_abs()));
    let read = exported.read(&[0, 1], Entries { first: 0, end: u64::from(ENTRIES.unsigned_abs()) }).unwrap();
    assert!(read == columns(ENTRIES));

    anew.destroy("made").unwrap();
    assert!(anew.list().unwrap().is_empty());
    assert!(!remote.list("").unwrap().is_empty(), "what others may be reading stays until it is collected");
}

#[test]
fn a_store_is_made_neither_within_another_nor_around_one_nor_where_a_file_is() {
    let at = |prefix: &str| Store::in_bucket(Arc::new(weed().open(prefix)), &StoreOptions::default());
    let files = Arc::new(weed().open("placed"));
    write_to(&files, "file.root", 10).finish().unwrap();
    let mut file = RemoteFile::of(&files, "file.root").unwrap().into_root().unwrap();
    let anchor = file.anchor("made").unwrap();
    let from = &Ntuple::open(file, &anchor).unwrap();
    let make = |prefix: &str| {
        let made = at(prefix).import("made", from, &CreateOptions::default()).map(drop);
        made.map_err(|error| core::error::Error::source(&error).expect("it says why").to_string())
    };
    make("placed/a/store").unwrap();
    for (prefix, why) in [
        ("placed/a/store/in", "lies within the store of ntuples"),
        ("placed/a", "/placed/a/store lies below "),
        ("placed", "/placed/a/store lies below "),
        ("placed/file.root", "there is an object at "),
    ] {
        let found = make(prefix).unwrap_err();
        assert!(found.contains(why), "{prefix}: {found}");
        assert!(at(prefix).list().unwrap().is_empty());
    }
    make("placed/a/stores").unwrap();
    make("placed/file").unwrap();
    assert_eq!(at("placed/a/store").list().unwrap().len(), 1);
}
