//! Requests from the device, served in threads.
//!
//! All threads read the device. One that has read a request serves it, unless it was the last that read: then it keeps the
//! request for whoever is done first, and reads on. So somebody always hears interrupts, and none waits behind a store that
//! does not answer.
//!
//! Invariants: every request is answered once, whatever happens while it is served. What is kept back has a limit.

use crate::abi::op::code;
use crate::abi::op::{LockHow, LockOp};
use crate::abi::reply::head;
use crate::abi::request::{HEAD_BYTES, Op, Refused, Request};
use crate::abi::{REQUEST_BYTES_MAX, errno, long, notify, word};
use crate::fs::{Fs, Reply};
use crate::service::{Serves, guarded};
use core::time::Duration;
use dolmen_dfs::lock::{LockKind, RENEW_NS};
use dolmen_dfs::{Lease, errno as number};
use dolmen_env::{Clock, KernelDevice, RealClock, Received, Replied};
use dolmen_types::Oid;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes of requests that are kept back while all threads wait for the store; then the last one waits, too.
const BACKLOG_BYTES_MAX: usize = 64 << 20;

/// A request that has run for less is not broken off: it is about to end.
const PATIENCE_NS: u64 = 400_000_000;

/// Between two questions for a lock that somebody else has: at first, and when he keeps it for long.
const LOCK_REST_MIN: Duration = Duration::from_millis(1);
const LOCK_REST_MAX: Duration = Duration::from_millis(50);

/// Between two looks at requests that were interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// A request that is being served.
#[derive(Debug)]
struct Running {
    since_ns: u64,
    pid: u32,
    /// It changes something, and doing it twice is not the same as once.
    is_change: bool,
    is_interrupted: bool,
    /// It was answered by whoever heard the interrupt.
    is_answered: bool,
}

#[derive(Debug, Default)]
struct Requests {
    /// Threads that read.
    idle: usize,
    /// Threads in all.
    live: usize,
    backlog: VecDeque<Vec<u8>>,
    backlog_bytes: usize,
    running: HashMap<u64, Running>,
    interrupted: usize,
    /// Requests for locks that others have.
    parked: Vec<(u64, Vec<u8>)>,
    is_ended: bool,
}

/// What is void of what was found with leases.
#[derive(Debug, Default)]
pub struct Void {
    /// These, each with the object that it was on, if that is known.
    pub leases: Vec<(Lease, Option<Oid>)>,
    /// All that there were.
    pub all: bool,
}

/// A mounted file system and the threads that serve it.
pub struct Session<S = Fs> {
    device: KernelDevice,
    fs: S,
    /// Guards: who does what; taken alone.
    requests: Mutex<Requests>,
    /// Called when there is room in the backlog.
    room: Condvar,
    /// Called when a request is interrupted, and at the end.
    alarm: Condvar,
    /// Called when somebody waits for a lock, or has got or freed one, and at the end.
    locks: Condvar,
    /// Guards: the threads, until somebody waits for them; taken alone.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<S> core::fmt::Debug for Session<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Session {
    /// Others are about to change what was found with these leases: the kernel has forgotten it when this returns, and contents that
    /// were read without any. To be called often, also with none. For a thread that serves nothing: it waits for contents that are just being read.
    pub fn drop_void(&self, void: &Void) {
        let mut has_names = false;
        for dropped in self.fs.void(&void.leases, void.all) {
            // What is not there yet may be on its way: who gets there by its name looks again.
            has_names |= !self.drop_node(dropped.number, dropped.pages) || dropped.names;
        }
        if has_names && self.fs.has_epoch() {
            self.notify(&notify::names());
        }
        for number in self.fs.take_uncovered() {
            self.drop_node(number, true);
        }
    }

    /// Gives leases back that nobody needs any more; whoever listens does this now and then.
    pub fn drop_old(&self) {
        self.fs.drop_old();
    }
}

/// What a thread does next.
enum Turn {
    Serve(Vec<u8>),
    Read,
}

impl<S> Session<S> {
    /// Whether the kernel has let go of the mount, and no thread waits for the store any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_ended() && self.threads().iter().all(JoinHandle::is_finished)
    }

    /// Whether the kernel has let go of the mount; threads may still wait for the store.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.requests().is_ended
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(private_bounds, reason = "who serves is a matter of this crate")]
impl<S: Serves> Session<S> {
    /// Begins to serve `fs` to the kernel.
    ///
    /// # Errors
    /// [`dolmen_env::Error::Io`] if the system starts no threads.
    pub fn start(device: KernelDevice, fs: S) -> dolmen_env::Result<Arc<Self>> {
        let count = fs.threads().max(2);
        let requests = Mutex::new(Requests { live: count, ..Requests::default() });
        let (room, alarm, locks) = (Condvar::new(), Condvar::new(), Condvar::new());
        let keeps_locks = fs.keeps_locks();
        let session = Arc::new(Self { device, fs, requests, room, alarm, locks, threads: Mutex::default() });
        let started = (0..count).try_for_each(|_| session.spawn("dolmen-fuse", Self::serve));
        let started = started.and_then(|()| session.spawn("dolmen-alarm", Self::watch));
        let started = started.and_then(|()| match keeps_locks {
            true => session.spawn("dolmen-locks", Self::keep_locks),
            false => Ok(()),
        });
        if let Err(error) = started {
            session.end();
            return Err(error);
        }
        Ok(session)
    }

