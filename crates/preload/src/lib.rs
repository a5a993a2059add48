//! `libdolmen_preload.so`: loaded before the C library (`LD_PRELOAD`), it takes the calls of a program that concern regular
//! files below a mount of Dolmen, and answers them from the store, without the kernel and the mount between.
//!
//! - [`place`] has the kernel resolve the directory of a path, so that links, `..`, permissions on the way and what is mounted
//!   over what are the kernel's, and finds the directory in the container.
//! - [`open`] is an open file; [`files`] knows which descriptors stand for one. The descriptor itself is one of the file's
//!   directory that nothing can be read or written through (`O_PATH`).
//! - [`copies`] moves contents from one open file to another.
//! - [`settle`] gives a file back to the kernel, for good: what needs the kernel's own object does that first.
//! - [`names`] makes, removes and moves what has names.
//! - [`stream`] is a directory that is listed.
//! - [`attrs`] sets attributes of files, and [`rights`] says what these let the process do.
//! - [`heard`] remembers what was found of names under leases, and listens for who changes it.
//! - [`mounts`] finds mounts and connects to their pools, and [`why`] says why it does not; [`calls`] has the functions that programs call.
//!
//! What cannot be taken, or fails, is handed on: the mount gives the answer, and the number of the error.
//!
//! Invariants: no function of the kernel ever acts on a descriptor that stands for a taken file, but to duplicate or to close
//! it; no lock of this library is held while a function of the program runs; a thread in this library gets no signals.

#![expect(unsafe_code, reason = "C hands over addresses; each use says why it is sound")]

mod attrs;
mod calls;
mod copies;
mod files;
mod guard;
mod heard;
mod memory;
mod mounts;
mod names;
mod next;
mod open;
mod place;
mod report;
mod rights;
mod settle;
mod stat;
mod state;
mod stream;
mod system;
mod why;
