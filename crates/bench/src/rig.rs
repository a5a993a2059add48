//! One target under load: the caller that a target expects, with buffers that are used again.

use crate::data::Values;
use crate::error::{Error, Result};
use crate::meter::{Histogram, Meter, now};
use dolmen_codec::order::HashKey;
use dolmen_codec::quota::{Account, Limits, Quota};
use dolmen_codec::verb::{
    ContSpec, ContVerb, Fetch, FetchIod, List, ListWhat, Listed, Mutation, NewValue, Payload, Prepare,
    ReadAt, Reply, SpaceReport, Update, UpdateIod, Verb, Want,
};
use dolmen_codec::{Completion, Op, TargetStore};
use dolmen_engine::{Devices, Recovery, Target, TargetConfig};
use dolmen_env::{Media, RealClock, RealDisk, RealOptions};
use dolmen_types::{
    Anchor, Cond, ContNo, Durability, Epoch, Head, IoBuf, Key, ObjectClass, ObjectType, Oid, Recx, TxId,
};
use serde::{Deserialize, Serialize};
use smallvec::smallvec;
use std::path::Path;
use std::sync::Arc;

/// Operations between two pieces of background work, as a pool's callers do it.
const OPS_PER_STEP: u64 = 256;
/// Payload between two pieces: a piece of large values is fewer of them.
const BYTES_PER_STEP: u64 = 8 << 20;
/// Between the end of one aggregation and the begin of the next, at most.
const AGGREGATE_EVERY_NS: u64 = 4_000_000_000;
/// Payload between the begins of two aggregations, at most: what is overwritten waits for them on the device.
const AGGREGATE_EVERY_BYTES: u64 = 1 << 30;
/// Fetches that one submit may carry: as many buffers are kept.
pub(crate) const DEPTH_MAX: usize = 64;
/// Records under one dkey of an array.
const RECORDS_PER_DKEY: u64 = 1024;
const CONT: ContNo = ContNo(1);

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A single value under a dkey of its own.
    Single,
    /// A record of an array, 1024 to a dkey.
    Record,
    /// An extent of bytes under a dkey of its own.
    Extent,
}

impl Kind {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Single => "single value",
            Self::Record => "array record",
            Self::Extent => "extent",
        }
    }

    fn object_type(self) -> ObjectType {
        match self {
            Self::Single => ObjectType::MultiHashed,
            Self::Record | Self::Extent => ObjectType::DkeyUint64,
        }
    }
}

/// How a target is made and opened.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// What a value is.
    pub kind: Kind,
    /// Bytes of a value.
    pub size: usize,
    /// Whether what is acknowledged survives the loss of power, or only the death of the process.
    pub power: bool,
    /// Treat the directory as a block device although it is memory, or the other way round.
    pub block: Option<bool>,
    /// The memory budget.
    pub memory_bytes: u64,
    /// The number of the target.
    pub target: u16,
    /// Whether aggregations run beside the load, one after the other.
    pub aggregates: bool,
}

impl Setup {
    /// A target with much memory whose writes survive the death of the process.
    #[must_use]
    pub fn new(kind: Kind, size: usize) -> Self {
        Self { kind, size, power: false, block: None, memory_bytes: 4 << 30, target: 0, aggregates: true }
    }

    fn config(&self, volatile: bool) -> TargetConfig {
        TargetConfig {
            target: dolmen_types::TargetNo(self.target),
            memory_budget_bytes: self.memory_bytes,
            volatile,
            ..TargetConfig::default()
        }
    }

    fn devices(&self, dir: &Path) -> Result<(Devices, bool)> {
        let media = self.block.map(|block| if block { Media::Block } else { Media::Mapped });
        let disk = RealDisk::with_options(dir, RealOptions { media, ..RealOptions::default() })?;
        let is_memory = dolmen_env::Disk::media(&disk) == Media::Mapped;
        Ok((Devices { meta: Box::new(disk), bulk: None }, is_memory))
    }
}

/// Background work completed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Background {
    pub(crate) checkpoints: u64,
    pub(crate) merges: u64,
    /// Aggregations that ran to their end.
    pub(crate) aggregations: u64,
}

impl Background {
    /// What was completed since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            checkpoints: self.checkpoints - earlier.checkpoints,
            merges: self.merges - earlier.merges,
            aggregations: self.aggregations - earlier.aggregations,
        }
    }
}

