//! Transactions over four targets and a bad network are atomic and serialisable: on reference models, and on
//! engines whose disks lose what was not flushed.

use crate::engine::{EngineSubject, START_NS};
use crate::workload::{CLIENTS, Planned, Summary, World};
use dolmen_env::{Media, SimClock};
use dolmen_sim::net::{Faults, Moment, Reach};
use dolmen_sim::{ModelSubject, Subject};
use dolmen_types::{Durability, TargetNo};

const BAD: Faults = Faults {
    drop_one_in: 25,
    duplicate_one_in: 15,
    crash_before_one_in: 300,
    crash_after_one_in: 300,
    delay_one_in: 12,
};

fn models() -> Vec<ModelSubject> {
    let clock = SimClock::new(START_NS);
    (0..4).map(|target| ModelSubject::with_clock(TargetNo(target), clock.clone())).collect()
}

/// Two targets on memory, two on block devices, as tiers of one pool are.
fn engines(seed: u64) -> Vec<EngineSubject> {
    let clock = SimClock::new(START_NS);
    let media = [Media::Mapped, Media::Block, Media::Block, Media::Mapped];
    (0..4).zip(media).map(|(target, media)| EngineSubject::new(seed, media, target, &clock)).collect()
}

fn run<S: Subject>(seed: u64, faults: Faults, transactions: u32, targets: Vec<S>) -> Summary {
    println!("seed {seed}");
    World::new(seed, faults, targets).run(CLIENTS, transactions)
}

fn good_network<S: Subject>(seeds: std::ops::Range<u64>, targets: impl Fn(u64) -> Vec<S>) -> usize {
    let mut committed = 0;
    for seed in seeds {
        let summary = run(seed, Faults::NONE, 25, targets(seed));
        assert_eq!((summary.net.dropped, summary.net.crashed), (0, 0), "seed {seed}");
        committed += summary.committed;
    }
    committed
}

fn bad_network<S: Subject>(seeds: std::ops::Range<u64>, targets: impl Fn(u64) -> Vec<S>) -> Summary {
    let mut sum = Summary::default();
    for seed in seeds {
        let summary = run(seed, BAD, 25, targets(seed));
        sum.committed += summary.committed;
        sum.restarted += summary.restarted;
        sum.unknown += summary.unknown;
        sum.settled += summary.settled;
        sum.net.crashed += summary.net.crashed;
        sum.net.duplicated += summary.net.duplicated;
    }
    println!("{sum:?}");
    sum
}

#[test]
fn histories_over_a_good_network_are_serialisable() {
    let committed = good_network(0..20, |_| models());
    assert!(committed > 1000, "{committed} committed");
}

#[test]
fn histories_of_engines_over_a_good_network_are_serialisable() {
    let committed = good_network(0..8, engines);
    assert!(committed > 400, "{committed} committed");
}

#[test]
fn histories_over_a_bad_network_are_serialisable_and_atomic() {
    let sum = bad_network(100..160, |_| models());
    assert!(sum.committed > 2000, "{sum:?}");
    assert!(sum.restarted > 200, "{sum:?}");
    assert!(sum.unknown > 50, "{sum:?}");
    assert!(sum.settled > 50, "{sum:?}");
    assert!(sum.net.crashed > 100, "{sum:?}");
}

#[test]
fn histories_of_engines_over_a_bad_network_are_serialisable_and_atomic() {
    // A soak run sets these two.
    let number = |variable: &str, usual| std::env::var(variable).map_or(usual, |text| text.parse().unwrap());
    let first = number("NETWORK_FIRST_SEED", 100);
    let sum = bad_network(first..first + number("NETWORK_SEEDS", 30), engines);
    assert!(sum.committed > 1000, "{sum:?}");
    assert!(sum.restarted > 100, "{sum:?}");
    assert!(sum.unknown > 25, "{sum:?}");
    assert!(sum.settled > 25, "{sum:?}");
    assert!(sum.net.crashed > 50, "{sum:?}");
}

/// A short run of three clients in which nothing fails but what is planned.
fn planned(seed: u64, plan: Planned) -> Summary {
    println!("seed {seed}, {plan:?}");
    World::planned(Durability::Power, seed, plan, engines(seed)).run(3, 3)
}

/// The same where what is acknowledged survives the process alone, which is all that dies.
fn planned_kill(seed: u64, plan: Planned) -> Summary {
    println!("seed {seed}, {plan:?}");
    let targets = engines(seed).into_iter().map(EngineSubject::killed).collect();
    World::planned(Durability::Process, seed, plan, targets).run(3, 3)
}

fn crash_at_any_message(planned: impl Fn(u64, Planned) -> Summary) {
    let mut crashes = 0;
    for seed in 0..6 {
        let beyond = Planned::Message(u64::MAX, Moment::Before, Reach::Target);
        let messages = planned(seed, beyond).messages;
        assert!(messages > 30, "seed {seed}: {messages} messages");
        for message in 0..messages {
            for moment in [Moment::Before, Moment::Within, Moment::After] {
                for reach in [Reach::Target, Reach::Process] {
                    crashes += planned(seed, Planned::Message(message, moment, reach)).net.crashed;
                }
            }
        }
    }
    assert!(crashes > 1000, "{crashes}");
}

fn death_at_any_event(planned: impl Fn(u64, Planned) -> Summary) {
    let mut unknown = 0;
    for seed in 0..6 {
        let events = planned(seed, Planned::Coordinator(u64::MAX)).events;
        assert!(events > 10, "seed {seed}: {events} events");
        for event in 0..events {
            unknown += planned(seed, Planned::Coordinator(event)).unknown;
        }
    }
    assert!(unknown > 50, "{unknown}");
}

#[test]
fn a_crash_at_any_message_leaves_every_transaction_whole() {
    crash_at_any_message(planned);
}

#[test]
fn the_death_of_a_coordinator_at_any_event_leaves_every_transaction_whole() {
    death_at_any_event(planned);
}

#[test]
fn a_kill_at_any_message_or_event_leaves_every_transaction_whole_where_nothing_is_flushed() {
    crash_at_any_message(planned_kill);
    death_at_any_event(planned_kill);
}

#[test]
fn histories_with_kills_are_serialisable_and_atomic_where_nothing_is_flushed() {
    let mut committed = 0;
    for seed in 100..120 {
        println!("seed {seed}");
        let targets = engines(seed).into_iter().map(EngineSubject::killed).collect();
        let summary = World::with_durability(Durability::Process, seed, BAD, targets).run(CLIENTS, 25);
        committed += summary.committed;
    }
    assert!(committed > 600, "{committed} committed");
}

#[test]
fn a_commit_on_two_targets_blocks_no_third() {
    let mut messages = 0;
    // Neither, one, or both have prepared; the leader has not decided.
    for reached in 0..3 {
        messages += World::new(1, Faults::NONE, models()).run_beside_a_hanging_commit(reached);
        messages += World::new(1, Faults::NONE, engines(1)).run_beside_a_hanging_commit(reached);
    }
    assert!(messages > 150, "{messages}");
}

#[test]
fn same_seed_gives_the_same_run() {
    for seed in [7, 8] {
        assert_eq!(run(seed, BAD, 20, models()), run(seed, BAD, 20, models()));
        assert_eq!(run(seed, BAD, 10, engines(seed)), run(seed, BAD, 10, engines(seed)));
    }
    assert_ne!(run(7, BAD, 20, models()).digest, run(8, BAD, 20, models()).digest);
}
