//! Pools that are full nearly all the time: whatever a shell does to them, also with SIGKILL, ends in time as it may end,
//! loses nothing that was acknowledged, and leaves a pool that is emptied.
//!
//! What each step makes of the tree is known. After one that was refused or killed each entry is what it was or what it was
//! to be. A round follows from its seed but for the order of the program's threads and the moments of kills.

use crate::common::{Place, Ran, amount, bytes};
use dolmen_env::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

/// Rounds and seed, unless `CRAMPED_ROUNDS` and `CRAMPED_SEED` say otherwise. A round has the seed behind that of the one before.
const ROUNDS: u64 = 1;
const SEED: u64 = 28_010;
/// No command takes longer, on a busy machine either.
const LIMIT: Duration = Duration::from_secs(120);
const KILL_MS_MAX: u64 = 300;
/// Puts at first: most pools are full then.
const FILLING: u64 = 4;
const FILES_MAX: u64 = 1500;
const SIXTH_FILES: u64 = 200;
const SNAPSHOTS: [&str; 3] = ["s", "t", "u"];
const ROOTS: [&str; 3] = ["/a", "/b", "/c"];
const ABSENT: &str = "/absent";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    Dir,
    File { len: usize, seed: u64 },
}

/// Entries by path.
type Tree = BTreeMap<String, Node>;
/// What was read of them; nothing of a directory.
type Found = BTreeMap<String, Option<Vec<u8>>>;

#[derive(Clone, Default)]
struct State {
    now: Tree,
    snapshots: BTreeMap<String, Tree>,
}

