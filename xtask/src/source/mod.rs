//! The repository as text: what is checked in, cut into crates, Rust files and documents.

pub(crate) mod file;
pub(crate) mod lexer;
pub(crate) mod manifest;

use anyhow::{Context as _, Result, bail};
pub(crate) use file::{Function, SourceFile};
use manifest::Manifest;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One package of the workspace.
#[derive(Debug)]
pub(crate) struct Crate {
    /// Folder name, which is the package name without `dolmen-`.
    pub(crate) name: String,
    pub(crate) manifest_path: String,
    pub(crate) manifest: Manifest,
    pub(crate) files: Vec<SourceFile>,
}

impl Crate {
    /// Files that hold production code.
    pub(crate) fn production_files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|f| !f.is_test)
    }
}

/// A checked-in text file that is not Rust.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Everything tidy looks at.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) crates: Vec<Crate>,
    pub(crate) documents: Vec<Document>,
    /// Every path that is checked in or about to be, binary files included.
    pub(crate) paths: Vec<String>,
}

impl Tree {
    /// Reads the repository at `root`: tracked files and new ones that are not ignored.
    pub(crate) fn read(root: &Path) -> Result<Tree> {
        let mut files = Vec::new();
        for path in list(root)? {
            let Ok(bytes) = std::fs::read(root.join(&path)) else { continue };
            files.push((path, String::from_utf8(bytes).ok()));
        }
        Ok(Tree::from_files(files))
    }

    /// Builds a tree from paths and texts; `None` stands for a binary file.
    pub(crate) fn from_files(files: impl IntoIterator<Item = (String, Option<String>)>) -> Tree {
        let mut tree = Tree::default();
        let mut sources = Vec::new();
        for (path, text) in files {
            tree.paths.push(path.clone());
            let Some(text) = text else { continue };
            if let Some(name) = path.strip_suffix("/Cargo.toml").and_then(|folder| folder.rsplit('/').next())
            {
                let (name, manifest) = (name.to_owned(), Manifest::parse(&text));
                tree.crates.push(Crate { name, manifest_path: path.clone(), manifest, files: Vec::new() });
            }
            if path.ends_with(".rs") {
                sources.push(SourceFile::parse(&path, &text));
            } else {
                tree.documents.push(Document { path, text });
            }
        }
        for source in sources {
            let owner = tree
                .crates
                .iter_mut()
                .filter(|c| source.path.starts_with(c.folder()))
                .max_by_key(|c| c.folder().len());
            if let Some(owner) = owner {
                owner.files.push(source);
            }
        }
        tree.crates.sort_by(|a, b| a.name.cmp(&b.name));
        tree
    }

    /// The crate in this folder.
    pub(crate) fn by_name(&self, name: &str) -> Option<&Crate> {
        self.crates.iter().find(|c| c.name == name)
    }

    /// Every Rust file with the name of its crate.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, &SourceFile)> {
        self.crates.iter().flat_map(|c| c.files.iter().map(move |f| (c.name.as_str(), f)))
    }

    /// Markdown files.
    pub(crate) fn markdown(&self) -> impl Iterator<Item = &Document> {
        self.documents.iter().filter(|d| d.path.ends_with(".md"))
    }
}

impl Crate {
    /// Folder of the crate with a trailing slash.
    fn folder(&self) -> &str {
        self.manifest_path.trim_end_matches("Cargo.toml")
    }
}

/// The root of the repository: the nearest folder above the current one that holds this crate. Not the folder in
/// which the program was built, because clones may share a target directory.
pub(crate) fn root() -> Result<PathBuf> {
    let here = std::env::current_dir().context("no current folder")?;
    let root = here.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
    Ok(root.with_context(|| format!("{} is not inside the repository", here.display()))?.to_owned())
}

/// Where the build puts things.
pub(crate) fn target_directory(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// Standard output of git in `root`; fails with what git said.
pub(crate) fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new("git").current_dir(root).args(arguments).output().context("cannot start git")?;
    if !output.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Paths relative to `root`, sorted. Without git (a source archive) every file outside build output counts.
pub(crate) fn list(root: &Path) -> Result<Vec<String>> {
    let listed = git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut paths: Vec<String> = match listed {
        Ok(text) => text.split('\0').filter(|p| !p.is_empty()).map(str::to_owned).collect(),
        Err(_) => {
            let mut paths = Vec::new();
            walk(root, root, &mut paths)?;
            paths
        }
    };
    paths.sort();
    paths.dedup();
    Ok(paths)
}

fn walk(root: &Path, folder: &Path, paths: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        if path.is_dir() && !matches!(name.as_str(), "target" | ".git" | ".venv" | ".cache") {
            walk(root, &path, paths)?;
        } else if path.is_file() {
            paths.push(path.strip_prefix(root)?.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_to_the_innermost_crate() {
        let text = |s: &str| Some(s.to_owned());
        let tree = Tree::from_files([
            ("crates/a/Cargo.toml".to_owned(), text("[package]\nname = \"dolmen-a\"\n")),
            ("crates/a/src/lib.rs".to_owned(), text("fn f() {}")),
            ("crates/a/golden/v1.bin".to_owned(), None),
            ("README.md".to_owned(), text("# T\n")),
        ]);
        assert_eq!(tree.by_name("a").map(|c| c.files.len()), Some(1));
        assert_eq!(tree.markdown().count(), 1);
        assert_eq!(tree.paths.len(), 4);
    }

    #[test]
    fn the_repository_lists_itself() {
        let paths = list(&root().unwrap()).unwrap();
        assert!(paths.iter().any(|p| p == "xtask/src/main.rs"));
        assert!(!paths.iter().any(|p| p.starts_with("target/")));
    }
}
