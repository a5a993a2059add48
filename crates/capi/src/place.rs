//! Where pools are, and the connections to them.
//!
//! A system is named by the caller, else by `DOLMEN_SYSTEM`, else by `system = "…"` in the user's `dolmen/client.toml`,
//! else it is the user's own. A name is `file:DIR` (pools in a directory, in this process), `unix:SOCK` (a daemon of this
//! node), `tcp://…` (engines on other nodes), or a bare word.
//!
//! Invariants: a pool's directory is opened once in a process, however many handles there are on it.

use crate::error::{Der, Result};
use crate::pool::{CONNECT_EX, CONNECT_RW};
use core::sync::atomic::{AtomicUsize, Ordering};
use dolmen_client::{Credentials, EventQueue, Options, Pool, Transport, Uuid, Way};
use dolmen_codec::now;
use dolmen_codec::wire::{PoolAccess, SystemInfo, SystemReply, SystemVerb};
use dolmen_env::{Address, PerProcess};
use dolmen_local::{LocalPool, OpenOptions, PoolEntry};
use dolmen_net::client::reach::Begin;
use dolmen_net::client::{Link, LinkOptions, Remote, reach};
use dolmen_net::tls::Role;
use dolmen_types::Head;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// The name of a system that means the default one: what DAOS calls a system that nobody named.
const DEFAULT_SYSTEM: &str = "daos_server";
/// How often an open is repeated while another thread closes the same pool.
const OPEN_REPEATS_MAX: u32 = 100_000;

/// Where a system is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Pools in a directory, in this process.
    Dir(PathBuf),
    /// A daemon of this node.
    Socket(PathBuf),
    /// Engines on other nodes, as they were written.
    Hosts(String),
    /// A system that the node's daemon knows by name.
    Named(String),
}

/// A pool as it is found by a name.
pub(crate) struct Reached {
    pub(crate) transport: Arc<dyn Transport>,
    /// The same, if it goes to a daemon.
    remote: Option<Arc<Remote>>,
    alone: Option<Arc<Alone>>,
    pub(crate) uuid: Uuid,
    pub(crate) label: Option<String>,
}

/// A connection to a pool.
pub(crate) struct PoolHandle {
    pub(crate) client: Pool,
    remote: Option<Arc<Remote>>,
    /// Of a directory that nobody else may open.
    _alone: Option<Arc<Alone>>,
    pub(crate) uuid: Uuid,
    pub(crate) label: Option<String>,
    pub(crate) place: Place,
    /// Whether anything may be changed through it.
    pub(crate) writable: bool,
    /// What it was connected with.
    pub(crate) flags: u32,
    /// What processes know that share a connection which has the pool alone; 0 for any other.
    pub(crate) word: u64,
    /// Containers open through it.
    pub(crate) conts: AtomicUsize,
    /// Where parts of operations of several requests complete, once there was one.
    steps: OnceLock<EventQueue>,
    /// Tells it from every other connection of this process.
    pub(crate) number: usize,
}

impl PoolHandle {
    /// User and group of this process's certificate, as which the engines know it over a network; `None` for who has none, or an
    /// administrator's.
    pub(crate) fn certified_user(&self) -> Option<(String, String)> {
        let identity = self.remote.as_ref()?.link().own_identity().ok().flatten()?;
        let group = identity.groups.first().unwrap_or(&identity.name).clone();
        (identity.role == Role::User).then_some((identity.name, group))
    }
}

// Guards: the pools that are open here, by directory; taken alone, also while one is opened, so that only one thread does. A
// forked child has none of its parent's.
static OPEN: PerProcess<Mutex<BTreeMap<PathBuf, OpenDir>>> = PerProcess::new(Mutex::default);

/// An open directory, and who has it alone.
struct OpenDir {
    pool: Weak<LocalPool>,
    alone: Weak<Alone>,
}

/// Held by whoever has a directory alone; what those know who share it.
pub(crate) struct Alone(u64);

/// The system that a name means.
///
/// # Errors
/// `INVAL` for a name that is none; `BADPATH` for a file of settings that cannot be read as one.
pub(crate) fn system(name: Option<&str>) -> Result<Place> {
    match name {
        Some(name) if !name.is_empty() && name != DEFAULT_SYSTEM => parse(name),
        _ => default_system(),
    }
}

