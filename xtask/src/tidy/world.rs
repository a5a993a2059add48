//! Disk, network, processes and the environment are reached through `env`, so that all else can be simulated.

use super::Finding;
use crate::source::{SourceFile, Tree};

/// Crates that must run unchanged on the simulated world.
const SIMULATED: [&str; 8] = ["types", "codec", "layout", "engine", "cluster", "client", "local", "dfs"];

/// What copies the user's own files to and from a pool: they are input, which no simulation stands in for.
const COPIES_FILES: &str = "dfs/src/tree/";

/// Modules of the standard library that touch the world. `std::io` stays: its error type is everywhere.
const DOORS: [&str; 4] = ["fs", "net", "process", "thread"];

/// Of `std::thread`: a question and the names of types, which start and delay nothing.
const HARMLESS: [&str; 3] = ["panicking", "JoinHandle", "ScopedJoinHandle"];

/// Crates that may read environment variables: the door itself, the program, the libraries that C programs load (their
/// callers have no other way to say what they want), and tools that are never shipped.
const MAY_READ_VARIABLES: [&str; 8] =
    ["env", "cli", "capi", "preload", "xtask", "sim", "bench", "bench-compare"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, file) in tree.sources().filter(|(_, f)| !f.is_test) {
        if SIMULATED.contains(&name) && !file.path.contains(COPIES_FILES) {
            found.extend(doors(file));
        }
        if !MAY_READ_VARIABLES.contains(&name) {
            found.extend(variables(file));
        }
    }
    found
}

fn doors(file: &SourceFile) -> Vec<Finding> {
    let paths = file.production().filter(|(at, t)| t.is("std") && file.matches(at + 1, &[":", ":"]));
    let mut found = Vec::new();
    for (at, token) in paths {
        let Some(module) = file.tokens.get(at + 3) else { continue };
        let used = file.tokens.get(at + 6).map_or("", |t| t.text.as_str());
        let harmless = module.is("thread") && HARMLESS.contains(&used);
        if DOORS.iter().any(|door| module.is(door)) && !harmless {
            let what = format!("`std::{}` outside `env`", module.text);
            found.push(Finding::new(
                &file.path,
                token.line,
                what,
                "take it from `dolmen-env`; add it there if it is missing",
            ));
        }
    }
    found
}

fn variables(file: &SourceFile) -> Vec<Finding> {
    let reads = file.production().filter(|(at, t)| {
        t.is("env")
            && file.matches(at + 1, &[":", ":"])
            && file.tokens.get(at + 3).is_some_and(|t| t.text.starts_with("var"))
    });
    let remedy = "pass it as an argument or a validated setting; only cli and env read the environment";
    reads
        .map(|(_, t)| Finding::new(&file.path, t.line, "environment variable in production code", remedy))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{lines, places, tree};
    use super::*;

    #[test]
    fn the_world_is_behind_env() {
        let text = "use std::fs::File;\nuse std::collections::BTreeMap;\nfn f() { std::thread::panicking(); }\n#[cfg(test)]\nmod t { use std::fs; }\n";
        assert_eq!(lines(check, text), [1]);
    }

    #[test]
    fn variables_are_read_by_the_program_only() {
        let text = "fn f() { std::env::var(\"X\"); env::args(); env!(\"Y\"); }\n";
        let found = check(&tree(&[("crates/client/src/a.rs", text), ("crates/cli/src/a.rs", text)]));
        assert_eq!(places(&found), ["crates/client/src/a.rs:1"]);
    }
}
