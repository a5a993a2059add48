//! A store in an object store of the S3 kind.
//!
//! | key | holds |
//! |---|---|
//! | `root` | where the nodes are, and which number is drawn next; replaced under the condition that it is the one that was read |
//! | `m/` number | what a transaction wrote: nodes, and records that are too long for them |
//! | `c/` cluster `/` column group | sealed pages |
//! | `conditions` | nothing: it is there so that an endpoint which does not heed conditions is found out |
//!
//! A transaction reads the root, writes one object of its own with what it changes, and then replaces the root. If others have replaced it meanwhile,
//! and nothing that the transaction has read, it replaces theirs, after a pause, with what it wrote, and writes only those nodes again that both
//! have changed; else it begins again. A root names the last transactions, so that one which was done though its answer was lost is found, also
//! if others were done after it. What is known to be of no use is deleted; what may be of some is left for the sweep.
//!
//! Clusters without a root are no store but what is left of one, or an endpoint that does not tell: nothing is begun there, and nothing freed.
//!
//! Invariants: all but the root is written once and never changed, but for pages that are mended; numbers are never drawn twice.

use super::super::place::{Named, Records};
use super::Found;
use super::root::{Leaf, Node, Part, RECENT_MAX, RecordKey, Root, Slot};
use super::tx::{Next, Tx};
use crate::bucket::{Bucket, BucketError, Failure, Got, Put, Read, Replaced, Tag};
use crate::error::{Error, Fault, Result, Structure};
use core::time::Duration;
use dolmen_env::Clock;
use dolmen_types::IoBuf;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The key, behind the store's prefix, of the root.
pub const ROOT: &str = "root";
/// The key of what is tried before the first change.
const CONDITIONS: &str = "conditions";
/// What keys of objects with records begin with.
const RECORDS: &str = "m/";
/// What keys of column groups begin with.
const CLUSTERS: &str = "c/";
/// What all keys of a store are, or, with a slash at the end, begin with.
pub const KEYS: [&str; 4] = [ROOT, CONDITIONS, CLUSTERS, RECORDS];

/// A tag that nothing has.
const OTHER_TAG: &str = "\"00000000000000000000000000000000\"";

const NO_ROOT: &str = "there are clusters and no root, which was deleted, or the endpoint does not tell; nothing is done, so that nothing is lost";
const NO_CONDITIONS: &str = "the endpoint does not heed If-None-Match and If-Match, without which writers would lose what others have done";
const NO_TIME: &str =
    "the endpoint's answers have no Date, without which nobody knows how long ago a writer was last heard of";
const IN_DOUBT: &str =
    "whether it was done is not known: an answer was lost, and what is there does not tell";

/// Times that a transaction finds that others were faster, at least, before it is given up, and for a quarter of the lease: of those that are under
/// way at once one is done each time.
const TRIES_MAX: u32 = 64;

/// Times that a transaction writes what others may free before it refers to it.
const SLOW_MAX: u32 = 3;

/// Half of the longest pause before the second try; it is twice as long before each one more, and drawn at random up to that.
const PAUSE_BASE: Duration = Duration::from_millis(20);
/// The longest of all.
const PAUSE_MAX: Duration = Duration::from_millis(300);
/// Times after which it is no longer than [`PAUSE_OLD`]: who has waited for long goes before who has just come.
const YOUNG_MAX: u32 = 8;
const PAUSE_OLD: Duration = Duration::from_millis(80);

/// Nodes that are kept at hand.
const NODES_MAX: usize = 256;

/// A store in a bucket; a cheap handle.
#[derive(Clone, Debug)]
pub(in crate::store) struct BucketHome {
    bucket: Arc<dyn Bucket>,
    clock: Arc<dyn Clock>,
    /// For how long what is not referred to is left, since a transaction may be about to refer to it.
    lease_ns: u64,
    // Guards: what was read; taken alone, and not while something is asked.
    known: Arc<Mutex<Known>>,
}

/// What was read before.
#[derive(Default, Debug)]
struct Known {
    root: Option<(Arc<Root>, Tag)>,
    /// Whether the endpoint was seen to heed conditions.
    heeds_conditions: bool,
    nodes: BTreeMap<Part, Arc<Node>>,
}

