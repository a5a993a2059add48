//! Limits: the account of a container has what is there, at every moment and after any crash, and who does not fit is refused.

use crate::crash::{given_script, run_until_crash};
use crate::rig::{Rig, amount, oid, small_config, tiny};
use dolmen_codec::TargetStore;
use dolmen_codec::quota::{Account, COMPANION_DKEY, Charge, INODE_AKEY, Limits, Quota};
use dolmen_codec::verb::{
    ContVerb, Mutation, NewValue, Payload, Prepare, Punch, PunchScope, ReadAt, Reply, Update, UpdateIod, Verb,
};
use dolmen_engine::TargetConfig;
use dolmen_env::sim::CrashPlan;
use dolmen_env::{Clock as _, Media, Rng};
use dolmen_types::{
    Cond, Credentials, Durability, Epoch, Error, Head, Key, ObjectClass, ObjectType, Oid, TargetNo, TxId,
};
use smallvec::smallvec;
use std::collections::BTreeMap;
use std::sync::Arc;

fn quota(bytes: u64, files: u64) -> Quota {
    Quota { limits: Limits { bytes, files }, ..Quota::default() }
}

/// Keeps an account of the rig's container, as its service does when a pool is opened.
fn account(rig: &mut Rig, quota: Quota) -> Arc<Account> {
    let account = Arc::default();
    rig.target.as_mut().unwrap().keep_account(rig.cont, &account).unwrap();
    account.limit(quota);
    account
}

fn used(account: &Account) -> Charge {
    account.report().used
}

/// What the target has on record: without what is reserved for a moment.
fn on_record(rig: &mut Rig) -> Charge {
    let charges = rig.target.as_mut().unwrap().charges(rig.cont).unwrap();
    charges.into_iter().map(|(_, charge)| charge).fold(Charge::NONE, Charge::plus)
}

fn record(rig: &mut Rig, name: &[u8]) -> Result<Epoch, Error> {
    rig.write(oid(1), name, INODE_AKEY, 0, 1, &[7; 88])
}

fn remove(rig: &mut Rig, dkey: &[u8]) {
    rig.punch(oid(1), PunchScope::Dkey(Key::from_slice(dkey)), Cond::NONE).unwrap();
}

#[test]
fn a_write_that_does_not_fit_is_refused_with_nothing_written() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::with_config(media, Durability::Power, small_config());
        rig.put(oid(1), b"before", b"a", &[1; 5000]).unwrap();
        let account = account(&mut rig, quota(20_000, 0));
        assert_eq!(used(&account).bytes, 5000, "what was there counts");
        rig.put(oid(1), b"bulk", b"a", &[2; 15_000]).unwrap();
        let more = rig.put(oid(1), b"more", b"a", &[3; 1]);
        assert_eq!(more, Err(Error::QuotaLimit));
        assert_eq!(Error::QuotaLimit.der(), -1046, "DER_QUOTA_LIMIT");
        let large = rig.put(oid(1), b"more", b"a", &[3; 9000]);
        assert_eq!(large, Err(Error::QuotaLimit));
        let tx = rig.commit(vec![put(b"more", 1), put(b"others", 1)]);
        assert_eq!(tx, Err(Error::QuotaLimit));
        assert_eq!(rig.get(oid(1), b"more", b"a"), None);
        assert_eq!((used(&account).bytes, on_record(&mut rig).bytes), (20_000, 20_000));
        assert_eq!(rig.get(oid(1), b"before", b"a").unwrap().len(), 5000, "it is read");
        rig.assert_clean();
    }
}

#[test]
fn what_is_removed_is_free_once_it_is_aggregated() {
    let mut rig = Rig::new(Media::Block, Durability::Power);
    let account = account(&mut rig, quota(10_000, 0));
    for round in 0..5u8 {
        rig.put(oid(1), b"d", b"a", &[round; 10_000]).unwrap();
        assert_eq!(rig.put(oid(1), b"e", b"a", &[round; 1]), Err(Error::QuotaLimit));
        remove(&mut rig, b"d");
        rig.aggregate();
        assert_eq!(used(&account), Charge::NONE);
    }
    rig.assert_clean();
}

