//! Results retained so that a repeated request returns its first one.
//!
//! A client says with each request which is the oldest that it may still send: what is before that is forgotten, and
//! nothing else, however far newer requests have gone ahead.
//!
//! Invariants: results of a client ascend by sequence number, none is before its `oldest`; a client whose results
//! fill their place starts nothing new; at most `CLIENTS_MAX` clients, the one heard from least recently makes room.

use dolmen_codec::manifest::ClientInfo;
use dolmen_types::{Epoch, Error, RequestId, limits};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// Clients whose results are retained: more processes than a node runs.
const CLIENTS_MAX: usize = 1024;
/// Results of a client.
const RESULTS_MAX: usize = limits::RETAINED_RESULTS_PER_CLIENT;
/// And while the log is replayed, which does not say what the client had done with: those retained before the crash
/// are the newest, and requests that waited for bulk writes may have gone over `RESULTS_MAX`.
const REPLAYED_MAX: usize = 2 * RESULTS_MAX;

/// What a client takes beside its results: itself and its place in the table.
const CLIENT_RESIDENT_BYTES: usize = size_of::<Client>() + 2 * size_of::<(u128, usize)>();

#[derive(Default)]
pub(crate) struct Repeats {
    clients: Vec<Client>,
    by_id: HashMap<u128, usize>,
    next_number: u32,
    last: usize,
    uses: u64,
}

struct Client {
    number: u32,
    id: u128,
    used: u64,
    /// Requests before this sequence number are not sent again.
    oldest: u64,
    results: VecDeque<(u64, Epoch)>,
}

impl Client {
    fn place(&self, sequence: u64) -> Result<usize, usize> {
        // As a rule the newest comes last, and then only the end is looked at.
        if self.results.back().is_none_or(|newest| newest.0 < sequence) {
            return Err(self.results.len());
        }
        self.results.binary_search_by_key(&sequence, |result| result.0)
    }

    /// Forgets what the client does not ask for any more.
    fn forget_before(&mut self, oldest: u64) {
        self.oldest = self.oldest.max(oldest);
        while self.results.front().is_some_and(|result| result.0 < self.oldest) {
            self.results.pop_front();
        }
    }

    fn forget_first(&mut self) {
        if let Some(&(sequence, _)) = self.results.front() {
            self.forget_before(sequence + 1);
        }
    }
}

impl Repeats {
    /// The first result of a request, if it was executed. `oldest` is what the client said with it; one that says
    /// nothing (0) may repeat its latest requests only.
    ///
    /// # Errors
    /// `TimedOut` for a request before the oldest: it may have run and must not run again. `Busy` for a new one, but the
    /// oldest itself, while as many newer than the oldest are retained as there is room for: that one is stuck.
    pub(crate) fn first_result(&mut self, id: RequestId, oldest: u64) -> Result<Option<Epoch>, Error> {
        if id.sequence == 0 {
            return Ok(None);
        }
        let Some(client) = self.find(id.client) else {
            return Ok(None);
        };
        let client = &mut self.clients[client];
        client.forget_before(oldest.min(id.sequence));
        if id.sequence < client.oldest {
            return Err(Error::TimedOut);
        }
        if let Ok(at) = client.place(id.sequence) {
            return Ok(Some(client.results[at].1));
        }
        if client.results.len() < RESULTS_MAX || id.sequence == client.oldest {
            return Ok(None);
        }
        if oldest > 0 {
            return Err(Error::Busy);
        }
        client.forget_first();
        if id.sequence < client.oldest { Err(Error::TimedOut) } else { Ok(None) }
    }

    /// The number of a client, if it has one.
    #[inline]
    pub(crate) fn known(&mut self, id: u128) -> Option<u32> {
        self.find(id).map(|client| self.clients[client].number)
    }

    /// The number of a client; the flag says that it is new and must be logged. With its first request, too, it says
    /// which is its oldest.
    pub(crate) fn number(&mut self, id: RequestId, oldest: u64) -> (u32, bool) {
        if let Some(client) = self.find(id.client) {
            return (self.clients[client].number, false);
        }
        let number = self.next_number;
        let client = self.add(number, id.client);
        self.clients[client].forget_before(oldest.min(id.sequence));
        (number, true)
    }

    /// Makes a client known under a number that the log gave it; returns its place.
    pub(crate) fn add(&mut self, number: u32, id: u128) -> usize {
        self.next_number = self.next_number.max(number.wrapping_add(1));
        self.uses += 1;
        let client = Client { number, id, used: self.uses, oldest: 0, results: VecDeque::new() };
        if self.clients.len() < CLIENTS_MAX {
            self.by_id.insert(id, self.clients.len());
            self.clients.push(client);
            return self.clients.len() - 1;
        }
        let oldest = (0..CLIENTS_MAX).min_by_key(|&i| self.clients[i].used).expect("there are clients");
        self.by_id.remove(&self.clients[oldest].id);
        self.by_id.insert(id, oldest);
        self.clients[oldest] = client;
        oldest
    }

    /// Retains the result of a request of the client with this number.
    pub(crate) fn retain(&mut self, number: u32, sequence: u64, epoch: Epoch) {
        if sequence == 0 {
            return;
        }
        let index = if self.clients.get(self.last).is_some_and(|c| c.number == number) {
            self.last
        } else {
            match self.clients.iter().position(|c| c.number == number) {
                Some(index) => index,
                None => return,
            }
        };
        self.last = index;
        let client = &mut self.clients[index];
        match client.place(sequence) {
            Ok(at) => client.results[at] = (sequence, epoch),
            Err(at) => client.results.insert(at, (sequence, epoch)),
        }
        if client.results.len() > REPLAYED_MAX {
            client.forget_first();
        }
    }

