//! Transactions: undecided writes, what depends on them, and decisions.

use super::data::Origin;
use super::read::{Answer, Position, Question};
use super::{Model, Remembered, write};
use dolmen_codec::quota::ByUser;
use dolmen_codec::verb::{InDoubt, Mutation, Prepare, Reply, TxState};
use dolmen_types::{ContNo, Epoch, Error, Head, Invalid, Oid, Stamp, TargetNo, TxId, limits};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Undecided transactions over one object of which every combination is tried; with more of them, whatever
/// depends on the object is in doubt.
const COMBINED_MAX: usize = 6;

/// A transaction that waits for its decision.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) cont: ContNo,
    epoch: Epoch,
    leader: TargetNo,
    participants: SmallVec<[TargetNo; 4]>,
    oids: BTreeSet<Oid>,
    /// What is reserved for whom its gifts are to.
    pub(super) expected: ByUser,
}

impl Prepared {
    pub(super) fn touches(&self, no: ContNo, oid: Oid) -> bool {
        self.cont == no && self.oids.contains(&oid)
    }
}

impl Model {
    /// The answer to a question, if it is the same whatever becomes of the undecided transactions up to `at`
    /// other than `own`, which are taken to be committed.
    pub(super) fn settled(
        &self,
        no: ContNo,
        at: Epoch,
        from: Position,
        question: &Question,
        own: &[TxId],
    ) -> Result<Result<Answer, Error>, Error> {
        let cont = self.find(no)?;
        let touched = |prepared: &Prepared| question.oid().is_none_or(|oid| prepared.oids.contains(&oid));
        let others: Vec<TxId> = self
            .prepared
            .iter()
            .filter(|(tx, prepared)| {
                prepared.cont == no && prepared.epoch <= at && !own.contains(tx) && touched(prepared)
            })
            .map(|(tx, _)| *tx)
            .collect();
        let answer = question.answer(cont, from, own);
        if let Some(&tx) = others.get(COMBINED_MAX) {
            return Err(Error::InDoubt { tx });
        }
        for combination in 1_u32..1 << others.len() {
            let chosen = |number: &usize| combination >> number & 1 == 1;
            let with: Vec<TxId> = (0..others.len()).filter(chosen).map(|number| others[number]).collect();
            let all: Vec<TxId> = own.iter().chain(&with).copied().collect();
            if question.answer(cont, from, &all) != answer {
                return Err(Error::InDoubt { tx: with[0] });
            }
        }
        Ok(answer)
    }

    pub(super) fn prepare(&mut self, head: &Head, no: ContNo, prepare: Prepare<'_>) -> Result<Reply, Error> {
        let tx = prepare.tx;
        let known = self.prepared.contains_key(&tx) || self.decided.contains(&tx);
        if known || self.first_result(head).is_some() {
            return Ok(Reply::Prepared);
        }
        if self.aborted.contains(&tx) {
            return Err(Error::TxRestart { after: prepare.epoch });
        }
        self.check_prepare(no, &prepare)?;
        let oids = prepare.mutations.iter().map(write::oid).collect();
        let Prepare { epoch, leader, participants, mutations, .. } = prepare;
        let alone = participants.len() == 1;
        let expected = ByUser::default();
        self.prepared.insert(tx, Prepared { cont: no, epoch, leader, participants, oids, expected });
        let asks = head.cred.uid;
        let written = self.write_undecided((no, asks), tx, epoch, &mutations);
        let reserved = written.and_then(|reads| {
            self.reserve(no, asks, &mutations, Some((tx, epoch))).map(|expected| (reads, expected))
        });
        let reads = match reserved {
            Ok((reads, expected)) => {
                self.prepared.entry(tx).and_modify(|prepared| prepared.expected = expected);
                reads
            }
            Err(error) => {
                self.decide(tx, false);
                return Err(error);
            }
        };
        self.last = self.last.max(epoch);
        for read in reads {
            self.remember(read);
        }
        if alone {
            self.decide(tx, true);
            self.decided.insert(tx);
            self.retain(head, None, 0);
        }
        Ok(Reply::Prepared)
    }

