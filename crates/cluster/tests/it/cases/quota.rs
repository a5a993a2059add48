//! Limits over several targets: together they never take more than is allowed, and nobody is refused who fits.

use super::common::{Store, World, ask, begin, commit, get, make, oid, owned_update, put, update};
use dolmen_cluster::Pool;
use dolmen_codec::pool::{ContName, PoolReply, PoolVerb, TxCommit};
use dolmen_codec::quota::{Charge, INODE_AKEY, Limits, Report};
use dolmen_codec::verb::{Mutation, NewValue, Payload, Punch, PunchScope, Reply, Update, UpdateIod, Verb};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_env::scope;
use dolmen_types::{
    Cond, ContNo, Credentials, Epoch, Error, Head, IoBuf, Key, ObjectClass, ObjectType, Oid, Recx, TargetNo,
    TxId, Uuid,
};
use smallvec::smallvec;

const TARGETS: u16 = 3;

fn limit(pool: &Pool<Store>, cont: ContNo, uid: Option<u32>, bytes: u64, files: u64) {
    ask(pool, PoolVerb::ContSetQuota(cont, uid, Limits { bytes, files })).unwrap();
}

fn report(pool: &Pool<Store>, cont: ContNo) -> Report {
    match ask(pool, PoolVerb::ContQuota(cont)) {
        Ok(PoolReply::Quota(report)) => *report,
        other => panic!("{other:?}"),
    }
}

fn remove(pool: &Pool<Store>, target: u16, cont: ContNo, dkey: u64) {
    let scope = PunchScope::Dkey(Key::from_slice(&dkey.to_le_bytes()));
    let verb = Verb::Punch(Punch { oid: oid(), scope, cond: Cond::NONE });
    let request = Request { token: 1, head: Head::default(), ask: Ask::Target(TargetNo(target), cont, verb) };
    pool.call(request).result.unwrap();
}

/// What is there without what nobody sees.
fn settled(pool: &Pool<Store>, cont: ContNo) -> u64 {
    ask(pool, PoolVerb::Aggregate(cont, Epoch::ZERO)).unwrap();
    report(pool, cont).used.bytes
}

fn pool_with_limit(world: &World, bytes: u64, files: u64) -> (Pool<Store>, ContNo) {
    let pool = world.create(TARGETS);
    let cont = make(&pool, 1, "a").unwrap().no;
    limit(&pool, cont, None, bytes, files);
    (pool, cont)
}

#[test]
fn targets_share_one_limit_and_what_is_removed_is_free_at_once() {
    let world = World::new();
    let (pool, cont) = pool_with_limit(&world, 3000, 0);
    for target in 0..TARGETS {
        put(&pool, target, cont, 1, &[1; 1000]).unwrap();
    }
    for round in 0..10 {
        for target in 0..TARGETS {
            assert_eq!(put(&pool, target, cont, 2, &[2; 1]), Err(Error::QuotaLimit));
        }
        let (from, to) = (round % TARGETS, (round + 1) % TARGETS);
        remove(&pool, from, cont, 1);
        // What was removed lay elsewhere.
        put(&pool, to, cont, 2, &[2; 1000]).unwrap();
        remove(&pool, to, cont, 2);
        put(&pool, from, cont, 1, &[1; 1000]).unwrap();
    }
    assert_eq!(settled(&pool, cont), 3000);
    assert_eq!(get(&pool, 0, cont, 2).unwrap(), b"");
}

#[test]
fn limits_are_there_when_the_pool_is_opened_again_and_can_be_lifted() {
    let world = World::new();
    let (pool, cont) = pool_with_limit(&world, 2000, 0);
    put(&pool, 0, cont, 1, &[1; 1000]).unwrap();
    put(&pool, 1, cont, 1, &[1; 1000]).unwrap();
    let pool = world.reopen(pool);
    assert_eq!(report(&pool, cont).used, Charge { bytes: 2000, files: 0 });
    assert_eq!(report(&pool, cont).limits, Limits { bytes: 2000, files: 0 });
    assert_eq!(put(&pool, 2, cont, 1, &[1]), Err(Error::QuotaLimit));
    limit(&pool, cont, None, 500, 0);
    assert_eq!(put(&pool, 2, cont, 1, &[1]), Err(Error::QuotaLimit), "below what is there");
    assert_eq!(get(&pool, 0, cont, 1), Err(Error::RecTooBig { needed_bytes: 1000 }), "it is read");
    remove(&pool, 0, cont, 1);
    limit(&pool, cont, None, 0, 0);
    put(&pool, 2, cont, 1, &[1; 5000]).unwrap();
    let pool = world.reopen(pool);
    put(&pool, 2, cont, 2, &[1; 5000]).unwrap();
    assert_eq!(report(&pool, cont).limits, Limits::default());
    assert_eq!(settled(&pool, cont), 11_000);
}

