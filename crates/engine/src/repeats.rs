//! Results retained so that a repeated request returns its first one.
//!
//! A client says with each request which is the oldest that it may still send: what is before that is forgotten, and
//! nothing else, however far newer requests have gone ahead. A client is one of a user: another user's with the same id is
//! another client.
//!
//! Places are shared: a user may take one more as long as he has fewer than are free, so that nobody takes another's. Who
//! has his share makes room by his own client that was not heard of for the longest, if that is silent for longer than
//! clients go on asking; what such a one may have asked for does not run again as long as its floor is known.
//!
//! Invariants: results of a client ascend by sequence number, none is before its `oldest`; a client whose results
//! fill their place, or whose user's fill his share, starts nothing new but its oldest; at most `CLIENTS_MAX` clients and
//! `FLOORS_MAX` floors; the list of a user holds all his clients, in the order in which they were heard of last; a client
//! makes room for one of the same user alone.

use dolmen_codec::log_body::ClientIntro;
use dolmen_codec::manifest::{ClientInfo, FloorInfo, ResultInfo};
use dolmen_types::{Epoch, Error, Head, Invalid, limits};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// Clients whose results are retained, of all users: one user has half of them at the most, which is more processes than a
/// large job has.
const CLIENTS_MAX: usize = 32_768;
/// Clients that are remembered, without results, when all results are forgotten.
const FORGOTTEN_MAX: usize = 1024;
/// Results of a client.
const RESULTS_MAX: usize = limits::RETAINED_RESULTS_PER_CLIENT;
/// And while the log is replayed, which does not say what the client had done with: those retained before the crash
/// are the newest, and requests that waited for bulk writes may have gone over `RESULTS_MAX`.
const REPLAYED_MAX: usize = 2 * RESULTS_MAX;
/// Results of all clients, but for one of each: eight for each client there can be. Bounds memory to some MiB.
const ALL_RESULTS_MAX: usize = 8 * CLIENTS_MAX;
/// Clients of which is known how far they had come when they made room.
const FLOORS_MAX: usize = CLIENTS_MAX;
/// A client that is not heard of for so long has done with its requests, or does not look at them: four times what
/// clients go on asking for unless they are told otherwise.
const SILENT_NS: u64 = 120_000_000_000;
/// The number of no client, in the log.
const NOBODY: u32 = u32::MAX;
/// The place of no client, at the ends of a list.
const NONE: u32 = u32::MAX;

/// What a client takes beside its results: itself and its places in the tables.
const CLIENT_RESIDENT_BYTES: usize =
    size_of::<Client>() + 2 * size_of::<(Who, u32)>() + 2 * size_of::<(u32, u32)>();
const FLOOR_RESIDENT_BYTES: usize = 2 * size_of::<(Who, Floor)>() + size_of::<(Who, u64)>();

/// A client of a user.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Who {
    uid: u32,
    client: u128,
}

impl Who {
    #[inline]
    pub(crate) fn asks(head: &Head) -> Self {
        Self { uid: head.cred.uid, client: head.id.client }
    }
}

#[derive(Default)]
pub(crate) struct Repeats {
    clients: Vec<Client>,
    by_who: HashMap<Who, u32>,
    by_number: HashMap<u32, u32>,
    users: Vec<User>,
    by_uid: HashMap<u32, u32>,
    floors: Floors,
    next_number: u32,
    /// The place of who was heard of last.
    last: usize,
    /// Results of all.
    results: usize,
    /// When the target was opened.
    opened_ns: u64,
}

struct Client {
    number: u32,
    who: Who,
    /// Its user's place.
    user: u32,
    /// Who of the same user was heard of before it, and after it.
    before: u32,
    after: u32,
    /// When it was heard of since the target was opened.
    heard_ns: Option<u64>,
    /// Requests before this sequence number are not sent again.
    oldest: u64,
    results: VecDeque<ResultInfo>,
}

/// What a user has of what all share.
struct User {
    clients: usize,
    results: usize,
    /// His clients, from the one not heard of for the longest.
    first: u32,
    last: u32,
}

/// How far a client had come that has made room.
#[derive(Clone, Copy)]
struct Floor {
    oldest: u64,
    /// Counts all floors, to know this one in the list again.
    stamp: u64,
}

/// Clients that have made room.
#[derive(Default)]
struct Floors {
    by_who: HashMap<Who, Floor>,
    order: VecDeque<(Who, u64)>,
    next_stamp: u64,
}

impl Floors {
    fn insert(&mut self, who: Who, oldest: u64) {
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        self.by_who.insert(who, Floor { oldest, stamp });
        self.order.push_back((who, stamp));
        if self.order.len() > FLOORS_MAX
            && let Some((who, stamp)) = self.order.pop_front()
            && self.by_who.get(&who).is_some_and(|floor| floor.stamp == stamp)
        {
            self.by_who.remove(&who);
        }
    }

