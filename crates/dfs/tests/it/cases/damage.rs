//! Damaged entries, and names that no entry can have: they hide nothing else, and are removed or replaced.

use super::common::{TempDir, World, cat, damage_entry, entry_record, put, put_entry};
use dolmen_client::At;
use dolmen_dfs::tree::{self, Options};
use dolmen_dfs::{Cookie, Cred, Dfs, Error, FileKind, OpenOptions, RenameMode, layout};
use std::sync::Mutex;

/// A directory `/d` with files `a` and `c`, and `bad` whose record is damaged.
fn damaged(world: &World) -> Dfs {
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    for name in ["a", "bad", "c"] {
        put(&fs, &format!("/d/{name}"), name.as_bytes()).close().unwrap();
    }
    damage_entry(world, fs.open_dir("/d").unwrap().oid(), b"bad");
    fs
}

/// Gets `/d` to `to`; what failed.
fn get(fs: &Dfs, to: &std::path::Path) -> (tree::Counts, Vec<String>) {
    let failures = Mutex::new(Vec::new());
    let fail = |error: Error| failures.lock().unwrap().push(error.to_string());
    let options = Options { threads: 2, on_failure: Some(&fail), ..Options::default() };
    let counts = tree::get(fs, "/d", to, &options).unwrap();
    (counts, failures.into_inner().unwrap())
}

#[test]
fn a_damaged_entry_hides_no_other() {
    let (world, dir) = (World::new(2), TempDir::new("damaged"));
    let fs = damaged(&world);
    let bad = fs.lstat("/d/bad").unwrap_err();
    assert!(bad.is_damage(), "{bad}");
    let d = fs.open_dir("/d").unwrap();
    assert_eq!(d.names().unwrap(), [&b"a"[..], b"bad", b"c"]);
    let mut listed = d.list_plus(&mut Cookie::default(), 100).unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let stats: Vec<_> = listed.into_iter().map(|entry| entry.stat).collect();
    assert_eq!(stats, [fs.lstat("/d/a"), Err(bad.clone()), fs.lstat("/d/c")]);
    let mut kinds = d.list_kinds(&mut Cookie::default(), 100).unwrap();
    kinds.sort_by(|a, b| a.0.cmp(&b.0));
    let kinds: Vec<_> = kinds.into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds, [Ok(FileKind::File), Err(bad.clone()), Ok(FileKind::File)]);
    let (counts, failures) = get(&fs, dir.path());
    assert_eq!((counts.files, counts.failed), (2, 1));
    assert_eq!(failures, [format!("/d/bad: {bad}")]);
    assert_eq!(std::fs::read(dir.path().join("c")).unwrap(), b"c");
    std::fs::write(dir.path().join("bad"), b"good").unwrap();
    let count = |_: Error| {};
    let options = Options { on_failure: Some(&count), ..Options::default() };
    let usage = tree::du(&fs, "/d", true, &options).unwrap();
    assert_eq!((usage.dirs, usage.files, usage.size_bytes, usage.data_bytes, usage.failed), (1, 2, 2, 2, 1));
    assert_eq!(tree::digest(&fs, "/d", &options).unwrap().len(), 2);
    assert!(tree::du(&fs, "/d", false, &Options::default()).unwrap_err().is_damage());
    let report = tree::verify(dir.path(), &fs, "/d", &options).unwrap();
    assert_eq!((report.counts.files, report.counts.failed), (2, 1));
    // Without the record its owner is unknown: in a sticky directory only who owns that removes it.
    fs.chmod("/d", 0o1777).unwrap();
    let other = fs.as_user(Cred { uid: 7, gid: 7, groups: vec![], umask: 0 });
    assert_eq!(other.unlink("/d/bad"), Err(Error::NotPermitted));
    // A good copy replaces it.
    tree::put(dir.path(), &fs, "/d", &Options::default()).unwrap();
    assert_eq!(cat(&fs, "/d/bad"), b"good");
    assert_eq!(tree::verify(dir.path(), &fs, "/d", &Options::default()).unwrap().mismatches, []);
}

