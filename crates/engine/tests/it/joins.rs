//! Extents written one after another become one, and nobody who reads can tell.

use crate::rig::{Rig, oid, tiny};
use dolmen_codec::verb::{
    ContVerb, List, ListWhat, Listed, ListedExtent, PunchScope, ReadAt, Reply, Verb, Want,
};
use dolmen_env::Media;
use dolmen_env::sim::CrashPlan;
use dolmen_types::{Anchor, Cond, Durability, Epoch, Error, Key, Recx};
use smallvec::smallvec;

const PIECE: usize = 47;

/// Appends pieces `from..upto`; the epoch of the last.
fn append(rig: &mut Rig, from: usize, upto: usize) -> Epoch {
    let mut last = Epoch::ZERO;
    for number in from..upto {
        let bytes = content(number, number + 1);
        last = rig.write(oid(1), b"d", b"a", (number * PIECE) as u64, 1, &bytes).unwrap();
    }
    last
}

/// What pieces `from..upto` consist of.
fn content(from: usize, upto: usize) -> Vec<u8> {
    (from * PIECE..upto * PIECE).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

fn extents(rig: &mut Rig) -> Vec<ListedExtent> {
    let what = ListWhat::Extents(oid(1), Key::from_slice(b"d"), Key::from_slice(b"a"));
    let (anchor, items_max) = (Anchor::default(), 10_000);
    match rig
        .ask(Verb::List(List { what, anchor, items_max, bytes_max: 1 << 20, at: ReadAt::Latest }))
        .unwrap()
    {
        Reply::Listed(Listed::Extents(extents), _) => extents,
        other => panic!("{other:?}"),
    }
}

fn assert_reads(rig: &mut Rig, pieces: usize, at: ReadAt) {
    let records = (pieces * PIECE) as u64;
    let want = Want::Array { record_bytes: 1, extents: smallvec![Recx::new(0, records + 9)] };
    let (_, filled, bytes) = rig.fetch(oid(1), b"d", b"a", want, pieces * PIECE + 9, at).unwrap();
    assert_eq!(filled.iter().map(|recx| recx.count).sum::<u64>(), records);
    assert_eq!(bytes[..pieces * PIECE], content(0, pieces));
}

fn versions(rig: &mut Rig) -> (u64, u64) {
    match rig.ask(Verb::Cont(ContVerb::Usage)).unwrap() {
        Reply::ContUsage(usage) => (usage.versions, usage.value_bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_aggregation_makes_one_extent_of_what_was_appended() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Power);
        append(&mut rig, 0, 100);
        assert_eq!(extents(&mut rig).len(), 100);
        assert!(rig.aggregate() >= 100, "the parts are gone");
        for _ in 0..2 {
            let extents = extents(&mut rig);
            assert_eq!(extents.iter().map(|extent| extent.recx).collect::<Vec<_>>(), [Recx::new(0, 4700)]);
            assert_eq!(versions(&mut rig), (1, 4700), "{media:?}: nothing is kept twice");
            assert_reads(&mut rig, 100, ReadAt::Latest);
            rig.assert_clean();
            rig.reopen();
        }
        append(&mut rig, 100, 250);
        rig.aggregate();
        assert_eq!(extents(&mut rig).len(), 1, "{media:?}: more than doubled");
        assert_reads(&mut rig, 250, ReadAt::Latest);
        rig.assert_clean();
    }
}

#[test]
fn a_join_of_what_was_punched_since_says_nothing_of_the_present_record_size() {
    for reopens in [false, true] {
        let mut rig = Rig::new(Media::Mapped, Durability::Power);
        append(&mut rig, 0, 20);
        let first = rig.ask(Verb::Cont(ContVerb::Aggregate(Epoch::MAX))).unwrap();
        assert!(matches!(first, Reply::Aggregated { more: true, .. }));
        let akeys = PunchScope::Akeys(Key::from_slice(b"d"), smallvec![Key::from_slice(b"a")]);
        rig.punch(oid(1), akeys, Cond::NONE).unwrap();
        rig.write(oid(1), b"d", b"a", 0, 8, &[7; 64]).unwrap();
        rig.aggregate();
        if reopens {
            rig.crash(CrashPlan::All);
        }
        let refused = rig.write(oid(1), b"d", b"a", 1000, 1, &[1; 5]);
        assert_eq!(refused, Err(Error::RecordSize { stored_bytes: 8 }), "{reopens}");
        assert_eq!(rig.read(oid(1), b"d", b"a", 0, 8, 8), (vec![Recx::new(0, 8)], vec![7; 64]));
        rig.assert_clean();
    }
}

#[test]
fn an_aggregation_after_one_that_found_nothing_merges_nothing_until_something_changes() {
    let mut rig = Rig::new(Media::Mapped, Durability::Process);
    append(&mut rig, 0, 50);
    let merges = |rig: &mut Rig| {
        let before = rig.target.as_ref().unwrap().background_done().merges;
        rig.aggregate();
        rig.target.as_ref().unwrap().background_done().merges - before
    };
    let rounds = (0..6).take_while(|_| merges(&mut rig) > 0).count();
    assert!((1..5).contains(&rounds), "{rounds}");
    assert_eq!(merges(&mut rig), 0);
    let last = append(&mut rig, 50, 51);
    assert!(merges(&mut rig) > 0);
    while merges(&mut rig) > 0 {}
    rig.ask(Verb::Cont(ContVerb::AddSnapshot(last))).unwrap();
    assert!(merges(&mut rig) > 0, "a snapshot is a change");
    assert_reads(&mut rig, 51, ReadAt::Latest);
    rig.assert_clean();
}

#[test]
fn a_snapshot_keeps_what_was_written_before_and_after_it_apart() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Power);
        let snapshot = append(&mut rig, 0, 40);
        rig.ask(Verb::Cont(ContVerb::AddSnapshot(snapshot))).unwrap();
        append(&mut rig, 40, 90);
        rig.aggregate();
        for _ in 0..2 {
            let counts: Vec<u64> = extents(&mut rig).iter().map(|extent| extent.recx.count).collect();
            assert_eq!(counts, [40 * PIECE as u64, 50 * PIECE as u64]);
            assert_reads(&mut rig, 90, ReadAt::Latest);
            assert_reads(&mut rig, 40, ReadAt::Epoch(snapshot));
            rig.assert_clean();
            rig.close_and_reopen();
        }
    }
}

