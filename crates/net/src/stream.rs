//! Bytes to and from one peer: through a socket, plain or under TLS, or through rings whose socket only calls and tells of the
//! end.
//!
//! Nothing waits but [`Stream::wait`]. Small writes are gathered until [`Stream::flush`].
//!
//! Invariants: bytes are taken in order and each once; a stream whose peer is gone answers [`Error::Ended`] once
//! everything that the peer had written before has been read.

use crate::error::{Error, Result};
use crate::ring::{PIECE_BYTES, Reader, Writer, ends, memory_bytes};
use crate::tls::{Certs, Identity, Session};
use core::time::Duration;
use dolmen_env::{Moved, SharedMemory, Socket};
use std::io::IoSlice;
use std::sync::Arc;

/// Bytes of a socket that are read or gathered at once, and of a part that is read or written where it lies.
const GATHER_BYTES: usize = 64 << 10;
const DIRECT_BYTES: usize = 16 << 10;

/// Bytes that are gathered behind a long part: most likely another one follows a header, and what is gathered of that is
/// copied twice.
const HEAD_BYTES: usize = 1 << 10;

/// Bytes of a payload that go through a socket at once if they are summed: enough to be worth a call of the system, and few
/// enough for a second-level cache.
const SUMMED_BYTES: usize = 256 << 10;

/// What is sent to call a sleeping peer. The byte says nothing: peers look at the rings.
const CALL: [u8; 1] = [0x21];

/// Calls that may lie in the socket; more are read at the next look.
const CALLS_AT_ONCE: usize = 64;

/// Bytes to and from a peer. One thread at a time.
#[derive(Debug)]
pub struct Stream {
    socket: Arc<Socket>,
    /// The peer is on this machine, and packets come from the processor that it runs on.
    is_loopback: bool,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Socket(Buffers),
    Rings(Box<Rings>),
    Tls(Box<Session>),
}

#[derive(Debug)]
struct Buffers {
    /// As long as a read was: what is behind `filled` is from earlier reads.
    input: Vec<u8>,
    taken: usize,
    filled: usize,
    /// How much the next read of something short may gather.
    ahead: usize,
    output: Vec<u8>,
    sent: usize,
}

#[derive(Debug)]
struct Rings {
    memory: SharedMemory,
    reader: Reader,
    writer: Writer,
    has_ended: bool,
}

impl Stream {
    /// Through the socket itself.
    #[must_use]
    pub fn over_socket(socket: Socket) -> Self {
        Self::new(socket, Way::Socket(Buffers::new()))
    }

    fn new(socket: Socket, way: Way) -> Self {
        let is_loopback = socket.remote().is_some_and(|at| at.ip().to_canonical().is_loopback());
        Self { socket: Arc::new(socket), is_loopback, way }
    }

    /// Through the socket under TLS, as whoever has connected.
    ///
    /// # Errors
    /// [`Error::BadCertificate`] if the own certificate is of no use for that.
    pub fn as_tls_client(socket: Socket, certs: &Certs) -> Result<Self> {
        let session = Session::client(certs)?;
        Ok(Self::new(socket, Way::Tls(Box::new(session))))
    }

    /// Through the socket under TLS, as the engine.
    ///
    /// # Errors
    /// As [`Stream::as_tls_client`].
    pub fn as_tls_server(socket: Socket, certs: &Certs) -> Result<Self> {
        let session = Session::server(certs)?;
        Ok(Self::new(socket, Way::Tls(Box::new(session))))
    }

    /// Whom the certificate of the peer names; `None` without TLS, and before it was verified.
    ///
    /// # Errors
    /// [`Error::BadCertificate`] if it names nobody.
    pub fn identity(&self) -> Result<Option<Identity>> {
        match &self.way {
            Way::Tls(session) => session.identity(),
            Way::Socket(_) | Way::Rings(_) => Ok(None),
        }
    }

