//! A pool of engines as one store: every verb is said in the words of the client.
//!
//! What the client has no words for is answered by a panic that says so; `conformance.rs` lists the cases that ask for it.
//! Request ids, deadlines and the oldest request are the client's own; where a case says others, they are put into the
//! requests on their way, as if a network had sent an old one again.

use dolmen_client::{At, Container, Object, ObjectWalk, Options, Page, Pool, Props, Tx};
use dolmen_cluster::{Hlc, PoolIdentity, Service, Targets};
use dolmen_codec::pool::{ContName, PoolVerb};
use dolmen_codec::verb::{
    Audit, Change, ContVerb, InDoubt, List, ListWhat, Listed, Mutation, Prepare, Punch, PunchScope, ReadAt,
    Reply, SpaceReport, TxState, Update, Verb,
};
use dolmen_codec::{Ask, Completion, Op, Outcome, Progress, QueueId, Request, TargetStore, Transport};
use dolmen_engine::{Devices, Target, TargetConfig};
use dolmen_env::sim::{CrashPlan, SimConfig, SimDisk, SimDrive};
use dolmen_env::{Media, Rng, Secrets, SimClock};
use dolmen_sim::Subject;
use dolmen_types::{
    Anchor, ContNo, Credentials, Epoch, Error, Head, IoBuf, Oid, PoolMap, Result, TargetInfo, TargetNo,
    TargetState, TxId, Uuid,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const TARGETS: u16 = 3;
const START_NS: u64 = 1_790_000_000_000_000_000;
/// Time that a request takes: epochs of different targets are in the order of the requests.
const REQUEST_NS: u64 = 20_000;

type Served = dolmen_cluster::Pool<Target>;

/// The client's way to a pool that may go away and come back.
struct Link {
    clock: SimClock,
    /// Guards the pool, and what the next requests are made to say; held while the pool works.
    state: Mutex<LinkState>,
}

#[derive(Default)]
struct LinkState {
    pool: Option<Served>,
    /// What a case says of its request; the default says nothing.
    said: Head,
    client: u128,
}

impl Transport for Link {
    fn call(&self, mut request: Request<'_>) -> Outcome {
        self.clock.advance(REQUEST_NS);
        let mut state = self.state.lock().unwrap();
        state.client = request.head.id.client;
        let changes = match &request.ask {
            Ask::Target(_, _, verb) => matches!(verb, Verb::Update(_) | Verb::Punch(_)),
            Ask::Pool(verb) => matches!(verb, PoolVerb::TxCommit(_)),
        };
        if changes && state.said != Head::default() {
            let Head { id, oldest, deadline_ns, cred, .. } = state.said;
            request.head = Head { id, oldest, deadline_ns, cred, ..request.head };
        }
        state.pool.as_ref().expect("the pool is there whenever a case asks").call(request)
    }

    fn open_queue(&self) -> Result<QueueId> {
        Ok(QueueId(0))
    }

    fn close_queue(&self, _: QueueId) {}

    fn submit(&self, _: QueueId, request: Request<'static>) {
        assert!(matches!(request.ask, Ask::Pool(PoolVerb::TxEnd(_))), "for all else cases wait");
        if let Some(pool) = &self.state.lock().unwrap().pool {
            pool.call(request).result.unwrap();
        }
    }

    fn poll(&self, _: QueueId, _: bool, _: &mut Vec<Outcome>) {}
}

/// An enumeration that the client walks: it stands where its last page ended, and has no other place to go on from.
enum Walk {
    Objects(ObjectWalk, Vec<Oid>),
    Changes(dolmen_client::ChangeWalk, Vec<Change>),
}

/// The client of a pool of engines, and what cases have opened with it.
pub(crate) struct Through {
    link: Arc<Link>,
    drives: Vec<SimDrive>,
    client: Pool,
    conts: BTreeMap<ContNo, Container>,
    /// Transactions by the epoch of their begin; `true` for those that have committed.
    txs: BTreeMap<Epoch, (Tx, bool)>,
    /// The walk under way, with the anchor that stands for its place.
    walk: Option<(Walk, Anchor)>,
    done: Vec<Completion>,
}

fn config(no: u16) -> TargetConfig {
    TargetConfig {
        target: TargetNo(no),
        capacity_bytes: 256 << 20,
        log_segment_bytes: 1 << 20,
        bulk_segment_bytes: 40 << 20,
        join_extents_min: 2,
        ..TargetConfig::default()
    }
}

fn devices(drive: &SimDrive) -> Devices {
    Devices { meta: Box::new(SimDisk::new(drive)), bulk: None }
}

fn serve(stores: Vec<Target>, clock: &SimClock, is_new: bool) -> Served {
    let info = TargetInfo { rank: 0, state: TargetState::UpIn };
    let map = PoolMap { version: 1, pool: Uuid::from_u128(5), targets: vec![info; stores.len()] };
    let targets = Targets::new(stores).unwrap();
    if is_new {
        Service::create(&targets).unwrap();
    }
    let identity = PoolIdentity { map, label: None };
    let hlc = Hlc::new(Arc::new(clock.clone()));
    let service = Service::open(&targets, hlc, identity, Secrets::Repeatable(Rng::from_seed(1))).unwrap();
    Served::new(targets, service)
}

impl Through {
    pub(crate) fn new(media: Media) -> Self {
        let clock = SimClock::new(START_NS);
        let drive = || SimDrive::new(SimConfig { media, ..SimConfig::default() });
        let drives: Vec<SimDrive> = (0..TARGETS).map(|_| drive()).collect();
        let create = |(no, drive)| {
            Target::create(devices(drive), Arc::new(clock.clone()), u128::from(no), &config(no)).unwrap()
        };
        let stores = (0..TARGETS).zip(&drives).map(create).collect();
        let pool = Some(serve(stores, &clock, true));
        let state = Mutex::new(LinkState { pool, ..LinkState::default() });
        let link = Arc::new(Link { clock: clock.clone(), state });
        let mut options = Options::new(Credentials::default()).unwrap();
        options.clock = Arc::new(clock);
        options.rng = Rng::from_seed(7);
        options.secrets = Secrets::Repeatable(Rng::from_seed(7));
        let transport: Arc<Link> = Arc::clone(&link);
        let client = Pool::connect_with(transport, options).unwrap();
        let (conts, txs) = (BTreeMap::new(), BTreeMap::new());
        Self { link, drives, client, conts, txs, walk: None, done: Vec::new() }
    }

    fn reopen(&mut self) {
        let open = |(no, drive)| {
            let clock = Arc::new(self.link.clock.clone());
            Target::open(devices(drive), clock, &config(no)).unwrap().0
        };
        let stores = (0..TARGETS).zip(&self.drives).map(open).collect();
        let pool = serve(stores, &self.link.clock, false);
        self.link.state.lock().unwrap().pool = Some(pool);
        self.walk = None;
    }

    fn take_pool(&self) -> Served {
        self.link.state.lock().unwrap().pool.take().unwrap()
    }

    /// What every target answers, past the client: only for what no client can see.
    fn ask_targets(&self, verb: impl Fn() -> Verb<'static>) -> Result<Vec<Reply>> {
        let state = self.link.state.lock().unwrap();
        let op = |_| Op { token: 0, head: Head::default(), cont: ContNo::SYSTEM, verb: verb() };
        state.pool.as_ref().unwrap().targets().ask_all(op)
    }

    fn cont(&self, no: ContNo) -> Container {
        self.conts.get(&no).unwrap_or_else(|| panic!("{no:?} was never made: it cannot be opened")).clone()
    }

    /// Asks as the client asks, at a state that a case names.
    fn at<T>(&self, at: ReadAt, ask: impl FnOnce(At<'_>) -> Result<T>) -> Result<T> {
        match at {
            ReadAt::Latest => ask(At::Latest),
            ReadAt::Epoch(epoch) => ask(At::Snapshot(epoch)),
            ReadAt::Tx(epoch) => ask(At::Tx(&self.tx(epoch).0)),
        }
    }

    fn tx(&self, epoch: Epoch) -> &(Tx, bool) {
        self.txs.get(&epoch).unwrap_or_else(|| panic!("a client chooses no epoch for a transaction"))
    }

    fn run(&mut self, cont: ContNo, verb: Verb<'_>, buf: &mut Option<IoBuf>) -> Result<Reply> {
        match verb {
            Verb::Update(update) => change(&self.cont(cont), At::Latest, &Mutation::Update(update)),
            Verb::Punch(punch) => change(&self.cont(cont), At::Latest, &Mutation::Punch(punch)),
            Verb::Fetch(fetch) => {
                let bytes = buf.insert(fetch.buf);
                let object = self.cont(cont).object(fetch.oid)?;
                let ask = |at: At<'_>| object.fetch(at, &fetch.dkey, fetch.cond, &fetch.iods, bytes);
                self.at(fetch.at, ask).map(Reply::Fetched)
            }
            Verb::List(list) => self.list(cont, list),
            Verb::Query(query) => {
                let object = self.cont(cont).object(query.oid)?;
                let ask = |at: At<'_>| object.query(at, query.flags, &query.dkey, &query.akey);
                self.at(query.at, ask).map(Reply::Found)
            }
            Verb::Prepare(prepare) => self.prepare(cont, &prepare),
            Verb::Commit(tx) => {
                if self.tx(tx.begin).1 {
                    Ok(Reply::Done)
                } else {
                    Err(Error::NotFound)
                }
            }
            Verb::Conclude(_) | Verb::Unconcluded => panic!("a client concludes nothing"),
            Verb::Abort(tx) if self.tx(tx.begin).1 => Err(Error::Exists),
            Verb::Abort(tx) => {
                self.tx(tx.begin).0.abort();
                Ok(Reply::Done)
            }
            Verb::TxState(tx) => {
                let is_known = |reply: &Reply| !matches!(reply, Reply::TxState(TxState::Unknown));
                let known = self.ask_targets(|| Verb::TxState(tx))?.into_iter().find(is_known);
                Ok(known.unwrap_or(Reply::TxState(TxState::Unknown)))
            }
            Verb::InDoubt => {
                let lists = self.ask_targets(|| Verb::InDoubt)?.into_iter().flat_map(|reply| match reply {
                    Reply::InDoubt(list) => list,
                    other => panic!("{other:?}"),
                });
                Ok(Reply::InDoubt(lists.collect::<Vec<InDoubt>>()))
            }
            Verb::Cont(verb) => self.run_cont(cont, verb),
            Verb::Space => self.client.query().map(|info| Reply::Space(sum(&info.space))),
            Verb::Flush | Verb::Checkpoint => self.client.checkpoint().map(|()| Reply::Done),
            Verb::Scrub => self.client.scrub().map(joined),
            Verb::Check => self.client.check().map(joined),
            Verb::Latest => panic!("a client does not ask for the newest epoch"),
        }
    }

    fn run_cont(&mut self, no: ContNo, verb: ContVerb) -> Result<Reply> {
        let uuid = Uuid::from_u128(0xC0_0000 + u128::from(no.0));
        match verb {
            ContVerb::Create(_) => {
                self.client.create_container_as(uuid, None, Props::new())?;
                let cont = self.client.open_container(&ContName::Uuid(uuid))?;
                self.conts.insert(no, cont);
                Ok(Reply::Done)
            }
            ContVerb::Destroy => {
                self.client.destroy_container(&ContName::Uuid(uuid), true).map(|()| Reply::Done)
            }
            ContVerb::Usage => self.cont(no).query().map(|info| Reply::ContUsage(info.usage)),
            ContVerb::RemoveSnapshot(epoch) => self.cont(no).destroy_snapshot(epoch).map(|()| Reply::Done),
            ContVerb::Aggregate(epoch) => {
                let freed = self.cont(no).aggregate(epoch)?;
                Ok(Reply::Aggregated { more: false, freed })
            }
            ContVerb::RaiseFloor(_) | ContVerb::AddSnapshot(_) | ContVerb::Rollback { .. } => {
                panic!("a client chooses no epoch for {verb:?}")
            }
        }
    }

    /// A client's commit is prepare and decision in one.
    fn prepare(&mut self, cont: ContNo, prepare: &Prepare<'_>) -> Result<Reply> {
        let cont = self.cont(cont);
        let (tx, has_committed) = self.txs.get_mut(&prepare.epoch).expect("begun by this client");
        for mutation in &prepare.mutations {
            change(&cont, At::Tx(tx), mutation)?;
        }
        tx.commit()?;
        *has_committed = true;
        Ok(Reply::Prepared)
    }

    fn list(&mut self, cont: ContNo, list: List) -> Result<Reply> {
        let page = Page { items_max: list.items_max, bytes_max: list.bytes_max };
        let cont = self.cont(cont);
        let mut anchor = list.anchor;
        let listed = match &list.what {
            ListWhat::Dkeys(oid) => {
                let object = cont.object(*oid)?;
                Listed::Keys(self.at(list.at, |at| object.list_dkeys(at, &mut anchor, page))?)
            }
            ListWhat::Akeys(oid, dkey) => {
                let object = cont.object(*oid)?;
                Listed::Keys(self.at(list.at, |at| object.list_akeys(at, dkey, &mut anchor, page))?)
            }
            ListWhat::Extents(oid, dkey, akey) => {
                let object = cont.object(*oid)?;
                let ask = |at: At<'_>| object.list_extents(at, dkey, akey, &mut anchor, page.items_max);
                Listed::Extents(self.at(list.at, ask)?)
            }
            ListWhat::Objects | ListWhat::Changes { .. } => return self.walk(&cont, &list),
        };
        Ok(Reply::Listed(listed, anchor))
    }

    /// The next items of a walk.
    fn walk(&mut self, cont: &Container, list: &List) -> Result<Reply> {
        if list.anchor == Anchor::default() {
            let walk = match list.what {
                ListWhat::Changes { from, to } => Walk::Changes(cont.diff(from, to), Vec::new()),
                _ => {
                    let at = match list.at {
                        ReadAt::Latest => None,
                        ReadAt::Epoch(epoch) | ReadAt::Tx(epoch) => Some(epoch),
                    };
                    Walk::Objects(cont.objects(at), Vec::new())
                }
            };
            self.walk = Some((walk, list.anchor));
        }
        let items_max = usize::try_from(list.items_max).unwrap();
        let (walk, place) = self.walk.as_mut().expect("a walk goes on where it began");
        assert!(*place == list.anchor, "a walk over all targets keeps its own anchor");
        let (listed, is_end) = match walk {
            Walk::Objects(walk, rest) => {
                let part = next_part(rest, items_max, || walk.next_page())?;
                (Listed::Objects(part.0), part.1)
            }
            Walk::Changes(walk, rest) => {
                let part = next_part(rest, items_max, || walk.next_page())?;
                (Listed::Changes(part.0), part.1)
            }
        };
        let taken = list.anchor.position().first().map_or(1, |taken| taken.wrapping_add(1));
        *place = if is_end { Anchor::eof() } else { Anchor::after(&[taken]).unwrap() };
        Ok(Reply::Listed(listed, *place))
    }
}

/// At most `items_max` items of a walk that gives them in pages of its own; `true` at the end.
fn next_part<I>(
    rest: &mut Vec<I>,
    items_max: usize,
    mut next_page: impl FnMut() -> Result<Vec<I>>,
) -> Result<(Vec<I>, bool)> {
    if rest.is_empty() {
        *rest = next_page()?;
    }
    let part: Vec<I> = rest.drain(..items_max.min(rest.len())).collect();
    let is_end = part.is_empty();
    Ok((part, is_end))
}

fn change(cont: &Container, at: At<'_>, mutation: &Mutation<'_>) -> Result<Reply> {
    let epoch = match mutation {
        Mutation::Update(Update { oid, dkey, cond, iods, charged: _ }) => {
            cont.object(*oid)?.update(at, dkey, *cond, iods)?
        }
        Mutation::Punch(Punch { oid, scope, cond }) => {
            let object: Object = cont.object(*oid)?;
            match scope {
                PunchScope::Object => object.punch(at, *cond)?,
                PunchScope::Dkey(dkey) => object.punch_dkey(at, dkey, *cond)?,
                PunchScope::Akeys(dkey, akeys) => {
                    let akeys: Vec<&[u8]> = akeys.iter().map(|akey| &akey[..]).collect();
                    object.punch_akeys(at, dkey, &akeys, *cond)?
                }
            }
        }
    };
    Ok(Reply::Written(epoch))
}

fn joined(audits: Vec<Audit>) -> Reply {
    let mut all = Audit::default();
    for audit in audits {
        all.versions += audit.versions;
        all.verified_bytes += audit.verified_bytes;
        all.unlisted += audit.unlisted;
        audit.findings.into_iter().for_each(|finding| all.note(finding));
    }
    Reply::Audited(all)
}

fn sum(space: &[SpaceReport]) -> SpaceReport {
    space.iter().fold(SpaceReport::default(), |all, one| SpaceReport {
        total_bytes: all.total_bytes + one.total_bytes,
        free_bytes: all.free_bytes + one.free_bytes,
        ..all
    })
}

impl TargetStore for Through {
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        for op in ops.drain(..) {
            self.link.state.lock().unwrap().said = op.head;
            let mut buf = None;
            let result = self.run(op.cont, op.verb, &mut buf);
            self.link.state.lock().unwrap().said = Head::default();
            self.done.push(Completion { token: op.token, result, buf });
        }
    }

    fn poll(&mut self, _: bool, out: &mut Vec<Completion>) {
        out.append(&mut self.done);
    }

    fn step(&mut self) -> Progress {
        self.link.state.lock().unwrap().pool.as_ref().unwrap().step()
    }
}

impl Subject for Through {
    fn store(&mut self) -> &mut dyn TargetStore {
        self
    }

    fn target(&self) -> TargetNo {
        TargetNo(0)
    }

    fn clock(&self) -> SimClock {
        self.link.clock.clone()
    }

    fn restart(&mut self) {
        for store in self.take_pool().into_stores() {
            store.close().unwrap();
        }
        self.reopen();
    }

    fn crash(&mut self) {
        self.drives = self.drives.iter().map(|drive| drive.crash(CrashPlan::None)).collect();
        drop(self.take_pool());
        self.reopen();
    }

    fn snapshot(&mut self, cont: ContNo) -> Option<Epoch> {
        Some(self.cont(cont).create_snapshot(None).unwrap())
    }

    fn roll_back(&mut self, cont: ContNo, to: Epoch) -> Option<Epoch> {
        Some(self.cont(cont).rollback(to).unwrap())
    }

    fn begin(&mut self, cont: ContNo) -> Option<(TxId, Epoch)> {
        let tx = self.cont(cont).begin().unwrap();
        let epoch = tx.epoch();
        self.txs.insert(epoch, (tx, false));
        Some((TxId { client: self.link.state.lock().unwrap().client, begin: epoch }, epoch))
    }
}
