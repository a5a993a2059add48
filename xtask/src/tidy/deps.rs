//! The table of crate dependencies, and the manifests that carry it.

use super::Finding;
use crate::source::manifest::{Dependency, Table};
use crate::source::{Crate, Tree};

/// What a crate may name in `[dependencies]`.
enum Allowed {
    Only(&'static [&'static str]),
    /// Everything of the workspace except these.
    AllBut(&'static [&'static str]),
}

/// What every door may see of the workspace; doors never depend on each other.
const DOOR: Allowed = Allowed::Only(&["types", "codec", "env", "client", "dfs", "local", "net"]);

/// The table. A crate that is not in it fails, so that its place is decided when it is created.
const LAYERS: [(&str, Allowed); 24] = [
    ("types", Allowed::Only(&[])),
    ("codec", Allowed::Only(&["types"])),
    ("layout", Allowed::Only(&["types"])),
    ("env", Allowed::Only(&["types"])),
    ("engine", Allowed::Only(&["types", "codec", "env"])),
    ("client", Allowed::Only(&["types", "codec", "layout", "env"])),
    ("cluster", Allowed::Only(&["types", "codec", "layout", "env", "engine"])),
    ("local", Allowed::Only(&["types", "codec", "layout", "env", "engine", "client", "cluster"])),
    ("dfs", Allowed::Only(&["types", "client", "env"])),
    ("net", Allowed::Only(&["types", "codec", "env"])),
    ("daemon", Allowed::Only(&["types", "codec", "env", "client", "dfs", "fuse", "local", "net"])),
    ("capi", DOOR),
    ("preload", DOOR),
    ("fuse", DOOR),
    ("s3", DOOR),
    (
        "python",
        Allowed::Only(&["types", "codec", "env", "client", "dfs", "local", "net", "remote", "rntuple"]),
    ),
    ("rntuple", DOOR),
    ("remote", Allowed::Only(&["types", "env", "rntuple"])),
    ("fields", DOOR),
    ("cli", Allowed::AllBut(&["sim", "bench-compare"])),
    ("sim", Allowed::AllBut(&["cli", "bench", "bench-compare"])),
    ("bench", Allowed::AllBut(&["cli", "sim", "bench-compare"])),
    ("bench-compare", Allowed::AllBut(&["cli", "sim"])),
    ("xtask", Allowed::Only(&[])),
];

/// Crates of the proving ground, open to the tests of every crate; `local` joins client and server for them,
/// `cluster` and `engine` make a pool of whatever stores a case is to run on, `daemon` serves one to other processes.
const FOR_TESTS: [&str; 8] = ["sim", "bench", "local", "codec", "cluster", "engine", "client", "daemon"];

/// Libraries may not erase their errors.
const ANYHOW_USERS: [&str; 2] = ["cli", "xtask"];

/// Packages outside the workspace, so that they neither inherit versions nor are built by accident.
const OUTSIDE: [&str; 2] = ["fuzz", "bench-compare"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.crates.iter().filter(|c| c.name != "fuzz").flat_map(check_crate).collect()
}

fn check_crate(package: &Crate) -> Vec<Finding> {
    let mut found = manifest_form(package);
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == package.name) else {
        let what = format!("crate `{}` has no row in the dependency table", package.name);
        found.push(at(package, 0, what, "decide its layer and add it to LAYERS in xtask/src/tidy/deps.rs"));
        return found;
    };
    for dependency in &package.manifest.dependencies {
        found.extend(layer(package, allowed, dependency));
        found.extend(usage(package, dependency));
    }
    found
}

fn layer(package: &Crate, allowed: &Allowed, dependency: &Dependency) -> Option<Finding> {
    if dependency.name == "anyhow" && !ANYHOW_USERS.contains(&package.name.as_str()) {
        let what = "anyhow in a library";
        return Some(at(
            package,
            dependency.line,
            what,
            "return the crate's own error enum; anyhow is for cli and xtask",
        ));
    }
    let target = dependency.name.strip_prefix("dolmen-")?;
    let open = match allowed {
        Allowed::Only(names) => names.contains(&target),
        Allowed::AllBut(names) => !names.contains(&target),
    };
    if open || (dependency.table == Table::Dev && FOR_TESTS.contains(&target)) {
        return None;
    }
    let what = format!("`{}` may not depend on `{target}`", package.name);
    Some(at(
        package,
        dependency.line,
        what,
        "move the code to the layer it needs; DESIGN section 3 has the order",
    ))
}

