//! Trees of files that go through `tar` and `rsync`, each attribute of each file compared.

use super::suites::ran;
use super::{Mounted, has};
use crate::common::amount;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of the attributes, unless `MOUNT_SEED` says otherwise.
const SEED: u64 = 21;

/// Makes a tree with attributes drawn by a seed, and tells what attributes the files of a tree have.
const TREE: &str = include_str!("../../py/tree.py");

/// What the program says of a tree.
fn tree(mounted: &Mounted, words: &[&str], dir: &Path, more: &[String]) -> String {
    let script = mounted.place.path("tree.py");
    fs::write(&script, TREE).unwrap();
    ran(mounted, Command::new("python3").arg(script).args(words).arg(dir).args(more))
}

/// Compares the lines of each file; `but` is an attribute that is not kept.
fn compare(wanted: &str, found: &str, but: Option<&str>) {
    let lines = |text: &str| -> Vec<String> {
        let kept = |word: &&str| but.is_none_or(|but| !word.starts_with(but));
        text.lines().map(|line| line.split(' ').filter(kept).collect::<Vec<_>>().join(" ")).collect()
    };
    let (wanted, found) = (lines(wanted), lines(found));
    for (wanted, found) in wanted.iter().zip(&found) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.len(), wanted.len());
}

/// Sources of Rust: those of some crates of this workspace, or of all where there is time.
fn sources() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let is_long = amount("MOUNT_SECONDS", 0) > 0;
    let of_all = || fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()).collect();
    let of_some = || ["env", "fuse", "layout", "types"].map(|name| crates.join(name)).to_vec();
    let mut dirs: Vec<PathBuf> = if is_long { of_all() } else { of_some() };
    dirs.sort();
    dirs.into_iter().map(|dir| dir.to_str().unwrap().to_owned()).collect()
}

#[test]
fn sources_go_through_tar_and_rsync_with_every_attribute() {
    if !["python3", "rsync", "tar"].into_iter().all(has) {
        return;
    }
    let seed = amount("MOUNT_SEED", SEED);
    println!("MOUNT_SEED={seed}");
    let Some(mut mounted) = Mounted::served("attributes", &[]) else { return };
    mounted.mount("mnt2", &[]);
    let (from, other) = (mounted.path("from"), mounted.place.path("mnt2"));
    let wanted = tree(&mounted, &["make"], &from, &[&[seed.to_string()][..], &sources()].concat());
    // Nothing was read of it yet: to read is an access.
    compare(&wanted, &tree(&mounted, &["tell"], &from, &[]), None);
    let archive = mounted.place.path("archive");
    let mut tar = Command::new("tar");
    tar.args(["--format=posix", "--xattrs", "--acls", "--sparse", "-C"]).arg(&from).arg("-cf").arg(&archive);
    ran(&mounted, tar.arg("."));
    let back = mounted.path("back");
    fs::create_dir(&back).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--xattrs", "--acls", "--same-owner", "--numeric-owner", "-pxf"]).arg(&archive);
    ran(&mounted, tar.arg("-C").arg(&back));
    // It sets no times of access.
    compare(&wanted, &tree(&mounted, &["tell"], &back, &[]), Some("atime="));
    // From one mount into another. What the tree's own files have been read for counts as an access of them.
    let copy = |from: &Path, to: &Path| {
        let mut rsync = Command::new("rsync");
        rsync.args(["-aHAXU", "--sparse", "--numeric-ids"]).arg(format!("{}/", from.display())).arg(to);
        ran(&mounted, &rsync);
    };
    let again = mounted.path("again");
    let wanted = tree(&mounted, &["make"], &again, &[&[(seed + 1).to_string()][..], &sources()].concat());
    copy(&again, &other.join("copy"));
    compare(&wanted, &tree(&mounted, &["tell"], &mounted.path("copy"), &[]), None);
    mounted.finish();
}
