//! From the name of a system to a connection, shared by all who ask for it in this process.
//!
//! A bare name is the user's own system of that name: a directory below the user's data, served by a daemon that is
//! started when nobody does, and ends by itself when nobody is connected any more. One that does not exist is begun by who makes
//! its first pool: whoever asks for a name that nobody knows has mistyped it.

use super::follow::Follower;
use super::session::deadline_after;
use super::starter::{self, REST, Starter};
use super::{Link, LinkOptions, Remote};
use crate::error::{Error, Result, Violation};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use dolmen_codec::wire::{
    FEATURE_NOT_FIRST, PoolAccess, PoolEntry, PoolName, RankInfo, SystemReply, SystemVerb,
};
use dolmen_codec::{Way, give_way, now};
use dolmen_env::{Address, Clock, DirLock, PerProcess, RealClock};
use dolmen_types::{Head, Label, Uuid};
use std::ffi::OsStr;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// Attempts to reach a daemon that others start or end at the same time.
const ATTEMPTS_MAX: u32 = 50;

/// The socket of a daemon in the directory that it serves.
pub const SOCKET_NAME: &str = "dolmen.sock";

/// The address that `text` is, `unix:SOCKET` or `tcp://HOST:PORT`; `None` if it is none.
///
/// # Errors
/// [`dolmen_env::Error::NotFound`] if there is no such host.
pub fn address(text: &str) -> Result<Option<Address>> {
    if let Some(socket) = text.strip_prefix("unix:") {
        return Ok(Some(Address::Unix(PathBuf::from(socket))));
    }
    let Some(host) = text.strip_prefix("tcp://") else { return Ok(None) };
    match host.to_socket_addrs().map(|mut found| found.next()) {
        Ok(Some(found)) => Ok(Some(Address::Tcp(found))),
        Ok(None) | Err(_) => Err(dolmen_env::Error::NotFound { name: host.to_owned() }.into()),
    }
}

/// The addresses that `text` lists, one engine or several of one system: `tcp://H1:P,H2:P`, `unix:S1,unix:S2`; `None` if it
/// is no address.
///
/// # Errors
/// As [`address`]; `NotFound` also for a part that is no address.
pub fn addresses(text: &str) -> Result<Option<Vec<Address>>> {
    let scheme = if text.starts_with("tcp://") { "tcp://" } else { "unix:" };
    let mut all = Vec::new();
    for (at, part) in text.split(',').enumerate() {
        let whole =
            if at == 0 || part.starts_with(scheme) { part.to_owned() } else { format!("{scheme}{part}") };
        match address(&whole)? {
            Some(found) => all.push(found),
            None if at == 0 => return Ok(None),
            None => return Err(dolmen_env::Error::NotFound { name: part.to_owned() }.into()),
        }
    }
    Ok(Some(all))
}

/// Whether a system can be called so: a word that clients can write wherever a system is named.
#[must_use]
pub fn is_system_name(text: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let len = 1..=dolmen_types::limits::LABEL_BYTES_MAX;
    len.contains(&text.len()) && !text.starts_with('.') && text.bytes().all(is_known)
}

/// The connection to the engine of a system where pools are made, found by way of the first of `addresses` that answers.
///
/// # Errors
/// Why none does; `Unreachable` if the engine that was asked leads to one that does not.
pub fn system(addresses: &[Address], options: &LinkOptions) -> Result<Link> {
    now(system_by(Way::Now, addresses, options))
}

/// As [`system`], on a way of the caller's.
///
/// # Errors
/// As [`system`].
pub async fn system_by(way: Way, addresses: &[Address], options: &LinkOptions) -> Result<Link> {
    home(way, any_by(way, addresses, options).await?).await
}

/// The connection to the first of `addresses` that answers, whatever engine of the system that is.
///
/// # Errors
/// Why the last does not.
pub fn any(addresses: &[Address], options: &LinkOptions) -> Result<Link> {
    now(any_by(Way::Now, addresses, options))
}

