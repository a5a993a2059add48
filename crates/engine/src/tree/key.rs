//! Flat keys: one byte string per index entry, ordered by `memcmp`.
//!
//! A key is `cont u32 | oid.hi u64 | oid.lo u64 | level | dkey | level | akey | kind u8 | offset u64 | !epoch u64 |
//! !minor u16`, all big-endian. The first level byte is 0 in a record of the object itself (and then kind follows
//! at once) or 1 if a dkey follows; the second one says the same of the akey. So records of an object sort before its
//! dkeys, records of a dkey before its akeys, punches (kind 0) before what they cover, newer versions before older.
//!
//! Invariants: no key is a proper prefix of another; a key has 40 to [`KEY_BYTES_MAX`] bytes and ends with a
//! tail of [`TAIL_BYTES`].
#![allow(clippy::big_endian_bytes, reason = "byte order is comparison order only in big-endian")]

pub(crate) use dolmen_codec::bytes::common_prefix_len;
use dolmen_codec::order::{self, HashKey};
use dolmen_codec::version::VersionKind;
use dolmen_types::{ContNo, Epoch, Key, KeyKind, Oid, Stamp, limits};

/// Container and object id.
pub(crate) const OBJECT_PREFIX_BYTES: usize = 4 + 16;
/// Kind, offset, epoch and minor.
pub(crate) const TAIL_BYTES: usize = 1 + 8 + 8 + 2;
/// A lexical key of which every byte is escaped, and its end.
const ORDER_BYTES_MAX: usize = 2 * limits::LEXICAL_KEY_BYTES_MAX + 2;
/// The longest flat key: two lexical keys.
pub(crate) const KEY_BYTES_MAX: usize = OBJECT_PREFIX_BYTES + 2 * (1 + ORDER_BYTES_MAX) + TAIL_BYTES;

/// Epoch and minor.
pub(crate) const STAMP_BYTES: usize = 8 + 2;
/// Level byte of a record that belongs to the level itself.
pub(crate) const LEVEL_RECORD: u8 = 0;
/// Level byte before a key of the next level.
pub(crate) const LEVEL_KEY: u8 = 1;

/// How far a key under construction has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Level {
    #[default]
    Empty,
    Object,
    Dkey,
    Akey,
    Complete,
}

/// A place in a [`FlatKey`] to which it can be rewound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    len: usize,
    level: Level,
}

impl Mark {
    /// Bytes of the key up to the mark.
    #[must_use]
    pub(crate) fn len(self) -> usize {
        self.len
    }
}

/// Builds a flat key in a buffer that is allocated once and reused.
///
/// After `object`, `dkey` or `akey` the bytes are the prefix of everything below that object, dkey or akey;
/// after `record_kind` of its entries of one kind; after `tail` they are a whole key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FlatKey {
    bytes: Vec<u8>,
    level: Level,
}

impl Default for FlatKey {
    fn default() -> Self {
        Self { bytes: Vec::with_capacity(KEY_BYTES_MAX), level: Level::Empty }
    }
}

impl FlatKey {
    /// Starts over with an object.
    pub(crate) fn object(&mut self, cont: ContNo, oid: Oid) -> &mut Self {
        self.container(cont);
        self.bytes.extend_from_slice(&oid.hi.to_be_bytes());
        self.bytes.extend_from_slice(&oid.lo.to_be_bytes());
        self.level = Level::Object;
        self
    }

    /// Starts over with a container; only good as a prefix.
    pub(crate) fn container(&mut self, cont: ContNo) -> &mut Self {
        self.bytes.clear();
        self.level = Level::Empty;
        self.bytes.extend_from_slice(&cont.0.to_be_bytes());
        self
    }

    /// Adds a dkey.
    ///
    /// REQUIRES: `object` was called last; `order::check_key(kind, key)` succeeded.
    pub(crate) fn dkey(&mut self, kind: KeyKind, secret: HashKey, key: &[u8]) -> &mut Self {
        self.descend(Level::Object, Level::Dkey);
        order::push_key(&mut self.bytes, kind, secret, key);
        self
    }

    /// Adds a dkey that is order-encoded already.
    ///
    /// REQUIRES: `object` was called last; `encoded` came from `order::push_key` or [`split`].
    pub(crate) fn dkey_encoded(&mut self, encoded: &[u8]) -> &mut Self {
        self.descend(Level::Object, Level::Dkey);
        self.bytes.extend_from_slice(encoded);
        self
    }

