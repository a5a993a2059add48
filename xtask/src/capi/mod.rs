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
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(&root)
        .args(["build", "--release", "--package", "dolmen-capi"])
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
    fn a_prefix_is_needed() {
        assert!(!run(&[]).unwrap());
    }
}
