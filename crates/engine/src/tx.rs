//! This target's part in transactions: prepare, commit, abort, and who must wait for whom.
//!
//! Serialisability is timestamp ordering: a transaction's reads and writes all happen at its epoch; a write
//! is refused if something above that epoch has read or written the place.
//!
//! Invariants: a prepared transaction's versions are in the log but not in the index; nobody reads or writes
//! a dkey it has written to until it is decided; a decision is logged before it is acted upon; a leader forgets a commit
//! only after every participant has acknowledged it, durably.

use crate::bulk::BulkPlace;
use crate::draft::{Draft, Drafts};
use crate::log::LogPlace;
use crate::marks::Scope;
use crate::path::{Depth, Path};
use crate::quota::Reserving;
use crate::space::Need;
use crate::target::{Target, When};
use crate::update::{BulkWrites, Pending, Work, offset_place};
use dolmen_codec::log_body::{PrepareHead, TX_BYTES, encode_tx};
use dolmen_codec::log_frame::{LogFrame, LogKind};
use dolmen_codec::manifest::Unconcluded;
use dolmen_codec::quota::ByUser;
use dolmen_codec::verb::{InDoubt, Prepare, Reply, TxState};
use dolmen_codec::version::VersionKind;
use dolmen_types::{
    ContNo, Durability, Epoch, Error, Head, Invalid, Key, Oid, Stamp, TargetNo, TxId, limits,
};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Decisions remembered although nobody has to ask for them: of single targets, concluded ones, and aborted ones. A client
/// whose answer was lost sends its commit again. What participants may ask for is `Txs::led` and never forgotten.
const DECIDED_MAX: usize = 16 * limits::RETAINED_RESULTS_PER_CLIENT;
/// Prepared transactions at once; each holds its keys against readers, so more would be a stall anyway.
const PREPARED_MAX: usize = 4096;
/// Participants, over all transactions that a target leads, that may not know of their commit. They are told at once,
/// so that many mean targets that cannot commit, and each of those holds `PREPARED_MAX` at most. Bounds memory and
/// manifest to a few MiB: no more transactions over several targets are begun then, rather than a decision forgotten.
const OWED_MAX: usize = 16 * PREPARED_MAX;

/// A prepare request without its mutations.
#[derive(Debug, Clone)]
pub(crate) struct PrepareParts {
    pub(crate) tx: TxId,
    epoch: Epoch,
    leader: TargetNo,
    participants: SmallVec<[TargetNo; 4]>,
}

/// A version of a prepared transaction.
#[derive(Debug, Clone)]
pub(crate) struct PreparedVersion {
    pub(crate) oid: Oid,
    pub(crate) depth: Depth,
    pub(crate) dkey: Key,
    pub(crate) akey: Key,
    pub(crate) minor: u16,
    /// Offset of its record in the body.
    pub(crate) offset: usize,
    /// Whether it gives what there is of the object.
    pub(crate) is_gift: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) head: PrepareHead,
    /// Start of the body in the log, and its length.
    pub(crate) body: LogPlace,
    pub(crate) body_bytes: usize,
    pub(crate) versions: Vec<PreparedVersion>,
    /// What is reserved for whom its gifts are to, in the container's account.
    pub(crate) expected: ByUser,
}

impl Prepared {
    /// The objects that it gives.
    pub(crate) fn gifts(&self) -> SmallVec<[Oid; 1]> {
        self.versions.iter().filter(|version| version.is_gift).map(|version| version.oid).collect()
    }
}

/// A committed transaction that this target leads.
struct Led {
    epoch: Epoch,
    participants: SmallVec<[TargetNo; 4]>,
}

/// What a target knows of transactions.
#[derive(Default)]
pub(crate) struct Txs {
    pub(crate) prepared: BTreeMap<TxId, Prepared>,
    /// Committed here as their leader and not concluded: some participant may still be undecided and ask.
    led: BTreeMap<TxId, Led>,
    /// Participants of all of them.
    owed: usize,
    decided: BTreeSet<TxId>,
    decided_order: VecDeque<TxId>,
    /// Aborted ones, so that a prepare that arrives late does not bring one back. After a restart the marks'
    /// low water refuses them all.
    aborted: BTreeSet<TxId>,
    aborted_order: VecDeque<TxId>,
    /// Transactions that began up to here may have been aborted and forgotten.
    aborted_floor: Epoch,
}

