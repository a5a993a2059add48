//! Who may do what: another user is allowed what lists say, each right by itself, and who he is, the kernel says.

use crate::bystander::{Bystander, CONT, POOL};
use crate::child::until;
use crate::common::{Served, Way};
use dolmen_client::{At, Container, Pool};
use dolmen_codec::acl::Acl;
use dolmen_codec::order::HashKey;
use dolmen_codec::pool::{ContName, OpenFor};
use dolmen_codec::wire::{PoolAccess, PoolName, PoolSpec, SystemVerb};
use dolmen_env::{Address, user_id};
use dolmen_net::client::{Link, LinkOptions, Remote};
use dolmen_types::{
    Credentials, Error, Head, IoBuf, Label, ObjectClass, ObjectType, PropId, PropValue, Props, Result, Uuid,
};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;

/// A user whom the machine has no name for, and his group.
pub(crate) const UID: u32 = 4_200_042;
const GID: u32 = 4_200_043;
/// A group that he is in beside that.
pub(crate) const OTHER_GID: u32 = 4_200_044;

const VERIFY: PropId = PropId(4102);

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

fn list(entries: &[&str]) -> Acl {
    Acl::of_texts(entries).unwrap()
}

/// Somebody else's connection: over the socket by a thread that is him, which only root can have; else over the network,
/// where he says so. And who he says that he is: over the socket, root.
pub(crate) fn stranger(served: &Served) -> (Link, Credentials) {
    let is_root = user_id() == 0;
    if !is_root {
        return (served.link(Way::Tcp), Credentials { uid: UID, gid: GID, project: 0 });
    }
    let address = served.daemon.addresses()[0].clone();
    let Address::Unix(socket) = &address else { panic!("the first is a socket") };
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o777)).unwrap();
    let connect = move || {
        set_thread_groups(&[Gid::from_raw(OTHER_GID)]).unwrap();
        set_thread_gid(Gid::from_raw(GID)).unwrap();
        set_thread_uid(Uid::from_raw(UID)).unwrap();
        Link::connect(&address, &LinkOptions::default()).unwrap()
    };
    let link = dolmen_env::scope(|threads| threads.spawn(connect).join().unwrap());
    (link, Credentials { uid: 0, gid: 0, project: 0 })
}

pub(crate) fn connect(link: &Link, cred: Credentials, access: PoolAccess) -> Result<Pool> {
    let head = Head { cred, ..Head::default() };
    let remote = Remote::open(link, &head, PoolName::Label(label(POOL)), access)?;
    Pool::connect(Arc::new(remote), cred)
}

fn connected(served: &Served) -> Result<Pool> {
    let (link, cred) = stranger(served);
    connect(&link, cred, PoolAccess::ReadWrite)
}

pub(crate) fn allow(pool: &Pool, entries: &[&str]) {
    pool.set_props(&Props::from([(PropId::PO_ACL, PropValue::Bytes(list(entries).encode()))])).unwrap();
}

fn open(pool: &Pool, text: &str) -> Result<Container> {
    pool.open_container(&ContName::Label(label(text)))
}

fn make(pool: &Pool, text: &str) -> Result<()> {
    pool.create_container(Some(label(text)), Props::default()).map(drop)
}

fn destroy(pool: &Pool, text: &str) -> Result<()> {
    pool.destroy_container(&ContName::Label(label(text)), false)
}

