//! Daemons and clients that are killed under the load of IOR and mdtest: what was acknowledged is there, clients go on,
//! and the dead leave nothing behind.

mod busy;
mod model;
pub(crate) mod process;

use crate::kit;
use dolmen_client::{ContName, Container, Credentials, Label, Pool, PropId, PropValue};
use dolmen_dfs::{Dfs, FormatOptions, MountOptions, OpenOptions};
use dolmen_env::Rng;
use dolmen_local::PoolOptions;
use dolmen_types::Durability;
use model::{Held, Places};
use process::{Client, Served};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Rounds and seed, unless `LOAD_ROUNDS` and `LOAD_SEED` say otherwise.
const ROUNDS: u64 = 6;
const SEED: u64 = 11;

/// As in `tests/c/load.c`.
const EASY_BYTES: u64 = 1 << 20;
const HARD_BYTES: u64 = 47_008;
const SMALL_BYTES: u64 = 3901;
const SLOTS: usize = 24;
const NAMES: usize = 48;

/// Kinds of clients, and operations of each in a round.
const KINDS: [(&str, u64); 6] =
    [("easy", 12), ("hard", 60), ("hard", 60), ("meta", 90), ("small", 60), ("small", 60)];

/// A client and what it has been told so far.
struct Worker {
    kind: &'static str,
    rank: usize,
    count: u64,
    next: u64,
    places: Places,
    client: Option<Client>,
}

impl Worker {
    fn all() -> Vec<Self> {
        let worker = |(rank, (kind, count)): (usize, (&'static str, u64))| {
            let slots = if matches!(kind, "easy" | "hard") { SLOTS } else { NAMES };
            Self { kind, rank, count, next: 1, places: Places::new(slots, kind != "meta"), client: None }
        };
        KINDS.into_iter().enumerate().map(worker).collect()
    }

    /// Begins a round, in a new process if the last one was killed.
    fn go(&mut self, served: &Served) {
        let (kind, rank) = (self.kind, self.rank);
        let client = self.client.get_or_insert_with(|| Client::start(served, kind, rank, KINDS.len()));
        client.go(self.next, self.count);
        self.next += self.count;
    }

    fn is_transfer(&self) -> bool {
        matches!(self.kind, "easy" | "hard")
    }
}

fn amount(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap())
}

/// Waits until `is_so`; `what` is told if that takes too long.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if is_so() {
            return;
        }
        dolmen_env::wait(Duration::from_millis(1));
    }
    panic!("not within 20 s: {what}");
}

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

/// Makes a pool and a file system in it that survives the loss of power, as far as its disk does.
fn make(dir: &Path) {
    let options = PoolOptions {
        targets: 2,
        label: Some(label("load")),
        capacity_bytes: 2 << 30,
        volatile: true,
        ..PoolOptions::default()
    };
    dolmen_local::create(&dir.join("first"), &options).unwrap();
    let pool = opened_here(dir);
    let mut props = Dfs::container_props();
    props.insert(PropId::CO_DURABILITY, PropValue::Number(Durability::Power as u64));
    pool.create_container(Some(label("files")), props).unwrap();
    Dfs::format(&container(&pool), &FormatOptions::default()).unwrap();
}

fn opened_here(dir: &Path) -> Pool {
    let local = dolmen_local::open(&dir.join("first"), &dolmen_local::OpenOptions::default()).unwrap();
    Pool::connect(Arc::new(local), Credentials::default()).unwrap()
}

fn container(pool: &Pool) -> Container {
    pool.open_container(&ContName::Label(label("files"))).unwrap()
}

