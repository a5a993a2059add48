//! What the kernel knows of files that an engine has, by its own numbers and by those of a session; and the requests and replies
//! in which these are.

use crate::abi::op::LockOp;
use crate::abi::reply::ENTRY_BYTES;
use crate::abi::request::HEAD_BYTES;
use crate::abi::{ROOT, long, word};
use crate::options::Timeouts;
use core::time::Duration;
use hashbrown::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where an entry has the inode's number and its mode.
const INO_AT: usize = 40;
const MODE_AT: usize = 40 + 60;

/// What an entry of a reply says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// The session's number of it.
    pub(super) node: u64,
    pub(super) ino: u64,
    pub(super) kind: u32,
}

/// How a node is found again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Lookup {
    pub(super) parent: u64,
    pub(super) name: Box<[u8]>,
    pub(super) ino: u64,
    pub(super) kind: u32,
}

/// What is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opened {
    pub(super) node: u64,
    /// The operation that opens it.
    pub(super) code: u32,
    pub(super) flags: u32,
    /// Session, and its number there.
    pub(super) at: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Node {
    /// Directory and name; `None` once it has none that is known.
    name: Option<(u64, Box<[u8]>)>,
    ino: u64,
    kind: u32,
    lookups: u64,
    /// Session, its number there, and how often it was found there.
    at: Option<(u64, u64, u64)>,
}

#[derive(Debug, Default)]
struct Tables {
    nodes: HashMap<u64, Node>,
    by_ino: HashMap<u64, u64>,
    by_name: HashMap<(u64, Box<[u8]>), u64>,
    opens: HashMap<u64, Opened>,
    /// The last number that was given out, below which none is given out again.
    last: u64,
}

/// All that the kernel knows.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Guards: all of it; taken alone.
    tables: Mutex<Tables>,
}

impl Known {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what was found in a session, maybe by a name; its number.
    pub(super) fn remember(&self, session: u64, name: Option<(u64, &[u8])>, found: &Found) -> u64 {
        let tables = &mut *self.tables();
        let name = name.map(|(dir, name)| (dir, Box::from(name)));
        let known = tables.by_ino.get(&found.ino).copied();
        let known = known.filter(|node| tables.nodes.get(node).is_some_and(|node| node.kind == found.kind));
        let number = known.unwrap_or_else(|| tables.next_number());
        let node = tables.nodes.entry(number).or_insert_with(|| Node {
            name: None,
            ino: found.ino,
            kind: found.kind,
            lookups: 0,
            at: None,
        });
        node.lookups += 1;
        node.at = match node.at {
            Some((of, there, count)) if of == session && there == found.node => Some((of, there, count + 1)),
            _ => Some((session, found.node, 1)),
        };
        tables.by_ino.insert(found.ino, number);
        if let Some(name) = name {
            tables.set_name(number, name);
        }
        number
    }

    /// The number of a node in a session; else how it is found there, if it has a name.
    pub(super) fn node_in(&self, session: u64, node: u64) -> Result<u64, Option<Lookup>> {
        if node == ROOT {
            return Ok(ROOT);
        }
        let tables = self.tables();
        let known = tables.nodes.get(&node).ok_or(None)?;
        match &known.at {
            Some((of, there, _)) if *of == session => Ok(*there),
            _ => {
                let (parent, name) = known.name.clone().ok_or(None)?;
                Err(Some(Lookup { parent, name, ino: known.ino, kind: known.kind }))
            }
        }
    }

    /// A node was found again; false if it was found by somebody else meanwhile, or is known no more.
    pub(super) fn found_again(&self, session: u64, node: u64, there: u64) -> bool {
        let mut tables = self.tables();
        let Some(known) = tables.nodes.get_mut(&node) else { return false };
        if known.at.is_some_and(|(of, ..)| of == session) {
            return false;
        }
        known.at = Some((session, there, 1));
        true
    }

    /// Takes lookups back. Of what nobody knows any more: session, number there, and how often it was found there.
    pub(super) fn forget(&self, node: u64, lookups: u64) -> Option<(u64, u64, u64)> {
        let tables = &mut *self.tables();
        let known = tables.nodes.get_mut(&node)?;
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups > 0 {
            return None;
        }
        let gone = tables.nodes.remove(&node)?;
        if tables.by_ino.get(&gone.ino) == Some(&node) {
            tables.by_ino.remove(&gone.ino);
        }
        if let Some(name) = gone.name
            && tables.by_name.get(&name) == Some(&node)
        {
            tables.by_name.remove(&name);
        }
        gone.at
    }

    /// Forgets the session's numbers of so many things that are found again by name, those first that are known for longest, and not
    /// what is open: numbers there, and how often each was found.
    pub(super) fn forget_old(&self, session: u64, count_max: usize) -> Vec<(u64, u64)> {
        let tables = &mut *self.tables();
        let open: HashSet<u64> = tables.opens.values().map(|opened| opened.node).collect();
        let is_found_again = |(number, node): &(&u64, &Node)| {
            node.name.is_some() && node.at.is_some_and(|(of, ..)| of == session) && !open.contains(*number)
        };
        let mut old: Vec<u64> =
            tables.nodes.iter().filter(is_found_again).map(|(number, _)| *number).collect();
        old.sort_unstable();
        old.truncate(count_max);
        let taken = old.iter().filter_map(|number| tables.nodes.get_mut(number)?.at.take());
        taken.map(|(_, there, count)| (there, count)).collect()
    }

    /// A name is gone.
    pub(super) fn unnamed(&self, dir: u64, name: &[u8]) {
        self.tables().take_name((dir, Box::from(name)));
    }

