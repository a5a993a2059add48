//! Bit rot: every written byte of every file is flipped in turn, in a closed store and in one whose machine
//! stopped.

use crate::rig::{CONT, Rig, oid, tiny};
use dolmen_codec::log_frame::{LOG_FRAME_SEAL_BYTES, LogFrame};
use dolmen_codec::log_segment::LogSegmentHeader;
use dolmen_codec::superblock::{SUPERBLOCK_SLOT_BYTES, Superblock};
use dolmen_codec::verb::{ContVerb, Finding, List, ListWhat, Listed, PunchScope, ReadAt, Reply, Verb, Want};
use dolmen_engine::{Devices, Target, TargetConfig};
use dolmen_env::Media;
use dolmen_env::sim::{CrashPlan, SimConfig, SimDisk, SimDrive, SimFiles, SimPower};
use dolmen_types::{Anchor, Cond, Durability, Epoch, Error, Key, Place, Recx};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A page without any written byte is free space.
const PAGE_BYTES: usize = 4096;
const EXTENT: Recx = Recx { index: 5, count: 3000 };
const BULK_BYTES: usize = 5000;
const REMOVED: &[u8] = b"to be removed";
/// Small values of both rounds, as dkey and round.
const SMALL: [(u8, u8); 7] = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1), (2, 1)];

/// A closed store, and the epoch before its values were replaced.
struct Closed {
    files: SimFiles,
    media: Media,
    old: Epoch,
}

fn small_value(number: u8, round: u8) -> Vec<u8> {
    (0..60 + number).map(|at| (at.wrapping_mul(7) ^ number ^ (round << 6)) | 1).collect()
}

fn long_value(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from(at % 251).unwrap() ^ seed).collect()
}

/// Two rounds of values with a checkpoint, a close and an open between them.
fn closed(media: Media) -> Closed {
    let mut rig = Rig::with_config(media, Durability::Power, tiny());
    for number in 0..4 {
        rig.put(oid(1), &[number], b"a", &small_value(number, 0)).unwrap();
    }
    rig.put(oid(1), &[4], b"a", &long_value(BULK_BYTES, 1)).unwrap();
    rig.write(oid(1), &[5], b"x", EXTENT.index, 1, &long_value(3000, 2)).unwrap();
    let old = rig.put(oid(1), &[6], b"a", REMOVED).unwrap();
    rig.ask(Verb::Cont(ContVerb::AddSnapshot(old))).unwrap();
    rig.ask(Verb::Checkpoint).unwrap();
    rig.close_and_reopen();
    rig.put(oid(1), &[0], b"a", &small_value(0, 1)).unwrap();
    rig.put(oid(1), &[1], b"a", &small_value(1, 1)).unwrap();
    rig.punch(oid(1), PunchScope::Dkey(Key::from_slice(&[6])), Cond::NONE).unwrap();
    rig.ask(Verb::Checkpoint).unwrap();
    rig.put(oid(1), &[2], b"a", &small_value(2, 1)).unwrap();
    rig.target.take().unwrap().close().unwrap();
    Closed { files: rig.drive.files(), media, old }
}

fn open(files: &SimFiles, media: Media, rig: &mut Rig) -> Result<(), Error> {
    open_on(SimConfig { seed: 1, media, ..SimConfig::default() }, files, rig)
}

fn open_on(config: SimConfig, files: &SimFiles, rig: &mut Rig) -> Result<(), Error> {
    rig.drive = SimDrive::with_files(config, &SimPower::new(), files);
    let devices = Devices { meta: Box::new(SimDisk::new(&rig.drive)), bulk: None };
    let (target, recovery) = Target::open(devices, Arc::new(rig.clock.clone()), &rig.config)?;
    rig.target = Some(target);
    rig.recovery = recovery;
    Ok(())
}

/// Right, or an error that says what was damaged.
fn judge<T: PartialEq>(what: &str, found: Result<T, Error>, right: &T, wrong: &mut Vec<String>) -> bool {
    match found {
        Ok(found) if found == *right => return false,
        Ok(_) => wrong.push(format!("{what}: wrong data")),
        Err(Error::Corrupt { .. }) => {}
        Err(error) => wrong.push(format!("{what}: {error:?}")),
    }
    true
}

