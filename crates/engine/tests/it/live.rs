//! Bits that flip in the log of an open store: the mapping shows them at once, long before anybody verifies frames again.

use crate::rig::{CONT, Rig, oid, tiny};
use dolmen_codec::order::HashKey;
use dolmen_codec::verb::{
    ContSpec, ContVerb, Finding, Mutation, NewValue, Payload, Prepare, ReadAt, Reply, Update, UpdateIod,
    Verb, Want,
};
use dolmen_engine::{Devices, Target, TargetConfig};
use dolmen_env::{Media, RealDisk, Rng};
use dolmen_types::{
    Cond, Durability, Epoch, Error, Key, ObjectClass, ObjectType, Oid, Place, Recx, TargetNo, TxId,
};
use smallvec::smallvec;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const AKEY: &[u8] = b"akey-of-array";
/// More than the head of a record takes before its akey, and than there is behind it.
const BEFORE: usize = 24 + 7 + 4 + 2;
const BEHIND: usize = 4 + 8;

/// Times that a scrub reads everything: one a second, as there is little.
const PASSES: u64 = 4;

/// A store on a real device, removed in the end.
struct OnDevice {
    dir: PathBuf,
    rig: Rig,
}

impl OnDevice {
    fn new(parent: &Path) -> Self {
        Self::with_config(parent, tiny())
    }

    fn with_config(parent: &Path, config: TargetConfig) -> Self {
        let number = Rng::from_entropy().unwrap().next_u64();
        let dir = parent.join(format!("dolmen-live-{number:x}"));
        std::fs::create_dir_all(&dir).unwrap();
        // A second pays for a whole pass.
        let config = TargetConfig { scrub_bytes_per_s: 64 << 20, ..config };
        let mut rig = Rig::bare(Media::Block, config.clone());
        let made = Target::create(devices(&dir), Arc::new(rig.clock.clone()), 7, &config);
        rig.target = Some(made.unwrap());
        let spec = ContSpec { hash_key: HashKey([5; 16]), durability: Durability::Process };
        rig.ask(Verb::Cont(ContVerb::Create(spec))).unwrap();
        rig.write(oid(1), b"dk", AKEY, 0, 1, &[b'O'; 32]).unwrap();
        Self { dir, rig }
    }

    /// Lets the target scrub all it has some times: what it has found damaged, and how many bytes it has verified.
    fn scrub(&mut self) -> (u64, u64) {
        let before = self.rig.space().scrubbed_bytes;
        for _ in 0..PASSES {
            self.rig.clock.advance(1_000_000_000);
            self.rig.work();
        }
        let space = self.rig.space();
        (space.damage_count, space.scrubbed_bytes - before)
    }

    fn findings(&mut self, verb: Verb<'_>) -> Vec<Finding> {
        match self.rig.ask(verb) {
            Ok(Reply::Audited(audit)) => audit.findings,
            other => panic!("{other:?}"),
        }
    }

    /// Flips a bit so many bytes before the only place of these bytes in the log.
    fn flip_before(&self, bytes: &[u8], distance: usize) {
        let (file, log, _) = self.log();
        let at = log.windows(bytes.len()).position(|part| part == bytes).unwrap() - distance;
        file.write_all_at(&[log[at] ^ 1], at as u64).unwrap();
    }

    /// Writes over a part of the array, or removes it.
    fn change(&mut self, is_hole: bool) {
        let hole = NewValue::Hole { extents: smallvec![Recx::new(8, 8)] };
        if is_hole {
            self.rig.update(oid(1), b"dk", Cond::NONE, AKEY, hole).unwrap();
        } else {
            self.rig.write(oid(1), b"dk", AKEY, 8, 1, &[b'N'; 8]).unwrap();
        }
    }

    fn fetch(&mut self) -> Result<Vec<u8>, Error> {
        let want = Want::Array { record_bytes: 1, extents: [Recx::new(0, 64)].into_iter().collect() };
        self.rig.fetch(oid(1), b"dk", AKEY, want, 64, ReadAt::Latest).map(|(_, _, bytes)| bytes)
    }

