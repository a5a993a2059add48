//! Messages of every kind with any contents.

use super::super::{
    Looked, PartKey, PartSpec, PoolAccess, PoolConnection, PoolEntry, PoolName, PoolSlot, PoolSpec, RankInfo,
    SystemInfo, SystemReply, SystemVerb,
};
use crate::lock::{LockAction, LockAsk, LockFamily, LockKind, LockRange, LockReply};
use crate::order::HashKey;
use crate::pool::*;
use crate::quota::{Bounds, Charge, Limits, Report, Share, ShareAsk, ShareTold, Told, UserUse, Wish};
use crate::verb::*;
use dolmen_types::limits::{LIST_BYTES_MAX, LIST_ITEMS_MAX};
use dolmen_types::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use smallvec::SmallVec;

/// What values are cut from.
static BYTES: [u8; 6000] = [0x5a; 6000];

fn payload() -> impl Strategy<Value = Payload<'static>> {
    let len = prop_oneof![0usize..10, 4000usize..5000];
    (len, 0usize..1000).prop_map(|(len, start)| Payload::Ref(&BYTES[start..start + len]))
}

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![8 => vec(any::<u8>(), 0..40), 1 => vec(any::<u8>(), 2000..3000)].prop_map(Key::from_vec)
}

fn oid() -> impl Strategy<Value = Oid> {
    any::<(u64, u64)>().prop_map(|(hi, lo)| Oid { hi, lo })
}

fn epoch() -> impl Strategy<Value = Epoch> {
    any::<u64>().prop_map(Epoch)
}

fn cont() -> impl Strategy<Value = ContNo> {
    any::<u32>().prop_map(ContNo)
}

fn target() -> impl Strategy<Value = TargetNo> {
    any::<u16>().prop_map(TargetNo)
}

fn cond() -> impl Strategy<Value = Cond> {
    any::<u64>().prop_map(Cond)
}

fn recx() -> impl Strategy<Value = Recx> {
    prop_oneof![any::<(u64, u64)>(), (0u64..100, 0u64..100)].prop_map(|(index, count)| Recx { index, count })
}

fn extents() -> impl Strategy<Value = SmallVec<[Recx; 1]>> {
    vec(recx(), 0..4).prop_map(SmallVec::from_vec)
}

fn tx() -> impl Strategy<Value = TxId> {
    (any::<u128>(), epoch()).prop_map(|(client, begin)| TxId { client, begin })
}

fn uuid() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..20).prop_map(|letters| letters.into_iter().collect())
}

fn label() -> impl Strategy<Value = Label> {
    vec(0usize..6, 1..40).prop_map(|letters| {
        let text: String = letters.into_iter().map(|at| char::from(b"aZ9._-"[at])).collect();
        Label::new(&text).unwrap_or(Label::new("label").unwrap())
    })
}

fn at() -> impl Strategy<Value = ReadAt> {
    prop_oneof![Just(ReadAt::Latest), epoch().prop_map(ReadAt::Epoch), epoch().prop_map(ReadAt::Tx)]
}

fn anchor() -> impl Strategy<Value = Anchor> {
    let anchor = prop_oneof![
        Just(Anchor::default()),
        Just(Anchor::eof()),
        vec(any::<u8>(), 0..=104).prop_map(|position| Anchor::after(&position).unwrap())
    ];
    (anchor, any::<u16>()).prop_map(|(mut anchor, shard)| {
        anchor.shard = shard;
        anchor
    })
}

fn new_value() -> impl Strategy<Value = NewValue<'static>> {
    prop_oneof![
        payload().prop_map(NewValue::Single),
        Just(NewValue::NoSingle),
        (any::<u64>(), extents(), payload()).prop_map(|(record_bytes, extents, data)| NewValue::Array {
            record_bytes,
            extents,
            data
        }),
        extents().prop_map(|extents| NewValue::Hole { extents })
    ]
}

fn update() -> impl Strategy<Value = Update<'static>> {
    let iod = (key(), cond(), new_value()).prop_map(|(akey, cond, value)| UpdateIod { akey, cond, value });
    let charged = prop_oneof![Just(None), any::<u32>().prop_map(Some)];
    (oid(), key(), cond(), vec(iod, 0..4), charged).prop_map(|(oid, dkey, cond, iods, charged)| Update {
        oid,
        dkey,
        cond,
        iods: SmallVec::from_vec(iods),
        charged,
    })
}

