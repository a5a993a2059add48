//! Operations of several requests each, side by side in one thread: what all of them ask next goes out at once, so that together they
//! take as many round trips as the longest of them alone.
//!
//! Invariants: a round belongs to one client and one thread; what was asked in a round is answered before anything is polled again; the
//! pool's map is asked for once in it, however many need it.

use crate::client::Core;
use crate::gathered::Gathered;
use core::cell::RefCell;
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::Poll;
use dolmen_codec::{Lease, Outcome, Request, give_way, step};
use dolmen_types::Result;

/// So many requests of a round: what more is asked waits for the next one. Their answers take a MiB, or 40 MiB where each has as many
/// extents as there may be in one.
const ROUND_MAX: usize = 1024;

type Answered = (Outcome, Option<Lease>);

/// What is asked at once, and what was answered to the last of it, in that order.
struct Round {
    /// Whose.
    of: *const Core,
    asked: Vec<(Request<'static>, bool)>,
    answers: Vec<Option<Answered>>,
    /// Which of what is asked is the question for the pool's map.
    map_place: Option<usize>,
}

thread_local! {
    /// The round that operations of this thread ask in.
    static ROUND: RefCell<Option<Round>> = const { RefCell::new(None) };
}

/// Puts back the round that was there when it is dropped, unless that was done.
struct Restores(Option<Option<Round>>);

impl Drop for Restores {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            drop(put(before));
        }
    }
}

/// Puts a round in place of the one that was there; nothing in a thread that ends, whose variables are gone.
fn put(round: Option<Round>) -> Option<Round> {
    ROUND.try_with(|own| own.replace(round)).ok().flatten()
}

/// Does something with the round, if there is one of this client.
fn with_round<T>(core: &Core, body: impl FnOnce(&mut Round) -> T) -> Option<T> {
    let body =
        |round: &mut Option<Round>| round.as_mut().filter(|round| core::ptr::eq(round.of, core)).map(body);
    ROUND.try_with(|own| body(&mut own.borrow_mut())).ok().flatten()
}

/// Operations side by side; what they have come to, in their order.
pub async fn side_by_side<T, F: Future<Output = T>>(operations: impl IntoIterator<Item = F>) -> Vec<T> {
    enum At<T, F> {
        UnderWay(Pin<Box<F>>),
        Done(T),
    }
    let mut all: Vec<At<T, F>> = operations.into_iter().map(|one| At::UnderWay(Box::pin(one))).collect();
    poll_fn(|context| {
        let mut is_pending = false;
        for at in &mut all {
            if let At::UnderWay(operation) = at {
                match operation.as_mut().poll(context) {
                    Poll::Ready(done) => *at = At::Done(done),
                    Poll::Pending => is_pending = true,
                }
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let done = |at| match at {
        At::Done(done) => done,
        At::UnderWay(_) => unreachable!("polled until none was"),
    };
    all.into_iter().map(done).collect()
}

impl Core {
    /// Carries out an operation that goes the way `Later`.
    pub(crate) fn together<T>(&self, operation: impl Future<Output = T>) -> T {
        let (mut operation, mut answers) = (pin!(operation), Vec::new());
        loop {
            let round = Round { of: self, asked: Vec::new(), answers, map_place: None };
            let mut restores = Restores(Some(put(Some(round))));
            let polled = step(&mut operation);
            let round = put(restores.0.take().expect("set above, and taken here alone"));
            if let Poll::Ready(done) = polled {
                return done;
            }
            let asked = round.map_or_else(Vec::new, |round| round.asked);
            if asked.is_empty() {
                // It waits for time to go by, or asks on the queue.
                dolmen_env::yield_now();
            }
            answers = self.call_all(asked).into_iter().map(Some).collect();
        }
    }

    /// Whether what is asked now is asked in a round.
    pub(crate) fn has_round(&self) -> bool {
        with_round(self, |_| ()).is_some()
    }

    /// Asks for the pool's map in the round, once for all who need it there, and takes it over; unless it is newer by then than
    /// `version`.
    pub(crate) async fn query_in_round(&self, version: u32) -> Result<()> {
        self.has_room_in_round().await;
        if self.map().version > version {
            return Ok(());
        }
        let question = self.map_question();
        let place = with_round(self, |round| {
            *round.map_place.get_or_insert_with(|| {
                round.asked.push((question, false));
                round.asked.len() - 1
            })
        });
        give_way().await;
        let told = with_round(self, |round| {
            let (outcome, _) = round.answers.get(place?)?.as_ref()?;
            Some(self.take_map(&outcome.result))
        });
        told.flatten().expect("a round is answered before anybody in it is polled again")
    }

    async fn has_room_in_round(&self) {
        while with_round(self, |round| round.asked.len()).is_some_and(|asked| asked >= ROUND_MAX) {
            give_way().await;
        }
    }

    /// Asks in the round, with a lease if there is a place for it.
    pub(crate) async fn ask_in_round(
        &self,
        make: impl FnOnce() -> Request<'static>,
        gathered: Option<&Gathered>,
    ) -> Outcome {
        self.has_room_in_round().await;
        let request = make();
        let place = with_round(self, |round| {
            round.asked.push((request, gathered.is_some()));
            round.asked.len() - 1
        });
        give_way().await;
        let answer = with_round(self, |round| round.answers.get_mut(place?)?.take()).flatten();
        let (outcome, lease) = answer.expect("a round is answered before anybody in it is polled again");
        if let Some(gathered) = gathered {
            gathered.note(&outcome, lease);
        }
        outcome
    }
}
