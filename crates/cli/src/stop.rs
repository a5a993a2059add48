//! The end of daemons: `dolmen stop`, and what `dmg system stop` waits for.

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::Answer;
use crate::path::shown_outside;
use crate::place;
use core::time::Duration;
use dolmen_codec::wire::SystemVerb;
use dolmen_env::{Address, Clock, DirLock, RealClock, Socket, Waiter, peer_watch};
use dolmen_net::client::{LinkOptions, reach};
use dolmen_types::Head;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// How long the end of a daemon is waited for, unless somebody says otherwise: its pools write what is in memory.
pub(crate) const WAIT_SECONDS: u64 = 60;

/// How long somebody at a socket of this machine may take to be there.
const LOOK: Duration = Duration::from_secs(1);

/// Between two looks whether somebody still listens.
const REST: Duration = Duration::from_millis(50);

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Directory that the daemon serves
    #[arg(value_name = "SYSTEM", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// Wait so long at most for its process to end
    #[arg(long, value_name = "SECONDS", default_value_t = WAIT_SECONDS, value_parser = crate::size::count::<u64>(0, 86_400))]
    wait: u64,
}

/// A process whose end can be seen.
pub(crate) struct Process {
    pub(crate) pid: u32,
    waiter: Waiter,
    /// What the waiter looks at.
    _watch: OwnedFd,
}

impl Process {
    /// Who listens at a socket of this machine; `None` over a network, or if nobody does.
    pub(crate) fn at(address: &Address) -> Option<Self> {
        let peer = Socket::connect(address, LOOK).ok()?.peer().ok()??;
        Self::of(peer.pid)
    }

    /// The process with this number; `None` if there is none, or it cannot be seen from here.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let watch = peer_watch(pid).ok()?;
        let waiter = Waiter::new().ok()?;
        waiter.add(&watch, 0, false).ok()?;
        Some(Self { pid, waiter, _watch: watch })
    }

    /// Waits until it has ended, or until `end_ns`; whether it has.
    pub(crate) fn ends_by(&self, end_ns: u64) -> bool {
        loop {
            let left = Duration::from_nanos(end_ns.saturating_sub(RealClock.monotonic_ns()));
            let mut ready = Vec::new();
            if self.waiter.wait(Some(left), &mut ready).is_err() {
                return false;
            }
            if !ready.is_empty() || left.is_zero() {
                return !ready.is_empty();
            }
        }
    }
}

/// Until when somebody waits for so many seconds.
pub(crate) fn deadline_ns(seconds: u64) -> u64 {
    RealClock.monotonic_ns().saturating_add(seconds.saturating_mul(1_000_000_000))
}

/// Waits until nobody listens at an address any more, or until `end_ns`; whether nobody does. That is all that can be seen
/// of a process on another machine.
pub(crate) fn is_left_by(address: &Address, end_ns: u64) -> bool {
    loop {
        if Socket::connect(address, LOOK).is_err() {
            return true;
        }
        if RealClock.monotonic_ns() >= end_ns {
            return false;
        }
        dolmen_env::wait(REST);
    }
}

/// Why a daemon counts as running after it was told to end.
pub(crate) fn still_ends(pid: u32, seconds: u64) -> String {
    format!(
        "process {pid} has not ended after {seconds} s: it closes its pools, and nothing is lost meanwhile"
    )
}

/// Ends the daemon of a directory, and waits for that.
pub(crate) fn run(args: &Args) -> Outcome<Answer> {
    let dir = place::directory(&args.dir);
    let doing = || format!("stop the daemon of {}", shown_outside(&dir));
    let socket = reach::socket_in(&dir).map_err(|error| place::unreachable(&error)).doing(doing)?;
    let address = Address::Unix(socket);
    let process = match Process::at(&address) {
        Some(process) => {
            ask(&address, &process).doing(doing)?;
            process
        }
        // It may be about to end.
        None => owner(&dir)
            .and_then(|owner| owner.ok_or_else(|| nobody(&dir)))
            .and_then(signal_if_it_listens)
            .doing(doing)?,
    };
    let pid = process.pid;
    if !process.ends_by(deadline_ns(args.wait)) {
        let failure = Failure::new(Exit::InUse, still_ends(pid, args.wait));
        return Err(failure.hint("run it again to wait for longer")).doing(doing);
    }
    remove_left(&dir);
    Ok(Answer::new(format!("process {pid} has ended"), json!({ "pid": pid })))
}

