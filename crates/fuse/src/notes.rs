//! What the kernel has no words for, told to whoever runs the mount.

use core::fmt;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Kinds of failures that are told once each; more are not told.
const TOLD_MAX: usize = 1000;

/// Tells things once. Any number of threads may use it at once.
pub(crate) struct Notes {
    /// Guards: what was told already; taken alone.
    noted: Mutex<BTreeSet<String>>,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notes").field("noted", &self.noted).finish_non_exhaustive()
    }
}

impl Notes {
    pub(crate) fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { noted: Mutex::default(), tell: Box::new(tell) }
    }

    /// Tells something unless it was told before.
    pub(crate) fn once(&self, text: &str) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = noted.len() < TOLD_MAX && noted.insert(text.to_owned());
        drop(noted);
        if is_new {
            self.again(text);
        }
    }

    /// Tells something, also if it was told before.
    pub(crate) fn again(&self, text: &str) {
        (self.tell)(text);
    }
}
