//! A connection that says what it likes, by the records of the wire alone.

use super::client::cred;
use super::{CONT, POOL, Way};
use crate::error::{Error, Result};
use crate::meter::now;
use core::time::Duration;
use dolmen_codec::pool::{ContName, OpenFor, PoolReply, PoolVerb};
use dolmen_codec::verb::{Fetch, FetchIod, NewValue, Payload, ReadAt, Update, UpdateIod, Verb, Want};
use dolmen_codec::wire::{
    Caller, HELLO_BYTES, Hello, PoolAccess, PoolName, PoolSlot, REPLY_HEADER_BYTES, ReplyHeader, SystemReply,
    SystemVerb, Version, WELCOME_BYTES, Welcome, decode_reply, decode_system_reply, encode_request,
    encode_system_request,
};
use dolmen_codec::{Answer, Ask};
use dolmen_env::{Address, Moved, OwnFd, SharedMemory, Socket};
use dolmen_net::{Stream, ring};
use dolmen_types::{
    Cond, ContNo, Epoch, Head, IoBuf, Key, Label, ObjectClass, ObjectType, Oid, Recx, RequestId, TargetNo,
    crc32c,
};
use std::io::IoSlice;

/// How long the daemon may take to answer it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks for an answer that comes through rings.
const LOOK: Duration = Duration::from_millis(10);

/// Bytes of each of its rings.
const RING_BYTES: usize = 64 << 10;

/// A connection.
pub(super) struct Rude {
    pub(super) stream: Stream,
    client: u128,
    sequence: u64,
}

/// A pool and a container as the daemon calls them on a connection.
#[derive(Clone, Copy)]
pub(super) struct Opened {
    slot: PoolSlot,
    cont: ContNo,
}

/// What a client says first.
pub(super) fn hello(ring_bytes: usize) -> [u8; HELLO_BYTES] {
    let (version_min, version_max) = (Version::NEWEST.number(), Version::NEWEST.number());
    Hello { version_min, version_max, process: 0, features: 0, ring_bytes: ring_bytes as u64, client: 7 }
        .encode()
}

/// Connects, and says nothing.
pub(super) fn silent(address: &Address) -> Result<Stream> {
    Ok(Stream::over_socket(Socket::connect(address, PATIENCE)?))
}

/// Sends as much as is taken; an error if the daemon has closed the connection meanwhile.
pub(super) fn push(stream: &mut Stream, bytes: &[u8]) -> Result<()> {
    let mut at = 0;
    while at < bytes.len() {
        match stream.write(&bytes[at..])? {
            0 => stream.wait(true, Some(PATIENCE))?,
            len => at += len,
        }
    }
    while !stream.flush()? {
        stream.wait(true, Some(PATIENCE))?;
    }
    Ok(())
}

fn pull(stream: &mut Stream, bytes: &mut [u8]) -> Result<()> {
    let (mut at, begun_ns) = (0, now());
    while at < bytes.len() {
        match stream.read(&mut bytes[at..])? {
            0 if u128::from(now() - begun_ns) > PATIENCE.as_nanos() => return Err(lost()),
            0 => {
                stream.flush()?;
                stream.wait(false, Some(LOOK))?;
            }
            len => at += len,
        }
    }
    Ok(())
}

fn lost() -> Error {
    Error::Net(dolmen_net::Error::TimedOut)
}

/// Says hello, and hears what comes back, with the memory of rings.
fn greet(socket: &Socket, ring_bytes: usize) -> Result<(Welcome, Option<OwnFd>)> {
    let said = socket.write(&[IoSlice::new(&hello(ring_bytes))])?;
    if said != Moved::Bytes(HELLO_BYTES) {
        return Err(lost());
    }
    let (mut bytes, mut at, mut fd) = ([0; WELCOME_BYTES], 0, None);
    while at < bytes.len() {
        socket.wait(true, false, Some(PATIENCE))?;
        let (moved, came) = socket.read_with(&mut bytes[at..])?;
        fd = fd.or(came);
        at += match moved {
            Moved::Bytes(len) => len,
            Moved::Later => return Err(lost()),
            Moved::End => return Err(Error::Net(dolmen_net::Error::Ended)),
        };
    }
    match Welcome::decode(&bytes) {
        Ok(Ok(welcome)) => Ok((welcome, fd)),
        _ => Err(lost()),
    }
}

impl Rude {
    /// Connects as an honest client does; `client` is its number.
    pub(super) fn connect(address: &Address, way: Way, client: u128) -> Result<Self> {
        let ring_bytes = if way == Way::Rings { RING_BYTES } else { 0 };
        let socket = Socket::connect(address, PATIENCE)?;
        let (welcome, fd) = greet(&socket, ring_bytes)?;
        let mut stream = Stream::over_socket(socket);
        if let (Some(fd), Ok(granted @ 1..)) = (fd, usize::try_from(welcome.ring_bytes)) {
            let memory = SharedMemory::adopt(fd, ring::memory_bytes(granted))?;
            stream.go_over_to_rings(memory, granted, false)?;
        }
        Ok(Self { stream, client, sequence: 0 })
    }

