//! Limits over a daemon: who sets them, and what programs are told that know none.

use crate::bystander::{Bystander, CONT, POOL};
use crate::child::ChildDaemon;
use crate::common::{Scratch, Way, pool};
use crate::ranks::{Engines, container, spread_object};
use crate::raw::{Opened, Raw, update};
use dolmen_client::{At, EventQueue, Object, Wait};
use dolmen_codec::acl::Acl;
use dolmen_codec::pool::{PoolReply, PoolVerb, TxCommit};
use dolmen_codec::quota::Limits;
use dolmen_codec::verb::{Mutation, NewValue, Payload, Update, UpdateIod, Verb};
use dolmen_codec::wire::{FEATURE_QUOTA, Version};
use dolmen_codec::{Answer, Ask};
use dolmen_env::scope;
use dolmen_types::{Cond, Credentials, Epoch, Error, IoBuf, Key, PropId, PropValue, Props, TargetNo, TxId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

const UID: u32 = 4_200_042;

fn list(entries: &[&str]) -> PropValue {
    PropValue::Bytes(Acl::of_texts(entries).unwrap().encode())
}

#[test]
fn limits_are_set_by_whom_it_concerns() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let operator = Bystander::first(daemon.link(Way::Socket));
    operator.cont.set_quota(None, Limits { bytes: 1 << 30, files: 0 }).unwrap();
    let refused = Err(Error::NoPermission);
    // Of all, of a user, and whether he is told.
    for (owns, letters, may) in [
        (false, "rw", [false, false, true]),
        (false, "rT", [false, true, true]),
        (false, "t", [false, false, true]),
        (true, "r", [true, false, true]),
        (true, "rwdtTaAo", [true, true, true]),
        (false, "w", [false, false, false]),
    ] {
        let owner = PropValue::Text(format!("{}@", if owns { UID } else { 1 }));
        operator.pool.set_props(&Props::from([(PropId::PO_OWNER, owner)])).unwrap();
        operator
            .pool
            .set_props(&Props::from([(PropId::PO_ACL, list(&["A::4200042@:r", "A::OWNER@:r"]))]))
            .unwrap();
        let acl = list(&[&format!("A::4200042@:{letters}")]);
        operator.cont.set_props(&Props::from([(PropId::CO_ACL, acl)])).unwrap();
        let mut raw = Raw::connect_with(&daemon, Way::Tcp, (Version::NEWEST, FEATURE_QUOTA));
        raw.cred = Credentials { uid: UID, gid: 4_200_043, project: 0 };
        let opened = raw.open(POOL, CONT);
        let limits = Limits { bytes: 1 << 29, files: 0 };
        let mut is_done = |verb, may| {
            let told = raw.ask(opened, &Ask::Pool(verb)).map(drop);
            assert_eq!(told, if may { Ok(()) } else { refused.clone() }, "{letters}, owner: {owns}");
        };
        is_done(PoolVerb::ContSetQuota(opened.cont, None, limits), may[0]);
        is_done(PoolVerb::ContSetQuota(opened.cont, Some(UID), limits), may[1]);
        is_done(PoolVerb::ContQuota(opened.cont), may[2]);
    }
    daemon.assert_sound();
}

#[test]
fn who_knows_no_quotas_is_told_that_the_pool_is_full() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let operator = Bystander::first(daemon.link(Way::Socket));
    operator.cont.set_quota(None, Limits { bytes: 100, files: 0 }).unwrap();
    for (version, features) in [
        (Version::NEWEST, FEATURE_QUOTA),
        (Version::NEWEST, 0),
        (Version::One, 0),
        (Version::One, FEATURE_QUOTA),
    ] {
        let mut raw = Raw::connect_with(&daemon, Way::Socket, (version, features));
        let opened = raw.open(POOL, CONT);
        let told = raw.ask(opened, &update(opened, b"key", &[1; 101])).map(drop);
        let full = Error::NoSpace { target: TargetNo(0), needed_bytes: 0 };
        assert_eq!(told, Err(if features == 0 { full } else { Error::QuotaLimit }), "{version:?}");
        assert!(raw.ask(opened, &update(opened, b"key", &[1; 100])).is_ok());
        if version == Version::NEWEST {
            let told = raw.ask(opened, &Ask::Pool(PoolVerb::ContQuota(opened.cont)));
            let Ok(Answer::Pool(PoolReply::Quota(report))) = told else { panic!("{told:?}") };
            assert_eq!((report.limits.bytes, report.users.len()), (100, 1));
        }
    }
    daemon.assert_sound();
}

