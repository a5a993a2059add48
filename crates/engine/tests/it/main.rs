//! The target through its public interface, on simulated and real devices.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod basics;
mod budget;
mod conformance;
mod crash;
mod kill;
mod late;
mod rig;
mod rot;
mod seen;
mod side;
