//! Those who write to a stored ntuple are killed at any moment, and the daemon is, while others read: each version is what one
//! commit made of the one before, and what the dead have left is freed.
//!
//! What an append puts follows from its number, so that all that a version must hold is known from the versions before it.

mod events;
mod work;

use crate::common::{Place, amount};
use crate::served::Daemon;
use dolmen_client::{PropId, PropValue, Props};
use dolmen_env::Rng;
use dolmen_rntuple::store::{Made, Store, Stored, When};
use dolmen_types::{Durability, Label};
use events::{arrays, entries_of, needed, object_count, owner, read, sum, writer_of};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Lines, PipeReader, PipeWriter};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use work::{Open, Role, look, work};

/// Rounds of each test unless `NTUPLE_KILL_ROUNDS` says otherwise; the seed is any unless `NTUPLE_KILL_SEED` says one.
const ROUNDS: u64 = 6;
/// Versions after which an ntuple is destroyed, and another is made.
const VERSIONS_MAX: u64 = 25;

/// Set for a child: where its pool is, its container and ntuple, and number and role of each that it is, all of them apart.
const ADDRESS: &str = "NTUPLE_KILL_ADDRESS";
const CONT: &str = "NTUPLE_KILL_CONT";
const NTUPLE: &str = "NTUPLE_KILL_NTUPLE";
const ROLES: &str = "NTUPLE_KILL_ROLES";
const NAME: &str =
    "ntuples_killed::whoever_is_killed_with_a_pool_in_his_process_leaves_whole_versions_and_nothing_else";

/// A child, which works until it is killed.
fn child(address: &str) {
    let [cont, ntuple, roles] = [CONT, NTUPLE, ROLES].map(|name| std::env::var(name).unwrap());
    let open = Open::new(address, &cont);
    let stored = open.store().ntuple(&ntuple).unwrap();
    dolmen_env::scope(|scope| {
        for one in roles.split(' ') {
            let (writer, role) = one.split_once(':').unwrap();
            let (writer, role) = (writer.parse().unwrap(), Role::ALL[role.parse::<usize>().unwrap()]);
            let stored = &stored;
            scope.spawn(move || work(role, stored, writer));
        }
    });
}

/// What is known of an ntuple whose versions were all looked at.
#[derive(Default)]
struct Known {
    /// Appends, in the order of their entries.
    owners: Vec<i64>,
    added_count: usize,
    /// Of each version the checksum of what it has.
    sums: BTreeMap<u64, u64>,
}

impl Known {
    /// Looks at the next version, which one commit has made of the one before.
    fn follow(&mut self, stored: &Stored, number: u64) {
        let version = stored.version(When::Version(number)).unwrap();
        let ntuple = stored.open(When::Version(number)).unwrap();
        let found = read(&ntuple).unwrap();
        let is_first = self.sums.is_empty();
        match version.made {
            Made::Created if is_first => {}
            Made::Reshaped if !is_first => {}
            Made::ColumnsAdded if !is_first => self.added_count += 1,
            Made::Appended if !is_first => {
                let (_, dolmen_rntuple::Array::Values(dolmen_rntuple::Values::I64(owners))) = &found[0]
                else {
                    panic!("version {number} has other fields: {found:?}")
                };
                let before: usize = self.owners.iter().map(|&owner| entries_of(owner) as usize).sum();
                let new = owners[before];
                let (writer, step) = writer_of(new);
                let last = self.owners.iter().rev().map(|&owner| writer_of(owner));
                let last = last.filter(|other| other.0 == writer).map(|other| other.1).next();
                assert_eq!(step, last.map_or(0, |last| last + 1), "version {number}, writer {writer}");
                self.owners.push(new);
            }
            other => panic!("version {number} was made by {other:?}"),
        }
        let wanted = arrays(&self.owners, self.added_count);
        assert!(found == wanted, "version {number}, {version:?} is not what it has to be");
        self.sums.insert(number, sum(&found));
    }
}

/// One who is killed, and what all of them say.
struct Crowd<'a> {
    address: Box<dyn Fn(usize) -> String + 'a>,
    cont: String,
    ntuple: String,
    /// Roles of each child, which are its threads.
    roles: Vec<Vec<Role>>,
    children: Vec<Child>,
    writers: u64,
    lines: Lines<BufReader<PipeReader>>,
    /// Children have it, too: the lines end when all have ended and this is gone.
    saying: Option<PipeWriter>,
    appended: Vec<i64>,
    was_read: Vec<(u64, u64)>,
}