fn charge() -> impl Strategy<Value = Charge> {
    (any::<u64>(), any::<u64>()).prop_map(|(bytes, files)| Charge { bytes, files })
}

fn charges() -> impl Strategy<Value = Vec<(u32, Charge)>> {
    vec((any::<u32>(), charge()), 0..4)
}

fn bounds() -> impl Strategy<Value = Bounds> {
    (charge(), charges()).prop_map(|(all, users)| Bounds { all, users: users.into_iter().collect() })
}

fn request_id() -> impl Strategy<Value = RequestId> {
    (any::<u128>(), any::<u64>()).prop_map(|(client, sequence)| RequestId { client, sequence })
}

fn share() -> impl Strategy<Value = Share> {
    let ask = prop_oneof![
        Just(ShareAsk::Look(None)),
        request_id().prop_map(|id| ShareAsk::Look(Some(id))),
        Just(ShareAsk::Recall),
        (bounds(), vec((request_id(), any::<bool>()), 0..3))
            .prop_map(|(bounds, told)| ShareAsk::Set { bounds, told }),
        (tx(), any::<u64>()).prop_map(|(tx, names)| ShareAsk::Moves(tx, names)),
        Just(ShareAsk::Short),
    ];
    (cont(), any::<u64>(), any::<u64>(), ask).prop_map(|(cont, life, number, ask)| Share {
        cont,
        life,
        number,
        ask,
    })
}

fn share_told() -> impl Strategy<Value = ShareTold> {
    let wish = (request_id(), charge(), charges(), any::<bool>()).prop_map(|(id, all, users, is_tx)| Wish {
        id,
        all,
        users,
        is_tx,
    });
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>());
    let told = (numbers, bounds(), charges(), charges(), vec(wish, 0..3));
    let told = told.prop_map(|((life, changes, number), bounds, used, incoming, wishes)| {
        ShareTold::Account(Told { life, bounds, used, incoming, wishes, changes, number })
    });
    prop_oneof![told, vec(cont(), 0..4).prop_map(ShareTold::Short)]
}

fn punch() -> impl Strategy<Value = Punch> {
    let akeys = vec(key(), 0..4).prop_map(SmallVec::from_vec);
    let scope = prop_oneof![
        Just(PunchScope::Object),
        key().prop_map(PunchScope::Dkey),
        (key(), akeys).prop_map(|(dkey, akeys)| PunchScope::Akeys(dkey, akeys))
    ];
    (oid(), scope, cond()).prop_map(|(oid, scope, cond)| Punch { oid, scope, cond })
}

fn mutations() -> impl Strategy<Value = Vec<Mutation<'static>>> {
    vec(prop_oneof![update().prop_map(Mutation::Update), punch().prop_map(Mutation::Punch)], 0..5)
}

fn fetch() -> impl Strategy<Value = Fetch> {
    let want = prop_oneof![
        (0usize..1000).prop_map(|room_bytes| Want::Single { room_bytes }),
        Just(Want::Size),
        (any::<u64>(), extents()).prop_map(|(record_bytes, extents)| Want::Array { record_bytes, extents }),
        (1u64..10, extents()).prop_map(|(record_bytes, extents)| Want::Array { record_bytes, extents })
    ];
    let iod = (key(), want).prop_map(|(akey, want)| FetchIod { akey, want });
    let iods = vec(iod, 0..4).prop_map(SmallVec::from_vec);
    (oid(), key(), cond(), at(), iods, 0usize..5000).prop_map(|(oid, dkey, cond, at, iods, room)| {
        let buf = IoBuf::zeroed(room.min(wanted_bytes(&iods)));
        Fetch { oid, dkey, cond, at, iods, buf }
    })
}

/// Of a longer buffer the wire says no more than this.
fn wanted_bytes(iods: &[FetchIod]) -> usize {
    let bytes_of = |iod: &FetchIod| match &iod.want {
        Want::Single { room_bytes } => *room_bytes as u128,
        Want::Size => 0,
        Want::Array { record_bytes, extents } => {
            let records: u128 = extents.iter().map(|recx| u128::from(recx.count)).sum();
            records.min(u128::from(u64::MAX)) * u128::from(*record_bytes)
        }
    };
    let bytes = iods.iter().map(bytes_of).fold(0, u128::saturating_add);
    bytes.try_into().unwrap_or(usize::MAX)
}

