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
pub fn run_all<S: crate::Subject>(open: impl FnMut(&str) -> S) {
    run_all_but(&[], open);
}

/// As [`run_all`], without the cases that ask for what a subject cannot be asked, each with the reason.
///
/// # Panics
/// If a case fails; if an exception is no case, has no reason, or is not needed since its case passes.
pub fn run_all_but<S: crate::Subject>(exceptions: &[(&str, &str)], mut open: impl FnMut(&str) -> S) {
    let mut wrong = Vec::new();
    let mut known = 0;
    for (name, case) in CASES.iter().copied().flatten() {
        let run = || {
            let mut subject = open(name);
            case(&mut Harness::new(&mut subject));
        };
        // A case leaves nothing behind but its subject, which is dropped.
        let passes = std::panic::catch_unwind(core::panic::AssertUnwindSafe(run)).is_ok();
        let is_exception = exceptions.iter().any(|(except, reason)| except == name && !reason.is_empty());
        known += usize::from(is_exception);
        if passes == is_exception {
            wrong.push(*name);
        }
    }
    assert!(wrong.is_empty(), "{} cases fail, or pass although they are exceptions: {wrong:#?}", wrong.len());
    assert_eq!(known, exceptions.len(), "an exception is no case, or has no reason");
}
