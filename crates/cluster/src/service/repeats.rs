//! Answers to changes, for those who ask again because the answer was lost.
//!
//! Each lies in a record beside what it is about, written in the same step; so it is there after a crash exactly if the
//! change is, and costs no flush of its own. The records of one container are numbered slots, which are written over once
//! nobody asks for what they hold.
//!
//! Invariants: an id names one change; what was refused is not retained, since a refusal has changed nothing; a slot holds
//! an answer, or one that is forgotten, or is free, or is on its way to the record; no request runs that is before what its
//! client has done with; what one user asks for takes nothing from another who has fewer answers here.

use super::record::{Answer, AnswerRecord};
use super::store::{ANSWER_PREFIX, Change};
use dolmen_codec::pool::PoolVerb;
use dolmen_types::limits::IODS_MAX;
use dolmen_types::{ContNo, Error, Head, RequestId, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Answers that are kept: more than all connections of a large node may have under way at the service.
const ANSWERS_MAX: usize = 4096;

/// Clients of which is known what they have done with: as many as may have answers here.
const CLIENTS_MAX: usize = ANSWERS_MAX;

/// Answers that outlive their container: the latest. What repeats an older one finds no such container, and changes nothing.
const MOVED_MAX: usize = 64;

/// Records of forgotten answers that the next change of their container removes: more than one change forgets, mostly.
const REMOVED_MAX: usize = 8;

/// Records of forgotten answers that may lie about; from there on they are removed by changes of other containers, too.
const STALE_MAX: usize = ANSWERS_MAX;

/// How many of them at once.
const SWEPT_MAX: usize = 64;

/// A request of a user's client: another user's with the same number is another request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    uid: u32,
    client: u128,
    sequence: u64,
}

/// Who asks for a change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) id: RequestId,
    uid: u32,
    oldest: u64,
}

impl Asked {
    pub(super) fn by(head: &Head) -> Self {
        Self { id: head.id, uid: head.cred.uid, oldest: head.oldest.min(head.id.sequence) }
    }

    /// Without a number a request is asked once.
    fn key(self) -> Option<Key> {
        let RequestId { client, sequence } = self.id;
        (sequence != 0).then_some(Key { uid: self.uid, client, sequence })
    }
}

/// An answer, and where it is on record.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) answer: Answer,
    /// Whose records hold it; the pool's own if its container is gone.
    pub(super) place: Place,
    number: u64,
}

/// A slot among the records of a container.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    pub(super) cont: ContNo,
    slot: u16,
}

impl Place {
    /// The name of its record.
    pub(super) fn key(self) -> Vec<u8> {
        [ANSWER_PREFIX, &self.slot.to_le_bytes()].concat()
    }
}

/// An answer on its way to the record.
#[derive(Debug)]
pub(super) struct Noted {
    key: Key,
    kept: Kept,
    name: Vec<u8>,
    bytes: Vec<u8>,
}

impl Noted {
    pub(super) fn change(&self) -> Change<'_> {
        (&self.name, Some(&self.bytes))
    }
}

/// The slots of a container.
#[derive(Debug, Default)]
struct Slots {
    /// The answers in them, by number.
    answers: BTreeMap<u64, Key>,
    /// Those from here on were never used.
    fresh: u16,
    /// Those below that have no record.
    free: BTreeSet<u16>,
}

impl Slots {
    fn take(&mut self) -> u16 {
        self.free.pop_first().unwrap_or_else(|| {
            assert!(
                usize::from(self.fresh) < ANSWERS_MAX,
                "there are no more answers, and none has two slots"
            );
            self.fresh += 1;
            self.fresh - 1
        })
    }
}

/// How far a client has come.
#[derive(Debug)]
struct Client {
    /// It does not ask for what is before.
    oldest: u64,
    used: u64,
}

/// What a user has of what all share.
#[derive(Debug, Default)]
struct User {
    /// His answers, by number.
    answers: BTreeMap<u64, Key>,
    clients: BTreeMap<u128, Client>,
}

/// The latest answers to changes.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    answers: BTreeMap<Key, Kept>,
    users: BTreeMap<u32, User>,
    slots: BTreeMap<ContNo, Slots>,
    /// Slots whose record holds an answer that is forgotten.
    stale: BTreeSet<Place>,
    /// Of all users.
    clients: usize,
    next_number: u64,
    uses: u64,
}

