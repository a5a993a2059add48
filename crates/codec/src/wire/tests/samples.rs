//! One message of each kind, and the numbers of their bytes.

use super::super::{
    AskKind, Looked, PartKey, PartSpec, PoolAccess, PoolConnection, PoolEntry, PoolName, PoolSlot, PoolSpec,
    RankInfo, ReplyKind, SystemInfo, SystemReply, SystemVerb,
};
use crate::lock::{LockAction, LockAsk, LockFamily, LockKind, LockRange, LockReply};
use crate::order::HashKey;
use crate::pool::*;
use crate::quota::{Bounds, Charge, Limits, Report, Share, ShareAsk, ShareTold, Told, UserUse, Wish};
use crate::transport::{Answer, Ask};
use crate::verb::*;
use dolmen_types::*;
use smallvec::{SmallVec, smallvec};

fn key(bytes: &[u8]) -> Key {
    Key::from_slice(bytes)
}

fn oid() -> Oid {
    Oid { hi: 0x0b01_0001_0000_0001, lo: 2 }
}

fn tx() -> TxId {
    TxId { client: 3, begin: Epoch(4) }
}

fn uuid(number: u128) -> Uuid {
    uuid_of_random(number)
}

pub(super) fn update() -> Verb<'static> {
    Verb::Update(update_of(&[b"one", b"three"]))
}

/// The same, charged to somebody.
pub(super) fn charged() -> Verb<'static> {
    Verb::Update(Update { charged: Some(8), ..update_of(&[b"one", b"three"]) })
}

fn update_of(values: &[&'static [u8]; 2]) -> Update<'static> {
    let iod = |akey: &[u8], value| UpdateIod { akey: key(akey), cond: Cond::AKEY_INSERT, value };
    let extents: SmallVec<[Recx; 1]> = smallvec![Recx::new(5, 2), Recx::new(9, 3)];
    let data = Payload::Ref(values[1]);
    let iods = smallvec![
        iod(b"a", NewValue::Single(Payload::Ref(values[0]))),
        iod(b"b", NewValue::NoSingle),
        iod(b"c", NewValue::Array { record_bytes: 1, extents: extents.clone(), data }),
        iod(b"d", NewValue::Hole { extents }),
    ];
    Update { oid: oid(), dkey: key(b"dkey"), cond: Cond::PER_AKEY, iods, charged: None }
}

fn mutations() -> Vec<Mutation<'static>> {
    let scope = PunchScope::Akeys(key(b"dkey"), smallvec![key(b"a"), key(b"b")]);
    let punches = [PunchScope::Object, PunchScope::Dkey(key(b"dkey")), scope];
    let punch = |scope| Mutation::Punch(Punch { oid: oid(), scope, cond: Cond::PUNCH });
    let mut mutations: Vec<_> = punches.into_iter().map(punch).collect();
    mutations.push(Mutation::Update(update_of(&[b"two", b"fives"])));
    mutations
}

fn fetch() -> Verb<'static> {
    let extents = smallvec![Recx::new(0, 4)];
    let wants = [Want::Single { room_bytes: 64 }, Want::Size, Want::Array { record_bytes: 8, extents }];
    let iods = wants.into_iter().map(|want| FetchIod { akey: key(b"akey"), want }).collect();
    let at = ReadAt::Tx(Epoch(7));
    let buf = IoBuf::zeroed(96);
    Verb::Fetch(Fetch { oid: oid(), dkey: key(b"dkey"), cond: Cond::DKEY_FETCH, at, iods, buf })
}

fn target_verbs() -> Vec<Verb<'static>> {
    let prepare = Prepare {
        tx: tx(),
        epoch: Epoch(5),
        leader: TargetNo(6),
        participants: smallvec![TargetNo(6), TargetNo(7)],
        mutations: mutations(),
    };
    let mut anchor = Anchor::after(b"position").unwrap();
    anchor.shard = 2;
    let what = ListWhat::Extents(oid(), key(b"dkey"), key(b"akey"));
    let at = ReadAt::Epoch(Epoch(8));
    let flags = QueryFlags::MAX.and(QueryFlags::DKEY);
    vec![
        update(),
        Verb::Punch(Punch { oid: oid(), scope: PunchScope::Dkey(key(b"dkey")), cond: Cond::PUNCH }),
        fetch(),
        Verb::List(List { what, anchor, items_max: 9, bytes_max: 10, at }),
        Verb::Query(Query { oid: oid(), flags, dkey: key(b"d"), akey: key(b"a"), at: ReadAt::Latest }),
        Verb::Prepare(prepare),
        Verb::Commit(tx()),
        Verb::Conclude(tx()),
        Verb::Abort(tx()),
        Verb::TxState(tx()),
        Verb::InDoubt,
        Verb::Unconcluded,
        Verb::Latest,
        Verb::Cont(ContVerb::Rollback { to: Epoch(1), at: Epoch(2) }),
        Verb::Space,
        Verb::Flush,
        Verb::Checkpoint,
        Verb::Scrub,
        Verb::Check,
        charged(),
    ]
}

