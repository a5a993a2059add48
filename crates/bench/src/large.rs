//! A store much larger than its memory: records with random keys on a disk, in a memory cgroup.

use crate::cgroup::{self, MemoryCgroup};
use crate::child::{self, say_row};
use crate::data::{Keys, Values, mix};
use crate::error::{Error, Result};
use crate::meter::{Meter, now};
use crate::native;
use crate::options::Options;
use crate::points::EXTRA_KEY;
use crate::rig::{Kind, Rig, Setup, verify};
use crate::row::Row;
use dolmen_codec::verb::{ContVerb, List, ListWhat, Listed, ReadAt, Reply, Verb};
use dolmen_env::{anonymous_rss_bytes, pin_to_cpu};
use dolmen_types::{Anchor, Epoch};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const SIZE: usize = 64;
/// What a record takes on the device at least; the file that the device is measured with is as large.
const DEVICE_BYTES_PER_RECORD: u64 = 160;
/// Records that the snapshot difference is to find.
const CHANGED: u64 = 100_000;
/// Rows of this scenario have this name.
const NAME: &str = "larger than memory";

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Large {
    /// Records of 64 B.
    pub records: u64,
    /// Memory of the cgroup, page cache counted.
    pub memory_bytes: u64,
    /// Leave the store where it is, for other programs to look at.
    pub keep: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    dir: PathBuf,
    setup: Setup,
    records: u64,
    seconds: f64,
    entrance: PathBuf,
    /// Random reads of 4 KiB a second that the device gives to one reader.
    device_reads: f64,
    /// Updates done by the process before.
    updates: u64,
}

/// Builds a store of `large.records` in a memory cgroup, kills it, opens it and works on it; `each` gets the rows.
///
/// # Errors
/// The store's, the system's; [`Error::System`] if no memory cgroup can be made.
pub fn large(options: &Options, large: &Large, each: &mut dyn FnMut(Row)) -> Result<()> {
    let dir = options.disk_dir.join("large");
    child::clean(&dir)?;
    let mut marked = |row: Row| each(Row { quick: options.quick, ..row });
    let device = device(options, large)?;
    let device_reads = device.ops_per_s;
    marked(device);
    let cgroup = MemoryCgroup::create(large.memory_bytes)?;
    // The rest is for log segments that are written and blocks that are read.
    let setup = Setup {
        memory_bytes: large.memory_bytes / 3 * 2,
        aggregates: false,
        ..Setup::new(Kind::Single, SIZE)
    };
    let spec = Spec {
        dir: dir.clone(),
        setup,
        records: large.records,
        seconds: 2.0 * options.seconds,
        entrance: cgroup.entrance(),
        device_reads,
        updates: 0,
    };
    let done = in_cgroup("large", &spec, &cgroup, &mut marked).and_then(|updates| {
        let spec = Spec { updates, ..spec };
        in_cgroup("large-after", &spec, &cgroup, &mut marked)
    });
    if !large.keep {
        child::clean(&dir)?;
    }
    done.map(drop)
}

fn in_cgroup(scenario: &str, spec: &Spec, cgroup: &MemoryCgroup, each: &mut dyn FnMut(Row)) -> Result<u64> {
    let text = serde_json::to_string(spec).expect("plain data");
    let done = child::run_and_kill(scenario, &text, each)?;
    if let Some(peak) = cgroup.peak_bytes() {
        let row = Row::value(NAME, "peak memory of the cgroup", 0, peak as f64 / f64::from(1 << 20), "MiB");
        each(row.noting("page cache counted; it fills what there is"));
    }
    Ok(done)
}

/// Random direct reads of 4 KiB from a file as large as the store will be.
fn device(options: &Options, large: &Large) -> Result<Row> {
    std::fs::create_dir_all(&options.disk_dir)
        .map_err(Error::system("make a directory for the measurement"))?;
    let path = options.disk_dir.join("device");
    let mib = (large.records * DEVICE_BYTES_PER_RECORD).div_ceil(1 << 20);
    let row = native::pinned(|| native::direct_random_read(&path, mib, options.seconds / 3.0));
    std::fs::remove_file(&path).map_err(Error::system("remove a native file"))?;
    row
}

/// All records in an order of their own for each round, and how many.
fn for_each_record(records: u64, round: u64, mut work: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let keys = Keys::new(records.next_power_of_two().ilog2().max(2));
    for key in (0..keys.count()).map(|index| keys.at(index, round)).filter(|key| *key < records) {
        work(key)?;
    }
    Ok(())
}

