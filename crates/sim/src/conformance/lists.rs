//! Enumerations and key queries.

use super::Case;
use super::harness::{At, Harness, no_single, oid, records, single, typed, update};
use dolmen_codec::verb::{List, ListWhat, Listed, ReadAt, Reply, Verb};
use dolmen_types::{Anchor, Cond, Error, Invalid, Key, ObjectType, Oid, QueryFlags, Recx};
use std::collections::BTreeSet;

pub(super) const CASES: &[(&str, Case)] = &[
    ("dkeys_and_akeys_are_listed_once", dkeys_and_akeys_are_listed_once),
    ("integer_and_lexical_keys_are_listed_in_order", integer_and_lexical_keys_are_listed_in_order),
    ("objects_are_listed_once", objects_are_listed_once),
    ("anchors_resume_while_others_write", anchors_resume_while_others_write),
    ("empty_enumeration_ends_at_once", empty_enumeration_ends_at_once),
    ("ended_enumeration_stays_ended", ended_enumeration_stays_ended),
    ("bytes_max_bounds_a_page", bytes_max_bounds_a_page),
    ("wrong_enumerations_are_refused", wrong_enumerations_are_refused),
    ("foreign_anchor_of_objects_is_refused", foreign_anchor_of_objects_is_refused),
    ("longest_keys_fit_an_anchor", longest_keys_fit_an_anchor),
    ("extents_are_listed_by_index", extents_are_listed_by_index),
    ("single_value_is_one_extent", single_value_is_one_extent),
    ("enumerations_at_an_epoch_see_that_state", enumerations_at_an_epoch_see_that_state),
    ("queries_find_the_largest_and_smallest_keys", queries_find_the_largest_and_smallest_keys),
    ("queries_of_records", queries_of_records),
    ("queries_of_several_levels", queries_of_several_levels),
    ("queries_see_only_what_exists", queries_see_only_what_exists),
    ("wrong_queries_are_refused", wrong_queries_are_refused),
];

const LATEST: ReadAt = ReadAt::Latest;

/// S8: every key exactly once, whatever the size of the pages.
fn dkeys_and_akeys_are_listed_once(h: &mut Harness<'_>) {
    let names: Vec<String> = (0..57).map(|number| format!("key{number:03}")).collect();
    for name in &names {
        h.put(At(oid(1), name.as_bytes(), b"a"), b"x");
        h.put(At(oid(2), b"d", name.as_bytes()), b"x");
    }
    for items_max in [1, 2, 7, 57, 58, 1000] {
        for what in [ListWhat::Dkeys(oid(1)), ListWhat::Akeys(oid(2), Key::from_slice(b"d"))] {
            let mut keys = h.keys(&what, items_max, LATEST);
            keys.sort();
            assert!(
                keys.iter().map(Vec::as_slice).eq(names.iter().map(String::as_bytes)),
                "{items_max} a page"
            );
            let pages = h.pages(&what, items_max, LATEST);
            let fits = |page: &Listed| matches!(page, Listed::Keys(keys) if keys.len() <= items_max as usize);
            assert!(pages.iter().all(fits), "a page is longer than items_max");
        }
    }
}

