//! `dolmen fs put`, `get` and `verify`.

use super::journal::{self, Journal, Record};
use super::{BLOCK_BYTES, Mounted};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, human};
use crate::path::shown;
use crate::place::{self, ContArg};
use crate::progress::Bar;
use clap::Args;
use core::sync::atomic::{AtomicUsize, Ordering};
use dolmen_dfs::tree::{self, Counts, Difference, Options};
use dolmen_dfs::{Dfs, Error, OpenOptions};
use dolmen_env::{Clock, RealClock};
use dolmen_local::Upkeep;
use dolmen_types::{crc32c, crc32c_append};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Threads for each processor: most of them wait for a flush, which they share.
const THREADS_PER_CPU: usize = 8;
/// Differences printed; the JSON has all that were kept.
const MISMATCHES_SHOWN: usize = 20;

#[derive(Args, Debug)]
pub(crate) struct Put {
    #[command(flatten)]
    cont: ContArg,
    /// File or directory outside
    #[arg(value_name = "LOCAL", value_hint = clap::ValueHint::AnyPath)]
    local: PathBuf,
    /// Its path in the container; missing directories above it are made
    #[arg(value_name = "PATH")]
    path: String,
    #[command(flatten)]
    how: How,
    /// Append a record for every file that is stored and acknowledged; see `fs verify --log`
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    log: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Get {
    #[command(flatten)]
    cont: ContArg,
    /// File or directory in the container
    #[arg(value_name = "PATH")]
    path: String,
    /// Where to put it outside
    #[arg(value_name = "LOCAL", value_hint = clap::ValueHint::AnyPath)]
    local: PathBuf,
    #[command(flatten)]
    how: How,
    /// As of this snapshot
    #[arg(long, value_name = "SNAP")]
    snapshot: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Verify {
    #[command(flatten)]
    cont: ContArg,
    /// File or directory outside
    #[arg(value_name = "LOCAL", required_unless_present = "log", value_hint = clap::ValueHint::AnyPath)]
    local: Option<PathBuf>,
    /// Its path in the container
    #[arg(value_name = "PATH", required_unless_present = "log")]
    path: Option<String>,
    /// Verify the files of a put's journal instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["local", "path"], value_hint = clap::ValueHint::FilePath)]
    log: Option<PathBuf>,
    #[command(flatten)]
    how: How,
    /// As of this snapshot
    #[arg(long, value_name = "SNAP")]
    snapshot: Option<String>,
}

#[derive(Args, Debug)]
struct How {
    /// Files at once [default: 8 for each processor]
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Keep, or compare, owner and group
    #[arg(long)]
    owner: bool,
    /// Copy everything anew, also files that are there with the same size and time
    #[arg(long)]
    no_resume: bool,
}

impl How {
    fn threads(&self) -> usize {
        self.jobs.map_or(THREADS_PER_CPU * dolmen_env::cpu_count(), usize::from)
    }
}

/// Runs a copy or comparison with a bar; what it returns, and how long it took.
fn timed<T>(
    verb: &str,
    how: &How,
    journal: Option<&Journal>,
    work: impl FnOnce(&Options<'_>) -> dolmen_dfs::Result<T>,
) -> Outcome<(T, u64)> {
    let bar = Bar::begin(verb);
    let show = |counts| bar.show(counts);
    let begun_ns = RealClock.monotonic_ns();
    let note = |path: &[u8], size, crc| journal.map_or(Ok(()), |journal| journal.add(path, size, crc));
    let options = Options {
        threads: how.threads(),
        resume: !how.no_resume,
        owner: how.owner,
        on_progress: Some(&show),
        on_stored: journal.is_some().then_some(&note),
    };
    let done = work(&options)?;
    Ok((done, RealClock.monotonic_ns() - begun_ns))
}

pub(super) fn put(args: &Put) -> Outcome<Answer> {
    if let Err(error) = std::fs::symlink_metadata(&args.local) {
        return Err(Failure::on_file(&args.local, &error)).doing(|| format!("put {}", args.local.display()));
    }
    let journal =
        args.log.as_deref().map(Journal::open).transpose().doing(|| "write the journal".to_owned())?;
    let session = place::open_with(&args.cont.pool, Upkeep::Thread)?;
    let mounted = Mounted::on(session, &args.cont, None)?;
    let doing = || format!("put {} at {}", args.local.display(), args.path);
    make_parents(&mounted.dfs, &args.path).doing(doing)?;
    let (counts, ns) = timed("put", &args.how, journal.as_ref(), |options| {
        tree::put(&args.local, &mounted.dfs, &args.path, options)
    })
    .doing(doing)?;
    mounted.close()?;
    Ok(copied("put", counts, ns))
}

/// Makes the directories above `path`.
fn make_parents(dfs: &Dfs, path: &str) -> Outcome<()> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut above = String::new();
    for part in parts.split_last().map_or(&[][..], |(_, above)| above) {
        above.push('/');
        above.push_str(part);
        match dfs.mkdir(&above, 0o755) {
            Err(Error::Exists) => {}
            other => other.doing(|| format!("make directory {above}"))?,
        }
    }
    Ok(())
}

pub(super) fn get(args: &Get) -> Outcome<Answer> {
    let mounted = Mounted::open(&args.cont, args.snapshot.as_deref())?;
    let (counts, ns) =
        timed("get", &args.how, None, |options| tree::get(&mounted.dfs, &args.path, &args.local, options))
            .doing(|| format!("get {} to {}", args.path, args.local.display()))?;
    mounted.close()?;
    Ok(copied("get", counts, ns))
}

fn copied(verb: &str, counts: Counts, ns: u64) -> Answer {
    let Counts { dirs, files, symlinks, links, bytes, resumed, skipped } = counts;
    let seconds = seconds(ns);
    let mut text = format!("{verb} {files} files, {} in {seconds:.2} s, {}/s", human(bytes), rate(bytes, ns));
    for (count, what) in [
        (dirs, "directories"),
        (symlinks, "symbolic links"),
        (links, "hard links"),
        (resumed, "files already there"),
        (skipped, "skipped"),
    ] {
        if count > 0 {
            text.push_str(&format!("; {count} {what}"));
        }
    }
    Answer::new(text, counts_json(counts, ns))
}

fn counts_json(counts: Counts, ns: u64) -> Value {
    json!({
        "files": counts.files,
        "dirs": counts.dirs,
        "symlinks": counts.symlinks,
        "links": counts.links,
        "bytes": counts.bytes,
        "resumed": counts.resumed,
        "skipped": counts.skipped,
        "seconds": seconds(ns),
    })
}

#[expect(clippy::cast_precision_loss, reason = "seconds for people and plots, to the millisecond")]
fn seconds(ns: u64) -> f64 {
    (ns / 1_000) as f64 / 1e6
}

fn rate(bytes: u64, ns: u64) -> String {
    let per_s = u128::from(bytes) * 1_000_000_000 / u128::from(ns.max(1));
    human(u64::try_from(per_s).unwrap_or(u64::MAX))
}

pub(super) fn verify(args: &Verify) -> Outcome<Answer> {
    let mounted = Mounted::open(&args.cont, args.snapshot.as_deref())?;
    let answer = match (&args.log, &args.local, &args.path) {
        (Some(log), _, _) => verify_journal(&mounted.dfs, log, &args.how)?,
        (None, Some(local), Some(path)) => verify_tree(&mounted.dfs, local, path, &args.how)?,
        _ => return Err(Failure::new(Exit::Usage, "LOCAL and PATH, or --log FILE, are needed")),
    };
    mounted.close()?;
    Ok(answer)
}

fn verify_tree(dfs: &Dfs, local: &Path, path: &str, how: &How) -> Outcome<Answer> {
    let (report, ns) = timed("verify", how, None, |options| tree::verify(local, dfs, path, options))
        .doing(|| format!("compare {} with {path}", local.display()))?;
    let differences = report.mismatches.len() as u64 + report.more;
    let mut text = String::new();
    for mismatch in report.mismatches.iter().take(MISMATCHES_SHOWN) {
        text.push_str(&format!("{mismatch}\n"));
    }
    if differences > MISMATCHES_SHOWN as u64 {
        text.push_str(&format!("… and {} more\n", differences - MISMATCHES_SHOWN as u64));
    }
    let Counts { files, bytes, .. } = report.counts;
    let verdict = if differences == 0 { "equal".to_owned() } else { format!("{differences} differences") };
    let (read, seconds) = (human(bytes), seconds(ns));
    text.push_str(&format!(
        "{verdict}: {files} files, {read} compared in {seconds:.2} s, {}/s\n",
        rate(bytes, ns)
    ));
    let mut json = counts_json(report.counts, ns);
    json["differences"] = json!(differences);
    json["mismatches"] = report
        .mismatches
        .iter()
        .map(|mismatch| json!({ "path": shown(&mismatch.path), "difference": word(mismatch.difference) }))
        .collect();
    Ok(Answer::new(text, json).with_findings(differences > 0))
}

/// Reads every file of a journal and compares size and checksum.
fn verify_journal(dfs: &Dfs, log: &Path, how: &How) -> Outcome<Answer> {
    let mut records = journal::read(log)?;
    // A file that was put again is what the last record says.
    records.reverse();
    let mut seen = std::collections::BTreeSet::new();
    records.retain(|record| seen.insert(record.path.clone()));
    let (files, bytes) = (records.len() as u64, records.iter().map(|record| record.size_bytes).sum());
    // Guards the paths that differ; nothing is asked under it.
    let differing: Mutex<Vec<String>> = Mutex::default();
    let begun_ns = RealClock.monotonic_ns();
    side_by_side(how.threads(), &records, |record| {
        if let Some(difference) = compare_record(dfs, record)? {
            let line = format!("{}: {difference}", shown(&record.path));
            differing.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
        Ok(())
    })?;
    let ns = RealClock.monotonic_ns() - begun_ns;
    let mut differing = differing.into_inner().unwrap_or_else(PoisonError::into_inner);
    differing.sort_unstable();
    let mut text: String = differing.iter().take(MISMATCHES_SHOWN).map(|line| format!("{line}\n")).collect();
    let verdict =
        if differing.is_empty() { "all there".to_owned() } else { format!("{} WRONG", differing.len()) };
    let seconds = seconds(ns);
    text.push_str(&format!(
        "{verdict}: {files} acknowledged files, {} read in {seconds:.2} s\n",
        human(bytes)
    ));
    let json = json!({
        "files": files,
        "bytes": bytes,
        "differences": differing.len(),
        "mismatches": differing,
        "seconds": seconds,
    });
    let found = !differing.is_empty();
    Ok(Answer::new(text, json).with_findings(found))
}

/// Does `work` on every item in some threads; the first failure.
fn side_by_side<T: Sync>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> Outcome<()> + Sync,
) -> Outcome<()> {
    let next = AtomicUsize::new(0);
    let run = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(failure) = work(item) {
                next.store(items.len(), Ordering::Relaxed);
                return Err(failure);
            }
        }
        Ok(())
    };
    dolmen_env::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let panicked =
            |_panic| Err(Failure::new(Exit::Other, "a worker thread panicked: a defect of this program"));
        running.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
    })
}

