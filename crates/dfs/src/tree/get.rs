//! From the container into a directory tree outside.

use super::local::{self, OnPath};
use super::queue::{self, Queue};
use super::{
    BLOCK_BYTES, Counts, OnFile, Options, Remote, Skipped, Tally, join, or_end, unfinished, xattrs_kept,
};
use crate::attr::Stat;
use crate::dir::{Dir, OpenOptions};
use crate::error::{Error, Result};
use crate::layout::inode::FileKind;
use crate::list::Cookie;
use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_types::Oid;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Zeros in runs of this length become holes: the block of most file systems.
const HOLE_BYTES: usize = 4096;
const ENTRIES_AT_ONCE: u32 = 512;
/// Attempts to give a link its name: another get clears a directory once.
const REPLACE_REPEATS_MAX: u32 = 64;

struct Job {
    remote: Remote,
    stat: Stat,
    path: PathBuf,
    /// It was named by the caller: there a symbolic link to a directory is followed.
    is_root: bool,
}

/// What can only be done when all files are there.
#[derive(Default)]
struct Later {
    /// First names of files with several.
    first_names: HashMap<Oid, PathBuf>,
    links: Vec<Link>,
    /// Parents first.
    dirs: Vec<(Remote, Stat, PathBuf)>,
}

/// A further name of a file.
struct Link {
    first: PathBuf,
    other: PathBuf,
    remote: Remote,
}

struct Get<'a> {
    dir: &'a Dir,
    options: &'a Options<'a>,
    tally: Tally,
    /// Guards the files outside with several names that a stored file was found to be; taken alone.
    claimed: Mutex<HashSet<(u64, u64)>>,
    /// Guards why first names of files with several were not got; taken alone.
    failed: Mutex<HashMap<PathBuf, Error>>,
    /// Numbers of files begun.
    begun: AtomicU64,
}

