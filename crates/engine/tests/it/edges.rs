//! Where two things meet: an aggregation and a transaction or a full device, a destroyed container and a decision,
//! a request and its repetition, a full device and a crash, a frame and those that go before it.

use crate::rig::{CONT, Rig, oid, small_config, tiny};
use dolmen_codec::verb::{
    ContVerb, Mutation, NewValue, Payload, Prepare, PunchScope, ReadAt, Reply, Update, UpdateIod, Verb,
};
use dolmen_codec::{Completion, Op, TargetStore};
use dolmen_env::sim::{CrashPlan, Fault, SimConfig, SimDisk, SimDrive};
use dolmen_env::{Clock, Disk, Media};
use dolmen_types::{Cond, Credentials, Durability, Epoch, Error, Head, Key, RequestId, TargetNo, TxId};
use smallvec::smallvec;

/// Too large for the log.
const LARGE_BYTES: usize = 20_000;

fn update(value: &[u8]) -> Update<'_> {
    let value = NewValue::Single(Payload::Ref(value));
    let iods = smallvec![UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }];
    Update { oid: oid(1), dkey: Key::from_slice(&[1]), cond: Cond::NONE, iods, charged: None }
}

fn tx(epoch: Epoch) -> TxId {
    TxId { client: 9, begin: epoch }
}

fn prepare<'a>(epoch: Epoch, participants: &[u16], value: &'a [u8]) -> Verb<'a> {
    Verb::Prepare(Prepare {
        tx: tx(epoch),
        epoch,
        leader: TargetNo(0),
        participants: participants.iter().map(|&no| TargetNo(no)).collect(),
        mutations: vec![Mutation::Update(update(value))],
    })
}

/// An epoch of a transaction that begins now.
fn begin(rig: &Rig) -> Epoch {
    rig.clock.advance(1_000_000);
    let epoch = Epoch::from_unix_ns(rig.clock.now_ns());
    rig.clock.advance(1_000_000);
    epoch
}

/// Gives a target operations at once and takes all their completions, by token.
fn answers(rig: &mut Rig, mut ops: Vec<Op<'_>>) -> Vec<Completion> {
    let count = ops.len();
    let target = rig.target.as_mut().unwrap();
    target.submit(&mut ops);
    let mut out = Vec::new();
    while out.len() < count {
        target.poll(true, &mut out);
    }
    out.sort_by_key(|done| done.token);
    out
}

#[test]
fn a_transaction_that_began_before_the_horizon_does_not_wake_what_was_punched() {
    let mut rig = Rig::new(Media::Block, Durability::Power);
    rig.put(oid(1), &[1], b"a", b"old").unwrap();
    let epoch = begin(&rig);
    rig.punch(oid(1), PunchScope::Object, Cond::NONE).unwrap();
    rig.put(oid(2), &[1], b"a", b"later").unwrap();
    let step = rig.ask(Verb::Cont(ContVerb::Aggregate(Epoch::MAX)));
    assert!(matches!(step, Ok(Reply::Aggregated { more: true, .. })), "{step:?}");
    let prepared = rig.ask(prepare(epoch, &[0], b"late"));
    assert!(matches!(prepared, Err(Error::TxRestart { .. })), "{prepared:?}");
    rig.aggregate();
    assert_eq!(rig.get(oid(1), &[1], b"a"), None);
    rig.assert_clean();
}

/// A write of a transaction that was decided after a punch above it, which is in a run already.
fn decided_under_a_punch() -> Rig {
    let mut rig = Rig::new(Media::Block, Durability::Power);
    rig.put(oid(1), &[1], b"a", b"old").unwrap();
    let epoch = begin(&rig);
    rig.punch(oid(1), PunchScope::Object, Cond::NONE).unwrap();
    rig.ask(Verb::Checkpoint).unwrap();
    let prepared = rig.ask(prepare(epoch, &[0, 1], b"late"));
    assert!(matches!(prepared, Ok(Reply::Prepared)), "{prepared:?}");
    rig.ask(Verb::Commit(tx(epoch))).unwrap();
    assert_eq!(rig.get(oid(1), &[1], b"a"), None);
    rig
}

