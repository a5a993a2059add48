//! A connection that was just made: hello and welcome; and what is open on it.

use super::LinkOptions;
use super::slot::{SessionNo, SlotOn};
use crate::error::{Error, Lack, Result, Violation};
use crate::input::{Replies, bad_frame, fill};
use crate::ring;
use crate::stream::Stream;
use crate::terms::Terms;
use core::time::Duration;
use dolmen_codec::evictions::Evictions;
use dolmen_codec::lock::{LockAction, LockAsk, LockFamily, LockKind, LockRange};
use dolmen_codec::pool::{ContHandle, OpenFor, PoolReply, PoolVerb};
use dolmen_codec::wire::{
    FEATURE_FILES, FEATURE_LEASES, FEATURE_PARTS, FEATURE_QUOTA, HELLO_BYTES, Hello, PoolSlot, Refusal,
    SystemVerb, VERSION, VERSION_MIN, WELCOME_BYTES, Welcome,
};
use dolmen_codec::{Answer, Ask, Way, give_way, now};
use dolmen_env::{Address, Clock, Moved, OwnFd, RealClock, SharedMemory, Socket};
use dolmen_types::{ContNo, Error as Failure, Head, Uuid};
use std::collections::BTreeMap;
use std::io::IoSlice;

/// What no pool has on any connection: it was destroyed, or may not be used any more. Whoever asks it is told so.
pub(super) const NO_SLOT: PoolSlot = PoolSlot(u16::MAX);

/// A connection after its welcome.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) stream: Stream,
    pub(super) welcome: Welcome,
    /// No other connection of the process has it.
    pub(super) no: SessionNo,
    /// What has come of a reply.
    pub(super) replies: Replies,
    /// How many questions were asked under numbers of its own, while it was made.
    pub(super) questions: u64,
}

/// A pool that is open on a connection, and what it takes to open it again on another.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    /// `None` if it is open on no connection: whoever asks it is told so.
    pub(super) slot: Option<SlotOn>,
    pub(super) connect: SystemVerb,
    pub(super) head: Head,
    /// Handles that the client has on containers.
    pub(super) conts: BTreeMap<ContNo, Opened>,
    /// How many evictions this client has asked for on which containers, and has no answer to yet.
    pub(super) evicting: BTreeMap<ContNo, u64>,
    /// Who has files open, in which container, and what says that he is there: an engine hears that again on each connection.
    pub(super) holders: Vec<(ContNo, LockAsk)>,
    /// How often the pool had been taken from all who had it when this client opened it.
    pub(super) evictions: u64,
    /// Why it could not be opened on this connection, though it may be later.
    pub(super) refused: Option<Refused>,
    /// Whether a thread tries to, beside what goes on.
    pub(super) is_opening: bool,
    /// Whether it is what such a thread has opened: that ends with its connection.
    pub(super) is_beside: bool,
}

/// What an attempt to open a pool again has met, and when.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) error: Failure,
    pub(super) at_ns: u64,
}

/// Handles on one container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opened {
    pub(super) uuid: Uuid,
    pub(super) count: u32,
    /// What the first of these was opened for, as far as others are concerned.
    pub(super) alone: OpenFor,
    /// How often the user had lost handles on it when the last of these was opened, as the engine counts it.
    pub(super) evictions: u64,
    /// At an engine with a part: the same, as the one with the pool's service counts it, which may take him for another user;
    /// `UNKNOWN` where it is not compared.
    pub(super) at_home: u64,
    /// How much higher the engine may count without his having lost these: evictions that were this client's own, which it
    /// may or may not have counted.
    pub(super) slack: u64,
}

/// Holders of open files that are remembered, each a mount of this process; of more the first are forgotten.
const HOLDERS_MAX: usize = 64;

/// No count of evictions.
const UNKNOWN: u64 = u64::MAX;

/// What a question to a pool's service does to the handles that are to be opened again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handles {
    Same,
    Opens(OpenFor),
    Evicts(ContNo),
    Closes(ContNo),
}

