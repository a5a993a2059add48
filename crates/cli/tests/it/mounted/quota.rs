//! Limits of a container that is mounted.

use super::{Mounted, shell};
use std::fs;
use std::os::unix::fs::FileExt;

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
        mounted.place.ok(&["cont", "quota", "sys/p", "c", "--bytes", "none", "--files", "none"]);
        fs::write(mounted.path("g"), vec![5; 2 << 20]).unwrap();
        mounted.finish();
    }
}
