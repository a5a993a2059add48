//! Random operations on the engine and the reference model side by side.

use crate::conformance::EngineSubject;
use crate::rig::{Rig, amount, small_config};
use dolmen_engine::TargetConfig;
use dolmen_env::Media;
use dolmen_sim::Subject;
use dolmen_sim::compare::{Space, Tally, side_by_side_cut};

/// Small parts, so that checkpoints, merges, joins and new segments happen within a few hundred steps.
fn config() -> TargetConfig {
    TargetConfig {
        log_segment_bytes: 64 << 10,
        bulk_segment_bytes: 1 << 20,
        small_value_bytes_max: 256,
        checkpoint_log_bytes: 24 << 10,
        ..small_config()
    }
}

/// Runs that many steps of each seed; how many changes were refused for want of space.
fn run_on(config: &TargetConfig, seeds: std::ops::Range<u64>, steps: usize, media: Media) -> u64 {
    run_over(Space::Wide, config, seeds, steps, media).refused
}

fn run_over(
    space: Space,
    config: &TargetConfig,
    seeds: std::ops::Range<u64>,
    steps: usize,
    media: Media,
) -> Tally {
    let mut sum = Tally::default();
    for seed in seeds {
        let mut open = || -> Box<dyn Subject> { Box::new(EngineSubject(Rig::bare(media, config.clone()))) };
        match side_by_side_cut(seed, steps, space, &mut open) {
            Ok(tally) => {
                sum.refused += tally.refused;
                sum.limited += tally.limited;
                sum.fitted += tally.fitted;
                sum.reported += tally.reported;
            }
            Err(divergence) => panic!("seed {seed} on {media:?}: {divergence:?}"),
        }
    }
    sum
}

fn run(seeds: std::ops::Range<u64>, steps: usize, media: Media) {
    assert_eq!(run_on(&config(), seeds, steps, media), 0, "there is room");
}

#[test]
fn the_engine_answers_as_the_model_on_block_media() {
    let (first, count) = (amount("SIDE_FIRST_SEED", 0), amount("SIDE_SEEDS", 12));
    run(first..first + count, 400, Media::Block);
}

#[test]
fn the_engine_answers_as_the_model_on_mapped_media() {
    let (first, count) = (amount("SIDE_FIRST_SEED", 0) + 100, amount("SIDE_SEEDS", 12));
    run(first..first + count, 400, Media::Mapped);
}

/// Few keys, extents within one another, and a snapshot, a rollback, an aggregation or a crash at every fourth step.
#[test]
fn the_engine_answers_as_the_model_where_rollbacks_and_aggregations_meet() {
    let (first, count) = (amount("SIDE_FIRST_SEED", 0) + 400, amount("SIDE_SEEDS", 12) * 10);
    for seed in first..first + count {
        let media = if seed % 2 == 0 { Media::Mapped } else { Media::Block };
        run_over(Space::Narrow, &config(), seed..seed + 1, 250, media);
    }
}

/// A joined extent is kept whole where only one of its parts is seen, and the model knows of none.
fn config_of_limits() -> TargetConfig {
    TargetConfig { join_extents_min: u32::MAX, ..config() }
}

/// Limits that are set, changed and lifted: who is charged what, who is refused, and what is free again.
#[test]
fn the_engine_charges_and_refuses_as_the_model() {
    let (first, count) = (amount("SIDE_FIRST_SEED", 0) + 500, amount("SIDE_SEEDS", 12) * 4);
    let mut sum = Tally::default();
    for seed in first..first + count {
        let media = if seed % 2 == 0 { Media::Mapped } else { Media::Block };
        let mut config = config_of_limits();
        if seed % 4 >= 2 {
            // So little log that runs are merged in tiers, by background work, too.
            (config.memory_budget_bytes, config.checkpoint_log_bytes) = (256 << 10, 4 << 10);
        }
        let tally = run_over(Space::Limited, &config, seed..seed + 1, 400, media);
        sum.limited += tally.limited;
        sum.fitted += tally.fitted;
        sum.reported += tally.reported;
    }
    assert!(sum.limited > 20 * count && sum.fitted > count && sum.reported > 5 * count, "{sum:?}");
}

/// Runs that once went apart.
#[test]
fn the_engine_answers_as_the_model_where_it_did_not() {
    for media in [Media::Block, Media::Mapped] {
        run(2052..2053, 700, media);
        for seed in [100_689, 200_045, 200_183] {
            run_over(Space::Limited, &config_of_limits(), seed..seed + 1, 400, media);
        }
    }
}

/// With so little memory that blocks of runs are read again and again, and so little log that runs are merged in tiers.
#[test]
fn the_engine_answers_as_the_model_with_hardly_any_memory() {
    let (first, count) = (amount("SIDE_FIRST_SEED", 0) + 200, amount("SIDE_SEEDS", 6));
    let config = TargetConfig { memory_budget_bytes: 256 << 10, checkpoint_log_bytes: 4 << 10, ..config() };
    for media in [Media::Block, Media::Mapped] {
        run_on(&config, first..first + count, 400, media);
    }
}

/// On a target that runs full: what is refused has changed nothing, and what was reclaimed nobody was promised.
#[test]
fn the_engine_answers_as_the_model_on_a_target_that_runs_full() {
    let (first, count) = (amount("SIDE_FIRST_SEED", 0) + 300, amount("SIDE_SEEDS", 6));
    let config = TargetConfig {
        capacity_bytes: 1 << 20,
        log_segment_bytes: 16 << 10,
        bulk_segment_bytes: 512 << 10,
        memory_budget_bytes: 1 << 20,
        ..config()
    };
    for media in [Media::Block, Media::Mapped] {
        let refused = run_on(&config, first..first + count, 600, media);
        assert!(refused > count, "{refused}");
    }
}
