//! Epochs, snapshots, rollback, differences, aggregation.

use super::Case;
use super::harness::{At, Harness, hole, no_single, oid, records, single, update};
use dolmen_codec::verb::{Change, ChangeKind, ContVerb, ReadAt, Verb};
use dolmen_types::{Cond, Epoch, Error, Invalid, Key, Oid};

pub(super) const CASES: &[(&str, Case)] = &[
    ("epochs_increase", epochs_increase),
    ("epochs_increase_over_restarts_and_clock_steps", epochs_increase_over_restarts_and_clock_steps),
    ("epochs_are_above_every_epoch_read_at", epochs_are_above_every_epoch_read_at),
    (
        "epochs_are_above_every_epoch_a_transaction_read_at",
        epochs_are_above_every_epoch_a_transaction_read_at,
    ),
    ("epochs_far_ahead_are_refused", epochs_far_ahead_are_refused),
    ("transactions_far_ahead_are_refused", transactions_far_ahead_are_refused),
    ("epochs_are_above_the_floor", epochs_are_above_the_floor),
    ("snapshots_keep_their_state", snapshots_keep_their_state),
    ("rollback_returns_to_a_snapshot", rollback_returns_to_a_snapshot),
    ("rollback_is_seen_only_after_it", rollback_is_seen_only_after_it),
    ("writes_after_a_rollback_join_the_old_state", writes_after_a_rollback_join_the_old_state),
    ("rollbacks_nest", rollbacks_nest),
    ("rollback_undoes_punches", rollback_undoes_punches),
    ("rollback_survives_restarts", rollback_survives_restarts),
    ("changes_between_epochs", changes_between_epochs),
    ("changes_are_listed_in_pages", changes_are_listed_in_pages),
    ("equal_bytes_written_again_are_a_change", equal_bytes_written_again_are_a_change),
    ("what_came_and_went_is_no_change", what_came_and_went_is_no_change),
    ("rollback_as_changes", rollback_as_changes),
    ("aggregation_keeps_the_present_and_snapshots", aggregation_keeps_the_present_and_snapshots),
    ("aggregated_epochs_are_gone", aggregated_epochs_are_gone),
    ("aggregation_of_arrays_keeps_every_byte", aggregation_of_arrays_keeps_every_byte),
    ("aggregation_makes_no_change_appear", aggregation_makes_no_change_appear),
    ("aggregation_does_not_wake_the_punched", aggregation_does_not_wake_the_punched),
    ("aggregation_after_rollback", aggregation_after_rollback),
];

const A: At<'static> = At(Oid { hi: 0x0001_0001_0000_0000, lo: 4 }, b"dkey", b"akey");

/// S10: every mutation gets an epoch above all before, with the clock standing still as well.
fn epochs_increase(h: &mut Harness<'_>) {
    let mut last = Epoch::ZERO;
    for number in 0..50_u64 {
        let epoch = if number % 7 == 3 { h.punch_dkey(A.0, b"x") } else { h.put(A, b"x") };
        assert!(epoch > last, "{epoch:?} follows {last:?}");
        last = epoch;
        h.single(A);
    }
    h.advance(1_000_000_000);
    let epoch = h.put(A, b"x");
    assert!(epoch >= Epoch::from_unix_ns(h.now_ns()), "an epoch is not behind the wall clock");
}

/// S10: also when the store is reopened at once, and when the wall clock steps back by an hour.
fn epochs_increase_over_restarts_and_clock_steps(h: &mut Harness<'_>) {
    let mut last = h.put(A, b"x");
    let start = h.now_ns();
    for round in 0..4 {
        h.restart_at_once();
        let reopened = h.put(A, b"x");
        assert!(reopened > last, "{reopened:?} after {last:?} in round {round}");
        h.step_clock_to(start - 3_600_000_000_000);
        last = h.put(A, b"x");
        assert!(last > reopened, "{last:?} after {reopened:?} in round {round}");
    }
    assert_eq!(h.single(A).as_deref(), Some(&b"x"[..]));
}