impl Txs {
    /// What a checkpoint writes again of transactions that are prepared.
    pub(crate) fn carried_bytes(&self) -> usize {
        self.prepared.values().map(|prepared| LogFrame::padded_bytes(prepared.body_bytes)).sum()
    }

    pub(crate) fn from_manifest(decided: &[TxId], unconcluded: &[Unconcluded]) -> Self {
        let mut txs = Self::default();
        decided.iter().for_each(|&tx| txs.remember(tx));
        for one in unconcluded {
            txs.lead(one.tx, one.epoch, one.participants.iter().copied().collect());
        }
        txs
    }

    /// The decisions that a manifest holds.
    pub(crate) fn to_manifest(&self) -> (Vec<TxId>, Vec<Unconcluded>) {
        let led = self.led.iter().map(|(&tx, led)| Unconcluded {
            tx,
            epoch: led.epoch,
            participants: led.participants.to_vec(),
        });
        (self.decided_order.iter().copied().collect(), led.collect())
    }

    /// Remembers that a transaction that was prepared on this target is committed: until it is concluded, if this is its
    /// leader and others take part, whatever happens.
    pub(crate) fn remember_commit(&mut self, of: &PrepareHead, here: TargetNo) {
        if of.leader == here && of.participants.len() > 1 {
            self.lead(of.tx, of.epoch, of.participants.clone());
        } else {
            self.remember(of.tx);
        }
    }

    fn lead(&mut self, tx: TxId, epoch: Epoch, participants: SmallVec<[TargetNo; 4]>) {
        self.owed += participants.len();
        if let Some(before) = self.led.insert(tx, Led { epoch, participants }) {
            // Only a forged log commits one twice.
            self.owed -= before.participants.len();
        }
    }

    /// All participants know: from now on the commit is one that is remembered for a while.
    pub(crate) fn conclude(&mut self, tx: TxId) {
        if let Some(led) = self.led.remove(&tx) {
            self.owed -= led.participants.len();
            self.remember(tx);
        }
    }

    /// Memory that decisions take. Prepared transactions are in the log, and few.
    pub(crate) fn resident_bytes(&self) -> u64 {
        /// A decision is in a set and in a list, in nodes that are about half full.
        const REMEMBERED_BYTES: usize = 3 * size_of::<TxId>();
        let remembered = self.decided.len() + self.aborted.len();
        let kept = self.led.len() * 2 * size_of::<(TxId, Led)>() + self.owed * size_of::<TargetNo>();
        (remembered * REMEMBERED_BYTES + kept) as u64
    }

    /// Whether this target may lead one more transaction with so many participants.
    fn may_lead(&self, participants: usize, here: TargetNo) -> bool {
        let led = |p: &&Prepared| p.head.leader == here;
        let undecided: usize = self.prepared.values().filter(led).map(|p| p.head.participants.len()).sum();
        self.owed + undecided + participants <= OWED_MAX
    }

    /// Transactions committed here as their leader of which a participant may not know.
    pub(crate) fn unconcluded(&self, here: TargetNo) -> Vec<InDoubt> {
        let one = |(&tx, led): (&TxId, &Led)| InDoubt {
            tx,
            epoch: led.epoch,
            leader: here,
            participants: led.participants.clone(),
        };
        self.led.iter().map(one).collect()
    }

    /// Remembers for a while that a transaction is committed.
    fn remember(&mut self, tx: TxId) {
        if self.decided.insert(tx) {
            self.decided_order.push_back(tx);
        }
        if self.decided_order.len() > DECIDED_MAX
            && let Some(oldest) = self.decided_order.pop_front()
        {
            self.decided.remove(&oldest);
        }
    }

    fn remember_abort(&mut self, tx: TxId) {
        if self.aborted.insert(tx) {
            self.aborted_order.push_back(tx);
        }
        if self.aborted_order.len() > DECIDED_MAX
            && let Some(oldest) = self.aborted_order.pop_front()
        {
            self.aborted.remove(&oldest);
            self.aborted_floor = self.aborted_floor.max(oldest.begin);
        }
    }

