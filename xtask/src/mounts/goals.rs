//! The ratios that are asked for.

use super::ground::Ground;
use super::table::{Phase, Table};
use core::fmt::Write as _;

/// `phases` of each of `grounds` have at least so much of the rate of each of `over`.
struct Goal {
    phases: &'static [Phase],
    grounds: &'static [Ground],
    over: &'static [Ground],
    least: f64,
}

const MOUNTS: &[Ground] = &[Ground::Metadata, Ground::Data, Ground::Off];
const FLOOR: &[Ground] = &[Ground::Passthrough, Ground::Given];
const NAMES: &[Phase] = &[Phase::Create, Phase::StatCold, Phase::StatWarm, Phase::Unlink];
const TAKEN: &[Phase] = &[Phase::Create, Phase::StatCold, Phase::StatWarm];

const GOALS: [Goal; 6] = [
    Goal { phases: &[Phase::Write, Phase::Read], grounds: MOUNTS, over: FLOOR, least: 0.9 },
    Goal { phases: &[Phase::RandomRead], grounds: MOUNTS, over: FLOOR, least: 0.8 },
    Goal { phases: NAMES, grounds: MOUNTS, over: FLOOR, least: 0.7 },
    Goal { phases: NAMES, grounds: MOUNTS, over: &[Ground::JuiceFs], least: 5.0 },
    Goal { phases: TAKEN, grounds: &[Ground::Preload], over: &[Ground::CApi], least: 1.0 / 1.3 },
    Goal { phases: TAKEN, grounds: &[Ground::Preload], over: &[Ground::Metadata], least: 5.0 },
];

/// A table of the ratios that could be had.
pub(super) fn text(table: &Table, processes: usize) -> String {
    let mut text = format!(
        "| {processes} processes: phase | ground | over | ratio | asked | |\n|---|---|---|---|---|---|\n"
    );
    for goal in &GOALS {
        for phase in goal.phases {
            for over in goal.over {
                for ground in goal.grounds {
                    let rate = |ground| table.rate(processes, *phase, ground);
                    let Some((own, other)) = rate(*ground).zip(rate(*over)) else { continue };
                    let ratio = own / other;
                    let verdict = if ratio >= goal.least { "met" } else { "**missed**" };
                    let names = format!("{} | {} | {}", phase.title(), ground.title(), over.title());
                    writeln!(text, "| {names} | {ratio:.2} | {:.2} | {verdict} |", goal.least)
                        .expect("a String takes everything");
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::table::Told;
    use super::*;

    #[test]
    fn a_ratio_is_held_against_what_is_asked_where_both_sides_were_measured() {
        let mut table = Table::default();
        let told = |phase, rate| Told { phase, rate, wall_s: 1.0, load_s: 0.0, serving_s: 0.0 };
        table.add(Ground::Passthrough, 1, told(Phase::Write, 1000.0));
        table.add(Ground::Metadata, 1, told(Phase::Write, 950.0));
        table.add(Ground::Data, 1, told(Phase::Write, 100.0));
        table.add(Ground::Metadata, 1, told(Phase::Create, 10.0));
        table.add(Ground::Preload, 1, told(Phase::Create, 49.0));
        let text = text(&table, 1);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| sequential write MiB/s | mount, metadata | passthrough | 0.95 | 0.90 | met |",
                "| sequential write MiB/s | mount, data | passthrough | 0.10 | 0.90 | **missed** |",
                "| create /s | mount with preload | mount, metadata | 4.90 | 5.00 | **missed** |",
            ]
        );
        assert_eq!(super::text(&table, 2).lines().count(), 2);
    }
}
