//! Transactions: conflicts, undecided writes, decisions, crashes.

use super::Case;
use super::harness::{At, Harness, akeys_scope, oid, punch, records, single, typed, update, want_size};
use dolmen_codec::verb::{ContVerb, ListWhat, Mutation, PunchScope, ReadAt, TxState, Verb};
use dolmen_types::{Anchor, Cond, Epoch, Error, Key, ObjectType, Oid, QueryFlags, TargetNo};

pub(super) const CASES: &[(&str, Case)] = &[
    ("one_target_transaction_commits_at_once", one_target_transaction_commits_at_once),
    ("later_mutations_of_a_transaction_win", later_mutations_of_a_transaction_win),
    ("conditions_see_earlier_mutations", conditions_see_earlier_mutations),
    ("failed_condition_fails_the_whole_transaction", failed_condition_fails_the_whole_transaction),
    ("prepared_writes_are_seen_after_commit", prepared_writes_are_seen_after_commit),
    ("aborted_writes_are_never_seen", aborted_writes_are_never_seen),
    ("undecided_write_is_in_doubt_for_readers", undecided_write_is_in_doubt_for_readers),
    ("undecided_write_is_in_doubt_for_conditions", undecided_write_is_in_doubt_for_conditions),
    ("undecided_punch_is_in_doubt", undecided_punch_is_in_doubt),
    ("reads_below_an_undecided_write_are_not_in_doubt", reads_below_an_undecided_write_are_not_in_doubt),
    ("write_below_a_read_restarts", write_below_a_read_restarts),
    ("write_below_a_missed_read_restarts", write_below_a_missed_read_restarts),
    ("write_below_an_enumeration_restarts", write_below_an_enumeration_restarts),
    ("write_below_a_query_restarts", write_below_a_query_restarts),
    ("punch_below_a_read_restarts", punch_below_a_read_restarts),
    ("write_below_a_condition_restarts", write_below_a_condition_restarts),
    ("write_below_a_read_of_the_latest_restarts", write_below_a_read_of_the_latest_restarts),
    ("own_reads_do_not_conflict", own_reads_do_not_conflict),
    ("own_writes_do_not_cover_up_own_reads", own_writes_do_not_cover_up_own_reads),
    ("write_below_a_newer_write_restarts", write_below_a_newer_write_restarts),
    ("write_below_the_floor_restarts", write_below_the_floor_restarts),
    ("write_at_the_floor_restarts", write_at_the_floor_restarts),
    ("write_below_aggregation_restarts", write_below_aggregation_restarts),
    ("decisions_are_idempotent", decisions_are_idempotent),
    ("decisions_of_unknown_transactions", decisions_of_unknown_transactions),
    ("transaction_states_are_told", transaction_states_are_told),
    ("repeated_prepare_is_harmless", repeated_prepare_is_harmless),
    ("late_prepare_of_an_aborted_transaction_is_refused", late_prepare_of_an_aborted_transaction_is_refused),
    ("prepared_transactions_survive_crashes", prepared_transactions_survive_crashes),
    ("decisions_survive_crashes", decisions_survive_crashes),
    ("reads_before_a_restart_count_after_it", reads_before_a_restart_count_after_it),
    ("transaction_reads_at_its_epoch", transaction_reads_at_its_epoch),
    ("transactions_over_many_objects", transactions_over_many_objects),
    (
        "aborted_transactions_over_many_objects_leave_nothing",
        aborted_transactions_over_many_objects_leave_nothing,
    ),
];

const A: At<'static> = At(Oid { hi: 0x0001_0001_0000_0000, lo: 6 }, b"dkey", b"akey");
const LATEST: ReadAt = ReadAt::Latest;

fn put(at: At<'_>, bytes: &[u8]) -> Mutation<'static> {
    update(at.0, at.1, Cond::NONE, vec![single(at.2, bytes)])
}

#[track_caller]
fn assert_restart<T: core::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::TxRestart { .. })), "expected a restart, got {result:?}");
}

