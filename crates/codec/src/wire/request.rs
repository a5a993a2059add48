//! A request as a frame, and back.

use super::data::{Gather, Input, PayloadParts, Source};
use super::fetch::{put_fetch, read_fetch};
use super::field::{Field, too_big};
use super::pool_verb::{put_pool_verb, read_pool_verb};
use super::request_header::NO_TARGET;
use super::tx::{put_prepare, read_prepare};
use super::update::{put_update, read_update, read_update_for};
use super::{AskKind, BadFrame, PoolSlot, REQUEST_HEADER_BYTES, RequestHeader, Version};
use crate::transport::Ask;
use crate::verb::{ContVerb, Incoming, List, Punch, Query, Verb};
use dolmen_types::limits::FRAME_BODY_BYTES_MAX;
use dolmen_types::{ContNo, Epoch, Error, Head, Invalid, IoBuf, TargetNo, TxId};
use std::sync::Arc;

/// Who asks, besides what is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The version that the connection has agreed on.
    pub version: Version,
    /// Chosen by the client, returned with the reply; not 0.
    pub token: u64,
    /// On whose behalf.
    pub head: Head,
    /// Which pool on this connection.
    pub pool: PoolSlot,
    /// The highest epoch that the client knows; 0 for none.
    pub seen: Epoch,
    /// The last push that the client has taken in.
    pub push_acked: u64,
    /// Whether the answer is to come with a lease.
    pub wants_lease: bool,
    /// Whether the other side understands whom writes are charged to; else that is left out.
    pub names_charged: bool,
    /// Whether it understands where transactions have only read; so with that.
    pub tells_ends: bool,
}

/// What a request that came in asks.
#[derive(Debug)]
pub struct Asked<'p> {
    /// The question.
    pub ask: Ask<'p>,
    /// Bytes of the buffer that a fetch needs before it is carried out: it comes without. 0 for everything else.
    pub room_bytes: usize,
}

/// Appends header and body to `out`, and hands out the parts of the payload, which goes behind them.
///
/// # Errors
/// What the target would answer if a list, a key or the buffer of a fetch is larger than a frame may hold: `Invalid`,
/// `KeyTooBig`; `RecTooBig` if a value or everything together is; `Invalid` if the connection's version has no such question;
/// then `out` is as it was.
///
/// # Panics
/// If the token is 0.
pub fn encode_request<'p>(
    out: &mut Vec<u8>,
    caller: &Caller,
    ask: &'p Ask<'_>,
) -> Result<PayloadParts<'p>, Error> {
    put_request(out, caller, |out| put_body(out, ask, caller))
}

/// Appends a request whose body is what `put_body` appends.
#[inline]
pub(super) fn put_request<'p>(
    out: &mut Vec<u8>,
    caller: &Caller,
    put_body: impl FnOnce(&mut Vec<u8>) -> Result<Sent<'p>, Error>,
) -> Result<PayloadParts<'p>, Error> {
    assert_ne!(caller.token, 0, "a push has token 0");
    let start = out.len();
    out.extend_from_slice(&[0; REQUEST_HEADER_BYTES]);
    let sealed = put_body(out).and_then(|sent| seal(&mut out[start..], caller, sent));
    if sealed.is_err() {
        out.truncate(start);
    }
    sealed
}

/// What a body leaves to its header.
pub(super) struct Sent<'p> {
    kind: AskKind,
    target: TargetNo,
    cont: ContNo,
    parts: PayloadParts<'p>,
    payload_bytes: u64,
}

impl Sent<'_> {
    /// Nothing but the kind: of a question to the daemon.
    pub(super) fn bare(kind: AskKind) -> Self {
        Self {
            kind,
            target: NO_TARGET,
            cont: ContNo::default(),
            parts: PayloadParts::new(),
            payload_bytes: 0,
        }
    }
}

