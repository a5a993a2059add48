//! Power cuts and damage in the one moment that matters: while names are not flushed, while a checkpoint ends, while
//! a superblock is written, and again after a recovery.

use crate::rig::{CONT, Rig, oid, small_config, tiny};
use dolmen_codec::superblock::SUPERBLOCK_SLOT_BYTES;
use dolmen_codec::verb::{Mutation, NewValue, Payload, Prepare, Reply, Update, UpdateIod, Verb};
use dolmen_codec::{Op, Progress, TargetStore};
use dolmen_engine::TargetConfig;
use dolmen_env::sim::{CrashPlan, Fault};
use dolmen_env::{Clock, Media};
use dolmen_types::{Cond, Durability, Epoch, Error, Head, Key, TargetNo, TxId};
use smallvec::smallvec;

const SUPERBLOCK_FILE: &str = "super";

fn put(rig: &mut Rig, dkey: u16, value: &[u8]) -> Result<Epoch, Error> {
    rig.put(oid(1), &dkey.to_le_bytes(), b"a", value)
}

fn get(rig: &mut Rig, dkey: u16) -> Option<Vec<u8>> {
    rig.get(oid(1), &dkey.to_le_bytes(), b"a")
}

fn update(dkey: &[u8; 2], value: &'static [u8]) -> Update<'static> {
    let value = NewValue::Single(Payload::Ref(value));
    let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value };
    Update { oid: oid(1), dkey: Key::from_slice(dkey), cond: Cond::NONE, iods: smallvec![iod], charged: None }
}

/// Without a checkpoint, which flushes all names there are.
#[test]
fn a_segment_of_the_log_that_was_made_for_a_write_is_found_after_the_power_cut() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Power);
        for number in 0..500 {
            put(&mut rig, number, &[7; 900]).unwrap();
        }
        rig.crash(CrashPlan::None);
        assert!(rig.recovery.frames >= 500, "{media:?}: {:?}", rig.recovery);
        for number in 0..500 {
            assert_eq!(get(&mut rig, number), Some(vec![7; 900]), "{media:?}: {number}");
        }
        rig.assert_clean();
    }
}

/// What is written while a checkpoint is under way is flushed with its manifest or by the next flush, not by neither.
#[test]
fn writes_beside_a_checkpoint_are_durable_after_the_flush_behind_it() {
    for media in [Media::Block, Media::Mapped] {
        let config = TargetConfig { checkpoint_log_bytes: 64 << 10, ..small_config() };
        let mut rig = Rig::with_config(media, Durability::Process, config);
        let (mut number, mut checkpoints) = (0, 0);
        while checkpoints < 3 {
            let before = rig.space().run_bytes;
            put(&mut rig, number, &[9; 300]).unwrap();
            number += 1;
            let target = rig.target.as_mut().unwrap();
            if target.step() == Progress::More {
                target.poll(false, &mut Vec::new());
            }
            if rig.space().run_bytes == before {
                continue;
            }
            checkpoints += 1;
            rig.ask(Verb::Flush).unwrap();
            let mut after = rig.after_crash(CrashPlan::None);
            for number in 0..number {
                assert_eq!(get(&mut after, number), Some(vec![9; 300]), "{media:?}: {number}");
            }
            after.assert_clean();
        }
    }
}

/// Also where a write can tear between any two bytes.
#[test]
fn a_superblock_torn_at_any_byte_leaves_the_one_before_it() {
    let mut torn = 0;
    for at in 0.. {
        let mut rig = Rig::with_config(Media::Mapped, Durability::Power, tiny());
        put(&mut rig, 1, b"first").unwrap();
        rig.ask(Verb::Checkpoint).unwrap();
        put(&mut rig, 2, b"second").unwrap();
        rig.drive.power().fail_at(rig.drive.power().ops() + at, Fault::Crash);
        let checkpoint = rig.ask(Verb::Checkpoint);
        if !rig.drive.power().is_crashed() {
            checkpoint.unwrap();
            break;
        }
        let superblock = |plan| rig.drive.crash(plan).files().bytes(SUPERBLOCK_FILE).unwrap();
        let (old, new) = (superblock(CrashPlan::None), superblock(CrashPlan::All));
        let slots = || old.chunks(SUPERBLOCK_SLOT_BYTES).zip(new.chunks(SUPERBLOCK_SLOT_BYTES));
        let unsynced = slots().filter(|(old, new)| old != new).count();
        assert!(unsynced < 2, "boundary {at}: both slots can be torn");
        for cut in (0..old.len()).filter(|&at| old[at] != new[at]) {
            let drive = rig.drive.crash(CrashPlan::All);
            drive.corrupt(SUPERBLOCK_FILE, cut as u64, &old[cut..]).unwrap();
            let (clock, config) = (rig.clock.clone(), rig.config.clone());
            let mut after = Rig {
                drive,
                bulk: None,
                clock,
                config,
                target: None,
                recovery: rig.recovery,
                cont: rig.cont,
            };
            after.reopen();
            assert_eq!(get(&mut after, 1), Some(b"first".to_vec()), "boundary {at}, torn at {cut}");
            assert_eq!(get(&mut after, 2), Some(b"second".to_vec()), "boundary {at}, torn at {cut}");
            after.assert_clean();
            torn += 1;
        }
    }
    assert!(torn > 8, "{torn} tears");
}