    fn spawn(self: &Arc<Self>, name: &str, body: fn(&Self)) -> dolmen_env::Result<()> {
        let session = Arc::clone(self);
        let thread = dolmen_env::spawn(name, move || body(&session))?;
        self.threads().push(thread);
        Ok(())
    }

    /// The file system, when every thread has ended; `None` if one still waits for the store, or somebody else has the
    /// session.
    #[must_use]
    pub fn finish(self: Arc<Self>) -> Option<S> {
        let threads = core::mem::take(&mut *self.threads());
        if threads.iter().any(|thread| !thread.is_finished()) {
            *self.threads() = threads;
            return None;
        }
        for thread in threads {
            if thread.join().is_err() {
                self.fs.note("a thread ended in a panic, which is a bug of this program");
            }
        }
        Arc::into_inner(self).map(|session| session.fs)
    }

    /// The file system.
    #[must_use]
    pub fn fs(&self) -> &S {
        &self.fs
    }

    /// The kernel forgets the attributes of a node, and its contents if `pages` says so; whether it has the node.
    fn drop_node(&self, node: u64, pages: bool) -> bool {
        self.notify(&notify::node(node, pages))
    }

    fn notify(&self, bytes: &[u8]) -> bool {
        match self.device.reply(&[IoSlice::new(bytes)]) {
            Ok(replied) => replied == Replied::Taken,
            Err(error) => {
                self.fs
                    .note(&format!("the kernel does not take what it is told of changes by others: {error}"));
                false
            }
        }
    }

    fn end(&self) {
        self.requests().is_ended = true;
        self.alarm.notify_all();
        self.room.notify_all();
        self.locks.notify_all();
    }

    /// One thread.
    fn serve(&self) {
        let mut buf = vec![0; REQUEST_BYTES_MAX];
        let mut reply = Reply::default();
        loop {
            match self.turn() {
                Turn::Serve(bytes) => self.answer(&bytes, &mut reply),
                Turn::Read => match self.read(&mut buf) {
                    Some(len) => self.answer(&buf[..len], &mut reply),
                    None => return,
                },
            }
        }
    }

    /// What was kept back comes before what is new.
    fn turn(&self) -> Turn {
        let mut requests = self.requests();
        let Some(bytes) = requests.backlog.pop_front() else {
            requests.idle += 1;
            return Turn::Read;
        };
        requests.backlog_bytes -= bytes.len();
        self.begin(&mut requests, &bytes);
        drop(requests);
        self.room.notify_all();
        Turn::Serve(bytes)
    }

