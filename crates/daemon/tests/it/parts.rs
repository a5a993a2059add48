//! Long fetches that are answered in parts: what a client gets is of one epoch and verified, or an error, and who goes away
//! in the middle leaves nothing behind.

use crate::bystander::{Bystander, CONT, POOL};
use crate::child::{ChildDaemon, until};
use crate::common::{Scratch, Served, WAYS, Way};
use crate::hostile::fetch_array;
use crate::raw::{Opened, Raw, array_update};
use dolmen_client::{At, Object};
use dolmen_codec::pool::ContName;
use dolmen_codec::verb::{NewValue, Reply, Verb, Want};
use dolmen_codec::wire::{FEATURE_PARTS, ReplyKind, Version, decode_part, decode_reply};
use dolmen_codec::{Answer, Ask};
use dolmen_env::Rng;
use dolmen_types::{Epoch, Error, IoBuf, Label, ObjectClass, ObjectType, Props, Recx};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What is written: four windows of an array, so several parts.
const VALUE_BYTES: usize = 1 << 20;

fn object(served: &Served, way: Way, is_first: bool) -> Object {
    let link = served.link(way);
    if is_first {
        served.create(&link, "p");
    }
    let pool = served.pool(&link, "p");
    let label = Label::new("field").unwrap();
    if is_first {
        pool.create_container(Some(label.clone()), Props::default()).unwrap();
    }
    let cont = pool.open_container(&ContName::Label(label)).unwrap();
    cont.object(cont.oid(ObjectType::MultiHashed, ObjectClass::S1, 7, 1).unwrap()).unwrap()
}

fn read(object: &Object, buf: &mut IoBuf) -> dolmen_types::Result<u64> {
    let recx = Recx::new(0, buf.len() as u64);
    let found = object.read(At::Latest, b"k", b"a", 1, recx, buf)?;
    Ok(found.filled.iter().map(|recx| recx.count).sum())
}

fn write(object: &Object, byte: u8) {
    let recx = Recx::new(0, VALUE_BYTES as u64);
    object.write(At::Latest, b"k", b"a", 1, recx, &vec![byte; VALUE_BYTES]).unwrap();
}

/// Reads while another client overwrites and then does `more`, until a value has changed under the reader so many times.
fn read_beside_a_writer(way: Way, changes_wanted: u32, more: impl Fn(&Object) + Sync) {
    let served = Served::start();
    let (reader, writer) = (object(&served, way, true), object(&served, way, false));
    write(&writer, 1);
    let is_over = AtomicBool::new(false);
    let mut changes = 0;
    dolmen_env::scope(|threads| {
        threads.spawn(|| {
            for turn in 0..u64::MAX {
                if is_over.load(Ordering::Acquire) {
                    break;
                }
                write(&writer, (turn % 250) as u8 + 1);
                more(&writer);
            }
        });
        let mut last = 0;
        // As long as it takes for values to change under the reader.
        for _ in 0..100_000 {
            let mut buf = IoBuf::zeroed(VALUE_BYTES);
            assert_eq!(read(&reader, &mut buf), Ok(VALUE_BYTES as u64), "{way:?}");
            let torn = buf.iter().position(|&byte| byte != buf[0]);
            assert_eq!(torn, None, "{way:?}: two values in one read, {} and others", buf[0]);
            changes += u32::from(buf[0] != last);
            last = buf[0];
            if changes == changes_wanted {
                break;
            }
        }
        is_over.store(true, Ordering::Release);
    });
    assert_eq!(changes, changes_wanted, "{way:?}: nobody has overwritten anything");
}

#[test]
fn a_long_read_is_of_one_epoch_while_another_client_overwrites() {
    for way in WAYS {
        read_beside_a_writer(way, 100, |_| ());
    }
}

#[test]
fn a_long_read_is_of_one_epoch_or_given_anew_while_another_client_overwrites_and_aggregates() {
    for way in WAYS {
        read_beside_a_writer(way, 8, |writer| {
            writer.container().aggregate(Epoch::ZERO).unwrap();
        });
    }
}

/// A daemon and a container with a value of `VALUE_BYTES` that a raw client reads.
fn served(dir: &Scratch) -> (ChildDaemon, Bystander) {
    let daemon = ChildDaemon::start(dir.path());
    let bystander = Bystander::first(daemon.link(Way::Rings));
    (daemon, bystander)
}

/// Bytes without a repetition.
fn pattern() -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    Rng::from_seed(5).fill(&mut value);
    value
}

fn stored(raw: &mut Raw, opened: Opened, value: &[u8]) {
    assert!(matches!(
        raw.ask(opened, &array_update(opened, b"k", value)),
        Ok(Answer::Target(Reply::Written(_)))
    ));
}

/// Records, and what was found of them.
type Part = (Recx, Vec<u8>);

