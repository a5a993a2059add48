//! Pools that are taken from who has them open, lists of engines that differ, sockets elsewhere.

use crate::bystander::{Bystander, POOL};
use crate::child::{ChildDaemon, until};
use crate::common::{Scratch, Served, WAYS, Way, create, remote};
use crate::parted::{all_are, written};
use crate::ranks::{Engines, spread_object};
use dolmen_client::{At, EventQueue, Wait};
use dolmen_codec::pool::ContName;
use dolmen_codec::verb::{NewValue, Payload, UpdateIod};
use dolmen_codec::wire::{PoolName, RankInfo, SystemReply, SystemVerb};
use dolmen_daemon::{Daemon, Settings};
use dolmen_env::Address;
use dolmen_net::client::{Link, LinkOptions, reach};
use dolmen_types::{Cond, Error, Head, IoBuf, Key, Label, Props};
use std::sync::{Arc, Mutex};

fn named(label: &str) -> PoolName {
    PoolName::Label(Label::new(label).unwrap())
}

#[test]
fn a_pool_that_is_destroyed_by_force_is_gone_for_all_who_had_it_and_no_other_is() {
    for way in WAYS {
        let served = Served::start();
        let owner = Bystander::first(served.link(way));
        let admin = served.link(Way::Socket);
        create(&admin, "other");
        let other = remote(&admin, "other").unwrap();
        let queue = EventQueue::new(&owner.pool).unwrap();
        let mut events: Vec<_> = (0..64).map(|_| queue.event().unwrap()).collect();
        for (at, event) in (0_u32..).zip(&mut events) {
            let value = NewValue::Single(Payload::Owned(IoBuf::zeroed(100_000)));
            let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value };
            let dkey = at.to_le_bytes();
            owner.object.update_on(event, At::Latest, &dkey, Cond::NONE, vec![iod]).unwrap();
        }
        let destroy = |force| SystemVerb::PoolDestroy { name: named(POOL), force };
        assert_eq!(admin.ask_system(&Head::default(), &destroy(false)), Err(Error::Busy));
        assert_eq!(admin.ask_system(&Head::default(), &destroy(true)), Ok(SystemReply::Done));
        assert!(!served.dir.path().join(POOL).exists());
        // Each event ends, by an answer of the pool or by what is told after its end.
        let (mut done, mut all) = (Vec::new(), 0);
        while all < events.len() {
            all += queue.poll(Wait::Forever, 64, &mut done).unwrap();
        }
        assert_eq!(owner.object.put(At::Latest, b"key", b"a", b"late"), Err(Error::NoPermission), "{way:?}");
        assert_eq!(owner.cont.query().map(drop), Err(Error::NoPermission), "{way:?}");
        assert_eq!(owner.pool.query().map(drop), Err(Error::NoPermission), "{way:?}");
        drop(other);
        assert!(remote(&admin, "other").is_ok(), "another pool goes on");
        // The name is free again, and what has it is another pool.
        let mut new = Bystander::first(served.link(way));
        new.goes_on();
        assert_eq!(owner.object.put(At::Latest, b"key", b"a", b"late"), Err(Error::NoPermission), "{way:?}");
    }
}

#[test]
fn who_was_evicted_from_a_pool_opens_it_again() {
    for way in WAYS {
        let served = Served::start();
        let link = served.link(way);
        let owner = Bystander::first(link.clone());
        owner.object.put(At::Latest, b"key", b"a", b"before").unwrap();
        let admin = served.link(Way::Socket);
        assert_eq!(
            admin.ask_system(&Head::default(), &SystemVerb::PoolEvict(named("none"))),
            Err(Error::NotFound)
        );
        assert_eq!(
            admin.ask_system(&Head::default(), &SystemVerb::PoolEvict(named(POOL))),
            Ok(SystemReply::Done)
        );
        let mut buf = IoBuf::default();
        let read = owner.object.get(At::Latest, b"key", b"a", &mut buf);
        assert_eq!(read, Err(Error::NoPermission), "{way:?}");
        let mut again = Bystander::of(&link);
        again.object.get(At::Latest, b"key", b"a", &mut buf).unwrap();
        assert_eq!((&buf[..], again.handle_count()), (&b"before"[..], 1), "{way:?}");
        again.goes_on();
        drop(owner);
        again.goes_on();
        // Nobody has it open: nothing is to be done.
        drop(again);
        let evict = SystemVerb::PoolEvict(named(POOL));
        assert_eq!(admin.ask_system(&Head::default(), &evict), Ok(SystemReply::Done));
    }
}

#[test]
fn who_was_evicted_from_a_pool_does_not_come_back_with_the_next_daemon_or_connection() {
    for way in WAYS {
        for is_away in [false, true] {
            let dir = Scratch::new();
            let daemon = ChildDaemon::start(dir.path());
            let link = daemon.link(way);
            let owner = Bystander::first(link.clone());
            let put = |owner: &Bystander| owner.object.put(At::Latest, b"key", b"a", b"value").map(drop);
            assert_eq!(put(&owner), Ok(()));
            if is_away {
                // He has not asked the next one when that is told.
                daemon.kill();
                daemon.start_again();
            }
            let evict = SystemVerb::PoolEvict(named(POOL));
            let admin = daemon.link(Way::Socket);
            assert_eq!(admin.ask_system(&Head::default(), &evict), Ok(SystemReply::Done));
            let mut newcomer = Bystander::of(&link);
            for _ in 0..2 {
                assert_eq!(put(&owner), Err(Error::NoPermission), "{way:?}, away: {is_away}");
                assert_eq!(owner.cont.query().map(drop), Err(Error::NoPermission));
                newcomer.goes_on();
                daemon.kill();
                daemon.start_again();
            }
            assert_eq!(put(&owner), Err(Error::NoPermission));
            newcomer.goes_on();
            daemon.assert_sound();
        }
    }
}

