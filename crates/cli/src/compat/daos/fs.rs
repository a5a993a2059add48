//! `daos filesystem`: where new entries of a directory lie, and whether a file system is whole.

use super::super::{Rest, behind, uns};
use super::{ContArg, with, with_opened};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, pairs};
use crate::path::shown_outside;
use crate::{place, size};
use clap::{Args, Subcommand};
use dolmen_client::{ContName, Container, OpenFor, Pool};
use dolmen_codec::wire::PoolAccess;
use dolmen_dfs::{Dfs, Follow, OpenOptions, Opened, tree};
use dolmen_net::client::Link;
use dolmen_types::ObjectClass;
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Show object class and chunk of a file, or of new entries of a directory
    GetAttr(PathArg),
    /// Set object class or chunk of new entries of a directory
    SetAttr(SetAttr),
    /// Let new entries of a directory have the container's class and chunk again
    ResetAttr(PathArg),
    /// The same for the class alone
    ResetOclass(PathArg),
    /// The same for the chunk alone
    ResetChunkSize(PathArg),
    /// Look whether the file system is whole
    Check(Check),
    /// Set the permissions of a file or directory
    Chmod(Chmod),
    /// Copy a tree (not available)
    Copy(Rest),
    /// Count files and directories (not available)
    Scan(Rest),
    /// Make the superblock again (not available)
    FixSb(Rest),
    /// Link the root directory again (not available)
    FixRoot(Rest),
    /// Mend an entry (not available)
    FixEntry(Rest),
    /// Ask a mount (not available)
    Query(Rest),
    /// Let a mount forget something (not available)
    Evict(Rest),
}

#[derive(Args, Debug)]
pub(super) struct Chmod {
    #[command(flatten)]
    at: PathArg,
    /// The permissions, as an octal number such as 0755
    #[arg(long, short, value_name = "MODE", value_parser = octal, required_unless_present = "given")]
    mode: Option<u32>,
    /// The same, as chmod(1) has it
    #[arg(value_name = "MODE", value_parser = octal, hide = true, conflicts_with = "mode")]
    given: Option<u32>,
}

fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(mode),
        _ => Err("give an octal number such as 0755".to_owned()),
    }
}

#[derive(Args, Debug)]
pub(super) struct PathArg {
    #[command(flatten)]
    cont: ContArg,
    /// Path in the container [default: what --path names, else its root]
    #[arg(long, short = 'H', value_name = "PATH")]
    dfs_path: Option<String>,
    /// What --dfs-path begins with outside, and is no part of it inside
    #[arg(long, short = 'I', value_name = "PATH", requires = "dfs_path")]
    dfs_prefix: Option<String>,
}

