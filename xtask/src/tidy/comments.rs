//! Comments say why. Not: the next line again, numbered steps, banners, code that was switched off.

use super::Finding;
use crate::source::lexer::{Comment, CommentKind};
use crate::source::{SourceFile, Tree};
use std::collections::BTreeSet;

/// Longer comments say more than the line below, whatever words they share with it.
const RESTATING_WORDS_MAX: usize = 5;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (_, file) in tree.sources() {
        let mut push =
            |line, what: &str, remedy: &str| found.push(Finding::new(&file.path, line, what, remedy));
        for line in banners(file) {
            push(line, "banner", "delete it; a module that needs chapters is two modules");
        }
        for line in restating(file) {
            push(line, "comment restates the next line", "say why, or delete it");
        }
        for line in numbered(file) {
            push(line, "numbered step", "make the steps functions; their names tell the story");
        }
        for line in dead_code(file) {
            push(line, "code in a comment", "delete it; the history keeps it");
        }
    }
    found
}

/// Comments for maintainers that stand alone on their line.
fn plain(file: &SourceFile) -> impl Iterator<Item = &Comment> {
    file.comments.iter().filter(|c| c.kind == CommentKind::Line && c.alone)
}

/// Lines that draw instead of say.
pub(super) fn banners(file: &SourceFile) -> Vec<usize> {
    let drawn = |c: &&Comment| c.body().chars().take(4).filter(|c| "=-─━*#~".contains(*c)).count() == 4;
    plain(file).filter(drawn).map(|c| c.line).collect()
}

/// Short comments most of whose words stand in the code right below.
pub(super) fn restating(file: &SourceFile) -> Vec<usize> {
    plain(file).filter(|c| restates(file, c)).map(|c| c.line).collect()
}

fn restates(file: &SourceFile, comment: &Comment) -> bool {
    let line = |number: usize| file.lines.get(number - 1).map_or("", |l| l.trim());
    let next = line(comment.line + 1);
    let continues = comment.line > 1 && line(comment.line - 1).starts_with("//");
    if continues || next.is_empty() || next.starts_with("//") {
        return false;
    }
    let said = words(comment.body());
    let shared = said.intersection(&words(next)).count();
    (1..=RESTATING_WORDS_MAX).contains(&said.len()) && shared >= 1 && shared * 10 >= said.len() * 6
}

/// Lower-case words of three letters and more; `CamelCase` and `snake_case` are taken apart.
fn words(text: &str) -> BTreeSet<String> {
    let mut spaced = String::new();
    let mut previous = ' ';
    for c in text.chars() {
        if previous.is_lowercase() && c.is_uppercase() {
            spaced.push(' ');
        }
        spaced.push(c);
        previous = c;
    }
    let parts = spaced.split(|c: char| !c.is_ascii_alphabetic());
    parts.filter(|w| w.len() >= 3).map(str::to_lowercase).collect()
}

fn numbered(file: &SourceFile) -> Vec<usize> {
    let is_step = |c: &&Comment| {
        let body = c.body().to_lowercase();
        let rest = body.strip_prefix("step ").or_else(|| body.strip_prefix("phase ")).unwrap_or(&body);
        let digits = rest.chars().take_while(char::is_ascii_digit).count();
        let after: Vec<char> = rest.chars().skip(digits).take(2).collect();
        digits > 0 && (rest.len() < body.len() || matches!(after.as_slice(), ['.' | ')' | ':', ' ']))
    };
    plain(file).filter(is_step).map(|c| c.line).collect()
}

fn dead_code(file: &SourceFile) -> Vec<usize> {
    let is_code = |c: &&Comment| {
        let body = c.body();
        let starts = ["mod ", "let ", "fn ", "pub ", "use ", "impl "].iter().any(|s| body.starts_with(s));
        starts && body.ends_with(['{', ';'])
    };
    plain(file).filter(is_code).map(|c| c.line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::lines;
    use super::*;

    #[test]
    fn restating_comments_are_found() {
        let text = "fn f() {\n    // Update the index\n    update_index();\n    // The lease may have ended meanwhile.\n    update_index();\n}\n";
        assert_eq!(lines(check, text), [2]);
    }

    #[test]
    fn banners_and_steps_are_found() {
        let text = "// ======\n// --- Part two ---\n// ---- x\n// Step 2: flush\n// 3. sync\n// 3.5 ms is the budget here.\nfn f() {}\n";
        assert_eq!(lines(check, text), [1, 3, 4, 5]);
    }

    #[test]
    fn code_in_comments_is_found() {
        assert_eq!(lines(check, "// let x = 1;\n// use the old map; it is smaller\nfn f() {}\n"), [1]);
    }

    #[test]
    fn docs_may_number_and_citations_are_no_banners() {
        assert_eq!(lines(check, "/// 1. first\n//= posix:open\nfn f() {}\n"), [0_usize; 0]);
    }
}