/// Gets the file, symbolic link or directory tree `remote` to `local`, which is merged into if both are
/// directories; files of the same name are overwritten.
///
/// # Errors
/// The first error of any entry, with its path, unless `Options::on_failure` takes it; what was got until then
/// stays. `Excluded` where an excluded directory is in the way.
pub fn get(dir: &Dir, remote: impl AsRef<[u8]>, local: &Path, options: &Options<'_>) -> Result<Counts> {
    let remote = remote.as_ref();
    let stat = dir.lstat(remote).on(remote)?;
    let is_dir = stat.kind == FileKind::Directory;
    let options = &options.for_root(is_dir);
    let get = Get {
        dir,
        options,
        tally: Tally::of_reads(),
        claimed: Mutex::default(),
        failed: Mutex::default(),
        begun: AtomicU64::new(0),
    };
    if is_dir {
        get.make_dir(local, true)?;
    } else {
        get.clear(local.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    }
    let mut later = Later::default();
    let produce = |queue: &Queue<Job>| {
        get.walk(
            queue,
            &mut later,
            Job { remote: remote.to_vec(), stat, path: local.to_owned(), is_root: true },
        )
    };
    queue::run(options, produce, |job: Job| get.one(&job))?;
    for link in &later.links {
        get.spare(get.link(link).on(&link.remote))?;
    }
    for (remote, stat, path) in later.dirs.iter().rev() {
        get.spare(get.finish(remote, stat, (path, path)).on(remote))?;
    }
    Ok(get.tally.counts())
}

impl Get<'_> {
    fn spare(&self, done: Result<()>) -> Result<()> {
        self.tally.spare(done, self.options).map(|_| ())
    }

    fn walk(&self, queue: &Queue<Job>, later: &mut Later, job: Job) -> Result<()> {
        let mut pending = vec![job];
        while let Some(job) = pending.pop() {
            match job.stat.kind {
                FileKind::Directory => {
                    let made = self.make_dir(&job.path, job.is_root);
                    if self.tally.spare(made, self.options)?.is_none() {
                        continue;
                    }
                    self.tally.add(|tally| &tally.dirs, 1, self.options);
                    self.spare(self.children(&job, &mut pending).on(&job.remote))?;
                    later.dirs.push((job.remote, job.stat, job.path));
                }
                FileKind::Symlink => self.spare(self.symlink(&job).on(&job.remote))?,
                FileKind::File => {
                    if let Some(job) = later.first_or_link(job)
                        && !queue.push(job)
                    {
                        return Ok(());
                    }
                }
                special => self.tally.skip(&job.path, super::special_kind(special), self.options),
            }
        }
        Ok(())
    }

    fn make_dir(&self, path: &Path, follow: bool) -> Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let there = if follow { fs::metadata(path) } else { fs::symlink_metadata(path) }.at(path)?;
                let is_refused = self.options.is_refused.is_some_and(|is_refused| is_refused(path));
                if is_refused || self.options.is_excluded(&there) {
                    return Err(Error::Excluded { path: path.to_owned() });
                }
                refuse(path, &there, FileKind::Directory)?;
                self.clear(path)
            }
            other => other.at(path),
        }
    }

    /// Removes from a directory what gets that are dead have left there.
    fn clear(&self, dir: &Path) -> Result<()> {
        let names = match fs::read_dir(dir) {
            // Who may only write has to leave it; what is wrong otherwise is said of what is written.
            Err(_) => return Ok(()),
            Ok(names) => names,
        };
        for entry in names {
            let path = entry.at(dir)?.path();
            if unfinished::is_named(&path) && local::is_abandoned(&path) {
                // Ignored: who may not remove it leaves it.
                let _removed = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    fn children(&self, job: &Job, pending: &mut Vec<Job>) -> Result<()> {
        let dir = self.dir.open_dir(&job.remote)?;
        let mut cookie = Cookie::default();
        while !cookie.is_end() {
            for entry in dir.list_plus(&mut cookie, ENTRIES_AT_ONCE)? {
                let remote = join(&job.remote, &entry.name);
                // What is damaged need not have a name that stays in this directory.
                let Some(stat) = self.tally.spare(entry.stat.on(&remote), self.options)? else { continue };
                let path = job.path.join(OsStr::from_bytes(&entry.name));
                if unfinished::is_named(&path) {
                    self.tally.skip(&path, Skipped::Unfinished, self.options);
                    continue;
                }
                pending.push(Job { remote, stat, path, is_root: false });
            }
        }
        Ok(())
    }

    fn symlink(&self, job: &Job) -> Result<()> {
        let target = self.dir.readlink(&job.remote)?;
        let target = OsStr::from_bytes(&target);
        match symlink(target, &job.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if fs::read_link(&job.path).ok().as_deref() != Some(Path::new(target)) {
                    refuse(&job.path, &fs::symlink_metadata(&job.path).at(&job.path)?, FileKind::Symlink)?;
                    self.replace(&job.path, |unfinished| symlink(target, unfinished))?;
                }
            }
            other => other.at(&job.path)?,
        }
        self.set_xattrs(&job.remote, (&job.path, &job.path), 0o7777)?;
        let there = fs::symlink_metadata(&job.path).at(&job.path)?;
        if self.options.owner && (there.uid(), there.gid()) != (job.stat.uid, job.stat.gid) {
            lchown(&job.path, Some(job.stat.uid), Some(job.stat.gid)).at(&job.path)?;
        }
        if local::mtime(&there) != job.stat.mtime {
            local::set_mtime(&job.path, job.stat.mtime)?;
        }
        self.tally.add(|tally| &tally.symlinks, 1, self.options);
        Ok(())
    }

    fn one(&self, job: &Job) -> Result<()> {
        let got = self.file(job);
        if let (Err(error), true) = (&got, job.stat.links > 1) {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.insert(job.path.clone(), error.clone());
        }
        self.spare(got.on(&job.remote))
    }

    fn file(&self, job: &Job) -> Result<()> {
        if self.options.resume && self.is_there(job) {
            self.finish(&job.remote, &job.stat, (&job.path, &job.path))?;
            self.tally.add(|tally| &tally.resumed, 1, self.options);
            return Ok(());
        }
        if let Ok(there) = fs::symlink_metadata(&job.path) {
            refuse(&job.path, &there, FileKind::File)?;
        }
        let (unfinished, target) = self.begin(&job.path)?;
        let got = self.copy(job, &target).and_then(|()| {
            self.finish(&job.remote, &job.stat, (&unfinished, &job.path))?;
            // A symbolic link or foreign file in the way is replaced, not written through.
            fs::rename(&unfinished, &job.path).at(&job.path)
        });
        if got.is_err() {
            // Ignored: the first error is the one to tell; the name says what is left behind.
            let _removed = fs::remove_file(&unfinished);
        }
        got?;
        self.tally.add(|tally| &tally.files, 1, self.options);
        Ok(())
    }

    /// A new name beside the final one, which only what is complete gets.
    fn beside(&self, path: &Path) -> PathBuf {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        path.with_file_name(unfinished::name(std::process::id().into(), number))
    }

    /// Makes an entry under a name of its own and gives it the name `path`, in place of what has it, at once.
    fn replace(&self, path: &Path, make: impl Fn(&Path) -> std::io::Result<()>) -> Result<()> {
        for _ in 0..REPLACE_REPEATS_MAX {
            let unfinished = self.beside(path);
            match make(&unfinished) {
                // Left by an earlier process of this number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.at(path)?,
            }
            match fs::rename(&unfinished, path) {
                // Another get took it for abandoned.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    // Ignored: the first error is the one to tell; the name says what is left behind.
                    let _removed = fs::remove_file(&unfinished);
                    return Err(error).at(path);
                }
                Ok(()) => return Ok(()),
            }
        }
        Err(Error::Contended)
    }

    /// A file of its own beside the final name. It is locked while it is open, and for its owner alone.
    fn begin(&self, path: &Path) -> Result<(PathBuf, fs::File)> {
        loop {
            let unfinished = self.beside(path);
            match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished) {
                // Left by an earlier process of this number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                other => {
                    let file = other.at(path)?;
                    // Whoever has the lock takes it for abandoned, and removes it.
                    if local::lock(&file) {
                        return Ok((unfinished, file));
                    }
                }
            }
        }
    }

    fn copy(&self, job: &Job, target: &fs::File) -> Result<()> {
        let source = self.dir.open(&job.remote, &OpenOptions { no_follow: true, ..OpenOptions::READ })?;
        let room = usize::try_from(job.stat.size_bytes).unwrap_or(BLOCK_BYTES).clamp(1, BLOCK_BYTES);
        let mut block = vec![0; room];
        // Below `data_until` there is no hole.
        let (mut at, mut data_until, end) = (0, 0, job.stat.size_bytes);
        loop {
            self.options.check_stop()?;
            let read = source.read_at(at, &mut block)?;
            write_data(target, at, &block[..read]).at(&job.path)?;
            at += read as u64;
            // Zeros may be a hole, which is not read to its end.
            if at >= data_until && at < end && block[..read].iter().all(|&byte| byte == 0) {
                at = or_end(source.seek_data(at), end)?.max(at);
                data_until = if at < end { or_end(source.seek_hole(at), end)? } else { at };
            }
            self.tally.add(|tally| &tally.bytes, read as u64, self.options);
            // As much as there was when it was listed needs no further read to be complete.
            if read < block.len() || at >= job.stat.size_bytes {
                break;
            }
        }
        target.set_len(at).at(&job.path)
    }

    /// Sets everything but contents, where it is not so already; the time last.
    fn finish(&self, remote: &[u8], stat: &Stat, (path, named): (&Path, &Path)) -> Result<()> {
        let mut there = fs::metadata(path).at(path)?;
        if self.options.owner && (there.uid(), there.gid()) != (stat.uid, stat.gid) {
            chown(path, Some(stat.uid), Some(stat.gid)).at(path)?;
            there = fs::metadata(path).at(path)?;
        }
        let kept = self.options.mode_kept(stat.kind, (stat.uid, stat.gid), (there.uid(), there.gid()));
        self.set_xattrs(remote, (path, named), kept)?;
        // An access control list among the attributes changes the mode.
        let there = fs::metadata(path).at(path)?;
        if there.mode() & 0o7777 != stat.permissions & kept {
            fs::set_permissions(path, fs::Permissions::from_mode(stat.permissions & kept)).at(path)?;
        }
        if local::mtime(&there) != stat.mtime {
            local::set_mtime(path, stat.mtime)?;
        }
        Ok(())
    }

    /// Makes the extended attributes those stored, as far as the mode bits `kept` give a program the rights of its owner;
    /// what may not be set or removed is counted, as of the file that is `named` so in the end.
    fn set_xattrs(&self, remote: &[u8], (path, named): (&Path, &Path), kept: u32) -> Result<()> {
        let (stored, there) = (xattrs_kept(self.dir.xattrs(remote)?, kept), local::xattrs(path)?);
        let refused = |name: &[u8], refused: Option<i32>| {
            if let Some(errno) = refused {
                self.tally.skip(named, Skipped::Attribute { name: name.into(), errno }, self.options);
            }
        };
        for (name, _) in there.iter().filter(|(name, _)| stored.iter().all(|(kept, _)| kept != name)) {
            refused(name, local::remove_xattr(path, name)?);
        }
        for (name, value) in stored.iter().filter(|xattr| !there.contains(xattr)) {
            refused(name, local::set_xattr(path, name, value)?);
        }
        Ok(())
    }

    /// Whether the file's contents are there.
    fn is_there(&self, job: &Job) -> bool {
        fs::symlink_metadata(&job.path).is_ok_and(|there| {
            let is_same = there.is_file()
                && there.len() == job.stat.size_bytes
                && local::mtime(&there) == job.stat.mtime;
            is_same && self.is_its_own(job, &there)
        })
    }

    /// Whether no other stored file is the one that is there.
    fn is_its_own(&self, job: &Job, there: &fs::Metadata) -> bool {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        there.nlink() < 2 || job.stat.links > 1 && claimed.insert((there.dev(), there.ino()))
    }

    /// Makes a further name, if the first one has its file: what has the name otherwise stays.
    fn link(&self, link: &Link) -> Result<()> {
        let Link { first, other, .. } = link;
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).get(first).cloned();
        if let Some(error) = failed {
            return Err(error);
        }
        let id = |meta: &fs::Metadata| (meta.dev(), meta.ino());
        let file = id(&fs::symlink_metadata(first).at(first)?);
        let there = fs::symlink_metadata(other).ok();
        if let Some(there) = &there {
            refuse(other, there, FileKind::File)?;
        }
        if there.as_ref().map(id) != Some(file) {
            self.replace(other, |unfinished| fs::hard_link(first, unfinished))?;
        }
        self.tally.add(|tally| &tally.links, 1, self.options);
        Ok(())
    }
}