/// The frames that answer a fetch of all of it: parts, and what ended them unless it was the last part.
fn fetched(raw: &mut Raw, opened: Opened) -> (Vec<Part>, Option<dolmen_types::Result<Answer>>) {
    let ask: Ask<'_> = fetch_array(opened, b"k", VALUE_BYTES as u64);
    let frame = raw.frame(5, opened.slot, &ask);
    raw.send(&frame);
    let mut parts = Vec::new();
    loop {
        let (header, body, payload) = raw.reply().unwrap();
        assert_eq!(header.token, 5);
        if header.kind != ReplyKind::FetchedPart {
            return (parts, Some(decode_reply(&header, &body).unwrap()));
        }
        let part = decode_part(&header, &body).unwrap();
        assert_eq!(&part.fetched.filled[..], [part.recx], "all of it was written");
        let end = part.recx.index + part.recx.count;
        parts.push((part.recx, payload));
        if end == VALUE_BYTES as u64 {
            return (parts, None);
        }
    }
}

#[test]
fn parts_come_in_order_to_who_takes_them_and_one_answer_to_who_does_not() {
    let dir = Scratch::new();
    let (daemon, _bystander) = served(&dir);
    let value = pattern();
    for way in WAYS {
        let mut raw = Raw::connect_with(&daemon, way, (Version::NEWEST, FEATURE_PARTS));
        let opened = raw.open(POOL, CONT);
        stored(&mut raw, opened, &value);
        let (parts, end) = fetched(&mut raw, opened);
        assert!(end.is_none(), "the last part ends it");
        assert!(parts.len() >= 4, "{way:?}: {} parts", parts.len());
        let mut next = 0;
        for (recx, payload) in parts {
            assert_eq!(recx.index, next, "{way:?}: a gap");
            next += recx.count;
            assert!(payload[..] == value[recx.index as usize..next as usize], "{way:?}: changed");
        }
        let mut old = Raw::connect(&daemon, way);
        let opened = old.open(POOL, CONT);
        let (parts, end) = fetched(&mut old, opened);
        assert_eq!(parts.len(), 0, "{way:?}: an old client knows no parts");
        assert!(matches!(end, Some(Ok(Answer::Target(Reply::Fetched(_))))), "{way:?}");
    }
}

/// Files of bulk below a directory.
fn bulk_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(bulk_files(&path));
        } else if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("bulk.")) {
            found.push(path);
        }
    }
    found
}

/// Changes one byte of what is stored, `at` so far behind the beginning of `value`.
fn damage(dir: &Path, value: &[u8], at: usize) {
    use std::os::unix::fs::FileExt;
    let mut damaged = 0;
    for path in bulk_files(dir) {
        let bytes = std::fs::read(&path).unwrap();
        let starts = (0..bytes.len()).step_by(4096).filter(|&start| bytes[start..].starts_with(&value[..64]));
        for start in starts {
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(&[!bytes[start + at]], (start + at) as u64).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1, "the value lies in one place");
}

#[test]
fn damage_in_the_middle_is_an_error_and_no_byte_of_its_part_is_shown() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    let value = pattern();
    let mut raw = Raw::connect_with(&daemon, Way::Rings, (Version::NEWEST, FEATURE_PARTS));
    let opened = raw.open(POOL, CONT);
    stored(&mut raw, opened, &value);
    let at = VALUE_BYTES * 3 / 4 + 100;
    damage(dir.path(), &value, at);
    for way in WAYS {
        let mut raw = Raw::connect_with(&daemon, way, (Version::NEWEST, FEATURE_PARTS));
        let opened = raw.open(POOL, CONT);
        let (parts, end) = fetched(&mut raw, opened);
        assert!(!parts.is_empty(), "{way:?}: it was read whole");
        assert!(parts.iter().all(|(recx, _)| recx.index + recx.count <= at as u64), "{way:?}");
        assert!(matches!(end, Some(Err(Error::Corrupt { .. }))), "{way:?}: {end:?}");
        // The connection goes on.
        assert!(matches!(fetched(&mut raw, opened).1, Some(Err(Error::Corrupt { .. }))), "{way:?}");
    }
    bystander.goes_on();
}

#[test]
fn who_goes_in_the_middle_of_an_answer_leaves_nothing_behind() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    let value = pattern();
    let mut first = Raw::connect_with(&daemon, Way::Rings, (Version::NEWEST, FEATURE_PARTS));
    let opened = first.open(POOL, CONT);
    stored(&mut first, opened, &value);
    drop(first);
    until("the first one is gone", || daemon.ring_count() <= 1);
    let before = (daemon.descriptor_count(), daemon.ring_count());
    for way in WAYS {
        for _ in 0..20 {
            let mut raw = Raw::connect_with(&daemon, way, (Version::NEWEST, FEATURE_PARTS));
            let opened = raw.open(POOL, CONT);
            // More than rings and sockets hold, so that most of it is still to come.
            for _ in 0..8 {
                let frame = raw.frame(5, opened.slot, &fetch_array(opened, b"k", VALUE_BYTES as u64));
                raw.send(&frame);
            }
            assert_eq!(raw.reply().unwrap().0.kind, ReplyKind::FetchedPart);
        }
        bystander.goes_on();
    }
    until("all of them are gone", || (daemon.descriptor_count(), daemon.ring_count()) == before);
    let mut raw = Raw::connect_with(&daemon, Way::Rings, (Version::NEWEST, FEATURE_PARTS));
    let opened = raw.open(POOL, CONT);
    assert!(fetched(&mut raw, opened).1.is_none(), "others are answered");
}

