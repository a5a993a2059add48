//! One object as a file.

use crate::address::Address;
use crate::answer;
use crate::error::{Error, Result, failed, is_absent, is_behind_the_end, untrue};
use crate::options::Options;
use crate::remote::{Remote, tag_of};
use crate::runtime::wait;
use dolmen_rntuple::bucket::{Bucket, BucketResult};
use dolmen_rntuple::format::locator::Locator;
use dolmen_rntuple::rootfile::RootFile;
use dolmen_rntuple::{Error as NtupleError, Fault, Feature, Source, Structure, Want};
use futures_util::{StreamExt, stream};
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, Result as Answer};
use std::sync::Arc;

/// Bytes at the start of a file that are read when it is opened: what it says of itself.
const START_BYTES: u64 = 64 << 10;

/// Bytes at its end: what a file of ROOT says of what is in it, and often header, footer and page lists.
const END_BYTES: u64 = 256 << 10;

/// Bytes that nobody wants are read with those beside them if they are at most so many: they take as long as a tenth of a request that takes
/// 15 ms, at 100 MB/s.
const GAP_BYTES: u64 = 128 << 10;

/// Bytes of a request at most, so that large ones go side by side.
const REQUEST_BYTES_MAX: u64 = 8 << 20;

/// What is asked for, in errors.
const DOING: &str = "get";

/// An object of a bucket, as a file whose bytes do not change: if it is replaced, reading what is not yet known fails.
#[derive(Debug)]
pub struct RemoteFile {
    remote: Arc<Remote>,
    key: Box<str>,
    path: Path,
    tag: String,
    length_bytes: u64,
    start: Vec<u8>,
    end: Vec<u8>,
}

/// Wants that are one request: from where, to where, and which.
struct Run<'a, 'b> {
    offset: u64,
    end: u64,
    wants: Vec<(u64, &'a mut Want<'b>)>,
}

impl RemoteFile {
    /// The object at `s3://bucket/path/file`.
    ///
    /// # Errors
    /// [`Error`]; [`Error::NoObject`] if there is none.
    pub fn open(address: &str, options: &Options) -> Result<Self> {
        let (address, key) = Address::of_object(address)?;
        Self::of(&Arc::new(Remote::at(address, options)?), &key)
    }

    /// The object `key` of a bucket.
    ///
    /// # Errors
    /// [`Error::NoObject`] if there is none; [`Error::Bucket`].
    pub fn of(remote: &Arc<Remote>, key: &str) -> Result<Self> {
        let store = remote.store(DOING, key).map_err(Error::Bucket)?;
        let path = remote.path(DOING, key).map_err(Error::Bucket)?;
        let mut file = Self {
            remote: Arc::clone(remote),
            key: key.into(),
            path,
            tag: String::new(),
            length_bytes: 0,
            start: Vec::new(),
            end: Vec::new(),
        };
        let begun = wait(remote.runtime(), (DOING, key), async {
            let _permit = remote.permit().await;
            let range = Some(GetRange::Bounded(0..START_BYTES));
            let got = store.get_opts(&file.path, GetOptions { range, ..GetOptions::default() }).await?;
            let meta = got.meta.clone();
            Ok((meta, answer::all(got).await?))
        });
        let begun = begun.map_err(Error::Bucket)?;
        let (meta, start) = match begun {
            Ok(begun) => begun,
            Err(said) if is_absent(&said) => {
                return Err(Error::NoObject { address: format!("{}/{key}", remote.address()).into() });
            }
            // An empty object has no first byte: what is read of it is too short.
            Err(said) if is_behind_the_end(&said) => return Ok(file),
            Err(said) => return Err(Error::Bucket(failed(DOING, key, said))),
        };
        file.tag = tag_of(DOING, key, meta.e_tag).map_err(Error::Bucket)?.0.into();
        file.length_bytes = meta.size;
        file.start = start;
        let rest_bytes = meta.size.saturating_sub(file.start.len() as u64).min(END_BYTES);
        let offset = meta.size - rest_bytes;
        let mut end = vec![0; usize::try_from(rest_bytes).unwrap_or(0)];
        let mut want = Want { locator: Locator::File { offset, bytes: rest_bytes }, into: &mut end };
        if rest_bytes > 0 {
            file.read(runs(vec![(offset, &mut want)])).map_err(Error::Bucket)?;
        }
        file.end = end;
        Ok(file)
    }

    /// Bytes of the file.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// The file of ROOT that it is.
    ///
    /// # Errors
    /// What [`RootFile::open`] says.
    pub fn into_root(self) -> dolmen_rntuple::Result<RootFile> {
        let length_bytes = self.length_bytes;
        RootFile::open_on(Box::new(self), length_bytes)
    }

