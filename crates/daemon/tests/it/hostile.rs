//! Clients that break every rule: each loses its connection, or is told an error, and nobody else notices.

use crate::bystander::{Bystander, CONT, POOL};
use crate::child::{ChildDaemon, until};
use crate::common::{Scratch, WAYS, Way};
use crate::raw::{Opened, RING_BYTES, Raw, array_update, assert_closed, hello, oid, push, silent, update};
use dolmen_codec::pool::{OpenFor, PoolReply, PoolVerb};
use dolmen_codec::verb::{Fetch, FetchIod, ReadAt, Verb, Want};
use dolmen_codec::wire::{PoolSlot, REQUEST_HEADER_BYTES, SystemVerb, Version};
use dolmen_codec::{Answer, Ask};
use dolmen_env::Rng;
use dolmen_types::{Cond, ContNo, Error, IoBuf, Key, Recx, TargetNo, crc32c, limits};
use std::sync::atomic::{AtomicBool, Ordering};

/// A daemon and somebody who uses it.
fn served(dir: &Scratch) -> (ChildDaemon, Bystander) {
    let daemon = ChildDaemon::start(dir.path());
    let bystander = Bystander::first(daemon.link(Way::Rings));
    (daemon, bystander)
}

/// Writes the checksum of a header that was changed.
fn seal(frame: &mut [u8]) {
    let head: [u8; 4] = frame[4..8].try_into().unwrap();
    let sum = crc32c(&frame[12..REQUEST_HEADER_BYTES]) ^ u32::from_le_bytes(head);
    frame[8..12].copy_from_slice(&sum.to_le_bytes());
}

/// A frame with some bytes of its header replaced, and the checksum right again.
fn forged(frame: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut forged = frame.to_vec();
    forged[at..at + bytes.len()].copy_from_slice(bytes);
    seal(&mut forged);
    forged
}

fn fetch(opened: Opened, dkey: &[u8], want: Want) -> Ask<'static> {
    let room = match &want {
        Want::Single { room_bytes } => *room_bytes,
        Want::Array { extents, .. } => extents.iter().map(|recx| recx.count as usize).sum(),
        Want::Size => 0,
    };
    let iods = [FetchIod { akey: Key::from_slice(b"a"), want }].into_iter().collect();
    let (dkey, buf) = (Key::from_slice(dkey), IoBuf::zeroed(room));
    let fetch = Fetch { oid: oid(), dkey, cond: Cond::NONE, at: ReadAt::Latest, iods, buf };
    Ask::Target(TargetNo(0), opened.cont, Verb::Fetch(fetch))
}

pub(crate) fn fetch_array(opened: Opened, dkey: &[u8], len: u64) -> Ask<'static> {
    let extents = [Recx::new(0, len)].into_iter().collect();
    fetch(opened, dkey, Want::Array { record_bytes: 1, extents })
}

#[test]
fn what_is_no_hello_closes_its_connection_and_nothing_else() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    let good = hello(0);
    let mut flipped = good;
    flipped[40] ^= 1;
    let garbage = [0x5a; 64];
    for way in [Way::Socket, Way::Tcp] {
        for (what, bytes) in [("garbage", garbage), ("a flipped bit", flipped), ("zeros", [0; 64])] {
            let mut stream = silent(&daemon, way);
            push(&mut stream, &bytes).unwrap();
            assert_closed(&mut stream, what);
        }
        let mut twice = silent(&daemon, way);
        push(&mut twice, &[good, good, good].concat()).unwrap();
        assert_closed(&mut twice, "a hello again");
        let mut half = silent(&daemon, way);
        push(&mut half, &good[..63]).unwrap();
        drop(half);
        bystander.goes_on();
    }
    daemon.assert_sound();
}

