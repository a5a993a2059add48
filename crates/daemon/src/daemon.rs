//! A daemon that runs.

use crate::access;
use crate::answered::{Answered, Fault, Outcome, Turn};
use crate::error::{Error, Result};
use crate::files::Sessions;
use crate::kept::{Comer, Kept};
use crate::lease::{Alone, Lease, PartLease};
use crate::leased::Leased;
use crate::notes::{Notes, Verdict};
use crate::peers::{Peers, difference};
use crate::pools::{ERRNO_STALE, Pools};
use crate::settings::Settings;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_codec::Transport;
use dolmen_codec::order::HashKey;
use dolmen_codec::wire::{
    FEATURE_NOT_FIRST, PartKey, PoolAccess, PoolConnection, PoolEntry, PoolName, PoolSlot, PoolSpec,
    RankInfo, SystemInfo, SystemReply, SystemVerb, Version, Welcome,
};
use dolmen_env::{Address, Clock, DirLock, HeldDir, Listener, RealClock, Secrets, Socket, spawn};
use dolmen_net::server::{Attachment, Caller, OpenedPool, Options, Rights, Server, System};
use dolmen_net::tls::Role;
use dolmen_types::{Error as Failure, Head, TargetNo, Uuid, limits, uuid_of_random};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What a welcome says in 32 bits.
const BODY_BYTES_MAX: u32 = {
    assert!(limits::FRAME_BODY_BYTES_MAX <= u32::MAX as usize);
    #[expect(clippy::cast_possible_truncation, reason = "asserted")]
    let bytes = limits::FRAME_BODY_BYTES_MAX as u32;
    bytes
};

/// `EIO`: the machine gives no randomness.
const ERRNO_IO: i32 = 5;

/// How long a daemon may take to answer before it is taken for dead.
const ANSWER: Duration = Duration::from_secs(1);

/// How often a daemon that waits looks whether it is to end.
const REST: Duration = Duration::from_millis(200);

/// How long an address may be taken by a process that ends.
const ENDING_NS: u64 = 2_000_000_000;

/// Between two looks whether it is free.
const ENDING_REST: Duration = Duration::from_millis(5);

/// A daemon that serves a directory; it ends when it is stopped or dropped.
pub struct Daemon {
    server: Option<Server>,
    shared: Arc<Shared>,
    /// What is done beside serving, until the end.
    beside: Vec<JoinHandle<()>>,
    addresses: Vec<Address>,
    /// The name in the directory that leads to a socket elsewhere.
    sign: Option<PathBuf>,
    idle_end: Option<Duration>,
    /// Owned for as long as the daemon runs: a second one would take the first one's sockets away.
    _lock: DirLock,
}

struct Shared {
    pools: Pools,
    name: String,
    engine: Uuid,
    instance: u128,
    addresses: Vec<String>,
    must_stop: AtomicBool,
    note: Arc<dyn Fn(&str) + Send + Sync>,
    notes: Notes,
    /// Whether it was told that the directory is not where it was.
    is_moved_told: AtomicBool,
    answered: Answered,
    files: Sessions,
    /// Guards the generator of UUIDs; taken alone.
    secrets: Mutex<Secrets>,
}