fn list(rig: &mut Rig) -> Result<Vec<Vec<u8>>, Error> {
    let mut all = Vec::new();
    let mut anchor = Anchor::default();
    while !anchor.is_eof() {
        let what = ListWhat::Dkeys(oid(1));
        let list = List { what, anchor, items_max: 100, bytes_max: 1 << 20, at: ReadAt::Latest };
        match rig.ask(Verb::List(list))? {
            Reply::Listed(Listed::Keys(keys), next) => {
                all.extend(keys.iter().map(<[u8]>::to_vec));
                anchor = next;
            }
            other => panic!("{other:?}"),
        }
    }
    all.sort();
    Ok(all)
}

/// Reads everything, at the latest epoch and at the old one; returns whether any damage was reported.
fn read_all(rig: &mut Rig, old: Epoch, wrong: &mut Vec<String>) -> bool {
    let mut reported = false;
    for (at, is_old) in [(ReadAt::Latest, false), (ReadAt::Epoch(old), true)] {
        for number in 0..7u8 {
            let right = match number {
                5 => continue,
                4 => Some(long_value(BULK_BYTES, 1)),
                6 => is_old.then(|| REMOVED.to_vec()),
                3 => Some(small_value(3, 0)),
                _ => Some(small_value(number, u8::from(!is_old))),
            };
            let want = Want::Single { room_bytes: 6000 };
            let found = rig.fetch(oid(1), &[number], b"a", want, 6000, at).map(|(size, _, mut bytes)| {
                bytes.truncate(usize::try_from(size).unwrap());
                (size > 0).then_some(bytes)
            });
            reported |= judge(&format!("dkey {number} at {at:?}"), found, &right, wrong);
        }
        let want = Want::Array { record_bytes: 1, extents: [Recx::new(0, 3010)].into_iter().collect() };
        let found = rig.fetch(oid(1), &[5], b"x", want, 3010, at);
        let found = found.map(|(_, filled, bytes)| (filled, bytes[5..3005].to_vec()));
        reported |= judge("extent", found, &(vec![EXTENT], long_value(3000, 2)), wrong);
    }
    let keys: Vec<Vec<u8>> = (0..6).map(|number| vec![number]).collect();
    reported |= judge("dkeys", list(rig), &keys, wrong);
    for verb in [Verb::Check, Verb::Scrub] {
        match rig.ask(verb) {
            Ok(Reply::Audited(audit)) => reported |= !audit.findings.is_empty(),
            Err(Error::Corrupt { .. }) => reported = true,
            other => wrong.push(format!("audit: {other:?}")),
        }
    }
    reported
}

/// What a store says after damage: whether it reported any, and what it got wrong.
fn examine(closed: &Closed, files: &SimFiles, rig: &mut Rig) -> (bool, Vec<String>) {
    let mut wrong = Vec::new();
    let reported = match open(files, closed.media, rig) {
        Ok(()) => read_all(rig, closed.old, &mut wrong),
        Err(Error::Corrupt { .. }) => true,
        Err(error) => {
            wrong.push(format!("open: {error:?}"));
            true
        }
    };
    rig.target = None;
    (reported, wrong)
}

/// The bit of a byte that rots: any of the eight, always the same one.
fn rotten_bit(offset: u64) -> u8 {
    u8::try_from(offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61).unwrap()
}

/// Bytes of a manifest, whose file is longer, none of the spare one; `None` of other files.
fn used_bytes(files: &SimFiles, name: &str) -> Option<usize> {
    let slots = files.bytes("super").unwrap();
    let slots = slots.chunks(SUPERBLOCK_SLOT_BYTES).filter_map(Superblock::decode);
    let newest = slots.max_by_key(|superblock| superblock.sequence).unwrap();
    let is_current = name == format!("manifest.{:08x}", newest.manifest);
    name.starts_with("manifest.").then_some(if is_current { newest.manifest_bytes as usize } else { 0 })
}

