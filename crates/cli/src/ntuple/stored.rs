//! What is done with ntuples in a container.

use super::home::{self, Home};
use super::version::{self, VersionArg};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, count, date, human};
use crate::place::{ContArg, PoolArg};
use crate::progress::Bar;
use clap::Args;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::store::{CreateOptions, Store, Stored, Version, When};
use dolmen_rntuple::write::{self, Options};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Bytes before compression that one step of a reshaping writes: each is a version.
const STEP_BYTES: u64 = 1 << 30;

#[derive(Args, Debug)]
pub(crate) struct Named {
    #[command(flatten)]
    cont: ContArg,
    /// Its name
    #[arg(value_name = "NTUPLE")]
    name: String,
}

#[derive(Args, Debug)]
pub(crate) struct Import {
    #[command(flatten)]
    cont: ContArg,
    /// A file of ROOT
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Which ntuple of the file, if there are several
    #[arg(long, value_name = "NTUPLE")]
    ntuple: Option<String>,
    /// What it is called in the container; its own name if not given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Bytes of columns that are stored as one value, and read by one request
    #[arg(long, value_name = "SIZE", value_parser = crate::size::between(4096, 64 << 20))]
    group: Option<u64>,
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
    #[arg(long = "name", value_name = "NAME")]
    called: Option<String>,
    /// Bytes of columns that are stored as one value, and read by one request
    #[arg(long, value_name = "SIZE", value_parser = crate::size::between(4096, 64 << 20))]
    group: Option<u64>,
    #[command(flatten)]
    version: VersionArg,
}

#[derive(Args, Debug)]
pub(crate) struct Append {
    #[command(flatten)]
    named: Named,
    /// A file of ROOT
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Which ntuple of the file, if there are several
    #[arg(long, value_name = "NTUPLE")]
    ntuple: Option<String>,
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
    /// Fields at the top; all if none are named
    #[arg(long = "field", short, value_name = "FIELD")]
    fields: Vec<String>,
    #[command(flatten)]
    version: VersionArg,
}

#[derive(Args, Debug)]
pub(crate) struct Reshape {
    #[command(flatten)]
    named: Named,
    /// none, or zstd, lz4, zlib or lzma, with :LEVEL or without
    #[arg(long, value_name = "NAME", default_value = "zstd:1", value_parser = compression)]
    compression: Compression,
    /// Bytes of a page before it is compressed
    #[arg(long, value_name = "SIZE", value_parser = crate::size::between(1024, 64 << 20))]
    page: Option<u64>,
    /// Bytes of a cluster before it is compressed
    #[arg(long, value_name = "SIZE", value_parser = crate::size::between(64 << 10, 4 << 30))]
    cluster: Option<u64>,
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
}

