//! The rings in all orders that two processors may see; who comes and says nothing; daemons that answer what they like, and an
//! epoch that goes while it is read.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod double;
mod gone;
#[expect(unsafe_code, reason = "cells that loom watches are reached through pointers")]
mod orders;
mod silent;
