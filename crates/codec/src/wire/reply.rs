//! A reply as a frame, and back.

use super::fetch::FetchPlan;
use super::field::{Field, Writer, read_list};
use super::pool_reply::{put_pool_reply, read_pool_reply};
use super::{BadFrame, REPLY_HEADER_BYTES, ReplyHeader, ReplyKind, Version};
use crate::bytes::Reader;
use crate::pool::PoolReply;
use crate::transport::Answer;
use crate::verb::{Audit, Found, InDoubt, Listed, Reply, SpaceReport, TxState, Usage};
use dolmen_types::limits::{FRAME_BODY_BYTES_MAX, FRAME_PAYLOAD_BYTES_MAX};
use dolmen_types::{Anchor, Epoch, Error, TargetNo};

/// To which request a reply goes, and what it tells besides the answer.
#[derive(Clone, Copy, Debug)]
pub struct ReplyTo<'a> {
    /// The version that the connection has agreed on.
    pub version: Version,
    /// The request's.
    pub token: u64,
    /// The version of the pool map.
    pub map_version: u32,
    /// The last push that was queued for this client.
    pub push_seq: u64,
    /// A lease that comes with it, by its number, or 0; and how long those of the connection hold from when it was asked, or 0
    /// if this answer renews none.
    pub lease: (u32, u32),
    /// Of a fetch.
    pub plan: Option<&'a FetchPlan>,
}

/// Appends header and body of a reply to `out`. The payload goes behind them: the parts of the fetch's buffer that its plan
/// names, in their order. An answer that no frame can hold becomes `RecTooBig`, and one to a fetch that does not fit its plan, or
/// has none, `Io` with the system's number for a broken protocol: then there is no payload.
///
/// # Panics
/// Never: every error fits a frame.
pub fn encode_reply(out: &mut Vec<u8>, to: &ReplyTo<'_>, result: &Result<Answer, Error>) {
    put_reply(out, to, result, |out, answer| put_answer(out, to, answer));
}

/// Appends a reply whose body is what `put_body` appends.
#[inline]
pub(super) fn put_reply<T>(
    out: &mut Vec<u8>,
    to: &ReplyTo<'_>,
    result: &Result<T, Error>,
    put_body: impl FnOnce(&mut Vec<u8>, &T) -> Result<Written, Error>,
) {
    let start = out.len();
    out.extend_from_slice(&[0; REPLY_HEADER_BYTES]);
    let body_start = out.len();
    let written = match result {
        Ok(answer) => put_body(out, answer),
        Err(error) => Ok(put_error(out, error)),
    };
    let body_bytes = out.len() - body_start;
    let written = match written {
        Ok(written) if body_bytes <= FRAME_BODY_BYTES_MAX => written,
        Ok(_) | Err(_) => {
            out.truncate(body_start);
            put_error(out, &Error::RecTooBig { needed_bytes: body_bytes as u64 })
        }
    };
    let Written { kind, status, epoch, payload_bytes } = written;
    let body_bytes = u32::try_from(out.len() - body_start).expect("a body is limited far below 2^32");
    let header = ReplyHeader {
        version: to.version,
        kind,
        status,
        token: to.token,
        epoch,
        push_seq: to.push_seq,
        lease: to.lease.0,
        lease_term_ms: to.lease.1,
        map_version: to.map_version,
        body_bytes,
        payload_bytes,
        body_sum: to.version.body_sum(&out[body_start..]),
    };
    out[start..body_start].copy_from_slice(&header.encode());
}

/// What was stored is no answer to what was asked, and the client would not know where it belongs. The number is EPROTO.
const NO_ANSWER: Error = Error::Io { target: TargetNo(0), errno: 71 };

/// What a body leaves to its header.
pub(super) struct Written {
    pub(super) kind: ReplyKind,
    pub(super) status: i32,
    pub(super) epoch: Epoch,
    pub(super) payload_bytes: u32,
}

fn put_error(out: &mut Vec<u8>, error: &Error) -> Written {
    let mut w = Writer::new(out);
    w.put(error);
    w.finish().expect("no error holds a list, and keys in places are short");
    let epoch = match error {
        Error::TxRestart { after } => *after,
        _ => Epoch::ZERO,
    };
    Written { kind: ReplyKind::Failed, status: error.der(), epoch, payload_bytes: 0 }
}

fn put_answer(out: &mut Vec<u8>, to: &ReplyTo<'_>, answer: &Answer) -> Result<Written, Error> {
    let payload_bytes = match answer {
        Answer::Target(Reply::Fetched(fetched)) => {
            let filled = to.plan.and_then(|plan| plan.filled_bytes(fetched));
            match filled.filter(|&bytes| bytes <= FRAME_PAYLOAD_BYTES_MAX).map(u32::try_from) {
                Some(Ok(bytes)) => bytes,
                Some(Err(_)) | None => return Ok(put_error(out, &NO_ANSWER)),
            }
        }
        _ => 0,
    };
    let mut w = Writer::new(out);
    let (kind, epoch) = match answer {
        Answer::Target(reply) => (put_target_reply(&mut w, reply), epoch_of(reply)),
        Answer::Pool(PoolReply::Epoch(epoch)) => (ReplyKind::Epoch, *epoch),
        Answer::Pool(reply) => (put_pool_reply(&mut w, reply), Epoch::ZERO),
    };
    w.finish()?;
    Ok(Written { kind, status: 0, epoch, payload_bytes })
}