#[test]
fn a_damaged_entry_is_removed_or_replaced_and_what_it_named_is_left_to_a_check() {
    for (world, shared) in [(World::new(2), false), (World::new(2), true)] {
        let fs = damaged(&world);
        let objects = world.object_count();
        let bad_oid = fs.open_dir("/d").unwrap().oid();
        let fs = if shared { world.mount_shared() } else { fs };
        let rename = |old: &str, mode| fs.rename(old, &fs, "/d/bad", mode);
        assert_eq!(rename("/d/a", RenameMode::NoReplace), Err(Error::Exists));
        assert!(rename("/d/a", RenameMode::Exchange).unwrap_err().is_damage());
        rename("/d/a", RenameMode::Replace).unwrap();
        assert_eq!(cat(&fs, "/d/bad"), b"a");
        damage_entry(&world, bad_oid, b"bad");
        assert!(fs.rmdir("/d").unwrap_err() == Error::NotEmpty);
        fs.unlink("/d/bad").unwrap();
        assert_eq!(fs.lstat("/d/bad").unwrap_err(), Error::NotFound);
        assert_eq!(fs.open_dir("/d").unwrap().names().unwrap(), [b"c"]);
        assert_eq!(fs.open_dir("/d").unwrap().discard("c"), Err(Error::Exists));
        assert_eq!(fs.open_dir("/d").unwrap().discard("none"), Err(Error::NotFound));
        assert_eq!(world.object_count(), objects, "nothing but names went");
        let report = world.mount().check(true).unwrap();
        assert_eq!((report.leaked.len(), report.repaired), (2, true));
        assert!(world.mount().check(false).unwrap().is_clean());
    }
}

#[test]
fn a_name_of_a_file_whose_companion_is_damaged_is_removed_or_replaced() {
    let world = World::new(2);
    let fs = world.mount();
    let file = put(&fs, "/a", b"x");
    fs.link("/a", &fs, "/b").unwrap();
    fs.link("/a", &fs, "/c").unwrap();
    let oid = file.oid();
    file.close().unwrap();
    let companion = world.container.object(layout::companion_oid(oid)).unwrap();
    companion.put(At::Latest, layout::DKEY_COMPANION, layout::AKEY_LINKS, b"bad").unwrap();
    assert!(fs.lstat("/a").unwrap_err().is_damage());
    put(&fs, "/new", b"new").close().unwrap();
    fs.rename("/new", &fs, "/a", RenameMode::Replace).unwrap();
    fs.unlink("/b").unwrap();
    assert_eq!(cat(&fs, "/a"), b"new");
    companion.punch(At::Latest, dolmen_types::Cond::NONE).unwrap();
    let listed = fs.list_plus(&mut Cookie::default(), 10).unwrap();
    let lost = listed.iter().find(|entry| &*entry.name == b"c").unwrap();
    assert!(lost.stat.as_ref().is_err_and(Error::is_damage), "a lost companion is damage: {lost:?}");
    let report = fs.check(true).unwrap();
    assert_eq!((report.bad_links[0].found, report.bad_links[0].stored), (1, None));
    fs.unlink("/c").unwrap();
    assert_eq!(fs.check(true).unwrap().leaked, [oid]);
    assert!(fs.check(false).unwrap().is_clean());
}

#[test]
fn an_entry_whose_name_leads_elsewhere_is_neither_got_nor_followed() {
    let (world, dir) = (World::new(2), TempDir::new("slip"));
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    put(&fs, "/d/f", b"f").close().unwrap();
    put(&fs, "/pwned", b"x").close().unwrap();
    let record = entry_record(&world, fs.oid(), b"pwned");
    let d = fs.open_dir("/d").unwrap();
    let outside = dir.path().join("absolute").display().to_string();
    let names = [&b"../pwned"[..], outside.as_bytes(), b"..", b"."];
    names.iter().for_each(|name| put_entry(&world, d.oid(), name, &record));
    let to = dir.path().join("to");
    let (counts, failures) = get(&fs, &to);
    assert_eq!((counts.files, counts.failed), (1, 4), "{failures:?}");
    let there: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(there, ["to"]);
    let count = |_: Error| {};
    let options = Options { on_failure: Some(&count), ..Options::default() };
    let report = tree::verify(&to, &fs, "/d", &options).unwrap();
    assert_eq!((report.mismatches.len(), report.counts.failed), (0, 4));
    assert_eq!(d.names().unwrap(), [b"f"]);
    let (mut good, mut bad, mut cookie) = (0, Vec::new(), Cookie::default());
    while !cookie.is_end() {
        let page = d.list(&mut cookie, 2).unwrap();
        assert_eq!(page.iter().count(), page.len());
        good += page.len();
        bad.extend(page.bad().map(<[u8]>::to_vec));
    }
    assert_eq!((good, bad.len()), (1, 4));
    d.unlink("f").unwrap();
    assert_eq!(fs.rmdir("/d"), Err(Error::NotEmpty));
    bad.iter().for_each(|name| d.discard(name).unwrap());
    fs.rmdir("/d").unwrap();
    assert!(fs.open("/pwned", &OpenOptions::READ).is_ok(), "nothing outside of the directory was touched");
    assert!(fs.check(false).unwrap().is_clean());
}
