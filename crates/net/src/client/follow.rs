//! Where a system that was reached by its name is served now: under a program that runs, its directory may be moved, and served
//! again under that name.
//!
//! Invariants: nobody is led to another directory than the one that was reached, whatever has its name, or the system's, now. What was
//! reached by an address alone stays there.

use super::LinkOptions;
use super::reach::{self, is_nobody};
use super::session::{Session, connect_by};
use super::starter::{Starter, connect_or_start};
use crate::error::{Error, Result};
use dolmen_codec::Way;
use dolmen_env::{Address, HeldDir};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Knows by what name a daemon was reached.
#[derive(Debug)]
pub(super) struct Follower {
    /// The directory of the name, below the user's data.
    own: PathBuf,
    /// Which directory the daemon serves.
    id: (u64, u64),
    /// Guards where it was found last, if that is not where it was reached; taken alone.
    moved: Mutex<Option<Address>>,
}

impl Follower {
    /// For the daemon of a directory.
    ///
    /// # Errors
    /// If that is not there.
    pub(super) fn new(own: &Path, dir: &Path) -> Result<Self> {
        let own = std::path::absolute(own).unwrap_or_else(|_nowhere| own.to_owned());
        Ok(Self { own, id: HeldDir::open(dir)?.id()?, moved: Mutex::default() })
    }

    /// Where it was found last, if that is not where it was reached.
    pub(super) fn moved(&self) -> Option<Address> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where it is on record now, if that is not `silent`.
    fn found(&self, silent: &Address) -> Option<Address> {
        let is_it = |dir: &PathBuf| HeldDir::open(dir).and_then(|dir| dir.id()).is_ok_and(|id| id == self.id);
        let dir = reach::directories(&self.own).into_iter().find(is_it)?;
        let found = Address::Unix(reach::socket_in(&dir).ok()?);
        (found != *silent).then_some(found)
    }
}

/// Connects anew until `ends.0`; where nobody listens, to where the system is served now, or to a daemon that is started, until
/// `ends.1`.
///
/// # Errors
/// Why there is no connection.
pub(super) async fn connect_or_follow(
    way: Way,
    address: &Address,
    options: &LinkOptions,
    (starter, follower): (Option<&Starter>, Option<&Follower>),
    ends: (u64, u64),
) -> Result<Session> {
    let Some(follower) = follower else {
        return connect_or_start(way, address, options, starter, ends).await;
    };
    let moved = follower.moved();
    let at = moved.as_ref().unwrap_or(address);
    // What is on record is served from there, and by whoever does so.
    let starter = starter.filter(|_| moved.is_none());
    let failed = match connect_or_start(way, at, options, starter, ends).await {
        Err(Error::Env(error)) if is_nobody(&error) => error.into(),
        other => return other,
    };
    let Some(found) = follower.found(at) else { return Err(failed) };
    let session = connect_by(way, &found, options, ends.0).await?;
    *follower.moved.lock().unwrap_or_else(PoisonError::into_inner) = (found != *address).then_some(found);
    Ok(session)
}
