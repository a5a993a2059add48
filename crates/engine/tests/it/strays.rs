//! Files in a target's directory that it has not made: they stop nothing, and stay.

use crate::rig::{Rig, oid, tiny};
use dolmen_env::sim::{CrashPlan, SimDisk};
use dolmen_env::{Disk as _, Media};
use dolmen_types::Durability;

/// A closed target with a value, and beside it a file of this name.
fn beside(name: &str, len: u64) -> Rig {
    let mut rig = Rig::with_config(Media::Mapped, Durability::Process, tiny());
    rig.put(oid(1), b"d", b"a", b"acknowledged").unwrap();
    rig.target.take().unwrap().close().unwrap();
    let mut disk = SimDisk::new(&rig.drive);
    let file = disk.create(name, len).unwrap();
    disk.close(file);
    rig
}

/// Has the log and bulk grow by segments, and runs and manifests come and go.
fn fill(rig: &mut Rig) {
    for number in 0..1000_u32 {
        rig.put(oid(2), &number.to_le_bytes(), b"a", &[3; 500]).unwrap();
    }
    for number in 0..100_u32 {
        rig.put(oid(3), &number.to_le_bytes(), b"a", &[4; 20_000]).unwrap();
    }
    rig.aggregate();
}

fn assert_stored(rig: &mut Rig) {
    assert_eq!(rig.get(oid(1), b"d", b"a").as_deref(), Some(&b"acknowledged"[..]));
    assert_eq!(rig.get(oid(2), &999_u32.to_le_bytes(), b"a"), Some(vec![3; 500]));
    assert_eq!(rig.get(oid(3), &99_u32.to_le_bytes(), b"a"), Some(vec![4; 20_000]));
    rig.assert_clean();
}

#[test]
fn a_segment_of_a_number_at_the_end_of_all_numbers_takes_no_other_with_it() {
    let lens = [("log", u64::from(tiny().log_segment_bytes)), ("bulk", u64::from(tiny().bulk_segment_bytes))];
    for (kind, len) in lens {
        for number in [u32::MAX / 2 - 1, u32::MAX / 2, u32::MAX / 2 + 1, u32::MAX - 1, u32::MAX] {
            let mut rig = beside(&format!("{kind}.{number:08x}"), len);
            rig.reopen();
            fill(&mut rig);
            assert_stored(&mut rig);
            rig.crash(CrashPlan::Process);
            assert_stored(&mut rig);
            rig.close_and_reopen();
            assert_stored(&mut rig);
        }
    }
}

#[test]
fn a_file_that_only_begins_like_one_of_a_target_stops_no_open_and_stays() {
    let names = ["log.bad", "log.0", "log.+0", "log.+0000000", "log.00000BAD", "log.ffffffff", "log.old"];
    let others =
        ["bulk.bad", "bulk.ffffffff", "run.bad", "run.ffffffff", "run.00000000~", "manifest.bak", "log"];
    for name in names.into_iter().chain(others) {
        let mut rig = beside(name, 10);
        rig.reopen();
        fill(&mut rig);
        rig.crash(CrashPlan::Process);
        assert_stored(&mut rig);
        rig.close_and_reopen();
        assert_stored(&mut rig);
        let files = SimDisk::new(&rig.drive).list().unwrap();
        assert!(files.iter().any(|file| file == name), "{name} of {files:?}");
    }
}
