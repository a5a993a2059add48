//! Where the payload of a reply goes: into the buffer that waits for it.
//!
//! Invariants: an answer is to a request that was sent on this connection and not answered, or to one that nobody waits for;
//! a buffer takes payload of its own request alone, and no byte beyond its end, whatever the other side says, and is with its
//! request or on the way; what nobody wants takes no memory.

use crate::client::pending::{Decoded, Finished, Given, Late, Pending, Progress, Requests, Waiter};
use crate::error::{Error as NetError, Result as NetResult, Violation};
use crate::input::{Landing, bad_frame};
use core::ops::Range;
use dolmen_codec::Answer;
use dolmen_codec::verb::Reply;
use dolmen_codec::wire::{
    FetchedPart, Push, ReplyHeader, ReplyKind, decode_part, decode_reply, decode_system_reply,
};
use dolmen_types::IoBuf;

/// Memory for what nobody wants, at a time.
const NOWHERE_BYTES: usize = 64 << 10;

/// Decodes a reply, and says where its payload goes.
pub(super) fn land(
    requests: &mut Requests,
    decoded: &mut Option<Decoded>,
    header: &ReplyHeader,
    body: &[u8],
) -> NetResult<Landing> {
    if header.token == 0 && is_push(header.kind) {
        *decoded = Some(Decoded::Push(Push::decode(header, body).map_err(bad_frame)?));
        return Ok(Landing::default());
    }
    // Nobody waits for it any more.
    let Some(pending) = requests.of_mut(header.token) else {
        return Ok(nowhere(header.payload_bytes as usize));
    };
    if !matches!(pending.progress, Progress::Sent) {
        return Err(NetError::Protocol(Violation::Answer));
    }
    if is_of_system(&pending.waiter) {
        let reply = decode_system_reply(header, body).map_err(bad_frame)?;
        *decoded = Some(Decoded::Finished(Finished::System(reply)));
        return Ok(Landing::default());
    }
    let len = header.payload_bytes as usize;
    if header.kind == ReplyKind::FetchedPart {
        let part = decode_part(header, body).map_err(bad_frame)?;
        let landing = land_part(pending, &part, len).ok_or(NetError::Protocol(Violation::Answer))?;
        *decoded = Some(Decoded::Part(part));
        return Ok(landing);
    }
    let result = decode_reply(header, body).map_err(bad_frame)?;
    let landing = match (&result, pending.plan.as_ref()) {
        (Ok(Answer::Target(Reply::Fetched(fetched))), Some(plan)) => {
            if let Some(buf) = &mut pending.buf {
                pending.gathered.give_up(plan, buf);
            }
            let parts = plan.parts(fetched).ok_or(NetError::Protocol(Violation::Answer))?.collect();
            land_whole(pending, parts, len).ok_or(NetError::Protocol(Violation::Answer))?
        }
        _ => Landing::default(),
    };
    *decoded = Some(Decoded::Finished(Finished::Pool(result)));
    Ok(landing)
}

fn is_push(kind: ReplyKind) -> bool {
    matches!(kind, ReplyKind::Invalidate | ReplyKind::RevokeAll | ReplyKind::MapChanged)
}

/// Where a payload goes that nobody wants: over itself, whatever length the other side says.
fn nowhere(len: usize) -> Landing {
    let buf = IoBuf::zeroed(len.min(NOWHERE_BYTES));
    let parts = (0..len).step_by(NOWHERE_BYTES).map(|at| 0..NOWHERE_BYTES.min(len - at)).collect();
    Landing { buf, parts }
}

fn is_of_system(waiter: &Waiter) -> bool {
    match waiter {
        Waiter::System(_) | Waiter::Nobody(Late::Pool) => true,
        Waiter::Farewell(farewell) => matches!(farewell.to, Given::Pool(_)),
        Waiter::Caller(..) | Waiter::Queue { .. } | Waiter::Nobody(Late::Handles(..)) => false,
    }
}

/// Where the payload of a whole answer goes; `None` if it has come already, or has another length than it says.
fn land_whole(pending: &mut Pending, parts: Vec<Range<usize>>, len: usize) -> Option<Landing> {
    let room: usize = parts.iter().map(Range::len).sum();
    let has_room = |buf: &IoBuf| room == len && parts.iter().all(|part| part.end <= buf.len());
    match pending.buf.take_if(|buf| has_room(buf)) {
        Some(buf) => Some(Landing { buf, parts }),
        None => (parts.is_empty() && len == 0).then(Landing::default),
    }
}

