//! From what the user names to open pools, containers and snapshots.

use crate::failure::{Doing, Exit, Failure, Outcome, of_open};
use crate::interrupt;
use crate::path::{shown_outside, word};
use crate::patience::Patient;
use crate::reached;
use clap::Args;
use core::time::Duration;
use dolmen_client::{Container, Options, Pool, Snapshot};
use dolmen_codec::pool::ContName;
use dolmen_codec::wire::{PoolAccess, PoolName, SystemReply, SystemVerb};
use dolmen_dfs::{Dfs, MountOptions};
use dolmen_env::{Address, Clock, DirLock, RealClock};
use dolmen_local::{LocalPool, OpenOptions, PoolEntry, Upkeep};
use dolmen_net::client::{Link, LinkOptions, Remote, reach};
use dolmen_types::{Credentials, Epoch, Head, Label, PropId, PropValue, Uuid};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A pool on the command line.
#[derive(Args, Clone, Debug)]
pub(crate) struct PoolArg {
    /// Pool: its directory, LABEL, or SYSTEM/LABEL; or of a daemon unix:SOCKET/LABEL or tcp://HOST:PORT/LABEL
    #[arg(value_name = "POOL", value_hint = clap::ValueHint::DirPath)]
    pub(crate) pool: PathBuf,
    /// Resident memory for metadata, instead of the pool's own budget
    #[arg(long, value_name = "SIZE", value_parser = memory())]
    pub(crate) memory: Option<u64>,
    /// Wait so long for another process that uses the pool, instead of failing at once
    #[arg(long, value_name = "SECONDS", value_parser = wait())]
    pub(crate) wait: Option<u64>,
}

/// Why nothing of the user's is found, and has no place.
pub(crate) const NO_DATA_DIRECTORY: &str = "neither XDG_DATA_HOME nor HOME is set to a whole path";

/// A week.
const WAIT_SECONDS_MAX: u64 = 7 * 86_400;

/// How long to rest before a pool in use is tried again.
const REST: Duration = Duration::from_millis(20);

impl PoolArg {
    /// A pool that nobody else uses yet.
    pub(crate) fn new(pool: PathBuf) -> Self {
        Self { pool, memory: None, wait: None }
    }

    /// Does what needs the pool for itself, again until no other process has it or the time to wait is over; `failed` says
    /// why it could not be done.
    pub(crate) fn when_free<T>(
        &self,
        mut attempt: impl FnMut() -> dolmen_local::Result<T>,
        failed: impl FnOnce(dolmen_local::Error) -> Failure,
    ) -> Outcome<T> {
        let end_ns = RealClock.monotonic_ns() + self.wait.unwrap_or(0) * 1_000_000_000;
        loop {
            let tried = attempt();
            let is_used = tried.as_ref().is_err_and(|error| error.owner_pid().is_some());
            if !is_used || RealClock.monotonic_ns() >= end_ns {
                return tried.map_err(failed);
            }
            if interrupt::is_asked() {
                return Err(interrupt::failure());
            }
            std::thread::park_timeout(REST);
        }
    }
}

/// For how many seconds a pool may be waited for.
pub(crate) fn wait() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    crate::size::count(0, WAIT_SECONDS_MAX)
}

/// What a pool may be given as memory: from what one target needs to more than machines have.
pub(crate) fn memory() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    crate::size::between(4 << 20, 16 << 40)
}

/// A container on the command line.
#[derive(Args, Clone, Debug)]
pub(crate) struct ContArg {
    #[command(flatten)]
    pub(crate) pool: PoolArg,
    /// Container: its label or UUID
    #[arg(value_name = "CONT")]
    pub(crate) cont: String,
}

impl ContArg {
    /// Pool and container, as words of a command.
    pub(crate) fn words(&self) -> String {
        format!("{} {}", word(&self.pool.pool), word(Path::new(&self.cont)))
    }
}

/// An open pool and its client.
pub(crate) struct Session {
    pub(crate) pool: Pool,
    /// The pool itself, unless a daemon has it.
    local: Option<Arc<LocalPool>>,
    /// The way to the engines, of who has the pool for long.
    remote: Option<Arc<Remote>>,
    dir: PathBuf,
}