/// S10: what was read at an epoch ahead of the clock stays as it was read.
fn epochs_are_above_every_epoch_read_at(h: &mut Harness<'_>) {
    h.put(A, b"old");
    let ahead = Epoch::from_unix_ns(h.now_ns() + 500_000_000);
    assert_eq!(h.single_at(A, ReadAt::Epoch(ahead)).as_deref(), Some(&b"old"[..]));
    assert!(h.put(A, b"new") > ahead);
    assert_eq!(h.single_at(A, ReadAt::Epoch(ahead)).as_deref(), Some(&b"old"[..]));
}

/// S10: the same for a transaction that reads ahead of the clock.
fn epochs_are_above_every_epoch_a_transaction_read_at(h: &mut Harness<'_>) {
    h.put(A, b"old");
    let ahead = Epoch::from_unix_ns(h.now_ns() + 500_000_000);
    assert_eq!(h.single_at(A, ReadAt::Tx(ahead)).as_deref(), Some(&b"old"[..]));
    assert!(h.put(A, b"new") > ahead);
    assert_eq!(h.single_at(A, ReadAt::Tx(ahead)).as_deref(), Some(&b"old"[..]));
}

/// S10: an epoch far ahead of the clock would carry the clock away and is refused.
fn epochs_far_ahead_are_refused(h: &mut Harness<'_>) {
    h.put(A, b"x");
    let ahead = Epoch::from_unix_ns(h.now_ns() + 3_600_000_000_000);
    assert_eq!(h.try_single(A, ReadAt::Epoch(ahead)), Err(Invalid::Epoch.into()));
    assert!(h.put(A, b"y") < ahead);
}

/// S10: the same for a transaction that would read far ahead of the clock.
fn transactions_far_ahead_are_refused(h: &mut Harness<'_>) {
    h.put(A, b"x");
    let ahead = Epoch::from_unix_ns(h.now_ns() + 3_600_000_000_000);
    assert_eq!(h.try_single(A, ReadAt::Tx(ahead)), Err(Invalid::Epoch.into()));
    assert!(h.put(A, b"y") < ahead);
}

/// S10: nothing is written at or below a raised floor.
fn epochs_are_above_the_floor(h: &mut Harness<'_>) {
    h.put(A, b"x");
    let floor = Epoch::from_unix_ns(h.now_ns() + 400_000_000);
    h.done(Verb::Cont(ContVerb::RaiseFloor(floor)));
    assert!(h.put(A, b"y") > floor);
}

/// A snapshot reads as the container was, also after a restart.
fn snapshots_keep_their_state(h: &mut Harness<'_>) {
    h.put(A, b"one");
    h.write(At(A.0, A.1, b"array"), 0, b"0123456789");
    let snapshot = h.snapshot();
    h.put(A, b"two");
    h.write(At(A.0, A.1, b"array"), 4, b"____");
    h.put(At(A.0, b"new", b"a"), b"x");
    h.punch_object(oid(4));
    for round in 0..2 {
        assert_eq!(h.single_at(A, ReadAt::Epoch(snapshot)).as_deref(), Some(&b"one"[..]), "round {round}");
        assert_eq!(h.text_at(At(A.0, A.1, b"array"), 0, 10, ReadAt::Epoch(snapshot)), "0123456789");
        assert_eq!(h.dkeys(A.0, ReadAt::Epoch(snapshot)), ["dkey"]);
        h.restart();
    }
}

