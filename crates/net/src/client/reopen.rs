//! Opening again, on a connection that was just made, what was open on the last one.
//!
//! Nothing else is said meanwhile. All pools are asked for at once, and those that take long are waited for no longer than a
//! moment: whoever wants one waits for it beside the others.
//!
//! Invariants: an answer belongs to the question with its number, and no other; what comes when it is not waited for any more
//! is given back.

use super::PoolRef;
use super::session::{Attached, Refused, Session};
use super::slot::SlotOn;
use crate::error::{Error, Result, Violation};
use crate::input::{Landing, bad_frame};
use core::time::Duration;
use dolmen_codec::pool::{ContName, PoolReply, PoolVerb};
use dolmen_codec::wire::{
    Caller, PoolSlot, ReplyHeader, SystemReply, SystemVerb, decode_reply, decode_system_reply,
    encode_request, encode_system_request,
};
use dolmen_codec::{Answer, Ask, Way, give_way};
use dolmen_env::{Clock, RealClock};
use dolmen_types::{Epoch, Error as Failure};

/// How long pools are waited for, and containers in them, before those that are open go on without the others. An engine that
/// was started anew opens most of them sooner.
const SLOW: Duration = Duration::from_secs(1);

/// What a look counts of that at most: whoever looks seldom finds what has come meanwhile.
const LOOK: Duration = Duration::from_millis(10);

/// The first number of a question that is nobody's but the connection's: no request of a client has one as large.
const FIRST: u64 = u64::MAX;

/// A pool that is to be opened again.
pub(super) struct Reopening {
    pub(super) pool: PoolRef,
    pub(super) attached: Attached,
    /// The number of the question for it: that of a request that nobody waits for, so that what comes late is given back.
    pub(super) token: u64,
    pub(super) stage: Stage,
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// It was asked for.
    Asked,
    /// It is open, and its containers are to be opened.
    Open,
    /// It is open, and was taken meanwhile from all who had it.
    Taken,
    /// All that can be done was done.
    Settled,
}

/// How answers are waited for, and how long still.
struct Waiting {
    way: Way,
    end_ns: u64,
    left: Duration,
}

impl Waiting {
    /// As long as for what is slow, and no longer than until `end_ns`.
    fn new(way: Way, end_ns: u64) -> Self {
        Self { way, end_ns, left: SLOW }
    }

    fn left(&self) -> Duration {
        let until_end = self.end_ns.saturating_sub(RealClock.monotonic_ns());
        self.left.min(Duration::from_nanos(until_end))
    }

    /// So much time has gone.
    fn waited(&mut self, time: Duration) {
        let counted = if self.way == Way::Later { time.min(LOOK) } else { time };
        self.left = self.left.saturating_sub(counted);
    }
}

/// An answer to a question for a pool, with its number.
type Answered = (u64, core::result::Result<SystemReply, Failure>);

/// Whether a container that was open has ended, going by why it cannot be opened again: it was destroyed, or is not for this
/// user any more, and whoever uses it is told so; or it is to be opened nowhere at all.
pub(super) fn is_final(error: &Failure) -> bool {
    matches!(error, Failure::NotFound | Failure::NoContainer | Failure::NoPermission | Failure::Invalid(_))
}