/// The directory behind `file:DIR` or `DIR`.
pub(crate) fn directory(named: &Path) -> PathBuf {
    match named.to_str().and_then(|text| text.strip_prefix("file:")) {
        Some(rest) => PathBuf::from(rest),
        None => named.to_owned(),
    }
}

/// The directory of the pool that is named by directory, or by system directory and label or UUID.
pub(crate) fn pool_directory(named: &Path) -> Outcome<PathBuf> {
    let dir = directory(named);
    if dir.exists() {
        return Ok(dir);
    }
    let (Some(system), Some(name)) = (dir.parent(), dir.file_name().and_then(|name| name.to_str())) else {
        return Ok(dir);
    };
    let system = if system.as_os_str().is_empty() { Path::new(".") } else { system };
    // A system that cannot be listed has no pool of this name: the name is then taken as a directory's.
    let Ok(entries) = dolmen_local::list(system) else { return Ok(dir) };
    let found: Vec<PathBuf> =
        dolmen_local::named(&entries, name).iter().map(|entry| system.join(&entry.name)).collect();
    match &found[..] {
        [] => Ok(dir),
        [only] => Ok(only.clone()),
        several => {
            let several: Vec<_> = several.iter().map(|dir| shown_outside(dir)).collect();
            let failure = Failure::new(Exit::Usage, format!("several pools have it: {}", several.join(", ")));
            Err(failure.hint("give the directory of one")).doing(|| format!("find pool {name}"))
        }
    }
}

/// Whether a directory holds what one engine has of a pool on several.
pub(crate) fn is_part(dir: &Path) -> bool {
    entry_of(dir).is_some_and(|(_, entry)| entry.spread.is_some())
}

/// The socket of the daemon that serves a pool's directory, as an address, and the pool's UUID; `None` if none does.
pub(crate) fn served_at(dir: &Path) -> Option<(Address, Uuid)> {
    let (system, entry) = entry_of(dir)?;
    let address = Address::Unix(reach::socket_in(&system).ok()?);
    dolmen_env::Socket::connect(&address, REST).ok()?;
    Some((address, entry.uuid))
}

/// Whether the daemon that serves a pool's directory is one engine of several.
pub(crate) fn is_of_several(dir: &Path) -> bool {
    let Some((address, _)) = served_at(dir) else { return false };
    let Ok(link) = reach::link(&address, &link_options(None)) else { return false };
    let asked = head().map(|head| link.ask_system(&head, &SystemVerb::Query));
    matches!(asked, Ok(Ok(SystemReply::System(info))) if info.ranks.len() > 1)
}

/// Refuses a pool of a daemon with another beside it that has its UUID: asked for one, the daemon could mean the other.
fn refuse_copy(dir: &Path) -> Outcome<()> {
    let Some((system, entry)) = entry_of(dir) else { return Ok(()) };
    let Ok(all) = dolmen_local::list(&system) else { return Ok(()) };
    let twin = all.iter().find(|other| other.uuid == entry.uuid && other.name != entry.name);
    let Some(twin) = twin else { return Ok(()) };
    let twin = shown_outside(&system.join(&twin.name));
    let why = format!(
        "it has the UUID of the pool in {twin}: one is a copy of the other, and a daemon serves both"
    );
    Err(Failure::new(Exit::Taken, why).hint("move the copy to a directory that no daemon serves"))
}

/// The system directory around a pool's directory, and the pool in it; `None` if there is none, or it cannot be looked at.
fn entry_of(dir: &Path) -> Option<(PathBuf, PoolEntry)> {
    let dir = dir.canonicalize().ok()?;
    let (system, name) = (dir.parent()?, dir.file_name()?);
    let entry = dolmen_local::list(system).ok()?.into_iter().find(|entry| entry.name == name)?;
    Some((system.to_owned(), entry))
}

/// Opens a pool for a command that does little.
pub(crate) fn open(arg: &PoolArg) -> Outcome<Session> {
    open_with(arg, Upkeep::Callers)
}

/// Opens a pool for a command that looks at its files, too: in this process, though a daemon could open it.
pub(crate) fn open_alone(arg: &PoolArg) -> Outcome<Session> {
    open_here(arg, &OpenOptions { memory_budget_bytes: arg.memory, ..OpenOptions::default() }, None)
}

/// Opens a pool for a command that only reads: nothing in its directory is changed.
pub(crate) fn open_to_read(arg: &PoolArg) -> Outcome<Session> {
    open_as(arg, OpenOptions { read_only: true, ..OpenOptions::default() })
}

