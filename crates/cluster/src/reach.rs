//! What an operation reads or writes, as far as a prepare must not overtake it: a store that has begun with it may look at what it
//! meets only when its device has answered.

use dolmen_codec::Op;
use dolmen_codec::verb::{ListWhat, Mutation, Prepare, Verb};
use dolmen_types::{ContNo, Oid};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    cont: ContNo,
    /// `None` for all objects.
    oid: Option<Oid>,
}

impl Reach {
    /// That of an operation that may meet an undecided transaction; a prepare is answered at once, and begun anew by its coordinator.
    #[inline]
    pub(crate) fn of(op: &Op<'_>) -> Option<Self> {
        let oid = match &op.verb {
            Verb::Update(update) => Some(update.oid),
            Verb::Punch(punch) => Some(punch.oid),
            Verb::Fetch(fetch) => Some(fetch.oid),
            Verb::Query(query) => Some(query.oid),
            Verb::List(list) => match &list.what {
                ListWhat::Dkeys(oid) | ListWhat::Akeys(oid, _) | ListWhat::Extents(oid, ..) => Some(*oid),
                ListWhat::Objects | ListWhat::Changes { .. } => None,
            },
            _ => return None,
        };
        Some(Self { cont: op.cont, oid })
    }

    /// Whether it would meet what is prepared.
    pub(crate) fn meets(&self, cont: ContNo, prepare: &Prepare<'_>) -> bool {
        let is_of = |mutation: &Mutation<'_>| {
            let oid = match mutation {
                Mutation::Update(update) => update.oid,
                Mutation::Punch(punch) => punch.oid,
            };
            self.oid.is_none_or(|own| own == oid)
        };
        self.cont == cont && prepare.mutations.iter().any(is_of)
    }
}
