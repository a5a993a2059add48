//! The bodies of questions to a pool's service.

use super::AskKind;
use super::data::{Gather, Input};
use super::field::{Field, Writer, choice, read_list, record};
use super::tx::{put_mutations, read_mutations};
use crate::bytes::Reader;
use crate::lock::{LockAction, LockAsk, LockFamily, LockKind, LockRange};
use crate::pool::{ContName, EndedTx, FilesAsk, OpenFor, PoolVerb, TxCommit, Whose};
use crate::quota::{Limits, Share};
use dolmen_types::limits::{FRAME_BODY_BYTES_MAX, IODS_MAX, TARGETS_MAX};
use dolmen_types::{ContNo, Epoch, Label, Oid, PropId, PropValue, Props, TargetNo, TxId, Uuid};
use smallvec::SmallVec;

/// What a property's value is. Persistent: never renumber.
const NUMBER: u8 = 0;
const TEXT: u8 = 1;
const BYTES: u8 = 2;

impl Field for PropValue {
    const BYTES_MIN: usize = 1 + 4;

    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Number(number) => {
                w.put(&NUMBER);
                w.put(number);
            }
            Self::Text(text) => {
                w.put(&TEXT);
                w.put(text);
            }
            Self::Bytes(bytes) => {
                w.put(&BYTES);
                w.put(bytes);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            NUMBER => Self::Number(r.u64()?),
            TEXT => Self::Text(Field::read(r)?),
            BYTES => Self::Bytes(Field::read(r)?),
            _ => return None,
        })
    }
}

impl Field for PropId {
    const BYTES_MIN: usize = 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.0);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        r.u32().map(Self)
    }
}

/// In ascending order of their numbers, each once.
impl Field for Props {
    const BYTES_MIN: usize = 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.count(self.len(), FRAME_BODY_BYTES_MAX);
        for (id, value) in self {
            w.put(id);
            w.put(value);
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let mut props = Self::new();
        for _ in 0..r.count(PropId::BYTES_MIN + PropValue::BYTES_MIN)? {
            let (id, value) = (PropId::read(r)?, PropValue::read(r)?);
            if props.last_key_value().is_some_and(|(&last, _)| last >= id) {
                return None;
            }
            props.insert(id, value);
        }
        Some(props)
    }
}

// Persistent: never renumber.
choice!(Whose { Own = 0, All = 1 });
choice!(LockFamily { Range = 0, Whole = 1, Open = 2 });
choice!(LockKind { Free = 0, Read = 1, Write = 2 });
choice!(LockAction { Set = 0, Again = 1, Test = 2, Renew = 3, Leave = 4 });
record!(Limits { bytes: u64, files: u64 });
record!(LockRange { first: u64, last: u64, kind: LockKind });
record!(LockAsk {
    holder: Uuid,
    action: LockAction,
    has_locks: bool,
    oid: Oid,
    family: LockFamily,
    owner: u64,
    pid: u32,
    range: LockRange,
});

/// How a container is named. Persistent: never renumber.
const BY_LABEL: u8 = 0;
const BY_UUID: u8 = 1;

impl Field for ContName {
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

/// Two fields, one after the other.
impl<A: Field, B: Field> Field for (A, B) {
    const BYTES_MIN: usize = A::BYTES_MIN + B::BYTES_MIN;

