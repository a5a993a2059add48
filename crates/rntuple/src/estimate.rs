//! What a reading costs, before it is done: bytes, requests, time and money, from page lists alone.
//!
//! A page list names every page, so bytes and requests are exact; but which items of collections the first or the last entries of a cluster
//! have, pages say alone: of a cluster that is wanted in part these are counted as if all were. Time and money are of a [`Medium`], as its
//! numbers say.

use crate::error::Result;
use crate::format::column::InMemory;
use crate::format::locator::Locator;
use crate::format::page_list::Page;
use crate::format::schema::Role;
use crate::ntuple::{Cluster, Entries, Ntuple};
use crate::source::Source;
use core::ops::Range;

/// Blobs that [`blob_bytes`] chooses among: powers of two.
const BLOB_BYTES: core::ops::RangeInclusive<u32> = 16..=26;

/// The share of the time of a scan that may be lost to waiting for answers before blobs are made larger.
const WAITING_MAX: f64 = 0.05;

/// Bytes of a scan that are asked for together, whatever the clusters that they are in.
pub const ROUND_BYTES: u64 = 128 << 20;

/// What a medium takes: an S3-like store, or a disk.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Medium {
    /// Seconds from a request to the first byte of its answer.
    pub latency_s: f64,
    /// Bytes a second of all answers together.
    pub bandwidth_bytes_s: f64,
    /// Requests under way at once.
    pub parallel: u32,
    /// What it charges.
    pub prices: Prices,
}

/// A table of prices, in whatever money.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Prices {
    /// Of a request that writes an object.
    pub put: f64,
    /// Of a request that reads.
    pub get: f64,
    /// Of 10^9 bytes kept for a month.
    pub gigabyte_month: f64,
    /// Of 10^9 bytes that leave the store.
    pub gigabyte_out: f64,
}

impl Medium {
    /// An object store far away, with the list prices of the largest one in its standard class, in dollars (2026), read from within its region.
    pub const S3: Self = Self {
        latency_s: 0.015,
        bandwidth_bytes_s: 1e9,
        parallel: 32,
        prices: Prices { put: 5e-6, get: 4e-7, gigabyte_month: 0.023, gigabyte_out: 0.0 },
    };

    /// A solid-state disk in the machine.
    pub const SSD: Self = Self { latency_s: 1e-4, bandwidth_bytes_s: 3e9, parallel: 32, prices: FREE };

    /// A disk that turns.
    pub const HDD: Self = Self { latency_s: 8e-3, bandwidth_bytes_s: 2e8, parallel: 1, prices: FREE };

    /// Seconds for so many requests of so many bytes together.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn seconds(&self, requests: u64, bytes: u64) -> f64 {
        let rounds = requests.div_ceil(u64::from(self.parallel.max(1)));
        rounds as f64 * self.latency_s + bytes as f64 / self.bandwidth_bytes_s
    }
}

/// What one has already.
const FREE: Prices = Prices { put: 0.0, get: 0.0, gigabyte_month: 0.0, gigabyte_out: 0.0 };

/// What a column takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnUse {
    /// Its number.
    pub column: u32,
    /// The field that it belongs to; of a collection that has a number for a name, the projected field by which one asks for it.
    pub field: u32,
    /// Pages.
    pub page_count: u64,
    /// Bytes of its pages as they are stored, without checksums.
    pub stored_bytes: u64,
    /// Bytes of its elements in memory.
    pub memory_bytes: u64,
}

/// What a reading takes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Entries.
    pub entry_count: u64,
    /// Clusters with some of them.
    pub cluster_count: u64,
    /// Each column with pages, in the order of their numbers.
    pub columns: Vec<ColumnUse>,
    /// Pages of all.
    pub page_count: u64,
    /// Bytes of all as they are stored, without checksums.
    pub stored_bytes: u64,
    /// Bytes of all in memory.
    pub memory_bytes: u64,
    /// Requests, if neighbours are one: of a container one for each column group of a cluster, of a bucket and of a file one for each run of pages
    /// whose gaps are small enough ([`Source::gap_bytes`]).
    pub request_count: u64,
}

/// What a medium would take and charge.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// Seconds of the reading.
    pub seconds: f64,
    /// Seconds, if each page were a request and one waited for the one before.
    pub seconds_page_by_page: f64,
    /// For the requests that read, and what leaves the store.
    pub reading: f64,
    /// For writing all of it, each blob an object.
    pub writing: f64,
    /// For keeping all of it for a month.
    pub month: f64,
}

