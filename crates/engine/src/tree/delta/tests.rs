//! The delta against `BTreeMap`, which is what it is when memory and speed do not matter.

use super::*;
use crate::tree::key::FlatKey;
use dolmen_codec::order::HashKey;
use dolmen_codec::version::VersionKind;
use dolmen_types::{ContNo, Epoch, KeyKind, ObjectClass, ObjectType, Oid, Stamp};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Keys crowded enough to meet: few objects, dkeys of all kinds, some with long common prefixes.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let object_type =
        prop_oneof![Just(ObjectType::MultiHashed), Just(ObjectType::MultiLexical), Just(ObjectType::Array)];
    let name = prop_oneof![
        (0u64..40).prop_map(|n| n.to_le_bytes().to_vec()),
        (0usize..60, 1u8..3).prop_map(|(len, byte)| [vec![0; len], vec![byte; 8]].concat()),
    ];
    let tail = (0u8..8, prop_oneof![Just(0u64), 0u64..3, any::<u64>()], 0u64..3, 0u16..2);
    let level = prop::option::of((name.clone(), prop::option::of(name)));
    (0u32..2, 0u64..3, object_type, level, tail).prop_map(
        |(cont, lo, object_type, level, (kind, offset, epoch, minor))| {
            let mut key = FlatKey::default();
            let cut = |name: &[u8], kind| {
                if kind == KeyKind::Uint64 { name[name.len() - 8..].to_vec() } else { name.to_vec() }
            };
            key.object(ContNo(cont), Oid::new(object_type, ObjectClass::S1, 0, lo));
            if let Some((dkey, akey)) = level {
                key.dkey(object_type.dkey_kind(), HashKey([1; 16]), &cut(&dkey, object_type.dkey_kind()));
                if let Some(akey) = akey {
                    key.akey(object_type.akey_kind(), HashKey([1; 16]), &cut(&akey, object_type.akey_kind()));
                }
            }
            key.tail(VersionKind::from_number(kind).unwrap(), offset, Stamp { epoch: Epoch(epoch), minor });
            key.as_bytes().to_vec()
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>, u64),
    Remove(Vec<u8>),
    RemoveNear(Vec<u8>, usize),
    Replace(Vec<u8>, u64),
    Seek(Vec<u8>, usize),
    SeekBelow(Vec<u8>, usize),
    Advance(usize),
    Retreat(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let any_bytes = || {
        prop_oneof![
            key(),
            (key(), 0usize..80).prop_map(|(key, len)| key[..len.min(key.len())].to_vec()),
            prop::collection::vec(any::<u8>(), 0..90),
        ]
    };
    prop_oneof![
        12 => (key(), any::<u64>()).prop_map(|(key, pos)| Step::Insert(key, pos)),
        1 => key().prop_map(Step::Remove),
        1 => (key(), 1usize..120).prop_map(|(key, count)| Step::RemoveNear(key, count)),
        1 => (key(), any::<u64>()).prop_map(|(key, pos)| Step::Replace(key, pos)),
        3 => (any_bytes(), 0usize..4).prop_map(|(key, count)| Step::Seek(key, count)),
        3 => (0usize..4).prop_map(Step::Advance),
        3 => (any_bytes(), 0usize..4).prop_map(|(key, count)| Step::SeekBelow(key, count)),
        3 => (0usize..4).prop_map(Step::Retreat),
    ]
}

type Model = BTreeMap<Vec<u8>, u64>;

fn first_from(model: &Model, key: &[u8]) -> Option<(Vec<u8>, Pos)> {
    model.range(key.to_vec()..).next().map(|(key, pos)| (key.clone(), Pos(*pos)))
}

fn first_after(model: &Model, key: &[u8]) -> Option<(Vec<u8>, Pos)> {
    first_from(model, &[key, &[0]].concat())
}

fn last_below(model: &Model, key: &[u8]) -> Option<(Vec<u8>, Pos)> {
    model.range(..key.to_vec()).next_back().map(|(key, pos)| (key.clone(), Pos(*pos)))
}

fn here(cursor: &Cursor) -> Option<(Vec<u8>, Pos)> {
    cursor.entry().map(|(key, pos)| (key.to_vec(), pos))
}

/// Steps the cursor and compares each place.
fn advance(delta: &Delta, model: &Model, cursor: &mut Cursor, count: usize) {
    for _ in 0..count {
        let expected = here(cursor).and_then(|(key, _)| first_after(model, &key));
        delta.advance(cursor);
        assert_eq!(here(cursor), expected);
    }
}

/// As `advance`, in the other direction.
fn retreat(delta: &Delta, model: &Model, cursor: &mut Cursor, count: usize) {
    for _ in 0..count {
        let expected = here(cursor).and_then(|(key, _)| last_below(model, &key));
        delta.retreat(cursor);
        assert_eq!(here(cursor), expected);
    }
}

fn apply(delta: &mut Delta, model: &mut Model, cursor: &mut Cursor, step: Step) {
    match step {
        Step::Insert(key, pos) => assert_eq!(delta.insert(&key, Pos(pos)), model.insert(key, pos).map(Pos)),
        Step::Remove(key) => assert_eq!(delta.remove(&key), model.remove(&key).map(Pos)),
        Step::RemoveNear(key, count) => {
            let near: Vec<_> = model.range(key..).take(count).map(|(key, _)| key.clone()).collect();
            for key in near {
                assert_eq!(delta.remove(&key), model.remove(&key).map(Pos));
            }
        }
        Step::Replace(key, pos) => {
            let old = model.get_mut(&key).map(|old| core::mem::replace(old, pos));
            if old.is_some() {
                assert_eq!(delta.insert(&key, Pos(pos)), old.map(Pos));
            }
            assert_eq!(delta.get(&key), old.map(|_| Pos(pos)));
        }
        Step::Seek(key, count) => {
            delta.seek(cursor, &key);
            assert_eq!(here(cursor), first_from(model, &key));
            advance(delta, model, cursor, count);
        }
        Step::SeekBelow(key, count) => {
            delta.seek_below(cursor, &key);
            assert_eq!(here(cursor), last_below(model, &key));
            retreat(delta, model, cursor, count);
        }
        Step::Advance(count) => advance(delta, model, cursor, count),
        Step::Retreat(count) => retreat(delta, model, cursor, count),
    }
    assert_eq!(delta.len(), model.len());
    assert_eq!(delta.is_empty(), model.is_empty());
}

fn everything(delta: &Delta) -> Vec<(Vec<u8>, Pos)> {
    let mut cursor = Cursor::default();
    delta.seek(&mut cursor, &[]);
    let mut all = Vec::new();
    while let Some(entry) = here(&cursor) {
        all.push(entry);
        delta.advance(&mut cursor);
    }
    all
}

fn same(delta: &Delta, model: &Model) {
    delta.check();
    let expected: Vec<_> = model.iter().map(|(key, pos)| (key.clone(), Pos(*pos))).collect();
    assert_eq!(everything(delta), expected);
    let mut cursor = Cursor::default();
    delta.seek_below(&mut cursor, &[u8::MAX; 8]);
    for entry in expected.iter().rev() {
        assert_eq!(here(&cursor).as_ref(), Some(entry));
        delta.retreat(&mut cursor);
    }
    assert_eq!(here(&cursor), None);
    for (key, pos) in model {
        assert_eq!(delta.get(key), Some(Pos(*pos)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn delta_behaves_as_a_sorted_map(steps in prop::collection::vec(step(), 1..1500)) {
        let (mut delta, mut model, mut cursor) = (Delta::default(), Model::new(), Cursor::default());
        for step in steps {
            apply(&mut delta, &mut model, &mut cursor, step);
        }
        same(&delta, &model);
    }
}

/// A permutation of the numbers: random to the tree, the same in every run.
fn scatter(number: u64) -> u64 {
    (number ^ (number << 21))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn hashed(number: u64) -> Vec<u8> {
    hashed_with(number, &number.to_le_bytes())
}

fn hashed_with(number: u64, akey: &[u8]) -> Vec<u8> {
    let oid = Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 0, number % 3);
    let mut key = FlatKey::default();
    key.object(ContNo(1), oid)
        .dkey(KeyKind::Hashed, HashKey([9; 16]), &scatter(number).to_le_bytes())
        .akey(KeyKind::Hashed, HashKey([9; 16]), akey)
        .tail(VersionKind::Single, 0, Stamp { epoch: Epoch(1 << 60 | number), minor: 0 });
    key.as_bytes().to_vec()
}

#[test]
fn a_tree_of_three_levels_grows_shrinks_and_gives_its_memory_back() {
    const COUNT: u64 = 60_000;
    let (mut delta, mut model) = (Delta::default(), Model::new());
    for number in 0..COUNT {
        let key = hashed(number);
        delta.insert(&key, Pos(number));
        model.insert(key, number);
    }
    assert!(delta.height >= 2);
    same(&delta, &model);
    assert!(delta.resident_bytes() <= 75 * delta.len());
    for number in (0..COUNT).filter(|number| number % 100 != 0) {
        let key = hashed(number);
        assert_eq!(delta.remove(&key), model.remove(&key).map(Pos));
    }
    same(&delta, &model);
    let few = delta.resident_bytes();
    for number in (0..COUNT).filter(|number| number % 7 == 1) {
        let key = hashed(number);
        delta.insert(&key, Pos(number));
        model.insert(key, number);
    }
    same(&delta, &model);
    assert!(delta.resident_bytes() > few);
    let mut calls = 0;
    while !delta.dismantle(50) {
        calls += 1;
    }
    assert!(calls > 3);
    assert!(delta.is_empty());
    assert!(delta.resident_bytes() < 4096);
}

#[test]
fn an_akey_that_all_dkeys_have_is_stored_once_a_node() {
    const COUNT: u64 = 30_000;
    let (mut delta, mut model) = (Delta::default(), Model::new());
    for number in 0..COUNT {
        // Now and then another one, which must not end up with the bytes of the first.
        let akey: &[u8] = if number % 50 == 7 { b"other" } else { b"a" };
        let key = hashed_with(number, akey);
        delta.insert(&key, Pos(number));
        model.insert(key, number);
    }
    same(&delta, &model);
    assert!(delta.resident_bytes() <= 54 * delta.len(), "{}", delta.resident_bytes() / delta.len());
    for number in (0..COUNT).filter(|number| number % 50 != 7) {
        let key = hashed_with(number, b"a");
        assert_eq!(delta.remove(&key), model.remove(&key).map(Pos));
    }
    same(&delta, &model);
}

#[test]
fn interleaved_streams_fill_their_leaves() {
    let mut delta = Delta::default();
    let mut model = Model::new();
    let oid = Oid::new(ObjectType::Array, ObjectClass::S1, 0, 5);
    for number in 0..40_000u64 {
        let mut key = FlatKey::default();
        key.object(ContNo(1), oid)
            .dkey(KeyKind::Uint64, HashKey::default(), &(number % 4).to_le_bytes())
            .akey(KeyKind::Hashed, HashKey::default(), b"0")
            .tail(
                VersionKind::Array4Ki,
                number * 4096,
                Stamp { epoch: Epoch(1 << 61 | number << 20), minor: 0 },
            );
        delta.insert(key.as_bytes(), Pos(number));
        model.insert(key.as_bytes().to_vec(), number);
    }
    same(&delta, &model);
    assert!(delta.resident_bytes() <= 45 * delta.len(), "{} bytes", delta.resident_bytes() / delta.len());
}

#[test]
fn leaves_are_split_where_an_array_ends() {
    const ARRAYS: u64 = 64;
    let (mut delta, mut model) = (Delta::default(), Model::new());
    for number in 0..30_000 {
        let place = scatter(number);
        let mut key = FlatKey::default();
        key.object(ContNo(1), Oid::new(ObjectType::DkeyUint64, ObjectClass::S1, 0, 5))
            .dkey(KeyKind::Uint64, HashKey::default(), &(place % ARRAYS).to_le_bytes())
            .akey(KeyKind::Hashed, HashKey::default(), b"a")
            .tail(
                VersionKind::Array1,
                place >> 32 & 1023,
                Stamp { epoch: Epoch(1 << 61 | number << 20), minor: 0 },
            );
        delta.insert(key.as_bytes(), Pos(number));
        model.insert(key.as_bytes().to_vec(), number);
    }
    same(&delta, &model);
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let mut is_of_two = |leaf: &&Leaf| {
        leaf.key_into(0, &mut first);
        leaf.key_into(leaf.count() - 1, &mut last);
        // What stands behind the akey differs in any case.
        common_prefix_len(&first, &last) < first.len() - TAIL_BYTES
    };
    let of_two = delta.leaves.iter().filter(&mut is_of_two).count();
    assert!(of_two * 40 <= delta.leaves.len(), "{of_two} of {}", delta.leaves.len());
}

/// Of a punch of a dkey, or of the punch or value of an akey below it.
fn numbered(object: u64, dkey: u64, akey: Option<VersionKind>, epoch: u64) -> Vec<u8> {
    let mut key = FlatKey::default();
    key.object(ContNo(1), Oid::new(ObjectType::MultiUint64, ObjectClass::S1, 0, object));
    key.dkey(KeyKind::Uint64, HashKey([1; 16]), &dkey.to_le_bytes());
    if akey.is_some() {
        key.akey(KeyKind::Uint64, HashKey([1; 16]), &[7; 8]);
    }
    let epoch = Epoch(0x1e2a_4efd_91b4_8000 + (epoch << 20));
    key.tail(akey.unwrap_or(VersionKind::Punch), 0, Stamp { epoch, minor: 0 });
    key.as_bytes().to_vec()
}

/// Behind the longer prefix of a part some keys are too short for their tails to be folded.
#[test]
fn parts_of_a_split_leaf_fit_whatever_their_prefix() {
    let (mut delta, mut model) = (Delta::default(), Model::default());
    let mut put = |key: Vec<u8>, pos| {
        delta.insert(&key, Pos(pos));
        model.insert(key, pos);
    };
    for dkey in 0..3500 {
        put(numbered(1, dkey, None, 4 * dkey), dkey);
        if dkey % 2 == 1 {
            put(numbered(2, dkey, Some(VersionKind::Punch), 4 * dkey + 1), dkey);
        }
        put(numbered(3, dkey, Some(VersionKind::Single), 4 * dkey + 2), dkey);
        put(numbered(3, dkey, Some(VersionKind::Single), 4 * dkey + 3), dkey);
    }
    same(&delta, &model);
    delta.check();
}

#[test]
fn a_cursor_may_go_from_one_map_to_another() {
    let (mut one, mut two) = (Delta::default(), Delta::default());
    let tail = |first: u8| [&[first; 30][..], &[1; TAIL_BYTES]].concat();
    let keys: Vec<_> = (1..4).map(|last| [&tail(7)[..30], &[last], &[1; TAIL_BYTES]].concat()).collect();
    for (key, pos) in keys.iter().zip(0..) {
        one.insert(key, Pos(pos));
    }
    for (first, pos) in (1..4).zip(10..) {
        two.insert(&tail(first), Pos(pos));
    }
    assert_eq!(one.generation, two.generation);
    let mut cursor = Cursor::default();
    for _ in 0..2 {
        one.seek(&mut cursor, &[]);
        one.advance(&mut cursor);
        assert_eq!(here(&cursor), Some((keys[1].clone(), Pos(1))));
        two.seek(&mut cursor, &tail(2));
        assert_eq!(here(&cursor), Some((tail(2), Pos(11))));
        one.seek_below(&mut cursor, &keys[2]);
        assert_eq!(here(&cursor), Some((keys[1].clone(), Pos(1))));
    }
}
