//! Requests from the kernel, served in threads.
//!
//! All threads read the device. One that has read a request serves it, unless it was the last that read: then it keeps the
//! request for whoever is done first, and reads on. So somebody always hears interrupts, and none waits behind a store that
//! does not answer. Where the kernel hands requests out over `io_uring`, most come that way ([`ring`]), and the device has what is
//! left: interrupts, and what is to be forgotten.
//!
//! Invariants: every request is answered once, whatever happens while it is served. What is kept back has a limit.

mod alarm;
mod drops;
mod ring;

use crate::abi::init;
use crate::abi::op::code;
use crate::abi::op::{LockHow, LockOp};
use crate::abi::reply::head;
use crate::abi::request::{HEAD_BYTES, Op, Refused, Request};
use crate::abi::{REQUEST_BYTES_MAX, errno, long, notify, word};
use crate::fs::{Done, Fs, Reply};
use crate::service::{Serves, guarded};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_dfs::errno as number;
use dolmen_dfs::lock::{LockKind, RENEW_NS};
use dolmen_env::{Clock, KernelDevice, RealClock, Received, Replied, RingEntry};
use drops::Owed;
pub use drops::Void;
use hashbrown::HashMap;
use ring::Queues;
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes of requests that are kept back while all threads wait for the store; then the last one waits, too.
const BACKLOG_BYTES_MAX: usize = 64 << 20;

/// Between two questions for a lock that somebody else has: at first, and when he keeps it for long.
const LOCK_REST_MIN: Duration = Duration::from_millis(1);
const LOCK_REST_MAX: Duration = Duration::from_millis(50);

/// One that goes from hand to hand.
type Entry = Box<RingEntry>;

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
    /// Where it came from, if not from the device, until it is answered.
    entry: Option<Entry>,
    /// Its entry waits with it for a lock.
    is_parked: bool,
    /// The kernel keeps contents of this node locked until it is answered.
    locks: Option<u64>,
}

impl Running {
    /// Its entry waits with it from now on; whether it did not before.
    fn park(&mut self, queues: Option<&mut Queues>) -> bool {
        let (Some(queues), Some(entry), false) = (queues, &self.entry, self.is_parked) else { return false };
        queues.park(entry.queue());
        self.is_parked = true;
        true
    }

    /// Its entry, which is to hand in the answer and wait for another request.
    fn free_entry(&mut self, queues: Option<&mut Queues>) -> Option<Entry> {
        let entry = self.entry.take()?;
        if let Some(queues) = queues {
            queues.free(entry.queue(), core::mem::take(&mut self.is_parked));
        }
        Some(entry)
    }
}

/// How an answer goes to the kernel.
enum Way {
    Device,
    Ring(Entry),
}

/// What a request came to.
enum Served {
    /// Nobody waits for an answer.
    Unasked(Option<u64>),
    /// To be answered.
    Answer { unique: u64, answered: Done },
    /// The same; if nobody hears that a lock was got, it is freed.
    Lock { unique: u64, answered: Done, op: LockOp },
    /// To be asked again: somebody else has the lock.
    Waits { unique: u64, bytes: Vec<u8> },
}

/// A request that is kept back for whoever is done first.
#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    since_ns: u64,
}

#[derive(Debug, Default)]
struct Requests {
    /// Threads that read.
    idle: usize,
    /// Threads in all.
    live: usize,
    backlog: VecDeque<Kept>,
    backlog_bytes: usize,
    running: HashMap<u64, Running>,
    interrupted: usize,
    /// Who looks at what takes long is to be woken when something begins.
    is_watcher_asleep: bool,
    /// Requests for locks that others have.
    parked: Vec<(u64, Vec<u8>)>,
    /// Of the kernel's rings, if requests come over them.
    queues: Option<Queues>,
    /// Files of which the kernel is to drop what it has, by number.
    drops: BTreeMap<u64, Owed>,
    is_ended: bool,
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
    /// Called when there is something to be dropped, or may be now, and at the end.
    drops: Condvar,
    /// The kernel has had no moment to drop contents of a file for so long that requests for them are refused.
    is_late: AtomicBool,
    /// Guards: the threads, until somebody waits for them; taken alone.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Guards: what is called at the end; taken alone.
    at_end: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl<S> core::fmt::Debug for Session<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session").field("device", &self.device).finish_non_exhaustive()
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

