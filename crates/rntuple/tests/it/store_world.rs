//! A container in a pool in memory, on a transport that a test counts on and cuts; ntuples for it.

use crate::made::field;
use crate::store_bucket::SimBucket;
use dolmen_client::{ContName, Container, Options, Pool, Props, Transport};
use dolmen_cluster::{Hlc, PoolIdentity, Service, Targets};
use dolmen_codec::pool::PoolVerb;
use dolmen_codec::verb::Verb;
use dolmen_codec::{Ask, Outcome, QueueId, Request};
use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
use dolmen_env::{Clock, Rng, Secrets, SimClock};
use dolmen_rntuple::format::block::{Compression, compress};
use dolmen_rntuple::format::schema::{Column, ColumnKind, Role, Schema};
use dolmen_rntuple::format::{Header, checksum, encoding};
use dolmen_rntuple::sealed::{SealedCluster, SealedColumn, SealedPage};
use dolmen_rntuple::store::{Store, StoreOptions};
use dolmen_rntuple::{Array, Entries, Ntuple, Source, Values};
use dolmen_types::{
    Credentials, Epoch, Error, Label, PoolMap, Result, TargetInfo, TargetNo, TargetState, Uuid,
};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// 2026-01-01.
pub(crate) const START_NS: u64 = 1_767_225_600_000_000_000;
/// What a writer may be silent for.
pub(crate) const LEASE_NS: u64 = 1_000_000_000;
/// More than the clock of a pool is coarse by.
pub(crate) const TICK_NS: u64 = 50_000;

const TARGETS: u16 = 3;

type Act = Box<dyn FnOnce() + Send>;

/// Who counts requests, and refuses all from some on.
pub(crate) struct Faults {
    /// Requests that change something and are still carried out; none are refused if it is negative.
    left: AtomicI64,
    pub(crate) fetches: AtomicU64,
    pub(crate) round_trips: AtomicU64,
    /// Guards what is done just before the next commit; not held while it is done.
    before_commit: Mutex<Option<Act>>,
}

impl core::fmt::Debug for Faults {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Faults").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Faults {
    fn new() -> Arc<Self> {
        let (left, fetches, round_trips) = (AtomicI64::new(i64::MIN), AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { left, fetches, round_trips, before_commit: Mutex::default() })
    }

    /// Has all but the next `count` changes refused, as if the process had ended.
    pub(crate) fn after(&self, count: i64) {
        self.left.store(count, Ordering::SeqCst);
    }

    /// Has all carried out again; whether something was refused.
    pub(crate) fn heal(&self) -> bool {
        self.left.swap(i64::MIN, Ordering::SeqCst) < 0
    }

    /// Has this done just before the next commit of a transaction.
    pub(crate) fn before_commit(&self, act: impl FnOnce() + Send + 'static) {
        *self.before_commit.lock().unwrap() = Some(Box::new(act));
    }

    /// Does what is to be done just before a commit.
    pub(crate) fn act_before_commit(&self) {
        let act = self.before_commit.lock().unwrap().take();
        act.into_iter().for_each(|act| act());
    }

    /// Whether something was refused already.
    pub(crate) fn is_cut(&self) -> bool {
        let left = self.left.load(Ordering::SeqCst);
        left != i64::MIN && left < 0
    }

    /// Whether a request is refused, which may be one that changes something.
    pub(crate) fn refuses(&self, changes: bool) -> bool {
        let left = self.left.load(Ordering::SeqCst);
        if left == i64::MIN || (left == 0 && !changes) {
            return false;
        }
        if left <= 0 {
            self.left.store(-1, Ordering::SeqCst);
            return true;
        }
        if changes {
            self.left.fetch_sub(1, Ordering::SeqCst);
        }
        false
    }
}

/// A transport that is cut.
struct Cut {
    inner: Arc<dyn Transport>,
    faults: Arc<Faults>,
    /// Guards outcomes of what never reached the pool.
    refused: Mutex<Vec<(QueueId, Outcome)>>,
}

impl Cut {
    fn refusal(&self, ask: &Ask<'_>) -> Option<Error> {
        if matches!(ask, Ask::Pool(PoolVerb::TxCommit(_))) {
            self.faults.act_before_commit();
        }
        if matches!(ask, Ask::Target(_, _, Verb::Fetch(_))) {
            self.faults.fetches.fetch_add(1, Ordering::Relaxed);
        }
        let changes = matches!(
            ask,
            Ask::Target(_, _, Verb::Update(_) | Verb::Punch(_))
                | Ask::Pool(PoolVerb::TxCommit(_) | PoolVerb::AllocOids(..))
        );
        self.faults.refuses(changes).then_some(Error::Canceled)
    }
}

impl Transport for Cut {
    fn call(&self, request: Request<'_>) -> Outcome {
        self.faults.round_trips.fetch_add(1, Ordering::Relaxed);
        match self.refusal(&request.ask) {
            Some(error) => request.refused(error),
            None => self.inner.call(request),
        }
    }

