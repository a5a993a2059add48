//! Who may use a pool: the owner of its directory, also after the superuser has, and readers where nothing can be written.

use crate::common::{TempDir, make_cont, open_cont, read, small, write};
use dolmen_local::{OpenOptions, create, destroy, open};
use rustix::process::{Uid, geteuid};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

/// Nobody: a user that the superuser can become.
const NOBODY: u32 = 65_534;

/// Everything below a directory, itself first.
fn all_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    if dir.is_dir() && !dir.is_symlink() {
        for entry in std::fs::read_dir(dir).unwrap() {
            found.extend(all_below(&entry.unwrap().path()));
        }
    }
    found
}

/// Makes everything below a directory nobody's, if this is the superuser; else it stays ours.
fn give_away(dir: &Path) -> u32 {
    let owner = if geteuid().is_root() { NOBODY } else { geteuid().as_raw() };
    for path in all_below(dir) {
        chown(path, Some(owner), None).unwrap();
    }
    owner
}

#[test]
fn what_the_superuser_writes_stays_the_owners() {
    let temp = TempDir::new("owners");
    let dir = temp.join("p");
    create(&dir, &small(2)).unwrap();
    let owner = give_away(&dir);
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    let cont = make_cont(&pool, "c");
    for dkey in 0..300 {
        write(&pool, 1, &cont, dkey, &[7; 9000]);
    }
    pool.close().unwrap();
    for path in all_below(&dir) {
        assert_eq!(path.metadata().unwrap().uid(), owner, "{}", path.display());
    }
}

#[test]
fn a_pool_in_which_nothing_can_be_written_is_read() {
    let temp = TempDir::for_all("archive");
    let dir = temp.join("p");
    create(&dir, &small(2)).unwrap();
    let pool = open(&dir, &OpenOptions::default()).unwrap();
    let cont = make_cont(&pool, "c");
    write(&pool, 1, &cont, 5, &[7; 9000]);
    pool.close().unwrap();
    let owner = give_away(&dir);
    let allow = |dir_mode, file_mode| {
        for path in all_below(&dir) {
            let mode = if path.is_dir() { dir_mode } else { file_mode };
            set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    };
    allow(0o555, 0o444);
    let reader = dolmen_env::spawn("reader", {
        let dir = dir.clone();
        move || {
            // Of this thread, and of those that it starts: the superuser may write anywhere.
            rustix::thread::set_thread_uid(Uid::from_raw(owner)).unwrap();
            let to_read = OpenOptions { read_only: true, ..OpenOptions::default() };
            let pool = open(&dir, &to_read).unwrap();
            assert!(open(&dir, &to_read).unwrap_err().owner_pid().is_some(), "it is owned");
            let value = read(&pool, 1, &open_cont(&pool, "c"), 5);
            pool.close().unwrap();
            let refused = open(&dir, &OpenOptions::default()).unwrap_err().to_string();
            (value, refused)
        }
    });
    let (value, refused) = reader.unwrap().join().unwrap();
    allow(0o755, 0o644);
    assert_eq!(value, [7; 9000]);
    assert!(refused.to_lowercase().contains("permission denied"), "{refused}");
}

#[test]
fn a_pool_destroyed_through_a_link_is_gone_with_the_link() {
    let temp = TempDir::new("linked");
    std::fs::create_dir(temp.join("real")).unwrap();
    symlink("real", temp.join("link")).unwrap();
    create(&temp.join("link"), &small(1)).unwrap();
    destroy(&temp.join("link/")).unwrap();
    assert!(!temp.join("real").exists());
    assert!(!temp.join("link").is_symlink());
}