#[test]
fn a_pool_lets_in_whom_its_list_names_whoever_he_says_that_he_is() {
    let served = Served::start();
    let operator = Bystander::first(served.link(Way::Socket));
    assert_eq!(connected(&served).map(drop), Err(Error::NoPermission), "nobody has allowed him anything");
    let (link, cred) = stranger(&served);
    let head = Head { cred, ..Head::default() };
    let opened = Remote::open(&link, &head, PoolName::Label(label(POOL)), PoolAccess::ReadOnly);
    assert_eq!(opened.map(drop), Err(Error::NoPermission), "he is refused when he connects");
    for entries in [&["A::4200042@:r"][..], &["A::4200042@:t"], &["A:G:4200043@:r"], &["A::EVERYONE@:r"]] {
        allow(&operator.pool, entries);
        assert!(connected(&served).is_ok(), "{entries:?}");
    }
    // The most particular entry decides.
    allow(&operator.pool, &["A::4200042@:", "A::EVERYONE@:rw"]);
    assert_eq!(connected(&served).map(drop), Err(Error::NoPermission));
    // Groups beside the first are what the kernel says: over the network there are none.
    allow(&operator.pool, &["A:G:4200044@:r"]);
    assert_eq!(connected(&served).is_ok(), user_id() == 0);
    // Owner and group are those of the directory, until somebody says otherwise.
    allow(&operator.pool, &["A::OWNER@:r", "A:G:GROUP@:"]);
    assert_eq!(connected(&served).map(drop), Err(Error::NoPermission));
    let owner = (PropId::PO_OWNER, PropValue::Text("4200042@".to_owned()));
    operator.pool.set_props(&Props::from([owner.clone()])).unwrap();
    let as_owner = connected(&served).unwrap();
    let group = dolmen_env::group_principal(served.dir.path().metadata().unwrap().gid());
    let told = Props::from([owner, (PropId::PO_OWNER_GROUP, PropValue::Text(group))]);
    assert_eq!(as_owner.props(), Ok(told), "the list is not for him");
    assert_eq!(as_owner.scrub().map(drop), Err(Error::NoPermission), "what goes over everybody's data");
    assert_eq!(as_owner.check().map(drop), Err(Error::NoPermission));
    // It is as it was for whoever opens the pool after the next start.
    let dir = served.dir.path().join(POOL);
    assert!(std::fs::metadata(dir).is_ok_and(|dir| dir.uid() == user_id()));
}

#[test]
fn who_connects_to_change_a_pool_may_change_something_there() {
    let served = Served::start();
    let operator = Bystander::first(served.link(Way::Socket));
    let (link, cred) = stranger(&served);
    let told = |access| connect(&link, cred, access).map(drop);
    for (letters, may) in
        [("r", false), ("ta", false), ("rw", true), ("rc", true), ("rd", true), ("rA", true), ("ro", true)]
    {
        allow(&operator.pool, &[&format!("A::4200042@:{letters}")]);
        let expected = if may { Ok(()) } else { Err(Error::NoPermission) };
        assert_eq!(told(PoolAccess::Change), expected, "{letters}");
        assert_eq!(told(PoolAccess::Exclusive), if may { Err(Error::Busy) } else { expected }, "{letters}");
        for access in [PoolAccess::ReadOnly, PoolAccess::ReadWrite] {
            assert_eq!(told(access), Ok(()), "{letters} {access:?}");
        }
    }
    allow(&operator.pool, &["A::4200042@:w"]);
    assert_eq!(told(PoolAccess::Change), Err(Error::NoPermission), "who may not read does not connect");
}

#[test]
fn pools_are_made_by_who_runs_the_engine() {
    let served = Served::start();
    let operator = Bystander::first(served.link(Way::Socket));
    allow(&operator.pool, &["A::EVERYONE@:rwcdtTaAo"]);
    let (link, cred) = stranger(&served);
    let head = Head { cred, ..Head::default() };
    let spec = PoolSpec { uuid: Some(Uuid::from_u128(5)), ..PoolSpec::default() };
    let name = || PoolName::Label(label(POOL));
    for ask in [
        SystemVerb::PoolCreate(spec),
        SystemVerb::PoolDestroy { name: name(), force: true },
        SystemVerb::PoolEvict(name()),
        SystemVerb::Stop,
    ] {
        assert_eq!(link.ask_system(&head, &ask), Err(Error::NoPermission), "{ask:?}");
    }
}

