//! Prints entries of an ntuple, one field a line: `show FILE [NTUPLE [FIRST END]]`.

#![allow(clippy::cast_possible_truncation, reason = "what is in memory has a place there")]

use dolmen_rntuple::rootfile::RootFile;
use dolmen_rntuple::{Array, Entries, Lists, Ntuple, Values};
use std::error::Error;
use std::io::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut file = RootFile::open(Path::new(args.first().ok_or("which file?")?))?;
    let name = match args.get(1) {
        Some(name) => name.clone(),
        None => file.ntuples().first().ok_or("the file has no ntuple")?.to_string(),
    };
    let anchor = file.anchor(&name)?;
    let ntuple = Ntuple::open(file, &anchor)?;
    let number = |at: usize, default| args.get(at).map_or(Ok(default), |text| text.parse());
    let entries = Entries { first: number(2, 0)?, end: number(3, ntuple.entry_count())? };
    let mut out = std::io::stdout().lock();
    for field in ntuple.top_fields() {
        let name = &ntuple.header().schema.fields[field as usize].name;
        match ntuple.read(&[field], entries) {
            Ok(arrays) => {
                write!(out, "{name}\t[")?;
                for at in 0..entries.end - entries.first {
                    if at > 0 {
                        write!(out, ",")?;
                    }
                    show(&mut out, &arrays[0], at as usize)?;
                }
                writeln!(out, "]")?;
            }
            Err(error) => writeln!(out, "{name}\t! {error}")?,
        }
    }
    Ok(())
}

fn show(out: &mut impl Write, array: &Array, at: usize) -> std::io::Result<()> {
    match array {
        Array::Values(values) => write!(out, "{}", values.shown(at)),
        Array::Lists { of: Lists::Text, offsets, content } => {
            let Array::Values(Values::U8(bytes)) = &**content else { return Ok(()) };
            let text = String::from_utf8_lossy(&bytes[offsets[at] as usize..offsets[at + 1] as usize]);
            write!(out, "{text:?}")
        }
        Array::Lists { offsets, content, .. } => {
            show_items(out, content, offsets[at] as usize, offsets[at + 1] as usize)
        }
        Array::Repeated { count, content, .. } => {
            let count = *count as usize;
            show_items(out, content, at * count, (at + 1) * count)
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

fn show_items(out: &mut impl Write, content: &Array, first: usize, end: usize) -> std::io::Result<()> {
    write!(out, "[")?;
    for at in first..end {
        write!(out, "{}", if at > first { "," } else { "" })?;
        show(out, content, at)?;
    }
    write!(out, "]")
}
