//! Stores that somebody has forged: every checksum is right, the contents are any bytes. Opening and using one
//! may fail in any way but a panic.

use crate::engine::{devices, tiny};
use dolmen_codec::bytes::Reader;
use dolmen_codec::log_body::{PrepareHead, WriteHead, encode_tx};
use dolmen_codec::log_frame::{LOG_FRAME_HEADER_BYTES, LogFrame, LogKind};
use dolmen_codec::log_segment::{LOG_SEGMENT_HEADER_BYTES, LogSegmentHeader};
use dolmen_codec::order::HashKey;
use dolmen_codec::run_block::RUN_PAGE_BYTES;
use dolmen_codec::superblock::{SUPERBLOCK_SLOT_BYTES, Superblock};
use dolmen_codec::verb::{
    ContSpec, ContVerb, Fetch, FetchIod, List, ListWhat, NewValue, Payload, Punch, PunchScope, ReadAt, Reply,
    Update, UpdateIod, Verb, Want,
};
use dolmen_codec::{Op, TargetStore};
use dolmen_engine::{Target, TargetConfig};
use dolmen_env::sim::{SimConfig, SimDisk, SimDrive};
use dolmen_env::{Disk, SimClock};
use dolmen_sim::fuzz;
use dolmen_types::{
    Anchor, Cond, ContNo, Durability, Epoch, Error, Head, IoBuf, Key, ObjectClass, ObjectType, Oid, Recx,
    TargetNo, TxId, crc32c,
};
use smallvec::smallvec;
use std::sync::{Arc, OnceLock};

const CONT: ContNo = ContNo(1);
/// One with a snapshot and a rollback.
const ROLLED: ContNo = ContNo(2);
const KINDS: [LogKind; 10] = [
    LogKind::Write,
    LogKind::Prepare,
    LogKind::Commit,
    LogKind::Abort,
    LogKind::Cont,
    LogKind::Ceiling,
    LogKind::Client,
    LogKind::Cred,
    LogKind::Moved,
    LogKind::Conclude,
];
/// Frames and changed bytes of one forgery: more only cost time.
const CHANGES_MAX: usize = 64;

/// Each way of forging a store, by the name of its fuzz target and of the folder with its corpus.
pub(crate) const FORGERIES: [(&str, fuzz::Target); 3] =
    [("store_frames", frames), ("store_manifest", manifest_changed), ("store_run", run_changed)];

/// What a forger begins with.
struct Genuine {
    files: dolmen_env::sim::SimFiles,
    segment: String,
    salt: u32,
    /// Where the next frame goes, and its sequence number.
    end: (u64, u64),
    superblock: Superblock,
    manifest: Vec<u8>,
    run: (String, Vec<u8>),
}

fn config() -> TargetConfig {
    tiny(TargetNo(0))
}

fn drive() -> SimDrive {
    SimDrive::new(SimConfig { capacity_bytes: 64 << 20, ..SimConfig::default() })
}

fn clock() -> Arc<SimClock> {
    Arc::new(SimClock::new(1_800_000_000_000_000_000))
}

fn ask(target: &mut Target, verb: Verb<'_>) -> Result<Reply, Error> {
    ask_of(target, CONT, verb)
}

fn ask_of(target: &mut Target, cont: ContNo, verb: Verb<'_>) -> Result<Reply, Error> {
    target.submit(&mut vec![Op { token: 1, head: Head::default(), cont, verb }]);
    let mut done = Vec::new();
    while done.is_empty() {
        target.poll(true, &mut done);
    }
    done.pop().unwrap().result
}

fn oid(number: u64) -> Oid {
    let object_type = [ObjectType::MultiHashed, ObjectType::MultiLexical][usize::from(number > 1)];
    Oid::new(object_type, ObjectClass::S1, 0, number)
}

