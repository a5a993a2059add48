//! Random operations on one file of a mount, or of two, beside a model in memory: writes, appends, reads, cuts, holes, reserved
//! ranges, copies, memory that is mapped; and kills of a mount's process and of the daemon in between and in their midst.
//!
//! What an operation has acknowledged stays, whoever is killed. Of one that is cut short each byte is the old or the new one.

use super::{MOMENT, Mounted, Running};
use crate::common::{amount, bytes};
use dolmen_env::Rng;
use nix::sys::signal::Signal;
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};

/// Steps and seed, unless `MOUNT_STEPS` and `MOUNT_SEED` say otherwise.
const STEPS: u64 = 150;
const SEED: u64 = 11;
/// Longer than two chunks.
const FILE_BYTES: u64 = 2_300_000;
const STEP_BYTES: u64 = 100_000;

/// Changes and tells what is mapped, a line each.
const MAPPER: &str = "
import mmap, sys, zlib
for line in sys.stdin:
    path, at, n, fill = line.split()
    at, n, fill = int(at), int(n), int(fill)
    with open(path, 'r+b') as f, mmap.mmap(f.fileno(), 0) as m:
        if fill:
            m[at:at + n] = bytes([fill]) * n
            m.flush()
        found = sum(m[at:at + n])
    # It has closed the file by now: what follows may be the end of the mount.
    print(found, flush=True)
";

/// A process that maps files: who touches mapped memory whose file is gone is killed.
struct Mapper {
    input: ChildStdin,
    said: Receiver<String>,
    _process: Running,
}

impl Mapper {
    fn new() -> Self {
        let mut python = Command::new("python3");
        python.args(["-c", MAPPER]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Running(python.spawn().unwrap());
        let input = process.0.stdin.take().unwrap();
        let output = process.0.stdout.take().unwrap();
        let (tell, said) = sync_channel(1);
        let read = move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        };
        drop(dolmen_env::spawn("mapper", read).unwrap());
        Self { input, said, _process: process }
    }

    /// The sum of the bytes of a range, which is filled with `fill` before that unless it is 0.
    fn sum(&mut self, mounted: &Mounted, (at, len): (u64, u64), fill: u8) -> u64 {
        let path = mounted.path("f");
        writeln!(self.input, "{} {at} {len} {fill}", path.display()).unwrap();
        self.said.recv_timeout(MOMENT).expect("the process that maps files answers").parse().unwrap()
    }
}

/// A file and what must be in it.
struct Run {
    mounted: Mounted,
    words: Vec<&'static str>,
    mapper: Mapper,
    /// Of each mount, one to write anywhere, one to append.
    files: Vec<Option<(File, File)>>,
    /// The mount through which a step goes.
    side: usize,
    model: Vec<u8>,
    rng: Rng,
    step: u64,
}

impl Run {
    fn file(&mut self) -> &File {
        &self.files().0
    }

    fn files(&mut self) -> &(File, File) {
        let path = self.mounted.mounts[self.side].dir.join("f");
        self.files[self.side].get_or_insert_with(|| {
            let open = |options: &mut OpenOptions| options.read(true).create(true).open(&path).unwrap();
            (open(OpenOptions::new().write(true)), open(OpenOptions::new().append(true)))
        })
    }

    fn len(&self) -> u64 {
        self.model.len() as u64
    }

    /// A range, which may begin and end beyond the end of the file.
    fn range(&mut self) -> (u64, u64) {
        let at = self.rng.below(FILE_BYTES - STEP_BYTES);
        (at, 1 + self.rng.below(STEP_BYTES))
    }

    /// A range in the file; `None` if that is empty.
    fn range_within(&mut self) -> Option<(u64, u64)> {
        let at = self.rng.below(self.len().max(1));
        let room = self.len().saturating_sub(at).min(STEP_BYTES);
        (room > 0).then(|| (at, 1 + self.rng.below(room)))
    }

    /// Writes into the model, which becomes longer if it has to.
    fn put(&mut self, at: u64, data: &[u8]) {
        let at = usize::try_from(at).unwrap();
        let end = at + data.len();
        self.model.resize(self.model.len().max(end), 0);
        self.model[at..end].copy_from_slice(data);
    }

    /// Zeros of the model, up to its end.
    fn clear(&mut self, (at, len): (u64, u64)) {
        let (at, end) = (at.min(self.len()), (at + len).min(self.len()));
        self.model[usize::try_from(at).unwrap()..usize::try_from(end).unwrap()].fill(0);
    }

    fn lengthen(&mut self, len: u64) {
        self.model.resize(usize::try_from(len.max(self.len())).unwrap(), 0);
    }