    /// A name is now another, or both are exchanged.
    pub(super) fn renamed(&self, (dir, name): (u64, &[u8]), (new_dir, new_name): (u64, &[u8]), both: bool) {
        let tables = &mut *self.tables();
        let (old, new) = ((dir, Box::from(name)), (new_dir, Box::from(new_name)));
        let (moved, other) = (tables.take_name(Clone::clone(&old)), tables.take_name(Clone::clone(&new)));
        if let Some(moved) = moved {
            tables.set_name(moved, new);
        }
        if let Some(other) = other.filter(|_| both) {
            tables.set_name(other, old);
        }
    }

    pub(super) fn open(&self, opened: Opened) -> u64 {
        let tables = &mut *self.tables();
        let number = tables.next_number();
        tables.opens.insert(number, opened);
        number
    }

    pub(super) fn opened(&self, handle: u64) -> Option<Opened> {
        self.tables().opens.get(&handle).copied()
    }

    /// It was opened again; false if somebody else has meanwhile, or it was closed.
    pub(super) fn opened_again(&self, handle: u64, session: u64, there: u64) -> bool {
        let mut tables = self.tables();
        let Some(opened) = tables.opens.get_mut(&handle) else { return false };
        if opened.at.is_some_and(|(of, _)| of == session) {
            return false;
        }
        opened.at = Some((session, there));
        true
    }

    pub(super) fn close(&self, handle: u64) -> Option<Opened> {
        self.tables().opens.remove(&handle)
    }
}

impl Tables {
    fn next_number(&mut self) -> u64 {
        self.last = self.last.max(ROOT) + 1;
        self.last
    }

    fn set_name(&mut self, number: u64, name: (u64, Box<[u8]>)) {
        self.take_name(Clone::clone(&name));
        let Some(node) = self.nodes.get_mut(&number) else { return };
        if let Some(old) = node.name.replace(Clone::clone(&name))
            && self.by_name.get(&old) == Some(&number)
        {
            self.by_name.remove(&old);
        }
        self.by_name.insert(name, number);
    }

    /// The node that had a name, which it has no more.
    fn take_name(&mut self, name: (u64, Box<[u8]>)) -> Option<u64> {
        let number = self.by_name.remove(&name)?;
        if let Some(node) = self.nodes.get_mut(&number)
            && node.name.as_ref() == Some(&name)
        {
            node.name = None;
        }
        Some(number)
    }
}

/// Puts a number where a request has one; a request that is too short for it has none.
pub(super) fn put(request: &mut [u8], at: usize, number: u64) {
    if let Some(place) = request.get_mut(at..at + 8) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

/// What an entry says.
pub(super) fn found(told: &[u8]) -> Option<Found> {
    let entry = told.get(..ENTRY_BYTES)?;
    Some(Found { node: long(entry, 0)?, ino: long(entry, INO_AT)?, kind: word(entry, MODE_AT)? >> 12 })
}

/// A request that nobody has asked for.
pub(super) fn request(code: u32, node: u64, own: &[u8]) -> Vec<u8> {
    let len = u32::try_from(HEAD_BYTES + own.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEAD_BYTES + own.len());
    for word in [len, code, 1, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&node.to_le_bytes());
    bytes.extend_from_slice(&[0; 16]);
    bytes.extend_from_slice(own);
    bytes
}

/// What is asked to forget these, each as often as it was found.
pub(super) fn forgets(nodes: &[(u64, u64)]) -> Vec<u8> {
    let mut own = u32::try_from(nodes.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    own.extend_from_slice(&[0; 4]);
    for number in nodes.iter().flat_map(|(node, count)| [node, count]) {
        own.extend_from_slice(&number.to_le_bytes());
    }
    own
}

/// What is asked to open something again: nothing is made or cut off by that.
pub(super) fn open_again(flags: u32) -> [u8; 8] {
    const ONCE: u32 = 0o100 | 0o200 | 0o1000;
    let mut own = [0; 8];
    own[..4].copy_from_slice(&(flags & !ONCE).to_le_bytes());
    own
}

/// What is asked to free what somebody has locked.
pub(super) fn unlock(handle: u64, op: &LockOp) -> Vec<u8> {
    const FREE: u32 = 2;
    let mut own = Vec::new();
    for number in [handle, op.owner, op.first, op.last] {
        own.extend_from_slice(&number.to_le_bytes());
    }
    for word in [FREE, op.pid, u32::from(op.is_whole), 0] {
        own.extend_from_slice(&word.to_le_bytes());
    }
    own
}

/// Says an entry in the relay's number, and for how long it is to be believed.
pub(super) fn set_entry(told: &mut [u8], node: u64, timeouts: Timeouts) {
    let Some(entry) = told.get_mut(..ENTRY_BYTES) else { return };
    let Timeouts { names, attrs } = timeouts;
    entry[..8].copy_from_slice(&node.to_le_bytes());
    entry[16..24].copy_from_slice(&names.as_secs().to_le_bytes());
    entry[24..32].copy_from_slice(&attrs.as_secs().to_le_bytes());
    entry[32..36].copy_from_slice(&names.subsec_nanos().to_le_bytes());
    entry[36..40].copy_from_slice(&attrs.subsec_nanos().to_le_bytes());
}

/// The same of attributes.
pub(super) fn set_attr_timeout(told: &mut [u8], timeout: Duration) {
    if let Some(head) = told.get_mut(..12) {
        head[..8].copy_from_slice(&timeout.as_secs().to_le_bytes());
        head[8..].copy_from_slice(&timeout.subsec_nanos().to_le_bytes());
    }
}
