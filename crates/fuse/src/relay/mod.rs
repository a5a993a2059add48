//! The kernel's requests, passed on to an engine that checks what its user may do.
//!
//! The numbers that the kernel has of nodes and open files are the relay's; the engine's are those of a session, which ends with
//! its connection. What the kernel knows is found again in the next session when it is asked for: by name, and opened with the
//! same flags.
//!
//! Invariants: a request is carried out at most once; a number stands for one file as long as the kernel remembers it, also over
//! sessions; what the engine answers is read with limits, as what the kernel asks is.

mod known;

use crate::abi::op::{LockHow, LockOp, Op, code};
use crate::abi::request::{HEAD_BYTES, NODE_AT, Request};
use crate::abi::{LATER, ROOT, errno, init, long, reply, word};
use crate::about::About;
use crate::fs::{ABOUT, Done, Reply};
use crate::notes::Notes;
use crate::options::{Options, Timeouts};
use crate::service::Serves;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use dolmen_codec::pool::{FilesAsk, FilesReply};
use dolmen_dfs::lock::LockKind;
use dolmen_dfs::{Error, errno as number};
use dolmen_env::{Clock, RealClock};
use dolmen_types::Error as Failure;
use known::{Known, Lookup, Opened};
use std::sync::{Mutex, PoisonError};

/// Sessions that a request is tried in: an engine that is started again and again does not keep it for ever.
const SESSIONS_MAX: usize = 4;

/// A session in which something was answered so recently is there still, as far as anybody can tell.
const FRESH_NS: u64 = 20_000_000;

/// Between two wishes for a session while the engine has no room for one: those of a connection that was lost end in a moment.
const REST: Duration = Duration::from_millis(50);
const WISHES_MAX: u32 = 40;

/// So much is forgotten at once where an engine has no room for more of what the kernel knows.
const FORGOTTEN_AT_ONCE: usize = 1 << 14;

/// Directories above each other that are looked up anew.
const DEPTH_MAX: usize = 4096;

type Ask = dyn Fn(FilesAsk) -> dolmen_types::Result<FilesReply> + Send + Sync;

/// Files that an engine has.
pub struct Relay {
    ask: Box<Ask>,
    notes: Notes,
    options: Options,
    about: About,
    known: Known,
    /// Guards: the session; held while one is begun. Taken alone.
    session: Mutex<Option<u64>>,
    /// When something was answered last, by the monotonic clock.
    answered_ns: AtomicU64,
    /// Somebody has got a lock in this session.
    has_locked: AtomicBool,
    /// How often room was made.
    rooms_made: AtomicU64,
}

