//! Bytes of files: offsets, sizes, holes, appends.

use super::common::{World, cat, put, read_all, small_chunks};
use dolmen_dfs::{Error, FormatOptions, OpenOptions, SetAttrs, SetTime, Time, What};
use dolmen_types::ObjectClass;

#[test]
fn bytes_are_read_where_they_were_written_also_over_chunks() {
    let world = World::with(3, &small_chunks());
    let fs = world.mount();
    let data: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
    let file = put(&fs, "/f", &data);
    assert_eq!(read_all(&file), data);
    let mut part = [0; 5000];
    assert_eq!(file.read_at(4000, &mut part).unwrap(), 5000);
    assert_eq!(part, data[4000..9000]);
    assert_eq!(file.read_at(19_990, &mut part).unwrap(), 10);
    assert_eq!(file.read_at(20_000, &mut part).unwrap(), 0);
    assert_eq!(file.read_at(u64::MAX - 10, &mut part).unwrap_err(), Error::Invalid(What::Range));
    file.write_at(4090, b"across").unwrap();
    assert_eq!(&read_all(&file)[4088..4098], [&data[4088..4090], b"across", &data[4096..4098]].concat());
}

#[test]
fn a_read_into_too_much_room_ends_with_the_file() {
    for file_class in [ObjectClass::S1, ObjectClass::SX] {
        let world = World::with(3, &FormatOptions { file_class, ..small_chunks() });
        let fs = world.mount();
        let mut room = [7; 6000];
        let file = put(&fs, "/f", b"");
        assert_eq!(file.read_at(0, &mut room).unwrap(), 0);
        file.write_at(5, b"at once").unwrap();
        for (offset, len) in [(0, 12), (3, 9), (8, 4), (11, 1), (12, 0), (13, 0)] {
            assert_eq!(file.read_at(offset, &mut room[..100]).unwrap(), len, "from {offset}");
        }
        assert_eq!(file.read_at(0, &mut room).unwrap(), 12, "over the end of the chunk");
        assert_eq!(&room[..12], b"\0\0\0\0\0at once");
        file.write_at(4096 + 10, b"more").unwrap();
        assert_eq!(file.read_at(0, &mut room[..100]).unwrap(), 100, "there is another chunk");
        assert_eq!(file.read_at(0, &mut room).unwrap(), 4110);
        assert!(room[12..4106].iter().all(|&byte| byte == 0));
        file.set_len(8).unwrap();
        assert_eq!(file.read_at(0, &mut room[..100]).unwrap(), 8);
        file.set_len(50).unwrap();
        assert_eq!(file.read_at(0, &mut room[..100]).unwrap(), 50, "it ends in a hole");
        assert_eq!(&room[..10], b"\0\0\0\0\0at \0\0");
    }
}

#[test]
fn a_file_that_nobody_chose_a_class_for_is_on_all_targets_unless_it_is_put_whole() {
    let shards = |chosen: ObjectClass| {
        let world = World::with(3, &FormatOptions { file_class: chosen, ..small_chunks() });
        let fs = world.mount();
        put(&fs, "/made", b"bytes");
        fs.put_whole("/whole", b"bytes", &SetAttrs::KEEP).unwrap();
        ["/made", "/whole"].map(|path| fs.stat(path).unwrap().oid.class().groups())
    };
    assert_eq!(shards(ObjectClass::UNKNOWN), [3, 1]);
    assert_eq!(shards(ObjectClass::S1), [1, 1]);
    assert_eq!(shards(ObjectClass::SX), [3, 3]);
}

#[test]
fn handles_do_only_what_they_were_opened_for() {
    let world = World::new(1);
    let fs = world.mount();
    put(&fs, "/f", b"data");
    let reader = fs.open("/f", &OpenOptions::READ).unwrap();
    assert_eq!(reader.write_at(0, b"x").unwrap_err(), Error::BadHandle);
    assert_eq!(reader.set_len(0).unwrap_err(), Error::BadHandle);
    assert_eq!(reader.punch_hole(0, 1).unwrap_err(), Error::BadHandle);
    assert_eq!(reader.append(b"x").unwrap_err(), Error::BadHandle);
    let writer = fs.open("/f", &OpenOptions { read: false, ..OpenOptions::WRITE }).unwrap();
    assert_eq!(writer.read_at(0, &mut [0; 4]).unwrap_err(), Error::BadHandle);
    assert_eq!(writer.write_at(u64::MAX, b"x").unwrap_err(), Error::FileTooBig);
    assert_eq!(writer.set_len(1 << 63).unwrap_err(), Error::FileTooBig);
}