    /// Whether the bytes go under TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self.way, Way::Tls(_))
    }

    /// The same connection through rings of `ring_bytes` each in `memory` from now on, which this process has `made` or
    /// taken over.
    ///
    /// # Errors
    /// [`Error::Protocol`] if something was sent or has arrived that is not read yet.
    ///
    /// # Panics
    /// If the memory is not as long as that.
    pub fn go_over_to_rings(&mut self, memory: SharedMemory, ring_bytes: usize, made: bool) -> Result<()> {
        assert_eq!(memory.len(), memory_bytes(ring_bytes));
        match &self.way {
            Way::Socket(buffers) if buffers.is_clear() => {}
            _ => return Err(Error::Protocol(crate::error::Violation::Frame)),
        }
        let (reader, writer) = ends(ring_bytes, made);
        self.way = Way::Rings(Box::new(Rings { memory, reader, writer, has_ended: false }));
        Ok(())
    }

    /// The socket: for who is there, and for waiting beside others.
    #[must_use]
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The socket, for who waits for it without the stream.
    #[must_use]
    pub fn shared_socket(&self) -> Arc<Socket> {
        Arc::clone(&self.socket)
    }

    /// Whether the bytes go through shared memory.
    #[must_use]
    pub fn is_ring(&self) -> bool {
        matches!(self.way, Way::Rings(_))
    }

    /// Bytes of a payload that are best read or written at once if they are summed, too: they are in the cache then.
    #[must_use]
    #[inline]
    pub fn piece_bytes(&self) -> usize {
        match &self.way {
            Way::Rings(_) => PIECE_BYTES,
            Way::Socket(_) | Way::Tls(_) => SUMMED_BYTES,
        }
    }

    /// Reads what has arrived into `bytes`, and says how much; nothing if there is nothing now.
    ///
    /// # Errors
    /// [`Error::Ended`], [`Error::Protocol`], [`Error::Env`].
    #[inline]
    pub fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        match &mut self.way {
            Way::Rings(rings) => rings.read(&self.socket, bytes),
            Way::Socket(buffers) => buffers.read(&self.socket, bytes),
            Way::Tls(session) => session.read(&self.socket, bytes),
        }
    }

    /// Takes as much of `bytes` as there is room for, and says how much.
    ///
    /// # Errors
    /// As [`Stream::read`].
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match &mut self.way {
            // Nobody reads what is written now.
            Way::Rings(rings) if rings.has_ended => Err(Error::Ended),
            Way::Rings(rings) => {
                let len = rings.writer.write(&rings.memory, bytes)?;
                if len < bytes.len() {
                    rings.call_reader(&self.socket)?;
                }
                Ok(len)
            }
            Way::Socket(buffers) => buffers.write(&self.socket, bytes),
            Way::Tls(session) => session.write(&self.socket, bytes),
        }
    }

    /// As [`Stream::write`], of `bytes` and `tail` behind them, at once where they need no more than one call of the system.
    ///
    /// # Errors
    /// As [`Stream::read`].
    #[inline]
    pub fn write_with_tail(&mut self, bytes: &[u8], tail: &[u8]) -> Result<usize> {
        if let Way::Socket(buffers) = &mut self.way
            && bytes.len() >= DIRECT_BYTES
        {
            return buffers.write_direct(&self.socket, bytes, tail);
        }
        let len = self.write(bytes)?;
        if len < bytes.len() { Ok(len) } else { Ok(len + self.write(tail)?) }
    }

    /// Sends what was gathered, and gives room back to the peer. Whether all of it is gone; what is not goes with a
    /// later flush.
    ///
    /// # Errors
    /// As [`Stream::read`].
    #[inline]
    pub fn flush(&mut self) -> Result<bool> {
        match &mut self.way {
            Way::Rings(rings) => {
                rings.call_reader(&self.socket)?;
                rings.call_writer(&self.socket)?;
                Ok(true)
            }
            Way::Socket(buffers) => buffers.flush(&self.socket),
            Way::Tls(session) => session.flush(&self.socket),
        }
    }

    /// Says that the owner is going to wait for the socket: for something to read, for room to write, or for both. Whether it
    /// need not, because there is. Otherwise the peer calls when there is.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn rest(&mut self, for_input: bool, for_room: bool) -> Result<bool> {
        match &mut self.way {
            Way::Rings(rings) => {
                let is_ready = for_input && (rings.reader.rest(&rings.memory)? || rings.has_ended);
                let has_room = for_room && (rings.writer.rest(&rings.memory)? || rings.has_ended);
                Ok(is_ready || has_room)
            }
            Way::Socket(buffers) => Ok(buffers.rest() && for_input),
            Way::Tls(session) => Ok(session.rest() && for_input),
        }
    }

    /// Tells the peer which processor this side runs on, where there is a place for it.
    #[inline]
    pub fn tell_cpu(&mut self, cpu: usize) {
        if let Way::Rings(rings) = &mut self.way {
            rings.reader.tell_cpu(&rings.memory, cpu);
        }
    }

    /// The processor that a peer on this machine runs on, as it has said, or as its packets came from: a hint, which may be
    /// old, or forged.
    #[must_use]
    pub fn peer_cpu(&self) -> Option<usize> {
        match &self.way {
            Way::Rings(rings) => rings.writer.reader_cpu(&rings.memory),
            Way::Socket(_) | Way::Tls(_) if self.is_loopback => self.socket.peer_cpu(),
            Way::Socket(_) | Way::Tls(_) => None,
        }
    }

    /// Takes the calls that the peer has sent; the owner is awake again.
    ///
    /// # Errors
    /// [`Error::Env`]. That the peer is gone is noted, and told by [`Stream::read`].
    pub fn wake(&mut self) -> Result<()> {
        if let Way::Rings(rings) = &mut self.way {
            rings.reader.wake(&rings.memory);
            rings.take_calls(&self.socket)?;
        }
        Ok(())
    }

    /// Waits until there is something to read or, `for_room`, room to write; at most for `timeout`.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn wait(&mut self, for_room: bool, timeout: Option<Duration>) -> Result<()> {
        if !self.rest(true, for_room)? {
            let for_room = for_room && !self.is_ring();
            self.socket.wait(true, for_room, timeout)?;
        }
        self.wake()
    }
}

