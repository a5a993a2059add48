//! The target through its public interface, on simulated and real devices.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod apart;
mod basics;
mod beside;
mod bounds;
mod budget;
mod changes;
mod collide;
mod conformance;
mod crash;
mod cuts;
mod damaged;
mod decisions;
mod edges;
mod faults;
mod full;
mod joins;
mod kill;
mod late;
mod live;
mod merges;
mod open;
mod pressure;
mod quota;
mod reach;
mod ready;
mod rest;

mod refused;
mod resent;
mod rig;
mod rolled;
mod rot;
mod scrub;
mod seen;
mod side;
mod strays;
mod twice;