fn props() -> Props {
    let values = [
        (PropId::CO_LABEL, PropValue::Text("era5".into())),
        (PropId::CO_LAYOUT_TYPE, PropValue::Number(1)),
        (PropId::CO_ROOTS, PropValue::Bytes(vec![7; 8])),
    ];
    values.into_iter().collect()
}

fn label() -> Label {
    Label::new("era5").unwrap()
}

fn pool_verbs() -> Vec<PoolVerb<'static>> {
    let cont = ContNo(1);
    let parts = vec![(TargetNo(1), mutations()), (TargetNo(2), mutations())];
    let name = || String::from("name");
    vec![
        PoolVerb::Query,
        PoolVerb::ContCreate { uuid: uuid(1), label: Some(label()), props: props() },
        PoolVerb::ContOpen(ContName::Label(label()), OpenFor::Change),
        PoolVerb::ContClose(cont),
        PoolVerb::ContDestroy(ContName::Uuid(uuid(2)), true),
        PoolVerb::ContList,
        PoolVerb::ContQuery(cont),
        PoolVerb::ContSetProps(cont, props()),
        PoolVerb::ContProps(cont, vec![PropId::CO_LABEL, PropId::CO_CSUM]),
        PoolVerb::SetAttrs(Some(cont), vec![(name(), b"value".to_vec())]),
        PoolVerb::Attr(None, name()),
        PoolVerb::AttrNames(Some(cont)),
        PoolVerb::RemoveAttrs(None, vec![name(), name()]),
        PoolVerb::SnapCreate(cont, Some(name())),
        PoolVerb::SnapList(cont),
        PoolVerb::SnapDestroy(cont, Epoch(3)),
        PoolVerb::Rollback(cont, Epoch(4)),
        PoolVerb::AllocOids(cont, 5),
        PoolVerb::TxBegin,
        PoolVerb::TxCommit(TxCommit { cont, tx: tx(), epoch: Epoch(6), parts, read: SmallVec::new() }),
        PoolVerb::Aggregate(cont, Epoch(7)),
        PoolVerb::Checkpoint,
        PoolVerb::Scrub,
        PoolVerb::Check,
        PoolVerb::Admit { closed: vec![cont, ContNo(9)], now: Epoch(8), limited: Vec::new() },
        PoolVerb::ContEvict(cont, Whose::All),
        PoolVerb::Props,
        PoolVerb::SetProps(Props::from([(PropId::PO_OWNER, PropValue::Text("ann@".to_owned()))])),
        PoolVerb::Lock(cont, Box::new(lock())),
        PoolVerb::Evicted { cont, evictions: vec![1, 2, 3], by: 4 << 90 },
        PoolVerb::Leases(cont, vec![1, u32::MAX]),
        PoolVerb::ContQuota(cont),
        PoolVerb::ContSetQuota(cont, Some(2), limits()),
        PoolVerb::Share(Box::new(share())),
        PoolVerb::Admit { closed: vec![cont], now: Epoch(8), limited: vec![ContNo(9), ContNo(10)] },
        having_read(),
        PoolVerb::TxEnd(EndedTx { epoch: Epoch(7), read: read() }),
        PoolVerb::Files(cont, FilesAsk::Ask { session: 9, request: vec![1, 2, 3] }),
    ]
}

fn read() -> SmallVec<[TargetNo; 4]> {
    smallvec![TargetNo(3), TargetNo(4)]
}

/// A commit of what was read elsewhere.
pub(super) fn having_read() -> PoolVerb<'static> {
    let parts = vec![(TargetNo(1), mutations())];
    PoolVerb::TxCommit(TxCommit { cont: ContNo(1), tx: tx(), epoch: Epoch(6), parts, read: read() })
}

fn limits() -> Limits {
    Limits { bytes: 3, files: 4 }
}

fn bounds() -> Bounds {
    let all = Charge { bytes: 1 << 33, files: u64::MAX };
    Bounds { all, users: [(7, Charge { bytes: 8, files: 9 })].into() }
}

fn request_id() -> RequestId {
    RequestId { client: 3 << 90, sequence: 4 }
}

