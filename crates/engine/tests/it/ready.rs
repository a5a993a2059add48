//! Bulk segments that are made while nobody asks for anything.

use crate::rig::{Rig, oid, tiny};
use dolmen_codec::TargetStore as _;
use dolmen_engine::TargetConfig;
use dolmen_env::Media;
use dolmen_env::sim::{CrashPlan, Fault, SimConfig, SimDrive};
use dolmen_types::{Durability, Error};

/// More than goes into the log, four to a segment.
const VALUE_BYTES: usize = 60_000;

/// Segments of three pieces, of which a sixteenth of the capacity holds two.
fn config() -> TargetConfig {
    TargetConfig { capacity_bytes: 96 << 20, bulk_segment_bytes: 3 << 20, ..tiny() }
}

/// Names and lengths of bulk segments on the device.
fn segments(rig: &Rig) -> Vec<(String, u64)> {
    let files = rig.drive.files();
    let bulk = files.iter().filter(|(name, _)| name.starts_with("bulk."));
    bulk.map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

/// Upkeep, so many steps of it.
fn step(rig: &mut Rig, count: usize) {
    let target = rig.target.as_mut().unwrap();
    for _ in 0..count {
        target.step();
    }
}

fn put(rig: &mut Rig, dkey: u8) -> Result<(), Error> {
    rig.put(oid(1), &[dkey], b"a", &[dkey | 1; VALUE_BYTES]).map(drop)
}

fn assert_there(rig: &mut Rig, dkeys: core::ops::Range<u8>) {
    for dkey in dkeys {
        assert_eq!(rig.get(oid(1), &[dkey], b"a"), Some(vec![dkey | 1; VALUE_BYTES]), "dkey {dkey}");
    }
    rig.assert_clean();
}

#[test]
fn a_target_at_rest_has_a_bounded_part_of_its_capacity_at_hand_and_writers_take_it() {
    let mut rig = Rig::with_config(Media::Mapped, Durability::Process, config());
    step(&mut rig, 100);
    let at_hand = segments(&rig);
    assert_eq!(at_hand.iter().map(|segment| segment.1).collect::<Vec<_>>(), [3 << 20; 2]);
    assert!(rig.space().allocated_bytes >= 6 << 20);
    assert_eq!(rig.space().bulk_bytes, 0);
    for dkey in 0..100 {
        put(&mut rig, dkey).unwrap();
    }
    assert_eq!(segments(&rig), at_hand, "nothing was made for them");
    step(&mut rig, 100);
    assert_eq!(segments(&rig).len(), 4, "two others");
    assert_there(&mut rig, 0..100);
    rig.close_and_reopen();
    assert_eq!(segments(&rig).len(), 2, "what is at hand is not kept by a pool that is closed");
    assert_there(&mut rig, 0..100);
}

#[test]
fn nothing_is_made_where_a_device_is_no_memory_nor_between_requests() {
    let mut rig = Rig::with_config(Media::Block, Durability::Power, config());
    step(&mut rig, 100);
    assert_eq!(segments(&rig), []);
    let mut rig = Rig::with_config(Media::Mapped, Durability::Process, config());
    for _ in 0..20 {
        step(&mut rig, 4);
        assert_eq!(rig.get(oid(1), b"none", b"a"), None);
    }
    assert_eq!(segments(&rig), []);
}

#[test]
fn a_writer_takes_a_segment_that_is_half_made_and_what_a_crash_leaves_of_one_is_removed() {
    for (plan, durability) in
        [(CrashPlan::Process, Durability::Process), (CrashPlan::None, Durability::Power)]
    {
        for pieces in 0..8 {
            let mut rig = Rig::with_config(Media::Mapped, durability, config());
            (0..4).for_each(|dkey| put(&mut rig, dkey).unwrap());
            step(&mut rig, 4 + pieces);
            let mut crashed = rig.after_crash(plan);
            assert_there(&mut crashed, 0..4);
            assert!(
                segments(&crashed).iter().all(|segment| segment.1 == 3 << 20),
                "{:?}",
                segments(&crashed)
            );
            (4..120).for_each(|dkey| put(&mut rig, dkey).unwrap());
            assert_there(&mut rig, 0..120);
            let mut crashed = rig.after_crash(plan);
            assert_there(&mut crashed, 0..120);
            (120..130).for_each(|dkey| put(&mut crashed, dkey).unwrap());
            assert_there(&mut crashed, 0..130);
        }
    }
}

#[test]
fn what_is_at_hand_keeps_no_room_from_writers_of_anything() {
    let room_bytes = 24 << 20;
    for (capacity_bytes, device_bytes) in [(room_bytes, 1 << 30), (1 << 30, room_bytes)] {
        let config = TargetConfig { capacity_bytes, bulk_segment_bytes: 1 << 20, ..tiny() };
        let drive = SimDrive::new(SimConfig {
            media: Media::Mapped,
            capacity_bytes: device_bytes,
            ..SimConfig::default()
        });
        let mut rig = Rig::bare_on(drive, config);
        rig.create_container(Durability::Process);
        let mut small = 0_u32;
        loop {
            // The target comes to rest again and again while it fills up.
            step(&mut rig, 20);
            let put = (0..50).try_for_each(|_| {
                small += 1;
                rig.put(oid(2), &small.to_le_bytes(), b"a", &[7; 1000]).map(drop)
            });
            if let Err(error) = put {
                assert!(matches!(error, Error::NoSpace { .. }), "{error:?}");
                break;
            }
        }
        assert!(segments(&rig).len() <= 1, "{:?} are kept from small values", segments(&rig));
        assert!(small > 10_000, "{small}");
        assert_eq!(rig.get(oid(2), &1_u32.to_le_bytes(), b"a"), Some(vec![7; 1000]));
        rig.assert_clean();
    }
}

#[test]
fn a_device_that_refuses_any_piece_leaves_nothing_behind_and_writes_go_on() {
    let mut refused = 0;
    for at in 0.. {
        let mut rig = Rig::with_config(Media::Mapped, Durability::Process, config());
        put(&mut rig, 0).unwrap();
        step(&mut rig, 4);
        let power = rig.drive.power().clone();
        let boundary = power.ops() + at;
        power.fail_at(boundary, Fault::NoSpace);
        step(&mut rig, 30);
        let has_met = power.ops() > boundary;
        let bad = segments(&rig).into_iter().filter(|segment| segment.1 != 3 << 20).count();
        assert_eq!(bad, 0, "at {at}: {:?}", segments(&rig));
        refused += usize::from(segments(&rig).len() < 3);
        (1..100).for_each(|dkey| put(&mut rig, dkey).unwrap());
        assert_there(&mut rig, 0..100);
        rig.crash(CrashPlan::Process);
        assert_there(&mut rig, 0..100);
        if !has_met {
            break;
        }
    }
    assert!(refused > 10, "{refused}");
}
