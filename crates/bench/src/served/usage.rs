//! What the kernel says of a process.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// A thread, and how often it has slept so far: each time somebody or a timer wakes it.
pub(super) struct Thread {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) sleeps: u64,
}

/// Resident memory of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// All of it.
    pub(super) resident_bytes: u64,
    /// What belongs to it alone.
    pub(super) anonymous_bytes: u64,
    /// Files in memory: pools, and what it shares with its clients.
    pub(super) shared_bytes: u64,
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(Error::system("look at the daemon"))
}

fn directory(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// Its threads, in the order of their ids; one that ends meanwhile is left out.
pub(super) fn threads(pid: u32) -> Result<Vec<Thread>> {
    let tasks =
        std::fs::read_dir(directory(pid).join("task")).map_err(Error::system("look at the daemon"))?;
    let thread = |path: PathBuf| {
        let id = path.file_name()?.to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let name = field(&status, "Name:")?.to_owned();
        Some(Thread { id, name, sleeps: field(&status, "voluntary_ctxt_switches:")?.parse().ok()? })
    };
    let mut all: Vec<Thread> = tasks.filter_map(|task| thread(task.ok()?.path())).collect();
    all.sort_by_key(|thread| thread.id);
    Ok(all)
}

pub(super) fn memory(pid: u32) -> Result<Memory> {
    let rollup = read(&directory(pid).join("smaps_rollup"))?;
    let status = read(&directory(pid).join("status"))?;
    Ok(Memory {
        resident_bytes: bytes(&rollup, "Rss:"),
        anonymous_bytes: bytes(&rollup, "Anonymous:"),
        shared_bytes: bytes(&status, "RssShmem:"),
    })
}

/// Descriptors of connections; files of pools come and go by themselves.
pub(super) fn connection_descriptors(pid: u32) -> Result<usize> {
    let all = std::fs::read_dir(directory(pid).join("fd")).map_err(Error::system("look at the daemon"))?;
    // One that is closed meanwhile does not count.
    let links = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let of_connection = |link: &PathBuf| {
        let link = link.to_string_lossy();
        ["socket:", "anon_inode:[pidfd]", "/memfd:"].iter().any(|kind| link.starts_with(kind))
    };
    Ok(links.filter(of_connection).count())
}

fn bytes(text: &str, name: &str) -> u64 {
    let kib = field(text, name).and_then(|value| value.trim_end_matches(" kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_this_process_is_understood() {
        let pid = std::process::id();
        let found = memory(pid).unwrap();
        assert!(found.anonymous_bytes > 0 && found.anonymous_bytes <= found.resident_bytes, "{found:?}");
        assert!(threads(pid).unwrap().iter().any(|thread| thread.id == pid));
        let before = connection_descriptors(pid).unwrap();
        let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
        assert!(connection_descriptors(pid).unwrap() > before, "{socket:?}");
        assert_eq!(bytes("Name:\tx\nRssShmem:\t    12 kB\n", "RssShmem:"), 12 << 10);
    }
}