    fn refuse_aborted(&self, tx: TxId) -> Result<(), Error> {
        if tx.begin <= self.aborted_floor || self.aborted.contains(&tx) {
            return Err(Error::TxRestart { after: self.aborted_floor.max(tx.begin) });
        }
        Ok(())
    }

    pub(crate) fn is_known(&self, tx: TxId) -> bool {
        self.prepared.contains_key(&tx) || self.is_decided(tx)
    }

    pub(crate) fn is_decided(&self, tx: TxId) -> bool {
        self.decided.contains(&tx) || self.led.contains_key(&tx)
    }

    pub(crate) fn state(&self, tx: TxId) -> TxState {
        if self.is_decided(tx) {
            TxState::Committed
        } else if self.prepared.contains_key(&tx) {
            TxState::Prepared
        } else {
            TxState::Unknown
        }
    }

    /// Whether something prepared in this container is undecided.
    pub(crate) fn is_in_doubt(&self, cont: ContNo) -> bool {
        self.prepared.values().any(|p| p.head.cont == cont)
    }

    pub(crate) fn in_doubt(&self) -> Vec<InDoubt> {
        let one = |p: &Prepared| InDoubt {
            tx: p.head.tx,
            epoch: p.head.epoch,
            leader: p.head.leader,
            participants: p.head.participants.clone(),
        };
        self.prepared.values().map(one).collect()
    }

    /// A read at `at` must know whether these transactions happened.
    #[inline]
    pub(crate) fn refuse_undecided_read(
        &self,
        cont: ContNo,
        oid: Oid,
        dkey: Option<&[u8]>,
        akey: Option<&[u8]>,
        at: Epoch,
    ) -> Result<(), Error> {
        if self.prepared.is_empty() {
            return Ok(());
        }
        let touches = |v: &PreparedVersion| {
            // Whoever is charged, what is read is the same.
            if v.is_gift {
                return false;
            }
            let same_dkey = v.depth == Depth::Object || dkey.is_none_or(|dkey| v.dkey[..] == *dkey);
            let same_akey = v.depth != Depth::Akey || akey.is_none_or(|akey| v.akey[..] == *akey);
            v.oid == oid && same_dkey && same_akey
        };
        self.refuse(|p| p.head.cont == cont && p.head.epoch <= at && p.versions.iter().any(touches))
    }

    pub(crate) fn refuse_undecided_list(&self, cont: ContNo, at: Epoch) -> Result<(), Error> {
        self.refuse(|p| p.head.cont == cont && p.head.epoch <= at)
    }

    /// A write beside an undecided one would have to be ordered against it.
    #[inline]
    pub(crate) fn refuse_undecided_write(
        &self,
        cont: ContNo,
        oid: Oid,
        drafts: &Drafts<'_>,
    ) -> Result<(), Error> {
        if self.prepared.is_empty() {
            return Ok(());
        }
        let whole_object = drafts.items.iter().any(|draft| draft.depth == Depth::Object);
        let whole_dkey =
            !drafts.cond.is_none() || drafts.items.iter().any(|draft| draft.depth == Depth::Dkey);
        let same_akey = |v: &PreparedVersion| drafts.items.iter().any(|draft| draft.akey == v.akey);
        let touches = |v: &PreparedVersion| {
            let in_dkey = v.depth == Depth::Dkey || whole_dkey || same_akey(v);
            v.oid == oid && (whole_object || v.depth == Depth::Object || (v.dkey == drafts.dkey && in_dkey))
        };
        self.refuse(|p| p.head.cont == cont && p.versions.iter().any(touches))
    }

    fn refuse(&self, stands_in_the_way: impl Fn(&Prepared) -> bool) -> Result<(), Error> {
        match self.prepared.values().find(|p| stands_in_the_way(p)) {
            Some(prepared) => Err(Error::InDoubt { tx: prepared.head.tx }),
            None => Ok(()),
        }
    }
}