/// S11: a transaction whose only target is this one is committed when it is prepared, at its epoch.
fn one_target_transaction_commits_at_once(h: &mut Harness<'_>) {
    h.put(A, b"old");
    let tx = h.begin();
    h.commit_alone(tx, vec![put(A, b"new"), put(At(oid(7), b"d", b"a"), b"too")]).expect("no conflict");
    assert_eq!(h.single(A).as_deref(), Some(&b"new"[..]));
    assert_eq!(h.single(At(oid(7), b"d", b"a")).as_deref(), Some(&b"too"[..]));
    assert_eq!(h.single_at(A, ReadAt::Epoch(tx.1)).as_deref(), Some(&b"new"[..]));
    assert_eq!(h.single_at(A, ReadAt::Epoch(Epoch(tx.1.0 - 1))).as_deref(), Some(&b"old"[..]));
    assert!(h.put(A, b"newer") > tx.1, "later epochs are above a committed one");
}

/// S11: mutations of one transaction count in program order, also punches among them.
fn later_mutations_of_a_transaction_win(h: &mut Harness<'_>) {
    h.put(A, b"before");
    let array = At(A.0, A.1, b"v");
    let write = |extent, bytes: &[u8]| update(A.0, A.1, Cond::NONE, vec![records(b"v", 1, &[extent], bytes)]);
    let tx = h.begin();
    let mutations = vec![
        put(A, b"first"),
        write((0, 6), b"aaaaaa"),
        punch(A.0, PunchScope::Dkey(Key::from_slice(A.1)), Cond::NONE),
        write((0, 4), b"bbbb"),
        write((2, 1), b"c"),
        put(At(A.0, A.1, b"s"), b"one"),
        put(At(A.0, A.1, b"s"), b"two"),
    ];
    h.commit_alone(tx, mutations).expect("no conflict");
    assert_eq!(h.single(A), None);
    assert_eq!(h.text(array, 0, 6), "bbcb..");
    assert_eq!(h.single(At(A.0, A.1, b"s")).as_deref(), Some(&b"two"[..]));
}

/// S11: a condition sees what the same transaction did before it.
fn conditions_see_earlier_mutations(h: &mut Harness<'_>) {
    let insert = |bytes| update(A.0, A.1, Cond::AKEY_INSERT, vec![single(A.2, bytes)]);
    let change = |bytes| update(A.0, A.1, Cond::AKEY_UPDATE, vec![single(A.2, bytes)]);
    let remove = || punch(A.0, akeys_scope(A.1, &[A.2]), Cond::PUNCH);
    let tx = h.begin();
    h.commit_alone(tx, vec![insert(b"1"), change(b"2"), remove(), insert(b"3")])
        .expect("all conditions hold");
    assert_eq!(h.single(A).as_deref(), Some(&b"3"[..]));
    let tx = h.begin();
    assert_eq!(h.commit_alone(tx, vec![remove(), change(b"4")]), Err(Error::NotFound));
    let tx = h.begin();
    assert_eq!(h.commit_alone(tx, vec![put(At(A.0, b"e", b"a"), b"x"), insert(b"4")]), Err(Error::Exists));
    assert_eq!(h.single(A).as_deref(), Some(&b"3"[..]));
}

/// S5, S11: when one condition fails nothing of the transaction is kept, and nothing is left prepared.
fn failed_condition_fails_the_whole_transaction(h: &mut Harness<'_>) {
    let tx = h.begin();
    let failing = update(oid(8), b"d", Cond::DKEY_UPDATE, vec![single(b"a", b"x")]);
    assert_eq!(h.prepare(tx, vec![put(A, b"x"), failing, put(A, b"y")]), Err(Error::NotFound));
    assert!(h.objects(10, LATEST).is_empty());
    h.put(A, b"z");
    assert_eq!(h.single(A).as_deref(), Some(&b"z"[..]));
}

/// A prepared transaction is visible from its epoch on once it is committed.
fn prepared_writes_are_seen_after_commit(h: &mut Harness<'_>) {
    h.put(A, b"old");
    let tx = h.begin();
    h.prepare(tx, vec![put(A, b"new"), punch(oid(7), PunchScope::Object, Cond::NONE)]).expect("no conflict");
    h.commit(tx);
    assert_eq!(h.single(A).as_deref(), Some(&b"new"[..]));
    assert_eq!(h.extents(A, 10, LATEST)[0].epoch, tx.1);
}

