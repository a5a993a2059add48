//! A pool of staged stores, and short ways to ask it.

use super::{Inner, inner};
use crate::stage::{Director, Staged};
use dolmen_cluster::{Hlc, Pool, PoolIdentity, Service, Targets};
use dolmen_codec::pool::{ContHandle, ContName, PoolReply, PoolVerb, TxCommit};
use dolmen_codec::verb::{
    Fetch, FetchIod, Mutation, NewValue, Payload, ReadAt, Reply, Update, UpdateIod, Verb, Want,
};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_env::{Clock, Rng, Secrets, SimClock};
use dolmen_types::{
    Cond, ContNo, Credentials, Epoch, Error, Head, IoBuf, Key, Label, ObjectClass, ObjectType, Oid, PoolMap,
    Props, TargetInfo, TargetNo, TargetState, TxId, Uuid,
};
use smallvec::smallvec;
use std::sync::Arc;

pub(crate) type Store = Staged<Inner>;

/// 2026-01-01.
pub(crate) const START_NS: u64 = 1_767_225_600_000_000_000;

pub(crate) struct World {
    pub(crate) clock: SimClock,
    pub(crate) director: Arc<Director>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { clock: SimClock::new(START_NS), director: Arc::default() }
    }

    pub(crate) fn fresh_stores(&self, count: u16) -> Vec<Store> {
        (0..count).map(|no| Staged::new(no, inner(no, &self.clock), &self.director)).collect()
    }

    fn arc_clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    /// A new pool.
    pub(crate) fn create(&self, count: u16) -> Pool<Store> {
        let targets = Targets::new(self.fresh_stores(count)).unwrap();
        Service::create(&targets).unwrap();
        self.open_targets(targets).unwrap()
    }

    pub(crate) fn open_targets(&self, targets: Targets<Store>) -> Result<Pool<Store>, Error> {
        let info = TargetInfo { rank: 0, state: TargetState::UpIn };
        let map = PoolMap { version: 1, pool: Uuid::from_u128(5), targets: vec![info; targets.count()] };
        let identity = PoolIdentity { map, label: None };
        let service = Service::open(
            &targets,
            Hlc::new(self.arc_clock()),
            identity,
            Secrets::Repeatable(Rng::from_seed(1)),
        )?;
        Ok(Pool::new(targets, service))
    }

    /// As if the process had died and the pool was opened again.
    pub(crate) fn reopen(&self, pool: Pool<Store>) -> Pool<Store> {
        let restage = |(store, no): (Store, u16)| Staged::new(no, store.into_inner(), &self.director);
        let stores = pool.into_stores().into_iter().zip(0..).map(restage).collect();
        self.director.fail_after(None);
        self.open_targets(Targets::new(stores).unwrap()).unwrap()
    }
}

pub(crate) fn ask(pool: &Pool<Store>, verb: PoolVerb<'_>) -> Result<PoolReply, Error> {
    ask_by(pool, 0, verb)
}

/// As `ask`, by this user.
fn ask_by(pool: &Pool<Store>, uid: u32, verb: PoolVerb<'_>) -> Result<PoolReply, Error> {
    let head = Head { cred: Credentials { uid, ..Credentials::default() }, ..Head::default() };
    match pool.call(Request { token: 1, head, ask: Ask::Pool(verb) }).result? {
        Answer::Pool(reply) => Ok(reply),
        Answer::Target(other) => panic!("{other:?}"),
    }
}

