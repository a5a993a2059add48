//! Handles on containers that are taken from who has them.

use crate::bystander::{Bystander, CONT};
use crate::child::ChildDaemon;
use crate::child::until;
use crate::common::{Scratch, Served, WAYS, Way, remote};
use crate::raw::Raw;
use dolmen_client::{At, Container, Pool, Whose};
use dolmen_codec::acl::Acl;
use dolmen_codec::evictions::Evictions;
use dolmen_codec::pool::{ContName, PoolReply, PoolVerb};
use dolmen_codec::verb::{ContVerb, Verb};
use dolmen_codec::wire::{SystemVerb, encode_request};
use dolmen_codec::{Answer, Ask};
use dolmen_net::client::{Link, Remote};
use dolmen_types::{Credentials, Error, Head, IoBuf, Label, PropId, PropValue, Props, TargetNo};
use std::sync::Arc;

fn value_of(bystander: &Bystander) -> dolmen_types::Result<Option<usize>> {
    bystander.object.get(At::Latest, b"key", b"a", &mut IoBuf::default())
}

fn put(bystander: &Bystander, value: &[u8]) -> dolmen_types::Result<()> {
    bystander.object.put(At::Latest, b"key", b"a", value).map(drop)
}

#[test]
fn whose_handle_is_taken_is_told_so_until_he_opens_the_container_again() {
    for way in WAYS {
        let served = Served::start();
        let link = served.link(way);
        let loser = Bystander::first(link.clone());
        put(&loser, b"before").unwrap();
        let tx = loser.cont.begin().unwrap();
        loser.object.put(At::Tx(&tx), b"key", b"a", b"in a transaction").unwrap();
        let mut taker = Bystander::of(&served.link(Way::Socket));
        assert_eq!(taker.handle_count(), 2);
        taker.cont.evict_others(Whose::All).unwrap();
        assert_eq!(taker.handle_count(), 1, "{way:?}: what was taken is counted no more");
        assert_eq!(value_of(&loser), Err(Error::NoHandle), "{way:?}");
        assert_eq!(put(&loser, b"late"), Err(Error::NoHandle), "{way:?}");
        assert_eq!(tx.commit(), Err(Error::NoHandle), "{way:?}");
        assert_eq!(loser.cont.query().map(drop), Err(Error::NoHandle), "{way:?}");
        assert_eq!(loser.cont.create_snapshot(None), Err(Error::NoHandle), "{way:?}");
        assert_eq!(loser.cont.evict_others(Whose::All), Err(Error::NoHandle), "{way:?}");
        assert!(loser.pool.query().is_ok(), "the pool is still open");
        taker.goes_on();
        // The same client, over the same connection.
        let name = ContName::Label(Label::new(CONT).unwrap());
        let again = loser.pool.open_container(&name).unwrap();
        let object = again.object(loser.object.oid()).unwrap();
        let mut buf = IoBuf::default();
        object.get(At::Latest, b"key", b"a", &mut buf).unwrap();
        assert_eq!(&buf[..], b"before", "{way:?}: nothing of what was refused is there");
        assert_eq!(value_of(&loser), Err(Error::NoHandle), "{way:?}: the old handle does not live again");
        assert_eq!(taker.handle_count(), 2);
        drop((tx, loser));
        assert_eq!(taker.handle_count(), 2, "{way:?}: giving up what has ended closes nothing");
        again.close().unwrap();
        assert_eq!(taker.handle_count(), 1);
    }
}

/// A container as a user has it who says over TCP who he is.
fn opened_by(link: &Link, uid: u32) -> (Pool, Container) {
    let cred = Credentials { uid, gid: 0, project: 0 };
    let name = dolmen_codec::wire::PoolName::Label(Label::new(crate::bystander::POOL).unwrap());
    let head = Head { cred, ..Head::default() };
    let remote = Remote::open(link, &head, name, dolmen_codec::wire::PoolAccess::ReadWrite).unwrap();
    let pool = Pool::connect(Arc::new(remote), cred).unwrap();
    let cont = pool.open_container(&ContName::Label(Label::new(CONT).unwrap())).unwrap();
    (pool, cont)
}

#[test]
fn a_user_takes_his_own_handles_and_leaves_those_of_others() {
    let own = dolmen_env::user_id();
    let served = Served::start();
    let first = Bystander::first(served.link(Way::Socket));
    let (_pool, same) = opened_by(&served.link(Way::Tcp), own);
    let stranger = {
        let cred = Credentials { uid: 0, gid: 0, project: 0 };
        // Root may do everything, whoever runs the engine; where that is root, it is one user.
        assert!(remote(&served.link(Way::Tcp), crate::bystander::POOL).is_ok());
        opened_by(&served.link(Way::Tcp), cred.uid).1
    };
    assert_eq!(first.handle_count(), 3);
    first.cont.evict_others(Whose::Own).unwrap();
    assert_eq!(same.query().map(drop), Err(Error::NoHandle));
    assert_eq!(stranger.query().is_ok(), own != 0);
    assert_eq!(first.handle_count(), 1 + u32::from(own != 0));
}

