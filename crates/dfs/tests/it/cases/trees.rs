//! Put, get, verify and count whole trees.

use super::common::{TempDir, World, cat, damage_entry, put};
use dolmen_dfs::tree::{self, Difference, Options};
use dolmen_dfs::{Cred, Error, FileKind, Follow, OpenOptions, SetAttrs, SetTime, Time, XattrCond};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A tree with everything that is kept.
fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    for n in 0..40 {
        fs::write(root.join(format!("sub/f{n}")), vec![n; usize::from(n) * 100]).unwrap();
    }
    fs::write(root.join("sub/deep/nothing"), b"").unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.write_all_at(b"in the middle", 3 << 20).unwrap();
    sparse.set_len(5 << 20).unwrap();
    fs::hard_link(root.join("sub/f7"), root.join("same-as-f7")).unwrap();
    std::os::unix::fs::symlink("sub/f1", root.join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", root.join("dangling")).unwrap();
    fs::set_permissions(root.join("sub/f3"), fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(root.join("empty"), fs::Permissions::from_mode(0o711)).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(1_000_000_007, 123_456_789);
    fs::File::open(root.join("sub/f4")).unwrap().set_modified(old).unwrap();
    fs::File::open(root.join("sub")).unwrap().set_modified(old).unwrap();
}

fn options() -> Options<'static> {
    Options { threads: 3, ..Options::default() }
}

#[test]
fn a_tree_is_put_got_and_equal_to_the_last_bit() {
    let (world, dir) = (World::new(3), TempDir::new("round"));
    let fs = world.mount();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    make_tree(&from);
    let counts = tree::put(&from, &fs, "/tree", &options()).unwrap();
    assert_eq!((counts.dirs, counts.files, counts.symlinks, counts.links), (4, 42, 2, 1));
    let report = tree::verify(&from, &fs, "/tree", &options()).unwrap();
    assert_eq!(report.mismatches, []);
    assert_eq!((report.counts.files, report.more), (43, 0));
    let counts = tree::get(&fs, "/tree", &to, &options()).unwrap();
    assert_eq!((counts.dirs, counts.files, counts.symlinks, counts.links), (4, 42, 2, 1));
    assert_eq!(tree::verify(&to, &fs, "/tree", &options()).unwrap().mismatches, []);
    let meta = fs::metadata(to.join("sub/f4")).unwrap();
    assert_eq!((meta.mtime(), meta.mtime_nsec()), (1_000_000_007, 123_456_789));
    assert_eq!(
        fs::metadata(to.join("sub/f7")).unwrap().ino(),
        fs::metadata(to.join("same-as-f7")).unwrap().ino()
    );
    let sparse = fs::metadata(to.join("sparse")).unwrap();
    assert_eq!(sparse.len(), 5 << 20);
    assert!(sparse.blocks() * 512 < 1 << 20, "holes stay holes");
}

#[test]
fn a_repeated_put_copies_only_what_is_not_finished() {
    let (world, dir) = (World::new(2), TempDir::new("resume"));
    let fs = world.mount();
    make_tree(dir.path());
    tree::put(dir.path(), &fs, "/t", &options()).unwrap();
    // As left by a put that was killed: half a file with a time of its own.
    put(&fs, "/t/sub/f9", b"half").close().unwrap();
    fs.set_mtime("/t/sub/f9", SetTime::To(Time { s: 9, ns: 9 }), Follow::Yes).unwrap();
    fs.unlink("/t/sub/f10").unwrap();
    let counts = tree::put(dir.path(), &fs, "/t", &options()).unwrap();
    assert_eq!((counts.files, counts.resumed), (2, 40));
    assert_eq!(tree::verify(dir.path(), &fs, "/t", &options()).unwrap().mismatches, []);
    let again = tree::put(dir.path(), &fs, "/t", &Options { resume: false, ..options() }).unwrap();
    assert_eq!((again.files, again.resumed), (42, 0));
    assert_eq!(tree::verify(dir.path(), &fs, "/t", &options()).unwrap().mismatches, []);
}

#[test]
fn every_kind_of_difference_is_reported() {
    let (world, dir) = (World::new(2), TempDir::new("differ"));
    let fs = world.mount();
    make_tree(dir.path());
    tree::put(dir.path(), &fs, "/t", &options()).unwrap();
    let time = |path: &str| fs.lstat(path).unwrap().mtime;
    let sub = time("/t/sub");
    let keep = time("/t/sub/f20");
    let file = fs.open("/t/sub/f20", &OpenOptions::WRITE).unwrap();
    file.write_at(1234, b"x").unwrap();
    file.close().unwrap();
    fs.set_mtime("/t/sub/f20", SetTime::To(keep), Follow::Yes).unwrap();
    fs.chmod("/t/sub/f21", 0o777).unwrap();
    fs.set_mtime("/t/sub/f22", SetTime::To(Time { s: 1, ns: 0 }), Follow::Yes).unwrap();
    fs.set_xattr("/t/sub/f23", "user.x", "v", XattrCond::Any, Follow::Yes).unwrap();
    fs.unlink("/t/sub/f24").unwrap();
    put(&fs, "/t/sub/extra", b"").close().unwrap();
    fs.unlink("/t/sub/f25").unwrap();
    fs.mkdir("/t/sub/f25", 0o755).unwrap();
    fs.set_mtime("/t/sub", SetTime::To(sub), Follow::Yes).unwrap();
    let report = tree::verify(dir.path(), &fs, "/t", &options()).unwrap();
    let found: Vec<_> = report
        .mismatches
        .iter()
        .map(|m| (String::from_utf8_lossy(&m.path).into_owned(), m.difference))
        .collect();
    let expected = [
        ("extra", Difference::Extra),
        ("f20", Difference::Content { offset: 1234 }),
        ("f21", Difference::Mode),
        ("f22", Difference::Time),
        ("f23", Difference::Xattrs),
        ("f24", Difference::Missing),
        ("f25", Difference::Kind),
    ];
    assert_eq!(found, expected.map(|(name, difference)| (format!("/t/sub/{name}"), difference)));
}