impl PathArg {
    /// The path in the container.
    fn inside(&self) -> Outcome<PathBuf> {
        let named = self.dfs_path.as_deref();
        let path = match (named, &self.dfs_prefix) {
            (Some(path), Some(prefix)) => Some(path.strip_prefix(prefix.as_str()).unwrap_or(path)),
            (path, _) => path,
        };
        match (path, &self.cont.path) {
            (None, Some(outside)) => Ok(uns::resolve(outside)?.inside),
            (path, _) => Ok(Path::new("/").join(path.unwrap_or("").trim_start_matches('/'))),
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct SetAttr {
    #[command(flatten)]
    at: PathArg,
    /// Object class
    #[arg(long, short, value_name = "CLASS")]
    oclass: Option<String>,
    /// Bytes in a chunk of new files
    #[arg(long, short = 'z', value_name = "SIZE", value_parser = size::daos(dolmen_dfs::CHUNK_BYTES_MIN, dolmen_dfs::CHUNK_BYTES_MAX))]
    chunk_size: Option<u64>,
}

#[derive(Args, Debug)]
pub(super) struct Check {
    #[command(flatten)]
    cont: ContArg,
    /// What to do about objects that nothing names: print, or remove; verify: read all data, too
    #[arg(long, short, value_name = "FLAGS", value_delimiter = ',')]
    flags: Vec<String>,
}

pub(super) fn run(link: &Link, command: &Command) -> Outcome<Answer> {
    let write = |arg: &PathArg, class, chunk| {
        with(link, &arg.cont, PoolAccess::ReadWrite, |cont| {
            set(&mounted(cont, arg, false)?, arg, class, chunk)
        })
    };
    match command {
        Command::GetAttr(arg) => {
            let path = arg.inside()?;
            let doing = || format!("find {}", shown_outside(&path));
            with(link, &arg.cont, PoolAccess::ReadOnly, |cont| {
                get(&mounted(cont, arg, true)?, &path)
                    .map_err(|failure| of_path(failure, &arg.cont, &path))
                    .doing(doing)
            })
        }
        Command::SetAttr(args) => {
            if args.oclass.is_none() && args.chunk_size.is_none() {
                let failure = Failure::new(Exit::Usage, "nothing is to be set");
                return Err(failure.hint("give --oclass or --chunk-size"));
            }
            let class = args.oclass.as_deref().map(class).transpose()?;
            write(&args.at, class, args.chunk_size)
        }
        Command::ResetAttr(arg) => write(arg, Some(ObjectClass::UNKNOWN), Some(0)),
        Command::ResetOclass(arg) => write(arg, Some(ObjectClass::UNKNOWN), None),
        Command::ResetChunkSize(arg) => write(arg, None, Some(0)),
        Command::Check(args) => check(link, args),
        Command::Chmod(args) => chmod(link, args),
        Command::Scan(_) => Err(Failure::absent("daos fs scan", "`daos fs check` counts, too")),
        Command::FixSb(_) | Command::FixRoot(_) | Command::FixEntry(_) => {
            Err(Failure::absent("to mend a part of a file system", "use `daos fs check --flags remove`"))
        }
        Command::Query(_) => Err(Failure::absent(
            "daos fs query",
            "`daos cont query` tells what a container is, and `dolmen fs df` its space",
        )),
        Command::Evict(_) => Err(Failure::absent("daos fs evict", "mount with `dolmen mount --cache off`")),
        Command::Copy(_) => Err(Failure::absent("daos fs copy", "use `dolmen fs put` and `dolmen fs get`")),
    }
}

fn class(name: &str) -> Outcome<ObjectClass> {
    let none = || Failure::new(Exit::Usage, format!("there is no object class {name}"));
    ObjectClass::from_name(name).ok_or_else(none)
}

fn mounted(cont: &Container, arg: &PathArg, read_only: bool) -> Outcome<Dfs> {
    place::mount(cont, &arg.cont.cont, read_only)
}

/// The same failure, with what to look at where there is nothing of that name.
fn of_path(failure: Failure, arg: &ContArg, path: &Path) -> Failure {
    match failure.exit {
        Exit::Missing => {
            let [pool, cont] = arg.words();
            let pool = crate::reached::first().map_or_else(|| pool.to_owned(), |at| format!("{at}/{pool}"));
            let list = behind("dolmen fs ls", &[&pool, cont]);
            Failure::new(Exit::Missing, format!("there is no {} in the container", shown_outside(path)))
                .hint(format!("see `{list}`"))
        }
        _ => failure,
    }
}

fn get(dfs: &Dfs, path: &Path) -> Outcome<Answer> {
    let located = dfs.locate(path.as_os_str().as_bytes(), &OpenOptions::READ, Follow::No)?;
    let oid = located.oid().to_string();
    let own = located.oid().class().to_string();
    let new = match &located.opened {
        Opened::Dir(dir) => dir.for_new_entries(),
        Opened::File(file) => {
            let chunk = file.chunk_bytes();
            let text = format!("OID = {oid}\nObject Class = {own}\nObject Chunk Size = {chunk}\n");
            return Ok(Answer::new(text, json!({ "oid": oid, "oclass": own, "chunk_size": chunk })));
        }
        Opened::Symlink(_) => {
            return Err(Failure::new(Exit::Usage, format!("{} is a symbolic link", shown_outside(path))));
        }
    };
    let (of_dirs, of_files) = (new.dir_class.to_string(), new.file_class.to_string());
    let text = format!(
        "OID = {oid}\nObject Class = {own}\nDirectory Creation Object Class = {of_dirs}\n\
         File Creation Object Class = {of_files}\nFile Creation Chunk Size = {}\n",
        new.chunk_bytes
    );
    let json = json!({
        "object": { "oid": oid, "oclass": own },
        "directory": { "dir_oclass": of_dirs, "file_oclass": of_files, "chunk_size": new.chunk_bytes },
    });
    Ok(Answer::new(text, json))
}

fn set(dfs: &Dfs, arg: &PathArg, class: Option<ObjectClass>, chunk_bytes: Option<u64>) -> Outcome<Answer> {
    let path = arg.inside()?;
    let located = dfs.locate(path.as_os_str().as_bytes(), &OpenOptions::READ, Follow::No)?;
    let Opened::Dir(dir) = &located.opened else {
        let failure = Failure::new(Exit::Usage, format!("{} is no directory", shown_outside(&path)));
        return Err(failure.hint("a file keeps the class and chunk that it was made with"));
    };
    dir.set_placement(class, chunk_bytes)?;
    Ok(Answer::new("", Value::Null))
}

fn chmod(link: &Link, args: &Chmod) -> Outcome<Answer> {
    let path = args.at.inside()?;
    let mode = args.mode.or(args.given).expect("the command line has one of the two");
    with(link, &args.at.cont, PoolAccess::ReadWrite, |cont| {
        let dfs = mounted(cont, &args.at, false)?;
        dfs.chmod(path.as_os_str().as_bytes(), mode)?;
        Ok(Answer::new("", Value::Null))
    })
}

fn check(link: &Link, args: &Check) -> Outcome<Answer> {
    let known = ["print", "remove", "verify"];
    if let Some(flag) = args.flags.iter().find(|flag| !known.contains(&flag.to_ascii_lowercase().as_str())) {
        let what = format!("daos fs check --flags={flag}");
        return Err(Failure::absent(&what, "give print, remove or verify"));
    }
    let has = |name: &str| args.flags.iter().any(|flag| flag.eq_ignore_ascii_case(name));
    let repair = has("remove");
    let access = if repair { PoolAccess::ReadWrite } else { PoolAccess::ReadOnly };
    // Nobody may move anything meanwhile, nor have what nothing names any more open, if that is removed.
    let word = dolmen_env::entropy_u64().doing(|| "draw a random number".to_owned())?;
    let (perm, wanted) = if repair { ('w', OpenFor::Alone(word)) } else { ('r', OpenFor::Any) };
    let open_it = |pool: &Pool, name: &ContName| pool.open_container_for(name, wanted);
    with_opened(link, &args.cont, access, perm, open_it, |cont| {
        let dfs = place::mount(cont, &args.cont.cont, !repair)?;
        let report = dfs.check(repair)?;
        let verified = has("verify").then(|| verify(&dfs)).transpose()?;
        let unread = verified.as_ref().map_or(&[][..], |verified| &verified.unread);
        let wrong = (report.bad_entries.len() + report.bad_links.len()) as u64;
        let leaked = report.leaked.len() as u64;
        let mut text = pairs(&[
            ("directories", report.dirs.to_string()),
            ("files", report.files.to_string()),
            ("symbolic links", report.symlinks.to_string()),
            ("damaged", wrong.to_string()),
            ("named by nothing", leaked.to_string()),
            ("repaired", report.repaired.to_string()),
            ("files read", verified.as_ref().map_or("-".to_owned(), |verified| verified.files.to_string())),
        ]);
        unread.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        let json = json!({
            "dirs": report.dirs,
            "files": report.files,
            "symlinks": report.symlinks,
            "bad_entries": report.bad_entries.len(),
            "bad_links": report.bad_links.len(),
            "orphans": report.orphans,
            "leaked": report.leaked.iter().map(ToString::to_string).collect::<Vec<String>>(),
            "repaired": report.repaired,
            "verified": verified.as_ref().map(|verified| verified.files),
            "unreadable": unread,
        });
        let is_wrong = !report.is_whole() || wrong + leaked > 0 && !report.repaired || !unread.is_empty();
        let count = unread.len();
        let told =
            is_wrong.then(|| format!("{wrong} damaged, {leaked} named by nothing, {count} unreadable"));
        Ok(Answer::new(text, json).with_findings(told))
    })
}

/// What reading all files found.
struct Verified {
    files: usize,
    /// Of each that could not be read to its end, where it is and why.
    unread: Vec<String>,
}

/// Reads every byte of every file, which has the checksum of each compared.
fn verify(dfs: &Dfs) -> Outcome<Verified> {
    // Guards: what could not be read; taken alone.
    let unread = Mutex::new(Vec::new());
    let note = |error: dolmen_dfs::Error| {
        unread.lock().unwrap_or_else(PoisonError::into_inner).push(error.to_string());
    };
    let options = tree::Options { on_failure: Some(&note), ..tree::Options::default() };
    let files = tree::digest(dfs, "/", &options)?.len();
    let mut unread = unread.into_inner().unwrap_or_else(PoisonError::into_inner);
    unread.sort_unstable();
    Ok(Verified { files, unread })
}
