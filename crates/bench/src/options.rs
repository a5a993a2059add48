//! What is measured, where and for how long.

use std::path::PathBuf;

/// Keys of a quoted run: at least 4 M, and many times the last-level cache.
const KEY_BITS: u32 = 22;
/// What the values of one measurement may take of the memory that tmpfs shares with everything else: keys of
/// larger values are fewer.
const VALUES_BYTES_MAX: u64 = 4 << 30;
/// The same for a quick run.
const QUICK_KEY_BITS: u32 = 14;
const QUICK_VALUES_BYTES_MAX: u64 = 64 << 20;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where metadata and bulk lie: memory (tmpfs), unless a scenario says otherwise.
    pub dir: PathBuf,
    /// Where scenarios of durability and block media lie: a file system on a disk.
    pub disk_dir: PathBuf,
    /// Seconds of each rate.
    pub seconds: f64,
    /// Small and short; never quoted.
    pub quick: bool,
    /// Only scenarios whose name contains this; empty for all.
    pub only: String,
}

impl Options {
    /// Options of a quoted run, or of a quick one, in these directories.
    #[must_use]
    pub fn new(dir: PathBuf, disk_dir: PathBuf, quick: bool) -> Self {
        Self { dir, disk_dir, seconds: if quick { 0.3 } else { 30.0 }, quick, only: String::new() }
    }

    /// Keys, as a power of two, of values of this size.
    pub(crate) fn key_bits(&self, size: usize) -> u32 {
        let bytes_max = self.pick(VALUES_BYTES_MAX, QUICK_VALUES_BYTES_MAX);
        (bytes_max / size as u64).ilog2().min(self.pick(KEY_BITS, QUICK_KEY_BITS))
    }

    /// `full`, or `quick` in a quick run.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    pub(crate) fn wants(&self, scenario: &str) -> bool {
        self.only.is_empty() || scenario.contains(&self.only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_run_has_four_million_keys_where_memory_allows() {
        let options = Options::new("/m".into(), "/d".into(), false);
        assert!(1 << options.key_bits(64) >= 4_000_000);
        assert_eq!(options.key_bits(4096), 20);
        assert_eq!(options.key_bits(1 << 20), 12);
        assert!(options.wants("points"));
    }
}
