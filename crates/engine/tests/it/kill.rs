//! A writing process is killed, over and over; what it acknowledged stays.

use crate::rig::{Rig, amount, oid, small_config};
use dolmen_codec::order::HashKey;
use dolmen_codec::verb::{ContSpec, ContVerb, Verb};
use dolmen_engine::{Devices, Target, TargetConfig};
use dolmen_env::{Media, RealDisk, Rng};
use dolmen_types::Durability;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Rounds and seed, unless `KILL_ROUNDS` and `KILL_SEED` say otherwise.
const ROUNDS: u64 = 200;
const SEED: u64 = 11;
const KEYS: u64 = 64;
const NAME: &str = "kill::no_kill_of_the_process_loses_an_acknowledged_write";
/// Set for the child: where its store is, and the first number that it writes.
const DIRECTORY: &str = "KILL_DIRECTORY";
const FIRST: &str = "KILL_FIRST";

/// Nothing is aggregated here, so the store keeps every version.
fn roomy() -> TargetConfig {
    TargetConfig { capacity_bytes: 8 << 30, ..small_config() }
}

fn devices(directory: &Path) -> Devices {
    Devices { meta: Box::new(RealDisk::open(directory).unwrap()), bulk: None }
}

fn open(directory: &Path, rig: &mut Rig) {
    let (target, recovery) =
        Target::open(devices(directory), Arc::new(rig.clock.clone()), &rig.config).unwrap();
    rig.target = Some(target);
    rig.recovery = recovery;
}

fn key(number: u64) -> [u8; 1] {
    [u8::try_from(number % KEYS).unwrap()]
}

/// Small and bulk values, each of its own length and content.
fn value(number: u64) -> Vec<u8> {
    let bytes = if number.is_multiple_of(7) { 5000 + number % 3000 } else { 8 + number % 600 };
    let mut value: Vec<u8> = (0..bytes).map(|at| u8::try_from((at + number) % 251).unwrap()).collect();
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

/// The child: writes number after number, and says so, until it is killed.
fn write_for_ever(directory: &Path, first: u64) {
    let mut rig = Rig::bare(Media::Block, roomy());
    open(directory, &mut rig);
    for number in first.. {
        rig.put(oid(1), &key(number), b"a", &value(number)).unwrap();
        eprintln!("acknowledged {number}");
        if number.is_multiple_of(97) {
            rig.ask(Verb::Checkpoint).unwrap();
        }
    }
}

fn child(directory: &Path, first: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([NAME, "--exact", "--nocapture"]);
    command.env(DIRECTORY, directory).env(FIRST, first.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Lets a child write from `first` and kills it after it has said `lines` times that it wrote; returns the
/// first number that it has not acknowledged.
fn write_and_kill(directory: &Path, first: u64, lines: u64) -> u64 {
    let mut child = child(directory, first);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut next = first;
    let mut killed = lines == 0;
    if killed {
        child.kill().unwrap();
    }
    while let Some(line) = said.next().transpose().unwrap() {
        let number = line.strip_prefix("acknowledged ").and_then(|number| number.parse::<u64>().ok());
        if number.is_none() && killed {
            // The end of a line that the kill cut off.
            break;
        }
        assert_eq!(number, Some(next), "the child says {line:?}");
        next += 1;
        if !killed && next - first == lines {
            child.kill().unwrap();
            killed = true;
        }
    }
    assert_eq!(child.wait().unwrap().signal(), Some(9), "the child ended by itself");
    next
}

#[test]
fn no_kill_of_the_process_loses_an_acknowledged_write() {
    if let (Some(directory), Ok(first)) = (std::env::var_os(DIRECTORY), std::env::var(FIRST)) {
        return write_for_ever(&PathBuf::from(directory), first.parse().unwrap());
    }
    // Where the build lies: on a disk, unless the target directory is in memory.
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let directory = parent.join(format!("dolmen-kill.{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut rig = Rig::bare(Media::Block, roomy());
    let clock = Arc::new(rig.clock.clone());
    rig.target = Some(Target::create(devices(&directory), clock, 7, &rig.config).unwrap());
    let spec = ContSpec { hash_key: HashKey([5; 16]), durability: Durability::Process };
    rig.ask(Verb::Cont(ContVerb::Create(spec))).unwrap();
    rig.target.take().unwrap().close().unwrap();

    let (rounds, seed) = (amount("KILL_ROUNDS", ROUNDS), amount("KILL_SEED", SEED));
    let mut rng = Rng::from_seed(seed);
    let mut expected = BTreeMap::<[u8; 1], u64>::new();
    let mut first = 0;
    for round in 0..rounds {
        let next = write_and_kill(&directory, first, rng.below(60));
        expected.extend((first..next).map(|number| (key(number), number)));
        open(&directory, &mut rig);
        // The write after the last acknowledged one was under way: it is there whole or not at all.
        if rig.get(oid(1), &key(next), b"a") == Some(value(next)) {
            expected.insert(key(next), next);
        }
        for (key, &number) in &expected {
            let found = rig.get(oid(1), key, b"a");
            assert!(found == Some(value(number)), "seed {seed}, round {round}: number {number} is not there");
        }
        rig.assert_clean();
        rig.target = None;
        first = next + 1;
    }
    assert!(first > rounds * 20, "{first} writes");
    std::fs::remove_dir_all(&directory).unwrap();
}
