//! Documents: one title each, links that lead somewhere; and no word in any text that only means something here.

use super::Finding;
use crate::source::{Document, Tree};

/// Words that tie the text to one machine or one mirror. Taken apart so that this file does not hold them.
const FORBIDDEN: [(&str, &str); 13] = [
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/fa", "rm/"), "a path of one machine"),
    (concat!("/tmp/tar", "get-"), "a path of one machine"),
    (concat!("/tmp/br", "ief"), "a path of one machine"),
    (concat!("../sha", "red/"), "a path of one machine"),
    (concat!("index.cra", "tes.io"), "a registry host"),
    (concat!("static.cra", "tes.io"), "a registry host"),
    (concat!("files.python", "hosted.org"), "a registry host"),
    (concat!("pypi", ".org"), "a registry host"),
    (concat!("registry.np", "mjs.org"), "a registry host"),
    (concat!("deb.deb", "ian.org"), "a registry host"),
    (concat!("sub", "agent"), "a word about how the text came to be"),
];

/// Texts that are not ours to word.
const EXEMPT: [&str; 2] = ["Cargo.lock", "LICENSE"];

/// Documents that a newcomer is promised.
const REQUIRED: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "STYLE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "docs/glossary.md",
    "docs/semantics.md",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        tree.markdown().flat_map(|d| title(d).into_iter().chain(links(tree, d))).collect();
    let documents = tree.documents.iter().filter(|d| !EXEMPT.contains(&d.path.as_str()));
    found.extend(documents.flat_map(|d| forbidden(&d.path, d.text.lines())));
    found.extend(missing(tree));
    found.extend(tree.sources().flat_map(|(_, f)| forbidden(&f.path, f.lines.iter().map(String::as_str))));
    found
}

/// Only a tree with the root manifest is the whole repository.
fn missing(tree: &Tree) -> Vec<Finding> {
    let has = |path: &&str| tree.paths.iter().any(|p| p == path);
    let expected = REQUIRED.iter().filter(|path| has(&"Cargo.toml") && !has(path));
    expected
        .map(|path| {
            Finding::new(path, 0, "document is missing", "write it; CONTRIBUTING.md says what is where")
        })
        .collect()
}

fn title(document: &Document) -> Option<Finding> {
    let titles = outside_fences(&document.text).filter(|(_, l)| l.starts_with("# ")).count();
    (titles != 1).then(|| {
        let what = format!("{titles} titles");
        Finding::new(&document.path, 0, what, "write exactly one `# Title`; chapters start with `##`")
    })
}

fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

/// Relative links whose file does not exist.
fn links(tree: &Tree, document: &Document) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in outside_fences(&document.text) {
        for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split_once('#').map_or(link, |(file, _)| file);
            let elsewhere = target.is_empty()
                || target.contains("://")
                || target.starts_with("mailto:")
                || target.contains(' ');
            if !elsewhere && !exists(tree, &resolve(&document.path, target)) {
                let what = format!("link to `{target}`, which does not exist");
                found.push(Finding::new(
                    &document.path,
                    index + 1,
                    what,
                    "link an existing file, relative to this one",
                ));
            }
        }
    }
    found
}

fn exists(tree: &Tree, path: &str) -> bool {
    let folder = format!("{path}/");
    path.is_empty() || tree.paths.iter().any(|p| p == path || p.starts_with(&folder))
}

fn resolve(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn forbidden<'a>(path: &str, lines: impl Iterator<Item = &'a str>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in lines.enumerate() {
        for (word, why) in FORBIDDEN.iter().filter(|(word, _)| line.contains(word)) {
            let what = format!("`{word}` is {why}");
            found.push(Finding::new(
                path,
                index + 1,
                what,
                "write it relative to the repository, or leave it out",
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{places, tree};
    use super::*;

    #[test]
    fn a_document_has_one_title() {
        let text = "# A\n```sh\n# comment\n```\n## B\n";
        let found = check(&tree(&[("a.md", text), ("b.md", "text\n"), ("c.md", "# A\n# B\n")]));
        assert_eq!(places(&found), ["b.md:0", "c.md:0"]);
    }

    #[test]
    fn promised_documents_are_missed() {
        let mut files: Vec<(&str, &str)> = REQUIRED.iter().map(|path| (*path, "# T\n")).collect();
        files.push(("Cargo.toml", ""));
        assert_eq!(check(&tree(&files)), []);
        files.remove(1);
        assert_eq!(places(&check(&tree(&files))), ["ARCHITECTURE.md:0"]);
    }

    #[test]
    fn links_lead_somewhere() {
        let text = "# A\n[b](../b.md#x) [c](c.md)\n[d](https://example.org/x) [e](#here)\n[f](../docs)\n";
        let found = check(&tree(&[("docs/a.md", text), ("b.md", "# B\n")]));
        assert_eq!(places(&found), ["docs/a.md:2"]);
        assert!(found[0].what.contains("c.md"));
    }

    #[test]
    fn words_of_one_machine_are_found_everywhere() {
        let path = concat!("/ro", "ot/x");
        let found = check(&tree(&[
            ("Makefile", path),
            ("Cargo.lock", path),
            ("crates/env/src/a.rs", &format!("// {path}\n")),
            ("crates/env/Cargo.toml", &format!("\n# {path}\n")),
        ]));
        assert_eq!(places(&found), ["Makefile:1", "crates/env/Cargo.toml:2", "crates/env/src/a.rs:1"]);
    }
}
