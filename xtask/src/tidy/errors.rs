//! Errors are for callers: one public enum per crate, typed fields, the cause kept.

use super::Finding;
use crate::source::lexer::{Kind, Token};
use crate::source::{SourceFile, Tree};

/// Crates that talk to people and may erase or format errors.
pub(super) const FREE: [&str; 4] = ["cli", "xtask", "sim", "bench"];

/// Field names behind which a message hides.
const MESSAGES: [&str; 7] = ["message", "msg", "reason", "detail", "details", "description", "text"];

/// An enum whose name ends in `Error` or `ErrorKind`.
pub(super) struct ErrorEnum {
    pub(super) line: usize,
    pub(super) public: bool,
    pub(super) variants: Vec<Variant>,
}

/// One variant of an error enum.
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) line: usize,
    /// Its only content is a string.
    pub(super) stringly: bool,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, file) in tree.sources().filter(|(name, file)| !FREE.contains(name) && !file.is_test) {
        for variant in enums(file).into_iter().flat_map(|e| e.variants).filter(|v| v.stringly) {
            let what = format!("error variant `{}` holds a bare string", variant.name);
            let remedy = "give it typed fields that say which object, and the cause as `source`";
            found.push(Finding::new(&file.path, variant.line, what, remedy));
        }
        for line in stringly_lines(file) {
            let remedy = "return a variant with typed fields; keep the cause";
            found.push(Finding::new(
                &file.path,
                line,
                format!("error turned into a string in `{name}`"),
                remedy,
            ));
        }
    }
    found.extend(surplus_enums(tree));
    found
}

fn surplus_enums(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in &tree.crates {
        let public = package
            .production_files()
            .flat_map(|f| enums(f).into_iter().filter(|e| e.public).map(move |e| (f, e)));
        for (file, surplus) in public.skip(1) {
            let what = format!("`{}` has a second public error enum", package.name);
            found.push(Finding::new(
                &file.path,
                surplus.line,
                what,
                "merge it into the crate's one enum, or make it private",
            ));
        }
    }
    found
}

/// Error enums of the production code of one file.
pub(super) fn enums(file: &SourceFile) -> Vec<ErrorEnum> {
    let mut found = Vec::new();
    for (at, token) in file.production().filter(|(_, t)| t.is("enum")) {
        let name = file.tokens.get(at + 1).map_or("", |t| t.text.as_str());
        let Some(open) = (at..file.tokens.len()).find(|i| file.tokens[*i].is("{")) else { continue };
        if name.ends_with("Error") || name.ends_with("ErrorKind") {
            let public = at > 0 && file.tokens[at - 1].is("pub");
            let body = &file.tokens[open + 1..file.closing(open)];
            found.push(ErrorEnum { line: token.line, public, variants: variants(body) });
        }
    }
    found
}

fn variants(body: &[Token]) -> Vec<Variant> {
    split_at_commas(body).into_iter().filter_map(variant).collect()
}

/// Cuts at commas outside any bracket, also angle brackets.
fn split_at_commas(tokens: &[Token]) -> Vec<&[Token]> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "(" | "{" | "[" | "<" => depth += 1,
            ")" | "}" | "]" | ">" => depth -= 1,
            "," if depth == 0 => {
                parts.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[start..]);
    parts
}

fn variant(tokens: &[Token]) -> Option<Variant> {
    let mut at = 0;
    while tokens.get(at).is_some_and(|t| t.is("#")) {
        let close = tokens[at..].iter().scan(0_i32, |depth, t| {
            *depth += i32::from(t.is("[")) - i32::from(t.is("]"));
            Some(*depth)
        });
        at += close.enumerate().skip(2).find(|(_, depth)| *depth == 0).map_or(tokens.len(), |(i, _)| i + 1);
    }
    let name = tokens.get(at).filter(|t| t.kind == Kind::Ident)?;
    let content: Vec<&str> = tokens[at + 1..].iter().map(|t| t.text.as_str()).collect();
    Some(Variant { name: name.text.clone(), line: name.line, stringly: is_stringly(&content) })
}

