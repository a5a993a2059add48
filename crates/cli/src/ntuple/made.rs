//! Ntuples that are made of others: skims, and columns from elsewhere.

use super::entries::Part;
use super::filter::{Filter, filter, known, passing, steps};
use super::home::{self, Home};
use super::parquet::{Unwritten, Writer, has_columns};
use super::source::{Any, Opened, Source, each};
use super::stored::{
    LEAVE_OUT, Named, OfBranches, Pages, Written, create_options, described, leaving_out, refused, told,
};
use super::{TOLD_MAX, heard, step};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, count};
use crate::path::shown_outside;
use crate::place::ContArg;
use crate::progress::Bar;
use clap::Args;
use dolmen_rntuple::bucket::BucketError;
use dolmen_rntuple::store::{
    ColumnAdder, Skimmed, TreeOptions, Version, Wanted, When, skim_to, skim_tree_to,
};
use dolmen_rntuple::write;
use dolmen_rntuple::{Array, Entries};
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("destination").required(true).args(["into", "to"]))]
pub(crate) struct Skim {
    #[command(flatten)]
    source: Source,
    /// Fields at the top, or branches of a tree, or patterns such as 'Muon_*' (* any characters, ? one); all if none are named
    #[arg(long = "field", short, value_name = "FIELD")]
    fields: Vec<Box<str>>,
    /// Leave out branches of a tree that cannot be read, and say which
    #[arg(long)]
    leave_out: bool,
    /// Only entries for which this holds: 'met > 20' of a number, 'len(hits) >= 2' of how long a list or a text is; of several all have to hold
    #[arg(long = "filter", value_name = "CONDITION", value_parser = filter)]
    filters: Vec<Filter>,
    /// Makes it an ntuple of a container, or of an object store: POOL CONT NTUPLE, s3://BUCKET PREFIX NTUPLE or s3://BUCKET/PREFIX NTUPLE, and
    /// s3://BUCKET/ NTUPLE of a bucket as a whole
    #[arg(long, value_names = ["POOL", "CONT", "NTUPLE"], num_args = 2..=3)]
    into: Vec<OsString>,
    /// Writes it as a file of ROOT, or s3://BUCKET/FILE; one that is there is replaced when the new one is whole
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    to: Option<PathBuf>,
    /// Bytes of columns that are stored as one value, and read by one request
    #[arg(long, value_name = "SIZE", value_parser = crate::size::between(4096, 64 << 20), conflicts_with = "to")]
    group: Option<u64>,
    #[command(flatten)]
    written: Written,
}

