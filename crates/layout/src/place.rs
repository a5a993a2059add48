//! The placement of one object.
//!
//! Invariants: persistent, never change: `shard_of` for an object id and dkey; the target of a shard for an
//! object id and number of targets.

use crate::class::check;
use crate::hash::{below, hash_bytes, jump, mix, mix_pair};
use dolmen_types::{Invalid, Oid, TargetNo, limits::TARGETS_MAX};
use smallvec::SmallVec;

/// Consistent draws before the free targets compete directly. With a part `f` of the targets taken, a draw
/// fails with probability `f`; eight leave the direct competition, which looks at every free target, to
/// objects that take nearly all targets, when few are free.
const DRAWS_MAX: u64 = 8;

/// Where the shards of one object lie.
///
/// Costs nothing but its own bytes up to eight shards; one division or one hash per dkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    target_count: u16,
    shard_count: u16,
    chunked: bool,
    shards: SmallVec<[TargetNo; 8]>,
}

impl Layout {
    /// The placement of `oid` over `target_count` targets.
    ///
    /// # Errors
    /// `Invalid::ObjectId` if the id names no object type or a class that cannot be placed, or if
    /// `target_count` is zero or above `limits::TARGETS_MAX`.
    pub fn new(oid: Oid, target_count: u16) -> Result<Self, Invalid> {
        let object_type = oid.object_type().ok_or(Invalid::ObjectId)?;
        check(oid.class())?;
        if target_count == 0 || usize::from(target_count) > TARGETS_MAX || oid.class().is_widest() {
            return Err(Invalid::ObjectId);
        }
        let shard_count = oid.class().groups();
        let shards = place(mix_pair(oid.hi, oid.lo), shard_count, target_count);
        Ok(Self { target_count, shard_count, chunked: object_type.is_array(), shards })
    }

    /// The number of targets that this was computed for.
    #[must_use]
    #[inline]
    pub fn target_count(&self) -> u16 {
        self.target_count
    }

    /// How many shards the object has; at least one.
    #[must_use]
    #[inline]
    pub fn shard_count(&self) -> u16 {
        self.shard_count
    }

    /// The shard that holds `dkey`.
    ///
    /// Chunks of an array go round the shards, so that a sequential reader uses all of them; the round
    /// starts one further each time, so that a reader of every n-th chunk does, too.
    #[must_use]
    #[inline]
    pub fn shard_of(&self, dkey: &[u8]) -> u16 {
        let groups = self.shard_count();
        if groups == 1 {
            return 0;
        }
        match <[u8; 8]>::try_from(dkey) {
            Ok(number) if self.chunked => round(u64::from_le_bytes(number), groups),
            _ => below(hash_bytes(dkey), groups),
        }
    }

    /// The target of a shard.
    ///
    /// # Errors
    /// `Invalid::Anchor` if there is no such shard: its number came from somebody else's anchor.
    pub fn target(&self, shard: u16) -> Result<TargetNo, Invalid> {
        self.shards.get(usize::from(shard)).copied().ok_or(Invalid::Anchor)
    }

    /// The target that holds `dkey`.
    #[must_use]
    #[inline]
    pub fn target_of(&self, dkey: &[u8]) -> TargetNo {
        self.shards[usize::from(self.shard_of(dkey))]
    }

    /// The targets that hold shards, each once, in the order of their first shards.
    pub fn targets(&self) -> impl Iterator<Item = TargetNo> {
        (0..self.shard_count()).filter(|&shard| self.is_first(shard)).map(|s| self.shards[usize::from(s)])
    }

    /// The shard to list after `shard` so that every target is listed once; `None` after the last.
    #[must_use]
    pub fn shard_after(&self, shard: u16) -> Option<u16> {
        (shard.saturating_add(1)..self.shard_count()).find(|&next| self.is_first(next))
    }

    /// The shard under which `dkey` is listed: the first one on its target.
    #[must_use]
    pub fn listed_as(&self, dkey: &[u8]) -> u16 {
        let shard = self.shard_of(dkey);
        let target = self.shards[usize::from(shard)];
        (0..shard).find(|&earlier| self.shards[usize::from(earlier)] == target).unwrap_or(shard)
    }

    /// Whether no earlier shard lies on the same target. Only objects with more shards than there are
    /// targets have others.
    fn is_first(&self, shard: u16) -> bool {
        shard < self.target_count
            || !self.shards[..usize::from(shard)].contains(&self.shards[usize::from(shard)])
    }
}

fn round(chunk: u64, groups: u16) -> u16 {
    let groups = u64::from(groups);
    // With two shards the shifted round would put the last chunk of one and the first of the next together.
    let turn = if groups > 2 { chunk / groups } else { 0 };
    u16::try_from((chunk % groups + turn % groups) % groups).expect("a remainder of 16 bits")
}

/// Draws a target for each shard: all different until every target is taken, then all different again.
fn place(object: u64, groups: u16, target_count: u16) -> SmallVec<[TargetNo; 8]> {
    let mut taken = Taken::default();
    let mut shards = SmallVec::with_capacity(usize::from(groups));
    for shard in 0..groups {
        if shard > 0 && shard % target_count == 0 {
            taken = Taken::default();
        }
        let target = draw(mix_pair(object, u64::from(shard)), target_count, &taken);
        taken.insert(target);
        shards.push(TargetNo(target));
    }
    shards
}

/// The first free target of a row of consistent draws, or the winner among the free ones.
fn draw(key: u64, target_count: u16, taken: &Taken) -> u16 {
    let drawn = (0..DRAWS_MAX).map(|turn| jump(mix(key.wrapping_add(turn)), target_count));
    if let Some(target) = drawn.into_iter().find(|&target| !taken.holds(target)) {
        return target;
    }
    let free = (0..target_count).filter(|&target| !taken.holds(target));
    free.max_by_key(|&target| mix_pair(key, u64::from(target))).expect("a round ends when all are taken")
}

/// A set of targets.
struct Taken([u64; TARGETS_MAX / 64]);

impl Default for Taken {
    fn default() -> Self {
        Self([0; TARGETS_MAX / 64])
    }
}

impl Taken {
    fn holds(&self, target: u16) -> bool {
        self.0[usize::from(target / 64)] >> (target % 64) & 1 == 1
    }

    fn insert(&mut self, target: u16) {
        self.0[usize::from(target / 64)] |= 1 << (target % 64);
    }
}
