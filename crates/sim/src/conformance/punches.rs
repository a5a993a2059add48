//! Punches of objects, dkeys and akeys.

use super::Case;
use super::harness::{At, Harness, akeys_scope, oid, punch};
use dolmen_codec::verb::{PunchScope, ReadAt};
use dolmen_types::{Cond, Error, Invalid, Key, Oid};

pub(super) const CASES: &[(&str, Case)] = &[
    ("punched_akeys_are_gone", punched_akeys_are_gone),
    ("punched_dkey_takes_its_akeys_along", punched_dkey_takes_its_akeys_along),
    ("punched_object_takes_all_along", punched_object_takes_all_along),
    ("what_is_written_after_a_punch_is_seen", what_is_written_after_a_punch_is_seen),
    ("past_states_are_kept_by_a_punch", past_states_are_kept_by_a_punch),
    ("emptied_parents_no_longer_exist", emptied_parents_no_longer_exist),
    ("records_do_not_shine_through_a_punch", records_do_not_shine_through_a_punch),
    ("wrong_punches_are_refused", wrong_punches_are_refused),
];

fn fill(h: &mut Harness<'_>) {
    for dkey in [b"d1", b"d2"] {
        for akey in [b"a1", b"a2"] {
            h.put(At(oid(1), dkey, akey), b"value");
            h.write(At(oid(1), dkey, akey), 0, b"array");
        }
    }
    h.put(At(oid(2), b"d1", b"a1"), b"other object");
}

/// A punch of akeys removes single value and array of each, and nothing else.
fn punched_akeys_are_gone(h: &mut Harness<'_>) {
    fill(h);
    h.mutate(punch(oid(1), akeys_scope(b"d1", &[b"a1", b"never"]), Cond::NONE)).expect("a plain punch");
    assert_eq!(h.single(At(oid(1), b"d1", b"a1")), None);
    assert_eq!(h.text(At(oid(1), b"d1", b"a1"), 0, 5), ".....");
    assert_eq!(h.text(At(oid(1), b"d1", b"a2"), 0, 5), "array");
    assert_eq!(h.akeys(oid(1), b"d1", ReadAt::Latest), ["a2"]);
    assert_eq!(h.akeys(oid(1), b"d2", ReadAt::Latest), ["a1", "a2"]);
}

/// A punch of a dkey removes everything below it, and nothing beside it.
fn punched_dkey_takes_its_akeys_along(h: &mut Harness<'_>) {
    fill(h);
    h.punch_dkey(oid(1), b"d1");
    assert!(h.akeys(oid(1), b"d1", ReadAt::Latest).is_empty());
    assert_eq!(h.single(At(oid(1), b"d1", b"a2")), None);
    assert_eq!(h.dkeys(oid(1), ReadAt::Latest), ["d2"]);
    assert_eq!(h.single(At(oid(1), b"d2", b"a1")).as_deref(), Some(&b"value"[..]));
    assert_eq!(h.dkeys(oid(2), ReadAt::Latest), ["d1"]);
}

/// A punch of an object removes everything below it, and nothing beside it.
fn punched_object_takes_all_along(h: &mut Harness<'_>) {
    fill(h);
    h.punch_object(oid(1));
    assert!(h.dkeys(oid(1), ReadAt::Latest).is_empty());
    assert!(h.akeys(oid(1), b"d2", ReadAt::Latest).is_empty());
    assert_eq!(h.text(At(oid(1), b"d2", b"a2"), 0, 5), ".....");
    assert_eq!(h.objects(10, ReadAt::Latest), [oid(2)]);
}

