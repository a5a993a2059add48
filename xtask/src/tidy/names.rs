//! Names that say nothing, and imports that hide where a name comes from.

use super::Finding;
use crate::source::lexer::Kind;
use crate::source::{Function, SourceFile, Tree};

/// Parts of a type or module name that stand where a noun should.
const EMPTY_NOUNS: [&str; 8] =
    ["Manager", "Helper", "Util", "Handler", "Processor", "Enhanced", "Improved", "Wrapper"];

/// Whole module names that collect what has no place.
const EMPTY_MODULES: [&str; 8] =
    ["util", "utils", "helper", "helpers", "common", "misc", "manager", "handler"];

/// Prefixes that tell the history of a thing instead of what it is.
const HISTORY: [&str; 4] = ["new_", "enhanced_", "improved_", "better_"];

const DECLARE: [&str; 8] = ["fn", "struct", "enum", "trait", "mod", "type", "const", "static"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (_, file) in tree.sources() {
        found.extend(declarations(file));
        found.extend(file.functions.iter().filter(|f| !f.in_test).filter_map(|f| getter(file, f)));
        found.extend(globs(file));
    }
    found
}

/// Line and name of every item declared outside tests.
pub(super) fn declared(file: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    let keywords = file.production().filter(|(_, token)| DECLARE.iter().any(|d| token.is(d)));
    keywords.filter_map(|(at, token)| {
        let name = file.tokens.get(at + 1).filter(|t| t.kind == Kind::Ident)?;
        Some((token.line, name.text.as_str()))
    })
}

/// Whether a name stands for nothing in particular.
pub(super) fn is_empty_name(name: &str) -> bool {
    let versioned = name.ends_with("V2") || name.ends_with("Handler2") || name.ends_with("_v2");
    versioned || EMPTY_NOUNS.iter().any(|noun| name.contains(noun)) || EMPTY_MODULES.contains(&name)
}

fn declarations(file: &SourceFile) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, name) in declared(file) {
        if is_empty_name(name) {
            let what = format!("`{name}` does not say what it is");
            found.push(Finding::new(
                &file.path,
                line,
                what,
                "use a noun of docs/glossary.md, or the verb it performs",
            ));
        }
        if HISTORY.iter().any(|prefix| name.starts_with(prefix)) {
            let what = format!("`{name}` tells its history");
            found.push(Finding::new(&file.path, line, what, "name what it does and remove what it replaces"));
        }
    }
    let stem = file.path.rsplit('/').next().map_or("", |f| f.trim_end_matches(".rs"));
    if ["_helper", "_helpers", "_util", "_utils", "_common", "_v2"].iter().any(|end| stem.ends_with(end)) {
        found.push(Finding::new(
            &file.path,
            0,
            "file name says nothing",
            "name the concept that the file holds",
        ));
    }
    found
}

/// `get_x(&self)` is `x(&self)`. With further parameters it is a verb, as in `kv.get_many(keys)`.
fn getter(file: &SourceFile, function: &Function) -> Option<Finding> {
    let rest = function.name.strip_prefix("get_").filter(|rest| !matches!(*rest, "mut" | "unchecked"))?;
    let signature = &file.tokens[function.signature.clone()];
    let open = signature.iter().position(|t| t.is("("))?;
    let parameters = signature[open + 1..].iter().take_while(|t| !t.is(")"));
    let only_receiver =
        parameters.filter(|t| t.kind == Kind::Ident && !t.is("mut")).map(|t| t.is("self")).eq([true]);
    only_receiver.then(|| {
        let what = format!("getter `{}`", function.name);
        Finding::new(&file.path, function.first_line, what, format!("call it `{rest}`"))
    })
}

fn globs(file: &SourceFile) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, _) in file.production().filter(|(_, t)| t.is("use")) {
        let rest = file.tokens.iter().skip(at).take_while(|t| !t.is(";"));
        if let Some(star) = rest.into_iter().find(|t| t.is("*")) {
            found.push(Finding::new(&file.path, star.line, "glob import", "list the names that are used"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixture::lines;
    use super::*;

    #[test]
    fn empty_names_are_found_where_declared() {
        let text = "struct PoolManager;\nmod utils;\nfn new_index() {}\nstruct Frame;\nlet new_len = 1;\nuse x::Helper;\n";
        assert_eq!(lines(check, text), [1, 2, 3]);
    }

    #[test]
    fn versions_in_names_are_found() {
        assert_eq!(lines(check, "struct BlockV2;\nfn read_v2() {}\nstruct RP_2;\n"), [1, 2]);
    }

    #[test]
    fn getters_have_no_prefix() {
        let text = "impl A {\n fn get_epoch(&self) -> u64 { 1 }\n fn get_mut(&mut self) {}\n fn get_many(&self, n: u8) {}\n}\nfn get_prop(a: u8) {}\n";
        assert_eq!(lines(check, text), [2]);
    }

    #[test]
    fn globs_are_for_tests() {
        let text = "use a::*;\nuse b::{c, d::*};\nuse e::F;\n#[cfg(test)]\nmod tests { use super::*; }\n";
        assert_eq!(lines(check, text), [1, 2]);
    }
}