/// As [`any`], on a way of the caller's.
///
/// # Errors
/// As [`any`].
async fn any_by(way: Way, addresses: &[Address], options: &LinkOptions) -> Result<Link> {
    let mut failed = Error::Ended;
    for address in addresses {
        match link_by(way, address, options).await {
            Ok(link) => return Ok(link),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// From any engine of a system to the one where pools are made: the first of its list.
async fn home(way: Way, link: Link) -> Result<Link> {
    let features = link.welcome().map_or(0, |welcome| welcome.features);
    if features & FEATURE_NOT_FIRST == 0 {
        return Ok(link);
    }
    let asked = link.ask_system_by(way, &Head::default(), &SystemVerb::Query).await;
    let first = match asked.map_err(Error::Refused)? {
        SystemReply::System(info) => info.ranks.into_iter().next(),
        _ => None,
    };
    rank_by(way, &link, &first.ok_or(Error::Protocol(Violation::Answer))?).await
}

/// The connection to another engine of the system that `link` leads to, the same way if there is one.
///
/// # Errors
/// As [`engine`].
pub fn rank(link: &Link, info: &RankInfo) -> Result<Link> {
    now(rank_by(Way::Now, link, info))
}

/// As [`rank`], on a way of the caller's.
///
/// # Errors
/// As [`rank`].
pub async fn rank_by(way: Way, link: &Link, info: &RankInfo) -> Result<Link> {
    let (like, options) = link.way();
    engine_by(way, info, matches!(like, Address::Unix(_)), options).await
}

/// The connection to an engine, over a socket of this machine or the network, whichever is preferred and there.
///
/// # Errors
/// Why the last of its addresses that were tried does not answer; `NotFound` if it has none.
pub fn engine(info: &RankInfo, prefers_unix: bool, options: &LinkOptions) -> Result<Link> {
    now(engine_by(Way::Now, info, prefers_unix, options))
}

/// As [`engine`], on a way of the caller's.
///
/// # Errors
/// As [`engine`].
async fn engine_by(way: Way, info: &RankInfo, prefers_unix: bool, options: &LinkOptions) -> Result<Link> {
    // What cannot be read or found is of no use to this process; another way may be.
    let mut all: Vec<Address> =
        info.addresses.iter().filter_map(|text| address(text).ok().flatten()).collect();
    all.sort_by_key(|found| matches!(found, Address::Unix(_)) != prefers_unix);
    let mut failed = dolmen_env::Error::NotFound { name: format!("engine {}", info.rank) }.into();
    for address in &all {
        match link_by(way, address, options).await {
            Ok(link) if link.rank() == info.rank => return Ok(link),
            Ok(_) => failed = Error::Protocol(Violation::Answer),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// The connections of this process that are in use.
// Guards: the list of them; taken alone, also while one is made, so that each is made once. A child that is forked off
// meanwhile has a list of its own.
static LINKS: PerProcess<Mutex<Vec<Known>>> = PerProcess::new(Mutex::default);

/// A connection of this process, unless all have given it up.
struct Known {
    /// Where it was made to.
    address: Address,
    /// As whom.
    tag: String,
    link: super::link::Weak,
}

impl Known {
    fn new((address, tag): (&Address, &str), link: &Link) -> Self {
        Self { address: address.clone(), tag: tag.to_owned(), link: link.downgrade() }
    }

    /// The connection, if it leads there now: it may have followed its system to where that was moved.
    fn at(&self, (address, tag): (&Address, &str)) -> Option<Link> {
        let link = self.link.upgrade().filter(|_| self.tag == tag)?;
        (link.moved().as_ref().unwrap_or(&self.address) == address).then_some(link)
    }
}

/// The connection to the daemon at `address`, made if this process has none as this user: a daemon knows over a socket who has
/// made it, and a thread that acts for another user must not go by it.
///
/// # Errors
/// Why that cannot be.
pub fn link(address: &Address, options: &LinkOptions) -> Result<Link> {
    let tag = tag_of(address, options)?;
    let mut links = LINKS.get().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(link) = known(&mut links, (address, &tag)) {
        return Ok(link);
    }
    let link = Link::connect(address, options)?;
    links.push(Known::new((address, &tag), &link));
    Ok(link)
}

/// As [`link`], on a way of the caller's; of two that are made at the same time one is used.
///
/// # Errors
/// As [`link`].
pub async fn link_by(way: Way, address: &Address, options: &LinkOptions) -> Result<Link> {
    if way == Way::Now {
        return link(address, options);
    }
    let tag = tag_of(address, options)?;
    let there = (address, tag.as_str());
    // Another thread may have the list while it connects, for as long as that takes.
    let mut made = None;
    loop {
        let is_asked = try_links(|links| {
            let found = known(links, there);
            found.or_else(|| made.take().inspect(|made| links.push(Known::new(there, made)))).ok_or(())
        });
        match is_asked {
            Some(Ok(link)) => return Ok(link),
            Some(Err(())) => made = Some(Link::connect_by(way, address, options).await?),
            None => give_way().await,
        }
    }
}

/// Looks at the list of connections, unless another thread has it.
fn try_links<T>(look: impl FnOnce(&mut Vec<Known>) -> T) -> Option<T> {
    match LINKS.get().try_lock() {
        Ok(mut links) => Some(look(&mut links)),
        Err(TryLockError::Poisoned(links)) => Some(look(&mut links.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// As whom a connection to an address is made.
fn tag_of(address: &Address, options: &LinkOptions) -> Result<String> {
    Ok(match options.certs.certs(address)? {
        Some(certs) => certs.tag(),
        None => dolmen_env::user_id().to_string(),
    })
}

/// The connection that is in use and leads there.
fn known(links: &mut Vec<Known>, there: (&Address, &str)) -> Option<Link> {
    links.retain(|known| known.link.upgrade().is_some());
    links.iter().find_map(|known| known.at(there))
}

/// What the user's own system is called if nobody names one.
pub const OWN_SYSTEM: &str = "default";

/// A directory from which a system is served, by the name of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedFrom {
    /// The directory.
    pub dir: PathBuf,
    /// How it was served: the arguments of `dolmen serve` behind the directory; none if that is not on record.
    pub words: Vec<String>,
}

/// Whether a system that does not exist is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Only the user's own ([`OWN_SYSTEM`]).
    Own,
    /// Also one of any other name: its first pool is to be made.
    Any,
}

/// The connection to the engine where pools are made of the system `name`, found as [`any_of_name`] does.
///
/// # Errors
/// As [`any_of_name`]; `Nobody` if that engine does not run, and another does.
pub fn of_name(name: &str, program: &Path, options: &LinkOptions, begin: Begin) -> Result<Link> {
    now(of_name_by(Way::Now, name, program, options, begin))
}

/// As [`of_name`], on a way of the caller's.
///
/// # Errors
/// As [`of_name`].
pub async fn of_name_by(
    way: Way,
    name: &str,
    program: &Path,
    options: &LinkOptions,
    begin: Begin,
) -> Result<Link> {
    let failed = match home(way, any_of_name_by(way, name, program, options, begin).await?).await {
        Err(Error::Env(error)) if is_nobody(&error) => Error::Env(error),
        other => return other,
    };
    // Who runs has led to one that does not: whatever was served under this name and is silent is told.
    let Ok(data) = dolmen_env::data_directory() else { return Err(failed) };
    let mut silent = Vec::new();
    for place in recorded(&data.join("dolmen").join(name))? {
        if link_by(way, &Address::Unix(socket_in(&place.dir)?), options).await.is_err() {
            silent.push(place);
        }
    }
    Err(if silent.is_empty() { failed } else { Error::Nobody { name: name.to_owned(), places: silent } })
}

/// The connection to a daemon of the system `name`, the first that answers: where that is on record ([`record`]); else in the
/// user's own directory for it, if there are pools or the machine has no system of this name
/// ([`dolmen_env::machine_socket`]); else the machine's.
///
/// # Errors
/// As [`named`]; `MachineNobody` if nobody runs where the machine has one; `Unknown` if there is none of this name, and none is
/// begun.
pub fn any_of_name(name: &str, program: &Path, options: &LinkOptions, begin: Begin) -> Result<Link> {
    now(any_of_name_by(Way::Now, name, program, options, begin))
}

/// As [`any_of_name`], on a way of the caller's.
///
/// # Errors
/// As [`any_of_name`].
async fn any_of_name_by(
    way: Way,
    name: &str,
    program: &Path,
    options: &LinkOptions,
    begin: Begin,
) -> Result<Link> {
    let data = dolmen_env::data_directory();
    let socket = dolmen_env::machine_socket(name);
    let machine_has_it = dolmen_env::is_machine_system(name);
    let own = data.as_ref().map(|data| data.join("dolmen").join(name));
    let is_own = own.as_ref().is_ok_and(|own| {
        own.join(RECORD_NAME).exists()
            || if machine_has_it { has_pools(own) } else { own.join(OWNER_NAME).exists() }
    });
    if is_own && machine_has_it {
        // It is his own because there is such a directory.
        own.iter().for_each(|own| tell_hidden(name, &socket, own, options));
    }
    if !is_own && machine_has_it {
        return match link_by(way, &Address::Unix(socket.clone()), options).await {
            // One of the user's own in its place would be an empty one.
            Err(Error::Env(error)) if is_nobody(&error) => {
                Err(Error::MachineNobody { name: name.to_owned(), socket })
            }
            other => other,
        };
    }
    let data = data?;
    if !is_own && begin == Begin::Own && name != OWN_SYSTEM {
        return Err(Error::Unknown { name: name.to_owned() });
    }
    named_by(way, &data, name, program, options).await
}

/// Says once, to who asks for a system by its name, that his own hides the machine's.
fn tell_hidden(name: &str, socket: &Path, own: &Path, options: &LinkOptions) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let Ok(places) = recorded(own) else { return };
    // Whoever runs the machine's has it on record.
    let is_machines = places.iter().any(|place| place.words.iter().any(|word| Path::new(word) == socket));
    if !is_machines && !TOLD.swap(true, Ordering::Relaxed) {
        (options.note)(&format!(
            "system {name} is this user's own ({}), and hides the machine's of that name, which is unix:{}",
            own.display(),
            socket.display()
        ));
    }
}

/// Whether somebody has made something in the directory of a system below the user's data: one that was begun and has no pool
/// is nobody's loss.
fn has_pools(own: &Path) -> bool {
    // What cannot be looked at is left as it is.
    match dolmen_env::subdirectories(own) {
        Ok(found) => found.iter().any(|name| *name != *OsStr::new(STARTING_NAME)),
        Err(error) => !error.is_not_found(),
    }
}

/// The connection to a daemon of the user's system `name`: in the first directory that is on record for it ([`record`]) where
/// one runs, else in one below `data`, where `program` starts one if none runs.
///
/// # Errors
/// Why that cannot be: the program is not found, or its daemon cannot be reached; `Nobody` if none runs where some were on
/// record.
pub fn named(data: &Path, name: &str, program: &Path, options: &LinkOptions) -> Result<Link> {
    now(named_by(Way::Now, data, name, program, options))
}

/// As [`named`], on a way of the caller's.
///
/// # Errors
/// As [`named`].
pub async fn named_by(
    way: Way,
    data: &Path,
    name: &str,
    program: &Path,
    options: &LinkOptions,
) -> Result<Link> {
    let dir = data.join("dolmen").join(name);
    let places = recorded(&dir)?;
    if !places.is_empty() {
        return recorded_by(way, (name, &dir), places, options).await;
    }
    dolmen_env::create_own_dir(&dir)?;
    let address = Address::Unix(dir.join(SOCKET_NAME));
    let starter = Arc::new(Starter::new(&dir, program)?);
    for _ in 0..ATTEMPTS_MAX {
        match link_by(way, &address, options).await {
            Ok(link) => {
                // From now on it has one started whenever it is made anew and nobody is there.
                link.start_by(&starter);
                follow(&link, &dir, &dir);
                starter::reap();
                if link.is_up() || !starter::is_silent(&address) {
                    return Ok(link);
                }
            }
            Err(Error::Env(error)) if is_nobody(&error) => {}
            // It is about to end.
            Err(Error::Ended | Error::Unwelcome(dolmen_codec::wire::Refusal::Stopping)) => {
                rest(way, REST).await;
            }
            Err(error) => return Err(error),
        }
        starter.start(way, &address, deadline_after(options.patience)).await?;
    }
    link_by(way, &address, options).await.inspect(|link| link.start_by(&starter))
}

/// Has a connection to the daemon of `dir` follow it, by the name of the directory `own` below the user's data.
fn follow(link: &Link, own: &Path, dir: &Path) {
    // One that is not there any more, or cannot be looked at, is not followed.
    if let Ok(follower) = Follower::new(own, dir) {
        link.follow_by(follower);
    }
}

/// The directories from which the system in this directory below the user's data may be served.
pub(super) fn directories(own: &Path) -> Vec<PathBuf> {
    match recorded(own) {
        Ok(places) if places.is_empty() => vec![own.to_owned()],
        Ok(places) => places.into_iter().map(|place| place.dir).collect(),
        // What cannot be read leads nowhere.
        Err(_unread) => Vec::new(),
    }
}

/// Whether a system below the user's data is served from its own directory, as far as that is known.
pub(super) fn is_served_from_own(own: &Path) -> bool {
    recorded(own).is_ok_and(|places| places.is_empty())
}

/// The connection to the first of these that answers. A new system of their name would be an empty one.
async fn recorded_by(
    way: Way,
    (name, own): (&str, &Path),
    places: Vec<ServedFrom>,
    options: &LinkOptions,
) -> Result<Link> {
    let mut failed = None;
    for place in &places {
        match link_by(way, &Address::Unix(socket_in(&place.dir)?), options).await {
            Err(Error::Env(error)) if is_nobody(&error) => {}
            Err(error) => failed = Some(error),
            Ok(link) => {
                follow(&link, own, &place.dir);
                return Ok(link);
            }
        }
    }
    Err(failed.unwrap_or(Error::Nobody { name: name.to_owned(), places }))
}

/// In the directory of a system below the user's data: the directories from which it is served, if these are others. One a line,
/// with how it was served behind tabs.
const RECORD_NAME: &str = "served-from";

/// In each directory that a daemon has ever had.
const OWNER_NAME: &str = ".owner";

/// In the directory of a system: what is locked by who starts its daemon, or writes its record.
pub(super) const STARTING_NAME: &str = "starting";

/// Takes over the lock that a program has in the place of its input which was run to start a daemon in `dir`; `None` for one that was
/// run by somebody else.
///
/// # Errors
/// [`Error::Env`].
pub fn take_over_start(dir: &Path) -> Result<Option<DirLock>> {
    Ok(dolmen_env::HeldDir::open(dir)?.take_over(STARTING_NAME)?)
}

/// Keeps on record that the user's system `name` is served from `place`, so that [`named`] leads there, and from those that were
/// on record and are `beside` it: other engines of the same system. One that was served from its own directory below `data`, and
/// has pools, stays where it is.
///
/// # Errors
/// [`dolmen_env::Error::Exists`] in that case; why the record cannot be written.
pub fn record(
    data: &Path,
    name: &str,
    place: &ServedFrom,
    beside: impl Fn(&ServedFrom) -> bool,
) -> Result<()> {
    let own = data.join("dolmen").join(name);
    let dir = std::path::absolute(&place.dir).map_err(|_nowhere| not_found(&place.dir))?;
    if dir == own {
        return Ok(());
    }
    if has_pools(&own) {
        return Err(dolmen_env::Error::Exists { name: own.display().to_string() }.into());
    }
    let place = ServedFrom { dir, words: place.words.clone() };
    let line = line_of(&place).ok_or_else(|| not_found(&place.dir))?;
    dolmen_env::create_own_dir(&own.join(STARTING_NAME))?;
    // Engines that start together are all to be on record.
    let mut lock = DirLock::acquire(&own.join(STARTING_NAME));
    for _ in 0..ATTEMPTS_MAX {
        if !matches!(lock, Err(dolmen_env::Error::Owned { .. })) {
            break;
        }
        dolmen_env::wait(REST);
        lock = DirLock::acquire(&own.join(STARTING_NAME));
    }
    let _lock = lock?;
    let known = recorded(&own)?;
    let others = known.iter().filter(|other| other.dir != place.dir && beside(other));
    let lines: Vec<String> = others.filter_map(line_of).chain([line]).collect();
    Ok(dolmen_env::write_record(&own.join(RECORD_NAME), &lines.join("\n"))?)
}

/// A place as its line in the record; `None` if that cannot be.
fn line_of(place: &ServedFrom) -> Option<String> {
    let words: Vec<&str> =
        core::iter::once(place.dir.to_str()?).chain(place.words.iter().map(String::as_str)).collect();
    let is_plain = words.iter().all(|word| !word.chars().any(char::is_control));
    is_plain.then(|| words.join("\t"))
}

/// From where the system in this directory is served, as far as that is on record.
fn recorded(own: &Path) -> Result<Vec<ServedFrom>> {
    let Some(text) = dolmen_env::read_record(&own.join(RECORD_NAME))? else { return Ok(Vec::new()) };
    let place = |line: &str| {
        let mut words = line.split('\t').map(str::to_owned);
        Some(ServedFrom { dir: PathBuf::from(words.next()?), words: words.collect() })
    };
    Ok(text.lines().filter_map(place).filter(|place| place.dir.is_absolute()).collect())
}

/// The socket of the daemon of a directory.
///
/// # Errors
/// [`dolmen_env::Error::Io`] with `EPERM` if it is a link that neither this user nor root has made: nobody is led away by
/// another user.
pub fn socket_in(dir: &Path) -> Result<PathBuf> {
    let path = dir.join(SOCKET_NAME);
    if dolmen_env::is_own_link(&path) {
        return Ok(path);
    }
    let (op, errno) = (dolmen_env::Op::Connect, dolmen_env::Errno::PERM);
    Err(dolmen_env::Error::Io { op, name: path.display().to_string(), offset: 0, errno }.into())
}

fn not_found(dir: &Path) -> Error {
    dolmen_env::Error::NotFound { name: dir.display().to_string() }.into()
}

/// Rests between two attempts.
pub(super) async fn rest(way: Way, time: Duration) {
    match way {
        Way::Now => dolmen_env::wait(time),
        Way::Later => {
            let end_ns = deadline_after(time);
            while RealClock.monotonic_ns() < end_ns {
                give_way().await;
            }
        }
    }
}

/// Whether nobody listens there: the name is missing, or left over.
pub(super) fn is_nobody(error: &dolmen_env::Error) -> bool {
    let refused =
        matches!(error, dolmen_env::Error::Io { errno, .. } if *errno == dolmen_env::Errno::CONNREFUSED);
    error.is_not_found() || refused
}

/// A pool's name as somebody has written it: a UUID if it reads as one.
///
/// # Errors
/// `Invalid::Label`.
pub fn pool_name(text: &str) -> dolmen_types::Result<PoolName> {
    match Uuid::try_parse(text) {
        Ok(uuid) => Ok(PoolName::Uuid(uuid)),
        Err(_no_uuid) => Ok(PoolName::Label(Label::new(text)?)),
    }
}

/// Opens a pool over a connection.
///
/// # Errors
/// As [`Remote::open`].
pub fn pool(link: &Link, head: &Head, name: PoolName, access: PoolAccess) -> dolmen_types::Result<Remote> {
    Remote::open(link, head, name, access)
}

/// The pools of a system.
///
/// # Errors
/// `Unreachable`; those of the daemon.
pub fn pools(link: &Link, head: &Head) -> dolmen_types::Result<Vec<PoolEntry>> {
    now(pools_by(Way::Now, link, head))
}

/// As [`pools`], on a way of the caller's.
///
/// # Errors
/// As [`pools`].
pub async fn pools_by(way: Way, link: &Link, head: &Head) -> dolmen_types::Result<Vec<PoolEntry>> {
    match link.ask_system_by(way, head, &SystemVerb::PoolList).await? {
        SystemReply::Pools(pools) => Ok(pools),
        _ => Err(super::unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::pin::pin;
    use dolmen_codec::step;

    #[test]
    fn who_does_not_wait_asks_again_while_another_thread_connects() {
        let (nobody, options) = (Address::Unix(PathBuf::from("/nonexistent/socket")), LinkOptions::default());
        let mut asked = pin!(link_by(Way::Later, &nobody, &options));
        let connecting = LINKS.get().lock().unwrap_or_else(PoisonError::into_inner);
        assert!(step(&mut asked).is_pending());
        drop(connecting);
        let answer = loop {
            if let core::task::Poll::Ready(answer) = step(&mut asked) {
                break answer;
            }
        };
        assert!(answer.is_err(), "nobody is there");
    }
}
