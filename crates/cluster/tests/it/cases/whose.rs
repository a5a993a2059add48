//! Users who say the same number of a transaction, and what is sent again under it.

use super::common::{Store, World, begin, commit_by, get, make, put};
use dolmen_cluster::Pool;
use dolmen_env::scope;
use dolmen_types::{ContNo, Epoch, Error, Result, TargetNo, TxId};

const ME: u32 = 1001;
const HIM: u32 = 1002;

/// What a transaction writes: a target, a dkey and a value each.
type Writes<'a> = &'a [(u16, u64, &'a [u8])];

fn is_stored(pool: &Pool<Store>, cont: ContNo, writes: Writes<'_>) -> bool {
    writes.iter().all(|&(target, dkey, value)| get(pool, target, cont, dkey).unwrap() == value)
}

fn is_refused(result: &Result<Epoch>) -> bool {
    matches!(result, Err(Error::TxRestart { .. }))
}

#[test]
fn a_commit_is_not_answered_by_another_users_of_the_same_number() {
    let shapes: [[Writes<'_>; 2]; 3] = [
        [&[(0, 1, b"mine")], &[(0, 2, b"his")]],
        [&[(0, 1, b"mine"), (1, 1, b"too")], &[(0, 2, b"his"), (1, 2, b"too")]],
        // He takes part where I do not, and the other way round.
        [&[(1, 1, b"mine"), (2, 1, b"too")], &[(0, 2, b"his"), (1, 2, b"too")]],
    ];
    for [mine, his] in shapes {
        for users in [[ME, HIM], [HIM, ME]] {
            let world = World::new();
            let pool = world.create(3);
            let cont = make(&pool, 1, "c").unwrap().no;
            let tx = begin(&pool, 77);
            let first = commit_by(&pool, users[0], cont, tx, mine);
            assert_eq!(first, Ok(tx.begin));
            let second = commit_by(&pool, users[1], cont, tx, his);
            assert_eq!(second, Ok(tx.begin));
            assert!(is_stored(&pool, cont, his), "who is told that it is done has it done: {his:?}");
            assert!(is_stored(&pool, cont, mine));
        }
    }
}

#[test]
fn nobody_learns_what_became_of_another_users_transaction() {
    let shapes: [Writes<'_>; 2] = [&[(0, 1, b"mine")], &[(0, 1, b"mine"), (1, 1, b"too")]];
    for mine in shapes {
        let world = World::new();
        let pool = world.create(2);
        let cont = make(&pool, 1, "c").unwrap().no;
        let tx = begin(&pool, 77);
        assert_eq!(commit_by(&pool, ME, cont, tx, mine), Ok(tx.begin));
        // The very same: his own has not been done, since mine is in its way.
        let his = commit_by(&pool, HIM, cont, tx, mine);
        assert!(is_refused(&his), "{his:?}");
        assert_eq!(commit_by(&pool, ME, cont, tx, mine), Ok(tx.begin), "sent again");
    }
}

#[test]
fn another_users_commit_that_fails_does_not_end_mine_of_the_same_number() {
    let world = World::new();
    let pool = world.create(3);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx = begin(&pool, 77);
    world.clock.advance(1_000_000);
    put(&pool, 2, cont, 2, b"newer").unwrap();
    let mine: Writes<'_> = &[(0, 1, b"mine"), (1, 1, b"too")];
    world.director.hold(1);
    let (his, was_finished, done) = scope(|scope| {
        let pool = &pool;
        let commit = scope.spawn(move || commit_by(pool, ME, cont, tx, mine));
        world.director.wait_until_held(1);
        // Where he prepares his part, mine is prepared and undecided.
        let his = commit_by(pool, HIM, cont, tx, &[(0, 2, b"his"), (2, 2, b"too")]);
        let was_finished = commit.is_finished();
        world.director.release();
        (his, was_finished, commit.join().unwrap())
    });
    assert!(is_refused(&his), "{his:?}");
    assert_eq!((was_finished, done), (false, Ok(tx.begin)));
    assert!(is_stored(&pool, cont, mine));
    assert_eq!(get(&pool, 0, cont, 2).unwrap(), b"");
}

#[test]
fn a_commit_that_is_sent_again_after_a_restart_has_its_first_result_whatever_others_did_under_its_number() {
    let shapes: [[Writes<'_>; 2]; 2] = [
        [&[(0, 1, b"mine")], &[(0, 2, b"his")]],
        [&[(0, 1, b"mine"), (1, 1, b"too")], &[(0, 2, b"his"), (1, 2, b"too")]],
    ];
    for [mine, his] in shapes {
        let world = World::new();
        let pool = world.create(2);
        let cont = make(&pool, 1, "c").unwrap().no;
        let tx = begin(&pool, 77);
        assert_eq!(commit_by(&pool, ME, cont, tx, mine), Ok(tx.begin));
        assert_eq!(commit_by(&pool, HIM, cont, tx, his), Ok(tx.begin));
        // What came later stays: nothing is done twice.
        put(&pool, 0, cont, 1, b"later").unwrap();
        let again = |pool: &Pool<Store>| {
            world.director.take_trace();
            assert_eq!(commit_by(pool, ME, cont, tx, mine), Ok(tx.begin));
            assert_eq!(commit_by(pool, HIM, cont, tx, his), Ok(tx.begin));
            let asked = world.director.take_trace();
            assert!(asked.iter().all(|&(target, _)| target == TargetNo(0)), "its leader knows: {asked:?}");
            assert_eq!(get(pool, 0, cont, 1).unwrap(), b"later");
        };
        again(&pool);
        again(&world.reopen(pool));
    }
}

#[test]
fn something_else_under_a_number_that_was_used_is_done_or_refused() {
    let world = World::new();
    let pool = world.create(3);
    let cont = make(&pool, 1, "c").unwrap().no;
    let tx: TxId = begin(&pool, 77);
    let first: Writes<'_> = &[(0, 1, b"a"), (1, 1, b"b")];
    assert_eq!(commit_by(&pool, ME, cont, tx, first), Ok(tx.begin));
    let others: [Writes<'_>; 4] = [
        &[(0, 1, b"a"), (1, 1, b"B")],
        &[(0, 1, b"a"), (2, 1, b"b")],
        &[(0, 1, b"a"), (1, 1, b"b"), (2, 1, b"c")],
        &[(0, 1, b"a")],
    ];
    for other in others {
        let result = commit_by(&pool, ME, cont, tx, other);
        assert!(is_refused(&result), "{other:?}: {result:?}");
        assert!(is_stored(&pool, cont, first));
        assert_eq!(get(&pool, 2, cont, 1).unwrap(), b"", "{other:?}");
    }
    let elsewhere: Writes<'_> = &[(0, 5, b"x"), (1, 5, b"y")];
    assert_eq!(commit_by(&pool, ME, cont, tx, elsewhere), Ok(tx.begin));
    assert!(is_stored(&pool, cont, elsewhere), "it is told to be done, and is");
    assert_eq!(commit_by(&pool, ME, cont, tx, first), Ok(tx.begin), "sent again");
}
