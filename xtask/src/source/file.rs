//! One Rust file as the checks see it: tokens, comments, functions, and which lines are test code.

use super::lexer::{self, Comment, Kind, Lexed, Token};
use std::ops::Range;

/// Folders whose files are test code as a whole.
const TEST_FOLDERS: [&str; 4] = ["tests", "benches", "fuzz", "examples"];

/// A function with a body; ranges index `SourceFile::tokens`.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) first_line: usize,
    pub(crate) last_line: usize,
    /// From the name to the opening brace.
    pub(crate) signature: Range<usize>,
    pub(crate) body: Range<usize>,
    /// Inside test code of any kind.
    pub(crate) in_test: bool,
    /// Carries a `#[test]` attribute.
    pub(crate) is_test: bool,
}

impl Function {
    /// Lines from `fn` to the closing brace.
    pub(crate) fn line_count(&self) -> usize {
        self.last_line - self.first_line + 1
    }
}

/// A lexed file with its place in the repository.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) lines: Vec<String>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) comments: Vec<Comment>,
    pub(crate) functions: Vec<Function>,
    /// The whole file is test code.
    pub(crate) is_test: bool,
    test_lines: Vec<bool>,
}

impl SourceFile {
    /// Lexes `text`; `path` decides whether the file as a whole is test code.
    pub(crate) fn parse(path: &str, text: &str) -> SourceFile {
        let Lexed { tokens, comments } = lexer::lex(text);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let is_test = is_test_path(path);
        let test_lines = test_lines(&tokens, lines.len() + 2, is_test);
        let functions = functions(&tokens, &test_lines);
        SourceFile { path: path.to_owned(), lines, tokens, comments, functions, is_test, test_lines }
    }

    /// Whether the line (from 1) is test code.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.get(line).copied().unwrap_or(self.is_test)
    }

    /// Index and token of everything outside test code.
    pub(crate) fn production(&self) -> impl Iterator<Item = (usize, &Token)> {
        self.tokens.iter().enumerate().filter(|(_, t)| !self.is_test_line(t.line))
    }

    /// Lines with at least one token outside test code.
    pub(crate) fn code_line_count(&self) -> usize {
        count_lines(self.production().map(|(_, t)| t.line))
    }

    /// Lines with at least one token, test or not.
    pub(crate) fn token_line_count(&self) -> usize {
        count_lines(self.tokens.iter().map(|t| t.line))
    }

    /// Whether the tokens from `at` on are exactly `pattern`, identifiers and punctuation written one by one.
    pub(crate) fn matches(&self, at: usize, pattern: &[&str]) -> bool {
        pattern.iter().enumerate().all(|(i, text)| self.tokens.get(at + i).is_some_and(|t| t.is(text)))
    }

    /// Index of the bracket that closes the one at `open`; the last token if none does.
    pub(crate) fn closing(&self, open: usize) -> usize {
        closing(&self.tokens, open)
    }

    /// The comment block that ends on the line before `line`, attributes between skipped, plus one on the line.
    pub(crate) fn comments_above(&self, line: usize) -> impl Iterator<Item = &Comment> {
        let mut first = line;
        while first > 1 && self.is_comment_or_attribute(first - 1) {
            first -= 1;
        }
        self.comments.iter().filter(move |c| (first..=line).contains(&c.line))
    }

    fn is_comment_or_attribute(&self, line: usize) -> bool {
        let text = self.lines.get(line - 1).map_or("", |l| l.trim_start());
        text.starts_with("//") || text.starts_with("#[")
    }
}

fn count_lines(lines: impl Iterator<Item = usize>) -> usize {
    let mut last = 0;
    lines.filter(|line| std::mem::replace(&mut last, *line) != *line).count()
}

/// Whether every line of the file at this path is test code.
pub(crate) fn is_test_path(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').collect();
    let file = parts.pop().unwrap_or("");
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    parts.iter().any(|part| TEST_FOLDERS.contains(part))
        || matches!(stem, "test" | "tests")
        || stem.ends_with("_test")
        || stem.ends_with("_tests")
}

fn closing(tokens: &[Token], open: usize) -> usize {
    let Some(opener) = tokens.get(open).map(|t| t.text.as_str()) else { return open };
    let closer = match opener {
        "{" => "}",
        "(" => ")",
        "[" => "]",
        _ => return open,
    };
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.is(opener) {
            depth += 1;
        } else if token.is(closer) {
            depth -= 1;
            if depth == 0 {
                return at;
            }
        }
    }
    tokens.len() - 1
}

/// Index past the attribute whose `#` stands at `at`.
fn attribute_end(tokens: &[Token], at: usize) -> usize {
    closing(tokens, at + 1) + 1
}

fn is_attribute(tokens: &[Token], at: usize) -> bool {
    tokens.get(at).is_some_and(|t| t.is("#")) && tokens.get(at + 1).is_some_and(|t| t.is("["))
}

/// `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, ...))]`: whatever follows is test code. `any` may also be production.
fn marks_test(tokens: &[Token], at: usize) -> bool {
    let words: Vec<&str> =
        tokens[at + 2..attribute_end(tokens, at) - 1].iter().map(|t| t.text.as_str()).collect();
    match words.as_slice() {
        ["test"] => true,
        ["cfg", "(", "test", ..] => true,
        ["cfg", "(", "all", "(", inner @ ..] => inner.contains(&"test"),
        _ => false,
    }
}