/// What reading these fields, with all below them and what says of collections above them where items begin, of the entries takes. Pages are
/// whole: of one with some of the entries all is read. Of clusters of which not all entries are wanted, items of collections and alternatives
/// of variants are counted as if they were, and each column of these is asked for by itself: no more is read.
///
/// # Errors
/// [`NoEntries`](crate::Error::NoEntries), and what reading a page list says.
///
/// # Panics
/// If there is no such field.
pub fn usage<S: Source>(ntuple: &Ntuple<S>, fields: &[u32], entries: Entries) -> Result<Usage> {
    let clusters = ntuple.clusters(entries)?;
    let wanted = ntuple.read_with(fields);
    let columns = ntuple.columns_of_all(&wanted);
    let mut usage = Usage { entry_count: entries.end - entries.first, ..Usage::default() };
    usage.cluster_count = clusters.len() as u64;
    let schema = &ntuple.header().schema;
    let known_as = schema.known_as(&wanted);
    let mut by_column: Vec<ColumnUse> = columns
        .iter()
        .map(|&column| ColumnUse {
            column,
            field: known_as[schema.columns[column as usize].field as usize],
            page_count: 0,
            stored_bytes: 0,
            memory_bytes: 0,
        })
        .collect();
    let of_entry: Vec<_> = columns.iter().map(|&column| of_entry(ntuple, column)).collect();
    for cluster in &clusters {
        let part = cluster.part(entries);
        let is_whole = part == (0..cluster.pages.entry_count);
        let gap_bytes = ntuple.source().gap_bytes();
        let mut places = Vec::new();
        for (one, each) in by_column.iter_mut().zip(&of_entry) {
            let pages = match each {
                Some(each) if !is_whole => with_some(cluster, one.column, *each, &part),
                _ => cluster.pages_of(one.column),
            };
            let first = places.len();
            let kind = schema.columns[one.column as usize].kind.in_memory();
            let bytes = kind.map_or(0, crate::format::column::InMemory::bytes) as u64;
            for page in pages {
                one.page_count += 1;
                one.stored_bytes += page.locator.bytes();
                one.memory_bytes += u64::from(page.element_count) * bytes;
                places.push(page.locator);
            }
            if !is_whole && each.is_none() {
                usage.request_count += requests(&mut places.split_off(first), gap_bytes);
            }
        }
        usage.request_count += requests(&mut places, gap_bytes);
    }
    by_column.retain(|column| column.page_count > 0);
    for column in &by_column {
        usage.page_count += column.page_count;
        usage.stored_bytes += column.stored_bytes;
        usage.memory_bytes += column.memory_bytes;
    }
    usage.columns = by_column;
    Ok(usage)
}

/// The elements of a column that an entry has.
#[derive(Clone, Copy)]
struct OfEntry {
    count: u64,
    /// Where the first begins stands with the one before it.
    is_offset: bool,
}

/// How many elements of a column each entry has; `None` where only what is above it tells.
fn of_entry<S: Source>(ntuple: &Ntuple<S>, column: u32) -> Option<OfEntry> {
    let described = &ntuple.header().schema.columns[column as usize];
    let mut field = described.field;
    if !ntuple.columns(field).iter().any(|columns| columns.first() == Some(&column)) {
        return None;
    }
    let mut count = ntuple.schema_field(field).repetition.unwrap_or(1);
    loop {
        let above = ntuple.schema_field(field).parent;
        if above == field {
            return Some(OfEntry { count, is_offset: described.kind.in_memory() == Some(InMemory::Offset) });
        }
        let over = ntuple.schema_field(above);
        if !matches!(over.role, Some(Role::Plain | Role::Record)) {
            return None;
        }
        count = count.checked_mul(over.repetition.unwrap_or(1))?;
        field = above;
    }
}

/// The pages of a column with elements of some entries of a cluster. What a column that begins later has not is before them.
fn with_some<'a>(cluster: &Cluster<'a>, column: u32, each: OfEntry, part: &Range<u64>) -> &'a [Page] {
    let pages = cluster.pages_of(column);
    let of = |entries: u64| entries.saturating_mul(each.count);
    let (start, end) = (of(part.start).saturating_sub(each.is_offset.into()), of(part.end));
    let mut at = of(cluster.pages.entry_count).saturating_sub(cluster.element_count(column));
    let ends: Vec<u64> = pages
        .iter()
        .map(|page| {
            at = at.saturating_add(u64::from(page.element_count));
            at
        })
        .collect();
    let first = ends.partition_point(|page_end| *page_end <= start);
    let behind = ends.partition_point(|page_end| *page_end < end);
    &pages[first..pages.len().min(behind + 1).max(first)]
}

