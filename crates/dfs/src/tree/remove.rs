//! Removing a directory with everything below it.

use super::link::Link;
use super::queue::{self, Queue};
use super::{Counts, OnFile, Options, Tally, side_by_side};
use crate::dir::Dir;
use crate::error::Result;
use crate::layout::inode::FileKind;
use crate::list::{Cookie, Found};
use std::sync::Arc;

const ENTRIES_AT_ONCE: u32 = 512;

/// An entry that is no directory.
struct Job {
    above: Dir,
    link: Arc<Link>,
    /// It may have a name that leads out of the directory.
    is_damaged: bool,
}

/// A directory.
struct Below {
    above: Dir,
    link: Arc<Link>,
}

/// Removes the directory `remote` with everything below it: all that are no directories side by side, then the
/// directories, children first. Counts what was removed; symbolic links are files here.
///
/// # Errors
/// `NotFound`, `NotDirectory`; the first error of any entry, with its path, unless `Options::on_failure` takes it: then
/// all others are removed but the directories above it.
pub fn remove(dir: &Dir, remote: impl AsRef<[u8]>, options: &Options<'_>) -> Result<Counts> {
    let tally = Tally::default();
    let spare = |done: Result<()>, link: &Link| -> Result<bool> {
        let spared = tally.spare(done.at(link), options)?;
        if spared.is_none() {
            link.keep();
        }
        Ok(spared.is_some())
    };
    let mut levels = vec![vec![Below { above: dir.clone(), link: Link::root(remote.as_ref()) }]];
    let produce = |queue: &Queue<Job>| {
        while let Some(level) = levels.last().filter(|level| !level.is_empty()) {
            let mut below = Vec::new();
            for dir in level {
                let listed = offer(queue, dir, &mut below);
                spare(listed, &dir.link)?;
            }
            levels.push(below);
        }
        Ok(())
    };
    queue::run(options, produce, |Job { above, link, is_damaged }| {
        let done = if is_damaged { above.discard(&link.name) } else { above.unlink(&link.name) };
        if spare(done, &link)? {
            tally.add(|tally| &tally.files, 1, options);
        }
        Ok(())
    })?;
    while let Some(level) = levels.pop() {
        side_by_side(options, level.into_iter(), |Below { above, link }| {
            if !link.stays() && spare(above.rmdir(&link.name), &link)? {
                tally.add(|tally| &tally.dirs, 1, options);
            }
            Ok(())
        })?;
    }
    Ok(tally.counts())
}

/// Hands everything in a directory to the threads but its directories, which are appended to `below`.
fn offer(queue: &Queue<Job>, dir: &Below, below: &mut Vec<Below>) -> Result<()> {
    let here = dir.above.open_dir(&dir.link.name)?;
    let mut cookie = Cookie::default();
    let mut found: Vec<Found<FileKind>> = Vec::new();
    // All of them first: who removes entries while they are listed may miss some.
    while !cookie.is_end() {
        found.append(&mut here.list_kinds(&mut cookie, ENTRIES_AT_ONCE)?);
    }
    for (name, kind) in found {
        let link = Link::below(&dir.link, name);
        if kind == Ok(FileKind::Directory) {
            below.push(Below { above: here.clone(), link });
        } else if !queue.push(Job { above: here.clone(), link, is_damaged: kind.is_err() }) {
            break;
        }
    }
    Ok(())
}
