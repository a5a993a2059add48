//! Contents that the kernel is to drop, since others change them.
//!
//! The kernel waits for those who read them just now, and stores what was changed in memory. While it does nobody can kill the thread
//! that told it, and if the process is killed then, the kernel keeps the mount for that thread, which waits for what nobody answers
//! any more. So the kernel is told while the engines answer, and when nothing is on its way that takes long.
//!
//! That moment may not come by itself: requests for a file may take long, one after the other. So when a file has waited for long, those
//! that come are refused, and what is on its way ends by its deadline.
//!
//! Invariants: a file waits once, whoever wants it dropped and how often; nothing is dropped while a request for its contents is on its
//! way that was begun before, or takes long.

use super::{Kept, Requests, Session, op_code, unique_of};
use crate::abi::op::code;
use crate::abi::request::{HEAD_BYTES, NODE_AT};
use crate::abi::{long, notify, word};
use crate::service::Serves;
use core::sync::atomic::Ordering;
use core::time::Duration;
use dolmen_dfs::{Lease, errno as number};
use dolmen_env::{Clock, RealClock};
use dolmen_types::Oid;
use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};

/// A request that was begun so long ago may take as long again.
const LONG_NS: u64 = 1_000_000_000;

/// What has waited so long has no moment of its own: a store that takes a second for each request for half a minute counts as away.
const LATE_NS: u64 = 30_000_000_000;

/// For so long who listens waits for contents, before it hears of other files.
const WAIT: Duration = Duration::from_secs(1);

/// Between two looks at whether something may be dropped; most often it is called before.
const LOOK: Duration = Duration::from_millis(50);

/// What is void of what was found with leases.
#[derive(Debug, Default)]
pub struct Void {
    /// These, each with the object that it was on, if that is known.
    pub leases: Vec<(Lease, Option<Oid>)>,
    /// All that there were.
    pub all: bool,
    /// Files whose contents are to be dropped. They are put off while engines do not answer, or requests for them take long: nobody is
    /// to be told meanwhile that all is forgotten.
    pub contents: BTreeSet<u64>,
}

/// A file of which the kernel is to drop what it has.
#[derive(Debug)]
pub(super) struct Owed {
    /// Not while requests are on their way that were begun before.
    from_ns: u64,
    /// Who waits for it.
    told: Vec<SyncSender<()>>,
}

impl Owed {
    fn is_late(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.from_ns) >= LATE_NS
    }
}

impl Requests {
    fn owe(&mut self, number: u64, told: Option<SyncSender<()>>, now_ns: u64) {
        let owed = self.drops.entry(number).or_insert_with(|| Owed { from_ns: now_ns, told: Vec::new() });
        owed.told.extend(told);
    }

    fn is_due(&self, number: u64, owed: &Owed, now_ns: u64) -> bool {
        let locks = |of: Option<u64>| of == Some(number);
        let is_soon = |since_ns: u64| since_ns >= owed.from_ns && now_ns.saturating_sub(since_ns) < LONG_NS;
        let mut running = self.running.values().filter(|running| locks(running.locks));
        let mut kept = self.backlog.iter().filter(|kept| locks(locked_by(&kept.bytes)));
        running.all(|running| running.is_answered || is_soon(running.since_ns))
            && kept.all(|kept| is_soon(kept.since_ns))
    }

    /// Files whose contents may be dropped now.
    fn take_due(&mut self, now_ns: u64) -> Vec<(u64, Owed)> {
        let mut drops = core::mem::take(&mut self.drops);
        let due = drops.extract_if(.., |number, owed| self.is_due(*number, owed, now_ns)).collect();
        self.drops = drops;
        due
    }

    /// Whether the request is for contents that have waited to be dropped for too long. What was changed in mapped memory is taken: nobody
    /// would write it again.
    pub(super) fn refuses(&self, bytes: &[u8], now_ns: u64) -> bool {
        /// Where a write says how, and that it is of mapped memory.
        const HOW_AT: usize = HEAD_BYTES + 20;
        const OF_MEMORY: u32 = 1;
        let owed = locked_by(bytes).and_then(|number| self.drops.get(&number));
        let is_of_memory = op_code(bytes) == Some(code::WRITE)
            && word(bytes, HOW_AT).is_some_and(|how| how & OF_MEMORY != 0);
        owed.is_some_and(|owed| owed.is_late(now_ns)) && !is_of_memory
    }

    /// Those that are kept back and refused.
    fn take_refused(&mut self, now_ns: u64) -> Vec<Kept> {
        let mut backlog = core::mem::take(&mut self.backlog);
        let (refused, left): (Vec<_>, _) =
            backlog.drain(..).partition(|kept| self.refuses(&kept.bytes, now_ns));
        self.backlog = left.into();
        self.backlog_bytes -= refused.iter().map(|kept| kept.bytes.len()).sum::<usize>();
        refused
    }
}

