//! Pages that are wanted: fetched together, checked, and decoded where their elements go.

use crate::array::Room;
use crate::error::{Error, Fault, Result, Structure};
use crate::format::column::{Column, InMemory};
use crate::format::locator::Locator;
use crate::format::page_list::Page;
use crate::format::{CHECKSUM_BYTES, PAGE_BYTES_MAX, block, checksum, encoding};
use crate::ntuple::Ntuple;
use crate::source::{Source, Want};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// As many times its bytes a page may become without being looked at first: zlib cannot make more of them.
pub(super) const RATIO_TRUSTED: u64 = 1032;

/// Elements of a page, and where they go.
#[derive(Debug)]
pub(super) struct Job<'a> {
    /// Number of the column.
    pub(super) number: u32,
    /// The page.
    pub(super) page: Page,
    /// Elements of the page before the first that is wanted.
    pub(super) skip: u64,
    /// What elements are to be in memory.
    pub(super) target: InMemory,
    /// Memory for those that are wanted.
    pub(super) into: &'a mut [u8],
}

struct Fetched<'a> {
    job: Job<'a>,
    column: Column,
    /// Bytes of the page when it is decompressed.
    page_bytes: usize,
    sum: [u8; CHECKSUM_BYTES],
    is_direct: bool,
}

/// Pages that were fetched before they are wanted, since what was wanted is next to them.
#[derive(Default)]
pub(super) struct Kept {
    /// As they are stored, with the checksums behind them, and how many jobs will want them.
    pages: BTreeMap<Key, (usize, Vec<u8>)>,
}

/// What tells a page from all others of a source: its place, and its bytes, which may be none.
type Key = ((u64, u32, u64), u64);

fn key(locator: Locator) -> Key {
    (locator.order(), locator.bytes())
}

/// What is fetched.
enum Item<'a> {
    Job(Fetched<'a>),
    /// A page that is wanted later, and by how many jobs.
    Kept(Page, usize, Vec<u8>),
}

/// Does all jobs. Pages to keep are fetched with them, each for as many jobs as it is named.
pub(super) fn fetch<S: Source>(
    ntuple: &Ntuple<S>,
    jobs: Vec<Job<'_>>,
    keep: Vec<Page>,
    kept: &mut Kept,
) -> Result<()> {
    let mut scratch = Scratch::default();
    let mut items = Vec::new();
    for job in jobs {
        let mut fetched = prepared(ntuple, job)?;
        match kept.take(fetched.job.page.locator) {
            Some(kept) => fetched.decode_kept(&kept, &mut scratch)?,
            None => items.push((fetched.job.page.locator, fetched.page_bytes, Item::Job(fetched))),
        }
    }
    let mut named = BTreeMap::<_, (Page, usize)>::new();
    for page in keep {
        named.entry(key(page.locator)).or_insert((page, 0)).1 += 1;
    }
    for (page, count) in named.into_values() {
        let bytes = usize::try_from(page.bytes_with_sum()).expect("it was compared with the limit");
        items.push((page.locator, bytes, Item::Kept(page, count, vec![0; bytes])));
    }
    // What is in one place is next to each other, and is not cut.
    items.sort_by_key(|(locator, ..)| locator.order());
    serve(ntuple.source(), rounds(ntuple.source(), items), &mut scratch, kept)
}

/// What is fetched together: no more bytes than the source likes, but for what is in one place.
fn rounds<'a, S: Source>(source: &S, items: Vec<(Locator, usize, Item<'a>)>) -> Vec<Vec<Item<'a>>> {
    let mut rounds = vec![Vec::new()];
    let (mut round_bytes, mut last) = (0, None);
    let bytes_max = source.fetch_bytes_max();
    for (locator, bytes, item) in items {
        let group = matches!(locator, Locator::Stored { .. }).then(|| (locator.order().0, locator.order().1));
        if round_bytes >= bytes_max && (group.is_none() || group != last) {
            rounds.push(Vec::new());
            round_bytes = 0;
        }
        last = group;
        round_bytes += bytes as u64;
        rounds.last_mut().expect("the first is there").push(item);
    }
    rounds
}

impl Kept {
    fn take(&mut self, locator: Locator) -> Option<Vec<u8>> {
        let found = self.pages.get_mut(&key(locator))?;
        found.0 -= 1;
        if found.0 > 0 { Some(found.1.clone()) } else { self.pages.remove(&key(locator)).map(|kept| kept.1) }
    }
}