impl Handles {
    #[inline]
    pub(super) fn of(ask: &Ask<'_>) -> Self {
        match ask {
            Ask::Pool(PoolVerb::ContOpen(_, wanted)) => Self::Opens(*wanted),
            Ask::Pool(PoolVerb::ContEvict(cont, _)) => Self::Evicts(*cont),
            Ask::Pool(PoolVerb::ContClose(cont)) => Self::Closes(*cont),
            _ => Self::Same,
        }
    }
}

/// Connects, and says hello, until `deadline_ns`, or as long as connecting may take.
pub(super) fn connect(address: &Address, options: &LinkOptions, deadline_ns: u64) -> Result<Session> {
    now(connect_by(Way::Now, address, options, deadline_ns))
}

/// As [`connect`], on a way of the caller's.
pub(super) async fn connect_by(
    way: Way,
    address: &Address,
    options: &LinkOptions,
    deadline_ns: u64,
) -> Result<Session> {
    let end_ns = deadline_ns.min(deadline_after(options.connect_timeout));
    let certs = options.certs.certs(address)?;
    let socket = match way {
        Way::Now => Socket::connect(address, left_until(end_ns)?)?,
        Way::Later => connected(address, end_ns).await?,
    };
    let wants_rings = matches!(address, Address::Unix(_)) && options.ring_bytes > 0;
    let ring_bytes = if wants_rings { options.ring_bytes as u64 } else { 0 };
    let hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION,
        process: std::process::id(),
        features: FEATURE_PARTS | FEATURE_LEASES | FEATURE_QUOTA,
        ring_bytes,
        client: options.client,
    };
    let bytes: [u8; HELLO_BYTES] = hello.encode();
    if let Some(certs) = certs {
        return greet(way, Stream::as_tls_client(socket, &certs)?, &bytes, end_ns).await;
    }
    if socket.write(&[IoSlice::new(&bytes)])? != Moved::Bytes(bytes.len()) {
        return Err(Error::Ended);
    }
    let (welcome, fd) = read_welcome(way, &socket, end_ns).await?;
    let mut stream = Stream::over_socket(socket);
    if welcome.ring_bytes > 0 {
        let granted = usize::try_from(welcome.ring_bytes).unwrap_or(0);
        let fits =
            granted.is_power_of_two() && (ring::RING_BYTES_MIN..=ring::RING_BYTES_MAX).contains(&granted);
        let fd = fd.filter(|_| fits).ok_or(Error::Protocol(Violation::Ring))?;
        let memory = SharedMemory::adopt(fd, ring::memory_bytes(granted))?;
        stream.go_over_to_rings(memory, granted, false)?;
    }
    Ok(Session::new(stream, welcome))
}

async fn connected(address: &Address, end_ns: u64) -> Result<Socket> {
    let (socket, mut is_connected) = Socket::begin_connect(address)?;
    while !is_connected {
        left_until(end_ns)?;
        give_way().await;
        is_connected = socket.has_connected(Some(Duration::ZERO))?;
    }
    Ok(socket)
}

/// Says hello under TLS.
async fn greet(way: Way, mut stream: Stream, hello: &[u8], end_ns: u64) -> Result<Session> {
    let (mut said, mut bytes, mut at) = (0, [0; WELCOME_BYTES], 0);
    loop {
        said += stream.write(&hello[said..])?;
        let is_sent = stream.flush()? && said == hello.len();
        if fill(&mut stream, &mut bytes, &mut at)? {
            break;
        }
        let left = left_until(end_ns)?;
        match way {
            Way::Now => stream.wait(!is_sent, Some(left))?,
            Way::Later => give_way().await,
        }
    }
    let welcome = Welcome::decode(&bytes).map_err(bad_frame)?.map_err(unwelcome)?;
    Ok(Session::new(stream, welcome))
}

