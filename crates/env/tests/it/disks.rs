//! One script, every disk: real with and without ring and direct I/O, in memory, simulated, emulated.

use crate::places::Place;
use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
use dolmen_env::{
    Disk, Emulated, Errno, Error, Io, IoDone, IoOp, Limits, Media, Mode, RealDisk, RealOptions,
};
use dolmen_types::{IoBuf, crc32c};
use std::os::unix::fs::FileExt;

const LEN: u64 = 1 << 20;

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8).wrapping_add(seed)).collect()
}

fn wait_all(disk: &mut impl Disk, count: usize) -> Vec<IoDone> {
    let mut done = Vec::new();
    while done.len() < count {
        let before = done.len();
        disk.poll(true, &mut done);
        assert!(done.len() > before, "poll with wait must bring a completion");
    }
    done.sort_by_key(|done| done.token);
    done
}

fn names_behave(disk: &mut impl Disk) {
    assert_eq!(disk.list().unwrap(), Vec::<String>::new());
    let a = disk.create("a", LEN).unwrap();
    let b = disk.open_as("b", Mode::Create { len_bytes: 4096 }).unwrap();
    assert_eq!(disk.create("a", 1), Err(Error::Exists { name: "a".to_owned() }));
    assert_eq!(disk.open("a"), Err(Error::Busy { name: "a".to_owned() }));
    assert_eq!(disk.open("none"), Err(Error::NotFound { name: "none".to_owned() }));
    assert!(matches!(disk.create("x/y", 1), Err(Error::BadName { .. })));
    assert_eq!((disk.len(a), disk.len(b)), (Ok(LEN), Ok(4096)));
    assert_eq!(disk.list().unwrap(), ["a", "b"]);
    disk.write_at(b, 0, b"moved").unwrap();
    disk.rename("b", "c").unwrap();
    disk.sync_names().unwrap();
    assert!(matches!(disk.rename("b", "d"), Err(Error::NotFound { .. })));
    disk.close(b);
    assert_eq!(disk.len(b), Err(Error::NotOpen { file: u32_of(disk.len(b)) }));
    let c = disk.open_as("c", Mode::Open).unwrap();
    let mut out = [0; 5];
    disk.read_at(c, 0, &mut out).unwrap();
    assert_eq!(&out, b"moved");
    disk.rename("c", "a").unwrap();
    assert_eq!(disk.list().unwrap(), ["a"]);
    // The file that lost its name lives until it is closed.
    disk.write_at(a, 7, b"still here").unwrap();
    disk.close(a);
    disk.remove("a").unwrap();
    assert!(matches!(disk.remove("a"), Err(Error::NotFound { .. })));
    disk.sync_names().unwrap();
    disk.close(c);
    assert_eq!(disk.list().unwrap(), Vec::<String>::new());
}

fn u32_of(error: Result<u64, Error>) -> u32 {
    match error {
        Err(Error::NotOpen { file }) => file,
        other => panic!("{other:?}"),
    }
}

fn blocking_behaves(disk: &mut impl Disk) {
    let f = disk.create("blocking", LEN).unwrap();
    let mut all = vec![1; LEN as usize];
    disk.read_at(f, 0, &mut all).unwrap();
    assert!(all.iter().all(|&byte| byte == 0), "a new file is zeros");
    for (offset, len) in [(0, 1), (511, 2), (4095, 4098), (LEN - 3, 3)] {
        let bytes = pattern(len as u8, len);
        disk.write_at(f, offset, &bytes).unwrap();
        let mut out = vec![0; len];
        disk.read_at(f, offset, &mut out).unwrap();
        assert_eq!(out, bytes, "{len} bytes at {offset}");
    }
    disk.flush(f).unwrap();
    for (offset, len) in [(LEN, 1), (LEN - 1, 2), (u64::MAX, 2)] {
        assert!(matches!(disk.write_at(f, offset, &vec![0; len]), Err(Error::OutOfRange { .. })));
        assert!(matches!(disk.read_at(f, offset, &mut vec![0; len]), Err(Error::OutOfRange { .. })));
    }
    disk.close(f);
    disk.remove("blocking").unwrap();
}

