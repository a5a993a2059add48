//! Connections over the network with certificates: who comes in, as whom, and who does not and is told why.

use crate::bystander::{Bystander, CONT, POOL};
use crate::common::{Scratch, Served};
use dolmen_client::{At, Pool};
use dolmen_codec::acl::Acl;
use dolmen_codec::pool::ContName;
use dolmen_codec::wire::{PartKey, PoolAccess, PoolName, PoolSpec, SystemReply, SystemVerb};
use dolmen_daemon::{Authority, Daemon, Issued, Settings};
use dolmen_env::{Address, Clock, RealClock, Socket};
use dolmen_net::client::{CertsFrom, Link, LinkOptions, Remote};
use dolmen_net::tls::{Certs, Identity, Role, Validity, revoked_in, serial_of};
use dolmen_net::{CertFault, Error, Lack, Stream, Whose};
use dolmen_types::{Credentials, Error as Failure, Head, Label, PropId, PropValue, Props, Uuid};
use std::io::IoSlice;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(20);

const DAY_S: i64 = 86_400;

/// An authority, and directories of who it names.
pub(crate) struct System {
    authority: Authority,
    dir: Scratch,
}

pub(crate) fn lasting(from_days: i64, until_days: i64) -> Validity {
    let now_s = i64::try_from(RealClock.now_ns() / 1_000_000_000).unwrap();
    Validity { from: now_s + from_days * DAY_S, until: now_s + until_days * DAY_S }
}

pub(crate) fn named(role: Role, name: &str) -> Identity {
    let groups = if role == Role::User { vec!["staff".to_owned(), "video".to_owned()] } else { Vec::new() };
    Identity { role, name: name.to_owned(), groups, uid: 4_200_100, gid: 4_200_101 }
}