/// S8: integer keys come by value, lexical ones as strings.
fn integer_and_lexical_keys_are_listed_in_order(h: &mut Harness<'_>) {
    let numbers = [3_u64, 0, u64::MAX, 255, 256, 1 << 40, 65_535, 2];
    let texts: [&[u8]; 7] = [b"b", b"a", b"a\0", b"a\0\0", b"ab", b"\xff", b"a\0\x01"];
    for number in numbers {
        h.put(At(typed(ObjectType::MultiUint64, 1), &number.to_le_bytes(), &number.to_le_bytes()), b"x");
        h.put(At(typed(ObjectType::MultiUint64, 2), &7_u64.to_le_bytes(), &number.to_le_bytes()), b"x");
    }
    for text in texts {
        h.put(At(typed(ObjectType::MultiLexical, 1), text, b"a"), b"x");
        h.put(At(typed(ObjectType::MultiLexical, 2), b"d", text), b"x");
    }
    let mut numbers = numbers.map(|number| (number, number.to_le_bytes().to_vec()));
    numbers.sort_unstable();
    let numbers: Vec<Vec<u8>> = numbers.into_iter().map(|number| number.1).collect();
    let mut texts: Vec<Vec<u8>> = texts.map(<[u8]>::to_vec).to_vec();
    texts.sort();
    for items_max in [1, 3, 100] {
        let dkeys = ListWhat::Dkeys(typed(ObjectType::MultiUint64, 1));
        assert_eq!(h.keys(&dkeys, items_max, LATEST), numbers);
        let akeys = ListWhat::Akeys(typed(ObjectType::MultiUint64, 2), Key::from_slice(&7_u64.to_le_bytes()));
        assert_eq!(h.keys(&akeys, items_max, LATEST), numbers);
        let dkeys = ListWhat::Dkeys(typed(ObjectType::MultiLexical, 1));
        assert_eq!(h.keys(&dkeys, items_max, LATEST), texts);
        let akeys = ListWhat::Akeys(typed(ObjectType::MultiLexical, 2), Key::from_slice(b"d"));
        assert_eq!(h.keys(&akeys, items_max, LATEST), texts);
    }
}

/// S8: every object exactly once, of whatever type.
fn objects_are_listed_once(h: &mut Harness<'_>) {
    let mut oids: Vec<Oid> = (0..20).map(oid).collect();
    oids.push(typed(ObjectType::MultiLexical, 5));
    oids.push(typed(ObjectType::KvHashed, u64::MAX));
    for &oid in &oids {
        h.put(At(oid, b"d", b"a"), b"x");
        h.put(At(oid, b"e", b"a"), b"x");
    }
    h.punch_object(oids.swap_remove(4));
    oids.sort_unstable();
    for items_max in [1, 4, 100] {
        assert_eq!(h.objects(items_max, LATEST), oids);
    }
}

/// S8: what exists all along is listed exactly once while other keys come and go around the anchor.
fn anchors_resume_while_others_write(h: &mut Harness<'_>) {
    for object_type in [ObjectType::MultiHashed, ObjectType::MultiLexical] {
        let oid = typed(object_type, 9);
        for number in 0..40 {
            h.put(At(oid, format!("stays{number}").as_bytes(), b"a"), b"x");
            h.put(At(oid, format!("goes{number}").as_bytes(), b"a"), b"x");
        }
        let (mut anchor, mut seen, mut round) = (Anchor::default(), Vec::new(), 0);
        while !anchor.is_eof() {
            let (listed, next) =
                h.page(&ListWhat::Dkeys(oid), anchor, 3, LATEST).expect("a plain enumeration");
            let Listed::Keys(keys) = listed else { panic!("expected keys") };
            // The key that the anchor stands on goes as well.
            if let Some(last) = keys.iter().last().filter(|key| key.starts_with(b"goes")) {
                h.punch_dkey(oid, last);
            }
            seen.extend(keys.iter().map(<[u8]>::to_vec));
            anchor = next;
            h.punch_dkey(oid, format!("goes{round}").as_bytes());
            h.put(At(oid, format!("comes{round}").as_bytes(), b"a"), b"x");
            round += 1;
            assert!(round < 200, "an enumeration does not end");
        }
        let unique: BTreeSet<&Vec<u8>> = seen.iter().collect();
        assert_eq!(unique.len(), seen.len(), "a key was listed twice");
        for number in 0..40 {
            assert!(unique.contains(&format!("stays{number}").into_bytes()), "stays{number} was not listed");
        }
    }
}

