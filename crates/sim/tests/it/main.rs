//! The reference model passes every scripted case, and agrees with itself side by side; transactions over four
//! models and over four engines are serialisable and atomic, whatever the network and the targets do.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod corpus;
mod engine;
mod forged;
mod hostile;
mod inputs;
mod transactions;
mod workload;

use dolmen_sim::{ModelSubject, compare, conformance};
use dolmen_types::TargetNo;

#[test]
fn model_passes_every_case() {
    conformance::run_all(|name| {
        println!("{name}");
        ModelSubject::new(TargetNo(3))
    });
}

#[test]
fn model_charges_and_refuses_as_another_model() {
    let mut sum = compare::Tally::default();
    for seed in 0..30 {
        println!("seed {seed}");
        let tally = compare::side_by_side_cut(seed, 400, compare::Space::Limited, &mut || {
            Box::new(ModelSubject::new(TargetNo(1)))
        })
        .unwrap();
        sum.limited += tally.limited;
        sum.fitted += tally.fitted;
        sum.reported += tally.reported;
    }
    assert!(sum.limited > 600 && sum.fitted > 30 && sum.reported > 150, "{sum:?}");
}

#[test]
fn model_agrees_with_another_model() {
    let mut sum = compare::Tally::default();
    for seed in 0..30 {
        println!("seed {seed}");
        let tally = compare::side_by_side_cut(seed, 400, compare::Space::Wide, &mut || {
            Box::new(ModelSubject::new(TargetNo(1)))
        })
        .unwrap();
        sum.prepared += tally.prepared;
        sum.restarted += tally.restarted;
        sum.doubted += tally.doubted;
    }
    assert!(sum.prepared > 200, "{sum:?}");
    assert!(sum.restarted > 50, "{sum:?}");
    assert!(sum.doubted > 50, "{sum:?}");
}
