use super::*;
use dolmen_types::{Credentials, RequestId};

/// What is asked is the same all the time, but where it matters.
const DIGEST: u32 = 99;
/// Of one user at the most, while there is no other.
const SHARE: u128 = CLIENTS_MAX as u128 / 2;

fn asks(uid: u32, client: u128, sequence: u64, oldest: u64) -> Head {
    let cred = Credentials { uid, gid: 0, project: 0 };
    Head { id: RequestId { client, sequence }, oldest, cred, ..Head::default() }
}

fn head(sequence: u64, oldest: u64) -> Head {
    asks(7, 77, sequence, oldest)
}

fn result(sequence: u64) -> ResultInfo {
    ResultInfo { sequence, epoch: Epoch(sequence.wrapping_mul(10)), digest: DIGEST }
}

fn first(repeats: &mut Repeats, head: &Head) -> Result<Option<Epoch>, Error> {
    repeats.first_result(head, DIGEST, 0)
}

/// Runs a request as a target does; whether it ran.
fn run(repeats: &mut Repeats, head: &Head, now_ns: u64) -> Result<bool, Error> {
    if repeats.first_result(head, DIGEST, now_ns)?.is_some() {
        return Ok(false);
    }
    let number = match repeats.known(head, now_ns)? {
        Some(number) => number,
        None => repeats.introduce(head, now_ns).number,
    };
    repeats.retain(number, result(head.id.sequence));
    Ok(true)
}

/// One client with results of these requests.
fn with_results(sequences: core::ops::RangeInclusive<u64>) -> Repeats {
    let mut repeats = Repeats::default();
    let intro = repeats.introduce(&head(1, 0), 0);
    assert_eq!(intro, ClientIntro { number: 0, uid: 7, client: 77, oldest: 0 });
    assert_eq!(repeats.known(&head(1, 0), 0), Ok(Some(0)));
    sequences.for_each(|sequence| repeats.retain(0, result(sequence)));
    repeats
}

fn reopened(repeats: &Repeats, now_ns: u64) -> Repeats {
    let mut again = Repeats::from_manifest(&repeats.to_manifest(), &repeats.floors());
    again.opened(now_ns);
    assert_eq!((again.to_manifest(), again.floors()), (repeats.to_manifest(), repeats.floors()));
    assert_eq!(again.results, repeats.results);
    again
}

/// The clients of a user from the one that was not heard of for the longest, backwards and forwards alike.
fn order(repeats: &Repeats, uid: u32) -> Vec<u128> {
    let user = &repeats.users[repeats.by_uid[&uid] as usize];
    let walk = |first: u32, next: fn(&Client) -> u32| {
        let first = repeats.clients.get(first as usize);
        core::iter::successors(first, |client| repeats.clients.get(next(client) as usize))
            .map(|client| client.who.client)
            .collect::<Vec<u128>>()
    };
    let forwards = walk(user.first, |client| client.after);
    let backwards = walk(user.last, |client| client.before);
    assert!(forwards.iter().eq(backwards.iter().rev()));
    assert_eq!(forwards.len(), user.clients);
    forwards
}

#[test]
fn results_are_retained_until_the_client_has_done_with_them_and_through_a_manifest() {
    let mut repeats = with_results(1..=20);
    assert_eq!(first(&mut repeats, &head(20, 5)), Ok(Some(Epoch(200))));
    let mut again = reopened(&repeats, 0);
    for repeats in [&mut repeats, &mut again] {
        assert_eq!(first(repeats, &head(5, 5)), Ok(Some(Epoch(50))));
        assert_eq!(first(repeats, &head(4, 1)), Err(Error::TimedOut));
        assert_eq!(first(repeats, &asks(7, 78, 4, 1)), Ok(None), "another client");
    }
}

#[test]
fn another_user_under_the_same_id_is_another_client() {
    let mut repeats = with_results(1..=5);
    let forged = asks(8, 77, 3, 3);
    assert_eq!(run(&mut repeats, &forged, 0), Ok(true), "it is his own first request");
    assert_eq!(run(&mut repeats, &asks(8, 77, 1 << 62, 1 << 62), 0), Ok(true));
    let mut again = reopened(&repeats, 0);
    for repeats in [&mut repeats, &mut again] {
        assert_eq!(first(repeats, &head(3, 1)), Ok(Some(Epoch(30))));
        assert_eq!(first(repeats, &head(6, 1)), Ok(None), "what he says of his own is nothing to this one");
        assert_eq!(first(repeats, &asks(8, 77, 3, 3)), Err(Error::TimedOut));
    }
}