impl core::fmt::Debug for Relay {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Relay").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Why something was not done.
enum Lost {
    /// It fails.
    Failed(i32),
    /// The session has ended. Whether the request itself may have been carried out in it.
    Session { may_have_happened: bool },
}

impl Relay {
    /// Asks an engine by `ask`, and begins a session there. `about` and `tell` are as for [`Fs`](crate::Fs::new).
    ///
    /// # Errors
    /// Why none can be begun.
    pub fn new(
        ask: impl Fn(FilesAsk) -> dolmen_types::Result<FilesReply> + Send + Sync + 'static,
        options: Options,
        about: &str,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> dolmen_types::Result<Self> {
        let session = match ask(FilesAsk::Begin)? {
            FilesReply::Begun(session) => session,
            _ => return Err(Failure::NotFound),
        };
        Ok(Self {
            ask: Box::new(ask),
            notes: Notes::new(tell),
            options,
            about: About::new(about),
            known: Known::default(),
            session: Mutex::new(Some(session)),
            answered_ns: AtomicU64::new(RealClock.monotonic_ns()),
            has_locked: AtomicBool::new(false),
            rooms_made: AtomicU64::new(0),
        })
    }

    /// Ends the session: the engine closes what is open in it.
    pub fn end(&self) {
        if let Some(session) = self.session_now().take()
            && let Err(error) = (self.ask)(FilesAsk::End(session))
        {
            self.note(&error.to_string());
        }
    }

    fn session_now(&self) -> std::sync::MutexGuard<'_, Option<u64>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session, begun if there is none.
    fn session(&self) -> Done<u64> {
        let mut session = self.session_now();
        if let Some(session) = *session {
            return Ok(session);
        }
        let mut wishes = 0;
        loop {
            match (self.ask)(FilesAsk::Begin) {
                Ok(FilesReply::Begun(begun)) => {
                    *session = Some(begun);
                    self.answered();
                    return Ok(begun);
                }
                Ok(_) => return Err(number::EIO),
                Err(Failure::Busy) if wishes < WISHES_MAX => wishes += 1,
                Err(error) => return Err(self.failed(error)),
            }
            dolmen_env::wait(REST);
        }
    }

    /// A session has ended.
    fn lose(&self, lost: u64) {
        let mut session = self.session_now();
        if *session == Some(lost) {
            *session = None;
            drop(session);
            if self.has_locked.swap(false, Ordering::Relaxed) {
                let text = "the engine was started again or lost: locks of processes that use this mount are gone, and they do not know";
                self.notes.again(text);
            }
        }
    }

    fn answered(&self) {
        self.answered_ns.store(RealClock.monotonic_ns(), Ordering::Relaxed);
    }

    fn failed(&self, error: Failure) -> i32 {
        self.note(&error.to_string());
        match Error::from(error).errno() {
            number::EACCES => number::EACCES,
            number::EAGAIN | number::EBUSY => number::EAGAIN,
            _ => number::EIO,
        }
    }

    /// Asks in a session; the reply without its head.
    fn ask_in(&self, session: u64, request: Vec<u8>) -> Result<Vec<u8>, Lost> {
        match (self.ask)(FilesAsk::Ask { session, request }) {
            Ok(FilesReply::Told(told)) if told.is_empty() => {
                self.answered();
                Ok(told)
            }
            Ok(FilesReply::Told(mut told)) => {
                self.answered();
                let errno = word(&told, 4).map(u32::cast_signed).ok_or(Lost::Failed(number::EIO))?;
                match errno.checked_neg() {
                    Some(0) if told.len() >= reply::HEAD_BYTES as usize => {
                        told.drain(..reply::HEAD_BYTES as usize);
                        Ok(told)
                    }
                    Some(errno @ 1..4096) => Err(Lost::Failed(errno)),
                    _ => Err(Lost::Failed(number::EIO)),
                }
            }
            Ok(_) => Err(Lost::Failed(number::EIO)),
            Err(Failure::NotFound) => Err(Lost::Session { may_have_happened: true }),
            Err(error) => Err(Lost::Failed(self.failed(error))),
        }
    }

    /// The engine's number of a node in a session.
    fn node_in(&self, session: u64, node: u64) -> Result<u64, Lost> {
        let mut way: Vec<(u64, Lookup)> = Vec::new();
        let mut at = node;
        // Up to what is known in this session, and down again by names.
        let mut there = loop {
            match self.known.node_in(session, at) {
                Ok(there) => break there,
                Err(Some(lookup)) if way.len() < DEPTH_MAX => {
                    let parent = lookup.parent;
                    way.push((at, lookup));
                    at = parent;
                }
                Err(_) => return Err(Lost::Failed(number::ESTALE)),
            }
        };
        for (node, lookup) in way.into_iter().rev() {
            let mut own = lookup.name.to_vec();
            own.push(0);
            let told = self.ask_in(session, known::request(code::LOOKUP, there, &own)).map_err(not_it)?;
            let found = known::found(&told).ok_or(Lost::Failed(number::EIO))?;
            if (found.ino, found.kind) != (lookup.ino, lookup.kind) {
                // Somebody else's by now.
                self.forget_in(session, found.node, 1);
                return Err(Lost::Failed(number::ESTALE));
            }
            if !self.known.found_again(session, node, found.node) {
                self.forget_in(session, found.node, 1);
            }
            there = found.node;
        }
        Ok(there)
    }

    /// The engine's number of an open file or directory in a session.
    fn handle_in(&self, session: u64, handle: u64) -> Result<u64, Lost> {
        let opened = self.known.opened(handle).ok_or(Lost::Failed(number::EBADF))?;
        if let Some((_, there)) = opened.at.filter(|(of, _)| *of == session) {
            return Ok(there);
        }
        let node = self.node_in(session, opened.node)?;
        let (code, own) = (opened.code, known::open_again(opened.flags));
        let told = self.ask_in(session, known::request(code, node, &own)).map_err(not_it)?;
        let there = long(&told, 0).ok_or(Lost::Failed(number::EIO))?;
        if self.known.opened_again(handle, session, there) {
            return Ok(there);
        }
        // Another thread was faster, or it was closed meanwhile.
        self.close_in(session, opened.code, (node, there));
        let opened = self.known.opened(handle).and_then(|opened| opened.at);
        opened.filter(|(of, _)| *of == session).map(|(_, there)| there).ok_or(Lost::Failed(number::EBADF))
    }

    fn close_in(&self, session: u64, opened_by: u32, (node, handle): (u64, u64)) {
        let code = if opened_by == code::OPENDIR { code::RELEASEDIR } else { code::RELEASE };
        let mut own = handle.to_le_bytes().to_vec();
        own.extend_from_slice(&[0; 16]);
        // Ignored: what is not closed so is closed with the session.
        let _closed = self.ask_in(session, known::request(code, node, &own));
    }

    fn forget_in(&self, session: u64, node: u64, lookups: u64) {
        // Ignored: what is not forgotten so is forgotten with the session.
        let _forgotten = self.ask_in(session, known::request(code::FORGET, node, &lookups.to_le_bytes()));
    }

    /// Has the engine forget some of what the kernel knows: when that is asked for it is found again by name, as in another session.
    /// Whether there is room then.
    fn make_room(&self, session: u64) -> bool {
        let forgotten = self.known.forget_old(session, FORGOTTEN_AT_ONCE);
        if forgotten.is_empty() {
            return false;
        }
        // Whoever is told that something is stale from now on looks at it again.
        self.rooms_made.fetch_add(1, Ordering::AcqRel);
        // Ignored: then there is no room, as whoever asks again is told.
        let _forgotten =
            self.ask_in(session, known::request(code::BATCH_FORGET, ROOT, &known::forgets(&forgotten)));
        true
    }

    /// Passes a request on, and takes in what comes.
    fn pass(&self, bytes: &[u8], request: &Request<'_>, reply: &mut Reply) -> Done {
        for _ in 0..SESSIONS_MAX {
            let session = self.session()?;
            let rooms_made = self.rooms_made.load(Ordering::Acquire);
            match self.pass_in(session, bytes, request) {
                Ok(told) => return self.take(session, request, told, reply),
                Err(Lost::Failed(errno::ENFILE)) if self.make_room(session) => {}
                // It may have been forgotten since it was known there.
                Err(Lost::Failed(number::ESTALE))
                    if self.rooms_made.load(Ordering::Acquire) != rooms_made => {}
                Err(Lost::Failed(LATER)) => {
                    reply.waits = true;
                    return Ok(());
                }
                Err(Lost::Failed(errno)) => return Err(errno),
                Err(Lost::Session { may_have_happened }) => {
                    self.lose(session);
                    if may_have_happened && !is_repeatable(&request.op) {
                        self.note("an engine ended while it was asked for a change, which may have happened");
                        return Err(number::EIO);
                    }
                }
            }
        }
        Err(number::EIO)
    }

    fn pass_in(&self, session: u64, bytes: &[u8], request: &Request<'_>) -> Result<Vec<u8>, Lost> {
        let now_ns = RealClock.monotonic_ns();
        let is_fresh = now_ns.saturating_sub(self.answered_ns.load(Ordering::Relaxed)) < FRESH_NS;
        if !is_fresh && !is_repeatable(&request.op) {
            // Nobody can tell later whether it was done by an engine that has ended; that this one has, is seen before.
            self.ask_in(session, known::request(code::GETATTR, ROOT, &[0; 16])).map_err(not_it)?;
        }
        let mut sent = bytes.to_vec();
        known::put(&mut sent, NODE_AT, self.node_in(session, request.node)?);
        match &request.op {
            Op::Rename { new_dir: other, .. } | Op::Link { old: other, .. } => {
                known::put(&mut sent, HEAD_BYTES, self.node_in(session, *other)?);
            }
            // Attributes are the node's.
            Op::GetAttr { .. } => known::put(&mut sent, HEAD_BYTES, 0),
            Op::SetAttr(attrs) => {
                if let Some(handle) = attrs.handle {
                    known::put(&mut sent, HEAD_BYTES + 8, self.handle_in(session, handle)?);
                }
            }
            op => {
                if let Some(handle) = handle_of(op) {
                    known::put(&mut sent, HEAD_BYTES, self.handle_in(session, handle)?);
                }
            }
        }
        self.ask_in(session, sent)
    }

    /// Takes in what was answered, and says it in the relay's own numbers.
    fn take(&self, session: u64, request: &Request<'_>, mut told: Vec<u8>, reply: &mut Reply) -> Done {
        let Timeouts { attrs, .. } = self.options.timeouts();
        match &request.op {
            Op::Lookup { name }
            | Op::SymLink { name, .. }
            | Op::MkNod { name, .. }
            | Op::MkDir { name, .. }
            | Op::Link { name, .. }
            | Op::Create { name, .. } => {
                let dir = request.node;
                self.take_entry(session, Some((dir, name)), &mut told, reply)?;
            }
            Op::TmpFile { .. } => self.take_entry(session, None, &mut told, reply)?,
            Op::GetAttr { .. } | Op::SetAttr(_) => known::set_attr_timeout(&mut told, attrs),
            Op::Unlink { name } | Op::RmDir { name } => self.known.unnamed(request.node, name),
            Op::Rename { name, new_dir, new_name, flags } => {
                self.known.renamed((request.node, name), (*new_dir, new_name), flags & 2 != 0);
            }
            Op::Lock(op) if op.how != LockHow::Test && op.kind != LockKind::Free => {
                self.has_locked.store(true, Ordering::Relaxed);
                // Whoever had it before may have changed the file elsewhere.
                reply.outdated = Some(request.node).filter(|_| attrs > Duration::ZERO);
            }
            _ => {}
        }
        self.take_open(session, request, &mut told, reply)?;
        reply.out.bytes(&told);
        Ok(())
    }

    fn take_entry(
        &self,
        session: u64,
        name: Option<(u64, &[u8])>,
        told: &mut [u8],
        reply: &mut Reply,
    ) -> Done {
        let found = known::found(told).ok_or(number::EIO)?;
        let node = self.known.remember(session, name, &found);
        reply.looked_up.push(node);
        known::set_entry(told, node, self.options.timeouts());
        Ok(())
    }

    /// What was opened, if anything was.
    fn take_open(&self, session: u64, request: &Request<'_>, told: &mut [u8], reply: &mut Reply) -> Done {
        let (node, code, flags, at) = match &request.op {
            Op::Open { flags } => (request.node, code::OPEN, *flags, 0),
            Op::OpenDir => (request.node, code::OPENDIR, 0, 0),
            Op::Create { flags, .. } | Op::TmpFile { flags, .. } => {
                let node = *reply.looked_up.last().ok_or(number::EIO)?;
                (node, code::OPEN, *flags, reply::ENTRY_BYTES)
            }
            _ => return Ok(()),
        };
        let there = long(told, at).ok_or(number::EIO)?;
        let handle = self.known.open(Opened { node, code, flags, at: Some((session, there)) });
        reply.opened = Some(handle);
        told[at..at + 8].copy_from_slice(&handle.to_le_bytes());
        Ok(())
    }

    fn forget(&self, node: u64, lookups: u64) {
        let Some((of, there, lookups)) = self.known.forget(node, lookups) else { return };
        let now = *self.session_now();
        if now == Some(of) {
            self.forget_in(of, there, lookups);
        }
    }

    /// Closes what is open, with all that is asked at the same time.
    fn release(&self, bytes: &[u8], node: u64, handle: u64) -> Done {
        let Some(Opened { at: Some((of, there)), .. }) = self.known.close(handle) else { return Ok(()) };
        let now = *self.session_now();
        if now != Some(of) {
            return Ok(());
        }
        let mut sent = bytes.to_vec();
        // What is closed is known by its own number.
        known::put(&mut sent, NODE_AT, self.node_in(of, node).unwrap_or(ROOT));
        known::put(&mut sent, HEAD_BYTES, there);
        // Ignored: with the session it is closed as well.
        let _closed = self.ask_in(of, sent);
        Ok(())
    }

    /// What was written has nothing that is kept back: a session that has ended owes nothing.
    fn flush(&self, bytes: &[u8], request: &Request<'_>, handle: u64, reply: &mut Reply) -> Done {
        let opened = self.known.opened(handle).ok_or(number::EBADF)?;
        let now = *self.session_now();
        match opened.at {
            Some((of, _)) if now == Some(of) => match self.pass(bytes, request, reply) {
                // It was removed by somebody else, or its engine ended meanwhile.
                Err(number::ESTALE | number::EBADF) => Ok(()),
                done => done,
            },
            _ => Ok(()),
        }
    }
}

impl Serves for Relay {
    fn threads(&self) -> usize {
        self.options.threads
    }

