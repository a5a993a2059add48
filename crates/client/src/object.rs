//! An object: values under dkeys and akeys.

use crate::at::At;
use crate::client::{MapView, Write, unexpected};
use crate::container::Container;
use crate::gathered::Gathered;
use crate::tx::merge::{self, Seen};
use crate::tx::{Sight, Staged, Tx};
use crate::{listing, split};
use dolmen_codec::order::check_key;
use dolmen_codec::verb::{
    Fetch, FetchIod, FetchedIod, Found, ListedExtent, NewValue, PackedKeys, Payload, Punch, PunchScope,
    ReadAt, Reply, Update, UpdateIod, Verb, Want,
};
use dolmen_codec::{Answer, Ask, Way, give_way, now};
use dolmen_layout::Layout;
use dolmen_types::limits::{LEXICAL_KEY_BYTES_MAX, SINGLE_BYTES_MAX};
use dolmen_types::{
    Anchor, Cond, Epoch, Error, Invalid, IoBuf, Key, KeyKind, ObjectType, Oid, QueryFlags, Recx, Result,
    TargetNo,
};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// What a fetch found, by iod.
pub type Fetched = SmallVec<[FetchedIod; 1]>;

/// What an answer to a fetch has of each of `iods`.
#[inline]
fn fetched(answer: Answer, iods: &[FetchIod]) -> Result<Fetched> {
    match answer {
        Answer::Target(Reply::Fetched(fetched)) if fetched.len() == iods.len() => Ok(fetched),
        _ => Err(unexpected()),
    }
}

/// Buffer for a value of unknown length: one page holds most.
const VALUE_ROOM_BYTES: usize = 4096;
/// Tries to read a single value of unknown length that grows while it is read.
const GROW_REPEATS_MAX: u32 = 8;

/// Bytes that one call reads: what a POSIX read returns at most, rounded up. Without it a wrong length would
/// take all memory.
const READ_BYTES_MAX: usize = 2 << 30;

/// How much of an enumeration is returned at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// At most this many items; not zero.
    pub items_max: u32,
    /// At most this many bytes of keys; `KeyTooBig` if not one fits.
    pub bytes_max: u32,
}

impl Default for Page {
    /// A thousand items in 64 KiB.
    fn default() -> Self {
        Self { items_max: 1024, bytes_max: 64 << 10 }
    }
}

/// A handle on an object; `Send` and `Sync`. Opening and closing asks nobody, and the object exists as long as
/// it has a value.
#[derive(Clone, Debug)]
pub struct Object {
    cont: Container,
    oid: Oid,
    object_type: ObjectType,
    layout: Layout,
    /// The user to whom it says that what it writes is charged.
    charged: Option<u32>,
}

impl Object {
    pub(crate) fn new(cont: Container, oid: Oid) -> Result<Self> {
        let object_type = oid.object_type().ok_or(Invalid::ObjectId)?;
        let layout = Layout::new(oid, cont.core().map().target_count)?;
        Ok(Self { cont, oid, object_type, layout, charged: None })
    }

    /// Its id.
    #[must_use]
    #[inline]
    pub fn oid(&self) -> Oid {
        self.oid
    }

    /// Its type.
    #[must_use]
    #[inline]
    pub fn object_type(&self) -> ObjectType {
        self.object_type
    }

