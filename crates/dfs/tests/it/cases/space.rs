//! What files take up, and ranges of them that are reserved, freed and zeroed.

use super::common::{World, put, read_all, small_chunks};
use dolmen_dfs::{Allocate, Dfs, Error, FormatOptions, MountOptions, OpenOptions, What, errno};
use dolmen_types::ObjectClass;

fn mounted(world: &World, shared: bool) -> Dfs {
    Dfs::mount(&world.container, &MountOptions { exact_blocks: true, shared, ..world.options() }).unwrap()
}

#[test]
fn blocks_are_what_is_stored_where_a_mount_asks_for_it() {
    for shared in [false, true] {
        let world = World::with(2, &small_chunks());
        let fs = mounted(&world, shared);
        let file = put(&fs, "/f", b"");
        let blocks = || {
            let blocks = file.stat().unwrap().blocks;
            assert_eq!(fs.stat("/f").unwrap().blocks, blocks);
            assert_eq!(fs.lookup("f").unwrap().1.blocks, blocks);
            blocks
        };
        assert_eq!(blocks(), 0);
        file.write_at(0, &[1; 100]).unwrap();
        assert_eq!(blocks(), 1);
        file.write_at(5 * 4096, &[1; 4096]).unwrap();
        assert_eq!(blocks(), (4096_u64 + 100).div_ceil(512));
        // At once, though the clock stands still: every write counts.
        file.write_at(2 * 4096 + 7, &[1; 512]).unwrap();
        assert_eq!(blocks(), (4096_u64 + 612).div_ceil(512));
        file.punch_hole(0, 4096).unwrap();
        assert_eq!(blocks(), 9);
        file.set_len(1 << 40).unwrap();
        assert_eq!(blocks(), 9, "the end takes nothing up");
        file.set_len(6 * 4096).unwrap();
        assert_eq!(world.mount().stat("/f").unwrap().blocks, 48, "others count holes");
        assert_eq!(blocks(), 9);
        let other = mounted(&world, true).open("/f", &OpenOptions::WRITE).unwrap();
        world.clock.advance(1_000_000_000);
        other.write_at(0, &[1; 4096]).unwrap();
        other.close().unwrap();
        assert_eq!(blocks(), 17, "another mount's write counts when its time does");
    }
}

#[test]
fn where_a_file_ends_in_a_hole_or_has_ended_there_is_no_data() {
    for shared in [false, true] {
        let world = World::with(2, &small_chunks());
        let fs = mounted(&world, shared);
        let file = put(&fs, "/f", b"");
        let told = || (file.stat().unwrap().blocks, file.seek_data(0), file.seek_hole(0));
        for len in [1, 100, 4096, 4097, 3 * 4096 + 7, 1 << 40] {
            file.set_len(len).unwrap();
            assert_eq!((file.size().unwrap(), told()), (len, (0, Err(Error::NoSuchOffset), Ok(0))));
        }
        // All of these ends are in the midst now.
        file.write_at(4 << 40, b"stone").unwrap();
        assert_eq!(told(), (1, Ok(4 << 40), Ok(0)));
        file.set_len(200_000).unwrap();
        file.write_at(8192, &[7; 512]).unwrap();
        file.set_len(8192 + 514).unwrap();
        assert_eq!((told(), file.seek_hole(8192)), ((1, Ok(8192), Ok(0)), Ok(8192 + 512)));
        // A byte that is something is data, and so is a zero beside data.
        file.set_len(0).unwrap();
        file.write_at(77, b"x").unwrap();
        assert_eq!(told(), (1, Ok(77), Ok(0)));
        file.write_at(78, &[0]).unwrap();
        assert_eq!((told(), file.seek_hole(77)), ((1, Ok(77), Ok(0)), Ok(79)));
        file.punch_hole(0, 79).unwrap();
        assert_eq!(told(), (0, Err(Error::NoSuchOffset), Ok(0)));
    }
}

/// Which bytes of a file of small chunks are data.
struct Map(Vec<bool>);

impl Map {
    fn set(&mut self, from: usize, to: usize, is_data: bool) {
        if self.0.len() < to && is_data {
            self.0.resize(to, false);
        }
        let to = to.min(self.0.len());
        self.0[from..to].fill(is_data);
    }

    fn data_bytes(&self) -> u64 {
        self.0.iter().filter(|is_data| **is_data).count() as u64
    }
}