/// Looks at what a page claims before memory is taken for its elements: that its bytes are there, and, where they would become very many
/// more, that they really do.
pub(super) fn vet<S: Source>(ntuple: &Ntuple<S>, number: u32, page: &Page) -> Result<()> {
    let structure = Structure::Page { column: number };
    let column = ntuple.header().schema.columns[number as usize];
    let page_bytes = column.page_bytes(u64::from(page.element_count)).unwrap_or(u64::MAX);
    if page_bytes > PAGE_BYTES_MAX {
        return Err(Error::TooBig { structure, offset: 0, bytes: page_bytes, bytes_max: PAGE_BYTES_MAX });
    }
    let stored_bytes = page.locator.bytes();
    ntuple.source().holds(page.locator, page.bytes_with_sum())?;
    if stored_bytes > page_bytes {
        return Err(Error::Corrupt { structure, offset: 0, fault: Fault::Length });
    }
    if page_bytes / RATIO_TRUSTED <= stored_bytes.max(RATIO_TRUSTED) {
        return Ok(());
    }
    let mut stored = vec![0; usize::try_from(stored_bytes).expect("it was compared with the limit")];
    ntuple.source().fetch(&mut [Want { locator: page.locator, into: &mut stored }])?;
    block::decompress(structure, &stored, page_bytes).map(drop)
}

fn prepared<'a, S: Source>(ntuple: &Ntuple<S>, job: Job<'a>) -> Result<Fetched<'a>> {
    let column = ntuple.header().schema.columns[job.number as usize];
    let page_bytes = column.page_bytes(u64::from(job.page.element_count)).expect("it was vetted");
    let stored_bytes = job.page.locator.bytes();
    let is_direct = stored_bytes == page_bytes
        && job.into.len() as u64 == page_bytes
        && encoding::is_plain(column.kind)
        && column.kind.in_memory() == Some(job.target);
    let count = |bytes: u64| usize::try_from(bytes).expect("it was compared with the limit");
    Ok(Fetched { job, column, page_bytes: count(page_bytes), sum: [0; CHECKSUM_BYTES], is_direct })
}

/// Fetches rounds, and does what is to be done with the items of each. Of a source that is far the next one is fetched meanwhile, and only
/// that; what is wrong with it is told when all before is done.
fn serve<S: Source>(
    source: &S,
    rounds: Vec<Vec<Item<'_>>>,
    scratch: &mut Scratch,
    kept: &mut Kept,
) -> Result<()> {
    let is_ahead = source.is_far() && rounds.len() > 1;
    let mut rounds = rounds.into_iter();
    let Some(first) = rounds.next() else { return Ok(()) };
    let mut room = Room::default();
    let mut came = ask(source, first, &mut room);
    if is_ahead {
        let mut other = Room::default();
        for next in rounds {
            let of_this = came?;
            core::mem::swap(&mut room, &mut other);
            let waiting = Mutex::new(Some((of_this, &mut *scratch, &mut *kept)));
            let finished = || {
                let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
                let (items, scratch, kept) = waiting.expect("each round is finished once");
                finish(items, &other, scratch, kept)
            };
            came = dolmen_env::scope(|threads| {
                // What waits is the thread that has called: it is the one that can be told to stop.
                let behind = dolmen_env::spawn_within(threads, "ntuple-behind", finished);
                let came = ask(source, next, &mut room);
                match behind {
                    Ok(behind) => behind.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                    Err(_no_more_threads) => finished(),
                }?;
                came
            });
        }
    } else {
        for next in rounds {
            finish(came?, &room, scratch, kept)?;
            came = ask(source, next, &mut room);
        }
    }
    finish(came?, &room, scratch, kept)
}

/// Fetches items.
fn ask<'a, S: Source>(source: &S, mut items: Vec<Item<'a>>, room: &mut Room) -> Result<Vec<Item<'a>>> {
    crate::stop::check()?;
    let all = items.iter().map(Item::room_bytes).sum();
    let mut room = room.of(all)?;
    let mut wants = Vec::with_capacity(items.len() * 2);
    for item in &mut items {
        let (stored, behind) = room.split_at_mut(item.room_bytes());
        room = behind;
        match item {
            Item::Job(Fetched { job, sum, is_direct, .. }) => {
                let locator = job.page.locator;
                wants.push(Want { locator, into: if *is_direct { job.into } else { stored } });
                if job.page.has_checksum {
                    wants.push(Want { locator: locator.behind(), into: sum });
                }
            }
            Item::Kept(page, _, stored) => {
                let stored_bytes = usize::try_from(page.locator.bytes()).expect("there is memory for it");
                let (into, behind) = stored.split_at_mut(stored_bytes);
                wants.push(Want { locator: page.locator, into });
                if page.has_checksum {
                    wants.push(Want { locator: page.locator.behind(), into: behind });
                }
            }
        }
    }
    source.fetch(&mut wants)?;
    Ok(items)
}

