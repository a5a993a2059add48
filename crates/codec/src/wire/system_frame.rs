//! Questions to the daemon and its answers as frames, and back.

use super::field::{Field, Writer, read_list};
use super::reply::{Written, put_reply, read_reply};
use super::request::{Sent, put_request};
use super::request_header::NO_TARGET;
use super::system::{Looked, PartSpec, PoolConnection, SystemReply, SystemVerb};
use super::{AskKind, BadFrame, Caller, PoolSlot, ReplyHeader, ReplyKind, ReplyTo, RequestHeader, Version};
use crate::bytes::Reader;
use dolmen_types::limits::FRAME_BODY_BYTES_MAX;
use dolmen_types::{ContNo, Epoch, Error};

/// Appends a question to the daemon to `out`; the pool of `caller` is not looked at.
///
/// # Errors
/// `RecTooBig` if no frame can hold it; `Invalid` if the connection's version has no such question; then `out` is as it was.
///
/// # Panics
/// If the token is 0.
pub fn encode_system_request(out: &mut Vec<u8>, caller: &Caller, verb: &SystemVerb) -> Result<(), Error> {
    let caller = Caller { pool: PoolSlot::SYSTEM, ..*caller };
    put_request(out, &caller, |out| {
        let mut w = Writer::new(out);
        let kind = put_verb(&mut w, verb);
        w.finish()?;
        Ok(Sent::bare(kind))
    })
    .map(drop)
}

fn put_verb(w: &mut Writer<'_>, verb: &SystemVerb) -> AskKind {
    match verb {
        SystemVerb::Ping => AskKind::Ping,
        SystemVerb::Query => AskKind::SystemQuery,
        SystemVerb::PoolList => AskKind::PoolList,
        SystemVerb::PoolConnect { name, access } => {
            w.put(name);
            w.put(access);
            AskKind::PoolConnect
        }
        SystemVerb::PoolDisconnect { slot } => {
            w.put(slot);
            AskKind::PoolDisconnect
        }
        SystemVerb::PoolCreate(spec) => {
            w.put(spec);
            AskKind::PoolCreate
        }
        SystemVerb::PoolDestroy { name, force } => {
            w.put(name);
            w.put(force);
            AskKind::PoolDestroy
        }
        SystemVerb::Stop => AskKind::Stop,
        SystemVerb::PoolEvict(name) => {
            w.put(name);
            AskKind::PoolEvict
        }
        SystemVerb::PartEvict { pool, key } => {
            w.put(pool);
            w.put(key);
            AskKind::PartEvict
        }
        SystemVerb::Compare { rank, list } => {
            w.put(rank);
            w.put(&**list);
            AskKind::Compare
        }
        SystemVerb::PartCreate(spec) => {
            w.put(&**spec);
            AskKind::PartCreate
        }
        SystemVerb::PartConnect { pool, key } => {
            w.put(pool);
            w.put(key);
            AskKind::PartConnect
        }
        SystemVerb::PartDestroy { pool, key } => {
            w.put(pool);
            w.put(key);
            AskKind::PartDestroy
        }
        SystemVerb::PartLook { pool, key, cont } => {
            w.put(pool);
            w.put(key);
            w.put(cont);
            AskKind::PartLook
        }
    }
}

/// Decodes the body of a question to the daemon: one whose header names slot 0.
///
/// # Errors
/// `BadFrame::Body` or `BadFrame::BodySum` unless it is what the header says, `BadFrame::Payload` if there is one.
pub fn decode_system_request(header: &RequestHeader, body: &[u8]) -> Result<SystemVerb, BadFrame> {
    let bad_body = BadFrame::Body { kind: header.kind.number() };
    if header.payload_bytes > 0 {
        return Err(BadFrame::Payload { bytes: header.payload_bytes });
    }
    header.version.check_body(body, header.body_sum)?;
    let is_for_daemon =
        header.pool == PoolSlot::SYSTEM && header.target == NO_TARGET && header.cont == ContNo::default();
    let mut r = Reader::new(body);
    let verb = read_verb(header.kind, &mut r).ok_or(bad_body)?;
    let is_whole = r.remaining() == 0 && body.len() as u64 == u64::from(header.body_bytes);
    if is_for_daemon && is_whole { Ok(verb) } else { Err(bad_body) }
}