/// A target and its one caller.
pub struct Rig<'v> {
    target: Target,
    ops: Vec<Op<'v>>,
    out: Vec<Completion>,
    head: Head,
    oid: Oid,
    setup: Setup,
    bufs: Vec<IoBuf>,
    since_step: u64,
    bytes_since_step: u64,
    last: Epoch,
    aggregating: Option<Epoch>,
    aggregated_ns: u64,
    bytes_since_aggregation: u64,
    aggregations: u64,
    /// How long each piece of background work held its caller up.
    pub(crate) stalls: Histogram,
    /// The longest of them.
    pub(crate) stall_ns_max: u64,
}

impl core::fmt::Debug for Rig<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Rig({:?})", self.target)
    }
}

impl<'v> Rig<'v> {
    /// Makes a target in an empty directory, with one container.
    ///
    /// # Errors
    /// The device's and the store's.
    pub fn create(dir: &Path, setup: Setup) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(Error::system("make a directory for the measurement"))?;
        let (devices, is_memory) = setup.devices(dir)?;
        let target = Target::create(
            devices,
            Arc::new(RealClock),
            7 + u128::from(setup.target),
            &setup.config(is_memory),
        )?;
        let mut rig = Self::around(target, setup);
        let durability = if setup.power { Durability::Power } else { Durability::Process };
        let spec = ContSpec { hash_key: HashKey([5; 16]), durability };
        rig.ask(Verb::Cont(ContVerb::Create(spec)))?;
        Ok(rig)
    }

    /// Opens what a dead process left.
    pub(crate) fn open(dir: &Path, setup: Setup) -> Result<(Self, Recovery)> {
        let (devices, is_memory) = setup.devices(dir)?;
        let (target, recovery) = Target::open(devices, Arc::new(RealClock), &setup.config(is_memory))?;
        Ok((Self::around(target, setup), recovery))
    }

    fn around(target: Target, setup: Setup) -> Self {
        let mut head = Head::default();
        head.id.client = u128::from(std::process::id());
        Self {
            target,
            ops: Vec::with_capacity(DEPTH_MAX),
            out: Vec::with_capacity(DEPTH_MAX),
            head,
            oid: Oid::new(setup.kind.object_type(), ObjectClass::S1, 0, 1),
            setup,
            bufs: Vec::new(),
            since_step: 0,
            bytes_since_step: 0,
            last: Epoch::default(),
            aggregating: None,
            aggregated_ns: now(),
            bytes_since_aggregation: 0,
            aggregations: 0,
            stalls: Histogram::new(),
            stall_ns_max: 0,
        }
    }

    fn dkey(&self, key: u64) -> Key {
        let dkey = if self.setup.kind == Kind::Record { key / RECORDS_PER_DKEY } else { key };
        Key::from_slice(&dkey.to_le_bytes())
    }

    fn recx(&self, key: u64) -> (u64, Recx) {
        if self.setup.kind == Kind::Record {
            (self.setup.size as u64, Recx::new(key % RECORDS_PER_DKEY, 1))
        } else {
            (1, Recx::new(0, self.setup.size as u64))
        }
    }

    /// Hands an update over; its completion comes with [`Rig::wait`].
    #[inline]
    pub(crate) fn begin_update(&mut self, key: u64, value: &'v [u8]) {
        self.push_update_of(key, value);
        self.target.submit(&mut self.ops);
    }

    #[inline]
    fn push_update_of(&mut self, key: u64, value: &'v [u8]) {
        let value = if self.setup.kind == Kind::Single {
            NewValue::Single(Payload::Ref(value))
        } else {
            let (record_bytes, recx) = self.recx(key);
            NewValue::Array { record_bytes, extents: smallvec![recx], data: Payload::Ref(value) }
        };
        self.push_update(self.dkey(key), value);
        self.count_update(self.setup.size as u64);
    }

    #[inline]
    fn push_update(&mut self, dkey: Key, value: NewValue<'v>) {
        self.head.id.sequence += 1;
        let iods = smallvec![UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }];
        let update = Update { oid: self.oid, dkey, cond: Cond::NONE, iods, charged: None };
        let token = self.head.id.sequence;
        self.ops.push(Op { token, head: self.head, cont: CONT, verb: Verb::Update(update) });
    }

    #[inline]
    fn count_update(&mut self, bytes: u64) {
        self.since_step += 1;
        self.bytes_since_step += bytes;
        self.bytes_since_aggregation += bytes;
    }

    /// One update, durable as the container asks, and background work when it is due.
    ///
    /// # Errors
    /// The store's.
    #[inline]
    pub fn update(&mut self, key: u64, value: &'v [u8]) -> Result<()> {
        self.push_update_of(key, value);
        self.settle()
    }

    /// Several updates by one submit, and background work when it is due.
    ///
    /// # Errors
    /// The store's.
    #[inline]
    pub fn update_batch(&mut self, items: impl Iterator<Item = (u64, &'v [u8])>) -> Result<()> {
        for (key, value) in items {
            self.push_update_of(key, value);
        }
        self.settle()
    }

    /// Writes bytes at a byte offset under a dkey, in as many extents as windows ask for.
    pub(crate) fn update_bytes(&mut self, dkey: u64, offset: u64, value: &'v [u8]) -> Result<()> {
        let bytes = value.len() as u64;
        let extents = windows(offset, bytes).collect();
        let value = NewValue::Array { record_bytes: 1, extents, data: Payload::Ref(value) };
        self.push_update(Key::from_slice(&dkey.to_le_bytes()), value);
        self.count_update(bytes);
        self.settle()
    }

    /// Submits what was pushed, waits for all of it, and does background work when it is due.
    #[inline]
    fn settle(&mut self) -> Result<()> {
        let mut left = self.ops.len();
        self.target.submit(&mut self.ops);
        while left > 0 {
            left -= self.wait(|_| {})?;
        }
        self.upkeep_if_due()
    }

    /// Background work, as often as a pool's callers do it.
    #[inline]
    pub(crate) fn upkeep_if_due(&mut self) -> Result<()> {
        if self.since_step >= OPS_PER_STEP || self.bytes_since_step >= BYTES_PER_STEP {
            self.upkeep()?;
        }
        Ok(())
    }

    /// Waits for completions, tells their tokens and returns how many.
    #[inline]
    pub(crate) fn wait(&mut self, mut each: impl FnMut(u64)) -> Result<usize> {
        self.target.poll(true, &mut self.out);
        let count = self.out.len();
        for done in self.out.drain(..) {
            if let Reply::Written(epoch) = done.result? {
                self.last = epoch;
            }
            each(done.token);
        }
        Ok(count)
    }

    /// Reads one value.
    ///
    /// # Errors
    /// The store's; [`dolmen_types::Error::NotFound`] if there is none.
    #[inline]
    pub fn fetch(&mut self, key: u64) -> Result<&[u8]> {
        self.push_fetch_of(key, 0);
        self.settle_fetches(1)?;
        Ok(&self.bufs[0])
    }

    /// Reads several values by one submit and shows each.
    ///
    /// # Errors
    /// The store's; [`dolmen_types::Error::NotFound`] if there is none.
    #[inline]
    pub fn fetch_batch(
        &mut self,
        keys: impl Iterator<Item = u64>,
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let mut count = 0;
        for key in keys {
            self.push_fetch_of(key, count);
            count += 1;
        }
        self.settle_fetches(count)?;
        self.bufs[..count].iter().enumerate().for_each(|(at, buf)| each(at, buf));
        Ok(())
    }

    #[inline]
    fn push_fetch_of(&mut self, key: u64, at: usize) {
        let want = if self.setup.kind == Kind::Single {
            Want::Single { room_bytes: self.setup.size }
        } else {
            let (record_bytes, recx) = self.recx(key);
            Want::Array { record_bytes, extents: smallvec![recx] }
        };
        self.push_fetch(self.dkey(key), want, at);
    }

    /// Reads bytes at a byte offset under a dkey.
    pub(crate) fn fetch_bytes(&mut self, dkey: u64, offset: u64, len: u64) -> Result<&[u8]> {
        let want = Want::Array { record_bytes: 1, extents: windows(offset, len).collect() };
        self.push_fetch(Key::from_slice(&dkey.to_le_bytes()), want, 0);
        self.settle_fetches(1)?;
        Ok(&self.bufs[0])
    }

    /// Puts a fetch into the batch; the token is the place in it.
    #[inline]
    fn push_fetch(&mut self, dkey: Key, want: Want, at: usize) {
        assert!(at < DEPTH_MAX, "a batch is no larger than the buffers kept for it");
        while self.bufs.len() <= at {
            self.bufs.push(IoBuf::zeroed(self.setup.size));
        }
        let buf = core::mem::take(&mut self.bufs[at]);
        let iods = smallvec![FetchIod { akey: Key::from_slice(b"a"), want }];
        let fetch = Fetch { oid: self.oid, dkey, cond: Cond::NONE, at: ReadAt::Latest, iods, buf };
        let op = Op { token: at as u64, head: Head::default(), cont: CONT, verb: Verb::Fetch(fetch) };
        self.ops.push(op);
    }

    #[inline]
    fn settle_fetches(&mut self, count: usize) -> Result<()> {
        self.target.submit(&mut self.ops);
        let (mut left, mut missing) = (count, false);
        while left > 0 {
            self.target.poll(true, &mut self.out);
            left -= self.out.len();
            for done in self.out.drain(..) {
                let at = usize::try_from(done.token).unwrap_or(usize::MAX);
                self.bufs[at] = done.buf.expect("a fetch brings its buffer back");
                let Reply::Fetched(iods) = done.result? else {
                    return Err(dolmen_types::Error::NotFound.into());
                };
                missing |= iods.iter().any(|iod| {
                    iod.size_bytes == 0 || (self.setup.kind != Kind::Single && iod.filled.is_empty())
                });
            }
        }
        if missing { Err(dolmen_types::Error::NotFound.into()) } else { Ok(()) }
    }

    /// The epoch of the last update.
    pub(crate) fn last(&self) -> Epoch {
        self.last
    }

    /// Lists a page of dkeys and says whether there are more.
    pub(crate) fn list_page(&mut self, anchor: &mut Anchor, items_max: u32) -> Result<usize> {
        let list = List {
            what: ListWhat::Dkeys(self.oid),
            anchor: *anchor,
            items_max,
            bytes_max: 1 << 20,
            at: ReadAt::Latest,
        };
        match self.ask(Verb::List(list))? {
            Reply::Listed(Listed::Keys(keys), next) => {
                *anchor = next;
                Ok(keys.len())
            }
            _ => Ok(0),
        }
    }

    /// One verb that is no update or fetch, to its end.
    pub(crate) fn ask(&mut self, verb: Verb<'v>) -> Result<Reply> {
        self.ops.push(Op { token: u64::MAX, head: Head::default(), cont: CONT, verb });
        self.target.submit(&mut self.ops);
        loop {
            self.target.poll(true, &mut self.out);
            let at = self.out.iter().position(|done| done.token == u64::MAX);
            if let Some(at) = at {
                return Ok(self.out.swap_remove(at).result?);
            }
        }
    }

    /// Background work: a bounded piece of a checkpoint or merge, or of the aggregation that is always under way
    /// or about to be.
    ///
    /// # Errors
    /// The store's.
    pub fn upkeep(&mut self) -> Result<()> {
        let start = now();
        (self.since_step, self.bytes_since_step) = (0, 0);
        if self.upkeep_piece()? {
            let ns = now() - start;
            self.stalls.add(ns);
            self.stall_ns_max = self.stall_ns_max.max(ns);
        }
        Ok(())
    }

    /// One piece; whether there was anything to do.
    fn upkeep_piece(&mut self) -> Result<bool> {
        if let Some(upto) = self.aggregating {
            if let Reply::Aggregated { more: false, .. } = self.ask(Verb::Cont(ContVerb::Aggregate(upto)))? {
                self.aggregating = None;
                self.aggregated_ns = now();
                self.aggregations += 1;
            }
            return Ok(true);
        }
        let progress = self.target.step();
        let is_due = self.bytes_since_aggregation >= AGGREGATE_EVERY_BYTES
            || now().saturating_sub(self.aggregated_ns) > AGGREGATE_EVERY_NS;
        if is_due && self.setup.aggregates && self.last != Epoch::default() {
            self.aggregating = Some(self.last);
            self.bytes_since_aggregation = 0;
        }
        Ok(progress == dolmen_codec::Progress::More)
    }

    /// Background work completed since the target was made or opened.
    pub(crate) fn background(&self) -> Background {
        let done = self.target.background_done();
        Background { checkpoints: done.checkpoints, merges: done.merges, aggregations: self.aggregations }
    }

    /// One piece of a checkpoint or merge.
    pub(crate) fn step(&mut self) -> dolmen_codec::Progress {
        self.target.step()
    }

    /// Aggregates everything, now.
    pub(crate) fn aggregate(&mut self) -> Result<()> {
        let upto = self.aggregating.take().map_or(self.last, |upto| upto.max(self.last));
        while let Reply::Aggregated { more: true, .. } = self.ask(Verb::Cont(ContVerb::Aggregate(upto)))? {}
        self.aggregations += 1;
        Ok(())
    }

    pub(crate) fn checkpoint(&mut self) -> Result<()> {
        self.ask(Verb::Checkpoint).map(drop)
    }

    pub(crate) fn space(&mut self) -> Result<SpaceReport> {
        match self.ask(Verb::Space)? {
            Reply::Space(space) => Ok(space),
            _ => Ok(SpaceReport::default()),
        }
    }

    /// Limits the container and some users to more than there will ever be.
    pub(crate) fn limit(&mut self, uids: &[u32]) -> Result<()> {
        let limits = Limits { bytes: 1 << 50, files: 0 };
        let users = uids.iter().map(|&uid| (uid, limits)).collect();
        let account = Arc::new(Account::default());
        self.target.keep_account(CONT, &account)?;
        account.limit(Quota { limits, users });
        Ok(())
    }

    /// What comes next is of the object with this number.
    pub(crate) fn go_to(&mut self, object: u64) {
        self.oid = Oid::new(self.setup.kind.object_type(), ObjectClass::S1, 0, 1 + object);
    }

    /// One at which a transaction may write: above all that is there.
    pub(crate) fn next_epoch(&mut self) -> Result<Epoch> {
        match self.ask(Verb::Latest)? {
            Reply::Written(latest) => Ok(latest.next()),
            _ => Ok(self.last.next()),
        }
    }

    /// Gives what there is of the object to a user.
    pub(crate) fn give(&mut self, at: Epoch, uid: u32) -> Result<()> {
        let gift = Update {
            oid: self.oid,
            dkey: Key::new(),
            cond: Cond::NONE,
            iods: smallvec![],
            charged: Some(uid),
        };
        let here = dolmen_types::TargetNo(self.setup.target);
        let prepare = Prepare {
            tx: TxId { client: self.head.id.client, begin: at },
            epoch: at,
            leader: here,
            participants: smallvec![here],
            mutations: vec![Mutation::Update(gift)],
        };
        self.ask(Verb::Prepare(prepare)).map(drop)
    }

    /// Bytes that users are charged.
    pub(crate) fn charges(&mut self) -> Result<Vec<(u32, u64)>> {
        let charges = self.target.charges(CONT)?;
        Ok(charges.into_iter().map(|(uid, charge)| (uid, charge.bytes)).collect())
    }

    /// Closes the target with a last checkpoint.
    ///
    /// # Errors
    /// The store's.
    pub fn close(self) -> Result<()> {
        Ok(self.target.close()?)
    }
}