/// How many requests the places of one cluster are.
fn requests(places: &mut [Locator], gap_bytes: u64) -> u64 {
    places.sort_unstable_by_key(|place| place.order());
    let (mut count, mut last) = (0, None::<((u64, u32), u64)>);
    for place in places {
        let (object, group, offset) = place.order();
        let end = offset.saturating_add(place.bytes());
        match last
            .as_mut()
            .filter(|(place, end)| *place == (object, group) && offset <= end.saturating_add(gap_bytes))
        {
            Some((_, last)) => *last = end.max(*last),
            None => {
                count += 1;
                last = Some(((object, group), end));
            }
        }
    }
    count
}

impl Usage {
    /// What a medium takes for it, where blobs of so many bytes are objects.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn cost(&self, medium: &Medium, blob_bytes: u64) -> Cost {
        let gigabytes = self.stored_bytes as f64 / 1e9;
        let blobs = self.stored_bytes.div_ceil(blob_bytes.max(1));
        let prices = &medium.prices;
        let page_by_page = Medium { parallel: 1, ..*medium };
        Cost {
            seconds: medium.seconds(self.request_count, self.stored_bytes),
            seconds_page_by_page: page_by_page.seconds(self.page_count, self.stored_bytes),
            reading: self.request_count as f64 * prices.get + gigabytes * prices.gigabyte_out,
            writing: blobs as f64 * prices.put,
            month: gigabytes * prices.gigabyte_month,
        }
    }
}

/// Bytes of a blob for that medium: the least of 64 KiB to 64 MiB with which a scan of [`ROUND_BYTES`], or a cluster of so many bytes if that is more,
/// waits for answers once, or in at most a twentieth of its time, and writing costs at most what keeping all of it for a month does; but no more
/// than a cluster has. Less would be wasted by whoever reads a few columns.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub fn blob_bytes(medium: &Medium, cluster_bytes: u64) -> u64 {
    let scan_bytes = cluster_bytes.max(ROUND_BYTES);
    let is_enough = |&bytes: &u64| {
        let requests = scan_bytes.div_ceil(bytes);
        let all = medium.seconds(requests, scan_bytes);
        let waiting = 1.0 - medium.seconds(0, scan_bytes) / all.max(f64::MIN_POSITIVE);
        let put = medium.prices.put / bytes as f64;
        let is_one_round = requests <= u64::from(medium.parallel);
        (waiting <= WAITING_MAX || is_one_round)
            && (medium.prices.put == 0.0 || put <= medium.prices.gigabyte_month / 1e9)
    };
    let mut sizes = BLOB_BYTES.map(|power| 1_u64 << power);
    let largest = 1 << BLOB_BYTES.end();
    sizes
        .find(is_enough)
        .unwrap_or(largest)
        .min(cluster_bytes.next_power_of_two().max(1 << BLOB_BYTES.start()))
}

#[cfg(test)]
mod tests {
    use super::{Locator, Medium, blob_bytes, requests};
    use crate::source::GAP_BYTES;

    #[test]
    fn neighbours_in_a_file_and_pages_of_a_group_are_one_request() {
        let file = |offset, bytes| Locator::File { offset, bytes };
        let of = |mut places: Vec<_>| requests(&mut places, GAP_BYTES);
        assert_eq!(of(vec![]), 0);
        assert_eq!(of(vec![file(100, 50), file(150, 50), file(40_000, 1)]), 2);
        assert_eq!(of(vec![file(32_918, 1), file(100, 50)]), 1);
        let stored = |object, group, offset| Locator::Stored { object, group, offset, bytes: 9 };
        let apart = vec![stored(1, 1, 0), stored(1, 1, 90_000), stored(1, 2, 0), stored(2, 1, 0)];
        assert_eq!(of(apart.clone()), 4);
        assert_eq!(requests(&mut apart.clone(), u64::MAX), 3);
    }

    #[test]
    fn seconds_are_rounds_of_answers_and_the_bytes() {
        let medium = Medium { latency_s: 0.01, bandwidth_bytes_s: 1e6, parallel: 4, ..Medium::S3 };
        assert!((medium.seconds(9, 2_000_000) - 2.03).abs() < 1e-9);
    }

    #[test]
    fn blobs_are_larger_where_answers_take_longer() {
        let cluster = 128 << 20;
        let near = blob_bytes(&Medium::SSD, cluster);
        let far = blob_bytes(&Medium { parallel: 1, ..Medium::S3 }, cluster);
        assert!(near < far, "{near} {far}");
        assert_eq!(blob_bytes(&Medium::S3, cluster), 4 << 20, "as many as are under way at once");
        assert_eq!(
            blob_bytes(&Medium::S3, 2 << 20),
            2 << 20,
            "a small cluster is one, since many are read together"
        );
        assert!(blob_bytes(&Medium::HDD, 1000) <= 64 << 10);
    }
}
