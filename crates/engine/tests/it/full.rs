//! A full target: it says so, loses nothing, and can be read, punched, destroyed and written again.

use crate::rig::{Rig, amount, oid, small_config};
use dolmen_codec::verb::{ContVerb, PunchScope, ReadAt, Reply, Verb};
use dolmen_codec::{Progress, TargetStore};
use dolmen_engine::TargetConfig;
use dolmen_env::sim::{CrashPlan, SimConfig, SimDisk, SimDrive};
use dolmen_env::{Disk as _, Media, Rng};
use dolmen_types::{Cond, Durability, Error, Key};
use std::collections::BTreeMap;

const ROOM_BYTES: u64 = 12 << 20;
/// In the log, a large one of the log, in bulk.
const SIZES: [usize; 3] = [200, 3000, 20_000];

/// What was acknowledged: size and fill of the value by dkey.
type Stored = BTreeMap<u32, (usize, u8)>;

/// A target that may take this much: by its capacity, or because its device has no more.
fn limited(media: Media, by_device: bool) -> Rig {
    let config = TargetConfig {
        capacity_bytes: if by_device { 1 << 40 } else { ROOM_BYTES },
        bulk_segment_bytes: 512 << 10,
        ..small_config()
    };
    let capacity_bytes = if by_device { ROOM_BYTES } else { 1 << 30 };
    let drive = SimDrive::new(SimConfig { seed: 3, media, capacity_bytes, ..SimConfig::default() });
    let mut rig = Rig::bare_on(drive, config);
    rig.create_container(Durability::Process);
    rig
}

/// Writes until values of no size fit any more.
fn fill(rig: &mut Rig, stored: &mut Stored, first: u32) -> u32 {
    let (mut refused, mut dkey, mut written_bytes) = (0, first, 0);
    while refused < SIZES.len() {
        let size = SIZES[dkey as usize % SIZES.len()];
        let byte = dkey.to_le_bytes()[0] | 1;
        match rig.put(oid(1), &dkey.to_le_bytes(), b"a", &vec![byte; size]) {
            Ok(_) => {
                stored.insert(dkey, (size, byte));
                refused = 0;
                written_bytes += size as u64;
                assert!(written_bytes <= ROOM_BYTES, "it takes more than there is room for");
            }
            Err(error) => {
                assert!(matches!(error, Error::NoSpace { .. }), "{error:?}");
                assert_eq!(error.der(), -1007, "DER_NOSPACE");
                refused += 1;
            }
        }
        if dkey % 16 == 0 {
            rig.target.as_mut().unwrap().step();
        }
        dkey += 1;
    }
    dkey
}

fn assert_stored(rig: &mut Rig, stored: &Stored, dkeys: std::ops::Range<u32>) {
    for dkey in dkeys {
        let found = rig.get_within(32 << 10, oid(1), &dkey.to_le_bytes(), b"a", ReadAt::Latest);
        let found = found.map(|value| (value.len(), value[0], value[value.len() - 1]));
        let right = stored.get(&dkey).map(|&(size, byte)| (size, byte, byte));
        assert_eq!(found, right, "dkey {dkey}");
    }
    rig.assert_clean();
}

fn each_limit(test: impl Fn(Rig)) {
    for media in [Media::Block, Media::Mapped] {
        for by_device in [false, true] {
            println!("{media:?}, by the device: {by_device}");
            test(limited(media, by_device));
        }
    }
}

#[test]
fn a_full_target_is_read_punched_aggregated_and_written_again() {
    each_limit(|mut rig| {
        let mut stored = Stored::new();
        let end = fill(&mut rig, &mut stored, 0);
        assert!(stored.len() > 500, "{}", stored.len());
        assert_stored(&mut rig, &stored, 0..end);
        rig.work();
        rig.crash(CrashPlan::Process);
        assert_stored(&mut rig, &stored, 0..end);
        let dkeys: Vec<u32> = stored.keys().copied().filter(|dkey| dkey % 4 != 0).collect();
        for dkey in dkeys {
            let scope = PunchScope::Dkey(Key::from_slice(&dkey.to_le_bytes()));
            rig.punch(oid(1), scope, Cond::PUNCH).unwrap();
            stored.remove(&dkey);
        }
        let free = rig.space().free_bytes;
        assert!(rig.aggregate() > 300);
        rig.aggregate();
        assert!(rig.space().free_bytes > free, "{} after {free}", rig.space().free_bytes);
        assert_stored(&mut rig, &stored, 0..end);
        let before = stored.len();
        let end = fill(&mut rig, &mut stored, end);
        assert!(stored.len() > before + 200, "{before} and now {}", stored.len());
        rig.close_and_reopen();
        assert_stored(&mut rig, &stored, 0..end);
    });
}

