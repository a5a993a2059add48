//! The other engines of a system, and what this one asks them.

use core::time::Duration;
use dolmen_codec::Transport;
use dolmen_codec::wire::{Looked, PartKey, PartSpec, RankInfo, SystemInfo, SystemReply, SystemVerb};
use dolmen_local::Spread;
use dolmen_net::client::{CertsFrom, Door, Link, LinkOptions, reach};
use dolmen_net::tls::Certs;
use dolmen_types::{Error, Head, Result, Uuid};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long another engine may be silent before what needs it fails: it may be starting anew.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long another engine may take to say which list it has.
const LOOK: Duration = Duration::from_secs(1);

/// The engines of a system, as one of them knows them.
pub(crate) struct Peers {
    rank: u32,
    /// In the order of the system's list; empty if this is the only one.
    all: Vec<RankInfo>,
    certs: Option<Certs>,
    /// Guards connections that are kept, by engine: those that parts ask their services by. Taken alone.
    kept: Mutex<BTreeMap<u32, Link>>,
}

impl Peers {
    pub(crate) fn new(rank: u32, all: Vec<RankInfo>, certs: Option<Certs>) -> Self {
        Self { rank, all, certs, kept: Mutex::default() }
    }

    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    pub(crate) fn all(&self) -> &[RankInfo] {
        &self.all
    }

    /// Whether pools are made here.
    pub(crate) fn is_first(&self) -> bool {
        self.all.first().is_none_or(|first| first.rank == self.rank)
    }

    /// Opens the parts of a pool, in the order of its engines after the first, which is this one.
    pub(crate) fn open_parts(&self, pool: Uuid, spread: &Spread) -> Result<Vec<Arc<dyn Transport>>> {
        let open = |&rank: &u32| -> Result<Arc<dyn Transport>> {
            let connect = SystemVerb::PartConnect { pool, key: PartKey(spread.key) };
            let (door, _) = Door::open(&self.link(rank)?, &Head::default(), connect)?;
            Ok(Arc::new(door))
        };
        spread.ranks.iter().skip(1).map(open).collect()
    }