#[test]
fn holes_read_as_zeros_and_take_no_space() {
    let world = World::with(2, &small_chunks());
    let fs = world.mount();
    let file = put(&fs, "/f", b"head");
    file.write_at(100_000, b"tail").unwrap();
    assert_eq!(file.size().unwrap(), 100_004);
    let data = read_all(&file);
    assert_eq!((&data[..4], &data[100_000..]), (&b"head"[..], &b"tail"[..]));
    assert!(data[4..100_000].iter().all(|&byte| byte == 0));
    assert_eq!(file.data_bytes().unwrap(), 8);
    assert_eq!(fs.stat("/f").unwrap().blocks, 196);
}

#[test]
fn set_len_cuts_and_lengthens() {
    let world = World::with(3, &small_chunks());
    let fs = world.mount();
    let file = put(&fs, "/f", &[1; 10_000]);
    file.set_len(5000).unwrap();
    assert_eq!(read_all(&file), [1; 5000]);
    file.set_len(12_000).unwrap();
    assert_eq!(read_all(&file), [&[1; 5000][..], &[0; 7000]].concat());
    file.set_len(4096).unwrap();
    file.set_len(4097).unwrap();
    assert_eq!(read_all(&file), [&[1; 4096][..], &[0]].concat());
    file.set_len(0).unwrap();
    assert_eq!((file.size().unwrap(), read_all(&file)), (0, vec![]));
    file.set_len(1 << 40).unwrap();
    assert_eq!((file.size().unwrap(), file.data_bytes().unwrap()), (1 << 40, 0));
    file.set_len(3).unwrap();
    assert_eq!(read_all(&file), [0; 3]);
}

#[test]
fn punching_keeps_the_size() {
    let world = World::with(2, &small_chunks());
    let fs = world.mount();
    let file = put(&fs, "/f", &[1; 20_000]);
    file.punch_hole(1000, 10_000).unwrap();
    assert_eq!(read_all(&file), [&[1; 1000][..], &[0; 10_000], &[1; 9000]].concat());
    assert_eq!(file.data_bytes().unwrap(), 10_000);
    file.punch_hole(15_000, u64::MAX - 15_000).unwrap();
    assert_eq!(read_all(&file), [&[1; 1000][..], &[0; 10_000], &[1; 4000], &[0; 5000]].concat());
    assert_eq!(file.data_bytes().unwrap(), 5000);
    file.punch_hole(30_000, 5).unwrap();
    assert_eq!(file.size().unwrap(), 20_000);
    assert_eq!(file.punch_hole(0, 0).unwrap_err(), Error::Invalid(What::Range));
    file.set_len(1 << 40).unwrap();
    file.punch_hole(0, 1 << 39).unwrap();
    assert_eq!((file.size().unwrap(), file.data_bytes().unwrap()), (1 << 40, 0));
}

#[test]
fn seek_finds_data_and_holes() {
    let world = World::with(2, &small_chunks());
    let fs = world.mount();
    let file = put(&fs, "/f", &[1; 9000]);
    file.write_at(20_000, &[1; 100]).unwrap();
    file.punch_hole(100, 50).unwrap();
    let data = |at| file.seek_data(at);
    let hole = |at| file.seek_hole(at);
    assert_eq!([data(0), data(100), data(9000), data(20_050)], [Ok(0), Ok(150), Ok(20_000), Ok(20_050)]);
    assert_eq!([hole(0), hole(120), hole(150), hole(9000)], [Ok(100), Ok(120), Ok(9000), Ok(9000)]);
    assert_eq!(
        [hole(20_000), data(20_100), hole(20_100)],
        [Ok(20_100), Err(Error::NoSuchOffset), Err(Error::NoSuchOffset)]
    );
    let empty = put(&fs, "/e", b"");
    assert_eq!(empty.seek_hole(0).unwrap_err(), Error::NoSuchOffset);
    let full = put(&fs, "/full", &[1; 8192]);
    assert_eq!(full.seek_hole(0), Ok(8192));
    let tail = put(&fs, "/tail", b"");
    tail.write_at(8192, b"x").unwrap();
    assert_eq!((tail.seek_hole(0), tail.seek_data(0)), (Ok(0), Ok(8192)));
}