    fn get(&self, who: Who) -> u64 {
        if self.by_who.is_empty() { 0 } else { self.by_who.get(&who).map_or(0, |floor| floor.oldest) }
    }

    fn to_manifest(&self) -> Vec<FloorInfo> {
        let is_there = |&&(who, stamp): &&(Who, u64)| self.by_who.get(&who).is_some_and(|f| f.stamp == stamp);
        let info = |&(who, _): &(Who, u64)| FloorInfo {
            uid: who.uid,
            client: who.client,
            oldest: self.by_who[&who].oldest,
        };
        self.order.iter().filter(is_there).map(info).collect()
    }
}

impl Client {
    fn place(&self, sequence: u64) -> Result<usize, usize> {
        // As a rule the newest comes last, and then only the end is looked at.
        if self.results.back().is_none_or(|newest| newest.sequence < sequence) {
            return Err(self.results.len());
        }
        self.results.binary_search_by_key(&sequence, |result| result.sequence)
    }

    fn info(&self) -> ClientInfo {
        ClientInfo {
            number: self.number,
            uid: self.who.uid,
            client: self.who.client,
            oldest: self.oldest,
            results: self.results.iter().copied().collect(),
        }
    }
}

impl Repeats {
    /// The target has been opened.
    pub(crate) fn opened(&mut self, now_ns: u64) {
        self.opened_ns = now_ns;
    }

    /// The first result of a request, if it was executed. `oldest` is what the client said with it; one that says
    /// nothing (0) may repeat its latest requests only.
    ///
    /// # Errors
    /// `TimedOut` for a request before the oldest: it may have run and must not run again. `Busy` for a new one, but the
    /// oldest itself, while as many newer than the oldest are retained as there is room for: that one is stuck.
    /// `Invalid::Argument` if something else was asked under this id.
    #[inline]
    pub(crate) fn first_result(
        &mut self,
        head: &Head,
        digest: u32,
        now_ns: u64,
    ) -> Result<Option<Epoch>, Error> {
        let (sequence, oldest) = (head.id.sequence, head.oldest);
        if sequence == 0 {
            return Ok(None);
        }
        let who = Who::asks(head);
        let Some(place) = self.find(who, now_ns) else {
            return if sequence < self.floors.get(who) { Err(Error::TimedOut) } else { Ok(None) };
        };
        self.forget_before(place, oldest.min(sequence));
        let client = &self.clients[place];
        if sequence < client.oldest {
            return Err(Error::TimedOut);
        }
        if let Ok(at) = client.place(sequence) {
            let first = client.results[at];
            return if first.digest == digest {
                Ok(Some(first.epoch))
            } else {
                Err(Invalid::Argument.into())
            };
        }
        if self.has_room(client) || sequence == client.oldest {
            return Ok(None);
        }
        if oldest > 0 {
            return Err(Error::Busy);
        }
        self.forget_first(place);
        if sequence < self.clients[place].oldest { Err(Error::TimedOut) } else { Ok(None) }
    }

    /// The number of a client, if it has one.
    ///
    /// # Errors
    /// `Busy` if it is new, and its user's clients have all places that they may have and may all ask again.
    #[inline]
    pub(crate) fn known(&mut self, head: &Head, now_ns: u64) -> Result<Option<u32>, Error> {
        let who = Who::asks(head);
        match self.find(who, now_ns) {
            Some(place) => Ok(Some(self.clients[place].number)),
            None => self.place_for(who.uid, now_ns).map(|_| None),
        }
    }

    /// A number for a new client, as it is to be logged: a new one, or that of the client which makes room. With its first
    /// request, too, it says which is its oldest.
    ///
    /// REQUIRES: it is new, and `known` has not refused it.
    #[cold]
    pub(crate) fn introduce(&mut self, head: &Head, now_ns: u64) -> ClientIntro {
        let who = Who::asks(head);
        assert!(!self.by_who.contains_key(&who), "it was not known");
        let replaced = self.place_for(who.uid, now_ns).expect("there was room for it");
        let number = match replaced {
            Some(place) => self.clients[place].number,
            None => self.free_number(),
        };
        let oldest = head.oldest.min(head.id.sequence).max(self.floors.get(who));
        let intro = ClientIntro { number, uid: who.uid, client: who.client, oldest };
        self.add(&intro);
        self.clients[self.last].heard_ns = Some(now_ns);
        intro
    }

