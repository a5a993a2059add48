//! An ntuple of any source as a file of ROOT: written, or made up for who reads parts of it.
//!
//! Pages are passed through as they are; header, footer, page lists and what surrounds them are made. The bytes of a
//! [`VirtualFile`] are those that [`export`] writes of the same ntuple with the same options under the same name.

use super::anchor::Anchor;
use super::layout::{BLOB_BYTES_MAX, Layout};
use super::write::{FORMAT_VERSION, FileOptions, Output, RootWriter};
use crate::error::{Error, Fault, GoOn, Result, Structure};
use crate::format::block;
use crate::format::footer::Footer;
use crate::format::locator::{Link, Locator};
use crate::format::page_list::Page;
use crate::lists::{Lists, Placed};
use crate::ntuple::{Entries, Ntuple};
use crate::source::{Source, Want};
use core::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Writes the ntuple to a file of ROOT at `path`, cluster by cluster, each page only if its checksum is that of its bytes; `progress` is told of
/// the entries that are written.
///
/// # Errors
/// [`Error::Corrupt`] of a page that is damaged: the file is not there then. What source and file say.
pub fn export<S: Source, P: GoOn>(
    ntuple: &Ntuple<S>,
    path: &Path,
    options: FileOptions,
    progress: impl FnMut(u64) -> P,
) -> Result<()> {
    let writer = RootWriter::create(path, ntuple.header().clone(), ntuple.known(), options)?;
    put_all(ntuple, writer, progress)
}

/// Writes the ntuple to a file of ROOT called `name`, that is written to `output`, as [`export`].
///
/// # Errors
/// As of [`export`].
pub fn export_on<S: Source, P: GoOn>(
    ntuple: &Ntuple<S>,
    output: Box<dyn Output>,
    name: &str,
    options: FileOptions,
    progress: impl FnMut(u64) -> P,
) -> Result<()> {
    let writer = RootWriter::create_on(output, name, ntuple.header().clone(), ntuple.known(), options)?;
    put_all(ntuple, writer, progress)
}

fn put_all<S: Source, P: GoOn>(
    ntuple: &Ntuple<S>,
    mut writer: RootWriter,
    mut progress: impl FnMut(u64) -> P,
) -> Result<()> {
    for cluster in ntuple.all_clusters()? {
        crate::stop::check()?;
        writer.append(&ntuple.take(&cluster, |_| true)?)?;
        progress(cluster.pages.first_entry + cluster.pages.entry_count).go_on()?;
    }
    writer.finish()
}

/// A file of ROOT that is nowhere: its bytes are made when they are asked for, from any thread.
pub struct VirtualFile<S> {
    ntuple: Arc<Ntuple<S>>,
    /// One behind the other, from the start of the file to its end.
    pieces: Vec<Piece>,
    length_bytes: u64,
}

#[derive(Debug)]
struct Piece {
    offset: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Bytes(Vec<u8>),
    /// Pages of a cluster, which has its first entry there, by their places among all of the cluster.
    Pages {
        entries: Entries,
        pages: Range<usize>,
    },
}

impl<S: Source> VirtualFile<S> {
    /// The file called `name` with the ntuple.
    ///
    /// # Errors
    /// What the page lists say; [`Error::TooBig`] of a name of more than 16 KiB or a page that no key has room for.
    ///
    /// # Panics
    /// Never: each page is put somewhere.
    pub fn new(ntuple: impl Into<Arc<Ntuple<S>>>, name: &str, options: FileOptions) -> Result<Self> {
        let ntuple = ntuple.into();
        let header = ntuple.header();
        let (envelope, header_sum) = header.write_known(&ntuple.known());
        let layout = Layout::new(name, &header.name, options.time)?;
        let lists = Lists::new(&header.schema);
        let mut made = Made { layout, lists, pieces: Vec::new(), options, header_sum };
        let header_link = made.put_envelope(&envelope)?;
        for cluster in ntuple.all_clusters()? {
            let pages: Vec<_> = pages(&cluster).collect();
            let entries = Entries {
                first: cluster.pages.first_entry,
                end: cluster.pages.first_entry + cluster.pages.entry_count,
            };
            let mut offsets = made.put_pages(&pages, entries)?.into_iter();
            let mut columns = Vec::with_capacity(cluster.pages.columns.len());
            for column in &cluster.pages.columns {
                let of = cluster.list.pages[column.pages.clone()].iter();
                let placed = column.first_element.map(|_| Placed {
                    compression: column.compression,
                    pages: of
                        .map(|page| {
                            let offset = offsets.next().expect("each page was put somewhere");
                            Page { locator: Locator::File { offset, bytes: page.locator.bytes() }, ..*page }
                        })
                        .collect(),
                });
                columns.push(placed);
            }
            made.lists.add(cluster.pages.entry_count, columns)?;
            made.put_full_list(false)?;
        }
        made.put_full_list(true)?;
        let footer = Footer { groups: made.lists.groups().to_vec() };
        let footer = made.put_envelope(&footer.write(header_sum, &header.schema, &ntuple.known()))?;
        let key_bytes_max = Some(BLOB_BYTES_MAX);
        let anchor = Anchor { version: FORMAT_VERSION, header: header_link, footer, key_bytes_max };
        let ends = made.layout.finish(&anchor);
        let length_bytes = ends.last_at + ends.last.len() as u64;
        let mut pieces = vec![Piece { offset: 0, what: What::Bytes(ends.first) }];
        pieces.append(&mut made.pieces);
        pieces.push(Piece { offset: ends.last_at, what: What::Bytes(ends.last) });
        Ok(Self { ntuple, pieces, length_bytes })
    }