fn list() -> impl Strategy<Value = List> {
    let what = prop_oneof![
        Just(ListWhat::Objects),
        oid().prop_map(ListWhat::Dkeys),
        (oid(), key()).prop_map(|(oid, dkey)| ListWhat::Akeys(oid, dkey)),
        (oid(), key(), key()).prop_map(|(oid, dkey, akey)| ListWhat::Extents(oid, dkey, akey)),
        (epoch(), epoch()).prop_map(|(from, to)| ListWhat::Changes { from, to })
    ];
    (what, anchor(), 0..=LIST_ITEMS_MAX, 0..=LIST_BYTES_MAX, at())
        .prop_map(|(what, anchor, items_max, bytes_max, at)| List { what, anchor, items_max, bytes_max, at })
}

fn participants() -> impl Strategy<Value = SmallVec<[TargetNo; 4]>> {
    vec(target(), 0..8).prop_map(SmallVec::from_vec)
}

fn prepare() -> impl Strategy<Value = Prepare<'static>> {
    (tx(), epoch(), target(), participants(), mutations()).prop_map(
        |(tx, epoch, leader, participants, mutations)| Prepare { tx, epoch, leader, participants, mutations },
    )
}

fn hash_key() -> impl Strategy<Value = HashKey> {
    any::<[u8; 16]>().prop_map(HashKey)
}

fn cont_verb() -> impl Strategy<Value = ContVerb> {
    let durability = prop_oneof![Just(Durability::Power), Just(Durability::Process)];
    prop_oneof![
        (hash_key(), durability)
            .prop_map(|(hash_key, durability)| ContVerb::Create(ContSpec { hash_key, durability })),
        Just(ContVerb::Destroy),
        Just(ContVerb::Usage),
        epoch().prop_map(ContVerb::RaiseFloor),
        epoch().prop_map(ContVerb::AddSnapshot),
        epoch().prop_map(ContVerb::RemoveSnapshot),
        (epoch(), epoch()).prop_map(|(to, at)| ContVerb::Rollback { to, at }),
        epoch().prop_map(ContVerb::Aggregate)
    ]
}

pub(super) fn verb() -> impl Strategy<Value = Verb<'static>> {
    let query = (oid(), any::<u32>().prop_map(QueryFlags), key(), key(), at())
        .prop_map(|(oid, flags, dkey, akey, at)| Query { oid, flags, dkey, akey, at });
    let of_tx = (tx(), 0usize..4)
        .prop_map(|(tx, which)| [Verb::Commit, Verb::Conclude, Verb::Abort, Verb::TxState][which](tx));
    let bare = (0usize..8).prop_map(|which| match which {
        0 => Verb::InDoubt,
        1 => Verb::Unconcluded,
        2 => Verb::Latest,
        3 => Verb::Space,
        4 => Verb::Flush,
        5 => Verb::Checkpoint,
        6 => Verb::Scrub,
        _ => Verb::Check,
    });
    prop_oneof![
        update().prop_map(Verb::Update),
        punch().prop_map(Verb::Punch),
        fetch().prop_map(Verb::Fetch),
        list().prop_map(Verb::List),
        query.prop_map(Verb::Query),
        prepare().prop_map(Verb::Prepare),
        cont_verb().prop_map(Verb::Cont),
        of_tx,
        bare
    ]
}

fn props() -> impl Strategy<Value = Props> {
    let value = prop_oneof![
        any::<u64>().prop_map(PropValue::Number),
        text().prop_map(PropValue::Text),
        vec(any::<u8>(), 0..40).prop_map(PropValue::Bytes)
    ];
    proptest::collection::btree_map(any::<u32>().prop_map(PropId), value, 0..5)
}

fn cont_name() -> impl Strategy<Value = ContName> {
    prop_oneof![label().prop_map(ContName::Label), uuid().prop_map(ContName::Uuid)]
}

