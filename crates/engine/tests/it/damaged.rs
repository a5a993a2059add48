//! A run with a rotten block stays as it is; checkpoints, merges of the others and closing go on, and it is said.

use crate::rig::{Rig, oid, small_config};
use dolmen_codec::verb::Verb;
use dolmen_engine::TargetConfig;
use dolmen_env::Media;
use dolmen_types::{Durability, Error, Place};

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
    match rig.ask(Verb::Check) {
        Err(Error::Corrupt { place, .. }) => {
            assert_eq!(*place, Place::Record { file: "run", number, offset: 0 });
        }
        other => panic!("{other:?}"),
    }
}
