//! Entries of an ntuple or a tree, read and printed.

use super::filter::{Filter, filter, known, passing, steps};
use super::rows;
use super::source::{Any, Source, each};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{self, Answer, Reader};
use clap::{Args, ValueEnum};
use dolmen_rntuple::estimate::usage;
use dolmen_rntuple::{Array, Entries};

/// Bytes in memory that are read at once, about.
const STEP_BYTES: u64 = 64 << 20;
/// Bytes of text that are printed at once, at least, while there is more.
const PRINTED_BYTES: usize = 1 << 20;
/// Entries of a tree that are read at once; of an ntuple at most.
const STEP_ENTRIES: u64 = 1 << 16;

#[derive(Args, Debug)]
pub(crate) struct Read {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    part: Part,
}

/// Which entries are wanted.
#[derive(Args, Debug)]
pub(super) struct Part {
    /// The first entry
    #[arg(long, value_name = "ENTRY", default_value_t = 0)]
    first: u64,
    /// How many entries from there are looked at; all if not given
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    /// Only entries for which this holds: 'met > 20' of a number, 'len(hits) >= 2' of how long a list or a text is; of several all have to hold
    #[arg(long = "filter", value_name = "CONDITION", value_parser = filter)]
    pub(super) filters: Vec<Filter>,
}

impl Part {
    /// The range, of so many entries.
    pub(super) fn range(&self, all: u64) -> Outcome<Entries> {
        let Self { first, count, .. } = *self;
        if first > all {
            let why = format!("there are {}", output::count(all, "entry", "entries"));
            return Err(Failure::new(Exit::Usage, why));
        }
        Ok(Entries { first, end: count.map_or(all, |count| first.saturating_add(count).min(all)) })
    }
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
    /// Fields, with dots between field and subfield, or branches of a tree, or patterns such as 'Muon_*' (* any characters, ? one); all that can
    /// be read if none are named
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

    pub(super) fn read(&self, fields: &[usize], entries: Entries) -> dolmen_rntuple::Result<Vec<Array>> {
        match self {
            Self::Ntuple(opened) => each!(&**opened, ntuple => ntuple.read(&numbers(fields), entries)),
            Self::Tree(tree) => tree.read(fields, entries),
        }
    }

    /// As [`read`](Self::read), as conditions are about them: of lists and texts of an ntuple how long each is.
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
    let doing = || format!("read {}", args.source.shown());
    let any = args.source.open_any()?;
    let entries = args.part.range(any.entry_count()).doing(doing)?;
    print(&any, &args.form, (entries, &args.part.filters), as_json, doing)
}

pub(crate) fn head(args: &Head, as_json: bool) -> Outcome<Answer> {
    let any = args.source.open_any()?;
    let entries = Entries { first: 0, end: args.count.min(any.entry_count()) };
    print(&any, &args.form, (entries, &[]), as_json, || format!("read {}", args.source.shown()))
}

/// How what is printed goes on.
struct Sheet {
    names: Vec<String>,
    format: Format,
    /// Entries are those of one document of JSON, as all commands print.
    is_document: bool,
    /// What is to be printed next.
    out: Vec<u8>,
    /// Whether something was printed.
    is_begun: bool,
    count: u64,
}

/// Prints entries as they are read: also of a document of JSON, of which the end says so if something failed in the midst of it.
fn print(
    any: &Any,
    form: &Form,
    (entries, filters): (Entries, &[Filter]),
    is_document: bool,
    doing: impl Fn() -> String,
) -> Outcome<Answer> {
    let (names, numbers): (Vec<String>, Vec<usize>) =
        any.fields(&form.fields).doing(&doing)?.into_iter().unzip();
    let mut sheet =
        Sheet { names, format: form.format, is_document, out: Vec::new(), is_begun: false, count: 0 };
    if is_document {
        super::heard();
    }
    sheet.begin(entries);
    let (rest, exit) = match sheet.put_all(any, &numbers, (entries, filters)).doing(&doing) {
        Err(failure) if is_document && sheet.is_begun => {
            let told = failure.to_json();
            (
                format!(
                    "\"error\": {}, \"detail\": {}, \"status\": {}",
                    told["error"], told["detail"], told["status"]
                ),
                failure.exit,
            )
        }
        done => {
            done?;
            ("\"error\": null,\n  \"status\": 0".to_owned(), Exit::Done)
        }
    };
    if is_document {
        let end = if sheet.count == 0 { "" } else { "\n    " };
        sheet.out.extend_from_slice(format!("{end}]\n  }},\n  {rest}\n}}\n").as_bytes());
    }
    // The names, if there are no entries.
    output::print(&sheet.out)?;
    Ok(Answer::printed(exit))
}

impl Sheet {
    /// What stands before the entries.
    fn begin(&mut self, Entries { first, end }: Entries) {
        if self.is_document {
            self.out = format!(
                "{{\n  \"response\": {{\n    \"first\": {first},\n    \"end\": {end},\n    \"entries\": ["
            )
            .into_bytes();
        } else if self.format == Format::Csv {
            for (nth, name) in self.names.iter().enumerate() {
                self.out.extend_from_slice(if nth == 0 { b"" } else { b"," });
                rows::cell(name.as_bytes(), &mut self.out);
            }
            self.out.push(b'\n');
        }
    }

    /// Prints what passes, step by step, until nobody reads on.
    fn put_all(
        &mut self,
        any: &Any,
        numbers: &[usize],
        (entries, filters): (Entries, &[Filter]),
    ) -> Outcome<()> {
        let step = any.step(numbers)?;
        let known = known(any, filters)?;
        // What is found is printed before more is looked for.
        for looked in steps(entries, step) {
            let parts = passing(any, &known, looked, step, |_| Ok(()))?;
            let (Some(Entries { first, .. }), Some(Entries { end, .. })) = (parts.first(), parts.last())
            else {
                continue;
            };
            let arrays = any.read(numbers, Entries { first: *first, end: *end })?;
            for entry in parts.iter().flat_map(|part| part.first..part.end) {
                self.put(&arrays, usize::try_from(entry - first).expect("it is in memory"));
                if self.out.len() >= PRINTED_BYTES && self.print()? == Reader::Gone {
                    return Ok(());
                }
            }
            if self.print()? == Reader::Gone {
                return Ok(());
            }
            if self.is_document && crate::interrupt::is_asked() {
                return Err(dolmen_rntuple::Error::Stopped.into());
            }
        }
        Ok(())
    }

    /// Adds an entry.
    fn put(&mut self, arrays: &[Array], nth: usize) {
        if self.is_document {
            self.out.extend_from_slice(if self.count == 0 { b"\n      " } else { b",\n      " });
        }
        self.count += 1;
        if self.format == Format::Csv && !self.is_document {
            rows::csv(arrays, nth, &mut self.out);
            return;
        }
        rows::object(self.names.iter().map(|name| &**name).zip(arrays), nth, &mut self.out);
        if !self.is_document {
            self.out.push(b'\n');
        }
    }

    fn print(&mut self) -> Outcome<Reader> {
        let reader = output::offer(&self.out)?;
        self.out.clear();
        self.is_begun = true;
        Ok(reader)
    }
}
