//! Systems of several engines: pools with targets at all of them, and engines that die and come back.

use crate::altered::{Course, in_place_of};
use crate::child::until;
use crate::common::{CRED, Scratch, pool, remote};
use crate::tls;
use dolmen_client::{At, Container, EventQueue, Object, Pool, Wait, Whose};
use dolmen_codec::pool::{ContName, PoolVerb};
use dolmen_codec::verb::{ContVerb, NewValue, Payload, Update, UpdateIod, Verb};
use dolmen_codec::wire::{PartKey, PartSpec, PoolSpec, SystemReply, SystemVerb};
use dolmen_codec::{Ask, Request, Transport};
use dolmen_daemon::{Daemon, Roster, Settings};
use dolmen_env::{Address, Listener, Rng, scope};
use dolmen_net::client::{Door, Link, LinkOptions, reach};
use dolmen_net::tls::{Certs, Role};
use dolmen_types::{
    Cond, ContNo, Epoch, Error, Head, IoBuf, Key, Label, ObjectClass, ObjectType, Props, TargetNo,
    TargetState,
};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

const NAME: &str = "ranks::an_engine_in_a_process_of_its_own_serves_its_rank";
/// Set for the child: the directory of the system, and which engine it is.
const DIRECTORY: &str = "ENGINE_DIRECTORY";
const RANK: &str = "ENGINE_RANK";
const LIST: &str = "system.toml";

/// Targets of each engine.
const TARGETS: u16 = 2;

/// Deaths of an engine in one test.
const DEATHS: u32 = 5;

/// A system of engines, each a process with a directory of its own.
pub(crate) struct Engines {
    dir: Scratch,
    /// Guards the processes; taken alone.
    processes: Mutex<Vec<Child>>,
    /// Where they are on the network, if they are.
    ports: Vec<u16>,
}

impl Engines {
    pub(crate) fn start(count: u32) -> Self {
        Self::start_with(count, None)
    }

    /// With addresses of the network, too, and certificates there, if there is an authority.
    pub(crate) fn start_with(count: u32, authority: Option<&tls::System>) -> Self {
        let dir = Scratch::on_disk();
        let ports: Vec<u16> = authority.map_or_else(Vec::new, |_| free_ports(count));
        let engine = |rank| {
            let own = dir.path().join(format!("r{rank}"));
            std::fs::create_dir(&own).unwrap();
            let socket = own.join(Settings::SOCKET_NAME);
            let port = ports.get(rank as usize);
            // What is first is what others go by.
            let network = port.map_or(String::new(), |port| format!("\"tcp://127.0.0.1:{port}\", "));
            format!("[[engine]]\nrank = {rank}\naddresses = [{network}\"unix:{}\"]\n", socket.display())
        };
        let list: String = (0..count).map(engine).collect();
        let certs = authority.map_or(String::new(), |authority| {
            authority.engine();
            format!("certs = \"{}\"\n", authority.engine_dir().display())
        });
        std::fs::write(dir.path().join(LIST), format!("name = \"several\"\n{certs}{list}")).unwrap();
        let processes = (0..count).map(|rank| spawn(dir.path(), rank)).collect();
        Self { dir, processes: Mutex::new(processes), ports }
    }

    /// Where an engine is on the network.
    pub(crate) fn network(&self, rank: u32) -> Address {
        Address::Tcp(([127, 0, 0, 1], self.ports[rank as usize]).into())
    }

