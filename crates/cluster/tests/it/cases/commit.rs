//! Transactions over several targets of one process.

use super::common::{
    Store, World, ask, begin, commit, fetch, get, get_at, make, oid, owned_update, put, update,
};
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_cluster::Pool;
use dolmen_codec::pool::{EndedTx, PoolReply, PoolVerb, TxCommit};
use dolmen_codec::verb::{List, ListWhat, Mutation, Prepare, ReadAt, Reply, Verb};
use dolmen_codec::{Ask, Op, Request, Transport};
use dolmen_env::{scope, yield_now};
use dolmen_types::{Anchor, Cond, ContNo, Epoch, Error, Head, TargetNo, TxId};
use smallvec::smallvec;

fn prepare(cont: ContNo, tx: TxId, dkey: u64, value: &[u8]) -> Op<'static> {
    let verb = Verb::Prepare(Prepare {
        tx,
        epoch: tx.begin,
        leader: TargetNo(0),
        participants: smallvec![TargetNo(0), TargetNo(1)],
        mutations: vec![Mutation::Update(owned_update(dkey, value))],
    });
    Op { token: 0, head: Head::default(), cont, verb }
}

/// A transaction that writes `v` to both targets under dkey 1 and that nobody has decided.
fn prepared_on_both(pool: &Pool<Store>, cont: ContNo) -> TxId {
    let tx = begin(pool, 1);
    for target in [0, 1] {
        let done = pool.targets().call(TargetNo(target), prepare(cont, tx, 1, b"v"));
        assert!(matches!(done.result, Ok(Reply::Prepared)), "{done:?}");
    }
    tx
}

/// When the transactions began that a target leads and keeps.
fn unconcluded(pool: &Pool<Store>, target: u16) -> Vec<Epoch> {
    match pool.targets().call(TargetNo(target), decide(ContNo::SYSTEM, Verb::Unconcluded)).result {
        Ok(Reply::InDoubt(list)) => list.iter().map(|one| one.tx.begin).collect(),
        other => panic!("{other:?}"),
    }
}

/// Steps more than it takes to tell everybody everything.
fn work(pool: &Pool<Store>) {
    for _ in 0..100 {
        pool.step();
    }
}

