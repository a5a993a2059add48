//! A file of ROOT: which objects it has, and reading of what locators point to.

use super::anchor::Anchor;
use super::big;
use super::key::{KEY_BYTES_MIN, Key};
use crate::error::{Error, Fault, Result, Structure};
use crate::format::locator::Locator;
use crate::format::{Cursor, block};
use crate::source::{Source, Want, file_offset, short, within};
use core::fmt;
use rustix::io::Errno;
use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes at the start that are read for the file's own header: of the larger form.
const HEADER_BYTES: usize = 64;

/// Files of a larger version have places of 64 bits.
const SMALL_VERSION_MAX: i32 = 999_999;

/// No version will ever be larger; text that happens to begin with the word of a file goes on with what would be.
const VERSION_MAX: i32 = 9_999_999;

/// Bytes of what a directory says of itself, of the larger form.
const DIRECTORY_BYTES: usize = 42;

/// Bytes of the header between that of the names and the place of the descriptions of classes.
const COMPRESSION_BYTES: usize = 1 + 4;

/// Directories within directories that are looked into.
const DEPTH_MAX: usize = 32;

/// Bytes of a list of keys that are read at most: a million keys with names of 200 bytes.
const KEYS_BYTES_MAX: u32 = 256 << 20;

/// Bytes of a key that are read at most, of one without long names.
const KEY_BYTES_MAX: u32 = 4096;

/// Bytes of an anchor that are read at most.
const ANCHOR_BYTES_MAX: u32 = 1 << 20;

/// Buffers of one read of the system.
const BUFFERS_MAX: usize = 256;

/// The class of anchors.
const ANCHOR_CLASS: &str = "ROOT::RNTuple";

/// What has the bytes of a file.
enum Bytes {
    Local(File),
    Elsewhere(Box<dyn Source>),
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(file) => file.fmt(f),
            Self::Elsewhere(_) => f.write_str("Elsewhere"),
        }
    }
}

/// A file of ROOT that is open for reading.
#[derive(Debug)]
pub struct RootFile {
    file: Bytes,
    /// Keys of all directories, with the directories' names before theirs.
    keys: Vec<Key>,
    length_bytes: u64,
    key_bytes_max: Option<u64>,
    /// Where the key of the descriptions of classes is, and how many bytes it has with them; 0 if there are none.
    descriptions: (u64, u32),
}