/// An update that is charged to a user, if it is heard.
fn charged(opened: Opened, dkey: &[u8], value: &[u8], uid: u32) -> Update<'static> {
    let Ask::Target(_, _, Verb::Update(update)) = update(opened, dkey, value) else { panic!("an update") };
    Update { charged: Some(uid), ..update }
}

#[test]
fn whom_a_write_is_charged_to_is_heard_of_who_administers_the_container_and_of_nobody_else() {
    const OTHER: u32 = 4_200_099;
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let operator = Bystander::first(daemon.link(Way::Socket));
    operator.pool.set_props(&Props::from([(PropId::PO_ACL, list(&["A::4200042@:r"]))])).unwrap();
    let mut expected: BTreeMap<u32, u64> = BTreeMap::new();
    let mut dkey = 0_u32;
    let bytes_of = || {
        operator.cont.aggregate(Epoch::ZERO).unwrap();
        let users = operator.cont.quota().unwrap().users;
        users
            .iter()
            .map(|user| (user.uid, user.used.bytes))
            .filter(|user| user.1 > 0)
            .collect::<BTreeMap<_, _>>()
    };
    let before = bytes_of();
    for (letters, version, is_heard) in [
        ("rw", Version::NEWEST, false),
        ("rwT", Version::NEWEST, true),
        ("rwtaAo", Version::NEWEST, false),
        // Which says it to nobody.
        ("rwT", Version::One, false),
    ] {
        let acl = list(&[&format!("A::4200042@:{letters}")]);
        operator.cont.set_props(&Props::from([(PropId::CO_ACL, acl)])).unwrap();
        let mut raw = Raw::connect_with(&daemon, Way::Tcp, (version, FEATURE_QUOTA));
        raw.cred = Credentials { uid: UID, gid: 4_200_043, project: 0 };
        let opened = raw.open(POOL, CONT);
        dkey += 1;
        let single = charged(opened, &dkey.to_le_bytes(), &[1; 100], OTHER);
        assert!(raw.ask(opened, &Ask::Target(TargetNo(0), opened.cont, Verb::Update(single))).is_ok());
        dkey += 1;
        let Ok(Answer::Pool(PoolReply::Epoch(begin))) = raw.ask(opened, &Ask::Pool(PoolVerb::TxBegin)) else {
            panic!("an epoch")
        };
        let mutations = vec![Mutation::Update(charged(opened, &dkey.to_le_bytes(), &[1; 50], OTHER))];
        let (tx, parts) = (TxId { client: u128::from(dkey), begin }, vec![(TargetNo(0), mutations)]);
        let commit = TxCommit { cont: opened.cont, tx, epoch: begin, parts, read: [].into_iter().collect() };
        assert!(raw.ask(opened, &Ask::Pool(PoolVerb::TxCommit(commit))).is_ok());
        *expected.entry(if is_heard { OTHER } else { UID }).or_default() += 150;
        let mut now = bytes_of();
        now.retain(|uid, _| !before.contains_key(uid));
        assert_eq!(now, expected, "{letters}, {version:?}");
        // What there is is given away by whom it may, and stays as it is where somebody else says so.
        let Ok(Answer::Pool(PoolReply::Epoch(begin))) = raw.ask(opened, &Ask::Pool(PoolVerb::TxBegin)) else {
            panic!("an epoch")
        };
        let gift =
            Update { iods: [].into_iter().collect(), dkey: Key::new(), ..charged(opened, b"d", b"v", OTHER) };
        let (tx, parts) = (TxId { client: 9, begin }, vec![(TargetNo(0), vec![Mutation::Update(gift)])]);
        let commit = TxCommit { cont: opened.cont, tx, epoch: begin, parts, read: [].into_iter().collect() };
        assert!(raw.ask(opened, &Ask::Pool(PoolVerb::TxCommit(commit))).is_ok(), "{letters}, {version:?}");
        if is_heard {
            expected = BTreeMap::from([(OTHER, expected.values().sum())]);
        }
        let mut now = bytes_of();
        now.retain(|uid, _| !before.contains_key(uid));
        assert_eq!(now, expected, "{letters}, {version:?}");
    }
    // Who runs the engine.
    let object = operator.object.clone().charged_to(OTHER);
    object.put(At::Latest, b"operator's", b"a", &[1; 7]).unwrap();
    assert_eq!(bytes_of()[&OTHER], expected[&OTHER] + 7);
    operator.cont.set_quota(Some(OTHER), Limits { bytes: 200, files: 0 }).unwrap();
    let refused = object.put(At::Latest, b"more", b"a", &[1; 100]);
    assert_eq!(refused, Err(Error::QuotaLimit), "by the limit of whom it would be charged to");
    daemon.assert_sound();
}