fn lock_range() -> impl Strategy<Value = LockRange> {
    let kind = proptest::sample::select(vec![LockKind::Free, LockKind::Read, LockKind::Write]);
    (any::<u64>(), any::<u64>(), kind).prop_map(|(first, last, kind)| LockRange { first, last, kind })
}

fn files_ask() -> impl Strategy<Value = FilesAsk> {
    prop_oneof![
        Just(FilesAsk::Begin),
        any::<u64>().prop_map(FilesAsk::End),
        (any::<u64>(), vec(any::<u8>(), 0..99))
            .prop_map(|(session, request)| FilesAsk::Ask { session, request }),
    ]
}

fn lock_ask() -> impl Strategy<Value = LockAsk> {
    let actions =
        [LockAction::Set, LockAction::Again, LockAction::Test, LockAction::Renew, LockAction::Leave];
    let family = proptest::sample::select(vec![LockFamily::Range, LockFamily::Whole, LockFamily::Open]);
    let first = (uuid(), proptest::sample::select(actions.to_vec()), any::<bool>(), oid(), family);
    (first, any::<u64>(), any::<u32>(), lock_range()).prop_map(
        |((holder, action, has_locks, oid, family), owner, pid, range)| LockAsk {
            holder,
            action,
            has_locks,
            oid,
            family,
            owner,
            pid,
            range,
        },
    )
}

fn open_for() -> impl Strategy<Value = OpenFor> {
    prop_oneof![
        Just(OpenFor::Any),
        Just(OpenFor::Change),
        any::<u64>().prop_map(OpenFor::Alone),
        any::<u64>().prop_map(OpenFor::Joining),
        Just(OpenFor::Evicting),
    ]
}

fn cont_question() -> impl Strategy<Value = PoolVerb<'static>> {
    prop_oneof![
        (uuid(), option::of(label()), props()).prop_map(|(uuid, label, props)| PoolVerb::ContCreate {
            uuid,
            label,
            props
        }),
        (cont_name(), open_for()).prop_map(|(name, wanted)| PoolVerb::ContOpen(name, wanted)),
        cont().prop_map(PoolVerb::ContClose),
        (cont_name(), any::<bool>()).prop_map(|(name, force)| PoolVerb::ContDestroy(name, force)),
        cont().prop_map(PoolVerb::ContQuery),
        (cont(), props()).prop_map(|(cont, props)| PoolVerb::ContSetProps(cont, props)),
        (cont(), vec(any::<u32>().prop_map(PropId), 0..5))
            .prop_map(|(cont, ids)| PoolVerb::ContProps(cont, ids)),
        (cont(), epoch()).prop_map(|(cont, epoch)| PoolVerb::Rollback(cont, epoch)),
        (cont(), any::<u64>()).prop_map(|(cont, count)| PoolVerb::AllocOids(cont, count)),
        (cont(), epoch()).prop_map(|(cont, epoch)| PoolVerb::Aggregate(cont, epoch))
    ]
}

