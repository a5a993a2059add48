//! The payload of a frame: parts one after the other, as long as the body says.

use super::field::{Writer, too_big};
use crate::bytes::Reader;
use crate::verb::{Incoming, Payload};
use dolmen_types::limits::FRAME_PAYLOAD_BYTES_MAX;
use dolmen_types::{Error, IoBuf};
use smallvec::SmallVec;
use std::sync::Arc;

/// The parts of a payload in their order; a transport sends them without a copy.
pub type PayloadParts<'p> = SmallVec<[&'p [u8]; 1]>;

/// A frame in the making: its body, and the payload that goes behind it.
pub(super) struct Gather<'o, 'p> {
    pub(super) body: Writer<'o>,
    parts: PayloadParts<'p>,
    payload_bytes: u64,
    /// Whether it says whom writes are charged to: the other side understands that.
    pub(super) names_charged: bool,
    /// Whether it says where a transaction has only read: so does that.
    pub(super) tells_ends: bool,
}

impl<'o, 'p> Gather<'o, 'p> {
    pub(super) fn new(out: &'o mut Vec<u8>, names_charged: bool, tells_ends: bool) -> Self {
        Self { body: Writer::new(out), parts: SmallVec::new(), payload_bytes: 0, names_charged, tells_ends }
    }

    /// Appends a part to the payload and its length to the body.
    #[inline]
    pub(super) fn part(&mut self, bytes: &'p [u8]) {
        let Ok(len) = u32::try_from(bytes.len()) else { return self.body.refuse(too_big(bytes.len())) };
        self.body.put(&len);
        self.payload_bytes += u64::from(len);
        if len > 0 {
            self.parts.push(bytes);
        }
    }

    /// The parts and the sum of their lengths.
    pub(super) fn finish(self) -> Result<(PayloadParts<'p>, u64), Error> {
        self.body.finish()?;
        if self.payload_bytes > FRAME_PAYLOAD_BYTES_MAX as u64 {
            return Err(Error::RecTooBig { needed_bytes: self.payload_bytes });
        }
        Ok((self.parts, self.payload_bytes))
    }
}

/// A payload that came in.
pub(super) enum Source<'p> {
    /// Stays with the caller.
    Borrowed(&'p [u8]),
    /// Moves into the message if one part is all of it.
    Owned(IoBuf),
    /// Several parts of the message have it together.
    Shared(Arc<Incoming>),
}

/// A frame that came in: what is left of its body and of its payload.
pub(super) struct Input<'b, 'p> {
    pub(super) body: Reader<'b>,
    payload: Source<'p>,
    len: usize,
    at: usize,
}

impl<'b, 'p> Input<'b, 'p> {
    pub(super) fn new(body: &'b [u8], payload: Source<'p>) -> Self {
        let len = match &payload {
            Source::Borrowed(bytes) => bytes.len(),
            Source::Owned(buf) => buf.len(),
            Source::Shared(buf) => buf.bytes.len(),
        };
        Self { body: Reader::new(body), payload, len, at: 0 }
    }

    /// The next part, whose length is the body's next field; `None` if there are not so many bytes.
    #[inline]
    pub(super) fn part(&mut self) -> Option<Payload<'p>> {
        let len = usize::try_from(self.body.u32()?).ok()?;
        let start = self.at;
        self.at = start.checked_add(len).filter(|&end| end <= self.len)?;
        if len == 0 {
            return Some(Payload::Ref(&[]));
        }
        Some(match core::mem::replace(&mut self.payload, Source::Borrowed(&[])) {
            Source::Borrowed(bytes) => {
                self.payload = Source::Borrowed(bytes);
                Payload::Ref(&bytes[start..self.at])
            }
            Source::Owned(buf) if len == self.len => Payload::Owned(buf),
            Source::Owned(buf) => {
                let all = Incoming { bytes: buf, ..Incoming::default() };
                self.shared(Arc::new(all), start, len)
            }
            Source::Shared(buf) => self.shared(buf, start, len),
        })
    }

    fn shared(&mut self, buf: Arc<Incoming>, start: usize, len: usize) -> Payload<'p> {
        self.payload = Source::Shared(Arc::clone(&buf));
        Payload::Shared { buf, start, len }
    }

    /// Length of the whole payload.
    #[inline]
    pub(super) fn payload_bytes(&self) -> u64 {
        self.len as u64
    }

    /// Whether body and payload were read to their ends.
    #[inline]
    pub(super) fn is_at_end(&self) -> bool {
        self.body.remaining() == 0 && self.at == self.len
    }
}
