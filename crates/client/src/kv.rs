//! A flat key-value store in an object: a dkey per key, the value under akey `0`.

use crate::at::At;
use crate::container::Container;
use crate::object::{Object, Page};
use dolmen_codec::verb::{FetchIod, NewValue, PackedKeys, Payload, UpdateIod, Want};
use dolmen_types::{Anchor, Cond, Epoch, Error, Invalid, IoBuf, Key, Oid, Result};

/// The akey of every value.
//= daos:src/client/kv/dc_kv.c akey '0'
const AKEY: &[u8] = b"0";

/// What must hold for a key to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PutCond {
    /// Nothing.
    #[default]
    None,
    /// It must not exist: `Exists`.
    Insert,
    /// It must exist: `NotFound`.
    Update,
}

/// A flat key-value store; a cheap handle, `Send` and `Sync`.
#[derive(Clone, Debug)]
pub struct Kv {
    object: Object,
}

impl Kv {
    /// A handle on the store; nothing is asked, it need not exist.
    ///
    /// # Errors
    /// `Invalid::ObjectId` if the id is not of a flat key-value type, or cannot be placed.
    pub fn open(cont: &Container, oid: Oid) -> Result<Self> {
        let object = cont.object(oid)?;
        if object.object_type().is_kv() { Ok(Self { object }) } else { Err(Invalid::ObjectId.into()) }
    }

    /// The object that holds it.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Sets the value of a key; at least one byte.
    ///
    /// # Errors
    /// As the condition says; `Invalid::Payload` for an empty value; those of [`Object::update`].
    pub fn put(&self, at: At<'_>, key: &[u8], value: &[u8], cond: PutCond) -> Result<Epoch> {
        let cond = match cond {
            PutCond::None => Cond::NONE,
            PutCond::Insert => Cond::DKEY_INSERT,
            PutCond::Update => Cond::DKEY_UPDATE,
        };
        let value = NewValue::Single(Payload::Ref(value));
        let iod = UpdateIod { akey: Key::from_slice(AKEY), cond: Cond::NONE, value };
        self.object.update(at, key, cond, &[iod])
    }

    /// Reads the value of a key into `buf`, which becomes as long as the value; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`Object::fetch`].
    pub fn get(&self, at: At<'_>, key: &[u8], buf: &mut IoBuf) -> Result<Option<usize>> {
        self.object.get(at, key, AKEY, buf)
    }

    /// As [`Kv::get`], but a missing key is an error.
    ///
    /// # Errors
    /// `NotFound`; those of [`Object::fetch`].
    pub fn get_existing(&self, at: At<'_>, key: &[u8], buf: &mut IoBuf) -> Result<usize> {
        self.get(at, key, buf)?.ok_or(Error::NotFound)
    }

    /// Reads the value of a key into the first `room_bytes` of `buf` and returns its length; 0 if there is none
    /// and `must_exist` is not set. The buffer is lent to the store and comes back, also with an error; bytes behind
    /// the value are what they were, or anything.
    ///
    /// # Errors
    /// `Invalid::Payload` if `buf` is shorter than `room_bytes`; `RecTooBig` with the length if it does not fit;
    /// `NotFound`; those of [`Object::fetch`].
    pub fn get_bounded(
        &self,
        at: At<'_>,
        key: &[u8],
        must_exist: bool,
        room_bytes: usize,
        buf: &mut IoBuf,
    ) -> Result<u64> {
        if buf.len() < room_bytes {
            return Err(Invalid::Payload.into());
        }
        let iod = FetchIod { akey: Key::from_slice(AKEY), want: Want::Single { room_bytes } };
        let cond = if must_exist { Cond::DKEY_FETCH } else { Cond::NONE };
        Ok(self.object.fetch(at, key, cond, &[iod], buf)?[0].size_bytes)
    }

    /// Length of the value of a key; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`Object::fetch`].
    pub fn size(&self, at: At<'_>, key: &[u8]) -> Result<Option<u64>> {
        let size_bytes = self.object.size(at, key, AKEY)?;
        Ok((size_bytes > 0).then_some(size_bytes))
    }

    /// Removes a key.
    ///
    /// # Errors
    /// `NotFound` if it does not exist and `must_exist` is set; those of [`Object::punch_dkey`].
    pub fn remove(&self, at: At<'_>, key: &[u8], must_exist: bool) -> Result<Epoch> {
        let cond = if must_exist { Cond::PUNCH } else { Cond::NONE };
        self.object.punch_dkey(at, key, cond)
    }

    /// The next keys after `anchor`; at least one unless the anchor is at its end afterwards.
    ///
    /// # Errors
    /// `KeyTooBig` if the next key alone exceeds the page; those of [`Object::list_dkeys`].
    pub fn list(&self, at: At<'_>, anchor: &mut Anchor, page: Page) -> Result<PackedKeys> {
        self.object.list_dkeys(at, anchor, page)
    }

    /// Removes everything.
    ///
    /// # Errors
    /// Those of [`Object::punch`].
    pub fn destroy(&self, at: At<'_>) -> Result<Epoch> {
        self.object.punch(at, Cond::NONE)
    }
}