pub(super) fn pool_verb() -> impl Strategy<Value = PoolVerb<'static>> {
    let attrs = vec((text(), vec(any::<u8>(), 0..40)), 0..5);
    let read = || vec(target(), 0..4).prop_map(SmallVec::from_vec);
    let commit = (cont(), tx(), epoch(), vec((target(), mutations()), 0..4), read())
        .prop_map(|(cont, tx, epoch, parts, read)| TxCommit { cont, tx, epoch, parts, read });
    let bare = (0usize..6).prop_map(|which| match which {
        0 => PoolVerb::Query,
        1 => PoolVerb::ContList,
        2 => PoolVerb::TxBegin,
        3 => PoolVerb::Checkpoint,
        4 => PoolVerb::Scrub,
        _ => PoolVerb::Check,
    });
    let of = || option::of(cont());
    prop_oneof![
        1 => (cont(), vec(any::<u8>(), 0..30), any::<u128>())
            .prop_map(|(cont, evictions, by)| PoolVerb::Evicted { cont, evictions, by }),
        1 => (vec(cont(), 0..5), epoch(), vec(cont(), 0..3))
            .prop_map(|(closed, now, limited)| PoolVerb::Admit { closed, now, limited }),
        1 => share().prop_map(|share| PoolVerb::Share(Box::new(share))),
        1 => proptest::strategy::Just(()).prop_map(|()| PoolVerb::Props),
        1 => (cont(), vec(any::<u32>(), 0..5)).prop_map(|(cont, given)| PoolVerb::Leases(cont, given)),
        1 => (cont(), files_ask()).prop_map(|(cont, ask)| PoolVerb::Files(cont, ask)),
        2 => (cont(), lock_ask()).prop_map(|(cont, ask)| PoolVerb::Lock(cont, Box::new(ask))),
        1 => props().prop_map(PoolVerb::SetProps),
        1 => (cont(), any::<bool>()).prop_map(|(cont, is_all)| {
            PoolVerb::ContEvict(cont, if is_all { Whose::All } else { Whose::Own })
        }),
        1 => cont().prop_map(PoolVerb::ContQuota),
        1 => (cont(), option::of(any::<u32>()), limits())
            .prop_map(|(cont, uid, limits)| PoolVerb::ContSetQuota(cont, uid, limits)),
        10 => cont_question(),
        6 => bare,
        1 => (of(), attrs).prop_map(|(cont, attrs)| PoolVerb::SetAttrs(cont, attrs)),
        1 => (of(), text()).prop_map(|(cont, name)| PoolVerb::Attr(cont, name)),
        1 => of().prop_map(PoolVerb::AttrNames),
        1 => (of(), vec(text(), 0..5)).prop_map(|(cont, names)| PoolVerb::RemoveAttrs(cont, names)),
        1 => (cont(), option::of(text())).prop_map(|(cont, name)| PoolVerb::SnapCreate(cont, name)),
        1 => cont().prop_map(PoolVerb::SnapList),
        1 => (cont(), epoch()).prop_map(|(cont, epoch)| PoolVerb::SnapDestroy(cont, epoch)),
        3 => commit.prop_map(PoolVerb::TxCommit),
        1 => (epoch(), read()).prop_map(|(epoch, read)| PoolVerb::TxEnd(EndedTx { epoch, read })),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    any::<[u64; 2]>().prop_map(|[bytes, files]| Limits { bytes, files })
}

fn report() -> impl Strategy<Value = Report> {
    let used = || any::<[u64; 2]>().prop_map(|[bytes, files]| Charge { bytes, files });
    let user = (any::<u32>(), used(), limits()).prop_map(|(uid, used, limits)| UserUse { uid, used, limits });
    (used(), limits(), vec(user, 0..5)).prop_map(|(used, limits, users)| Report { used, limits, users })
}

/// Parts of an array as a target answers them: ascending and apart, few records each.
fn filled() -> impl Strategy<Value = SmallVec<[Recx; 1]>> {
    vec((1u64..1000, 1u64..10), 0..4).prop_map(|parts| {
        let mut end = 0;
        let place = |(gap, count)| {
            let recx = Recx::new(end + gap, count);
            end = recx.index + count;
            recx
        };
        parts.into_iter().map(place).collect()
    })
}

fn listed() -> impl Strategy<Value = Listed> {
    let keys = vec(key(), 0..6).prop_map(|keys| {
        let mut packed = PackedKeys::default();
        keys.iter().for_each(|key| packed.push(key));
        Listed::Keys(packed)
    });
    let extent = (recx(), any::<u64>(), epoch(), any::<bool>())
        .prop_map(|(recx, record_bytes, epoch, single)| ListedExtent { recx, record_bytes, epoch, single });
    let kind = prop_oneof![Just(ChangeKind::Added), Just(ChangeKind::Removed), Just(ChangeKind::Modified)];
    let change =
        (oid(), key(), key(), kind).prop_map(|(oid, dkey, akey, kind)| Change { oid, dkey, akey, kind });
    prop_oneof![
        vec(oid(), 0..5).prop_map(Listed::Objects),
        keys,
        vec(extent, 0..5).prop_map(Listed::Extents),
        vec(change, 0..5).prop_map(Listed::Changes)
    ]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        (cont(), oid(), key(), key(), option::of(recx()))
            .prop_map(|(cont, oid, dkey, akey, extent)| Place::Value { cont, oid, dkey, akey, extent }),
        (0usize..3, any::<u64>(), any::<u64>()).prop_map(|(file, number, offset)| Place::Record {
            file: ["log", "run", "super"][file],
            number,
            offset
        })
    ]
}

