//! A transaction over the records of a bucket: it sees one root, and replaces it by the next.
//!
//! What it has read, and how it has changed nodes, is kept: where others have replaced the root meanwhile, and not what it has read, its changes
//! are made to their root, and what it wrote is not written again.
//!
//! Invariants: all that it reads is of the root that it began with, and of what it has changed; nobody else sees that before the root that refers
//! to it is there; what it has read is the same in the root that its own replaces.

use super::super::place::{RESERVED, Records};
use super::bucket::{BucketHome, draw};
use super::root::{HERE_BYTES_MAX, Node, Part, RecordKey, Root, Slot};
use crate::bucket::Tag;
use crate::error::{Error, Result};
use core::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The longest dkey or akey.
const KEY_BYTES_MAX: usize = 4096;

/// A transaction under way.
#[derive(Debug)]
pub(in crate::store) struct Tx<'h> {
    home: &'h BucketHome,
    /// Its number, drawn at random: that of the object which it writes.
    number: u128,
    root: Arc<Root>,
    tag: Option<Tag>,
    seen: RefCell<BTreeMap<Records, Seen>>,
    changes: RefCell<Changes>,
}

/// What a transaction has read of a node.
#[derive(Debug)]
struct Seen {
    node: Arc<Node>,
    /// Records that it asked for.
    records: BTreeSet<RecordKey>,
    /// Dkeys of which it listed the akeys.
    dkeys: BTreeSet<Vec<u8>>,
    /// Whether it listed the dkeys.
    is_listed: bool,
}

/// A change of a node.
#[derive(Debug)]
enum Change {
    Put(RecordKey, Slot),
    Remove(RecordKey),
    RemoveDkey(Vec<u8>),
    RemoveAll,
}

/// What a transaction has changed.
#[derive(Default, Debug)]
struct Changes {
    /// Nodes as they are with the changes.
    nodes: BTreeMap<Records, Node>,
    /// The changes, in their order.
    all: BTreeMap<Records, Vec<Change>>,
    drawn: u64,
    /// Bytes of the object that it writes.
    object: Vec<u8>,
}

/// What a transaction would have as the next root.
pub(super) struct Next {
    /// The transaction's, and that of its first object.
    pub(super) number: u128,
    /// The root that it has to replace.
    pub(super) before: Arc<Root>,
    /// The tag of that.
    pub(super) tag: Option<Tag>,
    /// What is to be written before the root refers to it.
    pub(super) object: Option<(u128, Vec<u8>)>,
    /// The objects that were written.
    pub(super) written: BTreeSet<u128>,
    seen: BTreeMap<Records, Seen>,
    changes: BTreeMap<Records, Vec<Change>>,
    /// Where the nodes are that it has changed; none of those that are gone.
    nodes: BTreeMap<Records, Option<Part>>,
    drawn: u64,
}

impl Seen {
    /// Whether all that was read is the same there.
    fn is_same(&self, node: &Node) -> bool {
        let is_slot_same = |key| self.node.slots.get(key) == node.slots.get(key);
        self.records.iter().all(is_slot_same)
            && self.dkeys.iter().all(|dkey| self.node.akeys(dkey) == node.akeys(dkey))
            && (!self.is_listed || self.node.slots.keys().eq(node.slots.keys()))
    }
}

impl Change {
    fn make(&self, node: &mut Node) {
        match self {
            Self::Put(key, slot) => {
                node.slots.insert(key.clone(), slot.clone());
            }
            Self::Remove(key) => {
                node.slots.remove(key);
            }
            Self::RemoveDkey(dkey) => node.slots.retain(|(other, _), _| other != dkey),
            Self::RemoveAll => node.slots.clear(),
        }
    }
}

impl Next {
    /// The next root.
    pub(super) fn root(&self) -> Root {
        let mut root = self.before.next(self.number);
        root.next_number = root.next_number.max(RESERVED) + self.drawn;
        for (records, part) in &self.nodes {
            match part {
                Some(part) => root.nodes.insert(*records, *part),
                None => root.nodes.remove(records),
            };
        }
        root
    }

