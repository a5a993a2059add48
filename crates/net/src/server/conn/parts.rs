//! Long fetches, answered in parts: one is sent and taken in while the next is read and verified, and others have their turn
//! in between.
//!
//! Invariants: all parts of an answer are read at one epoch, which the target keeps, or it is given anew, in one piece; a part
//! is read, and so verified, before anything of it is sent; no more is read while the peer has more than a part to read.

use super::Conn;
use crate::error::Result;
use crate::server::worker::{Shared, UnderWay};
use crate::terms::Terms;
use dolmen_codec::verb::{Fetch, FetchIod, FetchedIod, ReadAt, Reply, Verb, Want};
use dolmen_codec::wire::{FetchPlan, FetchedPart, ReplyTo, encode_part};
use dolmen_codec::{Answer, Ask};
use dolmen_types::{Cond, ContNo, Epoch, Error as Failure, Head, IoBuf, Key, Oid, Recx, TargetNo};

/// Bytes of a part: two of them stay in the cache of a processor beside what they are copied from.
const PART_BYTES: u64 = 128 << 10;

/// What is shorter is answered at once: there would be little to do meanwhile.
const PARTED_BYTES_MIN: u64 = 2 * PART_BYTES;

/// A fetch that is answered in parts.
#[derive(Debug)]
pub(in crate::server) struct Parts {
    head: Head,
    target: TargetNo,
    cont: ContNo,
    oid: Oid,
    dkey: Key,
    akey: Key,
    /// As it was asked.
    wanted_at: ReadAt,
    /// As the parts are read.
    at: ReadAt,
    record_bytes: u64,
    whole: Recx,
    /// What is asked of the target now; the epoch if it is nothing.
    part: Option<Recx>,
}

impl Parts {
    /// The parts of `fetch` if it is worth it: of one long extent, under no condition, into a buffer of just its length.
    pub(super) fn of(
        fetch: &Fetch,
        room_bytes: usize,
        head: Head,
        target: TargetNo,
        cont: ContNo,
    ) -> Option<Box<Self>> {
        let [FetchIod { akey, want: Want::Array { record_bytes, extents } }] = &fetch.iods[..] else {
            return None;
        };
        let &[whole] = &extents[..] else { return None };
        let byte_count = whole.count.checked_mul(*record_bytes)?;
        let is_long = byte_count >= PARTED_BYTES_MIN && *record_bytes > 0 && *record_bytes <= PART_BYTES;
        if u64::try_from(room_bytes) != Ok(byte_count)
            || !is_long
            || fetch.cond != Cond::NONE
            || whole.end().is_none()
        {
            return None;
        }
        Some(Box::new(Self {
            head,
            target,
            cont,
            oid: fetch.oid,
            dkey: fetch.dkey.clone(),
            akey: akey.clone(),
            wanted_at: fetch.at,
            at: fetch.at,
            record_bytes: *record_bytes,
            whole,
            part: None,
        }))
    }

    fn is_first(&self) -> bool {
        self.part.is_some_and(|part| part.index == self.whole.index)
    }

    /// The part from a record on.
    fn from(&self, index: u64) -> Recx {
        let left = self.whole.index + self.whole.count - index;
        Recx::new(index, left.min(PART_BYTES / self.record_bytes))
    }

    fn fetch(&self, at: ReadAt, recx: Recx, buf: IoBuf) -> Fetch {
        let want = Want::Array { record_bytes: self.record_bytes, extents: core::iter::once(recx).collect() };
        let iod = FetchIod { akey: self.akey.clone(), want };
        let iods = core::iter::once(iod).collect();
        Fetch { oid: self.oid, dkey: self.dkey.clone(), cond: Cond::NONE, at, iods, buf }
    }
}

/// An answer whose next part is not asked for yet.
pub(super) struct Paused {
    pub(super) under_way: UnderWay,
    parts: Box<Parts>,
    next: Recx,
}

impl Conn {
    /// Begins an answer in parts: what is to be read as it is now is read as of the newest epoch, which is asked for first.
    pub(super) fn begin_parts(
        &mut self,
        shared: &mut Shared,
        mut under_way: UnderWay,
        parts: Box<Parts>,
    ) -> Result<()> {
        if parts.wanted_at == ReadAt::Latest {
            let (head, ask) = (parts.head, Ask::Target(parts.target, parts.cont, Verb::Latest));
            under_way.parts = Some(parts);
            shared.submit(under_way, head, ask);
            return Ok(());
        }
        let first = parts.from(parts.whole.index);
        self.ask_part(shared, under_way, parts, Some(first))
    }

    /// Goes on with what waited until the peer has read more; whether there is something to go on with.
    pub(super) fn resume(&mut self, shared: &mut Shared) -> Result<bool> {
        let mut moved = false;
        while !self.paused.is_empty() && !self.lags() {
            let Paused { under_way, parts, next } = self.paused.pop_front().expect("not empty");
            if self.has_left(&under_way) {
                self.refuse(shared, under_way, Failure::NoHandle)?;
            } else {
                self.ask_part(shared, under_way, parts, Some(next))?;
            }
            moved = true;
        }
        Ok(moved)
    }

