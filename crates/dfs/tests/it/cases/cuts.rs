//! Power cuts anywhere in random scripts: of files with and without names, open and closed, contents, attributes, links and
//! moves, in a mount that is alone and in a shared one. After each cut all that was acknowledged is there, the operation that
//! was cut is done or not, and nothing is left behind.

use super::common::{START_NS, remove_all};
use super::crash::{Tree, build, mode, rebuild, tree_of, tree_of_model};
use super::model::{Body, Inode, Model, Outcome, Rename, SetXattr};
use dolmen_dfs::{Allocate, Dfs, Error, File, Follow, OpenOptions, SetAttrs, XattrCond};
use dolmen_env::sim::{CrashPlan, Fault, SimDrive, SimPower};
use dolmen_env::{Clock, Rng, SimClock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Scripts, unless `DFS_CUT_SEEDS` says otherwise; the first seed is that in `DFS_CUT_FIRST_SEED`.
const SCRIPTS: u64 = 40;
/// Operations in one.
const OPS: usize = 40;
/// Cuts in one.
const CUTS: u64 = 30;

const PATHS: [&str; 10] = ["/a", "/b", "/c", "/a/a", "/a/b", "/a/c", "/b/a", "/b/b", "/b/a/a", "/c/a"];
const XATTRS: [&str; 2] = ["user.x", "user.y"];
/// Longer than two chunks.
const FILE_BYTES: u64 = 10_000;

type Path = &'static str;

/// Handles are counted in the order in which they were opened.
#[derive(Clone, Copy, Debug)]
enum Op {
    Mkdir(Path),
    Create(Path),
    Open(Path),
    /// A file without a name.
    Tmpfile,
    /// Which gets one.
    Name(usize, Path),
    Close(usize),
    /// Opens a file, appends and closes it.
    Fill(Path, usize),
    /// A file with its contents at once.
    PutWhole(Path, usize),
    Write(usize, u64, usize),
    Append(usize, usize),
    SetLen(usize, u64),
    Allocate(usize, Allocate, u64, u64),
    Symlink(Path, Path),
    Link(Path, Path),
    Rename(Path, Path, Rename),
    Unlink(Path),
    Rmdir(Path),
    Chmod(Path, u32),
    SetXattr(Path, Path, usize),
    RemoveXattr(Path, Path),
}

/// A number from the environment, for longer runs.
fn amount(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |value| value.parse().unwrap())
}

/// A file without a name.
fn make_nameless(model: &mut Model) -> usize {
    let body = Body::File(Vec::new());
    model.inodes.push(Inode { body, mode: 0o644, links: 0, xattrs: BTreeMap::new() });
    model.inodes.len() - 1
}

/// Gives such a file a name: first another one has it.
fn name_file(model: &mut Model, ino: usize, path: &str) -> Outcome<()> {
    let other = model.create(path, true, false, 0)?;
    model.inodes[other].links = 0;
    model.inodes[ino].links += 1;
    for inode in &mut model.inodes {
        if let Body::Dir(entries) = &mut inode.body {
            entries.values_mut().filter(|named| **named == other).for_each(|named| *named = ino);
        }
    }
    Ok(())
}

fn random_op(rng: &mut Rng, handles: usize) -> Op {
    let handle = rng.index(handles.max(1));
    let len = usize::try_from(1 + rng.below(6000)).unwrap();
    let at = rng.below(FILE_BYTES);
    let (one, other) = (PATHS[rng.index(PATHS.len())], PATHS[rng.index(PATHS.len())]);
    let xattr = XATTRS[rng.index(2)];
    match rng.below(40) {
        0..=3 => Op::Mkdir(one),
        4..=8 => Op::Create(one),
        9 => Op::Open(one),
        10 | 11 => Op::Tmpfile,
        12 | 13 => Op::Name(handle, one),
        14 | 15 => Op::Close(handle),
        16 => Op::Fill(one, len),
        17 | 18 => Op::PutWhole(one, len),
        19..=21 => Op::Write(handle, at, len),
        22 | 23 => Op::Append(handle, len),
        24 => Op::SetLen(handle, at),
        25 => Op::Allocate(handle, Allocate::Reserve, at, len as u64),
        26 => Op::Allocate(handle, Allocate::ZeroRange, at, len as u64),
        27 => Op::Allocate(handle, Allocate::PunchHole, at, len as u64),
        28 => Op::Symlink("a", one),
        29..=31 => Op::Link(one, other),
        32..=34 => {
            let how = [Rename::Replace, Rename::Replace, Rename::NoReplace, Rename::Exchange];
            Op::Rename(one, other, how[rng.index(4)])
        }
        35 | 36 => Op::Unlink(one),
        37 => Op::Rmdir(one),
        38 => Op::Chmod(one, 0o600 + u32::try_from(rng.below(0o100)).unwrap()),
        _ if rng.one_in(3) => Op::RemoveXattr(one, xattr),
        _ => Op::SetXattr(one, xattr, len % 30),
    }
}

