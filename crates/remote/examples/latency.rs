//! What many requests at once are worth where each takes long: `latency s3://BUCKET/PREFIX [MS [COLUMNS [CLUSTERS [ENTRIES [GROUP]]]]]` stores an
//! ntuple there, in clusters of so many entries and groups of so many bytes (0 for what suits an object store), and reads 30 of its columns through a proxy that has each request wait, with all requests at once and with one at a time. The endpoint and keys
//! are those of the environment (`AWS_ENDPOINT_URL` of `http`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`).

use dolmen_env::{Clock, RealClock, object_variable, spawn};
use dolmen_remote::{Options, Remote};
use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::Schema;
use dolmen_rntuple::store::{CreateOptions, Store, StoreOptions, When};
use dolmen_rntuple::write;
use dolmen_rntuple::{Array, Entries, Values};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Entries of a cluster: a page of 4 KB of each column, so that it is the requests that take time, and not their bytes on one machine.
const ENTRIES: usize = 1000;

/// Columns that are read.
const READ: usize = 30;

/// Requests that passed the proxy.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, address, numbers @ ..] = &arguments[..] else {
        return Err("usage: latency s3://BUCKET/PREFIX [MS [COLUMNS [CLUSTERS [ENTRIES [GROUP]]]]]".into());
    };
    let number =
        |nth: usize, other: usize| numbers.get(nth).map_or(Ok(other), |number| number.parse::<usize>());
    let (wait_ms, columns, clusters) = (number(0, 15)?, number(1, 1500)?, number(2, 50)?);
    let endpoint = object_variable("AWS_ENDPOINT_URL").ok_or("AWS_ENDPOINT_URL is not set")?;
    let server = endpoint.strip_prefix("http://").ok_or("the endpoint is not one of http")?;
    let group_bytes = u32::try_from(number(4, 0)?)?;
    fill(address, columns, clusters, number(3, ENTRIES)?, (group_bytes > 0).then_some(group_bytes))?;
    let proxy = delay(server.trim_end_matches('/').to_owned(), Duration::from_millis(wait_ms as u64))?;
    let mut took = Vec::new();
    for requests_max in [64, 1] {
        took.push(skim(address, &proxy, requests_max, columns)?);
    }
    println!("{:.1} times as fast", took[1] / took[0]);
    Ok(())
}

/// Stores the ntuple, straight.
fn fill(
    address: &str,
    columns: usize,
    clusters: usize,
    entries: usize,
    group_bytes: Option<u32>,
) -> Result<(), Box<dyn Error>> {
    let store =
        Store::in_bucket(Arc::new(Remote::open(address, &Options::default())?), &StoreOptions::default());
    let names: Vec<String> = (0..columns).map(|nth| format!("c{nth}")).collect();
    let arrays: Vec<Array> = (0..columns)
        .map(|nth| {
            Array::Values(Values::I32(
                (0..entries).map(|entry| i32::try_from(nth * entries + entry).unwrap_or(-1)).collect(),
            ))
        })
        .collect();
    let fields: Vec<(&str, &Array)> = names.iter().map(String::as_str).zip(&arrays).collect();
    let mut schema = Schema::default();
    write::schema(&mut schema, &fields, Compression::None)?;
    let (name, writer) = ("events".into(), "Dolmen".into());
    let header = Header { name, description: "".into(), writer, schema, checksum: 0 };
    let options = CreateOptions { group_bytes, ..CreateOptions::default() };
    let stored = store.create(&header, &options)?;
    let options = write::Options { compression: Compression::None, ..write::Options::default() };
    let cluster = write::seal(&header.schema, &fields, 0..entries as u64, &options)?;
    let mut appender = stored.append()?;
    let clock = RealClock;
    let begin_ns = clock.monotonic_ns();
    for _ in 0..clusters {
        appender.push(&cluster)?;
    }
    appender.commit()?;
    let took_ms = (clock.monotonic_ns() - begin_ns) / 1_000_000;
    println!("{columns} columns, {clusters} clusters, stored in {took_ms} ms");
    Ok(())
}

/// Reads columns here and there of all entries; how many seconds that takes, when what is where is known.
fn skim(address: &str, proxy: &str, requests_max: usize, columns: usize) -> Result<f64, Box<dyn Error>> {
    let options = Options { endpoint: Some(proxy.to_owned()), requests_max, ..Options::default() };
    let store = Store::in_bucket(Arc::new(Remote::open(address, &options)?), &StoreOptions::default());
    let ntuple = store.open("events", When::Now)?;
    let fields: Vec<u32> = ntuple.top_fields().step_by((columns / READ).max(1)).take(READ).collect();
    let entries = Entries { first: 0, end: ntuple.entry_count() };
    // Page lists and connections are there from now on.
    ntuple.read(&fields[..1], Entries { first: 0, end: 1 })?;
    let clock = RealClock;
    let (begun, begin_ns) = (REQUESTS.load(Ordering::Relaxed), clock.monotonic_ns());
    let read = ntuple.read(&fields, entries)?;
    let took_s = (clock.monotonic_ns() - begin_ns) as f64 / 1e9;
    let requests = REQUESTS.load(Ordering::Relaxed) - begun;
    let bytes: u64 = read.iter().map(Array::bytes).sum();
    println!(
        "{requests_max} at once: {} columns, {bytes} bytes in {requests} requests, {took_s:.3} s",
        fields.len()
    );
    Ok(took_s)
}

/// Where a proxy listens that has each request wait before the server gets it.
fn delay(server: String, wait: Duration) -> Result<String, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    spawn("proxy", move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(&server)) else { return };
            let connected = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
            let halves = connected.and_then(|()| Ok((client.try_clone()?, server.try_clone()?)));
            let Ok((client_back, server_back)) = halves else { return };
            // Whether what the client sends next is a new request: the last was answered.
            let is_answered = Arc::new(AtomicBool::new(true));
            let answered = Arc::clone(&is_answered);
            let asks = spawn("asks", move || {
                // Nobody sends anything: whoever receives waits for as long as he likes.
                let (_silent, clock) = sync_channel::<()>(0);
                pass(client, server, || {
                    if is_answered.swap(false, Ordering::Relaxed) {
                        REQUESTS.fetch_add(1, Ordering::Relaxed);
                        assert!(clock.recv_timeout(wait).is_err(), "nobody sends");
                    }
                });
            });
            let answers = spawn("answers", move || {
                pass(server_back, client_back, || answered.store(true, Ordering::Relaxed));
            });
            if asks.is_err() || answers.is_err() {
                return;
            }
        }
    })?;
    Ok(endpoint)
}

/// Passes bytes on as they come until one side ends; each time after `before`.
fn pass(mut from: TcpStream, mut to: TcpStream, before: impl Fn()) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut bytes) {
        if count == 0 {
            break;
        }
        before();
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // Ignored: it may be closed already.
    drop(to.shutdown(Shutdown::Both));
}
