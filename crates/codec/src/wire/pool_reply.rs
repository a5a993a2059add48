//! The bodies of what a pool's service answers.

use super::ReplyKind;
use super::audit::put_audits;
use super::field::{Field, Writer, choice, read_list, record};
use crate::bytes::Reader;
use crate::lock::{LockRange, LockReply};
use crate::order::HashKey;
use crate::pool::{ContHandle, ContInfo, FilesReply, PoolInfo, PoolReply, Snapshot};
use crate::quota::{Charge, Limits, Report, ShareTold, UserUse};
use crate::verb::{SpaceReport, Usage};
use dolmen_types::limits::{FRAME_BODY_BYTES_MAX, TARGETS_MAX};
use dolmen_types::{ContNo, Epoch, Label, PoolMap, Props, TargetInfo, TargetState, Uuid};

// As in DAOS: other states are of later versions.
choice!(TargetState { Down = 2, UpIn = 4 });
record!(TargetInfo { rank: u32, state: TargetState });
record!(ContHandle { no: ContNo, uuid: Uuid, label: Option<Label>, hash_key: HashKey, props: Props });
record!(ContInfo { cont: ContHandle, handles: u32, snapshots: u32, last_snapshot: Epoch, usage: Usage });
record!(Charge { bytes: u64, files: u64 });
record!(UserUse { uid: u32, used: Charge, limits: Limits });
record!(Snapshot { epoch: Epoch, name: Option<String> });

/// What is told of locks. Persistent: never renumber.
const LOCK_DONE: u8 = 0;
const LOCK_HELD: u8 = 1;
const LOCK_RECOVERING: u8 = 2;
const LOCK_UNKNOWN: u8 = 3;

impl Field for LockReply {
    const BYTES_MIN: usize = 1;

    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Done => w.put(&LOCK_DONE),
            Self::Held { range, pid } => {
                w.put(&LOCK_HELD);
                w.put(range);
                w.put(pid);
            }
            Self::Recovering => w.put(&LOCK_RECOVERING),
            Self::Unknown => w.put(&LOCK_UNKNOWN),
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            LOCK_DONE => Self::Done,
            LOCK_HELD => Self::Held { range: LockRange::read(r)?, pid: r.u32()? },
            LOCK_RECOVERING => Self::Recovering,
            LOCK_UNKNOWN => Self::Unknown,
            _ => return None,
        })
    }
}

/// What is told of files. Persistent: never renumber.
const FILES_BEGUN: u8 = 0;
const FILES_TOLD: u8 = 1;
const FILES_ENDED: u8 = 2;

impl Field for FilesReply {
    const BYTES_MIN: usize = 1;

    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Begun(session) => {
                w.put(&FILES_BEGUN);
                w.put(session);
            }
            Self::Told(reply) => {
                w.put(&FILES_TOLD);
                w.put(reply);
            }
            Self::Ended => w.put(&FILES_ENDED),
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            FILES_BEGUN => Self::Begun(r.u64()?),
            FILES_TOLD => Self::Told(Field::read(r)?),
            FILES_ENDED => Self::Ended,
            _ => return None,
        })
    }
}

impl Field for PoolMap {
    const BYTES_MIN: usize = 4 + Uuid::BYTES_MIN + 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.version);
        w.put(&self.pool);
        w.list(&self.targets, TARGETS_MAX);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(Self { version: r.u32()?, pool: Uuid::read(r)?, targets: read_list(r, TARGETS_MAX)? })
    }
}

impl Field for Report {
    const BYTES_MIN: usize = Charge::BYTES_MIN + Limits::BYTES_MIN + 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.used);
        w.put(&self.limits);
        w.list(&self.users, FRAME_BODY_BYTES_MAX);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let (used, limits) = (Charge::read(r)?, Limits::read(r)?);
        Some(Self { used, limits, users: read_list(r, FRAME_BODY_BYTES_MAX)? })
    }
}