fn submitted_behaves(disk: &mut impl Disk) {
    let f = disk.create("submitted", 4 * LEN).unwrap();
    // More than a ring holds, aligned and not, with equal tokens allowed elsewhere.
    let spans: Vec<(u64, u32)> = (0..600)
        .map(|i| if i % 3 == 0 { (i * 4096, 4096) } else { (i * 4096 + 5, 1000 + i as u32) })
        .collect();
    for (i, &(offset, len)) in spans.iter().enumerate() {
        let buf = IoBuf::copy_of(&pattern(i as u8, len as usize + 3));
        disk.submit(Io { token: i as u64, file: f, offset, op: IoOp::Write(buf, len) });
    }
    for (i, done) in wait_all(disk, spans.len()).into_iter().enumerate() {
        assert_eq!((done.token, done.result), (i as u64, Ok(spans[i].1)));
        assert_eq!(
            &done.buf.unwrap()[..],
            pattern(i as u8, spans[i].1 as usize + 3),
            "the buffer comes back"
        );
    }
    disk.submit(Io { token: 9, file: f, offset: 0, op: IoOp::Flush });
    let done = wait_all(disk, 1).remove(0);
    assert_eq!((done.token, done.result, done.buf.is_none()), (9, Ok(0), true));
    for (i, &(offset, len)) in spans.iter().enumerate() {
        let op = IoOp::Read(IoBuf::zeroed(len as usize), len);
        disk.submit(Io { token: i as u64, file: f, offset, op });
    }
    disk.close(f);
    for (i, done) in wait_all(disk, spans.len()).into_iter().enumerate() {
        assert_eq!(done.result, Ok(spans[i].1), "closing waits for nothing and loses nothing");
        assert_eq!(&done.buf.unwrap()[..], pattern(i as u8, spans[i].1 as usize));
    }
    let mut none = Vec::new();
    disk.poll(true, &mut none);
    assert!(none.is_empty(), "nothing in flight: wait returns");
    disk.remove("submitted").unwrap();
}

fn bad_submissions_complete_with_errors(disk: &mut impl Disk) {
    let f = disk.create("bad", LEN).unwrap();
    let stale = disk.create("stale", 4096).unwrap();
    disk.close(stale);
    let read = |len: usize, want| IoOp::Read(IoBuf::zeroed(len), want);
    let write = |len: usize, want| IoOp::Write(IoBuf::zeroed(len), want);
    disk.submit(Io { token: 0, file: f, offset: LEN - 4096, op: read(8192, 8192) });
    disk.submit(Io { token: 1, file: f, offset: u64::MAX - 1, op: write(4096, 4096) });
    disk.submit(Io { token: 2, file: f, offset: 0, op: read(10, 11) });
    disk.submit(Io { token: 3, file: f, offset: 0, op: write(10, 4096) });
    disk.submit(Io { token: 4, file: stale, offset: 0, op: read(10, 10) });
    disk.submit(Io { token: 5, file: stale, offset: 0, op: IoOp::Flush });
    for done in wait_all(disk, 6) {
        match done.token {
            4 | 5 => assert!(matches!(done.result, Err(Error::NotOpen { .. })), "{done:?}"),
            _ => assert!(matches!(done.result, Err(Error::OutOfRange { .. })), "{done:?}"),
        }
        assert_eq!(done.buf.is_none(), done.token == 5);
    }
    disk.close(f);
    disk.remove("bad").unwrap();
    disk.remove("stale").unwrap();
}

fn regions_behave(disk: &mut impl Disk) {
    let f = disk.create("mapped", LEN).unwrap();
    disk.write_at(f, 100, b"before").unwrap();
    let mut region = disk.map(f).unwrap();
    assert_eq!((region.len(), region.bytes(100..106)), (LEN, &b"before"[..]));
    assert!(region.try_bytes(LEN - 1..LEN + 1).is_none());
    assert!(matches!(disk.map(f), Err(Error::Busy { .. })), "one region at a time");
    assert!(matches!(disk.write_at(f, 0, b"x"), Err(Error::Busy { .. })));
    disk.submit(Io { token: 1, file: f, offset: 0, op: IoOp::Write(IoBuf::zeroed(512), 512) });
    assert!(matches!(wait_all(disk, 1).remove(0).result, Err(Error::Busy { .. })));

    let bytes = pattern(3, 100_000);
    region.write(4000, &bytes);
    assert_eq!(region.write_crc(300_001, &bytes), crc32c(&bytes));
    region.zero(4010..4020);
    let mut out = vec![1; bytes.len()];
    assert_eq!(region.copy_crc(300_001, &mut out), crc32c(&bytes));
    assert_eq!(out, bytes);
    disk.read_at(f, 4000, &mut out).unwrap();
    assert_eq!((&out[..10], &out[10..20], &out[20..]), (&bytes[..10], &[0; 10][..], &bytes[20..]));
    disk.flush(f).unwrap();
    disk.close(f);
    assert_eq!(region.bytes(100..106), b"before", "a region outlives its id");
    drop(region);
    let f = disk.open("mapped").unwrap();
    let again = disk.map(f).unwrap();
    assert_eq!(again.bytes(300_001..400_001), bytes);
    drop(again);
    disk.close(f);
    disk.remove("mapped").unwrap();
    let empty = disk.create("empty", 0).unwrap();
    assert!(matches!(disk.map(empty), Err(Error::Io { errno: Errno::INVAL, .. })));
    disk.close(empty);
    disk.remove("empty").unwrap();
}

