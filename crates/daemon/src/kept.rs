//! Who has which pools and containers open, on record for the next daemon: whoever is connected and says nothing, as he computes,
//! has open what he has open, whatever becomes of the daemon meanwhile.
//!
//! One journal beside the pools, a record for the first handle of a process on a pool or a container and one for its last. What is
//! in it when a daemon starts was open when the last one ended. It stays so until the process has come back, or has ended where
//! that can be known, or what it had is taken from it.
//!
//! Invariants: what somebody was told that he has open is on record, and over a loss of power, too, if he may outlive it; what is
//! left of the last daemon only becomes less; records of what is left are never taken for what is open now.

use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_codec::bytes::Reader;
use dolmen_codec::pool::OpenFor;
use dolmen_codec::wire::PoolAccess;
use dolmen_env::{HeldDir, Journal, Process};
use dolmen_net::server::User;
use dolmen_types::{ContNo, Uuid, crc32c};
use std::collections::{BTreeMap, btree_map};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A directory beside the pools, and the file in it.
const DIRECTORY: &str = ".open";
const NAME: &str = "handles";

const MAGIC: u64 = 0x4e45_504f_4d4c_4f44;
const FORMAT: u32 = 1;
/// What this reader knows.
const FEATURES: u32 = 0;
const HEAD_BYTES: usize = 16;
const ENTRY_BYTES: usize = 88;

/// Bytes of a journal that is not worth being written anew: some thousand processes that have come and gone.
const JOURNAL_BYTES: u64 = 1 << 20;

/// The number that stands for the pool itself.
const POOL: ContNo = ContNo(0);

/// What a record is of.
type Key = (Uuid, ContNo, u128);

/// What is known of who has something open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Has {
    uid: u32,
    /// Where it runs on this machine, and the kernel says so.
    process: Option<Process>,
    /// He has it alone, by this word.
    alone: Option<u64>,
}

impl Has {
    /// Whether who comes with this word finds him in the way: he has it with others, or alone by another word.
    fn keeps_out(&self, word: u64) -> bool {
        self.alone.is_none_or(|known| known == 0 || known != word)
    }
}

/// A handle, or several, of one process.
#[derive(Debug)]
struct Held {
    has: Has,
    count: u32,
}

/// What is on record.
pub(crate) struct Kept {
    /// The system's directory: what is on record stays in it, wherever it is moved.
    dir: Arc<HeldDir>,
    /// Told what cannot be put on record.
    note: Box<dyn Fn(&str) + Send + Sync>,
    /// How much is left of the last daemon.
    left_count: AtomicU64,
    /// Guards the handles and their journal; nothing is taken while it is held.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    journal: Option<Journal>,
    /// Of this daemon.
    open: BTreeMap<Key, Held>,
    /// Of the last one.
    left: BTreeMap<Key, Has>,
    /// How often a pool was taken from all, or destroyed: what was open before counts no more.
    eras: BTreeMap<Uuid, u64>,
    /// The daemon ends: whoever is connected goes on with the next one.
    is_ending: bool,
    /// Something could not be put on record, and that was said.
    has_failed: bool,
}

/// One who has a pool open: it is so until this is dropped.
pub(crate) struct PoolUser {
    kept: Arc<Kept>,
    pool: Uuid,
    client: u128,
    has: Has,
    era: u64,
}

/// Who comes, as a process, and what he wants of a pool.
#[derive(Clone, Copy)]
pub(crate) struct Comer {
    /// What he calls himself; 0 is nobody, of whom nothing is kept.
    pub(crate) client: u128,
    pub(crate) uid: u32,
    /// His process, where the kernel says which.
    pub(crate) pid: Option<u32>,
}