    fn call_all(
        &self,
        requests: Vec<(Request<'static>, bool)>,
    ) -> Vec<(Outcome, Option<dolmen_codec::Lease>)> {
        let before = self.faults.round_trips.load(Ordering::Relaxed);
        let answers = requests.into_iter().map(|(request, _)| (self.call(request), None)).collect();
        self.faults.round_trips.store(before + 1, Ordering::Relaxed);
        answers
    }

    fn open_queue(&self) -> Result<QueueId> {
        self.inner.open_queue()
    }

    fn close_queue(&self, queue: QueueId) {
        // The next queue may have its number, and asked for none of that.
        self.refused.lock().unwrap().retain(|(other, _)| *other != queue);
        self.inner.close_queue(queue);
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        match self.refusal(&request.ask) {
            Some(error) => self.refused.lock().unwrap().push((queue, request.refused(error))),
            None => self.inner.submit(queue, request),
        }
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        let mut refused = self.refused.lock().unwrap();
        let before = out.len();
        let (ours, others): (Vec<_>, _) = refused.drain(..).partition(|(other, _)| *other == queue);
        *refused = others;
        out.extend(ours.into_iter().map(|(_, outcome)| outcome));
        self.inner.poll(queue, wait && out.len() == before, out);
    }
}

/// Where a store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// In a container, of a pool in memory.
    Container,
    /// In an object store.
    Bucket,
    /// The same, of which the first request that is refused was carried out, and its answer lost.
    Forgetful,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Container, Kind::Bucket, Kind::Forgetful];

/// A store and all around it.
pub(crate) struct World {
    pub(crate) clock: SimClock,
    pub(crate) faults: Arc<Faults>,
    place: Place,
}

enum Place {
    Container(Arc<Cut>, Container),
    Bucket(Arc<SimBucket>),
}

impl World {
    pub(crate) fn of(kind: Kind) -> Self {
        let (clock, faults) = (SimClock::new(START_NS), Faults::new());
        let any: Arc<dyn Clock> = Arc::new(clock.clone());
        let place = match kind {
            Kind::Container => {
                let (inner, refused) = (pool(&any), Mutex::default());
                let cut = Arc::new(Cut { inner, faults: Arc::clone(&faults), refused });
                let cont = container(&cut, &any, true);
                Place::Container(cut, cont)
            }
            Kind::Bucket | Kind::Forgetful => {
                Place::Bucket(Arc::new(SimBucket::new(&faults, &clock, kind == Kind::Forgetful)))
            }
        };
        Self { clock, faults, place }
    }

    /// Something in each kind of store.
    pub(crate) fn each(act: impl Fn(Self)) {
        KINDS.into_iter().for_each(|kind| act(Self::of(kind)));
    }

    /// One of a kind after the other.
    pub(crate) fn any() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self::of(if NEXT.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            Kind::Container
        } else {
            Kind::Bucket
        })
    }

    /// The container.
    pub(crate) fn cont(&self) -> &Container {
        match &self.place {
            Place::Container(_, cont) => cont,
            Place::Bucket(_) => panic!("the store is in a bucket"),
        }
    }

    pub(crate) fn is_bucket(&self) -> bool {
        matches!(self.place, Place::Bucket(_))
    }

    /// The object store.
    pub(crate) fn bucket(&self) -> &SimBucket {
        match &self.place {
            Place::Container(..) => panic!("the store is in a container"),
            Place::Bucket(bucket) => bucket,
        }
    }

    fn options(&self) -> StoreOptions {
        StoreOptions { clock: Arc::new(self.clock.clone()), lease_ns: LEASE_NS }
    }

    /// The store, for another client of the same pool.
    pub(crate) fn another(&self) -> Store {
        let any: Arc<dyn Clock> = Arc::new(self.clock.clone());
        match &self.place {
            Place::Container(cut, _) => Store::new(&container(cut, &any, false), &self.options()),
            Place::Bucket(_) => self.store(),
        }
    }

    /// The store, for who has another clock.
    pub(crate) fn store_by(&self, clock: &SimClock) -> Store {
        let options = StoreOptions { clock: Arc::new(clock.clone()), lease_ns: LEASE_NS };
        match &self.place {
            Place::Container(_, cont) => Store::new(cont, &options),
            Place::Bucket(bucket) => Store::in_bucket(Arc::<SimBucket>::clone(bucket), &options),
        }
    }

    /// The store as a snapshot shows it.
    pub(crate) fn store_at(&self, snapshot: Epoch) -> Store {
        Store::new(&self.cont().at(snapshot), &self.options())
    }

    pub(crate) fn store(&self) -> Store {
        match &self.place {
            Place::Container(_, cont) => Store::new(cont, &self.options()),
            Place::Bucket(bucket) => Store::in_bucket(Arc::<SimBucket>::clone(bucket), &self.options()),
        }
    }

    /// Objects that there are.
    pub(crate) fn object_count(&self) -> usize {
        match &self.place {
            Place::Container(_, cont) => {
                let mut walk = cont.objects(None);
                core::iter::from_fn(|| Some(walk.next_page().unwrap().len()).filter(|&len| len > 0)).sum()
            }
            Place::Bucket(bucket) => bucket.object_count(),
        }
    }
}

