//! `cargo xtask tidy`: the lines of STYLE.md marked (t), each as a check that names file, line and remedy.
//!
//! Invariants:
//! - A check is a pure function from the tree to findings; only this module reads files and prints.
//! - Each check has a test with an offending and a clean example.

mod ceilings;
mod citations;
mod claims;
mod comments;
mod deps;
mod errors;
mod locks;
mod names;
mod prose;
mod shape;
mod smells;
mod testing;
mod traits;
mod world;

use crate::source::{self, Tree};
use anyhow::{Result, bail};
use std::fmt;

/// One broken rule; `line` 0 stands for the file as a whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}\n    remedy: {}", self.path, self.line.max(1), self.what, self.remedy)
    }
}

/// A rule over the whole tree.
type Check = fn(&Tree) -> Vec<Finding>;

/// Name and function of every check but the ceilings, which also need the history.
const CHECKS: [(&str, Check); 12] = [
    ("crate dependencies", deps::check),
    ("shape", shape::check),
    ("traits", traits::check),
    ("names", names::check),
    ("citations", citations::check),
    ("errors", errors::check),
    ("locks", locks::check),
    ("comments", comments::check),
    ("doors to the world", world::check),
    ("tests", testing::check),
    ("claims", claims::check),
    ("prose", prose::check),
];

/// Runs every check, prints what is wrong; `false` if anything is.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let root = source::root()?;
    let tree = Tree::read(&root)?;
    match arguments {
        [] | ["--ratchet"] => {}
        ["--table"] => {
            print!("{}", ceilings::table(&smells::measure(&tree)));
            return Ok(true);
        }
        _ => bail!("tidy takes --ratchet or --table, not `{}`", arguments.join(" ")),
    }
    let mut failed = 0_usize;
    for (name, check) in CHECKS {
        failed += report(name, check(&tree));
    }
    let rows = smells::measure(&tree);
    failed += report("smell ceilings", ceilings::check(&root, &tree, &rows)?);
    if arguments == ["--ratchet"] {
        ceilings::ratchet(&root, &rows)?;
    }
    if failed > 0 {
        println!("tidy: {failed} findings; STYLE.md has the rules");
    }
    Ok(failed == 0)
}

fn report(name: &str, mut findings: Vec<Finding>) -> usize {
    findings.sort();
    findings.dedup();
    let verdict = if findings.is_empty() { "ok".to_owned() } else { format!("{} findings", findings.len()) };
    println!("tidy: {name}: {verdict}");
    for finding in &findings {
        println!("{finding}");
    }
    findings.len()
}

/// Trees and expectations for the tests of the checks.
#[cfg(test)]
mod fixture {
    use super::{Check, Finding, Tree};

    /// A tree of the given files; every crate folder mentioned gets a manifest that inherits everything.
    pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
        let mut all: Vec<(String, Option<String>)> = Vec::new();
        for (path, text) in files {
            if let Some(name) = path.strip_prefix("crates/").and_then(|p| p.split('/').next()) {
                let manifest = format!("crates/{name}/Cargo.toml");
                let text = format!("[package]\nname = \"dolmen-{name}\"\n[lints]\nworkspace = true\n");
                if !files.iter().any(|(p, _)| *p == manifest) && !all.iter().any(|(p, _)| *p == manifest) {
                    all.push((manifest, Some(text)));
                }
            }
            all.push(((*path).to_owned(), Some((*text).to_owned())));
        }
        Tree::from_files(all)
    }

    /// `path:line` of every finding.
    pub(crate) fn places(findings: &[Finding]) -> Vec<String> {
        let mut places: Vec<String> = findings.iter().map(|f| format!("{}:{}", f.path, f.line)).collect();
        places.sort();
        places
    }

    /// Findings of a check on one file of the crate `engine`, as line numbers.
    pub(crate) fn lines(check: Check, text: &str) -> Vec<usize> {
        let mut lines: Vec<usize> =
            check(&tree(&[("crates/engine/src/a.rs", text)])).iter().map(|f| f.line).collect();
        lines.sort_unstable();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_place_and_remedy() {
        let text = Finding::new("a.rs", 3, "wrong", "mend it").to_string();
        assert_eq!(text, "a.rs:3: wrong\n    remedy: mend it");
    }

    #[test]
    fn an_unknown_option_is_refused() {
        assert!(run(&["--fix"]).is_err());
    }
}