fn write(path: &Path, text: &str) {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

impl System {
    pub(crate) fn new() -> Self {
        Self { authority: Authority::generate().unwrap(), dir: Scratch::new() }
    }

    /// The directory `name` with a certificate that is valid for so long, trusting this authority.
    fn issue(&self, name: &str, whom: &Identity, validity: Validity) -> PathBuf {
        self.issue_by(&self.authority, name, whom, validity)
    }

    /// The same, of another authority.
    fn issue_by(&self, authority: &Authority, name: &str, whom: &Identity, validity: Validity) -> PathBuf {
        let dir = self.dir.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let Issued { certificate, key } = authority.issue(whom, validity).unwrap();
        write(&dir.join(Certs::AUTHORITY), &self.authority.certificate(lasting(-1, 100)).unwrap());
        write(&dir.join(Certs::OWN), &certificate);
        write(&dir.join(Certs::KEY), &key);
        dir
    }

    pub(crate) fn engine(&self) -> Certs {
        let dir = self.issue("engine", &named(Role::Engine, "server"), lasting(-1, 1));
        Certs::load(&dir, Role::Engine).unwrap()
    }

    /// Where the engines' certificate is.
    pub(crate) fn engine_dir(&self) -> PathBuf {
        self.dir.path().join("engine")
    }

    pub(crate) fn client(&self, role: Role, name: &str) -> CertsFrom {
        let dir = self.issue(name, &named(role, name), lasting(-1, 1));
        CertsFrom::These(Certs::load(&dir, Role::User).unwrap())
    }

    /// A daemon with a socket and an address of the network that asks for certificates.
    fn serve(&self) -> Served {
        Served::with(|settings| settings.certs = Some(self.engine()))
    }
}

fn options(certs: CertsFrom) -> LinkOptions {
    LinkOptions { certs, patience: LIMIT, connect_timeout: LIMIT, ..LinkOptions::default() }
}

fn network(served: &Served) -> Address {
    served.daemon.addresses()[1].clone()
}

fn connect(served: &Served, certs: CertsFrom) -> dolmen_net::Result<Link> {
    Link::connect(&network(served), &options(certs))
}

/// Why a client with these certificates is refused.
fn refused(served: &Served, certs: CertsFrom) -> Error {
    match connect(served, certs) {
        Ok(_) => panic!("it is let in"),
        Err(error) => error,
    }
}

/// Opens the pool as somebody who says that he is root.
fn open(link: &Link) -> dolmen_types::Result<Pool> {
    let cred = Credentials { uid: 0, gid: 0, project: 0 };
    let head = Head { cred, ..Head::default() };
    let remote =
        Remote::open(link, &head, PoolName::Label(Label::new(POOL).unwrap()), PoolAccess::ReadWrite)?;
    Pool::connect(Arc::new(remote), cred)
}

fn allow(pool: &Pool, entries: &[&str]) {
    let list = PropValue::Bytes(Acl::of_texts(entries).unwrap().encode());
    pool.set_props(&Props::from([(PropId::PO_ACL, list)])).unwrap();
}

fn cont_name() -> ContName {
    ContName::Label(Label::new(CONT).unwrap())
}

#[test]
fn who_comes_with_a_certificate_is_whom_it_names_and_may_do_what_lists_say() {
    let system = System::new();
    let served = system.serve();
    let mut admin = Bystander::first(connect(&served, system.client(Role::Admin, "admin")).unwrap());
    admin.goes_on();
    let anna = connect(&served, system.client(Role::User, "anna")).unwrap();
    let bert = connect(&served, system.client(Role::User, "bert")).unwrap();
    assert_eq!(open(&anna).map(drop), Err(Failure::NoPermission), "nobody has allowed her anything");
    for entries in [&["A::anna@:rw"][..], &["A:G:staff@:rw"], &["A:G:video@:rw"]] {
        allow(&admin.pool, entries);
        assert!(open(&anna).is_ok(), "{entries:?}");
        let has_bert = open(&bert).is_ok();
        assert_eq!(has_bert, entries[0].starts_with("A:G:"), "{entries:?}");
    }
    allow(&admin.pool, &["A::anna@:rw", "A::bert@:r"]);
    // A container is its maker's, and others have it as its list says.
    let pool = open(&anna).unwrap();
    let label = Label::new("own").unwrap();
    pool.create_container(Some(label.clone()), Props::default()).unwrap();
    let own = pool.open_container(&ContName::Label(label.clone())).unwrap();
    assert!(own.props(&[]).unwrap().get(&PropId::CO_OWNER) == Some(&PropValue::Text("anna@".to_owned())));
    assert_eq!(
        pool.open_container(&cont_name()).map(drop),
        Err(Failure::NoPermission),
        "it is the administrator's"
    );
    let others = open(&bert).unwrap();
    assert_eq!(others.create_container(None, Props::default()).map(drop), Err(Failure::NoPermission));
    // The staff of the owner's group may.
    assert!(others.open_container(&ContName::Label(label)).is_ok());
    // What is the administrators' and what engines ask each other.
    for ask in [
        SystemVerb::PoolCreate(PoolSpec::default()),
        SystemVerb::PoolDestroy { name: PoolName::Label(Label::new(POOL).unwrap()), force: true },
        SystemVerb::PoolEvict(PoolName::Label(Label::new(POOL).unwrap())),
        SystemVerb::PartConnect { pool: Uuid::nil(), key: PartKey(0) },
        SystemVerb::PartDestroy { pool: Uuid::nil(), key: PartKey(0) },
        SystemVerb::Stop,
    ] {
        assert_eq!(anna.ask_system(&Head::default(), &ask).map(drop), Err(Failure::NoPermission), "{ask:?}");
    }
    // The certificate of engines is nobody's who uses pools.
    let engine = connect(&served, CertsFrom::These(system.engine())).unwrap();
    assert_eq!(open(&engine).map(drop), Err(Failure::NoPermission));
    admin.goes_on();
    let ended = connect(&served, system.client(Role::Admin, "admin")).unwrap();
    assert!(matches!(ended.ask_system(&Head::default(), &SystemVerb::Stop), Ok(SystemReply::Done)));
}

#[test]
fn a_certificate_that_is_missing_or_wrong_is_refused_and_told() {
    let system = System::new();
    let served = system.serve();
    let user = named(Role::User, "anna");
    let with = |dir: PathBuf| CertsFrom::These(Certs::load(&dir, Role::User).unwrap());
    let own = |fault| Error::BadCertificate { whose: Whose::Own, fault };
    let peer = |fault| Error::BadCertificate { whose: Whose::Peer, fault };
    assert_eq!(refused(&served, CertsFrom::Nowhere), Error::NoCertificate(Lack::Own));
    let expired = with(system.issue("expired", &user, lasting(-3, -1)));
    assert_eq!(refused(&served, expired), own(CertFault::Expired));
    let early = with(system.issue("early", &user, lasting(1, 2)));
    assert!(matches!(refused(&served, early), Error::BadCertificate { whose: Whose::Own, .. }));
    let stranger = Authority::generate().unwrap();
    let foreign = with(system.issue_by(&stranger, "foreign", &user, lasting(-1, 1)));
    assert_eq!(refused(&served, foreign), own(CertFault::Foreign));
    let abroad = System::new();
    let misled = abroad.client(Role::Admin, "admin");
    assert_eq!(
        refused(&served, misled),
        peer(CertFault::Foreign),
        "an engine that the client does not trust"
    );
    // An engine's certificate that has expired, and one that is none.
    let dir = system.issue("old", &named(Role::Engine, "server"), lasting(-3, -1));
    let old = Served::with(|settings| settings.certs = Some(Certs::load(&dir, Role::Engine).unwrap()));
    assert_eq!(refused(&old, system.client(Role::User, "anna")), peer(CertFault::Expired));
    let dir = system.issue("anna", &user, lasting(-1, 1));
    assert_eq!(Certs::load(&dir, Role::Engine).map(drop), Err(own(CertFault::Role)));
    // The other way round: there is no certificate where the client wants one.
    let clear = Served::start();
    assert_eq!(refused(&clear, system.client(Role::User, "anna")), Error::NoCertificate(Lack::Peer));
    // After all of them, who is welcome comes in.
    assert!(connect(&served, system.client(Role::User, "anna")).is_ok());
}

#[test]
fn a_directory_of_certificates_says_what_is_wrong_with_it() {
    let system = System::new();
    let dir = system.issue("anna", &named(Role::User, "anna"), lasting(-1, 1));
    let other = system.issue("bert", &named(Role::User, "bert"), lasting(-1, 1));
    let loaded = || Certs::load(&dir, Role::User).map(|certs| certs.identity().name.clone());
    assert_eq!(loaded(), Ok("anna".to_owned()));
    let key = dir.join(Certs::KEY);
    let fault = |fault| Err(Error::BadCertificate { whose: Whose::Own, fault });
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(loaded(), fault(CertFault::Open { path: key.clone() }));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let unreadable = |file: &str| fault(CertFault::File { path: dir.join(file) });
    let whole = std::fs::read_to_string(&key).unwrap();
    for text in [
        String::new(),
        whole[..whole.len() / 2].to_owned(),
        std::fs::read_to_string(other.join(Certs::KEY)).unwrap(),
    ] {
        write(&key, &text);
        assert_eq!(loaded(), unreadable(Certs::KEY), "{text}");
    }
    std::fs::remove_file(&key).unwrap();
    let lack = |file| Err(Error::NoCertificate(Lack::Directory { path: dir.clone(), file }));
    assert_eq!(loaded(), lack(Certs::KEY));
    write(&key, &whole);
    for text in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        write(&dir.join(Certs::OWN), text);
        assert_eq!(loaded(), unreadable(Certs::OWN), "{text:?}");
    }
    std::fs::remove_file(dir.join(Certs::AUTHORITY)).unwrap();
    assert_eq!(loaded(), lack(Certs::AUTHORITY));
}

