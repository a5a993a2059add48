//! Frames that a stream has had no room for yet.
//!
//! Invariants: bytes leave in the order in which they were put; while something waits, nothing passes it by.

use crate::error::Result;
use crate::stream::Stream;
use core::ops::Range;
use dolmen_types::{IoBuf, crc32c_append};
use std::collections::VecDeque;
use std::sync::Arc;

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
    Large(Arc<IoBuf>),
}

impl Output {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.iter().map(|piece| piece.rest.len()).sum()
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

    /// Sends parts of a buffer, and behind them their checksum if they have one; gives the buffer back unless it has to wait.
    pub(crate) fn put_parts(
        &mut self,
        stream: &mut Stream,
        is_summed: bool,
        buf: IoBuf,
        parts: impl Iterator<Item = Range<usize>>,
    ) -> Result<Option<IoBuf>> {
        let piece_bytes = if is_summed { stream.piece_bytes() } else { usize::MAX };
        let mut pieces = parts.flat_map(|part| pieces_of(part, piece_bytes)).peekable();
        let is_summed = is_summed && pieces.peek().is_some();
        let (mut sum, mut tail_sent, mut rest) = (0, 0, None);
        while self.waiting.is_empty() && rest.is_none() {
            let Some(piece) = pieces.next() else { break };
            let bytes = &buf[piece.clone()];
            if is_summed {
                sum = crc32c_append(sum, bytes);
            }
            // The sum goes with the last piece: a packet of its own would cost as much as one of these.
            let is_last = is_summed && pieces.peek().is_none();
            let tail = sum.to_le_bytes();
            let sent = stream.write_with_tail(bytes, if is_last { &tail } else { &[] })?;
            tail_sent = sent.saturating_sub(bytes.len());
            rest = (sent < bytes.len()).then_some(piece.start + sent..piece.end);
        }
        let buf = Arc::new(buf);
        rest.into_iter().for_each(|rest| self.keep(&buf, rest));
        for piece in pieces {
            if is_summed {
                sum = crc32c_append(sum, &buf[piece.clone()]);
            }
            self.keep(&buf, piece);
        }
        if is_summed {
            self.put(stream, &sum.to_le_bytes()[tail_sent..])?;
        }
        Ok(Arc::into_inner(buf))
    }

    /// Keeps a part that has to wait; parts that meet become one.
    fn keep(&mut self, buf: &Arc<IoBuf>, part: Range<usize>) {
        if let Some(Piece { bytes: Bytes::Large(before), rest }) = self.waiting.back_mut()
            && Arc::ptr_eq(before, buf)
            && rest.end == part.start
        {
            rest.end = part.end;
        } else {
            self.waiting.push_back(Piece { rest: part, bytes: Bytes::Large(Arc::clone(buf)) });
        }
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
                self.done.extend(Arc::into_inner(buf));
            }
        }
        Ok(true)
    }
}

/// A part in pieces of `piece_bytes` at most.
fn pieces_of(part: Range<usize>, piece_bytes: usize) -> impl Iterator<Item = Range<usize>> {
    let end = part.end;
    part.step_by(piece_bytes).map(move |start| start..end.min(start.saturating_add(piece_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Replies;
    use crate::input::tests::{header, next, pair};
    use crate::terms::Terms;
    use dolmen_codec::wire::Version;

    #[test]
    fn payloads_that_have_to_wait_come_with_a_checksum_of_all_of_their_pieces() {
        let (mut near, mut far) = pair();
        let mut output = Output::default();
        let mut replies = Replies::new(Terms::of(Version::Two, &near));
        let parts = [3..700_000, 700_000..700_001, 800_000..8 << 20];
        let bytes: Vec<u8> = (0..=250).cycle().take(8 << 20).collect();
        let payload_bytes: usize = parts.iter().map(Range::len).sum();
        // The second waits behind the first, of which a socket takes only so much.
        for _ in 0..2 {
            output.put(&mut far, &header(payload_bytes)).unwrap();
            let sent = output.put_parts(&mut far, true, IoBuf::copy_of(&bytes), parts.iter().cloned());
            assert!(sent.unwrap().is_none(), "it has to wait");
        }
        let mut count = 0;
        while count < 2 {
            output.go_on(&mut far).unwrap();
            far.flush().unwrap();
            let Some((_, buf)) = next(&mut replies, &mut near, &parts).unwrap() else { continue };
            assert!(parts.iter().all(|part| buf[part.clone()] == bytes[part.clone()]));
            count += 1;
        }
        assert!(output.is_empty());
        assert_eq!(std::iter::from_fn(|| output.take_done()).count(), 2, "both buffers can be used again");
    }
}
