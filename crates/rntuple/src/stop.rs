//! Calling off what takes long: whoever runs something on a thread says who is asked, now and then, whether to go on.
//!
//! Invariants: what was called off once stays so for as long as it runs; threads that work for it ask the same.

use crate::error::{Error, Result};
use core::cell::RefCell;
use std::sync::Arc;

/// Who is asked: whether what runs is called off. It is asked often, by any thread that works for it.
pub type Asked = Arc<dyn Fn() -> bool + Send + Sync>;

thread_local! {
    /// Who is asked about what this thread does.
    static ASKED: RefCell<Option<Asked>> = const { RefCell::new(None) };
}

/// Puts back who was asked before.
struct Before(Option<Asked>);

impl Drop for Before {
    fn drop(&mut self) {
        ASKED.with(|asked| *asked.borrow_mut() = self.0.take());
    }
}

/// Runs something about which `asked` is asked; nobody if it is none.
pub fn asking<R>(asked: Option<Asked>, run: impl FnOnce() -> R) -> R {
    let _before = Before(ASKED.with(|own| own.replace(asked)));
    run()
}

/// Who is asked about what this thread does, for threads that work for it.
#[must_use]
pub fn asked() -> Option<Asked> {
    ASKED.with(|asked| asked.borrow().clone())
}

/// Whether what this thread does is called off.
#[must_use]
pub fn is_called_off() -> bool {
    asked().is_some_and(|asked| asked())
}

/// Goes on, unless what this thread does is called off.
///
/// # Errors
/// [`Error::Stopped`].
pub fn check() -> Result<()> {
    if is_called_off() { Err(Error::Stopped) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn who_is_asked_is_asked_within_alone_and_by_whoever_works_for_it() {
        let off = Arc::new(AtomicBool::new(false));
        let same = Arc::clone(&off);
        assert!(!is_called_off());
        asking(Some(Arc::new(move || same.load(Ordering::Relaxed))), || {
            assert!(check().is_ok());
            off.store(true, Ordering::Relaxed);
            assert!(matches!(check(), Err(Error::Stopped)));
            let asked = asked();
            let elsewhere = dolmen_env::scope(|threads| {
                threads.spawn(|| (is_called_off(), asking(asked, is_called_off))).join().unwrap()
            });
            assert_eq!(elsewhere, (false, true));
            assert!(asking(None, check).is_ok());
            assert!(check().is_err());
        });
        assert!(check().is_ok());
    }
}
