//! A change is carried out, its answer is lost with the daemon, others change the same after the restart, and only then it is
//! asked for again: it has its first answer, and what others have changed stays.

use crate::bystander::{Bystander, POOL};
use crate::child::{ChildDaemon, until};
use crate::common::{Scratch, Way};
use crate::relay::Relay;
use dolmen_client::{At, Container, Pool};
use dolmen_codec::pool::{ContName, Whose};
use dolmen_codec::wire::{PoolAccess, PoolName, PoolSpec, SystemReply, SystemVerb};
use dolmen_net::client::{Link, LinkOptions};
use dolmen_types::{Error, Head, IoBuf, Label, Uuid};

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

    /// The same of the daemon itself.
    fn ask_system_around(&self, verb: &SystemVerb, others: impl FnOnce(&Link)) -> Result<SystemReply, Error> {
        let own = self.daemon.link(Way::Socket);
        self.ask_around(|| self.link.ask_system(&Head::default(), verb), || others(&own))
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
    let uuid = Uuid::from_u128(99);
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

fn named(label: &str) -> PoolName {
    PoolName::Label(Label::new(label).unwrap())
}

fn create(label: &str, uuid: Option<u128>) -> SystemVerb {
    SystemVerb::PoolCreate(PoolSpec {
        uuid: uuid.map(Uuid::from_u128),
        label: Some(Label::new(label).unwrap()),
        targets: Some(1),
        volatile: true,
        ..PoolSpec::default()
    })
}

fn destroy(label: &str) -> SystemVerb {
    SystemVerb::PoolDestroy { name: named(label), force: true }
}

/// UUIDs of the pools that are there, and have this label.
fn pools(link: &Link, label: &str) -> Vec<Uuid> {
    match link.ask_system(&Head::default(), &SystemVerb::PoolList) {
        Ok(SystemReply::Pools(all)) => {
            let has_it =
                |label: &str, found: &Option<Label>| found.as_ref().is_some_and(|l| l.as_str() == label);
            all.iter().filter(|pool| has_it(label, &pool.label)).map(|pool| pool.uuid).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pool_whose_making_was_answered_in_vain_is_not_made_anew_after_others_have_destroyed_it() {
    for uuid in [Some(77), None] {
        let stage = Stage::set();
        let mut made_first = Vec::new();
        let made = stage.ask_system_around(&create("second", uuid), |own| {
            made_first = pools(own, "second");
            assert_eq!(own.ask_system(&Head::default(), &destroy("second")), Ok(SystemReply::Done));
        });
        assert!(
            matches!(&made, Ok(SystemReply::Created(entry)) if [entry.uuid] == made_first[..]),
            "{made:?}, {made_first:?}"
        );
        assert!(pools(&stage.link, "second").is_empty());
        // Another request is another pool.
        assert!(stage.link.ask_system(&Head::default(), &create("second", uuid)).is_ok());
        stage.daemon.assert_sound();
    }
}

#[test]
fn a_pool_that_has_got_the_label_of_one_that_was_destroyed_stays_when_that_is_asked_for_again() {
    let stage = Stage::set();
    assert!(stage.link.ask_system(&Head::default(), &create("second", Some(77))).is_ok());
    let gone = stage.ask_system_around(&destroy("second"), |own| {
        assert!(own.ask_system(&Head::default(), &create("second", Some(78))).is_ok());
    });
    assert_eq!(gone, Ok(SystemReply::Done));
    assert_eq!(pools(&stage.link, "second"), [Uuid::from_u128(78)]);
    stage.daemon.assert_sound();
}

#[test]
fn who_has_opened_a_pool_since_it_was_taken_from_all_keeps_it_when_that_is_asked_for_again() {
    let stage = Stage::set();
    let mut newcomer = None;
    let daemon = &stage.daemon;
    let evicted = stage.ask_system_around(&SystemVerb::PoolEvict(named(POOL)), |_own| {
        newcomer = Some(Bystander::of(&daemon.link(Way::Socket)));
    });
    assert_eq!(evicted, Ok(SystemReply::Done));
    newcomer.unwrap().goes_on();
    stage.daemon.assert_sound();
}

#[test]
fn a_daemon_that_was_started_after_another_was_told_to_end_does_not_end_when_that_is_asked_for_again() {
    let mut stage = Stage::set();
    let stopped = stage.ask_system_around(&SystemVerb::Stop, |_own| {});
    assert_eq!(stopped, Ok(SystemReply::Done));
    stage.bystander.goes_on();
    assert!(Link::connect(stage.daemon.address(Way::Socket), &LinkOptions::default()).is_ok());
    stage.daemon.assert_sound();
}

#[test]
fn what_a_daemon_has_answered_is_one_users_and_a_damaged_record_of_it_keeps_nobody_out() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let id = dolmen_types::RequestId { client: 5, sequence: 9 };
    let head = Head { id, cred: crate::common::CRED, ..Head::default() };
    let link = daemon.link(Way::Tcp);
    assert!(link.ask_system(&head, &create("tank", Some(77))).is_ok());
    daemon.kill();
    let file = dir.path().join(".answered/answers");
    assert!(std::fs::metadata(&file).unwrap().len() < 300);
    daemon.start_again();
    assert!(link.ask_system(&head, &destroy("tank")).is_ok(), "the answer is that of the id");
    assert_eq!(pools(&link, "tank").len(), 1);
    let mut other = head;
    other.cred.uid = dolmen_env::user_id();
    if other.cred.uid != head.cred.uid {
        assert_eq!(link.ask_system(&other, &destroy("tank")), Err(Error::NoPermission));
    }
    daemon.kill();
    std::fs::write(&file, b"DLMANSWS and nothing else").unwrap();
    daemon.start_again();
    assert_eq!(link.ask_system(&head, &destroy("tank")), Ok(SystemReply::Done), "nothing is known");
    assert!(pools(&link, "tank").is_empty());
    daemon.assert_sound();
}

#[test]
fn a_system_that_is_moved_takes_its_answers_along_and_leaves_nothing_where_it_was() {
    let above = Scratch::new();
    let [before, after] = ["before", "after"].map(|name| above.path().join(name));
    std::fs::create_dir(&before).unwrap();
    let daemon = ChildDaemon::start(&before);
    let link = daemon.link(Way::Socket);
    let asks = |sequence, verb: &SystemVerb| {
        let id = dolmen_types::RequestId { client: 5, sequence };
        link.ask_system(&Head { id, cred: crate::common::CRED, ..Head::default() }, verb)
    };
    let made = asks(1, &create("tank", Some(77)));
    assert!(made.is_ok(), "{made:?}");
    std::fs::rename(&before, &after).unwrap();
    for is_anothers in [false, true] {
        if is_anothers {
            std::fs::create_dir(&before).unwrap();
        }
        for verb in [create("other", None), destroy("tank")] {
            let refused = asks(2, &verb);
            assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
        }
        assert!(!is_anothers || std::fs::read_dir(&before).unwrap().next().is_none());
        assert_eq!(before.exists(), is_anothers);
    }
    assert_eq!(asks(3, &SystemVerb::Stop), Ok(SystemReply::Done));
    until("it has ended", || daemon.has_ended());
    assert!(std::fs::read_dir(&before).unwrap().next().is_none(), "that is another directory");

    let next = ChildDaemon::start(&after);
    let link = next.link(Way::Socket);
    let id = dolmen_types::RequestId { client: 5, sequence: 3 };
    let head = Head { id, cred: crate::common::CRED, ..Head::default() };
    assert_eq!(link.ask_system(&head, &SystemVerb::Stop), Ok(SystemReply::Done), "it was answered");
    assert_eq!(pools(&link, "tank").len(), 1);
    next.assert_sound();
}

#[test]
fn a_daemon_whose_directory_was_moved_leaves_the_system_alone_that_has_its_name_now() {
    let above = Scratch::new();
    let [before, after] = ["before", "after"].map(|name| above.path().join(name));
    std::fs::create_dir(&before).unwrap();
    let first = ChildDaemon::start(&before);
    let link = first.link(Way::Socket);
    let asks = |link: &Link, verb: &SystemVerb| {
        link.ask_system(&Head { cred: crate::common::CRED, ..Head::default() }, verb)
    };
    assert!(asks(&link, &create("tank", Some(77))).is_ok());
    std::fs::rename(&before, &after).unwrap();
    std::fs::create_dir(&before).unwrap();
    // That of the first was beside its pools, and went with them.
    let second = ChildDaemon::start(&before);
    let others = second.link(Way::Socket);
    let made = asks(&others, &create("theirs", Some(78)));
    assert!(made.is_ok(), "{made:?}");
    let has_open = crate::common::remote(&others, "theirs").unwrap();
    let names = || dolmen_env::entries(&before).unwrap();
    let found = names();
    let connect = |access| {
        let name = dolmen_net::client::reach::pool_name("theirs").unwrap();
        SystemVerb::PoolConnect { name, access }
    };
    for verb in [
        connect(PoolAccess::ReadWrite),
        connect(PoolAccess::Exclusive),
        SystemVerb::PoolList,
        destroy("theirs"),
        SystemVerb::PoolEvict(dolmen_net::client::reach::pool_name("theirs").unwrap()),
        create("other", None),
    ] {
        let refused = asks(&link, &verb);
        assert!(matches!(refused, Err(Error::Io { errno: 116, .. })), "{verb:?}: {refused:?}");
    }
    let notes = std::fs::read_to_string(after.join("notes")).unwrap();
    assert_eq!(notes.matches("the directory of the system was moved").count(), 1, "{notes}");
    assert_eq!(asks(&link, &SystemVerb::Stop), Ok(SystemReply::Done));
    until("it has ended", || first.has_ended());
    assert_eq!(names(), found, "not even its socket is removed");
    // Who comes now finds the other daemon; who has something open there has it still.
    assert_eq!(pools(&second.link(Way::Socket), "theirs").len(), 1);
    drop(has_open);
    second.assert_sound();
    let next = ChildDaemon::start(&after);
    assert_eq!(pools(&next.link(Way::Socket), "tank").len(), 1);
    next.assert_sound();
}