#[test]
fn each_right_on_a_pool_allows_what_it_says_and_nothing_else() {
    let served = Served::start();
    let operator = Bystander::first(served.link(Way::Socket));
    let acl = Props::from([(PropId::PO_ACL, PropValue::Bytes(list(&["A::4200042@:r"]).encode()))]);
    let owner = Props::from([(PropId::PO_OWNER, PropValue::Text("root@".to_owned()))]);
    let refused = Err(Error::NoPermission);
    for (at, (letters, may)) in [
        ("r", ""),
        ("rc", "make"),
        ("rd", "destroy"),
        ("rw", "make destroy attrs"),
        ("rt", ""),
        ("ra", "list"),
    ]
    .into_iter()
    .chain([("rA", "set list"), ("ro", "owner"), ("rT", "")])
    .enumerate()
    {
        let theirs = format!("theirs-{at}");
        make(&operator.pool, &theirs).unwrap();
        allow(&operator.pool, &[&format!("A::4200042@:{letters}")]);
        let pool = connected(&served).unwrap();
        let is = |right: &str| may.contains(right);
        assert!(pool.query().is_ok() && pool.containers().is_ok());
        let made = make(&pool, &format!("own-{at}"));
        assert_eq!(made, if is("make") { Ok(()) } else { refused.clone() }, "{letters}");
        let gone = destroy(&pool, &theirs);
        assert_eq!(gone, if is("destroy") { Ok(()) } else { refused.clone() }, "{letters}");
        let attrs = pool.set_attrs(&[("k".to_owned(), b"v".to_vec())]);
        assert_eq!(attrs, if is("attrs") { Ok(()) } else { refused.clone() }, "{letters}");
        let told = pool.props().unwrap();
        assert_eq!(told.contains_key(&PropId::PO_ACL), may == "list", "{letters}");
        let both = acl.clone().into_iter().chain(owner.clone()).collect();
        assert_eq!(pool.set_props(&both), refused, "one after the other");
        let given = pool.set_props(&owner);
        assert_eq!(given, if is("owner") { Ok(()) } else { refused.clone() }, "{letters}");
        let set = pool.set_props(&acl);
        assert_eq!(set, if is("set list") { Ok(()) } else { refused.clone() }, "{letters}");
    }
}

#[test]
fn who_may_change_nothing_has_no_pool_alone() {
    let served = Served::start();
    let operator = Bystander::first(served.link(Way::Socket));
    let alone = |letters: &str| {
        let entry = format!("A::4200042@:{letters}");
        let Bystander { pool, .. } = Bystander::of(&served.link(Way::Socket));
        allow(&pool, &[&entry]);
        drop(pool);
        let (link, cred) = stranger(&served);
        let told = connect(&link, cred, PoolAccess::Exclusive).map(drop);
        (told, connect(&link, cred, PoolAccess::ReadWrite).map(drop))
    };
    let refused = Err(Error::NoPermission);
    for letters in ["r", "rt", "ra"] {
        assert_eq!(
            alone(letters),
            (refused.clone(), Ok(())),
            "{letters}: before he hears that others use it"
        );
    }
    assert_eq!(alone(""), (refused.clone(), refused));
    drop(operator);
    for letters in ["rw", "rc", "rd", "rA"] {
        until("nobody uses the pool", || alone(letters).0 == Ok(()));
    }
}

/// What a user is told who tries to do one thing after the other with a container; the last two change who may.
fn attempts(cont: &Container, acl: &Acl) -> [Result<()>; 10] {
    let oid = cont.oid(ObjectType::MultiHashed, ObjectClass::S2, 7, 1).unwrap();
    let object = cont.object(oid).unwrap();
    let set = |id, value| cont.set_props(&Props::from([(id, value)]));
    [
        object.get(At::Latest, b"key", b"a", &mut IoBuf::default()).map(drop),
        object.put(At::Latest, b"key", b"a", b"by a stranger").map(drop),
        cont.flush(),
        cont.create_snapshot(None).map(drop),
        cont.evict_others(dolmen_client::Whose::All),
        cont.props(&[PropId::CO_LAYOUT_TYPE]).map(drop),
        set(VERIFY, PropValue::Number(1)),
        cont.acl().map(drop),
        cont.set_acl(acl),
        set(PropId::CO_OWNER, PropValue::Text("root@".to_owned())),
    ]
}