fn decide(cont: ContNo, verb: Verb<'static>) -> Op<'static> {
    Op { token: 0, head: Head::default(), cont, verb }
}

#[test]
fn a_transaction_is_everywhere_or_nowhere() {
    let world = World::new();
    let pool = world.create(3);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = begin(&pool, 1);
    assert_eq!(commit(&pool, cont, tx, &[(2, 1, b"c"), (0, 1, b"a"), (1, 1, b"b")]), Ok(tx.begin));
    let again = commit(&pool, cont, tx, &[(0, 1, b"a"), (1, 1, b"b"), (2, 1, b"c")]);
    assert_eq!(again, Ok(tx.begin), "sent again");
    for (target, value) in [(0, b"a"), (1, b"b"), (2, b"c")] {
        assert_eq!(get(&pool, target, cont, 1).unwrap(), value);
        assert_eq!(get_at(&pool, target, cont, 1, ReadAt::Epoch(tx.begin)).unwrap(), value);
    }

    let late = begin(&pool, 1);
    put(&pool, 1, cont, 1, b"newer").unwrap();
    let conflict = commit(&pool, cont, late, &[(0, 1, b"x"), (1, 1, b"y"), (2, 1, b"z")]);
    assert!(matches!(conflict, Err(Error::TxRestart { .. })), "{conflict:?}");
    assert_eq!(get(&pool, 0, cont, 1).unwrap(), b"a");
    assert_eq!(get(&pool, 1, cont, 1).unwrap(), b"newer");
    assert_eq!(get(&pool, 2, cont, 1).unwrap(), b"c");
    let again = begin(&pool, 1);
    commit(&pool, cont, again, &[(0, 1, b"x"), (1, 1, b"y")]).unwrap();
    assert_eq!(get(&pool, 1, cont, 1).unwrap(), b"y");
}

#[test]
fn a_read_inside_a_transaction_refuses_an_older_write() {
    let world = World::new();
    let pool = world.create(2);
    let cont = make(&pool, 1, "c").unwrap().no;
    let old = begin(&pool, 1);
    let new = begin(&pool, 2);
    assert_eq!(get_at(&pool, 1, cont, 5, ReadAt::Tx(new.begin)).unwrap(), b"", "a miss counts as a read");
    let refused = commit(&pool, cont, old, &[(0, 5, b"x"), (1, 5, b"x")]);
    assert!(matches!(refused, Err(Error::TxRestart { .. })), "{refused:?}");
    assert_eq!(get(&pool, 0, cont, 5).unwrap(), b"");
}

#[test]
fn targets_without_a_part_are_neither_asked_nor_waited_for() {
    let world = World::new();
    let pool = world.create(4);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = begin(&pool, 1);
    world.director.take_trace();
    world.director.hold(3);
    commit(&pool, cont, tx, &[(0, 1, b"a"), (1, 1, b"b")]).unwrap();
    world.director.release();
    let trace = world.director.take_trace();
    let expected = [(0, "tx-state"), (0, "prepare"), (1, "prepare"), (0, "commit"), (1, "commit")];
    assert_eq!(trace, expected.map(|(target, verb)| (TargetNo(target), verb)));
}

#[test]
fn a_commit_that_hangs_on_two_targets_blocks_no_third() {
    let world = World::new();
    let pool = world.create(3);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = begin(&pool, 1);
    world.director.hold(1);
    scope(|scope| {
        let hanging = scope.spawn(|| commit(&pool, cont, tx, &[(0, 1, b"a"), (1, 1, b"b")]));
        world.director.wait_until_held(1);
        let other = begin(&pool, 2);
        for dkey in 0..50 {
            put(&pool, 2, cont, dkey, b"free").unwrap();
        }
        commit(&pool, cont, other, &[(2, 100, b"one target")]).unwrap();
        assert!(!hanging.is_finished());
        world.director.release();
        hanging.join().unwrap().unwrap();
    });
    assert_eq!(get(&pool, 1, cont, 1).unwrap(), b"b");
}

#[test]
fn a_commit_that_is_sent_again_meanwhile_waits_for_what_became_of_the_first() {
    let world = World::new();
    let pool = world.create(3);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = begin(&pool, 1);
    let (values, begun) = ([(0, 1, b"a".as_slice()), (1, 1, b"b")], AtomicBool::new(false));
    world.director.hold(1);
    world.director.take_trace();
    scope(|scope| {
        let first = scope.spawn(|| commit(&pool, cont, tx, &values));
        world.director.wait_until_held(1);
        let again = scope.spawn(|| {
            begun.store(true, Ordering::Release);
            commit(&pool, cont, tx, &values)
        });
        while !begun.load(Ordering::Acquire) {
            yield_now();
        }
        for dkey in 0..50 {
            put(&pool, 2, cont, dkey, b"free").unwrap();
        }
        assert!(!again.is_finished());
        world.director.release();
        assert_eq!(first.join().unwrap(), again.join().unwrap());
    });
    let trace = world.director.take_trace();
    for target in [0, 1] {
        let told = trace.iter().filter(|asked| **asked == (TargetNo(target), "commit"));
        assert_eq!(told.count(), 1, "{trace:?}");
    }
    assert_eq!(get(&pool, 1, cont, 1).unwrap(), b"b");
}

#[test]
fn a_reader_waits_for_a_decision_and_sees_it() {
    let world = World::new();
    let pool = world.create(2);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = prepared_on_both(&pool, cont);
    scope(|scope| {
        let reader = scope.spawn(|| get(&pool, 1, cont, 1));
        for target in [0, 1] {
            pool.targets().call(TargetNo(target), decide(cont, Verb::Commit(tx))).result.unwrap();
        }
        assert_eq!(reader.join().unwrap().unwrap(), b"v");
    });
}

#[test]
fn a_participant_that_was_not_told_learns_it_from_the_leader() {
    let world = World::new();
    let pool = world.create(2);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = prepared_on_both(&pool, cont);
    pool.targets().call(TargetNo(0), decide(cont, Verb::Commit(tx))).result.unwrap();
    assert_eq!(get(&pool, 1, cont, 1).unwrap(), b"v");

    let lost = begin(&pool, 1);
    pool.targets().call(TargetNo(1), prepare(cont, lost, 2, b"never")).result.unwrap();
    assert_eq!(get(&pool, 1, cont, 2).unwrap(), b"", "the leader never heard of it, so it is aborted");
    let late = pool.targets().call(TargetNo(0), prepare(cont, lost, 2, b"never")).result;
    assert!(
        matches!(late, Err(Error::TxRestart { .. })),
        "a prepare that comes after that is refused: {late:?}"
    );
}

#[test]
fn an_abandoned_transaction_is_ended_when_patience_is_spent() {
    let world = World::new();
    let pool = world.create(2);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = prepared_on_both(&pool, cont);
    assert_eq!(get(&pool, 1, cont, 1).unwrap(), b"");
    let late = pool.targets().call(TargetNo(0), decide(cont, Verb::Commit(tx))).result;
    assert!(matches!(late, Err(Error::NotFound)), "its coordinator learns that it is too late: {late:?}");
}

#[test]
fn opening_settles_what_is_undecided_as_the_leader_says() {
    for (told_leader, seen) in [(true, &b"v"[..]), (false, &b""[..])] {
        let world = World::new();
        let pool = world.create(2);
        let cont = make(&pool, 1, "c").unwrap().no;
        let tx = prepared_on_both(&pool, cont);
        if told_leader {
            pool.targets().call(TargetNo(0), decide(cont, Verb::Commit(tx))).result.unwrap();
        }
        let pool = world.reopen(pool);
        world.director.take_trace();
        assert_eq!(get(&pool, 0, cont, 1).unwrap(), seen);
        assert_eq!(get(&pool, 1, cont, 1).unwrap(), seen);
        let fetches = [(TargetNo(0), "fetch"), (TargetNo(1), "fetch")];
        assert_eq!(world.director.take_trace(), fetches, "nothing is left to settle");
    }
}

#[test]
fn a_commit_is_concluded_once_all_have_acknowledged_it() {
    let world = World::new();
    let pool = world.create(2);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = begin(&pool, 1);
    world.director.take_trace();
    commit(&pool, cont, tx, &[(0, 1, b"a"), (1, 1, b"b")]).unwrap();
    assert_eq!(unconcluded(&pool, 0), [tx.begin], "the client does not wait for it");
    work(&pool);
    assert_eq!(unconcluded(&pool, 0), []);
    let told = world.director.take_trace().iter().filter(|(_, verb)| *verb == "commit").count();
    assert_eq!(told, 2, "nobody is told twice");
}

#[test]
fn who_was_only_read_at_is_told_of_the_end_and_nobody_waits_for_that() {
    let world = World::new();
    let pool = world.create(3);
    let cont = make(&pool, 1, "c").unwrap().no;
    put(&pool, 0, cont, 7, b"there").unwrap();
    let commit = |tx: TxId, cond| {
        let parts = vec![(TargetNo(0), vec![Mutation::Update(update(7, b"new", cond))])];
        // The last is none of the pool.
        let read = smallvec![TargetNo(1), TargetNo(2), TargetNo(9)];
        let verb = PoolVerb::TxCommit(TxCommit { cont, tx, epoch: tx.begin, parts, read });
        world.director.take_trace();
        (ask(&pool, verb).map(drop), world.director.take_trace())
    };
    let (at, ended) = (TargetNo, ["prepare", "conclude", "conclude"]);
    let all_told: Vec<_> = [0, 1, 2].map(at).into_iter().zip(ended).collect();
    // Whoever waited for it would be held there.
    world.director.hold(2);
    assert_eq!(commit(begin(&pool, 1), Cond::NONE), (Ok(()), all_told.clone()));
    world.director.release();
    let late = begin(&pool, 1);
    put(&pool, 0, cont, 7, b"newer").unwrap();
    let (refused, trace) = commit(late, Cond::NONE);
    assert!(matches!(refused, Err(Error::TxRestart { .. })), "{refused:?}");
    assert_eq!(trace, all_told, "it can only begin again");
    let (refused, trace) = commit(begin(&pool, 1), Cond::DKEY_INSERT);
    assert_eq!((refused, trace), (Err(Error::Exists), vec![(at(0), "prepare")]), "it may go on");
    let ended = EndedTx { epoch: late.begin, read: smallvec![at(1), at(9)] };
    assert!(matches!(ask(&pool, PoolVerb::TxEnd(ended)), Ok(PoolReply::Done)));
    assert_eq!(world.director.take_trace(), [(at(1), "conclude")]);
}

#[test]
fn a_commit_that_failed_at_a_participant_is_sent_again() {
    let world = World::new();
    let pool = world.create(2);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = begin(&pool, 1);
    // State, two prepares, the leader's decision; then the device of the other fails for a while.
    world.director.fail_after(Some(4));
    commit(&pool, cont, tx, &[(0, 1, b"a"), (1, 1, b"b")]).unwrap();
    for _ in 0..100 {
        pool.step();
    }
    world.director.fail_after(None);
    assert_eq!(unconcluded(&pool, 0), [tx.begin], "not before the other has committed");
    work(&pool);
    assert_eq!(unconcluded(&pool, 0), []);
    world.director.take_trace();
    assert_eq!(get(&pool, 1, cont, 1).unwrap(), b"b");
    assert_eq!(world.director.take_trace(), [(TargetNo(1), "fetch")], "it was told before anybody asked");
}

#[test]
fn opening_tells_those_who_have_not_heard_of_a_commit() {
    let world = World::new();
    let pool = world.create(3);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = begin(&pool, 1);
    world.director.fail_after(Some(6));
    commit(&pool, cont, tx, &[(0, 1, b"a"), (1, 1, b"b"), (2, 1, b"c")]).unwrap();
    let pool = world.reopen(pool);
    assert_eq!(unconcluded(&pool, 0), []);
    let seen: Vec<_> = (0..3).map(|target| get(&pool, target, cont, 1).unwrap()).collect();
    assert_eq!(seen, [b"a", b"b", b"c"]);
}

#[test]
fn a_client_cannot_conclude() {
    let world = World::new();
    let pool = world.create(2);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = prepared_on_both(&pool, cont);
    pool.targets().call(TargetNo(0), decide(cont, Verb::Commit(tx))).result.unwrap();
    let ask = Ask::Target(TargetNo(0), cont, Verb::Conclude(tx));
    let refused = pool.call(Request { token: 1, head: Head::default(), ask }).result;
    assert!(matches!(refused, Err(Error::NoPermission)), "{refused:?}");
    assert_eq!(unconcluded(&pool, 0), [tx.begin]);
}

#[test]
fn a_decision_outlives_any_number_of_later_ones() {
    let world = World::new();
    let pool = world.create(2);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = prepared_on_both(&pool, cont);
    pool.targets().call(TargetNo(0), decide(cont, Verb::Commit(tx))).result.unwrap();
    for n in 0..66_000 {
        let other = begin(&pool, 2);
        commit(&pool, cont, other, &[(0, 100 + n % 50, b"x")]).unwrap();
    }
    let pool = world.reopen(pool);
    let seen = (get(&pool, 0, cont, 1).unwrap(), get(&pool, 1, cont, 1).unwrap());
    assert_eq!(seen, (b"v".to_vec(), b"v".to_vec()), "everywhere or nowhere");
}

#[test]
fn a_crash_at_any_message_leaves_all_or_nothing() {
    let mut committed = 0;
    for messages in 0..9 {
        let world = World::new();
        let pool = world.create(3);
        let cont = make(&pool, 1, "c").unwrap().no;
        let tx = begin(&pool, 1);
        world.director.fail_after(Some(messages));
        let answer = commit(&pool, cont, tx, &[(0, 1, b"a"), (1, 1, b"b"), (2, 1, b"c")]);
        let pool = world.reopen(pool);
        let seen: Vec<_> = (0..3).map(|target| get(&pool, target, cont, 1).unwrap()).collect();
        let all = seen == [b"a", b"b", b"c"];
        assert!(all || seen.iter().all(Vec::is_empty), "after {messages} messages: {seen:?}");
        assert!(all || answer.is_err(), "acknowledged after {messages} messages");
        committed += u32::from(all);
    }
    assert_eq!(committed, 4, "the leader's decision is the fifth message");
}

#[test]
fn threads_that_move_amounts_keep_the_sum() {
    const ACCOUNTS: u64 = 6;
    let world = World::new();
    let pool = world.create(3);
    let cont = make(&pool, 1, "c").unwrap().no;
    let home = |account: u64| u16::try_from(account % 3).unwrap();
    for account in 0..ACCOUNTS {
        put(&pool, home(account), cont, account, &100_u64.to_le_bytes()).unwrap();
    }
    let number = |bytes: Vec<u8>| u64::from_le_bytes(bytes.try_into().unwrap());
    let moved = scope(|scope| {
        let pool = &pool;
        let mover = |client: u64| {
            let mut rng = dolmen_env::Rng::from_seed(client);
            let mut moved = 0;
            for _ in 0..60 {
                let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
                if home(from) == home(to) {
                    continue;
                }
                for _ in 0..50 {
                    let tx = begin(pool, u128::from(client));
                    let at = ReadAt::Tx(tx.begin);
                    let (Ok(a), Ok(b)) =
                        (get_at(pool, home(from), cont, from, at), get_at(pool, home(to), cont, to, at))
                    else {
                        continue;
                    };
                    let (a, b) = ((number(a) - 1).to_le_bytes(), (number(b) + 1).to_le_bytes());
                    if commit(pool, cont, tx, &[(home(from), from, &a), (home(to), to, &b)]).is_ok() {
                        moved += 1;
                        break;
                    }
                }
            }
            moved
        };
        let movers: Vec<_> = (1..4).map(|client| scope.spawn(move || mover(client))).collect();
        movers.into_iter().map(|mover| mover.join().unwrap()).sum::<u32>()
    });
    assert!(moved > 50, "{moved}");
    let sum: u64 =
        (0..ACCOUNTS).map(|account| number(get(&pool, home(account), cont, account).unwrap())).sum();
    assert_eq!(sum, 100 * ACCOUNTS);
}

#[test]
fn who_polls_without_waiting_is_answered_however_many_stand_in_his_way_one_after_the_other() {
    let world = World::new();
    let pool = world.create(2);
    let cont = make(&pool, 1, "c").unwrap().no;
    let prepared = |dkey: u64| {
        let tx = begin(&pool, dkey.into());
        for target in [0, 1] {
            let done = pool.targets().call(TargetNo(target), prepare(cont, tx, dkey, b"v"));
            assert!(matches!(done.result, Ok(Reply::Prepared)), "{done:?}");
        }
        tx
    };
    let commit = |tx| {
        for target in [0, 1] {
            pool.targets().call(TargetNo(target), decide(cont, Verb::Commit(tx))).result.unwrap();
        }
    };
    let mut tx = prepared(1);
    let queue = pool.open_queue().unwrap();
    let (what, anchor) = (ListWhat::Dkeys(oid()), Anchor::default());
    let verb = Verb::List(List { what, anchor, items_max: 100, bytes_max: 10_000, at: ReadAt::Latest });
    let ask = Ask::Target(TargetNo(0), cont, verb);
    pool.submit(queue, Request { token: 5, head: Head::default(), ask });
    let mut out = Vec::new();
    for dkey in 2..60 {
        // The next is there before one is decided.
        let next = prepared(dkey);
        commit(tx);
        tx = next;
        (0..10).for_each(|_| pool.poll(queue, false, &mut out));
        assert!(out.is_empty(), "{dkey}: {out:?}");
    }
    commit(tx);
    (0..100).for_each(|_| pool.poll(queue, false, &mut out));
    assert!(out.len() == 1 && out[0].result.is_ok(), "{out:?}");
    pool.close_queue(queue);
}

#[test]
fn who_polls_without_waiting_is_not_held_up_by_an_undecided_transaction() {
    let world = World::new();
    let pool = world.create(2);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = prepared_on_both(&pool, cont);
    let queue = pool.open_queue().unwrap();
    let ask = |token, dkey| {
        let ask = Ask::Target(TargetNo(0), cont, fetch(dkey, ReadAt::Latest));
        pool.submit(queue, Request { token, head: Head::default(), ask });
    };
    let mut out = Vec::new();
    ask(5, 1);
    // Held up, it would give up and answer within the first poll.
    (0..100).for_each(|_| pool.poll(queue, false, &mut out));
    assert!(out.is_empty(), "{out:?}");
    ask(6, 99);
    (0..100).for_each(|_| pool.poll(queue, false, &mut out));
    assert_eq!(out.iter().map(|outcome| outcome.token).collect::<Vec<_>>(), [6], "others go on");
    for target in [0, 1] {
        pool.targets().call(TargetNo(target), decide(cont, Verb::Commit(tx))).result.unwrap();
    }
    (0..100).for_each(|_| pool.poll(queue, false, &mut out));
    assert!(out.len() == 2 && out[1].token == 5, "{out:?}");
    assert_eq!(&out[1].buf.as_ref().unwrap()[..1], b"v");
    // And who waits is answered as ever.
    let tx = begin(&pool, 2);
    let done = pool.targets().call(TargetNo(1), prepare(cont, tx, 1, b"w"));
    assert!(matches!(done.result, Ok(Reply::Prepared)));
    let ask = Ask::Target(TargetNo(1), cont, fetch(1, ReadAt::Latest));
    pool.submit(queue, Request { token: 7, head: Head::default(), ask });
    (0..10).for_each(|_| pool.poll(queue, false, &mut out));
    pool.poll(queue, true, &mut out);
    assert_eq!(out.last().map(|outcome| outcome.token), Some(7));
    pool.close_queue(queue);
}
