//! Entries of an ntuple or a tree, read and printed.

use super::filter::{condition, passing, steps};
use super::rows;
use super::source::{Any, Source, each};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{self, Answer, Reader};
use clap::{Args, ValueEnum};
use dolmen_rntuple::estimate::usage;
use dolmen_rntuple::store::Condition;
use dolmen_rntuple::{Array, Entries};
use serde_json::{Value, json};

/// Bytes in memory that are read at once, about.
const STEP_BYTES: u64 = 64 << 20;
/// Entries of a tree that are read at once; of an ntuple at most.
const STEP_ENTRIES: u64 = 1 << 16;

#[derive(Args, Debug)]
pub(crate) struct Read {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    form: Form,
    /// The first entry
    #[arg(long, value_name = "ENTRY", default_value_t = 0)]
    first: u64,
    /// How many entries from there are looked at; all if not given
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    /// Only entries for which this holds, such as 'met > 20', of a number or of how long a list is; of several all have to hold
    #[arg(long = "filter", value_name = "CONDITION", value_parser = condition)]
    filters: Vec<Condition>,
}

#[derive(Args, Debug)]
pub(crate) struct Head {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    form: Form,
    /// How many entries
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 10)]
    count: u64,
}

/// What of an entry is printed, and how.
#[derive(Args, Debug)]
pub(crate) struct Form {
    /// Fields, with dots between field and subfield, or branches of a tree; all that can be read if none are named
    #[arg(long = "field", short, value_name = "FIELD")]
    fields: Vec<String>,
    /// How entries are printed
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
}

/// How entries are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// An object a line
    Jsonl,
    /// A line of names, and one of each entry; what has several values is JSON
    Csv,
}

/// Fields of an ntuple.
fn numbers(fields: &[usize]) -> Vec<u32> {
    fields.iter().map(|&field| u32::try_from(field).expect("numbers of fields")).collect()
}

impl Any {
    pub(super) fn entry_count(&self) -> u64 {
        match self {
            Self::Ntuple(opened) => each!(&**opened, ntuple => ntuple.entry_count()),
            Self::Tree(tree) => tree.entry_count(),
        }
    }

    /// The number of a field or a branch.
    pub(super) fn field(&self, name: &str) -> dolmen_rntuple::Result<usize> {
        match self {
            Self::Ntuple(opened) => Ok(each!(&**opened, ntuple => ntuple.field(name))? as usize),
            Self::Tree(tree) => tree.branch(name),
        }
    }

    /// Names and numbers of these fields; of all at the top that can be read if none are named.
    pub(super) fn fields(&self, names: &[String]) -> dolmen_rntuple::Result<Vec<(String, usize)>> {
        if !names.is_empty() {
            return names.iter().map(|name| Ok((name.clone(), self.field(name)?))).collect();
        }
        Ok(match self {
            Self::Ntuple(opened) => each!(&**opened, ntuple => {
                let fields = &ntuple.header().schema.fields;
                let named = |number: u32| (fields[number as usize].name.to_string(), number as usize);
                ntuple.top_fields().map(named).collect()
            }),
            Self::Tree(tree) => {
                let branches = tree.branches();
                let is_read = |number: &usize| branches[*number].type_of().is_ok();
                let named = |number: usize| (branches[number].name.to_string(), number);
                tree.top_branches().filter(is_read).map(named).collect()
            }
        })
    }

    pub(super) fn read(&self, fields: &[usize], entries: Entries) -> dolmen_rntuple::Result<Vec<Array>> {
        match self {
            Self::Ntuple(opened) => each!(&**opened, ntuple => ntuple.read(&numbers(fields), entries)),
            Self::Tree(tree) => tree.read(fields, entries),
        }
    }

