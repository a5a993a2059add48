//! Runs a pipeline: over all dkeys of an object, a page at a time, or over one of them.
//!
//! Invariants: what is given back of a dkey is given whole; the anchor is behind the last dkey that was counted.

use super::program::{Program, Total};
use super::rows::{self, Place, Record};
use crate::buffer::{Pen, Pieces};
use crate::error::{Der, Result};
use crate::io::{ARRAY, CIod, SINGLE, cond};
use crate::list::{KeyDesc, cut};
use crate::object::ObjectHandle;
use crate::raw::Out;
use crate::tx::When;
use crate::types::{CAnchor, Iov, SgList};
use core::ops::ControlFlow;
use dolmen_client::{Anchor, Cond, Page, Way, limits};
use std::sync::Arc;

/// What was looked at.
//= daos:src/include/daos_pipeline.h daos_pipeline_stats_t
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Stats {
    objs: u64,
    dkeys: u64,
    akeys: u64,
}

/// Dkeys that one call looks at, unless it computes something of all of them: a caller who finds little hears of it.
const SCANNED_MAX: u64 = 1 << 16;
/// Dkeys asked for at a time: each takes requests of its own, so larger pages would save nothing.
const PAGE: Page = Page { items_max: 128, bytes_max: 64 << 10 };
/// Aggregated values are doubles.
const RESULT_BYTES: usize = 8;

/// Where everything goes.
#[derive(Clone, Copy)]
pub(crate) struct RunOut {
    pub(super) nr_iods: Out<u32>,
    pub(super) iods: Out<CIod>,
    pub(super) anchor: Out<CAnchor>,
    pub(super) nr_kds: Out<u32>,
    pub(super) kds: Out<KeyDesc>,
    pub(super) sgl_keys: Out<SgList>,
    pub(super) sgl_recx: Out<SgList>,
    pub(super) recx_size: Out<u64>,
    pub(super) sgl_agg: Out<SgList>,
    pub(super) stats: Out<Stats>,
}

/// A pipeline that is to be run.
pub(crate) struct Run {
    object: Arc<ObjectHandle>,
    when: When,
    program: Program,
    cond: Cond,
    dkey: Option<Vec<u8>>,
    /// What is read of each dkey, as the program had it when it called.
    iods: Vec<CIod>,
    /// Dkeys that may come back.
    rows_max: usize,
    out: RunOut,
}

impl Run {
    /// Checks what a run was called with.
    ///
    /// # Errors
    /// `INVAL`.
    pub(super) fn of(
        object: Arc<ObjectHandle>,
        when: When,
        program: Program,
        flags: u64,
        dkey: Out<Iov>,
        out: RunOut,
    ) -> Result<Self> {
        let cond = cond(flags)?;
        let dkey = if dkey.is_null() { None } else { Some(dkey.get()?.key()?.to_vec()) };
        let count_of = |count: Out<u32>| if count.is_null() { Ok(0) } else { count.get() };
        let (iod_count, key_count) = (count_of(out.nr_iods)? as usize, count_of(out.nr_kds)? as usize);
        let of_fetches = Cond::DKEY_FETCH.0 | Cond::AKEY_FETCH.0;
        if cond.0 & !of_fetches != 0 || iod_count > limits::IODS_MAX {
            return Err(Der::INVAL);
        }
        let iods = out.iods.list(iod_count)?.to_vec();
        for iod in &iods {
            iod.name.key()?;
            if iod.kind != SINGLE && iod.kind != ARRAY {
                return Err(Der::INVAL);
            }
        }
        let (is_one, is_folded) = (dkey.is_some(), program.fold_count() > 0);
        let has_keys = key_count > 0 && !out.kds.is_null() && Pieces::of(out.sgl_keys)?.is_some();
        let is_without_akey = program.is_by_akey() && !(is_one && iod_count > 0);
        if is_without_akey || !(has_keys || is_one || is_folded) || (!is_one && out.anchor.is_null()) {
            return Err(Der::INVAL);
        }
        let rows_max = if is_one || is_folded { 1 } else { key_count };
        let run = Self { object, when, program, cond, dkey, iods, rows_max, out };
        run.results()?;
        Ok(run)
    }

    /// Where aggregated values go: a piece for each, with room for it.
    fn results(&self) -> Result<Option<Pieces>> {
        if self.program.fold_count() == 0 {
            return Ok(None);
        }
        let pieces = Pieces::of(self.out.sgl_agg)?.ok_or(Der::INVAL)?;
        if pieces.count() != self.program.fold_count() {
            return Err(Der::INVAL);
        }
        for index in 0..pieces.count() {
            if pieces.room_of(index)? < RESULT_BYTES {
                return Err(Der::INVAL);
            }
        }
        Ok(Some(pieces))
    }

    /// Runs it.
    ///
    /// # Errors
    /// `KEY2BIG`, `REC2BIG` if not one dkey, or its records, fit; those of the expressions, and of the client.
    pub(super) async fn carry_out(self, way: Way) -> Result<()> {
        let mut answer = Answer::of(&self)?;
        match &self.dkey {
            Some(dkey) => self.one(way, dkey, &mut answer).await?,
            None => self.all(way, &mut answer).await?,
        }
        answer.tell(&self)
    }

