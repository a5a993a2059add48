//! `dolmen fs`: put, get, ls, cat, rm, mv, du, df, verify.

mod copy;
mod journal;
mod list;
mod stdin;

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::{self, Answer, Reader, count, hex, human, pairs};
use crate::path::{say, shown, shown_arg, word};
use crate::place::{self, ContArg, Session};
use clap::{Args, Subcommand};
use core::sync::atomic::Ordering;
use dolmen_client::Container;
use dolmen_dfs::tree::{self, Options};
use dolmen_dfs::{Dfs, Error, FileKind, OpenOptions, RenameMode};
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Failures kept; further ones are counted.
const FAILURES_MAX: usize = 1000;
/// Entries listed at once.
const ENTRIES_AT_ONCE: u32 = 512;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Copy a file or tree into a container; repeated, it copies only what is not there yet
    Put(copy::Put),
    /// Copy a file or tree out of a container; repeated, it copies only what is not there yet
    Get(copy::Get),
    /// List a directory
    Ls(list::Ls),
    /// Print files; what cannot be read is named, and the others are printed
    Cat(Cat),
    /// Remove files, and trees with -r
    Rm(Rm),
    /// Rename a file or directory, atomically
    Mv(Mv),
    /// Count files and bytes of a tree
    Du(list::Du),
    /// Show the space that the container holds
    Df(ContArg),
    /// Compare a tree outside, or the journal of a put, with what is stored, to the last byte
    Verify(copy::Verify),
}

#[derive(Args, Debug)]
pub(crate) struct Cat {
    #[command(flatten)]
    cont: ContArg,
    /// Files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// As of this snapshot
    #[arg(long, value_name = "SNAP")]
    snapshot: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Rm {
    #[command(flatten)]
    cont: ContArg,
    /// Files, and directories with -r
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Directories with everything below them
    #[arg(short, long)]
    recursive: bool,
    /// Entries at once [default: 8 for each processor]
    #[arg(short, long, value_name = "COUNT", value_parser = crate::size::count::<u16>(1, 1024))]
    jobs: Option<u16>,
}

#[derive(Args, Debug)]
pub(crate) struct Mv {
    #[command(flatten)]
    cont: ContArg,
    /// What to rename
    #[arg(value_name = "OLD")]
    old: OsString,
    /// Its new name; in that directory under the old name if it is a directory
    #[arg(value_name = "NEW")]
    new: OsString,
    /// Fail if the new name exists, instead of replacing it
    #[arg(short, long)]
    no_clobber: bool,
}

/// Why entries of a tree failed: the first of them, from any thread.
#[derive(Default)]
struct Failures {
    /// Guards the failures; taken alone.
    noted: Mutex<Vec<Failure>>,
}

impl Failures {
    fn note(&self, error: Error, doing: &str) {
        let mut failures = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < FAILURES_MAX {
            failures.extend(Err::<(), _>(error).doing(|| doing.to_owned()).err());
        }
    }

    /// Those noted, sorted by what they say.
    fn take(self) -> Vec<Failure> {
        let mut failures = self.noted.into_inner().unwrap_or_else(PoisonError::into_inner);
        failures.sort_by_key(ToString::to_string);
        failures
    }
}

/// A mounted container and all that keeps it so; in the order in which it is taken down.
struct Mounted {
    dfs: Dfs,
    cont: Container,
    session: Session,
}

impl Mounted {
    /// Opens the container to be read, as it is or as it was at a snapshot.
    fn read(arg: &ContArg, snapshot: Option<&str>) -> Outcome<Self> {
        let session = place::open_to_read(&arg.pool)?;
        let cont = session.container(&arg.cont)?;
        let view = place::view(&cont, arg, snapshot)?;
        let dfs = session.files(&view, &arg.cont, true)?;
        Ok(Self { dfs, cont, session })
    }

    /// Opens the container to be changed.
    fn open(arg: &ContArg) -> Outcome<Self> {
        Self::on(place::open(&arg.pool)?, arg)
    }

    fn on(session: Session, arg: &ContArg) -> Outcome<Self> {
        let cont = session.container(&arg.cont)?;
        let dfs = session.files(&cont, &arg.cont, false)?;
        Ok(Self { dfs, cont, session })
    }

