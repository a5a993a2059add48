//! Pools on several engines whose making is cut short: asked for again, they are there whole, once.

use crate::child::until;
use crate::common::{pool, remote};
use crate::parted::{all_are, read, written};
use crate::ranks::{Engines, spread_object};
use dolmen_codec::pool::ContName;
use dolmen_codec::wire::{PoolSpec, SystemReply, SystemVerb};
use dolmen_net::client::{Link, reach};
use dolmen_types::{Error, Head, Label, Props};
use rustix::process::Signal;

fn create() -> SystemVerb {
    let spec = PoolSpec {
        label: Some(Label::new("p").unwrap()),
        targets: Some(2),
        capacity_bytes: Some(4 << 30),
        ..PoolSpec::default()
    };
    SystemVerb::PoolCreate(spec)
}

fn destroy(link: &Link) {
    let destroy = SystemVerb::PoolDestroy { name: reach::pool_name("p").unwrap(), force: true };
    assert_eq!(link.ask_system(&Head::default(), &destroy), Ok(SystemReply::Done));
}

fn assert_is_used(link: &Link) {
    let pool = pool(link, "p");
    let cont = pool.create_container(Some(Label::new("c").unwrap()), Props::default()).unwrap();
    let object = spread_object(&pool.open_container(&ContName::Uuid(cont.uuid)).unwrap());
    assert!(all_are(&written(&object), &Ok(())) && all_are(&read(&object), &Ok(Some(5))));
}

/// Asks for the pool, and kills the first engine when `is_time`, while the last one stands still if it `stands`; then starts it again.
fn made_around(
    engines: &Engines,
    stands: bool,
    is_time: impl Fn() -> bool,
) -> dolmen_types::Result<SystemReply> {
    let link = engines.link(0);
    if stands {
        engines.stand_still(2);
    }
    dolmen_env::scope(|threads| {
        let asking = threads.spawn(|| link.ask_system(&Head::default(), &create()));
        until("it is cut short", &is_time);
        engines.kill(0);
        engines.signal(2, Signal::CONT);
        engines.start_again(0);
        asking.join().unwrap()
    })
}

#[test]
fn a_pool_whose_making_the_death_of_an_engine_cuts_short_is_made_once_when_that_is_asked_for_again() {
    let engines = Engines::start(3);
    let there = || engines.there();
    // When one part is made and the next is not; and whenever the first engine is at it.
    let times: [(bool, &dyn Fn() -> bool); 4] =
        [(true, &|| there()[1]), (false, &|| there()[1]), (false, &|| there()[2]), (false, &|| there()[0])];
    for (at, (stands, is_time)) in times.into_iter().enumerate() {
        let made = made_around(&engines, stands, is_time);
        let Ok(SystemReply::Created(entry)) = made else { panic!("{at}: {made:?}") };
        assert_eq!((entry.target_count, there()), (6, vec![true; 3]), "{at}");
        let link = engines.link(1);
        let pools = reach::pools(&link, &Head::default()).unwrap();
        assert_eq!(pools.iter().map(|pool| pool.uuid).collect::<Vec<_>>(), [entry.uuid], "{at}");
        assert_is_used(&link);
        destroy(&link);
        until("it is destroyed everywhere", || there() == [false; 3]);
        assert_eq!(remote(&link, "p").unwrap_err(), Error::NotFound);
    }
    engines.assert_sound();
}

#[test]
fn what_a_making_that_nobody_asks_for_again_has_left_is_in_nobodys_way() {
    let engines = Engines::start(3);
    let link = engines.link_to(0, core::time::Duration::from_millis(500));
    engines.stand_still(2);
    dolmen_env::scope(|threads| {
        let asking = threads.spawn(|| link.ask_system(&Head::default(), &create()));
        until("one part is made", || engines.there()[1]);
        engines.kill(0);
        assert!(matches!(asking.join().unwrap(), Err(Error::Unreachable { rank: 0 })));
    });
    drop(link);
    engines.signal(2, Signal::CONT);
    engines.start_again(0);
    let link = engines.link(0);
    let made = link.ask_system(&Head::default(), &create());
    assert!(matches!(made, Ok(SystemReply::Created(_))), "{made:?}");
    assert_is_used(&link);
    destroy(&link);
    until("nothing is left", || engines.there() == [false; 3]);
    engines.assert_sound();
}