/// Lets all work, kills the daemon when so many operations are over and in every other round a client, too; follows what
/// the clients said.
fn round(workers: &mut [Worker], served: &mut Served, rng: &mut Rng, told: &str) {
    workers.iter_mut().for_each(|worker| worker.go(served));
    let all: u64 = KINDS.iter().map(|(_, count)| count).sum();
    let (at, client_at) = (rng.below(all), rng.below(all));
    let victim = (rng.below(2) == 0).then(|| usize::try_from(rng.below(KINDS.len() as u64)).unwrap());
    let victim_id = victim.map(|rank| workers[rank].client.as_ref().unwrap().id());
    let (done, idle) = (AtomicU64::new(0), AtomicU64::new(0));
    let heard = |line: &str| {
        done.fetch_add(u64::from(!line.starts_with("try")), Ordering::Relaxed);
    };
    let reached = |count: u64| {
        done.load(Ordering::Relaxed) >= count || idle.load(Ordering::Relaxed) == KINDS.len() as u64
    };
    let lines: Vec<Vec<String>> = dolmen_env::scope(|threads| {
        let listeners: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                let client = worker.client.as_mut().unwrap();
                threads.spawn(|| {
                    let lines = client.listen(heard);
                    idle.fetch_add(1, Ordering::Relaxed);
                    lines
                })
            })
            .collect();
        let mut kills = vec![(at, None)];
        kills.extend(victim_id.map(|id| (client_at, Some(id))));
        kills.sort_unstable();
        for (at, client) in kills {
            until("clients go on", || reached(at));
            dolmen_env::wait(Duration::from_micros(rng.below(2000)));
            match client {
                Some(id) => kill(id),
                None => kill_daemon(served, rng),
            }
        }
        listeners.into_iter().map(|listener| listener.join().unwrap()).collect()
    });
    for (worker, lines) in workers.iter_mut().zip(&lines) {
        let (kind, rank) = (worker.kind, worker.rank);
        let followed = worker.places.follow(lines);
        assert_eq!(followed, Ok(()), "{told}: {kind} {rank}");
        let mut client = worker.client.take().unwrap();
        if victim == Some(rank) {
            client.kill();
        } else {
            assert!(client.is_alive(), "{told}: {kind} {rank} has ended by itself");
            worker.client = Some(client);
        }
    }
}