/// Aggregates on a device that is full from an operation on.
fn aggregate_on_a_full_device(rig: &mut Rig, boundary: u64) {
    let power = rig.drive.power();
    power.fail_at(power.ops() + boundary, Fault::NoSpace);
    for _ in 0..1000 {
        match rig.ask(Verb::Cont(ContVerb::Aggregate(Epoch::MAX))) {
            Ok(Reply::Aggregated { more: false, .. }) => break,
            Ok(Reply::Aggregated { .. }) | Err(Error::NoSpace { .. } | Error::ReadOnly { .. }) => {}
            other => panic!("{boundary}: {other:?}"),
        }
    }
}

#[test]
fn a_merge_beside_a_checkpoint_that_finds_no_room_wakes_nothing_that_was_punched() {
    for boundary in 0..40 {
        let mut rig = decided_under_a_punch();
        aggregate_on_a_full_device(&mut rig, boundary);
        assert_eq!(rig.get(oid(1), &[1], b"a"), None, "boundary {boundary}");
        rig.crash(CrashPlan::Process);
        assert_eq!(rig.get(oid(1), &[1], b"a"), None, "boundary {boundary}, opened again");
        rig.aggregate();
        assert_eq!(rig.get(oid(1), &[1], b"a"), None, "boundary {boundary}, aggregated");
        rig.assert_clean();
    }
}

#[test]
fn what_was_aggregated_is_gone_after_a_reopen_too_though_the_device_was_full() {
    for boundary in 0..40 {
        let mut rig = Rig::new(Media::Block, Durability::Power);
        let old = rig.put(oid(1), &[1], b"a", b"old").unwrap();
        rig.ask(Verb::Checkpoint).unwrap();
        rig.put(oid(1), &[1], b"a", b"new").unwrap();
        aggregate_on_a_full_device(&mut rig, boundary);
        for _ in 0..2 {
            match rig.get_at(oid(1), &[1], b"a", ReadAt::Epoch(old)) {
                Err(Error::EpochGone { .. }) => {}
                other => assert_eq!(other.unwrap(), Some(b"old".to_vec()), "boundary {boundary}"),
            }
            rig.crash(CrashPlan::Process);
        }
        assert_eq!(rig.get(oid(1), &[1], b"a"), Some(b"new".to_vec()));
    }
}

#[test]
fn a_full_device_is_opened_after_a_process_died() {
    for punches in [0, 1, 100, 400, 1600] {
        let drive = SimDrive::new(SimConfig { seed: 3, capacity_bytes: 2 << 20, ..SimConfig::default() });
        let mut rig = Rig::bare_on(drive, small_config());
        rig.create_container(Durability::Process);
        let mut end = 0u32;
        while rig.put(oid(1), &end.to_le_bytes(), b"a", &[7; 300]).is_ok() {
            end += 1;
        }
        assert!(end > 1600, "{end}");
        rig.crash(CrashPlan::Process);
        for dkey in 0..punches {
            let scope = PunchScope::Dkey(Key::from_slice(&u32::to_le_bytes(dkey)));
            rig.punch(oid(1), scope, Cond::NONE).unwrap();
            if dkey % 150 == 0 {
                rig.crash(CrashPlan::Process);
            }
        }
        rig.crash(CrashPlan::Process);
        for dkey in 0..end {
            let found = rig.get_within(512, oid(1), &dkey.to_le_bytes(), b"a", ReadAt::Latest);
            assert_eq!(found.is_some(), dkey >= punches, "{punches}: dkey {dkey}");
        }
        rig.punch(oid(1), PunchScope::Object, Cond::NONE).unwrap();
        rig.aggregate();
        rig.aggregate();
        rig.put(oid(1), &[1], b"a", &[8; 300]).unwrap();
        rig.crash(CrashPlan::Process);
        assert_eq!(rig.get(oid(1), &[1], b"a"), Some(vec![8; 300]));
        rig.assert_clean();
    }
}

