//! Frames that a stream has had no room for yet.
//!
//! Invariants: bytes leave in the order in which they were put; while something waits, nothing passes it by.

use crate::error::Result;
use crate::stream::Stream;
use core::ops::Range;
use dolmen_types::IoBuf;
use std::collections::VecDeque;

/// What waits for room.
#[derive(Debug, Default)]
pub(crate) struct Output {
    waiting: VecDeque<Piece>,
    /// Buffers that have left, for who uses them again.
    done: Vec<IoBuf>,
}

#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    rest: Range<usize>,
}

#[derive(Debug)]
enum Bytes {
    Small(Vec<u8>),
    Large(std::sync::Arc<IoBuf>),
}

impl Output {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sends header and body of a frame.
    #[inline]
    pub(crate) fn put(&mut self, stream: &mut Stream, bytes: &[u8]) -> Result<()> {
        let sent = if self.waiting.is_empty() { stream.write(bytes)? } else { 0 };
        if sent < bytes.len() {
            let rest = bytes[sent..].to_vec();
            self.waiting.push_back(Piece { rest: 0..rest.len(), bytes: Bytes::Small(rest) });
        }
        Ok(())
    }

    /// Sends parts of a buffer; gives it back unless it has to wait.
    pub(crate) fn put_parts(
        &mut self,
        stream: &mut Stream,
        buf: IoBuf,
        mut parts: impl Iterator<Item = Range<usize>>,
    ) -> Result<Option<IoBuf>> {
        while self.waiting.is_empty() {
            let Some(part) = parts.next() else { return Ok(Some(buf)) };
            let sent = stream.write(&buf[part.clone()])?;
            if sent < part.len() {
                let buf = std::sync::Arc::new(buf);
                let rest = part.start + sent..part.end;
                self.waiting.push_back(Piece { rest, bytes: Bytes::Large(buf.clone()) });
                self.keep(&buf, parts);
                return Ok(None);
            }
        }
        self.keep(&std::sync::Arc::new(buf), parts);
        Ok(None)
    }

    fn keep(&mut self, buf: &std::sync::Arc<IoBuf>, parts: impl Iterator<Item = Range<usize>>) {
        let pieces = parts.map(|rest| Piece { rest, bytes: Bytes::Large(std::sync::Arc::clone(buf)) });
        self.waiting.extend(pieces);
    }

    /// Takes a buffer all of which is sent.
    pub(crate) fn take_done(&mut self) -> Option<IoBuf> {
        self.done.pop()
    }

    /// Sends what there is room for now; whether nothing waits any more.
    pub(crate) fn go_on(&mut self, stream: &mut Stream) -> Result<bool> {
        while let Some(piece) = self.waiting.front_mut() {
            let bytes = match &piece.bytes {
                Bytes::Small(bytes) => &bytes[piece.rest.clone()],
                Bytes::Large(buf) => &buf[piece.rest.clone()],
            };
            let sent = stream.write(bytes)?;
            piece.rest.start += sent;
            if !piece.rest.is_empty() {
                return Ok(false);
            }
            if let Some(Piece { bytes: Bytes::Large(buf), .. }) = self.waiting.pop_front() {
                self.done.extend(std::sync::Arc::into_inner(buf));
            }
        }
        Ok(true)
    }
}
