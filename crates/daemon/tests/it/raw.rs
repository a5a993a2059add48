//! A client that says what it likes.

use crate::child::ChildDaemon;
use crate::common::{CRED, Way};
use dolmen_codec::pool::{ContName, OpenFor, PoolReply, PoolVerb};
use dolmen_codec::verb::{Fetch, FetchIod, NewValue, Payload, ReadAt, Update, UpdateIod, Verb, Want};
use dolmen_codec::wire::{
    Caller, HELLO_BYTES, Hello, PAYLOAD_SUM_BYTES, PoolAccess, PoolName, PoolSlot, REPLY_HEADER_BYTES,
    ReplyHeader, SystemReply, SystemVerb, Version, WELCOME_BYTES, Welcome, decode_reply, decode_system_reply,
    encode_request, encode_system_request,
};
use dolmen_codec::{Answer, Ask};
use dolmen_env::{Clock, Moved, RealClock, SharedMemory, Socket};
use dolmen_net::{Error, Stream, ring};
use dolmen_types::{
    Cond, ContNo, Credentials, Epoch, Head, IoBuf, Key, Label, ObjectClass, ObjectType, Oid, Recx, RequestId,
    TargetNo, crc32c,
};
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_nanos(PATIENCE_NS);
const PATIENCE_NS: u64 = 20_000_000_000;

/// Bytes of each of its rings.
pub(crate) const RING_BYTES: usize = 64 << 10;

/// Each is another client.
static NEXT: AtomicU32 = AtomicU32::new(0x1234);

pub(crate) struct Raw {
    pub(crate) stream: Stream,
    /// The memory of the rings, mapped once more.
    pub(crate) memory: Option<SharedMemory>,
    version: Version,
    client: u128,
    sequence: u64,
    /// Who it says that it is.
    pub(crate) cred: Credentials,
}

/// A pool and a container of a raw client.
#[derive(Clone, Copy)]
pub(crate) struct Opened {
    pub(crate) slot: PoolSlot,
    pub(crate) cont: ContNo,
}

pub(crate) fn hello(ring_bytes: usize) -> [u8; HELLO_BYTES] {
    hello_of(Version::NEWEST, ring_bytes, 0)
}

/// That of a program which speaks this version alone, and can do so much beyond it.
fn hello_of(version: Version, ring_bytes: usize, features: u64) -> [u8; HELLO_BYTES] {
    let (version_min, version_max) = (version.number(), version.number());
    Hello { version_min, version_max, process: 0, features, ring_bytes: ring_bytes as u64, client: 7 }
        .encode()
}

/// Connects, and says nothing.
pub(crate) fn silent(daemon: &ChildDaemon, way: Way) -> Stream {
    Stream::over_socket(Socket::connect(daemon.address(way), PATIENCE).unwrap())
}

