//! Requests that a client waits for.
//!
//! Invariants: a token names one request for ever: the number of its place and how often that was used; a request is
//! answered once.

use super::PoolRef;
use super::session::Handles;
use super::slot::SlotOn;
use crate::slots::Slots;
use dolmen_codec::wire::{FetchPlan, FetchedPart, Gathered, PoolConnection, Push, SystemReply, SystemVerb};
use dolmen_codec::{Answer, Ask, Lease, Request};
use dolmen_types::{ContNo, Head, IoBuf, Result};

/// Bits of a token that are its place: a client has fewer requests under way.
const PLACE_BITS: u32 = 24;

/// Who waits for an answer.
#[derive(Debug)]
pub(super) enum Waiter {
    /// A thread, inside a call that brought the request; and what the answer does to the pool's handles.
    Caller(PoolRef, Handles),
    /// Whoever has asked the daemon; with what it takes to open the pool again that it is asked for.
    System(Option<Box<Opens>>),
    /// A queue, which gets it under the token that came with the request. The request is kept until it is answered.
    Queue { queue: usize, token: u64, pool: PoolRef, request: Option<Box<Request<'static>>> },
    /// Nobody any more; but the answer may give something to hold.
    Nobody(Late),
    /// Nobody: it gives back what nobody has.
    Farewell(Box<Farewell>),
}

/// A pool that the daemon is asked for.
#[derive(Clone, Debug)]
pub(super) struct Opens {
    pub(super) connect: SystemVerb,
    pub(super) head: Head,
    /// Whether it is opened beside one that could not be opened again.
    pub(super) is_beside: bool,
}

/// What comes with an answer that nobody waits for any more.
#[derive(Clone, Copy, Debug)]
pub(super) enum Late {
    /// A pool.
    Pool,
    /// What concerns handles of a pool.
    Handles(PoolRef, Handles),
}

/// What is given back, on the connection that it is open on: it ends with that.
#[derive(Debug)]
pub(super) struct Farewell {
    pub(super) head: Head,
    pub(super) to: Given,
}

/// What a daemon has given.
#[derive(Clone, Copy, Debug)]
pub(super) enum Given {
    /// A pool.
    Pool(SlotOn),
    /// A handle on a container.
    Cont(PoolRef, ContNo),
}

/// Whether a request is to be answered with a lease.
#[derive(Debug)]
pub(super) enum Wanted {
    /// It is not.
    No,
    /// If there may be one, on something in this container; it was sent last at that time.
    Yes { cont: ContNo, sent_ns: u64 },
    /// It was.
    Has(Lease),
}

impl Wanted {
    /// What a question has that is to be answered with a lease, or is not.
    pub(super) fn of(ask: &Ask<'_>, wants_lease: bool) -> Self {
        match ask {
            Ask::Target(_, cont, _) if wants_lease => Self::Yes { cont: *cont, sent_ns: 0 },
            _ => Self::No,
        }
    }
}

/// How far a request has come.
#[derive(Debug)]
pub(super) enum Progress {
    /// It is to be sent, for the first time or again.
    Unsent,
    /// It was sent over the present connection.
    Sent,
    /// It is answered.
    Done(Finished),
}

/// An answer, or why there is none.
#[derive(Debug)]
pub(super) enum Finished {
    /// Of a pool.
    Pool(Result<Answer>),
    /// Of the daemon.
    System(Result<SystemReply>),
    /// The same: a pool is open, and has a place among the others.
    Connected(PoolRef, Box<PoolConnection>),
}

/// What a frame has brought.
#[derive(Debug)]
pub(super) enum Decoded {
    /// All of an answer, or its end.
    Finished(Finished),
    /// A part of an answer.
    Part(FetchedPart),
    /// What nobody has asked for.
    Push(Push),
}

/// One request.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) token: u64,
    pub(super) waiter: Waiter,
    pub(super) progress: Progress,
    pub(super) plan: Option<FetchPlan>,
    pub(super) buf: Option<IoBuf>,
    pub(super) deadline_ns: u64,
    /// Whether it closes what was open on a connection that has ended: nobody may know of that any more.
    pub(super) is_late: bool,
    /// Whether a connection is being made, or was, that was begun for it, too.
    pub(super) is_tried: bool,
    /// How often it was sent.
    pub(super) sends: u32,
    /// How often a connection to this run of the engine has ended on which it was sent.
    pub(super) ends: u32,
    /// How many answers had come when it was sent last.
    pub(super) heard: u64,
    /// What it wants of leases, and has.
    pub(super) lease: Wanted,
    /// What has come of an answer in parts, since it was sent last.
    pub(super) gathered: Gathered,
}

