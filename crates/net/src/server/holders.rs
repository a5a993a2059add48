//! Who has which containers of a pool open, over all threads of connections: so that handles can be taken from others.
//!
//! Invariants: each handle that the pool's service counts belongs to one connection here, or is on its way to one or back;
//! whoever takes it out gives it back to the service, once. A handle that is on its way when others are taken is taken, too,
//! as soon as it comes, or comes back from a close that has failed.

use super::kept::User;
use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_codec::evictions::Evictions;
use dolmen_codec::pool::{ContHandle, Whose};
use dolmen_types::ContNo;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Containers whose latest evictions are remembered, for handles that were on their way then. If there are more, whatever has
/// been on its way for longer than what is forgotten is taken.
const TOLD_MAX: usize = 4096;

/// The handles of all connections to one pool.
#[derive(Debug, Default)]
pub struct Holders {
    /// How often handles were taken from connections: who remembers another number looks what it has lost.
    taken: AtomicU64,
    /// Guards who holds what; taken alone, to open, close and evict.
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    by_key: BTreeMap<u64, Holder>,
    /// The latest evictions of containers of which handles were taken.
    told: BTreeMap<ContNo, Told>,
    /// How many evictions were told: the time by which handles set out.
    now: u64,
    /// Until when evictions may be forgotten.
    forgotten: u64,
}

/// Evictions of a container, and who goes on nevertheless: the connection, or the client, that has asked for the last.
#[derive(Debug, Default)]
struct Told {
    evictions: Evictions,
    key: u64,
    client: u128,
    at: u64,
}

/// A connection's use of the pool.
struct Holder {
    uid: u32,
    /// Where it is remembered for the next daemon what it has.
    user: Option<Arc<dyn User>>,
    conts: BTreeMap<ContNo, Held>,
}

/// Handles of one connection on a container.
#[derive(Clone, Copy, Debug)]
struct Held {
    count: u32,
    /// How often its user had lost handles on it when the last of these was opened.
    evictions: u64,
    /// The client, as in the ids of its requests.
    client: u128,
    /// It has them alone, by this word.
    alone: Option<u64>,
}

/// A handle on its way: to its connection, or out of its hands and perhaps back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Away {
    /// How often its user had lost handles on the container by the time of this one.
    evictions: u64,
    client: u128,
    alone: Option<u64>,
    since: u64,
}

impl Holders {
    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a user's connection, and says under which number.
    pub(super) fn enter(&self, uid: u32, user: Option<Arc<dyn User>>) -> u64 {
        let mut all = self.all();
        all.next += 1;
        let key = all.next;
        all.by_key.insert(key, Holder { uid, user, conts: BTreeMap::new() });
        key
    }

    /// Changes whenever somebody loses handles.
    #[inline]
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Containers that a connection has open.
    pub(super) fn count(&self, key: u64) -> usize {
        self.all().by_key.get(&key).map_or(0, |holder| holder.conts.len())
    }

    /// Whether a connection has a container open.
    pub(super) fn has(&self, key: u64, cont: ContNo) -> bool {
        self.all().by_key.get(&key).is_some_and(|holder| holder.conts.contains_key(&cont))
    }

    /// A handle is about to be opened for `client`, alone by a word if there is one. REQUIRES: the container is looked at after
    /// this.
    pub(super) fn opening(&self, client: u128, alone: Option<u64>) -> Away {
        Away { evictions: 0, client, alone, since: self.all().now }
    }

    /// A connection has a handle more; false if it was taken while it was on its way: handles were taken after whoever opened it
    /// had looked at the container.
    pub(super) fn opened(&self, key: u64, cont: &ContHandle, away: Away) -> bool {
        let mut all = self.all();
        let Some(uid) = all.by_key.get(&key).map(|holder| holder.uid) else { return false };
        let evictions = Evictions::of(&cont.props).count(uid);
        all.arrives(key, cont.no, Away { evictions, ..away })
    }

    /// A connection has a handle again that could not be closed; false if it was taken meanwhile.
    pub(super) fn kept(&self, key: u64, cont: ContNo, away: Away) -> bool {
        let mut all = self.all();
        let is_kept = all.arrives(key, cont, away);
        if is_kept && let Some(user) = all.by_key.get(&key).and_then(|holder| holder.user.as_ref()) {
            user.opens(cont, away.alone);
        }
        is_kept
    }

    /// Handles on a container have been taken from their users so often, as the engine with the pool's service tells one that
    /// has a part: those end that are older. Those of the client `by`, who has asked for it, go on; 0 for none.
    pub fn end_older(&self, cont: ContNo, evictions: &Evictions, by: u128) {
        let mut all = self.all();
        all.tell(cont, evictions, (0, by));
        for holder in all.by_key.values_mut() {
            let now = evictions.count(holder.uid);
            let Some(held) = holder.conts.get_mut(&cont).filter(|held| held.evictions < now) else {
                continue;
            };
            if by != 0 && held.client == by {
                held.evictions = now;
            } else {
                holder.lose(cont);
            }
        }
        self.taken.fetch_add(1, Ordering::Release);
    }