#[test]
fn progress_only_grows_and_errors_name_their_file() {
    let (world, dir) = (World::new(1), TempDir::new("progress"));
    let fs = world.mount();
    make_tree(dir.path());
    let seen = Mutex::new(Vec::new());
    let on_progress = |counts: tree::Counts| seen.lock().unwrap().push(counts.bytes);
    let options = Options { threads: 1, on_progress: Some(&on_progress), ..Options::default() };
    let counts = tree::put(dir.path(), &fs, "/t", &options).unwrap();
    assert_eq!(seen.lock().unwrap().iter().max(), Some(&counts.bytes));
    fs.unlink("/t/sub/f5").unwrap();
    fs.mkdir("/t/sub/f5", 0o755).unwrap();
    let error = tree::put(dir.path(), &fs, "/t", &options).unwrap_err();
    assert_eq!(
        (error.errno(), error.to_string()),
        (21, "/t/sub/f5: a directory has this name, and a file does not replace it".into())
    );
    let error = tree::put(&dir.path().join("none"), &fs, "/t", &options).unwrap_err();
    assert!(matches!(error, Error::Local { errno: 2, .. }), "{error}");
}

/// Sets or removes an attribute outside, where `TempDir`s must be able to hold them.
fn set_outside(path: &Path, name: &str, value: Option<&[u8]>) {
    match value {
        Some(value) => rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap(),
        None => rustix::fs::removexattr(path, name).unwrap(),
    }
}

#[test]
fn extended_attributes_outside_are_put_got_and_compared() {
    let (world, dir) = (World::new(2), TempDir::new("xattrs"));
    let fs = world.mount();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    make_tree(&from);
    let large = vec![7; 1500];
    set_outside(&from.join("sub/f1"), "user.small", Some(b"value"));
    set_outside(&from.join("sub"), "user.of-a-directory", Some(&large));
    // More names than fit where a list is first asked for.
    for n in 0..30 {
        set_outside(&from.join("sparse"), &format!("user.{n}-{}", "x".repeat(40)), Some(b"v"));
    }
    tree::put(&from, &fs, "/t", &options()).unwrap();
    assert_eq!(fs.xattr("/t/sub/f1", "user.small", Follow::No).unwrap(), b"value");
    assert_eq!(fs.xattr("/t/sub", "user.of-a-directory", Follow::No).unwrap(), large);
    let ours = |path: &str| {
        let names = fs.xattr_names(path, Follow::No).unwrap();
        names.iter().filter(|name| name.starts_with(b"user.")).count()
    };
    assert_eq!(ours("/t/sparse"), 30);
    assert_eq!(tree::verify(&from, &fs, "/t", &options()).unwrap().mismatches, []);
    tree::get(&fs, "/t", &to, &options()).unwrap();
    assert_eq!(tree::verify(&to, &fs, "/t", &options()).unwrap().mismatches, []);
    set_outside(&to.join("sub/f1"), "user.small", Some(b"other"));
    let report = tree::verify(&to, &fs, "/t", &options()).unwrap();
    let found: Vec<_> = report.mismatches.iter().map(|m| (&m.path[..], m.difference)).collect();
    assert_eq!(found, [(&b"/t/sub/f1"[..], Difference::Xattrs)]);
    // A repeated get restores what is stored.
    set_outside(&to.join("sub/f2"), "user.foreign", Some(b"v"));
    tree::get(&fs, "/t", &to, &options()).unwrap();
    assert_eq!(tree::verify(&to, &fs, "/t", &options()).unwrap().mismatches, []);
}

#[test]
fn a_repeated_put_and_get_take_over_changed_metadata() {
    let (world, dir) = (World::new(2), TempDir::new("metadata"));
    let fs = world.mount();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    make_tree(&from);
    set_outside(&from.join("sub/f1"), "user.gone", Some(b"v"));
    tree::put(&from, &fs, "/t", &options()).unwrap();
    tree::get(&fs, "/t", &to, &options()).unwrap();
    set_outside(&from.join("sub/f1"), "user.gone", None);
    set_outside(&from.join("sub/f1"), "user.new", Some(b"v"));
    fs::set_permissions(from.join("sub/f2"), fs::Permissions::from_mode(0o604)).unwrap();
    fs::set_permissions(from.join("sub/deep"), fs::Permissions::from_mode(0o705)).unwrap();
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(1_100_000_000, 5);
    fs::File::open(from.join("sub/f4")).unwrap().set_modified(time).unwrap();
    assert_eq!(tree::verify(&from, &fs, "/t", &options()).unwrap().mismatches.len(), 4);
    let counts = tree::put(&from, &fs, "/t", &options()).unwrap();
    assert_eq!((counts.files, counts.resumed), (1, 41), "only the touched file is copied");
    assert_eq!(tree::verify(&from, &fs, "/t", &options()).unwrap().mismatches, []);
    fs.chown("/t/sub/f6", Some(12), Some(34), Follow::No).unwrap();
    let owned = Options { owner: true, ..options() };
    tree::put(&from, &fs, "/t", &owned).unwrap();
    assert_eq!(tree::verify(&from, &fs, "/t", &owned).unwrap().mismatches, []);
    tree::get(&fs, "/t", &to, &options()).unwrap();
    assert_eq!(tree::verify(&to, &fs, "/t", &options()).unwrap().mismatches, []);
}