impl Daemon {
    /// Serves a directory from now on; `note` is told what concerns whoever runs the machine.
    ///
    /// # Errors
    /// `Served` if another daemon does; `NoDirectory`; if an address cannot be listened at.
    pub fn start(settings: &Settings, note: impl Fn(&str) + Send + Sync + 'static) -> Result<Self> {
        settings.check_dir()?;
        let lock = DirLock::acquire(&settings.dir).map_err(|error| match error {
            dolmen_env::Error::Owned { pid } => Error::Served { pid },
            other => Error::Env(other),
        })?;
        let dir = Arc::new(HeldDir::open(&settings.dir)?);
        // What is left of a daemon that died: nobody else puts such a name here.
        dolmen_env::unlink_socket(&settings.socket())?;
        let listeners = listeners(&settings.addresses)?;
        open_sockets(settings)?;
        let addresses: Vec<Address> = listeners.iter().map(|listener| listener.address().clone()).collect();
        let sign = put_sign(settings, &addresses)?;
        let mut secrets = Secrets::System;
        let (answered, sound) = Answered::of(&dir);
        if sound == Err(Fault::Newer) {
            return Err(Error::Newer { path: answered.path() });
        }
        let peers = Peers::new(settings.rank, settings.engines.clone(), settings.certs.clone());
        let note: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(note);
        let told = Arc::clone(&note);
        let kept = Kept::of(&dir, move |text| told(text));
        let leased = Leased::new(&dir, HashKey(secrets.next_u128()?.to_le_bytes()));
        // Half of the numbers there are, away from their end.
        let first = u64::try_from(secrets.next_u128()? >> 65).unwrap_or(1);
        let files = Sessions::new(&addresses, first, Arc::clone(&note));
        let shared = Arc::new(Shared {
            pools: Pools::new(&dir, settings.open_options(), peers, (kept, leased)),
            name: settings.name.clone(),
            engine: uuid_of_random(secrets.next_u128()?),
            instance: secrets.next_u128()?,
            addresses: addresses.iter().map(from_anywhere).collect(),
            must_stop: AtomicBool::new(false),
            note,
            notes: Notes::default(),
            is_moved_told: AtomicBool::new(false),
            answered,
            files,
            secrets: Mutex::new(secrets),
        });
        let options =
            Options { threads: settings.thread_count(), certs: settings.certs.clone(), ..Options::default() };
        if !shared.pools.knows_evictions() {
            (shared.note)(
                "how often pools were taken from all who had them could not be read: who had one before may go on",
            );
        }
        if sound == Err(Fault::Damaged) {
            shared.note("what the former daemon has answered is damaged, and begun anew: what is asked again is done again");
        }
        if let Err(error) = shared.pools.remove_destroyed() {
            shared.note(&format!("what is left of a destroyed pool cannot be removed: {error}"));
        }
        let beside = |name: &str, body: fn(&Shared)| {
            let shared = Arc::clone(&shared);
            spawn(name, move || body(&shared))
        };
        // Whoever connects first finds them open, and room made ready for what it writes.
        let mut threads = vec![beside("dolmen-open", Shared::open_pools_in_memory)?];
        if !shared.pools.peers().all().is_empty() {
            threads.push(beside("dolmen-compare", Shared::compare_lists)?);
            threads.push(beside("dolmen-shared", Shared::open_shared_pools)?);
            threads.push(beside("dolmen-destroy", Shared::finish_destroyed)?);
        }
        let system: Arc<dyn System> = Arc::clone(&shared) as _;
        let server = Some(Server::start(&system, listeners, &options)?);
        let idle_end = settings.idle_end;
        Ok(Self { server, shared, beside: threads, addresses, sign, idle_end, _lock: lock })
    }

    /// Where it listens, with the ports that were taken.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.server.as_ref().map_or(0, Server::connection_count)
    }

    /// Waits until `is_asked` says to end, a client has ended it, or it was idle for long enough.
    pub fn wait(&self, is_asked: impl Fn() -> bool) {
        let mut busy_ns = RealClock.monotonic_ns();
        loop {
            if is_asked() || self.shared.must_stop.load(Ordering::Acquire) {
                return;
            }
            let now_ns = RealClock.monotonic_ns();
            if self.connection_count() > 0 {
                busy_ns = now_ns;
            }
            let idle = Duration::from_nanos(now_ns - busy_ns);
            if self.idle_end.is_some_and(|end| idle >= end) {
                return;
            }
            dolmen_env::wait(REST);
        }
    }

    /// Ends the daemon: connections are closed, what is under way is finished, pools are closed.
    ///
    /// # Errors
    /// The first pool's whose last checkpoint could not be written; nothing acknowledged is lost by that.
    pub fn stop(mut self) -> core::result::Result<(), dolmen_local::Error> {
        self.shut()
    }

    fn shut(&mut self) -> core::result::Result<(), dolmen_local::Error> {
        let Some(server) = self.server.take() else { return Ok(()) };
        self.shared.files.end();
        let pools = &self.shared.pools;
        for address in &self.addresses {
            if let Address::Unix(path) = address
                && pools.is_own_name(path)
            {
                // Ignored: a name that is left is removed by the next daemon.
                let _removed = dolmen_env::remove_socket(path);
            }
        }
        // Ignored: as above.
        let _unsigned = self
            .sign
            .take()
            .filter(|sign| pools.is_own_name(sign))
            .map(|sign| dolmen_env::unlink_socket(&sign));
        self.shared.pools.kept().end();
        server.stop();
        self.shared.must_stop.store(true, Ordering::Release);
        // Ignored: a panic of the thread was reported when it happened.
        self.beside.drain(..).for_each(|thread| drop(thread.join()));
        self.shared.pools.close()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Ignored: whoever wants to know calls `stop`; what was acknowledged is durable in any case.
        let _closed = self.shut();
    }
}

