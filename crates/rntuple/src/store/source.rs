//! Bytes of a stored ntuple: all that is wanted of one column group is one request, and requests go out side by side.

use super::home::bucket::{BucketHome, group_key};
use super::home::{self, Home};
use super::place::{self, Records};
use super::record::Anchor;
use super::zones::{self, Known};
use crate::bucket::Read;
use crate::error::{Error, Fault, Result, Structure};
use crate::format::checksum;
use crate::format::locator::{Link, Locator};
use crate::source::{Source, Want};
use crate::zone::Zone;
use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_client::{
    At, Cond, Container, FetchIod, Fetched, IoBuf, Key, Object, ObjectClass, Recx, Way, side_by_side,
};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Extents of one request; what is more scattered is read with what is between.
const EXTENTS_MAX: usize = 8192;

/// What a source has asked for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Asked {
    /// Requests for pages.
    pub page_requests: u64,
    /// Bytes of pages that these asked for.
    pub page_bytes: u64,
    /// Requests for envelopes and what is beside them.
    pub metadata_requests: u64,
    /// Times that it waited for requests that went out together.
    pub round_trips: u64,
}

#[derive(Debug, Default)]
struct Counts {
    page_requests: AtomicU64,
    page_bytes: AtomicU64,
    metadata_requests: AtomicU64,
    round_trips: AtomicU64,
}

/// Page lists whose zones are kept at hand: those of a few terabytes of usual pages take some ten megabytes each.
const ZONES_MAX: usize = 256;

/// What is known of the pages of lists, by the places of these.
#[derive(Debug, Default)]
struct Zones {
    // Guards: what was read; taken alone, and not while something is asked.
    by_list: Mutex<BTreeMap<(u64, u32, u64), OfList>>,
}

type OfList = Arc<Vec<Known>>;

/// Bytes of buffers that are kept for the next requests: fresh memory costs more than a copy.
const SPARE_BYTES_MAX: usize = 64 << 20;

/// Buffers that no request has.
#[derive(Debug, Default)]
struct Spare {
    // Guards: the buffers; taken alone.
    bufs: Mutex<Vec<IoBuf>>,
}

impl Spare {
    fn bufs(&self) -> MutexGuard<'_, Vec<IoBuf>> {
        self.bufs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of so many bytes, which may be anything: whoever fills it looks whether all of it is filled.
    fn take(&self, bytes: usize) -> IoBuf {
        let mut buf = self.bufs().pop().unwrap_or_default();
        buf.set_len(bytes);
        buf
    }

    fn put_back(&self, buf: IoBuf) {
        let mut bufs = self.bufs();
        let bytes: usize = bufs.iter().map(IoBuf::capacity).sum();
        if bytes + buf.capacity() <= SPARE_BYTES_MAX {
            bufs.push(buf);
        }
    }
}

/// Where the bytes of a stored ntuple come from; a cheap handle, `Send` and `Sync`.
#[derive(Clone, Debug)]
pub struct StoreSource {
    home: Home,
    class: ObjectClass,
    own: Records,
    /// The version that is read.
    version: u64,
    /// The checksum of its anchor, which never changes: a snapshot that is gone back to may have another version of this number made.
    anchor_sum: u64,
    counts: Arc<Counts>,
    zones: Arc<Zones>,
    spare: Arc<Spare>,
}

/// Bytes from some place on.
#[derive(Clone, Copy, Debug)]
struct Extent {
    offset: u64,
    bytes: u64,
}

/// What one request asks for.
enum What {
    /// Bytes of a group.
    Group { object: u64, group: u32, extents: SmallVec<[Extent; 2]> },
    /// Records of a version, with as many bytes.
    Version { version: u64, records: Vec<(Vec<u8>, usize)> },
}

/// One request, and where its answer goes.
struct Asking {
    what: What,
    /// Bytes that it asks for.
    bytes: usize,
    /// Which want has its bytes from where.
    parts: Vec<(usize, usize)>,
    buf: IoBuf,
}