#[test]
fn blocks_of_a_long_file_are_what_is_stored_to_the_byte() {
    for shared in [false, true] {
        let world = World::with(2, &small_chunks());
        let fs = mounted(&world, shared);
        let (file, mut map) = (put(&fs, "/f", b""), Map(Vec::new()));
        let assert_exact = |map: &Map, what: &str| {
            let blocks = map.data_bytes().div_ceil(512);
            assert_eq!(file.stat().unwrap().blocks, blocks, "{what}, shared: {shared}");
            assert_eq!(fs.lookup("f").unwrap().1.blocks, blocks, "{what}, shared: {shared}");
            assert_eq!(mounted(&world, true).stat("/f").unwrap().blocks, blocks, "{what}, by another mount");
            assert_eq!(file.data_bytes().unwrap(), map.data_bytes(), "{what}");
        };
        let write = |map: &mut Map, at: usize, len: usize| {
            file.write_at(at as u64, &vec![1; len]).unwrap();
            map.set(at, at + len, true);
        };
        for chunk in (0..300).filter(|chunk| chunk % 5 != 0) {
            write(&mut map, chunk * 4096 + chunk * 37 % 1000, 100 + chunk * 5);
            if chunk % 7 == 3 {
                write(&mut map, chunk * 4096 + 3000, 701);
            }
        }
        assert_exact(&map, "holes inside of chunks");
        let end = map.0.len();
        assert_eq!(file.append(&[1; 10_000]).unwrap(), end as u64);
        map.set(end, end + 10_000, true);
        assert_exact(&map, "appended");
        file.punch_hole(50 * 4096 + 10, 70 * 4096 - 15).unwrap();
        map.set(50 * 4096 + 10, 120 * 4096 - 5, false);
        assert_exact(&map, "punched");
        file.set_len(250 * 4096 + 2000).unwrap();
        map.0.truncate(250 * 4096 + 2000);
        assert_exact(&map, "cut in a hole");
        file.set_len(1 << 40).unwrap();
        assert_exact(&map, "lengthened");
        let other = mounted(&world, true).open("/f", &OpenOptions::WRITE).unwrap();
        world.clock.advance(1_000_000_000);
        other.write_at(70 * 4096 + 5, &[1; 9000]).unwrap();
        other.close().unwrap();
        map.set(70 * 4096 + 5, 70 * 4096 + 9005, true);
        assert_exact(&map, "beside another mount");
    }
}

#[test]
fn a_stat_of_a_long_file_waits_a_few_times_and_the_next_one_for_no_chunk() {
    let (world, watched) = World::watched();
    let fs = mounted(&world, false);
    let options = OpenOptions { chunk_bytes: 4096, ..OpenOptions::CREATE };
    let file = fs.open("/f", &options).unwrap();
    for chunk in 0..500 {
        file.write_at(chunk * 4096 + 1, &[1; 1000]).unwrap();
    }
    file.set_len(600 * 4096).unwrap();
    let waits = || {
        let before = (watched.round_trips(), watched.requests());
        assert_eq!(file.stat().unwrap().blocks, 500_000_u64.div_ceil(512));
        (watched.round_trips() - before.0, watched.requests() - before.1)
    };
    let (round_trips, requests) = waits();
    assert!(round_trips <= 6 && requests >= 500, "{round_trips} for {requests} requests");
    assert_eq!(waits(), (2, 2), "record and size");
    file.write_at(0, &[1]).unwrap();
    file.punch_hole(0, 1).unwrap();
    assert_eq!(waits().0, round_trips, "it has changed");
}

#[test]
fn of_a_very_long_file_a_chunk_with_any_data_is_blocks_as_a_whole() {
    const EXACT_CHUNKS: u64 = 4096;
    let (world, watched) = World::watched();
    let fs = mounted(&world, false);
    let options = OpenOptions { chunk_bytes: 4096, ..OpenOptions::CREATE };
    let file = fs.open("/f", &options).unwrap();
    let write = |chunk: u64| {
        file.write_at(chunk * 4096, &[1; 100]).unwrap();
    };
    (0..EXACT_CHUNKS).for_each(write);
    assert_eq!(file.stat().unwrap().blocks, (EXACT_CHUNKS * 100).div_ceil(512));
    write(EXACT_CHUNKS + 7);
    let before = watched.requests();
    assert_eq!(file.stat().unwrap().blocks, (EXACT_CHUNKS * 4096 + 100).div_ceil(512));
    let asked = watched.requests() - before;
    assert!(asked < 100, "{asked} requests, for the numbers of chunks and the last of them");
}