impl Repeats {
    /// The answer to this very change, if it is on record. What its client has done with is forgotten.
    ///
    /// # Errors
    /// `TimedOut` for a request that its client has done with: it may have been carried out and must not be again.
    pub(super) fn answered(&mut self, asked: Asked) -> Result<Option<&Kept>> {
        let Some(key) = asked.key() else { return Ok(None) };
        if key.sequence < self.heard_of(key, asked.oldest) {
            return Err(Error::TimedOut);
        }
        Ok(self.answers.get(&key))
    }

    /// Whether another user has the answer to a request of this number: what was made by it was not made for this one.
    pub(super) fn is_anothers(&self, asked: Asked) -> bool {
        let is_there = |key| self.answers.contains_key(&key);
        let of_others = self.users.keys().filter(|&&uid| uid != asked.uid);
        asked
            .key()
            .is_some_and(|key| !is_there(key) && of_others.copied().any(|uid| is_there(Key { uid, ..key })))
    }

    /// Makes room for an answer among a container's records; nothing for who does not ask again. It is to be settled.
    pub(super) fn note(&mut self, cont: ContNo, asked: Asked, answer: Answer) -> Option<Noted> {
        let key = asked.key()?;
        while self.answers.len() >= ANSWERS_MAX && self.forget_one(key.uid) {}
        let number = self.next_number;
        self.next_number += 1;
        Some(self.noted(key, cont, number, answer))
    }

    /// An answer is on record, or is not.
    pub(super) fn settle(&mut self, noted: Option<Noted>, is_on_record: bool) {
        let Some(Noted { key, kept, .. }) = noted else { return };
        if is_on_record {
            self.keep(key, kept);
        } else {
            // What it was to go over may be there still.
            self.stale.insert(kept.place);
        }
    }

    /// Forgets an answer that was given too early; the name of its record.
    pub(super) fn take_back(&mut self, asked: Asked) -> Option<Vec<u8>> {
        self.forget(asked.key()?).map(|kept| kept.place.key())
    }

    /// Makes room among the pool's own records for answers of a container whose records are about to go.
    pub(super) fn moved(&mut self, cont: ContNo) -> Vec<Noted> {
        let numbered = self.slots.get(&cont).into_iter().flat_map(|slots| slots.answers.iter().rev());
        let one = |(&number, &key): (&u64, &Key)| (key, number, self.answers[&key].answer.clone());
        let latest: Vec<(Key, u64, Answer)> = numbered.take(MOVED_MAX).map(one).collect();
        latest
            .into_iter()
            .map(|(key, number, answer)| self.noted(key, ContNo::SYSTEM, number, answer))
            .collect()
    }

    /// The records of a container are gone, and with them the answers in them.
    pub(super) fn leave(&mut self, cont: ContNo) {
        let numbered = self.slots.get(&cont).into_iter().flat_map(|slots| slots.answers.values());
        let gone: Vec<Key> = numbered.copied().collect();
        for key in gone {
            self.forget(key);
        }
        self.slots.remove(&cont);
        for place in self.stale_of(cont, usize::MAX) {
            self.stale.remove(&place);
        }
    }

    /// Takes over an answer that is on record; false if nobody wrote this there. Of two to one request, as a crash leaves
    /// them, either is right.
    pub(super) fn load(&mut self, cont: ContNo, slot: u16, record: AnswerRecord) -> bool {
        if usize::from(slot) >= ANSWERS_MAX || record.number == u64::MAX || record.id.sequence == 0 {
            return false;
        }
        let slots = self.slots.entry(cont).or_default();
        let unused = slots.fresh..slot;
        slots.free.extend(unused);
        slots.free.remove(&slot);
        slots.fresh = slots.fresh.max(slot + 1);
        let AnswerRecord { id, uid, number, answer } = record;
        self.next_number = self.next_number.max(number + 1);
        // Of an earlier version it may be long.
        let answer = match answer {
            Answer::Cont(no, record) => Answer::cont(no, *record),
            short => short,
        };
        let key = Key { uid, client: id.client, sequence: id.sequence };
        self.keep(key, Kept { answer, place: Place { cont, slot }, number });
        true
    }

    /// Records of forgotten answers that a change of their container of so many records is to remove, too.
    pub(super) fn removable(&self, cont: ContNo, changes: usize) -> Vec<Place> {
        self.stale_of(cont, REMOVED_MAX.min(IODS_MAX.saturating_sub(changes)))
    }