/// A UUID that nobody else has.
pub(crate) fn random_uuid() -> Outcome<dolmen_types::Uuid> {
    let mut rng = dolmen_env::Rng::from_entropy().doing(|| "draw a random number".to_owned())?;
    Ok(dolmen_types::uuid_of_random(rng.next_u128()))
}

/// Opens a pool for a command that lasts: an engine that does not answer is waited for by each operation, for `patience`.
pub(crate) fn open_to_last(arg: &PoolArg, read_only: bool, patience: Duration) -> Outcome<Session> {
    let options = OpenOptions { read_only, upkeep: Upkeep::Thread, ..OpenOptions::default() };
    open_in(arg, options, Some(patience))
}

/// Opens a pool; `Upkeep::Thread` for commands that write much.
pub(crate) fn open_with(arg: &PoolArg, upkeep: Upkeep) -> Outcome<Session> {
    open_as(arg, OpenOptions { upkeep, ..OpenOptions::default() })
}

fn open_as(arg: &PoolArg, options: OpenOptions) -> Outcome<Session> {
    open_in(arg, options, None)
}

/// Refuses an object store in place of a pool.
pub(crate) fn refuse_bucket(named: &Path) -> Outcome<()> {
    let Some(address) = dolmen_remote::address(named) else { return Ok(()) };
    let failure =
        Failure::new(Exit::Usage, format!("{address} is an object store, and no pool can be there"));
    Err(failure.hint(
        "`dolmen ntuple` keeps ntuples in a bucket as it is: write s3://BUCKET PREFIX in place of POOL CONT",
    ))
}

fn open_in(arg: &PoolArg, options: OpenOptions, lasts: Option<Duration>) -> Outcome<Session> {
    refuse_bucket(&arg.pool)?;
    if let Some(system) = Served::of_address(&arg.pool, lasts)? {
        let opened = system.open(arg.pool.clone(), options.read_only);
        return opened.doing(|| format!("open pool {}", shown_outside(&arg.pool)));
    }
    let dir = pool_directory(&arg.pool)?;
    let options = OpenOptions { memory_budget_bytes: arg.memory, ..options };
    // A daemon opens a pool when somebody asks for it: who has the pool would keep it from all others. What memory this
    // process may use is said only of a pool that it opens itself.
    if let Some(system) = Served::around(&dir, lasts).filter(|_| lasts.is_some() || arg.memory.is_none()) {
        refuse_copy(&dir).doing(|| format!("open pool {}", shown_outside(&dir)))?;
        match system.open(dir.clone(), options.read_only) {
            // The files say more of what the daemon cannot open, or does not know.
            Err(failure) if lasts.is_none() && matches!(failure.exit, Exit::Missing | Exit::Damaged) => {}
            opened => return opened.doing(|| format!("open pool {}", shown_outside(&dir))),
        }
    }
    open_here(arg, &options, lasts)
}

/// Refuses the directory of a system in place of a pool's, also where a daemon has it.
fn refuse_system(dir: &Path) -> Outcome<()> {
    let is_system = !dolmen_local::is_pool(dir) && dir.join(reach::SOCKET_NAME).symlink_metadata().is_ok();
    let fault = dolmen_local::RecordFault::Missing;
    if is_system { Err(dolmen_local::Error::Record { dir: dir.to_owned(), fault }.into()) } else { Ok(()) }
}

