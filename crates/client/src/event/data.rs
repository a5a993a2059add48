//! Operations on objects that complete on an event.
//!
//! In a transaction they are carried out when they are launched: its writes are only buffered, and its reads must
//! see them.

use super::{Event, Next, Output, Step, Then};
use crate::at::At;
use crate::batch::parts_of;
use crate::client::unexpected;
use crate::listing::{self, Where};
use crate::object::{Object, Page};
use crate::reads::Reading;
use crate::split;
use crate::tx::Conflicts;
use dolmen_codec::pool::{PoolReply, PoolVerb, TxCommit};
use dolmen_codec::verb::{
    Fetch, FetchIod, Found, ListWhat, Listed, Mutation, Punch, PunchScope, ReadAt, Reply, Update, UpdateIod,
    Verb,
};
use dolmen_codec::{Answer, Ask};
use dolmen_types::{Anchor, Cond, Epoch, Error, Invalid, IoBuf, Key, QueryFlags, RequestId, Result, TxId};
use smallvec::SmallVec;

/// What a punch over several targets waits for.
#[derive(Clone, Copy)]
enum PunchStage {
    /// The epoch of its transaction.
    Begin,
    /// A dkey at this epoch, in this shard.
    Look(Epoch, u16),
    /// The end of its commit, at this epoch.
    Commit(Epoch, RequestId),
}

