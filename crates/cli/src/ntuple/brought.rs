//! What is brought into a container: ntuples and trees that are imported, or appended to an ntuple.

use super::fields::fits;
use super::filter::number;
use super::home::Home;
use super::source::{Any, Source, any_at, each};
use super::stored::{
    LEAVE_OUT, Named, OfBranches, compression, create_options, described, leaving_out, open, refused, told,
};
use super::version::VersionArg;
use super::{TOLD_MAX, heard, step};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::Answer;
use crate::path::{shown_outside, word};
use crate::place::ContArg;
use crate::progress::Bar;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use dolmen_remote::address;
use dolmen_rntuple::Error;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::store::{Appender, Fill, LeftOut, Stored, TreeOptions, Version, When};
use dolmen_rntuple::write::Options;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Files at most that stay open between a look at their schemas and the reading of their entries: others are opened once more, so that any number
/// can be appended at once.
const OPEN_MAX: usize = 64;

#[derive(Args, Debug)]
pub(crate) struct Import {
    #[command(flatten)]
    cont: ContArg,
    /// A file of ROOT
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Which ntuple or tree of the file, if there are several
    #[arg(long, value_name = "NTUPLE", visible_alias = "tree")]
    ntuple: Option<String>,
    /// What it is called in the container; its own name if not given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Branches of a tree, by their names or by those that the fields get, or patterns such as 'Muon_*' (* any characters, ? one); all at the top
    /// if none are named
    #[arg(long = "field", short, value_name = "BRANCH")]
    fields: Vec<Box<str>>,
    /// Leave out branches of a tree that cannot be read, and say which
    #[arg(long)]
    leave_out: bool,
    /// Compression of pages of a tree: none, or zstd, lz4, zlib or lzma, with :LEVEL or without
    #[arg(long, value_name = "NAME", value_parser = compression)]
    compression: Option<Compression>,
    /// Bytes of columns that are stored as one value, and read by one request
    #[arg(long, value_name = "SIZE", value_parser = crate::size::between(4096, 64 << 20))]
    group: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct Append {
    #[command(flatten)]
    named: Named,
    /// Files of ROOT; of several all are appended at once, or nothing
    #[arg(
        value_name = "FILE", value_hint = clap::ValueHint::FilePath, required_unless_present = "from", conflicts_with = "from",
        value_parser = PathBufValueParser::new().try_map(file)
    )]
    files: Vec<PathBuf>,
    /// Another source than files: POOL CONT NTUPLE of an ntuple that is stored, or FILE [NTUPLE or TREE]
    #[arg(long, value_names = ["POOL|FILE", "CONT|NTUPLE", "NTUPLE"], num_args = 1..=3)]
    from: Vec<OsString>,
    #[command(flatten)]
    version: VersionArg,
    /// Which ntuple or tree of the files, if there are several
    #[arg(long, value_name = "NTUPLE", visible_alias = "tree", conflicts_with = "from")]
    ntuple: Option<String>,
    /// The value of a field that a source lacks, or of all that a pattern such as 'HLT_*' fits: a number, or nothing behind the = for zeros and what
    /// is empty; again for each such field. What a source has of it is taken as it is
    #[arg(long = "fill", value_name = "FIELD=VALUE", value_parser = fill)]
    fills: Vec<Fill>,
    /// Leave out fields and branches that the ntuple has not, and branches that cannot be read, and say which
    #[arg(long)]
    leave_out: bool,
}

/// A file, which no bucket as a whole is.
fn file(path: PathBuf) -> Result<PathBuf, String> {
    match address(&path) {
        Some(bucket) if !bucket["s3://".len()..].contains('/') => {
            Err("that is a bucket, and no file in it".to_owned())
        }
        _ => Ok(path),
    }
}

/// A field and what it is filled with.
fn fill(text: &str) -> Result<Fill, String> {
    let wrong = || {
        "give a field, a = and a number, as in weight=1, or nothing behind the = for zeros and what is empty"
            .to_owned()
    };
    let (field, value) = text.split_once('=').ok_or_else(wrong)?;
    let (field, value) = (field.trim(), value.trim());
    let number = if value.is_empty() { None } else { Some(number(value).ok_or_else(wrong)?) };
    if field.is_empty() {
        return Err(wrong());
    }
    Ok(Fill { field: field.into(), number })
}

pub(crate) fn import(args: &Import) -> Outcome<Answer> {
    let any = any_at(&args.file, args.ntuple.as_deref())?;
    let of_tree = !args.fields.is_empty() || args.leave_out || args.compression.is_some();
    if of_tree && matches!(any, Any::Ntuple(_)) {
        let failure = Failure::new(Exit::Usage, "pages of an ntuple are imported as they are, all of them");
        return Err(
            failure.hint("`dolmen ntuple skim` makes one of some fields, or with another compression")
        );
    }
    let own = match &any {
        Any::Ntuple(opened) => each!(&**opened, ntuple => ntuple.header().name.to_string()),
        Any::Tree(tree) => tree.own_name().to_owned(),
    };
    let name = args.name.clone().unwrap_or(own);
    let opened = open(&args.cont, true)?;
    let done = imported(args, &any, &opened, &name);
    let done = done.doing(|| format!("import {name} into {}", opened.shown()));
    opened.close()?;
    let (version, branches) = done?;
    Ok(branches.told(format!("{name}, {}", told(&version)), described(&version)))
}