fn manifest_form(package: &Crate) -> Vec<Finding> {
    let mut found = Vec::new();
    let expected =
        if package.name == "xtask" { "xtask".to_owned() } else { format!("dolmen-{}", package.name) };
    if package.manifest.package != expected {
        let what = format!("package is named `{}`", package.manifest.package);
        found.push(at(package, 0, what, format!("name it `{expected}` after its folder")));
    }
    let outside = OUTSIDE.contains(&package.name.as_str());
    if !package.manifest.inherits_lints && !outside {
        found.push(at(package, 0, "lints are not inherited", "add `[lints]` with `workspace = true`"));
    }
    if !package.files.iter().any(|f| f.functions.iter().any(|f| f.is_test)) && !outside {
        found.push(at(package, 0, "crate without a test", "create a crate together with its first test"));
    }
    for dependency in package.manifest.dependencies.iter().filter(|d| !d.inherited && !outside) {
        let what = format!("`{}` states its own version", dependency.name);
        found.push(at(
            package,
            dependency.line,
            what,
            "put it into the root manifest and write `workspace = true`",
        ));
    }
    found
}

/// A dependency that no code names is dead weight.
fn usage(package: &Crate, dependency: &Dependency) -> Option<Finding> {
    let ident = dependency.alias.replace('-', "_");
    if package.files.iter().any(|f| f.tokens.iter().any(|t| t.is(&ident))) {
        return None;
    }
    let what = format!("nothing uses the dependency `{}`", dependency.alias);
    Some(at(package, dependency.line, what, "remove it from the manifest"))
}

fn at(package: &Crate, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding::new(&package.manifest_path, line, what, remedy)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{places, tree};
    use super::*;

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"dolmen-{name}\"\n[lints]\nworkspace = true\n{rest}")
    }

    fn findings(name: &str, rest: &str, code: &str) -> Vec<usize> {
        let code = format!("{code}\n#[test] fn claims() {{ assert!(true) }}");
        let files = [
            (format!("crates/{name}/Cargo.toml"), manifest(name, rest)),
            (format!("crates/{name}/src/lib.rs"), code),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
        check(&tree(&files)).iter().map(|f| f.line).collect()
    }

    #[test]
    fn the_engine_may_not_see_the_client() {
        let rest = "[dependencies]\ndolmen-types.workspace = true\ndolmen-client.workspace = true\n";
        assert_eq!(findings("engine", rest, "use dolmen_types::A; use dolmen_client::B;"), [7]);
    }

    #[test]
    fn the_proving_ground_is_open_to_tests_only() {
        let dev = "[dev-dependencies]\ndolmen-sim.workspace = true\n";
        assert_eq!(findings("engine", dev, "use dolmen_sim::M;"), [0_usize; 0]);
        let normal = "[dependencies]\ndolmen-sim.workspace = true\n";
        assert_eq!(findings("engine", normal, "use dolmen_sim::M;"), [6]);
        assert_eq!(findings("cli", normal, "use dolmen_sim::M;"), [6]);
    }

    #[test]
    fn the_program_may_use_bench() {
        let rest = "[dependencies]\ndolmen-bench.workspace = true\n";
        assert_eq!(findings("cli", rest, "use dolmen_bench::run;"), [0_usize; 0]);
    }

    #[test]
    fn a_crate_without_a_row_is_refused() {
        assert_eq!(findings("blobs", "", ""), [0]);
    }

    #[test]
    fn unused_and_uninherited_dependencies_are_found() {
        assert_eq!(findings("types", "[dependencies]\nuuid.workspace = true\n", ""), [6]);
        assert_eq!(findings("types", "[dependencies]\nuuid = \"1\"\n", "use uuid::Uuid;"), [6]);
    }

    #[test]
    fn anyhow_stays_out_of_libraries() {
        let rest = "[dependencies]\nanyhow.workspace = true\n";
        assert_eq!(findings("dfs", rest, "use anyhow::Result;"), [6]);
        assert_eq!(findings("cli", rest, "use anyhow::Result;"), [0_usize; 0]);
    }

    #[test]
    fn a_crate_needs_lints_a_name_and_a_test() {
        let tree =
            tree(&[("crates/env/Cargo.toml", "[package]\nname = \"env\"\n"), ("crates/env/src/lib.rs", "")]);
        assert_eq!(places(&check(&tree)).len(), 3);
    }
}
