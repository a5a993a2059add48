//! The ten smell counters, one row per crate. Smoke alarms, not judges: each has a ceiling that only falls.
//!
//! Rates are per 1,000 code lines, and a crate below that counts as one of 1,000: two findings in a small crate
//! are two findings, not a trend.

use super::{comments, errors, locks, names, shape, testing, traits};
use crate::source::lexer::{CommentKind, Kind};
use crate::source::{Crate, Function, SourceFile, Tree};
use std::collections::BTreeMap;

/// Which smell a counter belongs to, in the order of the columns.
pub(super) const COUNTERS: [Counter; 22] = [
    Counter { name: "traits/k", limit: 1.0, falls: false, smell: "traits nobody needs" },
    Counter { name: "one-impl", limit: 0.0, falls: true, smell: "traits with one implementor and no reason" },
    Counter { name: "arc-lock/k", limit: 0.3, falls: true, smell: "shared everything" },
    Counter { name: "fn>70%", limit: 2.0, falls: true, smell: "giant functions" },
    Counter { name: "file>1k", limit: 0.0, falls: true, smell: "giant files" },
    Counter { name: "lib.rs", limit: 150.0, falls: false, smell: "lib.rs as a warehouse" },
    Counter { name: "noise/k", limit: 0.3, falls: true, smell: "comments that restate the next line" },
    Counter { name: "dup-doc/k", limit: 0.5, falls: true, smell: "the same doc line on several items" },
    Counter { name: "banners", limit: 0.0, falls: true, smell: "banners" },
    Counter { name: "err-enums", limit: 1.0, falls: false, smell: "public error enums that multiply" },
    Counter {
        name: "err-shared",
        limit: 0.0,
        falls: true,
        smell: "variant names in three or more error enums",
    },
    Counter { name: "err-str%", limit: 5.0, falls: true, smell: "error variants that are a bare string" },
    Counter { name: "err-text/k", limit: 0.0, falls: true, smell: "errors turned into text" },
    Counter { name: "test-paths", limit: 0.0, falls: true, smell: "test paths in production" },
    Counter { name: "dead-feats", limit: 0.0, falls: true, smell: "features no code reads" },
    Counter { name: "allow-dead", limit: 0.0, falls: true, smell: "allow(dead_code) without a reason" },
    Counter { name: "swallow/k", limit: 0.3, falls: true, smell: "swallowed failures" },
    Counter {
        name: "unexplained",
        limit: 0.0,
        falls: true,
        smell: "swallowed failures without `// Ignored: <why>`",
    },
    Counter { name: "stubs", limit: 0.0, falls: true, smell: "stubs" },
    Counter { name: "no-claim%", limit: 0.0, falls: true, smell: "tests without a claim" },
    Counter { name: "sleeps%", limit: 0.0, falls: true, smell: "tests that sleep" },
    Counter { name: "vague/k", limit: 0.2, falls: true, smell: "vague names" },
];

/// Crates in which an error may never be a bare string.
const TYPED_ERRORS_ONLY: [&str; 5] = ["types", "codec", "layout", "engine", "client"];

/// One column.
pub(super) struct Counter {
    pub(super) name: &'static str,
    limit: f64,
    /// Whether the ceiling follows the code down. Not where growth is no smell: a crate may gain its first trait.
    pub(super) falls: bool,
    pub(super) smell: &'static str,
}

impl Counter {
    /// What a crate without a row in the ceilings may have at most.
    pub(super) fn limit(&self, crate_name: &str) -> f64 {
        match self.name {
            "err-str%" if TYPED_ERRORS_ONLY.contains(&crate_name) => 0.0,
            // A command line tool turns errors into sentences; that is its job.
            "err-text/k" if errors::FREE.contains(&crate_name) => 30.0,
            // The two contracts between layers live in this small crate, and nothing else does with so few lines.
            "traits/k" if crate_name == "codec" => 2.0,
            _ => self.limit,
        }
    }
}

/// What was counted in one crate.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) crate_name: String,
    pub(super) values: Vec<f64>,
    /// Path and line where a column was counted, so that a reader need not search.
    pub(super) places: Vec<Vec<(String, usize)>>,
}

/// Counts every crate of the workspace.
pub(super) fn measure(tree: &Tree) -> Vec<Row> {
    let singles = traits::singles(tree);
    let inside = tree.crates.iter().filter(|c| c.name != "fuzz");
    inside
        .map(|package| {
            let single = singles.iter().filter(|s| s.crate_name == package.name);
            row(package, single.map(|s| (s.path.clone(), s.line)).collect())
        })
        .collect()
}

