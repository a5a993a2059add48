//! The Python door: the extension module `dolmen._dolmen` behind the Python package `dolmen` in the folder `python`.
//!
//! One module of this crate a topic; each has a function `register` that adds its classes and functions. The package lays names
//! together, and has what is better said in Python: the tree of exceptions, `dolmen.fsspec`, `dolmen.aio`.
//!
//! Invariants: the interpreter's lock is held while arguments are taken apart and results are made, and by nobody who asks a pool
//! or waits for another thread ([`slot`]); what was opened by a process is never touched by a child that was forked from it, not
//! even to be closed; no exception and no signal comes between an operation's begin and its end.

mod address;
mod array;
#[expect(unsafe_code, reason = "the buffer protocol is one of pointers; each use says why it is sound")]
mod buffer;
mod container;
mod error;
mod files;
mod here;
mod kv;
mod module;
mod ntuple;
mod object;
mod oid;
mod own;
mod pool;
mod slot;
mod tx;
mod watch;