/// Bytes of each value that is written at engines.
const VALUE_BYTES: u64 = 400;

/// Writes values under keys of its own until as many in a row do not fit; how many bytes are stored.
fn fill(object: &Object, writer: u64, stored: &AtomicU64, misses: u32) {
    let mut missed = 0;
    for number in 0_u64.. {
        let dkey = [writer.to_le_bytes(), number.to_le_bytes()].concat();
        match object.put(At::Latest, &dkey, b"a", &[7; VALUE_BYTES as usize]) {
            Ok(_) => {
                missed = 0;
                stored.fetch_add(VALUE_BYTES, Ordering::Relaxed);
            }
            Err(Error::QuotaLimit) => missed += 1,
            Err(other) => panic!("{other:?}"),
        }
        if missed >= misses {
            return;
        }
    }
}

#[test]
fn writers_at_several_engines_take_exactly_what_is_allowed_while_engines_die() {
    const LIMIT: u64 = 400_000;
    let engines = Engines::start(2);
    engines.create(false);
    let pool = pool(&engines.link(0), "p");
    let cont = container(&pool);
    let object = spread_object(&cont);
    cont.set_quota(None, Limits { bytes: LIMIT, files: 0 }).unwrap();
    let stored = AtomicU64::new(0);
    // Beside each other, with the engine with a part, and then that with the service, dying meanwhile.
    for (round, rank) in [1, 0].into_iter().enumerate() {
        scope(|threads| {
            let (object, stored) = (&object, &stored);
            let fill = |writer: u64| move || fill(object, writer, stored, 1);
            let writers: Vec<_> = (0..4).map(|n| threads.spawn(fill(10 * round as u64 + n))).collect();
            let half = LIMIT / 4 * (1 + round as u64);
            crate::child::until("some is written", || stored.load(Ordering::Relaxed) > half);
            engines.kill(rank);
            engines.start_again(rank);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
        });
        let there = stored.load(Ordering::Relaxed);
        assert!(there <= LIMIT, "{there}");
        if round == 0 {
            // Room for the next.
            object.punch(At::Latest, Cond::NONE).unwrap();
            stored.store(0, Ordering::Relaxed);
        }
    }
    // What an engine had that was gone is to be had again.
    fill(&object, 99, &stored, 40);
    assert_eq!(stored.load(Ordering::Relaxed), LIMIT);
    cont.aggregate(Epoch::ZERO).unwrap();
    assert_eq!(cont.quota().unwrap().used.bytes, LIMIT);
    // By a queue, too: all are told, and after a removal some fit.
    let queue = EventQueue::new(&pool).unwrap();
    let put_all = |from: u32| -> usize {
        let mut events: Vec<_> = (0..40).map(|_| queue.event().unwrap()).collect();
        for (number, event) in (from..).zip(&mut events) {
            let value = NewValue::Single(Payload::Owned(IoBuf::zeroed(VALUE_BYTES as usize)));
            let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value };
            object.update_on(event, At::Latest, &number.to_le_bytes(), Cond::NONE, vec![iod]).unwrap();
        }
        let mut done = Vec::new();
        while done.len() < events.len() {
            queue.poll(Wait::Forever, 64, &mut done).unwrap();
        }
        let results = events.iter_mut().map(|event| event.take_result().unwrap());
        results.filter(|result| result.as_ref().map(drop) != Err(&Error::QuotaLimit)).count()
    };
    assert_eq!(put_all(0), 0);
    for number in 0..10_u64 {
        let dkey = [99_u64.to_le_bytes(), number.to_le_bytes()].concat();
        object.punch_dkey(At::Latest, &dkey, Cond::NONE).unwrap();
    }
    let freed = (LIMIT - {
        cont.aggregate(Epoch::ZERO).unwrap();
        cont.quota().unwrap().used.bytes
    }) / VALUE_BYTES;
    assert_eq!(put_all(100) as u64, freed);
    let audits = pool.check().unwrap();
    assert!(audits.iter().all(|audit| audit.findings.is_empty()), "{audits:?}");
    engines.assert_sound();
}
