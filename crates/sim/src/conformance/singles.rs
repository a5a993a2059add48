//! Single values, and what is wrong with updates and fetches of any kind.

use super::Case;
use super::harness::{
    At, Harness, hole, no_single, oid, records, single, typed, update, want_records, want_single, want_size,
};
use dolmen_codec::verb::{ContVerb, FetchIod, ReadAt, UpdateIod, Verb};
use dolmen_types::{Cond, ContNo, Error, Invalid, ObjectType, Oid, limits};

pub(super) const CASES: &[(&str, Case)] = &[
    ("single_values_are_read_as_written", single_values_are_read_as_written),
    ("missing_single_value_has_size_zero", missing_single_value_has_size_zero),
    ("later_single_value_wins", later_single_value_wins),
    ("removed_single_value_is_gone", removed_single_value_is_gone),
    ("single_value_larger_than_the_room_is_refused", single_value_larger_than_the_room_is_refused),
    ("size_prefers_the_single_value", size_prefers_the_single_value),
    ("single_and_array_are_independent", single_and_array_are_independent),
    ("update_writes_all_its_akeys", update_writes_all_its_akeys),
    ("parts_of_the_buffer_follow_each_other", parts_of_the_buffer_follow_each_other),
    ("buffer_shorter_than_the_parts_is_refused", buffer_shorter_than_the_parts_is_refused),
    ("wrong_counts_are_refused", wrong_counts_are_refused),
    ("duplicate_akeys_are_refused", duplicate_akeys_are_refused),
    ("wrong_payloads_are_refused", wrong_payloads_are_refused),
    ("largest_single_value_is_kept", largest_single_value_is_kept),
    ("keys_are_checked_by_kind", keys_are_checked_by_kind),
    ("unknown_object_type_is_refused", unknown_object_type_is_refused),
    ("destroyed_container_is_refused", destroyed_container_is_refused),
    ("unknown_container_is_refused", unknown_container_is_refused),
    ("keys_of_any_bytes_tell_apart", keys_of_any_bytes_tell_apart),
];

const A: At<'static> = At(Oid { hi: 0x0001_0001_0000_0000, lo: 1 }, b"dkey", b"akey");

/// Values from one byte to 60,000 bytes come back as they were written.
fn single_values_are_read_as_written(h: &mut Harness<'_>) {
    for len in [1_usize, 7, 64, 4095, 4096, 4097, 32768, 32769, 60_000] {
        let bytes: Vec<u8> = (0..len).map(|i| u8::try_from(i % 251).expect("below 256")).collect();
        let key = len.to_string();
        h.put(At(oid(1), key.as_bytes(), b"a"), &bytes);
        assert_eq!(h.single(At(oid(1), key.as_bytes(), b"a")).as_deref(), Some(&bytes[..]), "{len} bytes");
    }
}

/// S4: a missing single value reads as size 0, whether the object, the dkey or the akey is missing.
fn missing_single_value_has_size_zero(h: &mut Harness<'_>) {
    assert_eq!(h.single(A), None);
    h.put(At(A.0, b"other", A.2), b"x");
    assert_eq!(h.single(A), None);
    h.put(At(A.0, A.1, b"other"), b"x");
    assert_eq!(h.single(A), None);
    let (result, _) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, vec![want_size(A.2)], 0);
    assert_eq!(result.expect("a plain fetch")[0].size_bytes, 0);
}

/// The newest value is read, also if it is shorter.
fn later_single_value_wins(h: &mut Harness<'_>) {
    let first = h.put(A, b"a long first value");
    let second = h.put(A, b"short");
    assert!(second > first);
    assert_eq!(h.single(A).as_deref(), Some(&b"short"[..]));
    assert_eq!(h.single_at(A, ReadAt::Epoch(first)).as_deref(), Some(&b"a long first value"[..]));
}

