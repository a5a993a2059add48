//! The rings in all orders that two processors may see; who comes and says nothing.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[expect(unsafe_code, reason = "cells that loom watches are reached through pointers")]
mod orders;
mod silent;
