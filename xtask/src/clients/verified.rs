//! IOR that verifies: every transfer is read again behind its write (`-W`) and once more in the phase of reading (`-R`), and
//! compared with what was to be written. A wrong byte fails the run; there is no rate without zero errors.

use super::{Daemons, Ran, Setup, Table, Way, add, ior_command, ior_rates, timed};
use anyhow::{Context, Result};

/// Name, and IOR's words: with `-v` it says that it compares.
const WORKLOADS: [(&str, &[&str]); 2] = [
    ("IOR easy, verified", &["-v", "-w", "-W", "-r", "-R", "-C", "-t", "1m", "-b", "64m", "-F"]),
    ("IOR hard, verified", &["-v", "-w", "-W", "-r", "-R", "-C", "-t", "47008", "-b", "47008", "-s", "1000"]),
];

/// What IOR says when it begins to compare.
const COMPARES: &str = "Verifying contents of the file(s) just written.";
/// What it says when something differs.
const DIFFERS: [&str; 2] = ["Incorrect data", "errors found"];

/// Each workload once by each way, with one and two ranks.
pub(super) fn run(setup: &Setup, daemons: &Daemons) -> Result<Table> {
    let mut table = Table::new();
    for ranks in [1, 2] {
        for (name, words) in WORKLOADS {
            for way in Way::ALL {
                let tag = format!("verified-{ranks}-{}", name.replace([' ', ','], "-"));
                let mut command = ior_command(setup, way, ranks, &tag);
                command.args(words);
                let (text, cpu_seconds) = timed(&mut command, daemons)?;
                let rates = rates(&text);
                let rates = rates
                    .with_context(|| format!("{command:?} has found errors, or has not compared:\n{text}"))?;
                add(&mut table, name, ranks, way, Ran { rates, cpu_seconds });
            }
        }
    }
    Ok(table)
}

/// Rates, if both comparisons were made and everything was as it was written.
fn rates(text: &str) -> Option<Vec<(String, f64)>> {
    let differs = DIFFERS.iter().any(|told| text.contains(told));
    let rates = ior_rates(text);
    (text.contains(COMPARES) && !differs && rates.len() == 2).then_some(rates)
}

/// The table of what has passed: there are no rows of anything else.
pub(super) fn print(table: &Table) {
    println!("\n| verified | ranks | way | result |\n|---|---|---|---|");
    for ((phase, ranks, way), _) in table.iter().filter(|((phase, ..), _)| phase.contains("read")) {
        println!(
            "| {} | {ranks} | {} | pass, 0 errors |",
            phase.split(':').next().unwrap_or(phase),
            way.name()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = "write 1265.52 1287.60 0 0\nread 4347 4364 0.1 0   \nwrite 9 9 DFS 0\n";

    #[test]
    fn a_run_passes_only_if_it_has_compared_and_nothing_differs() {
        let good = format!("{COMPARES}\n{RESULTS}");
        assert_eq!(rates(&good).map(|rates| rates.len()), Some(2));
        assert_eq!(rates(RESULTS), None, "nothing was compared");
        let bad = format!("{COMPARES}\nWARNING: Incorrect data on read (3 errors found).\n{RESULTS}");
        assert_eq!(rates(&bad), None);
        assert_eq!(rates(&format!("{COMPARES}\nwrite 1265.52 1287.60 0 0\n")), None, "it has not read");
    }
}
