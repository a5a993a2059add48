//! What mounts remember of what others change: for as long as the engine lets them, and not a moment longer.

use super::script::Script;
use super::{Mounted, Running, has, nanoseconds, unmounted, wait_until};
use crate::served::Daemon;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_env::{Clock, RealClock};
use nix::sys::signal::Signal;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// How long an engine waits for a mount that does not answer.
const TERM: Duration = Duration::from_secs(3);

/// Whether the kernel can be told that names are to be looked up anew.
fn has_epoch() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-', '\n']).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(16))
}

/// Two mounts that may remember things for an hour.
fn two(name: &str, cache: &str) -> Option<Mounted> {
    let args = ["--cache", cache, "--cache-timeout", "3600"];
    let mut mounted = Mounted::served(&format!("leases-{name}-{cache}"), &args)?;
    mounted.mount("mnt2", &args);
    Some(mounted)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn chmod(path: &Path, mode: u32) -> Duration {
    let begun_ns = RealClock.monotonic_ns();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    Duration::from_nanos(RealClock.monotonic_ns() - begun_ns)
}

/// Says the first byte of a file that it has mapped, which is all that it asks of the mount, each time it is asked.
const MAPPED: &str = "
import mmap, os, sys
memory = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 0, prot=mmap.PROT_READ)
print('there', flush=True)
for line in sys.stdin: print(chr(memory[0]), flush=True)
";

#[test]
fn memory_shows_what_another_mount_writes_after_the_death_of_the_daemon() {
    if !has("python3") {
        return;
    }
    let Some(mut mounted) = two("mapped", "data") else { return };
    let [here, there] = ["mnt", "mnt2"].map(|dir| mounted.place.path(dir));
    let write = |byte: &[u8; 1]| {
        let file = fs::OpenOptions::new().write(true).open(there.join("f")).unwrap();
        file.write_at(byte, 0).unwrap();
    };
    fs::write(there.join("f"), b"old").unwrap();
    let mut mapped = Script::on(&here.join("f"), MAPPED);
    for (before, after) in [(b"o", b"1"), (b"1", b"2")] {
        let says = |mapped: &mut Script, byte: &[u8; 1]| mapped.does("?").as_bytes() == byte;
        assert!(says(&mut mapped, before));
        mounted.next_daemon();
        // Nobody has asked anything of this daemon through the first mount.
        write(after);
        wait_until("memory shows what was written", || says(&mut mapped, after));
    }
    drop(mapped);
    mounted.finish();
}

/// Says what a file begins with as it is asked: by memory that it has mapped, by a read, or when it is opened anew.
const OPENED: &str = "
import errno, mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
memory = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
def opened():
    new = os.open(sys.argv[1], os.O_RDONLY)
    try: return os.pread(new, 3, 0)
    finally: os.close(new)
ways = {'memory': lambda: memory[:3], 'read': lambda: os.pread(fd, 3, 0), 'open': opened}
print('there', flush=True)
for line in sys.stdin:
    try: print(ways[line.strip()]().decode(), flush=True)
    except OSError as error: print(errno.errorcode[error.errno], flush=True)
";

#[test]
fn while_the_engine_is_away_mapped_memory_stays_as_it_was_and_nothing_is_read_or_opened_and_then_all_is_true()
{
    if !has("python3") {
        return;
    }
    let args = ["--cache", "data", "--cache-timeout", "3600", "--deadline", "1"];
    let Some(mut mounted) = Mounted::served("leases-away", &args) else { return };
    fs::write(mounted.path("f"), b"old").unwrap();
    let mut script = Script::on(&mounted.path("f"), OPENED);
    let all = |script: &mut Script| ["memory", "read", "open"].map(|way| script.does(way));
    assert_eq!(all(&mut script), ["old"; 3]);
    drop(mounted.daemon.take());
    wait_until("nothing is read", || script.does("read") == "EIO");
    // Who has the pool meanwhile changes what is remembered.
    mounted.mount("alone", &[]);
    let file = fs::OpenOptions::new().write(true).open(mounted.place.path("alone/f")).unwrap();
    file.write_at(b"new", 0).unwrap();
    drop(file);
    assert_eq!(all(&mut script), ["old", "EIO", "EIO"]);
    unmounted(&mounted.place, "alone");
    mounted.mounts.pop().unwrap().ends();
    mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[]));
    wait_until("a file is opened", || script.does("open") == "new");
    wait_until("memory shows what is there", || script.does("memory") == "new");
    assert_eq!(all(&mut script), ["new"; 3]);
    drop(script);
    mounted.finish();
}

