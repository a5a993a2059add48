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
use dolmen_rntuple::estimate::{Medium, Prices, Usage, blob_bytes, usage};
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
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0", value_parser = listen)]
    listen: SocketAddr,
}

/// An address to listen at.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let written = if host == "localhost" { format!("127.0.0.1:{port}") } else { text.to_owned() };
    let of_port = || {
        format!(
            "give an address, too: 127.0.0.1:{port} is for this machine, 0.0.0.0:{port} for all that reach it"
        )
    };
    written.parse().map_err(|_wrong: std::net::AddrParseError| match host {
        "" if port.parse::<u16>().is_ok() => of_port(),
        _ => "give an address and a port, as in 127.0.0.1:8000, localhost:8000 or [::1]:8000".to_owned(),
    })
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
    #[command(flatten)]
    prices: PriceArgs,
}

/// A table of prices, other than the medium's.
#[derive(Args, Debug)]
#[command(next_help_heading = "Prices, in whatever money (of s3 those of its largest one, in dollars)")]
struct PriceArgs {
    /// Of 1000 requests that write
    #[arg(long, value_name = "PRICE", value_parser = price)]
    put_price: Option<f64>,
    /// Of 1000 requests that read
    #[arg(long, value_name = "PRICE", value_parser = price)]
    get_price: Option<f64>,
    /// Of a GB (10^9 bytes) kept for a month
    #[arg(long, value_name = "PRICE", value_parser = price)]
    storage_price: Option<f64>,
    /// Of a GB (10^9 bytes) that is read
    #[arg(long, value_name = "PRICE", value_parser = price)]
    traffic_price: Option<f64>,
}

/// An amount of money.
fn price(text: &str) -> Result<f64, String> {
    let amount = text.parse().ok().filter(|amount: &f64| *amount >= 0.0 && amount.is_finite());
    amount.ok_or_else(|| "give a number from 0 on, as in 0.005".to_owned())
}

impl PriceArgs {
    /// The prices of a medium, but for those that are told.
    fn of(&self, medium: &Prices) -> Prices {
        let of_each = |told: Option<f64>| told.map(|price| price / 1000.0);
        Prices {
            put: of_each(self.put_price).unwrap_or(medium.put),
            get: of_each(self.get_price).unwrap_or(medium.get),
            gigabyte_month: self.storage_price.unwrap_or(medium.gigabyte_month),
            gigabyte_out: self.traffic_price.unwrap_or(medium.gigabyte_out),
        }
    }
}

