//! Objects: values of both forms, conditions, splitting, enumeration and queries over shards.

use super::common::open;
use dolmen_client::{
    Anchor, At, Cond, Container, Error, FetchIod, Invalid, IoBuf, Key, NewValue, Object, ObjectClass,
    ObjectType, Oid, Page, Payload, QueryFlags, Recx, UpdateIod, Want,
};
use dolmen_types::limits::{PAYLOAD_BYTES_MAX, WINDOW_RECORDS};
use std::collections::BTreeSet;

pub(crate) fn object(cont: &Container, object_type: ObjectType, class: &str) -> Object {
    let oid = cont.alloc_oid(object_type, ObjectClass::from_name(class).unwrap()).unwrap();
    cont.object(oid).unwrap()
}

fn value(object: &Object, at: At<'_>, dkey: &[u8], akey: &[u8]) -> Option<Vec<u8>> {
    let mut buf = IoBuf::default();
    object.get(at, dkey, akey, &mut buf).unwrap().map(|len| buf[..len].to_vec())
}

pub(crate) fn dkeys(object: &Object, at: At<'_>, page: Page) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut anchor = Anchor::default();
    while !anchor.is_eof() {
        keys.extend(object.list_dkeys(at, &mut anchor, page).unwrap().iter().map(Key::from_slice));
    }
    keys
}

pub(crate) fn small_page() -> Page {
    Page { items_max: 3, bytes_max: 1 << 16 }
}

#[test]
fn a_single_value_is_read_back_whatever_the_buffer() {
    let (_, _, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "S1");
    let big = vec![7; 100_000];
    object.put(At::Latest, b"d", b"small", b"stone").unwrap();
    object.put(At::Latest, b"d", b"big", &big).unwrap();
    assert_eq!(value(&object, At::Latest, b"d", b"small").as_deref(), Some(&b"stone"[..]));
    assert_eq!(value(&object, At::Latest, b"d", b"big"), Some(big));
    assert_eq!(value(&object, At::Latest, b"d", b"none"), None);
    assert_eq!(object.size(At::Latest, b"d", b"big").unwrap(), 100_000);
    assert_eq!(object.size(At::Latest, b"e", b"big").unwrap(), 0);
}

#[test]
fn holes_leave_the_buffer_as_it_was() {
    let (_, _, cont) = open(1);
    let object = object(&cont, ObjectType::MultiHashed, "S1");
    object.write(At::Latest, b"d", b"a", 2, Recx::new(3, 2), b"aabb").unwrap();
    let mut buf = IoBuf::copy_of(&[9; 10]);
    let found = object.read(At::Latest, b"d", b"a", 2, Recx::new(2, 5), &mut buf).unwrap();
    assert_eq!(found.filled.as_slice(), [Recx::new(3, 2)]);
    assert_eq!(&buf[..], [9, 9, b'a', b'a', b'b', b'b', 9, 9, 9, 9]);
    object.punch_records(At::Latest, b"d", b"a", &[Recx::new(4, 1 << 40)]).unwrap();
    let found = object.read(At::Latest, b"d", b"a", 2, Recx::new(2, 5), &mut buf).unwrap();
    assert_eq!(found.filled.as_slice(), [Recx::new(3, 1)]);
    assert_eq!(
        object.read(At::Latest, b"d", b"a", 4, Recx::new(2, 5), &mut buf),
        Err(Error::RecordSize { stored_bytes: 2 })
    );
}

#[test]
fn conditions_hold_for_dkey_akey_and_each_akey() {
    let (_, _, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "S2");
    let iod = |akey: &[u8], cond| UpdateIod {
        akey: Key::from_slice(akey),
        cond,
        value: NewValue::Single(Payload::Ref(b"v")),
    };
    let put = |cond, iods: &[UpdateIod<'_>]| object.update(At::Latest, b"d", cond, iods).map(|_| ());
    assert_eq!(put(Cond::DKEY_UPDATE, &[iod(b"a", Cond::NONE)]), Err(Error::NotFound));
    assert_eq!(put(Cond::DKEY_INSERT, &[iod(b"a", Cond::NONE)]), Ok(()));
    assert_eq!(put(Cond::DKEY_INSERT, &[iod(b"b", Cond::NONE)]), Err(Error::Exists));
    assert_eq!(put(Cond::AKEY_INSERT, &[iod(b"a", Cond::NONE)]), Err(Error::Exists));
    let each = [iod(b"a", Cond::AKEY_UPDATE), iod(b"b", Cond::AKEY_INSERT)];
    assert_eq!(put(Cond::PER_AKEY, &each), Ok(()));
    assert_eq!(put(Cond::PER_AKEY, &each), Err(Error::Exists));
    let want = FetchIod { akey: Key::from_slice(b"z"), want: Want::Size };
    let fetched = object.fetch(At::Latest, b"d", Cond::AKEY_FETCH, &[want], &mut IoBuf::default());
    assert_eq!(fetched, Err(Error::NotFound));
    assert!(object.punch_akeys(At::Latest, b"d", &[b"a", b"b"], Cond::PUNCH).is_ok());
    assert_eq!(object.punch_dkey(At::Latest, b"d", Cond::PUNCH), Err(Error::NotFound));
    assert!(object.punch_dkey(At::Latest, b"d", Cond::NONE).is_ok());
}

#[test]
fn an_update_over_windows_and_beyond_the_payload_limit_is_split_unseen() {
    let (_, _, cont) = open(1);
    let object = object(&cont, ObjectType::MultiHashed, "S1");
    let across = Recx::new(WINDOW_RECORDS - 2, 5);
    object.write(At::Latest, b"d", b"a", 1, across, b"12345").unwrap();
    let mut buf = IoBuf::default();
    assert_eq!(object.read(At::Latest, b"d", b"a", 1, across, &mut buf).unwrap().filled.as_slice(), [across]);
    assert_eq!(&buf[..5], b"12345");
    let data: Vec<u8> = (0..PAYLOAD_BYTES_MAX + 12_345).map(|n| u8::try_from(n % 253).unwrap()).collect();
    let large = Recx::new(77, data.len() as u64);
    object.write(At::Latest, b"d", b"b", 1, large, &data).unwrap();
    assert_eq!(object.read(At::Latest, b"d", b"b", 1, large, &mut buf).unwrap().filled.as_slice(), [large]);
    assert!(buf[..] == data[..]);
}

#[test]
fn dkeys_of_all_shards_are_listed_once() {
    let (_, _, cont) = open(4);
    for class in ["S1", "SX", "S8"] {
        let object = object(&cont, ObjectType::MultiHashed, class);
        let names: BTreeSet<Key> = (0..50).map(|n| Key::from_slice(format!("name{n}").as_bytes())).collect();
        for name in &names {
            object.put(At::Latest, name, b"a", b"v").unwrap();
        }
        let listed = dkeys(&object, At::Latest, small_page());
        assert_eq!(listed.len(), names.len(), "{class}");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names);
    }
    let object = object(&cont, ObjectType::MultiHashed, "S1");
    assert!(dkeys(&object, At::Latest, small_page()).is_empty());
}

