//! Metadata of ten times the memory budget: every operation works, and what is accounted for stays within it.

use crate::rig::{Rig, oid, small_config};
use dolmen_codec::verb::{
    ChangeKind, ContVerb, Found, List, ListWhat, Listed, PunchScope, Query, ReadAt, Reply, Verb,
};
use dolmen_codec::{Progress, TargetStore};
use dolmen_engine::TargetConfig;
use dolmen_env::Media;
use dolmen_env::sim::CrashPlan;
use dolmen_types::{Anchor, Cond, Durability, Epoch, Key, ObjectClass, ObjectType, Oid, QueryFlags};

const BUDGET_BYTES: u64 = 2 << 20;
/// Beside the budget: the table of lives of log segments, and the block that came last.
const SLACK_BYTES: u64 = 512 << 10;
const OBJECTS: u64 = 75;
const DKEYS: u64 = 3500;

fn config() -> TargetConfig {
    TargetConfig {
        capacity_bytes: 512 << 20,
        log_segment_bytes: 1 << 20,
        memory_budget_bytes: BUDGET_BYTES,
        checkpoint_log_bytes: 16 << 20,
        ..small_config()
    }
}

fn ordered(number: u64) -> Oid {
    Oid::new(ObjectType::DkeyUint64, ObjectClass::S1, 0, number)
}

/// A store that is watched while it works.
struct Watched {
    rig: Rig,
    ops: u64,
    highest: u64,
}

impl Watched {
    fn put(&mut self, object: u64, dkey: u64, round: u8) -> Epoch {
        let value = value(object, dkey, round);
        let epoch = self.rig.put(ordered(object), &dkey.to_le_bytes(), &akey(dkey), &value).unwrap();
        self.tick();
        epoch
    }

    fn tick(&mut self) {
        self.ops += 1;
        if self.ops.is_multiple_of(64) {
            self.rig.target.as_mut().unwrap().step();
            self.look();
        }
    }

    fn look(&mut self) {
        self.highest = self.highest.max(self.rig.target.as_ref().unwrap().memory_bytes());
        assert!(
            self.highest <= BUDGET_BYTES + SLACK_BYTES,
            "{} bytes after {} operations",
            self.highest,
            self.ops
        );
    }

    fn work(&mut self) {
        while self.rig.target.as_mut().unwrap().step() != Progress::Idle {
            self.look();
        }
    }

    fn get(&mut self, object: u64, dkey: u64, at: ReadAt) -> Option<Vec<u8>> {
        let found = self.rig.get_within(64, ordered(object), &dkey.to_le_bytes(), &akey(dkey), at);
        self.tick();
        found
    }

    fn changes(&mut self, from: Epoch, to: Epoch) -> Vec<ChangeKind> {
        let mut anchor = Anchor::default();
        let mut kinds = Vec::new();
        while !anchor.is_eof() {
            let what = ListWhat::Changes { from, to };
            let list = List { what, anchor, items_max: 1000, bytes_max: 1 << 20, at: ReadAt::Latest };
            match self.rig.ask(Verb::List(list)).unwrap() {
                Reply::Listed(Listed::Changes(changes), next) => {
                    kinds.extend(changes.iter().map(|change| change.kind));
                    anchor = next;
                }
                other => panic!("{other:?}"),
            }
            self.look();
        }
        kinds
    }
}