/// Opens the sockets to whom they are for.
fn open_sockets(settings: &Settings) -> Result<()> {
    let Some((mode, group)) = settings.open_to else { return Ok(()) };
    for address in &settings.addresses {
        if let Address::Unix(socket) = address {
            dolmen_env::open_socket_to(socket, mode, group)?;
        }
    }
    Ok(())
}

/// Lets whoever knows the directory find a daemon that listens elsewhere; what was made.
fn put_sign(settings: &Settings, addresses: &[Address]) -> Result<Option<PathBuf>> {
    let sign = settings.socket();
    let socket = addresses.iter().find_map(|address| match address {
        Address::Unix(path) => std::path::absolute(path).ok(),
        Address::Tcp(_) => None,
    });
    // Relative paths of one place differ in what they are called.
    let Some(socket) = socket.filter(|_| !sign.exists()) else { return Ok(None) };
    match dolmen_env::remove_socket(&sign) {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => dolmen_env::link_socket(&socket, &sign)?,
    }
    Ok(Some(sign))
}

/// What takes from others what they use or have stored, or gives away what is everybody's.
fn is_for_operator(ask: &SystemVerb) -> bool {
    matches!(ask, SystemVerb::PoolCreate(_) | SystemVerb::PoolDestroy { .. } | SystemVerb::PoolEvict(_))
}

/// What engines ask each other.
fn is_for_engine(ask: &SystemVerb) -> bool {
    matches!(
        ask,
        SystemVerb::Compare { .. }
            | SystemVerb::PartCreate(_)
            | SystemVerb::PartConnect { .. }
            | SystemVerb::PartDestroy { .. }
            | SystemVerb::PartEvict { .. }
            | SystemVerb::PartLook { .. }
    )
}

/// Refuses who may not ask this: engines' questions anybody but an engine, where certificates say who is one, and the
/// operator's anybody but him.
fn refuse_strangers(head: &Head, caller: &Caller, ask: &SystemVerb) -> core::result::Result<(), Failure> {
    let is_allowed = match &caller.identity {
        Some(identity) if is_for_engine(ask) => identity.role == Role::Engine,
        Some(_) if is_for_operator(ask) => access::is_operator(head, caller),
        // Where the kernel says who it is, or nobody does. That the parts' own verbs carry the pool's key is not enough: it is
        // in files, too.
        None if is_for_operator(ask) || is_for_engine(ask) => access::is_operator(head, caller),
        _ => true,
    };
    if is_allowed { Ok(()) } else { Err(Failure::NoPermission) }
}

/// An address as processes in other directories can use it.
fn from_anywhere(address: &Address) -> String {
    match address {
        Address::Unix(path) => match std::path::absolute(path) {
            Ok(path) => Address::Unix(path).to_string(),
            Err(_no_directory) => address.to_string(),
        },
        Address::Tcp(_) => address.to_string(),
    }
}

/// Listens everywhere. Sockets come last, since whoever finds one takes the daemon for one that serves.
fn listeners(addresses: &[Address]) -> Result<Vec<Listener>> {
    let mut all: Vec<Option<Listener>> = addresses.iter().map(|_| None).collect();
    for are_sockets in [false, true] {
        for (address, place) in addresses.iter().zip(&mut all) {
            if let Address::Unix(path) = address {
                if !are_sockets {
                    continue;
                }
                remove_stale(path)?;
            } else if are_sockets {
                continue;
            }
            *place = Some(bound(address)?);
        }
    }
    Ok(all.into_iter().flatten().collect())
}

/// Listens at an address; one that a daemon has which was killed a moment ago is free soon.
fn bound(address: &Address) -> Result<Listener> {
    let end_ns = RealClock.monotonic_ns() + ENDING_NS;
    loop {
        match Listener::bind(address) {
            Err(error) if error.is_in_use() && RealClock.monotonic_ns() < end_ns => {
                dolmen_env::wait(ENDING_REST);
            }
            done => return Ok(done?),
        }
    }
}

