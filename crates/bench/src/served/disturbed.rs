//! How long a client that does nothing wrong waits, alone and beside others that do to its daemon as they like.
//!
//! The others are a process of their own. Turns alone and beside others alternate, so that whatever else the machine does
//! meets all; each turn beside others is held against the one alone that came before it. Beside a process that only computes,
//! the ratio says what the processors alone make of it.

use super::client::{Client, make_container};
use super::disturber::{Orders, SCENARIO};
use super::usage::connection_descriptors;
use super::{Ground, Way};
use crate::error::{Error, Result};
use crate::meter::{Histogram, now};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Bytes of a value.
const VALUE_BYTES: usize = 4096;

/// Between two looks whether the daemon has let go of what others left, and how many.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS_MAX: u32 = 4000;

/// What goes on beside the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// A process that computes, and does not know of the daemon.
    Computing,
    /// Connections that are opened and dropped.
    Connections,
    /// Bytes that are no frames, behind good frames and for a greeting.
    Malformed,
    /// Connections that ask for much and read a few bytes at a time.
    SlowReaders,
}

impl Beside {
    /// All that are something.
    pub const ALL: [Self; 4] = [Self::Computing, Self::Connections, Self::Malformed, Self::SlowReaders];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Computing => "a process that computes",
            Self::Connections => "connections opened and dropped",
            Self::Malformed => "malformed frames",
            Self::SlowReaders => "30 slow readers, bytes",
        }
    }
}

/// Where, and for how long.
#[derive(Clone, Debug)]
pub struct DisturbedPlace {
    /// The directory for a pool and a daemon of one's own.
    pub dir: PathBuf,
    /// What a pool may use.
    pub capacity_bytes: u64,
    /// Seconds of each turn.
    pub seconds: f64,
    /// Turns of each kind.
    pub rounds: u32,
    /// What goes on beside.
    pub besides: Vec<Beside>,
}

/// What the client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Writes a value of 4 KiB.
    Update,
    /// Reads one.
    Fetch,
}

const VERBS: [Verb; 2] = [Verb::Update, Verb::Fetch];

/// A client beside something; figures without a qualifier are medians of all turns.
#[derive(Clone, Debug, Serialize)]
pub struct DisturbedRow {
    /// How the client reaches the daemon.
    pub way: Way,
    /// What went on beside it.
    pub beside: Beside,
    /// What it did, one at a time.
    pub verb: Verb,
    /// Half took at most this long.
    pub p50_us: f64,
    /// 99 of 100 took at most this long.
    pub p99_us: f64,
    /// As above, over that of the turn alone before it.
    pub p99_ratio: f64,
    /// As above, the least of all turns.
    pub p99_ratio_least: f64,
    /// As above, the most of all turns.
    pub p99_ratio_most: f64,
    /// Operations in all turns.
    pub ops: u64,
    /// What was done beside it in all turns: connections, frames, bytes read.
    pub beside_count: u64,
    /// As above, a second.
    pub beside_per_s: f64,
}

/// What one turn has shown of one verb.
struct Turn {
    p50_us: f64,
    p99_us: f64,
    ops: u64,
}

/// One turn, and what was done beside.
struct Beheld {
    verbs: [Turn; 2],
    count: u64,
    wall_s: f64,
}

