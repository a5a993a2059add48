//! A copy of the repository with all mutants in it.

use crate::source;
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A copy of the tree as it was when the run began, but for the files that hold mutants.
pub(super) struct Copy {
    path: PathBuf,
}

impl Copy {
    /// Makes or renews the copy. Files that are the same keep their times, so that nothing is built twice.
    pub(super) fn of(root: &Path, path: &Path, changed: &BTreeMap<String, String>) -> Result<Self> {
        let mut wanted: BTreeSet<String> = source::list(root)?.into_iter().collect();
        wanted.retain(|name| root.join(name).is_file());
        for name in &wanted {
            let bytes = match changed.get(name) {
                Some(text) => text.clone().into_bytes(),
                None => std::fs::read(root.join(name)).with_context(|| format!("cannot read {name}"))?,
            };
            write_if_changed(&path.join(name), &bytes)?;
        }
        // A file that was removed would still be compiled.
        for name in below(path, path)? {
            if !wanted.contains(&name) {
                std::fs::remove_file(path.join(&name)).with_context(|| format!("cannot remove {name}"))?;
            }
        }
        Ok(Self { path: path.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn below(folder: &Path, base: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry.context("cannot list the copy")?.path();
        if path.is_dir() {
            found.extend(below(&path, base)?);
        } else if let Some(name) = path.strip_prefix(base).ok().and_then(Path::to_str) {
            found.push(name.to_owned());
        }
    }
    Ok(found)
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().context("a file has a folder")?).context("cannot make a folder")?;
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_follows_the_tree_and_the_changes() {
        let root = crate::source::root().expect("tests run in the tree");
        let base = std::env::temp_dir().join(format!("mutants-{}", std::process::id()));
        let changed = BTreeMap::from([("README.md".to_owned(), "# Menhir".to_owned())]);
        for (changes, title) in [(changed, "# Menhir"), (BTreeMap::new(), "# Dolmen")] {
            let copy = Copy::of(&root, &base, &changes).expect("copied");
            let readme = std::fs::read_to_string(copy.path().join("README.md")).expect("copied");
            assert!(readme.starts_with(title), "{readme}");
            let stray = copy.path().join("stray.rs");
            assert!(!stray.exists(), "what the tree does not have is removed");
            std::fs::write(stray, "").expect("written");
        }
        std::fs::remove_dir_all(base).expect("just made");
    }
}
