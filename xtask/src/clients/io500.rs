//! IO500, unmodified, with a short stonewall: the same file of settings over DFS and on native file systems.
//!
//! IO500 has no search of its own over DFS: a program is given that takes the words of its external script, finds pool and
//! container in `FIND_POOL` and `FIND_CONT`, and says `MATCHED n/m` at the end.

use super::{CONT, Setup, Way, mpirun, serve};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Child;

/// Writing ends after so long. A score that is to be compared with others takes 300.
const STONEWALL_SECONDS_DEFAULT: u32 = 5;
/// Phases with a score.
const SCORED: usize = 12;
/// Bandwidth, operations, and both together.
const SCORES: usize = 3;
/// Room for what the phases of ten seconds write.
const CAPACITY: &str = "20g";
/// What IO500 has to say against a run that is short.
const OF_SHORT_RUNS: [&str; 2] = ["stonewall", "Runtime is smaller than expected"];

pub(super) struct Io500 {
    program: PathBuf,
    find: PathBuf,
    disk_dir: PathBuf,
    seconds: u32,
}

/// Where IO500 has its data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ground {
    Served(Way),
    Tmpfs,
    Disk,
}

impl Ground {
    const ALL: [Self; 4] = [Self::Served(Way::Rings), Self::Served(Way::Tcp), Self::Tmpfs, Self::Disk];

    fn name(self) -> &'static str {
        match self {
            Self::Served(way) => way.name(),
            Self::Tmpfs => Way::Posix.name(),
            Self::Disk => "POSIX, disk",
        }
    }
}

/// What a run has told: phases with figure and unit, the score last.
type Told = Vec<(String, String)>;

/// What the words of the command line say of it, if they do.
pub(super) fn asked(value: &dyn Fn(&str) -> Option<String>) -> Result<Option<Io500>> {
    let Some(program) = value("--io500") else { return Ok(None) };
    let find = value("--find").context("--io500 needs --find PROGRAM, which searches over DFS")?;
    let disk_dir = value("--disk-dir").unwrap_or_else(|| "/var/tmp".to_owned());
    let seconds = value("--stonewall").map_or(Ok(STONEWALL_SECONDS_DEFAULT), |text| text.parse())?;
    Ok(Some(Io500 { program: program.into(), find: find.into(), disk_dir: disk_dir.into(), seconds }))
}

/// One run on each ground with one and with two ranks, and their table.
pub(super) fn run(setup: &Setup, io500: &Io500) -> Result<()> {
    let mut columns: Vec<(String, Told)> = Vec::new();
    for ranks in [1, 2] {
        for ground in Ground::ALL {
            let told = on_ground(setup, io500, ground, ranks)?;
            columns.push((format!("{}, {ranks}", ground.name()), told));
        }
    }
    println!();
    print!("{}", table(&columns));
    Ok(())
}

/// Runs with data that are made for it and removed.
fn on_ground(setup: &Setup, io500: &Io500, ground: Ground, ranks: usize) -> Result<Told> {
    let disk = io500.disk_dir.join(setup.dir.file_name().context("a directory has a name")?);
    let dir = setup.dir.join("io500");
    std::fs::create_dir_all(&dir)?;
    let told = match ground {
        Ground::Served(way) => {
            let served = Setup { dir: dir.clone(), capacity: CAPACITY, ..setup.clone() };
            let mut daemon: Child = serve(&served)?;
            let told = client(&served, io500, Some(way), Path::new("/data"), ranks);
            daemon.kill()?;
            daemon.wait()?;
            told
        }
        Ground::Tmpfs => {
            client(&Setup { dir: dir.clone(), ..setup.clone() }, io500, None, &dir.join("data"), ranks)
        }
        Ground::Disk => {
            let told = client(&Setup { dir: dir.clone(), ..setup.clone() }, io500, None, &disk, ranks);
            if disk.exists() {
                std::fs::remove_dir_all(&disk)?;
            }
            told
        }
    };
    std::fs::remove_dir_all(&setup.dir)?;
    told
}

fn client(setup: &Setup, io500: &Io500, way: Option<Way>, data: &Path, ranks: usize) -> Result<Told> {
    let settings = setup.dir.join("io500.ini");
    std::fs::write(&settings, ini(setup, io500, way.is_some(), data))?;
    let mut command = mpirun(ranks);
    command.arg(&io500.program).arg(&settings);
    if let Some(system) = way.and_then(|way| way.system(setup)) {
        command.env("DOLMEN_SYSTEM", system).env("FIND_POOL", "tank").env("FIND_CONT", CONT);
    }
    let output = command.output().context("mpirun cannot be run")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = wrong(&text);
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(wrong.is_empty(), "{command:?}: {}\n{text}\n{error}", wrong.join("\n"));
    let told = told(&text);
    ensure!(told.len() == SCORED + SCORES, "{command:?} has not told all phases:\n{text}\n{error}");
    let ended = output.status.success()
        || error.trim().is_empty()
        || output.status.code() == Some(ERR_COMM)
        || is_known_end(&error);
    ensure!(ended, "{command:?} has ended with {}:\n{error}", output.status);
    Ok(told)
}

/// What Open MPI ends with that was given no communicator, also where it cannot say so.
const ERR_COMM: i32 = 5;