    /// The log, what it holds, and where the akey of the last record stands.
    fn log(&self) -> (File, Vec<u8>, usize) {
        let path = self.dir.join("log.00000000");
        let bytes = std::fs::read(&path).unwrap();
        let akey = bytes.windows(AKEY.len()).rposition(|part| part == AKEY).unwrap();
        (File::options().write(true).open(&path).unwrap(), bytes, akey)
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        self.rig.target = None;
        // Ignored: what cannot be removed lies in the system's folder for such things.
        let _removed = std::fs::remove_dir_all(&self.dir);
    }
}

fn devices(dir: &Path) -> Devices {
    Devices { meta: Box::new(RealDisk::open(dir).unwrap()), bulk: None }
}

/// An aggregation up to now, to its end.
fn aggregate(rig: &mut Rig) -> Result<u64, Error> {
    loop {
        match rig.ask(Verb::Cont(ContVerb::Aggregate(Epoch::MAX)))? {
            Reply::Aggregated { more: true, .. } => {}
            Reply::Aggregated { freed, .. } => return Ok(freed),
            other => panic!("{other:?}"),
        }
    }
}

fn places() -> [PathBuf; 2] {
    [std::env::temp_dir(), PathBuf::from("/dev/shm")]
}

#[test]
fn a_flipped_bit_of_the_live_log_is_never_returned() {
    for (place, is_hole) in places().iter().flat_map(|place| [(place, false), (place, true)]) {
        let mut store = OnDevice::new(place);
        store.change(is_hole);
        let right = store.fetch().unwrap();
        let (file, bytes, akey) = store.log();
        for at in akey - BEFORE..akey + AKEY.len() + BEHIND {
            for bit in 0..8 {
                file.write_all_at(&[bytes[at] ^ 1 << bit], at as u64).unwrap();
                match store.fetch() {
                    Ok(found) => assert_eq!(found, right, "{place:?} byte {at} bit {bit}, akey at {akey}"),
                    Err(Error::Corrupt { .. }) => {}
                    Err(error) => panic!("{place:?} byte {at} bit {bit}, akey at {akey}: {error:?}"),
                }
                file.write_all_at(&bytes[at..=at], at as u64).unwrap();
            }
        }
        assert_eq!(store.fetch().unwrap(), right, "{place:?}");
    }
}

#[test]
fn no_checkpoint_gives_a_flipped_bit_of_the_live_log_a_right_checksum() {
    for place in places() {
        let mut store = OnDevice::new(&place);
        store.change(false);
        let right = store.fetch().unwrap();
        let (file, bytes, akey) = store.log();
        let mut refused = 0;
        for at in akey - BEFORE..akey {
            file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
            let is_refused = matches!(store.rig.ask(Verb::Checkpoint), Err(Error::Corrupt { .. }));
            if is_refused {
                let aggregated = aggregate(&mut store.rig);
                assert!(
                    matches!(aggregated, Err(Error::Corrupt { .. })),
                    "{place:?} byte {at}: {aggregated:?}"
                );
            }
            refused += u32::from(is_refused);
            let Ok(Reply::Audited(audit)) = store.rig.ask(Verb::Scrub) else {
                panic!("a scrub of {place:?} answers");
            };
            assert!(!audit.findings.is_empty() || refused == 0, "{place:?} byte {at}");
            file.write_all_at(&bytes[at..=at], at as u64).unwrap();
        }
        assert!(refused > 10, "{refused} of {BEFORE}, {place:?}");
        assert!(matches!(store.rig.ask(Verb::Checkpoint), Ok(Reply::Done)), "{place:?}");
        assert_eq!(store.fetch().unwrap(), right, "{place:?}");
    }
}

#[test]
fn no_checkpoint_carries_a_damaged_transaction_on() {
    for place in places() {
        let mut store = OnDevice::new(&place);
        let tx = TxId { client: 9, begin: store.rig.put(oid(2), b"d", b"a", b"before").unwrap().next() };
        let value = NewValue::Single(Payload::Ref(b"prepared"));
        let iods = smallvec![UpdateIod { akey: Key::from_slice(AKEY), cond: Cond::NONE, value }];
        let update =
            Update { oid: oid(1), dkey: Key::from_slice(b"dk"), cond: Cond::NONE, iods, charged: None };
        let prepare = Prepare {
            tx,
            epoch: tx.begin,
            leader: TargetNo(1),
            participants: smallvec![TargetNo(0), TargetNo(1)],
            mutations: vec![Mutation::Update(update)],
        };
        assert!(matches!(store.rig.ask(Verb::Prepare(prepare)), Ok(Reply::Prepared)));
        let (file, bytes, akey) = store.log();
        file.write_all_at(&[bytes[akey] ^ 1], akey as u64).unwrap();
        assert!(matches!(store.rig.ask(Verb::Checkpoint), Err(Error::Corrupt { .. })), "{place:?}");
        file.write_all_at(&bytes[akey..=akey], akey as u64).unwrap();
        assert!(matches!(store.rig.ask(Verb::Checkpoint), Ok(Reply::Done)), "{place:?}");
        assert!(matches!(store.rig.ask(Verb::Commit(tx)), Ok(Reply::Done)), "{place:?}");
        assert_eq!(store.rig.get(oid(1), b"dk", AKEY), Some(b"prepared".to_vec()), "{place:?}");
    }
}

