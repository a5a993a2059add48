//! What takes long is called off wherever it is, and nothing of it is seen.

use crate::store_append::{cluster, two_columns};
use crate::store_trees::{how, two_branches};
use crate::store_world::{LEASE_NS, World};
use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::Schema;
use dolmen_rntuple::rootfile::{FileOptions, FileTime, export};
use dolmen_rntuple::store::{CreateOptions, When};
use dolmen_rntuple::write::{self, Options, Room};
use dolmen_rntuple::{Array, Entries, Error, Result, Values, stop};
use std::sync::Arc;

/// Runs something that is called off when it asks for the time of that number; how often it asked.
fn stopped_at(at: u64, run: impl FnOnce() -> Result<()>) -> (u64, Result<()>) {
    let count = Arc::new(AtomicU64::new(0));
    let same = Arc::clone(&count);
    let asked: stop::Asked = Arc::new(move || same.fetch_add(1, Ordering::Relaxed) >= at);
    let done = stop::asking(Some(asked), run);
    (count.load(Ordering::Relaxed), done)
}

#[test]
fn what_takes_long_is_called_off_wherever_it_is_and_nothing_of_it_is_seen() {
    World::each(|world| {
        let (stored, store, tree) = (two_columns(&world), world.store(), two_branches());
        let mut appender = stored.append().unwrap();
        [0, 5, 10].into_iter().for_each(|first| appender.push(&cluster(&stored, first)).unwrap());
        appender.commit().unwrap();
        let (ntuple, options, write) =
            (stored.open(When::Now).unwrap(), CreateOptions::default(), Options::default());
        let folder = std::env::temp_dir().join(format!("dolmen-stop-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let out = folder.join("out.root");
        let file = FileOptions { time: FileTime::of_unix(0), compression: Compression::None };
        let (first, end) = (0, ntuple.entry_count());
        let some = [Entries { first: 1, end: 3 }];
        let runs: [(&str, &dyn Fn() -> Result<()>); 8] = [
            ("import", &|| store.import("made", &ntuple, &options).map(drop)),
            ("import of a tree", &|| store.import_tree("made", &tree, &how(), &options, |_| ()).map(drop)),
            ("export", &|| export(&ntuple, &out, file, |_| ())),
            ("read", &|| ntuple.read(&[0, 1], Entries { first, end }).map(drop)),
            ("scrub", &|| stored.scrub(When::Now, |_| ()).map(drop)),
            ("skim", &|| store.skim(&ntuple, &[], &some, "made", &options, &write).map(drop)),
            ("reshape", &|| stored.reshape(0, u64::MAX, &write).map(drop)),
            ("append", &|| {
                let mut appender = stored.append()?;
                let done = appender.push_all(&ntuple).and_then(|()| appender.commit());
                if done.is_err() {
                    appender.discard()?;
                }
                done.map(drop)
            }),
        ];
        let before = world.object_count();
        for (name, run) in runs {
            for at in 0.. {
                let (asked, done) = stopped_at(at, run);
                if asked <= at {
                    assert!(at > 0, "{name} is never asked about");
                    break;
                }
                assert!(matches!(done, Err(Error::Stopped)), "{name}: {done:?}");
                assert!(!out.exists() && std::fs::read_dir(&folder).unwrap().next().is_none(), "{name}");
                assert_eq!(store.list().unwrap().len(), 1, "{name}");
                let version = stored.version(When::Now).unwrap();
                assert_eq!((version.number, version.entry_count), (2, 15), "{name}");
                store.collect().unwrap();
                assert_eq!(world.object_count(), before, "{name}: what it wrote is freed at once");
                if name == "append" || name == "reshape" {
                    // What is done is a version more: once is enough.
                    break;
                }
            }
            if store.list().unwrap().len() == 2 {
                store.destroy("made").unwrap();
            }
            if out.exists() {
                std::fs::remove_file(&out).unwrap();
            }
        }
        world.clock.advance(LEASE_NS * 2);
        let (asked, collected) = stopped_at(0, || store.collect().map(drop));
        assert!(asked > 0 && matches!(collected, Err(Error::Stopped)));
        store.collect().unwrap();
        assert_eq!(stored.scrub(When::Now, |_| ()).unwrap().bad.len(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    });
}

#[test]
fn pages_that_are_made_of_values_are_called_off_one_by_one() {
    let values = Array::Values(Values::I64((0..100).collect()));
    let fields = [("x", &values)];
    let mut schema = Schema::default();
    let compression = Compression::Lzma(9);
    write::schema(&mut schema, &fields, compression).unwrap();
    let options = Options { compression, page_bytes: 80, ..Options::default() };
    for at in [0, 4, 9] {
        let (asked, done) = stopped_at(at, || write::seal(&schema, &fields, 0..100, &options).map(drop));
        assert!(matches!(done, Err(Error::Stopped)) && asked == at + 1, "{asked}");
        let mut room = Room::default();
        let in_room = || write::seal_in(&schema, &fields, 0..100, &options, &mut room).map(drop);
        assert!(matches!(stopped_at(at, in_room).1, Err(Error::Stopped)));
    }
    assert!(stopped_at(10, || write::seal(&schema, &fields, 0..100, &options).map(drop)).1.is_ok());
}
