//! What fuzzing has found, and what it starts from, once more: the corpus below `fuzz/corpus`.

use crate::engine::EngineSubject;
use crate::inputs::{assert_no_panic, assert_no_panic_when_changed};
use crate::{forged, hostile};
use dolmen_env::{Media, Rng, SimClock};
use dolmen_sim::fuzz;

#[test]
fn no_record_of_the_corpus_panics() {
    for (name, run) in fuzz::RECORDS {
        assert_no_panic(name, run);
    }
}

#[test]
fn the_engine_agrees_with_the_model_on_every_operation_of_the_corpus() {
    assert_no_panic("operations", |bytes| {
        for media in [Media::Block, Media::Mapped] {
            let clock = SimClock::new(crate::engine::START_NS);
            fuzz::operations(&bytes[1..], &mut EngineSubject::new(1, media, 1, &clock));
        }
    });
}

#[test]
fn no_forged_store_of_the_corpus_panics() {
    for (name, run) in hostile::FORGERIES {
        assert_no_panic(name, run);
    }
}

#[test]
fn no_forged_record_of_the_corpus_panics() {
    for (name, run) in forged::FORGERIES {
        assert_no_panic(name, run);
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

#[test]
fn inputs_of_the_corpus_changed_a_little_do_not_panic() {
    let targets = fuzz::RECORDS.into_iter().chain(hostile::FORGERIES).chain(forged::FORGERIES);
    assert_no_panic_when_changed(targets, 1);
}
