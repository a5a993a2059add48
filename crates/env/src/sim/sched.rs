//! A scheduler from a seed: which of several actors makes the next step.
//!
//! Invariants: equal seeds and equal actors give equal traces.

use crate::rng::Rng;

/// Idle steps in a row, for each actor, after which nobody is expected to go on. A simulated disk completes
/// nothing in one poll of two at worst, so this many without progress are no accident.
const IDLE_STEPS_MAX: usize = 64;

/// What an actor says after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It got on, and has more to do.
    Progress,
    /// It waits for somebody.
    Idle,
    /// It is done and must not be called again.
    Done,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every actor is done.
    Finished,
    /// The allowed steps are used up.
    StepLimit,
    /// Everybody who is left waits.
    Stuck,
}

type Actor<'a> = Box<dyn FnMut(&mut Rng) -> Step + 'a>;

/// Actors, and the order in which a seed lets them act.
pub struct SimSched<'a> {
    actors: Vec<Option<Actor<'a>>>,
    names: Vec<String>,
    rng: Rng,
    trace: Vec<u32>,
}

impl core::fmt::Debug for SimSched<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SimSched").field("names", &self.names).field("steps", &self.trace.len()).finish()
    }
}

impl<'a> SimSched<'a> {
    /// A scheduler without actors.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { actors: Vec::new(), names: Vec::new(), rng: Rng::from_seed(seed), trace: Vec::new() }
    }

    /// Adds an actor; each call of `step` is one indivisible step of it.
    pub fn add(&mut self, name: &str, step: impl FnMut(&mut Rng) -> Step + 'a) {
        self.actors.push(Some(Box::new(step)));
        self.names.push(name.to_owned());
    }

    /// Lets actors act until all are done, at most `steps_max` times.
    pub fn run(&mut self, steps_max: u64) -> Outcome {
        let mut idle = 0;
        for _ in 0..steps_max {
            let waiting: Vec<usize> =
                (0..self.actors.len()).filter(|&index| self.actors[index].is_some()).collect();
            if waiting.is_empty() {
                return Outcome::Finished;
            }
            let chosen = waiting[self.rng.index(waiting.len())];
            self.trace.push(u32::try_from(chosen).unwrap_or(u32::MAX));
            let step = self.actors[chosen].as_mut().map_or(Step::Done, |actor| actor(&mut self.rng));
            idle = if step == Step::Idle { idle + 1 } else { 0 };
            if step == Step::Done {
                self.actors[chosen] = None;
            }
            if idle > IDLE_STEPS_MAX * waiting.len() {
                return Outcome::Stuck;
            }
        }
        if self.actors.iter().all(Option::is_none) { Outcome::Finished } else { Outcome::StepLimit }
    }

    /// The names of the actors in the order in which they acted.
    pub fn trace(&self) -> impl Iterator<Item = &str> {
        self.trace
            .iter()
            .filter_map(|&index| self.names.get(usize::try_from(index).ok()?))
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn trace_of(seed: u64) -> (Outcome, String) {
        let baton = Cell::new(0);
        let mut sched = SimSched::new(seed);
        for (mine, name) in ["a", "b"].into_iter().enumerate() {
            let baton = &baton;
            sched.add(name, move |_| match baton.get() {
                10 => Step::Done,
                turn if turn % 2 == mine => {
                    baton.set(turn + 1);
                    Step::Progress
                }
                _ => Step::Idle,
            });
        }
        let outcome = sched.run(1_000);
        (outcome, sched.trace().collect())
    }

    #[test]
    fn one_seed_gives_one_trace() {
        let traces: std::collections::BTreeSet<String> = (0..8).map(|seed| trace_of(seed).1).collect();
        assert!(traces.len() > 4);
        assert_eq!(trace_of(3), trace_of(3));
        assert_eq!(trace_of(3).0, Outcome::Finished);
    }

    #[test]
    fn actors_that_all_wait_are_stuck_and_endless_ones_meet_the_limit() {
        let mut sched = SimSched::new(1);
        sched.add("waits", |_| Step::Idle);
        assert_eq!(sched.run(1_000), Outcome::Stuck);
        let mut sched = SimSched::new(1);
        sched.add("runs", |_| Step::Progress);
        assert_eq!(sched.run(1_000), Outcome::StepLimit);
    }
}