impl RootFile {
    /// Opens the file at `path` and reads its keys.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corrupt`] if it is no file of ROOT.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|source| Error::Io { offset: 0, source })?;
        let metadata = file.metadata().map_err(|source| Error::Io { offset: 0, source })?;
        Self::of(Bytes::Local(file), metadata.len())
    }

    /// Opens a file of `length_bytes` whose bytes are elsewhere, and reads its keys.
    ///
    /// # Errors
    /// What `source` says; [`Error::Corrupt`] if it is no file of ROOT.
    pub fn open_on(source: Box<dyn Source>, length_bytes: u64) -> Result<Self> {
        Self::of(Bytes::Elsewhere(source), length_bytes)
    }

    fn of(file: Bytes, length_bytes: u64) -> Result<Self> {
        let mut opened =
            Self { file, keys: Vec::new(), length_bytes, key_bytes_max: None, descriptions: (0, 0) };
        let top = opened.top_directory()?;
        opened.read_directory(top, "", 0)?;
        Ok(opened)
    }

    /// Keys of all directories; names have those of their directories before them, with slashes.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Names of the ntuples in it.
    #[must_use]
    pub fn ntuples(&self) -> Vec<Box<str>> {
        let mut names: Vec<_> = self.anchors().map(|key| key.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn anchors(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(|key| &*key.class == ANCHOR_CLASS)
    }

    /// The anchor of the ntuple `name`, of the last cycle; what is fetched afterwards is by its limit of keys.
    ///
    /// # Errors
    /// [`Error::NoNtuple`]; what [`Anchor::read`] says.
    pub fn anchor(&mut self, name: &str) -> Result<Anchor> {
        let found = self.anchors().filter(|key| &*key.name == name).max_by_key(|key| key.cycle);
        let Some(key) = found.cloned() else {
            return Err(Error::NoNtuple { name: name.into(), others: self.ntuples() });
        };
        let anchor = Anchor::read(&self.object(&key, ANCHOR_BYTES_MAX)?)?;
        self.key_bytes_max = anchor.key_bytes_max;
        Ok(anchor)
    }

    /// The object of a key, which may have `bytes_max`.
    pub(super) fn object(&self, key: &Key, bytes_max: u32) -> Result<Vec<u8>> {
        let bytes = key.stored_bytes.max(key.bytes);
        if bytes > bytes_max {
            let (bytes, bytes_max) = (u64::from(bytes), u64::from(bytes_max));
            return Err(Error::TooBig { structure: Structure::Key, offset: key.offset, bytes, bytes_max });
        }
        self.has(key.offset, u64::from(key.stored_bytes))?;
        let mut stored = vec![0; key.stored_bytes as usize];
        self.read_at(key.offset, &mut stored)?;
        if key.is_compressed() {
            return block::decompress(Structure::Key, &stored, u64::from(key.bytes));
        }
        Ok(stored)
    }

    /// Where the top directory says what it is; keeps where the descriptions of classes are.
    fn top_directory(&mut self) -> Result<u64> {
        let mut bytes = [0; HEADER_BYTES];
        let found = self.read_at(0, &mut bytes);
        let mut cursor = Cursor::new(Structure::File, &bytes);
        let start = cursor;
        if matches!(&found, Err(Error::Corrupt { fault: Fault::Short { .. }, .. })) {
            // What is too short for a file of ROOT and does not begin as one is none that is damaged.
            let mut first = [0; 4];
            let is_begun = self.read_at(0, &mut first).is_ok() && first == *b"root";
            return Err(if is_begun {
                found.expect_err("it was matched")
            } else {
                start.corrupt(Fault::Magic)
            });
        }
        found?;
        if cursor.take(4)? != b"root" {
            return Err(start.corrupt(Fault::Magic));
        }
        let (version, first) = (big::u32(&mut cursor)?, big::u32(&mut cursor)?);
        if version.cast_signed() > VERSION_MAX {
            return Err(start.corrupt(Fault::Magic));
        }
        // Some programs leave a number below 0 here; it is a small one.
        let is_large = version.cast_signed() > SMALL_VERSION_MAX;
        for _ in ["end", "free"] {
            big::place(&mut cursor, is_large)?;
        }
        for _ in ["bytes of the list of what is free", "how many are free"] {
            big::u32(&mut cursor)?;
        }
        let name_bytes = big::u32(&mut cursor)?;
        cursor.take(COMPRESSION_BYTES)?;
        self.descriptions = (big::place(&mut cursor, is_large)?, big::u32(&mut cursor)?);
        Ok(u64::from(first) + u64::from(name_bytes))
    }

    /// Reads the keys of the directory that says at `offset` what it is.
    fn read_directory(&mut self, offset: u64, path: &str, depth: usize) -> Result<()> {
        let mut bytes = [0; DIRECTORY_BYTES];
        let count = self.read_up_to(offset, &mut bytes)?;
        let mut cursor = Cursor::within(Structure::Directory, &bytes[..count], offset);
        let start = cursor;
        let is_large = big::u16(&mut cursor)? > 1000;
        cursor.take(8)?;
        let (keys_bytes, _name_bytes) = (big::u32(&mut cursor)?, big::u32(&mut cursor)?);
        for _ in ["this directory", "the one above"] {
            big::place(&mut cursor, is_large)?;
        }
        let keys_at = big::place(&mut cursor, is_large)?;
        if depth > DEPTH_MAX {
            return Err(start.corrupt(Fault::Value));
        }
        if keys_at == 0 {
            return Ok(());
        }
        if keys_bytes > KEYS_BYTES_MAX {
            let (bytes, bytes_max) = (u64::from(keys_bytes), u64::from(KEYS_BYTES_MAX));
            return Err(Error::TooBig { structure: Structure::Directory, offset, bytes, bytes_max });
        }
        for key in self.read_keys(keys_at, keys_bytes)? {
            let name: Box<str> = format!("{path}{}", key.name).into();
            if matches!(&*key.class, "TDirectory" | "TDirectoryFile") {
                self.read_directory(key.offset, &format!("{name}/"), depth + 1)?;
            }
            self.keys.push(Key { name, ..key });
        }
        Ok(())
    }

    fn read_keys(&self, offset: u64, keys_bytes: u32) -> Result<Vec<Key>> {
        let mut bytes = Vec::new();
        let left = self.length_bytes.saturating_sub(offset);
        if u64::from(keys_bytes) > left {
            let fault = Fault::Short { wanted_bytes: u64::from(keys_bytes), left_bytes: left };
            return Err(Error::Corrupt { structure: Structure::Directory, offset, fault });
        }
        bytes.resize(keys_bytes as usize, 0);
        self.read_at(offset, &mut bytes)?;
        let mut cursor = Cursor::within(Structure::Directory, &bytes, offset);
        Key::read(&mut cursor)?;
        let start = cursor;
        let count = big::u32(&mut cursor)? as usize;
        if count > cursor.remaining() / KEY_BYTES_MIN {
            return Err(start.corrupt(Fault::Length));
        }
        (0..count).map(|_| Key::read(&mut cursor)).collect()
    }

    /// The key of the descriptions of classes, if there are any.
    pub(super) fn descriptions(&self) -> Result<Option<Key>> {
        let (offset, bytes) = self.descriptions;
        if offset == 0 {
            return Ok(None);
        }
        let key = self.read_bytes(offset, bytes.min(KEY_BYTES_MAX))?;
        Key::read(&mut Cursor::within(Structure::Key, &key, offset)).map(Some)
    }

    /// `bytes` of the file from `offset`; memory is taken when it is known that they are there.
    pub(super) fn read_bytes(&self, offset: u64, bytes: u32) -> Result<Vec<u8>> {
        self.has(offset, u64::from(bytes))?;
        let mut read = vec![0; bytes as usize];
        self.read_at(offset, &mut read)?;
        Ok(read)
    }

    /// Whether the file has `bytes` from `offset`.
    fn has(&self, offset: u64, bytes: u64) -> Result<()> {
        within(Locator::File { offset, bytes }, bytes, self.length_bytes)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let count = self.read_up_to(offset, into)?;
        if count == into.len() { Ok(()) } else { Err(short(offset, into.len(), count)) }
    }

    /// How many bytes were read: fewer only where the file ends.
    fn read_up_to(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let file = match &self.file {
            Bytes::Local(file) => file,
            Bytes::Elsewhere(source) => {
                let left = usize::try_from(self.length_bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
                let count = into.len().min(left);
                if count > 0 {
                    let locator = Locator::File { offset, bytes: count as u64 };
                    source.fetch(&mut [Want { locator, into: &mut into[..count] }])?;
                }
                return Ok(count);
            }
        };
        let mut count = 0;
        while count < into.len() {
            match file.read_at(&mut into[count..], offset.saturating_add(count as u64)) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Io { offset, source }),
            }
        }
        Ok(count)
    }

    /// Reads what is in several keys, since one may have `key_bytes_max`: the first ends with the places of the others.
    fn read_chunked(&self, offset: u64, into: &mut [u8], key_bytes_max: usize) -> Result<()> {
        let wrong = || Error::Corrupt { structure: Structure::Anchor, offset: 0, fault: Fault::Value };
        let room = key_bytes_max.checked_sub(8).filter(|&room| room > 0).ok_or_else(wrong)?;
        let others = (into.len() - 8).div_ceil(room) - 1;
        let places_bytes = others * 8;
        let first_bytes = key_bytes_max.checked_sub(places_bytes).ok_or_else(wrong)?;
        let (first, rest) = into.split_at_mut(first_bytes);
        self.read_at(offset, first)?;
        let mut places = vec![0; places_bytes];
        self.read_at(offset + first_bytes as u64, &mut places)?;
        for (part, place) in rest.chunks_mut(key_bytes_max).zip(places.as_chunks().0) {
            self.read_at(u64::from_le_bytes(*place), part)?;
        }
        Ok(())
    }

    /// Reads neighbours in the file with one call of the system.
    fn read_run(&self, file: &File, offset: u64, run: &mut [&mut Want<'_>]) -> Result<()> {
        let all: usize = run.iter().map(|want| want.into.len()).sum();
        let mut buffers: Vec<_> = run.iter_mut().map(|want| IoSliceMut::new(want.into)).collect();
        let count = loop {
            match rustix::io::preadv(file, &mut buffers, offset) {
                Ok(count) => break count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::Io { offset, source: errno.into() }),
            }
        };
        if count == all {
            return Ok(());
        }
        // The system gave less than was asked for: each by itself, which says where the file ends.
        let mut at = offset;
        for want in run {
            self.read_at(at, want.into)?;
            at += want.into.len() as u64;
        }
        Ok(())
    }
}

