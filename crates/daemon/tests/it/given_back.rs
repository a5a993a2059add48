//! A pool that a client has left, or never got, is nobody's at the daemon; and no other pool is taken for it.

use crate::bystander::Bystander;
use crate::child::{ChildDaemon, until};
use crate::common::{CRED, Scratch, WAYS, Way, create, ended, remote};
use dolmen_client::{At, Container, Object, Pool};
use dolmen_codec::Way as Waits;
use dolmen_codec::pool::ContName;
use dolmen_codec::wire::{PoolAccess, PoolName};
use dolmen_net::client::{Link, Remote, reach};
use dolmen_types::{Error, Head, IoBuf, Label, ObjectClass, ObjectType, Props};
use rustix::process::Signal;
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits that gives up.
const SHORT: Duration = Duration::from_millis(300);

fn open(link: &Link, pool: &str, access: PoolAccess) -> dolmen_types::Result<Remote> {
    let name = PoolName::Label(Label::new(pool).unwrap());
    reach::pool(link, &Head::default(), name, access)
}

/// A pool with a container, and an object in that.
struct Used {
    remote: Arc<Remote>,
    pool: Pool,
    _cont: Container,
    object: Object,
}

impl Used {
    fn of(link: &Link, label: &str) -> Self {
        let remote = Arc::new(remote(link, label).unwrap());
        let pool = Pool::connect(Arc::clone(&remote) as _, CRED).unwrap();
        let name = Label::new("c").unwrap();
        if pool.containers().unwrap().is_empty() {
            pool.create_container(Some(name.clone()), Props::default()).unwrap();
        }
        let cont = pool.open_container(&ContName::Label(name)).unwrap();
        let oid = cont.oid(ObjectType::MultiHashed, ObjectClass::S2, 7, 1).unwrap();
        let object = cont.object(oid).unwrap();
        Self { remote, pool, _cont: cont, object }
    }

    fn value(&self) -> Option<usize> {
        self.object.get(At::Latest, b"key", b"a", &mut IoBuf::default()).unwrap()
    }
}

#[test]
fn who_leaves_a_pool_after_a_restart_leaves_no_other_and_writes_go_where_they_are_to() {
    for way in WAYS {
        for waits in [Waits::Now, Waits::Later] {
            let dir = Scratch::new();
            let daemon = ChildDaemon::start(dir.path());
            let link = daemon.link(way);
            ["pa", "pb", "pc"].iter().for_each(|label| create(&link, label));
            let (first, second) = (Used::of(&link, "pa"), Used::of(&link, "pb"));
            let uuid = second.pool.query().unwrap().map.pool;
            daemon.kill();
            daemon.start_again();
            match waits {
                Waits::Now => dolmen_codec::now(first.remote.leave(waits)),
                Waits::Later => ended(first.remote.leave(waits)),
            }
            let third = Used::of(&link, "pc");
            assert_eq!(second.pool.query().unwrap().map.pool, uuid, "{way:?}, {waits:?}");
            second.object.put(At::Latest, b"key", b"a", b"for the second").unwrap();
            assert_eq!((second.value(), third.value()), (Some(14), None), "{way:?}, {waits:?}");
            daemon.assert_sound();
        }
    }
}

#[test]
fn a_pool_that_a_client_has_waited_for_in_vain_is_others_once_the_daemon_goes_on() {
    for way in WAYS {
        let dir = Scratch::new();
        let daemon = ChildDaemon::start(dir.path());
        let (link, other) = (daemon.link_with(way, SHORT), daemon.link(Way::Socket));
        let bystander = Bystander::first(link.clone());
        create(&link, "wanted");
        daemon.stop();
        let given_up = open(&link, "wanted", PoolAccess::Exclusive);
        assert_eq!(given_up.err(), Some(Error::Unreachable { rank: 0 }), "{way:?}");
        daemon.signal(Signal::CONT);
        until("it answers again, and what came too late was given back", || {
            bystander.cont.query().is_ok() && open(&other, "wanted", PoolAccess::Exclusive).is_ok()
        });
        daemon.assert_sound();
    }
}