#[test]
fn data_does_not_follow_into_the_reserve_that_something_else_has_begun() {
    each_limit(|mut rig| {
        let mut stored = Stored::new();
        let mut end = fill(&mut rig, &mut stored, 0);
        // Nothing that is punched from now on makes room, and each punch takes some.
        let Ok(Reply::Written(latest)) = rig.ask(Verb::Latest) else { panic!("a question") };
        rig.ask(Verb::Cont(ContVerb::AddSnapshot(latest))).unwrap();
        for round in 0..8u32 {
            for number in 0..400u32 {
                let scope = PunchScope::Dkey(Key::from_slice(&(round << 16 | number).to_le_bytes()));
                rig.punch(oid(3), scope, Cond::NONE).unwrap();
                if number % 50 == 0 {
                    end = fill(&mut rig, &mut stored, end);
                }
            }
            rig.close_and_reopen();
            rig.crash(CrashPlan::Process);
        }
        assert_stored(&mut rig, &stored, 0..end);
        rig.ask(Verb::Cont(ContVerb::RemoveSnapshot(latest))).unwrap();
        for dkey in stored.keys() {
            let scope = PunchScope::Dkey(Key::from_slice(&dkey.to_le_bytes()));
            rig.punch(oid(1), scope, Cond::PUNCH).unwrap();
        }
        let many = stored.len();
        stored.clear();
        fill(&mut rig, &mut stored, end);
        assert!(stored.len() > many * 3 / 4, "{many} and then {}", stored.len());
    });
}

#[test]
fn a_target_opens_and_is_emptied_though_others_have_filled_its_device() {
    for media in [Media::Block, Media::Mapped] {
        let config = TargetConfig { log_segment_bytes: 256 << 10, ..small_config() };
        let capacity_bytes = ROOM_BYTES;
        let drive = SimDrive::new(SimConfig { media, capacity_bytes, ..SimConfig::default() });
        let mut rig = Rig::bare_on(drive, config);
        rig.create_container(Durability::Process);
        let mut stored = Stored::new();
        for dkey in 0..200u32 {
            rig.put(oid(1), &dkey.to_le_bytes(), b"a", &[7; 3000]).unwrap();
            stored.insert(dkey, (3000, 7));
        }
        rig.close_and_reopen();
        let mut disk = SimDisk::new(&rig.drive);
        let free = disk.space().unwrap().free_bytes;
        disk.create("not-ours", free).unwrap();
        // A segment of the reserve has room for so many runs.
        for dkey in 0..12u32 {
            rig.crash(CrashPlan::All);
            let scope = PunchScope::Dkey(Key::from_slice(&dkey.to_le_bytes()));
            rig.punch(oid(1), scope, Cond::PUNCH).unwrap();
            rig.work();
            stored.remove(&dkey);
            assert_stored(&mut rig, &stored, 0..200);
        }
        rig.close_and_reopen();
        assert_stored(&mut rig, &stored, 0..200);
    }
}

#[test]
fn containers_of_a_full_target_are_destroyed_and_give_all_back() {
    each_limit(|mut rig| {
        let end = fill(&mut rig, &mut Stored::new(), 0);
        rig.ask(Verb::Cont(ContVerb::Destroy)).unwrap();
        rig.ask(Verb::Checkpoint).unwrap();
        rig.work();
        let space = rig.space();
        assert_eq!((space.bulk_bytes, space.log_bytes), (0, 0));
        rig.create_container(Durability::Process);
        let mut stored = Stored::new();
        fill(&mut rig, &mut stored, end);
        assert!(stored.len() > 500, "{}", stored.len());
        rig.crash(CrashPlan::Process);
        assert_stored(&mut rig, &stored, 0..end + 100);
    });
}

#[test]
fn segments_that_aggregation_empties_are_given_back_to_the_device() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Power);
        let segments =
            |rig: &Rig| rig.drive.files().iter().filter(|(name, _)| name.starts_with("bulk.")).count() as u64;
        for dkey in 0..20u8 {
            rig.put(oid(1), &[dkey], b"a", &[dkey | 1; 700_000]).unwrap();
        }
        rig.ask(Verb::Checkpoint).unwrap();
        assert_eq!(segments(&rig), 20);
        let full = rig.space();
        for dkey in 0..18u8 {
            rig.punch(oid(1), PunchScope::Dkey(Key::from_slice(&[dkey])), Cond::NONE).unwrap();
        }
        rig.aggregate();
        for _ in 0..2 {
            // Two in use, and an empty one for what comes next.
            assert!((2..=3).contains(&segments(&rig)), "{}", segments(&rig));
            let space = rig.space();
            assert_eq!(space.bulk_bytes, 2 * 700_416);
            assert!(full.allocated_bytes - space.allocated_bytes >= 17 << 20);
            assert_eq!(rig.get(oid(1), &[19], b"a"), Some(vec![19; 700_000]));
            rig.assert_clean();
            rig.close_and_reopen();
        }
        rig.put(oid(1), &[1], b"a", &[9; 700_000]).unwrap();
        rig.crash(CrashPlan::None);
        assert_eq!(rig.get(oid(1), &[1], b"a"), Some(vec![9; 700_000]));
        rig.assert_clean();
    }
}