/// Measures a client by shared memory and one over TCP, each beside all that is asked.
///
/// # Errors
/// If the daemon or the others cannot be started; what the daemon answers to a client; if what others have left is not gone
/// after a while.
pub fn disturbed(place: &DisturbedPlace, watch: &mut dyn FnMut(&str)) -> Result<Vec<DisturbedRow>> {
    let ground = Ground::start(&place.dir, 1, place.capacity_bytes)?;
    make_container(&ground)?;
    let mut rows = Vec::new();
    for (way, number) in [(Way::Rings, 1), (Way::Tcp, 2)] {
        watch(&format!("{way:?}: warm up"));
        let mut client = Client::connect(&ground, way, number)?;
        // Each makes the daemon use memory that it has not used yet.
        for &beside in [Beside::Nothing].iter().chain(&place.besides) {
            turn(&ground, &mut client, place, beside)?;
        }
        let mut alone = Vec::new();
        let mut others: Vec<Vec<Beheld>> = place.besides.iter().map(|_| Vec::new()).collect();
        for round in 1..=place.rounds {
            for (&beside, beheld) in place.besides.iter().zip(&mut others) {
                watch(&format!("{way:?}, round {round}: {}", beside.name()));
                alone.push(turn(&ground, &mut client, place, Beside::Nothing)?);
                beheld.push(turn(&ground, &mut client, place, beside)?);
            }
        }
        let kinds = place.besides.len();
        rows.extend(table(way, Beside::Nothing, alone.iter().zip(&alone)));
        for (at, (&beside, beheld)) in place.besides.iter().zip(&others).enumerate() {
            let before = alone.iter().skip(at).step_by(kinds);
            rows.extend(table(way, beside, beheld.iter().zip(before)));
        }
    }
    Ok(rows)
}

/// A client for some seconds; updates and fetches in turn.
fn turn(ground: &Ground, client: &mut Client, place: &DisturbedPlace, beside: Beside) -> Result<Beheld> {
    let descriptors = connection_descriptors(ground.served.pid)?;
    let mut disturber = (beside != Beside::Nothing).then(|| Disturber::start(ground, beside)).transpose()?;
    if let Some(disturber) = &mut disturber {
        disturber.tell()?;
    }
    let value = [5; VALUE_BYTES];
    let mut latencies = VERBS.map(|_| Histogram::new());
    let begun_ns = now();
    let mut at_ns = begun_ns;
    let mut number = 0;
    while (at_ns - begun_ns) as f64 / 1e9 < place.seconds {
        client.update(number, &value)?;
        let updated_ns = now();
        let is_whole = client.fetch(number, &value)?;
        let fetched_ns = now();
        if !is_whole {
            return Err(Error::Wrong { key: number });
        }
        latencies[0].add(updated_ns - at_ns);
        latencies[1].add(fetched_ns - updated_ns);
        (at_ns, number) = (fetched_ns, number + 1);
    }
    let count = disturber.map_or(Ok(0), Disturber::end)?;
    let wall_s = (now() - begun_ns) as f64 / 1e9;
    wait_until_gone(ground, descriptors)?;
    let of = |latencies: &Histogram| Turn {
        p50_us: latencies.quantile_us(500),
        p99_us: latencies.quantile_us(990),
        ops: latencies.total(),
    };
    Ok(Beheld { verbs: latencies.each_ref().map(of), count, wall_s })
}

/// Lets the daemon give back what others have held, so that the next turn does not pay for it.
fn wait_until_gone(ground: &Ground, descriptors: usize) -> Result<()> {
    for _ in 0..LOOKS_MAX {
        if connection_descriptors(ground.served.pid)? <= descriptors {
            return Ok(());
        }
        dolmen_env::wait(LOOK);
    }
    Err(Error::Child { scenario: "the daemon, which keeps connections that are gone".to_owned() })
}

/// Rows of both verbs: turns, each with the one alone that it is held against.
fn table<'t>(
    way: Way,
    beside: Beside,
    turns: impl Iterator<Item = (&'t Beheld, &'t Beheld)> + Clone,
) -> [DisturbedRow; 2] {
    let count: u64 = turns.clone().map(|(turn, _)| turn.count).sum();
    let wall_s: f64 = turns.clone().map(|(turn, _)| turn.wall_s).sum();
    [0, 1].map(|index| {
        let of = |figure: fn(&Turn) -> f64| {
            sorted(turns.clone().map(|(turn, _)| figure(&turn.verbs[index])).collect())
        };
        let ratio = |(turn, alone): (&Beheld, &Beheld)| turn.verbs[index].p99_us / alone.verbs[index].p99_us;
        let ratios = sorted(turns.clone().map(ratio).collect());
        DisturbedRow {
            way,
            beside,
            verb: VERBS[index],
            p50_us: middle(&of(|turn| turn.p50_us)),
            p99_us: middle(&of(|turn| turn.p99_us)),
            p99_ratio: middle(&ratios),
            p99_ratio_least: ratios.first().copied().unwrap_or(0.0),
            p99_ratio_most: ratios.last().copied().unwrap_or(0.0),
            ops: turns.clone().map(|(turn, _)| turn.verbs[index].ops).sum(),
            beside_count: count,
            beside_per_s: count as f64 / wall_s.max(1e-9),
        }
    })
}