    /// Records what waits, and closes the pool.
    fn close(self) -> Outcome<()> {
        let Self { dfs, cont, session } = self;
        if !dfs.is_read_only() {
            match dfs.sync().doing(|| "record times of files".to_owned()) {
                // What is done is done: a time that a full pool has no room for stays as it was, as in a crash.
                Err(failure) if failure.exit == Exit::Full => {}
                other => other?,
            }
        }
        drop(dfs);
        drop(cont);
        session.close()
    }
}

/// Refuses an empty path, as an unset variable of a shell leaves it.
fn refuse_empty(command: &Command) -> Outcome<()> {
    let paths: Vec<&OsString> = match command {
        Command::Put(copy::Put { path, .. })
        | Command::Get(copy::Get { path, .. })
        | Command::Ls(list::Ls { path, .. })
        | Command::Du(list::Du { path, .. }) => vec![path],
        Command::Cat(Cat { paths, .. }) | Command::Rm(Rm { paths, .. }) => paths.iter().collect(),
        Command::Mv(Mv { old, new, .. }) => vec![old, new],
        Command::Verify(copy::Verify { path, .. }) => path.iter().collect(),
        Command::Df(_) => Vec::new(),
    };
    if paths.into_iter().any(|path| path.is_empty()) {
        return Err(Failure::new(Exit::Usage, "a path is empty").hint("the root of a container is /"));
    }
    Ok(())
}

pub(crate) fn run(command: &Command, as_json: bool) -> Outcome<Answer> {
    refuse_empty(command)?;
    match command {
        Command::Put(args) => copy::put(args),
        Command::Get(args) => copy::get(args),
        Command::Ls(args) => list::ls(args, as_json),
        Command::Cat(args) => cat(args, as_json),
        Command::Rm(args) => rm(args),
        Command::Mv(args) => mv(args),
        Command::Du(args) => list::du(args),
        Command::Df(arg) => df(arg),
        Command::Verify(args) => copy::verify(args),
    }
}

fn cat(args: &Cat, as_json: bool) -> Outcome<Answer> {
    let mounted = Mounted::read(&args.cont, args.snapshot.as_deref())?;
    let (mut files, mut failures) = (Vec::new(), Vec::new());
    for path in &args.paths {
        let mut whole = Vec::new();
        let mut take = |block: &[u8]| {
            if as_json {
                whole.extend_from_slice(block);
                return Ok(Reader::There);
            }
            output::offer(block)
        };
        match read_whole(&mounted.dfs, (&args.cont, path), &mut take)? {
            Ok(Reader::There) => files.push(content(path.as_bytes(), whole)),
            Ok(Reader::Gone) => break,
            Err(failure) => {
                let failed = Err::<(), _>(failure).doing(|| format!("read {}", shown_arg(path)));
                let failure = failed.map_err(|failure| failure.about(path.as_bytes()));
                if args.paths.len() == 1 {
                    failure?;
                } else if let Err(failure) = failure {
                    if !as_json {
                        output::complain(&failure);
                    }
                    files.push(json!({ "failure": failure.detail() }));
                    failures.push(failure);
                }
            }
        }
    }
    mounted.close()?;
    let exit = failures.first().map_or(Exit::Done, |failure| failure.exit);
    let wrong = format!("{} not read", count(failures.len() as u64, "file", "files"));
    Ok(Answer::new(String::new(), json!(files)).ending(exit, wrong))
}

/// Reads a file, block by block, as long as somebody takes them. Outside, why it ends the command; inside, why this file could not be read.
fn read_whole(
    dfs: &Dfs,
    (arg, path): (&ContArg, &OsStr),
    take: &mut dyn FnMut(&[u8]) -> Outcome<Reader>,
) -> Outcome<Outcome<Reader>> {
    let file = match dfs.open(path.as_bytes(), &OpenOptions::READ) {
        Err(Error::IsDirectory) => {
            let failure = Failure::new(Exit::Usage, "it is a directory");
            let hint = format!("see `dolmen fs ls {} {}`", arg.words(), word(Path::new(path)));
            return Ok(Err(failure.hint(hint)));
        }
        Err(error) => return Ok(Err(error.into())),
        Ok(file) => file,
    };
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    loop {
        let read = match file.read_at(at, &mut block) {
            Err(error) => return Ok(Err(error.into())),
            Ok(read) => read,
        };
        at += read as u64;
        let reader = take(&block[..read])?;
        if read < block.len() || reader == Reader::Gone {
            return Ok(Ok(reader));
        }
    }
}

/// A file's content as JSON: text if it is UTF-8, else hexadecimal.
fn content(path: &[u8], bytes: Vec<u8>) -> Value {
    let mut file = json!({ "size_bytes": bytes.len() });
    say(&mut file, "path", path);
    match String::from_utf8(bytes) {
        Ok(text) => file["text"] = json!(text),
        Err(binary) => file["hex"] = json!(hex(binary.as_bytes())),
    }
    file
}

fn rm(args: &Rm) -> Outcome<Answer> {
    let stop = interrupt::stop();
    let mounted = Mounted::open(&args.cont)?;
    let mut done = Removed::default();
    for path in &args.paths {
        let ended = if stop.load(Ordering::Relaxed) {
            Err(interrupt::failure())
        } else {
            remove(&mounted.dfs, path.as_bytes(), args, &mut done)
        };
        if let Err(failure) = ended.doing(|| format!("remove {}", shown_arg(path))) {
            if failure.exit.is_signal() {
                // Ignored: that it was interrupted says more.
                let _closed = mounted.close();
                return Err(failure);
            }
            done.failed += 1;
            done.failures.push(failure.about(path.as_bytes()));
        }
    }
    mounted.close()?;
    let Removed { removed, failed, mut failures } = done;
    let whole = args.paths.len() == 1 && failed == 1;
    if let Some(failure) = failures.pop_if(|_failure| whole) {
        return Err(failure);
    }
    failures.sort_by_key(ToString::to_string);
    let shown = failures.iter().take(copy::MISMATCHES_SHOWN);
    let mut text: String = shown.map(|failure| format!("FAILED {failure}\n")).collect();
    copy::more(&mut text, failed, "failed");
    text.push_str(&format!("{} removed", count(removed, "entry", "entries")));
    let details: Value = failures.iter().map(Failure::detail).collect();
    let json = json!({ "removed": removed, "failed": failed, "failures": details });
    let exit = failures.first().map_or(Exit::Done, |failure| failure.exit);
    Ok(Answer::new(text, json).ending(exit, format!("{} not removed", count(failed, "entry", "entries"))))
}

/// What was removed, and what was not.
#[derive(Default)]
struct Removed {
    removed: u64,
    failed: u64,
    /// The first of those that failed in each tree.
    failures: Vec<Failure>,
}

/// Removes what has this name, and never what a symbolic link of this name leads to.
fn remove(dfs: &Dfs, path: &[u8], args: &Rm, done: &mut Removed) -> Outcome<()> {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    let (name, has_slash) = (&path[..end], end < path.len());
    match name.rsplit(|&byte| byte == b'/').next().unwrap_or_default() {
        b"" if has_slash => {
            let failure = Failure::new(Exit::Refused, "it is the root of the container");
            return Err(failure.hint("name what is in it, or destroy the container"));
        }
        b"." | b".." => {
            let failure = Failure::new(Exit::Refused, "`.` and `..` are not removed");
            return Err(failure.hint("name the directory"));
        }
        _ => {}
    }
    match dfs.lstat(name).map(|stat| stat.kind) {
        Ok(FileKind::Directory) if args.recursive => remove_tree(dfs, name, args, done),
        Ok(FileKind::Directory) => {
            let failure = Failure::new(Exit::Usage, "it is a directory");
            Err(failure.hint("add -r to remove it with everything below it"))
        }
        Err(error) if error.is_damage() && !args.recursive => {
            let failure: Failure = error.into();
            Err(failure.hint("it may be a directory: add -r to remove it with everything below it"))
        }
        Err(error) if !error.is_damage() => Err(error.into()),
        Ok(_) if has_slash => Err(Error::NotDirectory.into()),
        _ => {
            dfs.unlink(name)?;
            done.removed += 1;
            Ok(())
        }
    }
}

/// Removes a directory with everything below it.
fn remove_tree(dfs: &Dfs, root: &[u8], args: &Rm, done: &mut Removed) -> Outcome<()> {
    let failures = Failures::default();
    let fail = |error: Error| failures.note(error, "remove");
    let options = Options {
        threads: copy::threads(args.jobs),
        on_failure: Some(&fail),
        stop: Some(interrupt::stop()),
        ..Options::default()
    };
    let counts = tree::remove(dfs, root, &options);
    done.failures.append(&mut failures.take());
    let counts = counts?;
    done.removed += counts.files + counts.dirs;
    done.failed += counts.failed;
    Ok(())
}

fn mv(args: &Mv) -> Outcome<Answer> {
    let mounted = Mounted::open(&args.cont)?;
    let dfs = &mounted.dfs;
    let doing = || format!("rename {} to {}", shown_arg(&args.old), shown_arg(&args.new));
    let (old, new) = (args.old.as_bytes(), args.new.as_bytes());
    let into_dir = dfs.stat(new).is_ok_and(|stat| stat.kind == FileKind::Directory);
    let new = if into_dir { crate::path::join(new, last_name(old)) } else { new.to_vec() };
    if !args.no_clobber && is_other_name(dfs, old, &new).doing(doing)? {
        // A rename of one name of a file to another one changes nothing, and who moves wants the old name gone.
        dfs.unlink(old).doing(doing)?;
        mounted.close()?;
        return Ok(moved(old, &new));
    }
    let mode = if args.no_clobber { RenameMode::NoReplace } else { RenameMode::Replace };
    match dfs.rename(old, dfs, &new, mode) {
        Err(Error::NotFound) => {
            let is_old = matches!(dfs.lstat(old), Err(Error::NotFound));
            let missing =
                if is_old { shown_arg(&args.old) } else { format!("the directory of {}", shown(&new)) };
            return Err(Failure::new(Exit::Missing, format!("{missing} does not exist"))).doing(doing);
        }
        Err(Error::NotDirectory)
            if matches!(dfs.lstat(&new), Ok(stat) if stat.kind != FileKind::Directory)
                && matches!(dfs.lstat(old), Ok(stat) if stat.kind == FileKind::Directory) =>
        {
            let why = format!("a directory does not replace {}, which is none", shown(&new));
            return Err(Failure::new(Exit::Taken, why).hint("remove it first, or choose another name"))
                .doing(doing);
        }
        other => other.doing(doing)?,
    }
    mounted.close()?;
    Ok(moved(old, &new))
}

fn moved(old: &[u8], new: &[u8]) -> Answer {
    let mut names = json!({});
    say(&mut names, "old", old);
    say(&mut names, "new", new);
    Answer::new(String::new(), names)
}

/// Whether both are names of one file, and not the same name.
fn is_other_name(dfs: &Dfs, old: &[u8], new: &[u8]) -> dolmen_dfs::Result<bool> {
    let (Ok(source), Ok(there)) = (dfs.lstat(old), dfs.lstat(new)) else { return Ok(false) };
    if source.kind == FileKind::Directory || source.oid != there.oid || old.ends_with(b"/") {
        return Ok(false);
    }
    let ((old_dir, old_name), (new_dir, new_name)) = (split(old), split(new));
    Ok(old_name != new_name || dfs.stat(old_dir)?.oid != dfs.stat(new_dir)?.oid)
}

/// The directory of a path, and the name in it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at.max(1)], &path[at + 1..]),
        None => (b"/", path),
    }
}

/// The last name in a path.
fn last_name(path: &[u8]) -> &[u8] {
    path.split(|&byte| byte == b'/').rfind(|part| !part.is_empty()).unwrap_or(&[])
}

fn df(arg: &ContArg) -> Outcome<Answer> {
    let mounted = Mounted::read(arg, None)?;
    let doing = || format!("count the space of {}", arg.cont);
    let statfs = mounted.dfs.statfs().doing(doing)?;
    mounted.close()?;
    let text = pairs(&[
        ("used by the container", human(statfs.used_bytes)),
        ("values, old versions included", human(statfs.value_bytes)),
        ("used in the pool, or of the limit", human(statfs.taken_bytes)),
        ("free in the pool", human(statfs.free_bytes)),
        ("pool", human(statfs.total_bytes)),
    ]);
    let json = json!({
        "used_bytes": statfs.used_bytes,
        "value_bytes": statfs.value_bytes,
        "versions": statfs.versions,
        "taken_bytes": statfs.taken_bytes,
        "free_bytes": statfs.free_bytes,
        "total_bytes": statfs.total_bytes,
    });
    Ok(Answer::new(text, json))
}