    /// What can be said before anything is written.
    fn check_prepare(&mut self, no: ContNo, prepare: &Prepare<'_>) -> Result<(), Error> {
        if prepare.mutations.len() > limits::TX_MUTATIONS_MAX || prepare.participants.is_empty() {
            return Err(Invalid::Count.into());
        }
        if !prepare.participants.contains(&self.target()) || !prepare.participants.contains(&prepare.leader) {
            return Err(Invalid::Argument.into());
        }
        prepare.mutations.iter().try_for_each(|mutation| match mutation {
            Mutation::Update(gift) if gift.iods.is_empty() => write::check_gift(gift),
            other => write::check(other, limits::IODS_MAX),
        })?;
        let floor = self.find(no)?.floor;
        if floor >= prepare.epoch {
            return Err(Error::TxRestart { after: floor });
        }
        if self.read_floor >= prepare.epoch {
            return Err(Error::TxRestart { after: self.read_floor });
        }
        self.observe(prepare.epoch)?;
        let cont = self.find(no)?;
        let newest =
            prepare.mutations.iter().filter_map(|mutation| write::newest_write(cont, mutation)).max();
        match newest {
            Some(stamp) if stamp.epoch >= prepare.epoch => Err(Error::TxRestart { after: stamp.epoch }),
            Some(_) | None => Ok(()),
        }
    }

    /// Adds a transaction's versions, one mutation seeing those before it. Returns what it had to know.
    fn write_undecided(
        &mut self,
        (no, asks): (ContNo, u32),
        tx: TxId,
        epoch: Epoch,
        mutations: &[Mutation<'_>],
    ) -> Result<Vec<Remembered>, Error> {
        let mut reads = Vec::new();
        for (mutation, minor) in mutations.iter().zip(0..=u16::MAX) {
            let stamp = Stamp { epoch, minor };
            if let Some(question) = write::question(mutation) {
                let from = Position::Before(stamp);
                self.settled(no, epoch, from, &question, &[tx])??;
                reads.push(Remembered { cont: no, epoch, from, question, reader: Some(tx) });
            }
            write::apply(self.find_mut(no)?, asks, mutation, Origin { stamp, undecided: Some(tx) });
        }
        self.check_reads(no, tx, epoch)?;
        Ok(reads)
    }

    /// Whether anything read above the transaction's epoch would now read differently.
    fn check_reads(&self, no: ContNo, tx: TxId, epoch: Epoch) -> Result<(), Error> {
        let oids = &self.prepared[&tx].oids;
        let later = self.reads.iter().filter(|read| read.cont == no && read.epoch > epoch);
        for read in later.filter(|read| read.question.oid().is_none_or(|oid| oids.contains(&oid))) {
            // The reader's own earlier mutations were seen by its conditions, whether it is decided or not.
            let own: Vec<TxId> =
                read.reader.iter().copied().filter(|own| self.prepared.contains_key(own)).collect();
            if self.settled(no, read.epoch, read.from, &read.question, &own).is_err() {
                return Err(Error::TxRestart { after: read.epoch });
            }
        }
        Ok(())
    }

    fn decide(&mut self, tx: TxId, commit: bool) {
        if let Some(prepared) = self.prepared.remove(&tx)
            && let Some(cont) = self.conts.get_mut(&prepared.cont)
        {
            let given = cont.decide(tx, &prepared.oids, commit);
            if let Some(account) = self.accounts.get(&prepared.cont) {
                account.hand_over(&prepared.expected, &given);
            }
        }
    }

    pub(super) fn commit(&mut self, tx: TxId) -> Result<Reply, Error> {
        if let Some(prepared) = self.prepared.get(&tx) {
            if prepared.leader == self.target() {
                self.unconcluded.insert(tx, item((&tx, prepared)));
            }
            if let Some(account) = self.accounts.get(&prepared.cont) {
                account.note_change();
            }
            self.decide(tx, true);
            self.decided.insert(tx);
        }
        if self.decided.contains(&tx) { Ok(Reply::Done) } else { Err(Error::NotFound) }
    }

    pub(super) fn abort(&mut self, tx: TxId) -> Result<Reply, Error> {
        if self.decided.contains(&tx) {
            return Err(Error::Exists);
        }
        if let Some(prepared) = self.prepared.get(&tx) {
            self.release(prepared.cont, tx);
        }
        self.decide(tx, false);
        self.aborted.insert(tx);
        Ok(Reply::Done)
    }

    pub(super) fn tx_state(&self, tx: TxId) -> TxState {
        if self.prepared.contains_key(&tx) {
            TxState::Prepared
        } else if self.decided.contains(&tx) {
            TxState::Committed
        } else {
            TxState::Unknown
        }
    }

    pub(super) fn in_doubt(&self) -> Vec<InDoubt> {
        self.prepared.iter().map(item).collect()
    }
}

fn item((tx, prepared): (&TxId, &Prepared)) -> InDoubt {
    InDoubt {
        tx: *tx,
        epoch: prepared.epoch,
        leader: prepared.leader,
        participants: prepared.participants.clone(),
    }
}