/// Flips every byte of a file that is not free space; returns how many were flipped and how many reported.
fn flip_file(closed: &Closed, rig: &mut Rig, name: &str, failures: &mut Vec<String>) -> (u64, u64) {
    let (mut flips, mut reports) = (0, 0);
    let mut bytes = closed.files.bytes(name).unwrap();
    bytes.truncate(used_bytes(&closed.files, name).unwrap_or(usize::MAX));
    for (page, bytes) in bytes.chunks(PAGE_BYTES).enumerate() {
        if bytes.iter().all(|&byte| byte == 0) {
            continue;
        }
        for at in 0..bytes.len() {
            let offset = (page * PAGE_BYTES + at) as u64;
            let mut files = closed.files.clone();
            assert!(files.flip(name, offset, rotten_bit(offset)));
            flips += 1;
            let place = format!("{:?} media, {name} byte {offset}", closed.media);
            match catch_unwind(AssertUnwindSafe(|| examine(closed, &files, rig))) {
                Ok((reported, wrong)) => {
                    reports += u64::from(reported);
                    failures.extend(wrong.into_iter().map(|wrong| format!("{place}: {wrong}")));
                }
                Err(_) => failures.push(format!("{place}: panic")),
            }
        }
    }
    (flips, reports)
}

fn flip_every_byte(media: Media) {
    let closed = closed(media);
    let mut rig = Rig::bare(media, tiny());
    let (reported, wrong) = examine(&closed, &closed.files, &mut rig);
    assert!(!reported, "the undamaged store is reported");
    assert_eq!(wrong, Vec::<String>::new());
    let (mut in_log, mut in_bulk, mut total, mut failures) = (0, 0, 0, Vec::new());
    for (name, _) in closed.files.iter() {
        let (flips, reports) = flip_file(&closed, &mut rig, name, &mut failures);
        total += flips;
        match name.split('.').next().unwrap() {
            "log" => in_log += reports,
            "bulk" => in_bulk += reports,
            // Either slot is enough, and opening writes both again: it may as well be a write that was torn.
            "super" => assert_eq!(reports, 0, "{flips} flips in {name}"),
            _ => assert_eq!(reports, flips, "every byte of {name} counts"),
        }
    }
    failures.truncate(20);
    assert_eq!(failures, Vec::<String>::new());
    assert!(total <= 256 << 10, "{total} flips");
    let small: usize = SMALL.iter().map(|&(number, round)| small_value(number, round).len()).sum();
    assert_eq!(in_log, (small + REMOVED.len()) as u64, "each byte of a small value, nothing else");
    assert_eq!(in_bulk, BULK_BYTES as u64 + EXTENT.count, "each byte of a bulk value, nothing else");
}

#[test]
fn no_flipped_bit_of_a_closed_store_on_block_media_gives_wrong_data_or_a_panic() {
    flip_every_byte(Media::Block);
}

#[test]
fn no_flipped_bit_of_a_closed_store_on_mapped_media_gives_wrong_data_or_a_panic() {
    flip_every_byte(Media::Mapped);
}

#[test]
fn a_closed_store_opens_whichever_slot_of_its_superblock_is_damaged() {
    for media in [Media::Block, Media::Mapped] {
        let closed = closed(media);
        let mut rig = Rig::bare(media, tiny());
        for offset in 0..2 * SUPERBLOCK_SLOT_BYTES as u64 {
            let mut files = closed.files.clone();
            assert!(files.flip("super", offset, rotten_bit(offset)));
            open(&files, media, &mut rig).unwrap();
            assert_eq!(list(&mut rig).unwrap().len(), 6, "{media:?} byte {offset}");
            rig.target = None;
        }
    }
}

#[test]
fn a_superblock_of_another_length_is_not_taken_for_one() {
    let mut closed = closed(Media::Block);
    let mut rig = Rig::bare(Media::Block, tiny());
    open(&closed.files, closed.media, &mut rig).unwrap();
    rig.target = None;
    let mut longer = closed.files.bytes("super").unwrap();
    longer.resize(1 << 20, 0);
    closed.files.insert("super", &longer);
    let refused = open(&closed.files, closed.media, &mut rig).unwrap_err();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused:?}");
}

/// What is damaged is named: container, object, keys and extent, by fetch and by scrub.
#[track_caller]
fn assert_named(rig: &mut Rig, extent: Recx) {
    let want = Want::Array { record_bytes: 1, extents: [Recx::new(0, 3010)].into_iter().collect() };
    let fetched = rig.fetch(oid(1), &[5], b"x", want, 3010, ReadAt::Latest);
    let Err(Error::Corrupt { place, .. }) = fetched else { panic!("{fetched:?}") };
    let named = Place::Value {
        cont: CONT,
        oid: oid(1),
        dkey: [5][..].into(),
        akey: b"x"[..].into(),
        extent: Some(extent),
    };
    assert_eq!(*place, named);
    let Ok(Reply::Audited(audit)) = rig.ask(Verb::Scrub) else { panic!("a scrub goes on") };
    let found: Vec<Place> = audit.findings.into_iter().map(|finding| finding.place).collect();
    assert_eq!(found, [named]);
}

