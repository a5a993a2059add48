//! Numbers at the edge of what can be asked for: participants, epochs, sizes.

use crate::rig::{Rig, oid, small_config};
use dolmen_codec::manifest::{Manifest, RUN_NUMBER_MAX};
use dolmen_codec::superblock::{SUPERBLOCK_SLOT_BYTES, Superblock};
use dolmen_codec::verb::{ContVerb, Mutation, NewValue, Payload, Prepare, Update, UpdateIod, Verb};
use dolmen_engine::{CHECKPOINT_LOG_BYTES_MIN, Devices, MEMORY_BUDGET_BYTES_MIN, Target, TargetConfig};
use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
use dolmen_env::{Clock, Disk, Media};
use dolmen_types::{
    Cond, Credentials, Durability, Epoch, Error, Head, Invalid, Key, Oid, RequestId, TargetNo, TxId, crc32c,
    limits,
};
use smallvec::smallvec;
use std::sync::Arc;

fn put(oid: Oid, dkey: &[u8]) -> Mutation<'static> {
    let value = NewValue::Single(Payload::Ref(b"value"));
    let iods = smallvec![UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }];
    Mutation::Update(Update { oid, dkey: Key::from_slice(dkey), cond: Cond::NONE, iods, charged: None })
}

/// Prepares a transaction that writes one value here.
fn prepare(rig: &mut Rig, leader: TargetNo, participants: &[TargetNo], dkey: &[u8]) -> Result<TxId, Error> {
    rig.clock.advance(1_000_000);
    let epoch = Epoch::from_unix_ns(rig.clock.now_ns());
    rig.clock.advance(1_000_000);
    let tx = TxId { client: 9, begin: epoch };
    let participants = participants.iter().copied().collect();
    let mutations = vec![put(oid(1), dkey)];
    rig.ask(Verb::Prepare(Prepare { tx, epoch, leader, participants, mutations })).map(|_| tx)
}

#[test]
fn a_transaction_over_as_many_targets_as_there_can_be_finds_room_wherever_the_segment_ends() {
    let mut rig = Rig::new(Media::Block, Durability::Power);
    let all: Vec<TargetNo> = (0..u16::try_from(limits::TARGETS_MAX).unwrap()).map(TargetNo).collect();
    for n in 0..600_u64 {
        // Every length of the rest of a segment comes up.
        rig.put(oid(2), b"d", b"a", &vec![1; usize::try_from(n % 97 * 8 + 1).unwrap()]).unwrap();
        let tx = prepare(&mut rig, TargetNo(1), &all, &n.to_le_bytes()).unwrap();
        rig.ask(Verb::Commit(tx)).unwrap();
    }
    rig.close_and_reopen();
    assert_eq!(rig.get(oid(1), &599_u64.to_le_bytes(), b"a").as_deref(), Some(&b"value"[..]));
    rig.assert_clean();
}

#[test]
fn an_abort_from_the_far_future_ends_no_other_transaction() {
    let mut rig = Rig::new(Media::Block, Durability::Power);
    let far = TxId { client: 666, begin: Epoch::MAX };
    assert_eq!(rig.ask(Verb::Abort(far)).err(), Some(Error::Invalid(Invalid::Epoch)));
    // More than are remembered, so that the first one would be forgotten into the floor.
    for n in 0..70_000 {
        rig.ask(Verb::Abort(TxId { client: 667, begin: Epoch(n + 1) })).unwrap();
    }
    rig.commit(vec![put(oid(1), b"d")]).unwrap();
    assert_eq!(rig.get(oid(1), b"d", b"a").as_deref(), Some(&b"value"[..]));
}

#[test]
fn an_epoch_at_the_end_of_all_epochs_is_refused_whoever_names_it() {
    for epoch in [Epoch::MAX, Epoch(u64::MAX - 1), Epoch(u64::MAX - (1 << 58))] {
        let mut rig = Rig::new(Media::Block, Durability::Power);
        let first = rig.put(oid(1), b"d", b"a", b"v").unwrap();
        let verbs = [
            ContVerb::RaiseFloor(epoch),
            ContVerb::AddSnapshot(epoch),
            ContVerb::Rollback { to: first, at: epoch },
        ];
        for verb in verbs {
            assert_eq!(rig.ask(Verb::Cont(verb)).err(), Some(Error::Invalid(Invalid::Epoch)), "{epoch}");
        }
        let second = rig.put(oid(1), b"d", b"a", b"w").unwrap();
        rig.close_and_reopen();
        let third = rig.put(oid(1), b"d", b"a", b"x").unwrap();
        assert!(first < second);
        assert!(second < third);
        assert_eq!(rig.get(oid(1), b"d", b"a").as_deref(), Some(&b"x"[..]));
    }
}