impl Kept {
    /// What is on record for the system in `dir`; a journal that cannot be read is begun anew, and `note` is told.
    pub(crate) fn of(dir: &Arc<HeldDir>, note: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let mut state = State::default();
        // Without anybody who has had something open there is none.
        let open = |has: bool| has.then(|| Journal::open(dir, DIRECTORY, NAME)).transpose();
        match dir.has(DIRECTORY).and_then(open) {
            Ok(Some((journal, bytes))) => {
                let damaged_count = state.load(journal, &bytes);
                if damaged_count > 0 {
                    note(&format!(
                        "{damaged_count} records of who had what open are damaged: it may be taken from its users"
                    ));
                }
                state.left.retain(|_, has| !has.process.is_some_and(|process| process.is_gone()));
                state.write_anew();
            }
            Ok(None) => {}
            Err(error) => note(&format!("who had what open cannot be read: {error}")),
        }
        let left_count = AtomicU64::new(state.left.len() as u64);
        Self { dir: Arc::clone(dir), note: Box::new(note), left_count, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The daemon ends: connections end now whose clients go on with the next one.
    pub(crate) fn end(&self) {
        self.state().is_ending = true;
    }

    /// Somebody has a pool open from now on.
    pub(crate) fn connects(
        self: &Arc<Self>,
        pool: Uuid,
        comer: Comer,
        alone: Option<u64>,
    ) -> Option<Arc<PoolUser>> {
        let Comer { client, uid, pid } = comer;
        if client == 0 {
            return None;
        }
        let has = Has { uid, process: pid.and_then(Process::of), alone: None };
        let era = self.state().era(pool);
        let user = PoolUser { kept: Arc::clone(self), pool, client, has, era };
        user.opens(POOL, alone);
        Some(Arc::new(user))
    }

    /// Whether somebody else had a pool open with the last daemon and is in the way of who wants it now: alone, by a word, or not;
    /// for `None`, of who destroys it.
    pub(crate) fn is_refused(&self, pool: Uuid, client: u128, wanted: Option<(PoolAccess, u64)>) -> bool {
        self.is_in_the_way((pool, POOL, client), |has| match wanted {
            None => true,
            Some((PoolAccess::Exclusive, word)) => has.keeps_out(word),
            Some(_) => has.alone.is_some(),
        })
    }

    /// A pool was taken from all who had it, or destroyed.
    pub(crate) fn forget(&self, pool: Uuid) {
        let mut state = self.state();
        *state.eras.entry(pool).or_default() += 1;
        let is_its = |key: &Key| key.0 == pool;
        let open: Vec<Key> = state.open.keys().copied().filter(is_its).collect();
        let left: Vec<Key> = state.left.keys().copied().filter(is_its).collect();
        state.open.retain(|key, _| !is_its(key));
        state.left.retain(|key, _| !is_its(key));
        let gone: Vec<u8> = open.iter().chain(&left).flat_map(|key| encode(key, None)).collect();
        self.write(&mut state, &gone);
        self.count_left(&state);
    }

    /// Whether one of those of the last daemon, but for the process that asks, is in the way; whoever has ended is not.
    fn is_in_the_way(&self, (pool, cont, client): Key, is_it: impl Fn(&Has) -> bool) -> bool {
        if self.left_count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut state = self.state();
        let others: Vec<(Key, Has)> = state
            .left_of(pool, cont)
            .filter(|((_, _, other), _)| *other != client)
            .map(|(key, has)| (*key, *has))
            .collect();
        let (mut gone, mut is_refused) = (Vec::new(), false);
        for (key, has) in others {
            if has.process.is_some_and(|process| process.is_gone()) {
                state.left.remove(&key);
                gone.extend(encode(&key, None));
            } else {
                is_refused |= is_it(&has);
            }
        }
        self.write(&mut state, &gone);
        self.count_left(&state);
        is_refused
    }

    fn count_left(&self, state: &State) {
        self.left_count.store(state.left.len() as u64, Ordering::Release);
    }

    /// Appends to the journal what the state has by now. What it does not take is not known to the next daemon; that must not keep anybody from his data.
    fn write(&self, state: &mut State, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let written = match &mut state.journal {
            Some(journal) => journal.append(bytes),
            None => state.begin(&self.dir),
        };
        match written {
            Ok(()) => state.has_failed = false,
            Err(error) if !state.has_failed => {
                state.has_failed = true;
                (self.note)(&format!(
                    "who has what open cannot be put on record, and is known until this daemon ends: {error}"
                ));
            }
            Err(_told) => {}
        }
        let live_bytes = ((state.open.len() + state.left.len()) * ENTRY_BYTES) as u64;
        if state.journal.as_ref().is_some_and(|journal| {
            journal.byte_count() > JOURNAL_BYTES && journal.byte_count() > 4 * live_bytes
        }) {
            state.write_anew();
        }
    }
}

impl State {
    fn era(&self, pool: Uuid) -> u64 {
        self.eras.get(&pool).copied().unwrap_or(0)
    }

    /// What the last daemon has left of a pool, or of one of its containers.
    fn left_of(&self, pool: Uuid, cont: ContNo) -> btree_map::Range<'_, Key, Has> {
        self.left.range((pool, cont, 0)..=(pool, cont, u128::MAX))
    }

    /// Begins the journal, with what there is.
    fn begin(&mut self, dir: &HeldDir) -> dolmen_env::Result<()> {
        let (mut journal, _unread) = Journal::open(dir, DIRECTORY, NAME)?;
        journal.replace(&self.contents())?;
        self.journal = Some(journal);
        Ok(())
    }

    /// Has the journal say what there is, and no more.
    fn write_anew(&mut self) {
        let bytes = self.contents();
        // Ignored: the old one says the same at greater length.
        let _longer = self.journal.as_mut().map(|journal| journal.replace(&bytes));
    }

    fn contents(&self) -> Vec<u8> {
        let mut bytes = head();
        let open = self.open.iter().map(|(key, held)| (key, &held.has));
        for (key, has) in open.chain(&self.left) {
            bytes.extend(encode(key, Some(has)));
        }
        bytes
    }

    /// Takes what a journal says for left of the last daemon; how many records of it are damaged. Of the last one a part may be
    /// there: nobody was told what it says.
    fn load(&mut self, mut journal: Journal, bytes: &[u8]) -> usize {
        let mut r = Reader::new(bytes);
        let is_known = r.u64() == Some(MAGIC) && r.u32() == Some(FORMAT) && r.u32() == Some(FEATURES);
        if !is_known {
            // It is written anew with the first record.
            return usize::from(!bytes.is_empty());
        }
        let torn_bytes = (bytes.len() - HEAD_BYTES) % ENTRY_BYTES;
        journal.cut((bytes.len() - torn_bytes) as u64);
        self.journal = Some(journal);
        let records = bytes[HEAD_BYTES..].chunks(ENTRY_BYTES);
        let count = records.len();
        let mut damaged_count = 0;
        for (at, record) in records.enumerate() {
            match decode(record) {
                Some((key, Some(has))) => drop(self.left.insert(key, has)),
                Some((key, None)) => drop(self.left.remove(&key)),
                None => damaged_count += usize::from(at + 1 < count),
            }
        }
        damaged_count
    }
}

impl PoolUser {
    fn key(&self, cont: ContNo) -> Key {
        (self.pool, cont, self.client)
    }

