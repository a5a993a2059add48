//! The first and the last visible record of an array.
//!
//! Entries of an array stand kind by kind, those of a kind by where their extents begin, and a kind bounds how far
//! they reach: the walk through a kind ends where no further extent can be better than the best found.

use crate::conts::View;
use crate::cursor::IndexCursor;
use crate::path::{Depth, Path};
use crate::store::{Store, resolve, split_tail};
use dolmen_codec::version::VersionKind;
use dolmen_types::{Epoch, Error, Stamp, limits};

const WINDOW: u64 = limits::WINDOW_RECORDS;

/// Where data begins or ends, and the size of its records.
type Edge = Option<(u64, u32)>;

impl Store {
    /// The first visible record at or after `from`, with the size of its records.
    ///
    /// REQUIRES: the path is at the akey; `cover` covers it.
    pub(crate) fn first_record(
        &mut self,
        path: &mut Path,
        mut from: u64,
        view: &View,
        cover: Stamp,
    ) -> Result<Edge, Error> {
        let may_have_hole = self.index.may_have_removal(path.key.as_bytes());
        let (mut extents, mut pieces) = (Vec::new(), Vec::new());
        while let Some((start, record_bytes)) =
            self.with_cursor(path, |store, cursor, path| store.data_start(cursor, path, from, view, cover))?
        {
            if !may_have_hole {
                return Ok(Some((start, record_bytes)));
            }
            let window_end = (start / WINDOW + 1).saturating_mul(WINDOW);
            self.extents(path, (start, window_end), view, cover, &mut extents)?;
            resolve(&mut extents, (start, window_end), &mut pieces);
            if let Some(piece) = pieces.first() {
                return Ok(Some((piece.start, extents[piece.extent].record_bytes)));
            }
            if window_end == u64::MAX {
                break;
            }
            from = window_end;
        }
        Ok(None)
    }

    /// The last visible record, with the size of its records.
    ///
    /// REQUIRES: the path is at the akey; `cover` covers it.
    pub(crate) fn last_record(&mut self, path: &mut Path, view: &View, cover: Stamp) -> Result<Edge, Error> {
        let may_have_hole = self.index.may_have_removal(path.key.as_bytes());
        let (mut extents, mut pieces) = (Vec::new(), Vec::new());
        let (mut limit, mut width) = (u64::MAX, 1);
        while let Some((end, record_bytes)) =
            self.with_cursor(path, |store, cursor, path| store.data_end(cursor, path, limit, view, cover))?
        {
            if !may_have_hole {
                return Ok(Some((end - 1, record_bytes)));
            }
            let start = end.saturating_sub(width).max((end - 1) / WINDOW * WINDOW);
            self.extents(path, (start, end), view, cover, &mut extents)?;
            resolve(&mut extents, (start, end), &mut pieces);
            if let Some(piece) = pieces.last() {
                return Ok(Some((piece.end - 1, extents[piece.extent].record_bytes)));
            }
            // Only where the last record was dug out, the window is looked at as a whole.
            (limit, width) = (start, WINDOW);
        }
        Ok(None)
    }

    /// The record size of some extent of an array of which nothing was ever removed, if it has one.
    ///
    /// REQUIRES: the path is at the akey.
    pub(crate) fn any_record_bytes(&mut self, path: &mut Path) -> Result<Option<u32>, Error> {
        let any = self.with_cursor(path, |store, cursor, path| {
            store.seek_extent(Self::reseek, cursor, path, (VersionKind::Array1, 0))?;
            match store.extent_here(cursor, path)? {
                Some((_, start, _)) => {
                    let version = store.index.version(&store.log, cursor.place())?.0;
                    path.refuse_collision(Depth::Akey, &version)?;
                    Ok(Some((start, version.record_bytes)))
                }
                None => Ok(None),
            }
        })?;
        Ok(any.map(|(_, record_bytes)| record_bytes))
    }

    /// Runs a search with a cursor; the path comes back as it was.
    fn with_cursor(
        &mut self,
        path: &mut Path,
        search: impl FnOnce(&mut Self, &mut IndexCursor, &mut Path) -> Result<Edge, Error>,
    ) -> Result<Edge, Error> {
        let akey = path.key.mark();
        let mut cursor = self.take_cursor();
        cursor.within(self.index.hashes_of(path.key.as_bytes(), &VersionKind::ARRAYS));
        let edge = search(self, &mut cursor, path);
        self.put_cursor(cursor);
        path.key.rewind(akey);
        edge
    }