/// Kills a client by its id; it is waited for afterwards.
fn kill(id: u32) {
    let sent = std::process::Command::new("kill").args(["-KILL", &id.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Kills the daemon and starts it again; every third time it is killed again while it begins.
fn kill_daemon(served: &mut Served, rng: &mut Rng) {
    served.kill();
    if rng.below(3) == 0 {
        served.start_and_kill(Duration::from_micros(rng.below(30_000)));
    }
    served.start_again();
}

/// What lies in the place of a transfer: who has written its first and its last word.
fn transferred(dfs: &Dfs, worker: &Worker, slot: u64) -> BTreeSet<Held> {
    let (name, at, len) = if worker.kind == "hard" {
        ("hard".to_owned(), (slot * KINDS.len() as u64 + worker.rank as u64) * HARD_BYTES, HARD_BYTES)
    } else {
        (format!("easy.{}", worker.rank), slot * EASY_BYTES, EASY_BYTES)
    };
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    dfs.open(&name, &OpenOptions::READ).unwrap().read_at(at, &mut bytes).unwrap();
    written(worker.rank, &bytes)
}

/// Who has written the words of these bytes.
fn written(rank: usize, bytes: &[u8]) -> BTreeSet<Held> {
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let held = |(at, word): (u64, u64)| {
        let number = word >> 20 & 0xf_ffff_ffff;
        assert!(word == 0 || word == (rank as u64 + 1) << 56 | number << 20 | at, "rank {rank}: word {at}");
        if word == 0 { Held::Nothing } else { Held::Written(number) }
    };
    (0..).zip(words).map(held).collect()
}

/// What a name stands for.
fn named(dfs: &Dfs, worker: &Worker, slot: usize) -> Held {
    let (dir, rank) = if worker.kind == "small" {
        ("small".to_owned(), worker.rank)
    } else {
        (format!("meta.{}", worker.rank), worker.rank)
    };
    let file = match dfs.open(format!("{dir}/f.{rank}.{slot}"), &OpenOptions::READ) {
        Ok(file) => file,
        Err(error) => {
            assert_eq!(error.errno(), libc::ENOENT, "{error}");
            return Held::Nothing;
        }
    };
    let mut bytes = vec![0; 2 * usize::try_from(SMALL_BYTES).unwrap()];
    let len = file.read_at(0, &mut bytes).unwrap();
    let found = written(rank, &bytes[..len]);
    let whole = usize::try_from(SMALL_BYTES).unwrap();
    assert!(found.len() == usize::from(len > 0) && [0, whole].contains(&len), "{len} bytes: {found:?}");
    found.first().copied().unwrap_or(Held::Empty)
}

/// That everything acknowledged is there, and nothing is there that nobody has written.
fn verify(pool: &Pool, dfs: &Dfs, workers: &mut [Worker], told: &str) {
    for worker in workers.iter_mut() {
        for slot in 0..if worker.is_transfer() { SLOTS } else { NAMES } {
            let found = if worker.is_transfer() {
                transferred(dfs, worker, slot as u64)
            } else {
                BTreeSet::from([named(dfs, worker, slot)])
            };
            let may_hold = worker.places.held(slot).clone();
            let holds = worker.places.holds(slot, &found);
            assert!(
                holds,
                "{told}: {} {}, place {slot}: {found:?}, not {may_hold:?}",
                worker.kind, worker.rank
            );
        }
    }
    for audit in pool.check().unwrap() {
        assert_eq!(audit.findings, [], "{told}");
    }
    let report = dfs.check(false).unwrap();
    assert!(report.is_clean(), "{told}: {report:?}");
}

fn mounted(pool: &Pool) -> Dfs {
    let options = MountOptions { shared: true, ..MountOptions::default() };
    Dfs::mount(&container(pool), &options).unwrap()
}

/// Kills all clients in the midst of their work; what the daemon held for them is given back.
fn kill_all(workers: &mut [Worker], served: &Served, dfs: &Dfs, before: (usize, usize)) {
    workers.iter_mut().for_each(|worker| worker.go(served));
    for worker in workers.iter_mut() {
        let mut client = worker.client.take().unwrap();
        let begun = AtomicU64::new(0);
        dolmen_env::scope(|threads| {
            let id = client.id();
            let listener = threads.spawn(|| {
                client.listen(|_| {
                    begun.fetch_add(1, Ordering::Relaxed);
                })
            });
            until("it works", || begun.load(Ordering::Relaxed) > 5);
            kill(id);
            let followed = worker.places.follow(&listener.join().unwrap());
            assert_eq!(followed, Ok(()));
        });
    }
    let handles = || dfs.container().query().unwrap().handles;
    until("handles are given back", || handles() == 1);
    until("connections are gone", || served.descriptor_count() == before.0);
    until("shared memory is gone", || served.shared_count() == before.1);
}

/// What values and runs take of the targets: what is told to be free are whole segments.
fn taken(pool: &Pool) -> u64 {
    let space = pool.query().unwrap().space;
    space.iter().map(|target| target.bulk_bytes + target.log_bytes + target.run_bytes).sum()
}

/// Removes everything; the space of it is free again.
fn empty(pool: &Pool, dfs: &Dfs, taken_before: u64) {
    for dir in dfs.names().unwrap() {
        if let Ok(inner) = dfs.open_dir(&dir) {
            inner.names().unwrap().iter().for_each(|name| inner.unlink(name).unwrap());
            dfs.rmdir(&dir).unwrap();
        } else {
            dfs.unlink(&dir).unwrap();
        }
    }
    // What the index and the log keep is no part of any file.
    until("space is free again", || {
        dfs.container().aggregate(dolmen_client::Epoch::ZERO).unwrap();
        pool.checkpoint().unwrap();
        taken(pool) <= taken_before + (16 << 20)
    });
}

#[test]
fn what_was_acknowledged_survives_daemons_and_clients_that_are_killed_under_load() {
    let (rounds, seed) = (amount("LOAD_ROUNDS", ROUNDS), amount("LOAD_SEED", SEED));
    let dir = kit::scratch("killed");
    make(&dir);
    let mut rng = Rng::from_seed(seed);
    let mut served = Served::start(&dir);
    let pool = served.connected("load");
    let dfs = mounted(&pool);
    let taken_before = taken(&pool);
    let before = (served.descriptor_count(), served.shared_count());
    let mut workers = Worker::all();
    for number in 0..rounds {
        let told = format!("seed {seed}, round {number}");
        round(&mut workers, &mut served, &mut rng, &told);
        verify(&pool, &dfs, &mut workers, &told);
    }
    kill_all(&mut workers, &served, &dfs, before);
    let told = format!("seed {seed}, at the end");
    verify(&pool, &dfs, &mut workers, &told);
    served.kill();
    let here = opened_here(&dir);
    verify(&here, &mounted(&here), &mut workers, &told);
    drop(here);
    served.start_again();
    empty(&pool, &dfs, taken_before);
    let [done, in_doubt] = [|places: &Places| places.done, |places: &Places| places.in_doubt]
        .map(|count| workers.iter().map(|worker| count(&worker.places)).sum::<u64>());
    println!("{rounds} rounds: {done} operations acknowledged, {in_doubt} in doubt");
    assert!(done > rounds * 200, "{done} operations, {in_doubt} in doubt");
    drop((dfs, pool, served));
    std::fs::remove_dir_all(dir).unwrap();
}
