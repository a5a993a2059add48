//! Files of containers for those who may not reach their objects: a session of each has a mount of its own here, on his behalf.
//!
//! A session asks the daemon itself, over its socket, as any mount does: so leases, locks and other engines are minded by whoever
//! minds them for all.
//!
//! Invariants: a session counts for its user until all that it had open is closed; it is used by the connection that has begun it, for the container that it was begun for; every question is
//! answered once; what waits for the store are threads of the session.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use dolmen_client::{ContName, FilesAsk, FilesReply, OpenFor, Options, Pool};
use dolmen_codec::wire::{PoolAccess, PoolName};
use dolmen_dfs::lock::RENEW_NS;
use dolmen_dfs::{Cred, Dfs, MountOptions};
use dolmen_env::{Address, Clock, RealClock, spawn};
use dolmen_fuse::Hosted;
use dolmen_net::client::{CertsFrom, LinkOptions, reach};
use dolmen_net::server::{Files, FilesAsked, FilesUser, Then};
use dolmen_types::{ContNo, Credentials, Error, Head, RequestId, Result, Uuid};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Sessions of one user, and of all. Each has a connection and up to four threads.
const USER_MAX: usize = 8;
const ALL_MAX: usize = 256;

/// Threads of a session: as many of its requests wait for the store at once.
const THREADS_MAX: usize = 4;

/// Requests that may wait for them: more than a connection may have under way.
const WAITING_MAX: usize = 1024;

/// How long a session waits for an engine that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of its rings.
const RING_BYTES: usize = 256 << 10;

/// How long the daemon waits at its end for what sessions are just doing.
const ENDING_NS: u64 = 5_000_000_000;
const ENDING_REST: Duration = Duration::from_millis(2);

type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// The sessions of a daemon.
pub(crate) struct Sessions {
    inner: Arc<Inner>,
}

struct Inner {
    /// Its own socket.
    address: Option<Address>,
    note: Note,
    /// Numbers of sessions go on from one that nobody knows, so that none is taken for one of the daemon before.
    next: AtomicU64,
    /// Guards: the sessions; taken before their queues.
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    sessions: BTreeMap<u64, Session>,
    /// Who speaks for whom: those that are there, and those that have not ended yet.
    places: BTreeMap<u128, u32>,
    is_over: bool,
}

/// A place among the sessions, which is free again when this is dropped.
struct Place {
    inner: Arc<Inner>,
    /// As whom the session asks the daemon, which nobody else knows.
    client: u128,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inner.all().places.remove(&self.client);
    }
}

/// A session, as it is found.
struct Session {
    pool: Uuid,
    key: u64,
    cont: ContNo,
    queue: Arc<Queue>,
}

/// What its threads do.
struct Queue {
    /// Guards: its place, until all is closed; taken alone.
    place: Mutex<Option<Place>>,
    /// Guards: what is open, until the last thread closes it: no thread that serves connections may, as that asks the daemon. Taken
    /// last.
    files: Mutex<Option<Arc<Opened>>>,
    /// Guards: what waits; taken after the sessions.
    waiting: Mutex<Waiting>,
    come: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<(Vec<u8>, Then)>,
    threads: usize,
    idle: usize,
    is_over: bool,
    renewed_ns: u64,
    /// Whoever has ended it.
    ended: Option<Then>,
}

/// What is open for a session, in the order in which it goes.
struct Opened {
    hosted: Hosted,
    _pool: Pool,
}

/// The files of one pool.
pub(crate) struct PoolFiles {
    pool: Uuid,
    inner: Arc<Inner>,
}

impl Sessions {
    /// None yet. `first` is a random number.
    pub(crate) fn new(addresses: &[Address], first: u64, note: Note) -> Self {
        let address = addresses.iter().find(|address| matches!(address, Address::Unix(_))).cloned();
        let next = AtomicU64::new(first | 1);
        Self { inner: Arc::new(Inner { address, note, next, all: Mutex::default() }) }
    }

    /// The files of a pool; `None` if the daemon cannot be asked by itself.
    pub(crate) fn of(&self, pool: Uuid) -> Option<Arc<dyn Files>> {
        self.inner.address.as_ref()?;
        Some(Arc::new(PoolFiles { pool, inner: Arc::clone(&self.inner) }))
    }

