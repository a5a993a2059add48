//! Frames as they arrive, in pieces of any size.
//!
//! Invariants: no more is read than the header in front says; the header is checked before memory is taken for what it
//! says, and more than a piece of that only as it comes; a server asks for all of it, but for the first piece of a body; a
//! payload is not given out before its checksum was verified, where it has one.

use crate::error::{Error, Result, Violation};
use crate::stream::Stream;
use crate::terms::Terms;
use core::ops::Range;
use dolmen_codec::verb::{ChunkSums, Incoming};
use dolmen_codec::wire::{
    BadFrame, PAYLOAD_SUM_BYTES, REPLY_HEADER_BYTES, REQUEST_HEADER_BYTES, ReplyHeader, RequestHeader,
};
use dolmen_types::limits::CSUM_CHUNK_BYTES;
use dolmen_types::{IoBuf, crc32c_append, crc32c_join};

/// Memory that is taken for a body, or a payload, before anything of it has come; later twice what has come.
const BODY_BYTES_AHEAD: usize = 64 << 10;
const PAYLOAD_BYTES_AHEAD: usize = 2 << 20;

/// Reads on into `bytes[*at..]`; whether they are complete.
#[inline]
pub(crate) fn fill(stream: &mut Stream, bytes: &mut [u8], at: &mut usize) -> Result<bool> {
    while *at < bytes.len() {
        match stream.read(&mut bytes[*at..])? {
            0 => return Ok(false),
            len => *at += len,
        }
    }
    Ok(true)
}

