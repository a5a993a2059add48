//! What the kernel remembers, and what is open, by numbers.

use super::Done;
use dolmen_fuse::reply::{self, Out};
use rustix::fd::OwnedFd;
use rustix::fs::{Dir, FileType, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The root directory's number.
const ROOT: u64 = 1;

/// A file as the system knows it: device and number.
type Key = (u64, u64);

struct Node {
    fd: Arc<OwnedFd>,
    key: Key,
    lookups: u64,
}

#[derive(Default)]
struct Known {
    by_number: HashMap<u64, Node>,
    by_key: HashMap<Key, u64>,
    last: u64,
}

/// All that the kernel remembers. Each has a descriptor, so that its file is not another's meanwhile.
pub(super) struct Nodes {
    /// Guards: both maps; taken alone.
    known: Mutex<Known>,
}

impl Nodes {
    pub(super) fn new(root: OwnedFd) -> Done<Self> {
        let stat = rustix::fs::fstat(&root)?;
        let nodes = Self { known: Mutex::default() };
        let number = nodes.remember(root, &stat);
        assert_eq!(number, ROOT, "it is the first");
        Ok(nodes)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, number: u64) -> Done<Arc<OwnedFd>> {
        self.known().by_number.get(&number).map(|node| Arc::clone(&node.fd)).ok_or(Errno::STALE)
    }

    /// Counts a lookup; the node's number.
    pub(super) fn remember(&self, fd: OwnedFd, stat: &Stat) -> u64 {
        let key = (stat.st_dev, stat.st_ino);
        let mut known = self.known();
        if let Some(number) = known.by_key.get(&key).copied()
            && let Some(node) = known.by_number.get_mut(&number)
        {
            node.lookups += 1;
            return number;
        }
        known.last += 1;
        let number = known.last;
        known.by_key.insert(key, number);
        known.by_number.insert(number, Node { fd: Arc::new(fd), key, lookups: 1 });
        number
    }

    /// Takes lookups back.
    pub(super) fn forget(&self, number: u64, lookups: u64) {
        let mut known = self.known();
        let Some(node) = known.by_number.get_mut(&number) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups > 0 || number == ROOT {
            return;
        }
        let gone = known.by_number.remove(&number);
        if let Some(node) = &gone {
            known.by_key.remove(&node.key);
        }
        drop(known);
        // Its descriptor is closed when nobody waits for the lock.
        drop(gone);
    }
}

/// What is open.
pub(super) enum Open {
    File(OwnedFd),
    /// Names of a directory with number and kind, as they were when it was opened.
    List(Vec<(Vec<u8>, u64, u32)>),
}

impl Open {
    pub(super) fn list(dir: OwnedFd) -> Done<Self> {
        let entry = |entry: Done<rustix::fs::DirEntry>| {
            let entry = entry?;
            Ok((entry.file_name().to_bytes().to_vec(), entry.ino(), kind_of(entry.file_type())))
        };
        Dir::new(dir)?.map(entry).collect::<Done<_>>().map(Self::List)
    }

    pub(super) fn fd(&self) -> Done<&OwnedFd> {
        match self {
            Self::File(fd) => Ok(fd),
            Self::List(_) => Err(Errno::ISDIR),
        }
    }

    /// Names from a place on, as many as there is room for.
    pub(super) fn read_names(&self, offset: u64, room_bytes: usize, out: &mut Out) -> Done {
        let Self::List(names) = self else { return Err(Errno::NOTDIR) };
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        for ((name, ino, kind), next) in names.iter().zip(1..).skip(first) {
            if out.as_slice().len() + reply::dirent_bytes(name) > room_bytes {
                break;
            }
            reply::dirent(out, *ino, next, *kind, name);
        }
        Ok(())
    }
}

/// As a listing has it.
fn kind_of(kind: FileType) -> u32 {
    match kind {
        FileType::Directory => 4,
        FileType::RegularFile => 8,
        FileType::Symlink => 10,
        _ => 0,
    }
}

#[derive(Default)]
struct Opened {
    by_number: HashMap<u64, Arc<Open>>,
    last: u64,
}

/// All that is open.
#[derive(Default)]
pub(super) struct Handles {
    /// Guards: the map; taken alone.
    opened: Mutex<Opened>,
}

impl Handles {
    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, open: Open) -> u64 {
        let mut opened = self.opened();
        opened.last += 1;
        let number = opened.last;
        opened.by_number.insert(number, Arc::new(open));
        number
    }

    pub(super) fn file(&self, number: u64) -> Done<Arc<Open>> {
        self.opened().by_number.get(&number).cloned().ok_or(Errno::BADF)
    }

    pub(super) fn remove(&self, number: u64) {
        let gone = self.opened().by_number.remove(&number);
        // It is closed when nobody waits for the lock.
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, openat};

    fn opened(path: &str) -> (OwnedFd, Stat) {
        let fd = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let stat = rustix::fs::fstat(&fd).unwrap();
        (fd, stat)
    }

    #[test]
    fn a_file_has_one_number_until_all_its_lookups_are_forgotten() {
        let nodes = Nodes::new(opened("/").0).unwrap();
        let remember = || {
            let (fd, stat) = opened("/proc/self/stat");
            nodes.remember(fd, &stat)
        };
        let number = remember();
        assert_eq!(remember(), number);
        nodes.forget(number, 1);
        assert!(nodes.find(number).is_ok());
        nodes.forget(number, 1);
        assert_eq!(nodes.find(number).err(), Some(Errno::STALE));
        assert_ne!(remember(), number, "a number is not used twice");
        nodes.forget(ROOT, 9);
        assert!(nodes.find(ROOT).is_ok());
    }

    #[test]
    fn a_listing_goes_on_where_there_was_no_room_left() {
        let names = ["a", "bc", "def"].map(|name| (name.as_bytes().to_vec(), 7, 8));
        let open = Open::List(names.to_vec());
        let mut out = Out::default();
        open.read_names(0, 64, &mut out).unwrap();
        assert_eq!(out.as_slice().len(), 64, "two of them");
        out.clear();
        open.read_names(2, 64, &mut out).unwrap();
        assert_eq!(out.as_slice()[24..27], *b"def");
        out.clear();
        open.read_names(3, 64, &mut out).unwrap();
        assert!(out.as_slice().is_empty());
    }
}