#[derive(Debug)]
enum Step {
    /// A tree that is merged into a directory.
    Put(&'static str, Tree),
    Remove(String),
    Move(String, String),
    Keep(&'static str),
    Forget(&'static str),
    Rollback(&'static str),
    Aggregate,
    Repair,
}

/// How a command has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Done,
    Full,
    Killed,
    /// With the code that the model says.
    Wrong,
}

fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl State {
    /// What a step makes of it, or the exit code of what cannot be done.
    fn after(&self, step: &Step) -> Result<Self, i32> {
        let mut after = self.clone();
        match step {
            Step::Put(_, tree) => after.now.extend(tree.clone()),
            Step::Remove(path) | Step::Move(path, _) if !self.now.contains_key(path) => return Err(3),
            Step::Remove(dir) => after.now.retain(|path, _| !is_below(path, dir)),
            Step::Move(old, new) => {
                after.now.retain(|path, _| !is_below(path, old));
                let moved = self.now.iter().filter(|(path, _)| is_below(path, old));
                after.now.extend(moved.map(|(path, node)| (format!("{new}{}", &path[old.len()..]), *node)));
            }
            Step::Keep(name) if self.snapshots.contains_key(*name) => return Err(4),
            Step::Keep(name) => drop(after.snapshots.insert((*name).to_owned(), self.now.clone())),
            Step::Forget(name) => drop(after.snapshots.remove(*name).ok_or(3)?),
            Step::Rollback(name) => after.now = self.snapshots.get(*name).ok_or(3)?.clone(),
            Step::Aggregate | Step::Repair => {}
        }
        Ok(after)
    }
}

impl Step {
    fn args(&self) -> Vec<&str> {
        match self {
            Self::Put(root, _) => vec!["fs", "put", "p", "c", "src", root, "--log", "journal"],
            Self::Remove(path) => vec!["fs", "rm", "p", "c", "-r", path],
            Self::Move(old, new) => vec!["fs", "mv", "p", "c", old, new],
            Self::Keep(name) => vec!["cont", "snapshot", "create", "p", "c", name],
            Self::Forget(name) => vec!["cont", "snapshot", "destroy", "p", "c", name],
            Self::Rollback(name) => vec!["cont", "snapshot", "rollback", "p", "c", name],
            Self::Aggregate => vec!["cont", "aggregate", "p", "c"],
            Self::Repair => vec!["check", "p", "--scrub", "--repair"],
        }
    }

    /// Whether a full pool may refuse it. What only frees uses the reserve; names that are removed under a snapshot free nothing.
    fn may_be_refused(&self, state: &State) -> bool {
        match self {
            Self::Put(..) | Self::Move(..) | Self::Keep(_) => true,
            Self::Remove(_) => !state.snapshots.is_empty(),
            Self::Forget(_) | Self::Rollback(_) | Self::Aggregate | Self::Repair => false,
        }
    }

    /// Whether it happens as a whole or not at all.
    fn is_atomic(&self) -> bool {
        !matches!(self, Self::Put(..) | Self::Remove(_))
    }
}

/// A pool, what it holds, and what was done to it.
struct Round<'a> {
    place: &'a Place,
    rng: Rng,
    capacity_bytes: u64,
    /// So many steps of a hundred are puts.
    put_percent: u64,
    /// One of so many steps is killed.
    kill_one_in: u64,
    state: State,
    /// Round, seed and step, for messages.
    at: String,
    ends: Vec<End>,
}

impl Round<'_> {
    /// Makes a pool and a container; sizes and durability are drawn.
    fn make_pool(&mut self) {
        let rng = &mut self.rng;
        let targets = 1 + rng.below(3);
        self.capacity_bytes = (1 + rng.below(3)) << 24;
        // Of larger segments a target would have too few to be filled and emptied.
        let log_max = (self.capacity_bytes / targets / 20).next_power_of_two() / 2;
        let log = log_max.min((64 << 10) << rng.below(5));
        let small = if rng.one_in(2) { 4096 } else { rng.below(log / 4) };
        let memory = (4 << 20) << rng.below(4);
        let bulk = (256 << 10) << rng.below(3);
        let durability = if rng.one_in(2) { "power" } else { "process" };
        let sizes =
            [targets, self.capacity_bytes, log, small, targets * memory, bulk].map(|size| size.to_string());
        let flags =
            ["--targets", "--capacity", "--log-segment", "--small-values", "--memory", "--bulk-segment"];
        let args = flags.iter().zip(&sizes).flat_map(|(flag, size)| [*flag, size]);
        let args: Vec<&str> = core::iter::once("p").chain(args).collect();
        eprintln!("{}: {} {durability}", self.at, args.join(" "));
        self.place.make_pool(&args);
        self.place.ok(&["cont", "create", "p", "c", "--durability", durability]);
    }

    fn draw(&mut self) -> Step {
        if self.rng.below(100) < self.put_percent {
            return self.draw_put();
        }
        match self.rng.below(12) {
            0..=3 => Step::Remove(self.draw_path()),
            4 | 5 => self.draw_move(),
            6 | 7 => Step::Keep(SNAPSHOTS[self.rng.index(SNAPSHOTS.len())]),
            8 => Step::Forget(self.draw_snapshot()),
            9 => Step::Rollback(self.draw_snapshot()),
            10 => Step::Aggregate,
            _ => Step::Repair,
        }
    }

    fn draw_put(&mut self) -> Step {
        let root = ROOTS[self.rng.index(ROOTS.len())];
        Step::Put(root, self.draw_tree(root))
    }

    /// Most often one that there is.
    fn draw_snapshot(&mut self) -> &'static str {
        let is_any = self.rng.one_in(6) || self.state.snapshots.is_empty();
        let there = |name: &&&str| is_any || self.state.snapshots.contains_key(**name);
        let names: Vec<&&str> = SNAPSHOTS.iter().filter(there).collect();
        names[self.rng.index(names.len())]
    }

    /// Many small files in some directories, or a few large ones; of one root the same names come again.
    fn draw_tree(&mut self, root: &str) -> Tree {
        let rng = &mut self.rng;
        let room_bytes = self.capacity_bytes / (1 + rng.below(8));
        let (name, mean_bytes) = if rng.one_in(3) {
            ("large", room_bytes / (1 + rng.below(6)))
        } else {
            ("small", 200 + rng.below(6000))
        };
        let files = (room_bytes / mean_bytes).min(FILES_MAX);
        let mut tree = Tree::from([(root.to_owned(), Node::Dir)]);
        for number in 0..files {
            let dir = format!("{root}/{name}{}", number % 4);
            let len = usize::try_from(mean_bytes / 2 + rng.below(mean_bytes)).unwrap();
            tree.insert(format!("{dir}/{number}"), Node::File { len, seed: rng.next_u64() });
            tree.insert(dir, Node::Dir);
        }
        tree
    }

