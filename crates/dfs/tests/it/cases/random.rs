//! Random operations on the file system and on a tree in memory, side by side.

use super::common::{World, read_all, remove_all, small_chunks};
use super::model::{Body, Ino, Model, Rename, SetXattr};
use dolmen_dfs::{Dfs, Error, File, Follow, OpenOptions, RenameMode, XattrCond};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Create { path: String, exclusive: bool, truncate: bool, handle: usize },
    Open { path: String, handle: usize },
    Close { handle: usize },
    Mkdir { path: String },
    Rmdir { path: String },
    Symlink { target: String, path: String },
    Link { old: String, new: String },
    Unlink { path: String },
    Rename { old: String, new: String, mode: Rename },
    Write { handle: usize, offset: u16, data: Vec<u8> },
    Append { handle: usize, data: Vec<u8> },
    SetLen { handle: usize, len: u16 },
    Punch { handle: usize, offset: u16, len: u16 },
    Chmod { path: String, mode: u32 },
    SetXattr { path: String, name: String, value: Vec<u8>, how: SetXattr },
    RemoveXattr { path: String, name: String },
    Remount,
}

const HANDLES: usize = 3;

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..4).prop_map(|parts| format!("/{}", parts.join("/")))
}

fn target() -> impl Strategy<Value = String> {
    prop_oneof![path(), name(), Just("..".to_owned()), Just("../a".to_owned())]
}

fn op() -> impl Strategy<Value = Op> {
    let handle = || 0..HANDLES;
    let bytes = || prop::collection::vec(any::<u8>(), 0..6000);
    let mode =
        prop::sample::select(vec![Rename::Replace, Rename::Replace, Rename::NoReplace, Rename::Exchange]);
    let how = prop::sample::select(vec![SetXattr::Either, SetXattr::Create, SetXattr::Replace]);
    let xattr = || prop::sample::select(vec!["user.x", "user.y"]).prop_map(str::to_owned);
    prop_oneof![
        4 => (path(), any::<bool>(), any::<bool>(), handle())
            .prop_map(|(path, exclusive, truncate, handle)| Op::Create { path, exclusive, truncate, handle }),
        2 => (path(), handle()).prop_map(|(path, handle)| Op::Open { path, handle }),
        1 => handle().prop_map(|handle| Op::Close { handle }),
        4 => path().prop_map(|path| Op::Mkdir { path }),
        1 => path().prop_map(|path| Op::Rmdir { path }),
        1 => (target(), path()).prop_map(|(target, path)| Op::Symlink { target, path }),
        3 => (path(), path()).prop_map(|(old, new)| Op::Link { old, new }),
        3 => path().prop_map(|path| Op::Unlink { path }),
        4 => (path(), path(), mode).prop_map(|(old, new, mode)| Op::Rename { old, new, mode }),
        3 => (handle(), 0_u16..9000, bytes()).prop_map(|(handle, offset, data)| Op::Write { handle, offset, data }),
        2 => (handle(), bytes()).prop_map(|(handle, data)| Op::Append { handle, data }),
        2 => (handle(), 0_u16..12_000).prop_map(|(handle, len)| Op::SetLen { handle, len }),
        2 => (handle(), 0_u16..9000, 1_u16..9000).prop_map(|(handle, offset, len)| Op::Punch { handle, offset, len }),
        1 => (path(), 0_u32..0o10_000).prop_map(|(path, mode)| Op::Chmod { path, mode }),
        2 => (path(), xattr(), prop::collection::vec(any::<u8>(), 0..30), how)
            .prop_map(|(path, name, value, how)| Op::SetXattr { path, name, value, how }),
        1 => (path(), xattr()).prop_map(|(path, name)| Op::RemoveXattr { path, name }),
        1 => Just(Op::Remount),
    ]
}

struct Pair {
    fs: Dfs,
    model: Model,
    handles: Vec<Option<(File, Ino)>>,
}

fn number<T>(result: Result<T, Error>) -> Result<T, i32> {
    result.map_err(|error| error.errno())
}

/// Both sides of an operation that returns nothing.
macro_rules! same {
    ($op:expr, $ours:expr, $theirs:expr) => {
        prop_assert_eq!(number($ours), $theirs, "{:?}", $op)
    };
}

