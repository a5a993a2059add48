//! How many requests reading takes from a store: `requests FILE [CLUSTERS]` makes of the first ntuple in FILE clusters of 128 MiB, its
//! entries again and again, stores them in a pool in a directory for what is thrown away, and reads all fields, and 30 columns.

use dolmen_client::{ContName, Credentials, Label, Pool, Props};
use dolmen_env::{Clock, RealClock};
use dolmen_local::{LocalPool, OpenOptions, PoolOptions};
use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::Schema;
use dolmen_rntuple::rootfile::RootFile;
use dolmen_rntuple::store::{CreateOptions, Store, StoreOptions, StoreSource, When};
use dolmen_rntuple::write::{self, Options};
use dolmen_rntuple::{Array, Entries, Ntuple, Values};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

const CLUSTER_BYTES: u64 = 128 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, file, clusters @ ..] = &arguments[..] else {
        return Err("usage: requests FILE [CLUSTERS]".into());
    };
    let clusters: u64 = clusters.first().map_or(Ok(2), |count| count.parse())?;
    let mut file = RootFile::open(Path::new(file))?;
    let name = file.ntuples().first().ok_or("the file has no ntuple")?.clone();
    let anchor = file.anchor(&name)?;
    let ntuple = Ntuple::open(file, &anchor)?;
    let dir = std::env::temp_dir().join(format!("dolmen-requests-{}", std::process::id()));
    let capacity_bytes = (clusters + 2) * 2 * CLUSTER_BYTES;
    let options = PoolOptions { targets: 4, volatile: true, capacity_bytes, ..PoolOptions::default() };
    dolmen_local::create(&dir, &options)?;
    let done = run(&dir, &ntuple, clusters);
    dolmen_local::destroy(&dir)?;
    done
}

fn run(dir: &Path, ntuple: &Ntuple<RootFile>, clusters: u64) -> Result<(), Box<dyn Error>> {
    let local = Arc::new(dolmen_local::open(dir, &OpenOptions::default())?);
    let pool = Pool::connect(Arc::<LocalPool>::clone(&local), Credentials::default())?;
    let label = Label::new("events")?;
    pool.create_container(Some(label.clone()), Props::new())?;
    let cont = pool.open_container(&ContName::Label(label))?;
    let store = Store::new(&cont, &StoreOptions::default());

    let schema = &ntuple.header().schema;
    let owns = |field: &u32| schema.fields[*field as usize].source.is_none();
    let numbers: Vec<u32> = ntuple.top_fields().filter(owns).collect();
    let some = ntuple.read(&numbers, Entries { first: 0, end: ntuple.entry_count() })?;
    let bytes: u64 = some.iter().map(Array::bytes).sum();
    let times = usize::try_from(CLUSTER_BYTES / bytes.max(1))?.max(1);
    let arrays: Vec<Array> = some.iter().map(|array| again(array, times)).collect();
    let names = numbers.iter().map(|&number| &*schema.fields[number as usize].name);
    let fields: Vec<(&str, &Array)> = names.zip(&arrays).collect();
    let mut schema = Schema::default();
    write::schema(&mut schema, &fields, Compression::None)?;
    let (name, writer) = ("events".into(), "Dolmen".into());
    let header = Header { name, description: "".into(), writer, schema, checksum: 0 };
    let stored = store.create(&header, &CreateOptions::default())?;
    let options = Options { compression: Compression::None, ..Options::default() };
    let entries = 0..write::entry_count(&fields)?;
    let cluster = write::seal(&header.schema, &fields, entries, &options)?;
    let mut appender = stored.append()?;
    let clock = RealClock;
    let begin_ns = clock.monotonic_ns();
    for _ in 0..clusters {
        appender.push(&cluster)?;
    }
    appender.commit()?;
    let took_ms = (clock.monotonic_ns() - begin_ns) / 1_000_000;
    println!("{} columns, {clusters} clusters, appended in {took_ms} ms", header.schema.columns.len());
    let ntuple = stored.open(When::Now)?;
    let all: Vec<u32> = ntuple.top_fields().collect();
    report("all", &ntuple, &all, clusters)?;
    let step = (all.len() / 30).max(1);
    let thirty: Vec<u32> = all.iter().copied().step_by(step).take(30).collect();
    report("30 fields, here and there", &ntuple, &thirty, clusters)?;
    report("30 fields, next to each other", &ntuple, &all[..30.min(all.len())], clusters)
}

fn report(
    what: &str,
    ntuple: &Ntuple<StoreSource>,
    fields: &[u32],
    clusters: u64,
) -> Result<(), Box<dyn Error>> {
    let (before, clock) = (ntuple.source().asked(), RealClock);
    let begin_ns = clock.thread_cpu_ns();
    ntuple.read(fields, Entries { first: 0, end: ntuple.entry_count() })?;
    let cpu_ms = (clock.thread_cpu_ns() - begin_ns) / 1_000_000;
    let asked = ntuple.source().asked();
    let requests = asked.page_requests - before.page_requests;
    let bytes = asked.page_bytes - before.page_bytes;
    let trips = asked.round_trips - before.round_trips;
    println!(
        "{what}: {requests} requests ({} a cluster), {} KiB, {trips} round trips, {cpu_ms} ms of processor",
        requests.div_ceil(clusters),
        bytes >> 10,
    );
    Ok(())
}

/// The entries of an array, so many times.
fn again(array: &Array, times: usize) -> Array {
    match array {
        Array::Values(values) => Array::Values(match values {
            Values::Bool(values) => Values::Bool(values.repeat(times)),
            Values::I8(values) => Values::I8(values.repeat(times)),
            Values::U8(values) => Values::U8(values.repeat(times)),
            Values::I16(values) => Values::I16(values.repeat(times)),
            Values::U16(values) => Values::U16(values.repeat(times)),
            Values::I32(values) => Values::I32(values.repeat(times)),
            Values::U32(values) => Values::U32(values.repeat(times)),
            Values::I64(values) => Values::I64(values.repeat(times)),
            Values::U64(values) => Values::U64(values.repeat(times)),
            Values::F32(values) => Values::F32(values.repeat(times)),
            Values::F64(values) => Values::F64(values.repeat(times)),
        }),
        Array::Lists { of, offsets, content } => {
            let last = offsets.last().copied().unwrap_or(0);
            let mut all = vec![0];
            for time in (0..).take(times) {
                all.extend(offsets.iter().skip(1).map(|offset| offset + time * last));
            }
            Array::Lists { of: *of, offsets: all, content: Box::new(again(content, times)) }
        }
        Array::Repeated { count, len, content } => Array::Repeated {
            count: *count,
            len: len * times as u64,
            content: Box::new(again(content, times)),
        },
        Array::Record { len, fields } => Array::Record {
            len: len * times as u64,
            fields: fields.iter().map(|(name, field)| (name.clone(), again(field, times))).collect(),
        },
        Array::Variant { .. } => panic!("events of detectors have no variants"),
    }
}