/// The child that builds the store.
pub(crate) fn child(spec: &Spec) -> Result<()> {
    cgroup::enter(&spec.entrance)?;
    pin_to_cpu(0)?;
    let values = Values::new(SIZE);
    let mut rig = Rig::create(&spec.dir, spec.setup)?;
    child::say_next("  update fresh, every record", spec.records as f64 / 100e3);
    let mut meter = Meter::start();
    for_each_record(spec.records, 0, |key| {
        if meter.ops.is_multiple_of(spec.records / 10 + 1) {
            eprintln!("{} of {} records after {:.0} s", meter.ops, spec.records, meter.seconds());
        }
        meter.run(SIZE as u64, || rig.update(key, values.of(key, 0)))
    })?;
    let row = updates_row(&rig, meter, "update fresh");
    say_row(row)?;
    child::say_next("  update, then fetch", 2.0 * spec.seconds);
    let background = rig.background();
    let mut meter = Meter::start();
    // Which record comes next is a function of the count, so that the next process can tell what is there.
    while !meter.is_over(spec.seconds) {
        let number = meter.ops;
        let key = overwritten(number, spec.records);
        meter.run(SIZE as u64, || rig.update(key, values.of(key, 1)))?;
    }
    let updates = meter.ops;
    let done = rig.background().since(background);
    let row = updates_row(&rig, meter, "update");
    say_row(row.noting(format!("{} checkpoints and {} merges meanwhile", done.checkpoints, done.merges)))?;
    fetches(&mut rig, spec)?;
    say_row(stalls(&rig))?;
    let heap = anonymous_rss_bytes()? as f64 / f64::from(1 << 20);
    say_row(Row::value(NAME, "heap", 0, heap, "MiB"))?;
    let space = rig.space()?;
    let per_record = space.allocated_bytes as f64 / spec.records as f64;
    say_row(Row::value(NAME, "device bytes a record", SIZE as u64, per_record, "B"))?;
    child::write_until_killed(updates, |extra| rig.update(EXTRA_KEY + extra, values.of(EXTRA_KEY + extra, 0)))
}

fn overwritten(number: u64, records: u64) -> u64 {
    mix(number) % records
}

fn updates_row(rig: &Rig<'_>, meter: Meter, op: &str) -> Row {
    let background = rig.background();
    let note = format!(
        "{} updates in {:.0} s; {} checkpoints and {} merges since the begin",
        meter.ops,
        meter.seconds(),
        background.checkpoints,
        background.merges
    );
    meter.row(NAME, op, SIZE as u64).at_least(100e3).noting(note)
}

fn stalls(rig: &Rig<'_>) -> Row {
    let note = format!("longest {:.0} us of {} pieces", rig.stall_ns_max as f64 / 1e3, rig.stalls.total());
    let p99 = rig.stalls.quantile_us(990);
    Row::value(NAME, "stall by background work, p99", SIZE as u64, p99, "us").noting(note)
}

fn fetches(rig: &mut Rig<'_>, spec: &Spec) -> Result<()> {
    let before = native::io_counter("read_bytes: ")?;
    let mut meter = Meter::start();
    while meter.seconds() < spec.seconds {
        let key = mix(meter.ops ^ 0x5eed) % spec.records;
        meter.run_timed(SIZE as u64, || rig.fetch(key).map(<[u8]>::len))?;
    }
    let (fetches, read) = (meter.ops, native::io_counter("read_bytes: ")? - before);
    let note = format!("{} bytes read from the device a fetch", read / fetches.max(1));
    let row = meter.row(NAME, "fetch", SIZE as u64).against(spec.device_reads, "O_DIRECT read of 4 KiB");
    say_row(row.at_least(0.8 * spec.device_reads).noting(note))
}

