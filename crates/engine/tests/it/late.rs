//! A direct write to bulk that completes after a flush of its segment began is flushed before it is acknowledged;
//! what a dead process had not flushed is flushed by the recovery; damage is seen across segments.

use crate::rig::{CONT, Rig, oid, small_config};
use dolmen_codec::order::HashKey;
use dolmen_codec::verb::{
    ContSpec, ContVerb, Fetch, FetchIod, NewValue, Payload, ReadAt, Reply, Update, UpdateIod, Verb, Want,
};
use dolmen_codec::{Op, TargetStore};
use dolmen_engine::{Devices, Target};
use dolmen_env::sim::{CrashPlan, SimConfig, SimDisk, SimDrive, SimPower};
use dolmen_env::{Media, SimClock};
use dolmen_types::{Cond, Durability, Error, Head, IoBuf, Key};
use smallvec::smallvec;
use std::sync::Arc;

fn devices(meta: &SimDrive, bulk: &SimDrive) -> Devices {
    Devices { meta: Box::new(SimDisk::new(meta)), bulk: Some(Box::new(SimDisk::new(bulk))) }
}

fn update(dkey: u8, value: &[u8]) -> Verb<'_> {
    let iod = UpdateIod {
        akey: Key::from_slice(b"a"),
        cond: Cond::NONE,
        value: NewValue::Single(Payload::Ref(value)),
    };
    Verb::Update(Update {
        oid: oid(1),
        dkey: Key::from_slice(&[dkey]),
        cond: Cond::NONE,
        iods: smallvec![iod],
        charged: None,
    })
}

#[test]
fn a_late_bulk_write_is_flushed() {
    for seed in 0..40 {
        let drive = |seed| SimDrive::new(SimConfig { seed, media: Media::Block, ..SimConfig::default() });
        let (meta, bulk) = (drive(seed), drive(seed + 1000));
        let clock = SimClock::new(1_800_000_000_000_000_000);
        let mut target =
            Target::create(devices(&meta, &bulk), Arc::new(clock.clone()), 7, &small_config()).unwrap();
        let spec = ContSpec { hash_key: HashKey([5; 16]), durability: Durability::Power };
        let op = |token, verb| Op { token, head: Head::default(), cont: CONT, verb };
        let mut done = Vec::new();
        target.submit(&mut vec![op(1, Verb::Cont(ContVerb::Create(spec)))]);
        while done.is_empty() {
            target.poll(true, &mut done);
        }
        done.clear();
        let large = vec![7u8; 100_000];
        let mut ops = vec![op(2, update(1, b"small")), op(3, update(2, &large))];
        target.submit(&mut ops);
        while done.len() < 2 {
            target.poll(true, &mut done);
        }
        assert!(done.iter().all(|c| c.result.is_ok()));
        let (meta, bulk) = (meta.crash(CrashPlan::None), bulk.crash(CrashPlan::None));
        drop(target);
        let (mut target, _) = Target::open(devices(&meta, &bulk), Arc::new(clock.clone()), &small_config())
            .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let mut buf = IoBuf::default();
        buf.set_len(100_000);
        let fetch = Fetch {
            oid: oid(1),
            dkey: Key::from_slice(&[2]),
            cond: Cond::NONE,
            at: ReadAt::Latest,
            iods: smallvec![FetchIod {
                akey: Key::from_slice(b"a"),
                want: Want::Single { room_bytes: 100_000 }
            }],
            buf,
        };
        target.submit(&mut vec![op(4, Verb::Fetch(fetch))]);
        done.clear();
        while done.is_empty() {
            target.poll(true, &mut done);
        }
        let Ok(Reply::Fetched(found)) = &done[0].result else { panic!("seed {seed}: {:?}", done[0].result) };
        assert_eq!(found[0].size_bytes, 100_000, "seed {seed}: an acknowledged value is gone");
    }
}

#[test]
fn what_was_recovered_after_a_death_survives_the_power_cut_that_follows() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Process);
        let large = vec![9; 50_000];
        // More than one log segment, and bulk.
        for number in 0..200 {
            rig.put(oid(1), &[number], b"a", &[number; 900]).unwrap();
        }
        rig.put(oid(1), b"large", b"a", &large).unwrap();
        rig.crash(CrashPlan::Process);
        assert!(rig.recovery.frames > 200, "{:?}", rig.recovery);
        rig.put(oid(1), b"later", b"a", b"value").unwrap();
        rig.ask(Verb::Flush).unwrap();
        rig.crash(CrashPlan::None);
        assert!((0..200).all(|number| rig.get(oid(1), &[number], b"a") == Some(vec![number; 900])));
        assert_eq!(rig.get(oid(1), b"large", b"a"), Some(large));
        assert_eq!(rig.get(oid(1), b"later", b"a"), Some(b"value".to_vec()));
        rig.assert_clean();
    }
}

#[test]
fn damage_at_the_end_of_a_segment_is_told_from_an_interrupted_write() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Power);
        for number in 0..200 {
            rig.put(oid(1), &[number], b"a", &[number + 1; 900]).unwrap();
        }
        drop(rig.target.take());
        let files = rig.drive.files();
        // The last frame of a full segment that is not the newest: its end is filled but for less than a frame.
        let mut damaged = 0;
        for number in 0..8 {
            let name = format!("log.{number:08x}");
            let Some(mut bytes) = files.bytes(&name) else { continue };
            let end = bytes.len() - 1100;
            if bytes[end] == 0 {
                continue;
            }
            bytes[end] ^= 1;
            let mut broken = files.clone();
            broken.insert(&name, &bytes);
            let config = SimConfig { seed: 3, media, ..SimConfig::default() };
            let drive = SimDrive::with_files(config, &SimPower::default(), &broken);
            let devices = Devices { meta: Box::new(SimDisk::new(&drive)), bulk: None };
            let opened = Target::open(devices, Arc::new(rig.clock.clone()), &rig.config);
            assert!(matches!(opened, Err(Error::Corrupt { .. })), "{media:?} {name}: {opened:?}");
            damaged += 1;
        }
        assert!(damaged >= 2, "{damaged}");
    }
}