/// S8: an enumeration of nothing returns nothing and the end.
fn empty_enumeration_ends_at_once(h: &mut Harness<'_>) {
    let extents = ListWhat::Extents(oid(1), Key::from_slice(b"d"), Key::from_slice(b"a"));
    for what in
        [ListWhat::Objects, ListWhat::Dkeys(oid(1)), ListWhat::Akeys(oid(1), Key::from_slice(b"d")), extents]
    {
        let (listed, anchor) = h.page(&what, Anchor::default(), 10, LATEST).expect("a plain enumeration");
        let empty = match listed {
            Listed::Objects(oids) => oids.is_empty(),
            Listed::Keys(keys) => keys.is_empty(),
            Listed::Extents(extents) => extents.is_empty(),
            Listed::Changes(changes) => changes.is_empty(),
        };
        assert!(empty);
        assert!(anchor.is_eof());
    }
}

/// S8: asking on at the end returns nothing and the end.
fn ended_enumeration_stays_ended(h: &mut Harness<'_>) {
    h.put(At(oid(1), b"d", b"a"), b"x");
    let (listed, anchor) = h.page(&ListWhat::Dkeys(oid(1)), Anchor::eof(), 10, LATEST).expect("at the end");
    assert!(matches!(listed, Listed::Keys(keys) if keys.is_empty()));
    assert!(anchor.is_eof());
}

/// S8: a page ends before its keys exceed `bytes_max`; a first key that does alone is `KeyTooBig`.
fn bytes_max_bounds_a_page(h: &mut Harness<'_>) {
    for number in 0..10 {
        h.put(At(oid(1), format!("key-{number}").as_bytes(), b"a"), b"x");
    }
    let what = ListWhat::Dkeys(oid(1));
    let list = |anchor, bytes_max| {
        Verb::List(List { what: what.clone(), anchor, items_max: 100, bytes_max, at: LATEST })
    };
    assert_eq!(h.ask(list(Anchor::default(), 4)).err(), Some(Error::KeyTooBig { needed_bytes: 5 }));
    let (mut anchor, mut count) = (Anchor::default(), 0);
    while !anchor.is_eof() {
        let Ok(Reply::Listed(Listed::Keys(keys), next)) = h.ask(list(anchor, 14)) else {
            panic!("expected keys")
        };
        assert!(keys.bytes.len() <= 14, "more bytes than asked for");
        assert!(!keys.is_empty() || next.is_eof(), "an enumeration does not move");
        count += keys.len();
        anchor = next;
    }
    assert_eq!(count, 10);
}

/// S8: `items_max` of zero and anchors of another kind of enumeration are refused.
fn wrong_enumerations_are_refused(h: &mut Harness<'_>) {
    h.put(At(oid(1), b"d", b"a"), b"x");
    let refused = h.page(&ListWhat::Dkeys(oid(1)), Anchor::default(), 0, LATEST);
    assert_eq!(refused.err(), Some(Invalid::Count.into()));
    let foreign = Anchor::after(&[1; 3]).expect("three bytes");
    let extents = ListWhat::Extents(oid(1), Key::from_slice(b"d"), Key::from_slice(b"a"));
    let integers = ListWhat::Dkeys(typed(ObjectType::MultiUint64, 1));
    for what in [ListWhat::Dkeys(oid(1)), integers, extents] {
        assert_eq!(h.page(&what, foreign, 10, LATEST).err(), Some(Invalid::Anchor.into()), "{what:?}");
    }
    let no_key = h.page(&ListWhat::Akeys(oid(1), Key::new()), Anchor::default(), 10, LATEST);
    assert_eq!(no_key.err(), Some(Invalid::Key.into()));
    let unknown = ListWhat::Dkeys(Oid { hi: 200 << 56, lo: 1 });
    assert_eq!(h.page(&unknown, Anchor::default(), 10, LATEST).err(), Some(Invalid::ObjectId.into()));
}

/// S8: an enumeration of objects refuses the anchor of another kind.
fn foreign_anchor_of_objects_is_refused(h: &mut Harness<'_>) {
    h.put(At(oid(1), b"d", b"a"), b"x");
    let foreign = Anchor::after(&[1; 3]).expect("three bytes");
    assert_eq!(h.page(&ListWhat::Objects, foreign, 10, LATEST).err(), Some(Invalid::Anchor.into()));
}

