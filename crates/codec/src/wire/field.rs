//! Fields of bodies: how each is written and read back.

use crate::bytes::Reader;
use crate::order::HashKey;
use dolmen_types::limits::{EXTENTS_MAX, FRAME_BODY_BYTES_MAX, IODS_MAX};
use dolmen_types::{
    Anchor, AnchorState, Cond, ContNo, Durability, Epoch, Error, Invalid, Key, Label, Oid, QueryFlags, Recx,
    TargetNo, TxId, Uuid,
};
use smallvec::{Array, SmallVec};

/// Appends fields to a frame, and keeps the first reason why the frame cannot be sent.
pub(super) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    refused: Option<Error>,
}

impl<'o> Writer<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, refused: None }
    }

    /// The frame cannot be sent.
    #[cold]
    pub(super) fn refuse(&mut self, why: impl Into<Error>) {
        self.refused.get_or_insert(why.into());
    }

    /// Whether everything could be written.
    pub(super) fn finish(self) -> Result<(), Error> {
        self.refused.map_or(Ok(()), Err)
    }

    #[inline]
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    #[inline]
    pub(super) fn put(&mut self, field: &impl Field) {
        field.put(self);
    }

    /// How many of something follow.
    #[inline]
    pub(super) fn count(&mut self, count: usize, limit: usize) {
        match u32::try_from(count) {
            Ok(number) if count <= limit => self.raw(&number.to_le_bytes()),
            Ok(_) | Err(_) => self.refuse(Invalid::Count),
        }
    }

    /// Bytes of any length behind that length.
    pub(super) fn blob(&mut self, bytes: &[u8]) {
        if bytes.len() > FRAME_BODY_BYTES_MAX {
            return self.refuse(too_big(bytes.len()));
        }
        self.count(bytes.len(), FRAME_BODY_BYTES_MAX);
        self.raw(bytes);
    }

    /// Fields behind their count.
    #[inline]
    pub(super) fn list<T: Field>(&mut self, fields: &[T], limit: usize) {
        self.count(fields.len(), limit);
        fields.iter().for_each(|field| field.put(self));
    }
}

/// Why what has so many bytes is in no frame.
#[cold]
pub(super) fn too_big(len: usize) -> Error {
    Error::RecTooBig { needed_bytes: len as u64 }
}

/// Reads a count and so many fields. No more room is taken than so many can need that are there.
pub(super) fn read_list<T: Field>(r: &mut Reader<'_>, limit: usize) -> Option<Vec<T>> {
    let count = r.count(T::BYTES_MIN).filter(|&count| count <= limit)?;
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        list.push(T::read(r)?);
    }
    Some(list)
}

/// The same for a list that is short, and mostly of one.
#[inline]
pub(super) fn read_few<A: Array<Item: Field>>(r: &mut Reader<'_>, limit: usize) -> Option<SmallVec<A>> {
    let count = r.count(A::Item::BYTES_MIN).filter(|&count| count <= limit)?;
    let mut list = SmallVec::new();
    if count > A::size() {
        list.reserve_exact(count);
    }
    for _ in 0..count {
        list.push(A::Item::read(r)?);
    }
    Some(list)
}

/// Bytes behind their length.
#[inline]
pub(super) fn read_blob<'b>(r: &mut Reader<'b>) -> Option<&'b [u8]> {
    let len = r.count(1)?;
    r.take(len)
}

/// What a body holds without reference to the payload.
pub(super) trait Field: Sized {
    /// Bytes of the shortest encoding, at least one.
    const BYTES_MIN: usize;

