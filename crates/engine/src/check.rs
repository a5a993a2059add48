//! The audit of every invariant, and the scrub of every byte. Both read only.

use crate::cursor::{IndexCursor, PlaceRef};
use crate::gifts::Gifts;
use crate::log::LogPlace;
use crate::metadata::RecordAt;
use crate::path::{Depth, Path};
use crate::scrub::{bad_key, bad_version, is_damage};
use crate::store::resolve;
use crate::target::Target;
use crate::tree::key::split_typed;
use dolmen_codec::log_body::logged_bytes_of;
use dolmen_codec::quota::Charges;
use dolmen_codec::verb::{Audit, Finding, Usage};
use dolmen_codec::version::{ValuePlace, Version};
use dolmen_types::{ContNo, Epoch, Error, Key, Oid, Place, Recx, crc32c, limits};
use std::collections::{BTreeMap, BTreeSet};

/// Part of the memory budget that places of small values take while a scrub gathers them.
const SMALL_SHARE: u64 = 8;
/// Small values that are gathered at least: fewer would be read nearly in the order of keys.
const SMALL_MIN: usize = 4096;

/// A value in the log that waits for its turn to be verified.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SmallValue {
    segment: u32,
    offset: u32,
    bytes: u32,
    sum: u32,
}

/// What lies within so many bytes is read at once, unless there is a gap of so many between two values.
const SPAN_BYTES: u64 = 256 << 10;
const GAP_BYTES: u64 = 16 << 10;

impl SmallValue {
    fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.bytes)
    }

    /// Whether it is read together with the value before it and those from `first` on.
    fn is_near(&self, before: &Self, first: &Self) -> bool {
        self.segment == first.segment
            && u64::from(self.offset) <= before.end() + GAP_BYTES
            && self.end() <= u64::from(first.offset) + SPAN_BYTES
            && self.end() >= before.end()
    }
}

/// An array that the walk is in, and the record size of the first of its extents.
#[derive(Default)]
struct ArraySizes {
    /// The flat key of its akey.
    prefix: Vec<u8>,
    record_bytes: u32,
    has_others: bool,
}

impl ArraySizes {
    /// Whether this is the first extent of the array at `prefix` that has another record size.
    fn is_first_other(&mut self, prefix: &[u8], record_bytes: u32) -> bool {
        if prefix != &self.prefix[..] {
            self.prefix.clear();
            self.prefix.extend_from_slice(prefix);
            (self.record_bytes, self.has_others) = (record_bytes, false);
        }
        !self.has_others && {
            self.has_others = record_bytes != self.record_bytes;
            self.has_others
        }
    }
}

/// An akey by its names.
struct Akey {
    cont: ContNo,
    oid: Oid,
    dkey: Key,
    akey: Key,
}

/// What one walk over the index gathers.
#[derive(Default)]
struct Sums {
    audit: Audit,
    /// Units of bulk that versions refer to, by their first.
    units: BTreeMap<(u32, u32), u32>,
    /// Bytes of values in each segment of the log.
    live: BTreeMap<u32, u64>,
    /// What the versions of each container take.
    usage: BTreeMap<ContNo, Usage>,
    /// What these count against limits.
    charges: BTreeMap<ContNo, Charges>,
    /// Whether something is in none of these because it could not be read.
    is_short: bool,
    /// Values in the log not verified yet, and the key of the first.
    small: Vec<SmallValue>,
    first_small: Vec<u8>,
    sizes: ArraySizes,
    /// The object whose entries pass, and its gifts.
    gifts: Option<((ContNo, Oid), Gifts)>,
    /// The array here has extents of several record sizes: are they visible together?
    mixed: Option<Akey>,
}

impl Target {
    /// Audits index against log, bulk and accounts, and what the next open needs, past whatever is damaged, without
    /// reading values but those that the scrub found damaged.
    pub(crate) fn check(&mut self) -> Result<Audit, Error> {
        let mut audit = self.audit(false)?;
        self.scrubbed_damage()?.into_iter().for_each(|finding| audit.note(finding));
        Ok(audit)
    }

    /// As `check`, and reads and verifies every value.
    pub(crate) fn scrub(&mut self) -> Result<Audit, Error> {
        self.audit(true)
    }

