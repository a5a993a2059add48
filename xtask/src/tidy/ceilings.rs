//! `xtask/ceilings.txt`: the most that each counter may show, per crate. Ceilings only fall.
//!
//! Invariants:
//! - A crate without a row has the limits of `smells::COUNTERS`; no row may exceed them.
//! - No value is above any earlier checked-in value of the same cell; the history of the file proves it.

use super::Finding;
use super::smells::{COUNTERS, Row};
use crate::source::{self, Tree};
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const PATH: &str = "xtask/ceilings.txt";

const HEAD: &str = "\
# The most that each smell counter may show, per crate: a tidy run above it fails. Values only fall;
# `cargo xtask tidy --ratchet` lowers them to what it measured. A crate without a row has the default limits.
";

/// Rates are written with two decimals and compared with this slack.
const SLACK: f64 = 0.005;

/// Ceilings of every crate that has a row, in the order of `COUNTERS`; a missing column is `None`.
type Ceilings = BTreeMap<String, Vec<Option<f64>>>;

pub(super) fn check(root: &Path, tree: &Tree, rows: &[Row]) -> Result<Vec<Finding>> {
    let text = tree.documents.iter().find(|d| d.path == PATH).map_or("", |d| d.text.as_str());
    let ceilings = parse(text)?;
    let mut found = compare(rows, &ceilings);
    match lowest_ever(root) {
        Ok(lowest) => found.extend(raised(&ceilings, &lowest)),
        Err(error) => println!("tidy: no history of {PATH}, so a raised ceiling would go unseen ({error})"),
    }
    Ok(found)
}

/// Lowers the file to what was measured; a ceiling already below stays.
pub(super) fn ratchet(root: &Path, rows: &[Row]) -> Result<()> {
    let path = root.join(PATH);
    let old = if path.exists() {
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {PATH}"))?
    } else {
        String::new()
    };
    let ceilings = lowered(rows, &parse(&old)?);
    std::fs::write(&path, format!("{HEAD}{}", render(&ceilings)))
        .with_context(|| format!("cannot write {PATH}"))?;
    println!("tidy: {PATH} lowered");
    Ok(())
}

/// The measured values as a table.
pub(super) fn table(rows: &[Row]) -> String {
    let measured: Ceilings =
        rows.iter().map(|r| (r.crate_name.clone(), r.values.iter().map(|v| Some(*v)).collect())).collect();
    render(&measured)
}

fn compare(rows: &[Row], ceilings: &Ceilings) -> Vec<Finding> {
    let mut found = Vec::new();
    for row in rows {
        for (column, counter) in COUNTERS.iter().enumerate() {
            let (value, ceiling) = (row.values[column], ceiling(ceilings, &row.crate_name, column));
            if value <= ceiling + SLACK {
                continue;
            }
            let (path, line) = row.places[column].first().cloned().unwrap_or_else(|| (PATH.to_owned(), 0));
            let others: Vec<String> =
                row.places[column].iter().skip(1).take(9).map(|(p, l)| format!("{p}:{l}")).collect();
            let what = format!(
                "{}: {} ({}) is {value:.2}, ceiling {ceiling:.2}",
                row.crate_name, counter.smell, counter.name
            );
            let also = if others.is_empty() { String::new() } else { format!("; also {}", others.join(" ")) };
            found.push(Finding::new(
                &path,
                line,
                what,
                format!("mend the place; ceilings are not raised{also}"),
            ));
        }
    }
    found
}

fn ceiling(ceilings: &Ceilings, crate_name: &str, column: usize) -> f64 {
    let limit = COUNTERS[column].limit(crate_name);
    ceilings.get(crate_name).and_then(|row| row[column]).map_or(limit, |value| value.min(limit))
}

fn lowered(rows: &[Row], old: &Ceilings) -> Ceilings {
    let lower = |row: &Row, column: usize, value: f64| {
        let ceiling = ceiling(old, &row.crate_name, column);
        Some(if COUNTERS[column].falls { value.min(ceiling) } else { ceiling })
    };
    let fresh = rows.iter().map(|row| {
        let values = row.values.iter().enumerate().map(|(column, value)| lower(row, column, *value));
        (row.crate_name.clone(), values.collect())
    });
    fresh.collect()
}

/// Cells above the lowest value that was ever checked in.
fn raised(ceilings: &Ceilings, lowest: &Ceilings) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, row) in ceilings {
        for (column, counter) in COUNTERS.iter().enumerate() {
            let before = lowest.get(name).and_then(|r| r[column]);
            let (Some(now), Some(before)) = (row[column], before) else { continue };
            if now > before + SLACK {
                let what =
                    format!("ceiling {} of `{name}` was raised from {before:.2} to {now:.2}", counter.name);
                found.push(Finding::new(PATH, 0, what, format!("put {before:.2} back and mend the code")));
            }
        }
    }
    found
}