impl Pair {
    fn opened(
        &mut self,
        op: &Op,
        handle: usize,
        ours: Result<File, Error>,
        theirs: Result<Ino, i32>,
    ) -> Result<(), TestCaseError> {
        match (number(ours), theirs) {
            (Ok(file), Ok(ino)) => self.handles[handle] = Some((file, ino)),
            (ours, theirs) => prop_assert_eq!(ours.map(|_| 0), theirs, "{:?}", op),
        }
        Ok(())
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let (fs, model) = (self.fs.clone(), &mut self.model);
        match op {
            Op::Create { path, exclusive, truncate, handle } => {
                let options =
                    OpenOptions { exclusive: *exclusive, truncate: *truncate, ..OpenOptions::CREATE };
                let theirs = model.create(path, *exclusive, *truncate, options.mode);
                return self.opened(op, *handle, fs.open(path, &options), theirs);
            }
            Op::Open { path, handle } => {
                let theirs = model.open(path);
                return self.opened(op, *handle, fs.open(path, &OpenOptions::WRITE), theirs);
            }
            Op::Close { handle } => {
                if let Some((file, _)) = self.handles[*handle].take() {
                    file.close().unwrap();
                }
            }
            Op::Mkdir { path } => same!(op, fs.mkdir(path, 0o755), model.mkdir(path, 0o755)),
            Op::Rmdir { path } => same!(op, fs.rmdir(path), model.rmdir(path)),
            Op::Symlink { target, path } => same!(op, fs.symlink(target, path), model.symlink(target, path)),
            Op::Link { old, new } => same!(op, fs.link(old, &fs, new), model.link(old, new)),
            Op::Unlink { path } => same!(op, fs.unlink(path), model.unlink(path)),
            Op::Rename { old, new, mode } => {
                let ours = match mode {
                    Rename::Replace => RenameMode::Replace,
                    Rename::NoReplace => RenameMode::NoReplace,
                    Rename::Exchange => RenameMode::Exchange,
                };
                same!(op, fs.rename(old, &fs, new, ours), model.rename(old, new, *mode));
            }
            Op::Chmod { path, mode } => {
                let theirs = model.lookup(path, true).map(|ino| model.inodes[ino].mode = *mode);
                same!(op, fs.chmod(path, *mode), theirs);
            }
            Op::SetXattr { path, name, value, how } => {
                let cond = match how {
                    SetXattr::Either => XattrCond::Any,
                    SetXattr::Create => XattrCond::Create,
                    SetXattr::Replace => XattrCond::Replace,
                };
                let theirs =
                    model.lookup(path, false).and_then(|ino| model.set_xattr(ino, name, value, *how));
                same!(op, fs.set_xattr(path, name, value, cond, Follow::No), theirs);
            }
            Op::RemoveXattr { path, name } => {
                let theirs = model.lookup(path, false).and_then(|ino| model.remove_xattr(ino, name));
                same!(op, fs.remove_xattr(path, name, Follow::No), theirs);
            }
            Op::Write { .. } | Op::Append { .. } | Op::SetLen { .. } | Op::Punch { .. } => self.apply_io(op),
            Op::Remount => {}
        }
        Ok(())
    }

    fn apply_io(&mut self, op: &Op) {
        let (Op::Write { handle, .. }
        | Op::Append { handle, .. }
        | Op::SetLen { handle, .. }
        | Op::Punch { handle, .. }) = op
        else {
            panic!("not about a handle: {op:?}");
        };
        let Some((file, ino)) = &self.handles[*handle] else { return };
        let model = &mut self.model;
        match op {
            Op::Write { offset, data, .. } => {
                file.write_at(u64::from(*offset), data).unwrap();
                model.write(*ino, usize::from(*offset), data);
            }
            Op::Append { data, .. } => {
                let at = file.append(data).unwrap();
                assert_eq!(at, model.data(*ino).len() as u64);
                model.append(*ino, data);
            }
            Op::SetLen { len, .. } => {
                file.set_len(u64::from(*len)).unwrap();
                model.truncate(*ino, usize::from(*len));
            }
            Op::Punch { offset, len, .. } => {
                file.punch_hole(u64::from(*offset), u64::from(*len)).unwrap();
                model.punch(*ino, usize::from(*offset), usize::from(*len));
            }
            _ => panic!("checked above"),
        }
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        for (file, ino) in self.handles.iter().flatten() {
            prop_assert_eq!(&read_all(file), self.model.data(*ino));
            let stat = file.stat().unwrap();
            let inode = &self.model.inodes[*ino];
            prop_assert_eq!((stat.links, stat.permissions), (inode.links, inode.mode));
        }
        let mut pending = vec![(String::from("/"), 0)];
        while let Some((path, ino)) = pending.pop() {
            let inode = &self.model.inodes[ino];
            let stat = self.fs.lstat(&path).unwrap();
            prop_assert_eq!(stat.permissions, inode.mode, "{}", path);
            let xattrs: BTreeMap<_, _> = self
                .fs
                .xattr_names(&path, Follow::No)
                .unwrap()
                .into_iter()
                .map(|name| {
                    let value = self.fs.xattr(&path, &name, Follow::No).unwrap();
                    (name, value)
                })
                .collect();
            prop_assert_eq!(&xattrs, &inode.xattrs, "{}", path);
            match &inode.body {
                Body::File(data) => {
                    let file = self.fs.open(&path, &OpenOptions::READ).unwrap();
                    prop_assert_eq!(&read_all(&file), data, "{}", path);
                    prop_assert_eq!(
                        (stat.size_bytes, stat.links),
                        (data.len() as u64, inode.links),
                        "{}",
                        path
                    );
                }
                Body::Symlink(target) => prop_assert_eq!(&self.fs.readlink(&path).unwrap(), target),
                Body::Dir(entries) => {
                    let names = self.fs.open_dir(&path).unwrap().names().unwrap();
                    prop_assert_eq!(names, entries.keys().cloned().collect::<Vec<_>>(), "{}", path);
                    for (name, ino) in entries {
                        pending.push((
                            format!(
                                "{path}{}{}",
                                if path == "/" { "" } else { "/" },
                                String::from_utf8_lossy(name)
                            ),
                            *ino,
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

fn run(ops: &[Op], shared: bool) -> Result<(), TestCaseError> {
    let world = World::with(3, &small_chunks());
    let mount = || if shared { world.mount_shared() } else { world.mount() };
    let objects = world.object_count();
    let mut pair = Pair { fs: mount(), model: Model::new(), handles: vec![None, None, None] };
    for op in ops {
        world.clock.advance(1_000_000);
        pair.apply(op)?;
        if matches!(op, Op::Remount) {
            pair.compare()?;
            pair.handles = vec![None, None, None];
            pair.fs = mount();
        }
    }
    pair.compare()?;
    // Everything removed, nothing may be left in the container.
    pair.handles.clear();
    remove_all(&pair.fs, "/");
    prop_assert_eq!(world.object_count(), objects);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_file_system_agrees_with_a_tree_in_memory(ops in prop::collection::vec(op(), 1..120)) {
        run(&ops, false)?;
    }

    #[test]
    fn a_shared_mount_agrees_with_a_tree_in_memory(ops in prop::collection::vec(op(), 1..60)) {
        run(&ops, true)?;
    }
}
