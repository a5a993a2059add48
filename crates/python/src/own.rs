//! What belongs to the process that has made it and is in no pool: a forked child has no part in it.
//!
//! Invariants: nothing of it is looked at, locked or given back in a forked child.

use crate::error::{Error, Result};
use std::sync::{Mutex, PoisonError};

pub(crate) struct Own<T> {
    pid: u32,
    /// Guards the value; none when it was taken.
    value: Mutex<Option<T>>,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { pid: std::process::id(), value: Mutex::new(Some(value)) }
    }

    fn is_here(&self) -> bool {
        std::process::id() == self.pid
    }

    /// Does something with it.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        if !self.is_here() {
            return Err(Error::Forked { pid: self.pid });
        }
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        body(value.as_mut().ok_or(Error::Closed)?)
    }

    /// Takes it out; `None` if that was done before, and in a forked child.
    pub(crate) fn take(&self) -> Option<T> {
        if !self.is_here() {
            return None;
        }
        self.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if !self.is_here() {
            core::mem::forget(self.value.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
