//! `dolmen fs put`, `get` and `verify`.

use super::journal::{self, Journal, Record};
use super::{BLOCK_BYTES, Mounted, stdin};
use crate::failure::{Doing, Exit, Failure, Outcome, exit_of, failed_line, system_text};
use crate::interrupt;
use crate::output::{Answer, count, human};
use crate::path::{shown, shown_arg, shown_outside};
use crate::place::{self, ContArg, Session};
use crate::progress::Bar;
use clap::Args;
use core::sync::atomic::{AtomicUsize, Ordering};
use dolmen_dfs::tree::{self, Counts, Difference, Options, Skipped};
use dolmen_dfs::{Dfs, Error, FileKind, OpenOptions};
use dolmen_env::{Clock, RealClock};
use dolmen_local::Upkeep;
use dolmen_types::{crc32c, crc32c_append};
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Threads for each processor: most of them wait for a flush, which they share.
const THREADS_PER_CPU: usize = 8;
/// Differences, failures and skipped entries printed; the JSON has all that were kept.
pub(super) const MISMATCHES_SHOWN: usize = 20;
/// Failures kept, and skipped entries; further ones are counted.
const REMARKS_MAX: usize = 1000;

#[derive(Args, Debug)]
pub(crate) struct Put {
    #[command(flatten)]
    cont: ContArg,
    /// File or directory outside; - is standard input, which becomes a file once it has ended
    #[arg(value_name = "LOCAL", value_hint = clap::ValueHint::AnyPath)]
    local: PathBuf,
    /// Its path in the container; missing directories above it are made. A file goes into what is a directory there, under
    /// its own name; a tree is merged into it
    #[arg(value_name = "PATH")]
    pub(super) path: OsString,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    anew: Anew,
    /// Append a record for every file that is stored and acknowledged; see `fs verify --log`. Files that are there already
    /// are not read, and get none: add --no-resume to have one of each
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    log: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Get {
    #[command(flatten)]
    cont: ContArg,
    /// File or directory in the container
    #[arg(value_name = "PATH")]
    pub(super) path: OsString,
    /// Where to put it outside. A file goes into what is a directory there, under its own name; a tree is merged into it
    #[arg(value_name = "LOCAL", value_hint = clap::ValueHint::AnyPath)]
    local: PathBuf,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    anew: Anew,
    /// As of this snapshot
    #[arg(long, value_name = "SNAP")]
    snapshot: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Verify {
    #[command(flatten)]
    cont: ContArg,
    /// File or directory outside; needed unless --log is given
    #[arg(value_name = "LOCAL", value_hint = clap::ValueHint::AnyPath)]
    local: Option<PathBuf>,
    /// Its path in the container
    #[arg(value_name = "PATH")]
    pub(super) path: Option<OsString>,
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
    #[arg(short, long, value_name = "COUNT", value_parser = crate::size::count::<u16>(1, 1024))]
    jobs: Option<u16>,
    /// Keep, or compare, owner and group
    #[arg(long)]
    owner: bool,
}

#[derive(Args, Debug)]
struct Anew {
    /// Copy everything anew, also files that are there with the same size and time
    #[arg(long)]
    no_resume: bool,
}

/// Threads for so many jobs at once.
pub(super) fn threads(jobs: Option<u16>) -> usize {
    jobs.map_or(THREADS_PER_CPU * dolmen_env::cpu_count(), usize::from)
}

impl How {
    fn threads(&self) -> usize {
        threads(self.jobs)
    }
}

/// What could not be copied or compared, and what was left out; the first of each.
#[derive(Default)]
struct Remarks {
    /// Guards the failures; taken alone.
    failures: Mutex<Vec<Failure>>,
    /// Guards what was left out: path and why; taken alone.
    skipped: Mutex<Vec<(PathBuf, Skipped)>>,
}

impl Remarks {
    fn fail(&self, error: Error) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < REMARKS_MAX {
            failures.push(error.into());
        }
    }

    fn skip(&self, path: &Path, why: Skipped) {
        let mut skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
        if skipped.len() < REMARKS_MAX {
            skipped.push((path.to_owned(), why));
        }
    }

    /// Adds both to an answer, as lines before its summary and as fields; what the failures mean for its exit code.
    fn report(self, counts: Counts, text: &mut String, json: &mut Value) -> Exit {
        let mut failures = self.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        failures.sort_by_key(ToString::to_string);
        let mut skipped = self.skipped.into_inner().unwrap_or_else(PoisonError::into_inner);
        skipped.sort_unstable();
        text.extend(failures.iter().take(MISMATCHES_SHOWN).map(failed_line));
        more(text, counts.failed, "failed");
        for (path, why) in skipped.iter().take(MISMATCHES_SHOWN) {
            text.push_str(&format!("skipped {}: {}\n", shown_outside(path), why_skipped(why)));
        }
        more(text, counts.skipped, "skipped");
        json["failed"] = json!(counts.failed);
        json["failures"] = failures.iter().map(Failure::detail).collect();
        json["skipped_entries"] = skipped
            .iter()
            .map(|(path, why)| {
                let mut row = json!({ "why": why_skipped(why) });
                crate::path::say(&mut row, "path", path.as_os_str().as_bytes());
                row
            })
            .collect();
        exit_of(&failures)
    }
}

pub(super) fn more(text: &mut String, count: u64, what: &str) {
    if count > MISMATCHES_SHOWN as u64 {
        text.push_str(&format!("… and {} more {what}\n", count - MISMATCHES_SHOWN as u64));
    }
}

fn why_skipped(why: &Skipped) -> String {
    let words = match why {
        Skipped::Socket => "a socket",
        Skipped::Pipe => "a named pipe",
        Skipped::Device => "a device",
        Skipped::Excluded => "the directory of the pool itself",
        Skipped::Unfinished => "a file that another copy has not finished",
        Skipped::Attribute { name, errno } => {
            return format!("its extended attribute {}: {}", shown(name), system_text(*errno));
        }
    };
    words.to_owned()
}

/// The directories of the open pool, by device and inode: a copy must neither read nor write them.
fn own_directories(session: &Session) -> Outcome<Vec<(u64, u64)>> {
    match session.local() {
        Some(local) => Ok(local.directory_ids()?),
        // That of a daemon on this machine, if it is one.
        None => {
            Ok(std::fs::metadata(session.dir()).map(|meta| (meta.dev(), meta.ino())).into_iter().collect())
        }
    }
}

/// Refuses a path outside that lies in a directory of the open pool.
fn refuse_own(local: &Path, own: &[(u64, u64)]) -> Outcome<()> {
    let absolute = std::path::absolute(local).map_err(|error| Failure::on_file(local, &error))?;
    let existing = absolute.ancestors().find_map(|above| above.canonicalize().ok());
    let is_own =
        |dir: &Path| std::fs::metadata(dir).is_ok_and(|meta| own.contains(&(meta.dev(), meta.ino())));
    if existing.is_some_and(|path| path.ancestors().any(is_own)) {
        let failure = Failure::new(Exit::Refused, "it belongs to the pool itself");
        return Err(failure.hint("name a file or directory outside the pool"));
    }
    Ok(())
}

/// Runs a copy or comparison with a bar; what it returns, how long it took, and what it could not do.
fn timed<T>(
    verb: &str,
    (how, resume): (&How, bool),
    journal: Option<&Journal>,
    own: &[(u64, u64)],
    work: impl FnOnce(&Options<'_>) -> dolmen_dfs::Result<T>,
) -> Outcome<(T, u64, Remarks)> {
    let bar = Bar::begin(verb);
    let show = |counts| bar.show(counts);
    let begun_ns = RealClock.monotonic_ns();
    let note = |path: &[u8], size, crc| journal.map_or(Ok(()), |journal| journal.add(path, size, crc));
    let remarks = Remarks::default();
    let fail = |error| remarks.fail(error);
    let skip = |path: &Path, why| remarks.skip(path, why);
    let options = Options {
        threads: how.threads(),
        resume,
        owner: how.owner,
        on_progress: Some(&show),
        on_stored: journal.is_some().then_some(&note),
        on_failure: Some(&fail),
        on_skipped: Some(&skip),
        stop: Some(interrupt::stop()),
        excluded: own,
        is_refused: Some(&dolmen_local::is_pool),
    };
    let done = work(&options)?;
    Ok((done, RealClock.monotonic_ns() - begun_ns, remarks))
}

pub(super) fn put(args: &Put) -> Outcome<Answer> {
    let is_stdin = stdin::is_named(&args.local);
    if let Err(error) = std::fs::symlink_metadata(&args.local)
        && !is_stdin
    {
        return Err(Failure::on_file(&args.local, &error))
            .doing(|| format!("put {}", shown_outside(&args.local)));
    }
    let journal =
        args.log.as_deref().map(Journal::open).transpose().doing(|| "write the journal".to_owned())?;
    let session = place::open_with(&args.cont.pool, Upkeep::Thread)?;
    let mounted = Mounted::on(session, &args.cont)?;
    let path = if is_stdin { args.path.as_bytes().to_vec() } else { into_directory(&mounted.dfs, args) };
    let doing = || format!("put {} at {}", shown_outside(&args.local), shown(&path));
    let own = own_directories(&mounted.session).doing(doing)?;
    if is_stdin {
        refuse_nameless(&mounted.dfs, &path).doing(doing)?;
    } else {
        refuse_own(&args.local, &own).doing(doing)?;
        refuse_no_directory(&mounted.dfs, args).doing(doing)?;
    }
    make_parents(&mounted.dfs, &path).doing(doing)?;
    let put =
        timed("put", (&args.how, !args.anew.no_resume), journal.as_ref(), &own, |options| match is_stdin {
            true => tree::put_pieces(&mounted.dfs, &path, stdin::pieces()?, options),
            false => tree::put(&args.local, &mounted.dfs, &path, options),
        });
    let put = put.map_err(|failure| with_other_targets(&mounted.session, failure)).doing(doing);
    let closed = mounted.close();
    let (counts, ns, remarks) = put?;
    closed?;
    let mut answer = copied("put", counts, ns, remarks);
    if args.log.is_some() {
        answer.json["unrecorded"] = json!(counts.resumed);
    }
    if let Some(log) = args.log.as_deref().filter(|_| counts.resumed > 0) {
        let files = count(counts.resumed, "file", "files");
        let log = shown_outside(log);
        answer
            .text
            .push_str(&format!("{files} already there: no record in {log} (--no-resume has one of each)\n"));
    }
    Ok(answer)
}

/// The path that a put has: below it, under the name outside, where a directory has it and what is put is none.
fn into_directory(dfs: &Dfs, args: &Put) -> Vec<u8> {
    let path = args.path.as_bytes();
    let is_tree = std::fs::symlink_metadata(&args.local).is_ok_and(|meta| meta.is_dir());
    match args.local.file_name() {
        Some(name) if !is_tree && is_directory(dfs, path) => crate::path::join(path, name.as_bytes()),
        _ => path.to_vec(),
    }
}

fn is_directory(dfs: &Dfs, path: &[u8]) -> bool {
    dfs.stat(path).is_ok_and(|stat| stat.kind == FileKind::Directory)
}

/// Where one target is full: what the others have, and why that is of no use.
fn with_other_targets(session: &Session, failure: Failure) -> Failure {
    let (Some(full), Ok(info)) = (failure.full_target(), session.pool.query()) else { return failure };
    let others = (0..).zip(&info.space).filter(|(target, _)| *target != full);
    match of_others(&others.map(|(_, space)| space.free_bytes).collect::<Vec<_>>()) {
        Some(more) => failure.adding(&more),
        None => failure,
    }
}

/// The same in words, by how much each of the others has.
fn of_others(free_bytes: &[u64]) -> Option<String> {
    // What is needed at once lies on one target: what all have together says nothing.
    let most = free_bytes.iter().max()?;
    Some(format!(
        ", and none of the others ({}) has more than {} free: a file lies on all targets, and ends with the first that is full; one \
         of up to 256 KiB lies on one, and so does a directory, unless the container was made with --file-class and --dir-class",
        free_bytes.len(),
        human(*most)
    ))
}

/// Refuses a file for a path that ends in a slash and is no directory.
fn refuse_no_directory(dfs: &Dfs, args: &Put) -> Outcome<()> {
    let path = args.path.as_bytes();
    if !path.ends_with(b"/") || args.local.is_dir() {
        return Ok(());
    }
    match dfs.stat(path) {
        Err(Error::NotFound) => {
            let failure = Failure::new(Exit::Missing, format!("there is no directory {}", shown(path)));
            Err(failure.hint("leave out the slash at its end, or put a directory"))
        }
        other => Ok(other.map(drop)?),
    }
}

/// Refuses a path that says where standard input would go, and not under which name.
fn refuse_nameless(dfs: &Dfs, path: &[u8]) -> Outcome<()> {
    if !path.ends_with(b"/") && !is_directory(dfs, path) {
        return Ok(());
    }
    let file = crate::path::join(path, b"NAME");
    let failure = Failure::new(Exit::Usage, "standard input has no name of its own");
    Err(failure.hint(format!("name the file that it becomes: {}", shown(&file))))
}

/// Makes the directories above `path`.
fn make_parents(dfs: &Dfs, path: &[u8]) -> Outcome<()> {
    let parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect();
    let mut above = Vec::new();
    for part in parts.split_last().map_or(&[][..], |(_, above)| above) {
        above.push(b'/');
        above.extend_from_slice(part);
        if is_directory(dfs, &above) {
            continue;
        }
        match dfs.mkdir(&above, 0o755) {
            Err(Error::Exists) => {}
            other => other.doing(|| format!("make directory {}", shown(&above)))?,
        }
    }
    Ok(())
}

pub(super) fn get(args: &Get) -> Outcome<Answer> {
    let mounted = Mounted::read(&args.cont, args.snapshot.as_deref())?;
    let path = args.path.as_bytes();
    let is_tree = mounted.dfs.lstat(path).is_ok_and(|stat| stat.kind == FileKind::Directory);
    let local = if !is_tree && args.local.is_dir() {
        args.local.join(OsStr::from_bytes(super::last_name(path)))
    } else {
        args.local.clone()
    };
    let doing = || format!("get {} to {}", shown_arg(&args.path), shown_outside(&local));
    let local = led_to(&local).doing(doing)?;
    let own = own_directories(&mounted.session).doing(doing)?;
    refuse_own(&local, &own).doing(doing)?;
    if let Some(pool) = dolmen_local::pool_around(&local).doing(doing)? {
        let failure =
            Failure::new(Exit::Refused, format!("it leads into the pool in {}", shown_outside(&pool)));
        return Err(failure.hint("name a file or directory outside of pools")).doing(doing);
    }
    if let Some(above) = local.parent()
        && !above.as_os_str().is_empty()
        && !above.exists()
    {
        let failure = Failure::new(Exit::Missing, format!("there is no directory {}", shown_outside(above)));
        return Err(failure.hint("make it first")).doing(doing);
    }
    let (counts, ns, remarks) = timed("get", (&args.how, !args.anew.no_resume), None, &own, |options| {
        tree::get(&mounted.dfs, path, &local, options)
    })
    .doing(doing)?;
    mounted.close()?;
    Ok(copied("get", counts, ns, remarks))
}

/// Where a file is put that is got onto a symbolic link: where that leads, as `cp` does. The link itself stays.
fn led_to(local: &Path) -> Outcome<PathBuf> {
    if local == Path::new("-") {
        let failure = Failure::new(Exit::Usage, "there is no stream to get to");
        return Err(failure.hint("print it with `dolmen fs cat`; a file of that name is ./-"));
    }
    if !local.is_symlink() {
        return Ok(local.to_owned());
    }
    let failed = |error: std::io::Error| Failure::on_file(local, &error);
    match std::fs::metadata(local) {
        Ok(there) if there.is_file() || there.is_dir() => local.canonicalize().map_err(failed),
        Ok(_special) => {
            let why =
                "it is a symbolic link to a device, pipe or socket, which is neither copied nor replaced";
            Err(Failure::new(Exit::Refused, why).hint("`dolmen fs cat` prints a file"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let failure = Failure::new(Exit::Missing, "it is a symbolic link that leads nowhere");
            Err(failure.hint("remove the link, or make what it leads to"))
        }
        Err(error) => Err(failed(error)),
    }
}

fn copied(verb: &str, counts: Counts, ns: u64, remarks: Remarks) -> Answer {
    let Counts { dirs, files, symlinks, links, bytes, resumed, skipped, failed } = counts;
    let seconds = seconds(ns);
    let (mut text, mut json) = (String::new(), counts_json(counts, ns));
    let exit = remarks.report(counts, &mut text, &mut json);
    text.push_str(&format!(
        "{verb} {}, {} in {seconds:.2} s, {}/s",
        count(files, "file", "files"),
        human(bytes),
        rate(bytes, ns)
    ));
    for (number, one, several) in [
        (dirs, "directory", "directories"),
        (symlinks, "symbolic link", "symbolic links"),
        (links, "hard link", "hard links"),
        (resumed, "file already there", "files already there"),
        (skipped, "skipped", "skipped"),
        (failed, "FAILED", "FAILED"),
    ] {
        if number > 0 {
            text.push_str(&format!("; {}", count(number, one, several)));
        }
    }
    let wrong = format!("{} could not be copied", count(failed, "entry", "entries"));
    Answer::new(text, json).ending(exit, wrong)
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
    if args.log.is_none() && args.path.is_none() {
        let failure = Failure::new(Exit::Usage, "LOCAL and PATH, or --log FILE, are needed");
        return Err(failure.hint("see `dolmen help fs verify`"));
    }
    let mounted = Mounted::read(&args.cont, args.snapshot.as_deref())?;
    let answer = match (&args.log, &args.local, &args.path) {
        (Some(log), _, _) => verify_journal(&mounted.dfs, log, &args.how)?,
        (None, Some(local), Some(path)) => verify_tree(&mounted, local, path, &args.how)?,
        _ => unreachable!("refused above"),
    };
    mounted.close()?;
    Ok(answer)
}

fn verify_tree(mounted: &Mounted, local: &Path, path: &OsStr, how: &How) -> Outcome<Answer> {
    let doing = || format!("compare {} with {}", shown_outside(local), shown_arg(path));
    if mounted.dfs.lstat(path.as_bytes()) == Err(Error::NotFound) {
        let why = format!("{} does not exist in the container", shown_arg(path));
        return Err(Failure::new(Exit::Missing, why)).doing(doing);
    }
    let own = own_directories(&mounted.session).doing(doing)?;
    let (report, ns, remarks) = timed("verify", (how, true), None, &own, |options| {
        tree::verify(local, &mounted.dfs, path.as_bytes(), options)
    })
    .doing(doing)?;
    let differences = report.mismatches.len() as u64 + report.more;
    let (mut text, mut json) = (String::new(), counts_json(report.counts, ns));
    let failed_as = remarks.report(report.counts, &mut text, &mut json);
    for mismatch in report.mismatches.iter().take(MISMATCHES_SHOWN) {
        text.push_str(&format!("{mismatch}\n"));
    }
    if differences > MISMATCHES_SHOWN as u64 {
        text.push_str(&format!("… and {} more\n", differences - MISMATCHES_SHOWN as u64));
    }
    let Counts { files, bytes, failed, .. } = report.counts;
    let verdict = match (differences, failed) {
        (0, 0) => "equal".to_owned(),
        (differences, 0) => count(differences, "difference", "differences"),
        (differences, failed) => {
            format!("{}, {failed} NOT COMPARED", count(differences, "difference", "differences"))
        }
    };
    let (read, seconds) = (human(bytes), seconds(ns));
    text.push_str(&format!(
        "{verdict}: {}, {read} compared in {seconds:.2} s, {}/s\n",
        count(files, "file", "files"),
        rate(bytes, ns)
    ));
    json["differences"] = json!(differences);
    json["mismatches"] = report
        .mismatches
        .iter()
        .map(|mismatch| {
            let mut row = json!({ "difference": word(mismatch.difference) });
            crate::path::say(&mut row, "path", &mismatch.path);
            row
        })
        .collect();
    let exit = if failed_as == Exit::Done && differences > 0 { Exit::Found } else { failed_as };
    Ok(Answer::new(text, json).ending(exit, verdict))
}

/// Reads every file of a journal and compares size and checksum.
fn verify_journal(dfs: &Dfs, log: &Path, how: &How) -> Outcome<Answer> {
    let mut records = journal::read(log)?;
    // A file that was put again is what the last record says.
    records.reverse();
    let mut seen = std::collections::BTreeSet::new();
    records.retain(|record| seen.insert(record.path.clone()));
    let (files, bytes) = (records.len() as u64, records.iter().map(|record| record.size_bytes).sum());
    // Guards the paths that differ, with what differs; nothing is asked under it.
    let differing: Mutex<Vec<(&[u8], String)>> = Mutex::default();
    let begun_ns = RealClock.monotonic_ns();
    let stop = interrupt::stop();
    side_by_side(how.threads(), &records, |record| {
        if stop.load(Ordering::Relaxed) {
            return Err(interrupt::failure()).doing(|| format!("verify {}", shown_outside(log)));
        }
        // What cannot be read is no reason to leave the others unread.
        let difference = compare_record(dfs, record).unwrap_or_else(|failure| Some(failure.to_string()));
        if let Some(difference) = difference {
            let mut differing = differing.lock().unwrap_or_else(PoisonError::into_inner);
            differing.push((&record.path, difference));
        }
        Ok(())
    })?;
    let ns = RealClock.monotonic_ns() - begun_ns;
    let mut differing = differing.into_inner().unwrap_or_else(PoisonError::into_inner);
    differing.sort_unstable();
    let line = |(path, difference): &(&[u8], String)| format!("{}: {difference}\n", shown(path));
    let mut text: String = differing.iter().take(MISMATCHES_SHOWN).map(line).collect();
    let verdict = match (differing.len(), files) {
        (0, 0) => "nothing to verify, the journal has no records".to_owned(),
        (0, _) => "all there".to_owned(),
        (wrong, _) => format!("{wrong} WRONG"),
    };
    let seconds = seconds(ns);
    text.push_str(&format!(
        "{verdict}: {files} acknowledged files, {} read in {seconds:.2} s\n",
        human(bytes)
    ));
    let mismatches: Value = differing
        .iter()
        .map(|(path, difference)| {
            let mut row = json!({ "difference": difference });
            crate::path::say(&mut row, "path", path);
            row
        })
        .collect();
    let json = json!({
        "files": files,
        "bytes": bytes,
        "differences": differing.len(),
        "mismatches": mismatches,
        "seconds": seconds,
    });
    Ok(Answer::new(text, json).with_findings((!differing.is_empty()).then_some(verdict)))
}

/// Does `work` on every item in some threads; the first failure.
fn side_by_side<'a, T: Sync>(
    threads: usize,
    items: &'a [T],
    work: impl Fn(&'a T) -> Outcome<()> + Sync,
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
fn compare_record(dfs: &Dfs, record: &Record) -> Outcome<Option<String>> {
    let doing = || format!("read {}", shown(&record.path));
    let file = match dfs.open(&record.path, &OpenOptions::READ) {
        Err(Error::NotFound) => return Ok(Some("missing".to_owned())),
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
        (false, _) => Some("other size".to_owned()),
        (true, false) => Some("other content".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_no_single_target_has_is_told_as_none() {
        assert_eq!(of_others(&[]), None);
        let told = of_others(&[700 << 10, 0, 300 << 10]).unwrap();
        assert!(told.contains("none of the others (3) has more than 700 KiB free"), "{told}");
    }
}
