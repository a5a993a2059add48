//! Shares of a container's limits: what each engine with targets of a pool may use of it, as its service says, and what the engines
//! tell it.
//!
//! Invariants: an account with a share admits nothing beyond it but what a single account would beyond its limits; a share is raised by
//! the service alone, for the very life of the account that it has heard of, and by nothing that was said before what was said last.

use super::{Account, ByUser, Charge, State};
use core::time::Duration;
use dolmen_types::{ContNo, RequestId, TxId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;

/// Wishes that wait, and answers that nobody has asked for yet: more than an engine has requests under way. The oldest goes, and who
/// waits for it asks again.
const WISHES_MAX: usize = 65_536;

/// Parts of transactions that did fit and are remembered: more than are committed at once.
const MET_MAX: usize = 1024;

/// Transactions that move names and are not known to have ended: those of a service that has died are never heard of again.
const MOVES_MAX: usize = 4096;

impl Charge {
    /// In the place of a bound: none.
    pub const BOUNDLESS: Self = Self { bytes: u64::MAX, files: u64::MAX };

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { bytes: self.bytes.max(other.bytes), files: self.files.max(other.files) }
    }
}

/// Up to where an account may be filled: all together, and users. Who is not named has no bound of his own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bounds {
    /// All together.
    pub all: Charge,
    /// Users, by number.
    pub users: BTreeMap<u32, Charge>,
}

impl Bounds {
    /// That of a user, or of all together; nothing for a user who has none.
    #[must_use]
    pub fn of(&self, uid: Option<u32>) -> Charge {
        uid.map_or(self.all, |uid| self.users.get(&uid).copied().unwrap_or_default())
    }

    /// Makes none of them lower than in the others.
    pub fn raise(&mut self, others: &Self) {
        self.all = self.all.max(others.all);
        for (uid, bound) in &others.users {
            let own = self.users.entry(*uid).or_default();
            *own = own.max(*bound);
        }
    }
}

/// A write that an account had no room for, and what it adds beyond what it replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The request.
    pub id: RequestId,
    /// Of all together.
    pub all: Charge,
    /// Of users.
    pub users: Vec<(u32, Charge)>,
    /// A part of a transaction: who has that asks the service what became of it.
    pub is_tx: bool,
}

/// What the service asks of an engine for a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The container.
    pub cont: ContNo,
    /// The life of the account that it speaks to; another one does nothing.
    pub life: u64,
    /// Larger than in what it has said before.
    pub number: u64,
    /// What it asks.
    pub ask: ShareAsk,
}

/// What that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShareAsk {
    /// What is used, and who waits; of a request also what it adds where it did fit.
    Look(Option<RequestId>),
    /// The same, and that what is not used is given back: nothing more is taken until something is set.
    Recall,
    /// How far the account may be filled, and for whom there is room now and for whom there is none.
    Set {
        /// How far.
        bounds: Bounds,
        /// Whether there is room for requests.
        told: Vec<(RequestId, bool)>,
    },
    /// That a transaction moves so many names; 0 when it has ended.
    Moves(TxId, u64),
    /// Which containers anybody waits in, or that have not been told their share. Asked for no container.
    Short,
}

/// What an engine answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShareTold {
    /// To all but the last.
    Account(Told),
    /// To the last.
    Short(Vec<ContNo>),
}

/// How an account is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    /// Its life: 0 if there is no account, and nothing is held up.
    pub life: u64,
    /// How far it may be filled.
    pub bounds: Bounds,
    /// What users have; several lines of one are added.
    pub used: Vec<(u32, Charge)>,
    /// What gifts under way would bring users, of what others have.
    pub incoming: Vec<(u32, Charge)>,
    /// Who waits.
    pub wishes: Vec<Wish>,
    /// Changes of the container: after each there may be something that nobody sees.
    pub changes: u64,
    /// Of what was said last.
    pub number: u64,
}