/// What a peer sees of an engine to which he has sent these bytes: so many in return, and the end if he has closed his side.
fn answered(address: &Address, bytes: &[u8]) -> Vec<u8> {
    let socket = Socket::connect(address, LIMIT).unwrap();
    let mut heard = Vec::new();
    let mut sent = 0;
    let mut room = [0; 4096];
    let end_ns = RealClock.monotonic_ns() + u64::try_from(LIMIT.as_nanos()).unwrap();
    loop {
        assert!(RealClock.monotonic_ns() < end_ns, "{} of {} bytes sent, {heard:?}", sent, bytes.len());
        if sent < bytes.len() {
            match socket.write(&[IoSlice::new(&bytes[sent..])]) {
                Ok(dolmen_env::Moved::Bytes(len)) => sent += len,
                Ok(dolmen_env::Moved::Later) => {}
                Ok(dolmen_env::Moved::End) | Err(_) => return heard,
            }
        }
        match socket.read(&mut room) {
            Ok(dolmen_env::Moved::Bytes(len)) => heard.extend_from_slice(&room[..len]),
            Ok(dolmen_env::Moved::End) | Err(_) => return heard,
            Ok(dolmen_env::Moved::Later) if sent == bytes.len() && !heard.is_empty() => return heard,
            Ok(dolmen_env::Moved::Later) => drop(socket.wait(true, sent < bytes.len(), Some(LIMIT)).unwrap()),
        }
    }
}

