//! The target of a pool, wherever it is.

use dolmen_cluster::{Absent, Elsewhere};
use dolmen_codec::quota::{Account, Charge};
use dolmen_codec::{Completion, Lead, Op, Progress, TargetStore};
use dolmen_engine::Target;
use dolmen_types::{ContNo, Error};
use std::sync::Arc;

/// A target: this process's, another engine's, or one that a part of a pool has no way to.
#[expect(clippy::large_enum_variant, reason = "a pool has as many as targets, which do not move")]
pub(crate) enum Store {
    Here(Target),
    Elsewhere(Box<Elsewhere>),
    Absent(Absent),
}

impl Store {
    pub(crate) fn here(self) -> Option<Target> {
        match self {
            Self::Here(target) => Some(target),
            Self::Elsewhere(_) | Self::Absent(_) => None,
        }
    }
}

impl TargetStore for Store {
    #[inline]
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        match self {
            Self::Here(store) => store.submit(ops),
            Self::Elsewhere(store) => store.submit(ops),
            Self::Absent(store) => store.submit(ops),
        }
    }

    #[inline]
    fn poll(&mut self, wait: bool, out: &mut Vec<Completion>) {
        match self {
            Self::Here(store) => store.poll(wait, out),
            Self::Elsewhere(store) => store.poll(wait, out),
            Self::Absent(store) => store.poll(wait, out),
        }
    }

    fn step(&mut self) -> Progress {
        match self {
            Self::Here(store) => store.step(),
            Self::Elsewhere(store) => store.step(),
            Self::Absent(store) => store.step(),
        }
    }

    fn go_with(&mut self, lead: &Arc<Lead>) {
        match self {
            Self::Here(store) => store.go_with(lead),
            Self::Elsewhere(store) => store.go_with(lead),
            Self::Absent(store) => store.go_with(lead),
        }
    }

    fn keep_account(&mut self, cont: ContNo, account: &Arc<Account>) -> Result<(), Error> {
        match self {
            Self::Here(store) => store.keep_account(cont, account),
            Self::Elsewhere(store) => store.keep_account(cont, account),
            Self::Absent(store) => store.keep_account(cont, account),
        }
    }

    fn charges(&mut self, cont: ContNo) -> Result<Vec<(u32, Charge)>, Error> {
        match self {
            Self::Here(store) => store.charges(cont),
            Self::Elsewhere(store) => store.charges(cont),
            Self::Absent(store) => store.charges(cont),
        }
    }
}
