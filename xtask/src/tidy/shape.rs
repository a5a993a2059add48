//! Sizes: files, `lib.rs`, and what may stand in it. The share of long functions is a smell counter.

use super::Finding;
use crate::source::{SourceFile, Tree};

/// A newcomer reads a file in one sitting up to about here.
const FILE_CODE_LINES_MAX: usize = 1000;

/// A front page: docs, modules, re-exports.
const LIB_LINES_MAX: usize = 150;

/// Lines of a function above which it counts into the share of long ones.
pub(super) const FUNCTION_LINES_MAX: usize = 70;

const ITEMS: [&str; 5] = ["fn", "struct", "enum", "trait", "impl"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources().flat_map(|(_, file)| check_file(file)).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut found = Vec::new();
    let code = if file.is_test { file.token_line_count() } else { file.code_line_count() };
    if code > FILE_CODE_LINES_MAX {
        let what = format!("{code} code lines, above {FILE_CODE_LINES_MAX}");
        found.push(Finding::new(&file.path, 0, what, "split it by what a reader looks for"));
    }
    if is_front_page(&file.path) {
        found.extend(front_page(file));
    }
    if is_root(&file.path) && !file.lines.first().is_some_and(|l| l.starts_with("//!")) {
        let remedy = "begin with `//!` docs: what the crate is for, and its invariants";
        found.push(Finding::new(&file.path, 1, "crate without docs", remedy));
    }
    found
}

fn is_front_page(path: &str) -> bool {
    path.ends_with("/src/lib.rs")
}

fn is_root(path: &str) -> bool {
    is_front_page(path) || path.ends_with("/src/main.rs")
}

fn front_page(file: &SourceFile) -> Vec<Finding> {
    let mut found = Vec::new();
    let written = lib_line_count(file);
    if written > LIB_LINES_MAX {
        let what = format!("lib.rs has {written} lines, above {LIB_LINES_MAX}");
        found.push(Finding::new(
            &file.path,
            0,
            what,
            "keep docs, modules and re-exports; move the rest to modules",
        ));
    }
    let mut depth = 0_usize;
    for (_, token) in file.production() {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            text if depth == 0 && ITEMS.contains(&text) && token.is(text) => {
                let what = format!("`{text}` item in lib.rs");
                found.push(Finding::new(
                    &file.path,
                    token.line,
                    what,
                    "move it to a module and re-export it",
                ));
            }
            _ => {}
        }
    }
    found
}

/// Lines of a `lib.rs` that are neither blank nor tests; docs count, a front page is read whole.
pub(super) fn lib_line_count(file: &SourceFile) -> usize {
    (1..=file.lines.len()).filter(|l| !file.is_test_line(*l) && !file.lines[l - 1].trim().is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{places, tree};
    use super::*;

    #[test]
    fn long_files_are_found_and_comments_do_not_count() {
        let long = "fn f() {}\n".repeat(1001);
        let commented = "// why\nfn f() {}\n\n".repeat(1000);
        let tree = tree(&[("crates/env/src/a.rs", &long), ("crates/env/src/b.rs", &commented)]);
        assert_eq!(places(&check(&tree)), ["crates/env/src/a.rs:0"]);
    }

    #[test]
    fn a_front_page_is_short_and_holds_no_items() {
        let long = format!("//! Docs.\n{}", "pub mod a;\n".repeat(150));
        let item = "//! Docs.\npub use a::{B, C};\npub struct S {\n    f: fn(),\n}\n#[cfg(test)]\nmod t { fn x() {} }\n";
        let tree = tree(&[("crates/env/src/lib.rs", &long), ("crates/dfs/src/lib.rs", item)]);
        assert_eq!(places(&check(&tree)), ["crates/dfs/src/lib.rs:3", "crates/env/src/lib.rs:0"]);
    }

    #[test]
    fn a_crate_begins_with_its_docs() {
        let tree = tree(&[("crates/env/src/lib.rs", "mod a;\n")]);
        assert_eq!(places(&check(&tree)), ["crates/env/src/lib.rs:1"]);
    }
}
