//! What the machine gives without a store: the limits that rows are held against, measured in the same run.

use crate::data::mix;
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::row::Row;
use dolmen_env::{pin_to_cpu, scope};
use dolmen_types::IoBuf;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

//= linux:include/uapi/asm-generic/fcntl.h O_DIRECT
const O_DIRECT: i32 = 0o40_000;

/// Runs a measurement on one core, without binding the caller and the children that it starts later to it.
pub(crate) fn pinned<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let died = || Error::Child { scenario: "native".to_owned() };
    let run = || {
        pin_to_cpu(0)?;
        work()
    };
    scope(|scope| scope.spawn(run).join().map_err(|_panic| died())?)
}

/// Accesses of one size to a file of `1 << bytes_log2` bytes: writes into fresh pages in order, then writes and
/// reads at random.
pub(crate) fn random_file(path: &Path, size: usize, bytes_log2: u32, seconds: f64) -> Result<[Row; 3]> {
    let count = (1_u64 << bytes_log2) / size as u64;
    let mut bytes = vec![0x5a_u8; size];
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(path)
        .map_err(Error::system("create a native file"))?;
    let (name, size) = ("native tmpfs", size as u64);
    let mut fresh = Meter::start();
    for at in 0..count {
        let done = fresh.run(size, || file.write_all_at(&bytes, at * size));
        done.map_err(Error::system("write a native file"))?;
    }
    let mut again = Meter::start();
    while !again.is_over(seconds) {
        let at = mix(again.ops) % count * size;
        let done = again.run(size, || file.write_all_at(&bytes, at));
        done.map_err(Error::system("write a native file"))?;
    }
    let mut read = Meter::start();
    while !read.is_over(seconds) {
        let at = mix(read.ops) % count * size;
        let done = read.run(size, || file.read_exact_at(&mut bytes, at));
        done.map_err(Error::system("read a native file"))?;
    }
    let note = format!("a file of {} MiB", (1_u64 << bytes_log2) >> 20);
    Ok([
        fresh.row(name, "pwrite() fresh", size).noting(format!("{note}, in order")),
        again.row(name, "pwrite() again", size).noting(format!("{note}, at random")),
        read.row(name, "pread()", size).noting(format!("{note}, at random")),
    ])
}

/// Appends with a flush each, one after the other.
pub(crate) fn append_flush(path: &Path, size: usize, seconds: f64) -> Result<Row> {
    let bytes = vec![0x5a_u8; size];
    let mut file = File::create(path).map_err(Error::system("create a native file"))?;
    let mut meter = Meter::start();
    while meter.seconds() < seconds {
        let done = meter.run_timed(size as u64, || file.write_all(&bytes).and_then(|()| file.sync_data()));
        done.map_err(Error::system("append to a native file and flush it"))?;
    }
    Ok(meter.row("native disk", "append + fdatasync", size as u64))
}

/// The same into room that was written before, so that a flush need not record a new length.
pub(crate) fn rewrite_flush(path: &Path, size: usize, seconds: f64) -> Result<Row> {
    const ROOM_BYTES: u64 = 16 << 20;
    let bytes = vec![0x5a_u8; size];
    let file = File::create(path).map_err(Error::system("create a native file"))?;
    let room = vec![0_u8; 1 << 20];
    for at in 0..ROOM_BYTES >> 20 {
        file.write_all_at(&room, at << 20).map_err(Error::system("write a native file"))?;
    }
    file.sync_all().map_err(Error::system("flush a native file"))?;
    let mut meter = Meter::start();
    while meter.seconds() < seconds {
        let at = meter.ops * size as u64 % (ROOM_BYTES - size as u64);
        let done =
            meter.run_timed(size as u64, || file.write_all_at(&bytes, at).and_then(|()| file.sync_data()));
        done.map_err(Error::system("rewrite a native file and flush it"))?;
    }
    Ok(meter.row("native disk", "rewrite + fdatasync", size as u64))
}

/// Sequential direct writes of 1 MiB, as `dd oflag=direct`: to a new file, then over it again; then direct reads.
pub(crate) fn direct(path: &Path, count: u64) -> Result<[Row; 3]> {
    let mut bytes = IoBuf::zeroed(1 << 20);
    bytes.fill(0x5a);
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .custom_flags(O_DIRECT)
        .open(path)
        .map_err(Error::system("create a native file for direct writes"))?;
    let write = |op: &str| -> Result<Row> {
        let mut meter = Meter::start();
        for at in 0..count {
            let done = meter.run_timed(1 << 20, || file.write_all_at(&bytes, at << 20));
            done.map_err(Error::system("write directly"))?;
        }
        Ok(meter.row("native disk", op, 1 << 20))
    };
    let rows = [write("O_DIRECT write, new file")?, write("O_DIRECT write again")?];
    let mut read = Meter::start();
    for at in 0..count {
        let done = read.run_timed(1 << 20, || file.read_exact_at(&mut bytes, at << 20));
        done.map_err(Error::system("read directly"))?;
    }
    let [new, again] = rows;
    Ok([new, again, read.row("native disk", "O_DIRECT read", 1 << 20)])
}

