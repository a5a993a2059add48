//! What others change in a mounted container, as its engines say it: on each connection to one a thread listens.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_codec::LEASE_RENEW_NS;
use dolmen_codec::wire::SystemVerb;
use dolmen_env::{Clock, RealClock};
use dolmen_fuse::{Session, Void};
use dolmen_net::client::{Link, Remote};
use dolmen_types::Head;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Between two looks at whether engines answer, while contents are not dropped because one does not.
const LOOK: Duration = Duration::from_millis(50);

/// How long it is waited for whether an engine answers.
const PATIENCE_NS: u64 = 100_000_000;
/// For so long at most contents are believed since another engine than the one that says that they change does not answer.
const PUT_OFF_NS: u64 = 10_000_000_000;

/// Threads that listen, until this is dropped.
pub(crate) struct Listeners {
    remote: Arc<Remote>,
    session: Arc<Session>,
    is_over: Arc<AtomicBool>,
    listened: Vec<(Link, Option<JoinHandle<()>>)>,
}

impl Listeners {
    /// None yet; `look` is to be called now, and whenever `call` is.
    pub(crate) fn new(
        remote: &Arc<Remote>,
        session: &Arc<Session>,
        call: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        remote.when_linked(call);
        let link = remote.link().clone();
        session.when_uncovered(move || link.call_listener());
        let (remote, session) = (Arc::clone(remote), Arc::clone(session));
        Self { remote, session, is_over: Arc::default(), listened: Vec::new() }
    }

    /// Listens on connections that are new: one to another engine is made when something there is asked for.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn look(&mut self) -> dolmen_env::Result<()> {
        for link in self.remote.links() {
            if self.listened.iter().all(|(known, _)| !known.is_same(&link)) {
                let (session, is_over) = (Arc::clone(&self.session), Arc::clone(&self.is_over));
                let (on, remote) = (link.clone(), Arc::clone(&self.remote));
                let listen = move || listen(&on, &remote, &session, &is_over);
                let thread = dolmen_env::spawn("dolmen-leases", listen)?;
                self.listened.push((link, Some(thread)));
            }
        }
        Ok(())
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.listened.iter().for_each(|(link, _)| link.call_listener());
        for thread in self.listened.iter_mut().filter_map(|(_, thread)| thread.take()) {
            // Ignored: a panic in it is told by it.
            let _panicked = thread.join();
        }
    }
}

/// Has the kernel forget what others are about to change, before they are told that they may, and renews leases.
fn listen(link: &Link, remote: &Remote, session: &Session, is_over: &AtomicBool) {
    let (mut renewed_ns, mut void, mut away_ns) = (0, Void::default(), None);
    while !is_over.load(Ordering::Acquire) {
        let due_ns = LEASE_RENEW_NS.saturating_sub(RealClock.monotonic_ns().saturating_sub(renewed_ns));
        let rest = Duration::from_nanos(due_ns);
        let mut pushes = link.pushes(if void.contents.is_empty() { rest } else { rest.min(LOOK) });
        (void.leases, void.all) = (core::mem::take(&mut pushes.void), pushes.all);
        session.drop_void(&mut void, || {
            // Another engine that is away for long is not waited for: what it does not have may be changing.
            let others_answer = remote.links().iter().filter(|other| !other.is_same(link)).all(answers);
            let now_ns = RealClock.monotonic_ns();
            away_ns = if others_answer { None } else { away_ns.or(Some(now_ns)) };
            let is_waited_for = away_ns.is_some_and(|away_ns| now_ns - away_ns < PUT_OFF_NS);
            !is_waited_for && answers(link)
        });
        if void.contents.is_empty() {
            link.handled(&pushes);
        }
        let now_ns = RealClock.monotonic_ns();
        if now_ns.saturating_sub(renewed_ns) >= LEASE_RENEW_NS {
            session.drop_old();
            link.renew_leases();
            renewed_ns = now_ns;
        }
    }
}

/// Whether an engine answers; connects to it anew if it has to be.
fn answers(link: &Link) -> bool {
    let head = Head { deadline_ns: RealClock.now_ns() + PATIENCE_NS, ..Head::default() };
    link.ask_system(&head, &SystemVerb::Ping).is_ok()
}