#[test]
fn no_crash_in_an_aggregation_that_joins_loses_a_record() {
    for media in [Media::Block, Media::Mapped] {
        let mut has_ended = false;
        for steps in 0.. {
            if has_ended {
                assert!(steps > 5, "{media:?}: there are steps to crash between");
                break;
            }
            let mut rig = Rig::with_config(media, Durability::Power, tiny());
            append(&mut rig, 0, 60);
            for _ in 0..steps {
                let reply = rig.ask(Verb::Cont(ContVerb::Aggregate(Epoch::MAX))).unwrap();
                has_ended = matches!(reply, Reply::Aggregated { more: false, .. });
            }
            let plans = [CrashPlan::None, CrashPlan::All, CrashPlan::Process];
            let subsets = (0..8).map(CrashPlan::Subset);
            let single = (0..4).flat_map(|at| [CrashPlan::AllBut(at), CrashPlan::Torn(at)]);
            for plan in plans.into_iter().chain(subsets).chain(single) {
                let mut after = rig.after_crash(plan);
                assert_reads(&mut after, 60, ReadAt::Latest);
                after.aggregate();
                assert_eq!(extents(&mut after).len(), 1);
                assert_reads(&mut after, 60, ReadAt::Latest);
                after.assert_clean();
            }
        }
    }
}
