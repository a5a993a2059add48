//! What a load has shown: a rate for each phase, as the median of all rounds, and what it has cost.
//!
//! The rate of a phase is all that its processes did over the time from the first that began to the last that ended.

use super::options::{Load, Place, PosixPlace};
use super::talk::Part;
use crate::meter::Histogram;
use serde::Serialize;

/// One phase of one round.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseRound {
    /// From the first process that began to the last that ended.
    pub wall_s: f64,
    /// Operations of all processes.
    pub op_count: u64,
    /// Their payload.
    pub byte_count: u64,
    /// Operations a second.
    pub ops_per_s: f64,
    /// Payload a second.
    pub mib_per_s: f64,
    /// Half of the operations took at most this long.
    pub p50_us: f64,
    /// 99 of 100 took at most this long.
    pub p99_us: f64,
    /// Processor time of each process.
    pub process_cpu_s: Vec<f64>,
    /// Processor time of the daemon.
    pub daemon_cpu_s: Option<f64>,
}

impl PhaseRound {
    pub(super) fn of(parts: &[Part], daemon_cpu_ns: Option<u64>) -> Self {
        let start_ns = parts.iter().map(|part| part.start_ns).min().unwrap_or(0);
        let end_ns = parts.iter().map(|part| part.end_ns).max().unwrap_or(0);
        let wall_s = seconds(end_ns - start_ns).max(1e-9);
        let op_count: u64 = parts.iter().map(|part| part.op_count).sum();
        let byte_count: u64 = parts.iter().map(|part| part.byte_count).sum();
        let mut latencies = Histogram::new();
        parts.iter().for_each(|part| latencies.merge(&part.latencies));
        Self {
            wall_s,
            op_count,
            byte_count,
            ops_per_s: op_count as f64 / wall_s,
            mib_per_s: byte_count as f64 / wall_s / MIB,
            p50_us: latencies.quantile_us(500),
            p99_us: latencies.quantile_us(990),
            process_cpu_s: parts.iter().map(|part| seconds(part.cpu_ns)).collect(),
            daemon_cpu_s: daemon_cpu_ns.map(seconds),
        }
    }
}

const MIB: f64 = 1_048_576.0;

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A phase in all rounds; figures without a qualifier are medians.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// Its name.
    pub phase: String,
    /// Operations a second.
    pub ops_per_s: f64,
    /// As above, in the slowest round.
    pub ops_per_s_least: f64,
    /// As above, in the fastest round.
    pub ops_per_s_most: f64,
    /// Payload a second; 0 where there is none.
    pub mib_per_s: f64,
    /// Half of the operations took at most this long.
    pub p50_us: f64,
    /// 99 of 100 took at most this long.
    pub p99_us: f64,
    /// From the first process that began to the last that ended.
    pub wall_s: f64,
    /// Processor time of each process.
    pub process_cpu_s: Vec<f64>,
    /// Processor time of the daemon, where it is known which that is.
    pub daemon_cpu_s: Option<f64>,
    /// Each round.
    pub rounds: Vec<PhaseRound>,
}

/// All rounds, by phase, in the order of the first round.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    phases: Vec<(String, Vec<PhaseRound>)>,
}

impl Rounds {
    pub(super) fn add(&mut self, phase: &str, round: PhaseRound) {
        match self.phases.iter_mut().find(|(name, _)| name == phase) {
            Some((_, rounds)) => rounds.push(round),
            None => self.phases.push((phase.to_owned(), vec![round])),
        }
    }

    fn phases(self) -> Vec<Phase> {
        self.phases.into_iter().map(|(name, rounds)| phase(name, rounds)).collect()
    }
}

fn phase(phase: String, rounds: Vec<PhaseRound>) -> Phase {
    let of = |figure: fn(&PhaseRound) -> f64| sorted(rounds.iter().map(figure).collect());
    let rates = of(|round| round.ops_per_s);
    let processes = rounds.first().map_or(0, |round| round.process_cpu_s.len());
    let of_process = |index: usize| {
        let each = rounds.iter().filter_map(|round| round.process_cpu_s.get(index).copied());
        median(&sorted(each.collect()))
    };
    let daemon = sorted(rounds.iter().filter_map(|round| round.daemon_cpu_s).collect());
    Phase {
        phase,
        ops_per_s: median(&rates),
        ops_per_s_least: rates.first().copied().unwrap_or(0.0),
        ops_per_s_most: rates.last().copied().unwrap_or(0.0),
        mib_per_s: median(&of(|round| round.mib_per_s)),
        p50_us: median(&of(|round| round.p50_us)),
        p99_us: median(&of(|round| round.p99_us)),
        wall_s: median(&of(|round| round.wall_s)),
        process_cpu_s: (0..processes).map(of_process).collect(),
        daemon_cpu_s: (!daemon.is_empty()).then(|| median(&daemon)),
        rounds,
    }
}