#[test]
fn background_work_ends_with_the_least_sizes_and_smaller_ones_are_refused() {
    let least = TargetConfig {
        memory_budget_bytes: MEMORY_BUDGET_BYTES_MIN,
        checkpoint_log_bytes: CHECKPOINT_LOG_BYTES_MIN,
        ..small_config()
    };
    let mut rig = Rig::with_config(Media::Block, Durability::Power, least.clone());
    for n in 0..400_u64 {
        let size = [1, 100, 3000, 4096, 5000, 16_384, 200_000][usize::try_from(n % 7).unwrap()];
        rig.put(oid(n % 5), &n.to_le_bytes(), b"a", &vec![1; size]).unwrap();
        if n % 40 == 0 {
            rig.work();
        }
    }
    rig.work();
    rig.assert_clean();
    let small = [
        TargetConfig { memory_budget_bytes: MEMORY_BUDGET_BYTES_MIN - 1, ..least.clone() },
        TargetConfig { checkpoint_log_bytes: CHECKPOINT_LOG_BYTES_MIN - 1, ..least },
    ];
    for config in small {
        let drive = SimDrive::new(SimConfig::default());
        let devices = Devices { meta: Box::new(SimDisk::new(&drive)), bulk: None };
        let made = Target::create(devices, Arc::new(rig.clock.clone()), 7, &config);
        assert_eq!(made.err(), Some(Error::Invalid(Invalid::Argument)));
    }
}

/// A put on behalf of these credentials.
fn put_as(rig: &mut Rig, uid: u32) -> Result<(), Error> {
    let Mutation::Update(update) = put(oid(1), b"d") else { unreachable!("it is a put") };
    let cred = Credentials { uid, ..Credentials::default() };
    // Each takes a place among clients of which there are fewer: most ask for no retention.
    let sequence = u64::from(uid < 10_000);
    let head = Head { cred, id: RequestId { client: u128::from(uid), sequence }, ..Head::default() };
    rig.complete_as(head, Verb::Update(update)).result.map(|_| ())
}

#[test]
fn what_is_remembered_of_clients_is_counted_and_a_target_keeps_so_many_credentials() {
    let config = TargetConfig { memory_budget_bytes: 32 << 20, ..small_config() };
    let mut rig = Rig::with_config(Media::Mapped, Durability::Process, config);
    let before = rig.target.as_ref().unwrap().memory_bytes();
    let mut known = 0;
    let refused = loop {
        match put_as(&mut rig, known) {
            Ok(()) => known += 1,
            Err(error) => break error,
        }
        if known % 1000 == 0 {
            rig.work();
        }
    };
    assert_eq!((known, refused), (65_536, Error::Invalid(Invalid::Credentials)));
    rig.ask(Verb::Checkpoint).unwrap();
    for _ in 0..2 {
        let taken = rig.target.as_ref().unwrap().memory_bytes();
        assert!(taken > before + (2 << 20), "{before} bytes before, {taken} after");
        assert!(taken < rig.config.memory_budget_bytes, "{taken}");
        put_as(&mut rig, 0).unwrap();
        assert_eq!(put_as(&mut rig, known).err(), Some(Error::Invalid(Invalid::Credentials)));
        rig.close_and_reopen();
    }
}

/// As if so many runs had been written before.
fn set_next_run(drive: &SimDrive, next_run: u32) {
    let mut disk = SimDisk::new(drive);
    let file = disk.open("super").unwrap();
    let mut slot = vec![0; SUPERBLOCK_SLOT_BYTES];
    for offset in [0, SUPERBLOCK_SLOT_BYTES as u64] {
        disk.read_at(file, offset, &mut slot).unwrap();
        let superblock = Superblock::decode(&slot).unwrap();
        let named = disk.open(&format!("manifest.{:08x}", superblock.manifest)).unwrap();
        let mut bytes = vec![0; superblock.manifest_bytes as usize];
        disk.read_at(named, 0, &mut bytes).unwrap();
        let bytes = Manifest { next_run, ..Manifest::decode(&bytes).unwrap() }.encode();
        disk.write_at(named, 0, &bytes).unwrap();
        disk.close(named);
        let superblock = Superblock { manifest_sum: crc32c(&bytes), ..superblock };
        disk.write_at(file, offset, &superblock.encode()).unwrap();
    }
    disk.close(file);
}

#[test]
fn a_target_that_has_used_all_numbers_of_runs_takes_them_again() {
    for next_run in [RUN_NUMBER_MAX, RUN_NUMBER_MAX - 1] {
        let mut rig = Rig::new(Media::Block, Durability::Power);
        for n in 0..3_u8 {
            // They have the first numbers.
            rig.put(oid(1), &[n], b"a", b"v").unwrap();
            rig.ask(Verb::Checkpoint).unwrap();
        }
        rig.target.take().unwrap().close().unwrap();
        set_next_run(&rig.drive, next_run);
        rig.reopen();
        for n in 3..20_u8 {
            rig.put(oid(1), &[n], b"a", b"v").unwrap();
            rig.ask(Verb::Checkpoint).unwrap();
            rig.close_and_reopen();
        }
        for n in 0..20_u8 {
            assert_eq!(rig.get(oid(1), &[n], b"a").as_deref(), Some(&b"v"[..]), "{n} after {next_run}");
        }
        rig.assert_clean();
    }
}
