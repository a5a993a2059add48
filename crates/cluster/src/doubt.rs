//! How long an operation that does not wait is put off for undecided transactions in its way.
//!
//! Invariants: it is patient with each of them as one that waits is, however many stand in its way one after the other and however much
//! else is decided meanwhile; one that prepares, and holds places elsewhere, is not.

use crate::resolve;
use dolmen_types::TxId;

/// How long one after the other may stand in the way of an operation: a moment each, of as many clients as there are.
const OTHERS_NS_MAX: u64 = 10_000_000_000;

/// What stands in the way of an operation that is repeated later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubt {
    pub(crate) tx: TxId,
    /// Times that it was in the way when it should have been gone.
    pub(crate) attempt: u32,
    /// When it should be gone.
    pub(crate) due_ns: u64,
    /// When the first was met.
    begun_ns: u64,
}

impl Doubt {
    /// That of an operation that has met `tx`, after what it was repeated for.
    pub(crate) fn of(before: Option<Self>, tx: TxId, is_prepare: bool, now_ns: u64) -> Self {
        let pause_ns = |attempt| u64::try_from(resolve::pause(attempt).as_nanos()).unwrap_or(u64::MAX);
        let from = |attempt, begun_ns| {
            let due_ns = now_ns.saturating_add(pause_ns(attempt));
            Self { tx, attempt, due_ns, begun_ns }
        };
        let Some(before) = before else { return from(0, now_ns) };
        let is_other = tx != before.tx;
        if is_prepare {
            from(before.attempt + 1, before.begun_ns)
        } else if is_other && now_ns.saturating_sub(before.begun_ns) < OTHERS_NS_MAX {
            from(0, before.begun_ns)
        } else if !is_other && now_ns < before.due_ns {
            // Something else was decided.
            before
        } else {
            from(before.attempt + 1, before.begun_ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_types::Epoch;

    fn tx(begin: u64) -> TxId {
        TxId { client: 1, begin: Epoch(begin) }
    }

    #[test]
    fn each_in_the_way_has_its_time_and_all_of_them_have_an_end() {
        let mut doubt = Doubt::of(None, tx(0), false, 0);
        let mut now_ns = 0;
        while now_ns < OTHERS_NS_MAX {
            assert_eq!(doubt.attempt, 0);
            now_ns += 1_000_000;
            doubt = Doubt::of(Some(doubt), tx(now_ns), false, now_ns);
        }
        assert_eq!((doubt.attempt, doubt.due_ns), (1, now_ns + 1_000_000));
        let prepares = Doubt::of(Some(Doubt::of(None, tx(0), true, 0)), tx(1), true, 1);
        assert_eq!(prepares.attempt, 1);
    }

    #[test]
    fn what_else_is_decided_takes_nothing_from_the_time_of_one_in_the_way() {
        let first = Doubt::of(None, tx(1), false, 0);
        let same = Doubt::of(Some(first), tx(1), false, first.due_ns - 1);
        assert_eq!((same.attempt, same.due_ns), (0, first.due_ns));
        let overdue = Doubt::of(Some(same), tx(1), false, first.due_ns);
        assert_eq!((overdue.attempt, overdue.due_ns), (1, first.due_ns * 3));
    }
}
