//! What surrounds payloads in a file of ROOT that is written: keys, the directory, the file's own header.
//!
//! The same calls in the same order give the same bytes at the same places, whether a file is written or one that is only
//! read is made up. The larger form, with places of 64 bits, is written always.

use super::anchor::Anchor;
use super::big::Bytes;
use crate::error::{Error, Result, Structure};
use crate::format::checksum;

/// Where the first key is.
const BEGIN: u64 = 100;

/// The version of ROOT whose form of a file it is, with the mark of the larger form.
const FILE_VERSION: u32 = 1_063_400;

/// The version of a key, with the mark of the larger form.
const KEY_VERSION: u16 = 1004;

/// The version of a directory, with the mark of the larger form.
const DIRECTORY_VERSION: u16 = 1005;

/// Bytes of a key without its texts.
const KEY_BYTES: usize = 34;

/// Bytes of a payload that one key may have: four bytes count them and the key's own, and ROOT has them with sign.
pub(super) const BLOB_BYTES_MAX: u64 = 1 << 30;

/// Bytes of a name at most: a key says its own in 16 bits.
const NAME_BYTES_MAX: u64 = 16 << 10;

/// Names of a key that is for what nobody looks up.
const BLOB_CLASS: &str = "RBlob";

/// The class of files.
const FILE_CLASS: &str = "TFile";

/// A moment, in the form that a file keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileTime(u32);

impl FileTime {
    /// The moment so many seconds after 1970 began, in UTC; what is before 1995 is its beginning, what is behind 2058 its end.
    ///
    /// # Panics
    /// Never: the years fit.
    #[must_use]
    pub fn of_unix(seconds: u64) -> Self {
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let mut rest = days;
        let mut year = 1970;
        let is_leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let year_days = |year| if is_leap(year) { 366 } else { 365 };
        while year < 2059 && rest >= year_days(year) {
            rest -= year_days(year);
            year += 1;
        }
        if year < 1995 {
            return Self(1 << 22 | 1 << 17);
        }
        if year > 2058 {
            return Self(63 << 26 | 12 << 22 | 31 << 17);
        }
        let february = if is_leap(year) { 29 } else { 28 };
        let mut month = 1;
        for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if rest < days {
                break;
            }
            rest -= days;
            month += 1;
        }
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let word =
            (year - 1995) << 26 | month << 22 | (rest + 1) << 17 | hour << 12 | minute << 6 | (second % 60);
        Self(u32::try_from(word).expect("the years fit into six bits"))
    }
}

/// A file that is laid out from its start.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    at: u64,
    file_name: Box<str>,
    ntuple: Box<str>,
    time: FileTime,
}

/// The last bytes of a file and, known only with them, the first.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) first: Vec<u8>,
    /// Where `last` begins.
    pub(crate) last_at: u64,
    pub(crate) last: Vec<u8>,
}

impl Layout {
    /// A file of that name with that ntuple, whose first payload comes next.
    pub(crate) fn new(file_name: &str, ntuple: &str, time: FileTime) -> Result<Self> {
        for name in [file_name, ntuple] {
            let (bytes, bytes_max) = (name.len() as u64, NAME_BYTES_MAX);
            if bytes > bytes_max {
                return Err(Error::TooBig { structure: Structure::Key, offset: 0, bytes, bytes_max });
            }
        }
        let mut layout = Self { at: BEGIN, file_name: file_name.into(), ntuple: ntuple.into(), time };
        layout.at += layout.file_record(0, 0).len() as u64;
        Ok(layout)
    }

    /// Where the next byte goes.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Room for a payload that nobody looks up: the key before it, and where it is.
    pub(crate) fn blob(&mut self, payload_bytes: u64) -> Result<(Vec<u8>, u64)> {
        if payload_bytes > BLOB_BYTES_MAX {
            let (structure, offset) = (Structure::Key, self.at);
            return Err(Error::TooBig { structure, offset, bytes: payload_bytes, bytes_max: BLOB_BYTES_MAX });
        }
        let payload_bytes = u32::try_from(payload_bytes).expect("it was compared with the limit");
        let key = self.key([BLOB_CLASS, "", ""], payload_bytes, self.at);
        let payload_at = self.at + key.len() as u64;
        self.at = payload_at + u64::from(payload_bytes);
        Ok((key, payload_at))
    }