/// Counts of one crate before they become rates.
#[derive(Default)]
struct Tally {
    places: BTreeMap<&'static str, Vec<(String, usize)>>,
}

impl Tally {
    fn add(&mut self, counter: &'static str, file: &SourceFile, lines: impl IntoIterator<Item = usize>) {
        let places = lines.into_iter().map(|line| (file.path.clone(), line));
        self.places.entry(counter).or_default().extend(places);
    }

    fn count(&self, counter: &str) -> f64 {
        self.places.get(counter).map_or(0.0, |p| ratio(p.len()))
    }
}

fn row(package: &Crate, singles: Vec<(String, usize)>) -> Row {
    let mut tally = Tally::default();
    tally.places.insert("one-impl", singles);
    for file in package.production_files() {
        tally_file(&mut tally, file);
    }
    for file in &package.files {
        tally_tests(&mut tally, file);
    }
    let code: usize = package.production_files().map(SourceFile::code_line_count).sum();
    let thousands = ratio(code.max(1000)) / 1000.0;
    let functions = package.production_files().flat_map(|f| &f.functions).filter(|f| !f.in_test).count();
    let tests = package.files.iter().flat_map(|f| &f.functions).filter(|f| f.is_test).count();
    let front =
        package.files.iter().filter(|f| f.path.ends_with("/src/lib.rs")).map(shape::lib_line_count).max();
    let (variants, shared) = variants(package);
    let values = COUNTERS.iter().map(|counter| match counter.name {
        "lib.rs" => ratio(front.unwrap_or(0)),
        "dup-doc/k" => ratio(duplicate_docs(package)) / thousands,
        "err-shared" => ratio(shared),
        "err-str%" => percent(tally.count("err-str%"), variants),
        "dead-feats" => ratio(dead_features(package)),
        "fn>70%" => percent(tally.count("fn>70%"), functions),
        "no-claim%" | "sleeps%" => percent(tally.count(counter.name), tests),
        name if name.ends_with("/k") => tally.count(name) / thousands,
        name => tally.count(name),
    });
    let values = values.collect();
    let places = COUNTERS.iter().map(|c| tally.places.remove(c.name).unwrap_or_else(Vec::new)).collect();
    Row { crate_name: package.name.clone(), values, places }
}

fn tally_file(tally: &mut Tally, file: &SourceFile) {
    tally.add("traits/k", file, traits::declared(file).into_iter().map(|(line, _)| line));
    tally.add("arc-lock/k", file, locks::shared_locks(file).map(|at| file.tokens[at].line));
    let long = |f: &&Function| !f.in_test && f.line_count() > shape::FUNCTION_LINES_MAX;
    tally.add("fn>70%", file, file.functions.iter().filter(long).map(|f| f.first_line));
    tally.add("file>1k", file, (file.code_line_count() > 1000).then_some(1));
    let outside =
        |lines: Vec<usize>| lines.into_iter().filter(|l| !file.is_test_line(*l)).collect::<Vec<_>>();
    tally.add("noise/k", file, outside(comments::restating(file)));
    tally.add("banners", file, outside(comments::banners(file)));
    let enums = errors::enums(file);
    tally.add("err-enums", file, enums.iter().filter(|e| e.public).map(|e| e.line));
    tally.add(
        "err-str%",
        file,
        enums.iter().flat_map(|e| &e.variants).filter(|v| v.stringly).map(|v| v.line),
    );
    tally.add("err-text/k", file, errors::stringly_lines(file));
    tally.add("test-paths", file, testing::knows_of_tests(file));
    tally.add("allow-dead", file, dead_allowances(file));
    let swallowed = swallowed(file);
    let explained =
        |line: &usize| file.comments.iter().any(|c| c.line == *line && c.body().starts_with("Ignored:"));
    let explained = |line: &usize| {
        explained(line) || file.comments_above(*line).any(|c| c.body().starts_with("Ignored:"))
    };
    tally.add("unexplained", file, swallowed.iter().copied().filter(|l| !explained(l)));
    tally.add("swallow/k", file, swallowed);
    tally.add("stubs", file, stubs(file));
    tally.add(
        "vague/k",
        file,
        names::declared(file).filter(|(_, n)| names::is_empty_name(n)).map(|(line, _)| line),
    );
}

fn tally_tests(tally: &mut Tally, file: &SourceFile) {
    tally.add("no-claim%", file, testing::without_claim(file));
    let tests = file.functions.iter().filter(|f| f.is_test);
    tally.add("sleeps%", file, tests.filter(|f| testing::sleeps(file, f)).map(|f| f.first_line));
}

