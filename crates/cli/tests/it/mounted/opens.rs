//! Files that are open in one mount while another removes, replaces or moves their names.

use super::orphans::unnamed;
use super::script::Script;
use super::{Mounted, unmounted, wait_until};
use crate::served::Daemon;
use core::sync::atomic::{AtomicBool, Ordering};
use nix::sys::signal::Signal;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Makes the file that it is given, and for each line reads, writes and looks at it without its name, and says what it has found.
const PROGRAM: &str = r#"
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
os.write(fd, b"stone" * 100000)
print("there", flush=True)
for count, line in enumerate(sys.stdin, 1):
    try:
        whole = os.pread(fd, 1 << 20, 0).count(b"stone")
        os.pwrite(fd, b"menhir", 500000 + 6 * count)
        os.fsync(fd)
        stat = os.fstat(fd)
        print(whole, stat.st_nlink, stat.st_size - 500000 - 6 * count, os.pread(fd, 6, 500000 + 6 * count), flush=True)
    except OSError as error:
        print(os.strerror(error.errno), flush=True)
"#;

/// What it says of a file with so many names that is whole.
fn whole(names: u32) -> String {
    format!("100000 {names} 6 b'menhir'")
}

/// Mounts `mnt` and `mnt2`, and a file `f` that a process has open in the first.
fn two(name: &str, args: &[&str]) -> Option<(Mounted, Script)> {
    let mut mounted = Mounted::served(&format!("opens-{name}"), args)?;
    mounted.mount("mnt2", args);
    let holder = Script::on(&mounted.path("f"), PROGRAM);
    Some((mounted, holder))
}

/// Replaces a file by another one.
fn replace(file: &Path) {
    let other = file.with_extension("other");
    fs::write(&other, b"dolmen").unwrap();
    fs::rename(other, file).unwrap();
}

#[test]
fn a_file_that_is_open_in_one_mount_works_on_when_another_removes_replaces_or_moves_it() {
    for cache in ["off", "metadata", "data"] {
        let Some((mounted, mut removed)) = two(cache, &["--cache", cache]) else { return };
        let [here, there] = ["mnt", "mnt2"].map(|dir| mounted.place.path(dir));
        let mut replaced = Script::on(&here.join("g"), PROGRAM);
        let mut linked = Script::on(&here.join("h"), PROGRAM);
        let mut moved = Script::on(&here.join("j"), PROGRAM);
        assert_eq!(removed.does("look"), whole(1), "{cache}");
        // As logs are put aside.
        fs::create_dir(there.join("d")).unwrap();
        fs::rename(there.join("j"), there.join("d/k")).unwrap();
        assert_eq!(moved.does("look"), whole(1), "{cache}");
        for dir in [&here, &there] {
            assert!(!dir.join("j").exists(), "{cache}");
            assert_eq!(fs::metadata(dir.join("d/k")).unwrap().len(), 500_012, "{cache}");
        }
        fs::remove_file(there.join("f")).unwrap();
        replace(&there.join("g"));
        fs::hard_link(there.join("h"), there.join("i")).unwrap();
        fs::remove_file(there.join("h")).unwrap();
        for dir in [&here, &there] {
            assert!(!dir.join("f").exists(), "{cache}");
            assert_eq!(fs::read(dir.join("g")).unwrap(), b"dolmen", "{cache}");
        }
        for holder in [&mut removed, &mut replaced] {
            for _ in 0..2 {
                assert_eq!(holder.does("look"), whole(0), "{cache}");
            }
        }
        assert_eq!((linked.does("look"), unnamed(&mounted)), (whole(1), 2), "{cache}");
        fs::remove_file(there.join("i")).unwrap();
        assert_eq!((linked.does("look"), unnamed(&mounted)), (whole(0), 3), "{cache}");
        assert_eq!(moved.does("look"), whole(1), "{cache}");
        for mut holder in [removed, replaced, linked, moved] {
            holder.running.kill();
        }
        wait_until("they are freed when they are closed", || unnamed(&mounted) == 0);
        mounted.finish();
    }
}

#[test]
fn what_a_killed_mount_had_open_is_freed_by_the_one_that_removed_it() {
    let Some((mut mounted, mut holder)) = two("killed", &[]) else { return };
    fs::remove_file(mounted.place.path("mnt2").join("f")).unwrap();
    assert_eq!((holder.does("look"), unnamed(&mounted)), (whole(0), 1));
    mounted.first().signal(Signal::SIGKILL);
    mounted.first().ends();
    holder.running.kill();
    unmounted(&mounted.place, "mnt");
    drop(mounted.mounts.remove(0));
    wait_until("it is freed", || unnamed(&mounted) == 0);
    mounted.mount("mnt", &[]);
    mounted.mounts.rotate_right(1);
    mounted.finish();
}

#[test]
fn a_file_whose_remover_was_killed_is_kept_for_who_has_it_open_and_freed_by_him() {
    let Some((mut mounted, mut holder)) = two("remover", &[]) else { return };
    fs::remove_file(mounted.place.path("mnt2").join("f")).unwrap();
    let mut remover = mounted.mounts.pop().unwrap();
    remover.signal(Signal::SIGKILL);
    remover.ends();
    unmounted(&mounted.place, "mnt2");
    drop(remover);
    // Who comes next looks for what the dead have left.
    mounted.mount("mnt2", &[]);
    assert_eq!((holder.does("look"), unnamed(&mounted)), (whole(0), 1));
    holder.running.kill();
    wait_until("it is freed at its last close", || unnamed(&mounted) == 0);
    mounted.finish();
}

