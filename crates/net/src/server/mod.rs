//! The daemon's side: threads that serve connections, and threads that answer what may take long.
//!
//! What pools there are is not known here: whoever runs a server answers for that ([`System`]).

mod arrival;
mod attached;
mod bufs;
mod conn;
mod door;
mod files;
mod holders;
mod jobs;
mod kept;
mod leases;
mod locks;
mod post;
mod rights;
mod worker;

use crate::error::Result;
use crate::ring::RING_BYTES_MAX;
use crate::tls::{Certs, Identity};
pub use conn::REQUESTS_MAX;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use dolmen_codec::Transport;
use dolmen_codec::wire::{SystemReply, SystemVerb, Version, Welcome};
use dolmen_env::{Listener, Peer, spawn};
use dolmen_types::{Error, Head};
use door::{Door, Grave};
pub use files::{Files, FilesAsked, FilesUser, Then};
pub use holders::Holders;
use jobs::{Jobs, Mailbox};
pub use kept::User;
pub use leases::Leases;
pub use locks::{Locks, Note};
pub use rights::{Principal, Rights, on_pool};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use worker::Worker;

/// What a server serves.
///
/// One implementor: the daemon, which knows pools in directories; what serves connections does not.
pub trait System: Send + Sync {
    /// What a client is told first, with the version and the rings that it gets.
    fn welcome(&self, version: Version, ring_bytes: u64) -> Welcome;

    /// Answers a question to the daemon; may take long. The head has the user that the kernel says, where it knows him, or his
    /// certificate.
    ///
    /// # Errors
    /// What the client is told.
    fn answer(
        &self,
        head: &Head,
        caller: &Caller,
        ask: SystemVerb,
    ) -> core::result::Result<Attachment, Error>;

    /// Whoever asked that the system ends has its answer, or is gone: it may end from now on.
    fn end(&self);

    /// Takes note of what concerns whoever runs the machine.
    fn note(&self, text: &str);
}

/// Who asks the daemon.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The process, where the kernel knows it.
    pub peer: Option<Peer>,
    /// With a connect: groups beside that of the head, as the kernel says; none over a network.
    pub groups: Vec<u32>,
    /// Over a network: whom his certificate names.
    pub identity: Option<Arc<Identity>>,
    /// What he calls himself on all his connections, as a whole; 0 if he does not say.
    pub client: u128,
}

/// An answer of the daemon, and what the connection gets with it.
pub struct Attachment {
    /// The answer.
    pub reply: SystemReply,
    /// With the answer to a connect: the pool.
    pub pool: Option<OpenedPool>,
    /// Whether the system ends once this was sent ([`System::end`]).
    pub is_last: bool,
}

/// A pool for a connection.
pub struct OpenedPool {
    /// The way to it; the same `Arc` for all connections.
    pub transport: Arc<dyn Transport>,
    /// Whether changes are refused.
    pub is_read_only: bool,
    /// Whether nothing that is written has to wait for a device: a pool in memory.
    pub answers_at_once: bool,
    /// Whether its service is at another engine, which is asked who may open containers.
    pub is_part: bool,
    /// The version of its map.
    pub map_version: u32,
    /// Whose connection it is.
    pub uid: u32,
    /// What he may do.
    pub rights: Rights,
    /// Where it is remembered for the next daemon what he has open.
    pub user: Option<Arc<dyn User>>,
    /// Who has which of its containers open; the same for all connections.
    pub holders: Arc<Holders>,
    /// Locks on its objects; the same for all connections, whoever opens the pool how often.
    pub locks: Arc<Locks>,
    /// Leases on what was read of it; the same for all connections.
    pub leases: Arc<Leases>,
    /// Files of its containers; `None` where the pool's service is not.
    pub files: Option<Arc<dyn Files>>,
}

/// Limits of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that serve connections.
    pub threads: usize,
    /// Connections at once, by thread; more are closed at once.
    pub connections_max: usize,
    /// Bytes of each ring that a client may have.
    pub ring_bytes_max: usize,
    /// With these, whoever comes over a network has to have a certificate of the same authority.
    pub certs: Option<Certs>,
    /// How long whoever comes over a network may take until he has said hello.
    pub greeting_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 1,
            connections_max: 16_384,
            ring_bytes_max: 4 << 20,
            certs: None,
            greeting_max: Duration::from_secs(10),
        }
    }
}

/// A server that runs; it stops when it is told to, or dropped.
pub struct Server {
    stop: Arc<AtomicBool>,
    mailboxes: Vec<Arc<Mailbox>>,
    workers: Vec<JoinHandle<()>>,
    jobs: Jobs,
    grave: Arc<Grave>,
    /// Ends the thread at the door.
    is_over: Arc<AtomicBool>,
    door: Option<JoinHandle<()>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Serves what comes to `listeners` from now on.
    ///
    /// # Errors
    /// If threads or descriptors cannot be had.
    ///
    /// # Panics
    /// If the options allow rings that are longer than rings can be.
    pub fn start(system: &Arc<dyn System>, listeners: Vec<Listener>, options: &Options) -> Result<Self> {
        assert!(options.ring_bytes_max <= RING_BYTES_MAX);
        let jobs = Jobs::new(Arc::clone(system));
        let mut server = Self {
            stop: Arc::default(),
            mailboxes: Vec::new(),
            workers: Vec::new(),
            jobs,
            grave: Arc::new(Grave::new()?),
            is_over: Arc::default(),
            door: None,
            connections: Arc::default(),
        };
        server.jobs.start()?;
        for _ in 0..options.threads.max(1) {
            let (jobs, grave) = (server.jobs.clone(), Arc::clone(&server.grave));
            let worker = Worker::new(Arc::clone(system), jobs, grave, Arc::clone(&server.stop))?;
            server.mailboxes.push(worker.mailbox());
            server.workers.push(spawn("dolmen-serve", move || or_end(|| worker.run()))?);
        }
        let door = Door::new(
            Arc::clone(system),
            options,
            listeners,
            server.mailboxes.clone(),
            Arc::clone(&server.grave),
            (Arc::clone(&server.is_over), Arc::clone(&server.connections)),
        )?;
        server.door = Some(spawn("dolmen-door", move || or_end(|| door.run()))?);
        Ok(server)
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Closes all connections, finishes what is under way, and ends the threads.
    pub fn stop(mut self) {
        self.shut();
    }

    fn shut(&mut self) {
        self.stop.store(true, Ordering::Release);
        for mailbox in &self.mailboxes {
            mailbox.post().bell().ring();
        }
        // Ignored: a panic of a thread was reported when it happened, and the others are ended all the same.
        self.workers.drain(..).for_each(|thread| drop(thread.join()));
        self.jobs.end();
        // Last: it closes what the others have left.
        self.is_over.store(true, Ordering::Release);
        self.grave.bell().ring();
        self.door.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// Does what a thread of the server is for. A panic ends the process: one that lives on without this thread holds its pools
/// and answers nobody, while whoever starts it anew finds everything that was acknowledged.
fn or_end(body: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(body)).is_err() {
        std::process::abort();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    /// Set for the child that panics.
    const CHILD: &str = "DOLMEN_TEST_PANICS";

    #[test]
    fn a_thread_that_panics_ends_the_process() {
        if std::env::var_os(CHILD).is_some() {
            let thread = spawn("dolmen-serve", || or_end(|| panic!("as asked"))).unwrap();
            let _ended = thread.join();
            return;
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "server::tests::a_thread_that_panics_ends_the_process"]).env(CHILD, "1");
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.signal(), Some(6), "{status}");
    }
}
