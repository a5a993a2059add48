//! Limits of a container that is mounted.

use super::{Mounted, can_be_others, shell};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, chown};

const EDQUOT: i32 = 122;

#[test]
fn a_mount_keeps_to_its_limits_and_tells_what_they_leave() {
    for args in [&["--cache", "off"][..], &["--cache", "data"]] {
        let Some(mounted) = Mounted::served("quota", args) else { return };
        mounted.place.ok(&["cont", "quota", "sys/p", "c", "--bytes", "1M", "--files", "4"]);
        let errno = |done: std::io::Result<()>| done.unwrap_err().raw_os_error();
        fs::write(mounted.path("a"), vec![1; 600 << 10]).unwrap();
        fs::write(mounted.path("b"), vec![2; 424 << 10]).unwrap();
        // Units of 4 KiB: all, what is left for others, files, and how many more.
        let told = || shell(&mounted, "stat -f -c '%b %a %c %d' .").trim().to_owned();
        assert_eq!(told(), "256 0 4 1", "{args:?}");
        let file = fs::OpenOptions::new().write(true).open(mounted.path("b")).unwrap();
        let more = file.write_all_at(&[3; 4096], 424 << 10).and_then(|()| file.sync_all());
        assert_eq!(errno(more), Some(EDQUOT), "{args:?}");
        drop(file);
        fs::write(mounted.path("c"), b"").unwrap();
        assert_eq!(errno(fs::create_dir(mounted.path("d"))), Some(EDQUOT));
        assert_eq!(errno(fs::write(mounted.path("c"), b"stone")), Some(EDQUOT));
        // What is removed is free at once.
        shell(&mounted, "chmod 600 a; mv c e; rm a; rm e");
        fs::write(mounted.path("f"), vec![4; 600 << 10]).unwrap();
        assert_eq!(fs::read(mounted.path("f")).unwrap(), vec![4; 600 << 10]);
        // Of a write over the end of a chunk the part that fits is told, and is there.
        let file =
            fs::OpenOptions::new().write(true).create(true).truncate(false).open(mounted.path("e")).unwrap();
        mounted.place.ok(&["cont", "quota", "sys/p", "c", "--bytes", &(2124 << 10).to_string()]);
        file.write_all_at(&vec![6; 1000 << 10], 0).unwrap();
        let count = file.write_at(&vec![7; 200 << 10], 1000 << 10).unwrap();
        let there = fs::metadata(mounted.path("e")).unwrap().len();
        assert_eq!((count, there), (24 << 10, 1024 << 10), "{args:?}");
        assert_eq!(errno(file.write_all_at(&vec![8; 200 << 10], there)), Some(EDQUOT), "{args:?}");
        drop(file);
        fs::remove_file(mounted.path("e")).unwrap();
        mounted.place.ok(&["cont", "quota", "sys/p", "c", "--bytes", "none", "--files", "none"]);
        fs::write(mounted.path("g"), vec![5; 2 << 20]).unwrap();
        mounted.finish();
    }
}

#[test]
fn who_is_given_a_file_in_a_mount_has_all_of_it_or_nothing_is_done() {
    const USER: u32 = 4_200_042;
    if !can_be_others() {
        return;
    }
    for args in [&["--cache", "off"][..], &["--cache", "data"]] {
        let Some(mounted) = Mounted::served("given", args) else { return };
        let errno = |done: std::io::Result<()>| done.unwrap_err().raw_os_error();
        let give = |name: &str, uid: u32| chown(mounted.path(name), Some(uid), None);
        let used = |uid: u32| {
            // What nobody sees counts until it is freed.
            mounted.place.ok(&["cont", "aggregate", "sys/p", "c"]);
            let told = mounted.place.json(&["cont", "quota", "sys/p", "c", "--user", &uid.to_string()]);
            (told["bytes"]["used"].as_u64().unwrap(), told["files"]["used"].as_u64().unwrap())
        };
        fs::write(mounted.path("large"), vec![1; 3 << 20]).unwrap();
        fs::write(mounted.path("small"), vec![2; 5000]).unwrap();
        let limit = ((3 << 20) + 4999).to_string();
        let user = USER.to_string();
        mounted.place.ok(&["cont", "quota", "sys/p", "c", "--user", &user, "--bytes", &limit]);
        give("large", USER).unwrap();
        assert_eq!(used(USER), (3 << 20, 1), "{args:?}");
        assert_eq!(errno(give("small", USER)), Some(EDQUOT), "{args:?}");
        assert_eq!(fs::metadata(mounted.path("small")).unwrap().uid(), 0);
        assert_eq!((used(USER), used(0)), ((3 << 20, 1), (5000, 2)), "and the root");
        // Whoever writes it, at the limit of whose it is.
        let file = fs::OpenOptions::new().append(true).open(mounted.path("large")).unwrap();
        let more = file.write_all_at(&[3; 5000], 3 << 20).and_then(|()| file.sync_all());
        assert_eq!(errno(more), Some(EDQUOT), "{args:?}");
        drop(file);
        fs::remove_file(mounted.path("large")).unwrap();
        shell(&mounted, &format!("chown {USER}:7 small"));
        assert_eq!((used(USER), used(0)), ((5000, 1), (0, 1)), "{args:?}");
        give("small", 0).unwrap();
        assert_eq!((used(USER), used(0)), ((0, 0), (5000, 2)), "{args:?}");
        mounted.finish();
    }
}