    /// What ends the file, and what begins it.
    pub(crate) fn finish(mut self, anchor: &Anchor) -> Ends {
        let last_at = self.at;
        let mut last = Vec::new();
        let object = anchor.write();
        let (name, ntuple) = (self.file_name.clone(), self.ntuple.clone());
        let anchor_key = self.put(&mut last, ["ROOT::RNTuple", &ntuple, ""], &object);
        let keys_at = self.at;
        // One key is listed.
        let keys = [&[0, 0, 0, 1][..], &anchor_key];
        let keys_bytes =
            self.put(&mut last, [FILE_CLASS, &name, ""], &keys.concat()).len() + 4 + anchor_key.len();
        let infos_at = self.at;
        let infos = empty_list();
        let infos_bytes =
            self.put(&mut last, ["TList", "StreamerInfo", "Doubly linked list"], &infos).len() + infos.len();
        let free_at = self.at;
        let free_bytes = self.key([FILE_CLASS, &name, ""], FREE_BYTES, free_at).len() + FREE_BYTES as usize;
        let end = free_at + free_bytes as u64;
        let mut free = Bytes::default();
        free.u16(FREE_VERSION);
        free.u64(end);
        free.u64(FREE_END.max(end + 1));
        self.put(&mut last, [FILE_CLASS, &name, ""], &free.0);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&checksum(&last).to_le_bytes());
        id[8..].copy_from_slice(&checksum(&object).to_le_bytes());
        let count = |bytes: usize| u32::try_from(bytes).expect("names are short");
        let record = self.file_record(keys_at, count(keys_bytes));
        let name_bytes = count(record.len() - DIRECTORY_BYTES);
        let mut first = Bytes::default();
        first.0.extend_from_slice(b"root");
        first.u32(FILE_VERSION);
        first.u32(u32::try_from(BEGIN).expect("it is small"));
        first.u64(end);
        first.u64(free_at);
        first.u32(count(free_bytes));
        first.u32(1);
        first.u32(name_bytes);
        first.u8(8);
        first.u32(0);
        first.u64(infos_at);
        first.u32(count(infos_bytes));
        first.u16(1);
        first.0.extend_from_slice(&id);
        first.0.resize(usize::try_from(BEGIN).expect("it is small"), 0);
        first.0.extend_from_slice(&record);
        Ends { first: first.0, last_at, last }
    }

    /// Appends a key and its object; the key.
    fn put(&mut self, last: &mut Vec<u8>, texts: [&str; 3], object: &[u8]) -> Vec<u8> {
        let object_bytes = u32::try_from(object.len()).expect("names are short");
        let key = self.key(texts, object_bytes, self.at);
        last.extend_from_slice(&key);
        last.extend_from_slice(object);
        self.at += (key.len() + object.len()) as u64;
        key
    }

    /// The key at `at` of an object of a class, a name and a title.
    fn key(&self, texts: [&str; 3], object_bytes: u32, at: u64) -> Vec<u8> {
        let mut tail = Bytes::default();
        texts.iter().for_each(|text| tail.string(text));
        let key_bytes = u16::try_from(KEY_BYTES + tail.0.len()).expect("names were looked at");
        let mut key = Bytes::default();
        key.u32(u32::from(key_bytes) + object_bytes);
        key.u16(KEY_VERSION);
        key.u32(object_bytes);
        key.u32(self.time.0);
        key.u16(key_bytes);
        key.u16(1);
        key.u64(at);
        key.u64(BEGIN);
        key.0.extend_from_slice(&tail.0);
        key.0
    }

    /// The first key with what the file says of itself as a directory, whose list of keys is at `keys_at`.
    fn file_record(&self, keys_at: u64, keys_bytes: u32) -> Vec<u8> {
        let mut names = Bytes::default();
        names.string(&self.file_name);
        names.string("");
        let object_bytes = u32::try_from(names.0.len() + DIRECTORY_BYTES).expect("names are short");
        let mut record = Bytes(self.key([FILE_CLASS, &self.file_name, ""], object_bytes, BEGIN));
        record.0.extend_from_slice(&names.0);
        let name_bytes = u32::try_from(record.0.len()).expect("names are short");
        record.u16(DIRECTORY_VERSION);
        record.u32(self.time.0);
        record.u32(self.time.0);
        record.u32(keys_bytes);
        record.u32(name_bytes);
        record.u64(BEGIN);
        record.u64(0);
        record.u64(keys_at);
        record.u16(1);
        record.0.extend_from_slice(&[0; 16]);
        record.0
    }
}

/// Bytes of what a directory says of itself.
const DIRECTORY_BYTES: usize = 2 + 4 * 4 + 3 * 8 + 18;

/// Bytes of what says where a file ends.
const FREE_BYTES: u32 = 18;

/// The version of that, with the mark of the larger form.
const FREE_VERSION: u16 = 1001;

/// Where the room behind a file ends that ROOT takes for more.
const FREE_END: u64 = 2_000_000_000;

/// A list of ROOT without members: its files describe classes in one, and those of an ntuple are known to its readers.
fn empty_list() -> Vec<u8> {
    let mut list = Bytes::default();
    list.u32(0x4000_0000 | 17);
    list.u16(5);
    list.u16(1);
    list.u32(0);
    list.u32(0x0200_0000);
    list.string("");
    list.u32(0);
    list.0
}

#[cfg(test)]
mod tests {
    use super::FileTime;

    #[test]
    fn a_moment_is_that_of_the_calendar() {
        // 2024-02-29 12:34:56 UTC.
        let word = 29 << 26 | 2 << 22 | 29 << 17 | 12 << 12 | 34 << 6 | 56;
        assert_eq!(FileTime::of_unix(1_709_210_096), FileTime(word));
        assert_eq!(FileTime::of_unix(0), FileTime(1 << 22 | 1 << 17));
        assert_eq!(FileTime::of_unix(u64::MAX), FileTime(63 << 26 | 12 << 22 | 31 << 17));
    }
}