    fn takes_ring(&self) -> bool {
        self.options.takes_ring()
    }

    fn set_over_ring(&self) {
        self.about.set_over_ring();
    }

    fn note(&self, text: &str) {
        self.notes.once(text);
    }

    fn keeps_locks(&self) -> bool {
        true
    }

    // The engine renews them.
    fn has_locks(&self) -> bool {
        false
    }

    fn renew_locks(&self) {}

    fn serve(&self, bytes: &[u8], request: &Request<'_>, reply: &mut Reply) -> Done {
        match &request.op {
            Op::Init { major, minor, readahead_bytes, flags } => {
                let keeps = init::Keeps::LocksAndRights;
                let answer = init::answer(*major, *minor, *readahead_bytes, *flags, keeps);
                reply.out.bytes(&answer.ok_or(errno::EPROTO)?);
                Ok(())
            }
            Op::Destroy => {
                self.end();
                Ok(())
            }
            Op::Interrupt { .. } => Ok(()),
            Op::Forget(forgotten) => {
                forgotten.iter().for_each(|(node, lookups)| self.forget(*node, *lookups));
                Ok(())
            }
            Op::GetXattr { name, room_bytes } if request.node == ROOT && *name == ABOUT => {
                self.about.tell(*room_bytes, reply)
            }
            Op::Release { handle, .. } | Op::ReleaseDir { handle } => {
                self.release(bytes, request.node, *handle)
            }
            Op::Flush { handle, .. } => self.flush(bytes, request, *handle, reply),
            _ => self.pass(bytes, request, reply),
        }
    }

