//! A pool whose machine comes back with a clock that stands an hour before.

use dolmen_cluster::{Hlc, Pool, PoolIdentity, Service, Targets};
use dolmen_codec::pool::{PoolReply, PoolVerb, TxCommit};
use dolmen_codec::verb::{
    Fetch, FetchIod, Mutation, NewValue, Payload, ReadAt, Reply, Update, UpdateIod, Verb, Want,
};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_engine::{Devices, Target, TargetConfig};
use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
use dolmen_env::{Rng, Secrets, SimClock};
use dolmen_types::{
    Cond, ContNo, Epoch, Error, Head, IoBuf, Key, ObjectClass, ObjectType, Oid, PoolMap, Props, TargetInfo,
    TargetNo, TargetState, TxId, Uuid,
};
use smallvec::smallvec;
use std::sync::Arc;

const HOUR_NS: u64 = 3_600_000_000_000;
const START_NS: u64 = 1_767_225_600_000_000_000;

fn config(no: u16) -> TargetConfig {
    TargetConfig {
        target: TargetNo(no),
        capacity_bytes: 64 << 20,
        log_segment_bytes: 1 << 20,
        bulk_segment_bytes: 1 << 20,
        ..Default::default()
    }
}

fn devices(drive: &SimDrive) -> Devices {
    Devices { meta: Box::new(SimDisk::new(drive)), bulk: None }
}

fn pool(targets: Targets<Target>, clock: &SimClock) -> Pool<Target> {
    let info = TargetInfo { rank: 0, state: TargetState::UpIn };
    let map = PoolMap { version: 1, pool: Uuid::from_u128(5), targets: vec![info; targets.count()] };
    let hlc = Hlc::new(Arc::new(clock.clone()));
    let service = Service::open(
        &targets,
        hlc,
        PoolIdentity { map, label: None },
        Secrets::Repeatable(Rng::from_seed(1)),
    )
    .unwrap();
    Pool::new(targets, service)
}

fn ask(pool: &Pool<Target>, ask: Ask<'_>) -> Result<Answer, Error> {
    pool.call(Request { token: 1, head: Head::default(), ask }).result
}

fn epoch(pool: &Pool<Target>, verb: PoolVerb<'_>) -> Epoch {
    match ask(pool, Ask::Pool(verb)) {
        Ok(Answer::Pool(PoolReply::Epoch(epoch))) => epoch,
        other => panic!("{other:?}"),
    }
}

fn update(value: &[u8]) -> Update<'_> {
    let value = NewValue::Single(Payload::Ref(value));
    let iods = smallvec![UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }];
    Update { oid: oid(), dkey: Key::from_slice(b"d"), cond: Cond::NONE, iods, charged: None }
}

fn oid() -> Oid {
    Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 0, 77)
}

fn get(pool: &Pool<Target>, target: u16, cont: ContNo, at: ReadAt) -> Result<u64, Error> {
    let iods = smallvec![FetchIod { akey: Key::from_slice(b"a"), want: Want::Single { room_bytes: 64 } }];
    let (dkey, buf) = (Key::from_slice(b"d"), IoBuf::zeroed(64));
    let fetch = Verb::Fetch(Fetch { oid: oid(), dkey, cond: Cond::NONE, at, iods, buf });
    match ask(pool, Ask::Target(TargetNo(target), cont, fetch))? {
        Answer::Target(Reply::Fetched(found)) => Ok(found[0].size_bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pool_goes_on_after_its_clock_has_stepped_back() {
    let clock = SimClock::new(START_NS);
    let drives: Vec<SimDrive> = (0..2).map(|_| SimDrive::new(SimConfig::default())).collect();
    let create = |(drive, no): (&SimDrive, u16)| {
        Target::create(devices(drive), Arc::new(clock.clone()), u128::from(no), &config(no)).unwrap()
    };
    let targets = Targets::new(drives.iter().zip(0..).map(create).collect()).unwrap();
    Service::create(&targets).unwrap();
    let before = pool(targets, &clock);
    let made = PoolVerb::ContCreate { uuid: Uuid::from_u128(1), label: None, props: Props::new() };
    let Ok(Answer::Pool(PoolReply::Cont(cont))) = ask(&before, Ask::Pool(made)) else {
        panic!("no container")
    };
    // One target is at work an hour later, the other idle.
    clock.advance(HOUR_NS);
    let put = || Ask::Target(TargetNo(0), cont.no, Verb::Update(update(b"late")));
    ask(&before, put()).unwrap();
    before.into_stores().into_iter().for_each(|target| target.close().unwrap());
    clock.step_to(START_NS);
    let open = |(drive, no): (&SimDrive, u16)| {
        Target::open(devices(drive), Arc::new(clock.clone()), &config(no)).unwrap().0
    };
    let after = pool(Targets::new(drives.iter().zip(0..).map(open).collect()).unwrap(), &clock);
    let begun = epoch(&after, PoolVerb::TxBegin);
    assert_eq!(get(&after, 1, cont.no, ReadAt::Tx(begun)), Ok(0));
    let parts = [0, 1].map(|no| (TargetNo(no), vec![Mutation::Update(update(b"both"))]));
    let tx = TxId { client: 4, begin: begun };
    let commit = TxCommit {
        cont: cont.no,
        tx,
        epoch: begun,
        parts: parts.into_iter().collect(),
        read: smallvec::SmallVec::new(),
    };
    assert_eq!(epoch(&after, PoolVerb::TxCommit(commit)), begun);
    let snapshot = epoch(&after, PoolVerb::SnapCreate(cont.no, None));
    ask(&after, put()).unwrap();
    epoch(&after, PoolVerb::Rollback(cont.no, snapshot));
    assert_eq!(get(&after, 1, cont.no, ReadAt::Latest), Ok(4));
    // What a client makes up is bounded all the same.
    let made_up = Epoch::from_unix_ns(START_NS + 2 * HOUR_NS);
    assert!(matches!(get(&after, 1, cont.no, ReadAt::Epoch(made_up)), Err(Error::Invalid(_))));
}
