//! What clients have open that are connected and say nothing, as they compute, while their daemon dies, or ends, and comes back.

use crate::bystander::{Bystander, CONT, POOL};
use crate::child::{ChildDaemon, until};
use crate::common::{Scratch, WAYS, Way, ended, pool, remote};
use crate::ranks::Engines;
use dolmen_client::{At, Container, Whose};

use dolmen_codec::pool::{ContName, OpenFor};
use dolmen_codec::wire::{PoolAccess, PoolName, SystemReply, SystemVerb};
use dolmen_net::client::{Link, Remote, reach};
use dolmen_types::{Error, Head, Label, Props};
use std::time::Duration;

/// How long who asks engines that have just been started waits.
const PATIENCE: Duration = Duration::from_secs(20);

fn name(label: &str) -> ContName {
    ContName::Label(Label::new(label).unwrap())
}

/// Ways in which a daemon ends.
const ENDS: [fn(&ChildDaemon); 2] = [ChildDaemon::kill, ChildDaemon::end];

fn connect(link: &Link, access: PoolAccess) -> dolmen_types::Result<Remote> {
    reach::pool(link, &Head::default(), PoolName::Label(Label::new(POOL).unwrap()), access)
}

fn destroy_pool(link: &Link) -> dolmen_types::Result<SystemReply> {
    let name = PoolName::Label(Label::new(POOL).unwrap());
    link.ask_system(&Head::default(), &SystemVerb::PoolDestroy { name, force: false })
}

/// That somebody has the container open, and nothing is taken from him that is not to be by force.
fn assert_kept(link: &Link, cont: &str) {
    let stranger = pool(link, POOL);
    assert_eq!(stranger.destroy_container(&name(cont), false), Err(Error::Busy));
    for wanted in [OpenFor::Alone(5), OpenFor::Joining(5)] {
        assert_eq!(stranger.open_container_for(&name(cont), wanted).map(drop), Err(Error::Busy));
    }
    drop(stranger);
    assert_eq!(connect(link, PoolAccess::Exclusive).map(drop).err(), Some(Error::Busy));
    assert_eq!(destroy_pool(link).err(), Some(Error::Busy));
}

/// A client that has a container alone, by the word 7.
fn alone(daemon: &ChildDaemon, way: Way) -> (Bystander, Container) {
    let own = Bystander::first(daemon.link(way));
    own.pool.create_container(Some(Label::new("alone").unwrap()), Props::default()).unwrap();
    let alone = own.pool.open_container_for(&name("alone"), OpenFor::Alone(7)).unwrap();
    (own, alone)
}

#[test]
fn what_an_idle_client_has_open_is_taken_by_nobody_over_the_end_of_the_daemon() {
    for (way, end) in WAYS.into_iter().flat_map(|way| ENDS.map(|end| (way, end))) {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let mut idle = Bystander::first(daemon.link(way));
        idle.goes_on();
        // However often.
        for _ in 0..2 {
            end(&daemon);
            daemon.start_again();
            assert_kept(&daemon.link(WAYS[0]), CONT);
            // Others use it beside him, as before.
            Bystander::of(&daemon.link(WAYS[0])).goes_on();
        }
        let other = daemon.link(WAYS[1]);
        idle.goes_on();
        assert_kept(&other, CONT);
        assert_eq!(idle.handle_count(), 1);
        end(&daemon);
        daemon.start_again();
        idle.goes_on();
        drop(idle);
        let stranger = pool(&other, POOL);
        drop(stranger.open_container_for(&name(CONT), OpenFor::Alone(5)).unwrap());
        assert_eq!(stranger.destroy_container(&name(CONT), false), Ok(()));
        drop(stranger);
        drop(connect(&other, PoolAccess::Exclusive).unwrap());
        assert_eq!(destroy_pool(&other), Ok(SystemReply::Done), "{way:?}");
    }
}

/// A client gives a container up, and then the pool, in this way, before it has asked the next daemon for anything.
fn assert_given_up(way: Way, end: fn(&ChildDaemon), how: dolmen_codec::Way) {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let Bystander { pool: own, cont, object, .. } = Bystander::first(daemon.link(way));
    drop(object);
    let second = own.open_container_for(&name(CONT), OpenFor::Any).unwrap();
    end(&daemon);
    daemon.start_again();
    let link = daemon.link(WAYS[0]);
    let stranger = pool(&link, POOL);
    let alone = |word| stranger.open_container_for(&name(CONT), OpenFor::Alone(word));
    assert_eq!(alone(5).map(drop), Err(Error::Busy));
    ended(cont.close_by(how)).unwrap();
    assert_eq!(alone(5).map(drop), Err(Error::Busy), "{way:?} {how:?}: he has it still, by another handle");
    end(&daemon);
    daemon.start_again();
    ended(second.close_by(how)).unwrap();
    assert_eq!(alone(5).and_then(Container::close), Ok(()), "{way:?} {how:?}");
    assert_eq!(stranger.destroy_container(&name(CONT), false), Ok(()), "{way:?} {how:?}");
    drop(stranger);
    assert_eq!(connect(&link, PoolAccess::Exclusive).map(drop).err(), Some(Error::Busy), "he has the pool");
    end(&daemon);
    daemon.start_again();
    drop(own);
    drop(connect(&link, PoolAccess::Exclusive).unwrap());
    assert_eq!(destroy_pool(&link), Ok(SystemReply::Done), "{way:?} {how:?}");
}

#[test]
fn what_a_client_gives_up_before_it_asks_the_next_daemon_for_anything_is_given_up() {
    for (way, end) in WAYS.into_iter().flat_map(|way| ENDS.map(|end| (way, end))) {
        [dolmen_codec::Way::Now, dolmen_codec::Way::Later]
            .iter()
            .for_each(|&how| assert_given_up(way, end, how));
    }
}