#[test]
fn each_right_on_a_container_allows_what_it_says_and_nothing_else() {
    let served = Served::start();
    let operator = Bystander::first(served.link(Way::Socket));
    allow(&operator.pool, &["A::4200042@:r"]);
    // By attempt: read, write, flush, snapshot, evict, get and set a property, get and set the list, give away. Then: destroy.
    for (letter, may) in [
        ("r", [true, false, true, false, false, true, false, false, false, false]),
        ("w", [false, true, true, true, false, false, false, false, false, false]),
        ("d", [false, false, false, false, true, false, false, false, false, false]),
        ("t", [false, false, false, false, false, true, false, false, false, false]),
        ("T", [false, false, false, false, false, false, true, false, false, false]),
        ("a", [false, false, false, false, false, true, false, true, false, false]),
        ("A", [false, false, false, false, false, false, false, false, true, false]),
        ("o", [false, false, false, false, false, false, false, false, false, true]),
    ] {
        make(&operator.pool, letter).unwrap();
        let acl = list(&[&format!("A::4200042@:{letter}")]);
        open(&operator.pool, letter).unwrap().set_acl(&acl).unwrap();
        let pool = connected(&served).unwrap();
        let cont = open(&pool, letter).unwrap();
        let told = attempts(&cont, &acl).map(|told| match told {
            Err(Error::NoPermission) => false,
            told => told.map(|()| true).unwrap(),
        });
        assert_eq!(told, may, "{letter}");
        cont.close().unwrap();
        let gone = destroy(&pool, letter);
        assert_eq!(gone, if letter == "d" { Ok(()) } else { Err(Error::NoPermission) }, "{letter}");
    }
    // Who means to change something is refused unless he may change anything.
    for (letters, may) in [("r", false), ("rta", false), ("w", true), ("rA", true), ("d", true), ("rT", true)]
    {
        let name = format!("for-{letters}");
        make(&operator.pool, &name).unwrap();
        let theirs = open(&operator.pool, &name).unwrap();
        theirs.set_acl(&list(&[&format!("A::4200042@:{letters}")])).unwrap();
        let (link, cred) = stranger(&served);
        for (access, may) in [(PoolAccess::ReadWrite, may), (PoolAccess::ReadOnly, false)] {
            let pool = connect(&link, cred, access).unwrap();
            let opened = pool.open_container_for(&ContName::Label(label(&name)), OpenFor::Change);
            assert_eq!(
                opened.map(drop),
                if may { Ok(()) } else { Err(Error::NoPermission) },
                "{letters} {access:?}"
            );
        }
        assert_eq!(theirs.query().map(|info| info.handles), Ok(1), "{letters}");
    }
    // Without any right it is not opened, nor known but by its name.
    let pool = connected(&served).unwrap();
    assert_eq!(open(&pool, CONT).map(drop), Err(Error::NoPermission));
    assert_eq!(operator.handle_count(), 1, "the handle was given back");
    let listed = pool.containers().unwrap();
    let named = listed.iter().find(|cont| cont.label == Some(label(CONT))).unwrap();
    assert_eq!((named.hash_key, named.props.len()), (HashKey([0; 16]), 0));
}

#[test]
fn who_makes_a_container_owns_it_and_gives_it_to_nobody_else() {
    let served = Served::start();
    let operator = Bystander::first(served.link(Way::Socket));
    allow(&operator.pool, &["A::4200042@:rc"]);
    let pool = connected(&served).unwrap();
    make(&pool, "own").unwrap();
    for (id, name) in [(PropId::CO_OWNER, "root@"), (PropId::CO_OWNER_GROUP, "strangers@")] {
        let props = Props::from([(id, PropValue::Text(name.to_owned()))]);
        let made = pool.create_container(Some(label("not-own")), props);
        assert_eq!(made.map(drop), Err(Error::NoPermission), "{name}");
    }
    let own = open(&pool, "own").unwrap();
    let ids = [PropId::CO_OWNER, PropId::CO_OWNER_GROUP];
    let names = ["4200042@", "4200043@"].map(|name| PropValue::Text(name.to_owned()));
    assert_eq!(own.props(&ids), Ok(ids.into_iter().zip(names).collect()));
    let told = attempts(&own, &list(&["A::OWNER@:"])).map(|told| told.is_ok());
    assert_eq!(told[..8], [true; 8]);
    assert!(told[8], "what a handle allows was settled when it was opened");
    own.close().unwrap();
    // He has given it away, and allowed the owner nothing.
    assert_eq!(open(&pool, "own").map(drop), Err(Error::NoPermission));
    // An owner reads and changes the list, whatever it says.
    let theirs = open(&operator.pool, "own").unwrap();
    let owner = PropValue::Text("4200042@".to_owned());
    theirs.set_props(&Props::from([(PropId::CO_OWNER, owner)])).unwrap();
    let own = open(&pool, "own").unwrap();
    assert_eq!(own.acl(), Ok(list(&["A::OWNER@:"])));
    assert_eq!(own.props(&[VERIFY]).map(|props| props.len()), Ok(1));
    own.set_acl(&list(&["A::OWNER@:rd"])).unwrap();
    drop(own);
    assert_eq!(destroy(&pool, "own"), Err(Error::Busy), "somebody has it open");
    theirs.close().unwrap();
    assert_eq!(destroy(&pool, "own"), Ok(()));
}