#[test]
fn a_container_that_is_destroyed_takes_its_account_along() {
    let world = World::new();
    let (pool, cont) = pool_with_limit(&world, 1000, 0);
    put(&pool, 0, cont, 1, &[1; 1000]).unwrap();
    ask(&pool, PoolVerb::ContDestroy(ContName::Uuid(Uuid::from_u128(1)), true)).unwrap();
    assert_eq!(ask(&pool, PoolVerb::ContQuota(cont)).map(drop), Err(Error::NoContainer));
    let other = make(&pool, 2, "a").unwrap().no;
    put(&pool, 0, other, 1, &[1; 2000]).unwrap();
    assert_eq!(report(&pool, other).used.bytes, 2000, "without limits it is told, too");
}

#[test]
fn a_transaction_that_does_not_fit_changes_nothing_and_one_that_will_begins_again() {
    let world = World::new();
    let (pool, cont) = pool_with_limit(&world, 3000, 0);
    put(&pool, 0, cont, 1, &[1; 1000]).unwrap();
    let big = [7; 1001];
    let refused = commit(&pool, cont, begin(&pool, 5), &[(1, 2, &big[..1000]), (2, 2, &big)]);
    assert_eq!(refused, Err(Error::QuotaLimit));
    assert_eq!(settled(&pool, cont), 1000, "what one of them had prepared is given back");
    assert_eq!(get(&pool, 1, cont, 2).unwrap(), b"");
    commit(&pool, cont, begin(&pool, 5), &[(1, 2, &big[..1000]), (2, 2, &big[..1000])]).unwrap();
    remove(&pool, 0, cont, 1);
    let again = commit(&pool, cont, begin(&pool, 5), &[(1, 3, &big[..500]), (2, 3, &big[..500])]);
    assert!(matches!(again, Err(Error::TxRestart { .. })), "{again:?}");
    commit(&pool, cont, begin(&pool, 5), &[(1, 3, &big[..500]), (2, 3, &big[..500])]).unwrap();
    let one = commit(&pool, cont, begin(&pool, 5), &[(1, 4, &big[..1])]);
    assert_eq!(one, Err(Error::QuotaLimit));
    assert_eq!(settled(&pool, cont), 3000);
}

/// A directory, whose names are keys of any bytes.
fn dir() -> Oid {
    Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 0, 5)
}

fn record(name: &[u8]) -> Mutation<'static> {
    let data = Payload::Owned(IoBuf::zeroed(88));
    let value = NewValue::Array { record_bytes: 1, extents: smallvec![Recx::new(0, 88)], data };
    let iods = smallvec![UpdateIod { akey: Key::from_slice(INODE_AKEY), cond: Cond::NONE, value }];
    Mutation::Update(Update {
        oid: dir(),
        dkey: Key::from_slice(name),
        cond: Cond::NONE,
        iods,
        charged: None,
    })
}

fn unlink(name: &[u8]) -> Mutation<'static> {
    Mutation::Punch(Punch { oid: dir(), scope: PunchScope::Dkey(Key::from_slice(name)), cond: Cond::NONE })
}

