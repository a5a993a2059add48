//! The functions that programs call instead of those of the C library.

mod attrs;
mod data;
mod descriptors;
mod dirs;
mod handed;
mod names;
mod opening;
mod processes;
mod status;
