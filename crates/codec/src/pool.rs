//! What a pool's service can be asked: containers, properties, snapshots, transactions, object ids.

use crate::lock::{LockAsk, LockReply};
use crate::order::HashKey;
use crate::quota::{Limits, Report, Share, ShareTold};
use crate::verb::{Audit, Mutation, SpaceReport, Usage};
use dolmen_types::{ContNo, Epoch, Label, PoolMap, PropId, Props, TargetNo, TxId, Uuid};
use smallvec::SmallVec;

/// A question to the pool's service.
#[derive(Debug)]
pub enum PoolVerb<'a> {
    /// Map, label, space. Answer: [`PoolReply::Pool`].
    Query,
    /// Makes a container. Answer: [`PoolReply::Cont`]; `Exists` if label or UUID is taken.
    ContCreate {
        /// Its UUID; drawn by the caller.
        uuid: Uuid,
        /// Label, if any.
        label: Option<Label>,
        /// Properties; unset ones get their defaults.
        props: Props,
    },
    /// Finds a container and takes a handle on it. Answer: [`PoolReply::Cont`]; `NoPermission` for what its list does not
    /// allow; `Busy` if somebody has it alone, or has it and it is to be had alone.
    ContOpen(ContName, OpenFor),
    /// Gives a handle back. Answer: [`PoolReply::Done`].
    ContClose(ContNo),
    /// Ends the handles that others have on a container: those of the caller's user, or of all users. What they ask later
    /// is `NoHandle`. Answer: [`PoolReply::Cont`], with the count of evictions by which handles that go on are known.
    ContEvict(ContNo, Whose),
    /// Sets, frees or tests locks on objects of a container, which an engine keeps for those who come over a socket; in process
    /// it is `NoPermission`. Answer: [`PoolReply::Lock`]; `Busy` if there are too many.
    Lock(ContNo, Box<LockAsk>),
    /// Whoever has leases in a container is there, has taken in what was pushed to him, and gives these back, by their numbers:
    /// at most [`IODS_MAX`](dolmen_types::limits::IODS_MAX). Kept, as locks are, by an engine for those who come over a socket.
    /// Answer: [`PoolReply::Done`].
    Leases(ContNo, Vec<u32>),
    /// Uses the container's files: on behalf of whom the engine takes the caller for, who needs no right to its objects. Answered
    /// by an engine for those who come over a socket; in process it is `NoPermission`. Answer: [`PoolReply::Files`];
    /// `NotFound` for a session that has ended or is another's, `Busy` if there are too many.
    Files(ContNo, FilesAsk),
    /// Owner, group and access control list of the pool, as far as somebody has set them. Answer: [`PoolReply::Props`].
    Props,
    /// Sets owner, group or list of the pool. Answer: [`PoolReply::Done`].
    SetProps(Props),
    /// Destroys a container; `Busy` if handles are open and `force` is not set.
    /// Answer: [`PoolReply::Done`].
    ContDestroy(ContName, bool),
    /// All containers. Answer: [`PoolReply::Conts`].
    ContList,
    /// Everything about a container, usage over all targets included. Answer: [`PoolReply::ContInfo`].
    ContQuery(ContNo),
    /// What is used of a container and what may be, by user. Answer: [`PoolReply::Quota`]; `Unreachable` while an
    /// engine of the pool does not answer.
    ContQuota(ContNo),
    /// Sets the limits of a container, or of a user in it, if one is named; 0 lifts one. Answer: [`PoolReply::Done`];
    /// `Invalid(Count)` if too many users have some; as [`Self::ContQuota`].
    ContSetQuota(ContNo, Option<u32>, Limits),
    /// Sets properties. Answer: [`PoolReply::Done`].
    ContSetProps(ContNo, Props),
    /// Reads properties; an empty list asks for all. Answer: [`PoolReply::Props`].
    ContProps(ContNo, Vec<PropId>),
    /// Sets user attributes of a container, or of the pool for `None`. Answer: [`PoolReply::Done`].
    SetAttrs(Option<ContNo>, Vec<(String, Vec<u8>)>),
    /// Reads one user attribute. Answer: [`PoolReply::Attr`]; `NotFound` if unset.
    Attr(Option<ContNo>, String),
    /// Names of user attributes. Answer: [`PoolReply::AttrNames`].
    AttrNames(Option<ContNo>),
    /// Removes user attributes. Answer: [`PoolReply::Done`].
    RemoveAttrs(Option<ContNo>, Vec<String>),
    /// Makes a snapshot, named or not. Answer: [`PoolReply::Epoch`].
    SnapCreate(ContNo, Option<String>),
    /// Snapshots in order of epoch. Answer: [`PoolReply::Snapshots`].
    SnapList(ContNo),
    /// Destroys a snapshot. Answer: [`PoolReply::Done`].
    SnapDestroy(ContNo, Epoch),
    /// Returns the container to a snapshot. Answer: [`PoolReply::Epoch`], the epoch of the rollback.
    Rollback(ContNo, Epoch),
    /// Reserves a range of 64-bit object numbers. Answer: [`PoolReply::Oids`], the first of them.
    AllocOids(ContNo, u64),
    /// The epoch for a new transaction. Answer: [`PoolReply::Epoch`].
    TxBegin,
    /// Commits a transaction. Answer: [`PoolReply::Epoch`]; `TxRestart` on a conflict.
    TxCommit(TxCommit<'a>),
    /// Tells that a transaction has ended without a commit; no harm if it had not begun. Answer: [`PoolReply::Done`]. An engine
    /// knows it only if it says so, with [`FEATURE_ENDS`](crate::wire::FEATURE_ENDS).
    TxEnd(EndedTx),
    /// Aggregates a container on all targets up to an epoch (0: as far as possible), to the end.
    /// Answer: [`PoolReply::Aggregated`].
    Aggregate(ContNo, Epoch),
    /// Makes everything acknowledged durable and checkpoints. Answer: [`PoolReply::Done`].
    Checkpoint,
    /// Verifies every stored byte. Answer: [`PoolReply::Audits`], by target.
    Scrub,
    /// Audits every invariant. Answer: [`PoolReply::Audits`], by target.
    Check,
    /// To an engine that has a part of the pool, from the one that has its service: lets clients in, but into these
    /// containers, once nobody is inside them any more. Answer: [`PoolReply::Done`].
    Admit {
        /// Containers that are being changed as a whole; all others are open.
        closed: Vec<ContNo>,
        /// Epochs go on above this one; transactions that were begun before the part was opened, and up to here, are
        /// refused.
        now: Epoch,
        /// Containers with limits: of those that it has not been told a share of it takes nothing more.
        limited: Vec<ContNo>,
    },
    /// To an engine that has a part of the pool, from the one that has its service: its share of a container's limits. Answer:
    /// [`PoolReply::Share`].
    Share(Box<Share>),
    /// To an engine that has a part of the pool, from the one that has its service: handles on a container have been taken
    /// from their users so often. Those end that were opened before. Answer: [`PoolReply::Done`].
    Evicted {
        /// The container.
        cont: ContNo,
        /// The bytes of its [`Evictions`](crate::evictions::Evictions).
        evictions: Vec<u8>,
        /// The client that has asked for the last eviction, as in the ids of its requests: its handles go on. 0 for none.
        by: u128,
    },
}