    /// As [`read`](Self::read), as conditions are about them: of lists of an ntuple how long each is.
    pub(super) fn read_numbers(
        &self,
        fields: &[usize],
        entries: Entries,
    ) -> dolmen_rntuple::Result<Vec<Array>> {
        match self {
            Self::Ntuple(opened) => {
                each!(&**opened, ntuple => ntuple.read_numbers(&numbers(fields), entries))
            }
            Self::Tree(tree) => tree.read(fields, entries),
        }
    }

    /// How many entries of these fields are read at once.
    pub(super) fn step(&self, fields: &[usize]) -> dolmen_rntuple::Result<u64> {
        let Self::Ntuple(opened) = self else { return Ok(STEP_ENTRIES) };
        let all = Entries { first: 0, end: self.entry_count() };
        let bytes = each!(&**opened, ntuple => usage(ntuple, &numbers(fields), all))?.memory_bytes;
        let entries = STEP_BYTES / (bytes / all.end.max(1)).max(1);
        Ok(entries.clamp(1, STEP_ENTRIES))
    }
}

pub(crate) fn read(args: &Read, as_json: bool) -> Outcome<Answer> {
    print(&args.source, &args.form, (args.first, args.count), &args.filters, as_json)
}

pub(crate) fn head(args: &Head, as_json: bool) -> Outcome<Answer> {
    let any = args.source.open_any()?;
    let count = args.count.min(any.entry_count());
    print_of(&any, &args.form, Entries { first: 0, end: count }, &[], as_json)
        .doing(|| format!("read {}", args.source.shown()))
}

fn print(
    source: &Source,
    form: &Form,
    (first, count): (u64, Option<u64>),
    filters: &[Condition],
    as_json: bool,
) -> Outcome<Answer> {
    let any = source.open_any()?;
    let all = any.entry_count();
    let doing = || format!("read {}", source.shown());
    if first > all {
        let why = format!("there are {}", output::count(all, "entry", "entries"));
        return Err(Failure::new(Exit::Usage, why)).doing(doing);
    }
    let end = count.map_or(all, |count| first.saturating_add(count).min(all));
    print_of(&any, form, Entries { first, end }, filters, as_json).doing(doing)
}

/// Prints entries as they are read, or, as JSON, all of them in one document.
fn print_of(
    any: &Any,
    form: &Form,
    entries: Entries,
    filters: &[Condition],
    as_json: bool,
) -> Outcome<Answer> {
    let (names, numbers): (Vec<String>, Vec<usize>) = any.fields(&form.fields)?.into_iter().unzip();
    let step = any.step(&numbers)?;
    let mut all: Vec<Value> = Vec::new();
    let mut out = String::new();
    if form.format == Format::Csv && !as_json {
        for (nth, name) in names.iter().enumerate() {
            out.push_str(if nth == 0 { "" } else { "," });
            rows::cell(name, &mut out);
        }
        out.push('\n');
    }
    // What is found is printed before more is looked for.
    for looked in steps(entries, step) {
        let parts = passing(any, filters, looked, step, |_| Ok(()))?;
        let (Some(Entries { first, .. }), Some(Entries { end, .. })) = (parts.first(), parts.last()) else {
            continue;
        };
        let arrays = any.read(&numbers, Entries { first: *first, end: *end })?;
        for entry in parts.iter().flat_map(|part| part.first..part.end) {
            let nth = usize::try_from(entry - first).expect("it is in memory");
            match form.format {
                Format::Csv if !as_json => rows::csv(&arrays, nth, &mut out),
                _ => {
                    rows::object(names.iter().map(|name| &**name).zip(&arrays), nth, &mut out);
                    out.push('\n');
                }
            }
            if as_json {
                all.push(serde_json::from_str(&out).expect("an object of JSON"));
                out.clear();
            }
        }
        if output::offer(out.as_bytes())? == Reader::Gone {
            break;
        }
        out.clear();
    }
    // The names, if there are no entries.
    output::print(out.as_bytes())?;
    Ok(Answer::new(String::new(), json!({ "first": entries.first, "end": entries.end, "entries": all })))
}
