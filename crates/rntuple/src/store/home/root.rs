//! What says of a bucket where its records are: the root, and a node for each object with records.
//!
//! A node of more than a few records has most of them in *leaves*, which are nodes as well, and are not written again with it: what a transaction
//! writes does not grow with what was there before.
//!
//! Invariants: a node, and what its slots refer to, never changes; the root alone does, under the condition that it is the one that was read.

use super::super::place::Records;
use super::super::record::{Kind, open_packed, open_packed_version, seal_packed, seal_packed_version};
use crate::error::{Fault, Result, Structure};
use crate::format::{Builder, Cursor};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The longest record that is kept in its node.
pub(super) const HERE_BYTES_MAX: usize = 256;

/// Bytes of the shortest description of a node, and of a slot.
const REFERENCE_BYTES: usize = 8 + PART_BYTES;
const SLOT_BYTES_MIN: usize = 2 + 2 + 2;

/// Bytes of records that a node has beside its leaves, and that a leaf has, about: what is more, and was there before, goes into leaves.
const FOLD_BYTES: usize = 32 << 10;

/// The version of nodes with leaves.
pub(in crate::store) const LEAVES_VERSION: u16 = 2;

/// The longest record, and node.
const RECORD_BYTES_MAX: u32 = 256 << 20;

/// The number behind the last that may be drawn: whoever has drawn one adds to it.
const NUMBER_MAX: u64 = 1 << 62;

/// Transactions that a root names, the last ones: one whose answer was lost is found among them.
pub(super) const RECENT_MAX: usize = 64;

/// Bytes of a part.
const PART_BYTES: usize = 16 + 8 + 4;

/// Kinds of slots. Persistent: never renumber.
const HERE: u16 = 0;
const THERE: u16 = 1;

/// Bytes of an object with records, which a transaction wrote.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::store) struct Part {
    /// The number that the transaction drew at random.
    pub(super) object: u128,
    /// Where in it.
    pub(super) offset: u64,
    /// How many bytes.
    pub(super) bytes: u32,
}

impl Part {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let object = u128::from_le_bytes(cursor.array()?);
        let start = *cursor;
        let (offset, bytes) = (cursor.u64()?, cursor.u32()?);
        if bytes > RECORD_BYTES_MAX || offset.checked_add(bytes.into()).is_none() {
            return Err(start.corrupt(Fault::Value));
        }
        Ok(Self { object, offset, bytes })
    }

    fn write(&self, builder: &mut Builder) {
        builder.put(&self.object.to_le_bytes());
        builder.u64(self.offset);
        builder.u32(self.bytes);
    }
}

/// A state of all records.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(in crate::store) struct Root {
    /// What tells the store from others: the number of its first transaction; 0 before that.
    pub(in crate::store) identity: u128,
    /// How many transactions there were.
    pub(in crate::store) count: u64,
    /// The last ones, the very last behind the others.
    pub(in crate::store) recent: Vec<u128>,
    /// The number that is drawn next, but for those that are reserved.
    pub(super) next_number: u64,
    /// Where the nodes are of the objects with records.
    pub(super) nodes: BTreeMap<Records, Part>,
}

impl Root {
    pub(in crate::store) fn read(bytes: &[u8]) -> Result<Self> {
        let contents = open_packed(Kind::Root, Structure::Record, bytes)?;
        let mut cursor = Cursor::new(Structure::Record, &contents);
        let identity = u128::from_le_bytes(cursor.array()?);
        let (transactions, recent_count) = (cursor.u64()?, cursor.u32()? as usize);
        if recent_count > RECENT_MAX {
            return Err(cursor.corrupt(Fault::Length));
        }
        let number = |_| cursor.array().map(u128::from_le_bytes);
        let recent = (0..recent_count).map(number).collect::<Result<_>>()?;
        let start = cursor;
        let (next_number, count) = (cursor.u64()?, cursor.u32()? as usize);
        if next_number > NUMBER_MAX || transactions > NUMBER_MAX {
            return Err(start.corrupt(Fault::Value));
        }
        if count > cursor.remaining() / REFERENCE_BYTES {
            return Err(cursor.corrupt(Fault::Length));
        }
        let mut nodes = BTreeMap::new();
        for _ in 0..count {
            let records = Records::numbered(cursor.u64()?);
            nodes.insert(records, Part::read(&mut cursor)?);
        }
        if cursor.remaining() > 0 {
            return Err(cursor.corrupt(Fault::Length));
        }
        Ok(Self { identity, count: transactions, recent, next_number, nodes })
    }