/// One word for a program.
fn word(difference: Difference) -> &'static str {
    match difference {
        Difference::Missing => "missing",
        Difference::Extra => "extra",
        Difference::Kind => "kind",
        Difference::Mode => "mode",
        Difference::Owner => "owner",
        Difference::Time => "time",
        Difference::Size => "size",
        Difference::Content { .. } => "content",
        Difference::Xattrs => "xattrs",
        Difference::Links => "links",
    }
}

/// How a stored file differs from its record, if it does.
fn compare_record(dfs: &Dfs, record: &Record) -> Outcome<Option<&'static str>> {
    let doing = || format!("read {}", shown(&record.path));
    let file = match dfs.open(&record.path, &OpenOptions::READ) {
        Err(Error::NotFound) => return Ok(Some("missing")),
        other => other.doing(doing)?,
    };
    let room = usize::try_from(record.size_bytes).unwrap_or(BLOCK_BYTES).saturating_add(1).min(BLOCK_BYTES);
    let mut block = vec![0; room];
    let (mut at, mut crc) = (0, crc32c(b""));
    loop {
        let read = file.read_at(at, &mut block).doing(doing)?;
        crc = crc32c_append(crc, &block[..read]);
        at += read as u64;
        if read < block.len() {
            break;
        }
    }
    Ok(match (at == record.size_bytes, crc == record.crc) {
        (true, true) => None,
        (false, _) => Some("other size"),
        (true, false) => Some("other content"),
    })
}