impl Crowd<'_> {
    fn child(&mut self, at: usize) -> Child {
        let mut roles = Vec::new();
        for role in &self.roles[at] {
            self.writers += 1;
            let number = Role::ALL.iter().position(|other| other == role).unwrap();
            roles.push(format!("{}:{number}", self.writers));
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([NAME, "--exact", "--nocapture"]);
        command.env(ADDRESS, (self.address)(at)).env(CONT, &self.cont).env(NTUPLE, &self.ntuple);
        command.env(ROLES, roles.join(" ")).stdin(Stdio::null()).stdout(Stdio::null());
        let saying = self.saying.as_ref().unwrap().try_clone().unwrap();
        command.stderr(saying).spawn().unwrap()
    }

    fn start(&mut self) {
        for at in 0..self.roles.len() {
            let child = self.child(at);
            self.children.push(child);
        }
    }

    /// The next line that somebody says; none when all have ended.
    fn hear(&mut self) -> Option<()> {
        let line = self.lines.next()?.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["appended", owner] => self.appended.push(owner.parse().unwrap()),
            ["read", version, sum] => {
                self.was_read.push((version.parse().unwrap(), sum.parse().unwrap()));
            }
            ["put" | "behind" | "collected" | "reshaped" | "added" | "has", ..] => {}
            _ => {
                let rest = self.lines.by_ref().map_while(core::result::Result::ok).take(10);
                panic!("a child says {line:?} {:?}", rest.collect::<Vec<_>>());
            }
        }
        Some(())
    }

    /// Waits until so many lines were said.
    fn wait(&mut self, lines: u64) {
        for _ in 0..lines {
            assert_eq!(self.hear(), Some(()), "all children have ended by themselves");
        }
    }

    fn kill(&mut self, at: usize) {
        let child = &mut self.children[at];
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9), "a child has ended by itself");
    }

    fn replace(&mut self, at: usize) {
        self.kill(at);
        self.children[at] = self.child(at);
    }

    /// Kills all, and hears what they have said.
    fn end(&mut self) {
        for at in 0..self.children.len() {
            self.kill(at);
        }
        self.saying = None;
        while self.hear().is_some() {}
    }
}

/// Nobody stays if a test fails.
impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Ignored: it may have ended already.
            _ = child.kill().and_then(|()| child.wait().map(drop));
        }
    }
}

/// Says at its end, whatever that is, that something is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn crowd<'a>(
    address: impl Fn(usize) -> String + 'a,
    life: &Life,
    roles: &[&[Role]],
    writers: u64,
) -> Crowd<'a> {
    let (lines, saying) = std::io::pipe().unwrap();
    Crowd {
        address: Box::new(address),
        cont: life.cont.clone(),
        ntuple: life.name.clone(),
        roles: roles.iter().map(|roles| roles.to_vec()).collect(),
        children: Vec::new(),
        writers,
        lines: BufReader::new(lines).lines(),
        saying: Some(saying),
        appended: Vec::new(),
        was_read: Vec::new(),
    }
}

/// An ntuple from its making until it is destroyed, over several rounds.
struct Life {
    cont: String,
    name: String,
    known: Known,
    appended: BTreeSet<i64>,
    /// Writers who had died, and objects that they had left.
    freed: (u64, u64),
}

impl Life {
    fn begin(number: u64, open: impl Fn(&str) -> Open) -> Self {
        // What a write survives when it is answered makes no difference to who is killed.
        let cont = ["process", "power"][usize::try_from(number % 2).unwrap()].to_owned();
        let name = format!("events-{number}");
        events::create(&open(&cont).store(), &name);
        Self { cont, name, known: Known::default(), appended: BTreeSet::new(), freed: (0, 0) }
    }

