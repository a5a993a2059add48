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

/// A case that asks for what a subject cannot be asked.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// The case.
    pub case: &'static str,
    /// Why it is one.
    pub reason: &'static str,
    /// Part of what the case's panic says: a panic over anything else is a failure.
    pub says: &'static str,
}

/// As [`run_all`], without the exceptions.
///
/// # Panics
/// If a case fails; if an exception is no case, has no reason, is not needed since its case passes, or fails otherwise
/// than it says.
pub fn run_all_but<S: crate::Subject>(exceptions: &[Exception], mut open: impl FnMut(&str) -> S) {
    let mut wrong = Vec::new();
    let mut known = 0;
    for (name, case) in CASES.iter().copied().flatten() {
        let run = || {
            let mut subject = open(name);
            case(&mut Harness::new(&mut subject));
        };
        // A case leaves nothing behind but its subject, which is dropped.
        let ran = std::panic::catch_unwind(core::panic::AssertUnwindSafe(run));
        let said = ran.err().map(|panic| message_of(&*panic));
        let exception = exceptions.iter().find(|exception| exception.case == *name);
        known += usize::from(exception.is_some_and(|exception| !exception.reason.is_empty()));
        let is_right = match (&said, exception) {
            (None, None) => true,
            (Some(said), Some(exception)) => !exception.says.is_empty() && said.contains(exception.says),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !is_right {
            wrong.push((*name, said.unwrap_or_else(|| "passes".to_owned())));
        }
    }
    assert!(wrong.is_empty(), "{} cases fail, or pass although they are exceptions: {wrong:#?}", wrong.len());
    assert_eq!(known, exceptions.len(), "an exception is no case, or has no reason");
}

/// What a panic said.
fn message_of(panic: &(dyn core::any::Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("another kind of value").to_owned()
}
