//! File systems that this process serves to the kernel: the device of FUSE, mounting and unmounting.
//!
//! Root mounts by itself; everybody else through `fusermount3`, which is set-user-id and checks what they may do.

#[expect(unsafe_code, reason = "io_uring and mmap have no safe interface; each use says why it is sound")]
mod ring;

pub use ring::{RingEntry, RingRequest, ring_queues};

use crate::error::{Error, Op, Result};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mount::{FsPickFlags, MountFlags, UnmountFlags, fsconfig_reconfigure, fspick};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use std::ffi::{CString, OsStr};
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The type that mounts of this program have in `/proc/mounts`.
pub const MOUNT_TYPE: &str = "fuse.dolmen";

const DEVICE: &str = "/dev/fuse";

/// The program that mounts for users who are not root.
pub const MOUNT_HELPER: &str = "fusermount3";

/// So much of what the helper says is told: it is a line, or a few with what is wrong in its settings.
const SAID_BYTES_MAX: usize = 1024;

/// What is to be mounted, and where.
#[derive(Clone, Debug)]
pub struct MountRequest {
    /// The directory.
    pub dir: PathBuf,
    /// What stands in the first column of `df`.
    pub source: String,
    /// Refuse changes before they reach this process.
    pub read_only: bool,
    /// Let in other users than the one who mounts.
    pub allow_other: bool,
}

/// What a read of the device gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// One request, of so many bytes.
    Request(usize),
    /// None: a signal came, or the request was taken back before it was read. Read again.
    Nothing,
    /// The file system is mounted no more, or its connection was broken off.
    End,
}

/// What became of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replied {
    /// The kernel has it.
    Taken,
    /// Nobody waits for it any more.
    Unwanted,
}

/// The connection to the kernel of one mounted file system. Any number of threads may use it at once.
#[derive(Debug)]
pub struct KernelDevice {
    fd: Arc<OwnedFd>,
}

impl KernelDevice {
    /// Mounts; the kernel's first request waits on the device then.
    ///
    /// # Errors
    /// [`Error::NotFound`] for `/dev/fuse` or `fusermount3`; [`Error::Declined`] with what that has said; [`Error::Io`] with the
    /// system's number.
    pub fn mount(request: &MountRequest) -> Result<Self> {
        if rustix::process::geteuid().is_root() {
            match Self::mount_as_root(request) {
                // In a container root may be allowed less than the helper.
                Err(Error::Io { errno: Errno::PERM, .. }) => {}
                mounted => return mounted,
            }
        }
        Self::mount_by_helper(request)
    }

