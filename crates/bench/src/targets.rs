//! Enumeration, and two targets on two threads.

use crate::child::{self, say_row};
use crate::data::{Keys, Values};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::native::{self, Scheduled};
use crate::options::Options;
use crate::points::{EXTRA_KEY, Spec, reopen, verify_extra};
use crate::rig::{Kind, Rig, Setup, verify_many};
use crate::row::Row;
use dolmen_env::{cpu_count, pin_to_cpu, scope};
use dolmen_types::Anchor;

/// Keys of one page of an enumeration.
const PAGE: u32 = 1024;

/// Lists all dkeys of one object, in a child that is killed.
pub(crate) fn dkeys(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    let spec = Spec::new(options.dir.join("dkeys"), Setup::new(Kind::Single, 64), options);
    child::measure("dkeys", &spec, each, |_count, each| verify_listed(&spec, each))
}

/// The child's part of [`dkeys`].
pub(crate) fn dkeys_child(spec: &Spec) -> Result<()> {
    pin_to_cpu(0)?;
    let (values, keys) = (Values::new(64), Keys::new(spec.key_bits));
    let mut rig = Rig::create(&spec.dir, spec.setup)?;
    for index in 0..keys.count() {
        let key = keys.at(index, 0);
        rig.update(key, values.of(key, 0))?;
    }
    child::say_next("  enumerate dkeys", spec.seconds);
    let background = rig.background();
    let mut meter = Meter::start();
    let mut rounds = 0;
    while rounds == 0 || meter.seconds() < spec.seconds {
        list_all(&mut rig, &mut meter, keys.count())?;
        rounds += 1;
    }
    let done = rig.background().since(background);
    let note = format!(
        "{} keys in pages of {PAGE}, latency of a page; {rounds} times all, {} checkpoints and {} aggregations meanwhile",
        keys.count(),
        done.checkpoints,
        done.aggregations
    );
    say_row(meter.row("single value", "enumerate dkeys", 64).at_least(5e6).noting(note))?;
    rig.aggregate()?;
    let mut meter = Meter::start();
    list_all(&mut rig, &mut meter, keys.count())?;
    let row = meter.row("single value", "enumerate dkeys, one run", 64);
    say_row(row.at_least(5e6).noting("once, after an aggregation"))?;
    child::write_until_killed(keys.count(), |extra| {
        rig.update(EXTRA_KEY + extra, values.of(EXTRA_KEY + extra, 0))
    })
}

/// Lists everything once, with background work between pages.
fn list_all(rig: &mut Rig<'_>, meter: &mut Meter, expected: u64) -> Result<()> {
    let (mut anchor, mut listed) = (Anchor::default(), 0);
    while !anchor.is_eof() {
        let count = meter.run_timed(0, || rig.list_page(&mut anchor, PAGE))? as u64;
        listed += count;
        // A page counts as the keys in it; its latency stays that of a page.
        meter.ops = (meter.ops + count).saturating_sub(1);
        rig.upkeep()?;
    }
    if listed == expected { Ok(()) } else { Err(Error::Wrong { key: listed }) }
}

fn verify_listed(spec: &Spec, each: &mut dyn FnMut(Row)) -> Result<()> {
    let (values, keys) = (Values::new(64), Keys::new(spec.key_bits));
    let mut rig = reopen(&spec.dir, spec.setup, each)?;
    verify_many(&mut rig, (0..keys.count()).map(|key| (key, 0)), &values, &mut Meter::paused())?;
    verify_extra(&mut rig, &values).map(drop)
}

/// The same updates and fetches on one target by one thread, and on two by two, each in a child that is killed.
pub(crate) fn two(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    let mut alone = Vec::new();
    for threads in [1_u16, 2] {
        child::say_next(&format!("  update and fetch on {threads} threads"), 2.0 * options.seconds);
        // The number of the target says how many there are.
        let setup = Setup { target: threads, ..Setup::new(Kind::Single, 64) };
        let spec = Spec::new(options.dir.join("targets"), setup, options);
        let mut beside = |row: Row| {
            let Some(one) = alone.iter().find(|one: &&Row| one.op == row.op) else {
                alone.push(row.clone());
                return each(row);
            };
            each(row.against(one.ops_per_s, "one target").at_least(1.8 * one.ops_per_s));
        };
        child::measure("targets", &spec, &mut beside, |updates, _each| verify_two(&spec, updates))?;
    }
    let [one, two] = [1, 2].map(|threads| native::random_loads(threads, options.seconds));
    let (one, two) = (one?, two?);
    let base = one.ops_per_s;
    each(one);
    each(two.against(base, "one thread").noting("what the machine gives two threads that share nothing"));
    Ok(())
}