#[test]
fn something_else_under_an_id_that_was_used_is_refused() {
    let mut repeats = with_results(1..=5);
    let mut again = reopened(&repeats, 0);
    for repeats in [&mut repeats, &mut again] {
        assert_eq!(repeats.first_result(&head(3, 1), 98, 0), Err(Invalid::Argument.into()));
        assert_eq!(first(repeats, &head(3, 1)), Ok(Some(Epoch(30))), "and changes nothing");
    }
}

#[test]
fn what_is_forgotten_does_not_run_again() {
    let mut repeats = with_results(1..=20);
    repeats.forget_results();
    assert!(repeats.to_manifest().iter().all(|client| client.results.is_empty()));
    assert_eq!(repeats.results, 0);
    assert_eq!(first(&mut repeats, &head(20, 1)), Err(Error::TimedOut));
    assert_eq!(first(&mut repeats, &head(21, 21)), Ok(None));
    assert_eq!(repeats.known(&head(21, 21), 0), Ok(Some(0)));
}

#[test]
fn who_was_not_heard_of_since_the_opening_may_still_ask() {
    let mut repeats = reopened(&with_results(1..=20), 0);
    assert_eq!(run(&mut repeats, &asks(7, 78, 1, 1), 0), Ok(true));
    // Twice, as by two processes that have the pool one after the other.
    for _ in 0..2 {
        repeats.forget_results();
        assert_eq!(repeats.results, 20);
        repeats = reopened(&repeats, 0);
    }
    assert_eq!(first(&mut repeats, &asks(7, 78, 1, 1)), Err(Error::TimedOut));
    assert_eq!(first(&mut repeats, &head(20, 1)), Ok(Some(Epoch(200))));
}

#[test]
fn of_clients_that_have_ended_the_latest_are_remembered() {
    let mut repeats = Repeats::default();
    for client in 0..FORGOTTEN_MAX as u128 + 10 {
        let now_ns = u64::try_from(client).unwrap();
        assert_eq!(
            run(&mut repeats, &asks(u32::try_from(client % 3).unwrap(), client, 1, 1), now_ns),
            Ok(true)
        );
    }
    repeats.forget_results();
    assert_eq!((repeats.clients.len(), repeats.results), (FORGOTTEN_MAX, 0));
    let is_there = |repeats: &Repeats, client: u128| {
        repeats.by_who.contains_key(&Who { uid: u32::try_from(client % 3).unwrap(), client })
    };
    assert!(!is_there(&repeats, 9));
    assert!(is_there(&repeats, 10));
    assert_eq!(order(&repeats, 1).first(), Some(&10));
}

#[test]
fn a_first_request_runs_however_far_newer_ones_have_gone_ahead() {
    let mut repeats = with_results(2..=2);
    for sequence in 3..3 * RESULTS_MAX as u64 {
        if sequence == RESULTS_MAX as u64 + 2 {
            assert_eq!(first(&mut repeats, &head(sequence, 1)), Err(Error::Busy), "request 1 is stuck");
            assert_eq!(first(&mut repeats, &head(1, 1)), Ok(None), "it can always run");
            assert_eq!(first(&mut repeats, &head(2, 1)), Ok(Some(Epoch(20))), "a repetition takes none");
        }
        let oldest = if sequence < RESULTS_MAX as u64 + 2 { 1 } else { sequence - 10 };
        assert_eq!(first(&mut repeats, &head(sequence, oldest)), Ok(None), "{sequence}");
        repeats.retain(0, result(sequence));
        assert!(repeats.clients[0].results.len() <= RESULTS_MAX);
    }
}

#[test]
fn a_client_that_does_not_say_what_it_waits_for_may_repeat_its_latest_requests() {
    let mut repeats = with_results(1..=RESULTS_MAX as u64);
    let next = RESULTS_MAX as u64 + 1;
    assert_eq!(first(&mut repeats, &head(next, 0)), Ok(None));
    repeats.retain(0, result(next));
    assert_eq!(first(&mut repeats, &head(2, 0)), Ok(Some(Epoch(20))));
    assert_eq!(first(&mut repeats, &head(1, 0)), Err(Error::TimedOut));
}

#[test]
fn a_replay_keeps_the_newest_results_within_bounds() {
    let mut repeats = with_results(1..=REPLAYED_MAX as u64 + 1);
    assert_eq!(repeats.clients[0].results.len(), REPLAYED_MAX);
    assert_eq!(first(&mut repeats, &head(1, 0)), Err(Error::TimedOut));
}

