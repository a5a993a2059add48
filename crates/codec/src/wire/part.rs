//! Part of the answer to a fetch: records from one on of the only extent that was asked for, sent while the rest is read.
//!
//! Invariants: parts come in the order of the records, without a gap, each verified before it is sent; what has come of an answer
//! counts once its last record has come. An error, or an answer in one piece, takes the place of all parts before it.

use super::fetch::FetchPlan;
use super::reply::{Written, put_reply, read_reply};
use super::{BadFrame, ReplyHeader, ReplyKind, ReplyTo};
use crate::verb::FetchedIod;
use core::ops::Range;
use dolmen_types::{Epoch, Error, Recx};
use smallvec::SmallVec;

/// A feature of a client: it takes answers to fetches in parts. An engine that can send them says it, too.
pub const FEATURE_PARTS: u64 = 2;

/// What a frame of kind [`ReplyKind::FetchedPart`] says; behind it comes what was found of these records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPart {
    /// Records that this part is about.
    pub recx: Recx,
    /// What was found of them.
    pub fetched: FetchedIod,
}

/// Appends header and body of a part to `out`; `payload_bytes` of what was found go behind them.
///
/// # Panics
/// If the payload is longer than any frame's.
pub fn encode_part(out: &mut Vec<u8>, to: &ReplyTo<'_>, part: &FetchedPart, payload_bytes: usize) {
    let payload_bytes = u32::try_from(payload_bytes).expect("a part is short");
    put_reply(out, to, &Ok::<_, Error>(part), |out, part| {
        let mut w = super::field::Writer::new(out);
        w.put(&part.recx);
        w.put(&part.fetched);
        w.finish()?;
        Ok(Written { kind: ReplyKind::FetchedPart, status: 0, epoch: Epoch::ZERO, payload_bytes })
    });
}

/// Decodes the body of a part.
///
/// # Errors
/// `BadFrame::Body` or `BadFrame::BodySum` unless it is one.
pub fn decode_part(header: &ReplyHeader, body: &[u8]) -> Result<FetchedPart, BadFrame> {
    let bad = BadFrame::Body { kind: header.kind.number() };
    if header.kind != ReplyKind::FetchedPart {
        return Err(bad);
    }
    let part = read_reply(header, body, |r| {
        let recx = <Recx as super::field::Field>::read(r)?;
        Some(FetchedPart { recx, fetched: <FetchedIod as super::field::Field>::read(r)? })
    })?;
    part.or(Err(bad))
}

/// What has come of an answer in parts.
#[derive(Debug, Default, Clone)]
pub struct Gathered {
    /// Records from the first one on that have come.
    record_count: u64,
    fetched: FetchedIod,
}

impl Gathered {
    /// Where the payload of `part` goes in the buffer of the fetch that `plan` is of; `None` if it cannot be the next part of
    /// its answer.
    #[must_use]
    pub fn places(&self, plan: &FetchPlan, part: &FetchedPart) -> Option<SmallVec<[Range<usize>; 1]>> {
        let (record_bytes, whole) = plan.sole_extent()?;
        let begins = part.recx.index.checked_sub(whole.index)?;
        if begins != self.record_count || whole.intersect(part.recx) != Some(part.recx) {
            return None;
        }
        let at = plan.place_of(begins)?;
        let own = FetchPlan::of_extent(record_bytes, part.recx)?;
        let ranges = own.parts(core::slice::from_ref(&part.fetched))?;
        Some(ranges.map(|range| at + range.start..at + range.end).collect())
    }

    /// Gives up what has come: `buf`, where it went, has zeros there again, since another answer may leave these bytes alone.
    pub fn give_up(&mut self, plan: &FetchPlan, buf: &mut [u8]) {
        let gathered = core::mem::take(self);
        for range in plan.parts(core::slice::from_ref(&gathered.fetched)).into_iter().flatten() {
            if let Some(bytes) = buf.get_mut(range) {
                bytes.fill(0);
            }
        }
    }