/// The child's part of [`two`]. Each thread writes the same number of updates, so that one number tells the
/// parent what is there.
pub(crate) fn two_child(spec: &Spec) -> Result<()> {
    let keys = Keys::new(spec.key_bits);
    let values = Values::new(64);
    let values = &values;
    let threads = spec.setup.target;
    let done = scope(|scope| {
        let work = |target: u16| {
            move || -> Result<(Rig<'_>, [Meter; 2], Scheduled)> {
                pin_to_cpu(usize::from(target))?;
                let setup = Setup { target, ..spec.setup };
                let mut rig = Rig::create(&spec.dir.join(format!("t{target}")), setup)?;
                let before = Scheduled::of_this_thread()?;
                let meters = one_target(&mut rig, values, keys, spec.seconds)?;
                Ok((rig, meters, Scheduled::of_this_thread()?.since(before)))
            }
        };
        let running: Vec<_> = (0..threads).map(|target| scope.spawn(work(target))).collect();
        let died = || Error::Child { scenario: "targets".to_owned() };
        running.into_iter().map(|thread| thread.join().map_err(|_panic| died())?).collect::<Result<Vec<_>>>()
    })?;
    let (mut rigs, mut updates, mut fetches) = (Vec::new(), Vec::new(), Vec::new());
    let mut scheduled = Scheduled::default();
    for (rig, [update, fetch], of_thread) in done {
        rigs.push(rig);
        updates.push(update);
        fetches.push(fetch);
        scheduled = scheduled.and(of_thread);
    }
    for (op, meters) in [("update", updates), ("fetch", fetches)] {
        if let Some(meter) = Meter::joined(meters) {
            let row = Row { threads: u32::from(threads), ..meter.row("targets", op, 64) };
            let note = format!(
                "{} keys a target, {} processors; over both operations the threads waited {:.1} s for a processor \
                 that others had, and {} times for anything else",
                keys.count(),
                cpu_count(),
                scheduled.delayed_s,
                scheduled.waits
            );
            say_row(row.noting(note))?;
        }
    }
    child::write_until_killed(keys.count(), |extra| {
        let key = EXTRA_KEY + extra;
        rigs[0].update(key, values.of(key, 0))
    })
}

/// Writes every key, then the same values again until the time is over; then fetches.
fn one_target<'v>(rig: &mut Rig<'v>, values: &'v Values, keys: Keys, seconds: f64) -> Result<[Meter; 2]> {
    let mut update = Meter::start();
    while update.ops < keys.count() || !update.is_over(seconds) {
        let key = keys.at(update.ops % keys.count(), update.ops / keys.count());
        update.run(64, || rig.update(key, values.of(key, 0)))?;
    }
    update.pause();
    let mut fetch = Meter::start();
    while !fetch.is_over(seconds) {
        let key = keys.at(fetch.ops % keys.count(), 1_000_000 + fetch.ops / keys.count());
        fetch.run(64, || rig.fetch(key).map(<[u8]>::len))?;
        if fetch.ops.is_multiple_of(256) {
            rig.upkeep()?;
        }
    }
    fetch.pause();
    Ok([update, fetch])
}

fn verify_two(spec: &Spec, updates: u64) -> Result<()> {
    let (values, mut silent) = (Values::new(64), |_row: Row| {});
    for target in 0..spec.setup.target {
        let setup = Setup { target, ..spec.setup };
        let mut rig = reopen(&spec.dir.join(format!("t{target}")), setup, &mut silent)?;
        verify_many(&mut rig, (0..updates).map(|key| (key, 0)), &values, &mut Meter::paused())?;
        verify_extra(&mut rig, &values)?;
    }
    Ok(())
}
