//! What comes piece by piece and says neither how long it is nor when it was changed, such as standard input, into the container.

use super::{Counts, OnFile, Options, Tally, unfinished};
use crate::dir::{Dir, OpenOptions};
use crate::error::{Error, Result};
use crate::layout::inode::FileKind;
use crate::rename::RenameMode;
use dolmen_types::{crc32c, crc32c_append};

/// Makes the file `remote` of what `next` gives until it gives nothing more. It is there when all of it is, at once and in place of a file
/// that had the name, whose permissions it has then; what fails on the way leaves what was there before.
///
/// # Errors
/// `OtherKind` if a directory has the name; those of `next`; `Canceled`.
pub fn put_pieces(
    dir: &Dir,
    remote: impl AsRef<[u8]>,
    mut next: impl FnMut() -> Result<Option<Vec<u8>>>,
    options: &Options<'_>,
) -> Result<Counts> {
    let (remote, options) = (remote.as_ref(), &options.for_root(false));
    let mode = match dir.lstat(remote) {
        Ok(there) if there.kind == FileKind::Directory => {
            return Err(Error::OtherKind { there: there.kind, wanted: FileKind::File }).on(remote);
        }
        Ok(there) if there.kind == FileKind::File => there.permissions & 0o777,
        Ok(_) | Err(Error::NotFound) => OpenOptions::CREATE_NEW.mode,
        Err(error) => return Err(error).on(remote),
    };
    unfinished::clear(dir, unfinished::parent(remote)).on(remote)?;
    let tally = Tally::default();
    let name = unfinished::beside(dir.mount(), remote);
    let stored = store(dir, &name, mode, &mut next, (&tally, options)).and_then(|stored| {
        // What has ended since whoever writes it was interrupted is not whole.
        options.check_stop()?;
        dir.rename(&name, dir, remote, RenameMode::Replace)?;
        Ok(stored)
    });
    if stored.is_err() {
        // Ignored: the first error is the one to tell; the name says what is left behind.
        let _removed = dir.unlink(&name);
    }
    let (len, crc) = stored.on(remote)?;
    tally.add(|tally| &tally.files, 1, options);
    if let Some(on_stored) = options.on_stored {
        on_stored(remote, len, crc)?;
    }
    Ok(tally.counts())
}

/// Size and checksum of all pieces.
fn store(
    dir: &Dir,
    name: &[u8],
    mode: u32,
    next: &mut dyn FnMut() -> Result<Option<Vec<u8>>>,
    (tally, options): (&Tally, &Options<'_>),
) -> Result<(u64, u32)> {
    let file = dir.open(name, &OpenOptions { mode, ..OpenOptions::CREATE_NEW })?;
    let (mut at, mut crc) = (0, crc32c(b""));
    while let Some(piece) = next()? {
        options.check_stop()?;
        file.write_at(at, &piece)?;
        if options.on_stored.is_some() {
            crc = crc32c_append(crc, &piece);
        }
        at += piece.len() as u64;
        tally.add(|tally| &tally.bytes, piece.len() as u64, options);
    }
    Ok((at, crc))
}
