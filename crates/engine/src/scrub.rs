//! The scrub that goes on by itself: every record and every value is read and verified in turn, at a bounded rate.
//!
//! It takes its turn when nothing else is to be done in the background. A step is bounded in entries and bytes,
//! but for the value or manifest that it ends with. Superblock and manifest are written again if they are damaged.
//! What it finds is counted at once and named by `check`, which looks again: what has been overwritten or freed since
//! is damage no longer. Damage of one entry hides none behind it.

use crate::cursor::{IndexCursor, PlaceRef};
use crate::error::is_unreadable;
use crate::metadata::RecordAt;
use crate::runs::Step;
use crate::target::Target;
use crate::tree::key::{KeyParts, decode_key, split_typed};
use dolmen_codec::verb::Finding;
use dolmen_types::{Error, Key, KeyKind, Place, Recx};
use std::collections::BTreeSet;

/// Entries that one step looks at.
const STEP_ENTRIES: usize = 256;
/// Bytes after which a step ends.
const STEP_BYTES: u64 = 256 << 10;
/// What looking at an entry counts, beside the pages of its value.
const ENTRY_BYTES: u64 = 128;
/// What a device reads at least: neighbours by key lie anywhere, so a small value costs a page of its own.
const PAGE_BYTES: u64 = 4 << 10;
/// What a pass counts at least: one over a small target would begin anew in every step, and an idle daemon reads its
/// superblocks for ever. At the default rate this is ten seconds.
const PASS_BYTES_MIN: u64 = 40 << 20;
/// Damaged versions that are remembered; more are counted.
const DAMAGED_MAX: usize = 1024;
/// The rule that a value breaks which does not match its checksum.
const BAD_VALUE: &str = "checksum";
/// The rule that a value breaks which the device does not give.
const UNREADABLE: &str = "unreadable";

/// How far the scrub has come, and what it has found.
#[derive(Default)]
pub(crate) struct Scrub {
    /// Records come before values.
    at: RecordAt,
    /// Damaged records that this pass, or the last one, has met.
    records: Vec<Finding>,
    /// Those that were written again, until an audit has told of them.
    pub(crate) repaired: Vec<Finding>,
    /// The last key verified.
    after: Vec<u8>,
    /// Bytes that may be read now, as far as time and rate have given them.
    credit_bytes: u64,
    credited_ns: u64,
    /// What this pass has counted so far, and what the last one has left to be paid before the next begins.
    pass_bytes: u64,
    owed_bytes: u64,
    pub(crate) verified_bytes: u64,
    /// Keys of the versions that did not verify.
    damaged: BTreeSet<Vec<u8>>,
    /// What this pass has met and there was no room for in a list, and the same of the pass before.
    unnamed: u64,
    unnamed_before: u64,
    /// Damaged blocks of runs that scrub or merges met: number of the run, and offset. A run has few beside what is
    /// resident of it: its fence.
    blocks: BTreeSet<(u64, u64)>,
}

impl Scrub {
    /// Versions, blocks and records found damaged, since the target was opened.
    pub(crate) fn damage_count(&self) -> u64 {
        let named = self.damaged.len() + self.blocks.len() + self.records.len() + self.repaired.len();
        named as u64 + self.unnamed.max(self.unnamed_before)
    }

    /// Remembers the block of a run that an error names, if it names one.
    pub(crate) fn note_block(&mut self, error: &Error) {
        if let Error::Corrupt { place, .. } = error
            && let Place::Record { file: "run", number, offset } = **place
        {
            self.blocks.insert((number, offset));
        }
    }

    /// Remembers that something in a run is damaged, who knows where.
    pub(crate) fn note_run(&mut self, run: u32) {
        self.blocks.insert((u64::from(run), 0));
    }

    /// Whether a block of this run was found damaged.
    pub(crate) fn is_run_damaged(&self, run: u32) -> bool {
        let run = u64::from(run);
        self.blocks.range((run, 0)..=(run, u64::MAX)).next().is_some()
    }

    /// A run is there no longer.
    pub(crate) fn forget_run(&mut self, run: u32) {
        self.blocks.retain(|&(number, _)| number != u64::from(run));
    }