fn sorted(mut figures: Vec<f64>) -> Vec<f64> {
    figures.sort_by(f64::total_cmp);
    figures
}

fn middle(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The others; killed when they are dropped.
struct Disturber {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Disturber {
    /// Starts them, and waits until they are ready.
    fn start(ground: &Ground, beside: Beside) -> Result<Self> {
        let orders = Orders { beside, unix: ground.unix.to_string(), tcp: ground.tcp.to_string() };
        let spec = serde_json::to_string(&orders).expect("plain data");
        let program = std::env::current_exe().map_err(Error::system("find this program"))?;
        let mut child = Command::new(program)
            .args(["bench", "child", SCENARIO, &spec])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::system("start the others"))?;
        let (to, from) = child.stdin.take().zip(child.stdout.take()).expect("both are pipes");
        let mut started = Self { child, to, from: BufReader::new(from) };
        if started.hear()? == "ready" { Ok(started) } else { Err(started.lost()) }
    }

    /// Lets them begin, or end.
    fn tell(&mut self) -> Result<()> {
        let told = self.to.write_all(b"\n").and_then(|()| self.to.flush());
        told.map_err(Error::system("write to the others"))
    }

    /// Ends them: how much they have done.
    fn end(mut self) -> Result<u64> {
        self.tell()?;
        let count = self.hear()?;
        count.parse().map_err(|_none| self.lost())
    }

    fn hear(&mut self) -> Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line).map_err(Error::system("read from the others"))?;
        Ok(line.trim().to_owned())
    }

    fn lost(&self) -> Error {
        Error::Child { scenario: SCENARIO.to_owned() }
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        // Ignored, both: it has ended by itself.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

impl DisturbedRow {
    /// For people: a table of rows, as pages of results have it.
    #[must_use]
    pub fn text(rows: &[Self]) -> String {
        let mut text = HEADING.to_owned();
        for row in rows {
            let Self { p50_us, p99_us, p99_ratio, p99_ratio_least, p99_ratio_most, .. } = row;
            let way = if row.way == Way::Rings { "shared memory" } else { "TCP" };
            let verb = if row.verb == Verb::Update { "update" } else { "fetch" };
            text.push_str(&format!(
                "| {way} | {verb} | {} | {p50_us:.1} | {p99_us:.1} | {p99_ratio:.2} | {p99_ratio_least:.2} to \
                 {p99_ratio_most:.2} | {} | {:.0} |\n",
                row.beside.name(),
                row.beside_count,
                row.beside_per_s
            ));
        }
        text
    }
}

const HEADING: &str = "\
| client by | verb | beside | 50 % us | 99 % us | 99 % over alone | least to most | beside, in all | a second |\n\
|---|---|---|---|---|---|---|---|---|\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn beheld(p99_us: f64) -> Beheld {
        let turn = || Turn { p50_us: 1.0, p99_us, ops: 10 };
        Beheld { verbs: [turn(), turn()], count: 6, wall_s: 2.0 }
    }

    #[test]
    fn each_turn_is_held_against_the_one_alone_before_it() {
        let alone = [10.0, 20.0, 10.0].map(beheld);
        let others = [20.0, 20.0, 50.0].map(beheld);
        let [row, _] = table(Way::Rings, Beside::Malformed, others.iter().zip(&alone));
        let ratios = [row.p99_ratio_least, row.p99_ratio, row.p99_ratio_most].map(|ratio| ratio.round());
        assert_eq!(ratios, [1.0, 2.0, 5.0]);
        assert_eq!((row.ops, row.beside_count), (30, 18));
        assert!((row.beside_per_s - 3.0).abs() < 1e-9);
        let text = DisturbedRow::text(&[row]);
        assert!(
            text.contains("| shared memory | update | malformed frames | 1.0 | 20.0 | 2.00 | 1.00 to 5.00 |"),
            "{text}"
        );
    }
}