#[test]
fn who_may_not_open_a_container_is_told_so_whoever_has_it() {
    let served = Served::start();
    let operator = Bystander::first(served.link(Way::Socket));
    allow(&operator.pool, &["A::4200042@:r"]);
    let (link, cred) = stranger(&served);
    let pool = connect(&link, cred, PoolAccess::ReadWrite).unwrap();
    let name = ContName::Label(label("own"));
    make(&operator.pool, "own").unwrap();
    let told = |wanted| pool.open_container_for(&name, wanted).map(drop);
    let all = [OpenFor::Any, OpenFor::Change, OpenFor::Alone(5), OpenFor::Joining(5), OpenFor::Evicting];
    for theirs in [OpenFor::Change, OpenFor::Alone(9)] {
        let open = || operator.pool.open_container_for(&name, theirs).unwrap();
        let cont = open();
        cont.set_acl(&list(&["A::OWNER@:rwA"])).unwrap();
        for wanted in all {
            assert_eq!(told(wanted), Err(Error::NoPermission), "{wanted:?} beside {theirs:?}");
        }
        cont.set_acl(&list(&["A::OWNER@:rwA", "A::4200042@:r"])).unwrap();
        for wanted in [OpenFor::Change, OpenFor::Alone(5), OpenFor::Joining(5)] {
            assert_eq!(told(wanted), Err(Error::NoPermission), "who reads has {wanted:?} beside {theirs:?}");
        }
        let reads = if theirs == OpenFor::Alone(9) { Err(Error::Busy) } else { Ok(()) };
        assert_eq!(told(OpenFor::Any), reads);
        cont.set_acl(&list(&["A::OWNER@:rwA", "A::4200042@:rw"])).unwrap();
        assert_eq!(told(OpenFor::Alone(5)), Err(Error::Busy), "who may is told who else does");
        cont.close().unwrap();
        // Whoever is refused has not had it alone meanwhile, nor has he kept it.
        open().close().unwrap();
    }
    assert_eq!(told(OpenFor::Alone(5)), Ok(()));
}

#[test]
fn nothing_is_asked_of_a_container_that_was_not_opened() {
    let served = Served::start();
    let operator = Bystander::first(served.link(Way::Socket));
    allow(&operator.pool, &["A::4200042@:r"]);
    operator.cont.set_acl(&list(&["A::4200042@:rw"])).unwrap();
    let (link, cred) = stranger(&served);
    let pool = connect(&link, cred, PoolAccess::ReadOnly).unwrap();
    let cont = open(&pool, CONT).unwrap();
    let told = attempts(&cont, &list(&["A::4200042@:rw"])).map(|told| told.is_ok());
    let read_only = [true, false, true, false, false, true, false, false, false, false];
    assert_eq!(told, read_only, "a connection for reading writes nothing");
    // Another clone asks after the handle was closed: the engine says so.
    let object = cont.object(operator.object.oid()).unwrap();
    cont.close().unwrap();
    let late = object.get(At::Latest, b"key", b"a", &mut IoBuf::default());
    assert_eq!(late.map(drop), Err(Error::NoHandle));
}
