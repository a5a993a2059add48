//! Other processes, on this machine and on others: stream sockets that never block, and waiting for many of them.

use crate::apart::OwnFd;
use crate::error::{Error, Op, Result};
use crate::meanwhile;
use core::time::Duration;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    getpeername, getsockname, listen, recv, recvmsg, sendmsg, socket_with, sockopt,
};
use rustix::process::{Gid, Pid, PidfdFlags, pidfd_open};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Connections that the system may hold for us until they are taken.
const BACKLOG: i32 = 1024;

/// Where a process listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A name in the file system. Of what is longer than 107 bytes, which a socket may be called, the last part may have 80.
    Unix(PathBuf),
    /// An address of the network.
    Tcp(SocketAddr),
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// Who is at the other end of a Unix socket, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process.
    pub pid: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What a read or write of a socket did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// So many bytes, not zero.
    Bytes(usize),
    /// None now; wait for the socket.
    Later,
    /// The other end is gone.
    End,
}

/// What a socket is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ready {
    /// What was given to [`Waiter::add`].
    pub token: u64,
    /// There is something to read, or the other end is gone.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The other end is gone, and nothing that is written will be read.
    pub is_gone: bool,
}

/// A place where connections arrive. A Unix socket's name is removed by whoever made it, not by this.
#[derive(Debug)]
pub struct Listener {
    fd: OwnFd,
    address: Address,
}

impl Listener {
    /// Listens at `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// [`Error::Io`] with the system's number: the name is taken, too long, or the address is not this machine's.
    pub fn bind(address: &Address) -> Result<Self> {
        let failed = |errno| Error::Io { op: Op::Listen, name: address.to_string(), offset: 0, errno };
        let fd = made(address).map_err(failed)?;
        match address {
            Address::Unix(path) => bind(&fd, &Name::of(path).map_err(failed)?.address),
            Address::Tcp(at) => {
                sockopt::set_socket_reuseaddr(&fd, true).map_err(failed)?;
                bind(&fd, at)
            }
        }
        .map_err(failed)?;
        listen(&fd, BACKLOG).map_err(failed)?;
        let address = match address {
            Address::Unix(_) => address.clone(),
            Address::Tcp(at) => {
                let bound = getsockname(&fd).map_err(failed)?;
                Address::Tcp(SocketAddr::try_from(bound).unwrap_or(*at))
            }
        };
        Ok(Self { fd, address })
    }

    /// Where it listens, with the port that was taken.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next connection, if one has arrived.
    ///
    /// # Errors
    /// [`Error::Io`] if the process or the system can have no more of them.
    pub fn accept(&self) -> Result<Option<Socket>> {
        match accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(fd) => Ok(Some(Socket::new(fd.into(), self.address.clone()))),
            // The last two: who came is gone already.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(errno) => Err(Error::Io { op: Op::Listen, name: self.address.to_string(), offset: 0, errno }),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Has the system ask a silent peer on the network whether it is there: one whose machine is gone is found out within two
/// minutes.
fn watch_over(fd: &OwnFd) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_keepidle(fd, Duration::from_secs(60))?;
    sockopt::set_tcp_keepintvl(fd, Duration::from_secs(10))?;
    sockopt::set_tcp_keepcnt(fd, 6)
}

/// A connection. No call waits but [`Socket::connect`] and [`Socket::wait`].
#[derive(Debug)]
pub struct Socket {
    fd: OwnFd,
    address: Address,
}

impl Socket {
    fn new(fd: OwnFd, address: Address) -> Self {
        if matches!(address, Address::Tcp(_)) {
            // Ignored: without it small frames wait for each other; nothing else is lost.
            let _set = sockopt::set_tcp_nodelay(&fd, true);
            // Ignored: without it a peer whose machine is gone is noticed when something is sent to it.
            let _set = watch_over(&fd);
        }
        Self { fd, address }
    }

