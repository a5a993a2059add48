//! A run with a rotten block stays as it is; checkpoints, merges of the others and closing go on, and it is said.

use crate::rig::{CONT, Rig, oid, small_config};
use dolmen_codec::verb::{Mutation, Reply, Update, Verb};
use dolmen_engine::TargetConfig;
use dolmen_env::Media;
use dolmen_env::sim::CrashPlan;
use dolmen_types::{Cond, Durability, Key, Place};
use smallvec::SmallVec;

const KEYS: u32 = 400;
const ROUNDS: u8 = 60;

/// Writes a round of keys and has the background make a run of them.
fn round(rig: &mut Rig, number: u8) {
    for key in 0..KEYS {
        rig.put(oid(u64::from(number)), &key.to_le_bytes(), b"a", &[number; 100]).unwrap();
    }
    rig.work();
}

fn assert_round(rig: &mut Rig, number: u8) {
    for key in (0..KEYS).step_by(7) {
        let found = rig.get(oid(u64::from(number)), &key.to_le_bytes(), b"a");
        assert_eq!(found, Some(vec![number; 100]), "key {key} of round {number}");
    }
}

fn runs(rig: &Rig) -> Vec<String> {
    let files = rig.drive.files();
    files.iter().map(|(name, _)| name.to_owned()).filter(|name| name.starts_with("run.")).collect()
}

#[test]
fn a_rotten_block_of_a_run_stops_neither_merges_nor_checkpoints_nor_closing() {
    for media in [Media::Block, Media::Mapped] {
        let config = TargetConfig { checkpoint_log_bytes: 32 << 10, scrub_bytes_per_s: 0, ..small_config() };
        let mut rig = Rig::with_config(media, Durability::Process, config);
        for number in 1..=3 {
            round(&mut rig, number);
        }
        rig.close_and_reopen();
        let rotten = runs(&rig).remove(0);
        rig.drive.flip(&rotten, 1000, 3).unwrap();
        let before = rig.target.as_ref().unwrap().background_done();
        for number in 4..ROUNDS {
            round(&mut rig, number);
            let memory = rig.target.as_ref().unwrap().memory_bytes();
            assert!(memory < rig.config.memory_budget_bytes, "{memory} bytes after round {number}");
        }
        let done = rig.target.as_ref().unwrap().background_done();
        assert!(done.checkpoints - before.checkpoints >= 40, "{done:?}");
        assert!(done.merges - before.merges >= 5, "{done:?}");
        assert!(runs(&rig).len() < 32 && runs(&rig).contains(&rotten), "{:?}", runs(&rig));
        assert_damage_is_said(&mut rig, &rotten);
        (4..ROUNDS).for_each(|number| assert_round(&mut rig, number));
        rig.close_and_reopen();
        (4..ROUNDS).for_each(|number| assert_round(&mut rig, number));
        (ROUNDS..2 * ROUNDS).for_each(|number| round(&mut rig, number));
        (4..2 * ROUNDS).for_each(|number| assert_round(&mut rig, number));
        rig.close_and_reopen();
    }
}

fn assert_damage_is_said(rig: &mut Rig, rotten: &str) {
    assert_eq!(rig.space().damage_count, 1);
    let number = u64::from_str_radix(rotten.trim_start_matches("run."), 16).unwrap();
    assert_eq!(findings(rig, Verb::Check), [Place::Record { file: "run", number, offset: 0 }]);
}

fn findings(rig: &mut Rig, verb: Verb<'_>) -> Vec<Place> {
    match rig.ask(verb).unwrap() {
        Reply::Audited(audit) => audit.findings.into_iter().map(|finding| finding.place).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_audit_goes_on_past_damage_and_lists_all_of_it() {
    let config = TargetConfig { checkpoint_log_bytes: 32 << 10, scrub_bytes_per_s: 0, ..small_config() };
    let mut rig = Rig::with_config(Media::Block, Durability::Process, config);
    let value = vec![0xA7; 9000];
    rig.put(oid(90), b"large", b"a", &value).unwrap();
    rig.ask(Verb::Checkpoint).unwrap();
    (1..=3).for_each(|number| round(&mut rig, number));
    rig.close_and_reopen();
    let files = rig.drive.files();
    let bulk = files.bytes("bulk.00000000").unwrap();
    let at = bulk.windows(value.len()).position(|part| part == value).unwrap();
    rig.drive.flip("bulk.00000000", at as u64, 3).unwrap();
    // Blocks of two runs, two of the first.
    let names = runs(&rig);
    let damage = [(&names[1], 1000), (&names[1], 9000), (&names[2], 1000)];
    damage.iter().for_each(|(name, at)| rig.drive.flip(name, *at, 3).unwrap());
    rig.close_and_reopen();
    let is_block = |place: &Place, (name, at): (&String, u64)| {
        let of = u64::from_str_radix(name.trim_start_matches("run."), 16).unwrap();
        matches!(*place, Place::Record { file: "run", number, offset } if number == of && offset <= at && at < offset + (16 << 10))
    };
    let found = findings(&mut rig, Verb::Check);
    assert_eq!(found.len(), damage.len(), "{found:?}");
    assert!(damage.iter().all(|&block| found.iter().any(|place| is_block(place, block))), "{found:?}");
    let scrubbed = findings(&mut rig, Verb::Scrub);
    assert_eq!(scrubbed.len(), damage.len() + 1, "{scrubbed:?}");
    assert!(found.iter().all(|place| scrubbed.contains(place)), "{scrubbed:?}");
    let large = Place::Value {
        cont: CONT,
        oid: oid(90),
        dkey: b"large"[..].into(),
        akey: b"a"[..].into(),
        extent: None,
    };
    assert!(scrubbed.contains(&large), "{scrubbed:?}");
}

#[test]
fn a_target_with_a_gift_of_an_object_whose_gifts_before_are_damaged_is_opened() {
    let gift = |uid| {
        let (dkey, iods, charged) = (Key::new(), SmallVec::new(), Some(uid));
        Mutation::Update(Update { oid: oid(1), dkey, cond: Cond::NONE, iods, charged })
    };
    let config = TargetConfig { checkpoint_log_bytes: 32 << 10, scrub_bytes_per_s: 0, ..small_config() };
    let mut rig = Rig::with_config(Media::Block, Durability::Process, config);
    for key in 0..KEYS {
        rig.put(oid(1), &key.to_le_bytes(), b"a", &[1; 100]).unwrap();
    }
    rig.commit(vec![gift(7)]).unwrap();
    rig.ask(Verb::Checkpoint).unwrap();
    rig.close_and_reopen();
    let names = runs(&rig);
    names.iter().for_each(|name| rig.drive.flip(name, 1000, 3).unwrap());
    rig.close_and_reopen();
    let epoch = rig.put(oid(2), b"before", b"a", b"value").unwrap().next();
    rig.commit_at(epoch, vec![gift(8)]).unwrap();
    rig.put(oid(2), b"later", b"a", b"value").unwrap();
    rig.crash(CrashPlan::Process);
    assert_eq!(rig.get(oid(2), b"later", b"a"), Some(b"value".to_vec()));
}
