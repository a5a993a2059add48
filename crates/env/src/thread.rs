//! Threads, processors, and what the process has used.

use crate::apart::OwnFd;
use crate::error::{Error, Op, Result};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread under a name that debuggers and profiles show (15 bytes of it).
///
/// # Errors
/// [`Error::Io`] if the system starts no more threads.
#[expect(clippy::disallowed_methods, reason = "this is the door that the rule sends everybody to")]
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|error| Error::from_std(Op::Thread, name, &error))
}

/// Runs `body`, which may start threads that borrow from here; returns when all have ended.
#[expect(clippy::disallowed_methods, reason = "this is the door that the rule sends everybody to")]
pub fn scope<'env, T>(body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    std::thread::scope(body)
}

/// As [`spawn`], of a thread that may borrow what lives longer than the scope.
///
/// # Errors
/// As [`spawn`].
pub fn spawn_within<'scope, 'env, T: Send + 'scope>(
    threads: &'scope Scope<'scope, 'env>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    Builder::new()
        .name(name.to_owned())
        .spawn_scoped(threads, body)
        .map_err(|error| Error::from_std(Op::Thread, name, &error))
}

/// Lets this thread come behind others by so many steps of nice(2) more, where there are too few processors for all.
///
/// # Errors
/// [`Error::Io`] if the system knows no such thing.
pub fn come_behind(steps: i32) -> Result<()> {
    let failed = |errno| Error::Io { op: Op::Thread, name: "nice".to_owned(), offset: 0, errno };
    rustix::process::nice(steps).map(drop).map_err(failed)
}

/// Lets other threads run: for pauses that are too short to sleep.
pub fn yield_now() {
    std::thread::yield_now();
}

/// Waits for a time to pass where no event tells that it has: a clock of another, such as that of a file system.
#[expect(clippy::disallowed_methods, reason = "this is the door that the rule sends everybody to")]
pub fn wait(time: core::time::Duration) {
    crate::meanwhile::look();
    std::thread::sleep(time);
}

/// The user that this process acts as.
#[must_use]
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Processors that this process may use; at least one.
#[must_use]
pub fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Binds the calling thread to the `index`-th of the processors it may use, counted round.
///
/// # Errors
/// [`Error::Io`] if the system refuses.
pub fn pin_to_cpu(index: usize) -> Result<()> {
    let failed = |errno| Error::from_errno(Op::Thread, "affinity", 0, errno);
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let cpu = *cpus.get(index % cpus.len().max(1)).ok_or_else(|| failed(Errno::INVAL))?;
    let mut chosen = CpuSet::new();
    chosen.set(cpu);
    sched_setaffinity(None, &chosen).map_err(failed)
}

/// The processor that the calling thread runs on now.
#[must_use]
#[inline]
pub fn current_cpu() -> usize {
    sched_getcpu()
}

/// Runs `body` on one processor, by its number, if this thread may be there; `None` if not. Then the thread is where it may be, as
/// before.
pub fn on_cpu<T>(cpu: usize, body: impl FnOnce() -> T) -> Option<T> {
    let allowed = sched_getaffinity(None).ok()?;
    if cpu >= CpuSet::MAX_CPU || !allowed.is_set(cpu) {
        return None;
    }
    let mut chosen = CpuSet::new();
    chosen.set(cpu);
    sched_setaffinity(None, &chosen).ok()?;
    let done = body();
    // Ignored: then it stays there.
    let _restored = sched_setaffinity(None, &allowed);
    Some(done)
}

/// Moves the calling thread from processor `cpu` to another that it may use, if there is one; whether it has. Where it may
/// run is as before: the system can move it again.
///
/// # Errors
/// [`Error::Io`] if the system refuses.
pub fn leave_cpu(cpu: usize) -> Result<bool> {
    let failed = |errno| Error::from_errno(Op::Thread, "affinity", 0, errno);
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let mut others = allowed;
    if cpu < CpuSet::MAX_CPU {
        others.unset(cpu);
    }
    if others.count() == 0 || others == allowed {
        return Ok(false);
    }
    sched_setaffinity(None, &others).map_err(failed)?;
    sched_setaffinity(None, &allowed).map_err(failed)?;
    Ok(true)
}

/// How many threads of the machine run or could run.
#[derive(Debug)]
pub struct Load {
    /// None where there is no `/proc`, as in some changed roots.
    file: Option<OwnFd>,
    cpus: u32,
}

impl Load {
    /// Looks at the whole machine, and at the processors that this process may use.
    #[must_use]
    pub fn of_machine() -> Self {
        Self::at(LOAD_PATH)
    }