#[test]
fn a_handle_that_was_taken_does_not_come_back_with_the_next_connection() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let loser = Bystander::first(daemon.link(way));
        put(&loser, b"before").unwrap();
        let taker = Bystander::of(&daemon.link(way));
        taker.cont.evict_others(Whose::All).unwrap();
        // He hears of it by the next daemon only.
        daemon.kill();
        daemon.start_again();
        assert_eq!(put(&loser, b"late"), Err(Error::NoHandle), "{way:?}");
        put(&taker, b"after").unwrap();
        assert_eq!(taker.handle_count(), 1, "{way:?}: who took them has his still");
        let again = Bystander::of(&daemon.link(way));
        assert_eq!(value_of(&again), Ok(Some(5)), "{way:?}");
        daemon.kill();
        daemon.start_again();
        assert_eq!(value_of(&again), Ok(Some(5)), "{way:?}: what was opened since is opened again");
        assert_eq!(value_of(&loser), Err(Error::NoHandle), "{way:?}");
        assert_eq!(taker.handle_count(), 2, "{way:?}");
        daemon.assert_sound();
    }
}

/// Lets a user into the pool and the container of `operator` with these rights.
fn allow(operator: &Bystander, uid: u32, letters: &str) {
    let list = Acl::of_texts(&[&format!("A::{uid}@:{letters}")]).unwrap();
    let pool = Props::from([(PropId::PO_ACL, PropValue::Bytes(list.encode()))]);
    operator.pool.set_props(&pool).unwrap();
    operator.cont.set_acl(&list).unwrap();
}

#[test]
fn an_eviction_that_is_asked_for_again_shuts_nobody_else_out() {
    for whose in [Whose::Own, Whose::All] {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let operator = Bystander::first(daemon.link(Way::Socket));
        let mut raw = Raw::connect(&daemon, Way::Tcp);
        raw.cred = Credentials { uid: 4_200_042, gid: 4_200_043, project: 0 };
        allow(&operator, raw.cred.uid, "rd");
        let opened = raw.open(crate::bystander::POOL, CONT);
        let evict = |whose| Ask::Pool(PoolVerb::ContEvict(opened.cont, whose));
        let first = raw.frame(7, opened.slot, &evict(Whose::Own));
        let second = raw.frame(8, opened.slot, &evict(whose));
        for (frame, count) in [(&first, 1), (&first, 1), (&second, 2), (&second, 2)] {
            raw.send(frame);
            match raw.answer().1 {
                Ok(Answer::Pool(PoolReply::Cont(handle))) => {
                    assert_eq!(Evictions::of(&handle.props), Evictions::of_all(count), "his own count");
                }
                other => panic!("{other:?}"),
            }
        }
        let mut newcomer = Bystander::of(&daemon.link(Way::Socket));
        newcomer.goes_on();
        let is_there = operator.cont.query().is_ok();
        assert_eq!(is_there, whose == Whose::Own);
        // Who has evicted goes on as well, and so does who opens it for him.
        let again = raw.open(crate::bystander::POOL, CONT);
        let latest = Ask::Target(TargetNo(0), again.cont, Verb::Cont(ContVerb::Usage));
        assert!(raw.ask(again, &latest).is_ok());
        assert!(raw.ask(opened, &latest).is_ok());
        daemon.assert_sound();
    }
}

/// A close that is refused, as its deadline is over.
fn late_close(raw: &mut Raw, opened: crate::raw::Opened) -> Vec<u8> {
    let mut caller = raw.caller(50, opened.slot);
    caller.head.deadline_ns = 1;
    let mut frame = Vec::new();
    encode_request(&mut frame, &caller, &Ask::Pool(PoolVerb::ContClose(opened.cont))).unwrap();
    frame
}

#[test]
fn a_handle_that_could_not_be_closed_is_open_still_or_is_given_back_with_its_pool() {
    for leaves in [false, true] {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let operator = Bystander::first(daemon.link(Way::Socket));
        let mut raw = Raw::connect(&daemon, Way::Socket);
        let opened = raw.open(crate::bystander::POOL, CONT);
        let usage = Ask::Target(TargetNo(0), opened.cont, Verb::Cont(ContVerb::Usage));
        let mut frames = late_close(&mut raw, opened);
        if leaves {
            frames.extend(raw.system_frame(51, &SystemVerb::PoolDisconnect { slot: opened.slot }));
        }
        raw.send(&frames);
        let count = if leaves { 2 } else { 1 };
        let tokens: Vec<(u64, bool)> = (0..count)
            .map(|_| raw.reply().map(|(header, ..)| (header.token, header.status == 0)).unwrap())
            .collect();
        assert!(tokens.contains(&(50, false)), "{tokens:?}");
        if leaves {
            until("the handle is given back", || operator.handle_count() == 1);
        } else {
            assert!(raw.ask(opened, &usage).is_ok());
            assert_eq!(operator.handle_count(), 2);
        }
        daemon.assert_sound();
    }
}