    /// Bytes of the file.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Fills `into` with the bytes from `offset` on; how many there are, fewer only at the end of the file.
    ///
    /// # Errors
    /// What the source says. Pages are passed on unseen: who reads the file compares their checksums.
    ///
    /// # Panics
    /// Never: parts are no longer than what they are parts of.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let left = self.length_bytes.saturating_sub(offset);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        let mut rest = &mut into[..count];
        let mut at = offset;
        let mut wants = Vec::new();
        let first = self.pieces.partition_point(|piece| piece.offset <= offset).saturating_sub(1);
        for (nth, piece) in self.pieces.iter().enumerate().skip(first) {
            if rest.is_empty() {
                break;
            }
            let end = self.pieces.get(nth + 1).map_or(self.length_bytes, |next| next.offset);
            match &piece.what {
                What::Bytes(bytes) => {
                    let skip = (at - piece.offset).min(bytes.len() as u64);
                    let bytes = &bytes[usize::try_from(skip).expect("it is at most their length")..];
                    let (part, behind) = rest.split_at_mut(rest.len().min(bytes.len()));
                    part.copy_from_slice(&bytes[..part.len()]);
                    at += part.len() as u64;
                    rest = behind;
                }
                What::Pages { entries, pages } => {
                    let room = (end - at).min(rest.len() as u64);
                    let (part, behind) =
                        rest.split_at_mut(usize::try_from(room).expect("it is at most what is left"));
                    self.want(*entries, pages, at - piece.offset, part, &mut wants)?;
                    at += room;
                    rest = behind;
                }
            }
        }
        let fetched = self.ntuple.source().fetch(&mut wants);
        fetched.map_err(|error| match self.entries_of(&self.pieces[first..], at) {
            Some(entries) => self.ntuple.naming(error, entries, |_| true),
            None => error,
        })?;
        Ok(count)
    }

    /// Entries of the clusters whose pages are in pieces that begin before an offset.
    fn entries_of(&self, pieces: &[Piece], end: u64) -> Option<Entries> {
        let entries =
            pieces.iter().take_while(|piece| piece.offset < end).filter_map(|piece| match piece.what {
                What::Pages { entries, .. } => Some(entries),
                What::Bytes(_) => None,
            });
        entries.reduce(|all, more| Entries { first: all.first.min(more.first), end: all.end.max(more.end) })
    }

    /// Adds to `wants` the bytes from `skip` on of some pages of a cluster.
    fn want<'a>(
        &self,
        entries: Entries,
        which: &Range<usize>,
        mut skip: u64,
        mut rest: &'a mut [u8],
        wants: &mut Vec<Want<'a>>,
    ) -> Result<()> {
        let clusters = self.ntuple.clusters(entries)?;
        let cluster = clusters.first().ok_or(Error::Corrupt {
            structure: Structure::PageList,
            offset: 0,
            fault: Fault::Reference,
        })?;
        for page in pages(cluster).skip(which.start).take(which.len()) {
            let bytes = page.bytes_with_sum();
            if skip >= bytes {
                skip -= bytes;
                continue;
            }
            let room = usize::try_from(bytes - skip).unwrap_or(usize::MAX).min(rest.len());
            let (part, behind) = rest.split_at_mut(room);
            rest = behind;
            if part.is_empty() {
                break;
            }
            wants.push(Want { locator: page.locator.part(skip, part.len() as u64), into: part });
            skip = 0;
        }
        Ok(())
    }
}

/// Pages of all columns of a cluster, in the order of a file.
fn pages<'a>(cluster: &'a crate::Cluster<'_>) -> impl Iterator<Item = &'a Page> {
    let columns = cluster.pages.columns.iter().filter(|column| column.first_element.is_some());
    columns.flat_map(|column| &cluster.list.pages[column.pages.clone()])
}

/// A file that is being made up.
struct Made {
    layout: Layout,
    lists: Lists,
    pieces: Vec<Piece>,
    options: FileOptions,
    header_sum: u64,
}

impl Made {
    fn put_full_list(&mut self, is_last: bool) -> Result<()> {
        let Some(list) = self.lists.full(is_last) else { return Ok(()) };
        let envelope = list.write(self.header_sum);
        let link = self.put_envelope(&envelope)?;
        self.lists.put(link);
        Ok(())
    }

    fn put_envelope(&mut self, envelope: &[u8]) -> Result<Link> {
        let block = block::compress(self.options.compression, envelope)?;
        let (piece_at, bytes) = (self.layout.at(), block.len() as u64);
        let (mut key, offset) = self.layout.blob(bytes)?;
        key.extend_from_slice(&block);
        self.pieces.push(Piece { offset: piece_at, what: What::Bytes(key) });
        Ok(Link { length_bytes: envelope.len() as u64, locator: Locator::File { offset, bytes } })
    }

    /// Makes room for pages, behind as many keys as they need; where each is.
    fn put_pages(&mut self, pages: &[&Page], entries: Entries) -> Result<Vec<u64>> {
        let mut offsets = Vec::with_capacity(pages.len());
        let mut start = 0;
        while start < pages.len() {
            let mut bytes = 0;
            let fits = |page: &&&Page| {
                bytes += page.bytes_with_sum();
                bytes <= BLOB_BYTES_MAX
            };
            let count = pages[start..].iter().take_while(fits).count().max(1);
            let some = &pages[start..start + count];
            let all: u64 = some.iter().map(|page| page.bytes_with_sum()).sum();
            let piece_at = self.layout.at();
            let (key, mut offset) = self.layout.blob(all)?;
            self.pieces.push(Piece { offset: piece_at, what: What::Bytes(key) });
            let what = What::Pages { entries, pages: start..start + count };
            self.pieces.push(Piece { offset, what });
            for page in some {
                offsets.push(offset);
                offset += page.bytes_with_sum();
            }
            start += count;
        }
        Ok(offsets)
    }
}
