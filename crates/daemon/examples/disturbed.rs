//! How long a well-behaved client waits, alone and beside others that do what they like to its daemon.
//!
//! Prints the 50th and 99th percentile of 4 KiB updates, one at a time, and the 99th as a multiple of that alone. Beside a
//! thread that only computes, the multiple says what the processors alone make of it. An argument names the only case.

#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a measurement that cannot go on ends, and shows what it divides as decimals"
)]

#[path = "../tests/it/bystander.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod bystander;
#[path = "../tests/it/child.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod child;
#[path = "../tests/it/common.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod common;
#[path = "../tests/it/raw.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod raw;

use bystander::{Bystander, CONT, POOL};
use child::{ChildDaemon, raise_descriptor_limit};
use common::{Scratch, WAYS, Way};
use dolmen_client::At;
use dolmen_codec::Ask;
use dolmen_codec::verb::{Fetch, FetchIod, ReadAt, Verb, Want};
use dolmen_env::{Clock, RealClock};
use dolmen_types::{Cond, IoBuf, Key, Recx, TargetNo};
use raw::{Opened, Raw, array_update, hello, oid, push, silent, update};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Updates that are measured in each turn; the 99th percentile then has 200 beyond it.
const UPDATES: usize = 20_000;
/// Turns of each case; the median counts.
const TURNS: usize = 5;
/// Connections at once of the crowd that comes and goes.
const AT_ONCE: usize = 100;

/// What goes on beside the client, until it is told to stop; it counts what it has done.
type Disturbance = fn(&ChildDaemon, &AtomicBool, &AtomicU64);

fn nothing(_daemon: &ChildDaemon, _is_over: &AtomicBool, _count: &AtomicU64) {}

