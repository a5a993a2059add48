//! Scripted cases: one function a behaviour, each with its claim. The same list runs on every store.

mod arrays;
mod conditions;
mod epochs;
pub(crate) mod harness;
mod lists;
mod punches;
mod requests;
mod singles;
mod transactions;

pub use harness::Harness;

/// A case: panics where the store does not do what it must.
pub type Case = fn(&mut Harness<'_>);

/// Every case by name, in groups. Each wants a fresh store.
pub const CASES: &[&[(&str, Case)]] = &[
    singles::CASES,
    arrays::CASES,
    conditions::CASES,
    punches::CASES,
    lists::CASES,
    epochs::CASES,
    transactions::CASES,
    requests::CASES,
];

/// Runs every case, each on a subject of its own, also when others have failed.
///
/// # Panics
/// If a case fails; the message names all that did.
pub fn run_all<S: crate::Subject>(mut open: impl FnMut(&str) -> S) {
    let mut failed = Vec::new();
    for (name, case) in CASES.iter().copied().flatten() {
        let run = || {
            let mut subject = open(name);
            case(&mut Harness::new(&mut subject));
        };
        // A case leaves nothing behind but its subject, which is dropped.
        if std::panic::catch_unwind(core::panic::AssertUnwindSafe(run)).is_err() {
            failed.push(*name);
        }
    }
    assert!(failed.is_empty(), "{} cases fail: {failed:#?}", failed.len());
}