/// At its end IOR's DFS part waits for ranks in a communicator that IOR has freed; the score is told before that. How an MPI
/// calls such a thing is its own.
fn is_known_end(error: &str) -> bool {
    error.contains("MPI_Barrier") && ["MPI_COMM_NULL", "MPI_ERR_COMM"].iter().any(|told| error.contains(told))
}

/// The same for all grounds but for the words that name them. Sizes are such that memory takes all of it.
fn ini(setup: &Setup, io500: &Io500, is_dfs: bool, data: &Path) -> String {
    let api = if is_dfs { format!("DFS --dfs.pool=tank --dfs.cont={CONT}") } else { "POSIX".to_owned() };
    let find =
        if is_dfs { format!("external-script = {}", io500.find.display()) } else { "nproc = 1".to_owned() };
    format!(
        "[global]\ndatadir = {}\ntimestamp-datadir = FALSE\nresultdir = {}\ntimestamp-resultdir = FALSE\napi = {api}\n\
         [debug]\nstonewall-time = {}\n[ior-easy]\nblockSize = 4000m\n[ior-hard]\nsegmentCount = 30000\n\
         [mdtest-easy]\nn = 1000000\n[mdtest-hard]\nn = 100000\n[find]\n{find}\n\
         [find-easy]\nrun = FALSE\n[find-hard]\nrun = FALSE\n",
        data.display(),
        setup.dir.join("results").display(),
        io500.seconds,
    )
}

/// Errors that no short run has to have.
fn wrong(text: &str) -> Vec<&str> {
    let is_wrong = |line: &&str| {
        line.starts_with("ERROR") && !OF_SHORT_RUNS.iter().any(|expected| line.contains(expected))
    };
    text.lines().filter(is_wrong).collect()
}

/// Phases and score, with their units.
fn told(text: &str) -> Told {
    let phase = |line: &str| {
        let words: Vec<&str> = line.strip_prefix("[RESULT]")?.split_whitespace().collect();
        Some((format!("{} {}", words.first()?, words.get(2)?), (*words.get(1)?).to_owned()))
    };
    let mut told: Told = text.lines().filter_map(phase).collect();
    let score = text.lines().filter(|line| line.starts_with("[SCORE ]"));
    let words: Vec<&str> = score.flat_map(str::split_whitespace).collect();
    for (name, at) in [("bandwidth GiB/s", 3), ("operations kIOPS", 7), ("score", 11)] {
        if let Some(figure) = words.get(at) {
            told.push((name.to_owned(), (*figure).to_owned()));
        }
    }
    told
}

fn table(columns: &[(String, Told)]) -> String {
    let mut text = "| IO500 |".to_owned();
    columns.iter().for_each(|(name, _)| text.push_str(&format!(" {name} |")));
    text.push_str("\n|---|");
    columns.iter().for_each(|_| text.push_str("---|"));
    text.push('\n');
    for (row, (phase, _)) in columns.first().map_or(&[][..], |(_, told)| told).iter().enumerate() {
        text.push_str(&format!("| {phase} |"));
        for (_, told) in columns {
            text.push_str(&format!(" {} |", told.get(row).map_or("-", |(_, figure)| figure)));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ERROR INVALID (src/phase_dbg.c:15) stonewall-time 3s != 300s
ERROR INVALID (src/main.c:490) Runtime is smaller than expected minimum runtime
[RESULT]       ior-easy-write        0.680598 GiB/s : time 3.128 seconds [INVALID]
[      ]            timestamp        0.000000 kIOPS : time 0.000 seconds
[RESULT]                 find       30.620063 kIOPS : time 5.997 seconds
[SCORE ] Bandwidth 0.885845 GiB/s : IOPS 19.884569 kiops : TOTAL 4.196980 [INVALID]
";

    #[test]
    fn phases_and_score_are_read_from_what_io500_prints() {
        let told = told(TEXT);
        let told: Vec<(&str, &str)> = told.iter().map(|(name, figure)| (&**name, &**figure)).collect();
        assert_eq!(
            told,
            [
                ("ior-easy-write GiB/s", "0.680598"),
                ("find kIOPS", "30.620063"),
                ("bandwidth GiB/s", "0.885845"),
                ("operations kIOPS", "19.884569"),
                ("score", "4.196980"),
            ]
        );
    }

    #[test]
    fn only_what_a_short_run_has_to_have_is_no_error() {
        assert_eq!(wrong(TEXT), [""; 0]);
        let bad = "ERROR INVALID (src/phase_find.c:83) Find didn't find anything\n";
        assert_eq!(wrong(bad).len(), 1);
    }

    #[test]
    fn the_end_that_is_known_is_no_error_and_others_are() {
        assert!(is_known_end("An error occurred in MPI_Barrier\nMPI_ERR_COMM: invalid communicator"));
        assert!(is_known_end("PMPI_Barrier(MPI_COMM_NULL): Null communicator\nMPI_Barrier"));
        assert!(!is_known_end("An error occurred in MPI_Send\nMPI_ERR_COMM: invalid communicator"));
    }

    #[test]
    fn each_run_is_a_column() {
        let columns = [("a".to_owned(), told(TEXT)), ("b".to_owned(), Vec::new())];
        let table = table(&columns);
        assert!(
            table.starts_with("| IO500 | a | b |\n|---|---|---|\n| ior-easy-write GiB/s | 0.680598 | - |\n"),
            "{table}"
        );
    }
}
