//! Other programs.

use crate::error::{Error, Op, Result};
use crate::root::{DirLock, unlock};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A program that was started, and is not waited for.
#[derive(Debug)]
pub struct Started {
    child: Child,
    name: String,
    /// That of the program, until it has ended.
    lock: Option<OwnedFd>,
}

impl Started {
    /// Starts a program, without output, in a directory of its own. It has `lock` in the place of its input, and so for as long as
    /// it runs, whatever becomes of this process or what that does meanwhile; that it takes it over ([`HeldDir::take_over`]) keeps
    /// processes from having it that are forked from this one. Where it does not, or does not come to it, the lock ends when
    /// this process sees that it has ended.
    ///
    /// [`HeldDir::take_over`]: crate::HeldDir::take_over
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such program; [`Error::Io`] if it cannot be run.
    pub fn begin(program: &Path, words: &[&OsStr], dir: &Path, lock: DirLock) -> Result<Self> {
        let name = program.display().to_string();
        let mut command = Command::new(program);
        command.args(words).current_dir(dir);
        let lock = lock.into_descriptor();
        let mut run = || {
            command.stdin(Stdio::from(lock.try_clone()?)).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn()
        };
        match run() {
            Ok(child) => Ok(Self { child, name, lock: Some(lock) }),
            Err(error) => {
                unlock(&lock);
                Err(Error::from_std(Op::Run, &name, &error))
            }
        }
    }

    /// Whether it has ended. Where this process waits for all its children, or for none, nothing is known of how.
    ///
    /// # Errors
    /// [`Error::Io`] if it says that it has failed.
    pub fn has_ended(&mut self) -> Result<bool> {
        let ended = self.child.try_wait();
        if !matches!(ended, Ok(None)) {
            // Once: the next one who has it is another.
            self.lock.take().iter().for_each(unlock);
        }
        match ended {
            Ok(None) => Ok(false),
            Ok(Some(status)) if !status.success() => {
                Err(Error::Io { op: Op::Run, name: self.name.clone(), offset: 0, errno: Errno::IO })
            }
            Ok(Some(_)) | Err(_) => Ok(true),
        }
    }

    #[cfg(test)]
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }
}

/// The number of this process.
#[must_use]
pub fn process_id() -> u32 {
    std::process::id()
}

/// Whether there is a process `pid`.
pub(crate) fn is_there(pid: u32) -> bool {
    status_of(pid).is_some()
}

/// Whether the process `pid` has ended, or is about to: it has been killed, or gives back what it held. What it had open is free
/// some milliseconds later, or more if it had much memory.
#[must_use]
pub fn is_ending(pid: u32) -> bool {
    let Some(status) = status_of(pid) else { return true };
    // Who ends gives back its memory first.
    field_of(&status, "VmSize:").is_none() || is_kill_pending(&status)
}

/// A process of this machine, which none that comes later is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number, as this process sees it.
    pub pid: u32,
    /// When it was started, in ticks since the machine was.
    pub started: u64,
    /// Which run of the machine that was.
    pub boot: u128,
    /// Among whose processes it has that number: those of a container have others.
    pub space: u32,
}

impl Process {
    /// The process that has the number `pid` now; `None` if nothing can be said of it.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: started(pid)?, boot: boot()?, space: space()? })
    }

    /// Whether it runs no more, or is about to end. What cannot be known counts as running.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        if boot().is_some_and(|boot| boot != self.boot) {
            return true;
        }
        if space() != Some(self.space) {
            return false;
        }
        match started(self.pid) {
            // One whose first thread has ended goes on in the others.
            Some(started) => started != self.started || is_ending(self.pid) && !has_threads(self.pid),
            // Without a list of processes nothing is known of any.
            None => {
                Path::new("/proc/self").exists() && !Path::new("/proc").join(self.pid.to_string()).exists()
            }
        }
    }
}

/// When a process was started, by the kernel's list: the 22nd field, where the second one may have anything in it, in brackets.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(19)?.parse().ok()
}

/// What tells the processes that this one sees from others.
fn space() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata("/proc/self/ns/pid").ok()?.ino();
    u32::try_from(inode).ok()
}

fn has_threads(pid: u32) -> bool {
    std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|all| all.count() > 1)
}

/// The run of the machine.
fn boot() -> Option<u128> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
}

/// Lets this process have as many open files as it may; how many those are, `u64::MAX` for no limit.
///
/// # Errors
/// [`Error::Io`].
pub fn raise_descriptor_limit() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
        raised.map_err(|errno| Error::from_errno(Op::Run, "open files", 0, errno))?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Keeps programs that this process starts from now on from what it was started with, but for its first three descriptors:
/// a daemon that outlives its starter must not hold the pipes of that one's starter open.
///
/// # Errors
/// [`Error::Io`].
pub fn keep_descriptors_to_itself() -> Result<()> {
    let listed = std::fs::read_dir("/proc/self/fd")
        .map_err(|error| Error::from_std(Op::Run, "/proc/self/fd", &error))?;
    let number = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let open: Vec<i32> = listed.filter_map(number).filter(|&fd| fd > 2).collect();
    for fd in open {
        // SAFETY: it is borrowed for one call, which changes nothing but a flag; one that is closed meanwhile, such as
        // that of the listing, is refused.
        let fd = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
        match rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC) {
            Ok(()) | Err(Errno::BADF) => {}
            Err(errno) => return Err(Error::from_errno(Op::Run, "descriptors", 0, errno)),
        }
    }
    Ok(())
}

/// Whether a thread, by its number, is about to end: a signal has come that no program outlives.
#[must_use]
pub fn is_being_killed(thread: u32) -> bool {
    status_of(thread).is_none_or(|status| is_kill_pending(&status))
}

