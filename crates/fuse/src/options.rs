//! What a mount promises to those who use it beside others.

use core::time::Duration;
use dolmen_types::Uuid;

/// What the kernel may remember of what it was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Caching {
    /// Nothing: every look and every read comes here, and sees what others have just done.
    Off,
    /// Names and attributes for the timeout, or for as long as leases hold; contents never.
    #[default]
    Metadata,
    /// Contents as well, between an open and the next: an open that finds other attributes than the last one forgets
    /// what was remembered, and so does a look at the attributes. What is written is stored when the write returns.
    Data,
}

/// How a mount behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// What the kernel may remember.
    pub caching: Caching,
    /// For how long it may remember names and attributes.
    pub timeout: Duration,
    /// What is found is asked for with leases, and remembered for as long as these hold: whoever starts the session tells it
    /// which are void ([`Session::drop_void`](crate::Session::drop_void)).
    pub leases: bool,
    /// Under which random number the mount keeps locks of its processes at the engine, where several mounts share files; without
    /// one, the kernel keeps them.
    pub locks: Option<Uuid>,
    /// Threads that serve; at least 2, of which one hears interrupts when all others wait.
    pub threads: usize,
    /// Requests may come over `io_uring`, where the kernel offers it. Not where contents are remembered: what was read over a ring
    /// is given up only with the whole mount, and when a process is killed that waits for it nobody gives that up.
    pub ring: bool,
}

impl Options {
    /// How long names and attributes are remembered if nobody says otherwise.
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
    /// Threads if nobody says otherwise: as many requests can wait for the store at once.
    pub const THREADS_DEFAULT: usize = 16;

    pub(crate) fn takes_ring(&self) -> bool {
        self.ring && self.caching != Caching::Data
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        let time = if self.caching == Caching::Off { Duration::ZERO } else { self.timeout };
        Timeouts { names: time, attrs: time }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            caching: Caching::default(),
            timeout: Self::TIMEOUT_DEFAULT,
            leases: false,
            locks: None,
            threads: Self::THREADS_DEFAULT,
            ring: false,
        }
    }
}

/// For how long the kernel may go without asking again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// About what has a name.
    pub names: Duration,
    /// About attributes.
    pub attrs: Duration,
}