    /// A directory right below the root, one below that, any entry, or none.
    fn draw_path(&mut self) -> String {
        let depth = match self.rng.below(12) {
            0 => return ABSENT.to_owned(),
            1..=3 => Some(1),
            4..=7 => Some(2),
            _ => None,
        };
        let is_drawn = |path: &&String| depth.is_none_or(|depth| path.matches('/').count() == depth);
        let paths: Vec<&String> = self.state.now.keys().filter(is_drawn).collect();
        if paths.is_empty() { ABSENT.to_owned() } else { paths[self.rng.index(paths.len())].clone() }
    }

    /// A directory gets a new name; a file a new one or that of another file.
    fn draw_move(&mut self) -> Step {
        let old = self.draw_path();
        let other = self.draw_path();
        let is_file = |path| matches!(self.state.now.get(path), Some(Node::File { .. }));
        if is_file(&old) && is_file(&other) && old != other {
            return Step::Move(old, other);
        }
        let new = format!(
            "{}-{}",
            old.trim_end_matches(|at: char| at == '-' || at.is_ascii_digit()),
            self.ends.len()
        );
        Step::Move(old, new)
    }

    /// Runs what has to succeed.
    fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args, LIMIT);
        assert_eq!(ran.code(), 0, "{}: {ran:?}", self.at);
        ran.stdout()
    }

    fn run(&self, args: &[&str], limit: Duration) -> Ran {
        let ran = self.place.run_for(args, limit);
        let is_told = ran.code() == 0 || limit < LIMIT || ran.stderr().starts_with("dolmen: ");
        assert!(is_told && !ran.stderr().contains("panicked"), "{}: {ran:?}", self.at);
        ran
    }

    /// Takes a step, and looks at what it has left.
    fn take(&mut self, step: &Step, is_killed: bool) -> End {
        if let Step::Put(root, tree) = step {
            write_source(self.place, root, tree);
        }
        // Most kills come soon: most commands are short.
        let before_ms = 1 + self.rng.below(KILL_MS_MAX);
        let kill = Duration::from_millis(self.rng.below(before_ms));
        let limit = if is_killed { kill } else { LIMIT };
        let after = self.state.after(step);
        let ran = self.run(&step.args(), limit);
        let end = match (ran.code(), &after) {
            (-1, _) if is_killed && ran.output.status.signal() == Some(9) => End::Killed,
            (0, Ok(_)) => End::Done,
            (6, Ok(_)) if step.may_be_refused(&self.state) => End::Full,
            (code, Err(wrong)) if code == *wrong => End::Wrong,
            _ => panic!("{}: {ran:?}", self.at),
        };
        eprintln!("{}: {end:?}: {}", self.at, step.args().join(" "));
        let said = ran.stdout() + &ran.stderr();
        assert!(end != End::Full || said.contains("is full"), "{}: {ran:?}", self.at);
        match (end, after) {
            (End::Done, Ok(after)) => self.state = after,
            (End::Full | End::Killed, Ok(after)) => self.settle(step, end, after),
            _ => {}
        }
        self.ends.push(end);
        end
    }

    /// Takes over what a step has done that was refused or killed.
    fn settle(&mut self, step: &Step, end: End, mut after: State) {
        if let Step::Keep(name) | Step::Forget(name) = step {
            let listed = self.ok(&["cont", "snapshot", "list", "p", "c"]);
            let is_there = listed.lines().any(|line| line.split_whitespace().any(|word| word == *name));
            let is_done = is_there == after.snapshots.contains_key(*name);
            assert!(!is_done || end == End::Killed, "{}: refused and done: {listed}", self.at);
            if is_done {
                self.state = after;
            }
            return;
        }
        let acknowledged = if matches!(step, Step::Put(..)) { journal(self.place) } else { BTreeSet::new() };
        let found = self.read(None);
        let (mut old, mut new) = (0, 0);
        let paths: BTreeSet<&String> =
            self.state.now.keys().chain(after.now.keys()).chain(found.keys()).collect();
        let mut settled = Tree::new();
        for path in paths {
            let (before, now) = (self.state.now.get(path), after.now.get(path));
            let node = if is_same(found.get(path), now) { now } else { before };
            assert!(is_same(found.get(path), node), "{}: {path} is neither old nor new", self.at);
            assert!(node == now || !acknowledged.contains(path), "{}: {path} was acknowledged", self.at);
            old += u64::from(node == before && node != now);
            new += u64::from(node == now && node != before);
            settled.extend(node.map(|node| (path.clone(), *node)));
        }
        let is_whole = new == 0 || old == 0 && end == End::Killed;
        assert!(is_whole || !step.is_atomic(), "{}: {old} entries are old and {new} new", self.at);
        after.now = settled;
        self.state = after;
    }

    /// What there is, now or in a snapshot, but for what puts have not finished.
    fn read(&self, snapshot: Option<&str>) -> Found {
        let at: Vec<&str> = snapshot.iter().flat_map(|name| ["--snapshot", name]).collect();
        let listed = self.ok(&[&["fs", "ls", "p", "c", "-lR"], &at[..]].concat());
        let entries: Vec<(usize, String, bool)> = listed.lines().skip(1).map(listed_entry).collect();
        let entries = || entries.iter().filter(|(_, path, _)| !path.ends_with(".unfinished"));
        let files: Vec<&str> = entries().filter(|entry| !entry.2).map(|entry| entry.1.as_str()).collect();
        let mut content = Vec::new();
        if !files.is_empty() {
            let ran = self.run(&[&["fs", "cat", "p", "c"], &at[..], &files].concat(), LIMIT);
            assert_eq!(ran.code(), 0, "{}: {}", self.at, ran.stderr());
            content = ran.output.stdout;
        }
        let (mut found, mut rest) = (Found::new(), &content[..]);
        for (len, path, is_dir) in entries() {
            let file = (!is_dir).then(|| rest.split_off(..*len).expect("as long as it is listed").to_vec());
            found.insert(path.clone(), file);
        }
        assert!(rest.is_empty(), "{}: files are longer than they are listed", self.at);
        found
    }

    /// Compares all that there is with what there has to be.
    fn compare(&self, snapshot: Option<&str>) {
        let tree = snapshot.map_or(&self.state.now, |name| &self.state.snapshots[name]);
        let found = self.read(snapshot);
        for path in tree.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
            let is_right = is_same(found.get(path), tree.get(path));
            assert!(is_right, "{}: {path} of {snapshot:?} has to be {:?}", self.at, tree.get(path));
        }
    }

    /// Audits and compares, or leaves it to the next step to open what a kill has left.
    fn look(&mut self) {
        let what = self.rng.below(5);
        if what < 3 {
            self.ok(&["check", "p"]);
        }
        if what == 2 || what == 3 {
            self.compare(None);
        }
    }

    /// Empties the pool: all snapshots, and everything that is listed.
    fn empty(&mut self) {
        self.ok(&["check", "p", "--scrub"]);
        self.compare(None);
        for name in self.state.snapshots.keys() {
            self.compare(Some(name));
        }
        // Names that are removed under a snapshot free nothing.
        if self.rng.one_in(2) {
            for root in ROOTS {
                self.take(&Step::Remove(root.to_owned()), false);
            }
        }
        for name in SNAPSHOTS.iter().filter(|name| self.state.snapshots.contains_key(**name)) {
            self.ok(&Step::Forget(name).args());
        }
        for name in self.ok(&["fs", "ls", "p", "c", "/"]).lines() {
            self.ok(&Step::Remove(format!("/{name}")).args());
        }
        self.state = State::default();
        // Objects without a name, which a kill may leave, are freed by a repair.
        self.ok(&Step::Repair.args());
        // What is refused has had everything reclaimed before.
        if self.rng.one_in(2) {
            self.ok(&Step::Aggregate.args());
        }
        self.compare(None);
    }
}