/// Huge pages are asked for, and whether there are any or not, the bytes are those of the file.
fn large_regions_behave(disk: &mut impl Disk) {
    const HUGE: u64 = 2 << 20;
    let lens = [HUGE, 3 * HUGE, HUGE + 4096, HUGE - 1];
    for (len, for_looks) in lens.into_iter().flat_map(|len| [(len, false), (len, true)]) {
        let create = if for_looks { Disk::create_for_looks } else { Disk::create };
        let f = create(disk, "large", len).unwrap();
        assert_eq!(create(disk, "large", len), Err(Error::Exists { name: "large".to_owned() }));
        let mut zeros = vec![1; usize::try_from(len).unwrap()];
        disk.read_at(f, 0, &mut zeros).unwrap();
        assert!(zeros.iter().all(|&byte| byte == 0), "{len}");
        let bytes = pattern(5, 70_000);
        let places = [0, len / 2, len - 70_000];
        disk.write_at(f, places[1], &bytes).unwrap();
        for round in 0..2 {
            let mut region = disk.map(f).unwrap();
            region.prefer_huge_pages();
            assert_eq!((region.len(), region.bytes(places[1]..places[1] + 70_000)), (len, &bytes[..]));
            region.write(places[0], &bytes);
            region.write(places[2], &bytes);
            drop(region);
            for place in places {
                let mut out = vec![0; bytes.len()];
                disk.read_at(f, place, &mut out).unwrap();
                assert!(out == bytes, "{place} of {len}, round {round}");
            }
        }
        disk.close(f);
        disk.remove("large").unwrap();
    }
}

#[test]
fn a_file_for_looks_has_all_its_blocks() {
    use std::os::unix::fs::MetadataExt;
    for place in [Place::in_memory(), Place::on_block()] {
        let mut disk = RealDisk::open(place.path()).unwrap();
        for len in [4_u64 << 20, (4 << 20) + 4096] {
            let f = disk.create_for_looks("looks", len).unwrap();
            let stat = std::fs::metadata(place.path().join("looks")).unwrap();
            assert!(stat.len() == len && stat.blocks() * 512 >= len, "{} blocks of {len}", stat.blocks());
            let space = disk.space().unwrap();
            let too_long = space.free_bytes.next_multiple_of(2 << 20) + (2 << 20);
            assert!(disk.create_for_looks("too long", too_long).unwrap_err().is_no_space());
            assert_eq!(disk.list().unwrap(), ["looks"]);
            disk.close(f);
            disk.remove("looks").unwrap();
        }
    }
}

fn growing_behaves(disk: &mut impl Disk) {
    let f = disk.create("growing", 0).unwrap();
    let bytes = pattern(5, 8192);
    for piece in 0..3_u64 {
        disk.extend(f, 8192).unwrap();
        assert_eq!(disk.len(f), Ok((piece + 1) * 8192));
        let mut zeros = [1; 8192];
        disk.read_at(f, piece * 8192, &mut zeros).unwrap();
        assert_eq!(zeros, [0; 8192]);
        let op = IoOp::Write(IoBuf::copy_of(&bytes), 8192);
        disk.submit(Io { token: piece, file: f, offset: piece * 8192, op });
    }
    assert!(wait_all(disk, 3).iter().all(|done| done.result == Ok(8192)));
    disk.flush(f).unwrap();
    assert!(matches!(disk.write_at(f, 24_000, &[0; 600]), Err(Error::OutOfRange { .. })));
    assert!(disk.extend(f, 1 << 60).unwrap_err().is_no_space());
    assert!(disk.extend(f, u64::MAX).unwrap_err().is_no_space());
    assert_eq!(disk.len(f), Ok(3 * 8192), "a file that cannot grow stays as it was");
    let region = disk.map(f).unwrap();
    assert!(matches!(disk.extend(f, 4096), Err(Error::Busy { .. })));
    assert_eq!(region.bytes(8192..16384), bytes);
    drop(region);
    disk.close(f);
    assert!(matches!(disk.extend(f, 1), Err(Error::NotOpen { .. })));
    let f = disk.open("growing").unwrap();
    assert_eq!(disk.len(f), Ok(3 * 8192));
    disk.close(f);
    disk.remove("growing").unwrap();
}

