//! Random operations of two mounts on several files, beside a model in memory: what two processes, one in each mount, make, open,
//! write, append, cut, rename, link, remove and close, while the daemon is killed in the midst of it.
//!
//! Contents are seen at once by whoever has a file open. Names are changed through one mount for a while, and through the other
//! when what that may remember of them is too old to be believed. A file that is open where another mount removes or moves it may
//! be stale there, the latter until a path leads to it.

use super::script::Script;
use super::{Mounted, has};
use crate::common::{amount, bytes};
use core::time::Duration;
use dolmen_env::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Steps and seed, unless `MOUNT_STEPS` and `MOUNT_SEED` say otherwise.
const STEPS: u64 = 120;
const SEED: u64 = 5;
/// Steps through one mount before the names are changed through the other.
const TURN: u64 = 12;
/// Mounts remember names for a second, if nobody says otherwise.
const FORGOTTEN: Duration = Duration::from_millis(1_100);
const FILE_BYTES: u64 = 60_000;
const STEP_BYTES: u64 = 12_000;
const STALE: &str = "error 116";

/// One line for what it is told, another with what came of it.
const USER: &str = "
import os, sys
root, files = sys.argv[1] + '/', {}
def content(fd):
    found, at = [], 0
    while data := os.pread(fd, 1 << 17, at):
        found.append(data)
        at += len(data)
    return b''.join(found).hex()
def tree():
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            fd = os.open(path, os.O_RDONLY)
            yield os.path.relpath(path, root) + ':' + str(os.stat(path).st_nlink) + ':' + content(fd)
            os.close(fd)
def does(what, *words):
    if what == 'tree': return ' '.join(sorted(tree()))
    if what == 'open' or what == 'make':
        path, new = root + words[1], os.O_CREAT | os.O_EXCL if what == 'make' else 0
        fd = os.open(path, os.O_RDWR | new, 0o644)
        files[words[0]] = fd, os.open(path, os.O_RDWR | os.O_APPEND)
    if what == 'read': return content(files[words[0]][0])
    if what == 'sync': os.fsync(files[words[0]][0])
    if what == 'cut': os.ftruncate(files[words[0]][0], int(words[1]))
    if what == 'append': assert os.write(files[words[0]][1], bytes.fromhex(words[1])) == len(words[1]) // 2
    if what == 'write':
        at, data = int(words[1]), bytes.fromhex(words[2])
        while data:
            done = os.pwrite(files[words[0]][0], data, at)
            at, data = at + done, data[done:]
    if what == 'close':
        for fd in files.pop(words[0]): os.close(fd)
    if what == 'rename': os.rename(root + words[0], root + words[1])
    if what == 'link': os.link(root + words[0], root + words[1])
    if what == 'unlink': os.unlink(root + words[0])
    if what == 'mkdir': os.mkdir(root + words[0])
for line in sys.stdin:
    try: print(('ok ' + (does(*line.split()) or '')).strip(), flush=True)
    except OSError as error: print('error', error.errno, flush=True)
";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// A mount, and the process in it.
struct Side {
    script: Script,
    /// Files that it has open.
    open: BTreeSet<u64>,
    /// Those that the other one has moved: no path has led to them since.
    moved: BTreeSet<u64>,
}

struct Run {
    mounted: Mounted,
    sides: [Side; 2],
    /// Whose turn it is to change names.
    turn: usize,
    names: BTreeMap<String, u64>,
    /// Contents of all that have a name or are open.
    files: BTreeMap<u64, Vec<u8>>,
    made: u64,
    rng: Rng,
    seed: u64,
    step: u64,
}

/// What a process was told to do, and what becomes of the model when it is done.
enum Told {
    Nothing,
    Data(u64, Vec<u8>),
    Names(BTreeMap<String, u64>),
}

impl Run {
    fn new(mounted: Mounted, seed: u64) -> Self {
        let sides = ["mnt", "mnt2"].map(|dir| {
            let root = mounted.place.path(dir);
            let script =
                Script::logged(&mounted.place, &format!("user-{dir}"), USER, &[root.to_str().unwrap()]);
            Side { script, open: BTreeSet::new(), moved: BTreeSet::new() }
        });
        let rng = Rng::from_seed(seed);
        let (names, files) = (BTreeMap::new(), BTreeMap::new());
        Self { mounted, sides, turn: 0, names, files, made: 0, rng, seed, step: 0 }
    }

    fn fails(&self, line: &str, said: &str) -> ! {
        let line: String = line.chars().take(60).collect();
        let said: String = said.chars().take(200).collect();
        let (step, seed) = (self.step, self.seed);
        panic!("step {step}: `{line}`: {said}: MOUNT_SEED={seed} MOUNT_STEPS={}", step + 1);
    }