#[test]
fn what_is_written_over_fits_at_the_limit_but_not_what_a_snapshot_shows() {
    let mut rig = Rig::new(Media::Block, Durability::Power);
    let account = account(&mut rig, quota(12_000, 0));
    rig.put(oid(1), b"single", b"a", &[1; 4000]).unwrap();
    rig.write(oid(1), b"array", b"x", 100, 1, &[1; 4000]).unwrap();
    rig.write(oid(1), b"array", b"x", 4100, 1, &[1; 4000]).unwrap();
    for round in 2..5 {
        rig.put(oid(1), b"single", b"a", &[round; 4000]).unwrap();
        rig.write(oid(1), b"array", b"x", 100, 1, &[round; 8000]).unwrap();
        assert_eq!(rig.put(oid(1), b"single", b"a", &[round; 4001]), Err(Error::QuotaLimit));
        let part = rig.write(oid(1), b"array", b"x", 200, 1, &[round; 10]);
        assert_eq!(part, Err(Error::QuotaLimit), "all of what is hidden in part is kept");
        for from in [100, 8090] {
            let part = rig.write(oid(1), b"array", b"x", from, 1, &[round; 10]);
            assert_eq!(part, Err(Error::QuotaLimit), "at its begin and its end, too");
        }
        rig.aggregate();
        assert_eq!(used(&account).bytes, 12_000);
    }
    let latest = rig.put(oid(1), b"single", b"a", &[8; 4000]).unwrap();
    rig.ask(Verb::Cont(ContVerb::AddSnapshot(latest))).unwrap();
    assert_eq!(rig.put(oid(1), b"single", b"a", &[9; 4000]), Err(Error::QuotaLimit));
    rig.ask(Verb::Cont(ContVerb::RemoveSnapshot(latest))).unwrap();
    rig.put(oid(1), b"single", b"a", &[9; 4000]).unwrap();
    // In one transaction what is replaced is replaced once.
    let twice = vec![put_sized(b"single", 1, 4000), put_sized(b"single", 2, 4000)];
    assert_eq!(rig.commit(twice), Err(Error::QuotaLimit));
    rig.aggregate();
    rig.assert_clean();
}

#[test]
fn what_a_rollback_hides_is_free_once_an_aggregation_reaches_above_it_if_one_below_found_nothing() {
    let mut rig = Rig::new(Media::Block, Durability::Power);
    let account = account(&mut rig, quota(10_000, 0));
    let kept = rig.put(oid(1), b"kept", b"a", &[1; 1000]).unwrap();
    rig.ask(Verb::Cont(ContVerb::AddSnapshot(kept))).unwrap();
    let hidden = rig.put(oid(1), b"hidden", b"a", &[2; 2000]).unwrap();
    let at = hidden.next();
    rig.ask(Verb::Cont(ContVerb::RaiseFloor(at))).unwrap();
    rig.ask(Verb::Cont(ContVerb::Rollback { to: kept, at })).unwrap();
    for (upto, bytes) in [(hidden, 3000), (hidden, 3000), (Epoch::MAX, 1000)] {
        while let Reply::Aggregated { more: true, .. } =
            rig.ask(Verb::Cont(ContVerb::Aggregate(upto))).unwrap()
        {}
        assert_eq!(used(&account).bytes, bytes, "up to {upto:?}, rolled back at {at:?}");
    }
    rig.assert_clean();
}

#[test]
fn what_a_rollback_shows_again_is_written_over_at_the_limit_if_no_snapshot_shows_it() {
    let mut rig = Rig::new(Media::Block, Durability::Power);
    let account = account(&mut rig, quota(10_000, 0));
    let write = |rig: &mut Rig, fill| {
        rig.put(oid(1), b"single", b"a", &[fill; 2000])?;
        rig.write(oid(1), b"array", b"x", 0, 1, &[fill; 2000])
    };
    let first = write(&mut rig, 1).unwrap();
    rig.ask(Verb::Cont(ContVerb::AddSnapshot(first))).unwrap();
    let second = write(&mut rig, 2).unwrap();
    rig.ask(Verb::Cont(ContVerb::AddSnapshot(second))).unwrap();
    let at = second.next();
    rig.ask(Verb::Cont(ContVerb::RaiseFloor(at))).unwrap();
    rig.ask(Verb::Cont(ContVerb::Rollback { to: first, at })).unwrap();
    rig.put(oid(1), b"rest", b"a", &[3; 2000]).unwrap();
    assert_eq!(write(&mut rig, 4), Err(Error::QuotaLimit), "the first snapshot shows it");
    rig.ask(Verb::Cont(ContVerb::RemoveSnapshot(first))).unwrap();
    write(&mut rig, 5).unwrap();
    rig.ask(Verb::Cont(ContVerb::RemoveSnapshot(second))).unwrap();
    rig.aggregate();
    assert_eq!(used(&account).bytes, 6000);
    rig.assert_clean();
}

