//! What the kernel was told under leases, and is told again when others change it.
//!
//! Invariants: what is told under a lease is written down before the kernel hears it, and a lease that is void by then is none; the
//! kernel believes for no longer than the leases hold whatever becomes of this process, but in contents.

use core::time::Duration;
use dolmen_dfs::{Lease, Leased};
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The kernel counts in ticks, and hears late what it is told: it is told so much less than the rest of a term.
const MARGIN_NS: u64 = 100_000_000;

/// Leases on what one thing was told by: a file of many names has some of each. With more it is told for no time.
const LEASES_MAX: usize = 64;

/// What is to be told of one thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dropped {
    pub(crate) number: u64,
    /// Its names are to be looked up anew, too.
    pub(crate) names: bool,
    /// So are its contents.
    pub(crate) pages: bool,
}

/// What the kernel was told of one thing.
#[derive(Debug, Default)]
struct Note {
    leases: Vec<Lease>,
    until_ns: u64,
    /// Contents that the kernel may have are covered as well, until the last open of them ends.
    keeps_pages: bool,
}

#[derive(Debug, Default)]
struct Notes {
    by_number: HashMap<u64, Note>,
    by_lease: HashMap<usize, Vec<u64>>,
    /// How often files are open whose contents the kernel may have.
    opens: HashMap<u64, usize>,
    /// Writes under way to these, and whether contents are to be dropped when they have ended: the kernel keeps what is written to
    /// locked until then, and whoever waited for that would keep others waiting.
    writes: HashMap<u64, (usize, bool)>,
    /// Contents of these were read without a lease.
    uncovered: BTreeSet<u64>,
}

/// What the kernel was told.
#[derive(Default)]
pub(crate) struct Told {
    /// Guards: all of it; taken alone.
    notes: Mutex<Notes>,
    /// Called when something is to be dropped of which nobody else says so.
    uncovered: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Told {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long the kernel may believe in what was found of `number` with these leases, at most for `timeout`.
    pub(crate) fn tell(&self, number: u64, leased: &Leased, timeout: Duration, now_ns: u64) -> Duration {
        let mut notes = self.notes();
        if !notes.add(number, leased) {
            return Duration::ZERO;
        }
        // Looked at after they were written down: who makes one void afterwards finds it there.
        let left_ns = leased.until_ns().saturating_sub(now_ns.saturating_add(MARGIN_NS));
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let valid_ns = left_ns.min(timeout_ns);
        if valid_ns > 0
            && let Some(note) = notes.by_number.get_mut(&number)
        {
            note.until_ns = note.until_ns.max(now_ns + valid_ns + MARGIN_NS);
        }
        Duration::from_nanos(valid_ns)
    }

    /// The kernel may keep contents of a file that is open, under these leases; whether they hold.
    pub(crate) fn keep_pages(&self, number: u64, leased: &Leased) -> bool {
        let mut notes = self.notes();
        let holds = notes.opens.contains_key(&number) && notes.add(number, leased) && leased.until_ns() > 0;
        if holds && let Some(note) = notes.by_number.get_mut(&number) {
            note.keeps_pages = true;
        }
        holds
    }

    /// Whether contents of a file are covered.
    pub(crate) fn has_pages(&self, number: u64) -> bool {
        self.notes().by_number.get(&number).is_some_and(|note| note.keeps_pages)
    }

    /// Contents are about to be read of which nobody would say that they change.
    pub(crate) fn note_uncovered(&self, number: u64) {
        self.notes().uncovered.insert(number);
        if let Some(call) = self.uncovered.get() {
            call();
        }
    }

    /// Has this called whenever something was read so.
    pub(crate) fn when_uncovered(&self, call: impl Fn() + Send + Sync + 'static) {
        // Ignored: who listens says so once.
        let _known = self.uncovered.set(Box::new(call));
    }

    /// What was read so since the last call: the kernel is to drop it.
    pub(crate) fn take_uncovered(&self) -> BTreeSet<u64> {
        core::mem::take(&mut self.notes().uncovered)
    }

    /// A file was opened whose contents the kernel may have.
    pub(crate) fn opened(&self, number: u64) {
        *self.notes().opens.entry(number).or_default() += 1;
    }

    /// It was closed: the next open looks at its version.
    pub(crate) fn closed(&self, number: u64) {
        let mut notes = self.notes();
        let Some(count) = notes.opens.get_mut(&number) else { return };
        *count -= 1;
        if *count == 0 {
            notes.opens.remove(&number);
            if let Some(note) = notes.by_number.get_mut(&number) {
                note.keeps_pages = false;
            }
        }
    }

    /// A write begins to a file whose contents the kernel may have.
    pub(crate) fn begin_write(&self, number: u64) {
        self.notes().writes.entry(number).or_default().0 += 1;
    }

    /// It was answered; whether contents are to be dropped now.
    pub(crate) fn end_write(&self, number: u64) -> bool {
        let mut notes = self.notes();
        let Some((count, owes)) = notes.writes.get_mut(&number) else { return false };
        *count -= 1;
        let owes = core::mem::take(owes);
        if *count == 0 {
            notes.writes.remove(&number);
        }
        owes
    }

    /// These leases are void; `of_contents` says whether one, on this object, is on nothing but the contents of `number`. What is
    /// to be told.
    pub(crate) fn void<T: Copy>(
        &self,
        void: &[(Lease, T)],
        now_ns: u64,
        of_contents: impl Fn(u64, T) -> bool,
    ) -> Vec<Dropped> {
        let mut dropped = Vec::new();
        for (lease, on) in void {
            let numbers = self.notes().by_lease.remove(&lease.key()).unwrap_or_default();
            for number in numbers {
                // Not under the lock.
                let is_of_contents = of_contents(number, *on);
                dropped.extend(self.notes().drop_lease(number, lease, is_of_contents, now_ns));
            }
        }
        dropped
    }

    /// All leases are void.
    pub(crate) fn void_all(&self, now_ns: u64) -> Vec<Dropped> {
        let mut notes = self.notes();
        let mut numbers: Vec<u64> = notes.by_number.keys().copied().collect();
        numbers.sort_unstable();
        numbers.into_iter().filter_map(|number| notes.drop_note(number, now_ns)).collect()
    }

    /// Leases go that the kernel believes in no more.
    pub(crate) fn drop_old(&self, now_ns: u64) {
        let mut notes = self.notes();
        let is_old = |note: &Note| note.until_ns <= now_ns && !note.keeps_pages;
        let old: Vec<u64> =
            notes.by_number.iter().filter(|(_, note)| is_old(note)).map(|(number, _)| *number).collect();
        for number in old {
            notes.drop_note(number, now_ns);
        }
    }
}

impl Notes {
    /// Writes down that `number` depends on these; false if they cover nothing, or are too many.
    fn add(&mut self, number: u64, leased: &Leased) -> bool {
        if leased.until_ns() == 0 {
            return false;
        }
        let note = self.by_number.entry(number).or_default();
        for lease in leased.leases() {
            if note.leases.iter().any(|known| known.key() == lease.key()) {
                continue;
            }
            if note.leases.len() == LEASES_MAX {
                return false;
            }
            note.leases.push(lease.clone());
            self.by_lease.entry(lease.key()).or_default().push(number);
        }
        true
    }

