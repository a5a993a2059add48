//! What is measured, where and for how long.

use crate::error::{Error, Result};
use std::path::PathBuf;

/// What `--help` says.
pub const USAGE: &str = "\
Measures Dolmen, RocksDB, LMDB, redb and plain files with the same keys, values, durability and batches.

Usage: dolmen-bench-compare [OPTIONS]

      --quick           Small and short; the rows say so and must not be quoted
      --out FILE        Add every row to this file, for `dolmen bench report`
      --dir DIR         Directory for the stores, in memory [default: /dev/shm]
      --disk-dir DIR    Directory on a disk, for what has to survive power loss [default: /var/tmp]
      --seconds N       Seconds of each rate [default: 30]
      --only WORD       Only stores whose name contains this
      --free            Do not bind to one core: background threads of a store run beside it";

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    pub quick: bool,
    pub out: Option<PathBuf>,
    pub free: bool,
    pub dir: PathBuf,
    pub disk_dir: PathBuf,
    pub seconds: f64,
    pub only: String,
}

impl Options {
    /// Reads arguments; `None` if help was asked for.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut options = Self {
            quick: false,
            out: None,
            free: false,
            dir: "/dev/shm".into(),
            disk_dir: "/var/tmp".into(),
            seconds: 30.0,
            only: String::new(),
        };
        let mut seconds = None;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| wrong(&arg, "needs a value"));
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--out" => options.out = Some(value()?.into()),
                "--free" => options.free = true,
                "--dir" => options.dir = value()?.into(),
                "--disk-dir" => options.disk_dir = value()?.into(),
                "--only" => options.only = value()?,
                "--seconds" => seconds = Some(number(&value()?)?),
                "--help" | "-h" => return Ok(None),
                _ => return Err(wrong(&arg, "is unknown")),
            }
        }
        options.seconds = seconds.unwrap_or(if options.quick { 0.3 } else { 30.0 });
        let below = format!("dolmen-compare-{}", std::process::id());
        options.dir.push(&below);
        options.disk_dir.push(&below);
        Ok(Some(options))
    }

    /// Keys, as a power of two, of values of this size: 4 M, or what 2 GiB of values hold.
    pub fn key_bits(&self, size: usize) -> u32 {
        if self.quick { 14 } else { 22.min((2_u64 << 30).ilog2() - size.ilog2()) }
    }
}

fn number(text: &str) -> Result<f64> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| wrong(text, "is no number of seconds"))
}

fn wrong(argument: &str, why: &'static str) -> Error {
    Error::Argument { argument: argument.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Option<Options>> {
        Options::parse(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn arguments_are_understood_or_refused() {
        let options = parse(&["--quick", "--only", "redb"]).unwrap().unwrap();
        assert_eq!((options.quick, options.only.as_str(), options.seconds), (true, "redb", 0.3));
        assert!(parse(&["--help"]).unwrap().is_none());
        for bad in [&["--seconds"][..], &["--seconds", "-1"], &["--seconds", "x"], &["fast"]] {
            assert!(matches!(parse(bad), Err(Error::Argument { .. })), "{bad:?}");
        }
    }

    #[test]
    fn a_quoted_run_has_four_million_small_values() {
        let options = parse(&[]).unwrap().unwrap();
        assert_eq!([64, 1024, 4096].map(|size| options.key_bits(size)), [22, 21, 19]);
    }
}