    fn caller(&mut self, slot: PoolSlot) -> Caller {
        self.sequence += 1;
        let id = RequestId { client: self.client, sequence: self.sequence };
        let head = Head { id, cred: cred(), ..Head::default() };
        let token = self.sequence;
        Caller {
            version: Version::NEWEST,
            token,
            head,
            pool: slot,
            seen: Epoch::ZERO,
            push_acked: 0,
            wants_lease: false,
            names_charged: false,
            tells_ends: false,
        }
    }

    /// The frame of a request, with its payload and the checksum behind that.
    pub(super) fn frame(&mut self, opened: Opened, ask: &Ask<'_>) -> Result<Vec<u8>> {
        let caller = self.caller(opened.slot);
        let mut frame = Vec::new();
        let parts = encode_request(&mut frame, &caller, ask)?;
        let payload = parts.concat();
        frame.extend_from_slice(&payload);
        if !payload.is_empty() {
            frame.extend_from_slice(&crc32c(&payload).to_le_bytes());
        }
        Ok(frame)
    }

    /// Header and body of the next reply, which has no payload.
    fn reply(&mut self) -> Result<(ReplyHeader, Vec<u8>)> {
        let mut head = [0; REPLY_HEADER_BYTES];
        pull(&mut self.stream, &mut head)?;
        let header = ReplyHeader::decode(&head, Version::NEWEST).map_err(|_bad| lost())?;
        let mut body = vec![0; header.body_bytes as usize];
        pull(&mut self.stream, &mut body)?;
        Ok((header, body))
    }

    /// Asks, and waits for the answer, which has no payload.
    pub(super) fn ask(&mut self, opened: Opened, ask: &Ask<'_>) -> Result<Answer> {
        let frame = self.frame(opened, ask)?;
        push(&mut self.stream, &frame)?;
        let (header, body) = self.reply()?;
        Ok(decode_reply(&header, &body).map_err(|_bad| lost())??)
    }

    /// Opens the pool and its container.
    pub(super) fn open(&mut self) -> Result<Opened> {
        let name = PoolName::Label(Label::new(POOL).map_err(dolmen_types::Error::from)?);
        let caller = self.caller(PoolSlot::SYSTEM);
        let mut frame = Vec::new();
        let connect = SystemVerb::PoolConnect { name, access: PoolAccess::ReadWrite };
        encode_system_request(&mut frame, &caller, &connect)?;
        push(&mut self.stream, &frame)?;
        let (header, body) = self.reply()?;
        let SystemReply::Connected(connected) =
            decode_system_reply(&header, &body).map_err(|_bad| lost())??
        else {
            return Err(lost());
        };
        let opened = Opened { slot: connected.slot, cont: ContNo::SYSTEM };
        let name = ContName::Label(Label::new(CONT).map_err(dolmen_types::Error::from)?);
        match self.ask(opened, &Ask::Pool(PoolVerb::ContOpen(name, OpenFor::Any)))? {
            Answer::Pool(PoolReply::Cont(handle)) => Ok(Opened { cont: handle.no, ..opened }),
            _ => Err(lost()),
        }
    }
}

/// An object that no honest client has.
fn oid() -> Oid {
    Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 77, 5)
}

/// Writes an array of bytes under `dkey`.
pub(super) fn update(opened: Opened, dkey: &[u8], value: &[u8]) -> Ask<'static> {
    let extents = [Recx::new(0, value.len() as u64)].into_iter().collect();
    let data = Payload::Owned(IoBuf::copy_of(value));
    let value = NewValue::Array { record_bytes: 1, extents, data };
    let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value };
    let iods = [iod].into_iter().collect();
    let update = Update { oid: oid(), dkey: Key::from_slice(dkey), cond: Cond::NONE, iods, charged: None };
    Ask::Target(TargetNo(0), opened.cont, Verb::Update(update))
}

/// Asks for such an array.
pub(super) fn fetch(opened: Opened, dkey: &[u8], len: usize) -> Ask<'static> {
    let extents = [Recx::new(0, len as u64)].into_iter().collect();
    let want = Want::Array { record_bytes: 1, extents };
    let iods = [FetchIod { akey: Key::from_slice(b"a"), want }].into_iter().collect();
    let (dkey, buf) = (Key::from_slice(dkey), IoBuf::zeroed(len));
    let fetch = Fetch { oid: oid(), dkey, cond: Cond::NONE, at: ReadAt::Latest, iods, buf };
    Ask::Target(TargetNo(0), opened.cont, Verb::Fetch(fetch))
}
