//! Read-your-own-writes: a transaction sees what direct writes would have made.
//!
//! Two containers start alike. The same operations go into a transaction on one and directly into the other; all
//! reads inside the transaction must then agree with reads of the other, and after the commit everything must.

use super::common::{new_container, open};
use super::objects::small_page;
use dolmen_client::{
    Anchor, At, Cond, Container, Error, FetchIod, IoBuf, Key, NewValue, Object, ObjectClass, ObjectType,
    Page, Payload, QueryFlags, Recx, UpdateIod, Want,
};
use proptest::prelude::*;
use smallvec::smallvec;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Step {
    Put { dkey: u8, akey: u8, len: u8, cond: u8 },
    Write { dkey: u8, akey: u8, start: u8, count: u8 },
    Hole { dkey: u8, akey: u8, start: u8, count: u8 },
    NoSingle { dkey: u8, akey: u8 },
    PunchAkey { dkey: u8, akey: u8, cond: bool },
    PunchDkey { dkey: u8, cond: bool },
    PunchObject { cond: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let (dkey, akey) = (|| 0_u8..6, || 0_u8..3);
    prop_oneof![
        4 => (dkey(), akey(), 1_u8..9, 0_u8..12).prop_map(|(dkey, akey, len, cond)| Step::Put { dkey, akey, len, cond }),
        6 => (dkey(), akey(), 0_u8..20, 1_u8..9)
            .prop_map(|(dkey, akey, start, count)| Step::Write { dkey, akey, start, count }),
        3 => (dkey(), akey(), 0_u8..20, 1_u8..30)
            .prop_map(|(dkey, akey, start, count)| Step::Hole { dkey, akey, start, count }),
        1 => (dkey(), akey()).prop_map(|(dkey, akey)| Step::NoSingle { dkey, akey }),
        1 => (dkey(), akey(), any::<bool>()).prop_map(|(dkey, akey, cond)| Step::PunchAkey { dkey, akey, cond }),
        1 => (dkey(), any::<bool>()).prop_map(|(dkey, cond)| Step::PunchDkey { dkey, cond }),
        1 => any::<bool>().prop_map(|cond| Step::PunchObject { cond }),
    ]
}

fn key(object: &Object, number: u8, is_dkey: bool) -> Vec<u8> {
    let object_type = object.object_type();
    let kind = if is_dkey { object_type.dkey_kind() } else { object_type.akey_kind() };
    match kind {
        dolmen_types::KeyKind::Uint64 => (u64::from(number) * 300).to_le_bytes().to_vec(),
        _ => format!("key{number}").into_bytes(),
    }
}

fn apply(object: &Object, at: At<'_>, step: &Step, mark: u8) -> Result<(), Error> {
    let d = |n: u8| key(object, n, true);
    let a = |n: u8| key(object, n, false);
    let update = |dkey: u8, akey: u8, cond, value| {
        let iod = UpdateIod { akey: Key::from_slice(&a(akey)), cond: Cond::NONE, value };
        object.update(at, &d(dkey), cond, &[iod])
    };
    let when = |set: bool| if set { Cond::PUNCH } else { Cond::NONE };
    match *step {
        Step::Put { dkey, akey, len, cond } => {
            let conds = [Cond::DKEY_INSERT, Cond::DKEY_UPDATE, Cond::AKEY_INSERT, Cond::AKEY_UPDATE];
            let cond = conds.get(usize::from(cond)).copied().unwrap_or_default();
            update(dkey, akey, cond, NewValue::Single(Payload::Ref(&vec![mark; usize::from(len)])))
        }
        Step::Write { dkey, akey, start, count } => {
            let data: Vec<u8> = (0..count).flat_map(|n| [mark, n]).collect();
            object.write(at, &d(dkey), &a(akey), 2, Recx::new(start.into(), count.into()), &data)
        }
        Step::Hole { dkey, akey, start, count } => {
            object.punch_records(at, &d(dkey), &a(akey), &[Recx::new(start.into(), count.into())])
        }
        Step::NoSingle { dkey, akey } => update(dkey, akey, Cond::NONE, NewValue::NoSingle),
        Step::PunchAkey { dkey, akey, cond } => object.punch_akeys(at, &d(dkey), &[&a(akey)], when(cond)),
        Step::PunchDkey { dkey, cond } => object.punch_dkey(at, &d(dkey), when(cond)),
        Step::PunchObject { cond } => object.punch(at, when(cond)),
    }
    .map(|_| ())
}

/// Everything that can be read of an object, a line each, in a form that does not depend on how extents are cut.
type Seen = Vec<String>;

fn see(object: &Object, at: At<'_>, page: Page) -> Seen {
    let mut seen = vec![format!("dkeys {:?}", once(list(|anchor| object.list_dkeys(at, anchor, page))))];
    for dkey in 0..6 {
        let d = key(object, dkey, true);
        let akeys = once(list(|anchor| object.list_akeys(at, &d, anchor, page)));
        seen.push(format!("akeys of {dkey} {akeys:?}"));
        for akey in 0..3 {
            let a = key(object, akey, false);
            let found = |what: String| format!("{dkey}/{akey} {what}");
            seen.extend(see_value(object, at, &d, &a).into_iter().map(found));
            seen.push(found(see_extents(object, at, &d, &a, page)));
        }
    }
    see_queries(object, at, &mut seen);
    seen
}

/// Sorted, since hashed keys come in the order of each container's own hash.
fn once(mut keys: Vec<Key>) -> Vec<String> {
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count, "a key came twice");
    keys.iter().map(|key| key.escape_ascii().to_string()).collect()
}