#[test]
fn what_one_mount_changes_another_sees_at_once_however_long_it_may_remember() {
    for cache in ["metadata", "data"] {
        let Some(mounted) = two("at-once", cache) else { return };
        let [here, there] = ["mnt", "mnt2"].map(|dir| mounted.place.path(dir));
        fs::create_dir(there.join("d")).unwrap();
        fs::write(there.join("d/f"), b"stone").unwrap();
        fs::hard_link(there.join("d/f"), there.join("d/g")).unwrap();
        let open = fs::File::open(here.join("d/f")).unwrap();
        for round in 0..20_u32 {
            let (old, new, link) =
                (format!("d/{round}"), format!("d/{round}-new"), format!("d/{round}-link"));
            fs::write(there.join(&old), b"x").unwrap();
            // Twice, so that the kernel remembers it.
            for _ in 0..2 {
                assert!(here.join(&old).exists() && !here.join(&new).exists(), "{cache}, {round}");
                assert_ne!(mode(&here.join("d/f")), 0o600 + round);
            }
            let begun_ns = RealClock.monotonic_ns();
            // By the other of its names.
            chmod(&there.join("d/g"), 0o600 + round);
            // Of what is open no name is looked up.
            assert_eq!(open.metadata().unwrap().permissions().mode() & 0o777, 0o600 + round, "{cache}");
            assert_eq!(mode(&here.join("d/f")), 0o600 + round, "{cache}");
            fs::write(there.join("d/g"), vec![b'x'; round as usize + 1]).unwrap();
            assert_eq!(fs::metadata(here.join("d/f")).unwrap().len(), u64::from(round) + 1, "{cache}");
            chmod(&there.join("d"), 0o700 + round);
            assert_eq!(mode(&here.join("d")), 0o700 + round, "{cache}");
            // The kernel was told of it with the answer that made it.
            let name = format!("d/{round}-made");
            let made = fs::File::create_new(here.join(&name)).unwrap();
            fs::write(there.join(&name), vec![b'x'; round as usize + 1]).unwrap();
            assert_eq!(made.metadata().unwrap().len(), u64::from(round) + 1, "{cache}");
            let made = fs::File::create_new(here.join(format!("{name}-2"))).unwrap();
            chmod(&there.join(format!("{name}-2")), 0o600 + round);
            assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o600 + round, "{cache}");
            if has_epoch() {
                fs::rename(there.join(&old), there.join(&new)).unwrap();
                assert!(!here.join(&old).exists() && here.join(&new).exists(), "{cache}, {round}");
                fs::remove_file(there.join(&new)).unwrap();
                assert!(!here.join(&new).exists(), "{cache}, {round}");
                // The file stays, so that nothing but its name is of the past.
                fs::hard_link(there.join("d/f"), there.join(&link)).unwrap();
                for _ in 0..2 {
                    assert!(here.join(&link).exists(), "{cache}, {round}");
                }
                fs::remove_file(there.join(&link)).unwrap();
                assert!(!here.join(&link).exists(), "{cache}, {round}");
            }
            let took = Duration::from_nanos(RealClock.monotonic_ns() - begun_ns);
            assert!(took < 2 * TERM, "{cache}, {round}: somebody does not listen: {took:?}");
        }
        drop(open);
        mounted.finish();
    }
}

#[test]
fn what_is_read_of_an_open_file_is_what_another_mount_has_just_written() {
    let Some(mounted) = two("contents", "data") else { return };
    let [here, there] = ["mnt", "mnt2"].map(|dir| mounted.place.path(dir).join("f"));
    fs::write(&there, vec![b'a'; 10_000]).unwrap();
    let mut file = fs::File::open(&here).unwrap();
    let mut all = Vec::new();
    file.read_to_end(&mut all).unwrap();
    let writer = fs::OpenOptions::new().write(true).open(&there).unwrap();
    for round in 0..20_u8 {
        let at = u64::from(round) * 500;
        // Of the same length, so that nothing but the lease tells it.
        writer.write_all_at(&[round], at).unwrap();
        let mut byte = [0];
        for _ in 0..2 {
            file.read_exact_at(&mut byte, at).unwrap();
            assert_eq!(byte, [round]);
        }
    }
    // Both write: neither waits for himself.
    let begun_ns = RealClock.monotonic_ns();
    let both = [&here, &there].map(|path| fs::OpenOptions::new().read(true).write(true).open(path).unwrap());
    dolmen_env::scope(|threads| {
        for (own, file) in (0..2_u64).zip(&both) {
            threads.spawn(move || {
                for round in 0..50 {
                    file.write_all_at(&[7], own * 5000 + round).unwrap();
                    file.read_exact_at(&mut [0; 100], (1 - own) * 5000).unwrap();
                }
            });
        }
    });
    let took = Duration::from_nanos(RealClock.monotonic_ns() - begun_ns);
    assert!(took < 2 * TERM, "{took:?}");
    drop((both, file, writer));
    mounted.finish();
}