#[test]
fn names_count_as_files_and_a_record_is_changed_at_the_limit() {
    let mut rig = Rig::new(Media::Block, Durability::Power);
    let account = account(&mut rig, quota(100, 3));
    for name in [b"one", b"two", b"six"] {
        record(&mut rig, name).unwrap();
    }
    assert_eq!(record(&mut rig, b"ten"), Err(Error::QuotaLimit));
    record(&mut rig, b"one").unwrap();
    let Ok(Reply::Written(latest)) = rig.ask(Verb::Latest) else { panic!("a question") };
    rig.ask(Verb::Cont(ContVerb::AddSnapshot(latest))).unwrap();
    record(&mut rig, b"one").unwrap();
    rig.put(oid(1), b"one", b"DLM_ATIME", &[1; 12]).unwrap();
    rig.write(oid(1), COMPANION_DKEY, INODE_AKEY, 0, 1, &[7; 88]).unwrap();
    rig.aggregate();
    assert_eq!(used(&account), Charge { bytes: 0, files: 4 }, "a snapshot shows one that was changed");
    rig.ask(Verb::Cont(ContVerb::RemoveSnapshot(latest))).unwrap();
    remove(&mut rig, b"two");
    rig.aggregate();
    assert_eq!(used(&account), Charge { bytes: 0, files: 2 });
    record(&mut rig, b"ten").unwrap();
    rig.assert_clean();
}

#[test]
fn small_extents_that_are_joined_count_once_when_all_is_aggregated() {
    let config = TargetConfig { join_extents_min: 4, ..small_config() };
    let mut rig = Rig::with_config(Media::Block, Durability::Process, config);
    let account = account(&mut rig, quota(6400, 0));
    for number in 0..64 {
        rig.write(oid(1), b"array", b"x", number * 100, 1, &[1; 100]).unwrap();
    }
    assert_eq!(rig.write(oid(1), b"array", b"x", 6400, 1, &[1; 100]), Err(Error::QuotaLimit));
    rig.aggregate();
    assert_eq!((used(&account).bytes, on_record(&mut rig).bytes), (6400, 6400));
    rig.assert_clean();
}

#[test]
fn users_are_charged_what_they_write() {
    let mut rig = Rig::new(Media::Block, Durability::Power);
    let mut limits = quota(0, 0);
    assert!(limits.set(Some(7), Limits { bytes: 1000, files: 0 }));
    let account = account(&mut rig, limits);
    let by = |rig: &mut Rig, uid, dkey: &[u8], bytes| {
        let head = Head { cred: Credentials { uid, gid: 1, project: 2 }, ..Head::default() };
        let Mutation::Update(update) = put_sized(dkey, 1, bytes) else { panic!("an update") };
        rig.complete_as(head, Verb::Update(update)).result.map(|_| ())
    };
    by(&mut rig, 8, b"eight", 5000).unwrap();
    by(&mut rig, 7, b"seven", 1000).unwrap();
    assert_eq!(by(&mut rig, 7, b"more", 1), Err(Error::QuotaLimit));
    assert_eq!(by(&mut rig, 7, b"eight", 5), Err(Error::QuotaLimit), "it is not his that he replaces");
    by(&mut rig, 7, b"seven", 900).unwrap();
    by(&mut rig, 8, b"more", 5).unwrap();
    rig.aggregate();
    let used: Vec<(u32, u64)> =
        account.report().users.iter().map(|user| (user.uid, user.used.bytes)).collect();
    assert_eq!(used, [(7, 900), (8, 5005)]);
    rig.close_and_reopen();
    let again = self::account(&mut rig, Quota::default());
    let after: Vec<(u32, u64)> =
        again.report().users.iter().map(|user| (user.uid, user.used.bytes)).collect();
    assert_eq!(after, used);
}

/// What users have, with what is prepared.
fn by_user(rig: &mut Rig) -> Vec<(u32, u64)> {
    let mut all = BTreeMap::new();
    for (uid, charge) in rig.target.as_mut().unwrap().charges(rig.cont).unwrap() {
        *all.entry(uid).or_insert(0) += charge.bytes;
    }
    all.into_iter().filter(|own| own.1 > 0).collect()
}

