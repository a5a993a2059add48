//! What the files of clients under load may hold, after all that these have said.

use std::collections::BTreeSet;

/// What one place of a file, or one name, may hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Held {
    /// No file, or a hole.
    Nothing,
    /// A file without contents.
    Empty,
    /// What the operation of this number has written.
    Written(u64),
}

/// An operation that a client has said to try.
#[derive(Clone, Debug)]
struct Try {
    number: u64,
    action: String,
    slot: usize,
}

/// All places of one client, each with what it may hold.
pub(super) struct Places {
    /// Whether what is made has contents.
    has_contents: bool,
    slots: Vec<BTreeSet<Held>>,
    /// Operations that were acknowledged, and those of which nobody knows how they ended.
    pub(super) done: u64,
    pub(super) in_doubt: u64,
}

impl Places {
    pub(super) fn new(count: usize, has_contents: bool) -> Self {
        let nothing = BTreeSet::from([Held::Nothing]);
        Self { has_contents, slots: vec![nothing; count], done: 0, in_doubt: 0 }
    }

    /// Follows what a client has said; an error is one that it may not have been given.
    pub(super) fn follow(&mut self, lines: &[String]) -> Result<(), String> {
        let mut tried: Option<Try> = None;
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = words[1].parse::<u64>().unwrap();
            if words[0] == "try" {
                self.doubt(tried.take());
                let (action, slot) = (words[2].to_owned(), words[3].parse().unwrap());
                tried = Some(Try { number, action, slot });
                continue;
            }
            let own = tried.take().filter(|own| own.number == number).ok_or("an answer to nothing")?;
            let values: Vec<u64> = words[2..].iter().map(|word| word.parse().unwrap()).collect();
            let is_right = match words[0] {
                "done" => self.is_done(&own),
                "saw" => self.has_seen(&own, &values),
                "fail" => self.has_failed(own.clone(), values[0]),
                _ => false,
            };
            if !is_right {
                return Err(format!("{line:?} after {own:?}: it may hold {:?}", self.slots[own.slot]));
            }
        }
        self.doubt(tried);
        Ok(())
    }

    fn made(&self, number: u64) -> Held {
        if self.has_contents { Held::Written(number) } else { Held::Empty }
    }

    fn is_done(&mut self, own: &Try) -> bool {
        let made = self.made(own.number);
        let slot = &mut self.slots[own.slot];
        let (was_right, held) = match &*own.action {
            "write" => (true, Held::Written(own.number)),
            "create" => (slot.contains(&Held::Nothing), made),
            "unlink" => (slot.iter().any(|held| *held != Held::Nothing), Held::Nothing),
            _ => return false,
        };
        *slot = BTreeSet::from([held]);
        self.done += 1;
        was_right
    }

    /// A transfer tells of its first and last word, a look at a file of its contents, the rest of its size.
    fn has_seen(&mut self, own: &Try, values: &[u64]) -> bool {
        self.done += 1;
        let is_file = |held: &Held| *held != Held::Nothing;
        let slot = &mut self.slots[own.slot];
        let fits = |held: &Held, value: u64| match held {
            Held::Nothing | Held::Empty => value == 0,
            Held::Written(_) if own.action == "stat" => value == super::SMALL_BYTES,
            Held::Written(number) => value == *number,
        };
        let is_right = values.iter().all(|value| slot.iter().any(|held| fits(held, *value)));
        if own.action == "stat" || values[0] == values[1] {
            slot.retain(|held| fits(held, values[0]));
        }
        if own.action == "stat" { is_right && slot.iter().all(is_file) } else { is_right }
    }

    /// Errors are that it is there already or not at all, or that the daemon was away for too long.
    fn has_failed(&mut self, own: Try, errno: u64) -> bool {
        let slot = &mut self.slots[own.slot];
        match i32::try_from(errno).unwrap() {
            libc::EEXIST if own.action == "create" => {
                slot.remove(&Held::Nothing);
                self.done += 1;
            }
            libc::ENOENT if own.action != "create" && own.action != "write" => {
                slot.retain(|held| *held == Held::Nothing);
                self.done += 1;
            }
            libc::EHOSTUNREACH | libc::ETIMEDOUT => self.doubt(Some(own)),
            _ => return false,
        }
        self.slots.iter().all(|slot| !slot.is_empty())
    }

    /// Nobody knows whether an operation was carried out, or how far.
    fn doubt(&mut self, tried: Option<Try>) {
        let Some(own) = tried else { return };
        let (made, slot) = (self.made(own.number), own.slot);
        let slot = &mut self.slots[slot];
        self.in_doubt += 1;
        match &*own.action {
            "write" => drop(slot.insert(Held::Written(own.number))),
            "create" if slot.contains(&Held::Nothing) => slot.extend([Held::Empty, made]),
            "unlink" => drop(slot.insert(Held::Nothing)),
            _ => {}
        }
    }

    /// Whether a place may hold this; it does from now on.
    pub(super) fn holds(&mut self, slot: usize, found: &BTreeSet<Held>) -> bool {
        let slot = &mut self.slots[slot];
        let is_right = found.is_subset(slot);
        slot.clone_from(found);
        is_right
    }

    /// What is told of a place that holds something else.
    pub(super) fn held(&self, slot: usize) -> &BTreeSet<Held> {
        &self.slots[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(places: &mut Places, text: &str) -> Result<(), String> {
        let lines: Vec<String> = text.split(';').map(str::to_owned).collect();
        places.follow(&lines)
    }

    #[test]
    fn the_model_tells_right_from_wrong() {
        let mut places = Places::new(2, true);
        assert_eq!(follow(&mut places, "try 1 create 0;done 1;try 2 create 0;fail 2 17"), Ok(()));
        assert!(follow(&mut places, "try 3 create 0;done 3").is_err(), "it was there");
        assert!(follow(&mut places, "try 4 unlink 1;done 4").is_err(), "it was not there");
        assert!(follow(&mut places, "try 5 stat 0;fail 5 2").is_err(), "it was lost");
        let mut places = Places::new(1, true);
        assert_eq!(follow(&mut places, "try 1 write 0;done 1;try 2 write 0"), Ok(()));
        assert_eq!(places.held(0).len(), 2);
        assert_eq!(follow(&mut places, "try 3 read 0;saw 3 1 2"), Ok(()));
        assert_eq!(follow(&mut places, "try 4 read 0;saw 4 2 2"), Ok(()));
        assert!(follow(&mut places, "try 5 read 0;saw 5 1 1").is_err(), "it went back");
        assert!(follow(&mut places, "try 6 write 0;fail 6 5").is_err(), "no error for a daemon that is away");
    }
}
