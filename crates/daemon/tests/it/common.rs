//! A daemon with a pool in a directory of its own.

use core::task::Poll;
use dolmen_client::Pool;
use dolmen_codec::step;
use dolmen_codec::wire::{PoolAccess, PoolName, PoolSpec, SystemReply, SystemVerb};
use dolmen_daemon::{Daemon, Settings};
use dolmen_env::Address;
use dolmen_net::client::{Link, LinkOptions, Remote};
use dolmen_types::{Credentials, Head, Label};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Over TCP a client is who he says; this one may do everything.
pub(crate) const CRED: Credentials = Credentials { uid: 0, gid: 20, project: 30 };

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A directory that is removed with the value.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// Where pools survive a power cut: many machines have a temporary directory in memory.
    pub(crate) fn on_disk() -> Self {
        // Examples have no directory of their own.
        Self::below(Path::new(option_env!("CARGO_TARGET_TMPDIR").unwrap_or("/var/tmp")))
    }

    fn below(parent: &Path) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("dolmen-daemon-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// How a client reaches the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Rings,
    Socket,
    Tcp,
}

pub(crate) const WAYS: [Way; 3] = [Way::Rings, Way::Socket, Way::Tcp];

pub(crate) struct Served {
    pub(crate) daemon: Daemon,
    pub(crate) dir: Scratch,
    /// What it has said to who runs the machine.
    pub(crate) notes: Arc<Mutex<Vec<String>>>,
}

impl Served {
    pub(crate) fn start() -> Self {
        Self::over(Scratch::new())
    }

    /// A daemon for what is in `dir` already.
    pub(crate) fn over(dir: Scratch) -> Self {
        Self::over_with(dir, |_| ())
    }

    /// A daemon that may do what is said.
    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::over_with(Scratch::new(), change)
    }

    fn over_with(dir: Scratch, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::new(dir.path().to_owned());
        change(&mut settings);
        settings.addresses.push(Address::Tcp("127.0.0.1:0".parse().unwrap()));
        let notes = Arc::<Mutex<Vec<String>>>::default();
        let told = Arc::clone(&notes);
        let note = move |note: &str| {
            eprintln!("daemon: {note}");
            told.lock().unwrap().push(note.to_owned());
        };
        Self { daemon: Daemon::start(&settings, note).unwrap(), dir, notes }
    }

    pub(crate) fn link(&self, way: Way) -> Link {
        let address = &self.daemon.addresses()[usize::from(way == Way::Tcp)];
        let ring_bytes = if way == Way::Rings { 1 << 18 } else { 0 };
        let link = Link::connect(address, &LinkOptions { ring_bytes, ..LinkOptions::default() }).unwrap();
        assert_eq!(link.is_ring(), way == Way::Rings);
        link
    }

    pub(crate) fn create(&self, link: &Link, label: &str) {
        create(link, label);
    }

    pub(crate) fn pool(&self, link: &Link, label: &str) -> Pool {
        pool(link, label)
    }
}

/// Makes a pool of two targets, which may be lost with the power.
pub(crate) fn create(link: &Link, label: &str) {
    let spec = PoolSpec {
        label: Some(Label::new(label).unwrap()),
        targets: Some(2),
        capacity_bytes: Some(1 << 30),
        volatile: true,
        ..PoolSpec::default()
    };
    let reply = link.ask_system(&Head::default(), &SystemVerb::PoolCreate(spec)).unwrap();
    assert!(matches!(reply, SystemReply::Created(entry) if entry.target_count == 2));
}

pub(crate) fn pool(link: &Link, label: &str) -> Pool {
    Pool::connect(Arc::new(remote(link, label).unwrap()), CRED).unwrap()
}

pub(crate) fn remote(link: &Link, label: &str) -> dolmen_types::Result<Remote> {
    let name = PoolName::Label(Label::new(label).unwrap());
    Remote::open(link, &Head { cred: CRED, ..Head::default() }, name, PoolAccess::ReadWrite)
}

/// Polls an operation until it has ended.
pub(crate) fn ended<T>(operation: impl Future<Output = T>) -> T {
    let mut operation = Box::pin(operation);
    loop {
        if let Poll::Ready(result) = step(&mut operation) {
            return result;
        }
        dolmen_env::yield_now();
    }
}