fn charged(uid: u32, mutation: Mutation<'static>) -> Mutation<'static> {
    let Mutation::Update(update) = mutation else { panic!("an update") };
    Mutation::Update(Update { charged: Some(uid), ..update })
}

#[test]
fn who_is_named_is_charged_in_the_place_of_who_writes() {
    let mut rig = Rig::with_config(Media::Block, Durability::Power, small_config());
    let mut limits = quota(0, 0);
    assert!(limits.set(Some(7), Limits { bytes: 9000, files: 0 }));
    account(&mut rig, limits.clone());
    let put_for = |rig: &mut Rig, uid, dkey: &[u8], bytes| {
        let Mutation::Update(update) = charged(uid, put_sized(dkey, 1, bytes)) else { panic!("an update") };
        rig.ask(Verb::Update(update)).map(drop)
    };
    // Into the log, and into bulk.
    put_for(&mut rig, 7, b"small", 1000).unwrap();
    put_for(&mut rig, 7, b"large", 7000).unwrap();
    put_for(&mut rig, 8, b"other", 3000).unwrap();
    assert_eq!(put_for(&mut rig, 7, b"more", 1001), Err(Error::QuotaLimit));
    rig.put(oid(1), b"mine", b"a", &[1; 2000]).unwrap();
    assert_eq!(by_user(&mut rig), [(0, 2000), (7, 8000), (8, 3000)]);
    // Several users in one transaction, of whom one has no room: nothing of it is there.
    let both =
        |bytes| vec![put(b"t", 1), charged(7, put_sized(b"u", 1, bytes)), charged(9, put_sized(b"v", 1, 50))];
    assert_eq!(rig.commit(both(1001)), Err(Error::QuotaLimit));
    assert_eq!(by_user(&mut rig), [(0, 2000), (7, 8000), (8, 3000)]);
    rig.commit(both(1000)).unwrap();
    let all = [(0, 2010), (7, 9000), (8, 3000), (9, 50)];
    assert_eq!(by_user(&mut rig), all);
    // At his limit his own is written over by whom it may, and what is another's is not replaced for him.
    put_for(&mut rig, 7, b"small", 1000).unwrap();
    assert_eq!(put_for(&mut rig, 7, b"other", 10), Err(Error::QuotaLimit));
    for plan in [CrashPlan::Process, CrashPlan::None] {
        rig.crash(plan);
        account(&mut rig, limits.clone());
        rig.aggregate();
        assert_eq!(by_user(&mut rig), all, "{plan:?}");
    }
    rig.close_and_reopen();
    assert_eq!(by_user(&mut rig), all);
    rig.assert_clean();
}

/// Gives what there is of an object to a user.
fn gift(object: u64, uid: u32) -> Mutation<'static> {
    gift_of(oid(object), uid)
}

fn gift_of(oid: Oid, uid: u32) -> Mutation<'static> {
    let (dkey, iods, charged) = (Key::new(), smallvec![], Some(uid));
    Mutation::Update(Update { oid, dkey, cond: Cond::NONE, iods, charged })
}

#[test]
fn what_is_given_is_charged_to_whom_it_is_given_to_or_nothing_is_done() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::with_config(media, Durability::Power, small_config());
        let mut limits = quota(20_000, 0);
        assert!(limits.set(Some(7), Limits { bytes: 11_000, files: 0 }));
        let account = account(&mut rig, limits.clone());
        let put_for = |rig: &mut Rig, object, uid, dkey: &[u8], bytes| {
            let Mutation::Update(update) = charged(uid, put_sized(dkey, 1, bytes)) else { panic!() };
            rig.ask(Verb::Update(Update { oid: oid(object), ..update })).map(drop)
        };
        put_for(&mut rig, 1, 8, b"small", 1000).unwrap();
        rig.ask(Verb::Checkpoint).unwrap();
        put_for(&mut rig, 1, 8, b"large", 6000).unwrap();
        rig.write(oid(1), b"array", b"x", 0, 1, &[1; 3000]).unwrap();
        put_for(&mut rig, 2, 8, b"other", 2000).unwrap();
        put_for(&mut rig, 2, 7, b"his", 1001).unwrap();
        let before = [(0, 3000), (7, 1001), (8, 9000)];
        assert_eq!(by_user(&mut rig), before);
        assert_eq!(rig.commit(vec![gift(1, 7), put(b"more", 1)]), Err(Error::QuotaLimit), "a byte too much");
        assert_eq!(by_user(&mut rig), before);
        assert_eq!(rig.get(oid(1), b"more", b"a"), None);
        rig.commit(vec![gift(1, 9)]).unwrap();
        assert_eq!(
            by_user(&mut rig),
            [(7, 1001), (8, 2000), (9, 10_000)],
            "the container's limit is no matter"
        );
        put_for(&mut rig, 2, 7, b"his", 1000).unwrap();
        rig.aggregate();
        rig.commit(vec![gift(1, 7)]).unwrap();
        assert_eq!(by_user(&mut rig), [(7, 11_000), (8, 2000)]);
        assert_eq!(put_for(&mut rig, 3, 7, b"more", 1), Err(Error::QuotaLimit));
        // At his limit he writes over what was given to him.
        put_for(&mut rig, 1, 7, b"small", 1000).unwrap();
        rig.aggregate();
        // What is written later is charged to whom that names, and what is removed to nobody.
        put_for(&mut rig, 1, 8, b"late", 500).unwrap();
        rig.punch(oid(1), PunchScope::Dkey(Key::from_slice(b"large")), Cond::NONE).unwrap();
        rig.assert_clean();
        rig.aggregate();
        let all = [(7, 5000), (8, 2500)];
        assert_eq!((by_user(&mut rig), used(&account).bytes), (all.to_vec(), 7500));
        for plan in [CrashPlan::Process, CrashPlan::None] {
            rig.crash(plan);
            self::account(&mut rig, limits.clone());
            assert_eq!(by_user(&mut rig), all, "{plan:?}");
            rig.assert_clean();
            rig.aggregate();
        }
        rig.close_and_reopen();
        assert_eq!(by_user(&mut rig), all);
        rig.punch(oid(1), PunchScope::Object, Cond::NONE).unwrap();
        rig.aggregate();
        assert_eq!(by_user(&mut rig), [(7, 1000), (8, 2000)]);
        rig.assert_clean();
    }
}