fn share() -> Share {
    let ask = ShareAsk::Set { bounds: bounds(), told: vec![(request_id(), true)] };
    Share { cont: ContNo(1), life: 2, number: 3, ask }
}

fn share_told() -> ShareTold {
    let charge = Charge { bytes: 5, files: 6 };
    let wish = Wish { id: request_id(), all: charge, users: vec![(7, charge)], is_tx: true };
    let (used, incoming) = (vec![(7, charge), (8, charge)], Vec::new());
    let (wishes, changes, number) = (vec![wish], 10, 3);
    ShareTold::Account(Told { life: 2, bounds: bounds(), used, incoming, wishes, changes, number })
}

fn quota() -> Report {
    let (used, limits) = (Charge { bytes: 5, files: 6 }, limits());
    Report { used, limits, users: vec![UserUse { uid: 7, used, limits }] }
}

fn lock() -> LockAsk {
    LockAsk {
        holder: uuid(3),
        action: LockAction::Again,
        has_locks: true,
        oid: oid(),
        family: LockFamily::Whole,
        owner: 4,
        pid: 5,
        range: LockRange { first: 6, last: 7, kind: LockKind::Write },
    }
}

/// In the order of [`AskKind::ALL`].
pub(super) fn asks() -> Vec<Ask<'static>> {
    let to_target = |verb| Ask::Target(TargetNo(3), ContNo(4), verb);
    target_verbs().into_iter().map(to_target).chain(pool_verbs().into_iter().map(Ask::Pool)).collect()
}

fn audit() -> Audit {
    let extent = Some(Recx::new(1, 2));
    let place = Place::Value { cont: ContNo(1), oid: oid(), dkey: key(b"dkey"), akey: key(b"akey"), extent };
    let findings = vec![
        Finding { place, rule: "checksum" },
        Finding { place: Place::Record { file: "run", number: 2, offset: 3 }, rule: "run-block" },
    ];
    Audit { versions: 4, verified_bytes: 5, findings, unlisted: 6 }
}

fn space() -> SpaceReport {
    SpaceReport {
        total_bytes: 1,
        free_bytes: 2,
        allocated_bytes: 3,
        bulk_bytes: 4,
        log_bytes: 5,
        run_bytes: 6,
        reserve_bytes: 7,
        scrubbed_bytes: 8,
        damage_count: 9,
    }
}

fn usage() -> Usage {
    Usage { versions: 1, value_bytes: 2, bulk_bytes: 3, small_bytes: 4 }
}

fn target_replies() -> Vec<Reply> {
    let filled = smallvec![Recx::new(0, 1), Recx::new(2, 2)];
    let fetched = smallvec![
        FetchedIod { size_bytes: 5, filled: SmallVec::new(), is_end: false },
        FetchedIod { size_bytes: 8, filled, is_end: true },
    ];
    let mut keys = PackedKeys::default();
    keys.push(b"first");
    keys.push(b"second");
    let found = Found { dkey: key(b"d"), akey: key(b"a"), recx: Some(Recx::new(1, 2)), record_bytes: 3 };
    let participants = smallvec![TargetNo(1), TargetNo(2)];
    let doubt = InDoubt { tx: tx(), epoch: Epoch(1), leader: TargetNo(1), participants };
    vec![
        Reply::Written(Epoch(1)),
        Reply::Fetched(fetched),
        Reply::Listed(Listed::Keys(keys), Anchor::eof()),
        Reply::Found(Some(found)),
        Reply::Prepared,
        Reply::Done,
        Reply::TxState(TxState::Committed),
        Reply::InDoubt(vec![doubt]),
        Reply::ContUsage(usage()),
        Reply::Space(space()),
        Reply::Aggregated { more: true, freed: 2 },
        Reply::Audited(audit()),
    ]
}

fn cont_handle() -> ContHandle {
    let hash_key = HashKey([5; 16]);
    ContHandle { no: ContNo(1), uuid: uuid(2), label: Some(label()), hash_key, props: props() }
}

pub(super) fn pool_map() -> PoolMap {
    let up = TargetInfo { rank: 1, state: TargetState::UpIn };
    let down = TargetInfo { rank: 2, state: TargetState::Down };
    PoolMap { version: 3, pool: uuid(4), targets: vec![up, down] }
}

