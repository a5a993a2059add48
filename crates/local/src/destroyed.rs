//! Pools on several engines that are destroyed: what is on record until every engine has removed its part.
//!
//! A directory `.destroyed-UUID` beside the pools, with the pool's record in it: whoever carries the removal out needs to know
//! which engines had parts, and what only they know.
//!
//! Invariants: the record is durable before anything of the pool is removed, and is the last of it that goes.

use crate::error::Result;
use crate::record::{PoolRecord, Spread};
use crate::root;
use dolmen_env::RealRoot;
use dolmen_types::{Label, Uuid};
use std::path::{Path, PathBuf};

/// How such a directory's name begins.
const PREFIX: &str = ".destroyed-";

/// The pool's record in it. Not called as a pool's: it is none any more.
const RECORD_NAME: &str = "destroyed";

/// A pool that is destroyed, and is not gone from all its engines yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destroyed {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its label.
    pub label: Option<Label>,
    /// Its engines.
    pub spread: Spread,
}

/// Puts on record that the pool in `dir` is destroyed; its removal is still to come.
///
/// # Errors
/// As [`crate::destroy`], before anything is changed.
pub fn announce(dir: &Path) -> Result<()> {
    let record = root::removable(dir)?;
    let place = place_of(&root::system_of(dir)?, record.uuid);
    // It may have been announced before.
    Ok(RealRoot::open_or_create(&place)?.write_small(RECORD_NAME, &record.encode())?)
}

/// What is on record in a system directory.
///
/// # Errors
/// `Device`. What cannot be read as such a record is passed over.
pub fn destroyed(system: &Path) -> Result<Vec<Destroyed>> {
    let found = |name: std::ffi::OsString| {
        name.to_str().filter(|name| name.starts_with(PREFIX))?;
        let bytes = dolmen_env::read_small(&system.join(&name), RECORD_NAME).ok()?;
        let PoolRecord { uuid, label, spread, .. } = PoolRecord::decode(&bytes).ok()?;
        Some(Destroyed { uuid, label, spread: spread? })
    };
    Ok(dolmen_env::subdirectories(system)?.into_iter().filter_map(found).collect())
}

/// Takes the record away: nothing is left of the pool.
///
/// # Errors
/// `Device`.
pub fn forget(system: &Path, uuid: Uuid) -> Result<()> {
    match RealRoot::open(&place_of(system, uuid)) {
        Err(error) if error.is_not_found() => Ok(()),
        root => Ok(root?.remove_tree(RECORD_NAME)?),
    }
}

fn place_of(system: &Path, uuid: Uuid) -> PathBuf {
    system.join(format!("{PREFIX}{uuid}"))
}