#[test]
fn a_changed_kind_is_refused_with_both_kinds() {
    let (world, dir) = (World::new(1), TempDir::new("kinds"));
    let fs = world.mount();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir_all(from.join("a")).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(to.join("a"), b"outside").unwrap();
    fs.mkdir("/t", 0o755).unwrap();
    put(&fs, "/t/a", b"stored").close().unwrap();
    let error = tree::put(&from, &fs, "/t", &options()).unwrap_err().to_string();
    assert_eq!(error, "/t/a: a file has this name, and a directory does not replace it");
    let error = tree::get(&fs, "/t", &from, &options()).unwrap_err().to_string();
    let outside = |root: &Path| root.join("a").display().to_string();
    assert_eq!(
        error,
        format!("{}: a directory has this name, and a file does not replace it", outside(&from))
    );
    fs.unlink("/t/a").unwrap();
    fs.mkdir("/t/a", 0o755).unwrap();
    let error = tree::get(&fs, "/t", &to, &options()).unwrap_err().to_string();
    assert_eq!(error, format!("{}: a file has this name, and a directory does not replace it", outside(&to)));
    assert_eq!(fs::read(to.join("a")).unwrap(), b"outside");
}

#[test]
fn a_file_that_cannot_be_got_keeps_its_name_free() {
    let (world, dir) = (World::new(1), TempDir::new("unfinished"));
    let fs = world.mount();
    put(&fs, "/one", &[7; 5000]).close().unwrap();
    let names =
        || -> Vec<_> { fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect() };
    let during = Mutex::new(Vec::new());
    // Takes away what is written, so that the get cannot end.
    let on_progress = |counts: tree::Counts| {
        if counts.files == 0 {
            during.lock().unwrap().extend(names());
            names().iter().for_each(|path| fs::remove_file(path).unwrap());
        }
    };
    let options = Options { threads: 1, on_progress: Some(&on_progress), ..Options::default() };
    let to = dir.path().join("one");
    let error = tree::get(&fs, "/one", &to, &options).unwrap_err();
    assert_eq!(error.errno(), 2, "{error}");
    assert!(!during.lock().unwrap().is_empty());
    assert!(!during.lock().unwrap().contains(&to), "no final name before the file is complete");
    assert_eq!(names(), Vec::<std::path::PathBuf>::new());
    tree::get(&fs, "/one", &to, &Options::default()).unwrap();
    assert_eq!(names(), [to]);
}

#[test]
fn single_files_and_links_are_trees_too() {
    let (world, dir) = (World::new(1), TempDir::new("single"));
    let fs = world.mount();
    fs::write(dir.path().join("one"), b"one").unwrap();
    std::os::unix::fs::symlink("one", dir.path().join("two")).unwrap();
    tree::put(&dir.path().join("one"), &fs, "/1", &options()).unwrap();
    tree::put(&dir.path().join("two"), &fs, "/2", &options()).unwrap();
    assert_eq!(cat(&fs, "/1"), b"one");
    assert_eq!(fs.lstat("/2").unwrap().kind, FileKind::Symlink);
    tree::get(&fs, "/1", &dir.path().join("three"), &options()).unwrap();
    assert_eq!(fs::read(dir.path().join("three")).unwrap(), b"one");
}

#[test]
fn usage_and_digests_cover_every_file_once() {
    let (world, dir) = (World::new(2), TempDir::new("du"));
    let fs = world.mount();
    make_tree(dir.path());
    tree::put(dir.path(), &fs, "/t", &options()).unwrap();
    let usage = tree::du(&fs, "/t", true, &options()).unwrap();
    let small: u64 = (0..40).map(|n| n * 100).sum();
    assert_eq!((usage.dirs, usage.files, usage.symlinks), (4, 42, 2));
    assert_eq!(usage.size_bytes, small + (5 << 20) + 6 + 7);
    assert!(usage.data_bytes >= small + 13 && usage.data_bytes < small + 100_000, "{usage:?}");
    let digests = tree::digest(&fs, "/t", &options()).unwrap();
    assert_eq!(digests.len(), 43);
    let f2 = digests.iter().find(|(path, ..)| path == b"/t/sub/f2").unwrap();
    assert_eq!((f2.1, f2.2), (200, dolmen_types::crc32c(&[2; 200])));
}

/// A name of which 16 make a path too long.
fn long_name(number: usize) -> String {
    format!("{number:02}{}", "x".repeat(248))
}

#[test]
fn a_tree_deeper_than_a_path_is_counted_and_removed() {
    let world = World::new(2);
    let fs = world.mount();
    fs.mkdir("/t", 0o755).unwrap();
    let objects = world.object_count();
    let mut at = fs.open_dir("/t").unwrap();
    for number in 0..20 {
        at.put_whole("file", b"data", &SetAttrs::KEEP).unwrap();
        at.mkdir(long_name(number), 0o755).unwrap();
        at = at.open_dir(long_name(number)).unwrap();
    }
    drop(at);
    let usage = tree::du(&fs, "/t", true, &options()).unwrap();
    assert_eq!((usage.dirs, usage.files, usage.data_bytes, usage.failed), (21, 20, 80, 0));
    assert_eq!(tree::digest(&fs, "/t", &options()).unwrap().len(), 20);
    let removed = tree::remove(&fs, "/t", &options()).unwrap();
    assert_eq!((removed.dirs, removed.files, removed.failed), (21, 20, 0));
    assert_eq!(fs.lstat("/t").unwrap_err(), Error::NotFound);
    assert!(world.object_count() < objects, "nothing of it is left");
    assert!(fs.check(false).unwrap().is_clean());
}

#[test]
fn objects_are_named_beside_and_below_a_tree_deeper_than_a_path() {
    let world = World::new(2);
    let fs = world.mount();
    fs.mkdir("/t", 0o755).unwrap();
    put(&fs, "/beside", b"data").close().unwrap();
    let mut at = fs.open_dir("/t").unwrap();
    for number in 0..20 {
        at.mkdir(long_name(number), 0o755).unwrap();
        at = at.open_dir(long_name(number)).unwrap();
    }
    at.put_whole("file", b"data", &SetAttrs::KEEP).unwrap();
    let below = at.lstat("file").unwrap().oid;
    drop(at);
    let beside = fs.lstat("/beside").unwrap().oid;
    let named = tree::paths_of(&fs, &[beside, below].into()).unwrap();
    let path_of = |oid| &named.iter().find(|(of, _)| *of == oid).unwrap().1;
    let deep: String = (0..20).map(|number| format!("/{}", long_name(number))).collect();
    assert_eq!((named.len(), &path_of(beside)[..]), (2, &b"/beside"[..]));
    assert_eq!(*path_of(below), format!("/t{deep}/file").into_bytes());
    // What is damaged, or not for everybody, hides no other.
    damage_entry(&world, fs.open_dir("/t").unwrap().oid(), long_name(0).as_bytes());
    fs.mkdir("/closed", 0o700).unwrap();
    let user = fs.as_user(Cred { uid: 7, gid: 7, groups: Vec::new(), umask: 0 });
    assert_eq!(tree::paths_of(&user, &[beside, below].into()).unwrap(), [(beside, b"/beside".to_vec())]);
}