/// The child that opens what the first one left.
pub(crate) fn after(spec: &Spec) -> Result<()> {
    cgroup::enter(&spec.entrance)?;
    pin_to_cpu(0)?;
    let values = Values::new(SIZE);
    let start = now();
    let (mut rig, recovery) = Rig::open(&spec.dir, spec.setup)?;
    let note = format!("{} frames replayed, {} bytes discarded", recovery.frames, recovery.discarded_bytes);
    say_value("reopen after SIGKILL", start, |row| row.at_most(10.0).noting(note))?;
    child::say_next("  comparing", spec.seconds);
    verify_records(&mut rig, &values, spec)?;
    child::say_next("  scrub, every value in the order of the device", spec.records as f64 / 400e3);
    let start = now();
    let Reply::Audited(audit) = rig.ask(Verb::Scrub)? else { return Err(Error::Wrong { key: 0 }) };
    if let Some(finding) = audit.findings.first() {
        eprintln!("scrub: {finding:?}");
        return Err(Error::Wrong { key: 0 });
    }
    let note = format!("{} versions, {} MiB verified, clean", audit.versions, audit.verified_bytes >> 20);
    say_value("scrub", start, |row| row.noting(note))?;
    child::say_next("  snapshot difference", spec.records as f64 / 1e6);
    difference(&mut rig, &values, spec)?;
    child::say_next("  aggregation", spec.records as f64 / 400e3);
    let start = now();
    rig.aggregate()?;
    say_value("aggregation", start, |row| row)?;
    let heap = anonymous_rss_bytes()? as f64 / f64::from(1 << 20);
    say_row(Row::value(NAME, "heap after all of it", 0, heap, "MiB"))?;
    child::write_until_killed(0, |extra| {
        let key = 2 * EXTRA_KEY + extra;
        rig.update(key, values.of(key, 0))
    })
}

fn say_value(op: &str, start_ns: u64, change: impl FnOnce(Row) -> Row) -> Result<()> {
    say_row(change(Row::value(NAME, op, SIZE as u64, (now() - start_ns) as f64 / 1e9, "s")))
}

/// Compares as many records as the time allows, those overwritten and those not, at random.
fn verify_records(rig: &mut Rig<'_>, values: &Values, spec: &Spec) -> Result<()> {
    let keys = Keys::new(spec.records.next_power_of_two().ilog2().max(2));
    let mut again = vec![0_u64; usize::try_from(keys.count().div_ceil(64)).unwrap_or(0)];
    let place = |key: u64| (usize::try_from(key / 64).unwrap_or(usize::MAX), 1_u64 << (key % 64));
    for number in 0..spec.updates {
        let (word, bit) = place(overwritten(number, spec.records));
        again[word] |= bit;
    }
    let (mut meter, mut index) = (Meter::start(), 0);
    while index < keys.count() && meter.seconds() < spec.seconds {
        let key = keys.at(index, 7);
        index += 1;
        if key < spec.records {
            let (word, bit) = place(key);
            let round = u64::from(again[word] & bit != 0);
            meter.run(SIZE as u64, || verify(rig, key, values, round))?;
        }
    }
    let note = format!("{} of {} records compared, every byte right", meter.ops, spec.records);
    say_row(meter.row(NAME, "verify after SIGKILL", SIZE as u64).noting(note))
}

/// Two snapshots with known changes between them.
fn difference<'v>(rig: &mut Rig<'v>, values: &'v Values, spec: &Spec) -> Result<()> {
    let from = snapshot(rig, values)?;
    let changed = CHANGED.min(spec.records / 2);
    let step = spec.records / changed;
    for number in 0..changed {
        rig.update(number * step, values.of(number * step, 2))?;
    }
    let to = snapshot(rig, values)?;
    let start = now();
    let (mut anchor, mut found) = (Anchor::default(), 0);
    while !anchor.is_eof() {
        let what = ListWhat::Changes { from, to };
        let list = List { what, anchor, items_max: 1024, bytes_max: 1 << 20, at: ReadAt::Latest };
        let Reply::Listed(Listed::Changes(changes), next) = rig.ask(Verb::List(list))? else {
            return Err(Error::Wrong { key: found });
        };
        found += changes.len() as u64;
        anchor = next;
    }
    // The record that the second snapshot was taken at is a change too.
    if found != changed + 1 {
        return Err(Error::Wrong { key: found });
    }
    let note = format!("{found} changes among {} records, all that were made", spec.records);
    say_value("snapshot difference", start, |row| row.noting(note))
}

/// Keeps the state as of an update that is made for it.
fn snapshot<'v>(rig: &mut Rig<'v>, values: &'v Values) -> Result<Epoch> {
    let key = 3 * EXTRA_KEY;
    rig.update(key, values.of(key, 0))?;
    let epoch = rig.last();
    rig.ask(Verb::Cont(ContVerb::AddSnapshot(epoch)))?;
    Ok(epoch)
}