    fn is_of_now(&self, state: &State) -> bool {
        state.era(self.pool) == self.era
    }

    fn take_off(&self, cont: ContNo, count: u32, ends_with_daemon: bool) {
        let mut state = self.kept.state();
        if !self.is_of_now(&state) || ends_with_daemon && state.is_ending {
            return;
        }
        let key = self.key(cont);
        let Some(held) = state.open.get_mut(&key) else { return };
        held.count = held.count.saturating_sub(count);
        if held.count == 0 {
            state.open.remove(&key);
            self.kept.write(&mut state, &encode(&key, None));
        }
    }
}

impl User for PoolUser {
    fn opens(&self, cont: ContNo, alone: Option<u64>) {
        let key = self.key(cont);
        let mut state = self.kept.state();
        if !self.is_of_now(&state) {
            return;
        }
        if let Some(held) = state.open.get_mut(&key) {
            held.count += 1;
            return;
        }
        let has = Has { alone, ..self.has };
        let left = state.left.get(&key).copied();
        if left.is_some_and(|left| (left.uid, left.process) == (has.uid, has.process)) {
            state.left.remove(&key);
        }
        let is_known = left == Some(has);
        state.open.insert(key, Held { has, count: 1 });
        if !is_known {
            self.kept.write(&mut state, &encode(&key, Some(&has)));
        }
        self.kept.count_left(&state);
        // A process of this machine ends with it.
        let syncs = state.journal.as_ref().filter(|_| has.process.is_none()).map(Journal::syncs);
        drop(state);
        // Ignored: a device that fails is told of where what is stored is written.
        let _synced = syncs.filter(|_| !is_known).map(|syncs| syncs.sync());
    }

    fn closes(&self, cont: ContNo, count: u32) {
        self.take_off(cont, count, false);
    }

    fn leaves(&self, cont: ContNo, count: u32) {
        self.take_off(cont, count, true);
    }