    /// Whether the peer has more than a part to read before another one is worth reading.
    fn lags(&self) -> bool {
        u64::try_from(self.output.waiting_bytes()).is_ok_and(|waiting| waiting > PART_BYTES)
    }

    /// Whether the pool was left, and the number perhaps given to another one, between two parts.
    fn has_left(&mut self, under_way: &UnderWay) -> bool {
        self.attached(under_way.slot).is_none_or(|attached| attached.pool != under_way.pool)
    }

    /// Takes what the target says to a question for a part, and goes on.
    pub(in crate::server) fn take_part(
        &mut self,
        shared: &mut Shared,
        mut under_way: UnderWay,
        mut parts: Box<Parts>,
        result: core::result::Result<Answer, Failure>,
        buf: Option<IoBuf>,
    ) -> Result<()> {
        if self.has_left(&under_way) {
            return self.answer(shared, &mut under_way, &Err(Failure::NoHandle), buf);
        }
        match (parts.part, result) {
            (None, Ok(Answer::Target(Reply::Written(epoch)))) if epoch != Epoch::ZERO => {
                parts.at = ReadAt::Epoch(epoch);
                let first = parts.from(parts.whole.index);
                self.ask_part(shared, under_way, parts, Some(first))
            }
            (Some(recx), Ok(Answer::Target(Reply::Fetched(fetched))))
                if fetched.len() == 1 && (!parts.is_first() || is_full(&fetched[0], recx)) =>
            {
                let sent = self.send_part(shared, &under_way, recx, &fetched[0], buf);
                let sent = sent.and_then(|()| self.show());
                let (end, whole_end) = (recx.index + recx.count, parts.whole.index + parts.whole.count);
                if sent.is_err() || end == whole_end {
                    self.done(shared, &under_way);
                    return sent;
                }
                let next = parts.from(end);
                self.paused.push_back(Paused { under_way, parts, next });
                self.resume(shared).map(drop)
            }
            (Some(_), Err(error)) if !parts.is_first() && !matches!(error, Failure::EpochGone { .. }) => {
                self.answer(shared, &mut under_way, &Err(error), buf)
            }
            // There is little, or something is wrong: in one piece, as it is now, with the hints that only such an answer has.
            _ => {
                if let Some(buf) = buf {
                    shared.bufs.give(buf);
                }
                self.ask_part(shared, under_way, parts, None)
            }
        }
    }

    fn send_part(
        &mut self,
        shared: &mut Shared,
        under_way: &UnderWay,
        recx: Recx,
        fetched: &FetchedIod,
        buf: Option<IoBuf>,
    ) -> Result<()> {
        let UnderWay { token, map_version, plan, .. } = under_way;
        let fetched_list = core::slice::from_ref(fetched);
        let plan = plan.as_ref().expect("a fetch has a plan");
        let places = plan.parts(fetched_list).zip(buf);
        let payload_bytes = plan.filled_bytes(fetched_list).unwrap_or(0);
        let Terms { version, sums_replies, .. } = self.terms;
        let to = ReplyTo {
            version,
            token: *token,
            map_version: *map_version,
            push_seq: self.leased.push_seq,
            lease: (0, 0),
            plan: None,
        };
        shared.scratch.clear();
        encode_part(&mut shared.scratch, &to, &FetchedPart { recx, fetched: fetched.clone() }, payload_bytes);
        self.output.put(&mut self.stream, &shared.scratch)?;
        if let Some((places, buf)) = places
            && let Some(buf) = self.output.put_parts(&mut self.stream, sums_replies, buf, places)?
        {
            shared.bufs.give(buf);
        }
        Ok(())
    }

    /// Asks for a part at the epoch of all of them, or for all of it, as it was asked for, if none is given.
    fn ask_part(
        &mut self,
        shared: &mut Shared,
        mut under_way: UnderWay,
        parts: Box<Parts>,
        part: Option<Recx>,
    ) -> Result<()> {
        let (recx, at) = part.map_or((parts.whole, parts.wanted_at), |part| (part, parts.at));
        let len = usize::try_from(recx.count * parts.record_bytes).expect("as long as the peer's buffer");
        let Some(buf) = shared.bufs.take(len) else {
            return self.refuse(shared, under_way, Failure::Busy);
        };
        let fetch = parts.fetch(at, recx, buf);
        let (head, target, cont) = (parts.head, parts.target, parts.cont);
        under_way.plan = Some(FetchPlan::of(&fetch));
        under_way.parts = part.map(|_| Box::new(Parts { part, ..*parts }));
        shared.submit(under_way, head, Ask::Target(target, cont, Verb::Fetch(fetch)));
        Ok(())
    }
}

/// Whether all records of an extent were found.
fn is_full(fetched: &FetchedIod, recx: Recx) -> bool {
    fetched.filled[..] == [recx]
}