/// How amounts of money are told: in dollars, if the prices are those of the medium.
fn money(medium: &Medium) -> impl Fn(f64) -> String {
    let sign = if medium.prices == Medium::S3.prices { "$" } else { "" };
    move |amount| format!("{sign}{}", digits(amount))
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
        Ok(Medium { latency_s, bandwidth_bytes_s, prices: self.prices.of(&medium.prices), ..medium })
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

/// Fields at the top that are told. A collection that is known by other names is these, unless there is something in it that they do not show.
fn shown_tops(header: &Header, sums: &BTreeMap<u32, (u64, u64, u64)>) -> Vec<u32> {
    let known_as = header.schema.known_as(&header.schema.tops().collect());
    let is_shown = |number: &u32| known_as[*number as usize] == *number || sums.contains_key(number);
    header.schema.tops().filter(is_shown).collect()
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
    let mut shown = Vec::new();
    for number in shown_tops(&header, &sums) {
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
    let url = served.url(&name).expect("it is at an address of the network");
    let said = if as_json { format!("{}\n", json!({ "url": url })) } else { format!("{url}\n") };
    // A signal ends the command where it stands, as it is meant to end.
    crate::interrupt::end_quietly();
    crate::output::print(said.as_bytes())?;
    served.wait();
    Ok(Answer::new(String::new(), json!({ "url": url, "entries": entries })))
}

/// A file that is nowhere, as it is served.
fn shown<S: dolmen_rntuple::Source + 'static>(
    ntuple: Ntuple<S>,
    name: &str,
    options: FileOptions,
) -> dolmen_rntuple::Result<Shown> {
    let file = VirtualFile::new(ntuple, name, options)?;
    let length_bytes = file.length_bytes();
    let read = Box::new(move |offset, into: &mut [u8]| file.read_at(offset, into));
    Ok(Shown { name: name.into(), length_bytes, read })
}

pub(crate) fn estimate(args: &Estimate) -> Outcome<Answer> {
    let (medium, (header, usage, named)) = (args.chosen.medium()?, args.chosen.usage()?);
    let blob = blob_bytes(&medium, usage.stored_bytes / usage.cluster_count.max(1));
    let cost = usage.cost(&medium, blob);
    let is_all = args.chosen.fields.is_empty();
    let field_count = if is_all { shown_tops(&header, &by_field(&header, &usage)).len() } else { named };
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
    if medium.prices != Prices::default() {
        let money = money(&medium);
        rows.push(("to read", money(cost.reading)));
        rows.push(("to write", format!("{} in blobs of {}", money(cost.writing), human(blob))));
        rows.push(("a month", money(cost.month)));
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
fn digits(amount: f64) -> String {
    if amount == 0.0 {
        return "0".to_owned();
    }
    // Where the first digit stands behind the point.
    let place = (0..20).find(|place| amount * 10_f64.powi(*place) >= 1.0).unwrap_or(20);
    let digits = usize::try_from(place).map_or(2, |place| (place + 2).max(2));
    format!("{amount:.digits$}")
}

pub(crate) fn plot(args: &Plot) -> Outcome<Answer> {
    let doing = || format!("draw {}", shown_outside(&args.to));
    if place_of(&args.to).doing(doing)?.is_some() {
        let failure = Failure::new(Exit::Usage, "a picture is written to a file of this machine");
        return Err(failure.hint("name one with --to, and put it there from it")).doing(doing);
    }
    args.chosen.source.refuse_own(&args.to).doing(doing)?;
    let (medium, (header, usage, named)) = (args.chosen.medium()?, args.chosen.usage()?);
    let money = (medium.prices != Prices::default()).then(|| money(&medium));
    let mut bars: Vec<_> = by_top(&header, &usage)
        .into_iter()
        .map(|(field, (stored, memory, _))| {
            let seconds = medium.seconds(usage.cluster_count, stored);
            let reading = reading(&medium, usage.cluster_count, stored);
            let cost = money.as_ref().map_or_else(String::new, |money| format!(", {}", money(reading)));
            let told = format!("{}, {seconds:.3} s{cost}", human(stored));
            let name = header.schema.fields[field as usize].name.to_string();
            let json = json!({ "field": name, "stored_bytes": stored, "seconds": seconds, "money_reading": reading });
            (picture::Bar { name, stored_bytes: stored, memory_bytes: memory, told }, json)
        })
        .collect();
    bars.sort_by(|(one, _), (other, _)| {
        other.stored_bytes.cmp(&one.stored_bytes).then_with(|| one.name.cmp(&other.name))
    });
    let is_all = args.chosen.fields.is_empty();
    let field_count = if is_all { shown_tops(&header, &by_field(&header, &usage)).len() } else { named };
    let taking = bars.len();
    bars.truncate(usize::try_from(args.top).unwrap_or(usize::MAX));
    let (bars, drawn): (Vec<_>, Vec<Value>) = bars.into_iter().unzip();
    picture::draw(&args.to, (&header.name, money.is_some()), &bars).doing(doing)?;
    let field_count = field_count.max(taking);
    let mut told = format!(
        "{} of {} in {}",
        bars.len(),
        count(field_count as u64, "field", "fields"),
        shown_outside(&args.to)
    );
    if taking < field_count && bars.len() == taking {
        told.push_str("; no others have bytes of their own");
    }
    Ok(Answer::new(told, json!({ "fields": drawn })))
}

/// What reading so many clusters with so many bytes costs.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn reading(Medium { prices, .. }: &Medium, clusters: u64, bytes: u64) -> f64 {
    clusters as f64 * prices.get + bytes as f64 / 1e9 * prices.gigabyte_out
}

#[cfg(test)]
mod tests {
    use super::{digits, listen};

    #[test]
    fn money_has_three_digits_however_little_it_is() {
        for (amount, shown) in [
            (0.0, "0"),
            (1234.567, "1234.57"),
            (1.0, "1.00"),
            (0.023, "0.0230"),
            (0.000_000_040_04, "0.0000000400"),
            (1e-30, "0.0000000000000000000000"),
        ] {
            assert_eq!(digits(amount), shown);
        }
    }

    #[test]
    fn what_listens_has_an_address_and_a_port_and_localhost_is_this_machine() {
        for (text, address) in
            [("localhost:80", "127.0.0.1:80"), ("[::1]:0", "[::1]:0"), ("1.2.3.4:5", "1.2.3.4:5")]
        {
            assert_eq!(listen(text).map(|address| address.to_string()), Ok(address.to_owned()));
        }
        assert!(listen(":8000").unwrap_err().starts_with("give an address, too: 127.0.0.1:8000 is"));
        for wrong in ["", ":", "8000", "localhost", "localhost:x", ":x", "host:80", "1.2.3.4:70000"] {
            assert!(listen(wrong).unwrap_err().starts_with("give an address and a port, as in"), "{wrong}");
        }
    }
}
