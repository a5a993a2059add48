//! What a simulated device may hold after a crash, for every plan.

use dolmen_env::sim::{CrashPlan, Fault, SimConfig, SimDisk, SimDrive, SimPower};
use dolmen_env::{Disk, Error, Io, IoOp, Media, Op, Result};
use dolmen_types::IoBuf;
use std::collections::BTreeSet;

const LEN: u64 = 12 << 10;

/// Three writes of one kind of byte each, apart from one another.
const WRITES: [(u64, usize, u8); 3] = [(0, 1024, 1), (1024, 1536, 2), (4096, 4096, 3)];

/// Makes a file, writes three times (buffered, buffered, direct) and flushes.
fn three_writes(disk: &mut SimDisk) -> Result<()> {
    let f = disk.create("f", LEN)?;
    disk.sync_names()?;
    for (offset, len, byte) in &WRITES[..2] {
        disk.write_at(f, *offset, &vec![*byte; *len])?;
    }
    let (offset, len, byte) = WRITES[2];
    let op = IoOp::Write(IoBuf::copy_of(&vec![byte; len]), len as u32);
    disk.submit(Io { token: 0, file: f, offset, op });
    let mut done = Vec::new();
    disk.poll(true, &mut done);
    done.remove(0).result?;
    disk.flush(f)
}

fn contents(drive: &SimDrive) -> Vec<u8> {
    drive.files().bytes("f").unwrap()
}

/// Which part of write `i` the file holds: none, all or some; anything else fails.
fn share(bytes: &[u8], i: usize) -> f64 {
    let (offset, len, byte) = WRITES[i];
    let part = &bytes[offset as usize..][..len];
    assert!(part.iter().all(|&b| b == 0 || b == byte), "a byte that nobody wrote");
    part.iter().filter(|&&b| b == byte).count() as f64 / len as f64
}

fn shares(drive: &SimDrive) -> [f64; 3] {
    let bytes = contents(drive);
    core::array::from_fn(|i| share(&bytes, i))
}

#[test]
fn every_boundary_and_every_plan_of_three_writes() {
    let whole = SimDrive::new(SimConfig::default());
    three_writes(&mut SimDisk::new(&whole)).unwrap();
    // Two for the create, one for its name, three writes, one flush.
    assert_eq!(whole.power().ops(), 7);
    assert_eq!(shares(&whole.crash(CrashPlan::None)), [1.0; 3]);

    for op in 0..7 {
        let drive = SimDrive::new(SimConfig { seed: op, ..SimConfig::default() });
        drive.power().fail_at(op, Fault::Crash);
        assert_eq!(three_writes(&mut SimDisk::new(&drive)), Err(Error::Crashed));
        assert!(drive.power().is_crashed());
        let plans = drive.crash_plans(32);
        let unsynced = drive.unsynced();
        // The write that a crash meets on its way (op 5) is one that may have happened.
        assert_eq!(unsynced.len(), [0, 1, 1, 0, 1, 3, 3][op as usize]);
        for plan in plans {
            let after = drive.crash(plan);
            let has_name = after.files().bytes("f").is_some();
            assert_eq!(drive.crash(plan).files(), after.files(), "a plan is repeatable");
            match op {
                0 => assert!(!has_name),
                1 => assert!(after.files().bytes("f").is_none_or(|bytes| bytes.is_empty())),
                2 => assert!(after.files().bytes("f").is_none_or(|bytes| bytes == vec![0; LEN as usize])),
                _ => check_shares(plan, &shares(&after), unsynced.len(), &format!("op {op} {plan:?}")),
            }
        }
    }
}

fn check_shares(plan: CrashPlan, shares: &[f64; 3], unsynced: usize, context: &str) {
    for (i, &share) in shares.iter().enumerate() {
        let is_torn = 0.0 < share && share < 1.0;
        match plan {
            _ if i >= unsynced => assert_eq!(share, 0.0, "{context}"),
            CrashPlan::None => assert_eq!(share, 0.0, "{context}"),
            CrashPlan::AllBut(lost) if lost == i => assert_eq!(share, 0.0, "{context}"),
            CrashPlan::Torn(torn) | CrashPlan::TornByte(torn) if torn == i => assert!(is_torn, "{context}"),
            CrashPlan::Subset(_) | CrashPlan::Process => {}
            _ => assert_eq!(share, 1.0, "{context}"),
        }
    }
}

#[test]
fn subsets_reach_every_combination_also_later_without_earlier() {
    let drive = SimDrive::new(SimConfig::default());
    drive.power().fail_at(6, Fault::Crash);
    assert_eq!(three_writes(&mut SimDisk::new(&drive)), Err(Error::Crashed));
    let mut seen = BTreeSet::new();
    let mut torn = 0;
    for seed in 0..256 {
        let shares = shares(&drive.crash(CrashPlan::Subset(seed)));
        torn += shares.iter().filter(|&&share| 0.0 < share && share < 1.0).count();
        seen.insert(shares.map(|share| share == 1.0));
    }
    assert_eq!(seen.len(), 8);
    assert!(torn > 100, "{torn} torn writes in 768");
}