/// Refuses to replace a directory by something else, something else by a directory, and what is no file at all.
fn refuse(path: &Path, there: &fs::Metadata, wanted: FileKind) -> Result<()> {
    let Some(there) = super::kind_copied(there.mode()) else {
        return Err(Error::Special { path: path.to_owned() });
    };
    if (there == FileKind::Directory) != (wanted == FileKind::Directory) {
        return Err(Error::OtherKind { there, wanted }).on(path.as_os_str().as_bytes());
    }
    Ok(())
}

/// Writes what is not zeros.
fn write_data(target: &fs::File, at: u64, data: &[u8]) -> std::io::Result<()> {
    let is_zero = |block: &&[u8]| block.iter().all(|&byte| byte == 0);
    let mut start = 0;
    while start < data.len() {
        let blocks = || data[start..].chunks(HOLE_BYTES);
        let zeros: usize = blocks().take_while(is_zero).map(<[u8]>::len).sum();
        start += zeros;
        let len: usize =
            data[start..].chunks(HOLE_BYTES).take_while(|block| !is_zero(block)).map(<[u8]>::len).sum();
        target.write_all_at(&data[start..start + len], at + start as u64)?;
        start += len;
    }
    Ok(())
}

impl Later {
    fn first_or_link(&mut self, job: Job) -> Option<Job> {
        if job.stat.links < 2 {
            return Some(job);
        }
        if let Some(first) = self.first_names.get(&job.stat.oid) {
            self.links.push(Link { first: first.clone(), other: job.path, remote: job.remote });
            return None;
        }
        self.first_names.insert(job.stat.oid, job.path.clone());
        Some(job)
    }
}
