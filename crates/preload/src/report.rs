//! What was taken and what was handed on, told at the end of a process that is asked to (`DOLMEN_PRELOAD_REPORT=1`).

use crate::system::Kept;
use crate::{files, settle, state, system};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// A kind of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Open,
    Stat,
    Access,
    Read,
    Write,
    Seek,
    Other,
    Name,
    Attr,
    List,
}

const NAMES: [&str; 10] =
    ["open", "stat", "access", "read", "write", "seek", "other", "name", "attr", "list"];

static TAKEN: [AtomicU64; 10] = [const { AtomicU64::new(0) }; 10];
static PASSED: [AtomicU64; 10] = [const { AtomicU64::new(0) }; 10];
static SETTLED: AtomicU64 = AtomicU64::new(0);
static KNOWN: AtomicU64 = AtomicU64::new(0);

/// Where it is told.
static TOLD: OnceLock<Option<Kept>> = OnceLock::new();

/// Keeps where is told what was done, if that is asked for.
pub(crate) fn begin() {
    if state::settings().reports {
        TOLD.get_or_init(system::kept_error);
    }
}

/// A call that was answered here.
pub(crate) fn taken(kind: Kind) {
    TAKEN[kind as usize].fetch_add(1, Ordering::Relaxed);
}

/// A call on a mount that was handed on.
pub(crate) fn passed(kind: Kind) {
    PASSED[kind as usize].fetch_add(1, Ordering::Relaxed);
}

/// A file that was given back to the kernel.
pub(crate) fn settled() {
    SETTLED.fetch_add(1, Ordering::Relaxed);
}

/// A name of which was known what is there, so that nobody was asked.
pub(crate) fn known() {
    KNOWN.fetch_add(1, Ordering::Relaxed);
}

/// Begins anew, in a forked child.
pub(crate) fn clear() {
    for count in TAKEN.iter().chain(&PASSED).chain([&SETTLED, &KNOWN]) {
        count.store(0, Ordering::Relaxed);
    }
}

/// At the end of a process: records what waits to be recorded, and tells what was done.
pub(crate) extern "C" fn at_end() {
    crate::guard::inside((), || {
        if files::is_any() || state::state().mounts.has_touched() {
            // This one's own variables are gone by now.
            let recorder = dolmen_env::spawn("dolmen-end", || {
                crate::guard::inside((), || {
                    settle::record_all();
                    state::state().mounts.record_times();
                });
            });
            // Ignored: if there is none, or it panics, times are as they were recorded before.
            _ = recorder.map(std::thread::JoinHandle::join);
        }
        if state::settings().reports {
            tell();
        }
    });
}

fn tell() {
    use core::fmt::Write as _;
    let mut line = String::from("dolmen_preload:");
    for (at, name) in NAMES.iter().enumerate() {
        let (taken, passed) = (TAKEN[at].load(Ordering::Relaxed), PASSED[at].load(Ordering::Relaxed));
        // Ignored: a string takes everything.
        _ = write!(line, " {name} {taken}/{}", taken + passed);
    }
    // Ignored: as above.
    _ = write!(line, " settled {} known {}", SETTLED.load(Ordering::Relaxed), KNOWN.load(Ordering::Relaxed));
    if TAKEN.iter().all(|taken| taken.load(Ordering::Relaxed) == 0) {
        // Ignored: as above.
        _ = write!(line, " (nothing is taken: {})", state::state().mounts.why());
    }
    line.push('\n');
    system::tell(&line, TOLD.get().copied().flatten());
}