    /// Has this called as soon as the kernel has let go of the mount, by whoever sees that: it must not wait.
    pub fn when_ended(&self, call: impl FnOnce() + Send + 'static) {
        *self.at_end.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(call));
        if self.is_ended() {
            self.call_at_end();
        }
    }

    fn call_at_end(&self) {
        let call = self.at_end.lock().unwrap_or_else(PoisonError::into_inner).take();
        call.into_iter().for_each(|call| call());
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
        // The kernel's first request comes alone; what was agreed on there says who else is needed.
        let requests = Mutex::new(Requests { live: 1, ..Requests::default() });
        let (room, alarm, locks, drops) = (Condvar::new(), Condvar::new(), Condvar::new(), Condvar::new());
        let (keeps_locks, is_late) = (fs.keeps_locks(), AtomicBool::new(false));
        let session = Arc::new(Self {
            device,
            fs,
            requests,
            room,
            alarm,
            locks,
            drops,
            is_late,
            threads: Mutex::default(),
            at_end: Mutex::default(),
        });
        let started = session.spawn("dolmen-fuse", Self::serve);
        let started = started.and_then(|()| session.spawn("dolmen-alarm", Self::watch));
        let started = started.and_then(|()| session.spawn("dolmen-drops", Self::drop_contents));
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

    fn spawn(self: &Arc<Self>, name: &str, body: fn(&Arc<Self>)) -> dolmen_env::Result<()> {
        self.spawn_with(name, body)
    }

    fn spawn_with(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> dolmen_env::Result<()> {
        let session = Arc::clone(self);
        let thread = dolmen_env::spawn(name, move || body(&session))?;
        let mut threads = self.threads();
        let ended: Vec<_> = threads.extract_if(.., |thread| thread.is_finished()).collect();
        threads.push(thread);
        drop(threads);
        self.join(ended);
        Ok(())
    }

    fn join(&self, threads: Vec<JoinHandle<()>>) {
        for thread in threads {
            if thread.join().is_err() {
                self.fs.note("a thread ended in a panic, which is a bug of this program");
            }
        }
    }

    /// The kernel and the file system have agreed on what they do: `count` threads read the device.
    fn begin_reading(self: &Arc<Self>, count: usize) {
        for _ in 1..count {
            self.requests().live += 1;
            if let Err(error) = self.spawn("dolmen-fuse", Self::serve) {
                self.requests().live -= 1;
                self.fs.note(&format!("fewer threads serve the mount than were asked for: {error}"));
                return;
            }
        }
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
        self.join(threads);
        Arc::into_inner(self).map(|session| session.fs)
    }

    /// The file system.
    #[must_use]
    pub fn fs(&self) -> &S {
        &self.fs
    }

    /// The kernel forgets the attributes of a node, which takes no time; whether it has the node.
    fn drop_attrs(&self, node: u64) -> bool {
        self.notify(&notify::node(node, false))
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
        self.drops.notify_all();
        self.call_at_end();
    }

    /// One thread.
    fn serve(self: &Arc<Self>) {
        let mut buf = vec![0; REQUEST_BYTES_MAX];
        let mut reply = Reply::default();
        loop {
            let kept;
            let bytes = match self.turn() {
                Turn::Serve(bytes) => {
                    kept = bytes;
                    &kept[..]
                }
                Turn::Read => match self.read(&mut buf) {
                    Some(len) if op_code(&buf[..len]) == Some(code::INIT) => {
                        self.begin_mount(&mut buf[..len], &mut reply);
                        continue;
                    }
                    Some(len) => &buf[..len],
                    None => return,
                },
            };
            let served = self.serve_bytes(bytes, &mut reply);
            // From the device, so there is no entry to go on with.
            let _none = self.tell(served, &mut reply);
        }
    }

    /// Answers the kernel's first request, and has others begin as was agreed on.
    fn begin_mount(self: &Arc<Self>, bytes: &mut [u8], reply: &mut Reply) {
        let entries = if init::offers_ring(bytes) { self.make_entries() } else { Vec::new() };
        if entries.is_empty() {
            init::take_ring(bytes);
        }
        let served = self.serve_bytes(bytes, reply);
        let is_over_ring = init::agrees_ring(reply.bytes());
        let _none = self.tell(served, reply);
        if is_over_ring { self.begin_ring(entries) } else { self.begin_reading(self.fs.threads().max(2)) }
    }

    /// What was kept back comes before what is new.
    fn turn(&self) -> Turn {
        let mut requests = self.requests();
        let Some(Kept { bytes, .. }) = requests.backlog.pop_front() else {
            requests.idle += 1;
            return Turn::Read;
        };
        requests.backlog_bytes -= bytes.len();
        self.begin(&mut requests, &bytes, None);
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
                self.begin(&mut requests, bytes, None);
                return Some(len);
            }
            requests.backlog.push_back(Kept { bytes: bytes.to_vec(), since_ns: RealClock.monotonic_ns() });
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
    fn begin(&self, requests: &mut Requests, bytes: &[u8], entry: Option<Entry>) {
        let Some(unique) = unique_of(bytes) else { return };
        let is_change = op_code(bytes).is_none_or(is_change);
        let pid = word(bytes, 32).unwrap_or(0);
        let since_ns = RealClock.monotonic_ns();
        let is_interrupted = match (&mut requests.queues, &entry) {
            (Some(queues), Some(entry)) => queues.begin(entry.queue(), unique),
            _ => false,
        };
        requests.interrupted += usize::from(is_interrupted);
        let (is_answered, is_parked, locks) = (false, false, drops::locked_by(bytes));
        let running =
            Running { since_ns, pid, is_change, is_interrupted, is_answered, entry, is_parked, locks };
        requests.running.insert(unique, running);
        if is_interrupted || requests.queues.is_some() && requests.is_watcher_asleep {
            requests.is_watcher_asleep = false;
            self.alarm.notify_all();
        }
    }

    /// How the request is to be answered; `None` if it has its answer.
    fn way_of(&self, unique: u64) -> Option<Way> {
        let mut requests = self.requests();
        let Some(mut running) = requests.running.remove(&unique) else { return Some(Way::Device) };
        if running.is_interrupted {
            requests.interrupted -= 1;
        }
        if running.locks.is_some() && !requests.drops.is_empty() {
            self.drops.notify_all();
        }
        let entry = running.free_entry(requests.queues.as_mut());
        (!running.is_answered).then(|| entry.map_or(Way::Device, Way::Ring))
    }

    /// Does what is asked.
    fn serve_bytes(&self, bytes: &[u8], reply: &mut Reply) -> Served {
        reply.clear();
        let request = match Request::parse(bytes) {
            Ok(request) => request,
            Err(Refused::Unreadable) => return Served::Unasked(unique_of(bytes)),
            Err(Refused::Malformed { unique }) => {
                return Served::Answer { unique, answered: Err(number::EINVAL) };
            }
            Err(Refused::NameTooLong { unique }) => {
                return Served::Answer { unique, answered: Err(number::ENAMETOOLONG) };
            }
        };
        let unique = request.unique;
        if self.is_late.load(Ordering::Relaxed) && self.requests().refuses(bytes, RealClock.monotonic_ns()) {
            return Served::Answer { unique, answered: Err(number::EIO) };
        }
        let answered = guarded(|text| self.fs.note(text), || self.fs.serve(bytes, &request, reply));
        match request.op {
            // Also who only asks: an engine that was started again does not know yet.
            Op::Lock(_) if reply.waits() && self.may_wait(unique) => {
                Served::Waits { unique, bytes: bytes.to_vec() }
            }
            Op::Lock(op) => {
                let answered = if reply.waits() { Err(errno::ENOLCK) } else { answered };
                match op.how {
                    LockHow::Test => Served::Answer { unique, answered },
                    LockHow::Set | LockHow::Wait => Served::Lock { unique, answered, op },
                }
            }
            op if !op.is_answered() => Served::Unasked(Some(unique)),
            _ => Served::Answer { unique, answered },
        }
    }

    /// Tells the kernel what a request came to; the entry over which it came, if it is free again.
    fn tell(&self, served: Served, reply: &mut Reply) -> Option<Entry> {
        let (unique, answered, lock) = match served {
            Served::Answer { unique, answered } => (unique, answered, None),
            Served::Lock { unique, answered, op } => (unique, answered, Some(op)),
            Served::Waits { unique, bytes } => {
                self.park(unique, bytes);
                return None;
            }
            Served::Unasked(unique) => {
                // Over a ring everything is answered.
                let Some(Way::Ring(entry)) = unique.and_then(|unique| self.way_of(unique)) else {
                    return None;
                };
                return self.send_over(entry, unique.unwrap_or(0), Err(errno::ENOSYS), &[]).1;
            }
        };
        self.tell_outdated(reply);
        let (is_taken, entry) = match self.way_of(unique) {
            None => (false, None),
            Some(Way::Device) => (self.send(unique, answered, reply.bytes()), None),
            Some(Way::Ring(entry)) => self.send_over(entry, unique, answered, reply.bytes()),
        };
        match lock {
            Some(op) => {
                if !is_taken && answered.is_ok() && op.kind != LockKind::Free {
                    self.fs.unlock(&op);
                }
                self.locks.notify_all();
            }
            // Nobody has heard of what was found and opened, so nobody will give it back.
            None if !is_taken || answered.is_err() => self.fs.take_back(reply),
            None => {}
        }
        if let Some(number) = reply.take_wrote()
            && self.fs.end_write(number)
        {
            self.owe(number, None);
        }
        entry
    }

    /// Whether a request may wait for a lock: over rings not too many do at a time.
    fn may_wait(&self, unique: u64) -> bool {
        let requests = self.requests();
        let is_full = requests.queues.as_ref().is_some_and(Queues::is_full);
        !is_full || requests.running.get(&unique).is_some_and(|running| running.is_parked)
    }

    /// Keeps somebody who wants a lock waiting for it without a thread.
    fn park(&self, unique: u64, bytes: Vec<u8>) {
        let mut requests = self.requests();
        let Requests { running, queues, .. } = &mut *requests;
        let has_taken_entry = running.get_mut(&unique).is_some_and(|running| {
            // Nothing was changed, so it may be broken off.
            running.is_change = false;
            running.park(queues.as_mut())
        });
        requests.parked.push((unique, bytes));
        drop(requests);
        self.locks.notify_all();
        if has_taken_entry {
            self.alarm.notify_all();
        }
    }

    /// Asks again for those who wait for locks, and says to the engine that the mount is there.
    fn keep_locks(self: &Arc<Self>) {
        let (mut reply, mut rest) = (Reply::default(), LOCK_REST_MIN);
        let mut renewed_ns = RealClock.monotonic_ns();
        loop {
            if self.fs.has_locks() && RealClock.monotonic_ns() - renewed_ns >= RENEW_NS {
                self.fs.renew_locks();
                renewed_ns = RealClock.monotonic_ns();
            }
            let waiting = self.take_parked();
            let count = waiting.len();
            for (_, bytes) in waiting {
                let served = self.serve_bytes(&bytes, &mut reply);
                if let Some(entry) = self.tell(served, &mut reply) {
                    self.begin_entry(entry, false);
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
        self.drop_attrs(node);
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

    /// The same over a ring; the entry goes to the kernel when it is waited for. Without an entry nobody gets an answer any more.
    fn send_over(&self, mut entry: Entry, unique: u64, answered: Done, own: &[u8]) -> (bool, Option<Entry>) {
        let (errno, own) = match answered {
            Ok(()) => (0, own),
            Err(errno) => (errno, &[][..]),
        };
        let Err(error) = entry.answer(&head(unique, errno, own.len()), own) else {
            return (true, Some(entry));
        };
        self.fs.note(&format!("an answer does not go to the kernel: {error}"));
        if entry.answer(&head(unique, number::EIO, 0), &[]).is_ok() {
            return (false, Some(entry));
        }
        if let Some(queues) = &mut self.requests().queues {
            queues.lose(entry.queue());
        }
        (false, None)
    }

    fn fail(&self, unique: u64, errno: i32) {
        if let Err(error) = self.device.reply(&[IoSlice::new(&head(unique, errno, 0))]) {
            self.fs.note(&format!("the kernel has refused an error: {error}"));
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