/// S2: after a rollback reads see what the snapshot saw.
fn rollback_returns_to_a_snapshot(h: &mut Harness<'_>) {
    h.put(A, b"kept");
    h.write(At(A.0, A.1, b"array"), 0, b"kept kept");
    let snapshot = h.snapshot();
    h.put(A, b"lost");
    h.write(At(A.0, A.1, b"array"), 3, b"lost and more");
    h.put(At(oid(5), b"d", b"a"), b"lost");
    h.mutate(update(A.0, b"lost", Cond::NONE, vec![single(b"a", b"lost")])).expect("an update");
    h.roll_back(snapshot);
    assert_eq!(h.single(A).as_deref(), Some(&b"kept"[..]));
    assert_eq!(h.text(At(A.0, A.1, b"array"), 0, 16), "kept kept.......");
    assert_eq!(h.objects(10, ReadAt::Latest), [A.0]);
    assert_eq!(h.dkeys(A.0, ReadAt::Latest), ["dkey"]);
}

/// S2: reads below the rollback see what was written until then.
fn rollback_is_seen_only_after_it(h: &mut Harness<'_>) {
    h.put(A, b"kept");
    let snapshot = h.snapshot();
    let lost = h.put(A, b"lost");
    let at = h.roll_back(snapshot);
    assert_eq!(h.single_at(A, ReadAt::Epoch(lost)).as_deref(), Some(&b"lost"[..]));
    assert_eq!(h.single_at(A, ReadAt::Epoch(at)).as_deref(), Some(&b"lost"[..]));
    assert_eq!(h.single_at(A, ReadAt::Epoch(at.next())).as_deref(), Some(&b"kept"[..]));
}

/// S2: what is written after a rollback is seen on top of the state of the snapshot.
fn writes_after_a_rollback_join_the_old_state(h: &mut Harness<'_>) {
    h.write(A, 0, b"aaaaaaaaaa");
    let snapshot = h.snapshot();
    h.write(A, 2, b"bbbbbb");
    h.roll_back(snapshot);
    h.write(A, 4, b"cc");
    h.dig(A, 0, 1);
    assert_eq!(h.text(A, 0, 10), ".aaaccaaaa");
    let insert = update(A.0, A.1, Cond::DKEY_INSERT, vec![single(b"b", b"x")]);
    assert_eq!(h.mutate(insert), Err(Error::Exists), "conditions see the state returned to");
}

/// S2: a rollback over a rollback returns to what reads at that snapshot saw.
fn rollbacks_nest(h: &mut Harness<'_>) {
    h.put(A, b"one");
    let first = h.snapshot();
    h.put(A, b"two");
    h.roll_back(first);
    h.put(At(A.0, A.1, b"b"), b"three");
    let second = h.snapshot();
    h.put(A, b"four");
    h.put(At(A.0, A.1, b"b"), b"five");
    h.roll_back(second);
    assert_eq!(h.single(A).as_deref(), Some(&b"one"[..]));
    assert_eq!(h.single(At(A.0, A.1, b"b")).as_deref(), Some(&b"three"[..]));
    h.put(A, b"six");
    h.roll_back(first);
    assert_eq!(h.single(A).as_deref(), Some(&b"one"[..]));
    assert_eq!(h.single(At(A.0, A.1, b"b")), None);
    h.roll_back(second);
    assert_eq!(h.single(At(A.0, A.1, b"b")).as_deref(), Some(&b"three"[..]), "also forward again");
}

/// S2: a punch after the snapshot is undone like a write.
fn rollback_undoes_punches(h: &mut Harness<'_>) {
    h.put(A, b"kept");
    h.write(At(A.0, b"d2", b"a"), 0, b"kept");
    let snapshot = h.snapshot();
    h.punch_akey(A);
    h.punch_dkey(A.0, b"d2");
    h.punch_object(A.0);
    h.roll_back(snapshot);
    assert_eq!(h.single(A).as_deref(), Some(&b"kept"[..]));
    assert_eq!(h.text(At(A.0, b"d2", b"a"), 0, 4), "kept");
    h.punch_dkey(A.0, b"d2");
    assert_eq!(h.dkeys(A.0, ReadAt::Latest), ["dkey"]);
}