    /// Takes note of a part whose payload is in its place: all of the answer, if it was the last.
    ///
    /// REQUIRES: [`Gathered::places`] has said where it goes.
    #[must_use]
    pub fn take(&mut self, plan: &FetchPlan, part: FetchedPart) -> Option<FetchedIod> {
        let (_, whole) = plan.sole_extent()?;
        self.record_count += part.recx.count;
        self.fetched.size_bytes = self.fetched.size_bytes.max(part.fetched.size_bytes);
        for filled in part.fetched.filled {
            match self.fetched.filled.last_mut() {
                Some(last) if last.end() == Some(filled.index) => last.count += filled.count,
                _ => self.fetched.filled.push(filled),
            }
        }
        (self.record_count == whole.count).then(|| core::mem::take(&mut self.fetched))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::golden;
    use crate::verb::{Fetch, FetchIod, ReadAt, Want};
    use crate::wire::{REPLY_HEADER_BYTES, Version};
    use dolmen_types::{Cond, IoBuf, Key, ObjectClass, ObjectType, Oid};
    use smallvec::smallvec;

    fn plan(whole: Recx) -> FetchPlan {
        FetchPlan::of(&Fetch {
            oid: Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 0, 1),
            dkey: Key::from(&b"d"[..]),
            cond: Cond::NONE,
            at: ReadAt::Latest,
            iods: smallvec![FetchIod {
                akey: Key::from(&b"a"[..]),
                want: Want::Array { record_bytes: 2, extents: smallvec![whole] },
            }],
            buf: IoBuf::zeroed(usize::try_from(2 * whole.count).unwrap()),
        })
    }

    fn part(index: u64, count: u64, filled: &[Recx]) -> FetchedPart {
        let fetched = FetchedIod { size_bytes: 2, filled: filled.into(), is_end: false };
        FetchedPart { recx: Recx::new(index, count), fetched }
    }

    #[test]
    fn a_part_round_trips_and_its_bytes_are_known() {
        let part = part(10, 4, &[Recx::new(11, 2)]);
        for (version, number) in
            [(Version::One, 0x61f4_6cdd_4c33_aa96), (Version::Two, 0x8ac4_5166_c628_4621)]
        {
            let to = ReplyTo { version, token: 5, map_version: 1, push_seq: 0, lease: (0, 0), plan: None };
            let mut out = Vec::new();
            encode_part(&mut out, &to, &part, 4);
            assert_eq!(golden(&out), number);
            let (header, body) = out.split_first_chunk::<REPLY_HEADER_BYTES>().unwrap();
            let header = ReplyHeader::decode(header, version).unwrap();
            assert_eq!(decode_part(&header, body).as_ref(), Ok(&part));
            for len in 0..body.len() {
                assert!(decode_part(&header, &body[..len]).is_err(), "{len}");
            }
            let other = ReplyHeader { kind: ReplyKind::Fetched, ..header };
            assert!(decode_part(&other, body).is_err());
        }
    }

    #[test]
    fn parts_in_order_make_the_answer_and_what_is_given_up_leaves_nothing() {
        let plan = plan(Recx::new(10, 10));
        let mut gathered = Gathered::default();
        let mut come = |part: FetchedPart| {
            let places = gathered.places(&plan, &part)?;
            Some((places, gathered.take(&plan, part)))
        };
        let all = [Recx::new(10, 4)];
        assert_eq!(come(part(10, 4, &all)), Some((smallvec![0..8], None)));
        assert_eq!(come(part(15, 2, &[])), None, "there is a gap");
        assert_eq!(come(part(14, 7, &[])), None, "it goes beyond the end");
        assert_eq!(come(part(14, 2, &[Recx::new(13, 2)])), None, "it was found elsewhere");
        assert_eq!(come(part(9, 2, &[])), None, "nobody has asked for it");
        assert_eq!(come(part(10, 4, &all)), None, "it has come");
        assert_eq!(come(part(14, 1, &[Recx::new(14, 1)])), Some((smallvec![8..10], None)));
        let mut buf = [7; 20];
        gathered.clone().give_up(&plan, &mut buf);
        assert_eq!(buf, core::array::from_fn(|at| if at < 10 { 0 } else { 7 }));
        let mut come = |part: FetchedPart| {
            let places = gathered.places(&plan, &part)?;
            Some((places, gathered.take(&plan, part)))
        };
        let (places, whole) = come(part(15, 5, &[Recx::new(15, 1), Recx::new(18, 2)])).unwrap();
        assert_eq!(places[..], [10..12, 16..20]);
        let whole = whole.unwrap();
        assert_eq!((whole.size_bytes, &whole.filled[..]), (2, &[Recx::new(10, 6), Recx::new(18, 2)][..]));
    }
}
