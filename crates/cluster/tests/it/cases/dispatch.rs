//! Dispatch: ownership, the inbox, isolation of targets.

use super::common::{World, fetch, get, make, owned_update, put, update};
use dolmen_codec::verb::{ReadAt, Reply, Verb};
use dolmen_codec::{Answer, Ask, Op, Request, Transport};
use dolmen_env::{scope, yield_now};
use dolmen_types::{Cond, Error, Head, TargetNo};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: u64 = 8;
const WRITES: u64 = 200;

#[test]
fn many_threads_on_few_targets_lose_nothing() {
    let world = World::new();
    let pool = world.create(2);
    let cont = make(&pool, 1, "c").unwrap().no;
    scope(|scope| {
        for thread in 0..THREADS {
            let pool = &pool;
            scope.spawn(move || {
                for write in 0..WRITES {
                    let (target, dkey) = (u16::try_from(write % 2).unwrap(), thread * WRITES + write);
                    put(pool, target, cont, dkey, &dkey.to_le_bytes()).unwrap();
                    assert_eq!(get(pool, target, cont, dkey).unwrap(), dkey.to_le_bytes());
                }
            });
        }
    });
    for dkey in 0..THREADS * WRITES {
        let target = u16::try_from(dkey % WRITES % 2).unwrap();
        assert_eq!(get(&pool, target, cont, dkey).unwrap(), dkey.to_le_bytes());
    }
}

#[test]
fn work_on_one_target_never_waits_for_another() {
    let world = World::new();
    let pool = world.create(3);
    let cont = make(&pool, 1, "c").unwrap().no;
    world.director.hold(0);
    scope(|scope| {
        let held = scope.spawn(|| put(&pool, 0, cont, 1, b"held"));
        world.director.wait_until_held(0);
        for dkey in 0..100 {
            put(&pool, 1, cont, dkey, b"free").unwrap();
            put(&pool, 2, cont, dkey, b"free").unwrap();
            assert_eq!(get(&pool, 1, cont, dkey).unwrap(), b"free");
        }
        assert!(!held.is_finished());
        world.director.release();
        held.join().unwrap().unwrap();
    });
    assert_eq!(get(&pool, 0, cont, 1).unwrap(), b"held");
}

#[test]
fn operations_that_wait_for_a_target_share_a_submit() {
    let world = World::new();
    let pool = world.create(1);
    let cont = make(&pool, 1, "c").unwrap().no;
    let queue = pool.open_queue().unwrap();
    world.director.hold(0);
    scope(|scope| {
        let held = scope.spawn(|| put(&pool, 0, cont, 1000, b"held"));
        world.director.wait_until_held(0);
        world.director.take_batches();
        for token in 0..100 {
            let ask = Ask::Target(TargetNo(0), cont, Verb::Update(owned_update(token, b"queued")));
            pool.submit(queue, Request { token, head: Head::default(), ask });
        }
        world.director.release();
        held.join().unwrap().unwrap();
    });
    let mut outcomes = Vec::new();
    while outcomes.len() < 100 {
        pool.poll(queue, true, &mut outcomes);
    }
    assert!(world.director.take_batches().contains(&(TargetNo(0), 100)), "all in one submit");
}

#[test]
fn writes_of_many_threads_are_handed_over_together() {
    const WRITERS: u64 = 16;
    let world = World::new();
    let pool = world.create(1);
    let cont = make(&pool, 1, "c").unwrap().no;
    // What the service has begun and waits for no more is over after this.
    put(&pool, 0, cont, WRITERS * WRITES, b"first").unwrap();
    world.director.take_batches();
    world.director.gather(WRITERS);
    scope(|scope| {
        for thread in 0..WRITERS {
            let (pool, director) = (&pool, &world.director);
            scope.spawn(move || {
                for write in 0..WRITES {
                    director.begin();
                    put(pool, 0, cont, thread * WRITES + write, b"shared").unwrap();
                }
                director.retire();
            });
        }
    });
    world.director.gather(0);
    // A store flushes at most once after each submit.
    let batches = world.director.take_batches();
    let ops: usize = batches.iter().map(|(_, count)| count).sum();
    assert_eq!(ops as u64, WRITERS * WRITES);
    let flushes = batches.iter().filter(|(_, count)| *count > 0).count();
    println!("{ops} operations, {flushes} flushes");
    assert!(flushes * 2 <= ops, "{flushes} flushes for {ops} operations");
}

