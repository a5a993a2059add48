//! The one door to clock, randomness, threads and disk: real, and simulated with faults from a seed.
//!
//! Everything above this crate is deterministic given what comes through here, so everything above it can
//! be simulated: an engine that takes `impl Disk`, `&dyn Clock` and `Rng` runs unchanged on a machine and in
//! [`sim`].
//!
//! - [`Disk`] is a directory on one device: [`RealDisk`] (`io_uring`, direct I/O, mapped files),
//!   [`Emulated`] (a real one made slower, or failing), [`sim::SimDisk`] (loses, tears and flips what was
//!   not flushed, fails at the n-th operation).
//! - [`Region`] is a file as memory, the only way to write mapped media.
//! - [`RealRoot`] is an owned pool directory; [`DirLock`] its lock.
//! - [`Socket`], [`Listener`], [`Waiter`] and [`SharedMemory`]: other processes.
//! - [`keep_apart`]: their descriptors, in a program of others.
//! - [`KernelDevice`]: file systems that this process serves.
//! - [`Clock`], [`Rng`], [`spawn`], [`scope`] and the counters of the process.
//!
//! Invariants: this is the only crate below the doors with `unsafe`; each use says why it is sound.

mod account;
#[expect(unsafe_code, reason = "signals have no safe interface; each use says why it is sound")]
mod afresh;
mod apart;
mod clock;
mod disk;
mod emulate;
mod error;
#[expect(unsafe_code, reason = "advice about forks has no safe interface; each use says why it is sound")]
mod fork;
#[expect(unsafe_code, reason = "mmap has no safe interface; each use says why it is sound")]
mod held;
#[expect(unsafe_code, reason = "hints take addresses; each use says why it is sound")]
mod hint;
mod journal;
mod kernel;
#[expect(unsafe_code, reason = "instructions have no safe interface; the use says why it is sound")]
mod lanes;
mod meanwhile;
#[expect(
    unsafe_code,
    reason = "a descriptor known by its number has no safe interface; the use says why it is sound"
)]
mod process;
#[expect(unsafe_code, reason = "io_uring and mmap have no safe interface; each use says why it is sound")]
mod real;
mod record;
mod region;
mod rng;
mod root;
mod say;
#[expect(unsafe_code, reason = "memory shared between processes; each use says why it is sound")]
mod shared;
pub mod sim;
mod slots;
mod socket;
#[expect(unsafe_code, reason = "advice about memory has no safe interface; the use says why it is sound")]
mod spared;
mod thread;
#[expect(unsafe_code, reason = "names of users have no safe interface; each use says why it is sound")]
mod users;

pub use account::{Account, account};
pub use afresh::{begin_afresh, check_limits};
pub use apart::{OwnFd, apart, forget_apart, is_apart, keep_apart};
pub use clock::{Clock, RealClock, SimClock, process_cpu_ns};
pub use disk::{Disk, FileId, Io, IoDone, IoOp, Media, Mode, NAME_BYTES_MAX, Space};
pub use emulate::{Emulated, Limits};
pub use error::{Errno, Error, Op, Result};
pub use fork::{ForkMark, PerProcess};
pub use held::{HeldMemory, available_memory_bytes};
pub use hint::{give_memory_back, prefer_huge_pages, prefetch, prefetch_line};
pub use journal::{Journal, JournalSync};
pub use kernel::{
    InUse, KernelDevice, MOUNT_HELPER, MOUNT_TYPE, MountRequest, Mounted, Received, Replied, RingEntry,
    RingRequest, close_standard_output, forget_mount, mounted_as, mounted_at, mounts_of, mounts_of_process,
    ring_queues, unmount,
};
pub use lanes::{Lanes, zip_lanes};
pub use meanwhile::{look, look_while_waiting};
pub use process::{
    NO_HOME, Process, Started, create_dir_all, data_directory, dolmen_program, groups_of, is_being_killed,
    is_dying, is_ending, is_machine_system, keep_descriptors_to_itself, machine_socket, mark_machine_system,
    process_id, raise_descriptor_limit,
};
pub use real::{RealDisk, RealOptions};
pub use record::{
    certs_directory, create_own_dir, is_own_link, named_system, object_variable, read_record, write_record,
};
pub use region::{Region, copy_crc};
pub use rng::{Rng, Secrets, entropy_u64};
pub use root::{DirLock, HeldDir, RealRoot, entries, read_small, subdirectories, unfinished_name};
pub use say::{say, say_after, say_as_is};
pub use shared::{SharedMemory, WORD_BYTES};
pub use socket::{
    Address, Bell, Listener, Moved, Peer, Ready, Socket, Waiter, link_socket, notify_ready, open_socket_to,
    peer_watch, remove_socket, unlink_socket,
};
pub use spared::Spared;
pub use thread::{
    Load, anonymous_rss_bytes, come_behind, cpu_count, current_cpu, leave_cpu, on_cpu, peak_rss_bytes,
    pin_to_cpu, rss_bytes, scope, spawn, spawn_within, user_id, wait, yield_now,
};
pub use users::{
    group_name, group_named, group_principal, is_open_to_others, owner_of, user_name, user_named,
    user_principal,
};
