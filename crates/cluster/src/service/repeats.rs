//! Answers to changes, for those who ask again because the answer was lost.
//!
//! Targets retain results themselves. What the service has changed is retained here in memory; who has made a container or
//! a snapshot is on record beside it, so that this is known after a restart, too.
//!
//! Invariants: an id names one change; what was refused is not retained, since a refusal has changed nothing.

use dolmen_codec::pool::{ContHandle, PoolReply, PoolVerb};
use dolmen_types::{Epoch, RequestId};
use std::collections::{BTreeMap, VecDeque};

/// Answers that are kept: more than all connections of a large node may have under way at the service.
const ANSWERS_MAX: usize = 4096;

/// What can be answered again.
#[derive(Clone, Debug)]
enum Answer {
    Cont(Box<ContHandle>),
    Epoch(Epoch),
    Oids(u64),
    Done,
}

/// The latest answers to changes.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    answers: BTreeMap<(u128, u64), Answer>,
    oldest: VecDeque<(u128, u64)>,
}

impl Repeats {
    /// The answer to this very change, if it was made already.
    pub(super) fn answered(&self, id: RequestId) -> Option<PoolReply> {
        Some(match self.answers.get(&key(id)?)?.clone() {
            Answer::Cont(handle) => PoolReply::Cont(*handle),
            Answer::Epoch(epoch) => PoolReply::Epoch(epoch),
            Answer::Oids(first) => PoolReply::Oids(first),
            Answer::Done => PoolReply::Done,
        })
    }

    /// Retains an answer; the oldest goes if there are too many.
    pub(super) fn retain(&mut self, id: RequestId, reply: &PoolReply) {
        let answer = match reply {
            PoolReply::Cont(handle) => Answer::Cont(Box::new(handle.clone())),
            PoolReply::Epoch(epoch) => Answer::Epoch(*epoch),
            PoolReply::Oids(first) => Answer::Oids(*first),
            PoolReply::Done => Answer::Done,
            _ => return,
        };
        let Some(key) = key(id) else { return };
        if self.answers.insert(key, answer).is_none() {
            self.oldest.push_back(key);
        }
        if self.oldest.len() > ANSWERS_MAX
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.answers.remove(&oldest);
        }
    }
}

/// Without a number a request is asked once.
fn key(id: RequestId) -> Option<(u128, u64)> {
    (id.sequence != 0).then_some((id.client, id.sequence))
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

    fn id(sequence: u64) -> RequestId {
        RequestId { client: 9, sequence }
    }

    #[test]
    fn the_latest_answers_are_retained_and_no_more() {
        let mut repeats = Repeats::default();
        for sequence in 0..=ANSWERS_MAX as u64 + 1 {
            repeats.retain(id(sequence), &PoolReply::Oids(sequence));
        }
        assert!(repeats.answered(id(0)).is_none(), "without a number");
        assert!(repeats.answered(id(1)).is_none(), "the oldest is gone");
        assert!(matches!(repeats.answered(id(2)), Some(PoolReply::Oids(2))));
        assert!(repeats.answered(RequestId { client: 8, sequence: 2 }).is_none());
        assert_eq!((repeats.answers.len(), repeats.oldest.len()), (ANSWERS_MAX, ANSWERS_MAX));
    }
}
