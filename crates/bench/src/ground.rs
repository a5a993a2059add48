//! Memory in one state for all that is measured.

use crate::error::{Error, Result};
use crate::meter::now;
use crate::row::Row;
use crate::{cgroup, child};
use dolmen_env::{HeldMemory, available_memory_bytes};

/// What the time of a touched page is taken over, in bytes.
const SAMPLE_BYTES: u64 = 256 << 20;
const PAGE_BYTES: u64 = 4096;
/// Parts of the memory that is available that are touched: programs that run beside get the rest.
const TENTHS: u64 = 8;

/// Touches most of the memory that is available, and keeps the kernel from handing it back to a host until the
/// result is dropped; two rows say what a page costs before and after.
///
/// In a virtual machine whose kernel reports free memory to its host, a page that nobody touched for seconds costs
/// the host's work, in whichever program comes upon it, and no two runs find memory in the same state. It takes a
/// minute for 20 GiB there, and seconds elsewhere.
///
/// # Errors
/// [`Error::Device`](crate::Error::Device) if the system does not tell its memory, or gives less than it tells.
pub fn hold_memory(each: &mut dyn FnMut(Row)) -> Result<HeldMemory> {
    let available = available_memory_bytes()?;
    let bytes = cgroup::room_bytes().map_or(available, |room| room.min(available)) / 10 * TENTHS;
    let start_ns = now();
    let held = HeldMemory::take(bytes)?;
    let found = us_a_page(start_ns, held.touched_bytes());
    let start_ns = now();
    let sample = HeldMemory::take(SAMPLE_BYTES.min(bytes))?;
    let after = us_a_page(start_ns, sample.touched_bytes());
    drop(sample);
    let note = format!("{} MiB touched once before all else", held.touched_bytes() >> 20);
    each(Row::value("native memory", "page never touched", PAGE_BYTES, found, "us").noting(note));
    let note = "as in all rows below: one page of each 2 MiB is kept, so that none goes back to a host";
    each(Row::value("native memory", "page touched before", PAGE_BYTES, after, "us").noting(note));
    Ok(held)
}

/// Holds memory for a measurement of other programs: says what that has cost, and keeps it until standard input ends.
pub(crate) fn hold_memory_until_told() -> Result<()> {
    let mut rows = Vec::new();
    let held = hold_memory(&mut |row| rows.push(row))?;
    rows.into_iter().try_for_each(child::say_row)?;
    child::say_done(held.touched_bytes())?;
    let ended = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    ended.map(|_unread| ()).map_err(Error::system("read from the parent"))
}

/// Microseconds that each page of `bytes` took since `start_ns`.
fn us_a_page(start_ns: u64, bytes: u64) -> f64 {
    (now() - start_ns) as f64 / 1e3 / (bytes / PAGE_BYTES).max(1) as f64
}