/// A rollback holds over a restart, before and after later writes.
fn rollback_survives_restarts(h: &mut Harness<'_>) {
    h.put(A, b"kept");
    let snapshot = h.snapshot();
    h.put(A, b"lost");
    h.roll_back(snapshot);
    h.restart();
    assert_eq!(h.single(A).as_deref(), Some(&b"kept"[..]));
    h.put(At(A.0, A.1, b"b"), b"new");
    h.crash();
    assert_eq!(h.single(A).as_deref(), Some(&b"kept"[..]));
    assert_eq!(h.single(At(A.0, A.1, b"b")).as_deref(), Some(&b"new"[..]));
}

fn change(at: At<'_>, kind: ChangeKind) -> Change {
    Change { oid: at.0, dkey: Key::from_slice(at.1), akey: Key::from_slice(at.2), kind }
}

/// S8: what was added, removed and modified between two snapshots, and nothing else.
fn changes_between_epochs(h: &mut Harness<'_>) {
    let places = [b"a", b"b", b"c", b"d", b"e"].map(|akey| At(A.0, A.1, &akey[..]));
    h.put(places[0], b"same");
    h.put(places[1], b"old");
    h.put(places[2], b"going");
    h.write(places[3], 0, b"array");
    let from = h.snapshot();
    h.put(places[1], b"new");
    h.mutate(update(A.0, A.1, Cond::NONE, vec![no_single(places[2].2)])).expect("a removal");
    h.write(places[3], 2, b"x");
    h.write(places[4], 7, b"x");
    let other = At(oid(9), b"d", b"a");
    h.put(other, b"x");
    let to = h.snapshot();
    h.put(places[0], b"later");
    let mut expected = vec![
        change(places[1], ChangeKind::Modified),
        change(places[2], ChangeKind::Removed),
        change(places[3], ChangeKind::Modified),
        change(places[4], ChangeKind::Added),
        change(other, ChangeKind::Added),
    ];
    expected.sort();
    assert_eq!(h.changes(from, to, 100), expected);
    assert!(h.changes(to, to, 100).is_empty());
}

/// S8: the difference of two states is listed in pages, each change once.
fn changes_are_listed_in_pages(h: &mut Harness<'_>) {
    let from = h.snapshot();
    let mut expected = Vec::new();
    let keys: Vec<String> = (0..23).map(|number| format!("key{number}")).collect();
    for (number, key) in (0..).zip(&keys) {
        let place = At(oid(number % 3), key.as_bytes(), b"a");
        h.put(place, b"x");
        expected.push(change(place, ChangeKind::Added));
    }
    expected.sort();
    let to = h.snapshot();
    for items_max in [1, 5, 23, 100] {
        assert_eq!(h.changes(from, to, items_max), expected, "{items_max} a page");
    }
}

/// S8: a value written again with equal bytes is modified.
fn equal_bytes_written_again_are_a_change(h: &mut Harness<'_>) {
    h.put(A, b"same");
    let from = h.snapshot();
    h.put(A, b"same");
    let to = h.snapshot();
    assert_eq!(h.changes(from, to, 10), [change(A, ChangeKind::Modified)]);
}

/// S8: what was written and removed in between is in neither state.
fn what_came_and_went_is_no_change(h: &mut Harness<'_>) {
    h.put(A, b"x");
    let from = h.snapshot();
    h.put(At(A.0, A.1, b"b"), b"x");
    h.write(At(A.0, A.1, b"c"), 0, b"x");
    h.mutate(update(A.0, A.1, Cond::NONE, vec![no_single(b"b"), hole(b"c", &[(0, 1)])])).expect("removals");
    h.put(At(oid(8), b"d", b"a"), b"x");
    h.punch_object(oid(8));
    let to = h.snapshot();
    assert_eq!(h.changes(from, to, 10), []);
}

