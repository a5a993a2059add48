//! A change is carried out, its answer is lost with the daemon, others change the same after the restart, and only then it is
//! asked for again: it has its first answer, and what others have changed stays.

use crate::bystander::{Bystander, POOL};
use crate::child::{ChildDaemon, until};
use crate::common::{Scratch, Way};
use crate::relay::Relay;
use dolmen_client::{At, Container, Pool};
use dolmen_codec::pool::{ContName, Whose};
use dolmen_net::client::{Link, LinkOptions};
use dolmen_types::{Error, IoBuf};

/// A daemon, somebody at it, and a client whose answers can be lost.
struct Stage {
    daemon: ChildDaemon,
    relay: Relay,
    bystander: Bystander,
    link: Link,
    _dir: Scratch,
}

impl Stage {
    fn set() -> Self {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let bystander = Bystander::first(daemon.link(Way::Rings));
        let relay = Relay::start(daemon.address(Way::Socket), dir.path());
        // Rings do not go through a relay.
        let options = LinkOptions { ring_bytes: 0, ..Default::default() };
        let link = Link::connect(&relay.address(), &options).unwrap();
        Self { daemon, relay, bystander, link, _dir: dir }
    }

    fn open(&self) -> (Pool, Container) {
        let pool = crate::common::pool(&self.link, POOL);
        let cont = pool.open_container(&ContName::Uuid(self.bystander.cont.uuid())).unwrap();
        (pool, cont)
    }

    /// Asks, and loses the answer with the daemon; `others` do theirs before it is asked again.
    fn ask_around<T: Send>(&self, ask: impl FnOnce() -> T + Send, others: impl FnOnce()) -> T {
        self.relay.lose_an_answer();
        dolmen_env::scope(|threads| {
            let asking = threads.spawn(ask);
            until("the answer is lost", || self.relay.has_lost());
            self.relay.close(true);
            self.daemon.kill();
            self.daemon.start_again();
            others();
            self.relay.close(false);
            asking.join().unwrap()
        })
    }

    fn put(&self, value: &[u8]) {
        self.bystander.object.put(At::Latest, b"key", b"a", value).unwrap();
    }

    fn get(&self) -> Vec<u8> {
        let mut buf = IoBuf::default();
        self.bystander.object.get(At::Latest, b"key", b"a", &mut buf).unwrap();
        buf[..].to_vec()
    }
}

#[test]
fn a_rollback_whose_answer_was_lost_takes_nothing_from_who_has_written_since() {
    let stage = Stage::set();
    let (_pool, cont) = stage.open();
    stage.put(b"old");
    let snapshot = cont.create_snapshot(None).unwrap();
    stage.put(b"new");
    let back = stage.ask_around(
        || cont.rollback(snapshot),
        || {
            assert_eq!(stage.get(), b"old", "it was carried out");
            stage.put(b"other");
        },
    );
    assert!(back.is_ok_and(|at| at > snapshot));
    assert_eq!(stage.get(), b"other");
    stage.daemon.assert_sound();
}

#[test]
fn attributes_and_containers_whose_answers_were_lost_stay_as_others_have_left_them() {
    let stage = Stage::set();
    let (pool, cont) = stage.open();
    let others = &stage.bystander;
    let attr = |value: &[u8]| [("k".to_owned(), value.to_vec())];
    let set = stage
        .ask_around(|| cont.set_attrs(&attr(b"mine")), || others.cont.set_attrs(&attr(b"other")).unwrap());
    assert_eq!((set, cont.attr("k")), (Ok(()), Ok(b"other".to_vec())));
    let removed = stage.ask_around(
        || cont.remove_attrs(&["k".to_owned()]),
        || others.cont.set_attrs(&attr(b"again")).unwrap(),
    );
    assert_eq!((removed, cont.attr("k")), (Ok(()), Ok(b"again".to_vec())));
    let set = stage
        .ask_around(|| pool.set_attrs(&attr(b"mine")), || others.pool.set_attrs(&attr(b"other")).unwrap());
    assert_eq!((set, pool.attr("k")), (Ok(()), Ok(b"other".to_vec())));
    let uuid = dolmen_types::Uuid::from_u128(99);
    let made = stage.ask_around(
        || pool.create_container_as(uuid, None, Default::default()),
        || others.pool.destroy_container(&ContName::Uuid(uuid), false).unwrap(),
    );
    assert!(made.is_ok_and(|made| made.uuid == uuid));
    assert_eq!(
        pool.open_container(&ContName::Uuid(uuid)).map(drop),
        Err(Error::NotFound),
        "it was destroyed since"
    );
    stage.daemon.assert_sound();
}

#[test]
fn an_eviction_whose_answer_was_lost_takes_no_handle_that_was_opened_since() {
    let stage = Stage::set();
    let (_pool, cont) = stage.open();
    let newcomer = std::sync::Mutex::new(None);
    let evicted = stage.ask_around(
        || cont.evict_others(Whose::All),
        || {
            assert_eq!(stage.bystander.cont.query().map(drop), Err(Error::NoHandle), "it was carried out");
            *newcomer.lock().unwrap() = Some(Bystander::of(&stage.daemon.link(Way::Socket)));
        },
    );
    assert_eq!(evicted, Ok(()));
    let newcomer = newcomer.into_inner().unwrap().unwrap();
    newcomer.object.put(At::Latest, b"key", b"a", b"new").unwrap();
    assert_eq!(newcomer.handle_count(), 2, "the newcomer's, and that of who has evicted");
    stage.daemon.assert_sound();
}
