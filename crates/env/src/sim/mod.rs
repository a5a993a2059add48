//! The simulated outside: a disk that loses, tears and flips, and a scheduler, all from a seed.
//!
//! A [`SimDrive`] is the device; it outlives the program under test. A [`SimDisk`] is the program's way to
//! it. A crash test runs a script with [`SimPower::fail_at`] set to each boundary in turn, makes the
//! images that the device could hold afterwards with [`SimDrive::crash`], and opens each:
//!
//! ```
//! use dolmen_env::{Disk, sim::{CrashPlan, Fault, SimConfig, SimDisk, SimDrive}};
//! let drive = SimDrive::new(SimConfig::default());
//! let mut disk = SimDisk::new(&drive);
//! let file = disk.create("log", 4096)?;
//! disk.sync_names()?;
//! drive.power().fail_at(drive.power().ops() + 1, Fault::Crash);
//! disk.write_at(file, 0, b"kept or not")?;
//! assert!(disk.flush(file).is_err());
//! for plan in drive.crash_plans(32) {
//!     let after = drive.crash(plan);
//!     let mut disk = SimDisk::new(&after);
//!     let file = disk.open("log")?;
//!     assert_eq!(disk.len(file)?, 4096);
//! }
//! # Ok::<(), dolmen_env::Error>(())
//! ```
//!
//! Invariants: equal seeds and equal calls give equal results; nothing here reads a clock or starts a
//! thread.

mod crash;
mod disk;
mod drive;
mod image;
mod power;
mod sched;

pub use crash::CrashPlan;
pub use disk::SimDisk;
pub(crate) use drive::RegionJournal;
pub use drive::{SimConfig, SimDrive, SimFiles, Unsynced};
pub use power::{Fault, SimPower};
pub use sched::{Outcome, SimSched, Step};
