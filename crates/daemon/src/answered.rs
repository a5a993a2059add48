//! Answers of the daemon itself, for those who ask again because the answer was lost.
//!
//! The latest are in one small file beside the pools, which is replaced whole: what is about to be done before it is begun,
//! and what was answered before the answer is given. It stays with the directory that the daemon was started for, wherever that is moved.
//!
//! Invariants: a request is carried out by one thread at a time; what has begun names its pool, so that who asks again means
//! that one and no other; what was refused is not retained.

use dolmen_codec::bytes::{Reader, put_len};
use dolmen_codec::wire::{PoolEntry, SystemReply};
use dolmen_env::HeldDir;
use dolmen_types::{Error, Head, Label, RequestId, Result, Uuid, crc32c};
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A directory beside the pools, and the file in it.
const DIRECTORY: &str = ".answered";
const NAME: &str = "answers";

/// Answers that are kept: more than are on their way to those who run a system, in a file of some 30 KiB at most.
const ANSWERS_MAX: usize = 256;

const MAGIC: u64 = 0x5357_534e_414d_4c44;
const FORMAT: u32 = 1;
/// What this reader knows.
const FEATURES: u32 = 0;
const HEAD_BYTES: usize = 16;
const SUM_BYTES: usize = 4;
/// What an entry takes at least.
const ENTRY_BYTES_MIN: usize = 29;

/// How far a request has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Persistent number 1: a pool is about to be made, whose engines know each other by this key.
    Creates { pool: Uuid, key: u128 },
    /// Persistent number 2: a pool is about to be destroyed.
    Destroys { pool: Uuid },
    /// Persistent number 3.
    Done,
    /// Persistent number 4.
    Created(PoolEntry),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    id: RequestId,
    /// Whose it was: nobody else is told.
    uid: u32,
    outcome: Outcome,
}

/// The file cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Damaged,
    /// A newer version has written it.
    Newer,
}

/// The latest answers.
pub(crate) struct Answered {
    dir: Arc<HeldDir>,
    /// Guards the answers and their file; nothing is taken while it is held.
    state: Mutex<State>,
    /// Called when a request is not carried out any more.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    under_way: BTreeSet<(u128, u64)>,
}

/// One request that this thread alone carries out, if it is to be.
pub(crate) struct Turn<'a> {
    answered: &'a Answered,
    id: RequestId,
    uid: u32,
    found: Option<Outcome>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.answered.state();
        state.under_way.remove(&(self.id.client, self.id.sequence));
        // It was refused, which has changed nothing.
        state.entries.retain(|entry| entry.id != self.id || is_answer(&entry.outcome));
        self.answered.ended.notify_all();
    }
}

impl Answered {
    /// Those of the system in `dir`, and what was wrong with them.
    pub(crate) fn of(dir: &Arc<HeldDir>) -> (Self, core::result::Result<(), Fault>) {
        let place = dir.path().join(DIRECTORY);
        let found = match dolmen_env::read_small(&place, NAME) {
            Ok(bytes) => decode(&bytes),
            Err(error) if error.is_not_found() => Ok(VecDeque::new()),
            Err(_unreadable) => Err(Fault::Damaged),
        };
        let (entries, fault) = match found {
            Ok(entries) => (entries, Ok(())),
            Err(fault) => (VecDeque::new(), Err(fault)),
        };
        // An older daemon has left it to be read by all, and the keys of pools are in it.
        if fault.is_ok() && dolmen_env::is_open_to_others(&place.join(NAME)).is_ok_and(|is_open| is_open) {
            // Ignored: without room for it the next answer closes it.
            let _closed = write(dir, &entries);
        }
        let state = State { entries, under_way: BTreeSet::new() };
        (Self { dir: Arc::clone(dir), state: Mutex::new(state), ended: Condvar::new() }, fault)
    }

    /// Where they are on record.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join(DIRECTORY).join(NAME)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody carries the request out, and says how far it has come.
    ///
    /// # Errors
    /// `NoPermission` for another user's.
    pub(crate) fn turn(&self, head: &Head) -> Result<Turn<'_>> {
        let (id, uid) = (head.id, head.cred.uid);
        let mut state = self.state();
        // Without a number a request is asked once.
        while id.sequence != 0 && !state.under_way.insert((id.client, id.sequence)) {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let known = state.entries.iter().find(|entry| entry.id == id && id.sequence != 0);
        match known {
            Some(other) if other.uid != uid => {
                state.under_way.remove(&(id.client, id.sequence));
                self.ended.notify_all();
                Err(Error::NoPermission)
            }
            known => Ok(Turn { answered: self, id, uid, found: known.map(|entry| entry.outcome.clone()) }),
        }
    }