/// Imports an ntuple or a tree.
fn imported(args: &Import, any: &Any, to: &Home, name: &str) -> Outcome<(Version, OfBranches)> {
    let options = create_options(args.group);
    heard();
    let bar = Bar::of(any.entry_count(), "importing", "entries");
    let progress = |done| step(&bar, done);
    match any {
        Any::Ntuple(opened) => {
            let version =
                each!(&**opened, ntuple => to.store.import_telling(name, ntuple, &options, progress))?;
            Ok((version, OfBranches::default()))
        }
        Any::Tree(tree) => {
            let mut write = Options::default();
            write.compression = args.compression.unwrap_or(write.compression);
            let named = if args.fields.is_empty() { Vec::new() } else { any.fields(&args.fields)? };
            let branches: Vec<Box<str>> = named.into_iter().map(|(name, _)| name.into()).collect();
            let branches = (!branches.is_empty()).then_some(branches);
            let how = TreeOptions { branches, leaves_out: args.leave_out, write };
            let imported = to.store.import_tree(name, tree, &how, &options, progress);
            let imported = imported.map_err(|error| refused(error, LEAVE_OUT))?;
            Ok((imported.version, OfBranches::new(imported.renamed, &imported.left_out)))
        }
    }
}

/// A source of entries that are appended.
struct Given<'a> {
    shown: String,
    /// Where it is opened anew, if it is a file.
    file: Option<&'a Path>,
    any: Option<Any>,
}

impl Given<'_> {
    fn open(&mut self, ntuple: Option<&str>) -> Outcome<Any> {
        match (self.any.take(), self.file) {
            (Some(any), _) => Ok(any),
            (None, Some(file)) => any_at(file, ntuple),
            (None, None) => unreachable!("what is no file stays open"),
        }
    }
}

pub(crate) fn append(args: &Append) -> Outcome<Answer> {
    refuse_twice(&args.fills)?;
    let (given, home) = args.given()?;
    let words = args.named.words(&home);
    let done = appended(args, given, &home, &words).doing(|| format!("append to {words}"));
    home.close()?;
    let (version, left_out) = done?;
    Ok(leaving_out(told(&version), described(&version), &left_out))
}

impl Append {
    /// What is appended, and the container that is written, which can be of the same pool.
    fn given(&self) -> Outcome<(Vec<Given<'_>>, Home)> {
        let to = &self.named.cont;
        if self.from.is_empty() {
            if self.version.is_told() {
                let failure = Failure::new(Exit::Usage, "a file has one version of an ntuple");
                return Err(failure.hint("--version, --tag and --at are of an ntuple that --from names"));
            }
            let given = self.files.iter().map(|file| Given {
                shown: shown_outside(file),
                file: Some(file),
                any: None,
            });
            return Ok((given.collect(), open(to, true)?));
        }
        let source = Source { version: self.version.clone(), ..Source::of_words(&self.from, &to.pool) };
        let (any, home) = match source.stored()? {
            Some((cont, name)) => {
                let (read, written) = Home::open_both(&cont, to)?;
                (Any::Ntuple(source.opened(read, name)?.into()), written)
            }
            None => (source.open_any()?, open(to, true)?),
        };
        Ok((vec![Given { shown: source.shown(), file: None, any: Some(any) }], home))
    }
}

/// Appends all that is given, in one version, or nothing; the version, and what was left out.
fn appended(args: &Append, given: Vec<Given<'_>>, to: &Home, words: &str) -> Outcome<(Version, Vec<String>)> {
    let stored = to.store.ntuple(&args.named.name)?;
    heard();
    let mut appender = stored.append()?;
    appender.fill(spelt_out(&args.fills, &stored)?, &Options::default());
    appender.leave_out(args.leave_out);
    let put = put_all(args, given, &mut appender, words);
    match put.and_then(|left_out| Ok((appender.commit().map_err(remedied)?, left_out))) {
        Ok(done) => Ok(done),
        Err(failure) => {
            // Ignored: what it has written is freed when its lease is over, too.
            let _freed = appender.discard();
            Err(failure)
        }
    }
}

