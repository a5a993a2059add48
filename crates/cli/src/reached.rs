//! Where the daemon is that a command asks, for when it does not answer: who reads that has to find it.

use core::time::Duration;
use dolmen_env::{Address, Socket};
use std::path::Path;
use std::sync::OnceLock;

/// How long the kernel may take to say who listens at a socket.
const LOOK: Duration = Duration::from_millis(200);

/// Where the system of this command was reached; set when it is.
static REACHED: OnceLock<Vec<Address>> = OnceLock::new();

/// Notes where a system was reached.
pub(crate) fn note(addresses: &[Address]) {
    // Ignored: a command that reaches several systems tells the first.
    let _noted = REACHED.set(addresses.to_vec());
}

/// Whether a daemon is asked, and not a directory.
pub(crate) fn is_daemon() -> bool {
    REACHED.get().is_some()
}

/// The first address at which the system was reached, if that is known.
pub(crate) fn first() -> Option<String> {
    REACHED.get()?.first().map(ToString::to_string)
}

/// Where the system was reached, if that is known.
pub(crate) fn shown() -> Option<String> {
    let all: Vec<String> = REACHED.get()?.iter().map(ToString::to_string).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// What to do about an engine that does not answer any more.
pub(crate) fn remedy() -> Option<String> {
    let addresses = REACHED.get()?;
    if let Some((_, remedy)) = addresses.iter().find_map(stopped) {
        return Some(remedy);
    }
    // Who was reached is there: another engine of the system is meant.
    if let Some(there) = addresses.iter().find(|address| listens(address)) {
        return Some(format!(
            "{there} does, and `dmg -G {there} system query` tells who is missing and where; `dolmen serve DIR --system FILE --rank \
             N` starts it"
        ));
    }
    let starts = addresses.iter().find_map(|address| match address {
        Address::Unix(path) if path.file_name().is_some_and(|name| name == "dolmen.sock") => path.parent(),
        _ => None,
    });
    let how = match starts {
        Some(dir) => format!("`dolmen serve {}` starts it", crate::path::word(dir)),
        None => "whoever runs it starts it, by `dolmen serve` or `systemctl start dolmen@`".to_owned(),
    };
    Some(format!("it was reached at {}: {how}", shown()?))
}

fn listens(address: &Address) -> bool {
    matches!(address, Address::Unix(_)) && Socket::connect(address, LOOK).is_ok()
}

/// Why nobody answers at a socket of this machine whose process stands still, and what to do.
pub(crate) fn stopped(address: &Address) -> Option<(String, String)> {
    if !matches!(address, Address::Unix(_)) {
        return None;
    }
    // The kernel takes the connection for it.
    let pid = Socket::connect(address, LOOK).ok()?.peer().ok()??.pid;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let state = status.lines().find_map(|line| line.strip_prefix("State:"))?.trim();
    let stands = state.starts_with('T') || state.starts_with('t');
    stands.then(|| {
        (format!("process {pid} is stopped ({})", &state[..1]), format!("`kill -CONT {pid}` lets it go on"))
    })
}

/// The sockets where a system of this name may be.
pub(crate) fn sockets_of(name: &str) -> Vec<Address> {
    let own =
        dolmen_env::data_directory().ok().map(|data| data.join("dolmen").join(name).join("dolmen.sock"));
    let all = own.into_iter().chain([dolmen_env::machine_socket(name)]);
    all.filter(|path: &std::path::PathBuf| exists(path)).map(Address::Unix).collect()
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