fn update(number: u64, dkey: &[u8], akey: &[u8], value: NewValue<'static>) -> Verb<'static> {
    let iods = smallvec![UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }];
    Verb::Update(Update {
        oid: oid(number),
        dkey: Key::from_slice(dkey),
        cond: Cond::NONE,
        iods,
        charged: None,
    })
}

fn single(bytes: usize) -> NewValue<'static> {
    NewValue::Single(Payload::Owned(IoBuf::copy_of(&vec![7; bytes])))
}

fn array(index: u64, bytes: usize) -> NewValue<'static> {
    let data = Payload::Owned(IoBuf::copy_of(&vec![8; bytes]));
    NewValue::Array { record_bytes: 1, extents: smallvec![Recx::new(index, bytes as u64)], data }
}

/// Everything that a target can be asked without knowing what it holds, then what changes it.
fn use_all(target: &mut Target) {
    let list = |what| {
        Verb::List(List {
            what,
            anchor: Anchor::default(),
            items_max: 50,
            bytes_max: 4096,
            at: ReadAt::Latest,
        })
    };
    let mut questions = vec![
        Verb::Check,
        Verb::Scrub,
        Verb::Space,
        Verb::InDoubt,
        Verb::Unconcluded,
        list(ListWhat::Objects),
        list(ListWhat::Changes { from: Epoch(1), to: Epoch::MAX }),
        Verb::Cont(ContVerb::Usage),
    ];
    for number in 1..3 {
        let iods = [
            FetchIod { akey: Key::from_slice(b"a"), want: Want::Single { room_bytes: 9000 } },
            FetchIod {
                akey: Key::from_slice(b"x"),
                want: Want::Array { record_bytes: 1, extents: smallvec![Recx::new(0, 9000)] },
            },
        ];
        questions.push(list(ListWhat::Dkeys(oid(number))));
        questions.push(list(ListWhat::Akeys(oid(number), Key::from_slice(b"d"))));
        questions.push(list(ListWhat::Extents(oid(number), Key::from_slice(b"d"), Key::from_slice(b"x"))));
        for iod in iods {
            let (at, buf) = (ReadAt::Latest, IoBuf::zeroed(9000));
            let dkey = Key::from_slice(b"d");
            let iods = smallvec![iod];
            questions.push(Verb::Fetch(Fetch { oid: oid(number), dkey, cond: Cond::NONE, at, iods, buf }));
        }
    }
    let changes = [
        update(1, b"d", b"a", single(40)),
        update(1, b"e", b"a", single(5000)),
        Verb::Punch(Punch { oid: oid(2), scope: PunchScope::Object, cond: Cond::NONE }),
        Verb::Checkpoint,
        Verb::Cont(ContVerb::Aggregate(Epoch::MAX)),
    ];
    for verb in questions.into_iter().chain(changes) {
        drop(ask(target, verb));
    }
    drop(ask_of(target, ROLLED, list(ListWhat::Dkeys(oid(2)))));
    drop(ask_of(target, ROLLED, update(2, b"d", b"a", single(40))));
    for _ in 0..12 {
        for cont in [CONT, ROLLED] {
            drop(ask_of(target, cont, Verb::Cont(ContVerb::Aggregate(Epoch::MAX))));
        }
        target.step();
    }
}

/// Opens what a drive holds and uses it.
fn open_and_use(drive: &SimDrive) {
    for _ in 0..2 {
        let Ok((mut target, _)) = Target::open(devices(drive), clock(), &config()) else { return };
        use_all(&mut target);
        drop(target.close());
    }
}

fn read(disk: &mut SimDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; usize::try_from(disk.len(file).unwrap()).unwrap()];
    disk.read_at(file, 0, &mut bytes).unwrap();
    disk.close(file);
    bytes
}

fn write(disk: &mut SimDisk, name: &str, bytes: &[u8]) {
    if let Err(error) = disk.remove(name) {
        assert!(error.is_not_found(), "{error}");
    }
    let file = disk.create(name, bytes.len() as u64).unwrap();
    disk.write_at(file, 0, bytes).unwrap();
    disk.flush(file).unwrap();
    disk.close(file);
    disk.sync_names().unwrap();
}