fn merges(rig: &Rig) -> u64 {
    rig.target.as_ref().unwrap().background_done().merges
}

/// An object whose keys come one after the other.
fn ordered(number: u64) -> Oid {
    Oid::new(ObjectType::MultiLexical, ObjectClass::S1, 0, number)
}

/// So many steps into an aggregation that frees something of each of the objects, the last ones of the first of which most was
/// written twice; `None` if it has ended by then.
fn in_an_aggregation(media: Media, config: TargetConfig, objects: u64, steps: u32) -> Option<Rig> {
    let mut rig = Rig::with_config(media, Durability::Power, config);
    account(&mut rig, quota(0, 0));
    for first in [0, 1100] {
        for dkey in first..1500u32 {
            rig.put(ordered(1), format!("{dkey:05}").as_bytes(), b"a", &[1; 10]).unwrap();
        }
        for object in 2..objects {
            rig.put(ordered(object), b"d", b"a", &[1; 10]).unwrap();
        }
        for dkey in 0..1500u32 {
            rig.put(ordered(objects), format!("{dkey:05}").as_bytes(), b"a", &[1; 10]).unwrap();
        }
        rig.ask(Verb::Checkpoint).unwrap();
    }
    let is_under_way = (0..steps).all(|_| aggregate_on(&mut rig));
    is_under_way.then_some(rig)
}

/// One step of an aggregation; whether there are more.
fn aggregate_on(rig: &mut Rig) -> bool {
    let stepped = rig.ask(Verb::Cont(ContVerb::Aggregate(Epoch::MAX))).unwrap();
    matches!(stepped, Reply::Aggregated { more: true, .. })
}

#[test]
fn a_gift_beside_a_merge_waits_for_none_of_its_steps_and_moves_what_that_leaves_out() {
    for media in [Media::Block, Media::Mapped] {
        let mut beside = 0;
        for steps in 0.. {
            let Some(mut rig) = in_an_aggregation(media, small_config(), 3, steps) else { break };
            let what = format!("{media:?}, after {steps} steps");
            let before = merges(&rig);
            for uid in [7u8, 8] {
                let merged = merges(&rig);
                let gifts = vec![gift_of(ordered(1), uid.into()), gift_of(ordered(2), uid.into())];
                if (steps + u32::from(uid)) % 2 == 0 {
                    rig.commit(gifts).unwrap();
                } else {
                    let tx = prepare_gifts(&mut rig, gifts);
                    rig.ask(Verb::Commit(tx)).unwrap();
                }
                assert_eq!(merges(&rig), merged, "{what}");
                // What goes on beside it.
                rig.put(ordered(3), &[uid], b"a", &[2; 10]).unwrap();
                aggregate_on(&mut rig);
            }
            beside += u32::from(merges(&rig) == before);
            rig.aggregate();
            rig.assert_clean();
            rig.aggregate();
            let given = [(0, 15_020), (8, 15_010)];
            assert_eq!(by_user(&mut rig), given, "{what}");
            rig.crash(CrashPlan::None);
            assert_eq!(by_user(&mut rig), given, "{what}");
            rig.assert_clean();
        }
        assert!(beside > 5, "{beside} of the gifts came beside a merge");
    }
}

#[test]
fn a_merge_notes_so_many_gifts_and_ends_before_the_next() {
    const OBJECTS: u64 = 400;
    let mut ended = 0;
    for steps in 0.. {
        let Some(mut rig) = in_an_aggregation(Media::Block, tiny(), OBJECTS, steps) else { break };
        let before = merges(&rig);
        for object in 2..OBJECTS {
            rig.commit(vec![gift_of(ordered(object), 7)]).unwrap();
            ended += u32::from(object > 200 && merges(&rig) == before + 1);
        }
        rig.aggregate();
        rig.assert_clean();
        rig.aggregate();
        assert_eq!(by_user(&mut rig), [(0, 30_000), (7, (OBJECTS - 2) * 10)], "after {steps} steps");
    }
    assert!(ended > 0, "none has noted as many as it may");
}

/// Prepares gifts of a transaction in which another target takes part.
fn prepare_gifts(rig: &mut Rig, mutations: Vec<Mutation<'static>>) -> TxId {
    rig.clock.advance(1_000_000);
    let epoch = Epoch::from_unix_ns(rig.clock.now_ns());
    rig.clock.advance(1_000_000);
    let (tx, leader) = (TxId { client: 9, begin: epoch }, TargetNo(0));
    let participants = smallvec![leader, TargetNo(1)];
    rig.ask(Verb::Prepare(Prepare { tx, epoch, leader, participants, mutations })).unwrap();
    tx
}