/// The segment holds no value that counts: only what refers to bulk.
#[test]
fn the_segment_in_which_the_log_begins_is_kept_by_one_recovery_for_the_next() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::with_config(media, Durability::Power, tiny());
        put(&mut rig, 0, &[1; 1100]).unwrap();
        rig.ask(Verb::Checkpoint).unwrap();
        for number in 1..500 {
            put(&mut rig, number, &[2; 1100]).unwrap();
        }
        for recovery in 1..4 {
            rig.crash(CrashPlan::None);
            assert!(rig.recovery.frames >= 499, "{media:?}: {:?}", rig.recovery);
            for number in 1..500 {
                let found = get(&mut rig, number);
                assert_eq!(found, Some(vec![2; 1100]), "{media:?}, recovery {recovery}: {number}");
            }
            put(&mut rig, 500 + recovery, b"later").unwrap();
        }
        rig.assert_clean();
    }
}

/// A large write is cut off at each boundary; its frame may be there without its bulk.
#[test]
fn what_a_recovery_has_discarded_stays_discarded_after_the_next_power_cut() {
    let mut discarded = 0;
    for media in [Media::Block, Media::Mapped] {
        for at in 0.. {
            let mut rig = Rig::with_config(media, Durability::Power, tiny());
            put(&mut rig, 1, b"before").unwrap();
            rig.drive.power().fail_at(rig.drive.power().ops() + at, Fault::Crash);
            let answer = put(&mut rig, 2, &[5; 9000]);
            if !rig.drive.power().is_crashed() {
                answer.unwrap();
                break;
            }
            for plan in rig.drive.crash_plans(8) {
                let what = format!("boundary {at}, {plan:?}, {media:?}");
                let mut after = rig.after_crash(plan);
                discarded += u32::from(after.recovery.discarded_bytes > 0);
                let found = get(&mut after, 2);
                for number in 3..8 {
                    put(&mut after, number, &[6; 300]).unwrap();
                }
                after.crash(CrashPlan::None);
                assert_eq!(get(&mut after, 1), Some(b"before".to_vec()), "{what}");
                assert_eq!(get(&mut after, 2), found, "{what}");
                for number in 3..8 {
                    assert_eq!(get(&mut after, number), Some(vec![6; 300]), "{what}: {number}");
                }
                after.assert_clean();
            }
        }
    }
    assert!(discarded > 0, "no frame was discarded");
}

/// Three segments of frames that nobody has flushed; the first lacks a frame, so those behind it are discarded. However
/// many frames follow the recovery, none of them is followed by one of those.
#[test]
fn segments_behind_a_missing_frame_never_continue_the_log() {
    const WRITES: u16 = 45;
    let mut rig = Rig::with_config(Media::Block, Durability::Process, tiny());
    put(&mut rig, 1000, b"durable").unwrap();
    rig.ask(Verb::Flush).unwrap();
    for number in 0..WRITES {
        put(&mut rig, number, &[3; 900]).unwrap();
    }
    let plan = CrashPlan::AllBut(12);
    let values = |rig: &mut Rig| (0..WRITES).map(|number| get(rig, number)).collect::<Vec<_>>();
    let kept = values(&mut rig.after_crash(plan));
    let kept_count = kept.iter().filter(|value| value.is_some()).count();
    assert!((1..15).contains(&kept_count), "the first segment lacks a frame: {kept_count} are kept");
    for later in 0..WRITES {
        let mut after = rig.after_crash(plan);
        for number in 0..later {
            put(&mut after, 2000 + number, b"later").unwrap();
        }
        after.ask(Verb::Flush).unwrap();
        after.crash(CrashPlan::None);
        assert!(values(&mut after) == kept, "{later} writes after the recovery: what was discarded is back");
        for number in 0..later {
            assert_eq!(get(&mut after, 2000 + number), Some(b"later".to_vec()), "{later} writes: {number}");
        }
        assert_eq!(get(&mut after, 1000), Some(b"durable".to_vec()), "{later} writes");
    }
}

/// Prepared and written in one flush, so that only the bulk of the prepare says whether it was interrupted; then
/// aborted, and the abort is not flushed when the power fails.
#[test]
fn bulk_of_an_aborted_transaction_is_not_reused_while_the_log_refers_to_it() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::with_config(media, Durability::Power, tiny());
        rig.clock.advance(1_000_000);
        let epoch = Epoch::from_unix_ns(rig.clock.now_ns());
        rig.clock.advance(1_000_000);
        let tx = TxId { client: 9, begin: epoch };
        let prepare = Prepare {
            tx,
            epoch,
            leader: TargetNo(1),
            participants: smallvec![TargetNo(0), TargetNo(1)],
            mutations: vec![Mutation::Update(update(&[1, 0], &[1; 9000]))],
        };
        let op = |token, verb| Op { token, head: Head::default(), cont: CONT, verb };
        let together = [Verb::Prepare(prepare), Verb::Update(update(&[2, 0], b"beside it"))];
        let target = rig.target.as_mut().unwrap();
        target.submit(&mut (1..).zip(together).map(|(token, verb)| op(token, verb)).collect());
        let mut done = Vec::new();
        while done.len() < 2 {
            target.poll(true, &mut done);
        }
        for answer in done {
            assert!(matches!(answer.result, Ok(Reply::Prepared | Reply::Written(_))), "{answer:?}");
        }
        let after = [Verb::Abort(tx), Verb::Update(update(&[3, 0], &[3; 9000]))];
        target.submit(&mut (3..).zip(after).map(|(token, verb)| op(token, verb)).collect());
        for plan in rig.drive.crash_plans(200) {
            let mut after = rig.after_crash(plan);
            let found = get(&mut after, 2);
            assert_eq!(found, Some(b"beside it".to_vec()), "{media:?}, {plan:?}: acknowledged and gone");
        }
    }
}