impl Session {
    /// Opens pools again, and the containers that were open in them, as far as they can be by `end_ns`.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(super) async fn reopen(&mut self, way: Way, pools: &mut [Reopening], end_ns: u64) -> Result<()> {
        let waiting = &mut Waiting::new(way, end_ns);
        for Reopening { attached, token, .. } in &mut *pools {
            let caller = self.caller(attached, *token, PoolSlot::SYSTEM);
            self.say_system(&caller, &attached.connect, waiting).await?;
        }
        let is_asked = |pools: &[Reopening]| pools.iter().any(|it| it.stage == Stage::Asked);
        while is_asked(pools)
            && let Some(answered) = self.hear_of_pool(waiting).await?
        {
            self.take(pools, answered)?;
        }
        let waiting = &mut Waiting::new(way, end_ns);
        let is_open = |it: &Reopening| matches!(it.stage, Stage::Open | Stage::Taken);
        while let Some(at) = pools.iter().position(is_open) {
            let (mut late, Reopening { attached, stage, .. }) = (Vec::new(), &mut pools[at]);
            if *stage == Stage::Taken {
                // Whoever uses it is told so.
                self.leave(attached, way).await?;
            } else {
                self.open_conts(attached, waiting, &mut late).await?;
            }
            *stage = Stage::Settled;
            late.into_iter().try_for_each(|answered| self.take(pools, answered))?;
        }
        for Reopening { attached, .. } in pools.iter_mut().filter(|it| it.stage == Stage::Asked) {
            attached.refuse(Failure::Busy);
        }
        Ok(())
    }

    fn caller(&self, attached: &Attached, token: u64, pool: PoolSlot) -> Caller {
        let (version, head) = (self.welcome.version, attached.head);
        let (wants_lease, names_charged, tells_ends) = (false, false, false);
        let (seen, push_acked) = (Epoch::ZERO, 0);
        Caller { version, token, head, pool, seen, push_acked, wants_lease, names_charged, tells_ends }
    }

    /// Takes the answer to a question for a pool.
    fn take(&mut self, pools: &mut [Reopening], (token, reply): Answered) -> Result<()> {
        let asked = pools.iter_mut().find(|it| it.token == token && it.stage == Stage::Asked);
        let Reopening { attached, stage, .. } = asked.ok_or(Error::Protocol(Violation::Answer))?;
        (attached.refused, attached.slot, *stage) = (None, None, Stage::Settled);
        match reply {
            Ok(SystemReply::Connected(connected)) => {
                attached.slot = Some(SlotOn::new(connected.slot, self.no));
                let is_taken = connected.evictions > attached.evictions;
                *stage = if is_taken { Stage::Taken } else { Stage::Open };
            }
            Ok(_) => return Err(Error::Protocol(Violation::Answer)),
            // It is gone for good; the others are not.
            Err(Failure::NotFound | Failure::NoPermission) => {}
            // It may be there later; the others are there now.
            Err(error) => attached.refuse(error),
        }
        Ok(())
    }

    /// Opens the containers of a pool, unless that takes too long; `late` gets answers to questions for other pools.
    async fn open_conts(
        &mut self,
        attached: &mut Attached,
        waiting: &mut Waiting,
        late: &mut Vec<Answered>,
    ) -> Result<()> {
        let Some(slot) = attached.slot.and_then(|slot| slot.on(self.no)) else { return Ok(()) };
        for (cont, opened) in &attached.conts {
            for _ in 0..opened.count {
                let wanted = opened.wanted();
                if !self.welcome.knows(wanted) {
                    // Who has something alone does not have it at an engine where others can open it.
                    break;
                }
                let open = PoolVerb::ContOpen(ContName::Uuid(opened.uuid), wanted);
                let error = match self.ask_pool(attached, slot, open, waiting, late).await? {
                    Some(Ok(Answer::Pool(PoolReply::Cont(handle)))) if handle.no == *cont => {
                        if attached.goes_on(opened, &handle) {
                            continue;
                        }
                        // They were taken away meanwhile. The engine remembers that it is closed, and says so.
                        let close = PoolVerb::ContClose(*cont);
                        let _closed = self.ask_pool(attached, slot, close, waiting, late).await?;
                        break;
                    }
                    Some(Ok(_)) => break,
                    Some(Err(error)) if is_final(&error) => break,
                    Some(Err(error)) => error,
                    None => Failure::Busy,
                };
                // It may be opened later, and is not gone: nobody uses the pool without it. What it has open ends with the
                // connection at the latest, and a handle that comes still has nobody there.
                self.leave(attached, waiting.way).await?;
                attached.refuse(error);
                return Ok(());
            }
        }
        let here: Vec<_> = attached.here().filter(|verb| self.welcome.knows_verb(verb)).collect();
        for here in here {
            // Ignored: who was forgotten is told so when he asks for something himself.
            let _told = self.ask_pool(attached, slot, here, waiting, late).await?;
        }
        Ok(())
    }

    /// Gives a pool back, and does not wait for the answer.
    async fn leave(&mut self, attached: &mut Attached, way: Way) -> Result<()> {
        let Some(slot) = attached.slot.take().and_then(|slot| slot.on(self.no)) else { return Ok(()) };
        let token = self.next_token();
        let caller = self.caller(attached, token, PoolSlot::SYSTEM);
        let leave = SystemVerb::PoolDisconnect { slot };
        self.say_system(&caller, &leave, &mut Waiting::new(way, u64::MAX)).await
    }

    fn next_token(&mut self) -> u64 {
        self.questions += 1;
        FIRST - self.questions
    }

    /// Asks a pool, and waits for the answer; `None` if that does not come in time.
    async fn ask_pool(
        &mut self,
        attached: &Attached,
        slot: PoolSlot,
        verb: PoolVerb<'_>,
        waiting: &mut Waiting,
        late: &mut Vec<Answered>,
    ) -> Result<Option<core::result::Result<Answer, Failure>>> {
        let (token, mut frame) = (self.next_token(), Vec::new());
        let caller = self.caller(attached, token, slot);
        encode_request(&mut frame, &caller, &Ask::Pool(verb)).map_err(Error::Refused)?;
        self.say(&frame, waiting).await?;
        let mut decoded = None;
        let mut decode = |header: &ReplyHeader, body: &[u8]| {
            if header.token == token {
                decoded = Some(decode_reply(header, body).map_err(bad_frame)?);
            } else if header.token < token {
                late.push((header.token, decode_system_reply(header, body).map_err(bad_frame)?));
            }
            Ok(())
        };
        while let Some(header) = self.hear(waiting, &mut decode).await? {
            if header.token == token {
                return decoded.map(Some).ok_or(Error::Protocol(Violation::Answer));
            }
        }
        Ok(None)
    }

    /// The next answer to a question for a pool; `None` if none comes in time.
    async fn hear_of_pool(&mut self, waiting: &mut Waiting) -> Result<Option<Answered>> {
        let mut decoded = None;
        let mut decode = |header: &ReplyHeader, body: &[u8]| {
            decoded = Some((header.token, decode_system_reply(header, body).map_err(bad_frame)?));
            Ok(())
        };
        self.hear(waiting, &mut decode).await?;
        Ok(decoded)
    }

    async fn say_system(&mut self, caller: &Caller, verb: &SystemVerb, waiting: &mut Waiting) -> Result<()> {
        let mut frame = Vec::new();
        encode_system_request(&mut frame, caller, verb).map_err(Error::Refused)?;
        self.say(&frame, waiting).await
    }

    async fn say(&mut self, frame: &[u8], waiting: &mut Waiting) -> Result<()> {
        let mut at = 0;
        while at < frame.len() {
            match self.stream.write(&frame[at..])? {
                0 if waiting.left().is_zero() => return Err(Error::TimedOut),
                0 => self.rest(waiting, true).await?,
                len => at += len,
            }
        }
        Ok(())
    }

    /// The next reply, which has no payload; `None` if none comes in time.
    async fn hear(
        &mut self,
        waiting: &mut Waiting,
        decode: &mut impl FnMut(&ReplyHeader, &[u8]) -> Result<()>,
    ) -> Result<Option<ReplyHeader>> {
        loop {
            let is_sent = self.stream.flush()?;
            let land = |header: &ReplyHeader, body: &[u8]| decode(header, body).map(|()| Landing::default());
            if let Some((header, _)) = self.replies.next(&mut self.stream, land)? {
                return Ok(Some(header));
            }
            if waiting.left().is_zero() {
                return Ok(None);
            }
            self.rest(waiting, !is_sent).await?;
        }
    }

    /// Waits for something to come, or for room, too.
    async fn rest(&mut self, waiting: &mut Waiting, for_room: bool) -> Result<()> {
        let begun_ns = RealClock.monotonic_ns();
        match waiting.way {
            Way::Now => self.stream.wait(for_room, Some(waiting.left()))?,
            Way::Later => {
                // Rings do not tell that the peer has ended.
                self.stream.wake()?;
                give_way().await;
            }
        }
        waiting.waited(Duration::from_nanos(RealClock.monotonic_ns() - begun_ns));
        Ok(())
    }
}

impl Attached {
    /// It cannot be opened now, and may be later.
    fn refuse(&mut self, error: Failure) {
        self.slot = None;
        self.refused = Some(Refused { error, at_ns: RealClock.monotonic_ns() });
    }
}