fn audit() -> impl Strategy<Value = Audit> {
    let finding = (place(), 0usize..3)
        .prop_map(|(place, rule)| Finding { place, rule: ["usage", "checksum", "log-frame"][rule] });
    (any::<u64>(), any::<u64>(), vec(finding, 0..5), any::<u64>()).prop_map(
        |(versions, verified_bytes, findings, unlisted)| Audit {
            versions,
            verified_bytes,
            findings,
            unlisted,
        },
    )
}

fn space() -> impl Strategy<Value = SpaceReport> {
    any::<[u64; 9]>().prop_map(|[a, b, c, d, e, f, g, h, i]| SpaceReport {
        total_bytes: a,
        free_bytes: b,
        allocated_bytes: c,
        bulk_bytes: d,
        log_bytes: e,
        run_bytes: f,
        reserve_bytes: g,
        scrubbed_bytes: h,
        damage_count: i,
    })
}

fn usage() -> impl Strategy<Value = Usage> {
    any::<[u64; 4]>().prop_map(|[versions, value_bytes, bulk_bytes, small_bytes]| Usage {
        versions,
        value_bytes,
        bulk_bytes,
        small_bytes,
    })
}

pub(super) fn reply() -> impl Strategy<Value = Reply> {
    let single = (0u64..1000).prop_map(|size_bytes| (size_bytes, SmallVec::new()));
    let fetched = prop_oneof![single, (1u64..10, filled())];
    let fetched = (fetched, any::<bool>()).prop_map(|((size_bytes, filled), is_end)| FetchedIod {
        size_bytes,
        filled,
        is_end,
    });
    let found = (key(), key(), option::of(recx()), any::<u64>())
        .prop_map(|(dkey, akey, recx, record_bytes)| Found { dkey, akey, recx, record_bytes });
    let doubt = (tx(), epoch(), target(), participants())
        .prop_map(|(tx, epoch, leader, participants)| InDoubt { tx, epoch, leader, participants });
    let state = prop_oneof![Just(TxState::Unknown), Just(TxState::Prepared), Just(TxState::Committed)];
    prop_oneof![
        epoch().prop_map(Reply::Written),
        vec(fetched, 0..4).prop_map(|fetched| Reply::Fetched(SmallVec::from_vec(fetched))),
        (listed(), anchor()).prop_map(|(listed, anchor)| Reply::Listed(listed, anchor)),
        option::of(found).prop_map(Reply::Found),
        Just(()).prop_map(|()| Reply::Prepared),
        Just(()).prop_map(|()| Reply::Done),
        state.prop_map(Reply::TxState),
        vec(doubt, 0..4).prop_map(Reply::InDoubt),
        usage().prop_map(Reply::ContUsage),
        space().prop_map(Reply::Space),
        (any::<bool>(), any::<u64>()).prop_map(|(more, freed)| Reply::Aggregated { more, freed }),
        audit().prop_map(Reply::Audited)
    ]
}

fn cont_handle() -> impl Strategy<Value = ContHandle> {
    (cont(), uuid(), option::of(label()), hash_key(), props())
        .prop_map(|(no, uuid, label, hash_key, props)| ContHandle { no, uuid, label, hash_key, props })
}

fn pool_map() -> impl Strategy<Value = PoolMap> {
    let state = prop_oneof![Just(TargetState::Down), Just(TargetState::UpIn)];
    let targets = vec((any::<u32>(), state).prop_map(|(rank, state)| TargetInfo { rank, state }), 0..5);
    (any::<u32>(), uuid(), targets).prop_map(|(version, pool, targets)| PoolMap { version, pool, targets })
}