/// S2: a punch hides what was written before it only.
fn what_is_written_after_a_punch_is_seen(h: &mut Harness<'_>) {
    fill(h);
    h.punch_object(oid(1));
    h.put(At(oid(1), b"d1", b"a1"), b"new");
    assert_eq!(h.akeys(oid(1), b"d1", ReadAt::Latest), ["a1"]);
    assert_eq!(h.single(At(oid(1), b"d1", b"a1")).as_deref(), Some(&b"new"[..]));
    assert_eq!(h.text(At(oid(1), b"d1", b"a1"), 0, 5), ".....");
    h.punch_dkey(oid(1), b"d1");
    h.write(At(oid(1), b"d1", b"a1"), 2, b"x");
    h.punch_akey(At(oid(1), b"d1", b"a1"));
    h.write(At(oid(1), b"d1", b"a1"), 4, b"y");
    assert_eq!(h.single(At(oid(1), b"d1", b"a1")), None);
    assert_eq!(h.text(At(oid(1), b"d1", b"a1"), 0, 6), "....y.");
}

/// S2: a read below the epoch of a punch sees what was there.
fn past_states_are_kept_by_a_punch(h: &mut Harness<'_>) {
    fill(h);
    let before = h.put(At(oid(1), b"d1", b"a1"), b"last");
    let akey = h.punch_akey(At(oid(1), b"d1", b"a1"));
    let dkey = h.punch_dkey(oid(1), b"d1");
    let object = h.punch_object(oid(1));
    let seen = |h: &mut Harness<'_>, at| {
        let at = ReadAt::Epoch(at);
        (
            h.single_at(At(oid(1), b"d1", b"a1"), at).is_some(),
            h.akeys(oid(1), b"d1", at).len(),
            h.dkeys(oid(1), at).len(),
        )
    };
    assert_eq!(seen(h, before), (true, 2, 2));
    assert_eq!(seen(h, akey), (false, 1, 2));
    assert_eq!(seen(h, dkey), (false, 0, 1));
    assert_eq!(seen(h, object), (false, 0, 0));
}

/// S1: a dkey whose last akey is punched does not exist, nor an object whose last dkey is.
fn emptied_parents_no_longer_exist(h: &mut Harness<'_>) {
    fill(h);
    h.mutate(punch(oid(1), akeys_scope(b"d1", &[b"a1", b"a2"]), Cond::PUNCH)).expect("both exist");
    assert_eq!(h.dkeys(oid(1), ReadAt::Latest), ["d2"]);
    h.punch_dkey(oid(1), b"d2");
    assert_eq!(h.objects(10, ReadAt::Latest), [oid(2)]);
    assert_eq!(h.mutate(punch(oid(1), PunchScope::Object, Cond::PUNCH)), Err(Error::NotFound));
}

/// Records below a punch stay hidden when others of the same array are written after it.
fn records_do_not_shine_through_a_punch(h: &mut Harness<'_>) {
    let place = At(oid(3), b"d", b"a");
    h.write(place, 0, b"0123456789");
    h.punch_dkey(oid(3), b"d");
    h.write(place, 4, b"new");
    assert_eq!(h.text(place, 0, 10), "....new...");
    h.punch_object(oid(3));
    h.write(place, 8, b"z");
    assert_eq!(h.text(place, 0, 10), "........z.");
}

/// S7: wrong keys, no akeys and unknown object types are refused.
fn wrong_punches_are_refused(h: &mut Harness<'_>) {
    let no_key = PunchScope::Dkey(Key::new());
    assert_eq!(h.mutate(punch(oid(1), no_key, Cond::NONE)), Err(Invalid::Key.into()));
    assert_eq!(h.mutate(punch(oid(1), akeys_scope(b"d", &[b""]), Cond::NONE)), Err(Invalid::Key.into()));
    assert_eq!(h.mutate(punch(oid(1), akeys_scope(b"d", &[]), Cond::NONE)), Err(Invalid::Count.into()));
    let unknown = Oid { hi: 200 << 56, lo: 1 };
    assert_eq!(h.mutate(punch(unknown, PunchScope::Object, Cond::NONE)), Err(Invalid::ObjectId.into()));
}
