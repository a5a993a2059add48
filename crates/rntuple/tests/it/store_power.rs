//! Power cuts at every write of the devices: what a version refers to is there, whatever writes survive when they are answered.

use crate::store_world::{LEASE_NS, START_NS, add, all_ints, header, ints, sealed};
use dolmen_client::{ContName, Container, Options, Pool, Props, Transport};
use dolmen_cluster::{Hlc, PoolIdentity, Service, Targets};
use dolmen_codec::{Outcome, QueueId, Request};
use dolmen_env::sim::{CrashPlan, Fault, SimConfig, SimDisk, SimDrive, SimPower};
use dolmen_env::{Clock, Rng, Secrets, SimClock};
use dolmen_rntuple::Result;
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::store::{CreateOptions, Store, StoreOptions, When};
use dolmen_types::{
    Credentials, Durability, Error, Label, PoolMap, PropId, PropValue, TargetInfo, TargetNo, TargetState,
    Uuid,
};
use std::sync::{Arc, Mutex};

const TARGETS: u16 = 2;

/// A pool that answers nothing without power.
struct Powered {
    inner: Arc<dyn Transport>,
    power: SimPower,
    /// Guards outcomes of what was asked without power.
    refused: Mutex<Vec<(QueueId, Outcome)>>,
}

impl Transport for Powered {
    fn call(&self, request: Request<'_>) -> Outcome {
        if self.power.is_crashed() {
            return request.refused(Error::Canceled);
        }
        self.inner.call(request)
    }

    fn open_queue(&self) -> dolmen_types::Result<QueueId> {
        self.inner.open_queue()
    }

    fn close_queue(&self, queue: QueueId) {
        self.inner.close_queue(queue);
    }

    fn submit(&self, queue: QueueId, request: Request<'static>) {
        if self.power.is_crashed() {
            self.refused.lock().unwrap().push((queue, request.refused(Error::Canceled)));
        } else {
            self.inner.submit(queue, request);
        }
    }

    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>) {
        let mut refused = self.refused.lock().unwrap();
        let (ours, others): (Vec<_>, _) = refused.drain(..).partition(|(other, _)| *other == queue);
        *refused = others;
        let is_any = !ours.is_empty();
        out.extend(ours.into_iter().map(|(_, outcome)| outcome));
        self.inner.poll(queue, wait && !is_any, out);
    }
}

fn config(no: u16) -> dolmen_engine::TargetConfig {
    dolmen_engine::TargetConfig {
        target: TargetNo(no),
        capacity_bytes: 64 << 20,
        log_segment_bytes: 1 << 20,
        bulk_segment_bytes: 1 << 20,
        ..Default::default()
    }
}

fn devices(drive: &SimDrive) -> dolmen_engine::Devices {
    dolmen_engine::Devices { meta: Box::new(SimDisk::new(drive)), bulk: None }
}

fn pool(stores: Vec<dolmen_engine::Target>, clock: &Arc<dyn Clock>, is_new: bool) -> Arc<dyn Transport> {
    let targets = vec![TargetInfo { rank: 0, state: TargetState::UpIn }; stores.len()];
    let map = PoolMap { version: 1, pool: Uuid::from_u128(5), targets };
    let stores = Targets::new(stores).unwrap();
    if is_new {
        Service::create(&stores).unwrap();
    }
    let identity = PoolIdentity { map, label: None };
    let secrets = Secrets::Repeatable(Rng::from_seed(1));
    let service = Service::open(&stores, Hlc::new(Arc::clone(clock)), identity, secrets).unwrap();
    Arc::new(dolmen_cluster::Pool::new(stores, service))
}

fn store(
    transport: Arc<dyn Transport>,
    clock: &Arc<dyn Clock>,
    seed: u64,
    new: Option<Durability>,
) -> (Container, Store) {
    let options = Options {
        cred: Credentials::default(),
        job: 0,
        tenant: 0,
        timeout_ns: 0,
        clock: Arc::clone(clock),
        rng: Rng::from_seed(seed),
        secrets: Secrets::Repeatable(Rng::from_seed(seed)),
    };
    let pool = Pool::connect_with(transport, options).unwrap();
    let label = Label::new("events").unwrap();
    if let Some(durability) = new {
        let props = Props::from([(PropId::CO_DURABILITY, PropValue::Number(durability as u64))]);
        pool.create_container(Some(label.clone()), props).unwrap();
    }
    let cont = pool.open_container(&ContName::Label(label)).unwrap();
    let store = Store::new(&cont, &StoreOptions { clock: Arc::clone(clock), lease_ns: LEASE_NS });
    (cont, store)
}

