//! Writes and reads events of 26 flat columns, as LHCb has them, and says how much time of the processor each takes:
//! `flat write FILE EVENTS SETTINGS` and `flat read FILE COLUMNS ENTRIES_AT_ONCE`.

use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::Schema;
use dolmen_rntuple::rootfile::{FileOptions, FileTime, RootFile, RootWriter};
use dolmen_rntuple::write::{self, Options};
use dolmen_rntuple::{Array, Entries, Ntuple, Values};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    match &arguments[..] {
        [_, what, file, events, settings] if what == "write" => {
            write(Path::new(file), events.parse()?, settings.parse()?)
        }
        [_, what, file, columns, entries] if what == "read" => {
            read(Path::new(file), columns.parse()?, entries.parse()?)
        }
        _ => Err("usage: flat write FILE EVENTS SETTINGS | flat read FILE COLUMNS ENTRIES_AT_ONCE".into()),
    }
}

/// Seconds of the processor.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn events(count: usize) -> Vec<(String, Array)> {
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut columns = Vec::new();
    for number in 0..20 {
        // Momenta, rounded to hundredths.
        let values = (0..count).map(|_| {
            let (a, b) = (next() as f64 / f64::from(1 << 30), next() as f64 / f64::from(1 << 30));
            ((a - 1.0) * b * b * 50_000.0).round() / 100.0
        });
        columns.push((format!("H{number}"), Array::Values(Values::F64(values.collect()))));
    }
    for number in 0..6 {
        let values = (0..count).map(|_| i32::try_from(next() % 3).expect("it is small") - 1);
        columns.push((format!("I{number}"), Array::Values(Values::I32(values.collect()))));
    }
    columns
}

fn write(path: &Path, count: usize, settings: u32) -> Result<(), Box<dyn Error>> {
    let compression = Compression::of(settings).ok_or("there is no such compression")?;
    let columns = events(count);
    let fields: Vec<(&str, &Array)> = columns.iter().map(|(name, array)| (&**name, array)).collect();
    let start = cpu_s();
    let mut schema = Schema::default();
    write::schema(&mut schema, &fields, compression)?;
    let options = Options { compression, has_zones: false, ..Options::default() };
    let header = Header {
        name: "flat".into(),
        description: "".into(),
        writer: "Dolmen".into(),
        schema: schema.clone(),
        checksum: 0,
    };
    let known = header.schema.known();
    let how = FileOptions { time: FileTime::of_unix(0), compression };
    let mut writer = RootWriter::create(path, header, known, how)?;
    for entries in write::cut(&fields, &options)? {
        writer.append(&write::seal(&schema, &fields, entries, &options)?)?;
    }
    writer.finish()?;
    let (seconds, bytes) = (cpu_s() - start, count as f64 * 184.0);
    println!(
        "written: {:.0} MB in {seconds:.3} s of the processor, {:.2} GB/s",
        bytes / 1e6,
        bytes / seconds / 1e9
    );
    Ok(())
}

fn read(path: &Path, columns: usize, at_once: u64) -> Result<(), Box<dyn Error>> {
    let start = cpu_s();
    let mut file = RootFile::open(path)?;
    let anchor = file.anchor("flat")?;
    let ntuple = Ntuple::open(file, &anchor)?;
    let fields: Vec<u32> = ntuple.top_fields().take(columns).collect();
    let (mut bytes, mut first) = (0, 0);
    while first < ntuple.entry_count() {
        let end = ntuple.entry_count().min(first + at_once);
        let arrays = ntuple.read(&fields, Entries { first, end })?;
        bytes += arrays.iter().map(Array::bytes).sum::<u64>();
        first = end;
    }
    let (seconds, bytes) = (cpu_s() - start, bytes as f64);
    println!(
        "read: {:.0} MB in {seconds:.3} s of the processor, {:.2} GB/s",
        bytes / 1e6,
        bytes / seconds / 1e9
    );
    Ok(())
}
