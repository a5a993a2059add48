//! Where a store is: in a container, or in an object store of the S3 kind.
//!
//! Both keep *records* (small values by dkey and akey of an object, which transactions change) and *groups* of pages (bytes that are written
//! once). All other modules speak of these, and only this one of where they are.
//!
//! Invariants: a transaction sees one state of all records, and what it changes is seen as a whole or not at all; what was written before
//! [`settle`](Home::settle) survives whatever a later change survives.

pub(super) mod bucket;
pub(super) mod root;
mod tx;

use super::place::{self, Named, Records};
use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::estimate::ROUND_BYTES;
use bucket::BucketHome;
use dolmen_client::{
    Cond, Container, Durability, IoBuf, Key, NewValue, Object, ObjectClass, ObjectType, Oid, PackedKeys,
    Page, Payload, Recx, UpdateIod, Way, side_by_side,
};
use dolmen_env::Clock;
use dolmen_types::Anchor as ListAnchor;
use std::sync::Arc;

/// Values of one update.
const VALUES_MAX: usize = 512;

/// Where a store is; a cheap handle.
#[derive(Clone, Debug)]
pub(super) enum Home {
    Container(Container),
    Bucket(BucketHome),
}

/// At what state records are read or changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum At<'a> {
    /// The latest, each by itself.
    Latest,
    /// That of a transaction.
    Tx(Tx<'a>),
}

/// A transaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tx<'a> {
    Container(&'a dolmen_client::Tx),
    Bucket(&'a tx::Tx<'a>),
}

impl<'a> At<'a> {
    /// For the client of a container.
    fn in_container(self) -> dolmen_client::At<'a> {
        match self {
            Self::Latest => dolmen_client::At::Latest,
            Self::Tx(Tx::Container(tx)) => dolmen_client::At::Tx(tx),
            Self::Tx(Tx::Bucket(_)) => unreachable!("a transaction is of the store that it changes"),
        }
    }

    /// The transaction over objects of a bucket; none if it is not one.
    fn in_bucket(self) -> Option<&'a tx::Tx<'a>> {
        match self {
            Self::Latest => None,
            Self::Tx(Tx::Bucket(tx)) => Some(tx),
            Self::Tx(Tx::Container(_)) => unreachable!("a transaction is of the store that it changes"),
        }
    }
}

/// A cluster or an ntuple that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) named: Named,
    /// Its object, in a container.
    oid: Option<Oid>,
}

/// How a place is best read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Neighbours with fewer bytes between them are read with these.
    pub(super) gap_bytes: u64,
    /// Bytes that requests side by side ask for: what is on the way at once, and in memory twice for a moment.
    pub(super) side_by_side_bytes_max: usize,
    /// Bytes of one round of reading.
    pub(super) fetch_bytes_max: u64,
}

/// As much between as a page of the device, which is read in any case; as many bytes in a round as the processor's cache loses, for
/// as few round trips as that saves.
const OF_CONTAINER: Habits =
    Habits { gap_bytes: 4096, side_by_side_bytes_max: 64 << 20, fetch_bytes_max: 32 << 20 };

/// A request takes as long as some hundred kilobytes of its answer, next to others that are under way: what is between is read up to an eighth of
/// a megabyte, which costs little where bytes are slow, too.
const OF_BUCKET: Habits =
    Habits { gap_bytes: 128 << 10, side_by_side_bytes_max: 256 << 20, fetch_bytes_max: ROUND_BYTES };

impl Home {
    pub(super) fn bucket(bucket: Arc<dyn Bucket>, clock: Arc<dyn Clock>, lease_ns: u64) -> Self {
        Self::Bucket(BucketHome::new(bucket, clock, lease_ns))
    }

    /// Whether both are the same store.
    pub(super) fn is(&self, other: &Self) -> Result<bool> {
        match (self, other) {
            (Self::Container(one), Self::Container(other)) => Ok(one.uuid() == other.uuid()),
            (Self::Bucket(one), Self::Bucket(other)) => one.is(other),
            (Self::Container(_), Self::Bucket(_)) | (Self::Bucket(_), Self::Container(_)) => Ok(false),
        }
    }

    pub(super) fn habits(&self) -> Habits {
        match self {
            Self::Container(_) => OF_CONTAINER,
            Self::Bucket(_) => OF_BUCKET,
        }
    }

