//! The write path: validated drafts, bulk first, then one log record, then the index, then the answer.

use crate::conts::View;
use crate::draft::{Draft, DraftData, Drafts};
use crate::index::version_in_log;
use crate::log::LogPlace;
use crate::marks::Scope;
use crate::path::{Depth, Path};
use crate::quota::Reserving;
use crate::space::{CEILING_FRAME_BYTES, CLIENT_FRAME_BYTES, CRED_FRAME_BYTES, Need};
use crate::target::Target;
use crate::tx::PrepareParts;
use dolmen_codec::log_body::{WriteHead, encode_cred, logged_bytes};
use dolmen_codec::log_frame::LogKind;
use dolmen_codec::manifest::ResultInfo;
use dolmen_codec::quota::Charge;
use dolmen_codec::verb::{INTENT_AKEY, Reply};
use dolmen_codec::version::{ValuePlace, VersionKind};
use dolmen_env::{Io, IoOp};
use dolmen_types::{
    Cond, ContNo, Credentials, Durability, Epoch, Error, Head, Invalid, IoBuf, KeyKind, Oid, Stamp, TxId,
    limits,
};
use smallvec::SmallVec;

/// Different credentials that a target keeps, since versions may refer to any of them for ever: more than a machine has
/// users in their projects. They take 2 MiB of memory and 1 MiB of each manifest.
const CREDS_MAX: usize = 65_536;

/// A mutation that waits for its bulk writes.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) token: u64,
    pub(crate) head: Head,
    pub(crate) cont: ContNo,
    pub(crate) work: Work,
    /// Writes not yet completed.
    pub(crate) left: u32,
    pub(crate) error: Option<Error>,
    /// Tokens under which the same was asked again meanwhile: they get the same answer.
    pub(crate) again: Vec<u64>,
}