/// Writes a tree that is put, outside, and forgets the journal of the last one.
fn write_source(place: &Place, root: &str, tree: &Tree) {
    let src = place.path("src");
    drop(fs::remove_dir_all(&src));
    drop(fs::remove_file(place.path("journal")));
    // A directory comes before what is in it.
    for (path, node) in tree {
        let path = src.join(path[root.len()..].trim_start_matches('/'));
        match node {
            Node::Dir => fs::create_dir(path).unwrap(),
            Node::File { len, seed } => fs::write(path, bytes(*len, *seed)).unwrap(),
        }
    }
}

/// The files that a put has acknowledged: what stands behind checksum and size, before each NUL.
fn journal(place: &Place) -> BTreeSet<String> {
    let bytes = match fs::read(place.path("journal")) {
        // It was killed before it had one.
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        read => read.unwrap(),
    };
    let text = String::from_utf8(bytes).unwrap();
    let records = text.split_inclusive('\0').filter_map(|record| record.strip_suffix('\0'));
    records.map(|record| record.splitn(3, ' ').last().unwrap().to_owned()).collect()
}

/// Size and path of a line of a long listing, and whether it is a directory.
fn listed_entry(line: &str) -> (usize, String, bool) {
    let words: Vec<&str> = line.split_whitespace().collect();
    (words[4].parse().unwrap(), format!("/{}", words[words.len() - 1]), line.starts_with('d'))
}

