//! The other engines of a system, and what this one asks them.

use core::time::Duration;
use dolmen_codec::Transport;
use dolmen_codec::wire::{PartKey, PartSpec, RankInfo, SystemReply, SystemVerb};
use dolmen_local::Spread;
use dolmen_net::client::{Door, Link, LinkOptions, reach};
use dolmen_types::{Error, Head, Result, Uuid};
use std::sync::Arc;

/// How long another engine may be silent before what needs it fails: it may be starting anew.
const PATIENCE: Duration = Duration::from_secs(5);

/// The engines of a system, as one of them knows them.
pub(crate) struct Peers {
    rank: u32,
    /// In the order of the system's list; empty if this is the only one.
    all: Vec<RankInfo>,
}

impl Peers {
    pub(crate) fn new(rank: u32, all: Vec<RankInfo>) -> Self {
        Self { rank, all }
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
        let destroy = |rank| self.ask(rank, &SystemVerb::PartDestroy { pool, key });
        ranks.map(destroy).fold(Ok(()), Result::and)
    }

    /// Whether these are the engines of this system, in their order.
    pub(crate) fn is_list(&self, ranks: &[u32]) -> bool {
        !self.all.is_empty() && self.all.iter().map(|engine| engine.rank).eq(ranks.iter().copied())
    }

    /// Whether an engine answers.
    pub(crate) fn ping(&self, rank: u32) -> Result<()> {
        self.ask(rank, &SystemVerb::Ping)
    }

    fn ask(&self, rank: u32, verb: &SystemVerb) -> Result<()> {
        match self.link(rank)?.ask_system(&Head::default(), verb)? {
            SystemReply::Done => Ok(()),
            _ => Err(Error::Unreachable { rank }),
        }
    }

    fn link(&self, rank: u32) -> Result<Link> {
        let unreachable = Error::Unreachable { rank };
        let info = self.all.iter().find(|info| info.rank == rank).ok_or_else(|| unreachable.clone())?;
        let options = LinkOptions { patience: PATIENCE, ..LinkOptions::default() };
        reach::engine(info, true, &options).map_err(|_silent| unreachable)
    }
}