    fn part(&self, (at, len): (u64, u64)) -> &[u8] {
        &self.model[usize::try_from(at).unwrap()..usize::try_from(at + len).unwrap()]
    }

    fn data(&mut self, len: u64) -> Vec<u8> {
        bytes(usize::try_from(len).unwrap(), self.rng.below(u64::MAX))
    }

    fn close(&mut self) {
        self.files.fill_with(|| None);
    }

    fn one_step(&mut self) {
        self.side = self.rng.index(self.files.len());
        match self.rng.below(32) {
            0..=7 => {
                let (at, len) = self.range();
                let data = self.data(len);
                self.file().write_all_at(&data, at).unwrap();
                self.put(at, &data);
            }
            8 | 9 => self.append(),
            10..=13 => self.read(),
            14..=16 => {
                let len = self.rng.below(FILE_BYTES);
                self.file().set_len(len).unwrap();
                self.model.resize(usize::try_from(len).unwrap(), 0);
            }
            17..=21 => self.allocate(),
            22 | 23 => self.copy(),
            24..=26 => self.map(),
            27 => self.seek(),
            28 => self.files[self.side] = None,
            29 => self.kill_daemon(),
            30 => self.kill_mount(),
            _ => self.kill_in_the_midst(),
        }
    }

    fn append(&mut self) {
        let len = 1 + self.rng.below(STEP_BYTES);
        if self.len() + len > FILE_BYTES {
            return;
        }
        let data = self.data(len);
        (&self.files().1).write_all(&data).unwrap();
        self.put(self.len(), &data);
    }

    fn read(&mut self) {
        let (at, len) = self.range();
        let mut found = vec![0; usize::try_from(len).unwrap()];
        let mut read = 0;
        while read < found.len() {
            match self.file().read_at(&mut found[read..], at + read as u64).unwrap() {
                0 => break,
                more => read += more,
            }
        }
        let there = (at.min(self.len()), len.min(self.len().saturating_sub(at)));
        assert_eq!(read as u64, there.1, "what is read ends with the file");
        assert!(found[..read] == *self.part(there), "{there:?}");
    }

    fn allocate(&mut self) {
        let range @ (at, len) = self.range();
        let keep = FallocateFlags::KEEP_SIZE;
        let (flags, clears, lengthens) = match self.rng.below(5) {
            0 => (FallocateFlags::empty(), false, true),
            1 => (keep, false, false),
            2 => (FallocateFlags::ZERO_RANGE, true, true),
            3 => (FallocateFlags::ZERO_RANGE | keep, true, false),
            _ => (FallocateFlags::PUNCH_HOLE | keep, true, false),
        };
        fallocate(self.file(), flags, at, len).unwrap();
        if clears {
            self.clear(range);
        }
        if lengthens {
            self.lengthen(at + len);
        }
    }

    fn copy(&mut self) {
        // The system copies up to the end that it remembers of what is read.
        let knows_end = self.files.len() == 1 || self.words[1] == "off";
        let Some(from) = self.range_within().filter(|_| knows_end) else { return };
        // The system refuses a copy onto itself.
        let to = from.0 + from.1 + self.rng.below(STEP_BYTES);
        if to + from.1 > FILE_BYTES {
            return;
        }
        let data = self.part(from).to_vec();
        assert_eq!(self.file().metadata().unwrap().len(), self.len());
        let (mut at, mut into, mut left) = (from.0, to, data.len());
        while left > 0 {
            let file = self.file();
            let copied = copy_file_range(file, Some(&mut at), file, Some(&mut into), left).unwrap();
            assert!(copied > 0, "a copy goes on");
            left -= copied;
        }
        self.put(to, &data);
    }

    fn map(&mut self) {
        // Other files are mapped to be shared by newer systems only, and memory is that of one mount.
        let Some(range) = self.range_within().filter(|_| self.words[1] == "data") else { return };
        let fill = u8::try_from(self.rng.below(3) * 85).unwrap();
        if fill > 0 {
            self.put(range.0, &vec![fill; usize::try_from(range.1).unwrap()]);
        }
        let sum: u64 = self.part(range).iter().map(|byte| u64::from(*byte)).sum();
        assert_eq!(self.mapper.sum(&self.mounted, range, fill), sum, "{range:?} mapped");
    }