/// An aborted transaction leaves no trace.
fn aborted_writes_are_never_seen(h: &mut Harness<'_>) {
    h.put(A, b"old");
    let tx = h.begin();
    let mutations =
        vec![put(A, b"new"), put(At(oid(7), b"d", b"a"), b"x"), punch(A.0, PunchScope::Object, Cond::NONE)];
    h.prepare(tx, mutations).expect("no conflict");
    h.abort(tx);
    assert_eq!(h.single(A).as_deref(), Some(&b"old"[..]));
    assert_eq!(h.objects(10, LATEST), [A.0]);
    h.restart();
    assert_eq!(h.single(A).as_deref(), Some(&b"old"[..]));
    assert_eq!(h.objects(10, LATEST), [A.0]);
}

/// S11: a read that would have to know an undecided write names its transaction.
fn undecided_write_is_in_doubt_for_readers(h: &mut Harness<'_>) {
    h.put(At(A.0, b"other", b"a"), b"calm");
    let tx = h.begin();
    h.prepare(tx, vec![put(A, b"new")]).expect("no conflict");
    let in_doubt = Error::InDoubt { tx: tx.0 };
    for at in [LATEST, ReadAt::Epoch(tx.1), ReadAt::Tx(tx.1.next())] {
        assert_eq!(h.try_single(A, at), Err(in_doubt.clone()));
        let (result, _) = h.fetch((A.0, A.1), Cond::NONE, at, vec![want_size(A.2)], 0);
        assert_eq!(result, Err(in_doubt.clone()));
        let akeys = ListWhat::Akeys(A.0, Key::from_slice(A.1));
        let extents = ListWhat::Extents(A.0, Key::from_slice(A.1), Key::from_slice(A.2));
        for what in [ListWhat::Dkeys(A.0), akeys, extents] {
            assert_eq!(h.page(&what, Anchor::default(), 10, at).err(), Some(in_doubt.clone()), "{what:?}");
        }
    }
    assert_eq!(h.single(At(A.0, b"other", b"a")).as_deref(), Some(&b"calm"[..]), "others are read");
    let list = h.in_doubt();
    assert_eq!(list.len(), 1);
    assert_eq!((list[0].tx, list[0].epoch, list[0].leader), (tx.0, tx.1, h.target()));
    assert_eq!(list[0].participants[..], [h.target(), TargetNo(h.target().0 + 1)]);
    h.commit(tx);
    assert_eq!(h.single(A).as_deref(), Some(&b"new"[..]));
    assert!(h.in_doubt().is_empty());
}

/// S11: so does a condition of an update, a punch or another transaction.
fn undecided_write_is_in_doubt_for_conditions(h: &mut Harness<'_>) {
    let tx = h.begin();
    h.prepare(tx, vec![put(A, b"new")]).expect("no conflict");
    let in_doubt = Error::InDoubt { tx: tx.0 };
    let insert = || update(A.0, A.1, Cond::DKEY_INSERT, vec![single(b"b", b"x")]);
    let change = || update(A.0, A.1, Cond::AKEY_UPDATE, vec![single(A.2, b"x")]);
    let remove = || punch(A.0, akeys_scope(A.1, &[A.2]), Cond::PUNCH);
    for mutation in [insert(), change(), remove()] {
        assert_eq!(h.mutate(mutation), Err(in_doubt.clone()));
    }
    let other = h.begin();
    assert_eq!(h.prepare(other, vec![insert()]), Err(in_doubt));
    assert_eq!(h.tx_state(other), TxState::Unknown);
    h.abort(tx);
    h.mutate(insert()).expect("it was aborted");
}