#[test]
fn the_death_of_a_process_loses_nothing_written() {
    let drive = SimDrive::new(SimConfig::default());
    drive.power().fail_at(6, Fault::Crash);
    assert_eq!(three_writes(&mut SimDisk::new(&drive)), Err(Error::Crashed));
    assert_eq!(shares(&drive.crash(CrashPlan::Process)), [1.0; 3]);
}

#[test]
fn names_are_durable_only_after_their_sync() {
    let drive = SimDrive::new(SimConfig::default());
    let mut disk = SimDisk::new(&drive);
    let f = disk.create("old", 4096).unwrap();
    disk.sync_names().unwrap();
    disk.write_at(f, 0, b"kept").unwrap();
    disk.flush(f).unwrap();
    disk.rename("old", "new").unwrap();
    let g = disk.create("other", 4096).unwrap();
    disk.flush(g).unwrap();
    let names = |plan| drive.crash(plan).files().iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(CrashPlan::None), ["old"]);
    assert_eq!(names(CrashPlan::All), ["new", "other"]);
    assert_eq!(names(CrashPlan::AllBut(0)), ["old", "other"]);
    assert_eq!(names(CrashPlan::AllBut(1)), ["new"]);
    assert_eq!(names(CrashPlan::Process), ["new", "other"]);
    assert_eq!(&drive.crash(CrashPlan::All).files().bytes("new").unwrap()[..4], b"kept");
    disk.remove("new").unwrap();
    assert_eq!(&drive.crash(CrashPlan::None).files().bytes("old").unwrap()[..4], b"kept");
    disk.close(f);
    disk.sync_names().unwrap();
    assert_eq!(names(CrashPlan::None), ["other"]);
    let ops: Vec<Op> = drive.unsynced().iter().map(|op| op.op).collect();
    assert_eq!(ops, []);
}

#[test]
fn a_replacing_rename_is_old_or_new_and_never_neither() {
    let drive = SimDrive::new(SimConfig::default());
    let mut disk = SimDisk::new(&drive);
    for (name, bytes) in [("current", b"old"), ("next", b"new")] {
        let f = disk.create(name, 3).unwrap();
        disk.write_at(f, 0, bytes).unwrap();
        disk.flush(f).unwrap();
    }
    disk.sync_names().unwrap();
    disk.rename("next", "current").unwrap();
    for plan in drive.crash_plans(16) {
        let current = drive.crash(plan).files().bytes("current").unwrap();
        assert!(current == b"old" || current == b"new", "{plan:?}");
    }
}

#[test]
fn a_failed_flush_is_seen_and_what_it_covered_never_becomes_durable() {
    let drive = SimDrive::new(SimConfig::default());
    let mut disk = SimDisk::new(&drive);
    let f = disk.create("f", 4096).unwrap();
    disk.sync_names().unwrap();
    disk.write_at(f, 0, b"doomed").unwrap();
    drive.power().fail_at(drive.power().ops(), Fault::Eio);
    assert!(matches!(disk.flush(f), Err(Error::Io { op: Op::Flush, .. })));
    disk.write_at(f, 100, b"later").unwrap();
    disk.flush(f).unwrap();
    let mut out = [0; 6];
    disk.read_at(f, 0, &mut out).unwrap();
    assert_eq!(&out, b"doomed", "it can still be read");
    let after = drive.crash(CrashPlan::None).files().bytes("f").unwrap();
    assert_eq!((&after[..6], &after[100..105]), (&[0; 6][..], &b"later"[..]));
    assert_eq!(&drive.crash(CrashPlan::All).files().bytes("f").unwrap()[..6], b"doomed");
}

#[test]
fn a_write_through_memory_that_fails_shows_at_the_flush_once() {
    let drive = SimDrive::new(SimConfig { media: Media::Mapped, ..SimConfig::default() });
    let mut disk = SimDisk::new(&drive);
    let f = disk.create("f", 8192).unwrap();
    disk.sync_names().unwrap();
    let mut region = disk.map(f).unwrap();
    let before = drive.power().ops();
    region.write(10, b"one");
    region.zero(20..30);
    assert_eq!(drive.power().ops(), before + 2, "each write through memory is a boundary");
    disk.flush(f).unwrap();
    assert_eq!(&drive.crash(CrashPlan::None).files().bytes("f").unwrap()[10..13], b"one");
    drive.power().fail_at(drive.power().ops(), Fault::Eio);
    region.write(40, b"two");
    assert!(disk.flush(f).is_err());
    disk.flush(f).unwrap();
    drive.power().fail_at(drive.power().ops(), Fault::Crash);
    region.write(50, b"six");
    assert_eq!(disk.flush(f), Err(Error::Crashed));
    assert_eq!(drive.crash(CrashPlan::All).files().bytes("f").unwrap()[50..53], [0; 3]);
}

