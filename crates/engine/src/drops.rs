//! What a merge leaves out and moves, summed up by container and segment: its size follows the store's files,
//! not the number of versions.

use crate::gifts::{Payers, payer_at};
use crate::numbered::Numbered;
use dolmen_codec::log_body::logged_bytes_of;
use dolmen_codec::quota::Charge;
use dolmen_codec::verb::Usage;
use dolmen_codec::version::{ValuePlace, Version};
use dolmen_types::{ContNo, limits};
use std::collections::BTreeMap;

/// Sums over the versions that a merge has left out, and over the values it has moved.
#[derive(Default)]
pub(crate) struct Drops {
    /// Accounts of the versions left out.
    pub(crate) usage: BTreeMap<ContNo, Usage>,
    /// What these count against limits, by who is charged.
    charges: BTreeMap<(ContNo, Payers), Charge>,
    /// What of these was given away since they were left out: to whom it was charged before, and to whom it is now.
    given: BTreeMap<(ContNo, Payers, Payers), Charge>,
    /// Bytes of log segments that nothing refers to any more.
    pub(crate) log: Numbered<u64>,
    /// Bytes of log segments that moved values take there.
    pub(crate) moved: Numbered<u64>,
    /// Units of bulk segments that nothing refers to any more, a bit each.
    pub(crate) bulk: Numbered<Vec<u64>>,
}

impl Drops {
    /// A version was left out.
    pub(crate) fn leave_out(&mut self, cont: ContNo, version: &Version<'_>, payers: Payers) {
        if version.value_bytes == 0 {
            return;
        }
        let bytes = u64::from(version.value_bytes);
        let usage = self.usage.entry(cont).or_default();
        usage.versions += 1;
        usage.value_bytes += bytes;
        let charge = version.charge();
        if !charge.is_none() {
            let charged = self.charges.entry((cont, payers)).or_default();
            *charged = charged.plus(charge);
        }
        match version.place {
            ValuePlace::Bulk { segment, unit } => {
                let count = crate::bulk::units(bytes);
                usage.bulk_bytes += u64::from(count) * limits::BULK_UNIT_BYTES;
                let bitmap = self.bulk.entry(segment);
                for unit in unit..unit + count {
                    let word = unit as usize / 64;
                    bitmap.resize(bitmap.len().max(word + 1), 0);
                    bitmap[word] |= 1 << (unit % 64);
                }
            }
            ValuePlace::Log { segment, .. } => {
                usage.small_bytes += bytes;
                *self.log.entry(segment) += logged_bytes_of(version);
            }
            ValuePlace::None | ValuePlace::Inline => {}
        }
    }

    /// Something of what was left out is charged to others now.
    pub(crate) fn give(&mut self, cont: ContNo, (before, now): (Payers, Payers), charge: Charge) {
        if !charge.is_none() && before != now {
            let given = self.given.entry((cont, before, now)).or_default();
            *given = given.plus(charge);
        }
    }

    /// What they count in a base of so many freezes, by the number of the credentials.
    pub(crate) fn charges_at(&self, freezes: u64) -> BTreeMap<(ContNo, u32), Charge> {
        let mut charges: BTreeMap<(ContNo, u32), Charge> = BTreeMap::new();
        for ((cont, payers), &charge) in &self.charges {
            let sum = charges.entry((*cont, payer_at(payers, freezes))).or_default();
            *sum = sum.plus(charge);
        }
        // All is added before anything is taken away, since what was given may be given on.
        for ((cont, _, now), &charge) in &self.given {
            let sum = charges.entry((*cont, payer_at(now, freezes))).or_default();
            *sum = sum.plus(charge);
        }
        for ((cont, before, _), &charge) in &self.given {
            let sum = charges.entry((*cont, payer_at(before, freezes))).or_default();
            debug_assert!(sum.covers(charge), "what was given was left out");
            *sum = sum.less(charge);
        }
        charges.retain(|_, charge| !charge.is_none());
        charges
    }

    /// Memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        const ENTRY_BYTES: usize = 48;
        let entries =
            self.usage.len() + self.charges.len() + self.log.len() + self.moved.len() + self.bulk.len();
        let given = self.given.len() * 2;
        let bitmaps: usize = self.bulk.values().map(|words| words.capacity() * 8).sum();
        ((entries + given) * ENTRY_BYTES + bitmaps) as u64
    }
}

/// Whether accounts hold at least so much.
pub(crate) fn covers(usage: &Usage, gone: &Usage) -> bool {
    gone.versions <= usage.versions
        && gone.value_bytes <= usage.value_bytes
        && gone.bulk_bytes <= usage.bulk_bytes
        && gone.small_bytes <= usage.small_bytes
}

/// Takes versions out of a container's accounts.
///
/// REQUIRES: the accounts cover them.
pub(crate) fn subtract(from: &mut Usage, gone: &Usage) {
    debug_assert!(covers(from, gone), "a version is counted before it is dropped");
    from.versions = from.versions.saturating_sub(gone.versions);
    from.value_bytes = from.value_bytes.saturating_sub(gone.value_bytes);
    from.bulk_bytes = from.bulk_bytes.saturating_sub(gone.bulk_bytes);
    from.small_bytes = from.small_bytes.saturating_sub(gone.small_bytes);
}