    /// Adds an akey.
    ///
    /// REQUIRES: a dkey was added last; `order::check_key(kind, key)` succeeded.
    pub(crate) fn akey(&mut self, kind: KeyKind, secret: HashKey, key: &[u8]) -> &mut Self {
        self.descend(Level::Dkey, Level::Akey);
        order::push_key(&mut self.bytes, kind, secret, key);
        self
    }

    /// Adds an akey that is order-encoded already.
    ///
    /// REQUIRES: a dkey was added last; `encoded` came from `order::push_key` or [`split`].
    pub(crate) fn akey_encoded(&mut self, encoded: &[u8]) -> &mut Self {
        self.descend(Level::Dkey, Level::Akey);
        self.bytes.extend_from_slice(encoded);
        self
    }

    /// Makes the prefix of the entries of one kind that belong to the object, dkey or akey itself.
    pub(crate) fn record_kind(&mut self, kind: VersionKind) -> &mut Self {
        match self.level {
            Level::Object | Level::Dkey => self.bytes.push(LEVEL_RECORD),
            Level::Akey => {}
            Level::Empty | Level::Complete => unreachable!("an entry belongs to an object, dkey or akey"),
        }
        self.bytes.push(kind as u8);
        self.level = Level::Complete;
        self
    }

    /// Makes the key of one entry.
    ///
    /// As the start of a seek: the first entry found at this offset has the newest stamp not above `stamp`.
    pub(crate) fn tail(&mut self, kind: VersionKind, offset: u64, stamp: Stamp) -> &mut Self {
        self.record_kind(kind);
        self.bytes.extend_from_slice(&offset.to_be_bytes());
        push_stamp(&mut self.bytes, stamp);
        self
    }

    /// The present state, to which `rewind` returns.
    #[must_use]
    pub(crate) fn mark(&self) -> Mark {
        Mark { len: self.bytes.len(), level: self.level }
    }

    /// Drops what was added since `mark`.
    ///
    /// REQUIRES: `mark` came from this key and nothing before it has changed since.
    pub(crate) fn rewind(&mut self, mark: Mark) -> &mut Self {
        assert!(mark.len <= self.bytes.len());
        self.bytes.truncate(mark.len);
        self.level = mark.level;
        self
    }

    /// The key or prefix.
    #[must_use]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn descend(&mut self, from: Level, to: Level) {
        assert!(self.level == from, "a dkey follows an object, an akey a dkey");
        self.bytes.push(LEVEL_KEY);
        self.level = to;
    }
}

/// Appends a stamp so that newer ones come first.
#[inline]
pub(crate) fn push_stamp(key: &mut Vec<u8>, stamp: Stamp) {
    key.extend_from_slice(&(!stamp.epoch.0).to_be_bytes());
    key.extend_from_slice(&(!stamp.minor).to_be_bytes());
}

/// The components of a flat key; keys are in their order encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyParts<'a> {
    /// Container.
    pub(crate) cont: ContNo,
    /// Object.
    pub(crate) oid: Oid,
    /// `None` in a record of the object itself.
    pub(crate) dkey: Option<&'a [u8]>,
    /// `None` in a record of the object or dkey itself.
    pub(crate) akey: Option<&'a [u8]>,
    /// What the entry describes.
    pub(crate) kind: VersionKind,
    /// The first record of an array entry, otherwise 0.
    pub(crate) offset: u64,
    /// The version.
    pub(crate) stamp: Stamp,
}

impl KeyParts<'_> {
    /// How many leading bytes of the key name its object, dkey or akey: all but the tail and a closing level byte.
    #[must_use]
    pub(crate) fn prefix_bytes(&self) -> usize {
        OBJECT_PREFIX_BYTES + self.dkey.map_or(0, |k| k.len() + 1) + self.akey.map_or(0, |k| k.len() + 1)
    }
}

/// Splits a flat key of an object with these kinds of keys; `None` if it is not one.
#[must_use]
pub(crate) fn split(key: &[u8], dkey_kind: KeyKind, akey_kind: KeyKind) -> Option<KeyParts<'_>> {
    let (prefix, rest) = key.split_at_checked(OBJECT_PREFIX_BYTES)?;
    let (cont, oid) = split_object(prefix)?;
    let (dkey, rest) = split_level(rest, dkey_kind)?;
    let (akey, rest) = if dkey.is_some() { split_level(rest, akey_kind)? } else { (None, rest) };
    if rest.len() != TAIL_BYTES {
        return None;
    }
    let (kind, offset, stamp) = split_tail(rest)?;
    Some(KeyParts { cont, oid, dkey, akey, kind, offset, stamp })
}