/// Removes the socket of a daemon that has ended and could not: the directory was renamed meanwhile.
fn remove_left(dir: &Path) {
    // Whoever has the directory now has a socket of his own.
    if let (Ok(_lock), Ok(socket)) = (DirLock::acquire(dir), reach::socket_in(dir)) {
        // Ignored: the next daemon does so, too.
        let _removed = dolmen_env::remove_socket(&socket);
    }
}

fn ask(address: &Address, process: &Process) -> Outcome<()> {
    let link = reach::link(address, &LinkOptions::default()).map_err(|error| place::unreachable(&error))?;
    match link.ask_system(&Head::default(), &SystemVerb::Stop) {
        // The answer may be lost with the daemon.
        Err(_gone) if process.ends_by(0) => Ok(()),
        Err(dolmen_types::Error::NoPermission) => {
            let failure = Failure::new(Exit::Refused, format!("process {} is another user's", process.pid));
            Err(failure.hint("its user ends it, or root"))
        }
        told => Ok(told.map(drop)?),
    }
}

/// The process that has the directory, if one does.
fn owner(dir: &Path) -> Outcome<Option<Process>> {
    // What is no system's directory gets no lock by being asked.
    match dir.join(".owner").symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let failure = Failure::new(Exit::Refused, "this user may not look into it");
            return Err(failure.hint("its user ends who serves it, or root"));
        }
        Err(_missing) => return Ok(None),
        Ok(_) => {}
    }
    match DirLock::acquire(dir) {
        Err(dolmen_env::Error::Owned { pid }) => Ok(Process::of(pid)),
        Err(dolmen_env::Error::Io { errno: dolmen_env::Errno::ACCESS, .. }) => {
            let failure = Failure::new(Exit::Refused, "it is another user's, and so is who serves it");
            Err(failure.hint("its user ends it, or root"))
        }
        _ => Ok(None),
    }
}

/// Who has the directory, and was told to end by a signal if he still listens where nobody comes any more: the name of his
/// socket was removed. One that ends already, which listens nowhere, would be broken off by it.
fn signal_if_it_listens(process: Process) -> Outcome<Process> {
    if !listens(process.pid) {
        return Ok(process);
    }
    let number = i32::try_from(process.pid)
        .map_err(|_none| Failure::new(Exit::Other, "no process has that number"))?;
    match kill(Pid::from_raw(number), Signal::SIGTERM) {
        Err(Errno::EPERM) => {
            let why = format!("its socket is gone, and process {number} is another user's");
            Err(Failure::new(Exit::Refused, why).hint("its user ends it, or root"))
        }
        // It has ended meanwhile, which is waited for.
        _ => Ok(process),
    }
}

/// Whether a process listens at a socket of this machine, wherever the name of that is.
fn listens(pid: u32) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let (Ok(files), Ok(all)) = (files, std::fs::read_to_string("/proc/net/unix")) else {
        // Another user's: he is told that it is.
        return true;
    };
    let sockets = files.filter_map(|file| {
        let to = std::fs::read_link(file.ok()?.path()).ok()?;
        Some(to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    });
    let sockets: Vec<String> = sockets.collect();
    all.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(3) == Some(&LISTENING)
            && fields.get(6).is_some_and(|inode| sockets.iter().any(|own| own == inode))
    })
}

/// The flags of a Unix socket that takes connections, as `/proc/net/unix` has them.
const LISTENING: &str = "00010000";

fn nobody(dir: &Path) -> Failure {
    if dir.is_dir() {
        Failure::new(Exit::Missing, "nobody serves it")
            .hint("name the directory that `dolmen serve` was given")
    } else {
        Failure::new(Exit::Missing, "there is no such directory")
            .hint("name the one that `dolmen serve` was given")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_end_of_a_process_is_waited_for_and_no_longer_than_asked() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        let begun_ns = RealClock.monotonic_ns();
        assert!(!process.ends_by(begun_ns + 100_000_000), "it runs");
        assert!(RealClock.monotonic_ns() - begun_ns >= 100_000_000);
        child.kill().unwrap();
        assert!(process.ends_by(deadline_ns(60)), "it was killed, and nobody has asked how it ended");
        child.wait().unwrap();
        assert!(Process::of(child.id()).is_none());
    }
}
