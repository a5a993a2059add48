//! A daemon that runs.

use crate::error::{Error, Result};
use crate::pools::Pools;
use crate::settings::Settings;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::wire::{
    PoolAccess, PoolConnection, PoolName, PoolSlot, RankInfo, SystemInfo, SystemReply, SystemVerb, VERSION,
    Welcome,
};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_env::{Address, Clock, DirLock, Listener, Peer, RealClock, Rng};
use dolmen_net::server::{Attachment, OpenedPool, Options, Server, System};
use dolmen_types::{Error as Failure, Head, PoolMap, Uuid, limits, uuid_of_random};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What a welcome says in 32 bits.
const BODY_BYTES_MAX: u32 = {
    assert!(limits::FRAME_BODY_BYTES_MAX <= u32::MAX as usize);
    #[expect(clippy::cast_possible_truncation, reason = "asserted")]
    let bytes = limits::FRAME_BODY_BYTES_MAX as u32;
    bytes
};

/// How often a daemon that waits looks whether it is to end.
const REST: Duration = Duration::from_millis(200);

/// A daemon that serves a directory; it ends when it is stopped or dropped.
pub struct Daemon {
    server: Option<Server>,
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    idle_end: Option<Duration>,
    /// Owned for as long as the daemon runs: a second one would take the first one's sockets away.
    _lock: DirLock,
}

struct Shared {
    pools: Pools,
    name: String,
    rank: u32,
    engine: Uuid,
    instance: u128,
    addresses: Vec<String>,
    must_stop: AtomicBool,
    note: Box<dyn Fn(&str) + Send + Sync>,
    /// Guards the generator of UUIDs; taken alone.
    rng: Mutex<Rng>,
}

impl Daemon {
    /// Serves a directory from now on; `note` is told what concerns whoever runs the machine.
    ///
    /// # Errors
    /// `Served` if another daemon does; `NoDirectory`; if an address cannot be listened at.
    pub fn start(settings: &Settings, note: impl Fn(&str) + Send + Sync + 'static) -> Result<Self> {
        if !settings.dir.is_dir() {
            return Err(Error::NoDirectory { path: settings.dir.clone() });
        }
        let lock = DirLock::acquire(&settings.dir).map_err(|error| match error {
            dolmen_env::Error::Owned { pid } => Error::Served { pid },
            other => Error::Env(other),
        })?;
        let mut listeners = Vec::new();
        for address in &settings.addresses {
            if let Address::Unix(path) = address {
                remove_stale(path)?;
            }
            listeners.push(Listener::bind(address)?);
        }
        let addresses: Vec<Address> = listeners.iter().map(|listener| listener.address().clone()).collect();
        let mut rng = Rng::from_entropy()?;
        let shared = Arc::new(Shared {
            pools: Pools::new(settings.dir.clone(), settings.memory_budget_bytes),
            name: settings.name.clone(),
            rank: settings.rank,
            engine: uuid_of_random(rng.next_u128()),
            instance: rng.next_u128(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            must_stop: AtomicBool::new(false),
            note: Box::new(note),
            rng: Mutex::new(rng),
        });
        let options = Options { threads: settings.thread_count(), ..Options::default() };
        let system: Arc<dyn System> = Arc::clone(&shared) as _;
        let server = Some(Server::start(&system, listeners, &options)?);
        Ok(Self { server, shared, addresses, idle_end: settings.idle_end, _lock: lock })
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
        for address in &self.addresses {
            if let Address::Unix(path) = address {
                // Ignored: a name that is left is removed by the next daemon.
                let _removed = dolmen_env::remove_socket(path);
            }
        }
        // Whoever is connected sends again to the next daemon what this one has not answered.
        let has_clients = server.connection_count() > 0;
        server.stop();
        self.shared.pools.close(has_clients)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Ignored: whoever wants to know calls `stop`; what was acknowledged is durable in any case.
        let _closed = self.shut();
    }
}

/// The name of a socket whose daemon is dead is taken away; we own the directory, so none lives.
fn remove_stale(path: &Path) -> Result<()> {
    match dolmen_env::remove_socket(path) {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

impl System for Shared {
    fn welcome(&self, version: u16, ring_bytes: u64) -> Welcome {
        Welcome {
            version: version.min(VERSION),
            rank: self.rank,
            engine: self.engine,
            instance: self.instance,
            features: 0,
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
        peer: Option<Peer>,
        ask: SystemVerb,
    ) -> core::result::Result<Attachment, Failure> {
        let reply = match ask {
            SystemVerb::Ping | SystemVerb::PoolDisconnect { .. } => SystemReply::Done,
            SystemVerb::Query => SystemReply::System(self.info()?),
            SystemVerb::PoolList => SystemReply::Pools(self.pools.list()?),
            SystemVerb::PoolConnect { name, access } => return self.connect(head, &name, access),
            SystemVerb::PoolCreate(spec) => {
                let drawn = self.rng.lock().unwrap_or_else(PoisonError::into_inner).next_u128();
                let uuid = spec.uuid.unwrap_or_else(|| uuid_of_random(drawn));
                SystemReply::Created(self.pools.create(&spec, uuid)?)
            }
            SystemVerb::PoolDestroy { name, force } => {
                self.pools.destroy(&name, force)?;
                SystemReply::Done
            }
            SystemVerb::Stop { .. } => self.end(peer)?,
        };
        Ok(Attachment { reply, pool: None })
    }

    fn note(&self, text: &str) {
        (self.note)(text);
    }
}

impl Shared {
    fn info(&self) -> core::result::Result<SystemInfo, Failure> {
        let pool_count = u32::try_from(self.pools.list()?.len()).unwrap_or(u32::MAX);
        Ok(SystemInfo { name: self.name.clone(), ranks: self.ranks(), pool_count })
    }

    fn ranks(&self) -> Vec<RankInfo> {
        vec![RankInfo { rank: self.rank, uuid: self.engine, addresses: self.addresses.clone() }]
    }

    fn connect(
        &self,
        head: &Head,
        name: &PoolName,
        access: PoolAccess,
    ) -> core::result::Result<Attachment, Failure> {
        let (pool, entry) = self.pools.connect(name, access)?;
        let map = map_of(&*pool, head)?;
        let connection = PoolConnection {
            slot: PoolSlot::SYSTEM,
            uuid: entry.uuid,
            label: entry.label,
            map: map.clone(),
            ranks: self.ranks(),
        };
        let opened = OpenedPool {
            transport: pool,
            is_read_only: access == PoolAccess::ReadOnly,
            answers_at_once: entry.volatile,
            map_version: map.version,
        };
        Ok(Attachment { reply: SystemReply::Connected(Box::new(connection)), pool: Some(opened) })
    }

    /// Only who runs the daemon may end it.
    fn end(&self, peer: Option<Peer>) -> core::result::Result<SystemReply, Failure> {
        let own = dolmen_env::user_id();
        match peer {
            Some(peer) if peer.uid == own || peer.uid == 0 => {
                self.must_stop.store(true, Ordering::Release);
                Ok(SystemReply::Done)
            }
            _ => Err(Failure::NoPermission),
        }
    }
}

fn map_of(pool: &dyn Transport, head: &Head) -> core::result::Result<PoolMap, Failure> {
    let request =
        Request { token: 0, head: Head { map_version: 0, ..*head }, ask: Ask::Pool(PoolVerb::Query) };
    match pool.call(request).result? {
        Answer::Pool(PoolReply::Pool(info)) => Ok(info.map),
        other => unreachable!("a pool answers a query with what it is, not {other:?}"),
    }
}