    /// For which user a client asks that is a session.
    pub(crate) fn user_of(&self, client: u128) -> Option<u32> {
        self.inner.all().places.get(&client).copied()
    }

    /// Ends all sessions, and waits for what they are just doing. REQUIRES: the daemon serves still.
    pub(crate) fn end(&self) {
        let ended = {
            let mut all = self.inner.all();
            all.is_over = true;
            core::mem::take(&mut all.sessions)
        };
        ended.values().for_each(|session| session.queue.end(None));
        drop(ended);
        let end_ns = RealClock.monotonic_ns() + ENDING_NS;
        while !self.inner.all().places.is_empty() && RealClock.monotonic_ns() < end_ns {
            dolmen_env::wait(ENDING_REST);
        }
    }
}

impl Inner {
    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a session; its number.
    fn enter(
        self: &Arc<Self>,
        pool: Uuid,
        key: u64,
        cont: ContNo,
        uid: u32,
    ) -> Result<(u64, u128, Arc<Queue>)> {
        let client = dolmen_env::Rng::from_entropy().map_err(|_none| Error::Busy)?.next_u128();
        let mut all = self.all();
        let of_user = all.places.values().filter(|of| **of == uid).count();
        if all.is_over || of_user >= USER_MAX || all.places.len() >= ALL_MAX {
            return Err(Error::Busy);
        }
        let no = self.next.fetch_add(1, Ordering::Relaxed);
        let place = Mutex::new(Some(Place { inner: Arc::clone(self), client }));
        let (files, waiting, come) = (Mutex::default(), Mutex::default(), Condvar::new());
        let queue = Arc::new(Queue { place, files, waiting, come });
        all.places.insert(client, uid);
        all.sessions.insert(no, Session { pool, key, cont, queue: Arc::clone(&queue) });
        Ok((no, client, queue))
    }

    fn forget(&self, no: u64) {
        let forgotten = self.all().sessions.remove(&no);
        // Not under the lock: its place goes with it.
        drop(forgotten);
    }

    /// Begins a session in a thread of its own, which tells.
    fn begin(
        self: &Arc<Self>,
        (no, client, queue): (u64, u128, Arc<Queue>),
        asked: &FilesAsked,
        pool: Uuid,
        then: Then,
    ) {
        let (inner, user, cont) = (Arc::clone(self), asked.user.clone(), asked.cont);
        // If no thread can be had, nobody is left who could tell: so the answer stays here until there is one.
        let told = Arc::new(Mutex::new(Some(then)));
        let tell = Arc::clone(&told);
        let mine = Arc::clone(&queue);
        queue.waiting().threads += 1;
        let begun = spawn("dolmen-files", move || {
            let then = tell.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(then) = then else { return };
            match inner.open(pool, cont, user, client) {
                Ok(opened) => {
                    *mine.files() = Some(Arc::new(opened));
                    then(Ok(FilesReply::Begun(no)));
                }
                Err(error) => {
                    inner.forget(no);
                    mine.end(None);
                    then(Err(error));
                }
            }
            mine.run();
        });
        if begun.is_err() {
            queue.waiting().threads -= 1;
            self.forget(no);
            let then = told.lock().unwrap_or_else(PoisonError::into_inner).take();
            then.into_iter().for_each(|then| then(Err(Error::Busy)));
        }
    }