/// The same want, of another source.
fn elsewhere<'a>((_, want): (u64, &'a mut Want<'_>)) -> Want<'a> {
    Want { locator: want.locator, into: want.into }
}

impl Source for RootFile {
    fn fetch(&self, wants: &mut [Want<'_>]) -> Result<()> {
        let key_bytes_max =
            self.key_bytes_max.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
        let mut placed = Vec::with_capacity(wants.len());
        for want in wants {
            let offset = file_offset(want.locator)?;
            if want.into.len() > key_bytes_max {
                self.read_chunked(offset, want.into, key_bytes_max)?;
            } else {
                placed.push((offset, want));
            }
        }
        let file = match &self.file {
            Bytes::Local(file) => file,
            Bytes::Elsewhere(source) => {
                let mut wants: Vec<Want<'_>> = placed.into_iter().map(elsewhere).collect();
                return source.fetch(&mut wants);
            }
        };
        placed.sort_by_key(|(offset, _)| *offset);
        let mut run: Vec<&mut Want<'_>> = Vec::new();
        let (mut run_at, mut run_end) = (0, 0);
        for (offset, want) in placed {
            if offset != run_end || run.len() == BUFFERS_MAX {
                if !run.is_empty() {
                    self.read_run(file, run_at, &mut run)?;
                }
                run.clear();
                (run_at, run_end) = (offset, offset);
            }
            run_end = run_end.saturating_add(want.into.len() as u64);
            run.push(want);
        }
        if run.is_empty() { Ok(()) } else { self.read_run(file, run_at, &mut run) }
    }

    fn holds(&self, locator: Locator, bytes: u64) -> Result<()> {
        within(locator, bytes, self.length_bytes)
    }

    fn fetch_bytes_max(&self) -> u64 {
        match &self.file {
            Bytes::Local(_) => crate::source::FETCH_BYTES_MAX,
            Bytes::Elsewhere(source) => source.fetch_bytes_max(),
        }
    }

    fn has_groups(&self) -> bool {
        match &self.file {
            Bytes::Local(_) => false,
            Bytes::Elsewhere(source) => source.has_groups(),
        }
    }

    fn is_far(&self) -> bool {
        match &self.file {
            Bytes::Local(_) => false,
            Bytes::Elsewhere(source) => source.is_far(),
        }
    }
}