fn seal<'p>(frame: &mut [u8], caller: &Caller, sent: Sent<'p>) -> Result<PayloadParts<'p>, Error> {
    let (header, body) = frame.split_first_chunk_mut().expect("its place comes before the body");
    if body.len() > FRAME_BODY_BYTES_MAX {
        return Err(too_big(body.len()));
    }
    let Caller { version, token, head, pool, seen, push_acked, wants_lease, names_charged: _, tells_ends: _ } =
        *caller;
    let Sent { kind, target, cont, parts, payload_bytes } = sent;
    if version < kind.since() {
        return Err(Invalid::Argument.into());
    }
    let body_bytes = u32::try_from(body.len()).expect("a body is limited far below 2^32");
    let sealed = RequestHeader {
        version,
        kind,
        token,
        head,
        seen,
        cont,
        target,
        pool,
        body_bytes,
        payload_bytes,
        body_sum: version.body_sum(body),
        push_acked,
        wants_lease,
    };
    *header = sealed.encode();
    Ok(parts)
}

fn put_body<'p>(out: &mut Vec<u8>, ask: &'p Ask<'_>, caller: &Caller) -> Result<Sent<'p>, Error> {
    let mut w = Gather::new(out, caller.names_charged, caller.tells_ends);
    let (kind, target, cont) = match ask {
        Ask::Target(target, ..) if *target == NO_TARGET => return Err(Invalid::Argument.into()),
        Ask::Target(target, cont, verb) => (put_verb(&mut w, verb), *target, *cont),
        Ask::Pool(verb) => (put_pool_verb(&mut w, verb), NO_TARGET, ContNo::default()),
    };
    let (parts, payload_bytes) = w.finish()?;
    Ok(Sent { kind, target, cont, parts, payload_bytes })
}

#[inline]
fn put_verb<'p>(w: &mut Gather<'_, 'p>, verb: &'p Verb<'_>) -> AskKind {
    match verb {
        Verb::Update(update) => match update.charged.filter(|_| w.names_charged) {
            None => {
                put_update(w, update);
                AskKind::Update
            }
            Some(uid) => {
                w.body.put(&uid);
                put_update(w, update);
                AskKind::UpdateFor
            }
        },
        Verb::Fetch(fetch) => {
            put_fetch(&mut w.body, fetch);
            AskKind::Fetch
        }
        Verb::Prepare(prepare) => {
            put_prepare(w, prepare);
            AskKind::Prepare
        }
        Verb::Punch(punch) => with(w, AskKind::Punch, punch),
        Verb::List(list) => with(w, AskKind::List, list),
        Verb::Query(query) => with(w, AskKind::Query, query),
        Verb::Commit(tx) => with(w, AskKind::Commit, tx),
        Verb::Conclude(tx) => with(w, AskKind::Conclude, tx),
        Verb::Abort(tx) => with(w, AskKind::Abort, tx),
        Verb::TxState(tx) => with(w, AskKind::TxState, tx),
        Verb::Cont(verb) => with(w, AskKind::Cont, verb),
        Verb::InDoubt => AskKind::InDoubt,
        Verb::Unconcluded => AskKind::Unconcluded,
        Verb::Latest => AskKind::Latest,
        Verb::Space => AskKind::Space,
        Verb::Flush => AskKind::Flush,
        Verb::Checkpoint => AskKind::Checkpoint,
        Verb::Scrub => AskKind::Scrub,
        Verb::Check => AskKind::Check,
    }
}

fn with(w: &mut Gather<'_, '_>, kind: AskKind, body: &impl Field) -> AskKind {
    w.body.put(body);
    kind
}

/// Decodes body and payload of a request; the values that it writes stay in `payload`.
///
/// # Errors
/// `BadFrame::Body`, `BadFrame::BodySum` or `BadFrame::Payload` unless both are what the header says.
pub fn decode_request<'p>(
    header: &RequestHeader,
    body: &[u8],
    payload: &'p [u8],
) -> Result<Asked<'p>, BadFrame> {
    decode(header, Input::new(body, Source::Borrowed(payload)))
}

