//! Dolmen beside its peers: the same keys, values, durability and batches, in one run and one table.
//!
//! Every store runs with its caller and its background threads bound to one core, so that merges and compactions
//! are part of the price of all; `--free` binds nothing. README.md says how each is configured.

mod dolmen;
mod error;
mod file;
mod lmdb;
mod options;
mod peer;
mod redb_peer;
mod rocks;
mod run;

use dolmen_bench::{HEADING, Results, Row, hold_memory};
use options::Options;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(options) = Options::parse(std::env::args().skip(1)).transpose() else {
        println!("{}", options::USAGE);
        return ExitCode::SUCCESS;
    };
    match options.and_then(|options| print(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dolmen-bench-compare: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints each row, and adds it to the file of results.
fn print(options: &Options) -> error::Result<()> {
    let mut results = options.out.as_deref().map(Results::append).transpose()?;
    let mut kept = Ok(());
    println!("{HEADING}");
    let mut each = |row: Row| {
        println!("{}", row.line());
        if let Some(results) = &mut results
            && kept.is_ok()
        {
            kept = results.add(&row);
        }
    };
    let _held = if options.quick { None } else { Some(hold_memory(&mut each)?) };
    run::all(options, &mut each)?;
    Ok(kept?)
}