    fn gives_up(&self, cont: ContNo) -> bool {
        if self.kept.left_count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let (key, mut state) = (self.key(cont), self.kept.state());
        let is_his = |left: &Has| (left.uid, left.process) == (self.has.uid, self.has.process);
        if !self.is_of_now(&state) || !state.left.get(&key).is_some_and(is_his) {
            return false;
        }
        state.left.remove(&key);
        // What he has open by another connection stays on record.
        if !state.open.contains_key(&key) {
            self.kept.write(&mut state, &encode(&key, None));
        }
        self.kept.count_left(&state);
        true
    }

    fn others(&self) -> (bool, bool) {
        if self.kept.left_count.load(Ordering::Acquire) == 0 {
            return (false, false);
        }
        let state = self.kept.state();
        let of_pool = state.left.range((self.pool, ContNo(1), 0)..=(self.pool, ContNo(u32::MAX), u128::MAX));
        let mut others = of_pool.filter(|((_, _, client), _)| *client != self.client);
        let is_any = others.clone().next().is_some();
        (is_any, others.any(|(_, has)| has.alone.is_some()))
    }

    fn is_refused(&self, cont: ContNo, wanted: Option<OpenFor>) -> bool {
        self.kept.is_in_the_way(self.key(cont), |has| match wanted {
            None => true,
            Some(OpenFor::Alone(word) | OpenFor::Joining(word)) => has.keeps_out(word),
            Some(OpenFor::Any | OpenFor::Change) => has.alone.is_some(),
            Some(OpenFor::Evicting) => false,
        })
    }

    fn has_word(&self, cont: ContNo, word: u64) -> bool {
        let state = self.kept.state();
        word != 0 && state.left_of(self.pool, cont).any(|(_, has)| has.alone == Some(word))
    }

    fn evicts(&self, cont: ContNo, uid: Option<u32>) {
        let mut state = self.kept.state();
        let lost = state
            .left_of(self.pool, cont)
            .filter(|((_, _, client), has)| *client != self.client && uid.is_none_or(|uid| uid == has.uid));
        let lost: Vec<Key> = lost.map(|(key, _)| *key).collect();
        state.left.retain(|key, _| !lost.contains(key));
        let gone: Vec<u8> = lost.iter().flat_map(|key| encode(key, None)).collect();
        self.kept.write(&mut state, &gone);
        self.kept.count_left(&state);
    }
}

impl Drop for PoolUser {
    fn drop(&mut self) {
        self.take_off(POOL, 1, true);
    }
}

fn head() -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_BYTES);
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&FEATURES.to_le_bytes());
    out
}

/// Bits of what a record says. Persistent: never renumber.
const IS_OPEN: u32 = 1;
const IS_ALONE: u32 = 2;
const IS_HERE: u32 = 4;

fn encode((pool, cont, client): &Key, has: Option<&Has>) -> Vec<u8> {
    let nobody = Has { uid: 0, process: None, alone: None };
    let Has { uid, process, alone } = has.copied().unwrap_or(nobody);
    let Process { pid, started, boot, space } =
        process.unwrap_or(Process { pid: 0, started: 0, boot: 0, space: 0 });
    let bit = |is: bool, bit: u32| if is { bit } else { 0 };
    let flags =
        bit(has.is_some(), IS_OPEN) | bit(alone.is_some(), IS_ALONE) | bit(process.is_some(), IS_HERE);
    let mut out = Vec::with_capacity(ENTRY_BYTES);
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&cont.0.to_le_bytes());
    out.extend_from_slice(pool.as_bytes());
    out.extend_from_slice(&client.to_le_bytes());
    out.extend_from_slice(&alone.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&started.to_le_bytes());
    out.extend_from_slice(&boot.to_le_bytes());
    out.extend_from_slice(&uid.to_le_bytes());
    out.extend_from_slice(&pid.to_le_bytes());
    out.extend_from_slice(&space.to_le_bytes());
    out.extend_from_slice(&crc32c(&out).to_le_bytes());
    assert!(out.len() == ENTRY_BYTES);
    out
}

