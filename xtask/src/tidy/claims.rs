//! A claim in the README or docs/semantics.md names the test that proves it.
//!
//! The form is a markdown table with a column `test`. Each of its cells holds one or more names in backquotes:
//! `` `crates/x/tests/it/file.rs::name` `` (a file and a function in it) or `` `x::module::name` `` (a crate and a
//! test in it). Conformance cases are no `#[test]` functions of their own, so a function under `conformance` counts.
//! Names of the first form are checked wherever they stand in a document.

use super::Finding;
use crate::source::{Document, SourceFile, Tree};

const REMEDY: &str = "write `crates/x/tests/it/file.rs::name` of an existing test, in backquotes";

/// The crate of the style guide's examples.
const EXAMPLE: &str = "crates/x/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.markdown().flat_map(|document| check_document(tree, document)).collect()
}

fn check_document(tree: &Tree, document: &Document) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, reference) in
        backquoted(&document.text).filter(|(_, r)| r.contains(".rs::") && !r.starts_with(EXAMPLE))
    {
        if !file_form(tree, reference) {
            found.push(Finding::new(&document.path, line, format!("no test `{reference}`"), REMEDY));
        }
    }
    let tables = tables(&document.text);
    for table in &tables {
        match table.test_column() {
            Some(column) => found.extend(check_table(tree, document, table, column)),
            None if document.path == "docs/semantics.md" => {
                found.push(Finding::new(&document.path, table.line, "table without a column `test`", REMEDY));
            }
            None => {}
        }
    }
    if document.path == "README.md" && !tables.iter().any(|t| t.test_column().is_some()) {
        let remedy = "put the claims into a table with a column `test` that names the proof of each";
        found.push(Finding::new(&document.path, 0, "no claim names its test", remedy));
    }
    found
}

fn check_table(tree: &Tree, document: &Document, table: &Table, column: usize) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, cells) in &table.rows {
        let cell = cells.get(column).map_or("", String::as_str);
        let names: Vec<&str> = backquoted(cell).map(|(_, name)| name).collect();
        if names.is_empty() {
            found.push(Finding::new(&document.path, *line, "row names no test", REMEDY));
        }
        for name in names.iter().filter(|n| !n.contains(".rs::") && !path_form(tree, n)) {
            found.push(Finding::new(&document.path, *line, format!("no test `{name}`"), REMEDY));
        }
    }
    found
}

/// A run of lines that begin with `|`; the first is the header, the second the rule.
struct Table {
    line: usize,
    header: Vec<String>,
    rows: Vec<(usize, Vec<String>)>,
}

impl Table {
    fn test_column(&self) -> Option<usize> {
        self.header
            .iter()
            .position(|cell| matches!(cell.to_lowercase().as_str(), "test" | "tests" | "proven by"))
    }
}

fn tables(text: &str) -> Vec<Table> {
    let mut found: Vec<Table> = Vec::new();
    let mut inside = false;
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        let is_row = !fenced && line.trim_start().starts_with('|');
        match found.last_mut().filter(|_| inside) {
            Some(table) if is_row => table.rows.push((index + 1, cells(line))),
            _ if is_row => found.push(Table { line: index + 1, header: cells(line), rows: Vec::new() }),
            _ => {}
        }
        inside = is_row;
    }
    for table in &mut found {
        table.rows.retain(|(_, cells)| !cells.iter().all(|c| c.chars().all(|c| matches!(c, '-' | ':'))));
    }
    found
}

fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// Line and content of every code span that closes on its line.
fn backquoted(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(index, line)| {
        let parts: Vec<&str> = line.split('`').collect();
        let closed = parts.len() - usize::from(parts.len().is_multiple_of(2));
        parts.into_iter().take(closed).skip(1).step_by(2).map(move |part| (index + 1, part))
    })
}