fn put(dkey: &[u8], fill: u8) -> Mutation<'static> {
    put_sized(dkey, fill, 10)
}

fn put_sized(dkey: &[u8], fill: u8, bytes: usize) -> Mutation<'static> {
    let value = NewValue::Single(Payload::Owned(dolmen_types::IoBuf::copy_of(&vec![fill; bytes])));
    let iods = smallvec![UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }];
    Mutation::Update(Update {
        oid: oid(1),
        dkey: Key::from_slice(dkey),
        cond: Cond::NONE,
        iods,
        charged: None,
    })
}

/// One version that was written: when, under which key, how long, 0 for a removal, and to whom it is charged.
type Written = (Epoch, u8, u64, u32);

/// All that was written, and what is kept: the reference that an engine is held to.
#[derive(Default)]
struct Reference {
    versions: Vec<Written>,
    snapshots: Vec<Epoch>,
}

impl Reference {
    fn newest(&self, key: u8, at: Epoch) -> Option<&Written> {
        self.versions.iter().rev().find(|version| version.1 == key && version.0 <= at)
    }

    /// What must be kept, by user: the versions that the newest state and snapshots see, each once.
    fn by_user(&self) -> BTreeMap<u32, u64> {
        let mut seen = BTreeMap::new();
        for &at in self.snapshots.iter().chain([&Epoch::MAX]) {
            for key in 0..=u8::MAX {
                if let Some(&(epoch, key, bytes, uid)) = self.newest(key, at).filter(|version| version.2 > 0)
                {
                    seen.insert((epoch, key), (uid, bytes));
                }
            }
        }
        let mut sums = BTreeMap::new();
        seen.into_values().for_each(|(uid, bytes)| *sums.entry(uid).or_insert(0) += bytes);
        sums
    }

    /// Of all users.
    fn needed(&self) -> u64 {
        self.by_user().values().sum()
    }

    /// What a write replaces that no snapshot shows, and whose it is.
    fn replaced(&self, key: u8) -> (u64, u32) {
        let newest = self.snapshots.last().copied().unwrap_or(Epoch::ZERO);
        let visible = self.newest(key, Epoch::MAX).filter(|version| version.0 > newest);
        visible.map_or((0, 0), |version| (version.2, version.3))
    }

    fn admits(&self, (key, bytes, uid): (u8, u64, u32)) -> bool {
        let (replaced, whose) = self.replaced(key);
        let is_within = |limit, used: u64, gone| bytes <= gone || used + bytes <= limit + gone;
        let own = if whose == uid { replaced } else { 0 };
        let used = self.by_user().get(&uid).copied().unwrap_or(0);
        is_within(LIMIT, self.needed(), replaced) && (uid != LIMITED || is_within(LIMIT_OF_ONE, used, own))
    }
}

const LIMIT: u64 = 40_000;
/// A user, and what he may have of it.
const LIMITED: u32 = 7;
const LIMIT_OF_ONE: u64 = 15_000;

fn quota_of_story() -> Quota {
    let mut quota = quota(LIMIT, 0);
    assert!(quota.set(Some(LIMITED), Limits { bytes: LIMIT_OF_ONE, files: 0 }));
    quota
}

struct Story {
    rig: Rig,
    account: Arc<Account>,
    reference: Reference,
    rng: Rng,
    refused: u32,
    fitted: u32,
    given: u32,
}

impl Story {
    fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn put(&mut self) {
        let key = u8::try_from(self.below(24)).unwrap();
        let bytes = [30, 700, 3000, 6000, 20_000][usize::try_from(self.below(5)).unwrap()] + self.below(50);
        let uid = LIMITED + u32::try_from(self.below(3)).unwrap();
        let mut written = self.write(key, bytes, uid);
        if written == Err(Error::QuotaLimit) {
            // As whoever has the targets does.
            self.rig.aggregate();
            written = self.write(key, bytes, uid);
            self.fitted += u32::from(written.is_ok());
            let admits = self.reference.admits((key, bytes, uid));
            let there = self.reference.by_user();
            assert_eq!(written.is_ok(), admits, "{bytes} bytes of {key} for {uid} beside {there:?}");
        }
        match written {
            Ok(epoch) => self.reference.versions.push((epoch, key, bytes, uid)),
            Err(error) => {
                assert_eq!(error, Error::QuotaLimit);
                self.refused += 1;
            }
        }
    }

    fn write(&mut self, key: u8, bytes: u64, uid: u32) -> Result<Epoch, Error> {
        let put = charged(uid, put_sized(&[key], key, usize::try_from(bytes).unwrap()));
        let Mutation::Update(update) = put else { panic!("an update") };
        match self.rig.ask(Verb::Update(update))? {
            Reply::Written(epoch) => Ok(epoch),
            other => panic!("{other:?}"),
        }
    }