impl Item<'_> {
    /// Bytes that it needs besides what it has.
    fn room_bytes(&self) -> usize {
        match self {
            Self::Job(Fetched { is_direct: false, job, .. }) => {
                usize::try_from(job.page.locator.bytes()).expect("it was compared with the limit")
            }
            Self::Job(_) | Self::Kept(..) => 0,
        }
    }
}

/// Does what is to be done with items that came.
fn finish(items: Vec<Item<'_>>, room: &Room, scratch: &mut Scratch, kept: &mut Kept) -> Result<()> {
    let mut room = room.filled();
    for item in items {
        let (stored, behind) = room.split_at(item.room_bytes());
        room = behind;
        match item {
            Item::Job(mut fetched) => fetched.decode(stored, scratch)?,
            Item::Kept(page, count, stored) => {
                kept.pages.insert(key(page.locator), (count, stored));
            }
        }
    }
    Ok(())
}

/// Memory that is used for one page after the other.
#[derive(Default)]
struct Scratch {
    page: Vec<u8>,
    elements: Vec<u8>,
}

impl Fetched<'_> {
    /// Decodes a page that was kept, with its checksum behind it.
    fn decode_kept(&mut self, kept: &[u8], scratch: &mut Scratch) -> Result<()> {
        let stored_bytes = usize::try_from(self.job.page.locator.bytes()).expect("it was kept");
        let (stored, sum) = kept.split_at(stored_bytes);
        if let Some(sum) = sum.first_chunk() {
            self.sum = *sum;
        }
        if self.is_direct {
            self.job.into.copy_from_slice(stored);
        }
        self.decode(stored, scratch)
    }

    /// Decodes a page that is stored like that, unless it was read to where it goes.
    fn decode(&mut self, stored: &[u8], scratch: &mut Scratch) -> Result<()> {
        let structure = Structure::Page { column: self.job.number };
        let read = if self.is_direct { &*self.job.into } else { stored };
        if self.job.page.has_checksum && checksum(read) != u64::from_le_bytes(self.sum) {
            return Err(Error::Corrupt { structure, offset: read.len() as u64, fault: Fault::Checksum });
        }
        if self.is_direct {
            return Ok(());
        }
        let Self { job, column, page_bytes, .. } = self;
        let in_memory = column.kind.in_memory();
        let is_whole = in_memory == Some(job.target)
            && job.into.len() == job.page.element_count as usize * job.target.bytes();
        if is_whole && encoding::is_plain(column.kind) {
            return block::decompress_into(structure, stored, job.into);
        }
        let page: &[u8] = if stored.len() == *page_bytes {
            stored
        } else {
            scratch.page.resize(*page_bytes, 0);
            block::decompress_into(structure, stored, &mut scratch.page)?;
            &scratch.page
        };
        if is_whole {
            return encoding::decode(job.number, column, page, job.into);
        }
        let width = in_memory.map_or(0, InMemory::bytes);
        scratch.elements.resize(job.page.element_count as usize * width, 0);
        encoding::decode(job.number, column, page, &mut scratch.elements)?;
        let count = job.into.len() / job.target.bytes();
        let skip = usize::try_from(job.skip).expect("a page has fewer elements") * width;
        let wanted = &scratch.elements[skip..skip + count * width];
        convert(wanted, in_memory, job.target, job.into);
        Ok(())
    }
}

/// Copies elements, as what they are to be in memory.
fn convert(from: &[u8], kind: Option<InMemory>, target: InMemory, into: &mut [u8]) {
    match (kind, target) {
        (Some(InMemory::F32), InMemory::F64) => {
            for (to, from) in into.as_chunks_mut::<8>().0.iter_mut().zip(from.as_chunks::<4>().0) {
                *to = f64::from(f32::from_le_bytes(*from)).to_le_bytes();
            }
        }
        _ => into.copy_from_slice(from),
    }
}
