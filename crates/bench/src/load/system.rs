//! The system, pool and container of a load: those that were named, else ones that are made and removed.

use super::crew;
use super::daos::{self, NewCont};
use super::options::{Load, Place};
use crate::error::{Error, Result};
use dolmen_local::PoolOptions;
use dolmen_types::Label;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A daemon of one's own ends after so long without a connection, and removes its directory, should whoever started it be killed.
const IDLE_END_SECONDS: &str = "60";

/// Where a load runs.
pub(super) struct Ground {
    pub(super) system: String,
    pub(super) pool: String,
    pub(super) cont: String,
    pub(super) daemon_pid: Option<u32>,
    own_dir: Option<PathBuf>,
    has_own_pool: bool,
    has_own_cont: bool,
}

/// Takes or makes system, pool and container.
///
/// # Errors
/// If they cannot be made; those of the library.
pub(super) fn prepare(place: &Place, load: &Load) -> Result<Ground> {
    let mut ground = match &place.system {
        Some(system) => given(place, system)?,
        None => own(place)?,
    };
    if place.cont.is_some() {
        return Ok(ground);
    }
    let props = if place.outlives_power { "durability:power" } else { "durability:process" };
    let new = NewCont { label: &ground.cont, props, has_files: load.has_files() };
    let made = daos::make_cont(Some(&ground.system), &ground.pool, &new);
    ground.has_own_cont = made.is_ok();
    match made {
        Ok(()) => Ok(ground),
        Err(error) => ground.clear().and(Err(error)),
    }
}

/// The name of what is made for this measurement.
pub(crate) fn own_name() -> String {
    format!("dolmen-bench-{}", std::process::id())
}

fn given(place: &Place, system: &str) -> Result<Ground> {
    let pool = place.pool.clone().unwrap_or_else(own_name);
    let has_own_pool = place.pool.is_none();
    let cont = place.cont.clone().unwrap_or_else(own_name);
    if place.cont.is_none() {
        let named = Some(cont.clone()).filter(|_| !has_own_pool);
        *made() = Some(Made { system: system.to_owned(), pool: pool.clone(), cont: named });
    }
    if has_own_pool {
        let size = format!("{}", place.capacity_bytes);
        let words = ["pool", "create", &pool, "--size", &size];
        dmg(system, &words, if place.outlives_power { &[] } else { &["--volatile"] })?;
    }
    Ok(Ground {
        system: system.to_owned(),
        pool,
        cont,
        daemon_pid: place.daemon_pid,
        own_dir: None,
        has_own_pool,
        has_own_cont: false,
    })
}

/// Asks a system as an administrator does, by this program.
fn dmg(system: &str, words: &[&str], more: &[&str]) -> Result<()> {
    let program = std::env::current_exe().map_err(Error::system("find this program"))?;
    let mut command = Command::new(program);
    command.args(["dmg", "--sys-name", system]).args(words).args(more).stdin(Stdio::null());
    let output = command.stderr(Stdio::inherit()).output().map_err(Error::system("start dmg"))?;
    let code = output.status.code();
    if output.status.success() { Ok(()) } else { Err(Error::Administer { words: words.join(" "), code }) }
}

/// What a load has made in a system of others, from before it is there.
struct Made {
    system: String,
    pool: String,
    /// None if the pool was made with it.
    cont: Option<String>,
}

/// Guards what is to be removed should the load be interrupted; taken alone.
static MADE: Mutex<Option<Made>> = Mutex::new(None);

fn made() -> MutexGuard<'static, Option<Made>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what a load has made in a system of others: for who ends it where it stands, after [`crew::stop_load`].
pub fn clear_load() {
    let Some(Made { system, pool, cont }) = made().take() else { return };
    let words = match &cont {
        Some(cont) => vec!["daos", "--sys-name", &system, "cont", "destroy", &pool, cont, "--force"],
        None => vec!["dmg", "--sys-name", &system, "pool", "destroy", &pool, "--force", "--recursive"],
    };
    let Ok(program) = std::env::current_exe() else { return };
    let quiet = || Stdio::null();
    // Ignored: there is nobody to tell any more; it may not have been made yet.
    let _removed = Command::new(program).args(words).stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
}

