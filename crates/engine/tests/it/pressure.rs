//! Writers that are faster than checkpoints and merges: they help, and nothing grows beyond its bound.

use crate::rig::{Rig, oid, small_config};
use dolmen_codec::verb::{Mutation, NewValue, Payload, Update, UpdateIod};
use dolmen_engine::TargetConfig;
use dolmen_env::Media;
use dolmen_env::sim::CrashPlan;
use dolmen_types::{Cond, Durability, Key, ObjectClass, ObjectType, Oid};
use smallvec::smallvec;

const BUDGET_BYTES: u64 = 2 << 20;
/// As in docs/operating.md.
const RUNS_LIMIT: usize = 32;

#[test]
fn memory_and_runs_stay_bounded_when_nobody_does_the_background_work() {
    for media in [Media::Block, Media::Mapped] {
        let config = TargetConfig {
            capacity_bytes: 512 << 20,
            log_segment_bytes: 1 << 20,
            memory_budget_bytes: BUDGET_BYTES,
            ..small_config()
        };
        let mut rig = Rig::with_config(media, Durability::Process, config);
        let oid = Oid::new(ObjectType::MultiUint64, ObjectClass::S1, 0, 1);
        let (mut highest, mut runs_highest) = (0, 0);
        for number in 0..150_000u64 {
            let dkey = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            rig.put(oid, &dkey, &[7; 8], &number.to_le_bytes()).unwrap();
            if number % 256 == 0 {
                highest = highest.max(rig.target.as_ref().unwrap().memory_bytes());
            }
            if number % 8192 == 0 {
                let runs = rig.drive.files().iter().filter(|(name, _)| name.starts_with("run.")).count();
                runs_highest = runs_highest.max(runs);
            }
        }
        assert!(highest < BUDGET_BYTES + (512 << 10), "{highest} bytes");
        assert!((2..=RUNS_LIMIT + 2).contains(&runs_highest), "{runs_highest} runs");
        for number in (0..150_000u64).step_by(1009) {
            let dkey = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            let found = rig.get_within(64, oid, &dkey, &[7; 8], dolmen_codec::verb::ReadAt::Latest);
            assert_eq!(found, Some(number.to_le_bytes().to_vec()));
        }
        rig.assert_clean();
    }
}

/// Nobody but the writers checkpoints: what a recovery would have to read stays bounded as well, whether it
/// comes as updates or as transactions.
#[test]
fn the_log_stays_bounded_when_nobody_does_the_background_work() {
    const CHECKPOINT_BYTES: u64 = 1 << 20;
    for (media, in_transactions) in [(Media::Block, false), (Media::Mapped, true)] {
        let config = TargetConfig {
            capacity_bytes: 512 << 20,
            log_segment_bytes: 128 << 10,
            memory_budget_bytes: 64 << 20,
            checkpoint_log_bytes: CHECKPOINT_BYTES,
            ..small_config()
        };
        let mut rig = Rig::with_config(media, Durability::Process, config);
        let mut frames_highest = 0;
        for number in 0..4000u64 {
            let value = vec![number.to_le_bytes()[0]; 4000];
            let dkey = [(number % 16).to_le_bytes()[0]];
            if in_transactions {
                let value = NewValue::Single(Payload::Ref(&value));
                let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value };
                let (oid, dkey) = (oid(1), Key::from_slice(&dkey));
                let update = Update { oid, dkey, cond: Cond::NONE, iods: smallvec![iod], charged: None };
                rig.commit(vec![Mutation::Update(update)]).unwrap();
            } else {
                rig.put(oid(1), &dkey, b"a", &value).unwrap();
            }
            if number % 199 == 0 {
                frames_highest = frames_highest.max(rig.after_crash(CrashPlan::Process).recovery.frames);
            }
        }
        // Two shares before the newest checkpoint began, two behind it, and a segment at each end.
        let frames_max = 5 * CHECKPOINT_BYTES / 4000;
        assert!(frames_highest < frames_max, "{frames_highest} frames on {media:?}");
        rig.crash(CrashPlan::Process);
        let found = rig.get_within(4000, oid(1), &[15], b"a", dolmen_codec::verb::ReadAt::Latest);
        assert_eq!(found, Some(vec![3999u64.to_le_bytes()[0]; 4000]));
        rig.assert_clean();
    }
}
