//! A target's part of a transaction, and what targets say of transactions.

use super::data::{Gather, Input};
use super::field::{Field, Writer, choice, read_few, record};
use super::update::{MUTATION_BYTES_MIN, put_mutation, read_mutation};
use crate::bytes::Reader;
use crate::verb::{InDoubt, Mutation, Prepare, TxState};
use dolmen_types::limits::{TARGETS_MAX, TX_MUTATIONS_MAX};
use dolmen_types::{Epoch, TargetNo, TxId};
use smallvec::SmallVec;

choice!(TxState { Unknown = 0, Prepared = 1, Committed = 2 });
record!(InDoubt { tx: TxId, epoch: Epoch, leader: TargetNo, participants: SmallVec<[TargetNo; 4]> });

/// Who takes part in a transaction.
impl Field for SmallVec<[TargetNo; 4]> {
    const BYTES_MIN: usize = 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.list(self, TARGETS_MAX);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        read_few(r, TARGETS_MAX)
    }
}

pub(super) fn put_mutations<'p>(w: &mut Gather<'_, 'p>, mutations: &'p [Mutation<'_>]) {
    w.body.count(mutations.len(), TX_MUTATIONS_MAX);
    mutations.iter().for_each(|mutation| put_mutation(w, mutation));
}

pub(super) fn read_mutations<'p>(input: &mut Input<'_, 'p>) -> Option<Vec<Mutation<'p>>> {
    let count = input.body.count(MUTATION_BYTES_MIN).filter(|&count| count <= TX_MUTATIONS_MAX)?;
    let mut mutations = Vec::with_capacity(count);
    for _ in 0..count {
        mutations.push(read_mutation(input)?);
    }
    Some(mutations)
}

pub(super) fn put_prepare<'p>(w: &mut Gather<'_, 'p>, prepare: &'p Prepare<'_>) {
    let Prepare { tx, epoch, leader, participants, mutations } = prepare;
    w.body.put(tx);
    w.body.put(epoch);
    w.body.put(leader);
    w.body.put(participants);
    put_mutations(w, mutations);
}

pub(super) fn read_prepare<'p>(input: &mut Input<'_, 'p>) -> Option<Prepare<'p>> {
    let r = &mut input.body;
    let (tx, epoch, leader) = (TxId::read(r)?, Epoch::read(r)?, TargetNo::read(r)?);
    let participants = Field::read(r)?;
    Some(Prepare { tx, epoch, leader, participants, mutations: read_mutations(input)? })
}