fn proves(file: &SourceFile, name: &str) -> bool {
    let is_case = file.path.contains("/conformance");
    file.functions.iter().any(|f| f.name == name && (f.is_test || is_case)) || is_in_c(file, name)
}

/// Whether a file runs a test of a C program by this name: `c_tests!("program": name, …)`.
fn is_in_c(file: &SourceFile, name: &str) -> bool {
    let lists = (0..file.tokens.len()).filter(|&at| file.matches(at, &["c_tests", "!", "("]));
    let mut names = lists.flat_map(|at| &file.tokens[at + 3..file.closing(at + 2)]);
    file.path.contains("/tests/") && names.any(|token| token.is(name))
}

fn file_form(tree: &Tree, reference: &str) -> bool {
    let Some((path, name)) = reference.split_once("::") else { return false };
    let name = name.rsplit("::").next().unwrap_or(name);
    tree.sources().any(|(_, file)| file.path == path && proves(file, name))
}

fn path_form(tree: &Tree, reference: &str) -> bool {
    let mut parts = reference.split("::");
    let package = parts.next().map_or("", |p| p.strip_prefix("dolmen_").unwrap_or(p));
    let Some(name) = parts.last() else { return false };
    tree.by_name(package).is_some_and(|c| c.files.iter().any(|file| proves(file, name)))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{places, tree};
    use super::*;

    const TEST: (&str, &str) =
        ("crates/dfs/tests/it/rename.rs", "#[test]\nfn is_atomic() { assert!(x()) }\nfn other() {}\n");
    const CASE: (&str, &str) = ("crates/sim/src/conformance/array.rs", "pub fn holes() {}\n");

    fn findings(path: &str, text: &str) -> Vec<String> {
        places(&check(&tree(&[TEST, CASE, (path, text)])))
    }

    #[test]
    fn rows_name_existing_tests() {
        let text = "# S\n\n| op | test |\n|---|---|\n| a | `crates/dfs/tests/it/rename.rs::is_atomic` |\n| b | `dfs::it::is_atomic` |\n| c | `crates/sim/src/conformance/array.rs::holes` |\n| d | |\n| e | `dfs::gone` |\n| f | `crates/dfs/tests/it/rename.rs::other` |\n";
        assert_eq!(
            findings("docs/semantics.md", text),
            ["docs/semantics.md:10", "docs/semantics.md:8", "docs/semantics.md:9"]
        );
    }

    #[test]
    fn tests_of_c_programs_are_tests() {
        let list =
            ("crates/capi/tests/it/kv.rs", "c_tests!(\"kv\": come_back,\n are_listed);\nfn other() {}\n");
        let text = "# S\n| op | test |\n|---|---|\n| a | `crates/capi/tests/it/kv.rs::are_listed` |\n| b | `crates/capi/tests/it/kv.rs::other` |\n";
        let found = places(&check(&tree(&[list, ("docs/semantics.md", text)])));
        assert_eq!(found, ["docs/semantics.md:5"]);
    }

    #[test]
    fn every_table_of_the_semantics_has_the_column() {
        assert_eq!(
            findings("docs/semantics.md", "# S\n| a | b |\n|---|---|\n| 1 | 2 |\n"),
            ["docs/semantics.md:2"]
        );
        assert_eq!(findings("docs/other.md", "# S\n| a | b |\n|---|---|\n| 1 | 2 |\n"), [""; 0]);
    }

    #[test]
    fn the_readme_has_a_table_of_claims() {
        assert_eq!(findings("README.md", "# D\n"), ["README.md:0"]);
        assert_eq!(
            findings("README.md", "# D\n| claim | test |\n|---|---|\n| a | `dfs::is_atomic` |\n"),
            [""; 0]
        );
    }

    #[test]
    fn references_are_checked_in_prose_too() {
        assert_eq!(
            findings("docs/x.md", "# X\nsee `crates/dfs/tests/it/rename.rs::gone`.\n"),
            ["docs/x.md:2"]
        );
    }
}