    /// Of a transaction that begins now: above all that there is, also behind a crash.
    fn next_epoch(&mut self) -> Epoch {
        self.rig.clock.advance(2_000_000);
        let Ok(Reply::Written(latest)) = self.rig.ask(Verb::Latest) else { panic!("a question") };
        latest.next().max(Epoch::from_unix_ns(self.rig.clock.now_ns()))
    }

    /// A transaction that is committed, or aborted, or still undecided when the target is opened again.
    fn transact(&mut self) {
        let key = u8::try_from(self.below(24)).unwrap();
        let bytes = 50 + self.below(4000);
        let epoch = self.next_epoch();
        let leader = TargetNo(0);
        let uid = LIMITED + u32::try_from(self.below(3)).unwrap();
        let mutations = vec![charged(uid, put_sized(&[key], key, usize::try_from(bytes).unwrap()))];
        let (tx, participants) = (TxId { client: 9, begin: epoch }, smallvec![leader, TargetNo(1)]);
        let before = used(&self.account);
        match self.rig.ask(Verb::Prepare(Prepare { tx, epoch, leader, participants, mutations })) {
            Ok(_) => {}
            Err(error) => {
                assert!(matches!(error, Error::QuotaLimit | Error::TxRestart { .. }), "{error:?}");
                return assert_eq!(used(&self.account), before);
            }
        }
        assert_eq!(used(&self.account).bytes, before.bytes + bytes, "what is undecided is reserved");
        if self.below(3) == 0 {
            self.reopen();
            assert_eq!(used(&self.account).bytes, before.bytes + bytes, "also after a crash");
        }
        if self.below(2) == 0 {
            self.rig.ask(Verb::Commit(tx)).unwrap();
            self.reference.versions.push((epoch, key, bytes, uid));
            self.reference.versions.sort_unstable();
        } else {
            self.rig.ask(Verb::Abort(tx)).unwrap();
            assert_eq!(used(&self.account), before);
        }
    }

    /// A gift of all that is there, between the steps of whatever goes on; decided at once, or after a crash.
    fn give(&mut self) {
        for _ in 0..self.below(6) {
            self.rig.target.as_mut().unwrap().step();
        }
        let uid = LIMITED + u32::try_from(self.below(3)).unwrap();
        let alone = self.below(2) == 0;
        let mut given = self.try_give(uid, alone);
        if given == Err(Error::QuotaLimit) {
            self.rig.aggregate();
            given = self.try_give(uid, alone);
            let all = self.reference.needed();
            assert_eq!(given.is_ok(), uid != LIMITED || all <= LIMIT_OF_ONE, "{all} bytes to {uid}");
        }
        match given {
            Ok(epoch) => {
                self.given += 1;
                let older = self.reference.versions.iter_mut().filter(|version| version.0 < epoch);
                older.for_each(|version| version.3 = uid);
            }
            Err(error) => {
                assert!(matches!(error, Error::QuotaLimit | Error::TxRestart { .. }), "{error:?}");
                self.refused += 1;
            }
        }
    }

    fn try_give(&mut self, uid: u32, alone: bool) -> Result<Epoch, Error> {
        let epoch = self.next_epoch();
        if alone {
            return self.rig.commit_at(epoch, vec![gift(1, uid)]);
        }
        let (tx, leader) = (TxId { client: 9, begin: epoch }, TargetNo(0));
        let (participants, mutations) = (smallvec![leader, TargetNo(1)], vec![gift(1, uid)]);
        let before = (used(&self.account), by_user(&mut self.rig));
        self.rig.ask(Verb::Prepare(Prepare { tx, epoch, leader, participants, mutations }))?;
        if self.below(3) == 0 {
            self.reopen();
        }
        assert_eq!((used(&self.account), by_user(&mut self.rig)), before, "it is not decided");
        for _ in 0..self.below(9) {
            self.rig.target.as_mut().unwrap().step();
        }
        if self.below(4) == 0 {
            self.rig.ask(Verb::Abort(tx)).unwrap();
            return Err(Error::TxRestart { after: epoch });
        }
        self.rig.ask(Verb::Commit(tx)).unwrap();
        Ok(epoch)
    }

    fn snapshot(&mut self) {
        if self.reference.snapshots.len() < 3 {
            let Ok(Reply::Written(latest)) = self.rig.ask(Verb::Latest) else { panic!("a question") };
            self.rig.ask(Verb::Cont(ContVerb::AddSnapshot(latest))).unwrap();
            if self.reference.snapshots.last() != Some(&latest) {
                self.reference.snapshots.push(latest);
            }
        } else {
            let oldest = self.reference.snapshots.remove(0);
            self.rig.ask(Verb::Cont(ContVerb::RemoveSnapshot(oldest))).unwrap();
        }
    }