/// S8: across a rollback only what differs between the states is a change.
fn rollback_as_changes(h: &mut Harness<'_>) {
    h.put(A, b"kept");
    let first = h.snapshot();
    h.put(A, b"lost");
    h.put(At(A.0, A.1, b"b"), b"lost");
    let second = h.snapshot();
    h.roll_back(first);
    let third = h.snapshot();
    assert_eq!(h.changes(first, third, 10), []);
    let expected = [change(A, ChangeKind::Modified), change(At(A.0, A.1, b"b"), ChangeKind::Removed)];
    assert_eq!(h.changes(second, third, 10), expected);
}

/// S14: reads of the present and of every snapshot are the same before and after aggregation.
fn aggregation_keeps_the_present_and_snapshots(h: &mut Harness<'_>) {
    let mut snapshots = Vec::new();
    for round in 0..4_u8 {
        for number in 0..10_u8 {
            h.put(At(oid(1), &[b'd', number % 3], &[b'a', number]), &[round; 9]);
        }
        h.punch_dkey(oid(1), &[b'd', round]);
        snapshots.push(h.snapshot());
    }
    h.put(At(oid(1), b"d\0", b"a\0"), b"present");
    let states: Vec<ReadAt> =
        snapshots.iter().map(|&epoch| ReadAt::Epoch(epoch)).chain([ReadAt::Latest]).collect();
    let read = |h: &mut Harness<'_>, at: ReadAt| {
        let values: Vec<_> =
            (0..10_u8).map(|n| h.single_at(At(oid(1), &[b'd', n % 3], &[b'a', n]), at)).collect();
        (values, h.dkeys(oid(1), at))
    };
    let before: Vec<_> = states.iter().map(|&at| read(h, at)).collect();
    let now = h.now();
    h.put(At(oid(2), b"d", b"a"), b"x");
    h.aggregate(now);
    for round in 0..2 {
        for (at, before) in states.iter().zip(&before) {
            assert_eq!(&read(h, *at), before, "{at:?} in round {round}");
        }
        h.restart();
    }
}

/// S10, S14: an epoch below the aggregated one that is no snapshot is gone; for a transaction that is a restart.
fn aggregated_epochs_are_gone(h: &mut Harness<'_>) {
    let first = h.put(A, b"one");
    let snapshot = h.snapshot();
    let second = h.put(A, b"two");
    let tx = h.begin();
    let horizon = h.snapshot();
    h.put(A, b"three");
    h.aggregate(horizon);
    for gone in [first, second] {
        assert!(matches!(h.try_single(A, ReadAt::Epoch(gone)), Err(Error::EpochGone { .. })));
    }
    assert!(matches!(h.try_single(A, ReadAt::Tx(tx.1)), Err(Error::TxRestart { .. })));
    assert_eq!(h.single_at(A, ReadAt::Epoch(snapshot)).as_deref(), Some(&b"one"[..]));
    assert_eq!(h.single_at(A, ReadAt::Epoch(horizon)).as_deref(), Some(&b"two"[..]));
    h.done(Verb::Cont(ContVerb::RemoveSnapshot(snapshot)));
    assert!(matches!(h.try_single(A, ReadAt::Epoch(snapshot)), Err(Error::EpochGone { .. })));
    assert_eq!(h.single(A).as_deref(), Some(&b"three"[..]));
}