    /// The one that a transaction makes of it, but for what that changes.
    pub(in crate::store) fn next(&self, number: u128) -> Self {
        let mut next = self.clone();
        if next.count == 0 {
            next.identity = number;
        }
        next.count += 1;
        next.recent.push(number);
        if next.recent.len() > RECENT_MAX {
            next.recent.remove(0);
        }
        next
    }

    pub(in crate::store) fn write(&self) -> Result<Vec<u8>> {
        let mut builder = Builder::default();
        builder.put(&self.identity.to_le_bytes());
        builder.u64(self.count);
        builder.u32(u32::try_from(self.recent.len()).expect("it names few"));
        self.recent.iter().for_each(|number| builder.put(&number.to_le_bytes()));
        builder.u64(self.next_number);
        builder.u32(u32::try_from(self.nodes.len()).expect("there are fewer ntuples"));
        for (records, part) in &self.nodes {
            builder.u64(records.number());
            part.write(&mut builder);
        }
        seal_packed(Kind::Root, &builder.finish())
    }
}

/// Where a record is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::store) enum Slot {
    /// Here.
    Here(Vec<u8>),
    /// In an object with records.
    There(Part),
}

/// The dkey and the akey of a record.
pub(in crate::store) type RecordKey = (Vec<u8>, Vec<u8>);

/// Some of the records of an object, where they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::store) struct Leaf {
    pub(super) part: Part,
    pub(super) node: Arc<Node>,
}

/// The records of an object.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(in crate::store) struct Node {
    pub(in crate::store) slots: BTreeMap<RecordKey, Slot>,
    /// Leaves that have some of them, as it was read.
    pub(super) leaves: Vec<Leaf>,
}

/// What is written of a node.
struct Layout {
    /// Leaves that are as they were.
    kept: Vec<Part>,
    /// Leaves that are new.
    folded: Vec<BTreeMap<RecordKey, Slot>>,
    rest: BTreeMap<RecordKey, Slot>,
}

impl Node {
    /// Its own records, and where its leaves are.
    pub(in crate::store) fn read(bytes: &[u8]) -> Result<(Self, Vec<Part>)> {
        let (version, contents) = open_packed_version(Kind::Node, LEAVES_VERSION, Structure::Record, bytes)?;
        let mut cursor = Cursor::new(Structure::Record, &contents);
        let leaf_count = if version < LEAVES_VERSION { 0 } else { cursor.u32()? as usize };
        if leaf_count > cursor.remaining() / PART_BYTES {
            return Err(cursor.corrupt(Fault::Length));
        }
        let leaves = (0..leaf_count).map(|_| Part::read(&mut cursor)).collect::<Result<_>>()?;
        let count = cursor.u32()? as usize;
        if count > cursor.remaining() / SLOT_BYTES_MIN {
            return Err(cursor.corrupt(Fault::Length));
        }
        let mut slots = BTreeMap::new();
        for _ in 0..count {
            let (dkey, akey) = (text(&mut cursor)?, text(&mut cursor)?);
            let start = cursor;
            let slot = match cursor.u16()? {
                HERE => Slot::Here(text(&mut cursor)?),
                THERE => Slot::There(Part::read(&mut cursor)?),
                _ => return Err(start.corrupt(Fault::Value)),
            };
            slots.insert((dkey, akey), slot);
        }
        if cursor.remaining() > 0 {
            return Err(cursor.corrupt(Fault::Length));
        }
        Ok((Self { slots, leaves: Vec::new() }, leaves))
    }

