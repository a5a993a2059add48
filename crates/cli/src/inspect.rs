//! `dolmen inspect`: what lies on disk, decoded by the same codec as the engine's, without opening the pool.
//!
//! Read-only, takes no lock, and works on damaged stores: what cannot be decoded is a finding, and the rest is
//! shown. While another process has the pool open the picture may be of several moments.

mod log;
mod run;
mod target;

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, human, pairs};
use crate::path::{say, shown_outside};
use crate::place;
use crate::pool::say_bulk;
use clap::Args as ClapArgs;
use core::ops::Range;
use dolmen_local::PoolEntry;
use dolmen_types::TargetNo;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[derive(ClapArgs, Debug)]
pub(crate) struct Args {
    /// Pool: its directory (or LABEL, or SYSTEM/LABEL)
    #[arg(value_name = "POOL", value_hint = clap::ValueHint::DirPath)]
    pool: PathBuf,
    /// Only this target
    #[arg(short, long, value_name = "NUMBER", value_parser = crate::size::count::<u16>(0, u64::from(u16::MAX)))]
    target: Option<u16>,
    /// Every frame of the log
    #[arg(long)]
    frames: bool,
}

/// What was found: text, JSON and what is wrong.
#[derive(Default)]
struct Report {
    text: String,
    findings: Vec<String>,
}

impl Report {
    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// Notes something wrong, also where it stands.
    fn finding(&mut self, what: String) {
        self.line(format!("  DAMAGED  {what}"));
        self.findings.push(what);
    }
}

pub(crate) fn run(args: &Args) -> Outcome<Answer> {
    let dir = place::pool_directory(&args.pool)?;
    let doing = || format!("inspect {}", shown_outside(&dir));
    dolmen_local::refuse_no_pool(&dir).doing(doing)?;
    let mut targets = target_directories(&dir).doing(doing)?;
    if targets.is_empty() {
        let failure = Failure::new(Exit::Missing, "there are no targets in it");
        return Err(failure.hint(crate::failure::which_pool(&dir))).doing(doing);
    }
    if let Some(wanted) = args.target {
        targets.retain(|(number, _)| *number == wanted);
        if targets.is_empty() {
            return Err(Failure::new(Exit::Missing, format!("it has no target {wanted}"))).doing(doing);
        }
    }
    let mut report = Report::default();
    let pool = pool_record(&dir, &mut report);
    if args.target.is_none() {
        missing(&dir, pool.as_ref(), &targets, &mut report);
    }
    let rows = show_targets(&dir, pool.as_ref(), &targets, args.frames, &mut report).doing(doing)?;
    let Report { mut text, findings } = report;
    let verdict = if findings.is_empty() {
        "nothing is damaged; values are read by `dolmen check --scrub` alone".to_owned()
    } else {
        format!("{} damaged", findings.len())
    };
    text.push_str(&format!("\n{verdict}\n"));
    let wrong = (!findings.is_empty()).then_some(verdict);
    let mut json = json!({
        "pool": pool.as_ref().map(describe),
        "targets": rows,
        "findings": findings,
    });
    say(&mut json, "directory", dir.as_os_str().as_bytes());
    Ok(Answer::new(text, json).with_findings(wrong))
}

/// What is wrong with the files of a pool, by their paths; nothing where that cannot be told.
pub(crate) fn findings(dir: &Path) -> Vec<String> {
    let Ok(targets) = target_directories(dir) else { return Vec::new() };
    let mut report = Report::default();
    let pool = pool_record(dir, &mut report);
    missing(dir, pool.as_ref(), &targets, &mut report);
    // Ignored: what could be read says what there is to say.
    let _rows = show_targets(dir, pool.as_ref(), &targets, false, &mut report);
    report.findings
}

/// Names targets of the pool that have no directory.
fn missing(dir: &Path, pool: Option<&PoolEntry>, targets: &[(u16, PathBuf)], report: &mut Report) {
    for number in pool.map_or(0..0, own_targets).filter(|number| !has(targets, *number)) {
        report.finding(format!("{}: the target is missing", shown_outside(&dir.join(format!("t{number}")))));
    }
}

/// The numbers of the targets that a directory has of a pool.
fn own_targets(pool: &PoolEntry) -> Range<u16> {
    let before =
        pool.spread.as_ref().and_then(|spread| spread.ranks.iter().position(|rank| *rank == spread.rank));
    let first = u16::try_from(before.unwrap_or(0)).unwrap_or(0).saturating_mul(pool.targets);
    first..first.saturating_add(pool.targets)
}

