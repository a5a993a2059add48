//! Inputs of the corpus below `fuzz/corpus`, as they are and changed a little; for the tests of every crate that has targets.

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

/// Runs a target on every input of its corpus: none panics.
pub(crate) fn assert_no_panic(target: &str, run: impl Fn(&[u8])) {
    for (name, bytes) in corpus(target) {
        println!("{name}");
        run(&bytes);
    }
}

/// The same of every input of targets with a few bytes changed, inserted, cut off or taken from another one, from so many seeds: a soak run takes
/// more rounds and other seeds.
pub(crate) fn assert_no_panic_when_changed<'t>(
    targets: impl IntoIterator<Item = (&'t str, fn(&[u8]))>,
    usual_rounds: u64,
) {
    let amount = |variable: &str, usual: u64| -> u64 {
        std::env::var(variable).map_or(usual, |text| text.parse().expect("a soak run sets a number"))
    };
    let first = amount("CHANGED_FIRST_SEED", 0);
    for (target, run) in targets {
        let inputs = corpus(target);
        for seed in first..first + amount("CHANGED_ROUNDS", usual_rounds) {
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