    /// The first record at or after `from` of visible data, holes not considered.
    fn data_start(
        &mut self,
        cursor: &mut IndexCursor,
        path: &mut Path,
        from: u64,
        view: &View,
        cover: Stamp,
    ) -> Result<Edge, Error> {
        let mut best: Edge = None;
        let lowest = |kind: VersionKind| from.saturating_sub(reach(kind) - 1);
        self.seek_extent(Self::reseek, cursor, path, (VersionKind::Array1, from))?;
        while let Some((kind, start, stamp)) = self.extent_here(cursor, path)? {
            if start < lowest(kind) {
                self.seek_extent(Self::reseek, cursor, path, (kind, lowest(kind)))?;
                continue;
            }
            let at = start.max(from);
            if best.is_some_and(|(best, _)| best <= at) {
                self.advance(cursor)?;
                if self.extent_here(cursor, path)?.is_some_and(|(next, ..)| next == kind) {
                    self.seek_extent(Self::reseek, cursor, path, (following(kind), 0))?;
                }
                continue;
            }
            if view.sees(stamp.epoch) && stamp > cover {
                let version = self.index.version(&self.log, cursor.place())?.0;
                if version.is_data() && version.recx.index.saturating_add(version.recx.count) > from {
                    best = Some((at, version.record_bytes));
                }
            }
            self.advance(cursor)?;
        }
        Ok(best)
    }

    /// One past the last record before `limit` of visible data, holes not considered.
    fn data_end(
        &mut self,
        cursor: &mut IndexCursor,
        path: &mut Path,
        limit: u64,
        view: &View,
        cover: Stamp,
    ) -> Result<Edge, Error> {
        let mut best: Edge = None;
        self.seek_extent(Self::seek_below, cursor, path, (VersionKind::LongHole, 0))?;
        while let Some((kind, start, stamp)) = self.extent_here(cursor, path)? {
            if start >= limit {
                self.seek_extent(Self::seek_below, cursor, path, (kind, limit))?;
                continue;
            }
            if best.is_some_and(|(best, _)| best >= start.saturating_add(reach(kind)).min(limit)) {
                self.advance(cursor)?;
                if self.extent_here(cursor, path)?.is_some_and(|(next, ..)| next == kind) {
                    self.seek_extent(Self::seek_below, cursor, path, (kind, 0))?;
                }
                continue;
            }
            if view.sees(stamp.epoch) && stamp > cover {
                let version = self.index.version(&self.log, cursor.place())?.0;
                let end = version.recx.index.saturating_add(version.recx.count).min(limit);
                if version.is_data() && best.is_none_or(|(best, _)| best < end) {
                    best = Some((end, version.record_bytes));
                }
            }
            self.advance(cursor)?;
        }
        Ok(best)
    }

    /// Kind, start and stamp of the extent here; `None` if the cursor has left the akey's extents that may hold data.
    fn extent_here(
        &self,
        cursor: &IndexCursor,
        path: &Path,
    ) -> Result<Option<(VersionKind, u64, Stamp)>, Error> {
        let Some(key) = cursor.key().filter(|key| key.starts_with(path.key.as_bytes())) else {
            return Ok(None);
        };
        let extent = split_tail(self.target, key, path.key.as_bytes().len())?;
        Ok(Some(extent).filter(|(kind, ..)| kind.is_array() && *kind != VersionKind::LongHole))
    }

    /// Goes up with `Store::reseek` to the first extent of a kind, or a later one, that begins at or behind
    /// `start`, or down with `Store::seek_below` to the last of it, or of an earlier one, that begins before.
    fn seek_extent(
        &mut self,
        way: fn(&mut Self, &mut IndexCursor, &[u8]) -> Result<(), Error>,
        cursor: &mut IndexCursor,
        path: &mut Path,
        (kind, start): (VersionKind, u64),
    ) -> Result<(), Error> {
        let akey = path.key.mark();
        let sought = way(self, cursor, path.key.tail(kind, start, NEWEST).as_bytes());
        path.key.rewind(akey);
        sought
    }
}

/// Above all versions: in the order of keys it comes before them.
const NEWEST: Stamp = Stamp { epoch: Epoch::MAX, minor: u16::MAX };

/// How many records an extent of this kind can have.
fn reach(kind: VersionKind) -> u64 {
    kind.records_max().expect("only kinds of arrays come here")
}

fn following(kind: VersionKind) -> VersionKind {
    VersionKind::from_number(kind as u8 + 1).expect("long holes come last and are not asked about")
}
