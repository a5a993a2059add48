//! Removing a directory with everything below it.

use super::queue::{self, Queue};
use super::{Counts, OnFile, Options, Remote, Tally, join, side_by_side, unfinished};
use crate::dir::Dir;
use crate::error::Result;
use crate::layout::inode::FileKind;
use crate::list::{Cookie, Found};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

const ENTRIES_AT_ONCE: u32 = 512;

/// An entry that is no directory.
struct Job {
    dir: Dir,
    name: Box<[u8]>,
    path: Remote,
    /// It may have a name that leads out of the directory.
    is_damaged: bool,
}

/// A directory, by the one that holds it: paths of deep trees are longer than a path may be.
struct Below {
    above: Dir,
    /// Of the directory that the caller has named, its path.
    name: Box<[u8]>,
    path: Remote,
}

/// Removes the directory `remote` with everything below it: all that are no directories side by side, then the
/// directories, children first. Counts what was removed; symbolic links are files here.
///
/// # Errors
/// `NotFound`, `NotDirectory`; the first error of any entry, with its path, unless `Options::on_failure` takes it: then
/// all others are removed but the directories above it.
pub fn remove(dir: &Dir, remote: impl AsRef<[u8]>, options: &Options<'_>) -> Result<Counts> {
    let root = remote.as_ref();
    let tally = Tally::default();
    // Guards the directories that cannot be empty; taken alone.
    let kept: Mutex<HashSet<Remote>> = Mutex::default();
    let spare = |done: Result<()>, path: &[u8]| -> Result<bool> {
        let spared = tally.spare(done.on(path), options)?;
        if spared.is_none() {
            keep_above(&mut kept.lock().unwrap_or_else(PoisonError::into_inner), root, path);
        }
        Ok(spared.is_some())
    };
    let mut levels = vec![vec![Below { above: dir.clone(), name: root.into(), path: root.to_vec() }]];
    let produce = |queue: &Queue<Job>| {
        while let Some(level) = levels.last().filter(|level| !level.is_empty()) {
            let mut below = Vec::new();
            for dir in level {
                let listed = offer(queue, dir, &mut below);
                spare(listed, &dir.path)?;
            }
            levels.push(below);
        }
        Ok(())
    };
    queue::run(options, produce, |job: Job| {
        let done = if job.is_damaged { job.dir.discard(&job.name) } else { job.dir.unlink(&job.name) };
        if spare(done, &job.path)? {
            tally.add(|tally| &tally.files, 1, options);
        }
        Ok(())
    })?;
    while let Some(level) = levels.pop() {
        side_by_side(options, level.into_iter(), |Below { above, name, path }| {
            let is_kept = kept.lock().unwrap_or_else(PoisonError::into_inner).contains(&path);
            if !is_kept && spare(above.rmdir(&name), &path)? {
                tally.add(|tally| &tally.dirs, 1, options);
            }
            Ok(())
        })?;
    }
    Ok(tally.counts())
}

/// Hands everything in a directory to the threads but its directories, which are appended to `below`.
fn offer(queue: &Queue<Job>, dir: &Below, below: &mut Vec<Below>) -> Result<()> {
    let here = dir.above.open_dir(&dir.name)?;
    let mut cookie = Cookie::default();
    let mut found: Vec<Found<FileKind>> = Vec::new();
    // All of them first: who removes entries while they are listed may miss some.
    while !cookie.is_end() {
        found.append(&mut here.list_kinds(&mut cookie, ENTRIES_AT_ONCE)?);
    }
    for (name, kind) in found {
        let path = join(&dir.path, &name);
        if kind == Ok(FileKind::Directory) {
            below.push(Below { above: here.clone(), name, path });
        } else if !queue.push(Job { dir: here.clone(), name, path, is_damaged: kind.is_err() }) {
            break;
        }
    }
    Ok(())
}

/// Notes the directories from `root` down to `path`, itself included: it stays.
fn keep_above(kept: &mut HashSet<Remote>, root: &[u8], path: &[u8]) {
    let mut path = path;
    while path.len() >= root.len() && kept.insert(path.to_vec()) {
        let parent = unfinished::parent(path);
        path = parent.strip_suffix(b"/").unwrap_or(parent);
    }
}