/// Another one under each dkey, so that entries have little in common.
fn akey(dkey: u64) -> [u8; 48] {
    let mut akey = [0; 48];
    for (part, salt) in akey.as_chunks_mut().0.iter_mut().zip(1u64..) {
        *part = (dkey * 8 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    }
    akey
}

fn value(object: u64, dkey: u64, round: u8) -> Vec<u8> {
    let mut value = vec![round; 24];
    value[..8].copy_from_slice(&object.to_le_bytes());
    value[8..16].copy_from_slice(&dkey.to_le_bytes());
    value
}

/// Spreads the order of writes over all keys.
fn scattered(number: u64) -> (u64, u64) {
    let place = number * 48_271 % (OBJECTS * DKEYS);
    (place / DKEYS, place % DKEYS)
}

#[test]
fn metadata_of_ten_times_the_budget_is_served_within_it() {
    let rig = Rig::with_config(Media::Block, Durability::Process, config());
    let mut store = Watched { rig, ops: 0, highest: 0 };
    let mut snapshot = Epoch::ZERO;
    for number in 0..OBJECTS * DKEYS {
        let (object, dkey) = scattered(number);
        snapshot = store.put(object, dkey, 1);
    }
    store.rig.ask(Verb::Cont(ContVerb::AddSnapshot(snapshot))).unwrap();
    store.work();
    let run_bytes = store.rig.space().run_bytes;
    assert!(run_bytes > 10 * BUDGET_BYTES, "{run_bytes} bytes of metadata");

    let changed = change_a_part(&mut store);
    store.rig.ask(Verb::Cont(ContVerb::AddSnapshot(changed))).unwrap();
    let epochs = (snapshot, changed);
    audit_reads(&mut store, epochs);
    assert!(store.rig.aggregate() > 0);
    store.look();
    audit_reads(&mut store, epochs);
    store.rig.assert_clean();
    store.rig.close_and_reopen();
    store.look();
    audit_reads(&mut store, epochs);
    store.rig.crash(dolmen_env::sim::CrashPlan::Process);
    audit_reads(&mut store, epochs);
    store.rig.assert_clean();
}

/// Object 0 is removed whole, of object 1 every dkey, of object 2 every other one; object 3 is written anew.
fn change_a_part(store: &mut Watched) -> Epoch {
    let punch = |store: &mut Watched, object, scope| {
        store.rig.punch(ordered(object), scope, Cond::NONE).unwrap();
        store.tick();
    };
    punch(store, 0, PunchScope::Object);
    let mut last = Epoch::ZERO;
    for dkey in 0..DKEYS {
        let key = || Key::from_slice(&dkey.to_le_bytes());
        punch(store, 1, PunchScope::Dkey(key()));
        if dkey % 2 == 1 {
            punch(store, 2, PunchScope::Akeys(key(), [Key::from_slice(&akey(dkey))].into_iter().collect()));
        }
        store.put(3, dkey, 2);
        last = store.put(3, dkey, 3);
    }
    last
}

fn audit_reads(store: &mut Watched, (snapshot, changed): (Epoch, Epoch)) {
    for number in (0..OBJECTS * DKEYS).step_by(97) {
        let (object, dkey) = scattered(number);
        let now = match object {
            0 | 1 => None,
            2 => (dkey % 2 == 0).then(|| value(object, dkey, 1)),
            3 => Some(value(object, dkey, 3)),
            _ => Some(value(object, dkey, 1)),
        };
        assert_eq!(store.get(object, dkey, ReadAt::Latest), now, "{object} {dkey}");
        let before = Some(value(object, dkey, 1));
        assert_eq!(store.get(object, dkey, ReadAt::Epoch(snapshot)), before, "{object} {dkey}");
    }
    let listed = |store: &mut Watched, object| store.rig.keys(ListWhat::Dkeys(ordered(object))).len() as u64;
    assert_eq!((listed(store, 1), listed(store, 2), listed(store, 3)), (0, DKEYS / 2, DKEYS));
    let flags = QueryFlags::MAX.and(QueryFlags::DKEY);
    let query =
        Query { oid: ordered(2), flags, dkey: Key::default(), akey: Key::default(), at: ReadAt::Latest };
    match store.rig.ask(Verb::Query(query)).unwrap() {
        Reply::Found(Some(Found { dkey, .. })) => assert_eq!(&dkey[..], &(DKEYS - 2).to_le_bytes()),
        other => panic!("{other:?}"),
    }
    let changes = store.changes(snapshot, changed);
    let count = |kind| changes.iter().filter(|&&found| found == kind).count() as u64;
    assert_eq!(count(ChangeKind::Removed), 2 * DKEYS + DKEYS / 2, "objects 0, 1 and half of 2");
    assert_eq!((count(ChangeKind::Modified), count(ChangeKind::Added)), (DKEYS, 0));
    assert_eq!(store.rig.get(oid(1), b"none", b"a"), None);
    store.look();
}

#[test]
fn bulk_that_a_recovery_would_have_to_read_makes_a_checkpoint_due() {
    let mut rig = Rig::with_config(Media::Block, Durability::Power, small_config());
    for number in 0..24u32 {
        rig.put(oid(1), &number.to_le_bytes(), b"a", &vec![7; 1 << 20]).unwrap();
        rig.work();
    }
    assert!(rig.target.as_ref().unwrap().background_done().checkpoints >= 4);
    rig.crash(CrashPlan::Process);
    assert!(rig.recovery.frames < 10, "{:?}", rig.recovery);
    assert_eq!(rig.get(oid(1), &5u32.to_le_bytes(), b"a"), Some(vec![7; 1 << 20]));
}