/// The node of which the kernel keeps contents locked until the request is answered.
pub(super) fn locked_by(bytes: &[u8]) -> Option<u64> {
    matches!(op_code(bytes)?, code::READ | code::WRITE).then(|| long(bytes, NODE_AT))?
}

impl Session {
    /// Others are about to change what was found with these leases: the kernel has forgotten it when this returns, and contents that
    /// were read without any, if engines answer; they are asked only if there are contents to be forgotten. Also to be called
    /// with none, when [`Session::when_uncovered`] says so. For a thread that serves nothing: it waits for contents that are just being read.
    pub fn drop_void(&self, void: &mut Void, engines_answer: impl FnOnce() -> bool) {
        let mut has_names = false;
        let is_all = core::mem::take(&mut void.all);
        for dropped in self.fs.void(&core::mem::take(&mut void.leases), is_all) {
            // What is not there yet may be on its way: who gets there by its name looks again.
            has_names |= !self.drop_attrs(dropped.number) || dropped.names;
            void.contents.extend(dropped.pages.then_some(dropped.number));
        }
        if has_names && self.fs.has_epoch() {
            self.notify(&notify::names());
        }
        void.contents.extend(self.fs.take_uncovered());
        if void.contents.is_empty() || !engines_answer() {
            return;
        }
        let owed = core::mem::take(&mut void.contents).into_iter().map(|number| {
            let (tell, told) = sync_channel(1);
            self.owe(number, Some(tell));
            (number, told)
        });
        let owed: Vec<_> = owed.collect();
        let end_ns = RealClock.monotonic_ns() + u64::try_from(WAIT.as_nanos()).unwrap_or(u64::MAX);
        for (number, told) in owed {
            let rest = Duration::from_nanos(end_ns.saturating_sub(RealClock.monotonic_ns()));
            if told.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
                // It is dropped when it can be, and waited for again meanwhile.
                void.contents.insert(number);
            }
        }
    }

    /// Has this called whenever contents were read without a lease, by whoever serves: it must not wait.
    pub fn when_uncovered(&self, call: impl Fn() + Send + Sync + 'static) {
        self.fs.when_uncovered(call);
    }

    /// Gives leases back that nobody needs any more; whoever listens does this now and then.
    pub fn drop_old(&self) {
        self.fs.drop_old();
    }
}

#[expect(private_bounds, reason = "who serves is a matter of this crate")]
impl<S: Serves> Session<S> {
    /// Has the kernel drop what it has of a file, and tells who waits for that.
    pub(super) fn owe(&self, number: u64, told: Option<SyncSender<()>>) {
        let mut requests = self.requests();
        if !requests.is_ended {
            requests.owe(number, told, RealClock.monotonic_ns());
            self.drops.notify_all();
        }
    }

    /// Has the kernel drop what it has of files. By a thread of its own: whoever serves might be to serve what that waits for.
    pub(super) fn drop_contents(self: &Arc<Self>) {
        let mut requests = self.requests();
        while !requests.is_ended {
            let now_ns = RealClock.monotonic_ns();
            let due = requests.take_due(now_ns);
            let is_late = requests.drops.values().any(|owed| owed.is_late(now_ns));
            self.is_late.store(is_late, Ordering::Relaxed);
            let refused = if is_late { requests.take_refused(now_ns) } else { Vec::new() };
            if due.is_empty() && refused.is_empty() {
                requests = match requests.drops.is_empty() {
                    true => self.drops.wait(requests).unwrap_or_else(PoisonError::into_inner),
                    false => {
                        self.drops.wait_timeout(requests, LOOK).unwrap_or_else(PoisonError::into_inner).0
                    }
                };
                continue;
            }
            drop(requests);
            self.refuse(refused);
            for (number, Owed { told, .. }) in due {
                self.notify(&notify::node(number, true));
                for told in told {
                    // Ignored: nobody waits for it any more.
                    let _told = told.send(());
                }
            }
            requests = self.requests();
        }
        requests.drops.clear();
    }