    /// Looks at all that was done since the last time, while nobody else is there.
    fn check(&mut self, open: &Open, was_read: &[(u64, u64)], appended: &[i64], writer: u64) {
        let store = open.store();
        let stored = store.ntuple(&self.name).unwrap();
        let numbers: Vec<u64> = stored.versions().unwrap().iter().map(|version| version.number).collect();
        let current = stored.version(When::Now).unwrap().number;
        assert_eq!(numbers, (1..=current).collect::<Vec<_>>());
        self.follow(&stored);
        for (version, sum) in was_read {
            assert_eq!(
                self.known.sums.get(version),
                Some(sum),
                "version {version} was read as what it is not"
            );
        }
        self.appended.extend(appended);
        let there: BTreeSet<i64> = self.known.owners.iter().copied().collect();
        assert_eq!(there.len(), self.known.owners.len(), "no append is there twice");
        let lost: Vec<_> = self.appended.difference(&there).collect();
        assert!(lost.is_empty(), "{lost:?} are not there, although they were acknowledged");
        self.collect(&store, &stored);
        work::append(&stored, owner(writer, 0));
        self.follow(&stored);
        assert_eq!(self.known.owners.last(), Some(&owner(writer, 0)));
        let scrubbed = stored.scrub(When::Now, |_| ()).unwrap();
        assert!(scrubbed.bad.is_empty() && scrubbed.unsummed == 0, "{scrubbed:?}");
        // Nobody writes, so that nothing is anybody's that no version needs.
        self.collect(&store, &stored);
    }

    fn follow(&mut self, stored: &Stored) {
        let known = u64::try_from(self.known.sums.len()).unwrap();
        for number in known + 1..=stored.version(When::Now).unwrap().number {
            self.known.follow(stored, number);
        }
    }

    /// Has all freed that nobody needs: there is the catalogue, the ntuple, and what its versions refer to.
    fn collect(&mut self, store: &Store, stored: &Stored) {
        let collected = store.collect_alone().unwrap();
        self.freed.0 += collected.writers;
        self.freed.1 += collected.clusters;
        assert_eq!(object_count(stored.store().container().unwrap()), OTHERS + needed(stored).len());
        let again = store.collect().unwrap();
        let kept = again.kept;
        assert_eq!(again, dolmen_rntuple::store::Collected { kept, ..Default::default() });
    }

    /// Whether the ntuple has as many versions as one has; it is destroyed then, and leaves nothing.
    fn ends(&mut self, open: &Open) -> bool {
        if u64::try_from(self.known.sums.len()).unwrap() < VERSIONS_MAX {
            return false;
        }
        let store = open.store();
        let stored = store.ntuple(&self.name).unwrap();
        stored.keep(0).unwrap();
        assert!(stored.expire().unwrap() > 0);
        self.collect(&store, &stored);
        store.destroy(&self.name).unwrap();
        assert_eq!(object_count(&open.cont), 0);
        true
    }
}

/// Objects of a container with one ntuple without clusters, while nobody writes: the catalogue and the ntuple.
const OTHERS: usize = 2;

fn make_pool(place: &Place, dir: &str) {
    std::fs::create_dir(place.path("sys")).unwrap();
    place.pool(&[dir, "--targets", "2"]);
    let open = dolmen_local::open(&place.path(dir), &dolmen_local::OpenOptions::default()).unwrap();
    let pool = dolmen_client::Pool::connect(Arc::new(open), dolmen_client::Credentials::default()).unwrap();
    for (label, durability) in [("process", Durability::Process), ("power", Durability::Power)] {
        let number = PropValue::Number(durability as u64);
        let props = Props::from([(PropId::CO_DURABILITY, number)]);
        pool.create_container(Some(Label::new(label).unwrap()), props).unwrap();
    }
}

/// A generator of any seed, which is printed.
fn seeded() -> Rng {
    let seed = amount("NTUPLE_KILL_SEED", dolmen_env::entropy_u64().unwrap() >> 16);
    println!("NTUPLE_KILL_SEED={seed}");
    Rng::from_seed(seed)
}