    /// A hole has nothing but zeros, and a file has a hole behind it.
    fn seek(&mut self) {
        let mut at = 0;
        while at < self.len() {
            let hole = seek(self.file(), SeekFrom::Hole(at)).unwrap();
            assert!(hole >= at && hole <= self.len(), "a hole at {hole}");
            let data = seek(self.file(), SeekFrom::Data(hole)).unwrap_or(self.len());
            assert!(self.part((hole, data - hole)).iter().all(|byte| *byte == 0), "a hole {hole}..{data}");
            at = data.max(at + 1);
        }
    }

    /// Everything that is there, and what `fs cat` finds past the mount.
    fn compare(&mut self) {
        self.close();
        for mount in &self.mounted.mounts {
            let found = fs::read(mount.dir.join("f")).unwrap();
            assert_eq!(found.len(), self.model.len());
            let differs = found.iter().zip(&self.model).position(|(found, wanted)| found != wanted);
            assert_eq!(differs, None, "the first byte that is not as it was acknowledged");
        }
    }

    /// The mount goes on with the next daemon. No file is open here meanwhile: whatever a test starts has this process's files
    /// for a moment, and closes them, which waits for the daemon; it may be the next one.
    fn kill_daemon(&mut self) {
        self.close();
        self.mounted.next_daemon();
        self.compare();
    }

    fn kill_mount(&mut self) {
        self.mounted.first().signal(Signal::SIGKILL);
        self.mount_again();
        self.compare();
    }

    fn mount_again(&mut self) {
        self.mounted.first().ends();
        self.files[0] = None;
        self.mounted.first_again(&self.words);
    }

    /// Kills the mount's process while a write is under way.
    fn kill_in_the_midst(&mut self) {
        self.side = 0;
        let (at, len) = self.range();
        let data = self.data(len);
        let file = self.file().try_clone().unwrap();
        let (written, pause_us) = (data.clone(), self.rng.below(3000));
        let writer = dolmen_env::spawn("writer", move || file.write_all_at(&written, at)).unwrap();
        std::thread::park_timeout(core::time::Duration::from_micros(pause_us));
        self.mounted.first().signal(Signal::SIGKILL);
        // It ends: nobody waits for a process that is dead.
        let is_done = writer.join().unwrap().is_ok();
        self.mount_again();
        let old = self.model.clone();
        self.put(at, &data);
        let found = fs::read(self.mounted.path("f")).unwrap();
        if !is_done {
            assert!((old.len()..=self.model.len()).contains(&found.len()), "{} bytes", found.len());
            self.model.truncate(found.len());
            for (place, (wanted, found)) in self.model.iter_mut().zip(&found).enumerate() {
                let before = old.get(place).copied().unwrap_or(0);
                assert!([before, *wanted].contains(found), "byte {place} is neither the old nor the new one");
                *wanted = *found;
            }
        }
        self.compare();
    }
}

/// Tells of a run that fails how it is repeated.
struct Repeat(u64, u64, &'static str);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed, step, words) = *self;
            eprintln!("failed in step {step}: MOUNT_SEED={seed} MOUNT_STEPS={}, {words}", step + 1);
        }
    }
}

pub(super) fn run(name: &str, cache: &[&'static str], mounts: usize) {
    let (steps, seed) = (amount("MOUNT_STEPS", STEPS), amount("MOUNT_SEED", SEED));
    let words = [&["--cache"], cache].concat();
    let Some(mut mounted) = Mounted::served(name, &words) else { return };
    (2..=mounts).for_each(|n| mounted.mount(&format!("mnt{n}"), &words));
    let (mapper, rng, model) = (Mapper::new(), Rng::from_seed(seed), Vec::new());
    let files = (0..mounts).map(|_| None).collect();
    let mut run = Run { mounted, words, mapper, files, side: 0, model, rng, step: 0 };
    let mut repeat = Repeat(seed, 0, cache[0]);
    // So that there is a file to be compared.
    run.files();
    while run.step < steps {
        run.one_step();
        run.step += 1;
        repeat.1 = run.step;
    }
    run.compare();
    let Run { mounted, files, .. } = run;
    drop(files);
    mounted.finish();
}

#[test]
fn random_operations_and_kills_leave_what_was_acknowledged_where_nothing_is_remembered() {
    run("random-off", &["off"], 1);
}

#[test]
fn random_operations_and_kills_leave_what_was_acknowledged_where_contents_are_remembered() {
    run("random-data", &["data"], 1);
}

#[test]
fn random_operations_and_kills_leave_what_was_acknowledged_through_two_mounts_as_everybody_has_them() {
    run("random-two", &["metadata"], 2);
}

#[test]
fn random_operations_and_kills_leave_what_was_acknowledged_through_two_mounts_that_remember_nothing() {
    run("random-two-off", &["off"], 2);
}
