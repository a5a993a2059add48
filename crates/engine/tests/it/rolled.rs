//! What rollbacks hide is freed, and what they return to stays.

use crate::rig::{Rig, oid};
use dolmen_codec::verb::{ContVerb, PunchScope, ReadAt, Reply, Usage, Verb};
use dolmen_env::Media;
use dolmen_env::sim::CrashPlan;
use dolmen_types::{Cond, Durability, Epoch, Key};

fn usage(rig: &mut Rig) -> Usage {
    match rig.ask(Verb::Cont(ContVerb::Usage)).unwrap() {
        Reply::ContUsage(usage) => usage,
        other => panic!("{other:?}"),
    }
}

fn cont(rig: &mut Rig, verb: ContVerb) {
    assert!(matches!(rig.ask(Verb::Cont(verb)), Ok(Reply::Done)));
}

fn roll_back(rig: &mut Rig, to: Epoch) -> Epoch {
    let at = rig.put(oid(9), b"d", b"a", b"the clock").unwrap().next();
    cont(rig, ContVerb::Rollback { to, at });
    at
}

/// Small, large, and in an array; and removals of what was there.
fn fill(rig: &mut Rig, byte: u8) -> Epoch {
    for number in 0..20 {
        rig.put(oid(1), &[number], b"a", &[byte; 100]).unwrap();
        rig.put(oid(2), &[number], b"a", &[byte; 20_000]).unwrap();
        rig.write(oid(3), b"d", b"a", u64::from(number) * 10, 1, &[byte; 15]).unwrap();
        if byte.is_multiple_of(2) {
            rig.punch(oid(1), PunchScope::Dkey(Key::from_slice(&[number])), Cond::NONE).unwrap();
        }
    }
    rig.put(oid(4), b"d", b"a", &[byte]).unwrap()
}

fn all(rig: &mut Rig, at: ReadAt) -> Vec<Option<Vec<u8>>> {
    let mut found = Vec::new();
    for number in 0..20 {
        for of in [1, 2] {
            found.push(rig.get_at(oid(of), &[number], b"a", at).unwrap());
        }
    }
    found.push(rig.get_at(oid(4), b"d", b"a", at).unwrap());
    found
}

#[test]
fn what_a_rollback_took_is_freed_and_the_rollback_forgotten() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Process);
        fill(&mut rig, 1);
        rig.put(oid(9), b"d", b"a", b"the clock").unwrap();
        rig.aggregate();
        let (before, values) = (usage(&mut rig), all(&mut rig, ReadAt::Latest));
        for round in 0..4 {
            let old = rig.put(oid(9), b"d", b"a", b"the clock").unwrap();
            cont(&mut rig, ContVerb::AddSnapshot(old));
            let newest = fill(&mut rig, 2 + round);
            let at = roll_back(&mut rig, old);
            assert!(at > newest);
            if round == 0 || round == 2 {
                // The snapshot is of what was returned to: it takes nothing beside.
                rig.aggregate();
                assert_eq!(usage(&mut rig), before, "{media:?} round {round}, with a snapshot");
            }
            cont(&mut rig, ContVerb::RemoveSnapshot(old));
            rig.aggregate();
            assert_eq!(usage(&mut rig), before, "{media:?} round {round}");
            assert_eq!(all(&mut rig, ReadAt::Latest), values, "{media:?} round {round}");
            rig.assert_clean();
            rig.crash(CrashPlan::All);
            assert_eq!(usage(&mut rig), before, "{media:?} round {round}, after a crash");
            assert_eq!(all(&mut rig, ReadAt::Latest), values, "{media:?} round {round}, after a crash");
        }
        // Punches go again with what they hide: no rollback is left that would need them.
        for of in [1, 2, 3, 4, 9] {
            rig.punch(oid(of), PunchScope::Object, Cond::NONE).unwrap();
        }
        rig.aggregate();
        assert_eq!(usage(&mut rig), Usage::default(), "{media:?}");
        rig.assert_clean();
    }
}