impl Rings {
    #[inline]
    fn read(&mut self, socket: &Socket, bytes: &mut [u8]) -> Result<usize> {
        let len = self.reader.read(&self.memory, bytes)?;
        if len > 0 || bytes.is_empty() {
            return Ok(len);
        }
        self.call_writer(socket)?;
        if !self.has_ended {
            return Ok(0);
        }
        // What was written before the end may have become visible since the first look.
        match self.reader.read(&self.memory, bytes)? {
            0 => Err(Error::Ended),
            len => Ok(len),
        }
    }

    #[inline]
    fn call_reader(&mut self, socket: &Socket) -> Result<()> {
        self.writer.publish(&self.memory);
        if self.writer.must_call(&self.memory) { call(socket) } else { Ok(()) }
    }

    #[inline]
    fn call_writer(&mut self, socket: &Socket) -> Result<()> {
        self.reader.release(&self.memory);
        if self.reader.must_call(&self.memory) { call(socket) } else { Ok(()) }
    }

    fn take_calls(&mut self, socket: &Socket) -> Result<()> {
        if socket.read(&mut [0; CALLS_AT_ONCE])? == Moved::End {
            self.has_ended = true;
        }
        Ok(())
    }
}

/// A socket that is full of calls needs no other; that the peer is gone is found by reading.
fn call(socket: &Socket) -> Result<()> {
    socket.write(&[IoSlice::new(&CALL)])?;
    Ok(())
}

impl Buffers {
    fn new() -> Self {
        Self { input: Vec::new(), taken: 0, filled: 0, ahead: GATHER_BYTES, output: Vec::new(), sent: 0 }
    }

    fn is_clear(&self) -> bool {
        self.taken == self.filled && self.sent == self.output.len()
    }

    /// Whether there is something to read. If not, the memory is given back: there may be thousands who only wait.
    fn rest(&mut self) -> bool {
        if self.taken < self.filled {
            return true;
        }
        (self.input, self.taken, self.filled) = (Vec::new(), 0, 0);
        if self.output.is_empty() {
            self.output = Vec::new();
        }
        false
    }

