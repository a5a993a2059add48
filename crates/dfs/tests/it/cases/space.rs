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

#[test]
fn of_a_long_file_a_chunk_with_any_data_is_blocks_as_a_whole() {
    let world = World::with(2, &small_chunks());
    let fs = mounted(&world, false);
    let file = put(&fs, "/f", b"");
    for chunk in 0..65 {
        file.write_at(chunk * 2 * 4096, &[1; 10]).unwrap();
        let blocks = file.stat().unwrap().blocks;
        assert_eq!(
            blocks,
            if chunk < 64 { (10 * (chunk + 1)).div_ceil(512) } else { (64 * 4096_u64 + 10).div_ceil(512) }
        );
    }
    file.set_len(1 << 40).unwrap();
    assert_eq!(
        file.stat().unwrap().blocks,
        65 * 8,
        "the last one that has data counts, and the end does not"
    );
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
