//! Limits over a daemon: who sets them, and what programs are told that know none.

use crate::bystander::{Bystander, CONT, POOL};
use crate::child::ChildDaemon;
use crate::common::{Scratch, Way};
use crate::raw::{Opened, Raw, update};
use dolmen_codec::acl::Acl;
use dolmen_codec::pool::{PoolReply, PoolVerb, TxCommit};
use dolmen_codec::quota::Limits;
use dolmen_codec::verb::{Mutation, Update, Verb};
use dolmen_codec::wire::{FEATURE_QUOTA, Version};
use dolmen_codec::{Answer, Ask};
use dolmen_types::{Credentials, Epoch, Error, PropId, PropValue, Props, TargetNo, TxId};
use std::collections::BTreeMap;

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
        let commit = TxCommit { cont: opened.cont, tx, epoch: begin, parts };
        assert!(raw.ask(opened, &Ask::Pool(PoolVerb::TxCommit(commit))).is_ok());
        *expected.entry(if is_heard { OTHER } else { UID }).or_default() += 150;
        let mut now = bytes_of();
        now.retain(|uid, _| !before.contains_key(uid));
        assert_eq!(now, expected, "{letters}, {version:?}");
    }
    // Who runs the engine.
    let object = operator.object.clone().charged_to(OTHER);
    object.put(dolmen_client::At::Latest, b"operator's", b"a", &[1; 7]).unwrap();
    assert_eq!(bytes_of()[&OTHER], expected[&OTHER] + 7);
    operator.cont.set_quota(Some(OTHER), Limits { bytes: 200, files: 0 }).unwrap();
    let refused = object.put(dolmen_client::At::Latest, b"more", b"a", &[1; 100]);
    assert_eq!(refused, Err(Error::QuotaLimit), "by the limit of whom it would be charged to");
    daemon.assert_sound();
}