    fn put(&self, w: &mut Writer<'_>) {
        self.0.put(w);
        self.1.put(w);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some((A::read(r)?, B::read(r)?))
    }
}

pub(super) fn put_pool_verb<'p>(w: &mut Gather<'_, 'p>, verb: &'p PoolVerb<'_>) -> AskKind {
    match verb {
        PoolVerb::TxCommit(commit) => put_commit(w, commit),
        PoolVerb::TxEnd(EndedTx { epoch, read }) => with_two(w, AskKind::TxEnd, epoch, read),
        PoolVerb::Query => AskKind::PoolQuery,
        PoolVerb::ContCreate { uuid, label, props } => {
            w.body.put(uuid);
            w.body.put(label);
            w.body.put(props);
            AskKind::ContCreate
        }
        PoolVerb::ContOpen(name, wanted) => with_two(w, AskKind::ContOpen, name, wanted),
        PoolVerb::ContClose(cont) => with(w, AskKind::ContClose, cont),
        PoolVerb::ContDestroy(name, force) => with_two(w, AskKind::ContDestroy, name, force),
        PoolVerb::ContList => AskKind::ContList,
        PoolVerb::ContQuery(cont) => with(w, AskKind::ContQuery, cont),
        PoolVerb::ContQuota(cont) => with(w, AskKind::ContQuota, cont),
        PoolVerb::ContSetQuota(cont, uid, limits) => {
            w.body.put(cont);
            with_two(w, AskKind::ContSetQuota, uid, limits)
        }
        PoolVerb::ContSetProps(cont, props) => with_two(w, AskKind::ContSetProps, cont, props),
        PoolVerb::ContProps(cont, ids) => with_list(w, AskKind::ContProps, cont, ids),
        PoolVerb::SetAttrs(cont, attrs) => with_list(w, AskKind::SetAttrs, cont, attrs),
        PoolVerb::Attr(cont, name) => with_two(w, AskKind::Attr, cont, name),
        PoolVerb::AttrNames(cont) => with(w, AskKind::AttrNames, cont),
        PoolVerb::RemoveAttrs(cont, names) => with_list(w, AskKind::RemoveAttrs, cont, names),
        PoolVerb::SnapCreate(cont, name) => with_two(w, AskKind::SnapCreate, cont, name),
        PoolVerb::SnapList(cont) => with(w, AskKind::SnapList, cont),
        PoolVerb::SnapDestroy(cont, epoch) => with_two(w, AskKind::SnapDestroy, cont, epoch),
        PoolVerb::Rollback(cont, epoch) => with_two(w, AskKind::Rollback, cont, epoch),
        PoolVerb::AllocOids(cont, count) => with_two(w, AskKind::AllocOids, cont, count),
        PoolVerb::TxBegin => AskKind::TxBegin,
        PoolVerb::Aggregate(cont, epoch) => with_two(w, AskKind::Aggregate, cont, epoch),
        PoolVerb::Checkpoint => AskKind::PoolCheckpoint,
        PoolVerb::Scrub => AskKind::PoolScrub,
        PoolVerb::Check => AskKind::PoolCheck,
        PoolVerb::Admit { closed, now, limited } if limited.is_empty() => {
            with_list(w, AskKind::Admit, now, closed)
        }
        PoolVerb::Admit { closed, now, limited } => {
            w.body.put(now);
            w.body.list(closed, IODS_MAX);
            w.body.list(limited, FRAME_BODY_BYTES_MAX);
            AskKind::AdmitLimited
        }
        PoolVerb::Share(share) => with(w, AskKind::Share, &**share),
        PoolVerb::Evicted { cont, evictions, by } => {
            w.body.put(cont);
            w.body.put(&Uuid::from_u128(*by));
            with(w, AskKind::Evicted, evictions)
        }
        PoolVerb::Lock(cont, ask) => with_two(w, AskKind::Lock, cont, &**ask),
        PoolVerb::Leases(cont, given) => with_list(w, AskKind::Leases, cont, given),
        PoolVerb::Files(cont, ask) => with_two(w, AskKind::Files, cont, ask),
        PoolVerb::Props => AskKind::PoolProps,
        PoolVerb::SetProps(props) => with(w, AskKind::PoolSetProps, props),
        PoolVerb::ContEvict(cont, whose) => with_two(w, AskKind::ContEvict, cont, whose),
    }
}

fn with(w: &mut Gather<'_, '_>, kind: AskKind, field: &impl Field) -> AskKind {
    w.body.put(field);
    kind
}

fn with_two(w: &mut Gather<'_, '_>, kind: AskKind, first: &impl Field, second: &impl Field) -> AskKind {
    w.body.put(first);
    with(w, kind, second)
}

fn with_list<T: Field>(w: &mut Gather<'_, '_>, kind: AskKind, first: &impl Field, list: &[T]) -> AskKind {
    w.body.put(first);
    w.body.list(list, IODS_MAX);
    kind
}