fn default_system() -> Result<Place> {
    match dolmen_env::named_system().map_err(|error| {
        dolmen_env::say(&format!("dolmen: {error}"));
        Der::BADPATH
    })? {
        Some(name) => parse(&name).inspect_err(|_wrong| {
            dolmen_env::say(&format!(
                "dolmen: {name:?} is no system: it has a name, or is unix:SOCKET, tcp://HOST:PORT or file:DIR"
            ));
        }),
        None => Ok(Place::Named(reach::OWN_SYSTEM.to_owned())),
    }
}

fn parse(name: &str) -> Result<Place> {
    if let Some(dir) = name.strip_prefix("file:") {
        return if dir.is_empty() { Err(Der::INVAL) } else { Ok(Place::Dir(PathBuf::from(dir))) };
    }
    if let Some(path) = name.strip_prefix("unix:") {
        return if path.is_empty() { Err(Der::INVAL) } else { Ok(Place::Socket(PathBuf::from(path))) };
    }
    if name.starts_with("tcp://") {
        return Ok(Place::Hosts(name.to_owned()));
    }
    let known = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if name.is_empty() || !name.bytes().all(known) {
        return Err(Der::INVAL);
    }
    Ok(Place::Named(name.to_owned()))
}

/// The text that [`system`] reads as this place.
pub(crate) fn text(place: &Place) -> String {
    match place {
        Place::Dir(path) => format!("file:{}", path.display()),
        Place::Socket(path) => format!("unix:{}", path.display()),
        Place::Hosts(hosts) => hosts.clone(),
        Place::Named(name) => name.clone(),
    }
}

/// Reaches the pool that a label or UUID means.
///
/// # Errors
/// `NONEXIST` if there is none; `BUSY` if another process owns its directory; `UNREACH` if the system's daemon cannot be
/// reached, or started.
async fn transport(way: Way, place: &Place, pool: &str, access: PoolAccess, head: &Head) -> Result<Reached> {
    match place {
        Place::Dir(system) => {
            let all = pools_in(system)?;
            let found = dolmen_local::named(&all, pool);
            let entry = *found.first().ok_or_else(|| missing(place, pool))?;
            let dir = system.join(&entry.name);
            let label = entry.label.as_ref().map(|label| label.as_str().to_owned());
            let word = (access == PoolAccess::Exclusive).then_some(head.id.sequence);
            let (transport, alone) = open(&dir, word)?;
            Ok(Reached { transport, remote: None, alone, uuid: entry.uuid, label })
        }
        Place::Socket(_) | Place::Hosts(_) | Place::Named(_) => {
            let name = reach::pool_name(pool)?;
            let link = link(way, place).await?;
            let remote = match Remote::open_by(way, &link, head, name, access).await {
                Err(dolmen_types::Error::NotFound) => return Err(missing(place, pool)),
                other => other?,
            };
            let (uuid, label) = (remote.map().pool, remote.label().map(|label| label.as_str().to_owned()));
            let remote = Arc::new(remote);
            let transport = Arc::<Remote>::clone(&remote);
            Ok(Reached { transport, remote: Some(remote), alone: None, uuid, label })
        }
    }
}

/// The connection of this process to a system's daemon.
async fn link(way: Way, place: &Place) -> Result<Link> {
    let options =
        LinkOptions { note: |said| dolmen_env::say(&format!("dolmen: {said}")), ..LinkOptions::default() };
    let made = match place {
        Place::Dir(_) => unreachable!("a directory is opened in this process"),
        Place::Socket(path) => reach::system_by(way, &[Address::Unix(path.clone())], &options).await,
        Place::Hosts(hosts) => {
            let found = reach::addresses(hosts).map_err(|_no_host| Der::BADPATH)?;
            reach::system_by(way, &found.ok_or(Der::BADPATH)?, &options).await
        }
        Place::Named(name) => {
            let program = dolmen_env::dolmen_program();
            reach::of_name_by(way, name, &program, &options, Begin::Own).await
        }
    };
    made.map_err(|error| {
        dolmen_env::say(&format!("dolmen: system {}: {error}", text(place)));
        match error {
            dolmen_net::Error::NoCertificate(_) => Der::NO_CERT,
            dolmen_net::Error::BadCertificate { .. } => Der::BAD_CERT,
            _ => Der::UNREACH,
        }
    })
}