    fn at(path: &str) -> Self {
        let file = std::fs::File::open(path).ok().map(|file| OwnFd::from(OwnedFd::from(file)));
        Self { file, cpus: u32::try_from(cpu_count()).unwrap_or(u32::MAX) }
    }

    /// Whether more threads want to run than there are processors for: then a thread that waits by looking again and
    /// again keeps others from running. So it may be where that cannot be seen. Takes a microsecond or two.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        let Some(file) = &self.file else { return true };
        let mut text = [0; 128];
        let len = rustix::io::pread(file, &mut text, 0).unwrap_or(0);
        // Three averages, then running/all.
        let running = core::str::from_utf8(&text[..len])
            .ok()
            .and_then(|text| text.split(' ').nth(3)?.split('/').next()?.parse::<u32>().ok());
        running.is_some_and(|running| running > self.cpus)
    }
}

const LOAD_PATH: &str = "/proc/loadavg";

/// Largest resident set of this process so far, in bytes.
///
/// # Errors
/// [`Error::Io`] if `/proc` is not there.
pub fn peak_rss_bytes() -> Result<u64> {
    status_bytes("VmHWM:")
}

/// Resident set of this process now, in bytes.
///
/// # Errors
/// [`Error::Io`] if `/proc` is not there.
pub fn rss_bytes() -> Result<u64> {
    status_bytes("VmRSS:")
}

/// Resident private memory of this process now (heap, stacks; no files), in bytes.
///
/// # Errors
/// [`Error::Io`] if `/proc` is not there.
pub fn anonymous_rss_bytes() -> Result<u64> {
    status_bytes("RssAnon:")
}

/// Guards what a test measures: the memory of this process, which others use as well. Taken alone.
#[cfg(test)]
pub(crate) static MEASURED: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn status_bytes(field: &str) -> Result<u64> {
    proc_bytes("/proc/self/status", field)
}

/// A size that a file of `/proc` tells in kB.
pub(crate) fn proc_bytes(path: &str, field: &str) -> Result<u64> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::from_std(Op::Thread, path, &error))?;
    text.lines()
        .find_map(|line| line.strip_prefix(field)?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .map(|kilobytes| kilobytes * 1024)
        .ok_or_else(|| Error::from_errno(Op::Thread, path, 0, Errno::NODATA))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_does_not_tell_its_load_counts_as_crowded() {
        assert!(Load::at("/proc/there is none").is_crowded());
    }

    #[test]
    fn a_machine_with_more_spinning_threads_than_processors_is_crowded() {
        let load = Load::of_machine();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let was_crowded = scope(|threads| {
            for _ in 0..2 * cpu_count() {
                threads.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        core::hint::spin_loop();
                    }
                });
            }
            let seen = (0..1_000_000).any(|_| load.is_crowded());
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            seen
        });
        assert!(was_crowded);
    }

    #[test]
    fn a_thread_leaves_a_processor_for_another_that_it_may_use_and_may_come_back() {
        spawn("leaver", || {
            let allowed = sched_getaffinity(None).unwrap();
            let here = current_cpu();
            assert_eq!(leave_cpu(here).unwrap(), cpu_count() > 1);
            assert!(sched_getaffinity(None).unwrap() == allowed);
            assert!(!leave_cpu(usize::MAX).unwrap());
            pin_to_cpu(0).unwrap();
            let only = current_cpu();
            assert!(!leave_cpu(only).unwrap(), "there is no other");
            assert_eq!(current_cpu(), only);
        })
        .unwrap()
        .join()
        .unwrap();
    }

    #[test]
    fn threads_of_a_scope_have_names_and_borrow() {
        let text = String::from("borrowed");
        let found = scope(|threads| {
            let name = || (std::thread::current().name().map(str::to_owned), text.len());
            spawn_within(threads, "within", name).unwrap().join().unwrap()
        });
        assert_eq!(found, (Some("within".to_owned()), text.len()));
    }

    #[test]
    fn threads_have_names_and_can_be_pinned() {
        let thread = spawn("worker", || {
            pin_to_cpu(0).unwrap();
            (std::thread::current().name().map(str::to_owned), cpu_count())
        });
        assert_eq!(thread.unwrap().join().unwrap(), (Some("worker".to_owned()), 1));
        assert!(peak_rss_bytes().unwrap() >= anonymous_rss_bytes().unwrap());
        assert!(rss_bytes().unwrap() > 0);
    }
}