#[test]
fn a_target_is_emptied_and_closed_on_a_device_that_others_have_filled() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Process);
        for dkey in 0..500u32 {
            rig.put(oid(1), &dkey.to_le_bytes(), b"a", &[7; 300]).unwrap();
        }
        let mut disk = SimDisk::new(&rig.drive);
        let free = disk.space().unwrap().free_bytes;
        let file = disk.create("of others", free).unwrap();
        disk.close(file);
        for dkey in 0..400u32 {
            let scope = PunchScope::Dkey(Key::from_slice(&dkey.to_le_bytes()));
            rig.punch(oid(1), scope, Cond::NONE).unwrap();
        }
        rig.target.take().unwrap().close().unwrap();
        // Closing has flushed everything: it does not take the power any more. Opening needs a little room again.
        disk.remove("of others").and_then(|()| disk.sync_names()).unwrap();
        for plan in [CrashPlan::None, CrashPlan::All] {
            rig.crash(plan);
            for dkey in 0..500u32 {
                let found = rig.get_within(512, oid(1), &dkey.to_le_bytes(), b"a", ReadAt::Latest);
                assert_eq!(found.is_some(), dkey >= 400, "{media:?}: dkey {dkey}");
            }
            rig.assert_clean();
        }
    }
}

#[test]
fn a_decision_after_its_container_was_destroyed_is_counted_and_given_back() {
    for (commits, size) in [(true, LARGE_BYTES), (true, 3000), (true, 10), (false, LARGE_BYTES)] {
        let mut rig = Rig::new(Media::Block, Durability::Power);
        rig.put(oid(2), &[1], b"a", b"other").unwrap();
        let epoch = begin(&rig);
        rig.ask(prepare(epoch, &[0, 1], &vec![7; size])).unwrap();
        rig.ask(Verb::Cont(ContVerb::Destroy)).unwrap();
        rig.ask(Verb::Checkpoint).unwrap();
        rig.work();
        rig.crash(CrashPlan::Process);
        rig.ask(if commits { Verb::Commit(tx(epoch)) } else { Verb::Abort(tx(epoch)) }).unwrap();
        rig.crash(CrashPlan::Process);
        for _ in 0..3 {
            rig.ask(Verb::Checkpoint).unwrap();
            rig.work();
        }
        let space = rig.space();
        assert_eq!((space.bulk_bytes, space.log_bytes), (0, 0), "commits: {commits}, {size} bytes");
        rig.assert_clean();
    }
}

#[test]
fn a_repetition_waits_for_the_first_that_waits_for_its_bulk() {
    let mut rig = Rig::new(Media::Block, Durability::Power);
    let value = vec![7; LARGE_BYTES];
    let head = Head { id: RequestId { client: 5, sequence: 1 }, ..Head::default() };
    let op = |token| Op { token, head, cont: CONT, verb: Verb::Update(update(&value)) };
    let done = answers(&mut rig, vec![op(1), op(2)]);
    let Ok(Reply::Written(epoch)) = done[0].result else { panic!("{done:?}") };
    assert!(matches!(done[1].result, Ok(Reply::Written(again)) if again == epoch), "{done:?}");
    let again = answers(&mut rig, vec![op(3)]);
    assert!(matches!(again[0].result, Ok(Reply::Written(first)) if first == epoch), "{again:?}");

    let epoch = begin(&rig);
    let op = |token| Op { token, head: Head::default(), cont: CONT, verb: prepare(epoch, &[0, 1], &value) };
    let done = answers(&mut rig, vec![op(1), op(2)]);
    assert!(matches!(done[0].result, Ok(Reply::Prepared)), "{done:?}");
    assert!(matches!(done[1].result, Err(Error::Busy)), "{done:?}");
    assert!(matches!(answers(&mut rig, vec![op(3)])[0].result, Ok(Reply::Prepared)));
}

#[test]
fn frames_that_go_before_a_write_do_not_take_its_room() {
    let mut rig = Rig::with_config(Media::Block, Durability::Process, tiny());
    let value = vec![7; 1024];
    for number in 1..4000u32 {
        rig.clock.advance(600_000_000);
        let id = RequestId { client: u128::from(number), sequence: 1 };
        let cred = Credentials { uid: number % 500, ..Credentials::default() };
        let size = number as usize * 37 % 1000 + 1;
        let head = Head { id, cred, ..Head::default() };
        let op = Op { token: 1, head, cont: CONT, verb: Verb::Update(update(&value[..size])) };
        assert!(answers(&mut rig, vec![op])[0].result.is_ok(), "{number}");
        if number % 200 == 0 {
            rig.ask(Verb::Checkpoint).unwrap();
            rig.work();
        }
    }
    rig.aggregate();
    rig.assert_clean();
}