/// S1: a single value whose newest version is a removal does not exist, and with it akey, dkey and object.
fn removed_single_value_is_gone(h: &mut Harness<'_>) {
    h.put(A, b"x");
    h.mutate(update(A.0, A.1, Cond::NONE, vec![no_single(A.2)])).expect("a removal");
    assert_eq!(h.single(A), None);
    assert!(h.akeys(A.0, A.1, ReadAt::Latest).is_empty());
    assert!(h.dkeys(A.0, ReadAt::Latest).is_empty());
    assert!(h.objects(10, ReadAt::Latest).is_empty());
    h.put(A, b"again");
    assert_eq!(h.single(A).as_deref(), Some(&b"again"[..]));
}

/// S4: a value larger than its room is `RecTooBig` with its length.
fn single_value_larger_than_the_room_is_refused(h: &mut Harness<'_>) {
    h.put(A, b"0123456789");
    let (result, _) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, vec![want_single(A.2, 9)], 9);
    assert_eq!(result, Err(Error::RecTooBig { needed_bytes: 10 }));
    let (result, buf) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, vec![want_single(A.2, 10)], 10);
    assert_eq!((result.expect("it fits")[0].size_bytes, &buf[..]), (10, &b"0123456789"[..]));
}

/// S4: `Want::Size` is the single value's length, else the array's record size, else 0.
fn size_prefers_the_single_value(h: &mut Harness<'_>) {
    let size = |h: &mut Harness<'_>| {
        let (result, _) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, vec![want_size(A.2)], 0);
        result.expect("a plain fetch")[0].size_bytes
    };
    h.mutate(update(A.0, A.1, Cond::NONE, vec![records(A.2, 4, &[(5, 2)], b"eightbyt")])).expect("records");
    assert_eq!(size(h), 4);
    h.put(A, b"123456789");
    assert_eq!(size(h), 9);
    h.mutate(update(A.0, A.1, Cond::NONE, vec![no_single(A.2)])).expect("a removal");
    assert_eq!(size(h), 4);
    h.dig(A, 0, 100);
    assert_eq!(size(h), 0);
}

/// S1: under one akey a single value and an array stand side by side and are removed apart.
fn single_and_array_are_independent(h: &mut Harness<'_>) {
    h.put(A, b"single");
    h.write(A, 3, b"array");
    assert_eq!(h.single(A).as_deref(), Some(&b"single"[..]));
    assert_eq!(h.text(A, 0, 10), "...array..");
    h.mutate(update(A.0, A.1, Cond::NONE, vec![no_single(A.2)])).expect("a removal");
    assert_eq!((h.single(A), h.text(A, 3, 5)), (None, "array".to_owned()));
    h.put(A, b"back");
    h.dig(A, 0, 10);
    assert_eq!((h.single(A).as_deref(), h.text(A, 3, 5)), (Some(&b"back"[..]), ".....".to_owned()));
}

/// One update of many akeys, single values and arrays mixed, has one epoch for all of them.
fn update_writes_all_its_akeys(h: &mut Harness<'_>) {
    let iods =
        vec![single(b"a", b"one"), records(b"b", 1, &[(0, 2), (8, 2)], b"wxyz"), single(b"c", b"three")];
    let epoch = h.mutate(update(A.0, A.1, Cond::NONE, iods)).expect("a plain update");
    h.mutate(update(A.0, A.1, Cond::NONE, vec![no_single(b"a"), hole(b"b", &[(0, 9)]), single(b"c", b"3")]))
        .expect("a plain update");
    let at = ReadAt::Epoch(epoch);
    assert_eq!(h.single_at(At(A.0, A.1, b"a"), at).as_deref(), Some(&b"one"[..]));
    assert_eq!(h.text_at(At(A.0, A.1, b"b"), 0, 10, at), "wx......yz");
    assert_eq!(h.single(At(A.0, A.1, b"a")), None);
    assert_eq!(h.text(At(A.0, A.1, b"b"), 0, 10), ".........z");
    assert_eq!(h.single(At(A.0, A.1, b"c")).as_deref(), Some(&b"3"[..]));
}

