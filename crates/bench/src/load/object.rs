//! Values of objects, updated and fetched one at a time or several at a time.

use super::daos::{Kind, Objects, Slots};
use super::fault::Difference;
use super::options::{ObjectLoad, ValueKind};
use super::pattern::Pattern;
use super::rank::{Tally, Team};
use crate::error::{Error, Result};
use crate::meter::now;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Update,
    Fetch,
}

/// One repetition.
pub(super) fn round(load: &ObjectLoad, team: &Team) -> Result<()> {
    let kind = match load.kind {
        ValueKind::Single => Kind::Single,
        ValueKind::Array => Kind::Array,
    };
    let objects = Objects::open(&team.connection, 1 + u64::from(team.rank), team.class, kind)?;
    if load.update {
        run(load, team, &objects, kind, Verb::Update)?;
    }
    if load.fetch {
        run(load, team, &objects, kind, Verb::Fetch)?;
    }
    if !load.keep {
        team.step("punch", || objects.punch())?;
    }
    objects.close()
}

/// What a phase works with.
struct Work<'a> {
    load: &'a ObjectLoad,
    objects: &'a Objects,
    kind: Kind,
    verb: Verb,
    owner: u64,
    pattern: Pattern,
    slots: Slots,
    /// Of each slot, the key under way and when it began.
    under_way: Vec<(u64, u64)>,
}

fn run(load: &ObjectLoad, team: &Team, objects: &Objects, kind: Kind, verb: Verb) -> Result<()> {
    let len = usize::try_from(load.value_bytes).expect("a value fits into memory");
    let depth = usize::from(load.in_flight);
    let pattern = Pattern::new(load.signature, len);
    let mut slots = Slots::new(depth, len)?;
    for index in 0..depth {
        slots.value(index).copy_from_slice(pattern.bytes());
    }
    let under_way = vec![(0, 0); depth];
    let owner = u64::from(team.rank);
    let mut work = Work { load, objects, kind, verb, owner, pattern, slots, under_way };
    let name = if verb == Verb::Update { "update" } else { "fetch" };
    team.phase(name, |tally| work.all(tally))?;
    work.slots.close()
}

impl Work<'_> {
    fn all(&mut self, tally: &mut Tally) -> Result<()> {
        let mut free: Vec<usize> = (0..self.under_way.len()).collect();
        let mut over = Vec::with_capacity(free.len());
        for key in 0..self.load.count {
            while free.is_empty() {
                self.end_some(tally, &mut over)?;
                free.append(&mut over);
            }
            let index = free.pop().expect("not empty");
            self.begin(index, key)?;
            if !self.slots.is_busy() {
                self.end(tally, index)?;
                free.push(index);
            }
        }
        while self.slots.is_busy() {
            self.end_some(tally, &mut over)?;
        }
        Ok(())
    }

    fn begin(&mut self, index: usize, key: u64) -> Result<()> {
        if self.verb == Verb::Update {
            self.pattern.stamp(self.slots.value(index), self.owner, key);
        }
        self.under_way[index] = (key, now());
        match self.verb {
            Verb::Update => self.slots.update(index, self.objects, key),
            Verb::Fetch => self.slots.fetch(index, self.objects, key),
        }
    }

    fn end_some(&mut self, tally: &mut Tally, over: &mut Vec<usize>) -> Result<()> {
        self.slots.wait(over)?;
        over.iter().try_for_each(|index| self.end(tally, *index))
    }

    fn end(&mut self, tally: &mut Tally, index: usize) -> Result<()> {
        let (key, start_ns) = self.under_way[index];
        tally.done(self.load.value_bytes, now() - start_ns);
        if self.verb == Verb::Update {
            return Ok(());
        }
        let found = self.slots.found_bytes(index, self.kind);
        if found != self.load.value_bytes {
            return Err(self.missing(key, found));
        }
        if !self.load.check {
            return Ok(());
        }
        let what = || format!("the value of process {} under dkey {key}", self.owner);
        self.pattern.check((self.owner, key), self.slots.value(index), what, 0)
    }

    fn missing(&self, key: u64, found: u64) -> Error {
        let (expected, owner) = (self.load.value_bytes, self.owner);
        Error::Differs(Box::new(Difference {
            what: format!(
                "the value of process {owner} under dkey {key} ({found} bytes instead of {expected})"
            ),
            offset_bytes: found.min(expected),
            expected: Vec::new(),
            found: Vec::new(),
        }))
    }
}
