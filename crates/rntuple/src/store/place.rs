//! Where things of the store are: objects, dkeys and akeys.
//!
//! | object | dkey | akeys |
//! |---|---|---|
//! | catalogue | name of an ntuple | `id` |
//! | writers | `writer/` number | `record` |
//! | ntuple | `current` | `anchor` of the version to read |
//! | | `config` | `record` |
//! | | `v/` number | `anchor`, `header`, `footer/`…, `list/`…, `zones/`…, `counts` |
//! | | `tag/` name | `record` |
//! | cluster | column group | `pages`, an array of bytes |
//!
//! Invariants: numbers of ntuples, writers and clusters come from the container and are never given twice; what a version wrote never
//! changes.

use crate::format::locator::Locator;
use dolmen_client::{Container, Object, ObjectClass, ObjectType, Oid, Result};

/// User bits of the objects of the store but clusters. Persistent: never renumber.
const USER_HI_NTUPLE: u32 = 0x4e54_504c;

/// User bits of the objects of clusters. Persistent: never renumber.
const USER_HI_CLUSTER: u32 = 0x4e54_5043;

/// The object that a locator names for what is in the ntuple's own.
const OWN: u64 = u64::MAX;

/// Numbers that objects of the store itself have.
pub(super) const RESERVED: u64 = 2;

/// Bits of the group in such a locator that number things of one kind.
const INDEX_BITS: u32 = 24;

/// The dkey of the version to read.
pub(super) const CURRENT: &[u8] = b"current";
/// The dkey of the settings.
pub(super) const CONFIG: &[u8] = b"config";
/// The akey of an anchor.
pub(super) const ANCHOR: &[u8] = b"anchor";
/// The akey of other records.
pub(super) const RECORD: &[u8] = b"record";
/// The akey of a catalogue's entry.
pub(super) const ID: &[u8] = b"id";
/// The akey of a version's counts of elements.
pub(super) const COUNTS: &[u8] = b"counts";
/// The akey of when a version was replaced by one that was freed since.
pub(super) const REPLACED: &[u8] = b"replaced";
/// The akeys of all records of a version, which are there and go with it; others are parts that later versions may refer to.
pub(super) const OF_VERSION: [&[u8]; 3] = [ANCHOR, COUNTS, REPLACED];
/// The akey of sealed pages.
pub(super) const PAGES: &[u8] = b"pages";

/// What dkeys of versions begin with.
const VERSION: &str = "v/";
/// What dkeys of tags begin with.
const TAG: &str = "tag/";
/// What dkeys of writers begin with.
const WRITER: &str = "writer/";

/// What a version may have in the ntuple's object. Persistent: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Part {
    /// The header's envelope.
    Header = 0,
    /// The footer's envelope of a family.
    Footer = 1,
    /// A page list's envelope.
    List = 2,
}

/// An object with records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Records {
    /// The catalogue.
    Catalogue,
    /// Who is writing.
    Writers,
    /// An ntuple, by its number.
    Ntuple(u64),
}

impl Records {
    /// The number that tells it from others.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Catalogue => 0,
            Self::Writers => 1,
            Self::Ntuple(number) => number,
        }
    }

    /// The one of a number.
    pub(super) fn numbered(number: u64) -> Self {
        match number {
            0 => Self::Catalogue,
            1 => Self::Writers,
            number => Self::Ntuple(number),
        }
    }
}

/// The object of a container that has records.
pub(super) fn oid(records: Records) -> Oid {
    let kind = match records {
        Records::Catalogue => ObjectType::MultiHashed,
        Records::Writers | Records::Ntuple(_) => ObjectType::DkeyLexical,
    };
    Oid::new(kind, ObjectClass::S1, USER_HI_NTUPLE, records.number())
}

/// The object of a cluster, by its number and the class of its ntuple.
pub(super) fn cluster(cont: &Container, class: ObjectClass, number: u64) -> Result<Object> {
    cont.object(Oid::new(ObjectType::DkeyUint64, class, USER_HI_CLUSTER, number))
}

/// What an object of the store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Named {
    /// A cluster of this number.
    Cluster(u64),
    /// An ntuple of this number.
    Ntuple(u64),
}

/// What an object is; none of those that are no cluster's or ntuple's.
pub(super) fn named(oid: Oid) -> Option<Named> {
    let bits = u32::try_from(oid.hi & u64::from(u32::MAX)).expect("so many are left");
    match bits {
        USER_HI_CLUSTER => Some(Named::Cluster(oid.lo)),
        USER_HI_NTUPLE if oid.lo > 1 => Some(Named::Ntuple(oid.lo)),
        _ => None,
    }
}

/// The dkey of a column group.
pub(super) fn group(number: u32) -> [u8; 8] {
    u64::from(number).to_le_bytes()
}

/// The dkey of a version.
pub(super) fn version(number: u64) -> Vec<u8> {
    format!("{VERSION}{number:016x}").into_bytes()
}

/// The version whose dkey it is.
pub(super) fn version_of(dkey: &[u8]) -> Option<u64> {
    numbered(VERSION, dkey)
}

/// The dkey of a tag.
pub(super) fn tag(name: &str) -> Vec<u8> {
    format!("{TAG}{name}").into_bytes()
}

/// The tag whose dkey it is.
pub(super) fn tag_of(dkey: &[u8]) -> Option<&str> {
    core::str::from_utf8(dkey).ok()?.strip_prefix(TAG)
}

/// The dkey of a writer.
pub(super) fn writer(number: u64) -> Vec<u8> {
    format!("{WRITER}{number:016x}").into_bytes()
}

fn numbered(before: &str, dkey: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(dkey).ok()?.strip_prefix(before)?;
    u64::from_str_radix(text, 16).ok()
}

/// The locator of a part of a version.
pub(super) fn own(part: Part, index: u32, version: u64, bytes: u32) -> Locator {
    assert!(index < 1 << INDEX_BITS, "a version has fewer lists");
    let group = u32::from(part as u8) << INDEX_BITS | index;
    Locator::Stored { object: OWN, group, offset: version, bytes }
}

/// The version and the akey of what such a locator names; none of a cluster's.
pub(super) fn akey_of(locator: Locator) -> Option<(u64, Vec<u8>)> {
    let Locator::Stored { object: OWN, group, offset, .. } = locator else { return None };
    let index = group & ((1 << INDEX_BITS) - 1);
    let akey = match group >> INDEX_BITS {
        0 => "header".to_owned(),
        1 => format!("footer/{index}"),
        _ => format!("list/{index}"),
    };
    Some((offset, akey.into_bytes()))
}

/// The version of a list, and the akey of the zones beside it.
pub(super) fn zones_of(list: Locator) -> Option<(u64, Vec<u8>)> {
    let Locator::Stored { object: OWN, group, offset, .. } = list else { return None };
    let index = group & ((1 << INDEX_BITS) - 1);
    Some((offset, format!("zones/{index}").into_bytes()))
}
