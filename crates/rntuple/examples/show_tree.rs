//! Prints entries of a tree, one branch a line: `show_tree FILE [TREE [FIRST END [BRANCH…]]]`.

#![allow(clippy::cast_possible_truncation, reason = "what is in memory has a place there")]

use dolmen_rntuple::rootfile::RootFile;
use dolmen_rntuple::rootfile::tree::Tree;
use dolmen_rntuple::{Array, Entries, Lists, Values};
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let file = Arc::new(RootFile::open(Path::new(args.first().ok_or("which file?")?))?);
    let name = match args.get(1) {
        Some(name) => name.clone(),
        None => file.trees().first().ok_or("the file has no tree")?.to_string(),
    };
    let tree = Tree::open(&file, &name)?;
    let number = |at: usize, default| args.get(at).map_or(Ok(default), |text| text.parse());
    let entries = Entries { first: number(2, 0)?, end: number(3, tree.entry_count())? };
    let wanted = args.get(4..).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    for (at, branch) in tree.branches().iter().enumerate() {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| **wanted == *branch.path) {
            continue;
        }
        let class = &branch.class;
        match tree.read(&[at], entries) {
            Ok(arrays) => {
                write!(out, "{}\t{}\t{class}\t[", branch.path, branch.type_of()?.name())?;
                show_each(&mut out, &arrays[0], 0, arrays[0].len() as usize)?;
                writeln!(out, "]")?;
            }
            Err(error) => writeln!(out, "{}\t!\t{class}\t{error}", branch.path)?,
        }
    }
    Ok(())
}

fn show_each(out: &mut impl Write, array: &Array, first: usize, end: usize) -> std::io::Result<()> {
    for at in first..end {
        write!(out, "{}", if at > first { "," } else { "" })?;
        show(out, array, at)?;
    }
    Ok(())
}

fn show(out: &mut impl Write, array: &Array, at: usize) -> std::io::Result<()> {
    match array {
        Array::Values(values) => show_value(out, values, at),
        Array::Lists { of: Lists::Text, offsets, content } => {
            let Array::Values(Values::U8(bytes)) = &**content else { return Ok(()) };
            write!(out, "\"")?;
            for byte in &bytes[offsets[at] as usize..offsets[at + 1] as usize] {
                match byte {
                    b'"' | b'\\' | 0..=31 | 127.. => write!(out, "\\u{byte:04x}")?,
                    other => write!(out, "{}", char::from(*other))?,
                }
            }
            write!(out, "\"")
        }
        Array::Lists { offsets, content, .. } => {
            write!(out, "[")?;
            show_each(out, content, offsets[at] as usize, offsets[at + 1] as usize)?;
            write!(out, "]")
        }
        Array::Repeated { count, content, .. } => {
            let count = *count as usize;
            write!(out, "[")?;
            show_each(out, content, at * count, (at + 1) * count)?;
            write!(out, "]")
        }
        Array::Record { fields, .. } => {
            write!(out, "{{")?;
            for (number, (name, field)) in fields.iter().enumerate() {
                write!(out, "{}{name:?}:", if number > 0 { "," } else { "" })?;
                show(out, field, at)?;
            }
            write!(out, "}}")
        }
        Array::Variant { tags, index, contents } => match usize::try_from(tags[at]) {
            Ok(tag) => show(out, &contents[tag], index[at] as usize),
            Err(_) => write!(out, "null"),
        },
    }
}

/// As readers of JSON with names of what is no number have it.
fn show_value(out: &mut impl Write, values: &Values, at: usize) -> std::io::Result<()> {
    match values.float(at) {
        Some(f64::INFINITY) => write!(out, "Infinity"),
        Some(f64::NEG_INFINITY) => write!(out, "-Infinity"),
        _ => write!(out, "{}", values.shown(at)),
    }
}