#[test]
fn appends_go_to_the_end_wherever_it_is() {
    let world = World::with(2, &small_chunks());
    let fs = world.mount();
    let log = fs.open("/log", &OpenOptions::APPEND).unwrap();
    assert_eq!(log.append(b"one").unwrap(), 0);
    fs.open("/log", &OpenOptions::WRITE).unwrap().write_at(10, b"far").unwrap();
    assert_eq!(log.write_at(0, b"two").unwrap(), 13);
    assert_eq!(log.append(&[9; 9000]).unwrap(), 16);
    assert_eq!(cat(&fs, "/log"), [&b"one\0\0\0\0\0\0\0fartwo"[..], &[9; 9000]].concat());
}

#[test]
fn files_take_class_and_chunk_from_the_open_or_the_container() {
    let world = World::with(4, &small_chunks());
    let fs = world.mount();
    put(&fs, "/f", b"x");
    let stat = fs.stat("/f").unwrap();
    assert_eq!((stat.chunk_bytes, stat.class.groups()), (4096, 4));
    let class = ObjectClass::S2;
    fs.open("/g", &OpenOptions { class, chunk_bytes: 65_536, ..OpenOptions::CREATE }).unwrap();
    let stat = fs.stat("/g").unwrap();
    assert_eq!((stat.chunk_bytes, stat.class), (65_536, class));
    let bad = OpenOptions { chunk_bytes: 5, ..OpenOptions::CREATE };
    assert_eq!(fs.open("/h", &bad).unwrap_err(), Error::Invalid(What::Placement));
}

#[test]
fn a_small_file_is_made_whole_or_not_at_all() {
    let world = World::with(3, &small_chunks());
    for fs in [world.mount(), world.mount_shared()] {
        let attrs = SetAttrs {
            mode: Some(0o4751),
            uid: Some(7),
            gid: Some(8),
            atime: dolmen_dfs::SetTime::Keep,
            mtime: SetTime::To(Time { s: 1_000, ns: 5 }),
        };
        let data: Vec<u8> = (0..20_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        for len in [0, 1, 4096, 4097, 20_000] {
            let path = format!("/f{len}");
            fs.put_whole(&path, &data[..len], &attrs).unwrap();
            assert_eq!(cat(&fs, &path), data[..len]);
            let stat = fs.stat(&path).unwrap();
            assert_eq!((stat.permissions, stat.uid, stat.gid), (0o4751, 7, 8));
            assert_eq!((stat.size_bytes, stat.mtime), (len as u64, Time { s: 1_000, ns: 5 }));
            let objects = world.object_count();
            assert_eq!(fs.put_whole(&path, b"other", &attrs).unwrap_err(), Error::Exists);
            assert_eq!((cat(&fs, &path), world.object_count()), (data[..len].to_vec(), objects));
            fs.unlink(&path).unwrap();
        }
        let too_long = vec![1; dolmen_dfs::WHOLE_BYTES_MAX + 1];
        assert_eq!(fs.put_whole("/f", &too_long, &attrs).unwrap_err(), Error::FileTooBig);
        assert_eq!(fs.put_whole("/no/f", b"x", &attrs).unwrap_err(), Error::NotFound);
        assert_eq!(fs.put_whole("/f/", b"x", &attrs).unwrap_err(), Error::IsDirectory);
        fs.symlink("nowhere", "/l").unwrap();
        assert_eq!(fs.put_whole("/l", b"x", &attrs).unwrap_err(), Error::Exists);
        fs.unlink("/l").unwrap();
        assert!(fs.check(false).unwrap().is_clean());
    }
}