#[test]
fn a_damaged_extent_is_reported_with_its_keys_wherever_it_lies() {
    // One record, some in the log, and many in bulk; and each again when a run refers to it.
    for (media, records) in
        [(Media::Block, 1), (Media::Block, 100), (Media::Mapped, 100), (Media::Block, 3000)]
    {
        for in_run in [false, true] {
            let mut rig = Rig::with_config(media, Durability::Power, tiny());
            let value = vec![0xA7; records];
            rig.write(oid(1), &[5], b"x", 5, 1, &value).unwrap();
            if in_run {
                rig.ask(Verb::Checkpoint).unwrap();
            }
            rig.target.take().unwrap().close().unwrap();
            let mut files = rig.drive.files();
            let name = if records > 1024 { "bulk.00000000" } else { "log.00000000" };
            let bytes = files.bytes(name).unwrap();
            let at = bytes.windows(records).position(|part| part == value).unwrap();
            assert!(files.flip(name, at as u64, 3));
            open(&files, media, &mut rig).unwrap();
            assert_named(&mut rig, Recx::new(5, records as u64));
        }
    }
}

/// A store whose owner died; every value has one state that was acknowledged, and one before.
struct Stopped {
    files: SimFiles,
    /// What it is opened on.
    config: SimConfig,
    /// Whether the machine has run on.
    is_same_boot: bool,
}

fn stopped(media: Media, durability: Durability, plan: CrashPlan) -> Stopped {
    let mut rig = Rig::with_config(media, durability, tiny());
    rig.put(oid(1), &[0], b"a", &long_value(700, 9)).unwrap();
    rig.ask(Verb::Checkpoint).unwrap();
    // Enough to go on in a second segment.
    for number in 0..18 {
        rig.put(oid(1), &[number], b"a", &long_value(900, number)).unwrap();
    }
    rig.put(oid(1), &[18], b"a", &long_value(1500, 18)).unwrap();
    rig.put(oid(1), &[19], b"a", &long_value(60, 19)).unwrap();
    let drive = rig.drive.crash(plan);
    Stopped { files: drive.files(), config: drive.config(), is_same_boot: plan == CrashPlan::Process }
}

/// Reads what survived damage. While the machine runs on all of it is right, or an error says what is not; after
/// a power cut it may be missing, but only if something is said of it.
fn judge_stopped(stopped: &Stopped, files: &SimFiles, rig: &mut Rig, wrong: &mut Vec<String>) {
    match open_on(stopped.config, files, rig) {
        Ok(()) => {}
        Err(Error::Corrupt { .. }) => return,
        Err(error) => return wrong.push(format!("open: {error:?}")),
    }
    let discarded = rig.recovery.discarded_bytes;
    let may_miss = discarded > 0 && !stopped.is_same_boot;
    for number in 0..20u8 {
        let bytes = match number {
            18 => 1500,
            19 => 60,
            _ => 900,
        };
        let right = long_value(bytes, number);
        let old = (number == 0).then(|| long_value(700, 9));
        let want = Want::Single { room_bytes: 2000 };
        match rig.fetch(oid(1), &[number], b"a", want, 2000, ReadAt::Latest) {
            Ok((size, _, found)) => {
                let found = (size > 0).then(|| found[..usize::try_from(size).unwrap()].to_vec());
                if found.as_ref() != Some(&right) && (!may_miss || found != old) {
                    wrong.push(format!("dkey {number}: {size} bytes, {discarded} discarded"));
                }
            }
            Err(Error::Corrupt { .. }) => {}
            Err(error) => wrong.push(format!("dkey {number}: {error:?}")),
        }
    }
    rig.target = None;
}

