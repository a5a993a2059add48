//! The table of errors says which test claims each of them, and has all that the tests claim.
//!
//! What has no error number fails in its own way (`NULL`, `false`, `-1`), and is claimed with `FAILS`. What cannot fail says
//! why: it returns nothing (`void`), or has an answer for everything (`total`).

use crate::kit;
use std::collections::BTreeSet;

/// Functions that have an answer for everything that they can be asked.
const TOTAL: [&str; 6] =
    ["d_errdesc", "d_errstr", "d_hash_mix64", "d_hash_murmur64", "d_hash_string_u32", "d_should_fail"];

/// Function, error, test; `-` and why for a function that cannot fail.
type Row = (String, String, String);

/// Bodies of the functions of a program, each in one line.
fn bodies(program: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(kit::capi().join(format!("tests/c/{program}.c"))).unwrap();
    let mut bodies = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let is_begun = line.starts_with(|c: char| c.is_ascii_lowercase()) && line.ends_with(')');
        if let Some((name, _)) = line.split_once('(').filter(|(name, _)| is_begun && !name.contains(' ')) {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "}").map(str::trim).collect();
            bodies.push((name.to_owned(), body.join(" ")));
        }
    }
    bodies
}

/// The body of a test, and those of the functions that it hands over to be called back.
fn with_callbacks(body: &str, all: &[(String, String)]) -> String {
    let is_handed_over = |name: &str| {
        let mut places = body.match_indices(name);
        places.any(|(at, _)| body[..at].ends_with(", ") && body[at + name.len()..].starts_with(','))
    };
    let called = all.iter().filter(|(name, _)| is_handed_over(name)).map(|(_, body)| body.as_str());
    core::iter::once(body).chain(called).collect::<Vec<_>>().join(" ")
}

/// The call at the beginning of a claim, and what it is to give.
fn parsed(text: &str) -> Option<(&str, &str)> {
    // A cast is no part of the name.
    let text = text.strip_prefix("(ssize_t)").unwrap_or(text);
    let (function, rest) = text.split_once('(')?;
    let mut depth = 1;
    let end = rest.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    })?;
    let given = rest[end + 1..].trim_start_matches([',', ' ']);
    Some((function.trim(), given[..given.find(')')?].trim()))
}

/// What [`parsed`] finds, if it is an error number.
fn claim(text: &str) -> Option<(&str, &str)> {
    let (function, error) = parsed(text)?;
    let name = error.trim_start_matches('-');
    let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    (is_name && (name.starts_with("DER_") || name.starts_with('E'))).then_some((function, name))
}

/// Whether the headers say that a function returns nothing.
fn returns_nothing(function: &str, headers: &str) -> bool {
    headers.contains(&format!("\nvoid {function}("))
}

fn headers() -> String {
    let (mut text, include) = (String::new(), kit::capi().join("include"));
    for dir in [include.clone(), include.join("gurt")] {
        for file in std::fs::read_dir(dir).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    text
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
        let (tests, all) = (kit::names(&program), bodies(&program));
        for (name, body) in all.iter().filter(|(name, _)| tests.contains(name)) {
            let body = with_callbacks(body, &all);
            let claims = body.split("GIVES(").filter_map(claim);
            for (function, error) in claims.chain(body.split("FAILS(").skip(1).filter_map(parsed)) {
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
    let headers = headers();
    let why = |name: &str| match name {
        name if TOTAL.contains(&name) => "total",
        name if returns_nothing(name, &headers) => "void",
        _ => "-",
    };
    rows.extend(
        functions.iter().filter(is_without).map(|name| (name.clone(), "-".to_owned(), why(name).to_owned())),
    );
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

/// The table of errors is made of what the tests claim; this one is not, so that it can say what they leave out.
#[test]
fn every_documented_error_that_programs_act_on_has_a_test() {
    let text = std::fs::read_to_string(kit::capi().join("tests/documented.txt")).unwrap();
    let claimed: BTreeSet<(String, String)> = rows().into_iter().map(|row| (row.0, row.1)).collect();
    let pairs = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(' ').unwrap());
    let untested: Vec<_> =
        pairs.filter(|(function, error)| !claimed.contains(&((*function).into(), (*error).into()))).collect();
    assert!(untested.is_empty(), "{untested:?}");
}

#[test]
fn what_never_fails_says_why() {
    let rows = rows();
    let unexplained: Vec<&Row> = rows.iter().filter(|row| row.1 == "-" && row.2 == "-").collect();
    assert!(unexplained.is_empty(), "{unexplained:?}");
    assert!(rows.iter().filter(|row| row.2 == "total").count() == TOTAL.len());
}