/// A small store with a run, and a log behind it: made once.
fn genuine() -> &'static Genuine {
    static GENUINE: OnceLock<Genuine> = OnceLock::new();
    GENUINE.get_or_init(|| {
        let drive = drive();
        let mut target = Target::create(devices(&drive), clock(), 7, &config()).unwrap();
        let spec = ContSpec { hash_key: HashKey([5; 16]), durability: Durability::Power };
        ask(&mut target, Verb::Cont(ContVerb::Create(spec))).unwrap();
        for number in 1..3 {
            ask(&mut target, update(number, b"d", b"a", single(30))).unwrap();
            ask(&mut target, update(number, b"d", b"x", array(10, 5000))).unwrap();
        }
        roll_back(&mut target, spec);
        ask(&mut target, Verb::Checkpoint).unwrap();
        ask(&mut target, update(1, b"d", b"b", single(50))).unwrap();
        drop(target);
        let mut disk = SimDisk::new(&drive);
        let names = disk.list().unwrap();
        let named = |prefix: &'static str| names.iter().filter(move |name| name.starts_with(prefix)).cloned();
        let log = named("log.").map(|name| {
            let bytes = read(&mut SimDisk::new(&drive), &name);
            (name, bytes)
        });
        let newest = log.filter_map(|(name, bytes)| Some((LogSegmentHeader::decode(&bytes)?, name, bytes)));
        let (header, segment, bytes) = newest.max_by_key(|(header, ..)| header.first_sequence).unwrap();
        let mut end = (LOG_SEGMENT_HEADER_BYTES, header.first_sequence);
        while let Some((_, body)) = LogFrame::open(&bytes[end.0..], header.salt) {
            end = (end.0 + LogFrame::padded_bytes(body.len()), end.1 + 1);
        }
        let super_bytes = read(&mut disk, "super");
        let slots = super_bytes.chunks(SUPERBLOCK_SLOT_BYTES).filter_map(Superblock::decode);
        let superblock = slots.max_by_key(|slot| slot.sequence).unwrap();
        let manifest = read(&mut disk, &format!("manifest.{:08x}", superblock.manifest));
        let run = named("run.").next().unwrap();
        Genuine {
            files: drive.files(),
            segment,
            salt: header.salt,
            end: (end.0 as u64, end.1),
            superblock,
            manifest: manifest[..superblock.manifest_bytes as usize].to_vec(),
            run: (run.clone(), read(&mut disk, &run)),
        }
    })
}

/// Makes a container of which a snapshot shows what a rollback has brought back.
fn roll_back(target: &mut Target, spec: ContSpec) {
    let mut ask = |verb| ask_of(target, ROLLED, verb).unwrap();
    ask(Verb::Cont(ContVerb::Create(spec)));
    for number in 1..3 {
        ask(update(number, b"d", b"a", single(30)));
        ask(update(number, b"d", b"x", array(0, 100)));
    }
    let Reply::Written(now) = ask(Verb::Latest) else { panic!("the latest epoch") };
    let (to, at) = (Epoch(now.0 + 100), Epoch(now.0 + 1_000_000));
    ask(Verb::Cont(ContVerb::RaiseFloor(to)));
    ask(Verb::Cont(ContVerb::AddSnapshot(to)));
    ask(update(1, b"d", b"a", single(31)));
    ask(Verb::Cont(ContVerb::RaiseFloor(at)));
    ask(Verb::Cont(ContVerb::Rollback { to, at }));
    ask(update(2, b"d", b"a", single(32)));
}

fn restored() -> SimDrive {
    let drive = drive();
    drive.restore(&genuine().files);
    drive
}