fn flip_every_byte_of_a_stopped_store(media: Media, durability: Durability, plan: CrashPlan) {
    let stopped = stopped(media, durability, plan);
    let files = &stopped.files;
    let mut rig = Rig::bare(media, tiny());
    let mut failures = Vec::new();
    judge_stopped(&stopped, files, &mut rig, &mut failures);
    assert_eq!((rig.recovery.discarded_bytes, &failures[..]), (0, &[][..]), "undamaged");
    let names: Vec<String> = files.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        let bytes = files.bytes(&name).unwrap();
        for offset in
            (0..bytes.len()).filter(|&at| bytes[at - at % 64..].iter().take(64).any(|&byte| byte != 0))
        {
            let mut damaged = files.clone();
            assert!(damaged.flip(&name, offset as u64, rotten_bit(offset as u64)));
            let mut wrong = Vec::new();
            let judged = catch_unwind(AssertUnwindSafe(|| {
                judge_stopped(&stopped, &damaged, &mut rig, &mut wrong);
            }));
            if judged.is_err() {
                wrong.push("panic".to_owned());
            }
            failures.extend(wrong.into_iter().map(|wrong| format!("{name} byte {offset}: {wrong}")));
        }
    }
    failures.truncate(20);
    assert_eq!(failures, Vec::<String>::new());
}

#[test]
fn no_flipped_bit_of_a_stopped_store_on_block_media_loses_anything_unsaid() {
    flip_every_byte_of_a_stopped_store(Media::Block, Durability::Power, CrashPlan::None);
    flip_every_byte_of_a_stopped_store(Media::Block, Durability::Process, CrashPlan::All);
}

#[test]
fn no_flipped_bit_of_a_stopped_store_on_mapped_media_loses_anything_unsaid() {
    flip_every_byte_of_a_stopped_store(Media::Mapped, Durability::Power, CrashPlan::None);
    flip_every_byte_of_a_stopped_store(Media::Mapped, Durability::Process, CrashPlan::All);
}

#[test]
fn no_flipped_bit_shortens_what_a_dead_process_acknowledged_while_the_machine_runs_on() {
    flip_every_byte_of_a_stopped_store(Media::Block, Durability::Process, CrashPlan::Process);
    flip_every_byte_of_a_stopped_store(Media::Mapped, Durability::Process, CrashPlan::Process);
}

/// The segment and the offset of the frame that holds the smallest value of `stopped`.
fn last_frame(files: &SimFiles) -> (String, usize) {
    let value = long_value(60, 19);
    let names = files.iter().map(|(name, _)| name.to_owned());
    let mut found = names.filter(|name| name.starts_with("log.")).filter_map(|name| {
        let at = files.bytes(&name).unwrap().windows(60).position(|part| part == value)?;
        Some((name, at))
    });
    let (name, value_at) = found.next().unwrap();
    let bytes = files.bytes(&name).unwrap();
    let salt = LogSegmentHeader::decode(&bytes).unwrap().salt;
    let frame = (0..value_at).rev().find(|&at| at % 8 == 0 && LogFrame::open(&bytes[at..], salt).is_some());
    (name, frame.unwrap())
}

#[test]
fn a_frame_that_the_process_died_in_is_discarded_and_counted() {
    let stopped = stopped(Media::Block, Durability::Process, CrashPlan::Process);
    let (name, at) = last_frame(&stopped.files);
    let mut bytes = stopped.files.bytes(&name).unwrap();
    bytes[at..at + LOG_FRAME_SEAL_BYTES].fill(0);
    let mut files = stopped.files.clone();
    files.insert(&name, &bytes);
    let mut rig = Rig::bare(Media::Block, tiny());
    open_on(stopped.config, &files, &mut rig).unwrap();
    assert!(rig.recovery.discarded_bytes > 0);
    assert_eq!(rig.get(oid(1), &[19], b"a"), None);
    assert_eq!(rig.get(oid(1), &[18], b"a"), Some(long_value(1500, 18)));
    // The same frame with its seal and a wrong body is damage, named by segment and offset.
    let mut files = stopped.files.clone();
    assert!(files.flip(&name, at as u64 + 40, 1));
    let error = open_on(stopped.config, &files, &mut rig).unwrap_err();
    let Error::Corrupt { place, .. } = error else { panic!("{error:?}") };
    let number = u64::from_str_radix(name.strip_prefix("log.").unwrap(), 16).unwrap();
    assert_eq!(*place, Place::Record { file: "log", number, offset: at as u64 });
}