pub(super) fn pool_reply() -> impl Strategy<Value = PoolReply> {
    let info = (pool_map(), option::of(label()), vec(space(), 0..4), any::<u64>())
        .prop_map(|(map, label, space, cont_count)| PoolInfo { map, label, space, cont_count });
    let cont = (cont_handle(), any::<u32>(), any::<u32>(), epoch(), usage()).prop_map(
        |(cont, handles, snapshots, last_snapshot, usage)| ContInfo {
            cont,
            handles,
            snapshots,
            last_snapshot,
            usage,
        },
    );
    let snapshot = (epoch(), option::of(text())).prop_map(|(epoch, name)| Snapshot { epoch, name });
    let other = prop_oneof![
        epoch().prop_map(PoolReply::Epoch),
        any::<u64>().prop_map(PoolReply::Oids),
        any::<u64>().prop_map(PoolReply::Aggregated),
        prop_oneof![
            proptest::sample::select(vec![LockReply::Done, LockReply::Recovering, LockReply::Unknown]),
            (lock_range(), any::<u32>()).prop_map(|(range, pid)| LockReply::Held { range, pid }),
        ]
        .prop_map(PoolReply::Lock),
        report().prop_map(|report| PoolReply::Quota(Box::new(report))),
        share_told().prop_map(|told| PoolReply::Share(Box::new(told))),
        prop_oneof![
            Just(FilesReply::Ended),
            any::<u64>().prop_map(FilesReply::Begun),
            vec(any::<u8>(), 0..99).prop_map(FilesReply::Told),
        ]
        .prop_map(PoolReply::Files),
        Just(()).prop_map(|()| PoolReply::Done)
    ];
    prop_oneof![
        info.prop_map(PoolReply::Pool),
        cont_handle().prop_map(PoolReply::Cont),
        vec(cont_handle(), 0..4).prop_map(PoolReply::Conts),
        cont.prop_map(|cont| PoolReply::ContInfo(Box::new(cont))),
        props().prop_map(PoolReply::Props),
        vec(any::<u8>(), 0..100).prop_map(PoolReply::Attr),
        vec(text(), 0..5).prop_map(PoolReply::AttrNames),
        vec(snapshot, 0..5).prop_map(PoolReply::Snapshots),
        vec(audit(), 0..4).prop_map(PoolReply::Audits),
        other
    ]
}

fn invalid() -> impl Strategy<Value = Invalid> {
    const ALL: [Invalid; 17] = [
        Invalid::Label,
        Invalid::ObjectId,
        Invalid::Key,
        Invalid::Extent,
        Invalid::Payload,
        Invalid::RecordSize,
        Invalid::Count,
        Invalid::Flags,
        Invalid::Anchor,
        Invalid::Query,
        Invalid::Epoch,
        Invalid::Property,
        Invalid::Name,
        Invalid::Path,
        Invalid::Layout,
        Invalid::Argument,
        Invalid::Credentials,
    ];
    (0..ALL.len()).prop_map(|at| ALL[at])
}

pub(super) fn error() -> impl Strategy<Value = Error> {
    prop_oneof![
        invalid().prop_map(Error::Invalid),
        epoch().prop_map(|after| Error::TxRestart { after }),
        tx().prop_map(|tx| Error::InDoubt { tx }),
        (target(), any::<u64>()).prop_map(|(target, needed_bytes)| Error::NoSpace { target, needed_bytes }),
        (target(), place()).prop_map(|(target, place)| Error::Corrupt { target, place: Box::new(place) }),
        (target(), any::<i32>()).prop_map(|(target, errno)| Error::Io { target, errno }),
        target().prop_map(|target| Error::ReadOnly { target }),
        any::<u64>().prop_map(|needed_bytes| Error::RecTooBig { needed_bytes }),
        any::<u64>().prop_map(|needed_bytes| Error::KeyTooBig { needed_bytes }),
        any::<u64>().prop_map(|stored_bytes| Error::RecordSize { stored_bytes }),
        epoch().prop_map(|oldest| Error::EpochGone { oldest }),
        any::<u32>().prop_map(|version| Error::StaleMap { version }),
        any::<u32>().prop_map(|rank| Error::Unreachable { rank })
    ]
}

fn pool_name() -> impl Strategy<Value = PoolName> {
    prop_oneof![label().prop_map(PoolName::Label), uuid().prop_map(PoolName::Uuid)]
}

fn slot() -> impl Strategy<Value = PoolSlot> {
    any::<u16>().prop_map(PoolSlot)
}

