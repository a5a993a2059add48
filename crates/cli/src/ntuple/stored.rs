//! What is done with ntuples in a container.

use super::fields::chosen;
use super::home::{self, Home};
use super::version::{self, VersionArg};
use super::{TOLD_MAX, heard, step};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::{Answer, Table, count, date, human};
use crate::path::word;
use crate::place::{ContArg, PoolArg};
use crate::progress::Bar;
use clap::Args;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::store::{
    Access, Collected, CreateOptions, Damage, Store, Stored, Version, When, order_of,
};
use dolmen_rntuple::write::{self, Options};
use dolmen_rntuple::{Entries, Error, Trace};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const NS: u64 = 1_000_000_000;

/// A hundred years.
const KEEP_SECONDS_MAX: u64 = 100 * 366 * 86_400;

#[derive(Args, Debug)]
pub(crate) struct Named {
    #[command(flatten)]
    pub(super) cont: ContArg,
    /// Its name
    #[arg(value_name = "NTUPLE")]
    pub(super) name: String,
}

/// How pages are written.
#[derive(Args, Debug)]
pub(crate) struct Pages {
    /// none, or zstd, lz4, zlib or lzma, with :LEVEL or without
    #[arg(long, value_name = "NAME", default_value = "zstd:1", value_parser = compression)]
    compression: Compression,
    /// Bytes of a page before it is compressed
    #[arg(long, value_name = "SIZE", value_parser = crate::size::between(1024, 64 << 20))]
    page: Option<u64>,
}

impl Pages {
    pub(super) fn options(&self) -> Options {
        Options {
            compression: self.compression,
            page_bytes: self
                .page
                .map_or(write::PAGE_BYTES, |bytes| u32::try_from(bytes).expect("it was limited")),
            ..Options::default()
        }
    }
}

/// How clusters are written.
#[derive(Args, Debug)]
pub(crate) struct Written {
    #[command(flatten)]
    pages: Pages,
    /// Bytes of a cluster before it is compressed
    #[arg(long, value_name = "SIZE", value_parser = crate::size::between(64 << 10, 4 << 30))]
    cluster: Option<u64>,
}