fn test_lines(tokens: &[Token], line_count: usize, whole: bool) -> Vec<bool> {
    let mut marks = vec![whole; line_count + 1];
    let mut at = 0;
    while !whole && at < tokens.len() {
        if !(is_attribute(tokens, at) && marks_test(tokens, at)) {
            at += 1;
            continue;
        }
        let end = item_end(tokens, attribute_end(tokens, at));
        let last = tokens[end].line.min(line_count);
        marks[tokens[at].line..=last].fill(true);
        at = end + 1;
    }
    marks
}

/// Index of the `;` or `}` that ends the item starting at `from` (its attributes included).
fn item_end(tokens: &[Token], from: usize) -> usize {
    let mut at = from;
    while is_attribute(tokens, at) {
        at = attribute_end(tokens, at);
    }
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "{" => return closing(tokens, at),
            "(" | "[" => at = closing(tokens, at),
            ";" => return at,
            _ => {}
        }
        at += 1;
    }
    tokens.len() - 1
}

fn functions(tokens: &[Token], test_lines: &[bool]) -> Vec<Function> {
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let named = tokens[at].is("fn") && tokens.get(at + 1).is_some_and(|t| t.kind == Kind::Ident);
        let Some(open) = named.then(|| body_start(tokens, at + 1)).flatten() else { continue };
        let end = closing(tokens, open);
        let first_line = tokens[at].line;
        found.push(Function {
            name: tokens[at + 1].text.clone(),
            first_line,
            last_line: tokens[end].line,
            signature: at + 1..open,
            body: open..end + 1,
            in_test: test_lines[first_line],
            is_test: has_test_attribute(tokens, at),
        });
    }
    found
}

/// Index of the brace that opens the body; `None` for a declaration without one.
fn body_start(tokens: &[Token], from: usize) -> Option<usize> {
    let mut at = from;
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "{" => return Some(at),
            ";" => return None,
            "(" | "[" => at = closing(tokens, at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Walks back over qualifiers and attributes before `fn` and looks for `test`, also as `some::test`.
fn has_test_attribute(tokens: &[Token], fn_at: usize) -> bool {
    let mut at = fn_at;
    while at > 0 && matches!(tokens[at - 1].text.as_str(), "pub" | "async" | "const" | "unsafe" | "extern") {
        at -= 1;
    }
    while at > 0 && tokens[at - 1].is("]") {
        let Some(open) =
            (0..at - 1).rev().find(|i| is_attribute(tokens, *i) && attribute_end(tokens, *i) == at)
        else {
            return false;
        };
        let name = tokens[open + 2..at - 1].iter().take_while(|t| !t.is("(")).last();
        if name.is_some_and(|t| t.is("test")) {
            return true;
        }
        at = open;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
//! Head.
pub fn long(a: [u8; 2]) -> u8 {
    a[0]
}

trait T {
    fn declared(&self);
}

#[cfg(test)]
mod tests {
    #[test]
    #[should_panic(expected = \"x\")]
    fn claims() {
        assert!(false, \"x\");
    }
    fn helper() {}
}
";

    #[test]
    fn functions_know_their_lines_and_whether_they_are_tests() {
        let file = SourceFile::parse("crates/x/src/a.rs", TEXT);
        let seen: Vec<_> =
            file.functions.iter().map(|f| (f.name.as_str(), f.line_count(), f.in_test, f.is_test)).collect();
        assert_eq!(seen, [("long", 3, false, false), ("claims", 3, true, true), ("helper", 1, true, false)]);
    }

    #[test]
    fn code_lines_leave_out_comments_blanks_and_tests() {
        let file = SourceFile::parse("crates/x/src/a.rs", TEXT);
        assert_eq!(file.code_line_count(), 6);
        assert_eq!(SourceFile::parse("crates/x/tests/it/a.rs", TEXT).code_line_count(), 0);
    }

    #[test]
    fn a_test_item_without_braces_ends_at_its_semicolon() {
        let file = SourceFile::parse("a.rs", "#[cfg(test)]\nmod tests;\nfn f() {}\n");
        assert!(file.is_test_line(2));
        assert!(!file.is_test_line(3));
    }

    #[test]
    fn cfg_not_test_is_production() {
        let file = SourceFile::parse("a.rs", "#[cfg(not(test))]\nfn f() {}\n");
        assert!(!file.is_test_line(2));
    }

    #[test]
    fn paths_of_tests_are_known() {
        assert!(is_test_path("crates/engine/src/index/tests.rs"));
        assert!(is_test_path("crates/engine/tests/it/main.rs"));
        assert!(!is_test_path("crates/bench/src/latest.rs"));
    }

    #[test]
    fn comments_above_skip_attributes() {
        let file = SourceFile::parse("a.rs", "// Guards: x.\n#[derive(Debug)]\nstruct A;\n\nstruct B;\n");
        assert_eq!(file.comments_above(3).count(), 1);
        assert_eq!(file.comments_above(5).count(), 0);
    }
}