    /// A lease of `number` is void, which is taken out of `by_lease` already.
    fn drop_lease(
        &mut self,
        number: u64,
        lease: &Lease,
        is_of_contents: bool,
        now_ns: u64,
    ) -> Option<Dropped> {
        if !is_of_contents {
            return self.drop_note(number, now_ns);
        }
        // Names hold on, under the other leases.
        let note = self.by_number.get_mut(&number)?;
        note.leases.retain(|known| known.key() != lease.key());
        let had_pages = core::mem::take(&mut note.keeps_pages);
        let is_believed = now_ns < note.until_ns;
        let pages = had_pages && !self.is_written(number);
        (is_believed || had_pages).then_some(Dropped { number, names: false, pages })
    }

    /// Forgets what was told of `number`; what the kernel is to be told, if it may believe in it still.
    fn drop_note(&mut self, number: u64, now_ns: u64) -> Option<Dropped> {
        let note = self.by_number.remove(&number)?;
        for lease in &note.leases {
            if let Some(numbers) = self.by_lease.get_mut(&lease.key()) {
                numbers.retain(|other| *other != number);
                if numbers.is_empty() {
                    self.by_lease.remove(&lease.key());
                }
            }
        }
        let pages = note.keeps_pages && !self.is_written(number);
        let is_believed = now_ns < note.until_ns;
        (is_believed || note.keeps_pages).then_some(Dropped { number, names: is_believed, pages })
    }

