//! What the daemon itself is asked, in slot 0 of a connection, and what it answers.

use super::field::{Field, Writer, choice, read_list, record};
use super::{PoolSlot, Version};
use crate::bytes::Reader;
use crate::pool::ContHandle;
use dolmen_types::limits::{FRAME_BODY_BYTES_MAX, RANK_ADDRESSES_MAX, TARGETS_MAX};
use dolmen_types::{Label, PoolMap, Props, Uuid};

/// A question to the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SystemVerb {
    /// Whether it answers. Answer: [`SystemReply::Done`].
    Ping,
    /// What the system is. Answer: [`SystemReply::System`].
    Query,
    /// All pools of the system. Answer: [`SystemReply::Pools`].
    PoolList,
    /// Opens a pool for this connection. Answer: [`SystemReply::Connected`].
    PoolConnect {
        /// Which.
        name: PoolName,
        /// What for.
        access: PoolAccess,
    },
    /// Gives a slot back; what is open in the pool is closed. Answer: [`SystemReply::Done`].
    PoolDisconnect {
        /// The slot.
        slot: PoolSlot,
    },
    /// Makes a pool. Answer: [`SystemReply::Created`].
    PoolCreate(PoolSpec),
    /// Destroys a pool; `Busy` if it is in use. Answer: [`SystemReply::Done`].
    PoolDestroy {
        /// Which.
        name: PoolName,
        /// Also if it is in use: whoever has it open is told `NoPermission` from now on.
        force: bool,
    },
    /// Takes a pool from all who have it open, who are told `NoPermission` from now on; whoever opens it again has it.
    /// Answer: [`SystemReply::Done`].
    PoolEvict(PoolName),
    /// Ends the daemon: whoever is connected is cut off, and goes on with the next one. Answer: [`SystemReply::Done`].
    Stop,
    /// The list of engines as another engine has it, which was just started; each says so if its own is another. Answer:
    /// [`SystemReply::System`], as it is listed here.
    Compare {
        /// The other engine.
        rank: u32,
        /// Its list; it counts no pools.
        list: Box<SystemInfo>,
    },
    /// Makes this engine's part of a pool that another one makes. Answer: [`SystemReply::Done`].
    PartCreate(Box<PartSpec>),
    /// Opens this engine's part of a pool for the engine that has the pool's service. Answer: [`SystemReply::Connected`].
    PartConnect {
        /// Which pool.
        pool: Uuid,
        /// What only engines of the pool know.
        key: PartKey,
    },
    /// Takes this engine's part of a pool from all who have it open. Answer: [`SystemReply::Done`].
    PartEvict {
        /// Which pool.
        pool: Uuid,
        /// What only engines of the pool know.
        key: PartKey,
    },
    /// What the engine with a pool's service knows of who may do what, asked by one that has a part, where a user has come.
    /// Answer: [`SystemReply::Looked`]; `Busy` if the pool is not open yet.
    PartLook {
        /// Which pool.
        pool: Uuid,
        /// What only engines of the pool know.
        key: PartKey,
        /// A container that he opens.
        cont: Option<Uuid>,
    },
    /// Destroys this engine's part of a pool. Answer: [`SystemReply::Done`], also if there is none.
    PartDestroy {
        /// Which pool.
        pool: Uuid,
        /// What only engines of the pool know.
        key: PartKey,
    },
}

impl SystemVerb {
    /// Whether it does something that must not be done again for who asks again.
    #[must_use]
    pub fn is_change(&self) -> bool {
        matches!(
            self,
            Self::PoolCreate(_)
                | Self::PoolDestroy { .. }
                | Self::PoolEvict(_)
                | Self::PartEvict { .. }
                | Self::Stop
        )
    }
}

/// What the engines of a pool know each other by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PartKey(pub u128);

/// A secret is not shown.
impl core::fmt::Debug for PartKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("PartKey(..)")
    }
}

/// One engine's part of a new pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartSpec {
    /// What it is made of, with its UUID and the number of targets of each engine.
    pub pool: PoolSpec,
    /// The engines, in the order of their targets; the first has the pool's service.
    pub ranks: Vec<u32>,
    /// What only engines of the pool know.
    pub key: PartKey,
}

/// An answer of the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SystemReply {
    /// Done.
    Done,
    /// The system.
    System(SystemInfo),
    /// All pools, in the order of their UUIDs.
    Pools(Vec<PoolEntry>),
    /// A pool is open on this connection.
    Connected(Box<PoolConnection>),
    /// A new pool.
    Created(PoolEntry),
    /// Whose a pool and a container are, and who may do what with them.
    Looked(Box<Looked>),
}

/// What a part is told of its pool, and of a container if it has asked for one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Looked {
    /// Owner, group and access control list of the pool.
    pub props: Props,
    /// The container, with all of its properties.
    pub cont: Option<ContHandle>,
}

/// How a pool is named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PoolName {
    /// By label.
    Label(Label),
    /// By UUID.
    Uuid(Uuid),
}

/// What a connection may do with a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolAccess {
    /// Read.
    ReadOnly,
    /// Read and write, as lists allow.
    ReadWrite,
    /// The same, to change something of the pool: refused to whom its list allows no change at all. An engine knows it only if it says
    /// so, with [`FEATURE_CHANGE`](super::FEATURE_CHANGE).
    Change,
    /// Read and write, and nobody else is connected.
    Exclusive,
}

/// The system that a daemon belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SystemInfo {
    /// Its name.
    pub name: String,
    /// Its engines, by number.
    pub ranks: Vec<RankInfo>,
    /// How many pools there are.
    pub pool_count: u32,
}