/// As [`fill`], for a body of `len` bytes, which grows as they come; `has_room` says whether it may by so much, and is not
/// asked for the first [`BODY_BYTES_AHEAD`].
fn fill_body(
    stream: &mut Stream,
    body: &mut Vec<u8>,
    at: &mut usize,
    len: usize,
    mut has_room: impl FnMut(usize) -> bool,
) -> Result<bool> {
    while *at < len {
        if *at == body.len() {
            let longer = len.min((2 * *at).max(BODY_BYTES_AHEAD));
            if *at > 0 && !has_room(longer - *at) {
                return Ok(false);
            }
            body.reserve_exact(longer - *at);
            body.resize(longer, 0);
        }
        if !fill(stream, body, at)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// As [`fill_body`], for a payload; `has_room` says whether it may grow by so much.
fn fill_payload(
    stream: &mut Stream,
    mut sum: Option<&mut Sum>,
    payload: &mut IoBuf,
    at: &mut usize,
    len: usize,
    mut has_room: impl FnMut(usize) -> bool,
) -> Result<bool> {
    while *at < len {
        if *at == payload.len() {
            let longer = len.min((2 * *at).max(PAYLOAD_BYTES_AHEAD));
            if !has_room(longer - payload.len()) {
                return Ok(false);
            }
            payload.set_len(longer);
        }
        if !fill_summed(stream, sum.as_deref_mut(), payload, at)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The checksums of a payload that arrives, and what its sender says of the whole.
#[derive(Debug, Default)]
struct Sum {
    /// Of chunks that are complete, and of all of them together.
    chunks: ChunkSums,
    whole: u32,
    /// Of what has come of the next one, and how much that is.
    next: u32,
    next_bytes: usize,
    told: [u8; PAYLOAD_SUM_BYTES],
    at: usize,
}

impl Sum {
    /// As [`fill`], for a payload, which is summed while it is in the cache.
    fn fill(&mut self, stream: &mut Stream, bytes: &mut [u8], at: &mut usize) -> Result<bool> {
        let piece_bytes = stream.piece_bytes();
        while *at < bytes.len() {
            let end = bytes.len().min(*at + piece_bytes);
            match stream.read(&mut bytes[*at..end])? {
                0 => return Ok(false),
                len => {
                    self.add(&bytes[*at..*at + len]);
                    *at += len;
                }
            }
        }
        Ok(true)
    }

    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let part;
            (part, bytes) = bytes.split_at(bytes.len().min(CSUM_CHUNK_BYTES - self.next_bytes));
            self.next = crc32c_append(self.next, part);
            self.next_bytes += part.len();
            if self.next_bytes == CSUM_CHUNK_BYTES {
                self.end_chunk();
            }
        }
    }

    fn end_chunk(&mut self) {
        self.chunks.push(self.next);
        self.whole = crc32c_join(self.whole, self.next, self.next_bytes);
        (self.next, self.next_bytes) = (0, 0);
    }

    /// Reads what the sender says, once the whole payload has come, and compares; the sums of all chunks once it has come.
    fn verify(&mut self, stream: &mut Stream) -> Result<Option<ChunkSums>> {
        if !fill(stream, &mut self.told, &mut self.at)? {
            return Ok(None);
        }
        if self.next_bytes > 0 {
            self.end_chunk();
        }
        let Self { chunks, whole, told, .. } = core::mem::take(self);
        if u32::from_le_bytes(told) == whole {
            Ok(Some(chunks))
        } else {
            Err(bad_frame(BadFrame::PayloadSum))
        }
    }
}

/// As [`fill`] and, if there is a `sum`, also [`Sum::fill`].
#[inline]
fn fill_summed(stream: &mut Stream, sum: Option<&mut Sum>, bytes: &mut [u8], at: &mut usize) -> Result<bool> {
    match sum {
        Some(sum) => sum.fill(stream, bytes, at),
        None => fill(stream, bytes, at),
    }
}

/// Makes room for the next body; memory that a large one took is given back.
fn renew(body: &mut Vec<u8>) {
    if body.capacity() > BODY_BYTES_AHEAD {
        *body = Vec::new();
    }
    body.clear();
}

/// What a peer has sent cannot be read.
pub(crate) fn bad_frame(bad: BadFrame) -> Error {
    Error::Protocol(match bad {
        BadFrame::Version { .. } => Violation::Version,
        BadFrame::Checksum | BadFrame::BodySum | BadFrame::PayloadSum => Violation::Damage,
        _ => Violation::Frame,
    })
}

/// Memory that a frame needs while it arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// A body has come: so many bytes of it were not asked for yet. A buffer is needed for the payload, or its beginning.
    First { body_bytes: usize, payload_bytes: usize },
    /// The body, or the payload's buffer, is to grow; the buffer that is given is not looked at.
    More { byte_count: usize },
}

/// Requests of one connection.
#[derive(Debug)]
pub(crate) struct Requests {
    terms: Terms,
    head: [u8; REQUEST_HEADER_BYTES],
    header: Option<RequestHeader>,
    body: Vec<u8>,
    payload: IoBuf,
    at: usize,
    is_body_read: bool,
    sum: Sum,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self {
            terms: Terms::default(),
            head: [0; REQUEST_HEADER_BYTES],
            header: None,
            body: Vec::new(),
            payload: IoBuf::default(),
            at: 0,
            is_body_read: false,
            sum: Sum::default(),
        }
    }

    /// What holds for the frames, once that is agreed on.
    pub(crate) fn agree(&mut self, terms: Terms) {
        self.terms = terms;
    }

    /// The next request that is complete, with its payload; its body is that of [`Requests::body`] until the next call, or
    /// that of [`Requests::forget_body`].
    /// `room` is asked for memory as the frame comes, and may refuse for now.
    ///
    /// # Errors
    /// [`Error::Protocol`]; those of the stream.
    pub(crate) fn next(
        &mut self,
        stream: &mut Stream,
        mut room: impl FnMut(Room) -> Option<IoBuf>,
    ) -> Result<Option<(RequestHeader, Incoming)>> {
        let header = match self.header {
            Some(header) => header,
            None => {
                if !fill(stream, &mut self.head, &mut self.at)? {
                    return Ok(None);
                }
                let header = RequestHeader::decode(&self.head, self.terms.version).map_err(bad_frame)?;
                renew(&mut self.body);
                (self.header, self.at, self.is_body_read) = (Some(header), 0, false);
                header
            }
        };
        let (body_bytes, payload_bytes) =
            (length(u64::from(header.body_bytes))?, length(header.payload_bytes)?);
        if !self.is_body_read {
            let has_room = |len| room(Room::More { byte_count: len }).is_some();
            if !fill_body(stream, &mut self.body, &mut self.at, body_bytes, has_room)? {
                return Ok(None);
            }
            let begun = Room::First {
                body_bytes: body_bytes.min(BODY_BYTES_AHEAD),
                payload_bytes: payload_bytes.min(PAYLOAD_BYTES_AHEAD),
            };
            let Some(payload) = room(begun) else { return Ok(None) };
            (self.payload, self.at, self.is_body_read) = (payload, 0, true);
        }
        let has_room = |len| room(Room::More { byte_count: len }).is_some();
        let is_summed = self.terms.sums_requests && payload_bytes > 0;
        let sum = is_summed.then_some(&mut self.sum);
        if !fill_payload(stream, sum, &mut self.payload, &mut self.at, payload_bytes, has_room)? {
            return Ok(None);
        }
        let mut sums = ChunkSums::new();
        if is_summed {
            let Some(verified) = self.sum.verify(stream)? else { return Ok(None) };
            sums = verified;
        }
        (self.header, self.at) = (None, 0);
        Ok(Some((header, Incoming { bytes: core::mem::take(&mut self.payload), sums })))
    }

    /// The body of the request that was given out last.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Gives the memory of a long body back once it was looked at: the next request may be long in coming.
    pub(crate) fn forget_body(&mut self) {
        renew(&mut self.body);
    }
}

