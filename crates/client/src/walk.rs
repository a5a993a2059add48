//! Walks over all targets of a container: its objects, and what changed between two epochs.

use crate::client::unexpected;
use crate::container::Container;

use dolmen_codec::verb::{Change, List, ListWhat, Listed, ReadAt, Reply, Verb};
use dolmen_codec::{Answer, Ask, Way, now};
use dolmen_layout::Layout;
use dolmen_types::{Anchor, Epoch, Oid, Result, TargetNo};
use std::collections::BTreeSet;

/// Items asked of a target at a time.
const ITEMS_MAX: u32 = 1024;

/// Where a walk over all targets stands.
#[derive(Debug)]
struct Position {
    cont: Container,
    target: u16,
    anchor: Anchor,
}

impl Position {
    fn new(cont: Container) -> Self {
        Self { cont, target: 0, anchor: Anchor::default() }
    }

    /// The next part of a target's list, and the target it came from; `None` after the last target.
    async fn next(&mut self, way: Way, what: &ListWhat, at: ReadAt) -> Result<Option<(TargetNo, Listed)>> {
        self.cont.check_handle()?;
        let core = self.cont.core();
        if self.target >= core.map().target_count {
            return Ok(None);
        }
        let target = TargetNo(self.target);
        let (cont, anchor) = (self.cont.no(), self.anchor);
        let answer = core.ask_by(way, core.read_id(), |_| {
            let list = List { what: what.clone(), anchor, items_max: ITEMS_MAX, bytes_max: u32::MAX, at };
            Ok(Ask::Target(target, cont, Verb::List(list)))
        });
        let Answer::Target(Reply::Listed(listed, anchor)) = answer.await? else { return Err(unexpected()) };
        self.anchor = anchor;
        if anchor.is_eof() {
            self.target += 1;
            self.anchor = Anchor::default();
        }
        Ok(Some((target, listed)))
    }
}

/// All objects of a container, each once.
///
/// Remembers ids of objects over several targets while they may come again: 16 bytes each and the cost of a
/// set.
#[derive(Debug)]
pub struct ObjectWalk {
    position: Position,
    at: ReadAt,
    seen: BTreeSet<Oid>,
}

impl ObjectWalk {
    pub(crate) fn new(cont: Container, at: Option<Epoch>) -> Self {
        let at = at.map_or(ReadAt::Latest, ReadAt::Epoch);
        Self { position: Position::new(cont), at, seen: BTreeSet::new() }
    }

    /// The next objects, at least one; empty at the end.
    ///
    /// # Errors
    /// `EpochGone` if aggregation has passed the epoch; those of the transport.
    pub fn next_page(&mut self) -> Result<Vec<Oid>> {
        now(self.next_page_by(Way::Now))
    }

    /// As [`ObjectWalk::next_page`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`ObjectWalk::next_page`].
    pub async fn next_page_by(&mut self, way: Way) -> Result<Vec<Oid>> {
        while let Some((target, listed)) = self.position.next(way, &ListWhat::Objects, self.at).await? {
            let Listed::Objects(mut oids) = listed else { return Err(unexpected()) };
            oids.retain(|&oid| self.is_new(oid, target));
            if !oids.is_empty() {
                return Ok(oids);
            }
        }
        Ok(Vec::new())
    }

    /// Whether the object did not come from an earlier target.
    fn is_new(&mut self, oid: Oid, target: TargetNo) -> bool {
        if oid.class().groups() <= 1 {
            return true;
        }
        let target_count = self.position.cont.core().map().target_count;
        // What cannot be placed was not written through a client; it is shown as often as it lies somewhere.
        let Ok(layout) = Layout::new(oid, target_count) else { return true };
        match layout.targets().max() {
            Some(last) if last == target => !self.seen.remove(&oid),
            _ => self.seen.insert(oid),
        }
    }
}

/// Values that differ between two epochs.
#[derive(Debug)]
pub struct ChangeWalk {
    position: Position,
    what: ListWhat,
}

impl ChangeWalk {
    pub(crate) fn new(cont: Container, from: Epoch, to: Epoch) -> Self {
        Self { position: Position::new(cont), what: ListWhat::Changes { from, to } }
    }

    /// The next changes, at least one; empty at the end. By target, in no particular order.
    ///
    /// # Errors
    /// `EpochGone` if aggregation has passed one of the epochs; those of the transport.
    pub fn next_page(&mut self) -> Result<Vec<Change>> {
        while let Some((_, listed)) = now(self.position.next(Way::Now, &self.what, ReadAt::Latest))? {
            let Listed::Changes(changes) = listed else { return Err(unexpected()) };
            if !changes.is_empty() {
                return Ok(changes);
            }
        }
        Ok(Vec::new())
    }
}