    /// Takes what a step has read from what may be read.
    fn spend(&mut self, read_bytes: u64) {
        self.pass_bytes = self.pass_bytes.saturating_add(read_bytes);
        self.credit_bytes = self.credit_bytes.saturating_sub(read_bytes);
    }

    /// The next pass begins at the first record, when this one is paid for.
    fn end_pass(&mut self) {
        self.at = RecordAt::default();
        self.credit_bytes = 0;
        self.owed_bytes = PASS_BYTES_MIN.saturating_sub(core::mem::take(&mut self.pass_bytes));
    }

    /// Adds what the rate has given since the last time, a second's worth at most.
    fn credit(&mut self, bytes_per_s: u64, now_ns: u64) {
        const NS_PER_S: u64 = 1_000_000_000;
        let elapsed_ns = now_ns.saturating_sub(self.credited_ns).min(NS_PER_S);
        let earned = u128::from(bytes_per_s) * u128::from(elapsed_ns) / u128::from(NS_PER_S);
        if earned > 0 {
            self.credited_ns = now_ns;
            let earned = u64::try_from(earned).unwrap_or(u64::MAX);
            let paid = earned.min(self.owed_bytes);
            self.owed_bytes -= paid;
            let earned = earned - paid;
            self.credit_bytes = self.credit_bytes.saturating_add(earned).min(bytes_per_s);
        }
    }
}

