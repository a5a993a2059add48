//! Who has files open is there for the engine on each connection, whatever made that necessary.

use crate::given_back::{LONG, ask, door, open_cont, pool_of};
use crate::obedient::{CONT, Double, uuid};
use dolmen_codec::lock::{LockAction, LockAsk, LockFamily, LockKind, LockRange};
use dolmen_codec::pool::PoolVerb;
use dolmen_codec::{QueueId, Transport};
use dolmen_net::client::Door;
use dolmen_types::Oid;
use std::time::Duration;

const HERE: &str = "lock p Renew Free";
const FREED: &str = "lock p Set Free";

fn lock(family: LockFamily, action: LockAction, kind: LockKind) -> PoolVerb<'static> {
    let (range, has_locks) = (LockRange::whole(kind), kind == LockKind::Free);
    let (holder, oid) = (uuid("holder"), Oid { hi: 1, lo: 2 });
    PoolVerb::Lock(
        CONT,
        Box::new(LockAsk { holder, action, has_locks, oid, family, owner: 0, pid: 0, range }),
    )
}

/// A pool, in which this client has such a lock.
fn locked(patience: Duration, family: LockFamily) -> (Double, Door) {
    let double = Double::start();
    let door = door(&double.link(patience), "p");
    open_cont(&door).unwrap();
    door.call(ask(lock(family, LockAction::Set, LockKind::Read))).result.unwrap();
    (double, door)
}

/// Gives something back, and waits for nothing.
fn give_back(door: &Door) -> QueueId {
    let queue = door.open_queue().unwrap();
    door.submit(queue, ask(lock(LockFamily::Open, LockAction::Set, LockKind::Free)));
    door.flush();
    queue
}

#[test]
fn who_has_files_open_is_there_on_the_next_connection_whatever_is_asked_on_it() {
    for (family, times) in [(LockFamily::Open, 3), (LockFamily::Range, 0)] {
        let (double, door) = locked(LONG, family);
        for _ in 0..3 {
            double.restart();
            assert_eq!(pool_of(&door), Ok(uuid("p")));
        }
        assert_eq!(double.asked(HERE), times);
        door.call(ask(lock(family, LockAction::Leave, LockKind::Free))).result.unwrap();
        double.restart();
        assert_eq!(pool_of(&door), Ok(uuid("p")));
        assert_eq!(double.asked(HERE), times, "he has left");
    }
}

#[test]
fn who_only_gives_back_after_the_end_of_a_connection_is_there_on_the_next() {
    let (double, door) = locked(LONG, LockFamily::Open);
    for time in 1..4 {
        double.restart();
        let queue = give_back(&door);
        // Nobody looks for the answer.
        double.until_asked(HERE, time);
        double.until_asked(FREED, time);
        door.close_queue(queue);
        // What was given back and not answered before that is given back once more.
        assert_eq!(double.asked(HERE), time);
    }
}

#[test]
fn who_gives_back_while_no_engine_is_there_goes_on() {
    let (double, door) = locked(Duration::from_millis(50), LockFamily::Open);
    double.go_away();
    let queues: Vec<QueueId> = (0..20).map(|_| give_back(&door)).collect();
    assert_eq!(double.asked(FREED), 0);
    queues.into_iter().for_each(|queue| door.close_queue(queue));
}