/// An open file, and which it is in the model.
struct Handle {
    file: Option<File>,
    ino: usize,
    /// It was made without a name and never had one.
    is_nameless: bool,
}

struct Run {
    fs: Dfs,
    handles: Vec<Handle>,
    model: Model,
    rng: Rng,
    /// What the next file is filled with.
    byte: u8,
}

impl Run {
    fn new(fs: Dfs, seed: u64) -> Self {
        Self { fs, handles: Vec::new(), model: Model::new(), rng: Rng::from_seed(seed), byte: 0 }
    }

    fn file(&self, handle: usize) -> Option<&File> {
        self.handles.get(handle)?.file.as_ref()
    }

    /// The next operation that means something: those on handles need one that is open.
    fn next_op(&mut self) -> Op {
        loop {
            let op = random_op(&mut self.rng, self.handles.len());
            let means_something = match op {
                Op::Name(handle, _) => self.file(handle).is_some() && self.handles[handle].is_nameless,
                Op::Close(handle)
                | Op::Write(handle, ..)
                | Op::Append(handle, _)
                | Op::SetLen(handle, _)
                | Op::Allocate(handle, ..) => self.file(handle).is_some(),
                // What it does with a file that is there is not told here.
                Op::PutWhole(path, _) => self.model.lookup(path, false).is_err(),
                _ => true,
            };
            if means_something {
                self.byte = self.byte % 250 + 1;
                return op;
            }
        }
    }

    fn opened(&mut self, file: File, is_nameless: bool) {
        self.handles.push(Handle { file: Some(file), ino: usize::MAX, is_nameless });
    }

    fn on_fs(&mut self, op: Op) -> Result<(), Error> {
        let fs = self.fs.clone();
        let data = |len: usize| vec![self.byte; len];
        match op {
            Op::Mkdir(path) => fs.mkdir(path, 0o755)?,
            Op::Create(path) => self.opened(fs.open(path, &OpenOptions::CREATE_NEW)?, false),
            Op::Open(path) => self.opened(fs.open(path, &OpenOptions::WRITE)?, false),
            Op::Tmpfile => self.opened(fs.tmpfile(&OpenOptions::CREATE)?.0, true),
            Op::Fill(path, len) => {
                let file = fs.open(path, &OpenOptions::WRITE)?;
                file.append(&data(len))?;
                file.close()?;
            }
            Op::PutWhole(path, len) => fs.put_whole(path, &data(len), &SetAttrs::KEEP)?,
            Op::Symlink(target, path) => fs.symlink(target, path)?,
            Op::Link(old, new) => fs.link(old, &fs, new)?,
            Op::Rename(old, new, how) => fs.rename(old, &fs, new, mode(how))?,
            Op::Unlink(path) => fs.unlink(path)?,
            Op::Rmdir(path) => fs.rmdir(path)?,
            Op::Chmod(path, mode) => fs.chmod(path, mode)?,
            Op::SetXattr(path, name, len) => {
                fs.set_xattr(path, name, data(len), XattrCond::Any, Follow::No)?;
            }
            Op::RemoveXattr(path, name) => fs.remove_xattr(path, name, Follow::No)?,
            _ => self.on_open_file(op)?,
        }
        Ok(())
    }