fn conforms(mut disk: impl Disk) {
    let before = disk.space().unwrap();
    assert!(before.free_bytes <= before.total_bytes);
    names_behave(&mut disk);
    blocking_behaves(&mut disk);
    submitted_behaves(&mut disk);
    bad_submissions_complete_with_errors(&mut disk);
    regions_behave(&mut disk);
    large_regions_behave(&mut disk);
    growing_behaves(&mut disk);
    assert_eq!(disk.list().unwrap(), Vec::<String>::new());
}

#[test]
fn real_disk_conforms_with_everything_on() {
    let place = Place::on_block();
    let mut disk = RealDisk::open(place.path()).unwrap();
    assert_eq!(disk.uses_uring(), disk.media() == Media::Block && kernel_grants_a_ring());
    conforms(disk);
}

fn kernel_grants_a_ring() -> bool {
    // What the fallback is for; a machine without it must still pass.
    std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").is_ok_and(|text| text.trim() == "0")
}

#[test]
fn real_disk_conforms_without_ring_or_direct_io() {
    for (uring, direct) in [(false, true), (true, false), (false, false)] {
        let place = Place::on_block();
        let options = RealOptions { uring, direct, media: Some(Media::Block), ..RealOptions::default() };
        let disk = RealDisk::with_options(place.path(), options).unwrap();
        conforms(disk);
    }
}

#[test]
fn memory_conforms_and_is_known_as_memory() {
    let place = Place::in_memory();
    let mut disk = RealDisk::open(place.path()).unwrap();
    assert_eq!(disk.media(), Media::Mapped);
    assert!(!disk.uses_uring());
    conforms(disk);
    // The same place, treated as a block device: the ring and direct I/O on tmpfs.
    let options = RealOptions { media: Some(Media::Block), ..RealOptions::default() };
    conforms(RealDisk::with_options(place.path(), options).unwrap());
}

#[test]
fn simulated_disk_conforms_from_any_seed() {
    for seed in 0..8 {
        let media = if seed % 2 == 0 { Media::Block } else { Media::Mapped };
        let drive = SimDrive::new(SimConfig { seed, media, ..SimConfig::default() });
        let disk = SimDisk::new(&drive);
        assert_eq!(disk.media(), media);
        conforms(disk);
        assert_eq!(drive.files().total_bytes(), 0, "seed {seed}");
    }
}

#[test]
fn boxed_and_emulated_disks_conform() {
    let disk: Box<dyn Disk> = Box::new(SimDisk::new(&SimDrive::new(SimConfig::default())));
    conforms(Emulated::new(disk, Limits::default()));
    let place = Place::on_block();
    conforms(Emulated::new(RealDisk::open(place.path()).unwrap(), Limits::default()));
}

#[test]
fn a_disk_with_operations_in_flight_moves_between_threads_and_can_be_dropped() {
    let place = Place::on_block();
    let mut disk = RealDisk::open(place.path()).unwrap();
    let f = disk.create("f", LEN).unwrap();
    for token in 0..40 {
        let buf = IoBuf::copy_of(&pattern(token as u8, 4096));
        disk.submit(Io { token, file: f, offset: token * 4096, op: IoOp::Write(buf, 4096) });
    }
    let other = dolmen_env::spawn("other", move || {
        let done = wait_all(&mut disk, 40);
        assert!(done.iter().all(|done| done.result == Ok(4096)));
        for token in 0..40 {
            let op = IoOp::Read(IoBuf::zeroed(4096), 4096);
            disk.submit(Io { token, file: f, offset: token * 4096, op });
        }
        drop(disk);
    });
    other.unwrap().join().unwrap();
    let bytes = std::fs::read(place.path().join("f")).unwrap();
    assert!((0..40).all(|i| bytes[i * 4096..][..4096] == pattern(i as u8, 4096)));
}

