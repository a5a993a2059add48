//! Runs written to a simulated disk and read back, against sorted maps.

use super::*;
use crate::tree::key::FlatKey;
use dolmen_codec::order::HashKey;
use dolmen_codec::version::VersionKind;
use dolmen_env::Disk;
use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
use dolmen_types::{
    ContNo, Epoch, Error, IoBuf, KeyKind, ObjectClass, ObjectType, Oid, Place, Stamp, TargetNo,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const TARGET: TargetNo = TargetNo(4);

fn key(object: u64, dkey: u64, akey: &[u8], epoch: u64) -> Vec<u8> {
    let mut key = FlatKey::default();
    key.object(ContNo(1), Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 0, object))
        .dkey(KeyKind::Hashed, HashKey([5; 16]), &dkey.to_le_bytes())
        .akey(KeyKind::Lexical, HashKey([5; 16]), akey)
        .tail(VersionKind::Single, 0, Stamp { epoch: Epoch(epoch), minor: 0 });
    key.as_bytes().to_vec()
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let akey = (0usize..80, 1u8..4).prop_map(|(len, byte)| vec![byte; len.max(1)]);
    (0u64..3, 0u64..20, akey, 1u64..4).prop_map(|(object, dkey, akey, epoch)| key(object, dkey, &akey, epoch))
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let cut = (any_key(), 0usize..120).prop_map(|(key, len)| key[..len.min(key.len())].to_vec());
    prop_oneof![any_key(), cut, prop::collection::vec(any::<u8>(), 0..30)]
}

fn entries(count: usize) -> impl Strategy<Value = Model> {
    let payload = prop_oneof![9 => 0usize..200, 1 => 3000usize..9000];
    let payload = (payload, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]);
    prop::collection::btree_map(any_key(), payload, 1..count)
}