/// The most memory that this process has had, and with it all tests that run beside this one.
fn memory_peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[test]
fn a_tree_of_thousands_of_levels_takes_memory_by_its_entries_and_not_by_its_paths() {
    const LEVELS: u64 = 3000;
    let world = World::new(1);
    let fs = world.mount();
    fs.mkdir("/t", 0o755).unwrap();
    let mut at = fs.open_dir("/t").unwrap();
    for number in 1..LEVELS {
        let name = long_name(usize::try_from(number).unwrap());
        at.mkdir(&name, 0o755).unwrap();
        at = at.open_dir(&name).unwrap();
    }
    at.put_whole("file", b"data", &SetAttrs::KEEP).unwrap();
    drop(at);
    let before_kib = memory_peak_kib();
    let usage = tree::du(&fs, "/t", true, &options()).unwrap();
    assert_eq!((usage.dirs, usage.files, usage.failed), (LEVELS, 1, 0));
    assert_eq!(tree::digest(&fs, "/t", &options()).unwrap().len(), 1);
    let removed = tree::remove(&fs, "/t", &options()).unwrap();
    assert_eq!((removed.dirs, removed.files, removed.failed), (LEVELS, 1, 0));
    // The paths of all directories have this many bytes.
    let paths_kib = LEVELS * LEVELS / 2 * 251 / 1024;
    let more_kib = memory_peak_kib() - before_kib;
    assert!(more_kib < paths_kib / 4, "{more_kib} KiB more, and {paths_kib} KiB of paths");
}

#[test]
fn what_is_too_deep_for_a_path_outside_is_named_and_the_rest_is_copied() {
    let (world, dir) = (World::new(2), TempDir::new("deep"));
    let fs = world.mount();
    let outside = dir.path().join("t");
    fs::create_dir(&outside).unwrap();
    let (mut above, mut path) = (rustix_dir(&outside), outside.clone());
    for number in 0..20 {
        let name = long_name(number);
        rustix::fs::mkdirat(&above, &*name, Mode::RWXU).unwrap();
        above = rustix::fs::openat(&above, &*name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        drop(rustix::fs::openat(&above, "f", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap());
        if path.as_os_str().len() <= 4095 {
            path.push(name);
        }
    }
    // The first directory whose path is too long, and one less of those above it.
    let fit = path.strip_prefix(&outside).unwrap().components().count() - 1;
    let failures = Mutex::new(Vec::new());
    let fail = |error: Error| failures.lock().unwrap().push(error.to_string());
    let noted = || core::mem::take(&mut *failures.lock().unwrap());
    let options = Options { on_failure: Some(&fail), ..options() };
    let put = tree::put(&outside, &fs, "/t", &options).unwrap();
    assert_eq!((put.dirs, put.files, put.failed), (fit as u64 + 1, fit as u64, 1));
    let told = noted();
    assert!(told[0].starts_with(&path.display().to_string()), "{told:?}");
    assert!(told[0].contains("the path longer than 4095"), "{told:?}");
    let report = tree::verify(&outside, &fs, "/t", &options).unwrap();
    // It is missing inside, unless its path is too long there as well.
    let mut told = noted();
    told.extend(report.mismatches.iter().map(ToString::to_string));
    assert_eq!((report.counts.files, told.len()), (fit as u64, 1));
    assert!(told[0].contains(&long_name(fit)), "{told:?}");

    // Inside it is no deeper than a path, outside below a longer one it is.
    let below = dir.path().join(long_name(99));
    fs::create_dir(&below).unwrap();
    let got = tree::get(&fs, "/t", &below.join("t"), &options).unwrap();
    assert_eq!((got.dirs, got.files + got.failed), (fit as u64, fit as u64), "all are got or named");
    let told = noted();
    assert_eq!(told.len() as u64, got.failed);
    assert!(told.iter().any(|line| line.contains(&long_name(fit - 1))), "{told:?}");
    assert!(told.iter().all(|line| line.contains("the path longer than 4095")), "{told:?}");
    // A name that is being made is longer than the one that it gets.
    assert!(got.failed <= 2, "{told:?}");
}

#[test]
fn a_run_that_is_called_off_leaves_nothing_unfinished_and_is_continued() {
    let (world, dir) = (World::new(2), TempDir::new("called-off"));
    let fs = world.mount();
    let (src, out) = (dir.path().join("src"), dir.path().join("out"));
    make_tree(&src);
    fs::write(src.join("large"), vec![7; 6 << 20]).unwrap();
    let objects = |fs: &dolmen_dfs::Dfs| fs.check(false).unwrap();
    // Within the largest file: then it is under way, whatever else is.
    let stop = AtomicBool::new(false);
    let within = |counts: tree::Counts| stop.store(counts.bytes > 2 << 20, Ordering::Relaxed);
    let canceling =
        || Options { threads: 1, resume: false, on_progress: Some(&within), stop: Some(&stop), ..options() };
    assert_eq!(tree::put(&src, &fs, "/t", &canceling()).unwrap_err(), Error::Canceled);
    let report = objects(&fs);
    assert!(report.is_clean() && report.files < 43, "{report:?}");
    stop.store(false, Ordering::Relaxed);
    put_until_equal(&src, &fs);

    assert_eq!(tree::get(&fs, "/t", &out, &canceling()).unwrap_err(), Error::Canceled);
    let left = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.map(|name| name.into_string().unwrap()).all(|name| !name.ends_with(".unfinished")));
    stop.store(false, Ordering::Relaxed);
    assert_eq!(tree::verify(&src, &fs, "/t", &canceling()).unwrap_err(), Error::Canceled);
    // What is removed has no bytes.
    let some = |counts: tree::Counts| stop.store(counts.files > 5, Ordering::Relaxed);
    stop.store(false, Ordering::Relaxed);
    let canceling = Options { on_progress: Some(&some), ..canceling() };
    assert_eq!(tree::remove(&fs, "/t", &canceling).unwrap_err(), Error::Canceled);
    let left = tree::du(&fs, "/t", false, &options()).unwrap();
    assert!(left.files > 0 && left.files < 43, "{left:?}");
    put_until_equal(&src, &fs);
    assert!(objects(&fs).is_clean());
}

fn rustix_dir(path: &Path) -> rustix::fd::OwnedFd {
    rustix::fs::open(path, OFlags::DIRECTORY, Mode::empty()).unwrap()
}

/// Puts a tree, after which nothing differs and nothing is left to put.
fn put_until_equal(outside: &Path, fs: &dolmen_dfs::Dfs) {
    tree::put(outside, fs, "/t", &options()).unwrap();
    assert_eq!(tree::verify(outside, fs, "/t", &options()).unwrap().mismatches, []);
    let again = tree::put(outside, fs, "/t", &options()).unwrap();
    assert_eq!(again.files, 0, "nothing is left to do");
}

#[test]
fn names_that_share_a_file_outside_share_one_inside_and_no_others_do() {
    let (world, dir) = (World::new(2), TempDir::new("parted"));
    let fs = world.mount();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("a"), b"one").unwrap();
    ["b", "c", "d"].iter().for_each(|name| fs::hard_link(at("a"), at(name)).unwrap());
    put_until_equal(dir.path(), &fs);
    assert_eq!(fs.lstat("/t/d").unwrap().links, 4);
    // One is a file of its own now, with other contents.
    fs::remove_file(at("b")).unwrap();
    fs::write(at("b"), b"different").unwrap();
    put_until_equal(dir.path(), &fs);
    assert_eq!((cat(&fs, "/t/a"), cat(&fs, "/t/b")), (b"one".to_vec(), b"different".to_vec()));
    // Two and two, of the same size and time.
    let time = fs::metadata(at("a")).unwrap().modified().unwrap();
    fs::remove_file(at("c")).unwrap();
    fs::remove_file(at("d")).unwrap();
    fs::write(at("c"), b"two").unwrap();
    fs::File::open(at("c")).unwrap().set_modified(time).unwrap();
    fs::hard_link(at("c"), at("d")).unwrap();
    fs::hard_link(at("a"), at("e")).unwrap();
    tree::put(dir.path(), &fs, "/t", &Options { resume: false, ..options() }).unwrap();
    put_until_equal(dir.path(), &fs);
    assert_ne!(fs.lstat("/t/a").unwrap().oid, fs.lstat("/t/c").unwrap().oid);
    // One name is put alone.
    fs::write(dir.path().join("e"), b"new").unwrap();
    tree::put(&dir.path().join("b"), &fs, "/t/e", &options()).unwrap();
    assert_eq!((cat(&fs, "/t/e"), cat(&fs, "/t/a")), (b"different".to_vec(), b"one".to_vec()));
    assert!(fs.check(false).unwrap().is_clean());
}