    fn refuse(&self, refused: Vec<Kept>) {
        if !refused.is_empty() {
            self.room.notify_all();
        }
        for unique in refused.iter().filter_map(|kept| unique_of(&kept.bytes)) {
            self.fail(unique, number::EIO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Running;
    use super::*;

    const FILE: u64 = 7;
    const FROM_NS: u64 = 100;

    /// A request that came at that time for contents of a node.
    fn running(locks: Option<u64>, since_ns: u64) -> Running {
        Running {
            since_ns,
            pid: 1,
            is_change: false,
            is_interrupted: false,
            is_answered: false,
            entry: None,
            is_parked: false,
            locks,
        }
    }

    fn request(code: u32, node: u64, since_ns: u64) -> Kept {
        let mut bytes = vec![0; HEAD_BYTES + 24];
        bytes[4..8].copy_from_slice(&code.to_le_bytes());
        bytes[NODE_AT..NODE_AT + 8].copy_from_slice(&node.to_le_bytes());
        Kept { bytes, since_ns }
    }

    /// Whether the file may be dropped that somebody wants dropped since `FROM_NS`.
    fn is_due(requests: &Requests, now_ns: u64) -> bool {
        requests.is_due(FILE, &Owed { from_ns: FROM_NS, told: Vec::new() }, now_ns)
    }

    #[test]
    fn contents_are_dropped_when_nothing_is_on_its_way_that_takes_long() {
        let mut requests = Requests::default();
        assert!(is_due(&requests, FROM_NS));
        for (unique, since_ns, locks) in [(1, 5, Some(FILE + 1)), (2, 5, None), (3, FROM_NS, Some(FILE))] {
            requests.running.insert(unique, running(locks, since_ns));
            assert!(is_due(&requests, FROM_NS + 1), "{unique} is of another, or is done in a moment");
        }
        assert!(!is_due(&requests, FROM_NS + LONG_NS), "the store does not answer");
        requests.running.insert(4, running(Some(FILE), FROM_NS - 1));
        assert!(!is_due(&requests, FROM_NS + 1), "it was begun before");
        requests.running.get_mut(&4).unwrap().is_answered = true;
        assert!(is_due(&requests, FROM_NS + 1));
    }

    #[test]
    fn what_is_kept_back_is_on_its_way() {
        let is_due = |backlog: [(u32, u64, u64); 2], now_ns| {
            let backlog = backlog.map(|(code, node, since_ns)| request(code, node, since_ns)).into();
            is_due(&Requests { backlog, ..Requests::default() }, now_ns)
        };
        assert!(is_due([(code::GETATTR, FILE, 1), (code::WRITE, FILE + 1, 1)], FROM_NS));
        for code in [code::READ, code::WRITE] {
            let two = [(code, FILE, FROM_NS), (code, FILE, FROM_NS + 1)];
            assert!(is_due(two, FROM_NS + 2), "{code}: however many there are, their turn comes in a moment");
            assert!(!is_due(two, FROM_NS + LONG_NS), "{code}: it does not");
            assert!(!is_due([(code, FILE, FROM_NS - 1), two[0]], FROM_NS + 2), "{code}: it came before");
        }
    }

    #[test]
    fn a_file_waits_once_however_often_it_is_to_be_dropped_and_all_are_told() {
        let mut requests = Requests::default();
        requests.running.insert(1, running(Some(FILE), FROM_NS - 1));
        let told: Vec<_> = (0..100)
            .map(|more| {
                let (tell, told) = sync_channel(1);
                requests.owe(FILE, Some(tell), FROM_NS + more);
                requests.owe(FILE, None, FROM_NS + more);
                told
            })
            .collect();
        assert_eq!(requests.drops.len(), 1);
        assert!(requests.take_due(FROM_NS + 100).is_empty());
        requests.running.insert(1, running(Some(FILE), FROM_NS + 50));
        let due = requests.take_due(FROM_NS + 100);
        assert_eq!(due.len(), 1, "it waits for what came before it was to be dropped first");
        assert_eq!((due[0].0, due[0].1.told.len()), (FILE, told.len()));
    }

    #[test]
    fn of_a_file_that_has_no_moment_of_its_own_no_request_is_taken_until_it_is_dropped() {
        let (mut requests, late_ns) = (Requests::default(), FROM_NS + LATE_NS);
        requests.owe(FILE, None, FROM_NS);
        requests.running.insert(1, running(Some(FILE), late_ns - LONG_NS));
        let others = [request(code::READ, FILE + 1, FROM_NS), request(code::GETATTR, FILE, FROM_NS)];
        let own = [request(code::READ, FILE, late_ns), request(code::WRITE, FILE, FROM_NS)];
        requests.backlog.extend(others.into_iter().chain(own));
        requests.backlog_bytes = requests.backlog.iter().map(|kept| kept.bytes.len()).sum();
        assert!(requests.take_refused(late_ns - 1).is_empty());
        assert!(requests.take_due(late_ns).is_empty(), "one takes long, and one came long ago");
        let refused = requests.take_refused(late_ns);
        assert_eq!(refused.iter().map(|kept| locked_by(&kept.bytes)).collect::<Vec<_>>(), [Some(FILE); 2]);
        assert_eq!(requests.backlog_bytes, 2 * refused[0].bytes.len());
        assert!(requests.refuses(&refused[0].bytes, late_ns));
        let mut of_memory = refused[1].bytes.clone();
        of_memory[HEAD_BYTES + 20] = 1;
        assert!(!requests.refuses(&of_memory, late_ns), "who has changed memory does not write it again");
        requests.running.remove(&1);
        assert_eq!(requests.take_due(late_ns).len(), 1, "what was on its way has ended");
        assert!(!requests.refuses(&refused[0].bytes, late_ns));
    }
}
