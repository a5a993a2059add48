//! A transaction over the records of a bucket: it sees one root, and replaces it by the next.
//!
//! Invariants: all that it reads is of the root that it began with, and of what it has changed; nobody else sees that before the root that refers
//! to it is there.

use super::super::place::{RESERVED, Records};
use super::bucket::BucketHome;
use super::root::{HERE_BYTES_MAX, Node, Part, Root, Slot};
use crate::bucket::Tag;
use crate::error::{Error, Result};
use core::cell::RefCell;
use std::collections::BTreeMap;
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
    changes: RefCell<Changes>,
}

/// What a transaction has changed.
#[derive(Default, Debug)]
struct Changes {
    nodes: BTreeMap<Records, Node>,
    drawn: u64,
    /// Bytes of the object that it writes.
    object: Vec<u8>,
}

/// What a transaction would have as the next root.
pub(super) struct Next {
    pub(super) number: u128,
    pub(super) root: Root,
    /// The root that it has to replace.
    pub(super) before: Arc<Root>,
    /// The tag of that.
    pub(super) tag: Option<Tag>,
    /// The object that the root refers to.
    pub(super) object: Vec<u8>,
}

impl<'h> Tx<'h> {
    pub(super) fn begin(home: &'h BucketHome, number: u128, (root, tag): (Arc<Root>, Option<Tag>)) -> Self {
        Self { home, number, root, tag, changes: RefCell::default() }
    }

    /// Does something with the records of an object as the transaction sees them.
    fn with<T>(&self, records: Records, look: impl FnOnce(&Node) -> T) -> Result<T> {
        if let Some(node) = self.changes.borrow().nodes.get(&records) {
            return Ok(look(node));
        }
        Ok(look(&*self.home.node(&self.root, records)?))
    }

    /// Changes the records of an object.
    fn change(&self, records: Records, change: impl FnOnce(&mut Node)) -> Result<()> {
        if !self.changes.borrow().nodes.contains_key(&records) {
            let node = Node::clone(&*self.home.node(&self.root, records)?);
            self.changes.borrow_mut().nodes.insert(records, node);
        }
        let mut changes = self.changes.borrow_mut();
        change(changes.nodes.get_mut(&records).expect("it was put there"));
        Ok(())
    }

    pub(super) fn get(&self, records: Records, dkey: &[u8], akey: &[u8]) -> Result<Option<Vec<u8>>> {
        let slot = self.with(records, |node| node.slots.get(&(dkey.to_vec(), akey.to_vec())).cloned())?;
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
        let slots: Vec<_> =
            values.iter().map(|(akey, value)| ((dkey.to_vec(), akey.to_vec()), self.slot(value))).collect();
        self.change(records, |node| node.slots.extend(slots))
    }

    /// Where a record goes.
    fn slot(&self, value: &[u8]) -> Slot {
        if value.len() <= HERE_BYTES_MAX { Slot::Here(value.to_vec()) } else { Slot::There(self.add(value)) }
    }

    /// Puts bytes into the object that it writes.
    fn add(&self, bytes: &[u8]) -> Part {
        let object = &mut self.changes.borrow_mut().object;
        let offset = object.len() as u64;
        object.extend_from_slice(bytes);
        Part {
            object: self.number,
            offset,
            bytes: u32::try_from(bytes.len()).expect("records have fewer bytes"),
        }
    }

    pub(super) fn punch(&self, records: Records, dkey: &[u8]) -> Result<()> {
        self.change(records, |node| node.slots.retain(|(other, _), _| other != dkey))
    }

    pub(super) fn punch_akeys(&self, records: Records, dkey: &[u8], akeys: &[&[u8]]) -> Result<()> {
        self.change(records, |node| {
            for akey in akeys {
                node.slots.remove(&(dkey.to_vec(), akey.to_vec()));
            }
        })
    }

    /// Removes all records of an object, whatever they are.
    pub(super) fn remove(&self, records: Records) {
        self.changes.borrow_mut().nodes.insert(records, Node::default());
    }

    pub(super) fn dkeys(&self, records: Records) -> Result<Vec<Vec<u8>>> {
        self.with(records, Node::dkeys)
    }

    pub(super) fn akeys(&self, records: Records, dkey: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.with(records, |node| node.akeys(dkey))
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
        let drawn = self.changes.borrow().drawn;
        if nodes.is_empty() && drawn == 0 {
            return Ok(None);
        }
        let mut root = self.root.next(self.number);
        root.next_number = root.next_number.max(RESERVED) + drawn;
        for (records, node) in nodes {
            if node.slots.is_empty() {
                root.nodes.remove(&records);
            } else {
                root.nodes.insert(records, self.add(&node.write()?));
            }
        }
        let Self { number, tag, changes, root: before, .. } = self;
        Ok(Some(Next { number, root, before, tag, object: changes.into_inner().object }))
    }
}