impl Told {
    /// What is held against a user's limits: what he has, and what he is about to be given.
    #[must_use]
    pub fn held_by(&self, uid: u32) -> Charge {
        let own = self.used.iter().chain(&self.incoming).filter(|one| one.0 == uid);
        own.fold(Charge::NONE, |sum, one| sum.plus(one.1))
    }

    /// What all have: also what they give, so that nothing is counted twice.
    #[must_use]
    pub fn used_by_all(&self) -> Charge {
        self.used.iter().fold(Charge::NONE, |sum, one| sum.plus(one.1))
    }
}

/// What became of a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    Waits,
    /// There is room, or nobody knows of the wish: it is worth another attempt.
    Room,
    /// There is none.
    Full,
}

/// The share of an account.
#[derive(Debug)]
pub(super) struct Shared {
    life: u64,
    /// Of what was said last.
    number: u64,
    pub(super) is_told: bool,
    pub(super) bounds: Bounds,
    wishes: VecDeque<Wish>,
    /// Parts of transactions that did fit: if another one does not, all are to fit together.
    met: VecDeque<Wish>,
    verdicts: VecDeque<(RequestId, bool)>,
}

impl Account {
    /// Has only a share of the limits from now on: nothing more than what is there, until the service tells it.
    ///
    /// REQUIRES: no account of the same container has had, or will have, this life; all targets count in it.
    pub fn freeze(&self, life: u64) {
        let mut state = self.state();
        if state.share.is_none() {
            let bounds = Bounds::default();
            let (wishes, met, verdicts) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
            state.share = Some(Shared { life, number: 0, is_told: false, bounds, wishes, met, verdicts });
        }
    }

    /// Has no share any more, but what the limits say.
    pub fn unfreeze(&self) {
        self.state().share = None;
        self.told.notify_all();
    }

    /// Whether it has a share only.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.state().share.is_some()
    }

    /// Whether anybody waits, or it has not been told its share.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.state().share.as_ref().is_some_and(|share| !share.is_told || !share.wishes.is_empty())
    }

    /// Does what the service says, and tells how it is. What was said before what was said last is passed over.
    pub fn share(&self, life: u64, number: u64, ask: &ShareAsk) -> Told {
        let mut state = self.state();
        if let ShareAsk::Moves(tx, names) = *ask {
            state.set_moves(tx, names);
        }
        state.obey(life, number, ask);
        let of = if let ShareAsk::Look(of) = ask { *of } else { None };
        let told = state.told(self.changes(), of);
        drop(state);
        self.told.notify_all();
        told
    }

    /// Notes that a request did not fit, for the service to find room for it.
    pub fn note_short(&self, id: RequestId, tx: Option<TxId>, adds: &ByUser, replaced: &ByUser) {
        let mut state = self.state();
        let wish = state.wish(id, tx, adds, replaced);
        let Some(share) = &mut state.share else { return };
        share.forget(id);
        share.wishes.push_back(wish);
        if share.wishes.len() > WISHES_MAX {
            share.wishes.pop_front();
        }
    }

    /// Notes that a part of a transaction did fit.
    pub fn note_met(&self, id: RequestId, tx: TxId, adds: &ByUser, replaced: &ByUser) {
        let mut state = self.state();
        if state.share.is_none() {
            return;
        }
        let wish = state.wish(id, Some(tx), adds, replaced);
        let Some(share) = &mut state.share else { return };
        share.met.push_back(wish);
        if share.met.len() > MET_MAX {
            share.met.pop_front();
        }
    }

    /// What became of a request's wish; a verdict is told once.
    #[must_use]
    pub fn verdict(&self, id: RequestId) -> Verdict {
        self.state().verdict(id)
    }

    /// The same, and waits for one.
    #[must_use]
    pub fn await_verdict(&self, id: RequestId, limit: Duration) -> Verdict {
        let mut verdict = Verdict::Waits;
        let waits = |state: &mut State| {
            verdict = state.verdict(id);
            verdict == Verdict::Waits
        };
        drop(
            self.told.wait_timeout_while(self.state(), limit, waits).unwrap_or_else(PoisonError::into_inner),
        );
        verdict
    }

    /// Nobody waits for it any more.
    pub fn forget_wish(&self, id: RequestId) {
        if let Some(share) = &mut self.state().share {
            share.forget(id);
        }
    }
}