impl Object {
    /// Launches [`Object::update`]; payloads are owned by the operation. Large ones are written in several
    /// requests at a time and may carry no condition then.
    ///
    /// # Errors
    /// `NoPermission` if the event is not ready or the container is a view; `Invalid::Flags` for a condition on
    /// what takes several requests. Everything else is the event's.
    pub fn update_on(
        &self,
        event: &mut Event,
        at: At<'_>,
        dkey: &[u8],
        cond: Cond,
        iods: Vec<UpdateIod<'static>>,
    ) -> Result<()> {
        if self.container().write_tx(at)?.is_some() {
            return event.run(|| self.update(at, dkey, cond, &iods).map(Output::Written));
        }
        let mut requests: Vec<SmallVec<[UpdateIod<'static>; 1]>> = vec![iods.into()];
        if requests[0].iter().any(split::is_needed) {
            if !cond.is_none() {
                return Err(Invalid::Flags.into());
            }
            let pieces = split::pieces(&requests[0])?;
            requests =
                pieces.into_iter().map(|piece| piece.into_iter().map(split::owned).collect()).collect();
        }
        let core = self.container().core();
        let map = core.map();
        let target = self.target(map, dkey)?;
        let count = u32::try_from(requests.len()).map_err(|_wide| Invalid::Payload)?;
        event.launch(core, count, None)?;
        for iods in requests {
            let (oid, charged) = (self.oid(), self.charged());
            let update = Update { oid, dkey: Key::from_slice(dkey), cond, iods, charged };
            let ask = Ask::Target(target, self.container().no(), Verb::Update(update));
            event.submit_write(map.version, ask);
        }
        Ok(())
    }

    /// Launches [`Object::fetch`]; `buf`, which has to have room for all that is wanted before the call, comes back
    /// through [`Event::take_buf`].
    ///
    /// # Errors
    /// Before anything is launched, and then `buf` is gone: `NoPermission` if the event is not ready,
    /// `Invalid::Argument` if the transaction is another container's. Everything else is the event's, such as
    /// `Invalid::Payload` if `buf` has less room than `iods` want.
    pub fn fetch_on(
        &self,
        event: &mut Event,
        at: At<'_>,
        dkey: &[u8],
        cond: Cond,
        iods: &[FetchIod],
        mut buf: IoBuf,
    ) -> Result<()> {
        let read_at = self.container().read_epoch(at)?;
        let core = self.container().core();
        if let At::Tx(_) = at {
            event.launch(core, 1, None)?;
            let result = self.fetch(at, dkey, cond, iods, &mut buf).map(Output::Fetched);
            event.complete(result, Some(buf));
            return Ok(());
        }
        let map = core.map();
        let target = self.target(map, dkey)?;
        let iods = iods.iter().cloned().collect();
        let fetch = Fetch { oid: self.oid(), dkey: Key::from_slice(dkey), cond, at: read_at, iods, buf };
        let ask = Ask::Target(target, self.container().no(), Verb::Fetch(fetch));
        event.launch(core, 1, None)?;
        event.submit(Next { id: core.read_id(), map_version: map.version, ask });
        Ok(())
    }

    /// Launches [`Object::punch`].
    ///
    /// # Errors
    /// `NoPermission` if the event is not ready or the container is a view. Everything else is the event's.
    pub fn punch_on(&self, event: &mut Event, at: At<'_>, cond: Cond) -> Result<()> {
        let in_tx = self.container().write_tx(at)?.is_some();
        if self.shard_count() == 1 {
            return self.punch_scope_on(event, at, &[], PunchScope::Object, cond);
        }
        if in_tx {
            return event.run(|| self.punch(at, cond).map(Output::Written));
        }
        let core = self.container().core();
        let begin =
            Next { id: core.read_id(), map_version: core.map().version, ask: Ask::Pool(PoolVerb::TxBegin) };
        event.launch(core, 1, Some(self.punch_step(cond)))?;
        event.submit(begin);
        Ok(())
    }

    /// Asks for an epoch, looks at it for what the condition wants, and commits at it; in turns, until no conflict is met. A commit
    /// whose outcome is not told is asked for again.
    fn punch_step(&self, cond: Cond) -> Step {
        let (object, mut conflicts, mut stage) = (self.clone(), Conflicts::default(), PunchStage::Begin);
        let (mut doubts, mut reading) = (Conflicts::default(), None);
        Box::new(move |answer| {
            let core = object.container().core();
            let commit = |epoch, stage: &mut PunchStage| {
                let id = core.mutation_id();
                *stage = PunchStage::Commit(epoch, id);
                object.punch_at(epoch, id).map(Then::Ask)
            };
            let read = || match (answer?, stage) {
                (Answer::Pool(PoolReply::Epoch(epoch)), PunchStage::Begin) if cond.has(Cond::PUNCH) => {
                    reading = Some(Reading::begin(object.container(), epoch));
                    stage = PunchStage::Look(epoch, 0);
                    object.look_for_any(epoch, &Anchor::default()).map(Then::Ask)
                }
                (Answer::Pool(PoolReply::Epoch(epoch)), PunchStage::Begin) => commit(epoch, &mut stage),
                (
                    Answer::Target(Reply::Listed(Listed::Keys(keys), mut next)),
                    PunchStage::Look(epoch, shard),
                ) => {
                    next.shard = shard;
                    listing::go_on(&object, &mut next)?;
                    if !keys.is_empty() {
                        return commit(epoch, &mut stage);
                    }
                    if next.is_eof() {
                        return Err(Error::NotFound);
                    }
                    stage = PunchStage::Look(epoch, next.shard);
                    object.look_for_any(epoch, &next).map(Then::Ask)
                }
                (Answer::Pool(PoolReply::Epoch(epoch)), PunchStage::Commit(..)) => {
                    Ok(Then::Done(Ok(Output::Written(epoch))))
                }
                _ => Err(unexpected()),
            };
            let then = read();
            if let (Ok(Then::Done(_)) | Err(Error::TxRestart { .. }), PunchStage::Commit(epoch, _)) =
                (&then, stage)
            {
                core.forget_reads(epoch);
            }
            let error = match then {
                Ok(then) => return then,
                Err(error) => error,
            };
            match (error, stage) {
                (Error::InDoubt { .. }, PunchStage::Commit(epoch, id)) if doubts.may_ask_again(core) => {
                    object.punch_at(epoch, id).map_or_else(|error| Then::Done(Err(error)), Then::Ask)
                }
                (error @ Error::InDoubt { .. }, PunchStage::Commit(..)) => Then::Done(Err(error)),
                (Error::TxRestart { .. } | Error::InDoubt { .. } | Error::EpochGone { .. }, _)
                    if conflicts.may_try_again(core) =>
                {
                    (stage, doubts, reading) = (PunchStage::Begin, Conflicts::default(), None);
                    let (id, map_version) = (core.read_id(), core.map().version);
                    Then::Ask(Next { id, map_version, ask: Ask::Pool(PoolVerb::TxBegin) })
                }
                (error, _) => Then::Done(Err(error)),
            }
        })
    }

    /// The question for one dkey, for a transaction of this epoch.
    fn look_for_any(&self, epoch: Epoch, anchor: &Anchor) -> Result<Next> {
        let page = Page { items_max: 1, bytes_max: u32::MAX };
        let what = ListWhat::Dkeys(self.oid());
        listing::list_request(self, Where::Shard(anchor.shard), &what, ReadAt::Tx(epoch), anchor, page)
    }

    /// The commit of a transaction that removes the object and nothing else.
    fn punch_at(&self, epoch: Epoch, id: RequestId) -> Result<Next> {
        let core = self.container().core();
        let map = core.map();
        let punch = Punch { oid: self.oid(), scope: PunchScope::Object, cond: Cond::NONE };
        let parts = parts_of([(self, &Mutation::Punch(punch))].into_iter(), map)?;
        let tx = TxId { client: core.client(), begin: epoch };
        let read = core.only_read(epoch, parts.iter().map(|(target, _)| target));
        let commit = TxCommit { cont: self.container().no(), tx, epoch, parts, read };
        let ask = Ask::Pool(PoolVerb::TxCommit(commit));
        Ok(Next { id, map_version: map.version, ask })
    }

    /// Launches [`Object::punch_dkey`].
    ///
    /// # Errors
    /// As [`Object::punch_on`].
    pub fn punch_dkey_on(&self, event: &mut Event, at: At<'_>, dkey: &[u8], cond: Cond) -> Result<()> {
        self.punch_scope_on(event, at, dkey, PunchScope::Dkey(Key::from_slice(dkey)), cond)
    }

    /// Launches [`Object::punch_akeys`].
    ///
    /// # Errors
    /// As [`Object::punch_on`].
    pub fn punch_akeys_on(
        &self,
        event: &mut Event,
        at: At<'_>,
        dkey: &[u8],
        akeys: &[&[u8]],
        cond: Cond,
    ) -> Result<()> {
        let akeys = akeys.iter().map(|akey| Key::from_slice(akey)).collect();
        self.punch_scope_on(event, at, dkey, PunchScope::Akeys(Key::from_slice(dkey), akeys), cond)
    }

    fn punch_scope_on(
        &self,
        event: &mut Event,
        at: At<'_>,
        dkey: &[u8],
        scope: PunchScope,
        cond: Cond,
    ) -> Result<()> {
        if let Some(tx) = self.container().write_tx(at)? {
            return event.run(|| tx.punch(self, scope, cond).map(Output::Written));
        }
        let core = self.container().core();
        let map = core.map();
        let verb = Verb::Punch(Punch { oid: self.oid(), scope, cond });
        let ask = Ask::Target(self.target(map, dkey)?, self.container().no(), verb);
        event.launch(core, 1, None)?;
        event.submit_write(map.version, ask);
        Ok(())
    }

    /// Launches [`Object::list_dkeys`]; the anchor to go on from comes with the keys.
    ///
    /// # Errors
    /// `NoPermission` if the event is not ready; `Invalid::Anchor`. Everything else is the event's.
    pub fn list_dkeys_on(&self, event: &mut Event, at: At<'_>, anchor: Anchor, page: Page) -> Result<()> {
        if let At::Tx(_) = at {
            return event.run(|| {
                let mut anchor = anchor;
                let keys = self.list_dkeys(at, &mut anchor, page)?;
                Ok(Output::Keys(keys, anchor))
            });
        }
        self.list_on(event, at, None, ListWhat::Dkeys(self.oid()), anchor, page)
    }

    /// Launches [`Object::list_akeys`].
    ///
    /// # Errors
    /// As [`Object::list_dkeys_on`].
    pub fn list_akeys_on(
        &self,
        event: &mut Event,
        at: At<'_>,
        dkey: &[u8],
        anchor: Anchor,
        page: Page,
    ) -> Result<()> {
        if let At::Tx(_) = at {
            return event.run(|| {
                let mut anchor = anchor;
                let keys = self.list_akeys(at, dkey, &mut anchor, page)?;
                Ok(Output::Keys(keys, anchor))
            });
        }
        let dkey = Key::from_slice(dkey);
        self.list_on(event, at, Some(dkey.clone()), ListWhat::Akeys(self.oid(), dkey), anchor, page)
    }

    /// Launches [`Object::list_extents`].
    ///
    /// # Errors
    /// As [`Object::list_dkeys_on`].
    pub fn list_extents_on(
        &self,
        event: &mut Event,
        at: At<'_>,
        dkey: &[u8],
        akey: &[u8],
        anchor: Anchor,
        items_max: u32,
    ) -> Result<()> {
        if let At::Tx(_) = at {
            return event.run(|| {
                let mut anchor = anchor;
                let extents = self.list_extents(at, dkey, akey, &mut anchor, items_max)?;
                Ok(Output::Extents(extents, anchor))
            });
        }
        let (dkey, akey) = (Key::from_slice(dkey), Key::from_slice(akey));
        let what = ListWhat::Extents(self.oid(), dkey.clone(), akey);
        self.list_on(event, at, Some(dkey), what, anchor, Page { items_max, bytes_max: u32::MAX })
    }

    /// Lists in one dkey, or over the shards; asks on until something was found or nothing is left.
    fn list_on(
        &self,
        event: &mut Event,
        at: At<'_>,
        dkey: Option<Key>,
        what: ListWhat,
        anchor: Anchor,
        page: Page,
    ) -> Result<()> {
        let core = self.container().core();
        let read_at = self.container().read_epoch(at)?;
        let object = self.clone();
        let mut shard = anchor.shard;
        let first =
            listing::list_request(&object, place_of(dkey.as_ref(), shard), &what, read_at, &anchor, page)?;
        let step: Step = Box::new(move |answer| {
            let read = || {
                let Answer::Target(Reply::Listed(listed, mut next)) = answer? else {
                    return Err(unexpected());
                };
                next.shard = shard;
                if dkey.is_none() {
                    listing::go_on(&object, &mut next)?;
                    shard = next.shard;
                }
                let found = match listed {
                    Listed::Keys(keys) if !keys.is_empty() || next.is_eof() => Output::Keys(keys, next),
                    Listed::Extents(extents) if !extents.is_empty() || next.is_eof() => {
                        Output::Extents(extents, next)
                    }
                    Listed::Keys(_) | Listed::Extents(_) => {
                        let place = place_of(dkey.as_ref(), shard);
                        return listing::list_request(&object, place, &what, read_at, &next, page)
                            .map(Then::Ask);
                    }
                    Listed::Objects(_) | Listed::Changes(_) => return Err(unexpected()),
                };
                Ok(Then::Done(Ok(found)))
            };
            read().unwrap_or_else(|error| Then::Done(Err(error)))
        });
        event.launch(core, 1, Some(step))?;
        event.submit(first);
        Ok(())
    }

    /// Launches [`Object::query`].
    ///
    /// # Errors
    /// `NoPermission` if the event is not ready. Everything else is the event's.
    pub fn query_on(
        &self,
        event: &mut Event,
        at: At<'_>,
        flags: QueryFlags,
        dkey: &[u8],
        akey: &[u8],
    ) -> Result<()> {
        if let At::Tx(_) = at {
            return event.run(|| self.query(at, flags, dkey, akey).map(Output::Found));
        }
        let core = self.container().core();
        let read_at = self.container().read_epoch(at)?;
        let (object, keys) = (self.clone(), (Key::from_slice(dkey), Key::from_slice(akey)));
        let all_shards = flags.has(QueryFlags::DKEY);
        let (mut shard, mut best): (u16, Option<Found>) = (0, None);
        let first = listing::query_request(
            self,
            place_of((!all_shards).then_some(&keys.0), shard),
            read_at,
            flags,
            &keys,
        )?;
        let step: Step = Box::new(move |answer| {
            let read = || {
                let Answer::Target(Reply::Found(found)) = answer? else { return Err(unexpected()) };
                let found = found.map(|found| listing::with_given(found, flags, &keys.0, &keys.1));
                best = listing::better(&object, flags, best.take(), found);
                match if all_shards { object.shard_after(shard)? } else { None } {
                    Some(next) => {
                        shard = next;
                        let place = Where::Shard(shard);
                        listing::query_request(&object, place, read_at, flags, &keys).map(Then::Ask)
                    }
                    None => Ok(Then::Done(Ok(Output::Found(best.take())))),
                }
            };
            read().unwrap_or_else(|error| Then::Done(Err(error)))
        });
        event.launch(core, 1, Some(step))?;
        event.submit(first);
        Ok(())
    }
}

/// The dkey's shard, or a shard by number.
fn place_of(dkey: Option<&Key>, shard: u16) -> Where<'_> {
    dkey.map_or(Where::Shard(shard), |dkey| Where::Dkey(dkey))
}
