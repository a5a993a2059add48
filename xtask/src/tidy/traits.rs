//! Two implementors make a trait; one makes a function. A trait with one says why in `// One implementor: <why>`.

use super::Finding;
use crate::source::lexer::Kind;
use crate::source::{SourceFile, Tree};
use std::collections::BTreeMap;

/// Test doubles are implementors only here: behind `env`, and behind the trait that the model implements.
const DOUBLES_COUNT_BEHIND: &str = "TargetStore";

/// The words that excuse a trait.
const EXCUSE: &str = "One implementor:";

/// A trait with at most one implementor and no excuse.
pub(super) struct Single {
    pub(super) crate_name: String,
    pub(super) path: String,
    pub(super) line: usize,
    name: String,
    implementor_count: usize,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    singles(tree)
        .into_iter()
        .map(|single| {
            let what = format!("trait `{}` has {} implementor(s)", single.name, single.implementor_count);
            let remedy = format!("make it a function or a type, or say `// {EXCUSE} <why>` above it");
            Finding::new(&single.path, single.line, what, remedy)
        })
        .collect()
}

/// Unexcused single-implementor traits of the whole workspace.
pub(super) fn singles(tree: &Tree) -> Vec<Single> {
    let mut production = BTreeMap::new();
    let mut doubles = BTreeMap::new();
    for (name, file) in tree.sources() {
        count_implementors(file, name == "sim", &mut production, &mut doubles);
    }
    let mut found = Vec::new();
    for (crate_name, file) in tree.sources() {
        for (line, name) in declared(file) {
            let counts_doubles = crate_name == "env" || name == DOUBLES_COUNT_BEHIND;
            let extra = if counts_doubles { doubles.get(&name).copied().unwrap_or(0) } else { 0 };
            let implementor_count = production.get(&name).copied().unwrap_or(0) + extra;
            let excused = file.comments_above(line).any(|c| c.body().contains(EXCUSE));
            if implementor_count <= 1 && !excused {
                let (crate_name, path) = (crate_name.to_owned(), file.path.clone());
                found.push(Single { crate_name, path, line, name, implementor_count });
            }
        }
    }
    found
}

/// Line and name of every trait declared in production code.
pub(super) fn declared(file: &SourceFile) -> Vec<(usize, String)> {
    let named = file.production().filter(|(at, token)| {
        token.is("trait") && file.tokens.get(at + 1).is_some_and(|t| t.kind == Kind::Ident)
    });
    named.map(|(at, token)| (token.line, file.tokens[at + 1].text.clone())).collect()
}

fn count_implementors(
    file: &SourceFile,
    all_doubles: bool,
    production: &mut BTreeMap<String, usize>,
    doubles: &mut BTreeMap<String, usize>,
) {
    for (at, token) in file.tokens.iter().enumerate().filter(|(_, t)| t.is("impl")) {
        let Some((name, weight)) = implemented(file, at) else { continue };
        let counts =
            if all_doubles || file.is_test_line(token.line) { &mut *doubles } else { &mut *production };
        *counts.entry(name).or_default() += weight;
    }
}

/// The trait of the `impl ... for` at this token. An impl for a macro variable stands for many.
fn implemented(file: &SourceFile, at: usize) -> Option<(String, usize)> {
    let mut depth = 0_i32;
    let mut name = None;
    let mut previous = "";
    for (i, token) in file.tokens.iter().enumerate().skip(at + 1).take(200) {
        match token.text.as_str() {
            "<" => depth += 1,
            ">" if previous != "-" => depth -= 1,
            "for" if depth == 0 && !file.matches(i + 1, &["<"]) => {
                let weight = if file.matches(i + 1, &["$"]) { 2 } else { 1 };
                return name.map(|n| (n, weight));
            }
            "{" | ";" => return None,
            _ if depth == 0 && token.kind == Kind::Ident => name = Some(token.text.clone()),
            _ => {}
        }
        previous = &token.text;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{lines, places, tree};
    use super::*;

    #[test]
    fn one_implementor_is_not_enough() {
        assert_eq!(lines(check, "trait A {}\nimpl A for X {}\n"), [1]);
        assert_eq!(
            lines(check, "trait A {}\nimpl A for X {}\nimpl<T: Fn(u8) -> u8> a::A for Vec<T> {}\n"),
            [0_usize; 0]
        );
        assert_eq!(
            lines(check, "trait A<T> {}\nmacro_rules! m { ($t:ty) => { impl A<u8> for $t {} } }\n"),
            [0_usize; 0]
        );
    }

    #[test]
    fn a_reason_excuses() {
        assert_eq!(
            lines(check, "/// Docs.\n// One implementor: users plug in theirs.\n#[x]\npub trait A {}\n"),
            [0_usize; 0]
        );
    }

    #[test]
    fn doubles_count_only_behind_env_and_the_store() {
        let test = "#[cfg(test)]\nmod tests { impl Disk for F {} impl Other for F {} }\n";
        let found = check(&tree(&[
            ("crates/env/src/a.rs", "pub trait Disk {}\nimpl Disk for Real {}\n"),
            ("crates/engine/src/a.rs", "pub trait Other {}\nimpl Other for Real {}\n"),
            ("crates/engine/src/b.rs", test),
            ("crates/types/src/a.rs", "pub trait TargetStore {}\nimpl TargetStore for Target {}\n"),
            ("crates/sim/src/a.rs", "impl TargetStore for Model {}\n"),
        ]));
        assert_eq!(places(&found), ["crates/engine/src/a.rs:1"]);
    }
}