    /// Takes a handle from a connection that is about to close it, with how many it has left; `None` if it had none.
    pub(super) fn closing(&self, key: u64, cont: ContNo) -> Option<(u32, Away)> {
        let mut all = self.all();
        let since = all.now;
        let Holder { conts, user, .. } = all.by_key.get_mut(&key)?;
        let held = conts.get_mut(&cont)?;
        held.count -= 1;
        let Held { count: left, evictions, client, alone } = *held;
        if left == 0 {
            conts.remove(&cont);
        }
        user.iter().for_each(|user| user.closes(cont, 1));
        Some((left, Away { evictions, client, alone, since }))
    }

    /// Forgets a connection; what it has held is to be given back.
    pub(super) fn leave(&self, key: u64) -> BTreeMap<ContNo, u32> {
        let Some(Holder { conts, user, .. }) = self.all().by_key.remove(&key) else { return BTreeMap::new() };
        let left: BTreeMap<ContNo, u32> = conts.into_iter().map(|(cont, held)| (cont, held.count)).collect();
        user.iter().for_each(|user| left.iter().for_each(|(&cont, &count)| user.leaves(cont, count)));
        left
    }

    /// Takes the handles on a container from all others, or from those of the same user; how many they are. Those that were
    /// opened after it stay: whoever asks again for an eviction that was made already takes nothing from newcomers.
    pub(super) fn take(&self, key: u64, cont: ContNo, whose: Whose, evictions: &Evictions) -> u32 {
        let mut all = self.all();
        let Some(uid) = all.by_key.get(&key).map(|own| own.uid) else { return 0 };
        all.tell(cont, evictions, (key, 0));
        let is_meant = |(other, holder): &(&u64, &mut Holder)| {
            let is_older = |held: &Held| held.evictions < evictions.count(holder.uid);
            **other != key
                && (whose == Whose::All || holder.uid == uid)
                && holder.conts.get(&cont).is_some_and(is_older)
        };
        let taken = all.by_key.iter_mut().filter(is_meant).filter_map(|(_, holder)| holder.lose(cont));
        let count = taken.map(|held| held.count).sum();
        // Under the lock, so that whoever sees the number finds what it is about.
        self.taken.fetch_add(1, Ordering::Release);
        count
    }
}

impl Holder {
    /// Loses its handles on a container.
    fn lose(&mut self, cont: ContNo) -> Option<Held> {
        let held = self.conts.remove(&cont)?;
        self.user.iter().for_each(|user| user.closes(cont, held.count));
        Some(held)
    }
}

impl core::fmt::Debug for Holder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Holder").field("uid", &self.uid).field("conts", &self.conts).finish_non_exhaustive()
    }
}

impl All {
    /// A handle comes to its connection, unless its user has lost those of its age meanwhile.
    fn arrives(&mut self, key: u64, cont: ContNo, away: Away) -> bool {
        let Away { mut evictions, client, alone, since } = away;
        let Some(holder) = self.by_key.get_mut(&key) else { return false };
        match self.told.get(&cont) {
            Some(told) => {
                let now = told.evictions.count(holder.uid);
                let goes_on = told.key == key || client != 0 && told.client == client;
                if evictions < now && !goes_on {
                    return false;
                }
                evictions = evictions.max(now);
            }
            None if since < self.forgotten => return false,
            None => {}
        }
        let held = holder.conts.entry(cont).or_insert(Held { count: 0, evictions, client, alone });
        let (count, evictions) = (held.count + 1, held.evictions.max(evictions));
        *held = Held { count, evictions, client, alone: held.alone.or(alone) };
        true
    }