#[test]
fn bad_frames_close_their_connection_and_nothing_else() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    for (way, version) in WAYS.into_iter().flat_map(|way| Version::ALL.map(|version| (way, version))) {
        let mut raw = Raw::connect_as(&daemon, way, version);
        let opened = raw.open(POOL, CONT);
        let good = raw.frame(5, opened.slot, &update(opened, b"k", b"value"));
        let too_long = u32::try_from(limits::FRAME_BODY_BYTES_MAX + 1).unwrap().to_le_bytes();
        let body_bytes = u32::from_le_bytes(good[92..96].try_into().unwrap());
        let payload_too_long = u32::try_from(limits::FRAME_PAYLOAD_BYTES_MAX + 1).unwrap().to_le_bytes();
        let mut flipped = good.clone();
        flipped[70] ^= 8;
        let cases = [
            ("garbage", vec![0x77; 200]),
            ("a wrong checksum", flipped),
            ("an unknown kind", forged(&good, 6, &9999_u16.to_le_bytes())),
            ("another version", forged(&good, 4, &77_u16.to_le_bytes())),
            ("flags", forged(&good, 12, &1_u32.to_le_bytes())),
            ("no token", forged(&good, 16, &0_u64.to_le_bytes())),
            ("a body beyond all limits", forged(&good, 92, &too_long)),
            ("a payload beyond all limits", forged(&good, 96, &payload_too_long)),
            ("a payload longer than its values", [forged(&good, 96, &6_u32.to_le_bytes()), vec![0]].concat()),
            ("a payload shorter than its values", forged(&good, 96, &4_u32.to_le_bytes())),
            ("a body cut short", forged(&good, 92, &(body_bytes - 1).to_le_bytes())),
            ("a pool's question to the daemon", forged(&good, 90, &0_u16.to_le_bytes())),
        ];
        for (what, bytes) in cases {
            let mut raw = Raw::connect_as(&daemon, way, version);
            assert_eq!(raw.open(POOL, CONT).slot, opened.slot);
            raw.send(&good);
            assert!(raw.answer().1.is_ok(), "{what}: what came before it is carried out");
            raw.send(&bytes);
            assert_closed(&mut raw.stream, what);
        }
        bystander.goes_on();
    }
    // The connections of the loop had a handle each.
    until("handles are given back", || bystander.handle_count() == 1);
    daemon.assert_sound();
}

#[test]
fn what_does_not_exist_is_answered_with_an_error() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    for way in WAYS {
        let mut raw = Raw::connect(&daemon, way);
        let opened = raw.open(POOL, CONT);
        for slot in [2, 17, u16::MAX].map(PoolSlot) {
            let ask = update(opened, b"k", b"v");
            assert_eq!(raw.ask(Opened { slot, ..opened }, &ask).unwrap_err(), Error::NoPermission);
        }
        for target in [2, 1000, u16::MAX - 1].map(TargetNo) {
            let Ask::Target(_, cont, verb) = update(opened, b"k", b"v") else { panic!("it is for a target") };
            let answer = raw.ask(opened, &Ask::Target(target, cont, verb));
            assert!(matches!(answer, Err(Error::Invalid(_))), "{answer:?}");
        }
        for cont in [ContNo(77), ContNo(u32::MAX)] {
            let answer = raw.ask(Opened { cont, ..opened }, &update(Opened { cont, ..opened }, b"k", b"v"));
            assert_eq!(answer.unwrap_err(), Error::NoContainer);
        }
        let system = Opened { cont: ContNo::SYSTEM, ..opened };
        assert_eq!(raw.ask(system, &update(system, b"k", b"v")).unwrap_err(), Error::NoPermission);
        let unknown = raw.system_frame(3, &SystemVerb::PoolDisconnect { slot: PoolSlot(9) });
        raw.send(&unknown);
        assert_eq!(raw.reply().unwrap().0.token, 3);
        // Whoever uses a token twice gets two answers for it.
        let twice = [1, 2].map(|n| raw.frame(8, opened.slot, &update(opened, &[n], b"v"))).concat();
        raw.send(&twice);
        assert_eq!([raw.answer().0, raw.answer().0], [8, 8]);
        bystander.goes_on();
    }
    daemon.assert_sound();
}

#[test]
fn a_handle_is_closed_once_by_whoever_has_opened_it() {
    let dir = Scratch::new();
    let (daemon, bystander) = served(&dir);
    let mut raw = Raw::connect(&daemon, Way::Rings);
    let opened = raw.open(POOL, CONT);
    assert_eq!(bystander.handle_count(), 2);
    let close = Ask::Pool(PoolVerb::ContClose(opened.cont));
    let frames: Vec<u8> = (1..=20).flat_map(|token| raw.frame(token, opened.slot, &close)).collect();
    raw.send(&frames);
    let answers: Vec<_> = (0..20).map(|_| raw.answer().1).collect();
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(bystander.handle_count(), 1, "the other one's is open still");
    // A pool that is left while a handle is on its way: nobody has it then.
    for token in 1..50 {
        let opened = raw.open(POOL, CONT);
        let uuid = dolmen_codec::pool::ContName::Uuid(bystander.cont.uuid());
        let open = raw.frame(token, opened.slot, &Ask::Pool(PoolVerb::ContOpen(uuid, OpenFor::Any)));
        let leave = raw.system_frame(token, &SystemVerb::PoolDisconnect { slot: opened.slot });
        raw.send(&[open, leave].concat());
        assert_eq!([raw.reply().unwrap().0.token, raw.reply().unwrap().0.token], [token, token]);
    }
    until("handles are given back", || bystander.handle_count() == 1);
    daemon.assert_sound();
}