/// The minimum of each cell over every checked-in version of the file.
fn lowest_ever(root: &Path) -> Result<Ceilings> {
    let mut lowest = Ceilings::new();
    for commit in source::git(root, &["log", "--format=%H", "--", PATH])?.lines() {
        // A commit that deleted the file has no version to show.
        let Ok(text) = source::git(root, &["show", &format!("{commit}:{PATH}")]) else { continue };
        for (name, row) in parse(&text)? {
            let kept = lowest.entry(name).or_insert_with(|| vec![None; COUNTERS.len()]);
            for (kept, value) in kept.iter_mut().zip(row) {
                *kept = [*kept, value].into_iter().flatten().reduce(f64::min);
            }
        }
    }
    Ok(lowest)
}

/// Reads a table whose first line names the columns; columns that no counter has any more are skipped.
fn parse(text: &str) -> Result<Ceilings> {
    let mut lines = text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty());
    let header: Vec<&str> = lines.next().unwrap_or("").split_whitespace().skip(1).collect();
    let mut ceilings = Ceilings::new();
    for line in lines {
        let mut cells = line.split_whitespace();
        let name = cells.next().context("a row without a crate")?;
        let mut row = vec![None; COUNTERS.len()];
        for (column, cell) in header.iter().zip(cells) {
            let value: f64 =
                cell.parse().with_context(|| format!("{PATH}: `{cell}` in the row `{name}` is no number"))?;
            if let Some(at) = COUNTERS.iter().position(|c| c.name == *column) {
                row[at] = Some(value);
            }
        }
        ceilings.insert(name.to_owned(), row);
    }
    Ok(ceilings)
}

fn render(ceilings: &Ceilings) -> String {
    let mut text = format!("{:<14}", "crate");
    for counter in &COUNTERS {
        text.push_str(&format!(" {:>11}", counter.name));
    }
    text.push('\n');
    for (name, row) in ceilings {
        text.push_str(&format!("{name:<14}"));
        for (value, counter) in row.iter().zip(&COUNTERS) {
            let value = value.unwrap_or_else(|| counter.limit(name));
            // Rounded up, so that what was measured is never above what was written.
            write!(text, " {:>11}", (value * 100.0).ceil() / 100.0).expect("writing to a string cannot fail");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, column: &str, value: f64) -> Row {
        let at = COUNTERS.iter().position(|c| c.name == column).unwrap();
        let mut values = vec![0.0; COUNTERS.len()];
        values[at] = value;
        let mut places = vec![Vec::new(); COUNTERS.len()];
        places[at] = vec![("crates/env/src/a.rs".to_owned(), 7)];
        Row { crate_name: name.to_owned(), values, places }
    }

    fn ceilings(column: &str, value: f64) -> Ceilings {
        lowered(&[row("env", column, value)], &Ceilings::new())
    }

    #[test]
    fn a_crate_without_a_row_has_the_limits() {
        assert!(compare(&[row("env", "swallow/k", 0.3)], &Ceilings::new()).is_empty());
        let found = compare(&[row("env", "swallow/k", 0.31)], &Ceilings::new());
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/env/src/a.rs", 7));
    }

    #[test]
    fn a_value_above_its_ceiling_fails() {
        let ceilings = ceilings("swallow/k", 0.1);
        assert_eq!(compare(&[row("env", "swallow/k", 0.2)], &ceilings).len(), 1);
        assert!(compare(&[row("env", "swallow/k", 0.1)], &ceilings).is_empty());
    }

    #[test]
    fn a_row_cannot_exceed_the_limits() {
        let loose = parse("crate swallow/k\nenv 9\n").unwrap();
        assert_eq!(compare(&[row("env", "swallow/k", 0.5)], &loose).len(), 1);
    }

    #[test]
    fn the_ratchet_lowers_and_never_raises() {
        let old = ceilings("swallow/k", 0.2);
        let risen = lowered(&[row("env", "swallow/k", 0.25)], &old);
        assert_eq!(render(&risen), render(&old));
        let fallen = lowered(&[row("env", "swallow/k", 0.1)], &old);
        assert!(raised(&fallen, &old).is_empty());
        assert_eq!(raised(&old, &fallen).len(), 1);
    }

    #[test]
    fn counters_of_growth_keep_their_limit() {
        let fresh = ceilings("lib.rs", 20.0);
        assert!(compare(&[row("env", "lib.rs", 149.0)], &fresh).is_empty());
        assert_eq!(compare(&[row("env", "lib.rs", 151.0)], &fresh).len(), 1);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let old = ceilings("swallow/k", 0.123);
        let text = render(&parse(&render(&old)).unwrap());
        assert_eq!(text, render(&old));
        assert!(text.contains("0.13"), "{text}");
    }

    #[test]
    fn a_word_where_a_number_should_be_is_refused() {
        assert!(parse("crate swallow/k\nenv many\n").is_err());
    }

    #[test]
    fn unknown_columns_are_skipped() {
        assert_eq!(parse("crate gone swallow/k\nenv 1 0.1\n").unwrap().len(), 1);
    }
}