/// Where a reply's payload goes: the parts of a buffer, in order.
#[derive(Debug, Default)]
pub(crate) struct Landing {
    pub(crate) buf: IoBuf,
    pub(crate) parts: Vec<Range<usize>>,
}

/// Replies of one connection.
#[derive(Debug)]
pub(crate) struct Replies {
    terms: Terms,
    head: [u8; REPLY_HEADER_BYTES],
    header: Option<ReplyHeader>,
    body: Vec<u8>,
    at: usize,
    landing: Option<Landing>,
    part: usize,
    sum: Sum,
}

impl Replies {
    pub(crate) fn new(terms: Terms) -> Self {
        Self {
            terms,
            head: [0; REPLY_HEADER_BYTES],
            header: None,
            body: Vec::new(),
            at: 0,
            landing: None,
            part: 0,
            sum: Sum::default(),
        }
    }

    /// The next reply that is complete, with the buffer that its payload has gone to. `land` is asked once, with header
    /// and body, where that is to be.
    ///
    /// # Errors
    /// [`Error::Protocol`], also of `land`; those of the stream.
    pub(crate) fn next(
        &mut self,
        stream: &mut Stream,
        land: impl FnOnce(&ReplyHeader, &[u8]) -> Result<Landing>,
    ) -> Result<Option<(ReplyHeader, IoBuf)>> {
        let header = match self.header {
            Some(header) => header,
            None => {
                if !fill(stream, &mut self.head, &mut self.at)? {
                    return Ok(None);
                }
                let header = ReplyHeader::decode(&self.head, self.terms.version).map_err(bad_frame)?;
                renew(&mut self.body);
                (self.header, self.at) = (Some(header), 0);
                header
            }
        };
        if self.landing.is_none() {
            let body_bytes = length(u64::from(header.body_bytes))?;
            if !fill_body(stream, &mut self.body, &mut self.at, body_bytes, |_| true)? {
                return Ok(None);
            }
            let landing = land(&header, &self.body)?;
            let room: usize = landing.parts.iter().map(Range::len).sum();
            if room != length(u64::from(header.payload_bytes))? {
                return Err(Error::Protocol(Violation::Frame));
            }
            (self.landing, self.at, self.part) = (Some(landing), 0, 0);
        }
        let is_summed = self.terms.sums_replies && header.payload_bytes > 0;
        let landing = self.landing.as_mut().expect("set above");
        while let Some(part) = landing.parts.get(self.part) {
            let sum = is_summed.then_some(&mut self.sum);
            if !fill_summed(stream, sum, &mut landing.buf[part.clone()], &mut self.at)? {
                return Ok(None);
            }
            (self.at, self.part) = (0, self.part + 1);
        }
        if is_summed && self.sum.verify(stream)?.is_none() {
            return Ok(None);
        }
        self.header = None;
        let landing = self.landing.take().expect("set above");
        Ok(Some((header, landing.buf)))
    }