    fn on_open_file(&mut self, op: Op) -> Result<(), Error> {
        let data = |len: usize| vec![self.byte; len];
        let file = |handle: usize| self.file(handle).expect("only open ones are drawn");
        match op {
            Op::Name(handle, path) => {
                let (dir, name) = path.rsplit_once('/').unwrap();
                let dir = self.fs.open_dir(if dir.is_empty() { "/" } else { dir })?;
                dir.link_to(file(handle), name)?;
            }
            Op::Close(handle) => self.handles[handle].file.take().unwrap().close()?,
            Op::Write(handle, at, len) => drop(file(handle).write_at(at, &data(len))?),
            Op::Append(handle, len) => drop(file(handle).append(&data(len))?),
            Op::SetLen(handle, len) => file(handle).set_len(len)?,
            Op::Allocate(handle, what, at, len) => file(handle).allocate(what, false, at, len)?,
            _ => panic!("not about an open file: {op:?}"),
        }
        Ok(())
    }

    fn on_model(&mut self, op: Op) -> Outcome<()> {
        let data = |len: usize| vec![self.byte; len];
        let model = &mut self.model;
        match op {
            Op::Mkdir(path) => model.mkdir(path, 0o755)?,
            Op::Create(path) => self.note_opened(|model| model.create(path, true, false, 0o644))?,
            Op::Open(path) => self.note_opened(|model| model.open(path))?,
            Op::Tmpfile => self.note_opened(|model| Ok(make_nameless(model)))?,
            Op::Fill(path, len) => {
                let ino = model.open(path)?;
                model.append(ino, &data(len));
            }
            Op::PutWhole(path, len) => {
                let ino = model.create(path, true, false, 0o644)?;
                model.append(ino, &data(len));
            }
            Op::Symlink(target, path) => model.symlink(target, path)?,
            Op::Link(old, new) => model.link(old, new)?,
            Op::Rename(old, new, how) => model.rename(old, new, how)?,
            Op::Unlink(path) => model.unlink(path)?,
            Op::Rmdir(path) => model.rmdir(path)?,
            Op::Chmod(path, mode) => {
                let ino = model.lookup(path, true)?;
                model.inodes[ino].mode = mode;
            }
            Op::SetXattr(path, name, len) => {
                let ino = model.lookup(path, false)?;
                model.set_xattr(ino, name, &data(len), SetXattr::Either)?;
            }
            Op::RemoveXattr(path, name) => {
                let ino = model.lookup(path, false)?;
                model.remove_xattr(ino, name)?;
            }
            _ => self.on_open_file_of_model(op)?,
        }
        Ok(())
    }

    fn on_open_file_of_model(&mut self, op: Op) -> Outcome<()> {
        let data = |len: usize| vec![self.byte; len];
        let (model, ino) = (&mut self.model, |handle: usize| self.handles[handle].ino);
        match op {
            Op::Name(handle, path) => {
                name_file(model, ino(handle), path)?;
                self.handles[handle].is_nameless = false;
            }
            Op::Close(_) => {}
            Op::Write(handle, at, len) => model.write(ino(handle), usize::try_from(at).unwrap(), &data(len)),
            Op::Append(handle, len) => model.append(ino(handle), &data(len)),
            Op::SetLen(handle, len) => model.truncate(ino(handle), usize::try_from(len).unwrap()),
            Op::Allocate(handle, what, at, len) => {
                let (ino, at, len) =
                    (ino(handle), usize::try_from(at).unwrap(), usize::try_from(len).unwrap());
                if what != Allocate::Reserve {
                    model.punch(ino, at, len);
                }
                if what != Allocate::PunchHole {
                    model.truncate(ino, model.data(ino).len().max(at + len));
                }
            }
            _ => panic!("not about an open file: {op:?}"),
        }
        Ok(())
    }

    /// The handle that was opened last, if the file system has opened one, stands for this file.
    fn note_opened(&mut self, open: impl FnOnce(&mut Model) -> Outcome<usize>) -> Outcome<()> {
        let ino = open(&mut self.model)?;
        if let Some(last) = self.handles.last_mut().filter(|last| last.ino == usize::MAX) {
            last.ino = ino;
        }
        Ok(())
    }
}

/// Where the power was cut.
struct Cut {
    drives: Vec<SimDrive>,
    before: Tree,
    after: Tree,
    op: Op,
}

