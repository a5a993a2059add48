//! What a write does, in 32 bits: two that differ, or are of different containers, rarely have the same.
//!
//! It tells a request that is sent again from another one under the same id. Made of what a log record holds of the write,
//! and so the same when the log is replayed. It lies in manifests: how it is computed is part of their format.
//! No secret: who makes two writes of the same digest deceives himself alone, since ids are of one user.

use crate::version::VersionKind;
use dolmen_types::{ContNo, Oid, Recx};

/// An odd number whose bits look random: the golden ratio.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// The digest of one write, in the making.
#[derive(Clone, Copy, Debug)]
pub struct WriteDigest(u64);

impl WriteDigest {
    /// Of a write to this object, under this dkey; empty if the whole object is punched.
    #[must_use]
    #[inline]
    pub fn of(cont: ContNo, oid: Oid, dkey: &[u8]) -> Self {
        let mut digest = Self(u64::from(cont.0));
        digest.word(oid.hi);
        digest.word(oid.lo);
        digest.bytes(dkey);
        digest
    }

    /// One version more; `sums` are the checksums of its value.
    #[inline]
    pub fn version(
        &mut self,
        kind: VersionKind,
        akey: &[u8],
        recx: Recx,
        record_bytes: u32,
        value_bytes: u32,
        sums: &[u8],
    ) {
        self.bytes(akey);
        self.word(u64::from(record_bytes) << 32 | u64::from(value_bytes));
        if kind.is_array() {
            self.word(recx.index);
            self.word(recx.count);
        } else {
            self.word(u64::from(kind as u8));
        }
        self.bytes(sums);
    }

    /// The digest.
    #[must_use]
    #[inline]
    pub fn value(self) -> u32 {
        // The highest bits depend on all that went before.
        let [a, b, c, d, e, f, g, h] = (self.0 ^ self.0 >> 32).wrapping_mul(MIX).to_le_bytes();
        u32::from_le_bytes([a, b, c, d]) ^ u32::from_le_bytes([e, f, g, h])
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(MIX);
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // With the length, so that bytes cannot go over to what follows.
        self.word(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn digest(cont: u32, lo: u64, dkey: &[u8], akey: &[u8], index: u64, sums: &[u8]) -> u32 {
        let mut digest = WriteDigest::of(ContNo(cont), Oid { hi: 2, lo }, dkey);
        digest.version(VersionKind::Array64, akey, Recx { index, count: 5 }, 6, 30, sums);
        digest.value()
    }

    #[test]
    fn digests_are_these_for_ever() {
        let usual = digest(1, 3, b"a dkey", b"an akey of more", 4, &[7; 8]);
        assert_eq!(usual, 0x756f_c8c5);
        let mut punch = WriteDigest::of(ContNo(1), Oid { hi: 2, lo: 3 }, b"");
        punch.version(VersionKind::Punch, b"", Recx::default(), 0, 0, b"");
        assert_eq!(punch.value(), 0xfa9c_07d9);
    }

    #[test]
    fn whatever_is_another_has_another_digest() {
        let mut all = BTreeSet::new();
        let mut count = 0;
        for cont in 1..4 {
            for lo in 0..8 {
                for (dkey, akey) in [(&b"ab"[..], &b"c"[..]), (b"a", b"bc"), (b"abc", b""), (b"", b"abc")] {
                    for index in 0..8 {
                        for sums in [&[1_u8, 0, 0, 0][..], &[2, 0, 0, 0], &[1, 0, 0, 0, 1, 0, 0, 0]] {
                            all.insert(digest(cont, lo, dkey, akey, index, sums));
                            count += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(all.len(), count);
    }
}