impl BucketHome {
    pub(super) fn new(bucket: Arc<dyn Bucket>, clock: Arc<dyn Clock>, lease_ns: u64) -> Self {
        Self { bucket, clock, lease_ns, known: Arc::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The root as it is now, and its tag; without a tag there is none yet.
    fn root(&self) -> Result<(Arc<Root>, Option<Tag>)> {
        let before = self.known().root.clone();
        match self.bucket.get(ROOT, before.as_ref().map(|(_, tag)| tag))? {
            Got::None if before.is_none() && !self.has_clusters()? => Ok((Arc::default(), None)),
            Got::None => Err(self.wrong(ROOT, NO_ROOT)),
            Got::Same => {
                let (root, tag) = before.ok_or(lost())?;
                Ok((root, Some(tag)))
            }
            Got::Bytes(bytes, tag) => {
                let root = Arc::new(Root::read(&bytes)?);
                self.known().root = Some((Arc::clone(&root), tag.clone()));
                Ok((root, Some(tag)))
            }
        }
    }

    /// The time by the store's own clock.
    pub(super) fn now_ns(&self) -> Result<u64> {
        if let Some(now_ns) = self.bucket.now_ns() {
            return Ok(now_ns);
        }
        // Its answers tell.
        self.root()?;
        self.bucket.now_ns().ok_or_else(|| self.wrong(ROOT, NO_TIME))
    }

    /// Whether there is a column group of any cluster.
    fn has_clusters(&self) -> Result<bool> {
        Ok(self.bucket.list(CLUSTERS)?.iter().any(|object| group_of(&object.key).is_some()))
    }

    /// Sees to it that the endpoint heeds conditions, without which writers would lose what others have done.
    fn check_conditions(&self) -> Result<()> {
        if self.known().heeds_conditions {
            return Ok(());
        }
        let is_replaced = |tag: Option<&Tag>| {
            let replaced = self.bucket.replace(CONDITIONS, tag, CONDITIONS.into())?;
            Ok::<_, Error>(matches!(replaced, Replaced::Done(_)))
        };
        let is_made_twice = is_replaced(None)? && is_replaced(None)?;
        if is_made_twice || is_replaced(Some(&Tag(OTHER_TAG.into())))? {
            return Err(self.wrong(CONDITIONS, NO_CONDITIONS));
        }
        self.known().heeds_conditions = true;
        Ok(())
    }

    /// The error that the endpoint is not what it has to be.
    fn wrong(&self, key: &str, why: &str) -> Error {
        self.failed(Failure::Refused, key, why)
    }

    fn failed(&self, failure: Failure, key: &str, why: &str) -> Error {
        let source = format!("{}: {why}", self.bucket.address()).into();
        Error::Bucket { source: BucketError { failure, doing: "put", key: key.into(), source } }
    }

    /// The records of an object at a root.
    pub(super) fn node(&self, root: &Root, records: Records) -> Result<Arc<Node>> {
        let Some(part) = root.nodes.get(&records) else { return Ok(Arc::default()) };
        if let Some(node) = self.known().nodes.get(part) {
            return Ok(Arc::clone(node));
        }
        let (mut node, leaves) = Node::read(&self.fetch(&[Slot::There(*part)])?.remove(0))?;
        node.gather(self.leaves(leaves)?);
        let node = Arc::new(node);
        self.remember(*part, &node);
        Ok(node)
    }

    /// Leaves of a node; those that are not at hand in one round trip.
    fn leaves(&self, parts: Vec<Part>) -> Result<Vec<Leaf>> {
        let mut at_hand: BTreeMap<Part, Arc<Node>> = {
            let known = self.known();
            parts.iter().filter_map(|part| Some((*part, Arc::clone(known.nodes.get(part)?)))).collect()
        };
        let missing: Vec<Part> = parts.iter().filter(|part| !at_hand.contains_key(part)).copied().collect();
        let slots: Vec<Slot> = missing.iter().map(|part| Slot::There(*part)).collect();
        for (part, bytes) in missing.into_iter().zip(self.fetch(&slots)?) {
            let (node, leaves) = Node::read(&bytes)?;
            if !leaves.is_empty() {
                return Err(lost());
            }
            let node = Arc::new(node);
            self.remember(part, &node);
            at_hand.insert(part, node);
        }
        let leaf = |part: Part| Some(Leaf { part, node: Arc::clone(at_hand.get(&part)?) });
        Ok(parts.into_iter().filter_map(leaf).collect())
    }

    fn remember(&self, part: Part, node: &Arc<Node>) {
        let mut known = self.known();
        if known.nodes.len() >= NODES_MAX {
            known.nodes.clear();
        }
        known.nodes.insert(part, Arc::clone(node));
    }

    /// What slots have, in one round trip.
    pub(super) fn fetch(&self, slots: &[Slot]) -> Result<Vec<Vec<u8>>> {
        let mut values: Vec<Vec<u8>> = slots
            .iter()
            .map(|slot| match slot {
                Slot::Here(bytes) => bytes.clone(),
                Slot::There(part) => vec![0; part.bytes as usize],
            })
            .collect();
        let there: Vec<(String, u64)> = slots
            .iter()
            .filter_map(|slot| match slot {
                Slot::Here(_) => None,
                Slot::There(part) => Some((records_key(part.object), part.offset)),
            })
            .collect();
        let into = slots.iter().zip(&mut values).filter(|(slot, _)| matches!(slot, Slot::There(_)));
        let mut reads: Vec<_> = there
            .iter()
            .zip(into)
            .map(|((key, offset), (_, into))| Read { key, offset: *offset, into })
            .collect();
        self.read(&mut reads, |_| Structure::Record)?;
        Ok(values)
    }

    /// Fills all memory.
    pub(in crate::store) fn read(
        &self,
        reads: &mut [Read<'_>],
        structure: impl Fn(usize) -> Structure,
    ) -> Result<()> {
        if reads.is_empty() {
            return Ok(());
        }
        let counts = self.bucket.read(reads)?;
        for (at, (read, left_bytes)) in reads.iter().zip(counts).enumerate() {
            let wanted_bytes = read.into.len() as u64;
            if left_bytes < wanted_bytes {
                let fault = Fault::Short { wanted_bytes, left_bytes };
                return Err(Error::Corrupt { structure: structure(at), offset: read.offset, fault });
            }
        }
        Ok(())
    }

    /// The bucket.
    pub(in crate::store) fn bucket(&self) -> &dyn Bucket {
        &*self.bucket
    }

    pub(super) fn get(&self, records: Records, dkey: &[u8], akey: &[u8]) -> Result<Option<Vec<u8>>> {
        self.within(None, |tx| tx.get(records, dkey, akey))
    }

    /// Records that never change: where a root that was read before has them, no other is asked for.
    pub(in crate::store) fn values(
        &self,
        records: Records,
        keys: &[RecordKey],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let before = self.known().root.clone();
        let node = match before.map(|(root, _)| self.node(&root, records)) {
            Some(Ok(node)) => node,
            // Where it is gone by now, the root is another.
            Some(Err(error)) if !is_missing(&error) => return Err(error),
            _ => Arc::default(),
        };
        let is_known = keys.iter().all(|key| node.slots.contains_key(key));
        let node = if is_known { node } else { self.node(&self.root()?.0, records)? };
        let found: Vec<_> = keys.iter().map(|key| node.slots.get(key).cloned()).collect();
        let there: Vec<Slot> = found.iter().flatten().cloned().collect();
        let mut values = self.fetch(&there)?.into_iter();
        Ok(found.iter().map(|slot| slot.as_ref().and_then(|_| values.next())).collect())
    }

    /// Does something in a transaction, or in one of its own.
    pub(super) fn within<T>(
        &self,
        tx: Option<&Tx<'_>>,
        mut body: impl FnMut(&Tx<'_>) -> Result<T>,
    ) -> Result<T> {
        match tx {
            Some(tx) => body(tx),
            None => self.transact(body),
        }
    }

    /// Does what `body` says in one transaction.
    pub(super) fn transact<T>(&self, mut body: impl FnMut(&Tx<'_>) -> Result<T>) -> Result<T> {
        let mut tries = Tries::begin(self);
        loop {
            let (root, tag) = self.root()?;
            let count = root.count;
            let tx = Tx::begin(self, draw()?, (root, tag));
            let done = match body(&tx) {
                // What the root refers to may be swept away when another has replaced it.
                Err(error) if is_missing(&error) && self.root()?.0.count != count => {
                    tries.again(self)?;
                    continue;
                }
                done => done?,
            };
            let Some(next) = tx.end()? else { return Ok(done) };
            if self.commit(next, &mut tries)? {
                return Ok(done);
            }
        }
    }

    /// Makes the next root the one that is there; not, if others have changed what the transaction has read.
    fn commit(&self, mut next: Next, tries: &mut Tries) -> Result<bool> {
        self.check_conditions()?;
        let begun = self.moment()?;
        // Whether it may have been done, or may yet be, though the root does not name it.
        let mut is_in_doubt = false;
        loop {
            if let Some((number, object)) = next.object.take() {
                next.written.insert(number);
                self.bucket.put(vec![Put { key: records_key(number), bytes: IoBuf::from(object) }])?;
            }
            // By now the store has told the time after the root was written that is to be replaced: as long as that is there nobody takes for old what
            // is young by then, however long this machine stands still from here on.
            if self.moment()?.since(&begun) > self.lease_ns / 2 {
                // What it wrote may be swept away before the root refers to it.
                self.undo(&next, is_in_doubt)?;
                return tries.slow(self.lease_ns).map(|()| false);
            }
            let root = next.root();
            let replaced = self.bucket.replace(ROOT, next.tag.as_ref(), root.write()?);
            if let Ok(Replaced::Done(tag)) = replaced {
                self.known().root = Some((Arc::new(root), tag));
                self.take_away(&next.superseded());
                return Ok(true);
            }
            // It may have been done, and the answer lost; others may have been done after it.
            let there = match self.root() {
                Ok((there, _)) => there,
                Err(error) => return replaced.map_err(Error::from).and(Err(error)),
            };
            if there.recent.contains(&next.number) {
                return Ok(true);
            }
            is_in_doubt |= replaced? != Replaced::Refused;
            is_in_doubt = is_in_doubt && !self.is_over(&next, &there)?;
            if let Err(error) = tries.again(self) {
                return self.undo(&next, is_in_doubt).and(Err(error));
            }
            let (root, tag) = self.root()?;
            if root.recent.contains(&next.number) {
                return Ok(true);
            }
            is_in_doubt = is_in_doubt && !self.is_over(&next, &root)?;
            let follows = match next.follow(self, root, tag) {
                Err(error) if is_missing(&error) => false,
                follows => follows?,
            };
            if !follows {
                return self.undo(&next, is_in_doubt).map(|()| false);
            }
        }
    }

    /// Whether a transaction that a root does not name, and of which an answer was lost, never will replace the one that it was to replace.
    fn is_over(&self, next: &Next, there: &Root) -> Result<bool> {
        match there.count.checked_sub(next.before.count) {
            // It may still be on its way.
            Some(0) => Ok(false),
            // All that were done since are named, and the root that it was to replace is gone for ever.
            Some(since) if since <= RECENT_MAX as u64 => Ok(true),
            _ => Err(self.failed(Failure::Doubtful, ROOT, IN_DOUBT)),
        }
    }

    /// Takes away what a transaction wrote that was not done. Where that is not known it is said, and nothing is taken away.
    fn undo(&self, next: &Next, is_in_doubt: bool) -> Result<()> {
        if is_in_doubt {
            return Err(self.failed(Failure::Doubtful, ROOT, IN_DOUBT));
        }
        self.take_away(&next.written);
        Ok(())
    }

    /// This moment.
    fn moment(&self) -> Result<Moment> {
        Ok(Moment { own_ns: self.clock.monotonic_ns(), store_ns: self.now_ns()? })
    }

    /// Deletes what a transaction wrote and nothing refers to.
    fn take_away(&self, written: &BTreeSet<u128>) {
        if !written.is_empty() {
            // Ignored: the next sweep finds it.
            let _left = self.bucket.delete(written.iter().map(|number| records_key(*number)).collect());
        }
    }

    /// Whether both are the same store, which may be reached by two addresses.
    pub(super) fn is(&self, other: &Self) -> Result<bool> {
        let own = self.root()?.0.identity;
        Ok(own != 0 && own == other.root()?.0.identity)
    }

    /// All clusters that have groups, and ntuples that have records.
    pub(super) fn objects(&self) -> Result<Vec<Found>> {
        let listed = self.bucket.list(CLUSTERS)?;
        let mut numbers: Vec<u64> =
            listed.iter().filter_map(|object| group_of(&object.key)).map(|(cluster, _)| cluster).collect();
        numbers.dedup();
        let (root, _) = self.root()?;
        let ntuples = root.nodes.keys().filter_map(|records| match records {
            Records::Ntuple(number) => Some(Named::Ntuple(*number)),
            Records::Catalogue | Records::Writers => None,
        });
        let named = numbers.into_iter().map(Named::Cluster).chain(ntuples);
        Ok(named.map(|named| Found { named, oid: None }).collect())
    }

    pub(super) fn free(&self, named: Named) -> Result<()> {
        match named {
            Named::Ntuple(number) => self.transact(|tx| {
                tx.remove(Records::Ntuple(number));
                Ok(())
            }),
            Named::Cluster(number) => {
                let listed = self.bucket.list(&format!("{CLUSTERS}{number:016x}/"))?;
                let own = listed.into_iter().filter(|object| group_of(&object.key).is_some());
                Ok(self.bucket.delete(own.map(|object| object.key).collect())?)
            }
        }
    }

    /// Frees what transactions wrote that the root does not refer to, and that is too old for one under way.
    pub(super) fn sweep(&self) -> Result<()> {
        // The store's own clock says what is old, since whoever sweeps may have another; and before the rest is looked at: whatever was old then
        // is by now of the root, or of no transaction any more.
        let roots = self.bucket.list(ROOT)?.into_iter().filter(|object| object.key == ROOT);
        let now_ns = roots.map(|object| object.written_ns).max().unwrap_or(0);
        let objects = self.bucket.list(RECORDS)?;
        // What is listed and not referred to afterwards never will be, unless its transaction is under way still.
        let (root, _) = self.root()?;
        let mut needed: BTreeSet<u128> = root.nodes.values().map(|part| part.object).collect();
        for records in root.nodes.keys() {
            let node = match self.node(&root, *records) {
                Ok(node) => node,
                // What it refers to is not known: nothing is freed until it is mended, or destroyed.
                Err(error) => return error.damage().map(drop),
            };
            needed.extend(node.leaves.iter().map(|leaf| leaf.part.object));
            needed.extend(node.slots.values().filter_map(|slot| match slot {
                Slot::There(part) => Some(part.object),
                Slot::Here(_) => None,
            }));
        }
        let is_old = |written_ns: u64| written_ns.saturating_add(self.lease_ns) < now_ns;
        // Others may have objects below, of a store within the prefix of this one: only what has the form of ours is.
        let is_unneeded = |key: &str| records_of(key).is_some_and(|number| !needed.contains(&number));
        let gone = objects.into_iter().filter(|object| is_old(object.written_ns) && is_unneeded(&object.key));
        let gone: Vec<_> = gone.map(|object| object.key).collect();
        if gone.is_empty() { Ok(()) } else { Ok(self.bucket.delete(gone)?) }
    }

    /// Ends what was begun to be written in parts for longer than a lease, and by nobody who is there; how many these were.
    pub(super) fn end_uploads(&self, is_held: impl Fn(u64) -> bool) -> Result<u64> {
        let now_ns = self.now_ns()?;
        let mut count = 0;
        for prefix in [RECORDS, CLUSTERS] {
            // Ignored: not all stores tell, nor everybody who may write and delete; a rule of the bucket's owner ends them as well.
            let Ok(uploads) = self.bucket.uploads(prefix) else { continue };
            for upload in uploads {
                let is_ours = match group_of(&upload.key) {
                    Some((cluster, _)) => !is_held(cluster),
                    None => records_of(&upload.key).is_some(),
                };
                if is_ours && upload.begun_ns.saturating_add(self.lease_ns) < now_ns {
                    self.bucket.abandon(&upload)?;
                    count += 1;
                }
            }
        }
        Ok(count)
    }

    /// Writes a group anew with some bytes changed, since objects of buckets are replaced as a whole; not, if bytes would be left between these
    /// that nobody knows, which would be read as zeros.
    pub(super) fn mend(&self, (object, group): (u64, u32), parts: &[(u64, &[u8])]) -> Result<bool> {
        let (key, structure) = (group_key(object, group), Structure::Group { object, group });
        let mut tries = Tries::begin(self);
        loop {
            let (mut whole, tag) = match self.bucket.get(&key, None)? {
                Got::Bytes(whole, tag) => (whole, Some(tag)),
                Got::None | Got::Same => (Vec::new(), None),
            };
            let mut parts = parts.to_vec();
            parts.sort_unstable_by_key(|(offset, _)| *offset);
            for (offset, bytes) in parts {
                let end = offset.saturating_add(bytes.len() as u64);
                let bytes_max = crate::format::PAGE_BYTES_MAX;
                let Some(end) = usize::try_from(end).ok().filter(|_| end <= bytes_max) else {
                    return Err(Error::TooBig { structure, offset, bytes: end, bytes_max });
                };
                let start = end - bytes.len();
                if start > whole.len() {
                    return Ok(false);
                }
                whole.resize(whole.len().max(end), 0);
                whole[start..end].copy_from_slice(bytes);
            }
            // Who puts other pages of it right at the same time loses nothing.
            if let Replaced::Done(_) = self.bucket.replace(&key, tag.as_ref(), whole)? {
                return Ok(true);
            }
            tries.again(self)?;
        }
    }
}

/// A moment, by the two clocks that are of use.
struct Moment {
    /// By the machine's own, which nobody sets, and which stands still while the machine sleeps.
    own_ns: u64,
    /// By the store's, as its last answer told it.
    store_ns: u64,
}

impl Moment {
    /// The time since an earlier one, by the clock that has gone on for longer.
    fn since(&self, earlier: &Self) -> u64 {
        let own_ns = self.own_ns.saturating_sub(earlier.own_ns);
        own_ns.max(self.store_ns.saturating_sub(earlier.store_ns))
    }
}

/// How often something was tried.
#[derive(Debug)]
struct Tries {
    /// When that began, by the machine's clock that only goes on.
    begun_ns: u64,
    count: u32,
    slow_count: u32,
}

impl Tries {
    fn begin(home: &BucketHome) -> Self {
        Self { begun_ns: home.clock.monotonic_ns(), count: 0, slow_count: 0 }
    }

    /// Waits until it may be tried again, at random, so that those who were in each other's way are not again.
    fn again(&mut self, home: &BucketHome) -> Result<()> {
        self.count += 1;
        let age_ns = home.clock.monotonic_ns().saturating_sub(self.begun_ns);
        if self.count >= TRIES_MAX && age_ns >= home.lease_ns / 4 {
            return Err(Error::Contended { tries: self.count });
        }
        let longest_ns = u64::try_from(self.longest().as_nanos()).unwrap_or(u64::MAX);
        home.bucket.pause(Duration::from_nanos(entropy()? % longest_ns));
        Ok(())
    }

    /// The longest pause before it is tried again.
    fn longest(&self) -> Duration {
        if self.count > YOUNG_MAX {
            return PAUSE_OLD;
        }
        PAUSE_BASE.saturating_mul(1 << self.count).min(PAUSE_MAX)
    }

    /// Whether it may be written again that others may have freed meanwhile.
    fn slow(&mut self, lease_ns: u64) -> Result<()> {
        self.slow_count += 1;
        if self.slow_count >= SLOW_MAX { Err(Error::Slow { lease_ns }) } else { Ok(()) }
    }
}

/// The key of what a transaction wrote.
fn records_key(number: u128) -> String {
    format!("{RECORDS}{number:032x}")
}

/// The key of a column group.
pub(in crate::store) fn group_key(cluster: u64, group: u32) -> String {
    format!("{CLUSTERS}{cluster:016x}/{group:08x}")
}

/// The cluster and the column group that a key is of.
fn group_of(key: &str) -> Option<(u64, u32)> {
    let (cluster, group) = key.strip_prefix(CLUSTERS)?.split_once('/')?;
    let (cluster, group) = (u64::from_str_radix(cluster, 16).ok()?, u32::from_str_radix(group, 16).ok()?);
    (group_key(cluster, group) == key).then_some((cluster, group))
}

/// The transaction that a key is of.
fn records_of(key: &str) -> Option<u128> {
    let number = u128::from_str_radix(key.strip_prefix(RECORDS)?, 16).ok()?;
    (records_key(number) == key).then_some(number)
}

/// A number that nobody else has.
pub(super) fn draw() -> Result<u128> {
    Ok(u128::from(entropy()?) << 64 | u128::from(entropy()?))
}

fn entropy() -> Result<u64> {
    let failed = |error| Error::Io { offset: 0, source: std::io::Error::other(error) };
    dolmen_env::entropy_u64().map_err(failed)
}

/// Whether records were not where they have to be.
fn is_missing(error: &Error) -> bool {
    matches!(
        error,
        Error::Corrupt { structure: Structure::Record, fault: Fault::Short { .. }, .. } | Error::Freed { .. }
    )
}

fn lost() -> Error {
    Error::Corrupt { structure: Structure::Record, offset: 0, fault: Fault::Reference }
}
