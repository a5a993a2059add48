//! The audit of every invariant, and the scrub of every byte. Both read only.

use crate::cursor::PlaceRef;
use crate::target::Target;
use crate::tree::key::split_typed;
use dolmen_codec::verb::{Audit, Finding};
use dolmen_types::{Error, Place, Recx, limits};
use std::collections::BTreeMap;

impl Target {
    /// Audits index against log, bulk and accounts, without reading values but those that the scrub found damaged.
    pub(crate) fn check(&mut self) -> Result<Audit, Error> {
        let mut audit = self.audit(false)?;
        audit.findings.extend(self.scrubbed_damage()?);
        Ok(audit)
    }

    /// As `check`, and reads and verifies every value.
    pub(crate) fn scrub(&mut self) -> Result<Audit, Error> {
        self.audit(true)
    }

    fn audit(&mut self, values: bool) -> Result<Audit, Error> {
        let mut audit = Audit::default();
        self.store.index.delta.check();
        let mut units: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut live: BTreeMap<u32, u64> = BTreeMap::new();
        let mut usage = BTreeMap::new();
        let mut cursor = self.store.take_cursor();
        self.store.reseek(&mut cursor, &[])?;
        let mut previous: Vec<u8> = Vec::new();
        while let Some(key) = cursor.key() {
            if !previous.is_empty() && *key <= previous[..] {
                audit.findings.push(finding("run", 0, 0, "index-order"));
            }
            previous.clear();
            previous.extend_from_slice(key);
            let place = cursor.place();
            self.audit_entry(&previous, place, values, &mut audit, &mut units, &mut live, &mut usage)?;
            self.store.advance(&mut cursor)?;
        }
        self.store.put_cursor(cursor);
        self.audit_units(&units, &mut audit);
        self.audit_accounts(&live, &usage, &mut audit);
        Ok(audit)
    }

    #[expect(clippy::too_many_arguments, reason = "the sums that one walk over the index gathers")]
    fn audit_entry(
        &mut self,
        key: &[u8],
        place: PlaceRef<'_>,
        values: bool,
        audit: &mut Audit,
        units: &mut BTreeMap<(u32, u32), u32>,
        live: &mut BTreeMap<u32, u64>,
        usage: &mut BTreeMap<dolmen_types::ContNo, (u64, u64)>,
    ) -> Result<(), Error> {
        audit.versions += 1;
        let Some(parts) = split_typed(key) else {
            audit.findings.push(finding("run", 0, 0, "index-key"));
            return Ok(());
        };
        let (version, value) = match self.store.index.version(&self.store.log, place) {
            Ok(found) => found,
            Err(Error::Corrupt { place, .. }) => {
                audit.findings.push(Finding { place: *place, rule: "version-record" });
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if version.value_bytes == 0 {
            return Ok(());
        }
        let extent = version.kind.is_array().then_some(version.recx);
        let (dkey, akey) = (version.dkey.to_vec(), version.akey.to_vec());
        let sums = usage.entry(parts.cont).or_default();
        sums.0 += 1;
        sums.1 += u64::from(version.value_bytes);
        if let dolmen_codec::version::ValuePlace::Log { segment, .. } = value {
            *live.entry(segment).or_default() += u64::from(version.value_bytes);
        }
        let stored = crate::value::stored(&version, value);
        let (cont, oid) = (parts.cont, parts.oid);
        let place_of = |extent: Option<Recx>| Place::Value {
            cont,
            oid,
            dkey: dkey[..].into(),
            akey: akey[..].into(),
            extent,
        };
        if let Some((bulk, count)) = stored.bulk() {
            if units.insert((bulk.segment, bulk.unit), count).is_some() {
                audit.findings.push(Finding { place: place_of(extent), rule: "bulk-shared" });
            }
            if !self.store.bulk.is_used(bulk, count) {
                audit.findings.push(Finding { place: place_of(extent), rule: "bulk-free" });
            }
        }
        if values {
            let (bytes, damage) = self.verify_entry(key, place)?;
            audit.verified_bytes += if damage.is_none() { bytes } else { 0 };
            audit.findings.extend(damage);
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
                audit.findings.push(finding("bulk", u64::from(segment), offset, "bulk-overlap"));
            }
            end = (segment, unit + count);
        }
        let total: u64 = referred.values().map(|&count| u64::from(count) * limits::BULK_UNIT_BYTES).sum();
        if total != self.store.bulk.used_bytes() {
            audit.findings.push(finding("bulk", 0, 0, "bulk-leak"));
        }
    }

    fn audit_accounts(
        &self,
        live: &BTreeMap<u32, u64>,
        usage: &BTreeMap<dolmen_types::ContNo, (u64, u64)>,
        audit: &mut Audit,
    ) {
        // What a merge under way has moved is referred to once it is complete.
        let moved = self.checkpoint.merge.as_ref().map(|merge| &merge.drops().moved);
        for (&number, segment) in self.store.log.segments.iter() {
            let referred = live.get(&number).copied().unwrap_or(0);
            let moving = moved.and_then(|moved| moved.get(&number)).copied().unwrap_or(0);
            if segment.live_bytes != referred + moving {
                audit.findings.push(finding("log", u64::from(number), 0, "log-live-bytes"));
            }
        }
        for cont in self.conts.iter().filter(|cont| !cont.state.destroyed) {
            let counted = usage.get(&cont.state.no).copied().unwrap_or_default();
            if counted != (cont.state.usage.versions, cont.state.usage.value_bytes) {
                audit.findings.push(finding("manifest", u64::from(cont.state.no.0), 0, "usage"));
            }
        }
    }
}

fn finding(file: &'static str, number: u64, offset: u64, rule: &'static str) -> Finding {
    Finding { place: Place::Record { file, number, offset }, rule }
}