#[test]
fn a_sender_of_single_bytes_is_answered() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    for way in WAYS {
        let mut raw = Raw::connect(&daemon, way);
        let opened = raw.open(POOL, CONT);
        let frame = raw.frame(6, opened.slot, &update(opened, b"slow", b"one byte at a time"));
        for byte in frame {
            raw.send(&[byte]);
        }
        assert!(raw.answer().1.is_ok());
        let found = raw.ask(opened, &fetch(opened, b"slow", Want::Size));
        assert!(matches!(found, Ok(Answer::Target(_))), "{found:?}");
    }
    bystander.goes_on();
    daemon.assert_sound();
}

#[test]
fn lengths_take_no_memory_before_there_is_something_that_long() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    bystander.goes_on();
    let before = daemon.resident_bytes();
    let mut open = Vec::new();
    for way in WAYS.into_iter().cycle().take(90) {
        let mut raw = Raw::connect(&daemon, way);
        let opened = raw.open(POOL, CONT);
        let good = raw.frame(5, opened.slot, &update(opened, b"k", b"value"));
        let bytes = if open.len() % 2 == 0 {
            let body_bytes = u32::try_from(limits::FRAME_BODY_BYTES_MAX).unwrap();
            forged(&good, 92, &body_bytes.to_le_bytes())
        } else {
            forged(&good, 96, &(limits::FRAME_PAYLOAD_BYTES_MAX as u64).to_le_bytes())
        };
        raw.send(&bytes);
        open.push(raw);
    }
    // All of them are waited for, and nobody else waits for them.
    bystander.goes_on();
    let taken = daemon.resident_bytes().saturating_sub(before);
    assert!(taken < 200 << 20, "{} MiB for 90 headers", taken >> 20);
    drop(open);
    until("handles are given back", || bystander.handle_count() == 1);
    // Nothing counts as held that nobody holds any more.
    let mut raw = Raw::connect(&daemon, Way::Rings);
    let opened = raw.open(POOL, CONT);
    let value = vec![7; 8 << 20];
    for dkey in 0..4_u8 {
        assert!(raw.ask(opened, &update(opened, &[dkey], &value)).is_ok());
    }
    daemon.assert_sound();
}

/// Sends on from where each of them is, up to `end`, as long as any of it is taken; whether that is all.
fn send_on(raws: &mut [(Raw, usize)], bytes: &[u8], end: usize) -> bool {
    let (mut moved, mut is_all) = (true, false);
    while moved {
        (moved, is_all) = (false, true);
        for (raw, at) in raws.iter_mut() {
            let len = if *at < end { raw.stream.write(&bytes[*at..end]).unwrap() } else { 0 };
            (*at, moved) = (*at + len, moved || len > 0);
            is_all &= raw.stream.flush().unwrap() && *at == end;
        }
    }
    is_all
}