    /// Mounts a container on behalf of a user, as this client.
    fn open(&self, pool: Uuid, cont: ContNo, user: FilesUser, client: u128) -> Result<Opened> {
        let address = self.address.as_ref().ok_or(Error::NoPermission)?;
        let cred = Credentials { uid: dolmen_env::user_id(), gid: 0, project: 0 };
        let id = RequestId { client, ..RequestId::default() };
        let head = Head { cred, id, ..Head::default() };
        let usual = LinkOptions::default();
        let options =
            LinkOptions { patience: PATIENCE, ring_bytes: RING_BYTES, certs: CertsFrom::Nowhere, ..usual };
        let unreachable = |_own| Error::Unreachable { rank: 0 };
        let link = reach::system(core::slice::from_ref(address), &options).map_err(unreachable)?;
        let remote = reach::pool(&link, &head, PoolName::Uuid(pool), PoolAccess::ReadWrite)?;
        let pool = Pool::connect_with(Arc::new(remote), Options::like(&head)?)?;
        let found =
            pool.containers()?.into_iter().find(|found| found.no == cont).ok_or(Error::NoContainer)?;
        let container = pool.open_container_for(&ContName::Uuid(found.uuid), OpenFor::Change)?;
        let FilesUser { uid, gid, groups } = user;
        let options = MountOptions {
            shared: true,
            atime: true,
            acls: true,
            exact_blocks: true,
            tells_opens: true,
            uid,
            gid,
            ..MountOptions::default()
        };
        let note = Arc::clone(&self.note);
        let tell = move |text: &str| note(&format!("files of user {uid}: {text}"));
        let of_store = |error: dolmen_dfs::Error| match error {
            dolmen_dfs::Error::Store(error) => *error,
            _ => Error::Invalid(dolmen_types::Invalid::Property),
        };
        let dfs = Dfs::mount(&container, &options).map_err(of_store)?;
        let holder = dolmen_env::Rng::from_entropy().map_err(|_none| Error::Busy)?.next_u128();
        let user = Cred { uid, gid, groups, umask: 0 };
        let hosted = Hosted::new(dfs, user, dolmen_types::uuid_of_random(holder), tell).map_err(of_store)?;
        Ok(Opened { hosted, _pool: pool })
    }
}

impl Files for PoolFiles {
    fn ask(&self, asked: FilesAsked, then: Then) {
        let (pool, key, cont) = (self.pool, asked.key, asked.cont);
        let is_his = |session: &&Session| (session.pool, session.key, session.cont) == (pool, key, cont);
        match asked.ask {
            FilesAsk::Begin => match self.inner.enter(pool, key, cont, asked.user.uid) {
                Ok(entered) => self.inner.begin(entered, &asked, pool, then),
                Err(error) => then(Err(error)),
            },
            FilesAsk::Ask { session, request } => {
                let found =
                    self.inner.all().sessions.get(&session).filter(is_his).map(|it| Arc::clone(&it.queue));
                match found {
                    Some(queue) => queue.put(request, then),
                    None => then(Err(Error::NotFound)),
                }
            }
            FilesAsk::End(session) => {
                let mut all = self.inner.all();
                let is_there = all.sessions.get(&session).filter(is_his).is_some();
                let ended = if is_there { all.sessions.remove(&session) } else { None };
                drop(all);
                match ended {
                    Some(session) => session.queue.end(Some(then)),
                    None => then(Err(Error::NotFound)),
                }
            }
        }
    }