    /// The time by the store's own clock, which is the same for all who use it.
    pub(super) fn now_ns(&self) -> Result<u64> {
        match self {
            Self::Container(cont) => Ok(cont.begin()?.epoch().unix_ns()),
            Self::Bucket(home) => home.now_ns(),
        }
    }

    /// A record; none if there is none.
    pub(super) fn get(
        &self,
        at: At<'_>,
        records: Records,
        dkey: &[u8],
        akey: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Container(cont) => {
                let mut buf = IoBuf::default();
                let found = object(cont, records)?.get(at.in_container(), dkey, akey, &mut buf)?;
                Ok(found.map(|_| buf.to_vec()))
            }
            Self::Bucket(home) => match at.in_bucket() {
                Some(tx) => tx.get(records, dkey, akey),
                None => home.get(records, dkey, akey),
            },
        }
    }

    /// Records that never change, in one round trip; none for those that are not there.
    pub(super) fn values(
        &self,
        records: Records,
        keys: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        match self {
            Self::Container(cont) => {
                let own = &object(cont, records)?;
                let asks = keys.iter().map(|(dkey, akey)| async move {
                    let mut buf = IoBuf::default();
                    let found =
                        own.get_by(Way::Later, dolmen_client::At::Latest, dkey, akey, &mut buf).await?;
                    Ok::<_, Error>(found.map(|_| buf.to_vec()))
                });
                cont.together(side_by_side(asks)).into_iter().collect()
            }
            Self::Bucket(home) => home.values(records, keys),
        }
    }

    /// Sets records of a dkey, by their akeys.
    pub(super) fn put(
        &self,
        at: At<'_>,
        records: Records,
        dkey: &[u8],
        values: &[(&[u8], &[u8])],
    ) -> Result<()> {
        match self {
            Self::Container(cont) => {
                let object = object(cont, records)?;
                let iods: Vec<_> = values.iter().map(|(akey, value)| iod(akey, value)).collect();
                for some in iods.chunks(VALUES_MAX) {
                    object.update(at.in_container(), dkey, Cond::NONE, some)?;
                }
                Ok(())
            }
            Self::Bucket(home) => home.within(at.in_bucket(), |tx| tx.put(records, dkey, values)),
        }
    }

    /// Sets a record if there is any of that dkey; whether there was.
    pub(super) fn renew(&self, records: Records, dkey: &[u8], akey: &[u8], value: &[u8]) -> Result<bool> {
        match self {
            Self::Container(cont) => {
                let at = dolmen_client::At::Latest;
                match object(cont, records)?.update(at, dkey, Cond::DKEY_UPDATE, &[iod(akey, value)]) {
                    Ok(_) => Ok(true),
                    Err(dolmen_client::Error::NotFound) => Ok(false),
                    Err(source) => Err(Error::Store { source }),
                }
            }
            Self::Bucket(home) => home.transact(|tx| {
                if tx.akeys(records, dkey)?.is_empty() {
                    return Ok(false);
                }
                tx.put(records, dkey, &[(akey, value)])?;
                Ok(true)
            }),
        }
    }

    /// Removes all records of a dkey.
    pub(super) fn punch(&self, at: At<'_>, records: Records, dkey: &[u8]) -> Result<()> {
        match self {
            Self::Container(cont) => {
                object(cont, records)?.punch_dkey(at.in_container(), dkey, Cond::NONE)?;
                Ok(())
            }
            Self::Bucket(home) => home.within(at.in_bucket(), |tx| tx.punch(records, dkey)),
        }
    }

    /// Removes records of a dkey.
    pub(super) fn punch_akeys(
        &self,
        at: At<'_>,
        records: Records,
        dkey: &[u8],
        akeys: &[&[u8]],
    ) -> Result<()> {
        match self {
            Self::Container(cont) => {
                object(cont, records)?.punch_akeys(at.in_container(), dkey, akeys, Cond::NONE)?;
                Ok(())
            }
            Self::Bucket(home) => home.within(at.in_bucket(), |tx| tx.punch_akeys(records, dkey, akeys)),
        }
    }

    /// All dkeys with records.
    pub(super) fn dkeys(&self, at: At<'_>, records: Records) -> Result<Vec<Vec<u8>>> {
        match self {
            Self::Container(cont) => {
                let mut found = Vec::new();
                each_dkeys(&object(cont, records)?, at, |some| {
                    found.extend(some.iter().map(<[u8]>::to_vec))
                })?;
                Ok(found)
            }
            Self::Bucket(home) => home.within(at.in_bucket(), |tx| tx.dkeys(records)),
        }
    }

    /// All akeys with records of a dkey.
    pub(super) fn akeys(&self, at: At<'_>, records: Records, dkey: &[u8]) -> Result<Vec<Vec<u8>>> {
        match self {
            Self::Container(cont) => {
                let object = object(cont, records)?;
                let (mut found, mut anchor) = (Vec::new(), ListAnchor::default());
                while !anchor.is_eof() {
                    let page = object.list_akeys(at.in_container(), dkey, &mut anchor, Page::default())?;
                    found.extend(page.iter().map(<[u8]>::to_vec));
                }
                Ok(found)
            }
            Self::Bucket(home) => home.within(at.in_bucket(), |tx| tx.akeys(records, dkey)),
        }
    }

    /// Does what `body` says in one transaction, again from the start if others have changed what it has read.
    pub(super) fn transact<T>(&self, mut body: impl FnMut(At<'_>) -> Result<T>) -> Result<T> {
        match self {
            Self::Container(cont) => cont.transact(|tx| body(At::Tx(Tx::Container(tx)))),
            Self::Bucket(home) => home.transact(|tx| body(At::Tx(Tx::Bucket(tx)))),
        }
    }

    /// Does what `body` says with records that nobody else knows of, so that it need not be one transaction, and is where that costs less.
    pub(super) fn unseen(&self, mut body: impl FnMut(At<'_>) -> Result<()>) -> Result<()> {
        match self {
            Self::Container(_) => body(At::Latest),
            Self::Bucket(_) => self.transact(body),
        }
    }

    /// Draws numbers that nobody else has, and keeps a record of the first of them.
    pub(super) fn draw(
        &self,
        count: u64,
        records: Records,
        record: impl Fn(u64) -> (Vec<u8>, Vec<u8>),
    ) -> Result<u64> {
        match self {
            Self::Container(cont) => {
                let first = cont.alloc_oids(count + place::RESERVED)?.max(place::RESERVED);
                let (dkey, value) = record(first);
                object(cont, records)?.put(dolmen_client::At::Latest, &dkey, place::RECORD, &value)?;
                Ok(first)
            }
            Self::Bucket(home) => home.transact(|tx| {
                let first = tx.draw(count);
                let (dkey, value) = record(first);
                tx.put(records, &dkey, &[(place::RECORD, &value)])?;
                Ok(first)
            }),
        }
    }

    /// Has all that was written before survive the loss of power, where a write alone does not: what is written next speaks of it.
    pub(super) fn settle(&self) -> Result<()> {
        match self {
            Self::Container(cont) if cont.durability() != Durability::Power => Ok(cont.flush()?),
            // What a bucket has taken survives.
            Self::Container(_) | Self::Bucket(_) => Ok(()),
        }
    }

    /// The class of objects of clusters, as many groups as fit now.
    pub(super) fn class(&self, wanted: ObjectClass) -> Result<ObjectClass> {
        match self {
            Self::Container(cont) => Ok(cont.oid(ObjectType::DkeyUint64, wanted, 0, 0)?.class()),
            Self::Bucket(_) => Ok(ObjectClass::S1),
        }
    }

    /// All that is there of clusters and ntuples.
    pub(super) fn objects(&self) -> Result<Vec<Found>> {
        match self {
            Self::Container(cont) => {
                let mut objects = Vec::new();
                let mut walk = cont.objects(None);
                loop {
                    let page = walk.next_page()?;
                    if page.is_empty() {
                        break Ok(objects);
                    }
                    let found = |oid| place::named(oid).map(|named| Found { named, oid: Some(oid) });
                    objects.extend(page.into_iter().filter_map(found));
                }
            }
            Self::Bucket(home) => home.objects(),
        }
    }

    /// Whether it can be as it was, for all: buckets have no snapshots to go back to.
    pub(super) fn goes_back(&self) -> bool {
        matches!(self, Self::Container(_))
    }

    /// Frees some of these; of a bucket at once.
    pub(super) fn free(&self, at: At<'_>, some: &[Found]) -> Result<()> {
        match self {
            Self::Container(cont) => some.iter().try_for_each(|found| {
                let oid = found.oid.expect("it was found in a container");
                cont.object(oid)?.punch(at.in_container(), Cond::NONE)?;
                Ok(())
            }),
            Self::Bucket(home) => some.iter().try_for_each(|found| home.free(found.named)),
        }
    }

    /// Frees what transactions have left that nothing refers to, and objects that were not completed but by who holds their clusters; how many of
    /// these there were.
    pub(super) fn sweep(&self, is_held: impl Fn(u64) -> bool) -> Result<u64> {
        match self {
            Self::Container(_) => Ok(0),
            Self::Bucket(home) => {
                home.sweep()?;
                home.end_uploads(is_held)
            }
        }
    }

    /// Whether a cluster has as many groups. What a bucket has taken stays there.
    pub(super) fn has_groups(
        &self,
        at: At<'_>,
        class: ObjectClass,
        number: u64,
        groups: u32,
    ) -> Result<bool> {
        let Self::Container(cont) = self else { return Ok(true) };
        let mut found = 0;
        each_dkeys(&place::cluster(cont, class, number)?, at, |some| found += some.len())?;
        Ok(found == groups as usize)
    }

    /// Writes over bytes of a group; whether that was done: of one that is lost all before them have to be among them.
    pub(super) fn mend(
        &self,
        class: ObjectClass,
        (object, group): (u64, u32),
        parts: &[(u64, &[u8])],
    ) -> Result<bool> {
        match self {
            Self::Container(cont) => {
                let cluster = place::cluster(cont, class, object)?;
                let dkey = place::group(group);
                for (offset, bytes) in parts {
                    let recx = Recx::new(*offset, bytes.len() as u64);
                    cluster.write(dolmen_client::At::Latest, &dkey, place::PAGES, 1, recx, bytes)?;
                }
                write_whole(&cluster, &dkey)?;
                Ok(true)
            }
            Self::Bucket(home) => home.mend((object, group), parts),
        }
    }
}

/// Extents of a group that are listed at once.
const EXTENTS_AT_ONCE: u32 = 1024;

/// Writes a group anew as one value, if nothing of it is damaged or missing by now: what is seen in part of a value that was damaged keeps all of it.
fn write_whole(cluster: &Object, dkey: &[u8]) -> Result<()> {
    let (mut end, mut anchor) = (0, ListAnchor::default());
    while !anchor.is_eof() {
        let latest = dolmen_client::At::Latest;
        let extents = cluster.list_extents(latest, dkey, place::PAGES, &mut anchor, EXTENTS_AT_ONCE)?;
        end = extents.iter().map(|extent| extent.recx.index + extent.recx.count).fold(end, u64::max);
    }
    let (whole, mut buf) = (Recx::new(0, end), IoBuf::default());
    match cluster.read(dolmen_client::At::Latest, dkey, place::PAGES, 1, whole, &mut buf) {
        Ok(read) if read.filled.iter().map(|recx| recx.count).sum::<u64>() == end => {
            let bytes = &buf[..usize::try_from(end).expect("it was read into memory")];
            cluster.write(dolmen_client::At::Latest, dkey, place::PAGES, 1, whole, bytes)?;
            Ok(())
        }
        // Others of its pages are to be mended first.
        Ok(_) | Err(dolmen_client::Error::Corrupt { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Goes through all dkeys of an object, some at a time.
fn each_dkeys(object: &Object, at: At<'_>, mut take: impl FnMut(&PackedKeys)) -> Result<()> {
    let mut anchor = ListAnchor::default();
    while !anchor.is_eof() {
        take(&object.list_dkeys(at.in_container(), &mut anchor, Page::default())?);
    }
    Ok(())
}

/// The object of a container that has records.
pub(super) fn object(cont: &Container, records: Records) -> dolmen_client::Result<Object> {
    cont.object(place::oid(records))
}

/// A single value.
fn iod<'a>(akey: &[u8], value: &'a [u8]) -> UpdateIod<'a> {
    let value = NewValue::Single(Payload::Ref(value));
    UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }
}
