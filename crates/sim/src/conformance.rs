//! Scripted cases: one function a behaviour, each with its claim. The same list runs on every store.

mod arrays;
mod conditions;
mod harness;
mod punches;
mod singles;

pub use harness::Harness;

/// A case: panics where the store does not do what it must.
pub type Case = fn(&mut Harness<'_>);

/// Every case by name. Each wants a fresh store.
pub const CASES: &[&[(&str, Case)]] = &[singles::CASES, arrays::CASES, conditions::CASES, punches::CASES];

/// Runs every case, each on a subject of its own; `begin` is told the name before the case starts.
///
/// # Panics
/// If a case fails.
pub fn run_all<S: crate::Subject>(mut open: impl FnMut(&str) -> S) {
    for (name, case) in CASES.iter().copied().flatten() {
        let mut subject = open(name);
        case(&mut Harness::new(&mut subject));
    }
}
