//! What is remembered of a user of a pool for the next daemon, so that what he has open is not taken for open by nobody.
//!
//! Invariants: whoever is told that he has something open is on record before; what was counted is taken off once.

use super::rights::found;
use dolmen_codec::Transport;
use dolmen_codec::pool::{ContName, OpenFor, PoolVerb};
use dolmen_types::{ContNo, Error, Head, Result};
use std::sync::Arc;

/// One who uses a pool, over one connection, and what he and others had open with the last daemon.
///
/// One implementor: the daemon, which has the record.
pub trait User: Send + Sync {
    /// He has a handle more on a container, alone by a word if he has that; it is on record when this returns.
    fn opens(&self, cont: ContNo, alone: Option<u64>);

    /// He has so many handles less.
    fn closes(&self, cont: ContNo, count: u32);

    /// The same because his connection has ended, or he has left the pool: if the daemon ends he has not.
    fn leaves(&self, cont: ContNo, count: u32);

    /// He gives up what he had open with the last daemon, and has not opened since. Whether there was such.
    fn gives_up(&self, cont: ContNo) -> bool;

    /// Whether others had something open with the last daemon, and have not come back; and whether one of them had it alone.
    fn others(&self) -> (bool, bool);

    /// Whether one of those keeps him from a container that he wants to open for this, or, for `None`, to destroy.
    fn is_refused(&self, cont: ContNo, wanted: Option<OpenFor>) -> bool;

    /// Whether one of those has it alone by this word.
    fn has_word(&self, cont: ContNo, word: u64) -> bool;

    /// Those who have not come back have lost a container: those of one user, or all.
    fn evicts(&self, cont: ContNo, uid: Option<u32>);
}

/// A handle that is on record, and on its way to its connection: it is counted no more when this is dropped.
pub(super) struct OnItsWay {
    user: Arc<dyn User>,
    cont: ContNo,
    has_come: bool,
}

impl OnItsWay {
    /// Puts a handle on record.
    pub(super) fn new(user: &Arc<dyn User>, cont: ContNo, wanted: OpenFor) -> Self {
        user.opens(cont, word_of(wanted));
        Self { user: Arc::clone(user), cont, has_come: false }
    }

    /// Whoever holds it counts it from now on.
    pub(super) fn has_come(mut self) {
        self.has_come = true;
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        if !self.has_come {
            self.user.closes(self.cont, 1);
        }
    }
}

/// The word by which who opens for this has it alone.
pub(super) fn word_of(wanted: OpenFor) -> Option<u64> {
    match wanted {
        OpenFor::Alone(word) | OpenFor::Joining(word) => Some(word),
        OpenFor::Any | OpenFor::Change | OpenFor::Evicting => None,
    }
}

/// What a service is to be asked in place of a question that somebody may be in the way of who has not come back.
///
/// # Errors
/// `Busy` if somebody is; what the service says.
pub(super) fn settled<'v>(
    user: &dyn User,
    transport: &dyn Transport,
    head: Head,
    verb: PoolVerb<'v>,
) -> Result<PoolVerb<'v>> {
    let (is_any, is_alone) = user.others();
    let (name, wanted) = match &verb {
        PoolVerb::ContOpen(name, wanted @ (OpenFor::Alone(_) | OpenFor::Joining(_))) => (name, Some(*wanted)),
        PoolVerb::ContOpen(name, wanted @ (OpenFor::Any | OpenFor::Change)) if is_alone => {
            (name, Some(*wanted))
        }
        PoolVerb::ContDestroy(name, false) => (name, None),
        _ => return Ok(verb),
    };
    if !is_any {
        return Ok(verb);
    }
    let Some(cont) = found(transport, head, name)? else { return Ok(verb) };
    if user.is_refused(cont.no, wanted) {
        return Err(Error::Busy);
    }
    // The very one that was looked at, whatever the name means when it is carried out.
    let name = ContName::Uuid(cont.uuid);
    Ok(match wanted {
        None => PoolVerb::ContDestroy(name, false),
        // Whom he joins may not have come back yet.
        Some(OpenFor::Joining(word)) if user.has_word(cont.no, word) => {
            PoolVerb::ContOpen(name, OpenFor::Alone(word))
        }
        Some(wanted) => PoolVerb::ContOpen(name, wanted),
    })
}