#[test]
fn a_file_that_cannot_be_read_replaces_nothing() {
    let world = World::new(1);
    let fs = world.mount();
    put(&fs, "/kept", b"old").close().unwrap();
    // A file that may only be written, also by root.
    let unreadable = Path::new("/proc/sys/vm/drop_caches");
    for resume in [true, false] {
        let error = tree::put(unreadable, &fs, "/kept", &Options { resume, ..options() }).unwrap_err();
        assert!(matches!(error, Error::Local { .. }), "{error}");
        assert_eq!(cat(&fs, "/kept"), b"old");
        assert_eq!(fs.names().unwrap(), [b"kept"]);
    }
}

#[test]
fn a_file_gets_its_name_when_all_of_it_is_there() {
    let (world, dir) = (World::new(2), TempDir::new("names"));
    let fs = world.mount();
    let (old, new) = (vec![1; 3 << 20], vec![2; 4 << 20]);
    let outside = dir.path().join("f");
    for size in [3 << 20, 100] {
        put(&fs, "/old", &old[..size]).close().unwrap();
        fs::write(&outside, &new[..size + 1]).unwrap();
        for name in ["/old", "/new"] {
            let wanted = if name == "/old" { Some(old[..size].to_vec()) } else { None };
            let on_progress = |counts: tree::Counts| {
                if counts.files == 0 && size > 100 {
                    assert_eq!(fs.lstat(name).ok().map(|_| cat(&fs, name)), wanted);
                }
            };
            let options = Options { on_progress: Some(&on_progress), ..options() };
            tree::put(&outside, &fs, name, &options).unwrap();
            assert_eq!(cat(&fs, name), new[..size + 1]);
        }
        fs.unlink("/new").unwrap();
    }
    assert_eq!(fs.names().unwrap(), [b"old"]);
}

#[test]
fn what_a_dead_put_has_not_finished_is_removed_by_the_next_and_never_put_itself() {
    let (world, dir) = (World::new(1), TempDir::new("left"));
    let fs = world.mount();
    make_tree(dir.path());
    tree::put(dir.path(), &fs, "/t", &options()).unwrap();
    let left = "sub/.dolmen-1-2.unfinished";
    put(&fs, &format!("/t/{left}"), b"half").close().unwrap();
    fs::write(dir.path().join(left), b"of a get").unwrap();
    let skipped = Mutex::new(Vec::new());
    let on_skipped = |path: &Path, why| skipped.lock().unwrap().push((path.to_owned(), why));
    let options = Options { on_skipped: Some(&on_skipped), ..options() };
    tree::put(dir.path(), &fs, "/t", &options).unwrap();
    assert_eq!(fs.lstat(format!("/t/{left}")).unwrap_err(), Error::NotFound);
    assert_eq!(*skipped.lock().unwrap(), [(dir.path().join(left), tree::Skipped::Unfinished)]);
    // Large files clear the directory that they go to, also alone.
    put(&fs, "/.dolmen-3-4.unfinished", b"half").close().unwrap();
    tree::put(&dir.path().join("sparse"), &fs, "/sparse", &options).unwrap();
    assert_eq!(fs.names().unwrap(), [&b"sparse"[..], b"t"]);
}