#[test]
fn who_may_ask_again_makes_room_for_nobody() {
    let mut repeats = Repeats::default();
    // Two users who take whatever they get: each has his share.
    let mut has = [0_u128; 2];
    for client in 0..CLIENTS_MAX as u128 {
        for (uid, has) in [1, 2].into_iter().zip(&mut has) {
            match run(&mut repeats, &asks(uid, client, 1, 1), 5) {
                Ok(ran) => {
                    assert!(ran);
                    *has += 1;
                }
                Err(error) => assert_eq!(error, Error::Busy),
            }
        }
    }
    assert_eq!(has, [CLIENTS_MAX as u128 / 3 + 1; 2]);
    assert_eq!(run(&mut repeats, &asks(3, 0, 1, 1), 5), Ok(true), "there is room for a third");
    let mut again = reopened(&repeats, SILENT_NS);
    for (repeats, now_ns) in [(&mut repeats, 4 + SILENT_NS), (&mut again, 2 * SILENT_NS - 1)] {
        assert_eq!(run(repeats, &asks(1, u128::MAX, 1, 1), now_ns), Err(Error::Busy));
        for (uid, has) in [1, 2].into_iter().zip(has) {
            for client in 0..has {
                assert_eq!(run(repeats, &asks(uid, client, 1, 1), now_ns), Ok(false), "{uid} {client}");
            }
        }
    }
}

#[test]
fn who_is_silent_makes_room_for_the_same_user_and_does_not_run_again() {
    let mut repeats = Repeats::default();
    for client in 0..SHARE {
        assert_eq!(run(&mut repeats, &asks(1, client, 5, 5), 0), Ok(true));
    }
    assert_eq!(run(&mut repeats, &asks(1, 0, 5, 5), 9), Ok(false), "this one is heard of again");
    let newcomer = asks(1, SHARE, 1, 1);
    assert_eq!(repeats.known(&newcomer, SILENT_NS - 1), Err(Error::Busy));
    assert_eq!(repeats.known(&newcomer, SILENT_NS), Ok(None));
    // It has the number of whose room it takes, and so the log says who that was.
    let intro = repeats.introduce(&newcomer, SILENT_NS);
    assert_eq!(intro, ClientIntro { number: 1, uid: 1, client: SHARE, oldest: 1 });
    repeats.retain(1, result(1));
    assert_eq!(order(&repeats, 1)[..2], [2, 3]);
    let mut again = reopened(&repeats, SILENT_NS);
    for repeats in [&mut repeats, &mut again] {
        assert_eq!(first(repeats, &asks(1, 1, 5, 5)), Err(Error::TimedOut), "it may have run");
        assert_eq!(first(repeats, &asks(1, 1, 6, 6)), Ok(None));
        assert_eq!(first(repeats, &asks(1, 0, 5, 5)), Ok(Some(Epoch(50))));
    }
    // It comes back, and takes a place like everybody: still without what it had asked for.
    let back = repeats.introduce(&asks(1, 1, 6, 1), SILENT_NS + 1);
    assert_eq!(back, ClientIntro { number: 2, uid: 1, client: 1, oldest: 6 });
    assert_eq!(first(&mut repeats, &asks(1, 1, 5, 1)), Err(Error::TimedOut));
    assert_eq!(repeats.floors().iter().map(|floor| floor.client).collect::<Vec<_>>(), [2]);
}

#[test]
fn who_has_no_result_makes_room_at_once() {
    let mut repeats = Repeats::default();
    for client in 0..SHARE {
        assert_eq!(run(&mut repeats, &asks(1, client, 5, 5), 0), Ok(true));
    }
    // It says that it has done with everything, and is the one that was not heard of for the longest.
    assert_eq!(first(&mut repeats, &asks(1, 0, 6, 6)), Ok(None));
    (1..SHARE).for_each(|client| assert!(first(&mut repeats, &asks(1, client, 5, 5)).is_ok()));
    assert_eq!(run(&mut repeats, &asks(1, SHARE, 1, 1), 1), Ok(true));
    assert_eq!(repeats.floors(), []);
    assert_eq!(run(&mut repeats, &asks(1, SHARE + 1, 1, 1), 1), Err(Error::Busy));
}