#[test]
fn a_flush_covers_no_other_file_and_a_flush_of_all_covers_the_named_ones() {
    let drive = SimDrive::new(SimConfig::default());
    let mut disk = SimDisk::new(&drive);
    let (log, bulk) = (disk.create("log", 4096).unwrap(), disk.create("bulk", 4096).unwrap());
    let bytes = vec![5; 4096];
    disk.submit(Io { token: 0, file: bulk, offset: 0, op: IoOp::Write(IoBuf::copy_of(&bytes), 4096) });
    disk.poll(true, &mut Vec::new());
    let bulk_after = |drive: &SimDrive| drive.crash(CrashPlan::None).files().bytes("bulk");
    disk.flush_all(&[log]).unwrap();
    assert_eq!(bulk_after(&drive).unwrap(), [0; 4096]);
    disk.flush_all(&[log, bulk]).unwrap();
    assert_eq!(bulk_after(&drive).unwrap(), bytes);
}

#[test]
fn a_flush_does_not_cover_what_was_submitted_beside_it() {
    let mut lost = 0;
    for seed in 0..64 {
        let drive = SimDrive::new(SimConfig { seed, ..SimConfig::default() });
        let mut disk = SimDisk::new(&drive);
        let f = disk.create("f", 4096).unwrap();
        disk.sync_names().unwrap();
        disk.submit(Io { token: 1, file: f, offset: 0, op: IoOp::Write(IoBuf::copy_of(&[7; 512]), 512) });
        disk.submit(Io { token: 2, file: f, offset: 0, op: IoOp::Flush });
        let mut done = Vec::new();
        while done.len() < 2 {
            disk.poll(true, &mut done);
        }
        assert!(done.iter().all(|done| done.result.is_ok()), "seed {seed}");
        lost += u32::from(drive.crash(CrashPlan::None).files().bytes("f").unwrap()[0] == 0);
    }
    assert_eq!(lost, 64, "whatever the order, the flush was submitted before the write had completed");
}

#[test]
fn writes_in_flight_at_the_crash_are_there_or_not() {
    let drive = SimDrive::new(SimConfig::default());
    let mut disk = SimDisk::new(&drive);
    let f = disk.create("f", 4096).unwrap();
    disk.sync_names().unwrap();
    disk.submit(Io { token: 1, file: f, offset: 0, op: IoOp::Write(IoBuf::copy_of(&[7; 512]), 512) });
    drop(disk);
    assert!(drive.unsynced()[0].in_flight);
    let first = |plan| drive.crash(plan).files().bytes("f").unwrap()[0];
    assert_eq!((first(CrashPlan::None), first(CrashPlan::All), first(CrashPlan::AllBut(0))), (0, 7, 0));
}

#[test]
fn one_supply_stops_all_its_drives() {
    let power = SimPower::new();
    let drives = [(); 2].map(|()| SimDrive::on_power(SimConfig::default(), &power));
    let mut disks = [0, 1].map(|i| SimDisk::new(&drives[i]));
    power.fail_at(3, Fault::Crash);
    let f = disks[0].create("f", 512).unwrap();
    assert_eq!(disks[1].create("g", 512), Err(Error::Crashed));
    assert_eq!(disks[0].read_at(f, 0, &mut [0]), Err(Error::Crashed));
    assert_eq!(disks[0].list(), Err(Error::Crashed));
    disks[0].submit(Io { token: 3, file: f, offset: 0, op: IoOp::Write(IoBuf::zeroed(512), 512) });
    let mut done = Vec::new();
    disks[0].poll(true, &mut done);
    assert_eq!(done[0].result, Err(Error::Crashed));
    let after = drives[0].crash_onto(CrashPlan::All, &SimPower::new());
    assert_eq!(after.files().iter().collect::<Vec<_>>(), [("f", 512)]);
}

#[test]
fn a_file_is_longer_for_good_only_after_a_flush() {
    let drive = SimDrive::new(SimConfig::default());
    let mut disk = SimDisk::new(&drive);
    let other = disk.create("other", 4096).unwrap();
    let f = disk.create("f", 0).unwrap();
    disk.sync_names().unwrap();
    disk.extend(f, 4096).unwrap();
    let op = IoOp::Write(IoBuf::copy_of(&[7; 4096]), 4096);
    disk.submit(Io { token: 0, file: f, offset: 0, op });
    let mut done = Vec::new();
    disk.poll(true, &mut done);
    // The flush of another file covers direct writes, but not what lies behind a durable end.
    disk.flush(other).unwrap();
    let bytes = |plan| contents(&drive.crash(plan));
    assert_eq!(bytes(CrashPlan::None), []);
    assert_eq!(bytes(CrashPlan::All), [7; 4096]);
    assert_eq!(bytes(CrashPlan::AllBut(0)), [], "without its length the file has no data");
    assert_eq!(bytes(CrashPlan::AllBut(1)), [0; 4096]);
    assert_eq!(bytes(CrashPlan::Process), [7; 4096]);
    disk.flush(f).unwrap();
    assert_eq!(bytes(CrashPlan::None), [7; 4096]);
}