    fn mount_as_root(request: &MountRequest) -> Result<Self> {
        let failed = |name: &str, errno| Error::from_errno(Op::Mount, name, 0, errno);
        let fd = open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| Error::from_errno(Op::Open, DEVICE, 0, errno))?;
        let dir = request.dir.display().to_string();
        let kind = rustix::fs::stat(&request.dir).map_err(|errno| failed(&dir, errno))?.st_mode & 0o170_000;
        let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
        let mut options = format!(
            "fd={},rootmode={kind:o},user_id={},group_id={},default_permissions",
            fd.as_raw_fd(),
            user.as_raw(),
            group.as_raw()
        );
        if request.allow_other {
            options.push_str(",allow_other");
        }
        let options = CString::new(options).map_err(|_zero| failed(&dir, Errno::INVAL))?;
        let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
        if request.read_only {
            flags |= MountFlags::RDONLY;
        }
        rustix::mount::mount(
            request.source.as_str(),
            &request.dir,
            MOUNT_TYPE,
            flags,
            Some(options.as_c_str()),
        )
        .map_err(|errno| failed(&dir, errno))?;
        Ok(Self { fd: Arc::new(fd) })
    }

    fn mount_by_helper(request: &MountRequest) -> Result<Self> {
        let failed = |errno| Error::from_errno(Op::Mount, &request.dir.display().to_string(), 0, errno);
        open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| Error::from_errno(Op::Open, DEVICE, 0, errno))?;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .map_err(failed)?;
        fcntl_setfd(&theirs, FdFlags::empty()).map_err(failed)?;
        // A comma in it would begin another option.
        let source = request.source.replace(['\\', ','], "_");
        let mut options = format!("fsname={source},subtype=dolmen,default_permissions,nosuid,nodev");
        for (is_set, option) in [(request.read_only, ",ro"), (request.allow_other, ",allow_other")] {
            if is_set {
                options.push_str(option);
            }
        }
        let child = Command::new(MOUNT_HELPER)
            .arg("-o")
            .arg(options)
            .arg("--")
            .arg(&request.dir)
            .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        drop(theirs);
        let of_helper = |error| Error::from_std(Op::Run, MOUNT_HELPER, &error);
        let child = child.map_err(of_helper)?;
        let sent = receive_descriptor(&ours);
        let ended = child.wait_with_output().map_err(of_helper)?;
        match sent.map_err(failed)? {
            Some(fd) if ended.status.success() => {
                fcntl_setfd(&fd, FdFlags::CLOEXEC).map_err(failed)?;
                Ok(Self { fd: Arc::new(fd) })
            }
            _ => Err(declined(&ended.stderr)),
        }
    }

    /// Waits for the next request and reads it into `buf`.
    ///
    /// # Errors
    /// [`Error::Io`]: the device is broken, or `buf` is too small for what was agreed on.
    pub fn receive(&self, buf: &mut [u8]) -> Result<Received> {
        match rustix::io::read(&self.fd, buf) {
            Ok(0) => Ok(Received::End),
            Ok(len) => Ok(Received::Request(len)),
            // NOENT: whoever asked has stopped waiting before this was read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => Ok(Received::Nothing),
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Received::End),
            Err(errno) => Err(Error::from_errno(Op::Read, DEVICE, 0, errno)),
        }
    }

    /// Gives the kernel one reply, in parts.
    ///
    /// # Errors
    /// [`Error::Io`]: the kernel has not taken it, and whoever asked still waits.
    pub fn reply(&self, parts: &[IoSlice<'_>]) -> Result<Replied> {
        loop {
            match rustix::io::writev(&self.fd, parts) {
                Ok(_) => return Ok(Replied::Taken),
                Err(Errno::INTR) => {}
                // NOENT: it was interrupted or broken off meanwhile. The others: the mount is gone.
                Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => return Ok(Replied::Unwanted),
                Err(errno) => {
                    return Err(Error::Io { op: Op::Write, name: DEVICE.to_owned(), offset: 0, errno });
                }
            }
        }
    }
}

/// What the helper has refused, in its own words: its lines without its name before each.
fn declined(stderr: &[u8]) -> Error {
    let text = String::from_utf8_lossy(&stderr[..stderr.len().min(SAID_BYTES_MAX)]);
    let named =
        |line: &'_ str| line.trim().trim_start_matches(MOUNT_HELPER).trim_start_matches(": ").to_owned();
    let lines: Vec<String> = text.lines().map(named).filter(|line| !line.is_empty()).collect();
    Error::Declined { program: MOUNT_HELPER, said: lines.join("; ") }
}

/// One descriptor over a Unix socket; `None` if the other end was closed before it sent one.
fn receive_descriptor(socket: &OwnedFd) -> rustix::io::Result<Option<OwnedFd>> {
    let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut byte = [0_u8; 1];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received =
            rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::empty());
        match received {
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
            Ok(_) => {}
        }
        let sent = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        return Ok(sent);
    }
}

/// What becomes of those who use a mount that is taken away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InUse {
    /// They keep it.
    Kept,
    /// Its name goes at once, and the rest when nobody uses it any more.
    Later,
    /// The same, and whoever waits for it is told an error now, as is who uses it later.
    Failed,
}

/// How the helper ends what it says of a mount that is in use: in the language of no country.
const BUSY: &str = "Device or resource busy";