fn is_same(found: Option<&Option<Vec<u8>>>, node: Option<&Node>) -> bool {
    match (found, node) {
        (Some(Some(found)), Some(Node::File { len, seed })) => *found == bytes(*len, *seed),
        (found, node) => found == node.map(|_| &None),
    }
}

/// Files of all sizes that take about a sixth of a pool, and as much again where it gives whole units.
fn sixth_tree(capacity_bytes: u64, seed: u64) -> Tree {
    let step_bytes = capacity_bytes / 6 / (SIXTH_FILES * SIXTH_FILES / 2);
    let file = |number: u64| {
        let len = usize::try_from(step_bytes * number).unwrap();
        (format!("/sixth/{number}"), Node::File { len, seed: seed + number })
    };
    core::iter::once(("/sixth".to_owned(), Node::Dir)).chain((0..SIXTH_FILES).map(file)).collect()
}

/// A round: a pool, some steps, and its end. How often each end came.
fn run_round(place: &Place, round: u64, seed: u64) -> Vec<End> {
    let at = |step: &str| format!("round {round}, CRAMPED_SEED={seed} CRAMPED_ROUNDS=1, {step}");
    let mut rng = Rng::from_seed(seed);
    let (put_percent, kill_one_in) = (30 + rng.below(50), 1 + rng.below(8));
    let (at_first, state, ends) = (at("make"), State::default(), Vec::new());
    let mut round =
        Round { place, rng, capacity_bytes: 0, put_percent, kill_one_in, state, at: at_first, ends };
    round.make_pool();
    let sixth = Step::Put("/sixth", sixth_tree(round.capacity_bytes, seed));
    assert_eq!(round.take(&sixth, false), End::Done, "{}", round.at);
    for number in 0..20 + round.rng.below(40) {
        round.at = at(&format!("step {number}"));
        let step = if number < FILLING { round.draw_put() } else { round.draw() };
        let is_killed = round.rng.one_in(round.kill_one_in);
        round.take(&step, is_killed);
        round.look();
    }
    round.at = at("end");
    round.empty();
    assert_eq!(round.take(&sixth, false), End::Done, "{}", round.at);
    round.compare(None);
    place.ok(&["pool", "destroy", "p", "--force"]);
    round.ends
}

#[test]
fn a_full_pool_ends_every_command_as_it_may_keeps_what_was_acknowledged_and_is_emptied() {
    let place = Place::new("cramped");
    let (rounds, seed) = (amount("CRAMPED_ROUNDS", ROUNDS), amount("CRAMPED_SEED", SEED));
    let ends: Vec<End> = (0..rounds).flat_map(|round| run_round(&place, round, seed + round)).collect();
    for end in [End::Done, End::Full, End::Killed] {
        assert!(ends.contains(&end), "seed {seed}, {rounds} rounds: no step is {end:?}");
    }
}