/// What is asked of a container's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilesAsk {
    /// Begins a session, which ends with the connection at the latest.
    Begin,
    /// Asks for something within a session.
    Ask {
        /// The session.
        session: u64,
        /// A request of the kernel's protocol for file systems (FUSE). Who asks by its head is not believed.
        request: Vec<u8>,
    },
    /// Ends a session: what is open in it is closed, and its locks are freed.
    End(u64),
}

/// What is answered to that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilesReply {
    /// A session has begun.
    Begun(u64),
    /// The reply of the same protocol; nothing to a request that has none.
    Told(Vec<u8>),
    /// It has ended.
    Ended,
}

/// What a handle on a container is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenFor {
    /// Whatever the container's list allows.
    Any,
    /// To change something: refused to whom the list allows no change at all.
    Change,
    /// As [`Self::Change`], and to have it alone: `Busy` while anybody has a handle on it, as is whoever asks for one until this
    /// one, and those that have joined it, are closed. Its word is drawn by whoever opens it, from the system's entropy; with the
    /// same word it is one handle more of the same, so that it can be asked for again. 0 is shared with nobody.
    Alone(u64),
    /// As [`Self::Change`], together with whoever has it alone, who has told the word. `Busy` if nobody has it alone under this
    /// word.
    Joining(u64),
    /// To end the handles of others, also of who has it alone, and to be closed then.
    Evicting,
}

