//! The target through its public interface, on simulated and real devices.

mod basics;
mod conformance;
mod crash;
mod rig;
mod side;
