//! What a program has from whoever starts it, for one that others use, too: limits, signals, and which processors it may use.
//!
//! Invariants: what holds for the one who happens to start such a program ends with him, as far as the system lets it.

use crate::error::{Error, Result};
use core::mem::MaybeUninit;
use core::ptr;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Limits that end a program, or that it is refused memory by, which it would have without them.
const LIMITS: [(Resource, &str); 4] = [
    (Resource::Cpu, "processor time (ulimit -Ht)"),
    (Resource::Fsize, "the size of files (ulimit -Hf)"),
    (Resource::As, "memory (ulimit -Hv)"),
    (Resource::Data, "data in memory (ulimit -Hd)"),
];

/// Of these, those that nobody may begin a program with that others use: it ends, or cannot write, however little it does for each.
const FATAL_COUNT: usize = 2;

/// Whether a program that this process starts, and that others are to use, can do without its limits.
///
/// # Errors
/// [`Error::Setting`] of a limit that it cannot raise, and that would end it.
pub fn check_limits() -> Result<()> {
    for (resource, name) in &LIMITS[..FATAL_COUNT] {
        if let Some(value) = getrlimit(*resource).maximum {
            return Err(Error::Setting {
                name: format!("the limit of this process on {name}"),
                value: value.to_string(),
                wanted: "unlimited, since a daemon that it starts serves others, too: start that elsewhere with `dolmen serve \
                         SYSTEM --detach`, or limit this process with `ulimit -S`",
            });
        }
    }
    Ok(())
}

/// Puts back what this thread, and so what it starts from now on, has from whoever started it: limits up to what they may be raised
/// to, signals that are ignored or blocked, but for those in `kept`, the mask of modes (nothing for others), how far it comes
/// behind others, and the processors that it may use. What is left, in words: limits that cannot be raised.
pub fn begin_afresh(kept: &[i32]) -> Vec<&'static str> {
    let mut left = Vec::new();
    for (resource, name) in LIMITS {
        let limit = getrlimit(resource);
        if limit.current != limit.maximum {
            // Ignored: nobody is refused what he may raise to, and the limit stays as it was otherwise.
            let _raised = setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
        }
        if limit.maximum.is_some() {
            left.push(name);
        }
    }
    // SIGPIPE is the program's own: it has it ignored itself.
    (1..=libc::SIGRTMAX()).filter(|&signal| signal != libc::SIGPIPE).for_each(heed);
    unblock(kept);
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    // Ignored, as what follows: who may not come before others again stays behind them.
    let _before = rustix::process::setpriority_process(None, 0);
    let usual = libc::sched_param { sched_priority: 0 };
    // SAFETY: it reads one number of this thread's own.
    let _usual = unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const usual) };
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    let _anywhere = sched_setaffinity(None, &all);
    left
}

/// Has a signal do what it does, if it is ignored.
fn heed(signal: i32) {
    let mut now = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is changed, and `now` has room for what is said.
    let is_told = unsafe { libc::sigaction(signal, ptr::null(), now.as_mut_ptr()) } == 0;
    // SAFETY: it was written.
    if is_told && unsafe { now.assume_init_ref() }.sa_sigaction == libc::SIG_IGN {
        // SAFETY: no function of this program is called by it.
        let _heeded = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Lets this thread have all signals but these, which stay as they are.
fn unblock(kept: &[i32]) {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: it has room for the set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    for &signal in kept {
        // SAFETY: the set was filled.
        unsafe { libc::sigdelset(all.as_mut_ptr(), signal) };
    }
    // SAFETY: as above; the former set is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, all.as_ptr(), ptr::null_mut()) };
}