#[test]
fn garbage_where_tls_is_spoken_ends_its_connection_and_nothing_else() {
    let system = System::new();
    let served = system.serve();
    let mut admin = Bystander::first(connect(&served, system.client(Role::Admin, "admin")).unwrap());
    // A client hello that is whole but for its middle; the length of a record that none has; alerts; zeros; text.
    let record = |kind: u8, len: u16, fill: u8| {
        let mut bytes = vec![kind, 3, 1];
        let [low, high] = len.to_le_bytes();
        bytes.extend([high, low]);
        bytes.extend(std::iter::repeat_n(fill, usize::from(len)));
        bytes
    };
    for bytes in [
        record(0x16, 400, 1),
        record(0x16, u16::MAX, 0),
        record(0x15, 2, 2),
        record(0x17, 64, 7),
        vec![0; 100_000],
        b"GET / HTTP/1.1\r\nHost: engine\r\n\r\n".to_vec(),
        (0..=u8::MAX).cycle().skip(0x80).take(70_000).collect(),
    ] {
        let heard = answered(&network(&served), &bytes);
        assert!(!heard.starts_with(b"DLWE"), "nobody is let in: {heard:?}");
        admin.goes_on();
    }
    // Who begins in the clear is told in the clear.
    let hello = crate::raw::hello(0);
    assert!(answered(&network(&served), &hello).starts_with(b"DLWE"));
}

#[test]
fn hundreds_who_begin_and_say_no_more_keep_nobody_from_working() {
    let system = System::new();
    let served = system.serve();
    let mut admin = Bystander::first(connect(&served, system.client(Role::Admin, "admin")).unwrap());
    let half: Vec<Socket> = (0..300_usize)
        .map(|at| {
            let socket = Socket::connect(&network(&served), LIMIT).unwrap();
            // Nothing, a byte, or half of a record's header.
            let begun = &[0x16, 3, 1][..at % 4 % 3];
            if !begun.is_empty() {
                assert_eq!(
                    socket.write(&[IoSlice::new(begun)]).unwrap(),
                    dolmen_env::Moved::Bytes(begun.len())
                );
            }
            socket
        })
        .collect();
    for at in 0..3 {
        admin.goes_on();
        let name = format!("user{at}");
        assert!(connect(&served, system.client(Role::User, &name)).is_ok());
    }
    drop(half);
}

#[test]
fn certificates_that_are_renewed_are_taken_into_use_by_who_runs_on() {
    let system = System::new();
    let dir = system.issue("engine", &named(Role::Engine, "server"), lasting(-1, 1));
    let served = Served::with(|settings| settings.certs = Some(Certs::load(&dir, Role::Engine).unwrap()));
    let client = system.client(Role::Admin, "admin");
    let mut admin = Bystander::first(connect(&served, client.clone()).unwrap());
    // Engine and clients go over to another authority, which trusts nothing of the former.
    let next = System::new();
    for (name, role) in [("engine", Role::Engine), ("admin", Role::Admin)] {
        let whom = named(role, if role == Role::Engine { "server" } else { name });
        let from = next.issue(name, &whom, lasting(-1, 1));
        for file in [Certs::AUTHORITY, Certs::OWN, Certs::KEY] {
            let text = std::fs::read_to_string(from.join(file)).unwrap();
            write(&system.dir.path().join(name).join(file), &text);
        }
    }
    let end_ns = RealClock.monotonic_ns() + u64::try_from(LIMIT.as_nanos()).unwrap();
    while let Err(error) = connect(&served, client.clone()) {
        assert!(matches!(error, Error::BadCertificate { .. }), "{error}");
        assert!(RealClock.monotonic_ns() < end_ns, "the daemon does not look");
        dolmen_env::wait(Duration::from_millis(20));
    }
    // Who was there goes on with what was agreed on.
    admin.goes_on();
}

#[test]
fn a_client_goes_on_over_a_restart_of_its_daemon_and_shows_its_certificate_again() {
    let system = System::new();
    let dir = Scratch::new();
    let mut settings = Settings::new(dir.path().to_owned());
    settings.certs = Some(system.engine());
    settings.addresses = vec![Address::Tcp("127.0.0.1:0".parse().unwrap())];
    let start = |settings: &Settings| Daemon::start(settings, |note| eprintln!("daemon: {note}")).unwrap();
    let mut daemon = start(&settings);
    settings.addresses = daemon.addresses().to_vec();
    let certs = system.client(Role::Admin, "admin");
    let mut admin = Bystander::first(Link::connect(&settings.addresses[0], &options(certs)).unwrap());
    for _ in 0..3 {
        admin.goes_on();
        daemon.stop().unwrap();
        daemon = start(&settings);
        admin.goes_on();
        assert_eq!(admin.handle_count(), 1, "the handle was opened again");
    }
}

