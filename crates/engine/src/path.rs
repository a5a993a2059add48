//! A place in the key space on its way down: container, object, dkey, akey.

use crate::marks::mix;
use crate::tree::key::{FlatKey, Mark};
use crate::value::with_keys;
use dolmen_codec::order::{self, HashKey};
use dolmen_codec::version::{Version, VersionKind};
use dolmen_types::{ContNo, Error, Invalid, Key, KeyKind, Oid, Recx};

/// The flat key of an object, dkey or akey, which can be taken back to each level above, and a hash of each
/// level for marks.
#[derive(Clone)]
pub(crate) struct Path {
    pub(crate) key: FlatKey,
    pub(crate) cont: ContNo,
    pub(crate) oid: Oid,
    /// The keys as given; empty if only their order encodings are known.
    raw_dkey: Key,
    raw_akey: Key,
    /// What the raw keys were last turned into: writes go down to the same key two or three times.
    encoded_dkey: Encoded,
    encoded_akey: Encoded,
    pub(crate) dkey_kind: KeyKind,
    pub(crate) akey_kind: KeyKind,
    secret: HashKey,
    object: Mark,
    dkey: Mark,
    akey: Mark,
    pub(crate) cont_hash: u64,
    pub(crate) object_hash: u64,
    pub(crate) dkey_hash: u64,
    pub(crate) akey_hash: u64,
}

/// Tells the hash of an object's sole extent from its others.
const SOLE: u64 = 0x534f_4c45;

/// How deep a path goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Depth {
    Object,
    Dkey,
    Akey,
}

impl Depth {
    /// The level above.
    pub(crate) fn above(self) -> Self {
        match self {
            Self::Object | Self::Dkey => Self::Object,
            Self::Akey => Self::Dkey,
        }
    }
}

impl Default for Path {
    fn default() -> Self {
        let key = FlatKey::default();
        let mark = key.mark();
        Self {
            key,
            cont: ContNo::default(),
            oid: Oid::default(),
            raw_dkey: Key::new(),
            raw_akey: Key::new(),
            encoded_dkey: Encoded::default(),
            encoded_akey: Encoded::default(),
            dkey_kind: KeyKind::Hashed,
            akey_kind: KeyKind::Hashed,
            secret: HashKey::default(),
            object: mark,
            dkey: mark,
            akey: mark,
            cont_hash: 0,
            object_hash: 0,
            dkey_hash: 0,
            akey_hash: 0,
        }
    }
}