#[test]
fn damage_before_the_end_of_an_earlier_recovery_is_never_an_interrupted_write() {
    // All of it flushed together, so that no frame says of another that it was durable before.
    let mut rig = Rig::with_config(Media::Block, Durability::Process, tiny());
    for number in 0..4 {
        rig.put(oid(1), &[number], b"a", &long_value(200, number)).unwrap();
    }
    rig.crash(CrashPlan::Process);
    rig.crash(CrashPlan::None);
    let files = rig.drive.files();
    let value = long_value(200, 2);
    let (name, at) = files
        .iter()
        .filter(|(name, _)| name.starts_with("log."))
        .find_map(|(name, _)| {
            let at = files.bytes(name).unwrap().windows(200).position(|part| part == value)?;
            Some((name.to_owned(), at))
        })
        .unwrap();
    let mut damaged = files.clone();
    assert!(damaged.flip(&name, at as u64, 0));
    let config = SimConfig { boot_id: 9, ..rig.drive.config() };
    let opened = open_on(config, &damaged, &mut rig);
    assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
}

/// Each write was answered before the next began: the frame behind a damaged one says that it was durable.
#[test]
fn damage_that_a_later_frame_calls_durable_is_corruption_and_no_interrupted_write() {
    for media in [Media::Block, Media::Mapped] {
        let Stopped { files, config, .. } = stopped(media, Durability::Power, CrashPlan::None);
        let mut rig = Rig::bare(media, tiny());
        for number in 1..18u8 {
            let value = long_value(900, number);
            let place = |name: &str| {
                let bytes = files.bytes(name)?;
                bytes.windows(value.len()).position(|part| part == value)
            };
            let found = files.iter().find_map(|(name, _)| Some((name, place(name)?)));
            let (name, at) = found.expect("written once");
            let mut damaged = files.clone();
            assert!(damaged.flip(name, at as u64 + 50, 2));
            let opened = open_on(config, &damaged, &mut rig);
            assert!(matches!(opened, Err(Error::Corrupt { .. })), "{media:?}, dkey {number}: {opened:?}");
        }
    }
}

fn audit(rig: &mut Rig, verb: Verb<'_>) -> Vec<Finding> {
    match rig.ask(verb) {
        Ok(Reply::Audited(audit)) => audit.findings,
        other => panic!("an audit goes on: {other:?}"),
    }
}

/// Whether a finding names the record of a file in which this byte lies.
fn names(finding: &Finding, name: &str, at: u64) -> bool {
    let (kind, of) = name.split_once('.').unwrap_or((name, "0"));
    let of = u64::from_str_radix(of, 16).unwrap();
    match finding.place {
        Place::Record { file, number, offset } => {
            file == kind && number == of && offset <= at && at < offset + (32 << 10)
        }
        Place::Value { .. } => false,
    }
}

/// An open store that has a checkpoint, has read from its run, and has gone on.
fn open_store(media: Media) -> Rig {
    let config = TargetConfig { scrub_bytes_per_s: 16 << 20, ..tiny() };
    let mut rig = Rig::with_config(media, Durability::Power, config);
    for number in 0..40u8 {
        rig.put(oid(1), &[number], b"a", &small_value(number, 0)).unwrap();
    }
    rig.ask(Verb::Checkpoint).unwrap();
    for number in 40..50u8 {
        rig.put(oid(1), &[number], b"a", &small_value(number, 0)).unwrap();
    }
    for number in 0..50u8 {
        assert_eq!(rig.get(oid(1), &[number], b"a"), Some(small_value(number, 0)));
    }
    assert_eq!((audit(&mut rig, Verb::Check), audit(&mut rig, Verb::Scrub)), (vec![], vec![]));
    rig
}