/// What the requests of this process say of it.
///
/// # Errors
/// `BADPATH` for settings that cannot be read, or name no tenant.
fn own_head() -> Result<Head> {
    let cred = own_credentials();
    let account = dolmen_env::account(cred.uid).map_err(|error| {
        dolmen_env::say(&format!("dolmen: {error}"));
        Der::BADPATH
    })?;
    Ok(Head { cred, job: account.job, tenant: account.tenant, ..Head::default() })
}

/// The pools of a system: UUID and label.
///
/// # Errors
/// As [`transport`].
pub(crate) async fn pools(way: Way, place: &Place) -> Result<Vec<(Uuid, Option<String>)>> {
    match place {
        Place::Dir(system) => {
            let named = |entry: PoolEntry| (entry.uuid, entry.label.map(|label| label.as_str().to_owned()));
            Ok(pools_in(system)?.into_iter().map(named).collect())
        }
        Place::Socket(_) | Place::Hosts(_) | Place::Named(_) => {
            let named = |entry: dolmen_codec::wire::PoolEntry| {
                (entry.uuid, entry.label.map(|label| label.as_str().to_owned()))
            };
            let link = link(way, place).await?;
            Ok(reach::pools_by(way, &link, &own_head()?).await?.into_iter().map(named).collect())
        }
    }
}

/// What a system says of itself; a directory says nothing.
///
/// # Errors
/// As `transport`.
pub(crate) fn described(place: &Place) -> Result<Option<SystemInfo>> {
    if matches!(place, Place::Dir(_)) {
        return Ok(None);
    }
    match now(link(Way::Now, place))?.ask_system(&own_head()?, &SystemVerb::Query)? {
        SystemReply::System(info) => Ok(Some(info)),
        _ => Err(Der::PROTO),
    }
}

fn pools_in(system: &Path) -> Result<Vec<PoolEntry>> {
    dolmen_local::list(system).map_err(|error| {
        dolmen_env::say(&format!("dolmen: system file:{}: {error}", system.display()));
        Der::NONEXIST
    })
}

/// Says in which system a pool was looked for: whoever asks often means another.
fn missing(place: &Place, pool: &str) -> Der {
    dolmen_env::say(&format!("dolmen: system {}: there is no pool {pool:?}", text(place)));
    Der::NONEXIST
}

/// A pool of a directory, and what is held by whoever has it alone.
type OpenedDir = (Arc<dyn Transport>, Option<Arc<Alone>>);

/// Opens a directory, alone if there is a word for that.
fn open(dir: &Path, word: Option<u64>) -> Result<OpenedDir> {
    let dir = std::fs::canonicalize(dir).map_err(|_gone| Der::NONEXIST)?;
    let mut all = OPEN.get().lock().unwrap_or_else(PoisonError::into_inner);
    let known = all.get(&dir).and_then(|known| Some((known.pool.upgrade()?, known.alone.upgrade())));
    let pool = match known {
        Some((pool, Some(alone))) if word == Some(alone.0) => return Ok((pool, Some(alone))),
        Some((_, Some(_))) => return Err(Der::BUSY),
        Some(_) if word.is_some() => return Err(Der::BUSY),
        Some((pool, None)) => pool,
        None => Arc::new(open_fresh(&dir)?),
    };
    let alone = word.map(|word| Arc::new(Alone(word)));
    let mark = alone.as_ref().map_or_else(Weak::new, Arc::downgrade);
    all.insert(dir, OpenDir { pool: Arc::downgrade(&pool), alone: mark });
    Ok((pool, alone))
}

/// Opens a pool, after whoever gives up the last handle of this process on it.
fn open_fresh(dir: &Path) -> Result<LocalPool> {
    let mut repeats = 0;
    loop {
        match dolmen_local::open(dir, &OpenOptions::default()) {
            Ok(pool) => return Ok(pool),
            Err(error) if error.owner_pid() == Some(std::process::id()) && repeats < OPEN_REPEATS_MAX => {
                repeats += 1;
                dolmen_env::yield_now();
            }
            Err(error) => {
                dolmen_env::say(&format!("dolmen: {}: {error}", dir.display()));
                return Err(if error.owner_pid().is_some() { Der::BUSY } else { Der::IO });
            }
        }
    }
}

/// Connects to a pool.
///
/// # Errors
/// As [`transport`]; those of the pool.
pub(crate) fn connect(place: Place, pool: &str, flags: u32, writable: bool) -> Result<PoolHandle> {
    now(connect_by(Way::Now, place, pool, flags, writable))
}

