//! The list of mutants: Markdown in `mutants/`, one section a mutant.
//!
//! Invariants: names are unique; every mutant has a claim, a test and an edit; no edit replaces a snippet by itself.

use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// A wrong program: what it breaks, and who must notice.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Mutant {
    pub(super) name: String,
    pub(super) claim: String,
    pub(super) tests: Vec<Test>,
    /// Why its tests do not end; empty if they do.
    pub(super) hangs: String,
    pub(super) edits: Vec<Edit>,
}

/// Tests of one binary, by the start of their names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Test {
    pub(super) package: String,
    /// `lib`, or the name of a file in `tests/`.
    pub(super) binary: String,
    pub(super) filter: String,
}

/// One change of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Edit {
    pub(super) path: String,
    pub(super) find: String,
    pub(super) replace: String,
}

impl Edit {
    /// Where the snippet is in the file; an error says how often it occurs instead of once.
    pub(super) fn place(&self, text: &str) -> Result<Range<usize>> {
        match &occurrences(text, &self.find)[..] {
            [place] => Ok(place.clone()),
            found => bail!("{}: the snippet occurs {} times, not once", self.path, found.len()),
        }
    }
}

/// Where a snippet occurs. Any white space of it stands for any white space, so that it survives formatting.
fn occurrences(text: &str, snippet: &str) -> Vec<Range<usize>> {
    let words: Vec<&str> = snippet.split_whitespace().collect();
    let Some(first) = words.first() else { return Vec::new() };
    let ends = |start: usize| -> Option<usize> {
        let mut at = start;
        for (number, word) in words.iter().enumerate() {
            let rest = &text[at..];
            let gap = rest.len() - rest.trim_start().len();
            if number > 0 && gap == 0 {
                return None;
            }
            at += gap;
            at += text[at..].starts_with(word).then_some(word.len())?;
        }
        Some(at)
    };
    text.match_indices(first).filter_map(|(start, _)| Some(start..ends(start)?)).collect()
}

/// Reads every list below `folder`.
pub(super) fn read(folder: &Path) -> Result<Vec<Mutant>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.context("cannot list the mutants")?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    let mut mutants = Vec::new();
    for path in paths {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        mutants.extend(parse(&text).with_context(|| path.display().to_string())?);
    }
    let mut names = BTreeSet::new();
    for mutant in &mutants {
        ensure!(names.insert(&mutant.name), "two mutants are called `{}`", mutant.name);
    }
    Ok(mutants)
}

/// Reads one list. A second-level heading begins a mutant; prose is free but for lines that begin with a key.
fn parse(text: &str) -> Result<Vec<Mutant>> {
    let mut mutants: Vec<Mutant> = Vec::new();
    let mut path = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("## ") {
            mutants.push(Mutant { name: name.trim().to_owned(), ..Mutant::default() });
            path.clear();
            continue;
        }
        let Some(mutant) = mutants.last_mut() else { continue };
        if let Some(claim) = line.strip_prefix("Claim: ") {
            claim.clone_into(&mut mutant.claim);
        } else if let Some(test) = line.strip_prefix("Caught by: ") {
            mutant.tests.push(parse_test(test)?);
        } else if let Some(why) = line.strip_prefix("Hangs: ") {
            why.clone_into(&mut mutant.hangs);
        } else if let Some(file) = line.strip_prefix("File: ") {
            file.trim().clone_into(&mut path);
        } else if line == "```find" {
            let find = fenced(&mut lines)?;
            let name = &mutant.name;
            ensure!(!path.is_empty(), "`{name}` has a snippet without a file");
            ensure!(lines.next() == Some("```replace"), "`{name}`: a replacement follows each snippet");
            let replace = fenced(&mut lines)?;
            ensure!(find.split_whitespace().ne(replace.split_whitespace()), "`{name}` changes nothing");
            mutant.edits.push(Edit { path: path.clone(), find, replace });
        }
    }
    for mutant in &mutants {
        let Mutant { name, claim, tests, edits, .. } = mutant;
        ensure!(
            !claim.is_empty() && !tests.is_empty() && !edits.is_empty(),
            "`{name}` lacks claim, test or edit"
        );
    }
    Ok(mutants)
}

/// The lines up to the closing fence.
fn fenced<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Result<String> {
    let mut body = Vec::new();
    for line in lines {
        if line == "```" {
            return Ok(body.join("\n"));
        }
        ensure!(
            !line.starts_with("```") && !line.starts_with("## "),
            "a fence is not closed before `{line}`"
        );
        body.push(line);
    }
    bail!("a fence is not closed")
}

fn parse_test(text: &str) -> Result<Test> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [package, binary, filter] = words[..] else {
        bail!("`Caught by: {text}` is not package, binary, start of the test's name");
    };
    Ok(Test { package: package.to_owned(), binary: binary.to_owned(), filter: filter.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
# Mutants

Some words.

## flush-removed
Claim: written is written.
Caught by: dolmen-a it crash::
Hangs: it waits for the flush.
File: crates/a/src/lib.rs
```find
flush(a,
  b);
```
```replace
drop(b);
```
";

    #[test]
    fn a_list_is_read() {
        let mutants = parse(LIST).expect("a list");
        let [mutant] = &mutants[..] else { panic!("{mutants:?}") };
        assert_eq!((mutant.name.as_str(), mutant.claim.as_str()), ("flush-removed", "written is written."));
        assert_eq!(mutant.tests[0].filter, "crash::");
        assert_eq!(mutant.hangs, "it waits for the flush.");
        assert_eq!(mutant.edits[0].place("x flush(a, b); y").expect("once"), 2..14);
        assert_eq!(mutant.edits[0].replace, "drop(b);");
    }

    #[test]
    fn a_snippet_occurs_exactly_once() {
        let edit = Edit { path: "p".into(), find: "a b".into(), replace: "c".into() };
        assert!(edit.place("a  c").is_err());
        assert!(edit.place("a b a\n  b").is_err());
        assert!(edit.place("ab").is_err());
        assert_eq!(edit.place("(a\n\tb)").expect("once"), 1..5);
    }

    #[test]
    fn incomplete_mutants_are_refused() {
        for (from, to) in [
            ("Claim: written is written.\n", ""),
            ("Caught by: dolmen-a it crash::\n", ""),
            ("Caught by: dolmen-a it crash::\n", "Caught by: dolmen-a\n"),
            ("File: crates/a/src/lib.rs\n", ""),
            ("```replace\n", "```other\n"),
            ("drop(b);", "flush(a, b);"),
            ("drop(b);\n```\n", "drop(b);\n## another\n```find\n```\n"),
            ("drop(b);\n", "drop(b);\n```find\n"),
        ] {
            assert!(parse(&LIST.replace(from, to)).is_err(), "{from}");
        }
    }
}