impl StoreSource {
    pub(super) fn new(home: &Home, own: Records, anchor: &Anchor) -> Self {
        let (counts, zones, spare) = (Arc::default(), Arc::default(), Arc::default());
        let (version, class) = (anchor.version, ObjectClass(anchor.class));
        let anchor_sum = checksum(&anchor.write());
        Self { home: home.clone(), class, own, version, anchor_sum, counts, zones, spare }
    }

    /// Whether the version that is read is there still, and not another of its number.
    fn is_there(&self) -> Result<bool> {
        let found =
            self.home.get(home::At::Latest, self.own, &place::version(self.version), place::ANCHOR)?;
        Ok(found.is_some_and(|found| checksum(&found) == self.anchor_sum))
    }

    /// Whether records that were read are those of the version.
    fn check(&self) -> Result<()> {
        if self.home.goes_back() && !self.is_there()? {
            return Err(Error::Freed { version: self.version });
        }
        Ok(())
    }

    /// Why something cannot be read: of a version that was freed meanwhile nothing is damaged.
    fn why(&self, error: Error) -> Error {
        let is_missing =
            matches!(error, Error::Corrupt { fault: Fault::Short { .. } | Fault::Reference, .. });
        if !is_missing {
            return error;
        }
        match self.is_there() {
            Ok(false) => Error::Freed { version: self.version },
            // What is told is what was met first.
            Ok(true) | Err(_) => error,
        }
    }

    /// What it has asked for since it was opened, with all its clones.
    #[must_use]
    pub fn asked(&self) -> Asked {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Asked {
            page_requests: of(&self.counts.page_requests),
            page_bytes: of(&self.counts.page_bytes),
            metadata_requests: of(&self.counts.metadata_requests),
            round_trips: of(&self.counts.round_trips),
        }
    }

    /// What is known of the pages of lists, one behind the other.
    pub(super) fn known(&self, lists: &[Link]) -> Result<Vec<Known>> {
        self.known_of(lists).map_err(|error| self.why(error))
    }