impl State {
    fn wish(&self, id: RequestId, tx: Option<TxId>, adds: &ByUser, replaced: &ByUser) -> Wish {
        let moved = Charge { bytes: 0, files: self.moved(tx) };
        let users = adds.iter().map(|(uid, adds)| (uid, adds.less(replaced.of(uid).plus(moved)))).collect();
        Wish { id, all: adds.all().less(replaced.all().plus(moved)), users, is_tx: tx.is_some() }
    }

    fn set_moves(&mut self, tx: TxId, names: u64) {
        if names == 0 {
            self.moves.remove(&tx);
            return;
        }
        self.moves.insert(tx, names);
        if self.moves.len() > MOVES_MAX {
            self.moves.pop_first();
        }
    }

    fn obey(&mut self, life: u64, number: u64, ask: &ShareAsk) {
        let Some(share) = &mut self.share else { return };
        if number <= share.number {
            return;
        }
        match ask {
            ShareAsk::Recall => {
                share.number = number;
                share.is_told = false;
                // A bound that there is not stays so. What is there now may be freed, and is not to be taken again.
                let back = |bound: Charge| {
                    let one = |bound: u64| if bound == u64::MAX { bound } else { 0 };
                    Charge { bytes: one(bound.bytes), files: one(bound.files) }
                };
                share.bounds.all = back(share.bounds.all);
                share.bounds.users.values_mut().for_each(|bound| *bound = back(*bound));
            }
            ShareAsk::Set { bounds, told } if life == share.life => {
                share.number = number;
                share.is_told = true;
                share.bounds.clone_from(bounds);
                for &(id, has_room) in told {
                    let Some(is_tx) = share.wishes.iter().find(|wish| wish.id == id).map(|wish| wish.is_tx)
                    else {
                        continue;
                    };
                    share.forget(id);
                    if !is_tx {
                        share.verdicts.push_back((id, has_room));
                    }
                }
                while share.verdicts.len() > WISHES_MAX {
                    share.verdicts.pop_front();
                }
            }
            ShareAsk::Set { .. } | ShareAsk::Look(_) | ShareAsk::Moves(..) | ShareAsk::Short => {}
        }
    }

    fn told(&self, changes: u64, of: Option<RequestId>) -> Told {
        let [used, incoming] =
            [&self.by_user, &self.incoming].map(|all| all.iter().map(|(&uid, &one)| (uid, one)).collect());
        let Some(share) = &self.share else { return Told { used, incoming, changes, ..Told::default() } };
        let met = share.met.iter().filter(|wish| Some(wish.id) == of);
        let wishes = share.wishes.iter().chain(met).cloned().collect();
        let (life, bounds, number) = (share.life, share.bounds.clone(), share.number);
        Told { life, bounds, used, incoming, wishes, changes, number }
    }

    fn verdict(&mut self, id: RequestId) -> Verdict {
        let Some(share) = &mut self.share else { return Verdict::Room };
        if let Some(at) = share.verdicts.iter().position(|one| one.0 == id) {
            let has_room = share.verdicts.remove(at).is_some_and(|one| one.1);
            return if has_room { Verdict::Room } else { Verdict::Full };
        }
        let waits = share.wishes.iter().any(|wish| wish.id == id);
        if waits { Verdict::Waits } else { Verdict::Room }
    }
}

impl Shared {
    fn forget(&mut self, id: RequestId) {
        self.wishes.retain(|wish| wish.id != id);
        self.verdicts.retain(|one| one.0 != id);
    }
}
