//! The rest of the simulated disk: full, rotten, dead, restored, repeatable.

use dolmen_env::sim::{CrashPlan, Fault, SimConfig, SimDisk, SimDrive, SimFiles, SimPower};
use dolmen_env::{Disk, Error, Io, IoOp, Op, Rng};
use dolmen_types::{IoBuf, crc32c};
use std::fmt::Write;

#[test]
fn a_full_disk_refuses_creates_and_nothing_else() {
    let drive = SimDrive::new(SimConfig { capacity_bytes: 10_000, ..SimConfig::default() });
    let mut disk = SimDisk::new(&drive);
    let f = disk.create("f", 8000).unwrap();
    let refused = Error::NoSpace { name: "g".to_owned(), needed_bytes: 2001 };
    assert_eq!(disk.create("g", 2001), Err(refused));
    assert_eq!(disk.list().unwrap(), ["f"]);
    disk.write_at(f, 7000, &[1; 1000]).unwrap();
    disk.flush(f).unwrap();
    let g = disk.create("g", 2000).unwrap();
    assert_eq!(disk.space().unwrap().free_bytes, 0);
    disk.remove("g").unwrap();
    assert!(disk.create("h", 1).unwrap_err().is_no_space(), "an open file keeps its room");
    disk.close(g);
    assert_eq!(disk.space().unwrap().free_bytes, 2000);
}

#[test]
fn a_single_fault_passes_and_a_dead_device_stays_dead() {
    let drive = SimDrive::new(SimConfig::default());
    let mut disk = SimDisk::new(&drive);
    drive.power().fail_at(1, Fault::NoSpace);
    assert!(disk.create("f", 4096).unwrap_err().is_no_space());
    assert_eq!(disk.list().unwrap(), Vec::<String>::new(), "a failed create leaves nothing");
    let f = disk.create("f", 4096).unwrap();
    drive.power().fail_at(drive.power().ops(), Fault::Eio);
    assert!(matches!(disk.write_at(f, 0, &[9; 2048]), Err(Error::Io { op: Op::Write, .. })));
    disk.write_at(f, 0, &[8; 2048]).unwrap();
    drive.power().fail_at(drive.power().ops(), Fault::Dead);
    assert!(disk.flush(f).is_err());
    assert!(matches!(disk.read_at(f, 0, &mut [0]), Err(Error::Io { op: Op::Read, .. })));
    assert!(disk.create("g", 1).is_err());
    assert!(!drive.power().is_crashed());
}

#[test]
fn rot_and_bad_sectors_appear_where_they_were_put() {
    let drive = SimDrive::new(SimConfig::default());
    let mut disk = SimDisk::new(&drive);
    let f = disk.create("f", 8192).unwrap();
    disk.sync_names().unwrap();
    drive.flip("f", 5000, 3).unwrap();
    drive.corrupt("f", 10, b"junk").unwrap();
    let mut out = vec![0; 8192];
    disk.read_at(f, 0, &mut out).unwrap();
    assert_eq!((out[5000], &out[10..14]), (8, &b"junk"[..]));
    assert_eq!(drive.crash(CrashPlan::None).files().bytes("f").unwrap(), out, "it is on the medium, too");
    assert!(matches!(drive.flip("f", 8192, 0), Err(Error::OutOfRange { .. })));
    assert!(matches!(drive.flip("none", 0, 0), Err(Error::NotFound { .. })));
    drive.break_range("f", 512..1024).unwrap();
    disk.read_at(f, 0, &mut out[..512]).unwrap();
    assert!(disk.read_at(f, 1000, &mut out[..100]).is_err());
}

#[test]
fn files_can_be_kept_changed_and_put_back() {
    let drive = SimDrive::new(SimConfig::default());
    let mut disk = SimDisk::new(&drive);
    let f = disk.create("f", 5000).unwrap();
    disk.write_at(f, 4090, b"content").unwrap();
    let kept = drive.files();
    let mut rotten = kept.clone();
    assert!(rotten.flip("f", 4091, 0));
    assert!(!rotten.flip("f", 5000, 0));
    rotten.insert("extra", b"more");
    let other = SimDrive::with_files(SimConfig::default(), &SimPower::new(), &rotten);
    assert_eq!(other.files().iter().collect::<Vec<_>>(), [("extra", 4), ("f", 5000)]);
    assert_eq!(&other.files().bytes("f").unwrap()[4090..4097], b"cnntent");
    disk.write_at(f, 0, b"changed").unwrap();
    drive.restore(&kept);
    assert_eq!(drive.files(), kept);
    assert!(matches!(disk.read_at(f, 0, &mut [0]), Err(Error::NotOpen { .. })), "ids end with a restore");
    assert_eq!(SimFiles::default().total_bytes(), 0);
}

/// A random workload; all that it saw, as text.
fn history(seed: u64) -> String {
    let drive = SimDrive::new(SimConfig { seed, ..SimConfig::default() });
    let mut disk = SimDisk::new(&drive);
    let mut rng = Rng::from_seed(seed);
    let mut seen = String::new();
    let files = ["a", "b"].map(|name| disk.create(name, 64 << 10).unwrap());
    drive.power().fail_at(60, Fault::Eio);
    for token in 0..100 {
        let file = files[rng.index(2)];
        let (offset, len) = (rng.below(60 << 10), rng.below(4096) as u32);
        let bytes = vec![token as u8; len as usize];
        match rng.below(5) {
            0 => writeln!(seen, "{:?}", disk.write_at(file, offset, &bytes)),
            1 => writeln!(seen, "{:?}", disk.flush(file)),
            2 => {
                let op = IoOp::Read(IoBuf::copy_of(&bytes), len);
                disk.submit(Io { token, file, offset, op });
                Ok(())
            }
            _ => {
                let op = IoOp::Write(IoBuf::copy_of(&bytes), len);
                disk.submit(Io { token, file, offset, op });
                Ok(())
            }
        }
        .unwrap();
        let mut done = Vec::new();
        disk.poll(rng.one_in(3), &mut done);
        for done in done {
            let crc = done.buf.map(|buf| crc32c(&buf));
            writeln!(seen, "{} {:?} {crc:?}", done.token, done.result).unwrap();
        }
    }
    for plan in drive.crash_plans(4) {
        let files = drive.crash(plan).files();
        writeln!(seen, "{plan:?} {}", crc32c(&files.bytes("a").unwrap_or_default())).unwrap();
    }
    seen
}

#[test]
fn one_seed_gives_one_history_and_two_give_two() {
    for seed in 0..20 {
        assert_eq!(history(seed), history(seed), "seed {seed}");
        assert_ne!(history(seed), history(seed + 1), "seed {seed}");
    }
}