#[test]
fn a_stream_says_whom_the_other_end_is_once_that_is_verified() {
    let system = System::new();
    let listener = dolmen_env::Listener::bind(&Address::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
    let socket = Socket::connect(listener.address(), LIMIT).unwrap();
    let CertsFrom::These(anna) = system.client(Role::User, "anna") else { panic!("they were just made") };
    let mut client = Stream::as_tls_client(socket, &anna).unwrap();
    let end_ns = RealClock.monotonic_ns() + u64::try_from(LIMIT.as_nanos()).unwrap();
    let accepted = loop {
        match listener.accept().unwrap() {
            Some(socket) => break socket,
            None => assert!(RealClock.monotonic_ns() < end_ns, "nobody comes"),
        }
    };
    let mut engine = Stream::as_tls_server(accepted, &system.engine()).unwrap();
    assert_eq!(engine.identity(), Ok(None));
    // More than fits into the socket, in pieces of all lengths.
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251).to_le_bytes()[0]).collect();
    let (mut at, mut got, mut room) = (0, Vec::new(), vec![0; 100_000]);
    while got.len() < sent.len() {
        assert!(RealClock.monotonic_ns() < end_ns, "{at} sent, {} read", got.len());
        let piece = (1 + at % 70_001).min(sent.len() - at);
        at += client.write(&sent[at..at + piece]).unwrap();
        client.flush().unwrap();
        assert_eq!(client.read(&mut room[..1]).unwrap(), 0, "nothing is said in return");
        let len = 1 + got.len() % room.len();
        let read = engine.read(&mut room[..len]).unwrap();
        got.extend_from_slice(&room[..read]);
        engine.flush().unwrap();
    }
    assert!(got == sent);
    assert_eq!(engine.identity(), Ok(Some(named(Role::User, "anna"))));
    assert_eq!(client.identity().unwrap().map(|identity| identity.role), Some(Role::Engine));
    drop(client);
    assert_eq!(engine.read(&mut room), Err(Error::Ended));
}

#[test]
fn a_list_of_revoked_certificates_is_of_its_authority_or_lets_nobody_in() {
    let system = System::new();
    let user = named(Role::User, "anna");
    let dir = system.issue("engine", &named(Role::Engine, "server"), lasting(-1, 1));
    let anna = system.issue("anna", &user, lasting(-1, 1));
    let serial = serial_of(&anna, Certs::OWN).unwrap();
    let now_s = lasting(0, 0).from;
    let list = |of: &Authority, serials: &[&[u8]]| {
        let entries: Vec<_> = serials.iter().map(|serial| (serial.to_vec(), now_s)).collect();
        of.revoke(&entries, now_s).unwrap()
    };
    let client =
        |name: &str| CertsFrom::These(Certs::load(&system.dir.path().join(name), Role::User).unwrap());
    let serve = |text: &str| {
        write(&dir.join(Certs::REVOKED), text);
        Certs::load(&dir, Role::Engine).map(|certs| Served::with(|settings| settings.certs = Some(certs)))
    };
    system.issue("bert", &named(Role::User, "bert"), lasting(-1, 1));
    // Of nobody, of somebody else, of anna.
    for (text, fault) in [
        (list(&system.authority, &[]), None),
        (list(&system.authority, &[&[7; 20]]), None),
        (list(&system.authority, &[&[7; 20], &serial]), Some(CertFault::Revoked)),
    ] {
        let served = serve(&text).unwrap();
        match fault {
            None => assert!(connect(&served, client("anna")).is_ok()),
            Some(fault) => {
                let whose = Whose::Own;
                assert_eq!(refused(&served, client("anna")), Error::BadCertificate { whose, fault });
            }
        }
        assert!(connect(&served, client("bert")).is_ok());
    }
    assert_eq!(revoked_in(&dir).unwrap(), [(vec![7; 20], now_s), (serial.clone(), now_s)]);
    // While both authorities are trusted, each list says what it says about its own, whoever has none.
    let next = Authority::generate().unwrap();
    let carla = system.issue_by(&next, "carla", &named(Role::User, "carla"), lasting(-1, 1));
    let both = [&system.authority, &next].map(|one| one.certificate(lasting(-1, 1)).unwrap()).concat();
    write(&dir.join(Certs::AUTHORITY), &both);
    let served = serve(&list(&system.authority, &[&serial])).unwrap();
    assert!(connect(&served, client("carla")).is_ok() && connect(&served, client("bert")).is_ok());
    assert!(connect(&served, client("anna")).is_err());
    let hers = serial_of(&carla, Certs::OWN).unwrap();
    let served = serve(&[list(&system.authority, &[&serial]), list(&next, &[&hers])].concat()).unwrap();
    assert!(connect(&served, client("bert")).is_ok());
    assert!(["anna", "carla"].iter().all(|name| connect(&served, client(name)).is_err()));
    // One that cannot be read, or is another authority's, is no list.
    let path = dir.join(Certs::REVOKED);
    let whole = list(&system.authority, &[&serial]);
    let foreign = list(&Authority::generate().unwrap(), &[&serial]);
    for text in ["", "not a list", &whole[..whole.len() / 2], &foreign] {
        let fault = CertFault::File { path: path.clone() };
        assert_eq!(serve(text).map(drop), Err(Error::BadCertificate { whose: Whose::Own, fault }), "{text}");
    }
}