#[derive(Args, Debug)]
pub(crate) struct ToParquet {
    #[command(flatten)]
    source: Source,
    /// Fields, with dots between field and subfield, or branches of a tree, or patterns such as 'Muon_*' (* any characters, ? one); all that can
    /// be read if none are named
    #[arg(long = "field", short, value_name = "FIELD")]
    fields: Vec<String>,
    /// Leave out fields that no columns of Parquet are as, such as what has one of several types, and say which
    #[arg(long)]
    leave_out: bool,
    #[command(flatten)]
    part: Part,
    /// The file of Parquet to write, or s3://BUCKET/FILE; one that is there is replaced when the new one is whole
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    to: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct AddColumn {
    #[command(flatten)]
    named: Named,
    /// Where the values are: FILE [NTUPLE or TREE], or POOL CONT NTUPLE, with as many entries
    #[arg(long, value_names = ["FILE|POOL", "NTUPLE|CONT", "NTUPLE"], num_args = 1..=3, required = true)]
    from: Vec<OsString>,
    /// Fields of it, or branches, or patterns such as 'Muon_*' (* any characters, ? one); all if none are named
    #[arg(long = "field", short, value_name = "FIELD")]
    fields: Vec<String>,
    #[command(flatten)]
    pages: Pages,
}

pub(crate) fn skim(args: &Skim) -> Outcome<Answer> {
    if let Some(file) = &args.to {
        let doing = || format!("skim {} to {}", args.source.shown(), shown_outside(file));
        args.source.refuse_own(file).doing(doing)?;
        let any = args.source.open_any()?;
        return skim_to_file(args, &any, file).doing(doing);
    }
    let (to, name) = super::source::destination(&args.into, &args.source)?;
    let (any, home) = open_both(&args.source, &to)?;
    let is_own = super::source::destination(&args.source.words, &args.source)
        .is_ok_and(|(from, own)| own == name && home::is_one_store(&from, &to));
    let done = skim_into(args, &any, &home, &name)
        .map_err(|failure| match failure.exit {
            Exit::Taken if is_own => {
                failure.hint("choose another name: that is the ntuple that it is made of")
            }
            _ => failure,
        })
        .doing(|| format!("skim {} to {name} in {}", args.source.shown(), home.shown()));
    drop(any);
    home.close()?;
    let (done, of_branches) = done?;
    let text = format!("{name}, {}; {}", told(&done.version), clusters(done.passed, done.written));
    let mut json = described(&done.version);
    json["clusters_passed"] = json!(done.passed);
    json["clusters_written"] = json!(done.written);
    Ok(of_branches.told(text, json))
}

/// Opens what is read and the container that is written, which can be of one pool.
fn open_both(from: &Source, to: &ContArg) -> Outcome<(Any, Home)> {
    let Some((cont, name)) = from.stored()? else {
        return Ok((from.open_any()?, Home::open(&to.pool, &to.cont, true)?));
    };
    let (read, written) = Home::open_both(&cont, to)?;
    Ok((Any::Ntuple(from.opened(read, name)?.into()), written))
}

fn skim_into(args: &Skim, any: &Any, home: &Home, name: &str) -> Outcome<(Skimmed, OfBranches)> {
    let (ranges, names) = wanted(args, any)?;
    let fields: Vec<&str> = names.iter().map(|name| &**name).collect();
    let wanted = Wanted { fields: &fields, ranges: &ranges };
    let how = create_options(args.group);
    let write = args.written.options();
    let bar = Bar::of(any.entry_count(), "skimming", "entries");
    match any {
        Any::Ntuple(opened) => {
            let made = each!(&**opened, ntuple => {
                home.store.skim_telling(ntuple, &wanted, name, &how, &write, |done| step(&bar, done))
            });
            Ok((made?, OfBranches::default()))
        }
        Any::Tree(tree) => {
            let of = TreeOptions { branches: branches(names), leaves_out: args.leave_out, write };
            let made = home.store.skim_tree(name, (tree, &ranges), &of, &how, |done| step(&bar, done));
            let made = made.map_err(|error| refused(error, LEAVE_OUT))?;
            let (version, of_branches) = (made.version, OfBranches::new(made.renamed, &made.left_out));
            Ok((Skimmed { passed: 0, written: version.cluster_count, version }, of_branches))
        }
    }
}

/// Branches that are named; none for all.
fn branches(names: Vec<Box<str>>) -> Option<Vec<Box<str>>> {
    (!names.is_empty()).then_some(names)
}

fn skim_to_file(args: &Skim, any: &Any, file: &Path) -> Outcome<Answer> {
    let (ranges, names) = wanted(args, any)?;
    let bar = Bar::of(any.entry_count(), "skimming", "entries");
    let write = args.written.options();
    let (passed, written, of_branches) = match any {
        Any::Ntuple(opened) => {
            let (passed, written) = put_in_file(opened, (&names, &ranges), &write, (file, &bar))?;
            (passed, written, OfBranches::default())
        }
        Any::Tree(tree) => {
            let of = TreeOptions { branches: branches(names), leaves_out: args.leave_out, write };
            let begin = home::beginning(file)?;
            let made = skim_tree_to((tree, &ranges), &of, begin, |done| step(&bar, done));
            let made = made.map_err(|error| refused(error, LEAVE_OUT))?;
            (0, made.clusters, OfBranches::new(made.renamed, &made.left_out))
        }
    };
    drop(bar);
    let entries: u64 = ranges.iter().map(|range| range.end - range.first).sum();
    let told = format!(
        "{} in {}; {}",
        count(entries, "entry", "entries"),
        shown_outside(file),
        clusters(passed, written)
    );
    let json = json!({ "entries": entries, "clusters_passed": passed, "clusters_written": written });
    Ok(of_branches.told(told, json))
}

/// Writes fields and entries to a file; how many clusters were taken as they were, and how many written anew.
fn put_in_file(
    opened: &Opened,
    (names, ranges): (&[Box<str>], &[Entries]),
    write: &write::Options,
    (file, bar): (&Path, &Bar),
) -> Outcome<(u64, u64)> {
    let fields: Vec<&str> = names.iter().map(|name| &**name).collect();
    let wanted = Wanted { fields: &fields, ranges };
    let begin = home::beginning(file)?;
    Ok(each!(opened, ntuple => skim_to(ntuple, &wanted, write, begin, |done| step(bar, done)))?)
}

/// Writes a file of ROOT of some fields and of all entries, with the pages as they are.
pub(super) fn export_fields(opened: &Opened, fields: &[String], file: &Path) -> Outcome<Answer> {
    let chosen = each!(opened, ntuple => super::fields::chosen(ntuple, fields))?;
    let names: Vec<Box<str>> = chosen.into_iter().map(|(name, _)| name.into()).collect();
    let entries = each!(opened, ntuple => ntuple.entry_count());
    let all = [Entries { first: 0, end: entries }];
    let bar = Bar::of(entries, "exporting", "entries");
    put_in_file(opened, (&names, &all), &write::Options::default(), (file, &bar))?;
    drop(bar);
    let told = format!(
        "{} and {} in {}",
        count(entries, "entry", "entries"),
        count(names.len() as u64, "field", "fields"),
        shown_outside(file)
    );
    let fields: Vec<&str> = names.iter().map(|name| &**name).collect();
    Ok(Answer::new(told, json!({ "entries": entries, "fields": fields })))
}

fn clusters(passed: u64, written: u64) -> String {
    format!("{} as they were, {written} written", count(passed, "cluster", "clusters"))
}

/// Ranges of entries and names of fields that are wanted.
fn wanted(args: &Skim, any: &Any) -> Outcome<(Vec<Entries>, Vec<Box<str>>)> {
    heard();
    let all = Entries { first: 0, end: any.entry_count() };
    let names = match &args.fields[..] {
        [] => Vec::new(),
        some => any.fields(some)?.into_iter().map(|(name, _)| name.into()).collect(),
    };
    let known = known(any, &args.filters)?;
    let bar = Bar::of(all.end, "looking at", "entries");
    let ranges = passing(any, &known, all, any.step(&known.fields)?, |done| step(&bar, done))?;
    Ok((ranges, names))
}

pub(crate) fn add_column(args: &AddColumn) -> Outcome<Answer> {
    let from = Source::of_words(&args.from, &args.named.cont.pool);
    let (any, home) = open_both(&from, &args.named.cont)?;
    let done = added(args, &any, &home);
    let done = done.doing(|| format!("add columns of {} to {}", from.shown(), args.named.words(&home)));
    drop(any);
    home.close()?;
    let (names, version) = done?;
    let text = format!("{}: {}", names.join(", "), told(&version));
    let mut json = described(&version);
    json["fields"] = json!(names);
    Ok(Answer::new(text, json))
}

/// Adds the columns; the names of the fields, and the version that has them.
fn added(args: &AddColumn, any: &Any, home: &Home) -> Outcome<(Vec<String>, Version)> {
    heard();
    let stored = home.store.ntuple(&args.named.name)?;
    let ntuple = stored.open(When::Now)?;
    let (has, needs) = (any.entry_count(), ntuple.entry_count());
    if has != needs {
        let why = format!("there are {} and {needs} are needed", count(has, "entry", "entries"));
        return Err(Failure::new(Exit::Usage, why));
    }
    let (names, numbers): (Vec<String>, Vec<usize>) = any.fields(&args.fields)?.into_iter().unzip();
    let names: Vec<String> = names.iter().map(|name| super::field_name(name)).collect();
    if let Some(name) = names.iter().find(|name| ntuple.field(name).is_ok()) {
        let failure = Failure::new(Exit::Taken, format!("there is a field \"{name}\" already"));
        return Err(failure.hint("--field names those that are wanted"));
    }
    let none = any.read(&numbers, Entries { first: 0, end: 0 })?;
    let types: Vec<(&str, &Array)> = names.iter().map(|name| &**name).zip(&none).collect();
    let options = args.pages.options();
    let mut schema = ntuple.header().schema.clone();
    write::schema(&mut schema, &types, options.compression)?;
    let bar = Bar::of(needs, "adding", "entries");
    let mut adder = stored.add_columns(&schema)?;
    let done = filled(&mut adder, |adder, entries| {
        let arrays = any.read(&numbers, entries)?;
        let fields: Vec<(&str, &Array)> = names.iter().map(|name| &**name).zip(&arrays).collect();
        adder.push(&write::seal(&schema, &fields, 0..entries.end - entries.first, &options)?)?;
        step(&bar, entries.end)
    });
    match done {
        Ok(version) => Ok((names, version)),
        Err(error) => {
            // Ignored: what it has written is freed when its lease is over, too.
            let _freed = adder.discard();
            Err(error.into())
        }
    }
}

/// Has the columns of each cluster put, and makes them part of the ntuple.
fn filled(
    adder: &mut ColumnAdder,
    mut put: impl FnMut(&mut ColumnAdder, Entries) -> dolmen_rntuple::Result<()>,
) -> dolmen_rntuple::Result<Version> {
    while let Some(entries) = adder.missing().first().copied() {
        put(adder, entries)?;
    }
    adder.commit()
}

pub(crate) fn to_parquet(args: &ToParquet) -> Outcome<Answer> {
    let doing = || format!("write {} to {}", args.source.shown(), shown_outside(&args.to));
    args.source.refuse_own(&args.to).doing(doing)?;
    let any = args.source.open_any()?;
    let (entries, groups, left_out) = parquet_of(args, &any).doing(doing)?;
    let told = format!(
        "{} in {}, {}",
        count(entries, "entry", "entries"),
        shown_outside(&args.to),
        count(groups, "row group", "row groups")
    );
    Ok(leaving_out(told, json!({ "entries": entries, "row_groups": groups }), &left_out))
}

/// Fields without those that no columns of Parquet are as, each with no values of it, and names of these.
type Columns = (Vec<((String, usize), Array)>, Vec<String>);

/// Fields with columns, and those without, which are left out if that is wanted.
fn columns(args: &ToParquet, any: &Any) -> Outcome<Columns> {
    let fields = any.fields(&args.fields)?;
    let numbers: Vec<usize> = fields.iter().map(|(_, number)| *number).collect();
    let none = any.read(&numbers, Entries { first: 0, end: 0 })?;
    let (fit, unfit): (Vec<_>, Vec<_>) =
        fields.into_iter().zip(none).partition(|(_, array)| has_columns(array));
    let unfit: Vec<String> = unfit.into_iter().map(|((name, _), _)| name).collect();
    if unfit.is_empty() || (args.leave_out && !fit.is_empty()) {
        return Ok((fit, unfit));
    }
    let mut named: Vec<String> = unfit.iter().take(TOLD_MAX).map(|name| format!("\"{name}\"")).collect();
    if unfit.len() > TOLD_MAX {
        named.push(format!("and {} others", unfit.len() - TOLD_MAX));
    }
    let (fields, are) = if unfit.len() == 1 { ("field", "is") } else { ("fields", "are") };
    let why = format!("no columns of Parquet are as {fields} {} {are}", named.join(", "));
    let failure = Failure::new(Exit::Usage, why);
    Err(match fit.is_empty() {
        true => failure.hint("--field names those that are wanted"),
        false => failure.hint("--leave-out leaves such fields out, and --field names those that are wanted"),
    })
}

/// How many entries and row groups were written, and which fields were left out.
fn parquet_of(args: &ToParquet, any: &Any) -> Outcome<(u64, u64, Vec<String>)> {
    heard();
    let range = args.part.range(any.entry_count())?;
    let (fields, left_out) = columns(args, any)?;
    let ((names, numbers), none): ((Vec<String>, Vec<usize>), Vec<Array>) = fields.into_iter().unzip();
    let known = known(any, &args.part.filters)?;
    let fields: Vec<(&str, &Array)> = names.iter().map(|name| &**name).zip(&none).collect();
    let mut writer = Writer::begin(home::output(&args.to)?, &fields);
    let failed = |error: std::io::Error| match error.downcast::<BucketError>() {
        Ok(error) => dolmen_rntuple::Error::from(error).into(),
        Err(error) => Failure::on_file(&args.to, &error),
    };
    let (mut written, mut groups) = (0, 0);
    let bar = Bar::of(range.end - range.first, "writing", "entries");
    let step_entries = any.step(&numbers)?;
    for looked in steps(range, step_entries) {
        let parts = passing(any, &known, looked, step_entries, |_| Ok(()))?;
        if let (Some(Entries { first, .. }), Some(Entries { end, .. })) = (parts.first(), parts.last()) {
            let arrays = any.read(&numbers, Entries { first: *first, end: *end })?;
            let place = |entry: u64| usize::try_from(entry - first).expect("it is in memory");
            let passed: Vec<_> = parts.iter().map(|part| place(part.first)..place(part.end)).collect();
            writer.append(&arrays, &passed).map_err(|(number, why)| match why {
                Unwritten::Io(error) => failed(error),
                Unwritten::Text => {
                    let name = &names[number];
                    let why = format!("field \"{name}\" has texts in entries {first} to {end} that are no UTF-8, as all of Parquet are");
                    let hint = "--field names those that are wanted; `to_parquet(strings=\"binary\")` of Python writes their bytes";
                    Failure::new(Exit::Usage, why).hint(hint)
                }
            })?;
            written += parts.iter().map(|part| part.end - part.first).sum::<u64>();
            groups += 1;
        }
        step(&bar, looked.end - range.first)?;
    }
    writer.finish().map_err(failed)?;
    let left_out = left_out.iter().map(|name| format!("\"{name}\": no columns of Parquet are as it is"));
    Ok((written, groups, left_out.collect()))
}
