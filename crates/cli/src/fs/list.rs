//! `dolmen fs ls` and `du`.

use super::copy::{MISMATCHES_SHOWN, more};
use super::{ENTRIES_AT_ONCE, Failures, Mounted};
use crate::failure::{Doing, Failure, Outcome, exit_of, failed_line};
use crate::output::{Answer, Table, count, date, hex, human, pairs};
use crate::path::{say, shown, shown_arg, text};
use crate::place::ContArg;
use clap::Args;
use dolmen_dfs::tree::Options;
use dolmen_dfs::{Cookie, Dfs, Dir, FileKind, Found, Stat};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

#[derive(Args, Debug)]
pub(crate) struct Ls {
    #[command(flatten)]
    cont: ContArg,
    /// File or directory
    #[arg(value_name = "PATH", default_value = "/")]
    pub(super) path: OsString,
    /// With mode, owner, size and time
    #[arg(short, long)]
    long: bool,
    /// With everything below it
    #[arg(short = 'R', long)]
    recursive: bool,
    /// As of this snapshot
    #[arg(long, value_name = "SNAP")]
    snapshot: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Du {
    #[command(flatten)]
    cont: ContArg,
    /// File or directory
    #[arg(value_name = "PATH", default_value = "/")]
    pub(super) path: OsString,
    /// Also count bytes that are data, holes excepted; costs a question for each file
    #[arg(long)]
    exact: bool,
    /// As of this snapshot
    #[arg(long, value_name = "SNAP")]
    snapshot: Option<String>,
}

/// A listed entry: its name, what it is if that is shown, and where it points.
struct Line {
    name: Vec<u8>,
    stat: Option<Stat>,
    target: Option<Vec<u8>>,
}

/// A name, and what its entry is; or that it is damaged.
type Looked = Found<(FileKind, Option<Stat>)>;

/// A directory to be listed.
struct Below {
    above: Dir,
    name: Box<[u8]>,
    path: Vec<u8>,
    /// What stands before the names in it.
    shown_as: Vec<u8>,
}

/// What a listing shows, and why it does not show the rest.
#[derive(Default)]
struct Lines {
    lines: Vec<Line>,
    failures: Vec<Failure>,
}

impl Lines {
    fn leave_out(&mut self, path: &[u8], error: dolmen_dfs::Error) {
        let failure = Err::<(), _>(error).doing(|| format!("list {}", shown(path)));
        self.failures.extend(failure.err().map(|failure| failure.about(path)));
    }
}

pub(super) fn ls(args: &Ls, as_json: bool) -> Outcome<Answer> {
    let mounted = Mounted::read(&args.cont, args.snapshot.as_deref())?;
    let with_stat = args.long || as_json;
    let Lines { mut lines, mut failures } =
        lines(&mounted.dfs, args, with_stat).doing(|| format!("list {}", shown_arg(&args.path)))?;
    mounted.close()?;
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    failures.sort_by_key(ToString::to_string);
    let mut text = if args.long { long_text(&lines) } else { short_text(&lines) };
    let mut json: Vec<Value> = lines.iter().filter_map(describe).collect();
    for failure in &failures {
        text.push_str(&failed_line(failure));
        json.push(json!({ "failure": failure.detail() }));
    }
    let exit = exit_of(&failures);
    let wrong = format!("{} could not be listed", count(failures.len() as u64, "entry", "entries"));
    Ok(Answer::new(text, json.into()).ending(exit, wrong))
}

/// Names cost a look at each entry, which tells whether it is damaged; attributes cost a question for its size more.
fn lines(dfs: &Dfs, args: &Ls, with_stat: bool) -> Outcome<Lines> {
    let path = args.path.as_bytes();
    let stat = dfs.stat(path)?;
    let mut found = Lines::default();
    if stat.kind != FileKind::Directory {
        found.lines.push(Line { name: path.to_vec(), stat: Some(dfs.lstat(path)?), target: None });
        return Ok(found);
    }
    // Each by the directory that holds it: paths of deep trees are longer than a path may be.
    let mut pending: Vec<Below> =
        vec![Below { above: (**dfs).clone(), name: path.into(), path: path.to_vec(), shown_as: Vec::new() }];
    while let Some(Below { above, name, path, shown_as }) = pending.pop() {
        let dir = above.open_dir(&name)?;
        let mut cookie = Cookie::default();
        while !cookie.is_end() {
            let entries = match listed(&dir, &mut cookie, with_stat) {
                Err(error) if error.is_damage() => {
                    found.leave_out(&path, error);
                    break;
                }
                other => other?,
            };
            for (entry, looked) in entries {
                let (child, name) = (crate::path::join(&path, &entry), crate::path::join(&shown_as, &entry));
                let looked = looked.and_then(|(kind, stat)| match kind {
                    FileKind::Symlink if args.long => Ok((kind, stat, Some(dir.readlink(&entry)?))),
                    _ => Ok((kind, stat, None)),
                });
                let (kind, stat, target) = match looked {
                    // It hides none of the others.
                    Err(error) if error.is_damage() => {
                        found.leave_out(&child, error);
                        continue;
                    }
                    other => other?,
                };
                if args.recursive && kind == FileKind::Directory {
                    let (above, shown_as) = (dir.clone(), name.clone());
                    pending.push(Below { above, name: entry, path: child, shown_as });
                }
                found.lines.push(Line { name, stat, target });
            }
        }
    }
    Ok(found)
}

/// The next entries: what kind they are of and, if asked for, what they are.
fn listed(dir: &Dir, cookie: &mut Cookie, with_stat: bool) -> dolmen_dfs::Result<Vec<Looked>> {
    if with_stat {
        let entries = dir.list_plus(cookie, ENTRIES_AT_ONCE)?.into_iter();
        Ok(entries.map(|entry| (entry.name, entry.stat.map(|stat| (stat.kind, Some(stat))))).collect())
    } else {
        let entries = dir.list_kinds(cookie, ENTRIES_AT_ONCE)?.into_iter();
        Ok(entries.map(|(name, kind)| (name, kind.map(|kind| (kind, None)))).collect())
    }
}

fn short_text(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{}\n", shown(&line.name))).collect()
}

fn long_text(lines: &[Line]) -> String {
    let mut table = Table::new(&["mode", ">links", ">uid", ">gid", ">bytes", "changed (UTC)", "name"]);
    for Line { name, stat, target } in lines {
        let Some(stat) = stat else { continue };
        let arrow = target.as_ref().map_or(String::new(), |target| format!(" -> {}", shown(target)));
        table.row([
            mode_text(stat),
            stat.links.to_string(),
            stat.uid.to_string(),
            stat.gid.to_string(),
            stat.size_bytes.to_string(),
            date(stat.mtime.s),
            format!("{}{arrow}", shown(name)),
        ]);
    }
    table.text()
}

/// The mode as ls(1) writes it.
fn mode_text(stat: &Stat) -> String {
    let kind = match stat.kind {
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::File => '-',
        FileKind::Pipe => 'p',
        FileKind::Socket => 's',
        FileKind::CharDevice => 'c',
        FileKind::BlockDevice => 'b',
    };
    let mode = stat.permissions;
    let bit = |mask: u32, letter: char| if mode & mask != 0 { letter } else { '-' };
    let run = |execute: u32, special: u32, letter: char| match (mode & execute != 0, mode & special != 0) {
        (true, true) => letter,
        (false, true) => letter.to_ascii_uppercase(),
        (true, false) => 'x',
        (false, false) => '-',
    };
    [
        kind,
        bit(0o400, 'r'),
        bit(0o200, 'w'),
        run(0o100, 0o4000, 's'),
        bit(0o040, 'r'),
        bit(0o020, 'w'),
        run(0o010, 0o2000, 's'),
        bit(0o004, 'r'),
        bit(0o002, 'w'),
        run(0o001, 0o1000, 't'),
    ]
    .iter()
    .collect()
}

fn describe(line: &Line) -> Option<Value> {
    let Line { name, stat, target } = line;
    let stat = stat.as_ref()?;
    let kind = match stat.kind {
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::File => "file",
        FileKind::Pipe => "pipe",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character device",
        FileKind::BlockDevice => "block device",
    };
    // What is no UTF-8 cannot be said in JSON but in hexadecimal.
    let binary = |bytes: &[u8]| core::str::from_utf8(bytes).err().map(|_binary| hex(bytes));
    Some(json!({
        "name": text(name),
        "name_hex": binary(name),
        "kind": kind,
        "mode": format!("{:04o}", stat.permissions),
        "links": stat.links,
        "uid": stat.uid,
        "gid": stat.gid,
        "size_bytes": stat.size_bytes,
        "mtime_ns": i128::from(stat.mtime.s) * 1_000_000_000 + i128::from(stat.mtime.ns),
        "oid": stat.oid.to_string(),
        "target": target.as_deref().map(text),
        "target_hex": target.as_deref().and_then(binary),
    }))
}

pub(super) fn du(args: &Du) -> Outcome<Answer> {
    let mounted = Mounted::read(&args.cont, args.snapshot.as_deref())?;
    let failures = Failures::default();
    let fail = |error| failures.note(error, "count");
    let options = Options { on_failure: Some(&fail), ..Options::default() };
    let usage = dolmen_dfs::tree::du(&mounted.dfs, args.path.as_bytes(), args.exact, &options)
        .doing(|| format!("count {}", shown_arg(&args.path)))?;
    let failures = failures.take();
    mounted.close()?;
    let mut rows = vec![
        ("directories", usage.dirs.to_string()),
        ("files", usage.files.to_string()),
        ("symbolic links", usage.symlinks.to_string()),
        ("size", format!("{} ({} bytes)", human(usage.size_bytes), usage.size_bytes)),
    ];
    let mut json = json!({
        "dirs": usage.dirs,
        "files": usage.files,
        "symlinks": usage.symlinks,
        "size_bytes": usage.size_bytes,
        "failed": usage.failed,
        "failures": failures.iter().map(Failure::detail).collect::<Value>(),
    });
    say(&mut json, "path", args.path.as_bytes());
    if args.exact {
        rows.push(("data", format!("{} ({} bytes)", human(usage.data_bytes), usage.data_bytes)));
        json["data_bytes"] = json!(usage.data_bytes);
    }
    if usage.failed > 0 {
        rows.push(("NOT COUNTED", usage.failed.to_string()));
    }
    let mut text: String = failures.iter().take(MISMATCHES_SHOWN).map(failed_line).collect();
    more(&mut text, usage.failed, "failed");
    text.push_str(&pairs(&rows));
    let wrong = format!("{} could not be counted", count(usage.failed, "entry", "entries"));
    Ok(Answer::new(text, json).ending(exit_of(&failures), wrong))
}