    /// The pools whose making was cut short with an earlier daemon, and that nobody asks for again now. Who does so meanwhile waits
    /// for [`Answered::let_go_of`].
    pub(crate) fn take_unmade(&self) -> Vec<(RequestId, Uuid, u128)> {
        let mut state = self.state();
        let State { entries, under_way } = &mut *state;
        let unmade = entries.iter().filter_map(|entry| match entry.outcome {
            Outcome::Creates { pool, key } => Some((entry.id, pool, key)),
            _ => None,
        });
        unmade.filter(|(id, ..)| under_way.insert((id.client, id.sequence))).collect()
    }

    /// Lets others ask for a pool again that was taken so. If nothing is left of it, it is then a new one; the next record says so.
    pub(crate) fn let_go_of(&self, id: RequestId, is_removed: bool) {
        let mut state = self.state();
        state.under_way.remove(&(id.client, id.sequence));
        if is_removed {
            state.entries.retain(|entry| entry.id != id);
        }
        self.ended.notify_all();
    }
}

impl Turn<'_> {
    /// What it was answered the first time.
    pub(crate) fn answer(&self) -> Option<SystemReply> {
        match self.found.as_ref()? {
            Outcome::Done => Some(SystemReply::Done),
            Outcome::Created(entry) => Some(SystemReply::Created(entry.clone())),
            Outcome::Creates { .. } | Outcome::Destroys { .. } => None,
        }
    }

    /// What it has begun before, and was not answered.
    pub(crate) fn begun(&self) -> Option<&Outcome> {
        self.found.as_ref()
    }

    /// Puts on record what it is about to do.
    ///
    /// # Errors
    /// Those of the device; it is known until the daemon ends all the same.
    pub(crate) fn begins(&self, outcome: Outcome) -> dolmen_env::Result<()> {
        self.put(outcome, |_| {})
    }

    /// Puts on record that it is about to destroy a pool; who has asked for its making is told that it was made.
    ///
    /// # Errors
    /// As [`Turn::begins`].
    pub(crate) fn destroys(&self, made: &PoolEntry) -> dolmen_env::Result<()> {
        let pool = made.uuid;
        self.put(Outcome::Destroys { pool }, |outcome| {
            if matches!(outcome, Outcome::Creates { pool: other, .. } if *other == pool) {
                *outcome = Outcome::Created(made.clone());
            }
        })
    }

    /// Puts the answer on record, which is then given.
    ///
    /// # Errors
    /// As [`Turn::begins`].
    pub(crate) fn ends(&self, reply: &SystemReply) -> dolmen_env::Result<()> {
        match reply {
            SystemReply::Done => self.put(Outcome::Done, |_| {}),
            SystemReply::Created(entry) => self.put(Outcome::Created(entry.clone()), |_| {}),
            _ => Ok(()),
        }
    }

    fn put(&self, outcome: Outcome, others: impl Fn(&mut Outcome)) -> dolmen_env::Result<()> {
        if self.id.sequence == 0 {
            return Ok(());
        }
        let mut state = self.answered.state();
        state.entries.retain(|entry| entry.id != self.id);
        state.entries.iter_mut().for_each(|entry| others(&mut entry.outcome));
        state.entries.push_back(Entry { id: self.id, uid: self.uid, outcome });
        while state.entries.len() > ANSWERS_MAX {
            state.entries.pop_front();
        }
        write(&self.answered.dir, &state.entries)
    }
}

fn write(dir: &HeldDir, entries: &VecDeque<Entry>) -> dolmen_env::Result<()> {
    dir.write_small(DIRECTORY, NAME, &encode(entries))
}

fn is_answer(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done | Outcome::Created(_))
}