fn change_names(
    pool: &Pool<Store>,
    cont: ContNo,
    parts: Vec<(TargetNo, Vec<Mutation<'static>>)>,
) -> Result<(), Error> {
    let tx: TxId = begin(pool, 9);
    ask(
        pool,
        PoolVerb::TxCommit(TxCommit { cont, tx, epoch: tx.begin, parts, read: smallvec::SmallVec::new() }),
    )
    .map(drop)
}

#[test]
fn a_name_moves_at_the_limit_of_files_and_no_name_more_is_made() {
    let world = World::new();
    let (pool, cont) = pool_with_limit(&world, 0, 2);
    let on = TargetNo;
    change_names(&pool, cont, vec![(on(0), vec![record(b"a")]), (on(1), vec![record(b"b")])]).unwrap();
    let one_more = || change_names(&pool, cont, vec![(on(2), vec![record(b"c")])]);
    assert_eq!(one_more(), Err(Error::QuotaLimit));
    for (old, new) in [(0, 2), (2, 0), (0, 2), (2, 0)] {
        // Over targets, and on one.
        let moved = || {
            let parts = vec![(on(new), vec![record(b"m")]), (on(old), vec![unlink(b"a"), unlink(b"m")])];
            change_names(&pool, cont, parts)
        };
        match moved() {
            Err(Error::TxRestart { .. }) => moved().unwrap(),
            other => other.unwrap(),
        }
        assert_eq!(one_more(), Err(Error::QuotaLimit));
    }
    ask(&pool, PoolVerb::Aggregate(cont, Epoch::ZERO)).unwrap();
    assert_eq!(report(&pool, cont).used.files, 2);
    change_names(&pool, cont, vec![(on(1), vec![unlink(b"b")])]).unwrap();
    assert!(matches!(one_more(), Err(Error::TxRestart { .. })));
    one_more().unwrap();
}

#[test]
fn many_writers_on_all_targets_take_exactly_what_is_allowed() {
    const WRITERS: u64 = 6;
    const LIMIT: u64 = 60_000;
    let world = World::new();
    let (pool, cont) = pool_with_limit(&world, LIMIT, 0);
    for round in 0..4 {
        let bytes: u64 = scope(|threads| {
            let write = |writer: u64| {
                let mut stored = 0;
                for number in 0..100 {
                    let (target, dkey) =
                        (u16::try_from((writer + number) % 3).unwrap(), writer << 32 | number);
                    match put(&pool, target, cont, dkey, &[1; 200]) {
                        Ok(_) => stored += 200,
                        Err(error) => assert_eq!(error, Error::QuotaLimit),
                    }
                }
                stored
            };
            let pool = &pool;
            let writers: Vec<_> =
                (0..WRITERS).map(|writer| threads.spawn(move || (writer, write(writer), pool).1)).collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        assert_eq!(bytes, LIMIT, "round {round}: all that fits, and not a byte more");
        assert_eq!(settled(&pool, cont), LIMIT);
        for writer in 0..WRITERS {
            (0..100).for_each(|number| {
                remove(&pool, u16::try_from((writer + number) % 3).unwrap(), cont, writer << 32 | number);
            });
        }
    }
    assert_eq!(settled(&pool, cont), 0);
}

#[test]
fn a_write_on_a_queue_fits_after_a_removal_and_is_told_when_it_does_not() {
    let world = World::new();
    let (pool, cont) = pool_with_limit(&world, 2000, 0);
    let queue = pool.open_queue().unwrap();
    let submit = |token, target, dkey, bytes: usize| {
        let verb = Verb::Update(owned_update(dkey, &vec![1; bytes]));
        let ask = Ask::Target(TargetNo(target), cont, verb);
        pool.submit(queue, Request { token, head: Head::default(), ask });
    };
    for wait in [false, true] {
        let answers = |count: usize| {
            let mut out = Vec::new();
            for _ in 0..1_000_000 {
                pool.poll(queue, wait, &mut out);
                if out.len() == count {
                    break;
                }
            }
            out.sort_by_key(|outcome| outcome.token);
            out.into_iter().map(|outcome| outcome.result.map(drop)).collect::<Vec<_>>()
        };
        submit(1, 0, 1, 1000);
        submit(2, 1, 1, 1000);
        assert_eq!(answers(2), [Ok(()), Ok(())]);
        submit(3, 2, 1, 1);
        assert_eq!(answers(1), [Err(Error::QuotaLimit)]);
        remove(&pool, 0, cont, 1);
        submit(4, 1, 2, 600);
        submit(5, 2, 2, 400);
        assert_eq!(answers(2), [Ok(()), Ok(())], "wait: {wait}");
        for (target, dkey) in [(1, 1), (1, 2), (2, 2)] {
            remove(&pool, target, cont, dkey);
        }
    }
    pool.close_queue(queue);
}

#[test]
fn a_user_is_refused_by_his_limit_and_the_others_go_on() {
    let world = World::new();
    let (pool, cont) = pool_with_limit(&world, 0, 0);
    limit(&pool, cont, Some(7), 1000, 0);
    let by = |uid, target, dkey, bytes: usize| {
        let head = Head { cred: Credentials { uid, ..Credentials::default() }, ..Head::default() };
        let value = vec![1; bytes];
        let verb = Verb::Update(update(dkey, &value, Cond::NONE));
        let outcome = pool.call(Request { token: 1, head, ask: Ask::Target(TargetNo(target), cont, verb) });
        outcome.result.map(|answer| assert!(matches!(answer, Answer::Target(Reply::Written(_)))))
    };
    by(7, 0, 1, 600).unwrap();
    by(7, 1, 1, 400).unwrap();
    assert_eq!(by(7, 2, 1, 1), Err(Error::QuotaLimit));
    by(8, 2, 1, 5000).unwrap();
    remove(&pool, 0, cont, 1);
    by(7, 2, 2, 600).unwrap();
    let users = report(&pool, cont).users;
    assert_eq!(
        users.iter().map(|user| (user.uid, user.used.bytes)).collect::<Vec<_>>(),
        [(7, 1000), (8, 5000)]
    );
    let pool = world.reopen(pool);
    limit(&pool, cont, Some(7), 0, 0);
    assert_eq!(report(&pool, cont).users[0].limits, Limits::default());
}
