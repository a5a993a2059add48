//! Transactions over four targets and a bad network are atomic and serialisable.

use crate::workload::{Summary, World};
use dolmen_env::SimClock;
use dolmen_sim::ModelSubject;
use dolmen_sim::net::Faults;
use dolmen_types::TargetNo;

const START_NS: u64 = 1_767_225_600_000_000_000;

const BAD: Faults = Faults {
    drop_one_in: 25,
    duplicate_one_in: 15,
    crash_before_one_in: 300,
    crash_after_one_in: 300,
    delay_one_in: 12,
};

fn run(seed: u64, faults: Faults, transactions: u32) -> Summary {
    println!("seed {seed}");
    let clock = SimClock::new(START_NS);
    let targets = (0..4).map(|target| ModelSubject::with_clock(TargetNo(target), clock.clone())).collect();
    World::new(seed, faults, targets).run(transactions)
}

#[test]
fn histories_over_a_good_network_are_serialisable() {
    let mut committed = 0;
    for seed in 0..20 {
        let summary = run(seed, Faults::NONE, 25);
        assert_eq!((summary.net.dropped, summary.net.crashed), (0, 0), "seed {seed}");
        committed += summary.committed;
    }
    assert!(committed > 1000, "{committed} committed");
}

#[test]
fn histories_over_a_bad_network_are_serialisable_and_atomic() {
    let mut sum = Summary::default();
    for seed in 100..160 {
        let summary = run(seed, BAD, 25);
        sum.committed += summary.committed;
        sum.restarted += summary.restarted;
        sum.unknown += summary.unknown;
        sum.settled += summary.settled;
        sum.net.crashed += summary.net.crashed;
        sum.net.duplicated += summary.net.duplicated;
    }
    println!("{sum:?}");
    assert!(sum.committed > 2000, "{sum:?}");
    assert!(sum.restarted > 200, "{sum:?}");
    assert!(sum.unknown > 50, "{sum:?}");
    assert!(sum.settled > 50, "{sum:?}");
    assert!(sum.net.crashed > 100, "{sum:?}");
}

#[test]
fn same_seed_gives_the_same_run() {
    assert_eq!(run(7, BAD, 20), run(7, BAD, 20));
    assert_ne!(run(7, BAD, 20).digest, run(8, BAD, 20).digest);
}
