//! Frames of every kind: there and back, golden numbers, and whatever else a peer may send.

mod any;
mod samples;

use super::*;
use crate::bytes::golden;
use crate::pool::{PoolReply, PoolVerb};
use crate::transport::{Answer, Ask};
use crate::verb::{
    Fetch, FetchIod, FetchedIod, List, ListWhat, NewValue, Payload, Punch, PunchScope, ReadAt, Reply, Update,
    UpdateIod, Verb, Want,
};
use dolmen_types::limits::{FRAME_BODY_BYTES_MAX, IODS_MAX, LIST_BYTES_MAX, LIST_ITEMS_MAX};
use dolmen_types::{
    Anchor, Cond, ContNo, Credentials, Epoch, Error, Head, Invalid, IoBuf, Key, Oid, Recx, RequestId,
    TargetNo,
};
use proptest::prelude::*;
use smallvec::{SmallVec, smallvec};

fn caller() -> Caller {
    caller_of(Version::NEWEST)
}

fn caller_of(version: Version) -> Caller {
    let cred = Credentials { uid: 1, gid: 2, project: 3 };
    let id = RequestId { client: 4, sequence: 5 };
    let head = Head { id, oldest: 6, deadline_ns: 7, map_version: 8, job: 9, tenant: 10, cred };
    Caller {
        version,
        token: 11,
        head,
        pool: PoolSlot(12),
        seen: Epoch(13),
        push_acked: 14,
        wants_lease: false,
        names_charged: version >= Version::Two,
        tells_ends: version >= Version::Two,
    }
}

/// A request as it goes over the wire, but for the checksum of its payload.
fn sent(ask: &Ask<'_>) -> Vec<u8> {
    sent_as(Version::NEWEST, ask)
}

fn sent_as(version: Version, ask: &Ask<'_>) -> Vec<u8> {
    let mut out = b"before".to_vec();
    let parts = encode_request(&mut out, &caller_of(version), ask).unwrap();
    [&out[6..], &parts.concat()].concat()
}

/// The same read back, with the buffer that a fetch needs.
fn received(frame: &[u8]) -> Result<(RequestHeader, Asked<'_>), BadFrame> {
    let (header, body, payload) = cut(frame)?;
    let asked = decode_request(&header, body, payload)?;
    Ok((header, with_room(asked)))
}