    fn known_of(&self, lists: &[Link]) -> Result<Vec<Known>> {
        let at_hand = || self.zones.by_list.lock().unwrap_or_else(PoisonError::into_inner);
        let place = |link: &Link| link.locator.order();
        let mut found: Vec<_> = {
            let by_list = at_hand();
            lists.iter().map(|link| by_list.get(&place(link)).cloned()).collect()
        };
        let missing = lists.iter().zip(&found).filter(|(_, found)| found.is_none());
        let keys: Vec<_> = missing
            .filter_map(|(link, _)| place::zones_of(link.locator))
            .map(|(version, akey)| (place::version(version), akey))
            .collect();
        let mut values = if keys.is_empty() { Vec::new() } else { self.values(&keys)? }.into_iter();
        let mut read = Vec::new();
        for (link, found) in lists.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            let lost = Error::Corrupt { structure: Structure::Zones, offset: 0, fault: Fault::Reference };
            let known = Arc::new(zones::read(&values.next().flatten().ok_or(lost)?)?);
            read.push((place(link), Arc::clone(&known)));
            *found = Some(known);
        }
        let mut by_list = at_hand();
        if by_list.len() + read.len() > ZONES_MAX {
            by_list.clear();
        }
        by_list.extend(read);
        drop(by_list);
        Ok(found.iter().flatten().flat_map(|known| known.iter().copied()).collect())
    }

    /// Single values of the ntuple's own object; none where there is none.
    pub(super) fn values(&self, keys: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<Option<Vec<u8>>>> {
        self.counts.metadata_requests.fetch_add(keys.len() as u64, Ordering::Relaxed);
        self.counts.round_trips.fetch_add(1, Ordering::Relaxed);
        let values = self.home.values(self.own, keys)?;
        self.check()?;
        Ok(values)
    }

    fn fetch_all(&self, wants: &mut [Want<'_>]) -> Result<()> {
        let mut order: Vec<usize> = (0..wants.len()).collect();
        order.sort_by_key(|&want| match wants[want].locator {
            Locator::Stored { object, group, offset, .. } => (object, group, offset),
            _ => (0, 0, 0),
        });
        if let Some(want) = wants.iter().find(|want| !matches!(want.locator, Locator::Stored { .. })) {
            return Err(elsewhere(want.locator));
        }
        let (mut own, pages): (Vec<_>, Vec<_>) = order
            .into_iter()
            .filter(|&want| !wants[want].into.is_empty())
            .partition(|&want| place::akey_of(wants[want].locator).is_some());
        own.sort_by_key(|&want| place::akey_of(wants[want].locator));
        let mut askings = Vec::new();
        self.of_pages(wants, &pages, &mut askings)?;
        let bytes: usize = askings.iter().map(|asking| asking.bytes).sum();
        let requests: usize = askings.iter().map(|asking| self.requests(asking)).sum();
        self.counts.page_requests.fetch_add(requests as u64, Ordering::Relaxed);
        self.counts.page_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let page_count = askings.len();
        Self::of_own(wants, &own, &mut askings);
        self.counts.metadata_requests.fetch_add((askings.len() - page_count) as u64, Ordering::Relaxed);
        let side_by_side_bytes_max = self.home.habits().side_by_side_bytes_max;
        let mut rest = &mut askings[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().position(|asking| {
                bytes += asking.bytes;
                bytes > side_by_side_bytes_max
            });
            let (some, behind) = rest.split_at_mut(fits.unwrap_or(rest.len()).max(1));
            self.ask(some)?;
            for Asking { parts, buf, .. } in some {
                for &(want, start) in &*parts {
                    let into = &mut *wants[want].into;
                    into.copy_from_slice(&buf[start..start + into.len()]);
                }
                self.spare.put_back(core::mem::take(buf));
            }
            rest = behind;
        }
        if own.is_empty() { Ok(()) } else { self.check() }
    }

    /// Requests for pages of clusters, which are in the order of their places.
    fn of_pages(&self, wants: &[Want<'_>], order: &[usize], askings: &mut Vec<Asking>) -> Result<()> {
        let gap_bytes = self.home.habits().gap_bytes;
        let (mut at, mut end) = ((0, 0), 0_u64);
        for &want in order {
            let Locator::Stored { object, group, offset, .. } = wants[want].locator else { continue };
            let length = wants[want].into.len() as u64;
            if askings.is_empty() || at != (object, group) {
                at = (object, group);
                askings.push(Asking::new(What::Group { object, group, extents: SmallVec::new() }));
                end = 0;
            }
            let Asking { what, bytes, parts, .. } = askings.last_mut().expect("one was pushed");
            let structure = what.structure();
            let What::Group { extents, .. } = what else { unreachable!("pages are in groups") };
            let wanted_end = offset.checked_add(length).filter(|&end| usize::try_from(end).is_ok());
            let wanted_end = wanted_end.ok_or(short(structure, offset, length))?;
            let is_near = offset <= end.saturating_add(gap_bytes) || extents.len() >= EXTENTS_MAX;
            match extents.last_mut().filter(|_| is_near) {
                Some(last) => {
                    let start = *bytes - in_memory(last.bytes);
                    parts.push((want, start + in_memory(offset - last.offset)));
                    let more = wanted_end.saturating_sub(end);
                    last.bytes += more;
                    *bytes += in_memory(more);
                }
                None => {
                    parts.push((want, *bytes));
                    extents.push(Extent { offset, bytes: length });
                    *bytes += in_memory(length);
                }
            }
            end = end.max(wanted_end);
        }
        Ok(())
    }

    /// Requests for parts of versions, one for each version.
    fn of_own(wants: &[Want<'_>], order: &[usize], askings: &mut Vec<Asking>) {
        let mut at = None;
        for &want in order {
            let Some((version, akey)) = place::akey_of(wants[want].locator) else { continue };
            if at != Some(version) {
                at = Some(version);
                askings.push(Asking::new(What::Version { version, records: Vec::new() }));
            }
            let Asking { what, bytes, parts, .. } = askings.last_mut().expect("one was pushed");
            let What::Version { records, .. } = what else { unreachable!("these are records") };
            let room_bytes = wants[want].into.len();
            records.push((akey, room_bytes));
            parts.push((want, *bytes));
            *bytes += room_bytes;
        }
    }

    /// How many requests one asking is: a bucket is asked for each range.
    fn requests(&self, asking: &Asking) -> usize {
        match (&self.home, &asking.what) {
            (Home::Bucket(_), What::Group { extents, .. }) => extents.len(),
            _ => 1,
        }
    }

    /// Asks side by side.
    fn ask(&self, askings: &mut [Asking]) -> Result<()> {
        self.counts.round_trips.fetch_add(1, Ordering::Relaxed);
        for asking in &mut *askings {
            asking.buf = self.spare.take(asking.bytes);
        }
        match &self.home {
            Home::Container(cont) => self.ask_container(cont, askings),
            Home::Bucket(home) => self.ask_bucket(home, askings),
        }
    }

    fn ask_container(&self, cont: &Container, askings: &mut [Asking]) -> Result<()> {
        let request = |asking: &Asking| asking.what.in_container(cont, self.own, self.class);
        if let [asking] = askings {
            let (object, dkey, iods) = request(asking)?;
            let found = object.fetch(At::Latest, &dkey, Cond::NONE, &iods, &mut asking.buf)?;
            return is_whole(asking.what.structure(), &iods, &found);
        }
        let asks = askings.iter_mut().map(|asking| async move {
            let (object, dkey, iods) = request(asking)?;
            let buf = &mut asking.buf;
            let found = object.fetch_by(Way::Later, At::Latest, &dkey, Cond::NONE, &iods, buf).await?;
            is_whole(asking.what.structure(), &iods, &found)
        });
        cont.together(side_by_side(asks)).into_iter().collect()
    }

    fn ask_bucket(&self, home: &BucketHome, askings: &mut [Asking]) -> Result<()> {
        let (mut keys, mut versions) = (Vec::new(), Vec::new());
        for asking in &*askings {
            match &asking.what {
                What::Group { object, group, .. } => keys.push(group_key(*object, *group)),
                What::Version { version, records } => {
                    keys.push(String::new());
                    versions.extend(records.iter().map(|(akey, _)| (place::version(*version), akey.clone())));
                }
            }
        }
        let mut values =
            if versions.is_empty() { Vec::new() } else { home.values(self.own, &versions)? }.into_iter();
        let (mut reads, mut structures) = (Vec::new(), Vec::new());
        for (key, asking) in keys.iter().zip(askings) {
            let structure = asking.what.structure();
            let mut rest = &mut asking.buf[..];
            match &asking.what {
                What::Group { extents, .. } => {
                    for extent in extents {
                        let (into, behind) = rest.split_at_mut(in_memory(extent.bytes));
                        reads.push(Read { key, offset: extent.offset, into });
                        structures.push(structure);
                        rest = behind;
                    }
                }
                What::Version { records, .. } => {
                    for (_, room_bytes) in records {
                        let (into, behind) = rest.split_at_mut(*room_bytes);
                        let value = values.next().flatten();
                        let there = value.as_ref().map_or(0, Vec::len);
                        let Some(value) = value.filter(|_| there == into.len()) else {
                            return Err(missing(structure, into.len() as u64, there as u64));
                        };
                        into.copy_from_slice(&value);
                        rest = behind;
                    }
                }
            }
        }
        home.read(&mut reads, |read| structures[read])
    }
}

impl What {
    fn structure(&self) -> Structure {
        match *self {
            Self::Group { object, group, .. } => Structure::Group { object, group },
            Self::Version { .. } => Structure::Record,
        }
    }

    /// The request to a container.
    fn in_container(
        &self,
        cont: &Container,
        own: Records,
        class: ObjectClass,
    ) -> Result<(Object, Vec<u8>, Vec<FetchIod>)> {
        match self {
            Self::Group { object, group, extents } => {
                let extents = extents.iter().map(|extent| Recx::new(extent.offset, extent.bytes)).collect();
                let want = dolmen_client::Want::Array { record_bytes: 1, extents };
                let iods = vec![FetchIod { akey: Key::from_slice(place::PAGES), want }];
                Ok((place::cluster(cont, class, *object)?, place::group(*group).to_vec(), iods))
            }
            Self::Version { version, records } => {
                let iod = |(akey, room_bytes): &(Vec<u8>, usize)| FetchIod {
                    akey: Key::from_slice(akey),
                    want: dolmen_client::Want::Single { room_bytes: *room_bytes },
                };
                Ok((home::object(cont, own)?, place::version(*version), records.iter().map(iod).collect()))
            }
        }
    }
}

impl Asking {
    fn new(what: What) -> Self {
        Self { what, bytes: 0, parts: Vec::new(), buf: IoBuf::default() }
    }
}

/// Whether all was there.
fn is_whole(structure: Structure, iods: &[FetchIod], found: &Fetched) -> Result<()> {
    for (iod, found) in iods.iter().zip(found) {
        let (wanted, there) = match &iod.want {
            dolmen_client::Want::Array { extents, .. } => (
                extents.iter().map(|recx| recx.count).sum(),
                found.filled.iter().map(|recx| recx.count).sum(),
            ),
            dolmen_client::Want::Single { room_bytes } => (*room_bytes as u64, found.size_bytes),
            dolmen_client::Want::Size => continue,
        };
        if wanted != there {
            return Err(missing(structure, wanted, there));
        }
    }
    Ok(())
}

fn missing(structure: Structure, wanted_bytes: u64, left_bytes: u64) -> Error {
    Error::Corrupt { structure, offset: 0, fault: Fault::Short { wanted_bytes, left_bytes } }
}

impl Source for StoreSource {
    fn fetch(&self, wants: &mut [Want<'_>]) -> Result<()> {
        self.fetch_all(wants).map_err(|error| self.why(error))
    }

    fn holds(&self, locator: Locator, _bytes: u64) -> Result<()> {
        // What was stored was written by us, with checksums over what says how much it is.
        if matches!(locator, Locator::Stored { .. }) { Ok(()) } else { Err(elsewhere(locator)) }
    }

    fn fetch_bytes_max(&self) -> u64 {
        self.home.habits().fetch_bytes_max
    }

    fn zones(&self, lists: &[Link]) -> Result<Option<Vec<Option<Zone>>>> {
        Ok(Some(self.known(lists)?.iter().map(|known| known.zone).collect()))
    }

    fn gap_bytes(&self) -> u64 {
        // A container is asked for extents, however far they are from each other.
        if self.is_far() { self.home.habits().gap_bytes } else { u64::MAX }
    }

    fn is_far(&self) -> bool {
        matches!(self.home, Home::Bucket(_))
    }

    fn has_groups(&self) -> bool {
        true
    }
}

fn elsewhere(locator: Locator) -> Error {
    let kind = match locator {
        Locator::Unknown { kind } => kind,
        Locator::File { .. } | Locator::Stored { .. } => 0,
    };
    let feature = crate::error::Feature::Locator(kind);
    Error::Unsupported { structure: Structure::Record, offset: 0, feature }
}

fn short(structure: Structure, offset: u64, wanted_bytes: u64) -> Error {
    Error::Corrupt { structure, offset, fault: Fault::Short { wanted_bytes, left_bytes: 0 } }
}

/// # Panics
/// If memory has fewer addresses: ends of extents were compared with them.
fn in_memory(count: u64) -> usize {
    usize::try_from(count).expect("the end of the extent was compared with it")
}
