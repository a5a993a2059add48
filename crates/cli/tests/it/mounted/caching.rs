//! What two mounts of a container show of what the other has done, by what their kernels may remember.

use super::{Mounted, nanoseconds};
use crate::common::bytes;
use core::time::Duration;
use dolmen_env::{Clock, RealClock, Rng};
use std::fs::{self, FileTimes, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Two mounts of one container.
fn two_mounts(name: &str, args: &[&str]) -> Option<(Mounted, [PathBuf; 2])> {
    let mut mounted = Mounted::served(name, args)?;
    mounted.mount("mnt2", args);
    let dirs = ["mnt", "mnt2"].map(|dir| mounted.place.path(dir));
    Some((mounted, dirs))
}

#[test]
fn what_another_mount_has_changed_is_seen_after_the_timeout_at_the_latest() {
    for (cache, timeout_s) in [("off", 0), ("metadata", 0), ("metadata", 1), ("data", 1)] {
        let seconds = timeout_s.to_string();
        let args = ["--cache", cache, "--cache-timeout", &seconds];
        let made = two_mounts(&format!("caching-{cache}-{seconds}"), &args);
        let Some((mounted, [_, other])) = made else { return };
        fs::write(other.join("f"), b"stone").unwrap();
        let [mode, old, new] = ["f", "old", "new"].map(|name| mounted.path(name));
        for round in 0..3_u32 {
            let wanted = 0o600 + round;
            fs::write(other.join("old"), b"x").unwrap();
            // The kernel remembers all of it from here on at the latest.
            let seen =
                || (fs::metadata(&mode).unwrap().permissions().mode() & 0o777, old.exists(), new.exists());
            let before = seen();
            let since_ns = RealClock.monotonic_ns();
            assert!(before.0 != wanted && !before.2, "{cache}: {before:?}");
            fs::set_permissions(other.join("f"), Permissions::from_mode(wanted)).unwrap();
            fs::rename(other.join("old"), other.join("new")).unwrap();
            loop {
                let begun_ns = RealClock.monotonic_ns();
                let now = seen();
                if now == (wanted, false, true) {
                    break;
                }
                // The kernel counts in ticks, of 10 ms at most, and takes a few more.
                let ticks = if timeout_s == 0 { Duration::ZERO } else { Duration::from_millis(50) };
                let timeout_ns = nanoseconds(Duration::from_secs(timeout_s) + ticks);
                assert!(begun_ns - since_ns <= timeout_ns, "{cache}, {timeout_s} s, round {round}: {now:?}");
            }
            fs::remove_file(other.join("new")).unwrap();
            while new.exists() {
                std::thread::park_timeout(super::REST);
            }
        }
        mounted.finish();
    }
}

/// All that there is to see of a directory and what is in it.
fn seen(dir: &Path) -> Vec<String> {
    let mut lines: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = match meta.file_type() {
                kind if kind.is_file() => format!("{:?}", fs::read(&path).unwrap()),
                kind if kind.is_symlink() => fs::read_link(&path).unwrap().display().to_string(),
                _ => seen(&path).concat(),
            };
            let (mode, links) = (meta.mode(), if meta.is_dir() { 0 } else { meta.nlink() });
            let name = path.file_name().unwrap().display().to_string();
            let (len, blocks, changed) = (meta.len(), meta.blocks(), changed(&meta));
            format!("{name} {mode:o} {links} {len} {blocks} {changed:?} {content}\n")
        })
        .collect();
    lines.sort();
    lines.push(format!(". {:?}\n", changed(&fs::metadata(dir).unwrap())));
    lines
}

/// When the contents and when anything was changed last.
fn changed(meta: &fs::Metadata) -> [(i64, i64); 2] {
    [(meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec())]
}

/// One change, of whatever there is.
fn change(dir: &Path, rng: &mut Rng) {
    let name = |rng: &mut Rng| dir.join(format!("n{}", rng.below(4)));
    let (one, other) = (name(rng), name(rng));
    let len = usize::try_from(rng.below(3000)).unwrap();
    let data = bytes(len, rng.next_u64());
    // Most of these find nothing of that name, or the wrong kind of thing, now and then: then nothing changes.
    match rng.below(10) {
        0..=2 => drop(fs::write(&one, data)),
        3 => drop(
            OpenOptions::new()
                .append(true)
                .open(&one)
                .map(|file| std::io::Write::write_all(&mut &file, &data).unwrap()),
        ),
        4 => drop(fs::rename(&one, &other)),
        5 => drop(fs::remove_file(&one)),
        6 => drop(fs::hard_link(&one, &other)),
        7 => drop(symlink("somewhere", &one)),
        8 => drop(fs::create_dir(&one).or_else(|_| fs::remove_dir(&one))),
        _ => drop(fs::set_permissions(
            &one,
            Permissions::from_mode(0o600 + u32::try_from(rng.below(8)).unwrap()),
        )),
    }
}