#[test]
fn a_key_that_does_not_fit_the_page_says_how_long_it_is() {
    let (_, _, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    object.put(At::Latest, &[b'k'; 300], b"a", b"v").unwrap();
    let page = Page { items_max: 10, bytes_max: 100 };
    let listed = object.list_dkeys(At::Latest, &mut Anchor::default(), page);
    assert_eq!(listed, Err(Error::KeyTooBig { needed_bytes: 300 }));
}

#[test]
fn queries_find_the_extremes_of_all_shards() {
    let (_, _, cont) = open(4);
    let object = object(&cont, ObjectType::DkeyUint64, "SX");
    for number in [5_u64, 900, 17, 3, 256] {
        object.write(At::Latest, &number.to_le_bytes(), b"a", 1, Recx::new(number, 2), b"xy").unwrap();
    }
    let ask = |flags: QueryFlags| object.query(At::Latest, flags, &[], b"a").unwrap().unwrap();
    let max = ask(QueryFlags::MAX.and(QueryFlags::DKEY).and(QueryFlags::RECX));
    assert_eq!((&max.dkey[..], max.recx), (&900_u64.to_le_bytes()[..], Some(Recx::new(901, 1))));
    let min = ask(QueryFlags::MIN.and(QueryFlags::DKEY));
    assert_eq!(&min.dkey[..], 3_u64.to_le_bytes());
    let bad = object.query(At::Latest, QueryFlags::MAX.and(QueryFlags::AKEY), &[0; 8], &[]);
    assert_eq!(bad, Err(Invalid::Query.into()));
}

#[test]
fn an_object_over_all_targets_is_punched_as_one() {
    let (_, _, cont) = open(4);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    assert_eq!(object.punch(At::Latest, Cond::PUNCH), Err(Error::NotFound));
    for n in 0..20_u8 {
        object.put(At::Latest, &[n, 1], b"a", b"v").unwrap();
    }
    let before = cont.create_snapshot(None).unwrap();
    let punched = object.punch(At::Latest, Cond::PUNCH).unwrap();
    assert!(punched > before);
    assert!(dkeys(&object, At::Latest, Page::default()).is_empty());
    assert_eq!(dkeys(&object, At::Snapshot(before), Page::default()).len(), 20);
}

#[test]
fn ids_that_cannot_be_placed_are_refused() {
    let (_, _, cont) = open(2);
    for class in ["RP_2G1", "EC_2P1GX"] {
        let class = ObjectClass::from_name(class).unwrap();
        assert_eq!(cont.alloc_oid(ObjectType::Array, class), Err(Invalid::ObjectId.into()));
    }
    assert!(cont.object(Oid { hi: 0, lo: 0 }).is_err());
    assert!(cont.object(Oid { hi: u64::MAX, lo: 0 }).is_err());
}

#[test]
fn the_automatic_class_and_the_widest_are_fixed_in_the_id() {
    let (_, _, cont) = open(3);
    let array = cont.alloc_oid(ObjectType::ArrayByte, ObjectClass::UNKNOWN).unwrap();
    let dir = cont.alloc_oid(ObjectType::MultiHashed, ObjectClass::UNKNOWN).unwrap();
    assert_eq!((array.class().groups(), dir.class().groups()), (3, 1));
    let mut lows: Vec<u64> =
        (0..5_000).map(|_| cont.alloc_oid(ObjectType::Array, ObjectClass::S1).unwrap().lo).collect();
    lows.sort_unstable();
    lows.dedup();
    assert_eq!(lows.len(), 5_000);
}