/// S8: an anchor holds the position of the longest key of every kind.
fn longest_keys_fit_an_anchor(h: &mut Harness<'_>) {
    let hashed = [vec![b'x'; 2048], vec![b'y'; 2048], vec![b'z'; 2048]];
    let lexical = [vec![0; 80], [vec![0; 79], vec![1]].concat(), vec![0xff; 80]];
    for (object_type, keys) in [(ObjectType::MultiHashed, hashed), (ObjectType::MultiLexical, lexical)] {
        let oid = typed(object_type, 4);
        for key in &keys {
            h.put(At(oid, key, b"a"), b"x");
        }
        let mut listed = h.keys(&ListWhat::Dkeys(oid), 1, LATEST);
        listed.sort();
        assert_eq!(listed, keys);
    }
}

/// S8: visible pieces ascend by index, cover what is visible and carry their epochs; pages resume anywhere.
fn extents_are_listed_by_index(h: &mut Harness<'_>) {
    let place = At(oid(1), b"d", b"a");
    let first = h.write(place, 10, b"aaaaaaaaaa");
    let second = h.write(place, 13, b"bb");
    h.dig(place, 17, 2);
    let third = h.write(place, 0, b"c");
    for items_max in [1, 2, 100] {
        let extents = h.extents(place, items_max, LATEST);
        assert!(extents.windows(2).all(|pair| pair[0].recx.index + pair[0].recx.count <= pair[1].recx.index));
        let mut text = [b'.'; 20];
        for extent in &extents {
            assert_eq!((extent.record_bytes, extent.single), (1, false));
            let name = [(first, b'a'), (second, b'b'), (third, b'c')]
                .into_iter()
                .find(|(epoch, _)| *epoch == extent.epoch);
            for record in extent.recx.index..extent.recx.index + extent.recx.count {
                text[usize::try_from(record).expect("below 20")] = name.expect("the epoch of a write").1;
            }
        }
        assert_eq!(&text, b"c.........aaabbaa..a");
    }
}

/// S8: a single value is listed as one item with its length.
fn single_value_is_one_extent(h: &mut Harness<'_>) {
    let place = At(oid(1), b"d", b"a");
    h.put(place, b"old");
    let epoch = h.put(place, b"eleven byte");
    let extents = h.extents(place, 10, LATEST);
    assert_eq!(extents.len(), 1);
    let extent = extents[0];
    assert_eq!(
        (extent.recx, extent.record_bytes, extent.epoch, extent.single),
        (Recx::new(0, 1), 11, epoch, true)
    );
}

/// S8: an enumeration at an epoch lists what existed then.
fn enumerations_at_an_epoch_see_that_state(h: &mut Harness<'_>) {
    let one = h.put(At(oid(1), b"d1", b"a1"), b"x");
    let two = h.put(At(oid(1), b"d2", b"a1"), b"x");
    h.put(At(oid(1), b"d1", b"a2"), b"x");
    let three = h.put(At(oid(2), b"d1", b"a1"), b"x");
    h.punch_object(oid(1));
    assert_eq!(h.dkeys(oid(1), ReadAt::Epoch(one)), ["d1"]);
    assert_eq!(h.dkeys(oid(1), ReadAt::Epoch(two)), ["d1", "d2"]);
    assert_eq!(h.akeys(oid(1), b"d1", ReadAt::Epoch(two)), ["a1"]);
    assert_eq!(h.akeys(oid(1), b"d1", ReadAt::Epoch(three)), ["a1", "a2"]);
    assert_eq!(h.objects(1, ReadAt::Epoch(two)), [oid(1)]);
    assert_eq!(h.objects(1, ReadAt::Epoch(three)), [oid(1), oid(2)]);
    assert_eq!(h.objects(1, LATEST), [oid(2)]);
}