#[test]
fn opening_what_is_no_directory_or_no_file_is_an_error() {
    let place = Place::on_block();
    assert!(matches!(RealDisk::open(&place.path().join("none")), Err(Error::NotFound { .. })));
    std::fs::write(place.path().join("file"), b"x").unwrap();
    assert!(matches!(
        RealDisk::open(&place.path().join("file")),
        Err(Error::Io { errno: Errno::NOTDIR, .. })
    ));
    std::fs::create_dir(place.path().join("dir")).unwrap();
    std::os::unix::fs::symlink("file", place.path().join("link")).unwrap();
    let mut disk = RealDisk::open(place.path()).unwrap();
    assert!(disk.open("dir").is_err());
    assert!(matches!(disk.open("link"), Err(Error::Io { errno: Errno::LOOP, .. })));
    assert_eq!(disk.list().unwrap(), ["file"], "only plain files are ours");
}

/// Its holes would fill all memory.
#[test]
fn a_file_that_an_ephemeral_disk_copies_keeps_its_holes() {
    const HOLE_BYTES: u64 = 1 << 40;
    let place = Place::on_block();
    let file = std::fs::File::create(place.path().join("sparse")).unwrap();
    file.write_all_at(&[1; 5000], 0).unwrap();
    file.write_all_at(&[2; 5000], HOLE_BYTES).unwrap();
    drop(file);
    let options = RealOptions { ephemeral: true, ..RealOptions::default() };
    let mut disk = RealDisk::with_options(place.path(), options).unwrap();
    let sparse = disk.open("sparse").unwrap();
    disk.write_at(sparse, 10, &[3; 10]).unwrap();
    let mut bytes = [9; 8];
    for (offset, right) in [(0, 1), (10, 3), (4096, 1), (1 << 20, 0), (HOLE_BYTES - 8, 0), (HOLE_BYTES, 2)] {
        disk.read_at(sparse, offset, &mut bytes).unwrap();
        assert_eq!(bytes, [right; 8], "at {offset}");
    }
    assert_eq!(disk.len(sparse).unwrap(), HOLE_BYTES + 5000);
}

#[test]
fn an_ephemeral_disk_leaves_its_directory_as_it_is() {
    for media in [Media::Block, Media::Mapped] {
        let dir = std::env::temp_dir().join(format!("dolmen-env-ephemeral-{media:?}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for name in ["kept", "gone", "moved"] {
            std::fs::write(dir.join(name), vec![1; 8192]).unwrap();
        }
        let options = RealOptions { media: Some(media), ephemeral: true, ..RealOptions::default() };
        let mut disk = RealDisk::with_options(&dir, options).unwrap();
        let kept = disk.open("kept").unwrap();
        disk.write_at(kept, 4096, &[2; 100]).unwrap();
        disk.extend(kept, 4096).unwrap();
        let mut region = disk.map(kept).unwrap();
        region.write(0, &[3; 10]);
        disk.flush(kept).unwrap();
        let mut bytes = vec![0; 12288];
        disk.read_at(kept, 0, &mut bytes).unwrap();
        assert_eq!((bytes[0], bytes[10], bytes[4096], bytes[4196], bytes[8192]), (3, 1, 2, 1, 0));
        disk.remove("gone").unwrap();
        assert!(disk.open("gone").unwrap_err().is_not_found());
        disk.rename("moved", "renamed").unwrap();
        let fresh = disk.create("fresh", 1 << 20).unwrap();
        assert!(disk.create("fresh", 1).is_err());
        disk.sync_names().unwrap();
        assert_eq!(disk.list().unwrap(), ["fresh", "kept", "renamed"]);
        disk.close(fresh);
        let fresh = disk.open("fresh").unwrap();
        assert_eq!(disk.len(fresh).unwrap(), 1 << 20);
        drop(region);
        drop(disk);
        let disk = RealDisk::open(&dir).unwrap();
        assert_eq!(disk.list().unwrap(), ["gone", "kept", "moved"]);
        for name in ["kept", "gone", "moved"] {
            assert_eq!(std::fs::read(dir.join(name)).unwrap(), vec![1; 8192], "{name}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
