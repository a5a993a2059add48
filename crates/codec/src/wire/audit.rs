//! The result of an audit, and places on a device.

use super::field::{Field, Writer, read_list};
use crate::bytes::Reader;
use crate::verb::{Audit, Finding};
use dolmen_types::limits::{FINDINGS_MAX, FRAME_BODY_BYTES_MAX, TARGETS_MAX};
use dolmen_types::{ContNo, Key, Oid, Place, Recx};

/// Rules and files are fixed words of whoever stored what is damaged. A word that the reader does not know is of a later
/// version: it becomes the first of its list.
const RULES: [&str; 22] = [
    "unknown-rule",
    "bulk-free",
    "bulk-leak",
    "bulk-length",
    "bulk-overlap",
    "bulk-shared",
    "checksum",
    "container-on-record",
    "index-key",
    "index-order",
    "log-frame",
    "log-live-bytes",
    "manifest",
    "manifest-repaired",
    "record-size",
    "run-block",
    "run-index",
    "superblock",
    "superblock-repaired",
    "unreadable",
    "usage",
    "version-record",
];
const FILES: [&str; 7] = ["unknown-file", "bulk", "log", "manifest", "pool", "run", "super"];

/// Longer words are none.
const WORD_BYTES_MAX: usize = 64;

fn put_word(w: &mut Writer<'_>, word: &str) {
    let len = word.floor_char_boundary(WORD_BYTES_MAX);
    w.blob(&word.as_bytes()[..len]);
}

fn read_word(r: &mut Reader<'_>, known: &[&'static str]) -> Option<&'static str> {
    let len = r.count(1).filter(|&len| len <= WORD_BYTES_MAX)?;
    let word = core::str::from_utf8(r.take(len)?).ok()?;
    Some(known.iter().copied().find(|&known| known == word).unwrap_or(known[0]))
}

/// Of what a place is a part. Persistent: never renumber.
const VALUE: u8 = 0;
const RECORD: u8 = 1;

impl Field for Place {
    const BYTES_MIN: usize = 1 + 4 + 8 + 8;

    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Value { cont, oid, dkey, akey, extent } => {
                w.put(&VALUE);
                w.put(cont);
                w.put(oid);
                w.put(dkey);
                w.put(akey);
                w.put(extent);
            }
            Self::Record { file, number, offset } => {
                w.put(&RECORD);
                put_word(w, file);
                w.put(number);
                w.put(offset);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            VALUE => Self::Value {
                cont: ContNo::read(r)?,
                oid: Oid::read(r)?,
                dkey: Key::read(r)?,
                akey: Key::read(r)?,
                extent: Option::<Recx>::read(r)?,
            },
            RECORD => Self::Record { file: read_word(r, &FILES)?, number: r.u64()?, offset: r.u64()? },
            _ => return None,
        })
    }
}

/// As many bytes as a finding takes at the most.
fn finding_bytes_most(finding: &Finding) -> usize {
    let keys = match &finding.place {
        Place::Value { dkey, akey, .. } => dkey.len() + akey.len(),
        Place::Record { .. } => 0,
    };
    keys + 2 * WORD_BYTES_MAX
}

/// What all audits of a reply may take: far below a body, however long the keys in them are.
const AUDITS_BYTES_MAX: usize = FRAME_BODY_BYTES_MAX / 2;

/// Several audits. Findings beyond the room of a reply are counted as those are that did not find room in an audit.
pub(super) fn put_audits(w: &mut Writer<'_>, audits: &[Audit]) {
    w.count(audits.len(), TARGETS_MAX);
    let share_bytes = AUDITS_BYTES_MAX / audits.len().max(1);
    audits.iter().for_each(|audit| put_audit(w, audit, share_bytes));
}