    fn processes(&self) -> MutexGuard<'_, Vec<Child>> {
        self.processes.lock().unwrap()
    }

    pub(crate) fn address(&self, rank: u32) -> Address {
        Address::Unix(self.directory(rank).join(Settings::SOCKET_NAME))
    }

    /// Where an engine has its pools.
    pub(crate) fn directory(&self, rank: u32) -> PathBuf {
        self.dir.path().join(format!("r{rank}"))
    }

    pub(crate) fn kill(&self, rank: u32) {
        let child = &mut self.processes()[rank as usize];
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn signal(&self, rank: u32, signal: Signal) {
        let pid = i32::try_from(self.processes()[rank as usize].id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Stops an engine, and waits until none of its threads runs any more.
    pub(crate) fn stand_still(&self, rank: u32) {
        self.signal(rank, Signal::STOP);
        let tasks = format!("/proc/{}/task", self.processes()[rank as usize].id());
        let stands = |task: std::io::Result<std::fs::DirEntry>| {
            // One that has ended meanwhile does not run.
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat"));
            stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
        };
        until("it stands still", || std::fs::read_dir(&tasks).unwrap().all(stands));
    }

    pub(crate) fn start_again(&self, rank: u32) {
        self.processes()[rank as usize] = spawn(self.dir.path(), rank);
    }

    /// A connection of its own to one engine.
    pub(crate) fn link_to(&self, rank: u32, patience: Duration) -> Link {
        Link::connect(&self.address(rank), &LinkOptions { patience, ..LinkOptions::default() }).unwrap()
    }

    /// A client of the system, by way of one of its engines.
    pub(crate) fn link(&self, rank: u32) -> Link {
        reach::system(&[self.address(rank)], &LinkOptions::default()).unwrap()
    }

    pub(crate) fn create(&self, volatile: bool) {
        self.create_named("p", volatile);
    }

    pub(crate) fn create_named(&self, name: &str, volatile: bool) {
        let spec = PoolSpec {
            label: Some(Label::new(name).unwrap()),
            targets: Some(TARGETS),
            capacity_bytes: Some(4 << 30),
            volatile,
            ..PoolSpec::default()
        };
        let made = self.link(0).ask_system(&Head::default(), &SystemVerb::PoolCreate(spec)).unwrap();
        let count = u32::try_from(self.processes().len()).unwrap();
        assert!(matches!(made, SystemReply::Created(entry) if entry.target_count == count * 2));
    }

    /// Which engines have something of the pool.
    pub(crate) fn there(&self) -> Vec<bool> {
        let count = u32::try_from(self.processes().len()).unwrap();
        (0..count).map(|rank| self.dir.path().join(format!("r{rank}/p")).exists()).collect()
    }

    /// Whether an engine has files of the pool open.
    fn has_open(&self, rank: u32) -> bool {
        let id = self.processes()[rank as usize].id();
        let files = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap();
        let below = self.dir.path().join(format!("r{rank}/p/"));
        // One that is closed meanwhile does not count.
        files
            .filter_map(|file| std::fs::read_link(file.unwrap().path()).ok())
            .any(|file| file.starts_with(&below) && file != below)
    }

    pub(crate) fn assert_sound(&self) {
        for (rank, child) in self.processes().iter_mut().enumerate() {
            let notes = std::fs::read_to_string(self.dir.path().join(format!("notes.{rank}"))).unwrap();
            assert!(!notes.contains("panicked"), "{notes}");
            assert!(child.try_wait().unwrap().is_none(), "engine {rank} has ended: {notes}");
        }
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        for child in self.processes.get_mut().unwrap() {
            // It may have been killed before.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Ports of this machine that were free a moment ago.
fn free_ports(count: u32) -> Vec<u16> {
    let any = Address::Tcp("127.0.0.1:0".parse().unwrap());
    let listeners: Vec<Listener> = (0..count).map(|_| Listener::bind(&any).unwrap()).collect();
    let port = |listener: &Listener| match listener.address() {
        Address::Tcp(at) => at.port(),
        Address::Unix(_) => unreachable!("it is of the network"),
    };
    listeners.iter().map(port).collect()
}

fn spawn(dir: &Path, rank: u32) -> Child {
    let notes = dir.join(format!("notes.{rank}"));
    let log = File::options().create(true).append(true).open(&notes).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([NAME, "--exact", "--nocapture"]).env(DIRECTORY, dir).env(RANK, rank.to_string());
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    let serves = said.lines().map_while(Result::ok).any(|line| line.contains("serves its rank now"));
    assert!(serves, "no engine: {}", std::fs::read_to_string(notes).unwrap());
    child
}

fn serve(dir: &Path, rank: u32) {
    let roster = Roster::parse(&std::fs::read_to_string(dir.join(LIST)).unwrap()).unwrap();
    let mut settings = Settings::new(dir.join(format!("r{rank}")));
    (settings.rank, settings.addresses) = (rank, roster.addresses(rank).unwrap());
    settings.engines = roster.engines;
    settings.certs = roster.certs.map(|dir| Certs::load(&dir, Role::Engine).unwrap());
    // Should whoever has started it be gone.
    settings.idle_end = Some(Duration::from_secs(120));
    let daemon = Daemon::start(&settings, |note| eprintln!("daemon: {note}")).unwrap();
    println!("serves its rank now");
    daemon.wait(|| false);
    daemon.stop().unwrap();
}

#[test]
fn an_engine_in_a_process_of_its_own_serves_its_rank() {
    if let Some(dir) = std::env::var_os(DIRECTORY) {
        return serve(Path::new(&dir), std::env::var(RANK).unwrap().parse().unwrap());
    }
    let engines = Engines::start(2);
    assert_eq!([0, 1].map(|rank| engines.link_to(rank, Duration::from_secs(5)).rank()), [0, 1]);
    // Whoever is asked leads to the first, where pools are made.
    assert_eq!([0, 1].map(|rank| engines.link(rank).rank()), [0, 0]);
    engines.assert_sound();
}

pub(crate) fn container(pool: &Pool) -> Container {
    let handle = pool.create_container(Some(Label::new("c").unwrap()), Props::default()).unwrap();
    pool.open_container(&ContName::Uuid(handle.uuid)).unwrap()
}

pub(crate) fn spread_object(cont: &Container) -> Object {
    cont.object(cont.oid(ObjectType::MultiHashed, ObjectClass::SX, 7, 1).unwrap()).unwrap()
}

fn value(number: u32) -> Vec<u8> {
    (number..).map(|at| (at % 251).to_le_bytes()[0]).take(100 + number as usize % 9000).collect()
}

fn put(object: &Object, number: u32) -> dolmen_types::Result<Epoch> {
    object.put(At::Latest, &number.to_le_bytes(), b"a", &value(number))
}

fn assert_there(object: &Object, numbers: impl Iterator<Item = u32>) {
    for number in numbers {
        let mut buf = IoBuf::default();
        object.get(At::Latest, &number.to_le_bytes(), b"a", &mut buf).unwrap();
        assert!(buf[..] == value(number)[..], "number {number}");
    }
}

fn assert_clean(pool: &Pool) {
    let audits = pool.check().unwrap();
    assert!(audits.iter().all(|audit| audit.findings.is_empty()), "{audits:?}");
}

#[test]
fn objects_lie_on_the_targets_of_all_engines_and_outlive_them() {
    let engines = Engines::start(3);
    engines.create(false);
    {
        let pool = pool(&engines.link(1), "p");
        assert_eq!(pool.target_count(), 3 * TARGETS);
        let cont = container(&pool);
        let object = spread_object(&cont);
        (0..300).try_for_each(|number| put(&object, number).map(|_| ())).unwrap();
        assert_there(&object, 0..300);
        // Requests of one queue are under way at all engines.
        let queue = EventQueue::new(&pool).unwrap();
        let mut events: Vec<_> = (0..200).map(|_| queue.event().unwrap()).collect();
        for (number, event) in (300_u32..).zip(&mut events) {
            let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(&value(number))));
            let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value };
            object.update_on(event, At::Latest, &number.to_le_bytes(), Cond::NONE, vec![iod]).unwrap();
        }
        let mut done = Vec::new();
        while done.len() < events.len() {
            queue.poll(Wait::Forever, 64, &mut done).unwrap();
        }
        events.iter_mut().for_each(|event| drop(event.take_result().unwrap().unwrap()));
        let space = pool.query().unwrap().space;
        assert_eq!(space.len(), usize::from(3 * TARGETS));
        assert!(space.iter().all(|target| target.log_bytes > 0), "{space:?}");
        let usage = cont.query().unwrap().usage;
        assert!(usage.versions >= 500, "all targets are counted: {usage:?}");
        assert_clean(&pool);
    }
    (0..3).for_each(|rank| engines.kill(rank));
    (0..3).rev().for_each(|rank| engines.start_again(rank));
    let pool = pool(&engines.link(2), "p");
    let object = spread_object(&pool.open_container(&ContName::Label(Label::new("c").unwrap())).unwrap());
    assert_there(&object, 0..500);
    assert_clean(&pool);
    engines.assert_sound();
}

#[test]
fn transactions_snapshots_and_rollbacks_hold_over_all_engines() {
    let engines = Engines::start(2);
    engines.create(true);
    let pool = pool(&engines.link(0), "p");
    let cont = container(&pool);
    let object = spread_object(&cont);
    let put_all = |text: &[u8]| {
        cont.transact(|tx| {
            (0..16_u8).try_for_each(|dkey| object.put(At::Tx(tx), &[dkey], b"a", text).map(|_| ()))
        })
        .unwrap();
    };
    let read = |object: &Object| -> Vec<Vec<u8>> {
        let one = |dkey: u8| {
            let mut buf = IoBuf::default();
            object.get(At::Latest, &[dkey], b"a", &mut buf).unwrap();
            buf.to_vec()
        };
        (0..16).map(one).collect()
    };
    put_all(b"one");
    let then = cont.create_snapshot(Some("then")).unwrap();
    put_all(b"two");
    assert_eq!(read(&object), vec![b"two".to_vec(); 16]);
    assert_eq!(read(&cont.at(then).object(object.oid()).unwrap()), vec![b"one".to_vec(); 16]);
    cont.rollback(then).unwrap();
    assert_eq!(read(&object), vec![b"one".to_vec(); 16]);
    put_all(b"three");
    assert_eq!(read(&object), vec![b"three".to_vec(); 16]);
    cont.aggregate(Epoch::ZERO).unwrap();
    assert_eq!(read(&object), vec![b"three".to_vec(); 16]);
    assert_clean(&pool);
    engines.assert_sound();
}

/// Rounds and seed of the loop below.
const ALTERED_ROUNDS: u64 = 150;
const ALTERED_SEED: u64 = 41;

#[test]
fn what_changes_on_the_way_between_engines_is_sent_again() {
    let engines = Engines::start(2);
    let alterer = in_place_of(&engines.dir.path().join("r1").join(Settings::SOCKET_NAME));
    engines.kill(0);
    engines.start_again(0);
    engines.create(true);
    let pool = pool(&engines.link(0), "p");
    let cont = container(&pool);
    let object = spread_object(&cont);
    println!("seed {ALTERED_SEED}");
    let mut rng = Rng::from_seed(ALTERED_SEED);
    for round in 0..ALTERED_ROUNDS {
        let course = if rng.below(2) == 0 { Course::Up } else { Course::Down };
        let reach = if course == Course::Up { 12_000 } else { 3000 };
        alterer.flip(
            course,
            usize::try_from(rng.below(reach)).unwrap(),
            u32::try_from(rng.below(8)).unwrap(),
        );
        // The service hands it on to the targets of the other engine.
        let text = [round.to_le_bytes()[0]; 900];
        cont.transact(|tx| {
            (0..16_u8).try_for_each(|dkey| object.put(At::Tx(tx), &[dkey], b"a", &text).map(|_| ()))
        })
        .unwrap();
        for dkey in 0..16_u8 {
            let mut buf = IoBuf::default();
            object.get(At::Latest, &[dkey], b"a", &mut buf).unwrap();
            assert!(buf[..] == text, "round {round}: {dkey} came back changed");
        }
    }
    assert!(alterer.flips() as u64 > ALTERED_ROUNDS / 3, "{}", alterer.flips());
    assert_clean(&pool);
    engines.assert_sound();
}

#[test]
fn a_dead_engine_costs_its_targets_until_it_is_back() {
    let engines = Engines::start(2);
    engines.create(false);
    let options = LinkOptions { patience: Duration::from_secs(1), ..LinkOptions::default() };
    let link = reach::system(&[engines.address(0)], &options).unwrap();
    let pool = pool(&link, "p");
    let cont = container(&pool);
    let object = spread_object(&cont);
    (0..64).try_for_each(|number| put(&object, number).map(|_| ())).unwrap();
    engines.kill(1);
    let results: Vec<_> = (64..96).map(|number| put(&object, number)).collect();
    assert!(results.iter().any(Result::is_ok), "the other engine goes on");
    let failed: Vec<&Error> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(!failed.is_empty());
    assert!(failed.iter().all(|error| **error == Error::Unreachable { rank: 1 }), "{failed:?}");
    // The service waits for it once, and knows then.
    until("the service knows that it is gone", || {
        matches!(pool.create_container(None, Props::default()), Err(Error::Unreachable { rank: 1 }))
    });
    let newcomer = self::pool(&link, "p");
    let states: Vec<_> = newcomer.query().unwrap().map.targets.iter().map(|target| target.state).collect();
    let (up, down) = (TargetState::UpIn, TargetState::Down);
    assert_eq!(states, [up, up, down, down]);
    let refused = newcomer.create_container(None, Props::default());
    assert!(matches!(refused, Err(Error::Unreachable { rank: 1 })), "{refused:?}");
    engines.start_again(1);
    until("the engine is back", || {
        put(&object, 0).is_ok() && (64..96).all(|number| put(&object, number).is_ok())
    });
    assert_there(&object, 0..96);
    assert!(pool.create_container(None, Props::default()).is_ok());
    assert_clean(&pool);
    engines.assert_sound();
}

#[test]
fn a_container_that_a_part_cannot_open_again_yet_is_opened_as_soon_as_it_can_be() {
    let engines = Engines::start(2);
    let alterer = in_place_of(&engines.dir.path().join("r1").join(Settings::SOCKET_NAME));
    engines.kill(0);
    engines.start_again(0);
    engines.create(false);
    let options = LinkOptions { patience: Duration::from_secs(8), ..LinkOptions::default() };
    let mine = pool(&reach::system(&[engines.address(0)], &options).unwrap(), "p");
    let cont = container(&mine);
    let object = spread_object(&cont);
    assert!((0..16).all(|number| put(&object, number).is_ok()));
    // The service is gone, which alone can say what the container is, and then the connection to the part ends.
    engines.kill(0);
    alterer.end_all();
    let results: Vec<_> = (0..16).map(|number| put(&object, number)).collect();
    assert!(results.iter().all(|result| *result == Err(Error::Unreachable { rank: 0 })), "{results:?}");
    engines.start_again(0);
    until("all engines let it in", || (0..16).all(|number| put(&object, number).is_ok()));
    assert_there(&object, 0..16);
    // It is open there indeed: an eviction takes it.
    let others = pool(&engines.link(0), "p");
    others.open_container(&ContName::Uuid(cont.uuid())).unwrap().evict_others(Whose::All).unwrap();
    let results: Vec<_> = (0..16).map(|number| put(&object, number)).collect();
    assert!(results.iter().all(|result| *result == Err(Error::NoHandle)), "{results:?}");
    assert_clean(&others);
    engines.assert_sound();
}

#[test]
fn engines_that_start_open_what_they_have_before_anybody_asks() {
    let engines = Engines::start(2);
    engines.create(false);
    let cont = container(&pool(&engines.link(0), "p"));
    let (no, oid) = (cont.no(), spread_object(&cont).oid());
    let pool = pool(&engines.link(0), "p").query().unwrap().map.pool;
    // A client that needs the second engine only.
    let link = engines.link_to(1, Duration::from_secs(30));
    let name = dolmen_codec::wire::PoolName::Uuid(pool);
    let connect = SystemVerb::PoolConnect { name, access: dolmen_codec::wire::PoolAccess::ReadWrite };
    let (door, _) = Door::open(&link, &Head { cred: CRED, ..Head::default() }, connect).unwrap();
    let written = || {
        let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(b"v")));
        let iods = [UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }].into_iter().collect();
        let update = Update { oid, dkey: Key::from_slice(b"k"), cond: Cond::NONE, iods, charged: None };
        let ask = Ask::Target(TargetNo(TARGETS), no, Verb::Update(update));
        door.call(Request { token: 1, head: Head { cred: CRED, ..Head::default() }, ask }).result
    };
    let first = written();
    assert!(first.is_ok(), "{first:?}");
    (0..2).for_each(|rank| engines.kill(rank));
    engines.start_again(1);
    until("the part is open", || engines.has_open(1));
    engines.start_again(0);
    let again = written();
    assert!(again.is_ok(), "nobody else asks for the pool: {again:?}");
    assert!(engines.has_open(0));
    engines.assert_sound();
}

