//! Times of files in a mount.

use super::{Mounted, shell, wait_until};
use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;

const O_NOATIME: i32 = 0o1_000_000;

fn accessed(path: &Path) -> (i64, i64) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.atime(), found.atime_nsec())
}

fn changed(path: &Path) -> (i64, i64) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.ctime(), found.ctime_nsec())
}

#[test]
fn a_read_is_an_access_if_the_last_is_older_than_the_last_change_or_a_day() {
    let Some(mut mounted) = Mounted::served("accesses", &[]) else { return };
    mounted.mount("mnt2", &["--cache-timeout", "0"]);
    let [file, dir, link] = ["f", "d", "l"].map(|name| mounted.path(name));
    fs::write(&file, b"stone").unwrap();
    fs::create_dir(&dir).unwrap();
    symlink("f", &link).unwrap();
    let read_each = || {
        fs::read(&file).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::read_link(&link).unwrap();
        [&file, &dir, &link].map(|path| accessed(path))
    };
    shell(&mounted, "touch -h -d @1000 f d l");
    let quiet = fs::OpenOptions::new().read(true).custom_flags(O_NOATIME).open(&file).unwrap();
    assert_eq!(std::io::read_to_string(&quiet).unwrap(), "stone");
    drop(quiet);
    assert_eq!([&file, &dir, &link].map(|path| accessed(path)), [(1000, 0); 3], "nothing was accessed yet");
    let first = read_each();
    for (path, time) in [&file, &dir, &link].iter().zip(first) {
        assert!(time >= changed(path), "{}: {time:?}", path.display());
    }
    assert_eq!(read_each(), first, "that was a moment ago");
    fs::write(&file, b"menhir").unwrap();
    let second = read_each();
    assert!(second[0] > first[0], "it has changed since");
    assert_eq!(second[1..], first[1..]);
    // Others see it when it is recorded.
    shell(&mounted, "sync f");
    assert_eq!(accessed(&mounted.place.path("mnt2/f")), second[0]);
    fs::write(&file, b"dolmen").unwrap();
    let third = read_each();
    mounted.unmount();
    mounted.mount("mnt", &["--read-only"]);
    assert_eq!(read_each(), third, "nothing is accessed where nothing is written");
    mounted.finish();
}

#[test]
fn whatever_changes_a_file_or_its_attributes_moves_its_change_time() {
    let Some(mounted) = Mounted::served("changes", &[]) else { return };
    fs::write(mounted.path("f"), b"stone").unwrap();
    let mut before = changed(&mounted.path("f"));
    for change in ["chmod 600 f", "touch -d @5 f", "ln f g", "rm g", "mv f h; mv h f", "chown \"$(id -u)\" f"]
    {
        shell(&mounted, change);
        let after = changed(&mounted.path("f"));
        assert!(after > before, "{change}: {before:?}, {after:?}");
        before = after;
    }
    for change in ["echo menhir >> f", "truncate -s 3 f"] {
        // Times of contents have a grain of 4 ms.
        wait_until(change, || {
            shell(&mounted, change);
            changed(&mounted.path("f")) > before
        });
        before = changed(&mounted.path("f"));
    }
    shell(&mounted, "cat f; ls -l f");
    assert_eq!(changed(&mounted.path("f")), before, "a look changes nothing");
    mounted.finish();
}