#[test]
fn times_of_changes_are_the_same_everywhere_when_a_write_returns_where_nothing_is_remembered() {
    let Some((mounted, [one, two])) = two_mounts("caching-times", &["--cache", "off"]) else { return };
    let [ours, theirs] = [&one, &two].map(|dir| dir.join("f"));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&ours).unwrap();
    let other = OpenOptions::new().append(true).open(&theirs).unwrap();
    for round in 0..60_u64 {
        match round % 6 {
            0 | 3 => file.write_all_at(b"stone", 10 * round).unwrap(),
            1 => std::io::Write::write_all(&mut &other, b"menhir").unwrap(),
            2 => file.set_len(1000 - round).unwrap(),
            4 => other.set_len(2000 + round).unwrap(),
            _ => fs::hard_link(&ours, one.join(format!("g{round}"))).unwrap(),
        }
        let times = |path: &Path| changed(&fs::metadata(path).unwrap());
        for (here, there) in [(&theirs, &ours), (&two, &one)] {
            let found = times(here);
            assert_eq!(found, times(there), "round {round}: {}", here.display());
        }
        // Some are within the grain of times, and some are not.
        std::thread::park_timeout(Duration::from_millis(round % 7));
    }
    drop((file, other));
    mounted.finish();
}

#[test]
fn what_remembers_nothing_never_shows_the_past() {
    const SEED: u64 = 17;
    let Some((mounted, dirs)) = two_mounts("caching-off", &["--cache", "off"]) else { return };
    println!("seed {SEED}");
    let mut rng = Rng::from_seed(SEED);
    for round in 0..120 {
        let by = rng.index(2);
        change(&dirs[by], &mut rng);
        assert_eq!(seen(&dirs[1 - by]), seen(&dirs[by]), "round {round}, seed {SEED}");
    }
    mounted.finish();
}

/// A time of seconds, and the grain of the system's clock and what a machine with much else to do may take between two lines.
const SECOND: Duration = Duration::from_millis(1_060);

/// Looks until something is so, and for no longer than what was remembered before may be believed: who looks later sees it.
fn is_so_after_a_second(what: &str, since_ns: u64, mut is_so: impl FnMut() -> bool) {
    loop {
        let looked = Duration::from_nanos(RealClock.monotonic_ns() - since_ns);
        if is_so() {
            return;
        }
        assert!(looked < SECOND, "{what}: old after {looked:?}");
    }
}

#[test]
fn contents_are_seen_at_once_by_who_has_the_file_open_where_attributes_are_remembered() {
    // The default.
    let Some((mounted, [one, two])) = two_mounts("caching-metadata", &[]) else { return };
    let [ours, theirs] = [&one, &two].map(|dir| dir.join("f"));
    fs::write(&ours, [0_u8; 1000]).unwrap();
    let open = fs::File::open(&theirs).unwrap();
    for round in 1..20_u8 {
        let old_len = fs::metadata(&theirs).unwrap().len();
        let len = if round % 2 == 1 { 3000 } else { 1000 };
        fs::write(&ours, vec![round; len]).unwrap();
        let mut found = [0; 4000];
        // Up to an end that is not in what is remembered of the file.
        assert_eq!(open.read_at(&mut found, 0).unwrap(), len, "it had {old_len} bytes");
        assert!(found[..len] == vec![round; len] && fs::read(&theirs).unwrap() == vec![round; len]);
    }
    drop(open);
    mounted.finish();
}

/// Sets the time of the last change to what it was.
fn set_back(path: &Path, mtime: SystemTime) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(mtime)).unwrap();
}