    /// Forgets all results; who repeats a request all the same is told that it may have run. Clients keep their numbers,
    /// which prepared transactions have, too.
    pub(crate) fn forget_results(&mut self) {
        for client in &mut self.clients {
            if let Some(&(newest, _)) = client.results.back() {
                client.forget_before(newest.saturating_add(1));
            }
        }
    }

    /// Memory that clients and their results take.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let results: usize = self.clients.iter().map(|client| client.results.capacity()).sum();
        (results * size_of::<(u64, Epoch)>() + self.clients.len() * CLIENT_RESIDENT_BYTES) as u64
    }

    /// What a manifest holds of it.
    pub(crate) fn to_manifest(&self) -> Vec<ClientInfo> {
        let info = |c: &Client| ClientInfo {
            number: c.number,
            client: c.id,
            oldest: c.oldest,
            results: c.results.iter().copied().collect(),
        };
        self.clients.iter().map(info).collect()
    }

    /// The inverse of `to_manifest`.
    pub(crate) fn from_manifest(infos: &[ClientInfo]) -> Self {
        let mut repeats = Self::default();
        for info in infos {
            repeats.add(info.number, info.client);
            for &(sequence, epoch) in &info.results {
                repeats.retain(info.number, sequence, epoch);
            }
            if let Some(client) = repeats.find(info.client) {
                repeats.clients[client].forget_before(info.oldest);
            }
        }
        repeats
    }

    fn find(&mut self, id: u128) -> Option<usize> {
        let hit = self.clients.get(self.last).is_some_and(|c| c.id == id);
        let index = if hit { self.last } else { *self.by_id.get(&id)? };
        self.last = index;
        self.uses += 1;
        self.clients[index].used = self.uses;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> RequestId {
        RequestId { client: 77, sequence }
    }

    /// A client known as number 0 with results of these requests.
    fn with_results(sequences: core::ops::RangeInclusive<u64>) -> Repeats {
        let mut repeats = Repeats::default();
        assert_eq!(repeats.number(id(1), 0), (0, true));
        assert_eq!(repeats.number(id(1), 0), (0, false));
        sequences.for_each(|sequence| repeats.retain(0, sequence, Epoch(sequence * 10)));
        repeats
    }

    #[test]
    fn results_are_retained_until_the_client_has_done_with_them_and_through_a_manifest() {
        let mut repeats = with_results(1..=20);
        assert_eq!(repeats.first_result(id(20), 5), Ok(Some(Epoch(200))));
        let mut again = Repeats::from_manifest(&repeats.to_manifest());
        for repeats in [&mut repeats, &mut again] {
            assert_eq!(repeats.first_result(id(5), 5), Ok(Some(Epoch(50))));
            assert_eq!(repeats.first_result(id(4), 1), Err(Error::TimedOut));
            assert_eq!(repeats.first_result(RequestId { client: 78, sequence: 4 }, 1), Ok(None));
        }
    }

    #[test]
    fn what_is_forgotten_does_not_run_again() {
        let mut repeats = with_results(1..=20);
        repeats.forget_results();
        assert!(repeats.to_manifest().iter().all(|client| client.results.is_empty()));
        assert_eq!(repeats.first_result(id(20), 1), Err(Error::TimedOut));
        assert_eq!(repeats.first_result(id(21), 21), Ok(None));
        assert_eq!(repeats.number(id(21), 21), (0, false));
    }

    #[test]
    fn a_first_request_runs_however_far_newer_ones_have_gone_ahead() {
        let mut repeats = with_results(2..=2);
        for sequence in 3..3 * RESULTS_MAX as u64 {
            if sequence == RESULTS_MAX as u64 + 2 {
                assert_eq!(repeats.first_result(id(sequence), 1), Err(Error::Busy), "request 1 is stuck");
                assert_eq!(repeats.first_result(id(1), 1), Ok(None), "it can always run");
                assert_eq!(repeats.first_result(id(2), 1), Ok(Some(Epoch(20))), "a repetition takes none");
            }
            let oldest = if sequence < RESULTS_MAX as u64 + 2 { 1 } else { sequence - 10 };
            assert_eq!(repeats.first_result(id(sequence), oldest), Ok(None), "{sequence}");
            repeats.retain(0, sequence, Epoch(sequence * 10));
            assert!(repeats.clients[0].results.len() <= RESULTS_MAX);
        }
    }

    #[test]
    fn a_client_that_does_not_say_what_it_waits_for_may_repeat_its_latest_requests() {
        let mut repeats = with_results(1..=RESULTS_MAX as u64);
        let next = RESULTS_MAX as u64 + 1;
        assert_eq!(repeats.first_result(id(next), 0), Ok(None));
        repeats.retain(0, next, Epoch(next * 10));
        assert_eq!(repeats.first_result(id(2), 0), Ok(Some(Epoch(20))));
        assert_eq!(repeats.first_result(id(1), 0), Err(Error::TimedOut));
    }

    #[test]
    fn a_replay_keeps_the_newest_results_within_bounds() {
        let mut repeats = with_results(1..=REPLAYED_MAX as u64 + 1);
        assert_eq!(repeats.clients[0].results.len(), REPLAYED_MAX);
        assert_eq!(repeats.first_result(id(1), 0), Err(Error::TimedOut));
    }

    #[test]
    fn the_client_heard_from_least_recently_makes_room() {
        let mut repeats = Repeats::default();
        for id in 0..CLIENTS_MAX as u128 {
            repeats.number(RequestId { client: id, sequence: 1 }, 0);
        }
        let mut is_new = |client| repeats.number(RequestId { client, sequence: 1 }, 0).1;
        is_new(0);
        assert!(is_new(5000));
        assert!(!is_new(0));
        assert!(is_new(1));
    }
}