    fn place<'a>(&'a self, way: Way, dkey: &'a [u8], akey: Option<&'a [u8]>) -> Place<'a> {
        Place { way, object: &self.object.client, when: &self.when, dkey, akey }
    }

    /// Goes over the dkeys behind the anchor until all are seen or no more come back.
    async fn all(&self, way: Way, answer: &mut Answer) -> Result<()> {
        let own = self.out.anchor.get()?;
        let mut position = own.anchor()?;
        let scanned_max = if self.program.fold_count() > 0 { u64::MAX } else { SCANNED_MAX };
        let mut is_full = false;
        while !is_full && !position.is_eof() && answer.stats.dkeys < scanned_max {
            let mut next = position;
            let keys = self.object.client.list_dkeys_by(way, self.when.at(), &mut next, PAGE).await?;
            let (keys, next) = cut(&self.object, own.end_shard, keys, next)?;
            let mut seen = 0;
            for dkey in keys.iter() {
                is_full = self.visit(way, dkey, answer).await?.is_break();
                if is_full {
                    break;
                }
                seen += 1;
                is_full = self.program.fold_count() == 0 && answer.rows == self.rows_max;
                if is_full {
                    break;
                }
            }
            position = match keys.iter().take(seen).last() {
                _ if seen == keys.len() => next,
                Some(last) => self.object.client.anchor_after(last)?,
                None => position,
            };
        }
        self.out.anchor.set(own.moved_to(&position))
    }

    /// Looks at one dkey of all; breaks off before one for which there is no room any more.
    async fn visit(&self, way: Way, dkey: &[u8], answer: &mut Answer) -> Result<ControlFlow<()>> {
        let place = self.place(way, dkey, None);
        let fields = rows::fields(&self.program, place).await?;
        if self.program.lets_through(&fields)? {
            self.program.fold(&fields, &mut answer.totals)?;
            if answer.rows < self.rows_max {
                match self.give(place, answer).await {
                    Err(Der::KEY2BIG | Der::REC2BIG) if answer.rows > 0 => return Ok(ControlFlow::Break(())),
                    other => other?,
                }
            }
        }
        answer.stats.dkeys += 1;
        Ok(ControlFlow::Continue(()))
    }

    /// Gives a dkey back, with its records.
    async fn give(&self, place: Place<'_>, answer: &mut Answer) -> Result<()> {
        let mut records = Vec::with_capacity(self.iods.len());
        let mut left = answer.room(self.iods.len())?;
        for (index, iod) in self.iods.iter().enumerate() {
            let record = rows::record(place, self.cond, iod, left.of(index)?).await?;
            left.use_up(record.buf.len());
            records.push(record);
        }
        answer.add(place.dkey, &records, self.iods.len())
    }

    /// Looks at one dkey, and at the akeys of it that the program names.
    async fn one(&self, way: Way, dkey: &[u8], answer: &mut Answer) -> Result<()> {
        let (mut kept, mut records, mut is_through) = (Vec::new(), Vec::new(), false);
        let mut left = answer.room(self.iods.len())?;
        let by_akey = self.program.is_by_akey();
        if !by_akey && self.exists(way, dkey).await? {
            let fields = rows::fields(&self.program, self.place(way, dkey, None)).await?;
            is_through = self.program.lets_through(&fields)?;
            if is_through {
                self.program.fold(&fields, &mut answer.totals)?;
            }
        }
        for iod in &self.iods {
            let place = self.place(way, dkey, Some(iod.name.key()?));
            if rows::size(place, iod).await? == 0 {
                if !self.cond.is_none() {
                    rows::record(place, self.cond, iod, 0).await?;
                }
                continue;
            }
            answer.stats.akeys += 1;
            let mut passes = is_through;
            if by_akey {
                let fields = rows::fields(&self.program, place).await?;
                passes = self.program.lets_through(&fields)?;
                if passes {
                    self.program.fold(&fields, &mut answer.totals)?;
                }
            }
            if passes {
                let record = rows::record(place, self.cond, iod, left.of(kept.len())?).await?;
                left.use_up(record.buf.len());
                kept.push(CIod { size: record.size, ..*iod });
                records.push(record);
            }
        }
        if is_through || !kept.is_empty() {
            answer.add(dkey, &records, self.iods.len())?;
        }
        self.out.iods.copy_from(&kept)?;
        self.out.nr_iods.set_if_wanted(u32::try_from(kept.len()).map_err(|_wide| Der::OVERFLOW)?);
        if !self.out.anchor.is_null() {
            self.out.anchor.set(self.out.anchor.get()?.moved_to(&Anchor::eof()))?;
        }
        Ok(())
    }

    /// Whether anything is stored under a dkey.
    async fn exists(&self, way: Way, dkey: &[u8]) -> Result<bool> {
        let one = Page { items_max: 1, ..PAGE };
        let (client, at) = (&self.object.client, self.when.at());
        let akeys = client.list_akeys_by(way, at, dkey, &mut Anchor::default(), one).await?;
        Ok(!akeys.is_empty())
    }
}