/// A pool and a daemon in a directory of this measurement.
fn own(place: &Place) -> Result<Ground> {
    let dir = place.dir.join(own_name());
    let ground = Ground {
        system: String::new(),
        pool: own_name(),
        cont: own_name(),
        daemon_pid: None,
        own_dir: Some(dir.clone()),
        has_own_pool: false,
        has_own_cont: false,
    };
    std::fs::create_dir_all(&dir).map_err(Error::system("make the directory for a pool"))?;
    match serve_own(place, &dir, &ground.pool) {
        Ok((system, pid)) => Ok(Ground { system, daemon_pid: Some(pid), ..ground }),
        Err(error) => ground.clear().and(Err(error)),
    }
}

fn serve_own(place: &Place, dir: &Path, label: &str) -> Result<(String, u32)> {
    let options = PoolOptions {
        targets: place.targets,
        label: Some(Label::new(label).map_err(dolmen_types::Error::from)?),
        capacity_bytes: place.capacity_bytes,
        volatile: true,
        ..PoolOptions::default()
    };
    let served = serve(dir, &options, place.over_tcp, Stdio::inherit())?;
    let address = if place.over_tcp { served.tcp } else { Some(served.unix) };
    Ok((address.ok_or_else(no_address)?, served.pid))
}

/// A daemon that runs, and where.
pub(crate) struct Served {
    pub(crate) pid: u32,
    pub(crate) unix: String,
    pub(crate) tcp: Option<String>,
}

/// Makes a pool in a directory and starts a daemon for it, which ends with the measurement; its notes go to `notes`.
pub(crate) fn serve(dir: &Path, options: &PoolOptions, with_tcp: bool, notes: Stdio) -> Result<Served> {
    dolmen_local::create(&dir.join("pool"), options)?;
    let program = std::env::current_exe().map_err(Error::system("find this program"))?;
    let mut command = Command::new(program);
    command.arg("serve").arg(dir).args(["--scratch", "--idle-end", IDLE_END_SECONDS]);
    if with_tcp {
        command.args(["--tcp", "127.0.0.1:0", "--insecure-tcp"]);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(notes)
        .spawn()
        .map_err(Error::system("start a daemon"))?;
    let (pid, out) = (child.id(), child.stdout.take());
    crew::keep(child);
    let mut line = String::new();
    let mut out = BufReader::new(out.expect("a pipe"));
    out.read_line(&mut line).map_err(Error::system("read from the daemon"))?;
    let addresses = line.trim().trim_start_matches("serving at ");
    let of = |kind: &str| addresses.split(", ").find(|address| address.starts_with(kind)).map(str::to_owned);
    Ok(Served { pid, unix: of("unix:").ok_or_else(no_address)?, tcp: of("tcp://") })
}

fn no_address() -> Error {
    Error::Child { scenario: "the daemon".to_owned() }
}

impl Ground {
    /// Removes what was made.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(super) fn clear(self) -> Result<()> {
        if let Some(dir) = self.own_dir {
            crew::stop_load();
            return match std::fs::remove_dir_all(dir) {
                // The daemon was about to end, and has removed it.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                removed => removed.map_err(Error::system("remove the directory of the pool")),
            };
        }
        if self.has_own_pool {
            dmg(&self.system, &["pool", "destroy", &self.pool], &["--force", "--recursive"])?;
        } else if self.has_own_cont {
            daos::destroy_cont(Some(&self.system), &self.pool, &self.cont)?;
        }
        // Until then a signal finds it, and sees to it that it is gone before the process is.
        made().take();
        Ok(())
    }
}
