//! Bytes that are not what a writer makes: an error that names structure and offset, or values, and never a panic.

use crate::made::file;
use crate::read::{hows, numbers, types, values_of};
use dolmen_rntuple::format::locator::{Link, Locator};
use dolmen_rntuple::format::{CHECKSUM_BYTES, checksum};
use dolmen_rntuple::rootfile::Anchor;
use dolmen_rntuple::{Entries, Memory, Ntuple};
use proptest::prelude::*;

/// Opens and reads all that is said to be there.
fn use_all(bytes: Vec<u8>, anchor: &Anchor) -> dolmen_rntuple::Result<()> {
    let ntuple = Ntuple::open(Memory::new(bytes.into()), anchor)?;
    let fields: Vec<_> = ntuple.top_fields().collect();
    // Whoever reads more entries than a file of that size has asks for the memory himself.
    let end = ntuple.entry_count().min(1000);
    ntuple.read(&fields, Entries { first: 0, end }).map(drop)
}

/// Puts the checksum of an envelope right that is stored as it is, so that what it says is looked at.
fn seal(bytes: &mut [u8], link: &Link) {
    let Locator::File { offset, bytes: stored } = link.locator else { return };
    let (start, end) = (usize::try_from(offset).unwrap(), usize::try_from(offset + stored).unwrap());
    if stored != link.length_bytes || end > bytes.len() {
        return;
    }
    let sum = checksum(&bytes[start..end - CHECKSUM_BYTES]);
    bytes[end - CHECKSUM_BYTES..end].copy_from_slice(&sum.to_le_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_are_an_error_or_values_and_never_a_panic(
        of in types(), how in hows(), seed in any::<u64>(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let values = values_of(&of, 12, &mut numbers(seed));
        let (mut bytes, anchor) = file(&of, &values, how);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        seal(&mut bytes, &anchor.header);
        seal(&mut bytes, &anchor.footer);
        if let Err(error) = use_all(bytes, &anchor) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn a_file_that_is_cut_short_is_an_error(of in types(), how in hows(), cut in any::<prop::sample::Index>()) {
        let values = values_of(&of, 12, &mut numbers(7));
        let (bytes, anchor) = file(&of, &values, how);
        let cut = cut.index(bytes.len());
        prop_assert!(use_all(bytes[..cut].to_vec(), &anchor).is_err());
    }
}