fn hash(key: &[u8]) -> u64 {
    key.iter().fold(7, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn disk() -> SimDisk {
    SimDisk::new(&SimDrive::new(SimConfig::default()))
}

fn store(disk: &mut SimDisk, number: u32, blocks: &[IoBuf]) -> Run {
    let bytes: Vec<u8> = blocks.iter().flat_map(|block| block.to_vec()).collect();
    let file = disk.create(&format!("run.{number}"), bytes.len() as u64).unwrap();
    disk.write_at(file, 0, &bytes).unwrap();
    disk.flush(file).unwrap();
    Run::open(disk, TARGET, number, file, bytes.len() as u64).unwrap()
}

fn write(disk: &mut SimDisk, number: u32, model: &Model) -> Run {
    let mut writer = RunWriter::new(number, model.len() as u64);
    let mut blocks: Vec<IoBuf> = Vec::new();
    for (key, payload) in model {
        blocks.extend(writer.push(key, payload, &[hash(key)]));
    }
    blocks.extend(writer.finish().unwrap());
    let run = store(disk, number, &blocks);
    assert_eq!(run.file_bytes(), blocks.iter().map(|block| block.len() as u64).sum::<u64>());
    assert_eq!(run.footer().entries, model.len() as u64);
    assert_eq!(run.footer().last_key, *model.keys().next_back().unwrap());
    run
}

fn all_of(run: &Run, source: &mut dyn BlockSource) -> Result<Model, Error> {
    let mut cursor = RunCursor::default();
    let mut all = Model::new();
    cursor.seek(run, &[], source)?;
    while let Some((key, payload)) = cursor.entry() {
        all.insert(key.to_vec(), payload.to_vec());
        cursor.advance(run, source)?;
    }
    cursor.advance(run, source)?;
    assert!(cursor.entry().is_none());
    Ok(all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_run_gives_back_what_was_pushed(model in entries(400), probes in prop::collection::vec(any_bytes(), 30)) {
        let mut disk = disk();
        let run = write(&mut disk, 7, &model);
        let mut blocks = Blocks::new(1 << 20);
        prop_assert_eq!(&all_of(&run, &mut blocks.source(&mut disk)).unwrap(), &model);
        let mut cursor = RunCursor::default();
        for probe in probes.iter().chain(model.keys()) {
            cursor.seek(&run, probe, &mut blocks.source(&mut disk)).unwrap();
            let expected = model.range(probe.clone()..).next();
            prop_assert_eq!(cursor.entry(), expected.map(|(key, payload)| (&key[..], &payload[..])));
            cursor.seek_below(&run, probe, &mut blocks.source(&mut disk)).unwrap();
            let mut below = model.range(..probe.clone()).rev();
            for _ in 0..3 {
                let expected = below.next().map(|(key, payload)| (&key[..], &payload[..]));
                prop_assert_eq!(cursor.entry(), expected);
                cursor.retreat(&run, &mut blocks.source(&mut disk)).unwrap();
            }
        }
        prop_assert!(model.keys().all(|key| run.may_contain(hash(key))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn merged_runs_show_every_entry_of_each_in_order(models in prop::collection::vec(entries(150), 1..6)) {
        let mut disk = disk();
        let runs: Vec<Run> = (0u32..).zip(&models).map(|(number, model)| write(&mut disk, number, model)).collect();
        let blocks = Blocks::new(1 << 20);
        let mut merged = MergedRuns::first_of(&runs, &mut blocks.passing(&mut disk)).unwrap();
        let mut all = Vec::new();
        while let Some((key, payload)) = merged.entry() {
            all.push((key.to_vec(), payload.to_vec()));
            merged.advance(&runs, &mut blocks.passing(&mut disk)).unwrap();
        }
        prop_assert!(all.is_sorted_by(|a, b| a.0 <= b.0));
        let mut expected: Vec<_> = models.iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        expected.sort();
        all.sort();
        prop_assert_eq!(all, expected);
        prop_assert_eq!(blocks.resident_bytes(), 0);
    }
}

#[test]
fn each_entry_of_a_run_is_shown_ahead_once() {
    let mut disk = disk();
    let model = many(3000);
    let run = write(&mut disk, 7, &model);
    let mut blocks = Blocks::new(1 << 20);
    let (mut cursor, mut shown) = (RunCursor::default(), Vec::new());
    cursor.seek(&run, &[], &mut blocks.source(&mut disk)).unwrap();
    while cursor.entry().is_some() {
        cursor.upcoming(3, &mut Vec::new(), |payload| shown.push(payload.to_vec()));
        cursor.advance(&run, &mut blocks.source(&mut disk)).unwrap();
    }
    assert_eq!(shown, model.values().cloned().collect::<Vec<_>>());
}

fn many(count: u64) -> Model {
    (0..count)
        .map(|number| (key(number % 7, number, b"a", number + 1), number.to_le_bytes().repeat(10)))
        .collect()
}

#[test]
fn a_flipped_bit_anywhere_is_an_error_that_names_run_and_offset() {
    let drive = SimDrive::new(SimConfig::default());
    let mut disk = SimDisk::new(&drive);
    let model = many(2000);
    let run = write(&mut disk, 7, &model);
    let (file, bytes) = (run.file, run.file_bytes());
    let mut seen = [0; 2];
    for offset in (0..bytes).step_by(1019) {
        drive.flip("run.7", offset, 3).unwrap();
        let error = match Run::open(&mut disk, TARGET, 7, file, bytes) {
            Err(error) => {
                seen[0] += 1;
                error
            }
            Ok(run) => {
                seen[1] += 1;
                all_of(&run, &mut Blocks::new(1 << 20).source(&mut disk)).unwrap_err()
            }
        };
        let Error::Corrupt { target: TARGET, place } = error else {
            panic!("byte {offset}: {error}");
        };
        let Place::Record { file: "run", number: 7, offset: at } = *place else {
            panic!("byte {offset}: {place:?}");
        };
        assert!(at <= offset && offset < at + 32768, "byte {offset} reported at {at}");
        drive.flip("run.7", offset, 3).unwrap();
    }
    assert!(seen[0] > 2 && seen[1] > 50);
    assert!(Run::open(&mut disk, TARGET, 8, file, bytes).is_err());
    assert!(Run::open(&mut disk, TARGET, 7, file, bytes + 4096).is_err());
    assert!(Run::open(&mut disk, TARGET, 7, file, 100).is_err());
    assert_eq!(all_of(&run, &mut Blocks::new(0).source(&mut disk)).unwrap(), model);
}

#[test]
fn the_cache_holds_its_budget_but_keeps_what_a_cursor_holds() {
    const BUDGET: usize = 10 * 4300;
    let mut disk = disk();
    let (old, new) = (write(&mut disk, 7, &many(3000)), write(&mut disk, 8, &many(3000)));
    let mut blocks = Blocks::new(BUDGET);
    let mut held = RunCursor::default();
    held.seek(&old, &[], &mut blocks.source(&mut disk)).unwrap();
    let first = held.entry().map(|(key, payload)| (key.to_vec(), payload.to_vec()));
    for run in [&old, &new] {
        assert_eq!(all_of(run, &mut blocks.source(&mut disk)).unwrap().len(), 3000);
        assert!(blocks.resident_bytes() <= BUDGET && blocks.resident_bytes() > BUDGET / 2);
    }
    assert_eq!(held.entry().map(|(key, payload)| (key.to_vec(), payload.to_vec())), first);
    blocks.forget(8);
    blocks.forget(7);
    assert_eq!(blocks.resident_bytes(), 0);
}

#[test]
fn the_resident_part_is_small() {
    let mut disk = disk();
    let run = write(&mut disk, 7, &many(20_000));
    assert!(
        (run.resident_bytes() as u64) < run.file_bytes() / 25,
        "{} of {}",
        run.resident_bytes(),
        run.file_bytes()
    );
    let wrong = (0..10_000u64).filter(|number| run.may_contain(hash(&number.to_le_bytes()))).count();
    assert!(wrong < 40, "{wrong} of 10000");
}

#[test]
fn a_merge_takes_no_more_than_its_runs_say_however_little_their_entries_share() {
    let mut disk = disk();
    let one = many(5000);
    let other: Model =
        (0..5000).map(|number| (key(number % 7, number, &[b'b'; 30], 9), vec![7; 60])).collect();
    let both: Model = one.iter().chain(&other).map(|(key, payload)| (key.clone(), payload.clone())).collect();
    let [one, other, both] =
        [(7, one), (8, other), (9, both)].map(|(at, model)| write(&mut disk, at, &model));
    let merged = both.file_bytes();
    assert!(merged > one.file_bytes() + other.file_bytes(), "in one block they share less");
    assert!(merged <= one.merged_bytes_max() + other.merged_bytes_max(), "{merged} bytes");
}