/// Opens a pool in this process, unless it is another's already.
fn open_here(arg: &PoolArg, options: &OpenOptions, lasts: Option<Duration>) -> Outcome<Session> {
    refuse_bucket(&arg.pool)?;
    let dir = pool_directory(&arg.pool)?;
    let doing = || format!("open pool {}", shown_outside(&dir));
    refuse_system(&dir).doing(doing)?;
    let failed = |error| of_open(&dir, options.read_only, error).by_file_in(&dir);
    let opened = match dolmen_local::open(&dir, options) {
        Err(error) if error.owner_pid().is_some() || matches!(error, dolmen_local::Error::Spread { .. }) => {
            if let Some(system) = Served::around(&dir, lasts) {
                return system.open(dir.clone(), options.read_only).doing(doing);
            }
            arg.when_free(|| dolmen_local::open(&dir, options), failed)
        }
        Err(error) => {
            let failure = failed(error);
            // Whoever may not look into the directory may still be served, and so may who knows no more than a label.
            let may_be_served =
                failure.exit == Exit::Refused || failure.exit == Exit::Missing && !dir.exists();
            let is_new_name = failure.exit == Exit::Missing && !dir.exists();
            let failure = if is_new_name { looked_for(failure, &dir) } else { failure };
            match Served::around(&dir, lasts).filter(|_| may_be_served) {
                Some(system) => match system.open(dir.clone(), options.read_only) {
                    Err(other) if other.exit == Exit::Missing => Err(failure),
                    opened => return opened.doing(doing),
                },
                None => Err(by_label(failure, &dir)),
            }
        }
        Ok(opened) => Ok(opened),
    };
    let local = Arc::new(opened.doing(doing)?);
    let options = Options::like(&head()?).doing(doing)?;
    let pool = Pool::connect_with(Arc::clone(&local) as _, options).doing(doing)?;
    Ok(Session { pool, local: Some(local), remote: None, dir })
}

/// Why a pool's directory is closed to this user; if a daemon serves it, with how he gets there all the same: which of the
/// daemon's pools it is can be seen by nobody who may not look into it.
fn by_label(failure: Failure, dir: &Path) -> Failure {
    let system = dir.parent().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
    let Some(socket) =
        system.filter(|_| failure.exit == Exit::Refused).map(|above| above.join(reach::SOCKET_NAME))
    else {
        return failure;
    };
    if dolmen_env::Socket::connect(&Address::Unix(socket.clone()), REST).is_err() {
        return failure;
    }
    failure.hint(format!(
        "a daemon serves it, and by its label, which `dmg pool list` of its administrator tells, it lets in whom lists let in: \
         `unix:{}/LABEL`",
        shown_outside(&socket)
    ))
}

/// The same failure, with where a pool was looked for that is not a directory, and what lists those that are there.
fn looked_for(failure: Failure, dir: &Path) -> Failure {
    let (Some(system), Some(name)) = (dir.parent(), dir.file_name()) else { return failure };
    let system = if system.as_os_str().is_empty() { Path::new(".") } else { system };
    if system.exists() && !system.is_dir() {
        return failure;
    }
    if !system.is_dir() {
        let system = shown_outside(system);
        return failure.hint(format!(
            "there is no directory {system}: name a pool in one that holds some, which `dolmen pool list` shows"
        ));
    }
    let list = format!("see `dolmen pool list {}`", word(system));
    let (name, system) = (shown_outside(Path::new(name)), shown_outside(system));
    failure.adding(&format!(", and no pool in {system} has the label or UUID {name}")).hint(list)
}

/// A pool behind a daemon.
struct Served {
    link: Link,
    name: PoolName,
    /// Each operation waits for a silent engine, not only the first.
    lasts: bool,
}

pub(crate) fn link_options(lasts: Option<Duration>) -> LinkOptions {
    let usual = LinkOptions::default();
    let note = |said: &str| dolmen_env::say(&format!("dolmen: {said}"));
    // Who has a pool for long tells others of what he reads there.
    LinkOptions { patience: lasts.unwrap_or(usual.patience), watches: lasts.is_some(), note, ..usual }
}

impl Served {
    /// The pool of an address such as `unix:SOCKET/NAME`; `None` if that is no such address.
    fn of_address(named: &Path, lasts: Option<Duration>) -> Outcome<Option<Self>> {
        let Some(text) = named.to_str() else { return Ok(None) };
        let doing = || format!("reach {text}");
        let is_socket = |path: &Path| path.metadata().is_ok_and(|found| found.file_type().is_socket());
        if text.strip_prefix("unix:").is_some_and(|path| is_socket(Path::new(path))) {
            let failure = Failure::new(Exit::Usage, "that is the daemon's socket, and names no pool");
            return Err(failure.hint(format!("write {text}/POOL"))).doing(doing);
        }
        let Some((system, pool)) = text.rsplit_once('/') else { return Ok(None) };
        let Some(addresses) = addresses(system).doing(doing)? else { return Ok(None) };
        let name = reach::pool_name(pool).doing(doing)?;
        reached::note(&addresses);
        let link = reach::system(&addresses, &link_options(lasts))
            .map_err(|error| unreachable_at(&error, &addresses));
        Ok(Some(Self { link: link.doing(doing)?, name, lasts: lasts.is_some() }))
    }

