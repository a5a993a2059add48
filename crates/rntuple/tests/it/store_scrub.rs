//! Damaged pages are found and named, and put right from elsewhere.

use crate::store_append::{cluster, two_columns};
use crate::store_world::{Kind, World, all_ints};
use dolmen_client::{At, Recx};
use dolmen_rntuple::format::locator::Locator;
use dolmen_rntuple::format::page_list::Page;
use dolmen_rntuple::store::{BadPage, CreateOptions, Damage, Scrubbed, Stored, When};
use dolmen_rntuple::{Entries, Error};

fn three_clusters(world: &World) -> Stored {
    let stored = two_columns(world);
    let mut appender = stored.append().unwrap();
    for first in [0, 5, 10] {
        appender.push(&cluster(&stored, first)).unwrap();
    }
    appender.commit().unwrap();
    stored
}

/// The page of a column in the cluster that begins there.
fn page(stored: &Stored, first: u64, column: usize, number: usize) -> Page {
    let ntuple = stored.open(When::Now).unwrap();
    let clusters = ntuple.clusters(Entries { first, end: first + 1 }).unwrap();
    clusters[0].list.pages[clusters[0].pages.columns[column].pages.start + number]
}

/// Writes over bytes of a page, or removes them, past all that looks.
fn damage(world: &World, page: &Page, at: u64, bytes: Option<&[u8]>) {
    let Locator::Stored { object, group, offset, .. } = page.locator else { panic!("the page is stored") };
    let mut walk = world.cont().objects(None);
    let oid = core::iter::repeat_with(|| walk.next_page().unwrap()).flatten().find(|oid| oid.lo == object);
    let object = world.cont().object(oid.unwrap()).unwrap();
    let dkey = u64::from(group).to_le_bytes();
    match bytes {
        Some(bytes) => {
            let recx = Recx::new(offset + at, bytes.len() as u64);
            object.write(At::Latest, &dkey, b"pages", 1, recx, bytes).unwrap();
        }
        None => {
            object.punch_records(At::Latest, &dkey, b"pages", &[Recx::new(offset + at, 1)]).unwrap();
        }
    }
}

fn scrubbed(stored: &Stored) -> Scrubbed {
    let mut told = Vec::new();
    let scrubbed = stored.scrub(When::Now, |entries| told.push(entries)).unwrap();
    assert_eq!(told, [5, 10, 15]);
    scrubbed
}

fn named(bad: &[BadPage]) -> Vec<(&str, u64, u32, Damage)> {
    bad.iter().map(|bad| (&*bad.field, bad.entries.first, bad.page, bad.damage)).collect()
}

#[test]
fn a_damaged_page_is_named_by_field_cluster_and_page_and_put_right_from_a_copy() {
    let world = World::of(Kind::Container);
    let stored = three_clusters(&world);
    let whole = scrubbed(&stored);
    assert_eq!((whole.pages, whole.unsummed, whole.bad.len()), (18, 0, 0));
    let now = stored.open(When::Now).unwrap();
    world.store().import("copy", &now, &CreateOptions::default()).unwrap();
    damage(&world, &page(&stored, 0, 1, 2), 0, Some(&[0x55]));
    damage(&world, &page(&stored, 5, 0, 0), 2, None);
    let summed = page(&stored, 10, 0, 1);
    // The checksum behind the page, with bytes that fit it: only what is known besides tells that they are others.
    let other = vec![7; usize::try_from(summed.locator.bytes()).unwrap()];
    let sum = dolmen_rntuple::format::checksum(&other).to_le_bytes();
    damage(&world, &summed, 0, Some(&[&other[..], &sum].concat()));
    let found = scrubbed(&stored);
    assert_eq!(found.pages, 18);
    assert_eq!(
        named(&found.bad),
        [("b", 0, 2, Damage::Checksum), ("a", 5, 0, Damage::Missing), ("a", 10, 1, Damage::Checksum)]
    );
    let damaged = |fields: &[u32], first| {
        let read = stored.open(When::Now).unwrap().read(fields, Entries { first, end: 15 });
        let Err(Error::BadPage { field, first, end, page, .. }) = read else { panic!("{read:?}") };
        (field.to_string(), first, end, page)
    };
    assert_eq!(damaged(&[1], 0), ("b".to_owned(), 0, 5, 2));
    assert_eq!(damaged(&[0, 1], 6), ("a".to_owned(), 5, 10, 0));
    let empty = stored.open(When::Version(1)).unwrap();
    assert_eq!(stored.repair(&found.bad, &empty).unwrap(), [false; 3]);
    let copy = world.store().open("copy", When::Now).unwrap();
    assert_eq!(stored.repair(&found.bad, &copy).unwrap(), [true; 3]);
    assert_eq!(scrubbed(&stored), whole);
    assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), (0..15).collect::<Vec<_>>());
    assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "b"), (0..15).map(|at| -at).collect::<Vec<_>>());
}

#[test]
fn a_page_is_found_where_it_is_now_and_one_that_is_damaged_too_is_not_taken() {
    let world = World::of(Kind::Container);
    let stored = three_clusters(&world);
    let mut behind = world.store().create(
        &dolmen_rntuple::format::Header {
            name: "shifted".into(),
            ..stored.open(When::Now).unwrap().header().clone()
        },
        &CreateOptions::default(),
    );
    let shifted = behind.as_mut().unwrap();
    let mut appender = shifted.append().unwrap();
    appender.push(&cluster(&stored, 50)).unwrap();
    appender.push_all(&stored.open(When::Now).unwrap()).unwrap();
    appender.commit().unwrap();
    let bad = page(&stored, 5, 1, 1);
    damage(&world, &bad, 0, Some(&[0xaa]));
    let found = stored.scrub(When::Now, |_| ()).unwrap().bad;
    damage(&world, &page(shifted, 10, 1, 1), 0, Some(&[0xaa]));
    assert_eq!(stored.repair(&found, &shifted.open(When::Now).unwrap()).unwrap(), [false]);
    let of_shifted = shifted.scrub(When::Now, |_| ()).unwrap().bad;
    assert_eq!(named(&of_shifted), [("b", 10, 1, Damage::Checksum)]);
    // What was there before the damage is there still, and gives it back to both.
    let mut appender = shifted.append().unwrap();
    appender.push(&cluster(&stored, 5)).unwrap();
    appender.commit().unwrap();
    assert_eq!(stored.repair(&found, &shifted.open(When::Now).unwrap()).unwrap(), [true]);
    assert_eq!(shifted.repair(&of_shifted, &stored.open(When::Now).unwrap()).unwrap(), [true]);
    for stored in [&stored, &*shifted] {
        assert!(stored.scrub(When::Now, |_| ()).unwrap().bad.is_empty());
    }
}
