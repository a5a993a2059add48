//! A daemon that is started when nobody serves: the one of a user's own system that he names by its name alone.
//!
//! Invariants: of all processes one starts it at a time, under a lock, and looks before whether another has done so. The program
//! that it runs takes the lock over ([`reach::take_over_start`]), and nobody who may do something else meanwhile has it: a process
//! that is forked from the one that starts it has a copy of the descriptor, and no lock once the program has taken that over, or
//! has ended and is looked after. (The two of them must be killed in the milliseconds between for such a process to keep it.) No
//! directory is made, or taken for another one.

use super::LinkOptions;
use super::reach::{self, is_nobody};
use super::session::{Session, connect_by, deadline_after, left_until};
use crate::error::{Error, Result};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use dolmen_codec::Way;
use dolmen_env::{Address, Clock, DirLock, HeldDir, PerProcess, RealClock, Socket, Started};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How long a daemon that nobody is connected to goes on: it is there for the next command of a script, and gone after
/// work.
const IDLE_SECONDS: &str = "60";

/// Between two looks whether others, or a program, have started it.
pub(super) const REST: Duration = Duration::from_millis(100);
const LOOK_REST: Duration = Duration::from_millis(1);

/// How long a program goes on without another attempt after one has failed.
const FAILED_NS: u64 = 1_000_000_000;

/// Programs that were started by this process, by the directory that they serve, and are not known to have ended: who has given
/// up waiting leaves them to who comes next.
// Guards: the list; taken alone.
static UNDER_WAY: PerProcess<Mutex<Vec<UnderWay>>> = PerProcess::new(Mutex::default);

#[derive(Debug)]
struct UnderWay {
    dir: PathBuf,
    program: Started,
    /// Somebody had the directory when it was started, and may have been about to let go of it.
    was_owned: bool,
}

/// What is seen of a program that starts a daemon.
enum Seen {
    /// It is to be looked at again after such a rest.
    UnderWay(Duration),
    /// It was started just now.
    Begun,
    /// Somebody serves, or has been started.
    Done,
}

/// What it takes to start a daemon.
#[derive(Debug)]
pub(super) struct Starter {
    /// The directory that it serves.
    dir: PathBuf,
    /// Which one that is: none is made, and none of another system is served, in the place of one that was moved or removed.
    id: (u64, u64),
    program: PathBuf,
    /// Whose it is: a thread that acts for another user must not start it.
    uid: u32,
    /// When it could not be started last; 0 for never.
    failed_ns: AtomicU64,
    /// Whether that was told since it was last there.
    is_told: AtomicBool,
}

