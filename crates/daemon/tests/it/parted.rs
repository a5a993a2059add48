//! Users of pools on several engines: what lists say holds at all of them, since those with parts ask where the lists are.

use crate::child::until;
use crate::ranks::{Engines, spread_object};
use crate::tls::{System, named};
use dolmen_client::{At, Container, EventQueue, Object, Output, Pool, Wait, Whose};
use dolmen_codec::acl::Acl;
use dolmen_codec::evictions::Evictions;
use dolmen_codec::pool::{ContHandle, ContName, OpenFor, PoolVerb};
use dolmen_codec::verb::{ContVerb, Verb};
use dolmen_codec::wire::{PartKey, PoolAccess, PoolName, SystemVerb};
use dolmen_codec::{Ask, Request, Transport};
use dolmen_env::{Address, user_id};
use dolmen_net::client::{CertsFrom, Door, Link, LinkOptions, Remote, reach};
use dolmen_net::tls::Role;
use dolmen_types::{
    Credentials, Error, Head, IoBuf, Label, PropId, PropValue, Props, RequestId, Result, TargetNo,
};
use rustix::process::{Gid, Signal, Uid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const ANNA: u32 = 4_200_052;
const BERT: u32 = 4_200_053;
const STAFF: u32 = 4_200_054;

const PATIENCE: Duration = Duration::from_secs(20);

/// More dkeys than the object has shards, so that each engine has some.
const DKEYS: u32 = 48;

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

fn by_label(text: &str) -> ContName {
    ContName::Label(label(text))
}

fn options() -> LinkOptions {
    LinkOptions { patience: PATIENCE, ..LinkOptions::default() }
}

/// Does something as another user, in a thread of his: the connections that it makes are his.
pub(crate) fn being<T: Send>(uid: u32, body: impl FnOnce() -> T + Send) -> T {
    assert_eq!(user_id(), 0, "only root can be others");
    let body = move || {
        set_thread_groups(&[Gid::from_raw(STAFF)]).unwrap();
        set_thread_gid(Gid::from_raw(uid)).unwrap();
        set_thread_uid(Uid::from_raw(uid)).unwrap();
        body()
    };
    dolmen_env::scope(|threads| threads.spawn(body).join().unwrap())
}

/// Lets everybody reach the sockets.
pub(crate) fn open_sockets(engines: &Engines, ranks: u32) {
    for rank in 0..ranks {
        let Address::Unix(socket) = engines.address(rank) else { panic!("it is a socket") };
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
}

/// The pool as the caller's user has it, who says that he is root.
fn remote(link: &Link) -> Result<Remote> {
    let head = Head { cred: Credentials::default(), ..Head::default() };
    Remote::open(link, &head, PoolName::Label(label("p")), PoolAccess::ReadWrite)
}

fn pool(link: &Link) -> Result<Pool> {
    Pool::connect(Arc::new(remote(link)?), Credentials::default())
}

fn pool_of(engines: &Engines, uid: u32) -> Result<Pool> {
    being(uid, || pool(&reach::system(&[engines.address(0)], &options()).unwrap()))
}

fn allow(pool: &Pool, entries: &[&str]) {
    let list = PropValue::Bytes(Acl::of_texts(entries).unwrap().encode());
    pool.set_props(&Props::from([(PropId::PO_ACL, list)])).unwrap();
}

fn allow_in(cont: &Container, entries: &[&str]) {
    cont.set_acl(&Acl::of_texts(entries).unwrap()).unwrap();
}

/// Two engines that every user reaches, the administrator's pool on both, and a container in it; each has a list of one entry.
fn shared(in_pool: &str, in_cont: &str) -> (Engines, Pool, ContHandle, Container) {
    let engines = Engines::start(2);
    engines.create(false);
    open_sockets(&engines, 2);
    let admin = pool(&engines.link(0)).unwrap();
    allow(&admin, &[in_pool]);
    let cont = admin.create_container(Some(label("c")), Props::default()).unwrap();
    let theirs = admin.open_container(&ContName::Uuid(cont.uuid)).unwrap();
    allow_in(&theirs, &[in_cont]);
    (engines, admin, cont, theirs)
}

/// What comes of writing to all shards: by dkey.
pub(crate) fn written(object: &Object) -> Vec<Result<()>> {
    (0..DKEYS).map(|dkey| object.put(At::Latest, &dkey.to_le_bytes(), b"a", b"value").map(drop)).collect()
}

pub(crate) fn read(object: &Object) -> Vec<Result<Option<usize>>> {
    let one = |dkey: u32| object.get(At::Latest, &dkey.to_le_bytes(), b"a", &mut IoBuf::default());
    (0..DKEYS).map(one).collect()
}

pub(crate) fn all_are<T: PartialEq>(all: &[T], wanted: &T) -> bool {
    all.iter().all(|one| one == wanted)
}

/// The claims about users, whatever they come over: `as_user` gives the pool as anna or bert.
fn assert_lists_hold(admin: &Pool, as_user: &dyn Fn(&str) -> Result<Pool>, names: [&str; 2]) {
    let [anna, bert] = names;
    assert_eq!(as_user("anna").map(drop), Err(Error::NoPermission), "nobody has allowed her anything");
    allow(admin, &[&format!("A::{anna}@:rw"), &format!("A::{bert}@:r")]);
    let cont = admin.create_container(Some(label("c")), Props::default()).unwrap();
    let theirs = admin.open_container(&ContName::Uuid(cont.uuid)).unwrap();
    let object = spread_object(&theirs);
    assert!(all_are(&written(&object), &Ok(())));
    let hers = as_user("anna").unwrap();
    assert_eq!(hers.open_container(&by_label("c")).map(drop), Err(Error::NoPermission));
    allow_in(&theirs, &[&format!("A::{anna}@:rw"), &format!("A::{bert}@:r")]);
    // Whoever may read reads at all engines and writes at none, who may write does both.
    let his = as_user("bert").unwrap();
    let (in_hers, in_his) =
        (hers.open_container(&by_label("c")).unwrap(), his.open_container(&by_label("c")).unwrap());
    let (by_anna, by_bert) = (in_hers.object(object.oid()).unwrap(), in_his.object(object.oid()).unwrap());
    assert!(all_are(&written(&by_anna), &Ok(())));
    assert!(all_are(&read(&by_anna), &Ok(Some(5))));
    assert!(all_are(&read(&by_bert), &Ok(Some(5))));
    assert!(all_are(&written(&by_bert), &Err(Error::NoPermission)));
    // A container of her own, with transactions and snapshots over all engines.
    let own = hers.create_container(Some(label("own")), Props::default()).unwrap();
    let own = hers.open_container(&ContName::Uuid(own.uuid)).unwrap();
    allow_in(&own, &["A::OWNER@:rwd"]);
    let mine = spread_object(&own);
    let all = |text: &[u8]| {
        own.transact(|tx| {
            (0..DKEYS).try_for_each(|dkey| mine.put(At::Tx(tx), &dkey.to_le_bytes(), b"a", text).map(drop))
        })
    };
    assert_eq!(all(b"one"), Ok(()));
    let then = own.create_snapshot(None).unwrap();
    assert_eq!(all(b"second"), Ok(()));
    assert!(all_are(&read(&own.at(then).object(mine.oid()).unwrap()), &Ok(Some(3))));
    assert_eq!(his.open_container(&by_label("own")).map(drop), Err(Error::NoPermission));
    // What is open goes on when a list is changed; what is opened then is as it says.
    allow_in(&theirs, &[&format!("A::{anna}@:r")]);
    assert!(all_are(&written(&by_anna), &Ok(())));
    let again = as_user("anna").unwrap();
    let reading = again.open_container(&by_label("c")).unwrap();
    assert!(all_are(&written(&reading.object(object.oid()).unwrap()), &Err(Error::NoPermission)));
    assert_eq!(as_user("bert").unwrap().open_container(&by_label("c")).map(drop), Err(Error::NoPermission));
    // Whose handles are taken is told so at all engines, and who has taken them goes on.
    theirs.evict_others(Whose::All).unwrap();
    for object in [&by_anna, &by_bert] {
        assert!(all_are(&read(object), &Err(Error::NoHandle)), "{:?}", read(object));
    }
    assert!(all_are(&written(&object), &Ok(())));
    let back = again.open_container(&by_label("c")).unwrap();
    assert!(all_are(&read(&back.object(object.oid()).unwrap()), &Ok(Some(5))));
    // What was closed is closed at all of them.
    let closed = mine.clone();
    own.close().unwrap();
    assert!(all_are(&read(&closed), &Err(Error::NoHandle)));
}

#[test]
fn lists_hold_at_all_engines_for_users_who_come_over_sockets() {
    if user_id() != 0 {
        return eprintln!("only root can be others");
    }
    let engines = Engines::start(3);
    engines.create(true);
    open_sockets(&engines, 3);
    let admin = pool(&engines.link(0)).unwrap();
    let as_user = |name: &str| pool_of(&engines, if name == "anna" { ANNA } else { BERT });
    assert_lists_hold(&admin, &as_user, ["4200052", "4200053"]);
    engines.assert_sound();
}

#[test]
fn lists_hold_at_all_engines_for_users_who_come_with_certificates() {
    let system = System::new();
    let engines = Engines::start_with(2, Some(&system));
    engines.create(true);
    let link = |role, name: &str| {
        let options = LinkOptions { certs: system.client(role, name), ..options() };
        reach::system(&[engines.network(0)], &options).unwrap()
    };
    let admin = pool(&link(Role::Admin, "admin")).unwrap();
    let as_user = |name: &str| pool(&link(Role::User, name));
    assert_lists_hold(&admin, &as_user, ["anna", "bert"]);
    // The key of a pool is what engines ask with, and their certificate.
    let uuid = admin.query().unwrap().map.pool;
    let look = SystemVerb::PartLook { pool: uuid, key: PartKey(0), cont: None };
    assert_eq!(link(Role::User, "anna").ask_system(&Head::default(), &look), Err(Error::NoPermission));
    let engine = LinkOptions { certs: CertsFrom::These(system.engine()), ..options() };
    let engine = Link::connect(&engines.network(0), &engine).unwrap();
    assert_eq!(engine.ask_system(&Head::default(), &look), Err(Error::NoPermission));
    assert_eq!(named(Role::User, "anna").groups.len(), 2);
    engines.assert_sound();
}

#[test]
fn who_is_another_user_on_the_way_to_another_engine_has_what_he_opens_at_both() {
    if user_id() != 0 {
        return eprintln!("only root can be others");
    }
    let system = System::new();
    let engines = Engines::start_with(2, Some(&system));
    engines.create(false);
    // The service's engine has her number from the kernel, the other, whose socket is not for her, from her certificate.
    open_sockets(&engines, 1);
    assert_ne!(named(Role::User, "anna").uid, ANNA);
    let admin = pool(&engines.link(0)).unwrap();
    allow(&admin, &["A::EVERYONE@:rw"]);
    let cont = admin.create_container(Some(label("c")), Props::default()).unwrap();
    let theirs = admin.open_container(&ContName::Uuid(cont.uuid)).unwrap();
    allow_in(&theirs, &["A::EVERYONE@:rw"]);
    let user = LinkOptions { certs: system.client(Role::User, "anna"), ..options() };
    let hers = || being(ANNA, || pool(&Link::connect(&engines.address(0), &user).unwrap())).unwrap();
    let (first, second) = (hers(), hers());
    let old = first.open_container(&by_label("c")).unwrap();
    let own = second.open_container(&by_label("c")).unwrap();
    let object = spread_object(&own);
    assert!(all_are(&written(&object), &Ok(())));
    // One engine counts that, the other does not.
    own.evict_others(Whose::Own).unwrap();
    assert_eq!(old.query().map(drop), Err(Error::NoHandle));
    let opened = [&second, &second, &first].map(|pool| pool.open_container(&by_label("c")).unwrap());
    let again = hers().open_container(&by_label("c")).unwrap();
    let all: Vec<&Container> = opened.iter().chain([&own, &again]).collect();
    let all: Vec<Object> = all.into_iter().map(|cont| cont.object(object.oid()).unwrap()).collect();
    let assert_used = |when: &str| {
        for (at, object) in all.iter().enumerate() {
            assert!(all_are(&written(object), &Ok(())), "{when}, {at}: {:?}", written(object));
        }
    };
    assert_used("opened since");
    // Handles that go on after an eviction of her own, which one has counted, are used over the death of either engine.
    for rank in [1, 0] {
        engines.kill(rank);
        engines.start_again(rank);
        open_sockets(&engines, 1);
        being(ANNA, || assert_used("after a death"));
    }
    theirs.evict_others(Whose::All).unwrap();
    for object in &all {
        assert!(all_are(&read(object), &Err(Error::NoHandle)), "{:?}", read(object));
    }
    let back = second.open_container(&by_label("c")).unwrap();
    assert!(all_are(&written(&back.object(object.oid()).unwrap()), &Ok(())));
    back.evict_others(Whose::Own).unwrap();
    engines.kill(1);
    engines.start_again(1);
    assert!(all_are(&written(&back.object(object.oid()).unwrap()), &Ok(())));
    engines.assert_sound();
}

#[test]
fn a_client_widens_nothing_at_a_part_whatever_it_asks() {
    if user_id() != 0 {
        return eprintln!("only root can be others");
    }
    let engines = Engines::start(2);
    engines.create(true);
    open_sockets(&engines, 2);
    let admin = pool(&engines.link(0)).unwrap();
    let cont = admin.create_container(Some(label("c")), Props::default()).unwrap();
    let theirs = admin.open_container(&ContName::Uuid(cont.uuid)).unwrap();
    let uuid = admin.query().unwrap().map.pool;
    let name = || PoolName::Uuid(uuid);
    let connect = SystemVerb::PoolConnect { name: name(), access: PoolAccess::ReadWrite };
    let cred = Credentials { uid: 0, gid: 0, project: 0 };
    let head = Head { cred, id: RequestId { client: 7, sequence: 1 }, ..Head::default() };
    let link = being(BERT, || Link::connect(&engines.address(1), &options()).unwrap());
    // Without a word in the pool's list the part does not let him in, whoever he says that he is.
    let opened = Door::open(&link, &head, connect.clone());
    assert_eq!(opened.map(drop), Err(Error::NoPermission));
    allow(&admin, &["A::4200053@:r"]);
    let (door, _) = Door::open(&link, &head, connect).unwrap();
    let ask = |ask| door.call(Request { token: 1, head, ask }).result.map(drop);
    let fetch = || Ask::Target(TargetNo(2), cont.no, Verb::Cont(ContVerb::Usage));
    assert_eq!(ask(fetch()), Err(Error::NoHandle), "he has not opened it");
    let open = || Ask::Pool(PoolVerb::ContOpen(ContName::Uuid(cont.uuid), OpenFor::Any));
    assert_eq!(ask(open()), Err(Error::NoPermission), "its list does not name him");
    assert_eq!(ask(fetch()), Err(Error::NoHandle));
    allow_in(&theirs, &["A::4200053@:r"]);
    assert_eq!(ask(open()), Ok(()));
    // An eviction that the client takes no part in reaches the part.
    let evictions = Evictions::of_all(9).encode();
    let told = PoolVerb::Evicted { cont: cont.no, evictions, by: 0 };
    assert_eq!(ask(Ask::Pool(told)), Err(Error::NoPermission), "that is for the service to say");
    theirs.evict_others(Whose::All).unwrap();
    assert_eq!(ask(fetch()), Err(Error::NoHandle));
    let look = SystemVerb::PartLook { pool: uuid, key: PartKey(0), cont: None };
    let home = being(BERT, || Link::connect(&engines.address(0), &options()).unwrap());
    for link in [&home, &link] {
        assert_eq!(link.ask_system(&head, &look), Err(Error::NoPermission), "he does not know the key");
    }
    engines.assert_sound();
}

#[test]
fn users_go_on_over_the_death_of_an_engine_unless_they_were_evicted_meanwhile() {
    if user_id() != 0 {
        return eprintln!("only root can be others");
    }
    let (engines, _admin, _, theirs) = shared("A::EVERYONE@:r", "A::EVERYONE@:rw");
    let hers = pool_of(&engines, ANNA).unwrap();
    let in_hers = hers.open_container(&by_label("c")).unwrap();
    let object = spread_object(&in_hers);
    // By a queue, too.
    let his = pool_of(&engines, BERT).unwrap();
    let queue = EventQueue::new(&his).unwrap();
    let mut event = queue.event().unwrap();
    his.open_container_on(&mut event, &by_label("c")).unwrap();
    let mut done = Vec::new();
    while queue.poll(Wait::Forever, 1, &mut done).unwrap() == 0 {}
    let Ok(Output::Opened(in_his)) = event.take_result().unwrap() else { panic!("it is opened") };
    let by_bert = in_his.object(object.oid()).unwrap();
    assert!(all_are(&written(&object), &Ok(())));
    assert!(all_are(&written(&by_bert), &Ok(())));
    for rank in [1, 0, 1] {
        engines.kill(rank);
        engines.start_again(rank);
        open_sockets(&engines, 2);
        being(ANNA, || assert!(all_are(&written(&object), &Ok(())), "engine {rank}"));
        being(BERT, || assert!(all_are(&read(&by_bert), &Ok(Some(5))), "engine {rank}"));
    }
    // The part is away when it happens, and so is the service after it.
    engines.kill(1);
    theirs.evict_others(Whose::All).unwrap();
    engines.kill(0);
    engines.start_again(0);
    engines.start_again(1);
    open_sockets(&engines, 2);
    being(ANNA, || until("she is told at all engines", || all_are(&read(&object), &Err(Error::NoHandle))));
    being(BERT, || assert!(all_are(&read(&by_bert), &Err(Error::NoHandle))));
    engines.assert_sound();
}

#[test]
fn evictions_that_a_part_has_not_heard_are_told_by_the_next_service() {
    if user_id() != 0 {
        return eprintln!("only root can be others");
    }
    let (engines, admin, cont, theirs) = shared("A::4200053@:r", "A::4200053@:r");
    let link = being(BERT, || Link::connect(&engines.address(1), &options()).unwrap());
    let name = PoolName::Uuid(admin.query().unwrap().map.pool);
    let connect = SystemVerb::PoolConnect { name, access: PoolAccess::ReadWrite };
    let (door, _) = Door::open(&link, &Head::default(), connect).unwrap();
    let ask = |ask| door.call(Request { token: 1, head: Head::default(), ask }).result.map(drop);
    let usage = || ask(Ask::Target(TargetNo(2), cont.no, Verb::Cont(ContVerb::Usage)));
    let open = PoolVerb::ContOpen(ContName::Uuid(cont.uuid), OpenFor::Any);
    assert_eq!((ask(Ask::Pool(open)), usage()), (Ok(()), Ok(())));
    // It hears nothing, and his connection to it stays.
    engines.signal(1, Signal::STOP);
    theirs.evict_others(Whose::All).unwrap();
    engines.kill(0);
    engines.signal(1, Signal::CONT);
    assert_eq!(usage(), Ok(()), "nobody has told it");
    engines.start_again(0);
    until("it is told", || usage() == Err(Error::NoHandle));
    engines.assert_sound();
}