fn encode(entries: &VecDeque<Entry>) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&FEATURES.to_le_bytes());
    put_len(&mut out, entries.len());
    for Entry { id, uid, outcome } in entries {
        out.extend_from_slice(&id.client.to_le_bytes());
        out.extend_from_slice(&id.sequence.to_le_bytes());
        out.extend_from_slice(&uid.to_le_bytes());
        match outcome {
            Outcome::Creates { pool, key } => {
                out.push(1);
                out.extend_from_slice(pool.as_bytes());
                out.extend_from_slice(&key.to_le_bytes());
            }
            Outcome::Destroys { pool } => {
                out.push(2);
                out.extend_from_slice(pool.as_bytes());
            }
            Outcome::Done => out.push(3),
            Outcome::Created(made) => {
                out.push(4);
                out.extend_from_slice(made.uuid.as_bytes());
                out.extend_from_slice(&made.target_count.to_le_bytes());
                out.extend_from_slice(&made.capacity_bytes.to_le_bytes());
                out.push(u8::from(made.volatile));
                let label = made.label.as_ref().map_or("", Label::as_str);
                put_len(&mut out, label.len());
                out.extend_from_slice(label.as_bytes());
            }
        }
    }
    let sum = crc32c(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> core::result::Result<VecDeque<Entry>, Fault> {
    let content_bytes = bytes.len().checked_sub(SUM_BYTES).ok_or(Fault::Damaged)?;
    let (content, sum) = bytes.split_at(content_bytes);
    if content.len() < HEAD_BYTES || sum != crc32c(content).to_le_bytes() {
        return Err(Fault::Damaged);
    }
    let mut r = Reader::new(content);
    if r.u64() != Some(MAGIC) {
        return Err(Fault::Damaged);
    }
    if r.u32() != Some(FORMAT) || r.u32().is_none_or(|features| features & !FEATURES != 0) {
        return Err(Fault::Newer);
    }
    entries(&mut r).filter(|_| r.remaining() == 0).ok_or(Fault::Damaged)
}

fn entries(r: &mut Reader<'_>) -> Option<VecDeque<Entry>> {
    let count = r.count(ENTRY_BYTES_MIN)?;
    (0..count)
        .map(|_| {
            let id = RequestId { client: r.u128()?, sequence: r.u64()? };
            let uid = r.u32()?;
            let outcome = match r.u8()? {
                1 => Outcome::Creates { pool: r.uuid()?, key: r.u128()? },
                2 => Outcome::Destroys { pool: r.uuid()? },
                3 => Outcome::Done,
                4 => Outcome::Created(created(r)?),
                _ => return None,
            };
            Some(Entry { id, uid, outcome })
        })
        .collect()
}

fn created(r: &mut Reader<'_>) -> Option<PoolEntry> {
    let (uuid, target_count, capacity_bytes, volatile) = (r.uuid()?, r.u32()?, r.u64()?, r.u8()? != 0);
    let label_bytes = r.count(1)?;
    let label = match core::str::from_utf8(r.take(label_bytes)?).ok()? {
        "" => None,
        text => Some(Label::new(text).ok()?),
    };
    Some(PoolEntry { uuid, label, target_count, capacity_bytes, connections: 0, volatile })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_types::Credentials;

    /// A directory of its own, removed with the value.
    struct Scratch(PathBuf);

    impl Scratch {
        fn held(&self) -> Arc<HeldDir> {
            Arc::new(HeldDir::open(&self.0).unwrap())
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    fn scratch(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("dolmen-answered-{name}-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Scratch(dir)
    }

    fn by(sequence: u64) -> Head {
        let cred = Credentials { uid: 7, gid: 0, project: 0 };
        Head { id: RequestId { client: 0x0102, sequence }, cred, ..Head::default() }
    }

    fn pool(number: u128) -> PoolEntry {
        PoolEntry {
            uuid: Uuid::from_u128(number),
            label: Some(Label::new("tank").unwrap()),
            target_count: 3,
            capacity_bytes: 1 << 30,
            connections: 0,
            volatile: true,
        }
    }

    #[test]
    fn what_an_older_daemon_has_left_to_all_is_closed_at_the_start() {
        use std::os::unix::fs::PermissionsExt;
        let dir = scratch("open");
        write(&dir.held(), &all()).unwrap();
        let path = dir.0.join(DIRECTORY).join(NAME);
        let is_open = || dolmen_env::is_open_to_others(&path).unwrap();
        assert!(!is_open());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let (answered, sound) = Answered::of(&dir.held());
        assert!(sound.is_ok() && !is_open());
        assert_eq!(decode(&std::fs::read(&path).unwrap()).map(|entries| entries.len()), Ok(all().len()));
        drop(answered);
    }

    fn all() -> VecDeque<Entry> {
        let uuid = Uuid::from_u128(5);
        [
            Outcome::Creates { pool: uuid, key: 6 },
            Outcome::Destroys { pool: uuid },
            Outcome::Done,
            Outcome::Created(pool(5)),
            Outcome::Created(PoolEntry { label: None, ..pool(5) }),
        ]
        .into_iter()
        .zip(3..)
        .map(|(outcome, sequence)| Entry { id: by(sequence).id, uid: 7, outcome })
        .collect()
    }

    #[test]
    fn golden_bytes_of_answers() {
        let of = |entry: &Entry| encode(&VecDeque::from([entry.clone()]));
        let uuid = Uuid::from_u128(5);
        let tank = [[3, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 1, 4, 0, 0, 0].as_slice(), b"tank"].concat();
        let unnamed = [3, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        let key = [&[6][..], &[0; 15]].concat();
        let bodies = [
            [&[1], uuid.as_bytes().as_slice(), &key].concat(),
            [&[2], uuid.as_bytes().as_slice()].concat(),
            vec![3],
            [&[4], uuid.as_bytes().as_slice(), &tank].concat(),
            [&[4], uuid.as_bytes().as_slice(), &unnamed].concat(),
        ];
        for ((entry, body), sequence) in all().iter().zip(bodies).zip(3..) {
            let golden = [
                b"DLMANSWS".as_slice(),
                &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
                &[2, 1],
                &[0; 14],
                &[sequence, 0, 0, 0, 0, 0, 0, 0],
                &[7, 0, 0, 0],
                &body,
            ]
            .concat();
            let bytes = of(entry);
            assert_eq!(bytes[..golden.len()], golden);
            assert_eq!(bytes[golden.len()..], crc32c(&golden).to_le_bytes());
        }
        assert_eq!(decode(&encode(&all())), Ok(all()));
    }

    #[test]
    fn damaged_answers_are_never_given_and_newer_ones_are_refused() {
        let bytes = encode(&all());
        for (at, _) in bytes.iter().enumerate() {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            assert_eq!(decode(&bad), Err(Fault::Damaged), "byte {at}");
            assert_eq!(decode(&bytes[..at]), Err(Fault::Damaged), "cut at {at}");
        }
        for (at, value) in [(8, 2), (12, 1)] {
            let mut newer = bytes[..bytes.len() - SUM_BYTES].to_vec();
            newer[at] = value;
            let sum = crc32c(&newer);
            newer.extend_from_slice(&sum.to_le_bytes());
            assert_eq!(decode(&newer), Err(Fault::Newer));
        }
    }

    #[test]
    fn answers_are_known_to_the_next_daemon_and_to_whom_they_were_given() {
        let dir = scratch("next");
        let (first, sound) = Answered::of(&dir.held());
        assert_eq!(sound, Ok(()));
        first.turn(&by(1)).unwrap().ends(&SystemReply::Done).unwrap();
        first.turn(&by(2)).unwrap().begins(Outcome::Creates { pool: Uuid::from_u128(5), key: 6 }).unwrap();
        // Without a number it is nobody's.
        first.turn(&by(0)).unwrap().ends(&SystemReply::Done).unwrap();
        assert_eq!(first.turn(&by(2)).unwrap().begun(), None, "it was refused");
        let (next, sound) = Answered::of(&dir.held());
        assert_eq!(sound, Ok(()));
        assert_eq!(next.turn(&by(1)).unwrap().answer(), Some(SystemReply::Done));
        let begun = Outcome::Creates { pool: Uuid::from_u128(5), key: 6 };
        assert_eq!(next.turn(&by(2)).unwrap().begun(), Some(&begun), "it was cut short");
        assert_eq!(next.turn(&by(0)).unwrap().answer(), None);
        let mut other = by(1);
        other.cred.uid = 8;
        assert_eq!(next.turn(&other).map(|turn| turn.answer()), Err(Error::NoPermission));
        assert_eq!(next.turn(&by(1)).unwrap().answer(), Some(SystemReply::Done), "and it is nobody's turn");
    }

    #[test]
    fn a_pool_that_others_have_destroyed_was_made() {
        let dir = scratch("made");
        let (first, _) = Answered::of(&dir.held());
        let making = first.turn(&by(1)).unwrap();
        making.begins(Outcome::Creates { pool: Uuid::from_u128(5), key: 6 }).unwrap();
        // The answer is not on record yet when the daemon dies.
        let (next, _) = Answered::of(&dir.held());
        next.turn(&by(2)).unwrap().destroys(&pool(5)).unwrap();
        assert_eq!(next.turn(&by(1)).unwrap().answer(), Some(SystemReply::Created(pool(5))));
        drop(making);
    }

    #[test]
    fn the_latest_answers_are_kept_and_no_more() {
        let dir = scratch("latest");
        let (first, _) = Answered::of(&dir.held());
        let last = ANSWERS_MAX as u64 + 1;
        (1..=last).for_each(|at| first.turn(&by(at)).unwrap().ends(&SystemReply::Done).unwrap());
        let (next, sound) = Answered::of(&dir.held());
        assert_eq!(sound, Ok(()));
        assert_eq!(next.turn(&by(1)).unwrap().answer(), None);
        assert_eq!(next.turn(&by(2)).unwrap().answer(), Some(SystemReply::Done));
    }

    #[test]
    fn who_asks_again_waits_for_who_carries_it_out() {
        let dir = scratch("waits");
        let (answered, _) = Answered::of(&dir.held());
        dolmen_env::scope(|threads| {
            let turn = answered.turn(&by(1)).unwrap();
            let again = threads.spawn(|| answered.turn(&by(1)).unwrap().answer());
            dolmen_env::yield_now();
            assert!(!again.is_finished(), "it is carried out still");
            turn.ends(&SystemReply::Done).unwrap();
            drop(turn);
            assert_eq!(again.join().unwrap(), Some(SystemReply::Done));
        });
    }
}
