//! A daemon that nobody asks for anything: who sleeps is not woken, and little memory is its own.

use crate::bystander::Bystander;
use crate::child::{ChildDaemon, until};
use crate::common::{Scratch, WAYS};
use crate::raw::Raw;
use dolmen_env::{Clock, RealClock};
use std::collections::BTreeMap;

/// The thread that waits for the end, and wakes by the clock, five times a second and never before its time; and upkeep, which
/// looks what there is to do.
const CLOCK: &str = "child::a_daemon";
const UPKEEP: &str = "dolmen-upkeep";

/// Wakes of the first while the others are looked at: longer than anybody waits who has something to do once it is quiet.
const WAKES: u64 = 20;

/// A daemon at rest that has served all ways and a crowd, and its clients, connected still.
fn at_rest(dir: &Scratch) -> (ChildDaemon, Vec<Bystander>, Vec<Raw>) {
    let daemon = ChildDaemon::start(dir.path());
    let mut clients = vec![Bystander::first(daemon.link(WAYS[0]))];
    clients.extend(WAYS.iter().skip(1).map(|&way| Bystander::of(&daemon.link(way))));
    let crowd = (0..60).map(|number| Raw::connect(&daemon, WAYS[number % 3])).collect();
    for _ in 0..4 {
        clients.iter_mut().for_each(Bystander::goes_on);
    }
    (daemon, clients, crowd)
}

/// Threads of the kernel that work for its rings of requests to devices: they look by a clock of their own whether to end.
const KERNEL: &str = "iou-";

/// How often each thread that is called by others has slept, by its id.
fn called(daemon: &ChildDaemon) -> BTreeMap<u32, (String, u64)> {
    let mut all = daemon.threads();
    all.retain(|_, (name, _)| ![CLOCK, UPKEEP].contains(&name.as_str()) && !name.starts_with(KERNEL));
    all
}

/// How often the clock has woken the daemon.
fn ticks(daemon: &ChildDaemon) -> u64 {
    let all = daemon.threads();
    let (_, sleeps) = all.values().find(|(name, _)| name == CLOCK).expect("it waits for the end");
    *sleeps
}

/// Lets the clock wake the daemon so often; what the others have slept before and afterwards.
fn waited(daemon: &ChildDaemon) -> [BTreeMap<u32, (String, u64)>; 2] {
    let (before, from) = (called(daemon), ticks(daemon));
    until("time passes", || ticks(daemon) >= from + WAKES);
    [before, called(daemon)]
}

#[test]
fn threads_that_wait_for_clients_sleep_until_one_asks() {
    let dir = Scratch::new();
    let (daemon, mut clients, _crowd) = at_rest(&dir);
    // What is done once, after the last answer and when it was quiet for a while, is over when nobody has moved for longer.
    until("it has come to rest", || {
        let [before, after] = waited(&daemon);
        before == after
    });
    let [before, after] = waited(&daemon);
    assert_eq!(before, after, "somebody has woken whom nobody has called");
    assert!(before.values().any(|(name, _)| name == "dolmen-serve"), "{before:?}");
    clients.iter_mut().for_each(Bystander::goes_on);
    assert_ne!(called(&daemon), after, "this would have been seen");
    daemon.assert_sound();
}

#[test]
fn a_daemon_at_rest_wakes_no_more_often_than_its_clocks_say() {
    let dir = Scratch::new();
    let (daemon, _clients, _crowd) = at_rest(&dir);
    let sleeps = || daemon.threads().values().map(|(_, sleeps)| sleeps).sum::<u64>();
    // Upkeep rests 80 ms when there was nothing to do for a while: two or three times while the other rests once. A clock is
    // late on a busy machine, and never early.
    until("five wakes for one of the clock are enough", || {
        let (from, from_ticks) = (sleeps(), ticks(&daemon));
        let begun_ns = RealClock.monotonic_ns();
        until("time passes", || ticks(&daemon) >= from_ticks + WAKES);
        let periods = (RealClock.monotonic_ns() - begun_ns) / 200_000_000 + 1;
        sleeps() - from <= 5 * periods
    });
    daemon.assert_sound();
}

#[test]
fn a_daemon_at_rest_has_little_memory_of_its_own() {
    let dir = Scratch::new();
    let (daemon, _clients, _crowd) = at_rest(&dir);
    // Buffers are kept for the next request until there was none for a while.
    until("what it needs no more is given back", || daemon.anonymous_bytes() < 48 << 20);
    daemon.assert_sound();
}

#[test]
fn who_does_not_read_the_first_long_answer_has_no_second_one_made() {
    /// More than all of them may cost: an answer of 1 MiB for each, in a buffer of twice that.
    const GROWTH_MAX: u64 = 200 << 20;
    let dir = Scratch::new();
    let (daemon, mut clients, _crowd) = at_rest(&dir);
    let before = daemon.anonymous_bytes();
    let mut readers = Vec::new();
    for number in 0..30 {
        let mut raw = Raw::connect(&daemon, WAYS[number % 3]);
        let opened = raw.open(crate::bystander::POOL, crate::bystander::CONT);
        let value = vec![9; 1 << 20];
        assert!(raw.ask(opened, &crate::raw::array_update(opened, b"long", &value)).is_ok());
        let frame = raw.frame(7, opened.slot, &crate::hostile::fetch_array(opened, b"long", 1 << 20));
        raw.send(&frame.repeat(50));
        readers.push(raw);
    }
    // Whoever is answered has seen all of them have their turn.
    clients.iter_mut().for_each(Bystander::goes_on);
    let grown = daemon.anonymous_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{} MiB", grown >> 20);
    drop(readers);
    clients.iter_mut().for_each(Bystander::goes_on);
    daemon.assert_sound();
}