    /// Connects to `address` within `timeout`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such name; [`Error::Io`] with the system's number: nobody listens, or
    /// nothing answers in time.
    pub fn connect(address: &Address, timeout: Duration) -> Result<Self> {
        let (socket, is_connected) = Self::begin_connect(address)?;
        if is_connected || socket.has_connected(Some(timeout))? {
            return Ok(socket);
        }
        let failed = |errno| Error::from_errno(Op::Connect, &address.to_string(), 0, errno);
        Err(failed(Errno::TIMEDOUT))
    }

    /// Begins to connect, without waiting, and whether that is all; if not, [`Socket::has_connected`] tells when it is.
    ///
    /// # Errors
    /// As [`Socket::connect`].
    pub fn begin_connect(address: &Address) -> Result<(Self, bool)> {
        let failed = |errno| Error::from_errno(Op::Connect, &address.to_string(), 0, errno);
        let fd = made(address).map_err(failed)?;
        let begun = match address {
            Address::Unix(path) => connect(&fd, &Name::of(path).map_err(failed)?.address),
            Address::Tcp(at) => connect(&fd, at),
        };
        let socket = Self::new(fd, address.clone());
        match begun {
            Ok(()) => Ok((socket, true)),
            Err(Errno::INPROGRESS) => Ok((socket, false)),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Whether a connection that was begun is there, after waiting as long as that.
    ///
    /// # Errors
    /// As [`Socket::connect`].
    pub fn has_connected(&self, timeout: Option<Duration>) -> Result<bool> {
        if !self.wait(false, true, timeout)?.writable {
            return Ok(false);
        }
        let failed = |errno| Error::from_errno(Op::Connect, &self.address.to_string(), 0, errno);
        sockopt::socket_error(&self.fd).map_err(failed)?.map_err(failed)?;
        Ok(true)
    }

    /// Where it was connected to, or arrived.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Whether it goes over a network.
    #[must_use]
    pub fn is_network(&self) -> bool {
        matches!(self.address, Address::Tcp(_))
    }

    /// The address at the other end, of a network.
    #[must_use]
    pub fn remote(&self) -> Option<SocketAddr> {
        match self.address {
            Address::Tcp(_) => SocketAddr::try_from(getpeername(&self.fd).ok()??).ok(),
            Address::Unix(_) => None,
        }
    }

    /// The processor that the other end ran on when the last packet came, if it is on this machine: a hint, which may be old.
    #[must_use]
    pub fn peer_cpu(&self) -> Option<usize> {
        usize::try_from(sockopt::socket_incoming_cpu(&self.fd).ok()?).ok()
    }

    /// Who is at the other end; `None` where the kernel does not know, on a network.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn peer(&self) -> Result<Option<Peer>> {
        if matches!(self.address, Address::Tcp(_)) {
            return Ok(None);
        }
        let cred = sockopt::socket_peercred(&self.fd).map_err(|errno| self.failed(Op::Connect, errno))?;
        let pid = u32::try_from(cred.pid.as_raw_nonzero().get()).unwrap_or(0);
        Ok(Some(Peer { pid, uid: cred.uid.as_raw(), gid: cred.gid.as_raw() }))
    }

    /// Supplementary groups of who is at the other end, as the kernel tells them; none on a network.
    #[must_use]
    pub fn peer_groups(&self) -> Vec<u32> {
        if matches!(self.address, Address::Tcp(_)) { Vec::new() } else { crate::users::peer_groups(&self.fd) }
    }

    /// Reads what has arrived.
    ///
    /// REQUIRES: there is room in `bytes`: nothing read is the end.
    ///
    /// # Errors
    /// [`Error::Io`]; a connection that the other end has broken off is [`Moved::End`].
    ///
    /// # Panics
    /// If `bytes` is empty.
    pub fn read(&self, bytes: &mut [u8]) -> Result<Moved> {
        assert!(!bytes.is_empty());
        moved(recv(&self.fd, bytes, RecvFlags::empty()).map(|(len, _)| len))
            .map_err(|errno| self.failed(Op::Receive, errno))
    }

    /// Writes what there is room for, of the parts in order.
    ///
    /// # Errors
    /// [`Error::Io`]; a connection that the other end has broken off is [`Moved::End`].
    pub fn write(&self, parts: &[IoSlice<'_>]) -> Result<Moved> {
        self.send(parts, &mut SendAncillaryBuffer::default())
    }

    /// As [`Socket::write`], with a descriptor beside the first byte.
    ///
    /// # Errors
    /// As [`Socket::write`].
    ///
    /// # Panics
    /// Never: the buffer has room for one descriptor.
    pub fn write_with(&self, parts: &[IoSlice<'_>], fd: BorrowedFd<'_>) -> Result<Moved> {
        let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)), "there is room for one");
        self.send(parts, &mut control)
    }

