//! A memory cgroup for a child: what a process with little memory costs is not what it costs beside much page cache.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";

/// A cgroup with a limit on memory, page cache counted; it goes when this is dropped and nothing runs in it.
#[derive(Debug)]
pub(crate) struct MemoryCgroup {
    dir: PathBuf,
    peak: &'static str,
}

/// The names of files in one version of the interface.
struct Names {
    limit: &'static str,
    used: &'static str,
    peak: &'static str,
}

const SEPARATE: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    peak: "memory.max_usage_in_bytes",
};
const UNIFIED: Names = Names { limit: "memory.max", used: "memory.current", peak: "memory.peak" };

impl MemoryCgroup {
    /// Makes one beside (version 2) or below (version 1) that of this process.
    pub(crate) fn create(limit_bytes: u64) -> Result<Self> {
        let doing = "make a memory cgroup, which needs root or a delegated cgroup with the memory controller";
        let (own, names) = own().map_err(Error::system(doing))?;
        let dir = parent(&own, &names).join(format!("dolmen-bench-{}", std::process::id()));
        std::fs::create_dir(&dir).map_err(Error::system(doing))?;
        let cgroup = Self { dir, peak: names.peak };
        let limit = limit_bytes.to_string();
        std::fs::write(cgroup.dir.join(names.limit), limit).map_err(Error::system(doing))?;
        Ok(cgroup)
    }

    /// The file into which a process writes `0` to enter.
    pub(crate) fn entrance(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// The most memory that was used, in bytes, if this system counts it.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        std::fs::read_to_string(self.dir.join(self.peak)).ok()?.trim().parse().ok()
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // Ignored: an empty cgroup that stays does no harm.
        let _removed = std::fs::remove_dir(&self.dir);
    }
}

/// Enters a cgroup.
pub(crate) fn enter(entrance: &Path) -> Result<()> {
    std::fs::write(entrance, "0").map_err(Error::system("enter the memory cgroup"))
}

/// Bytes that the cgroup of this process lets it take; `None` if it sets no limit.
pub(crate) fn room_bytes() -> Option<u64> {
    let (dir, names) = own().ok()?;
    let read = |name| std::fs::read_to_string(dir.join(name)).ok()?.trim().parse::<u64>().ok();
    Some(read(names.limit)?.saturating_sub(read(names.used)?))
}

/// The directory of the memory cgroup of this process.
fn own() -> std::io::Result<(PathBuf, Names)> {
    let text = std::fs::read_to_string("/proc/self/cgroup")?;
    Ok(place(&text, Path::new(ROOT).join("memory").is_dir()))
}

/// Where a new cgroup belongs: with processes in it, a cgroup of version 2 hands no memory to cgroups below it.
fn parent<'d>(own: &'d Path, names: &Names) -> &'d Path {
    let above = own.parent().filter(|above| names.limit == UNIFIED.limit && above.starts_with(ROOT));
    above.unwrap_or(own)
}

/// Where the cgroup is that `/proc/self/cgroup` tells.
fn place(own: &str, has_v1: bool) -> (PathBuf, Names) {
    if has_v1 {
        let path = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == "memory").then_some(path)
        });
        return (Path::new(ROOT).join("memory").join(relative(path)), SEPARATE);
    }
    let path = own.lines().find_map(|line| line.strip_prefix("0::"));
    (Path::new(ROOT).join(relative(path)), UNIFIED)
}

fn relative(path: Option<&str>) -> &str {
    path.unwrap_or("/").trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_made_where_memory_can_be_limited() {
        let (own, names) = place("5:cpu,cpuacct:/\n4:memory:/user/7\n0::/\n", true);
        let parent_v1 = parent(&own, &names);
        assert_eq!((parent_v1, names.limit), (Path::new("/sys/fs/cgroup/memory/user/7"), SEPARATE.limit));
        let (own, names) = place("0::/user.slice/session-1.scope\n", false);
        assert_eq!(
            (parent(&own, &names), names.limit),
            (Path::new("/sys/fs/cgroup/user.slice"), "memory.max")
        );
        let (own, names) = place("0::/\n", false);
        assert_eq!(parent(&own, &names), Path::new("/sys/fs/cgroup/"));
        assert!(room_bytes().is_none_or(|bytes| bytes > 0), "this process runs");
    }
}
