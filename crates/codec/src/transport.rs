//! `Transport`: what a client knows of whatever serves a pool.

use crate::lease::Lease;
use crate::pool::{OpenFor, PoolReply, PoolVerb};
use crate::verb::{Reply, Verb};
use dolmen_types::{ContNo, Epoch, Error, Head, IoBuf, TargetNo};

/// A completion queue of one transport.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueueId(pub u32);

/// One request of a client.
#[derive(Debug)]
pub struct Request<'a> {
    /// Chosen by the client, returned with the answer.
    pub token: u64,
    /// On whose behalf, with request id and pool map version.
    pub head: Head,
    /// To whom, and what.
    pub ask: Ask<'a>,
}

/// To whom a request goes, and what it asks.
#[derive(Debug)]
pub enum Ask<'a> {
    /// One target.
    Target(TargetNo, ContNo, Verb<'a>),
    /// The pool's service.
    Pool(PoolVerb<'a>),
}

impl Request<'_> {
    /// What it is answered with that is not begun; the buffer of a fetch goes back.
    #[must_use]
    pub fn refused(mut self, error: Error) -> Outcome {
        Outcome { token: self.token, result: Err(error), buf: self.ask.take_buf() }
    }
}

impl Ask<'_> {
    /// The buffer of a fetch.
    pub fn take_buf(&mut self) -> Option<IoBuf> {
        match self {
            Self::Target(_, _, Verb::Fetch(fetch)) => Some(core::mem::take(&mut fetch.buf)),
            _ => None,
        }
    }

    /// Whether it may change what a pool holds; what only reads, or waits until what is there lasts, does so also where nothing may be written.
    #[must_use]
    pub fn changes(&self) -> bool {
        match self {
            Self::Target(_, _, verb) => !matches!(
                verb,
                Verb::Fetch(_)
                    | Verb::List(_)
                    | Verb::Query(_)
                    | Verb::TxState(_)
                    | Verb::InDoubt
                    | Verb::Unconcluded
                    | Verb::Latest
                    | Verb::Space
                    | Verb::Flush
                    | Verb::Scrub
                    | Verb::Check
            ),
            Self::Pool(verb) => !matches!(
                verb,
                PoolVerb::Query
                    | PoolVerb::Props
                    | PoolVerb::ContOpen(_, OpenFor::Any)
                    | PoolVerb::ContClose(_)
                    | PoolVerb::ContList
                    | PoolVerb::Lock(..)
                    | PoolVerb::Leases(..)
                    | PoolVerb::ContQuery(_)
                    | PoolVerb::ContQuota(_)
                    | PoolVerb::ContProps(..)
                    | PoolVerb::Attr(..)
                    | PoolVerb::AttrNames(_)
                    | PoolVerb::SnapList(_)
                    | PoolVerb::TxBegin
                    | PoolVerb::TxEnd(_)
                    | PoolVerb::Scrub
                    | PoolVerb::Check
            ),
        }
    }
}

/// An answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// Of a target.
    Target(Reply),
    /// Of the pool's service.
    Pool(PoolReply),
}

/// One finished request.
#[derive(Debug)]
pub struct Outcome {
    /// The request's.
    pub token: u64,
    /// Its answer.
    pub result: Result<Answer, Error>,
    /// The buffer that came with a fetch.
    pub buf: Option<IoBuf>,
}

/// The way to a pool: in process, over shared memory or a network.
///
/// Send and Sync; driven by its callers, it needs no thread of its own. Implemented by `local` and by the
/// message simulator in `sim`.
pub trait Transport: Send + Sync {
    /// Asks and waits for the answer. Borrowed payload is not copied if the target can take it at once.
    fn call(&self, request: Request<'_>) -> Outcome;

    /// Opens a completion queue.
    ///
    /// # Errors
    /// `Busy` above the limit of queues.
    fn open_queue(&self) -> Result<QueueId, Error>;

    /// Closes a queue; what is under way on it is finished and dropped.
    fn close_queue(&self, queue: QueueId);

    /// Sends a request whose outcome goes to `queue`: at the latest when something is asked that waits, or somebody polls.
    fn submit(&self, queue: QueueId, request: Request<'static>);

    /// Sends what was submitted and waits in a buffer. Whether a connection had to be made anew for it to the pool's service: that may
    /// have forgotten who is there.
    fn flush(&self) -> bool {
        false
    }

    /// As `call`, of a read of the present: with a lease on what it has looked at, if there are any. Whoever gets one has to see
    /// to it that whoever drives the transport looks for pushes, else it ends after its term.
    fn call_leased(&self, request: Request<'_>) -> (Outcome, Option<Lease>) {
        (self.call(request), None)
    }

    /// Whether one engine has all that may be asked, and begins with it in the order in which it was asked, for as long as the
    /// connection to it lasts.
    fn is_in_order(&self) -> bool {
        false
    }

    /// Asks several, all of them reads of which none waits for another, and waits for all answers; these are in the order of the
    /// requests. With `true` one is asked as by `call_leased`. They are under way at once where that saves time.
    fn call_all(&self, requests: Vec<(Request<'static>, bool)>) -> Vec<(Outcome, Option<Lease>)> {
        let ask = |(request, wants_lease)| match wants_lease {
            true => self.call_leased(request),
            false => (self.call(request), None),
        };
        requests.into_iter().map(ask).collect()
    }

    /// Whether the engine that has a target understands that what there is of an object is given to somebody.
    ///
    /// # Errors
    /// `Unreachable` if that engine, of which it is not known, is not there.
    fn takes_gifts(&self, _target: TargetNo) -> Result<bool, Error> {
        Ok(true)
    }

    /// Takes note of an epoch that a client has seen at another engine: transactions begin above it.
    fn saw(&self, _epoch: Epoch) {}

    /// Appends finished requests of `queue` to `out`. With `wait`, drives the transport until at least one
    /// is finished, unless none is under way.
    fn poll(&self, queue: QueueId, wait: bool, out: &mut Vec<Outcome>);
}