/// A fetch of `len` records of the array under `k`, into a buffer of `room` bytes.
fn fetch_into(opened: Opened, len: u64, room: usize) -> Ask<'static> {
    let mut ask = fetch_array(opened, b"k", 0);
    let Ask::Target(_, _, Verb::Fetch(fetch)) = &mut ask else { unreachable!("it is a fetch") };
    fetch.buf = IoBuf::zeroed(room);
    fetch.iods[0].want = Want::Array { record_bytes: 1, extents: [Recx::new(0, len)].into_iter().collect() };
    ask
}

#[test]
fn a_buffer_that_is_shorter_than_its_extent_is_one_answer_whatever_the_extent_says() {
    let dir = Scratch::new();
    let (daemon, mut bystander) = served(&dir);
    let mut first = Raw::connect_with(&daemon, Way::Rings, (Version::NEWEST, FEATURE_PARTS));
    let opened = first.open(POOL, CONT);
    stored(&mut first, opened, &pattern());
    for way in WAYS {
        for (len, room) in
            [(1 << 50, 0), (1 << 34, 0), (1 << 34, 100_000), (VALUE_BYTES as u64, VALUE_BYTES - 1)]
        {
            let mut raw = Raw::connect_with(&daemon, way, (Version::NEWEST, FEATURE_PARTS));
            let opened = raw.open(POOL, CONT);
            let frame = raw.frame(5, opened.slot, &fetch_into(opened, len, room));
            raw.send(&frame);
            let (header, body, _) = raw.reply().unwrap();
            assert_ne!(header.kind, ReplyKind::FetchedPart, "{way:?}: {len} into {room}");
            let answer = decode_reply(&header, &body).unwrap();
            assert!(answer.is_err(), "{way:?}: {len} into {room}: {answer:?}");
            // The connection goes on.
            assert!(fetched(&mut raw, opened).1.is_none());
        }
        bystander.goes_on();
    }
    daemon.assert_sound();
}

/// Windows of an array, of [`VALUE_BYTES`] each.
const WINDOWS: u64 = 64;

#[test]
fn who_does_not_read_an_answer_in_parts_holds_a_few_of_them() {
    let dir = Scratch::new();
    let (daemon, _bystander) = served(&dir);
    let mut first = Raw::connect_with(&daemon, Way::Rings, (Version::NEWEST, FEATURE_PARTS));
    let opened = first.open(POOL, CONT);
    let value = pattern();
    for window in 0..WINDOWS {
        let mut ask = array_update(opened, b"k", &value);
        let Ask::Target(_, _, Verb::Update(update)) = &mut ask else { unreachable!("it is an update") };
        let NewValue::Array { extents, .. } = &mut update.iods[0].value else { unreachable!("of an array") };
        extents[0].index = window * VALUE_BYTES as u64;
        assert!(matches!(first.ask(opened, &ask), Ok(Answer::Target(Reply::Written(_)))));
    }
    let before = daemon.resident_bytes();
    let mut open = Vec::new();
    for way in WAYS {
        let mut raw = Raw::connect_with(&daemon, way, (Version::NEWEST, FEATURE_PARTS));
        let opened = raw.open(POOL, CONT);
        let whole = WINDOWS * VALUE_BYTES as u64;
        let frame = raw.frame(5, opened.slot, &fetch_into(opened, whole, usize::try_from(whole).unwrap()));
        raw.send(&frame);
        open.push(raw);
    }
    // Turns enough to read all of it several times.
    first.takes_turns(opened, 5000);
    let held = daemon.resident_bytes().saturating_sub(before);
    // All of it is 192 MiB; the allocator keeps some tens of others' buffers.
    assert!(held < 112 << 20, "{} MiB for answers that nobody reads", held >> 20);
    for (raw, way) in open.iter_mut().zip(WAYS) {
        let mut next = 0;
        while next < WINDOWS * VALUE_BYTES as u64 {
            let (header, body, payload) = raw.reply().unwrap();
            let part = decode_part(&header, &body).unwrap();
            assert_eq!(part.recx.index, next, "{way:?}");
            let start = usize::try_from(next).unwrap() % VALUE_BYTES;
            assert!(payload[..] == value[start..start + payload.len()], "{way:?}: changed at {next}");
            next += part.recx.count;
        }
    }
    daemon.assert_sound();
}