#[test]
fn bodies_that_do_not_end_take_no_more_memory_than_there_is_for_requests() {
    const MIB: u64 = 1 << 20;
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    bystander.goes_on();
    let attrs = |len| Ask::Pool(PoolVerb::SetAttrs(None, vec![(String::from("long"), vec![7; len])]));
    let mut maker = Raw::connect(&daemon, Way::Socket);
    let slot = maker.open(POOL, CONT).slot;
    let long = maker.frame(5, slot, &attrs(limits::FRAME_BODY_BYTES_MAX - 100));
    let body = &long[REQUEST_HEADER_BYTES..];
    let body_bytes = u32::try_from(body.len()).unwrap().to_le_bytes();
    let lengths = [body_bytes, [0; 4], crc32c(body).to_le_bytes()].concat();
    let before = daemon.resident_bytes();
    let mut raws = Vec::new();
    for _ in 0..32 {
        let mut raw = Raw::connect(&daemon, Way::Socket);
        assert_eq!(raw.open(POOL, CONT).slot, slot);
        let head = forged(&raw.frame(5, slot, &attrs(0))[..REQUEST_HEADER_BYTES], 92, &lengths);
        raw.send(&head);
        raws.push((raw, 0));
    }
    // As much of it as is taken before nothing was for a while.
    let mut idle = 0;
    while idle < 100 {
        let at = |raws: &[(Raw, usize)]| raws.iter().map(|&(_, at)| at).sum::<usize>();
        let last = at(&raws);
        send_on(&mut raws, body, body.len() - 1);
        idle = if at(&raws) == last { idle + 1 } else { 0 };
        dolmen_env::wait(std::time::Duration::from_millis(5));
    }
    for _ in 0..3 {
        bystander.goes_on();
    }
    let taken = daemon.resident_bytes().saturating_sub(before) / MIB;
    // Each connection's share, and for each thread what all may have and one may go beyond; the rest is the allocator's.
    let threads = (dolmen_env::cpu_count() / 2).clamp(1, 8) as u64;
    let most = 32 * 16 + threads * (512 + 64) + 256;
    assert!(taken < most, "{taken} MiB for requests that have not come");
    // Some go in the middle, so the others have room, one after the other.
    let mut turn = 0_u32;
    raws.retain(|_| {
        turn += 1;
        turn.is_multiple_of(2)
    });
    until("all has come", || send_on(&mut raws, body, body.len()));
    for (raw, _) in &mut raws {
        assert_eq!(raw.answer().0, 5);
    }
    bystander.goes_on();
    let left = daemon.resident_bytes().saturating_sub(before) / MIB;
    assert!(left < 300, "{left} MiB of requests that are answered");
    daemon.assert_sound();
}

#[test]
fn who_never_reads_keeps_nobody_waiting_and_is_forgotten_with_its_connection() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    bystander.goes_on();
    let (descriptors, rings) = (daemon.descriptor_count(), daemon.ring_count());
    for way in WAYS {
        let mut raw = Raw::connect(&daemon, way);
        let opened = raw.open(POOL, CONT);
        let value = vec![9; 1 << 20];
        assert!(raw.ask(opened, &array_update(opened, b"long", &value)).is_ok());
        let before = daemon.resident_bytes();
        // As many as it can say before it would have to read.
        let question = raw.frame(7, opened.slot, &fetch_array(opened, b"long", 1 << 20));
        let mut sent = 0;
        while sent < 3000 && raw.stream.write(&question).unwrap() == question.len() {
            raw.stream.flush().unwrap();
            sent += 1;
        }
        assert!(sent > 100, "{sent}");
        for _ in 0..5 {
            bystander.goes_on();
        }
        let taken = daemon.resident_bytes().saturating_sub(before);
        assert!(taken < 250 << 20, "{way:?}: {} MiB for answers that nobody reads", taken >> 20);
        // It does not die, it only goes.
        drop(raw);
        until("its connection is gone", || daemon.descriptor_count() == descriptors);
        until("its memory is gone", || daemon.ring_count() == rings);
        until("its handle is given back", || bystander.handle_count() == 1);
    }
    daemon.assert_sound();
}

#[test]
fn who_reads_late_gets_every_answer() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    for way in WAYS {
        let mut raw = Raw::connect(&daemon, way);
        let opened = raw.open(POOL, CONT);
        let value: Vec<u8> = (0..1_u32 << 20).map(|at| (at % 249).to_le_bytes()[0]).collect();
        assert!(raw.ask(opened, &array_update(opened, b"long", &value)).is_ok());
        let mut frames = Vec::new();
        for token in 1..=100 {
            frames.extend(raw.frame(token, opened.slot, &fetch_array(opened, b"long", 1 << 20)));
        }
        raw.send(&frames);
        bystander.goes_on();
        let mut tokens = Vec::new();
        for _ in 0..100 {
            let (header, _, payload) = raw.reply().unwrap();
            assert!(payload == value, "{way:?}: token {}", header.token);
            tokens.push(header.token);
        }
        tokens.sort_unstable();
        assert_eq!(tokens, (1..=100).collect::<Vec<u64>>());
    }
    daemon.assert_sound();
}