#[test]
fn what_was_revoked_stays_so_for_an_engine_that_runs_whatever_becomes_of_the_list() {
    let system = System::new();
    let dir = system.issue("engine", &named(Role::Engine, "server"), lasting(-1, 1));
    let anna = system.client(Role::User, "anna");
    let serial = serial_of(&system.dir.path().join("anna"), Certs::OWN).unwrap();
    let now_s = lasting(0, 0).from;
    let path = dir.join(Certs::REVOKED);
    let list = |serials: &[Vec<u8>]| {
        let entries: Vec<_> = serials.iter().map(|serial| (serial.clone(), now_s)).collect();
        write(&path, &system.authority.revoke(&entries, now_s).unwrap());
    };
    system.issue("bert", &named(Role::User, "bert"), lasting(-1, 1));
    list(&[vec![7; 20], serial]);
    let served = Served::with(|settings| settings.certs = Some(Certs::load(&dir, Role::Engine).unwrap()));
    let bert = || CertsFrom::These(Certs::load(&system.dir.path().join("bert"), Role::User).unwrap());
    for (told, case) in (1..).zip(["gone", "shorter", "damaged"]) {
        match case {
            "gone" => std::fs::remove_file(&path).unwrap(),
            "shorter" => list(&[vec![7; 20]]),
            _ => write(&path, "not a list"),
        }
        let said = || {
            let notes = served.notes.lock().unwrap();
            notes.iter().filter(|note| note.contains("what was revoked stays so")).count()
        };
        // It looks once a second, when somebody connects, and says what is wrong once.
        let end_ns = RealClock.monotonic_ns() + u64::try_from(LIMIT.as_nanos()).unwrap();
        while said() < told {
            assert!(connect(&served, bert()).is_ok(), "{case}");
            assert!(RealClock.monotonic_ns() < end_ns, "{case}: the engine does not look");
            dolmen_env::wait(Duration::from_millis(20));
        }
        let (whose, fault) = (Whose::Own, CertFault::Revoked);
        assert_eq!(refused(&served, anna.clone()), Error::BadCertificate { whose, fault }, "{case}");
        assert_eq!(said(), told);
    }
    // What else is new there is taken into use all the same.
    let next = Authority::generate().unwrap();
    let dora = system.issue_by(&next, "dora", &named(Role::User, "dora"), lasting(-1, 1));
    let both = [&system.authority, &next].map(|one| one.certificate(lasting(-1, 1)).unwrap()).concat();
    write(&dir.join(Certs::AUTHORITY), &both);
    let dora = CertsFrom::These(Certs::load(&dora, Role::User).unwrap());
    let end_ns = RealClock.monotonic_ns() + u64::try_from(LIMIT.as_nanos()).unwrap();
    while connect(&served, dora.clone()).is_err() {
        assert!(RealClock.monotonic_ns() < end_ns, "the engine does not look");
        dolmen_env::wait(Duration::from_millis(20));
    }
    assert!(connect(&served, anna).is_err());
}

