//! Walks over what an object holds, a request at a time: for operations that are under way until somebody polls.

use crate::error::{Der, Result};
use crate::event::{Chained, Ending, Start};
use crate::tx::When;
use dolmen_client::{Anchor, Epoch, Object, Output, Page};
use std::collections::VecDeque;

/// Extents asked for at a time.
const EXTENTS: u32 = 1024;

/// Looks for the newest value of an object.
pub(crate) struct Walk {
    object: Object,
    when: When,
    /// Only the records of this akey, not its single values.
    only_akey: Option<Vec<u8>>,
    dkeys: Keys,
    akeys: Keys,
    extents: Anchor,
    asked: Level,
    pub(crate) newest: Epoch,
}

/// Keys that were listed, and where the listing goes on.
#[derive(Default)]
struct Keys {
    listed: VecDeque<Vec<u8>>,
    current: Vec<u8>,
    anchor: Anchor,
}

#[derive(Clone, Copy)]
enum Level {
    Dkeys,
    Akeys,
    Extents,
}

impl Keys {
    /// Goes on to the next key; whether there is one at hand.
    fn advance(&mut self) -> bool {
        match self.listed.pop_front() {
            Some(key) => {
                self.current = key;
                true
            }
            None => false,
        }
    }
}

impl Walk {
    pub(crate) fn new(object: Object, when: When, only_akey: Option<&[u8]>) -> Self {
        let over = || Keys { anchor: Anchor::eof(), ..Keys::default() };
        Self {
            object,
            when,
            only_akey: only_akey.map(<[u8]>::to_vec),
            dkeys: Keys::default(),
            akeys: over(),
            extents: Anchor::eof(),
            asked: Level::Dkeys,
            newest: Epoch::ZERO,
        }
    }

    /// Takes an answer.
    ///
    /// # Errors
    /// Its own.
    pub(crate) fn take(&mut self, ending: Ending) -> Result<()> {
        match (ending.result?, self.asked) {
            (Output::Keys(keys, anchor), Level::Dkeys) => {
                self.dkeys.listed = keys.iter().map(<[u8]>::to_vec).collect();
                self.dkeys.anchor = anchor;
            }
            (Output::Keys(keys, anchor), Level::Akeys) => {
                self.akeys.listed = keys.iter().map(<[u8]>::to_vec).collect();
                self.akeys.anchor = anchor;
            }
            (Output::Extents(extents, anchor), Level::Extents) => {
                let counts = extents.iter().filter(|extent| self.only_akey.is_none() || !extent.single);
                self.newest = counts.map(|extent| extent.epoch).fold(self.newest, Epoch::max);
                self.extents = anchor;
            }
            _ => return Err(Der::MISC),
        }
        Ok(())
    }

    /// What is asked next.
    pub(crate) fn next(&mut self) -> Chained {
        loop {
            if !self.extents.is_eof() {
                return self.ask(Level::Extents);
            }
            if self.akeys.advance() {
                self.extents = Anchor::default();
                continue;
            }
            if !self.akeys.anchor.is_eof() {
                return self.ask(Level::Akeys);
            }
            if self.dkeys.advance() {
                match &self.only_akey {
                    Some(akey) => self.akeys.listed.push_back(akey.clone()),
                    None => self.akeys.anchor = Anchor::default(),
                }
                continue;
            }
            if self.dkeys.anchor.is_eof() {
                return Chained::Done;
            }
            return self.ask(Level::Dkeys);
        }
    }

    fn ask(&mut self, level: Level) -> Chained {
        self.asked = level;
        let (object, when) = (self.object.clone(), self.when.clone());
        let (dkey, akey) = (self.dkeys.current.clone(), self.akeys.current.clone());
        let start: Start = match level {
            Level::Dkeys => {
                let anchor = self.dkeys.anchor;
                Box::new(move |event| Ok(object.list_dkeys_on(event, when.at(), anchor, Page::default())?))
            }
            Level::Akeys => {
                let anchor = self.akeys.anchor;
                Box::new(move |event| {
                    Ok(object.list_akeys_on(event, when.at(), &dkey, anchor, Page::default())?)
                })
            }
            Level::Extents => {
                let anchor = self.extents;
                Box::new(move |event| {
                    Ok(object.list_extents_on(event, when.at(), &dkey, &akey, anchor, EXTENTS)?)
                })
            }
        };
        Chained::Ask(start)
    }
}