/// Splits a flat key whose kinds of keys follow from the object type; `None` if it is not one.
#[must_use]
pub(crate) fn split_typed(key: &[u8]) -> Option<KeyParts<'_>> {
    let (_, oid) = split_object(key)?;
    let object_type = oid.object_type()?;
    split(key, object_type.dkey_kind(), object_type.akey_kind())
}

/// Container and object id of a flat key or object prefix; `None` if it is too short.
#[must_use]
pub(crate) fn split_object(key: &[u8]) -> Option<(ContNo, Oid)> {
    let (cont, rest) = key.split_first_chunk()?;
    let (hi, rest) = rest.split_first_chunk()?;
    let (lo, _) = rest.split_first_chunk()?;
    let oid = Oid { hi: u64::from_be_bytes(*hi), lo: u64::from_be_bytes(*lo) };
    Some((ContNo(u32::from_be_bytes(*cont)), oid))
}

/// VersionKind, offset and stamp of a flat key, without looking at the rest; `None` if there is no such kind.
#[must_use]
pub(crate) fn split_tail(key: &[u8]) -> Option<(VersionKind, u64, Stamp)> {
    let tail: &[u8; TAIL_BYTES] = key.last_chunk()?;
    let (kind, rest) = tail.split_first()?;
    let (offset, rest) = rest.split_first_chunk()?;
    let (epoch, rest) = rest.split_first_chunk()?;
    let minor: &[u8; 2] = rest.first_chunk()?;
    let stamp = Stamp { epoch: Epoch(!u64::from_be_bytes(*epoch)), minor: !u16::from_be_bytes(*minor) };
    Some((VersionKind::from_number(*kind)?, u64::from_be_bytes(*offset), stamp))
}

/// Splits a level byte and, if it announces one, an order-encoded key from the front.
fn split_level(bytes: &[u8], kind: KeyKind) -> Option<(Option<&[u8]>, &[u8])> {
    let (&level, rest) = bytes.split_first()?;
    match level {
        LEVEL_RECORD => Some((None, rest)),
        LEVEL_KEY => {
            let (key, rest) = rest.split_at_checked(encoded_len(rest, kind)?)?;
            Some((Some(key), rest))
        }
        _ => None,
    }
}

/// Length of the order-encoded key at the front of `bytes`; `None` if it does not end there.
pub(crate) fn encoded_len(bytes: &[u8], kind: KeyKind) -> Option<usize> {
    match kind {
        KeyKind::Hashed => Some(16),
        KeyKind::Uint64 => Some(8),
        KeyKind::Lexical => {
            let mut at = 0;
            loop {
                at += bytes.get(at..)?.iter().position(|&b| b == 0)? + 2;
                match *bytes.get(at - 1)? {
                    0 => return Some(at),
                    0xff => {}
                    _ => return None,
                }
            }
        }
    }
}

/// The key that `encoded` stands for; `None` for a hashed one, whose bytes only its payload has, and for no encoding.
#[must_use]
pub(crate) fn decode_key(encoded: &[u8], kind: KeyKind) -> Option<Key> {
    match kind {
        KeyKind::Hashed => None,
        KeyKind::Uint64 => Some(Key::from_slice(&u64::from_be_bytes(encoded.try_into().ok()?).to_le_bytes())),
        KeyKind::Lexical => {
            if encoded_len(encoded, kind)? != encoded.len() {
                return None;
            }
            let mut key = Key::new();
            let mut bytes = encoded[..encoded.len() - 2].iter();
            while let Some(&byte) = bytes.next() {
                key.push(byte);
                if byte == 0 {
                    bytes.next();
                }
            }
            Some(key)
        }
    }
}

/// Turns `prefix` into the smallest byte string above everything that begins with it; `false` if there is none.
pub(crate) fn successor(prefix: &mut Vec<u8>) -> bool {
    while let Some(last) = prefix.pop() {
        if last != u8::MAX {
            prefix.push(last + 1);
            return true;
        }
    }
    false
}