#[test]
fn operations_in_flight_are_handed_over_together() {
    const IN_FLIGHT: u64 = 64;
    let world = World::new();
    let pool = world.create(1);
    let cont = make(&pool, 1, "c").unwrap().no;
    let queue = pool.open_queue().unwrap();
    let mut outcomes = Vec::new();
    world.director.hold(0);
    for token in 0..IN_FLIGHT {
        let ask = Ask::Target(TargetNo(0), cont, Verb::Update(owned_update(token, b"queued")));
        pool.submit(queue, Request { token, head: Head::default(), ask });
    }
    pool.poll(queue, false, &mut outcomes);
    assert!(outcomes.is_empty(), "the device is still at work");
    world.director.release();
    let mut waits = 0;
    while (outcomes.len() as u64) < IN_FLIGHT {
        pool.poll(queue, true, &mut outcomes);
        waits += 1;
    }
    // Background work among them may have begun one flush, and the rest shares the next.
    assert!(waits <= 2, "{waits} flushes for {IN_FLIGHT} operations");
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
}

#[test]
fn a_full_inbox_answers_busy_and_loses_nothing_else() {
    const SENT: u64 = 5000;
    let world = World::new();
    let pool = world.create(1);
    let cont = make(&pool, 1, "c").unwrap().no;
    let queue = pool.open_queue().unwrap();
    world.director.hold(0);
    scope(|scope| {
        let held = scope.spawn(|| put(&pool, 0, cont, 1, b"held"));
        world.director.wait_until_held(0);
        for token in 0..SENT {
            let ask = Ask::Target(TargetNo(0), cont, fetch(token, ReadAt::Latest));
            pool.submit(queue, Request { token, head: Head::default(), ask });
        }
        world.director.release();
        held.join().unwrap().unwrap();
    });
    let mut outcomes = Vec::new();
    loop {
        let before = outcomes.len();
        pool.poll(queue, true, &mut outcomes);
        if outcomes.len() == before {
            break;
        }
    }
    let mut tokens: Vec<u64> = outcomes.iter().map(|outcome| outcome.token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..SENT).collect::<Vec<_>>(), "every request is answered once");
    assert!(outcomes.iter().all(|outcome| outcome.buf.is_some()), "every buffer comes back");
    let busy = outcomes.iter().filter(|outcome| matches!(outcome.result, Err(Error::Busy))).count();
    assert_eq!(busy, 5000 - 4096);
}

#[test]
fn a_panic_stops_one_target_and_nothing_else() {
    let world = World::new();
    let pool = world.create(2);
    let cont = make(&pool, 1, "c").unwrap().no;
    put(&pool, 0, cont, 1, b"x").unwrap();
    world.director.panic_on(0);
    let broken = Error::Io { target: TargetNo(0), errno: 5 };
    assert_eq!(put(&pool, 0, cont, 2, b"y"), Err(broken.clone()));
    assert_eq!(get(&pool, 0, cont, 1), Err(broken), "a store that panicked is not asked again");
    put(&pool, 1, cont, 2, b"y").unwrap();
    assert_eq!(get(&pool, 1, cont, 2).unwrap(), b"y");
}

#[test]
fn a_panic_over_the_inbox_stops_the_target_before_the_callers_operation() {
    const SENT: usize = 600;
    let world = World::new();
    let pool = world.create(1);
    let cont = make(&pool, 1, "c").unwrap().no;
    let queue = pool.open_queue().unwrap();
    // What the service has begun and waits for no more is over after this.
    put(&pool, 0, cont, 1000, b"first").unwrap();
    world.director.hold(0);
    scope(|scope| {
        let held = scope.spawn(|| put(&pool, 0, cont, 1000, b"held"));
        world.director.wait_until_held(0);
        for token in 0..SENT as u64 {
            let ask = Ask::Target(TargetNo(0), cont, Verb::Update(owned_update(token, b"queued")));
            pool.submit(queue, Request { token, head: Head::default(), ask });
        }
        world.director.release();
        held.join().unwrap().unwrap();
    });
    // Who lets go takes in a bounded number, so that some are still in the inbox.
    world.director.take_batches();
    world.director.panic_on(0);
    let broken = Err(Error::Io { target: TargetNo(0), errno: 5 });
    scope(|scope| assert_eq!(scope.spawn(|| put(&pool, 0, cont, 1, b"x")).join().unwrap(), broken));
    let batches = world.director.take_batches();
    assert!(matches!(batches[..], [(_, 2..)]), "those of the inbox in one submit, and no other: {batches:?}");
    let mut outcomes = Vec::new();
    while outcomes.len() < SENT {
        pool.poll(queue, true, &mut outcomes);
    }
}