    /// Gives up what has come of a reply; the buffer that its payload was going to, with the reply's token. What has come of
    /// that is wiped: it was not verified, and the next answer may leave those bytes alone.
    pub(crate) fn give_up(&mut self) -> Option<(u64, IoBuf)> {
        let abandoned = core::mem::replace(self, Self::new(self.terms));
        let (header, Landing { mut buf, parts }) = (abandoned.header?, abandoned.landing?);
        for part in parts.into_iter().take(abandoned.part + 1) {
            buf[part].fill(0);
        }
        Some((header.token, buf))
    }
}

/// A length that a header says, which the header's decoder has limited.
fn length(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).or(Err(Error::Protocol(Violation::Frame)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use dolmen_codec::wire::{ReplyKind, Version};
    use dolmen_env::{Address, Listener, Socket};
    use dolmen_types::{Epoch, crc32c};

    /// Two ends of a connection.
    pub(crate) fn pair() -> (Stream, Stream) {
        let listener = Listener::bind(&Address::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        let near = Socket::connect(listener.address(), core::time::Duration::from_secs(10)).unwrap();
        let far = std::iter::repeat_with(|| listener.accept().unwrap()).find_map(|far| far).unwrap();
        (Stream::over_socket(near), Stream::over_socket(far))
    }

    pub(crate) fn header(payload_bytes: usize) -> [u8; REPLY_HEADER_BYTES] {
        let header = ReplyHeader {
            version: Version::Two,
            kind: ReplyKind::Fetched,
            status: 0,
            token: 1,
            epoch: Epoch::ZERO,
            push_seq: 0,
            lease: 0,
            lease_term_ms: 0,
            map_version: 0,
            body_bytes: 0,
            payload_bytes: u32::try_from(payload_bytes).unwrap(),
            body_sum: 0,
        };
        header.encode()
    }

    /// What has come, once something has; the payload goes to `parts` of a buffer of sevens.
    pub(crate) fn next(
        replies: &mut Replies,
        stream: &mut Stream,
        parts: &[Range<usize>],
    ) -> Result<Option<(ReplyHeader, IoBuf)>> {
        let len = parts.last().unwrap().end + 10;
        replies.next(stream, |_, _| Ok(Landing { buf: IoBuf::copy_of(&vec![7; len]), parts: parts.into() }))
    }

    fn received(bytes: &[u8], parts: &[Range<usize>]) -> (Result<IoBuf>, Replies) {
        let (mut near, mut far) = pair();
        assert_eq!(far.write(bytes).unwrap(), bytes.len());
        assert!(far.flush().unwrap());
        let mut replies = Replies::new(Terms::of(Version::Two, &near));
        loop {
            match next(&mut replies, &mut near, parts) {
                Ok(None) => near.wait(false, None).unwrap(),
                Ok(Some((_, buf))) => return (Ok(buf), replies),
                Err(error) => return (Err(error), replies),
            }
        }
    }

    #[test]
    fn a_payload_that_has_changed_is_not_given_out_and_leaves_nothing_in_its_buffer() {
        let parts = [0..60, 80..120];
        let payload: Vec<u8> = (1..=100).collect();
        let good = [&header(100)[..], &payload, &crc32c(&payload).to_le_bytes()].concat();
        let (buf, _) = received(&good, &parts);
        let buf = buf.unwrap();
        assert_eq!([&buf[..60], &buf[80..120]].concat(), payload);
        assert_eq!([&buf[60..80], &buf[120..]].concat(), [7; 30]);
        for at in REPLY_HEADER_BYTES..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 0x10;
            let (refused, mut replies) = received(&changed, &parts);
            assert_eq!(refused.unwrap_err(), Error::Protocol(Violation::Damage), "byte {at}");
            let (token, buf) = replies.give_up().unwrap();
            assert_eq!(token, 1);
            assert_eq!([&buf[..60], &buf[80..120]].concat(), [0; 100], "byte {at}");
            assert_eq!([&buf[60..80], &buf[120..]].concat(), [7; 30]);
        }
    }
}