/// S11: an undecided punch is in doubt for whoever reads below it.
fn undecided_punch_is_in_doubt(h: &mut Harness<'_>) {
    for scope in [PunchScope::Object, PunchScope::Dkey(Key::from_slice(A.1)), akeys_scope(A.1, &[A.2])] {
        h.put(A, b"x");
        h.write(At(A.0, A.1, A.2), 0, b"v");
        let tx = h.begin();
        h.prepare(tx, vec![punch(A.0, scope.clone(), Cond::NONE)]).expect("no conflict");
        assert_eq!(h.try_single(A, LATEST), Err(Error::InDoubt { tx: tx.0 }), "{scope:?}");
        let objects = h.page(&ListWhat::Objects, Anchor::default(), 10, LATEST);
        assert_eq!(objects.err(), Some(Error::InDoubt { tx: tx.0 }), "{scope:?}");
        h.commit(tx);
        assert_eq!(h.single(A), None);
        assert!(h.objects(10, LATEST).is_empty());
    }
}

/// S11: a read below the epoch of an undecided write does not depend on it.
fn reads_below_an_undecided_write_are_not_in_doubt(h: &mut Harness<'_>) {
    let old = h.put(A, b"old");
    let tx = h.begin();
    h.prepare(tx, vec![put(A, b"new")]).expect("no conflict");
    assert_eq!(h.single_at(A, ReadAt::Epoch(old)).as_deref(), Some(&b"old"[..]));
    h.abort(tx);
}

/// S11: a transaction may not write below a read of another.
fn write_below_a_read_restarts(h: &mut Harness<'_>) {
    h.put(A, b"old");
    h.write(At(A.0, A.1, b"v"), 0, b"0123456789");
    let (early, late) = (h.begin(), h.begin());
    assert_eq!(h.single_at(A, ReadAt::Tx(late.1)).as_deref(), Some(&b"old"[..]));
    assert_eq!(h.text_at(At(A.0, A.1, b"v"), 2, 3, ReadAt::Tx(late.1)), "234");
    assert_restart(h.commit_alone(early, vec![put(A, b"new")]));
    assert_restart(h.prepare(early, vec![put(At(oid(9), b"d", b"a"), b"x"), put(A, b"new")]));
    let write = update(A.0, A.1, Cond::NONE, vec![records(b"v", 1, &[(4, 1)], b"x")]);
    assert_restart(h.commit_alone(early, vec![write]));
    assert_eq!(h.single_at(A, ReadAt::Tx(late.1)).as_deref(), Some(&b"old"[..]));
    assert!(!h.objects(10, LATEST).contains(&oid(9)), "nothing of a refused transaction is kept");
    let again = h.begin();
    h.commit_alone(again, vec![put(A, b"new")]).expect("begun again, it is above the read");
}

/// S11: a read of nothing is remembered like one of something.
fn write_below_a_missed_read_restarts(h: &mut Harness<'_>) {
    let places = [A, At(A.0, b"other dkey", b"a"), At(oid(9), b"d", b"a")];
    h.put(At(A.0, A.1, b"neighbour"), b"x");
    for place in places {
        let (early, late) = (h.begin(), h.begin());
        assert_eq!(h.single_at(place, ReadAt::Tx(late.1)), None);
        assert_restart(h.commit_alone(early, vec![put(place, b"phantom")]));
        assert_eq!(h.single_at(place, ReadAt::Tx(late.1)), None);
    }
}

/// S11: what an enumeration did not list may not be put below it, nor what it listed be removed.
fn write_below_an_enumeration_restarts(h: &mut Harness<'_>) {
    h.put(A, b"x");
    let akeys = ListWhat::Akeys(A.0, Key::from_slice(A.1));
    let extents = ListWhat::Extents(A.0, Key::from_slice(A.1), Key::from_slice(b"v"));
    let write =
        |place: At<'_>| update(place.0, place.1, Cond::NONE, vec![records(place.2, 1, &[(5, 1)], b"x")]);
    let phantoms = [
        (akeys.clone(), put(At(A.0, A.1, b"phantom"), b"x")),
        (ListWhat::Dkeys(A.0), put(At(A.0, b"phantom", b"a"), b"x")),
        (ListWhat::Objects, put(At(oid(99), b"d", b"a"), b"x")),
        (extents, write(At(A.0, A.1, b"v"))),
        (akeys, punch(A.0, akeys_scope(A.1, &[A.2]), Cond::NONE)),
        (ListWhat::Dkeys(A.0), punch(A.0, PunchScope::Dkey(Key::from_slice(A.1)), Cond::NONE)),
        (ListWhat::Objects, punch(A.0, PunchScope::Object, Cond::NONE)),
    ];
    for (what, mutation) in phantoms {
        let (early, late) = (h.begin(), h.begin());
        h.pages(&what, 10, ReadAt::Tx(late.1));
        assert_restart(h.commit_alone(early, vec![mutation]));
    }
}