#[test]
fn a_copy_does_not_leave_the_tree_by_a_symbolic_link() {
    let (world, dir) = (World::new(1), TempDir::new("leave"));
    let fs = world.mount();
    let (from, to, elsewhere) =
        (dir.path().join("from"), dir.path().join("to"), dir.path().join("elsewhere"));
    fs::create_dir_all(from.join("d")).unwrap();
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(from.join("d/f"), b"f").unwrap();
    fs.mkdir("/t", 0o755).unwrap();
    fs.mkdir("/elsewhere", 0o755).unwrap();
    fs.symlink("/elsewhere", "/t/d").unwrap();
    let error = tree::put(&from, &fs, "/t", &options()).unwrap_err().to_string();
    assert_eq!(error, "/t/d: a symbolic link has this name, and a directory does not replace it");
    assert_eq!(fs.open_dir("/elsewhere").unwrap().names().unwrap(), Vec::<Vec<u8>>::new());
    fs.unlink("/t/d").unwrap();
    tree::put(&from, &fs, "/t", &options()).unwrap();
    fs::create_dir(&to).unwrap();
    std::os::unix::fs::symlink(&elsewhere, to.join("d")).unwrap();
    let error = tree::get(&fs, "/t", &to, &options()).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "{}: a symbolic link has this name, and a directory does not replace it",
            to.join("d").display()
        )
    );
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    // The one that is named may be a link.
    let named = dir.path().join("named");
    std::os::unix::fs::symlink(&elsewhere, &named).unwrap();
    tree::get(&fs, "/t", &named, &options()).unwrap();
    assert_eq!(fs::read(elsewhere.join("d/f")).unwrap(), b"f");
}

#[test]
fn a_program_does_not_get_the_rights_of_another_owner() {
    let (world, dir) = (World::new(1), TempDir::new("owner-rights"));
    let fs = world.mount();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, b"program").unwrap();
    fs::set_permissions(&from, fs::Permissions::from_mode(0o6755)).unwrap();
    let ours = fs::metadata(&from).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    // Stored with its owner, who is somebody else than the one who gets it.
    tree::put(&from, &fs, "/p", &Options { owner: true, ..options() }).unwrap();
    assert_eq!(fs.lstat("/p").unwrap().permissions, 0o6755);
    fs.chown("/p", Some(ours.uid() + 1234), Some(ours.gid()), Follow::No).unwrap();
    fs.chmod("/p", 0o6755).unwrap();
    for _ in 0..2 {
        tree::get(&fs, "/p", &to, &options()).unwrap();
        assert_eq!(mode(&to), 0o755);
    }
    assert_eq!(tree::verify(&to, &fs, "/p", &options()).unwrap().mismatches, []);
    // Its own it keeps.
    fs.chown("/p", Some(ours.uid()), Some(ours.gid()), Follow::No).unwrap();
    fs.chmod("/p", 0o6755).unwrap();
    tree::get(&fs, "/p", &to, &options()).unwrap();
    assert_eq!(mode(&to), 0o6755);
    // The mount's owner is another one.
    let options = Options { resume: false, ..options() };
    let others = dolmen_dfs::MountOptions { uid: ours.uid() + 1, gid: ours.gid(), ..world.options() };
    drop(fs);
    let fs = dolmen_dfs::Dfs::mount(&world.container, &others).unwrap();
    tree::put(&from, &fs, "/q", &options).unwrap();
    assert_eq!(fs.lstat("/q").unwrap().permissions, 0o755);
    assert_eq!(tree::verify(&from, &fs, "/q", &options).unwrap().mismatches, []);
}