/// What a record says of whom; `None` within for who has it open no more.
fn decode(bytes: &[u8]) -> Option<(Key, Option<Has>)> {
    let (content, sum) = bytes.split_last_chunk::<4>()?;
    if bytes.len() != ENTRY_BYTES || *sum != crc32c(content).to_le_bytes() {
        return None;
    }
    let mut r = Reader::new(content);
    let (flags, cont, pool, client) = (r.u32()?, ContNo(r.u32()?), r.uuid()?, r.u128()?);
    let (word, started, boot, uid, pid, space) =
        (r.u64()?, r.u64()?, r.u128()?, r.u32()?, r.u32()?, r.u32()?);
    if flags & !(IS_OPEN | IS_ALONE | IS_HERE) != 0 {
        return None;
    }
    let process = (flags & IS_HERE != 0).then_some(Process { pid, started, boot, space });
    let alone = (flags & IS_ALONE != 0).then_some(word);
    let has = (flags & IS_OPEN != 0).then_some(Has { uid, process, alone });
    Some(((pool, cont, client), has))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const CONT: ContNo = ContNo(7);

    /// A directory of its own, removed with the value.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("dolmen-kept-{name}-{}", std::process::id()));
            std::fs::create_dir(&dir).unwrap();
            Self(dir)
        }

        fn held(&self) -> Arc<HeldDir> {
            Arc::new(HeldDir::open(&self.0).unwrap())
        }

        /// As the next daemon finds it.
        fn kept(&self) -> Arc<Kept> {
            Arc::new(Kept::of(&self.held(), |text| panic!("{text}")))
        }

        /// What the next daemon would find.
        fn on_record(&self) -> Vec<Key> {
            let mut state = State::default();
            let (journal, bytes) = Journal::open(&self.held(), DIRECTORY, NAME).unwrap();
            assert_eq!(state.load(journal, &bytes), 0);
            state.left.into_keys().collect()
        }

        fn journal(&self) -> PathBuf {
            self.0.join(DIRECTORY).join(NAME)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    fn pool() -> Uuid {
        Uuid::from_u128(5)
    }

    /// One who comes over a network, of whom nobody knows whether he lives.
    fn connect(kept: &Arc<Kept>, client: u128) -> Arc<PoolUser> {
        kept.connects(pool(), Comer { client, uid: 1000, pid: None }, None).unwrap()
    }

    fn is_refused(user: &PoolUser, wanted: [Option<OpenFor>; 4]) -> [bool; 4] {
        wanted.map(|wanted| user.is_refused(CONT, wanted))
    }

    #[test]
    fn what_somebody_has_open_is_open_after_the_daemon_until_he_comes_back_or_loses_it() {
        use OpenFor::{Alone, Any, Joining};
        let dir = Scratch::new("open");
        let ask = [Some(Any), Some(Alone(3)), Some(Joining(3)), None];
        let user = connect(&dir.kept(), 1);
        user.opens(CONT, None);
        user.opens(CONT, None);
        user.closes(CONT, 1);
        core::mem::forget(user);
        for has_come_back in [false, true] {
            let kept = dir.kept();
            let other = connect(&kept, 2);
            assert_eq!(other.others(), (true, false));
            assert_eq!(is_refused(&other, ask), [false, true, true, true]);
            assert!(!other.is_refused(ContNo(8), None), "another container");
            assert!(kept.is_refused(pool(), 2, None), "nor is the pool destroyed");
            assert!(kept.is_refused(pool(), 2, Some((PoolAccess::Exclusive, 3))));
            assert!(!kept.is_refused(pool(), 2, Some((PoolAccess::ReadWrite, 0))));
            assert!(!kept.is_refused(Uuid::nil(), 2, None));
            let own = connect(&kept, 1);
            assert_eq!(is_refused(&own, ask), [false; 4], "nobody is in his own way");
            if has_come_back {
                own.opens(CONT, None);
                assert_eq!(other.others(), (false, false), "it is for the service to say now");
                own.closes(CONT, 1);
            } else {
                core::mem::forget(own);
                core::mem::forget(other);
            }
        }
        let last = connect(&dir.kept(), 3);
        assert_eq!(is_refused(&last, ask), [false; 4]);
    }

    #[test]
    fn who_has_something_alone_has_it_so_after_the_daemon_and_shares_it_by_its_word() {
        use OpenFor::{Alone, Any, Joining};
        let dir = Scratch::new("alone");
        let user = connect(&dir.kept(), 1);
        user.opens(CONT, Some(3));
        core::mem::forget(user);
        let kept = dir.kept();
        let other = connect(&kept, 2);
        assert_eq!(other.others(), (true, true));
        assert_eq!(is_refused(&other, [Some(Any), Some(Alone(4)), Some(Joining(4)), None]), [true; 4]);
        let joined = [Some(OpenFor::Evicting), Some(Alone(3)), Some(Joining(3)), None];
        assert_eq!(is_refused(&other, joined), [false, false, false, true]);
        assert_eq!([3, 4].map(|word| other.has_word(CONT, word)), [true, false]);
        // One who is alone without a word shares it with nobody.
        let unshared = Arc::clone(&kept).connects(pool(), Comer { client: 9, uid: 0, pid: None }, Some(0));
        core::mem::forget(unshared);
        let next = dir.kept();
        assert!(next.is_refused(pool(), 2, Some((PoolAccess::Exclusive, 0))));
        assert!(next.is_refused(pool(), 2, Some((PoolAccess::ReadOnly, 0))));
    }

    #[test]
    fn evictions_and_the_end_of_a_pool_or_a_process_take_what_is_left() {
        let dir = Scratch::new("taken");
        let own = std::process::id();
        let come = |kept: &Arc<Kept>, client, uid, pid| {
            let user = kept.connects(pool(), Comer { client, uid, pid }, None).unwrap();
            user.opens(CONT, None);
            core::mem::forget(user);
        };
        let kept = dir.kept();
        come(&kept, 1, 1000, None);
        come(&kept, 2, 2000, Some(own));
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        come(&kept, 3, 3000, Some(child.id()));
        let count = |kept: &Kept| kept.state().left.keys().filter(|key| key.1 == CONT).count();
        let kept = dir.kept();
        assert_eq!(count(&kept), 3);
        let by = connect(&kept, 4);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(by.is_refused(CONT, None));
        assert_eq!(count(&kept), 2, "who has ended has nothing open");
        by.evicts(CONT, Some(2000));
        assert_eq!(count(&kept), 1);
        let is_cont = |key: &&Key| key.1 == CONT;
        assert_eq!(dir.on_record().iter().filter(is_cont).count(), 1);
        by.evicts(CONT, None);
        assert!(!by.is_refused(CONT, None));
        // A pool that is taken from all: what was open before is counted by nobody any more.
        by.opens(CONT, None);
        kept.forget(pool());
        assert!(dir.on_record().is_empty());
        by.opens(CONT, None);
        let new = connect(&kept, 4);
        drop(by);
        assert_eq!(dir.on_record().len(), 1, "the new one stays");
        drop(new);
        assert!(dir.on_record().is_empty());
    }

    #[test]
    fn what_somebody_gives_up_before_he_opens_it_again_is_open_no_more() {
        let dir = Scratch::new("given-up");
        let kept = dir.kept();
        [1, 2].map(|client| connect(&kept, client)).iter().for_each(|user| user.opens(CONT, Some(3)));
        kept.end();
        let kept = dir.kept();
        let [own, other] = [1, 2].map(|client| connect(&kept, client));
        assert!(!own.gives_up(ContNo(8)), "he had no other");
        assert!(own.gives_up(CONT));
        assert!(!own.gives_up(CONT), "once");
        let of_cont = || {
            let keys = dir.on_record().into_iter().filter(|key| key.1 == CONT);
            keys.map(|key| key.2).collect::<Vec<u128>>()
        };
        assert_eq!(of_cont(), [2], "that of another stays");
        // What he has opened since is not what he had.
        other.opens(CONT, Some(3));
        assert!(!other.gives_up(CONT));
        assert_eq!(of_cont(), [2]);
        // Who calls himself as another does takes nothing from him.
        kept.end();
        drop((own, other));
        let kept = dir.kept();
        let thief = kept.connects(pool(), Comer { client: 2, uid: 7, pid: None }, None).unwrap();
        assert!(!thief.gives_up(CONT));
        assert_eq!(of_cont(), [2]);
    }

    #[test]
    fn connections_that_end_with_the_daemon_have_not_given_anything_up() {
        let dir = Scratch::new("end");
        let kept = dir.kept();
        let [user, other] = [1, 2].map(|client| connect(&kept, client));
        [&user, &other].iter().for_each(|user| user.opens(CONT, None));
        other.leaves(CONT, 1);
        drop(other);
        kept.end();
        user.leaves(CONT, 1);
        drop(user);
        let clients: Vec<u128> = dir.kept().state().left.keys().map(|key| key.2).collect();
        assert_eq!(clients, [1, 1]);
    }

    #[test]
    fn what_is_on_record_goes_where_the_directory_was_moved_and_leaves_that_of_another_alone() {
        let mut dir = Scratch::new("moved");
        let (kept, before) = (dir.kept(), dir.0.clone());
        dir.0 = before.with_extension("after");
        std::fs::rename(&before, &dir.0).unwrap();
        let other = Scratch(before);
        std::fs::create_dir(&other.0).unwrap();
        core::mem::forget(connect(&other.kept(), 7));
        // One who is the first to be put on record, and more than are appended.
        core::mem::forget(connect(&kept, 1));
        let user = connect(&kept, 2);
        user.opens(CONT, None);
        kept.state().write_anew();
        drop(user);
        let clients = |dir: &Scratch| dir.on_record().into_iter().map(|key| key.2).collect::<Vec<u128>>();
        assert_eq!((clients(&other), clients(&dir)[..].contains(&1)), (vec![7], true));
    }

    #[test]
    fn a_journal_that_was_cut_anywhere_says_what_was_said_before() {
        let dir = Scratch::new("cut");
        let kept = dir.kept();
        let users = [1, 2, 3].map(|client| connect(&kept, client));
        users[0].opens(CONT, Some(3));
        let whole = std::fs::read(dir.journal()).unwrap();
        assert_eq!(whole.len(), HEAD_BYTES + 4 * ENTRY_BYTES);
        core::mem::forget(users);
        for len in 0..=whole.len() {
            std::fs::write(dir.journal(), &whole[..len]).unwrap();
            let said = Arc::new(Mutex::new(0));
            let noted = Arc::clone(&said);
            let kept = Arc::new(Kept::of(&dir.held(), move |_| *noted.lock().unwrap() += 1));
            let count = len.saturating_sub(HEAD_BYTES) / ENTRY_BYTES;
            assert_eq!(kept.state().left.len(), count, "{len} bytes");
            assert_eq!(*said.lock().unwrap(), i32::from(len > 0 && len < HEAD_BYTES));
            // What is put on record after that is there.
            core::mem::forget(connect(&kept, 9));
            assert_eq!(dir.on_record().len(), count + 1, "{len} bytes");
        }
        // A record that is damaged in the middle is passed over, and said.
        for at in HEAD_BYTES..whole.len() - ENTRY_BYTES {
            let mut bad = whole.clone();
            bad[at] ^= 4;
            let mut state = State::default();
            std::fs::write(dir.journal(), &bad).unwrap();
            let (journal, bytes) = Journal::open(&dir.held(), DIRECTORY, NAME).unwrap();
            assert_eq!(state.load(journal, &bytes), 1, "byte {at}");
            assert_eq!(state.left.len(), 3);
        }
    }

    #[test]
    fn golden_bytes_of_a_record() {
        let process = Some(Process { pid: 6, started: 7, boot: 8, space: 9 });
        let has = Has { uid: 1000, process, alone: Some(10) };
        let bytes = encode(&(Uuid::from_u128(1), ContNo(2), 3), Some(&has));
        let golden = [
            [7, 0, 0, 0, 2, 0, 0, 0].as_slice(),
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[10, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0],
            &[8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0xe8, 3, 0, 0, 6, 0, 0, 0, 9, 0, 0, 0],
        ]
        .concat();
        assert_eq!(bytes[..golden.len()], golden);
        assert_eq!(bytes[golden.len()..], crc32c(&golden).to_le_bytes());
        assert_eq!(head(), [b"DOLMOPEN".as_slice(), &[1, 0, 0, 0, 0, 0, 0, 0]].concat());
        for flags in 0..8 {
            let (has_process, alone) = (flags & 4 != 0, (flags & 2 != 0).then_some(10));
            let has = Has { uid: 1000, process: process.filter(|_| has_process), alone };
            let key = (Uuid::from_u128(1), ContNo(2), 3);
            assert_eq!(decode(&encode(&key, Some(&has))), Some((key, Some(has))));
            assert_eq!(decode(&encode(&key, None)), Some((key, None)));
        }
    }

    #[test]
    fn a_journal_does_not_grow_with_those_who_come_and_go() {
        let dir = Scratch::new("grown");
        let kept = dir.kept();
        let stays = connect(&kept, 1);
        let own = std::process::id();
        for client in 2..20_000 {
            drop(kept.connects(pool(), Comer { client, uid: 0, pid: Some(own) }, None));
        }
        assert!(std::fs::metadata(dir.journal()).unwrap().len() <= JOURNAL_BYTES + 2 * ENTRY_BYTES as u64);
        core::mem::forget(stays);
        assert_eq!(dir.kept().state().left.len(), 1);
    }
}