/// Appends, adds a column, reshapes, removes and frees; each time that something is acknowledged the count of it goes up.
fn act(store: &Store, acknowledged: &mut usize) -> Result<()> {
    let fields = [("a", ColumnKind::SplitInt32), ("b", ColumnKind::Int32)];
    let header = header("events", &fields);
    let stored = store.create(&header, &CreateOptions::default())?;
    stored.keep(0)?;
    let mut appender = stored.append()?;
    for first in [0, 5, 10] {
        let columns = [ints(first..first + 5), ints((first..first + 5).map(|at| -at))];
        appender.push(&sealed(&header.schema, 0, 5, &columns, 2))?;
        appender.commit()?;
        *acknowledged += 5;
    }
    let mut schema = header.schema;
    add(&mut schema, &[("c", ColumnKind::Int32)]);
    let mut adder = stored.add_columns(&schema)?;
    for first in [0, 5, 10] {
        adder.push(&sealed(&schema, 2, 5, &[ints((first..first + 5).map(|at| -at))], 2))?;
    }
    adder.commit()?;
    store.clone_fields(&stored, When::Now, &["b"], "slim")?;
    stored.reshape(0, u64::MAX, &dolmen_rntuple::write::Options::default())?;
    store.collect()?;
    store.destroy("slim").map(drop)
}

#[test]
fn a_power_cut_leaves_versions_whose_pages_are_all_there() {
    let time = SimClock::new(START_NS);
    let clock: Arc<dyn Clock> = Arc::new(time.clone());
    for durability in [Durability::Power, Durability::Process] {
        let (mut cut, mut is_cut) = (0, true);
        while is_cut {
            let power = SimPower::new();
            let drives: Vec<_> =
                (0..TARGETS).map(|_| SimDrive::on_power(SimConfig::default(), &power)).collect();
            let stores = (0..TARGETS).zip(&drives).map(|(no, drive)| {
                let id = u128::from(no);
                dolmen_engine::Target::create(devices(drive), Arc::clone(&clock), id, &config(no)).unwrap()
            });
            let inner = pool(stores.collect(), &clock, true);
            let powered = Powered { inner, power: power.clone(), refused: Mutex::default() };
            let (_, first) = store(Arc::new(powered), &clock, 2, Some(durability));
            power.fail_at(power.ops() + cut, Fault::Crash);
            let mut acknowledged = 0;
            let done = act(&first, &mut acknowledged);
            is_cut = power.is_crashed();
            assert!(is_cut || done.is_ok(), "{done:?}");
            for plan in [CrashPlan::None, CrashPlan::All, CrashPlan::Subset(cut), CrashPlan::Process] {
                let what = format!("{durability:?}, {cut}, {plan:?}");
                let stores = (0..TARGETS).zip(&drives).map(|(no, drive)| {
                    let drive = drive.crash(plan);
                    dolmen_engine::Target::open(devices(&drive), Arc::clone(&clock), &config(no)).unwrap().0
                });
                let (cont, after) = store(pool(stores.collect(), &clock, false), &clock, 3, None);
                for listed in after.list().unwrap() {
                    let stored = after.ntuple(&listed.name).unwrap();
                    for version in stored.versions().unwrap() {
                        let found = stored.scrub(When::Version(version.number), |_| ()).unwrap();
                        assert!(found.bad.is_empty(), "{what}: {found:?}");
                    }
                    let ntuple = stored.open(When::Now).unwrap();
                    let found = all_ints(&ntuple, "b");
                    assert_eq!(found, (0..).map(|at| -at).take(found.len()).collect::<Vec<_>>(), "{what}");
                    // Of a column that is added all is there, or nothing.
                    assert!(ntuple.field("c").is_err() || all_ints(&ntuple, "c") == found, "{what}");
                    if durability == Durability::Power && &*listed.name == "events" {
                        assert!(found.len() >= acknowledged, "{what}: {} of {acknowledged}", found.len());
                    }
                }
                for listed in after.list().unwrap() {
                    after.destroy(&listed.name).unwrap();
                }
                // Those who wrote are over.
                time.advance(LEASE_NS * 3);
                after.collect().unwrap();
                let mut walk = cont.objects(None);
                assert_eq!(walk.next_page().unwrap().len(), 0, "{what}");
            }
            cut += 1;
        }
        assert!(cut > 10, "{durability:?}: only {cut} cuts");
    }
}