fn is_stringly(content: &[&str]) -> bool {
    match content {
        ["(", "String", ")"] | ["(", "&", "'static", "str", ")"] | ["(", "Box", "<", "str", ">", ")"] => true,
        ["{", field, ":", rest @ .., "}"] if MESSAGES.contains(field) => {
            matches!(
                rest,
                ["String"] | ["String", ","] | ["&", "'static", "str"] | ["&", "'static", "str", ","]
            )
        }
        _ => false,
    }
}

/// Lines where an error becomes text: `map_err(.. to_string ..)`, `Err(format!(..))`, `anyhow!`, `Box<dyn Error>`.
pub(super) fn stringly_lines(file: &SourceFile) -> Vec<usize> {
    let mut lines = Vec::new();
    for (at, token) in file.production() {
        let hit = match token.text.as_str() {
            "map_err" | "Err" if file.matches(at + 1, &["("]) => {
                turns_to_text(&file.tokens[at + 2..file.closing(at + 1)])
            }
            "anyhow" | "bail" => file.matches(at + 1, &["!"]),
            "Box" => boxes_error(file, at),
            _ => false,
        };
        if hit && token.kind == Kind::Ident {
            lines.push(token.line);
        }
    }
    lines
}

/// Text made outside the braces of a variant's fields, or out of the closure's own error anywhere.
fn turns_to_text(inside: &[Token]) -> bool {
    let cause = inside.windows(3).find(|w| w[0].is("|") && w[2].is("|")).map(|w| w[1].text.as_str());
    let mut depth = 0_usize;
    for (at, token) in inside.iter().enumerate() {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "to_string"
                if at > 1
                    && inside[at - 1].is(".")
                    && (depth == 0 || Some(inside[at - 2].text.as_str()) == cause) =>
            {
                return true;
            }
            "format" if depth == 0 && inside.get(at + 1).is_some_and(|t| t.is("!")) => return true,
            _ => {}
        }
    }
    false
}

/// `Box<dyn Error`, with or without a path. A `source` field may be one: it keeps the cause.
fn boxes_error(file: &SourceFile, at: usize) -> bool {
    let path = file.tokens.iter().skip(at + 3).take_while(|t| t.kind == Kind::Ident || t.is(":"));
    let cause = at >= 2 && file.tokens[at - 2].is("source");
    file.matches(at + 1, &["<", "dyn"]) && path.last().is_some_and(|t| t.is("Error")) && !cause
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{lines, places, tree};
    use super::*;

    #[test]
    fn bare_strings_in_error_enums_are_found() {
        let text = "pub enum Error {\n /// Docs.\n #[x(\"a, b\")]\n Other(String),\n Io(Map<u8, String>),\n What { message: String },\n Missing { path: String, oid: u8 },\n}\nenum Shape { Text(String) }\n";
        assert_eq!(lines(check, text), [4, 6]);
    }

    #[test]
    fn errors_turned_into_text_are_found() {
        let text = "fn f() {\n x.map_err(|e| E(e.to_string()));\n Err(format!(\"x\"));\n Err(E::A { n: p.to_string() });\n x.map_err(|e| E::B { why: e.to_string() });\n}\nfn g() -> Result<(), Box<dyn std::error::Error>> {}\nstruct S { source: Box<dyn Error + Send> }\ntype C = Box<dyn Fn(&Error)>;\n";
        assert_eq!(lines(check, text), [2, 3, 5, 7]);
    }

    #[test]
    fn one_public_enum_per_crate() {
        let found = check(&tree(&[
            ("crates/dfs/src/a.rs", "pub enum Error { A }\nenum InnerError { B }\n"),
            ("crates/dfs/src/b.rs", "pub enum PathError { C }\n"),
        ]));
        assert_eq!(places(&found), ["crates/dfs/src/b.rs:1"]);
    }

    #[test]
    fn the_program_may_format() {
        let found = check(&tree(&[("crates/cli/src/a.rs", "fn f() { anyhow!(\"x\"); }\n")]));
        assert!(found.is_empty());
    }
}