fn show_targets(
    dir: &Path,
    pool: Option<&PoolEntry>,
    targets: &[(u16, PathBuf)],
    frames: bool,
    report: &mut Report,
) -> Outcome<Vec<Value>> {
    let bulk_dir = pool.and_then(|pool| pool.bulk_dir.clone()).unwrap_or_else(|| dir.to_owned());
    let mut rows = Vec::new();
    for (number, target) in targets {
        report.line(format!("\ntarget {number}  {}", shown_outside(target)));
        let place = target::Place {
            number: *number,
            dir: target,
            bulk: &bulk_dir.join(format!("t{number}")),
            of: pool.map(|pool| target::Of {
                id: dolmen_local::target_id(pool.uuid, TargetNo(*number)),
                life: pool.life,
                has_bulk: pool.bulk_dir.is_some(),
            }),
        };
        rows.push(target::show(&place, frames, report)?);
    }
    Ok(rows)
}

/// Damaged slots of superblocks of a pool, by target and byte offset; of a pool that cannot be read none.
pub(crate) fn damaged_slots(pool: &Path) -> Vec<(u16, u64)> {
    let Ok(targets) = target_directories(pool) else { return Vec::new() };
    let of_target = |(number, dir): &(u16, PathBuf)| {
        let number = *number;
        target::damaged_slots(dir).into_iter().map(move |offset| (number, offset))
    };
    targets.iter().flat_map(of_target).collect()
}

fn has(targets: &[(u16, PathBuf)], number: u16) -> bool {
    targets.iter().any(|&(present, _)| present == number)
}

/// Directories `t0`, `t1`, … of a pool.
fn target_directories(dir: &Path) -> Outcome<Vec<(u16, PathBuf)>> {
    let number = |name: &OsString| name.to_str()?.strip_prefix('t')?.parse::<u16>().ok();
    let names = dolmen_env::subdirectories(dir)?;
    let mut found: Vec<_> = names.iter().filter_map(|name| Some((number(name)?, dir.join(name)))).collect();
    found.sort();
    Ok(found)
}

/// The record of the pool as its system lists it, and who owns it now.
fn pool_record(dir: &Path, report: &mut Report) -> Option<PoolEntry> {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_unreadable| dir.to_owned());
    let name = absolute.file_name();
    let listed = absolute.parent().and_then(|system| dolmen_local::list(system).ok());
    let owner = match std::fs::read_to_string(dir.join(".owner")) {
        Ok(pid) if !pid.trim().is_empty() => format!("process {}, or it was killed", pid.trim()),
        _ => "-".to_owned(),
    };
    let entry = listed.and_then(|entries| entries.into_iter().find(|entry| Some(&*entry.name) == name));
    let Some(entry) = entry else {
        report.finding(format!("{}: the pool's record is missing or damaged", shown_outside(dir)));
        return None;
    };
    report.text.push_str(&pairs(&[
        ("directory", shown_outside(dir)),
        ("uuid", entry.uuid.to_string()),
        ("label", entry.label.as_ref().map_or("-".to_owned(), ToString::to_string)),
        ("targets", entry.targets.to_string()),
        ("volatile", entry.volatile.to_string()),
        (
            "bulk data",
            entry.bulk_dir.as_ref().map_or("beside the metadata".to_owned(), |dir| shown_outside(dir)),
        ),
        ("owner", owner),
    ]));
    Some(entry)
}

fn describe(entry: &PoolEntry) -> Value {
    let mut pool = json!({
        "uuid": entry.uuid.to_string(),
        "label": entry.label.as_ref().map(ToString::to_string),
        "targets": entry.targets,
        "volatile": entry.volatile,
    });
    say_bulk(&mut pool, entry.bulk_dir.as_deref());
    pool
}

/// Names, numbers and lengths of the files of one kind (`log.0000002a`), by number.
fn files(dir: &Path, kind: &str) -> Outcome<Vec<(u32, PathBuf, u64)>> {
    let failed = |error| Failure::on_file(dir, &error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let digits = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.'));
        if let Some(number) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            found.push((number, entry.path(), entry.metadata().map_err(failed)?.len()));
        }
    }
    found.sort();
    Ok(found)
}

fn sizes(files: &[(u32, PathBuf, u64)]) -> String {
    human(files.iter().map(|(_, _, bytes)| bytes).sum())
}