/// `None` also for a kind that is no question to a pool's service.
pub(super) fn read_pool_verb<'p>(kind: AskKind, input: &mut Input<'_, 'p>) -> Option<PoolVerb<'p>> {
    let r = &mut input.body;
    Some(match kind {
        AskKind::TxCommit => PoolVerb::TxCommit(read_commit(input)?),
        AskKind::TxCommitRead => {
            let mut commit = read_commit(input)?;
            commit.read = Field::read(&mut input.body)?;
            // Without there is another kind.
            (!commit.read.is_empty()).then_some(PoolVerb::TxCommit(commit))?
        }
        AskKind::TxEnd => PoolVerb::TxEnd(EndedTx { epoch: Epoch::read(r)?, read: Field::read(r)? }),
        AskKind::PoolQuery => PoolVerb::Query,
        AskKind::ContCreate => PoolVerb::ContCreate {
            uuid: Uuid::read(r)?,
            label: Option::<Label>::read(r)?,
            props: Props::read(r)?,
        },
        AskKind::ContOpen => PoolVerb::ContOpen(ContName::read(r)?, OpenFor::read(r)?),
        AskKind::ContClose => PoolVerb::ContClose(ContNo::read(r)?),
        AskKind::ContDestroy => PoolVerb::ContDestroy(ContName::read(r)?, bool::read(r)?),
        AskKind::ContList => PoolVerb::ContList,
        AskKind::ContQuery => PoolVerb::ContQuery(ContNo::read(r)?),
        AskKind::ContQuota => PoolVerb::ContQuota(ContNo::read(r)?),
        AskKind::ContSetQuota => PoolVerb::ContSetQuota(ContNo::read(r)?, Field::read(r)?, Limits::read(r)?),
        AskKind::ContSetProps => PoolVerb::ContSetProps(ContNo::read(r)?, Props::read(r)?),
        AskKind::ContProps => PoolVerb::ContProps(ContNo::read(r)?, read_list(r, IODS_MAX)?),
        AskKind::SetAttrs => PoolVerb::SetAttrs(Field::read(r)?, read_list(r, IODS_MAX)?),
        AskKind::Attr => PoolVerb::Attr(Field::read(r)?, Field::read(r)?),
        AskKind::AttrNames => PoolVerb::AttrNames(Field::read(r)?),
        AskKind::RemoveAttrs => PoolVerb::RemoveAttrs(Field::read(r)?, read_list(r, IODS_MAX)?),
        AskKind::SnapCreate => PoolVerb::SnapCreate(ContNo::read(r)?, Field::read(r)?),
        AskKind::SnapList => PoolVerb::SnapList(ContNo::read(r)?),
        AskKind::SnapDestroy => PoolVerb::SnapDestroy(ContNo::read(r)?, Epoch::read(r)?),
        AskKind::Rollback => PoolVerb::Rollback(ContNo::read(r)?, Epoch::read(r)?),
        AskKind::AllocOids => PoolVerb::AllocOids(ContNo::read(r)?, r.u64()?),
        AskKind::TxBegin => PoolVerb::TxBegin,
        AskKind::Aggregate => PoolVerb::Aggregate(ContNo::read(r)?, Epoch::read(r)?),
        AskKind::PoolCheckpoint => PoolVerb::Checkpoint,
        AskKind::PoolScrub => PoolVerb::Scrub,
        AskKind::PoolCheck => PoolVerb::Check,
        AskKind::Lock => PoolVerb::Lock(ContNo::read(r)?, Box::new(LockAsk::read(r)?)),
        AskKind::Leases => PoolVerb::Leases(ContNo::read(r)?, read_list(r, IODS_MAX)?),
        AskKind::Files => PoolVerb::Files(ContNo::read(r)?, FilesAsk::read(r)?),
        AskKind::PoolProps => PoolVerb::Props,
        AskKind::PoolSetProps => PoolVerb::SetProps(Props::read(r)?),
        AskKind::ContEvict => PoolVerb::ContEvict(ContNo::read(r)?, Whose::read(r)?),
        AskKind::Evicted => PoolVerb::Evicted {
            cont: ContNo::read(r)?,
            by: Uuid::read(r)?.as_u128(),
            evictions: Field::read(r)?,
        },
        AskKind::Admit => {
            let (now, closed) = (Epoch::read(r)?, read_list(r, IODS_MAX)?);
            PoolVerb::Admit { closed, now, limited: Vec::new() }
        }
        AskKind::AdmitLimited => {
            let (now, closed) = (Epoch::read(r)?, read_list(r, IODS_MAX)?);
            let limited = read_list(r, FRAME_BODY_BYTES_MAX)?;
            // Without there is another kind.
            (!limited.is_empty()).then_some(PoolVerb::Admit { closed, now, limited })?
        }
        AskKind::Share => PoolVerb::Share(Box::new(Share::read(r)?)),
        _ => return None,
    })
}

