//! Contents that the kernel is to drop, since others change them.
//!
//! The kernel waits for those who read them just now, and stores what was changed in memory. While it does nobody can kill the thread
//! that told it, and if the process is killed then, the kernel keeps the mount for that thread, which waits for what nobody answers
//! any more. So the kernel is told while the engines answer, and when nothing is on its way that takes long.

use super::{Requests, Session, op_code};
use crate::abi::op::code;
use crate::abi::request::NODE_AT;
use crate::abi::{long, notify};
use crate::service::Serves;
use core::time::Duration;
use dolmen_dfs::Lease;
use dolmen_env::{Clock, RealClock};
use dolmen_types::Oid;
use std::collections::BTreeSet;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};

/// A request that was begun so long ago may take as long again.
const LONG_NS: u64 = 1_000_000_000;

/// Between two looks at whether something may be dropped; most often it is called before.
const LOOK: Duration = Duration::from_millis(50);

/// What is void of what was found with leases.
#[derive(Debug, Default)]
pub struct Void {
    /// These, each with the object that it was on, if that is known.
    pub leases: Vec<(Lease, Option<Oid>)>,
    /// All that there were.
    pub all: bool,
    /// Files whose contents are to be dropped. They are put off while engines do not answer: nobody is to be told meanwhile that all
    /// is forgotten.
    pub contents: BTreeSet<u64>,
}

/// A file of which the kernel is to drop what it has.
#[derive(Debug)]
pub(super) struct Owed {
    number: u64,
    /// Not while requests are on their way that were begun before.
    from_ns: u64,
    /// Who waits for it.
    told: Option<SyncSender<()>>,
}

impl Owed {
    fn is_due(&self, requests: &Requests, now_ns: u64) -> bool {
        let locks = |of: Option<u64>| of == Some(self.number);
        let is_soon = |since_ns: u64| since_ns >= self.from_ns && now_ns.saturating_sub(since_ns) < LONG_NS;
        let mut running = requests.running.values().filter(|running| locks(running.locks));
        running.all(|running| running.is_answered || is_soon(running.since_ns))
            && !requests.backlog.iter().any(|bytes| locks(locked_by(bytes)))
    }
}

/// The node of which the kernel keeps contents locked until the request is answered.
pub(super) fn locked_by(bytes: &[u8]) -> Option<u64> {
    matches!(op_code(bytes)?, code::READ | code::WRITE).then(|| long(bytes, NODE_AT))?
}

impl Session {
    /// Others are about to change what was found with these leases: the kernel has forgotten it when this returns, and contents that
    /// were read without any, if engines answer; they are asked only if there are contents to be forgotten. To be called often, also
    /// with none. For a thread that serves nothing: it waits for contents that are just being read.
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
            told
        });
        for told in owed.collect::<Vec<_>>() {
            // Ignored: at the end nobody says anything.
            let _told = told.recv();
        }
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
        let from_ns = RealClock.monotonic_ns();
        let mut requests = self.requests();
        if !requests.is_ended {
            requests.drops.push(Owed { number, from_ns, told });
            self.drops.notify_all();
        }
    }

    /// Has the kernel drop what it has of files. By a thread of its own: whoever serves might be to serve what that waits for.
    pub(super) fn drop_contents(self: &Arc<Self>) {
        let mut requests = self.requests();
        while !requests.is_ended {
            let now_ns = RealClock.monotonic_ns();
            let mut drops = core::mem::take(&mut requests.drops);
            let due: Vec<Owed> = drops.extract_if(.., |owed| owed.is_due(&requests, now_ns)).collect();
            requests.drops = drops;
            if due.is_empty() {
                requests = match requests.drops.is_empty() {
                    true => self.drops.wait(requests).unwrap_or_else(PoisonError::into_inner),
                    false => {
                        self.drops.wait_timeout(requests, LOOK).unwrap_or_else(PoisonError::into_inner).0
                    }
                };
                continue;
            }
            drop(requests);
            for Owed { number, told, .. } in due {
                self.notify(&notify::node(number, true));
                if let Some(told) = told {
                    // Ignored: nobody waits for it any more.
                    let _told = told.send(());
                }
            }
            requests = self.requests();
        }
        requests.drops.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Running;
    use super::*;

    const FILE: u64 = 7;

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

    fn request(code: u32, node: u64) -> Vec<u8> {
        let mut bytes = vec![0; NODE_AT + 8];
        bytes[4..8].copy_from_slice(&code.to_le_bytes());
        bytes[NODE_AT..].copy_from_slice(&node.to_le_bytes());
        bytes
    }

    #[test]
    fn contents_are_dropped_when_nothing_is_on_its_way_that_takes_long() {
        let owed = Owed { number: FILE, from_ns: 100, told: None };
        let mut requests = Requests::default();
        assert!(owed.is_due(&requests, 100));
        for (unique, since_ns, locks) in [(1, 5, Some(FILE + 1)), (2, 5, None), (3, 100, Some(FILE))] {
            requests.running.insert(unique, running(locks, since_ns));
            assert!(owed.is_due(&requests, 101), "{unique} is of another, or is done in a moment");
        }
        assert!(!owed.is_due(&requests, 100 + LONG_NS), "the store does not answer");
        requests.running.insert(4, running(Some(FILE), 99));
        assert!(!owed.is_due(&requests, 101), "it was begun before");
        requests.running.get_mut(&4).unwrap().is_answered = true;
        assert!(owed.is_due(&requests, 101));
    }

    #[test]
    fn what_is_kept_back_is_on_its_way() {
        let owed = Owed { number: FILE, from_ns: 0, told: None };
        let is_due = |backlog: &[Vec<u8>]| {
            let requests = Requests { backlog: backlog.to_vec().into(), ..Requests::default() };
            owed.is_due(&requests, 1)
        };
        assert!(is_due(&[request(code::GETATTR, FILE), request(code::WRITE, FILE + 1)]));
        for code in [code::READ, code::WRITE] {
            assert!(!is_due(&[request(code, FILE)]), "{code}");
        }
    }
}