fn list(mut next: impl FnMut(&mut Anchor) -> Result<dolmen_client::PackedKeys, Error>) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut anchor = Anchor::default();
    while !anchor.is_eof() {
        keys.extend(next(&mut anchor).unwrap().iter().map(Key::from_slice));
    }
    keys
}

fn see_value(object: &Object, at: At<'_>, dkey: &[u8], akey: &[u8]) -> Vec<String> {
    let wants = [
        Want::Single { room_bytes: 16 },
        Want::Array {
            record_bytes: 2,
            extents: smallvec![Recx::new(4, 9), Recx::new(1, 3), Recx::new(20, 20)],
        },
        Want::Size,
    ];
    let mut seen = Vec::new();
    // One fetch names an akey once, so there are three.
    for want in wants {
        let iod = FetchIod { akey: Key::from_slice(akey), want };
        let mut buf = IoBuf::copy_of(&[b'.'; 80]);
        let found =
            object.fetch(at, dkey, Cond::NONE, core::slice::from_ref(&iod), &mut buf).unwrap().remove(0);
        seen.push(format!("{found:?} {}", buf.escape_ascii()));
    }
    for cond in [Cond::DKEY_FETCH, Cond::AKEY_FETCH] {
        let iod = FetchIod { akey: Key::from_slice(akey), want: Want::Size };
        let met = object.fetch(at, dkey, cond, &[iod], &mut IoBuf::default()).is_ok();
        seen.push(format!("{cond:?} met: {met}"));
    }
    seen
}

fn see_extents(object: &Object, at: At<'_>, dkey: &[u8], akey: &[u8], page: Page) -> String {
    let (mut single, mut records) = (false, BTreeSet::new());
    let mut anchor = Anchor::default();
    while !anchor.is_eof() {
        for extent in object.list_extents(at, dkey, akey, &mut anchor, page.items_max).unwrap() {
            if extent.single {
                assert!(!std::mem::replace(&mut single, true), "the single value came twice");
                continue;
            }
            for record in extent.recx.index..extent.recx.index + extent.recx.count {
                assert!(records.insert(record), "record {record} came twice");
            }
        }
    }
    format!("single: {single}, records {records:?}")
}

