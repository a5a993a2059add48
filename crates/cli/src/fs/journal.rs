//! The journal of a put: which files are stored and acknowledged, by path, with size and checksum.
//!
//! A record is the crc32c in eight hexadecimal digits, the size in decimal, the path, each after a space, and a
//! NUL, because a path holds anything else. It is appended by one write after the store has acknowledged the
//! file, so a journal cut short by a kill never names a file that is not there; an unfinished record at its end is
//! ignored, and cut off before another is appended.

use crate::failure::{Exit, Failure, Outcome};
use crate::path::shown_outside;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A journal that is being written.
#[derive(Debug)]
pub(super) struct Journal {
    /// Guards the end of the file: records must not mix. Nothing else is taken under it.
    file: Mutex<File>,
    path: PathBuf,
}

/// A file that was acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) crc: u32,
    pub(super) size_bytes: u64,
    /// In the container.
    pub(super) path: Vec<u8>,
}

impl Journal {
    /// Opens a journal for appending, without what a kill left of a record at its end.
    ///
    /// # Errors
    /// Also if the file is there and no journal: nothing is appended to it then.
    pub(super) fn open(path: &Path) -> Outcome<Self> {
        let (file, bytes) = whole(path, std::fs::OpenOptions::new().read(true).append(true).create(true))?;
        let failed = |error| Failure::on_file(path, &error);
        let (_, whole_bytes) = records(path, &bytes)?;
        if whole_bytes < bytes.len() {
            file.set_len(whole_bytes as u64).map_err(failed)?;
        }
        Ok(Self { file: Mutex::new(file), path: path.to_owned() })
    }

    /// Adds a file: the hook of a put.
    ///
    /// # Errors
    /// `Local` if the journal cannot be written: then nobody could tell what is acknowledged.
    pub(super) fn add(&self, path: &[u8], size_bytes: u64, crc: u32) -> dolmen_dfs::Result<()> {
        let mut line = format!("{crc:08x} {size_bytes} ").into_bytes();
        line.extend_from_slice(path);
        line.push(0);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(dolmen_dfs::errno::EIO);
            dolmen_dfs::Error::Local { path: self.path.clone(), errno }
        })
    }
}

/// Reads a journal.
pub(super) fn read(path: &Path) -> Outcome<Vec<Record>> {
    let (_, bytes) = whole(path, std::fs::OpenOptions::new().read(true))?;
    Ok(records(path, &bytes)?.0)
}

/// Opens a regular file and reads it: a pipe or a device may have no end, or be waited for.
fn whole(path: &Path, how: &std::fs::OpenOptions) -> Outcome<(File, Vec<u8>)> {
    let failed = |error| Failure::on_file(path, &error);
    if path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let failure = Failure::new(Exit::Usage, format!("{} is no regular file", shown_outside(path)));
        return Err(failure.hint("name a file for the journal, or one that is not there yet"));
    }
    let mut file = how.open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok((file, bytes))
}

/// The records of a journal, and where the last whole one ends.
fn records(path: &Path, bytes: &[u8]) -> Outcome<(Vec<Record>, usize)> {
    let foreign =
        |at| Failure::new(Exit::Usage, format!("{} is no journal of a put: byte {at}", shown_outside(path)));
    let mut records = Vec::new();
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|&byte| byte == 0) {
        let record = parse(&rest[..end]).ok_or_else(|| foreign(bytes.len() - rest.len()))?;
        records.push(record);
        rest = &rest[end + 1..];
    }
    let whole_bytes = bytes.len() - rest.len();
    if is_begun(rest) { Ok((records, whole_bytes)) } else { Err(foreign(whole_bytes)) }
}

/// Whether a record may begin with this.
fn is_begun(tail: &[u8]) -> bool {
    let mut parts = tail.splitn(3, |&byte| byte == b' ');
    let (crc, size, path) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let is_crc = crc.iter().all(u8::is_ascii_hexdigit) && (crc.len() == 8 || crc.len() < 8 && size.is_none());
    is_crc
        && size.is_none_or(|size| size.iter().all(u8::is_ascii_digit) && (!size.is_empty() || path.is_none()))
}

fn parse(record: &[u8]) -> Option<Record> {
    let mut parts = record.splitn(3, |&byte| byte == b' ');
    let mut text = || core::str::from_utf8(parts.next()?).ok();
    let crc = u32::from_str_radix(text()?, 16).ok()?;
    let size_bytes = text()?.parse().ok()?;
    let path = parts.next()?.to_vec();
    Some(Record { crc, size_bytes, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_holds_any_path_and_half_of_one_is_none() {
        let record = parse(b"0000002a 7 /a b\nc").unwrap();
        assert_eq!(record, Record { crc: 42, size_bytes: 7, path: b"/a b\nc".to_vec() });
        for wrong in [&b"0000002a 7"[..], b"", b"x 7 /a", b"1 y /a"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
        let whole = b"0000002a 7 /a b\nc";
        assert!((0..=whole.len()).all(|len| is_begun(&whole[..len])));
        for foreign in [&b"some text"[..], b"2a 7 /a", b"0000002a 7a", b"0000002a  /a", b"0000002ab"] {
            assert!(!is_begun(foreign), "{foreign:?}");
        }
    }
}