    /// Appends the encoding.
    fn put(&self, w: &mut Writer<'_>);

    /// Reads what `put` writes; `None` for anything else.
    fn read(r: &mut Reader<'_>) -> Option<Self>;
}

/// A struct whose encoding is that of its fields, in this order.
macro_rules! record {
    ($name:ty { $($field:ident: $kind:ty),+ $(,)? }) => {
        impl $crate::wire::field::Field for $name {
            const BYTES_MIN: usize = 0 $(+ <$kind as $crate::wire::field::Field>::BYTES_MIN)+;

            fn put(&self, w: &mut $crate::wire::field::Writer<'_>) {
                $($crate::wire::field::Field::put(&self.$field, w);)+
            }

            fn read(r: &mut $crate::bytes::Reader<'_>) -> Option<Self> {
                $(let $field = <$kind as $crate::wire::field::Field>::read(r)?;)+
                Some(Self { $($field),+ })
            }
        }
    };
}
pub(super) use record;

/// An enum without fields, a byte each. The numbers are persistent: never renumber.
macro_rules! choice {
    ($name:ty { $($variant:ident = $number:literal),+ $(,)? }) => {
        impl $crate::wire::field::Field for $name {
            const BYTES_MIN: usize = 1;

            fn put(&self, w: &mut $crate::wire::field::Writer<'_>) {
                let number: u8 = match self { $(Self::$variant => $number,)+ };
                w.put(&number);
            }

            fn read(r: &mut $crate::bytes::Reader<'_>) -> Option<Self> {
                Some(match r.u8()? { $($number => Self::$variant,)+ _ => return None })
            }
        }
    };
}
pub(super) use choice;

/// Integers, in as many bytes as they have.
macro_rules! integer {
    ($($kind:ident: $bytes:literal),+) => {
        $(impl Field for $kind {
            const BYTES_MIN: usize = $bytes;

            #[inline]
            fn put(&self, w: &mut Writer<'_>) {
                w.raw(&self.to_le_bytes());
            }

            #[inline]
            fn read(r: &mut Reader<'_>) -> Option<Self> {
                r.$kind()
            }
        })+
    };
}
integer!(u8: 1, u16: 2, u32: 4, u64: 8, u128: 16);

/// Numbers with a name, as the number.
macro_rules! named {
    ($($name:ident: $kind:ident),+) => {
        $(impl Field for $name {
            const BYTES_MIN: usize = <$kind as Field>::BYTES_MIN;

            #[inline]
            fn put(&self, w: &mut Writer<'_>) {
                self.0.put(w);
            }

            #[inline]
            fn read(r: &mut Reader<'_>) -> Option<Self> {
                $kind::read(r).map(Self)
            }
        })+
    };
}
named!(ContNo: u32, TargetNo: u16, Epoch: u64, Cond: u64, QueryFlags: u32);

record!(Recx { index: u64, count: u64 });
record!(TxId { client: u128, begin: Epoch });
choice!(Durability { Power = 0, Process = 1 });

impl Field for bool {
    const BYTES_MIN: usize = 1;

    #[inline]
    fn put(&self, w: &mut Writer<'_>) {
        w.put(&u8::from(*self));
    }

    #[inline]
    fn read(r: &mut Reader<'_>) -> Option<Self> {
        match r.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Field for i32 {
    const BYTES_MIN: usize = 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.raw(&self.to_le_bytes());
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        r.u32().map(u32::cast_signed)
    }
}

impl Field for Oid {
    const BYTES_MIN: usize = 16;

    #[inline]
    fn put(&self, w: &mut Writer<'_>) {
        w.raw(&self.to_bytes());
    }

    #[inline]
    fn read(r: &mut Reader<'_>) -> Option<Self> {
        r.oid()
    }
}

impl Field for Uuid {
    const BYTES_MIN: usize = 16;

    fn put(&self, w: &mut Writer<'_>) {
        w.raw(self.as_bytes());
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        r.uuid()
    }
}

impl Field for HashKey {
    const BYTES_MIN: usize = 16;

    fn put(&self, w: &mut Writer<'_>) {
        w.raw(&self.0);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        r.take(16)?.try_into().ok().map(Self)
    }
}

/// A key behind its length in two bytes: longer ones than its kind allows are the target's to refuse, as far as they go.
impl Field for Key {
    const BYTES_MIN: usize = 2;

    #[inline]
    fn put(&self, w: &mut Writer<'_>) {
        let Ok(len) = u16::try_from(self.len()) else {
            return w.refuse(Error::KeyTooBig { needed_bytes: self.len() as u64 });
        };
        len.put(w);
        w.raw(self);
    }

    #[inline]
    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let len = usize::from(r.u16()?);
        Some(Self::from_slice(r.take(len)?))
    }
}

impl Field for Vec<u8> {
    const BYTES_MIN: usize = 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.blob(self);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        read_blob(r).map(<[u8]>::to_vec)
    }
}

impl Field for String {
    const BYTES_MIN: usize = 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.blob(self.as_bytes());
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        core::str::from_utf8(read_blob(r)?).ok().map(str::to_owned)
    }
}

impl Field for Label {
    const BYTES_MIN: usize = 5;

    fn put(&self, w: &mut Writer<'_>) {
        w.blob(self.as_str().as_bytes());
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Self::new(core::str::from_utf8(read_blob(r)?).ok()?).ok()
    }
}

impl<T: Field> Field for Option<T> {
    const BYTES_MIN: usize = 1;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.is_some());
        if let Some(field) = self {
            field.put(w);
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(if bool::read(r)? { Some(T::read(r)?) } else { None })
    }
}

/// The extents of one akey.
impl Field for SmallVec<[Recx; 1]> {
    const BYTES_MIN: usize = 4;

    #[inline]
    fn put(&self, w: &mut Writer<'_>) {
        w.list(self, EXTENTS_MAX);
    }

    #[inline]
    fn read(r: &mut Reader<'_>) -> Option<Self> {
        read_few(r, EXTENTS_MAX)
    }
}

/// The akeys of a punch.
impl Field for SmallVec<[Key; 1]> {
    const BYTES_MIN: usize = 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.list(self, IODS_MAX);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        read_few(r, IODS_MAX)
    }
}

/// State, shard, and the position behind its length; the position of a start or an end is empty.
impl Field for Anchor {
    const BYTES_MIN: usize = 5;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&(self.state() as u16));
        w.put(&self.shard);
        let len = u8::try_from(self.position().len()).expect("an anchor holds 104 bytes");
        w.put(&len);
        w.raw(self.position());
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let (state, shard, len) = (r.u16()?, r.u16()?, r.u8()?);
        let position = r.take(usize::from(len))?;
        let mut anchor = match state {
            state if state == AnchorState::Start as u16 && len == 0 => Self::default(),
            state if state == AnchorState::Eof as u16 && len == 0 => Self::eof(),
            state if state == AnchorState::After as u16 => Self::after(position)?,
            _ => return None,
        };
        anchor.shard = shard;
        Some(anchor)
    }
}
