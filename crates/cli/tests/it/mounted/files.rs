//! Contents of files in a mount.

use super::{Mounted, shell, wait_until};
use crate::common::bytes;
use dolmen_env::{Clock, RealClock};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::process::Command;

#[test]
fn writes_anywhere_are_read_back_with_every_kind_of_caching() {
    for cache in ["off", "metadata", "data"] {
        let Some(mounted) = Mounted::served(&format!("writes-{cache}"), &["--cache", cache]) else { return };
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open(mounted.path("f")).unwrap();
        let mut model = vec![0; 3 << 20];
        let mut seed = 7_usize;
        for step in 0..60 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (at, len) = ((seed >> 20) % (2 << 20), (seed >> 5) % 300_000);
            let data = bytes(len, step);
            file.write_all_at(&data, at as u64).unwrap();
            model[at..at + len].copy_from_slice(&data);
        }
        let len = usize::try_from(file.metadata().unwrap().len()).unwrap();
        let mut read = vec![0; len];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read == model[..len], "{cache}: seed 7");
        file.set_len(1000).unwrap();
        file.set_len(5000).unwrap();
        drop(file);
        let read = fs::read(mounted.path("f")).unwrap();
        assert!(read[..1000] == model[..1000] && read[1000..] == vec![0; 4000], "{cache}");
        mounted.finish();
    }
}

#[test]
fn appends_of_two_mounts_are_whole_and_all_there() {
    const LINES: usize = 60;
    let Some(mut mounted) = Mounted::served("appends", &[]) else { return };
    mounted.mount("mnt2", &[]);
    fs::write(mounted.path("log"), b"").unwrap();
    dolmen_env::scope(|threads| {
        for (dir, letter) in [("mnt", "a"), ("mnt2", "b"), ("mnt", "c")] {
            let path = mounted.place.path(dir).join("log");
            threads.spawn(move || {
                let file = OpenOptions::new().append(true).open(path).unwrap();
                for _ in 0..LINES {
                    std::io::Write::write_all(&mut &file, format!("{}\n", letter.repeat(50)).as_bytes())
                        .unwrap();
                }
            });
        }
    });
    for dir in ["mnt", "mnt2"] {
        let text = fs::read_to_string(mounted.place.path(dir).join("log")).unwrap();
        assert_eq!(text.lines().count(), 3 * LINES, "{dir}");
        for letter in ["a", "b", "c"] {
            assert_eq!(
                text.lines().filter(|line| **line == letter.repeat(50)).count(),
                LINES,
                "{dir}: {letter}"
            );
        }
    }
    mounted.finish();
}

#[test]
fn appends_of_two_mounts_are_whole_up_to_a_mib_less_a_page_wherever_their_bytes_are() {
    const EACH: usize = 4;
    const PAGE: usize = 4096;
    let Some(mut mounted) = Mounted::served("long-appends", &[]) else { return };
    mounted.mount("mnt2", &[]);
    for len in [128 << 10, (1 << 20) - PAGE] {
        let name = format!("log{len}");
        fs::write(mounted.path(&name), b"").unwrap();
        dolmen_env::scope(|threads| {
            for (dir, letter) in [("mnt", b'a'), ("mnt2", b'b')] {
                let path = mounted.place.path(dir).join(&name);
                threads.spawn(move || {
                    let file = OpenOptions::new().append(true).open(path).unwrap();
                    let room = vec![letter; len + PAGE];
                    // From the last byte of a page on, so that it is in as many pages as it can be.
                    let at = PAGE - 1 - room.as_ptr().addr() % PAGE;
                    for _ in 0..EACH {
                        let data = &room[at..at + len];
                        assert_eq!(std::io::Write::write(&mut &file, data).unwrap(), len);
                    }
                });
            }
        });
        for dir in ["mnt", "mnt2"] {
            let all = fs::read(mounted.place.path(dir).join(&name)).unwrap();
            assert_eq!(all.len(), 2 * EACH * len, "{dir}");
            let whole = |append: &&[u8]| append.iter().all(|byte| *byte == append[0]);
            assert_eq!(all.chunks(len).filter(whole).count(), 2 * EACH, "{dir}");
        }
    }
    mounted.finish();
}

#[test]
fn who_opens_a_file_sees_what_another_mount_has_closed() {
    let Some(mut mounted) = Mounted::served("close-to-open", &["--cache-timeout", "0"]) else { return };
    mounted.mount("mnt2", &["--cache-timeout", "0"]);
    let other = mounted.place.path("mnt2").join("f");
    for round in 0..20_u8 {
        fs::write(mounted.path("f"), [round; 5000]).unwrap();
        assert_eq!(fs::read(&other).unwrap(), [round; 5000], "round {round}");
        fs::write(&other, [round + 100; 4000]).unwrap();
        assert_eq!(fs::read(mounted.path("f")).unwrap(), [round + 100; 4000], "round {round}");
    }
    fs::remove_file(&other).unwrap();
    assert!(!mounted.path("f").exists());
    mounted.finish();
}