/// Puts all that is given, once it is known that all of it can be; what was left out.
fn put_all(
    args: &Append,
    mut given: Vec<Given<'_>>,
    appender: &mut Appender,
    words: &str,
) -> Outcome<Vec<String>> {
    appender.check()?;
    let doing = |shown: &str| format!("append {shown} to {words}");
    let (mut left_out, mut entry_count) = (Vec::new(), 0);
    for (nth, of) in given.iter_mut().enumerate() {
        let any = of.open(args.ntuple.as_deref())?;
        let left = check(appender, &any).map_err(remedied).doing(|| doing(&of.shown))?;
        left_out.extend(left.iter().map(|why| format!("{}: {why}", of.shown)));
        entry_count += any.entry_count();
        of.any = (nth < OPEN_MAX).then_some(any);
    }
    let bar = Bar::of(entry_count, "appending", "entries");
    let mut before = 0;
    for mut of in given {
        let any = of.open(args.ntuple.as_deref())?;
        let progress = |done| step(&bar, before + done);
        let put = match &any {
            Any::Ntuple(opened) => each!(&**opened, ntuple => appender.push_all_telling(ntuple, progress)),
            Any::Tree(tree) => appender.push_tree(tree, progress),
        };
        put.map_err(remedied).doing(|| doing(&of.shown))?;
        before += any.entry_count();
    }
    Ok(left_out)
}

/// Whether it can be appended; what is left out of it then.
fn check(appender: &Appender, any: &Any) -> dolmen_rntuple::Result<Vec<LeftOut>> {
    match any {
        Any::Ntuple(opened) => each!(&**opened, ntuple => appender.check_ntuple(&ntuple.header().schema)),
        Any::Tree(tree) => appender.check_tree(tree),
    }
}

/// Values of fields, each by its name: a pattern stands for those that it fits, but for who is named, or was fitted by one before it.
fn spelt_out(fills: &[Fill], stored: &Stored) -> Outcome<Vec<Fill>> {
    if !fills.iter().any(|fill| fill.field.contains(['*', '?'])) {
        return Ok(fills.to_vec());
    }
    let ntuple = stored.open(When::Now)?;
    let fields = &ntuple.header().schema.fields;
    let tops: Vec<&str> = ntuple.top_fields().map(|number| &*fields[number as usize].name).collect();
    let is_pattern = |fill: &&Fill| fill.field.contains(['*', '?']) && !tops.contains(&&*fill.field);
    let (patterns, mut found): (Vec<Fill>, Vec<Fill>) =
        fills.iter().cloned().partition(|fill| is_pattern(&fill));
    for pattern in patterns {
        let fitting: Vec<&str> = tops.iter().copied().filter(|name| fits(&pattern.field, name)).collect();
        if fitting.is_empty() {
            return Err(Failure::new(
                Exit::Missing,
                format!("no field fits \"{}\" of --fill", pattern.field),
            ));
        }
        for name in fitting {
            if found.iter().all(|fill| *fill.field != *name) {
                found.push(Fill { field: name.into(), ..pattern.clone() });
            }
        }
    }
    Ok(found)
}

/// Refuses two values of one field.
fn refuse_twice(fills: &[Fill]) -> Outcome<()> {
    let twice = (1..fills.len()).find(|&at| fills[..at].iter().any(|fill| fill.field == fills[at].field));
    let Some(at) = twice else { return Ok(()) };
    let failure = Failure::new(Exit::Usage, format!("--fill names field \"{}\" twice", fills[at].field));
    Err(failure.hint("give each field once"))
}

/// Why nothing was appended, and the words that fill what is missing and leave out what is too much.
fn remedied(error: Error) -> Failure {
    let Error::OtherFields(fields) = &error else {
        return refused(
            error,
            "--leave-out leaves such branches out, and --fill fills fields that they were",
        );
    };
    let some = fields.missing.iter().take(TOLD_MAX);
    let mut missing: String = some.map(|(name, _)| format!(" {}", filling(name))).collect();
    if fields.missing.len() > TOLD_MAX {
        let others = fields.missing.len() - TOLD_MAX;
        missing += &format!(" and so on for {others} others (--fill 'PATTERN=VALUE' is of all that fit)");
    }
    let hint = match (missing.as_str(), &fields.more[..]) {
        _ if fields.are_all || !fields.others.is_empty() => None,
        (missing, []) => Some(format!("add{missing}, with the value of each")),
        ("", _) => Some("add --leave-out to append the others".to_owned()),
        (missing, _) => Some(format!("add{missing}, with the value of each, and --leave-out")),
    };
    hint.into_iter().fold(error.into(), Failure::hint)
}

/// The words that fill a field.
fn filling(field: &str) -> String {
    format!("--fill {}", word(Path::new(&format!("{field}=VALUE"))))
}

#[cfg(test)]
mod tests {
    use super::fill;
    use dolmen_rntuple::store::Number;

    #[test]
    fn a_field_is_filled_with_a_number_or_with_what_is_none() {
        let of = |text| fill(text).map(|fill| (fill.field.into_string(), fill.number)).ok();
        assert_eq!(of("weight=1.5"), Some(("weight".to_owned(), Some(Number::Float(1.5)))));
        assert_eq!(of(" run = -3 "), Some(("run".to_owned(), Some(Number::Signed(-3)))));
        assert_eq!(of("hits="), Some(("hits".to_owned(), None)));
        for wrong in ["", "weight", "=1", "weight=one", "weight==1"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