/// S4: each iod's part of the buffer follows the one before: room for a single value, all records for an array.
fn parts_of_the_buffer_follow_each_other(h: &mut Harness<'_>) {
    h.mutate(update(A.0, A.1, Cond::NONE, vec![single(b"a", b"one"), records(b"b", 2, &[(1, 1)], b"xy")]))
        .expect("a plain update");
    let wants = vec![
        want_records(b"b", 2, &[(1, 1), (0, 2)]),
        want_size(b"a"),
        want_single(b"a", 5),
        want_single(b"n", 1),
    ];
    let (result, buf) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, wants, 14);
    let sizes: Vec<u64> = result.expect("a plain fetch").iter().map(|iod| iod.size_bytes).collect();
    assert_eq!(sizes, [2, 3, 3, 0]);
    assert_eq!(&buf[..], b"xy..xyone.....");
}

/// S4: a buffer shorter than the sum of the parts is refused.
fn buffer_shorter_than_the_parts_is_refused(h: &mut Harness<'_>) {
    h.put(A, b"x");
    let wants: [Vec<FetchIod>; 3] = [
        vec![want_single(A.2, 8), want_single(A.2, 8)],
        vec![want_records(A.2, 3, &[(0, 5)])],
        vec![want_records(A.2, 1 << 20, &[(0, u64::MAX)])],
    ];
    for wants in wants {
        let (result, _) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, wants, 14);
        assert_eq!(result, Err(Invalid::Payload.into()));
    }
}

/// S5: no iod at all, or more than the limit, is refused.
fn wrong_counts_are_refused(h: &mut Harness<'_>) {
    assert_eq!(h.mutate(update(A.0, A.1, Cond::NONE, Vec::new())), Err(Invalid::Count.into()));
    let iods: Vec<UpdateIod<'static>> =
        (0..=limits::IODS_MAX).map(|number| single(number.to_string().as_bytes(), b"x")).collect();
    assert_eq!(h.mutate(update(A.0, A.1, Cond::NONE, iods)), Err(Invalid::Count.into()));
    assert!(h.objects(10, ReadAt::Latest).is_empty());
    let (result, _) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, Vec::new(), 0);
    assert_eq!(result, Err(Invalid::Count.into()));
}

/// S5: an akey appears once in an update.
fn duplicate_akeys_are_refused(h: &mut Harness<'_>) {
    let iods = vec![single(b"a", b"1"), single(b"b", b"2"), records(b"a", 1, &[(0, 1)], b"3")];
    assert_eq!(h.mutate(update(A.0, A.1, Cond::NONE, iods)), Err(Invalid::Count.into()));
    assert_eq!(h.single(At(A.0, A.1, b"b")), None, "nothing of a refused update is kept");
}

/// S5: an empty single value, a payload that does not fit its extents, one above the limit.
fn wrong_payloads_are_refused(h: &mut Harness<'_>) {
    let large = vec![1; limits::SINGLE_BYTES_MAX + 1];
    let wrong = [
        single(A.2, b""),
        records(A.2, 1, &[(0, 3)], b"four"),
        records(A.2, 2, &[(0, 3)], b"five."),
        single(A.2, &large),
    ];
    for iod in wrong {
        let result = h.mutate(update(A.0, A.1, Cond::NONE, vec![single(b"ok", b"x"), iod]));
        assert_eq!(result, Err(Invalid::Payload.into()));
    }
    assert!(h.objects(10, ReadAt::Latest).is_empty());
}

/// A single value of exactly the limit is kept.
fn largest_single_value_is_kept(h: &mut Harness<'_>) {
    let mut bytes = vec![0; limits::SINGLE_BYTES_MAX];
    for (number, chunk) in (0_u64..).zip(bytes.chunks_mut(8)) {
        chunk.copy_from_slice(&(number * 0x9E37_79B9).to_le_bytes());
    }
    h.put(A, &bytes);
    let room = bytes.len();
    let (result, buf) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, vec![want_single(A.2, room)], room);
    assert_eq!(result.expect("a plain fetch")[0].size_bytes, room as u64);
    assert!(buf[..] == bytes[..]);
}

