//! Listing directories while others change them.

use super::common::{World, put, small_chunks};
use dolmen_dfs::{Cookie, Dfs, Error, FileKind, FormatOptions, MountOptions, OpenOptions, What};
use dolmen_types::ObjectClass;
use std::collections::BTreeSet;

#[test]
fn a_listing_resumes_by_cookie_and_returns_each_entry_once() {
    let world = World::new(3);
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    let expected: BTreeSet<Vec<u8>> = (0..500).map(|n| format!("name-{n}").into_bytes()).collect();
    for name in &expected {
        put(&fs, &format!("/d/{}", String::from_utf8_lossy(name)), b"");
    }
    for page in [1, 7, 100, 5000] {
        let (mut found, mut cookie) = (Vec::new(), Cookie::default());
        while !cookie.is_end() {
            // As if it went to another process and back.
            cookie = Cookie::from_bytes(&cookie.to_bytes()).unwrap();
            let dir = fs.open_dir("/d").unwrap();
            let names = dir.list(&mut cookie, page).unwrap();
            assert!(names.len() <= page as usize);
            found.extend(names.iter().map(<[u8]>::to_vec));
        }
        assert_eq!(found.len(), expected.len());
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}

/// Any entry is a place to go on from, also when it is gone and others have come.
#[test]
fn a_listing_resumes_behind_any_entry_while_others_come_and_go() {
    let world = World::with(3, &small_chunks());
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    let dir = fs.open_dir("/d").unwrap();
    for n in 0..60 {
        put(&fs, &format!("/d/name-{n}"), b"");
    }
    let all: Vec<_> = dir.list(&mut Cookie::default(), 100).unwrap().iter().map(<[u8]>::to_vec).collect();
    assert_eq!(all.len(), 60);
    for (place, name) in all.iter().enumerate() {
        let mut cookie = Cookie::from_bytes(&dir.cookie_after(name).unwrap().to_bytes()).unwrap();
        if place % 3 == 0 {
            dir.unlink(name).unwrap();
            put(&fs, &format!("/d/late-{place}"), b"");
        }
        let mut rest = Vec::new();
        while !cookie.is_end() {
            rest.extend(dir.list(&mut cookie, 7).unwrap().iter().map(<[u8]>::to_vec));
        }
        rest.retain(|name| name.starts_with(b"name-"));
        assert_eq!(rest, all[place + 1..]);
    }
    assert_eq!(dir.cookie_after("").unwrap_err(), Error::Invalid(What::Name));
    assert_eq!(dir.cookie_after("n".repeat(256)).unwrap_err(), Error::NameTooLong);
}

#[test]
fn entries_that_stay_are_listed_once_while_others_come_and_go() {
    let world = World::new(2);
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    for n in 0..200 {
        put(&fs, &format!("/d/stays-{n}"), b"");
        put(&fs, &format!("/d/goes-{n}"), b"");
    }
    let dir = fs.open_dir("/d").unwrap();
    let (mut found, mut cookie, mut step) = (Vec::new(), Cookie::default(), 0);
    while !cookie.is_end() {
        found.extend(dir.list(&mut cookie, 10).unwrap().iter().map(<[u8]>::to_vec));
        for n in (step * 5..step * 5 + 5).filter(|n| *n < 200) {
            dir.unlink(format!("goes-{n}")).unwrap();
            put(&fs, &format!("/d/comes-{n}"), b"");
        }
        step += 1;
    }
    let unique: BTreeSet<_> = found.iter().cloned().collect();
    assert_eq!(unique.len(), found.len(), "nothing twice");
    assert!((0..200).all(|n| unique.contains(format!("stays-{n}").as_bytes())));
}

#[test]
fn a_listing_with_attributes_agrees_with_lstat() {
    let world = World::new(2);
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    put(&fs, "/d/file", b"12345");
    fs.symlink("file", "/d/link").unwrap();
    fs.mkdir("/d/dir", 0o700).unwrap();
    put(&fs, "/d/one", b"1");
    fs.link("/d/one", &fs, "/d/two").unwrap();
    let dir = fs.open_dir("/d").unwrap();
    let mut entries = Vec::new();
    let mut cookie = Cookie::default();
    while !cookie.is_end() {
        entries.extend(dir.list_plus(&mut cookie, 2).unwrap());
    }
    assert_eq!(entries.len(), 5);
    for entry in &entries {
        assert_eq!(entry.stat, dir.lstat(&entry.name));
    }
    let kinds = dir.list_kinds(&mut Cookie::default(), 100).unwrap();
    assert_eq!(kinds.iter().filter(|(_, kind)| *kind == Ok(FileKind::File)).count(), 3);
}

#[test]
fn names_are_listed_with_their_attributes_a_page_at_a_time() {
    let (world, watched) = World::watched();
    for atime in [false, true] {
        let fs = Dfs::mount(&world.container, &MountOptions { atime, ..world.options() }).unwrap();
        let path = format!("/d{atime}");
        fs.mkdir(&path, 0o755).unwrap();
        let dir = fs.open_dir(&path).unwrap();
        for n in 0..300 {
            dir.open(format!("f{n}"), &OpenOptions::CREATE).unwrap().write_at(0, &vec![1; n]).unwrap();
        }
        for n in 0..100 {
            dir.link(format!("f{n}"), &dir, format!("l{n}")).unwrap();
            dir.mkdir(format!("d{n}"), 0o700).unwrap();
            dir.symlink("anywhere", format!("s{n}")).unwrap();
        }
        let (mut cookie, mut all, before) = (Cookie::default(), Vec::new(), watched.round_trips());
        while !cookie.is_end() {
            all.extend(dir.list_plus(&mut cookie, 256).unwrap());
        }
        // The page; records; those that names share, and their counts; access times; sizes.
        let round_trips = watched.round_trips() - before;
        assert!(round_trips <= 3 * 6, "{round_trips} for 600 names");
        assert_eq!(all.len(), 600);
        for entry in &all {
            assert_eq!(entry.stat, dir.lstat(&entry.name));
        }
        let mut names: Vec<&[u8]> = all.iter().map(|entry| &*entry.name).collect();
        names.push(b"gone");
        let before = watched.round_trips();
        let found = dir.lookup_all(&names, true);
        assert!(watched.round_trips() - before <= 5, "{}", watched.round_trips() - before);
        for (name, (found, leased)) in names.iter().zip(&found) {
            assert!(!leased.holds(0), "nobody gives any here");
            match (found, dir.lookup(name)) {
                (Ok((obj, stat)), Ok((again, same))) => {
                    assert_eq!((obj.oid(), *stat), (again.oid(), same));
                }
                (found, again) => {
                    assert_eq!(
                        (found.as_ref().err(), again.err()),
                        (Some(&Error::NotFound), Some(Error::NotFound))
                    );
                }
            }
        }
        let before = watched.round_trips();
        let kinds = dir.list_kinds(&mut Cookie::default(), 1000).unwrap();
        assert_eq!((kinds.len(), watched.round_trips() - before), (600, 2));
    }
}

#[test]
fn empty_directories_and_bad_requests() {
    let world = World::new(1);
    let fs = world.mount();
    let mut cookie = Cookie::default();
    assert!(fs.list(&mut cookie, 10).unwrap().is_empty());
    assert!(cookie.is_end());
    assert!(fs.list(&mut cookie, 10).unwrap().is_empty());
    assert_eq!(fs.list(&mut Cookie::default(), 0).unwrap_err(), Error::Invalid(What::Range));
    let mut foreign = Cookie::from_bytes(&[1, 0, 0, 5]).unwrap();
    assert_eq!(fs.list(&mut foreign, 10).unwrap_err(), Error::Invalid(What::Cookie));
    assert_eq!(fs.names().unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn the_parts_of_a_directory_have_each_entry_once() {
    let world = World::with(3, &FormatOptions { dir_class: ObjectClass::SX, ..FormatOptions::default() });
    let fs = world.mount();
    for n in 0..200 {
        fs.mkdir(format!("/d{n}"), 0o755).unwrap();
    }
    let count = fs.part_count().unwrap();
    assert_eq!(count, 3);
    let mut all = Vec::new();
    for part in 0..count {
        let (mut cookie, before) = (Cookie::part(part), all.len());
        while !cookie.is_end() {
            let names = if part + 1 == count {
                fs.list(&mut cookie, 7).unwrap()
            } else {
                fs.list_until(part + 1, &mut cookie, 7).unwrap()
            };
            all.extend(names.iter().map(<[u8]>::to_vec));
        }
        assert!(all.len() > before, "each part has some");
    }
    assert_eq!(all.len(), 200);
    all.sort_unstable();
    assert_eq!(all, fs.names().unwrap());
    assert!(fs.list(&mut Cookie::part(3), 7).is_err());
}

#[test]
fn a_listing_begins_at_any_entry() {
    let world = World::new(1);
    let fs = world.mount();
    for n in 0..50 {
        fs.mkdir(format!("/d{n}"), 0o755).unwrap();
    }
    let listed = |mut cookie: Cookie| -> Vec<Vec<u8>> {
        fs.list(&mut cookie, 100).unwrap().iter().map(<[u8]>::to_vec).collect()
    };
    let all = listed(Cookie::default());
    for (n, name) in all.iter().enumerate() {
        assert_eq!(listed(fs.cookie_at(name).unwrap()), all[n..]);
    }
}

#[test]
fn each_name_of_a_page_has_the_leases_of_one_that_is_looked_up() {
    let (world, watched) = World::leasing();
    for atime in [false, true] {
        let options = MountOptions { atime, exact_blocks: true, ..world.options() };
        let fs = Dfs::mount(&world.container, &options).unwrap();
        let path = format!("/d{atime}");
        fs.mkdir(&path, 0o755).unwrap();
        let dir = fs.open_dir(&path).unwrap();
        let options = OpenOptions { chunk_bytes: 4096, ..OpenOptions::CREATE };
        for n in 0..20 {
            dir.open(format!("f{n}"), &options).unwrap().write_at(0, &vec![1; n * 1000]).unwrap();
            dir.mkdir(format!("d{n}"), 0o700).unwrap();
        }
        for n in 0..10 {
            dir.link(format!("f{n}"), &dir, format!("l{n}")).unwrap();
            dir.symlink("anywhere", format!("s{n}")).unwrap();
        }
        let kinds = dir.list_kinds(&mut Cookie::default(), 100).unwrap();
        let mut names: Vec<&[u8]> = kinds.iter().map(|(name, _)| &**name).collect();
        names.push(b"gone");
        for (name, (_, together)) in names.iter().zip(dir.lookup_all(&names, true)) {
            let (_, alone) = dolmen_dfs::leased(|| dir.lookup(name));
            let [together_on, alone_on] = [&together, &alone].map(|leased| watched.leased_on(leased));
            assert!(together.holds(0) && alone.holds(0) && !alone_on.is_empty());
            assert_eq!(together_on, alone_on, "{}", String::from_utf8_lossy(name));
        }
    }
}