    /// The container it was opened in.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.cont
    }

    /// The same object, whose reads of the present put leases `into` there ([`Container::gathering`]).
    #[must_use]
    pub fn gathering(&self, into: &Arc<Gathered>) -> Self {
        Self { cont: self.cont.gathering(into), ..self.clone() }
    }

    /// The same object, what is written by which is charged to this user where containers have limits: the owner of a file, whoever
    /// writes it. The engine heeds it of whoever runs it, of root, and of who may set the limits of a container's users; of anybody
    /// else it charges who writes.
    #[must_use]
    pub fn charged_to(self, uid: u32) -> Self {
        Self { charged: Some(uid), ..self }
    }

    /// The user who was said to [`Object::charged_to`].
    #[must_use]
    pub fn charged(&self) -> Option<u32> {
        self.charged
    }

    /// Has what there is of the object charged to whom [`Object::charged_to`] names, from the commit of a transaction on: all of its
    /// versions on all targets, also those that only snapshots show. What is written later is charged as that says. An engine
    /// that does not heed the name leaves it as it is. Where an engine of the object does not know gifts, all do.
    ///
    /// # Errors
    /// `NoPermission` in a snapshot; `TxRestart`; `Unreachable` if an engine of it is not there. The commit's: `QuotaLimit` where
    /// there is no room for it, and nothing is done.
    pub fn give(&self, tx: &Tx) -> Result<()> {
        let core = self.cont.core();
        for target in self.targets(core.map())? {
            if !core.transport().takes_gifts(target)? {
                return Ok(());
            }
        }
        tx.change(self, &[Staged::Give]).map(drop)
    }

    /// Writes values under one dkey, atomically up to `limits::PAYLOAD_BYTES_MAX` an akey; more is written piece
    /// after piece, and conditions hold for the first. Returns the epoch of the (last) write.
    ///
    /// Extents may be of any length. In a transaction conditions are checked now, and nothing is sent before
    /// the commit.
    ///
    /// # Errors
    /// `Exists`, `NotFound` where a condition is not met; `RecordSize` if an array has other records;
    /// `NoPermission` in a snapshot; `NoSpace`; `TxRestart`.
    #[inline]
    pub fn update(&self, at: At<'_>, dkey: &[u8], cond: Cond, iods: &[UpdateIod<'_>]) -> Result<Epoch> {
        if let Some(tx) = self.cont.write_tx(at)? {
            return tx.update(self, dkey, cond, iods);
        }
        if iods.iter().any(split::is_needed) {
            self.update_pieces(dkey, cond, iods)
        } else {
            self.update_once(dkey, cond, iods)
        }
    }

    fn update_pieces(&self, dkey: &[u8], cond: Cond, iods: &[UpdateIod<'_>]) -> Result<Epoch> {
        let mut epoch = Epoch::ZERO;
        let mut cond = cond;
        for piece in split::pieces(iods)? {
            epoch = self.update_once(dkey, cond, &piece)?;
            cond = Cond::NONE;
        }
        Ok(epoch)
    }

    /// As [`Object::update`], on a way of the caller's, which also carries conditions on what takes several requests: each goes
    /// out when the one before it is answered. In a transaction it is buffered when its conditions are known to hold.
    ///
    /// # Errors
    /// As [`Object::update`]; `Canceled` if the transaction was begun anew meanwhile.
    pub async fn update_by(
        &self,
        way: Way,
        at: At<'_>,
        dkey: &[u8],
        cond: Cond,
        iods: &[UpdateIod<'_>],
    ) -> Result<Epoch> {
        if let Some(tx) = self.cont.write_tx(at)? {
            return tx.update_by(way, self, dkey, cond, iods).await;
        }
        if way == Way::Now {
            return self.update(at, dkey, cond, iods);
        }
        let (core, mut epoch, mut cond) = (self.cont.core(), Epoch::ZERO, cond);
        for piece in split::pieces(iods)? {
            let piece: SmallVec<[UpdateIod<'static>; 1]> = piece.into_iter().map(split::owned).collect();
            let write = loop {
                if let Some(write) = Write::try_begin(Arc::clone(core)) {
                    break write;
                }
                // The oldest mutation may be on a queue whose program does not look at it.
                core.drive_queues();
                give_way().await;
            };
            let make = |map| {
                let target = self.target(map, dkey)?;
                let (oid, dkey) = (self.oid, Key::from_slice(dkey));
                let (iods, charged) = (cloned(&piece), self.charged);
                let verb = Verb::Update(Update { oid, dkey, cond, iods, charged });
                Ok(Ask::Target(target, self.cont.no(), verb))
            };
            epoch = match core.ask_target_by(way, write.id(), make).await? {
                Reply::Written(epoch) => epoch,
                _ => return Err(unexpected()),
            };
            cond = Cond::NONE;
        }
        Ok(epoch)
    }

    #[inline]
    fn update_once(&self, dkey: &[u8], cond: Cond, iods: &[UpdateIod<'_>]) -> Result<Epoch> {
        self.written(
            || {
                let dkey = Key::from_slice(dkey);
                let (iods, charged) = (cloned(iods), self.charged);
                Verb::Update(Update { oid: self.oid, dkey, cond, iods, charged })
            },
            dkey,
        )
    }

    /// Writes a single value.
    ///
    /// # Errors
    /// As [`Object::update`]; `Invalid::Payload` if it is empty or above `limits::SINGLE_BYTES_MAX`.
    #[inline]
    pub fn put(&self, at: At<'_>, dkey: &[u8], akey: &[u8], value: &[u8]) -> Result<Epoch> {
        let value = NewValue::Single(Payload::Ref(value));
        self.update(
            at,
            dkey,
            Cond::NONE,
            &[UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }],
        )
    }

    /// Writes records of an array value: `data` holds `record_bytes` for each record of `recx`.
    ///
    /// # Errors
    /// As [`Object::update`]; `Invalid::Payload` if the length does not fit.
    #[inline]
    pub fn write(
        &self,
        at: At<'_>,
        dkey: &[u8],
        akey: &[u8],
        record_bytes: u64,
        recx: Recx,
        data: &[u8],
    ) -> Result<Epoch> {
        let value = NewValue::Array { record_bytes, extents: smallvec![recx], data: Payload::Ref(data) };
        self.update(
            at,
            dkey,
            Cond::NONE,
            &[UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }],
        )
    }

    /// Removes records of an array value: they read as holes. Extents may be of any length.
    ///
    /// # Errors
    /// `NoPermission` in a snapshot; `TxRestart`.
    pub fn punch_records(&self, at: At<'_>, dkey: &[u8], akey: &[u8], extents: &[Recx]) -> Result<Epoch> {
        let value = NewValue::Hole { extents: SmallVec::from_slice(extents) };
        self.update(
            at,
            dkey,
            Cond::NONE,
            &[UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }],
        )
    }

    /// Reads values under one dkey into `buf`: the parts of the iods follow each other, the bytes of holes and
    /// of what is missing are left as they were. `buf` is the caller's again whatever happens.
    ///
    /// # Errors
    /// `NotFound` where a condition is not met; `RecTooBig`, `RecordSize`, `EpochGone`, `TxRestart`, `Corrupt`.
    #[inline]
    pub fn fetch(
        &self,
        at: At<'_>,
        dkey: &[u8],
        cond: Cond,
        iods: &[FetchIod],
        buf: &mut IoBuf,
    ) -> Result<Fetched> {
        match at {
            At::Tx(_) => now(self.fetch_by(Way::Now, at, dkey, cond, iods, buf)),
            _ => self.fetch_base(self.cont.read_epoch(at)?, dkey, cond, iods, buf),
        }
    }

    #[inline]
    fn fetch_base(
        &self,
        at: ReadAt,
        dkey: &[u8],
        cond: Cond,
        iods: &[FetchIod],
        buf: &mut IoBuf,
    ) -> Result<Fetched> {
        let core = self.cont.core();
        let ask = |map, buf| self.fetch_ask(map, at, dkey, cond, iods, buf);
        fetched(core.ask_gathering(core.read_id(), buf, self.cont.gathered(), ask)?, iods)
    }

    /// What the target holds, without the writes of a transaction that has not committed.
    pub(crate) async fn fetch_base_by(
        &self,
        way: Way,
        at: ReadAt,
        dkey: &[u8],
        cond: Cond,
        iods: &[FetchIod],
        buf: &mut IoBuf,
    ) -> Result<Fetched> {
        let core = self.cont.core();
        let ask = |map, buf| self.fetch_ask(map, at, dkey, cond, iods, buf);
        fetched(core.ask_gathering_by(way, core.read_id(), buf, self.cont.gathered(), ask).await?, iods)
    }

    #[inline]
    fn fetch_ask<'a>(
        &self,
        map: MapView,
        at: ReadAt,
        dkey: &[u8],
        cond: Cond,
        iods: &[FetchIod],
        buf: IoBuf,
    ) -> Result<Ask<'a>> {
        let iods = cloned(iods);
        let fetch = Fetch { oid: self.oid, dkey: Key::from_slice(dkey), cond, at, iods, buf };
        Ok(Ask::Target(self.target(map, dkey)?, self.cont.no(), Verb::Fetch(fetch)))
    }

    /// What a read sees that begins now.
    fn sight(&self, at: At<'_>) -> Result<Sight> {
        let read_at = self.cont.read_epoch(at)?;
        match at {
            At::Tx(tx) => tx.sight(self.oid),
            _ => Ok(Sight { at: read_at, layer: None }),
        }
    }

    /// As [`Object::fetch`], on a way of the caller's. In a transaction it sees what that had written when it was first polled.
    ///
    /// # Errors
    /// As [`Object::fetch`].
    pub async fn fetch_by(
        &self,
        way: Way,
        at: At<'_>,
        dkey: &[u8],
        cond: Cond,
        iods: &[FetchIod],
        buf: &mut IoBuf,
    ) -> Result<Fetched> {
        let sight = self.sight(at)?;
        let fetched = match Seen::of_dkey(way, self, &sight, dkey) {
            Some(seen) => merge::fetch(seen, dkey, cond, iods, buf).await,
            None => self.fetch_base_by(way, sight.at, dkey, cond, iods, buf).await,
        };
        at.noted(sight.at, fetched)
    }

    /// Reads a single value into `buf`, which becomes as long as the value; `None` if there is none.
    ///
    /// # Errors
    /// As [`Object::fetch`].
    pub fn get(&self, at: At<'_>, dkey: &[u8], akey: &[u8], buf: &mut IoBuf) -> Result<Option<usize>> {
        now(self.get_by(Way::Now, at, dkey, akey, buf))
    }

    /// As [`Object::get`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Object::fetch`].
    pub async fn get_by(
        &self,
        way: Way,
        at: At<'_>,
        dkey: &[u8],
        akey: &[u8],
        buf: &mut IoBuf,
    ) -> Result<Option<usize>> {
        let mut room_bytes = buf.capacity().max(VALUE_ROOM_BYTES);
        for _ in 0..GROW_REPEATS_MAX {
            buf.set_len(room_bytes);
            let iod = FetchIod { akey: Key::from_slice(akey), want: Want::Single { room_bytes } };
            match self.fetch_by(way, at, dkey, Cond::NONE, &[iod], buf).await {
                Ok(found) => {
                    let len = usize::try_from(found[0].size_bytes).unwrap_or(0).min(room_bytes);
                    buf.set_len(len);
                    return Ok((len > 0).then_some(len));
                }
                Err(Error::RecTooBig { needed_bytes }) => {
                    let room = usize::try_from(needed_bytes).ok().filter(|&room| room <= SINGLE_BYTES_MAX);
                    room_bytes = room.ok_or(Error::RecTooBig { needed_bytes })?;
                }
                Err(other) => return Err(other),
            }
        }
        Err(Error::Busy)
    }

    /// Length of the single value, else bytes a record of the array value; 0 if there is neither.
    ///
    /// # Errors
    /// As [`Object::fetch`].
    pub fn size(&self, at: At<'_>, dkey: &[u8], akey: &[u8]) -> Result<u64> {
        let iod = FetchIod { akey: Key::from_slice(akey), want: Want::Size };
        Ok(self.fetch(at, dkey, Cond::NONE, &[iod], &mut IoBuf::default())?[0].size_bytes)
    }

    /// Reads records of an array value into the first `record_bytes` x `recx.count` bytes of `buf`, which
    /// grows if it is shorter; the answer says which records hold data.
    ///
    /// # Errors
    /// As [`Object::fetch`].
    #[inline]
    pub fn read(
        &self,
        at: At<'_>,
        dkey: &[u8],
        akey: &[u8],
        record_bytes: u64,
        recx: Recx,
        buf: &mut IoBuf,
    ) -> Result<FetchedIod> {
        let len = record_bytes.checked_mul(recx.count).and_then(|len| usize::try_from(len).ok());
        grow(buf, len)?;
        let iod = FetchIod {
            akey: Key::from_slice(akey),
            want: Want::Array { record_bytes, extents: smallvec![recx] },
        };
        let mut fetched = self.fetch(at, dkey, Cond::NONE, &[iod], buf)?;
        fetched.pop().ok_or_else(unexpected)
    }

    /// Removes the object. Over several targets this is one transaction.
    ///
    /// # Errors
    /// With `Cond::PUNCH`, `NotFound` if it does not exist; `NoPermission` in a snapshot; `TxRestart`.
    pub fn punch(&self, at: At<'_>, cond: Cond) -> Result<Epoch> {
        if let Some(tx) = self.cont.write_tx(at)? {
            return tx.punch(self, PunchScope::Object, cond);
        }
        if self.shard_count() > 1 {
            return self.cont.transact(|tx| tx.punch(self, PunchScope::Object, cond));
        }
        self.written(|| Verb::Punch(Punch { oid: self.oid, scope: PunchScope::Object, cond }), &[])
    }

    /// Removes a dkey with everything below it.
    ///
    /// # Errors
    /// With `Cond::PUNCH`, `NotFound` if it does not exist; `NoPermission` in a snapshot; `TxRestart`.
    pub fn punch_dkey(&self, at: At<'_>, dkey: &[u8], cond: Cond) -> Result<Epoch> {
        self.punch_scope(at, dkey, cond, || PunchScope::Dkey(Key::from_slice(dkey)))
    }

    /// Removes akeys of a dkey, atomically.
    ///
    /// # Errors
    /// With `Cond::PUNCH`, `NotFound` unless all exist; `NoPermission` in a snapshot; `TxRestart`.
    pub fn punch_akeys(&self, at: At<'_>, dkey: &[u8], akeys: &[&[u8]], cond: Cond) -> Result<Epoch> {
        self.punch_scope(at, dkey, cond, || {
            let akeys = akeys.iter().map(|akey| Key::from_slice(akey)).collect();
            PunchScope::Akeys(Key::from_slice(dkey), akeys)
        })
    }

    fn punch_scope(
        &self,
        at: At<'_>,
        dkey: &[u8],
        cond: Cond,
        scope: impl Fn() -> PunchScope,
    ) -> Result<Epoch> {
        if let Some(tx) = self.cont.write_tx(at)? {
            return tx.punch(self, scope(), cond);
        }
        self.written(|| Verb::Punch(Punch { oid: self.oid, scope: scope(), cond }), dkey)
    }

    /// The next dkeys after `anchor`, in order of the key kind within each shard; at least one unless the
    /// anchor is at its end afterwards.
    ///
    /// # Errors
    /// `KeyTooBig` if the next key alone exceeds `page.bytes_max`; `Invalid::Anchor`; those of reads.
    pub fn list_dkeys(&self, at: At<'_>, anchor: &mut Anchor, page: Page) -> Result<PackedKeys> {
        now(self.list_dkeys_by(Way::Now, at, anchor, page))
    }

    /// As [`Object::list_dkeys`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Object::list_dkeys`].
    pub async fn list_dkeys_by(
        &self,
        way: Way,
        at: At<'_>,
        anchor: &mut Anchor,
        page: Page,
    ) -> Result<PackedKeys> {
        let sight = self.sight(at)?;
        at.noted(sight.at, listing::dkeys(way, self, &sight, anchor, page).await)
    }

    /// The anchor that goes on behind `dkey` in a listing of dkeys, whether that exists or not.
    ///
    /// # Errors
    /// `Invalid::Key`, `KeyTooBig` for what cannot be a dkey of this object.
    pub fn anchor_after(&self, dkey: &[u8]) -> Result<Anchor> {
        let kind = self.object_type.dkey_kind();
        check_key(kind, dkey)?;
        let position = merge::position(kind, self.cont.hash_key(), dkey);
        let mut anchor = Anchor::after(&position).ok_or(Invalid::Key)?;
        anchor.shard = self.with_layout(self.cont.core().map(), |layout| layout.listed_as(dkey))?;
        Ok(anchor)
    }

    /// The anchor that goes on with `dkey` in a listing of dkeys, or with what follows it if that does not exist.
    ///
    /// # Errors
    /// As [`Object::anchor_after`].
    pub fn anchor_at(&self, dkey: &[u8]) -> Result<Anchor> {
        before(self.object_type.dkey_kind(), &self.anchor_after(dkey)?)
    }

    /// The anchor that goes on with `akey` in a listing of the akeys of a dkey, or with what follows it if that does not exist.
    ///
    /// # Errors
    /// `Invalid::Key`, `KeyTooBig` for what cannot be an akey of this object.
    pub fn anchor_at_akey(&self, akey: &[u8]) -> Result<Anchor> {
        let kind = self.object_type.akey_kind();
        check_key(kind, akey)?;
        let position = merge::position(kind, self.cont.hash_key(), akey);
        before(kind, &Anchor::after(&position).ok_or(Invalid::Key)?)
    }

    /// The next akeys of a dkey after `anchor`, in order of the key kind.
    ///
    /// # Errors
    /// As [`Object::list_dkeys`].
    pub fn list_akeys(&self, at: At<'_>, dkey: &[u8], anchor: &mut Anchor, page: Page) -> Result<PackedKeys> {
        now(self.list_akeys_by(Way::Now, at, dkey, anchor, page))
    }

    /// As [`Object::list_akeys`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Object::list_dkeys`].
    pub async fn list_akeys_by(
        &self,
        way: Way,
        at: At<'_>,
        dkey: &[u8],
        anchor: &mut Anchor,
        page: Page,
    ) -> Result<PackedKeys> {
        let sight = self.sight(at)?;
        at.noted(sight.at, listing::akeys(way, self, &sight, dkey, anchor, page).await)
    }

    /// The next visible extents of an array value after `anchor`, ascending; or the single value as one item.
    /// A logical extent may come in several pieces.
    ///
    /// # Errors
    /// As [`Object::list_dkeys`].
    pub fn list_extents(
        &self,
        at: At<'_>,
        dkey: &[u8],
        akey: &[u8],
        anchor: &mut Anchor,
        items_max: u32,
    ) -> Result<Vec<ListedExtent>> {
        now(self.list_extents_by(Way::Now, at, dkey, akey, anchor, items_max))
    }

    /// As [`Object::list_extents`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Object::list_dkeys`].
    pub async fn list_extents_by(
        &self,
        way: Way,
        at: At<'_>,
        dkey: &[u8],
        akey: &[u8],
        anchor: &mut Anchor,
        items_max: u32,
    ) -> Result<Vec<ListedExtent>> {
        let sight = self.sight(at)?;
        at.noted(sight.at, listing::extents(way, self, &sight, (dkey, akey), anchor, items_max).await)
    }

    /// The largest or smallest existing dkey, akey or record, as `flags` ask; what is not asked for is given.
    ///
    /// # Errors
    /// `Invalid::Query` unless the keys asked for are integers or lexical; `Invalid::Flags`.
    pub fn query(&self, at: At<'_>, flags: QueryFlags, dkey: &[u8], akey: &[u8]) -> Result<Option<Found>> {
        now(self.query_by(Way::Now, at, flags, dkey, akey))
    }

    /// As [`Object::query`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Object::query`].
    pub async fn query_by(
        &self,
        way: Way,
        at: At<'_>,
        flags: QueryFlags,
        dkey: &[u8],
        akey: &[u8],
    ) -> Result<Option<Found>> {
        let sight = self.sight(at)?;
        at.noted(sight.at, listing::query(way, self, &sight, flags, dkey, akey).await)
    }

    /// The layout under the current map: the one computed at open unless targets were added since.
    #[inline]
    fn with_layout<T>(&self, map: MapView, pick: impl FnOnce(&Layout) -> T) -> Result<T> {
        if map.target_count == self.layout.target_count() {
            return Ok(pick(&self.layout));
        }
        Ok(pick(&Layout::new(self.oid, map.target_count)?))
    }

    /// How many shards it has.
    pub(crate) fn shard_count(&self) -> u16 {
        self.layout.shard_count()
    }

    #[inline]
    pub(crate) fn target(&self, map: MapView, dkey: &[u8]) -> Result<TargetNo> {
        self.with_layout(map, |layout| layout.target_of(dkey))
    }

    pub(crate) fn shard_target(&self, map: MapView, shard: u16) -> Result<TargetNo> {
        Ok(self.with_layout(map, |layout| layout.target(shard))??)
    }

    /// The shard to list after `shard`; `None` after the last.
    pub(crate) fn shard_after(&self, shard: u16) -> Result<Option<u16>> {
        self.with_layout(self.cont.core().map(), |layout| layout.shard_after(shard))
    }

    pub(crate) fn targets(&self, map: MapView) -> Result<SmallVec<[TargetNo; 8]>> {
        self.with_layout(map, |layout| layout.targets().collect())
    }

    #[inline]
    fn written<'a>(&self, mut make: impl FnMut() -> Verb<'a>, dkey: &[u8]) -> Result<Epoch> {
        let core = self.cont.core();
        let write = Write::begin_in_turn(&**core);
        let reply = core
            .ask_target(write.id(), |map| Ok(Ask::Target(self.target(map, dkey)?, self.cont.no(), make())))?;
        match reply {
            Reply::Written(epoch) => Ok(epoch),
            _ => Err(unexpected()),
        }
    }
}