fn sorted(mut figures: Vec<f64>) -> Vec<f64> {
    figures.sort_by(f64::total_cmp);
    figures
}

/// Of figures in order: the one in the middle, of an even number the mean of the two there.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted {
        [] => 0.0,
        _ if sorted.len().is_multiple_of(2) => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// Where it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    /// The system, or the directory of a load that needs none.
    pub system: String,
    /// Whether it was started for the measurement.
    pub own_daemon: bool,
    /// The pool's label or UUID; empty where there is none, as the container's.
    pub pool: String,
    /// The container's label or UUID.
    pub cont: String,
    /// Processes of the load.
    pub processes: u32,
    /// Repetitions.
    pub rounds: u32,
}

/// What a load has shown.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// What was done.
    pub load: Load,
    /// Where.
    pub conditions: Conditions,
    /// In order.
    pub phases: Vec<Phase>,
}

impl Figures {
    /// What a load in a directory has shown.
    pub(super) fn of_directory(load: &Load, place: &PosixPlace, rounds: Rounds) -> Self {
        let conditions = Conditions {
            system: place.dir.display().to_string(),
            own_daemon: false,
            pool: String::new(),
            cont: String::new(),
            processes: place.processes,
            rounds: place.rounds,
        };
        Self { load: load.clone(), conditions, phases: rounds.phases() }
    }

    pub(super) fn new(load: &Load, place: &Place, names: (&str, &str, &str), rounds: Rounds) -> Self {
        let (system, pool, cont) = names;
        let conditions = Conditions {
            system: system.to_owned(),
            own_daemon: place.system.is_none(),
            pool: pool.to_owned(),
            cont: cont.to_owned(),
            processes: place.processes,
            rounds: place.rounds,
        };
        Self { load: load.clone(), conditions, phases: rounds.phases() }
    }

    /// A table for people.
    #[must_use]
    pub fn text(&self) -> String {
        let Conditions { system, processes, rounds, .. } = &self.conditions;
        let mut text = format!("{} at {system}: processes {processes}, rounds {rounds}\n", self.load.name());
        text.push_str(HEADING);
        for phase in &self.phases {
            text.push_str(&line(phase));
        }
        text
    }
}

const HEADING: &str = "\
phase                    ops/s      MiB/s   p50 us   p99 us   wall s  load CPU s  daemon CPU s\n";

fn line(phase: &Phase) -> String {
    let mib = if phase.mib_per_s > 0.0 { format!("{:.1}", phase.mib_per_s) } else { "-".to_owned() };
    let daemon = phase.daemon_cpu_s.map_or("-".to_owned(), |seconds| format!("{seconds:.3}"));
    let load: f64 = phase.process_cpu_s.iter().sum();
    format!(
        "{:<20} {:>9.0} {mib:>10} {:>8.1} {:>8.1} {:>8.3} {load:>11.3} {daemon:>13}\n",
        phase.phase, phase.ops_per_s, phase.p50_us, phase.p99_us, phase.wall_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(start_ns: u64, end_ns: u64) -> Part {
        let mut latencies = Histogram::new();
        latencies.add(1000);
        Part { start_ns, end_ns, cpu_ns: 5, op_count: 10, byte_count: 1 << 20, latencies }
    }

    #[test]
    fn a_rate_counts_from_the_first_start_to_the_last_end() {
        let round = PhaseRound::of(&[part(0, 500_000_000), part(250_000_000, 1_000_000_000)], Some(7));
        assert_eq!((round.op_count, round.byte_count), (20, 2 << 20));
        assert!((round.ops_per_s - 20.0).abs() < 1e-6);
        assert!((round.mib_per_s - 2.0).abs() < 1e-6);
        assert_eq!(round.process_cpu_s, [5e-9, 5e-9]);
    }

    #[test]
    fn the_median_of_the_rounds_is_told_with_the_least_and_the_most() {
        let mut rounds = Rounds::default();
        for end_ns in [1_000_000_000, 100_000_000, 500_000_000] {
            rounds.add("write", PhaseRound::of(&[part(0, end_ns)], None));
        }
        let phases = rounds.phases();
        let [phase] = phases.as_slice() else { panic!("{phases:?}") };
        let rates = [phase.ops_per_s_least, phase.ops_per_s, phase.ops_per_s_most].map(f64::round);
        assert_eq!(rates, [10.0, 20.0, 100.0]);
        assert_eq!((phase.daemon_cpu_s, phase.rounds.len()), (None, 3));
    }
}