/// S14: small writes that aggregation joins into large extents read byte for byte as before.
fn aggregation_of_arrays_keeps_every_byte(h: &mut Harness<'_>) {
    for step in 0..200_u64 {
        let index = step * 67 % 199;
        h.write(A, index, &[b'a' + (step % 26).to_le_bytes()[0], b'+']);
        if step % 23 == 5 {
            h.dig(A, index + 3, 4);
        }
    }
    h.mutate(update(A.0, A.1, Cond::NONE, vec![records(b"wide", 5, &[(3, 2), (9, 1)], b"abcdefghijklmno")]))
        .expect("records");
    let snapshot = h.snapshot();
    for step in 0..50_u64 {
        h.write(A, step * 31 % 190, b"ZZZ");
    }
    let (old, new) = (h.text_at(A, 0, 210, ReadAt::Epoch(snapshot)), h.text(A, 0, 210));
    for round in 0..3 {
        let now = h.now();
        h.put(At(A.0, b"other", b"a"), b"x");
        h.aggregate(now);
        assert_eq!(h.text_at(A, 0, 210, ReadAt::Epoch(snapshot)), old, "round {round}");
        assert_eq!(h.text(A, 0, 210), new, "round {round}");
        if round == 1 {
            h.restart();
        }
    }
}

/// S8, S14: the difference of two kept states is the same before and after aggregation.
fn aggregation_makes_no_change_appear(h: &mut Harness<'_>) {
    for number in 0..20_u64 {
        h.write(A, number, b"x");
        h.put(At(A.0, A.1, &number.to_le_bytes()), b"x");
    }
    let from = h.snapshot();
    h.put(At(A.0, A.1, &3_u64.to_le_bytes()), b"x");
    h.dig(A, 5, 1);
    h.write(At(A.0, A.1, b"new"), 0, b"x");
    let to = h.snapshot();
    let before = h.changes(from, to, 100);
    assert_eq!(before.len(), 3);
    h.put(At(A.0, b"other", b"a"), b"x");
    for _ in 0..2 {
        let now = h.now();
        h.put(At(A.0, b"other", b"a"), b"x");
        h.aggregate(now);
        assert_eq!(h.changes(from, to, 100), before);
    }
}

/// S14: when aggregation frees a punch, what it hid does not come back.
fn aggregation_does_not_wake_the_punched(h: &mut Harness<'_>) {
    h.put(A, b"one");
    h.write(A, 0, b"one");
    let snapshot = h.snapshot();
    h.put(A, b"two");
    h.punch_dkey(A.0, A.1);
    h.put(At(oid(5), b"d", b"a"), b"x");
    h.punch_object(oid(5));
    for round in 0..2 {
        let now = h.now();
        h.put(At(oid(6), b"d", b"a"), b"x");
        h.aggregate(now);
        assert_eq!((h.single(A), h.text(A, 0, 3)), (None, "...".to_owned()), "round {round}");
        assert_eq!(h.objects(10, ReadAt::Latest), [oid(6)]);
        let kept = h.single_at(A, ReadAt::Epoch(snapshot));
        assert_eq!(kept.as_deref(), Some(&b"one"[..]));
        h.restart();
    }
    h.done(Verb::Cont(ContVerb::RemoveSnapshot(snapshot)));
    let now = h.now();
    h.put(At(oid(6), b"d", b"a"), b"x");
    h.aggregate(now);
    assert_eq!(h.objects(10, ReadAt::Latest), [oid(6)]);
}

/// S2, S14: aggregation over a rollback keeps the state returned to, and what came after.
fn aggregation_after_rollback(h: &mut Harness<'_>) {
    h.put(A, b"kept");
    h.write(At(A.0, A.1, b"v"), 0, b"kept");
    let snapshot = h.snapshot();
    h.put(A, b"lost");
    h.write(At(A.0, A.1, b"v"), 2, b"lost");
    h.punch_object(A.0);
    h.roll_back(snapshot);
    h.write(At(A.0, A.1, b"v"), 0, b"K");
    for round in 0..3 {
        let now = h.now();
        h.put(At(oid(6), b"d", b"a"), b"x");
        h.aggregate(now);
        assert_eq!(h.single(A).as_deref(), Some(&b"kept"[..]), "round {round}");
        assert_eq!(h.text(At(A.0, A.1, b"v"), 0, 6), "Kept..", "round {round}");
        if round == 0 {
            h.done(Verb::Cont(ContVerb::RemoveSnapshot(snapshot)));
        }
        h.restart();
    }
}
