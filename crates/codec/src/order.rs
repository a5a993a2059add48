//! The order of keys: how dkeys and akeys become byte strings whose byte order is their order.
//!
//! Hashed keys order by a 128-bit keyed hash, integers and strings by value. The encoding is
//! self-delimiting, so the encodings of several keys in a row compare component by component.
//!
//! Invariants: for one container, kind and level, `a == b` exactly if their encodings are equal, up to a
//! collision of the keyed hash (probability 2^-128 a pair; nobody without the secret can aim at one).

use core::hash::Hasher;
use dolmen_types::{Error, Invalid, KeyKind, limits};
use siphasher::sip128::{Hasher128, SipHasher13};

/// The secret of a container's key hash; drawn at creation, so that nobody can aim at collisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HashKey(pub [u8; 16]);

/// Checks that `key` may be a key of this kind.
///
/// # Errors
/// `Invalid::Key` if it is empty or, for integers, not eight bytes; `KeyTooBig` above the kind's limit.
pub fn check_key(kind: KeyKind, key: &[u8]) -> Result<(), Error> {
    let limit = match kind {
        KeyKind::Hashed => limits::KEY_BYTES_MAX,
        KeyKind::Uint64 => 8,
        KeyKind::Lexical => limits::LEXICAL_KEY_BYTES_MAX,
    };
    if key.is_empty() || (kind == KeyKind::Uint64 && key.len() < 8) {
        return Err(Invalid::Key.into());
    }
    if key.len() > limit {
        return Err(Error::KeyTooBig { needed_bytes: key.len() as u64 });
    }
    Ok(())
}

/// The 128-bit keyed hash of a key.
#[must_use]
pub fn key_hash(secret: HashKey, key: &[u8]) -> u128 {
    let mut hasher = SipHasher13::new_with_key(&secret.0);
    hasher.write(key);
    hasher.finish128().as_u128()
}

/// The integer that a `Uint64` key's eight little-endian bytes hold.
///
/// REQUIRES: `check_key(KeyKind::Uint64, key)` succeeded.
#[must_use]
pub fn key_number(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&key[..8]);
    u64::from_le_bytes(bytes)
}

/// Appends the order encoding of `key`: 16, 8 or up to 2 x 80 + 2 bytes.
///
/// REQUIRES: `check_key(kind, key)` succeeded.
#[allow(clippy::big_endian_bytes, reason = "byte order is comparison order only in big-endian")]
pub fn push_key(out: &mut Vec<u8>, kind: KeyKind, secret: HashKey, key: &[u8]) {
    match kind {
        KeyKind::Hashed => out.extend_from_slice(&key_hash(secret, key).to_be_bytes()),
        KeyKind::Uint64 => out.extend_from_slice(&key_number(key).to_be_bytes()),
        KeyKind::Lexical => push_lexical(out, key),
    }
}

/// Zero bytes become 00 FF, the end is 00 00: shorter strings sort before their extensions.
fn push_lexical(out: &mut Vec<u8>, key: &[u8]) {
    for &byte in key {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(kind: KeyKind, key: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        push_key(&mut out, kind, HashKey([3; 16]), key);
        out
    }

    proptest! {
        #[test]
        fn lexical_encoding_keeps_the_order_of_strings(a in prop::collection::vec(0u8..4, 1..12),
                                                       b in prop::collection::vec(0u8..4, 1..12)) {
            prop_assert_eq!(encoded(KeyKind::Lexical, &a).cmp(&encoded(KeyKind::Lexical, &b)), a.cmp(&b));
        }

        #[test]
        fn integer_encoding_keeps_the_order_of_values(a: u64, b: u64) {
            let (x, y) = (encoded(KeyKind::Uint64, &a.to_le_bytes()), encoded(KeyKind::Uint64, &b.to_le_bytes()));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        }
    }

    #[test]
    fn keys_are_checked_by_kind() {
        assert!(check_key(KeyKind::Hashed, b"x").is_ok());
        assert_eq!(check_key(KeyKind::Hashed, b""), Err(Invalid::Key.into()));
        assert_eq!(check_key(KeyKind::Uint64, b"1234567"), Err(Invalid::Key.into()));
        assert_eq!(check_key(KeyKind::Lexical, &[1; 81]), Err(Error::KeyTooBig { needed_bytes: 81 }));
    }
}