/// A compression by its name.
fn compression(text: &str) -> Result<Compression, String> {
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

fn open(arg: &ContArg, writes: bool) -> Outcome<Home> {
    Home::open(&arg.pool, &arg.cont, writes)
}

impl Named {
    fn words(&self, home: &Home) -> String {
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
        let done = done.doing(|| format!("{doing} {}", self.words(&opened)))?;
        opened.close()?;
        Ok(done)
    }
}

fn described(version: &Version) -> Value {
    json!({
        "version": version.number,
        "time_ns": version.time_ns,
        "entries": version.entry_count,
        "clusters": version.cluster_count,
        "made": format!("{:?}", version.made),
    })
}

fn told(version: &Version) -> String {
    let entries = count(version.entry_count, "entry", "entries");
    format!(
        "version {}: {entries} in {}",
        version.number,
        count(version.cluster_count, "cluster", "clusters")
    )
}

pub(crate) fn import(args: &Import) -> Outcome<Answer> {
    let ntuple = home::open_at(&args.file, args.ntuple.as_deref())?;
    let name = args.name.clone().unwrap_or_else(|| ntuple.header().name.to_string());
    let opened = open(&args.cont, true)?;
    let group_bytes = args.group.map(|bytes| u32::try_from(bytes).expect("it was limited"));
    let options = CreateOptions { group_bytes, ..CreateOptions::default() };
    let bar = Bar::of(ntuple.entry_count(), "importing", "entries");
    let made = opened.store.import_telling(&name, &ntuple, &options, |done| bar.at(done));
    drop(bar);
    let version = made.doing(|| format!("import ntuple {name} into {}", opened.shown()))?;
    opened.close()?;
    Ok(Answer::new(format!("{name}, {}", told(&version)), described(&version)))
}

pub(crate) fn copy(args: &Copy) -> Outcome<Answer> {
    let to = ContArg {
        pool: PoolArg { pool: args.to_pool.clone(), ..args.from.cont.pool.clone() },
        cont: args.to_cont.clone(),
    };
    let (from, to) = Home::open_both(&args.from.cont, &to)?;
    let ntuple = args.version.open(&from.store, &args.from.name);
    let ntuple = ntuple.doing(|| format!("open {}", args.from.words(&from)))?;
    let name = args.called.as_ref().unwrap_or(&args.from.name);
    let group_bytes = args.group.map(|bytes| u32::try_from(bytes).expect("it was limited"));
    let options = CreateOptions { group_bytes, ..CreateOptions::default() };
    let bar = Bar::of(ntuple.entry_count(), "copying", "entries");
    let made = to.store.import_telling(name, &ntuple, &options, |done| bar.at(done));
    drop(bar);
    let version = made.doing(|| format!("copy {} to {name} in {}", args.from.words(&from), to.shown()))?;
    drop(ntuple);
    from.close()?;
    to.close()?;
    Ok(Answer::new(format!("{name}, {}", told(&version)), described(&version)))
}

pub(crate) fn append(args: &Append) -> Outcome<Answer> {
    let ntuple = home::open_at(&args.file, args.ntuple.as_deref())?;
    let version = args.named.with(true, "append to", |_, stored| {
        let mut appender = stored.append()?;
        appender.push_all(&ntuple)?;
        Ok(appender.commit()?)
    })?;
    Ok(Answer::new(told(&version), described(&version)))
}

pub(crate) fn versions(args: &Named) -> Outcome<Answer> {
    let (versions, tags) =
        args.with(false, "list versions of", |_, stored| Ok((stored.versions()?, stored.tags()?)))?;
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
    Ok(Answer::new(table.text(), all.into()))
}

pub(crate) fn tag(args: &Tag) -> Outcome<Answer> {
    let when = args.version.map_or(When::Now, When::Version);
    let version = args
        .named
        .with(true, "tag", |_, stored| version::of(stored, when, stored.tag(&args.tag, when, args.moves)))?;
    Ok(Answer::new(format!("{} keeps {}", args.tag, told(&version)), described(&version)))
}

pub(crate) fn untag(args: &Untag) -> Outcome<Answer> {
    args.named.with(true, "untag", |_, stored| {
        version::of(stored, When::Tag(&args.tag), stored.untag(&args.tag))
    })?;
    Ok(Answer::new(String::new(), json!({})))
}

pub(crate) fn clone(args: &CloneFields) -> Outcome<Answer> {
    let fields: Vec<&str> = args.fields.iter().map(|field| &**field).collect();
    let when = args.version.when();
    let version = args.named.with(true, "clone", |store, stored| {
        version::of(stored, when, store.clone_fields(stored, when, &fields, &args.to))
    })?;
    Ok(Answer::new(format!("{}, {}", args.to, told(&version)), described(&version)))
}

pub(crate) fn reshape(args: &Reshape) -> Outcome<Answer> {
    let options = Options {
        compression: args.compression,
        page_bytes: args
            .page
            .map_or(write::PAGE_BYTES, |bytes| u32::try_from(bytes).expect("it was limited")),
        cluster_bytes: args.cluster.unwrap_or(write::CLUSTER_BYTES),
        ..Options::default()
    };
    let version = args.named.with(true, "reshape", |_, stored| {
        let bar = Bar::of(stored.version(When::Now)?.entry_count, "reshaping", "entries");
        let mut done = 0;
        while let Some(reshaped) = stored.reshape(done, STEP_BYTES, &options)? {
            done = reshaped.entries.end;
            bar.at(done);
        }
        Ok(stored.version(When::Now)?)
    })?;
    Ok(Answer::new(told(&version), described(&version)))
}

pub(crate) fn scrub(args: &Scrub) -> Outcome<Answer> {
    let source = match &args.repair_from {
        Some(path) => Some(home::open_at(path, args.ntuple.as_deref())?),
        None => None,
    };
    let (scrubbed, repaired) = args.named.with(source.is_some(), "scrub", |_, stored| {
        let when = args.version.when();
        let entries = version::of(stored, when, stored.version(when))?.entry_count;
        let bar = Bar::of(entries, "scrubbing", "entries");
        let scrubbed = stored.scrub(when, |done| bar.at(done))?;
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
            "\n{state}: page {} of field {} (column {}), entries {} to {}: {:?}",
            page.page, page.field, page.column, page.entries.first, page.entries.end, page.damage
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
    let json = json!({ "pages": scrubbed.pages, "bytes": scrubbed.bytes, "unsummed": scrubbed.unsummed, "bad": bad });
    let answer = Answer::new(text, json);
    if left == 0 {
        return Ok(answer);
    }
    Ok(answer.ending(Exit::Found, format!("{} damaged", count(left as u64, "page is", "pages are"))))
}

pub(crate) fn collect(args: &Collect) -> Outcome<Answer> {
    let opened = open(&args.cont, true)?;
    let collected =
        opened.store.collect().doing(|| format!("free what is not needed in {}", opened.shown()))?;
    opened.close()?;
    let text = format!(
        "freed {}, {}, {}",
        count(collected.versions, "version", "versions"),
        count(collected.clusters, "cluster", "clusters"),
        count(collected.writers, "writer that is gone", "writers that are gone"),
    );
    let json = json!({
        "versions": collected.versions,
        "clusters": collected.clusters,
        "writers": collected.writers,
        "ntuples": collected.ntuples,
        "damaged": collected.damaged.iter().map(|one| json!({ "name": &*one.name, "why": &*one.why })).collect::<Vec<_>>(),
    });
    let answer = Answer::new(text, json);
    if collected.damaged.is_empty() {
        return Ok(answer);
    }
    let damaged: Vec<String> =
        collected.damaged.iter().map(|one| format!("\"{}\" ({})", one.name, one.why)).collect();
    let why = format!(
        "what may be of damaged ntuples is left: {}; `dolmen ntuple destroy` frees one with all that is left of it",
        damaged.join(", ")
    );
    Ok(answer.ending(Exit::Found, why))
}

pub(crate) fn destroy(args: &Named) -> Outcome<Answer> {
    args.with(true, "destroy", |store, _| Ok(store.destroy(&args.name).map(drop)?))?;
    Ok(Answer::new(String::new(), json!({})))
}
