//! What was measured, and its medians.

use super::ground::Ground;
use core::fmt::Write as _;
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Phase {
    Write,
    Read,
    RandomRead,
    Create,
    StatCold,
    StatWarm,
    Unlink,
}

impl Phase {
    pub(super) const ALL: [Self; 7] = [
        Self::Write,
        Self::Read,
        Self::RandomRead,
        Self::Create,
        Self::StatCold,
        Self::StatWarm,
        Self::Unlink,
    ];

    /// As the load calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::RandomRead => "random read",
            Self::Create => "create",
            Self::StatCold => "stat, cold",
            Self::StatWarm => "stat, warm",
            Self::Unlink => "unlink",
        }
    }

    fn is_bandwidth(self) -> bool {
        matches!(self, Self::Write | Self::Read)
    }

    /// As tables have it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Write => "sequential write MiB/s",
            Self::Read => "sequential read MiB/s",
            Self::RandomRead => "random read 4 KiB /s",
            Self::Create => "create /s",
            Self::StatCold => "stat, cold /s",
            Self::StatWarm => "stat, warm /s",
            Self::Unlink => "unlink /s",
        }
    }

    /// Its figures, in what a load has printed, where it has another `name`: operations a second, MiB/s, two latencies, seconds of
    /// the phase, and processor seconds of load and server stand behind it.
    pub(super) fn told(self, text: &str, name: &str) -> Option<Told> {
        const FIGURES: usize = 7;
        let figures = text.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (named, figures) = words.split_at_checked(words.len().checked_sub(FIGURES)?)?;
            (named.join(" ") == name).then(|| figures.to_vec())
        })?;
        let figure = |at: usize| figures.get(at)?.parse::<f64>().ok();
        let rate = figure(usize::from(self.is_bandwidth()))?;
        Some(Told {
            phase: self,
            rate,
            wall_s: figure(4)?,
            load_s: figure(5)?,
            serving_s: figure(6).unwrap_or(0.0),
        })
    }
}

/// A phase of a round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Told {
    pub(super) phase: Phase,
    /// MiB or operations a second.
    pub(super) rate: f64,
    pub(super) wall_s: f64,
    /// Processor seconds of the load, and of those who serve it.
    pub(super) load_s: f64,
    pub(super) serving_s: f64,
}

/// All rounds, by number of processes, phase and ground.
#[derive(Default)]
pub(super) struct Table(BTreeMap<(usize, Phase, Ground), Vec<Told>>);

impl Table {
    pub(super) fn add(&mut self, ground: Ground, processes: usize, told: Told) {
        self.0.entry((processes, told.phase, ground)).or_default().push(told);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The median of the rounds.
    pub(super) fn rate(&self, processes: usize, phase: Phase, ground: Ground) -> Option<f64> {
        let all = self.0.get(&(processes, phase, ground))?;
        Some(median(&sorted(all, |told| told.rate)))
    }

    pub(super) fn text(&self) -> String {
        let mut text =
            "| phase | processes | ground | median | least | most | wall s | load CPU s | serving CPU s |\n\
                        |---|---|---|---|---|---|---|---|---|\n"
                .to_owned();
        for ((processes, phase, ground), all) in &self.0 {
            let rates = sorted(all, |told| told.rate);
            let of = |figure: fn(&Told) -> f64| median(&sorted(all, figure));
            let (wall_s, load_s, serving_s) =
                (of(|told| told.wall_s), of(|told| told.load_s), of(|told| told.serving_s));
            let (least, most) = (rates[0], rates[rates.len() - 1]);
            let row = format!(
                "| {} | {processes} | {} | {:.0} | {least:.0} | {most:.0} | {wall_s:.3} | {load_s:.3} | {serving_s:.3} |",
                phase.title(),
                ground.title(),
                median(&rates)
            );
            writeln!(text, "{row}").expect("a String takes everything");
        }
        text
    }
}

fn sorted(all: &[Told], figure: impl Fn(&Told) -> f64) -> Vec<f64> {
    let mut figures: Vec<f64> = all.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures
}

/// Of figures in order.
fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
posix at /mnt: processes 1, rounds 1
phase                    ops/s      MiB/s   p50 us   p99 us   wall s  load CPU s  daemon CPU s
write                      900      901.5      9.0     51.5    0.284       0.101         0.200
stat, cold               61000          -      9.0     51.5    0.163       0.010             -
file removal               100          -      9.0     51.5    1.000       0.010         0.500
";

    #[test]
    fn figures_are_read_from_what_a_load_prints() {
        let write = Phase::Write.told(TEXT, "write").unwrap();
        let expected =
            Told { phase: Phase::Write, rate: 901.5, wall_s: 0.284, load_s: 0.101, serving_s: 0.2 };
        assert_eq!(write, expected);
        let stat = Phase::StatCold.told(TEXT, "stat, cold").unwrap();
        assert!((stat.rate - 61e3).abs() < 1e-9 && stat.serving_s.abs() < 1e-9);
        let unlink = Phase::Unlink.told(TEXT, "file removal").unwrap();
        assert!((unlink.rate - 100.0).abs() < 1e-9);
        assert_eq!(Phase::Create.told(TEXT, "create"), None);
    }

    #[test]
    fn the_median_of_the_rounds_stands_beside_the_least_and_the_most() {
        let mut table = Table::default();
        for rate in [30.0, 10.0, 20.0] {
            let told = Told { phase: Phase::Create, rate, wall_s: 1.0, load_s: 0.5, serving_s: 0.25 };
            table.add(Ground::Native, 1, told);
        }
        assert_eq!(table.rate(1, Phase::Create, Ground::Native), Some(20.0));
        assert_eq!(table.rate(2, Phase::Create, Ground::Native), None);
        let row = "| create /s | 1 | native tmpfs | 20 | 10 | 30 | 1.000 | 0.500 | 0.250 |";
        assert!(table.text().contains(row), "{}", table.text());
    }
}