fn epoch_of(reply: &Reply) -> Epoch {
    match reply {
        Reply::Written(epoch) => *epoch,
        _ => Epoch::ZERO,
    }
}

fn put_target_reply(w: &mut Writer<'_>, reply: &Reply) -> ReplyKind {
    match reply {
        // The header has it.
        Reply::Written(_) => ReplyKind::Written,
        Reply::Fetched(fetched) => with(w, ReplyKind::Fetched, fetched),
        Reply::Listed(listed, anchor) => {
            w.put(anchor);
            with(w, ReplyKind::Listed, listed)
        }
        Reply::Found(found) => with(w, ReplyKind::Found, found),
        Reply::Prepared => ReplyKind::Prepared,
        Reply::Done => ReplyKind::Done,
        Reply::TxState(state) => with(w, ReplyKind::TxState, state),
        Reply::InDoubt(doubts) => {
            w.list(doubts, FRAME_BODY_BYTES_MAX);
            ReplyKind::InDoubt
        }
        Reply::ContUsage(usage) => with(w, ReplyKind::ContUsage, usage),
        Reply::Space(space) => with(w, ReplyKind::Space, space),
        Reply::Aggregated { more, freed } => {
            w.put(more);
            with(w, ReplyKind::Aggregated, freed)
        }
        Reply::Audited(audit) => with(w, ReplyKind::Audited, audit),
    }
}

fn with(w: &mut Writer<'_>, kind: ReplyKind, body: &impl Field) -> ReplyKind {
    w.put(body);
    kind
}

/// Decodes the body of a reply: the answer, or why there is none. Its payload, which only a fetch has, goes where the fetch's
/// plan says.
///
/// # Errors
/// `BadFrame::Body` or `BadFrame::BodySum` unless it is what the header says, `BadFrame::Payload` if there is one behind
/// anything but the answer of a fetch.
pub fn decode_reply(header: &ReplyHeader, body: &[u8]) -> Result<Result<Answer, Error>, BadFrame> {
    read_reply(header, body, |r| read_answer(header, r))
}

/// Decodes a reply whose body, unless it failed, `read` reads.
#[inline]
pub(super) fn read_reply<T>(
    header: &ReplyHeader,
    body: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Option<T>,
) -> Result<Result<T, Error>, BadFrame> {
    let bad_body = BadFrame::Body { kind: header.kind.number() };
    if header.payload_bytes > 0 && !matches!(header.kind, ReplyKind::Fetched | ReplyKind::FetchedPart) {
        return Err(BadFrame::Payload { bytes: u64::from(header.payload_bytes) });
    }
    if body.len() as u64 != u64::from(header.body_bytes) {
        return Err(bad_body);
    }
    header.version.check_body(body, header.body_sum)?;
    let mut r = Reader::new(body);
    if header.kind == ReplyKind::Failed {
        return match read_error(header, &mut r) {
            Some(error) if r.remaining() == 0 => Ok(Err(error)),
            Some(_) | None => Err(bad_body),
        };
    }
    // In one match: an answer is too long to be moved from result to result.
    match read(&mut r) {
        Some(answer) if r.remaining() == 0 => Ok(Ok(answer)),
        Some(_) | None => Err(bad_body),
    }
}

fn read_error(header: &ReplyHeader, r: &mut Reader<'_>) -> Option<Error> {
    Error::read(r).filter(|error| error.der() == header.status)
}

#[inline]
fn read_answer(header: &ReplyHeader, r: &mut Reader<'_>) -> Option<Answer> {
    let ReplyHeader { kind, epoch, .. } = *header;
    Some(if kind.is_of_pool() {
        Answer::Pool(read_pool_reply(kind, epoch, r)?)
    } else {
        Answer::Target(read_target_reply(kind, epoch, r)?)
    })
}

#[inline]
fn read_target_reply(kind: ReplyKind, epoch: Epoch, r: &mut Reader<'_>) -> Option<Reply> {
    Some(match kind {
        ReplyKind::Written => Reply::Written(epoch),
        ReplyKind::Fetched => Reply::Fetched(Field::read(r)?),
        ReplyKind::Listed => {
            let anchor = Anchor::read(r)?;
            Reply::Listed(Listed::read(r)?, anchor)
        }
        ReplyKind::Found => Reply::Found(Option::<Found>::read(r)?),
        ReplyKind::Prepared => Reply::Prepared,
        ReplyKind::Done => Reply::Done,
        ReplyKind::TxState => Reply::TxState(TxState::read(r)?),
        ReplyKind::InDoubt => Reply::InDoubt(read_list::<InDoubt>(r, FRAME_BODY_BYTES_MAX)?),
        ReplyKind::ContUsage => Reply::ContUsage(Usage::read(r)?),
        ReplyKind::Space => Reply::Space(SpaceReport::read(r)?),
        ReplyKind::Aggregated => Reply::Aggregated { more: bool::read(r)?, freed: r.u64()? },
        ReplyKind::Audited => Reply::Audited(Audit::read(r)?),
        _ => return None,
    })
}