    /// Has it replace another root than the one that it began with: whether what it has read is the same there.
    pub(super) fn follow(&mut self, home: &BucketHome, root: Arc<Root>, tag: Option<Tag>) -> Result<bool> {
        if self.drawn > 0 && root.next_number != self.before.next_number {
            return Ok(false);
        }
        let has_moved = |records: &Records| root.nodes.get(records) != self.before.nodes.get(records);
        for (records, seen) in self.seen.iter().filter(|(records, _)| has_moved(records)) {
            if !seen.is_same(&*home.node(&root, *records)?) {
                return Ok(false);
            }
        }
        let (number, mut object) = (draw()?, Vec::new());
        for (records, changes) in self.changes.iter().filter(|(records, _)| has_moved(records)) {
            let before = match changes.first() {
                // Whatever it was, and whether or not it can be read.
                Some(Change::RemoveAll) => Arc::default(),
                _ => home.node(&root, *records)?,
            };
            let mut node = Node::clone(&before);
            changes.iter().for_each(|change| change.make(&mut node));
            let part = node.put(&before, |record| add(&mut object, number, record))?;
            self.nodes.insert(*records, part);
        }
        (self.before, self.tag) = (root, tag);
        self.object = (!object.is_empty()).then_some((number, object));
        Ok(true)
    }

    /// Objects that were written, and that the next root does not refer to any more.
    pub(super) fn superseded(&self) -> BTreeSet<u128> {
        let nodes = self.nodes.values().flatten().map(|part| part.object);
        let records = self.changes.values().flatten().filter_map(|change| match change {
            Change::Put(_, Slot::There(part)) => Some(part.object),
            _ => None,
        });
        let needed: BTreeSet<u128> = nodes.chain(records).collect();
        self.written.difference(&needed).copied().collect()
    }
}

/// Puts bytes into an object.
fn add(object: &mut Vec<u8>, number: u128, bytes: &[u8]) -> Part {
    let offset = object.len() as u64;
    object.extend_from_slice(bytes);
    Part { object: number, offset, bytes: u32::try_from(bytes.len()).expect("records have fewer bytes") }
}

impl<'h> Tx<'h> {
    pub(super) fn begin(home: &'h BucketHome, number: u128, (root, tag): (Arc<Root>, Option<Tag>)) -> Self {
        Self { home, number, root, tag, seen: RefCell::default(), changes: RefCell::default() }
    }

    /// The records of an object as the transaction sees them, but for what it has changed.
    fn node(&self, records: Records, read: impl FnOnce(&mut Seen)) -> Result<Arc<Node>> {
        if !self.seen.borrow().contains_key(&records) {
            let node = self.home.node(&self.root, records)?;
            let seen = Seen { node, records: BTreeSet::new(), dkeys: BTreeSet::new(), is_listed: false };
            self.seen.borrow_mut().insert(records, seen);
        }
        let mut seen = self.seen.borrow_mut();
        let seen = seen.get_mut(&records).expect("it was put there");
        read(seen);
        Ok(Arc::clone(&seen.node))
    }

    /// Does something with the records of an object as the transaction sees them; `read` says what of them.
    fn with<T>(
        &self,
        records: Records,
        read: impl FnOnce(&mut Seen),
        look: impl FnOnce(&Node) -> T,
    ) -> Result<T> {
        if let Some(node) = self.changes.borrow().nodes.get(&records) {
            if let Some(seen) = self.seen.borrow_mut().get_mut(&records) {
                read(seen);
            }
            return Ok(look(node));
        }
        Ok(look(&*self.node(records, read)?))
    }

    /// Changes the records of an object.
    fn change(&self, records: Records, changes: impl IntoIterator<Item = Change>) -> Result<()> {
        if !self.changes.borrow().nodes.contains_key(&records) {
            let node = Node::clone(&*self.node(records, |_| ())?);
            self.changes.borrow_mut().nodes.insert(records, node);
        }
        let Changes { nodes, all, .. } = &mut *self.changes.borrow_mut();
        let node = nodes.get_mut(&records).expect("it was put there");
        let of_node = all.entry(records).or_default();
        for change in changes {
            change.make(node);
            of_node.push(change);
        }
        Ok(())
    }