    /// Reads until there is a request for this thread to serve; `None` when there will be no more.
    fn read(&self, buf: &mut [u8]) -> Option<usize> {
        loop {
            let len = match self.device.receive(buf) {
                Ok(Received::Request(len)) => len,
                Ok(Received::Nothing) => continue,
                Ok(Received::End) => break,
                Err(error) => {
                    self.fs.note(&format!("the kernel's device: {error}"));
                    break;
                }
            };
            let bytes = &buf[..len];
            if op_code(bytes) == Some(code::INTERRUPT) {
                self.interrupt(bytes);
                continue;
            }
            let mut requests = self.requests();
            if requests.idle > 1 || requests.live == 1 {
                requests.idle -= 1;
                self.begin(&mut requests, bytes);
                return Some(len);
            }
            requests.backlog.push_back(bytes.to_vec());
            requests.backlog_bytes += len;
            while requests.backlog_bytes > BACKLOG_BYTES_MAX && !requests.is_ended {
                requests = self.room.wait(requests).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let mut requests = self.requests();
        requests.idle -= 1;
        requests.live -= 1;
        drop(requests);
        self.end();
        None
    }

    /// REQUIRES: under the lock under which the request was taken, so that an interrupt finds it here or there.
    #[expect(clippy::unused_self, reason = "it is a step of the session")]
    fn begin(&self, requests: &mut Requests, bytes: &[u8]) {
        let Some(unique) = unique_of(bytes) else { return };
        let is_change = op_code(bytes).is_none_or(is_change);
        let pid = word(bytes, 32).unwrap_or(0);
        let since_ns = RealClock.monotonic_ns();
        let running = Running { since_ns, pid, is_change, is_interrupted: false, is_answered: false };
        requests.running.insert(unique, running);
    }

    /// Whether the request still waits for its answer.
    fn is_awaited(&self, unique: u64) -> bool {
        let mut requests = self.requests();
        let Some(running) = requests.running.remove(&unique) else { return true };
        if running.is_interrupted {
            requests.interrupted -= 1;
        }
        !running.is_answered
    }

    fn answer(&self, bytes: &[u8], reply: &mut Reply) {
        reply.clear();
        let (unique, answered) = match Request::parse(bytes) {
            Ok(Request { unique, op: Op::Lock(op), .. }) if op.how != LockHow::Test => {
                return self.answer_lock(bytes, unique, &op, reply);
            }
            Ok(request) => {
                let note = |text: &str| self.fs.note(text);
                let answered = guarded(note, || self.fs.serve(bytes, &request, reply));
                if !request.op.is_answered() {
                    self.is_awaited(request.unique);
                    return;
                }
                (request.unique, answered)
            }
            Err(Refused::Unreadable) => return,
            Err(Refused::Malformed { unique }) => (unique, Err(number::EINVAL)),
            Err(Refused::NameTooLong { unique }) => (unique, Err(number::ENAMETOOLONG)),
        };
        self.tell_outdated(reply);
        let is_taken = self.is_awaited(unique) && self.send(unique, answered, reply.bytes());
        if !is_taken || answered.is_err() {
            // Nobody has heard of what was found and opened, so nobody will give it back.
            self.fs.take_back(reply);
        }
        if let Some(number) = reply.take_wrote()
            && self.fs.end_write(number)
        {
            self.drop_node(number, true);
        }
    }

    /// Answers who wants a lock, or keeps him waiting for it without a thread.
    fn answer_lock(&self, bytes: &[u8], unique: u64, op: &LockOp, reply: &mut Reply) {
        let answered = self.serve_lock(bytes, reply);
        if reply.waits() {
            let mut requests = self.requests();
            if let Some(running) = requests.running.get_mut(&unique) {
                // Nothing was changed, so it may be broken off.
                running.is_change = false;
            }
            requests.parked.push((unique, bytes.to_vec()));
        } else {
            self.tell_outdated(reply);
            let is_taken = self.is_awaited(unique) && self.send(unique, answered, &[]);
            if !is_taken && answered.is_ok() && op.kind != LockKind::Free {
                self.fs.unlock(op);
            }
        }
        self.locks.notify_all();
    }

    fn serve_lock(&self, bytes: &[u8], reply: &mut Reply) -> Result<(), i32> {
        reply.clear();
        let Ok(request) = Request::parse(bytes) else { return Err(number::EINVAL) };
        guarded(|text| self.fs.note(text), || self.fs.serve(bytes, &request, reply))
    }

    /// Asks again for those who wait for locks, and says to the engine that the mount is there.
    fn keep_locks(&self) {
        let (mut reply, mut rest) = (Reply::default(), LOCK_REST_MIN);
        let mut renewed_ns = RealClock.monotonic_ns();
        loop {
            if self.fs.has_locks() && RealClock.monotonic_ns() - renewed_ns >= RENEW_NS {
                self.fs.renew_locks();
                renewed_ns = RealClock.monotonic_ns();
            }
            let waiting = self.take_parked();
            let count = waiting.len();
            for (unique, bytes) in waiting {
                match Request::parse(&bytes) {
                    Ok(Request { op: Op::Lock(op), .. }) => self.answer_lock(&bytes, unique, &op, &mut reply),
                    _ => drop(self.is_awaited(unique)),
                }
            }
            let requests = self.requests();
            if requests.is_ended {
                return;
            }
            let is_same = requests.parked.len() == count;
            rest = if is_same && count > 0 { (rest * 2).min(LOCK_REST_MAX) } else { LOCK_REST_MIN };
            let rest = match (requests.parked.is_empty(), self.fs.has_locks()) {
                (false, _) => rest,
                (true, true) => Duration::from_nanos(RENEW_NS),
                (true, false) => {
                    drop(self.locks.wait(requests).unwrap_or_else(PoisonError::into_inner));
                    continue;
                }
            };
            drop(self.locks.wait_timeout(requests, rest).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Those who wait for locks and were not broken off meanwhile. Until they wait again they are not.
    fn take_parked(&self) -> Vec<(u64, Vec<u8>)> {
        let mut requests = self.requests();
        let mut parked = core::mem::take(&mut requests.parked);
        let is_ended = requests.is_ended;
        parked.retain(|(unique, _)| {
            let Some(running) = requests.running.get_mut(unique) else { return false };
            running.is_change = true;
            let is_over = running.is_answered || is_ended;
            if is_over {
                requests.interrupted -= usize::from(running.is_interrupted);
                requests.running.remove(unique);
            }
            !is_over
        });
        parked
    }

    /// Tells the kernel before it gets an answer what it must not believe any more. It takes no time: nothing is waited for.
    fn tell_outdated(&self, reply: &Reply) {
        let Some(node) = reply.outdated() else { return };
        self.drop_node(node, false);
    }

    /// Whether the kernel has taken the answer. One that it refuses is told as an error: whoever asked must not wait for ever.
    fn send(&self, unique: u64, answered: Result<(), i32>, own: &[u8]) -> bool {
        let (errno, own) = match answered {
            Ok(()) => (0, own),
            Err(errno) => (errno, &[][..]),
        };
        let replied = self.device.reply(&[IoSlice::new(&head(unique, errno, own.len())), IoSlice::new(own)]);
        match replied {
            Ok(Replied::Taken) => true,
            Ok(Replied::Unwanted) => false,
            Err(error) => {
                self.fs.note(&format!("the kernel has refused an answer: {error}"));
                self.fail(unique, number::EIO);
                false
            }
        }
    }

    fn fail(&self, unique: u64, errno: i32) {
        if let Err(error) = self.device.reply(&[IoSlice::new(&head(unique, errno, 0))]) {
            self.fs.note(&format!("the kernel has refused an error: {error}"));
        }
    }

    /// Somebody who waits for a request has got a signal.
    fn interrupt(&self, bytes: &[u8]) {
        let Ok(Request { unique: own, op: Op::Interrupt { unique }, .. }) = Request::parse(bytes) else {
            return;
        };
        let mut requests = self.requests();
        if let Some(running) = requests.running.get_mut(&unique) {
            let is_new = !running.is_interrupted;
            running.is_interrupted = true;
            requests.interrupted += usize::from(is_new);
            drop(requests);
            self.alarm.notify_all();
            return;
        }
        let kept = requests.backlog.iter().position(|kept| unique_of(kept) == Some(unique));
        if let Some(kept) = kept.and_then(|at| requests.backlog.remove(at)) {
            requests.backlog_bytes -= kept.len();
            drop(requests);
            self.fail(unique, errno::EINTR);
            return;
        }
        drop(requests);
        // Whoever has read the request has not said so yet: the kernel is to say it again. Of one that is answered it does not.
        self.fail(own, number::EAGAIN);
    }

    /// Answers requests that were interrupted and wait for the store.
    fn watch(&self) {
        let mut requests = self.requests();
        while !requests.is_ended || !requests.running.is_empty() {
            let now_ns = RealClock.monotonic_ns();
            let waits = |running: &Running| {
                running.is_interrupted && !running.is_answered && now_ns - running.since_ns >= PATIENCE_NS
            };
            let mut broken: Vec<u64> = Vec::new();
            if requests.interrupted > 0 {
                let mut waiting: Vec<_> =
                    requests.running.iter_mut().filter(|(_, running)| waits(running)).collect();
                waiting.sort_unstable_by_key(|(unique, _)| **unique);
                for (unique, running) in waiting {
                    if !running.is_change || dolmen_env::is_being_killed(running.pid) {
                        running.is_answered = true;
                        broken.push(*unique);
                    }
                }
            }
            if !broken.is_empty() {
                drop(requests);
                broken.iter().for_each(|unique| self.fail(*unique, errno::EINTR));
                requests = self.requests();
                continue;
            }
            requests = if requests.interrupted > 0 || requests.is_ended {
                self.alarm.wait_timeout(requests, LOOK).unwrap_or_else(PoisonError::into_inner).0
            } else {
                self.alarm.wait(requests).unwrap_or_else(PoisonError::into_inner)
            };
        }
    }
}

fn op_code(bytes: &[u8]) -> Option<u32> {
    word(bytes, 4)
}

fn unique_of(bytes: &[u8]) -> Option<u64> {
    (bytes.len() >= HEAD_BYTES).then_some(())?;
    long(bytes, 8)
}

/// Whether somebody who hears of an interrupt, and does it again, has done it twice.
fn is_change(code: u32) -> bool {
    !matches!(
        code,
        code::LOOKUP
            | code::GETATTR
            | code::READLINK
            | code::OPEN
            | code::READ
            | code::STATFS
            | code::FSYNC
            | code::GETXATTR
            | code::LISTXATTR
            | code::FLUSH
            | code::OPENDIR
            | code::READDIR
            | code::READDIRPLUS
            | code::FSYNCDIR
            | code::ACCESS
            | code::LSEEK
            | code::SYNCFS
    )
}