    fn read(&mut self, socket: &Socket, bytes: &mut [u8]) -> Result<usize> {
        let mut done = self.take(bytes);
        if done == bytes.len() {
            return Ok(done);
        }
        let rest = &mut bytes[done..];
        if rest.len() >= DIRECT_BYTES {
            self.ahead = HEAD_BYTES;
            return match socket.read(rest)? {
                Moved::Bytes(len) => Ok(done + len),
                Moved::End if done == 0 => Err(Error::Ended),
                Moved::Later | Moved::End => Ok(done),
            };
        }
        let ahead = self.ahead.max(rest.len());
        if self.input.len() < ahead {
            self.input = vec![0; ahead];
        }
        let moved = socket.read(&mut self.input[..ahead]);
        self.filled = if let Ok(Moved::Bytes(len)) = moved { len } else { 0 };
        self.taken = 0;
        if self.filled == ahead {
            self.ahead = GATHER_BYTES;
        }
        if matches!(moved?, Moved::End) && done == 0 {
            return Err(Error::Ended);
        }
        done += self.take(&mut bytes[done..]);
        Ok(done)
    }

    fn take(&mut self, bytes: &mut [u8]) -> usize {
        let len = bytes.len().min(self.filled - self.taken);
        bytes[..len].copy_from_slice(&self.input[self.taken..self.taken + len]);
        self.taken += len;
        len
    }

    fn write(&mut self, socket: &Socket, bytes: &[u8]) -> Result<usize> {
        if bytes.len() < DIRECT_BYTES {
            if self.output.len() + bytes.len() > GATHER_BYTES && !self.flush(socket)? {
                return Ok(0);
            }
            self.output.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        self.write_direct(socket, bytes, &[])
    }

    /// Writes behind what was gathered, without gathering more.
    fn write_direct(&mut self, socket: &Socket, bytes: &[u8], tail: &[u8]) -> Result<usize> {
        let gathered = &self.output[self.sent..];
        let parts = [IoSlice::new(gathered), IoSlice::new(bytes), IoSlice::new(tail)];
        let before = gathered.len();
        let len = match socket.write(if before == 0 { &parts[1..] } else { &parts })? {
            Moved::Bytes(len) => len,
            Moved::Later => 0,
            Moved::End => return Err(Error::Ended),
        };
        self.gone(len.min(before));
        Ok(len.saturating_sub(before))
    }

    fn flush(&mut self, socket: &Socket) -> Result<bool> {
        while self.sent < self.output.len() {
            match socket.write(&[IoSlice::new(&self.output[self.sent..])])? {
                Moved::Bytes(len) => self.gone(len),
                Moved::Later => return Ok(false),
                Moved::End => return Err(Error::Ended),
            }
        }
        Ok(true)
    }

    fn gone(&mut self, len: usize) {
        self.sent += len;
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::tests::pair;

    #[test]
    fn who_reads_long_parts_gathers_little_behind_them_and_more_once_short_ones_come() {
        const LONG: usize = 60_000;
        let lengths = [64, LONG, 64, LONG, 64, 100, HEAD_BYTES + 1, 3000, 20, 5 * HEAD_BYTES, 7];
        let bytes: Vec<u8> = (0..251).cycle().take(lengths.iter().sum()).collect();
        let (front, tail) = bytes.split_at(bytes.len() - 4);
        let (mut near, mut far) = pair();
        assert_eq!(far.write_with_tail(front, tail).unwrap(), bytes.len(), "a socket takes so much at once");
        let (mut at, mut gathered) = (0, Vec::new());
        for len in lengths {
            let (mut part, mut came) = (vec![0; len], 0);
            while came < len {
                match near.read(&mut part[came..]).unwrap() {
                    0 => near.wait(false, None).unwrap(),
                    more => came += more,
                }
            }
            assert_eq!(part, bytes[at..at + len], "{len} bytes at {at}");
            at += len;
            let Way::Socket(buffers) = &near.way else { unreachable!("it is a socket") };
            gathered.push(buffers.filled);
        }
        assert!(gathered[0] > HEAD_BYTES, "nothing is known yet: {gathered:?}");
        assert!(gathered[4] <= HEAD_BYTES, "a long part was before: {gathered:?}");
        assert!(gathered[10] > HEAD_BYTES, "there were short ones: {gathered:?}");
    }
}
