//! Programs that serve what is measured.

use super::ground::Ground;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Between two looks at whether something has come to pass, and how many of them.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS_MAX: usize = 1500;

/// One of them; ended when it is dropped, its mount taken away before.
pub(super) struct Server {
    child: Child,
    ground: Ground,
    mount_point: Option<PathBuf>,
}

/// All of them; mounts end before the daemon.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) mounts: Vec<Server>,
    pub(super) daemon: Option<Server>,
}

impl Servers {
    /// Processes that serve a ground: that of its mount with all that it has started, and the daemon.
    pub(super) fn pids_of(&self, ground: Ground) -> Vec<u32> {
        let mounts = self.mounts.iter().filter(|server| server.ground == ground);
        let daemon = self.daemon.iter().filter(|_| Ground::OF_DAEMON.contains(&ground));
        mounts.chain(daemon).flat_map(|server| with_children(server.child.id())).collect()
    }
}

impl Server {
    pub(super) fn daemon(child: Child) -> Self {
        Self { child, ground: Ground::CApi, mount_point: None }
    }

    /// Starts a program that mounts in the foreground, and waits until it has.
    pub(super) fn mount(command: &mut Command, ground: Ground, mount_point: &Path) -> Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = child.with_context(|| format!("{command:?} cannot be started"))?;
        let mut server = Self { child, ground, mount_point: Some(mount_point.to_owned()) };
        for _ in 0..LOOKS_MAX {
            if is_mounted(mount_point)? {
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                bail!("{command:?} has ended with {status}");
            }
            std::thread::park_timeout(LOOK);
        }
        bail!("{command:?} mounts nothing")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(dir) = &self.mount_point {
            unmount(dir);
            // Whoever serves a mount ends when it is gone.
            for _ in 0..LOOKS_MAX {
                if !matches!(self.child.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::park_timeout(LOOK);
            }
        }
        // Ignored, both: one that has ended is what is wanted.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Takes a mount away: as root, else by the helper of FUSE.
fn unmount(dir: &Path) {
    for words in [&["umount"][..], &["fusermount3", "-u"], &["umount", "-l"], &["fusermount3", "-u", "-z"]] {
        let mut command = Command::new(words[0]);
        let quiet = command.args(&words[1..]).arg(dir).stdout(Stdio::null()).stderr(Stdio::null());
        if quiet.status().is_ok_and(|status| status.success()) {
            return;
        }
    }
}

fn is_mounted(dir: &Path) -> Result<bool> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    Ok(has_mount(&mounts, dir))
}

/// Whether a list of the kernel's has a mount at a directory, whose name has no blanks.
fn has_mount(mounts: &str, dir: &Path) -> bool {
    let dir = dir.to_string_lossy();
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(&*dir))
}

/// A process and all that it and those have started.
fn with_children(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(pid) = all.get(at).copied() {
        all.extend(children(pid));
        at += 1;
    }
    all
}

/// None for a process that has ended.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut pids = Vec::new();
    for thread in threads.flatten() {
        // A thread may have ended since.
        let Ok(list) = std::fs::read_to_string(thread.path().join("children")) else { continue };
        pids.extend(list.split_whitespace().flat_map(str::parse::<u32>));
    }
    pids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_in_the_list_of_the_kernel() {
        let list =
            "36 35 0:48 / /mnt rw - fuse.dolmen p/c rw\n37 35 0:49 / /mnt/a rw shared:1 - tmpfs none rw\n";
        assert!(has_mount(list, Path::new("/mnt/a")) && has_mount(list, Path::new("/mnt")));
        assert!(!has_mount(list, Path::new("/mnt/b")) && !has_mount(list, Path::new("/")));
    }

    #[test]
    fn what_a_process_has_started_serves_with_it() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        assert!(with_children(std::process::id()).contains(&child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(with_children(child.id()), [child.id()]);
    }
}
