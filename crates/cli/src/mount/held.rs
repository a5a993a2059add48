//! Who serves a mount, and who keeps it that was taken away here: what the kernel tells in `/proc`, so that nobody asks a mount which
//! may not answer.

use crate::path::word;
use dolmen_env::MOUNT_TYPE;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// So many are named.
const NAMED_MAX: usize = 3;

/// A process that sees a mount in another mount namespace.
struct Holder {
    pid: u32,
    name: String,
    dir: PathBuf,
}

/// All processes that can be seen, by their numbers.
fn processes() -> BTreeSet<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The process that has the connection of a mount, where the kernel says so (Linux 6.18), of those that may be looked into.
pub(super) fn server_of(minor: u32) -> Option<u32> {
    let line = format!("fuse_connection:\t{minor}");
    let serves = |pid: &u32| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        fds.filter(|fd| fd.path().read_link().is_ok_and(|to| to == Path::new("/dev/fuse"))).any(|fd| {
            let info = Path::new("/proc").join(pid.to_string()).join("fdinfo").join(fd.file_name());
            std::fs::read_to_string(info).is_ok_and(|info| info.lines().any(|told| told == line))
        })
    };
    processes().into_iter().find(serves)
}

/// One process of each other mount namespace that has a copy of a mount.
fn holders(minor: u32) -> Vec<Holder> {
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let (own, mut seen) = (namespace("self"), BTreeSet::new());
    let mut holders = Vec::new();
    for pid in processes() {
        let of = namespace(&pid.to_string());
        if of.is_none() || of == own || !seen.insert(of) {
            continue;
        }
        // Else it has ended.
        let Ok(mounts) = dolmen_env::mounts_of_process(pid, MOUNT_TYPE) else { continue };
        if let Some(copy) = mounts.into_iter().find(|mount| mount.minor == minor) {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            let name = name.map_or_else(|_gone| "?".to_owned(), |name| name.trim().to_owned());
            holders.push(Holder { pid, name, dir: copy.dir });
        }
    }
    holders
}

/// Why the process of a mount that was taken away goes on, and what helps.
pub(super) fn why_kept(minor: u32, server: u32) -> (String, String) {
    let holders = holders(minor);
    let Some(first) = holders.first() else {
        let why = "it closes the pool; no process that can be seen from here has a copy of the mount in another mount namespace \
                   (a container, a service with mounts of its own), but one of another user may";
        return (
            why.to_owned(),
            format!("wait for longer (--wait), look as root, or end it with `kill {server}`"),
        );
    };
    let named = |holder: &Holder| format!("process {} ({})", holder.pid, holder.name.escape_default());
    let mut names: Vec<String> = holders.iter().take(NAMED_MAX).map(named).collect();
    if holders.len() > NAMED_MAX {
        names.push(format!("{} more", holders.len() - NAMED_MAX));
    }
    let have = if holders.len() == 1 { "has" } else { "have" };
    let why = format!(
        "{} {have} a copy of the mount in another mount namespace (a container, or a service with mounts of its own)",
        names.join(", ")
    );
    let (pid, dir) = (first.pid, word(&first.dir));
    let hint = format!(
        "`nsenter -t {pid} -m umount {dir}` takes that of process {pid} away, and `kill {server}` ends the mount for all"
    );
    (why, hint)
}