    fn send(&self, parts: &[IoSlice<'_>], control: &mut SendAncillaryBuffer<'_, '_, '_>) -> Result<Moved> {
        moved(sendmsg(&self.fd, parts, control, SendFlags::NOSIGNAL))
            .map_err(|errno| self.failed(Op::Send, errno))
    }

    /// As [`Socket::read`], with a descriptor if one came along; more than one are closed.
    ///
    /// # Errors
    /// As [`Socket::read`].
    pub fn read_with(&self, bytes: &mut [u8]) -> Result<(Moved, Option<OwnFd>)> {
        let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(bytes)];
        let read = recvmsg(&self.fd, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC);
        let moved =
            moved(read.map(|message| message.bytes)).map_err(|errno| self.failed(Op::Receive, errno))?;
        let fds = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        Ok((moved, fds.and_then(|mut fds| fds.next()).map(OwnFd::from)))
    }

    /// Waits until the socket is ready for one of what is asked, at most for `timeout`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn wait(&self, readable: bool, writable: bool, timeout: Option<Duration>) -> Result<Ready> {
        self.wait_beside(readable, writable, None, timeout)
    }

    /// As [`Socket::wait`], or until the bell rings, which stays as it is.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn wait_beside(
        &self,
        readable: bool,
        writable: bool,
        bell: Option<&Bell>,
        timeout: Option<Duration>,
    ) -> Result<Ready> {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN | PollFlags::RDHUP, readable);
        wanted.set(PollFlags::OUT, writable);
        let socket = PollFd::new(&self.fd, wanted);
        let mut fds = match bell {
            Some(bell) => [socket, PollFd::new(&bell.fd, PollFlags::IN)],
            None => [socket.clone(), socket],
        };
        let len = 1 + usize::from(bell.is_some());
        match polled(&mut fds[..len], timeout) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(errno) => return Err(self.failed(Op::Wait, errno)),
        }
        let got = fds[0].revents();
        let gone = PollFlags::ERR | PollFlags::HUP;
        Ok(Ready {
            token: 0,
            readable: got.intersects(PollFlags::IN | PollFlags::RDHUP | gone),
            writable: got.intersects(PollFlags::OUT | gone),
            is_gone: got.intersects(gone),
        })
    }

    fn failed(&self, op: Op, errno: Errno) -> Error {
        Error::Io { op, name: self.address.to_string(), offset: 0, errno }
    }
}

