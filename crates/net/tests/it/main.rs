//! The rings in all orders that two processors may see; who comes and says nothing; daemons that answer what they like, or when
//! they are told to, rounds over several of them, who has files open over the end of connections, an epoch that goes while it is read, and whose turn it is of many who ask for much; daemons that are started when nobody serves.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod double;
mod given_back;
mod gone;
mod obedient;
#[expect(unsafe_code, reason = "cells that loom watches are reached through pointers")]
mod orders;
mod present;
mod silent;
mod started;
mod together;
mod turns;
mod wrong;
