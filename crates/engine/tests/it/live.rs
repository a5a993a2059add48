//! Bits that flip in the log of an open store: the mapping shows them at once, long before anybody verifies frames again.

use crate::rig::{Rig, oid, tiny};
use dolmen_codec::order::HashKey;
use dolmen_codec::verb::{
    ContSpec, ContVerb, Mutation, NewValue, Payload, Prepare, ReadAt, Reply, Update, UpdateIod, Verb, Want,
};
use dolmen_engine::{Devices, Target};
use dolmen_env::{Media, RealDisk, Rng};
use dolmen_types::{Cond, Durability, Epoch, Error, Key, Recx, TargetNo, TxId};
use smallvec::smallvec;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const AKEY: &[u8] = b"akey-of-array";
/// More than the head of a record takes before its akey, and than there is behind it.
const BEFORE: usize = 24 + 7 + 4 + 2;
const BEHIND: usize = 4 + 8;

/// A store on a real device, removed in the end.
struct OnDevice {
    dir: PathBuf,
    rig: Rig,
}

impl OnDevice {
    fn new(parent: &Path) -> Self {
        let number = Rng::from_entropy().unwrap().next_u64();
        let dir = parent.join(format!("dolmen-live-{number:x}"));
        std::fs::create_dir_all(&dir).unwrap();
        let mut rig = Rig::bare(Media::Block, tiny());
        let made = Target::create(devices(&dir), Arc::new(rig.clock.clone()), 7, &tiny());
        rig.target = Some(made.unwrap());
        let spec = ContSpec { hash_key: HashKey([5; 16]), durability: Durability::Process };
        rig.ask(Verb::Cont(ContVerb::Create(spec))).unwrap();
        rig.write(oid(1), b"dk", AKEY, 0, 1, &[b'O'; 32]).unwrap();
        Self { dir, rig }
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
        let update = Update { oid: oid(1), dkey: Key::from_slice(b"dk"), cond: Cond::NONE, iods };
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
