//! A copy of the repository in which mutants are put.

use super::list::Edit;
use crate::source;
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A copy of the tree, as it was when the run began.
pub(super) struct Copy {
    path: PathBuf,
}

impl Copy {
    /// Makes or renews the copy. Files that are the same keep their times, so that nothing is built twice.
    pub(super) fn of(root: &Path, path: &Path) -> Result<Self> {
        let mut wanted: BTreeSet<String> = source::list(root)?.into_iter().collect();
        wanted.retain(|name| root.join(name).is_file());
        for name in &wanted {
            let bytes = std::fs::read(root.join(name)).with_context(|| format!("cannot read {name}"))?;
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

    /// Puts a mutant's edits into the copy. It must be restored before the next.
    pub(super) fn put(&self, edits: &[Edit]) -> Result<()> {
        for (path, text) in mutated(&self.path, edits)? {
            let kept = self.kept(path);
            std::fs::create_dir_all(kept.parent().context("a file has a folder")?).context("cannot keep")?;
            std::fs::copy(self.path.join(path), kept).with_context(|| format!("cannot keep {path}"))?;
            std::fs::write(self.path.join(path), text).with_context(|| format!("cannot change {path}"))?;
        }
        Ok(())
    }

    /// Takes them out again.
    pub(super) fn restore(&self, edits: &[Edit]) -> Result<()> {
        let paths: BTreeSet<&str> = edits.iter().map(|edit| edit.path.as_str()).collect();
        for path in paths {
            let bytes = std::fs::read(self.kept(path)).with_context(|| format!("cannot restore {path}"))?;
            std::fs::write(self.path.join(path), bytes).with_context(|| format!("cannot restore {path}"))?;
        }
        Ok(())
    }

    fn kept(&self, path: &str) -> PathBuf {
        self.path.with_extension("kept").join(path)
    }
}

/// The files that edits change, as they leave them.
pub(super) fn mutated<'a>(root: &Path, edits: &'a [Edit]) -> Result<BTreeMap<&'a str, String>> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for edit in edits {
        let text = match texts.remove(edit.path.as_str()) {
            Some(text) => text,
            None => std::fs::read_to_string(root.join(&edit.path))
                .with_context(|| format!("cannot read {}", edit.path))?,
        };
        texts.insert(&edit.path, edit.apply(&text)?);
    }
    Ok(texts)
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
    fn a_mutant_comes_and_goes() {
        let root = crate::source::root().expect("tests run in the tree");
        let base = std::env::temp_dir().join(format!("mutants-{}", std::process::id()));
        let copy = Copy::of(&root, &base.join("tree")).expect("copied");
        let edit = Edit { path: "README.md".into(), find: "# Dolmen".into(), replace: "# Menhir".into() };
        let readme = || std::fs::read_to_string(copy.path().join("README.md")).expect("copied");
        let before = readme();
        copy.put(std::slice::from_ref(&edit)).expect("occurs once");
        assert!(readme().starts_with("# Menhir"));
        copy.restore(&[edit]).expect("kept");
        assert_eq!(readme(), before);
        std::fs::remove_dir_all(base).expect("just made");
    }
}