#[test]
fn a_snapshot_of_what_a_rollback_took_keeps_it() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Process);
        let old = fill(&mut rig, 1);
        let values = all(&mut rig, ReadAt::Latest);
        let between = fill(&mut rig, 2);
        cont(&mut rig, ContVerb::AddSnapshot(between));
        let taken = all(&mut rig, ReadAt::Epoch(between));
        assert_ne!(values, taken);
        cont(&mut rig, ContVerb::AddSnapshot(old));
        roll_back(&mut rig, old);
        cont(&mut rig, ContVerb::RemoveSnapshot(old));
        rig.aggregate();
        rig.crash(CrashPlan::All);
        assert_eq!(
            (all(&mut rig, ReadAt::Latest), all(&mut rig, ReadAt::Epoch(between))),
            (values.clone(), taken),
            "{media:?}"
        );
        let both = usage(&mut rig);
        cont(&mut rig, ContVerb::RemoveSnapshot(between));
        rig.aggregate();
        assert_eq!(all(&mut rig, ReadAt::Latest), values, "{media:?}");
        assert!(usage(&mut rig).value_bytes < both.value_bytes, "{media:?}");
        rig.assert_clean();
    }
}

#[test]
fn a_rollback_undone_by_another_shows_what_it_hid() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Process);
        let first = fill(&mut rig, 1);
        cont(&mut rig, ContVerb::AddSnapshot(first));
        let second = fill(&mut rig, 3);
        cont(&mut rig, ContVerb::AddSnapshot(second));
        let values = all(&mut rig, ReadAt::Latest);
        roll_back(&mut rig, first);
        rig.aggregate();
        fill(&mut rig, 5);
        roll_back(&mut rig, second);
        cont(&mut rig, ContVerb::RemoveSnapshot(first));
        for _ in 0..2 {
            rig.aggregate();
            assert_eq!(all(&mut rig, ReadAt::Latest), values, "{media:?}");
            rig.crash(CrashPlan::All);
            assert_eq!(all(&mut rig, ReadAt::Latest), values, "{media:?}, after a crash");
            cont(&mut rig, ContVerb::RemoveSnapshot(second));
        }
        rig.assert_clean();
    }
}

#[test]
fn an_array_written_after_a_rollback_keeps_what_the_rollback_brought_back() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Process);
        rig.write(oid(1), b"d", b"a", 0, 1, &[1; 1000]).unwrap();
        let old = rig.put(oid(9), b"d", b"a", b"the clock").unwrap();
        cont(&mut rig, ContVerb::AddSnapshot(old));
        rig.punch(oid(1), PunchScope::Object, Cond::NONE).unwrap();
        // The sole extent, which a short way leads to; the rollback hides it, and the next write covers it.
        rig.write(oid(1), b"d", b"a", 0, 1, &[2; 100]).unwrap();
        roll_back(&mut rig, old);
        rig.write(oid(1), b"d", b"a", 0, 1, &[3; 100]).unwrap();
        let right = rig.read(oid(1), b"d", b"a", 0, 1000, 1);
        assert_eq!(right.1, [vec![3; 100], vec![1; 900]].concat());
        for _ in 0..2 {
            rig.aggregate();
            assert_eq!(rig.read(oid(1), b"d", b"a", 0, 1000, 1), right, "{media:?}");
            rig.crash(CrashPlan::Process);
        }
        assert_eq!(rig.read(oid(1), b"d", b"a", 0, 1000, 1), right, "{media:?}");
    }
}

/// Punches have to stay until the rollback is forgotten that may bring back what they hide.
#[test]
fn one_aggregation_leaves_nothing_that_the_next_would_free() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Process);
        let old = fill(&mut rig, 1);
        fill(&mut rig, 2);
        roll_back(&mut rig, old);
        for of in [1, 2, 3, 4, 9] {
            rig.punch(oid(of), PunchScope::Object, Cond::NONE).unwrap();
        }
        rig.aggregate();
        let Reply::Audited(audit) = rig.ask(Verb::Check).unwrap() else { panic!("an audit") };
        assert_eq!((audit.versions, audit.findings), (0, Vec::new()), "{media:?}");
    }
}