fn put_commit<'p>(w: &mut Gather<'_, 'p>, commit: &'p TxCommit<'_>) -> AskKind {
    let TxCommit { cont, tx, epoch, parts, read } = commit;
    w.body.put(cont);
    w.body.put(tx);
    w.body.put(epoch);
    w.body.count(parts.len(), TARGETS_MAX);
    for (target, mutations) in parts {
        w.body.put(target);
        put_mutations(w, mutations);
    }
    if read.is_empty() || !w.tells_ends {
        return AskKind::TxCommit;
    }
    w.body.put(read);
    AskKind::TxCommitRead
}

fn read_commit<'p>(input: &mut Input<'_, 'p>) -> Option<TxCommit<'p>> {
    let r = &mut input.body;
    let (cont, tx, epoch) = (ContNo::read(r)?, TxId::read(r)?, Epoch::read(r)?);
    // A target, and how many mutations.
    let count = r.count(TargetNo::BYTES_MIN + 4).filter(|&count| count <= TARGETS_MAX)?;
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        parts.push((TargetNo::read(&mut input.body)?, read_mutations(input)?));
    }
    Some(TxCommit { cont, tx, epoch, parts, read: SmallVec::new() })
}

/// What is asked of files. Persistent: never renumber.
const FILES_BEGIN: u8 = 0;
const FILES_ASK: u8 = 1;
const FILES_END: u8 = 2;

impl Field for FilesAsk {
    const BYTES_MIN: usize = 1;

    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Begin => w.put(&FILES_BEGIN),
            Self::Ask { session, request } => {
                w.put(&FILES_ASK);
                w.put(session);
                w.put(request);
            }
            Self::End(session) => {
                w.put(&FILES_END);
                w.put(session);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            FILES_BEGIN => Self::Begin,
            FILES_ASK => Self::Ask { session: r.u64()?, request: Field::read(r)? },
            FILES_END => Self::End(r.u64()?),
            _ => return None,
        })
    }
}

/// A number, and with those that have a word that. Persistent: never renumber; 2 and 3 had no word.
impl Field for OpenFor {
    const BYTES_MIN: usize = 1;

    fn put(&self, w: &mut Writer<'_>) {
        let (number, word) = match self {
            Self::Any => (0_u8, None),
            Self::Change => (1, None),
            Self::Evicting => (4, None),
            Self::Alone(word) => (5, Some(word)),
            Self::Joining(word) => (6, Some(word)),
        };
        w.put(&number);
        word.into_iter().for_each(|word| w.put(word));
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            0 => Self::Any,
            1 => Self::Change,
            4 => Self::Evicting,
            5 => Self::Alone(r.u64()?),
            6 => Self::Joining(r.u64()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_container_is_opened_for_has_its_numbers_and_its_word() {
        use OpenFor::{Alone, Any, Change, Evicting, Joining};
        let word = 0x0807_0605_0403_0201;
        for (wanted, number) in [(Any, 0), (Change, 1), (Evicting, 4), (Alone(word), 5), (Joining(word), 6)] {
            let golden = if number > 4 { vec![number, 1, 2, 3, 4, 5, 6, 7, 8] } else { vec![number] };
            assert_eq!(OpenFor::read(&mut Reader::new(&golden)), Some(wanted));
            let mut bytes = Vec::new();
            wanted.put(&mut Writer::new(&mut bytes));
            assert_eq!(bytes, golden);
            assert_eq!(wanted.is_of_alone(), number > 1, "an engine of before closes the connection");
            assert_eq!(OpenFor::read(&mut Reader::new(&golden[..golden.len() - 1])), None);
        }
        for number in [2, 3, 7] {
            assert_eq!(OpenFor::read(&mut Reader::new(&[number, 1, 2, 3, 4, 5, 6, 7, 8])), None);
        }
    }
}