    /// Has a process do something that must succeed.
    fn does(&mut self, side: usize, line: &str) -> String {
        let said = self.sides[side].script.does(line);
        match said.strip_prefix("ok") {
            Some(said) => said.trim().to_owned(),
            None => self.fails(line, &said),
        }
    }

    fn name(&mut self) -> String {
        let (dir, letter) = (self.rng.below(2), ["a", "b", "c", "d"][self.rng.index(4)]);
        format!("d{dir}/{letter}")
    }

    /// One of the names that there are.
    fn some_name(&mut self) -> Option<String> {
        let count = self.names.len();
        (count > 0).then(|| self.names.keys().nth(self.rng.index(count)).unwrap().clone())
    }

    /// A file that a process has open and that is not stale there.
    fn some_open(&mut self, side: usize) -> Option<u64> {
        let Side { open, moved, .. } = &self.sides[side];
        let sure: Vec<u64> = open.difference(moved).copied().collect();
        (!sure.is_empty()).then(|| sure[self.rng.index(sure.len())])
    }

    /// A change of a file's contents: the line and what they are then.
    fn change_of_data(&mut self, side: usize) -> Option<(String, Told)> {
        let id = self.some_open(side)?;
        let mut data = self.files[&id].clone();
        let len = usize::try_from(1 + self.rng.below(STEP_BYTES)).unwrap();
        let new = bytes(len, self.rng.next_u64());
        let line = match self.rng.below(4) {
            0 if data.len() < usize::try_from(FILE_BYTES).unwrap() => {
                data.extend_from_slice(&new);
                format!("append {id} {}", hex(&new))
            }
            1 => {
                let len = usize::try_from(self.rng.below(FILE_BYTES)).unwrap();
                data.resize(len, 0);
                format!("cut {id} {len}")
            }
            _ => {
                let at = usize::try_from(self.rng.below(FILE_BYTES - STEP_BYTES)).unwrap();
                data.resize(data.len().max(at + len), 0);
                data[at..at + len].copy_from_slice(&new);
                format!("write {id} {at} {}", hex(&new))
            }
        };
        Some((line, Told::Data(id, data)))
    }

    /// A change of names by whose turn it is.
    fn change_of_names(&mut self) -> Option<(String, Told)> {
        let from = self.some_name()?;
        let to = self.name();
        let mut names = self.names.clone();
        let id = names[&from];
        let line = match self.rng.below(4) {
            0 => {
                names.remove(&from);
                format!("unlink {from}")
            }
            1 if !names.contains_key(&to) => {
                names.insert(to.clone(), id);
                format!("link {from} {to}")
            }
            _ => {
                // Two names of one file stay as they are.
                if names.get(&to) != Some(&id) {
                    names.remove(&from);
                    names.insert(to.clone(), id);
                }
                format!("rename {from} {to}")
            }
        };
        Some((line, Told::Names(names)))
    }

    fn has_done(&mut self, told: Told) {
        match told {
            Told::Nothing => {}
            Told::Data(id, data) => drop(self.files.insert(id, data)),
            Told::Names(names) => self.have_names(names),
        }
    }

    /// Some files may have other names now, and some none.
    fn have_names(&mut self, names: BTreeMap<String, u64>) {
        let other = 1 - self.turn;
        let of = |names: &BTreeMap<String, u64>, id: u64| -> Vec<String> {
            names.iter().filter(|(_, found)| **found == id).map(|(name, _)| name.clone()).collect()
        };
        let before = core::mem::replace(&mut self.names, names);
        for id in before.values().copied().collect::<BTreeSet<u64>>() {
            let now = of(&self.names, id);
            if now == of(&before, id) {
                continue;
            }
            if !now.is_empty() {
                if self.sides[other].open.contains(&id) {
                    self.sides[other].moved.insert(id);
                }
                continue;
            }
            if self.sides[other].open.remove(&id) {
                let line = format!("read {id}");
                let said = self.sides[other].script.does(&line);
                if said != STALE && said.trim_start_matches("ok").trim() != hex(&self.files[&id]) {
                    self.fails(&line, &said);
                }
                self.does(other, &format!("close {id}"));
            }
            self.sides[other].moved.remove(&id);
            self.forget_unless_open(id);
        }
    }

    fn forget_unless_open(&mut self, id: u64) {
        let is_named = self.names.values().any(|named| *named == id);
        if !is_named && self.sides.iter().all(|side| !side.open.contains(&id)) {
            self.files.remove(&id);
        }
    }

    fn one_step(&mut self) {
        let side = self.rng.index(2);
        match self.rng.below(20) {
            0..=2 => self.make(),
            3 | 4 => self.open(),
            5 | 6 => {
                if let Some((line, told)) = self.change_of_names() {
                    self.does(self.turn, &line);
                    self.has_done(told);
                }
            }
            7..=12 => {
                if let Some((line, told)) = self.change_of_data(side) {
                    self.does(side, &line);
                    self.has_done(told);
                }
            }
            13..=15 => {
                if let Some(id) = self.some_open(side) {
                    self.read(side, id);
                }
            }
            16 => {
                if let Some(id) = self.some_open(side) {
                    self.does(side, &format!("sync {id}"));
                }
            }
            17 => {
                if let Some(id) = self.some_open(side) {
                    self.does(side, &format!("close {id}"));
                    self.sides[side].open.remove(&id);
                    self.forget_unless_open(id);
                }
            }
            _ => self.kill_daemon(),
        }
    }