    /// Takes the records of its leaves to its own.
    pub(super) fn gather(&mut self, leaves: Vec<Leaf>) {
        for leaf in &leaves {
            for (key, slot) in &leaf.node.slots {
                self.slots.entry(key.clone()).or_insert_with(|| slot.clone());
            }
        }
        self.leaves = leaves;
    }

    /// Writes it, which was `before` when it was read, through `put`; where it is then, or none if it is empty.
    pub(super) fn put(&self, before: &Self, mut put: impl FnMut(&[u8]) -> Part) -> Result<Option<Part>> {
        if self.slots.is_empty() {
            return Ok(None);
        }
        let Layout { mut kept, folded, rest } = self.layout(before);
        for slots in folded {
            kept.push(put(&Self::write(&slots, &[])?));
        }
        Ok(Some(put(&Self::write(&rest, &kept)?)))
    }

    fn layout(&self, before: &Self) -> Layout {
        let is_as_it_was =
            |leaf: &&Leaf| leaf.node.slots.iter().all(|(key, slot)| self.slots.get(key) == Some(slot));
        let leaves: Vec<&Leaf> = before.leaves.iter().filter(is_as_it_was).collect();
        let in_leaves: BTreeSet<&RecordKey> = leaves.iter().flat_map(|leaf| leaf.node.slots.keys()).collect();
        let own = self.slots.iter().filter(|(key, _)| !in_leaves.contains(key));
        let mut rest: BTreeMap<_, _> = own.map(|(key, slot)| (key.clone(), slot.clone())).collect();
        let kept = leaves.iter().map(|leaf| leaf.part).collect();
        let mut folded = Vec::new();
        if rest.iter().map(bytes_of).sum::<usize>() > FOLD_BYTES {
            // What is new now is likely to change with the next transaction.
            let (old, new): (BTreeMap<_, _>, _) =
                rest.into_iter().partition(|(key, slot)| before.slots.get(key) == Some(slot));
            rest = new;
            let mut bytes = FOLD_BYTES;
            for (key, slot) in old {
                bytes += bytes_of((&key, &slot));
                if bytes > FOLD_BYTES {
                    bytes = bytes_of((&key, &slot));
                    folded.push(BTreeMap::new());
                }
                folded.last_mut().expect("one was pushed").insert(key, slot);
            }
        }
        Layout { kept, folded, rest }
    }

    /// The record of a node with such records of its own, and leaves.
    pub(in crate::store) fn write(slots: &BTreeMap<RecordKey, Slot>, leaves: &[Part]) -> Result<Vec<u8>> {
        let mut builder = Builder::default();
        if !leaves.is_empty() {
            builder.u32(u32::try_from(leaves.len()).expect("there are fewer leaves"));
            leaves.iter().for_each(|leaf| leaf.write(&mut builder));
        }
        builder.u32(u32::try_from(slots.len()).expect("there are fewer records"));
        for ((dkey, akey), slot) in slots {
            put_text(&mut builder, dkey);
            put_text(&mut builder, akey);
            match slot {
                Slot::Here(bytes) => {
                    builder.u16(HERE);
                    put_text(&mut builder, bytes);
                }
                Slot::There(part) => {
                    builder.u16(THERE);
                    part.write(&mut builder);
                }
            }
        }
        let version = if leaves.is_empty() { 1 } else { LEAVES_VERSION };
        seal_packed_version(Kind::Node, version, &builder.finish())
    }

    /// All dkeys with records.
    pub(in crate::store) fn dkeys(&self) -> Vec<Vec<u8>> {
        let mut dkeys: Vec<_> = self.slots.keys().map(|(dkey, _)| dkey.clone()).collect();
        dkeys.dedup();
        dkeys
    }