/// Where the payload of a part goes; `None` unless it is the next one of an answer that is waited for, and as long as it says.
fn land_part(pending: &mut Pending, part: &FetchedPart, len: usize) -> Option<Landing> {
    let places = pending.gathered.places(pending.plan.as_ref()?, part)?;
    let room: usize = places.iter().map(Range::len).sum();
    let has_room = |buf: &IoBuf| room == len && places.iter().all(|place| place.end <= buf.len());
    let buf = pending.buf.take_if(|buf| has_room(buf))?;
    Some(Landing { buf, parts: places.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::pools::Pools;
    use crate::client::session::{Attached, Handles};
    use crate::client::slot::{SessionNo, SlotOn};
    use dolmen_codec::verb::{Fetch, FetchIod, FetchedIod, ReadAt, Want};
    use dolmen_codec::wire::{
        FetchPlan, PoolAccess, PoolName, PoolSlot, Pushed, REPLY_HEADER_BYTES, ReplyTo, SystemVerb, Version,
        encode_reply,
    };
    use dolmen_types::limits::FRAME_PAYLOAD_BYTES_MAX;
    use dolmen_types::{Cond, Epoch, Head, Key, ObjectClass, ObjectType, Oid, Uuid};

    const LEN: usize = 64;

    fn plan() -> FetchPlan {
        let want = Want::Single { room_bytes: LEN };
        let iods = [FetchIod { akey: Key::from_slice(b"a"), want }].into_iter().collect();
        let oid = Oid::new(ObjectType::MultiHashed, ObjectClass::S1, 77, 5);
        let (dkey, buf) = (Key::from_slice(b"d"), IoBuf::zeroed(LEN));
        FetchPlan::of(&Fetch { oid, dkey, cond: Cond::NONE, at: ReadAt::Latest, iods, buf })
    }

    fn caller() -> Waiter {
        let slot = SlotOn::new(PoolSlot(1), SessionNo::next());
        let connect =
            SystemVerb::PoolConnect { name: PoolName::Uuid(Uuid::nil()), access: PoolAccess::ReadWrite };
        let pool = Pools::default().insert(Attached::new(slot, connect, Head::default()));
        Waiter::Caller(pool, Handles::Same)
    }

    /// Header and body of an answer that has found all that was asked for.
    fn answer(token: u64) -> (ReplyHeader, Vec<u8>) {
        let (plan, mut frame) = (plan(), Vec::new());
        let to = ReplyTo {
            version: Version::Two,
            token,
            map_version: 0,
            push_seq: 0,
            lease: (0, 0),
            plan: Some(&plan),
        };
        let found = FetchedIod { size_bytes: LEN as u64, ..FetchedIod::default() };
        let fetched = Answer::Target(Reply::Fetched([found].into_iter().collect()));
        encode_reply(&mut frame, &to, &Ok(fetched));
        let body = frame.split_off(REPLY_HEADER_BYTES);
        let header = ReplyHeader::decode(frame.as_slice().try_into().unwrap(), Version::Two).unwrap();
        (header, body)
    }

    #[test]
    fn a_push_answers_nothing_and_what_is_none_has_no_token_of_one() {
        let push =
            Push { what: Pushed::RevokeAll, lease: 0, epoch: Epoch::ZERO, push_seq: 1, map_version: 0 };
        let mut frame = Vec::new();
        push.encode(&mut frame, Version::Two);
        let header = ReplyHeader::decode(frame.first_chunk().unwrap(), Version::Two).unwrap();
        let mut decoded = None;
        land(&mut Requests::default(), &mut decoded, &header, &[]).unwrap();
        assert!(matches!(decoded, Some(Decoded::Push(found)) if found == push));
        // As clients take it that know no pushes.
        let (header, body) = answer(0);
        let mut decoded = None;
        land(&mut Requests::default(), &mut decoded, &header, &body).unwrap();
        assert!(decoded.is_none());
    }

    #[test]
    fn an_answer_to_nobody_takes_no_memory_for_its_length() {
        for len in [0, 1, NOWHERE_BYTES, NOWHERE_BYTES + 1, FRAME_PAYLOAD_BYTES_MAX] {
            let (mut header, body) = answer(7);
            header.payload_bytes = u32::try_from(len).unwrap();
            let landing = land(&mut Requests::default(), &mut None, &header, &body).unwrap();
            assert_eq!(landing.parts.iter().map(ExactSizeIterator::len).sum::<usize>(), len);
            assert!(landing.buf.len() <= NOWHERE_BYTES, "{len} bytes");
            assert!(landing.parts.iter().all(|part| part.end <= landing.buf.len()));
        }
    }

    fn landed(requests: &mut Requests, token: u64) -> NetResult<usize> {
        let (header, body) = answer(token);
        land(requests, &mut None, &header, &body).map(|landing| landing.buf.len())
    }

    #[test]
    fn payload_lands_once_in_the_buffer_of_a_request_that_was_sent_and_nowhere_else() {
        let refused = || Err(NetError::Protocol(Violation::Answer));
        let mut requests = Requests::default();
        let token = requests.begin(caller(), Some(plan()), Some(IoBuf::zeroed(LEN)), 0);
        assert_eq!(landed(&mut requests, token), refused(), "it was not asked for on this connection");
        requests.of_mut(token).unwrap().progress = Progress::Sent;
        assert_eq!(landed(&mut requests, token), Ok(LEN));
        assert_eq!(landed(&mut requests, token), refused(), "it has come already");
        requests.of_mut(token).unwrap().buf = Some(IoBuf::zeroed(LEN - 1));
        assert_eq!(landed(&mut requests, token), refused(), "the buffer is shorter");
        assert!(requests.of_mut(token).unwrap().buf.is_some(), "and stays with its request");
    }

    #[test]
    fn payload_of_another_length_than_its_answer_says_takes_no_buffer_away() {
        let mut requests = Requests::default();
        let token = requests.begin(caller(), Some(plan()), Some(IoBuf::zeroed(LEN)), 0);
        requests.of_mut(token).unwrap().progress = Progress::Sent;
        let (mut header, body) = answer(token);
        header.payload_bytes -= 1;
        let landed = land(&mut requests, &mut None, &header, &body);
        assert_eq!(landed.map(drop), Err(NetError::Protocol(Violation::Answer)));
        assert_eq!(requests.of_mut(token).unwrap().buf.as_ref().map(|buf| buf.len()), Some(LEN));
    }
}