fn computing(_daemon: &ChildDaemon, is_over: &AtomicBool, count: &AtomicU64) {
    while !is_over.load(Ordering::Relaxed) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Connections by all ways, opened and dropped, every other one with a part of a greeting.
fn connections(daemon: &ChildDaemon, is_over: &AtomicBool, count: &AtomicU64) {
    while !is_over.load(Ordering::Relaxed) {
        let (mut greeted, mut others) = (Vec::new(), Vec::new());
        for number in 0..AT_ONCE {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let way = WAYS[number % 3];
            if number % 2 == 0 {
                greeted.push(Raw::connect(daemon, way));
            } else {
                let mut stream = silent(daemon, way);
                // Ignored: it may be closed before all is said.
                let _said = push(&mut stream, &hello(0)[..number % 64]);
                others.push(stream);
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Frames with a flipped bit behind good ones, as fast as they go; each ends its connection.
fn malformed(daemon: &ChildDaemon, is_over: &AtomicBool, count: &AtomicU64) {
    for way in WAYS.into_iter().cycle() {
        let mut raw = Raw::connect(daemon, way);
        let opened = raw.open(POOL, CONT);
        let good = raw.frame(5, opened.slot, &update(opened, b"other", b"value"));
        let mut bad = good.clone();
        bad[70] ^= 8;
        let frames = [good.repeat(30), bad].concat();
        // Ignored: it is closed in the midst of it.
        let _said = push(&mut raw.stream, &frames);
        count.fetch_add(31, Ordering::Relaxed);
        if is_over.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn question(opened: Opened, len: usize) -> Ask<'static> {
    let extents = [Recx::new(0, len as u64)].into_iter().collect();
    let want = Want::Array { record_bytes: 1, extents };
    let iods = [FetchIod { akey: Key::from_slice(b"a"), want }].into_iter().collect();
    let (dkey, buf) = (Key::from_slice(b"long"), IoBuf::zeroed(len));
    let fetch = Fetch { oid: oid(), dkey, cond: Cond::NONE, at: ReadAt::Latest, iods, buf };
    Ask::Target(TargetNo(0), opened.cont, Verb::Fetch(fetch))
}

/// Connections that ask for much, and read the answers a few bytes at a time.
fn slow_readers(daemon: &ChildDaemon, is_over: &AtomicBool, count: &AtomicU64) {
    let mut readers = Vec::new();
    for number in 0..30 {
        let mut raw = Raw::connect(daemon, WAYS[number % 3]);
        let opened = raw.open(POOL, CONT);
        assert!(raw.ask(opened, &array_update(opened, b"long", &vec![9; 1 << 20])).is_ok());
        let frames = raw.frame(7, opened.slot, &question(opened, 1 << 20)).repeat(50);
        readers.push((raw, frames, 0));
    }
    let mut bytes = [0; 512];
    while !is_over.load(Ordering::Relaxed) {
        for (raw, frames, said) in &mut readers {
            *said += raw.stream.write(&frames[*said..]).unwrap();
            raw.stream.flush().unwrap();
            count.fetch_add(raw.stream.read(&mut bytes).unwrap() as u64, Ordering::Relaxed);
        }
        dolmen_env::wait(core::time::Duration::from_millis(1));
    }
}

/// One turn: both percentiles in nanoseconds, and what was done beside in a second.
fn turn(daemon: &ChildDaemon, bystander: &Bystander, beside: Disturbance) -> (u64, u64, f64) {
    let (is_over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let value = vec![5; 4096];
    let begun = RealClock.monotonic_ns();
    let mut took: Vec<u64> = dolmen_env::scope(|threads| {
        threads.spawn(|| beside(daemon, &is_over, &count));
        let update = |number: u32| {
            let begun = RealClock.monotonic_ns();
            bystander.object.put(At::Latest, &(number % 1000).to_le_bytes(), b"a", &value).unwrap();
            RealClock.monotonic_ns() - begun
        };
        let took = (0..u32::try_from(UPDATES).unwrap()).map(update).collect();
        is_over.store(true, Ordering::Relaxed);
        took
    });
    let seconds = (RealClock.monotonic_ns() - begun) as f64 / 1e9;
    took.sort_unstable();
    (took[UPDATES / 2], took[UPDATES * 99 / 100], count.load(Ordering::Relaxed) as f64 / seconds)
}

fn median<T: PartialOrd + Copy>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap());
    values[values.len() / 2]
}

fn main() {
    if child::serve_if_told() {
        return;
    }
    raise_descriptor_limit();
    let only = std::env::args().nth(1);
    let mut cases: Vec<(&str, Disturbance)> = vec![
        ("alone", nothing),
        ("a thread that computes", computing),
        ("connections opened and dropped", connections),
        ("malformed frames", malformed),
        ("30 slow readers", slow_readers),
    ];
    cases.retain(|(name, _)| only.as_deref().is_none_or(|only| [only, "alone"].contains(name)));
    println!("| client | beside | 50 % us | 99 % us | 99 % / alone | beside, per s |");
    println!("|---|---|---|---|---|---|");
    for way in [Way::Rings, Way::Tcp] {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let bystander = Bystander::first(daemon.link(way));
        turn(&daemon, &bystander, nothing);
        let mut turns = vec![Vec::new(); cases.len()];
        for _ in 0..TURNS {
            for (case, turns) in cases.iter().zip(&mut turns) {
                turns.push(turn(&daemon, &bystander, case.1));
            }
        }
        let alone = median(turns[0].iter().map(|turn| turn.1).collect());
        for ((name, _), turns) in cases.iter().zip(&turns) {
            let half = median(turns.iter().map(|turn| turn.0).collect());
            let most = median(turns.iter().map(|turn| turn.1).collect());
            let beside = median(turns.iter().map(|turn| turn.2).collect());
            let [half, most, alone] = [half, most, alone].map(|ns| ns as f64 / 1e3);
            println!("| {way:?} | {name} | {half:.1} | {most:.1} | {:.2} | {beside:.0} |", most / alone);
        }
        daemon.assert_sound();
    }
}
