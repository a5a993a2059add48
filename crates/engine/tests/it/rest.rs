//! What a target frees while nobody asks for anything.

use crate::rig::{Rig, oid, tiny};
use core::ops::Range;
use core::time::Duration;
use dolmen_codec::TargetStore as _;
use dolmen_codec::verb::{
    ContVerb, Mutation, NewValue, Payload, PunchScope, ReadAt, Update, UpdateIod, Verb,
};
use dolmen_engine::TargetConfig;
use dolmen_env::sim::{CrashPlan, Fault};
use dolmen_env::{Clock as _, Media};
use dolmen_types::{Cond, Durability, Epoch, Error, Key, TxId};
use smallvec::smallvec;

const KEPT: Duration = Duration::from_secs(20);

/// More than goes into the log.
const VALUE_BYTES: usize = 60_000;

fn rig(keep_past: Option<Duration>) -> Rig {
    let config = TargetConfig { keep_past, capacity_bytes: 96 << 20, scrub_bytes_per_s: 0, ..tiny() };
    Rig::with_config(Media::Mapped, Durability::Power, config)
}

/// So much time passes while upkeep has nothing else to do.
fn rest(rig: &mut Rig, time: Duration) {
    for _ in 0..100 {
        rig.clock.advance(u64::try_from(time.as_nanos() / 100).unwrap());
        step(rig, 20);
    }
}

/// Upkeep, so many steps of it.
fn step(rig: &mut Rig, count: usize) {
    for _ in 0..count {
        rig.target.as_mut().unwrap().step();
    }
}

fn put(rig: &mut Rig, dkey: u8, fill: u8) -> Epoch {
    rig.put(oid(1), &[dkey], b"a", &[fill; VALUE_BYTES]).unwrap()
}

fn put_all(rig: &mut Rig, dkeys: Range<u8>, fill: u8) {
    for dkey in dkeys {
        put(rig, dkey, fill);
    }
}

/// One value, twenty times; the last stays.
fn overwrite(rig: &mut Rig) {
    for fill in 0..20 {
        put(rig, 0, fill);
    }
}

fn get(rig: &mut Rig, dkey: u8) -> Option<Vec<u8>> {
    rig.get(oid(1), &[dkey], b"a")
}

/// The epoch of a transaction that begins now and reads a dkey.
fn begin_and_read(rig: &mut Rig, dkey: u8) -> (Epoch, Option<Vec<u8>>) {
    rig.clock.advance(1_000_000);
    let epoch = Epoch::from_unix_ns(rig.clock.now_ns());
    let found = read_in(rig, epoch, dkey).unwrap();
    rig.clock.advance(1_000_000);
    (epoch, found)
}

fn read_in(rig: &mut Rig, tx: Epoch, dkey: u8) -> Result<Option<Vec<u8>>, Error> {
    rig.get_at(oid(1), &[dkey], b"a", ReadAt::Tx(tx))
}

/// A transaction's only write.
fn commit_at(rig: &mut Rig, tx: Epoch, dkey: u8, value: &[u8]) -> Result<Epoch, Error> {
    let value = NewValue::Single(Payload::Ref(value));
    let iods = smallvec![UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }];
    let update =
        Update { oid: oid(1), dkey: Key::from_slice(&[dkey]), cond: Cond::NONE, iods, charged: None };
    rig.commit_at(tx, vec![Mutation::Update(update)])
}