fn pool_replies() -> Vec<PoolReply> {
    let info = PoolInfo { map: pool_map(), label: Some(label()), space: vec![space(); 2], cont_count: 5 };
    let cont =
        ContInfo { cont: cont_handle(), handles: 1, snapshots: 2, last_snapshot: Epoch(3), usage: usage() };
    let named = Snapshot { epoch: Epoch(1), name: Some("name".into()) };
    vec![
        PoolReply::Pool(info),
        PoolReply::Cont(cont_handle()),
        PoolReply::Conts(vec![cont_handle(); 2]),
        PoolReply::ContInfo(Box::new(cont)),
        PoolReply::Props(props()),
        PoolReply::Attr(b"value".to_vec()),
        PoolReply::AttrNames(vec!["a".into(), "b".into()]),
        PoolReply::Epoch(Epoch(1)),
        PoolReply::Snapshots(vec![named, Snapshot { epoch: Epoch(2), name: None }]),
        PoolReply::Oids(1),
        PoolReply::Aggregated(1),
        PoolReply::Audits(vec![audit(), Audit::default()]),
        PoolReply::Done,
        PoolReply::Lock(LockReply::Held { range: lock().range, pid: 8 }),
        PoolReply::Quota(Box::new(quota())),
        PoolReply::Share(Box::new(share_told())),
        PoolReply::Files(FilesReply::Told(vec![1, 2, 3])),
    ]
}

fn errors() -> Vec<Error> {
    let target = TargetNo(1);
    let Finding { place, .. } = audit().findings.swap_remove(0);
    vec![
        Error::Invalid(Invalid::Credentials),
        Error::NotFound,
        Error::Exists,
        Error::TxRestart { after: Epoch(1) },
        Error::InDoubt { tx: tx() },
        Error::NoSpace { target, needed_bytes: 2 },
        Error::Corrupt { target, place: Box::new(place) },
        Error::Io { target, errno: 5 },
        Error::ReadOnly { target },
        Error::RecTooBig { needed_bytes: 3 },
        Error::KeyTooBig { needed_bytes: 4 },
        Error::RecordSize { stored_bytes: 5 },
        Error::EpochGone { oldest: Epoch(6) },
        Error::NoContainer,
        Error::Busy,
        Error::TimedOut,
        Error::Canceled,
        Error::NoPermission,
        Error::StaleMap { version: 7 },
        Error::NotEmpty,
        Error::NotDirectory,
        Error::IsDirectory,
        Error::HashCollision,
        Error::Unreachable { rank: 8 },
        Error::NoHandle,
        Error::QuotaLimit,
    ]
}

/// All errors, then the answers in the order of their numbers.
pub(super) fn results() -> Vec<Result<Answer>> {
    let mut results: Vec<Result<Answer>> = errors().into_iter().map(Err).collect();
    results.extend(target_replies().into_iter().map(|reply| Ok(Answer::Target(reply))));
    results.extend(pool_replies().into_iter().map(|reply| Ok(Answer::Pool(reply))));
    results
}

pub(super) fn system_verbs() -> Vec<SystemVerb> {
    let name = PoolName::Label(label());
    let spec = PoolSpec {
        uuid: Some(uuid(1)),
        label: Some(label()),
        targets: Some(2),
        capacity_bytes: Some(3),
        small_value_bytes_max: Some(4),
        log_segment_bytes: Some(5),
        bulk_segment_bytes: Some(6),
        checkpoint_log_bytes: Some(7),
        memory_budget_bytes: Some(8),
        volatile: true,
        bulk_dir: Some(b"bulk".to_vec()),
    };
    let engine = RankInfo { rank: 13, uuid: uuid(5), addresses: vec![String::from("unix:/r13/dolmen.sock")] };
    let list = SystemInfo { name: "lab".into(), ranks: vec![engine], pool_count: 0 };
    vec![
        SystemVerb::Ping,
        SystemVerb::Query,
        SystemVerb::PoolList,
        SystemVerb::PoolConnect { name, access: PoolAccess::ReadWrite },
        SystemVerb::PoolDisconnect { slot: PoolSlot(1) },
        SystemVerb::PoolCreate(spec.clone()),
        SystemVerb::PoolDestroy { name: PoolName::Uuid(uuid(2)), force: true },
        SystemVerb::Stop,
        SystemVerb::PartCreate(Box::new(PartSpec { pool: spec, ranks: vec![4, 7], key: PartKey(9) })),
        SystemVerb::PartConnect { pool: uuid(3), key: PartKey(10) },
        SystemVerb::PartDestroy { pool: uuid(4), key: PartKey(11) },
        SystemVerb::Compare { rank: 12, list: Box::new(list) },
        SystemVerb::PoolEvict(PoolName::Uuid(uuid(6))),
        SystemVerb::PartEvict { pool: uuid(7), key: PartKey(14) },
        SystemVerb::PartLook { pool: uuid(8), key: PartKey(15), cont: Some(uuid(9)) },
    ]
}