#[test]
fn who_was_evicted_from_a_pool_on_two_engines_comes_back_to_neither() {
    let engines = Engines::start(2);
    engines.create(false);
    let link = engines.link(0);
    let pool = crate::common::pool(&link, "p");
    let cont = pool.create_container(Some(Label::new("c").unwrap()), Props::new()).unwrap();
    let object = spread_object(&pool.open_container(&ContName::Uuid(cont.uuid)).unwrap());
    assert!(all_are(&written(&object), &Ok(())));
    let evict = SystemVerb::PoolEvict(reach::pool_name("p").unwrap());
    assert_eq!(link.ask_system(&Head::default(), &evict), Ok(SystemReply::Done));
    let again = crate::common::pool(&link, "p");
    let again = spread_object(&again.open_container(&ContName::Uuid(cont.uuid)).unwrap());
    for rank in [1, 0] {
        engines.kill(rank);
        engines.start_again(rank);
        assert!(all_are(&written(&object), &Err(Error::NoPermission)), "{rank}: {:?}", written(&object));
        assert!(all_are(&written(&again), &Ok(())), "{rank}: {:?}", written(&again));
    }
    engines.assert_sound();
}

/// An engine in this process, and what it notes.
fn engine(dir: &Scratch, rank: u32, list: &[(u32, &str)]) -> (Daemon, Arc<Mutex<Vec<String>>>) {
    let own = dir.path().join(format!("r{rank}"));
    std::fs::create_dir_all(&own).unwrap();
    let mut settings = Settings::new(own);
    settings.rank = rank;
    settings.engines = list
        .iter()
        .map(|(rank, name)| RankInfo {
            rank: *rank,
            uuid: dolmen_types::Uuid::nil(),
            addresses: vec![format!("unix:{}", dir.path().join(name).join("dolmen.sock").display())],
        })
        .collect();
    let notes = Arc::<Mutex<Vec<String>>>::default();
    let said = Arc::clone(&notes);
    let daemon = Daemon::start(&settings, move |note| said.lock().unwrap().push(note.to_owned())).unwrap();
    (daemon, notes)
}

#[test]
fn engines_whose_lists_differ_both_say_so_when_the_second_one_starts() {
    let dir = Scratch::new();
    let same = [(0, "r0"), (1, "r1")];
    let (first, notes_of_first) = engine(&dir, 0, &same);
    let (second, notes_of_second) = engine(&dir, 1, &same);
    // It has compared before it is stopped, since it ends after that.
    second.stop().unwrap();
    assert_eq!((notes_of_first.lock().unwrap().len(), notes_of_second.lock().unwrap().len()), (0, 0));
    let (third, notes_of_third) = engine(&dir, 1, &[(0, "r0"), (1, "r7")]);
    until("both have noted it", || {
        !notes_of_first.lock().unwrap().is_empty() && !notes_of_third.lock().unwrap().is_empty()
    });
    let (told, own) = (notes_of_first.lock().unwrap()[0].clone(), notes_of_third.lock().unwrap()[0].clone());
    assert!(told.contains("engine 1 has another list of engines: rank 1 is at"), "{told}");
    assert!(own.contains("engine 0 has another list of engines: rank 1 is at"), "{own}");
    third.stop().unwrap();
    first.stop().unwrap();
}

#[test]
fn a_daemon_with_its_socket_elsewhere_is_found_by_its_directory() {
    let (dir, elsewhere) = (Scratch::new(), Scratch::new());
    let own = dir.path().join(Settings::SOCKET_NAME);
    let mut settings = Settings::new(dir.path().to_owned());
    settings.addresses = vec![Address::Unix(elsewhere.path().join("other.sock"))];
    let connect = || Link::connect(&Address::Unix(own.clone()), &LinkOptions::default());
    for _ in 0..2 {
        let daemon = Daemon::start(&settings, |note| eprintln!("{note}")).unwrap();
        let system = reach::pools(&connect().unwrap(), &Head::default());
        assert_eq!(system, Ok(Vec::new()));
        daemon.stop().unwrap();
        assert!(!own.is_symlink() && connect().is_err());
    }
    // What a daemon that died has left leads nobody to a stranger's.
    let stranger = Served::start();
    let Address::Unix(socket) = &stranger.daemon.addresses()[0] else { panic!("the first is a socket") };
    std::os::unix::fs::symlink(socket, &own).unwrap();
    let daemon = Daemon::start(&Settings::new(dir.path().to_owned()), |note| eprintln!("{note}")).unwrap();
    assert!(!own.is_symlink() && connect().is_ok());
    daemon.stop().unwrap();
    assert!(socket.exists(), "the stranger's is as it was");
}