    /// The pool in `dir`, if a daemon serves the directory above it.
    fn around(dir: &Path, lasts: Option<Duration>) -> Option<Self> {
        // Before all pools there are looked at.
        let whole = dir.canonicalize().or_else(|_missing| std::path::absolute(dir)).ok()?;
        whole.parent()?.join(reach::SOCKET_NAME).symlink_metadata().ok()?;
        let (system, name) = match entry_of(dir) {
            Some((system, entry)) => (system, PoolName::Uuid(entry.uuid)),
            // Nothing has this name here: it can only be a pool's.
            None if !dir.exists() => {
                let dir = std::path::absolute(dir).ok()?;
                (dir.parent()?.to_owned(), reach::pool_name(dir.file_name()?.to_str()?).ok()?)
            }
            None => return None,
        };
        let address = Address::Unix(reach::socket_in(&system).ok()?);
        let link = reach::system(core::slice::from_ref(&address), &link_options(lasts)).ok()?;
        reached::note(&[address]);
        Some(Self { link, name, lasts: lasts.is_some() })
    }

    fn open(self, dir: PathBuf, read_only: bool) -> Outcome<Session> {
        let access = if read_only { PoolAccess::ReadOnly } else { PoolAccess::ReadWrite };
        let head = head()?;
        let remote = reach::pool(&self.link, &head, self.name, access).map_err(|error| {
            let is_busy = error == dolmen_types::Error::Busy;
            let failure = of_served(Failure::from(error).by_file_in(&dir), &dir);
            if is_busy { of_busy(failure, &dir) } else { failure }
        })?;
        let options = Options::like(&head)?;
        if self.lasts {
            let remote = Arc::new(remote);
            let pool = Pool::connect_with(Arc::clone(&remote) as _, options)?;
            return Ok(Session { pool, local: None, remote: Some(remote), dir });
        }
        let pool = Pool::connect_with(Arc::new(Patient::new(remote, shown_outside(&dir))), options)?;
        Ok(Session { pool, local: None, remote: None, dir })
    }
}

/// Why a daemon cannot have a pool; if a process of this machine has it by itself, with which, and how it ends.
pub(crate) fn of_busy(failure: Failure, named: &Path) -> Failure {
    let by_address = named.to_str().and_then(|text| text.strip_prefix("unix:")?.rsplit_once('/'));
    let dir = match by_address {
        None => Some(named.to_owned()),
        Some((socket, pool)) => {
            Path::new(socket).parent().and_then(|system| pool_directory(&system.join(pool)).ok())
        }
    };
    let Some((dir, pid)) = dir.and_then(|dir| Some((dir.clone(), holder(&dir)?))) else {
        return failure.hint(WHEN_HELD);
    };
    let why = format!(
        "process {pid} uses {} without the daemon, which cannot open it meanwhile",
        shown_outside(&dir)
    );
    failure.because(why).hint(ends(pid))
}

/// What helps where it cannot be seen who has a pool.
const WHEN_HELD: &str = "run the command again; if it stays so, a program on the daemon's machine may use the pool without the \
                         daemon (a mount or a command that began before it): the same command there, as the pool's owner, \
                         names it";

/// The process that has a pool's directory by itself, and not through the daemon that serves the directory above it.
pub(crate) fn holder(dir: &Path) -> Option<u32> {
    let daemon = dir.canonicalize().ok()?.parent().and_then(DirLock::owner);
    DirLock::owner(dir).filter(|pid| Some(*pid) != daemon)
}

/// What ends a process that has a pool by itself.
pub(crate) fn ends(pid: u32) -> String {
    match crate::mount::shown_by(pid) {
        Some(dir) => {
            let dir = word(&dir);
            format!(
                "it shows the files in {dir}: `dolmen unmount {dir}` ends it, and the daemon opens the pool then"
            )
        }
        None => format!("`ps -p {pid}` shows what it is: end it, or run the command again when it has ended"),
    }
}