    /// All akeys with records of a dkey.
    pub(in crate::store) fn akeys(&self, dkey: &[u8]) -> Vec<Vec<u8>> {
        let of_dkey =
            self.slots.range((dkey.to_vec(), Vec::new())..).take_while(|((other, _), _)| other == dkey);
        of_dkey.map(|((_, akey), _)| akey.clone()).collect()
    }
}

/// Bytes of a record as a node has it.
fn bytes_of(((dkey, akey), slot): (&RecordKey, &Slot)) -> usize {
    let slot_bytes = match slot {
        Slot::Here(bytes) => bytes.len(),
        Slot::There(_) => PART_BYTES,
    };
    dkey.len() + akey.len() + slot_bytes + SLOT_BYTES_MIN
}

fn text(cursor: &mut Cursor<'_>) -> Result<Vec<u8>> {
    let bytes = usize::from(cursor.u16()?);
    Ok(cursor.take(bytes)?.to_vec())
}

/// # Panics
/// If it has 64 KiB or more: keys and what is kept in nodes have fewer.
fn put_text(builder: &mut Builder, bytes: &[u8]) {
    builder.u16(u16::try_from(bytes.len()).expect("keys and short records are shorter"));
    builder.put(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Root {
        let part = Part { object: 7 << 64 | 8, offset: 9, bytes: 10 };
        let nodes = [(Records::Catalogue, part), (Records::Ntuple(5), part)].into();
        Root { identity: 2, count: 3, recent: vec![3 << 64 | 4, 5], next_number: 70, nodes }
    }

    fn node() -> Node {
        let slot = |dkey: &[u8], akey: &[u8], slot| ((dkey.to_vec(), akey.to_vec()), slot);
        let there = Slot::There(Part { object: 1, offset: 2, bytes: 300 });
        Node {
            slots: [
                slot(b"a", b"x", Slot::Here(b"short".to_vec())),
                slot(b"a", b"y", there.clone()),
                slot(b"b", b"x", there),
            ]
            .into(),
            leaves: Vec::new(),
        }
    }

    fn written(node: &Node) -> Vec<u8> {
        Node::write(&node.slots, &[]).unwrap()
    }

    #[test]
    fn roots_and_nodes_are_read_as_they_were_written_and_refused_where_they_are_damaged() {
        assert_eq!(Root::read(&root().write().unwrap()).unwrap(), root());
        assert_eq!(Node::read(&written(&node())).unwrap(), (node(), Vec::new()));
        let leaves = [Part { object: 5, offset: 6, bytes: 7 }];
        let with_leaves = Node::write(&node().slots, &leaves).unwrap();
        assert_eq!(Node::read(&with_leaves).unwrap(), (node(), leaves.to_vec()));
        // Only who has leaves is of no use to who knows none.
        assert_eq!((written(&node())[6], with_leaves[6]), (1, 2));
        for bytes in [root().write().unwrap(), written(&node()), with_leaves] {
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x40;
                assert!(Root::read(&damaged).is_err() && Node::read(&damaged).is_err(), "{at}");
                assert!(Root::read(&bytes[..at]).is_err() && Node::read(&bytes[..at]).is_err(), "{at}");
            }
        }
    }

    #[test]
    fn numbers_that_no_writer_writes_are_refused() {
        let refused = |change: &dyn Fn(&mut Root)| {
            let mut root = root();
            change(&mut root);
            Root::read(&root.write().unwrap()).is_err()
        };
        assert!(refused(&|root| root.next_number = u64::MAX));
        assert!(refused(&|root| root.count = u64::MAX));
        assert!(refused(&|root| root.recent = vec![1; RECENT_MAX + 1]));
        let part = |offset, bytes| Part { object: 1, offset, bytes };
        for part in [part(u64::MAX, 300), part(0, u32::MAX)] {
            assert!(refused(&|root| root.nodes = [(Records::Catalogue, part)].into()), "{part:?}");
            let there = [((b"a".to_vec(), b"x".to_vec()), Slot::There(part))].into();
            assert!(Node::read(&Node::write(&there, &[]).unwrap()).is_err());
            assert!(Node::read(&Node::write(&node().slots, &[part]).unwrap()).is_err());
        }
    }

    #[test]
    fn a_root_names_the_last_transactions() {
        let mut root = Root::default();
        for number in 1..=100 {
            root = root.next(number);
        }
        assert_eq!((root.identity, root.count), (1, 100));
        assert_eq!(root.recent, (37..=100).collect::<Vec<_>>());
    }

    /// A store of what is put, by the place of it.
    #[derive(Default)]
    struct Places(BTreeMap<Part, Vec<u8>>);

    impl Places {
        /// Puts a node that was `before`, and reads it again; how many bytes that took.
        fn turn(&mut self, node: &Node, before: &Node) -> (Node, usize) {
            let count = self.0.len();
            let mut bytes = 0;
            let part = node.put(before, |record| {
                bytes += record.len();
                let part = Part { object: 1, offset: self.0.len() as u64, bytes: 1 };
                self.0.insert(part, record.to_vec());
                part
            });
            assert!(self.0.len() > count);
            let (mut read, parts) = Node::read(&self.0[&part.unwrap().unwrap()]).unwrap();
            let leaf = |part| Leaf { part, node: Arc::new(Node::read(&self.0[&part]).unwrap().0) };
            read.gather(parts.into_iter().map(leaf).collect());
            assert_eq!(read.slots, node.slots);
            (read, bytes)
        }
    }

    fn key(at: u32) -> RecordKey {
        (format!("v/{at:016x}").into_bytes(), b"anchor".to_vec())
    }

    /// Bytes that no compression makes fewer.
    fn value(at: u32) -> Slot {
        let mut rng = dolmen_env::Rng::from_seed(u64::from(at));
        Slot::Here((0..150).map(|_| u8::try_from(rng.below(256)).unwrap()).collect())
    }

    #[test]
    fn what_is_written_of_a_node_does_not_grow_with_what_was_there() {
        let (mut places, mut node) = (Places::default(), Node::default());
        let mut bytes = Vec::new();
        for at in 0..1000 {
            let mut next = node.clone();
            next.slots.insert(key(at), value(at));
            next.slots.insert((b"current".to_vec(), b"anchor".to_vec()), value(at));
            let (read, count) = places.turn(&next, &node);
            node = read;
            bytes.push(count);
        }
        assert!(node.leaves.len() > 3, "{}", node.leaves.len());
        let (early, late) = (bytes[100..300].iter().max(), bytes[800..].iter().max());
        assert!(late.unwrap() * 10 < early.unwrap() * 12, "{early:?} {late:?}");
        // Those that are changed in the middle, or gone, are so when they are read.
        let mut next = node.clone();
        next.slots.insert(key(300), value(1));
        next.slots.retain(|other, _| !(key(400)..key(600)).contains(other));
        let (read, count) = places.turn(&next, &node);
        assert_eq!(read.slots.len(), 801);
        assert!(count < 4 * FOLD_BYTES, "{count}: leaves that are as they were are not written again");
        let mut next = read.clone();
        next.slots.retain(|other, _| *other == key(5));
        let (read, count) = places.turn(&next, &read);
        assert_eq!((read.leaves.len(), read.slots.len()), (0, 1));
        assert!(count < 300);
        assert!(Node::default().put(&read, |_| unreachable!("it is empty")).unwrap().is_none());
    }

    #[test]
    fn a_node_lists_dkeys_once_and_akeys_of_one_dkey() {
        assert_eq!(node().dkeys(), [b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(node().akeys(b"a"), [b"x".to_vec(), b"y".to_vec()]);
        assert_eq!(node().akeys(b"b"), [b"x".to_vec()]);
        assert!(node().akeys(b"c").is_empty());
    }
}
