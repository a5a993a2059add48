//! Bytes of a stored ntuple: all that is wanted of one column group is one request, and requests go out side by side.

use super::place;
use super::zones::{self, Known};
use crate::error::{Error, Fault, Result, Structure};
use crate::format::locator::{Link, Locator};
use crate::source::{Source, Want};
use core::sync::atomic::{AtomicU64, Ordering};
use dolmen_client::{
    At, Cond, Container, FetchIod, Fetched, IoBuf, Key, Object, ObjectClass, Recx, Way, side_by_side,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Neighbours with fewer bytes between them are read with these: as much as a page of the device, which is read in any case.
const GAP_BYTES: u64 = 4096;

/// Bytes that requests side by side ask for: what is on the way at once, and in memory twice for a moment.
const SIDE_BY_SIDE_BYTES_MAX: usize = 64 << 20;

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
const SPARE_BYTES_MAX: usize = SIDE_BY_SIDE_BYTES_MAX;

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
    cont: Container,
    class: ObjectClass,
    own: Object,
    counts: Arc<Counts>,
    zones: Arc<Zones>,
    spare: Arc<Spare>,
}

/// One request, and where its answer goes.
struct Asking {
    object: Object,
    dkey: Vec<u8>,
    iods: Vec<FetchIod>,
    /// Bytes that it asks for.
    bytes: usize,
    /// Which want has its bytes from where.
    parts: Vec<(usize, usize)>,
    buf: IoBuf,
    structure: Structure,
}

impl StoreSource {
    pub(super) fn new(cont: &Container, own: Object, class: ObjectClass) -> Self {
        let (counts, zones, spare) = (Arc::default(), Arc::default(), Arc::default());
        Self { cont: cont.clone(), class, own, counts, zones, spare }
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
        let asks = keys.iter().map(|(dkey, akey)| async move {
            let mut buf = IoBuf::default();
            let found = self.own.get_by(Way::Later, At::Latest, dkey, akey, &mut buf).await?;
            Ok::<_, Error>(found.map(|_| buf.to_vec()))
        });
        self.counts.metadata_requests.fetch_add(keys.len() as u64, Ordering::Relaxed);
        self.counts.round_trips.fetch_add(1, Ordering::Relaxed);
        self.cont.together(side_by_side(asks)).into_iter().collect()
    }