/// The directory of the system around a pool's directory, as a user writes it; `None` if `dir` is none of a pool.
pub(crate) fn system_of_pool(dir: &Path) -> Option<PathBuf> {
    let named = dir.parent().filter(|_| dir.file_name().is_some() && !dir.is_symlink());
    let system = match named {
        Some(above) if above.as_os_str().is_empty() => PathBuf::from("."),
        Some(above) => above.to_owned(),
        None => dir.canonicalize().ok()?.parent()?.to_owned(),
    };
    dolmen_local::is_pool(dir).then_some(system)
}

/// Why a daemon does not open a pool; by an address, with what names those that it has.
fn of_served(failure: Failure, named: &Path) -> Failure {
    let name = named.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let system = named.parent().and_then(Path::to_str).filter(|text| matches!(addresses(text), Ok(Some(_))));
    match system {
        Some(system) if failure.exit == Exit::Missing => failure
            .because("the daemon there has no such pool")
            .hint(format!("see `dmg -G {} pool list`", word(Path::new(system)))),
        None if failure.exit == Exit::Missing && !named.exists() => {
            let list = match named.parent().filter(|system| !system.as_os_str().is_empty()) {
                Some(system) => format!("dolmen pool list {}", word(system)),
                None => "dolmen pool list".to_owned(),
            };
            let why = format!("it does not exist, and the daemon there has no pool {name}");
            failure.because(why).hint(format!("see `{list}`"))
        }
        _ => crate::compat::refused(failure, &name, None),
    }
}

/// An answer of another kind than the question's.
pub(crate) fn protocol() -> Failure {
    Failure::new(Exit::Other, "the daemon speaks another protocol").hint("use programs of the same release")
}

/// The addresses of a system's engines that `text` lists; `None` if it is none.
pub(crate) fn addresses(text: &str) -> Outcome<Option<Vec<Address>>> {
    let has_port = |host: &str| host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    reach::addresses(text).map_err(|_no_host| {
        let all = text.strip_prefix("tcp://").unwrap_or(text);
        if all.split(',').all(|host| has_port(host.trim_start_matches("tcp://"))) {
            Failure::new(Exit::Missing, "there is no such host").hint("see `getent hosts HOST`")
        } else {
            Failure::new(Exit::Usage, "an address has no port").hint("give it as HOST:PORT")
        }
    })
}

/// Why no daemon can be reached at one of these; one that stands still is told as that.
pub(crate) fn unreachable_at(error: &dolmen_net::Error, addresses: &[Address]) -> Failure {
    match addresses.iter().find_map(reached::stopped) {
        Some((why, remedy)) => Failure::new(Exit::Nobody, why).hint(remedy),
        None => unreachable(error),
    }
}

/// Whether a directory is the one that the user's settings name for certificates, and is not there.
fn is_users(dir: &Path) -> bool {
    !dir.exists() && dolmen_env::certs_directory().is_ok_and(|named| named.as_deref() == Some(dir))
}

/// Why a daemon cannot be reached.
pub(crate) fn unreachable(error: &dolmen_net::Error) -> Failure {
    match error {
        dolmen_net::Error::NoCertificate(dolmen_net::Lack::Directory { path, .. }) if is_users(path) => {
            let why = format!("there is no directory {} with certificates", shown_outside(path));
            let failure = Failure::new(Exit::Missing, why);
            return failure.hint("correct DOLMEN_CERTS, or certs in dolmen/client.toml, which names it");
        }
        dolmen_net::Error::Env(error @ dolmen_env::Error::Setting { .. }) => return error.clone().into(),
        dolmen_net::Error::NoCertificate(_) => return Failure::of_certificate(-2043, error),
        dolmen_net::Error::BadCertificate { .. } => return Failure::of_certificate(-2044, error),
        _ => {}
    }
    let failure = Failure::new(Exit::Nobody, format!("{error}"));
    match error {
        dolmen_net::Error::Nobody { .. }
        | dolmen_net::Error::MachineNobody { .. }
        | dolmen_net::Error::Unknown { .. } => failure,
        dolmen_net::Error::Env(dolmen_env::Error::NotFound { name }) if name == dolmen_env::NO_HOME => {
            Failure::new(Exit::Missing, NO_DATA_DIRECTORY)
                .hint("set one, or name the system by its address (-G, DOLMEN_SYSTEM)")
        }
        dolmen_net::Error::Env(
            error @ dolmen_env::Error::Io { op: dolmen_env::Op::Create | dolmen_env::Op::Write, .. },
        ) => Failure::from(error.clone()),
        dolmen_net::Error::Env(dolmen_env::Error::Io { errno: dolmen_env::Errno::ACCESS, .. }) => {
            let why = format!("this user may not use the daemon's socket: {error}");
            Failure::new(Exit::Refused, why).hint(
                "ask who runs the daemon: the modes of the socket and of the directories above it decide",
            )
        }
        _ => failure.hint("see that `dolmen serve` runs there"),
    }
}