#[test]
fn spare_log_segments_serve_a_steady_load_and_are_given_back_when_it_has_ended() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Process);
        let segments =
            |rig: &Rig| rig.drive.files().iter().filter(|(name, _)| name.starts_with("log.")).count();
        let value = |round: u8, dkey: u8| vec![round ^ dkey; 3000];
        let mut of_rounds = Vec::new();
        for round in 0..6u8 {
            for dkey in 0..=255u8 {
                rig.put(oid(1), &[dkey], b"a", &value(round, dkey)).unwrap();
            }
            rig.aggregate();
            of_rounds.push(segments(&rig));
        }
        // What one round frees is what the next one writes.
        assert!(of_rounds[3..].iter().all(|segments| segments.abs_diff(of_rounds[5]) <= 2), "{of_rounds:?}");
        let allocated = rig.space().allocated_bytes;
        rig.aggregate();
        // The values take twelve segments; a fifth of them may be garbage, and three are spare.
        assert!(segments(&rig) <= 20, "{of_rounds:?}, then {}", segments(&rig));
        let given_back = (of_rounds[5] - segments(&rig)) as u64 * (64 << 10);
        assert!(given_back >= 8 * (64 << 10), "{of_rounds:?}, then {}", segments(&rig));
        // A merge more or less is all else that changed.
        assert!(rig.space().allocated_bytes.abs_diff(allocated - given_back) < 64 << 10);
        for dkey in 0..=255u8 {
            assert_eq!(rig.get(oid(1), &[dkey], b"a"), Some(value(5, dkey)));
        }
        rig.assert_clean();
        rig.crash(CrashPlan::None);
        assert_eq!(rig.get(oid(1), &[7], b"a"), Some(value(5, 7)));
        rig.assert_clean();
    }
}

/// Small values are overwritten while writers write, so that the log is half garbage; then large ones take the rest.
#[test]
fn a_target_is_full_only_when_what_is_live_fills_most_of_it() {
    const SMALL_BYTES: usize = 1000;
    const LARGE_BYTES: usize = 100_000;
    for media in [Media::Mapped, Media::Block] {
        for large in [false, true] {
            let mut rig = limited(media, false);
            let count = if large { 3_000u32 } else { 5_500 };
            for number in 0..8 * count {
                let dkey = number.wrapping_mul(7919) % count;
                rig.put(oid(1), &dkey.to_le_bytes(), b"a", &[1; SMALL_BYTES]).unwrap_or_else(|error| {
                    panic!("{error:?} after {number} writes of {count} values, {media:?}")
                });
            }
            let mut live = u64::from(count) * SMALL_BYTES as u64;
            if large {
                let mut dkey = count;
                while rig.put(oid(1), &dkey.to_le_bytes(), b"a", &[2; LARGE_BYTES]).is_ok() {
                    live += LARGE_BYTES as u64;
                    dkey += 1;
                }
            }
            let least = if large { ROOM_BYTES * 6 / 10 } else { ROOM_BYTES * 4 / 10 };
            assert!(live >= least, "{live} bytes live of {ROOM_BYTES}, {media:?}, large {large}");
            rig.assert_clean();
        }
    }
}

#[test]
fn what_is_punched_all_over_a_full_log_makes_room_for_large_values() {
    const LARGE_BYTES: usize = 100_000;
    for media in [Media::Mapped, Media::Block] {
        for small_bytes in [1000, 3000] {
            let mut rig = limited(media, false);
            let mut smalls = 0u32;
            while rig.put(oid(1), &smalls.to_le_bytes(), b"a", &vec![1; small_bytes]).is_ok() {
                smalls += 1;
            }
            // Every segment of the log is half full now, and no one merge has room to empty them all.
            for dkey in (0..smalls).step_by(2) {
                let scope = PunchScope::Dkey(Key::from_slice(&dkey.to_le_bytes()));
                rig.punch(oid(1), scope, Cond::NONE).unwrap();
            }
            let mut larges = 0u32;
            while rig.put(oid(2), &larges.to_le_bytes(), b"a", &[2; LARGE_BYTES]).is_ok() {
                larges += 1;
            }
            let live = u64::from(smalls / 2) * small_bytes as u64 + u64::from(larges) * LARGE_BYTES as u64;
            assert!(
                live >= ROOM_BYTES * 3 / 4,
                "{live} bytes live of {ROOM_BYTES}, {larges} large, {media:?}"
            );
            rig.assert_clean();
        }
    }
}

