//! Power cuts at every boundary of a scripted run: after each, the tree is as before or after the operation
//! that was cut, never in between, and nothing is left behind once it is emptied.

use super::common::{START_NS, container_with, read_all, remove_all};
use super::model::{Body, Model, Rename};
use crate::watched::Watched;
use dolmen_client::{ContName, Container, Options, Pool};
use dolmen_dfs::{
    Dfs, Error, File, FileKind, Follow, FormatOptions, MountOptions, OpenOptions, RenameMode, SetAttrs,
    XattrCond,
};
use dolmen_env::sim::{CrashPlan, Fault, SimConfig, SimDisk, SimDrive, SimPower};
use dolmen_env::{Clock, Rng, Secrets, SimClock};
use dolmen_types::{Credentials, Durability, Label, ObjectClass, TargetNo};
use std::collections::BTreeMap;
use std::sync::Arc;

const TARGETS: u16 = 2;

/// What is done one after the other; handles stay open to the end.
enum Step {
    Mkdir(&'static str),
    Create(&'static str),
    /// Makes a file that nobody has open afterwards.
    Touch(&'static str),
    /// Opens such a file, appends and closes it.
    Fill(&'static str, usize),
    Write(usize, usize, &'static [u8]),
    Append(usize, &'static [u8]),
    PunchHole(usize, usize, usize),
    SetLen(usize, usize),
    /// A file with its contents at once.
    PutWhole(&'static str, usize),
    Symlink(&'static str, &'static str),
    Link(&'static str, &'static str),
    Rename(&'static str, &'static str, Rename),
    Unlink(&'static str),
    Rmdir(&'static str),
}

const SCRIPT: [Step; 36] = [
    Step::Mkdir("/a"),
    Step::Mkdir("/b"),
    Step::Touch("/a/closed"),
    Step::Fill("/a/closed", 6000),
    Step::Unlink("/a/closed"),
    Step::Touch("/a/small"),
    Step::Fill("/a/small", 3),
    // No longer than a chunk, but over the end of one.
    Step::Fill("/a/small", 4096),
    Step::Unlink("/a/small"),
    Step::PutWhole("/a/whole", 5000),
    Step::Unlink("/a/whole"),
    Step::Create("/a/f"),
    Step::Write(0, 0, b"some data that fits a chunk"),
    Step::Append(0, b" and more"),
    Step::PunchHole(0, 3, 10),
    Step::Create("/a/g"),
    Step::Write(1, 5000, b"far out"),
    Step::SetLen(1, 4097),
    Step::Symlink("a/f", "/l"),
    Step::Link("/a/f", "/b/f"),
    Step::Link("/b/f", "/third"),
    Step::Rename("/a/g", "/b/g", Rename::Replace),
    Step::Create("/b/h"),
    Step::Rename("/b/h", "/b/g", Rename::Replace),
    Step::Rename("/b/g", "/third", Rename::Exchange),
    Step::Unlink("/a/f"),
    Step::Unlink("/b/g"),
    Step::Unlink("/third"),
    Step::Rename("/b", "/a/b", Rename::Replace),
    Step::Unlink("/a/b/f"),
    Step::Rmdir("/a/b"),
    Step::Rename("/l", "/a/l", Rename::NoReplace),
    Step::Mkdir("/full"),
    Step::Symlink("target", "/full/link"),
    Step::Mkdir("/empty"),
    Step::Rename("/full", "/empty", Rename::Replace),
];

struct Run {
    fs: Dfs,
    files: Vec<File>,
    model: Model,
    inos: Vec<usize>,
}

impl Run {
    fn on_fs(&mut self, step: &Step) -> Result<(), Error> {
        let fs = &self.fs;
        match *step {
            Step::Mkdir(path) => fs.mkdir(path, 0o755),
            Step::Create(path) => {
                self.files.push(fs.open(path, &OpenOptions::CREATE_NEW)?);
                Ok(())
            }
            Step::Touch(path) => fs.open(path, &OpenOptions::CREATE_NEW)?.close(),
            Step::Fill(path, len) => {
                let file = fs.open(path, &OpenOptions::WRITE)?;
                file.append(&vec![7; len])?;
                file.close()
            }
            Step::PutWhole(path, len) => fs.put_whole(path, &vec![9; len], &SetAttrs::KEEP),
            Step::Write(file, at, data) => self.files[file].write_at(at as u64, data).map(|_| ()),
            Step::Append(file, data) => self.files[file].append(data).map(|_| ()),
            Step::PunchHole(file, at, len) => self.files[file].punch_hole(at as u64, len as u64),
            Step::SetLen(file, len) => self.files[file].set_len(len as u64),
            Step::Symlink(target, path) => fs.symlink(target, path),
            Step::Link(old, new) => fs.link(old, fs, new),
            Step::Rename(old, new, how) => fs.rename(old, fs, new, mode(how)),
            Step::Unlink(path) => fs.unlink(path),
            Step::Rmdir(path) => fs.rmdir(path),
        }
    }

    fn on_model(&mut self, step: &Step) {
        let model = &mut self.model;
        match *step {
            Step::Mkdir(path) => model.mkdir(path, 0o755).unwrap(),
            Step::Create(path) => self.inos.push(model.create(path, true, false, 0o644).unwrap()),
            Step::Touch(path) => {
                model.create(path, true, false, 0o644).unwrap();
            }
            Step::Fill(path, len) => {
                let ino = model.lookup(path, true).unwrap();
                model.append(ino, &vec![7; len]);
            }
            Step::PutWhole(path, len) => {
                let ino = model.create(path, true, false, 0o644).unwrap();
                model.append(ino, &vec![9; len]);
            }
            Step::Write(file, at, data) => model.write(self.inos[file], at, data),
            Step::Append(file, data) => model.append(self.inos[file], data),
            Step::PunchHole(file, at, len) => model.punch(self.inos[file], at, len),
            Step::SetLen(file, len) => model.truncate(self.inos[file], len),
            Step::Symlink(target, path) => model.symlink(target, path).unwrap(),
            Step::Link(old, new) => model.link(old, new).unwrap(),
            Step::Rename(old, new, how) => model.rename(old, new, how).unwrap(),
            Step::Unlink(path) => model.unlink(path).unwrap(),
            Step::Rmdir(path) => model.rmdir(path).unwrap(),
        }
    }
}

pub(crate) fn mode(how: Rename) -> RenameMode {
    match how {
        Rename::Replace => RenameMode::Replace,
        Rename::NoReplace => RenameMode::NoReplace,
        Rename::Exchange => RenameMode::Exchange,
    }
}

/// What is to be seen of one file or directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    kind: FileKind,
    pub(crate) data: Vec<u8>,
    links: u64,
    mode: u32,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All of them, by path.
pub(crate) type Tree = BTreeMap<String, Entry>;

pub(crate) fn tree_of_model(model: &Model) -> Tree {
    let mut tree = Tree::new();
    let mut pending = vec![(String::new(), 0)];
    while let Some((path, ino)) = pending.pop() {
        let inode = &model.inodes[ino];
        let (kind, data, links) = match &inode.body {
            Body::File(data) => (FileKind::File, data.clone(), inode.links),
            Body::Symlink(target) => (FileKind::Symlink, target.clone(), 1),
            Body::Dir(entries) => {
                let child = |(name, ino): (&Vec<u8>, &usize)| {
                    (format!("{path}/{}", String::from_utf8_lossy(name)), *ino)
                };
                pending.extend(entries.iter().map(child));
                (FileKind::Directory, Vec::new(), 1)
            }
        };
        let (mode, xattrs) = (inode.mode, inode.xattrs.clone());
        tree.insert(path, Entry { kind, data, links, mode, xattrs });
    }
    tree
}

pub(crate) fn tree_of(fs: &Dfs) -> Tree {
    let mut tree = Tree::new();
    let mut pending = vec![String::new()];
    while let Some(path) = pending.pop() {
        let at = if path.is_empty() { "/" } else { &path };
        let stat = fs.lstat(at).unwrap();
        let data = match stat.kind {
            FileKind::File => read_all(&fs.open(at, &OpenOptions::READ).unwrap()),
            FileKind::Symlink => fs.readlink(at).unwrap(),
            FileKind::Directory => {
                let names = fs.open_dir(at).unwrap().names().unwrap();
                pending.extend(names.iter().map(|name| format!("{path}/{}", String::from_utf8_lossy(name))));
                Vec::new()
            }
            special => panic!("nobody made a {special:?}"),
        };
        let names = fs.xattr_names(at, Follow::No).unwrap();
        let value = |name: Vec<u8>| (name.clone(), fs.xattr(at, &name, Follow::No).unwrap());
        let (xattrs, mode) = (names.into_iter().map(value).collect(), stat.permissions);
        tree.insert(path, Entry { kind: stat.kind, data, links: stat.links, mode, xattrs });
    }
    tree
}

fn config(no: u16) -> dolmen_engine::TargetConfig {
    dolmen_engine::TargetConfig {
        target: TargetNo(no),
        capacity_bytes: 64 << 20,
        log_segment_bytes: 1 << 20,
        bulk_segment_bytes: 1 << 20,
        ..Default::default()
    }
}

fn devices(drive: &SimDrive) -> dolmen_engine::Devices {
    dolmen_engine::Devices { meta: Box::new(SimDisk::new(drive)), bulk: None }
}

fn mount(container: &Container, clock: &Arc<dyn Clock>, shared: bool) -> Dfs {
    let options =
        MountOptions { clock: Arc::clone(clock), shared, tells_opens: shared, ..MountOptions::default() };
    Dfs::mount(container, &options).unwrap()
}

/// A mounted file system on drives of one supply.
pub(crate) fn build(power: &SimPower, clock: &Arc<dyn Clock>, shared: bool) -> (Vec<SimDrive>, Dfs) {
    build_with(power, clock, (shared, Durability::Power))
}

/// The same, in a container in which a write survives this when it is answered.
fn build_with(
    power: &SimPower,
    clock: &Arc<dyn Clock>,
    (shared, durability): (bool, Durability),
) -> (Vec<SimDrive>, Dfs) {
    let drives: Vec<_> = (0..TARGETS).map(|_| SimDrive::on_power(SimConfig::default(), power)).collect();
    let stores = (0..TARGETS).zip(&drives).map(|(no, drive)| {
        let id = u128::from(no);
        dolmen_engine::Target::create(devices(drive), Arc::clone(clock), id, &config(no)).unwrap()
    });
    let supply = power.clone();
    // Nothing is answered without power: whoever asked then would wait for what was under way.
    let refuses = move || supply.is_crashed().then_some(dolmen_types::Error::Canceled);
    let pool = Watched::refusing(crate::pool_on(stores.collect(), clock, true), refuses);
    // Where several mounts share it.
    let pool = if shared { pool.and_keeping_locks() } else { pool };
    let container = container_with(Arc::new(pool), clock, durability);
    let clock_of = Arc::clone(clock);
    let options = FormatOptions {
        chunk_bytes: 4096,
        file_class: ObjectClass::SX,
        clock: clock_of,
        ..FormatOptions::default()
    };
    Dfs::format(&container, &options).unwrap();
    let fs = mount(&container, clock, shared);
    (drives, fs)
}

/// The file system after a power cut.
pub(crate) fn rebuild(drives: &[SimDrive], plan: CrashPlan, clock: &Arc<dyn Clock>) -> Dfs {
    let stores = (0..TARGETS).zip(drives).map(|(no, drive)| {
        let drive = drive.crash(plan);
        dolmen_engine::Target::open(devices(&drive), Arc::clone(clock), &config(no)).unwrap().0
    });
    let transport = crate::pool_on(stores.collect(), clock, false);
    let options = Options {
        cred: Credentials::default(),
        job: 0,
        tenant: 0,
        timeout_ns: 0,
        clock: Arc::clone(clock),
        rng: Rng::from_seed(3),
        secrets: Secrets::Repeatable(Rng::from_seed(3)),
    };
    let pool = Pool::connect_with(transport, options).unwrap();
    assert!(pool.check().unwrap().iter().all(|audit| audit.findings.is_empty()));
    let container = pool.open_container(&ContName::Label(Label::new("files").unwrap())).unwrap();
    mount(&container, clock, false)
}

/// Runs the script with a power cut at boundary `cut` of it; the drives, the trees before and after the
/// operation that was cut, and that operation. `None` if the script ended before.
fn run_until(cut: u64, clock: &Arc<dyn Clock>) -> Option<(Vec<SimDrive>, Tree, Tree, usize)> {
    let power = SimPower::new();
    let (drives, fs) = build(&power, clock, false);
    power.fail_at(power.ops() + cut, Fault::Crash);
    let mut run = Run { fs, files: Vec::new(), model: Model::new(), inos: Vec::new() };
    for (number, step) in SCRIPT.iter().enumerate() {
        let before = tree_of_model(&run.model);
        let done = run.on_fs(step);
        run.on_model(step);
        if power.is_crashed() {
            let after = tree_of_model(&run.model);
            let before = if done.is_ok() { after.clone() } else { before };
            return Some((drives, before, after, number));
        }
        done.unwrap();
    }
    None
}

#[test]
fn a_power_cut_leaves_every_operation_done_or_not() {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new(START_NS));
    let mut cut = 0;
    while let Some((drives, before, after, number)) = run_until(cut, &clock) {
        for plan in [CrashPlan::None, CrashPlan::All, CrashPlan::Subset(cut), CrashPlan::Process] {
            let fs = rebuild(&drives, plan, &clock);
            let found = tree_of(&fs);
            assert!(
                found == before || found == after,
                "boundary {cut}, {plan:?}, step {number}: {found:?}\nis neither {before:?}\nnor {after:?}"
            );
            let report = fs.check(false).unwrap();
            assert!(report.is_clean(), "boundary {cut}: {report:?}");
            remove_all(&fs, "/");
            assert_eq!(fs.check(false).unwrap(), dolmen_dfs::CheckReport { dirs: 1, ..Default::default() });
        }
        cut += 1;
    }
    assert!(cut > 40, "only {cut} boundaries");
}

#[test]
fn a_power_cut_leaves_a_move_of_what_another_mount_has_open_done_or_not() {
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new(START_NS));
    for how in [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange] {
        let (mut cut, mut is_crashed) = (0_u64, true);
        while is_crashed {
            let power = SimPower::new();
            let (drives, fs) = build(&power, &clock, true);
            let other = mount(fs.container(), &clock, true);
            fs.mkdir("/d", 0o755).unwrap();
            let mut files = vec![fs.open("/f", &OpenOptions::CREATE_NEW).unwrap()];
            files[0].write_at(0, b"data").unwrap();
            if how != RenameMode::NoReplace {
                files.push(fs.open("/d/g", &OpenOptions::CREATE_NEW).unwrap());
            }
            for file in &files {
                file.set_xattr("user.a", b"1", XattrCond::Any).unwrap();
                file.sync().unwrap();
            }
            let before = tree_of(&other);
            // Nothing is cut the first time: he has it open still.
            if let Some(cut) = cut.checked_sub(1) {
                power.fail_at(power.ops() + cut, Fault::Crash);
            }
            let done = other.rename("/f", &other, "/d/g", how);
            if cut == 0 {
                files[0].append(b"and more").unwrap();
                cut += 1;
                continue;
            }
            is_crashed = power.is_crashed();
            if !is_crashed {
                done.unwrap();
                break;
            }
            let mut after = before.clone();
            let (moved, replaced) = (after.remove("/f").unwrap(), after.remove("/d/g"));
            after.insert("/d/g".to_owned(), moved);
            if let (RenameMode::Exchange, Some(replaced)) = (how, replaced) {
                after.insert("/f".to_owned(), replaced);
            }
            for plan in [CrashPlan::None, CrashPlan::All, CrashPlan::Subset(cut), CrashPlan::Process] {
                let fs = rebuild(&drives, plan, &clock);
                let found = tree_of(&fs);
                assert!(
                    found == after || found == before && done.is_err(),
                    "{how:?}, boundary {cut}, {plan:?}: {found:?}\nis neither {before:?}\nnor {after:?}"
                );
                let report = fs.check(false).unwrap();
                assert!(report.is_clean(), "{how:?}, boundary {cut}: {report:?}");
            }
            cut += 1;
        }
        assert!(cut > 3, "{how:?}: only {cut} boundaries");
    }
}

/// What of `wanted` is not there as it was, after a power cut now.
fn lost(drives: &[SimDrive], plan: CrashPlan, clock: &Arc<dyn Clock>, wanted: &Tree) -> Vec<String> {
    let found = tree_of(&rebuild(drives, plan, clock));
    wanted
        .iter()
        .filter(|(path, entry)| found.get(*path) != Some(entry))
        .map(|(path, _)| path.clone())
        .collect()
}

#[test]
fn what_is_synchronised_survives_a_power_cut_where_writes_survive_the_process_alone() {
    const PLANS: [CrashPlan; 4] = [CrashPlan::None, CrashPlan::Subset(7), CrashPlan::All, CrashPlan::Process];
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new(START_NS));
    let (drives, fs) = build_with(&SimPower::new(), &clock, (false, Durability::Process));
    fs.flush().unwrap();
    let all_there = |tree: &Tree| {
        for plan in PLANS {
            assert_eq!(lost(&drives, plan, &clock, tree), [""; 0], "{plan:?}");
        }
    };
    // Contents on both targets, and names of which each is on one of them.
    fs.mkdir("/d", 0o755).unwrap();
    let file = fs.open("/d/f", &OpenOptions::CREATE_NEW).unwrap();
    file.write_at(0, &[7; 9000]).unwrap();
    assert_eq!(lost(&drives, CrashPlan::None, &clock, &tree_of(&fs)), ["/d", "/d/f"]);
    file.sync().unwrap();
    all_there(&tree_of(&fs));
    for number in 0..8 {
        fs.rename("/d", &fs, format!("/{number}"), RenameMode::Replace).unwrap();
        fs.mkdir("/d", 0o755).unwrap();
        fs.rename(format!("/{number}/f"), &fs, "/d/f", RenameMode::Replace).unwrap();
        file.append(&[number; 5000]).unwrap();
        file.write_at(0, &[number; 10]).unwrap();
        assert_ne!(lost(&drives, CrashPlan::None, &clock, &tree_of(&fs)), [""; 0]);
        assert_eq!(lost(&drives, CrashPlan::Process, &clock, &tree_of(&fs)), [""; 0]);
        fs.flush().unwrap();
        all_there(&tree_of(&fs));
    }
    // A close is no barrier.
    file.append(b"more").unwrap();
    let tree = tree_of(&fs);
    file.close().unwrap();
    assert_eq!(lost(&drives, CrashPlan::None, &clock, &tree), ["/d/f"]);
    assert_eq!(lost(&drives, CrashPlan::Process, &clock, &tree), [""; 0]);
}