/// Why there is no welcome.
fn unwelcome(refusal: Refusal) -> Error {
    match refusal {
        Refusal::NeedsCertificate => Error::NoCertificate(Lack::Own),
        Refusal::HasNoCertificate => Error::NoCertificate(Lack::Peer),
        other => Error::Unwelcome(other),
    }
}

pub(super) fn deadline_after(time: Duration) -> u64 {
    RealClock.monotonic_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

pub(super) fn left_until(end_ns: u64) -> Result<Duration> {
    match end_ns.saturating_sub(RealClock.monotonic_ns()) {
        0 => Err(Error::TimedOut),
        left_ns => Ok(Duration::from_nanos(left_ns)),
    }
}

async fn read_welcome(way: Way, socket: &Socket, end_ns: u64) -> Result<(Welcome, Option<OwnFd>)> {
    let (mut bytes, mut at, mut memory) = ([0; WELCOME_BYTES], 0, None);
    while at < bytes.len() {
        let (moved, fd) = socket.read_with(&mut bytes[at..])?;
        memory = memory.or(fd);
        match moved {
            Moved::Bytes(len) => at += len,
            Moved::End => return Err(Error::Ended),
            Moved::Later => {
                let left = left_until(end_ns)?;
                match way {
                    // Ignored: the next read finds out.
                    Way::Now => drop(socket.wait(true, false, Some(left))?),
                    Way::Later => give_way().await,
                }
            }
        }
    }
    let welcome = Welcome::decode(&bytes).map_err(bad_frame)?.map_err(unwelcome)?;
    Ok((welcome, memory))
}

impl Session {
    fn new(stream: Stream, welcome: Welcome) -> Self {
        let replies = Replies::new(Terms::of(welcome.version, &stream));
        Self { stream, welcome, no: SessionNo::next(), replies, questions: 0 }
    }

    /// Whether reads may be asked for leases, and what has changed is pushed.
    pub(super) fn has_leases(&self) -> bool {
        self.welcome.features & FEATURE_LEASES != 0
    }

    /// Whether files of containers can be used by way of the engine.
    pub(super) fn has_files(&self) -> bool {
        self.welcome.features & FEATURE_FILES != 0
    }

    /// What holds for its frames.
    pub(super) fn terms(&self) -> Terms {
        Terms::of(self.welcome.version, &self.stream)
    }
}

impl Opened {
    /// What they are opened for again: who had joined may come before whom he has joined.
    pub(super) fn wanted(&self) -> OpenFor {
        self.alone
    }
}

impl Attached {
    /// One that is open, with nothing in it yet.
    pub(super) fn new(slot: SlotOn, connect: SystemVerb, head: Head) -> Self {
        Self {
            slot: Some(slot),
            connect,
            head,
            conts: BTreeMap::new(),
            evicting: BTreeMap::new(),
            holders: Vec::new(),
            evictions: 0,
            refused: None,
            is_opening: false,
            is_beside: false,
        }
    }

    /// An answer: what it does to the handles that are to be opened again.
    pub(super) fn answered(&mut self, handles: Handles, result: &core::result::Result<Answer, Failure>) {
        let handle = match result {
            Ok(Answer::Pool(PoolReply::Cont(handle))) => Some(handle),
            _ => None,
        };
        match (handles, handle) {
            (Handles::Opens(wanted), Some(handle)) => self.opened(handle, wanted),
            (Handles::Evicts(cont), handle) => {
                handle.into_iter().for_each(|handle| self.evicted(handle));
                self.has_evicted(cont);
            }
            (Handles::Closes(cont), _) if result.is_ok() => self.closed(cont),
            (Handles::Same | Handles::Opens(_) | Handles::Closes(_), _) => {}
        }
    }

    /// A handle more.
    pub(super) fn opened(&mut self, handle: &ContHandle, wanted: OpenFor) {
        let evictions = Evictions::of(&handle.props).count(self.head.cred.uid);
        let (uuid, alone) = (handle.uuid, OpenFor::Any);
        let new = Opened { uuid, count: 0, alone, evictions, at_home: UNKNOWN, slack: 0 };
        let opened = self.conts.entry(handle.no).or_insert(new);
        if opened.evictions < evictions {
            // Those that were there have ended, unless the evictions were this client's own.
            let goes_on = evictions - opened.evictions <= opened.slack;
            let count = if goes_on { opened.count } else { 0 };
            (opened.count, opened.evictions, opened.slack) = (count, evictions, 0);
        }
        opened.alone = match (opened.count, wanted) {
            (_, OpenFor::Alone(word) | OpenFor::Joining(word)) => OpenFor::Alone(word),
            (0, _) => OpenFor::Any,
            _ => opened.alone,
        };
        opened.count += 1;
    }

    /// Whether handles that were open are not taken away, going by one that was opened just now. An eviction of this client's
    /// own takes nothing from him, also while he does not know yet that it was carried out.
    pub(super) fn goes_on(&self, opened: &Opened, now: &ContHandle) -> bool {
        let own = self.evicting.get(&now.no).copied().unwrap_or(0);
        let evictions = Evictions::of(&now.props).count(self.head.cred.uid);
        let highest = opened.evictions.saturating_add(own).saturating_add(opened.slack);
        (opened.evictions..=highest).contains(&evictions)
    }

    /// Takes note of who has files open, by what is asked of locks: he has them still after the connection.
    pub(super) fn note_holder(&mut self, cont: ContNo, ask: &LockAsk) {
        if ask.family != LockFamily::Open {
            return;
        }
        self.holders.retain(|(_, known)| known.holder != ask.holder);
        let has_some = ask.has_locks || ask.range.kind != LockKind::Free && ask.action != LockAction::Test;
        if has_some && ask.action != LockAction::Leave {
            let range = LockRange::whole(LockKind::Free);
            let here = LockAsk { action: LockAction::Renew, has_locks: true, range, ..ask.clone() };
            // Whoever asked last has something open most likely.
            let gone = self.holders.len().saturating_sub(HOLDERS_MAX - 1);
            self.holders.drain(..gone);
            self.holders.push((cont, here));
        }
    }

    /// What says that they are there who have files open.
    pub(super) fn here(&self) -> impl Iterator<Item = PoolVerb<'static>> {
        self.holders.iter().map(|(cont, ask)| PoolVerb::Lock(*cont, Box::new(ask.clone())))
    }

    /// Asks for an eviction.
    pub(super) fn evicts(&mut self, cont: ContNo) {
        *self.evicting.entry(cont).or_default() += 1;
    }

    /// Has an answer to that, or gives up waiting for it.
    pub(super) fn has_evicted(&mut self, cont: ContNo) {
        if let Some(count) = self.evicting.get_mut(&cont) {
            *count -= 1;
            if *count == 0 {
                self.evicting.remove(&cont);
            }
        }
    }

    /// Others have lost their handles on a container; those here go on.
    pub(super) fn evicted(&mut self, handle: &ContHandle) {
        let evictions = Evictions::of(&handle.props).count(self.head.cred.uid);
        if let Some(opened) = self.conts.get_mut(&handle.no) {
            opened.evictions = opened.evictions.max(evictions);
        }
    }

    /// The same, of an eviction that the engine with the pool's service has carried out. An engine that takes the user for another
    /// one counts it as one of his, or does not.
    pub(super) fn evicted_at_home(&mut self, handle: &ContHandle, is_like: bool) {
        let at_home = Evictions::of(&handle.props).count(self.head.cred.uid);
        let Some(opened) = self.conts.get_mut(&handle.no) else { return };
        if is_like {
            opened.evictions = opened.evictions.max(at_home);
        } else {
            opened.slack = opened.slack.saturating_add(1);
        }
        opened.at_home = opened.at_home.max(at_home);
    }

    /// A handle less.
    pub(super) fn closed(&mut self, cont: ContNo) {
        if let Some(opened) = self.conts.get_mut(&cont) {
            opened.count = opened.count.saturating_sub(1);
            if opened.count == 0 {
                self.conts.remove(&cont);
            }
        }
    }
}
