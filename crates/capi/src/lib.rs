//! The C interface of DAOS on Dolmen: what `libdaos.so.2` and its companions export.
//!
//! Programs written for DAOS are compiled with the headers in `include/` and linked with this library; all names, numbers
//! and layouts are those of DAOS 2.8. Every function checks what it is given and answers with `-DER_*` (or, from `dfs_*` and
//! `duns_*`, a positive errno); none crashes for an unknown handle, and a panic inside stays inside.
//!
//! - [`raw`] is the one place that follows a caller's pointer, [`error`] the one where an outcome becomes a number.
//! - [`handle`] is the table of everything that a C program holds a cookie of; [`life`] is `daos_init` to `daos_fini`,
//!   and what a fork does to it; [`place`] finds the pools that a name means.
//!
//! Invariants: a pointer is followed only during the call that it came with, or, for the buffers of an asynchronous
//! operation, until its event has completed; no lock of this crate is held while a callback of the program runs.

#![warn(clippy::print_stderr)] // It panics where nothing can be written: `dolmen_env::say` does not.
#![expect(unsafe_code, reason = "C hands over addresses; each use says why it is sound")]

mod acl;
mod array;
mod attr;
mod buffer;
mod class;
mod cont;
mod error;
mod event;
mod fork;
mod fs;
mod global;
mod gurt;
mod handle;
mod io;
mod kv;
mod life;
mod list;
mod mgmt;
mod object;
mod oit;
mod pipeline;
mod place;
mod pool;
mod prop;
mod raw;
mod snap;
mod table;
mod tx;
mod types;
mod walk;
