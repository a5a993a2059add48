//! What a daemon costs while nobody asks it for anything, with clients connected and something stored.

use super::client::{Client, make_container};
use super::usage::{self, Thread};
use super::{Ground, Way, seconds};
use crate::error::Result;
use crate::load::process_cpu_ns;
use crate::meter::now;
use serde::Serialize;
use std::path::PathBuf;

/// Bytes of a value.
const VALUE_BYTES: usize = 4096;

/// What rests, and for how long.
#[derive(Clone, Debug)]
pub struct IdlePlace {
    /// The directory for a pool and a daemon of one's own.
    pub dir: PathBuf,
    /// Targets of the pool.
    pub targets: u16,
    /// What it may use.
    pub capacity_bytes: u64,
    /// Clients by shared memory, and as many over TCP.
    pub clients: u32,
    /// Values of 4 KiB that each client writes and reads before.
    pub values: u64,
    /// Seconds from the last of these until it is looked at: what is done once after a load is over by then.
    pub settle_s: f64,
    /// Seconds for which it is looked at.
    pub seconds: f64,
}

/// A thread at rest, or all of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IdleThread {
    /// Its name.
    pub name: String,
    /// Threads of this name.
    pub count: u64,
    /// How often these wake.
    pub wakes_per_s: f64,
}

/// What a daemon at rest costs.
#[derive(Clone, Debug, Serialize)]
pub struct Idle {
    /// Targets of its pool.
    pub targets: u16,
    /// Clients by shared memory, and as many over TCP.
    pub clients: u32,
    /// Values of 4 KiB that were written and read before.
    pub values: u64,
    /// For how long it was looked at.
    pub wall_s: f64,
    /// Processor time that it took.
    pub cpu_s: f64,
    /// As above, of each second.
    pub cpu_share: f64,
    /// How often its threads woke.
    pub wakes_per_s: f64,
    /// Resident memory: all of it.
    pub resident_bytes: u64,
    /// As above, of its own.
    pub anonymous_bytes: u64,
    /// As above, files in memory: the pool, and rings.
    pub shared_bytes: u64,
    /// Threads by name.
    pub threads: Vec<IdleThread>,
}

/// Starts a daemon, has clients use it, and looks at it while they are connected and do nothing.
///
/// # Errors
/// If it cannot be started or looked at; what it answers to its clients.
pub fn idle(place: &IdlePlace, watch: &mut dyn FnMut(&str)) -> Result<Idle> {
    let ground = Ground::start(&place.dir, place.targets, place.capacity_bytes)?;
    let pid = ground.served.pid;
    make_container(&ground)?;
    watch("clients connect");
    let numbers = 0..u64::from(place.clients);
    let ways = [Way::Rings, Way::Tcp].into_iter().cycle();
    let clients = numbers.flat_map(|number| [2 * number, 2 * number + 1]).zip(ways);
    let connected = clients.map(|(number, way)| Client::connect(&ground, way, number));
    let mut clients = connected.collect::<Result<Vec<Client>>>()?;
    watch("they write and read");
    let value = [7; VALUE_BYTES];
    for number in 0..place.values {
        for client in &mut clients {
            client.update(number, &value)?;
            client.fetch(number, &value)?;
        }
    }
    watch("it comes to rest");
    dolmen_env::wait(seconds(place.settle_s));
    watch("it rests");
    let (threads, cpu_ns, begun_ns) = (usage::threads(pid)?, process_cpu_ns(pid)?, now());
    dolmen_env::wait(seconds(place.seconds));
    let wall_s = (now() - begun_ns) as f64 / 1e9;
    let cpu_s = process_cpu_ns(pid)?.saturating_sub(cpu_ns) as f64 / 1e9;
    let threads = woken(&threads, &usage::threads(pid)?, wall_s);
    let memory = usage::memory(pid)?;
    Ok(Idle {
        targets: place.targets,
        clients: place.clients,
        values: place.values * clients.len() as u64,
        wall_s,
        cpu_s,
        cpu_share: cpu_s / wall_s,
        wakes_per_s: threads.iter().map(|thread| thread.wakes_per_s).sum(),
        resident_bytes: memory.resident_bytes,
        anonymous_bytes: memory.anonymous_bytes,
        shared_bytes: memory.shared_bytes,
        threads,
    })
}

/// How often threads have woken between two looks, by name.
fn woken(before: &[Thread], after: &[Thread], wall_s: f64) -> Vec<IdleThread> {
    let mut all: Vec<IdleThread> = Vec::new();
    for thread in after {
        let known = before.iter().find(|known| known.id == thread.id);
        let wakes = thread.sleeps.saturating_sub(known.map_or(0, |known| known.sleeps));
        let wakes_per_s = wakes as f64 / wall_s;
        match all.iter_mut().find(|known| known.name == thread.name) {
            Some(known) => {
                (known.count, known.wakes_per_s) = (known.count + 1, known.wakes_per_s + wakes_per_s)
            }
            None => all.push(IdleThread { name: thread.name.clone(), count: 1, wakes_per_s }),
        }
    }
    all
}

impl Idle {
    /// For people: a table, as pages of results have it.
    #[must_use]
    pub fn text(&self) -> String {
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
        let mut text = format!(
            "| a daemon at rest: {} targets, {} clients by shared memory and as many over TCP, {} values stored | |\n|---|---|\n",
            self.targets, self.clients, self.values
        );
        let rows = [
            ("processor time, of one processor", format!("{:.3} %", self.cpu_share * 100.0)),
            ("wake-ups a second", format!("{:.1}", self.wakes_per_s)),
            ("memory of its own, MiB", format!("{:.1}", mib(self.anonymous_bytes))),
            ("resident memory with pool and rings, MiB", format!("{:.1}", mib(self.resident_bytes))),
        ];
        for (what, figure) in rows {
            text.push_str(&format!("| {what} | {figure} |\n"));
        }
        for thread in self.threads.iter().filter(|thread| thread.wakes_per_s > 0.0) {
            let IdleThread { name, count, wakes_per_s } = thread;
            text.push_str(&format!("| wake-ups a second of {name} ({count} threads) | {wakes_per_s:.1} |\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(id: u32, name: &str, sleeps: u64) -> Thread {
        Thread { id, name: name.to_owned(), sleeps }
    }

    #[test]
    fn wakes_are_counted_by_name_between_two_looks() {
        let before = [thread(1, "main", 100), thread(2, "serve", 10), thread(4, "gone", 3)];
        let after = [thread(1, "main", 110), thread(2, "serve", 10), thread(3, "serve", 6)];
        let woken = woken(&before, &after, 2.0);
        let told = |name: &str, count, wakes_per_s| IdleThread { name: name.to_owned(), count, wakes_per_s };
        assert_eq!(woken, [told("main", 1, 5.0), told("serve", 2, 3.0)]);
    }
}