    /// Fills what is in memory; the rest, by where it is.
    fn known<'a, 'b>(
        &self,
        wants: &'a mut [Want<'b>],
    ) -> dolmen_rntuple::Result<Vec<(u64, &'a mut Want<'b>)>> {
        let mut placed = Vec::with_capacity(wants.len());
        let end_at = self.length_bytes - self.end.len() as u64;
        for want in wants {
            let offset = offset_of(want.locator)?;
            self.has(offset, want.into.len() as u64)?;
            let bytes = want.into.len();
            let known =
                part(&self.start, 0, offset, bytes).or_else(|| part(&self.end, end_at, offset, bytes));
            match known {
                Some(known) => want.into.copy_from_slice(known),
                None => placed.push((offset, want)),
            }
        }
        Ok(placed)
    }

    fn has(&self, offset: u64, bytes: u64) -> dolmen_rntuple::Result<()> {
        let left_bytes = self.length_bytes.saturating_sub(offset);
        if bytes <= left_bytes {
            return Ok(());
        }
        let fault = Fault::Short { wanted_bytes: bytes, left_bytes };
        Err(NtupleError::Corrupt { structure: Structure::File, offset, fault })
    }

    /// Reads side by side.
    fn read(&self, runs: Vec<Run<'_, '_>>) -> BucketResult<()> {
        let store = self.remote.store(DOING, &self.key)?;
        let mut answers = stream::iter(runs)
            .map(|run| self.read_run(store, run))
            .buffer_unordered(self.remote.requests_max());
        let read: Answer<()> = wait(self.remote.runtime(), (DOING, &self.key), async {
            while let Some(answer) = answers.next().await {
                answer?;
            }
            Ok(())
        })?;
        read.map_err(|said| failed(DOING, &self.key, said))
    }

    async fn read_run(&self, store: &AmazonS3, mut run: Run<'_, '_>) -> Answer<()> {
        let range = Some(GetRange::Bounded(run.offset..run.end));
        let if_match = Some(self.tag.clone());
        let _permit = self.remote.permit().await;
        let got = store.get_opts(&self.path, GetOptions { range, if_match, ..GetOptions::default() }).await?;
        if got.meta.e_tag.as_ref() != Some(&self.tag) || got.meta.size != self.length_bytes {
            return Err(untrue("it is another object than the one that was opened"));
        }
        let offset = run.offset;
        let count = answer::taken(got, |at, some| run.scatter(offset + at, some)).await?;
        if count != run.end - offset {
            return Err(untrue("the answer has fewer bytes than were asked for"));
        }
        Ok(())
    }
}

/// Of `known`, which is at `from`, so many bytes at `offset`.
fn part(known: &[u8], from: u64, offset: u64, bytes: usize) -> Option<&[u8]> {
    let skip = usize::try_from(offset.checked_sub(from)?).ok()?;
    known.get(skip..)?.get(..bytes)
}

/// Requests for wants: those with little between them are one.
fn runs<'a, 'b>(mut placed: Vec<(u64, &'a mut Want<'b>)>) -> Vec<Run<'a, 'b>> {
    placed.sort_by_key(|(offset, _)| *offset);
    let mut runs: Vec<Run<'a, 'b>> = Vec::new();
    for (offset, want) in placed {
        let end = offset + want.into.len() as u64;
        match runs.last_mut() {
            Some(run)
                if offset <= run.end + GAP_BYTES && end.max(run.end) - run.offset <= REQUEST_BYTES_MAX =>
            {
                run.end = run.end.max(end);
                run.wants.push((offset, want));
            }
            _ => runs.push(Run { offset, end, wants: vec![(offset, want)] }),
        }
    }
    runs
}

impl Run<'_, '_> {
    /// Has who wants them take of the bytes that are from `at` on.
    fn scatter(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        for (offset, want) in &mut self.wants {
            let from = at.max(*offset);
            let to = end.min(*offset + want.into.len() as u64);
            if from < to {
                let index = |of: u64| usize::try_from(of).expect("it is within what is in memory");
                let part = &bytes[index(from - at)..index(to - at)];
                want.into[index(from - *offset)..index(to - *offset)].copy_from_slice(part);
            }
        }
    }
}

fn offset_of(locator: Locator) -> dolmen_rntuple::Result<u64> {
    let kind = match locator {
        Locator::File { offset, .. } => return Ok(offset),
        Locator::Stored { .. } => 0x40,
        Locator::Unknown { kind } => kind,
    };
    let feature = Feature::Locator(kind);
    Err(NtupleError::Unsupported { structure: Structure::File, offset: 0, feature })
}

impl Source for RemoteFile {
    fn fetch(&self, wants: &mut [Want<'_>]) -> dolmen_rntuple::Result<()> {
        let placed = self.known(wants)?;
        Ok(self.read(runs(placed))?)
    }

    fn holds(&self, locator: Locator, bytes: u64) -> dolmen_rntuple::Result<()> {
        self.has(offset_of(locator)?, bytes)
    }

    /// So many requests are under way that they hide how long each takes.
    fn fetch_bytes_max(&self) -> u64 {
        64 << 20
    }

    fn is_far(&self) -> bool {
        true
    }
}