/// With the buffer that a fetch needs.
fn with_room(mut asked: Asked<'_>) -> Asked<'_> {
    if let Ask::Target(_, _, Verb::Fetch(fetch)) = &mut asked.ask {
        fetch.buf = IoBuf::zeroed(asked.room_bytes);
    }
    asked
}

/// The version that a header says that it has.
fn version_of(header: &[u8]) -> Version {
    Version::from_number(u16::from_le_bytes([header[4], header[5]])).unwrap()
}

fn kind_of(request: &[u8]) -> AskKind {
    AskKind::from_number(u16::from_le_bytes([request[6], request[7]])).unwrap()
}

fn cut(frame: &[u8]) -> Result<(RequestHeader, &[u8], &[u8]), BadFrame> {
    let (header, rest) = frame.split_first_chunk().ok_or(BadFrame::Magic)?;
    let header = RequestHeader::decode(header, version_of(header))?;
    let body_bytes = usize::try_from(header.body_bytes).unwrap();
    let (body, payload) = rest.split_at(body_bytes.min(rest.len()));
    Ok((header, body, payload))
}

/// A reply as it goes over the wire, without its payload.
fn replied(result: &Result<Answer, Error>, plan: Option<&FetchPlan>) -> Vec<u8> {
    replied_as(Version::NEWEST, result, plan)
}

fn replied_as(version: Version, result: &Result<Answer, Error>, plan: Option<&FetchPlan>) -> Vec<u8> {
    let mut out = b"before".to_vec();
    let to = ReplyTo { version, token: 1, map_version: 2, push_seq: 3, lease: (0, 0), plan };
    encode_reply(&mut out, &to, result);
    out.split_off(6)
}

fn read_back(frame: &[u8]) -> Result<Result<Answer, Error>, BadFrame> {
    let (header, body) = frame.split_first_chunk().ok_or(BadFrame::Magic)?;
    decode_reply(&ReplyHeader::decode(header, version_of(header))?, body)
}

fn system_sent(verb: &SystemVerb) -> Vec<u8> {
    system_sent_as(Version::NEWEST, verb)
}

fn system_sent_as(version: Version, verb: &SystemVerb) -> Vec<u8> {
    let mut out = b"before".to_vec();
    encode_system_request(&mut out, &caller_of(version), verb).unwrap();
    out.split_off(6)
}

fn system_replied(result: &Result<SystemReply, Error>) -> Vec<u8> {
    system_replied_as(Version::NEWEST, result)
}

fn system_replied_as(version: Version, result: &Result<SystemReply, Error>) -> Vec<u8> {
    let mut out = b"before".to_vec();
    let to = ReplyTo { version, token: 1, map_version: 2, push_seq: 3, lease: (0, 0), plan: None };
    encode_system_reply(&mut out, &to, result);
    out.split_off(6)
}

/// A frame of each kind of request, in the order of their numbers.
fn requests(version: Version) -> Vec<Vec<u8>> {
    let (asks, verbs) = (samples::asks(), samples::system_verbs());
    let sent = asks.iter().map(|ask| (sent_as(Version::NEWEST, ask), Some(ask), None));
    let system = verbs.iter().map(|verb| (system_sent(verb), None, Some(verb)));
    let known = sent.chain(system).filter(|(frame, ..)| kind_of(frame).since() <= version);
    known
        .map(|(_, ask, verb)| match (ask, verb) {
            (Some(ask), _) => sent_as(version, ask),
            (None, verb) => system_sent_as(version, verb.unwrap()),
        })
        .collect()
}

/// A frame of each error and of each kind of answer, in the order of their numbers.
fn replies(version: Version) -> Vec<Vec<u8>> {
    let system = samples::system_replies().into_iter().map(|reply| system_replied_as(version, &Ok(reply)));
    samples::results().iter().map(|result| frame_of_as(version, result)).chain(system).collect()
}

fn assert_request_returns(ask: &Ask<'_>) {
    let frame = sent(ask);
    let (header, asked) = received(&frame).unwrap();
    assert_eq!(format!("{:?}", asked.ask), format!("{ask:?}"));
    assert_eq!(header.head, caller().head);
    assert_eq!(sent(&asked.ask), frame);
    let (header, body, payload) = cut(&frame).unwrap();
    let owned = decode_request_owned(&header, body, IoBuf::copy_of(payload)).unwrap();
    assert_eq!(sent(&with_room(owned).ask), frame);
}

/// A plan to which these can be the answer.
fn plan_for(fetched: &[FetchedIod]) -> FetchPlan {
    let want = |fetched: &FetchedIod| match &fetched.filled[..] {
        [] => Want::Single { room_bytes: usize::try_from(fetched.size_bytes).unwrap() },
        filled => Want::Array { record_bytes: fetched.size_bytes, extents: filled.into() },
    };
    let iods = fetched.iter().map(|fetched| FetchIod { akey: Key::new(), want: want(fetched) }).collect();
    let mut fetch = Fetch {
        oid: Oid::default(),
        dkey: Key::new(),
        cond: Cond::NONE,
        at: ReadAt::Latest,
        iods,
        buf: IoBuf::default(),
    };
    fetch.buf.set_len(1 << 20);
    FetchPlan::of(&fetch)
}

fn frame_of(result: &Result<Answer, Error>) -> Vec<u8> {
    frame_of_as(Version::NEWEST, result)
}

fn frame_of_as(version: Version, result: &Result<Answer, Error>) -> Vec<u8> {
    match result {
        Ok(Answer::Target(Reply::Fetched(fetched))) => replied_as(version, result, Some(&plan_for(fetched))),
        _ => replied_as(version, result, None),
    }
}

fn assert_reply_returns(result: &Result<Answer, Error>) {
    let frame = frame_of(result);
    let back = read_back(&frame).unwrap();
    assert_eq!(format!("{back:?}"), format!("{result:?}"));
    assert_eq!(frame_of(&back), frame);
}

proptest! {
    #[test]
    fn every_question_to_a_target_returns(verb in any::verb(), target in 0..u16::MAX, cont: u32) {
        assert_request_returns(&Ask::Target(TargetNo(target), ContNo(cont), verb));
    }

    #[test]
    fn every_question_to_a_pool_returns(verb in any::pool_verb()) {
        assert_request_returns(&Ask::Pool(verb));
    }

    #[test]
    fn every_answer_of_a_target_returns(reply in any::reply()) {
        assert_reply_returns(&Ok(Answer::Target(reply)));
    }

    #[test]
    fn every_answer_of_a_pool_returns(reply in any::pool_reply()) {
        assert_reply_returns(&Ok(Answer::Pool(reply)));
    }

    #[test]
    fn every_question_to_the_daemon_returns(verb in any::system_verb()) {
        let frame = system_sent(&verb);
        let (header, body, _) = cut(&frame).unwrap();
        prop_assert_eq!(header.head, caller().head);
        prop_assert_eq!(decode_system_request(&header, body), Ok(verb));
    }

    #[test]
    fn every_answer_of_the_daemon_returns(reply in any::system_reply(), error in any::error()) {
        for result in [Ok(reply), Err(error)] {
            let frame = system_replied(&result);
            let (header, body) = frame.split_first_chunk().unwrap();
            prop_assert_eq!(decode_system_reply(&ReplyHeader::decode(header, Version::NEWEST).unwrap(), body), Ok(result));
        }
    }

    #[test]
    fn every_error_returns(error in any::error()) {
        assert_reply_returns(&Err(error));
    }
}

#[test]
fn the_bytes_of_requests_stay_as_they_are() {
    for version in Version::ALL {
        let found: Vec<_> = requests(version).iter().map(|f| (cut(f).unwrap().0.kind, golden(f))).collect();
        let rows = samples::GOLDEN_REQUESTS.iter().filter(|row| row.0.since() <= version);
        let expected: Vec<_> = rows.map(|row| (row.0, row.1[of(version)])).collect();
        assert_eq!(found, expected, "a change of these needs a new version of the wire");
        let kinds: Vec<AskKind> = found.iter().map(|&(kind, _)| kind).collect();
        let known = AskKind::ALL.iter().copied().filter(|kind| kind.since() <= version);
        assert_eq!(kinds, known.collect::<Vec<AskKind>>());
    }
}

#[test]
fn the_bytes_of_replies_stay_as_they_are() {
    let kind =
        |frame: &[u8]| ReplyHeader::decode(frame.first_chunk().unwrap(), version_of(frame)).unwrap().kind;
    for version in Version::ALL {
        let found: Vec<_> = replies(version).iter().map(|frame| (kind(frame), golden(frame))).collect();
        let expected: Vec<_> =
            samples::GOLDEN_REPLIES.iter().map(|row| (row.0, row.1[of(version)])).collect();
        assert_eq!(found, expected, "a change of these needs a new version of the wire");
        let mut kinds: Vec<ReplyKind> = found.iter().map(|&(kind, _)| kind).collect();
        kinds.dedup();
        // Pushes and parts have their numbers beside their code.
        assert_eq!(kinds, ReplyKind::ALL[..ReplyKind::ALL.len() - 4]);
    }
}

#[test]
fn what_a_version_does_not_know_is_neither_sent_nor_taken_in_it() {
    // The last numbers of version 1, as the programs have them that speak no other.
    let is_new = |kind: AskKind| kind.number() > 0x11d && kind != AskKind::TxCommitRead;
    let asks = samples::asks().into_iter().filter(|ask| is_new(kind_of(&sent(ask))));
    let mut seen = 0;
    let mut refused = |frame: &[u8], sent: Result<(), Error>, out: &[u8]| {
        assert_eq!((sent, out), (Err(Invalid::Argument.into()), &b"before"[..]));
        let header = RequestHeader::decode(frame.first_chunk().unwrap(), Version::Two).unwrap();
        let number = header.kind.number();
        let old = RequestHeader { version: Version::One, body_sum: 0, ..header }.encode();
        assert_eq!(RequestHeader::decode(&old, Version::One), Err(BadFrame::Kind { number }));
        seen += 1;
    };
    for ask in asks {
        let mut out = b"before".to_vec();
        let parts = encode_request(&mut out, &caller_of(Version::One), &ask).map(drop);
        refused(&sent(&ask), parts, &out);
    }
    for verb in samples::system_verbs().iter().filter(|verb| kind_of(&system_sent(verb)).number() > 0x20e) {
        let mut out = b"before".to_vec();
        let done = encode_system_request(&mut out, &caller_of(Version::One), verb);
        refused(&system_sent(verb), done, &out);
    }
    assert_eq!(seen, 9);
    // Whom a write is charged to is left out.
    let mut out = Vec::new();
    let charged = Ask::Target(TargetNo(0), ContNo(1), samples::charged());
    encode_request(&mut out, &caller_of(Version::One), &charged).unwrap();
    let mut plain = Vec::new();
    let ask = Ask::Target(TargetNo(0), ContNo(1), samples::update());
    encode_request(&mut plain, &caller_of(Version::One), &ask).unwrap();
    assert_eq!(out, plain);
    // So is where a transaction has only read.
    let having_read = Ask::Pool(samples::having_read());
    let frame = sent_as(Version::One, &having_read);
    let (_, asked) = received(&frame).unwrap();
    assert!(matches!(asked.ask, Ask::Pool(PoolVerb::TxCommit(commit)) if commit.read.is_empty()));
    assert_eq!(kind_of(&sent(&having_read)), AskKind::TxCommitRead);
}

/// The column of a version's golden numbers.
fn of(version: Version) -> usize {
    usize::from(version.number() - 1)
}

#[test]
fn every_number_of_a_message_is_pinned() {
    let asks: Vec<u16> = AskKind::ALL.iter().map(|kind| kind.number()).collect();
    let of_pool = (0x101..=0x11e).chain(0x120..=0x126).chain([0x301]);
    let expected: Vec<u16> = (1..=20).chain(of_pool).chain(0x201..=0x20f).collect();
    assert_eq!(asks, expected);
    let replies: Vec<u16> = ReplyKind::ALL.iter().map(|kind| kind.number()).collect();
    let expected: Vec<u16> = (0x8000..=0x800c)
        .chain(0x8101..=0x810e)
        .chain([0x8110, 0x8111, 0x8120])
        .chain(0x8201..=0x8206)
        .chain(0x8301..=0x8303)
        .chain([0x8401])
        .collect();
    assert_eq!(replies, expected);
    for number in 0..=u16::MAX {
        assert_eq!(AskKind::from_number(number).is_some(), asks.contains(&number), "{number}");
        assert_eq!(ReplyKind::from_number(number).is_some(), replies.contains(&number), "{number}");
    }
}

/// Cuts and changes the body and payload of a frame in every place, with its header telling the new lengths.
fn each_damage(frame: &[u8], header_bytes: usize, mut see: impl FnMut(&[u8])) {
    for len in header_bytes..frame.len() {
        see(&frame[..len]);
    }
    let mut changed = frame.to_vec();
    for at in header_bytes..frame.len() {
        for flip in [0x01, 0x10, 0x80, 0xff] {
            changed[at] ^= flip;
            see(&changed);
            changed[at] ^= flip;
        }
    }
    changed.push(0);
    see(&changed);
}

#[test]
fn no_damage_of_a_request_is_more_than_a_bad_frame() {
    let (mut good, mut bad) = (0, 0);
    for frame in requests(Version::One) {
        each_damage(&frame, REQUEST_HEADER_BYTES, |frame| {
            let (header, body, payload) = cut(frame).unwrap();
            let body_bytes = u32::try_from(body.len()).unwrap();
            let header = RequestHeader { body_bytes, payload_bytes: payload.len() as u64, ..header };
            let again = if header.pool == PoolSlot::SYSTEM {
                decode_system_request(&header, body).map(|verb| system_sent_as(Version::One, &verb))
            } else {
                decode_request(&header, body, payload)
                    .map(with_room)
                    .map(|asked| sent_as(Version::One, &asked.ask))
            };
            match again {
                Ok(again) => {
                    assert_eq!(again[REQUEST_HEADER_BYTES..], frame[REQUEST_HEADER_BYTES..], "{header:?}");
                    good += 1;
                }
                Err(_) => bad += 1,
            }
        });
    }
    assert!(good > 1000, "{good}");
    assert!(bad > 1000, "{bad}");
}

#[test]
fn no_damage_of_a_reply_is_more_than_a_bad_frame() {
    let (mut good, mut bad) = (0, 0);
    for frame in replies(Version::One) {
        each_damage(&frame, REPLY_HEADER_BYTES, |frame| {
            let (header, body) = frame.split_first_chunk().unwrap();
            let header = ReplyHeader::decode(header, Version::One).unwrap();
            let body_bytes = u32::try_from(body.len()).unwrap();
            let header = ReplyHeader { body_bytes, ..header };
            let is_answer = decode_reply(&header, body).is_ok();
            let is_of_daemon = decode_system_reply(&header, body).is_ok();
            assert!(!(is_answer && is_of_daemon) || header.kind == ReplyKind::Failed);
            if is_answer || is_of_daemon { good += 1 } else { bad += 1 }
        });
    }
    assert!(good > 1000, "{good}");
    assert!(bad > 1000, "{bad}");
}

#[test]
fn a_body_that_has_changed_on_the_way_is_not_decoded() {
    let mut seen = 0;
    for frame in requests(Version::Two) {
        let (header, body, payload) = cut(&frame).unwrap();
        each_flip(body, |body| {
            let refused = if header.pool == PoolSlot::SYSTEM {
                decode_system_request(&header, body).map(drop)
            } else {
                decode_request(&header, body, payload).map(drop)
            };
            assert_eq!(refused, Err(BadFrame::BodySum), "{header:?}");
            seen += 1;
        });
    }
    for frame in replies(Version::Two) {
        let (header, body) = frame.split_first_chunk().unwrap();
        let header = ReplyHeader::decode(header, Version::Two).unwrap();
        each_flip(body, |body| {
            assert_eq!(decode_reply(&header, body).map(drop), Err(BadFrame::BodySum), "{header:?}");
            assert_eq!(decode_system_reply(&header, body).map(drop), Err(BadFrame::BodySum), "{header:?}");
            seen += 1;
        });
    }
    assert!(seen > 10_000, "{seen}");
}

/// Turns each bit of `bytes` around.
fn each_flip(bytes: &[u8], mut see: impl FnMut(&[u8])) {
    let mut changed = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        changed[bit / 8] ^= 1 << (bit % 8);
        see(&changed);
        changed[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_frame_of_another_version_than_was_agreed_on_is_refused() {
    for (agreed, sent) in [(Version::One, Version::Two), (Version::Two, Version::One)] {
        let bad = BadFrame::Version { found: sent.number() };
        for frame in requests(sent) {
            assert_eq!(RequestHeader::decode(frame.first_chunk().unwrap(), agreed).unwrap_err(), bad);
        }
        for frame in replies(sent) {
            assert_eq!(ReplyHeader::decode(frame.first_chunk().unwrap(), agreed).unwrap_err(), bad);
        }
    }
}

#[test]
fn lengths_that_are_not_those_of_the_header_are_refused() {
    let ask = Ask::Target(TargetNo(1), ContNo(2), samples::update());
    let frame = sent(&ask);
    let (header, body, payload) = cut(&frame).unwrap();
    let bad_body = BadFrame::Body { kind: AskKind::Update.number() };
    assert_eq!(decode_request(&header, &body[1..], payload).unwrap_err(), bad_body);
    let bytes = payload.len() as u64 - 1;
    assert_eq!(decode_request(&header, body, &payload[1..]).unwrap_err(), BadFrame::Payload { bytes });
    let longer = [payload, b"x"].concat();
    let header = RequestHeader { payload_bytes: longer.len() as u64, ..header };
    let bytes = longer.len() as u64;
    assert_eq!(decode_request(&header, body, &longer).unwrap_err(), BadFrame::Payload { bytes });
}

#[test]
fn a_question_goes_only_to_whom_it_concerns() {
    let frame = sent(&Ask::Target(TargetNo(1), ContNo(2), Verb::Flush));
    let (header, body, payload) = cut(&frame).unwrap();
    let bad = |header: RequestHeader| decode_request(&header, body, payload).unwrap_err();
    let pool_service = RequestHeader { target: TargetNo(u16::MAX), cont: ContNo(0), ..header };
    assert_eq!(bad(pool_service), BadFrame::Body { kind: AskKind::Flush.number() });
    let kind = AskKind::PoolQuery;
    assert_eq!(bad(RequestHeader { kind, ..header }), BadFrame::Body { kind: kind.number() });
    assert!(decode_request(&RequestHeader { kind, ..pool_service }, body, payload).is_ok());
    let cont = ContNo(1);
    assert_eq!(bad(RequestHeader { kind, cont, ..pool_service }), BadFrame::Body { kind: kind.number() });
    let daemon = RequestHeader { pool: PoolSlot::SYSTEM, ..header };
    assert_eq!(bad(daemon), BadFrame::Body { kind: AskKind::Flush.number() });
    let mut out = Vec::new();
    let nowhere = Ask::Target(TargetNo(u16::MAX), ContNo(2), Verb::Flush);
    assert_eq!(encode_request(&mut out, &caller(), &nowhere).unwrap_err(), Invalid::Argument.into());
}

#[test]
fn a_question_to_the_daemon_is_one_in_slot_0() {
    let frame = system_sent(&SystemVerb::Ping);
    let (header, body, _) = cut(&frame).unwrap();
    assert_eq!((header.pool, header.target), (PoolSlot::SYSTEM, TargetNo(u16::MAX)));
    let bad = |header: RequestHeader| decode_system_request(&header, body).unwrap_err();
    let bad_body = BadFrame::Body { kind: AskKind::Ping.number() };
    assert_eq!(bad(RequestHeader { pool: PoolSlot(1), ..header }), bad_body);
    assert_eq!(bad(RequestHeader { target: TargetNo(0), ..header }), bad_body);
    assert_eq!(bad(RequestHeader { cont: ContNo(1), ..header }), bad_body);
    assert_eq!(bad(RequestHeader { payload_bytes: 1, ..header }), BadFrame::Payload { bytes: 1 });
    assert_eq!(decode_request(&header, body, b"").unwrap_err(), bad_body);
    let kind = AskKind::Flush;
    assert_eq!(bad(RequestHeader { kind, ..header }), BadFrame::Body { kind: kind.number() });
}

#[test]
fn what_no_frame_can_hold_is_refused_by_its_sender_as_a_target_would() {
    let update = |iods| {
        Verb::Update(Update { oid: Oid::default(), dkey: Key::new(), cond: Cond::NONE, iods, charged: None })
    };
    let iod = |value| UpdateIod { akey: Key::new(), cond: Cond::NONE, value };
    let punch = |scope| Verb::Punch(Punch { oid: Oid::default(), scope, cond: Cond::NONE });
    let key: Key = SmallVec::from_elem(1, 1 << 16);
    let extents = SmallVec::from_elem(Recx::new(0, 1), dolmen_types::limits::EXTENTS_MAX + 1);
    for (verb, error) in [
        (update(SmallVec::from_elem(iod(NewValue::NoSingle), IODS_MAX + 1)), Invalid::Count.into()),
        (update(smallvec![iod(NewValue::Hole { extents })]), Invalid::Count.into()),
        (punch(PunchScope::Dkey(key)), Error::KeyTooBig { needed_bytes: 1 << 16 }),
        (
            punch(PunchScope::Akeys(Key::new(), SmallVec::from_elem(Key::new(), IODS_MAX + 1))),
            Invalid::Count.into(),
        ),
    ] {
        let mut out = b"before".to_vec();
        let ask = Ask::Target(TargetNo(0), ContNo(1), verb);
        assert_eq!(encode_request(&mut out, &caller(), &ask).unwrap_err(), error);
        assert_eq!(out, b"before");
    }
}

#[test]
fn a_body_that_is_too_long_is_not_sent() {
    let half = FRAME_BODY_BYTES_MAX / 2;
    let attrs = |bytes: usize| PoolVerb::SetAttrs(None, vec![(String::new(), vec![7; bytes]); 2]);
    let mut out = b"before".to_vec();
    let longest = Ask::Pool(attrs(half - 16));
    assert!(encode_request(&mut out, &caller(), &longest).is_ok());
    out.truncate(6);
    for bytes in [half, FRAME_BODY_BYTES_MAX + 1] {
        let ask = Ask::Pool(attrs(bytes));
        let refused = encode_request(&mut out, &caller(), &ask).unwrap_err();
        assert!(
            matches!(refused, Error::RecTooBig { needed_bytes } if needed_bytes > FRAME_BODY_BYTES_MAX as u64)
        );
        assert_eq!(out, b"before");
    }
}

#[test]
fn an_answer_that_no_frame_can_hold_becomes_an_error() {
    let too_many = crate::verb::Listed::Objects(vec![Oid::default(); LIST_ITEMS_MAX as usize + 1]);
    let too_long = PoolReply::AttrNames(vec!["x".repeat(FRAME_BODY_BYTES_MAX / 2); 2]);
    for answer in [Answer::Target(Reply::Listed(too_many, Anchor::eof())), Answer::Pool(too_long)] {
        let back = read_back(&replied(&Ok(answer), None)).unwrap();
        assert!(matches!(back, Err(Error::RecTooBig { .. })), "{back:?}");
    }
}

#[test]
fn what_is_no_answer_to_a_fetch_becomes_an_error() {
    let fetched = |size_bytes| FetchedIod { size_bytes, filled: SmallVec::new(), is_end: false };
    let answer = |size_bytes| Ok(Answer::Target(Reply::Fetched(smallvec![fetched(size_bytes)])));
    let plan = plan_for(&[fetched(5)]);
    assert!(read_back(&replied(&answer(5), Some(&plan))).unwrap().is_ok());
    for (result, plan) in [(answer(6), Some(&plan)), (answer(5), None)] {
        let back = read_back(&replied(&result, plan)).unwrap();
        assert!(matches!(back, Err(Error::Io { .. })), "{back:?}");
    }
}

#[test]
fn a_fetch_gets_no_longer_a_buffer_than_its_answer_can_fill() {
    let room_of = |want: Want, buf_bytes| {
        let iods = smallvec![FetchIod { akey: Key::new(), want }];
        let buf = IoBuf::zeroed(buf_bytes);
        let at = ReadAt::Latest;
        let fetch = Fetch { oid: Oid::default(), dkey: Key::new(), cond: Cond::NONE, at, iods, buf };
        sent(&Ask::Target(TargetNo(0), ContNo(1), Verb::Fetch(fetch)))
    };
    let single = |room_bytes| Want::Single { room_bytes };
    for (frame, room_bytes) in [
        (room_of(single(100), 50), 50),
        (room_of(single(100), 5000), 100),
        (room_of(Want::Size, 5000), 0),
        (room_of(Want::Array { record_bytes: 8, extents: smallvec![Recx::new(0, 4)] }, 5000), 32),
        (room_of(Want::Array { record_bytes: u64::MAX, extents: smallvec![Recx::new(0, 4)] }, 5000), 5000),
    ] {
        let (header, body, payload) = cut(&frame).unwrap();
        assert_eq!(decode_request(&header, body, payload).unwrap().room_bytes, room_bytes);
    }
    // The room is behind oid, conditions, epoch and an empty dkey.
    let mut frame = room_of(single(100), 100);
    frame[REQUEST_HEADER_BYTES + 27] += 1;
    let (header, body, payload) = cut(&frame).unwrap();
    let header = RequestHeader { body_sum: crc32c(body), ..header };
    assert_eq!(
        decode_request(&header, body, payload).unwrap_err(),
        BadFrame::Body { kind: AskKind::Fetch.number() }
    );
}

#[test]
fn a_list_asks_for_no_more_than_an_answer_holds() {
    let list = List {
        what: ListWhat::Objects,
        anchor: Anchor::default(),
        items_max: u32::MAX,
        bytes_max: u32::MAX,
        at: ReadAt::Latest,
    };
    let frame = sent(&Ask::Target(TargetNo(0), ContNo(1), Verb::List(list)));
    let Ask::Target(_, _, Verb::List(list)) = received(&frame).unwrap().1.ask else { panic!("a list") };
    assert_eq!((list.items_max, list.bytes_max), (LIST_ITEMS_MAX, LIST_BYTES_MAX));
}

#[test]
fn a_value_that_is_the_whole_payload_moves_and_others_share_it() {
    let owned = |values: &[&'static [u8]]| {
        let iod = |bytes: &&'static [u8]| UpdateIod {
            akey: Key::new(),
            cond: Cond::NONE,
            value: NewValue::Single(Payload::Ref(bytes)),
        };
        let iods = values.iter().map(iod).collect();
        let update = Update { oid: Oid::default(), dkey: Key::new(), cond: Cond::NONE, iods, charged: None };
        let frame = sent(&Ask::Target(TargetNo(0), ContNo(1), Verb::Update(update)));
        let (header, body, payload) = cut(&frame).unwrap();
        let asked = decode_request_owned(&header, body, IoBuf::copy_of(payload)).unwrap();
        let Ask::Target(_, _, Verb::Update(update)) = asked.ask else { panic!("an update") };
        let data = update.iods.into_iter().map(|iod| match iod.value {
            NewValue::Single(data) => data,
            _ => panic!("a single value"),
        });
        let data: Vec<Payload<'static>> = data.collect();
        assert!(data.iter().zip(values).all(|(data, bytes)| data.bytes() == *bytes), "{values:?}");
        data
    };
    assert!(matches!(&owned(&[b"stone"])[..], [Payload::Owned(_)]));
    assert!(matches!(&owned(&[b"", b"stone"])[..], [Payload::Ref(_), Payload::Owned(_)]));
    let shared = owned(&[b"stone", b"", b"age"]);
    let [Payload::Shared { buf: first, .. }, Payload::Ref(_), Payload::Shared { buf: last, .. }] =
        &shared[..]
    else {
        panic!("{shared:?}");
    };
    assert!(std::sync::Arc::ptr_eq(first, last));
}

#[test]
fn a_count_of_more_than_there_can_be_is_refused() {
    for (kind, count_at) in [(AskKind::Update, 16 + 8 + 2), (AskKind::Fetch, 16 + 8 + 1 + 2 + 4)] {
        let mut body = vec![0; count_at];
        body.extend_from_slice(&u32::try_from(IODS_MAX).unwrap().to_le_bytes());
        body.resize(body.len() + 100, 0);
        let body_bytes = u32::try_from(body.len()).unwrap();
        let frame = sent(&Ask::Target(TargetNo(0), ContNo(1), Verb::Flush));
        let header = RequestHeader { kind, body_bytes, body_sum: crc32c(&body), ..cut(&frame).unwrap().0 };
        assert_eq!(decode_request(&header, &body, b"").unwrap_err(), BadFrame::Body { kind: kind.number() });
    }
}

mod plan {
    use super::*;

    fn fetch(wants: &[Want], buf_bytes: usize) -> Fetch {
        let iods = wants.iter().map(|want| FetchIod { akey: Key::new(), want: want.clone() }).collect();
        let buf = IoBuf::zeroed(buf_bytes);
        Fetch { oid: Oid::default(), dkey: Key::new(), cond: Cond::NONE, at: ReadAt::Latest, iods, buf }
    }

    fn array(record_bytes: u64, extents: &[(u64, u64)]) -> Want {
        let extents = extents.iter().map(|&(index, count)| Recx::new(index, count)).collect();
        Want::Array { record_bytes, extents }
    }

    fn found(size_bytes: u64, filled: &[(u64, u64)]) -> FetchedIod {
        let filled = filled.iter().map(|&(index, count)| Recx::new(index, count)).collect();
        FetchedIod { size_bytes, filled, is_end: false }
    }

    #[test]
    fn only_what_was_found_goes_over_the_wire_and_to_its_place() {
        let wants = [
            Want::Single { room_bytes: 8 },
            array(2, &[(20, 4), (10, 4)]),
            Want::Size,
            Want::Single { room_bytes: 4 },
        ];
        let plan = FetchPlan::of(&fetch(&wants, 100));
        let fetched = [found(3, &[]), found(2, &[(11, 2), (13, 1), (22, 2)]), found(99, &[]), found(4, &[])];
        assert_eq!(plan.parts(&fetched).unwrap().collect::<Vec<_>>(), [0..3, 12..16, 18..22, 22..24, 24..28]);
        let fetched = [found(3, &[]), found(2, &[(11, 3), (22, 2)]), found(99, &[]), found(4, &[])];
        let parts: Vec<_> = plan.parts(&fetched).unwrap().collect();
        assert_eq!(parts, [0..3, 12..16, 18..24, 24..28]);
        let mut buf = [b'.'; 100];
        let payload = b"abcABCDefghijWXYZ";
        plan.scatter(&fetched, payload, &mut buf).unwrap();
        assert_eq!(&buf[..30], b"abc.........ABCD..efghijWXYZ..");
        assert_eq!(plan.filled_bytes(&fetched), Some(payload.len()));
        assert_eq!(plan.scatter(&fetched, &payload[1..], &mut buf), None);
    }

    #[test]
    fn an_extent_asked_for_twice_is_sent_twice() {
        let plan = FetchPlan::of(&fetch(&[array(1, &[(0, 4), (2, 4)])], 8));
        let fetched = [found(1, &[(1, 4)])];
        assert_eq!(plan.parts(&fetched).unwrap().collect::<Vec<_>>(), [1..4, 4..7]);
    }

    #[test]
    fn what_is_no_answer_to_the_fetch_fills_nothing() {
        let plan = |want: Want| FetchPlan::of(&fetch(&[want], 64));
        let single = plan(Want::Single { room_bytes: 8 });
        assert!(single.parts(&[found(9, &[])]).is_none());
        assert!(single.parts(&[found(1, &[(0, 1)])]).is_none());
        assert!(single.parts(&[]).is_none());
        assert!(plan(Want::Single { room_bytes: 65 }).parts(&[found(1, &[])]).is_none());
        assert!(plan(Want::Size).parts(&[found(1, &[(0, 1)])]).is_none());
        let two = plan(array(4, &[(0, 8), (100, 8)]));
        assert!(two.parts(&[found(4, &[(0, 8), (100, 8)])]).is_some());
        for filled in [
            [(0, 9), (100, 1)],
            [(0, 1), (99, 2)],
            [(4, 1), (2, 1)],
            [(0, 0), (2, 1)],
            [(0, 1), (u64::MAX, 2)],
        ] {
            assert!(two.parts(&[found(4, &filled)]).is_none(), "{filled:?}");
        }
        assert!(two.parts(&[found(2, &[(0, 1)])]).is_none());
        assert!(plan(array(0, &[(0, 8)])).parts(&[found(0, &[(0, 1)])]).is_none());
        assert!(plan(array(u64::MAX, &[(0, 8)])).parts(&[found(0, &[])]).is_none());
        assert!(plan(array(1, &[(u64::MAX, 8)])).parts(&[found(0, &[])]).is_none());
    }
}