/// The log is left out: a mapping of the simulated disk is a copy of the file, so what rots in the file of a mapped
/// segment is not to be seen through it as it would be on a device. Of a segment that is not mapped any more the values
/// count, which are verified in `a_damaged_extent_is_reported_with_its_keys_wherever_it_lies`.
#[test]
fn every_flipped_bit_of_an_open_store_outside_of_the_log_is_named_by_check_and_scrub() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = open_store(media);
        let files = rig.drive.files();
        let names_of: Vec<String> = files.iter().map(|(name, _)| name.to_owned()).collect();
        assert!(
            ["super", "manifest.", "run."].iter().all(|kind| names_of.iter().any(|n| n.starts_with(kind)))
        );
        let mut failures = Vec::new();
        for name in names_of.iter().filter(|name| !name.starts_with("log.") && !name.starts_with("bulk.")) {
            let used = used_bytes(&files, name).unwrap_or_else(|| files.bytes(name).unwrap().len());
            for at in 0..used as u64 {
                rig.drive.flip(name, at, rotten_bit(at)).unwrap();
                for verb in [Verb::Check, Verb::Scrub] {
                    let what = format!("{media:?} {name} byte {at} {verb:?}");
                    let found = audit(&mut rig, verb);
                    if found.len() != 1 || !names(&found[0], name, at) {
                        failures.push(format!("{what}: {found:?}"));
                    }
                }
                rig.drive.flip(name, at, rotten_bit(at)).unwrap();
            }
        }
        failures.truncate(20);
        assert_eq!(failures, Vec::<String>::new());
        rig.assert_clean();
    }
}

/// Lets the scrub in the background pass once over everything.
fn scrub_pass(rig: &mut Rig) {
    for _ in 0..2 {
        rig.clock.advance(1_000_000_000);
        rig.work();
    }
}

#[test]
fn a_damaged_superblock_or_manifest_of_an_open_store_is_written_again_and_said() {
    for (slots, has_manifest) in
        [(&[0][..], false), (&[1], false), (&[0, 1], false), (&[], true), (&[0, 1], true)]
    {
        let mut rig = open_store(Media::Block);
        for slot in slots {
            rig.drive.flip("super", slot * 4096 + 20, 3).unwrap();
        }
        let manifest = |rig: &Rig| {
            let files = rig.drive.files();
            let manifests =
                files.iter().map(|(name, _)| name.to_owned()).filter(|n| n.starts_with("manifest."));
            manifests.max().unwrap()
        };
        let before = manifest(&rig);
        if has_manifest {
            rig.drive.flip(&before, 50, 1).unwrap();
        }
        scrub_pass(&mut rig);
        let repaired = slots.len() as u64 + u64::from(has_manifest);
        assert_eq!(rig.space().damage_count, repaired);
        let found = audit(&mut rig, Verb::Check);
        let of = |rule| found.iter().filter(move |finding: &&Finding| finding.rule == rule);
        for slot in slots {
            assert!(of("superblock-repaired").any(|finding| names(finding, "super", slot * 4096)));
        }
        assert_eq!(of("superblock-repaired").count(), slots.len());
        assert_eq!(
            of("manifest-repaired").filter(|finding| names(finding, &before, 50)).count(),
            usize::from(has_manifest)
        );
        assert_eq!(found.len() as u64, repaired, "{found:?}");
        // It is said once; then all is well, also for whoever opens it.
        assert_eq!(rig.space().damage_count, 0);
        rig.assert_clean();
        rig.crash(CrashPlan::None);
        for number in 0..50u8 {
            assert_eq!(rig.get(oid(1), &[number], b"a"), Some(small_value(number, 0)));
        }
        rig.assert_clean();
    }
}

#[test]
fn damage_of_the_fence_of_a_run_is_gone_with_the_merge_that_takes_the_run() {
    let mut rig = open_store(Media::Block);
    let files = rig.drive.files();
    let (run, bytes) = files.iter().find(|(name, _)| name.starts_with("run.")).unwrap();
    // Footer, filter, and before them the fence.
    let fence_at = bytes - 3 * 4096;
    rig.drive.flip(run, fence_at + 100, 2).unwrap();
    scrub_pass(&mut rig);
    assert_eq!(rig.space().damage_count, 1);
    let [found] = &audit(&mut rig, Verb::Check)[..] else { panic!("one place") };
    assert!(found.rule == "run-index" && names(found, run, fence_at), "{found:?}");
    rig.put(oid(1), &[0], b"a", b"newer").unwrap();
    rig.ask(Verb::Checkpoint).unwrap();
    rig.aggregate();
    scrub_pass(&mut rig);
    assert_eq!(rig.space().damage_count, 0);
    rig.close_and_reopen();
    assert_eq!(rig.get(oid(1), &[0], b"a").as_deref(), Some(&b"newer"[..]));
    rig.assert_clean();
}