/// Variants of all error enums, and how many names stand in three or more of them.
fn variants(package: &Crate) -> (usize, usize) {
    let mut enums_by_name: BTreeMap<String, usize> = BTreeMap::new();
    let mut total = 0;
    for found in package.production_files().flat_map(errors::enums) {
        for variant in found.variants {
            total += 1;
            *enums_by_name.entry(variant.name).or_default() += 1;
        }
    }
    (total, enums_by_name.values().filter(|count| **count >= 3).count())
}

/// Doc lines that begin with a verb and stand on more than one item, beyond the first of each.
fn duplicate_docs(package: &Crate) -> usize {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for file in package.production_files() {
        let docs = file.comments.iter().filter(|c| c.kind == CommentKind::Doc && !file.is_test_line(c.line));
        for comment in
            docs.filter(|c| c.text.starts_with("/// ") && c.body().len() >= 25 && begins_with_verb(c.body()))
        {
            *seen.entry(comment.body()).or_default() += 1;
        }
    }
    seen.values().map(|count| count - 1).sum()
}

fn begins_with_verb(text: &str) -> bool {
    const VERBS: [&str; 26] = [
        "create",
        "get",
        "set",
        "return",
        "check",
        "initialize",
        "init",
        "loop",
        "iterate",
        "call",
        "update",
        "handle",
        "add",
        "remove",
        "build",
        "parse",
        "read",
        "write",
        "send",
        "store",
        "start",
        "stop",
        "increment",
        "clone",
        "convert",
        "compute",
    ];
    let first = text.split_whitespace().next().unwrap_or("").to_lowercase();
    VERBS.iter().any(|verb| first == *verb || first.strip_suffix('s') == Some(verb))
}

/// Methods that answer with an `Option`: a default instead of nothing hides no failure.
const ASKS_FOR_MAYBE: [&str; 14] = [
    "get",
    "get_mut",
    "cloned",
    "copied",
    "pop",
    "take",
    "max",
    "min",
    "next",
    "next_back",
    "first",
    "last",
    "find",
    "remove",
];

/// `let _ = f(..)`, `.ok();` as a statement of its own, `.unwrap_or_default()` on what may be a `Result`.
fn swallowed(file: &SourceFile) -> Vec<usize> {
    let mut lines = Vec::new();
    for (at, token) in file.production() {
        let hit = match token.text.as_str() {
            "let" if file.matches(at + 1, &["_", "="]) => {
                file.tokens.iter().skip(at + 3).take_while(|t| !t.is(";")).any(|t| t.is("("))
            }
            "." if file.matches(at + 1, &["ok", "(", ")", ";"]) => !is_bound(file, at),
            "." if file.matches(at + 1, &["unwrap_or_default", "(", ")"]) => {
                !called_before(file, at).is_some_and(|name| ASKS_FOR_MAYBE.contains(&name))
            }
            _ => false,
        };
        if hit {
            lines.push(token.line);
        }
    }
    lines
}

/// Whether the statement that holds this token keeps its value.
fn is_bound(file: &SourceFile, at: usize) -> bool {
    let start = (0..at)
        .rev()
        .find(|i| [";", "{", "}"].iter().any(|end| file.tokens[*i].is(end)))
        .map_or(0, |i| i + 1);
    file.tokens[start].is("let") || file.tokens[start].is("return")
}

/// The method or function whose call ends right before this token.
fn called_before(file: &SourceFile, at: usize) -> Option<&str> {
    let end = at.checked_sub(1).filter(|end| file.tokens[*end].is(")"))?;
    let open = (0..end).rev().find(|i| file.tokens[*i].is("(") && file.closing(*i) == end)?;
    Some(&file.tokens[open.checked_sub(1)?].text)
}

fn stubs(file: &SourceFile) -> Vec<usize> {
    let named =
        |at: usize, text: &str| matches!(text, "todo" | "unimplemented") && file.matches(at + 1, &["!"]);
    file.production()
        .filter(|(at, t)| t.kind == Kind::Ident && named(*at, &t.text))
        .map(|(_, t)| t.line)
        .collect()
}

fn dead_allowances(file: &SourceFile) -> Vec<usize> {
    let mut lines = Vec::new();
    for (at, token) in file.production().filter(|(_, t)| t.is("allow") || t.is("expect")) {
        if !(file.matches(at + 1, &["("]) && at > 0 && file.tokens[at - 1].is("[")) {
            continue;
        }
        let inside = &file.tokens[at + 1..file.closing(at + 1)];
        let dead = inside.iter().any(|t| t.is("dead_code") || t.text.starts_with("unused"));
        if dead && !inside.iter().any(|t| t.is("reason")) {
            lines.push(token.line);
        }
    }
    lines
}