#[test]
fn who_had_a_container_alone_and_gives_it_up_before_he_asks_the_next_daemon_lets_others_in() {
    for (way, end) in WAYS.into_iter().flat_map(|way| ENDS.map(|end| (way, end))) {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let (_own, alone) = alone(&daemon, way);
        end(&daemon);
        daemon.start_again();
        let stranger = pool(&daemon.link(WAYS[0]), POOL);
        let open = || stranger.open_container_for(&name("alone"), OpenFor::Any).map(drop);
        assert_eq!(open(), Err(Error::Busy));
        alone.close().unwrap();
        assert_eq!(open(), Ok(()), "{way:?}");
    }
}

#[test]
fn what_an_idle_client_has_open_is_taken_by_force_and_by_evictions() {
    for end in ENDS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let idle = Bystander::first(daemon.link(Way::Tcp));
        end(&daemon);
        daemon.start_again();
        let link = daemon.link(WAYS[0]);
        let stranger = pool(&link, POOL);
        let evicting = stranger.open_container_for(&name(CONT), OpenFor::Evicting).unwrap();
        evicting.evict_others(Whose::All).unwrap();
        evicting.close().unwrap();
        let alone = stranger.open_container_for(&name(CONT), OpenFor::Alone(5)).unwrap();
        alone.close().unwrap();
        assert_eq!(idle.object.put(At::Latest, b"d", b"a", b"v").map(drop), Err(Error::NoHandle));
        // The pool, of which he has come back.
        drop(stranger);
        end(&daemon);
        daemon.start_again();
        assert_eq!(connect(&link, PoolAccess::Exclusive).map(drop).err(), Some(Error::Busy));
        let evict = SystemVerb::PoolEvict(PoolName::Label(Label::new(POOL).unwrap()));
        link.ask_system(&Head::default(), &evict).unwrap();
        drop(connect(&link, PoolAccess::Exclusive).unwrap());
        let forced = pool(&link, POOL).destroy_container(&name(CONT), true);
        assert_eq!(forced, Ok(()));
        assert_eq!(destroy_pool(&link), Ok(SystemReply::Done));
    }
}

#[test]
fn a_container_that_an_idle_client_has_alone_is_his_alone_over_the_end_of_the_daemon() {
    for (way, end) in WAYS.into_iter().flat_map(|way| ENDS.map(|end| (way, end))) {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let (_own, alone) = alone(&daemon, way);
        end(&daemon);
        daemon.start_again();
        let (link, other) = (daemon.link(WAYS[0]), daemon.link(WAYS[1]));
        let stranger = pool(&link, POOL);
        let assert_his = || {
            for wanted in [OpenFor::Any, OpenFor::Change, OpenFor::Alone(5), OpenFor::Joining(5)] {
                let opened = stranger.open_container_for(&name("alone"), wanted).map(drop);
                assert_eq!(opened, Err(Error::Busy), "{way:?} {wanted:?}");
            }
            assert_eq!(stranger.destroy_container(&name("alone"), false), Err(Error::Busy));
        };
        assert_his();
        // Whom he has told the word joins him also while he says nothing.
        let joined = pool(&other, POOL).open_container_for(&name("alone"), OpenFor::Joining(7)).unwrap();
        assert_his();
        assert_eq!(alone.query().unwrap().handles, 2);
        joined.close().unwrap();
        alone.close().unwrap();
        assert_eq!(
            stranger.open_container_for(&name("alone"), OpenFor::Joining(7)).map(drop),
            Err(Error::Busy),
            "an old word lets nobody in"
        );
        stranger.open_container(&name("alone")).unwrap();
    }
}

#[test]
fn a_pool_that_an_idle_client_has_alone_is_his_alone_over_the_end_of_the_daemon() {
    for end in ENDS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        drop(Bystander::first(daemon.link(WAYS[0])));
        let alone = connect(&daemon.link(Way::Tcp), PoolAccess::Exclusive).unwrap();
        end(&daemon);
        daemon.start_again();
        let link = daemon.link(WAYS[0]);
        for access in [PoolAccess::ReadOnly, PoolAccess::ReadWrite, PoolAccess::Exclusive] {
            assert_eq!(connect(&link, access).map(drop).err(), Some(Error::Busy), "{access:?}");
        }
        assert_eq!(destroy_pool(&link).err(), Some(Error::Busy));
        drop(alone);
    }
}

#[test]
fn what_an_idle_client_has_open_in_a_pool_on_several_engines_is_taken_by_nobody() {
    let engines = Engines::start(2);
    engines.create(true);
    let mut idle = {
        let own = pool(&engines.link(0), POOL);
        own.create_container(Some(Label::new(CONT).unwrap()), Props::default()).unwrap();
        Bystander::of(&engines.link(0))
    };
    idle.goes_on();
    for dead in [&[0][..], &[1], &[0, 1]] {
        dead.iter().for_each(|&rank| engines.kill(rank));
        dead.iter().for_each(|&rank| engines.start_again(rank));
        // Another process.
        let link = engines.link_to(0, PATIENCE);
        until("all engines are there", || remote(&link, POOL).is_ok());
        assert_kept(&link, CONT);
    }
    idle.goes_on();
    assert_eq!(idle.handle_count(), 1);
    drop(idle);
    let link = engines.link_to(0, PATIENCE);
    assert_eq!(pool(&link, POOL).destroy_container(&name(CONT), false), Ok(()));
    assert_eq!(destroy_pool(&link), Ok(SystemReply::Done));
    engines.assert_sound();
}