/// Sends as much as is taken; whether that is all.
pub(crate) fn push(stream: &mut Stream, bytes: &[u8]) -> Result<(), Error> {
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

/// Reads until `bytes` are full.
pub(crate) fn pull(stream: &mut Stream, bytes: &mut [u8]) -> Result<(), Error> {
    let mut at = 0;
    let end_ns = RealClock.monotonic_ns() + PATIENCE_NS;
    while at < bytes.len() {
        match stream.read(&mut bytes[at..])? {
            0 if RealClock.monotonic_ns() > end_ns => return Err(Error::TimedOut),
            0 => {
                stream.flush()?;
                stream.wait(false, Some(PATIENCE / 100))?;
            }
            len => at += len,
        }
    }
    Ok(())
}

/// That the other end closes the connection, whatever it may have said before.
pub(crate) fn assert_closed(stream: &mut Stream, what: &str) {
    let mut bytes = [0; 4096];
    loop {
        match pull(stream, &mut bytes) {
            Ok(()) => {}
            Err(Error::Ended) => return,
            Err(other) => panic!("{what}: {other}"),
        }
    }
}

impl Raw {
    pub(crate) fn connect(daemon: &ChildDaemon, way: Way) -> Self {
        Self::connect_as(daemon, way, Version::NEWEST)
    }

    /// As a program that speaks this version alone.
    pub(crate) fn connect_as(daemon: &ChildDaemon, way: Way, version: Version) -> Self {
        Self::connect_with(daemon, way, (version, 0))
    }

    /// The same, of one that can do so much beyond it.
    pub(crate) fn connect_with(daemon: &ChildDaemon, way: Way, (version, features): (Version, u64)) -> Self {
        let ring_bytes = if way == Way::Rings { RING_BYTES } else { 0 };
        let socket = Socket::connect(daemon.address(way), PATIENCE).unwrap();
        let hello = hello_of(version, ring_bytes, features);
        assert_eq!(socket.write(&[IoSlice::new(&hello)]).unwrap(), Moved::Bytes(HELLO_BYTES));
        let (mut bytes, mut at, mut fd) = ([0; WELCOME_BYTES], 0, None);
        while at < bytes.len() {
            socket.wait(true, false, Some(PATIENCE)).unwrap();
            let (moved, came) = socket.read_with(&mut bytes[at..]).unwrap();
            fd = fd.or(came);
            at += match moved {
                Moved::Bytes(len) => len,
                Moved::Later => 0,
                Moved::End => panic!("no welcome"),
            };
        }
        let welcome = Welcome::decode(&bytes).unwrap().unwrap();
        assert_eq!(welcome.version, version);
        let mut stream = Stream::over_socket(socket);
        let mut memory = None;
        if welcome.ring_bytes > 0 {
            let (fd, granted) = (fd.unwrap(), usize::try_from(welcome.ring_bytes).unwrap());
            let len = ring::memory_bytes(granted);
            memory = Some(SharedMemory::adopt(fd.as_fd().try_clone_to_owned().unwrap(), len).unwrap());
            stream.go_over_to_rings(SharedMemory::adopt(fd, len).unwrap(), granted, false).unwrap();
        }
        assert_eq!(stream.is_ring(), way == Way::Rings);
        let client = u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
        Self { stream, memory, version, client, sequence: 0, cred: CRED }
    }

    pub(crate) fn caller(&mut self, token: u64, slot: PoolSlot) -> Caller {
        self.sequence += 1;
        let id = RequestId { client: self.client, sequence: self.sequence };
        let head = Head { id, cred: self.cred, ..Head::default() };
        Caller {
            version: self.version,
            token,
            head,
            pool: slot,
            seen: Epoch::ZERO,
            push_acked: 0,
            wants_lease: false,
            names_charged: self.version >= Version::Two,
            tells_ends: self.version >= Version::Two,
        }
    }

    /// Whether a checksum follows this payload.
    fn has_sum(&self, payload: &[u8]) -> bool {
        self.version.has_sums() && !payload.is_empty()
    }

    /// The frame of a request, with its payload and what follows that.
    pub(crate) fn frame(&mut self, token: u64, slot: PoolSlot, ask: &Ask<'_>) -> Vec<u8> {
        let caller = self.caller(token, slot);
        self.framed(&caller, ask)
    }

    /// The same of another client, under this id.
    pub(crate) fn frame_by(&mut self, id: RequestId, token: u64, slot: PoolSlot, ask: &Ask<'_>) -> Vec<u8> {
        let mut caller = self.caller(token, slot);
        caller.head.id = id;
        self.framed(&caller, ask)
    }

    pub(crate) fn framed(&self, caller: &Caller, ask: &Ask<'_>) -> Vec<u8> {
        let mut frame = Vec::new();
        let parts = encode_request(&mut frame, caller, ask).unwrap();
        let payload = parts.concat();
        frame.extend_from_slice(&payload);
        if self.has_sum(&payload) {
            frame.extend_from_slice(&crc32c(&payload).to_le_bytes());
        }
        frame
    }

    pub(crate) fn system_frame(&mut self, token: u64, verb: &SystemVerb) -> Vec<u8> {
        let caller = self.caller(token, PoolSlot::SYSTEM);
        let mut frame = Vec::new();
        encode_system_request(&mut frame, &caller, verb).unwrap();
        frame
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        push(&mut self.stream, bytes).unwrap();
    }

    /// The next reply: header, body and payload.
    pub(crate) fn reply(&mut self) -> Result<(ReplyHeader, Vec<u8>, Vec<u8>), Error> {
        let mut head = [0; REPLY_HEADER_BYTES];
        pull(&mut self.stream, &mut head)?;
        let header = ReplyHeader::decode(&head, self.version).unwrap();
        let mut body = vec![0; header.body_bytes as usize];
        pull(&mut self.stream, &mut body)?;
        let mut payload = vec![0; header.payload_bytes as usize];
        pull(&mut self.stream, &mut payload)?;
        // Answers that come through rings have none.
        if self.has_sum(&payload) && !self.stream.is_ring() {
            let mut sum = [0; PAYLOAD_SUM_BYTES];
            pull(&mut self.stream, &mut sum)?;
            assert_eq!(u32::from_le_bytes(sum), crc32c(&payload));
        }
        Ok((header, body, payload))
    }

    /// The next answer of a pool, with its token.
    pub(crate) fn answer(&mut self) -> (u64, dolmen_types::Result<Answer>, Vec<u8>) {
        let (header, body, payload) = self.reply().unwrap();
        (header.token, decode_reply(&header, &body).unwrap(), payload)
    }

    pub(crate) fn ask(&mut self, opened: Opened, ask: &Ask<'_>) -> dolmen_types::Result<Answer> {
        let frame = self.frame(99, opened.slot, ask);
        self.send(&frame);
        self.answer().1
    }

    /// What an array of bytes has under `dkey`.
    /// Asks for something small again and again, so that the daemon has so many turns for others.
    pub(crate) fn takes_turns(&mut self, opened: Opened, count: usize) {
        assert!(self.ask(opened, &update(opened, b"small", b"value")).is_ok());
        for _ in 0..count {
            assert_eq!(self.fetched_single(opened, b"small", 5), b"value");
        }
    }

    pub(crate) fn fetched(&mut self, opened: Opened, dkey: &[u8], len: usize) -> Vec<u8> {
        let extents = [Recx::new(0, len as u64)].into_iter().collect();
        self.payload_of(opened, dkey, Want::Array { record_bytes: 1, extents }, len)
    }

    /// What a single value is under `dkey`.
    pub(crate) fn fetched_single(&mut self, opened: Opened, dkey: &[u8], len: usize) -> Vec<u8> {
        self.payload_of(opened, dkey, Want::Single { room_bytes: len }, len)
    }

    fn payload_of(&mut self, opened: Opened, dkey: &[u8], want: Want, len: usize) -> Vec<u8> {
        let iods = [FetchIod { akey: Key::from_slice(b"a"), want }].into_iter().collect();
        let (dkey, buf) = (Key::from_slice(dkey), IoBuf::zeroed(len));
        let fetch = Fetch { oid: oid(), dkey, cond: Cond::NONE, at: ReadAt::Latest, iods, buf };
        let frame = self.frame(98, opened.slot, &Ask::Target(TargetNo(0), opened.cont, Verb::Fetch(fetch)));
        self.send(&frame);
        let (_, answer, payload) = self.answer();
        assert!(answer.is_ok(), "{answer:?}");
        payload
    }

    /// Opens a pool, and a container in it if that has a name.
    pub(crate) fn open(&mut self, pool: &str, cont: &str) -> Opened {
        let name = PoolName::Label(Label::new(pool).unwrap());
        let frame = self.system_frame(1, &SystemVerb::PoolConnect { name, access: PoolAccess::ReadWrite });
        self.send(&frame);
        let (header, body, _) = self.reply().unwrap();
        let SystemReply::Connected(connected) = decode_system_reply(&header, &body).unwrap().unwrap() else {
            panic!("another answer")
        };
        let mut opened = Opened { slot: connected.slot, cont: ContNo::SYSTEM };
        let name = ContName::Label(Label::new(cont).unwrap());
        match self.ask(opened, &Ask::Pool(PoolVerb::ContOpen(name, OpenFor::Any))) {
            Ok(Answer::Pool(PoolReply::Cont(handle))) => opened.cont = handle.no,
            other => panic!("{other:?}"),
        }
        opened
    }
}

pub(crate) fn oid() -> Oid {
    Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 77, 5)
}

/// Writes a single value under `dkey` on target 0.
pub(crate) fn update(opened: Opened, dkey: &[u8], value: &[u8]) -> Ask<'static> {
    let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(value)));
    written(opened, dkey, value)
}

/// The same, of an array of bytes: split, if it is long.
pub(crate) fn array_update(opened: Opened, dkey: &[u8], value: &[u8]) -> Ask<'static> {
    let recx = Recx::new(0, value.len() as u64);
    let data = Payload::Owned(IoBuf::copy_of(value));
    let extents = [recx].into_iter().collect();
    written(opened, dkey, NewValue::Array { record_bytes: 1, extents, data })
}

fn written(opened: Opened, dkey: &[u8], value: NewValue<'static>) -> Ask<'static> {
    let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value };
    let update = Update {
        oid: oid(),
        dkey: Key::from_slice(dkey),
        cond: Cond::NONE,
        iods: [iod].into_iter().collect(),
        charged: None,
    };
    Ask::Target(TargetNo(0), opened.cont, Verb::Update(update))
}
