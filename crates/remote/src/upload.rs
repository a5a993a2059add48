//! Objects that are written: many side by side, large ones in parts, and one that grows.

use crate::address::Address;
use crate::error::{is_no_upload, not_known};
use crate::options::Options;
use crate::remote::Remote;
use crate::runtime::wait;
use crate::stores;
use bytes::Bytes;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_rntuple::bucket::{BucketResult, Put};
use dolmen_rntuple::rootfile::Output;
use dolmen_types::IoBuf;
use futures_util::{StreamExt, stream};
use md5::{Digest as _, Md5};
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutOptions, PutPayload, Result as Answer};
use std::io::IoSlice;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Objects of so many bytes are written in parts.
const PARTED_BYTES: usize = 16 << 20;

/// Bytes of a part. Services take 5 MiB at least, and 10,000 parts.
const PART_BYTES: usize = 8 << 20;

/// Parts of an object that is written at once.
const PARTS_MAX: usize = 10_000;

/// A buffer that is given away.
struct Owned(IoBuf);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Writes objects, `at_once_max` side by side. After one has failed no other is begun.
pub(crate) async fn put_all(
    remote: &Remote,
    puts: Vec<(&AmazonS3, Path, Put)>,
    at_once_max: usize,
) -> BucketResult<()> {
    let has_failed = &AtomicBool::new(false);
    let answers = stream::iter(puts).map(|(store, path, put)| async move {
        let bytes = Bytes::from_owner(Owned(put.bytes));
        let answer = if bytes.len() < PARTED_BYTES {
            put_whole(remote, store, &path, bytes, has_failed).await
        } else {
            put_parts(remote, store, &path, &bytes, at_once_max, has_failed).await
        };
        answer.map_err(|said| {
            has_failed.store(true, Ordering::Relaxed);
            remote.failed("put", &put.key, said)
        })
    });
    // All end, those of parts with what takes the parts away.
    let answers: Vec<BucketResult<()>> = answers.buffer_unordered(at_once_max).collect().await;
    answers.into_iter().collect()
}

async fn put_whole(
    remote: &Remote,
    store: &AmazonS3,
    path: &Path,
    bytes: Bytes,
    has_failed: &AtomicBool,
) -> Answer<()> {
    let _permits = remote.put_permit().await;
    if has_failed.load(Ordering::Relaxed) {
        // Whoever set it says why.
        return Ok(());
    }
    store.put_opts(path, PutPayload::from(bytes), PutOptions::default()).await?;
    Ok(())
}

/// Writes an object in parts, side by side; if one fails the others go.
async fn put_parts(
    remote: &Remote,
    store: &AmazonS3,
    path: &Path,
    bytes: &Bytes,
    at_once_max: usize,
    has_failed: &AtomicBool,
) -> Answer<()> {
    if has_failed.load(Ordering::Relaxed) {
        return Ok(());
    }
    let id = &store.create_multipart(path).await?;
    let part_bytes = PART_BYTES.max(bytes.len().div_ceil(PARTS_MAX));
    let starts = (0..bytes.len()).step_by(part_bytes).enumerate();
    let parts = stream::iter(starts).map(|(nth, start)| async move {
        let _permits = remote.put_permit().await;
        let part = bytes.slice(start..bytes.len().min(start + part_bytes));
        store.put_part(path, id, nth, PutPayload::from(part)).await
    });
    let mut parts = parts.buffered(at_once_max);
    let mut whole = Vec::new();
    let mut answer = Ok(());
    while let Some(part) = parts.next().await {
        match part {
            Ok(part) => whole.push(part),
            Err(said) => {
                answer = Err(said);
                break;
            }
        }
    }
    drop(parts);
    if answer.is_ok() {
        answer = put_together(store, path, (id, whole)).await;
    }
    if answer.is_err() {
        // Ignored: what failed before is told; a service takes away what is never completed as its owner has set.
        drop(store.abort_multipart(path, id).await);
    }
    answer
}

/// Makes an object of the parts of an upload. Where the answer is lost its repetition is told that there is no such upload: then
/// the tag of what is there says whether it was done.
async fn put_together(store: &AmazonS3, path: &Path, (id, parts): (&String, Vec<PartId>)) -> Answer<()> {
    let tag = tag_of(&parts);
    let Err(said) = store.complete_multipart(path, id, parts).await else { return Ok(()) };
    if !is_no_upload(&said) {
        return Err(said);
    }
    let Some(tag) = tag else { return Err(not_known(said)) };
    match store.head(path).await {
        Ok(now) if now.e_tag.as_ref().is_some_and(|e_tag| bare(e_tag).eq_ignore_ascii_case(&tag)) => Ok(()),
        _ => Err(not_known(said)),
    }
}

/// The tag of an object of these parts: the MD5 of those of the parts, which are their tags, and how many there are. `None` where the
/// tags of parts are something else, as they are of some that are encrypted.
fn tag_of(parts: &[PartId]) -> Option<String> {
    let mut whole = Md5::new();
    for part in parts {
        whole.update(md5_in(bare(&part.content_id))?);
    }
    let mut tag = String::new();
    for byte in whole.finalize() {
        write!(tag, "{byte:02x}").expect("a string takes all");
    }
    write!(tag, "-{}", parts.len()).expect("a string takes all");
    Some(tag)
}