/// Hashes what a level adds to the key; the order encoding of a hashed key is random already.
#[inline]
fn fold(seed: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    let mut hash = seed;
    for word in &mut words {
        hash = mix(hash, u64::from_le_bytes(word.try_into().expect("chunks of eight")));
    }
    words.remainder().iter().fold(hash, |hash, &byte| mix(hash, u64::from(byte)))
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn low_half(wide: u128) -> u64 {
    wide as u64
}

/// Both halves of a product in one word: unlike those of `mix`, it cannot be undone by who does not know the factor,
/// nor is it known what a difference before becomes behind it.
#[inline]
fn fold_product(word: u64, factor: u64) -> u64 {
    let product = u128::from(word) * u128::from(factor);
    low_half(product) ^ low_half(product >> 64)
}

/// The order encoding of the key given last at one level.
#[derive(Clone)]
struct Encoded {
    kind: KeyKind,
    secret: HashKey,
    raw: Key,
    bytes: Key,
}

impl Default for Encoded {
    fn default() -> Self {
        Self { kind: KeyKind::Hashed, secret: HashKey::default(), raw: Key::new(), bytes: Key::new() }
    }
}

impl Encoded {
    /// The encoding of `key`, if it is the one that was given last.
    #[inline]
    fn find(&self, kind: KeyKind, secret: HashKey, key: &[u8]) -> Option<&[u8]> {
        let same = self.kind == kind && self.secret == secret && self.raw[..] == *key && !key.is_empty();
        same.then_some(&self.bytes[..])
    }

    #[inline]
    fn set(&mut self, kind: KeyKind, secret: HashKey, key: &[u8], encoded: &[u8]) {
        (self.kind, self.secret) = (kind, secret);
        set_raw(&mut self.raw, key);
        set_raw(&mut self.bytes, encoded);
    }
}

#[inline]
fn set_raw(raw: &mut Key, key: &[u8]) {
    raw.clear();
    raw.extend_from_slice(key);
}

impl Path {
    /// Starts at an object.
    ///
    /// # Errors
    /// `Invalid::ObjectId` if its type is unknown.
    #[inline]
    pub(crate) fn object(&mut self, cont: ContNo, secret: HashKey, oid: Oid) -> Result<(), Error> {
        let object_type = oid.object_type().ok_or(Invalid::ObjectId)?;
        self.dkey_kind = object_type.dkey_kind();
        self.akey_kind = object_type.akey_kind();
        self.cont = cont;
        self.oid = oid;
        self.secret = secret;
        self.key.object(cont, oid);
        self.object = self.key.mark();
        self.cont_hash = mix(1, u64::from(cont.0));
        self.object_hash = mix(mix(self.cont_hash, oid.hi), oid.lo);
        Ok(())
    }

    /// Goes from the object down to a depth.
    ///
    /// # Errors
    /// Those of `order::check_key`.
    #[inline]
    pub(crate) fn down(&mut self, depth: Depth, dkey: &[u8], akey: &[u8]) -> Result<(), Error> {
        self.up(Depth::Object);
        if depth >= Depth::Dkey {
            self.dkey(dkey)?;
        }
        if depth == Depth::Akey {
            self.akey(akey)?;
        }
        Ok(())
    }

    /// Goes down to a dkey.
    ///
    /// # Errors
    /// Those of `order::check_key`.
    #[inline]
    pub(crate) fn dkey(&mut self, dkey: &[u8]) -> Result<(), Error> {
        let (kind, secret) = (self.dkey_kind, self.secret);
        let flat = self.key.rewind(self.object);
        if let Some(encoded) = self.encoded_dkey.find(kind, secret, dkey) {
            flat.dkey_encoded(encoded);
        } else {
            order::check_key(kind, dkey)?;
            flat.dkey(kind, secret, dkey);
            self.encoded_dkey.set(kind, secret, dkey, &flat.as_bytes()[self.object.len() + 1..]);
        }
        set_raw(&mut self.raw_dkey, dkey);
        self.mark_dkey();
        Ok(())
    }

    /// Kind of the keys of a level.
    ///
    /// REQUIRES: the level is that of dkeys or akeys.
    pub(crate) fn kind(&self, of: Depth) -> KeyKind {
        assert!(of != Depth::Object, "objects are named by number");
        if of == Depth::Dkey { self.dkey_kind } else { self.akey_kind }
    }

    /// Goes down to a dkey in its order encoding.
    pub(crate) fn dkey_encoded(&mut self, encoded: &[u8]) {
        self.key.rewind(self.object).dkey_encoded(encoded);
        self.raw_dkey.clear();
        self.mark_dkey();
    }

    fn mark_dkey(&mut self) {
        let start = crate::tree::key::OBJECT_PREFIX_BYTES;
        self.dkey = self.key.mark();
        self.dkey_hash = fold(self.object_hash, &self.key.as_bytes()[start..]);
    }

    /// Goes down to an akey.
    ///
    /// # Errors
    /// Those of `order::check_key`.
    #[inline]
    pub(crate) fn akey(&mut self, akey: &[u8]) -> Result<(), Error> {
        let (kind, secret) = (self.akey_kind, self.secret);
        let flat = self.key.rewind(self.dkey);
        let start = self.dkey.len();
        if let Some(encoded) = self.encoded_akey.find(kind, secret, akey) {
            flat.akey_encoded(encoded);
        } else {
            order::check_key(kind, akey)?;
            flat.akey(kind, secret, akey);
            self.encoded_akey.set(kind, secret, akey, &flat.as_bytes()[start + 1..]);
        }
        set_raw(&mut self.raw_akey, akey);
        self.mark_akey(start);
        Ok(())
    }

    /// Goes down to an akey in its order encoding.
    pub(crate) fn akey_encoded(&mut self, encoded: &[u8]) {
        let start = self.key.rewind(self.dkey).as_bytes().len();
        self.key.akey_encoded(encoded);
        self.raw_akey.clear();
        self.mark_akey(start);
    }

    fn mark_akey(&mut self, start: usize) {
        self.akey = self.key.mark();
        self.akey_hash = fold(self.dkey_hash, &self.key.as_bytes()[start..]);
    }

    /// Dkey and akey as given, if they are known.
    #[inline]
    pub(crate) fn raw(&self) -> Option<(&[u8], &[u8])> {
        (!self.raw_dkey.is_empty() && !self.raw_akey.is_empty()).then_some((&self.raw_dkey, &self.raw_akey))
    }

    /// An error about a damaged value, with the value's name; one that has a name already keeps it.
    pub(crate) fn named(&self, error: Error, extent: Option<Recx>) -> Error {
        with_keys(error, self.cont, self.oid, &self.raw_dkey, &self.raw_akey, extent)
    }

    /// A hash of the whole key of the akey that nobody can aim at without the container's secret, as one can at the
    /// other hashes: for what is believed without a look at the key.
    ///
    /// REQUIRES: the path is at the akey, or was since it last went down.
    #[inline]
    pub(crate) fn secret_hash(&self) -> u64 {
        let secret = u128::from_le_bytes(self.secret.0);
        // As it is, a secret with a pattern would be a factor with one: with 0x0505...05, say, of a product of a multiple of
        // 51 both halves are each other's complement.
        let (seed, factor) = (low_half(secret), mix(low_half(secret >> 64), SOLE) | 1);
        let bytes = &self.key.as_bytes()[..self.akey.len()];
        let mut words = bytes.chunks_exact(8);
        let mut hash = seed ^ bytes.len() as u64;
        for word in &mut words {
            hash = fold_product(hash ^ u64::from_le_bytes(word.try_into().expect("chunks of eight")), factor);
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        hash = fold_product(hash ^ u64::from_le_bytes(last), factor);
        fold_product(hash ^ seed, factor)
    }

    /// The hash of one value or record of the akey.
    #[inline]
    pub(crate) fn hot_hash(&self, kind: VersionKind, index: u64) -> u64 {
        mix(mix(self.akey_hash, kind as u64), index)
    }

    /// The hash of the sole extent: of an array, or, where dkeys are integers, of all arrays of the object.
    ///
    /// An array's has that of its first record, so that writing that one is one look.
    #[inline]
    pub(crate) fn sole_hash(&self) -> u64 {
        match self.dkey_kind {
            KeyKind::Uint64 => mix(self.object_hash, SOLE),
            KeyKind::Hashed | KeyKind::Lexical => self.hot_hash(VersionKind::Array1, 0),
        }
    }

    /// Whether an extent of this kind can be found as the sole one.
    #[inline]
    pub(crate) fn may_be_sole(&self, kind: VersionKind) -> bool {
        kind.is_array() && (kind != VersionKind::Array1 || self.dkey_kind == KeyKind::Uint64)
    }

    /// How many bytes of the key name the level.
    pub(crate) fn up_len(&self, depth: Depth) -> usize {
        match depth {
            Depth::Object => self.object.len(),
            Depth::Dkey => self.dkey.len(),
            Depth::Akey => self.akey.len(),
        }
    }

    /// Two keys with one hash must not pass for each other: a version found under the path has the path's keys,
    /// as far as these are known and the level goes.
    #[inline]
    pub(crate) fn refuse_collision(&self, depth: Depth, version: &Version<'_>) -> Result<(), Error> {
        let differs = |raw: &Key, key: &[u8]| !raw.is_empty() && raw[..] != *key;
        if depth >= Depth::Dkey && differs(&self.raw_dkey, version.dkey)
            || depth == Depth::Akey && differs(&self.raw_akey, version.akey)
        {
            return Err(Error::HashCollision);
        }
        Ok(())
    }

    /// Goes back up.
    pub(crate) fn up(&mut self, depth: Depth) -> &mut FlatKey {
        let mark = match depth {
            Depth::Object => self.object,
            Depth::Dkey => self.dkey,
            Depth::Akey => self.akey,
        };
        self.key.rewind(mark)
    }
}
