//! fio, unmodified, with its engine for DFS; everything that was written is read again and verified by fio itself.

use super::{CONT, Daemons, Ran, Setup, Way, timed};
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// Name, and fio's words.
pub(super) const WORKLOADS: [(&str, [&str; 2]); 2] = [
    ("fio 4 KiB at random, 16 in flight", ["--bs=4k", "--rw=randwrite"]),
    ("fio 1 MiB, 16 in flight", ["--bs=1m", "--rw=write"]),
];

/// Where fio's terse output has the error, and the rates of reads and writes in KiB/s.
const ERROR_AT: usize = 4;
const READ_AT: usize = 6;
const WRITE_AT: usize = 47;

/// A run with one thread for each of `ranks`, each in a file of its own.
pub(super) fn run(
    setup: &Setup,
    daemons: &Daemons,
    words: &[&str],
    way: Way,
    (ranks, tag): (usize, &str),
) -> Result<Ran> {
    let mut command = Command::new(setup.fio.as_ref().context("no fio is given")?);
    command.args(["--name=w", "--size=64m", "--iodepth=16", "--thread=1", "--group_reporting=1"]);
    command
        .args(["--verify=crc32c", "--do_verify=1", "--verify_state_save=0", "--output-format=terse"])
        .args(words);
    command.arg(format!("--numjobs={ranks}")).arg(format!("--filename_format={tag}.$jobnum"));
    match way.system(setup) {
        None => {
            command.arg("--ioengine=psync").arg(format!("--directory={}", setup.dir.join("posix").display()))
        }
        Some(system) => {
            command.env("DOLMEN_SYSTEM", system);
            command.args(["--ioengine=dfs", "--pool=tank", &format!("--cont={CONT}")])
        }
    };
    let (text, cpu_seconds) = timed(&mut command, daemons)?;
    let rates = rates(&text).with_context(|| format!("{command:?} has told no rates:\n{text}"))?;
    ensure!(rates.iter().all(|(_, rate)| *rate > 0.0), "{command:?} has done nothing:\n{text}");
    Ok(Ran { rates, cpu_seconds })
}

/// MiB/s of writing, and of reading again; nothing if there was an error.
fn rates(text: &str) -> Option<Vec<(String, f64)>> {
    let fields: Vec<&str> = text.lines().find(|line| line.starts_with("3;"))?.split(';').collect();
    let mib = |at: usize| fields.get(at)?.parse::<f64>().ok().map(|kib| kib / 1024.0);
    (*fields.get(ERROR_AT)? == "0").then(|| {
        Some(vec![("write MiB/s".to_owned(), mib(WRITE_AT)?), ("verify MiB/s".to_owned(), mib(READ_AT)?)])
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_terse_output_and_an_error_gives_none() {
        let mut fields = vec!["0"; 60];
        (fields[0], fields[2], fields[READ_AT], fields[WRITE_AT]) = ("3", "w", "2048", "1024");
        let told = rates(&format!("note\n{}\n", fields.join(";"))).unwrap();
        assert_eq!(told, [("write MiB/s".to_owned(), 1.0), ("verify MiB/s".to_owned(), 2.0)]);
        fields[ERROR_AT] = "5";
        assert_eq!(rates(&fields.join(";")), None);
    }
}