#[test]
fn what_was_overwritten_or_punched_a_while_ago_is_freed_at_rest_and_then_there_is_peace() {
    let mut rig = rig(Some(KEPT));
    put_all(&mut rig, 0..100, 1);
    put_all(&mut rig, 0..50, 2);
    for dkey in 40..90_u8 {
        rig.punch(oid(1), PunchScope::Dkey(Key::from_slice(&[dkey])), Cond::NONE).unwrap();
    }
    let before = rig.space().bulk_bytes;
    rest(&mut rig, KEPT / 2);
    assert_eq!(rig.space().bulk_bytes, before, "it is too new");
    rest(&mut rig, 3 * KEPT);
    let after = rig.space().bulk_bytes;
    assert!(after <= before * 51 / 150, "{before} bytes became {after}");
    let done = rig.target.as_ref().unwrap().background_done();
    rest(&mut rig, 1000 * KEPT);
    assert_eq!(rig.target.as_ref().unwrap().background_done(), done, "nothing has changed since");
    assert_eq!(get(&mut rig, 3), Some(vec![2; VALUE_BYTES]));
    assert_eq!(get(&mut rig, 45), None);
    assert_eq!(get(&mut rig, 95), Some(vec![1; VALUE_BYTES]));
    rig.assert_clean();
    rig.close_and_reopen();
    assert_eq!(get(&mut rig, 3), Some(vec![2; VALUE_BYTES]));
    assert_eq!(rig.space().bulk_bytes, after);
    rest(&mut rig, 10 * KEPT);
    assert_eq!(rig.target.as_ref().unwrap().background_done().merges, 0, "it was done before the close");
}

#[test]
fn nothing_is_freed_at_rest_unless_that_was_asked_for_nor_while_it_works() {
    let mut rig = rig(None);
    overwrite(&mut rig);
    let before = rig.space().bulk_bytes;
    rest(&mut rig, 100 * KEPT);
    assert_eq!(rig.space().bulk_bytes, before);

    let mut rig = self::rig(Some(KEPT));
    overwrite(&mut rig);
    for _ in 0..200 {
        rig.clock.advance(u64::try_from(KEPT.as_nanos()).unwrap());
        step(&mut rig, 3);
        assert_eq!(get(&mut rig, 0), Some(vec![19; VALUE_BYTES]));
    }
    assert_eq!(rig.space().bulk_bytes, before, "somebody asks again and again");
}

#[test]
fn the_present_and_the_past_that_is_kept_stay_readable() {
    let mut rig = rig(Some(KEPT));
    let old = put(&mut rig, 0, 1);
    put(&mut rig, 0, 2);
    rest(&mut rig, 3 * KEPT);
    let young = put(&mut rig, 0, 3);
    put(&mut rig, 0, 4);
    rest(&mut rig, KEPT / 2);
    let read = |rig: &mut Rig, epoch| rig.get_at(oid(1), &[0], b"a", ReadAt::Epoch(epoch));
    assert_eq!(read(&mut rig, young), Ok(Some(vec![3; VALUE_BYTES])), "written a moment ago");
    assert!(matches!(read(&mut rig, old), Err(Error::EpochGone { .. })), "{:?}", read(&mut rig, old));
    assert_eq!(get(&mut rig, 0), Some(vec![4; VALUE_BYTES]));
}

#[test]
fn a_snapshot_keeps_what_it_shows() {
    let mut rig = rig(Some(KEPT));
    let epoch = put(&mut rig, 0, 1);
    rig.ask(Verb::Cont(ContVerb::AddSnapshot(epoch))).unwrap();
    put(&mut rig, 0, 2);
    put(&mut rig, 0, 3);
    let before = rig.space().bulk_bytes;
    rest(&mut rig, 10 * KEPT);
    assert!(rig.space().bulk_bytes < before, "what no snapshot shows is gone");
    let shown = rig.get_at(oid(1), &[0], b"a", ReadAt::Epoch(epoch));
    assert_eq!(shown, Ok(Some(vec![1; VALUE_BYTES])));
    assert_eq!(get(&mut rig, 0), Some(vec![3; VALUE_BYTES]));
    let before = rig.space().bulk_bytes;
    rig.ask(Verb::Cont(ContVerb::RemoveSnapshot(epoch))).unwrap();
    rest(&mut rig, 3 * KEPT);
    assert!(rig.space().bulk_bytes < before, "what only it has shown is freed when it is gone");
    assert_eq!(get(&mut rig, 0), Some(vec![3; VALUE_BYTES]));
}