    fn audit(&mut self, values: bool) -> Result<Audit, Error> {
        let mut sums = Sums::default();
        self.audit_records(&mut sums.audit)?;
        self.store.index.delta.check();
        let batch = self.config.memory_budget_bytes / SMALL_SHARE / size_of::<SmallValue>() as u64;
        let batch = usize::try_from(batch).unwrap_or(usize::MAX).max(SMALL_MIN);
        let mut cursor = IndexCursor::default();
        let mut damaged = BTreeSet::new();
        self.store.reseek_intact(&mut cursor, &[], &mut damaged)?;
        let mut previous: Vec<u8> = Vec::new();
        while let Some(key) = cursor.key() {
            if !previous.is_empty() && *key <= previous[..] {
                sums.audit.note(finding("run", 0, 0, "index-order"));
            }
            previous.clear();
            previous.extend_from_slice(key);
            if sums.small.is_empty() {
                sums.first_small.clone_from(&previous);
            }
            self.audit_entry(&previous, cursor.place(), values, &mut sums)?;
            if let Some(array) = sums.mixed.take() {
                self.audit_record_sizes(&array, &mut sums.audit)?;
            }
            if sums.small.len() >= batch {
                self.verify_small(&mut sums, &previous)?;
            }
            self.store.advance_intact(&mut cursor, &mut damaged)?;
        }
        self.verify_small(&mut sums, &previous)?;
        for (number, len) in self.store.bulk.cut_short(self.store.disks.bulk()) {
            sums.audit.note(finding("bulk", u64::from(number), len, "bulk-length"));
        }
        // Nobody knows what it refers to that could not be read.
        if damaged.is_empty() && !sums.is_short {
            self.audit_units(&sums.units, &mut sums.audit);
            self.audit_accounts(&sums.live, (&sums.usage, &sums.charges), &mut sums.audit);
        }
        for (run, offset) in damaged {
            sums.audit.note(finding("run", run, offset, "run-block"));
        }
        Ok(sums.audit)
    }

    /// The records that the next open needs, and what the scrub in the background has written again of them.
    fn audit_records(&mut self, audit: &mut Audit) -> Result<(), Error> {
        let mut found = core::mem::take(&mut self.scrub.repaired);
        let mut at = RecordAt::default();
        while at != RecordAt::End {
            at = self.verify_records(at, &mut found)?.0;
        }
        found.into_iter().for_each(|finding| audit.note(finding));
        Ok(())
    }

    /// Looks up the gifts of the object whose entries are about to pass, unless it is the one before.
    fn audit_gifts(&mut self, of: (ContNo, Oid), sums: &mut Sums) -> Result<(), Error> {
        if sums.gifts.as_ref().is_none_or(|(known, _)| *known != of) {
            let gifts = match self.store.gifts(of.0, of.1) {
                Err(error) if is_damage(&error) => {
                    sums.is_short = true;
                    Gifts::default()
                }
                gifts => gifts?,
            };
            sums.gifts = Some((of, gifts));
        }
        Ok(())
    }

