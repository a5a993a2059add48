//! Processes of several threads that are killed with operations of all kinds under way on each thread's event queue: the daemon
//! keeps nothing of them, and another client goes on.

use super::process::{Client, Served};
use super::{amount, container, kill, label, make, taken, until};
use crate::kit;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use dolmen_client::{At, ContName, Container, Credentials, Epoch, IoBuf, Object, ObjectClass, ObjectType};
use dolmen_client::{Pool, Props};
use dolmen_codec::wire::PoolAccess;
use dolmen_env::{Address, Rng};
use dolmen_net::client::{LinkOptions, reach};
use dolmen_types::Head;
use std::sync::Arc;
use std::time::Duration;

/// Processes that are killed, and the seed, unless `BUSY_ROUNDS` and `BUSY_SEED` say otherwise.
const ROUNDS: u64 = 20;
const SEED: u64 = 5;

/// Times that a process says that it works before it is killed.
const WORKING_MAX: u64 = 20;

/// Values that the other client writes at most while one process lives: however long a machine takes for it, the pool has room.
const VALUES_MAX: u64 = 20_000;

/// What the daemon holds.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    shared: usize,
    handles: [u64; 2],
}

fn held(served: &Served, conts: [&Container; 2]) -> Held {
    let handles = conts.map(|cont| u64::from(cont.query().unwrap().handles));
    Held { descriptors: served.descriptor_count(), shared: served.shared_count(), handles }
}

/// Kills a process, also where something is not as it should be: who listens to it would wait for its end.
struct Killed(u32);

impl Drop for Killed {
    fn drop(&mut self) {
        kill(self.0);
    }
}

/// Starts a process, lets it work, and kills it a moment later, while the daemon holds something for it.
fn work_and_die(served: &Served, by_network: bool, rng: &mut Rng, is_held: impl Fn() -> bool) {
    let mut client = Client::with(served, "busy", &[&rng.below(1 << 20).to_string()], by_network);
    let (id, working) = (client.id(), AtomicU64::new(0));
    let (count, moment) = (1 + rng.below(WORKING_MAX), Duration::from_micros(rng.below(20_000)));
    dolmen_env::scope(|threads| {
        let listener = threads.spawn(|| {
            client.listen(|_| {
                working.fetch_add(1, Ordering::Relaxed);
            })
        });
        let killed = Killed(id);
        until("it works", || working.load(Ordering::Relaxed) >= count);
        dolmen_env::wait(moment);
        assert!(is_held());
        drop(killed);
        listener.join().unwrap();
    });
    assert!(client.was_killed(), "it has ended by itself");
}

/// Writes values, one after the other, at most as many as are wanted, until it is told to stop; how many.
fn go_on(object: &Object, wanted: &AtomicU64, is_over: &AtomicBool) -> u64 {
    let mut count = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        if count >= wanted.load(Ordering::Relaxed) {
            dolmen_env::wait(Duration::from_millis(1));
            continue;
        }
        object.put(At::Latest, &count.to_le_bytes(), b"a", &count.to_le_bytes()).unwrap();
        count += 1;
    }
    count
}

/// Ends the other client also where something is not as it should be.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether nobody else is connected to the pool.
fn is_alone(served: &Served) -> bool {
    let link = reach::link(&Address::Unix(served.socket()), &LinkOptions::default()).unwrap();
    let name = reach::pool_name("load").unwrap();
    let remote = reach::pool(&link, &Head::default(), name, PoolAccess::Exclusive);
    remote.is_ok_and(|remote| Pool::connect(Arc::new(remote), Credentials::default()).is_ok())
}

#[test]
fn a_process_of_threads_that_is_killed_with_operations_under_way_leaves_nothing_behind() {
    let (rounds, seed) = (amount("BUSY_ROUNDS", ROUNDS), amount("BUSY_SEED", SEED));
    println!("seed {seed}");
    let dir = kit::scratch("busy");
    make(&dir);
    let mut rng = Rng::from_seed(seed);
    let served = Served::start(&dir);
    let pool = served.connected("load");
    pool.create_container(Some(label("objects")), Props::new()).unwrap();
    let objects = pool.open_container(&ContName::Label(label("objects"))).unwrap();
    let files = container(&pool);
    let beside = objects.object(objects.oid(ObjectType::DkeyUint64, ObjectClass::SX, 0, 7).unwrap()).unwrap();
    let taken_before = taken(&pool);
    let before = held(&served, [&objects, &files]);
    assert_eq!(before.handles, [1, 1]);
    let (wanted, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let count = dolmen_env::scope(|threads| {
        let other = threads.spawn(|| go_on(&beside, &wanted, &is_over));
        let over = Over(&is_over);
        for round in 0..rounds {
            wanted.fetch_add(VALUES_MAX, Ordering::Relaxed);
            let own = || held(&served, [&objects, &files]);
            work_and_die(&served, round % 2 == 1, &mut rng, || {
                let now = own();
                now.descriptors > before.descriptors && now.handles.iter().all(|&handles| handles > 1)
            });
            until("what it held is given back", || own() == before);
        }
        drop(over);
        other.join().unwrap()
    });
    assert!(count > rounds * 100, "the other client got {count} values written");
    let mut buf = IoBuf::default();
    for number in 0..count {
        let found = beside.get(At::Latest, &number.to_le_bytes(), b"a", &mut buf).unwrap();
        assert_eq!((found, &buf[..]), (Some(8), &number.to_le_bytes()[..]), "seed {seed}");
    }
    for audit in pool.check().unwrap() {
        assert_eq!(audit.findings, [], "seed {seed}");
    }
    drop((beside, objects));
    drop(files);
    for name in ["objects", "files"] {
        pool.destroy_container(&ContName::Label(label(name)), false).unwrap();
    }
    pool.create_container(Some(label("empty")), Props::new()).unwrap();
    let empty = pool.open_container(&ContName::Label(label("empty"))).unwrap();
    until("space is free again", || {
        empty.aggregate(Epoch::ZERO).unwrap();
        pool.checkpoint().unwrap();
        taken(&pool) <= taken_before + (16 << 20)
    });
    drop((empty, pool));
    until("nobody else is connected to the pool", || is_alone(&served));
    drop(served);
    std::fs::remove_dir_all(dir).unwrap();
}
