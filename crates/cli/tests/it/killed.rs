//! A process that uses everything a pool has is killed, over and over: what it acknowledged stays, and what was under
//! way has happened or not.
//!
//! What the process does is a function of a number that counts up, so the state after any number of steps is known.

use crate::common::{Place, amount};
use dolmen_client::{
    Array, At, Cond, ContName, Container, Credentials, Error, IoBuf, Key, Kv, Label, NewValue, ObjectClass,
    ObjectType, Oid, Page, Payload, Pool, PropId, PropValue, Props, PutCond, Recx, UpdateIod,
};
use dolmen_local::{LocalPool, OpenOptions, PoolOptions};
use dolmen_types::Durability;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Rounds and seed, unless `KILL_ALL_ROUNDS` and `KILL_ALL_SEED` say otherwise.
const ROUNDS: u64 = 100;
const SEED: u64 = 5;
const NAME: &str = "killed::no_kill_loses_what_was_acknowledged_or_halves_what_was_under_way";
/// Set for the child: where its pool is, and the first number of its steps.
const DIRECTORY: &str = "KILL_ALL_DIRECTORY";
const FIRST: &str = "KILL_ALL_FIRST";

const ARRAY_BYTES: u64 = 60_000;
const CHUNK_BYTES: u64 = 4096;
const SNAPSHOTS_MAX: usize = 3;
const LABELS: [&str; 2] = ["process", "power"];

/// Keys and values of one key-value store.
type Values = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a container holds.
#[derive(Clone, PartialEq, Eq, Default)]
struct Tree {
    stores: [Values; 3],
    array: Vec<u8>,
}

/// A container with its snapshots, oldest first.
#[derive(Clone, PartialEq, Eq, Default)]
struct State {
    now: Tree,
    snapshots: Vec<Tree>,
}

/// One step, on one container.
enum Step {
    Put(usize, Vec<u8>, Vec<u8>),
    Remove(usize, Vec<u8>),
    /// Bytes of one chunk: what spans several is no single operation.
    Write(u64, Vec<u8>),
    Cut(u64, u64),
    /// The same key of two stores, in a transaction that reads one of them.
    Both(Vec<u8>, Vec<u8>),
    /// Several keys of several stores, in a batch.
    Many(Vec<(usize, Vec<u8>, Vec<u8>)>),
    Clear(usize),
    Snapshot,
    Aggregate,
    Checkpoint,
}

fn key(number: u64) -> Vec<u8> {
    format!("key {}", number % 23).into_bytes()
}

/// Small and large values, each of its own length and content.
fn value(number: u64) -> Vec<u8> {
    let bytes = if number.is_multiple_of(5) { 5000 + number % 9000 } else { 1 + number % 700 };
    (0..bytes).map(|at| (at.wrapping_mul(7) + number).to_le_bytes()[0]).collect()
}

/// The step with a number, and the container that it is for.
fn step(number: u64) -> (usize, Step) {
    let seed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 17;
    let store = usize::try_from(seed % 3).unwrap();
    let at = seed % ARRAY_BYTES;
    let room = CHUNK_BYTES - at % CHUNK_BYTES;
    let step = match number % 16 {
        0..=3 => Step::Put(store, key(seed), value(number)),
        4 => Step::Remove(store, key(seed)),
        5..=7 => {
            let mut bytes = value(number);
            bytes.truncate(usize::try_from(room).unwrap());
            Step::Write(at, bytes)
        }
        8 => Step::Cut(at, room.min(1 + seed % 3000)),
        9 | 10 => Step::Both(key(seed), value(number)),
        11 | 12 => {
            let part =
                |part: u64| (usize::try_from(part % 3).unwrap(), key(seed + part), value(number + part));
            Step::Many((0..5).map(part).collect())
        }
        13 => Step::Snapshot,
        14 if number % 32 == 14 => Step::Aggregate,
        14 => Step::Checkpoint,
        _ if number % 64 == 15 => Step::Clear(store),
        _ => Step::Put(store, key(seed + 1), value(number)),
    };
    (usize::try_from(number / 16 % 2).unwrap(), step)
}