/// Waits for one of these, and looks after the process meanwhile.
fn polled(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> rustix::io::Result<()> {
    let mut left = timeout;
    loop {
        let part = meanwhile::part_of(left);
        if poll(fds, part.map(timespec).as_ref())? > 0 || part == left {
            return Ok(());
        }
        left = left.zip(part).map(|(left, part)| left - part);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits for many sockets at once.
#[derive(Debug)]
pub struct Waiter {
    fd: OwnedFd,
}

impl Waiter {
    /// Waits for nothing yet.
    ///
    /// # Errors
    /// [`Error::Io`] if the process can have no more descriptors.
    pub fn new() -> Result<Self> {
        Ok(Self { fd: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(waiter_failed)? })
    }

    /// From now on waits also for `socket`, until it is closed: for what it brings, and, if `writable`, for room.
    ///
    /// # Errors
    /// [`Error::Io`] if the system waits for no more.
    pub fn add(&self, socket: &impl AsFd, token: u64, writable: bool) -> Result<()> {
        epoll::add(&self.fd, socket, epoll::EventData::new_u64(token), flags(true, writable))
            .map_err(waiter_failed)
    }

    /// Waits for what comes, for room, for both, or only for the end of the connection.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn change(&self, socket: &impl AsFd, token: u64, readable: bool, writable: bool) -> Result<()> {
        epoll::modify(&self.fd, socket, epoll::EventData::new_u64(token), flags(readable, writable))
            .map_err(waiter_failed)
    }

    /// Waits for `socket` no more, which stays open.
    ///
    /// # Errors
    /// [`Error::Io`] if it was not waited for.
    pub fn remove(&self, socket: &impl AsFd) -> Result<()> {
        epoll::delete(&self.fd, socket).map_err(waiter_failed)
    }

    /// Appends what is ready to `ready`, after waiting for at most `timeout`; `None` waits as long as it takes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> Result<()> {
        let mut events = [core::mem::MaybeUninit::uninit(); 64];
        let timeout = timeout.map(timespec);
        let (events, _) = match epoll::wait(&self.fd, &mut events, timeout.as_ref()) {
            Ok(events) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(waiter_failed(errno)),
        };
        ready.extend(events.iter().map(|event| {
            let flags = event.flags;
            let gone = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
            let input = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | gone;
            Ready {
                token: event.data.u64(),
                readable: flags.intersects(input),
                writable: flags.intersects(epoll::EventFlags::OUT | gone),
                is_gone: flags.intersects(gone),
            }
        }));
        Ok(())
    }
}

impl AsFd for Waiter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Calls a thread that waits for sockets from another thread.
#[derive(Debug)]
pub struct Bell {
    fd: OwnFd,
}

impl Bell {
    /// A bell that is still.
    ///
    /// # Errors
    /// [`Error::Io`] if the process can have no more descriptors.
    pub fn new() -> Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(waiter_failed)?;
        Ok(Self { fd: fd.into() })
    }

    /// Makes it readable for [`Waiter::add`], until [`Bell::still`].
    pub fn ring(&self) {
        // Ignored: a bell that cannot be rung once more rings already.
        let _rung = rustix::io::write(&self.fd, &1_u64.to_le_bytes());
    }

    /// Makes it still.
    pub fn still(&self) {
        // Ignored: it was still already.
        let _rung = rustix::io::read(&self.fd, &mut [0_u8; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Tells whoever started this process and waits for that (`NOTIFY_SOCKET`, sd_notify(3)) that it is ready.
pub fn notify_ready() {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_encoded_bytes() {
        [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name),
        path => SocketAddrUnix::new(path),
    };
    let made = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    if let (Ok(address), Ok(fd)) = (address, made) {
        // Ignored: whoever does not hear it goes on waiting, and says so.
        let _told = rustix::net::sendto(&fd, b"READY=1", SendFlags::NOSIGNAL, &address);
    }
}

/// Says who may connect to a socket of this process: the bits of its mode, and a group instead of its own.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Io`] if the group is not this user's to give.
pub fn open_socket_to(path: &Path, mode: u32, group: Option<u32>) -> Result<()> {
    let name = path.display().to_string();
    let failed = |errno| Error::from_errno(Op::Create, &name, 0, errno);
    if let Some(group) = group {
        // Before the bits that are for it.
        rustix::fs::chown(path, None, Some(Gid::from_raw(group))).map_err(failed)?;
    }
    rustix::fs::chmod(path, Mode::from_raw_mode(mode)).map_err(failed)
}

/// Removes the name of a socket; whatever else has it stays.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Exists`] if something else has the name; [`Error::Io`].
pub fn remove_socket(path: &Path) -> Result<()> {
    let name = path.display().to_string();
    let failed = |errno| Error::from_errno(Op::Remove, &name, 0, errno);
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::lstat(path).map_err(failed)?.st_mode);
    if kind != rustix::fs::FileType::Socket {
        return Err(Error::Exists { name });
    }
    rustix::fs::unlink(path).map_err(failed)
}

/// Makes a name lead to a socket elsewhere.
///
/// # Errors
/// [`Error::Exists`] if something has the name; [`Error::Io`].
pub fn link_socket(socket: &Path, path: &Path) -> Result<()> {
    let name = path.display().to_string();
    rustix::fs::symlink(socket, path).map_err(|errno| match errno {
        Errno::EXIST => Error::Exists { name },
        errno => Error::from_errno(Op::Create, &name, 0, errno),
    })
}

/// Removes a name that leads elsewhere; nothing is done with what is no such name.
///
/// # Errors
/// [`Error::Io`].
pub fn unlink_socket(path: &Path) -> Result<()> {
    let name = path.display().to_string();
    let failed = |errno| Error::from_errno(Op::Remove, &name, 0, errno);
    let is_link = rustix::fs::readlink(path, Vec::new()).is_ok();
    if is_link { rustix::fs::unlink(path).map_err(failed) } else { Ok(()) }
}

/// What becomes readable when the process `pid` ends, for [`Waiter::add`]: a forked child may keep a socket open.
///
/// # Errors
/// [`Error::Io`] if there is no such process (any more).
pub fn peer_watch(pid: u32) -> Result<OwnedFd> {
    let failed = |errno| Error::Io { op: Op::Wait, name: format!("process {pid}"), offset: 0, errno };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| failed(Errno::SRCH))?;
    pidfd_open(pid, PidfdFlags::empty()).map_err(failed)
}

/// What the kernel takes as the name of a socket. It takes no long ones: those are reached through their directory, which is
/// open for as long as the value lives.
struct Name {
    address: SocketAddrUnix,
    _dir: Option<OwnedFd>,
}

impl Name {
    fn of(path: &Path) -> core::result::Result<Self, Errno> {
        match SocketAddrUnix::new(path) {
            Ok(address) => Ok(Self { address, _dir: None }),
            Err(Errno::NAMETOOLONG) => {
                let (parent, last) = path.parent().zip(path.file_name()).ok_or(Errno::NAMETOOLONG)?;
                let dir = open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
                let through = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(last);
                Ok(Self { address: SocketAddrUnix::new(through)?, _dir: Some(dir) })
            }
            Err(errno) => Err(errno),
        }
    }
}

fn made(address: &Address) -> core::result::Result<OwnFd, Errno> {
    let family = match address {
        Address::Unix(_) => AddressFamily::UNIX,
        Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
    };
    Ok(socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?.into())
}

fn moved(result: core::result::Result<usize, Errno>) -> core::result::Result<Moved, Errno> {
    match result {
        Ok(0) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(Moved::End),
        Ok(len) => Ok(Moved::Bytes(len)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Moved::Later),
        Err(errno) => Err(errno),
    }
}

fn flags(readable: bool, writable: bool) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::empty();
    flags.set(epoll::EventFlags::IN | epoll::EventFlags::RDHUP, readable);
    flags.set(epoll::EventFlags::OUT, writable);
    flags
}

fn timespec(time: Duration) -> Timespec {
    Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::from(i32::MAX), tv_nsec: 0 })
}

fn waiter_failed(errno: Errno) -> Error {
    Error::Io { op: Op::Wait, name: "sockets".to_owned(), offset: 0, errno }
}