fn put_audit(w: &mut Writer<'_>, audit: &Audit, share_bytes: usize) {
    let Audit { versions, verified_bytes, findings, unlisted } = audit;
    let mut bytes = 0;
    let fits = |finding: &&Finding| {
        bytes += finding_bytes_most(finding);
        bytes <= share_bytes
    };
    let listed = findings.iter().take(FINDINGS_MAX).take_while(fits).count();
    w.put(versions);
    w.put(verified_bytes);
    w.put(&unlisted.saturating_add((findings.len() - listed) as u64));
    w.list(&findings[..listed], FINDINGS_MAX);
}

impl Field for Finding {
    const BYTES_MIN: usize = Place::BYTES_MIN + 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.place);
        put_word(w, self.rule);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(Self { place: Place::read(r)?, rule: read_word(r, &RULES)? })
    }
}

impl Field for Audit {
    const BYTES_MIN: usize = 8 + 8 + 8 + 4;

    fn put(&self, w: &mut Writer<'_>) {
        put_audit(w, self, AUDITS_BYTES_MAX);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let (versions, verified_bytes, unlisted) = (r.u64()?, r.u64()?, r.u64()?);
        Some(Self { versions, verified_bytes, unlisted, findings: read_list(r, FINDINGS_MAX)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_that_an_operator_can_look_up_keeps_its_word() {
        let page = include_str!("../../../../docs/operating.md");
        let table = page.split("| `index-order` |").nth(1).unwrap().split("\n\n").next().unwrap();
        let cells = table.lines().skip(1).filter_map(|line| line.split('|').nth(1));
        let words: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        assert!(words.len() > 15, "{words:?}");
        for word in words {
            let mut bytes = Vec::new();
            put_word(&mut Writer::new(&mut bytes), word);
            assert_eq!(read_word(&mut Reader::new(&bytes), &RULES), Some(word));
        }
    }

    #[test]
    fn findings_that_no_reply_can_hold_are_counted() {
        let place = |key_bytes| Place::Value {
            cont: ContNo(1),
            oid: Oid::default(),
            dkey: Key::from_elem(1, key_bytes),
            akey: Key::new(),
            extent: None,
        };
        let audit = |count, key_bytes| {
            let findings = vec![Finding { place: place(key_bytes), rule: "usage" }; count];
            Audit { versions: 1, verified_bytes: 2, findings, unlisted: 3 }
        };
        let back = |audits: &[Audit]| {
            let mut bytes = Vec::new();
            let mut w = Writer::new(&mut bytes);
            put_audits(&mut w, audits);
            w.finish().unwrap();
            assert!(bytes.len() <= FRAME_BODY_BYTES_MAX);
            read_list::<Audit>(&mut Reader::new(&bytes), TARGETS_MAX).unwrap()
        };
        let whole = vec![audit(FINDINGS_MAX, 2048); 2];
        assert_eq!(back(&whole), whole);
        let longer = back(&[audit(FINDINGS_MAX + 5, 1)]);
        assert_eq!((longer[0].findings.len(), longer[0].unlisted), (FINDINGS_MAX, 3 + 5));
        let many = back(&vec![audit(100, 2048); TARGETS_MAX]);
        assert_eq!(many.len(), TARGETS_MAX);
        for audit in many {
            assert_eq!(audit.findings.len() as u64 + audit.unlisted, 100 + 3);
            assert!(!audit.findings.is_empty());
        }
    }

    #[test]
    fn a_word_that_nobody_knows_has_a_stand_in_and_a_long_one_is_none() {
        let mut bytes = Vec::new();
        put_word(&mut Writer::new(&mut bytes), "of-tomorrow");
        assert_eq!(read_word(&mut Reader::new(&bytes), &RULES), Some("unknown-rule"));
        let long = "x".repeat(WORD_BYTES_MAX + 1);
        let mut bytes = Vec::new();
        Writer::new(&mut bytes).blob(long.as_bytes());
        assert_eq!(read_word(&mut Reader::new(&bytes), &FILES), None);
    }
}