#[test]
fn ranges_are_reserved_zeroed_and_freed() {
    for (shared, format) in
        [(false, small_chunks()), (true, FormatOptions { file_class: ObjectClass::S1, ..small_chunks() })]
    {
        let world = World::with(2, &format);
        let fs = mounted(&world, shared);
        let file = put(&fs, "/f", &[1; 10_000]);
        let allocate = |what, keep_size, offset, len| {
            file.allocate(what, keep_size, offset, len).unwrap();
            file.size().unwrap()
        };
        assert_eq!(allocate(Allocate::Reserve, true, 9_000, 5_000), 10_000);
        assert_eq!(allocate(Allocate::Reserve, false, 0, 5_000), 10_000);
        assert_eq!(allocate(Allocate::Reserve, false, 9_000, 5_000), 14_000);
        assert_eq!(read_all(&file), [&[1; 10_000][..], &[0; 4_000]].concat(), "what is there stays");
        assert_eq!(allocate(Allocate::PunchHole, true, 4_000, 5_000), 14_000);
        assert_eq!(allocate(Allocate::PunchHole, true, 13_000, 5_000), 14_000, "a hole makes nothing longer");
        let expected = [&[1; 4_000][..], &[0; 5_000], &[1; 1_000], &[0; 4_000]].concat();
        assert_eq!(read_all(&file), expected);
        assert_eq!((file.seek_hole(0).unwrap(), file.seek_data(4_000).unwrap()), (4_000, 9_000));
        assert_eq!(allocate(Allocate::ZeroRange, true, 9_500, 50_000), 14_000);
        assert_eq!(allocate(Allocate::ZeroRange, false, 9_200, 10_800), 20_000);
        assert_eq!(allocate(Allocate::ZeroRange, false, 30_000, 1_000), 31_000);
        assert_eq!(read_all(&file), [&[1; 4_000][..], &[0; 5_000], &[1; 200], &[0; 21_800]].concat());
        assert!(file.data_bytes().unwrap() < 4_300);
        let refused = |offset, len| file.allocate(Allocate::Reserve, false, offset, len).unwrap_err();
        assert_eq!(refused(5, 0), Error::Invalid(What::Range));
        assert_eq!(refused(u64::MAX, 5), Error::FileTooBig);
        assert_eq!(refused(1 << 63, 5), Error::FileTooBig);
        let reads = fs.open("/f", &OpenOptions::READ).unwrap();
        assert_eq!(reads.allocate(Allocate::Reserve, true, 0, 1).unwrap_err(), Error::BadHandle);
    }
}

#[test]
fn what_the_pool_has_no_room_for_is_not_reserved() {
    let world = World::new(1);
    let fs = world.mount();
    let file = put(&fs, "/f", &[1; 100_000]);
    let free = fs.statfs().unwrap().free_bytes;
    if free < 1 << 60 {
        for keep_size in [false, true] {
            let refused = file.allocate(Allocate::Reserve, keep_size, 100_000, free + (1 << 20)).unwrap_err();
            assert_eq!(refused.errno(), errno::ENOSPC);
            assert_eq!(file.size().unwrap(), 100_000);
        }
        // What is stored needs no more room.
        let free = fs.statfs().unwrap().free_bytes;
        file.allocate(Allocate::Reserve, true, 0, free + 50_000).unwrap();
    }
    file.allocate(Allocate::Reserve, true, 0, 1 << 20).unwrap();
}

#[test]
fn modes_of_fallocate_are_known_or_not_supported() {
    let known = [
        (0, Allocate::Reserve, false),
        (1, Allocate::Reserve, true),
        (3, Allocate::PunchHole, true),
        (0x10, Allocate::ZeroRange, false),
        (0x11, Allocate::ZeroRange, true),
    ];
    for mode in 0..0x100 {
        let expected = known.iter().find(|(known, ..)| *known == mode).map(|(_, what, keep)| (*what, *keep));
        assert_eq!(Allocate::of_linux(mode), expected.ok_or(Error::NotSupported));
    }
    assert_eq!(Error::NotSupported.errno(), 95);
}