#[test]
fn the_order_of_use_outlives_a_manifest_and_a_replay() {
    let mut repeats = Repeats::default();
    let mut logged = Repeats::default();
    for client in 0..50 {
        let intro = repeats.introduce(&asks(u32::try_from(client % 2).unwrap(), client, 1, 1), 0);
        logged.add(&intro);
        repeats.retain(intro.number, result(1));
        logged.retain(intro.number, result(1));
    }
    for client in (0..50).step_by(3) {
        let number =
            repeats.known(&asks(u32::try_from(client % 2).unwrap(), client, 2, 1), 0).unwrap().unwrap();
        repeats.retain(number, result(2));
        logged.retain(number, result(2));
    }
    let again = reopened(&repeats, 0);
    let expected: Vec<u128> = (0..50)
        .filter(|client| client % 2 == 0 && client % 3 > 0)
        .chain((0..50).step_by(3).filter(|client| client % 2 == 0))
        .collect();
    assert_eq!(order(&repeats, 0), expected);
    assert_eq!(order(&again, 0), expected);
    assert_eq!(order(&logged, 0), expected);
}

#[test]
fn results_of_one_user_leave_room_for_those_of_others() {
    let mut repeats = Repeats::default();
    let each = RESULTS_MAX as u64;
    let clients = (ALL_RESULTS_MAX / 2 / RESULTS_MAX) as u128;
    for client in 0..clients {
        (1..=each).for_each(|sequence| drop(run(&mut repeats, &asks(1, client, sequence, 1), 0)));
    }
    assert_eq!(repeats.results, ALL_RESULTS_MAX / 2);
    let mut again = reopened(&repeats, 0);
    for repeats in [&mut repeats, &mut again] {
        assert_eq!(run(repeats, &asks(1, clients, 2, 1), 0), Ok(true), "one of each client");
        assert_eq!(run(repeats, &asks(1, clients, 3, 1), 0), Err(Error::Busy), "he has his share");
        assert_eq!(run(repeats, &asks(1, clients, 3, 3), 0), Ok(true), "it has done with the first");
        for sequence in 1..=each {
            assert_eq!(run(repeats, &asks(2, 1, sequence, 1), 0), Ok(true), "of another");
        }
        let all: usize = repeats.clients.iter().map(|client| client.results.len()).sum();
        let of_users: usize = repeats.users.iter().map(|user| user.results).sum();
        assert_eq!((repeats.results, of_users), (all, all));
        assert!(repeats.resident_bytes() < 20 << 20, "{}", repeats.resident_bytes());
    }
}

#[test]
fn as_many_clients_as_there_can_be_take_some_mebibytes() {
    let mut repeats = Repeats::default();
    for client in 0..CLIENTS_MAX as u128 {
        // Of users enough for all places.
        let uid = u32::try_from(client % 64).unwrap();
        assert!(matches!(run(&mut repeats, &asks(uid, client, 1, 1), 0), Ok(true) | Err(Error::Busy)));
    }
    assert!(repeats.clients.len() > CLIENTS_MAX - 1024, "{}", repeats.clients.len());
    assert!(repeats.resident_bytes() < 16 << 20, "{}", repeats.resident_bytes());
}

#[test]
fn floors_are_bounded_and_the_oldest_goes_first() {
    let mut floors = Floors::default();
    let who = |client| Who { uid: 1, client };
    floors.insert(who(0), 3);
    floors.by_who.remove(&who(0));
    floors.insert(who(0), 4);
    for client in 1..FLOORS_MAX as u128 {
        floors.insert(who(client), 5);
    }
    assert_eq!((floors.get(who(0)), floors.order.len()), (4, FLOORS_MAX), "its first entry went, not this");
    floors.insert(who(FLOORS_MAX as u128), 5);
    assert_eq!((floors.get(who(0)), floors.get(who(1)), floors.order.len()), (0, 5, FLOORS_MAX));
}

#[test]
fn what_a_forger_writes_is_passed_over() {
    let mut repeats = with_results(1..=3);
    for number in [NOBODY, 1] {
        repeats.add(&ClientIntro { number, uid: 7, client: 77, oldest: 9 });
    }
    repeats.add(&ClientIntro { number: NOBODY, uid: 7, client: 78, oldest: 9 });
    repeats.retain(5, result(1));
    assert_eq!(order(&repeats, 7), [77]);
    assert_eq!(first(&mut repeats, &head(3, 1)), Ok(Some(Epoch(30))));
    // Numbers begin anew behind the last.
    repeats.add(&ClientIntro { number: NOBODY - 1, uid: 7, client: 79, oldest: 0 });
    assert_eq!(repeats.introduce(&asks(7, 80, 1, 1), 0).number, 1);
}