#[test]
fn a_damaged_version_of_the_live_log_hides_nothing_from_scrub_and_check() {
    for place in places() {
        let mut store = OnDevice::new(&place);
        let lexical = Oid::new(ObjectType::MultiLexical, ObjectClass::S1, 0, 2);
        for number in 1..=4_u8 {
            store.rig.put(lexical, &[b'd', number], b"single", &[b'0' + number; 100]).unwrap();
        }
        store.rig.write(lexical, b"e", b"array", 70, 1, &[b'5'; 100]).unwrap();
        store.rig.write(oid(3), b"hashed", b"array", 0, 1, &[b'6'; 100]).unwrap();
        let (count, scrubbed) = store.scrub();
        assert_eq!(count, 0, "{place:?}");
        // The checksum of a version stands behind its keys, before its value.
        for damaged in [b'2', b'5', b'6'] {
            store.flip_before(&[damaged; 100], 1);
        }
        store.flip_before(&[b'3'; 100], 0);
        for _ in 0..4 {
            let (count, verified) = store.scrub();
            assert_eq!(
                count,
                3 + 1 + 1,
                "{place:?}: versions, value and what follows the first damaged frame"
            );
            assert_eq!(verified, scrubbed - PASSES * 300, "{place:?}: but for the values of those versions");
        }
        let value = |oid, dkey: &[u8], akey: &[u8], extent, rule| Finding {
            place: Place::Value { cont: CONT, oid, dkey: dkey.into(), akey: akey.into(), extent },
            rule,
        };
        let right = [
            value(oid(3), b"", b"", Some(Recx::new(0, 1)), "version-record"),
            value(lexical, &[b'd', 2], b"single", None, "version-record"),
            value(lexical, &[b'd', 3], b"single", None, "checksum"),
            value(lexical, b"e", b"array", Some(Recx::new(70, 1)), "version-record"),
        ];
        for verb in [Verb::Check, Verb::Scrub] {
            let mut found = store.findings(verb);
            let is_frame = |finding: &mut Finding| finding.rule == "log-frame";
            assert_eq!(found.extract_if(.., is_frame).count(), 1, "{place:?}");
            found.sort_by_key(|finding| format!("{:?}", finding.place));
            let mut right = right.to_vec();
            right.sort_by_key(|finding| format!("{:?}", finding.place));
            assert_eq!(found, right, "{place:?}");
        }
        assert!(matches!(store.rig.ask(Verb::Checkpoint), Err(Error::Corrupt { .. })), "{place:?}");
        assert_eq!(store.rig.get(lexical, &[b'd', 4], b"single"), Some(vec![b'4'; 100]), "{place:?}");
    }
}

#[test]
fn a_checkpoint_that_damage_of_the_live_log_stops_does_not_stop_the_scrub() {
    for place in places() {
        let mut store = OnDevice::with_config(&place, TargetConfig { checkpoint_log_bytes: 4096, ..tiny() });
        store.rig.put(oid(2), b"d", b"damaged", &[b'1'; 100]).unwrap();
        store.flip_before(&[b'1'; 100], 1);
        for number in 0..10_u8 {
            store.rig.put(oid(2), &[number], b"a", &[b'2'; 500]).unwrap();
        }
        for _ in 0..3 {
            let (count, verified) = store.scrub();
            assert_eq!(count, 2, "{place:?}: version and frame");
            assert!(verified >= 10 * 500, "{place:?}: {verified} bytes");
        }
        assert!(matches!(store.rig.ask(Verb::Checkpoint), Err(Error::Corrupt { .. })), "{place:?}");
    }
}