    /// Makes a client known under a number, as the log has it. Whose the number was has made room, and must not run again
    /// what it may have asked for.
    pub(crate) fn add(&mut self, intro: &ClientIntro) {
        let &ClientIntro { number, uid, client, oldest } = intro;
        let who = Who { uid, client };
        let replaced = self.by_number.get(&number).map(|&place| place as usize);
        let is_full = replaced.is_none() && self.clients.len() >= CLIENTS_MAX;
        if number == NOBODY || is_full || self.by_who.contains_key(&who) {
            // Only a forger writes this.
            return;
        }
        if number >= self.next_number {
            self.next_number = number.wrapping_add(1);
        }
        self.floors.by_who.remove(&who);
        let user = self.user(uid);
        let added = Client {
            number,
            who,
            user,
            before: NONE,
            after: NONE,
            heard_ns: None,
            oldest,
            results: VecDeque::new(),
        };
        let place = match replaced {
            Some(place) => {
                self.make_room(place);
                self.clients[place] = added;
                place
            }
            None => {
                self.clients.push(added);
                self.clients.len() - 1
            }
        };
        self.by_who.insert(who, to_u32(place));
        self.by_number.insert(number, to_u32(place));
        self.users[user as usize].clients += 1;
        self.link_last(place);
    }

    /// Retains the result of a request of the client with this number.
    #[inline]
    pub(crate) fn retain(&mut self, number: u32, result: ResultInfo) {
        if result.sequence == 0 {
            return;
        }
        let place = if self.clients.get(self.last).is_some_and(|c| c.number == number) {
            self.last
        } else {
            match self.by_number.get(&number) {
                Some(&place) => place as usize,
                None => return,
            }
        };
        self.note_last(place);
        let client = &mut self.clients[place];
        match client.place(result.sequence) {
            Ok(at) => client.results[at] = result,
            Err(at) => {
                client.results.insert(at, result);
                self.results += 1;
                self.users[client.user as usize].results += 1;
            }
        }
        if self.clients[place].results.len() > REPLAYED_MAX {
            self.forget_first(place);
        }
    }

    /// Forgets the results of all clients that were heard of since the target was opened; who repeats a request all the same
    /// is told that it may have run, if he is one of the latest. Others may be clients of an engine that has died, and
    /// wait for the next one: their results stay.
    pub(crate) fn forget_results(&mut self) {
        let mut infos = self.to_manifest();
        let heard_ns = |info: &ClientInfo| self.clients[self.by_number[&info.number] as usize].heard_ns;
        for info in infos.iter_mut().filter(|info| heard_ns(info).is_some()) {
            if let Some(newest) = info.results.last() {
                info.oldest = info.oldest.max(newest.sequence.saturating_add(1));
                info.results.clear();
            }
        }
        let mut ended: Vec<_> = infos.iter().filter(|info| info.results.is_empty()).map(heard_ns).collect();
        if ended.len() > FORGOTTEN_MAX {
            let at = ended.len() - FORGOTTEN_MAX;
            let latest = *ended.select_nth_unstable(at).1;
            infos.retain(|info| !info.results.is_empty() || heard_ns(info) >= latest);
        }
        *self = Self::from_manifest(&infos, &self.floors());
    }

    /// Memory that clients and their results take.
    pub(crate) fn resident_bytes(&self) -> u64 {
        // Places for results double, and there are four at first.
        let results = 2 * self.results + 4 * self.clients.len();
        let clients = self.clients.len() * CLIENT_RESIDENT_BYTES;
        (results * size_of::<ResultInfo>() + clients + self.floors.order.len() * FLOOR_RESIDENT_BYTES) as u64
    }

    /// What a manifest holds of the clients: user by user, in the order in which they were heard of last.
    pub(crate) fn to_manifest(&self) -> Vec<ClientInfo> {
        let mut infos = Vec::with_capacity(self.clients.len());
        for user in &self.users {
            let mut at = user.first;
            while let Some(client) = self.clients.get(at as usize) {
                infos.push(client.info());
                at = client.after;
            }
        }
        infos
    }

    /// What it holds of those that have made room.
    pub(crate) fn floors(&self) -> Vec<FloorInfo> {
        self.floors.to_manifest()
    }

    /// The inverse of `to_manifest` and `floors`.
    pub(crate) fn from_manifest(infos: &[ClientInfo], floors: &[FloorInfo]) -> Self {
        let mut repeats = Self::default();
        for &FloorInfo { uid, client, oldest } in floors {
            repeats.floors.insert(Who { uid, client }, oldest);
        }
        for &ClientInfo { number, uid, client, oldest, ref results } in infos {
            repeats.add(&ClientIntro { number, uid, client, oldest });
            results.iter().for_each(|&result| repeats.retain(number, result));
            if let Some(&place) = repeats.by_number.get(&number) {
                repeats.forget_before(place as usize, oldest);
            }
        }
        repeats
    }