/// Whether a thread, by its number, is there and about to end. 0 is nobody.
#[must_use]
pub fn is_dying(thread: u32) -> bool {
    thread != 0 && status_of(thread).is_some_and(|status| is_kill_pending(&status))
}

/// The groups that a thread is a member of beside its own; none if it is not there any more.
#[must_use]
pub fn groups_of(thread: u32) -> Vec<u32> {
    let Some(status) = status_of(thread) else { return Vec::new() };
    let groups = field_of(&status, "Groups:").map(str::split_whitespace);
    groups.into_iter().flatten().filter_map(|group| group.parse().ok()).collect()
}

/// Whether the ninth signal, from which there is no way back, is on its way to a thread or its process.
fn is_kill_pending(status: &str) -> bool {
    const KILL: u64 = 1 << 8;
    let masks = ["SigPnd:", "ShdPnd:"].map(|field| field_of(status, field));
    masks.into_iter().flatten().any(|mask| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & KILL != 0))
}

fn status_of(thread: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{thread}/status")).ok()
}

fn field_of<'a>(status: &'a str, field: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(field)).map(str::trim)
}

/// Makes a directory and those above it; one that is there is left as it is.
///
/// # Errors
/// [`Error::Io`].
pub fn create_dir_all(dir: &Path) -> Result<()> {
    let name = dir.display().to_string();
    std::fs::create_dir_all(dir).map_err(|error| Error::from_std(Op::Create, &name, &error))
}

/// Where the user's data belongs, by the environment: `XDG_DATA_HOME`, else below the home directory.
///
/// # Errors
/// [`Error::NotFound`] of [`NO_HOME`] if neither is set to a whole path.
pub fn data_directory() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let found = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local").join("share")));
    found.ok_or_else(|| Error::NotFound { name: NO_HOME.to_owned() })
}

/// What does not exist where the environment names no directory for the user's data.
pub const NO_HOME: &str = "a whole path in XDG_DATA_HOME or HOME";

/// The socket of the system `name` that the machine runs for its users: in the directory that `DOLMEN_RUN` names, else in
/// `/run/dolmen`, where root alone makes any.
#[must_use]
pub fn machine_socket(name: &str) -> PathBuf {
    let named = std::env::var_os("DOLMEN_RUN").filter(|value| !value.is_empty()).map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from("/run/dolmen")).join(format!("{name}.sock"))
}

/// Whether the machine has a system `name` for its users: one runs, was killed, or has run since the machine was started.
#[must_use]
pub fn is_machine_system(name: &str) -> bool {
    let socket = machine_socket(name);
    socket.exists() || socket.with_extension(WAS).exists()
}

/// Leaves word beside the socket of the machine's system `name` that it has one, for when it was ended and its socket is gone.
///
/// # Errors
/// [`Error::Io`].
pub fn mark_machine_system(name: &str) -> Result<()> {
    let mark = machine_socket(name).with_extension(WAS);
    let name = mark.display().to_string();
    let made = std::fs::OpenOptions::new().create(true).append(true).open(&mark);
    made.map(drop).map_err(|error| Error::from_std(Op::Create, &name, &error))
}

/// In the place of `sock`, what a system that has run leaves.
const WAS: &str = "was";

/// The program `dolmen`: what `DOLMEN_PROGRAM` says, else that beside the library or program that asks (in its directory, or
/// in `bin` beside that), else the first on the path.
#[must_use]
pub fn dolmen_program() -> PathBuf {
    if let Some(named) = std::env::var_os("DOLMEN_PROGRAM").filter(|named| !named.is_empty()) {
        return PathBuf::from(named);
    }
    let beside = |file: &Path| {
        let dir = file.parent()?;
        let places = [dir.join(PROGRAM), dir.parent()?.join("bin").join(PROGRAM)];
        places.into_iter().find(|place| place.is_file())
    };
    let library = own_library();
    let found = library.as_deref().and_then(beside).or_else(|| match std::env::current_exe() {
        Ok(own) => beside(&own),
        Err(_hidden) => None,
    });
    found.unwrap_or_else(|| PathBuf::from(PROGRAM))
}

const PROGRAM: &str = "dolmen";

/// The file of the C library, if this process has loaded it.
fn own_library() -> Option<PathBuf> {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return None };
    let path = maps.lines().find_map(|line| {
        let path = &line[line.find('/')?..];
        let name = path.rsplit('/').next()?;
        name.starts_with("libdaos.so").then_some(path)
    });
    path.map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_killed_is_ending_and_one_that_lives_is_not() {
        assert!(!is_ending(std::process::id()));
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        // Between its making and its program it may have nothing of its own.
        let lives = (0..1000).any(|_| {
            crate::thread::wait(core::time::Duration::from_millis(5));
            !is_ending(child.id())
        });
        child.kill().unwrap();
        let ends = (0..1000).any(|_| {
            crate::thread::wait(core::time::Duration::from_millis(5));
            is_ending(child.id())
        });
        let killed = Process::of(child.id());
        child.wait().unwrap();
        assert!(killed.is_none_or(|killed| killed.is_gone()));
        let own = Process::of(std::process::id()).unwrap();
        let others = [Process { started: own.started + 1, ..own }, Process { boot: own.boot ^ 1, ..own }];
        assert!(others.iter().all(Process::is_gone), "a number is used again");
        let elsewhere = Process { space: own.space ^ 1, started: own.started + 1, ..own };
        assert!(!own.is_gone() && !elsewhere.is_gone(), "nothing is known of those that are not seen");
        assert!(lives, "it runs");
        assert!(ends, "it was killed");
    }
}