impl State {
    /// What a step makes of it.
    fn apply(&mut self, step: Step) {
        let now = &mut self.now;
        match step {
            Step::Put(store, key, value) => drop(now.stores[store].insert(key, value)),
            Step::Remove(store, key) => drop(now.stores[store].remove(&key)),
            Step::Write(at, bytes) => {
                let at = usize::try_from(at).unwrap();
                now.array.resize(now.array.len().max(at + bytes.len()), 0);
                now.array[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            Step::Cut(at, count) => {
                let len = now.array.len();
                let [from, to] = [at, at + count].map(|at| usize::try_from(at).unwrap().min(len));
                now.array[from..to].fill(0);
            }
            Step::Both(key, value) => {
                now.stores[0].insert(key.clone(), value.clone());
                now.stores[1].insert(key, value);
            }
            Step::Many(parts) => {
                for (store, key, value) in parts {
                    now.stores[store].insert(key, value);
                }
            }
            Step::Clear(store) => now.stores[store].clear(),
            Step::Snapshot if self.snapshots.len() == SNAPSHOTS_MAX => drop(self.snapshots.remove(0)),
            Step::Snapshot => self.snapshots.push(self.now.clone()),
            Step::Aggregate | Step::Checkpoint => {}
        }
    }
}

/// The containers, and the objects that each has.
struct Open {
    pool: Pool,
    conts: Vec<Container>,
}

fn oid(cont: &Container, kind: ObjectType, number: u64) -> Oid {
    cont.oid(kind, ObjectClass::SX, 0, number).unwrap()
}

fn array_of(cont: &Container) -> Array {
    Array::open_with(cont, oid(cont, ObjectType::ArrayByte, 9), 1, CHUNK_BYTES).unwrap()
}

fn stores_of(cont: &Container) -> Vec<Kv> {
    (1..4).map(|number| Kv::open(cont, oid(cont, ObjectType::KvHashed, number)).unwrap()).collect()
}

impl Open {
    fn new(directory: &Path) -> Self {
        let local: Arc<LocalPool> = Arc::new(dolmen_local::open(directory, &OpenOptions::default()).unwrap());
        let pool = Pool::connect(local, Credentials::default()).unwrap();
        let open = |label: &&str| pool.open_container(&ContName::Label(Label::new(label).unwrap())).unwrap();
        let conts = LABELS.iter().map(open).collect();
        Self { pool, conts }
    }

    fn run(&self, number: u64) {
        let (cont, step) = step(number);
        let cont = &self.conts[cont];
        let (stores, array) = (stores_of(cont), array_of(cont));
        match step {
            Step::Put(store, key, value) => {
                stores[store].put(At::Latest, &key, &value, PutCond::None).unwrap();
            }
            Step::Remove(store, key) => drop(stores[store].remove(At::Latest, &key, false).unwrap()),
            Step::Write(at, bytes) => {
                array.write(At::Latest, &[Recx::new(at, bytes.len() as u64)], &bytes).unwrap();
            }
            Step::Cut(at, count) => array.punch(At::Latest, &[Recx::new(at, count)]).unwrap(),
            Step::Both(key, value) => cont
                .transact(|tx| {
                    stores[0].get(At::Tx(tx), &key, &mut IoBuf::default())?;
                    stores[0].put(At::Tx(tx), &key, &value, PutCond::None)?;
                    stores[1].put(At::Tx(tx), &key, &value, PutCond::None)?;
                    Ok::<(), Error>(())
                })
                .unwrap(),
            Step::Many(parts) => {
                let mut batch = cont.batch();
                for (store, key, value) in &parts {
                    let value = NewValue::Single(Payload::Ref(value));
                    let iod = UpdateIod { akey: Key::from_slice(b"0"), cond: Cond::NONE, value };
                    batch.update(stores[*store].object(), key, Cond::NONE, &[iod]);
                }
                batch.commit().unwrap();
            }
            Step::Clear(store) => drop(stores[store].destroy(At::Latest).unwrap()),
            Step::Snapshot => {
                let snapshots = cont.snapshots().unwrap();
                if snapshots.len() == SNAPSHOTS_MAX {
                    cont.destroy_snapshot(snapshots[0].epoch).unwrap();
                } else {
                    cont.create_snapshot(None).unwrap();
                }
            }
            Step::Aggregate => drop(cont.aggregate(dolmen_client::Epoch::ZERO).unwrap()),
            Step::Checkpoint => self.pool.checkpoint().unwrap(),
        }
    }

    /// Everything that there is.
    fn states(&self) -> Vec<State> {
        let state = |cont: &Container| State {
            now: read(cont),
            snapshots: cont.snapshots().unwrap().iter().map(|kept| read(&cont.at(kept.epoch))).collect(),
        };
        self.conts.iter().map(state).collect()
    }
}

fn read(cont: &Container) -> Tree {
    let mut tree = Tree::default();
    let mut value = IoBuf::default();
    for (store, found) in stores_of(cont).iter().zip(&mut tree.stores) {
        let mut anchor = dolmen_client::Anchor::default();
        while !anchor.is_eof() {
            for key in store.list(At::Latest, &mut anchor, Page::default()).unwrap().iter() {
                store.get_existing(At::Latest, key, &mut value).unwrap();
                found.insert(key.to_vec(), value.to_vec());
            }
        }
    }
    array_of(cont).read(At::Latest, &[Recx::new(0, ARRAY_BYTES + CHUNK_BYTES)], &mut value).unwrap();
    tree.array = value.to_vec();
    tree
}

/// What is read of an array does not tell how long it is: zeros at its end count for nothing.
fn trimmed(mut states: Vec<State>) -> Vec<State> {
    let trees =
        states.iter_mut().flat_map(|state| core::iter::once(&mut state.now).chain(&mut state.snapshots));
    for tree in trees {
        let used = tree.array.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        tree.array.truncate(used);
    }
    states
}

/// The child: step after step, and says so, until it is killed.
fn run_for_ever(directory: &Path, first: u64) {
    let open = Open::new(directory);
    for number in first.. {
        open.run(number);
        eprintln!("acknowledged {number}");
    }
}

fn child(directory: &Path, first: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([NAME, "--exact", "--nocapture"]);
    command.env(DIRECTORY, directory).env(FIRST, first.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Lets a child go on from `first` and kills it after so many steps; the first that it has not acknowledged.
fn run_and_kill(directory: &Path, first: u64, steps: u64) -> u64 {
    let mut child = child(directory, first);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let (mut next, mut killed) = (first, false);
    while let Some(line) = said.next().transpose().unwrap() {
        let number = line.strip_prefix("acknowledged ").and_then(|number| number.parse::<u64>().ok());
        if number.is_none() && killed {
            // The end of a line that the kill cut off.
            break;
        }
        let mut rest = || said.by_ref().map_while(Result::ok).collect::<Vec<_>>().join("\n");
        assert!(number == Some(next), "the child says {line:?} after {next} steps: {}", rest());
        next += 1;
        if !killed && next - first == steps {
            child.kill().unwrap();
            killed = true;
        }
    }
    assert_eq!(child.wait().unwrap().signal(), Some(9), "the child ended by itself");
    next
}

fn create(directory: &Path) {
    let options = PoolOptions {
        targets: 3,
        capacity_bytes: 3 << 30,
        log_segment_bytes: 256 << 10,
        bulk_segment_bytes: 1 << 20,
        checkpoint_log_bytes: 1 << 20,
        volatile: true,
        ..PoolOptions::default()
    };
    dolmen_local::create(directory, &options).unwrap();
    let local = Arc::new(dolmen_local::open(directory, &OpenOptions::default()).unwrap());
    let pool = Pool::connect(Arc::<LocalPool>::clone(&local), Credentials::default()).unwrap();
    for (label, durability) in LABELS.iter().zip([Durability::Process, Durability::Power]) {
        let number = PropValue::Number(durability as u64);
        let props = Props::from([(PropId::CO_DURABILITY, number)]);
        pool.create_container(Some(Label::new(label).unwrap()), props).unwrap();
    }
}

#[test]
fn no_kill_loses_what_was_acknowledged_or_halves_what_was_under_way() {
    if let (Some(directory), Ok(first)) = (std::env::var_os(DIRECTORY), std::env::var(FIRST)) {
        return run_for_ever(directory.as_ref(), first.parse().unwrap());
    }
    let place = Place::new("killed");
    let directory = place.path("p");
    create(&directory);
    let (rounds, seed) = (amount("KILL_ALL_ROUNDS", ROUNDS), amount("KILL_ALL_SEED", SEED));
    let mut rng = dolmen_env::Rng::from_seed(seed);
    let mut expected = vec![State::default(); LABELS.len()];
    let (mut first, mut under_way) = (0, 0);
    for round in 0..rounds {
        let next = run_and_kill(&directory, first, 1 + rng.below(80));
        for number in first..next {
            let (cont, step) = step(number);
            expected[cont].apply(step);
        }
        first = next;
        let open = Open::new(&directory);
        let found = trimmed(open.states());
        if found != trimmed(expected.clone()) {
            // The step after the last acknowledged one was under way, and has happened.
            let (cont, step) = step(next);
            expected[cont].apply(step);
            (first, under_way) = (next + 1, under_way + 1);
            assert!(found == trimmed(expected.clone()), "seed {seed}, round {round}, step {next}");
        }
        for audit in open.pool.check().unwrap() {
            assert_eq!(audit.findings, [], "seed {seed}, round {round}, step {next}");
        }
    }
    assert!(first > rounds * 20, "{first} steps, {under_way} of them under way when a kill came");
    dolmen_local::destroy(&directory).unwrap();
}