fn see_queries(object: &Object, at: At<'_>, seen: &mut Seen) {
    use dolmen_types::KeyKind::Hashed;
    let (dkeys, akeys) =
        (object.object_type().dkey_kind() != Hashed, object.object_type().akey_kind() != Hashed);
    let (d, a) = (key(object, 2, true), key(object, 1, false));
    for way in [QueryFlags::MAX.0, QueryFlags::MIN.0] {
        for levels in 1..8 {
            let flags = QueryFlags(way | levels << 2);
            if (flags.has(QueryFlags::DKEY) && !dkeys) || (flags.has(QueryFlags::AKEY) && !akeys) {
                continue;
            }
            seen.push(format!("{flags:?} {:?}", object.query(at, flags, &d, &a).unwrap()));
        }
    }
}

/// Fails with the lines that differ.
fn assert_same(ours: Seen, theirs: Seen, when: &str) {
    let differ: Vec<_> = ours.into_iter().zip(theirs).filter(|(left, right)| left != right).collect();
    assert!(differ.is_empty(), "{when} the transaction's view and the direct one differ:\n{differ:#?}");
}

fn twin(cont: &Container, object_type: ObjectType, class: ObjectClass) -> Object {
    cont.object(cont.oid(object_type, class, 0, 42).unwrap()).unwrap()
}

fn run(object_type: ObjectType, class: ObjectClass, before: &[Step], inside: &[Step], items_max: u32) {
    let (_, pool, cont) = open(3);
    // The same container UUID would be needed for equal key hashes: keys are compared as sets if hashed.
    let (left, right) = (twin(&cont, object_type, class), twin(&new_container(&pool), object_type, class));
    for (number, step) in before.iter().enumerate() {
        let mark = u8::try_from(number).unwrap();
        assert_eq!(apply(&left, At::Latest, step, mark), apply(&right, At::Latest, step, mark));
    }
    let page = Page { items_max, ..small_page() };
    let tx = cont.begin().unwrap();
    for (number, step) in inside.iter().enumerate() {
        let mark = 100 + u8::try_from(number).unwrap();
        let results = [apply(&left, At::Tx(&tx), step, mark), apply(&right, At::Latest, step, mark)];
        assert_eq!(results[0], results[1], "{step:?}");
        assert_same(see(&left, At::Tx(&tx), page), see(&right, At::Latest, page), &format!("after {step:?}"));
    }
    tx.commit().unwrap();
    assert_same(see(&left, At::Latest, page), see(&right, At::Latest, page), "after the commit");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_transaction_sees_its_own_writes(
        kind in 0_usize..4,
        wide in any::<bool>(),
        before in prop::collection::vec(step(), 0..25),
        inside in prop::collection::vec(step(), 1..10),
        items_max in 1_u32..6,
    ) {
        let kinds = [ObjectType::MultiHashed, ObjectType::DkeyUint64, ObjectType::MultiUint64, ObjectType::MultiLexical];
        let class = if wide { ObjectClass::SX } else { ObjectClass::S1 };
        run(kinds[kind], class, &before, &inside, items_max);
    }
}

/// In order, too, where keys have one.
#[test]
fn buffered_keys_are_listed_in_their_place() {
    let (_, _, cont) = open(1);
    let object = twin(&cont, ObjectType::DkeyUint64, ObjectClass::S1);
    for number in (0..40_u64).step_by(2) {
        object.put(At::Latest, &number.to_le_bytes(), b"a", b"v").unwrap();
    }
    let tx = cont.begin().unwrap();
    for number in (1..60_u64).step_by(2) {
        object.put(At::Tx(&tx), &number.to_le_bytes(), b"a", b"v").unwrap();
    }
    object.punch_dkey(At::Tx(&tx), &6_u64.to_le_bytes(), Cond::PUNCH).unwrap();
    let listed = list(|anchor| object.list_dkeys(At::Tx(&tx), anchor, small_page()));
    let numbers: Vec<u64> =
        listed.iter().map(|key| u64::from_le_bytes(key[..].try_into().unwrap())).collect();
    let expected: Vec<u64> = (0..60).filter(|n| *n != 6 && (n % 2 == 1 || *n < 40)).collect();
    assert_eq!(numbers, expected);
}
