//! Files on behalf of a user, asked for by whatever bytes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod driven;
mod lasting;

use dolmen_env::Rng;
use std::path::Path;

#[test]
fn no_session_of_the_corpus_harms_anything() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/files_session");
    let inputs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!inputs.is_empty());
    for input in inputs {
        println!("{}", input.display());
        driven::files_session(&std::fs::read(&input).unwrap());
    }
}

#[test]
fn whatever_a_user_asks_for_he_gets_nothing_that_is_not_his_and_harms_nothing() {
    let seed = Rng::from_entropy().unwrap().next_u64();
    println!("seed {seed}");
    let mut rng = Rng::from_seed(seed);
    let mut done = [0_usize; 64];
    for _ in 0..400 {
        let bytes: Vec<u8> = (0..6000).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
        for (sum, count) in done.iter_mut().zip(driven::files_session(&bytes)) {
            *sum += count;
        }
    }
    // What is refused before anything is looked at would show nothing.
    for (code, name) in driven::CHANGES_AND_READS {
        assert!(done[code] > 0, "no {name} was ever done: {done:?}");
    }
}