#[test]
fn no_crash_in_a_round_loses_anything() {
    let mut rig = rig(Some(KEPT));
    for fill in 1..4 {
        put_all(&mut rig, 0..30, fill);
    }
    rig.clock.advance(u64::try_from(3 * KEPT.as_nanos()).unwrap());
    let before = rig.space().bulk_bytes;
    let mut freed = false;
    for at in 0..400 {
        step(&mut rig, 1);
        if at % 100 == 50 {
            // The clock has to move on for a round to be due.
            rig.clock.advance(u64::try_from(3 * KEPT.as_nanos()).unwrap());
        }
        if at % 5 == 0 {
            let mut crashed = rig.after_crash(CrashPlan::None);
            for dkey in 0..30 {
                assert_eq!(get(&mut crashed, dkey), Some(vec![3; VALUE_BYTES]), "step {at}, dkey {dkey}");
            }
            freed |= crashed.space().bulk_bytes < before;
            crashed.assert_clean();
        }
    }
    assert!(freed, "no crash came after a round");
}

#[test]
fn a_round_that_is_interrupted_for_long_does_not_put_off_the_next_one() {
    let mut rig = rig(Some(KEPT));
    overwrite(&mut rig);
    let before = rig.target.as_ref().unwrap().background_done();
    for _ in 0..10_000 {
        rig.clock.advance(10_000_000);
        step(&mut rig, 1);
        if rig.target.as_ref().unwrap().background_done() != before {
            break;
        }
    }
    // Somebody works for an hour.
    for _ in 0..3600 {
        rig.clock.advance(1_000_000_000);
        assert!(get(&mut rig, 0).is_some());
        step(&mut rig, 1);
    }
    rest(&mut rig, 3 * KEPT);
    overwrite(&mut rig);
    let full = rig.space().bulk_bytes;
    rest(&mut rig, 10 * KEPT);
    let after = rig.space().bulk_bytes;
    assert!(after < full / 4, "{after} of {full} bytes");
}

#[test]
fn a_round_that_failed_anywhere_is_made_again() {
    let mut failed = 0;
    for fault in [Fault::NoSpace, Fault::Eio] {
        for at in (40..110).step_by(3) {
            let mut rig = rig(Some(KEPT));
            overwrite(&mut rig);
            let before = rig.space().bulk_bytes;
            let power = rig.drive.power();
            power.fail_at(power.ops() + at, fault);
            rest(&mut rig, 3 * KEPT);
            let freed = rig.space().bulk_bytes < before / 4;
            rest(&mut rig, 60 * KEPT);
            if rig.put(oid(2), b"x", b"a", &[1; 10]).is_err() {
                // After a flush that failed it takes nothing any more.
                continue;
            }
            failed += u32::from(!freed);
            let after = rig.space().bulk_bytes;
            assert!(after < before / 4, "{fault:?} at {at}: {after} of {before} bytes");
            assert_eq!(get(&mut rig, 0), Some(vec![19; VALUE_BYTES]));
        }
    }
    assert!(failed > 0, "no round has failed");
}

/// How long a transaction is kept from its begin.
const OPEN: Duration = Duration::from_secs(300);

#[test]
fn a_transaction_that_has_read_commits_after_a_wait_with_nobody_else_there() {
    let mut rig = rig(Some(KEPT));
    overwrite(&mut rig);
    let (tx, _) = begin_and_read(&mut rig, 0);
    rest(&mut rig, 6 * KEPT);
    assert_eq!(commit_at(&mut rig, tx, 1, b"late"), Ok(tx));
    assert_eq!(get(&mut rig, 1).as_deref(), Some(&b"late"[..]));
    assert_eq!(get(&mut rig, 0), Some(vec![19; VALUE_BYTES]));
}

