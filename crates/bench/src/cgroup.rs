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
    peak: &'static str,
}

const SEPARATE: Names = Names { limit: "memory.limit_in_bytes", peak: "memory.max_usage_in_bytes" };
const UNIFIED: Names = Names { limit: "memory.max", peak: "memory.peak" };

impl MemoryCgroup {
    /// Makes one beside (version 2) or below (version 1) that of this process.
    pub(crate) fn create(limit_bytes: u64) -> Result<Self> {
        let doing = "make a memory cgroup, which needs root or a delegated cgroup with the memory controller";
        let own = std::fs::read_to_string("/proc/self/cgroup").map_err(Error::system(doing))?;
        let (parent, names) = place(&own, Path::new(ROOT).join("memory").is_dir());
        let dir = parent.join(format!("dolmen-bench-{}", std::process::id()));
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

/// Where a new cgroup belongs, given `/proc/self/cgroup`.
fn place(own: &str, has_v1: bool) -> (PathBuf, Names) {
    if has_v1 {
        let path = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == "memory").then_some(path)
        });
        return (Path::new(ROOT).join("memory").join(relative(path)), SEPARATE);
    }
    let path = own.lines().find_map(|line| line.strip_prefix("0::"));
    // With processes in it, a cgroup of version 2 hands no memory to cgroups below it.
    let parent = Path::new(relative(path)).parent().unwrap_or(Path::new("")).to_owned();
    (Path::new(ROOT).join(parent), UNIFIED)
}

fn relative(path: Option<&str>) -> &str {
    path.unwrap_or("/").trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_made_where_memory_can_be_limited() {
        let (dir, names) = place("5:cpu,cpuacct:/\n4:memory:/user/7\n0::/\n", true);
        assert_eq!((dir, names.limit), (PathBuf::from("/sys/fs/cgroup/memory/user/7"), SEPARATE.limit));
        let (dir, names) = place("0::/user.slice/session-1.scope\n", false);
        assert_eq!((dir, names.limit), (PathBuf::from("/sys/fs/cgroup/user.slice"), "memory.max"));
        assert_eq!(place("0::/\n", false).0, PathBuf::from("/sys/fs/cgroup/"));
    }
}