    fn make(&mut self) {
        let name = self.name();
        if self.names.contains_key(&name) {
            return;
        }
        let id = self.made;
        self.made += 1;
        self.does(self.turn, &format!("make {id} {name}"));
        self.sides[self.turn].open.insert(id);
        self.names.insert(name, id);
        self.files.insert(id, Vec::new());
    }

    /// By whose turn it is: the other may still remember another file under the name.
    fn open(&mut self) {
        let Some(name) = self.some_name() else { return };
        let id = self.names[&name];
        if self.sides[self.turn].open.insert(id) {
            self.does(self.turn, &format!("open {id} {name}"));
        }
    }

    fn read(&mut self, side: usize, id: u64) {
        let line = format!("read {id}");
        let found = self.does(side, &line);
        if found != hex(&self.files[&id]) {
            self.fails(&line, &format!("{} bytes for {}", found.len() / 2, self.files[&id].len()));
        }
    }

    /// Kills the daemon while both processes have something to do, and starts the next: both succeed.
    fn kill_daemon(&mut self) {
        let (turn, other) = (self.turn, 1 - self.turn);
        let first = if self.rng.one_in(2) { self.change_of_names() } else { self.change_of_data(turn) };
        let second = match &first {
            // What is moved or removed here may be stale there by then.
            Some((_, Told::Names(_))) => None,
            _ => self.change_of_data(other),
        };
        let second = match (&first, second) {
            // Nobody could say which of two changes of one file came first.
            (Some((_, Told::Data(one, _))), Some((_, Told::Data(two, _)))) if *one == two => None,
            (_, second) => second,
        };
        let none = || ("tree".to_owned(), Told::Nothing);
        let told = [(turn, first.unwrap_or_else(none)), (other, second.unwrap_or_else(none))];
        for (side, (line, _)) in &told {
            self.sides[*side].script.ask(line);
        }
        std::thread::park_timeout(Duration::from_micros(self.rng.below(4000)));
        self.mounted.next_daemon();
        let said = told.each_ref().map(|(side, _)| self.sides[*side].script.next().unwrap_or_default());
        for ((_, (line, told)), said) in told.into_iter().zip(said) {
            if line == "tree" {
                continue;
            }
            if said != "ok" {
                self.fails(&line, &said);
            }
            self.has_done(told);
        }
    }

    /// Both sides see the tree of the model, once what they remembered is forgotten; the other one goes on with the names.
    fn change_turns(&mut self) {
        dolmen_env::wait(FORGOTTEN);
        let mut wanted: Vec<String> = Vec::new();
        for (name, id) in &self.names {
            let links = self.names.values().filter(|other| *other == id).count();
            wanted.push(format!("{name}:{links}:{}", hex(&self.files[id])));
        }
        wanted.sort();
        for side in [0, 1] {
            let found = self.does(side, "tree");
            let found: Vec<&str> = found.split_whitespace().collect();
            if found != wanted {
                let short = |line: &str| format!("{:.12} ({} bytes)", line, line.len() / 2);
                let found: Vec<_> = found.into_iter().map(short).collect();
                let wanted: Vec<_> = wanted.iter().map(|line| short(line)).collect();
                self.fails("tree", &format!("mount {side}: {found:?} for {wanted:?}"));
            }
            self.sides[side].moved.clear();
        }
        self.turn = 1 - self.turn;
    }
}

#[test]
fn two_mounts_work_on_files_while_daemons_are_killed() {
    if !has("python3") {
        return;
    }
    let (steps, seed) = (amount("MOUNT_STEPS", STEPS), amount("MOUNT_SEED", SEED));
    // As everybody mounts who says nothing else.
    let Some(mut mounted) = Mounted::served("several", &[]) else { return };
    mounted.mount("mnt2", &[]);
    println!("MOUNT_SEED={seed}");
    let mut run = Run::new(mounted, seed);
    for dir in ["d0", "d1"] {
        run.does(0, &format!("mkdir {dir}"));
    }
    while run.step < steps {
        run.one_step();
        run.step += 1;
        if run.step.is_multiple_of(TURN) {
            run.change_turns();
        }
    }
    for side in [0, 1] {
        for id in core::mem::take(&mut run.sides[side].open) {
            run.does(side, &format!("close {id}"));
        }
    }
    run.change_turns();
    let Run { mounted, sides, .. } = run;
    drop(sides);
    mounted.finish();
}