    fn take_back(&self, reply: &mut Reply) {
        for node in reply.looked_up.drain(..) {
            self.forget(node, 1);
        }
        if let Some(handle) = reply.opened.take()
            && let Some(Opened { node, code, at: Some((of, there)), .. }) = self.known.close(handle)
            && *self.session_now() == Some(of)
            && let Ok(node) = self.node_in(of, node)
        {
            self.close_in(of, code, (node, there));
        }
    }

    fn unlock(&self, op: &LockOp) {
        let session = *self.session_now();
        let Some(session) = session else { return };
        let Some(opened) = self.known.opened(op.handle) else { return };
        let Ok(node) = self.node_in(session, opened.node) else { return };
        if let Some((_, there)) = opened.at.filter(|(of, _)| *of == session) {
            let freed = self.ask_in(session, known::request(code::SETLK, node, &known::unlock(there, op)));
            if freed.is_err() {
                self.note("a lock whose process is gone could not be freed: it goes with the mount");
            }
        }
    }

    fn end_write(&self, _number: u64) -> bool {
        false
    }
}

/// What was asked beside a request was not the request.
fn not_it(lost: Lost) -> Lost {
    match lost {
        Lost::Session { .. } => Lost::Session { may_have_happened: false },
        // It has no such name any more, or is not to be reached by it.
        Lost::Failed(number::ENOENT | number::ENOTDIR) => Lost::Failed(number::ESTALE),
        failed => failed,
    }
}

/// The open file or directory that an operation is done on, whose number comes first in it.
fn handle_of(op: &Op<'_>) -> Option<u64> {
    match op {
        Op::Read(range) | Op::FAllocate { range, .. } => Some(range.handle),
        Op::Write { handle, .. }
        | Op::Flush { handle, .. }
        | Op::FSync { handle }
        | Op::ReadDir { handle, .. }
        | Op::LSeek { handle, .. } => Some(*handle),
        Op::Lock(op) => Some(op.handle),
        _ => None,
    }
}

/// Whether nobody can tell if it was done once or twice, or whether it was done at all before it was done again.
fn is_repeatable(op: &Op<'_>) -> bool {
    const O_EXCL: u32 = 0o200;
    match op {
        Op::SymLink { .. }
        | Op::MkNod { .. }
        | Op::MkDir { .. }
        | Op::Unlink { .. }
        | Op::RmDir { .. }
        | Op::Rename { .. }
        | Op::Link { .. }
        | Op::TmpFile { .. }
        | Op::RemoveXattr { .. } => false,
        Op::Create { flags, .. } => flags & O_EXCL == 0,
        Op::Write { how, .. } => !how.appends,
        Op::SetXattr { flags, .. } => *flags == 0,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