    /// Requests for pages of clusters, which are in the order of their places.
    fn of_pages(&self, wants: &[Want<'_>], order: &[usize], askings: &mut Vec<Asking>) -> Result<()> {
        let (mut at, mut end) = ((0, 0), 0_u64);
        for &want in order {
            let Locator::Stored { object, group, offset, .. } = wants[want].locator else { continue };
            let length = wants[want].into.len() as u64;
            if askings.is_empty() || at != (object, group) {
                at = (object, group);
                let structure = Structure::Group { object, group };
                let object = place::cluster(&self.cont, self.class, object)?;
                let akey = Key::from_slice(place::PAGES);
                let extents = smallvec::smallvec![];
                let iod = FetchIod { akey, want: dolmen_client::Want::Array { record_bytes: 1, extents } };
                let (dkey, buf) = (place::group(group).to_vec(), IoBuf::default());
                let asking =
                    Asking { object, dkey, iods: vec![iod], bytes: 0, parts: Vec::new(), buf, structure };
                askings.push(asking);
                end = 0;
            }
            let asking = askings.last_mut().expect("one was pushed");
            let dolmen_client::Want::Array { extents, .. } = &mut asking.iods[0].want else {
                unreachable!("pages are in arrays")
            };
            let wanted_end = offset.checked_add(length).filter(|&end| usize::try_from(end).is_ok());
            let wanted_end = wanted_end.ok_or(short(asking.structure, offset, length))?;
            let is_near = offset <= end.saturating_add(GAP_BYTES) || extents.len() >= EXTENTS_MAX;
            match extents.last_mut().filter(|_| is_near) {
                Some(last) => {
                    let start = asking.bytes - bytes(last.count);
                    asking.parts.push((want, start + bytes(offset - last.index)));
                    let more = wanted_end.saturating_sub(end);
                    last.count += more;
                    asking.bytes += bytes(more);
                }
                None => {
                    asking.parts.push((want, asking.bytes));
                    extents.push(Recx::new(offset, length));
                    asking.bytes += bytes(length);
                }
            }
            end = end.max(wanted_end);
        }
        Ok(())
    }

    /// Requests for parts of versions, one for each version.
    fn of_own(&self, wants: &[Want<'_>], order: &[usize], askings: &mut Vec<Asking>) {
        let mut at = None;
        for &want in order {
            let Some((version, akey)) = place::akey_of(wants[want].locator) else { continue };
            if at != Some(version) {
                at = Some(version);
                askings.push(Asking {
                    object: self.own.clone(),
                    dkey: place::version(version),
                    iods: Vec::new(),
                    bytes: 0,
                    parts: Vec::new(),
                    buf: IoBuf::default(),
                    structure: Structure::Record,
                });
            }
            let asking = askings.last_mut().expect("one was pushed");
            let room_bytes = wants[want].into.len();
            let want_single = dolmen_client::Want::Single { room_bytes };
            asking.iods.push(FetchIod { akey: Key::from_slice(&akey), want: want_single });
            asking.parts.push((want, asking.bytes));
            asking.bytes += room_bytes;
        }
    }

    /// Asks side by side.
    fn ask(&self, askings: &mut [Asking]) -> Result<()> {
        self.counts.round_trips.fetch_add(1, Ordering::Relaxed);
        for asking in &mut *askings {
            asking.buf = self.spare.take(asking.bytes);
        }
        if let [asking] = askings {
            let Asking { object, dkey, iods, buf, .. } = asking;
            let found = object.fetch(At::Latest, dkey, Cond::NONE, iods, buf)?;
            return asking.is_whole(&found);
        }
        let asks = askings.iter_mut().map(|asking| async move {
            let Asking { object, dkey, iods, buf, .. } = &mut *asking;
            let found = object.fetch_by(Way::Later, At::Latest, dkey, Cond::NONE, iods, buf).await?;
            asking.is_whole(&found)
        });
        self.cont.together(side_by_side(asks)).into_iter().collect()
    }
}

impl Asking {
    /// Whether all was there.
    fn is_whole(&self, found: &Fetched) -> Result<()> {
        for (iod, found) in self.iods.iter().zip(found) {
            let (wanted, there) = match &iod.want {
                dolmen_client::Want::Array { extents, .. } => (
                    extents.iter().map(|recx| recx.count).sum(),
                    found.filled.iter().map(|recx| recx.count).sum(),
                ),
                dolmen_client::Want::Single { room_bytes } => (*room_bytes as u64, found.size_bytes),
                dolmen_client::Want::Size => continue,
            };
            if wanted != there {
                let fault = Fault::Short { wanted_bytes: wanted, left_bytes: there };
                return Err(Error::Corrupt { structure: self.structure, offset: 0, fault });
            }
        }
        Ok(())
    }
}

impl Source for StoreSource {
    fn fetch(&self, wants: &mut [Want<'_>]) -> Result<()> {
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
        self.counts.page_requests.fetch_add(askings.len() as u64, Ordering::Relaxed);
        self.counts.page_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let page_count = askings.len();
        self.of_own(wants, &own, &mut askings);
        self.counts.metadata_requests.fetch_add((askings.len() - page_count) as u64, Ordering::Relaxed);
        let mut rest = &mut askings[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().position(|asking| {
                bytes += asking.bytes;
                bytes > SIDE_BY_SIDE_BYTES_MAX
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
        Ok(())
    }

    fn holds(&self, locator: Locator, _bytes: u64) -> Result<()> {
        // What was stored was written by us, with checksums over what says how much it is.
        if matches!(locator, Locator::Stored { .. }) { Ok(()) } else { Err(elsewhere(locator)) }
    }

    fn fetch_bytes_max(&self) -> u64 {
        FETCH_BYTES_MAX
    }

    fn has_groups(&self) -> bool {
        true
    }
}

/// Bytes of one round of reading: as many as the processor's cache loses, for as few round trips as that saves.
const FETCH_BYTES_MAX: u64 = 32 << 20;

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
fn bytes(count: u64) -> usize {
    usize::try_from(count).expect("the end of the extent was compared with it")
}
