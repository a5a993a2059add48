//! Standard input, piece by piece.

use super::BLOCK_BYTES;
use crate::interrupt;
use core::sync::atomic::Ordering;
use core::time::Duration;
use dolmen_dfs::Error;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};

/// Pieces that are read ahead while others are written.
const AHEAD: usize = 2;

/// How often it is looked whether the command was interrupted, while nothing comes.
const LOOK: Duration = Duration::from_millis(100);

/// Other names of it.
const NAMES: [&str; 4] = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

/// Whether a path means standard input; a file of the name - is ./-.
pub(super) fn is_named(path: &Path) -> bool {
    NAMES.iter().any(|name| path.as_os_str() == *name)
}

/// Reads it from now on. A thread reads, since a read that waits cannot be called off; it ends with the process.
pub(super) fn pieces() -> dolmen_dfs::Result<impl FnMut() -> dolmen_dfs::Result<Option<Vec<u8>>>> {
    let (give, take) = sync_channel(AHEAD);
    let reads = move || {
        let mut stdin = io::stdin().lock();
        loop {
            let piece = piece(&mut stdin);
            let is_last = !matches!(&piece, Ok(bytes) if bytes.len() == BLOCK_BYTES);
            // Whoever takes them has ended, or has it all.
            if give.send(piece).is_err() || is_last {
                return;
            }
        }
    };
    // Detached: what is read is of no use once nobody takes it.
    drop(dolmen_env::spawn("stdin", reads).map_err(|_no_thread| failed(&io::ErrorKind::OutOfMemory.into()))?);
    Ok(move || taken(&take))
}

/// The next piece: a whole block, but for the last one.
fn piece(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(BLOCK_BYTES);
    from.take(BLOCK_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn taken(pieces: &Receiver<io::Result<Vec<u8>>>) -> dolmen_dfs::Result<Option<Vec<u8>>> {
    loop {
        if interrupt::stop().load(Ordering::Relaxed) {
            return Err(Error::Canceled);
        }
        match pieces.recv_timeout(LOOK) {
            Ok(Ok(bytes)) => return Ok(Some(bytes).filter(|bytes| !bytes.is_empty())),
            Ok(Err(error)) => return Err(failed(&error)),
            Err(RecvTimeoutError::Timeout) => {}
            // The last piece was not a whole one.
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

fn failed(error: &io::Error) -> Error {
    /// As the system has it.
    const EIO: i32 = 5;
    Error::Local { path: PathBuf::from("standard input"), errno: error.raw_os_error().unwrap_or(EIO) }
}