#[test]
fn what_a_full_device_refuses_uses_up_no_numbers_of_runs() {
    let config = TargetConfig { checkpoint_log_bytes: 64 << 10, ..small_config() };
    let drive = SimDrive::new(SimConfig { capacity_bytes: 12 << 20, ..SimConfig::default() });
    let mut rig = Rig::bare_on(drive, config);
    rig.create_container(Durability::Process);
    for dkey in 0..200_u32 {
        rig.put(oid(1), &dkey.to_le_bytes(), b"a", &[7; 3000]).unwrap();
    }
    let mut disk = SimDisk::new(&rig.drive);
    let free = disk.space().unwrap().free_bytes;
    let held = disk.create("others", free).unwrap();
    let mut refused = 0;
    for dkey in 1000..2000_u32 {
        match rig.put(oid(1), &dkey.to_le_bytes(), b"a", &[7; 3000]) {
            Ok(_) => {}
            Err(Error::NoSpace { .. }) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
        rig.target.as_mut().unwrap().step();
    }
    assert!(refused > 900, "{refused}");
    disk.close(held);
    disk.remove("others").unwrap();
    rig.ask(Verb::Checkpoint).unwrap();
    let files = disk.list().unwrap();
    let runs = files.iter().filter_map(|name| u32::from_str_radix(name.strip_prefix("run.")?, 16).ok());
    let last = runs.max();
    assert!(last < Some(32), "{last:?} after {refused} refused writes");
}

/// Fills a target with values of a size, and compares what it said was free with what was written from there on.
fn judge_free_bytes(rng: &mut Rng) {
    let below = |rng: &mut Rng, bound| rng.below(bound);
    let bulk_segment_bytes = 256 << 10 << below(rng, 3);
    let sizes = (16..19).map(|shift| 1u64 << shift).filter(|&size| size <= bulk_segment_bytes);
    let sizes: Vec<u64> = sizes.collect();
    let size = sizes[usize::try_from(below(rng, sizes.len() as u64)).unwrap()];
    let room_bytes = (8 << 20) + below(rng, 8 << 20);
    let (by_device, apart) = (below(rng, 2) == 0, below(rng, 2) == 0);
    let media = if below(rng, 2) == 0 { Media::Block } else { Media::Mapped };
    let config = TargetConfig {
        capacity_bytes: if by_device { 1 << 40 } else { room_bytes },
        bulk_segment_bytes: u32::try_from(bulk_segment_bytes).unwrap(),
        ..small_config()
    };
    let seed = below(rng, 1 << 32);
    let of = |capacity_bytes| SimConfig { seed, media, capacity_bytes, ..SimConfig::default() };
    let drive = SimDrive::new(of(if by_device && !apart { room_bytes } else { 1 << 30 }));
    let bulk_bytes = if by_device { room_bytes } else { 1 << 30 };
    let bulk = apart.then(|| SimDrive::on_power(of(bulk_bytes), drive.power()));
    let what = format!(
        "{size} into {bulk_segment_bytes} of {room_bytes}, {media:?}, by the device {by_device}, apart {apart}"
    );
    let mut rig = Rig::created(drive, bulk, config);
    rig.create_container(Durability::Process);
    let (mut key, works) = (0u64, below(rng, 2) == 0);
    let value = vec![1; usize::try_from(size).unwrap()];
    for round in 0..3 {
        let (mut said, mut written) = (Vec::new(), 0);
        let refused = loop {
            said.push((written, rig.space().free_bytes));
            match rig.put(oid(1), &key.to_le_bytes(), b"a", &value) {
                Ok(_) => (key, written) = (key + 1, written + size),
                Err(error) => break error,
            }
            while works && rig.target.as_mut().unwrap().step() == Progress::More {}
        };
        assert_eq!(refused.der(), -1007, "{what}: DER_NOSPACE");
        for &(before, free) in &said {
            assert!(
                free <= written - before + size,
                "{what}, {round}: {free} free, and {} written",
                written - before
            );
        }
        let least = said[0].1 + bulk_segment_bytes + written / 64;
        assert!(least >= written, "{what}, {round}: {} free, and {written} written", said[0].1);
        for key in (0..key).filter(|_| rng.below(2) == 0) {
            rig.punch(oid(1), PunchScope::Dkey(Key::from_slice(&key.to_le_bytes())), Cond::NONE).unwrap();
        }
        rig.aggregate();
        rig.ask(Verb::Checkpoint).unwrap();
    }
}

#[test]
fn what_a_target_says_is_free_can_be_written() {
    let seed = Rng::from_entropy().unwrap().below(1 << 32);
    println!("seed {seed}");
    let mut rng = Rng::from_seed(seed);
    for _ in 0..amount("FREE_ROUNDS", 40) {
        judge_free_bytes(&mut rng);
    }
}
