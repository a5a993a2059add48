//! libgurt: the helpers of DAOS that programs link.

mod env;
mod hash;
mod hashes;
mod log;
mod memory;
