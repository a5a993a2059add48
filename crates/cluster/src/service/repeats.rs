//! Answers to changes, for those who ask again because the answer was lost.
//!
//! Each lies in a record beside what it is about, written in the same step; so it is there after a crash exactly if the
//! change is, and costs no flush of its own. The records of one container are numbered slots, which are written over once
//! nobody asks for what they hold.
//!
//! Invariants: an id names one change; what was refused is not retained, since a refusal has changed nothing; a slot holds
//! an answer, or is free, or is on its way to the record; no request runs that is before what its client has done with.

use super::record::{Answer, AnswerRecord};
use super::store::{ANSWER_PREFIX, Change};
use dolmen_codec::pool::PoolVerb;
use dolmen_types::{ContNo, Error, Head, RequestId, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Answers that are kept: more than all connections of a large node may have under way at the service.
const ANSWERS_MAX: usize = 4096;

/// Clients of which is known what they have done with: as many as may have answers here.
const CLIENTS_MAX: usize = ANSWERS_MAX;

/// Answers that outlive their container: the latest. What repeats an older one finds no such container, and changes nothing.
const MOVED_MAX: usize = 64;

type Key = (u128, u64);

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
        (self.id.sequence != 0).then_some((self.id.client, self.id.sequence))
    }
}

/// An answer, and where it is on record.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) answer: Answer,
    /// Whose records hold it; the pool's own if its container is gone.
    pub(super) place: Place,
    uid: u32,
    number: u64,
}

/// A slot among the records of a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// Those from here on were never used.
    fresh: u16,
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

/// The latest answers to changes.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    answers: BTreeMap<Key, Kept>,
    by_number: BTreeMap<u64, Key>,
    slots: BTreeMap<ContNo, Slots>,
    clients: BTreeMap<u128, Client>,
    next_number: u64,
    uses: u64,
}

impl Repeats {
    /// The answer to this very change, if it is on record. What its client has done with is forgotten.
    ///
    /// # Errors
    /// `NoPermission` for another user's; `TimedOut` for a request that its client has done with: it may have been carried
    /// out and must not be again.
    pub(super) fn answered(&mut self, asked: Asked) -> Result<Option<&Kept>> {
        let Some(key) = asked.key() else { return Ok(None) };
        let oldest = self.heard_of(asked);
        if key.1 < oldest {
            return Err(Error::TimedOut);
        }
        match self.answers.get(&key) {
            Some(kept) if kept.uid != asked.uid => Err(Error::NoPermission),
            kept => Ok(kept),
        }
    }

    /// Makes room for an answer among a container's records; nothing for who does not ask again. It is to be settled.
    pub(super) fn note(&mut self, cont: ContNo, asked: Asked, answer: Answer) -> Option<Noted> {
        let key = asked.key()?;
        while self.answers.len() >= ANSWERS_MAX
            && let Some((_, &oldest)) = self.by_number.first_key_value()
        {
            self.forget(oldest);
        }
        let number = self.next_number;
        self.next_number += 1;
        Some(self.noted(key, cont, (asked.uid, number), answer))
    }

    /// An answer is on record, or is not.
    pub(super) fn settle(&mut self, noted: Option<Noted>, is_on_record: bool) {
        let Some(Noted { key, kept, .. }) = noted else { return };
        if is_on_record {
            self.keep(key, kept);
        } else {
            self.give_back(kept.place);
        }
    }

    /// Forgets an answer that was given too early; the name of its record.
    pub(super) fn take_back(&mut self, asked: Asked) -> Option<Vec<u8>> {
        self.forget(asked.key()?).map(|kept| kept.place.key())
    }

    /// Makes room among the pool's own records for answers of a container whose records are about to go.
    pub(super) fn moved(&mut self, cont: ContNo) -> Vec<Noted> {
        let latest: Vec<(Key, Kept)> = self.latest_of(cont).take(MOVED_MAX).collect();
        let moved =
            |(key, kept): (Key, Kept)| self.noted(key, ContNo::SYSTEM, (kept.uid, kept.number), kept.answer);
        latest.into_iter().map(moved).collect()
    }

    /// The records of a container are gone, and with them the answers in them.
    pub(super) fn leave(&mut self, cont: ContNo) {
        let gone: Vec<Key> = self.latest_of(cont).map(|(key, _)| key).collect();
        for key in gone {
            self.forget(key);
        }
        self.slots.remove(&cont);
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
        self.keep((id.client, id.sequence), Kept { answer, place: Place { cont, slot }, uid, number });
        true
    }

    fn latest_of(&self, cont: ContNo) -> impl Iterator<Item = (Key, Kept)> + '_ {
        let latest = self.by_number.values().rev().map(|key| (*key, self.answers[key].clone()));
        latest.filter(move |(_, kept)| kept.place.cont == cont)
    }

    fn noted(&mut self, key: Key, cont: ContNo, (uid, number): (u32, u64), answer: Answer) -> Noted {
        let place = Place { cont, slot: self.slots.entry(cont).or_default().take() };
        let id = RequestId { client: key.0, sequence: key.1 };
        let bytes = AnswerRecord { id, uid, number, answer: answer.clone() }.encode();
        Noted { key, kept: Kept { answer, place, uid, number }, name: place.key(), bytes }
    }

    fn keep(&mut self, key: Key, kept: Kept) {
        let (place, number) = (kept.place, kept.number);
        if let Some(before) = self.answers.insert(key, kept) {
            self.by_number.remove(&before.number);
            if before.place != place {
                self.give_back(before.place);
            }
        }
        self.by_number.insert(number, key);
        while self.answers.len() > ANSWERS_MAX
            && let Some((_, &oldest)) = self.by_number.first_key_value()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, key: Key) -> Option<Kept> {
        let kept = self.answers.remove(&key)?;
        self.by_number.remove(&kept.number);
        self.give_back(kept.place);
        Some(kept)
    }

    fn give_back(&mut self, place: Place) {
        if let Some(slots) = self.slots.get_mut(&place.cont) {
            slots.free.insert(place.slot);
        }
    }

    /// Takes note of what a client has done with; its oldest request.
    fn heard_of(&mut self, asked: Asked) -> u64 {
        self.uses += 1;
        let (client, used) = (asked.id.client, self.uses);
        if self.clients.len() >= CLIENTS_MAX
            && !self.clients.contains_key(&client)
            && let Some((&silent, _)) = self.clients.iter().min_by_key(|(_, client)| client.used)
        {
            self.clients.remove(&silent);
        }
        let known = self.clients.entry(client).or_insert(Client { oldest: 0, used });
        (known.oldest, known.used) = (known.oldest.max(asked.oldest), used);
        let oldest = known.oldest;
        let done: Vec<Key> = self.answers.range((client, 0)..(client, oldest)).map(|(key, _)| *key).collect();
        for key in done {
            self.forget(key);
        }
        oldest
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
        assert_eq!((repeats.answers.len(), repeats.by_number.len()), (ANSWERS_MAX, ANSWERS_MAX));
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
    fn an_answer_is_for_the_user_who_has_asked() {
        let mut repeats = Repeats::default();
        retain(&mut repeats, 3);
        let other = Asked { uid: 8, ..asked(3, 0) };
        assert_eq!(repeats.answered(other).unwrap_err(), Error::NoPermission);
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
        assert_eq!(taken, [0, 1, 2, 3, 5].map(name), "the places that hold nothing");
        assert_eq!(repeats.by_number.last_key_value(), Some((&17, &(9, 10))));
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
