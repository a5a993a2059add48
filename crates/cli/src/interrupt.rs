//! Signals that end a command: SIGINT (Ctrl-C), SIGTERM and SIGHUP (a terminal that is gone).
//!
//! A command that copies, compares or removes a tree stops before its next entry or block, closes the pool and tells that it
//! was interrupted as it tells any failure. Any other is told and ends where it stands, which a pool survives as it
//! survives every death of its process; so does each at a second signal. The program then ends by the signal, so that a
//! shell ends its script as well.
//!
//! Invariants: one answer is printed, by the command or by the thread that waits for signals. No other thread is
//! interrupted: a call of the system that a signal breaks off would look like a device that fails.

use crate::failure::{Exit, Failure};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use nix::sys::signal::{SigSet, Signal, raise};
use std::sync::{Mutex, PoisonError};

const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// A signal has come: what heeds it stops.
static STOP: AtomicBool = AtomicBool::new(false);
/// Its number.
static WHICH: AtomicI32 = AtomicI32::new(Signal::SIGINT as i32);
/// The command heeds `STOP` and tells itself that it was interrupted.
static HEEDED: AtomicBool = AtomicBool::new(false);
/// A signal is how the command is meant to end: nothing is told then.
static QUIET: AtomicBool = AtomicBool::new(false);
/// Somebody prints the answer: whoever sets it.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// Guards what is done before a signal ends the process; taken alone.
static BEFORE_END: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Guards what is done when a command has to stop that heeds it; taken alone.
static AT_STOP: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Begins to wait for signals; `report` prints that the command was interrupted.
///
/// REQUIRES: no other thread was started yet: those started later leave the signals to the one that waits.
pub(crate) fn watch(report: impl Fn(&Failure) + Send + 'static) {
    let signals = heard();
    let waits = signals.thread_block().is_ok()
        && dolmen_env::spawn("signals", move || wait(&signals, &report)).is_ok();
    if !waits {
        restore();
    }
}

/// Lets signals end this process at once: a part of a command that another process carries out.
pub(crate) fn restore() {
    // Ignored: then they are blocked, and whoever started this process ends it.
    let _restored = SigSet::from_iter(SIGNALS).thread_unblock();
}

/// Puts back what whoever started this program has left to it ([`dolmen_env::begin_afresh`]); what could not be. Signals are waited for
/// as before.
pub(crate) fn begin_afresh() -> Vec<&'static str> {
    dolmen_env::begin_afresh(&SIGNALS.map(|signal| signal as i32))
}

/// Set when a command has to stop. Whoever asks for it heeds it from now on.
pub(crate) fn stop() -> &'static AtomicBool {
    HEEDED.store(true, Ordering::SeqCst);
    &STOP
}

/// Has a signal end the command without a word: there is no other end.
pub(crate) fn end_quietly() {
    QUIET.store(true, Ordering::SeqCst);
}

/// Has this called as soon as a command has to stop that heeds it.
pub(crate) fn when_stopped(call: impl FnOnce() + Send + 'static) {
    *AT_STOP.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(call));
    if is_asked() {
        call_at_stop();
    }
}

fn call_at_stop() {
    let call = AT_STOP.lock().unwrap_or_else(PoisonError::into_inner).take();
    call.into_iter().for_each(|call| call());
}

/// Whether a signal has come, for what waits before a command begins.
pub(crate) fn is_asked() -> bool {
    STOP.load(Ordering::SeqCst)
}

/// Has something done before a signal ends a command where it stands.
pub(crate) fn before_end(work: impl FnOnce() + Send + 'static) {
    *BEFORE_END.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(work));
}

/// Why a command that heeds signals has stopped.
pub(crate) fn failure() -> Failure {
    let which = WHICH.load(Ordering::SeqCst);
    let signal = SIGNALS.into_iter().find(|signal| *signal as i32 == which).unwrap_or(Signal::SIGINT);
    let exit = match signal {
        Signal::SIGTERM => Exit::Terminated,
        Signal::SIGHUP => Exit::HungUp,
        _ => Exit::Interrupted,
    };
    Failure::new(exit, format!("interrupted by {signal}")).hint("run the command again")
}

/// Says that the command prints its answer now. Does not return if it was interrupted before.
pub(crate) fn begin_answer() {
    while ANSWERED.swap(true, Ordering::SeqCst) {
        // The other thread prints, and ends the process.
        std::thread::park();
    }
}

/// Ends the process by the signal that an exit code tells, if it tells one.
pub(crate) fn end_as(exit: Exit) {
    match exit {
        Exit::Interrupted => end_by(Signal::SIGINT),
        Exit::Terminated => end_by(Signal::SIGTERM),
        Exit::HungUp => end_by(Signal::SIGHUP),
        _ => {}
    }
}

/// All, without those that whoever started this program ignores for it, as nohup(1) and shells do.
fn heard() -> SigSet {
    // Ignored: where nothing tells which are, none is left out.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = |line: &str| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok();
    let ignored = status.lines().find_map(mask).unwrap_or(0);
    SIGNALS.into_iter().filter(|signal| ignored >> (*signal as u32 - 1) & 1 == 0).collect()
}

fn wait(signals: &SigSet, report: &dyn Fn(&Failure)) {
    let mut lets_answer = true;
    while let Ok(signal) = signals.wait() {
        let is_first = !STOP.load(Ordering::SeqCst);
        if is_first {
            WHICH.store(signal as i32, Ordering::SeqCst);
            STOP.store(true, Ordering::SeqCst);
        }
        if is_first && HEEDED.load(Ordering::SeqCst) {
            call_at_stop();
            continue;
        }
        if ANSWERED.swap(true, Ordering::SeqCst) {
            // The answer is being printed, unless nobody reads it.
            if core::mem::take(&mut lets_answer) {
                continue;
            }
        } else {
            // From now on a signal ends this thread's wait for a reader, too.
            restore();
            let work = BEFORE_END.lock().unwrap_or_else(PoisonError::into_inner).take();
            work.into_iter().for_each(|work| work());
            if !QUIET.load(Ordering::SeqCst) {
                report(&failure());
            }
        }
        end_by(signal);
    }
}

fn end_by(signal: Signal) -> ! {
    restore();
    // Ignored: the number below says the same.
    let _raised = raise(signal);
    std::process::exit(128 + signal as i32)
}