#[test]
fn a_new_list_holds_whatever_is_wrong_with_the_other_files_of_the_directory() {
    let system = System::new();
    let now_s = lasting(0, 0).from;
    let bert = system.client(Role::User, "bert");
    for (file, case) in [
        (Certs::KEY, "open to others"),
        (Certs::KEY, "of another certificate"),
        (Certs::OWN, "no certificate"),
        (Certs::AUTHORITY, "gone"),
    ] {
        // Ignored: there is none the first time.
        let _anew = std::fs::remove_dir_all(system.engine_dir());
        let dir = system.issue("engine", &named(Role::Engine, "server"), lasting(-1, 1));
        let anna = system.client(Role::User, "anna");
        let serial = serial_of(&system.dir.path().join("anna"), Certs::OWN).unwrap();
        let served = Served::with(|settings| settings.certs = Some(Certs::load(&dir, Role::Engine).unwrap()));
        let path = dir.join(file);
        match case {
            "open to others" => {
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
            }
            "of another certificate" => {
                let other = system.issue("other", &named(Role::Engine, "other"), lasting(-1, 1));
                std::fs::copy(other.join(file), &path).unwrap();
            }
            "no certificate" => write(&path, "not a certificate"),
            _ => std::fs::remove_file(&path).unwrap(),
        }
        let until = |is_so: &dyn Fn() -> bool| {
            let end_ns = RealClock.monotonic_ns() + u64::try_from(LIMIT.as_nanos()).unwrap();
            while !is_so() {
                assert!(connect(&served, bert.clone()).is_ok(), "{file} {case}: as it was before");
                assert!(RealClock.monotonic_ns() < end_ns, "{file} {case}: the engine does not look");
                dolmen_env::wait(Duration::from_millis(20));
            }
        };
        let said = || served.notes.lock().unwrap().iter().any(|note| note.contains(file));
        until(&said);
        assert!(connect(&served, anna.clone()).is_ok());
        let list = system.authority.revoke(&[(serial, now_s)], now_s).unwrap();
        write(&dir.join(Certs::REVOKED), &list);
        until(&|| connect(&served, anna.clone()).is_err());
        let (whose, fault) = (Whose::Own, CertFault::Revoked);
        assert_eq!(refused(&served, anna), Error::BadCertificate { whose, fault }, "{file} {case}");
    }
}

#[test]
fn who_does_not_know_his_own_number_is_told_of_evictions_after_an_outage() {
    let system = System::new();
    let dir = Scratch::new();
    let mut settings = Settings::new(dir.path().to_owned());
    settings.certs = Some(system.engine());
    settings.addresses = vec![Address::Tcp("127.0.0.1:0".parse().unwrap())];
    let start = |settings: &Settings| Daemon::start(settings, |note| eprintln!("daemon: {note}")).unwrap();
    let daemon = start(&settings);
    settings.addresses = daemon.addresses().to_vec();
    let link =
        |role, name| Link::connect(&settings.addresses[0], &options(system.client(role, name))).unwrap();
    let admin = Bystander::first(link(Role::Admin, "admin"));
    allow(&admin.pool, &["A::anna@:r"]);
    admin.cont.set_acl(&Acl::of_texts(&["A::anna@:rw"]).unwrap()).unwrap();
    // Her certificate has another number than she says, and than her other program says.
    let [anna, other] = [(); 2].map(|()| open(&link(Role::User, "anna")).unwrap());
    let [cont, evicting] = [&anna, &other].map(|pool| pool.open_container(&cont_name()).unwrap());
    let object = cont.object(admin.object.oid()).unwrap();
    object.put(At::Latest, b"key", b"a", b"before").unwrap();
    // Hers alone are taken, while she is cut off; nobody has told her when she asks the next daemon.
    evicting.evict_others(dolmen_client::Whose::Own).unwrap();
    daemon.stop().unwrap();
    let daemon = start(&settings);
    assert_eq!(object.put(At::Latest, b"key", b"a", b"after"), Err(Failure::NoHandle));
    let kept = evicting.object(admin.object.oid()).unwrap();
    assert!(kept.put(At::Latest, b"key", b"a", b"after").is_ok(), "who has asked for it goes on");
    let told = anna.open_container(&cont_name()).unwrap();
    assert!(told.object(admin.object.oid()).unwrap().put(At::Latest, b"key", b"a", b"again").is_ok());
    drop(daemon);
}