#[test]
fn what_is_read_of_an_open_file_is_true_while_names_beside_it_come_and_go() {
    let Some(mounted) = two("beside", "data") else { return };
    let [here, there] = ["mnt", "mnt2"].map(|dir| mounted.place.path(dir));
    fs::write(there.join("f"), vec![b'a'; 10_000]).unwrap();
    let file = fs::File::open(here.join("f")).unwrap();
    let writer = fs::OpenOptions::new().write(true).open(there.join("f")).unwrap();
    let is_over = AtomicBool::new(false);
    dolmen_env::scope(|threads| {
        for dir in [&here, &there] {
            let is_over = &is_over;
            threads.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let name = dir.join(dir.file_name().unwrap());
                    fs::write(&name, b"x").unwrap();
                    fs::remove_file(&name).unwrap();
                }
            });
        }
        for round in 0..100_u8 {
            let at = u64::from(round) * 100;
            writer.write_all_at(&[round], at).unwrap();
            let mut byte = [0];
            for _ in 0..2 {
                file.read_exact_at(&mut byte, at).unwrap();
                if byte != [round] {
                    is_over.store(true, Ordering::Relaxed);
                }
                assert_eq!(byte, [round]);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop((file, writer));
    mounted.finish();
}

#[test]
fn a_mount_that_stands_still_holds_others_up_for_a_term_at_most_and_sees_what_they_did() {
    let Some(mut mounted) = two("stopped", "metadata") else { return };
    let [here, there] = ["mnt", "mnt2"].map(|dir| mounted.place.path(dir));
    for name in ["f", "g"] {
        fs::write(there.join(name), b"x").unwrap();
        chmod(&there.join(name), 0o600);
        mode(&here.join(name));
    }
    mounted.first().signal(Signal::SIGSTOP);
    // The kernel does not ask it, and so could show what is old.
    let mut stat = Running::of(Command::new("stat").arg(here.join("g")).stdout(Stdio::null()));
    wait_until("what is remembered is told", || stat.is_over());
    let took = chmod(&there.join("f"), 0o640);
    assert!((TERM..TERM + Duration::from_secs(2)).contains(&took), "{took:?}");
    let second = chmod(&there.join("g"), 0o640);
    assert!(second < TERM / 2, "whoever was late once is not waited for again: {second:?}");
    mounted.first().signal(Signal::SIGCONT);
    assert_eq!([mode(&here.join("f")), mode(&here.join("g"))], [0o640; 2]);
    mounted.finish();
}

#[test]
fn a_mount_that_is_killed_holds_nobody_up() {
    let Some(mut mounted) = two("killed", "metadata") else { return };
    let [here, there] = ["mnt", "mnt2"].map(|dir| mounted.place.path(dir).join("f"));
    fs::write(&there, b"x").unwrap();
    for round in 0..2 {
        mode(&here);
        mounted.first().signal(Signal::SIGKILL);
        let took = chmod(&there, 0o640 + round);
        assert!(took < TERM / 2, "{took:?}");
        mounted.first().ends();
        mounted.mounts.remove(0);
        mounted.mount("mnt", &["--cache-timeout", "3600"]);
        mounted.mounts.rotate_right(1);
    }
    mounted.finish();
}

#[test]
fn mounts_that_change_one_directory_do_not_hold_each_other_up() {
    let Some(mounted) = two("crowd", "metadata") else { return };
    let dirs = ["mnt", "mnt2"].map(|dir| mounted.place.path(dir).join("d"));
    fs::create_dir(&dirs[0]).unwrap();
    let begun_ns = RealClock.monotonic_ns();
    dolmen_env::scope(|threads| {
        for (own, dir) in dirs.iter().enumerate() {
            threads.spawn(move || {
                for round in 0..30 {
                    let [mine, shared] = [format!("{own}-{round}"), format!("shared-{round}")];
                    fs::write(dir.join(&mine), b"x").unwrap();
                    // Either may have come first.
                    drop(fs::rename(dir.join(&mine), dir.join(&shared)));
                    drop(fs::metadata(dir.join(&shared)));
                    drop(fs::remove_file(dir.join(&shared)));
                    assert!(fs::read_dir(dir).unwrap().count() <= 4);
                }
            });
        }
    });
    let took = nanoseconds(Duration::from_nanos(RealClock.monotonic_ns() - begun_ns));
    assert!(took < nanoseconds(2 * TERM), "{took} ns: they wait for each other");
    assert_eq!(fs::read_dir(&dirs[0]).unwrap().count(), 0);
    mounted.finish();
}
