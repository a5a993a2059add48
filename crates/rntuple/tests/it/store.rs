//! Ntuples in a container: what is imported is there as it was, and read in few requests.

use crate::made::{How, Type, file, value};
use crate::read::{hows, numbers, types, values_of};
use crate::store_world::{World, all_ints, header, ints, sealed};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::store::{CreateOptions, Made, When};
use dolmen_rntuple::{Entries, Error, Fault, Memory, Ntuple, Source, Structure, Want};
use proptest::prelude::*;

const SMALL: How = How {
    compression: Compression::Zstd(1),
    elements_of_a_page: 3,
    entries_of_a_cluster: 7,
    clusters_of_a_group: 2,
    has_checksums: true,
};

/// All pages of an ntuple as they are stored, with what is behind them.
fn pages<S: Source>(ntuple: &Ntuple<S>, source: &S) -> Vec<(u64, u32, Vec<u8>, bool)> {
    let mut found = Vec::new();
    for cluster in ntuple.clusters(Entries { first: 0, end: ntuple.entry_count() }).unwrap() {
        let of_columns = cluster.pages.columns.iter();
        for page in of_columns.flat_map(|column| &cluster.list.pages[column.pages.clone()]) {
            let mut stored = vec![0; usize::try_from(page.locator.bytes()).unwrap()];
            source.fetch(&mut [Want { locator: page.locator, into: &mut stored }]).unwrap();
            found.push((cluster.pages.first_entry, page.element_count, stored, page.has_checksum));
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_imported_is_read_as_from_its_file_and_its_pages_are_the_same_bytes(
        of in types(), how in hows(), seed in any::<u64>(), group_bytes in 16_u32..200, range in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let values = values_of(&of, 25, &mut numbers(seed));
        let (bytes, anchor) = file(&of, &values, how);
        let source = Memory::new(bytes.into());
        let ntuple = Ntuple::open(source.clone(), &anchor).unwrap();
        let world = World::any();
        let store = world.store();
        let options = CreateOptions { group_bytes: Some(group_bytes), ..CreateOptions::default() };
        let version = store.import("events", &ntuple, &options).unwrap();
        prop_assert_eq!((version.number, version.entry_count, version.made), (1, 25, Made::Imported));
        let stored = store.open("events", When::Now).unwrap();
        prop_assert_eq!(pages(&ntuple, &source), pages(&stored, stored.source()));
        let (one, other) = (range.0.index(26) as u64, range.1.index(26) as u64);
        for (first, end) in [(0, 25), (one.min(other), one.max(other))] {
            let entries = Entries { first, end };
            let found = stored.read(&[0], entries).unwrap();
            prop_assert_eq!(&found, &ntuple.read(&[0], entries).unwrap());
            for (at, entry) in (first..end).enumerate() {
                prop_assert_eq!(&value(&found[0], at), &values[usize::try_from(entry).unwrap()]);
            }
        }
    }
}

#[test]
fn another_store_of_the_same_container_reads_what_was_imported_from_a_store() {
    World::each(|world| {
        let of = Type::List(ColumnKind::SplitIndex64, Box::new(Type::Number(ColumnKind::Int32)));
        let values = values_of(&of, 20, &mut numbers(1));
        let (bytes, anchor) = file(&of, &values, SMALL);
        let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
        let mut told = Vec::new();
        let options = CreateOptions::default();
        world.store().import_telling("first", &ntuple, &options, |entries| told.push(entries)).unwrap();
        assert_eq!(told, [7, 14, 20]);
        let first = world.another().open("first", When::Now).unwrap();
        world.another().import("second", &first, &CreateOptions::default()).unwrap();
        let second = world.store().open("second", When::Now).unwrap();
        assert_eq!(&*second.header().name, "second");
        let entries = Entries { first: 0, end: 20 };
        assert_eq!(second.read(&[0], entries).unwrap(), ntuple.read(&[0], entries).unwrap());
        let names: Vec<_> = world.store().list().unwrap().into_iter().map(|listed| listed.name).collect();
        assert_eq!(names, ["first".into(), "second".into()]);
        let again = world.store().import("second", &first, &CreateOptions::default());
        assert!(matches!(again, Err(Error::Exists { name }) if &*name == "second"));
        let none = world.store().open("third", When::Now).err();
        assert!(matches!(none, Some(Error::NoNtuple { others, .. }) if others.len() == 2));
    });
}

#[test]
fn a_damaged_page_is_not_imported() {
    let of = Type::Number(ColumnKind::Int64);
    let values = values_of(&of, 20, &mut numbers(1));
    let (mut bytes, anchor) = file(&of, &values, How { compression: Compression::None, ..SMALL });
    let whole = Ntuple::open(Memory::new(bytes.clone().into()), &anchor).unwrap();
    let page = whole.clusters(Entries { first: 0, end: 1 }).unwrap()[0].list.pages[1];
    let dolmen_rntuple::format::locator::Locator::File { offset, .. } = page.locator else { panic!() };
    bytes[usize::try_from(offset).unwrap()] ^= 1;
    let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
    World::each(|world| {
        let found = world.store().import("events", &ntuple, &CreateOptions::default());
        let structure = Structure::Page { column: 0 };
        assert!(
            matches!(found, Err(Error::Corrupt { structure: s, fault: Fault::Checksum, .. }) if s == structure)
        );
        assert!(world.store().list().unwrap().is_empty());
    });
}

#[test]
fn many_columns_are_few_requests_and_one_page_is_read_alone() {
    World::each(|world| {
        let fields: Vec<_> = (0..300).map(|number| format!("f{number}")).collect();
        let fields: Vec<_> = fields.iter().map(|name| (&**name, ColumnKind::Int32)).collect();
        let header = header("wide", &fields);
        let options = CreateOptions { group_bytes: Some(8 << 10), ..CreateOptions::default() };
        let stored = world.store().create(&header, &options).unwrap();
        let mut appender = stored.append().unwrap();
        let mix = |at: i32| at.wrapping_mul(-1_640_531_535);
        for cluster in 0..4 {
            let columns: Vec<_> =
                (0..300).map(|column| ints((0..100).map(|at| mix(cluster * 100 + at + column)))).collect();
            appender.push(&sealed(&header.schema, 0, 100, &columns, 25)).unwrap();
        }
        appender.commit().unwrap();
        let ntuple = stored.open(When::Now).unwrap();
        let asked = || ntuple.source().asked();
        let fields: Vec<_> = ntuple.top_fields().collect();
        let all = ntuple.read(&fields, Entries { first: 0, end: 400 }).unwrap();
        assert_eq!(all.len(), 300);
        let of_all = asked();
        // 123 KB of a cluster are in groups of 6.5 to 8 KiB.
        assert!(of_all.page_requests <= 4 * 20, "{of_all:?}");
        assert!(of_all.page_requests >= 4 * 15, "{of_all:?}");
        assert_eq!(of_all.round_trips, 3, "header with footer, list, pages");
        ntuple.read(&fields[100..110], Entries { first: 0, end: 400 }).unwrap();
        let of_some = asked();
        assert!(of_some.page_requests - of_all.page_requests <= 4 * 2, "{of_some:?}");
        ntuple.read(&fields[7..8], Entries { first: 130, end: 131 }).unwrap();
        let of_one = asked();
        assert_eq!(of_one.page_requests - of_some.page_requests, 1);
        assert!(of_one.page_bytes - of_some.page_bytes <= 25 * 4 + 8 + 9, "{of_one:?}");
        assert_eq!(all_ints(&ntuple, "f9")[399], mix(399 + 9));
    });
}

#[test]
fn nested_columns_of_whole_clusters_are_one_request_of_each_group() {
    World::each(|world| {
        let inner = Type::List(ColumnKind::Index32, Box::new(Type::Number(ColumnKind::Int16)));
        let of = Type::Record(vec![
            Type::List(ColumnKind::SplitIndex64, Box::new(inner)),
            Type::Text(ColumnKind::Index32),
            Type::Number(ColumnKind::Int64),
        ]);
        let values = values_of(&of, 28, &mut numbers(5));
        let (bytes, anchor) = file(&of, &values, SMALL);
        let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
        world.store().import("events", &ntuple, &CreateOptions::default()).unwrap();
        let stored = world.store().open("events", When::Now).unwrap();
        let all = Entries { first: 0, end: 28 };
        assert_eq!(stored.read(&[0], all).unwrap(), ntuple.read(&[0], all).unwrap());
        let asked = stored.source().asked();
        assert_eq!((asked.page_requests, asked.round_trips), (4, 3), "four clusters of one group each");
        // Of a part of a cluster only what is wanted is fetched, level by level.
        let part = Entries { first: 3, end: 5 };
        assert_eq!(stored.read(&[0], part).unwrap(), ntuple.read(&[0], part).unwrap());
        assert_eq!(stored.source().asked().page_requests, 4 + 3);
        // The same field twice is the same pages twice.
        assert_eq!(stored.read(&[0, 0], all).unwrap(), ntuple.read(&[0, 0], all).unwrap());
        assert_eq!(stored.source().asked().page_requests, 4 + 3 + 4);
    });
}

type Make<'a> = &'a dyn Fn(&str) -> dolmen_rntuple::Result<()>;

#[test]
fn what_is_made_under_a_name_that_another_takes_meanwhile_is_freed_at_once() {
    let options = CreateOptions::default();
    World::each(|world| {
        let events = header("events", &[("a", ColumnKind::Int32)]);
        let made: [Make<'_>; 2] = [&|_| world.store().create(&events, &options).map(drop), &|from| {
            let from = world.store().ntuple(from)?;
            world.store().clone_fields(&from, When::Now, &[], "events").map(drop)
        }];
        let from = header("from", &[("a", ColumnKind::Int32)]);
        world.store().create(&from, &options).unwrap();
        let before = world.object_count();
        for make in made {
            let (other, of_other, how) = (world.another(), events.clone(), options.clone());
            world.faults.before_commit(move || drop(other.create(&of_other, &how).unwrap()));
            assert!(matches!(make("from"), Err(Error::Exists { .. })));
            world.store().destroy("events").unwrap();
            world.store().collect().unwrap();
            assert_eq!(world.object_count(), before);
        }
    });
}
