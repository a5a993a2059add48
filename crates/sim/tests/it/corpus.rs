//! What fuzzing has found, and what it starts from, once more: the corpus below `fuzz/corpus`.

use crate::engine::EngineSubject;
use crate::{forged, hostile};
use dolmen_env::{Media, Rng, SimClock};
use dolmen_sim::fuzz;
use std::path::Path;

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut inputs: Vec<(String, Vec<u8>)> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{target} has no corpus");
    inputs
}

fn replay(target: &str, run: impl Fn(&[u8])) {
    for (name, bytes) in corpus(target) {
        println!("{name}");
        run(&bytes);
    }
}

#[test]
fn no_record_of_the_corpus_panics() {
    for (name, run) in fuzz::RECORDS {
        replay(name, run);
    }
}

#[test]
fn the_engine_agrees_with_the_model_on_every_operation_of_the_corpus() {
    replay("operations", |bytes| {
        for media in [Media::Block, Media::Mapped] {
            let clock = SimClock::new(crate::engine::START_NS);
            fuzz::operations(&bytes[1..], &mut EngineSubject::new(1, media, 1, &clock));
        }
    });
}

#[test]
fn no_forged_store_of_the_corpus_panics() {
    for (name, run) in hostile::FORGERIES {
        replay(name, run);
    }
}

#[test]
fn no_forged_record_of_the_corpus_panics() {
    for (name, run) in forged::FORGERIES {
        replay(name, run);
    }
}

#[test]
fn forgeries_from_a_seed_do_not_panic() {
    for seed in 0..150 {
        println!("seed {seed}");
        let mut rng = Rng::from_seed(seed);
        for (_, run) in hostile::FORGERIES.into_iter().chain(forged::FORGERIES) {
            let mut bytes = vec![0; 3 * (1 + rng.index(20))];
            rng.fill(&mut bytes);
            run(&bytes);
        }
    }
}

/// Every input of the corpus with a few bytes changed, inserted, cut off or taken from another one, from a seed:
/// a soak run takes more rounds and other seeds.
#[test]
fn inputs_of_the_corpus_changed_a_little_do_not_panic() {
    let amount = |variable: &str, usual: u64| -> u64 {
        std::env::var(variable).map_or(usual, |text| text.parse().expect("a soak run sets a number"))
    };
    let first = amount("CHANGED_FIRST_SEED", 0);
    let targets = fuzz::RECORDS.into_iter().chain(hostile::FORGERIES).chain(forged::FORGERIES);
    for (name, run) in targets {
        let inputs = corpus(name);
        for seed in first..first + amount("CHANGED_ROUNDS", 1) {
            for (number, (path, bytes)) in inputs.iter().enumerate() {
                println!("{path}, seed {seed}");
                let mut rng = Rng::from_seed(seed << 16 | number as u64);
                let other = &inputs[rng.index(inputs.len())].1;
                run(&changed(bytes.clone(), other, &mut rng));
            }
        }
    }
}

fn changed(mut bytes: Vec<u8>, other: &[u8], rng: &mut Rng) -> Vec<u8> {
    for _ in 0..=rng.index(4) {
        let at = rng.index(bytes.len() + 1);
        match rng.index(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, [0, 1, 0x7f, 0x80, 0xff][rng.index(5)]),
            2 => bytes.extend_from_slice(&other[rng.index(other.len() + 1)..]),
            _ if at == bytes.len() => {}
            3 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.index(5)],
            4 => bytes[at] ^= 1 << rng.index(8),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes
}