impl Written {
    pub(super) fn options(&self) -> Options {
        let cluster_bytes = self.cluster.unwrap_or(write::CLUSTER_BYTES);
        Options { cluster_bytes, ..self.pages.options() }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Copy {
    #[command(flatten)]
    from: Named,
    /// The pool of the container to which it goes, or s3://BUCKET
    #[arg(value_name = "TO_POOL")]
    to_pool: PathBuf,
    /// That container, or a prefix of the bucket
    #[arg(value_name = "TO_CONT")]
    to_cont: String,
    /// What it is called there; the same if not given
    #[arg(value_name = "NAME")]
    to_name: Option<String>,
    /// The same, as an option
    #[arg(long = "name", value_name = "NAME", conflicts_with = "to_name")]
    called: Option<String>,
    /// Bytes of columns that are stored as one value, and read by one request
    #[arg(long, value_name = "SIZE", value_parser = crate::size::between(4096, 64 << 20))]
    group: Option<u64>,
    #[command(flatten)]
    version: VersionArg,
}

#[derive(Args, Debug)]
pub(crate) struct Keep {
    #[command(flatten)]
    named: Named,
    /// For so long; for how long it is now if not given
    #[arg(
        value_name = "SECONDS", value_parser = crate::size::count::<u64>(0, KEEP_SECONDS_MAX), allow_negative_numbers = true
    )]
    seconds: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct Pack {
    #[command(flatten)]
    named: Named,
    /// Fields that are read together, or patterns such as 'Muon_*' (* any characters, ? one), and how often beside others: FIELD,FIELD or
    /// FIELD,FIELD=COUNT; columns stand as the schema has them if none are named
    #[arg(long, value_name = "FIELDS", value_parser = together)]
    together: Vec<(Vec<String>, u64)>,
    /// A trace of what was read (Python's `Trace.save`), several if it is given again; fields that there are not are left out
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// Bytes of columns that are stored as one value, and read by one request; as before if not given
    #[arg(long, value_name = "SIZE", value_parser = crate::size::between(4096, 64 << 20))]
    group: Option<u64>,
}

/// What traces tell together.
fn traced(paths: &[PathBuf]) -> Outcome<Trace> {
    let mut trace = Trace::default();
    for path in paths {
        let text = std::fs::read(path).map_err(|error| Failure::on_file(path, &error))?;
        let read = Trace::parse(&String::from_utf8_lossy(&text));
        let read = read.map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", path.display())))?;
        trace.merge(&read);
    }
    Ok(trace)
}

/// Fields that are read together, and how often.
fn together(text: &str) -> Result<(Vec<String>, u64), String> {
    let (fields, count) =
        text.split_once('=').map_or((text, Ok(1)), |(fields, count)| (fields, count.parse()));
    let fields: Vec<String> = fields.split(',').map(|field| field.trim().to_owned()).collect();
    match count {
        Ok(count) if fields.iter().all(|field| !field.is_empty()) => Ok((fields, count)),
        _ => {
            Err("give fields with commas between them, and a number behind a =, as in pt,eta=100".to_owned())
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Tag {
    #[command(flatten)]
    named: Named,
    /// The tag
    #[arg(value_name = "TAG")]
    tag: String,
    /// The number of the version; the current one if not given
    #[arg(value_name = "VERSION")]
    version: Option<u64>,
    /// Also a tag that keeps another version
    #[arg(long = "move")]
    moves: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Untag {
    #[command(flatten)]
    named: Named,
    /// The tag
    #[arg(value_name = "TAG")]
    tag: String,
}

#[derive(Args, Debug)]
pub(crate) struct CloneFields {
    #[command(flatten)]
    named: Named,
    /// What the new one is called
    #[arg(value_name = "NAME")]
    to: String,
    /// Fields at the top, or patterns such as 'Muon_*' (* any characters, ? one); all if none are named
    #[arg(long = "field", short, value_name = "FIELD")]
    fields: Vec<String>,
    #[command(flatten)]
    version: VersionArg,
}

#[derive(Args, Debug)]
pub(crate) struct Destroy {
    #[command(flatten)]
    named: Named,
    /// Also an ntuple of which tags keep versions, or that is damaged
    #[arg(long)]
    force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Reshape {
    #[command(flatten)]
    named: Named,
    /// Begin with the cluster that begins at this entry or next behind it: where a reshaping was interrupted
    #[arg(long, value_name = "ENTRY", default_value_t = 0)]
    first: u64,
    /// Bytes before compression that a step writes anew: so much memory it takes, each is a version, and a signal is heard between two
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = crate::size::between(64 << 10, 1 << 40))]
    step: u64,
    #[command(flatten)]
    written: Written,
}

#[derive(Args, Debug)]
pub(crate) struct Scrub {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    version: VersionArg,
    /// A file of ROOT with the same pages, by which damaged ones are put right
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    repair_from: Option<PathBuf>,
    /// Which ntuple of the file, if there are several
    #[arg(long, value_name = "NTUPLE", requires = "repair_from")]
    ntuple: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Collect {
    #[command(flatten)]
    cont: ContArg,
    /// Nobody writes: also what writers have left that died less than ten minutes ago. Who writes in spite of it loses what he has not committed
    #[arg(long)]
    alone: bool,
}

/// A compression by its name.
pub(super) fn compression(text: &str) -> Result<Compression, String> {
    let (name, level) = text.split_once(':').map_or((text, None), |(name, level)| (name, Some(level)));
    let (algorithm, default, most) = match name {
        "none" if level.is_none() => return Ok(Compression::None),
        "zlib" => (100, 6, 9),
        "lzma" => (200, 7, 9),
        "lz4" => (400, 1, 9),
        "zstd" => (500, 5, 19),
        _ => return Err("it is none, zlib, lzma, lz4 or zstd, with :LEVEL or without".to_owned()),
    };
    let level = level.map_or(Ok(default), str::parse::<u32>).ok().filter(|level| (1..=most).contains(level));
    let found = level.and_then(|level| Compression::of(algorithm + level));
    found.ok_or_else(|| format!("a level of {name} is a number from 1 to {most}"))
}

pub(super) fn open(arg: &ContArg, writes: bool) -> Outcome<Home> {
    Home::open(&arg.pool, &arg.cont, writes)
}

impl Named {
    pub(super) fn words(&self, home: &Home) -> String {
        format!("ntuple {} of {}", self.name, home.shown())
    }

    /// Does something with the ntuple.
    fn with<T>(
        &self,
        writes: bool,
        doing: &str,
        body: impl FnOnce(&Store, &Stored) -> Outcome<T>,
    ) -> Outcome<T> {
        let opened = open(&self.cont, writes)?;
        let stored = opened.store.ntuple(&self.name).map_err(Failure::from);
        let done = stored.and_then(|stored| body(&opened.store, &stored));
        let done = done.doing(|| format!("{doing} {}", self.words(&opened)));
        // Also a pool in which nothing was done is closed.
        opened.close()?;
        done
    }
}

pub(super) fn described(version: &Version) -> Value {
    json!({
        "version": version.number,
        "time_ns": version.time_ns,
        "entries": version.entry_count,
        "clusters": version.cluster_count,
        "made": format!("{:?}", version.made),
    })
}

pub(super) fn told(version: &Version) -> String {
    let entries = count(version.entry_count, "entry", "entries");
    format!(
        "version {}: {entries} in {}",
        version.number,
        count(version.cluster_count, "cluster", "clusters")
    )
}

/// Bytes of a group that an argument tells.
fn group_bytes(told: Option<u64>) -> Option<u32> {
    told.map(|bytes| u32::try_from(bytes).expect("it was limited"))
}

/// How an ntuple is made, with groups of so many bytes if that was told.
pub(super) fn create_options(group: Option<u64>) -> CreateOptions {
    CreateOptions { group_bytes: group_bytes(group), ..CreateOptions::default() }
}

/// What became of the branches of a tree; nothing where an ntuple is taken as it is.
#[derive(Default)]
pub(super) struct OfBranches {
    /// Branches and their fields, where these have other names.
    pub(super) renamed: Vec<(Box<str>, Box<str>)>,
    /// Why branches are left out.
    pub(super) left_out: Vec<String>,
}

impl OfBranches {
    pub(super) fn new(renamed: Vec<(Box<str>, Box<str>)>, left_out: &[Error]) -> Self {
        Self { renamed, left_out: left_out.iter().map(ToString::to_string).collect() }
    }

    /// The answer, with what they are called now, and what was left out.
    pub(super) fn told(&self, mut text: String, mut json: Value) -> Answer {
        let Self { renamed, left_out } = self;
        for (branch, field) in renamed.iter().take(TOLD_MAX) {
            text.extend(["\n", branch, " is called ", field]);
        }
        if renamed.len() > TOLD_MAX {
            text.push_str(&format!("\nso are {} others; --json tells all", renamed.len() - TOLD_MAX));
        }
        json["renamed"] = renamed.iter().map(|(branch, field)| (branch.to_string(), json!(field))).collect();
        leaving_out(text, json, left_out)
    }
}

/// The answer, with what was left out and why.
pub(super) fn leaving_out(mut text: String, mut json: Value, left_out: &[String]) -> Answer {
    text.extend(left_out.iter().flat_map(|why| ["\nleft out: ", why]));
    json["left_out"] = json!(left_out);
    Answer::new(text, json)
}

/// What to do about a branch of a tree of which an ntuple is to be made.
pub(super) const LEAVE_OUT: &str =
    "--leave-out leaves such branches out, and --field names those that are wanted";

/// Why a tree has not become an ntuple; what to do if it is for a branch.
pub(super) fn refused(error: dolmen_rntuple::Error, hint: &str) -> Failure {
    let is_branch = matches!(error, dolmen_rntuple::Error::BranchRefused { .. });
    let failure = Failure::from(error);
    if is_branch { failure.hint(hint) } else { failure }
}

pub(crate) fn copy(args: &Copy) -> Outcome<Answer> {
    let to = ContArg {
        pool: PoolArg { pool: args.to_pool.clone(), ..args.from.cont.pool.clone() },
        cont: args.to_cont.clone(),
    };
    let (from, to) = Home::open_both(&args.from.cont, &to)?;
    let ntuple = args.version.open(&from.store, &args.from.name);
    let ntuple = ntuple.doing(|| format!("open {}", args.from.words(&from)))?;
    let name = args.called.as_ref().or(args.to_name.as_ref()).unwrap_or(&args.from.name);
    let options = create_options(args.group);
    heard();
    let bar = Bar::of(ntuple.entry_count(), "copying", "entries");
    let made = to.store.import_telling(name, &ntuple, &options, |done| step(&bar, done));
    drop(bar);
    let made = made.doing(|| format!("copy {} to {name} in {}", args.from.words(&from), to.shown()));
    drop(ntuple);
    from.close()?;
    to.close()?;
    let version = made?;
    Ok(Answer::new(format!("{name}, {}", told(&version)), described(&version)))
}

pub(crate) fn keep(args: &Keep) -> Outcome<Answer> {
    let keeps_ns = match args.seconds {
        None => args
            .named
            .with(false, "tell how long versions are kept of", |_, stored| Ok(stored.keeps_ns()?))?,
        Some(seconds) => {
            let keep_ns = seconds * NS;
            args.named
                .with(true, "set how long versions are kept of", |_, stored| Ok(stored.keep(keep_ns)?))?;
            keep_ns
        }
    };
    Ok(Answer::new(kept_for(keeps_ns), json!({ "seconds": keeps_ns.div_ceil(NS) })))
}

/// For how long versions are kept, in words.
fn kept_for(keeps_ns: u64) -> String {
    let seconds = keeps_ns.div_ceil(NS);
    format!(
        "versions are kept for {} after they were replaced, and while a tag keeps them",
        count(seconds, "second", "seconds")
    )
}

pub(crate) fn pack(args: &Pack) -> Outcome<Answer> {
    let group_bytes = group_bytes(args.group);
    let trace = traced(&args.trace)?;
    let (order, group_bytes) = args.named.with(true, "pack columns of", |_, stored| {
        let ntuple = stored.open(When::Now)?;
        let mut accesses = trace.accesses(&ntuple);
        for (fields, count) in &args.together {
            let fields = chosen(&ntuple, fields)?.into_iter().map(|(_, number)| number).collect();
            accesses.push(Access { fields, count: *count });
        }
        let order = order_of(&ntuple, &accesses);
        let group_bytes = stored.pack(&order, group_bytes)?;
        Ok((order, group_bytes))
    })?;
    let told = "what is written from now on is packed so; `dolmen ntuple reshape` writes what is there anew";
    Ok(Answer::new(told, json!({ "columns": order, "group_bytes": group_bytes })))
}

pub(crate) fn expire(args: &Named) -> Outcome<Answer> {
    let removed = args.with(true, "expire versions of", |_, stored| Ok(stored.expire()?))?;
    let told = format!(
        "{} removed; `dolmen ntuple gc` frees what only they had",
        count(removed, "version is", "versions are")
    );
    Ok(Answer::new(told, json!({ "versions": removed })))
}

pub(crate) fn versions(args: &Named) -> Outcome<Answer> {
    let (versions, tags, keeps_ns) = args.with(false, "list versions of", |_, stored| {
        Ok((stored.versions()?, stored.tags()?, stored.keeps_ns()?))
    })?;
    let mut table = Table::new(&["version", "made (UTC)", "entries", "clusters", "by", "tags"]);
    let mut all = Vec::new();
    for version in &versions {
        let kept: Vec<&str> =
            tags.iter().filter(|tag| tag.version == version.number).map(|tag| &*tag.name).collect();
        table.row([
            version.number.to_string(),
            date(i64::try_from(version.time_ns / 1_000_000_000).unwrap_or(i64::MAX)),
            version.entry_count.to_string(),
            version.cluster_count.to_string(),
            format!("{:?}", version.made),
            kept.join(" "),
        ]);
        let mut told = described(version);
        told["tags"] = json!(kept);
        all.push(told);
    }
    Ok(Answer::new(format!("{}\n{}", table.text().trim_end(), kept_for(keeps_ns)), all.into()))
}

pub(crate) fn tag(args: &Tag) -> Outcome<Answer> {
    let when = args.version.map_or(When::Now, When::Version);
    let version =
        args.named.with(true, "tag", |_, stored| match stored.tag(&args.tag, when, args.moves) {
            Err(dolmen_rntuple::Error::Exists { .. }) => Err(is_tag(stored, &args.tag)?),
            tagged => version::of(stored, when, tagged),
        })?;
    Ok(Answer::new(format!("{} keeps {}", args.tag, told(&version)), described(&version)))
}

/// Why a tag is not set that is there.
fn is_tag(stored: &Stored, name: &str) -> Outcome<Failure> {
    let kept = stored.tags()?.into_iter().find(|tag| *tag.name == *name);
    let kept = kept.map_or_else(String::new, |tag| format!(", and keeps version {}", tag.version));
    let failure = Failure::new(Exit::Taken, format!("there is a tag \"{name}\" already{kept}"));
    Ok(failure.hint("--move has it keep this one"))
}

pub(crate) fn untag(args: &Untag) -> Outcome<Answer> {
    args.named.with(true, "untag", |_, stored| {
        version::of(stored, When::Tag(&args.tag), stored.untag(&args.tag))
    })?;
    Ok(Answer::new(String::new(), json!({})))
}

pub(crate) fn clone(args: &CloneFields) -> Outcome<Answer> {
    let when = args.version.when();
    let version = args.named.with(true, "clone", |store, stored| {
        let ntuple = version::of(stored, when, stored.open(when))?;
        let chosen = if args.fields.is_empty() { Vec::new() } else { chosen(&ntuple, &args.fields)? };
        let fields: Vec<&str> = chosen.iter().map(|(name, _)| &**name).collect();
        version::of(stored, when, store.clone_fields(stored, when, &fields, &args.to))
    })?;
    Ok(Answer::new(format!("{}, {}", args.to, told(&version)), described(&version)))
}

pub(crate) fn reshape(args: &Reshape) -> Outcome<Answer> {
    let options = args.written.options();
    let (version, done) = args.named.with(true, "reshape", |_, stored| {
        let mut version = stored.version(When::Now)?;
        let bar = Bar::of(version.entry_count, "reshaping", "entries");
        let (mut next, mut begun) = (args.first, None);
        if next > version.entry_count {
            let why = format!("it has {}", count(version.entry_count, "entry", "entries"));
            return Err(Failure::new(Exit::Usage, why).hint("--first is one of them"));
        }
        heard();
        // What is done is looked at before the signal: after the last step nothing is left to be interrupted.
        while next < version.entry_count {
            if interrupt::is_asked() {
                let done = begun.map(|first| Entries { first, end: next });
                return Err(left(interrupt::failure(), done, version.entry_count));
            }
            let reshaped = stored.reshape(next, args.step, &options).map_err(|error| {
                left(error.into(), begun.map(|first| Entries { first, end: next }), version.entry_count)
            })?;
            let Some(reshaped) = reshaped else { break };
            (next, version) = (reshaped.entries.end, reshaped.version);
            // Where it begins is where a cluster does, which may be behind the entry that was told.
            begun.get_or_insert(reshaped.entries.first);
            bar.at(next);
        }
        Ok((version, begun.map(|first| Entries { first, end: next })))
    })?;
    let mut json = described(&version);
    json["first_entry"] = json!(done.map(|done| done.first));
    json["end_entry"] = json!(done.map(|done| done.end));
    let what = match done {
        Some(Entries { first, end }) => format!("entries {first} to {} are written anew", end - 1),
        None => {
            format!("no cluster begins at entry {} or behind it: nothing is written anew", args.first)
        }
    };
    Ok(Answer::new(format!("{what}; {}", told(&version)), json))
}

/// Why a reshaping of so many entries has stopped, what stays done, and how to go on.
fn left(failure: Failure, done: Option<Entries>, entry_count: u64) -> Failure {
    let Some(Entries { first, end }) = done else { return failure };
    let told = format!(
        "entries {first} to {} of {entry_count} are written anew and stay so, those from {end} on are as they were",
        end - 1
    );
    // What else has to be done first is a hint of its own.
    if failure.exit.is_signal() || failure.exit == Exit::InUse {
        failure.hint(format!("{told}; run the command again with --first {end} to go on"))
    } else {
        failure.adding(&format!("; {told} (--first {end} goes on there)"))
    }
}

pub(crate) fn scrub(args: &Scrub) -> Outcome<Answer> {
    let source = match &args.repair_from {
        Some(path) => Some(home::open_at(path, args.ntuple.as_deref())?),
        None => None,
    };
    let (scrubbed, repaired) = args.named.with(source.is_some(), "scrub", |_, stored| {
        let when = args.version.when();
        let entries = version::of(stored, when, stored.version(when))?.entry_count;
        heard();
        let bar = Bar::of(entries, "scrubbing", "entries");
        let scrubbed = stored.scrub(when, |done| step(&bar, done))?;
        let repaired = match &source {
            Some(source) => stored.repair(&scrubbed.bad, source)?,
            None => vec![false; scrubbed.bad.len()],
        };
        Ok((scrubbed, repaired))
    })?;
    let mut text = format!("{} pages, {}", scrubbed.pages, human(scrubbed.bytes));
    if scrubbed.unsummed > 0 {
        text.push_str(&format!(", {} without a checksum", scrubbed.unsummed));
    }
    let mut bad = Vec::new();
    for (page, is_right) in scrubbed.bad.iter().zip(&repaired) {
        let state = if *is_right { "put right" } else { "damaged" };
        text.push_str(&format!(
            "\n{state}: page {} of field {} (column {}) in entries {} to {}: {}",
            page.page,
            page.field.replace("._0.", "."),
            page.column,
            page.entries.first,
            page.entries.end.saturating_sub(1),
            why_damaged(page.damage)
        ));
        bad.push(json!({
            "field": &*page.field,
            "column": page.column,
            "page": page.page,
            "first_entry": page.entries.first,
            "end_entry": page.entries.end,
            "damage": format!("{:?}", page.damage),
            "repaired": is_right,
        }));
    }
    let left = repaired.iter().filter(|is_right| !**is_right).count();
    if left < bad.len() && dolmen_remote::address(&args.named.cont.pool.pool).is_none() {
        text.push_str(&format!(
            "\n`dolmen check --scrub` tells of the bytes that were replaced until `{}` has freed them",
            aggregate(&args.named.cont)
        ));
    }
    let why = (left > 0).then(|| {
        let remedy = match &args.repair_from {
            None => "--repair-from FILE puts right what a file of ROOT has with the same checksums: the one that was imported, or an export".to_owned(),
            Some(file) => format!(
                "{} has no such pages: give the file that was imported, or an export from before the damage",
                file.display()
            ),
        };
        format!("{} damaged; {remedy}", count(left as u64, "page is", "pages are"))
    });
    text.extend(why.iter().flat_map(|why| ["\n", why]));
    let json = json!({ "pages": scrubbed.pages, "bytes": scrubbed.bytes, "unsummed": scrubbed.unsummed, "bad": bad });
    Ok(Answer::new(text, json).with_findings(why))
}

/// What is wrong with a page, in words.
fn why_damaged(damage: Damage) -> &'static str {
    match damage {
        Damage::Missing => "it is not there, or not all of it",
        Damage::Checksum => "its bytes are not those of its checksum",
        Damage::Store => "the store has damaged bytes in it or next to it",
    }
}

pub(crate) fn collect(args: &Collect) -> Outcome<Answer> {
    let opened = open(&args.cont, true)?;
    let collected = if args.alone { opened.store.collect_alone() } else { opened.store.collect() };
    let collected = collected.doing(|| format!("free what is not needed in {}", opened.shown()))?;
    opened.close()?;
    let mut text = format!("freed {}", freed(&args.cont, &collected));
    if collected.kept > 0 {
        text.push_str(&format!(
            "\n{} kept still, by tags or for as long as `dolmen ntuple keep` says",
            count(collected.kept, "replaced version is", "replaced versions are")
        ));
    }
    if collected.alive > 0 {
        text.push_str(&format!(
            "\n{} alive: what they have put and not committed is left until ten minutes after their last word; if nobody writes, --alone frees it",
            count(collected.alive, "writer may be", "writers may be")
        ));
    }
    let json = json!({
        "versions": collected.versions,
        "kept": collected.kept,
        "alive": collected.alive,
        "clusters": collected.clusters,
        "writers": collected.writers,
        "ntuples": collected.ntuples,
        "damaged": collected.damaged.iter().map(|one| json!({ "name": &*one.name, "why": &*one.why })).collect::<Vec<_>>(),
    });
    let damaged: Vec<String> =
        collected.damaged.iter().map(|one| format!("\"{}\" ({})", one.name, one.why)).collect();
    let why = (!damaged.is_empty()).then(|| {
        format!(
            "what may be of damaged ntuples is left: {}; `dolmen ntuple destroy --force` frees one with all that is left of it",
            damaged.join(", ")
        )
    });
    text.extend(why.iter().flat_map(|why| ["\n", why]));
    Ok(Answer::new(text, json).with_findings(why))
}

pub(crate) fn destroy(Destroy { named, force }: &Destroy) -> Outcome<Answer> {
    let opened = open(&named.cont, true)?;
    let store = &opened.store;
    let done = if *force { store.destroy(&named.name) } else { store.destroy_untagged(&named.name) };
    let done = done.map_err(|error| match error {
        dolmen_rntuple::Error::Tagged { ref tags, .. } => {
            let all = if tags.len() == 1 { "it" } else { "all of them" };
            Failure::from(error).hint(format!("`dolmen ntuple untag` {all} first, or add --force"))
        }
        error => match Failure::from(error) {
            failure if failure.exit == Exit::Damaged && *force => failure.hint(format!(
                "that is of {} itself, by which its ntuples are found, and not of one of them: put it back from a copy, or remove the whole",
                opened.shown()
            )),
            failure if failure.exit == Exit::Damaged => {
                failure.hint("add --force to destroy it with all that is left of it")
            }
            failure => failure,
        },
    });
    let done = done.doing(|| format!("destroy {}", named.words(&opened)));
    opened.close()?;
    let collected = done?;
    let text = format!("destroyed {}; freed {}", named.name, freed(&named.cont, &collected));
    Ok(Answer::new(text, json!({ "clusters": collected.clusters })))
}

/// What was freed, and where its space is.
fn freed(cont: &ContArg, Collected { versions, clusters, writers, .. }: &Collected) -> String {
    let mut text = count(*clusters, "cluster", "clusters");
    if *versions > 0 {
        text.push_str(&format!(", {}", count(*versions, "replaced version", "replaced versions")));
    }
    if *writers > 0 {
        text.push_str(&format!(", {}", count(*writers, "writer that is gone", "writers that are gone")));
    }
    if *clusters > 0 && dolmen_remote::address(&cont.pool.pool).is_none() {
        text.push_str(&format!("; `{}` gives their space back to the pool at once", aggregate(cont)));
    }
    text
}

/// The command that frees what was replaced in a container.
fn aggregate(cont: &ContArg) -> String {
    format!("dolmen cont aggregate {} {}", word(&cont.pool.pool), word(Path::new(&cont.cont)))
}

#[cfg(test)]
mod tests {
    use super::{Entries, left};
    use crate::failure::Failure;
    use dolmen_rntuple::Error;

    #[test]
    fn a_reshaping_that_loses_to_others_says_what_is_done_and_how_it_goes_on() {
        let changed = || Failure::from(Error::Changed { first: 20, end: 30 });
        let why = "others have replaced clusters of entries 20 to 30 meanwhile";
        assert_eq!(left(changed(), None, 90).to_string(), format!("{why}; run the command again"));
        let done = Some(Entries { first: 5, end: 20 });
        let told = "entries 5 to 19 of 90 are written anew and stay so, those from 20 on are as they were";
        assert_eq!(
            left(changed(), done, 90).to_string(),
            format!("{why}; {told}; run the command again with --first 20 to go on")
        );
        let full = dolmen_client::Error::NoSpace { target: dolmen_types::TargetNo(1), needed_bytes: 4096 };
        let full = left(Error::from(full).into(), done, 90).to_string();
        let why = format!("; {told} (--first 20 goes on there); `dolmen ntuple destroy` removes");
        assert!(full.contains(&why), "the remedy stays: {full}");
    }
}