/// Takes a mount away.
///
/// # Errors
/// [`Error::Io`] with `BUSY` if somebody uses it, and with `PERM` if only root may do so; [`Error::NotFound`] for `fusermount3`;
/// [`Error::Declined`] with what that has said.
pub fn unmount(dir: &Path, in_use: InUse) -> Result<()> {
    let failed = |errno| Error::from_errno(Op::Unmount, &dir.display().to_string(), 0, errno);
    let flags = match in_use {
        InUse::Kept => UnmountFlags::empty(),
        InUse::Later => UnmountFlags::DETACH,
        InUse::Failed => UnmountFlags::DETACH | UnmountFlags::FORCE,
    };
    match rustix::mount::unmount(dir, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => return Ok(()),
        Err(Errno::PERM) if in_use != InUse::Failed => {}
        Err(errno) => return Err(failed(errno)),
    }
    let mut command = Command::new(MOUNT_HELPER);
    command.arg("-u").args((in_use == InUse::Later).then_some("-z")).arg("--").arg(dir);
    let ended = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| Error::from_std(Op::Run, MOUNT_HELPER, &error))?;
    match mounted_at(dir)?.filter(|_| !ended.status.success()) {
        None => Ok(()),
        // The helper takes away only what is its user's.
        Some(there) if there.user != Some(rustix::process::getuid().as_raw()) => Err(failed(Errno::PERM)),
        Some(_) => match declined(&ended.stderr) {
            Error::Declined { said, .. } if said.ends_with(BUSY) => Err(failed(Errno::BUSY)),
            other => Err(other),
        },
    }
}

/// A mount, as the kernel lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounted {
    /// The number of the mount, which the kernel gives to others when it is gone.
    pub number: u64,
    /// What part of the file system is mounted: `/` for all of it.
    pub root: PathBuf,
    /// Where it is mounted.
    pub dir: PathBuf,
    /// Its type, such as [`MOUNT_TYPE`].
    pub kind: String,
    /// What is mounted.
    pub source: String,
    /// The minor number of its device: of a FUSE mount, that of its connection.
    pub minor: u32,
    /// Who has mounted it, of a FUSE mount.
    pub user: Option<u32>,
}

impl Mounted {
    /// Whether a process that acts as `caller` may go by what the file system says beside its files: whoever has mounted it has it say
    /// what he likes, and could lead others to what they alone may use. True of root's mounts, and of the caller's own.
    #[must_use]
    pub fn is_trusted_by(&self, caller: u32) -> bool {
        self.user.is_some_and(|user| user == 0 || user == caller)
    }
}

/// The mount whose root is `dir`, an absolute path without links, `.` and `..`; of several over each other the last. The
/// mount itself is not asked, so one that answers nobody delays nobody here.
///
/// # Errors
/// [`Error::Io`] if `/proc` is not there.
pub fn mounted_at(dir: &Path) -> Result<Option<Mounted>> {
    Ok(mounts("self")?.rfind(|mount| mount.dir == dir))
}

/// The mount that has this number now.
///
/// # Errors
/// As [`mounted_at`].
pub fn mounted_as(number: u64) -> Result<Option<Mounted>> {
    Ok(mounts("self")?.find(|mount| mount.number == number))
}

/// All mounts of a type of file systems, in the order in which they were made.
///
/// # Errors
/// As [`mounted_at`].
pub fn mounts_of(kind: &str) -> Result<Vec<Mounted>> {
    Ok(mounts("self")?.filter(|mount| mount.kind == kind).collect())
}

/// The same, as another process sees them: it may have a mount namespace of its own.
///
/// # Errors
/// [`Error::NotFound`] if it has ended; [`Error::Io`] if it is another user's.
pub fn mounts_of_process(pid: u32, kind: &str) -> Result<Vec<Mounted>> {
    Ok(mounts(&pid.to_string())?.filter(|mount| mount.kind == kind).collect())
}

fn mounts(process: &str) -> Result<impl DoubleEndedIterator<Item = Mounted>> {
    let list = format!("/proc/{process}/mountinfo");
    let text = std::fs::read(&list).map_err(|error| Error::from_std(Op::Open, &list, &error))?;
    let mounts: Vec<_> = text.split(|byte| *byte == b'\n').filter_map(parse_mount).collect();
    Ok(mounts.into_iter())
}

/// Has the kernel forget names, attributes and contents of the FUSE mount in which `path` is, all that nobody uses just now; other
/// mounts keep theirs. `path` is absolute, without links. `false` if it is in no such mount.
///
/// # Errors
/// [`Error::Io`]: with `PERM` for who may not mount.
pub fn forget_mount(path: &Path) -> Result<bool> {
    let holds = |mount: &Mounted| path.starts_with(&mount.dir);
    // Of several over each other the last.
    let innermost = mounts("self")?.filter(holds).max_by_key(|mount| mount.dir.components().count());
    let Some(mount) = innermost.filter(|mount| is_fuse(&mount.kind)) else { return Ok(false) };
    let failed = |errno| Error::from_errno(Op::Mount, &mount.dir.display().to_string(), 0, errno);
    // A change of the mount in which nothing is changed: what the kernel remembers of it goes first.
    let picked = fspick(rustix::fs::CWD, &mount.dir, FsPickFlags::FSPICK_CLOEXEC).map_err(failed)?;
    fsconfig_reconfigure(&picked).map_err(failed)?;
    Ok(true)
}