pub(super) fn system_replies() -> Vec<SystemReply> {
    let addresses = vec![String::from("unix:dolmen.sock"), String::from("tcp://h1:1")];
    let rank = RankInfo { rank: 1, uuid: uuid(2), addresses };
    let entry = PoolEntry {
        uuid: uuid(3),
        label: Some(label()),
        target_count: 4,
        capacity_bytes: 5,
        connections: 6,
        volatile: true,
    };
    let connection = PoolConnection {
        slot: PoolSlot(7),
        uuid: uuid(8),
        label: Some(label()),
        map: pool_map(),
        ranks: vec![rank.clone()],
        evictions: 0,
    };
    vec![
        SystemReply::Done,
        SystemReply::System(SystemInfo { name: "dolmen".into(), ranks: vec![rank; 2], pool_count: 9 }),
        SystemReply::Pools(vec![entry.clone(); 2]),
        SystemReply::Connected(Box::new(connection)),
        SystemReply::Created(entry),
        SystemReply::Looked(Box::new(Looked { props: props(), cont: Some(cont_handle()) })),
    ]
}

/// In the order of their numbers.
pub(super) const GOLDEN_REQUESTS: &[(AskKind, [u64; 2])] = &[
    (AskKind::Update, [0x4bd9_e2a3_3478_cbd1, 0xde6e_16a1_6369_3ddf]),
    (AskKind::Punch, [0xb496_3b8e_b767_086d, 0x62f4_d9b9_0b25_c584]),
    (AskKind::Fetch, [0x3896_ad3f_110e_b0d8, 0x9bb9_1b20_1636_af24]),
    (AskKind::List, [0x4b54_116e_71bd_c69a, 0x225f_c811_b393_cdba]),
    (AskKind::Query, [0xcacd_a063_2fc0_fc01, 0xe6d9_1698_59b3_52e9]),
    (AskKind::Prepare, [0xf8c8_a080_78dd_e3db, 0xfbe9_6ff1_414f_e043]),
    (AskKind::Commit, [0xfa4e_7b86_f39a_8230, 0xc22c_a128_5099_6929]),
    (AskKind::Conclude, [0xb870_e794_e9d2_ea80, 0x93c8_78a2_136c_9fb9]),
    (AskKind::Abort, [0x858b_4731_26ca_6474, 0xb9e2_3719_8188_e36d]),
    (AskKind::TxState, [0x8861_c07e_6cbf_c6bc, 0xd5d5_557b_9015_a155]),
    (AskKind::InDoubt, [0x986a_ebce_e4fa_f80d, 0x6442_6f73_c064_8a1d]),
    (AskKind::Unconcluded, [0x34ef_038c_359b_36a9, 0x63c5_1816_18d1_b3c9]),
    (AskKind::Latest, [0x5652_a130_8a17_43ad, 0x55da_2640_b534_6c9d]),
    (AskKind::Cont, [0xb4d3_9a3b_fcaf_a533, 0x7fe0_d715_69a7_c020]),
    (AskKind::Space, [0xb20c_c256_594b_ed75, 0xf46e_0c4c_618f_cd85]),
    (AskKind::Flush, [0x7b17_2a85_ac2b_a5c9, 0x7aa_ea7a_b41f_3959]),
    (AskKind::Checkpoint, [0xe394_6bcd_c056_5db5, 0xd1c2_8b40_2c51_45b5]),
    (AskKind::Scrub, [0x36c9_fafd_170d_bfe9, 0x2e90_ed3f_bc2b_9699]),
    (AskKind::Check, [0xf86a_81a8_87f1_611d, 0xa5fa_ce03_66e6_6e7d]),
    (AskKind::UpdateFor, [0, 0xa450_06eb_452e_9c7d]),
    (AskKind::PoolQuery, [0xf746_4168_da7b_3fad, 0xf559_2f96_ec49_2d2d]),
    (AskKind::ContCreate, [0x95eb_c6ba_b845_e434, 0xc5a0_8e39_17be_23c5]),
    (AskKind::ContOpen, [0xa4c9_f5c0_d3a4_872a, 0x3f35_3604_7b10_ab94]),
    (AskKind::ContClose, [0x40ca_fd8d_e6dc_7e9d, 0xb8e4_6615_c555_41e5]),
    (AskKind::ContDestroy, [0x7a9d_6daa_47dd_7018, 0x43d3_5acc_b4ac_9551]),
    (AskKind::ContList, [0x29aa_2fb6_b8eb_7121, 0x326c_03ec_02a8_0e91]),
    (AskKind::ContQuery, [0x608c_f808_a494_c875, 0x8472_25fd_1743_cf7d]),
    (AskKind::ContSetProps, [0xb900_a182_66ab_c81c, 0x39bd_2795_b203_3383]),
    (AskKind::ContProps, [0x94db_a282_c9b1_62b9, 0x713a_18b4_a007_7eec]),
    (AskKind::SetAttrs, [0x0651_7c83_8cba_1956, 0x1308_f8e0_f4c6_2d29]),
    (AskKind::Attr, [0xaf70_d4c7_f497_3ad3, 0x205_9395_a39e_8ea4]),
    (AskKind::AttrNames, [0xf822_a03f_4e49_55b5, 0xe61e_5801_0d05_7627]),
    (AskKind::RemoveAttrs, [0x73c4_c17b_dfd4_47ff, 0x8a2e_8928_2c50_4430]),
    (AskKind::SnapCreate, [0x8927_5442_7e91_4d9c, 0x827a_63b8_e3d0_c627]),
    (AskKind::SnapList, [0x9525_6b97_6877_b915, 0x47d3_61a2_caab_8edd]),
    (AskKind::SnapDestroy, [0x00e0_ba85_c3a2_de16, 0x103b_2468_268f_237c]),
    (AskKind::Rollback, [0xed32_8e01_2eca_0e8d, 0x31d7_aa0c_cb11_0843]),
    (AskKind::AllocOids, [0xe8ef_5b82_3cb7_eb78, 0x87ee_0958_29e4_d369]),
    (AskKind::TxBegin, [0x882e_83da_a921_97c9, 0xd349_6a2a_db6e_61d1]),
    (AskKind::TxCommit, [0x5ece_df49_0b38_d416, 0x3062_95a5_1b80_e17a]),
    (AskKind::Aggregate, [0xd726_379c_614d_abde, 0xf51f_0dad_e045_4f78]),
    (AskKind::PoolCheckpoint, [0x33ea_38b6_4329_b941, 0x282b_faec_7869_c671]),
    (AskKind::PoolScrub, [0x980e_6923_0796_1511, 0x9d04_16b4_851f_7b79]),
    (AskKind::PoolCheck, [0x94db_2f7e_a266_3535, 0x2411_0685_26f5_c73d]),
    (AskKind::Admit, [0x1172_8e25_6869_3e08, 0xca8_1061_8fd2_2508]),
    (AskKind::ContEvict, [0xfb60_082f_20b5_3d5f, 0xa8a_66e9_b9f2_1df0]),
    (AskKind::PoolProps, [0x6e36_99a7_122b_1279, 0x24f5_a99d_7e27_c921]),
    (AskKind::PoolSetProps, [0x7c39_8306_4a44_2a7d, 0x65c1_30ac_96eb_3aae]),
    (AskKind::Lock, [0x8362_9775_fd7a_25ff, 0xcfee_5f83_4667_bd95]),
    (AskKind::Evicted, [0, 0x3949_7d3a_5215_368a]),
    (AskKind::Leases, [0, 0x3890_81ba_cf5e_175b]),
    (AskKind::ContQuota, [0, 0xf86b_f201_e0df_1c8d]),
    (AskKind::ContSetQuota, [0, 0x6771_127f_f848_686e]),
    (AskKind::Share, [0, 0x82cc_6fb6_0ae7_aaf7]),
    (AskKind::AdmitLimited, [0, 0xb092_0e9e_4e0c_f46d]),
    (AskKind::TxCommitRead, [0, 0xe701_0e9e_56d0_49cf]),
    (AskKind::TxEnd, [0, 0x48f7_7793_26fd_222b]),
    (AskKind::Files, [0, 0xab5a_77c4_d76a_c927]),
    (AskKind::Ping, [0xf0fb_45d9_d088_e047, 0x1c96_7afd_d799_741b]),
    (AskKind::SystemQuery, [0x7bc2_176f_f361_e8db, 0x141c_294a_e2a6_26f7]),
    (AskKind::PoolList, [0xa593_dce7_aa20_77ef, 0x348a_eb6c_c528_c15b]),
    (AskKind::PoolConnect, [0x1cfa_34e5_963e_9fb1, 0x9949_50df_407d_1f8f]),
    (AskKind::PoolDisconnect, [0x9967_64bf_1f54_b2e5, 0xe62_c253_9994_7cff]),
    (AskKind::PoolCreate, [0x4a64_40ee_3cb8_4a1e, 0x710a_05af_4859_ca91]),
    (AskKind::PoolDestroy, [0xcbab_fe66_9065_963a, 0x3422_4bed_3505_677f]),
    (AskKind::Stop, [0x251b_bfc5_3a37_c65b, 0x620e_c355_6764_dbcf]),
    (AskKind::PartCreate, [0xeb1f_3b23_4350_7ad9, 0x6aaa_29ac_8a13_fbd7]),
    (AskKind::PartConnect, [0x95b1_c81d_05b5_2248, 0x97a2_2de1_495f_b25d]),
    (AskKind::PartDestroy, [0xdba4_52c1_c416_3512, 0x144a_d7dc_cd03_b606]),
    (AskKind::Compare, [0x4748_0013_5728_2efe, 0x3707_79c8_b76e_67c8]),
    (AskKind::PoolEvict, [0x8ce9_63ab_8c9d_d129, 0xa313_096b_166a_e359]),
    (AskKind::PartEvict, [0x9318_1b09_2665_10d0, 0x3a98_bb99_82da_61ff]),
    (AskKind::PartLook, [0, 0xb2bd_83f2_1cdd_4a89]),
];