/// All requests that a client waits for.
#[derive(Debug, Default)]
pub(super) struct Requests {
    slots: Slots<Pending>,
    used: u64,
}

impl Requests {
    /// A new request, not sent yet; its token is not 0.
    #[inline]
    pub(super) fn begin(
        &mut self,
        waiter: Waiter,
        plan: Option<FetchPlan>,
        buf: Option<IoBuf>,
        deadline_ns: u64,
    ) -> u64 {
        self.used += 1;
        let progress = Progress::Unsent;
        let place = self.slots.insert(Pending {
            token: 0,
            waiter,
            progress,
            plan,
            buf,
            deadline_ns,
            is_late: false,
            is_tried: false,
            sends: 0,
            ends: 0,
            heard: 0,
            lease: Wanted::No,
            gathered: Gathered::default(),
        });
        let token =
            self.used << PLACE_BITS | u64::try_from(place).expect("limited by the number of requests");
        self.slots.of_mut(place).expect("inserted above").token = token;
        token
    }

    /// A request that is under way; `None` for a token that was answered or given up long ago.
    #[inline]
    pub(super) fn of_mut(&mut self, token: u64) -> Option<&mut Pending> {
        self.slots.of_mut(place_of(token)).filter(|pending| pending.token == token)
    }

    /// Takes a request away whose answer nobody waits for any more. If that may come still, with something to hold, the
    /// token stays taken until then.
    pub(super) fn give_up(&mut self, token: u64) -> Option<Pending> {
        let pending = self.of_mut(token)?;
        let late = match (&pending.progress, &pending.waiter) {
            (Progress::Sent, Waiter::System(Some(_))) => Late::Pool,
            (Progress::Sent, waiter) => match handles_of(waiter) {
                Some((pool, handles @ (Handles::Opens(_) | Handles::Evicts(_)))) => {
                    Late::Handles(pool, handles)
                }
                _ => return self.end(token),
            },
            _ => return self.end(token),
        };
        let left = Pending {
            token,
            waiter: Waiter::Nobody(late),
            progress: Progress::Sent,
            plan: None,
            buf: None,
            deadline_ns: u64::MAX,
            gathered: Gathered::default(),
            lease: Wanted::No,
            ..*pending
        };
        Some(core::mem::replace(pending, left))
    }

    /// Takes a request away.
    #[inline]
    pub(super) fn end(&mut self, token: u64) -> Option<Pending> {
        self.of_mut(token)?;
        self.slots.remove(place_of(token))
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.slots.iter()
    }

    /// The tokens of requests that are not answered, in the order in which they were begun.
    pub(super) fn unanswered(&self) -> Vec<u64> {
        let open = self.slots.iter().filter(|pending| !matches!(pending.progress, Progress::Done(_)));
        let mut tokens: Vec<u64> = open.map(|pending| pending.token).collect();
        tokens.sort_unstable();
        tokens
    }
}

/// What the answer to a request of a pool does to its handles; of a queue, closing was noted when it was asked for.
pub(super) fn handles_of(waiter: &Waiter) -> Option<(PoolRef, Handles)> {
    match waiter {
        Waiter::Caller(pool, handles) => Some((*pool, *handles)),
        Waiter::Queue { pool, request: Some(request), .. } => match Handles::of(&request.ask) {
            Handles::Closes(_) => None,
            handles => Some((*pool, handles)),
        },
        Waiter::Queue { request: None, .. } | Waiter::System(_) | Waiter::Nobody(_) | Waiter::Farewell(_) => {
            None
        }
    }
}

/// A token that no request has: its place is beyond all that there are.
pub(super) fn token_of_nobody(number: u64) -> u64 {
    number << PLACE_BITS | ((1 << PLACE_BITS) - 1)
}

fn place_of(token: u64) -> usize {
    usize::try_from(token & ((1 << PLACE_BITS) - 1)).expect("24 bits")
}