fn read_verb(kind: AskKind, r: &mut Reader<'_>) -> Option<SystemVerb> {
    Some(match kind {
        AskKind::Ping => SystemVerb::Ping,
        AskKind::SystemQuery => SystemVerb::Query,
        AskKind::PoolList => SystemVerb::PoolList,
        AskKind::PoolConnect => SystemVerb::PoolConnect { name: Field::read(r)?, access: Field::read(r)? },
        AskKind::PoolDisconnect => SystemVerb::PoolDisconnect { slot: Field::read(r)? },
        AskKind::PoolCreate => SystemVerb::PoolCreate(Field::read(r)?),
        AskKind::PoolDestroy => SystemVerb::PoolDestroy { name: Field::read(r)?, force: bool::read(r)? },
        AskKind::Stop => SystemVerb::Stop,
        AskKind::PoolEvict => SystemVerb::PoolEvict(Field::read(r)?),
        AskKind::PartEvict => SystemVerb::PartEvict { pool: Field::read(r)?, key: Field::read(r)? },
        AskKind::Compare => SystemVerb::Compare { rank: r.u32()?, list: Box::new(Field::read(r)?) },
        AskKind::PartCreate => SystemVerb::PartCreate(Box::new(PartSpec::read(r)?)),
        AskKind::PartConnect => SystemVerb::PartConnect { pool: Field::read(r)?, key: Field::read(r)? },
        AskKind::PartDestroy => SystemVerb::PartDestroy { pool: Field::read(r)?, key: Field::read(r)? },
        AskKind::PartLook => {
            SystemVerb::PartLook { pool: Field::read(r)?, key: Field::read(r)?, cont: Field::read(r)? }
        }
        _ => return None,
    })
}

/// Appends an answer of the daemon to `out`. One that no frame can hold becomes `RecTooBig`.
pub fn encode_system_reply(out: &mut Vec<u8>, to: &ReplyTo<'_>, result: &Result<SystemReply, Error>) {
    put_reply(out, to, result, |out, reply| {
        let mut w = Writer::new(out);
        let kind = put_system_reply(&mut w, reply, to.version);
        w.finish()?;
        Ok(Written { kind, status: 0, epoch: Epoch::ZERO, payload_bytes: 0 })
    });
}

fn put_system_reply(w: &mut Writer<'_>, reply: &SystemReply, version: Version) -> ReplyKind {
    match reply {
        SystemReply::Done => ReplyKind::SystemDone,
        SystemReply::System(info) => {
            w.put(info);
            ReplyKind::System
        }
        SystemReply::Pools(pools) => {
            w.list(pools, FRAME_BODY_BYTES_MAX);
            ReplyKind::Pools
        }
        SystemReply::Connected(connection) => {
            connection.put(w, version);
            ReplyKind::Connected
        }
        SystemReply::Created(pool) => {
            w.put(pool);
            ReplyKind::Created
        }
        SystemReply::Looked(looked) => {
            w.put(&**looked);
            ReplyKind::Looked
        }
    }
}

/// Decodes the body of an answer of the daemon.
///
/// # Errors
/// `BadFrame::Body` or `BadFrame::BodySum` unless it is what the header says, `BadFrame::Payload` if there is one.
pub fn decode_system_reply(
    header: &ReplyHeader,
    body: &[u8],
) -> Result<Result<SystemReply, Error>, BadFrame> {
    read_reply(header, body, |r| {
        Some(match header.kind {
            ReplyKind::SystemDone => SystemReply::Done,
            ReplyKind::System => SystemReply::System(Field::read(r)?),
            ReplyKind::Pools => SystemReply::Pools(read_list(r, FRAME_BODY_BYTES_MAX)?),
            ReplyKind::Connected => {
                SystemReply::Connected(Box::new(PoolConnection::read(r, header.version)?))
            }
            ReplyKind::Created => SystemReply::Created(Field::read(r)?),
            ReplyKind::Looked => SystemReply::Looked(Box::new(Looked::read(r)?)),
            _ => return None,
        })
    })
}