    fn audit_entry(
        &mut self,
        key: &[u8],
        place: PlaceRef<'_>,
        values: bool,
        sums: &mut Sums,
    ) -> Result<(), Error> {
        sums.audit.versions += 1;
        let Some(parts) = split_typed(key) else {
            sums.audit.note(bad_key());
            sums.is_short = true;
            return Ok(());
        };
        self.audit_gifts((parts.cont, parts.oid), sums)?;
        let audit = &mut sums.audit;
        let (version, value) = match self.store.index.version(&self.store.log, place) {
            Ok(found) => found,
            Err(error) if is_damage(&error) => {
                audit.note(bad_version(&parts));
                sums.is_short = true;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if version.value_bytes == 0 {
            return Ok(());
        }
        if version.kind.is_array()
            && sums.sizes.is_first_other(&key[..parts.prefix_bytes()], version.record_bytes)
        {
            let (dkey, akey) = (Key::from_slice(version.dkey), Key::from_slice(version.akey));
            sums.mixed = Some(Akey { cont: parts.cont, oid: parts.oid, dkey, akey });
        }
        let payer = sums.gifts.as_ref().map_or(version.cred, |of| of.1.payer(parts.stamp, version.cred));
        count((parts.cont, payer), &version, value, (&mut sums.usage, &mut sums.charges));
        let stored = crate::value::stored(&version, value);
        if let ValuePlace::Log { segment, offset } = value {
            *sums.live.entry(segment).or_default() += logged_bytes_of(&version);
            if let (true, Some(sum)) = (values, stored.only_sum()) {
                sums.small.push(SmallValue { segment, offset, bytes: version.value_bytes, sum });
                return Ok(());
            }
        }
        if let Some((bulk, count)) = stored.bulk() {
            let is_shared = sums.units.insert((bulk.segment, bulk.unit), count).is_some();
            let is_free = !self.store.bulk.is_used(bulk, count);
            let place = || Place::Value {
                cont: parts.cont,
                oid: parts.oid,
                dkey: version.dkey.into(),
                akey: version.akey.into(),
                extent: version.kind.is_array().then_some(version.recx),
            };
            let rules = [(is_shared, "bulk-shared"), (is_free, "bulk-free")];
            let broken = rules.into_iter().filter(|(is_broken, _)| *is_broken);
            broken.for_each(|(_, rule)| audit.note(Finding { place: place(), rule }));
        }
        if values {
            let (bytes, damage) = self.verify_entry(key, place)?;
            audit.verified_bytes += if damage.is_none() { bytes } else { 0 };
            damage.into_iter().for_each(|finding| audit.note(finding));
        }
        Ok(())
    }

    /// Visible data of one array has one record size.
    fn audit_record_sizes(&mut self, array: &Akey, audit: &mut Audit) -> Result<(), Error> {
        match self.other_record_size(array) {
            Ok(None) => Ok(()),
            Ok(Some(recx)) => {
                let Akey { cont, oid, dkey, akey } = array;
                let (dkey, akey) = (dkey[..].into(), akey[..].into());
                let place = Place::Value { cont: *cont, oid: *oid, dkey, akey, extent: Some(recx) };
                audit.note(Finding { place, rule: "record-size" });
                Ok(())
            }
            // Said by the walk over everything, or, of a container that is destroyed, nobody's business.
            Err(Error::Corrupt { .. } | Error::NoContainer) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The first visible extent of an array that has another record size than what is visible before it.
    fn other_record_size(&mut self, array: &Akey) -> Result<Option<Recx>, Error> {
        let known = self.conts.find(array.cont)?;
        let (view, secret) = (known.view(Epoch::MAX), known.state.spec.hash_key);
        let mut path = Path::default();
        path.object(array.cont, secret, array.oid)?;
        path.down(Depth::Akey, &array.dkey, &array.akey)?;
        let cover = self.store.cover(&mut path, Depth::Akey, &view)?;
        let (mut extents, mut pieces) = (Vec::new(), Vec::new());
        let (mut from, mut first_bytes) = (0, None);
        while let Some((start, record_bytes)) = self.store.first_record(&mut path, from, &view, cover)? {
            let first_bytes = *first_bytes.get_or_insert(record_bytes);
            let end = (start / limits::WINDOW_RECORDS + 1).saturating_mul(limits::WINDOW_RECORDS);
            self.store.extents(&mut path, (start, end), &view, cover, &mut extents)?;
            resolve(&mut extents, (start, end), &mut pieces);
            let mut visible = pieces.iter().map(|piece| &extents[piece.extent]);
            if let Some(other) = visible.find(|extent| extent.record_bytes != first_bytes) {
                return Ok(Some(other.recx));
            }
            if end == u64::MAX {
                break;
            }
            from = end;
        }
        Ok(None)
    }

    /// Reads and verifies what was gathered, in the order in which it lies on the device: in the order of keys,
    /// which is another, each value would cost an access of its own. The last of the keys is `last`.
    fn verify_small(&mut self, sums: &mut Sums, last: &[u8]) -> Result<(), Error> {
        sums.small.sort_unstable();
        let mut damaged = BTreeSet::new();
        let mut bytes = Vec::new();
        let mut rest = &sums.small[..];
        while let Some(first) = rest.first() {
            let near = 1 + rest.windows(2).take_while(|pair| pair[1].is_near(&pair[0], first)).count();
            let (span, behind) = rest.split_at(near);
            sums.audit.verified_bytes += self.verify_span(span, &mut bytes, &mut damaged)?;
            rest = behind;
        }
        sums.small.clear();
        if damaged.is_empty() {
            return Ok(());
        }
        self.name_damaged(&damaged, &sums.first_small, last, &mut sums.audit)
    }

    /// Verifies values that lie near each other by one read; returns how many of their bytes are right.
    fn verify_span(
        &mut self,
        span: &[SmallValue],
        bytes: &mut Vec<u8>,
        damaged: &mut BTreeSet<LogPlace>,
    ) -> Result<u64, Error> {
        let (first, last) = (&span[0], &span[span.len() - 1]);
        let at = |value: &SmallValue| LogPlace { segment: value.segment, offset: value.offset };
        if last.end() > self.store.log.segment_bytes() && span.len() == 1 {
            damaged.insert(at(first));
            return Ok(0);
        }
        bytes.resize(usize::try_from(last.end() - u64::from(first.offset)).expect("within a segment"), 0);
        match self.store.log.read(&mut *self.store.disks.meta, at(first), bytes) {
            Ok(()) => {}
            // One of them lies outside of the log, or what lies between them cannot be read.
            Err(_) if span.len() > 1 => {
                return span.iter().map(|value| self.verify_span(&[*value], bytes, damaged)).sum();
            }
            Err(error) if is_damage(&error) => {
                damaged.insert(at(first));
                return Ok(0);
            }
            Err(error) => return Err(error),
        }
        let mut verified = 0;
        for value in span {
            let start = (value.offset - first.offset) as usize;
            if crc32c(&bytes[start..start + value.bytes as usize]) == value.sum {
                verified += u64::from(value.bytes);
            } else {
                damaged.insert(at(value));
            }
        }
        Ok(verified)
    }

    /// Finds the keys, from `first` to `last`, whose values lie at damaged places.
    fn name_damaged(
        &mut self,
        damaged: &BTreeSet<LogPlace>,
        first: &[u8],
        last: &[u8],
        audit: &mut Audit,
    ) -> Result<(), Error> {
        let mut cursor = IndexCursor::default();
        // Damaged blocks are noted by the walk that gathered the values.
        let mut noted = BTreeSet::new();
        self.store.reseek_intact(&mut cursor, first, &mut noted)?;
        while let Some(key) = cursor.key()
            && *key <= *last
        {
            let key = key.to_vec();
            let place = cursor.place();
            if let Ok((_, ValuePlace::Log { segment, offset })) =
                self.store.index.version(&self.store.log, place)
                && damaged.contains(&LogPlace { segment, offset })
            {
                let (_, damage) = self.verify_entry(&key, place)?;
                damage.into_iter().for_each(|finding| audit.note(finding));
            }
            self.store.advance_intact(&mut cursor, &mut noted)?;
        }
        Ok(())
    }

    /// Units in use are those that versions, operations under way and prepared transactions refer to.
    fn audit_units(&self, units: &BTreeMap<(u32, u32), u32>, audit: &mut Audit) {
        let mut referred: BTreeMap<(u32, u32), u32> = units.clone();
        referred.extend(
            self.store.bulk.unreferenced().map(|(place, count)| ((place.segment, place.unit), count)),
        );
        for prepared in self.txs.prepared.values() {
            for version in &prepared.versions {
                let place =
                    crate::index::EntryPlace::Log(crate::update::offset_place(prepared.body, version.offset));
                if let Ok(stored) = self.store.stored(&place)
                    && let Some((bulk, count)) = stored.bulk()
                {
                    referred.insert((bulk.segment, bulk.unit), count);
                }
            }
        }
        let mut end = (0, 0);
        for (&(segment, unit), &count) in &referred {
            if segment == end.0 && unit < end.1 {
                let offset = u64::from(unit) * limits::BULK_UNIT_BYTES;
                audit.note(finding("bulk", u64::from(segment), offset, "bulk-overlap"));
            }
            end = (segment, unit.saturating_add(count));
        }
        let total: u64 = referred.values().map(|&count| u64::from(count) * limits::BULK_UNIT_BYTES).sum();
        if total != self.store.bulk.used_bytes() {
            audit.note(finding("bulk", 0, 0, "bulk-leak"));
        }
    }

    fn audit_accounts(
        &self,
        live: &BTreeMap<u32, u64>,
        (usage, charges): (&BTreeMap<ContNo, Usage>, &BTreeMap<ContNo, Charges>),
        audit: &mut Audit,
    ) {
        // What a merge under way has moved is referred to once it is complete.
        let moved = self.checkpoint.merge.as_ref().map(|merge| &merge.drops().moved);
        for (&number, segment) in self.store.log.segments.iter() {
            let referred = live.get(&number).copied().unwrap_or(0);
            let moving = moved.and_then(|moved| moved.get(&number)).copied().unwrap_or(0);
            if segment.live_bytes != referred + moving {
                audit.note(finding("log", u64::from(number), 0, "log-live-bytes"));
            }
        }
        for cont in self.conts.iter().filter(|cont| !cont.state.destroyed) {
            let counted = usage.get(&cont.state.no).copied().unwrap_or_default();
            let charged = charges.get(&cont.state.no).cloned().unwrap_or_default();
            if counted != cont.state.usage || charged != cont.state.charges {
                audit.note(finding("manifest", u64::from(cont.state.no.0), 0, "usage"));
            }
        }
    }
}

/// What a version takes, and what it counts for whom.
fn count(
    (cont, payer): (ContNo, u32),
    version: &Version<'_>,
    value: ValuePlace,
    (usage, charges): (&mut BTreeMap<ContNo, Usage>, &mut BTreeMap<ContNo, Charges>),
) {
    let usage = usage.entry(cont).or_default();
    let value_bytes = u64::from(version.value_bytes);
    usage.versions += 1;
    usage.value_bytes += value_bytes;
    match value {
        ValuePlace::Log { .. } => usage.small_bytes += value_bytes,
        _ => usage.bulk_bytes += u64::from(crate::bulk::units(value_bytes)) * limits::BULK_UNIT_BYTES,
    }
    let charge = version.charge();
    charges.entry(cont).or_default().add(payer, charge);
}

fn finding(file: &'static str, number: u64, offset: u64, rule: &'static str) -> Finding {
    Finding { place: Place::Record { file, number, offset }, rule }
}