fn container(transport: &Arc<Cut>, clock: &Arc<dyn Clock>, is_first: bool) -> Container {
    static SEEDS: AtomicU64 = AtomicU64::new(2);
    let seed = SEEDS.fetch_add(2, Ordering::Relaxed);
    let options = Options {
        cred: Credentials::default(),
        job: 0,
        tenant: 0,
        timeout_ns: 0,
        clock: Arc::clone(clock),
        rng: Rng::from_seed(seed),
        secrets: Secrets::Repeatable(Rng::from_seed(seed + 1)),
    };
    let transport: Arc<dyn Transport> = Arc::<Cut>::clone(transport);
    let pool = Pool::connect_with(transport, options).unwrap();
    let label = Label::new("events").unwrap();
    if is_first {
        pool.create_container(Some(label.clone()), Props::new()).unwrap();
    }
    pool.open_container(&ContName::Label(label)).unwrap()
}

fn pool(clock: &Arc<dyn Clock>) -> Arc<dyn Transport> {
    let stores = (0..TARGETS).map(|no| target(no, clock)).collect::<Vec<_>>();
    let targets = vec![TargetInfo { rank: 0, state: TargetState::UpIn }; stores.len()];
    let map = PoolMap { version: 1, pool: Uuid::from_u128(5), targets };
    let stores = Targets::new(stores).unwrap();
    Service::create(&stores).unwrap();
    let identity = PoolIdentity { map, label: None };
    let secrets = Secrets::Repeatable(Rng::from_seed(1));
    let service = Service::open(&stores, Hlc::new(Arc::clone(clock)), identity, secrets).unwrap();
    Arc::new(dolmen_cluster::Pool::new(stores, service))
}

fn target(no: u16, clock: &Arc<dyn Clock>) -> dolmen_engine::Target {
    let meta = Box::new(SimDisk::new(&SimDrive::new(SimConfig::default())));
    let devices = dolmen_engine::Devices { meta, bulk: None };
    let config = dolmen_engine::TargetConfig {
        target: TargetNo(no),
        capacity_bytes: 256 << 20,
        log_segment_bytes: 4 << 20,
        bulk_segment_bytes: 4 << 20,
        ..Default::default()
    };
    dolmen_engine::Target::create(devices, Arc::clone(clock), u128::from(no), &config).unwrap()
}

/// The header of an ntuple with these fields of one column each.
pub(crate) fn header(name: &str, fields: &[(&str, ColumnKind)]) -> Header {
    let mut schema = Schema::default();
    add(&mut schema, fields);
    Header { name: name.into(), description: "".into(), writer: "these tests".into(), schema, checksum: 0 }
}

/// Adds such fields.
pub(crate) fn add(schema: &mut Schema, fields: &[(&str, ColumnKind)]) {
    for (name, kind) in fields {
        let number = u32::try_from(schema.fields.len()).unwrap();
        schema.fields.push(field(number, Role::Plain, name));
        let bits = kind.bits().unwrap().0;
        let column =
            Column { kind: *kind, bits, field: number, representation: 0, first_element: 0, range: None };
        schema.columns.push(column);
    }
}

/// A cluster with these elements of the columns of `schema` from `first` on, in pages of so many elements.
pub(crate) fn sealed(
    schema: &Schema,
    first: usize,
    entry_count: usize,
    columns: &[Vec<u8>],
    elements_of_a_page: usize,
) -> SealedCluster<'static> {
    let seal = |(column, elements): (&Column, &Vec<u8>)| {
        let width = column.kind.in_memory().unwrap().bytes();
        let page = |some: &[u8]| {
            let stored = compress(Compression::Zstd(1), &encoding::encode(column, some)).unwrap();
            let checksum = Some(checksum(&stored));
            let element_count = u32::try_from(some.len() / width).unwrap();
            SealedPage { element_count, stored: stored.into(), checksum, zone: None }
        };
        let pages = elements.chunks(elements_of_a_page * width).map(page).collect();
        Some(SealedColumn { compression: 501, pages })
    };
    let columns = schema.columns[first..].iter().zip(columns).map(seal).collect();
    SealedCluster { entry_count: entry_count as u64, columns }
}

/// Bytes of integers.
pub(crate) fn ints(values: impl IntoIterator<Item = i32>) -> Vec<u8> {
    values.into_iter().flat_map(i32::to_le_bytes).collect()
}

/// Bytes of floats.
pub(crate) fn doubles(values: impl IntoIterator<Item = f64>) -> Vec<u8> {
    values.into_iter().flat_map(f64::to_le_bytes).collect()
}

/// All values of a field.
pub(crate) fn values<S: Source>(ntuple: &Ntuple<S>, name: &str) -> Values {
    let entries = Entries { first: 0, end: ntuple.entry_count() };
    let field = ntuple.field(name).unwrap();
    let Array::Values(values) = ntuple.read(&[field], entries).unwrap().remove(0) else {
        panic!("the field is flat")
    };
    values
}

/// All values of a field of integers.
pub(crate) fn all_ints<S: Source>(ntuple: &Ntuple<S>, name: &str) -> Vec<i32> {
    let Values::I32(values) = values(ntuple, name) else { panic!("integers were read") };
    values
}
