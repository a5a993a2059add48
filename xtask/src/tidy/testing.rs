//! Tests state a claim and neither sleep nor skip nor reach the network; production code does not know of tests.

use super::Finding;
use crate::source::lexer::{Kind, Token};
use crate::source::{Function, SourceFile, Tree};
use std::collections::BTreeSet;

/// Words that make a claim, as whole identifiers or parts of them.
const CLAIMS: [&str; 14] = [
    "assert",
    "panic",
    "expect",
    "unwrap_err",
    "check",
    "snapshot",
    "matches",
    "prop_",
    "verify",
    "test_",
    "run",
    "ensure",
    "prove",
    "must_",
];

/// Types that open a connection to elsewhere; Unix sockets and pairs stay on the machine.
const NETWORK: [&str; 3] = ["TcpStream", "TcpListener", "UdpSocket"];

/// Where a server of somebody else is started, or passed on to, which knows no other connections: on this machine's own address.
const HAS_A_SERVER: [&str; 2] = ["crates/remote/tests/it/weed.rs", "crates/remote/examples/latency.rs"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (_, file) in tree.sources() {
        let mut push =
            |line, what: &str, remedy: &str| found.push(Finding::new(&file.path, line, what, remedy));
        for line in knows_of_tests(file) {
            push(line, "test path in production code", "inject the fault from outside, through `env`");
        }
        for line in ignored(file) {
            push(line, "skipped test", "make it pass, or make it a soak command that somebody runs");
        }
        for function in file.functions.iter().filter(|f| f.in_test) {
            for (_, token) in
                body(file, function).filter(|(at, t)| t.is("sleep") && file.matches(at + 1, &["("]))
            {
                push(token.line, "sleep in a test", "wait for the event itself, or step the simulated clock");
            }
            let is_passed = HAS_A_SERVER.iter().any(|path| file.path.ends_with(path));
            let is_network = |t: &Token| NETWORK.iter().any(|n| t.is(n)) && !is_passed;
            for (_, token) in body(file, function).filter(|(_, t)| is_network(t)) {
                push(
                    token.line,
                    "network in a test",
                    "use the simulated network of `env`, or a Unix socket pair",
                );
            }
        }
        for line in without_claim(file) {
            push(line, "test without a claim", "assert what must hold, or return its error with `?`");
        }
        for line in unprinted_seeds(file) {
            push(
                line,
                "loop over seeds that never prints the seed",
                "put the seed into the message of the assertion",
            );
        }
    }
    found
}

fn body<'a>(file: &'a SourceFile, function: &Function) -> impl Iterator<Item = (usize, &'a Token)> {
    file.tokens.iter().enumerate().skip(function.body.start).take(function.body.len())
}

/// Lines where production code asks whether it is being tested.
pub(super) fn knows_of_tests(file: &SourceFile) -> Vec<usize> {
    let mut lines = Vec::new();
    for (at, token) in file.production() {
        let hit = match token.text.as_str() {
            "cfg" if file.matches(at + 1, &["!", "("]) => parenthesis_names(file, at + 2, "test"),
            "cfg" if file.matches(at + 1, &["("]) => {
                parenthesis_names(file, at + 1, "test") && parenthesis_names(file, at + 1, "feature")
            }
            "fn" => {
                let public = at > 0 && (file.tokens[at - 1].is("pub") || file.tokens[at - 1].is(")"));
                let name = file.tokens.get(at + 1).map_or("", |t| t.text.as_str());
                name.contains("_for_test") || (public && name.starts_with("test_"))
            }
            _ => false,
        };
        if hit && token.kind == Kind::Ident {
            lines.push(token.line);
        }
    }
    lines
}

fn parenthesis_names(file: &SourceFile, open: usize, name: &str) -> bool {
    file.tokens[open..file.closing(open)].iter().any(|t| t.is(name))
}

fn ignored(file: &SourceFile) -> Vec<usize> {
    let marks = file
        .tokens
        .iter()
        .enumerate()
        .filter(|(at, t)| t.is("ignore") && *at >= 2 && file.matches(at - 2, &["#", "["]));
    marks.map(|(_, t)| t.line).collect()
}