    /// Whether a write is under way, after which contents are dropped then.
    fn is_written(&mut self, number: u64) -> bool {
        self.writes.get_mut(&number).is_some_and(|(_, owes)| {
            *owes = true;
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;
    use std::sync::Arc;

    const TERM_NS: u64 = 3_000_000_000;
    const LONG: Duration = Duration::from_secs(3600);

    /// Leases that hold until `TERM_NS`.
    fn leases(count: u32) -> Vec<Lease> {
        let until_ns = Arc::new(AtomicU64::new(TERM_NS));
        (1..=count).map(|no| Lease::new(no, Arc::clone(&until_ns))).collect()
    }

    fn on(all: &[&Lease]) -> Leased {
        all.iter().map(|lease| (*lease).clone()).collect()
    }

    /// What is to be told when one is void that is on contents if `of_contents`.
    fn void(told: &Told, lease: &Lease, of_contents: bool, now_ns: u64) -> Vec<Dropped> {
        lease.end();
        told.void(&[(lease.clone(), ())], now_ns, |_, ()| of_contents)
    }

    #[test]
    fn the_kernel_believes_for_the_rest_of_the_term_and_hears_of_changes_until_then() {
        let (told, all) = (Told::default(), leases(3));
        assert_eq!(told.tell(7, &Leased::default(), LONG, 0), Duration::ZERO, "nothing was leased");
        let valid = told.tell(7, &on(&[&all[0], &all[1]]), LONG, 0);
        assert_eq!(valid, Duration::from_nanos(TERM_NS - MARGIN_NS));
        let second = Duration::from_secs(1);
        assert_eq!(told.tell(8, &on(&[&all[0]]), second, 0), second);
        let names = |number| Dropped { number, names: true, pages: false };
        assert_eq!(void(&told, &all[1], false, 5), [names(7)]);
        assert_eq!(void(&told, &all[0], false, 5), [names(8)], "of the other nothing is believed any more");
        assert_eq!(void(&told, &all[2], false, 5), []);
        assert_eq!(told.tell(9, &on(&[&all[0]]), LONG, 6), Duration::ZERO, "it is void already");
    }

    #[test]
    fn what_is_believed_no_more_is_not_told_and_its_leases_go() {
        let (told, all) = (Told::default(), leases(2));
        for (number, lease) in (7..).zip(&all) {
            told.tell(number, &on(&[lease]), Duration::from_secs(1), 0);
        }
        let late_ns = 2_000_000_000;
        assert_eq!(void(&told, &all[0], false, late_ns), []);
        assert!(!all[1].is_sole());
        told.drop_old(late_ns);
        assert!(all[1].is_sole() && told.notes().by_lease.is_empty() && told.notes().by_number.is_empty());
    }

    #[test]
    fn a_change_of_contents_leaves_names_alone_and_one_of_all_leases_nothing() {
        let (told, all) = (Told::default(), leases(3));
        told.tell(7, &on(&[&all[0], &all[1]]), LONG, 0);
        assert_eq!(void(&told, &all[1], true, 5), [Dropped { number: 7, names: false, pages: false }]);
        assert!(!all[0].is_sole(), "the name is still covered");
        told.tell(8, &on(&[&all[2]]), LONG, 0);
        let both = [7, 8].map(|number| Dropped { number, names: true, pages: false });
        assert_eq!(told.void_all(5), both);
        assert_eq!(told.void_all(5), []);
    }

    #[test]
    fn contents_are_covered_while_they_are_open_and_dropped_after_a_write_under_way() {
        let (told, all) = (Told::default(), leases(4));
        assert!(!told.keep_pages(7, &on(&[&all[0]])), "it is not open");
        told.opened(7);
        told.opened(7);
        assert!(told.keep_pages(7, &on(&[&all[0]])) && told.has_pages(7));
        told.drop_old(9 * TERM_NS);
        let pages = |pages| Dropped { number: 7, names: false, pages };
        assert_eq!(void(&told, &all[0], true, 9 * TERM_NS), [pages(true)]);
        assert!(!told.has_pages(7) && !told.keep_pages(7, &on(&[&all[0]])));
        assert!(told.keep_pages(7, &on(&[&all[1]])));
        told.begin_write(7);
        told.begin_write(7);
        assert_eq!(void(&told, &all[1], true, 0), [pages(false)], "who writes does not wait for himself");
        assert!(told.end_write(7) && !told.end_write(7) && !told.end_write(7));
        assert!(told.keep_pages(7, &on(&[&all[2]])));
        told.closed(7);
        assert!(told.has_pages(7), "somebody else has it open");
        (0..2).for_each(|_| told.note_uncovered(7));
        assert_eq!([told.take_uncovered().len(), told.take_uncovered().len()], [1, 0]);
        told.closed(7);
        assert!(!told.has_pages(7));
        told.drop_old(TERM_NS);
        assert!(all[2].is_sole());
    }

    #[test]
    fn what_depends_on_too_much_is_believed_for_no_time() {
        let (told, all) = (Told::default(), leases(65));
        assert!(told.tell(7, &on(&all[..64].iter().collect::<Vec<_>>()), LONG, 0) > Duration::ZERO);
        assert_eq!(told.tell(7, &on(&[&all[64]]), LONG, 0), Duration::ZERO);
    }
}