#[test]
fn who_opens_a_file_sees_what_was_closed_elsewhere_also_if_its_time_was_set_back() {
    let Some((mounted, [one, two])) = two_mounts("caching-data", &["--cache", "data"]) else { return };
    let [ours, theirs] = [&one, &two].map(|dir| dir.join("f"));
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::write(&ours, [0_u8; 5000]).unwrap();
    set_back(&ours, long_ago);
    for round in 1..=3_u8 {
        // Longer ago than the grain of times: nobody doubts what is remembered.
        dolmen_env::wait(Duration::from_millis(2_100));
        for _ in 0..2 {
            assert_eq!(fs::read(&theirs).unwrap(), [round - 1; 5000]);
        }
        fs::write(&ours, [round; 5000]).unwrap();
        set_back(&ours, long_ago);
        assert_eq!(fs::metadata(&ours).unwrap().modified().unwrap(), long_ago);
        if round % 2 == 1 {
            assert_eq!(fs::read(&theirs).unwrap(), [round; 5000], "round {round}, at once");
        }
    }
    // Also one after another, faster than the grain, and another file under the name, once that is not remembered any more.
    for round in 0..20_u8 {
        if round % 5 == 4 {
            fs::write(one.join("g"), [round; 5000]).unwrap();
            fs::rename(one.join("g"), &ours).unwrap();
            let since_ns = RealClock.monotonic_ns();
            is_so_after_a_second("another file", since_ns, || fs::read(&theirs).unwrap() == [round; 5000]);
        } else {
            fs::write(&ours, [round; 5000]).unwrap();
        }
        assert_eq!(fs::read(&theirs).unwrap(), [round; 5000], "round {round}");
    }
    mounted.finish();
}

#[test]
fn who_opens_a_file_knows_its_length_however_long_attributes_are_remembered() {
    let args = ["--cache", "data", "--cache-timeout", "600"];
    let Some((mounted, [one, two])) = two_mounts("caching-length", &args) else { return };
    let [ours, theirs] = [&one, &two].map(|dir| dir.join("f"));
    for (byte, len) in (0..).zip([5000, 3000, 0, 7000, 200_000, 1]) {
        fs::write(&ours, vec![byte; len]).unwrap();
        assert_eq!(fs::read(&theirs).unwrap(), vec![byte; len]);
        let open = fs::File::open(&theirs).unwrap();
        assert_eq!(open.metadata().unwrap().len(), u64::try_from(len).unwrap());
    }
    mounted.finish();
}

#[test]
fn who_gets_a_lock_sees_the_attributes_as_of_then_however_long_they_are_remembered() {
    use rustix::fs::{FlockOperation, fcntl_lock, flock};
    for cache in ["metadata", "data"] {
        let args = ["--cache", cache, "--cache-timeout", "600"];
        let made = two_mounts(&format!("caching-locks-{cache}"), &args);
        let Some((mounted, [one, two])) = made else { return };
        fs::write(one.join("f"), b"stone").unwrap();
        let [ours, theirs] =
            [one, two].map(|dir| OpenOptions::new().write(true).open(dir.join("f")).unwrap());
        let len = |file: &fs::File| file.metadata().unwrap().len();
        let (lock, free) = (FlockOperation::NonBlockingLockExclusive, FlockOperation::Unlock);
        for round in 0..4_u64 {
            let [before, after] = [10 * round, 10 * round + 10];
            ours.set_len(before).unwrap();
            // Remembered from here on at the latest.
            len(&theirs);
            flock(&ours, lock).unwrap();
            ours.set_len(after).unwrap();
            assert!(flock(&theirs, lock).is_err(), "the other has it");
            flock(&ours, free).unwrap();
            if round % 2 == 0 {
                flock(&theirs, lock).unwrap();
            } else {
                fcntl_lock(&theirs, lock).unwrap();
            }
            assert_eq!(len(&theirs), after, "{cache}, round {round}");
            flock(&theirs, free).unwrap();
            fcntl_lock(&theirs, free).unwrap();
        }
        drop((ours, theirs));
        mounted.finish();
    }
}

#[test]
fn memory_that_is_mapped_after_an_open_has_what_was_closed_elsewhere() {
    const READ: &str = "import mmap, sys; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(set(m[:]))";
    if !super::has("python3") {
        return;
    }
    let Some((mounted, [one, two])) = two_mounts("caching-mapped", &["--cache", "data"]) else { return };
    for round in 0..4_u8 {
        fs::write(one.join("f"), vec![round; 300_000]).unwrap();
        let mut python = std::process::Command::new("python3");
        let said = super::suites::ran(&mounted, python.args(["-c", READ]).arg(two.join("f")));
        assert_eq!(said, format!("{{{round}}}\n"));
    }
    mounted.finish();
}
