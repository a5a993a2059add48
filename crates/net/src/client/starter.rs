//! A daemon that is started when nobody serves: the one of a user's own system that he names by its name alone.
//!
//! Invariants: of all processes one starts it at a time, under a lock, and looks before whether another has done so.

use super::LinkOptions;
use super::reach::{self, is_nobody};
use super::session::{Session, connect_by, deadline_after, left_until};
use crate::error::{Error, Result};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use dolmen_codec::Way;
use dolmen_env::{Address, Clock, DirLock, RealClock, Socket, Started};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// How long a daemon that nobody is connected to goes on: it is there for the next command of a script, and gone after
/// work.
const IDLE_SECONDS: &str = "60";

/// Between two looks whether others, or a program, have started it.
pub(super) const REST: Duration = Duration::from_millis(100);
const LOOK_REST: Duration = Duration::from_millis(1);

/// How long a program goes on without another attempt after one has failed.
const FAILED_NS: u64 = 1_000_000_000;

/// What it takes to start a daemon.
#[derive(Debug)]
pub(super) struct Starter {
    /// The directory that it serves.
    dir: PathBuf,
    program: PathBuf,
    /// Whose it is: a thread that acts for another user must not start it.
    uid: u32,
    /// When it could not be started last; 0 for never.
    failed_ns: AtomicU64,
    /// Whether that was told since it was last there.
    is_told: AtomicBool,
}

impl Starter {
    pub(super) fn new(dir: &Path, program: &Path) -> Self {
        let (dir, program, uid) = (dir.to_owned(), program.to_owned(), dolmen_env::user_id());
        Self { dir, program, uid, failed_ns: AtomicU64::new(0), is_told: AtomicBool::new(false) }
    }

    /// Starts a daemon unless somebody else has done so since, or is about to: then after a rest. By `end_ns` it is there, or this
    /// has failed.
    ///
    /// # Errors
    /// Why it cannot be started; `TimedOut`.
    pub(super) async fn start(
        &self,
        way: Way,
        address: &Address,
        options: &LinkOptions,
        end_ns: u64,
    ) -> Result<()> {
        let starting = self.dir.join(reach::STARTING_NAME);
        dolmen_env::create_own_dir(&starting)?;
        let _lock = match DirLock::acquire(&starting) {
            Ok(lock) => lock,
            Err(dolmen_env::Error::Owned { .. }) => {
                reach::rest(way, REST).await;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if connect_by(way, address, options, end_ns).await.is_ok() {
            return Ok(());
        }
        let words: [&OsStr; 5] = [
            "serve".as_ref(),
            self.dir.as_ref(),
            "--detach".as_ref(),
            "--idle-end".as_ref(),
            IDLE_SECONDS.as_ref(),
        ];
        let mut started = Started::begin(&self.program, &words)?;
        while !started.has_ended()? {
            left_until(end_ns)?;
            reach::rest(way, LOOK_REST).await;
        }
        Ok(())
    }

    /// The same, for a connection that has ended; whether it is worth trying to connect.
    async fn start_again(&self, way: Way, address: &Address, options: &LinkOptions, end_ns: u64) -> bool {
        let now_ns = RealClock.monotonic_ns();
        let failed_ns = self.failed_ns.load(Ordering::Relaxed);
        let rests = failed_ns != 0 && now_ns.saturating_sub(failed_ns) < FAILED_NS;
        if rests || dolmen_env::user_id() != self.uid || !reach::is_served_from_own(&self.dir) {
            return false;
        }
        let Err(error) = self.start(way, address, options, end_ns).await else {
            return true;
        };
        self.failed_ns.store(RealClock.monotonic_ns(), Ordering::Relaxed);
        if !self.is_told.swap(true, Ordering::Relaxed) {
            (options.note)(&format!(
                "nobody serves {} any more, and a daemon cannot be started there: {error}",
                self.dir.display()
            ));
        }
        false
    }
}

/// Connects anew until `connect_ns`. Where nobody listens, and there is a starter, it has a daemon started first, until `start_ns`.
///
/// # Errors
/// Why there is no connection.
pub(super) async fn connect_or_start(
    way: Way,
    address: &Address,
    options: &LinkOptions,
    starter: Option<&Starter>,
    (connect_ns, start_ns): (u64, u64),
) -> Result<Session> {
    let connected = connect_by(way, address, options, connect_ns).await;
    let (Err(Error::Env(error)), Some(starter)) = (&connected, starter) else { return connected };
    if !is_nobody(error) || !starter.start_again(way, address, options, start_ns).await {
        return connected;
    }
    let session = connect_by(way, address, options, deadline_after(options.connect_timeout)).await?;
    starter.is_told.store(false, Ordering::Relaxed);
    Ok(session)
}

/// Whether nobody listens there.
pub(super) fn is_silent(address: &Address) -> bool {
    matches!(Socket::begin_connect(address), Err(error) if is_nobody(&error))
}