/// S9: the largest and smallest dkey and akey, by value and as strings.
fn queries_find_the_largest_and_smallest_keys(h: &mut Harness<'_>) {
    use QueryFlags as Q;
    let (integers, texts) = (typed(ObjectType::MultiUint64, 1), typed(ObjectType::MultiLexical, 1));
    for number in [300_u64, 5, 256, 1 << 60] {
        h.put(At(integers, &number.to_le_bytes(), &number.to_le_bytes()), b"x");
        h.put(At(integers, &5_u64.to_le_bytes(), &number.to_le_bytes()), b"x");
    }
    for text in [&b"m"[..], b"aa", b"a", b"zz", b"z\xff"] {
        h.put(At(texts, text, text), b"x");
        h.put(At(texts, b"m", text), b"x");
    }
    let mut ask = |oid, flags: &[Q], dkey: &[u8]| {
        h.query(oid, flags, (dkey, b""), LATEST)
            .expect("a plain query")
            .map(|found| (found.dkey.to_vec(), found.akey.to_vec()))
    };
    let number = |number: u64| number.to_le_bytes().to_vec();
    assert_eq!(ask(integers, &[Q::MAX, Q::DKEY], b"").map(|f| f.0), Some(number(1 << 60)));
    assert_eq!(ask(integers, &[Q::MIN, Q::DKEY], b"").map(|f| f.0), Some(number(5)));
    assert_eq!(ask(integers, &[Q::MAX, Q::AKEY], &number(5)).map(|f| f.1), Some(number(1 << 60)));
    assert_eq!(ask(integers, &[Q::MIN, Q::AKEY], &number(300)).map(|f| f.1), Some(number(300)));
    assert_eq!(ask(texts, &[Q::MAX, Q::DKEY], b"").map(|f| f.0), Some(b"z\xff".to_vec()));
    assert_eq!(ask(texts, &[Q::MIN, Q::DKEY], b"").map(|f| f.0), Some(b"a".to_vec()));
    assert_eq!(ask(texts, &[Q::MAX, Q::AKEY], b"m").map(|f| f.1), Some(b"z\xff".to_vec()));
    assert_eq!(ask(texts, &[Q::MIN, Q::AKEY], b"none"), None);
}

/// S9: the last and first visible record, with the record size; holes do not count.
fn queries_of_records(h: &mut Harness<'_>) {
    use QueryFlags as Q;
    let place = At(oid(1), b"d", b"a");
    let ask = |h: &mut Harness<'_>, flag| {
        let found = h.query(oid(1), &[flag, Q::RECX], (b"d", b"a"), LATEST).expect("a plain query");
        found.map(|found| (found.recx.expect("it was asked for"), found.record_bytes))
    };
    assert_eq!(ask(h, Q::MAX), None);
    let iod = records(b"a", 3, &[(7, 2), ((5 << 20) + 9, 4)], b"abcdefghijklmnopqr");
    h.mutate(update(oid(1), b"d", Cond::NONE, vec![iod])).expect("records");
    assert_eq!(ask(h, Q::MAX), Some((Recx::new((5 << 20) + 12, 1), 3)));
    assert_eq!(ask(h, Q::MIN), Some((Recx::new(7, 1), 3)));
    h.dig(place, 0, 8);
    h.dig(place, (5 << 20) + 11, 1 << 21);
    assert_eq!(ask(h, Q::MAX), Some((Recx::new((5 << 20) + 10, 1), 3)));
    assert_eq!(ask(h, Q::MIN), Some((Recx::new(8, 1), 3)));
    h.dig(place, 5 << 20, 1 << 20);
    assert_eq!(ask(h, Q::MAX), Some((Recx::new(8, 1), 3)));
    h.punch_akey(place);
    assert_eq!(ask(h, Q::MIN), None);
}