/// As [`connect`], on a way of the caller's. Who connects alone draws a word by which other processes can share that.
///
/// # Errors
/// As [`connect`].
pub(crate) async fn connect_by(
    way: Way,
    place: Place,
    pool: &str,
    flags: u32,
    writable: bool,
) -> Result<PoolHandle> {
    let word = match flags {
        // Drawn twice the same it would be another user's at worst, whom it does not let in.
        CONNECT_EX => dolmen_env::entropy_u64().map_err(|_no_entropy| Der::IO)?.max(1),
        _ => 0,
    };
    share_by(way, place, pool, (flags, word), writable).await
}

/// As [`connect_by`], with the word of a connection that has the pool alone, as other processes and children share it.
///
/// # Errors
/// As [`connect`].
pub(crate) async fn share_by(
    way: Way,
    place: Place,
    pool: &str,
    (flags, word): (u32, u64),
    writable: bool,
) -> Result<PoolHandle> {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let access = match flags {
        CONNECT_EX => PoolAccess::Exclusive,
        CONNECT_RW => PoolAccess::Change,
        // Containers are opened for writing through it, as dfuse does; what is of the pool is not changed by it.
        _ => PoolAccess::ReadWrite,
    };
    let mut head = own_head()?;
    head.id.sequence = word;
    let reached = transport(way, &place, pool, access, &head).await?;
    let Reached { transport, remote, alone, uuid, label } = reached;
    let client = Pool::connect_by(way, transport, Options::like(&head)?).await?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let conts = AtomicUsize::new(0);
    let (steps, _alone) = (OnceLock::new(), alone);
    Ok(PoolHandle { client, remote, _alone, uuid, label, place, writable, flags, word, conts, steps, number })
}

impl PoolHandle {
    /// The queue on which parts of operations of several requests complete.
    ///
    /// # Errors
    /// `BUSY` if the pool has no queue left.
    pub(crate) fn steps(&self) -> Result<&EventQueue> {
        if self.steps.get().is_none() {
            let made = EventQueue::new(&self.client)?;
            return Ok(self.steps.get_or_init(|| made));
        }
        Ok(self.steps.get().expect("looked at above"))
    }

    /// How often its engine was heard.
    pub(crate) fn heard(&self) -> u64 {
        self.remote.as_ref().map_or(0, |remote| remote.link().heard())
    }

    /// Takes its engine for silent if it was not heard since.
    pub(crate) fn note_silence(&self, heard: u64) {
        if let Some(remote) = &self.remote {
            remote.link().note_silence_since(heard);
        }
    }

    /// Gives the connection up, on a way of the caller's, if nobody else has it. An object that is open, or an operation under
    /// way, keeps it; the last of them gives it up.
    pub(crate) async fn leave(self: Arc<Self>, way: Way) {
        let Some(Self { client, remote, steps, .. }) = Arc::into_inner(self) else { return };
        drop((steps, client));
        if let Some(remote) = remote.filter(|remote| Arc::strong_count(remote) == 1) {
            remote.leave(way).await;
        }
    }
}

/// A connection of this process like one of the process that it was forked off. A directory stays the parent's.
pub(crate) fn reconnect(old: &PoolHandle) -> Option<PoolHandle> {
    if matches!(old.place, Place::Dir(_)) {
        return None;
    }
    let (pool, shared) = (old.uuid.to_string(), (old.flags, old.word));
    now(share_by(Way::Now, old.place.clone(), &pool, shared, old.writable)).ok()
}

fn own_credentials() -> Credentials {
    // SAFETY: it always succeeds and touches no memory.
    let uid = unsafe { libc::geteuid() };
    // SAFETY: as above.
    let gid = unsafe { libc::getegid() };
    Credentials { uid, gid, project: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_named_as_the_documents_say() {
        assert_eq!(parse("file:/a b"), Ok(Place::Dir(PathBuf::from("/a b"))));
        assert_eq!(parse("unix:/s"), Ok(Place::Socket(PathBuf::from("/s"))));
        assert_eq!(parse("tcp://a,b"), Ok(Place::Hosts("tcp://a,b".to_owned())));
        assert_eq!(parse("lab"), Ok(Place::Named("lab".to_owned())));
        for bad in ["", "file:", "unix:", "a b", "http://x"] {
            assert_eq!(parse(bad), Err(Der::INVAL), "{bad}");
        }
    }
}
