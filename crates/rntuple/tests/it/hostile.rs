//! Bytes that are not what a writer makes: an error that names structure and offset, or values, and never a panic.

use crate::made::file;
use crate::read::{hows, numbers, types, values_of};
use dolmen_rntuple::format::locator::{Link, Locator};
use dolmen_rntuple::format::page_list::PageList;
use dolmen_rntuple::format::{CHECKSUM_BYTES, EnvelopeKind, checksum};
use dolmen_rntuple::rootfile::Anchor;
use dolmen_rntuple::{Entries, Error, Fault, Memory, Ntuple, Structure};
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

#[test]
fn a_page_list_whose_page_has_more_elements_than_can_be_written_is_refused_where_it_says_so() {
    // A cluster without entries, with a column of a page that has 2^31 elements.
    let mut contents = 9_u64.to_le_bytes().to_vec();
    let mut frame = |size: i64, items: Option<u32>, bytes: &[u8]| {
        contents.extend_from_slice(&size.to_le_bytes());
        items.iter().for_each(|items| contents.extend_from_slice(&items.to_le_bytes()));
        contents.extend_from_slice(bytes);
    };
    let summary = [24_i64.to_le_bytes(), [0; 8], [0; 8]].concat();
    frame(-36, Some(1), &summary);
    let page = [&i32::MIN.to_le_bytes()[..], &8_i32.to_le_bytes(), &[0; 8]].concat();
    let pages = [&(-40_i64).to_le_bytes()[..], &1_u32.to_le_bytes(), &page, &[0; 12]].concat();
    let columns = [&(-52_i64).to_le_bytes()[..], &1_u32.to_le_bytes(), &pages].concat();
    frame(-64, Some(1), &columns);
    let found = PageList::read(&crate::fuzzed::sealed(EnvelopeKind::PageList, &contents), 9);
    let Err(Error::Corrupt { structure: Structure::PageList, offset, fault: Fault::Value }) = found else {
        panic!("{found:?}")
    };
    assert_eq!(offset, 8 + 8 + 36 + 3 * 12, "what the page begins with");
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