pub(crate) fn epoch(reply: Result<PoolReply, Error>) -> Epoch {
    match reply {
        Ok(PoolReply::Epoch(epoch)) => epoch,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

pub(crate) fn by_label(text: &str) -> ContName {
    ContName::Label(label(text))
}

pub(crate) fn make(pool: &Pool<Store>, uuid: u128, text: &str) -> Result<ContHandle, Error> {
    make_with(pool, uuid, text, Props::new())
}

pub(crate) fn make_with(
    pool: &Pool<Store>,
    uuid: u128,
    text: &str,
    props: Props,
) -> Result<ContHandle, Error> {
    let verb = PoolVerb::ContCreate { uuid: Uuid::from_u128(uuid), label: Some(label(text)), props };
    match ask(pool, verb)? {
        PoolReply::Cont(handle) => Ok(handle),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn oid() -> Oid {
    Oid::new(ObjectType::DkeyUint64, ObjectClass::S1, 0, 77)
}

pub(crate) fn update(dkey: u64, value: &[u8], cond: Cond) -> Update<'_> {
    let value = NewValue::Single(Payload::Ref(value));
    let iods = smallvec![UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }];
    Update { oid: oid(), dkey: Key::from_slice(&dkey.to_le_bytes()), cond, iods, charged: None }
}

pub(crate) fn put(
    pool: &Pool<Store>,
    target: u16,
    cont: ContNo,
    dkey: u64,
    value: &[u8],
) -> Result<Epoch, Error> {
    let verb = Verb::Update(update(dkey, value, Cond::NONE));
    let request = Request { token: 2, head: Head::default(), ask: Ask::Target(TargetNo(target), cont, verb) };
    match pool.call(request).result? {
        Answer::Target(Reply::Written(epoch)) => Ok(epoch),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn fetch(dkey: u64, at: ReadAt) -> Verb<'static> {
    Verb::Fetch(Fetch {
        oid: oid(),
        dkey: Key::from_slice(&dkey.to_le_bytes()),
        cond: Cond::NONE,
        at,
        iods: smallvec![FetchIod { akey: Key::from_slice(b"a"), want: Want::Single { room_bytes: 64 } }],
        buf: IoBuf::zeroed(64),
    })
}

pub(crate) fn get_at(
    pool: &Pool<Store>,
    target: u16,
    cont: ContNo,
    dkey: u64,
    at: ReadAt,
) -> Result<Vec<u8>, Error> {
    let ask = Ask::Target(TargetNo(target), cont, fetch(dkey, at));
    let outcome = pool.call(Request { token: 3, head: Head::default(), ask });
    let buf = outcome.buf.expect("a fetch gives its buffer back");
    match outcome.result? {
        Answer::Target(Reply::Fetched(found)) => {
            Ok(buf[..usize::try_from(found[0].size_bytes).unwrap()].to_vec())
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn get(pool: &Pool<Store>, target: u16, cont: ContNo, dkey: u64) -> Result<Vec<u8>, Error> {
    get_at(pool, target, cont, dkey, ReadAt::Latest)
}

/// Begins a transaction of client `client`.
pub(crate) fn begin(pool: &Pool<Store>, client: u128) -> TxId {
    TxId { client, begin: epoch(ask(pool, PoolVerb::TxBegin)) }
}

/// Commits a transaction that sets dkeys, given as target, dkey, value.
pub(crate) fn commit(
    pool: &Pool<Store>,
    cont: ContNo,
    tx: TxId,
    writes: &[(u16, u64, &[u8])],
) -> Result<Epoch, Error> {
    commit_by(pool, 0, cont, tx, writes)
}

/// As `commit`, by this user.
pub(crate) fn commit_by(
    pool: &Pool<Store>,
    uid: u32,
    cont: ContNo,
    tx: TxId,
    writes: &[(u16, u64, &[u8])],
) -> Result<Epoch, Error> {
    let part = |&(target, dkey, value): &(u16, u64, &[u8])| {
        (TargetNo(target), vec![Mutation::Update(owned_update(dkey, value))])
    };
    let (parts, read) = (writes.iter().map(part).collect(), smallvec![]);
    match ask_by(pool, uid, PoolVerb::TxCommit(TxCommit { cont, tx, epoch: tx.begin, parts, read }))? {
        PoolReply::Epoch(epoch) => Ok(epoch),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn owned_update(dkey: u64, value: &[u8]) -> Update<'static> {
    let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(value)));
    let iods = smallvec![UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }];
    Update { oid: oid(), dkey: Key::from_slice(&dkey.to_le_bytes()), cond: Cond::NONE, iods, charged: None }
}
