//! What fuzzing has found, and what it starts from, once more: the corpus below `fuzz/corpus`.

use crate::fuzzed::TARGETS;
use dolmen_env::Rng;
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

#[test]
fn nothing_of_the_corpus_panics() {
    for (target, run) in TARGETS {
        for (name, bytes) in corpus(target) {
            println!("{name}");
            run(&bytes);
        }
    }
}

/// Every input of the corpus with a few bytes changed, inserted, cut off or taken from another one, from a seed: a soak run takes more
/// rounds and other seeds.
#[test]
fn inputs_of_the_corpus_changed_a_little_do_not_panic() {
    let amount = |variable: &str, usual: u64| -> u64 {
        std::env::var(variable).map_or(usual, |text| text.parse().expect("a soak run sets a number"))
    };
    let first = amount("CHANGED_FIRST_SEED", 0);
    for (target, run) in TARGETS {
        let inputs = corpus(target);
        for seed in first..first + amount("CHANGED_ROUNDS", 4) {
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
