//! Containers as a target knows them, and what a read at an epoch may see of one.

use dolmen_codec::log_body::ContEvent;
use dolmen_codec::manifest::ContState;
use dolmen_codec::quota::{Account, Charges};
use dolmen_codec::verb::{ContSpec, Usage};
use dolmen_types::{ContNo, Epoch, Error};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a read at one epoch sees: everything up to it but what rollbacks have hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) at: Epoch,
    /// Hidden intervals `(after, up to and including]`.
    hidden: SmallVec<[(Epoch, Epoch); 1]>,
}

impl View {
    #[inline]
    pub(crate) fn sees(&self, epoch: Epoch) -> bool {
        epoch <= self.at && (self.hidden.is_empty() || !self.hides(epoch))
    }

    /// Whether some epoch up to `at` is hidden.
    pub(crate) fn is_plain(&self) -> bool {
        self.hidden.is_empty()
    }

    fn hides(&self, epoch: Epoch) -> bool {
        self.hidden.iter().any(|&(after, upto)| epoch > after && epoch <= upto)
    }
}

/// The state of one container.
pub(crate) struct Cont {
    pub(crate) state: ContState,
    /// The frame that last changed what every read of the container sees; 0 if readers need not wait for it.
    pub(crate) changed: u64,
    /// Whatever there is at or below the aggregated horizon stands in frames before this sequence number: later ones
    /// are above it.
    pub(crate) aggregated_before: u64,
    /// Shared by the targets of this process, if the container has limits.
    pub(crate) account: Option<Arc<Account>>,
}

impl Cont {
    fn new(no: ContNo, spec: ContSpec) -> Self {
        let state = ContState {
            no,
            spec,
            floor: Epoch::ZERO,
            aggregated: Epoch::ZERO,
            destroyed: false,
            usage: Usage::default(),
            charges: Charges::default(),
            snapshots: Vec::new(),
            rollbacks: Vec::new(),
        };
        Self { state, changed: 0, aggregated_before: 0, account: None }
    }

    /// What a read at `at` sees.
    pub(crate) fn view(&self, at: Epoch) -> View {
        let mut hidden = SmallVec::new();
        let mut reader = at;
        for &(to, rolled_at) in self.state.rollbacks.iter().rev() {
            if rolled_at < reader {
                hidden.push((to, rolled_at));
                reader = to;
            }
        }
        View { at, hidden }
    }

    /// Whether the state at `at` is still kept whole.
    pub(crate) fn keeps(&self, at: Epoch) -> bool {
        at >= self.state.aggregated || self.state.snapshots.binary_search(&at).is_ok()
    }

    /// Epochs up to the horizon whose state must stay readable: snapshots, the horizon itself, and states that rollbacks
    /// above it return to. What one below it returns to is what the horizon sees.
    pub(crate) fn kept_epochs(&self, horizon: Epoch) -> Vec<Epoch> {
        let mut kept: Vec<Epoch> = self.state.snapshots.clone();
        kept.extend(self.state.rollbacks.iter().filter(|rollback| rollback.1 >= horizon).map(|&(to, _)| to));
        kept.push(horizon);
        kept.retain(|&epoch| epoch <= horizon);
        kept.sort_unstable();
        kept.dedup();
        kept
    }

    /// Up to which epoch rollbacks may be forgotten once nothing is left of what no kept epoch sees; `None` if there are
    /// none. Whoever reads between such a rollback and what it returns to would still need it.
    pub(crate) fn outlived_rollbacks(&self, kept: &[Epoch], horizon: Epoch) -> Option<Epoch> {
        let below = || self.state.rollbacks.iter().take_while(|rollback| rollback.1 < horizon);
        let oldest = below().map(|&(to, _)| to).min()?;
        let has_reader = kept.iter().any(|&epoch| epoch > oldest && epoch < horizon);
        if has_reader { None } else { below().map(|&(_, at)| at).max() }
    }

    /// Forgets the rollbacks up to an epoch.
    pub(crate) fn forget_rollbacks(state: &mut ContState, upto: Epoch) {
        state.rollbacks.retain(|&(_, at)| at > upto);
    }
}

/// All containers of a target.
#[derive(Default)]
pub(crate) struct Conts {
    by_no: BTreeMap<ContNo, Cont>,
}

impl Conts {
    pub(crate) fn from_manifest(states: &[ContState]) -> Self {
        let known = |state: &ContState| Cont {
            state: state.clone(),
            changed: 0,
            aggregated_before: 0,
            account: None,
        };
        Self { by_no: states.iter().map(|state| (state.no, known(state))).collect() }
    }

    pub(crate) fn to_manifest(&self) -> Vec<ContState> {
        self.by_no.values().map(|cont| cont.state.clone()).collect()
    }

    pub(crate) fn find(&self, no: ContNo) -> Result<&Cont, Error> {
        self.by_no.get(&no).filter(|cont| !cont.state.destroyed).ok_or(Error::NoContainer)
    }

