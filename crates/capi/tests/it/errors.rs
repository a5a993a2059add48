//! The table of errors says which test claims each of them, and has all that the tests claim.

use crate::kit;
use std::collections::BTreeSet;

/// Function, error, test; `-` twice for a function that no test makes fail.
type Row = (String, String, String);

/// Bodies of the tests of a program, each in one line.
fn bodies(program: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(kit::capi().join(format!("tests/c/{program}.c"))).unwrap();
    let mut bodies = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_suffix("(void)") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "}").map(str::trim).collect();
            bodies.push((name.to_owned(), body.join(" ")));
        }
    }
    bodies
}

/// The call at the beginning of a claim and what it is to give, if that is an error.
fn claim(text: &str) -> Option<(&str, &str)> {
    let (function, rest) = text.split_once('(')?;
    let mut depth = 1;
    let end = rest.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    })?;
    let given = rest[end + 1..].trim_start_matches([',', ' ']);
    let error = given[..given.find(')')?].trim();
    let name = error.trim_start_matches('-');
    let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    (is_name && (name.starts_with("DER_") || name.starts_with('E'))).then_some((function.trim(), name))
}

fn programs() -> Vec<String> {
    let files = std::fs::read_dir(kit::capi().join("tests/it")).unwrap();
    let modules = files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
    modules.filter(|name| kit::capi().join(format!("tests/c/{name}.c")).exists()).collect()
}

fn rows() -> BTreeSet<Row> {
    let functions: BTreeSet<String> =
        kit::link::functions(kit::capi()).unwrap().into_iter().map(|f| f.name).collect();
    let mut rows = BTreeSet::new();
    for program in programs() {
        let tests = kit::names(&program);
        for (name, body) in bodies(&program).into_iter().filter(|(name, _)| tests.contains(name)) {
            for (function, error) in body.split("GIVES(").filter_map(claim) {
                if functions.contains(function) {
                    rows.insert((function.to_owned(), error.to_owned(), format!("{program}::{name}")));
                }
            }
        }
    }
    // A name of old stands for the one that the header makes of it.
    let failing: BTreeSet<String> = rows.iter().map(|row| row.0.clone()).collect();
    let is_without = |name: &&String| {
        !failing.contains(*name)
            && !name
                .strip_suffix('2')
                .is_some_and(|old| kit::link::WEAK.contains(&old) && failing.contains(old))
    };
    let none = || "-".to_owned();
    rows.extend(functions.iter().filter(is_without).map(|name| (name.clone(), none(), none())));
    rows
}

#[test]
fn the_table_has_every_error_that_a_test_claims_and_no_other() {
    let text = std::fs::read_to_string(kit::capi().join("tests/errors.txt")).unwrap();
    let mut table = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words.len(), 3, "{line}");
        assert!(table.insert((words[0].to_owned(), words[1].to_owned(), words[2].to_owned())), "{line}");
    }
    let claimed = rows();
    let lines = |rows: Vec<&Row>| rows.iter().map(|(a, b, c)| format!("{a} {b} {c}\n")).collect::<String>();
    assert_eq!(lines(table.difference(&claimed).collect()), "", "no test claims these");
    assert_eq!(lines(claimed.difference(&table).collect()), "", "the table lacks these");
}

#[test]
fn few_functions_never_fail() {
    let without = rows().iter().filter(|row| row.1 == "-").count();
    assert!(without <= 54, "{without} functions that no test makes fail");
}