/// The name of a socket whose daemon is dead, or about to be, is taken away; one at which somebody answers stays his.
fn remove_stale(path: &Path) -> Result<()> {
    let address = Address::Unix(path.to_owned());
    if let Ok(answers) = Socket::connect(&address, ANSWER) {
        let who = answers.peer()?;
        if !who.is_some_and(|peer| dolmen_env::is_ending(peer.pid)) {
            return Err(Error::Answered { address: address.to_string() });
        }
    }
    match dolmen_env::remove_socket(path) {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

impl System for Shared {
    fn welcome(&self, version: Version, ring_bytes: u64) -> Welcome {
        Welcome {
            version,
            rank: self.pools.peers().rank(),
            engine: self.engine,
            instance: self.instance,
            features: if self.pools.peers().is_first() { 0 } else { FEATURE_NOT_FIRST },
            ring_bytes,
            body_bytes_max: BODY_BYTES_MAX,
            payload_bytes_max: limits::FRAME_PAYLOAD_BYTES_MAX as u64,
            requests_max: dolmen_net::server::REQUESTS_MAX,
            system: self.name.clone(),
        }
    }

    fn answer(
        &self,
        head: &Head,
        caller: &Caller,
        ask: SystemVerb,
    ) -> core::result::Result<Attachment, Failure> {
        let answered = self.answer_in_place(head, caller, ask);
        if matches!(answered, Err(Failure::Io { errno: ERRNO_STALE, .. }))
            && !self.pools.is_in_place()
            && !self.is_moved_told.swap(true, Ordering::Relaxed)
        {
            self.note(
                "the directory of the system was moved: no pool is opened, made or destroyed until this daemon is stopped, and one is \
                 started for it where it is now",
            );
        }
        answered
    }

    fn end(&self) {
        self.must_stop.store(true, Ordering::Release);
    }

    fn note(&self, text: &str) {
        match self.notes.judge(RealClock.monotonic_ns()) {
            Verdict::LeaveOut => {}
            Verdict::Say { left_out } => {
                if left_out > 0 {
                    (self.note)(&format!("{left_out} more notes within a second were left out"));
                }
                (self.note)(text);
            }
        }
    }
}

impl Shared {
    fn answer_in_place(
        &self,
        head: &Head,
        caller: &Caller,
        ask: SystemVerb,
    ) -> core::result::Result<Attachment, Failure> {
        refuse_strangers(head, caller, &ask)?;
        if ask == SystemVerb::Stop {
            may_end(caller)?;
        }
        if ask.is_change() {
            return self.change(head, ask);
        }
        let reply = match ask {
            SystemVerb::Ping | SystemVerb::PoolDisconnect { .. } => SystemReply::Done,
            SystemVerb::Query => SystemReply::System(self.info()?),
            SystemVerb::Compare { rank, list } => {
                self.compare_with(rank, &list);
                SystemReply::System(self.pools.peers().list(&self.name))
            }
            SystemVerb::PoolList => SystemReply::Pools(self.pools.list()?),
            SystemVerb::PoolConnect { name, access } => return self.connect(head, caller, &name, access),
            SystemVerb::PartCreate(part) => {
                self.pools.create_part(&part)?;
                SystemReply::Done
            }
            SystemVerb::PartConnect { pool, key } => {
                let (pool, entry) = self.pools.connect_part(pool, key)?;
                let door = Arc::new(PartLease::new(Arc::clone(&pool)));
                return Ok(self.attachment(&pool, entry, (door, false), (head.cred.uid, Rights::All)));
            }
            SystemVerb::PartDestroy { pool, key } => {
                self.pools.destroy_part(pool, key)?;
                SystemReply::Done
            }
            SystemVerb::PartLook { pool, key, cont } => {
                SystemReply::Looked(Box::new(self.pools.look(pool, key, cont)?))
            }
            SystemVerb::PoolCreate(_)
            | SystemVerb::PoolDestroy { .. }
            | SystemVerb::PoolEvict(_)
            | SystemVerb::PartEvict { .. }
            | SystemVerb::Stop => unreachable!("changes are answered above"),
        };
        Ok(Attachment { reply, pool: None, is_last: false })
    }

    /// Carries out what is not done again for who asks again, and who may.
    fn change(&self, head: &Head, ask: SystemVerb) -> core::result::Result<Attachment, Failure> {
        let turn = self.answered.turn(head)?;
        if let Some(reply) = turn.answer() {
            return Ok(Attachment { reply, pool: None, is_last: false });
        }
        let is_last = matches!(ask, SystemVerb::Stop);
        if matches!(ask, SystemVerb::PoolCreate(_) | SystemVerb::PoolDestroy { .. })
            && !self.pools.is_in_place()
        {
            return Err(Failure::Io { target: TargetNo(0), errno: ERRNO_STALE });
        }
        let reply = match ask {
            SystemVerb::PoolCreate(spec) => SystemReply::Created(self.create(&turn, spec)?),
            SystemVerb::PoolDestroy { name, force } => {
                self.destroy(&turn, &name, force)?;
                SystemReply::Done
            }
            SystemVerb::PoolEvict(name) => {
                self.pools.evict(&name)?;
                SystemReply::Done
            }
            SystemVerb::PartEvict { pool, key } => {
                self.pools.evict_part(pool, key)?;
                SystemReply::Done
            }
            SystemVerb::Stop => SystemReply::Done,
            _ => unreachable!("no change"),
        };
        self.note_unrecorded(turn.ends(&reply));
        Ok(Attachment { reply, pool: None, is_last })
    }

    /// Makes a pool; one whose making was cut short under the same UUID and key, so that what is there of it is its own.
    fn create(&self, turn: &Turn<'_>, spec: PoolSpec) -> core::result::Result<PoolEntry, Failure> {
        for (id, pool, key) in self.answered.take_unmade() {
            // It would be in the way of others of its name, at engines where nobody destroys it.
            self.answered.let_go_of(id, self.pools.remove_unmade(pool, PartKey(key)));
        }
        let (uuid, key) = match turn.begun() {
            Some(Outcome::Creates { pool, key }) => (*pool, *key),
            _ => {
                let pool = match spec.uuid {
                    Some(given) => given,
                    None => uuid_of_random(self.drawn()?),
                };
                let key = self.drawn()?;
                self.note_unrecorded(turn.begins(Outcome::Creates { pool, key }));
                (pool, key)
            }
        };
        self.pools.create(&PoolSpec { uuid: Some(uuid), ..spec }, key)
    }

    /// Destroys the pool that has the name now; or, if that was cut short, the one that had it then.
    fn destroy(&self, turn: &Turn<'_>, name: &PoolName, force: bool) -> core::result::Result<(), Failure> {
        let pool = match turn.begun() {
            Some(Outcome::Destroys { pool }) => *pool,
            _ => {
                let found = self.pools.entry(name)?;
                self.note_unrecorded(turn.destroys(&found));
                return self.pools.destroy(&PoolName::Uuid(found.uuid), force);
            }
        };
        match self.pools.destroy(&PoolName::Uuid(pool), force) {
            // It was gone before the daemon was.
            Err(Failure::NotFound) => Ok(()),
            done => done,
        }
    }

    /// A device that takes nothing more does not keep anybody from giving back what is on it.
    fn note_unrecorded(&self, written: dolmen_env::Result<()>) {
        if let Err(error) = written {
            self.note(&format!(
                "an answer cannot be put on record, and is known until this daemon ends: {error}"
            ));
        }
    }

    fn open_pools_in_memory(&self) {
        // What cannot be listed or opened now is told to whoever asks for it.
        let Ok(all) = self.pools.list() else { return };
        for entry in all.into_iter().filter(|entry| entry.volatile) {
            if self.must_stop.load(Ordering::Acquire) {
                return;
            }
            self.pools.open_ahead(entry.uuid);
        }
    }

    /// Opens what this engine has of pools on several, and those whose service it has as soon as the others are there:
    /// clients that go on at another engine are let in by that, and they may ask nobody else.
    fn open_shared_pools(&self) {
        let mut closed = self.pools.shared();
        while !closed.is_empty() && !self.must_stop.load(Ordering::Acquire) {
            closed.retain(|&uuid| !self.pools.open_shared(uuid));
            if !closed.is_empty() {
                dolmen_env::wait(REST);
            }
        }
    }

    /// Has pools that are destroyed removed at engines that were not there then.
    fn finish_destroyed(&self) {
        while !self.must_stop.load(Ordering::Acquire) {
            self.pools.look_after_destroyed();
            dolmen_env::wait(REST);
        }
    }

    /// Says which engines, of those that are there, have another list than this one.
    fn compare_lists(&self) {
        let peers = self.pools.peers();
        let own = peers.list(&self.name);
        for rank in peers.others() {
            if self.must_stop.load(Ordering::Acquire) {
                return;
            }
            match peers.compare(rank, &own) {
                Ok(other) => self.compare_with(rank, &other),
                // One that is not there compares when it starts.
                Err(_silent) => {
                    if let Some((address, other)) = peers.stranger(rank) {
                        self.note(&format!(
                            "engine {other} answers at {address}, where the list has engine {rank}: give all the same list, \
                             and each its own rank"
                        ));
                    }
                }
            }
        }
    }

    fn compare_with(&self, rank: u32, other: &SystemInfo) {
        if let Some(difference) = difference(&self.pools.peers().list(&self.name), other) {
            self.note(&format!(
                "engine {rank} has another list of engines: {difference}; give all the same one"
            ));
        }
    }

    fn info(&self) -> core::result::Result<SystemInfo, Failure> {
        let pool_count = u32::try_from(self.pools.list()?.len()).unwrap_or(u32::MAX);
        Ok(SystemInfo { name: self.name.clone(), ranks: self.ranks(), pool_count })
    }

    /// All engines; of this one where it listens indeed, with the ports that were taken.
    fn ranks(&self) -> Vec<RankInfo> {
        let peers = self.pools.peers();
        let own = RankInfo { rank: peers.rank(), uuid: self.engine, addresses: self.addresses.clone() };
        if peers.all().is_empty() {
            return vec![own];
        }
        peers
            .all()
            .iter()
            .map(|engine| if engine.rank == own.rank { own.clone() } else { engine.clone() })
            .collect()
    }

    /// 128 bits that follow from nothing that is told, as UUIDs of pools are: keys come from here, too.
    fn drawn(&self) -> core::result::Result<u128, Failure> {
        let no_entropy = |_entropy: dolmen_env::Error| Failure::Io { target: TargetNo(0), errno: ERRNO_IO };
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).next_u128().map_err(no_entropy)
    }

    fn connect(
        &self,
        head: &Head,
        caller: &Caller,
        name: &PoolName,
        access: PoolAccess,
    ) -> core::result::Result<Attachment, Failure> {
        let allowed = |pool: &Lease| access::rights(head, caller, (pool, access));
        let connected = self.pools.connect((head, caller.client), name, access, allowed);
        let (pool, entry, rights) = connected?;
        let (client, uid, pid) = (caller.client, head.cred.uid, caller.peer.map(|peer| peer.pid));
        let alone = (access == PoolAccess::Exclusive).then_some(head.id.sequence);
        let user = self.pools.keep(&pool, entry.uuid, Comer { client, uid, pid }, alone);
        let transport: Arc<dyn Transport> = match access {
            PoolAccess::Exclusive => Arc::new(Alone(Arc::clone(&pool))),
            PoolAccess::ReadOnly | PoolAccess::ReadWrite | PoolAccess::Change => Arc::<Lease>::clone(&pool),
        };
        let door = (transport, access == PoolAccess::ReadOnly);
        // A session for files has locks on its user's account.
        let uid = self.files.user_of(head.id.client).unwrap_or(uid);
        let mut attachment = self.attachment(&pool, entry, door, (uid, rights));
        if let Some(opened) = &mut attachment.pool {
            opened.user = user.map(|user| user as _);
        }
        Ok(attachment)
    }

    fn attachment(
        &self,
        pool: &Lease,
        entry: PoolEntry,
        (transport, is_read_only): (Arc<dyn Transport>, bool),
        (uid, rights): (u32, Rights),
    ) -> Attachment {
        let map = pool.map().clone();
        let own = self.pools.peers().rank();
        let elsewhere = || match pool.is_spread() {
            true => map.targets.iter().map(|target| target.rank != own).collect(),
            false => Vec::new(),
        };
        let opened = OpenedPool {
            transport,
            is_read_only,
            // What other engines take part in waits for them.
            answers_at_once: entry.volatile && !pool.is_spread(),
            is_part: pool.is_part(),
            map_version: map.version,
            uid,
            rights,
            user: None,
            holders: Arc::clone(pool.holders()),
            locks: self.pools.locked().of(entry.uuid),
            leases: self.pools.leased().of(entry.uuid, elsewhere),
            files: if pool.is_part() { None } else { self.files.of(entry.uuid) },
        };
        let (uuid, label, ranks) = (entry.uuid, entry.label, self.ranks());
        let evictions = self.pools.evictions(uuid);
        let connection = PoolConnection { slot: PoolSlot::SYSTEM, uuid, label, map, ranks, evictions };
        Attachment { reply: SystemReply::Connected(Box::new(connection)), pool: Some(opened), is_last: false }
    }
}

/// Only who runs the daemon may end it.
fn may_end(caller: &Caller) -> core::result::Result<(), Failure> {
    let own = dolmen_env::user_id();
    let is_operator = match (caller.peer, &caller.identity) {
        (Some(peer), _) => peer.uid == own || peer.uid == 0,
        (None, Some(identity)) => identity.role == Role::Admin,
        (None, None) => false,
    };
    if is_operator { Ok(()) } else { Err(Failure::NoPermission) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_net::tls::Identity;
    use dolmen_types::Credentials;

    #[test]
    fn no_pool_is_taken_or_destroyed_by_a_stranger() {
        let name = || PoolName::Uuid(Uuid::nil());
        for force in [false, true] {
            assert!(is_for_operator(&SystemVerb::PoolDestroy { name: name(), force }), "force: {force}");
        }
        assert!(is_for_operator(&SystemVerb::PoolEvict(name())));
        assert!(!is_for_operator(&SystemVerb::PoolList));
        assert!(is_for_operator(&SystemVerb::PoolCreate(PoolSpec::default())));
        let own = dolmen_env::user_id();
        let of = |uid| Head { cred: Credentials { uid, gid: 0, project: 0 }, ..Head::default() };
        let evict = SystemVerb::PoolEvict(name());
        let believed = Caller { peer: None, groups: Vec::new(), identity: None, client: 0 };
        assert_eq!(refuse_strangers(&of(own + 1), &believed, &evict), Err(Failure::NoPermission));
        assert_eq!(refuse_strangers(&of(own), &believed, &evict), Ok(()));
        assert_eq!(refuse_strangers(&of(0), &believed, &evict), Ok(()));
        // Whoever has read the pool's key is no engine by that.
        let (pool, key) = (Uuid::nil(), dolmen_codec::wire::PartKey(5));
        for part in [
            SystemVerb::PartConnect { pool, key },
            SystemVerb::PartLook { pool, key, cont: None },
            SystemVerb::PartDestroy { pool, key },
            SystemVerb::PartEvict { pool, key },
        ] {
            let told = [own + 1, own, 0].map(|uid| refuse_strangers(&of(uid), &believed, &part).is_ok());
            assert_eq!(told, [false, true, true], "{part:?}");
        }
    }

    #[test]
    fn who_may_not_end_a_daemon_is_refused_without_waiting_for_a_request_of_the_same_number() {
        let dir = std::env::temp_dir().join(format!("dolmen-end-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let daemon = Daemon::start(&Settings::new(dir.clone()), |_note| {}).unwrap();
        let id = dolmen_types::RequestId { client: 5, sequence: 9 };
        let head = Head { id, ..Head::default() };
        let under_way = daemon.shared.answered.turn(&head).unwrap();
        let stranger = Caller { peer: None, groups: Vec::new(), identity: None, client: 0 };
        let told = daemon.shared.answer(&head, &stranger, SystemVerb::Stop);
        assert_eq!(told.map(drop), Err(Failure::NoPermission));
        drop(under_way);
        drop(daemon);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_a_certificate_names_decides_and_no_number_does() {
        let named = |role| {
            let identity = Identity { role, name: "anna".to_owned(), groups: Vec::new(), uid: 0, gid: 0 };
            Caller { peer: None, groups: Vec::new(), identity: Some(Arc::new(identity)), client: 0 }
        };
        let name = || PoolName::Uuid(Uuid::nil());
        let part = SystemVerb::PartConnect { pool: Uuid::nil(), key: dolmen_codec::wire::PartKey(0) };
        for (ask, allowed) in [
            (SystemVerb::PoolCreate(PoolSpec::default()), [false, true, false]),
            (SystemVerb::PoolDestroy { name: name(), force: true }, [false, true, false]),
            (SystemVerb::PoolEvict(name()), [false, true, false]),
            (part, [true, false, false]),
            (SystemVerb::PoolList, [true; 3]),
        ] {
            let found = [Role::Engine, Role::Admin, Role::User]
                .map(|role| refuse_strangers(&Head::default(), &named(role), &ask).is_ok());
            assert_eq!(found, allowed, "{ask:?}");
        }
    }
}