impl Field for PoolInfo {
    const BYTES_MIN: usize = PoolMap::BYTES_MIN + 1 + 4 + 8;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.map);
        w.put(&self.label);
        w.list(&self.space, TARGETS_MAX);
        w.put(&self.cont_count);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let (map, label) = (PoolMap::read(r)?, Option::<Label>::read(r)?);
        let space: Vec<SpaceReport> = read_list(r, TARGETS_MAX)?;
        Some(Self { map, label, space, cont_count: r.u64()? })
    }
}

pub(super) fn put_pool_reply(w: &mut Writer<'_>, reply: &PoolReply) -> ReplyKind {
    match reply {
        PoolReply::Pool(info) => with(w, ReplyKind::Pool, info),
        PoolReply::Cont(cont) => with(w, ReplyKind::Cont, cont),
        PoolReply::Conts(conts) => with_list(w, ReplyKind::Conts, conts),
        PoolReply::ContInfo(info) => with(w, ReplyKind::ContInfo, &**info),
        PoolReply::Props(props) => with(w, ReplyKind::Props, props),
        PoolReply::Attr(value) => with(w, ReplyKind::Attr, value),
        PoolReply::AttrNames(names) => with_list(w, ReplyKind::AttrNames, names),
        // The header has it.
        PoolReply::Epoch(_) => ReplyKind::Epoch,
        PoolReply::Snapshots(snapshots) => with_list(w, ReplyKind::Snapshots, snapshots),
        PoolReply::Oids(first) => with(w, ReplyKind::Oids, first),
        PoolReply::Aggregated(versions) => with(w, ReplyKind::PoolAggregated, versions),
        PoolReply::Audits(audits) => {
            put_audits(w, audits);
            ReplyKind::Audits
        }
        PoolReply::Quota(report) => with(w, ReplyKind::Quota, &**report),
        PoolReply::Share(told) => with(w, ReplyKind::Share, &**told),
        PoolReply::Lock(lock) => with(w, ReplyKind::Lock, lock),
        PoolReply::Files(told) => with(w, ReplyKind::Files, told),
        PoolReply::Done => ReplyKind::PoolDone,
    }
}

fn with(w: &mut Writer<'_>, kind: ReplyKind, field: &impl Field) -> ReplyKind {
    w.put(field);
    kind
}

fn with_list<T: Field>(w: &mut Writer<'_>, kind: ReplyKind, list: &[T]) -> ReplyKind {
    w.list(list, FRAME_BODY_BYTES_MAX);
    kind
}

/// `None` also for a kind that is no answer of a pool's service.
pub(super) fn read_pool_reply(kind: ReplyKind, epoch: Epoch, r: &mut Reader<'_>) -> Option<PoolReply> {
    Some(match kind {
        ReplyKind::Pool => PoolReply::Pool(PoolInfo::read(r)?),
        ReplyKind::Cont => PoolReply::Cont(ContHandle::read(r)?),
        ReplyKind::Conts => PoolReply::Conts(read_list(r, FRAME_BODY_BYTES_MAX)?),
        ReplyKind::ContInfo => PoolReply::ContInfo(Box::new(ContInfo::read(r)?)),
        ReplyKind::Props => PoolReply::Props(Props::read(r)?),
        ReplyKind::Attr => PoolReply::Attr(Field::read(r)?),
        ReplyKind::AttrNames => PoolReply::AttrNames(read_list(r, FRAME_BODY_BYTES_MAX)?),
        ReplyKind::Epoch => PoolReply::Epoch(epoch),
        ReplyKind::Snapshots => PoolReply::Snapshots(read_list(r, FRAME_BODY_BYTES_MAX)?),
        ReplyKind::Oids => PoolReply::Oids(r.u64()?),
        ReplyKind::PoolAggregated => PoolReply::Aggregated(r.u64()?),
        ReplyKind::Audits => PoolReply::Audits(read_list(r, TARGETS_MAX)?),
        ReplyKind::Quota => PoolReply::Quota(Box::new(Report::read(r)?)),
        ReplyKind::Share => PoolReply::Share(Box::new(ShareTold::read(r)?)),
        ReplyKind::Lock => PoolReply::Lock(LockReply::read(r)?),
        ReplyKind::Files => PoolReply::Files(FilesReply::read(r)?),
        ReplyKind::PoolDone => PoolReply::Done,
        _ => return None,
    })
}
