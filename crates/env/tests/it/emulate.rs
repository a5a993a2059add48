//! A disk within limits keeps them.

use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
use dolmen_env::{Clock, Disk, Emulated, Errno, Error, Io, IoOp, Limits, Media, RealClock};
use dolmen_types::IoBuf;

fn emulated(limits: Limits) -> Emulated<SimDisk> {
    Emulated::new(SimDisk::new(&SimDrive::new(SimConfig::default())), limits)
}

fn elapsed_ns(work: impl FnOnce()) -> u64 {
    let start = RealClock.monotonic_ns();
    work();
    RealClock.monotonic_ns() - start
}

#[test]
fn bandwidth_rate_and_latency_take_at_least_their_time() {
    let cases = [
        (Limits { bytes_per_s: 100_000_000, ..Limits::default() }, 8 * 65_536 * 10),
        (Limits { ops_per_s: 1_000, ..Limits::default() }, 8_000_000),
        (Limits { latency_ns: 3_000_000, ..Limits::default() }, 3_000_000),
    ];
    for (limits, least_ns) in cases {
        let mut disk = emulated(limits);
        let f = disk.create("f", 1 << 20).unwrap();
        let mut done = Vec::new();
        let taken_ns = elapsed_ns(|| {
            for token in 0..8 {
                let op = IoOp::Write(IoBuf::zeroed(65_536), 65_536);
                disk.submit(Io { token, file: f, offset: token * 65_536, op });
            }
            while done.len() < 8 {
                disk.poll(true, &mut done);
            }
        });
        assert!(taken_ns >= least_ns, "{limits:?}: {taken_ns} ns instead of {least_ns}");
        done.sort_by_key(|done| done.token);
        assert!(done.iter().enumerate().all(|(i, done)| done.token == i as u64 && done.result == Ok(65_536)));
    }
}

#[test]
fn latencies_of_operations_in_flight_overlap_and_blocking_ones_add_up() {
    let latency_ns = 20_000_000;
    let mut disk = emulated(Limits { latency_ns, flush_latency_ns: latency_ns, ..Limits::default() });
    let f = disk.create("f", 4096).unwrap();
    let blocking_ns = elapsed_ns(|| {
        disk.write_at(f, 0, b"x").unwrap();
        disk.read_at(f, 0, &mut [0]).unwrap();
        disk.flush(f).unwrap();
    });
    assert!(blocking_ns >= 3 * latency_ns);
    let mut done = Vec::new();
    for token in 0..4 {
        disk.submit(Io { token, file: f, offset: 0, op: IoOp::Read(IoBuf::zeroed(8), 8) });
    }
    disk.poll(false, &mut done);
    assert!(done.is_empty(), "nothing completes before its time");
    disk.poll(true, &mut done);
    assert!(!done.is_empty());
}

#[test]
fn a_worn_out_device_fails_for_good_and_media_can_be_claimed() {
    let limits = Limits { fail_after_ops: Some(2), media: Some(Media::Mapped), ..Limits::default() };
    let mut disk = emulated(limits);
    assert_eq!(disk.media(), Media::Mapped);
    let f = disk.create("f", 4096).unwrap();
    disk.write_at(f, 0, b"x").unwrap();
    disk.flush(f).unwrap();
    assert!(matches!(disk.write_at(f, 0, b"y"), Err(Error::Io { errno: Errno::IO, .. })));
    let mut done = Vec::new();
    disk.submit(Io { token: 77, file: f, offset: 0, op: IoOp::Read(IoBuf::zeroed(8), 8) });
    disk.poll(true, &mut done);
    assert_eq!((done[0].token, done[0].result.is_err(), done[0].buf.is_some()), (77, true, true));
}