    pub(crate) fn find_mut(&mut self, no: ContNo) -> Result<&mut Cont, Error> {
        self.by_no.get_mut(&no).filter(|cont| !cont.state.destroyed).ok_or(Error::NoContainer)
    }

    /// Also finds a destroyed container whose space is not freed yet.
    pub(crate) fn any(&self, no: ContNo) -> Option<&Cont> {
        self.by_no.get(&no)
    }

    /// As `any`, to change it.
    pub(crate) fn any_mut(&mut self, no: ContNo) -> Option<&mut Cont> {
        self.by_no.get_mut(&no)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Cont> {
        self.by_no.values()
    }

    /// The log was replayed up to this sequence number.
    pub(crate) fn replayed(&mut self, sequence: u64) {
        self.by_no.values_mut().for_each(|cont| cont.aggregated_before = sequence);
    }

    /// Forgets a destroyed container of which nothing is left.
    pub(crate) fn forget(&mut self, no: ContNo) {
        self.by_no.remove(&no);
    }

    /// Applies an event; all of them may be repeated.
    pub(crate) fn apply(&mut self, no: ContNo, event: ContEvent) {
        if let ContEvent::Created(spec) = event {
            self.by_no.entry(no).or_insert_with(|| Cont::new(no, spec));
            return;
        }
        let Some(cont) = self.by_no.get_mut(&no) else {
            return;
        };
        let state = &mut cont.state;
        match event {
            ContEvent::Created(_) => {}
            ContEvent::Destroyed => state.destroyed = true,
            ContEvent::Floor(epoch) => state.floor = state.floor.max(epoch),
            ContEvent::SnapshotAdded(epoch) => {
                if let Err(at) = state.snapshots.binary_search(&epoch) {
                    state.snapshots.insert(at, epoch);
                }
            }
            ContEvent::SnapshotRemoved(epoch) => state.snapshots.retain(|&kept| kept != epoch),
            ContEvent::RolledBack { to, at } => {
                if state.rollbacks.last().is_none_or(|last| last.1 < at) {
                    state.rollbacks.push((to, at));
                }
                state.floor = state.floor.max(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cont(rollbacks: &[(u64, u64)]) -> Cont {
        let spec = dolmen_codec::verb::system_container().1;
        let mut cont = Cont::new(ContNo(1), spec);
        cont.state.rollbacks = rollbacks.iter().map(|&(to, at)| (Epoch(to), Epoch(at))).collect();
        cont
    }

    #[test]
    fn a_rollback_hides_its_interval_from_later_reads_only() {
        let cont = cont(&[(10, 20)]);
        let seen = |at, epoch| cont.view(Epoch(at)).sees(Epoch(epoch));
        assert!(seen(15, 15));
        assert!(seen(20, 20));
        assert!(seen(21, 10));
        assert!(!seen(21, 11));
        assert!(!seen(21, 20));
        assert!(seen(21, 21));
    }

    #[test]
    fn a_rollback_is_kept_for_who_reads_before_it() {
        let kept = |snapshots: &[u64], rollbacks: &[(u64, u64)], horizon| {
            let mut cont = cont(rollbacks);
            cont.state.snapshots = snapshots.iter().copied().map(Epoch).collect();
            let kept = cont.kept_epochs(Epoch(horizon));
            let outlived = cont.outlived_rollbacks(&kept, Epoch(horizon)).map(|epoch| epoch.0);
            (kept.iter().map(|epoch| epoch.0).collect::<Vec<_>>(), outlived)
        };
        assert_eq!(
            kept(&[], &[(10, 20)], 20),
            (vec![10, 20], None),
            "a reader at the horizon sees before it"
        );
        assert_eq!(kept(&[], &[(10, 20)], 21), (vec![21], Some(20)));
        assert_eq!(kept(&[10], &[(10, 20)], 30), (vec![10, 30], Some(20)), "it returned to a snapshot");
        assert_eq!(kept(&[15], &[(10, 20)], 30), (vec![15, 30], None), "a snapshot of what it took");
        assert_eq!(kept(&[25], &[(10, 20)], 30), (vec![25, 30], None));
        assert_eq!(kept(&[30], &[(10, 20)], 30), (vec![30], Some(20)));
        assert_eq!(kept(&[], &[(10, 20), (15, 30)], 40), (vec![40], Some(30)));
        assert_eq!(kept(&[], &[(10, 20), (15, 30)], 25), (vec![15, 25], None), "the second undoes the first");
        assert_eq!(kept(&[], &[], 30), (vec![30], None));
    }

    #[test]
    fn a_rollback_to_before_another_undoes_it() {
        let cont = cont(&[(10, 20), (15, 30)]);
        assert!(cont.view(Epoch(31)).sees(Epoch(12)));
        assert!(!cont.view(Epoch(31)).sees(Epoch(16)));
        assert!(!cont.view(Epoch(31)).sees(Epoch(25)));
    }
}