#[test]
fn whoever_is_killed_with_a_pool_in_his_process_leaves_whole_versions_and_nothing_else() {
    if let Ok(address) = std::env::var(ADDRESS) {
        return child(&address);
    }
    let place = Place::new("ntuples-killed");
    make_pool(&place, "sys/p");
    let mut rng = seeded();
    let address = format!("file:{}", place.path("sys/p").display());
    let (mut writers, mut lives, mut freed) = (0, 0, (0, 0));
    let mut life = Life::begin(0, |cont| Open::new(&address, cont));
    for round in 0..2 * amount("NTUPLE_KILL_ROUNDS", ROUNDS) {
        println!("round {round}");
        let roles = [&[Role::Append, Role::Append, Role::Change, Role::Read][..]];
        let mut crowd = crowd(|_| address.clone(), &life, &roles, writers);
        crowd.start();
        crowd.wait(1 + rng.below(80));
        crowd.end();
        writers = crowd.writers + 1;
        let open = Open::new(&address, &life.cont);
        life.check(&open, &crowd.was_read, &crowd.appended, writers);
        for audit in open.pool.check().unwrap() {
            assert_eq!(audit.findings, []);
        }
        freed = (freed.0 + life.freed.0, freed.1 + life.freed.1);
        life.freed = (0, 0);
        if life.ends(&open) {
            drop(open);
            lives += 1;
            life = Life::begin(lives, |cont| Open::new(&address, cont));
        }
    }
    assert!(freed.0 > 0 && freed.1 > 0, "those who were killed have left nothing: {freed:?}");
    println!("{writers} writers, {lives} ntuples, {freed:?} freed");
}

#[test]
fn whoever_is_killed_at_a_daemon_or_with_it_leaves_whole_versions_and_nothing_else() {
    let place = Place::new("ntuples-daemon");
    make_pool(&place, "sys/p");
    let mut rng = seeded();
    let mut daemon = Daemon::start_in(&place, "sys", &["--tcp", "127.0.0.1:0", "--insecure-tcp"]);
    let (_, tcp) = daemon.line.split_once("tcp://").unwrap();
    let tcp = tcp.trim_end_matches(|letter: char| !letter.is_ascii_digit()).to_owned();
    let ways = [format!("unix:{}", place.path("sys/dolmen.sock").display()), format!("tcp://{tcp}")];
    let (mut writers, mut lives, mut freed) = (0, 0, (0, 0));
    let mut life = Life::begin(0, |cont| Open::new(&ways[0], cont));
    for round in 0..amount("NTUPLE_KILL_ROUNDS", ROUNDS) {
        println!("round {round}");
        let roles = [&[Role::Append][..], &[Role::Append], &[Role::Change], &[Role::Read]];
        let mut crowd = crowd(|at| ways[at % 2].clone(), &life, &roles, writers);
        let (open, is_over) = (Open::new(&ways[1], &life.cont), AtomicBool::new(false));
        let stored = open.store().ntuple(&life.name).unwrap();
        let was_read = dolmen_env::scope(|scope| {
            // One who reads on one connection whatever dies.
            let reader = scope.spawn(|| {
                let (mut was_read, mut rng) = (Vec::new(), Rng::from_seed(round));
                while !is_over.load(Ordering::Relaxed) {
                    was_read.push(look(&stored, &mut rng));
                }
                was_read
            });
            let over = Over(&is_over);
            crowd.start();
            for _ in 0..4 {
                crowd.wait(1 + rng.below(25));
                match rng.index(roles.len() + 1) {
                    at if at < roles.len() => crowd.replace(at),
                    _ => {
                        daemon.child.kill().unwrap();
                        daemon.child.wait().unwrap();
                        daemon = Daemon::start_in(&place, "sys", &["--tcp", &tcp, "--insecure-tcp"]);
                    }
                }
            }
            crowd.wait(1 + rng.below(10));
            crowd.end();
            drop(over);
            reader.join().unwrap()
        });
        crowd.was_read.extend(was_read);
        writers = crowd.writers + 1;
        life.check(&open, &crowd.was_read, &crowd.appended, writers);
        freed = (freed.0 + life.freed.0, freed.1 + life.freed.1);
        life.freed = (0, 0);
        if life.ends(&open) {
            lives += 1;
            life = Life::begin(lives, |cont| Open::new(&ways[0], cont));
        }
    }
    assert!(freed.0 > 0 && freed.1 > 0, "those who were killed have left nothing: {freed:?}");
    println!("{writers} writers, {lives} ntuples, {freed:?} freed");
    daemon.end();
    assert!(place.ok(&["check", "sys/p"]).contains("clean"));
}