#[test]
fn a_closed_side_closes_the_connection() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    let descriptors = daemon.descriptor_count();
    for way in WAYS {
        for side in [rustix::net::Shutdown::Read, rustix::net::Shutdown::Write, rustix::net::Shutdown::Both] {
            let mut raw = Raw::connect(&daemon, way);
            let opened = raw.open(POOL, CONT);
            rustix::net::shutdown(raw.stream.socket(), side).unwrap();
            let ask = raw.frame(4, opened.slot, &fetch(opened, b"k", Want::Size));
            // Ignored: whether this still goes out depends on the way.
            let _sent = push(&mut raw.stream, &ask);
            if side == rustix::net::Shutdown::Read {
                drop(raw);
            } else {
                until("it is closed", || daemon.descriptor_count() == descriptors);
            }
        }
        bystander.goes_on();
        until("all are closed", || daemon.descriptor_count() == descriptors);
    }
    daemon.assert_sound();
}

#[test]
fn forged_indices_of_rings_close_their_connection_and_nothing_else() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    let ring_bytes = RING_BYTES as u64;
    // Of the ring to the daemon its tail, of the ring from it its head.
    for (at, name) in [(4096, "tail"), (4096 + 1024 + 128, "head")] {
        for forged in [u64::MAX, 1 << 63, ring_bytes * 3, 1 << 40, 0] {
            let mut raw = Raw::connect(&daemon, Way::Rings);
            let opened = raw.open(POOL, CONT);
            let frames: Vec<u8> = (1..=40)
                .flat_map(|token| raw.frame(token, opened.slot, &update(opened, b"k", &[1; 1000])))
                .collect();
            // Part of a frame is there, the rest is on its way.
            raw.send(&frames[..9_000]);
            raw.memory.as_ref().unwrap().store(at, forged);
            let call = [std::io::IoSlice::new(&[0x21; 8])];
            raw.stream.socket().write(&call).unwrap();
            let mut end = [0; 4096];
            let what = format!("{name} {forged}");
            until(&what, || match raw.stream.socket().read(&mut end) {
                Ok(dolmen_env::Moved::End) | Err(_) => true,
                // A head is looked at when the ring is full, so it is filled.
                Ok(_) => {
                    let more =
                        raw.frame(50, opened.slot, &fetch(opened, b"k", Want::Single { room_bytes: 1000 }));
                    // Ignored: our own side does not know any more what lies in the rings.
                    let _sent = raw.stream.write(&more).and_then(|_| raw.stream.flush());
                    false
                }
            });
        }
    }
    bystander.goes_on();
    daemon.assert_sound();
}

