//! How often each pool was taken from all who had it, for those who come back: who has connected before does not go on.
//!
//! The counts are in one small file beside the pools, which is replaced whole before an eviction is answered. It stays with the
//! directory that the daemon was started for, wherever that is moved.
//!
//! Invariants: a count never falls while its pool is there; what is not on record counts as none.

use dolmen_codec::bytes::{Reader, put_len};
use dolmen_env::HeldDir;
use dolmen_types::{Uuid, crc32c};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A directory beside the pools, and the file in it.
const DIRECTORY: &str = ".evicted";
const NAME: &str = "evictions";

const MAGIC: u64 = 0x5443_4956_454d_4c44;
const FORMAT: u32 = 1;
/// What this reader knows.
const FEATURES: u32 = 0;
const SUM_BYTES: usize = 4;
const ENTRY_BYTES: usize = 24;

/// The counts of all pools that were ever taken.
pub(crate) struct Evicted {
    dir: Arc<HeldDir>,
    // Guards: the counts and their file; nothing is taken while it is held.
    counts: Mutex<BTreeMap<Uuid, u64>>,
}

impl Evicted {
    /// Those of the system in `dir`, and whether they could be read: what is damaged counts as none.
    pub(crate) fn of(dir: &Arc<HeldDir>) -> (Self, bool) {
        let place = dir.path().join(DIRECTORY);
        let (counts, is_sound) = match dolmen_env::read_small(&place, NAME).map(|bytes| decode(&bytes)) {
            Ok(Some(counts)) => (counts, true),
            Err(error) if error.is_not_found() => (BTreeMap::new(), true),
            Ok(None) | Err(_) => (BTreeMap::new(), false),
        };
        (Self { dir: Arc::clone(dir), counts: Mutex::new(counts) }, is_sound)
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Uuid, u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often a pool was taken.
    pub(crate) fn count(&self, pool: Uuid) -> u64 {
        self.counts().get(&pool).copied().unwrap_or(0)
    }

    /// A pool was taken once more; those that are not `there` any more are forgotten.
    ///
    /// # Errors
    /// Those of the device; then it holds until the daemon ends.
    pub(crate) fn add(&self, pool: Uuid, there: &[Uuid]) -> dolmen_env::Result<()> {
        let mut counts = self.counts();
        counts.retain(|known, _| there.contains(known));
        *counts.entry(pool).or_default() += 1;
        self.dir.write_small(DIRECTORY, NAME, &encode(&counts))
    }
}

fn encode(counts: &BTreeMap<Uuid, u64>) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&FEATURES.to_le_bytes());
    put_len(&mut out, counts.len());
    for (pool, count) in counts {
        out.extend_from_slice(pool.as_bytes());
        out.extend_from_slice(&count.to_le_bytes());
    }
    let sum = crc32c(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> Option<BTreeMap<Uuid, u64>> {
    let (content, sum) = bytes.split_at(bytes.len().checked_sub(SUM_BYTES)?);
    let mut r = Reader::new(content);
    let is_known = r.u64() == Some(MAGIC) && r.u32() == Some(FORMAT) && r.u32() == Some(FEATURES);
    if !is_known || sum != crc32c(content).to_le_bytes() {
        return None;
    }
    let count = r.count(ENTRY_BYTES)?;
    let counts = (0..count).map(|_| Some((r.uuid()?, r.u64()?))).collect::<Option<_>>()?;
    (r.remaining() == 0).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_known_to_the_next_daemon_and_forgotten_with_their_pools() {
        let dir = std::env::temp_dir().join(format!("dolmen-evicted-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let held = Arc::new(HeldDir::open(&dir).unwrap());
        let [one, two] = [1, 2].map(Uuid::from_u128);
        let (evicted, is_sound) = Evicted::of(&held);
        assert!(is_sound && evicted.count(one) == 0);
        for pool in [one, one, two] {
            evicted.add(pool, &[one, two]).unwrap();
        }
        let (next, is_sound) = Evicted::of(&held);
        assert_eq!((is_sound, next.count(one), next.count(two)), (true, 2, 1));
        next.add(two, &[two]).unwrap();
        let (last, _) = Evicted::of(&held);
        assert_eq!((last.count(one), last.count(two)), (0, 2));
        let path = dir.join(DIRECTORY).join(NAME);
        let good = std::fs::read(&path).unwrap();
        let wanted = [
            b"DLMEVICT".as_slice(),
            &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
            two.as_bytes(),
            &[2, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(good[..good.len() - SUM_BYTES], wanted.concat());
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 4;
            assert!(decode(&bad).is_none() && decode(&good[..at]).is_none(), "byte {at}");
        }
        std::fs::write(&path, b"nothing").unwrap();
        let (damaged, is_sound) = Evicted::of(&held);
        assert_eq!((is_sound, damaged.count(two)), (false, 0));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
