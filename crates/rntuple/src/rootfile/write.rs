//! A file of ROOT that is written: sealed clusters, one after the other, then what says where they are.

use super::anchor::Anchor;
use super::layout::{BLOB_BYTES_MAX, FileTime, Layout};
use crate::bucket::BucketError;
use crate::error::{Error, Result};
use crate::format::block::{self, Compression};
use crate::format::footer::Footer;
use crate::format::locator::{Link, Locator};
use crate::format::page_list::Page;
use crate::format::schema::Known;
use crate::format::{CHECKSUM_BYTES, Header};
use crate::lists::{Lists, Placed};
use crate::sealed::{SealedCluster, SealedPage};
use rustix::io::Errno;
use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Buffers of one write of the system.
const BUFFERS_MAX: usize = 512;

/// The format that is written: epoch, major, minor, patch.
pub const FORMAT_VERSION: [u16; 4] = [1, 0, 1, 0];

/// What a file of ROOT is called and says besides an ntuple.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// When it was written.
    pub time: FileTime,
    /// How header, footer and page lists are compressed.
    pub compression: Compression,
}

/// Where a file is written to, and is there when it is complete. Dropped before it is [`finish`](Self::finish)ed, it is not there.
pub trait Output: Send + core::fmt::Debug {
    /// Writes all buffers from `offset` on. Offsets are where the last write has ended, but for the last: that is from 0 on, and no longer than
    /// what the first write has left free.
    ///
    /// # Errors
    /// What the system says.
    fn put_at(&mut self, offset: u64, buffers: &[IoSlice<'_>]) -> std::io::Result<()>;

    /// Makes the file be there, for good.
    ///
    /// # Errors
    /// What the system says: the file is not there then, and one that was there before still is.
    fn finish(self: Box<Self>) -> std::io::Result<()>;
}

/// A file of this machine, which has its name when it is finished.
///
/// # Errors
/// What the system says.
pub fn local_output(path: &Path) -> std::io::Result<Box<dyn Output>> {
    let name = path.file_name().ok_or(std::io::ErrorKind::IsADirectory)?;
    Ok(Box::new(LocalOutput::create(path, &name.to_string_lossy())?))
}

/// A file of ROOT that is written. Until [`finish`](Self::finish) it is not there; dropped before, it never is.
#[derive(Debug)]
pub struct RootWriter {
    output: Box<dyn Output>,
    layout: Layout,
    header: Header,
    known: Known,
    header_sum: u64,
    header_link: Link,
    compression: Compression,
    lists: Lists,
}

/// What a file has so far, to go back to: see [`RootWriter::so_far`].
#[derive(Clone, Debug)]
pub struct SoFar(Lists);

impl RootWriter {
    /// Begins the file at `path` with the ntuple that `header` describes; what its schema has behind `known` goes to the footer.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::TooBig`] of a name of more than 16 KiB.
    ///
    /// # Panics
    /// Never: a path without a name was an error before.
    pub fn create(path: &Path, header: Header, known: Known, options: FileOptions) -> Result<Self> {
        let output = local_output(path).map_err(|source| failed(0, source))?;
        let name = path.file_name().expect("an output was begun by it").to_string_lossy();
        Self::create_on(output, &name, header, known, options)
    }

    /// Begins a file called `name` that is written to `output`, as [`create`](Self::create).
    ///
    /// # Errors
    /// As of [`create`](Self::create).
    pub fn create_on(
        output: Box<dyn Output>,
        name: &str,
        header: Header,
        known: Known,
        options: FileOptions,
    ) -> Result<Self> {
        let layout = Layout::new(name, &header.name, options.time)?;
        let (envelope, header_sum) = header.write_known(&known);
        let lists = Lists::new(&header.schema);
        let mut writer = Self {
            output,
            layout,
            header,
            known,
            header_sum,
            header_link: Link { length_bytes: 0, locator: Locator::File { offset: 0, bytes: 0 } },
            compression: options.compression,
            lists,
        };
        writer.header_link = writer.put_envelope(&envelope)?;
        Ok(writer)
    }

    /// What the ntuple is.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Appends a cluster.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::TooBig`] of a page that no key has room for.
    ///
    /// # Panics
    /// If the cluster has more columns than the schema.
    pub fn append(&mut self, cluster: &SealedCluster<'_>) -> Result<()> {
        crate::stop::check()?;
        let pages = cluster.columns.iter().flatten().flat_map(|column| &column.pages);
        let mut waiting: Vec<&SealedPage<'_>> = Vec::new();
        let mut waiting_bytes = 0;
        let mut offsets = Vec::new();
        for page in pages {
            let bytes = page.stored_bytes();
            if waiting_bytes + bytes > BLOB_BYTES_MAX && !waiting.is_empty() {
                self.put_pages(&waiting, waiting_bytes, &mut offsets)?;
                waiting.clear();
                waiting_bytes = 0;
            }
            waiting_bytes += bytes;
            waiting.push(page);
        }
        if !waiting.is_empty() {
            self.put_pages(&waiting, waiting_bytes, &mut offsets)?;
        }
        let mut offsets = offsets.into_iter();
        let mut placed = |page: &SealedPage<'_>| {
            let offset = offsets.next().expect("each page was put somewhere");
            let locator = Locator::File { offset, bytes: page.stored.len() as u64 };
            Page { element_count: page.element_count, has_checksum: page.checksum.is_some(), locator }
        };
        let mut columns = Vec::with_capacity(cluster.columns.len());
        for column in &cluster.columns {
            columns.push(column.as_ref().map(|column| Placed {
                compression: column.compression,
                pages: column.pages.iter().map(&mut placed).collect(),
            }));
        }
        self.lists.add(cluster.entry_count, columns)?;
        self.put_full_list(false)
    }

    /// What was appended so far.
    #[must_use]
    pub fn so_far(&self) -> SoFar {
        SoFar(self.lists.clone())
    }

    /// Leaves out what was appended since: its bytes stay in the file, and nothing says what they are.
    pub fn go_back(&mut self, so_far: SoFar) {
        self.lists = so_far.0;
    }

    /// Writes what says where all is, waits until it is there for good, and gives the file its name.
    ///
    /// # Errors
    /// [`Error::Io`]; the file is not there then, and one that was there before still is.
    pub fn finish(mut self) -> Result<()> {
        self.put_full_list(true)?;
        let footer = Footer { groups: self.lists.groups().to_vec() };
        let envelope = footer.write(self.header_sum, &self.header.schema, &self.known);
        let footer = self.put_envelope(&envelope)?;
        let key_bytes_max = Some(BLOB_BYTES_MAX);
        let anchor = Anchor { version: FORMAT_VERSION, header: self.header_link, footer, key_bytes_max };
        let ends = self.layout.clone().finish(&anchor);
        self.put_at(ends.last_at, &[IoSlice::new(&ends.last)])?;
        self.put_at(0, &[IoSlice::new(&ends.first)])?;
        self.output.finish().map_err(|source| failed(0, source))
    }

    fn put_full_list(&mut self, is_last: bool) -> Result<()> {
        let Some(list) = self.lists.full(is_last) else { return Ok(()) };
        let envelope = list.write(self.header_sum);
        let link = self.put_envelope(&envelope)?;
        self.lists.put(link);
        Ok(())
    }

    fn put_envelope(&mut self, envelope: &[u8]) -> Result<Link> {
        let block = block::compress(self.compression, envelope)?;
        let bytes = block.len() as u64;
        let at = self.layout.at();
        let (key, offset) = self.layout.blob(bytes)?;
        self.put_at(at, &[IoSlice::new(&key), IoSlice::new(&block)])?;
        Ok(Link { length_bytes: envelope.len() as u64, locator: Locator::File { offset, bytes } })
    }

    /// Writes pages behind one key; where each is.
    fn put_pages(&mut self, pages: &[&SealedPage<'_>], bytes: u64, offsets: &mut Vec<u64>) -> Result<()> {
        let at = self.layout.at();
        let (key, mut offset) = self.layout.blob(bytes)?;
        let sums: Vec<[u8; CHECKSUM_BYTES]> =
            pages.iter().map(|page| page.checksum.unwrap_or(0).to_le_bytes()).collect();
        let mut buffers = vec![IoSlice::new(&key)];
        for (page, sum) in pages.iter().zip(&sums) {
            offsets.push(offset);
            offset += page.stored_bytes();
            buffers.push(IoSlice::new(&page.stored));
            if page.checksum.is_some() {
                buffers.push(IoSlice::new(sum));
            }
        }
        let mut at = at;
        for some in buffers.chunks(BUFFERS_MAX) {
            self.put_at(at, some)?;
            at += some.iter().map(|buffer| buffer.len() as u64).sum::<u64>();
        }
        Ok(())
    }

    fn put_at(&mut self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.output.put_at(offset, buffers).map_err(|source| failed(offset, source))
    }
}

/// What an output failed with, which is the object store's word if it is in one.
fn failed(offset: u64, source: std::io::Error) -> Error {
    match source.downcast::<BucketError>() {
        Ok(source) => source.into(),
        Err(source) => Error::Io { offset, source },
    }
}

/// A file of this machine. Until it is finished it has another name, beside its own.
#[derive(Debug)]
struct LocalOutput {
    file: File,
    /// Where it is until it is finished; none afterwards.
    part: Option<PathBuf>,
    path: PathBuf,
}

impl LocalOutput {
    fn create(path: &Path, name: &str) -> std::io::Result<Self> {
        match std::fs::metadata(path) {
            Ok(there) if there.is_dir() => return Err(std::io::ErrorKind::IsADirectory.into()),
            // A device is not replaced by a file.
            Ok(there) if !there.is_file() => return Err(std::io::ErrorKind::AlreadyExists.into()),
            _ => {}
        }
        // What a link leads to is replaced, and not the link.
        let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        for number in 0.. {
            let part = path.with_file_name(format!(".{name}.{}-{number}.part", std::process::id()));
            match File::options().read(true).write(true).create_new(true).open(&part) {
                // Another thread writes it, or one that was killed had the same number.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                file => return Ok(Self { file: file?, part: Some(part), path: path.clone() }),
            }
        }
        Err(std::io::ErrorKind::AlreadyExists.into())
    }
}

impl Output for LocalOutput {
    fn put_at(&mut self, mut offset: u64, buffers: &[IoSlice<'_>]) -> std::io::Result<()> {
        let count = loop {
            match rustix::io::pwritev(&self.file, buffers, offset) {
                Ok(count) => break count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        };
        // What the system has not taken at once goes buffer by buffer.
        let mut written = count;
        for buffer in buffers {
            let rest = &buffer[written.min(buffer.len())..];
            written = written.saturating_sub(buffer.len());
            let rest_at = offset + (buffer.len() - rest.len()) as u64;
            if !rest.is_empty() {
                self.file.write_all_at(rest, rest_at)?;
            }
            offset += buffer.len() as u64;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> std::io::Result<()> {
        self.file.sync_all()?;
        let part = self.part.as_ref().expect("it is finished once");
        std::fs::rename(part, &self.path)?;
        self.part = None;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for LocalOutput {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            // Ignored: nobody is left to tell; the name says that it is no file.
            drop(std::fs::remove_file(part));
        }
    }
}