    /// Remembers evictions for handles that are on their way. Late ones change nothing.
    fn tell(&mut self, cont: ContNo, evictions: &Evictions, (key, client): (u64, u128)) {
        let told = self.told.entry(cont).or_default();
        let before = told.evictions.clone();
        told.evictions.raise(evictions);
        if told.evictions != before {
            self.now += 1;
            (told.key, told.client, told.at) = (key, client, self.now);
        }
        if self.told.len() > TOLD_MAX {
            // Each has a time of its own, so that half of them are left.
            self.forgotten = self.now - TOLD_MAX as u64 / 2;
            self.told.retain(|_, told| told.at > self.forgotten);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use dolmen_codec::order::HashKey;
    use dolmen_codec::pool::OpenFor;
    use dolmen_types::{PropId, PropValue, Props, Uuid};

    const CONT: ContNo = ContNo(7);

    fn cont(no: ContNo, evictions: &Evictions) -> ContHandle {
        let props = Props::from([(PropId::CO_EVICTIONS, PropValue::Bytes(evictions.encode()))]);
        ContHandle { no, uuid: Uuid::nil(), label: None, hash_key: HashKey([0; 16]), props }
    }

    fn opened(holders: &Holders, key: u64, cont: &ContHandle, client: u128) -> bool {
        holders.opened(key, cont, holders.opening(client, None))
    }

    fn open(holders: &Holders, key: u64, no: ContNo) {
        opened(holders, key, &cont(no, &Evictions::default()), 0);
    }

    #[test]
    fn handles_are_taken_from_all_others_or_from_those_of_the_same_user() {
        for (whose, count) in [(Whose::Own, 2), (Whose::All, 5)] {
            let (holders, mut evictions) = (Holders::default(), Evictions::default());
            let [own, same, stranger] = [1, 1, 2].map(|uid| holders.enter(uid, None));
            for (key, count) in [(own, 1), (same, 2), (stranger, 3)] {
                (0..count).for_each(|_| open(&holders, key, CONT));
                open(&holders, key, ContNo(8));
            }
            let before = holders.taken();
            evictions.add((whose == Whose::Own).then_some(1));
            assert_eq!(holders.take(own, CONT, whose, &evictions), count);
            assert_ne!(holders.taken(), before);
            let left = [own, same, stranger].map(|key| holders.has(key, CONT));
            assert_eq!(left, [true, false, whose == Whose::Own]);
            assert!([own, same, stranger].iter().all(|&key| holders.has(key, ContNo(8))));
            assert_eq!(holders.take(own, CONT, whose, &evictions), 0, "nothing is given back twice");
            // Who has opened it since keeps it when the same eviction is asked for again.
            opened(&holders, same, &cont(CONT, &evictions), 0);
            assert_eq!(holders.take(own, CONT, whose, &evictions), 0);
            assert!(holders.has(same, CONT));
            evictions.add(Some(1));
            assert_eq!(holders.take(own, CONT, whose, &evictions), 1, "the next one takes it");
        }
    }

    #[test]
    fn a_handle_is_closed_once() {
        let holders = Holders::default();
        let key = holders.enter(1, None);
        open(&holders, key, CONT);
        open(&holders, key, CONT);
        let close = || holders.closing(key, CONT).map(|(left, _)| left);
        assert_eq!([close(), close()], [Some(1), Some(0)]);
        assert_eq!((close(), holders.count(key)), (None, 0));
        open(&holders, key, CONT);
        assert_eq!(holders.leave(key), BTreeMap::from([(CONT, 1)]));
        assert!(holders.leave(key).is_empty());
        assert_eq!(holders.closing(key, CONT), None);
    }

    #[test]
    fn a_handle_whose_close_fails_after_others_were_taken_does_not_come_back() {
        for whose in [Whose::Own, Whose::All] {
            let holders = Holders::default();
            let [by, same, stranger] = [1, 1, 2].map(|uid| holders.enter(uid, None));
            [by, same, stranger].iter().for_each(|&key| open(&holders, key, CONT));
            let away = |key| holders.closing(key, CONT).unwrap().1;
            let [own, lost, other] = [by, same, stranger].map(away);
            let mut evictions = Evictions::default();
            evictions.add((whose == Whose::Own).then_some(1));
            assert_eq!(holders.take(by, CONT, whose, &evictions), 0, "none of them is there");
            let kept =
                [(by, own), (same, lost), (stranger, other)].map(|(key, away)| holders.kept(key, CONT, away));
            assert_eq!(kept, [true, false, whose == Whose::Own]);
            assert_eq!([by, same, stranger].map(|key| holders.has(key, CONT)), kept);
            // What was opened since, and is closed in vain, stays.
            opened(&holders, same, &cont(CONT, &evictions), 0);
            assert!(holders.kept(same, CONT, away(same)));
        }
    }

    /// What is put on record of a user.
    #[derive(Default)]
    struct OnRecord(Mutex<Vec<Option<u64>>>);

    impl User for OnRecord {
        fn opens(&self, _cont: ContNo, alone: Option<u64>) {
            self.0.lock().unwrap().push(alone);
        }

        fn closes(&self, _cont: ContNo, count: u32) {
            let mut open = self.0.lock().unwrap();
            let left = open.len() - count as usize;
            open.truncate(left);
        }

        fn leaves(&self, cont: ContNo, count: u32) {
            self.closes(cont, count);
        }

        fn gives_up(&self, _cont: ContNo) -> bool {
            false
        }

        fn others(&self) -> (bool, bool) {
            (false, false)
        }

        fn is_refused(&self, _cont: ContNo, _wanted: Option<OpenFor>) -> bool {
            false
        }

        fn has_word(&self, _cont: ContNo, _word: u64) -> bool {
            false
        }

        fn evicts(&self, _cont: ContNo, _uid: Option<u32>) {}
    }

    #[test]
    fn a_handle_whose_close_fails_is_on_record_as_it_was() {
        for alone in [None, Some(7)] {
            let (holders, record) = (Holders::default(), Arc::<OnRecord>::default());
            let key = holders.enter(1, Some(Arc::<OnRecord>::clone(&record)));
            // Whoever opens it has put it there.
            record.opens(CONT, alone);
            assert!(holders.opened(key, &cont(CONT, &Evictions::default()), holders.opening(0, alone)));
            for _ in 0..2 {
                let (left, away) = holders.closing(key, CONT).unwrap();
                assert_eq!((left, record.0.lock().unwrap().len()), (0, 0));
                assert!(holders.kept(key, CONT, away));
                assert_eq!(*record.0.lock().unwrap(), [alone]);
            }
            holders.closing(key, CONT).unwrap();
            assert!(record.0.lock().unwrap().is_empty());
        }
    }

    #[test]
    fn evictions_of_many_containers_are_forgotten_and_let_no_handle_through() {
        let holders = Holders::default();
        let [by, other] = [1, 2].map(|uid| holders.enter(uid, None));
        let mut evictions = Evictions::default();
        evictions.add(None);
        let before = holders.opening(0, None);
        let count = u32::try_from(2 * TOLD_MAX).unwrap();
        (0..count).for_each(|no| assert_eq!(holders.take(by, ContNo(no), Whose::All, &evictions), 0));
        assert!(holders.all().told.len() <= TOLD_MAX);
        for no in [0, count - 1] {
            let looked_before = cont(ContNo(no), &Evictions::default());
            assert!(!holders.opened(other, &looked_before, before), "container {no}");
            assert!(opened(&holders, other, &cont(ContNo(no), &evictions), 0), "container {no}");
        }
    }

    #[test]
    fn a_part_ends_handles_that_are_older_than_an_eviction_but_not_those_of_who_has_asked() {
        let holders = Holders::default();
        let [by, same, stranger] = [1, 1, 2].map(|uid| holders.enter(uid, None));
        let mut evictions = Evictions::default();
        for (key, client) in [(by, 5), (same, 6), (stranger, 7)] {
            opened(&holders, key, &cont(CONT, &evictions), client);
        }
        evictions.add(Some(1));
        holders.end_older(CONT, &evictions, 5);
        let has = || [by, same, stranger].map(|key| holders.has(key, CONT));
        assert_eq!(has(), [true, false, true]);
        // What is told twice, or late, ends nothing that was opened since.
        opened(&holders, same, &cont(CONT, &evictions), 6);
        holders.end_older(CONT, &evictions, 5);
        assert_eq!(has(), [true; 3]);
        evictions.add(None);
        let before = holders.taken();
        holders.end_older(CONT, &evictions, 0);
        assert_eq!(has(), [false; 3]);
        assert_ne!(holders.taken(), before);
    }

    #[test]
    fn a_handle_that_is_on_its_way_when_others_are_taken_is_taken_as_well() {
        for is_part in [false, true] {
            let holders = Holders::default();
            let [by, same, stranger] = [1, 1, 2].map(|uid| holders.enter(uid, None));
            let before = cont(CONT, &Evictions::default());
            let mut evictions = Evictions::default();
            let evict = |evictions: &Evictions, whose| {
                if is_part {
                    holders.end_older(CONT, evictions, 5);
                } else {
                    holders.take(by, CONT, whose, evictions);
                }
            };
            evictions.add(Some(1));
            evict(&evictions, Whose::Own);
            let opened = |cont: &ContHandle| {
                [(by, 5), (same, 6), (stranger, 7)].map(|(key, client)| opened(&holders, key, cont, client))
            };
            assert_eq!(opened(&before), [true, false, true], "part: {is_part}");
            assert_eq!(opened(&cont(CONT, &evictions)), [true; 3], "it was opened since");
            assert_eq!(opened(&cont(ContNo(8), &Evictions::default())), [true; 3], "another container");
            let first = evictions.clone();
            evictions.add(None);
            evict(&evictions, Whose::All);
            // What is told late does not let in whom the latest keeps out.
            evict(&first, Whose::Own);
            let since = cont(CONT, &first);
            assert_eq!(opened(&since), [true, false, false], "part: {is_part}");
            assert_eq!([same, stranger].map(|key| holders.has(key, CONT)), [false; 2]);
        }
    }
}