fn md5_in(tag: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let is_hex = tag.len() == 32 && tag.bytes().all(|digit| digit.is_ascii_hexdigit());
    for (nth, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(tag.get(2 * nth..2 * nth + 2)?, 16).ok()?;
    }
    is_hex.then_some(bytes)
}

/// A tag without its quotes.
fn bare(tag: &str) -> &str {
    tag.trim_matches('"')
}

/// Parts of an object that grows which are under way at once: what it takes of memory, with the first and the one that is being filled.
const GROWING_MAX: usize = 4;

/// An object that is written piece by piece, and is there when it is [`finish`](Output::finish)ed. Dropped before, it never is.
///
/// It keeps six parts in memory at most, of 8 MiB in the first 8 GB, and later of more, so that 10,000 are enough.
pub struct RemoteOutput {
    remote: Arc<Remote>,
    key: Box<str>,
    path: Path,
    /// Of the upload, once there is a part.
    id: Option<String>,
    /// The first part, of which the start is written last.
    first: Vec<u8>,
    /// The part that is being filled, behind the first.
    growing: Vec<u8>,
    offset: u64,
    part_count: usize,
    under_way: JoinSet<(usize, Answer<PartId>)>,
    done: Vec<(usize, PartId)>,
}

impl RemoteOutput {
    /// Begins the object at `s3://bucket/path/file`. Whether it lies within a store of ntuples, or at the address of one, is asked at once,
    /// where whoever asks may read; nothing else is before there is a part of it.
    ///
    /// # Errors
    /// [`Error`](crate::Error); [`Error::WithinStore`](crate::Error::WithinStore) if it does.
    pub fn open(address: &str, options: &Options) -> crate::Result<Self> {
        let (Address { bucket, prefix }, key) = Address::of_object(address)?;
        let whole = Address { bucket, prefix: String::new() };
        let key = if prefix.is_empty() { key } else { format!("{prefix}/{key}") };
        let remote = Arc::new(Remote::at(whole.clone(), options)?);
        let output = Self::create(&remote, &key).map_err(crate::Error::Bucket)?;
        match stores::at_or_above(&remote, &key).map_err(crate::Error::Bucket)? {
            None => Ok(output),
            Some(prefix) => {
                let store = Address { prefix, ..whole }.written().into();
                Err(crate::Error::WithinStore { address: address.into(), store })
            }
        }
    }

    /// Begins the object `key`; nothing is asked before there is a part of it.
    ///
    /// # Errors
    /// [`BucketError`](dolmen_rntuple::bucket::BucketError) of a key that is none.
    pub fn create(remote: &Arc<Remote>, key: &str) -> BucketResult<Self> {
        Ok(Self {
            path: remote.path(DOING, key)?,
            remote: Arc::clone(remote),
            key: key.into(),
            id: None,
            first: Vec::new(),
            growing: Vec::new(),
            offset: 0,
            part_count: 1,
            under_way: JoinSet::new(),
            done: Vec::new(),
        })
    }