    fn leave(&self, key: u64) {
        let pool = self.pool;
        let is_his = |_no: &u64, session: &mut Session| session.pool == pool && session.key == key;
        let left: Vec<(u64, Session)> = self.inner.all().sessions.extract_if(.., is_his).collect();
        left.iter().for_each(|(_, session)| session.queue.end(None));
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, Option<Arc<Opened>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is open, for a thread of the session.
    fn opened(&self) -> Option<Arc<Opened>> {
        self.files().clone()
    }

    /// Puts a question behind the others.
    fn put(self: &Arc<Self>, request: Vec<u8>, then: Then) {
        let mut waiting = self.waiting();
        if waiting.is_over || waiting.jobs.len() >= WAITING_MAX {
            let error = if waiting.is_over { Error::NotFound } else { Error::Busy };
            drop(waiting);
            return then(Err(error));
        }
        waiting.jobs.push_back((request, then));
        let needs_thread = waiting.jobs.len() > waiting.idle && waiting.threads < THREADS_MAX;
        if needs_thread {
            waiting.threads += 1;
            drop(waiting);
            let queue = Arc::clone(self);
            if spawn("dolmen-files", move || queue.run()).is_err() {
                // The first one is there in any case.
                self.waiting().threads -= 1;
            }
        }
        self.come.notify_one();
    }

    /// Nothing is begun any more; `then` is told when all is closed.
    fn end(&self, then: Option<Then>) {
        let mut waiting = self.waiting();
        waiting.is_over = true;
        let left = core::mem::take(&mut waiting.jobs);
        let is_gone = waiting.threads == 0;
        let told = if is_gone {
            then
        } else {
            waiting.ended = waiting.ended.take().or(then);
            None
        };
        drop(waiting);
        self.come.notify_all();
        left.into_iter().for_each(|(_, then)| then(Err(Error::NotFound)));
        told.into_iter().for_each(|then| then(Ok(FilesReply::Ended)));
    }

    /// One thread: until the session ends. The last one closes what is open.
    fn run(&self) {
        while let Some((request, then)) = self.next() {
            let opened = self.opened();
            let told = match &opened {
                Some(opened) => Ok(FilesReply::Told(opened.hosted.ask(&request))),
                None => Err(Error::NotFound),
            };
            drop(opened);
            then(told);
            self.renew();
        }
        let mut waiting = self.waiting();
        if waiting.threads > 1 {
            waiting.threads -= 1;
            return;
        }
        drop(waiting);
        // Whoever looks whether all is closed sees this thread until it is.
        let opened = self.files().take();
        if let Some(opened) = &opened {
            opened.hosted.end();
        }
        drop(opened);
        drop(self.place.lock().unwrap_or_else(PoisonError::into_inner).take());
        let ended = {
            let mut waiting = self.waiting();
            waiting.threads = 0;
            waiting.ended.take()
        };
        ended.into_iter().for_each(|then| then(Ok(FilesReply::Ended)));
    }

    fn next(&self) -> Option<(Vec<u8>, Then)> {
        let mut waiting = self.waiting();
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if waiting.is_over {
                return None;
            }
            waiting.idle += 1;
            let is_watching = waiting.idle == 1;
            waiting = if is_watching && self.opened().is_some_and(|opened| opened.hosted.has_locks()) {
                let rest = Duration::from_nanos(RENEW_NS);
                let (waiting, rested) =
                    self.come.wait_timeout(waiting, rest).unwrap_or_else(PoisonError::into_inner);
                if rested.timed_out() {
                    drop(waiting);
                    self.renew();
                    self.waiting()
                } else {
                    waiting
                }
            } else {
                self.come.wait(waiting).unwrap_or_else(PoisonError::into_inner)
            };
            waiting.idle -= 1;
        }
    }

    /// Says now and then that its locks are still wanted.
    fn renew(&self) {
        let Some(opened) = self.opened().filter(|opened| opened.hosted.has_locks()) else { return };
        let now_ns = RealClock.monotonic_ns();
        let mut waiting = self.waiting();
        if now_ns.saturating_sub(waiting.renewed_ns) < RENEW_NS {
            return;
        }
        waiting.renewed_ns = now_ns;
        drop(waiting);
        opened.hosted.renew_locks();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn who_leaves_while_his_sessions_begin_has_no_room_for_more_until_they_have_ended() {
        let dir = std::env::temp_dir().join(format!("dolmen-files-{}", std::process::id()));
        let _left = std::fs::remove_file(&dir);
        // Takes connections, and never says a word.
        let listener = UnixListener::bind(&dir).unwrap();
        let sessions = Sessions::new(&[Address::Unix(dir.clone())], 1, Arc::new(|_: &str| ()));
        let files = sessions.of(Uuid::nil()).unwrap();
        let ask = |key: u64, uid: u32, then: Then| {
            let user = FilesUser { uid, gid: 1, groups: Vec::new() };
            files.ask(FilesAsked { key, user, cont: ContNo(1), ask: FilesAsk::Begin }, then);
        };
        for key in 0..USER_MAX as u64 {
            ask(key, 7, Box::new(|_told| ()));
            files.leave(key);
        }
        let (told, tells) = sync_channel(1);
        ask(99, 7, Box::new(move |result| told.send(result).unwrap()));
        assert_eq!(tells.try_recv(), Ok(Err(Error::Busy)));
        let clients: Vec<u128> = sessions.inner.all().places.keys().copied().collect();
        assert_eq!(
            clients.iter().map(|client| sessions.user_of(*client)).collect::<Vec<_>>(),
            [Some(7); USER_MAX]
        );
        assert_eq!(sessions.user_of(7), None);
        drop(listener);
        std::fs::remove_file(&dir).unwrap();
    }
}