    fn reopen(&mut self) {
        let plan = [CrashPlan::Process, CrashPlan::None][usize::try_from(self.below(2)).unwrap()];
        if self.below(3) == 0 {
            self.rig.close_and_reopen();
        } else {
            self.rig.crash(plan);
        }
        self.account = account(&mut self.rig, quota_of_story());
    }

    fn step(&mut self) {
        match self.below(43) {
            0..=19 => self.put(),
            20..=27 => {
                let key = u8::try_from(self.below(24)).unwrap();
                let scope = PunchScope::Dkey(Key::from_slice(&[key]));
                let punch = Verb::Punch(Punch { oid: oid(1), scope, cond: Cond::NONE });
                let Ok(Reply::Written(epoch)) = self.rig.ask(punch) else { panic!("never refused") };
                self.reference.versions.push((epoch, key, 0, 0));
            }
            28..=31 => self.transact(),
            32 | 33 => self.snapshot(),
            34 | 35 => self.rig.work(),
            36 => drop(self.rig.ask(Verb::Checkpoint).unwrap()),
            37 => self.reopen(),
            40..=42 => self.give(),
            _ => {
                self.rig.aggregate();
                let there: BTreeMap<u32, u64> = by_user(&mut self.rig).into_iter().collect();
                assert_eq!(there, self.reference.by_user(), "nothing else is left");
            }
        }
        assert_eq!(used(&self.account), on_record(&mut self.rig), "the account is what is there");
    }
}

#[test]
fn an_account_is_what_is_there_over_crashes_aggregations_snapshots_and_transactions() {
    let seed = Rng::from_entropy().unwrap().below(1 << 32);
    println!("seed {seed}");
    for (round, media) in [Media::Block, Media::Mapped].into_iter().enumerate() {
        let config = TargetConfig { checkpoint_log_bytes: 32 << 10, ..tiny() };
        let mut rig = Rig::with_config(media, Durability::Power, config);
        let account = account(&mut rig, quota_of_story());
        let (reference, rng) = (Reference::default(), Rng::from_seed(seed + round as u64));
        let mut story = Story { rig, account, reference, rng, refused: 0, fitted: 0, given: 0 };
        for _ in 0..amount("QUOTA_STEPS", 1200) {
            story.step();
        }
        story.rig.assert_clean();
        for key in 0..24 {
            let found = story.rig.get_within(32 << 10, oid(1), &[key], b"a", ReadAt::Latest);
            let right = story.reference.newest(key, Epoch::MAX).map_or(0, |version| version.2);
            assert_eq!(found.map_or(0, |value| value.len() as u64), right, "key {key}");
        }
        let Story { refused, fitted, given, .. } = story;
        assert!(
            refused > 20 && fitted > 5 && given > 20,
            "{refused} refused, {fitted} fitted, {given} given"
        );
    }
}

/// Removes all that the script of crashes writes, and what it leaves of it.
fn empty(rig: &mut Rig) {
    for object in [1, 2] {
        rig.punch(oid(object), PunchScope::Object, Cond::NONE).unwrap();
    }
    rig.aggregate();
}

#[test]
fn no_crash_at_any_boundary_leaves_an_account_that_is_not_what_is_there() {
    const ROOM: u64 = 4 << 20;
    let subsets = amount("CRASH_SUBSETS", 4);
    for media in [Media::Block, Media::Mapped] {
        let mut checked = 0;
        for at in 0.. {
            let mut rig = Rig::with_config(media, Durability::Power, tiny());
            account(&mut rig, quota(ROOM, 0));
            let run = run_until_crash(&given_script(), rig, at);
            for plan in run.rig.drive.crash_plans(subsets).into_iter().chain([CrashPlan::Process]) {
                let what = format!("boundary {at}, {plan:?}, {media:?}");
                let mut after = run.rig.after_crash(plan);
                let account = account(&mut after, quota(ROOM, 0));
                let there = used(&account);
                assert_eq!(there, on_record(&mut after), "{what}");
                // Whatever is there, and its audit, which counts it.
                run.judge_in(&mut after, &what);
                account.limit(quota(there.bytes.max(1), 0));
                assert_eq!(after.put(oid(3), b"more", b"a", &[1; 2]), Err(Error::QuotaLimit), "{what}");
                empty(&mut after);
                assert_eq!(used(&account), Charge::NONE, "{what}: nothing of what is gone is charged");
                after.put(oid(3), b"more", b"a", &[1; 1]).unwrap();
                checked += 1;
            }
            if !run.is_crashed {
                let mut rig = run.rig;
                let sums = by_user(&mut rig);
                assert!(matches!(sums[..], [(9, _)]), "the last has been given all: {sums:?}");
                break;
            }
        }
        assert!(checked > 100, "{checked}");
    }
}