/// Says that something is over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn payload_that_changes_while_it_is_copied_is_stored_under_the_checksum_of_what_was_copied() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    // With checksums on the way it would not be stored at all.
    let mut raw = Raw::connect_as(&daemon, Way::Rings, Version::One);
    let opened = raw.open(POOL, CONT);
    let theirs = raw.memory.take().unwrap();
    // Each frame takes a whole ring, so all begin at the same place; the other thread leaves headers and bodies alone.
    let start = usize::try_from(theirs.load(4096)).unwrap() % RING_BYTES;
    let bare = raw.frame(1, opened.slot, &update(opened, b"k", b"")).len();
    let is_over = AtomicBool::new(false);
    dolmen_env::scope(|threads| {
        threads.spawn(|| {
            for byte in (0..=250_u8).cycle() {
                for at in (start + bare + 64..start + RING_BYTES - 64).step_by(64) {
                    theirs.copy_in(8192 + at / 64 * 64 % RING_BYTES, &[byte; 64]);
                }
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        // However this ends.
        let _end = Over(&is_over);
        for turn in 0..200_u8 {
            let value = vec![turn; RING_BYTES - bare];
            let frame = raw.frame(1, opened.slot, &update(opened, &[turn], &value));
            assert_eq!(frame.len(), RING_BYTES);
            raw.send(&frame);
            let (_, answer, _) = raw.answer();
            assert!(answer.is_ok(), "turn {turn}: {answer:?}");
        }
    });
    let mut changed = 0;
    for turn in 0..200_u8 {
        let want = Want::Single { room_bytes: RING_BYTES };
        let frame = raw.frame(2, opened.slot, &fetch(opened, &[turn], want));
        raw.send(&frame);
        let (_, answer, payload) = raw.answer();
        assert!(answer.is_ok(), "turn {turn}: {answer:?}");
        changed += usize::from(payload.iter().any(|&byte| byte != turn));
    }
    assert!(changed > 0, "nothing was changed in time");
    let mut other = Raw::connect(&daemon, Way::Socket);
    let opened = other.open(POOL, CONT);
    match other.ask(opened, &Ask::Pool(PoolVerb::Scrub)) {
        Ok(Answer::Pool(PoolReply::Audits(audits))) => {
            assert!(audits.iter().all(|audit| audit.findings.is_empty()), "{audits:?}");
        }
        other => panic!("{other:?}"),
    }
    bystander.goes_on();
    daemon.assert_sound();
}

/// Rounds and seed of the loop below.
const ROUNDS: u64 = 2000;
const SEED: u64 = 77;

#[test]
fn changed_bytes_of_good_traffic_disturb_nobody() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    let mut rng = Rng::from_seed(SEED);
    let mut recorder = Raw::connect(&daemon, Way::Socket);
    let opened = recorder.open(POOL, CONT);
    let uuid = dolmen_codec::pool::ContName::Uuid(bystander.cont.uuid());
    let asks = [
        update(opened, b"k", b"value"),
        array_update(opened, b"array", &[3; 5000]),
        fetch(opened, b"k", Want::Single { room_bytes: 100 }),
        fetch_array(opened, b"array", 5000),
        Ask::Pool(PoolVerb::ContQuery(opened.cont)),
        Ask::Pool(PoolVerb::ContOpen(uuid, OpenFor::Any)),
        Ask::Pool(PoolVerb::SnapList(opened.cont)),
        Ask::Pool(PoolVerb::TxBegin),
    ];
    for round in 0..ROUNDS {
        let way = WAYS[usize::try_from(rng.below(3)).unwrap()];
        let mut raw = Raw::connect(&daemon, way);
        let here = raw.open(POOL, CONT);
        assert_eq!((here.slot, here.cont), (opened.slot, opened.cont));
        let mut bytes: Vec<u8> =
            (1..).zip(&asks).flat_map(|(token, ask)| raw.frame(token, opened.slot, ask)).collect();
        for _ in 0..=rng.below(3) {
            let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            bytes[at] ^= 1 << rng.below(8);
        }
        // Every other time with a right checksum of the first header, so that more of it is believed.
        if rng.below(2) == 0 {
            seal(&mut bytes);
        }
        // Ignored: it may be closed in the middle.
        let _sent = push(&mut raw.stream, &bytes);
        if round.is_multiple_of(8) {
            // Ignored: it may be closed already.
            let _shut = rustix::net::shutdown(raw.stream.socket(), rustix::net::Shutdown::Write);
            assert_closed(&mut raw.stream, &format!("seed {SEED}, round {round}"));
        }
        if round.is_multiple_of(200) {
            bystander.goes_on();
            daemon.assert_sound();
        }
    }
    until("handles are given back", || bystander.handle_count() <= 2);
    bystander.goes_on();
    daemon.assert_sound();
}

#[test]
fn long_answers_of_the_service_that_nobody_reads_take_the_memory_of_one_or_two() {
    let dir = Scratch::new();
    let (daemon, _bystander) = served(&dir);
    let mut first = Raw::connect(&daemon, Way::Socket);
    let opened = first.open(POOL, CONT);
    for turn in 0..4 {
        let names = (0..1000).map(|at| (format!("{turn}-{at}-{:x<490}", ""), vec![1])).collect();
        let set = Ask::Pool(PoolVerb::SetAttrs(Some(opened.cont), names));
        assert!(first.ask(opened, &set).is_ok());
    }
    let before = daemon.resident_bytes();
    let mut open = Vec::new();
    for way in WAYS {
        let mut raw = Raw::connect(&daemon, way);
        let opened = raw.open(POOL, CONT);
        // Each is answered with 2 MiB.
        for token in 1..=60 {
            let frame = raw.frame(token, opened.slot, &Ask::Pool(PoolVerb::AttrNames(Some(opened.cont))));
            raw.send(&frame);
        }
        open.push(raw);
    }
    first.takes_turns(opened, 5000);
    let held = daemon.resident_bytes().saturating_sub(before);
    assert!(held < 150 << 20, "{} MiB for answers that nobody reads", held >> 20);
    // All of them come.
    for raw in &mut open {
        for _ in 0..60 {
            let (_, answer, _) = raw.answer();
            assert!(matches!(answer, Ok(Answer::Pool(PoolReply::AttrNames(names))) if names.len() == 4000));
        }
    }
}