#[test]
fn contents_that_are_remembered_are_dropped_if_another_mount_has_changed_them_and_set_the_time_back() {
    let args = ["--cache", "data", "--cache-timeout", "0"];
    let Some(mut mounted) = Mounted::served("set-back", &args) else { return };
    mounted.mount("mnt2", &args);
    fs::write(mounted.path("f"), b"stone").unwrap();
    let other = mounted.place.path("mnt2").join("f");
    let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000);
    let set_back = |path: &std::path::Path| OpenOptions::new().write(true).open(path)?.set_modified(past);
    set_back(&mounted.path("f")).unwrap();
    // What changed just now is not remembered over an open; after a while it is.
    wait_until("the change is old", || fs::metadata(&other).unwrap().ctime() + 3 < now_s());
    for _ in 0..2 {
        assert_eq!(fs::read(&other).unwrap(), b"stone");
    }
    fs::write(mounted.path("f"), b"STONE").unwrap();
    set_back(&mounted.path("f")).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"STONE");
    mounted.finish();
}

fn now_s() -> i64 {
    i64::try_from(RealClock.now_ns() / 1_000_000_000).unwrap()
}

#[test]
fn holes_are_found_and_made() {
    let Some(mounted) = Mounted::alone("holes", &[]) else { return };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(mounted.path("f")).unwrap();
    file.write_all_at(&[1; 1 << 20], 4 << 20).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(0)).unwrap(), 4 << 20);
    assert_eq!(seek(&file, SeekFrom::Hole(4 << 20)).unwrap(), 5 << 20);
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, hole, 4 << 20, 1 << 19).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(0)).unwrap(), (4 << 20) + (1 << 19));
    fallocate(&file, FallocateFlags::empty(), 0, 6 << 20).unwrap();
    let found = file.metadata().unwrap();
    assert_eq!(found.size(), 6 << 20);
    assert_eq!(found.blocks(), (1 << 19) / 512, "holes take up nothing, also at the end");
    file.set_len(1 << 40).unwrap();
    assert_eq!((file.metadata().unwrap().blocks(), file.metadata().unwrap().size()), (1024, 1 << 40));
    assert_eq!(seek(&file, SeekFrom::Data(5 << 20)), Err(rustix::io::Errno::NXIO));
    assert_eq!(seek(&file, SeekFrom::Hole(5 << 20)).unwrap(), 5 << 20);
    let refused = fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(refused, Err(rustix::io::Errno::OPNOTSUPP));
    drop(file);
    mounted.finish();
}

#[test]
fn a_program_is_copied_and_run() {
    let Some(mounted) = Mounted::served("programs", &[]) else { return };
    let said = shell(
        &mounted,
        "cp /bin/sh own; ./own -c 'echo ran'; cp own other; cmp own other; mkdir d; mv other d; ls d",
    );
    assert_eq!(said, "ran\nother\n");
    mounted.finish();
}

#[test]
fn extended_attributes_are_kept() {
    use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
    let Some(mounted) = Mounted::alone("xattrs", &[]) else { return };
    let path = mounted.path("f");
    fs::write(&path, b"x").unwrap();
    setxattr(&path, "user.stone", b"menhir", XattrFlags::CREATE).unwrap();
    assert_eq!(setxattr(&path, "user.stone", b"x", XattrFlags::CREATE), Err(rustix::io::Errno::EXIST));
    let mut value = [0; 64];
    let len = getxattr(&path, "user.stone", &mut value).unwrap();
    assert_eq!(&value[..len], b"menhir");
    let len = listxattr(&path, &mut value).unwrap();
    assert_eq!(&value[..len], b"user.stone\0");
    assert_eq!(getxattr(&path, "user.stone", &mut [0_u8; 3]), Err(rustix::io::Errno::RANGE));
    removexattr(&path, "user.stone").unwrap();
    assert_eq!(getxattr(&path, "user.stone", &mut value), Err(rustix::io::Errno::NODATA));
    mounted.finish();
}

/// Two processes that have one file mapped: what each stores the other loads, and reads and writes see it, and are seen.
const MAPPED: &str = r#"
import mmap, os, time
fd = os.open("m", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 8192)
here = mmap.mmap(fd, 8192)
def wait(memory, at, byte):
    end = time.monotonic() + 30
    while memory[at] != byte:
        assert time.monotonic() < end, (at, byte)
child = os.fork()
if child == 0:
    there = mmap.mmap(os.open("m", os.O_RDWR), 8192)
    wait(there, 0, 1)
    there[4096] = 2
    wait(there, 1, 3)
    os._exit(0)