/// S9: a dkey that is asked for together with an akey or records is one that has them.
fn queries_of_several_levels(h: &mut Harness<'_>) {
    use QueryFlags as Q;
    let array = typed(ObjectType::MultiUint64, 1);
    let key = |number: u64| number.to_le_bytes();
    h.write(At(array, &key(1), &key(0)), 100, b"xyz");
    h.write(At(array, &key(2), &key(0)), 5, b"x");
    h.write(At(array, &key(2), &key(4)), 50, b"x");
    h.put(At(array, &key(3), &key(9)), b"single");
    let ask = |h: &mut Harness<'_>, flags: &[Q]| {
        let found =
            h.query(array, flags, (&key(2), &key(0)), LATEST).expect("a plain query").expect("it is there");
        (found.dkey.to_vec(), found.akey.to_vec(), found.recx.map(|recx| recx.index))
    };
    let dkey_recx = ask(h, &[Q::MAX, Q::DKEY, Q::RECX]);
    assert_eq!(dkey_recx, (key(2).to_vec(), key(0).to_vec(), Some(5)));
    assert_eq!(ask(h, &[Q::MIN, Q::DKEY, Q::RECX]), (key(1).to_vec(), key(0).to_vec(), Some(100)));
    assert_eq!(ask(h, &[Q::MAX, Q::DKEY, Q::AKEY, Q::RECX]), (key(2).to_vec(), key(4).to_vec(), Some(50)));
    assert_eq!(ask(h, &[Q::MIN, Q::DKEY, Q::AKEY, Q::RECX]), (key(1).to_vec(), key(0).to_vec(), Some(100)));
    assert_eq!(ask(h, &[Q::MAX, Q::DKEY, Q::AKEY]), (key(3).to_vec(), key(9).to_vec(), None));
    assert_eq!(ask(h, &[Q::MAX, Q::AKEY, Q::RECX]), (key(2).to_vec(), key(4).to_vec(), Some(50)));
}

/// S1, S9: punched and removed keys are not found, and past states are found at their epochs.
fn queries_see_only_what_exists(h: &mut Harness<'_>) {
    use QueryFlags as Q;
    let texts = typed(ObjectType::MultiLexical, 1);
    h.put(At(texts, b"b", b"a"), b"x");
    let full = h.put(At(texts, b"c", b"a"), b"x");
    h.put(At(texts, b"d", b"a"), b"x");
    let ask = |h: &mut Harness<'_>, at| {
        h.query(texts, &[Q::MAX, Q::DKEY], (b"", b""), at)
            .expect("a plain query")
            .map(|found| found.dkey.to_vec())
    };
    h.punch_dkey(texts, b"d");
    assert_eq!(ask(h, LATEST), Some(b"c".to_vec()));
    h.mutate(update(texts, b"c", Cond::NONE, vec![no_single(b"a")])).expect("a removal");
    assert_eq!(ask(h, LATEST), Some(b"b".to_vec()));
    h.punch_object(texts);
    assert_eq!(ask(h, LATEST), None);
    assert_eq!(ask(h, ReadAt::Epoch(full)), Some(b"c".to_vec()));
}

/// S9: hashed keys have no largest; exactly one of largest and smallest is asked for.
fn wrong_queries_are_refused(h: &mut Harness<'_>) {
    use QueryFlags as Q;
    h.mutate(update(oid(1), b"d", Cond::NONE, vec![single(b"a", b"x")])).expect("an update");
    for flags in [[Q::MAX, Q::DKEY], [Q::MIN, Q::AKEY]] {
        assert_eq!(h.query(oid(1), &flags, (b"d", b"a"), LATEST), Err(Invalid::Query.into()));
    }
    let mixed = typed(ObjectType::DkeyUint64, 1);
    let zero = 0_u64.to_le_bytes();
    assert_eq!(h.query(mixed, &[Q::MAX, Q::DKEY, Q::AKEY], (b"", b""), LATEST), Err(Invalid::Query.into()));
    assert_eq!(h.query(mixed, &[Q::MAX, Q::DKEY], (b"", b""), LATEST), Ok(None));
    for flags in [&[Q::DKEY][..], &[Q::MAX, Q::MIN, Q::DKEY]] {
        assert_eq!(h.query(mixed, flags, (&zero, b"a"), LATEST), Err(Invalid::Flags.into()));
    }
}