    /// Where a new client of a user goes: `None` for a place that is free, or the place of whose room it takes.
    fn place_for(&self, uid: u32, now_ns: u64) -> Result<Option<usize>, Error> {
        let user = self.by_uid.get(&uid).map(|&user| &self.users[user as usize]);
        let has = user.map_or(0, |user| user.clients);
        if has < CLIENTS_MAX - self.clients.len() {
            return Ok(None);
        }
        let first = user.map_or(NONE, |user| user.first) as usize;
        match self.clients.get(first) {
            Some(client) if client.results.is_empty() || self.silent_ns(client, now_ns) >= SILENT_NS => {
                Ok(Some(first))
            }
            _ => Err(Error::Busy),
        }
    }

    /// How long a client was not heard of. Whoever was not since the target was opened may be on his way.
    fn silent_ns(&self, client: &Client, now_ns: u64) -> u64 {
        now_ns.saturating_sub(client.heard_ns.unwrap_or(self.opened_ns))
    }

    /// Whether one more result of a client is within its own limit and the share of its user.
    #[inline]
    fn has_room(&self, client: &Client) -> bool {
        let of_user = self.users[client.user as usize].results;
        client.results.len() < RESULTS_MAX && of_user < ALL_RESULTS_MAX.saturating_sub(self.results)
    }

    fn free_number(&mut self) -> u32 {
        while self.next_number == NOBODY || self.by_number.contains_key(&self.next_number) {
            self.next_number = self.next_number.wrapping_add(1);
        }
        self.next_number
    }

    fn user(&mut self, uid: u32) -> u32 {
        let next = to_u32(self.users.len());
        let user = *self.by_uid.entry(uid).or_insert(next);
        if user == next {
            self.users.push(User { clients: 0, results: 0, first: NONE, last: NONE });
        }
        user
    }

    /// Forgets a client, but for how far it had come if it may ask for something of it again.
    fn make_room(&mut self, place: usize) {
        let newest = self.clients[place].results.back().map(|newest| newest.sequence.saturating_add(1));
        if let Some(oldest) = newest {
            self.forget_before(place, oldest);
            self.floors.insert(self.clients[place].who, oldest);
        }
        self.unlink(place);
        let client = &self.clients[place];
        self.by_who.remove(&client.who);
        self.by_number.remove(&client.number);
        self.users[client.user as usize].clients -= 1;
    }

    /// Forgets what the client does not ask for any more.
    #[inline]
    fn forget_before(&mut self, place: usize, oldest: u64) {
        let client = &mut self.clients[place];
        client.oldest = client.oldest.max(oldest);
        while client.results.front().is_some_and(|result| result.sequence < client.oldest) {
            client.results.pop_front();
            self.results -= 1;
            self.users[client.user as usize].results -= 1;
        }
    }

    fn forget_first(&mut self, place: usize) {
        if let Some(&ResultInfo { sequence, .. }) = self.clients[place].results.front() {
            self.forget_before(place, sequence.saturating_add(1));
        }
    }

    #[inline]
    fn find(&mut self, who: Who, now_ns: u64) -> Option<usize> {
        let is_last = self.clients.get(self.last).is_some_and(|client| client.who == who);
        let place = if is_last { self.last } else { *self.by_who.get(&who)? as usize };
        self.note_last(place);
        self.clients[place].heard_ns = Some(now_ns);
        Some(place)
    }

    /// A client was heard of last.
    #[inline]
    fn note_last(&mut self, place: usize) {
        if place != self.last {
            self.last = place;
            self.unlink(place);
            self.link_last(place);
        }
    }

    fn link_last(&mut self, place: usize) {
        self.last = place;
        let user = &mut self.users[self.clients[place].user as usize];
        let before = core::mem::replace(&mut user.last, to_u32(place));
        match self.clients.get_mut(before as usize) {
            Some(client) => client.after = to_u32(place),
            None => user.first = to_u32(place),
        }
        let client = &mut self.clients[place];
        (client.before, client.after) = (before, NONE);
    }

    fn unlink(&mut self, place: usize) {
        let &Client { user, before, after, .. } = &self.clients[place];
        match self.clients.get_mut(before as usize) {
            Some(client) => client.after = after,
            None => self.users[user as usize].first = after,
        }
        match self.clients.get_mut(after as usize) {
            Some(client) => client.before = before,
            None => self.users[user as usize].last = before,
        }
    }
}

fn to_u32(place: usize) -> u32 {
    u32::try_from(place).expect("limited by CLIENTS_MAX")
}

#[cfg(test)]
mod tests;