fn is_fuse(kind: &str) -> bool {
    kind == "fuse" || kind.starts_with("fuse.")
}

/// One line of `mountinfo`: number, parent, device, root, directory, options, fields up to a dash, type, source.
fn parse_mount(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|byte| *byte == b' ');
    let number = core::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let device = core::str::from_utf8(fields.nth(1)?).ok()?;
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(&unescaped(bytes)).to_owned());
    let (root, dir) = (path(fields.next()?), path(fields.next()?));
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let text = |bytes: &[u8]| std::ffi::OsString::from_vec(unescaped(bytes)).to_string_lossy().into_owned();
    let (kind, source) = (text(fields.next()?), text(fields.next()?));
    let mut options = fields.next().unwrap_or_default().split(|byte| *byte == b',');
    let user = options.find_map(|option| core::str::from_utf8(option.strip_prefix(b"user_id=")?).ok());
    let user = user.and_then(|user| user.parse().ok());
    let minor = device.split_once(':')?.1.parse().ok()?;
    Some(Mounted { number, root, dir, kind, source, minor, user })
}

/// Bytes in which blanks and backslashes stand as three octal digits.
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 4).filter(|_| byte == b'\\');
        let number = digits.and_then(|digits| u8::from_str_radix(core::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(number.unwrap_or(byte));
        at += if number.is_some() { 4 } else { 1 };
    }
    plain
}

/// Gives a descriptor that this process writes to a new end: nowhere. For standard output that somebody else reads to its end.
///
/// # Errors
/// [`Error::Io`].
pub fn close_standard_output() -> Result<()> {
    let failed = |errno| Error::from_errno(Op::Open, "/dev/null", 0, errno);
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    rustix::stdio::dup2_stdout(&null).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mount_that_a_process_serves_is_forgotten() {
        assert!(!forget_mount(Path::new("/proc/self")).unwrap());
        assert!(["fuse", "fuse.dolmen"].iter().all(|kind| is_fuse(kind)));
        assert!(!["fusectl", "fuseblk", "tmpfs"].iter().any(|kind| is_fuse(kind)));
    }

    #[test]
    fn mounts_are_read_as_the_kernel_lists_them() {
        let line =
            br"36 35 0:48 / /mnt/with\040blank rw,nosuid shared:1 master:2 - fuse.dolmen p/c rw,user_id=1000,group_id=4";
        let mount = parse_mount(line).unwrap();
        let dir = PathBuf::from("/mnt/with blank");
        let (kind, source, root) = (MOUNT_TYPE.to_owned(), "p/c".to_owned(), PathBuf::from("/"));
        let expected = Mounted { number: 36, root, dir, kind, source, minor: 48, user: Some(1000) };
        assert_eq!(mount, expected);
        assert_eq!([0, 1, 1000].map(|caller| mount.is_trusted_by(caller)), [false, false, true]);
        let of = |user| Mounted { user, ..mount.clone() };
        assert_eq!([Some(0), None].map(|user| of(user).is_trusted_by(1000)), [true, false]);
        for bad in [&b""[..], b"1 2 3", b"1 2 a:b / / rw - x y", b"36 35 0:48 / / rw shared:1 fuse p"] {
            assert_eq!(parse_mount(bad), None);
        }
        assert_eq!(unescaped(br"a\134\04"), br"a\\04");
        assert!(mounted_at(Path::new("/proc")).unwrap().is_some_and(|mount| mount.kind == "proc"));
        assert_eq!(mounted_at(Path::new("/proc/no/such")).unwrap(), None);
        let proc = mounted_at(Path::new("/proc")).unwrap().unwrap();
        assert!(mounts_of("proc").unwrap().contains(&proc));
        assert_eq!(mounted_as(proc.number).unwrap(), Some(proc));
    }
}