#[test]
fn a_daemon_that_is_killed_costs_no_file_that_is_open_elsewhere() {
    let Some((mut mounted, mut holder)) = two("daemon", &["--deadline", "120"]) else { return };
    let mut late = Script::on(&mounted.path("late"), PROGRAM);
    let [mut moved, mut exchanged, mut linked, mut replaced] =
        ["a", "b", "c", "d"].map(|name| Script::on(&mounted.path(name), PROGRAM));
    fs::write(mounted.path("e"), b"dolmen").unwrap();
    let there = mounted.place.path("mnt2");
    let again = |mounted: &mut Mounted| {
        drop(mounted.daemon.take());
        mounted.daemon = Some(Daemon::start_in(&mounted.place, "sys", &[]));
    };
    // Between open and removal, and between removal and close.
    again(&mut mounted);
    fs::rename(there.join("a"), there.join("moved")).unwrap();
    fs::remove_file(there.join("f")).unwrap();
    assert_eq!((holder.does("look"), moved.does("look")), (whole(0), whole(1)));
    again(&mut mounted);
    renameat_with(CWD, there.join("b"), CWD, there.join("e"), RenameFlags::EXCHANGE).unwrap();
    assert_eq!(exchanged.does("look"), whole(1));
    again(&mut mounted);
    fs::hard_link(there.join("c"), there.join("linked")).unwrap();
    fs::remove_file(there.join("c")).unwrap();
    assert_eq!(linked.does("look"), whole(1));
    again(&mut mounted);
    fs::rename(there.join("moved"), there.join("d")).unwrap();
    assert_eq!((moved.does("look"), replaced.does("look")), (whole(1), whole(0)));
    again(&mut mounted);
    assert_eq!((holder.does("look"), unnamed(&mounted)), (whole(0), 2));
    // Long after, when who had files open has said so again.
    std::fs::write(there.join("other"), b"dolmen").unwrap();
    fs::remove_file(there.join("other")).unwrap();
    wait_until("what is not open is freed", || unnamed(&mounted) == 2);
    fs::remove_file(there.join("late")).unwrap();
    assert_eq!((late.does("look"), holder.does("look")), (whole(0), whole(0)));
    for mut script in [holder, late, moved, exchanged, linked, replaced] {
        script.running.kill();
    }
    wait_until("they are freed at their last close", || unnamed(&mounted) == 0);
    mounted.finish();
}

#[test]
fn a_mount_that_stands_still_loses_no_file_that_is_open() {
    let Some((mut mounted, mut holder)) = two("stopped", &["--cache", "off"]) else { return };
    mounted.first().signal(Signal::SIGSTOP);
    let there = mounted.place.path("mnt2");
    fs::remove_file(there.join("f")).unwrap();
    // Longer than locks of programs are kept: what nobody has open is gone, and this is not.
    mounted.mount("mnt3", &[]);
    assert_eq!(unnamed(&mounted), 1);
    mounted.first().signal(Signal::SIGCONT);
    assert_eq!(holder.does("look"), whole(0));
    holder.running.kill();
    wait_until("it is freed at its last close", || unnamed(&mounted) == 0);
    mounted.finish();
}

#[test]
fn a_name_that_two_mounts_replace_again_and_again_is_opened_in_a_third() {
    const OPENS: usize = 1500;
    for (cache, is_open_elsewhere) in [("off", false), ("off", true), ("metadata", false)] {
        let args = ["--cache", cache];
        let name = format!("opens-replaced-{cache}-{is_open_elsewhere}");
        let Some(mut mounted) = Mounted::served(&name, &args) else { return };
        mounted.mount("mnt2", &args);
        mounted.mount("mnt3", &args);
        let [here, there, third] = ["mnt", "mnt2", "mnt3"].map(|dir| mounted.place.path(dir));
        fs::write(here.join("f"), b"dolmen").unwrap();
        let is_over = AtomicBool::new(false);
        let failed: Vec<io::Error> = dolmen_env::scope(|threads| {
            for (dir, other, own) in [(&here, &there, "one"), (&there, &here, "two")] {
                // What one mount has open, and another moves, has its record beside its name.
                let mover = if is_open_elsewhere { other } else { dir };
                let (made, moved, name, is_over) =
                    (dir.join(own), mover.join(own), mover.join("f"), &is_over);
                threads.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let mut file = fs::File::create(&made).unwrap();
                        file.write_all(b"dolmen").unwrap();
                        let kept = Some(file).filter(|_| is_open_elsewhere);
                        fs::rename(&moved, &name).unwrap();
                        drop(kept);
                    }
                });
            }
            let looked_at = || fs::metadata(third.join("f")).and_then(|_| fs::read(third.join("f")));
            let read = |_| match looked_at() {
                Ok(read) if read == b"dolmen" => None,
                Ok(read) => Some(io::Error::other(format!("{read:?}"))),
                Err(error) => Some(error),
            };
            let failed = (0..OPENS).filter_map(read).collect();
            is_over.store(true, Ordering::Relaxed);
            failed
        });
        assert!(failed.is_empty(), "{cache}: {} of {OPENS}: {}", failed.len(), failed[0]);
        wait_until("what was replaced is freed", || unnamed(&mounted) == 0);
        mounted.finish();
    }
}