    pub(super) fn get(&self, records: Records, dkey: &[u8], akey: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = (dkey.to_vec(), akey.to_vec());
        let read = |seen: &mut Seen| {
            seen.records.insert(key.clone());
        };
        let slot = self.with(records, read, |node| node.slots.get(&key).cloned())?;
        match slot {
            None => Ok(None),
            Some(Slot::There(Part { object, offset, bytes })) if object == self.number => {
                let start = usize::try_from(offset).expect("it is in memory");
                Ok(Some(self.changes.borrow().object[start..start + bytes as usize].to_vec()))
            }
            Some(slot) => Ok(Some(self.home.fetch(&[slot])?.remove(0))),
        }
    }

    pub(super) fn put(&self, records: Records, dkey: &[u8], values: &[(&[u8], &[u8])]) -> Result<()> {
        let longest = values.iter().map(|(akey, _)| akey.len()).chain([dkey.len()]).max().unwrap_or(0);
        if longest > KEY_BYTES_MAX {
            let needed_bytes = longest as u64;
            return Err(Error::Store { source: dolmen_client::Error::KeyTooBig { needed_bytes } });
        }
        let put =
            |(akey, value): &(&[u8], &[u8])| Change::Put((dkey.to_vec(), akey.to_vec()), self.slot(value));
        let changes: Vec<_> = values.iter().map(put).collect();
        self.change(records, changes)
    }

    /// Where a record goes.
    fn slot(&self, value: &[u8]) -> Slot {
        if value.len() <= HERE_BYTES_MAX { Slot::Here(value.to_vec()) } else { Slot::There(self.add(value)) }
    }

    /// Puts bytes into the object that it writes.
    fn add(&self, bytes: &[u8]) -> Part {
        add(&mut self.changes.borrow_mut().object, self.number, bytes)
    }

    pub(super) fn punch(&self, records: Records, dkey: &[u8]) -> Result<()> {
        self.change(records, [Change::RemoveDkey(dkey.to_vec())])
    }

    pub(super) fn punch_akeys(&self, records: Records, dkey: &[u8], akeys: &[&[u8]]) -> Result<()> {
        self.change(records, akeys.iter().map(|akey| Change::Remove((dkey.to_vec(), akey.to_vec()))))
    }

    /// Removes all records of an object, whatever they are.
    pub(super) fn remove(&self, records: Records) {
        let mut changes = self.changes.borrow_mut();
        changes.nodes.insert(records, Node::default());
        changes.all.insert(records, vec![Change::RemoveAll]);
    }

    pub(super) fn dkeys(&self, records: Records) -> Result<Vec<Vec<u8>>> {
        self.with(records, |seen| seen.is_listed = true, Node::dkeys)
    }

    pub(super) fn akeys(&self, records: Records, dkey: &[u8]) -> Result<Vec<Vec<u8>>> {
        let read = |seen: &mut Seen| {
            seen.dkeys.insert(dkey.to_vec());
        };
        self.with(records, read, |node| node.akeys(dkey))
    }

    /// Draws numbers.
    pub(super) fn draw(&self, count: u64) -> u64 {
        let mut changes = self.changes.borrow_mut();
        let first = self.root.next_number.max(RESERVED) + changes.drawn;
        changes.drawn += count;
        first
    }

    /// What it has changed, as the next root; none if that is nothing.
    pub(super) fn end(self) -> Result<Option<Next>> {
        let nodes = core::mem::take(&mut self.changes.borrow_mut().nodes);
        if nodes.is_empty() && self.changes.borrow().drawn == 0 {
            return Ok(None);
        }
        let mut parts = BTreeMap::new();
        for (records, node) in nodes {
            let seen = self.seen.borrow();
            let before = seen.get(&records).map_or_else(Arc::default, |seen| Arc::clone(&seen.node));
            let part = node.put(&before, |record| self.add(record))?;
            parts.insert(records, part);
        }
        let Self { number, tag, seen, changes, root: before, .. } = self;
        let Changes { all: changes, drawn, object, .. } = changes.into_inner();
        Ok(Some(Next {
            number,
            before,
            tag,
            object: (!object.is_empty()).then_some((number, object)),
            written: BTreeSet::new(),
            seen: seen.into_inner(),
            changes,
            nodes: parts,
            drawn,
        }))
    }
}