#[test]
fn a_transaction_reads_and_commits_after_a_wait_while_others_write_and_is_freed_after() {
    let mut rig = rig(Some(KEPT));
    put(&mut rig, 7, 1);
    let (tx, found) = begin_and_read(&mut rig, 7);
    assert_eq!(found, Some(vec![1; VALUE_BYTES]));
    overwrite(&mut rig);
    put(&mut rig, 7, 2);
    let full = rig.space().bulk_bytes;
    rest(&mut rig, 6 * KEPT);
    let done = rig.target.as_ref().unwrap().background_done();
    rest(&mut rig, 6 * KEPT);
    assert_eq!(
        rig.target.as_ref().unwrap().background_done(),
        done,
        "there is nothing more to free meanwhile"
    );
    assert_eq!(read_in(&mut rig, tx, 7), Ok(Some(vec![1; VALUE_BYTES])));
    assert_eq!(read_in(&mut rig, tx, 0), Ok(None), "it was written after the begin");
    assert_eq!(commit_at(&mut rig, tx, 8, b"late"), Ok(tx));
    rest(&mut rig, 6 * KEPT);
    let after = rig.space().bulk_bytes;
    assert!(after < full / 4, "nobody is there any more: {after} of {full} bytes");
    assert_eq!(get(&mut rig, 8).as_deref(), Some(&b"late"[..]));
    rig.assert_clean();
}

#[test]
fn a_transaction_that_never_ends_holds_the_past_no_longer_than_any_may() {
    let mut rig = rig(Some(KEPT));
    put(&mut rig, 7, 1);
    let (tx, _) = begin_and_read(&mut rig, 7);
    overwrite(&mut rig);
    put(&mut rig, 7, 2);
    let full = rig.space().bulk_bytes;
    for _ in 0..10 {
        rest(&mut rig, OPEN / 20);
        assert_eq!(read_in(&mut rig, tx, 7), Ok(Some(vec![1; VALUE_BYTES])));
    }
    rest(&mut rig, OPEN / 2 + 6 * KEPT);
    let after = rig.space().bulk_bytes;
    assert!(after < full / 4, "{after} of {full} bytes");
    assert!(matches!(read_in(&mut rig, tx, 7), Err(Error::TxRestart { .. })));
    assert!(matches!(commit_at(&mut rig, tx, 8, b"late"), Err(Error::TxRestart { .. })));
}

#[test]
fn transactions_that_have_to_begin_again_hold_nothing() {
    let mut rig = rig(Some(KEPT));
    put(&mut rig, 7, 1);
    for _ in 0..3 {
        let (tx, _) = begin_and_read(&mut rig, 7);
        put(&mut rig, 8, 1);
        assert!(matches!(commit_at(&mut rig, tx, 8, b"late"), Err(Error::TxRestart { .. })));
    }
    overwrite(&mut rig);
    let full = rig.space().bulk_bytes;
    rest(&mut rig, 3 * KEPT);
    let after = rig.space().bulk_bytes;
    assert!(after < full / 4, "{after} of {full} bytes");
}

#[test]
fn a_transaction_that_was_only_read_here_holds_nothing_once_its_end_is_told() {
    let mut rig = rig(Some(KEPT));
    overwrite(&mut rig);
    let (ended, _) = begin_and_read(&mut rig, 0);
    let (goes_on, _) = begin_and_read(&mut rig, 0);
    overwrite(&mut rig);
    rest(&mut rig, 3 * KEPT);
    let held = rig.space().bulk_bytes;
    let end = |rig: &mut Rig, begin| rig.ask(Verb::Conclude(TxId { client: 0, begin })).map(drop);
    end(&mut rig, ended).unwrap();
    rest(&mut rig, 3 * KEPT);
    assert!(read_in(&mut rig, goes_on, 0).is_ok(), "the other has not ended");
    end(&mut rig, goes_on).unwrap();
    put(&mut rig, 1, 1);
    rest(&mut rig, 3 * KEPT);
    let after = rig.space().bulk_bytes;
    assert!(after <= held / 2, "{after} of {held} bytes");
    for tx in [ended, goes_on] {
        let read = read_in(&mut rig, tx, 0);
        assert!(matches!(read, Err(Error::TxRestart { .. })), "nothing is shown of what is gone: {read:?}");
    }
}
