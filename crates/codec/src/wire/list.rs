//! An enumeration and its answer.
//!
//! Invariants: the keys of an answer are as many as their ends, which ascend to the length of their bytes.

use super::field::{Field, Writer, choice, read_blob, read_list, record};
use crate::bytes::Reader;
use crate::verb::{Change, ChangeKind, List, ListWhat, Listed, ListedExtent, PackedKeys, ReadAt};
use dolmen_types::limits::{LIST_BYTES_MAX, LIST_ITEMS_MAX};
use dolmen_types::{Anchor, Epoch, Key, Oid, Recx};

record!(ListedExtent { recx: Recx, record_bytes: u64, epoch: Epoch, single: bool });
choice!(ChangeKind { Added = 0, Removed = 1, Modified = 2 });
record!(Change { oid: Oid, dkey: Key, akey: Key, kind: ChangeKind });

/// What is listed. Persistent: never renumber.
const OBJECTS: u8 = 0;
const DKEYS: u8 = 1;
const AKEYS: u8 = 2;
const EXTENTS: u8 = 3;
const CHANGES: u8 = 4;
/// In an answer: dkeys or akeys.
const KEYS: u8 = 1;

impl Field for ListWhat {
    const BYTES_MIN: usize = 1;

    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Objects => w.put(&OBJECTS),
            Self::Dkeys(oid) => {
                w.put(&DKEYS);
                w.put(oid);
            }
            Self::Akeys(oid, dkey) => {
                w.put(&AKEYS);
                w.put(oid);
                w.put(dkey);
            }
            Self::Extents(oid, dkey, akey) => {
                w.put(&EXTENTS);
                w.put(oid);
                w.put(dkey);
                w.put(akey);
            }
            Self::Changes { from, to } => {
                w.put(&CHANGES);
                w.put(from);
                w.put(to);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            OBJECTS => Self::Objects,
            DKEYS => Self::Dkeys(Oid::read(r)?),
            AKEYS => Self::Akeys(Oid::read(r)?, Key::read(r)?),
            EXTENTS => Self::Extents(Oid::read(r)?, Key::read(r)?, Key::read(r)?),
            CHANGES => Self::Changes { from: Epoch::read(r)?, to: Epoch::read(r)? },
            _ => return None,
        })
    }
}

/// What asks for more than an answer may hold asks for that: whoever lists goes on from the anchor.
impl Field for List {
    const BYTES_MIN: usize = ListWhat::BYTES_MIN + Anchor::BYTES_MIN + 4 + 4 + ReadAt::BYTES_MIN;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.what);
        w.put(&self.anchor);
        w.put(&self.items_max.min(LIST_ITEMS_MAX));
        w.put(&self.bytes_max.min(LIST_BYTES_MAX));
        w.put(&self.at);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let (what, anchor) = (ListWhat::read(r)?, Anchor::read(r)?);
        let items_max = r.u32().filter(|&items| items <= LIST_ITEMS_MAX)?;
        let bytes_max = r.u32().filter(|&bytes| bytes <= LIST_BYTES_MAX)?;
        Some(Self { what, anchor, items_max, bytes_max, at: ReadAt::read(r)? })
    }
}

impl Field for PackedKeys {
    const BYTES_MIN: usize = 4 + 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.blob(&self.bytes);
        w.list(&self.ends, ITEMS_MAX);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let bytes = read_blob(r)?;
        let ends: Vec<u32> = read_list(r, ITEMS_MAX)?;
        let last = ends.last().map_or(0, |&end| u64::from(end));
        let keys = Self { bytes: bytes.to_vec(), ends };
        (keys.ends.is_sorted() && last == bytes.len() as u64).then_some(keys)
    }
}

const ITEMS_MAX: usize = LIST_ITEMS_MAX as usize;

impl Field for Listed {
    const BYTES_MIN: usize = 1 + 4;

    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Objects(oids) => {
                w.put(&OBJECTS);
                w.list(oids, ITEMS_MAX);
            }
            Self::Keys(keys) => {
                w.put(&KEYS);
                w.put(keys);
            }
            Self::Extents(extents) => {
                w.put(&EXTENTS);
                w.list(extents, ITEMS_MAX);
            }
            Self::Changes(changes) => {
                w.put(&CHANGES);
                w.list(changes, ITEMS_MAX);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            OBJECTS => Self::Objects(read_list(r, ITEMS_MAX)?),
            KEYS => Self::Keys(PackedKeys::read(r)?),
            EXTENTS => Self::Extents(read_list(r, ITEMS_MAX)?),
            CHANGES => Self::Changes(read_list(r, ITEMS_MAX)?),
            _ => return None,
        })
    }
}