/// S11: the largest key found is the largest below that epoch for good.
fn write_below_a_query_restarts(h: &mut Harness<'_>) {
    use QueryFlags as Q;
    let texts = typed(ObjectType::MultiLexical, 1);
    h.put(At(texts, b"m", b"m"), b"x");
    h.write(At(texts, b"m", b"v"), 10, b"x");
    let asked: [(&[Q], Mutation<'static>); 3] = [
        (&[Q::MAX, Q::DKEY], put(At(texts, b"z", b"a"), b"x")),
        (&[Q::MIN, Q::AKEY], put(At(texts, b"m", b"a"), b"x")),
        (&[Q::MAX, Q::RECX], update(texts, b"m", Cond::NONE, vec![records(b"v", 1, &[(20, 1)], b"x")])),
    ];
    for (flags, mutation) in asked {
        let (early, late) = (h.begin(), h.begin());
        let found = h.query(texts, flags, (b"m", b"v"), ReadAt::Tx(late.1)).expect("a plain query");
        assert!(found.is_some());
        assert_restart(h.commit_alone(early, vec![mutation]));
    }
}

/// S11: a punch over what was read counts as a write of it.
fn punch_below_a_read_restarts(h: &mut Harness<'_>) {
    h.put(A, b"x");
    for scope in [PunchScope::Object, PunchScope::Dkey(Key::from_slice(A.1)), akeys_scope(A.1, &[A.2])] {
        let (early, late) = (h.begin(), h.begin());
        h.single_at(A, ReadAt::Tx(late.1));
        assert_restart(h.prepare(early, vec![punch(A.0, scope, Cond::NONE)]));
    }
    assert_eq!(h.single(A).as_deref(), Some(&b"x"[..]));
}

/// S11: a condition that was met at an epoch stays met below it.
fn write_below_a_condition_restarts(h: &mut Harness<'_>) {
    let early = h.begin();
    let insert = update(A.0, A.1, Cond::DKEY_INSERT, vec![single(b"mine", b"x")]);
    h.advance(1_000_000);
    h.mutate(insert).expect("nothing is there");
    assert_restart(h.commit_alone(early, vec![put(At(A.0, A.1, b"theirs"), b"x")]));
    let (early, late) = (h.begin(), h.begin());
    let change = update(A.0, A.1, Cond::AKEY_UPDATE, vec![single(b"mine", b"y")]);
    h.commit_alone(late, vec![change]).expect("no conflict");
    assert_restart(h.commit_alone(early, vec![punch(A.0, akeys_scope(A.1, &[b"mine"]), Cond::NONE)]));
    assert_eq!(h.single(At(A.0, A.1, b"mine")).as_deref(), Some(&b"y"[..]));
    // What a condition of a transaction has read is more than what the transaction writes.
    let (early, late) = (h.begin(), h.begin());
    let insert = update(A.0, b"fresh", Cond::DKEY_INSERT, vec![single(b"mine", b"z")]);
    h.commit_alone(late, vec![insert]).expect("nothing is there");
    assert_restart(h.commit_alone(early, vec![put(At(A.0, b"fresh", b"theirs"), b"x")]));
}

/// S11: a read outside of transactions is remembered as well.
fn write_below_a_read_of_the_latest_restarts(h: &mut Harness<'_>) {
    h.put(A, b"old");
    let early = h.begin();
    h.advance(1_000_000);
    h.put(At(A.0, b"later", b"a"), b"the present moves on");
    assert_eq!(h.single(A).as_deref(), Some(&b"old"[..]));
    assert_restart(h.commit_alone(early, vec![put(A, b"new")]));
    let (early, late) = (h.begin(), h.begin());
    assert_eq!(h.single_at(A, ReadAt::Epoch(late.1)).as_deref(), Some(&b"old"[..]));
    assert_restart(h.commit_alone(early, vec![put(A, b"new")]));
}

/// S11: what a transaction read itself does not stand in its way.
fn own_reads_do_not_conflict(h: &mut Harness<'_>) {
    h.put(A, b"old");
    let tx = h.begin();
    h.single_at(A, ReadAt::Tx(tx.1));
    h.dkeys(A.0, ReadAt::Tx(tx.1));
    h.commit_alone(tx, vec![put(A, b"new"), put(At(A.0, b"more", b"a"), b"x")]).expect("no conflict");
    assert_eq!(h.single(A).as_deref(), Some(&b"new"[..]));
}

/// S11: what a transaction has read stays protected when it overwrites or punches it itself.
fn own_writes_do_not_cover_up_own_reads(h: &mut Harness<'_>) {
    let (early, late) = (h.begin(), h.begin());
    assert_eq!(h.single_at(A, ReadAt::Tx(late.1)), None);
    let remove = punch(A.0, PunchScope::Dkey(Key::from_slice(A.1)), Cond::NONE);
    h.commit_alone(late, vec![remove]).expect("no conflict");
    assert_restart(h.commit_alone(early, vec![put(A, b"x")]));
}

/// S11: a transaction may not write an akey that has a newer committed write.
fn write_below_a_newer_write_restarts(h: &mut Harness<'_>) {
    h.put(A, b"old");
    let early = h.begin();
    h.advance(1_000_000);
    let newer = h.put(A, b"newer");
    let result = h.commit_alone(early, vec![put(A, b"late")]);
    assert!(matches!(result, Err(Error::TxRestart { after }) if after >= newer), "{result:?}");
    let (early, late) = (h.begin(), h.begin());
    h.commit_alone(late, vec![put(A, b"newest")]).expect("no conflict");
    assert_restart(h.commit_alone(early, vec![put(A, b"late")]));
    assert_eq!(h.single(A).as_deref(), Some(&b"newest"[..]));
}

/// S11: a raised floor restarts the transactions below it: a snapshot is final.
fn write_below_the_floor_restarts(h: &mut Harness<'_>) {
    let tx = h.begin();
    let snapshot = h.snapshot();
    assert_restart(h.prepare(tx, vec![put(A, b"x")]));
    assert_eq!(h.single_at(A, ReadAt::Epoch(snapshot)), None);
}

/// S11: also one at the floor itself.
fn write_at_the_floor_restarts(h: &mut Harness<'_>) {
    let floor = h.begin();
    h.done(Verb::Cont(ContVerb::RaiseFloor(floor.1)));
    assert_restart(h.commit_alone(floor, vec![put(A, b"x")]));
}

/// S14: what was aggregated is final as well.
fn write_below_aggregation_restarts(h: &mut Harness<'_>) {
    h.put(A, b"x");
    h.punch_akey(A);
    let tx = h.begin();
    let now = h.now();
    h.put(At(A.0, b"later", b"a"), b"x");
    h.aggregate(now);
    assert_restart(h.commit_alone(tx, vec![put(At(A.0, b"elsewhere", b"a"), b"x")]));
}

/// S11: committing and aborting again is harmless; a committed one is not aborted any more.
fn decisions_are_idempotent(h: &mut Harness<'_>) {
    let tx = h.begin();
    h.prepare(tx, vec![put(A, b"x")]).expect("no conflict");
    h.commit(tx);
    let later = h.put(A, b"later");
    h.commit(tx);
    assert_eq!(h.single(A).as_deref(), Some(&b"later"[..]));
    assert_eq!(h.ask(Verb::Abort(tx.0)).err(), Some(Error::Exists));
    assert!(later > tx.1);
    let tx = h.begin();
    h.prepare(tx, vec![put(A, b"y")]).expect("no conflict");
    h.abort(tx);
    h.abort(tx);
    assert_eq!(h.ask(Verb::Commit(tx.0)).err(), Some(Error::NotFound));
    assert_eq!(h.single(A).as_deref(), Some(&b"later"[..]));
}

/// S11: an unknown transaction cannot be committed, and is aborted already.
fn decisions_of_unknown_transactions(h: &mut Harness<'_>) {
    let tx = h.begin();
    assert_eq!(h.ask(Verb::Commit(tx.0)).err(), Some(Error::NotFound));
    h.abort(tx);
}

/// S11: unknown, prepared, committed; unknown again after an abort.
fn transaction_states_are_told(h: &mut Harness<'_>) {
    let (one, two, alone) = (h.begin(), h.begin(), h.begin());
    assert_eq!(h.tx_state(one), TxState::Unknown);
    h.prepare(one, vec![put(A, b"x")]).expect("no conflict");
    assert_eq!(h.tx_state(one), TxState::Prepared);
    h.commit(one);
    assert_eq!(h.tx_state(one), TxState::Committed);
    h.prepare(two, vec![put(A, b"y")]).expect("no conflict");
    h.abort(two);
    assert_eq!(h.tx_state(two), TxState::Unknown);
    h.commit_alone(alone, vec![put(A, b"z")]).expect("no conflict");
    assert_eq!(h.tx_state(alone), TxState::Committed);
    let failed = h.begin();
    let failing = update(oid(8), b"d", Cond::DKEY_UPDATE, vec![single(b"a", b"x")]);
    assert_eq!(h.prepare(failed, vec![put(A, b"x"), failing]), Err(Error::NotFound));
    assert_eq!(h.tx_state(failed), TxState::Unknown);
    assert!(h.in_doubt().is_empty());
}

/// S11: a prepare that comes twice, as a network may deliver it, prepares once.
fn repeated_prepare_is_harmless(h: &mut Harness<'_>) {
    let tx = h.begin();
    let insert = || vec![update(A.0, A.1, Cond::DKEY_INSERT, vec![single(A.2, b"x")])];
    h.prepare(tx, insert()).expect("no conflict");
    h.prepare(tx, insert()).expect("it is prepared already");
    assert_eq!(h.in_doubt().len(), 1);
    h.commit(tx);
    assert_eq!(h.extents(A, 10, LATEST).len(), 1);
    assert_eq!(h.usage().versions, 1);
}

/// A prepare that arrives after the abort does not bring the transaction back: who was told that it is aborted
/// has acted on it, and a commit that is still under way must find nothing. Also when the abort came first.
fn late_prepare_of_an_aborted_transaction_is_refused(h: &mut Harness<'_>) {
    let (prepared, unknown) = (h.begin(), h.begin());
    h.prepare(prepared, vec![put(A, b"x")]).expect("no conflict");
    for tx in [prepared, unknown] {
        h.abort(tx);
        assert_restart(h.prepare(tx, vec![put(A, b"x")]));
        assert_eq!(h.ask(Verb::Commit(tx.0)).err(), Some(Error::NotFound));
    }
    h.restart();
    for tx in [prepared, unknown] {
        assert_restart(h.prepare(tx, vec![put(A, b"x")]));
    }
    assert_eq!(h.single(A), None);
}

/// S11: what was prepared survives a crash as prepared and can then be decided either way.
fn prepared_transactions_survive_crashes(h: &mut Harness<'_>) {
    h.put(A, b"old");
    let (first, second) = (h.begin(), h.begin());
    let other = At(oid(9), b"d", b"a");
    h.prepare(first, vec![put(A, b"new"), punch(oid(8), PunchScope::Object, Cond::NONE)])
        .expect("no conflict");
    h.prepare(second, vec![put(other, b"x")]).expect("no conflict");
    for round in 0..2 {
        if round == 0 {
            h.crash()
        } else {
            h.restart()
        }
        assert_eq!(h.tx_state(first), TxState::Prepared);
        assert_eq!(h.try_single(A, LATEST), Err(Error::InDoubt { tx: first.0 }));
        assert_eq!(h.try_single(other, LATEST), Err(Error::InDoubt { tx: second.0 }));
        let mut list: Vec<_> = h.in_doubt().into_iter().map(|item| (item.tx, item.epoch)).collect();
        list.sort_unstable();
        assert_eq!(list, [(first.0, first.1), (second.0, second.1)]);
    }
    h.commit(first);
    h.abort(second);
    for _ in 0..2 {
        assert_eq!(h.single(A).as_deref(), Some(&b"new"[..]));
        assert_eq!(h.single(other), None);
        assert!(h.in_doubt().is_empty());
        h.crash();
    }
}

/// S11: a commit survives a crash, and is told to who asks.
fn decisions_survive_crashes(h: &mut Harness<'_>) {
    let (both, alone, gone) = (h.begin(), h.begin(), h.begin());
    h.prepare(both, vec![put(A, b"x")]).expect("no conflict");
    h.commit_alone(alone, vec![put(At(A.0, A.1, b"b"), b"y")]).expect("no conflict");
    h.prepare(gone, vec![put(At(A.0, A.1, b"c"), b"z")]).expect("no conflict");
    h.commit(both);
    h.abort(gone);
    h.crash();
    assert_eq!(h.tx_state(both), TxState::Committed);
    assert_eq!(h.tx_state(gone), TxState::Unknown);
    h.commit(both);
    assert_eq!(h.single(A).as_deref(), Some(&b"x"[..]));
    assert_eq!(h.single(At(A.0, A.1, b"b")).as_deref(), Some(&b"y"[..]));
    assert_eq!(h.single(At(A.0, A.1, b"c")), None);
    h.restart();
    assert_eq!(h.tx_state(gone), TxState::Unknown);
}

/// S11: a restart forgets who read what, not that it was read.
fn reads_before_a_restart_count_after_it(h: &mut Harness<'_>) {
    h.put(A, b"old");
    let (early, late) = (h.begin(), h.begin());
    assert_eq!(h.single_at(A, ReadAt::Tx(late.1)).as_deref(), Some(&b"old"[..]));
    h.restart();
    assert_restart(h.commit_alone(early, vec![put(A, b"new")]));
    let again = h.begin();
    h.commit_alone(again, vec![put(A, b"new")]).expect("begun after the restart");
}

/// S11: all reads of a transaction see the state at its epoch.
fn transaction_reads_at_its_epoch(h: &mut Harness<'_>) {
    h.put(A, b"old");
    h.put(At(A.0, A.1, b"b"), b"old");
    let tx = h.begin();
    assert_eq!(h.single_at(A, ReadAt::Tx(tx.1)).as_deref(), Some(&b"old"[..]));
    h.put(At(A.0, A.1, b"b"), b"new");
    h.put(At(A.0, A.1, b"c"), b"new");
    assert_eq!(h.single_at(At(A.0, A.1, b"b"), ReadAt::Tx(tx.1)).as_deref(), Some(&b"old"[..]));
    assert_eq!(h.akeys(A.0, A.1, ReadAt::Tx(tx.1)), ["akey", "b"]);
}

/// 400 values in 100 objects.
fn many(bytes: &[u8]) -> Vec<Mutation<'static>> {
    (0..400_u64).map(|number| put(At(oid(number % 100), &number.to_le_bytes(), b"a"), bytes)).collect()
}

fn assert_many(h: &mut Harness<'_>, bytes: &[u8]) {
    for number in [0, 99, 200, 399_u64] {
        let place = At(oid(number % 100), &number.to_le_bytes(), b"a");
        assert_eq!(h.single(place).as_deref(), Some(bytes));
    }
    assert_eq!(h.objects(1000, LATEST).len(), 100);
}

/// A transaction of hundreds of mutations over many objects is one, also by a crash.
fn transactions_over_many_objects(h: &mut Harness<'_>) {
    let kept = h.begin();
    h.commit_alone(kept, many(b"kept")).expect("no conflict");
    h.crash();
    assert_many(h, b"kept");
}

/// Of one that was prepared, and aborted after a crash, nothing is left.
fn aborted_transactions_over_many_objects_leave_nothing(h: &mut Harness<'_>) {
    let (kept, lost) = (h.begin(), h.begin());
    h.commit_alone(kept, many(b"kept")).expect("no conflict");
    h.prepare(lost, many(b"lost")).expect("no conflict");
    h.crash();
    h.abort(lost);
    assert_many(h, b"kept");
}
