//! Results retained so that a repeated request returns its first one.
//!
//! Invariants: at most `limits::RETAINED_RESULTS_PER_CLIENT` results a client and `CLIENTS_MAX` clients; the
//! client heard from least recently makes room.

use dolmen_codec::manifest::ClientInfo;
use dolmen_types::{Epoch, Error, RequestId, limits};
use hashbrown::HashMap;

/// Clients whose results are retained: more processes than a node runs.
const CLIENTS_MAX: usize = 1024;

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
    results: Vec<(u64, Epoch)>,
}

impl Repeats {
    /// The first result of a request, if it is retained.
    ///
    /// # Errors
    /// `TimedOut` for a repetition so late that newer requests have taken its place: it must not run again.
    pub(crate) fn first_result(&mut self, id: RequestId) -> Result<Option<Epoch>, Error> {
        if id.sequence == 0 {
            return Ok(None);
        }
        let Some(client) = self.find(id.client) else {
            return Ok(None);
        };
        match self.clients[client].results.get(slot(id.sequence)) {
            Some(&(sequence, epoch)) if sequence == id.sequence => Ok(Some(epoch)),
            Some(&(sequence, _)) if sequence > id.sequence => Err(Error::TimedOut),
            Some(_) | None => Ok(None),
        }
    }

    /// The number of a client; the flag says that it is new and must be logged.
    pub(crate) fn number(&mut self, id: u128) -> (u32, bool) {
        if let Some(client) = self.find(id) {
            return (self.clients[client].number, false);
        }
        let number = self.next_number;
        self.add(number, id);
        (number, true)
    }

    /// Makes a client known under a number that the log gave it.
    pub(crate) fn add(&mut self, number: u32, id: u128) {
        self.next_number = self.next_number.max(number.wrapping_add(1));
        self.uses += 1;
        let client = Client { number, id, used: self.uses, results: Vec::new() };
        if self.clients.len() < CLIENTS_MAX {
            self.by_id.insert(id, self.clients.len());
            self.clients.push(client);
            return;
        }
        let oldest = (0..CLIENTS_MAX).min_by_key(|&i| self.clients[i].used).expect("there are clients");
        self.by_id.remove(&self.clients[oldest].id);
        self.by_id.insert(id, oldest);
        self.clients[oldest] = client;
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
        let results = &mut self.clients[index].results;
        let slot = slot(sequence);
        if results.len() <= slot {
            results.resize(slot + 1, (0, Epoch::ZERO));
        }
        results[slot] = (sequence, epoch);
    }

    /// What a manifest holds of it.
    pub(crate) fn to_manifest(&self) -> Vec<ClientInfo> {
        let kept = |c: &Client| c.results.iter().copied().filter(|r| r.0 != 0).collect();
        self.clients.iter().map(|c| ClientInfo { number: c.number, client: c.id, results: kept(c) }).collect()
    }

    /// The inverse of `to_manifest`.
    pub(crate) fn from_manifest(infos: &[ClientInfo]) -> Self {
        let mut repeats = Self::default();
        for info in infos {
            repeats.add(info.number, info.client);
            for &(sequence, epoch) in &info.results {
                repeats.retain(info.number, sequence, epoch);
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

fn slot(sequence: u64) -> usize {
    let retained = limits::RETAINED_RESULTS_PER_CLIENT as u64;
    usize::try_from(sequence % retained).expect("below a small limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_retained_within_the_window_and_through_a_manifest() {
        let mut repeats = Repeats::default();
        assert_eq!(repeats.number(77), (0, true));
        assert_eq!(repeats.number(77), (0, false));
        for sequence in 1..=limits::RETAINED_RESULTS_PER_CLIENT as u64 + 1 {
            repeats.retain(0, sequence, Epoch(sequence * 10));
        }
        let mut again = Repeats::from_manifest(&repeats.to_manifest());
        for repeats in [&mut repeats, &mut again] {
            assert_eq!(repeats.first_result(RequestId { client: 77, sequence: 2 }), Ok(Some(Epoch(20))));
            assert_eq!(repeats.first_result(RequestId { client: 77, sequence: 1 }), Err(Error::TimedOut));
            assert_eq!(repeats.first_result(RequestId { client: 78, sequence: 2 }), Ok(None));
        }
    }

    #[test]
    fn the_client_heard_from_least_recently_makes_room() {
        let mut repeats = Repeats::default();
        for id in 0..CLIENTS_MAX as u128 {
            repeats.number(id);
        }
        repeats.number(0);
        assert!(repeats.number(5000).1);
        assert!(!repeats.number(0).1);
        assert!(repeats.number(1).1);
    }
}
