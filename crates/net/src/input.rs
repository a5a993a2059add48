//! Frames as they arrive, in pieces of any size.
//!
//! Invariants: no more is read than the header in front says; the header is checked before memory is taken for what it
//! says, and more than a piece of that only as it comes; a server asks for all of it, but for the first piece of a body.

use crate::error::{Error, Result, Violation};
use crate::stream::Stream;
use core::ops::Range;
use dolmen_codec::wire::{BadFrame, REPLY_HEADER_BYTES, REQUEST_HEADER_BYTES, ReplyHeader, RequestHeader};
use dolmen_types::IoBuf;

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
        if !fill(stream, payload, at)? {
            return Ok(false);
        }
    }
    Ok(true)
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
    head: [u8; REQUEST_HEADER_BYTES],
    header: Option<RequestHeader>,
    body: Vec<u8>,
    payload: IoBuf,
    at: usize,
    is_body_read: bool,
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self {
            head: [0; REQUEST_HEADER_BYTES],
            header: None,
            body: Vec::new(),
            payload: IoBuf::default(),
            at: 0,
            is_body_read: false,
        }
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
    ) -> Result<Option<(RequestHeader, IoBuf)>> {
        let header = match self.header {
            Some(header) => header,
            None => {
                if !fill(stream, &mut self.head, &mut self.at)? {
                    return Ok(None);
                }
                let header = RequestHeader::decode(&self.head).map_err(bad_frame)?;
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
        if !fill_payload(stream, &mut self.payload, &mut self.at, payload_bytes, has_room)? {
            return Ok(None);
        }
        (self.header, self.at) = (None, 0);
        Ok(Some((header, core::mem::take(&mut self.payload))))
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
    head: [u8; REPLY_HEADER_BYTES],
    header: Option<ReplyHeader>,
    body: Vec<u8>,
    at: usize,
    landing: Option<Landing>,
    part: usize,
}

impl Replies {
    pub(crate) fn new() -> Self {
        Self { head: [0; REPLY_HEADER_BYTES], header: None, body: Vec::new(), at: 0, landing: None, part: 0 }
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
                let header = ReplyHeader::decode(&self.head).map_err(bad_frame)?;
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
        let landing = self.landing.as_mut().expect("set above");
        while let Some(part) = landing.parts.get(self.part) {
            if !fill(stream, &mut landing.buf[part.clone()], &mut self.at)? {
                return Ok(None);
            }
            (self.at, self.part) = (0, self.part + 1);
        }
        self.header = None;
        let landing = self.landing.take().expect("set above");
        Ok(Some((header, landing.buf)))
    }

    /// Gives up what has come of a reply; the buffer that its payload was going to, with the reply's token.
    pub(crate) fn give_up(&mut self) -> Option<(u64, IoBuf)> {
        let abandoned = core::mem::replace(self, Self::new());
        Some((abandoned.header?.token, abandoned.landing?.buf))
    }
}

/// A length that a header says, which the header's decoder has limited.
fn length(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).or(Err(Error::Protocol(Violation::Frame)))
}
