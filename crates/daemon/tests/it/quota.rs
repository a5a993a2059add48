//! Limits over a daemon: who sets them, and what programs are told that know none.

use crate::bystander::{Bystander, CONT, POOL};
use crate::child::ChildDaemon;
use crate::common::{Scratch, Way};
use crate::raw::{Raw, update};
use dolmen_codec::acl::Acl;
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::quota::Limits;
use dolmen_codec::wire::{FEATURE_QUOTA, Version};
use dolmen_codec::{Answer, Ask};
use dolmen_types::{Credentials, Error, PropId, PropValue, Props, TargetNo};

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
