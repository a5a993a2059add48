//! The C interface, as C programs see it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod acl;
mod array;
mod cont;
mod errors;
mod event;
mod fs_attrs;
mod fs_check;
mod fs_event;
mod fs_files;
mod fs_fork;
mod fs_global;
mod fs_mount;
mod fs_names;
mod fs_refused;
mod fs_shared;
mod fs_snap;
mod fs_sys;
mod fs_threads;
mod fs_uns;
mod fs_valgrind;
mod global;
mod gurt_hash;
mod gurt_misc;
mod killed;
mod kit;
mod kv;
mod later;
mod layout;
mod life;
mod mgmt;
mod nothing;
mod obj;
mod pipeline;
mod pool;
mod prop;
mod refused;
mod scripted;
mod shared;
mod snap;
mod symbols;
mod threads;
mod tx;
mod types;
mod valgrind;