impl Target {
    pub(crate) fn run_prepare(
        &mut self,
        token: u64,
        head: Head,
        cont: ContNo,
        prepare: &Prepare<'_>,
        mut parts: Vec<(Oid, Drafts<'_>)>,
    ) {
        let request = PrepareParts {
            tx: prepare.tx,
            epoch: prepare.epoch,
            leader: prepare.leader,
            participants: prepare.participants.clone(),
        };
        let (body_bytes, need) = room_of(&request, &parts);
        self.seek_room(body_bytes, need);
        let mut writes = BulkWrites::default();
        let taken = parts.iter_mut().try_for_each(|(_, drafts)| self.take_bulk(drafts, &mut writes));
        if let Err(error) = taken {
            parts.iter().for_each(|(_, drafts)| self.give_up(drafts));
            return self.finish(token, Err(error), None);
        }
        if writes.is_empty() {
            return self.prepare_and_finish(token, head, cont, &request, &parts);
        }
        let parts = parts.into_iter().map(|(oid, drafts)| (oid, drafts.into_owned())).collect();
        let work = Work::Prepare { prepare: request, parts };
        self.start_writes(
            Pending { token, head, cont, work, left: 0, error: None, again: Vec::new() },
            writes,
        );
    }

    pub(crate) fn prepare_and_finish(
        &mut self,
        token: u64,
        head: Head,
        cont: ContNo,
        request: &PrepareParts,
        parts: &[(Oid, Drafts<'_>)],
    ) {
        match self.prepare(&head, cont, request, parts) {
            Ok((sequence, durability)) => self.finish_durable(token, durability, sequence, Reply::Prepared),
            Err(error) => {
                if matches!(error, Error::TxRestart { .. }) {
                    self.forget_reader(request.epoch);
                }
                for (oid, drafts) in parts {
                    self.give_up(drafts);
                    self.note_refusal(cont, *oid, drafts);
                }
                self.finish_read(token, cont, Err(error), None);
            }
        }
    }

    fn prepare(
        &mut self,
        head: &Head,
        cont: ContNo,
        request: &PrepareParts,
        parts: &[(Oid, Drafts<'_>)],
    ) -> Result<(u64, Durability), Error> {
        let alone = request.participants.len() == 1 && request.participants[0] == self.config.target;
        if alone {
            let gifts = parts.iter().filter(|(_, drafts)| drafts.is_gift()).map(|(oid, _)| *oid);
            self.note_gifts(cont, gifts);
        }
        let durability = self.check_prepare(cont, request, parts)?;
        let (body_bytes, need) = room_of(request, parts);
        self.introduce_charged(head.cred, parts, need)?;
        let asker = self.asker(head, head.cred)?;
        self.make_room_behind(asker.frame_bytes(), body_bytes, need)?;
        let expected = self.reserve_parts(head, cont, request, parts)?;
        let (cred, client) = self.introduce(head, head.cred, asker);
        let record = PrepareHead {
            tx: request.tx,
            epoch: request.epoch,
            client,
            sequence: head.id.sequence,
            cont,
            leader: request.leader,
            committed: alone,
            participants: request.participants.clone(),
            groups: u32::try_from(parts.len()).expect("mutations are limited"),
        };
        let mut versions = Vec::new();
        let mut written_bytes = 0;
        let appended = self.store.log.append(LogKind::Prepare, |out| {
            let start = out.len();
            record.encode(out);
            for ((oid, drafts), minor) in parts.iter().zip(0..=u16::MAX) {
                let cred = drafts.charged.map_or(cred, |_| self.creds[&drafts.cred(head.cred)]);
                out.extend_from_slice(&oid.to_bytes());
                dolmen_codec::bytes::put_len(out, drafts.items.len());
                for draft in &drafts.items {
                    versions.push(prepared_version(*oid, drafts, draft, minor, out.len() - start));
                    draft.version(&drafts.dkey, minor, cred).encode_logged(out, 0);
                    out.extend_from_slice(draft.inline());
                }
            }
            written_bytes = out.len() - start;
        });
        for (place, count) in parts.iter().flat_map(|(_, drafts)| drafts.items.iter().filter_map(Draft::bulk))
        {
            self.store.bulk.settle(place, count);
        }
        let body_bytes = written_bytes;
        let prepared = Prepared { head: record, body: appended.body, body_bytes, versions, expected };
        if alone {
            self.begin_decision(&prepared);
            self.txs.remember_commit(&prepared.head, self.config.target);
            self.apply_prepared(&prepared)?;
        } else {
            self.txs.prepared.insert(request.tx, prepared);
        }
        Ok((appended.sequence, durability))
    }

    /// Reserves what all parts add, if the container has limits. What of that gifts bring.
    fn reserve_parts(
        &mut self,
        head: &Head,
        cont: ContNo,
        request: &PrepareParts,
        parts: &[(Oid, Drafts<'_>)],
    ) -> Result<ByUser, Error> {
        let known = self.conts.find(cont)?;
        let Some(account) = known.account.clone() else { return Ok(ByUser::default()) };
        let (view, secret) = (known.view(request.epoch), known.state.spec.hash_key);
        let (id, asks) = (head.id, head.cred);
        let write = Reserving { id, asks, tx: Some(request.tx), cont, secret, view: &view };
        let parts: Vec<_> = parts.iter().map(|(oid, drafts)| (*oid, drafts)).collect();
        self.reserve(&account, &write, &parts)
    }

    /// Everything that may refuse a prepare. Nothing is changed.
    fn check_prepare(
        &mut self,
        cont: ContNo,
        request: &PrepareParts,
        parts: &[(Oid, Drafts<'_>)],
    ) -> Result<Durability, Error> {
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        self.txs.refuse_aborted(request.tx)?;
        let known = self.conts.find(cont)?;
        if parts.is_empty()
            || parts.len() > limits::TX_MUTATIONS_MAX
            || !request.participants.contains(&self.config.target)
        {
            return Err(Invalid::Count.into());
        }
        let participants = request.participants.len();
        let leads = participants > 1 && request.leader == self.config.target;
        if self.txs.prepared.len() >= PREPARED_MAX
            || (leads && !self.txs.may_lead(participants, self.config.target))
        {
            return Err(Error::Busy);
        }
        let low = known.state.floor.max(known.state.aggregated);
        if request.epoch <= low {
            return Err(Error::TxRestart { after: low });
        }
        let view = known.view(request.epoch);
        let spec = known.state.spec;
        self.observe(request.epoch)?;
        let mut path = self.store.take_path();
        for (oid, drafts) in parts {
            path.object(cont, spec.hash_key, *oid)?;
            self.txs.refuse_undecided_write(cont, *oid, drafts)?;
            self.refuse_conflicts(&mut path, drafts, request.epoch)?;
        }
        self.check_parts(&mut path, (cont, spec.hash_key), parts, &view)?;
        self.store.put_path(path);
        Ok(spec.durability)
    }

    /// Refuses writes to places that were read or written above the transaction's epoch.
    fn refuse_conflicts(&mut self, path: &mut Path, drafts: &Drafts<'_>, epoch: Epoch) -> Result<(), Error> {
        for draft in &drafts.items {
            path.down(draft.depth, &drafts.dkey, &draft.akey)?;
            let newest = if draft.depth.is_gift(draft.kind) {
                // Of those who only look nobody sees it. What was written later stays with whom it names.
                self.writes.newest(Scope::ObjectTree, path.object_hash).next()
            } else {
                self.newest_conflict(path, draft.depth)
            };
            if newest > epoch {
                return Err(Error::TxRestart { after: newest });
            }
        }
        path.up(Depth::Object);
        Ok(())
    }

    fn newest_conflict(&self, path: &Path, depth: Depth) -> Epoch {
        let reads = &self.reads;
        // A write at the same epoch is in the way, too: two versions cannot have one stamp.
        let written = |scope, place| self.writes.newest(scope, place).next();
        let listed = reads
            .newest(Scope::ObjectList, path.cont_hash)
            .max(reads.newest(Scope::ObjectScan, path.object_hash));
        match depth {
            Depth::Object => listed
                .max(reads.newest(Scope::ObjectTree, path.object_hash))
                .max(written(Scope::ObjectTree, path.object_hash)),
            Depth::Dkey => listed
                .max(reads.newest(Scope::DkeyList, path.object_hash))
                .max(reads.newest(Scope::DkeyTree, path.dkey_hash))
                .max(written(Scope::DkeyTree, path.dkey_hash)),
            Depth::Akey => listed
                .max(reads.newest(Scope::DkeyList, path.object_hash))
                .max(reads.newest(Scope::AkeyList, path.dkey_hash))
                .max(reads.newest(Scope::Akey, path.akey_hash))
                .max(written(Scope::Akey, path.akey_hash)),
        }
    }

    /// Conditions of the mutations, each of which sees the earlier ones: these stand in the index meanwhile,
    /// with their records in a place of the log that is no file.
    fn check_parts(
        &mut self,
        path: &mut Path,
        (cont, secret): (ContNo, dolmen_codec::order::HashKey),
        parts: &[(Oid, Drafts<'_>)],
        view: &crate::conts::View,
    ) -> Result<(), Error> {
        let mut tentative: Vec<Vec<u8>> = Vec::new();
        let mut result = Ok(());
        self.store.record_sizes.pause(parts.len() > 1);
        let last_of: HashMap<Oid, u16> =
            parts.iter().zip(0..=u16::MAX).map(|((oid, _), n)| (*oid, n)).collect();
        for ((oid, drafts), minor) in parts.iter().zip(0..=u16::MAX) {
            result = path.object(cont, secret, *oid);
            if result.is_ok() {
                result = self.mark_conditions(path, drafts, view.at);
            }
            if result.is_ok() {
                result = self.check_drafts(path, drafts, view).map(|_first_is_sole| ());
            }
            if result.is_err() {
                break;
            }
            // What a mutation sees is of its own object.
            if last_of[oid] > minor {
                let stamp = Stamp { epoch: view.at, minor };
                result = self.place_tentatively(path, drafts, stamp, &mut tentative);
            }
        }
        for key in &tentative {
            self.store.index.delta.remove(key);
        }
        self.store.log.clear_tentative();
        self.store.record_sizes.pause(false);
        result
    }

    fn place_tentatively(
        &mut self,
        path: &mut Path,
        drafts: &Drafts<'_>,
        stamp: Stamp,
        keys: &mut Vec<Vec<u8>>,
    ) -> Result<(), Error> {
        for draft in &drafts.items {
            path.down(draft.depth, &drafts.dkey, &draft.akey)?;
            let place = self
                .store
                .log
                .put_tentative(|out| draft.version(&drafts.dkey, stamp.minor, 0).encode_logged(out, 0));
            let prefix = path.key.mark();
            path.key.tail(draft.kind, draft.recx.index, stamp);
            if self.store.index.delta.get(path.key.as_bytes()).is_none() {
                let is_new = self.store.index.insert(&path.key, prefix.len(), draft.kind, place);
                assert!(is_new, "nothing was there");
                keys.push(path.key.as_bytes().to_vec());
            }
            path.key.rewind(prefix);
            let is_gift = draft.depth.is_gift(draft.kind);
            if draft.kind != VersionKind::Punch && draft.value_bytes == 0 && !is_gift {
                self.store.index.note_removal(path.key.as_bytes());
            }
        }
        path.up(Depth::Object);
        Ok(())
    }

    /// A condition reads: what it depends on is marked as read at the epoch of the write.
    pub(crate) fn mark_conditions(
        &mut self,
        path: &mut Path,
        drafts: &Drafts<'_>,
        at: Epoch,
    ) -> Result<(), Error> {
        // Nothing may come that is older than a gift.
        if drafts.must_exist == Some(Depth::Object) || drafts.is_gift() {
            self.reads.raise(Scope::ObjectScan, path.object_hash, at);
        }
        let dkey_read = !drafts.cond.is_none() || drafts.must_exist == Some(Depth::Dkey);
        let akeys_read = drafts.items.iter().any(|draft| !draft.cond.is_none());
        if !dkey_read && !akeys_read {
            return Ok(());
        }
        path.dkey(&drafts.dkey)?;
        self.reads.raise(Scope::ObjectTree, path.object_hash, at);
        self.reads.raise(Scope::DkeyTree, path.dkey_hash, at);
        if dkey_read {
            self.reads.raise(Scope::AkeyList, path.dkey_hash, at);
        }
        for draft in drafts.items.iter().filter(|draft| draft.depth == Depth::Akey) {
            path.akey(&draft.akey)?;
            self.reads.raise(Scope::Akey, path.akey_hash, at);
        }
        path.up(Depth::Object);
        Ok(())
    }

    /// As `mark_conditions`, for what a record size is compared with.
    pub(crate) fn mark_record_sizes(
        &mut self,
        path: &mut Path,
        drafts: &Drafts<'_>,
        at: Epoch,
    ) -> Result<(), Error> {
        for draft in drafts.items.iter().filter(|draft| draft.record_bytes > 0) {
            path.dkey(&drafts.dkey)?;
            path.akey(&draft.akey)?;
            self.reads.raise(Scope::Akey, path.akey_hash, at);
        }
        path.up(Depth::Object);
        Ok(())
    }

    /// Puts the versions of a decided transaction into the index.
    pub(crate) fn apply_prepared(&mut self, prepared: &Prepared) -> Result<(), Error> {
        let applied = self.each_prepared(prepared, |target, path, version| {
            let stamp = Stamp { epoch: prepared.head.epoch, minor: version.minor };
            let place = offset_place(prepared.body, version.offset);
            target.index_version(path, version.depth, &version.dkey, &version.akey, stamp, place)
        });
        self.hand_over(prepared);
        applied
    }

    /// Does something with each prepared version and the path of its object, unless the container is gone.
    fn each_prepared(
        &mut self,
        prepared: &Prepared,
        mut act: impl FnMut(&mut Self, &mut Path, &PreparedVersion) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(known) = self.conts.any(prepared.head.cont) else {
            return Ok(());
        };
        let secret = known.state.spec.hash_key;
        let mut path = self.store.take_path();
        for version in &prepared.versions {
            path.object(prepared.head.cont, secret, version.oid)?;
            act(self, &mut path, version)?;
        }
        self.store.put_path(path);
        Ok(())
    }

    /// Commits a transaction; returns the frame that must be durable before anybody is told, and how durable.
    pub(crate) fn commit_tx(&mut self, tx: TxId) -> Result<(u64, When), Error> {
        self.seek_room(TX_BYTES, Need::Removal);
        if let Some(prepared) = self.txs.prepared.get(&tx) {
            let (cont, gifts) = (prepared.head.cont, prepared.gifts());
            self.note_gifts(cont, gifts);
        }
        if self.txs.is_decided(tx) {
            return Ok((self.store.log.last_sequence(), When::Is(Durability::Power)));
        }
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        if !self.txs.prepared.contains_key(&tx) {
            // Who has prepared it takes this for a commit of long ago: that must be durable by now.
            self.reads.await_frame(self.store.log.last_sequence());
            return Err(Error::NotFound);
        }
        self.make_room(TX_BYTES, Need::Removal)?;
        let appended = self.store.log.append(LogKind::Commit, |out| encode_tx(tx, out));
        let prepared = self.txs.prepared.remove(&tx).expect("looked up above");
        self.begin_decision(&prepared);
        // Whether or not the versions can be applied: it is decided, and participants may ask.
        self.txs.remember_commit(&prepared.head, self.config.target);
        self.apply_prepared(&prepared)?;
        Ok((appended.sequence, self.begin_answer(&prepared.head)))
    }

    /// When a commit is answered. The leader's answer goes to the client, so that the container says it; what the others answer, for
    /// which nobody waits, has the leader forget the commit, and survives everything. In a container whose changes survive the process
    /// alone both flush in time: soon, so that a power cut finds no target far behind another, and many at once.
    fn begin_answer(&mut self, of: &PrepareHead) -> When {
        let durability = self.durability(of.cont);
        let is_led = of.leader == self.config.target;
        if durability == Durability::Process && !self.config.volatile {
            self.flush_in_time();
            return if is_led { When::Is(durability) } else { When::InTime };
        }
        When::Is(if is_led { durability } else { Durability::Power })
    }

    /// All participants know of a commit. Nobody waits for the frame: without it they are told once more. A transaction that this
    /// target does not lead was only read here, and has ended.
    pub(crate) fn conclude_tx(&mut self, tx: TxId) -> Result<(), Error> {
        if !self.txs.led.contains_key(&tx) {
            self.forget_reader(tx.begin);
            return Ok(());
        }
        self.seek_room(TX_BYTES, Need::Removal);
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        self.make_room(TX_BYTES, Need::Removal)?;
        self.store.log.append(LogKind::Conclude, |out| encode_tx(tx, out));
        self.txs.conclude(tx);
        Ok(())
    }

    /// Forgets a prepared transaction; returns the frame that must be durable before anybody is told.
    pub(crate) fn abort_tx(&mut self, tx: TxId) -> Result<u64, Error> {
        self.seek_room(TX_BYTES, Need::Removal);
        if self.txs.is_decided(tx) {
            return Err(Error::Exists);
        }
        // Before anything is remembered: what lies too far ahead would in time refuse every transaction.
        self.observe(tx.begin)?;
        self.txs.remember_abort(tx);
        self.forget_reader(tx.begin);
        if !self.txs.prepared.contains_key(&tx) {
            return Ok(self.store.log.last_sequence());
        }
        if self.read_only {
            return Err(Error::ReadOnly { target: self.config.target });
        }
        self.make_room(TX_BYTES, Need::Removal)?;
        let appended = self.store.log.append(LogKind::Abort, |out| encode_tx(tx, out));
        let prepared = self.txs.prepared.remove(&tx).expect("looked up above");
        self.release_prepared(&prepared);
        self.drop_prepared(&prepared);
        self.begin_decision(&prepared);
        self.note_aborted(&prepared)?;
        Ok(appended.sequence)
    }

    /// The frame just appended decides: who sees what it decides waits for it.
    fn begin_decision(&mut self, prepared: &Prepared) {
        self.checkpoint.changes += 1;
        self.note_change(prepared.head.cont);
        self.forget_reader(prepared.head.epoch);
        let durability = self.durability(prepared.head.cont);
        self.reads.begin_write(self.store.log.last_sequence(), self.is_awaited(durability));
    }

    /// Who reads past an aborted transaction depends on the abort.
    fn note_aborted(&mut self, prepared: &Prepared) -> Result<(), Error> {
        self.each_prepared(prepared, |target, path, version| {
            if version.is_gift {
                return Ok(());
            }
            path.down(version.depth, &version.dkey, &version.akey)?;
            target.reads.note_write(path, version.depth, prepared.head.epoch);
            Ok(())
        })
    }

    /// Gives back the bulk space of an aborted transaction.
    pub(crate) fn drop_prepared(&mut self, prepared: &Prepared) {
        let held: Vec<_> = self.held_bulk(prepared).collect();
        for (bulk, count) in held {
            self.store.bulk.drop_reference(bulk, count);
        }
    }

    /// The bulk space that a prepared transaction holds, as far as its record tells.
    pub(crate) fn held_bulk(&self, prepared: &Prepared) -> impl Iterator<Item = (BulkPlace, u32)> {
        prepared.versions.iter().filter_map(|version| {
            let place = crate::index::EntryPlace::Log(offset_place(prepared.body, version.offset));
            self.store.stored(&place).ok()?.bulk()
        })
    }
}

/// What the record of a prepare takes of the log at most, and what it asks for.
fn room_of(request: &PrepareParts, parts: &[(Oid, Drafts<'_>)]) -> (usize, Need) {
    let groups = parts.iter().map(|(_, drafts)| PrepareHead::GROUP_BYTES + drafts.log_bytes());
    let body_bytes = PrepareHead::encoded_bytes(request.participants.len()) + groups.sum::<usize>();
    let frees = parts.iter().all(|(_, drafts)| drafts.frees_space());
    (body_bytes, if frees { Need::Prepare } else { Need::Data })
}

fn prepared_version(
    oid: Oid,
    drafts: &Drafts<'_>,
    draft: &Draft<'_>,
    minor: u16,
    offset: usize,
) -> PreparedVersion {
    PreparedVersion {
        oid,
        depth: draft.depth,
        dkey: drafts.dkey.clone(),
        akey: draft.akey.clone(),
        minor,
        offset,
        is_gift: draft.depth.is_gift(draft.kind),
    }
}
