//! Enumeration, and two targets on two threads.

use crate::child::clean;
use crate::data::{Keys, Values};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::options::Options;
use crate::rig::{Kind, Rig, Setup};
use crate::row::Row;
use dolmen_env::{cpu_count, pin_to_cpu, scope};
use dolmen_types::Anchor;
use std::path::Path;

/// Lists all dkeys of one object, in pages.
pub(crate) fn dkeys(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    pin_to_cpu(0)?;
    let dir = options.dir.join("dkeys");
    clean(&dir)?;
    let result = list_all(&dir, options, each);
    clean(&dir)?;
    result
}

fn list_all(dir: &Path, options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    const PAGE: u32 = 1024;
    let (values, keys) = (Values::new(64), Keys::new(options.key_bits(64)));
    let mut rig = Rig::create(dir, Setup::new(Kind::Single, 64))?;
    for index in 0..keys.count() {
        let key = keys.at(index, 0);
        rig.update(key, values.of(key, 0))?;
    }
    for (op, note) in
        [("enumerate dkeys", "delta and runs as they are"), ("enumerate dkeys, one run", "after aggregation")]
    {
        let (mut meter, mut anchor, mut listed) = (Meter::start(), Anchor::default(), 0);
        while !anchor.is_eof() {
            let count = meter.run_timed(0, || rig.list_page(&mut anchor, PAGE))? as u64;
            listed += count;
            // A page counts as the keys in it; its latency stays that of a page.
            meter.ops += count.saturating_sub(1);
        }
        if listed != keys.count() {
            return Err(Error::Wrong { key: listed });
        }
        meter.ops = listed;
        let note = format!("{listed} keys in pages of {PAGE}, latency of a page; {note}");
        each(meter.row("single value", op, 64).against(5e6, "goal").noting(note));
        rig.aggregate()?;
    }
    Ok(())
}

/// The same updates on one target by one thread, and on two by two.
pub(crate) fn two(options: &Options, each: &mut dyn FnMut(Row)) -> Result<()> {
    let dir = options.dir.join("targets");
    let seconds = options.pick(options.seconds / 3.0, options.seconds);
    let mut alone = [0.0, 0.0];
    for threads in [1_u16, 2] {
        clean(&dir)?;
        let rows = on_threads(&dir, threads, options, seconds);
        clean(&dir)?;
        for (row, one) in rows?.into_iter().zip(&mut alone) {
            if threads == 1 {
                *one = row.ops_per_s;
                each(row);
            } else {
                let note = format!("goal 1.8x of one target; {} processors", cpu_count());
                each(row.against(1.8 * *one, "1.8x one target").noting(note));
            }
        }
    }
    Ok(())
}

fn on_threads(dir: &Path, threads: u16, options: &Options, seconds: f64) -> Result<[Row; 2]> {
    let keys = Keys::new(options.key_bits(64).saturating_sub(1));
    let values = Values::new(64);
    let values = &values;
    let done = scope(|scope| {
        let work = |target: u16| {
            let dir = dir.join(format!("t{target}"));
            move || -> Result<[Meter; 2]> {
                pin_to_cpu(usize::from(target))?;
                let mut rig = Rig::create(&dir, Setup { target, ..Setup::new(Kind::Single, 64) })?;
                one_target(&mut rig, values, keys, seconds)
            }
        };
        let running: Vec<_> = (0..threads).map(|target| scope.spawn(work(target))).collect();
        let died = || Error::Child { scenario: "targets".to_owned() };
        running.into_iter().map(|thread| thread.join().map_err(|_panic| died())?).collect::<Result<Vec<_>>>()
    })?;
    let (updates, fetches): (Vec<Meter>, Vec<Meter>) = done.into_iter().map(|[a, b]| (a, b)).unzip();
    let rows = [("update", updates), ("fetch", fetches)].map(|(op, meters)| {
        Meter::joined(meters).map(|meter| Row { threads: u32::from(threads), ..meter.row("targets", op, 64) })
    });
    let [Some(update), Some(fetch)] = rows else {
        return Err(Error::Child { scenario: "targets".to_owned() });
    };
    Ok([update, fetch])
}

fn one_target<'v>(rig: &mut Rig<'v>, values: &'v Values, keys: Keys, seconds: f64) -> Result<[Meter; 2]> {
    let mut update = Meter::start();
    while !update.is_over(seconds) {
        let (round, index) = (update.ops / keys.count(), update.ops % keys.count());
        let key = keys.at(index, round);
        update.run(64, || rig.update(key, values.of(key, round)))?;
    }
    update.stop();
    let written = update.ops.min(keys.count());
    let mut fetch = Meter::start();
    while !fetch.is_over(seconds / 2.0) {
        let key = keys.at(fetch.ops % written, 0);
        fetch.run(64, || rig.fetch(key).map(<[u8]>::len))?;
    }
    fetch.stop();
    Ok([update, fetch])
}
