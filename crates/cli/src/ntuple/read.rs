//! What is done with an ntuple wherever it is: shown, exported, served, estimated, drawn.

use super::fields::chosen;
use super::source::{Any, Opened, Source, each};
use super::{heard, home, list, made, picture, step};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, count, human};
use crate::path::shown_outside;
use crate::progress::Bar;
use clap::{Args, ValueEnum};
use dolmen_env::Address;
use dolmen_remote::place_of;
use dolmen_rntuple::estimate::{Medium, Usage, blob_bytes, usage};
use dolmen_rntuple::format::Header;
use dolmen_rntuple::rootfile::{FileOptions, FileTime, VirtualFile};
use dolmen_rntuple::web::{Served, Shown};
use dolmen_rntuple::{Entries, Ntuple};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct Show {
    #[command(flatten)]
    source: Source,
    /// Also fields within others, by the names by which `--field` of other commands takes them
    #[arg(long)]
    subfields: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Export {
    #[command(flatten)]
    source: Source,
    /// Fields at the top, or patterns such as 'Muon_*' (* any characters, ? one); all if none are named
    #[arg(long = "field", short, value_name = "FIELD")]
    fields: Vec<String>,
    /// The file of ROOT to write, or s3://BUCKET/FILE; one that is there is replaced when the new one is whole
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    to: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct Serve {
    #[command(flatten)]
    source: Source,
    /// Address and port; port 0 takes a free one. Whoever reaches it reads the ntuple
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

#[derive(Args, Debug)]
pub(crate) struct Chosen {
    #[command(flatten)]
    source: Source,
    /// Fields, with dots between field and subfield, or patterns such as 'Muon_*' (* any characters, ? one); all if none are named
    #[arg(long = "field", short, value_name = "FIELD")]
    fields: Vec<String>,
    /// Where it is: what requests, bytes and keeping take and cost
    #[arg(long, value_enum, default_value_t = Where::S3)]
    medium: Where,
    /// Seconds from a request to its answer, other than the medium's
    #[arg(long, value_name = "SECONDS")]
    latency: Option<f64>,
    /// Bytes a second, other than the medium's
    #[arg(long, value_name = "SIZE", value_parser = crate::size::between(1, 1 << 50))]
    bandwidth: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct Estimate {
    #[command(flatten)]
    chosen: Chosen,
}

#[derive(Args, Debug)]
pub(crate) struct Plot {
    #[command(flatten)]
    chosen: Chosen,
    /// The picture to write
    #[arg(long, value_name = "PNG", value_hint = clap::ValueHint::FilePath)]
    to: PathBuf,
    /// How many fields are drawn, the largest first
    #[arg(long, value_name = "COUNT", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=200))]
    top: u64,
}

/// A kind of medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Where {
    /// An object store far away, at list prices in dollars
    S3,
    /// A solid-state disk in the machine
    Ssd,
    /// A disk that turns
    Hdd,
}

impl Chosen {
    fn medium(&self) -> Outcome<Medium> {
        let medium = match self.medium {
            Where::S3 => Medium::S3,
            Where::Ssd => Medium::SSD,
            Where::Hdd => Medium::HDD,
        };
        let latency_s = self.latency.unwrap_or(medium.latency_s);
        #[expect(clippy::cast_precision_loss, reason = "a rate, of which three digits are told")]
        let told = |bytes: u64| bytes as f64;
        let bandwidth_bytes_s = self.bandwidth.map_or(medium.bandwidth_bytes_s, told);
        if !(latency_s >= 0.0 && latency_s.is_finite()) {
            return Err(Failure::new(Exit::Usage, "a latency is a number of seconds from 0 on"));
        }
        Ok(Medium { latency_s, bandwidth_bytes_s, ..medium })
    }

    /// What reading the fields takes, and how many were named.
    fn usage(&self) -> Outcome<(Header, Usage, usize)> {
        let opened = self.source.open()?;
        let used = each!(&opened, ntuple => used(ntuple, &self.fields));
        used.doing(|| format!("read {}", self.source.shown()))
    }
}

fn used<S: dolmen_rntuple::Source>(ntuple: &Ntuple<S>, fields: &[String]) -> Outcome<(Header, Usage, usize)> {
    let numbers: Vec<u32> = chosen(ntuple, fields)?.into_iter().map(|(_, number)| number).collect();
    let entries = Entries { first: 0, end: ntuple.entry_count() };
    Ok((ntuple.header().clone(), usage(ntuple, &numbers, entries)?, numbers.len()))
}

/// Bytes and pages of fields with all below them, by their numbers: stored bytes, bytes in memory, pages.
fn by_field(header: &Header, usage: &Usage) -> BTreeMap<u32, (u64, u64, u64)> {
    let mut sums = BTreeMap::new();
    for column in &usage.columns {
        let mut field = column.field;
        loop {
            let sum: &mut (u64, u64, u64) = sums.entry(field).or_default();
            sum.0 += column.stored_bytes;
            sum.1 += column.memory_bytes;
            sum.2 += column.page_count;
            let above = header.schema.fields[field as usize].parent;
            if above == field {
                break;
            }
            field = above;
        }
    }
    sums
}

/// As [`by_field`], of the fields at the top alone.
fn by_top(header: &Header, usage: &Usage) -> BTreeMap<u32, (u64, u64, u64)> {
    let mut sums = by_field(header, usage);
    sums.retain(|&field, _| header.schema.top(field) == field);
    sums
}

/// Adds a field and, if they are wanted, those that are asked for below it, with the names by which they are.
fn with_subfields<S: dolmen_rntuple::Source>(
    ntuple: &Ntuple<S>,
    (name, field): (String, u32),
    are_wanted: bool,
    all: &mut Vec<(String, u32)>,
) {
    let fields = &ntuple.header().schema.fields;
    let below = ntuple.subfields(field).iter().filter(|_| are_wanted);
    // Items without fields are what the field has; nothing is asked for of them.
    let below = below.filter(|&&child| *fields[child as usize].name != *"_0");
    let below: Vec<_> =
        below.map(|&child| (format!("{name}.{}", fields[child as usize].name), child)).collect();
    all.push((name, field));
    below.into_iter().for_each(|child| with_subfields(ntuple, child, are_wanted, all));
}

pub(crate) fn show(Show { source, subfields }: &Show) -> Outcome<Answer> {
    let opened = match source.open_any()? {
        Any::Ntuple(opened) => *opened,
        Any::Tree(tree) => return Ok(list::of_tree(&tree)),
    };
    let (header, usage, _) =
        each!(&opened, ntuple => used(ntuple, &[])).doing(|| format!("read {}", source.shown()))?;
    let sums = by_field(&header, &usage);
    let mut table = Table::new(&["field", "type", "pages", "stored", "in memory"]);
    let mut fields = Vec::new();
    let known_as = header.schema.known_as(&header.schema.tops().collect());
    // A collection that is known by other names is these, unless there is something in it that they do not show.
    let is_shown = |number: &u32| known_as[*number as usize] == *number || sums.contains_key(number);
    let mut shown = Vec::new();
    for number in header.schema.tops().filter(is_shown) {
        let field = (header.schema.fields[number as usize].name.to_string(), number);
        each!(&opened, ntuple => with_subfields(ntuple, field, *subfields, &mut shown));
    }
    for (name, number) in shown {
        let field = &header.schema.fields[number as usize];
        let (stored, memory, pages) = sums.get(&number).copied().unwrap_or_default();
        let of = if field.type_name.is_empty() { "(untyped)" } else { &field.type_name };
        table.row([name.clone(), of.to_owned(), pages.to_string(), human(stored), human(memory)]);
        fields.push(json!({
            "name": name,
            "type": &*field.type_name,
            "pages": pages,
            "stored_bytes": stored,
            "memory_bytes": memory,
        }));
    }
    let head = format!(
        "ntuple {}: {} in {}, {} ({} in memory); written by {}\n",
        header.name,
        count(usage.entry_count, "entry", "entries"),
        count(usage.cluster_count, "cluster", "clusters"),
        human(usage.stored_bytes),
        human(usage.memory_bytes),
        header.writer,
    );
    let json = json!({
        "name": &*header.name,
        "description": &*header.description,
        "writer": &*header.writer,
        "entries": usage.entry_count,
        "clusters": usage.cluster_count,
        "stored_bytes": usage.stored_bytes,
        "memory_bytes": usage.memory_bytes,
        "fields": fields,
    });
    Ok(Answer::new(head + &table.text(), json))
}

pub(crate) fn export(args: &Export) -> Outcome<Answer> {
    let doing = || format!("export {} to {}", args.source.shown(), shown_outside(&args.to));
    args.source.refuse_own(&args.to).doing(doing)?;
    let opened = args.source.open()?;
    heard();
    if !args.fields.is_empty() {
        return made::export_fields(&opened, &args.fields, &args.to).doing(doing);
    }
    let entries = each!(&opened, ntuple => ntuple.entry_count());
    let bar = Bar::of(entries, "exporting", "entries");
    each!(&opened, ntuple => home::export(ntuple, &args.to, |done| step(&bar, done))).doing(doing)?;
    drop(bar);
    let told = format!("{} in {}", count(entries, "entry", "entries"), shown_outside(&args.to));
    Ok(Answer::new(told, json!({ "entries": entries })))
}

pub(crate) fn serve(args: &Serve, as_json: bool) -> Outcome<Answer> {
    let opened = args.source.open()?;
    let options = FileOptions { time: FileTime::of_unix(0), compression: home::METADATA };
    let doing = || format!("serve {} at {}", args.source.shown(), args.listen);
    let (name, entries) = each!(&opened, ntuple => (ntuple.header().name.clone(), ntuple.entry_count()));
    let name = format!("{name}.root");
    // What keeps it open stays until the end of this function.
    let (file, _held) = match opened {
        Opened::File(ntuple) => (shown(ntuple, &name, options).doing(doing)?, None),
        Opened::Stored(ntuple, held) => (shown(ntuple, &name, options).doing(doing)?, Some(held)),
    };
    let served = Served::start(&Address::Tcp(args.listen), vec![file]).doing(doing)?;
    let Address::Tcp(at) = served.address() else { unreachable!("it is one of the network") };
    let url = format!("http://{at}/{name}");
    let said = if as_json { format!("{}\n", json!({ "url": url })) } else { format!("{url}\n") };
    crate::output::print(said.as_bytes())?;
    // A signal ends the command where it stands.
    served.wait();
    Ok(Answer::new(String::new(), json!({ "url": url, "entries": entries })))
}

/// A file that is nowhere, as it is served.
fn shown<S: dolmen_rntuple::Source + 'static>(
    ntuple: Ntuple<S>,
    name: &str,
    options: FileOptions,
) -> dolmen_rntuple::Result<Shown> {
    let tag = ntuple.header().checksum ^ ntuple.entry_count();
    let file = VirtualFile::new(ntuple, name, options)?;
    let length_bytes = file.length_bytes();
    let read = Box::new(move |offset, into: &mut [u8]| file.read_at(offset, into));
    Ok(Shown { name: name.into(), length_bytes, tag, read })
}

pub(crate) fn estimate(args: &Estimate) -> Outcome<Answer> {
    let (medium, (header, usage, named)) = (args.chosen.medium()?, args.chosen.usage()?);
    let blob = blob_bytes(&medium, usage.stored_bytes / usage.cluster_count.max(1));
    let cost = usage.cost(&medium, blob);
    let is_all = args.chosen.fields.is_empty();
    let field_count = if is_all { by_top(&header, &usage).len() } else { named };
    let mut rows = vec![
        ("entries", usage.entry_count.to_string()),
        ("clusters", usage.cluster_count.to_string()),
        ("fields", field_count.to_string()),
        ("pages", usage.page_count.to_string()),
        ("stored", human(usage.stored_bytes)),
        ("in memory", human(usage.memory_bytes)),
        ("requests", usage.request_count.to_string()),
        ("time", format!("{:.3} s", cost.seconds)),
        ("page by page", format!("{:.3} s", cost.seconds_page_by_page)),
    ];
    if args.chosen.medium == Where::S3 {
        rows.push(("to read", dollars(cost.reading)));
        rows.push(("to write", format!("{} in blobs of {}", dollars(cost.writing), human(blob))));
        rows.push(("a month", dollars(cost.month)));
    }
    let json = json!({
        "entries": usage.entry_count,
        "clusters": usage.cluster_count,
        "pages": usage.page_count,
        "stored_bytes": usage.stored_bytes,
        "memory_bytes": usage.memory_bytes,
        "requests": usage.request_count,
        "seconds": cost.seconds,
        "seconds_page_by_page": cost.seconds_page_by_page,
        "blob_bytes": blob,
        "money_reading": cost.reading,
        "money_writing": cost.writing,
        "money_month": cost.month,
    });
    Ok(Answer::new(crate::output::pairs(&rows), json))
}

/// An amount in three digits at least, and in cents where it has some.
fn dollars(amount: f64) -> String {
    if amount == 0.0 {
        return "$0".to_owned();
    }
    // Where the first digit stands behind the point.
    let place = (0..20).find(|place| amount * 10_f64.powi(*place) >= 1.0).unwrap_or(20);
    let digits = usize::try_from(place).map_or(2, |place| (place + 2).max(2));
    format!("${amount:.digits$}")
}

pub(crate) fn plot(args: &Plot) -> Outcome<Answer> {
    let doing = || format!("draw {}", shown_outside(&args.to));
    if place_of(&args.to).doing(doing)?.is_some() {
        let failure = Failure::new(Exit::Usage, "a picture is written to a file of this machine");
        return Err(failure.hint("name one with --to, and put it there from it")).doing(doing);
    }
    args.chosen.source.refuse_own(&args.to).doing(doing)?;
    let (medium, (header, usage, _)) = (args.chosen.medium()?, args.chosen.usage()?);
    let mut bars: Vec<_> = by_top(&header, &usage)
        .into_iter()
        .map(|(field, (stored, memory, _))| picture::Bar {
            name: header.schema.fields[field as usize].name.to_string(),
            stored_bytes: stored,
            memory_bytes: memory,
            seconds: medium.seconds(usage.cluster_count, stored),
        })
        .collect();
    bars.sort_by(|one, other| {
        other.stored_bytes.cmp(&one.stored_bytes).then_with(|| one.name.cmp(&other.name))
    });
    let fields = bars.len() as u64;
    bars.truncate(usize::try_from(args.top).unwrap_or(usize::MAX));
    picture::draw(&args.to, &header.name, &bars).doing(doing)?;
    let drawn: Vec<Value> = bars
        .iter()
        .map(|bar| json!({ "field": bar.name, "stored_bytes": bar.stored_bytes, "seconds": bar.seconds }))
        .collect();
    let told = format!("{} of {fields} fields in {}", bars.len(), shown_outside(&args.to));
    Ok(Answer::new(told, json!({ "fields": drawn })))
}

#[cfg(test)]
mod tests {
    use super::dollars;

    #[test]
    fn money_has_three_digits_however_little_it_is() {
        for (amount, shown) in [
            (0.0, "$0"),
            (1234.567, "$1234.57"),
            (1.0, "$1.00"),
            (0.023, "$0.0230"),
            (0.000_000_040_04, "$0.0000000400"),
            (1e-30, "$0.0000000000000000000000"),
        ] {
            assert_eq!(dollars(amount), shown);
        }
    }
}
