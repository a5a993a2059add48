//! From the text that names a pool to a client of it.

use crate::error::{Error, Named, Result};
use crate::here;
use crate::slot::Session;
use core::time::Duration;
use dolmen_client::{Options, Pool};
use dolmen_codec::wire::PoolAccess;
use dolmen_env::Address;
use dolmen_local::PoolEntry;
use dolmen_net::client::{CertsFrom, LinkOptions, Remote, reach};
use dolmen_net::tls::{Certs, Role};
use dolmen_types::{Credentials, Head};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a pool is opened.
#[derive(Clone, Debug)]
pub(crate) struct How {
    pub(crate) read_only: bool,
    /// How long an engine that does not answer is waited for; `None` for as long as links usually do.
    pub(crate) patience: Option<Duration>,
    /// How long a request may wait before it is begun; `None` for as long as it takes.
    pub(crate) timeout: Option<Duration>,
    /// The directory of the certificates for a network; `None` for what the user's settings name.
    pub(crate) certs: Option<PathBuf>,
    /// Of a pool in this process; `None` for what the pool says.
    pub(crate) memory_bytes: Option<u64>,
    /// Of a pool in this process: a thread does the work in the background.
    pub(crate) upkeep: bool,
}

/// What an address leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A directory of this machine, to be opened here.
    Dir(PathBuf),
    /// Engines, and the name of a pool of theirs.
    Engines(Vec<Address>, String),
}

/// What an address means.
pub(crate) fn parse(text: &str) -> Result<Place> {
    let unclear = || Error::Address(Named(text.to_owned()));
    if let Some(dir) = text.strip_prefix("file:") {
        let dir = dir.strip_prefix("//").unwrap_or(dir);
        return if dir.is_empty() { Err(unclear()) } else { Ok(Place::Dir(PathBuf::from(dir))) };
    }
    let (system, pool) = text.rsplit_once('/').ok_or_else(unclear)?;
    if pool.is_empty() {
        return Err(unclear());
    }
    for host in system.strip_prefix("tcp://").into_iter().flat_map(|hosts| hosts.split(',')) {
        if host.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            let told = format!(
                "{text:?} names no pool: {host:?} is to be HOST:PORT, as of tcp://127.0.0.1:10000/LABEL"
            );
            return Err(Error::Told(Named(told)));
        }
    }
    let addresses = reach::addresses(system)?.ok_or_else(unclear)?;
    Ok(Place::Engines(addresses, pool.to_owned()))
}

/// The engines of a system, for whom names no pool.
pub(crate) fn engines(text: &str) -> Result<Vec<Address>> {
    reach::addresses(text)?.ok_or_else(|| Error::Address(Named(text.to_owned())))
}

/// Who runs this process, as requests say it.
pub(crate) fn head() -> Result<Head> {
    let cred = Credentials {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        project: 0,
    };
    let account = dolmen_env::account(cred.uid)?;
    Ok(Head { cred, job: account.job, tenant: account.tenant, ..Head::default() })
}

pub(crate) fn link_options(patience: Option<Duration>, certs: Option<&Path>) -> Result<LinkOptions> {
    let usual = LinkOptions::default();
    Ok(LinkOptions {
        patience: patience.unwrap_or(usual.patience),
        certs: match certs {
            Some(dir) => CertsFrom::These(Certs::load(dir, Role::User)?),
            None => CertsFrom::User,
        },
        note: |said| dolmen_env::say(&format!("dolmen: {said}")),
        ..usual
    })
}

/// Opens the pool of an address.
pub(crate) fn open(text: &str, how: &How) -> Result<(Pool, Arc<Session>)> {
    let head = head()?;
    let mut options = Options::like(&head)?;
    if let Some(timeout) = how.timeout {
        options.timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    }
    match parse(text)? {
        Place::Dir(dir) => {
            let local = here::open(&pool_directory(text, &dir)?, how)?;
            let pool = Pool::connect_with(Arc::clone(local.pool()) as _, options)?;
            Ok((pool, Session::new(text.to_owned(), how.read_only, Some(local))))
        }
        Place::Engines(..) if text.strip_prefix("unix:").is_some_and(|path| Path::new(path).exists()) => {
            let told = format!("{text:?} names no pool: a slash and the label of one come behind the socket");
            Err(Error::Told(Named(told)))
        }
        Place::Engines(addresses, name) => {
            let link = reach::system(&addresses, &link_options(how.patience, how.certs.as_deref())?)?;
            let access = if how.read_only { PoolAccess::ReadOnly } else { PoolAccess::ReadWrite };
            let remote = match Remote::open(&link, &head, reach::pool_name(&name)?, access) {
                Err(dolmen_types::Error::NotFound) => Err(Error::NoPool(Named(text.to_owned()))),
                other => Ok(other?),
            }?;
            let pool = Pool::connect_with(Arc::new(remote), options)?;
            Ok((pool, Session::new(text.to_owned(), how.read_only, None)))
        }
    }
}

/// The directory of the pool that is named by directory, or by that of its system and a label or UUID.
fn pool_directory(text: &str, dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        return Ok(dir.to_owned());
    }
    let missing = || Error::NoPool(Named(text.to_owned()));
    let (Some(system), Some(name)) = (dir.parent(), dir.file_name().and_then(|name| name.to_str())) else {
        return Err(missing());
    };
    let system = if system.as_os_str().is_empty() { Path::new(".") } else { system };
    let entries: Vec<PoolEntry> = dolmen_local::list(system).map_err(|error| match error {
        dolmen_local::Error::NoDirectory { .. } => missing(),
        other => other.into(),
    })?;
    match dolmen_local::named(&entries, name)[..] {
        [] => Err(missing()),
        [only] => Ok(system.join(&only.name)),
        ref several => {
            Err(Error::SeveralPools { dirs: several.iter().map(|entry| system.join(&entry.name)).collect() })
        }
    }
}