    /// Records of forgotten answers of one container, if there are too many of all.
    pub(super) fn crowd(&self) -> Vec<Place> {
        match self.stale.first() {
            Some(place) if self.stale.len() > STALE_MAX => self.stale_of(place.cont, SWEPT_MAX),
            _ => Vec::new(),
        }
    }

    /// Records of forgotten answers are gone.
    pub(super) fn removed(&mut self, places: &[Place]) {
        for place in places.iter().filter(|&place| self.stale.remove(place)) {
            if let Some(slots) = self.slots.get_mut(&place.cont) {
                slots.free.insert(place.slot);
            }
        }
    }

    fn stale_of(&self, cont: ContNo, count: usize) -> Vec<Place> {
        let (first, last) = (Place { cont, slot: 0 }, Place { cont, slot: u16::MAX });
        self.stale.range(first..=last).take(count).copied().collect()
    }

    /// A slot whose record can be written over, or one without.
    fn place(&mut self, cont: ContNo) -> Place {
        if let Some(&place) = self.stale_of(cont, 1).first() {
            self.stale.remove(&place);
            return place;
        }
        Place { cont, slot: self.slots.entry(cont).or_default().take() }
    }

    fn noted(&mut self, key: Key, cont: ContNo, number: u64, answer: Answer) -> Noted {
        let place = self.place(cont);
        let id = RequestId { client: key.client, sequence: key.sequence };
        let bytes = AnswerRecord { id, uid: key.uid, number, answer: answer.clone() }.encode();
        Noted { key, kept: Kept { answer, place, number }, name: place.key(), bytes }
    }

    fn keep(&mut self, key: Key, kept: Kept) {
        let (place, number) = (kept.place, kept.number);
        self.forget(key);
        // It may have been there before, as what a crash leaves twice.
        self.stale.remove(&place);
        self.answers.insert(key, kept);
        self.users.entry(key.uid).or_default().answers.insert(number, key);
        self.slots.entry(place.cont).or_default().answers.insert(number, key);
        while self.answers.len() > ANSWERS_MAX && self.forget_one(key.uid) {}
    }

    /// Forgets the oldest answer of the user who has the most; of two, of the one who has just asked. False if there is none.
    fn forget_one(&mut self, uid: u32) -> bool {
        let most = self.users.iter().max_by_key(|&(&whose, user)| (user.answers.len(), whose == uid));
        let oldest = most.and_then(|(_, user)| user.answers.first_key_value()).map(|(_, &key)| key);
        oldest.and_then(|key| self.forget(key)).is_some()
    }

    fn forget(&mut self, key: Key) -> Option<Kept> {
        let kept = self.answers.remove(&key)?;
        let (number, place) = (kept.number, kept.place);
        if let Some(user) = self.users.get_mut(&key.uid) {
            user.answers.remove(&number);
            self.drop_idle(key.uid);
        }
        if let Some(slots) = self.slots.get_mut(&place.cont) {
            slots.answers.remove(&number);
            self.stale.insert(place);
        }
        Some(kept)
    }

    fn drop_idle(&mut self, uid: u32) {
        if self.users.get(&uid).is_some_and(|user| user.answers.is_empty() && user.clients.is_empty()) {
            self.users.remove(&uid);
        }
    }

    /// Takes note of what a user's client has done with; its oldest request.
    fn heard_of(&mut self, key: Key, oldest: u64) -> u64 {
        self.uses += 1;
        let Key { uid, client, .. } = key;
        if !self.users.get(&uid).is_some_and(|user| user.clients.contains_key(&client)) {
            if self.clients >= CLIENTS_MAX {
                self.forget_client(uid);
            }
            self.clients += 1;
        }
        let known = self.users.entry(uid).or_default().clients.entry(client);
        let known = known.or_insert(Client { oldest: 0, used: 0 });
        (known.oldest, known.used) = (known.oldest.max(oldest), self.uses);
        let oldest = known.oldest;
        let (first, end) = (Key { sequence: 0, ..key }, Key { sequence: oldest, ..key });
        let done: Vec<Key> = self.answers.range(first..end).map(|(key, _)| *key).collect();
        for key in done {
            self.forget(key);
        }
        oldest
    }