/// S7: keys are checked by the kinds of the object's type: in updates, punches and fetches.
fn keys_are_checked_by_kind(h: &mut Harness<'_>) {
    let long = vec![b'k'; limits::KEY_BYTES_MAX + 1];
    let too_big = Error::KeyTooBig { needed_bytes: long.len() as u64 };
    let invalid = Error::from(Invalid::Key);
    let lexical = Error::KeyTooBig { needed_bytes: 81 };
    let cases: [(ObjectType, &[u8], &[u8], &Error); 7] = [
        (ObjectType::MultiHashed, b"", b"a", &invalid),
        (ObjectType::MultiHashed, b"d", b"", &invalid),
        (ObjectType::MultiHashed, &long, b"a", &too_big),
        (ObjectType::MultiHashed, b"d", &long, &too_big),
        (ObjectType::DkeyUint64, b"1234567", b"a", &invalid),
        (ObjectType::AkeyUint64, b"d", b"1234567", &invalid),
        (ObjectType::DkeyLexical, &long[..81], b"a", &lexical),
    ];
    for (object_type, dkey, akey, error) in cases {
        let oid = typed(object_type, 1);
        assert_eq!(h.mutate(update(oid, dkey, Cond::NONE, vec![single(akey, b"x")])).as_ref(), Err(error));
        assert_eq!(h.try_single(At(oid, dkey, akey), ReadAt::Latest).as_ref(), Err(error));
    }
    let longest = &long[..limits::KEY_BYTES_MAX];
    h.put(At(oid(1), longest, longest), b"x");
    assert_eq!(h.single(At(oid(1), longest, longest)).as_deref(), Some(&b"x"[..]));
}

/// S7: an object id whose type number no type has is refused.
fn unknown_object_type_is_refused(h: &mut Harness<'_>) {
    let oid = Oid { hi: 200 << 56, lo: 1 };
    let refused = Error::from(Invalid::ObjectId);
    assert_eq!(h.mutate(update(oid, b"d", Cond::NONE, vec![single(b"a", b"x")])), Err(refused.clone()));
    assert_eq!(h.try_single(At(oid, b"d", b"a"), ReadAt::Latest), Err(refused));
}

fn assert_no_container(h: &mut Harness<'_>) {
    assert_eq!(h.mutate(update(A.0, A.1, Cond::NONE, vec![single(A.2, b"x")])), Err(Error::NoContainer));
    assert_eq!(h.try_single(A, ReadAt::Latest), Err(Error::NoContainer));
    assert_eq!(h.ask(Verb::Cont(ContVerb::Usage)).err(), Some(Error::NoContainer));
}

/// S7: whatever is asked of a container after its destruction is `NoContainer`.
fn destroyed_container_is_refused(h: &mut Harness<'_>) {
    h.create(ContNo(9));
    h.set_cont(ContNo(9));
    h.put(A, b"x");
    h.done(Verb::Cont(ContVerb::Destroy));
    assert_no_container(h);
    h.set_cont(ContNo(1));
    assert_eq!(h.single(A), None, "containers do not share objects");
}

/// S7: whatever is asked of a container that never was is `NoContainer`.
fn unknown_container_is_refused(h: &mut Harness<'_>) {
    h.set_cont(ContNo(10));
    assert_no_container(h);
}

/// Keys are byte strings: zero bytes and common prefixes do not mix them up, whatever their kind.
fn keys_of_any_bytes_tell_apart(h: &mut Harness<'_>) {
    let keys: [&[u8]; 8] = [b"\0", b"\0\0", b"a", b"a\0", b"a\0b", b"ab", b"\xff", b"\xff\xff"];
    for object_type in [ObjectType::MultiHashed, ObjectType::MultiLexical] {
        let oid = typed(object_type, 3);
        for (number, dkey) in keys.iter().enumerate() {
            for (other, akey) in keys.iter().enumerate() {
                h.put(At(oid, dkey, akey), format!("{number}.{other}").as_bytes());
            }
        }
        for (number, dkey) in keys.iter().enumerate() {
            for (other, akey) in keys.iter().enumerate() {
                let value = h.single(At(oid, dkey, akey));
                assert_eq!(value.as_deref(), Some(format!("{number}.{other}").as_bytes()));
            }
        }
        assert_eq!(h.dkeys(oid, ReadAt::Latest).len(), keys.len());
    }
}
