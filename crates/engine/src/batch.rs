//! Keys that a walk found in the index, and whose raw bytes are read together.
//!
//! The index has hashed keys by their hash; the raw bytes are in the version's record, each somewhere else in the
//! log. One after the other every record would be waited for; of a batch many are on their way at once.

use crate::conts::View;
use crate::cursor::PlaceRef;
use crate::log::LogPlace;
use crate::path::Depth;
use crate::store::Store;
use crate::tree::key::decode_key;
use crate::walk::KeyWalk;
use dolmen_codec::verb::PackedKeys;
use dolmen_codec::version::Version;
use dolmen_types::{Error, KeyKind};

/// More than a processor reads at once, few enough to stay in its first cache.
pub(crate) const BATCH_KEYS: usize = 64;
/// Cache lines of a record up to the end of a name of usual length.
const RECORD_LINES: usize = 2;

/// Up to [`BATCH_KEYS`] keys of one level.
pub(crate) struct Batch {
    of: Depth,
    kind: KeyKind,
    encoded: PackedKeys,
    /// Of each key the place of its record in the log; `None` if the raw bytes were at hand.
    places: Vec<Option<LogPlace>>,
    at_hand: PackedKeys,
}

impl Batch {
    pub(crate) fn new(of: Depth, kind: KeyKind) -> Self {
        let places = Vec::with_capacity(BATCH_KEYS);
        Self { of, kind, encoded: PackedKeys::default(), places, at_hand: PackedKeys::default() }
    }

    /// How many keys it has.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The order encoding of a key.
    pub(crate) fn encoded(&self, index: usize) -> &[u8] {
        self.encoded.get(index)
    }

    /// Takes up to `count` keys from a walk, in place of those it had.
    pub(crate) fn fill(
        &mut self,
        store: &mut Store,
        walk: &mut KeyWalk,
        view: &View,
        count: usize,
    ) -> Result<(), Error> {
        self.encoded.clear();
        self.places.clear();
        self.at_hand.clear();
        while self.len() < count && walk.next(store, view)? {
            self.encoded.push(walk.key());
            let place = match (decode_key(walk.key(), self.kind), walk.place()) {
                (Some(raw), _) => {
                    self.at_hand.push(&raw);
                    None
                }
                (None, PlaceRef::Log(at)) => {
                    if let Some(record) = store.log.mapped(at) {
                        dolmen_env::prefetch(record, RECORD_LINES);
                    }
                    Some(at)
                }
                (None, PlaceRef::Run(_)) => {
                    let (version, _) = store.index.version(&store.log, walk.place())?;
                    self.at_hand.push(self.raw(&version));
                    None
                }
            };
            self.places.push(place);
        }
        Ok(())
    }

    /// Appends the raw keys to `out` while that has at most `bytes_max`; returns how many fitted.
    ///
    /// # Errors
    /// `KeyTooBig` if the first key alone does not fit.
    pub(crate) fn unpack(
        &self,
        store: &Store,
        out: &mut PackedKeys,
        bytes_max: usize,
    ) -> Result<usize, Error> {
        let mut at_hand = self.at_hand.iter();
        for (index, place) in self.places.iter().enumerate() {
            let raw = match place {
                Some(at) => {
                    let (version, _) = store.index.version(&store.log, PlaceRef::Log(*at))?;
                    self.raw(&version)
                }
                None => at_hand.next().expect("pushed with the place"),
            };
            if raw.len() > bytes_max && out.is_empty() {
                return Err(Error::KeyTooBig { needed_bytes: raw.len() as u64 });
            }
            if out.bytes.len() + raw.len() > bytes_max {
                return Ok(index);
            }
            out.push(raw);
        }
        Ok(self.len())
    }

    fn raw<'v>(&self, version: &Version<'v>) -> &'v [u8] {
        if self.of == Depth::Dkey { version.dkey } else { version.akey }
    }
}
