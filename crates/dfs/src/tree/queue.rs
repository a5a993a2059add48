//! One producer that walks a tree, some threads that work on what it finds.
//!
//! Invariants: at most `JOBS_MAX` jobs wait; after the first error nothing new is begun.

use super::Options;
use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

/// Jobs that wait: enough to keep the threads busy while the producer reads a large directory.
const JOBS_MAX: usize = 1024;

struct State<J> {
    jobs: VecDeque<J>,
    ended: bool,
    error: Option<Error>,
}

/// Jobs on their way to the threads.
pub(super) struct Queue<J> {
    /// Guards: the jobs; taken alone.
    state: Mutex<State<J>>,
    changed: Condvar,
}

impl<J: Send> Queue<J> {
    fn lock(&self) -> std::sync::MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a job over; waits while too many wait. `false` if there was an error: then nothing more is wanted.
    pub(super) fn push(&self, job: J) -> bool {
        let mut state = self.lock();
        while state.jobs.len() >= JOBS_MAX && state.error.is_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.error.is_some() {
            return false;
        }
        state.jobs.push_back(job);
        drop(state);
        self.changed.notify_all();
        true
    }

    fn pop(&self) -> Option<J> {
        let mut state = self.lock();
        loop {
            if state.error.is_some() {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                self.changed.notify_all();
                return Some(job);
            }
            if state.ended {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self, result: Result<()>) {
        let mut state = self.lock();
        state.ended = true;
        if let (Err(error), None) = (result, &state.error) {
            state.error = Some(error);
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Runs `produce` here and `work` on each of its jobs in other threads; the first error of either.
pub(super) fn run<J: Send>(
    options: &Options<'_>,
    produce: impl FnOnce(&Queue<J>) -> Result<()>,
    work: impl Fn(J) -> Result<()> + Sync,
) -> Result<()> {
    let threads = if options.threads == 0 { dolmen_env::cpu_count() } else { options.threads };
    let state = State { jobs: VecDeque::new(), ended: false, error: None };
    let queue = Queue { state: Mutex::new(state), changed: Condvar::new() };
    let panicked = dolmen_env::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(job) = queue.pop() {
                        if let Err(error) = work(job) {
                            queue.end(Err(error));
                        }
                    }
                })
            })
            .collect();
        queue.end(produce(&queue));
        workers.into_iter().filter_map(|worker| worker.join().err()).count()
    });
    let state = queue.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match state.error {
        Some(error) => Err(error),
        None if panicked > 0 => Err(Error::Worker),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn every_job_is_done_once_and_the_first_error_stops() {
        let sum = AtomicU64::new(0);
        let options = Options { threads: 3, ..Options::default() };
        let produce = |queue: &Queue<u64>| {
            (1..=5000).for_each(|n| assert!(queue.push(n)));
            Ok(())
        };
        run(&options, produce, |n| {
            sum.fetch_add(n, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        assert_eq!(sum.into_inner(), 5000 * 5001 / 2);
        let endless = |queue: &Queue<u64>| {
            while queue.push(0) {}
            Ok(())
        };
        assert_eq!(run(&options, endless, |_| Err(Error::NotFound)), Err(Error::NotFound));
    }
}
