//! Letters of other threads for one thread, and the bell that calls it from its sleep.
//!
//! Invariants: who goes to sleep says so and looks once more; who puts a letter down looks afterwards whether the owner
//! sleeps: one of them sees the other. A bell is a call of the system, which an owner who is awake spares others.

use crate::error::Result;
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_env::Bell;
use std::sync::{Mutex, PoisonError};

pub(super) struct Post<T> {
    /// Guards the letters; taken last, for a few instructions.
    letters: Mutex<Vec<T>>,
    has_mail: AtomicBool,
    /// The owner sleeps, or is about to, and nobody has called it yet.
    is_resting: AtomicBool,
    bell: Bell,
}

impl<T> Post<T> {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            letters: Mutex::default(),
            has_mail: AtomicBool::new(false),
            is_resting: AtomicBool::new(false),
            bell: Bell::new()?,
        })
    }

    /// What the owner waits for.
    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// For the owner: everything that has come, the oldest first.
    #[inline]
    pub(super) fn take(&self) -> Vec<T> {
        if !self.has_mail.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_mail.store(false, Ordering::Release);
        core::mem::take(&mut *letters)
    }

    /// Puts a letter behind the others, and calls the owner if it sleeps.
    pub(super) fn put(&self, letter: T) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.push(letter);
        self.has_mail.store(true, Ordering::SeqCst);
        drop(letters);
        if self.is_resting.swap(false, Ordering::SeqCst) {
            self.bell.ring();
        }
    }

    /// For the owner, who is about to sleep: whether nothing has come. Who puts something down from now on calls.
    pub(super) fn rest(&self) -> bool {
        self.is_resting.store(true, Ordering::SeqCst);
        !self.has_mail.load(Ordering::SeqCst)
    }

    /// Whether the owner was awake a moment ago.
    pub(super) fn is_awake(&self) -> bool {
        !self.is_resting.load(Ordering::Relaxed)
    }

    /// For the owner, who is awake and looks by itself.
    pub(super) fn wake(&self) {
        self.is_resting.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use dolmen_env::Waiter;

    /// A post with a waiter for its bell.
    fn post() -> (Post<u32>, Waiter) {
        let (post, waiter) = (Post::new().unwrap(), Waiter::new().unwrap());
        waiter.add(post.bell(), 0, false).unwrap();
        (post, waiter)
    }

    fn rings(waiter: &Waiter) -> bool {
        let mut ready = Vec::new();
        waiter.wait(Some(Duration::ZERO), &mut ready).unwrap();
        !ready.is_empty()
    }

    #[test]
    fn letters_come_in_order_and_only_a_sleeper_is_called() {
        let (post, waiter) = post();
        (1..=3).for_each(|letter| post.put(letter));
        assert!(!rings(&waiter), "the owner is awake");
        assert!(!post.rest(), "something has come before");
        assert_eq!(post.take(), [1, 2, 3]);
        assert!(post.rest() && post.take().is_empty());
        post.put(4);
        assert!(rings(&waiter));
        post.bell().still();
        post.put(5);
        assert!(!rings(&waiter), "it is called once");
        post.wake();
        assert_eq!(post.take(), [4, 5]);
        post.put(6);
        assert!(!rings(&waiter), "it is awake again");
    }

    #[test]
    fn no_letter_waits_for_an_owner_who_sleeps() {
        const COUNT: u32 = 20_000;
        let (post, waiter) = post();
        dolmen_env::scope(|threads| {
            threads.spawn(|| (0..COUNT).for_each(|letter| post.put(letter)));
            let (mut got, mut ready) = (Vec::new(), Vec::new());
            while got.len() < COUNT as usize {
                if post.rest() {
                    waiter.wait(Some(Duration::from_secs(60)), &mut ready).unwrap();
                    assert!(!ready.is_empty(), "it sleeps, and {} letters have come", got.len());
                    ready.clear();
                    post.bell().still();
                }
                post.wake();
                got.extend(post.take());
            }
            assert!(got.into_iter().eq(0..COUNT));
        });
    }
}