/// Who runs this program.
pub(crate) fn credentials() -> Credentials {
    Credentials {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        project: 0,
    }
}

/// What requests of this program say of it.
pub(crate) fn head() -> Outcome<Head> {
    let cred = credentials();
    let account = dolmen_env::account(cred.uid).doing(|| "say for whom this is".to_owned())?;
    Ok(Head { cred, job: account.job, tenant: account.tenant, ..Head::default() })
}

impl Session {
    /// The pool's directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The pool itself.
    ///
    /// # Errors
    /// If a daemon has it.
    pub(crate) fn own(&self) -> Outcome<&LocalPool> {
        self.local.as_deref().ok_or_else(|| {
            let pool = shown_outside(&self.dir);
            let stop = match self.dir.parent() {
                None => "dolmen stop".to_owned(),
                Some(system) if system.as_os_str().is_empty() => "dolmen stop .".to_owned(),
                Some(system) => format!("dolmen stop {}", word(system)),
            };
            Failure::new(Exit::InUse, format!("a daemon has the pool {pool}"))
                .hint(format!("end it with `{stop}` first"))
        })
    }

    /// The pool itself, unless a daemon has it.
    pub(crate) fn local(&self) -> Option<&LocalPool> {
        self.local.as_deref()
    }

    /// The way to the engines, if a daemon has the pool and this is for long.
    pub(crate) fn remote(&self) -> Option<&Arc<Remote>> {
        self.remote.as_ref()
    }

    /// Mounts the file system of a container, which others may change as well if a daemon has the pool.
    pub(crate) fn files(&self, cont: &Container, name: &str, read_only: bool) -> Outcome<Dfs> {
        mounted(cont, name, &self.mount_options(read_only))
    }

    /// How file systems of this pool are mounted.
    pub(crate) fn mount_options(&self, read_only: bool) -> MountOptions {
        let Credentials { uid, gid, .. } = credentials();
        let shared = self.local.is_none();
        // Mounts that wait for the next daemon still have open what they had.
        let dir = self.dir.canonicalize().ok();
        let spares_orphans =
            !shared && dir.as_deref().and_then(Path::parent).is_some_and(dolmen_daemon::may_have_locks);
        MountOptions { uid, gid, read_only, shared, spares_orphans, ..MountOptions::default() }
    }

    /// Opens a container by label or UUID.
    pub(crate) fn container(&self, name: &str) -> Outcome<Container> {
        let doing = || format!("open container {name} in {}", shown_outside(&self.dir));
        match self.pool.open_container(&cont_name(name)?) {
            Err(dolmen_types::Error::NotFound | dolmen_types::Error::NoContainer) => {
                Err(no_container(&self.dir)).doing(doing)
            }
            Err(error) if self.local.is_none() => {
                let pool =
                    self.dir.file_name().map_or_else(String::new, |pool| pool.to_string_lossy().into_owned());
                Err(crate::compat::refused(error.into(), &pool, Some(name))).doing(doing)
            }
            other => other.doing(doing),
        }
    }

    /// Closes the pool; an error here means that the last checkpoint could not be written.
    pub(crate) fn close(self) -> Outcome<()> {
        let Self { pool, local, remote, dir } = self;
        drop(remote);
        drop(pool);
        match local.and_then(Arc::into_inner) {
            Some(local) => local.close().doing(|| format!("close pool {}", shown_outside(&dir))),
            None => Ok(()),
        }
    }
}

/// Why a container of a pool cannot be used that is not there.
pub(crate) fn no_container(pool: &Path) -> Failure {
    let hint = format!("see `dolmen cont list {}`", word(pool));
    Failure::new(Exit::Missing, "there is none of this name").hint(hint)
}

/// A container's name: a UUID if it reads as one.
pub(crate) fn cont_name(name: &str) -> Outcome<ContName> {
    match Uuid::try_parse(name) {
        Ok(uuid) => Ok(ContName::Uuid(uuid)),
        Err(_no_uuid) => Ok(ContName::Label(label(name)?)),
    }
}