/// An engine, and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankInfo {
    /// Its number.
    pub rank: u32,
    /// Its UUID.
    pub uuid: Uuid,
    /// Where it listens, as in `DOLMEN_SYSTEM`: `unix:…`, `tcp://…`; the best way first.
    pub addresses: Vec<String>,
}

/// A pool in a list of pools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolEntry {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its label, if it has one.
    pub label: Option<Label>,
    /// Its targets.
    pub target_count: u32,
    /// What all targets together may use.
    pub capacity_bytes: u64,
    /// Connections that have it open.
    pub connections: u32,
    /// Whether it may be lost with the power.
    pub volatile: bool,
}

/// A pool that is open on a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolConnection {
    /// Its number in the headers of requests on this connection.
    pub slot: PoolSlot,
    /// Its UUID.
    pub uuid: Uuid,
    /// Its label, if it has one.
    pub label: Option<Label>,
    /// Its targets, and whose they are.
    pub map: PoolMap,
    /// Where those are.
    pub ranks: Vec<RankInfo>,
    /// How often the engine has taken it from all who had it: whoever had it before has lost it. From version 2 on; 0 in the one
    /// before.
    pub evictions: u64,
}

/// What a new pool is made of. What is not given, the daemon chooses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolSpec {
    /// Its UUID.
    pub uuid: Option<Uuid>,
    /// A name.
    pub label: Option<Label>,
    /// Targets of each engine.
    pub targets: Option<u16>,
    /// What all targets together may use.
    pub capacity_bytes: Option<u64>,
    /// Values up to this size stay beside the metadata.
    pub small_value_bytes_max: Option<u32>,
    /// Size of a log segment.
    pub log_segment_bytes: Option<u32>,
    /// Size of a bulk segment.
    pub bulk_segment_bytes: Option<u32>,
    /// A target begins a checkpoint after this many bytes of log.
    pub checkpoint_log_bytes: Option<u64>,
    /// Resident memory of all targets together.
    pub memory_budget_bytes: Option<u64>,
    /// The pool may be lost with the power.
    pub volatile: bool,
    /// A directory of the daemon for bulk data, as the bytes of its path.
    pub bulk_dir: Option<Vec<u8>>,
}

choice!(PoolAccess { ReadOnly = 1, ReadWrite = 2, Change = 3, Exclusive = 4 });

record!(PoolEntry {
    uuid: Uuid,
    label: Option<Label>,
    target_count: u32,
    capacity_bytes: u64,
    connections: u32,
    volatile: bool,
});

record!(PoolSpec {
    uuid: Option<Uuid>,
    label: Option<Label>,
    targets: Option<u16>,
    capacity_bytes: Option<u64>,
    small_value_bytes_max: Option<u32>,
    log_segment_bytes: Option<u32>,
    bulk_segment_bytes: Option<u32>,
    checkpoint_log_bytes: Option<u64>,
    memory_budget_bytes: Option<u64>,
    volatile: bool,
    bulk_dir: Option<Vec<u8>>,
});

record!(Looked { props: Props, cont: Option<ContHandle> });

record!(PartSpec { pool: PoolSpec, ranks: Vec<u32>, key: PartKey });

record!(SystemInfo { name: String, ranks: Vec<RankInfo>, pool_count: u32 });

impl PoolConnection {
    /// Writes what `version` has of it.
    pub(super) fn put(&self, w: &mut Writer<'_>, version: Version) {
        w.put(&self.slot);
        w.put(&self.uuid);
        w.put(&self.label);
        w.put(&self.map);
        w.put(&self.ranks);
        if version >= Version::Two {
            w.put(&self.evictions);
        }
    }

    pub(super) fn read(r: &mut Reader<'_>, version: Version) -> Option<Self> {
        Some(Self {
            slot: Field::read(r)?,
            uuid: Field::read(r)?,
            label: Field::read(r)?,
            map: Field::read(r)?,
            ranks: Field::read(r)?,
            evictions: if version >= Version::Two { Field::read(r)? } else { 0 },
        })
    }
}

impl Field for PoolSlot {
    const BYTES_MIN: usize = 2;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.0);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        r.u16().map(Self)
    }
}

impl Field for PartKey {
    const BYTES_MIN: usize = 16;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&Uuid::from_u128(self.0));
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(Self(Uuid::read(r)?.as_u128()))
    }
}

impl Field for Vec<u32> {
    const BYTES_MIN: usize = 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.list(self, TARGETS_MAX);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        read_list(r, TARGETS_MAX)
    }
}

impl Field for RankInfo {
    const BYTES_MIN: usize = 4 + Uuid::BYTES_MIN + 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.rank);
        w.put(&self.uuid);
        w.list(&self.addresses, RANK_ADDRESSES_MAX);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(Self { rank: r.u32()?, uuid: Uuid::read(r)?, addresses: read_list(r, RANK_ADDRESSES_MAX)? })
    }
}

impl Field for Vec<RankInfo> {
    const BYTES_MIN: usize = 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.list(self, FRAME_BODY_BYTES_MAX);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        read_list(r, FRAME_BODY_BYTES_MAX)
    }
}

/// How a pool is named. Persistent: never renumber.
const BY_LABEL: u8 = 0;
const BY_UUID: u8 = 1;

impl Field for PoolName {
    const BYTES_MIN: usize = 1 + Label::BYTES_MIN;

    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Label(label) => {
                w.put(&BY_LABEL);
                w.put(label);
            }
            Self::Uuid(uuid) => {
                w.put(&BY_UUID);
                w.put(uuid);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            BY_LABEL => Self::Label(Label::read(r)?),
            BY_UUID => Self::Uuid(Uuid::read(r)?),
            _ => return None,
        })
    }
}