/// Lines of tests that cannot fail: no assertion and no `?`, neither here nor in a function of the file they call.
pub(super) fn without_claim(file: &SourceFile) -> Vec<usize> {
    let mut claiming: BTreeSet<&str> = BTreeSet::new();
    loop {
        let more = file
            .functions
            .iter()
            .filter(|f| !claiming.contains(f.name.as_str()) && claims(file, f, &claiming));
        let more: Vec<&str> = more.map(|f| f.name.as_str()).collect();
        if more.is_empty() {
            break;
        }
        claiming.extend(more);
    }
    let silent = |f: &&Function| f.is_test && !claims(file, f, &claiming);
    file.functions.iter().filter(silent).map(|f| f.first_line).collect()
}

fn claims(file: &SourceFile, function: &Function, claiming: &BTreeSet<&str>) -> bool {
    let attributes = file.comments_above(function.first_line).count();
    let above = file.lines[..function.first_line].iter().rev().take(4 + attributes);
    above.into_iter().any(|l| l.contains("should_panic"))
        || body(file, function).any(|(_, t)| {
            let claim = CLAIMS.iter().any(|c| t.text.contains(c)) || claiming.contains(t.text.as_str());
            t.is("?") || (t.kind == Kind::Ident && claim)
        })
}

/// Whether the test waits by the clock.
pub(super) fn sleeps(file: &SourceFile, function: &Function) -> bool {
    body(file, function).any(|(at, t)| t.is("sleep") && file.matches(at + 1, &["("]))
}

/// `for seed in ...` around an assertion, in a file that has no text which mentions a seed.
fn unprinted_seeds(file: &SourceFile) -> Vec<usize> {
    if file.tokens.iter().any(|t| t.kind == Kind::Text && t.text.contains("seed")) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for (at, token) in
        file.tokens.iter().enumerate().filter(|(_, t)| t.is("for") && file.is_test_line(t.line))
    {
        let seeds = file.matches(at + 2, &["in"]) && file.tokens[at + 1].text.contains("seed");
        let Some(open) = (at..file.tokens.len()).find(|i| file.tokens[*i].is("{")) else { continue };
        let mut body = file.tokens[open..file.closing(open)].iter();
        if seeds && body.any(|t| t.text.starts_with("assert") || t.is("panic")) {
            lines.push(token.line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::fixture::lines;
    use super::*;

    #[test]
    fn production_does_not_know_of_tests() {
        let text = "fn f() { if cfg!(test) {} }\n#[cfg(any(test, feature = \"x\"))]\nfn g() {}\nfn size_for_test() {}\n#[cfg(feature = \"y\")]\nfn h() {}\n";
        assert_eq!(lines(check, text), [1, 2, 4]);
    }

    #[test]
    fn sleeping_skipped_and_networked_tests_are_found() {
        let text = "#[test]\n#[ignore]\nfn a() { assert!(x()) }\n#[test]\nfn b() {\n thread::sleep(d);\n TcpStream::connect(x)?;\n}\n";
        assert_eq!(lines(check, text), [2, 6, 7]);
    }

    #[test]
    fn a_test_makes_a_claim() {
        let text = "#[test]\nfn a() { f(); }\n#[test]\nfn b() { check_all(); }\n#[test]\n#[should_panic]\nfn c() { f(); }\n#[test]\nfn d() { same(); }\nfn same() { assert!(x()) }\n";
        assert_eq!(lines(check, text), [2]);
    }

    #[test]
    fn seeds_are_printed() {
        let silent = "#[test]\nfn a() {\n for seed in 0..9 { assert!(run(seed)); }\n}\n";
        assert_eq!(lines(check, silent), [3]);
        let told = "#[test]\nfn a() {\n for seed in 0..9 { assert!(run(seed), \"seed {seed}\"); }\n}\n";
        assert_eq!(lines(check, told), [0_usize; 0]);
    }
}