/// A label for something new, or of something that has one.
pub(crate) fn label(text: &str) -> Outcome<Label> {
    let doing = || format!("use {text:?} as a label");
    if Uuid::try_parse(text).is_ok() {
        let failure = Failure::new(Exit::Usage, "it reads as a UUID");
        return Err(failure.hint("choose another label, or give a UUID with --uuid")).doing(doing);
    }
    Label::new(text).map_err(dolmen_types::Error::from).doing(doing)
}

/// Whether a container is for files.
pub(crate) fn has_files(cont: &Container) -> bool {
    cont.opened_props().get(&PropId::CO_LAYOUT_TYPE) == Some(&PropValue::Number(dolmen_dfs::LAYOUT_POSIX))
}

/// Whether `.snapshots` of a mount could show a snapshot of this name, if it is a container of files.
pub(crate) fn is_shown_in_mounts(cont: &Container, name: &str) -> bool {
    !has_files(cont) || dolmen_dfs::check_name(name.as_bytes()).is_ok()
}

/// A snapshot by name, or any epoch by number.
pub(crate) fn snapshot(cont: &Container, arg: &ContArg, name: &str) -> Outcome<Snapshot> {
    let doing = || format!("find snapshot {name}");
    let snapshots = cont.snapshots().doing(doing)?;
    let epoch = parse_epoch(name);
    let by_name = |snapshot: &&Snapshot| snapshot.name.as_deref() == Some(name);
    let by_epoch = |snapshot: &&Snapshot| Some(snapshot.epoch) == epoch;
    match snapshots.iter().find(by_name).or_else(|| snapshots.iter().find(by_epoch)) {
        Some(snapshot) => Ok(snapshot.clone()),
        None => {
            let failure = Failure::new(Exit::Missing, "there is none of this name or epoch");
            let hint = format!("see `dolmen cont snapshot list {}`", arg.words());
            Err(failure.hint(hint)).doing(doing)
        }
    }
}

/// The container as it is, or as it was at a snapshot.
pub(crate) fn view(cont: &Container, arg: &ContArg, named: Option<&str>) -> Outcome<Container> {
    match named {
        Some(name) => Ok(cont.at(snapshot(cont, arg, name)?.epoch)),
        None => Ok(cont.clone()),
    }
}

/// An epoch in hexadecimal with `0x`, or in decimal.
pub(crate) fn parse_epoch(text: &str) -> Option<Epoch> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    Some(Epoch(number))
}

/// Mounts the file system of a container in a pool that a daemon has.
pub(crate) fn mount(cont: &Container, name: &str, read_only: bool) -> Outcome<Dfs> {
    let Credentials { uid, gid, .. } = credentials();
    mounted(cont, name, &MountOptions { uid, gid, read_only, shared: true, ..MountOptions::default() })
}

fn mounted(cont: &Container, name: &str, options: &MountOptions) -> Outcome<Dfs> {
    Dfs::mount(cont, options).doing(|| format!("use container {name} as a file system"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_use_a_socket_is_not_told_that_nobody_is_there() {
        let (op, name) = (dolmen_env::Op::Connect, "unix:/x".to_owned());
        let of =
            |errno| unreachable(&dolmen_env::Error::Io { op, name: name.clone(), offset: 0, errno }.into());
        let refused = of(dolmen_env::Errno::ACCESS);
        assert_eq!(refused.exit, Exit::Refused);
        assert!(refused.to_string().contains("ask who runs the daemon"), "{refused}");
        assert_eq!(of(dolmen_env::Errno::CONNREFUSED).exit, Exit::Nobody);
    }

    #[test]
    fn epochs_are_read_as_they_are_printed() {
        let epoch = Epoch(0x1234_5678_9abc_def0);
        assert_eq!(parse_epoch(&epoch.to_string()), Some(epoch));
        assert_eq!(parse_epoch("17"), Some(Epoch(17)));
        assert_eq!(parse_epoch("daily"), None);
    }

    #[test]
    fn a_directory_may_be_given_as_an_address() {
        assert_eq!(directory(Path::new("file:/a/b")), Path::new("/a/b"));
        assert_eq!(directory(Path::new("/a/b")), Path::new("/a/b"));
    }
}