/// The same where the message has to outlive the payload's reader: a payload of one value moves into it, several values
/// share it.
///
/// # Errors
/// As `decode_request`.
pub fn decode_request_owned(
    header: &RequestHeader,
    body: &[u8],
    payload: IoBuf,
) -> Result<Asked<'static>, BadFrame> {
    decode(header, Input::new(body, Source::Owned(payload)))
}

/// The same where the payload's memory is to be used again: the message holds it together with whoever gives it.
///
/// # Errors
/// As `decode_request`.
pub fn decode_request_shared(
    header: &RequestHeader,
    body: &[u8],
    payload: Arc<Incoming>,
) -> Result<Asked<'static>, BadFrame> {
    decode(header, Input::new(body, Source::Shared(payload)))
}

#[inline]
fn decode<'p>(header: &RequestHeader, mut input: Input<'_, 'p>) -> Result<Asked<'p>, BadFrame> {
    let bad_body = BadFrame::Body { kind: header.kind.number() };
    if input.body.remaining() as u64 != u64::from(header.body_bytes) {
        return Err(bad_body);
    }
    header.version.check_body(input.body.rest(), header.body_sum)?;
    if input.payload_bytes() != header.payload_bytes {
        return Err(BadFrame::Payload { bytes: input.payload_bytes() });
    }
    // In one match: a question is too long to be moved from result to result.
    match read_ask(header, &mut input) {
        Some(asked) if input.is_at_end() => Ok(asked),
        Some(_) if input.body.remaining() == 0 => Err(BadFrame::Payload { bytes: header.payload_bytes }),
        Some(_) | None => Err(bad_body),
    }
}

#[inline]
fn read_ask<'p>(header: &RequestHeader, input: &mut Input<'_, 'p>) -> Option<Asked<'p>> {
    let mut room_bytes = 0;
    let ask = if header.target == NO_TARGET {
        if header.cont != ContNo::default() {
            return None;
        }
        Ask::Pool(read_pool_verb(header.kind, input)?)
    } else {
        Ask::Target(header.target, header.cont, read_verb(header.kind, input, &mut room_bytes)?)
    };
    (header.pool != PoolSlot::SYSTEM).then_some(Asked { ask, room_bytes })
}

/// `None` also for a kind that is no question to a target.
#[inline]
fn read_verb<'p>(kind: AskKind, input: &mut Input<'_, 'p>, room_bytes: &mut usize) -> Option<Verb<'p>> {
    let r = &mut input.body;
    Some(match kind {
        AskKind::Update => Verb::Update(read_update(input)?),
        AskKind::UpdateFor => Verb::Update(read_update_for(input)?),
        AskKind::Fetch => {
            let fetch;
            (fetch, *room_bytes) = read_fetch(r)?;
            Verb::Fetch(fetch)
        }
        AskKind::Prepare => Verb::Prepare(read_prepare(input)?),
        AskKind::Punch => Verb::Punch(Punch::read(r)?),
        AskKind::List => Verb::List(List::read(r)?),
        AskKind::Query => Verb::Query(Query::read(r)?),
        AskKind::Commit => Verb::Commit(TxId::read(r)?),
        AskKind::Conclude => Verb::Conclude(TxId::read(r)?),
        AskKind::Abort => Verb::Abort(TxId::read(r)?),
        AskKind::TxState => Verb::TxState(TxId::read(r)?),
        AskKind::Cont => Verb::Cont(ContVerb::read(r)?),
        AskKind::InDoubt => Verb::InDoubt,
        AskKind::Unconcluded => Verb::Unconcluded,
        AskKind::Latest => Verb::Latest,
        AskKind::Space => Verb::Space,
        AskKind::Flush => Verb::Flush,
        AskKind::Checkpoint => Verb::Checkpoint,
        AskKind::Scrub => Verb::Scrub,
        AskKind::Check => Verb::Check,
        _ => return None,
    })
}