/// An extent of bytes, cut where windows end.
fn windows(offset: u64, len: u64) -> impl Iterator<Item = Recx> {
    let window = dolmen_types::limits::WINDOW_RECORDS;
    let end = offset + len;
    let first = offset / window * window;
    (0..).map(move |index| first + index * window).take_while(move |start| *start < end).map(move |start| {
        let from = start.max(offset);
        Recx::new(from, end.min(start + window) - from)
    })
}

/// Compares every byte of a value with what was acknowledged.
pub(crate) fn verify(rig: &mut Rig<'_>, key: u64, values: &Values, round: u64) -> Result<()> {
    if rig.fetch(key)? == values.of(key, round) { Ok(()) } else { Err(Error::Wrong { key }) }
}

/// Values compared by one submit.
const VERIFY_DEPTH: usize = 16;

/// Compares every byte of many values, each told by key and round, with what was acknowledged.
pub(crate) fn verify_many(
    rig: &mut Rig<'_>,
    mut wanted: impl Iterator<Item = (u64, u64)>,
    values: &Values,
    meter: &mut Meter,
) -> Result<()> {
    loop {
        let batch: Vec<(u64, u64)> = wanted.by_ref().take(VERIFY_DEPTH).collect();
        if batch.is_empty() {
            return Ok(());
        }
        let mut wrong = None;
        let keys = batch.iter().map(|&(key, _)| key);
        meter.run_batch(batch.len(), (batch.len() * values.size()) as u64, || {
            rig.fetch_batch(keys, |at, value| {
                let (key, round) = batch[at];
                if value != values.of(key, round) {
                    wrong = Some(key);
                }
            })
        })?;
        if let Some(key) = wrong {
            return Err(Error::Wrong { key });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_cut_at_windows_and_cover_everything() {
        let cut: Vec<Recx> = windows((1 << 20) - 5, (1 << 20) + 10).collect();
        assert_eq!(cut, [Recx::new((1 << 20) - 5, 5), Recx::new(1 << 20, 1 << 20), Recx::new(2 << 20, 5)]);
        assert_eq!(windows(0, 64).collect::<Vec<_>>(), [Recx::new(0, 64)]);
    }
}