impl Target {
    /// Verifies a few values; `Done` if it is not time for more.
    pub(crate) fn scrub_step(&mut self) -> Result<Step, Error> {
        let bytes_per_s = self.config.scrub_bytes_per_s;
        self.scrub.credit(bytes_per_s, self.epochs.now_ns());
        // Small steps would cost more in finding the place than in reading.
        if self.scrub.credit_bytes < STEP_BYTES.min(bytes_per_s).max(1) {
            return Ok(Step::Done);
        }
        if self.scrub.at != RecordAt::End {
            return self.scrub_records();
        }
        let after = core::mem::take(&mut self.scrub.after);
        let (at, read_bytes) = match self.scrub_from(after) {
            Ok(found) => found,
            Err(error @ Error::Corrupt { .. }) => {
                // A fence: what is behind it is out of reach, the scrub begins anew.
                self.scrub.note_block(&error);
                self.scrub.end_pass();
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        self.scrub.spend(read_bytes);
        match at {
            Some(at) => {
                self.scrub.after = at;
                Ok(Step::More)
            }
            None => {
                self.scrub.end_pass();
                Ok(Step::Done)
            }
        }
    }

    /// Verifies a few records, and writes those again that are in memory.
    fn scrub_records(&mut self) -> Result<Step, Error> {
        let at = self.scrub.at;
        if at == RecordAt::default() {
            self.scrub.records.clear();
            self.scrub.unnamed_before = core::mem::take(&mut self.scrub.unnamed);
        }
        let mut damaged = Vec::new();
        let verified = self.verify_records(at, &mut damaged);
        self.repair_records(&mut damaged);
        for finding in damaged {
            let is_repaired = finding.rule.ends_with("-repaired");
            let list = if is_repaired { &mut self.scrub.repaired } else { &mut self.scrub.records };
            if list.len() < DAMAGED_MAX {
                list.push(finding);
            } else {
                self.scrub.unnamed += 1;
            }
        }
        match verified {
            Ok((next, read_bytes)) => {
                self.scrub.at = next;
                self.scrub.spend(read_bytes);
                Ok(Step::More)
            }
            Err(error) => {
                // What follows is looked at all the same.
                self.scrub.at = at.following();
                Err(error)
            }
        }
    }

    /// Verifies what follows `after`: the last key and the bytes read, or no key at the end.
    fn scrub_from(&mut self, mut after: Vec<u8>) -> Result<(Option<Vec<u8>>, u64), Error> {
        let mut cursor = IndexCursor::default();
        let mut read_bytes = self.store.reseek_intact(&mut cursor, &after, &mut self.scrub.blocks)?;
        for _ in 0..STEP_ENTRIES {
            let Some(key) = cursor.key() else {
                return Ok((None, read_bytes));
            };
            if *key != after[..] {
                after.clear();
                after.extend_from_slice(key);
                let (value_bytes, damage) = match self.verify_entry(&after, cursor.place()) {
                    Ok(found) => found,
                    Err(error) => {
                        // The device's: what follows is looked at all the same.
                        self.scrub.after = after;
                        return Err(error);
                    }
                };
                self.scrub.verified_bytes += value_bytes;
                read_bytes += value_bytes.next_multiple_of(PAGE_BYTES) + ENTRY_BYTES;
                if damage.is_some() {
                    self.note_damage(&after);
                }
                if read_bytes >= STEP_BYTES.min(self.scrub.credit_bytes) {
                    break;
                }
            }
            read_bytes += self.store.advance_intact(&mut cursor, &mut self.scrub.blocks)?;
        }
        Ok((Some(after), read_bytes))
    }

    fn note_damage(&mut self, key: &[u8]) {
        if self.scrub.damaged.contains(key) {
            return;
        }
        if self.scrub.damaged.len() < DAMAGED_MAX {
            self.scrub.damaged.insert(key.to_vec());
        } else {
            self.scrub.unnamed += 1;
        }
    }

    /// Reads and verifies version and value of an entry: the bytes of the value, and what is wrong.
    pub(crate) fn verify_entry(
        &mut self,
        key: &[u8],
        place: PlaceRef<'_>,
    ) -> Result<(u64, Option<Finding>), Error> {
        let Some(parts) = split_typed(key) else {
            return Ok((0, Some(bad_key())));
        };
        let (version, value) = match self.store.index.version(&self.store.log, place) {
            Ok(found) => found,
            Err(error) if is_damage(&error) => return Ok((0, Some(bad_version(&parts)))),
            Err(error) => return Err(error),
        };
        if version.value_bytes == 0 {
            return Ok((0, None));
        }
        let extent = version.kind.is_array().then_some(version.recx);
        let (dkey, akey) = (version.dkey.to_vec(), version.akey.to_vec());
        let stored = crate::value::stored(&version, value);
        let rule = match self.store.verify_value(&stored) {
            Ok(()) => return Ok((stored.len() as u64, None)),
            Err(Error::Corrupt { .. }) => BAD_VALUE,
            Err(error) if is_unreadable(&error) => UNREADABLE,
            Err(error) => return Err(error),
        };
        let (dkey, akey) = (dkey[..].into(), akey[..].into());
        let place = Place::Value { cont: parts.cont, oid: parts.oid, dkey, akey, extent };
        Ok((stored.len() as u64, Some(Finding { place, rule })))
    }

    /// The values that the scrub has found damaged so far and are still there. An audit names keys and versions itself.
    pub(crate) fn scrubbed_damage(&mut self) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        for key in core::mem::take(&mut self.scrub.damaged) {
            let mut cursor = IndexCursor::default();
            self.store.reseek_intact(&mut cursor, &key, &mut BTreeSet::new())?;
            if cursor.key().is_some_and(|found| *found == key[..])
                && let (_, Some(finding)) = self.verify_entry(&key, cursor.place())?
            {
                findings
                    .extend(Some(finding).filter(|finding| [BAD_VALUE, UNREADABLE].contains(&finding.rule)));
                self.scrub.damaged.insert(key);
            }
        }
        Ok(findings)
    }
}

/// Whether an error says that something on the device is lost, and not that the target cannot go on.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. }) || is_unreadable(error)
}

/// A key of the index that cannot be split.
pub(crate) fn bad_key() -> Finding {
    Finding { place: Place::Record { file: "run", number: 0, offset: 0 }, rule: "index-key" }
}

/// A version whose record cannot be read, by what its key tells: of a hashed key nothing, of an extent its first record.
pub(crate) fn bad_version(parts: &KeyParts<'_>) -> Finding {
    let name = |encoded: Option<&[u8]>, kind: Option<KeyKind>| -> Key {
        let known = encoded.zip(kind).and_then(|(encoded, kind)| decode_key(encoded, kind));
        known.into_iter().flatten().collect()
    };
    let object_type = parts.oid.object_type();
    let dkey = name(parts.dkey, object_type.map(|of| of.dkey_kind()));
    let akey = name(parts.akey, object_type.map(|of| of.akey_kind()));
    let extent = parts.kind.is_array().then(|| Recx::new(parts.offset, 1));
    let place = Place::Value { cont: parts.cont, oid: parts.oid, dkey, akey, extent };
    Finding { place, rule: "version-record" }
}