/// What is to be done when they are complete.
#[derive(Debug)]
pub(crate) enum Work {
    Write { oid: Oid, drafts: Drafts<'static> },
    Prepare { prepare: PrepareParts, parts: Vec<(Oid, Drafts<'static>)> },
}

impl Pending {
    /// Whether this is the request of a head.
    pub(crate) fn is_of(&self, head: &Head) -> bool {
        self.head.id == head.id && self.head.cred.uid == head.cred.uid
    }

    /// What was asked.
    pub(crate) fn digest(&self) -> u32 {
        match &self.work {
            Work::Write { drafts, .. } => drafts.digest,
            Work::Prepare { .. } => 0,
        }
    }
}

impl Work {
    pub(crate) fn prepares(&self, tx: TxId) -> bool {
        matches!(self, Self::Prepare { prepare, .. } if prepare.tx == tx)
    }
}

/// Direct writes to bulk that an operation must wait for.
#[derive(Default)]
pub(crate) struct BulkWrites {
    ios: Vec<(u32, u32, IoBuf)>,
}

impl BulkWrites {
    pub(crate) fn is_empty(&self) -> bool {
        self.ios.is_empty()
    }
}

/// What the index must know of a version in the log.
struct Facts {
    kind: VersionKind,
    index: u64,
    record_bytes: u32,
    value_bytes: u32,
    /// Length of the raw keys.
    raw_len: usize,
    /// The number of the credentials that wrote it, and what it counts against their limits.
    cred: u32,
    charge: Charge,
    /// The segment that holds a small value.
    small_in: Option<u32>,
}

/// Where a version's record is relative to the body it was written in, and what the index must know.
struct Written {
    offset: usize,
}

/// Numbers of who asks for something to be written, where there are.
#[derive(Clone, Copy)]
pub(crate) struct Asker {
    cred: Option<u32>,
    client: Option<u32>,
}

impl Asker {
    /// What the frames take that go before the one that needs the numbers.
    #[inline]
    pub(crate) fn frame_bytes(self) -> usize {
        self.cred.map_or(CRED_FRAME_BYTES, |_| 0) + self.client.map_or(CLIENT_FRAME_BYTES, |_| 0)
    }
}

impl Target {
    pub(crate) fn run_write(
        &mut self,
        token: u64,
        head: Head,
        cont: ContNo,
        oid: Oid,
        mut drafts: Drafts<'_>,
    ) {
        self.seek_room(WriteHead::BYTES_MAX + drafts.log_bytes(), drafts.need(cont));
        let mut writes = BulkWrites::default();
        if let Err(error) = self.take_bulk(&mut drafts, &mut writes) {
            self.give_up(&drafts);
            return self.finish(token, Err(error), None);
        }
        if writes.is_empty() {
            // Ignored: whoever asked is told.
            let _refusal = self.commit_and_finish(token, head, cont, oid, &drafts);
            return;
        }
        let work = Work::Write { oid, drafts: drafts.into_owned() };
        self.start_writes(
            Pending { token, head, cont, work, left: 0, error: None, again: Vec::new() },
            writes,
        );
    }

    pub(crate) fn start_writes(&mut self, mut pending: Pending, writes: BulkWrites) {
        let token = self.next_io;
        self.next_io += 1;
        pending.left = u32::try_from(writes.ios.len()).expect("a request has few values");
        self.pending.insert(token, pending);
        for (segment, unit, buf) in writes.ios {
            let file = self.store.bulk.find(segment).expect("space was taken in it").file;
            let len = u32::try_from(buf.len()).expect("payload is limited");
            let offset = u64::from(unit) * limits::BULK_UNIT_BYTES;
            self.store.disks.bulk().submit(Io { token, file, offset, op: IoOp::Write(buf, len) });
        }
    }

    /// Takes bulk space for large values and writes them: at once on mapped media, else as direct writes.
    pub(crate) fn take_bulk(
        &mut self,
        drafts: &mut Drafts<'_>,
        writes: &mut BulkWrites,
    ) -> Result<(), Error> {
        for draft in &mut drafts.items {
            let DraftData::Large(bytes) = draft.data else {
                continue;
            };
            if self.read_only {
                return Err(Error::ReadOnly { target: self.config.target });
            }
            let count = crate::bulk::units(bytes.len() as u64);
            let place = self.allocate_bulk(count)?;
            draft.data = DraftData::Bulk(place);
            let segment = self.store.bulk.find_mut(place.segment).expect("space was taken in it");
            match &mut segment.region {
                Some(region) => region.write(u64::from(place.unit) * limits::BULK_UNIT_BYTES, bytes),
                None => {
                    let buf = self.store.bulk.bufs.padded_copy(bytes);
                    writes.ios.push((place.segment, place.unit, buf));
                }
            }
            self.store.bulk.dirty.insert(place.segment);
        }
        Ok(())
    }

    /// Returns the bulk space of an operation that failed.
    pub(crate) fn give_up(&mut self, drafts: &Drafts<'_>) {
        for (place, count) in drafts.items.iter().filter_map(Draft::bulk) {
            self.store.bulk.give_up(place, count);
        }
    }

    pub(crate) fn give_up_work(&mut self, work: &Work) {
        match work {
            Work::Write { drafts, .. } => self.give_up(drafts),
            Work::Prepare { parts, .. } => parts.iter().for_each(|(_, drafts)| self.give_up(drafts)),
        }
    }

    #[inline]
    pub(crate) fn commit_and_finish(
        &mut self,
        token: u64,
        head: Head,
        cont: ContNo,
        oid: Oid,
        drafts: &Drafts<'_>,
    ) -> Option<Error> {
        match self.commit_write(&head, cont, oid, drafts) {
            Ok((epoch, sequence, durability)) => {
                self.finish_durable(token, durability, sequence, Reply::Written(epoch));
                None
            }
            Err(error) => {
                self.give_up(drafts);
                self.note_refusal(cont, oid, drafts);
                self.finish_read(token, cont, Err(error.clone()), None);
                Some(error)
            }
        }
    }

    /// A refusal tells what there is: what it depends on counts as read.
    pub(crate) fn note_refusal(&mut self, cont: ContNo, oid: Oid, drafts: &Drafts<'_>) {
        let Ok(known) = self.conts.find(cont) else {
            return;
        };
        let secret = known.state.spec.hash_key;
        let at = self.epochs.latest();
        let mut path = self.store.take_path();
        // Ignored: a key that cannot be is refused for that, which depends on nothing.
        let _noted = path
            .object(cont, secret, oid)
            .and_then(|()| self.mark_conditions(&mut path, drafts, at))
            .and_then(|()| self.mark_record_sizes(&mut path, drafts, at));
        self.store.put_path(path);
    }

    /// Checks conditions, appends the record, puts it into the index. Either all of it happens or nothing.
    fn commit_write(
        &mut self,
        head: &Head,
        cont: ContNo,
        oid: Oid,
        drafts: &Drafts<'_>,
    ) -> Result<(Epoch, u64, Durability), Error> {
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        let known = self.conts.find(cont)?;
        let spec = known.state.spec;
        let view = known.view(Epoch::MAX);
        let account = known.account.clone();
        let mut path = self.store.take_path();
        path.object(cont, spec.hash_key, oid)?;
        self.txs.refuse_undecided_write(cont, oid, drafts)?;
        let is_sole = self.check_drafts(&mut path, drafts, &view)?;
        // What is refused leaves nothing: no frame is appended before there is room for this one, too.
        let writer = drafts.cred(head.cred);
        let asker = self.asker(head, writer)?;
        let ceiling = self.epochs.due_ceiling();
        let side_bytes = asker.frame_bytes() + ceiling.map_or(0, |_| CEILING_FRAME_BYTES);
        self.make_room_behind(side_bytes, WriteHead::BYTES_MAX + drafts.log_bytes(), drafts.need(cont))?;
        if let Some(account) = &account {
            let (id, asks, secret) = (head.id, head.cred, spec.hash_key);
            let write = Reserving { id, asks, tx: None, cont, secret, view: &view };
            self.reserve(account, &write, &[(oid, drafts)])?;
        }
        let (cred, client) = self.introduce(head, writer, asker);
        if let Some(ceiling) = ceiling {
            self.log_ceiling(ceiling);
        }
        let epoch = self.epochs.next();
        let write = WriteHead { epoch, client, sequence: head.id.sequence, cont, oid };
        let mut written: SmallVec<[Written; 1]> = SmallVec::new();
        let appended = self.store.log.append(LogKind::Write, |out| {
            let start = out.len();
            write.encode(out);
            for draft in &drafts.items {
                let offset = out.len() - start;
                let head_bytes = if written.is_empty() { offset } else { 0 };
                written.push(Written { offset });
                draft.version(&drafts.dkey, 0, cred).encode_logged(out, head_bytes);
                out.extend_from_slice(draft.inline());
            }
        });
        self.reads.begin_write(appended.sequence, self.is_awaited(spec.durability));
        let stamp = Stamp { epoch, minor: 0 };
        self.first_version = Some(offset_place(appended.body, write.encoded_bytes()));
        self.first_is_sole = is_sole;
        for (draft, at) in drafts.items.iter().zip(&written) {
            let place = offset_place(appended.body, at.offset);
            self.settle_draft(&mut path, draft, (&drafts.dkey, cred), stamp, place)?;
        }
        self.first_version = None;
        path.up(Depth::Object);
        self.mark_conditions(&mut path, drafts, epoch)?;
        if let Some(account) = account {
            account.note_change();
        }
        let result = ResultInfo { sequence: head.id.sequence, epoch, digest: drafts.digest };
        self.repeats.retain(client, result);
        self.store.put_path(path);
        Ok((epoch, appended.sequence, spec.durability))
    }

    /// Puts one written version into index, marks and accounts.
    #[inline]
    pub(crate) fn settle_draft(
        &mut self,
        path: &mut Path,
        draft: &Draft<'_>,
        (dkey, cred): (&[u8], u32),
        stamp: Stamp,
        place: LogPlace,
    ) -> Result<(), Error> {
        if let Some((bulk, count)) = draft.bulk() {
            self.store.bulk.settle(bulk, count);
        }
        path.down(draft.depth, dkey, &draft.akey)?;
        let facts = Facts {
            kind: draft.kind,
            index: draft.recx.index,
            record_bytes: draft.record_bytes,
            value_bytes: draft.value_bytes,
            raw_len: dkey.len() + draft.akey.len(),
            cred,
            charge: draft.charge(dkey),
            small_in: draft.is_inline().then_some(place.segment),
        };
        assert!(self.index_facts(path, draft.depth, &facts, stamp, place), "a version is written once");
        Ok(())
    }

    /// Puts the version at `place` of the log into index, marks and accounts, as writing it did.
    pub(crate) fn index_version(
        &mut self,
        path: &mut Path,
        depth: Depth,
        dkey: &[u8],
        akey: &[u8],
        stamp: Stamp,
        place: LogPlace,
    ) -> Result<(), Error> {
        path.down(depth, dkey, akey)?;
        let target = self.config.target;
        let damaged =
            || crate::error::corrupt(target, "log", u64::from(place.segment), u64::from(place.offset));
        let (version, value) = version_in_log(&self.store.log, place).ok_or_else(damaged)?;
        if version.is_gift() {
            let cred = version.cred;
            return if self.take_gift(path, stamp, (place, cred))? { Ok(()) } else { Err(damaged()) };
        }
        let facts = Facts {
            kind: version.kind,
            index: version.recx.index,
            record_bytes: version.record_bytes,
            value_bytes: version.value_bytes,
            raw_len: version.dkey.len() + version.akey.len(),
            cred: version.cred,
            charge: version.charge(),
            small_in: match value {
                ValuePlace::Log { segment, .. } => Some(segment),
                ValuePlace::None | ValuePlace::Inline | ValuePlace::Bulk { .. } => None,
            },
        };
        // Nobody but a forger names a version twice.
        if self.index_facts(path, depth, &facts, stamp, place) { Ok(()) } else { Err(damaged()) }
    }

    /// Whether the version is new.
    ///
    /// REQUIRES: the path is at `depth`.
    #[inline]
    #[must_use]
    fn index_facts(
        &mut self,
        path: &mut Path,
        depth: Depth,
        facts: &Facts,
        stamp: Stamp,
        place: LogPlace,
    ) -> bool {
        let Facts { kind, index, record_bytes, value_bytes, raw_len, cred, charge, small_in } = *facts;
        let prefix = path.key.mark();
        path.key.tail(kind, index, stamp);
        let is_new = self.store.index.insert(&path.key, prefix.len(), kind, place);
        self.store.index.note_entry(path.key.as_bytes().len() + raw_len, value_bytes);
        if kind.is_array() && path.dkey_kind == KeyKind::Uint64 {
            self.store.index.note_object_extent();
        }
        path.key.rewind(prefix);
        if kind != VersionKind::Punch && value_bytes == 0 {
            self.store.index.note_removal(path.key.as_bytes());
        }
        self.checkpoint.changes += 1;
        self.checkpoint.newest_write = self.checkpoint.newest_write.max(stamp.epoch);
        self.mark_write(path, depth, stamp.epoch);
        self.note_newest(path, kind, index, record_bytes, value_bytes, place);
        if let Some(segment) = small_in {
            self.store.log.add_live(segment, logged_bytes(kind, record_bytes, value_bytes, raw_len));
        }
        // Counted in a destroyed container, too: a merge takes it out of the accounts.
        if value_bytes > 0
            && let Some(cont) = self.conts.any_mut(path.cont)
        {
            cont.state.charges.add(cred, charge);
            let usage = &mut cont.state.usage;
            usage.versions += 1;
            usage.value_bytes += u64::from(value_bytes);
            if small_in.is_some() {
                usage.small_bytes += u64::from(value_bytes);
            } else {
                usage.bulk_bytes +=
                    u64::from(crate::bulk::units(u64::from(value_bytes))) * limits::BULK_UNIT_BYTES;
            }
        }
        is_new
    }

    /// Keeps the short ways true: to the newest version of a key, and to the record size of an array.
    #[inline]
    fn note_newest(
        &mut self,
        path: &Path,
        kind: VersionKind,
        index: u64,
        record_bytes: u32,
        value_bytes: u32,
        place: LogPlace,
    ) {
        let is_first = self.first_version == Some(place);
        if matches!(kind, VersionKind::Single | VersionKind::Array1) {
            self.store.hot.written(path.hot_hash(kind, index), is_first.then_some(place));
        }
        if kind.is_array() {
            let is_sole = is_first && self.first_is_sole && path.may_be_sole(kind);
            let is_noted = kind == VersionKind::Array1 && index == 0 && path.dkey_kind != KeyKind::Uint64;
            if !is_noted {
                self.store.hot.written(path.sole_hash(), is_sole.then_some(place));
            }
        }
        if value_bytes == 0 {
            self.store.record_sizes.removed(path);
        } else if kind.is_array() {
            self.store.record_sizes.note(path, record_bytes);
        }
    }

    #[inline]
    fn mark_write(&mut self, path: &Path, depth: Depth, epoch: Epoch) {
        let place = match depth {
            Depth::Object => path.object_hash,
            Depth::Dkey => path.dkey_hash,
            Depth::Akey => path.akey_hash,
        };
        let scope = match depth {
            Depth::Object => Scope::ObjectTree,
            Depth::Dkey => Scope::DkeyTree,
            Depth::Akey => Scope::Akey,
        };
        self.writes.raise(scope, place, epoch);
        self.reads.note_write(path, depth, epoch);
    }

    /// Takes note of an epoch that the pool service has chosen; it counts as given out, also after a restart.
    pub(crate) fn trust(&mut self, epoch: Epoch) -> Result<(), Error> {
        self.epochs.trust(epoch)?;
        self.ensure_ceiling()
    }

    /// As `trust`, with an epoch that a client brings.
    pub(crate) fn observe(&mut self, epoch: Epoch) -> Result<(), Error> {
        self.epochs.observe(epoch)?;
        self.ensure_ceiling()
    }

    /// Logs a new ceiling when the present one is reached.
    #[inline]
    fn ensure_ceiling(&mut self) -> Result<(), Error> {
        if let Some(ceiling) = self.epochs.due_ceiling() {
            self.make_room(size_of::<Epoch>(), Need::Removal)?;
            self.log_ceiling(ceiling);
        }
        Ok(())
    }

    /// REQUIRES: there is room for the frame.
    fn log_ceiling(&mut self, ceiling: Epoch) {
        let log = &mut self.store.log;
        let appended = log.append(LogKind::Ceiling, |out| out.extend_from_slice(&ceiling.0.to_le_bytes()));
        self.ceiling_frame = appended.sequence;
        self.epochs.set_ceiling(ceiling);
    }

    /// Who asks, and who stands on record for it, as far as they are known here. Nothing is changed.
    ///
    /// # Errors
    /// `Invalid::Credentials` for new ones, if as many are known as may be; `Busy` for a new client, if its user has as
    /// many as he may have.
    #[inline]
    pub(crate) fn asker(&mut self, head: &Head, cred: Credentials) -> Result<Asker, Error> {
        let has_client = head.id.sequence != 0;
        let now_ns = self.epochs.wall_ns();
        let client = if has_client { self.repeats.known(head, now_ns)? } else { Some(u32::MAX) };
        Ok(Asker { cred: self.known_cred(cred)?, client })
    }

    #[inline]
    fn known_cred(&mut self, cred: Credentials) -> Result<Option<u32>, Error> {
        if let Some((last, number)) = self.last_cred
            && last == cred
        {
            return Ok(Some(number));
        }
        let known = self.creds.get(&cred).copied();
        if let Some(number) = known {
            self.last_cred = Some((cred, number));
        } else if self.creds.len() >= CREDS_MAX {
            return Err(Invalid::Credentials.into());
        }
        Ok(known)
    }

    /// The numbers of the credentials and of the client; what is new of them gets one, and is logged.
    ///
    /// REQUIRES: there is room for the frames of the asker, and for the one that needs the numbers.
    #[inline]
    pub(crate) fn introduce(&mut self, head: &Head, cred: Credentials, asker: Asker) -> (u32, u32) {
        let cred = asker.cred.unwrap_or_else(|| self.introduce_cred(cred));
        let client = asker.client.unwrap_or_else(|| {
            let intro = self.repeats.introduce(head, self.epochs.wall_ns());
            self.store.log.append(LogKind::Client, |out| intro.encode(out));
            intro.number
        });
        (cred, client)
    }

    /// Has credentials known to whom parts of a transaction are charged; what is then refused has left no more than that.
    pub(crate) fn introduce_charged(
        &mut self,
        asks: Credentials,
        parts: &[(Oid, Drafts<'_>)],
        need: Need,
    ) -> Result<(), Error> {
        for cred in
            parts.iter().filter(|(_, drafts)| drafts.charged.is_some()).map(|(_, drafts)| drafts.cred(asks))
        {
            if self.known_cred(cred)?.is_none() {
                self.make_room(CRED_FRAME_BYTES, need)?;
                self.introduce_cred(cred);
            }
        }
        Ok(())
    }

    /// REQUIRES: they are not known; there is room for the frame.
    fn introduce_cred(&mut self, cred: Credentials) -> u32 {
        let number = u32::try_from(self.creds.len()).expect("limited by CREDS_MAX");
        self.store.log.append(LogKind::Cred, |out| encode_cred(number, cred, out));
        self.creds.insert(cred, number);
        number
    }

    /// Conditions, record sizes and keys of one mutation at a view. Nothing is changed. Whether the first draft will be
    /// the sole extent.
    ///
    /// REQUIRES: the path is at the object.
    #[inline]
    pub(crate) fn check_drafts(
        &mut self,
        path: &mut Path,
        drafts: &Drafts<'_>,
        view: &View,
    ) -> Result<bool, Error> {
        if drafts.must_exist == Some(Depth::Object) {
            let cover = self.store.cover(path, Depth::Object, view)?;
            if !self.store.exists(path, Depth::Object, view, cover)? {
                return Err(Error::NotFound);
            }
        }
        let object_only = drafts.items.iter().all(|draft| draft.depth == Depth::Object);
        if object_only {
            return Ok(false);
        }
        path.dkey(&drafts.dkey)?;
        if drafts.must_exist == Some(Depth::Dkey) || !drafts.cond.is_none() {
            self.check_dkey(path, drafts, view)?;
        }
        // All conditions come before any record size, so that what is reported does not depend on the order
        // of the akeys.
        for draft in drafts.items.iter().filter(|draft| !draft.cond.is_none()) {
            path.akey(&draft.akey)?;
            self.check_akey_condition(path, draft, view)?;
        }
        let mut first_is_sole = false;
        for (number, draft) in drafts.items.iter().enumerate().filter(|(_, draft)| draft.depth == Depth::Akey)
        {
            path.akey(&draft.akey)?;
            let is_new = drafts.cond.has(Cond::DKEY_INSERT) || draft.cond.has(Cond::AKEY_INSERT);
            let is_sole = if is_new && path.dkey_kind != KeyKind::Uint64 {
                // Nothing is visible below the dkey or akey, as was just seen.
                draft.record_bytes > 0
            } else {
                self.check_record_size(path, draft, view)?
            };
            first_is_sole |= is_sole && number == 0;
        }
        Ok(first_is_sole)
    }

    fn check_dkey(&mut self, path: &mut Path, drafts: &Drafts<'_>, view: &View) -> Result<(), Error> {
        let insert = drafts.cond.has(Cond::DKEY_INSERT);
        let update = drafts.cond.has(Cond::DKEY_UPDATE) || drafts.must_exist == Some(Depth::Dkey);
        if !insert && !update {
            return Ok(());
        }
        let cover = self.store.cover(path, Depth::Object, view)?;
        let exists = self.store.exists(path, Depth::Dkey, view, cover)?;
        match (insert, update, exists) {
            (true, _, true) => Err(Error::Exists),
            (_, true, false) => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    fn check_akey_condition(&mut self, path: &mut Path, draft: &Draft<'_>, view: &View) -> Result<(), Error> {
        let insert = draft.cond.has(Cond::AKEY_INSERT);
        let update = draft.cond.has(Cond::AKEY_UPDATE);
        if !insert && !update {
            return Ok(());
        }
        let cover = self.store.cover(path, Depth::Dkey, view)?;
        match (insert, update, self.store.exists(path, Depth::Akey, view, cover)?) {
            (true, _, true) => Err(Error::Exists),
            (_, true, false) => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// Refuses records of another size than the array's. Whether the draft will be the sole extent.
    #[inline]
    fn check_record_size(&mut self, path: &mut Path, draft: &Draft<'_>, view: &View) -> Result<bool, Error> {
        if draft.record_bytes == 0 {
            return Ok(false);
        }
        if self.store.record_sizes.find(path) == Some(draft.record_bytes) {
            return Ok(self.replaces_sole(path, draft, view));
        }
        let is_array_object = path.dkey_kind == KeyKind::Uint64;
        if is_array_object && !self.store.may_have_extents(path) {
            return Ok(true);
        }
        let cover = self.store.cover(path, Depth::Akey, view)?;
        match self.store.record_bytes(path, view, cover)? {
            Some(stored) if stored != draft.record_bytes => {
                Err(Error::RecordSize { stored_bytes: u64::from(stored) })
            }
            Some(_) => Ok(self.replaces_sole(path, draft, view)),
            None => Ok(!is_array_object),
        }
    }

    /// Whether a draft writes over all of the sole extent. A short way may lead to one that a rollback hides.
    #[inline]
    fn replaces_sole(&self, path: &Path, draft: &Draft<'_>, view: &View) -> bool {
        let new = draft.recx;
        view.is_plain()
            && path.may_be_sole(draft.kind)
            && self.store.sole_extent(path).is_some_and(|old| {
                let old = old.recx;
                old.index >= new.index && old.index + old.count <= new.index + new.count
            })
    }
}

/// A place `offset` bytes behind the start of a body.
pub(crate) fn offset_place(body: LogPlace, offset: usize) -> LogPlace {
    let offset = u32::try_from(offset).expect("a body is shorter than a segment");
    LogPlace { segment: body.segment, offset: body.offset + offset }
}

impl Drafts<'_> {
    /// Whether it only removes: such an operation may use the reserve of a full target.
    pub(crate) fn frees_space(&self) -> bool {
        self.items.iter().all(|draft| matches!(draft.data, DraftData::None)) && !self.is_gift()
    }

    /// What it asks for: it may only remove, or say what is about to be removed.
    #[inline]
    pub(crate) fn need(&self, cont: ContNo) -> Need {
        let is_intent = |draft: &Draft<'_>| cont == ContNo::SYSTEM && draft.akey.starts_with(INTENT_AKEY);
        let removes = |draft: &Draft<'_>| matches!(draft.data, DraftData::None) || is_intent(draft);
        if self.items.iter().all(removes) { Need::Removal } else { Need::Data }
    }
}