    /// Makes the parts of a new pool; those that were made are destroyed again if one cannot be.
    pub(crate) fn create_parts(&self, part: &PartSpec) -> Result<()> {
        let others = part.ranks.iter().skip(1);
        for (made, &rank) in others.enumerate() {
            if let Err(error) = self.ask(rank, &SystemVerb::PartCreate(Box::new(part.clone()))) {
                if let Some(pool) = part.pool.uuid {
                    let ranks = part.ranks.iter().copied().skip(1).take(made + 1);
                    // Ignored: why it could not be made says more, and a part without a pool does no harm.
                    let _left = self.destroy_parts(pool, part.key, ranks);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Destroys parts of a pool, all that can be; the first error.
    pub(crate) fn destroy_parts(
        &self,
        pool: Uuid,
        key: PartKey,
        ranks: impl Iterator<Item = u32>,
    ) -> Result<()> {
        self.ask_each(ranks, &SystemVerb::PartDestroy { pool, key })
    }

    /// Takes parts of a pool from all who have them open, all that can be; the first error.
    pub(crate) fn evict_parts(
        &self,
        pool: Uuid,
        key: PartKey,
        ranks: impl Iterator<Item = u32>,
    ) -> Result<()> {
        self.ask_each(ranks, &SystemVerb::PartEvict { pool, key })
    }

    /// Asks all of them, also after one has failed.
    fn ask_each(&self, ranks: impl Iterator<Item = u32>, verb: &SystemVerb) -> Result<()> {
        ranks.map(|rank| self.ask(rank, verb)).fold(Ok(()), Result::and)
    }

    /// Whether these are the engines of this system, in their order.
    pub(crate) fn is_list(&self, ranks: &[u32]) -> bool {
        !self.all.is_empty() && self.all.iter().map(|engine| engine.rank).eq(ranks.iter().copied())
    }

    /// The system's list as this engine has it.
    pub(crate) fn list(&self, name: &str) -> SystemInfo {
        SystemInfo { name: name.to_owned(), ranks: self.all.clone(), pool_count: 0 }
    }

    /// The engines but this one.
    pub(crate) fn others(&self) -> impl Iterator<Item = u32> {
        self.all.iter().map(|engine| engine.rank).filter(|&rank| rank != self.rank)
    }

    /// Tells another engine the list, and hears its own.
    pub(crate) fn compare(&self, rank: u32, list: &SystemInfo) -> Result<SystemInfo> {
        let options = self.options(LOOK, LOOK);
        let compare = SystemVerb::Compare { rank: self.rank, list: Box::new(list.clone()) };
        match self.link_with(rank, &options)?.ask_system(&Head::default(), &compare)? {
            SystemReply::System(other) => Ok(other),
            _ => Err(Error::Unreachable { rank }),
        }
    }

    /// Who answers, and where, at an address at which this system has engine `rank`, if that is another one.
    pub(crate) fn stranger(&self, rank: u32) -> Option<(String, u32)> {
        let options = self.options(LOOK, LOOK);
        let info = self.all.iter().find(|info| info.rank == rank)?;
        let found = |text: &String| {
            let other = reach::link(&reach::address(text).ok()??, &options).ok()?.rank();
            (other != rank).then(|| (text.clone(), other))
        };
        info.addresses.iter().find_map(found)
    }

    /// Whether an engine answers.
    pub(crate) fn ping(&self, rank: u32) -> Result<()> {
        self.ask(rank, &SystemVerb::Ping)
    }

    /// Asks another engine what is answered with `Done`.
    pub(crate) fn ask(&self, rank: u32, verb: &SystemVerb) -> Result<()> {
        match self.link(rank)?.ask_system(&Head::default(), verb)? {
            SystemReply::Done => Ok(()),
            _ => Err(Error::Unreachable { rank }),
        }
    }

    /// Asks the engine with a pool's service who may do what; every user who comes to a part, and every container that he
    /// opens there, asks once.
    pub(crate) fn look(&self, rank: u32, verb: &SystemVerb) -> Result<Looked> {
        let kept = self.kept().get(&rank).cloned();
        let link = match kept {
            Some(link) => link,
            None => {
                let made = self.link(rank)?;
                self.kept().entry(rank).or_insert(made).clone()
            }
        };
        match link.ask_system(&Head::default(), verb)? {
            SystemReply::Looked(looked) => Ok(*looked),
            _ => Err(Error::Unreachable { rank }),
        }
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<u32, Link>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self, rank: u32) -> Result<Link> {
        self.link_with(rank, &self.options(PATIENCE, LinkOptions::default().connect_timeout))
    }

    fn options(&self, patience: Duration, connect_timeout: Duration) -> LinkOptions {
        let certs = self.certs.clone().map_or(CertsFrom::Nowhere, CertsFrom::These);
        LinkOptions { patience, connect_timeout, certs, ..LinkOptions::default() }
    }

    fn link_with(&self, rank: u32, options: &LinkOptions) -> Result<Link> {
        let unreachable = Error::Unreachable { rank };
        let info = self.all.iter().find(|info| info.rank == rank).ok_or_else(|| unreachable.clone())?;
        reach::engine(info, true, options).map_err(|_silent| unreachable)
    }
}

/// How the list `other` differs from `own`, in the words of who has the latter; `None` if it does not.
pub(crate) fn difference(own: &SystemInfo, other: &SystemInfo) -> Option<String> {
    if own.name != other.name {
        return Some(format!("the system is {:?} there and {:?} here", other.name, own.name));
    }
    let ranks = |list: &SystemInfo| list.ranks.iter().map(|info| info.rank).collect::<Vec<u32>>();
    if ranks(own) != ranks(other) {
        return Some(format!("its ranks are {:?} there and {:?} here", ranks(other), ranks(own)));
    }
    let differs = |(own, other): &(&RankInfo, &RankInfo)| own.addresses != other.addresses;
    let (own, other) = own.ranks.iter().zip(&other.ranks).find(differs)?;
    // In quotes, and nothing in them that begins a line: the other list may say anything.
    Some(format!("rank {} is at {:?} there and at {:?} here", own.rank, other.addresses, own.addresses))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(name: &str, engines: &[(u32, &str)]) -> SystemInfo {
        let info = |&(rank, address): &(u32, &str)| RankInfo {
            rank,
            uuid: Uuid::nil(),
            addresses: vec![address.to_owned()],
        };
        SystemInfo { name: name.to_owned(), ranks: engines.iter().map(info).collect(), pool_count: 0 }
    }

    #[test]
    fn lists_that_differ_are_told_by_what_differs_first() {
        let own = list("lab", &[(0, "unix:/a"), (1, "unix:/b")]);
        assert_eq!(difference(&own, &own.clone()), None);
        for (other, told) in [
            (list("bal", &[]), "the system is \"bal\" there and \"lab\" here"),
            (list("lab", &[(1, "unix:/b"), (0, "unix:/a")]), "its ranks are [1, 0] there and [0, 1] here"),
            (
                list("lab", &[(0, "unix:/a"), (1, "unix:/c")]),
                r#"rank 1 is at ["unix:/c"] there and at ["unix:/b"] here"#,
            ),
            (
                list("lab", &[(0, "unix:/a"), (1, "x\nall is well\u{1b}[2J")]),
                r#"rank 1 is at ["x\nall is well\u{1b}[2J"] there and at ["unix:/b"] here"#,
            ),
        ] {
            assert_eq!(difference(&own, &other).unwrap(), told);
        }
    }
}
