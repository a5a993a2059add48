//! `cargo xtask capi --prefix DIR [--destdir DIR]`: the C libraries and headers, built and put where programs find them.

mod link;

use crate::source;
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::Command;

/// Builds the library and installs it with its companions, headers and pkg-config file.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let (prefix, destdir) = match arguments {
        ["--prefix", prefix] => (Path::new(prefix), ""),
        ["--prefix", prefix, "--destdir", destdir] => (Path::new(prefix), *destdir),
        _ => {
            println!("capi takes --prefix DIR, and --destdir DIR for what is put elsewhere first");
            return Ok(false);
        }
    };
    let root = source::root()?;
    let built = cargo()
        .current_dir(&root)
        .args(["build", "--release"])
        .args(["dolmen-cli", "dolmen-capi", "dolmen-preload"].iter().flat_map(|name| ["--package", name]))
        .status()
        .context("cannot start cargo")?;
    if !built.success() {
        return Ok(false);
    }
    let library = source::target_directory(&root).join("release/libdolmen_capi.so");
    let capi = root.join("crates/capi");
    let functions = link::functions(&capi)?;
    let root = [destdir.trim_end_matches('/'), &prefix.to_string_lossy()].concat();
    link::install(&library, &capi, prefix, Path::new(&root)).context("cannot install the libraries")?;
    println!("{}: {} functions in libdaos.so.2 and its companions", prefix.display(), functions.len());
    Ok(true)
}

/// Cargo without what the one that runs this program has told it: build scripts look at that, and what depends on them would
/// be compiled anew each time that it is built from a shell and from here in turn.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let is_told = |name: &str| {
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"].iter().any(|of| name.starts_with(of))
    };
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| is_told(name) || name == "CARGO_PRIMARY_PACKAGE" || name == "OUT_DIR")
        {
            cargo.env_remove(name);
        }
    }
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_name_each_function_once() {
        let functions = link::functions(&source::root().unwrap().join("crates/capi")).unwrap();
        assert!(functions.windows(2).all(|pair| pair[0].name != pair[1].name));
        assert!(functions.iter().any(|f| f.name == "daos_init" && f.library == "daos"));
    }

    #[test]
    fn builds_from_here_and_from_a_shell_are_one() {
        let removed: Vec<String> = cargo()
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect();
        for told in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"] {
            assert!(removed.iter().any(|name| name == told), "{removed:?}");
        }
    }

    #[test]
    fn a_prefix_is_needed() {
        assert!(!run(&[]).unwrap());
    }
}