    /// Forgets of the user with the most clients the one that was not heard of for the longest.
    fn forget_client(&mut self, uid: u32) {
        let most = self.users.iter_mut().max_by_key(|(whose, user)| (user.clients.len(), **whose == uid));
        let Some((&whose, user)) = most else { return };
        if let Some((&silent, _)) = user.clients.iter().min_by_key(|(_, client)| client.used) {
            user.clients.remove(&silent);
            self.clients -= 1;
        }
        self.drop_idle(whose);
    }
}

/// Whether a question changes what is on record: handles are not, they belong to connections.
pub(super) fn is_change(verb: &PoolVerb<'_>) -> bool {
    matches!(
        verb,
        PoolVerb::ContCreate { .. }
            | PoolVerb::ContDestroy(..)
            | PoolVerb::ContEvict(..)
            | PoolVerb::SetProps(_)
            | PoolVerb::ContSetProps(..)
            | PoolVerb::ContSetQuota(..)
            | PoolVerb::SetAttrs(..)
            | PoolVerb::RemoveAttrs(..)
            | PoolVerb::SnapCreate(..)
            | PoolVerb::SnapDestroy(..)
            | PoolVerb::Rollback(..)
            | PoolVerb::AllocOids(..)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_types::Credentials;

    const CONT: ContNo = ContNo(5);

    fn asked(sequence: u64, oldest: u64) -> Asked {
        let id = RequestId { client: 9, sequence };
        let cred = Credentials { uid: 7, gid: 0, project: 0 };
        Asked::by(&Head { id, oldest, cred, ..Head::default() })
    }

    /// As `asked`, of another user.
    fn by(uid: u32, client: u128, sequence: u64) -> Asked {
        Asked { uid, id: RequestId { client, sequence }, oldest: 0 }
    }

    fn answer(repeats: &mut Repeats, sequence: u64) -> Option<Answer> {
        repeats.answered(asked(sequence, 0)).unwrap().map(|kept| kept.answer.clone())
    }

    fn retain(repeats: &mut Repeats, sequence: u64) -> Vec<u8> {
        let noted = repeats.note(CONT, asked(sequence, 0), Answer::Oids(sequence));
        let name = noted.as_ref().unwrap().name.clone();
        repeats.settle(noted, true);
        name
    }

    #[test]
    fn the_latest_answers_are_retained_and_no_more() {
        let mut repeats = Repeats::default();
        assert!(repeats.note(CONT, asked(0, 0), Answer::Done).is_none(), "without a number");
        let last = ANSWERS_MAX as u64 + 1;
        let first_slot = retain(&mut repeats, 1);
        let slots = (2..=last).map(|sequence| retain(&mut repeats, sequence)).last();
        assert_eq!(answer(&mut repeats, 1), None, "the oldest is gone");
        assert_eq!(slots, Some(first_slot), "and its place is another's");
        assert_eq!(answer(&mut repeats, 2), Some(Answer::Oids(2)));
        let stranger = Asked { id: RequestId { client: 8, sequence: 2 }, ..asked(2, 0) };
        assert!(repeats.answered(stranger).unwrap().is_none());
        assert_eq!((repeats.answers.len(), repeats.users[&7].answers.len()), (ANSWERS_MAX, ANSWERS_MAX));
    }

    #[test]
    fn who_has_done_with_his_answers_takes_one_place_for_all() {
        let mut repeats = Repeats::default();
        let slots = (1..1000).map(|sequence| {
            assert!(repeats.answered(asked(sequence, sequence)).unwrap().is_none());
            retain(&mut repeats, sequence)
        });
        assert_eq!(slots.collect::<BTreeSet<_>>().len(), 1);
        assert_eq!(repeats.answered(asked(999, 0)).unwrap().map(|kept| kept.number), Some(998));
        assert_eq!(repeats.answered(asked(998, 0)).unwrap_err(), Error::TimedOut, "it may have run");
    }

    #[test]
    fn what_one_user_asks_for_takes_no_answer_from_another() {
        let mut repeats = Repeats::default();
        (1..=3).for_each(|sequence| drop(retain(&mut repeats, sequence)));
        // As another's requests, and ahead of all of them: it says nothing about his.
        let forged = Asked { oldest: u64::MAX, ..by(8, 9, u64::MAX) };
        assert!(repeats.answered(forged).unwrap().is_none());
        assert!(repeats.answered(by(8, 9, 2)).is_err(), "that is his own matter");
        let many = ANSWERS_MAX as u64 * 2;
        for client in 10..many {
            let other = by(8, u128::from(client), 1);
            assert!(repeats.answered(other).unwrap().is_none());
            let noted = repeats.note(CONT, other, Answer::Done);
            repeats.settle(noted, true);
        }
        for sequence in 1..=3 {
            assert_eq!(answer(&mut repeats, sequence), Some(Answer::Oids(sequence)));
        }
        assert!(repeats.answered(by(8, u128::from(many) - 1, 1)).unwrap().is_some());
        assert!(repeats.answered(by(8, 10, 1)).unwrap().is_none(), "he has forgotten his own");
        assert_eq!((repeats.answers.len(), repeats.clients), (ANSWERS_MAX, CLIENTS_MAX));
        // What the first has done with is known as well.
        assert!(repeats.answered(asked(3, 3)).unwrap().is_some());
        (10..many).for_each(|client| drop(repeats.answered(by(8, u128::from(client), 2))));
        assert_eq!(repeats.answered(asked(2, 0)).unwrap_err(), Error::TimedOut);
    }

    #[test]
    fn records_of_forgotten_answers_are_removed_by_and_by_and_their_places_are_used_first() {
        let mut repeats = Repeats::default();
        (1..=100).for_each(|sequence| drop(retain(&mut repeats, sequence)));
        assert!(repeats.answered(asked(100, 100)).unwrap().is_some());
        assert_eq!(repeats.removable(CONT, IODS_MAX), [], "no more than a change can have");
        assert_eq!(repeats.removable(ContNo(6), 1), []);
        let first: Vec<u16> = repeats.removable(CONT, 1).iter().map(|place| place.slot).collect();
        assert_eq!(first, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(retain(&mut repeats, 101), Place { cont: CONT, slot: 0 }.key());
        let mut changes = 0;
        while let places = repeats.removable(CONT, 1)
            && !places.is_empty()
        {
            repeats.removed(&places);
            changes += 1;
        }
        assert_eq!((changes, repeats.stale.len()), (13, 0));
        assert_eq!(answer(&mut repeats, 100), Some(Answer::Oids(100)));
        assert_eq!(retain(&mut repeats, 102), Place { cont: CONT, slot: 1 }.key());
    }

    #[test]
    fn what_is_on_record_is_known_with_its_places_and_what_was_not_written_is_not() {
        let mut repeats = Repeats::default();
        let record = |sequence, number| AnswerRecord {
            id: RequestId { client: 9, sequence },
            uid: 7,
            number,
            answer: Answer::Oids(sequence),
        };
        assert!(repeats.load(CONT, 2, record(4, 10)));
        assert!(repeats.load(CONT, 4, record(5, 11)));
        // As the end of a container leaves it, which was cut short.
        assert!(repeats.load(ContNo::SYSTEM, 0, record(4, 10)));
        assert!(!repeats.load(CONT, 4096, record(7, 12)) && !repeats.load(CONT, 5, record(7, u64::MAX)));
        assert_eq!(answer(&mut repeats, 4), Some(Answer::Oids(4)));
        let noted = repeats.note(CONT, asked(6, 0), Answer::Done);
        repeats.settle(noted, false);
        assert_eq!(answer(&mut repeats, 6), None);
        let taken: Vec<_> = (6..11).map(|sequence| retain(&mut repeats, sequence)).collect();
        let name = |slot| Place { cont: CONT, slot }.key();
        assert_eq!(taken, [2, 0, 1, 3, 5].map(name), "the places that hold nothing");
        let newest = Key { uid: 7, client: 9, sequence: 10 };
        assert_eq!(repeats.users[&7].answers.last_key_value(), Some((&17, &newest)));
    }

    #[test]
    fn the_latest_answers_outlive_their_container() {
        let mut repeats = Repeats::default();
        let last = MOVED_MAX as u64 + 1;
        (1..=last).for_each(|sequence| drop(retain(&mut repeats, sequence)));
        for noted in repeats.moved(CONT) {
            repeats.settle(Some(noted), true);
        }
        repeats.leave(CONT);
        assert_eq!(answer(&mut repeats, 1), None);
        for sequence in 2..=last {
            assert_eq!(answer(&mut repeats, sequence), Some(Answer::Oids(sequence)));
        }
        assert!(!repeats.slots.contains_key(&CONT));
    }
}