#[test]
fn threads_that_share_a_queue_all_go_on() {
    const ROUNDS: u64 = 20_000;
    const LOOKS_MAX: u32 = 10_000_000;
    let world = World::new();
    let pool = world.create(1);
    let cont = make(&pool, 1, "c").unwrap().no;
    let queue = pool.open_queue().unwrap();
    // By thread, because each takes what is finished, whoever has begun it; the last is for the watchdog.
    let finished = [0; 3].map(AtomicU64::new);
    let submit = |token: usize| {
        let token = token as u64;
        let ask = Ask::Target(TargetNo(0), cont, Verb::Update(owned_update(token, b"shared")));
        pool.submit(queue, Request { token, head: Head::default(), ask });
    };
    // So that one sleeps while the other drives.
    world.director.slow_down(4);
    let (begin, mut is_stuck) = (Barrier::new(2), false);
    scope(|scope| {
        let threads = [0, 1].map(|thread: usize| {
            let (pool, finished, begin, submit) = (&pool, &finished, &begin, &submit);
            scope.spawn(move || {
                let mut outcomes = Vec::new();
                for round in 1..=ROUNDS {
                    begin.wait();
                    submit(thread);
                    while finished[thread].load(Ordering::Acquire) < round {
                        pool.poll(queue, true, &mut outcomes);
                        for outcome in outcomes.drain(..) {
                            outcome.result.unwrap();
                            finished[usize::try_from(outcome.token).unwrap()].fetch_add(1, Ordering::Release);
                        }
                        yield_now();
                    }
                }
            })
        });
        let total = || finished.iter().map(|count| count.load(Ordering::Acquire)).sum::<u64>();
        let (mut seen, mut looks) = (0, 0);
        while threads.iter().any(|thread| !thread.is_finished()) {
            yield_now();
            looks = if total() == seen { looks + 1 } else { 0 };
            seen = total();
            if looks == LOOKS_MAX {
                // An answer wakes who would sleep for ever, so that the test ends.
                (looks, is_stuck) = (0, true);
                world.director.slow_down(0);
                submit(2);
                put(&pool, 0, cont, 3, b"wake").unwrap();
            }
        }
    });
    assert!(!is_stuck, "a thread slept although its operation was finished");
}

#[test]
fn several_operations_go_in_one_submit_and_come_back_in_order() {
    let world = World::new();
    let pool = world.create(1);
    let cont = make(&pool, 1, "c").unwrap().no;
    world.director.take_batches();
    let values: Vec<[u8; 8]> = (0..20_u64).map(u64::to_le_bytes).collect();
    let op = |(dkey, value)| Op {
        token: 500 - dkey,
        head: Head::default(),
        cont,
        verb: Verb::Update(update(dkey, value, Cond::NONE)),
    };
    let mut ops: Vec<Op<'_>> = (0..).zip(values.iter().map(|value| &value[..])).map(op).collect();
    let mut done = Vec::new();
    pool.targets().call_many(TargetNo(0), &mut ops, &mut done);
    assert!(ops.is_empty());
    assert_eq!(world.director.take_batches(), [(TargetNo(0), 20)]);
    for (completion, dkey) in done.iter().zip(0..) {
        assert_eq!(completion.token, 500 - dkey);
        assert!(matches!(completion.result, Ok(Reply::Written(_))));
        assert_eq!(get(&pool, 0, cont, dkey).unwrap(), dkey.to_le_bytes());
    }
}

#[test]
fn an_unknown_target_is_refused_with_its_buffer() {
    let world = World::new();
    let pool = world.create(1);
    let cont = make(&pool, 1, "c").unwrap().no;
    let ask = Ask::Target(TargetNo(3), cont, fetch(1, ReadAt::Latest));
    let outcome = pool.call(Request { token: 9, head: Head::default(), ask });
    assert!(matches!(outcome.result, Err(Error::Invalid(_))));
    assert_eq!((outcome.token, outcome.buf.map(|buf| buf.len())), (9, Some(64)));
    let stale = Head { map_version: 1, ..Head::default() };
    let ask = Ask::Target(TargetNo(0), cont, fetch(1, ReadAt::Latest));
    let answer = pool.call(Request { token: 9, head: stale, ask });
    assert!(matches!(answer.result, Ok(Answer::Target(_))), "the current map is welcome");
}