/// What has come back so far.
struct Answer {
    rows: usize,
    stats: Stats,
    totals: Vec<Total>,
    keys: Option<Keys>,
    records: Option<Records>,
    sizes: Out<u64>,
}

/// Keys, one behind the other.
struct Keys {
    kds: Out<KeyDesc>,
    pieces: Pieces,
    pen: Pen,
    at: usize,
}

/// Records: each in a piece of its own if there are so many pieces, else one behind the other.
struct Records {
    pieces: Pieces,
    pen: Pen,
    at: usize,
    is_by_piece: bool,
}

/// The room that is left for the records of one dkey.
enum Room {
    /// Pieces from this one on.
    Pieces(Pieces, usize),
    /// So many bytes.
    Bytes(usize),
    /// They go nowhere, only their lengths are told.
    Nowhere,
}

impl Room {
    /// What is left for the record of an iod.
    fn of(&self, index: usize) -> Result<usize> {
        match self {
            Self::Pieces(pieces, first) => pieces.room_of(first + index),
            Self::Bytes(left) => Ok(*left),
            Self::Nowhere => Ok(usize::MAX),
        }
    }

    fn use_up(&mut self, len: usize) {
        if let Self::Bytes(left) = self {
            *left = left.saturating_sub(len);
        }
    }
}

impl Answer {
    fn of(run: &Run) -> Result<Self> {
        let out = &run.out;
        let wants_keys = !out.kds.is_null() && !out.nr_kds.is_null() && out.nr_kds.get()? > 0;
        let keys = match Pieces::of(out.sgl_keys)?.filter(|_| wants_keys) {
            Some(pieces) => Some(Keys { kds: out.kds, pen: pieces.pen()?, pieces, at: 0 }),
            None => None,
        };
        let places = run.rows_max.saturating_mul(run.iods.len());
        let records = match Pieces::of(out.sgl_recx)? {
            Some(pieces) => {
                let is_by_piece = places > 1 && pieces.count() >= places;
                Some(Records { pen: pieces.pen()?, pieces, at: 0, is_by_piece })
            }
            None => None,
        };
        let totals = vec![Total::NONE; run.program.fold_count()];
        Ok(Self { rows: 0, stats: Stats::default(), totals, keys, records, sizes: out.recx_size })
    }

    /// The room for the records of the next dkey.
    fn room(&self, iod_count: usize) -> Result<Room> {
        Ok(match &self.records {
            Some(records) if records.is_by_piece => Room::Pieces(records.pieces, self.rows * iod_count),
            Some(records) => Room::Bytes(records.pieces.room()?.saturating_sub(records.at)),
            None => Room::Nowhere,
        })
    }

    /// Adds a dkey and its records.
    ///
    /// # Errors
    /// `KEY2BIG` if there is no room for the key; nothing was added then.
    fn add(&mut self, dkey: &[u8], records: &[Record], iod_count: usize) -> Result<()> {
        if let Some(keys) = &mut self.keys {
            if keys.pieces.room()? - keys.at < dkey.len() {
                keys.kds.at(self.rows).set(KeyDesc { key_len: dkey.len() as u64, val_type: 0 })?;
                return Err(Der::KEY2BIG);
            }
            keys.kds.at(self.rows).set(KeyDesc { key_len: dkey.len() as u64, val_type: 0 })?;
            keys.pen.write(keys.at, dkey)?;
            keys.at += dkey.len();
        }
        for (index, record) in records.iter().enumerate() {
            let place = self.rows * iod_count + index;
            if !self.sizes.is_null() {
                self.sizes.at(place).set(record.buf.len() as u64)?;
            }
            let Some(own) = &mut self.records else { continue };
            if own.is_by_piece {
                own.pieces.fill(place, &record.buf)?;
                continue;
            }
            own.pen.write(own.at, &record.buf)?;
            own.at += record.buf.len();
        }
        self.rows += 1;
        Ok(())
    }

    /// Tells the program how much has come back.
    fn tell(&self, run: &Run) -> Result<()> {
        let out = &run.out;
        if let Some(keys) = &self.keys {
            keys.pieces.set_filled(keys.at)?;
        }
        if let Some(records) = &self.records {
            if records.is_by_piece {
                records.pieces.set_used(self.rows * run.iods.len())?;
            } else {
                records.pieces.set_filled(records.at)?;
            }
        }
        if let Some(pieces) = run.results()? {
            for (index, result) in run.program.results(&self.totals).into_iter().enumerate() {
                pieces.fill(index, &result.to_le_bytes())?;
            }
            pieces.set_used(pieces.count())?;
        }
        out.stats.set_if_wanted(self.stats);
        out.nr_kds.set_if_wanted(u32::try_from(self.rows).map_err(|_wide| Der::OVERFLOW)?);
        Ok(())
    }
}