impl OpenFor {
    /// Whether an engine knows it only if it says so, with [`FEATURE_ALONE`](crate::wire::FEATURE_ALONE).
    #[must_use]
    pub fn is_of_alone(self) -> bool {
        matches!(self, Self::Alone(_) | Self::Joining(_) | Self::Evicting)
    }

    /// Whether something is meant to be changed with it.
    #[must_use]
    pub fn is_change(self) -> bool {
        matches!(self, Self::Change | Self::Alone(_) | Self::Joining(_))
    }
}

/// Whose handles end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Those of the user who asks.
    Own,
    /// Everybody's.
    All,
}

/// How a container is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContName {
    /// By label.
    Label(Label),
    /// By UUID.
    Uuid(Uuid),
}

/// A transaction to be committed: compound, one message.
#[derive(Debug)]
pub struct TxCommit<'a> {
    /// The container of all its objects.
    pub cont: ContNo,
    /// The transaction.
    pub tx: TxId,
    /// The epoch that its reads had and its writes get.
    pub epoch: Epoch,
    /// Mutations by target, in program order.
    pub parts: Vec<(TargetNo, Vec<Mutation<'a>>)>,
    /// Targets that were only read at: they hear of its end. Left out where
    /// [`FEATURE_ENDS`](crate::wire::FEATURE_ENDS) is not said.
    pub read: SmallVec<[TargetNo; 4]>,
}

/// A transaction that has ended, and where targets keep for it what it has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedTx {
    /// The epoch that its reads had.
    pub epoch: Epoch,
    /// Targets that it has read at, and not written to.
    pub read: SmallVec<[TargetNo; 4]>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolInfo {
    /// Targets.
    pub map: PoolMap,
    /// Label, if any.
    pub label: Option<Label>,
    /// By target.
    pub space: Vec<SpaceReport>,
    /// Containers.
    pub cont_count: u64,
}

/// An opened container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContHandle {
    /// Its number in the pool.
    pub no: ContNo,
    /// Its UUID.
    pub uuid: Uuid,
    /// Its label.
    pub label: Option<Label>,
    /// Secret of its key hash.
    pub hash_key: HashKey,
    /// Its properties.
    pub props: Props,
}

/// Everything about a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContInfo {
    /// As opened.
    pub cont: ContHandle,
    /// Open handles.
    pub handles: u32,
    /// Snapshots.
    pub snapshots: u32,
    /// Epoch of the newest snapshot; zero if there is none.
    pub last_snapshot: Epoch,
    /// Sum over targets.
    pub usage: Usage,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The state that it keeps.
    pub epoch: Epoch,
    /// Its name, if it has one.
    pub name: Option<String>,
}

/// Answers of the pool's service.
#[derive(Debug)]
pub enum PoolReply {
    /// The pool.
    Pool(PoolInfo),
    /// A container.
    Cont(ContHandle),
    /// All containers, by number.
    Conts(Vec<ContHandle>),
    /// One container in full.
    ContInfo(Box<ContInfo>),
    /// Properties.
    Props(Props),
    /// An attribute.
    Attr(Vec<u8>),
    /// Attribute names, sorted.
    AttrNames(Vec<String>),
    /// An epoch.
    Epoch(Epoch),
    /// Snapshots.
    Snapshots(Vec<Snapshot>),
    /// The first object number of the reserved range.
    Oids(u64),
    /// Versions freed.
    Aggregated(u64),
    /// Audits by target.
    Audits(Vec<Audit>),
    /// What is used, and what may be.
    Quota(Box<Report>),
    /// How a share is.
    Share(Box<ShareTold>),
    /// What is told of locks.
    Lock(LockReply),
    /// What is told of files.
    Files(FilesReply),
    /// Done.
    Done,
}
