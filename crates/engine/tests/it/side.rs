//! Random operations on the engine and the reference model side by side.

use crate::conformance::EngineSubject;
use crate::rig::{Rig, amount, small_config};
use dolmen_engine::TargetConfig;
use dolmen_env::Media;
use dolmen_sim::Subject;
use dolmen_sim::compare::side_by_side_cut;

fn run(seeds: std::ops::Range<u64>, steps: usize, media: Media) {
    for seed in seeds {
        // Small parts, so that checkpoints, merges and new segments happen within a few hundred steps.
        let config = TargetConfig {
            log_segment_bytes: 64 << 10,
            bulk_segment_bytes: 1 << 20,
            small_value_bytes_max: 256,
            checkpoint_log_bytes: 24 << 10,
            ..small_config()
        };
        let mut open = || -> Box<dyn Subject> { Box::new(EngineSubject(Rig::bare(media, config.clone()))) };
        if let Err(divergence) = side_by_side_cut(seed, steps, &mut open) {
            panic!("seed {seed} on {media:?}: {divergence:?}");
        }
    }
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

/// Runs that once went apart.
#[test]
fn the_engine_answers_as_the_model_where_it_did_not() {
    for media in [Media::Block, Media::Mapped] {
        run(2052..2053, 700, media);
    }
}