/// Runs a script until the power is cut at boundary `cut` of it; the number of boundaries if it ended before.
fn run_until(seed: u64, cut: u64, clock: &Arc<dyn Clock>) -> Result<Cut, u64> {
    let power = SimPower::new();
    let (drives, fs) = build(&power, clock, seed % 2 == 1);
    let begin = power.ops();
    power.fail_at(begin.saturating_add(cut), Fault::Crash);
    let mut run = Run::new(fs, seed);
    for _ in 0..OPS {
        let op = run.next_op();
        let before = tree_of_model(&run.model);
        let done = run.on_fs(op);
        let expected = run.on_model(op);
        if power.is_crashed() {
            let after = tree_of_model(&run.model);
            let before = if done.is_ok() { after.clone() } else { before };
            return Ok(Cut { drives, before, after, op });
        }
        assert_eq!(done.map_err(|error| error.errno()), expected, "seed {seed}, {op:?}");
    }
    // Whatever is open is closed, and files without a name are freed.
    for handle in 0..run.handles.len() {
        drop(run.handles[handle].file.take());
        if power.is_crashed() {
            let last = tree_of_model(&run.model);
            return Ok(Cut { drives, before: last.clone(), after: last, op: Op::Close(handle) });
        }
    }
    let end = power.ops();
    Err(end - begin)
}

/// Whether a tree is one or the other, or, after a change of contents that goes chunk by chunk, between them: then each byte is
/// the old or the new one.
fn is_between(found: &Tree, cut: &Cut) -> bool {
    let Cut { before, after, op, .. } = cut;
    if found == before || found == after {
        return true;
    }
    let in_parts = matches!(op, Op::Write(..) | Op::Allocate(..));
    let fits = |(path, entry): (&String, &super::crash::Entry)| {
        let (Some(old), Some(new)) = (before.get(path), after.get(path)) else { return false };
        let lens = [old.data.len(), new.data.len()];
        let byte = |of: &[u8], at: usize| of.get(at).copied().unwrap_or(0);
        let is_either =
            |(at, found): (usize, &u8)| [byte(&old.data, at), byte(&new.data, at)].contains(found);
        let mut rest = entry.clone();
        rest.data.clone_from(&old.data);
        rest == *old
            && (lens[0].min(lens[1])..=lens[0].max(lens[1])).contains(&entry.data.len())
            && entry.data.iter().enumerate().all(is_either)
    };
    in_parts && found.len() == before.len() && found.iter().all(fits)
}

#[test]
fn a_power_cut_in_a_random_script_leaves_every_operation_done_or_not() {
    let (first, count) = (amount("DFS_CUT_FIRST_SEED", 1), amount("DFS_CUT_SEEDS", SCRIPTS));
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new(START_NS));
    let mut cuts = 0;
    for seed in first..first + count {
        println!("DFS_CUT_FIRST_SEED={seed} DFS_CUT_SEEDS=1");
        let Err(boundaries) = run_until(seed, u64::MAX, &clock) else { panic!("nobody has cut it") };
        let mut rng = Rng::from_seed(seed ^ 0xC07);
        for _ in 0..CUTS {
            let at = rng.below(boundaries);
            let Ok(cut) = run_until(seed, at, &clock) else { panic!("boundary {at} of {boundaries}") };
            let plan = match rng.below(4) {
                0 => CrashPlan::None,
                1 => CrashPlan::All,
                2 => CrashPlan::Process,
                _ => CrashPlan::Subset(rng.next_u64()),
            };
            let fs = rebuild(&cut.drives, plan, &clock);
            let found = tree_of(&fs);
            assert!(
                is_between(&found, &cut),
                "seed {seed}, boundary {at}, {plan:?}, {:?}: {found:?}\nis neither {:?}\nnor {:?}",
                cut.op,
                cut.before,
                cut.after
            );
            let report = fs.check(false).unwrap();
            assert!(report.is_clean() && report.orphans == 0, "seed {seed}, boundary {at}: {report:?}");
            remove_all(&fs, "/");
            assert_eq!(fs.check(false).unwrap(), dolmen_dfs::CheckReport { dirs: 1, ..Default::default() });
            cuts += 1;
        }
    }
    assert_eq!(cuts, count * CUTS);
}
