//! Little-endian reading and writing of envelopes; every read is range-checked, and what is wrong is named with its offset.

use crate::error::{Error, Fault, Feature, Result, Structure};

/// A place in untrusted bytes of one structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where `bytes` starts in the structure.
    base: u64,
    structure: Structure,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(structure: Structure, bytes: &'a [u8]) -> Self {
        Self::within(structure, bytes, 0)
    }

    /// Of a part that starts at `base` of the structure.
    pub(crate) fn within(structure: Structure, bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, at: 0, base, structure }
    }

    pub(crate) fn structure(&self) -> Structure {
        self.structure
    }

    /// Where it stands in the structure.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The error that something just here is wrong.
    pub(crate) fn corrupt(&self, fault: Fault) -> Error {
        Error::Corrupt { structure: self.structure, offset: self.offset(), fault }
    }

    /// The error that something just here is of an unknown kind.
    pub(crate) fn unsupported(&self, feature: Feature) -> Error {
        Error::Unsupported { structure: self.structure, offset: self.offset(), feature }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count);
        let Some(part) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            let fault = Fault::Short { wanted_bytes: count as u64, left_bytes: self.remaining() as u64 };
            return Err(self.corrupt(fault));
        };
        self.at += count;
        Ok(part)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(*self.take(N)?.first_chunk().expect("N bytes were taken"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64> {
        self.array().map(f64::from_le_bytes)
    }

    pub(crate) fn string(&mut self) -> Result<Box<str>> {
        let start = *self;
        let count = self.u32()?;
        let bytes = self.take(count as usize)?;
        core::str::from_utf8(bytes).map(Into::into).or(Err(start.corrupt(Fault::Text)))
    }

    /// Words of flags, all of which have to be of `known` bits of the first.
    pub(crate) fn flags(&mut self, known: u64) -> Result<u64> {
        let start = *self;
        let word = self.u64()?;
        if word & !known != 0 { Err(start.unsupported(Feature::Flags(word))) } else { Ok(word) }
    }

    /// The contents of the record frame here; the cursor goes behind it.
    pub(crate) fn record(&mut self) -> Result<Self> {
        let start = *self;
        let size_bytes = self.i64()?;
        let Some(payload_bytes) = usize::try_from(size_bytes).ok().and_then(|size| size.checked_sub(8))
        else {
            return Err(start.corrupt(Fault::Length));
        };
        self.inner(payload_bytes)
    }

    /// The contents of the list frame here, and how many items it has, each of which takes at least `item_bytes_min`;
    /// the cursor goes behind it.
    pub(crate) fn list(&mut self, item_bytes_min: usize) -> Result<(Self, usize)> {
        let start = *self;
        let size_bytes = self.i64()?.checked_neg();
        let count = self.u32()? as usize;
        let payload =
            size_bytes.and_then(|size| usize::try_from(size).ok()).and_then(|size| size.checked_sub(12));
        let Some(payload_bytes) = payload else {
            return Err(start.corrupt(Fault::Length));
        };
        if count > payload_bytes / item_bytes_min {
            return Err(start.corrupt(Fault::Length));
        }
        Ok((self.inner(payload_bytes)?, count))
    }

    fn inner(&mut self, count: usize) -> Result<Self> {
        let base = self.offset();
        Ok(Self { bytes: self.take(count)?, at: 0, base, structure: self.structure })
    }
}

/// Bytes of an envelope that is being made.
#[derive(Default, Debug)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
}

impl Builder {
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.put(&value.to_le_bytes());
    }

    pub(crate) fn f64(&mut self, value: f64) {
        self.put(&value.to_le_bytes());
    }

    /// # Panics
    /// If the text is of 4 GiB or more, which no schema has.
    pub(crate) fn string(&mut self, text: &str) {
        self.u32(u32::try_from(text.len()).expect("a name is short"));
        self.put(text.as_bytes());
    }

    /// A record frame with what `fill` puts.
    pub(crate) fn record(&mut self, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.i64(0);
        fill(self);
        let size_bytes = i64::try_from(self.bytes.len() - start).expect("memory has fewer bytes");
        self.bytes[start..start + 8].copy_from_slice(&size_bytes.to_le_bytes());
    }

    /// A list frame with what `fill` puts for each item.
    ///
    /// # Panics
    /// If there are 2^32 items or more.
    pub(crate) fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut fill: impl FnMut(&mut Self, T),
    ) {
        self.list_with_tail(items, &mut fill, |_| ());
    }

    /// As [`list`](Self::list), with what `tail` puts behind the items and within the frame.
    ///
    /// # Panics
    /// If there are 2^32 items or more.
    pub(crate) fn list_with_tail<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut fill: impl FnMut(&mut Self, T),
        tail: impl FnOnce(&mut Self),
    ) {
        let start = self.bytes.len();
        self.i64(0);
        self.u32(u32::try_from(items.len()).expect("a list has fewer items"));
        for item in items {
            fill(self, item);
        }
        tail(self);
        let size_bytes = i64::try_from(self.bytes.len() - start).expect("memory has fewer bytes");
        self.bytes[start..start + 8].copy_from_slice(&(-size_bytes).to_le_bytes());
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