/// Frames behind the last one: kind, length and body of each.
pub(crate) fn frames(bytes: &[u8]) {
    let genuine = genuine();
    let drive = restored();
    let (mut at, mut sequence) = genuine.end;
    let mut r = Reader::new(bytes);
    for _ in 0..CHANGES_MAX {
        let (Some(kind), Some(len)) = (r.u8(), r.u8()) else { break };
        let Some(body) = r.take(usize::from(len).min(r.remaining())) else { break };
        let mut frame = vec![0; LOG_FRAME_HEADER_BYTES];
        frame.extend_from_slice(body);
        let kind = KINDS[usize::from(kind) % KINDS.len()];
        fuzz::reseal_versions(kind, &mut frame[LOG_FRAME_HEADER_BYTES..]);
        let body_bytes = u32::from(u8::try_from(body.len()).unwrap());
        LogFrame { kind, body_bytes, sequence, salt: genuine.salt, unflushed: 0 }.seal(&mut frame);
        if drive.corrupt(&genuine.segment, at, &frame).is_err() {
            break;
        }
        at += LogFrame::padded_bytes(body.len()) as u64;
        sequence += 1;
    }
    open_and_use(&drive);
}

/// A manifest that the superblock names.
fn manifest(bytes: &[u8]) {
    let genuine = genuine();
    let drive = restored();
    let mut disk = SimDisk::new(&drive);
    write(&mut disk, &format!("manifest.{:08x}", genuine.superblock.manifest), bytes);
    let superblock = Superblock {
        manifest_bytes: u32::try_from(bytes.len()).unwrap(),
        manifest_sum: crc32c(bytes),
        ..genuine.superblock
    };
    write(&mut disk, "super", &[superblock.encode(), superblock.encode()].concat());
    open_and_use(&drive);
}

/// The genuine manifest with some bytes changed: offset in two bytes, and the new byte.
pub(crate) fn manifest_changed(bytes: &[u8]) {
    manifest(&changed(&genuine().manifest, bytes));
}

