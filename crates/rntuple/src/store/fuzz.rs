//! A door for whoever feeds bytes to records: they are read in the store alone, so that they are not public.

use super::METADATA_COMPRESSION;
use super::home::root::{LEAVES_VERSION, Node, Root};
use super::record::{Anchor, Config, Entry, Kind, Tag, Writer, read_counts, seal, seal_packed_version};
use super::zones;
use crate::error::Result;
use crate::format::block;

/// Reads a record of the kind that the first byte says: as the rest is, and as a right one with it as contents. What can be read is written
/// and read again.
///
/// # Panics
/// If something is other then: that is the find.
pub fn record(bytes: &[u8]) {
    let Some((&kind, contents)) = bytes.split_first() else { return };
    let plain = |kind| seal(kind, |builder| builder.put(contents));
    match kind % 9 {
        0 => same(contents, &plain(Kind::Entry), Entry::read, Entry::write),
        1 => same(contents, &plain(Kind::Config), Config::read, Config::write),
        2 => same(contents, &plain(Kind::Anchor), Anchor::read, Anchor::write),
        3 => same(contents, &plain(Kind::Tag), Tag::read, Tag::write),
        4 => same(contents, &plain(Kind::Writer), Writer::read, Writer::write),
        5 => {
            // What is packed has its length before it: the bytes may say that themselves, too.
            for record in [contents, &plain(Kind::Counts), &packed(Kind::Counts, contents)] {
                if let Ok(counts) = read_counts(record, contents.len() / 8) {
                    assert_eq!(counts.len(), contents.len() / 8);
                }
            }
        }
        6 => {
            let write = |known: &Vec<zones::Known>| zones::write(known).expect("there is memory");
            same(contents, &plain(Kind::Zones), zones::read, write);
            same(contents, &packed(Kind::Zones, contents), zones::read, write);
        }
        7 => {
            let write = |root: &Root| {
                let next = root.next(1);
                assert!(next.recent.ends_with(&[1]) && next.count == root.count + 1);
                root.write().expect("there is memory")
            };
            same(contents, &plain(Kind::Root), Root::read, write);
            same(contents, &packed(Kind::Root, contents), Root::read, write);
        }
        _ => {
            let write = |(node, leaves): &(Node, Vec<_>)| {
                let akeys = node.dkeys().iter().map(|dkey| node.akeys(dkey).len()).sum::<usize>();
                assert_eq!(akeys, node.slots.len(), "each record has one dkey and one akey");
                Node::write(&node.slots, leaves).expect("there is memory")
            };
            same(contents, &plain(Kind::Node), Node::read, write);
            same(contents, &packed(Kind::Node, contents), Node::read, write);
            let with_leaves = seal_packed_version(Kind::Node, LEAVES_VERSION, contents);
            same(contents, &with_leaves.expect("there is memory"), Node::read, write);
        }
    }
}

/// Numbers that are no numbers are unlike themselves, so that what is written is compared, and not what was read.
fn same<T>(bytes: &[u8], record: &[u8], read: fn(&[u8]) -> Result<T>, write: impl Fn(&T) -> Vec<u8>) {
    for bytes in [bytes, record] {
        if let Ok(found) = read(bytes) {
            let written = write(&found);
            let again = read(&written).expect("what was written is read");
            assert_eq!(write(&again), written);
        }
    }
}

fn packed(kind: Kind, contents: &[u8]) -> Vec<u8> {
    let packed = block::compress(METADATA_COMPRESSION, contents).expect("there is memory");
    seal(kind, |builder| {
        builder.u64(contents.len() as u64);
        builder.put(&packed);
    })
}