pub(super) const GOLDEN_REPLIES: &[(ReplyKind, [u64; 2])] = &[
    (ReplyKind::Failed, [0xeaf4_720d_c3f9_5b53, 0x68f8_6093_b3a7_fd54]),
    (ReplyKind::Failed, [0xae77_989c_e19a_7ead, 0x37bb_6145_41e2_5136]),
    (ReplyKind::Failed, [0xff67_6805_9392_6f77, 0xdb89_b32a_aefc_d960]),
    (ReplyKind::Failed, [0xbce5_2cb7_8318_6cd9, 0x2c2b_feac_ba99_c5e5]),
    (ReplyKind::Failed, [0x7061_b767_0c6d_9f62, 0x5f75_ebb0_cd8e_3603]),
    (ReplyKind::Failed, [0x50ce_385b_de13_1607, 0x1d96_d51d_8426_ed65]),
    (ReplyKind::Failed, [0xe815_ad8d_2139_791c, 0x16f4_5a15_d297_c167]),
    (ReplyKind::Failed, [0xc832_6eb2_3ce4_2235, 0x897c_2fad_1962_399f]),
    (ReplyKind::Failed, [0x5b9b_4ec5_eabe_4223, 0xfd3f_d569_99f1_5dfa]),
    (ReplyKind::Failed, [0x1297_28de_18c9_3b18, 0x5658_0107_5a7c_8736]),
    (ReplyKind::Failed, [0xc551_db89_c804_a1d1, 0xa_cb11_b1bb_4f46]),
    (ReplyKind::Failed, [0xc87b_e536_e46d_584e, 0x899b_9380_2e3e_3ee7]),
    (ReplyKind::Failed, [0x33c6_562e_43e0_fd2a, 0x76e0_1e56_4856_844b]),
    (ReplyKind::Failed, [0x1390_9eb3_6aec_70b4, 0x4ad2_4469_1304_e0b6]),
    (ReplyKind::Failed, [0xfd50_ab63_9743_c543, 0xeb2_d850_29d5_2f6d]),
    (ReplyKind::Failed, [0x5715_11c2_2832_fd8d, 0xf177_5569_5175_6dab]),
    (ReplyKind::Failed, [0x5e49_0a39_499e_5b19, 0x1965_b737_6641_faa3]),
    (ReplyKind::Failed, [0xa7cf_d089_df68_d623, 0xd046_7404_d698_d47b]),
    (ReplyKind::Failed, [0x0a15_1214_64eb_8bd9, 0xad2a_6ce8_7213_e7bd]),
    (ReplyKind::Failed, [0xfd50_a463_9743_b95e, 0x7928_e00a_5d64_cdd7]),
    (ReplyKind::Failed, [0x8390_c217_acab_15d2, 0x4965_97e2_d464_42db]),
    (ReplyKind::Failed, [0x6bcd_c411_c4ab_f9c3, 0x1b2c_3025_d596_7220]),
    (ReplyKind::Failed, [0x245d_ccdd_660d_af88, 0x9a3b_3ba0_7a42_130b]),
    (ReplyKind::Failed, [0x5426_f956_cce3_0dbb, 0xa2e6_905b_1823_676b]),
    (ReplyKind::Failed, [0x6370_9215_3d22_93f5, 0x342a_3771_e4f6_782d]),
    (ReplyKind::Failed, [0xa8ad_4625_0f97_a31a, 0x69bf_d17c_ef2d_3684]),
    (ReplyKind::Written, [0x4fbe_30d4_bbd3_317a, 0x617_1a93_0422_6a9a]),
    (ReplyKind::Fetched, [0x5820_e988_8150_435f, 0xdbdd_b23f_bd5c_e547]),
    (ReplyKind::Listed, [0xfcd0_b0af_7aca_98a2, 0xff93_1b89_cf3f_5029]),
    (ReplyKind::Found, [0x3204_3d69_7a1f_30e8, 0x741_057e_7210_883c]),
    (ReplyKind::Prepared, [0x8eb8_67cf_8d8e_eaac, 0xdc6d_7c9b_f52f_b78c]),
    (ReplyKind::Done, [0x08ad_755d_494e_d638, 0x7222_fb97_121e_0a88]),
    (ReplyKind::TxState, [0xc176_15c1_640c_7310, 0xcd0e_a94f_9513_2663]),
    (ReplyKind::InDoubt, [0x0da0_6e05_1531_4574, 0xdef_4594_fd7d_02e1]),
    (ReplyKind::ContUsage, [0xb9c0_d1e7_ac2a_6391, 0x12ad_b197_7247_595a]),
    (ReplyKind::Space, [0x48ac_0765_3933_1abb, 0x847e_82dc_34c4_4d3f]),
    (ReplyKind::Aggregated, [0x35b6_0d9d_5928_00c2, 0xaa46_998e_ba8f_97f4]),
    (ReplyKind::Audited, [0xcfc3_fd34_b486_2665, 0xfad_f38b_0f11_ed98]),
    (ReplyKind::Pool, [0xa5b4_56d3_9d4a_ee2a, 0xca55_a9a5_f900_09ea]),
    (ReplyKind::Cont, [0x18bf_5c2e_4683_22db, 0x9236_7f92_6c41_f158]),
    (ReplyKind::Conts, [0xdc4f_2900_3e20_2f47, 0xc4bd_3324_d7a6_03a8]),
    (ReplyKind::ContInfo, [0x3409_543b_57a9_4170, 0x4ddf_2751_78c4_0d27]),
    (ReplyKind::Props, [0xc7dc_5f00_3359_a153, 0x92b5_5d36_3e4d_e52f]),
    (ReplyKind::Attr, [0x861b_2fcd_61c2_9731, 0x9be7_2bbd_bc11_2605]),
    (ReplyKind::AttrNames, [0x9e63_2c59_0358_44b5, 0x8c79_ce81_4820_b165]),
    (ReplyKind::Epoch, [0x3b05_0c1a_9811_6c36, 0xf4ed_57c8_88f1_078e]),
    (ReplyKind::Snapshots, [0xd874_7317_e0be_b4c2, 0x85b6_6bee_48dc_191b]),
    (ReplyKind::Oids, [0x78ed_fb2e_ae6c_4faa, 0x2e48_2fdb_5305_826a]),
    (ReplyKind::PoolAggregated, [0x89f1_de59_f191_e4ba, 0xa369_1b6d_be8d_ceb6]),
    (ReplyKind::Audits, [0x0c8e_f368_4085_6aa2, 0x1358_2864_bcdd_c0f1]),
    (ReplyKind::PoolDone, [0xd850_aef5_fb04_fadc, 0x1078_12c4_10dd_300c]),
    (ReplyKind::Lock, [0x50fd_5df8_bff4_e190, 0x4c4a_eb62_a9e5_35f2]),
    (ReplyKind::Quota, [0x8755_4275_7272_13dc, 0x41f9_9b6b_8e12_e7db]),
    (ReplyKind::Share, [0xe61a_0d22_c7bb_751a, 0x7d1d_6293_4280_a6d3]),
    (ReplyKind::Files, [0x400f_8625_e08f_ffff, 0x0077_2c00_18eb_18f7]),
    (ReplyKind::SystemDone, [0x8c03_4b3c_d289_172c, 0x98e0_482b_1abe_95c8]),
    (ReplyKind::System, [0xfde4_9eb5_f6a3_6216, 0xa95e_18df_a3c7_5411]),
    (ReplyKind::Pools, [0x6440_786c_5782_0d39, 0x8062_5c92_f02e_3239]),
    (ReplyKind::Connected, [0xa137_487c_a58e_dd67, 0x5647_1356_631f_a60b]),
    (ReplyKind::Created, [0x132e_fc14_f810_76f3, 0xb31a_c2d5_f9b6_de54]),
    (ReplyKind::Looked, [0x5c61_670a_eba0_8903, 0x2300_573b_63f8_4054]),
];