here[0] = 1
wait(here, 4096, 2)
assert os.pread(fd, 1, 0) == b"\1" and os.pread(fd, 1, 4096) == b"\2"
os.pwrite(fd, b"\3", 1)
assert here[1] == 3
assert os.waitpid(child, 0)[1] == 0
here[8191] = 4
here.flush()
print("coherent")
"#;

#[test]
fn memory_of_a_file_is_shared_between_processes_and_with_reads_and_writes() {
    for cache in ["off", "metadata", "data"] {
        let Some(mounted) = Mounted::served(&format!("memory-{cache}"), &["--cache", cache]) else { return };
        fs::write(mounted.place.path("mapped.py"), MAPPED).unwrap();
        assert_eq!(shell(&mounted, "python3 ../mapped.py"), "coherent\n", "{cache}");
        let stored = fs::read(mounted.path("m")).unwrap();
        assert_eq!([0, 1, 4096, 8191].map(|at| stored[at]), [1, 3, 2, 4], "{cache}");
        mounted.finish();
    }
}

#[test]
fn what_is_read_and_written_past_the_pages_is_seen_by_another_mount_at_once() {
    const O_DIRECT: i32 = 0o40_000;
    for cache in ["off", "metadata", "data"] {
        let args = ["--cache", cache];
        let Some(mut mounted) = Mounted::served(&format!("direct-{cache}"), &args) else { return };
        mounted.mount("mnt2", &args);
        let open = |dir: &str| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).custom_flags(O_DIRECT);
            options.open(mounted.place.path(dir).join("f")).unwrap()
        };
        let files = [open("mnt"), open("mnt2")];
        let pages = bytes(12_288, 5);
        for round in 0..10 {
            let (writes, reads) = (&files[round % 2], &files[(round + 1) % 2]);
            // Any place and length will do: there is no device below that wants blocks.
            let data = &pages[round..round + 5000 + round * 17];
            writes.write_all_at(data, (round * 333) as u64).unwrap();
            let mut read = vec![0; data.len()];
            reads.read_exact_at(&mut read, (round * 333) as u64).unwrap();
            assert!(read == data, "{cache}, round {round}");
        }
        drop(files);
        mounted.finish();
    }
}

#[test]
fn the_space_of_a_mount_is_that_of_its_pool() {
    let Some(mounted) = Mounted::sized("space", "256M") else { return };
    let space = || rustix::fs::statvfs(mounted.path("")).unwrap();
    let before = space();
    assert_eq!((before.f_bsize, before.f_frsize, before.f_namemax), (4096, 4096, 255));
    assert!(before.f_bavail <= before.f_bfree && before.f_bfree <= before.f_blocks);
    // Nobody counts files without a limit on them: what `df -i` shows of such file systems is a dash.
    assert_eq!((before.f_files, before.f_ffree, before.f_favail), (0, 0, 0));
    let df = Command::new("df").arg("-i").arg(mounted.path("")).output().unwrap();
    let said = String::from_utf8(df.stdout).unwrap();
    let told = said.lines().last().unwrap().split_whitespace().skip(1).take(4);
    assert_eq!(told.collect::<Vec<_>>(), ["0", "0", "0", "-"], "{said}");
    fs::write(mounted.path("f"), bytes(4 << 20, 3)).unwrap();
    let after = space();
    assert_eq!(after.f_blocks, before.f_blocks);
    let taken = before.f_bavail - after.f_bavail;
    assert!(taken >= (4 << 20) / 4096, "{taken} blocks were taken");
    mounted.finish();
}

#[test]
fn what_others_have_on_the_device_of_a_pool_is_not_used_in_its_mount() {
    let Some(mounted) = Mounted::served("space-shared", &[]) else { return };
    fs::write(mounted.path("f"), bytes(4 << 20, 3)).unwrap();
    let space = rustix::fs::statvfs(mounted.path("")).unwrap();
    let device = rustix::fs::statvfs(mounted.place.path("sys/p")).unwrap();
    let [of_mount, of_device] = [&space, &device].map(|told| told.f_blocks * told.f_frsize);
    assert!(
        of_mount.abs_diff(of_device) < 1 << 20,
        "the pool has no size of its own: {of_mount}, {of_device}"
    );
    let used = (space.f_blocks - space.f_bfree) * space.f_frsize;
    assert!((4 << 20..64 << 20).contains(&used), "{used} bytes are used");
    let said = mounted.place.json(&["pool", "query", "sys/p"]);
    let targets = said["targets"].as_array().unwrap();
    let of = |name: &str| targets.iter().map(|target| target[name].as_u64().unwrap()).sum::<u64>();
    let taken = of("bulk_bytes") + of("log_bytes") + of("run_bytes");
    assert!(used.abs_diff(taken) < 1 << 20, "{used} bytes are used, {taken} by the pool");
    mounted.finish();
}