#[test]
fn a_get_that_is_under_way_is_private_and_one_that_died_is_cleared() {
    let (world, dir) = (World::new(1), TempDir::new("cleared"));
    let fs = world.mount();
    fs.mkdir("/t", 0o755).unwrap();
    put(&fs, "/t/f", &[7; 5000]).close().unwrap();
    put(&fs, "/t/.dolmen-9-9.unfinished", b"of a put").close().unwrap();
    let to = dir.path().join("to");
    fs::create_dir(&to).unwrap();
    fs::write(to.join(".dolmen-1-1.unfinished"), b"of a dead get").unwrap();
    let alive = fs::File::create(to.join(".dolmen-1-2.unfinished")).unwrap();
    rustix::fs::flock(&alive, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let modes = Mutex::new(Vec::new());
    let names = || {
        let mut names: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let on_progress = |counts: tree::Counts| {
        if counts.bytes > 0 && counts.files == 0 {
            for name in names().iter().filter(|name| *name != ".dolmen-1-2.unfinished") {
                modes.lock().unwrap().push(fs::metadata(to.join(name)).unwrap().mode() & 0o7777);
            }
        }
    };
    tree::get(&fs, "/t", &to, &Options { on_progress: Some(&on_progress), ..options() }).unwrap();
    assert_eq!(*modes.lock().unwrap(), [0o600]);
    assert_eq!(names(), [".dolmen-1-2.unfinished", "f"]);
    drop(alive);
    tree::get(&fs, "/t/f", &to.join("g"), &options()).unwrap();
    assert_eq!(names(), ["f", "g"]);
}

#[test]
fn a_hole_is_not_read_to_its_end() {
    let (world, dir) = (World::new(1), TempDir::new("hole"));
    let fs = world.mount();
    let file = put(&fs, "/holes", b"begin");
    let size = 1 << 42;
    file.write_at(size - 3, b"end").unwrap();
    file.close().unwrap();
    let to = dir.path().join("holes");
    let counts = tree::get(&fs, "/holes", &to, &options()).unwrap();
    assert_eq!(fs::metadata(&to).unwrap().len(), size);
    assert!(counts.bytes < 16 << 20, "{counts:?}");
    let mut end = [0; 4];
    fs::File::open(&to).unwrap().read_exact_at(&mut end, size - 4).unwrap();
    assert_eq!(&end, b"\0end");
    let report = tree::verify(&to, &fs, "/holes", &options()).unwrap();
    assert_eq!(report.mismatches, []);
    assert!(report.counts.bytes < 256 << 20, "{:?}", report.counts);
    let outside = fs::OpenOptions::new().write(true).open(&to).unwrap();
    outside.write_all_at(b"x", size / 2).unwrap();
    let report = tree::verify(&to, &fs, "/holes", &options()).unwrap();
    let differs = Difference::Content { offset: size / 2 };
    assert!(report.mismatches.iter().any(|mismatch| mismatch.difference == differs), "{report:?}");
}

#[test]
fn a_file_that_changes_while_it_is_put_is_stored_as_it_was_at_some_time_or_not_at_all() {
    let (world, dir) = (World::new(2), TempDir::new("changing"));
    let fs = world.mount();
    let from = dir.path().join("from");
    fs::create_dir(&from).unwrap();
    let outside = from.join("f");
    for size in [3 << 20, 100] {
        for changes in [1, u32::MAX] {
            put(&fs, "/f", b"old").close().unwrap();
            fs::write(&outside, vec![1; size]).unwrap();
            let left = Mutex::new(changes);
            // Between a block that was read and the next one, or the end.
            let on_progress = |counts: tree::Counts| {
                let mut left = left.lock().unwrap();
                if counts.bytes > 0 && *left > 0 {
                    *left -= 1;
                    let file = fs::OpenOptions::new().write(true).open(&outside).unwrap();
                    file.write_all_at(&vec![2; size], 0).unwrap();
                }
            };
            let failed = Mutex::new(Vec::new());
            let on_failure = |error| failed.lock().unwrap().push(error);
            let options = Options {
                threads: 1,
                on_progress: Some(&on_progress),
                on_failure: Some(&on_failure),
                ..Options::default()
            };
            let counts = tree::put(&from, &fs, "/", &options).unwrap();
            if changes == 1 {
                assert_eq!((*left.lock().unwrap(), counts.files, counts.failed), (0, 1, 0));
                assert_eq!(cat(&fs, "/f"), vec![2; size]);
            } else {
                assert_eq!((counts.files, counts.failed), (0, 1));
                assert_eq!(*failed.lock().unwrap(), [Error::Changed { path: outside.clone() }]);
                assert_eq!(cat(&fs, "/f"), b"old");
                let error = tree::put(&outside, &fs, "/f", &options).unwrap_err();
                assert_eq!(error, Error::Changed { path: outside.clone() });
            }
            assert_eq!(fs.names().unwrap(), [b"f"], "nothing unfinished is left");
        }
    }
}

#[test]
fn further_names_of_a_file_that_cannot_be_got_stay_as_they_were() {
    let names = ["a", "b", "c"];
    let mut failed = Vec::new();
    for blocked in names {
        let (world, dir) = (World::new(1), TempDir::new("blocked"));
        let fs = world.mount();
        fs.mkdir("/t", 0o755).unwrap();
        put(&fs, "/t/a", b"stored").close().unwrap();
        ["/t/b", "/t/c"].iter().for_each(|name| fs.link("/t/a", &fs, name).unwrap());
        for name in names {
            fs::write(dir.path().join(name), b"old").unwrap();
        }
        fs::remove_file(dir.path().join(blocked)).unwrap();
        fs::create_dir(dir.path().join(blocked)).unwrap();
        let count = |_: Error| {};
        let options = Options { on_failure: Some(&count), ..options() };
        let counts = tree::get(&fs, "/t", dir.path(), &options).unwrap();
        // One that is got by a further name is the stored one; else all names are as they were.
        let wanted = if counts.failed == 3 { "old" } else { "stored" };
        for name in names.iter().filter(|name| **name != blocked) {
            assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), wanted, "{counts:?}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "nothing unfinished is left");
        failed.push(counts.failed);
    }
    failed.sort_unstable();
    assert_eq!(failed, [1, 1, 3], "one of the three is the first name");
}

#[test]
fn a_link_outside_is_replaced_at_once_and_what_a_dead_get_left_of_one_is_removed() {
    let (world, dir) = (World::new(1), TempDir::new("relinked"));
    let fs = world.mount();
    fs.mkdir("/t", 0o755).unwrap();
    put(&fs, "/t/f", b"stored").close().unwrap();
    fs.link("/t/f", &fs, "/t/g").unwrap();
    fs.symlink("new", "/t/l").unwrap();
    std::os::unix::fs::symlink("old", dir.path().join("l")).unwrap();
    fs::write(dir.path().join("g"), b"old").unwrap();
    std::os::unix::fs::symlink("new", dir.path().join(".dolmen-1-1.unfinished")).unwrap();
    for _ in 0..2 {
        tree::get(&fs, "/t", dir.path(), &options()).unwrap();
        assert_eq!(tree::verify(dir.path(), &fs, "/t", &options()).unwrap().mismatches, []);
        assert_eq!(fs::read_link(dir.path().join("l")).unwrap(), Path::new("new"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "nothing unfinished is left");
    }
}

#[test]
fn an_attribute_that_finds_no_room_outside_is_left_out_and_ends_no_get() {
    let (world, dir) = (World::new(1), TempDir::new("room"));
    let fs = world.mount();
    fs.mkdir("/t", 0o755).unwrap();
    for name in ["/t/f", "/t/g"] {
        put(&fs, name, b"stored").close().unwrap();
        fs.set_xattr(name, "user.large", vec![7; 65_536], XattrCond::Any, Follow::No).unwrap();
        fs.set_xattr(name, "user.small", b"v", XattrCond::Any, Follow::No).unwrap();
    }
    let probe = dir.path().join("probe");
    fs::write(&probe, b"").unwrap();
    let large = vec![7; 65_536];
    let has_room =
        rustix::fs::setxattr(&probe, "user.large", &large, rustix::fs::XattrFlags::empty()).is_ok();
    let counts = tree::get(&fs, "/t", &dir.path().join("to"), &options()).unwrap();
    assert_eq!((counts.files, counts.skipped), (2, if has_room { 0 } else { 2 }));
    for name in ["f", "g"] {
        let mut value = [0; 8];
        let path = dir.path().join("to").join(name);
        assert_eq!(rustix::fs::getxattr(&path, "user.small", &mut value[..]).unwrap(), 1);
    }
}

#[test]
fn names_that_share_a_file_on_one_side_only_differ_and_a_get_parts_them() {
    let (world, dir) = (World::new(2), TempDir::new("groups"));
    let fs = world.mount();
    let at = |name: &str| dir.path().join(name);
    let names = ["a", "b", "c", "d"];
    fs.mkdir("/t", 0o755).unwrap();
    let time = Time { s: 1_000_000_000, ns: 5 };
    for (first, other) in [("a", "b"), ("c", "d")] {
        // The same bytes: two files outside of one size and time are for the taking, and threads of a get race for them.
        put(&fs, &format!("/t/{first}"), b"a").close().unwrap();
        fs.set_mtime(format!("/t/{first}"), SetTime::To(time), Follow::No).unwrap();
        fs.link(format!("/t/{first}"), &fs, format!("/t/{other}")).unwrap();
    }
    let differing = || {
        let report = tree::verify(dir.path(), &fs, "/t", &options()).unwrap();
        report.mismatches.iter().filter(|found| found.difference == Difference::Links).count()
    };
    tree::get(&fs, "/t", dir.path(), &options()).unwrap();
    assert_eq!(differing(), 0);
    // The same numbers of names, in other pairs.
    names.iter().for_each(|name| fs::remove_file(at(name)).unwrap());
    fs::write(at("a"), b"a").unwrap();
    fs::write(at("b"), b"a").unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 5);
    for (first, other) in [("a", "c"), ("b", "d")] {
        fs::File::open(at(first)).unwrap().set_modified(old).unwrap();
        fs::hard_link(at(first), at(other)).unwrap();
    }
    assert!(differing() > 0);
    // The first names are there with size and time, but share their file with others than inside.
    tree::get(&fs, "/t", dir.path(), &options()).unwrap();
    assert_eq!(tree::verify(dir.path(), &fs, "/t", &options()).unwrap().mismatches, []);
    // All names outside lie in the tree, inside there is one more elsewhere.
    fs.link("/t/a", &fs, "/elsewhere").unwrap();
    assert_eq!(differing(), 1);
    fs.unlink("/elsewhere").unwrap();
    // Outside there is one more elsewhere, which a put cannot know.
    fs::hard_link(at("a"), dir.path().with_extension("more")).unwrap();
    assert_eq!(differing(), 0);
    fs::remove_file(dir.path().with_extension("more")).unwrap();
}

#[test]
fn a_tree_is_removed_but_for_what_may_not_be_and_the_directories_above_it() {
    let (world, dir) = (World::new(3), TempDir::new("remove"));
    let fs = world.mount();
    make_tree(dir.path());
    let put = tree::put(dir.path(), &fs, "/t", &options()).unwrap();
    let gone = tree::remove(&fs, "/t", &options()).unwrap();
    assert_eq!((gone.dirs, gone.files), (put.dirs, put.files + put.symlinks + put.links));
    assert!(fs.names().unwrap().is_empty());
    assert!(fs.check(false).unwrap().is_clean());

    for path in ["/t", "/t/free", "/t/above", "/t/above/locked"] {
        fs.mkdir(path, 0o777).unwrap();
        put_free(&fs, path);
    }
    fs.chmod("/t/above/locked", 0o555).unwrap();
    let user = fs.as_user(Cred { uid: 7, gid: 7, groups: Vec::new(), umask: 0 });
    let failed = Mutex::new(Vec::new());
    let on_failure = |error: Error| failed.lock().unwrap().push(error.to_string());
    let counts = tree::remove(&user, "/t", &Options { on_failure: Some(&on_failure), ..options() }).unwrap();
    assert_eq!(*failed.lock().unwrap(), ["/t/above/locked/f: permission denied"]);
    assert_eq!((counts.dirs, counts.files, counts.failed), (1, 3, 1));
    assert_eq!(cat(&fs, "/t/above/locked/f"), b"free");
    let error = tree::remove(&user, "/t", &options()).unwrap_err();
    assert_eq!(error.to_string(), "/t/above/locked/f: permission denied");
}

fn put_free(fs: &dolmen_dfs::Dfs, dir: &str) {
    put(fs, &format!("{dir}/f"), b"free").close().unwrap();
}

#[test]
fn an_attribute_that_a_get_leaves_out_is_named_with_its_file_and_the_reason() {
    let (world, dir) = (World::new(1), TempDir::new("left-out"));
    let fs = world.mount();
    put(&fs, "/f", b"data").close().unwrap();
    fs.set_xattr("/f", "odd.name", b"1", XattrCond::Any, Follow::Yes).unwrap();
    let skipped = Mutex::new(Vec::new());
    let on_skipped = |path: &Path, why| skipped.lock().unwrap().push((path.to_owned(), why));
    let to = dir.path().join("f");
    let counts = tree::get(&fs, "/f", &to, &Options { on_skipped: Some(&on_skipped), ..options() }).unwrap();
    assert_eq!((counts.files, counts.skipped), (1, 1));
    let why = tree::Skipped::Attribute { name: (*b"odd.name").into(), errno: 95 };
    assert_eq!(*skipped.lock().unwrap(), [(to, why)]);
}