/// Pairs of values that only transactions change, on targets of both engines; killed is now this engine, now that one.
#[test]
fn engines_die_in_the_middle_of_transactions_and_pairs_stay_pairs() {
    let engines = Engines::start(2);
    engines.create(false);
    let pool = pool(&engines.link(0), "p");
    let cont = container(&pool);
    let object = spread_object(&cont);
    let (done, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let acknowledged: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    let write = |pair: u8, number: u64| {
        cont.transact::<(), Error>(|tx| {
            for dkey in 0..4_u8 {
                object.put(At::Tx(tx), &[pair, dkey], b"a", &number.to_le_bytes())?;
            }
            Ok(())
        })
    };
    (0..4).for_each(|pair| write(pair, 0).unwrap());
    scope(|threads| {
        for pair in 0..4_u8 {
            let (write, done, is_over, acknowledged) = (&write, &done, &is_over, &acknowledged);
            threads.spawn(move || {
                let mut number = 1;
                while !is_over.load(Ordering::Relaxed) {
                    if write(pair, number).is_ok() {
                        acknowledged[usize::from(pair)].store(number, Ordering::Relaxed);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    number += 1;
                }
            });
        }
        for death in 0..DEATHS {
            let seen = done.load(Ordering::Relaxed);
            until("transactions go on", || done.load(Ordering::Relaxed) >= seen + 40);
            engines.kill(death % 2);
            engines.start_again(death % 2);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    for pair in 0..4_u8 {
        let read = |dkey: u8| {
            let mut buf = IoBuf::default();
            until("what is undecided is settled", || {
                object.get(At::Latest, &[pair, dkey], b"a", &mut buf).is_ok()
            });
            u64::from_le_bytes(buf[..8].try_into().unwrap())
        };
        let numbers = [0, 1, 2, 3].map(read);
        assert!(numbers.iter().all(|number| *number == numbers[0]), "pair {pair}: {numbers:?}");
        assert!(numbers[0] >= acknowledged[usize::from(pair)].load(Ordering::Relaxed), "pair {pair}");
    }
    assert_clean(&pool);
    engines.assert_sound();
}

/// So many transactions; when readers held up the decisions, a few took seconds each.
const TRANSACTIONS: u64 = 300;

#[test]
fn readers_and_transactions_over_two_engines_go_on_beside_each_other() {
    let engines = Engines::start(2);
    engines.create(true);
    let pool = pool(&engines.link(0), "p");
    let cont = container(&pool);
    let object = spread_object(&cont);
    let write = |number: u64| {
        cont.transact::<(), Error>(|tx| {
            (0..8_u8)
                .try_for_each(|dkey| object.put(At::Tx(tx), &[dkey], b"a", &number.to_le_bytes()).map(|_| ()))
        })
    };
    write(0).unwrap();
    let is_over = AtomicBool::new(false);
    let read_count = AtomicU64::new(0);
    scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                let mut buf = IoBuf::default();
                for dkey in (0..8_u8).cycle() {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    object.get(At::Latest, &[dkey], b"a", &mut buf).unwrap();
                    read_count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let written = (1..=TRANSACTIONS).try_for_each(&write);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(written, Ok(()));
    });
    assert!(read_count.load(Ordering::Relaxed) > 100, "readers go on, too");
    engines.assert_sound();
}

/// Clients that write the same keys. They waited for each other in a circle until somebody's patience was spent.
const WRITERS: u64 = 3;

#[test]
fn writers_of_the_same_keys_over_two_engines_form_a_line() {
    let engines = Engines::start(2);
    engines.create(true);
    let cont = container(&pool(&engines.link(0), "p"));
    let read = |object: &Object, dkey: u8| {
        let mut buf = IoBuf::default();
        object.get(At::Latest, &[dkey], b"a", &mut buf).unwrap();
        u64::from_le_bytes(buf[..8].try_into().unwrap())
    };
    scope(|threads| {
        for writer in 0..WRITERS {
            let (engines, uuid) = (&engines, cont.uuid());
            threads.spawn(move || {
                let own = pool(&engines.link(0), "p").open_container(&ContName::Uuid(uuid)).unwrap();
                let object = spread_object(&own);
                // Each in an order of its own.
                let dkeys =
                    |number: u64| (0..8_u8).map(move |dkey| ((u64::from(dkey) + writer + number) % 8) as u8);
                for number in 0..TRANSACTIONS {
                    let text = (writer << 32 | number).to_le_bytes();
                    let done = own.transact::<(), Error>(|tx| {
                        dkeys(number)
                            .try_for_each(|dkey| object.put(At::Tx(tx), &[dkey], b"a", &text).map(|_| ()))
                    });
                    assert_eq!(done, Ok(()), "number {number} of writer {writer}");
                }
            });
        }
    });
    let object = spread_object(&cont);
    let all: Vec<u64> = (0..8).map(|dkey| read(&object, dkey)).collect();
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    assert_eq!(all[0] & 0xffff_ffff, TRANSACTIONS - 1, "the last of one of them");
    engines.assert_sound();
}

#[test]
fn a_part_believes_only_who_knows_the_key() {
    let engines = Engines::start(2);
    engines.create(true);
    let pool = pool(&engines.link(0), "p");
    let cont = container(&pool);
    let part = engines.link_to(1, Duration::from_secs(5));
    let uuid = pool.query().unwrap().map.pool;
    for verb in [
        SystemVerb::PartConnect { pool: uuid, key: PartKey(0) },
        SystemVerb::PartDestroy { pool: uuid, key: PartKey(0) },
        SystemVerb::PartEvict { pool: uuid, key: PartKey(0) },
    ] {
        assert_eq!(part.ask_system(&Head::default(), &verb), Err(Error::NoPermission));
    }
    let by_force = SystemVerb::PoolDestroy { name: reach::pool_name("p").unwrap(), force: true };
    assert_eq!(part.ask_system(&Head::default(), &by_force), Err(Error::NoPermission));
    // An engine takes part with those of its list only, in their order.
    let stranger = |ranks: &[u32]| {
        let pool = PoolSpec {
            uuid: Some(dolmen_types::Uuid::from_u128(9)),
            label: Some(Label::new("mine").unwrap()),
            volatile: true,
            ..PoolSpec::default()
        };
        let part = PartSpec { pool, ranks: ranks.to_vec(), key: PartKey(1) };
        SystemVerb::PartCreate(Box::new(part))
    };
    for ranks in [&[7, 1][..], &[1, 0], &[0], &[0, 1, 2]] {
        assert_eq!(
            part.ask_system(&Head::default(), &stranger(ranks)),
            Err(Error::NoPermission),
            "{ranks:?}"
        );
    }
    // What was taken back before it was made is not made any more.
    let back = SystemVerb::PartDestroy { pool: dolmen_types::Uuid::from_u128(9), key: PartKey(1) };
    assert_eq!(part.ask_system(&Head::default(), &back), Ok(SystemReply::Done));
    assert_eq!(part.ask_system(&Head::default(), &stranger(&[0, 1])), Err(Error::NotFound));
    // A client of the part may read and write, and no more.
    let name = dolmen_codec::wire::PoolName::Uuid(uuid);
    let connect = SystemVerb::PoolConnect { name, access: dolmen_codec::wire::PoolAccess::ReadWrite };
    let (door, connected) = Door::open(&part, &Head { cred: CRED, ..Head::default() }, connect).unwrap();
    assert_eq!(connected.map.targets.iter().map(|target| target.rank).collect::<Vec<_>>(), [0, 0, 1, 1]);
    let ask = |ask| door.call(Request { token: 1, head: Head::default(), ask }).result.unwrap_err();
    let destroy = Ask::Target(TargetNo(2), cont.no(), Verb::Cont(ContVerb::Destroy));
    assert_eq!(ask(destroy), Error::NoPermission);
    let admit = Ask::Pool(PoolVerb::Admit { closed: vec![cont.no()], now: Epoch::ZERO, limited: Vec::new() });
    assert!(matches!(ask(admit), Error::Invalid(_) | Error::NoPermission));
    assert!(matches!(ask(Ask::Target(TargetNo(0), ContNo(1), Verb::Latest)), Error::Unreachable { rank: 0 }));
    assert_clean(&pool);
    engines.assert_sound();
}

#[test]
fn a_pool_is_made_and_destroyed_at_all_engines_or_at_none() {
    let engines = Engines::start(2);
    engines.create(true);
    let there = || [0, 1].map(|rank| engines.dir.path().join(format!("r{rank}/p")).exists());
    assert_eq!(there(), [true, true]);
    let link = engines.link(0);
    let destroy = SystemVerb::PoolDestroy { name: reach::pool_name("p").unwrap(), force: false };
    // Without one of them it is destroyed, and there too as soon as it is back, also if the service was started anew meanwhile.
    engines.kill(1);
    assert_eq!(link.ask_system(&Head::default(), &destroy), Ok(SystemReply::Done));
    assert_eq!(there(), [false, true]);
    assert_eq!(remote(&link, "p").unwrap_err(), Error::NotFound);
    engines.kill(0);
    engines.start_again(0);
    let link = engines.link(0);
    assert_eq!(remote(&link, "p").unwrap_err(), Error::NotFound);
    engines.start_again(1);
    until("the part that was left is gone", || there() == [false, false]);
    assert_eq!(remote(&link, "p").unwrap_err(), Error::NotFound);
    // Whoever has it open loses it at all engines, and opens it anew unless it is destroyed.
    engines.create(true);
    let client = pool(&link, "p");
    let cont = container(&client);
    let other = pool(&engines.link(1), "p");
    let evict = SystemVerb::PoolEvict(reach::pool_name("p").unwrap());
    assert_eq!(link.ask_system(&Head::default(), &evict), Ok(SystemReply::Done));
    assert_eq!(other.query().map(drop), Err(Error::NoPermission));
    let object = spread_object(&cont);
    for number in 0..16 {
        assert_eq!(put(&object, number), Err(Error::NoPermission), "no target takes it");
    }
    let client = pool(&link, "p");
    assert_clean(&client);
    assert_eq!(link.ask_system(&Head::default(), &destroy), Err(Error::Busy));
    let by_force = SystemVerb::PoolDestroy { name: reach::pool_name("p").unwrap(), force: true };
    assert_eq!(link.ask_system(&Head::default(), &by_force), Ok(SystemReply::Done));
    assert_eq!(there(), [false, false]);
    assert_eq!(client.query().map(drop), Err(Error::NoPermission));
    // In the way at one engine: nothing is left at the other.
    std::fs::create_dir_all(engines.dir.path().join("r0/p/mine")).unwrap();
    let spec = PoolSpec { label: Some(Label::new("p").unwrap()), volatile: true, ..PoolSpec::default() };
    assert!(link.ask_system(&Head::default(), &SystemVerb::PoolCreate(spec)).is_err());
    assert_eq!(there(), [true, false]);
    engines.assert_sound();
}

#[test]
fn a_destroy_removes_nothing_before_all_engines_agree_and_is_finished_by_the_next() {
    let engines = Engines::start(3);
    engines.create(true);
    let link = engines.link(0);
    let at = |rank: u32| engines.dir.path().join(format!("r{rank}/p"));
    let there = || [0, 1, 2].map(|rank| at(rank).exists());
    let Ok(SystemReply::Pools(pools)) = link.ask_system(&Head::default(), &SystemVerb::PoolList) else {
        panic!("pools are listed");
    };
    // The last engine has something else in its place, which it does not give away.
    dolmen_local::destroy(&at(2)).unwrap();
    let other = dolmen_local::PoolOptions {
        targets: 1,
        capacity_bytes: 64 << 20,
        uuid: Some(pools[0].uuid),
        spread: Some(dolmen_local::Spread { rank: 2, ranks: vec![0, 1, 2], key: 5 }),
        ..dolmen_local::PoolOptions::default()
    };
    dolmen_local::create(&at(2), &other).unwrap();
    let destroy = SystemVerb::PoolDestroy { name: reach::pool_name("p").unwrap(), force: true };
    assert_eq!(link.ask_system(&Head::default(), &destroy), Err(Error::NoPermission));
    assert_eq!(there(), [true, true, true], "the engine before it has its part");
    // As after a destroy in whose middle an engine failed.
    dolmen_local::destroy(&at(2)).unwrap();
    assert_eq!(link.ask_system(&Head::default(), &destroy), Ok(SystemReply::Done));
    assert_eq!(there(), [false, false, false]);
}