/// `key` without `prefix`, word by word: a call of `memcmp` takes longer than three comparisons.
#[inline]
pub(crate) fn strip_prefix<'a>(key: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (front, suffix) = key.split_at_checked(prefix.len())?;
    let (front_words, front_rest) = front.as_chunks::<8>();
    let (prefix_words, prefix_rest) = prefix.as_chunks::<8>();
    let mut differs = 0;
    for (a, b) in front_words.iter().zip(prefix_words) {
        differs |= u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
    }
    for (a, b) in front_rest.iter().zip(prefix_rest) {
        differs |= u64::from(a ^ b);
    }
    (differs == 0).then_some(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_types::{ObjectClass, ObjectType};
    use proptest::prelude::*;

    /// A key as its components, in an order that derives to the order of flat keys.
    type Plain =
        (u32, (u64, u64), Option<(Vec<u8>, Option<Vec<u8>>)>, u8, u64, std::cmp::Reverse<(u64, u16)>);

    fn plain(lexical_len: usize) -> impl Strategy<Value = Plain> {
        let text = || prop::collection::vec(prop_oneof![Just(0u8), Just(255), 0u8..4], 1..=lexical_len);
        let level = prop::option::of((text(), prop::option::of(text())));
        let tail =
            (0u8..8, prop_oneof![0u64..4, any::<u64>()], (0u64..4, 0u16..3).prop_map(std::cmp::Reverse));
        let oid = 0u64..3;
        (0u32..3, oid, level, tail).prop_map(|(cont, lo, level, (kind, offset, stamp))| {
            let oid = Oid::new(ObjectType::MultiLexical, ObjectClass::S1, 0, lo);
            (cont, (oid.hi, oid.lo), level, kind, offset, stamp)
        })
    }

    fn flat(plain: &Plain) -> FlatKey {
        let (cont, (hi, lo), level, kind, offset, std::cmp::Reverse((epoch, minor))) = plain;
        let secret = HashKey::default();
        let mut key = FlatKey::default();
        key.object(ContNo(*cont), Oid { hi: *hi, lo: *lo });
        if let Some((dkey, akey)) = level {
            key.dkey(KeyKind::Lexical, secret, dkey);
            if let Some(akey) = akey {
                key.akey(KeyKind::Lexical, secret, akey);
            }
        }
        let stamp = Stamp { epoch: Epoch(*epoch), minor: *minor };
        key.tail(VersionKind::from_number(*kind).unwrap(), *offset, stamp);
        key
    }

    proptest! {
        #[test]
        fn byte_order_is_the_order_of_components(a in plain(3), b in plain(3)) {
            prop_assert_eq!(flat(&a).as_bytes().cmp(flat(&b).as_bytes()), a.cmp(&b));
        }

        #[test]
        fn split_gives_back_the_components(a in plain(80)) {
            let key = flat(&a);
            prop_assert!(key.as_bytes().len() <= KEY_BYTES_MAX);
            let parts = split_typed(key.as_bytes()).unwrap();
            let mut again = FlatKey::default();
            again.object(parts.cont, parts.oid);
            let names = parts.dkey.map(|dkey| {
                again.dkey_encoded(dkey);
                let akey = parts.akey.map(|akey| {
                    again.akey_encoded(akey);
                    decode_key(akey, KeyKind::Lexical).unwrap().to_vec()
                });
                (decode_key(dkey, KeyKind::Lexical).unwrap().to_vec(), akey)
            });
            prop_assert_eq!(again.as_bytes(), &key.as_bytes()[..parts.prefix_bytes()]);
            prop_assert_eq!(&names, &a.2);
            again.tail(parts.kind, parts.offset, parts.stamp);
            prop_assert_eq!(again.as_bytes(), key.as_bytes());
        }

        #[test]
        fn no_bytes_make_split_panic(bytes in prop::collection::vec(0u8..3, 0..90), kinds in 0usize..9) {
            let kind = [KeyKind::Hashed, KeyKind::Uint64, KeyKind::Lexical];
            let parts = split(&bytes, kind[kinds % 3], kind[kinds / 3]);
            prop_assert!(parts.is_none_or(|parts| parts.prefix_bytes() < bytes.len()));
            prop_assert!(split_typed(&bytes).is_none_or(|parts| parts.prefix_bytes() < bytes.len()));
            prop_assert!(decode_key(&bytes, KeyKind::Lexical).is_none_or(|key| key.len() < bytes.len()));
            prop_assert!(decode_key(&bytes, KeyKind::Uint64).is_none_or(|_| bytes.len() == 8));
        }
    }

    #[test]
    fn successor_is_the_end_of_a_prefix() {
        let mut prefix = vec![7, 255, 255];
        assert!(successor(&mut prefix));
        assert_eq!(prefix, [8]);
        assert!(!successor(&mut vec![255, 255]));
    }
}