/// The run with some bytes changed and its checksums put right.
pub(crate) fn run_changed(bytes: &[u8]) {
    let (name, run) = &genuine().run;
    let mut run = changed(run, bytes);
    let mut at = 0;
    while at < run.len() {
        // The number of pages is in the twelfth byte; the last page of the file is the footer.
        let last = at + RUN_PAGE_BYTES >= run.len();
        let pages = if last { 1 } else { usize::from(run[at + 11]).max(1) };
        let end = (at + pages * RUN_PAGE_BYTES).min(run.len());
        let sum = crc32c(&run[at + 4..end]);
        run[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
    let drive = restored();
    drive.corrupt(name, 0, &run).unwrap();
    open_and_use(&drive);
}

fn changed(genuine: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut forged = genuine.to_vec();
    for change in bytes.chunks_exact(3).take(CHANGES_MAX) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % forged.len();
        forged[at] = change[2];
    }
    forged
}

/// Frames of these bodies, as [`frames`] takes them.
fn forged(bodies: &[(LogKind, Vec<u8>)]) -> Vec<u8> {
    let frame = |(kind, body): &(LogKind, Vec<u8>)| {
        let number = KINDS.iter().position(|known| known == kind).unwrap();
        let mut frame = vec![u8::try_from(number).unwrap(), u8::try_from(body.len()).unwrap()];
        frame.extend_from_slice(body);
        frame
    };
    bodies.iter().flat_map(frame).collect()
}

/// A record of nobody with these versions, their checksums open.
fn record(versions: &[&[u8]]) -> (LogKind, Vec<u8>) {
    let mut body = Vec::new();
    WriteHead::of_nobody(Epoch(1 << 60), CONT, oid(1)).encode(&mut body);
    for version in versions {
        body.extend_from_slice(version);
        body.extend_from_slice(&[0; 4]);
    }
    (LogKind::Write, body)
}

#[test]
fn a_hole_that_says_it_has_records_stops_nothing() {
    // Kind and no place, lengths of both keys, credentials, index, count, record size; the keys.
    frames(&forged(&[record(&[&[3, 1, 1, 0, 0, 5, 1, b'd', b'x']])]));
    frames(&forged(&[record(&[&[3, 1, 1, 0, 0, 5, 0, b'd', b'x']])]));
}

#[test]
fn a_version_that_is_logged_twice_stops_nothing() {
    let removal: &[u8] = &[1, 1, 1, 0, b'd', b'a'];
    frames(&forged(&[record(&[removal, removal])]));
    frames(&forged(&[record(&[removal]), record(&[removal])]));
}

#[test]
fn bulk_that_two_aborted_transactions_name_stops_nothing() {
    let txs = [1, 2].map(|client| TxId { client, begin: Epoch(5) });
    let mut bodies = Vec::new();
    for tx in txs {
        let head = PrepareHead {
            tx,
            epoch: Epoch(1 << 60),
            client: 0,
            sequence: 0,
            cont: CONT,
            leader: TargetNo(0),
            committed: false,
            participants: [TargetNo(0), TargetNo(1)].into_iter().collect(),
            groups: 1,
        };
        let mut body = Vec::new();
        head.encode(&mut body);
        body.extend_from_slice(&oid(1).to_bytes());
        body.extend_from_slice(&1_u32.to_le_bytes());
        // A single value of 8 bytes in bulk, segment 0, unit 10; its checksum and keys.
        body.extend_from_slice(&[1 | 3 << 3, 1, 1, 0, 8, 0, 0, 0, 0, 10, 0, 0, 0, 1, 2, 3, 4, b'd', b'z']);
        body.extend_from_slice(&[0; 4]);
        bodies.push((LogKind::Prepare, body));
    }
    for tx in txs {
        let mut body = Vec::new();
        encode_tx(tx, &mut body);
        bodies.push((LogKind::Abort, body));
    }
    frames(&forged(&bodies));
}

/// A listing that a forged key leads in a circle would never end.
#[test]
fn a_run_with_a_changed_byte_is_listed_to_an_end() {
    /// Of the first block, which has the entries of the run.
    const BYTES: u16 = 400;
    for at in 40..BYTES {
        let [low, high] = at.to_le_bytes();
        for byte in [0, 85, 197] {
            run_changed(&[low, high, byte]);
        }
    }
    run_changed(&[86, 32, 5, 168, 0, 85]);
    // A key that is too long below an akey.
    run_changed(&[217, 0, 1]);
}

/// Bytes in the place of others of a forgery, as [`changed`] takes them.
fn patch(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let change = |(at, byte): (usize, &u8)| {
        let [low, high] = u16::try_from(offset + at).unwrap().to_le_bytes();
        [low, high, *byte]
    };
    bytes.iter().enumerate().flat_map(change).collect()
}

/// The largest and the smallest number, and those beside them, that a field of four or eight bytes can hold.
const EXTREMES: [&[u8]; 6] =
    [&[0xff; 8], &[0xff; 4], &[0xfe, 0xff, 0xff, 0xff], &[0; 8], &[0; 4], &[1, 0, 0, 0, 0, 0, 0, 0]];

#[test]
fn extreme_numbers_anywhere_in_a_manifest_stop_nothing() {
    let len = genuine().manifest.len();
    for offset in 0..len {
        for bytes in EXTREMES {
            println!("offset {offset} of {len}, {bytes:?}");
            manifest_changed(&patch(offset, &bytes[..bytes.len().min(len - offset)]));
        }
    }
}

#[test]
fn extreme_numbers_anywhere_in_the_entries_of_a_run_stop_nothing() {
    // All entries are in the first block.
    let block = &genuine().run.1[..RUN_PAGE_BYTES];
    for offset in 0..block.len() - 8 {
        if block[offset..offset + 8] == [0; 8] {
            continue;
        }
        for bytes in EXTREMES {
            println!("offset {offset}, {bytes:?}");
            run_changed(&patch(offset, bytes));
        }
    }
}
