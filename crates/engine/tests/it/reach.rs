//! The aggregation of a small container beside a large one merges what has something of it, and no more.

use crate::rig::{CONT, Rig, oid};
use dolmen_codec::verb::{ContVerb, PunchScope, Reply, Verb};
use dolmen_env::Media;
use dolmen_types::{Cond, ContNo, Durability, Epoch, Key};

const SMALL: ContNo = ContNo(2);
const OTHER: ContNo = ContNo(3);
const VALUES: u32 = 10_000;

/// A large container, aggregated, and two that have nothing yet.
fn beside_a_large_one(media: Media) -> Rig {
    let mut rig = Rig::new(media, Durability::Process);
    for cont in [SMALL, OTHER] {
        rig.cont = cont;
        rig.create_container(Durability::Process);
    }
    rig.cont = CONT;
    for number in 0..VALUES {
        rig.put(oid(1), &number.to_le_bytes(), b"a", b"large").unwrap();
    }
    rig.ask(Verb::Checkpoint).unwrap();
    rig.aggregate();
    rig
}

/// The name of the largest run's file, which a merge of it would not leave.
fn largest_run(rig: &Rig) -> String {
    let files = rig.drive.files();
    let runs = files.iter().filter(|(name, _)| name.starts_with("run."));
    runs.max_by_key(|&(_, bytes)| bytes).expect("there is one").0.to_owned()
}

fn punch_dkey(rig: &mut Rig, dkey: &[u8]) {
    rig.punch(oid(1), PunchScope::Dkey(Key::from_slice(dkey)), Cond::NONE).unwrap();
}

#[test]
fn a_small_container_is_aggregated_without_the_runs_of_a_large_one() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = beside_a_large_one(media);
        let large = largest_run(&rig);
        rig.cont = SMALL;
        for round in 0..3u8 {
            for dkey in [b"a", b"b", b"c"] {
                rig.put(oid(1), dkey, b"v", &[round; 100]).unwrap();
            }
            rig.ask(Verb::Checkpoint).unwrap();
        }
        punch_dkey(&mut rig, b"b");
        // Two of three versions twice; three and the punch that hides them.
        assert_eq!(rig.aggregate(), 2 * 2 + 3 + 1, "{media:?}");
        assert_eq!(largest_run(&rig), large, "{media:?}");
        rig.close_and_reopen();
        assert_eq!(rig.get(oid(1), b"a", b"v"), Some(vec![2; 100]));
        assert_eq!(rig.get(oid(1), b"b", b"v"), None);
        rig.assert_clean();
        rig.cont = CONT;
        assert_eq!(rig.get(oid(1), &(VALUES - 1).to_le_bytes(), b"a"), Some(b"large".to_vec()));
        // The large one itself takes all runs.
        rig.put(oid(1), &0u32.to_le_bytes(), b"a", b"newer").unwrap();
        assert_eq!(rig.aggregate(), 1);
        assert_ne!(largest_run(&rig), large, "{media:?}");
    }
}

#[test]
fn a_merge_for_one_container_keeps_the_punches_of_others() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = beside_a_large_one(media);
        let gone = 7u32.to_le_bytes();
        punch_dkey(&mut rig, &gone);
        rig.cont = SMALL;
        for value in [b"one", b"two"] {
            rig.put(oid(1), b"k", b"v", value).unwrap();
        }
        // The horizon of the large one passes the punch, and nothing of it is merged: the target is closed before. One
        // run has the punch and what is merged for the small one.
        rig.cont = CONT;
        let step = rig.ask(Verb::Cont(ContVerb::Aggregate(Epoch::MAX))).unwrap();
        assert!(matches!(step, Reply::Aggregated { more: true, .. }), "{step:?}");
        rig.ask(Verb::Checkpoint).unwrap();
        rig.close_and_reopen();
        let large = largest_run(&rig);
        rig.cont = SMALL;
        assert_eq!(rig.aggregate(), 1);
        assert_eq!(largest_run(&rig), large, "{media:?}");
        rig.cont = CONT;
        rig.close_and_reopen();
        assert_eq!(rig.get(oid(1), &gone, b"a"), None, "{media:?}");
        assert_eq!(rig.get(oid(1), &8u32.to_le_bytes(), b"a"), Some(b"large".to_vec()));
        rig.assert_clean();
    }
}

#[test]
fn a_container_without_anything_in_runs_is_aggregated_at_once() {
    let mut rig = beside_a_large_one(Media::Mapped);
    let merges = |rig: &Rig| rig.target.as_ref().unwrap().background_done().merges;
    let before = merges(&rig);
    rig.cont = OTHER;
    assert_eq!((rig.aggregate(), merges(&rig)), (0, before));
}