/// Random direct reads of 4 KiB, one after the other, from a new file of so many MiB.
pub(crate) fn direct_random_read(path: &Path, mib: u64, seconds: f64) -> Result<Row> {
    const PAGE: usize = 4096;
    direct_fill(path, mib)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(O_DIRECT)
        .open(path)
        .map_err(Error::system("open a native file for direct reads"))?;
    let mut page = IoBuf::zeroed(PAGE);
    let pages = (mib << 20) / PAGE as u64;
    let mut meter = Meter::start();
    while meter.seconds() < seconds {
        let at = mix(meter.ops) % pages * PAGE as u64;
        let done = meter.run_timed(PAGE as u64, || file.read_exact_at(&mut page, at));
        done.map_err(Error::system("read directly"))?;
    }
    let row = meter.row("native disk", "O_DIRECT read at random", PAGE as u64);
    Ok(row.noting(format!("a file of {mib} MiB, one reader")))
}

fn direct_fill(path: &Path, mib: u64) -> Result<()> {
    let mut bytes = IoBuf::zeroed(1 << 20);
    bytes.fill(0x5a);
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .custom_flags(O_DIRECT)
        .open(path)
        .map_err(Error::system("create a native file for direct writes"))?;
    for at in 0..mib {
        file.write_all_at(&bytes, at << 20).map_err(Error::system("write directly"))?;
    }
    Ok(())
}

/// Copies of 1 MiB in memory: from cold to cold.
pub(crate) fn memcpy(seconds: f64) -> Row {
    let from = vec![0x5a_u8; 256 << 20];
    let mut to = vec![0_u8; 256 << 20];
    let mut meter = Meter::start();
    while meter.seconds() < seconds {
        for (to, from) in to.chunks_exact_mut(1 << 20).zip(from.chunks_exact(1 << 20)) {
            meter.run_timed(1 << 20, || to.copy_from_slice(from));
        }
        core::hint::black_box(&to);
    }
    meter.row("native memory", "memcpy", 1 << 20)
}

/// Checksums over 1 MiB in memory.
pub(crate) fn checksum(seconds: f64) -> Row {
    let bytes = vec![0x5a_u8; 1 << 20];
    let mut meter = Meter::start();
    while meter.seconds() < seconds {
        core::hint::black_box(meter.run_timed(1 << 20, || dolmen_types::crc32c(&bytes)));
    }
    meter.row("native memory", "crc32c hot", 1 << 20)
}

/// Loads of a word at random, each address depending on the word before, by threads that share nothing: a table each.
pub(crate) fn random_loads(threads: u16, seconds: f64) -> Result<Row> {
    const TABLE_WORDS: usize = (256 << 20) / 8;
    const LOADS: u64 = 256;
    let work = |cpu: u16| {
        move || -> Result<Meter> {
            pin_to_cpu(usize::from(cpu))?;
            let table: Vec<u64> = (0..TABLE_WORDS as u64).collect();
            let mut at = u64::from(cpu);
            let mut meter = Meter::start();
            while !meter.is_over(seconds) {
                meter.run(8 * LOADS, || {
                    for _ in 0..LOADS {
                        let index = mix(at) % TABLE_WORDS as u64;
                        at = at.wrapping_add(table[usize::try_from(index).expect("an index in memory")]) | 1;
                    }
                });
                meter.ops += LOADS - 1;
            }
            core::hint::black_box(at);
            meter.pause();
            Ok(meter)
        }
    };
    let died = || Error::Child { scenario: "native".to_owned() };
    let meters = scope(|scope| {
        let running: Vec<_> = (0..threads).map(|cpu| scope.spawn(work(cpu))).collect();
        running.into_iter().map(|thread| thread.join().map_err(|_panic| died())?).collect::<Result<Vec<_>>>()
    })?;
    let meter = Meter::joined(meters).ok_or_else(died)?;
    Ok(Row { threads: u32::from(threads), ..meter.row("native memory", "dependent loads at random", 8) })
}

/// What the system's scheduler did with a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scheduled {
    /// Seconds that it could have run and others did.
    pub(crate) delayed_s: f64,
    /// Times that it gave its processor up, waiting for something.
    pub(crate) waits: u64,
}

impl Scheduled {
    /// Of this thread, since it began.
    pub(crate) fn of_this_thread() -> Result<Self> {
        let doing = "read what the scheduler did with a thread";
        let read = |name: &str| {
            std::fs::read_to_string(format!("/proc/thread-self/{name}")).map_err(Error::system(doing))
        };
        let (times, status) = (read("schedstat")?, read("status")?);
        let delayed_ns = times.split(' ').nth(1).and_then(|number| number.parse::<f64>().ok());
        let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let waits = waits.and_then(|number| number.trim().parse().ok());
        Ok(Self { delayed_s: delayed_ns.unwrap_or(0.0) / 1e9, waits: waits.unwrap_or(0) })
    }

    /// Since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { delayed_s: self.delayed_s - earlier.delayed_s, waits: self.waits - earlier.waits }
    }

    /// Of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { delayed_s: self.delayed_s + other.delayed_s, waits: self.waits + other.waits }
    }
}

/// A counter of `/proc/self/io`: bytes that this process has caused to be read from or written to devices.
pub(crate) fn io_counter(name: &str) -> Result<u64> {
    let doing = "read the process's counters of device accesses";
    let text = std::fs::read_to_string("/proc/self/io").map_err(Error::system(doing))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    Ok(line.and_then(|number| number.trim().parse().ok()).unwrap_or(0))
}