fn pool_spec() -> impl Strategy<Value = PoolSpec> {
    let small = || option::of(any::<u32>());
    let large = || option::of(any::<u64>());
    let numbers = (option::of(any::<u16>()), [large(), large(), large()], [small(), small(), small()]);
    let bulk_dir = option::of(vec(any::<u8>(), 0..40));
    (option::of(uuid()), option::of(label()), numbers, any::<bool>(), bulk_dir).prop_map(
        |(uuid, label, (targets, large, small), volatile, bulk_dir)| PoolSpec {
            uuid,
            label,
            targets,
            capacity_bytes: large[0],
            small_value_bytes_max: small[0],
            log_segment_bytes: small[1],
            bulk_segment_bytes: small[2],
            checkpoint_log_bytes: large[1],
            memory_budget_bytes: large[2],
            volatile,
            bulk_dir,
        },
    )
}

pub(super) fn system_verb() -> impl Strategy<Value = SystemVerb> {
    let access = prop_oneof![
        Just(PoolAccess::ReadOnly),
        Just(PoolAccess::ReadWrite),
        Just(PoolAccess::Change),
        Just(PoolAccess::Exclusive)
    ];
    prop_oneof![
        Just(SystemVerb::Ping),
        Just(SystemVerb::Query),
        Just(SystemVerb::PoolList),
        (pool_name(), access).prop_map(|(name, access)| SystemVerb::PoolConnect { name, access }),
        slot().prop_map(|slot| SystemVerb::PoolDisconnect { slot }),
        pool_spec().prop_map(SystemVerb::PoolCreate),
        (pool_name(), any::<bool>()).prop_map(|(name, force)| SystemVerb::PoolDestroy { name, force }),
        Just(SystemVerb::Stop),
        pool_name().prop_map(SystemVerb::PoolEvict),
        (uuid(), any::<u128>()).prop_map(|(pool, key)| SystemVerb::PartEvict { pool, key: PartKey(key) }),
        (any::<u32>(), system_info())
            .prop_map(|(rank, list)| SystemVerb::Compare { rank, list: Box::new(list) }),
        (pool_spec(), vec(any::<u32>(), 0..9), any::<u128>()).prop_map(|(pool, ranks, key)| {
            SystemVerb::PartCreate(Box::new(PartSpec { pool, ranks, key: PartKey(key) }))
        }),
        (uuid(), any::<u128>()).prop_map(|(pool, key)| SystemVerb::PartConnect { pool, key: PartKey(key) }),
        (uuid(), any::<u128>()).prop_map(|(pool, key)| SystemVerb::PartDestroy { pool, key: PartKey(key) }),
        (uuid(), any::<u128>(), option::of(uuid())).prop_map(|(pool, key, cont)| SystemVerb::PartLook {
            pool,
            key: PartKey(key),
            cont
        })
    ]
}

fn rank() -> impl Strategy<Value = RankInfo> {
    (any::<u32>(), uuid(), vec(text(), 0..4)).prop_map(|(rank, uuid, addresses)| RankInfo {
        rank,
        uuid,
        addresses,
    })
}

fn system_info() -> impl Strategy<Value = SystemInfo> {
    (text(), vec(rank(), 0..4), any::<u32>()).prop_map(|(name, ranks, pool_count)| SystemInfo {
        name,
        ranks,
        pool_count,
    })
}

fn pool_entry() -> impl Strategy<Value = PoolEntry> {
    (uuid(), option::of(label()), any::<(u32, u64, u32, bool)>()).prop_map(
        |(uuid, label, (target_count, capacity_bytes, connections, volatile))| PoolEntry {
            uuid,
            label,
            target_count,
            capacity_bytes,
            connections,
            volatile,
        },
    )
}

pub(super) fn system_reply() -> impl Strategy<Value = SystemReply> {
    let connection = (slot(), uuid(), option::of(label()), pool_map(), vec(rank(), 0..4)).prop_map(
        |(slot, uuid, label, map, ranks)| PoolConnection { slot, uuid, label, map, ranks, evictions: 0 },
    );
    prop_oneof![
        Just(SystemReply::Done),
        system_info().prop_map(SystemReply::System),
        vec(pool_entry(), 0..4).prop_map(SystemReply::Pools),
        connection.prop_map(|connection| SystemReply::Connected(Box::new(connection))),
        pool_entry().prop_map(SystemReply::Created),
        (props(), option::of(cont_handle()))
            .prop_map(|(props, cont)| SystemReply::Looked(Box::new(Looked { props, cont })))
    ]
}