/// Features that switch nothing on and whose name no code and no target asks for.
fn dead_features(package: &Crate) -> usize {
    let features =
        package.manifest.features.iter().filter(|(name, (_, value))| *name != "default" && value == "[]");
    let dead = features.filter(|(name, _)| {
        let quoted = format!("\"{name}\"");
        let in_code = package.files.iter().any(|f| f.tokens.iter().any(|t| t.text == quoted));
        let required =
            package.manifest.text.lines().any(|l| l.starts_with("required-features") && l.contains(&quoted));
        !in_code && !required
    });
    dead.count()
}

/// Counts stay far below 2^32, where every integer has its own float.
fn ratio(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn percent(part: f64, whole: usize) -> f64 {
    100.0 * part / ratio(whole.max(1))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::tree;
    use super::*;

    /// The value of one counter for a crate `engine` of one file.
    fn value(counter: &str, text: &str) -> f64 {
        let rows = measure(&tree(&[("crates/engine/src/a.rs", text)]));
        let column = COUNTERS.iter().position(|c| c.name == counter).expect("tests name existing counters");
        rows[0].values[column]
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn every_counter_rises_on_its_smell() {
        let cases = [
            ("traits/k", "trait A {}\n"),
            ("one-impl", "trait A {}\n"),
            ("arc-lock/k", "type S = Arc<RwLock<u8>>;\n"),
            ("noise/k", "// update index\nupdate_index();\n"),
            ("banners", "// =====\n"),
            ("err-enums", "pub enum Error { A }\n"),
            ("err-str%", "enum Error { A(String) }\n"),
            ("err-text/k", "fn f() { x.map_err(|e| e.to_string()); }\n"),
            ("test-paths", "fn f() { if cfg!(test) {} }\n"),
            ("allow-dead", "#[allow(dead_code)]\nfn f() {}\n"),
            ("swallow/k", "fn f() { let _ = g(); }\n"),
            ("unexplained", "fn f() { g().ok(); }\n"),
            ("stubs", "fn f() { todo!() }\n"),
            ("no-claim%", "#[test]\nfn f() { g(); }\n"),
            ("sleeps%", "#[test]\nfn f() { sleep(d); assert!(true) }\n"),
            ("vague/k", "struct PoolManager;\n"),
        ];
        for (counter, text) in cases {
            assert!(value(counter, text) > 0.0, "{counter}");
            assert!(close(value(counter, "pub(crate) fn f() -> u8 { 1 }\n"), 0.0), "{counter} on clean code");
        }
    }

    #[test]
    fn long_functions_and_files_count() {
        let body = "    g();\n".repeat(70);
        let text = format!("fn f() {{\n{body}}}\nfn g() {{}}\n");
        assert!(close(value("fn>70%", &text), 50.0));
        assert!(close(value("file>1k", &"fn f() {}\n".repeat(1001)), 1.0));
    }

    #[test]
    fn duplicate_docs_and_shared_variants_count() {
        let doc = "/// Returns the number of bytes in use.\nfn a() {}\n";
        assert!(close(value("dup-doc/k", &doc.repeat(3)), 2.0));
        let shared = "enum AError { X }\nenum BError { X }\nenum CError { X, Y }\n";
        assert!(close(value("err-shared", shared), 1.0));
    }

    #[test]
    fn what_is_kept_or_absent_is_not_swallowed() {
        for kept in [
            "let a = f().ok();",
            "map.get(&g(1)).unwrap_or_default();",
            "list.iter().max().unwrap_or_default();",
        ] {
            assert!(close(value("swallow/k", &format!("fn f() {{ {kept} }}\n")), 0.0), "{kept}");
        }
        assert!(close(value("swallow/k", "fn f() { read(a.get(1)).unwrap_or_default(); }\n"), 1.0));
    }

    #[test]
    fn reasons_excuse() {
        assert!(close(value("unexplained", "fn f() {\n let _ = g(); // Ignored: best effort.\n}\n"), 0.0));
        assert!(close(value("allow-dead", "#[allow(dead_code, reason = \"x\")]\nfn f() {}\n"), 0.0));
    }

    #[test]
    fn features_nobody_reads_count() {
        let manifest =
            "[package]\nname = \"dolmen-engine\"\n[features]\nlive = []\ndead = []\nmirror = [\"x/y\"]\n";
        let files = [
            ("crates/engine/Cargo.toml", manifest),
            ("crates/engine/src/a.rs", "#[cfg(feature = \"live\")]\nfn f() {}\n"),
        ];
        let rows = measure(&tree(&files));
        let column = COUNTERS.iter().position(|c| c.name == "dead-feats").expect("the counter exists");
        assert!(close(rows[0].values[column], 1.0));
    }
}