/// Makes room for a read of `len` bytes.
///
/// # Errors
/// `Invalid::Extent` above `READ_BYTES_MAX`, or for a length that overflowed.
pub(crate) fn grow(buf: &mut IoBuf, len: Option<usize>) -> Result<()> {
    let len = len.filter(|&len| len <= READ_BYTES_MAX).ok_or(Invalid::Extent)?;
    if buf.len() < len {
        buf.set_len(len);
    }
    Ok(())
}

/// The anchor whose listing has the key that `after` stands for as its first: that key goes behind no other between the two.
fn before(kind: KeyKind, after: &Anchor) -> Result<Anchor> {
    let mut position = after.position().to_vec();
    if kind == KeyKind::Lexical {
        // Before a key that ends with a zero is the same without it; before any other the longest with a smaller end.
        if let Some(end) = position.pop().filter(|&end| end > 0) {
            position.push(end - 1);
            position.resize(LEXICAL_KEY_BYTES_MAX, u8::MAX);
        }
    } else {
        // Positions have one length and order as numbers: before this one is the next smaller number.
        let number = position.iter().rposition(|&byte| byte > 0);
        match number {
            Some(last) => {
                position[last] -= 1;
                position[last + 1..].fill(u8::MAX);
            }
            None => position.clear(),
        }
    }
    let mut before = Anchor::default();
    if !position.is_empty() {
        before = Anchor::after(&position).ok_or(Invalid::Key)?;
    }
    before.shard = after.shard;
    Ok(before)
}

/// A copy of `iods`; the usual single one without the growth logic of a list.
#[inline]
fn cloned<T: Clone>(iods: &[T]) -> SmallVec<[T; 1]> {
    if let [iod] = iods { SmallVec::from_buf([iod.clone()]) } else { iods.iter().cloned().collect() }
}
