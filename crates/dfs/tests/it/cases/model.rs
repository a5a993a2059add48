//! The reference: POSIX names as a tree in memory, as plain as it can be. Errors are errno numbers.

use dolmen_dfs::errno::*;
use std::collections::BTreeMap;

pub(crate) type Ino = usize;
pub(crate) type Outcome<T> = Result<T, i32>;

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Dir(BTreeMap<Vec<u8>, Ino>),
    File(Vec<u8>),
    Symlink(Vec<u8>),
}

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) body: Body,
    pub(crate) mode: u32,
    pub(crate) links: u64,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) inodes: Vec<Inode>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rename {
    Replace,
    NoReplace,
    Exchange,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetXattr {
    Either,
    Create,
    Replace,
}

pub(crate) const ROOT: Ino = 0;

impl Model {
    pub(crate) fn new() -> Self {
        let mut model = Self { inodes: Vec::new() };
        model.add(Body::Dir(BTreeMap::new()), 0o755);
        model
    }

    fn add(&mut self, body: Body, mode: u32) -> Ino {
        self.inodes.push(Inode { body, mode, links: 1, xattrs: BTreeMap::new() });
        self.inodes.len() - 1
    }

    fn entries(&self, dir: Ino) -> Outcome<&BTreeMap<Vec<u8>, Ino>> {
        match &self.inodes[dir].body {
            Body::Dir(entries) => Ok(entries),
            _ => Err(ENOTDIR),
        }
    }

    fn entries_mut(&mut self, dir: Ino) -> &mut BTreeMap<Vec<u8>, Ino> {
        match &mut self.inodes[dir].body {
            Body::Dir(entries) => entries,
            _ => panic!("checked to be a directory"),
        }
    }

    fn parent_of(&self, dir: Ino) -> Ino {
        let holds = |(_, node): &(Ino, &Inode)| match &node.body {
            Body::Dir(entries) => entries.values().any(|&ino| ino == dir),
            _ => false,
        };
        self.inodes.iter().enumerate().find(holds).map_or(ROOT, |(ino, _)| ino)
    }

    /// The inode at `path`; the last component's symbolic link is followed if `follow`.
    pub(crate) fn lookup(&self, path: &str, follow: bool) -> Outcome<Ino> {
        self.walk(ROOT, path, follow, &mut 0)
    }

    fn walk(&self, from: Ino, path: &str, follow: bool, links: &mut u32) -> Outcome<Ino> {
        let mut at = if path.starts_with('/') { ROOT } else { from };
        let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
        for (index, part) in parts.iter().enumerate() {
            let last = index + 1 == parts.len();
            if *part == ".." {
                self.entries(at)?;
                at = self.parent_of(at);
                continue;
            }
            let next = *self.entries(at)?.get(part.as_bytes()).ok_or(ENOENT)?;
            at = match &self.inodes[next].body {
                Body::Symlink(target) if follow || !last || path.ends_with('/') => {
                    *links += 1;
                    if *links > 40 {
                        return Err(ELOOP);
                    }
                    let target = std::str::from_utf8(target).unwrap().to_owned();
                    self.walk(at, &target, true, links)?
                }
                _ => next,
            };
        }
        if path.ends_with('/') {
            self.entries(at)?;
        }
        Ok(at)
    }

    /// The directory of the last component, and that component.
    fn parent<'a>(&self, path: &'a str) -> Outcome<(Ino, &'a [u8])> {
        let (dir, name) = path.rsplit_once('/').unwrap_or((".", path));
        let dir = self.lookup(if dir.is_empty() { "/" } else { dir }, true)?;
        self.entries(dir)?;
        Ok((dir, name.as_bytes()))
    }

    /// Opens for writing: the file's inode. Creates it if it is missing.
    pub(crate) fn create(&mut self, path: &str, exclusive: bool, truncate: bool, mode: u32) -> Outcome<Ino> {
        let (dir, name) = self.parent(path)?;
        if self.entries(dir)?.contains_key(name) {
            if exclusive {
                return Err(EEXIST);
            }
            let ino = match self.lookup(path, true) {
                // A dangling symbolic link: the file is made where it points.
                Err(ENOENT) => {
                    let Body::Symlink(target) = &self.inodes[self.lookup(path, false)?].body else {
                        return Err(ENOENT);
                    };
                    let target = String::from_utf8(target.clone()).unwrap();
                    let base = path.rsplit_once('/').map_or("", |(dir, _)| dir);
                    let full = if target.starts_with('/') { target } else { format!("{base}/{target}") };
                    return self.create(&full, exclusive, truncate, mode);
                }
                other => other?,
            };
            return match &mut self.inodes[ino].body {
                Body::Dir(_) => Err(EISDIR),
                Body::File(data) => {
                    if truncate {
                        data.clear();
                    }
                    Ok(ino)
                }
                Body::Symlink(_) => Err(ELOOP),
            };
        }
        let ino = self.add(Body::File(Vec::new()), mode);
        self.entries_mut(dir).insert(name.to_vec(), ino);
        Ok(ino)
    }

    /// Opens an existing file.
    pub(crate) fn open(&self, path: &str) -> Outcome<Ino> {
        let ino = self.lookup(path, true)?;
        match self.inodes[ino].body {
            Body::Dir(_) => Err(EISDIR),
            _ => Ok(ino),
        }
    }

    fn insert(&mut self, path: &str, body: Body, mode: u32) -> Outcome<()> {
        let (dir, name) = self.parent(path)?;
        if self.entries(dir)?.contains_key(name) {
            return Err(EEXIST);
        }
        let ino = self.add(body, mode);
        self.entries_mut(dir).insert(name.to_vec(), ino);
        Ok(())
    }

    pub(crate) fn mkdir(&mut self, path: &str, mode: u32) -> Outcome<()> {
        let (dir, _) = self.parent(path)?;
        let inherited = self.inodes[dir].mode & 0o2000;
        self.insert(path, Body::Dir(BTreeMap::new()), mode | inherited)
    }

    pub(crate) fn symlink(&mut self, target: &str, path: &str) -> Outcome<()> {
        self.insert(path, Body::Symlink(target.as_bytes().to_vec()), 0o777)
    }

    pub(crate) fn link(&mut self, old: &str, new: &str) -> Outcome<()> {
        let ino = self.lookup(old, false)?;
        match self.inodes[ino].body {
            Body::File(_) => {}
            _ => return Err(EPERM),
        }
        let (dir, name) = self.parent(new)?;
        if self.entries(dir)?.contains_key(name) {
            return Err(EEXIST);
        }
        self.entries_mut(dir).insert(name.to_vec(), ino);
        self.inodes[ino].links += 1;
        Ok(())
    }

    pub(crate) fn unlink(&mut self, path: &str) -> Outcome<()> {
        let (dir, name) = self.parent(path)?;
        let ino = *self.entries(dir)?.get(name).ok_or(ENOENT)?;
        if matches!(self.inodes[ino].body, Body::Dir(_)) {
            return Err(EISDIR);
        }
        self.entries_mut(dir).remove(name);
        self.inodes[ino].links -= 1;
        Ok(())
    }

    pub(crate) fn rmdir(&mut self, path: &str) -> Outcome<()> {
        let (dir, name) = self.parent(path)?;
        let ino = *self.entries(dir)?.get(name).ok_or(ENOENT)?;
        if !self.entries(ino)?.is_empty() {
            return Err(ENOTEMPTY);
        }
        self.entries_mut(dir).remove(name);
        self.inodes[ino].links -= 1;
        Ok(())
    }

    fn is_below(&self, dir: Ino, above: Ino) -> bool {
        let mut at = dir;
        loop {
            if at == above {
                return true;
            }
            if at == ROOT {
                return false;
            }
            at = self.parent_of(at);
        }
    }

    pub(crate) fn rename(&mut self, old: &str, new: &str, how: Rename) -> Outcome<()> {
        let (from_dir, from) = self.parent(old)?;
        let (to_dir, to) = self.parent(new)?;
        let source = *self.entries(from_dir)?.get(from).ok_or(ENOENT)?;
        let victim = self.entries(to_dir)?.get(to).copied();
        let is_dir = |model: &Self, ino: Ino| matches!(model.inodes[ino].body, Body::Dir(_));
        if how == Rename::NoReplace && victim.is_some() {
            return Err(EEXIST);
        }
        if how == Rename::Exchange && victim.is_none() {
            return Err(ENOENT);
        }
        if is_dir(self, source) && self.is_below(to_dir, source) {
            return Err(EINVAL);
        }
        if how == Rename::Exchange {
            let victim = victim.ok_or(ENOENT)?;
            if is_dir(self, victim) && self.is_below(from_dir, victim) {
                return Err(EINVAL);
            }
            self.entries_mut(from_dir).insert(from.to_vec(), victim);
            self.entries_mut(to_dir).insert(to.to_vec(), source);
            return Ok(());
        }
        if let Some(victim) = victim {
            if victim == source {
                return Ok(());
            }
            match (is_dir(self, source), is_dir(self, victim)) {
                (true, false) => return Err(ENOTDIR),
                (false, true) => return Err(EISDIR),
                (true, true) if !self.entries(victim)?.is_empty() => return Err(ENOTEMPTY),
                _ => {}
            }
            self.inodes[victim].links -= 1;
        }
        self.entries_mut(from_dir).remove(from);
        self.entries_mut(to_dir).insert(to.to_vec(), source);
        Ok(())
    }

    pub(crate) fn data(&self, ino: Ino) -> &[u8] {
        match &self.inodes[ino].body {
            Body::File(data) => data,
            _ => panic!("only files are opened"),
        }
    }

    fn data_mut(&mut self, ino: Ino) -> &mut Vec<u8> {
        match &mut self.inodes[ino].body {
            Body::File(data) => data,
            _ => panic!("only files are opened"),
        }
    }

    pub(crate) fn write(&mut self, ino: Ino, offset: usize, bytes: &[u8]) {
        let data = self.data_mut(ino);
        if !bytes.is_empty() {
            data.resize(data.len().max(offset + bytes.len()), 0);
            data[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    pub(crate) fn append(&mut self, ino: Ino, bytes: &[u8]) {
        self.data_mut(ino).extend_from_slice(bytes);
    }

    pub(crate) fn truncate(&mut self, ino: Ino, len: usize) {
        self.data_mut(ino).resize(len, 0);
    }

    pub(crate) fn punch(&mut self, ino: Ino, offset: usize, len: usize) {
        let data = self.data_mut(ino);
        let end = data.len().min(offset + len);
        if offset < end {
            data[offset..end].fill(0);
        }
    }

    pub(crate) fn set_xattr(&mut self, ino: Ino, name: &str, value: &[u8], how: SetXattr) -> Outcome<()> {
        let xattrs = &mut self.inodes[ino].xattrs;
        match (how, xattrs.contains_key(name.as_bytes())) {
            (SetXattr::Create, true) => return Err(EEXIST),
            (SetXattr::Replace, false) => return Err(ENODATA),
            _ => {}
        }
        xattrs.insert(name.as_bytes().to_vec(), value.to_vec());
        Ok(())
    }

    pub(crate) fn remove_xattr(&mut self, ino: Ino, name: &str) -> Outcome<()> {
        self.inodes[ino].xattrs.remove(name.as_bytes()).map(|_| ()).ok_or(ENODATA)
    }
}