    /// What the object is called: all of its key behind the last slash.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or(&self.key)
    }

    /// Appends to the part that is being filled; full ones go.
    fn append(&mut self, mut bytes: &[u8]) -> BucketResult<()> {
        while !bytes.is_empty() {
            let is_first = self.first.len() < PART_BYTES;
            let room = if is_first {
                PART_BYTES - self.first.len()
            } else {
                part_bytes(self.part_count) - self.growing.len()
            };
            let (some, rest) = bytes.split_at(room.min(bytes.len()));
            if is_first {
                self.first.extend_from_slice(some);
            } else {
                self.growing.extend_from_slice(some);
                if self.growing.len() == part_bytes(self.part_count) {
                    let (nth, part) = (self.part_count, core::mem::take(&mut self.growing));
                    self.part_count += 1;
                    self.send(nth, part)?;
                }
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Has a part written while others are filled.
    fn send(&mut self, nth: usize, part: Vec<u8>) -> BucketResult<()> {
        let id = self.begin()?;
        while self.under_way.len() >= GROWING_MAX {
            self.wait()?;
        }
        let (remote, path, key) = (Arc::clone(&self.remote), self.path.clone(), self.key.clone());
        let put = async move {
            let store = match remote.store(DOING, &key) {
                Ok(store) => store,
                Err(error) => {
                    return (nth, Err(object_store::Error::NotSupported { source: Box::new(error) }));
                }
            };
            let _permits = remote.put_permit().await;
            (nth, store.put_part(&path, &id, nth, PutPayload::from(part)).await)
        };
        self.under_way.spawn_on(put, self.remote.runtime().handle());
        Ok(())
    }

    /// The upload, which begins with its first part.
    fn begin(&mut self) -> BucketResult<String> {
        if let Some(id) = &self.id {
            return Ok(id.clone());
        }
        let store = self.remote.store(DOING, &self.key)?;
        let id = wait(self.remote.runtime(), (DOING, &self.key), store.create_multipart(&self.path))?;
        let id = id.map_err(|said| self.remote.failed(DOING, &self.key, said))?;
        Ok(self.id.insert(id).clone())
    }

    /// Waits for one of the parts under way, if there is any.
    fn wait(&mut self) -> BucketResult<()> {
        // A forked child has none of what keeps them going.
        self.remote.store(DOING, &self.key)?;
        match wait(self.remote.runtime(), (DOING, &self.key), self.under_way.join_next())? {
            None => Ok(()),
            Some(joined) => {
                let (nth, part) = joined.expect("nothing stops it, and it does not panic");
                self.done.push((nth, part.map_err(|said| self.remote.failed(DOING, &self.key, said))?));
                Ok(())
            }
        }
    }

    fn complete(&mut self) -> BucketResult<()> {
        let first = core::mem::take(&mut self.first);
        if self.id.is_none() && self.growing.is_empty() {
            let store = self.remote.store(DOING, &self.key)?;
            let put = store.put_opts(&self.path, PutPayload::from(first), PutOptions::default());
            let put = wait(self.remote.runtime(), (DOING, &self.key), put)?;
            return put.map(drop).map_err(|said| self.remote.failed(DOING, &self.key, said));
        }
        self.send(0, first)?;
        if !self.growing.is_empty() {
            let last = core::mem::take(&mut self.growing);
            self.send(self.part_count, last)?;
        }
        while !self.under_way.is_empty() {
            self.wait()?;
        }
        self.done.sort_by_key(|(nth, _)| *nth);
        let parts = self.done.drain(..).map(|(_, part)| part).collect();
        let id = self.begin()?;
        let store = self.remote.store(DOING, &self.key)?;
        let complete = put_together(store, &self.path, (&id, parts));
        let completed = wait(self.remote.runtime(), (DOING, &self.key), complete)?;
        completed.map_err(|said| self.remote.failed(DOING, &self.key, said))?;
        self.id = None;
        Ok(())
    }
}

/// What is asked for, in errors.
const DOING: &str = "put";

/// Bytes of the part of a number, so that 10,000 are enough for 5 TB, the most that services take.
fn part_bytes(nth: usize) -> usize {
    match nth {
        0..1_000 => PART_BYTES,
        1_000..4_000 => 8 * PART_BYTES,
        _ => 128 * PART_BYTES,
    }
}

impl Output for RemoteOutput {
    fn put_at(&mut self, offset: u64, buffers: &[IoSlice<'_>]) -> std::io::Result<()> {
        let bytes: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        if self.first.is_empty() {
            // The start of the file, which is known last.
            let left = usize::try_from(offset).unwrap_or(usize::MAX);
            assert!(left < PART_BYTES, "the start of a file is a small part of it");
            self.first.resize(left, 0);
            self.offset = offset;
        }
        if offset == self.offset {
            for buffer in buffers {
                self.append(buffer).map_err(std::io::Error::other)?;
            }
            self.offset += bytes;
            return Ok(());
        }
        let mut at = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = offset.checked_add(bytes).and_then(|end| usize::try_from(end).ok());
        assert!(end.is_some_and(|end| end <= self.first.len()), "only the start is written out of order");
        for buffer in buffers {
            self.first[at..at + buffer.len()].copy_from_slice(buffer);
            at += buffer.len();
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> std::io::Result<()> {
        self.complete().map_err(std::io::Error::other)
    }
}

impl Drop for RemoteOutput {
    fn drop(&mut self) {
        let Ok(store) = self.remote.store(DOING, &self.key) else {
            // What keeps them going is the parent's.
            core::mem::forget(core::mem::take(&mut self.under_way));
            return;
        };
        let Some(id) = self.id.take() else { return };
        let abort = async {
            self.under_way.shutdown().await;
            drop(store.abort_multipart(&self.path, &id).await);
        };
        // Ignored: nobody is left to tell; a service takes away what is never completed as its owner has set.
        drop(wait(self.remote.runtime(), (DOING, &self.key), abort));
    }
}

impl core::fmt::Debug for RemoteOutput {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RemoteOutput")
            .field("key", &self.key)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(tag: &str) -> PartId {
        PartId { content_id: tag.to_owned() }
    }

    #[test]
    fn the_tag_of_an_object_is_that_of_its_parts_where_theirs_are_sums() {
        let empty = "d41d8cd98f00b204e9800998ecf8427e";
        let quoted = format!("\"{}\"", empty.to_uppercase());
        assert_eq!(tag_of(&[part(empty)]).unwrap(), "59adb24ef3cdbe0297f05b395827453f-1");
        assert_eq!(tag_of(&[part(&quoted), part(empty)]), tag_of(&[part(empty), part(&quoted)]));
        for other in ["", &empty[1..], &format!("+{}", &empty[1..]), &format!("{empty}-1")] {
            assert_eq!(tag_of(&[part(empty), part(other)]), None, "{other}");
        }
    }
}