impl Starter {
    /// For a directory that is there.
    ///
    /// # Errors
    /// If it is not.
    pub(super) fn new(dir: &Path, program: &Path) -> Result<Self> {
        let id = HeldDir::open(dir)?.id()?;
        // The program is run elsewhere; a bare name is looked for on the path.
        let is_bare = program.components().count() == 1;
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_nowhere| path.to_owned());
        let program = if is_bare { program.to_owned() } else { absolute(program) };
        let (dir, uid) = (absolute(dir), dolmen_env::user_id());
        Ok(Self { dir, id, program, uid, failed_ns: AtomicU64::new(0), is_told: AtomicBool::new(false) })
    }

    /// Starts a daemon unless somebody else has done so since, or is about to, who is waited for. A daemon that is about to end
    /// has the directory until its pools are closed: then, too. By `end_ns` somebody listens, or this has failed.
    ///
    /// # Errors
    /// Why it cannot be started; `TimedOut`.
    pub(super) async fn start(&self, way: Way, address: &Address, end_ns: u64) -> Result<()> {
        let (mut failed, mut has_begun) = (None, false);
        loop {
            let seen = if failed.is_some() && DirLock::owner(&self.dir).is_some() && is_silent(address) {
                Ok(Seen::UnderWay(REST))
            } else {
                self.step(address, has_begun)
            };
            let rest = match seen {
                Ok(Seen::Done) => return Ok(()),
                Ok(Seen::UnderWay(rest)) => rest,
                Ok(Seen::Begun) => {
                    has_begun = true;
                    LOOK_REST
                }
                Err((error, true)) => {
                    failed = Some(error);
                    LOOK_REST
                }
                Err((error, false)) => return Err(error),
            };
            if let Err(late) = left_until(end_ns) {
                return Err(failed.unwrap_or(late));
            }
            reach::rest(way, rest).await;
        }
    }

    /// Looks at the program that was started, or starts one; nothing is held while this process does anything else.
    ///
    /// # Errors
    /// Why it cannot be started, and whether that may be because a daemon is about to end.
    fn step(&self, address: &Address, has_begun: bool) -> core::result::Result<Seen, (Error, bool)> {
        let mut all = UNDER_WAY.get().lock().unwrap_or_else(PoisonError::into_inner);
        let is_its = |one: &UnderWay| one.dir == self.dir;
        if let Some(at) = all.iter().position(is_its) {
            let ended = all[at].program.has_ended();
            if matches!(ended, Ok(false)) {
                return Ok(Seen::UnderWay(LOOK_REST));
            }
            let was_owned = all.swap_remove(at).was_owned;
            if !is_silent(address) {
                // Whoever has been faster is as good.
                return Ok(Seen::Done);
            }
            // How one has ended that another has begun, who has given up, says nothing of the next one.
            if has_begun {
                let is_ending = was_owned || DirLock::owner(&self.dir).is_some();
                return match ended {
                    Err(error) => Err((error.into(), is_ending)),
                    // Who waits for no children does not know how it has ended.
                    Ok(_) if is_ending => Err((Error::TimedOut, true)),
                    Ok(_) => Ok(Seen::Done),
                };
            }
        }
        look_after(&mut all);
        let begun = self.begin(address).map_err(|error| (error, false))?;
        Ok(match begun {
            Begun::Started(program, was_owned) => {
                all.push(UnderWay { dir: self.dir.clone(), program, was_owned });
                Seen::Begun
            }
            Begun::ByOthers => Seen::UnderWay(REST),
            Begun::Listens => Seen::Done,
        })
    }

    fn begin(&self, address: &Address) -> Result<Begun> {
        let held = HeldDir::open(&self.dir)?;
        if held.id()? != self.id {
            return Err(dolmen_env::Error::NotFound { name: self.dir.display().to_string() }.into());
        }
        let lock = match held.lock(reach::STARTING_NAME) {
            Ok(lock) => lock,
            Err(dolmen_env::Error::Owned { .. }) => return Ok(Begun::ByOthers),
            Err(error) => return Err(error.into()),
        };
        if !is_silent(address) {
            return Ok(Begun::Listens);
        }
        // The program raises what it may.
        dolmen_env::check_limits()?;
        let was_owned = DirLock::owner(&self.dir).is_some();
        let words: [&OsStr; 5] = [
            "serve".as_ref(),
            self.dir.as_ref(),
            "--detach".as_ref(),
            "--idle-end".as_ref(),
            IDLE_SECONDS.as_ref(),
        ];
        // In its own directory: it keeps no other one busy.
        Ok(Begun::Started(Started::begin(&self.program, &words, &self.dir, lock)?, was_owned))
    }

    /// The same, for a connection that has ended; whether it is worth trying to connect.
    async fn start_again(&self, way: Way, address: &Address, options: &LinkOptions, end_ns: u64) -> bool {
        let now_ns = RealClock.monotonic_ns();
        let failed_ns = self.failed_ns.load(Ordering::Relaxed);
        let rests = failed_ns != 0 && now_ns.saturating_sub(failed_ns) < FAILED_NS;
        if rests || dolmen_env::user_id() != self.uid || !reach::is_served_from_own(&self.dir) {
            return false;
        }
        let error = match self.start(way, address, end_ns).await {
            // It may be there a moment later, and is waited for by who comes next.
            Ok(()) | Err(Error::TimedOut) => return true,
            Err(error) => error,
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

enum Begun {
    Started(Started, bool),
    /// Another process has started one, which has not ended yet.
    ByOthers,
    Listens,
}

/// Looks after programs that nobody has waited for to the end, unless another thread does.
pub(super) fn reap() {
    if let Ok(mut all) = UNDER_WAY.get().try_lock() {
        look_after(&mut all);
    }
}

/// Nothing is left of those that have ended but how, for who has begun one and looks again: one for each directory at most.
fn look_after(all: &mut [UnderWay]) {
    // Ignored: told to who has begun it.
    all.iter_mut().for_each(|one| drop(one.program.has_ended()));
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
    let Some(starter) = starter else { return connected };
    let Err(Error::Env(error)) = &connected else {
        reap();
        return connected;
    };
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
