//! Very many connections.

use crate::bystander::Bystander;
use crate::child::{ChildDaemon, raise_descriptor_limit, until};
use crate::common::{Scratch, WAYS, Way};
use crate::raw::{Raw, hello, push, silent};
use dolmen_client::At;
use dolmen_types::IoBuf;

/// Connections in all, and at once.
const CONNECTIONS: usize = 10_000;
const AT_ONCE: usize = 250;

#[test]
fn ten_thousand_connections_that_come_and_go_leave_nothing_behind() {
    raise_descriptor_limit();
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let mut bystander = Bystander::first(daemon.link(Way::Rings));
    bystander.goes_on();
    let (descriptors, rings) = (daemon.descriptor_count(), daemon.ring_count());
    let mut before = 0;
    for round in 0..CONNECTIONS / AT_ONCE {
        let (mut greeted, mut others) = (Vec::new(), Vec::new());
        for number in 0..AT_ONCE {
            let way = WAYS[number % 3];
            if number % 2 == 0 {
                greeted.push(Raw::connect(&daemon, way));
            } else {
                let mut stream = silent(&daemon, way);
                push(&mut stream, &hello(0)[..number % 64]).unwrap();
                others.push(stream);
            }
        }
        if round.is_multiple_of(10) {
            bystander.goes_on();
        }
        drop((greeted, others));
        if round == 1 {
            before = daemon.resident_bytes();
        }
    }
    until("all are gone", || daemon.descriptor_count() == descriptors);
    until("their memory is gone", || daemon.ring_count() == rings);
    let grown = daemon.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{} MiB", grown >> 20);
    assert_eq!(bystander.handle_count(), 1);
    bystander.goes_on();
    daemon.assert_sound();
}

#[test]
fn a_daemon_without_descriptors_goes_on_with_the_connections_that_it_has() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start_with(dir.path(), 150);
    let mut bystander = Bystander::first(daemon.link(Way::Rings));
    bystander.goes_on();
    let small = |bystander: &Bystander, byte: u8| {
        bystander.object.put(At::Latest, b"small", b"a", &[byte]).unwrap();
        let mut buf = IoBuf::default();
        assert_eq!(bystander.object.get(At::Latest, b"small", b"a", &mut buf).unwrap(), Some(1));
        assert_eq!(buf[..], [byte]);
    };
    let descriptors = daemon.descriptor_count();
    for way in WAYS {
        // More than it can take: the others wait before its door.
        let crowd: Vec<_> = (0..300).map(|_| silent(&daemon, Way::Socket)).collect();
        for byte in 0..50 {
            small(&bystander, byte);
        }
        assert_eq!(crowd.len(), 300);
        drop(crowd);
        until("all are gone", || daemon.descriptor_count() == descriptors);
        let mut late = Bystander::of(&daemon.link(way));
        late.goes_on();
        drop(late);
        until("it is gone, too", || daemon.descriptor_count() == descriptors);
    }
    daemon.assert_sound();
}
