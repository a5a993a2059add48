//! Notes for whoever runs the machine: not more than can be read, whatever peers do.

use std::sync::{Mutex, PoisonError};

/// Notes in one second; more are counted.
const NOTES_A_SECOND: u32 = 20;

const SECOND_NS: u64 = 1_000_000_000;

/// Lets notes through, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Guards the counts of this second; taken alone.
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    since_ns: u64,
    said: u32,
    unsaid: u64,
}

/// What to do with a note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Say it, after how many were left out before.
    Say {
        /// Those.
        left_out: u64,
    },
    /// Leave it out.
    LeaveOut,
}

impl Notes {
    /// Whether a note that comes at `now_ns` is said.
    pub(crate) fn judge(&self, now_ns: u64) -> Verdict {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if now_ns.saturating_sub(counts.since_ns) >= SECOND_NS || counts.since_ns == 0 {
            let left_out = counts.unsaid;
            *counts = Counts { since_ns: now_ns.max(1), said: 1, unsaid: 0 };
            return Verdict::Say { left_out };
        }
        if counts.said < NOTES_A_SECOND {
            counts.said += 1;
            return Verdict::Say { left_out: 0 };
        }
        counts.unsaid += 1;
        Verdict::LeaveOut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_notes_is_cut_and_counted() {
        let notes = Notes::default();
        let said = (0..1000).filter(|at| notes.judge(5 + at) != Verdict::LeaveOut).count();
        assert_eq!(said, 20);
        assert_eq!(notes.judge(SECOND_NS + 5), Verdict::Say { left_out: 980 });
        assert_eq!(notes.judge(SECOND_NS + 6), Verdict::Say { left_out: 0 });
    }
}
